//! Starting the command: forked early, held before its first instruction until everything is attached.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};

use crate::failure::{CommandEnd, Failure, NOT_EXECUTABLE, NOT_FOUND, OWN_FAILURE};
use crate::user::User;

/// What a shell runs a file with that has no `#!` line.
const SHELL: &CStr = c"/bin/sh";

/// A command that can be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Its file.
    pub path: PathBuf,
    /// Its arguments, the name first.
    pub args: Vec<OsString>,
}

impl Program {
    /// Finds the command as a shell would.
    ///
    /// # Errors
    /// With code 127 when there is none, 126 when it cannot be executed.
    pub fn find(args: &[OsString], search_path: Option<&OsStr>) -> Result<Self, Failure> {
        let name = args.first().map(OsString::as_os_str).unwrap_or_default();
        let found = |path: PathBuf| Self { path, args: args.to_vec() };
        let not_found = || Failure::new(NOT_FOUND, anyhow!("command {}: not found", name.display()));
        if name.is_empty() {
            return Err(not_found());
        }
        if name.as_bytes().contains(&b'/') {
            let path = PathBuf::from(name);
            return match check(&path) {
                Check::Runs => Ok(found(path)),
                Check::Missing => Err(not_found()),
                Check::Refused(why) => Err(not_executable(name, &why)),
            };
        }
        let mut refused = None;
        for dir in std::env::split_paths(search_path.unwrap_or(OsStr::new("/usr/local/bin:/usr/bin:/bin"))) {
            let dir = if dir.as_os_str().is_empty() { PathBuf::from(".") } else { dir };
            match check(&dir.join(name)) {
                Check::Runs => return Ok(found(dir.join(name))),
                Check::Missing => {}
                Check::Refused(why) => refused = Some(why),
            }
        }
        Err(refused.map_or_else(not_found, |why| not_executable(name, &why)))
    }
}

fn not_executable(name: &OsStr, why: &str) -> Failure {
    Failure::new(NOT_EXECUTABLE, anyhow!("command {}: {why}", name.display()))
}

enum Check {
    Runs,
    Missing,
    Refused(String),
}

fn check(path: &Path) -> Check {
    match fs::metadata(path) {
        Ok(m) if m.is_dir() => Check::Refused("is a directory".to_owned()),
        Ok(m) if m.permissions().mode() & 0o111 == 0 => Check::Refused("is not executable; chmod +x it".to_owned()),
        Ok(_) => Check::Runs,
        Err(e) => match e.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR) => Check::Missing,
            _ => Check::Refused(e.to_string()),
        },
    }
}

/// A command that was started: held at first, running after [`Launched::release`].
///
/// When the recorder dies before that, the command's process ends too: its pipe closes.
#[derive(Debug)]
pub struct Launched {
    pid: u32,
    name: OsString,
    pidfd: OwnedFd,
    go: Option<OwnedFd>,
    error: OwnedFd,
    end: Option<CommandEnd>,
}

impl Launched {
    /// Forks the command's process, which runs as `user` if there is one. To be called while the recorder has a single thread, before it blocks signals or opens
    /// anything that the command should not inherit.
    ///
    /// # Errors
    /// When the kernel refuses pipes or another process.
    pub fn fork(program: &Program, user: Option<&User>) -> Result<Self, Failure> {
        let (go_read, go_write) = pipe()?;
        let (error_read, error_write) = pipe()?;
        let to_c = |s: &OsStr| CString::new(s.as_bytes());
        let nul = || Failure::new(NOT_EXECUTABLE, anyhow!("command: an argument holds a zero byte"));
        let path = to_c(program.path.as_os_str()).map_err(|_| nul())?;
        let args = program.args.iter().map(|a| to_c(a)).collect::<Result<Vec<_>, _>>().map_err(|_| nul())?;
        let argv = pointers(args.iter());
        let own = std::env::vars_os();
        let env: Vec<(OsString, OsString)> = user.map_or_else(|| own.collect(), |u| u.environment(std::env::vars_os()));
        let env: Vec<CString> = env
            .iter()
            .filter_map(|(name, value)| CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).ok())
            .collect();
        let envp = pointers(env.iter());
        let mut shell_argv = vec![c"sh".as_ptr(), path.as_ptr()];
        shell_argv.extend(argv.iter().skip(1));

        // Whoever started the recorder may ignore SIGCHLD: children then vanish uncollected, and how the command ended
        // would be lost. The command itself gets it as it was.
        // SAFETY: no handler is set, here or before.
        let children = unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };

        // SAFETY: there is one thread, so the child may run any code; it makes only async-signal-safe calls on memory that
        // was made ready above, and leaves by exec or _exit.
        let pid = unsafe { libc::fork() };
        if pid < 0 {
            return Err(anyhow!("fork: {}", io::Error::last_os_error()).into());
        }
        if pid == 0 {
            let words = Words { path: &path, argv: &argv, shell_argv: &shell_argv, envp: &envp };
            // SAFETY: this is the child, the descriptors are its own copies, and the pointer arrays end with null.
            unsafe { run_child(&go_read, go_write, &error_write, &words, user, children) }
        }
        // SAFETY: no pointers; the child is not collected before this value is dropped, so its id is its own.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        let fd = i32::try_from(fd).ok().filter(|&fd| fd >= 0).ok_or_else(|| {
            // Dropping the pipes ends the child.
            anyhow!("pidfd_open: {}; a kernel of 5.3 or later is needed", io::Error::last_os_error())
        })?;
        // SAFETY: the kernel has just made this descriptor for us.
        let pidfd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self {
            pid: u32::try_from(pid).unwrap_or(0),
            name: program.args.first().cloned().unwrap_or_default(),
            pidfd,
            go: Some(go_write),
            error: error_read,
            end: None,
        })
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Becomes readable when the command ends.
    #[must_use]
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Lets the command run and waits until its program has been loaded.
    ///
    /// # Errors
    /// With code 127 or 126 when the kernel refuses to execute it.
    pub fn release(&mut self) -> Result<(), Failure> {
        let Some(go) = self.go.take() else { return Ok(()) };
        // A child that was killed meanwhile leaves a broken pipe: seen when it is waited for.
        let _ = fs::File::from(go).write_all(b"g");
        let mut code = Vec::new();
        let error = self.error.try_clone().context("duplicate a pipe")?;
        fs::File::from(error).read_to_end(&mut code).context("wait for the command")?;
        let Ok(code) = <[u8; 4]>::try_from(code.as_slice()) else { return Ok(()) };
        let error = io::Error::from_raw_os_error(i32::from_ne_bytes(code));
        let exit = match error.raw_os_error() {
            Some(libc::ENOENT) => NOT_FOUND,
            _ => NOT_EXECUTABLE,
        };
        let name = self.name.display();
        Err(Failure::new(exit, anyhow!("command {name}: {error}")))
    }

    /// Sends the command a signal. One that has ended gets none.
    pub fn signal(&self, signal: i32) {
        if self.end.is_none() {
            // SAFETY: the descriptor is open; the null pointer asks for the default information.
            unsafe {
                libc::syscall(
                    libc::SYS_pidfd_send_signal,
                    self.pidfd.as_raw_fd(),
                    signal,
                    std::ptr::null::<libc::siginfo_t>(),
                    0,
                )
            };
        }
    }

    /// How the command ended; `None` while it runs.
    pub fn try_wait(&mut self) -> Option<CommandEnd> {
        if self.end.is_none() {
            let mut status = 0;
            let pid = i32::try_from(self.pid).unwrap_or(0);
            // SAFETY: `status` is a valid place for the length of the call.
            let waited = unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) };
            if waited == pid {
                self.end = Some(CommandEnd::from_wait_status(status));
            } else if waited < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ECHILD) {
                // Someone else has collected it: how it ended is lost.
                self.end = Some(CommandEnd::Code(0));
            }
        }
        self.end
    }
}

fn pipe() -> Result<(OwnedFd, OwnedFd), Failure> {
    let mut fds = [0; 2];
    // SAFETY: `fds` has room for two descriptors.
    if unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(anyhow!("pipe: {}", io::Error::last_os_error()).into());
    }
    // SAFETY: the kernel has just made these two descriptors for us.
    Ok(unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) })
}

fn pointers<'a>(words: impl Iterator<Item = &'a CString>) -> Vec<*const libc::c_char> {
    words.map(|w| w.as_ptr()).chain([std::ptr::null()]).collect()
}

/// What exec takes, each array with a null pointer at its end.
struct Words<'a> {
    path: &'a CStr,
    argv: &'a [*const libc::c_char],
    shell_argv: &'a [*const libc::c_char],
    envp: &'a [*const libc::c_char],
}

/// The child between fork and exec.
///
/// # Safety
/// Only in the child of a fork; the arrays end with a null pointer and point at zero-terminated strings.
unsafe fn run_child(
    go: &OwnedFd,
    go_write: OwnedFd,
    error: &OwnedFd,
    words: &Words<'_>,
    user: Option<&User>,
    children: libc::sighandler_t,
) -> ! {
    // With the writing end open here, the end of the recorder would go unnoticed.
    drop(go_write);
    let mut byte = 0u8;
    // SAFETY: as this function's own contract says; each call is async-signal-safe.
    unsafe {
        // Rust ignores SIGPIPE in every program it starts; the command expects the default.
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::signal(libc::SIGCHLD, children);
        loop {
            match libc::read(go.as_raw_fd(), (&raw mut byte).cast(), 1) {
                1 => break,
                -1 if *libc::__errno_location() == libc::EINTR => {}
                _ => libc::_exit(i32::from(OWN_FAILURE)),
            }
        }
        // Groups first: who has given up being root may not change them. By plain system calls: the library's would
        // look for other threads.
        let is_user = user.is_none_or(|user| {
            libc::syscall(libc::SYS_setgroups, user.groups.len(), user.groups.as_ptr()) == 0
                && libc::syscall(libc::SYS_setresgid, user.gid, user.gid, user.gid) == 0
                && libc::syscall(libc::SYS_setresuid, user.uid, user.uid, user.uid) == 0
        });
        if is_user {
            libc::execve(words.path.as_ptr(), words.argv.as_ptr(), words.envp.as_ptr());
            if *libc::__errno_location() == libc::ENOEXEC {
                libc::execve(SHELL.as_ptr(), words.shell_argv.as_ptr(), words.envp.as_ptr());
            }
        }
        let code = (*libc::__errno_location()).to_ne_bytes();
        libc::write(error.as_raw_fd(), code.as_ptr().cast(), code.len());
        libc::_exit(i32::from(NOT_FOUND))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_found_as_a_shell_finds_it() {
        let find = |name: &str, path: &str| Program::find(&[name.into()], Some(OsStr::new(path)));
        assert_eq!(find("sh", "/nonexistent:/bin").unwrap().path, Path::new("/bin/sh"));
        assert_eq!(find("/bin/sh", "").unwrap().path, Path::new("/bin/sh"));
        assert_eq!(find("no-such-command", "/bin").unwrap_err().code(), NOT_FOUND);
        assert_eq!(find("/no/such", "/bin").unwrap_err().code(), NOT_FOUND);
        assert_eq!(find("", "/bin").unwrap_err().code(), NOT_FOUND);
        assert_eq!(find("/bin", "/bin").unwrap_err().code(), NOT_EXECUTABLE);
        assert_eq!(find("/etc/passwd", "").unwrap_err().code(), NOT_EXECUTABLE);
        assert_eq!(find("passwd", "/etc").unwrap_err().code(), NOT_EXECUTABLE);
    }
}
