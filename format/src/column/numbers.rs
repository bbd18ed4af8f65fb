//! Numbers as bytes, in the form that suits them: by byte planes, scaled, or by pcodec.

use super::cell::Cell;
use super::codec::Codec;
use super::{planes, scaled};
#[cfg(feature = "pco")]
use crate::bytes::put_len;
use crate::bytes::{Malformed, Reader, Result};
use crate::layout::{FORM_PCO, FORM_SCALED, SCALED_MAX_DIGITS};

/// Numbers on which two forms are compared, where there are more.
pub(super) const SAMPLE: usize = 1024;
/// Fewer numbers are not worth the comparison.
const SCALED_FROM: usize = 64;
/// Level at which pcodec is tried.
#[cfg(feature = "pco")]
const PCO_LEVEL: usize = 8;

/// Which forms the writer tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Forms {
    /// Codes and identifiers: their bytes have no order of size.
    Planes,
    /// Sizes and distances: whichever form is smaller on a sample.
    Either,
}

/// Numbers on their way into a block.
#[derive(Clone, Copy)]
pub(super) struct Numbers<'a, T> {
    pub(super) cells: &'a [T],
    /// Taken from each.
    pub(super) less: T,
    /// No number is above this.
    pub(super) max: u64,
}

impl<'a, T: Cell> Numbers<'a, T> {
    /// Numbers as they are.
    pub(super) fn plain(cells: &'a [T], max: u64) -> Self {
        Self { cells, less: T::default(), max }
    }

    fn part(self, from: usize, to: usize) -> Self {
        Self { cells: self.cells.get(from..to).unwrap_or(self.cells), ..self }
    }
}

/// Bytes that hold every value up to `max`: 0 for 0.
pub(super) fn width(max: u64) -> u8 {
    let bits = 64 - max.leading_zeros();
    #[expect(clippy::cast_possible_truncation, reason = "at most 8")]
    let width = bits.div_ceil(8) as u8;
    width
}

/// A number of the same width as the largest.
pub(super) fn bits_of<T: Cell>(cells: &[T]) -> u64 {
    cells.iter().fold(T::default(), |all, &c| all.or(c)).wide()
}

/// Appends the form and the numbers.
pub(super) fn write<T: Cell>(codec: &mut Codec, numbers: Numbers<T>, forms: Forms, out: &mut Vec<u8>) {
    let (rows, max) = (numbers.cells.len(), numbers.max);
    if codec.thorough && rows >= SCALED_FROM {
        write_smallest(codec, numbers, forms, out);
        return;
    }
    if forms == Forms::Either
        && width(max) > 1
        && rows >= SCALED_FROM
        && let Some(digits) = scaled::digits(max)
        && scaled_is_smaller(codec, numbers, digits, out)
    {
        out.push(FORM_SCALED + digits);
        scaled::write(codec, numbers, digits, out);
        return;
    }
    out.push(width(max));
    planes::write(codec, numbers, out);
}

/// Writes in every form that there is and keeps the smallest.
fn write_smallest<T: Cell>(codec: &mut Codec, numbers: Numbers<T>, forms: Forms, out: &mut Vec<u8>) {
    let start = out.len();
    out.push(width(numbers.max));
    planes::write(codec, numbers, out);
    if forms == Forms::Planes {
        return;
    }
    let keep_smaller = |out: &mut Vec<u8>, write: &mut dyn FnMut(&mut Vec<u8>)| {
        let mut other = Vec::new();
        write(&mut other);
        if !other.is_empty() && other.len() < out.len() - start {
            out.truncate(start);
            out.extend_from_slice(&other);
        }
    };
    let most = scaled::digits(numbers.max).unwrap_or(0);
    // The fewer digits, the more bits are behind them: of the largest numbers too many.
    for digits in (1..=most).filter(|&digits| scaled::fits(numbers.max, digits)) {
        keep_smaller(out, &mut |other| {
            other.push(FORM_SCALED + digits);
            scaled::write(codec, numbers, digits, other);
        });
    }
    #[cfg(feature = "pco")]
    keep_smaller(out, &mut |other| {
        let config = pco::ChunkConfig::default().with_compression_level(PCO_LEVEL);
        let wide: Vec<u64> = numbers.cells.iter().map(|c| c.minus(numbers.less).wide()).collect();
        if let Ok(bytes) = pco::standalone::simple_compress(&wide, &config) {
            other.push(FORM_PCO);
            put_len(other, bytes.len());
            other.extend_from_slice(&bytes);
        }
    });
}

/// Compares the forms on a part of the numbers; `out` is used as scratch space and left as it was.
fn scaled_is_smaller<T: Cell>(codec: &mut Codec, numbers: Numbers<T>, digits: u8, out: &mut Vec<u8>) -> bool {
    let (start, rows) = (out.len(), numbers.cells.len());
    let from = (rows / 2).saturating_sub(SAMPLE / 2);
    let sample = numbers.part(from, rows.min(from + SAMPLE));
    scaled::write(codec, sample, digits, out);
    let scaled = out.len() - start;
    out.truncate(start);
    planes::write(codec, sample, out);
    let planes = out.len() - start;
    out.truncate(start);
    scaled < planes
}

/// Reads `rows` numbers into `out`, replacing what it held.
pub(super) fn read<T: Cell>(codec: &mut Codec, r: &mut Reader, rows: usize, out: &mut Vec<T>) -> Result<()> {
    let form = r.u8()?;
    match form {
        0..=8 => planes::read(codec, r, rows, form, out),
        FORM_PCO => read_pco(r, rows, out),
        _ => match form.checked_sub(FORM_SCALED).filter(|d| (1..=SCALED_MAX_DIGITS).contains(d)) {
            Some(digits) => scaled::read(codec, r, rows, digits, out),
            None => Err(Malformed("numbers have an unknown form")),
        },
    }
}

#[cfg(feature = "pco")]
fn read_pco<T: Cell>(r: &mut Reader, rows: usize, out: &mut Vec<T>) -> Result<()> {
    let len = r.count(crate::layout::MAX_PAYLOAD)?;
    let bytes = r.bytes(len)?;
    let mut wide = vec![0u64; rows];
    let progress = pco::standalone::simple_decompress_into(bytes, &mut wide)
        .map_err(|_| Malformed("pcodec numbers are broken"))?;
    if progress.n_processed != rows || !progress.finished {
        return Err(Malformed("there are more or fewer pcodec numbers than rows"));
    }
    if bits_of(&wide) > T::TOP.wide() {
        return Err(TOO_LARGE);
    }
    out.clear();
    out.extend(wide.into_iter().map(T::cut));
    Ok(())
}

#[cfg(not(feature = "pco"))]
fn read_pco<T: Cell>(_: &mut Reader, _: usize, _: &mut Vec<T>) -> Result<()> {
    Err(Malformed("this build lacks the feature pco, which reads recompressed numbers"))
}

/// Numbers that the column's range excludes.
pub(super) const TOO_LARGE: Malformed = Malformed("a number is larger than its column allows");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_hold_their_values() {
        assert_eq!([0, 1, 255, 256, 65_535, 65_536, u64::MAX].map(width), [0, 1, 1, 2, 2, 3, 8]);
    }

    fn round_trip(values: &[u64], bytes: &[u8], codec: &mut Codec) {
        let mut back = vec![1, 2, 3];
        let mut r = Reader::new(bytes);
        read(codec, &mut r, values.len(), &mut back).unwrap();
        assert!(r.is_empty());
        assert_eq!(back, values);
    }

    #[test]
    fn planes_round_trip() {
        let mut codec = Codec::new(1).unwrap();
        for n in [0usize, 1, 31, 32, 5000] {
            for step in [1u64, 7919, 0x1_0001, 0x0123_4567_89ab] {
                let values: Vec<u64> = (0..n as u64).map(|i| i.wrapping_mul(i * step) % (100_003 * step)).collect();
                for forms in [Forms::Planes, Forms::Either] {
                    let mut bytes = vec![];
                    let max = values.iter().copied().max().unwrap_or(0);
                    write(&mut codec, Numbers::plain(&values, max), forms, &mut bytes);
                    round_trip(&values, &bytes, &mut codec);
                }
            }
        }
    }

    /// Bytes of another's format, whose reader must stand whatever they are.
    #[cfg(feature = "pco")]
    #[test]
    fn broken_pcodec_numbers_are_refused() {
        let mut codec = Codec::new(1).unwrap();
        let values: Vec<u64> = (0..3000u64).map(|i| i * i % 7919 + (i << 40)).collect();
        let bytes = pco::standalone::simple_compress(&values, &pco::ChunkConfig::default()).unwrap();
        let file = |bytes: &[u8]| {
            let mut out = vec![FORM_PCO];
            put_len(&mut out, bytes.len());
            out.extend_from_slice(bytes);
            out
        };
        round_trip(&values, &file(&bytes), &mut codec);
        let mut back = Vec::<u64>::new();
        for rows in [0, 1, 2999, 3001] {
            assert!(read(&mut codec, &mut Reader::new(&file(&bytes)), rows, &mut back).is_err());
        }
        for i in 0..20_000usize {
            let mut bad = bytes.clone();
            let at = i.wrapping_mul(2_654_435_761) % if i % 2 == 0 { 60 } else { bad.len() };
            bad[at] ^= u8::try_from(1 + i % 255).unwrap();
            bad.truncate(bad.len() - i % 5);
            let _ = read(&mut codec, &mut Reader::new(&file(&bad)), values.len(), &mut back);
        }
    }

    #[test]
    fn scaled_numbers_round_trip_at_every_size() {
        let mut codec = Codec::new(1).unwrap();
        let mut values: Vec<u64> = (0..56).flat_map(|b| [1u64 << b, (1 << b) - 1, (1 << b) + (1 << b) / 3]).collect();
        values.extend([0; 9]);
        for top in [57, 34, 20] {
            values.retain(|v| *v < 1 << top);
            let max = values.iter().copied().max().unwrap();
            let digits = scaled::digits(max).unwrap();
            let mut bytes = vec![FORM_SCALED + digits];
            scaled::write(&mut codec, Numbers::plain(&values, max), digits, &mut bytes);
            round_trip(&values, &bytes, &mut codec);
            for cut in 0..bytes.len() {
                assert!(
                    read(&mut codec, &mut Reader::new(&bytes[..cut]), values.len(), &mut Vec::<u64>::new()).is_err()
                );
            }
        }
        assert_eq!(scaled::digits(u64::MAX), None);
    }
}
