//! Scaled numbers: a byte each that tells the size of a number and its first digits, compressed, and the
//! digits behind them as they are.
//!
//! Times between events are best so: their size follows a law, their last digits follow none.

use super::bits::{BitReader, BitWriter};
use super::cell::Cell;
use super::codec::Codec;
use super::numbers::Numbers;
use super::planes::{self, Plane};
use super::words::fit;
use crate::bytes::{Malformed, Reader, Result};
use crate::layout::SCALED_MAX_SHIFT;

/// Digits (binary ones) that the size byte can take in for numbers up to `max`.
pub(super) fn digits(max: u64) -> Option<u8> {
    [3, 2].into_iter().find(|&digits| fits(max, digits))
}

/// Whether numbers up to `max` fit a size byte with so many digits, and what is behind it the bits of one step.
pub(super) fn fits(max: u64, digits: u8) -> bool {
    let shift = shift(max, digits);
    shift <= SCALED_MAX_SHIFT && (u64::from(shift) << digits) + (max >> shift) <= 0xff
}

#[inline(always)]
fn shift(value: u64, digits: u8) -> u32 {
    (63 - (value | 1).leading_zeros()).saturating_sub(u32::from(digits))
}

/// Appends the plane of the sizes and the digits behind them.
pub(super) fn write<T: Cell>(codec: &mut Codec, numbers: Numbers<T>, digits: u8, out: &mut Vec<u8>) {
    let (mut sizes, mut bits) = (codec.shelf.take_used(), codec.shelf.take_used());
    let len = scale(numbers, digits, &mut sizes, &mut bits);
    planes::write_plane(codec, &sizes, out);
    out.extend_from_slice(bits.get(..len).unwrap_or_default());
    codec.shelf.put(sizes);
    codec.shelf.put(bits);
}

/// Sizes and digits of all numbers; how many bytes the digits take.
fn scale<T: Cell>(numbers: Numbers<T>, digits: u8, sizes: &mut Vec<u8>, bits: &mut Vec<u8>) -> usize {
    let Numbers { cells, less, max } = numbers;
    fit(sizes, cells.len());
    let most = 64 - max.leading_zeros();
    let mut writer = BitWriter::new(bits, cells.len() * most as usize);
    let size_of = |value: u64, shift: u32| {
        #[expect(clippy::cast_possible_truncation, reason = "the digits were chosen so that it fits")]
        let size = ((shift << digits) as u8).wrapping_add((value >> shift) as u8);
        size
    };
    let below = |value: u64, shift: u32| value & ((1 << shift) - 1);
    let mut rest = 0;
    if 2 * shift(max, digits) <= SCALED_MAX_SHIFT {
        // Two at a time: each call waits for the one before.
        let (pairs, size_pairs) = (cells.as_chunks::<2>().0, sizes.as_chunks_mut::<2>().0);
        rest = 2 * pairs.len();
        for (sizes, pair) in size_pairs.iter_mut().zip(pairs) {
            let [a, b] = pair.map(|c| c.minus(less).wide());
            let (s, t) = (shift(a, digits), shift(b, digits));
            *sizes = [size_of(a, s), size_of(b, t)];
            writer.put(below(a, s) | below(b, t) << s, s + t);
        }
    }
    for (size, cell) in sizes.iter_mut().zip(cells).skip(rest) {
        let value = cell.minus(less).wide();
        let shift = shift(value, digits);
        *size = size_of(value, shift);
        writer.put(below(value, shift), shift);
    }
    writer.finish()
}

/// What a size byte stands for.
#[derive(Clone, Copy)]
struct Sizes<T> {
    bases: [T; 256],
    shifts: [u8; 256],
}

/// Marks a size that no number has.
const IMPOSSIBLE: u8 = 0x80;

impl<T: Cell> Sizes<T> {
    fn new(digits: u8) -> Self {
        let mut sizes = Self { bases: [T::default(); 256], shifts: [IMPOSSIBLE; 256] };
        for (byte, (base, shift)) in (0u64..).zip(sizes.bases.iter_mut().zip(&mut sizes.shifts)) {
            let by = (byte >> digits).saturating_sub(1);
            if by <= u64::from(SCALED_MAX_SHIFT) {
                *base = T::cut((byte - (by << digits)) << by);
                *shift = by.to_le_bytes()[0];
            }
        }
        sizes
    }
}

/// Reads `rows` numbers into `out`, replacing what it held.
pub(super) fn read<T: Cell>(
    codec: &mut Codec,
    r: &mut Reader,
    rows: usize,
    digits: u8,
    out: &mut Vec<T>,
) -> Result<()> {
    let mut scratch = codec.shelf.take_used();
    let plane = planes::read_plane(codec, r, rows, &mut scratch)?;
    let sizes = match plane {
        Plane::Const(byte) => {
            scratch.clear();
            scratch.resize(rows, byte);
            scratch.as_slice()
        }
        Plane::Raw(bytes) => bytes,
        Plane::Scratch => scratch.as_slice(),
    };
    let mut reader = BitReader::new(r.rest());
    fit(out, rows);
    let seen = unscale(&Sizes::new(digits), sizes, &mut reader, out);
    if seen & IMPOSSIBLE != 0 {
        return Err(Malformed("a scaled number is too large"));
    }
    r.bytes(reader.bytes_begun())?;
    codec.shelf.put(scratch);
    Ok(())
}

/// The numbers of these sizes; all bits of their shifts.
fn unscale<T: Cell>(table: &Sizes<T>, sizes: &[u8], reader: &mut BitReader, out: &mut [T]) -> u8 {
    let mut seen = 0;
    let (pairs, rest) = out.as_chunks_mut::<2>();
    let (size_pairs, rest_sizes) = sizes.as_chunks::<2>();
    for (cells, sizes) in pairs.iter_mut().zip(size_pairs) {
        let [a, b] = sizes.map(usize::from);
        let (s, t) = (table.shifts[a], table.shifts[b]);
        seen |= s | t;
        let (s, t) = (u32::from(s & 63), u32::from(t & 63));
        if s + t > 56 {
            *cells = [(a, s), (b, t)].map(|(size, shift)| table.bases[size].or(T::cut(reader.take(shift))));
            continue;
        }
        // Both from one word.
        let digits = reader.peek();
        reader.pass(s + t);
        let [x, y] = [(digits, s), (digits >> s, t)].map(|(digits, shift)| T::cut(digits & ((1 << shift) - 1)));
        *cells = [table.bases[a].or(x), table.bases[b].or(y)];
    }
    for (cell, &size) in rest.iter_mut().zip(rest_sizes) {
        let (base, shift) = (table.bases[usize::from(size)], table.shifts[usize::from(size)]);
        seen |= shift;
        *cell = base.or(T::cut(reader.take(u32::from(shift & 63))));
    }
    seen
}
