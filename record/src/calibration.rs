//! What a probed call costs on this machine, measured on a child of our own before anything is recorded.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::kernel::{Drain, Error, FunctionSpec, Kernel, MAX_FUNCTIONS, Probe};
use crate::proc::clock::monotonic_ns;
use crate::trial::file_offset;

/// Calls of one batch, and batches, of which the fastest counts: what else runs only ever makes one slower. All records
/// of them fit into the smallest ring.
const CALLS: u64 = 80;
const BATCHES: usize = 5;
/// A function that no table has.
const FUNCTION: u32 = MAX_FUNCTIONS - 1;
const PATIENCE: Duration = Duration::from_millis(500);

// Begins as the functions of CUDA's libraries do, for the first instruction decides what a probe costs.
#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".globl ingero_calibrated",
    ".type ingero_calibrated, @function",
    "ingero_calibrated:",
    "push rbp",
    "mov rbp, rsp",
    "mov rax, rdi",
    "pop rbp",
    "ret",
    ".size ingero_calibrated, . - ingero_calibrated",
);

#[cfg(target_arch = "x86_64")]
unsafe extern "C" {
    fn ingero_calibrated(n: u64) -> u64;
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(never)]
unsafe extern "C" fn ingero_calibrated(n: u64) -> u64 {
    std::hint::black_box(n)
}

/// What the child and its parent tell each other.
#[repr(C)]
struct Shared {
    /// 0: the child measures without probes; 1: it waits for them; 2: it measures with them; 3: done.
    stage: AtomicU64,
    /// Nanoseconds of the fastest batch, without and with probes.
    ns: [AtomicU64; 2],
}

/// Nanoseconds that an entry and its return add to one call; `None` where it could not be measured. To be called while the
/// process has a single thread and before anything is recorded: what is in the rings is thrown away.
///
/// # Errors
/// When the kernel refuses what it grants later as well.
pub fn calibrate(kernel: &mut Kernel, drain: &mut Drain, with_returns: bool) -> Result<Option<u64>, Error> {
    let Some(offset) = file_offset(ingero_calibrated as unsafe extern "C" fn(u64) -> u64 as usize) else {
        return Ok(None);
    };
    let Some(shared) = share() else { return Ok(None) };
    // SAFETY: the mapping lives until the process ends, and every field is atomic.
    let talk = unsafe { shared.as_ref() };
    // SAFETY: there is one thread; the child makes system calls alone, and leaves by one.
    let child = unsafe { libc::fork() };
    if child == 0 {
        act(talk);
    }
    let Ok(pid) = u32::try_from(child) else { return Ok(None) };
    let measured = measure(kernel, talk, pid, offset, with_returns);
    // SAFETY: the child is our own and was not collected.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    kernel.remove_target(pid)?;
    while drain.read(10_000, |_| ())? > 0 {}
    kernel.take_losses()?;
    let ready = measured?;
    let [alone, probed] = [&talk.ns[0], &talk.ns[1]].map(|ns| ns.load(Ordering::Acquire));
    Ok(ready.then(|| probed.saturating_sub(alone) / CALLS))
}

fn measure(kernel: &Kernel, talk: &Shared, pid: u32, offset: u64, with_returns: bool) -> Result<bool, Error> {
    if !wait_for(talk, 1) {
        return Ok(false);
    }
    kernel.set_function_spec(FUNCTION, &FunctionSpec::NONE)?;
    kernel.set_target(pid)?;
    let probes = [Probe { offset, function: FUNCTION }];
    let _attached = if with_returns {
        kernel.attach_calls("/proc/self/exe", &probes)?
    } else {
        kernel.attach_entries("/proc/self/exe", &probes)?
    };
    talk.stage.store(2, Ordering::Release);
    Ok(wait_for(talk, 3))
}

fn wait_for(talk: &Shared, stage: u64) -> bool {
    let deadline = Instant::now() + PATIENCE;
    while talk.stage.load(Ordering::Acquire) != stage {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_micros(50));
    }
    true
}

/// The child.
fn act(talk: &Shared) -> ! {
    // SAFETY: no pointers: a recorder that dies takes the child with it.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    talk.ns[0].store(fastest(), Ordering::Release);
    talk.stage.store(1, Ordering::Release);
    while talk.stage.load(Ordering::Acquire) != 2 {
        // SAFETY: no pointers.
        unsafe { libc::sched_yield() };
    }
    talk.ns[1].store(fastest(), Ordering::Release);
    talk.stage.store(3, Ordering::Release);
    // SAFETY: the child ends here, without running what its parent would run at its end.
    unsafe { libc::_exit(0) }
}

/// Nanoseconds of the fastest batch.
fn fastest() -> u64 {
    let mut least = u64::MAX;
    for _ in 0..BATCHES {
        let begun = monotonic_ns();
        for n in 0..CALLS {
            // SAFETY: the function takes a number and hands it back.
            std::hint::black_box(unsafe { ingero_calibrated(n) });
        }
        least = least.min(monotonic_ns() - begun);
    }
    least
}

/// Memory that a child shares; it stays until the process ends.
fn share() -> Option<NonNull<Shared>> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping wherever the kernel likes; it touches no memory in use. It begins as zeroes.
    let place = unsafe { libc::mmap(std::ptr::null_mut(), size_of::<Shared>(), protection, kind, -1, 0) };
    if place == libc::MAP_FAILED { None } else { NonNull::new(place.cast()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Options;

    #[test]
    fn a_probed_call_costs_something_and_leaves_nothing() {
        let options = Options { ring_bytes: Some(64 << 10), ..Options::default() };
        let mut kernel = Kernel::load(&options).unwrap();
        let mut drain = kernel.take_drain().unwrap();
        let both = calibrate(&mut kernel, &mut drain, true).unwrap().unwrap();
        // An empty pair of probes takes half a microsecond at least, single-stepping ten.
        assert!((200..200_000).contains(&both), "{both} ns");
        assert_eq!(drain.read(10, |_| ()).unwrap(), 0);
        assert_eq!(kernel.take_losses().unwrap(), []);
        assert_eq!(kernel.targets().unwrap(), []);
    }
}
