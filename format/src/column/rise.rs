//! Distances from the row before: never negative within a CPU's rows, or of either sign.

use super::cell::Cell;
use super::codec::Codec;
use super::numbers::{self, Forms, Numbers, bits_of};
use super::runs_within;
use crate::bytes::{Malformed, Reader, Result, unzigzag, zigzag};

/// False where a word falls within a run, and nothing is written.
pub(super) fn write<T: Cell>(codec: &mut Codec, cells: &[T], min: T, runs: &[u32], out: &mut Vec<u8>) -> bool {
    let mut steps = codec.shelf.take::<T>();
    let mut falls = false;
    for run in runs_within(runs, cells.len()) {
        let mut last = min;
        steps.extend(cells.get(run).unwrap_or_default().iter().map(|&c| {
            falls |= c < last;
            c.minus(std::mem::replace(&mut last, c))
        }));
    }
    let rises = !falls && steps.len() == cells.len();
    if rises {
        write_steps(codec, &steps, out);
    }
    codec.shelf.put(steps);
    rises
}

/// Appends distances that are known already.
pub(super) fn write_steps<T: Cell>(codec: &mut Codec, steps: &[T], out: &mut Vec<u8>) {
    numbers::write(codec, Numbers::plain(steps, bits_of(steps)), Forms::Either, out);
}

/// Reads the words, each counted from the smallest.
pub(super) fn read<T: Cell>(
    codec: &mut Codec,
    r: &mut Reader,
    rows: usize,
    runs: &[u32],
    out: &mut Vec<T>,
) -> Result<()> {
    numbers::read(codec, r, rows, out)?;
    for run in runs_within(runs, rows) {
        add_up(out.get_mut(run).ok_or(Malformed("runs of CPUs do not fit"))?);
    }
    Ok(())
}

fn add_up<T: Cell>(cells: &mut [T]) {
    let mut sum = T::default();
    let (fours, rest) = cells.as_chunks_mut::<4>();
    for [a, b, c, d] in fours {
        // Only one addition of four waits for the sum before.
        let (ab, cd) = (a.plus(*b), c.plus(*d));
        let abc = ab.plus(*c);
        *a = sum.plus(*a);
        *b = sum.plus(ab);
        *c = sum.plus(abc);
        sum = sum.plus(ab.plus(cd));
        *d = sum;
    }
    for cell in rest {
        sum = sum.plus(*cell);
        *cell = sum;
    }
}

/// Appends the zigzags of the distances.
pub(super) fn write_both_ways<T: Cell>(codec: &mut Codec, cells: &[T], min: T, out: &mut Vec<u8>) {
    let mut steps = codec.shelf.take::<T::Wide>();
    let mut last = min;
    steps.extend(cells.iter().map(|&c| {
        let last = std::mem::replace(&mut last, c);
        T::Wide::cut(zigzag(c.wide().wrapping_sub(last.wide()).cast_signed()))
    }));
    numbers::write(codec, Numbers::plain(&steps, bits_of(&steps)), Forms::Either, out);
    codec.shelf.put(steps);
}

/// Reads the words, each counted from the smallest.
pub(super) fn read_both_ways<T: Cell>(codec: &mut Codec, r: &mut Reader, rows: usize, out: &mut Vec<T>) -> Result<()> {
    let mut steps = codec.shelf.take::<T::Wide>();
    numbers::read(codec, r, rows, &mut steps)?;
    let mut last = T::default();
    out.clear();
    out.extend(steps.iter().map(|s| {
        last = last.plus(T::cut(unzigzag(s.wide()).cast_unsigned()));
        last
    }));
    codec.shelf.put(steps);
    Ok(())
}
