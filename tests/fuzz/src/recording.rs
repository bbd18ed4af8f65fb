//! Recordings taken apart, changed with all their CRCs put right, and put together again.

use std::path::Path;

use ingero_format::layout::{
    CHUNK_ALIGN, CHUNK_BLOCK, CHUNK_HEADER_LEN, CHUNK_INDEX, FILE_HEADER_LEN, FLAG_ANCILLARY, FLAG_ZSTD,
};
use ingero_format::{Error, Trace};

use crate::dice::Dice;

const HEAD_LEN_AT: usize = 20;
const PAYLOAD_LEN_AT: usize = 24;
const HEAD_CRC_AT: usize = 28;
const CRC_AT: usize = CHUNK_HEADER_LEN - 4;

/// A chunk with its payload; dictionaries decompressed.
#[derive(Clone)]
pub(crate) struct Part {
    header: [u8; CHUNK_HEADER_LEN],
    payload: Vec<u8>,
    head_len: usize,
    block: bool,
    /// Where the bytes of each stored column are in the payload, and where their CRC stands.
    columns: Vec<(std::ops::Range<usize>, usize)>,
}

/// A recording to begin with.
pub(crate) struct Seed {
    bytes: Vec<u8>,
    parts: Vec<Part>,
}

impl Seed {
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let trace = Trace::open(path)?;
        let bytes = std::fs::read(path).unwrap_or_default();
        let mut parts = Vec::new();
        for c in trace.chunks() {
            let start = usize::try_from(c.offset).unwrap_or(0);
            let payload = start + CHUNK_HEADER_LEN;
            let mut header = [0; CHUNK_HEADER_LEN];
            header.copy_from_slice(&bytes[start..payload]);
            let mut payload = bytes[payload..payload + c.header.payload_len as usize].to_vec();
            let mut head_len = c.header.head_len as usize;
            let mut columns = Vec::new();
            if c.header.chunk_type == CHUNK_BLOCK {
                let mut from = head_len;
                for column in trace.stored_columns(c)? {
                    let range = from..from + column.len_bytes as usize;
                    from = range.end;
                    let crc = crc32c::crc32c(&payload[range.clone()]).to_le_bytes();
                    // Its place in the directory, whatever the directory looks like.
                    if let Some(at) =
                        payload[..head_len].windows(4).position(|w| w == crc).filter(|_| !range.is_empty())
                    {
                        columns.push((range, at));
                    }
                }
            } else if c.header.flags & FLAG_ZSTD != 0 {
                payload = zstd::bulk::decompress(&payload[4..], 1 << 26).unwrap_or_default();
                header[5] &= !FLAG_ZSTD;
                head_len = payload.len();
            }
            let block = c.header.chunk_type == CHUNK_BLOCK;
            parts.push(Part { header, payload, head_len, block, columns });
        }
        Ok(Self { bytes, parts })
    }

    /// A changed recording.
    pub(crate) fn change(&self, dice: &mut Dice) -> Vec<u8> {
        if dice.one_in(12) {
            let mut bytes = self.bytes.clone();
            match dice.below(3) {
                0 => bytes.truncate(dice.below(bytes.len())),
                1 => dice.spoil_in_place(&mut bytes, 8),
                _ => dice.spoil(&mut bytes),
            }
            return bytes;
        }
        let mut parts = self.parts.clone();
        for _ in 0..=dice.below(3) {
            let at = dice.below(parts.len());
            match dice.below(16) {
                0 => drop(parts.remove(at)),
                1 => {
                    let copy = parts[at].clone();
                    let to = dice.below(parts.len());
                    parts.insert(to, copy);
                }
                2 => {
                    let other = dice.below(parts.len());
                    parts.swap(at, other);
                }
                3 | 4 => dice.spoil_in_place(&mut parts[at].header[4..CRC_AT], 2),
                _ => parts[at].spoil(dice),
            }
            if parts.is_empty() {
                break;
            }
        }
        let renumber = !dice.one_in(4);
        let with_index = dice.one_in(2);
        let compress = dice.one_in(3);
        assemble(&self.bytes, &parts, renumber, with_index, compress, dice)
    }

    /// As it is, put together anew: a check of the harness itself.
    pub(crate) fn unchanged(&self) -> Vec<u8> {
        assemble(&self.bytes, &self.parts, true, true, false, &mut Dice(0))
    }
}

impl Part {
    fn spoil(&mut self, dice: &mut Dice) {
        if !self.block {
            dice.spoil(&mut self.payload);
            self.head_len = self.payload.len();
            return;
        }
        if self.columns.is_empty() || dice.one_in(3) {
            let head = self.head_len.min(self.payload.len());
            dice.spoil_in_place(&mut self.payload[..head], 2);
            return;
        }
        let (range, crc_at) = self.columns[dice.below(self.columns.len())].clone();
        let first = dice.one_in(3);
        let column = &mut self.payload[range.clone()];
        // Sizes and modes stand in the first bytes.
        let few = if first { column.len().min(4) } else { column.len() };
        dice.spoil_in_place(&mut column[..few], 3);
        let crc = crc32c::crc32c(column).to_le_bytes();
        self.payload[crc_at..crc_at + 4].copy_from_slice(&crc);
    }
}

fn put(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn len32(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

fn sealed(mut header: [u8; CHUNK_HEADER_LEN], payload: &[u8], head_len: usize) -> Vec<u8> {
    put(&mut header, HEAD_LEN_AT, len32(head_len));
    put(&mut header, PAYLOAD_LEN_AT, len32(payload.len()));
    put(&mut header, HEAD_CRC_AT, crc32c::crc32c(&payload[..head_len.min(payload.len())]));
    let crc = crc32c::crc32c(&header[..CRC_AT]);
    put(&mut header, CRC_AT, crc);
    let mut out = header.to_vec();
    out.extend_from_slice(payload);
    out.resize(out.len().next_multiple_of(CHUNK_ALIGN), 0);
    out
}

fn assemble(
    whole: &[u8],
    parts: &[Part],
    renumber: bool,
    with_index: bool,
    compress: bool,
    dice: &mut Dice,
) -> Vec<u8> {
    let mut out = whole[..FILE_HEADER_LEN].to_vec();
    let mut index = Vec::new();
    for (seq, part) in parts.iter().enumerate() {
        let mut header = part.header;
        if renumber {
            put(&mut header, 8, len32(seq));
        }
        let mut chunk = sealed(header, &part.payload, part.head_len);
        if compress && !part.block && dice.one_in(2) {
            let mut packed = len32(part.payload.len()).to_le_bytes().to_vec();
            if dice.one_in(8) {
                packed[dice.below(4)] = dice.byte();
            }
            packed.extend(zstd::bulk::compress(&part.payload, 1).unwrap_or_default());
            header[5] |= FLAG_ZSTD;
            chunk = sealed(header, &packed, packed.len());
        }
        index.extend((out.len() as u64).to_le_bytes());
        index.extend(&chunk[..CHUNK_HEADER_LEN]);
        out.extend(chunk);
    }
    if with_index {
        let at = out.len() as u64;
        if dice.one_in(8) {
            dice.spoil_in_place(&mut index, 2);
        }
        let mut header = [0; CHUNK_HEADER_LEN];
        header[..4].copy_from_slice(&ingero_format::layout::CHUNK_MAGIC);
        header[4] = CHUNK_INDEX;
        header[5] = FLAG_ANCILLARY;
        put(&mut header, 8, len32(parts.len()));
        out.extend(sealed(header, &index, index.len()));
        let events = parts
            .iter()
            .filter(|p| p.block)
            .map(|p| u64::from(u32::from_le_bytes([p.header[12], p.header[13], p.header[14], p.header[15]])));
        let mut footer = [at, parts.len() as u64, events.sum(), 0].map(u64::to_le_bytes).concat();
        if dice.one_in(8) {
            dice.spoil_in_place(&mut footer, 1);
        }
        header[4] += 1;
        header[5] = 0;
        put(&mut header, 8, len32(parts.len() + 1));
        out.extend(sealed(header, &footer, footer.len()));
    }
    out
}
