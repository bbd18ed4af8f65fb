//! What the comments around the events say about the whole text.

use super::text::{digits, trim_start};

/// What is known from comments.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Header {
    /// CPUs of the machine.
    pub(crate) cpus: Option<u64>,
    /// Events in the text, as the tracer counted them, and events it had recorded before the
    /// oldest were overwritten.
    pub(crate) entries: Option<(u64, u64)>,
    /// Whether the text is one of those that this tool reads.
    pub(crate) is_ftrace: bool,
}

impl Header {
    /// Takes a line that is no event.
    pub(crate) fn read(&mut self, line: &[u8]) -> Result<(), &'static str> {
        let text = trim_start(line);
        if let Some(cpus) = text.strip_prefix(b"cpus=").and_then(digits) {
            self.cpus = Some(cpus.0);
            self.is_ftrace = true;
        } else if text.starts_with(b"# tracer:") {
            self.is_ftrace = true;
        } else if let Some(rest) = text.strip_prefix(b"# entries-in-buffer/entries-written:") {
            self.is_ftrace = true;
            if let Some((held, rest)) = digits(trim_start(rest))
                && let Some((written, _)) = rest.strip_prefix(b"/").and_then(digits)
            {
                self.entries = Some((held, written));
            }
            if let Some(at) = memchr::memmem::find(rest, b"#P:") {
                self.cpus = digits(&rest[at + 3..]).map(|c| c.0).or(self.cpus);
            }
        } else if memchr::memmem::find(text, b" latency trace v").is_some() && text.starts_with(b"# ") {
            return Err("the latency format cuts names short; print it with: echo 0 > options/latency-format");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_cpus() {
        let mut h = Header::default();
        h.read(b"# entries-in-buffer/entries-written: 3061/4000   #P:2").unwrap();
        assert_eq!((h.entries, h.cpus), (Some((3061, 4000)), Some(2)));
        let mut h = Header::default();
        h.read(b"cpus=16").unwrap();
        assert_eq!((h.cpus, h.is_ftrace), (Some(16), true));
        assert!(h.read(b"# nop latency trace v1.1.5 on 6.18.44").is_err());
    }
}
