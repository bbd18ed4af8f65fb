//! Pressure stall information: `/proc/pressure/*`.

use std::fs;

use ingero_format::catalog::{PRESSURES, Pressure};

/// Reads all resources that this kernel knows; none where it was built or booted without.
#[must_use]
pub fn read_pressures() -> Vec<Pressure> {
    let read = |(resource, name): &(u64, &str)| {
        let text = fs::read_to_string(format!("/proc/pressure/{name}")).ok()?;
        Some(parse_pressure(*resource, &text))
    };
    PRESSURES.iter().filter_map(read).collect()
}

/// Lines such as `some avg10=0.00 avg60=0.00 avg300=0.00 total=1234`, in microseconds.
fn parse_pressure(resource: u64, text: &str) -> Pressure {
    let total = |scope: &str| {
        let line = text.lines().find(|line| line.split_ascii_whitespace().next() == Some(scope))?;
        let micros: u64 = line.split_ascii_whitespace().find_map(|word| word.strip_prefix("total="))?.parse().ok()?;
        Some(micros.saturating_mul(1000))
    };
    Pressure { resource, some_ns: total("some"), full_ns: total("full") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_kernel_writes() {
        let text = "some avg10=1.53 avg60=1.10 avg300=0.30 total=17\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=5\n";
        assert_eq!(parse_pressure(2, text), Pressure { resource: 2, some_ns: Some(17_000), full_ns: Some(5_000) });
        // A resource of which nothing can lack altogether has one line.
        let text = "full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!(parse_pressure(3, text), Pressure { resource: 3, some_ns: None, full_ns: Some(7_000) });
        assert_eq!(parse_pressure(0, "some total=x\n\nfull"), Pressure { resource: 0, some_ns: None, full_ns: None });
    }

    #[test]
    fn this_kernel_has_what_it_has() {
        let there = std::path::Path::new("/proc/pressure/cpu").exists();
        assert_eq!(read_pressures().iter().any(|p| p.resource == 0 && p.some_ns.is_some()), there);
    }
}
