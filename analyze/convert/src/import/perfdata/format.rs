//! What tracepoints' raw bytes mean: the `format` texts that the kernel gave to perf.

use std::collections::HashMap;

/// Where a field stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Right there: offset and size.
    Fixed(usize, usize),
    /// Elsewhere in the record: a word at this offset tells where, counted from the record's begin.
    Far(usize),
    /// The same, counted from behind the word.
    FarBehind(usize),
}

/// The fields of one tracepoint, by name.
#[derive(Debug, Default)]
pub(super) struct Format {
    fields: HashMap<String, Place>,
}

impl Format {
    /// Reads the text of a `format` file.
    fn parse(text: &str) -> Option<(String, u64, Self)> {
        let (mut name, mut id, mut fields) = (None, None, HashMap::new());
        for line in text.lines().map(str::trim) {
            if let Some(rest) = line.strip_prefix("name:") {
                name = Some(rest.trim().to_owned());
            } else if let Some(rest) = line.strip_prefix("ID:") {
                id = rest.trim().parse().ok();
            } else if let Some(rest) = line.strip_prefix("field:") {
                let mut parts = rest.split(';').map(str::trim);
                let declaration = parts.next()?;
                let mut number = |key: &str| parts.next()?.strip_prefix(key)?.parse::<usize>().ok();
                let (offset, size) = (number("offset:")?, number("size:")?);
                let last = declaration.rsplit([' ', '*']).next()?;
                let name = last.split('[').next().unwrap_or(last).to_owned();
                let place = if declaration.starts_with("__rel_loc") {
                    Place::FarBehind(offset)
                } else if declaration.starts_with("__data_loc") {
                    Place::Far(offset)
                } else {
                    Place::Fixed(offset, size)
                };
                fields.insert(name, place);
            }
        }
        Some((name?, id?, Self { fields }))
    }

    /// The bytes of a field.
    fn bytes<'r>(&self, raw: &'r [u8], field: &str) -> Option<&'r [u8]> {
        let far = |offset: usize, from: usize| {
            let word = u32::from_le_bytes(raw.get(offset..offset + 4)?.try_into().ok()?);
            let at = from + (word & 0xffff) as usize;
            raw.get(at..at + (word >> 16) as usize)
        };
        match *self.fields.get(field)? {
            Place::Fixed(offset, size) => raw.get(offset..offset.checked_add(size)?),
            Place::Far(offset) => far(offset, 0),
            Place::FarBehind(offset) => far(offset, offset + 4),
        }
    }

    /// A text, up to its first zero byte.
    pub(super) fn text<'r>(&self, raw: &'r [u8], field: &str) -> Option<&'r [u8]> {
        let bytes = self.bytes(raw, field)?;
        Some(memchr::memchr(0, bytes).map_or(bytes, |end| &bytes[..end]))
    }

    /// A number of 1, 2, 4 or 8 bytes, without its sign.
    pub(super) fn number(&self, raw: &[u8], field: &str) -> Option<u64> {
        let bytes = self.bytes(raw, field)?;
        let mut wide = [0; 8];
        wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(u64::from_le_bytes(wide))
    }

    /// Names and values of all fields that `wanted` takes, by name.
    pub(super) fn numbers<'f>(&'f self, raw: &[u8], wanted: impl Fn(&str) -> bool) -> Vec<(&'f str, u64)> {
        let names = self.fields.keys().filter(|name| wanted(name));
        let mut found: Vec<_> = names.filter_map(|name| Some((name.as_str(), self.number(raw, name)?))).collect();
        found.sort_unstable();
        found
    }
}

/// Formats by the tracepoint's number, each with its name: `sched:sched_switch`.
pub(super) type Formats = HashMap<u64, (String, Format)>;

/// Reads the section that perf keeps them in; what stands ahead of a broken part is kept.
pub(super) fn read_formats(section: &[u8]) -> Formats {
    let mut formats = Formats::new();
    let _ = read_section(section, &mut formats);
    formats
}

fn read_section(section: &[u8], formats: &mut Formats) -> Option<()> {
    let mut r = Bytes(section.strip_prefix(b"\x17\x08\x44tracing")?);
    r.text()?;
    let big = r.take(1)?[0] != 0;
    if big {
        return None;
    }
    r.take(5)?;
    for _ in 0..2 {
        // header_page and header_event: how the kernel's own ring is laid out.
        r.text()?;
        let size = r.u64()?;
        r.take(size)?;
    }
    for _ in 0..r.u32()? {
        let size = r.u64()?;
        r.take(size)?;
    }
    for _ in 0..r.u32()? {
        let group = String::from_utf8_lossy(r.text()?).into_owned();
        for _ in 0..r.u32()? {
            let size = r.u64()?;
            let text = String::from_utf8_lossy(r.take(size)?).into_owned();
            if let Some((name, id, format)) = Format::parse(&text) {
                formats.insert(id, (format!("{group}:{name}"), format));
            }
        }
    }
    Some(())
}

struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, size: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(usize::try_from(size).ok()?)?;
        self.0 = rest;
        Some(taken)
    }
    fn text(&mut self) -> Option<&'a [u8]> {
        let end = memchr::memchr(0, self.0)?;
        let text = self.take(end as u64)?;
        self.take(1)?;
        Some(text)
    }
    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }
    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXEC: &str = "name: sched_process_exec\nID: 300\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \n\tfield:__data_loc char[] filename;\toffset:8;\tsize:4;\tsigned:0;\n\
        \tfield:pid_t pid;\toffset:12;\tsize:4;\tsigned:1;\n\
        \tfield:__rel_loc char[] more;\toffset:16;\tsize:4;\tsigned:0;\n\
        \tfield:char comm[4];\toffset:20;\tsize:4;\tsigned:0;\n\nprint fmt: \"x\"\n";

    #[test]
    fn fields_are_found_wherever_they_stand() {
        let (name, id, format) = Format::parse(EXEC).unwrap();
        assert_eq!((name.as_str(), id), ("sched_process_exec", 300));
        let mut raw = vec![0; 32];
        raw[8..12].copy_from_slice(&(24u32 | 4 << 16).to_le_bytes());
        raw[12..16].copy_from_slice(&77u32.to_le_bytes());
        raw[16..20].copy_from_slice(&(8u32 | 3 << 16).to_le_bytes());
        raw[20..24].copy_from_slice(b"abcd");
        raw[24..32].copy_from_slice(b"/x\0\0yz\0\0");
        assert_eq!(format.text(&raw, "filename"), Some(&b"/x"[..]));
        assert_eq!(format.text(&raw, "more"), Some(&b"yz"[..]));
        assert_eq!(format.text(&raw, "comm"), Some(&b"abcd"[..]));
        assert_eq!(format.number(&raw, "pid"), Some(77));
        assert_eq!(format.number(&raw, "none"), None);
        // A field that points behind the record, and a record that is cut.
        raw[8..12].copy_from_slice(&(30u32 | 9 << 16).to_le_bytes());
        assert_eq!(format.text(&raw, "filename"), None);
        assert_eq!(format.number(&raw[..14], "pid"), None);
    }
}
