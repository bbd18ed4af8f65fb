//! Where a program's output goes: a file that appears under its name only when it is complete.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// An output that could not be written.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// It is there already.
    #[error("{0}: exists already; choose another name or add --force")]
    Exists(PathBuf),
    /// It is what the program reads.
    #[error("{0}: is what is read, and would be lost; choose another name")]
    Input(PathBuf),
    /// The operating system refused.
    #[error("{what}: {source}")]
    Io {
        /// What was being done, with the path.
        what: String,
        /// Its answer.
        #[source]
        source: io::Error,
    },
}

impl OutputError {
    fn io(what: impl Into<String>, source: io::Error) -> Self {
        Self::Io { what: what.into(), source }
    }
}

/// Temporary names in use, to be taken away when a signal ends the program.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the program reads: device and inode of each file.
static READ: Mutex<Vec<(u64, u64)>> = Mutex::new(Vec::new());

fn read() -> MutexGuard<'static, Vec<(u64, u64)>> {
    READ.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a file is what the program reads, whatever name leads to it: for whoever asks before the work.
#[must_use]
pub fn is_kept(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| read().contains(&(meta.dev(), meta.ino())))
}

/// From here on no output takes the place of this file, whatever name leads to it and though it may be overwritten.
pub fn keep(path: &Path) {
    if let Ok(meta) = path.metadata() {
        read().push((meta.dev(), meta.ino()));
    }
}

/// From here on SIGINT, SIGTERM and SIGHUP take away what is unfinished; then `end` is called, which should end the program.
///
/// # Errors
/// [`ctrlc::Error`] when the system does not let signals be handled.
pub fn forget_on_signal(end: impl Fn() + Send + 'static) -> Result<(), ctrlc::Error> {
    ctrlc::set_handler(move || {
        // Held to the end: nothing new is begun meanwhile.
        let names = unfinished();
        names.iter().for_each(|name| take_away(name));
        end();
    })
}

/// Takes away what is unfinished. Whoever writes into a folder goes on meanwhile: what it puts there has to go as well.
fn take_away(name: &Path) {
    for _ in 0..1000 {
        let gone = if name.is_dir() { std::fs::remove_dir_all(name) } else { std::fs::remove_file(name) };
        match gone {
            Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            // What has its final name by now is finished.
            _ => return,
        }
    }
}

/// A file in the making, under a temporary name beside its final one, readable by its owner alone.
/// Dropped without [`PendingFile::publish`] it is gone.
#[derive(Debug)]
pub struct PendingFile {
    file: tempfile::NamedTempFile,
    path: PathBuf,
    force: bool,
}

impl PendingFile {
    /// Begins a file that is to be called `path`.
    ///
    /// # Errors
    /// [`OutputError::Exists`] when it exists and `force` is not set, [`OutputError::Io`] when the folder does
    /// not take it.
    pub fn create(path: &Path, force: bool) -> Result<Self, OutputError> {
        // A rename would put a file in place of a link or a device.
        let resolved = path.canonicalize();
        let path = resolved.as_deref().unwrap_or(path);
        match path.symlink_metadata() {
            Ok(meta) if !meta.is_file() => {
                let refusal = io::Error::new(io::ErrorKind::InvalidInput, "is there and is no regular file");
                return Err(OutputError::io(path.display().to_string(), refusal));
            }
            Ok(_) if !force => return Err(OutputError::Exists(path.to_owned())),
            Ok(meta) if read().contains(&(meta.dev(), meta.ino())) => return Err(OutputError::Input(path.to_owned())),
            _ => {}
        }
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // Asked first: what creating it answers names the temporary file, which means nothing to anybody.
        if let Err(e) = folder.metadata() {
            return Err(OutputError::io(format!("{}: directory {}", path.display(), folder.display()), e));
        }
        let mut prefix = std::ffi::OsString::from(".");
        prefix.push(path.file_name().unwrap_or_default());
        let mut names = unfinished();
        let file = tempfile::Builder::new()
            .prefix(&prefix)
            .suffix(".tmp")
            .tempfile_in(folder)
            .map_err(|e| OutputError::io(format!("creating a file in {}", folder.display()), e))?;
        names.push(file.path().to_owned());
        drop(names);
        Ok(Self { file, path: path.to_owned(), force })
    }

    /// A handle to write to.
    ///
    /// # Errors
    /// [`OutputError::Io`] when the system has no handle left.
    pub fn writer(&self) -> Result<File, OutputError> {
        self.file.as_file().try_clone().map_err(|e| OutputError::io(self.path.display().to_string(), e))
    }

    /// Its temporary name.
    #[must_use]
    pub fn temporary_path(&self) -> &Path {
        self.file.path()
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// [`OutputError::Exists`] when another one took the name meanwhile, [`OutputError::Io`] otherwise.
    pub fn publish(self) -> Result<(), OutputError> {
        let Self { file, path, force } = self;
        let mut names = unfinished();
        names.retain(|name| name != file.path());
        let named = if force { file.persist(&path) } else { file.persist_noclobber(&path) };
        match named {
            Ok(_) => Ok(()),
            Err(e) if e.error.kind() == io::ErrorKind::AlreadyExists => Err(OutputError::Exists(path)),
            Err(e) => Err(OutputError::io(format!("renaming to {}", path.display()), e.error)),
        }
    }
}

/// A folder in the making. Dropped it is gone, with all that is in it.
#[derive(Debug)]
pub struct PendingFolder(tempfile::TempDir);

impl PendingFolder {
    /// Makes a folder under a temporary name within `folder`.
    ///
    /// # Errors
    /// [`OutputError::Io`] when `folder` does not take it.
    pub fn create(folder: &Path) -> Result<Self, OutputError> {
        let mut names = unfinished();
        let made = tempfile::Builder::new()
            .prefix(".ingero-")
            .suffix(".tmp")
            .tempdir_in(folder)
            .map_err(|e| OutputError::io(format!("creating a folder in {}", folder.display()), e))?;
        names.push(made.path().to_owned());
        drop(names);
        Ok(Self(made))
    }

    /// Its temporary name.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for PendingFolder {
    fn drop(&mut self) {
        unfinished().retain(|name| name != self.0.path());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_appears_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.igt");
        let pending = PendingFile::create(&path, false).unwrap();
        pending.writer().unwrap().write_all(b"half").unwrap();
        drop(pending);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);

        let pending = PendingFile::create(&path, false).unwrap();
        pending.writer().unwrap().write_all(b"whole").unwrap();
        assert!(!path.exists());
        pending.publish().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"whole");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);

        assert!(matches!(PendingFile::create(&path, false), Err(OutputError::Exists(_))));
        let read = dir.path().join("read.igt");
        std::fs::write(&read, b"read").unwrap();
        std::os::unix::fs::symlink(&read, dir.path().join("same")).unwrap();
        keep(&read);
        for name in ["read.igt", "same", "./read.igt"] {
            assert!(matches!(PendingFile::create(&dir.path().join(name), true), Err(OutputError::Input(_))), "{name}");
            assert!(is_kept(&dir.path().join(name)));
        }
        PendingFile::create(&path, true).unwrap().publish().unwrap();
        assert!(PendingFile::create(dir.path(), true).is_err());
        let nowhere = PendingFile::create(&dir.path().join("no/folder"), false).unwrap_err().to_string();
        assert!(
            nowhere.ends_with("/no: No such file or directory (os error 2)") && nowhere.contains("no/folder: "),
            "{nowhere}"
        );
        assert!(PendingFile::create(Path::new("/dev/null"), true).is_err());

        let link = dir.path().join("link");
        std::os::unix::fs::symlink("run.igt", &link).unwrap();
        PendingFile::create(&link, true).unwrap().publish().unwrap();
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(std::fs::read(&path).unwrap(), b"");
    }
}
