//! Recordings taken apart, changed with all their CRCs put right, and put together again.

use std::path::Path;

use ingero_format::layout::{
    CHUNK_ALIGN, CHUNK_BLOCK, CHUNK_FOOTER, CHUNK_HEADER_LEN, CHUNK_INDEX, FILE_HEADER_LEN, FLAG_ANCILLARY, FLAG_ZSTD,
};
use ingero_format::{Error, Trace};

use crate::dice::Dice;
use crate::seeds::codes;

const ROWS_AT: usize = 12;
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
    columns: Vec<Column>,
}

/// A column of a block.
#[derive(Clone)]
struct Column {
    /// Where its bytes are in the payload.
    bytes: std::ops::Range<usize>,
    /// Where their CRC stands; a constant column has none.
    crc_at: Option<usize>,
    transform: u8,
}

/// What stands behind the last part.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// Nothing: the file is scanned.
    Cut,
    /// Index and footer.
    Whole,
    /// Index and footer, of which that one is changed.
    Spoilt(u8),
}

impl Ending {
    fn any(dice: &mut Dice) -> Self {
        match dice.below(16) {
            0..8 => Self::Cut,
            8..14 => Self::Whole,
            14 => Self::Spoilt(CHUNK_INDEX),
            _ => Self::Spoilt(CHUNK_FOOTER),
        }
    }
}

/// A recording to begin with.
pub(crate) struct Seed {
    bytes: Vec<u8>,
    parts: Vec<Part>,
}

impl Seed {
    /// Takes a recording apart; `path` is for a file that is made of it meanwhile.
    pub(crate) fn read(bytes: &[u8], path: &Path) -> Result<Self, Error> {
        std::fs::write(path, bytes).map_err(|cause| Error::Io { what: path.display().to_string(), cause })?;
        let trace = Trace::open(path)?;
        let bytes = bytes.to_vec();
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
                    let crc_at = payload[..head_len].windows(4).position(|w| w == crc).filter(|_| !range.is_empty());
                    columns.push(Column { bytes: range, crc_at, transform: column.transform });
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

    /// Places of all columns, part and column, under each name of what encodes them.
    pub(crate) fn columns(&self) -> impl Iterator<Item = (usize, usize, String)> + '_ {
        self.parts.iter().enumerate().flat_map(|(at, part)| {
            part.columns.iter().enumerate().flat_map(move |(n, column)| {
                codes(column.transform, &part.payload[column.bytes.clone()]).into_iter().map(move |code| (at, n, code))
            })
        })
    }

    /// A file with nothing but one block, in which one column is changed.
    pub(crate) fn change_column(&self, part: usize, column: usize, dice: &mut Dice) -> Vec<u8> {
        let mut part = self.parts[part].clone();
        for _ in 0..=dice.below(2) {
            part.spoil_column(column, dice);
        }
        if dice.one_in(4) {
            let head = part.head_len.min(part.payload.len());
            dice.spoil_in_place(&mut part.payload[..head], 1);
        }
        if dice.one_in(8) {
            dice.spoil_in_place(&mut part.header[ROWS_AT..ROWS_AT + 4], 1);
        }
        let mut out = self.bytes[..FILE_HEADER_LEN].to_vec();
        out.extend(sealed(part.header, &part.payload, part.head_len));
        out
    }

    /// The recording with only parts of one type changed, index and footer by their types too.
    pub(crate) fn change_type(&self, chunk_type: u8, dice: &mut Dice) -> Vec<u8> {
        let mut parts = self.parts.clone();
        let chosen: Vec<usize> = (0..parts.len()).filter(|&at| parts[at].header[4] == chunk_type).collect();
        if chunk_type == CHUNK_INDEX || chunk_type == CHUNK_FOOTER {
            return assemble(&self.bytes, &parts, true, Ending::Spoilt(chunk_type), false, dice);
        }
        if let Some(&at) = chosen.get(dice.below(chosen.len())) {
            for _ in 0..=dice.below(3) {
                dice.spoil(&mut parts[at].payload);
            }
            parts[at].head_len = parts[at].payload.len();
        }
        let (ending, compress) = (Ending::any(dice), dice.one_in(2));
        assemble(&self.bytes, &parts, true, ending, compress, dice)
    }

    /// The recording with only headers changed, their CRCs put right.
    pub(crate) fn change_headers(&self, dice: &mut Dice) -> Vec<u8> {
        let mut parts = self.parts.clone();
        for _ in 0..=dice.below(4) {
            let at = dice.below(parts.len());
            dice.spoil_in_place(&mut parts[at].header[4..CRC_AT], 3);
        }
        let (renumber, ending) = (dice.one_in(2), Ending::any(dice));
        assemble(&self.bytes, &parts, renumber, ending, false, dice)
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
        let ending = Ending::any(dice);
        let compress = dice.one_in(3);
        assemble(&self.bytes, &parts, renumber, ending, compress, dice)
    }

    /// As it is, put together anew: a check of the harness itself.
    pub(crate) fn unchanged(&self) -> Vec<u8> {
        assemble(&self.bytes, &self.parts, true, Ending::Whole, false, &mut Dice(0))
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
        self.spoil_column(dice.below(self.columns.len()), dice);
    }

    fn spoil_column(&mut self, column: usize, dice: &mut Dice) {
        let Column { bytes, crc_at: Some(crc_at), .. } = self.columns[column].clone() else {
            let head = self.head_len.min(self.payload.len());
            dice.spoil_in_place(&mut self.payload[..head], 1);
            return;
        };
        let first = dice.one_in(3);
        let column = &mut self.payload[bytes];
        // Sizes and modes stand in the first bytes.
        let few = if first { column.len().min(4) } else { column.len() };
        dice.spoil_in_place(&mut column[..few], 3);
        let crc = crc32c::crc32c(column).to_le_bytes();
        self.payload[crc_at..crc_at + 4].copy_from_slice(&crc);
    }
}

/// A file with so many copies of one chunk, whose header says what it is told to.
#[expect(clippy::too_many_arguments, reason = "they are the fields of the header")]
pub(crate) fn file_of(
    like: &Seed,
    chunk_type: u8,
    kind: u16,
    rows: usize,
    payload: &[u8],
    head_len: usize,
    (ts_min, ts_max): (u64, u64),
    copies: usize,
) -> Vec<u8> {
    let mut out = like.bytes[..FILE_HEADER_LEN].to_vec();
    for seq in 0..copies {
        let mut header = [0; CHUNK_HEADER_LEN];
        header[..4].copy_from_slice(&ingero_format::layout::CHUNK_MAGIC);
        header[4] = chunk_type;
        header[6..8].copy_from_slice(&kind.to_le_bytes());
        put(&mut header, 8, len32(seq));
        put(&mut header, ROWS_AT, len32(rows));
        header[32..40].copy_from_slice(&ts_min.to_le_bytes());
        header[40..48].copy_from_slice(&ts_max.to_le_bytes());
        out.extend(sealed(header, payload, head_len));
    }
    out
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

fn assemble(whole: &[u8], parts: &[Part], renumber: bool, ending: Ending, compress: bool, dice: &mut Dice) -> Vec<u8> {
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
    if let Ending::Whole | Ending::Spoilt(_) = ending {
        append_index(&mut out, index, parts, ending, dice);
    }
    out
}

fn append_index(out: &mut Vec<u8>, mut index: Vec<u8>, parts: &[Part], ending: Ending, dice: &mut Dice) {
    let at = out.len() as u64;
    if ending == Ending::Spoilt(CHUNK_INDEX) && !index.is_empty() {
        // With the CRC of the quoted header put right, mostly.
        let entries = index.len() / (8 + CHUNK_HEADER_LEN);
        let entry = dice.below(entries) * (8 + CHUNK_HEADER_LEN);
        match dice.below(4) {
            0 => dice.spoil(&mut index),
            1 => dice.spoil_in_place(&mut index[entry..entry + 8], 2),
            _ => {
                let header = &mut index[entry + 8..entry + 8 + CHUNK_HEADER_LEN];
                dice.spoil_in_place(&mut header[4..CRC_AT], 2);
                let crc = crc32c::crc32c(&header[..CRC_AT]);
                put(header, CRC_AT, crc);
            }
        }
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
    if ending == Ending::Spoilt(CHUNK_FOOTER) {
        dice.spoil_in_place(&mut footer, 2);
    }
    header[4] += 1;
    header[5] = 0;
    put(&mut header, 8, len32(parts.len() + 1));
    out.extend(sealed(header, &footer, footer.len()));
}
