//! Marks that anyone writes as lines to a file: an epoch, a batch.
//!
//! It is a plain file, not a pipe: writing to it never blocks or fails, whatever becomes of the recorder. A line gets its time
//! when it is read, which the kernel asks for at once.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ingero_format::catalog::MARK_BYTES;

use crate::finding::{Finding, What};
use crate::text;

/// The variable that names the file to the command.
pub const VARIABLE: &str = "INGERO_MARKS";
/// Longest time between two looks: the net below the kernel's notices, and the time that a stop takes.
const LOOK: Duration = Duration::from_millis(50);
/// Bytes read at a time.
const CHUNK: usize = 64 << 10;

/// A file of marks.
#[derive(Debug)]
pub struct MarkFile {
    path: PathBuf,
    file: File,
    /// Made by this recording, in a folder of its own.
    private: bool,
    notices: Option<OwnedFd>,
    read_to: u64,
    /// Begin of a line that has not ended.
    rest: Vec<u8>,
}

impl MarkFile {
    /// Makes an empty file in a new folder that nobody else can put anything into.
    ///
    /// # Errors
    /// When there is no room for it.
    pub fn create() -> io::Result<Self> {
        let path = tempfile::Builder::new().prefix("ingero-marks-").tempdir()?.keep().join("marks");
        let file = OpenOptions::new().read(true).append(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Self::new(path, file, true))
    }

    /// Follows a file from its present end; makes it if there is none.
    ///
    /// # Errors
    /// When it can be neither opened nor made, or is no plain file.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).append(true).create(true).custom_flags(libc::O_NONBLOCK).open(path)?;
        let meta = file.metadata()?;
        if !meta.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "is no plain file"));
        }
        let mut marks = Self::new(fs::canonicalize(path)?, file, false);
        marks.read_to = meta.len();
        Ok(marks)
    }

    fn new(path: PathBuf, file: File, private: bool) -> Self {
        let notices = watch(&path);
        Self { path, file, private, notices, read_to: 0, rest: Vec::new() }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whoever owns the command must be able to write.
    #[must_use]
    pub fn is_private(&self) -> bool {
        self.private
    }

    /// Lets another user, as whom the command runs, write to a private file.
    pub fn give_to(&self, uid: u32, gid: u32) {
        if self.private {
            for path in [Some(self.path.as_path()), self.path.parent()].into_iter().flatten() {
                let _ = std::os::unix::fs::chown(path, Some(uid), Some(gid));
            }
        }
    }

    /// Takes the file away, when nobody is left to write to it.
    pub fn remove(&self) {
        if self.private {
            let _ = fs::remove_file(&self.path);
            if let Some(folder) = self.path.parent() {
                let _ = fs::remove_dir(folder);
            }
        }
    }

    /// Hands over the lines until the stop, and those that are there then; `take` returns whether it wants more.
    pub fn follow(&mut self, stopped: &Arc<AtomicBool>, mut take: impl FnMut(Vec<Finding>) -> bool) {
        loop {
            // Asked before reading: what was written until the stop is read after it.
            let last = stopped.load(Ordering::Acquire);
            let mut lines = self.read();
            if last && !self.rest.is_empty() {
                let rest = std::mem::take(&mut self.rest);
                lines.extend(mark(&rest));
            }
            if !lines.is_empty() && !take(lines) || last {
                return;
            }
            self.wait();
        }
    }

    /// The lines that have come to their end since the last time.
    fn read(&mut self) -> Vec<Finding> {
        let mut lines = Vec::new();
        // One who truncates it begins anew.
        if self.file.metadata().is_ok_and(|meta| meta.size() < self.read_to) {
            self.read_to = 0;
            self.rest.clear();
        }
        if self.file.seek(SeekFrom::Start(self.read_to)).is_err() {
            return lines;
        }
        let mut chunk = vec![0; CHUNK];
        while let Ok(count @ 1..) = self.file.read(&mut chunk) {
            self.read_to += count as u64;
            for &byte in chunk.get(..count).unwrap_or_default() {
                if byte == b'\n' {
                    lines.extend(mark(&self.rest));
                    self.rest.clear();
                } else if self.rest.len() < MARK_BYTES {
                    self.rest.push(byte);
                }
            }
        }
        lines
    }

    /// Until something was written, or for a while.
    fn wait(&self) {
        let Some(notices) = &self.notices else {
            std::thread::sleep(LOOK);
            return;
        };
        let mut poll = libc::pollfd { fd: notices.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let timeout = i32::try_from(LOOK.as_millis()).unwrap_or(i32::MAX);
        let mut notes = [0_u8; 4096];
        // SAFETY: one structure and a buffer of this function; the descriptor is open and does not block.
        unsafe {
            if libc::poll(&raw mut poll, 1, timeout) > 0 {
                libc::read(notices.as_raw_fd(), notes.as_mut_ptr().cast(), notes.len());
            }
        }
    }
}

fn mark(line: &[u8]) -> Option<Finding> {
    let text = text::from_bytes(line);
    let text = text.trim();
    (!text.is_empty()).then(|| Finding::now(What::Mark(text.to_owned())))
}

/// Asks the kernel to tell of writes. Without, there are still the looks.
fn watch(path: &Path) -> Option<OwnedFd> {
    let mut path = path.as_os_str().as_bytes().to_vec();
    path.push(0);
    // SAFETY: no pointers; then a zero-terminated path.
    unsafe {
        let fd = libc::inotify_init1(libc::IN_NONBLOCK | libc::IN_CLOEXEC);
        if fd < 0 {
            return None;
        }
        let owned = OwnedFd::from_raw_fd(fd);
        (libc::inotify_add_watch(fd, path.as_ptr().cast(), libc::IN_MODIFY) >= 0).then_some(owned)
    }
}

/// A file of marks that goes away with this value.
#[derive(Debug)]
pub struct Leftover(pub Option<MarkFile>);

impl Leftover {
    /// The file, which stays.
    #[must_use]
    pub fn take(mut self) -> Option<MarkFile> {
        self.0.take()
    }
}

impl Drop for Leftover {
    fn drop(&mut self) {
        if let Some(marks) = &self.0 {
            marks.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn texts(found: Vec<Finding>) -> Vec<String> {
        let text = |f: Finding| match f.what {
            What::Mark(text) => text,
            other => format!("{other:?}"),
        };
        found.into_iter().map(text).collect()
    }

    #[test]
    fn lines_are_marks() {
        let mut marks = MarkFile::create().unwrap();
        let mut writer = OpenOptions::new().append(true).open(marks.path()).unwrap();
        assert!(marks.is_private() && marks.read().is_empty());
        writer.write_all(b"epoch 1\n\n  batch 7 \r\nhalf").unwrap();
        assert_eq!(texts(marks.read()), ["epoch 1", "batch 7"]);
        writer.write_all(b" a line\n\xff\n").unwrap();
        assert_eq!(texts(marks.read()), ["half a line", "\\xff"]);
        writer.write_all(&[b'x'; 1000]).unwrap();
        writer.write_all(b"\n").unwrap();
        assert_eq!(texts(marks.read()), ["x".repeat(MARK_BYTES)]);
        // Written anew, as `echo > $INGERO_MARKS` does.
        fs::write(marks.path(), "anew\n").unwrap();
        assert_eq!(texts(marks.read()), ["anew"]);
        let path = marks.path().to_path_buf();
        marks.remove();
        assert!(!path.exists() && !path.parent().unwrap().exists());
    }

    #[test]
    fn what_stood_there_before_is_no_mark() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("marks");
        fs::write(&path, "old\n").unwrap();
        let mut marks = MarkFile::open(&path).unwrap();
        fs::write(&path, "old\nnew\nunended").unwrap();
        let (stopped, mut found) = (Arc::new(AtomicBool::new(true)), Vec::new());
        marks.follow(&stopped, |lines| {
            found.extend(lines);
            true
        });
        assert_eq!(texts(found), ["new", "unended"]);
        marks.remove();
        assert!(path.exists());
        assert!(MarkFile::open(dir.path()).is_err());
        assert!(MarkFile::open(&dir.path().join("no/such")).is_err());
    }
}
