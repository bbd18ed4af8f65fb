//! The header of a chunk.

use crate::layout::{CHUNK_ALIGN, CHUNK_BLOCK, CHUNK_HEADER_LEN, CHUNK_MAGIC, MAX_PAYLOAD};

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
        let bytes: &[u8; CHUNK_HEADER_LEN] = bytes.first_chunk().ok_or("it ends too early")?;
        // A million of them are read from an index: each field by its place.
        let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        let magic = [bytes[0], bytes[1], bytes[2], bytes[3]];
        let header = Self {
            chunk_type: bytes[4],
            flags: bytes[5],
            kind: u16::from_le_bytes([bytes[6], bytes[7]]),
            seq: u32_at(8),
            rows: u32_at(12),
            cpu: u32_at(16),
            head_len: u32_at(20),
            payload_len: u32_at(24),
            head_crc: u32_at(28),
            ts_min: u64_at(32),
            ts_max: u64_at(40),
        };
        let crc = u32_at(CHUNK_HEADER_LEN - 4);
        if magic != CHUNK_MAGIC {
            return Err(format!("no chunk begins here (found {magic:02x?})"));
        }
        let expected = crc32c::crc32c(&bytes[..CHUNK_HEADER_LEN - 4]);
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

    /// Whether the first bytes of the payload fit their CRC; if not, what does not.
    pub(crate) fn check_head(&self, head: &[u8]) -> Result<(), String> {
        let what = if self.chunk_type == CHUNK_BLOCK { "directory crc" } else { "crc" };
        let crc = crc32c::crc32c(head);
        if crc == self.head_crc { Ok(()) } else { Err(format!("{what} {crc:#010x}, expected {:#010x}", self.head_crc)) }
    }

    /// Bytes from this chunk's offset to the next one's: header, payload and padding.
    #[must_use]
    pub fn span(&self) -> u64 {
        (CHUNK_HEADER_LEN as u64 + u64::from(self.payload_len)).next_multiple_of(CHUNK_ALIGN as u64)
    }
}
