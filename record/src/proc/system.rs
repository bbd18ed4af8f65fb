//! The state of the whole machine: `/proc/stat`, `/proc/meminfo`, `/proc/loadavg`, `/proc/vmstat`.

use std::fs;

use ingero_format::catalog::System;

/// Reads one sample. What cannot be read is unknown.
#[must_use]
pub fn read_system() -> System {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    parse_system(
        &read("/proc/stat"),
        &read("/proc/meminfo"),
        &read("/proc/loadavg"),
        &read("/proc/vmstat"),
        ticks_per_second(),
    )
}

/// Clock ticks per second of the times in `/proc`.
#[must_use]
pub fn ticks_per_second() -> u64 {
    // SAFETY: sysconf takes no pointer.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    u64::try_from(ticks).ok().filter(|&t| t > 0).unwrap_or(100)
}

/// The number behind a key that ends in a blank or a colon.
fn number_of(text: &str, key: &str) -> Option<u64> {
    let rest = text.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix([' ', ':']))?;
    rest.split_ascii_whitespace().next()?.parse().ok()
}

fn parse_system(stat: &str, meminfo: &str, loadavg: &str, vmstat: &str, ticks: u64) -> System {
    let line = stat.lines().find_map(|l| l.strip_prefix("cpu ")).unwrap_or_default();
    let cpu: Vec<Option<u64>> = line.split_ascii_whitespace().map(|w| w.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal (guest times are in user already)
    let ns = |fields: &[usize]| {
        fields.iter().try_fold(0_u64, |sum, &i| {
            let ticked = cpu.get(i).copied().flatten()?;
            Some(sum.saturating_add(ticked.saturating_mul(1_000_000_000 / ticks)))
        })
    };
    let bytes = |key| number_of(meminfo, key).map(|kib| kib.saturating_mul(1024));
    let mut loads = loadavg.split_ascii_whitespace().map(parse_milli);
    let mut load = || loads.next().flatten();
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
        swap_used_bytes: swap_total_bytes.zip(bytes("SwapFree")).map(|(all, free)| all.saturating_sub(free)),
        load1_milli: load(),
        load5_milli: load(),
        load15_milli: load(),
        irq_ns: ns(&[5]),
        softirq_ns: ns(&[6]),
        running: number_of(stat, "procs_running"),
        blocked: number_of(stat, "procs_blocked"),
        switches: number_of(stat, "ctxt"),
        major_faults: number_of(vmstat, "pgmajfault"),
    }
}

/// `1.25` as 1250.
fn parse_milli(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digit = |i: usize| fraction.as_bytes().get(i).filter(|b| b.is_ascii_digit()).map_or(0, |b| u64::from(b - b'0'));
    let whole: u64 = whole.parse().ok()?;
    Some(whole.saturating_mul(1000) + digit(0) * 100 + digit(1) * 10 + digit(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_kernel_writes() {
        let s = parse_system(
            "cpu  10 2 30 400 5 1 3 7 0 0\ncpu0 1 1 1 1\nctxt 99\nprocs_running 3\nprocs_blocked 1\n",
            "MemTotal:       1000 kB\nMemFree: 1 kB\nMemAvailable:    600 kB\nSwapTotal: 50 kB\nSwapFree: 20 kB\n",
            "1.25 0.07 12.00 1/234 5678\n",
            "pgfault 12\npgmajfault 4\n",
            100,
        );
        let whole = System {
            user_ns: Some(120_000_000),
            system_ns: Some(340_000_000),
            idle_ns: Some(4_000_000_000),
            iowait_ns: Some(50_000_000),
            steal_ns: Some(70_000_000),
            mem_total_bytes: Some(1_024_000),
            mem_available_bytes: Some(614_400),
            swap_total_bytes: Some(51_200),
            swap_used_bytes: Some(30_720),
            load1_milli: Some(1250),
            load5_milli: Some(70),
            load15_milli: Some(12_000),
            irq_ns: Some(10_000_000),
            softirq_ns: Some(30_000_000),
            running: Some(3),
            blocked: Some(1),
            switches: Some(99),
            major_faults: Some(4),
        };
        assert_eq!(s, whole);
    }

    #[test]
    fn this_machine_has_memory() {
        let s = read_system();
        assert!(s.mem_total_bytes > Some(0) && s.mem_total_bytes >= s.mem_available_bytes);
        assert!(s.idle_ns > Some(0) && s.running >= Some(1));
    }

    #[test]
    fn nonsense_is_unknown() {
        assert_eq!(parse_system("", "", "", "", 100), System::default());
        let s = parse_system("cpu x y\n", "MemTotal:\nSwapTotal: 5 kB\n", "a.b -1 1", "pgmajfault x", 100);
        let known = System { swap_total_bytes: Some(5120), load15_milli: Some(1000), ..System::default() };
        assert_eq!(s, known);
        // An old kernel's line is short: what it does not count is not zero.
        let s = parse_system("cpu  1 0 1 1\n", "", "", "", 100);
        assert_eq!((s.user_ns, s.idle_ns, s.system_ns, s.steal_ns), (Some(10_000_000), Some(10_000_000), None, None));
    }
}
