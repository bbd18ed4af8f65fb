//! A range of a trace, as `--from`, `--to` and `--since` give it.

use ingero_format::Trace;
use ingero_format::catalog::{Body, Kind};

use crate::merge::Merge;

/// A point or length of time that a person typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Nanoseconds from the trace's start.
    Offset(u64),
    /// Unix nanoseconds.
    Wall(u64),
}

/// A text that is not a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadTime(pub String);

impl std::error::Error for BadTime {}

impl std::fmt::Display for BadTime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(text) = self;
        if is_negative(text) {
            return write!(
                f,
                "the time {text:?} is negative: offsets count from the trace's first event; what describes the recording may \
                 stand before it, which ingero-replay dump shows"
            );
        }
        write!(
            f,
            "cannot read the time {text:?}: give an offset from the trace's start such as 12.5s, 300ms or 2m, or a \
             wall-clock time such as 2026-03-01T14:06:13.5Z"
        )
    }
}

/// A text that is not a length of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadDuration(pub String);

impl std::error::Error for BadDuration {}

impl std::fmt::Display for BadDuration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(text) = self;
        match is_negative(text) {
            true => write!(f, "the length of time {text:?} is negative"),
            false => write!(f, "cannot read the length of time {text:?}: give one such as 20s, 300ms, 1.5h or 1h30m"),
        }
    }
}

/// Whether a text would be a length of time, were it not for its sign.
fn is_negative(text: &str) -> bool {
    parse_before(text).is_some()
}

/// How long before the trace's start a time lies that is given as a negative offset; none for any other.
#[must_use]
pub fn parse_before(text: &str) -> Option<u64> {
    text.trim().strip_prefix('-').and_then(|rest| parse_duration(rest).ok())
}

/// Units of a length of time with their nanoseconds, longest names first.
const UNITS: [(&str, u64); 8] = [
    ("min", 60 * SECOND),
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", SECOND),
    ("m", 60 * SECOND),
    ("h", 3600 * SECOND),
];
const SECOND: u64 = 1_000_000_000;
/// Digits behind the point that count: those behind them are no part of a nanosecond that could round it.
const FRACTION_DIGITS: usize = 24;
/// No length of time is larger.
const LONGEST_NS: u128 = 1_000_000_000_000_000_000;

/// A decimal number of so many nanoseconds each, rounded to whole ones; none if it is no number. Not by way of a double, which has
/// no nanoseconds left beyond a hundred days.
fn parse_decimal(number: &str, unit_ns: u64) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() && fraction.is_empty() || !digits(whole) || !digits(fraction) {
        return None;
    }
    let read = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<u128>().ok() };
    let fraction = fraction.get(..FRACTION_DIGITS).unwrap_or(fraction);
    let parts = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let rest = (read(fraction)? * u128::from(unit_ns) + parts / 2) / parts;
    read(whole)?.checked_mul(unit_ns.into())?.checked_add(rest)
}

/// A length of time such as `90s`, `1.5s`, `300ms`, `5m`, `1h30m`; a bare number is seconds.
///
/// # Errors
/// [`BadDuration`] with the text.
pub fn parse_duration(text: &str) -> Result<u64, BadDuration> {
    let bad = || BadDuration(text.to_owned());
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(bad());
    }
    let mut total = 0_u128;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        let (name, unit_ns) = match tail.is_empty() && digits == text.trim().len() {
            true => ("", SECOND),
            false => *UNITS.iter().find(|(name, _)| tail.starts_with(name)).ok_or_else(bad)?,
        };
        let part = parse_decimal(number, unit_ns).ok_or_else(bad)?;
        total = total.checked_add(part).filter(|&ns| ns <= LONGEST_NS).ok_or_else(bad)?;
        rest = &tail[name.len()..];
    }
    u64::try_from(total).map_err(|_| bad())
}

/// A point of time: an offset or a wall-clock time (RFC 3339, UTC unless an offset is given).
///
/// # Errors
/// [`BadTime`] with the text.
pub fn parse_when(text: &str) -> Result<When, BadTime> {
    if text.contains('T') || text.matches('-').count() >= 2 {
        return parse_wall(text).map(When::Wall).ok_or_else(|| BadTime(text.to_owned()));
    }
    parse_duration(text).map(When::Offset).map_err(|BadDuration(text)| BadTime(text))
}

fn parse_wall(text: &str) -> Option<u64> {
    let text = text.trim();
    let (date, time) = text.split_once(['T', ' ']).unwrap_or((text, "00:00:00"));
    let mut date = date.splitn(3, '-').map(|p| p.parse::<i64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=days_of(year, month)).contains(&day) {
        return None;
    }
    let (time, zone_s) = match time.strip_suffix(['Z', 'z']) {
        Some(time) => (time, 0),
        None => match time.rfind(['+', '-']) {
            None => (time, 0),
            Some(at) => {
                let (h, m) = time[at + 1..].split_once(':')?;
                let part = |text: &str, below: i64| text.parse::<i64>().ok().filter(|n| (0..below).contains(n));
                let zone = part(h, 24)? * 3600 + part(m, 60)? * 60;
                (&time[..at], if time[at..].starts_with('-') { -zone } else { zone })
            }
        },
    };
    let mut parts = time.splitn(3, ':');
    let hour = parts.next()?.parse::<i64>().ok().filter(|h| (0..24).contains(h))?;
    let minute = parts.next()?.parse::<i64>().ok().filter(|m| (0..60).contains(m))?;
    let seconds = parts.next().unwrap_or("0");
    let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
    let second = whole.parse::<i64>().ok().filter(|s| (0..61).contains(s))?;
    if fraction.len() > 9 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let nanos = format!("{fraction:0<9}").parse::<i64>().ok()?;
    // Days of the civil calendar since 1970-01-01: years begin in March, so that leap days come last.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let era = y.div_euclid(400);
    let of_era = y.rem_euclid(400);
    let of_year = (153 * m + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    let unix_s = days * 86_400 + hour * 3600 + minute * 60 + second - zone_s;
    u64::try_from(unix_s.checked_mul(1_000_000_000)?.checked_add(nanos)?).ok()
}

/// Days of a month, from 1 for January.
fn days_of(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// A wall-clock time as people read it, in UTC: `2026-03-01 14:06:13.500 UTC`.
#[must_use]
pub fn show_wall(unix_ns: u64) -> String {
    let (ms, s) = (unix_ns / 1_000_000 % 1000, unix_ns / 1_000_000_000);
    let (days, of_day) = (s / 86_400 + 719_468, s % 86_400);
    // The way back of `parse_wall`, in 400-year eras of years that begin in March.
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (h, m, s) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02} {h:02}:{m:02}:{s:02}.{ms:03} UTC")
}

/// A range of a trace on its own clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// First instant of the trace.
    pub trace_start_ns: u64,
    /// Last instant of the trace.
    pub trace_end_ns: u64,
    /// First instant of the range.
    pub from_ns: u64,
    /// The range ends before this instant.
    pub to_ns: u64,
}

impl Window {
    /// The whole of a trace. An empty trace has an empty range.
    #[must_use]
    pub fn whole(trace: &Trace) -> Self {
        let (start, end) = trace.span_ns().unwrap_or((0, 0));
        let past = end.saturating_add(u64::from(trace.span_ns().is_some()));
        Self { trace_start_ns: start, trace_end_ns: end, from_ns: start, to_ns: past }
    }

    /// A range by what a person typed.
    ///
    /// # Errors
    /// A sentence for the person.
    pub fn parse(trace: &Trace, from: Option<&str>, to: Option<&str>, since: Option<&str>) -> Result<Self, String> {
        let mut w = Self::whole(trace);
        let at = |text: &str| on_clock(trace, w.trace_start_ns, text);
        let end = w.to_ns;
        if let Some(text) = since {
            let ns = parse_duration(text).map_err(|e| format!("since: {e}"))?;
            w.from_ns = if ns == 0 { end } else { w.trace_end_ns.saturating_sub(ns).max(w.trace_start_ns) };
        }
        let (from_at, to_at) = (from.map(at).transpose()?, to.map(at).transpose()?);
        // A wall-clock time may lie before the trace: what is not there is no part of the range.
        let instant = |at: i128| u64::try_from(at.max(0)).unwrap_or(u64::MAX);
        w.from_ns = from_at.map_or(w.from_ns, instant).max(w.trace_start_ns);
        w.to_ns = to_at.map_or(end, instant).min(end);
        if w.from_ns >= w.to_ns && trace.span_ns().is_some() {
            #[expect(clippy::cast_precision_loss, reason = "for people")]
            let s = |ns: u64| ns as f64 / 1e9;
            let is_wall = |text: &str| matches!(parse_when(text), Ok(When::Wall(_)));
            if let Some(spans) = w.wall_span(trace).filter(|_| from.into_iter().chain(to).any(is_wall)) {
                let range = match (from, to) {
                    (Some(from), Some(to)) => format!("from {from} to {to}"),
                    (Some(from), None) => format!("from {from} on"),
                    (None, to) => format!("up to {}", to.unwrap_or_default()),
                };
                let why = match () {
                    () if to_at.is_some_and(|at| at <= i128::from(w.trace_start_ns)) => {
                        "it is over before the recording begins"
                    }
                    () if w.from_ns >= end => "it begins after the recording is over",
                    () => "its end does not come after its begin",
                };
                return Err(format!("the range {range} is empty: {why}; {spans}"));
            }
            if w.from_ns >= end {
                return Err(format!(
                    "the range is empty: it begins {:.3} s after the trace's start, and the trace is over by then: it is {:.3} s long",
                    s(w.from_ns - w.trace_start_ns),
                    s(w.trace_end_ns - w.trace_start_ns)
                ));
            }
            return Err(format!(
                "the range is empty: it begins {:.3} s and ends {:.3} s after the trace's start; the trace is {:.3} s long",
                s(w.from_ns.saturating_sub(w.trace_start_ns)),
                s(w.to_ns.saturating_sub(w.trace_start_ns)),
                s(w.trace_end_ns - w.trace_start_ns)
            ));
        }
        Ok(w)
    }

    /// An instant of a trace by what a person typed: on the trace's own clock.
    ///
    /// # Errors
    /// A sentence for the person, also where the trace does not reach to it.
    pub fn parse_instant(trace: &Trace, text: &str) -> Result<u64, String> {
        let w = Self::whole(trace);
        let at = on_clock(trace, w.trace_start_ns, text)?;
        let offset = at - i128::from(w.trace_start_ns);
        #[expect(clippy::cast_precision_loss, reason = "for people")]
        let (s, len_s) = (offset as f64 / 1e9, (w.trace_end_ns - w.trace_start_ns) as f64 / 1e9);
        let spans = w.wall_span(trace).filter(|_| matches!(parse_when(text), Ok(When::Wall(_))));
        match (u64::try_from(at), spans) {
            (Ok(at), _) if trace.span_ns().is_some() && (w.trace_start_ns..=w.trace_end_ns).contains(&at) => Ok(at),
            (_, spans) if offset < 0 => {
                let spans = spans.map_or(String::new(), |spans| format!("; {spans}"));
                Err(format!("{text:?} is {:.3} s before the trace's start{spans}", -s))
            }
            (_, spans) => {
                let spans = spans.unwrap_or_else(|| format!("the trace is {len_s:.3} s long"));
                Err(format!("{text:?} is {s:.3} s after the trace's start; {spans}"))
            }
        }
    }

    /// From when to when the recording lasts by the wall clock, as a sentence, where that is known.
    fn wall_span(&self, trace: &Trace) -> Option<String> {
        let start = start_unix_ns(trace, self.trace_start_ns)?;
        let end = start_unix_ns(trace, self.trace_end_ns)?;
        Some(format!("the recording lasts from {} to {}", show_wall(start), show_wall(end)))
    }

    /// Whether the range begins or ends within the trace.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.from_ns > self.trace_start_ns || self.to_ns <= self.trace_end_ns
    }

    /// Length of the range.
    #[must_use]
    pub fn len_ns(&self) -> u64 {
        self.to_ns.min(self.trace_end_ns).saturating_sub(self.from_ns)
    }

    /// Whether an instant is within the range.
    #[must_use]
    #[inline]
    pub fn holds(&self, ts_ns: u64) -> bool {
        (self.from_ns..self.to_ns).contains(&ts_ns)
    }
}

/// A point of time that a person typed, on the clock of a trace, which it may lie outside of.
fn on_clock(trace: &Trace, trace_start_ns: u64, text: &str) -> Result<i128, String> {
    let start = i128::from(trace_start_ns);
    match parse_when(text).map_err(|e| e.to_string())? {
        When::Offset(ns) => Ok(start + i128::from(ns)),
        When::Wall(unix) => {
            let start_unix = start_unix_ns(trace, trace_start_ns).ok_or_else(|| {
                format!("the trace does not know its wall-clock time: give {text:?} as an offset from its start")
            })?;
            Ok(start + i128::from(unix) - i128::from(start_unix))
        }
    }
}

/// The wall-clock time of an instant of the trace, by its first clock anchor; none where the source
/// had none.
#[must_use]
pub fn start_unix_ns(trace: &Trace, at_ns: u64) -> Option<u64> {
    let clock = Merge::of(trace, |k| k == Kind::Clock).next()?;
    let Body::Clock(anchor) = clock.body else { return None };
    let unix = i128::from(anchor.real_ns) + i128::from(at_ns) - i128::from(clock.ts_ns);
    u64::try_from(unix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;
    use ingero_format::catalog::{Clock, Exit};

    #[test]
    fn durations_are_read() {
        for (text, ns) in [
            ("60s", 60_000_000_000),
            ("1.5s", 1_500_000_000),
            ("300ms", 300_000_000),
            ("5m", 300_000_000_000),
            ("1h30m", 5_400_000_000_000),
            ("12", 12_000_000_000),
            ("7us", 7_000),
            ("3ns", 3),
        ] {
            assert_eq!(parse_duration(text), Ok(ns), "{text}");
        }
        for text in ["", "s", "-5s", "5x", "1.2.3s", "5 s", "1e400", "99999999999h", "12s5", "nan", ".", ".s", "1e9"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        let huge = format!("{}s", "9".repeat(60));
        assert!(parse_duration(&huge).is_err());
        // Beyond what a double holds, and rounded where there is less than a nanosecond.
        for (text, ns) in [
            ("9007199.254740993", (1 << 53) + 1),
            ("9007199254740993ns", (1 << 53) + 1),
            ("999999999.999999999s", 999_999_999_999_999_999),
            ("277777h46m39.999999999s", 999_999_999_999_999_999),
            (".5s", 500_000_000),
            ("5.", 5_000_000_000),
            ("0.0000000014s", 1),
            ("1.5ns", 2),
            ("0.333333333333333333333333333333333333m", 20_000_000_000),
        ] {
            assert_eq!(parse_duration(text), Ok(ns), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_told_by_what_it_should_be() {
        let length = |text| parse_duration(text).unwrap_err().to_string();
        assert_eq!(length("-5s"), "the length of time \"-5s\" is negative");
        let day = length("2026-01-01");
        assert!(day.starts_with("cannot read the length of time \"2026-01-01\"") && !day.contains("wall"), "{day}");
        let time = |text| parse_when(text).unwrap_err().to_string();
        assert!(time("-5s").starts_with("the time \"-5s\" is negative: offsets count from"), "{}", time("-5s"));
        assert!(time("--to").starts_with("cannot read the time \"--to\": give an offset"), "{}", time("--to"));
    }

    #[test]
    fn wall_clock_times_are_read() {
        for (text, unix) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-03-01", 951_868_800_000_000_000),
            ("2024-02-29T12:00:00.5Z", 1_709_208_000_500_000_000),
            ("2026-01-01T01:00:00+01:00", 1_767_225_600_000_000_000),
        ] {
            assert_eq!(parse_when(text), Ok(When::Wall(unix)), "{text}");
        }
        for text in [
            "2026-13-01T00:00:00Z",
            "2026-01-01Tx",
            "yesterdayT",
            "2026-01-01T25:00:00Z",
            "2026-02-29T00:00:00Z",
            "2100-02-29",
            "2026-04-31",
            "2026-01-01T00:00:00+25:00",
            "2026-01-01T00:00:00+01:60",
            "2026-01-01T00:00:00+-1:00",
            "2026-01-01T00:00:00+9223372036854775807:00",
        ] {
            assert!(parse_when(text).is_err(), "{text}");
        }
    }

    #[test]
    fn wall_clock_times_are_shown_as_they_are_read() {
        assert_eq!(show_wall(0), "1970-01-01 00:00:00.000 UTC");
        for text in ["2000-02-29", "2000-03-01", "2023-12-31", "2024-02-29", "2100-03-01", "2026-11-30"] {
            let Ok(When::Wall(unix)) = parse_when(text) else { panic!("{text}") };
            assert_eq!(show_wall(unix + 45_296_789_000_000), format!("{text} 12:34:56.789 UTC"));
        }
    }

    #[test]
    fn ranges_count_from_the_trace() {
        let mut f = Fixture::new();
        let task = f.task(1, 1);
        let second = 1_000_000_000;
        let clock = Clock { boot_ns: 0, real_ns: 1_767_225_600 * second, tsc: None, bracket_ns: 1 };
        f.push(100 * second, 0, clock);
        f.push(110 * second, 0, Exit { task, group_dead: None });
        let trace = f.finish();
        let w = |from, to, since| Window::parse(&trace, from, to, since).map(|w| (w.from_ns, w.to_ns));
        assert_eq!(w(None, None, None), Ok((100 * second, 110 * second + 1)));
        assert_eq!(w(Some("2s"), Some("5"), None), Ok((102 * second, 105 * second)));
        assert_eq!(w(None, None, Some("4s")), Ok((106 * second, 110 * second + 1)));
        assert_eq!(w(Some("2026-01-01T00:00:03Z"), None, None), Ok((103 * second, 110 * second + 1)));
        // From before the trace: all of it, and no more.
        let w_before = Window::parse(&trace, Some("2025-12-31T23:59:00Z"), None, None).unwrap();
        assert_eq!((w_before, w_before.len_ns()), (Window::whole(&trace), 10 * second));
        assert_eq!(w(Some("2025-12-31"), Some("2026-01-01T00:00:03Z"), None), Ok((100 * second, 103 * second)));
        assert!(w(None, None, Some("0s")).unwrap_err().starts_with("the range is empty"));
        assert!(w(Some("11s"), None, None).unwrap_err().starts_with("the range is empty"));
        assert!(w(Some("soon"), None, None).unwrap_err().starts_with("cannot read the time \"soon\""));

        let at = |text| Window::parse_instant(&trace, text);
        assert_eq!(at("2.5s"), Ok(102_500_000_000));
        assert_eq!(at("10s"), Ok(110 * second));
        assert_eq!(at("2026-01-01T00:00:03Z"), Ok(103 * second));
        assert_eq!(at("11s").unwrap_err(), "\"11s\" is 11.000 s after the trace's start; the trace is 10.000 s long");
        let lasts = "the recording lasts from 2026-01-01 00:00:00.000 UTC to 2026-01-01 00:00:10.000 UTC";
        let said = at("2025-12-31T23:59:59Z").unwrap_err();
        assert_eq!(said, format!("\"2025-12-31T23:59:59Z\" is 1.000 s before the trace's start; {lasts}"));
        assert_eq!(
            at("2026-01-02").unwrap_err(),
            format!("\"2026-01-02\" is 86400.000 s after the trace's start; {lasts}")
        );

        // A range years off is told by what was asked for and by what there is.
        for (from, to, says) in [
            (
                Some("2019-05-01"),
                Some("2020-01-01"),
                "from 2019-05-01 to 2020-01-01 is empty: it is over before the recording begins",
            ),
            (None, Some("2020-01-01"), "up to 2020-01-01 is empty: it is over before the recording begins"),
            (Some("2031-01-01"), None, "from 2031-01-01 on is empty: it begins after the recording is over"),
            (
                Some("2031-01-01"),
                Some("2030-01-01"),
                "from 2031-01-01 to 2030-01-01 is empty: it begins after the recording is over",
            ),
            (
                Some("2026-01-01T00:00:05Z"),
                Some("3s"),
                "from 2026-01-01T00:00:05Z to 3s is empty: its end does not come after its begin",
            ),
        ] {
            assert_eq!(w(from, to, None).unwrap_err(), format!("the range {says}; {lasts}"));
        }
    }
}
