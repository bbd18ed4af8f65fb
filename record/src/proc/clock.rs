//! The clocks of the machine.

use ingero_format::catalog::Clock;

fn read_ns(clock: libc::clockid_t) -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a valid place for the result for the length of the call.
    unsafe { libc::clock_gettime(clock, &raw mut t) };
    let s = u64::try_from(t.tv_sec).unwrap_or(0);
    let ns = u64::try_from(t.tv_nsec).unwrap_or(0);
    s.saturating_mul(1_000_000_000).saturating_add(ns)
}

/// `CLOCK_MONOTONIC` in nanoseconds: the time of every event.
#[must_use]
pub fn monotonic_ns() -> u64 {
    read_ns(libc::CLOCK_MONOTONIC)
}

/// `CLOCK_REALTIME` in Unix nanoseconds.
#[must_use]
pub fn real_ns() -> u64 {
    read_ns(libc::CLOCK_REALTIME)
}

#[cfg(target_arch = "x86_64")]
fn read_tsc() -> Option<u64> {
    // SAFETY: every x86-64 processor has the instruction.
    Some(unsafe { std::arch::x86_64::_rdtsc() })
}
#[cfg(not(target_arch = "x86_64"))]
fn read_tsc() -> Option<u64> {
    None
}

/// One moment on all clocks: the monotonic time and the row. Reads that another task cut in two have a wide
/// bracket, so the tightest of a few wins.
#[must_use]
pub fn read_anchor() -> (u64, Clock) {
    let read = || {
        let before = monotonic_ns();
        let boot_ns = read_ns(libc::CLOCK_BOOTTIME);
        let real_ns = real_ns();
        let tsc = read_tsc();
        let bracket_ns = monotonic_ns().saturating_sub(before);
        let row = Clock { boot_ns, real_ns, tsc, bracket_ns };
        (before + bracket_ns / 2, row)
    };
    let mut best = read();
    for _ in 0..4 {
        let next = read();
        if next.1.bracket_ns < best.1.bracket_ns {
            best = next;
        }
    }
    best
}

/// Turns clock ticks since boot, as `/proc` tells start times, into `CLOCK_MONOTONIC`.
#[derive(Debug, Clone, Copy)]
pub struct TickClock {
    ticks_per_second: u64,
    boot_ahead_ns: u64,
}

impl TickClock {
    /// Reads the distance between the clocks: what the machine has slept.
    #[must_use]
    pub fn read() -> Self {
        let (monotonic, row) = read_anchor();
        Self {
            ticks_per_second: super::system::ticks_per_second(),
            boot_ahead_ns: row.boot_ns.saturating_sub(monotonic),
        }
    }

    /// Start of the tick on `CLOCK_MONOTONIC`; a start before a suspension may come out as 0.
    #[must_use]
    pub fn monotonic_ns(self, ticks: u64) -> u64 {
        let boot = u128::from(ticks) * 1_000_000_000 / u128::from(self.ticks_per_second);
        u64::try_from(boot).unwrap_or(u64::MAX).saturating_sub(self.boot_ahead_ns)
    }

    /// Length of a tick.
    #[must_use]
    pub fn tick_ns(self) -> u64 {
        1_000_000_000 / self.ticks_per_second
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_anchor_is_now() {
        let before = monotonic_ns();
        let (ts, row) = read_anchor();
        let after = monotonic_ns();
        assert!(before <= ts && ts <= after);
        assert!(row.bracket_ns <= after - before);
        assert!(row.real_ns > 1_600_000_000_000_000_000);
    }

    #[test]
    fn ticks_turn_monotonic() {
        let clock = TickClock { ticks_per_second: 100, boot_ahead_ns: 500_000_000 };
        assert_eq!(clock.monotonic_ns(100), 500_000_000);
        assert_eq!(clock.monotonic_ns(1), 0);
        assert_eq!(clock.monotonic_ns(u64::MAX), u64::MAX - 500_000_000);
    }
}
