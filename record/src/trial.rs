//! Whether this kernel's return probes are safe for programs in a sandbox, tried on a child of our own.
//!
//! Since 6.11 a probed function on x86-64 returns through a system call of the kernel's own. Early versions let seccomp
//! filters see it, and a filter that does not know it kills the program. No version tells which kernel does: patches
//! travel. So a child sets up a strict filter and returns from a probed function.

use std::fs;
use std::io;
use std::time::{Duration, Instant};

use crate::kernel::{Error, Kernel, MAX_FUNCTIONS, Probe};

/// Time for the child, which does next to nothing.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the trial showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReturnProbes {
    /// A filtered program survives them.
    Safe,
    /// A filtered program dies of them.
    Lethal,
    /// It could not be tried: the reason is in the system's error number, 0 for none.
    Untried(i32),
}

/// What the child calls. Its result keeps the compiler from leaving the call out.
#[inline(never)]
extern "C" fn probed(n: u64) -> u64 {
    std::hint::black_box(n).wrapping_add(1)
}

/// Tries it. To be called while the process has a single thread.
///
/// # Errors
/// When the probe cannot be attached.
pub fn try_return_probes(kernel: &Kernel) -> Result<ReturnProbes, Error> {
    // Programs make no record of a function that is described nowhere.
    attempt(kernel, MAX_FUNCTIONS)
}

fn attempt(kernel: &Kernel, function: u32) -> Result<ReturnProbes, Error> {
    let Some(offset) = file_offset(probed as extern "C" fn(u64) -> u64 as usize) else {
        return Ok(ReturnProbes::Untried(0));
    };
    let probes = kernel.attach_calls("/proc/self/exe", &[Probe { offset, function }])?;
    // SAFETY: there is one thread; the child makes system calls alone, and leaves by one.
    let child = unsafe { libc::fork() };
    if child < 0 {
        return Ok(ReturnProbes::Untried(io::Error::last_os_error().raw_os_error().unwrap_or(0)));
    }
    if child == 0 {
        // SAFETY: this is the child.
        unsafe { act() }
    }
    let status = wait(child);
    drop(probes);
    Ok(match status {
        Some(status) if libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0 => ReturnProbes::Safe,
        Some(status) if libc::WIFSIGNALED(status) => ReturnProbes::Lethal,
        Some(status) => ReturnProbes::Untried(libc::WEXITSTATUS(status)),
        None => ReturnProbes::Lethal,
    })
}

fn wait(child: libc::pid_t) -> Option<i32> {
    let deadline = Instant::now() + PATIENCE;
    let mut status = 0;
    loop {
        // SAFETY: `status` is a valid place, and the child is our own.
        if unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == child {
            return Some(status);
        }
        if Instant::now() >= deadline {
            // SAFETY: the child was not collected, so its id is still its own.
            unsafe {
                libc::kill(child, libc::SIGKILL);
                libc::waitpid(child, &raw mut status, 0);
            }
            return None;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// The child: allows itself nothing but to leave, and calls.
///
/// # Safety
/// Only in the child of a fork.
unsafe fn act() -> ! {
    const LOAD_NUMBER: u16 = 0x20;
    const JUMP_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    let leave = u32::try_from(libc::SYS_exit_group).unwrap_or(0);
    let step = |code, jf, k| libc::sock_filter { code, jt: 0, jf, k };
    let mut steps = [
        step(LOAD_NUMBER, 0, 0),
        step(JUMP_EQUAL, 1, leave),
        step(RETURN, 0, libc::SECCOMP_RET_ALLOW),
        step(RETURN, 0, libc::SECCOMP_RET_KILL_PROCESS),
    ];
    let filter = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: the filter outlives the call; every call is a plain system call; the child ends here.
    unsafe {
        // A dump of a process that is meant to die helps nobody.
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
        if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) != 0
        {
            libc::_exit(*libc::__errno_location());
        }
        let mut sum = 0;
        for n in 0..3 {
            sum += probed(n);
        }
        libc::syscall(libc::SYS_exit_group, i32::from(sum != 6));
        libc::abort()
    }
}

/// Where a byte of this program's code lies in its file.
pub(crate) fn file_offset(address: usize) -> Option<u64> {
    let address = u64::try_from(address).ok()?;
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines().find_map(|line| {
        let mut words = line.split(' ');
        let (start, end) = words.next()?.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        let (start, end) = (number(start)?, number(end)?);
        let offset = number(words.nth(1)?)?;
        (start..end).contains(&address).then(|| address - start + offset)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{FunctionSpec, Options, WireEvent};

    /// A trial whose probe never fires would prove nothing.
    #[test]
    fn the_probe_is_hit() {
        let options = Options { all_processes: true, ring_bytes: Some(1 << 20), ..Options::default() };
        let mut kernel = Kernel::load(&options).unwrap();
        let mut drain = kernel.take_drain().unwrap();
        kernel.set_function_spec(7, &FunctionSpec::NONE).unwrap();
        let outcome = attempt(&kernel, 7).unwrap();
        let (mut entries, mut returns) = (0, 0);
        let count = |event: WireEvent<'_>| match event {
            WireEvent::CallEntry(call, _) if call.function == 7 => entries += 1,
            WireEvent::CallReturn(call, _) if call.function == 7 => returns += 1,
            _ => {}
        };
        let _ = drain.read(1000, count).unwrap();
        if outcome == ReturnProbes::Safe {
            assert_eq!((entries, returns), (3, 3));
        } else {
            assert_eq!((outcome, entries), (ReturnProbes::Lethal, 1));
        }
        assert_eq!(try_return_probes(&kernel).unwrap(), outcome);
        let mut calls = 0;
        let count = |event: WireEvent<'_>| {
            calls += u32::from(matches!(event, WireEvent::CallEntry(..) | WireEvent::CallReturn(..)));
        };
        let _ = drain.read(1000, count).unwrap();
        assert_eq!(calls, 0, "the real one leaves no record");
    }
}
