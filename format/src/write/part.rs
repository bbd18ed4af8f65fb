//! One recording in several files, each complete by itself, and the last part of one in memory.
//!
//! Ids stay what they are: every file begins with all that the dictionaries hold by then. So rows, and whole sealed
//! blocks, mean the same in each of them.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::Arc;

use super::{Totals, TraceWriter};
use crate::catalog::Kind;
use crate::chunk::ChunkHeader;
use crate::column::Codec;
use crate::error::Error;
use crate::layout::{CHUNK_ALIGN, CHUNK_BLOCK, CHUNK_HEADER_LEN, FILE_HEADER_LEN};

impl<W: Write> TraceWriter<W> {
    /// Ends the file as [`finish`](Self::finish) does, and goes on in another one. Hands the ended one back.
    ///
    /// Ids keep their meaning. Rows that a reader of the new file alone needs (names, processes) are the caller's to
    /// write again.
    ///
    /// # Errors
    /// [`Error::Io`] when the old file does not take its end, or the new one its beginning.
    pub fn next_part(&mut self, out: W) -> Result<(W, Totals), Error> {
        let totals = self.end()?;
        let ended = std::mem::replace(&mut self.out, out);
        self.offset = 0;
        self.events = 0;
        self.index.clear();
        // What every file has without saying.
        (self.strings.written, self.tasks.written) = (1, 1);
        (self.functions.written, self.meta.written) = (0, 0);
        self.put_header()?;
        self.describe_anew()?;
        self.write_dictionaries()?;
        Ok((ended, totals))
    }

    /// Begins another file with the same ids, and nothing but its schema and the dictionaries of now in it.
    ///
    /// # Errors
    /// [`Error::Io`] when `out` does not take the bytes.
    pub fn copy_to<V: Write>(&self, out: V) -> Result<TraceWriter<V>, Error> {
        let mut copy = TraceWriter::new(out, self.options)?;
        copy.strings.entries.clone_from(&self.strings.entries);
        copy.string_ids.clone_from(&self.string_ids);
        copy.tasks.entries.clone_from(&self.tasks.entries);
        copy.functions.entries.clone_from(&self.functions.entries);
        copy.meta.entries.clone_from(&self.meta.entries);
        copy.described.kinds.clone_from(&self.described.kinds);
        copy.describe_anew()?;
        Ok(copy)
    }

    /// Writes a block that a writer with the same ids has sealed, byte for byte but for its number.
    ///
    /// # Errors
    /// [`Error::Io`] when the file does not take the bytes, [`Error::Limit`] when these are those of no chunk.
    pub fn adopt(&mut self, chunk: &[u8]) -> Result<(), Error> {
        let whole = chunk.split_at_checked(CHUNK_HEADER_LEN).and_then(|(head, rest)| {
            let header = ChunkHeader::from_bytes(head).ok()?;
            Some((header, rest.get(..header.payload_len as usize)?))
        });
        let Some((header, payload)) = whole else {
            return Err(Error::Limit("these bytes are no chunk".to_owned()));
        };
        if let Some(kind) = Kind::from_number(header.kind) {
            self.describe(kind)?;
        }
        self.write_dictionaries()?;
        self.events += u64::from(header.rows);
        self.chunk(header, payload)
    }

    /// Compresses harder or less hard from here on: readers need not know.
    ///
    /// # Errors
    /// [`Error::Io`] when the compressor refuses the level.
    pub fn set_level(&mut self, level: i32) -> Result<(), Error> {
        if level != self.options.level {
            self.codec = Codec::new(level)?.thorough(self.options.thorough);
            self.options.level = level;
        }
        Ok(())
    }

    /// Chunks written so far that the index will list.
    #[must_use]
    pub fn chunks(&self) -> usize {
        self.index.len()
    }

    /// Forgets the chunks written so far: for what is written into memory, where an index that nobody will read would
    /// grow for ever.
    pub fn forget_chunks(&mut self) {
        self.index.clear();
    }

    /// The file itself, as far as it is written.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.out
    }
}

/// The sealed blocks of the last while, in memory: the other chunks of what is written to it are dropped, since the
/// writer can write them anew at any time.
///
/// Blocks lie in segments that begin at moments which the caller chooses. When their bytes pass the limit, the oldest
/// segment goes; when only one is left, its oldest blocks.
#[derive(Debug)]
pub struct Recent {
    limit_bytes: u64,
    segments: VecDeque<Segment>,
    bytes: u64,
    /// Bytes of a chunk that is not whole yet.
    partial: Vec<u8>,
    began: bool,
    /// Blocks that went because of the limit.
    crowded_out: u64,
}

#[derive(Debug, Default)]
struct Segment {
    from_ns: u64,
    blocks: VecDeque<Arc<[u8]>>,
}

impl Segment {
    fn bytes(&self) -> u64 {
        self.blocks.iter().map(|b| b.len() as u64).sum()
    }
}

impl Recent {
    /// Keeps at most so many bytes.
    #[must_use]
    pub fn new(limit_bytes: u64) -> Self {
        let segments = VecDeque::from([Segment::default()]);
        Self { limit_bytes, segments, bytes: 0, partial: Vec::new(), began: false, crowded_out: 0 }
    }

    /// Bytes of the blocks that are kept.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Begin of the oldest segment that is kept: 0 while the first one is.
    #[must_use]
    pub fn from_ns(&self) -> u64 {
        self.segments.front().map_or(0, |s| s.from_ns)
    }

    /// Blocks that had to go before their time, because the limit was reached.
    #[must_use]
    pub fn crowded_out(&self) -> u64 {
        self.crowded_out
    }

    /// What is kept, oldest segment first; cheap, for it is shared.
    #[must_use]
    pub fn blocks(&self) -> Vec<Arc<[u8]>> {
        self.segments.iter().flat_map(|s| s.blocks.iter().cloned()).collect()
    }

    /// Begins a new segment: the blocks from here on speak of `from_ns` and later. Forgets whole segments of which every
    /// moment is before `keep_ns`.
    pub fn begin_segment(&mut self, from_ns: u64, keep_ns: u64) {
        self.segments.push_back(Segment { from_ns, ..Segment::default() });
        // The first segment is dispensable once the second reaches back far enough.
        while self.segments.get(1).is_some_and(|second| second.from_ns <= keep_ns) {
            self.drop_first();
        }
    }

    fn drop_first(&mut self) -> u64 {
        let Some(gone) = self.segments.pop_front() else { return 0 };
        self.bytes -= gone.bytes();
        gone.blocks.len() as u64
    }

    fn take(&mut self, chunk: &[u8]) {
        self.bytes += chunk.len() as u64;
        if let Some(last) = self.segments.back_mut() {
            last.blocks.push_back(chunk.into());
        }
        while self.bytes > self.limit_bytes {
            if self.segments.len() > 1 {
                self.crowded_out += self.drop_first();
            } else {
                let Some(gone) = self.segments.front_mut().and_then(|s| s.blocks.pop_front()) else { break };
                self.bytes -= gone.len() as u64;
                self.crowded_out += 1;
            }
        }
    }
}

impl Write for Recent {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.partial.extend_from_slice(bytes);
        let mut at = 0;
        if !self.began && self.partial.len() >= FILE_HEADER_LEN {
            self.began = true;
            at = FILE_HEADER_LEN;
        }
        while self.began
            && let Some(head) = self.partial.get(at..at + CHUNK_HEADER_LEN)
        {
            let header = ChunkHeader::from_bytes(head).map_err(io::Error::other)?;
            let len = (CHUNK_HEADER_LEN + header.payload_len as usize).next_multiple_of(CHUNK_ALIGN);
            let Some(chunk) = self.partial.get(at..at + len) else { break };
            if header.chunk_type == CHUNK_BLOCK {
                let chunk = chunk.to_vec();
                self.take(&chunk);
            }
            at += len;
        }
        self.partial.drain(..at);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{Kind, NO_CPU, TS, TaskId, Wakeup};
    use crate::dictionary::Task;
    use crate::read::{Batch, Trace};
    use crate::write::WriterOptions;

    fn options() -> WriterOptions {
        WriterOptions { seal_rows: 10, ..WriterOptions::default() }
    }

    fn push<W: Write>(writer: &mut TraceWriter<W>, wakee: TaskId, times: std::ops::Range<u64>) {
        for ts in times {
            writer.push(ts, NO_CPU, &Wakeup { wakee, target_cpu: 0 }).unwrap();
        }
    }

    /// Times and the pids of the woken tasks.
    fn rows(bytes: Vec<u8>) -> Vec<(u64, u32)> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.igt");
        std::fs::write(&path, bytes).unwrap();
        let trace = Trace::open(&path).unwrap();
        assert!(trace.complete() && trace.damage().is_empty());
        let mut batch = Batch::new().unwrap();
        let mut rows = Vec::new();
        for block in trace.blocks() {
            trace.read_block(block, &mut batch, None).unwrap();
            assert_eq!(block.header.kind, Kind::Wakeup as u16);
            let (times, wakees) = (batch.column(TS).unwrap(), batch.column(2).unwrap());
            let pid = |word: u64| trace.task(TaskId(u32::try_from(word).unwrap())).pid;
            rows.extend(times.iter().zip(wakees.iter()).map(|(ts, wakee)| (ts, pid(wakee))));
        }
        rows.sort_unstable();
        rows
    }

    fn expected(times: std::ops::Range<u64>, pid: u32) -> Vec<(u64, u32)> {
        times.map(|ts| (ts, pid)).collect()
    }

    #[test]
    fn each_part_is_complete() {
        let mut writer = TraceWriter::new(Vec::new(), options()).unwrap();
        let seven = writer.task(Task { pid: 7, tid: 7, start_ns: None });
        push(&mut writer, seven, 0..25);
        let (first, totals) = writer.next_part(Vec::new()).unwrap();
        assert_eq!((totals.events, totals.bytes), (25, first.len() as u64));
        writer.set_level(-5).unwrap();
        push(&mut writer, seven, 25..33);
        let (second, totals) = writer.finish().unwrap();
        assert_eq!((totals.events, totals.bytes), (8, second.len() as u64));
        assert_eq!(rows(first), expected(0..25, 7));
        assert_eq!(rows(second), expected(25..33, 7));
    }

    #[test]
    fn the_last_while_is_kept_and_written() {
        let mut writer = TraceWriter::new(Recent::new(1 << 20), options()).unwrap();
        let seven = writer.task(Task { pid: 7, tid: 7, start_ns: None });
        for begin in (0..1000).step_by(100) {
            writer.flush().unwrap();
            writer.forget_chunks();
            writer.get_mut().begin_segment(begin, begin.saturating_sub(250));
            push(&mut writer, seven, begin..begin + 100);
        }
        writer.flush().unwrap();
        // At 900 everything from 650 on was wanted: the segment that begins at 600 holds it.
        assert_eq!(writer.get_ref().from_ns(), 600);
        let mut copy = writer.copy_to(Vec::new()).unwrap();
        for block in writer.get_ref().blocks() {
            copy.adopt(&block).unwrap();
        }
        push(&mut copy, seven, 1000..1005);
        let (file, totals) = copy.finish().unwrap();
        assert_eq!(totals.events, 405);
        assert_eq!(rows(file), expected(600..1005, 7));
    }

    #[test]
    fn memory_is_bounded() {
        let mut writer = TraceWriter::new(Recent::new(4096), options()).unwrap();
        let seven = writer.task(Task { pid: 7, tid: 7, start_ns: None });
        for begin in (0..100_000).step_by(100) {
            if begin % 1000 == 0 && begin < 50_000 {
                writer.flush().unwrap();
                writer.get_mut().begin_segment(begin, 0);
            }
            push(&mut writer, seven, begin..begin + 100);
            assert!(writer.get_ref().bytes() <= 4096);
        }
        assert!(writer.get_ref().crowded_out() > 9000);
        assert!(writer.get_ref().blocks().len() > 5);
        assert!(writer.adopt(b"no chunk").is_err());
    }
}
