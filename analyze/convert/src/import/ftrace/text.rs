//! Reading numbers and fields out of bytes.

/// Cuts off leading blanks and tabs.
pub(crate) fn trim_start(text: &[u8]) -> &[u8] {
    let at = text.iter().position(|b| *b != b' ' && *b != b'\t').unwrap_or(text.len());
    &text[at..]
}

/// A decimal number at the start, and what follows it.
pub(crate) fn digits(text: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0u64;
    let mut at = 0;
    while let Some(b @ b'0'..=b'9') = text.get(at) {
        value = value.checked_mul(10)?.checked_add(u64::from(b - b'0'))?;
        at += 1;
    }
    (at > 0).then(|| (value, &text[at..]))
}

/// A hexadecimal number at the start, without `0x`, and what follows it.
pub(crate) fn hex(text: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0u64;
    let mut at = 0;
    while let Some(digit) = text.get(at).and_then(|b| char::from(*b).to_digit(16)) {
        value = value.checked_mul(16)?.checked_add(u64::from(digit))?;
        at += 1;
    }
    (at > 0).then(|| (value, &text[at..]))
}

/// A whole word as a number: decimal, negative (two's complement) or `0x` and hexadecimal.
pub(crate) fn word(text: &[u8]) -> Option<u64> {
    let (value, rest) = match text {
        [b'0', b'x' | b'X', rest @ ..] => hex(rest)?,
        [b'-', rest @ ..] => {
            let (value, rest) = digits(rest)?;
            (i64::try_from(value).ok()?.wrapping_neg().cast_unsigned(), rest)
        }
        _ => digits(text)?,
    };
    rest.is_empty().then_some(value)
}

/// Walks over the fields of an event's text from left to right.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    /// Steps over `mark`, which must come next.
    pub(crate) fn expect(&mut self, mark: &[u8]) -> Option<()> {
        self.0 = self.0.strip_prefix(mark)?;
        Some(())
    }

    /// Everything up to the next `mark`; steps over the mark.
    pub(crate) fn until(&mut self, mark: &[u8]) -> Option<&'a [u8]> {
        let at = memchr::memmem::find(self.0, mark)?;
        let text = &self.0[..at];
        self.0 = &self.0[at + mark.len()..];
        Some(text)
    }

    /// The word up to the next blank, or all that is left.
    pub(crate) fn word(&mut self) -> &'a [u8] {
        let end = memchr::memchr(b' ', self.0).unwrap_or(self.0.len());
        let text = &self.0[..end];
        self.0 = self.0.get(end + 1..).unwrap_or_default();
        text
    }

    /// A task's name in front of `mark`. A name has at most 15 bytes and may hold the mark itself,
    /// so the last mark that leaves 15 bytes or fewer is the true one.
    pub(crate) fn comm(&mut self, mark: &[u8]) -> Option<&'a [u8]> {
        let window = self.0.get(..COMM_MAX + mark.len()).unwrap_or(self.0);
        let at = memchr::memmem::rfind(window, mark)?;
        let comm = &self.0[..at];
        self.0 = &self.0[at + mark.len()..];
        Some(comm)
    }

    /// A decimal number.
    pub(crate) fn number(&mut self) -> Option<u64> {
        let (value, rest) = digits(self.0)?;
        self.0 = rest;
        Some(value)
    }

    /// A thread id.
    pub(crate) fn tid(&mut self) -> Option<u32> {
        self.number().and_then(|n| u32::try_from(n).ok())
    }

    /// A number that may be negative, `None` inside where it is.
    pub(crate) fn signed(&mut self) -> Option<Option<u64>> {
        match self.0.strip_prefix(b"-") {
            Some(rest) => {
                self.0 = rest;
                self.number().map(|_| None)
            }
            None => self.number().map(Some),
        }
    }
}

/// Longest name of a task, in bytes.
pub(crate) const COMM_MAX: usize = 15;

/// Bytes as text: what is not UTF-8 becomes `\xNN`, so that nothing is lost.
pub(crate) fn escaped(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => {
            let mut out = String::new();
            for chunk in bytes.utf8_chunks() {
                out.push_str(chunk.valid());
                for b in chunk.invalid() {
                    out.push_str(&format!("\\x{b:02x}"));
                }
            }
            out.into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        assert_eq!(word(b"12"), Some(12));
        assert_eq!(word(b"0xfF"), Some(255));
        assert_eq!(word(b"-1"), Some(u64::MAX));
        for bad in [&b""[..], b"x", b"0x", b"12a", b"99999999999999999999", b"0x10000000000000000", b"-"] {
            assert_eq!(word(bad), None);
        }
    }

    #[test]
    fn a_name_may_hold_the_mark_behind_it() {
        let mut f = Fields(b"x prev_pid=1 prev_pid=9437 prev_prio=120");
        assert_eq!(f.comm(b" prev_pid="), Some(&b"x prev_pid=1"[..]));
        assert_eq!(f.tid(), Some(9437));
        assert_eq!(Fields(b"0123456789abcdef prev_pid=1").comm(b" prev_pid="), None);
    }

    #[test]
    fn bytes_that_are_no_text_are_kept() {
        assert_eq!(escaped(b"\xff\xfe\x01b\xc3\xa9"), "\\xff\\xfe\u{1}b\u{e9}");
    }
}
