//! One column of one block: how its words become bytes, and back.
//!
//! Every transform ends in byte planes ([`planes`]). Which one is taken follows from the column's
//! [`Shape`] and from the values at hand; the directory entry says it.

mod planes;

use std::collections::HashMap;

use crate::bytes::{Malformed, Reader, Result, put_len, put_varint};
use crate::catalog::{Column, Shape};
use crate::error::Error;
use crate::layout::{
    CODE_NULLABLE, MAX_ROWS, TRANSFORM_CONST, TRANSFORM_DICT, TRANSFORM_FOLLOW, TRANSFORM_OFFSET, TRANSFORM_RISE,
    TRANSFORM_RUNS, TRANSFORM_STEP,
};

/// Compressor, decompressor and scratch space, reused from block to block.
pub(crate) struct Codec {
    compressor: zstd::bulk::Compressor<'static>,
    decompressor: zstd::bulk::Decompressor<'static>,
    frame: Vec<u8>,
    plane: Vec<u8>,
    planes: Vec<Vec<u8>>,
    words: Vec<u64>,
    places: HashMap<u64, u32>,
}

impl Codec {
    pub(crate) fn new(level: i32) -> std::result::Result<Self, Error> {
        let failed = |e| Error::io("starting zstd", e);
        Ok(Self {
            compressor: zstd::bulk::Compressor::new(level).map_err(failed)?,
            decompressor: zstd::bulk::Decompressor::new().map_err(failed)?,
            frame: Vec::new(),
            plane: Vec::new(),
            planes: Vec::new(),
            words: Vec::new(),
            places: HashMap::new(),
        })
    }

    /// One zstd frame of `bytes`; none where zstd fails, and the bytes are stored as they are.
    pub(crate) fn compress(&mut self, bytes: &[u8]) -> Option<&[u8]> {
        self.frame.clear();
        self.frame.reserve(zstd::zstd_safe::compress_bound(bytes.len()));
        self.compressor.compress_to_buffer(bytes, &mut self.frame).ok()?;
        Some(&self.frame)
    }

    /// Decompresses one frame of exactly `len` bytes. `len` was checked against a cap.
    pub(crate) fn decompress(&mut self, frame: &[u8], len: usize, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        out.reserve(len);
        let n = self.decompressor.decompress_to_buffer(frame, out).map_err(|_| Malformed("a zstd frame is broken"))?;
        if n == len { Ok(()) } else { Err(Malformed("a zstd frame has the wrong length")) }
    }
}

/// A column's entry in the directory of its block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) id: u8,
    pub(crate) transform: u8,
    pub(crate) nullable: bool,
    /// Smallest and largest stored word (one more than the value where `nullable`).
    pub(crate) min: u64,
    pub(crate) max: u64,
    pub(crate) len: u32,
    pub(crate) crc: u32,
    /// The column that this one follows, by id; 0 for every other transform.
    pub(crate) leader: u8,
}

impl Entry {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.push(self.id);
        out.push(self.transform | if self.nullable { CODE_NULLABLE } else { 0 });
        put_varint(out, self.min);
        if self.transform != TRANSFORM_CONST {
            put_varint(out, self.max.wrapping_sub(self.min));
            put_varint(out, u64::from(self.len));
            out.extend(self.crc.to_le_bytes());
        }
        if self.transform == TRANSFORM_FOLLOW {
            out.push(self.leader);
        }
    }

    pub(crate) fn read(r: &mut Reader) -> Result<Self> {
        let id = r.u8()?;
        let code = r.u8()?;
        let mut e = Self {
            id,
            transform: code & !CODE_NULLABLE,
            nullable: code & CODE_NULLABLE != 0,
            min: r.varint()?,
            max: 0,
            len: 0,
            crc: 0,
            leader: 0,
        };
        e.max = e.min;
        if e.transform != TRANSFORM_CONST {
            e.max = e.min.checked_add(r.varint()?).ok_or(Malformed("a column's maximum exceeds 64 bits"))?;
            e.len = u32::try_from(r.varint()?).map_err(|_| Malformed("a column is too long"))?;
            e.crc = r.u32()?;
        }
        if e.transform == TRANSFORM_FOLLOW {
            e.leader = r.u8()?;
        }
        Ok(e)
    }
}

/// What the other columns of the block lend to one.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    /// First row of each run of equal `cpu`.
    pub(crate) runs: &'a [u32],
    /// The column that this one may follow, decoded.
    pub(crate) leader: Option<&'a [u64]>,
}

/// Appends the encoded words and returns their entry. `words` is used as scratch space.
pub(crate) fn encode(codec: &mut Codec, column: &Column, words: &mut [u64], at: Context, out: &mut Vec<u8>) -> Entry {
    if column.nullable {
        // "Not known" becomes 0, beside the values instead of far above them.
        words.iter_mut().for_each(|w| *w = w.wrapping_add(1));
    }
    let (min, max) = words.iter().fold((u64::MAX, 0), |(lo, hi), &w| (lo.min(w), hi.max(w)));
    let start = out.len();
    let transform = if min >= max { TRANSFORM_CONST } else { encode_varied(codec, column, words, (min, max), at, out) };
    let bytes = out.get(start..).unwrap_or_default();
    Entry {
        id: column.id,
        transform,
        nullable: column.nullable,
        min,
        max,
        len: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
        crc: crc32c::crc32c(bytes),
        leader: match column.shape {
            Shape::Follows(id) if transform == TRANSFORM_FOLLOW => id,
            _ => 0,
        },
    }
}

fn encode_varied(
    codec: &mut Codec,
    column: &Column,
    words: &[u64],
    (min, max): (u64, u64),
    at: Context,
    out: &mut Vec<u8>,
) -> u8 {
    match column.shape {
        Shape::Runs => {
            write_runs(words, min, at.runs, out);
            return TRANSFORM_RUNS;
        }
        Shape::Rising => {
            if write_rise(codec, words, min, at.runs, out) {
                return TRANSFORM_RISE;
            }
        }
        Shape::Near => {
            write_step(codec, words, min, out);
            return TRANSFORM_STEP;
        }
        Shape::Follows(_) => {
            if let Some(leader) = at.leader
                && write_follow(codec, column.nullable, words, leader, at.runs, out)
            {
                return TRANSFORM_FOLLOW;
            }
            if max - min > 0xff && write_dict(codec, words, out) {
                return TRANSFORM_DICT;
            }
        }
        Shape::Few => {
            if max - min > 0xff && write_dict(codec, words, out) {
                return TRANSFORM_DICT;
            }
        }
        Shape::Plain => {}
    }
    write_offset(codec, words, (min, max), out);
    TRANSFORM_OFFSET
}

/// Decodes a column into `out`, replacing what it held.
pub(crate) fn decode(
    codec: &mut Codec,
    entry: &Entry,
    bytes: &[u8],
    rows: usize,
    at: Context,
    out: &mut Vec<u64>,
) -> Result<()> {
    let mut r = Reader::new(bytes);
    match entry.transform {
        TRANSFORM_CONST => {
            out.clear();
            out.resize(rows, entry.min);
        }
        TRANSFORM_OFFSET => {
            planes::read(codec, &mut r, rows, planes::width(entry.max - entry.min), out)?;
            out.iter_mut().for_each(|w| *w = w.wrapping_add(entry.min));
        }
        TRANSFORM_RISE => read_rise(codec, &mut r, rows, entry.min, at.runs, out)?,
        TRANSFORM_STEP => {
            let width = r.u8()?;
            planes::read(codec, &mut r, rows, width, out)?;
            let mut last = entry.min;
            for w in out.iter_mut() {
                last = last.wrapping_add(unzigzag(*w));
                *w = last;
            }
        }
        TRANSFORM_DICT => read_dict(codec, &mut r, rows, out)?,
        TRANSFORM_FOLLOW => {
            let leader = at.leader.ok_or(Malformed("the column that it follows is missing"))?;
            read_follow(codec, &mut r, rows, entry.nullable, leader, at.runs, out)?;
        }
        TRANSFORM_RUNS => {
            out.clear();
            while out.len() < rows {
                let value = entry.min.wrapping_add(r.varint()?);
                let len = r.count(rows - out.len())?;
                if len == 0 {
                    return Err(Malformed("a run is empty"));
                }
                out.resize(out.len() + len, value);
            }
        }
        _ => return Err(Malformed("its transform is not known to this build")),
    }
    if !r.is_empty() {
        return Err(Malformed("bytes are left over"));
    }
    if entry.nullable {
        out.iter_mut().for_each(|w| *w = w.wrapping_sub(1));
    }
    Ok(())
}

fn zigzag(step: u64) -> u64 {
    let step = step.cast_signed();
    ((step << 1) ^ (step >> 63)).cast_unsigned()
}

fn unzigzag(word: u64) -> u64 {
    (word >> 1) ^ (word & 1).wrapping_neg()
}

fn write_offset(codec: &mut Codec, words: &[u64], (min, max): (u64, u64), out: &mut Vec<u8>) {
    let mut scratch = std::mem::take(&mut codec.words);
    scratch.clear();
    scratch.extend(words.iter().map(|w| w - min));
    planes::write(codec, &scratch, planes::width(max - min), out);
    codec.words = scratch;
}

fn write_step(codec: &mut Codec, words: &[u64], min: u64, out: &mut Vec<u8>) {
    let mut scratch = std::mem::take(&mut codec.words);
    scratch.clear();
    let mut last = min;
    scratch.extend(words.iter().map(|&w| zigzag(w.wrapping_sub(std::mem::replace(&mut last, w)))));
    let width = planes::width(scratch.iter().copied().max().unwrap_or(0));
    out.push(width);
    planes::write(codec, &scratch, width, out);
    codec.words = scratch;
}

/// Rows at which the chain of a CPU begins anew, as a cursor.
struct RunStarts<'a> {
    rest: &'a [u32],
}

impl RunStarts<'_> {
    fn at(&mut self, row: usize) -> bool {
        match self.rest.split_first() {
            Some((&start, rest)) if start as usize == row => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }
}

/// False where a value falls within a run, and nothing is written.
fn write_rise(codec: &mut Codec, words: &[u64], min: u64, runs: &[u32], out: &mut Vec<u8>) -> bool {
    let mut scratch = std::mem::take(&mut codec.words);
    scratch.clear();
    let mut starts = RunStarts { rest: runs };
    let mut last = min;
    let mut rises = true;
    for (row, &w) in words.iter().enumerate() {
        if starts.at(row) {
            last = min;
        }
        rises &= w >= last;
        scratch.push(w.wrapping_sub(last));
        last = w;
    }
    if rises {
        let width = planes::width(scratch.iter().copied().max().unwrap_or(0));
        out.push(width);
        planes::write(codec, &scratch, width, out);
    }
    codec.words = scratch;
    rises
}

fn read_rise(codec: &mut Codec, r: &mut Reader, rows: usize, min: u64, runs: &[u32], out: &mut Vec<u64>) -> Result<()> {
    let width = r.u8()?;
    planes::read(codec, r, rows, width, out)?;
    let ends = runs.iter().skip(1).map(|&s| s as usize).chain([rows]);
    let mut from = 0;
    for end in ends {
        let run = out.get_mut(from..end).ok_or(Malformed("runs of CPUs do not fit"))?;
        let mut last = min;
        for w in run {
            last = last.wrapping_add(*w);
            *w = last;
        }
        from = end;
    }
    Ok(())
}

/// False where a dictionary would not help, and nothing is written.
fn write_dict(codec: &mut Codec, words: &[u64], out: &mut Vec<u8>) -> bool {
    let cap = (words.len() / 2).clamp(16, 1 << 16);
    let mut places = std::mem::take(&mut codec.places);
    places.clear();
    let mut last = None;
    for &w in words {
        if last != Some(w) {
            places.insert(w, 0);
            last = Some(w);
            if places.len() > cap {
                codec.places = places;
                return false;
            }
        }
    }
    let mut sorted: Vec<u64> = places.keys().copied().collect();
    sorted.sort_unstable();
    put_len(out, sorted.len());
    let mut before = 0;
    for (place, &value) in (0..).zip(&sorted) {
        put_varint(out, value - before);
        before = value;
        places.insert(value, place);
    }
    let mut scratch = std::mem::take(&mut codec.words);
    scratch.clear();
    scratch.extend(words.iter().map(|w| u64::from(places.get(w).copied().unwrap_or(0))));
    planes::write(codec, &scratch, planes::width(sorted.len() as u64 - 1), out);
    codec.words = scratch;
    codec.places = places;
    true
}

fn read_dict(codec: &mut Codec, r: &mut Reader, rows: usize, out: &mut Vec<u64>) -> Result<()> {
    let len = r.count(rows)?;
    let mut values = Vec::with_capacity(len);
    let mut value = 0u64;
    for _ in 0..len {
        value = value.checked_add(r.varint()?).ok_or(Malformed("a dictionary exceeds 64 bits"))?;
        values.push(value);
    }
    let top = len.checked_sub(1).ok_or(Malformed("a dictionary is empty"))?;
    planes::read(codec, r, rows, planes::width(top as u64), out)?;
    for w in out.iter_mut() {
        let place = usize::try_from(*w).ok().and_then(|p| values.get(p));
        *w = *place.ok_or(Malformed("a code is outside of its dictionary"))?;
    }
    Ok(())
}

/// False where the prediction fails too often, and nothing is written.
fn write_follow(
    codec: &mut Codec,
    nullable: bool,
    words: &[u64],
    leader: &[u64],
    runs: &[u32],
    out: &mut Vec<u8>,
) -> bool {
    let shift = u64::from(nullable);
    let mut scratch = std::mem::take(&mut codec.words);
    scratch.clear();
    let mut places = Vec::new();
    let mut starts = RunStarts { rest: runs };
    for (row, &w) in words.iter().enumerate() {
        let begins = starts.at(row);
        let predicted = row.checked_sub(1).and_then(|i| leader.get(i)).map(|l| l.wrapping_add(shift));
        if begins || predicted != Some(w) {
            places.push(row);
            scratch.push(w);
        }
    }
    let fits = places.len() * 4 <= words.len() * 3;
    if fits {
        put_len(out, places.len());
        let mut before = 0;
        for &place in &places {
            put_len(out, place - before);
            before = place;
        }
        let width = planes::width(scratch.iter().copied().max().unwrap_or(0));
        out.push(width);
        planes::write(codec, &scratch, width, out);
    }
    codec.words = scratch;
    fits
}

fn read_follow(
    codec: &mut Codec,
    r: &mut Reader,
    rows: usize,
    nullable: bool,
    leader: &[u64],
    runs: &[u32],
    out: &mut Vec<u64>,
) -> Result<()> {
    let count = r.count(rows)?;
    let mut places = Vec::with_capacity(count);
    let mut place = 0usize;
    for _ in 0..count {
        place += r.count(MAX_ROWS)?;
        if place >= rows {
            return Err(Malformed("an exception is outside of its block"));
        }
        places.push(place);
    }
    let width = r.u8()?;
    planes::read(codec, r, count, width, out)?;
    let exceptions = std::mem::take(out);
    let shift = u64::from(nullable);
    out.reserve(rows);
    out.push(0);
    out.extend(leader.iter().take(rows.saturating_sub(1)).map(|l| l.wrapping_add(shift)));
    if out.len() != rows || runs.is_empty() {
        return Err(Malformed("the column that it follows has another length"));
    }
    for (&place, value) in places.iter().zip(exceptions) {
        if let Some(w) = out.get_mut(place) {
            *w = value;
        }
    }
    Ok(())
}

fn write_runs(words: &[u64], min: u64, runs: &[u32], out: &mut Vec<u8>) {
    for (i, &start) in runs.iter().enumerate() {
        let start = start as usize;
        let end = runs.get(i + 1).map_or(words.len(), |&e| e as usize);
        put_varint(out, words.get(start).copied().unwrap_or(min) - min);
        put_len(out, end - start);
    }
}

/// First row of each run of equal values.
pub(crate) fn runs_of(cpus: &[u64], runs: &mut Vec<u32>) {
    runs.clear();
    let mut last = None;
    for (row, &cpu) in (0..).zip(cpus) {
        if last != Some(cpu) {
            runs.push(row);
            last = Some(cpu);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{NULL, Unit};

    fn column(shape: Shape, nullable: bool) -> Column {
        Column { id: 9, name: "x", unit: Unit::Number, nullable, shape, doc: "" }
    }

    fn round_trip(column: &Column, words: &[u64], runs: &[u32], leader: Option<&[u64]>) -> (u8, usize) {
        let mut codec = Codec::new(1).unwrap();
        let at = Context { runs, leader };
        let mut bytes = vec![];
        let entry = encode(&mut codec, column, &mut words.to_vec(), at, &mut bytes);
        let mut dir = vec![];
        entry.write(&mut dir);
        let read = Entry::read(&mut Reader::new(&dir)).unwrap();
        assert_eq!((read.transform, read.min, read.max, read.len), (entry.transform, entry.min, entry.max, entry.len));
        let mut back = vec![];
        decode(&mut codec, &read, &bytes, words.len(), at, &mut back).unwrap();
        assert_eq!(back, words);
        for cut in 0..bytes.len() {
            let _ = decode(&mut codec, &read, &bytes[..cut], words.len(), at, &mut back);
        }
        for flip in 0..bytes.len().min(200) {
            let mut bad = bytes.clone();
            bad[flip] ^= 0x55;
            let _ = decode(&mut codec, &read, &bad, words.len(), at, &mut back);
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
        let cpus = [vec![1u64; 10], vec![4; 3], vec![9; 1]].concat();
        assert_eq!(round_trip(&column(Shape::Runs, false), &cpus, &[0, 10, 13], None).0, TRANSFORM_RUNS);
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
}
