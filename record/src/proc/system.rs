//! The state of the whole machine: `/proc/stat`, `/proc/meminfo`, `/proc/loadavg`.

use std::fs;

use ingero_format::catalog::System;

/// Reads one sample. What cannot be read is 0.
#[must_use]
pub fn read_system() -> System {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    parse_system(&read("/proc/stat"), &read("/proc/meminfo"), &read("/proc/loadavg"), ticks_per_second())
}

/// Clock ticks per second of the times in `/proc`.
#[must_use]
pub fn ticks_per_second() -> u64 {
    // SAFETY: sysconf takes no pointer.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    u64::try_from(ticks).ok().filter(|&t| t > 0).unwrap_or(100)
}

fn parse_system(stat: &str, meminfo: &str, loadavg: &str, ticks: u64) -> System {
    let cpu: Vec<u64> = stat
        .lines()
        .find_map(|l| l.strip_prefix("cpu "))
        .unwrap_or_default()
        .split_ascii_whitespace()
        .map(|w| w.parse().unwrap_or(0))
        .collect();
    // user nice system idle iowait irq softirq steal (guest times are in user already)
    let ns = |fields: &[usize]| {
        fields
            .iter()
            .filter_map(|&i| cpu.get(i))
            .map(|t| t.saturating_mul(1_000_000_000 / ticks))
            .fold(0, u64::saturating_add)
    };
    let bytes = |key: &str| -> u64 {
        meminfo
            .lines()
            .find_map(|l| l.strip_prefix(key)?.strip_prefix(':'))
            .and_then(|rest| rest.split_ascii_whitespace().next()?.parse::<u64>().ok())
            .map_or(0, |kib| kib.saturating_mul(1024))
    };
    let mut loads = loadavg.split_ascii_whitespace().map(parse_milli);
    let mut load = || loads.next().unwrap_or(0);
    let swap_total_bytes = bytes("SwapTotal");
    System {
        user_ns: ns(&[0, 1]),
        system_ns: ns(&[2, 5, 6]),
        idle_ns: ns(&[3]),
        iowait_ns: ns(&[4]),
        steal_ns: ns(&[7]),
        mem_total_bytes: bytes("MemTotal"),
        mem_available_bytes: bytes("MemAvailable"),
        swap_total_bytes,
        swap_used_bytes: swap_total_bytes.saturating_sub(bytes("SwapFree")),
        load1_milli: load(),
        load5_milli: load(),
        load15_milli: load(),
    }
}

/// `1.25` as 1250.
fn parse_milli(text: &str) -> u64 {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digit = |i: usize| fraction.as_bytes().get(i).filter(|b| b.is_ascii_digit()).map_or(0, |b| u64::from(b - b'0'));
    let whole: u64 = whole.parse().unwrap_or(0);
    whole.saturating_mul(1000) + digit(0) * 100 + digit(1) * 10 + digit(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_kernel_writes() {
        let s = parse_system(
            "cpu  10 2 30 400 5 1 3 7 0 0\ncpu0 1 1 1 1\n",
            "MemTotal:       1000 kB\nMemFree: 1 kB\nMemAvailable:    600 kB\nSwapTotal: 50 kB\nSwapFree: 20 kB\n",
            "1.25 0.07 12.00 1/234 5678\n",
            100,
        );
        assert_eq!((s.user_ns, s.system_ns), (120_000_000, 340_000_000));
        assert_eq!((s.idle_ns, s.iowait_ns, s.steal_ns), (4_000_000_000, 50_000_000, 70_000_000));
        assert_eq!((s.mem_total_bytes, s.mem_available_bytes), (1_024_000, 614_400));
        assert_eq!((s.swap_total_bytes, s.swap_used_bytes), (51_200, 30_720));
        assert_eq!((s.load1_milli, s.load5_milli, s.load15_milli), (1250, 70, 12_000));
    }

    #[test]
    fn this_machine_has_memory() {
        let s = read_system();
        assert!(s.mem_total_bytes > 0 && s.mem_total_bytes >= s.mem_available_bytes);
        assert!(s.idle_ns > 0);
    }

    #[test]
    fn nonsense_is_zero() {
        let s = parse_system("cpu x y\n", "MemTotal:\n", "a.b -1 1", 100);
        assert_eq!((s.user_ns, s.mem_total_bytes, s.load1_milli, s.load15_milli), (0, 0, 0, 1000));
    }
}
