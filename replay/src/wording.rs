//! Numbers, times and texts as people read them.

use ingero_format::one_line;

/// A number in groups of three digits.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A number with its noun, in the plural unless it is one.
#[must_use]
pub fn count(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", grouped(number))
}

/// Seconds to the nanosecond, of a time that may lie before the start.
#[must_use]
pub fn seconds(ns: i128) -> String {
    let (sign, ns) = (if ns < 0 { "-" } else { "" }, ns.unsigned_abs());
    format!("{sign}{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

/// A length of time to three places, in the unit that suits it.
#[must_use]
pub fn length(ns: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "three places are shown")]
    let exact = ns as f64;
    let (value, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        // What would be rounded to a thousand of a unit is one of the next.
        1_000..999_500 => (exact / 1e3, "µs"),
        999_500..999_500_000 => (exact / 1e6, "ms"),
        _ => (exact / 1e9, "s"),
    };
    let places = match value {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.places$} {unit}")
}

/// One number in terms of another, to two places.
#[must_use]
pub fn ratio(bytes: u64, of: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "two places are shown")]
    let ratio = bytes as f64 / of as f64;
    if of == 0 { "-".to_owned() } else { format!("{ratio:.2}") }
}

/// A text in quotes where it would be ambiguous without.
#[must_use]
pub fn quoted(text: &str) -> String {
    let plain = |c: char| !c.is_whitespace() && c != '"' && c != '\\';
    if !text.is_empty() && text.chars().all(plain) && one_line(text) == text {
        return text.to_owned();
    }
    format!("\"{}\"", one_line(&text.replace('\\', "\\\\").replace('"', "\\\"")))
}

/// Breaks a text into lines of at most `width` characters, at spaces where there are any.
#[must_use]
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut len = 0;
    for word in text.split(' ') {
        let mut word: Vec<char> = word.chars().collect();
        if len > 0 && len + 1 + word.len() > width {
            lines.push(String::new());
            len = 0;
        }
        let Some(line) = lines.last_mut() else { break };
        if len > 0 {
            line.push(' ');
            len += 1;
        }
        while len + word.len() > width {
            let rest = word.split_off(width - len);
            if let Some(line) = lines.last_mut() {
                line.extend(word);
            }
            lines.push(String::new());
            (word, len) = (rest, 0);
        }
        len += word.len();
        if let Some(line) = lines.last_mut() {
            line.extend(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_read_well() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(count(1, "event"), "1 event");
        assert_eq!(count(2000, "event"), "2,000 events");
        assert_eq!(seconds(1_500_000_001), "1.500000001");
        assert_eq!(seconds(-1), "-0.000000001");
        let lengths = [0, 999, 1_000, 12_340, 999_499, 999_500, 1_500_000, 999_600_000, 61_000_000_000].map(length);
        let expected = ["0 ns", "999 ns", "1.00 µs", "12.3 µs", "999 µs", "1.00 ms", "1.50 ms", "1.00 s", "61.0 s"];
        assert_eq!(lengths, expected);
        assert_eq!(ratio(3, 2), "1.50");
        assert_eq!(ratio(3, 0), "-");
    }

    #[test]
    fn texts_are_quoted_only_where_needed_and_stay_on_their_line() {
        assert_eq!(quoted("python3"), "python3");
        assert_eq!(quoted(""), "\"\"");
        assert_eq!(quoted("a\u{202e}b"), "\"a\\u{202e}b\"");
        assert_eq!(quoted("a \"b\"\n"), "\"a \\\"b\\\"\\n\"");
    }

    #[test]
    fn long_texts_are_wrapped() {
        assert_eq!(wrapped("aa bb cc", 5), ["aa bb", "cc"]);
        assert_eq!(wrapped("aaaaaaa b", 3), ["aaa", "aaa", "a b"]);
        assert_eq!(wrapped("", 3), [""]);
    }
}
