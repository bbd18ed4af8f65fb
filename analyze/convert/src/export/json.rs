//! Writing JSON piece by piece: what comes out is valid whatever the names hold.

use std::fmt::Write;

/// An object under construction.
pub(crate) struct Object<'b> {
    out: &'b mut String,
    first: bool,
}

impl<'b> Object<'b> {
    /// Opens an object at the end of `out`.
    pub(crate) fn open(out: &'b mut String) -> Self {
        out.push('{');
        Self { out, first: true }
    }

    fn key(&mut self, key: &str) {
        if !std::mem::take(&mut self.first) {
            self.out.push(',');
        }
        push_string(self.out, key);
        self.out.push(':');
    }

    pub(crate) fn text(&mut self, key: &str, value: &str) -> &mut Self {
        self.key(key);
        push_string(self.out, value);
        self
    }

    /// A number. Those that a double cannot hold become text: a reader would round them.
    pub(crate) fn number(&mut self, key: &str, value: u64) -> &mut Self {
        const EXACT: u64 = 1 << 53;
        self.key(key);
        let _ = if value <= EXACT { write!(self.out, "{value}") } else { write!(self.out, "\"{value}\"") };
        self
    }

    pub(crate) fn signed(&mut self, key: &str, value: i64) -> &mut Self {
        self.key(key);
        let _ =
            if value.unsigned_abs() <= 1 << 53 { write!(self.out, "{value}") } else { write!(self.out, "\"{value}\"") };
        self
    }

    /// An address, as text in hexadecimal.
    pub(crate) fn address(&mut self, key: &str, value: u64) -> &mut Self {
        self.key(key);
        let _ = write!(self.out, "\"{value:#x}\"");
        self
    }

    /// Nanoseconds as microseconds with three decimals.
    pub(crate) fn micros(&mut self, key: &str, ns: u64) -> &mut Self {
        self.key(key);
        let _ = write!(self.out, "{}.{:03}", ns / 1000, ns % 1000);
        self
    }

    /// A share, thousandths as a decimal number.
    pub(crate) fn thousandths(&mut self, key: &str, value: u64) -> &mut Self {
        self.micros(key, value)
    }

    /// An object within.
    pub(crate) fn object(&mut self, key: &str, fill: impl FnOnce(&mut Object)) -> &mut Self {
        self.key(key);
        let mut inner = Object::open(self.out);
        fill(&mut inner);
        inner.close();
        self
    }

    pub(crate) fn close(self) {
        self.out.push('}');
    }
}

/// A string with its quotes.
pub(crate) fn push_string(out: &mut String, text: &str) {
    out.push('"');
    let mut plain = 0;
    for (at, b) in text.bytes().enumerate() {
        // DEL and the C1 controls are legal in JSON; all below a blank are not.
        if b >= 0x20 && b != b'"' && b != b'\\' {
            continue;
        }
        out.push_str(&text[plain..at]);
        plain = at + 1;
        let _ = match b {
            b'"' => out.write_str("\\\""),
            // Perfetto takes the quote behind `\\` for an escaped one and reads on past the end.
            b'\\' if at + 1 == text.len() => out.write_str("\\u005c"),
            b'\\' => out.write_str("\\\\"),
            b'\n' => out.write_str("\\n"),
            b'\t' => out.write_str("\\t"),
            _ => write!(out, "\\u{b:04x}"),
        };
    }
    out.push_str(&text[plain..]);
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_goes_in_comes_back() {
        let hostile: String = (0..0x300).filter_map(char::from_u32).chain("\u{2028}\u{fffd}😀".chars()).collect();
        let mut out = String::new();
        let mut object = Object::open(&mut out);
        object.text(&hostile, &hostile).number("big", u64::MAX).signed("neg", -5).address("a", 255);
        object.micros("ts", 1_234_567).object("inner", |o| {
            o.number("x", 1);
        });
        object.close();
        let back: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(back[&hostile], hostile.as_str());
        assert_eq!(back["big"], "18446744073709551615");
        assert_eq!(back["neg"], -5);
        assert_eq!(back["a"], "0xff");
        assert!(out.contains("\"ts\":1234.567"));
        assert_eq!(back["inner"]["x"], 1);
    }

    #[test]
    fn no_string_ends_in_two_backslashes() {
        for text in ["\\", "a\\", "\\\\", "\"\\", "\\\""] {
            let mut out = String::new();
            push_string(&mut out, text);
            assert!(!out.ends_with("\\\\\""), "{out}");
            assert_eq!(serde_json::from_str::<String>(&out).unwrap(), text);
        }
    }
}
