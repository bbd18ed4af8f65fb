//! Copying chunks from one file into another: what is whole stays byte for byte as it was, whether
//! this build understands it or not; only its place, its number and the index are new.

use std::collections::HashMap;
use std::io::Write;

use super::TraceWriter;
use crate::block;
use crate::bytes::Reader;
use crate::catalog::{CPU, Class, Layer, StrId, TS, Unit};
use crate::chunk::ChunkHeader;
use crate::dictionary::{self, Allowance, FunctionInfo, IDLE};
use crate::error::Error;
use crate::index::IndexEntry;
use crate::layout::{
    CHUNK_BLOCK, CHUNK_FUNCTIONS, CHUNK_HEADER_LEN, CHUNK_META, CHUNK_SCHEMA, CHUNK_STRINGS, CHUNK_TASKS, CPU_SEVERAL,
    TRANSFORM_NAMES,
};
use crate::read::{Batch, Trace};
use crate::schema::{self, ColumnSchema, KindSchema};

/// Copies the chunks of a trace into a new file. What the dictionaries of the source lack is filled in
/// with stand-ins, so that every id keeps its meaning.
///
/// ```
/// # use ingero_format::{ChunkCopy, Error, Trace, TraceWriter, WriterOptions};
/// # fn copied(trace: &Trace) -> Result<Vec<u8>, Error> {
/// let mut copy = ChunkCopy::new(trace, Vec::new(), WriterOptions::default())?;
/// for chunk in trace.chunks() {
///     match copy.take(chunk) {
///         // Left out.
///         Ok(()) | Err(Error::Corrupt { .. }) => {}
///         Err(other) => return Err(other),
///     }
/// }
/// // From here on it is a writer like any other.
/// let mut writer: TraceWriter<Vec<u8>> = copy.into_writer()?;
/// writer.set_meta("note", "a copy");
/// Ok(writer.finish()?.0)
/// # }
/// ```
pub struct ChunkCopy<'t, W: Write> {
    trace: &'t Trace,
    writer: TraceWriter<W>,
    batch: Batch,
    allowance: Allowance,
    /// Whether a schema was written that stands for the source's.
    makeshift: bool,
}

impl<'t, W: Write> ChunkCopy<'t, W> {
    /// Begins the new file: its header, and a schema where the source has lost its own or a part of it.
    ///
    /// # Errors
    /// [`Error::Io`] when `out` does not take the bytes.
    pub fn new(trace: &'t Trace, out: W, options: super::WriterOptions) -> Result<Self, Error> {
        let mut copy = Self::begun(trace, out, options)?;
        let mut named = Vec::new();
        let mut whole = true;
        for chunk in trace.chunks().iter().filter(|c| c.header.chunk_type == CHUNK_SCHEMA) {
            match copy.schema_of(chunk) {
                Ok(kinds) => named.extend(kinds.iter().map(|k| k.number)),
                Err(_) => whole = false,
            }
        }
        if !whole || trace.blocks().iter().any(|b| !named.contains(&b.header.kind)) {
            copy.makeshift = true;
            let kinds = copy.makeshift_schema();
            copy.writer.put_schema(kinds)?;
        }
        Ok(copy)
    }

    /// Begins a new file that is to take rows of this build beside the source's chunks: its schema has
    /// the columns which the source's lacks.
    ///
    /// # Errors
    /// [`Error::Io`] when `out` does not take the bytes.
    pub fn extended(trace: &'t Trace, out: W, options: super::WriterOptions) -> Result<Self, Error> {
        let mut copy = Self { makeshift: true, ..Self::begun(trace, out, options)? };
        let mut kinds = copy.makeshift_schema();
        for own in schema::own_schema() {
            if let Some(kind) = kinds.iter_mut().find(|k| k.number == own.number) {
                let lacking = own.columns.into_iter().filter(|c| kind.columns.iter().all(|k| k.id != c.id));
                let lacking: Vec<_> = lacking.collect();
                kind.columns.extend(lacking);
            }
        }
        copy.writer.put_schema(kinds)?;
        Ok(copy)
    }

    fn begun(trace: &'t Trace, out: W, options: super::WriterOptions) -> Result<Self, Error> {
        let writer = TraceWriter::new(out, options)?;
        let allowance = Allowance::new(trace.len_bytes());
        Ok(Self { trace, writer, batch: Batch::new()?, allowance, makeshift: false })
    }

    /// Copies one chunk of the source. A header that its own rows contradict is corrected.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when the chunk is not whole, or its rows are not those of a block: nothing is
    /// written then. [`Error::Io`] when a file fails.
    pub fn take(&mut self, chunk: &IndexEntry) -> Result<(), Error> {
        match chunk.header.chunk_type {
            CHUNK_BLOCK => self.block(chunk),
            CHUNK_SCHEMA => {
                let kinds = self.schema_of(chunk)?;
                if self.makeshift {
                    return Ok(());
                }
                self.verbatim(chunk.header, chunk.offset)?;
                self.writer.described.chunks += 1;
                schema::merge(&mut self.writer.described.kinds, kinds).map_err(|e| broken(chunk, e.to_string()))
            }
            CHUNK_META | CHUNK_STRINGS | CHUNK_TASKS | CHUNK_FUNCTIONS => self.dictionary(chunk),
            _ => {
                self.stored(chunk)?;
                self.verbatim(chunk.header, chunk.offset)
            }
        }
    }

    /// The writer, knowing all that was copied.
    ///
    /// # Errors
    /// [`Error::Io`] when the file does not take the bytes.
    pub fn into_writer(mut self) -> Result<TraceWriter<W>, Error> {
        self.writer.write_dictionaries()?;
        let strings = self.writer.strings.entries.iter().zip(0..);
        self.writer.string_ids = strings.map(|(text, id)| (text.clone(), StrId(id))).collect::<HashMap<_, _>>();
        Ok(self.writer)
    }

    fn schema_of(&self, chunk: &IndexEntry) -> Result<Vec<KindSchema>, Error> {
        let bytes = self.trace.whole_payload(chunk)?;
        schema::read(&bytes, &mut Allowance::new(self.trace.len_bytes())).map_err(|e| broken(chunk, e.to_string()))
    }

    /// What is known of the schema (by this build where the source does not tell), and numbers for names
    /// where blocks are of other kinds; by number.
    fn makeshift_schema(&self) -> Vec<KindSchema> {
        let mut kinds = self.trace.schema().to_vec();
        for block in self.trace.blocks() {
            let number = block.header.kind;
            if kinds.iter().any(|k| k.number == number) {
                continue;
            }
            let Ok(stored) = self.trace.stored_columns(block) else { continue };
            let column = |id: u8| ColumnSchema {
                id,
                name: match id {
                    TS => "ts_ns".to_owned(),
                    CPU => "cpu".to_owned(),
                    _ => format!("column_{id}"),
                },
                unit: match id {
                    TS => Unit::TimeNs.code(),
                    CPU => Unit::Cpu.code(),
                    _ => Unit::Number.code(),
                },
                nullable: false,
                doc: "The schema that described it is lost.".to_owned(),
                names: Vec::new(),
            };
            kinds.push(KindSchema {
                number,
                name: format!("kind_{number}"),
                doc: "The schema that described it is lost.".to_owned(),
                columns: stored.iter().map(|c| column(c.id)).collect(),
            });
        }
        kinds.sort_by_key(|k| k.number);
        kinds
    }

    /// The payload as it is stored; its head fits its CRC.
    fn stored(&self, chunk: &IndexEntry) -> Result<Vec<u8>, Error> {
        let h = &chunk.header;
        let mut bytes = vec![0; h.payload_len as usize];
        self.trace.read_at(&mut bytes, chunk.offset + CHUNK_HEADER_LEN as u64)?;
        h.check_head(bytes.get(..h.head_len as usize).unwrap_or_default()).map_err(|e| broken(chunk, e))?;
        Ok(bytes)
    }

    fn verbatim(&mut self, header: ChunkHeader, offset: u64) -> Result<(), Error> {
        let bytes = self.stored(&IndexEntry { offset, header })?;
        // Its number is the next one of the new file; all else is as it was.
        self.writer.chunk(header, &bytes)
    }

    fn dictionary(&mut self, chunk: &IndexEntry) -> Result<(), Error> {
        let bytes = self.trace.whole_payload(chunk)?;
        let first = Reader::new(&bytes).varint().map_err(|e| broken(chunk, e.to_string()))?;
        let first = usize::try_from(first).unwrap_or(usize::MAX);
        macro_rules! copy {
            ($field:ident, $missing:expr) => {{
                // What is filled in is written before, so that the new file has no gap.
                self.fill(chunk, Fill { $field: first, ..Fill::default() })?;
                let mut entries = std::mem::take(&mut self.writer.$field.entries);
                let before = entries.len();
                let read = dictionary::read_entries(&bytes, &mut entries, &$missing, &mut self.allowance, 0);
                if read.is_err() {
                    entries.truncate(before);
                }
                self.writer.$field.entries = entries;
                read.map_err(|e| broken(chunk, e.to_string()))?;
                self.verbatim(chunk.header, chunk.offset)?;
                self.writer.$field.written = self.writer.$field.entries.len();
            }};
        }
        match chunk.header.chunk_type {
            CHUNK_META => copy!(meta, <(String, String)>::default()),
            CHUNK_STRINGS => copy!(strings, Box::<str>::from("?")),
            CHUNK_TASKS => copy!(tasks, IDLE),
            _ => copy!(functions, lost_function()),
        }
        Ok(())
    }

    /// Writes stand-ins, so that the dictionaries have so many entries at least.
    fn fill(&mut self, chunk: &IndexEntry, upto: Fill) -> Result<(), Error> {
        let damaged = self.trace.damage().iter().map(|d| d.len).fold(0, u64::saturating_add);
        let mut more = 0;
        macro_rules! fill {
            ($field:ident, $missing:expr) => {
                let have = self.writer.$field.entries.len();
                let lacking = upto.$field.saturating_sub(have);
                self.allowance.fill(lacking, damaged).map_err(|_| {
                    broken(chunk, format!("it refers to entry {} of {have}", upto.$field.saturating_sub(1)))
                })?;
                self.writer.$field.entries.resize(have + lacking, $missing);
                more += lacking;
            };
        }
        fill!(meta, <(String, String)>::default());
        fill!(strings, "?".into());
        fill!(tasks, IDLE);
        fill!(functions, lost_function());
        if more > 0 { self.writer.write_dictionaries() } else { Ok(()) }
    }

    fn block(&mut self, chunk: &IndexEntry) -> Result<(), Error> {
        let mut header = chunk.header;
        let bytes = self.stored(chunk)?;
        let (head, body) = bytes
            .split_at_checked(header.head_len as usize)
            .ok_or_else(|| broken(chunk, "impossible lengths".to_owned()))?;
        let entries = block::read_directory(head, header.rows).map_err(|e| broken(chunk, e.to_string()))?;
        if entries.iter().all(|e| usize::from(e.transform) < TRANSFORM_NAMES.len()) {
            self.trace.read_block(chunk, &mut self.batch, None)?;
            self.fit(chunk, &mut header)?;
        } else {
            // Of a later version: that its bytes are those that were written is all that can be said.
            let mut rest = body;
            for e in &entries {
                let whole = |column: &[u8]| e.len == 0 || crc32c::crc32c(column) == e.crc;
                let (_, behind) = rest
                    .split_at_checked(e.len as usize)
                    .filter(|(column, _)| whole(column))
                    .ok_or_else(|| broken(chunk, format!("column {} does not fit its crc", e.id)))?;
                rest = behind;
            }
            if !rest.is_empty() {
                return Err(broken(chunk, "bytes are left over".to_owned()));
            }
        }
        self.writer.chunk(header, &bytes)?;
        self.writer.events += u64::from(header.rows);
        Ok(())
    }

    /// Makes header and dictionaries fit the rows of the batch.
    fn fit(&mut self, chunk: &IndexEntry, header: &mut ChunkHeader) -> Result<(), Error> {
        let (Some(ts), Some(cpu)) = (self.batch.column(TS), self.batch.column(CPU)) else {
            return Err(broken(chunk, "it lacks the columns ts_ns or cpu".to_owned()));
        };
        if !cpu.iter().zip(ts.iter()).is_sorted() {
            return Err(broken(chunk, "its rows are not in the order of CPU and time".to_owned()));
        }
        if let (Some(lo), Some(hi)) = (ts.iter().min(), ts.iter().max()) {
            header.ts_min = lo;
            header.ts_max = header.ts_max.max(hi);
        }
        if cpu.iter().any(|c| c != u64::from(header.cpu)) {
            header.cpu = CPU_SEVERAL;
        }
        let mut upto = Fill::default();
        for column in self.trace.kind_schema(header.kind).iter().flat_map(|k| &k.columns) {
            let place = if column.is(Unit::Task) {
                &mut upto.tasks
            } else if column.is(Unit::Str) {
                &mut upto.strings
            } else if column.is(Unit::Func) {
                &mut upto.functions
            } else {
                continue;
            };
            let Some(words) = self.batch.column(column.id) else { continue };
            let known = |&w: &u64| !(column.nullable && w == u64::MAX);
            if let Some(top) = words.iter().filter(known).max() {
                *place = (*place).max(usize::try_from(top).unwrap_or(usize::MAX).saturating_add(1));
            }
        }
        // A word above 32 bits is no id: what reads it shows nothing.
        let ids = [upto.tasks, upto.strings, upto.functions];
        if let Some(top) = ids.iter().find(|&&n| n > u32::MAX as usize) {
            return Err(broken(chunk, format!("it refers to entry {}, which no dictionary can have", top - 1)));
        }
        self.fill(chunk, upto)
    }
}

/// Entries that the dictionaries must have.
#[derive(Default)]
struct Fill {
    meta: usize,
    strings: usize,
    tasks: usize,
    functions: usize,
}

fn lost_function() -> FunctionInfo {
    FunctionInfo { symbol: "?".into(), layer: Layer::Other, class: Class::Other }
}

fn broken(chunk: &IndexEntry, problem: String) -> Error {
    Error::corrupt(format!("chunk {}", chunk.header.seq), chunk.offset, problem)
}
