//! Reading a file. Everything is read by position into buffers, never through a mapping: a file
//! that shrinks meanwhile gives an error, not a signal.

mod batch;
mod find;
mod nameless;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::block;
use crate::bytes::Reader;
use crate::catalog::{FuncId, Kind, StrId, TaskId, Unit};
use crate::chunk::ChunkHeader;
use crate::column::Codec;
use crate::dictionary::{self, Allowance, FunctionInfo, IDLE, Task};
use crate::error::Error;
use crate::index::{Footer, IndexEntry};
use crate::layout::{
    CHUNK_ALIGN, CHUNK_FUNCTIONS, CHUNK_HEADER_LEN, CHUNK_META, CHUNK_SCHEMA, CHUNK_STRINGS, CHUNK_TASKS, FLAG_ZSTD,
    MAX_PAYLOAD, TRANSFORM_NAMES,
};
use crate::schema::{self, KindSchema};

pub use batch::Batch;

use nameless::Nameless;

/// A part of a file that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Where it begins.
    pub offset: u64,
    /// How long it is, as far as known.
    pub len: u64,
    /// What was expected and found.
    pub problem: String,
    /// The header of the chunk that stood there, where it is whole: of the last chunk of a file that
    /// was cut.
    pub header: Option<ChunkHeader>,
    /// Whether the file was cut off here, within the header of a chunk: nothing tells more of it than where a file ends between two.
    pub is_cut: bool,
}

/// A column of a block, as the block's directory describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredColumn {
    /// Number of the column within its kind.
    pub id: u8,
    /// One of the `TRANSFORM_…` numbers.
    pub transform: u8,
    /// Bytes that its values take.
    pub len_bytes: u32,
    /// Smallest and largest known word; none where every word is "not known".
    pub range: Option<(u64, u64)>,
}

impl StoredColumn {
    /// Name of the transform.
    #[must_use]
    pub fn transform_name(&self) -> &'static str {
        TRANSFORM_NAMES.get(usize::from(self.transform)).copied().unwrap_or("unknown")
    }
}

/// A file that is open for reading. Its dictionaries are in memory, its blocks are not.
pub struct Trace {
    file: File,
    path: String,
    len: u64,
    complete: bool,
    footer: Option<Footer>,
    index: Option<IndexEntry>,
    damage: Vec<Damage>,
    schema: Vec<KindSchema>,
    all_kinds: Vec<KindSchema>,
    meta: Vec<(String, String)>,
    strings: Vec<Box<str>>,
    tasks: Vec<Task>,
    functions: Vec<FunctionInfo>,
    nameless: Nameless,
    chunks: Vec<IndexEntry>,
    blocks: Vec<IndexEntry>,
}

/// Key in the meta list of a copy that lacks events of its original: first and last instant of that, so that offsets stay what
/// they were.
pub const SPAN_KEY: &str = "span_ns";

fn parse_span(text: &str) -> Option<(u64, u64)> {
    let (from, to) = text.split_once(' ')?;
    Some((from.parse().ok()?, to.parse().ok()?))
}

impl Trace {
    /// Opens a file: by its index where it has one, else by scanning it for whole chunks.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be read, [`Error::NotIgt`], [`Error::Version`],
    /// [`Error::Unsupported`] for a critical chunk of an unknown type, [`Error::Corrupt`] when
    /// nothing of use is left.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let name = path.display().to_string();
        // Opening a pipe would wait for its writer.
        let kind = std::fs::metadata(path).map_err(|e| Error::io(format!("cannot open {name}"), e))?;
        if !kind.is_file() && !kind.is_dir() {
            return Err(Error::NotIgt(format!("{name} is a pipe or a device: copy it to a file first")));
        }
        let file = File::open(path).map_err(|e| Error::io(format!("cannot open {name}"), e))?;
        Self::from_file(file, name)
    }

    /// Reads from a file that is open already; `name` is for messages.
    ///
    /// # Errors
    /// As [`Trace::open`].
    pub fn from_file(file: File, name: String) -> Result<Self, Error> {
        let meta = file.metadata().map_err(|e| Error::io(format!("cannot read {name}"), e))?;
        if meta.is_dir() {
            return Err(Error::NotIgt(format!("{name} is a directory")));
        }
        if !meta.is_file() {
            return Err(Error::NotIgt(format!("{name} is a pipe or a device: copy it to a file first")));
        }
        let mut trace = Self {
            file,
            path: name,
            len: meta.len(),
            complete: false,
            footer: None,
            index: None,
            damage: Vec::new(),
            schema: Vec::new(),
            all_kinds: Vec::new(),
            meta: Vec::new(),
            strings: vec!["".into()],
            tasks: vec![IDLE],
            functions: Vec::new(),
            nameless: Nameless::default(),
            chunks: Vec::new(),
            blocks: Vec::new(),
        };
        trace.check_header()?;
        trace.find_chunks()?;
        trace.read_dictionaries()?;
        Ok(trace)
    }

    fn read_dictionaries(&mut self) -> Result<(), Error> {
        let mut gaps = Allowance::new(self.len);
        let dictionaries = CHUNK_SCHEMA..=CHUNK_FUNCTIONS;
        let chunks = self.chunks.iter().filter(|c| dictionaries.contains(&c.header.chunk_type));
        for chunk in chunks.copied().collect::<Vec<_>>() {
            let t = chunk.header.chunk_type;
            let lost_bytes = self.damage.iter().map(|d| d.len).fold(0, u64::saturating_add);
            let ids_before = (self.tasks.len(), self.functions.len());
            let read = self.whole_payload(&chunk).and_then(|bytes| {
                let lost = FunctionInfo {
                    symbol: "?".into(),
                    layer: crate::catalog::Layer::Other,
                    class: crate::catalog::Class::Other,
                };
                match t {
                    CHUNK_SCHEMA => schema::read(&bytes, &mut gaps)
                        .and_then(|kinds| schema::merge(&mut self.schema, kinds))
                        .map(|()| 0..0),
                    CHUNK_META => {
                        dictionary::read_entries(&bytes, &mut self.meta, &Default::default(), &mut gaps, lost_bytes)
                    }
                    CHUNK_STRINGS => {
                        dictionary::read_entries(&bytes, &mut self.strings, &"?".into(), &mut gaps, lost_bytes)
                    }
                    CHUNK_TASKS => dictionary::read_entries(&bytes, &mut self.tasks, &IDLE, &mut gaps, lost_bytes),
                    _ => dictionary::read_entries(&bytes, &mut self.functions, &lost, &mut gaps, lost_bytes),
                }
                .map_err(|e| Error::corrupt(format!("chunk {}", chunk.header.seq), chunk.offset, e.to_string()))
            });
            match read {
                Ok(filled_in) => match t {
                    CHUNK_TASKS => self.nameless.add_tasks(filled_in),
                    CHUNK_FUNCTIONS => self.nameless.add_functions(filled_in),
                    _ => {}
                },
                Err(Error::Corrupt { offset, problem, what }) => {
                    // A chunk that ends in the middle of an entry is lost as a whole.
                    self.nameless.add_tasks(ids_before.0..self.tasks.len());
                    self.nameless.add_functions(ids_before.1..self.functions.len());
                    let len = chunk.header.span();
                    let problem = format!("{what}: {problem}");
                    self.damage.push(Damage { offset, len, problem, header: Some(chunk.header), is_cut: false });
                }
                Err(other) => return Err(other),
            }
        }
        if !self.damage.is_empty() {
            // The last entries of all may have been among what is lost.
            self.nameless.end(self.tasks.len(), self.functions.len());
        }
        // What no schema of the file describes is read by ours: ids are never reused.
        self.all_kinds.clone_from(&self.schema);
        for own in schema::own_schema() {
            if self.schema.iter().any(|k| k.number == own.number) {
                continue;
            }
            if self.blocks.iter().any(|b| b.header.kind == own.number) {
                self.schema.push(own.clone());
            }
            self.all_kinds.push(own);
        }
        self.all_kinds.sort_by_key(|k| k.number);
        Ok(())
    }

    /// The payload of a chunk that is no block, checked and decompressed.
    pub(crate) fn whole_payload(&self, chunk: &IndexEntry) -> Result<Vec<u8>, Error> {
        let h = &chunk.header;
        let broken = |problem: String| Error::corrupt(format!("chunk {}", h.seq), chunk.offset, problem);
        let mut bytes = vec![0; h.payload_len as usize];
        self.read_at(&mut bytes, chunk.offset + CHUNK_HEADER_LEN as u64)?;
        h.check_head(bytes.get(..h.head_len as usize).unwrap_or_default()).map_err(broken)?;
        if h.flags & FLAG_ZSTD == 0 {
            return Ok(bytes);
        }
        let mut r = Reader::new(&bytes);
        let raw_len = r.u32().map_err(|e| broken(e.to_string()))? as usize;
        if raw_len > MAX_PAYLOAD {
            return Err(broken(format!("{raw_len} bytes exceed the cap of {MAX_PAYLOAD}")));
        }
        let mut raw = Vec::new();
        let mut codec = Codec::new(1)?;
        codec.decompress(bytes.get(4..).unwrap_or_default(), raw_len, &mut raw).map_err(|e| broken(e.to_string()))?;
        Ok(raw)
    }

    /// What a block's directory says of its columns; none of them is read.
    ///
    /// # Errors
    /// [`Error::Corrupt`] with the block's offset.
    pub fn stored_columns(&self, entry: &IndexEntry) -> Result<Vec<StoredColumn>, Error> {
        let h = &entry.header;
        let what = || format!("block {} ({})", h.seq, self.kind_name(h.kind));
        let broken = |problem: String| Error::corrupt(what(), entry.offset, problem);
        let mut head = vec![0; h.head_len as usize];
        self.read_at(&mut head, entry.offset + CHUNK_HEADER_LEN as u64)?;
        h.check_head(&head).map_err(broken)?;
        let entries = block::read_directory(&head, h.rows).map_err(|e| broken(e.to_string()))?;
        Ok(entries
            .iter()
            .map(|e| StoredColumn { id: e.id, transform: e.transform, len_bytes: e.len, range: e.range() })
            .collect())
    }

    /// The chunk that lists the others, where the file was opened by it.
    #[must_use]
    pub fn index_chunk(&self) -> Option<&IndexEntry> {
        self.index.as_ref()
    }

    /// Checks what reading leaves unchecked: that the chunk's header stands in the file as the index
    /// has it, that its payload fits its CRC (a block's directory only: [`Trace::read_block`] checks
    /// the columns), and that its padding is empty.
    ///
    /// # Errors
    /// [`Error::Corrupt`] with the chunk's offset.
    pub fn check_chunk(&self, entry: &IndexEntry) -> Result<(), Error> {
        let h = &entry.header;
        let broken = |problem: String| Error::corrupt(format!("chunk {}", h.seq), entry.offset, problem);
        let header = self.header_at(entry.offset).map_err(broken)?;
        if header != *h {
            return Err(broken("its header is not the one that the index has".to_owned()));
        }
        let start = entry.offset + CHUNK_HEADER_LEN as u64;
        let mut head = vec![0; h.head_len as usize];
        self.read_at(&mut head, start)?;
        h.check_head(&head).map_err(broken)?;
        let end = start + u64::from(h.payload_len);
        let mut padding = [0; CHUNK_ALIGN];
        let have = (entry.offset + h.span()).min(self.len).saturating_sub(end);
        let padding = &mut padding[..usize::try_from(have).unwrap_or(0).min(CHUNK_ALIGN)];
        self.read_at(padding, end)?;
        if padding.iter().any(|&b| b != 0) {
            return Err(broken(format!("its padding is not empty ({padding:02x?}); no event is lost")));
        }
        Ok(())
    }

    pub(crate) fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<(), Error> {
        self.file.read_exact_at(buf, offset).map_err(|e| {
            let e = if e.kind() == io::ErrorKind::UnexpectedEof {
                io::Error::new(e.kind(), "the file has shrunk while it was read")
            } else {
                e
            };
            Error::io(format!("cannot read {} at offset {offset:#x}", self.path), e)
        })
    }

    /// Path, for messages.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Bytes of the file.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.len
    }

    /// Whether the footer is there: the recording was finished.
    #[must_use]
    pub fn complete(&self) -> bool {
        self.complete
    }

    /// Rows of all kinds that the writer counted, where the footer is there.
    #[must_use]
    pub fn events_written(&self) -> Option<u64> {
        self.footer.map(|f| f.events)
    }

    /// What could not be read when the file was opened. Blocks are checked when they are read.
    #[must_use]
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// Event kinds and columns, as the file describes them: those that it has, and perhaps more. Kinds whose
    /// description was lost are described as this build knows them.
    #[must_use]
    pub fn schema(&self) -> &[KindSchema] {
        &self.schema
    }

    /// The same and, by number, every other kind that this build knows.
    #[must_use]
    pub fn all_kinds(&self) -> &[KindSchema] {
        &self.all_kinds
    }

    /// The description of a kind, by number.
    #[must_use]
    pub fn kind_schema(&self, number: u16) -> Option<&KindSchema> {
        self.all_kinds.iter().find(|k| k.number == number)
    }

    /// Name of a kind, by number.
    #[must_use]
    pub fn kind_name(&self, number: u16) -> &str {
        self.kind_schema(number).map_or("unknown kind", |k| k.name.as_str())
    }

    /// Keys and values about the recording, in order of writing.
    #[must_use]
    pub fn meta_entries(&self) -> &[(String, String)] {
        &self.meta
    }

    /// The value of a key about the recording.
    #[must_use]
    pub fn meta(&self, key: &str) -> Option<&str> {
        self.meta.iter().rev().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// All tasks; a [`TaskId`] is an index.
    #[must_use]
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// A task. One that a damaged chunk held is shown as the idle task; no block that names it is read.
    #[must_use]
    pub fn task(&self, id: TaskId) -> Task {
        self.tasks.get(id.index()).copied().unwrap_or(IDLE)
    }

    /// All strings; a [`StrId`] is an index.
    #[must_use]
    pub fn strings(&self) -> &[Box<str>] {
        &self.strings
    }

    /// A string; "?" where it was lost with a damaged chunk.
    #[must_use]
    pub fn string(&self, id: StrId) -> &str {
        self.strings.get(id.index()).map_or("?", |s| s)
    }

    /// How many strings there are; a [`StrId`] counts from 0.
    #[must_use]
    pub fn strings_len(&self) -> usize {
        self.strings.len()
    }

    /// All functions; a [`FuncId`] is an index.
    #[must_use]
    pub fn functions(&self) -> &[FunctionInfo] {
        &self.functions
    }

    /// A function.
    #[must_use]
    pub fn function(&self, id: FuncId) -> Option<&FunctionInfo> {
        self.functions.get(id.index())
    }

    /// All chunks but index and footer, in order of the file.
    #[must_use]
    pub fn chunks(&self) -> &[IndexEntry] {
        &self.chunks
    }

    /// All blocks by their first instant.
    #[must_use]
    pub fn blocks(&self) -> &[IndexEntry] {
        &self.blocks
    }

    /// First and last instant that a row of the recording speaks of, from the block headers;
    /// none without blocks. Kinds that describe rather than happen are left out where others are
    /// there.
    #[must_use]
    pub fn span_ns(&self) -> Option<(u64, u64)> {
        let happens = |k: u16| !matches!(Kind::from_number(k), Some(Kind::Name | Kind::Process | Kind::Loss));
        let span = |all: bool| {
            let blocks = self.blocks.iter().map(|b| b.header).filter(|h| h.rows > 0 && (all || happens(h.kind)));
            blocks.fold(None, |span: Option<(u64, u64)>, h| {
                let (lo, hi) = span.unwrap_or((u64::MAX, 0));
                Some((lo.min(h.ts_min), hi.max(h.ts_max)))
            })
        };
        let (first, last) = span(false).or_else(|| span(true))?;
        // What a copy left out may have come first, and last.
        let (from, to) = self.meta(SPAN_KEY).and_then(parse_span).unwrap_or((first, last));
        Some((first.min(from), last.max(to)))
    }

    /// Whether the file has rows of a kind, readable or not: the heads of its blocks tell.
    #[must_use]
    pub fn has_rows(&self, kind: u16) -> bool {
        self.blocks.iter().any(|b| b.header.kind == kind && b.header.rows > 0)
    }

    /// A word as a person reads it, by the unit of its column.
    #[must_use]
    pub fn show(&self, column: &schema::ColumnSchema, word: u64) -> String {
        use crate::catalog::{NULL, Word};
        if column.nullable && word == NULL {
            return "-".to_owned();
        }
        if let Some(name) = column.name_of(word) {
            return name.to_owned();
        }
        if column.is(Unit::Task) {
            let t = self.task(TaskId::from_word(word));
            return if t.pid == t.tid { t.tid.to_string() } else { format!("{}/{}", t.pid, t.tid) };
        }
        if column.is(Unit::Str) {
            return self.string(StrId::from_word(word)).to_owned();
        }
        if column.is(Unit::Func) {
            return self.function(FuncId::from_word(word)).map_or("?", |f| f.symbol.as_str()).to_owned();
        }
        if column.is(Unit::Signed) {
            return i64::from_word(word).to_string();
        }
        if column.is(Unit::Address) || column.is(Unit::Flags) {
            return format!("{word:#x}");
        }
        word.to_string()
    }
}
