//! Reading a file. Everything is read by position into buffers, never through a mapping: a file
//! that shrinks meanwhile gives an error, not a signal.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::block;
use crate::bytes::Reader;
use crate::catalog::{CPU, FuncId, Kind, StrId, TaskId, Unit};
use crate::chunk::ChunkHeader;
use crate::column::{self, Codec, Context, Entry};
use crate::dictionary::{self, Allowance, FunctionInfo, IDLE, Task};
use crate::error::Error;
use crate::index::{self, Footer, IndexEntry};
use crate::layout::{
    CHUNK_ALIGN, CHUNK_BLOCK, CHUNK_FOOTER, CHUNK_FUNCTIONS, CHUNK_HEADER_LEN, CHUNK_INDEX, CHUNK_MAGIC, CHUNK_META,
    CHUNK_SCHEMA, CHUNK_STRINGS, CHUNK_TASKS, FILE_HEADER_LEN, FILE_MAGIC, FLAG_ANCILLARY, FLAG_ZSTD,
    FOOTER_PAYLOAD_LEN, MAX_PAYLOAD, NO_INDEX, TRANSFORM_NAMES, VERSION_MAJOR,
};
use crate::schema::{self, KindSchema};

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
    damage: Vec<Damage>,
    schema: Vec<KindSchema>,
    meta: Vec<(String, String)>,
    strings: Vec<Box<str>>,
    tasks: Vec<Task>,
    functions: Vec<FunctionInfo>,
    chunks: Vec<IndexEntry>,
    blocks: Vec<IndexEntry>,
}

/// The decoded columns of one block.
pub struct Batch {
    codec: Codec,
    payload: Vec<u8>,
    rows: usize,
    runs: Vec<u32>,
    /// Columns by id; what is not decoded is empty.
    columns: Vec<Vec<u64>>,
    present: Vec<bool>,
    /// What a column holds in every row, if that is known: it need not be written again.
    constant: Vec<Option<u64>>,
}

impl Batch {
    /// An empty batch, to be filled by [`Trace::read_block`].
    ///
    /// # Errors
    /// When zstd cannot be started.
    pub fn new() -> Result<Self, Error> {
        Ok(Self {
            codec: Codec::new(1)?,
            payload: Vec::new(),
            rows: 0,
            runs: Vec::new(),
            columns: Vec::new(),
            present: Vec::new(),
            constant: Vec::new(),
        })
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

    /// The words of a column by id, one per row; none where the block lacks it or it was not asked
    /// for.
    #[must_use]
    pub fn column(&self, id: u8) -> Option<&[u64]> {
        let id = usize::from(id);
        self.present.get(id).copied().unwrap_or(false).then(|| self.columns[id].as_slice())
    }
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
            damage: Vec::new(),
            schema: Vec::new(),
            meta: Vec::new(),
            strings: vec!["".into()],
            tasks: vec![IDLE],
            functions: Vec::new(),
            chunks: Vec::new(),
            blocks: Vec::new(),
        };
        trace.check_header()?;
        trace.find_chunks()?;
        trace.read_dictionaries()?;
        Ok(trace)
    }

    /// Refuses what is no file of this version. Where only the header is broken, that is damage.
    fn check_header(&mut self) -> Result<(), Error> {
        let mut header = [0; FILE_HEADER_LEN];
        let have = usize::try_from(self.len).unwrap_or(usize::MAX).min(FILE_HEADER_LEN);
        self.read_at(&mut header[..have], 0)?;
        let name = &self.path;
        if have == 0 {
            return Err(Error::NotIgt(format!("{name} is empty")));
        }
        let crc_fits = |h: &[u8; FILE_HEADER_LEN]| {
            let (bytes, crc) = h.split_at(FILE_HEADER_LEN - 4);
            crc32c::crc32c(bytes).to_le_bytes() == crc
        };
        let mut problem = (!crc_fits(&header)).then_some("the file header's crc does not fit its bytes");
        if !header.starts_with(&FILE_MAGIC[..have.min(8)]) {
            let mut mended = header;
            mended[..8].copy_from_slice(&FILE_MAGIC);
            if have == FILE_HEADER_LEN && crc_fits(&mended) {
                problem = Some("the file's first bytes are not those of a recording, but the rest of its header is");
                header = mended;
            }
        }
        if !header.starts_with(&FILE_MAGIC[..have.min(8)]) {
            return Err(Error::NotIgt(format!("{name} begins with {:02x?}", &header[..have.min(8)])));
        }
        if have < FILE_HEADER_LEN {
            return Err(Error::NotIgt(format!("{name} ends within its header, after {have} bytes")));
        }
        let mut r = Reader::new(&header[8..]);
        let fields = (r.u16(), r.u16(), r.u32());
        let (Ok(major), Ok(_minor), Ok(_len)) = fields else { return Ok(()) };
        // A version that cannot be trusted does not keep the chunks from being read: theirs can.
        if let Some(problem) = problem.filter(|_| major == VERSION_MAJOR || !crc_fits(&header)) {
            self.header_at(FILE_HEADER_LEN as u64).map_err(|_| Error::corrupt("the file header", 0, problem))?;
            let problem = format!("{problem}; read as version {VERSION_MAJOR}");
            self.damage.push(Damage { offset: 0, len: FILE_HEADER_LEN as u64, problem, header: None });
            return Ok(());
        }
        if major != VERSION_MAJOR {
            return Err(Error::Version { path: self.path.clone(), found: major, known: VERSION_MAJOR });
        }
        Ok(())
    }

    fn find_chunks(&mut self) -> Result<(), Error> {
        match self.read_index() {
            Ok(Some(chunks)) => {
                self.complete = true;
                self.chunks = chunks;
            }
            Ok(None) => {
                self.scan()?;
                let listed = self.footer.is_some_and(|f| f.chunks == self.chunks.len() as u64);
                self.complete = listed && self.damage.iter().all(|d| d.offset == 0);
            }
            Err(Error::Corrupt { offset, problem, .. }) => {
                self.damage.push(Damage { offset, len: 0, problem: format!("index: {problem}"), header: None });
                self.scan()?;
            }
            Err(other) => return Err(other),
        }
        for c in &self.chunks {
            let t = c.header.chunk_type;
            if !(CHUNK_SCHEMA..=CHUNK_FOOTER).contains(&t) && c.header.flags & FLAG_ANCILLARY == 0 {
                return Err(Error::Unsupported { what: format!("chunk type {t}"), offset: c.offset });
            }
        }
        let is_block = |c: &IndexEntry| c.header.chunk_type == CHUNK_BLOCK;
        // Sorting the keys moves less than sorting the blocks.
        let mut order: Vec<(u64, u32, u32)> = (0..)
            .zip(&self.chunks)
            .filter(|(_, c)| is_block(c))
            .map(|(i, c)| (c.header.ts_min, c.header.seq, i))
            .collect();
        order.sort();
        self.blocks = order.into_iter().filter_map(|(.., i)| self.chunks.get(i as usize).copied()).collect();
        Ok(())
    }

    /// The chunks by the index, if the file ends in a footer.
    fn read_index(&mut self) -> Result<Option<Vec<IndexEntry>>, Error> {
        let footer_len = CHUNK_HEADER_LEN + FOOTER_PAYLOAD_LEN;
        let Some(at) = self.len.checked_sub(footer_len as u64).filter(|&at| at >= FILE_HEADER_LEN as u64) else {
            return Ok(None);
        };
        let mut bytes = [0; CHUNK_HEADER_LEN + FOOTER_PAYLOAD_LEN];
        self.read_at(&mut bytes, at)?;
        let Ok(header) = ChunkHeader::from_bytes(&bytes[..CHUNK_HEADER_LEN]) else { return Ok(None) };
        if header.chunk_type != CHUNK_FOOTER || crc32c::crc32c(&bytes[CHUNK_HEADER_LEN..]) != header.head_crc {
            return Ok(None);
        }
        let broken = |problem: String| Error::corrupt("the index", at, problem);
        let footer = Footer::read(&bytes[CHUNK_HEADER_LEN..]).map_err(|e| broken(e.to_string()))?;
        self.footer = Some(footer);
        if footer.index_offset == NO_INDEX {
            return Ok(None);
        }
        let header = self.header_at(footer.index_offset).map_err(broken)?;
        if header.chunk_type != CHUNK_INDEX {
            return Err(broken("it is not where the footer says".to_owned()));
        }
        let entry = IndexEntry { offset: footer.index_offset, header };
        let chunks = index::read(&self.whole_payload(&entry)?).map_err(broken)?;
        // One behind the other: a small index could list one block a million times.
        let mut end = FILE_HEADER_LEN as u64;
        let mut follows = |e: &IndexEntry| {
            let begins = end;
            end = e.offset.saturating_add(e.header.span());
            e.offset >= begins && end <= self.len
        };
        if chunks.len() as u64 != footer.chunks || !chunks.iter().all(&mut follows) {
            return Err(broken("its entries do not fit the file".to_owned()));
        }
        Ok(Some(chunks))
    }

    fn header_at(&self, offset: u64) -> Result<ChunkHeader, String> {
        let mut bytes = [0; CHUNK_HEADER_LEN];
        if offset.checked_add(CHUNK_HEADER_LEN as u64).is_none_or(|end| end > self.len) {
            return Err(format!("the file ends at {:#x}, within a chunk header", self.len));
        }
        self.read_at(&mut bytes, offset).map_err(|e| e.to_string())?;
        let header = ChunkHeader::from_bytes(&bytes)?;
        if offset + CHUNK_HEADER_LEN as u64 + u64::from(header.payload_len) > self.len {
            return Err(format!(
                "the file ends at {:#x}, within the payload of {} bytes",
                self.len, header.payload_len
            ));
        }
        Ok(header)
    }

    /// A header whose payload may lie behind the end of the file.
    fn sound_header(&self, offset: u64) -> Option<ChunkHeader> {
        let mut bytes = [0; CHUNK_HEADER_LEN];
        self.read_at(&mut bytes, offset).ok()?;
        ChunkHeader::from_bytes(&bytes).ok()
    }

    fn scan(&mut self) -> Result<(), Error> {
        let mut offset = FILE_HEADER_LEN as u64;
        let mut last_seq = None;
        while offset < self.len {
            match self.header_at(offset) {
                Ok(header) => {
                    last_seq = Some(header.seq);
                    if header.chunk_type != CHUNK_INDEX && header.chunk_type != CHUNK_FOOTER {
                        self.chunks.push(IndexEntry { offset, header });
                    }
                    offset += header.span();
                }
                Err(problem) => {
                    let next = self.next_chunk(offset + CHUNK_ALIGN as u64, last_seq)?;
                    let header = self.sound_header(offset);
                    self.damage.push(Damage { offset, len: next - offset, problem, header });
                    offset = next;
                }
            }
        }
        Ok(())
    }

    /// Offset of the next whole chunk at or behind `from`, or the end of the file. A chunk counts on
    /// from the last one: the headers that a broken index quotes do not.
    fn next_chunk(&self, from: u64, last_seq: Option<u32>) -> Result<u64, Error> {
        let follows = |h: ChunkHeader| last_seq.is_none_or(|last| h.seq > last);
        let mut window = vec![0; 1 << 16];
        let mut at = from;
        while at < self.len {
            let n = usize::try_from(self.len - at).unwrap_or(usize::MAX).min(window.len());
            self.read_at(&mut window[..n], at)?;
            for i in (0..n).step_by(CHUNK_ALIGN) {
                let offset = at + i as u64;
                if window[i..n].starts_with(&CHUNK_MAGIC) && self.header_at(offset).is_ok_and(follows) {
                    return Ok(offset);
                }
            }
            at += n as u64;
        }
        Ok(self.len)
    }

    fn read_dictionaries(&mut self) -> Result<(), Error> {
        let mut gaps = Allowance::new(self.len);
        let dictionaries = CHUNK_SCHEMA..=CHUNK_FUNCTIONS;
        let chunks = self.chunks.iter().filter(|c| dictionaries.contains(&c.header.chunk_type));
        for chunk in chunks.copied().collect::<Vec<_>>() {
            let t = chunk.header.chunk_type;
            let lost_bytes = self.damage.iter().map(|d| d.len).fold(0, u64::saturating_add);
            let read = self.whole_payload(&chunk).and_then(|bytes| {
                let lost = FunctionInfo {
                    symbol: "?".into(),
                    layer: crate::catalog::Layer::Other,
                    class: crate::catalog::Class::Other,
                };
                match t {
                    CHUNK_SCHEMA => schema::read(&bytes).map(|s| self.schema = s),
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
                Ok(()) => {}
                Err(Error::Corrupt { offset, problem, what }) => {
                    let len = chunk.header.span();
                    let problem = format!("{what}: {problem}");
                    self.damage.push(Damage { offset, len, problem, header: Some(chunk.header) });
                }
                Err(other) => return Err(other),
            }
        }
        if self.schema.is_empty() {
            // Without its own schema the file is read by ours: ids are never reused.
            self.schema = schema::own_schema();
        }
        Ok(())
    }

    /// The payload of a chunk that is no block, checked and decompressed.
    pub(crate) fn whole_payload(&self, chunk: &IndexEntry) -> Result<Vec<u8>, Error> {
        let h = &chunk.header;
        let broken = |problem: String| Error::corrupt(format!("chunk {}", h.seq), chunk.offset, problem);
        let mut bytes = vec![0; h.payload_len as usize];
        self.read_at(&mut bytes, chunk.offset + CHUNK_HEADER_LEN as u64)?;
        let crc = crc32c::crc32c(bytes.get(..h.head_len as usize).unwrap_or_default());
        if crc != h.head_crc {
            return Err(broken(format!("crc {crc:#010x}, expected {:#010x}", h.head_crc)));
        }
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

    /// Decodes a block into `batch`: all its columns, or those of `only` (by id).
    ///
    /// # Errors
    /// [`Error::Corrupt`] with the block's offset; `batch` is then empty.
    pub fn read_block(&self, entry: &IndexEntry, batch: &mut Batch, only: Option<&[u8]>) -> Result<(), Error> {
        batch.rows = 0;
        batch.runs.clear();
        batch.present.iter_mut().for_each(|p| *p = false);
        let h = &entry.header;
        let what = || format!("block {} ({})", h.seq, self.kind_name(h.kind));
        let broken = |problem: String| Error::corrupt(what(), entry.offset, problem);

        let mut payload = std::mem::take(&mut batch.payload);
        payload.resize(h.payload_len as usize, 0);
        let read = self.read_at(&mut payload, entry.offset + CHUNK_HEADER_LEN as u64);
        let decoded = read.and_then(|()| {
            let (head, body) =
                payload.split_at_checked(h.head_len as usize).ok_or_else(|| broken("impossible lengths".into()))?;
            let crc = crc32c::crc32c(head);
            if crc != h.head_crc {
                return Err(broken(format!("directory crc {crc:#010x}, expected {:#010x}", h.head_crc)));
            }
            let entries = block::read_directory(head, h.rows).map_err(|e| broken(e.to_string()))?;
            batch.decode(&entries, body, h.rows as usize, only).map_err(broken)
        });
        batch.payload = payload;
        if decoded.is_err() {
            batch.rows = 0;
            batch.runs.clear();
            batch.present.iter_mut().for_each(|p| *p = false);
        }
        decoded
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
        let crc = crc32c::crc32c(&head);
        if crc != h.head_crc {
            return Err(broken(format!("directory crc {crc:#010x}, expected {:#010x}", h.head_crc)));
        }
        let entries = block::read_directory(&head, h.rows).map_err(|e| broken(e.to_string()))?;
        let range = |e: &Entry| match e.nullable {
            // "Not known" is stored as 0, below all words.
            true => e.max.checked_sub(1).map(|max| (e.min.saturating_sub(1), max)),
            false => Some((e.min, e.max)),
        };
        Ok(entries
            .iter()
            .map(|e| StoredColumn { id: e.id, transform: e.transform, len_bytes: e.len, range: range(e) })
            .collect())
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
        let crc = crc32c::crc32c(&head);
        if crc != h.head_crc {
            return Err(broken(format!("crc {crc:#010x}, expected {:#010x}", h.head_crc)));
        }
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

    /// Event kinds and columns, as the file describes them.
    #[must_use]
    pub fn schema(&self) -> &[KindSchema] {
        &self.schema
    }

    /// The description of a kind, by number.
    #[must_use]
    pub fn kind_schema(&self, number: u16) -> Option<&KindSchema> {
        self.schema.iter().find(|k| k.number == number)
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

    /// A task. One that a damaged chunk held is shown as the idle task.
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
        span(false).or_else(|| span(true))
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

impl Batch {
    fn decode(&mut self, entries: &[Entry], body: &[u8], rows: usize, only: Option<&[u8]>) -> Result<(), String> {
        let mut todo: Vec<(usize, &Entry)> = Vec::with_capacity(entries.len());
        let mut start = 0;
        for e in entries {
            todo.push((start, e));
            start += e.len as usize;
        }
        if start != body.len() {
            return Err(format!("columns of {start} bytes in a body of {}", body.len()));
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
            self.columns.resize_with(id + 1, Vec::new);
            self.present.resize(id + 1, false);
            self.constant.resize(id + 1, None);
        }
        if self.present[id] {
            return Err("it stands twice".to_owned());
        }
        let constant = e.constant();
        if e.id != CPU && constant.is_some() && self.constant[id] == constant && self.columns[id].len() >= rows {
            self.columns[id].truncate(rows);
            self.present[id] = true;
            return Ok(());
        }
        let mut out = std::mem::take(&mut self.columns[id]);
        let sources = e.sources.map(|id| {
            let present = id != 0 && self.present.get(usize::from(id)).copied().unwrap_or(false);
            present.then(|| self.columns[usize::from(id)].as_slice())
        });
        let at = Context { runs: &self.runs, sources };
        let decoded = column::decode(&mut self.codec, e, bytes, rows, at, &mut out);
        self.columns[id] = out;
        self.constant[id] = None;
        decoded.map_err(|m| m.to_string())?;
        self.constant[id] = constant;
        self.present[id] = true;
        if e.id == CPU {
            column::runs_of(&self.columns[id], &mut self.runs);
        }
        Ok(())
    }
}
