//! The dictionaries of a file: strings, tasks, functions, and the keys and values about the
//! recording. Each grows by chunks that precede the blocks that use them.

use std::ops::Range;

use crate::bytes::{Malformed, Reader, Result, put_len, put_string, put_varint, unzigzag, zigzag};
use crate::catalog::{Class, Layer};
use crate::layout::{DICTIONARY_FREE, DICTIONARY_PER_BYTE, ENTRY_COST, MAX_ENTRIES};

/// One life of one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Task {
    /// Process id: the thread group's.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// Its birth, `CLOCK_MONOTONIC` nanoseconds, where known.
    pub start_ns: Option<u64>,
}

/// The idle task, the first of every file.
pub const IDLE: Task = Task { pid: 0, tid: 0, start_ns: None };

/// A probed function as the file knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionInfo {
    /// Symbol.
    pub symbol: String,
    /// Library.
    pub layer: Layer,
    /// What it does.
    pub class: Class,
}

/// A dictionary entry that can be written to and read from a chunk.
pub(crate) trait Entry: Sized {
    /// `before` is the entry before it in the same chunk.
    fn write(&self, before: Option<&Self>, out: &mut Vec<u8>);
    fn read(r: &mut Reader, before: Option<&Self>) -> Result<Self>;
}

impl Entry for Box<str> {
    fn write(&self, _: Option<&Self>, out: &mut Vec<u8>) {
        put_string(out, self);
    }
    fn read(r: &mut Reader, _: Option<&Self>) -> Result<Self> {
        r.string().map(Into::into)
    }
}

impl Entry for Task {
    fn write(&self, before: Option<&Self>, out: &mut Vec<u8>) {
        let before = before.copied().unwrap_or(IDLE);
        put_varint(out, distance(self.pid, before.pid));
        put_varint(out, distance(self.tid, self.pid));
        // Unknown is 0, a known start one more than its distance.
        let start = |start: u64| zigzag(start.wrapping_sub(before.start_ns.unwrap_or(0)).cast_signed());
        put_varint(out, self.start_ns.map_or(0, |s| start(s).saturating_add(1)));
    }
    fn read(r: &mut Reader, before: Option<&Self>) -> Result<Self> {
        let before = before.copied().unwrap_or(IDLE);
        let mut id = |from: u32| {
            let id = i64::from(from).checked_add(unzigzag(r.varint()?));
            id.and_then(|id| u32::try_from(id).ok()).ok_or(Malformed("a task id exceeds 32 bits"))
        };
        let pid = id(before.pid)?;
        let tid = id(pid)?;
        let from = before.start_ns.unwrap_or(0);
        let start_ns = r.varint()?.checked_sub(1).map(|s| from.wrapping_add(unzigzag(s).cast_unsigned()));
        Ok(Self { pid, tid, start_ns })
    }
}

fn distance(id: u32, from: u32) -> u64 {
    zigzag(i64::from(id) - i64::from(from))
}

impl Entry for FunctionInfo {
    fn write(&self, _: Option<&Self>, out: &mut Vec<u8>) {
        out.push(self.layer as u8);
        out.push(self.class as u8);
        put_string(out, &self.symbol);
    }
    fn read(r: &mut Reader, _: Option<&Self>) -> Result<Self> {
        Ok(Self {
            // What a later version brings is something that this one has no rules for.
            layer: Layer::from_number(r.u8()?).unwrap_or(Layer::Other),
            class: Class::from_number(r.u8()?).unwrap_or(Class::Other),
            symbol: r.string()?.to_owned(),
        })
    }
}

/// A key and its value.
impl Entry for (String, String) {
    fn write(&self, _: Option<&Self>, out: &mut Vec<u8>) {
        put_string(out, &self.0);
        put_string(out, &self.1);
    }
    fn read(r: &mut Reader, _: Option<&Self>) -> Result<Self> {
        Ok((r.string()?.to_owned(), r.string()?.to_owned()))
    }
}

/// Bytes after which a dictionary chunk takes no further entry, well below what a chunk may hold.
const FULL: usize = 1 << 22;

/// The payload of a dictionary chunk: the id of its first entry, then as many of the entries as go
/// into one chunk. Returns how many that were.
pub(crate) fn write_entries<E: Entry>(first: usize, entries: &[E]) -> (Vec<u8>, usize) {
    let mut out = Vec::new();
    put_len(&mut out, first);
    let mut taken = 0;
    let mut before = None;
    for entry in entries {
        if out.len() >= FULL {
            break;
        }
        entry.write(before, &mut out);
        before = Some(entry);
        taken += 1;
    }
    (out, taken)
}

/// What the dictionaries of a file may take, all together.
///
/// Entries that were never read may be filled in, but a few bytes can claim that millions of entries
/// came before them, so the claim is held against the bytes that are damaged. And a few bytes can be
/// the compressed form of millions of entries, so those are held against the bytes of the file.
pub(crate) struct Allowance {
    gaps: usize,
    left: u64,
}

/// Filled in whatever the damage: chunks may be gone without leaving a byte. Whoever analyses the file keeps some 500 bytes for each thread,
/// so that this many take a quarter of a GiB.
const FREE_GAP: usize = 1 << 19;
/// Entries that a damaged byte can have held. Compressed entries of real recordings take more than a
/// byte each.
const ENTRIES_PER_BYTE: usize = 4;

impl Allowance {
    /// For a file of so many bytes.
    pub(crate) fn new(file_bytes: u64) -> Self {
        Self { gaps: 0, left: file_bytes.saturating_mul(DICTIONARY_PER_BYTE).saturating_add(DICTIONARY_FREE) }
    }

    /// Fills in entries, so many bytes of the file being damaged.
    pub(crate) fn fill(&mut self, entries: usize, damaged_bytes: u64) -> Result<()> {
        let damaged = usize::try_from(damaged_bytes).unwrap_or(usize::MAX);
        let allowed = damaged.saturating_mul(ENTRIES_PER_BYTE).saturating_add(FREE_GAP);
        self.gaps = self.gaps.saturating_add(entries);
        if self.gaps > allowed {
            return Err(Malformed("a dictionary chunk is out of order"));
        }
        self.take((entries as u64).saturating_mul(ENTRY_COST))
    }

    /// Takes one entry of so many bytes.
    pub(crate) fn entry(&mut self, bytes: usize) -> Result<()> {
        self.take(bytes as u64 + ENTRY_COST)
    }

    fn take(&mut self, bytes: u64) -> Result<()> {
        self.left =
            self.left.checked_sub(bytes).ok_or(Malformed("schema and dictionaries exceed what the file may hold"))?;
        Ok(())
    }
}

/// Reads a dictionary chunk into `table`. Entries that a damaged chunk should have held are filled
/// with `missing`, so that the ids of later ones stay right; `damaged_bytes` of the file are known to
/// be unreadable so far. Returns the ids that were filled in.
pub(crate) fn read_entries<E: Entry + Clone>(
    bytes: &[u8],
    table: &mut Vec<E>,
    missing: &E,
    allowance: &mut Allowance,
    damaged_bytes: u64,
) -> Result<Range<usize>> {
    let mut r = Reader::new(bytes);
    let first = r.count(MAX_ENTRIES)?;
    let gap = first.checked_sub(table.len()).ok_or(Malformed("a dictionary chunk is out of order"))?;
    allowance.fill(gap, damaged_bytes)?;
    let filled_in = table.len()..first;
    table.resize(first, missing.clone());
    while !r.is_empty() {
        if table.len() >= MAX_ENTRIES {
            return Err(Malformed("a dictionary exceeds its cap"));
        }
        let left = r.len();
        let before = table.get(first..).and_then(<[E]>::last);
        let entry = E::read(&mut r, before)?;
        allowance.entry(left - r.len())?;
        table.push(entry);
    }
    Ok(filled_in)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_round_trip_and_gaps_keep_ids() {
        let tasks = [Task { pid: 7, tid: 8, start_ns: Some(0) }, Task { pid: 1, tid: u32::MAX, start_ns: None }];
        let mut table = vec![IDLE];
        let gaps = &mut Allowance::new(0);
        read_entries(&write_entries(3, &tasks).0, &mut table, &IDLE, gaps, 0).unwrap();
        assert_eq!(table[3..], tasks);
        assert_eq!(table[1..3], [IDLE, IDLE]);
        assert!(read_entries(&write_entries(1, &tasks).0, &mut table, &IDLE, gaps, 0).is_err());
        assert!(read_entries(&write_entries(MAX_ENTRIES, &tasks).0, &mut table, &IDLE, gaps, 0).is_err());
    }

    /// A file of a few kilobytes could have made a reader fill in a full table, a million entries
    /// by each of its chunks.
    #[test]
    fn small_chunks_cannot_claim_a_large_table() {
        let mut table = vec![IDLE];
        let mut gaps = Allowance::new(0);
        let mut ahead = |by: usize, damaged| {
            let first = table.len() + by;
            read_entries(&write_entries(first, &[IDLE]).0, &mut table, &IDLE, &mut gaps, damaged)
        };
        assert!(ahead(FREE_GAP, 0).is_ok());
        assert!(ahead(FREE_GAP, 0).is_err(), "the allowance is the file's, not the chunk's");
        let mut gaps = Allowance::new(0);
        assert!(gaps.fill(FREE_GAP + 400, 100).is_ok());
        assert!(gaps.fill(1, 100).is_err());
    }

    /// Equal entries compress to nearly nothing: a few kilobytes could have filled gigabytes.
    #[test]
    fn compressed_entries_are_held_against_the_size_of_the_file() {
        let many = vec![IDLE; 100_000];
        let mut chunks = 0;
        let mut table = vec![IDLE];
        let mut allowance = Allowance::new(5_000);
        while read_entries(&write_entries(table.len(), &many).0, &mut table, &IDLE, &mut allowance, 0).is_ok() {
            chunks += 1;
        }
        let bytes = table.len() as u64 * ENTRY_COST;
        assert!(chunks > 30 && bytes <= DICTIONARY_FREE + 5_000 * DICTIONARY_PER_BYTE, "{chunks} chunks");
    }

    /// An unknown layer made the rest of its chunk unreadable.
    #[test]
    fn layers_of_later_versions_are_read() {
        let mut table = Vec::new();
        let missing = FunctionInfo { symbol: "?".into(), layer: Layer::Other, class: Class::Other };
        let bytes = b"\0\x09\x01\x02ab\x01\x63\x01c";
        read_entries(bytes, &mut table, &missing, &mut Allowance::new(0), 0).unwrap();
        let seen: Vec<_> = table.iter().map(|f| (f.symbol.as_str(), f.layer, f.class)).collect();
        assert_eq!(seen, [("ab", Layer::Other, Class::Launch), ("c", Layer::Runtime, Class::Other)]);
    }
}
