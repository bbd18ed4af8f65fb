//! An analysis in words and in JSON.

mod calls;
mod chains;
pub(crate) mod json;
mod markdown;
pub(crate) mod nothing;
mod processes;
mod rows;
pub(crate) mod sample;
pub(crate) mod silence;
mod text;

pub use json::json;
pub(crate) use markdown::escaped;
pub use markdown::markdown;
pub(crate) use nothing::of_processes as nothing_of_processes;
pub(crate) use processes::shown;
pub use rows::{Behind, OffCpu, Op, PageAllocs, Range};
pub use text::{Options, text};
pub(crate) use text::{columns, lost, percent, share_of, short, verdicts};

use ingero_replay::Spent;

/// The words of a text; a number and its unit are one.
fn words(text: &str) -> Vec<String> {
    const UNITS: &[&str] = &["ns", "us", "ms", "s", "%", "B", "KiB", "MiB", "GiB", "TiB", "GB/s"];
    let mut words: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let unit = word.trim_end_matches([',', '.', ';', ':', ')', ']']);
        match words.last_mut() {
            Some(number) if UNITS.contains(&unit) && number.ends_with(|c: char| c.is_ascii_digit()) => {
                number.push(' ');
                number.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
}

/// Columns of a terminal that a text takes: a Chinese character takes two.
pub(crate) fn columns_of(text: &str) -> usize {
    unicode_width::UnicodeWidthStr::width(text)
}

/// A text with spaces behind it up to a number of columns, which `{:<}` would count as characters.
pub(crate) fn padded(text: &str, width: usize) -> String {
    format!("{text}{:1$}", "", width.saturating_sub(columns_of(text)))
}

/// The pieces of a word, each of at most `width` columns; a character that is wider stands alone.
fn pieces(word: &str, width: usize) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for c in word.chars() {
        match out.last_mut() {
            Some(piece) if columns_of(piece) + unicode_width::UnicodeWidthChar::width(c).unwrap_or(0) <= width => {
                piece.push(c)
            }
            _ => out.push(c.into()),
        }
    }
    out
}

/// A text in rows of at most `width` columns, broken at spaces, and within a word only where it is longer than that.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut rows: Vec<String> = Vec::new();
    let mut used = 0;
    for word in words(&crate::printable(text)) {
        for (n, piece) in pieces(&word, width).into_iter().enumerate() {
            let len = columns_of(&piece);
            match rows.last_mut() {
                Some(row) if n == 0 && used + 1 + len <= width => {
                    row.push(' ');
                    row.push_str(&piece);
                    used += 1 + len;
                }
                _ => {
                    rows.push(piece);
                    used = len;
                }
            }
        }
    }
    rows
}

/// An instant as reports show it: from the trace's start, or by the wall clock where `wall` is set and the trace knows
/// it.
pub(crate) fn instant(a: &crate::Analysis, ts_ns: u64, wall: bool) -> String {
    let offset_ns = ts_ns.saturating_sub(a.window.trace_start_ns);
    match a.start_unix_ns.filter(|_| wall) {
        Some(start) => ingero_replay::show_wall(start.saturating_add(offset_ns)),
        None => {
            #[expect(clippy::cast_precision_loss, reason = "microseconds are shown")]
            let seconds = offset_ns as f64 / 1e9;
            format!("{seconds:.6} s")
        }
    }
}

/// What the submitting threads of a phase waited for, as one line that a person can repeat; none where they hardly
/// waited.
#[must_use]
pub fn waited(a: &crate::Analysis, p: &crate::PhaseFigures) -> Option<String> {
    chains::line(a, p)
}

/// The range that a report was made for; none where it is of the whole recording.
pub(crate) fn range(a: &crate::Analysis, wall: bool) -> Option<String> {
    let (from, to) = (a.window.from_ns, a.window.from_ns.saturating_add(a.window.len_ns()));
    let told = a.window.is_cut() && a.window.trace_end_ns > a.window.trace_start_ns;
    told.then(|| format!("only {} to {} of it", instant(a, from, wall), instant(a, to, wall)))
}

/// The stretches of a phase of which nothing is claimed, as a sentence; none where there are none.
pub(crate) fn unclaimed(a: &crate::Analysis, p: &crate::PhaseFigures, wall: bool) -> Option<String> {
    /// Stretches that are named.
    const NAMED: usize = 3;
    let list = &p.phase.unclaimed;
    let show = |&(from, to): &(u64, u64)| format!("{} to {}", instant(a, from, wall), instant(a, to, wall));
    let named: Vec<String> = list.iter().take(NAMED).map(show).collect();
    let more = match list.len().saturating_sub(NAMED) {
        0 => String::new(),
        n => format!(" and {n} more stretches"),
    };
    let all = crate::sum(list.iter().map(|(from, to)| to - from));
    (!list.is_empty()).then(|| {
        format!(
            "no claim is made of {} of it, where events were lost: {}{more}; gaps there count for nothing",
            duration(all),
            named.join(", ")
        )
    })
}

/// Stands before a figure that lacks some.
pub(crate) const AT_LEAST: &str = "≥";

/// A figure in a table, with a mark where there was at least so much.
pub(crate) fn least(at_least: bool, figure: &str) -> String {
    if at_least { format!("{AT_LEAST}{figure}") } else { figure.to_owned() }
}

/// A lost time, or its share, in words: `up to` so much where the trace cannot prove that all of it was lost.
pub(crate) fn most(at_most: bool, figure: &str) -> String {
    if at_most { format!("up to {figure}") } else { figure.to_owned() }
}

/// The count of a phase's submissions in words.
fn submissions(a: &crate::Analysis, p: &crate::PhaseFigures) -> String {
    a.counted_in(
        p.phase.process,
        ingero_format::catalog::Kind::Call,
        p.phase.submissions,
        p.phase.start_ns,
        p.phase.end_ns,
    )
}

/// From which length on gaps count as lost, in words.
pub(crate) fn lost_from() -> String {
    format!("{} us", crate::LOST_FROM_NS / 1_000)
}

/// From which part of a time on something is told of it, one in so many: what is less than a digit of the rest is no matter.
const MATTERS_FROM: u64 = 200;

/// Whether a part of a time is more than what its three digits leave out.
pub(crate) fn matters(part_ns: u64, of_ns: u64) -> bool {
    part_ns.saturating_mul(MATTERS_FROM) > of_ns
}

/// Joins the last two with "and".
pub(crate) fn list(mut parts: Vec<String>) -> String {
    match (parts.pop(), parts.is_empty()) {
        (Some(last), true) => last,
        (Some(last), false) => format!("{} and {last}", parts.join(", ")),
        (None, _) => String::new(),
    }
}

/// What a thread did, as a sentence about it goes on: `ran 3 s, could have run 1 s more, was blocked 2 s`; with what is not known
/// of it.
fn states(spent: Spent, unknown_ns: u64) -> String {
    let throttled = match spent.throttled_ns {
        0 => String::new(),
        ns => format!("was throttled {}, ", duration(ns)),
    };
    let unknown = if matters(unknown_ns, spent.total_ns()) {
        format!("; of {} it is not known", duration(unknown_ns))
    } else {
        String::new()
    };
    format!(
        "ran {}, could have run {} more, {throttled}was blocked {}{unknown}",
        duration(spent.running_ns),
        duration(spent.runnable_ns),
        duration(spent.blocked_ns)
    )
}

/// A length of time as a person reads it, three digits that count: `31.2 s`, `412 ms`, `7.03 us`.
#[must_use]
pub fn duration(ns: u64) -> String {
    let (scale, unit) = match ns {
        0 => return "0".to_owned(),
        1..1_000 => return format!("{ns} ns"),
        // What would be rounded to a thousand of a unit is one of the next.
        1_000..999_500 => (1e3, "us"),
        999_500..999_500_000 => (1e6, "ms"),
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
    fn rows_are_no_wider_than_asked_for() {
        assert_eq!(wrap("a bc def", 4), ["a bc", "def"]);
        assert_eq!(wrap("a bcdefgh i", 3), ["a", "bcd", "efg", "h i"]);
        assert_eq!(wrap("lost 439 ms, or 3 s", 9), ["lost", "439 ms,", "or 3 s"]);
        assert_eq!(wrap("", 10), Vec::<String>::new());
    }

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!(wrap("線程 線程", 8), ["線程", "線程"]);
        assert_eq!(wrap("a 線程線程 b", 5), ["a", "線程", "線程", "b"]);
        assert_eq!(wrap("線", 1), ["線"]);
        assert_eq!((padded("線程", 6), padded("線程", 3)), ("線程  ".to_owned(), "線程".to_owned()));
        for width in 4..24 {
            let short = short("線程 python3 線程線程 (4186)", width);
            assert!(columns_of(&short) <= width && short.ends_with(')'), "{width}: {short}");
        }
        assert_eq!(short("a thread (17)", 10), "a thre…17)");
    }

    #[test]
    fn figures_read_well() {
        let shown = [0, 7, 999, 1_000, 31_249, 412_000_000, 999_960_000, 31_200_000_000, 400_000_000_000].map(duration);
        assert_eq!(shown, ["0", "7 ns", "999 ns", "1.00 us", "31.2 us", "412 ms", "1.00 s", "31.2 s", "400 s"]);
        assert_eq!([0, 999, 1_000, 1_173_407].map(count), ["0", "999", "1,000", "1,173,407"]);
        assert_eq!([0, 1023, 1024, 1 << 20, 3 << 29].map(bytes), ["0 B", "1023 B", "1.0 KiB", "1.0 MiB", "1.5 GiB"]);
    }
}
