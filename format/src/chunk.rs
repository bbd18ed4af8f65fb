//! The header of a chunk.

use crate::bytes::Reader;
use crate::layout::{CHUNK_ALIGN, CHUNK_HEADER_LEN, CHUNK_MAGIC, MAX_PAYLOAD};

/// The header of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkHeader {
    /// One of the `CHUNK_…` numbers.
    pub chunk_type: u8,
    /// `FLAG_…` bits.
    pub flags: u8,
    /// Number of the event kind in a block, else 0.
    pub kind: u16,
    /// Counts the chunks of a file from 0: a gap is a lost chunk.
    pub seq: u32,
    /// Rows of a block, entries of a dictionary.
    pub rows: u32,
    /// CPU of all rows, or [`crate::layout::CPU_SEVERAL`].
    pub cpu: u32,
    /// First payload bytes, covered by `head_crc`: the directory of a block, else all.
    pub head_len: u32,
    /// Bytes of the payload.
    pub payload_len: u32,
    /// CRC-32C of the first `head_len` bytes of the payload.
    pub head_crc: u32,
    /// First instant that a row speaks of.
    pub ts_min: u64,
    /// Last instant that a row speaks of.
    pub ts_max: u64,
}

impl ChunkHeader {
    /// The header's bytes, its own CRC included.
    pub(crate) fn to_bytes(self) -> [u8; CHUNK_HEADER_LEN] {
        let mut out = [0; CHUNK_HEADER_LEN];
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            out[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(&CHUNK_MAGIC);
        put(&[self.chunk_type, self.flags]);
        put(&self.kind.to_le_bytes());
        put(&self.seq.to_le_bytes());
        put(&self.rows.to_le_bytes());
        put(&self.cpu.to_le_bytes());
        put(&self.head_len.to_le_bytes());
        put(&self.payload_len.to_le_bytes());
        put(&self.head_crc.to_le_bytes());
        put(&self.ts_min.to_le_bytes());
        put(&self.ts_max.to_le_bytes());
        put(&0u32.to_le_bytes());
        let crc = crc32c::crc32c(&out[..CHUNK_HEADER_LEN - 4]);
        out[CHUNK_HEADER_LEN - 4..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// The header in these bytes, if they are one and belong together.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let mut r = Reader::new(bytes);
        let mut read = || {
            let magic = r.bytes(4)?;
            let header = Self {
                chunk_type: r.u8()?,
                flags: r.u8()?,
                kind: r.u16()?,
                seq: r.u32()?,
                rows: r.u32()?,
                cpu: r.u32()?,
                head_len: r.u32()?,
                payload_len: r.u32()?,
                head_crc: r.u32()?,
                ts_min: r.u64()?,
                ts_max: r.u64()?,
            };
            r.u32()?;
            Ok::<_, crate::bytes::Malformed>((magic, header, r.u32()?))
        };
        let (magic, header, crc) = read().map_err(|e| e.to_string())?;
        if magic != CHUNK_MAGIC {
            return Err(format!("no chunk begins here (found {magic:02x?})"));
        }
        let expected = crc32c::crc32c(bytes.get(..CHUNK_HEADER_LEN - 4).unwrap_or_default());
        if crc != expected {
            return Err(format!("header crc {crc:#010x}, expected {expected:#010x}"));
        }
        if header.payload_len as usize > MAX_PAYLOAD || header.head_len > header.payload_len {
            return Err(format!("impossible lengths {} of {}", header.head_len, header.payload_len));
        }
        if header.ts_min > header.ts_max {
            return Err(format!("impossible times {} to {}", header.ts_min, header.ts_max));
        }
        Ok(header)
    }

    /// Bytes from this chunk's offset to the next one's: header, payload and padding.
    #[must_use]
    pub fn span(&self) -> u64 {
        (CHUNK_HEADER_LEN as u64 + u64::from(self.payload_len)).next_multiple_of(CHUNK_ALIGN as u64)
    }
}
