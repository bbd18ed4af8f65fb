//! The index, a copy of all chunk headers, and the footer that says where it is.

use crate::bytes::{Malformed, Reader, Result};
use crate::chunk::ChunkHeader;
use crate::layout::{CHUNK_HEADER_LEN, FOOTER_PAYLOAD_LEN, INDEX_ENTRY_LEN};

/// One chunk, as the index or a scan of the file knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexEntry {
    /// Where its header begins.
    pub offset: u64,
    /// Its header.
    pub header: ChunkHeader,
}

pub(crate) fn write(entries: &[IndexEntry]) -> Vec<u8> {
    let mut out = Vec::with_capacity(entries.len() * INDEX_ENTRY_LEN);
    for e in entries {
        out.extend(e.offset.to_le_bytes());
        out.extend(e.header.to_bytes());
    }
    out
}

pub(crate) fn read(bytes: &[u8]) -> std::result::Result<Vec<IndexEntry>, String> {
    if !bytes.len().is_multiple_of(INDEX_ENTRY_LEN) {
        return Err("the index has a broken entry".to_owned());
    }
    let mut entries = Vec::with_capacity(bytes.len() / INDEX_ENTRY_LEN);
    for entry in bytes.as_chunks::<INDEX_ENTRY_LEN>().0 {
        let (offset, header) = entry.split_at(INDEX_ENTRY_LEN - CHUNK_HEADER_LEN);
        let offset = Reader::new(offset).u64().map_err(|e| e.to_string())?;
        entries.push(IndexEntry { offset, header: ChunkHeader::from_bytes(header)? });
    }
    Ok(entries)
}

/// The payload of the last chunk of a complete file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) index_offset: u64,
    /// Chunks before the index.
    pub(crate) chunks: u64,
    /// Rows of all kinds.
    pub(crate) events: u64,
}

impl Footer {
    pub(crate) fn to_bytes(self) -> [u8; FOOTER_PAYLOAD_LEN] {
        let mut out = [0; FOOTER_PAYLOAD_LEN];
        out[..8].copy_from_slice(&self.index_offset.to_le_bytes());
        out[8..16].copy_from_slice(&self.chunks.to_le_bytes());
        out[16..24].copy_from_slice(&self.events.to_le_bytes());
        out
    }

    pub(crate) fn read(bytes: &[u8]) -> Result<Self> {
        let mut r = Reader::new(bytes);
        let footer = Self { index_offset: r.u64()?, chunks: r.u64()?, events: r.u64()? };
        if r.u64()? == 0 { Ok(footer) } else { Err(Malformed("the footer's reserved bytes are not 0")) }
    }
}
