//! One column of one block: how its words become bytes, and back.
//!
//! Every transform ends in [`numbers`]. Which one is taken follows from the column's [`Shape`] and
//! from the values at hand; the directory entry says it.

mod bits;
mod cell;
mod codec;
mod dict;
mod entry;
mod follow;
mod numbers;
mod packed;
mod places;
mod planes;
mod recall;
mod rise;
mod scaled;
mod words;

pub(crate) use cell::Cell;
pub(crate) use codec::Codec;
pub(crate) use entry::Entry;
pub(crate) use words::{Held, Shelf, cell_bytes, each};
pub use words::{View, Words};

use crate::bytes::{Malformed, Reader, Result, put_len, put_varint};
use crate::catalog::{Column, Shape};
use crate::layout::{
    TRANSFORM_CONST, TRANSFORM_DICT, TRANSFORM_FOLLOW, TRANSFORM_OFFSET, TRANSFORM_RECALL, TRANSFORM_RISE,
    TRANSFORM_RUNS, TRANSFORM_STEP,
};
use numbers::{Forms, Numbers};

/// What the other columns of the block lend to one.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    /// First row of each run of equal `cpu`.
    pub(crate) runs: &'a [u32],
    /// The columns that this one is derived from.
    pub(crate) sources: [Option<&'a Words>; 2],
}

/// The columns that one of this shape may be derived from, by id; 0 for none.
pub(crate) fn sources(shape: Shape) -> [u8; 2] {
    match shape {
        Shape::Follows(id) => [id, 0],
        Shape::Recalls(a, b) => [a, b],
        _ => [0; 2],
    }
}

/// Completes the entry of a column whose bytes were appended from `start` on.
fn entry(column: &Column, transform: u8, (min, max): (u64, u64), start: usize, out: &[u8]) -> Entry {
    let bytes = out.get(start..).unwrap_or_default();
    Entry {
        id: column.id,
        transform,
        nullable: column.nullable,
        min,
        max,
        len: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
        crc: crc32c::crc32c(bytes),
        sources: if matches!(transform, TRANSFORM_FOLLOW | TRANSFORM_RECALL) { sources(column.shape) } else { [0; 2] },
    }
}

/// Appends the encoded words and returns their entry. What is held per row are the words as stored:
/// one more than they are in a nullable column.
pub(crate) fn encode(codec: &mut Codec, column: &Column, words: &Words, at: Context, out: &mut Vec<u8>) -> Entry {
    let shift = u64::from(column.nullable);
    debug_assert!(matches!(words.held, Held::One) || words.base == shift.wrapping_neg());
    let start = out.len();
    let constant = |word: u64| entry(column, TRANSFORM_CONST, (word, word), start, &[]);
    each!(&words.held, cells => {
        let (min, max) = bounds(cells);
        if min == max {
            return constant(min.wide());
        }
        let transform = encode_varied(codec, column, (cells, min, max), at, out);
        entry(column, transform, (min.wide(), max.wide()), start, out)
    }, constant(words.base.wrapping_add(shift)))
}

/// Appends times that never fall within a CPU's rows, given as distances from the row before, the first of
/// each CPU from the smallest of all, and returns their entry.
pub(crate) fn encode_rising<T: Cell>(
    codec: &mut Codec,
    column: &Column,
    steps: &[T],
    (min, max): (u64, u64),
    out: &mut Vec<u8>,
) -> Entry {
    let start = out.len();
    if min == max {
        return entry(column, TRANSFORM_CONST, (min, max), start, &[]);
    }
    rise::write_steps(codec, steps, out);
    entry(column, TRANSFORM_RISE, (min, max), start, out)
}

/// Appends what the rows of each run hold, and how many they are, and returns the entry.
pub(crate) fn encode_runs(column: &Column, runs: &[(u64, usize)], out: &mut Vec<u8>) -> Entry {
    let start = out.len();
    let words = || runs.iter().map(|r| r.0);
    let (min, max) = (words().min().unwrap_or(0), words().max().unwrap_or(0));
    if min == max {
        return entry(column, TRANSFORM_CONST, (min, max), start, &[]);
    }
    for &(word, rows) in runs {
        put_varint(out, word - min);
        put_len(out, rows);
    }
    entry(column, TRANSFORM_RUNS, (min, max), start, out)
}

/// Smallest and largest of all cells.
fn bounds<T: Cell>(cells: &[T]) -> (T, T) {
    let first = cells.first().copied().unwrap_or_default();
    cells.iter().fold((first, first), |(lo, hi), &c| (lo.min(c), hi.max(c)))
}

fn encode_varied<T: Cell>(
    codec: &mut Codec,
    column: &Column,
    (cells, min, max): (&[T], T, T),
    at: Context,
    out: &mut Vec<u8>,
) -> u8 {
    let shift = u64::from(column.nullable);
    let range = max.wide() - min.wide();
    let mut forms = Forms::Planes;
    match column.shape {
        Shape::Rising => {
            if rise::write(codec, cells, min, at.runs, out) {
                return TRANSFORM_RISE;
            }
            forms = Forms::Either;
        }
        Shape::Near => {
            rise::write_both_ways(codec, cells, min, out);
            return TRANSFORM_STEP;
        }
        Shape::Follows(_) => {
            if let Some(leader) = at.sources[0]
                && follow::write(codec, (cells, shift), leader, at.runs, out)
            {
                return TRANSFORM_FOLLOW;
            }
        }
        Shape::Recalls(_, second) => {
            if let Some(first) = at.sources[0]
                && (second == 0 || at.sources[1].is_some())
                && recall::write(codec, (cells, min, max), shift, recall::Sources { first, second: at.sources[1] }, out)
            {
                return TRANSFORM_RECALL;
            }
        }
        Shape::Few | Shape::Runs => {}
        Shape::Plain => forms = Forms::Either,
    }
    if forms == Forms::Planes && range > 0xff && dict::write(codec, cells, (min.wide(), max.wide()), out) {
        return TRANSFORM_DICT;
    }
    numbers::write(codec, Numbers { cells, less: min, max: range }, forms, out);
    TRANSFORM_OFFSET
}

/// Decodes a column.
pub(crate) fn decode(codec: &mut Codec, entry: &Entry, bytes: &[u8], rows: usize, at: Context) -> Result<Words> {
    if let Some(word) = entry.constant() {
        return if bytes.is_empty() { Ok(Words::one(word, rows)) } else { Err(LEFT_OVER) };
    }
    match cell_bytes(entry.max - entry.min) {
        1 => decode_as::<u8>(codec, entry, bytes, rows, at),
        2 => decode_as::<u16>(codec, entry, bytes, rows, at),
        4 => decode_as::<u32>(codec, entry, bytes, rows, at),
        _ => decode_as::<u64>(codec, entry, bytes, rows, at),
    }
}

fn decode_as<T: Cell>(codec: &mut Codec, entry: &Entry, bytes: &[u8], rows: usize, at: Context) -> Result<Words> {
    let mut r = Reader::new(bytes);
    let mut out = codec.shelf.take_used::<T>();
    let (min, range) = (entry.min, entry.max - entry.min);
    let base = min.wrapping_sub(u64::from(entry.nullable));
    match entry.transform {
        TRANSFORM_OFFSET => numbers::read(codec, &mut r, rows, &mut out)?,
        TRANSFORM_RISE => rise::read(codec, &mut r, rows, at.runs, &mut out)?,
        TRANSFORM_STEP => rise::read_both_ways(codec, &mut r, rows, &mut out)?,
        TRANSFORM_DICT => dict::read(codec, &mut r, (rows, min, range), &mut out)?,
        TRANSFORM_FOLLOW => {
            let leader = at.sources[0].ok_or(MISSING)?;
            if at.runs.is_empty() {
                return Err(MISSING);
            }
            follow::read(codec, &mut r, (rows, base, min, range), leader, &mut out)?;
        }
        TRANSFORM_RECALL => {
            let first = at.sources[0].ok_or(MISSING)?;
            let second = match entry.sources[1] {
                0 => None,
                _ => Some(at.sources[1].ok_or(MISSING)?),
            };
            recall::read(codec, &mut r, (rows, base, range), recall::Sources { first, second }, &mut out)?;
        }
        TRANSFORM_RUNS => read_runs(&mut r, rows, range, &mut out)?,
        _ => return Err(Malformed("its transform is not known to this build")),
    }
    if !r.is_empty() {
        return Err(LEFT_OVER);
    }
    Ok(Words { base, rows, held: T::hold(out) })
}

const LEFT_OVER: Malformed = Malformed("bytes are left over");
const MISSING: Malformed = Malformed("a column that it is derived from is missing");

fn read_runs<T: Cell>(r: &mut Reader, rows: usize, range: u64, out: &mut Vec<T>) -> Result<()> {
    out.clear();
    while out.len() < rows {
        let cell = r.varint()?;
        if cell > range {
            return Err(numbers::TOO_LARGE);
        }
        let len = r.count(rows - out.len())?;
        if len == 0 {
            return Err(Malformed("a run is empty"));
        }
        out.resize(out.len() + len, T::cut(cell));
    }
    Ok(())
}

/// The rows of each run.
fn runs_within(runs: &[u32], rows: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    let ends = runs.iter().skip(1).map(|&s| s as usize).chain([rows]);
    runs.iter().map(|&s| s as usize).zip(ends).map(|(from, end)| from..end)
}

/// First row of each run of equal words.
pub(crate) fn runs_of(words: &Words, runs: &mut Vec<u32>) {
    runs.clear();
    each!(&words.held, cells => starts(cells, runs), if words.rows > 0 { runs.push(0) });
}

fn starts<T: Cell>(cells: &[T], runs: &mut Vec<u32>) {
    let mut last = None;
    let mut row = 0;
    for part in cells.chunks(64) {
        // Runs are long.
        let same = last.is_some_and(|l| part.iter().fold(true, |same, &c| same & (c == l)));
        if !same {
            for (at, &c) in (row..).zip(part) {
                if last != Some(c) {
                    runs.push(at);
                    last = Some(c);
                }
            }
        }
        row += 64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{NULL, Unit};
    use crate::layout::RECALL_SLOTS;

    fn column(shape: Shape, nullable: bool) -> Column {
        Column { id: 9, name: "x", unit: Unit::Number, nullable, shape, doc: "" }
    }

    fn held(words: &[u64], shift: u64, codec: &mut Codec) -> Words {
        let mut held = Words::default();
        for part in words.chunks(100) {
            crate::lane::take(&mut held, part, shift, &mut codec.shelf);
        }
        assert_eq!(held.to_vec(), words);
        held
    }

    fn round_trip(column: &Column, words: &[u64], runs: &[u32], leader: Option<&[u64]>) -> (u8, usize) {
        let mut codec = Codec::new(1).unwrap();
        let leader = leader.map(|l| held(l, 0, &mut codec));
        let at = Context { runs, sources: [leader.as_ref(), None] };
        let mut bytes = vec![];
        let given = held(words, u64::from(column.nullable), &mut codec);
        let entry = encode(&mut codec, column, &given, at, &mut bytes);
        let mut dir = vec![];
        entry.write(&mut dir);
        let read = Entry::read(&mut Reader::new(&dir)).unwrap();
        assert_eq!((read.transform, read.min, read.max, read.len), (entry.transform, entry.min, entry.max, entry.len));
        let back = decode(&mut codec, &read, &bytes, words.len(), at).unwrap();
        assert_eq!(back.to_vec(), words);
        for cut in 0..bytes.len() {
            let _ = decode(&mut codec, &read, &bytes[..cut], words.len(), at);
        }
        for flip in 0..bytes.len().min(200) {
            let mut bad = bytes.clone();
            bad[flip] ^= 0x55;
            let _ = decode(&mut codec, &read, &bad, words.len(), at);
        }
        (entry.transform, bytes.len())
    }

    #[test]
    fn every_shape_round_trips() {
        let ramp: Vec<u64> = (0..2000).map(|i| 1_000_000 + i * 37 + i % 5).collect();
        assert_eq!(round_trip(&column(Shape::Rising, false), &ramp, &[0], None).0, TRANSFORM_RISE);
        let two: Vec<u64> = ramp.iter().chain(&ramp).copied().collect();
        assert_eq!(round_trip(&column(Shape::Rising, false), &two, &[0, 2000], None).0, TRANSFORM_RISE);
        assert_eq!(round_trip(&column(Shape::Rising, false), &two, &[0], None).0, TRANSFORM_OFFSET);
        assert_eq!(round_trip(&column(Shape::Near, false), &two, &[0], None).0, TRANSFORM_STEP);
        assert_eq!(round_trip(&column(Shape::Plain, true), &[3, NULL, 5], &[0], None).0, TRANSFORM_OFFSET);
        assert_eq!(round_trip(&column(Shape::Few, true), &[NULL; 50], &[0], None), (TRANSFORM_CONST, 0));
        assert_eq!(round_trip(&column(Shape::Plain, false), &[NULL; 50], &[0], None), (TRANSFORM_CONST, 0));
        let few: Vec<u64> = (0..500).map(|i| 0x7f00_0000_0000 + (i % 7) * 4096).collect();
        assert_eq!(round_trip(&column(Shape::Few, true), &few, &[0], None).0, TRANSFORM_DICT);
        let wide: Vec<u64> = (0..500u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        for shape in [Shape::Few, Shape::Plain, Shape::Near, Shape::Rising] {
            round_trip(&column(shape, false), &wide, &[0], None);
            round_trip(&column(shape, true), &wide, &[0], None);
        }
        let mut bytes = vec![];
        let entry = encode_runs(&column(Shape::Runs, false), &[(1, 10), (4, 3), (9, 1)], &mut bytes);
        let at = Context { runs: &[], sources: [None; 2] };
        let back = decode(&mut Codec::new(1).unwrap(), &entry, &bytes, 14, at).unwrap();
        assert_eq!(back.to_vec(), [vec![1u64; 10], vec![4; 3], vec![9; 1]].concat());
        let mut runs = vec![];
        runs_of(&back, &mut runs);
        assert_eq!(runs, [0, 10, 13]);
        round_trip(&column(Shape::Plain, false), &[0, u64::MAX], &[0], None);
        round_trip(&column(Shape::Near, false), &[0, u64::MAX, 0, 1 << 63], &[0], None);
    }

    #[test]
    fn a_follower_costs_its_exceptions_only() {
        let leader: Vec<u64> = (0..4000u64).map(|i| 100 + i * 31 % 47).collect();
        let mut words: Vec<u64> = std::iter::once(7).chain(leader.iter().copied().take(3999)).collect();
        for nullable in [false, true] {
            let (transform, len) = round_trip(&column(Shape::Follows(5), nullable), &words, &[0], Some(&leader));
            assert_eq!(transform, TRANSFORM_FOLLOW);
            assert!(len < 12, "{len}");
        }
        words[17] = 9999;
        words[2000] = 1;
        round_trip(&column(Shape::Follows(5), true), &words, &[0, 2000], Some(&leader));
        let noise: Vec<u64> = (0..4000u64).map(|i| i * i % 911).collect();
        assert_ne!(round_trip(&column(Shape::Follows(5), false), &noise, &[0], Some(&leader)).0, TRANSFORM_FOLLOW);
    }

    #[test]
    fn what_a_key_recalls_costs_nothing() {
        let keys: Vec<u64> = (0..4000u64).map(|i| i * i % 97).collect();
        let words: Vec<u64> = keys.iter().map(|k| if k % 3 == 0 { NULL } else { 0x100 + k % 7 }).collect();
        let (transform, len) = round_trip(&column(Shape::Recalls(5, 0), true), &words, &[0], Some(&keys));
        assert_eq!(transform, TRANSFORM_RECALL);
        assert!(len < 150, "{len}");
        // Keys that share a slot cost bytes, nothing else.
        let far: Vec<u64> = keys.iter().map(|k| k * RECALL_SLOTS as u64 + k % 60).collect();
        round_trip(&column(Shape::Recalls(5, 0), true), &words, &[0], Some(&far));
        round_trip(&column(Shape::Recalls(5, 0), false), &[0, u64::MAX, 0, 0], &[0], Some(&[1, 1, 1, 1]));
        let noise: Vec<u64> = (0..4000u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        assert_ne!(round_trip(&column(Shape::Recalls(5, 0), false), &noise, &[0], Some(&keys)).0, TRANSFORM_RECALL);
    }
}
