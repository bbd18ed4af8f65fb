//! Writing a file: rows go in one by one, blocks come out.

mod copy;
mod describe;
mod part;

use std::collections::HashMap;
use std::io::Write;

use crate::block::{Pending, Sealer};
use crate::catalog::{Body, EVENTS, Event, FuncId, Kind, StrId, TaskId};
use crate::chunk::ChunkHeader;
use crate::column::Codec;
use crate::dictionary::{self, FunctionInfo, IDLE, Task};
use crate::error::Error;
use crate::index;
use crate::index::{Footer, IndexEntry};
use crate::layout::{
    CHUNK_ALIGN, CHUNK_BLOCK, CHUNK_FOOTER, CHUNK_FUNCTIONS, CHUNK_HEADER_LEN, CHUNK_INDEX, CHUNK_META, CHUNK_STRINGS,
    CHUNK_TASKS, CPU_SEVERAL, FILE_HEADER_LEN, FILE_MAGIC, FLAG_ANCILLARY, FLAG_ZSTD, INDEX_ENTRY_LEN, MAX_PAYLOAD,
    NO_INDEX, SEAL_NS, SEAL_ROWS, VERSION_MAJOR, VERSION_MINOR,
};

use describe::Described;

pub use copy::ChunkCopy;
pub use part::Recent;

/// How hard to compress, and when to seal.
#[derive(Debug, Clone, Copy)]
pub struct WriterOptions {
    /// zstd level.
    pub level: i32,
    /// Rows after which a block is sealed, at most [`crate::layout::MAX_ROWS`].
    pub seal_rows: usize,
    /// Try every way to store a column and take the smallest: for rewriting a file offline.
    pub thorough: bool,
    /// Age after which [`TraceWriter::tick`] seals a block, nanoseconds.
    pub seal_ns: u64,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self { level: 1, seal_rows: SEAL_ROWS, thorough: false, seal_ns: SEAL_NS }
    }
}

/// What a finished file holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Rows of all kinds.
    pub events: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

/// Writes an `.igt` file to any [`Write`], never seeking: what has been written stays as it is, so
/// every prefix of the file is a recording.
///
/// Rows may come in any order; each block is sorted before it is sealed.
pub struct TraceWriter<W: Write> {
    out: W,
    /// Bytes written so far, the offset of the next chunk.
    offset: u64,
    options: WriterOptions,
    codec: Codec,
    pending: Vec<Pending>,
    /// Time of the latest [`TraceWriter::tick`].
    now_ns: u64,
    sealer: Sealer,
    payload: Vec<u8>,
    strings: Dictionary<Box<str>>,
    string_ids: HashMap<Box<str>, StrId>,
    tasks: Dictionary<Task>,
    functions: Dictionary<FunctionInfo>,
    meta: Dictionary<(String, String)>,
    described: Described,
    index: Vec<IndexEntry>,
    /// Chunks that one index can list.
    index_cap: usize,
    events: u64,
}

/// Entries of a dictionary, and how many of them the file has already.
struct Dictionary<E> {
    entries: Vec<E>,
    written: usize,
}

impl<E> Dictionary<E> {
    fn new(entries: Vec<E>) -> Self {
        Self { written: entries.len(), entries }
    }
    fn push(&mut self, entry: E) -> u32 {
        self.entries.push(entry);
        u32::try_from(self.entries.len() - 1).unwrap_or(u32::MAX)
    }
}

/// Place of a kind in the table of kinds.
const fn place_of(kind: Kind) -> usize {
    let mut at = 0;
    while at < EVENTS.len() && EVENTS[at].kind as u16 != kind as u16 {
        at += 1;
    }
    at
}

/// The payload of a chunk with [`FLAG_ZSTD`]; none where that would not be smaller.
fn compressed(codec: &mut Codec, raw: &[u8]) -> Option<Vec<u8>> {
    if raw.len() < 64 {
        return None;
    }
    let frame = codec.compress(raw).filter(|frame| frame.len() + 4 < raw.len())?;
    let len = u32::try_from(raw.len()).unwrap_or(u32::MAX).to_le_bytes();
    Some([&len[..], frame].concat())
}

impl<W: Write> TraceWriter<W> {
    /// Begins a file: writes its header.
    ///
    /// # Errors
    /// [`Error::Io`] when `out` does not take the bytes.
    pub fn new(out: W, options: WriterOptions) -> Result<Self, Error> {
        let mut writer = Self {
            out,
            offset: 0,
            options: WriterOptions { seal_rows: options.seal_rows.clamp(1, crate::layout::MAX_ROWS), ..options },
            codec: Codec::new(options.level)?.thorough(options.thorough),
            pending: EVENTS.iter().map(Pending::new).collect(),
            now_ns: 0,
            sealer: Sealer::default(),
            payload: Vec::new(),
            strings: Dictionary::new(vec!["".into()]),
            string_ids: HashMap::from([("".into(), StrId(0))]),
            tasks: Dictionary::new(vec![IDLE]),
            functions: Dictionary::new(Vec::new()),
            meta: Dictionary::new(Vec::new()),
            described: Described::default(),
            index: Vec::new(),
            index_cap: MAX_PAYLOAD / INDEX_ENTRY_LEN,
            events: 0,
        };
        writer.put_header()?;
        Ok(writer)
    }

    fn put_header(&mut self) -> Result<(), Error> {
        let mut header = [0; FILE_HEADER_LEN];
        header[..8].copy_from_slice(&FILE_MAGIC);
        header[8..10].copy_from_slice(&VERSION_MAJOR.to_le_bytes());
        header[10..12].copy_from_slice(&VERSION_MINOR.to_le_bytes());
        header[12..16].copy_from_slice(&(FILE_HEADER_LEN as u32).to_le_bytes());
        let crc = crc32c::crc32c(&header[..FILE_HEADER_LEN - 4]);
        header[FILE_HEADER_LEN - 4..].copy_from_slice(&crc.to_le_bytes());
        self.put(&header)
    }

    /// Sets a key about the recording. Of several values the last one holds.
    pub fn set_meta(&mut self, key: &str, value: &str) {
        self.meta.push((key.to_owned(), value.to_owned()));
    }

    /// The id of a string.
    pub fn string(&mut self, text: &str) -> StrId {
        if let Some(&id) = self.string_ids.get(text) {
            return id;
        }
        let id = StrId(self.strings.push(text.into()));
        self.string_ids.insert(text.into(), id);
        id
    }

    /// The id of a task that no earlier call named: each call begins a life.
    pub fn task(&mut self, task: Task) -> TaskId {
        TaskId(self.tasks.push(task))
    }

    /// The id of a function that no earlier call named.
    pub fn function(&mut self, function: FunctionInfo) -> FuncId {
        FuncId(self.functions.push(function))
    }

    /// Takes one event. A full block is sealed and written.
    ///
    /// # Errors
    /// [`Error::Io`] when the file does not take the bytes.
    #[inline]
    pub fn push<E: Event>(&mut self, ts_ns: u64, cpu: u32, event: &E) -> Result<(), Error> {
        let at = const { place_of(E::KIND) };
        let Some(pending) = self.pending.get_mut(at) else { return Ok(()) };
        if pending.rows() == 0 {
            pending.since_ns = self.now_ns;
        }
        pending.push(cpu, &event.row(ts_ns, cpu), &mut self.codec);
        self.events += 1;
        if pending.rows() >= self.options.seal_rows { self.seal(at) } else { Ok(()) }
    }

    /// Takes one event of any kind.
    ///
    /// # Errors
    /// [`Error::Io`] when the file does not take the bytes.
    pub fn push_any(&mut self, ts_ns: u64, cpu: u32, event: &Body) -> Result<(), Error> {
        event.push_to(self, ts_ns, cpu)
    }

    /// Tells the time on a clock of the caller's choice, and seals every block whose first row came
    /// longer than the options' `seal_ns` before.
    ///
    /// # Errors
    /// [`Error::Io`] when the file does not take the bytes.
    pub fn tick(&mut self, now_ns: u64) -> Result<(), Error> {
        self.now_ns = now_ns;
        for at in 0..self.pending.len() {
            let p = &self.pending[at];
            if p.rows() > 0 && now_ns.saturating_sub(p.since_ns) >= self.options.seal_ns {
                self.seal(at)?;
            }
        }
        Ok(())
    }

    /// Seals and writes the rows of one kind that were taken so far.
    ///
    /// # Errors
    /// [`Error::Io`] when the file does not take the bytes.
    pub fn seal_kind(&mut self, kind: Kind) -> Result<(), Error> {
        let at = self.pending.iter().position(|p| p.kind.kind == kind && p.rows() > 0);
        at.map_or(Ok(()), |at| self.seal(at))
    }

    /// Seals and writes everything that was taken so far, and flushes `out`.
    ///
    /// # Errors
    /// [`Error::Io`] when the file does not take the bytes.
    pub fn flush(&mut self) -> Result<(), Error> {
        for at in 0..self.pending.len() {
            if self.pending[at].rows() > 0 {
                self.seal(at)?;
            }
        }
        self.write_dictionaries()?;
        self.out.flush().map_err(|e| self.io(e))
    }

    /// Writes what is pending, the index and the footer, and hands `out` back.
    ///
    /// # Errors
    /// [`Error::Io`] when the file does not take the bytes.
    pub fn finish(mut self) -> Result<(W, Totals), Error> {
        let totals = self.end()?;
        Ok((self.out, totals))
    }

    fn end(&mut self) -> Result<Totals, Error> {
        self.flush()?;
        let chunks = self.index.len();
        let index_offset = if chunks <= self.index_cap { self.offset } else { NO_INDEX };
        if index_offset != NO_INDEX {
            self.chunk_of(CHUNK_INDEX, chunks, &index::write(&self.index))?;
        }
        let footer = Footer { index_offset, chunks: chunks as u64, events: self.events };
        self.plain_chunk(CHUNK_FOOTER, 0, 0, &footer.to_bytes())?;
        self.out.flush().map_err(|e| self.io(e))?;
        Ok(Totals { events: self.events, bytes: self.offset })
    }

    /// Bytes written so far.
    #[must_use]
    pub fn bytes_written(&self) -> u64 {
        self.offset
    }

    /// Events taken so far.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The file itself, as far as it is written.
    pub fn get_ref(&self) -> &W {
        &self.out
    }

    fn seal(&mut self, at: usize) -> Result<(), Error> {
        // What the rows refer to comes before them.
        self.describe(self.pending[at].kind.kind)?;
        self.write_dictionaries()?;
        let mut payload = std::mem::take(&mut self.payload);
        let pending = &mut self.pending[at];
        let kind = pending.kind.kind;
        let sealed = pending.seal(&mut self.codec, &mut self.sealer, &mut payload);
        let header = ChunkHeader {
            chunk_type: CHUNK_BLOCK,
            flags: 0,
            kind: kind as u16,
            seq: 0,
            rows: sealed.rows,
            cpu: sealed.cpu,
            head_len: sealed.head_len,
            payload_len: 0,
            head_crc: 0,
            ts_min: sealed.ts_min,
            ts_max: sealed.ts_max,
        };
        let written = self.chunk(header, &payload);
        self.payload = payload;
        written
    }

    fn write_dictionaries(&mut self) -> Result<(), Error> {
        // Written only once the whole chunk is: a failed write leaves the entries to be written.
        macro_rules! write_new {
            ($field:ident, $chunk:expr) => {
                while self.$field.written < self.$field.entries.len() {
                    let from = self.$field.written;
                    let (payload, taken) = dictionary::write_entries(from, &self.$field.entries[from..]);
                    self.chunk_of($chunk, taken, &payload)?;
                    self.$field.written = from + taken;
                }
            };
        }
        write_new!(meta, CHUNK_META);
        write_new!(strings, CHUNK_STRINGS);
        write_new!(tasks, CHUNK_TASKS);
        write_new!(functions, CHUNK_FUNCTIONS);
        Ok(())
    }

    /// Writes a chunk that is no block, compressed where that helps.
    fn chunk_of(&mut self, chunk_type: u8, rows: usize, raw: &[u8]) -> Result<(), Error> {
        match compressed(&mut self.codec, raw) {
            Some(packed) => self.plain_chunk(chunk_type, FLAG_ZSTD, rows, &packed),
            None => self.plain_chunk(chunk_type, 0, rows, raw),
        }
    }

    fn plain_chunk(&mut self, chunk_type: u8, flags: u8, rows: usize, payload: &[u8]) -> Result<(), Error> {
        let ancillary = if chunk_type == CHUNK_INDEX { FLAG_ANCILLARY } else { 0 };
        let header = ChunkHeader {
            chunk_type,
            flags: flags | ancillary,
            kind: 0,
            seq: 0,
            rows: u32::try_from(rows).unwrap_or(u32::MAX),
            cpu: CPU_SEVERAL,
            head_len: u32::try_from(payload.len()).unwrap_or(u32::MAX),
            payload_len: 0,
            head_crc: 0,
            ts_min: 0,
            ts_max: 0,
        };
        self.chunk(header, payload)
    }

    /// Completes the header and writes the chunk with its padding.
    fn chunk(&mut self, mut header: ChunkHeader, payload: &[u8]) -> Result<(), Error> {
        if payload.len() > MAX_PAYLOAD {
            let what = format!("a chunk of {} bytes is larger than the format allows ({MAX_PAYLOAD})", payload.len());
            return Err(Error::Limit(what));
        }
        header.seq = u32::try_from(self.index.len()).unwrap_or(u32::MAX);
        header.payload_len = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        header.head_crc = crc32c::crc32c(payload.get(..header.head_len as usize).unwrap_or(payload));
        let entry = IndexEntry { offset: self.offset, header };
        self.put(&header.to_bytes())?;
        self.put(payload)?;
        let padding =
            (CHUNK_HEADER_LEN + payload.len()).next_multiple_of(CHUNK_ALIGN) - CHUNK_HEADER_LEN - payload.len();
        self.put(&[0; CHUNK_ALIGN][..padding])?;
        self.index.push(entry);
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.out.write_all(bytes).map_err(|e| self.io(e))?;
        self.offset += bytes.len() as u64;
        Ok(())
    }

    fn io(&self, source: std::io::Error) -> Error {
        Error::io(format!("writing at offset {:#x}", self.offset), source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Exit;
    use crate::{Batch, Trace};

    fn reopened(bytes: &[u8]) -> Trace {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        Trace::from_file(file, "test.igt".into()).unwrap()
    }

    /// One index holds a million chunks, which a recording of several hours exceeds: it could not be
    /// finished.
    #[test]
    fn a_file_of_more_chunks_than_an_index_lists_is_complete_without_one() {
        for (cap, indexed) in [(4, true), (3, false)] {
            let mut w =
                TraceWriter::new(Vec::new(), WriterOptions { seal_rows: 1, ..WriterOptions::default() }).unwrap();
            w.index_cap = cap;
            for ts in 0..3 {
                w.push(ts, 0, &Exit { task: TaskId(0), group_dead: None }).unwrap();
            }
            let bytes = w.finish().unwrap().0;
            let trace = reopened(&bytes);
            assert!(trace.complete() && trace.damage().is_empty());
            assert_eq!((trace.blocks().len(), trace.chunks().len()), (3, 4));
            let last = trace.chunks()[3];
            let behind = (bytes.len() - CHUNK_HEADER_LEN - crate::layout::FOOTER_PAYLOAD_LEN) as u64;
            assert_eq!(last.offset + last.header.span() < behind, indexed);
            // A chunk that is missing is missed.
            let mut cut = bytes.clone();
            let at = usize::try_from(trace.chunks()[2].offset).unwrap();
            cut.drain(at..at + usize::try_from(trace.chunks()[2].header.span()).unwrap());
            if !indexed {
                assert!(!reopened(&cut).complete());
            }
        }
    }

    /// The strings of one seal could exceed a chunk, and the recording ended there.
    #[test]
    fn many_strings_go_into_several_chunks() {
        let mut w = TraceWriter::new(Vec::new(), WriterOptions::default()).unwrap();
        let long = "x".repeat(1 << 21);
        let ids: Vec<StrId> = (0..5).map(|i| w.string(&format!("{i}{long}"))).collect();
        w.push(1, 0, &crate::catalog::Name { task: TaskId(0), name: ids[4], source: 0 }).unwrap();
        let trace = reopened(&w.finish().unwrap().0);
        assert_eq!(trace.chunks().iter().filter(|c| c.header.chunk_type == CHUNK_STRINGS).count(), 3);
        for (i, id) in ids.iter().enumerate() {
            assert!(trace.string(*id).starts_with(&i.to_string()));
        }
        let mut batch = Batch::new().unwrap();
        assert!(trace.read_block(&trace.blocks()[0], &mut batch, None).is_ok());
    }
}
