//! The output file: made once everything else is ready, and ended in whole chunks whatever happens to the disk.

use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, anyhow};

/// Room that is taken from the file system ahead of the end of the file. It must hold what is written between the first
/// sign of a full disk and the footer: what one batch fills, the rows not yet written, and the index.
const RESERVE_BYTES: u64 = 8 << 20;
/// On a disk with less room than that, the recording goes on until no more than this is left. The rows of a fifth of a
/// second and the index go into it, unless the recording is very busy.
const LAST_BYTES: u64 = 512 << 10;
/// Room is asked for in steps, so that few writes need a second call.
const STEP_BYTES: u64 = 8 << 20;

/// A file that knows of a full disk while it still has room of its own to end in good order.
#[derive(Debug)]
pub struct Output {
    file: File,
    written: u64,
    /// What the process may make a file grow to.
    limit: u64,
    /// Bytes of the file system that are ours; `None` where it cannot reserve any, or no more.
    reserved: Option<u64>,
    /// Bytes that are wanted ahead of the end; less once the disk has not got them.
    margin: u64,
    full: Arc<AtomicBool>,
}

impl Output {
    /// Creates the file, readable by its owner alone: a trace tells what ran.
    ///
    /// # Errors
    /// When it exists and may not be overwritten, or cannot be created.
    pub fn create(path: &Path, force: bool) -> Result<Self> {
        let mut options = OpenOptions::new();
        // A pipe that nobody reads would hold the recorder, deaf to signals, until somebody does.
        options.write(true).mode(0o600).custom_flags(libc::O_NONBLOCK);
        if force {
            options.create(true).truncate(false);
        } else {
            options.create_new(true);
        }
        let file = options.open(path).map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => {
                anyhow!("--output {}: exists already; choose another name or add --force", path.display())
            }
            _ if e.raw_os_error() == Some(libc::ENXIO) => {
                anyhow!("--output {}: is a pipe that nobody reads", path.display())
            }
            _ => anyhow!("--output {}: {e}", path.display()),
        })?;
        // SAFETY: no pointers; the descriptor is open. Write access and 0 are its only flags from here on.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, 0) } != 0 {
            return Err(anyhow!("--output {}: {}", path.display(), io::Error::last_os_error()));
        }
        if file.metadata()?.is_file() {
            // Two recorders in one file would leave nothing that can be read. Where there are no locks, nobody holds one.
            if matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
                return Err(anyhow!("--output {}: is being written by another recorder", path.display()));
            }
            file.set_len(0).map_err(|e| anyhow!("--output {}: {e}", path.display()))?;
            // One that was there may have been open to others. Not every file system has modes to set.
            let _ = file.set_permissions(Permissions::from_mode(0o600));
        }
        Ok(Self {
            file,
            written: 0,
            limit: size_limit(),
            reserved: Some(0),
            margin: RESERVE_BYTES,
            full: Arc::default(),
        })
    }

    /// Set once the file system has no more room than what was reserved: time to end the file.
    #[must_use]
    pub fn full(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.full)
    }

    /// Makes it another user's.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn give_to(&self, uid: u32, gid: u32) -> io::Result<()> {
        if self.file.metadata()?.is_file() {
            std::os::unix::fs::fchown(&self.file, Some(uid), Some(gid))?;
        }
        Ok(())
    }

    /// Gives back what was reserved and not needed.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn trim(&self) -> io::Result<()> {
        // Devices and pipes have no length to set.
        if self.file.metadata()?.is_file() { self.file.set_len(self.written) } else { Ok(()) }
    }

    fn reserve(&mut self, len: u64) {
        let end = self.written + len;
        if end + RESERVE_BYTES.min(self.limit / 2) > self.limit {
            self.full.store(true, Ordering::Relaxed);
        }
        while let Some(reserved) = self.reserved.filter(|&r| r < end + self.margin) {
            let needed = end + self.margin;
            // With plenty of room, more than is needed.
            let ahead = if self.margin == RESERVE_BYTES { needed + STEP_BYTES } else { needed };
            let got = self.allocate(reserved, ahead).or_else(|_| self.allocate(reserved, needed));
            match got {
                Ok(to) => self.reserved = Some(to),
                // Not every file system can reserve, and no device or pipe does: there the write itself will tell.
                Err(e) if !matches!(e.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG)) => {
                    self.reserved = None;
                }
                Err(_) if self.margin > LAST_BYTES => self.margin /= 2,
                Err(_) => {
                    self.full.store(true, Ordering::Relaxed);
                    self.reserved = None;
                }
            }
        }
    }

    /// Takes the room between two offsets.
    fn allocate(&self, from: u64, to: u64) -> io::Result<u64> {
        let to_off = |n| libc::off_t::try_from(n).map_err(io::Error::other);
        let (offset, len) = (to_off(from)?, to_off(to - from)?);
        // SAFETY: no pointers; the descriptor is open.
        match unsafe { libc::fallocate(self.file.as_raw_fd(), libc::FALLOC_FL_KEEP_SIZE, offset, len) } {
            0 => Ok(to),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// The size that files of this process may have (`ulimit -f`).
fn size_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: `limit` is a valid place for the call. Where it fails, there is no limit.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    limit.rlim_cur
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.reserve(bytes.len() as u64);
        let n = self.file.write(bytes)?;
        self.written += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_is_private_and_never_clobbers() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.igt");
        let mut out = Output::create(&path, false).unwrap();
        out.write_all(b"hello").unwrap();
        out.trim().unwrap();
        let meta = std::fs::metadata(&path).unwrap();
        assert_eq!((meta.len(), meta.permissions().mode() & 0o777), (5, 0o600));
        use std::os::unix::fs::MetadataExt;
        assert!(meta.blocks() * 512 < RESERVE_BYTES);
        assert!(Output::create(&path, false).unwrap_err().to_string().contains("--force"));
        let busy = Output::create(&path, true).unwrap_err().to_string();
        assert!(busy.ends_with("is being written by another recorder"), "{busy}");
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 5);
        drop(out);
        // One that others could read is private from the first byte on.
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        // A child that another test has just forked holds the closed file's lock until it executes its program.
        let again = (0..200).find_map(|_| {
            Output::create(&path, true).map_err(|_| std::thread::sleep(std::time::Duration::from_millis(10))).ok()
        });
        assert!(again.is_some());
        let meta = std::fs::metadata(&path).unwrap();
        assert_eq!((meta.len(), meta.permissions().mode() & 0o777), (0, 0o600));
        assert!(Output::create(dir.path(), true).is_err());
    }

    #[test]
    fn a_pipe_that_nobody_reads_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: the name ends with a zero byte.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        assert!(Output::create(&path, true).unwrap_err().to_string().ends_with("is a pipe that nobody reads"));
        let reader = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(&path).unwrap();
        let mut out = Output::create(&path, true).unwrap();
        out.write_all(b"hello").unwrap();
        out.trim().unwrap();
        let mut bytes = [0; 5];
        std::io::Read::read_exact(&mut &reader, &mut bytes).unwrap();
        assert_eq!(&bytes, b"hello");
    }

    #[test]
    fn a_size_limit_is_known_before_it_is_reached() {
        let dir = tempfile::tempdir().unwrap();
        let mut out = Output::create(&dir.path().join("x.igt"), false).unwrap();
        out.limit = 1000;
        out.write_all(&[0; 400]).unwrap();
        assert!(!out.full().load(Ordering::Relaxed));
        out.write_all(&[0; 200]).unwrap();
        assert!(out.full().load(Ordering::Relaxed));
    }

    #[test]
    fn a_device_takes_what_it_takes() {
        let mut out = Output::create(Path::new("/dev/null"), true).unwrap();
        out.write_all(&[0; 64]).unwrap();
        out.trim().unwrap();
        let mut full = Output::create(Path::new("/dev/full"), true).unwrap();
        assert!(full.write_all(b"x").is_err());
    }
}
