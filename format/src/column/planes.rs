//! Numbers by byte planes: the lowest bytes of all of them together, then the second lowest, and so on.
//!
//! Upper planes are mostly constant, lower ones mostly noise.

use super::cell::Cell;
use super::codec::Codec;
use super::numbers::{Numbers, SAMPLE, TOO_LARGE, width};
use super::packed;
use crate::bytes::{Malformed, Reader, Result, put_len};
use crate::layout::{PACKED_MAX_BASE, PLANE_CONST, PLANE_PACKED, PLANE_RAW, PLANE_ZSTD};

/// Below this many bytes a zstd frame costs more than it saves.
const ZSTD_FROM: usize = 32;
/// Fewer bytes are not packed.
const PACKED_FROM: usize = 64;

/// Appends the planes of all numbers, as many as the largest one needs.
pub(super) fn write<T: Cell>(codec: &mut Codec, numbers: Numbers<T>, out: &mut Vec<u8>) {
    let mut plane = codec.shelf.take();
    for at in 0..u32::from(width(numbers.max)) {
        split(numbers.cells, numbers.less, 8 * at, &mut plane);
        write_plane(codec, &plane, out);
    }
    codec.shelf.put(plane);
}

fn split<T: Cell>(cells: &[T], less: T, bit: u32, plane: &mut Vec<u8>) {
    plane.clear();
    plane.extend(cells.iter().map(|c| c.minus(less).byte(bit)));
}

/// Appends one plane in the mode that suits it.
pub(super) fn write_plane(codec: &mut Codec, plane: &[u8], out: &mut Vec<u8>) {
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

/// One byte plane, as it was found.
pub(super) enum Plane<'a> {
    Const(u8),
    Raw(&'a [u8]),
    /// In the scratch space.
    Scratch,
}

/// Reads the next plane; where it is neither constant nor raw, into `scratch`.
pub(super) fn read_plane<'a>(
    codec: &mut Codec,
    r: &mut Reader<'a>,
    rows: usize,
    scratch: &mut Vec<u8>,
) -> Result<Plane<'a>> {
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

/// Reads `rows` numbers of `width` planes into `out`, replacing what it held.
pub(super) fn read<T: Cell>(codec: &mut Codec, r: &mut Reader, rows: usize, width: u8, out: &mut Vec<T>) -> Result<()> {
    let mut scratch: [Vec<u8>; 8] = std::array::from_fn(|_| codec.shelf.take_used());
    let read = read_into(codec, r, rows, width, &mut scratch, out);
    scratch.into_iter().for_each(|s| codec.shelf.put(s));
    read
}

fn read_into<T: Cell>(
    codec: &mut Codec,
    r: &mut Reader,
    rows: usize,
    width: u8,
    scratch: &mut [Vec<u8>; 8],
    out: &mut Vec<T>,
) -> Result<()> {
    let mut constant = T::default();
    let mut planes: [Option<(u32, Plane)>; 8] = [const { None }; 8];
    let mut count = 0;
    for at in 0..usize::from(width) {
        #[expect(clippy::cast_possible_truncation, reason = "at most 56")]
        let bit = 8 * at as u32;
        match read_plane(codec, r, rows, &mut scratch[count])? {
            Plane::Const(0) => {}
            _ if at >= T::BYTES => return Err(TOO_LARGE),
            Plane::Const(byte) => constant = constant.or(T::of_byte(byte, bit)),
            plane => {
                planes[count] = Some((bit, plane));
                count += 1;
            }
        }
    }
    let mut varying: [(u32, &[u8]); 8] = [(0, &[]); 8];
    for (i, (slot, plane)) in varying.iter_mut().zip(planes.iter().flatten()).enumerate() {
        *slot = match plane {
            (bit, Plane::Raw(bytes)) => (*bit, bytes),
            (bit, _) => (*bit, scratch[i].as_slice()),
        };
    }
    join(constant, varying.get(..count).unwrap_or_default(), rows, out);
    Ok(())
}

/// Puts the numbers together. One pass each for what occurs most: writing them is what takes time.
fn join<T: Cell>(constant: T, planes: &[(u32, &[u8])], rows: usize, out: &mut Vec<T>) {
    out.clear();
    let put = |byte: u8, bit: u32| T::of_byte(byte, bit);
    match planes {
        [] => out.resize(rows, constant),
        [(0, a)] => out.extend(a.iter().map(|&a| constant.or(put(a, 0)))),
        [(s, a)] => out.extend(a.iter().map(|&a| constant.or(put(a, *s)))),
        [(0, a), (8, b)] => out.extend(a.iter().zip(*b).map(|(&a, &b)| constant.or(put(a, 0)).or(put(b, 8)))),
        [(s, a), (t, b)] => out.extend(a.iter().zip(*b).map(|(&a, &b)| constant.or(put(a, *s)).or(put(b, *t)))),
        [(s, a), (t, b), (u, c)] => {
            let abc = a.iter().zip(*b).zip(*c);
            out.extend(abc.map(|((&a, &b), &c)| constant.or(put(a, *s)).or(put(b, *t)).or(put(c, *u))));
        }
        more => {
            out.resize(rows, constant);
            for (bit, bytes) in more {
                for (cell, &byte) in out.iter_mut().zip(*bytes) {
                    *cell = cell.or(put(byte, *bit));
                }
            }
        }
    }
}
