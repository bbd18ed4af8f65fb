//! The processor time of a thread.

#![allow(unsafe_code, reason = "the standard library has no such clock")]

use std::time::Duration;

/// Time for which this thread had a processor: what others do on the machine meanwhile counts less.
#[must_use]
pub fn thread_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec that outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
