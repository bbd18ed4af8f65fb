//! Signals as events to wait for, together with the ends of processes.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use anyhow::{Result, anyhow};

/// A signal that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signal {
    /// Its number.
    pub number: i32,
    /// The terminal sent it to the whole foreground group, the command included; else a process sent it to the recorder alone.
    pub from_terminal: bool,
}

/// SIGINT, SIGTERM, SIGHUP and SIGUSR1, blocked and read from a descriptor. To be made after the command was forked and before any
/// thread starts, so that the command inherits nothing of it and every thread does.
#[derive(Debug)]
pub struct SignalQueue(OwnedFd);

impl SignalQueue {
    /// Blocks the signals and opens the descriptor.
    ///
    /// An ignored SIGHUP (`nohup`) stays ignored. SIGINT does not: a script's background jobs start with it ignored, and
    /// `kill -INT` is how scripts end a recording.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn open() -> Result<Self> {
        // SAFETY: a zeroed set and a zeroed action are valid values that the calls below fill in.
        let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
        for number in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1] {
            // SAFETY: as above; the null pointer leaves the action as it is.
            unsafe {
                let mut old: libc::sigaction = std::mem::zeroed();
                libc::sigaction(number, std::ptr::null(), &raw mut old);
                if old.sa_sigaction == libc::SIG_IGN && number == libc::SIGHUP {
                    continue;
                }
                libc::sigaddset(&raw mut set, number);
                libc::signal(number, libc::SIG_DFL);
            }
        }
        // A file that may grow no more (`ulimit -f`) is an error like a full disk, not the end.
        // SAFETY: no handler is installed.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
        // SAFETY: `set` is valid; the old mask is not asked for.
        let fd = unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
            libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
        };
        if fd < 0 {
            return Err(anyhow!("signalfd: {}", io::Error::last_os_error()));
        }
        // SAFETY: the kernel has just made this descriptor for us.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// The next signal, if one has come.
    #[must_use]
    pub fn next(&self) -> Option<Signal> {
        // SAFETY: a zeroed structure is a valid place for the kernel to write one.
        let mut info: libc::signalfd_siginfo = unsafe { std::mem::zeroed() };
        let size = size_of_val(&info);
        // SAFETY: `info` has room for `size` bytes.
        let n = unsafe { libc::read(self.0.as_raw_fd(), (&raw mut info).cast(), size) };
        (usize::try_from(n) == Ok(size))
            .then(|| Signal { number: i32::try_from(info.ssi_signo).unwrap_or(0), from_terminal: info.ssi_code > 0 })
    }

    /// Waits for a signal, for one of the descriptors, or for the time to pass. Says which descriptors are ready.
    #[must_use]
    pub fn wait(&self, others: &[BorrowedFd<'_>], timeout: Duration) -> Vec<bool> {
        let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut fds = vec![entry(self.0.as_raw_fd())];
        fds.extend(others.iter().map(|fd| entry(fd.as_raw_fd())));
        // Rounded up: a wait of less than a millisecond must not spin.
        let ms = i32::try_from(timeout.as_millis().saturating_add(1)).unwrap_or(i32::MAX);
        // SAFETY: the array is valid for its own length.
        unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, ms) };
        fds.iter().skip(1).map(|p| p.revents != 0).collect()
    }
}

/// A descriptor that becomes readable when the process ends.
///
/// # Errors
/// When there is no such process.
pub fn open_pidfd(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    match i32::try_from(fd) {
        // SAFETY: the kernel has just made this descriptor for us.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}
