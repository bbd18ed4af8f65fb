//! Where a conversion goes: a file that appears under its name only when it is complete.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::Error;

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
    /// [`Error::Exists`] when it exists and `force` is not set, [`Error::Io`] when the folder does
    /// not take it.
    pub fn create(path: &Path, force: bool) -> Result<Self, Error> {
        // A rename would put a file in place of a link or a device.
        let resolved = path.canonicalize();
        let path = resolved.as_deref().unwrap_or(path);
        match path.symlink_metadata() {
            Ok(meta) if !meta.is_file() => {
                let refusal = io::Error::new(io::ErrorKind::InvalidInput, "is there and is no regular file");
                return Err(Error::io(path.display().to_string(), refusal));
            }
            Ok(_) if !force => return Err(Error::Exists(path.to_owned())),
            _ => {}
        }
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // Asked first: what creating it answers names the temporary file, which means nothing to anybody.
        if let Err(e) = folder.metadata() {
            return Err(Error::io(format!("{}: directory {}", path.display(), folder.display()), e));
        }
        let mut prefix = std::ffi::OsString::from(".");
        prefix.push(path.file_name().unwrap_or_default());
        let file = tempfile::Builder::new()
            .prefix(&prefix)
            .suffix(".tmp")
            .tempfile_in(folder)
            .map_err(|e| Error::io(format!("creating a file in {}", folder.display()), e))?;
        Ok(Self { file, path: path.to_owned(), force })
    }

    /// A handle to write to.
    ///
    /// # Errors
    /// [`Error::Io`] when the system has no handle left.
    pub fn writer(&self) -> Result<File, Error> {
        self.file.as_file().try_clone().map_err(|e| Error::io(self.path.display().to_string(), e))
    }

    /// Its temporary name.
    #[must_use]
    pub fn temporary_path(&self) -> &Path {
        self.file.path()
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// [`Error::Exists`] when another one took the name meanwhile, [`Error::Io`] otherwise.
    pub fn publish(self) -> Result<(), Error> {
        let Self { file, path, force } = self;
        let named = if force { file.persist(&path) } else { file.persist_noclobber(&path) };
        match named {
            Ok(_) => Ok(()),
            Err(e) if e.error.kind() == io::ErrorKind::AlreadyExists => Err(Error::Exists(path)),
            Err(e) => Err(Error::io(format!("renaming to {}", path.display()), e.error)),
        }
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

        assert!(matches!(PendingFile::create(&path, false), Err(Error::Exists(_))));
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
