//! One column of one block: how its words become bytes, and back.
//!
//! Every transform ends in [`numbers`]. Which one is taken follows from the column's [`Shape`] and
//! from the values at hand; the directory entry says it.

mod bits;
mod numbers;
mod packed;
mod places;

use numbers::Forms;
use places::Places;

use crate::bytes::{Malformed, Reader, Result, put_len, put_varint};
use crate::catalog::{Column, Shape};
use crate::error::Error;
use crate::layout::{
    CODE_NULLABLE, MAX_ROWS, RECALL_DEFAULTS, RECALL_SLOTS, RECALL_STRIDE, TRANSFORM_CONST, TRANSFORM_DICT,
    TRANSFORM_FOLLOW, TRANSFORM_OFFSET, TRANSFORM_RECALL, TRANSFORM_RISE, TRANSFORM_RUNS, TRANSFORM_STEP,
};

/// Compressor, decompressor and scratch space, reused from block to block.
pub(crate) struct Codec {
    compressor: zstd::bulk::Compressor<'static>,
    decompressor: zstd::bulk::Decompressor<'static>,
    frame: Vec<u8>,
    plane: Vec<u8>,
    bits: Vec<u8>,
    packed: Vec<u8>,
    planes: Vec<Vec<u8>>,
    words: Vec<u64>,
    slots: Vec<u64>,
    places: Places,
    /// Whether every form is tried on all values.
    thorough: bool,
}

impl Codec {
    pub(crate) fn new(level: i32) -> std::result::Result<Self, Error> {
        let failed = |e| Error::io("starting zstd", e);
        Ok(Self {
            compressor: zstd::bulk::Compressor::new(level).map_err(failed)?,
            decompressor: zstd::bulk::Decompressor::new().map_err(failed)?,
            frame: Vec::new(),
            plane: Vec::new(),
            bits: Vec::new(),
            packed: Vec::new(),
            planes: Vec::new(),
            words: Vec::new(),
            slots: Vec::new(),
            places: Places::default(),
            thorough: false,
        })
    }

    pub(crate) fn thorough(self, thorough: bool) -> Self {
        Self { thorough, ..self }
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
    /// The columns that this one is derived from, by id; 0 for none.
    pub(crate) sources: [u8; 2],
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
        match self.transform {
            TRANSFORM_FOLLOW => out.push(self.sources[0]),
            TRANSFORM_RECALL => out.extend(self.sources),
            _ => {}
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
            sources: [0; 2],
        };
        e.max = e.min;
        if e.transform != TRANSFORM_CONST {
            e.max = e.min.checked_add(r.varint()?).ok_or(Malformed("a column's maximum exceeds 64 bits"))?;
            e.len = u32::try_from(r.varint()?).map_err(|_| Malformed("a column is too long"))?;
            e.crc = r.u32()?;
        }
        match e.transform {
            TRANSFORM_FOLLOW => e.sources[0] = r.u8()?,
            TRANSFORM_RECALL => e.sources = [r.u8()?, r.u8()?],
            _ => {}
        }
        Ok(e)
    }

    /// The word of every row, if there is only one.
    pub(crate) fn constant(&self) -> Option<u64> {
        (self.transform == TRANSFORM_CONST).then(|| self.min.wrapping_sub(u64::from(self.nullable)))
    }

    /// Whether another column has to be decoded before this one.
    pub(crate) fn needs(&self, id: u8) -> bool {
        id != 0 && self.sources.contains(&id)
    }
}

/// What the other columns of the block lend to one.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    /// First row of each run of equal `cpu`.
    pub(crate) runs: &'a [u32],
    /// The words of the columns that this one is derived from.
    pub(crate) sources: [Option<&'a [u64]>; 2],
}

/// The columns that one of this shape may be derived from, by id; 0 for none.
pub(crate) fn sources(shape: Shape) -> [u8; 2] {
    match shape {
        Shape::Follows(id) => [id, 0],
        Shape::Recalls(a, b) => [a, b],
        _ => [0; 2],
    }
}

/// The words of a column on their way into a block.
#[derive(Clone, Copy)]
struct Words<'a> {
    words: &'a [u64],
    /// Added to each: 1 in a nullable column, where "not known" becomes 0, beside the values instead
    /// of far above them.
    shift: u64,
    min: u64,
    max: u64,
}

impl<'a> Words<'a> {
    fn stored(self) -> impl Iterator<Item = u64> + 'a {
        self.words.iter().map(move |w| w.wrapping_add(self.shift))
    }
}

/// Smallest and largest word of a column, as stored: one more than it is where nullable.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    shift: u64,
    /// Four of each: the comparisons of one do not wait for those of another.
    lo: [u64; 4],
    hi: [u64; 4],
}

impl Bounds {
    pub(crate) fn new(nullable: bool) -> Self {
        Self { shift: u64::from(nullable), lo: [u64::MAX; 4], hi: [0; 4] }
    }

    pub(crate) fn add(&mut self, words: &[u64]) {
        let Some(&first) = words.first() else { return };
        let varies = words.iter().fold(0, |all, w| all | (w ^ first)) != 0;
        let words = if varies { words } else { &[first] };
        let (mut lo, mut hi) = (self.lo, self.hi);
        let (fours, rest) = words.as_chunks::<4>();
        for four in fours {
            for i in 0..4 {
                let w = four[i].wrapping_add(self.shift);
                lo[i] = lo[i].min(w);
                hi[i] = hi[i].max(w);
            }
        }
        for w in rest {
            let w = w.wrapping_add(self.shift);
            lo[0] = lo[0].min(w);
            hi[0] = hi[0].max(w);
        }
        (self.lo, self.hi) = (lo, hi);
    }

    fn get(&self) -> (u64, u64) {
        (self.lo.into_iter().min().unwrap_or(0), self.hi.into_iter().max().unwrap_or(0))
    }
}

/// Appends the encoded words and returns their entry.
pub(crate) fn encode(
    codec: &mut Codec,
    column: &Column,
    words: &[u64],
    bounds: Bounds,
    at: Context,
    out: &mut Vec<u8>,
) -> Entry {
    let (min, max) = bounds.get();
    let start = out.len();
    let words = Words { words, shift: u64::from(column.nullable), min, max };
    let transform = if min < max { encode_varied(codec, column, words, at, out) } else { TRANSFORM_CONST };
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

fn encode_varied(codec: &mut Codec, column: &Column, words: Words, at: Context, out: &mut Vec<u8>) -> u8 {
    let mut forms = Forms::Planes;
    match column.shape {
        Shape::Runs => {
            write_runs(words, at.runs, out);
            return TRANSFORM_RUNS;
        }
        Shape::Rising => {
            if write_rise(codec, words, at.runs, out) {
                return TRANSFORM_RISE;
            }
            forms = Forms::Either;
        }
        Shape::Near => {
            write_step(codec, words, out);
            return TRANSFORM_STEP;
        }
        Shape::Follows(_) => {
            if let Some(leader) = at.sources[0]
                && write_follow(codec, words, leader, at.runs, out)
            {
                return TRANSFORM_FOLLOW;
            }
        }
        Shape::Recalls(_, second) => {
            if let Some(first) = at.sources[0]
                && (second == 0 || at.sources[1].is_some())
                && write_recall(codec, words, first, at.sources[1].unwrap_or_default(), out)
            {
                return TRANSFORM_RECALL;
            }
        }
        Shape::Few => {}
        Shape::Plain => forms = Forms::Either,
    }
    if forms == Forms::Planes && words.max - words.min > 0xff && write_dict(codec, words, out) {
        return TRANSFORM_DICT;
    }
    write_offset(codec, words, forms, out);
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
    // Words are decoded without the addition of a nullable column where that saves a pass.
    let shift = u64::from(entry.nullable);
    let min = entry.min.wrapping_sub(shift);
    match entry.transform {
        TRANSFORM_CONST => {
            out.clear();
            out.resize(rows, min);
        }
        TRANSFORM_OFFSET => {
            numbers::read(codec, &mut r, rows, out)?;
            if min != 0 {
                out.iter_mut().for_each(|w| *w = w.wrapping_add(min));
            }
        }
        TRANSFORM_RISE => read_rise(codec, &mut r, rows, min, at.runs, out)?,
        TRANSFORM_STEP => {
            numbers::read(codec, &mut r, rows, out)?;
            let mut last = min;
            for w in out.iter_mut() {
                last = last.wrapping_add(unzigzag(*w));
                *w = last;
            }
        }
        TRANSFORM_DICT => read_dict(codec, &mut r, rows, shift, out)?,
        TRANSFORM_FOLLOW => {
            let leader = at.sources[0].ok_or(MISSING)?;
            read_follow(codec, &mut r, rows, shift, leader, at.runs, out)?;
        }
        TRANSFORM_RECALL => {
            let first = at.sources[0].ok_or(MISSING)?;
            let second = match (entry.sources[1], at.sources[1]) {
                (0, _) => &[],
                (_, words) => words.ok_or(MISSING)?,
            };
            read_recall(codec, &mut r, rows, min, (first, second), out)?;
        }
        TRANSFORM_RUNS => {
            out.clear();
            while out.len() < rows {
                let value = min.wrapping_add(r.varint()?);
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
    Ok(())
}

const MISSING: Malformed = Malformed("a column that it is derived from is missing");

fn zigzag(step: u64) -> u64 {
    let step = step.cast_signed();
    ((step << 1) ^ (step >> 63)).cast_unsigned()
}

fn unzigzag(word: u64) -> u64 {
    (word >> 1) ^ (word & 1).wrapping_neg()
}

/// Whether `value` is the largest so far costs more than which bits occurred: both have one width.
fn bits_of(values: &[u64]) -> u64 {
    values.iter().fold(0, |all, v| all | v)
}

fn write_offset(codec: &mut Codec, words: Words, forms: Forms, out: &mut Vec<u8>) {
    let mut scratch = std::mem::take(&mut codec.words);
    scratch.clear();
    scratch.extend(words.stored().map(|w| w.wrapping_sub(words.min)));
    numbers::write(codec, &scratch, words.max - words.min, forms, out);
    codec.words = scratch;
}

fn write_step(codec: &mut Codec, words: Words, out: &mut Vec<u8>) {
    let mut scratch = std::mem::take(&mut codec.words);
    scratch.clear();
    let mut last = words.min;
    scratch.extend(words.stored().map(|w| zigzag(w.wrapping_sub(std::mem::replace(&mut last, w)))));
    numbers::write(codec, &scratch, bits_of(&scratch), Forms::Either, out);
    codec.words = scratch;
}

/// The rows of each run.
fn runs_within(runs: &[u32], rows: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    let ends = runs.iter().skip(1).map(|&s| s as usize).chain([rows]);
    runs.iter().map(|&s| s as usize).zip(ends).map(|(from, end)| from..end)
}

/// False where a value falls within a run, and nothing is written.
fn write_rise(codec: &mut Codec, words: Words, runs: &[u32], out: &mut Vec<u8>) -> bool {
    let mut scratch = std::mem::take(&mut codec.words);
    scratch.clear();
    let mut falls = false;
    for run in runs_within(runs, words.words.len()) {
        let mut last = words.min;
        scratch.extend(words.words.get(run).unwrap_or_default().iter().map(|w| {
            let w = w.wrapping_add(words.shift);
            falls |= w < last;
            w.wrapping_sub(std::mem::replace(&mut last, w))
        }));
    }
    let rises = !falls && scratch.len() == words.words.len();
    if rises {
        numbers::write(codec, &scratch, bits_of(&scratch), Forms::Either, out);
    }
    codec.words = scratch;
    rises
}

fn read_rise(codec: &mut Codec, r: &mut Reader, rows: usize, min: u64, runs: &[u32], out: &mut Vec<u64>) -> Result<()> {
    numbers::read(codec, r, rows, out)?;
    for run in runs_within(runs, rows) {
        let mut last = min;
        for w in out.get_mut(run).ok_or(Malformed("runs of CPUs do not fit"))? {
            last = last.wrapping_add(*w);
            *w = last;
        }
    }
    Ok(())
}

/// False where a dictionary would not help, and nothing is written.
fn write_dict(codec: &mut Codec, words: Words, out: &mut Vec<u8>) -> bool {
    let cap = (words.words.len() / 2).clamp(16, 1 << 16);
    let mut places = std::mem::take(&mut codec.places);
    let mut scratch = std::mem::take(&mut codec.words);
    scratch.clear();
    places.clear();
    // Numbered as they come, and by their order in the end.
    let mut last = (words.words.first().copied().unwrap_or(0), None);
    let mut fits = true;
    for &w in words.words {
        let place = match last {
            (value, Some(place)) if value == w => place,
            _ => places.of(w),
        };
        last = (w, Some(place));
        if place as usize >= cap {
            fits = false;
            break;
        }
        scratch.push(u64::from(place));
    }
    let distinct = places.values();
    // Ids that lie close together are their own dictionary.
    let fits = fits && numbers::width(distinct.len() as u64 - 1) < numbers::width(words.max - words.min);
    if fits {
        let mut sorted: Vec<(u64, usize)> =
            distinct.iter().enumerate().map(|(i, w)| (w.wrapping_add(words.shift), i)).collect();
        sorted.sort_unstable();
        put_len(out, sorted.len());
        let mut before = 0;
        let mut rank = vec![0u64; sorted.len()];
        for (place, &(value, came)) in (0u64..).zip(&sorted) {
            put_varint(out, value - before);
            before = value;
            if let Some(r) = rank.get_mut(came) {
                *r = place;
            }
        }
        scratch.iter_mut().for_each(|w| *w = usize::try_from(*w).ok().and_then(|i| rank.get(i)).copied().unwrap_or(0));
        numbers::write(codec, &scratch, sorted.len() as u64 - 1, Forms::Planes, out);
    }
    codec.words = scratch;
    codec.places = places;
    fits
}

fn read_dict(codec: &mut Codec, r: &mut Reader, rows: usize, shift: u64, out: &mut Vec<u64>) -> Result<()> {
    let len = r.count(rows)?;
    let mut values = Vec::with_capacity(len);
    let mut value = 0u64;
    for _ in 0..len {
        value = value.checked_add(r.varint()?).ok_or(Malformed("a dictionary exceeds 64 bits"))?;
        values.push(value.wrapping_sub(shift));
    }
    if values.is_empty() {
        return Err(Malformed("a dictionary is empty"));
    }
    numbers::read(codec, r, rows, out)?;
    let mut outside = false;
    for w in out.iter_mut() {
        let value = usize::try_from(*w).ok().and_then(|p| values.get(p));
        outside |= value.is_none();
        *w = value.copied().unwrap_or(0);
    }
    if outside { Err(Malformed("a code is outside of its dictionary")) } else { Ok(()) }
}

/// False where the prediction fails too often, and nothing is written.
fn write_follow(codec: &mut Codec, words: Words, leader: &[u64], runs: &[u32], out: &mut Vec<u8>) -> bool {
    let mut scratch = std::mem::take(&mut codec.words);
    scratch.clear();
    let mut places = Vec::new();
    for run in runs_within(runs, words.words.len()) {
        let start = run.start;
        let own = words.words.get(run.clone()).unwrap_or_default();
        let led = leader.get(run).unwrap_or_default();
        let Some((first, rest)) = own.split_first() else { continue };
        places.push(start);
        scratch.push(first.wrapping_add(words.shift));
        for (i, (w, predicted)) in rest.iter().zip(led).enumerate() {
            if w != predicted {
                places.push(start + 1 + i);
                scratch.push(w.wrapping_add(words.shift));
            }
        }
    }
    let fits = places.len() * 4 <= words.words.len() * 3;
    if fits {
        put_len(out, places.len());
        let mut before = 0;
        for &place in &places {
            put_len(out, place - before);
            before = place;
        }
        numbers::write(codec, &scratch, bits_of(&scratch), Forms::Planes, out);
    }
    codec.words = scratch;
    fits
}

fn read_follow(
    codec: &mut Codec,
    r: &mut Reader,
    rows: usize,
    shift: u64,
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
    numbers::read(codec, r, count, out)?;
    let exceptions = out.clone();
    out.clear();
    out.reserve(rows);
    out.push(0);
    out.extend_from_slice(leader.get(..rows.saturating_sub(1)).unwrap_or_default());
    if out.len() != rows || runs.is_empty() {
        return Err(Malformed("the column that it follows has another length"));
    }
    for (&place, value) in places.iter().zip(exceptions) {
        if let Some(w) = out.get_mut(place) {
            *w = value.wrapping_sub(shift);
        }
    }
    Ok(())
}

/// What a recalled column remembers. Both sides keep it alike, row by row.
struct Recall<'a> {
    slots: &'a mut [u64; RECALL_SLOTS],
    /// The latest word that was the first of its slot.
    defaults: [u64; RECALL_DEFAULTS],
    /// In a slot that no row had yet. Below the smallest word, so none that occurs.
    empty: u64,
}

impl<'a> Recall<'a> {
    /// `min` is the smallest word.
    fn new(slots: &'a mut Vec<u64>, min: u64) -> Result<Self> {
        let empty = min.wrapping_sub(1);
        slots.clear();
        slots.resize(RECALL_SLOTS, empty);
        let slots = slots.as_mut_slice().try_into().map_err(|_| MISSING)?;
        Ok(Self { slots, defaults: [min; RECALL_DEFAULTS], empty })
    }

    /// Makes one word of a guess by what the keys recall, and remembers it.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "only the low bits are meant")]
    fn row(&mut self, first: u64, second: u64, word: impl FnOnce(u64) -> u64) -> u64 {
        let held = &mut self.slots[first.wrapping_add(second.wrapping_mul(RECALL_STRIDE)) as usize % RECALL_SLOTS];
        if *held == self.empty {
            let default = &mut self.defaults[second as usize % RECALL_DEFAULTS];
            *default = word(*default);
            *held = *default;
        } else {
            *held = word(*held);
        }
        *held
    }
}

/// False where recalling fails too often, and nothing is written.
fn write_recall(codec: &mut Codec, words: Words, first: &[u64], second: &[u64], out: &mut Vec<u8>) -> bool {
    let rows = words.words.len();
    if words.max - words.min == u64::MAX || first.len() < rows || !second.is_empty() && second.len() < rows {
        return false;
    }
    let mut scratch = std::mem::take(&mut codec.words);
    let mut places = std::mem::take(&mut codec.places);
    scratch.clear();
    places.clear();
    let mut missed = 0usize;
    if let Ok(mut recall) = Recall::new(&mut codec.slots, words.min.wrapping_sub(words.shift)) {
        // Numbered as they come: few of them are new.
        let mut row = |w: u64, a: u64, b: u64| {
            let mut code = 0;
            recall.row(a, b, |guess| {
                if guess != w {
                    missed += 1;
                    code = 1 + u64::from(places.of(w));
                }
                w
            });
            code
        };
        let keyed = words.words.iter().zip(first);
        if second.is_empty() {
            scratch.extend(keyed.map(|(&w, &a)| row(w, a, 0)));
        } else {
            scratch.extend(keyed.zip(second).map(|((&w, &a), &b)| row(w, a, b)));
        }
    }
    let fits = missed * 2 <= rows && scratch.len() == rows;
    if fits {
        put_len(out, places.values().len());
        let mut before = 0;
        for &value in places.values() {
            put_varint(out, zigzag(value.wrapping_sub(before)));
            before = value;
        }
        numbers::write(codec, &scratch, places.values().len() as u64, Forms::Planes, out);
    }
    codec.words = scratch;
    codec.places = places;
    fits
}

fn read_recall(
    codec: &mut Codec,
    r: &mut Reader,
    rows: usize,
    min: u64,
    (first, second): (&[u64], &[u64]),
    out: &mut Vec<u64>,
) -> Result<()> {
    let len = r.count(rows)?;
    // A code of 0 takes the guess, the others a value.
    let mut values = Vec::with_capacity(len + 1);
    let mut value = 0u64;
    values.push(value);
    for _ in 0..len {
        value = value.wrapping_add(unzigzag(r.varint()?));
        values.push(value);
    }
    numbers::read(codec, r, rows, out)?;
    let mut recall = Recall::new(&mut codec.slots, min)?;
    let mut outside = false;
    let mut row = |w: &mut u64, a: u64, b: u64| {
        let code = *w;
        *w = recall.row(a, b, |guess| {
            if code == 0 {
                return guess;
            }
            let value = usize::try_from(code).ok().and_then(|c| values.get(c));
            outside |= value.is_none();
            value.copied().unwrap_or(guess)
        });
    };
    if second.is_empty() {
        out.iter_mut().zip(first).for_each(|(w, &a)| row(w, a, 0));
    } else {
        out.iter_mut().zip(first).zip(second).for_each(|((w, &a), &b)| row(w, a, b));
    }
    if outside { Err(Malformed("a code is outside of its dictionary")) } else { Ok(()) }
}

fn write_runs(words: Words, runs: &[u32], out: &mut Vec<u8>) {
    for run in runs_within(runs, words.words.len()) {
        put_varint(out, words.words.get(run.start).map_or(0, |w| w.wrapping_add(words.shift).wrapping_sub(words.min)));
        put_len(out, run.len());
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
        let at = Context { runs, sources: [leader, None] };
        let mut bytes = vec![];
        let mut bounds = Bounds::new(column.nullable);
        bounds.add(words);
        let entry = encode(&mut codec, column, words, bounds, at, &mut bytes);
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
