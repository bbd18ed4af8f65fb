//! Byte planes: the lowest bytes of all values together, then the second lowest, and so on. Upper
//! planes are mostly constant, lower ones mostly noise, and each is stored in its own best way.

use super::Codec;
use crate::bytes::{Malformed, Reader, Result, put_len};
use crate::layout::{PLANE_CONST, PLANE_RAW, PLANE_ZSTD};

/// Below this many bytes a zstd frame costs more than it saves.
const ZSTD_FROM: usize = 32;

/// Bytes that hold every value up to `max`: 0 for 0.
pub(super) fn width(max: u64) -> u8 {
    let bits = 64 - max.leading_zeros();
    #[expect(clippy::cast_possible_truncation, reason = "at most 8")]
    let width = bits.div_ceil(8) as u8;
    width
}

/// Appends the lowest `width` bytes of each value, by plane.
pub(super) fn write(codec: &mut Codec, values: &[u64], width: u8, out: &mut Vec<u8>) {
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
    if plane.iter().all(|&b| b == first) {
        out.extend([PLANE_CONST, first]);
        return;
    }
    if plane.len() >= ZSTD_FROM
        && let Some(frame) = codec.compress(plane)
        && frame.len() + 4 < plane.len()
    {
        out.push(PLANE_ZSTD);
        put_len(out, frame.len());
        out.extend_from_slice(frame);
        return;
    }
    out.push(PLANE_RAW);
    out.extend_from_slice(plane);
}

/// Reads `rows` values of `width` bytes into `out`, replacing what it held.
pub(super) fn read(codec: &mut Codec, r: &mut Reader, rows: usize, width: u8, out: &mut Vec<u64>) -> Result<()> {
    if width > 8 {
        return Err(Malformed("a value is wider than 8 bytes"));
    }
    out.clear();
    let mut constant = 0u64;
    let mut planes: [Option<Source>; 8] = [const { None }; 8];
    let mut scratch = std::mem::take(&mut codec.planes);
    scratch.resize_with(8, Vec::new);
    for at in 0..width {
        let shift = 8 * u32::from(at);
        let slot = &mut planes[usize::from(at)];
        match r.u8()? {
            PLANE_CONST => constant |= u64::from(r.u8()?) << shift,
            PLANE_RAW => *slot = Some(Source::Raw(r.bytes(rows)?)),
            PLANE_ZSTD => {
                let len = r.count(rows)?;
                codec.decompress(r.bytes(len)?, rows, &mut scratch[usize::from(at)])?;
                *slot = Some(Source::Scratch);
            }
            _ => return Err(Malformed("a byte plane has an unknown mode")),
        }
    }
    out.resize(rows, constant);
    for (at, plane) in planes.iter().enumerate() {
        let bytes = match plane {
            None => continue,
            Some(Source::Raw(bytes)) => bytes,
            Some(Source::Scratch) => scratch[at].as_slice(),
        };
        for (value, &byte) in out.iter_mut().zip(bytes) {
            *value |= u64::from(byte) << (8 * at);
        }
    }
    codec.planes = scratch;
    Ok(())
}

enum Source<'a> {
    Raw(&'a [u8]),
    Scratch,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_hold_their_values() {
        assert_eq!([0, 1, 255, 256, 65_535, 65_536, u64::MAX].map(width), [0, 1, 1, 2, 2, 3, 8]);
    }

    #[test]
    fn planes_round_trip() {
        let mut codec = Codec::new(1).unwrap();
        for n in [0usize, 1, 31, 32, 5000] {
            let values: Vec<u64> = (0..n as u64).map(|i| i * i * 7919 % 100_003).collect();
            let width = width(values.iter().copied().max().unwrap_or(0));
            let mut bytes = vec![];
            write(&mut codec, &values, width, &mut bytes);
            let mut back = vec![1, 2, 3];
            let mut r = Reader::new(&bytes);
            read(&mut codec, &mut r, n, width, &mut back).unwrap();
            assert!(r.is_empty());
            assert_eq!(back, values);
        }
    }
}
