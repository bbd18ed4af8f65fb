//! A process that lets everyone go whom the recorder has stopped, should the recorder die before it could.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use anyhow::{Result, anyhow};

use crate::proc::process::list_ids;
use crate::proc::stat::Stat;
use crate::signals::open_pidfd;

/// Looks after the recorder's end: one who was about to be stopped when the probe went may stop a moment later.
const LOOKS: u32 = 20;
/// What is written to say that nobody is stopped any more, and that the recorder lives on.
const DONE: u8 = 1;
const PAUSE: Duration = Duration::from_millis(10);

/// Keeps the watchdog waiting; when this is dropped it looks for a moment and ends, when the recorder dies it looks until
/// all of the recorder is gone, the probe that stops programs included.
#[derive(Debug)]
pub struct Watchdog {
    /// Closed when the recorder dies.
    alive: File,
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // Where this fails the watchdog looks for longer.
        let _ = self.alive.write_all(&[DONE]);
    }
}

impl Watchdog {
    /// Starts it, for processes of the recorder's own group. To be called while the process has a single thread and holds
    /// nothing that should end with it.
    ///
    /// # Errors
    /// When the kernel refuses a pipe or a process.
    pub fn start() -> Result<Self> {
        let mut fds = [0; 2];
        // SAFETY: `fds` has room for two descriptors.
        if unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
            return Err(anyhow!("pipe: {}", io::Error::last_os_error()));
        }
        // SAFETY: the kernel has just made these two descriptors for us.
        let (read, write) = unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) };
        // SAFETY: no pointers.
        let group = unsafe { libc::getpgrp() };
        let recorder = open_pidfd(std::process::id())?;
        // SAFETY: there is one thread, so the child may run any code. Forked twice, so that nobody has to collect it.
        match unsafe { libc::fork() } {
            -1 => return Err(anyhow!("fork: {}", io::Error::last_os_error())),
            0 => {
                drop(write);
                // SAFETY: plain system calls of the child, which ends here.
                unsafe {
                    if libc::fork() == 0 {
                        watch(&read, &recorder, group);
                    }
                    libc::_exit(0)
                }
            }
            child => {
                // SAFETY: the child is our own; its status does not matter.
                unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
            }
        }
        Ok(Self { alive: File::from(write) })
    }
}

/// The watchdog's life.
fn watch(read: &OwnedFd, recorder: &OwnedFd, group: libc::pid_t) {
    let mut word = 0_u8;
    // SAFETY: plain system calls. A group of its own keeps it out of what the terminal sends to the recorder's group;
    // whoever waits for the end of the recorder's output must not wait for it.
    unsafe {
        libc::setpgid(0, 0);
        libc::prctl(libc::PR_SET_NAME, c"ingero-watchdog".as_ptr());
        for fd in 0..3 {
            libc::close(fd);
        }
        if libc::fork() == 0 {
            belong_to(group);
        }
        while libc::read(read.as_raw_fd(), (&raw mut word).cast(), 1) < 0
            && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
        {}
    }
    // A recorder that was killed closes its files one after another, and taking many probes away takes the kernel long:
    // until the last is closed programs are still stopped at their start.
    while word != DONE && !has_ended(recorder) {
        resume_group(group);
    }
    for _ in 0..LOOKS {
        resume_group(group);
        std::thread::sleep(PAUSE);
    }
}

/// The life of the watchdog's child: it belongs to the recorder's group and has its parent outside of it. A group without such a
/// member is an orphan once the recorder is dead, and where one of an orphaned group is stopped, the kernel hangs all of it up
/// (SIGHUP): the command would be killed, not go on.
fn belong_to(group: libc::pid_t) -> ! {
    // SAFETY: plain system calls. What a terminal sends to the group must not end it; the end of the watchdog does.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGTSTP] {
            libc::signal(signal, libc::SIG_IGN);
        }
        libc::setpgid(0, group);
        loop {
            libc::pause();
        }
    }
}

/// Whether the process of this descriptor has ended with all its files closed; waits a little if it has not.
fn has_ended(process: &OwnedFd) -> bool {
    let mut poll = libc::pollfd { fd: process.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let millis = i32::try_from(PAUSE.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: `poll` is one entry, as is said.
    unsafe { libc::poll(&raw mut poll, 1, millis) > 0 }
}

/// Lets every stopped process of the group go on.
fn resume_group(group: libc::pid_t) {
    for pid in list_ids("/proc") {
        let stopped = fs::read(format!("/proc/{pid}/stat")).ok().is_some_and(|stat| is_stopped_in(&stat, group));
        if let (true, Ok(pid)) = (stopped, libc::pid_t::try_from(pid)) {
            // SAFETY: no pointers.
            unsafe { libc::kill(pid, libc::SIGCONT) };
        }
    }
}

/// Whether `/proc/PID/stat` is that of a stopped process of this group.
fn is_stopped_in(stat: &[u8], group: libc::pid_t) -> bool {
    // The name may hold anything: fields are counted from its closing parenthesis.
    let Some(end) = stat.iter().rposition(|&b| b == b')').filter(|_| Stat::parse(stat).is_some()) else { return false };
    let text = String::from_utf8_lossy(stat.get(end + 1..).unwrap_or_default()).into_owned();
    let mut fields = text.split_ascii_whitespace();
    let (state, of) = (fields.next(), fields.nth(1));
    state == Some("T") && of.and_then(|of| of.parse().ok()) == Some(group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_stopped() {
        let own = fs::read("/proc/self/stat").unwrap();
        // SAFETY: no pointers.
        let group = unsafe { libc::getpgrp() };
        assert!(!is_stopped_in(&own, group));
        let text = String::from_utf8(own).unwrap();
        let (name, rest) = text.rsplit_once(") ").unwrap();
        let stopped = format!("{name}) T{}", &rest[1..]);
        assert!(is_stopped_in(stopped.as_bytes(), group));
        assert!(!is_stopped_in(stopped.as_bytes(), group + 1));
        assert!(!is_stopped_in(b"1 (x) T", group));
    }
}
