//! A column of texts as Parquet stores it: each text once in a dictionary, and a number for each row.
//!
//! The library's writer takes texts, and finds out row by row which it has had. Here they are numbers already.

use std::io;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, PageType, ZstdLevel};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, PageEncodingStats};
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;
use zstd::bulk::Compressor;

/// Longest text that statistics hold whole.
const STATISTICS_BYTES: usize = 64;

/// The rows of a column chunk.
pub(super) struct Rows<'a> {
    /// How many there are.
    pub(super) count: usize,
    /// By row: 1 where there is a text, 0 where none is known; nothing where the column always has one.
    pub(super) known: Option<&'a [u32]>,
    /// Places in the dictionary, of the rows that have a text.
    pub(super) places: &'a [u32],
}

/// Encodes a column chunk. The dictionary holds the texts as Parquet stores them ([`push_text`]), and says how many;
/// `range` is the smallest and the largest.
pub(super) fn chunk(
    column: ColumnDescPtr,
    rows: &Rows,
    (dictionary, texts): (&[u8], usize),
    range: Option<[String; 2]>,
    packer: &mut Packer,
) -> Result<(Bytes, ColumnCloseResult), ParquetError> {
    let mut page = Vec::new();
    if let Some(known) = rows.known {
        page.extend([0; 4]);
        runs(known, 1, &mut page);
        let length = count::<u32>(page.len() - 4)?.to_le_bytes();
        page[..4].copy_from_slice(&length);
    }
    let width = u32::BITS - count::<u32>(texts.saturating_sub(1))?.leading_zeros();
    page.push(count::<u8>(width as usize)?);
    runs(rows.places, width, &mut page);

    let mut out = TrackedWrite::new(Vec::new());
    let mut writer = SerializedPageWriter::new(&mut out);
    let words = Page::DictionaryPage {
        buf: packer.pack(dictionary)?.into(),
        num_values: count(texts)?,
        encoding: Encoding::PLAIN,
        is_sorted: false,
    };
    let values = Page::DataPage {
        buf: packer.pack(&page)?.into(),
        num_values: count(rows.count)?,
        encoding: Encoding::RLE_DICTIONARY,
        def_level_encoding: Encoding::RLE,
        rep_level_encoding: Encoding::RLE,
        statistics: None,
    };
    let words = writer.write_page(CompressedPage::new(words, dictionary.len()))?;
    let data = writer.write_page(CompressedPage::new(values, page.len()))?;
    let unknown = rows.count - rows.places.len();
    let short = range.filter(|texts| texts.iter().all(|text| text.len() <= STATISTICS_BYTES));
    let [low, high] = short.map_or([None, None], |texts| texts.map(|text| Some(ByteArray::from(text.into_bytes()))));
    let pages = |page_type, encoding| PageEncodingStats { page_type, encoding, count: 1 };
    let metadata = ColumnChunkMetaData::builder(column)
        .set_encodings(vec![Encoding::PLAIN, Encoding::RLE, Encoding::RLE_DICTIONARY])
        .set_compression(packer.codec)
        .set_num_values(count(rows.count)?)
        .set_total_compressed_size(count(words.compressed_size + data.compressed_size)?)
        .set_total_uncompressed_size(count(words.uncompressed_size + data.uncompressed_size)?)
        .set_dictionary_page_offset(Some(0))
        .set_data_page_offset(count(words.compressed_size)?)
        .set_statistics(Statistics::byte_array(low, high, None, Some(unknown as u64), false))
        .set_page_encoding_stats(vec![
            pages(PageType::DICTIONARY_PAGE, Encoding::PLAIN),
            pages(PageType::DATA_PAGE, Encoding::RLE_DICTIONARY),
        ])
        .build()?;
    let bytes = out.into_inner()?;
    let close = ColumnCloseResult {
        bytes_written: bytes.len() as u64,
        rows_written: rows.count as u64,
        metadata,
        bloom_filter: None,
        column_index: None,
        offset_index: None,
    };
    Ok((bytes.into(), close))
}

/// Adds a text to a dictionary.
pub(super) fn push_text(text: &str, dictionary: &mut Vec<u8>) -> Result<(), ParquetError> {
    dictionary.extend(count::<u32>(text.len())?.to_le_bytes());
    dictionary.extend(text.as_bytes());
    Ok(())
}

fn count<T: TryFrom<usize>>(n: usize) -> Result<T, ParquetError> {
    T::try_from(n).map_err(|_| ParquetError::General(format!("{n} is more than a column chunk holds")))
}

/// What the chunks are packed with.
pub(super) struct Packer {
    zstd: Compressor<'static>,
    /// How files call it.
    pub(super) codec: Compression,
}

impl Packer {
    pub(super) fn new(level: i32) -> Result<Self, ParquetError> {
        let zstd = Compressor::new(level).map_err(external)?;
        Ok(Self { zstd, codec: Compression::ZSTD(ZstdLevel::try_new(level)?) })
    }

    fn pack(&mut self, bytes: &[u8]) -> Result<Vec<u8>, ParquetError> {
        self.zstd.compress(bytes).map_err(external)
    }
}

fn external(e: io::Error) -> ParquetError {
    ParquetError::External(Box::new(e))
}

/// Values of `width` bits in Parquet's hybrid of runs and packed bits: what repeats is a run, the rest is packed in
/// groups of eight.
fn runs(values: &[u32], width: u32, out: &mut Vec<u8>) {
    const GROUP: usize = 8;
    let (mut at, mut packed_from) = (0, 0);
    while let Some(value) = values.get(at) {
        let length = values[at..].iter().take_while(|v| *v == value).count();
        // A group that has begun is filled up first.
        let fill = (GROUP - (at - packed_from) % GROUP) % GROUP;
        if length >= fill + GROUP {
            pack(&values[packed_from..at + fill], width, out);
            push_varint(((length - fill) as u64) << 1, out);
            out.extend(&value.to_le_bytes()[..width.div_ceil(8) as usize]);
            packed_from = at + length;
        }
        at += length;
    }
    pack(&values[packed_from..], width, out);
}

/// Values in groups of eight, the lowest bits first; zeros fill up the last group.
fn pack(values: &[u32], width: u32, out: &mut Vec<u8>) {
    if values.is_empty() {
        return;
    }
    push_varint(((values.len().div_ceil(8) as u64) << 1) | 1, out);
    for group in values.chunks(8) {
        let (mut bits, mut held) = (0u64, 0);
        for at in 0..8 {
            bits |= u64::from(group.get(at).copied().unwrap_or(0)) << held;
            held += width;
            if held >= 32 {
                out.extend(&bits.to_le_bytes()[..4]);
                bits >>= 32;
                held -= 32;
            }
        }
        out.extend(&bits.to_le_bytes()[..held.div_ceil(8) as usize]);
    }
}

fn push_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Read back by the definition: a header says run or groups, then values follow.
    fn read(mut bytes: &[u8], width: u32, count: usize) -> Vec<u32> {
        let mut values = Vec::new();
        while values.len() < count {
            let header = prost::encoding::decode_varint(&mut bytes).unwrap();
            let length = usize::try_from(header >> 1).unwrap();
            if header & 1 == 0 {
                let (value, rest) = bytes.split_at(width.div_ceil(8) as usize);
                bytes = rest;
                let mut word = [0; 4];
                word[..value.len()].copy_from_slice(value);
                values.extend(std::iter::repeat_n(u32::from_le_bytes(word), length));
            } else {
                let (groups, rest) = bytes.split_at(length * width as usize);
                bytes = rest;
                let bit = |at: usize| u32::from(groups[at / 8] >> (at % 8) & 1);
                let value = |row: usize| (0..width as usize).map(|b| bit(row * width as usize + b) << b).sum::<u32>();
                values.extend((0..length * 8).map(value));
            }
        }
        assert!(bytes.is_empty());
        values.truncate(count);
        values
    }

    #[test]
    fn runs_and_groups_give_back_every_value() {
        let mut state = 7u64;
        let mut next = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            u32::try_from(state >> 33).unwrap()
        };
        for width in [0, 1, 2, 7, 8, 9, 13, 16, 17, 24, 31, 32] {
            let mask = u32::try_from((1u64 << width) - 1).unwrap();
            for count in [0, 1, 7, 8, 9, 64, 1000] {
                let mut values: Vec<u32> = Vec::new();
                while values.len() < count {
                    let value = next() & mask;
                    values.extend(std::iter::repeat_n(value, 1 + (next() % 3 * (next() % 12)) as usize));
                }
                values.truncate(count);
                let mut out = Vec::new();
                runs(&values, width, &mut out);
                assert_eq!(read(&out, width, count), values, "{width} {count}");
            }
        }
    }

    #[test]
    fn what_repeats_takes_a_few_bytes() {
        let mut out = Vec::new();
        runs(&[5; 100_000], 3, &mut out);
        assert_eq!(out, [0xc0, 0x9a, 0x0c, 5]);
    }
}
