//! The letters of a task's state.

/// `prev_state=` as the bits of `Switch::prev_state`: letters joined by `|`, `R` for none of them,
/// a `+` behind them for a task that was preempted.
pub(crate) fn parse_state(text: &[u8]) -> Option<u64> {
    const PREEMPTED: u64 = 0x100;
    let (letters, mut bits) = match text.strip_suffix(b"+") {
        Some(letters) => (letters, PREEMPTED),
        None => (text, 0),
    };
    for letter in letters.split(|b| *b == b'|') {
        bits |= match letter {
            b"R" => 0,
            b"S" => 1,
            b"D" => 2,
            b"T" => 4,
            b"t" => 8,
            // Older kernels print the dead state as x.
            b"X" | b"x" => 0x10,
            b"Z" => 0x20,
            b"P" => 0x40,
            b"I" => 0x80,
            // Bits of older kernels that say how a sleep may end: killable, waking, new, no load.
            b"K" | b"W" | b"N" | b"n" => 0,
            _ => return None,
        };
    }
    Some(bits)
}

/// Whether the state is that of a task which never runs again.
pub(crate) fn is_dead(state: u64) -> bool {
    state & 0x30 != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters() {
        for (text, bits) in
            [("R", 0), ("R+", 0x100), ("S", 1), ("D|K", 2), ("S|D", 3), ("X", 16), ("Z", 32), ("I", 128), ("D+", 0x102)]
        {
            assert_eq!(parse_state(text.as_bytes()), Some(bits), "{text}");
        }
        assert_eq!(parse_state(b""), None);
        assert_eq!(parse_state(b"Q"), None);
        assert!(is_dead(16) && is_dead(32) && !is_dead(2));
    }
}
