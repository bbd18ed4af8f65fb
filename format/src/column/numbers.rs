//! Numbers as bytes: by byte planes, or scaled.
//!
//! *Planes*: the lowest bytes of all numbers together, then the second lowest, and so on. Upper planes
//! are mostly constant, lower ones mostly noise. *Scaled*: a byte that tells the size of a number and its
//! first digits, compressed, and the digits behind them as they are. Times between events are best so:
//! their size follows a law, their last digits follow none.

use super::Codec;
use super::bits::{BitReader, BitWriter};
use super::packed;
use crate::bytes::{Malformed, Reader, Result, put_len};
use crate::layout::{
    FORM_PCO, FORM_SCALED, PACKED_MAX_BASE, PLANE_CONST, PLANE_PACKED, PLANE_RAW, PLANE_ZSTD, SCALED_MAX_DIGITS,
    SCALED_MAX_SHIFT,
};

/// Below this many bytes a zstd frame costs more than it saves.
const ZSTD_FROM: usize = 32;
/// Numbers on which the two forms are compared, where there are more.
const SAMPLE: usize = 2048;
/// Fewer numbers are not worth the comparison.
const SCALED_FROM: usize = 64;
/// Level at which pcodec is tried.
#[cfg(feature = "pco")]
const PCO_LEVEL: usize = 8;
/// Fewer bytes are not packed.
const PACKED_FROM: usize = 64;

/// Which forms the writer tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Forms {
    /// Codes and identifiers: their bytes have no order of size.
    Planes,
    /// Sizes and distances: whichever form is smaller on a sample.
    Either,
}

/// Bytes that hold every value up to `max`: 0 for 0.
pub(super) fn width(max: u64) -> u8 {
    let bits = 64 - max.leading_zeros();
    #[expect(clippy::cast_possible_truncation, reason = "at most 8")]
    let width = bits.div_ceil(8) as u8;
    width
}

/// Appends the form and the numbers, none above `max`.
pub(super) fn write(codec: &mut Codec, values: &[u64], max: u64, forms: Forms, out: &mut Vec<u8>) {
    let width = width(max);
    if codec.thorough && values.len() >= SCALED_FROM {
        write_smallest(codec, values, max, forms, out);
        return;
    }
    if forms == Forms::Either
        && width > 1
        && values.len() >= SCALED_FROM
        && let Some(digits) = scaled_digits(max)
        && scaled_is_smaller(codec, values, width, digits, out)
    {
        out.push(FORM_SCALED + digits);
        write_scaled(codec, values, digits, out);
        return;
    }
    out.push(width);
    write_planes(codec, values, width, out);
}

/// Writes in every form that there is and keeps the smallest.
fn write_smallest(codec: &mut Codec, values: &[u64], max: u64, forms: Forms, out: &mut Vec<u8>) {
    let start = out.len();
    out.push(width(max));
    write_planes(codec, values, width(max), out);
    if forms == Forms::Planes {
        return;
    }
    let keep_smaller = |out: &mut Vec<u8>, write: &mut dyn FnMut(&mut Vec<u8>)| {
        let mut other = Vec::new();
        write(&mut other);
        if other.len() < out.len() - start {
            out.truncate(start);
            out.extend_from_slice(&other);
        }
    };
    let most = scaled_digits(max).unwrap_or(0);
    for digits in 1..=most {
        keep_smaller(out, &mut |other| {
            other.push(FORM_SCALED + digits);
            write_scaled(codec, values, digits, other);
        });
    }
    #[cfg(feature = "pco")]
    keep_smaller(out, &mut |other| {
        let config = pco::ChunkConfig::default().with_compression_level(PCO_LEVEL);
        if let Ok(bytes) = pco::standalone::simple_compress(values, &config) {
            other.push(FORM_PCO);
            put_len(other, bytes.len());
            other.extend_from_slice(&bytes);
        } else {
            other.resize(usize::from(u16::MAX) + values.len() * 9, 0);
        }
    });
}

#[cfg(feature = "pco")]
fn read_pco(r: &mut Reader, rows: usize, out: &mut Vec<u64>) -> Result<()> {
    let len = r.count(crate::layout::MAX_PAYLOAD)?;
    let bytes = r.bytes(len)?;
    out.clear();
    out.resize(rows, 0);
    let progress =
        pco::standalone::simple_decompress_into(bytes, out).map_err(|_| Malformed("pcodec numbers are broken"))?;
    if progress.n_processed == rows && progress.finished {
        Ok(())
    } else {
        Err(Malformed("there are more or fewer pcodec numbers than rows"))
    }
}

#[cfg(not(feature = "pco"))]
fn read_pco(_: &mut Reader, _: usize, _: &mut Vec<u64>) -> Result<()> {
    Err(Malformed("this build lacks the feature pco, which reads recompressed numbers"))
}

/// Digits (binary ones) that the size byte can take in for numbers up to `max`.
fn scaled_digits(max: u64) -> Option<u8> {
    [3, 2].into_iter().find(|&digits| {
        let shift = shift(max, digits);
        shift <= SCALED_MAX_SHIFT && (u64::from(shift) << digits) + (max >> shift) <= 0xff
    })
}

fn shift(value: u64, digits: u8) -> u32 {
    (63 - (value | 1).leading_zeros()).saturating_sub(u32::from(digits))
}

/// Compares the forms on a part of the values; `out` is used as scratch space and left as it was.
fn scaled_is_smaller(codec: &mut Codec, values: &[u64], width: u8, digits: u8, out: &mut Vec<u8>) -> bool {
    let start = out.len();
    let from = (values.len() / 2).saturating_sub(SAMPLE / 2);
    let sample = values.get(from..values.len().min(from + SAMPLE)).unwrap_or(values);
    write_scaled(codec, sample, digits, out);
    let scaled = out.len() - start;
    out.truncate(start);
    write_planes(codec, sample, width, out);
    let planes = out.len() - start;
    out.truncate(start);
    scaled < planes
}

fn write_scaled(codec: &mut Codec, values: &[u64], digits: u8, out: &mut Vec<u8>) {
    let mut sizes = std::mem::take(&mut codec.plane);
    let mut bits = std::mem::take(&mut codec.bits);
    sizes.clear();
    sizes.resize(values.len(), 0);
    let most = 64 - values.iter().fold(0, |all, v| all | v).leading_zeros();
    let mut writer = BitWriter::new(&mut bits, values.len() * most as usize);
    for (size, &value) in sizes.iter_mut().zip(values) {
        let shift = shift(value, digits);
        #[expect(clippy::cast_possible_truncation, reason = "the digits were chosen so that it fits")]
        let byte = ((shift << digits) as u8).wrapping_add((value >> shift) as u8);
        *size = byte;
        writer.put(value & ((1 << shift) - 1), shift);
    }
    let len = writer.finish();
    write_plane(codec, &sizes, out);
    out.extend_from_slice(bits.get(..len).unwrap_or_default());
    codec.plane = sizes;
    codec.bits = bits;
}

fn write_planes(codec: &mut Codec, values: &[u64], width: u8, out: &mut Vec<u8>) {
    let mut plane = std::mem::take(&mut codec.plane);
    for at in 0..u32::from(width) {
        plane.clear();
        #[expect(clippy::cast_possible_truncation, reason = "one byte is meant")]
        plane.extend(values.iter().map(|v| (v >> (8 * at)) as u8));
        write_plane(codec, &plane, out);
    }
    codec.plane = plane;
}

fn write_plane(codec: &mut Codec, plane: &[u8], out: &mut Vec<u8>) {
    let first = plane.first().copied().unwrap_or(0);
    if plane.iter().fold(0, |all, b| all | (b ^ first)) == 0 {
        out.extend([PLANE_CONST, first]);
        return;
    }
    // A fold, as `max` is not made into vector instructions.
    let base = plane.iter().fold(0u8, |top, &b| top.max(b)).saturating_add(1);
    if base <= PACKED_MAX_BASE && plane.len() >= PACKED_FROM {
        let mut packed = std::mem::take(&mut codec.packed);
        packed::pack(plane, base, &mut packed);
        // Without packing a row costs a bit at least, with it repetition may be harder to see.
        let sample = plane.len().min(2 * SAMPLE);
        let whole = compressed_len(codec, plane.get(..sample).unwrap_or(plane));
        let part = packed.get(..sample.div_ceil(packed::rows_of(base))).unwrap_or(&packed);
        let smaller = compressed_len(codec, part) < whole;
        if smaller {
            write_bytes(codec, &packed, Some(base), out);
        }
        codec.packed = packed;
        if smaller {
            return;
        }
    }
    write_bytes(codec, plane, None, out);
}

fn compressed_len(codec: &mut Codec, bytes: &[u8]) -> usize {
    codec.compress(bytes).map_or(bytes.len(), |frame| frame.len().min(bytes.len()))
}

/// Mode, base if packed, and the bytes.
fn write_bytes(codec: &mut Codec, bytes: &[u8], base: Option<u8>, out: &mut Vec<u8>) {
    let flag = if base.is_some() { PLANE_PACKED } else { 0 };
    if bytes.len() >= ZSTD_FROM
        && let Some(frame) = codec.compress(bytes)
        && frame.len() + 4 < bytes.len()
    {
        out.push(PLANE_ZSTD | flag);
        out.extend(base);
        put_len(out, frame.len());
        out.extend_from_slice(frame);
        return;
    }
    out.push(PLANE_RAW | flag);
    out.extend(base);
    out.extend_from_slice(bytes);
}

/// Reads `rows` numbers into `out`, replacing what it held.
pub(super) fn read(codec: &mut Codec, r: &mut Reader, rows: usize, out: &mut Vec<u64>) -> Result<()> {
    let form = r.u8()?;
    match form {
        0..=8 => read_planes(codec, r, rows, form, out),
        FORM_PCO => read_pco(r, rows, out),
        _ => match form.checked_sub(FORM_SCALED).filter(|d| (1..=SCALED_MAX_DIGITS).contains(d)) {
            Some(digits) => read_scaled(codec, r, rows, digits, out),
            None => Err(Malformed("numbers have an unknown form")),
        },
    }
}

/// What a size byte stands for.
#[derive(Clone, Copy, Default)]
struct Size {
    base: u64,
    shift: u32,
}

fn read_scaled(codec: &mut Codec, r: &mut Reader, rows: usize, digits: u8, out: &mut Vec<u64>) -> Result<()> {
    let mut table = [Size::default(); 256];
    for (byte, size) in (0u64..).zip(&mut table) {
        let shift = (byte >> digits).saturating_sub(1);
        if shift <= u64::from(SCALED_MAX_SHIFT) {
            #[expect(clippy::cast_possible_truncation, reason = "checked")]
            let shift = shift as u32;
            *size = Size { base: (byte - (u64::from(shift) << digits)) << shift, shift };
        } else {
            *size = Size { base: 0, shift: u32::MAX };
        }
    }
    let mut scratch = std::mem::take(&mut codec.planes);
    scratch.resize_with(8, Vec::new);
    let plane = read_plane(codec, r, rows, &mut scratch[0])?;
    let constant;
    let sizes = match &plane {
        Plane::Const(byte) => {
            constant = vec![*byte; rows];
            constant.as_slice()
        }
        Plane::Raw(bytes) => bytes,
        Plane::Scratch => scratch[0].as_slice(),
    };
    let mut counts = [0u32; 256];
    for &byte in sizes {
        counts[usize::from(byte)] += 1;
    }
    let mut bits = 0u64;
    for (count, size) in counts.iter().zip(&table).filter(|(c, _)| **c > 0) {
        if size.shift > SCALED_MAX_SHIFT {
            return Err(Malformed("a scaled number is too large"));
        }
        bits += u64::from(*count) * u64::from(size.shift);
    }
    let len = usize::try_from(bits.div_ceil(8)).map_err(|_| Malformed("it ends too early"))?;
    let mut reader = BitReader::new(r.bytes(len)?);
    out.clear();
    out.extend(sizes.iter().map(|&byte| {
        let size = table[usize::from(byte)];
        size.base | reader.take(size.shift)
    }));
    codec.planes = scratch;
    Ok(())
}

/// One byte plane, as it was found.
enum Plane<'a> {
    Const(u8),
    Raw(&'a [u8]),
    /// In the scratch space.
    Scratch,
}

fn read_plane<'a>(codec: &mut Codec, r: &mut Reader<'a>, rows: usize, scratch: &mut Vec<u8>) -> Result<Plane<'a>> {
    let mode = r.u8()?;
    if mode == PLANE_CONST {
        return Ok(Plane::Const(r.u8()?));
    }
    if mode & PLANE_PACKED == 0 {
        return read_bytes(codec, r, mode, rows, scratch);
    }
    let base = r.u8()?;
    if !(2..=PACKED_MAX_BASE).contains(&base) {
        return Err(Malformed("a packed plane has an impossible number of values"));
    }
    let mut bytes = std::mem::take(&mut codec.packed);
    let len = rows.div_ceil(packed::rows_of(base));
    let packed = match read_bytes(codec, r, mode & !PLANE_PACKED, len, &mut bytes) {
        Ok(Plane::Raw(raw)) => Ok(raw),
        Ok(_) => Ok(bytes.as_slice()),
        Err(e) => Err(e),
    };
    let unpacked = packed.map(|packed| packed::unpack(packed, base, rows, scratch));
    codec.packed = bytes;
    unpacked.map(|()| Plane::Scratch)
}

fn read_bytes<'a>(
    codec: &mut Codec,
    r: &mut Reader<'a>,
    mode: u8,
    len: usize,
    scratch: &mut Vec<u8>,
) -> Result<Plane<'a>> {
    match mode {
        PLANE_RAW => Ok(Plane::Raw(r.bytes(len)?)),
        PLANE_ZSTD => {
            let packed = r.count(len)?;
            codec.decompress(r.bytes(packed)?, len, scratch)?;
            Ok(Plane::Scratch)
        }
        _ => Err(Malformed("a byte plane has an unknown mode")),
    }
}

fn read_planes(codec: &mut Codec, r: &mut Reader, rows: usize, width: u8, out: &mut Vec<u64>) -> Result<()> {
    let mut constant = 0u64;
    let mut planes: [Option<(u32, Plane)>; 8] = [const { None }; 8];
    let mut count = 0;
    let mut scratch = std::mem::take(&mut codec.planes);
    scratch.resize_with(8, Vec::new);
    for at in 0..width {
        let shift = 8 * u32::from(at);
        match read_plane(codec, r, rows, &mut scratch[count])? {
            Plane::Const(byte) => constant |= u64::from(byte) << shift,
            plane => {
                planes[count] = Some((shift, plane));
                count += 1;
            }
        }
    }
    let mut varying: [(u32, &[u8]); 8] = [(0, &[]); 8];
    for (i, (slot, plane)) in varying.iter_mut().zip(planes.iter().flatten()).enumerate() {
        *slot = match plane {
            (shift, Plane::Raw(bytes)) => (*shift, bytes),
            (shift, _) => (*shift, scratch[i].as_slice()),
        };
    }
    // One pass each for what occurs most: writing the numbers is what takes time here.
    out.clear();
    let put = |byte: &u8, shift: u32| u64::from(*byte) << shift;
    match varying.get(..count).unwrap_or_default() {
        [] => out.resize(rows, constant),
        [(s, a)] => out.extend(a.iter().map(|a| constant | put(a, *s))),
        [(s, a), (t, b)] => out.extend(a.iter().zip(*b).map(|(a, b)| constant | put(a, *s) | put(b, *t))),
        [(s, a), (t, b), (u, c)] => {
            out.extend(a.iter().zip(*b).zip(*c).map(|((a, b), c)| constant | put(a, *s) | put(b, *t) | put(c, *u)));
        }
        more => {
            out.resize(rows, constant);
            for (shift, bytes) in more {
                for (value, byte) in out.iter_mut().zip(*bytes) {
                    *value |= put(byte, *shift);
                }
            }
        }
    }
    codec.planes = scratch;
    Ok(())
}

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
                    write(&mut codec, &values, values.iter().copied().max().unwrap_or(0), forms, &mut bytes);
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
        let mut back = Vec::new();
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
            let digits = scaled_digits(values.iter().copied().max().unwrap()).unwrap();
            let mut bytes = vec![FORM_SCALED + digits];
            write_scaled(&mut codec, &values, digits, &mut bytes);
            round_trip(&values, &bytes, &mut codec);
            for cut in 0..bytes.len() {
                assert!(read(&mut codec, &mut Reader::new(&bytes[..cut]), values.len(), &mut vec![]).is_err());
            }
        }
        assert_eq!(scaled_digits(u64::MAX), None);
    }
}
