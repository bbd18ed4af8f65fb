//! An analysis in words and in JSON.

mod json;
mod text;

pub use json::json;
pub use text::text;

/// A length of time as a person reads it, three digits that count: `31.2 s`, `412 ms`, `7.03 us`.
#[must_use]
pub fn duration(ns: u64) -> String {
    let (scale, unit) = match ns {
        0 => return "0".to_owned(),
        1..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (1e3, "us"),
        1_000_000..1_000_000_000 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let value = ns as f64 / scale;
    let digits = match value {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {unit}")
}

/// A count with its thousands apart: `1,173,407`.
#[must_use]
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A size as a person reads it.
#[must_use]
pub fn bytes(n: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let mut value = n as f64;
    let mut at = 0;
    while value >= 1023.5 && at + 1 < units.len() {
        value /= 1024.0;
        at += 1;
    }
    match (at, value) {
        (0, _) => format!("{n} B"),
        (_, v) if v >= 99.95 => format!("{value:.0} {}", units[at]),
        _ => format!("{value:.1} {}", units[at]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_well() {
        let shown = [0, 7, 999, 1_000, 31_249, 412_000_000, 999_960_000, 31_200_000_000, 400_000_000_000].map(duration);
        assert_eq!(shown, ["0", "7 ns", "999 ns", "1.00 us", "31.2 us", "412 ms", "1000 ms", "31.2 s", "400 s"]);
        assert_eq!([0, 999, 1_000, 1_173_407].map(count), ["0", "999", "1,000", "1,173,407"]);
        assert_eq!([0, 1023, 1024, 1 << 20, 3 << 29].map(bytes), ["0 B", "1023 B", "1.0 KiB", "1.0 MiB", "1.5 GiB"]);
    }
}
