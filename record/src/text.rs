//! Bytes that the kernel hands out as text, which may be anything.

use std::borrow::Cow;
use std::io::Write;

/// Bytes as text, lossless where they are UTF-8; other bytes become `\xNN`, so that different names stay different.
///
/// A backslash itself stays as it is: a name that spells such an escape is no name that anyone has.
#[must_use]
pub(crate) fn from_bytes(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => {
            let mut out = String::with_capacity(bytes.len() + 8);
            for chunk in bytes.utf8_chunks() {
                out.push_str(chunk.valid());
                for b in chunk.invalid() {
                    out.push_str(&format!("\\x{b:02x}"));
                }
            }
            Cow::Owned(out)
        }
    }
}

/// The text before the first zero byte.
#[must_use]
pub(crate) fn from_c_bytes(bytes: &[u8]) -> Cow<'_, str> {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    from_bytes(bytes.get(..end).unwrap_or(bytes))
}

/// Says something to the person. Where nobody can hear it, on a full disk or a closed pipe, it goes unsaid: a recording and
/// its exit code matter more.
pub(crate) fn say(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes() {
        assert_eq!(from_c_bytes(b"python\0\0x"), "python");
        assert_eq!(from_c_bytes(b"\0"), "");
        assert_eq!(from_c_bytes(b"no end"), "no end");
        assert_eq!(from_bytes("ü\n\"".as_bytes()), "ü\n\"");
        assert_eq!(from_bytes(b"a\xff\xc3b"), "a\\xff\\xc3b");
    }
}
