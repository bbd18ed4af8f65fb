//! A file in the making: it appears under its name only when it is complete.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// A file under a temporary name beside its final one, readable by its owner alone. Dropped without
/// [`FreshFile::publish`] it is gone.
pub(super) struct FreshFile {
    file: tempfile::NamedTempFile,
    path: PathBuf,
    force: bool,
}

impl FreshFile {
    /// Begins a file that is to be called `path`.
    pub(super) fn create(path: &Path, force: bool) -> Result<Self> {
        // A rename would put a file in place of a link or a device.
        let resolved = path.canonicalize();
        let path = resolved.as_deref().unwrap_or(path);
        match path.symlink_metadata() {
            Ok(meta) if !meta.is_file() => bail!("--output {}: is there and is no regular file", path.display()),
            Ok(_) if !force => {
                bail!("--output {}: exists already; choose another name or add --force", path.display())
            }
            _ => {}
        }
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let file = tempfile::Builder::new()
            .prefix(".ingero-")
            .suffix(".tmp")
            .tempfile_in(folder)
            .with_context(|| format!("--output {}: cannot create a file there", path.display()))?;
        Ok(Self { file, path: path.to_owned(), force })
    }

    /// A handle to write to.
    pub(super) fn writer(&self) -> Result<File> {
        self.file.as_file().try_clone().with_context(|| format!("cannot write {}", self.path.display()))
    }

    /// Gives the file its name.
    pub(super) fn publish(self) -> Result<()> {
        let Self { file, path, force } = self;
        let named = if force { file.persist(&path) } else { file.persist_noclobber(&path) };
        named.map(drop).map_err(|e| e.error).with_context(|| format!("--output {}: cannot be named so", path.display()))
    }
}
