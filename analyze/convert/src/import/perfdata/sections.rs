//! Whether a file's sections lie within it: the reader makes room for whatever they claim.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// What is wrong with the sections of a `perf.data` file, if anything is.
pub(super) fn problem(file: &File) -> Option<String> {
    let len = file.metadata().ok()?.len();
    let mut header = [0; 104];
    if file.read_exact_at(&mut header, 0).is_err() {
        return Some(format!("ends within its header, after {len} bytes"));
    }
    let word = |at: usize| header.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes);
    let within = |(offset, size): (u64, u64)| offset.checked_add(size).is_some_and(|end| end <= len);
    // Instead of a whole header the pipe's has its magic and this length.
    if word(8) == PIPE_HEADER_BYTES {
        return Some("is what perf record writes to a pipe; record into a file (perf record -o perf.data)".to_owned());
    }
    let (attr_size, attrs, data) = (word(16), (word(24), word(32)), (word(40), word(48)));
    if data.1 == 0 {
        return Some("has no data: perf record did not end it".to_owned());
    }
    for (what, section) in [("attributes", attrs), ("data", data), ("event types", (word(56), word(64)))] {
        if !within(section) {
            let (offset, size) = section;
            return Some(format!("is cut: its {what}, {size} bytes at {offset:#x}, end behind its {len} bytes"));
        }
    }
    let features = (0..256usize).filter(|bit| header.get(72 + bit / 8).is_some_and(|byte| byte >> (bit % 8) & 1 != 0));
    for (number, feature) in (0u64..).zip(features) {
        let mut place = [0; 16];
        if file.read_exact_at(&mut place, data.0 + data.1 + 16 * number).is_err() {
            return Some(format!("is cut: the place of its section {feature} is missing"));
        }
        let half = |at: usize| place.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes);
        let section = (half(0), half(8));
        if !within(section) {
            return Some(format!("is cut: its section {feature} ends behind its {len} bytes"));
        }
        if feature == EVENT_DESC {
            let mut bytes = vec![0; usize::try_from(section.1).ok()?];
            file.read_exact_at(&mut bytes, section.0).ok()?;
            if descriptions(&bytes).is_none() {
                return Some("has a broken list of its events".to_owned());
            }
        }
    }
    (attr_size > 4096).then(|| format!("has attributes of {attr_size} bytes"))
}

/// Length of the header in front of a stream.
const PIPE_HEADER_BYTES: u64 = 16;
/// Number of the section that describes the events.
const EVENT_DESC: usize = 12;

/// Walks the descriptions: none where one claims more than there is.
fn descriptions(bytes: &[u8]) -> Option<()> {
    let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?) as usize);
    let (events, attr_size) = (word(0)?, word(4)?);
    let mut at = 8usize;
    for _ in 0..events {
        at = at.checked_add(attr_size)?;
        let ids = word(at)?;
        let name = word(at + 4)?;
        at = at.checked_add(8)?.checked_add(name)?.checked_add(ids.checked_mul(8)?)?;
        if at > bytes.len() {
            return None;
        }
    }
    Some(())
}

/// Whether a list of words claims no more of them than it can have: each begins with a length of four bytes. The library makes room for as
/// many as it claims.
pub(super) fn has_room_for_its_words(list: &[u8]) -> bool {
    let count = list.first_chunk().map(|count| u32::from_le_bytes(*count) as usize);
    count.is_some_and(|count| count <= (list.len() - 4) / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_room_for_its_words_or_is_not_read() {
        let list = |count: u32, bytes: usize| [&count.to_le_bytes()[..], &vec![0; bytes]].concat();
        assert!(has_room_for_its_words(&list(0, 0)) && has_room_for_its_words(&list(3, 12)));
        assert!(!has_room_for_its_words(&list(4, 15)) && !has_room_for_its_words(&list(u32::MAX, 64)));
        assert!(!has_room_for_its_words(&[1, 0]));
    }
}
