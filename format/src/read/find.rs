//! Finding the chunks of a file: by its index, or by looking for them.

use super::{Damage, Trace};
use crate::bytes::Reader;
use crate::chunk::ChunkHeader;
use crate::error::Error;
use crate::index::{self, Footer, IndexEntry};
use crate::layout::{
    CHUNK_ALIGN, CHUNK_BLOCK, CHUNK_FOOTER, CHUNK_HEADER_LEN, CHUNK_INDEX, CHUNK_MAGIC, CHUNK_SCHEMA, FILE_HEADER_LEN,
    FILE_MAGIC, FLAG_ANCILLARY, FOOTER_PAYLOAD_LEN, NO_INDEX, VERSION_MAJOR,
};

impl Trace {
    /// Refuses what is no file of this version. Where only the header is broken, that is damage.
    pub(super) fn check_header(&mut self) -> Result<(), Error> {
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
            return Err(Error::NotIgt(format!(
                "{name} begins with {:02x?}; ingero-convert reads databases of ingero, text of ftrace and perf, and perf.data: \
                 ingero-convert {name} -o run.igt",
                &header[..have.min(8)]
            )));
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
            self.damage.push(Damage { offset: 0, len: FILE_HEADER_LEN as u64, problem, header: None, is_cut: false });
            return Ok(());
        }
        if major != VERSION_MAJOR {
            return Err(Error::Version { path: self.path.clone(), found: major, known: VERSION_MAJOR });
        }
        Ok(())
    }

    pub(super) fn find_chunks(&mut self) -> Result<(), Error> {
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
                let problem = format!("index: {problem}");
                self.damage.push(Damage { offset, len: 0, problem, header: None, is_cut: false });
                self.scan()?;
            }
            Err(other) => return Err(other),
        }
        for c in &self.chunks {
            let t = c.header.chunk_type;
            if !(CHUNK_SCHEMA..=CHUNK_FOOTER).contains(&t) && c.header.flags & FLAG_ANCILLARY == 0 {
                return Err(Error::Unsupported { what: format!("{}: chunk type {t}", self.path), offset: c.offset });
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
        self.index = Some(entry);
        Ok(Some(chunks))
    }

    pub(super) fn header_at(&self, offset: u64) -> Result<ChunkHeader, String> {
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

    /// Whether the file ends within the header of a chunk that begins here.
    fn ends_within_header(&self, offset: u64) -> Result<bool, Error> {
        let mut bytes = [0; CHUNK_MAGIC.len()];
        let rest = usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX);
        let begin = &mut bytes[..rest.min(CHUNK_MAGIC.len())];
        self.read_at(begin, offset)?;
        Ok(rest < CHUNK_HEADER_LEN && CHUNK_MAGIC.starts_with(begin))
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
                    let is_cut = self.ends_within_header(offset)?;
                    self.damage.push(Damage { offset, len: next - offset, problem, header, is_cut });
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
}
