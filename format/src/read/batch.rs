//! The decoded columns of one block.

use std::ops::Range;

use super::Trace;
use crate::block;
use crate::catalog::CPU;
use crate::column::{self, Codec, Context, Entry, Words};
use crate::error::Error;
use crate::index::IndexEntry;
use crate::layout::CHUNK_HEADER_LEN;

/// Bytes between two columns that are rather read along than left out: about what goes through memory in the time of
/// one more call. Payloads up to this size are read in one piece.
const APART: usize = 4096;

/// The decoded columns of one block.
pub struct Batch {
    codec: Codec,
    payload: Vec<u8>,
    rows: usize,
    runs: Vec<u32>,
    /// Columns by id.
    columns: Vec<Option<Words>>,
}

impl Batch {
    /// An empty batch, to be filled by [`Trace::read_block`].
    ///
    /// # Errors
    /// When zstd cannot be started.
    pub fn new() -> Result<Self, Error> {
        Ok(Self { codec: Codec::new(1)?, payload: Vec::new(), rows: 0, runs: Vec::new(), columns: Vec::new() })
    }

    /// Rows of the block.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// First row of each run of equal `cpu`, if that column was decoded. Within a run `ts_ns` never
    /// falls.
    #[must_use]
    pub fn runs(&self) -> &[u32] {
        &self.runs
    }

    /// The words of a column by id; none where the block lacks it or it was not asked for.
    #[must_use]
    #[inline]
    pub fn column(&self, id: u8) -> Option<&Words> {
        self.columns.get(usize::from(id))?.as_ref()
    }

    /// Bytes that the columns hold.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.columns.iter().flatten().map(Words::held_bytes).sum()
    }

    /// Forgets the block; the room stays.
    fn clear(&mut self) {
        self.rows = 0;
        self.runs.clear();
        for words in self.columns.iter_mut().filter_map(Option::take) {
            self.codec.shelf.put_held(words.held);
        }
    }

    /// Decodes columns, each given with where its bytes begin in `body`.
    fn decode(&mut self, mut todo: Vec<(usize, &Entry)>, body: &[u8], rows: usize) -> Result<(), String> {
        // CPUs first, then whatever has all that it is derived from.
        todo.sort_by_key(|(_, e)| e.id != CPU);
        while !todo.is_empty() {
            let ready =
                todo.iter().position(|(_, e)| todo.iter().all(|(_, other)| other.id == e.id || !e.needs(other.id)));
            let Some(ready) = ready else { return Err("columns are derived from each other".to_owned()) };
            let (start, e) = todo.remove(ready);
            let bytes = body.get(start..start + e.len as usize).unwrap_or_default();
            self.decode_column(e, bytes, rows).map_err(|problem| format!("column {}: {problem}", e.id))?;
        }
        self.rows = rows;
        Ok(())
    }

    fn decode_column(&mut self, e: &Entry, bytes: &[u8], rows: usize) -> Result<(), String> {
        let crc = crc32c::crc32c(bytes);
        if e.len > 0 && crc != e.crc {
            return Err(format!("crc {crc:#010x}, expected {:#010x}", e.crc));
        }
        let id = usize::from(e.id);
        if self.columns.len() <= id {
            self.columns.resize_with(id + 1, || None);
        }
        if self.columns[id].is_some() {
            return Err("it stands twice".to_owned());
        }
        let sources = e.sources.map(|id| (id != 0).then(|| self.columns.get(usize::from(id))?.as_ref()).flatten());
        let at = Context { runs: &self.runs, sources };
        let words = column::decode(&mut self.codec, e, bytes, rows, at).map_err(|m| m.to_string())?;
        if e.id == CPU {
            column::runs_of(&words, &mut self.runs);
        }
        self.columns[id] = Some(words);
        Ok(())
    }
}

/// The columns to decode, in the order of their bytes, each with where these begin in a body of `len` bytes: all, or
/// those of `only` and what they need.
fn wanted<'e>(entries: &'e [Entry], len: usize, only: Option<&[u8]>) -> Result<Vec<(usize, &'e Entry)>, String> {
    let mut todo: Vec<(usize, &Entry)> = Vec::with_capacity(entries.len());
    let mut start = 0;
    for e in entries {
        todo.push((start, e));
        start += e.len as usize;
    }
    if start != len {
        return Err(format!("columns of {start} bytes in a body of {len}"));
    }
    if let Some(ids) = only {
        // CPUs give the runs; what a column is derived from comes with it.
        let mut wanted = [false; 256];
        ids.iter().chain([&CPU]).for_each(|&id| wanted[usize::from(id)] = true);
        for _ in entries {
            for e in entries.iter().filter(|e| wanted[usize::from(e.id)]).collect::<Vec<_>>() {
                e.sources.iter().filter(|&&id| id != 0).for_each(|&id| wanted[usize::from(id)] = true);
            }
        }
        todo.retain(|(_, e)| wanted[usize::from(e.id)]);
    }
    Ok(todo)
}

/// The bytes of the body in which the columns lie, those that are close together as one.
fn ranges(columns: &[(usize, &Entry)]) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for (start, e) in columns.iter().filter(|(_, e)| e.len > 0) {
        let end = start + e.len as usize;
        match ranges.last_mut() {
            Some(last) if start - last.end <= APART => last.end = end,
            _ => ranges.push(*start..end),
        }
    }
    ranges
}

impl Trace {
    /// Decodes a block into `batch`: all its columns, or those of `only` (by id). Of a larger block no other bytes are
    /// read then.
    ///
    /// # Errors
    /// [`Error::Corrupt`] with the block's offset; `batch` is then empty. So too where a row names a task or a function
    /// whose entry was lost: whose row it is cannot be told.
    pub fn read_block(&self, entry: &IndexEntry, batch: &mut Batch, only: Option<&[u8]>) -> Result<(), Error> {
        batch.clear();
        let len = entry.header.payload_len as usize;
        let mut payload = std::mem::take(&mut batch.payload);
        if payload.len() < len {
            payload.resize(len, 0);
        }
        let decoded = self.read_columns(entry, &mut payload[..len], batch, only);
        batch.payload = payload;
        if decoded.is_err() {
            batch.clear();
        }
        decoded
    }

    /// As [`Trace::read_block`]; `payload` is room for the payload.
    fn read_columns(
        &self,
        entry: &IndexEntry,
        payload: &mut [u8],
        batch: &mut Batch,
        only: Option<&[u8]>,
    ) -> Result<(), Error> {
        let h = &entry.header;
        let broken = |problem: String| {
            Error::corrupt(format!("block {} ({})", h.seq, self.kind_name(h.kind)), entry.offset, problem)
        };
        let start = entry.offset + CHUNK_HEADER_LEN as u64;
        let head_len = h.head_len as usize;
        let at_once = if only.is_none() || payload.len() <= APART { payload.len() } else { head_len };
        let (first, _) = payload.split_at_mut_checked(at_once).ok_or_else(|| broken("impossible lengths".into()))?;
        self.read_at(first, start)?;
        let (head, body) = payload.split_at_mut_checked(head_len).ok_or_else(|| broken("impossible lengths".into()))?;
        h.check_head(head).map_err(broken)?;
        let entries = block::read_directory(head, h.rows).map_err(|e| broken(e.to_string()))?;
        let suspects = self.nameless.suspects(self.kind_schema(h.kind), &entries);
        let only = only.map(|ids| ids.iter().copied().chain(suspects.iter().map(|s| s.column)).collect::<Vec<_>>());
        let columns = wanted(&entries, body.len(), only.as_deref()).map_err(broken)?;
        if at_once == head_len {
            for range in ranges(&columns) {
                let at = start + (head_len + range.start) as u64;
                let part = body.get_mut(range).ok_or_else(|| broken("impossible lengths".into()))?;
                self.read_at(part, at)?;
            }
        }
        batch.decode(columns, body, h.rows as usize).map_err(broken)?;
        suspects.iter().find_map(|suspect| suspect.problem(batch)).map_or(Ok(()), |problem| Err(broken(problem)))
    }
}
