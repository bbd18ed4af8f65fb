//! Temporary folders, and that none of them stays behind.
//!
//! Whoever ends in order takes its own away. One that was killed could not: the next one finds its folders by the lock in each, which nobody
//! holds any more.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

const PREFIX: &str = "ingero-mcp-";
/// Locked for as long as its folder is used. It has this name only while it is locked.
const LOCK: &str = "lock";

/// How often a folder is tried to be taken away, and the pause in between: a second at most.
const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(20);

/// The folders in use, and whether there may be more.
#[derive(Default)]
struct InUse {
    folders: Vec<PathBuf>,
    is_over: bool,
}

static IN_USE: Mutex<InUse> = Mutex::new(InUse { folders: Vec::new(), is_over: false });

fn in_use() -> MutexGuard<'static, InUse> {
    IN_USE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A folder, gone when this is dropped.
#[derive(Debug)]
pub(crate) struct Scratch {
    folder: TempDir,
    _lock: File,
}

impl Scratch {
    /// A new one.
    pub(crate) fn new() -> io::Result<Self> {
        let mut in_use = in_use();
        if in_use.is_over {
            return Err(io::Error::other("the server is about to end"));
        }
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir()?;
        let made = folder.path().join("unlocked");
        let lock = File::create(&made)?;
        lock.lock()?;
        fs::rename(&made, folder.path().join(LOCK))?;
        in_use.folders.push(folder.path().to_owned());
        Ok(Self { folder, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Until it is gone it is in use: the process, about to end, waits for that.
        let mut in_use = in_use();
        in_use.folders.retain(|folder| folder != self.folder.path());
        remove(self.folder.path());
    }
}

/// Takes away all folders, whoever still works in them, and lets nobody make another: for the end of the process.
pub(crate) fn end() {
    let mut in_use = in_use();
    in_use.is_over = true;
    in_use.folders.drain(..).for_each(|folder| remove(&folder));
}

/// Whoever still works in a folder may make a file in it while it is being taken away: then it is taken away again. What cannot be
/// removed all the same is found by whoever comes next.
fn remove(folder: &Path) {
    for _ in 0..TRIES {
        match fs::remove_dir_all(folder) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => thread::sleep(PAUSE),
            _ => return,
        }
    }
}

/// Takes away what others left when they were killed.
pub(crate) fn sweep() {
    sweep_in(&std::env::temp_dir());
}

fn sweep_in(place: &Path) {
    let Ok(entries) = fs::read_dir(place) else { return };
    for entry in entries.filter_map(Result::ok) {
        let is_ours = entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes());
        // A link is nobody's folder.
        if !is_ours || !entry.file_type().is_ok_and(|t| t.is_dir()) {
            continue;
        }
        // Somebody else's cannot be locked: it is readable by its owner alone.
        let lock = File::options().write(true).open(entry.path().join(LOCK));
        if let Ok(lock) = lock
            && lock.try_lock().is_ok()
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_what_was_left_goes() {
        let place = tempfile::tempdir().unwrap();
        let folder = |name: &str| {
            let path = place.path().join(name);
            fs::create_dir(&path).unwrap();
            path
        };
        let (left, used) = (folder("ingero-mcp-left"), folder("ingero-mcp-used"));
        let (young, other) = (folder("ingero-mcp-young"), folder("other"));
        for path in [&left, &used, &other] {
            fs::write(path.join(LOCK), "").unwrap();
            fs::write(path.join("tables.sqlite"), "x").unwrap();
        }
        let lock = File::options().write(true).open(used.join(LOCK)).unwrap();
        lock.lock().unwrap();
        sweep_in(place.path());
        assert_eq!([left, used, young, other].map(|path| path.exists()), [false, true, true, true]);
    }

    #[test]
    fn a_folder_is_gone_with_its_owner() {
        let scratch = Scratch::new().unwrap();
        let path = scratch.path().to_owned();
        assert!(path.join(LOCK).exists());
        assert!(File::options().write(true).open(path.join(LOCK)).unwrap().try_lock().is_err());
        drop(scratch);
        assert!(!path.exists());
    }
}
