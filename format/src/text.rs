//! Texts that come from elsewhere, made fit for people.

/// A text fit for a terminal, on one line: what moves a cursor, breaks a line, cannot be seen or turns the direction of
/// writing becomes an escape. Paths and names can hold any of it.
///
/// ```
/// assert_eq!(ingero_format::one_line("a\nb"), "a\\nb");
/// ```
#[must_use]
pub fn one_line(text: &str) -> String {
    let invisible =
        |c| matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}');
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || invisible(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_cannot_break_a_line() {
        assert_eq!(one_line("a\nb\u{1b}[31mµ"), "a\\nb\\u{1b}[31mµ");
        assert_eq!(one_line("\u{202e}a\u{2028}\u{9b}b"), "\\u{202e}a\\u{2028}\\u{9b}b");
    }
}
