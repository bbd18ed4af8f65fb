//! The place of each word in a sorted list of those that occur.

use super::cell::Cell;
use super::codec::Codec;
use super::numbers::{self, Forms, Numbers, TOO_LARGE, width};
use crate::bytes::{Malformed, Reader, Result, put_len, put_varint};

/// Ranges up to this are looked up in a table.
const TABLED: u64 = 0xffff;

/// False where a dictionary would not help, and nothing is written.
pub(super) fn write<T: Cell>(codec: &mut Codec, cells: &[T], (min, max): (u64, u64), out: &mut Vec<u8>) -> bool {
    // Ids that lie close together are their own dictionary.
    let narrower = 1usize.checked_shl(8 * u32::from(width(max - min) - 1)).unwrap_or(usize::MAX);
    let cap = (cells.len() / 2).clamp(16, 1 << 16).min(narrower);
    if max - min <= TABLED { write_tabled(codec, cells, min, cap, out) } else { write_hashed(codec, cells, cap, out) }
}

/// Appends the list.
fn put_entries(values: impl ExactSizeIterator<Item = u64>, out: &mut Vec<u8>) {
    put_len(out, values.len());
    let mut before = 0;
    for value in values {
        put_varint(out, value - before);
        before = value;
    }
}

fn write_tabled<T: Cell>(codec: &mut Codec, cells: &[T], min: u64, cap: usize, out: &mut Vec<u8>) -> bool {
    let less = T::cut(min);
    let mut seen = vec![0u8; 1 << 16];
    for cell in cells {
        seen[usize::from(cell.minus(less).low16())] = 1;
    }
    let mut distinct: Vec<u64> = Vec::with_capacity(256);
    for (part, from) in seen.as_chunks::<16>().0.iter().zip((0u64..).step_by(16)) {
        if *part != [0; 16] {
            distinct.extend((from..).zip(part).filter(|(_, s)| **s != 0).map(|(at, _)| at));
        }
    }
    if distinct.len() > cap {
        return false;
    }
    put_entries(distinct.iter().map(|at| min + at), out);
    // Narrower than two bytes, so one.
    let mut ranks = seen;
    for (rank, &at) in (0u8..=255).zip(&distinct) {
        if let Some(r) = usize::try_from(at).ok().and_then(|at| ranks.get_mut(at)) {
            *r = rank;
        }
    }
    let mut codes = codec.shelf.take::<u8>();
    codes.extend(cells.iter().map(|c| ranks[usize::from(c.minus(less).low16())]));
    numbers::write(codec, Numbers::plain(&codes, distinct.len() as u64 - 1), Forms::Planes, out);
    codec.shelf.put(codes);
    true
}

fn write_hashed<T: Cell>(codec: &mut Codec, cells: &[T], cap: usize, out: &mut Vec<u8>) -> bool {
    let mut places = std::mem::take(&mut codec.places);
    let mut codes = codec.shelf.take::<u32>();
    places.clear();
    // Numbered as they come, and by their order in the end.
    let mut last = None;
    for &cell in cells {
        let place = match last {
            Some((same, place)) if same == cell => place,
            _ => places.of(cell.wide()),
        };
        last = Some((cell, place));
        if place as usize >= cap {
            break;
        }
        codes.push(place);
    }
    let fits = codes.len() == cells.len();
    if fits {
        let mut sorted: Vec<(u64, usize)> = places.values().iter().enumerate().map(|(i, &w)| (w, i)).collect();
        sorted.sort_unstable();
        put_entries(sorted.iter().map(|s| s.0), out);
        let mut ranks = vec![0u32; sorted.len()];
        for (rank, &(_, came)) in (0..).zip(&sorted) {
            if let Some(r) = ranks.get_mut(came) {
                *r = rank;
            }
        }
        codes.iter_mut().for_each(|c| *c = ranks.get(*c as usize).copied().unwrap_or(0));
        numbers::write(codec, Numbers::plain(&codes, sorted.len() as u64 - 1), Forms::Planes, out);
    }
    codec.places = places;
    codec.shelf.put(codes);
    fits
}

/// Reads the words, each counted from `min`.
pub(super) fn read<T: Cell>(
    codec: &mut Codec,
    r: &mut Reader,
    (rows, min, range): (usize, u64, u64),
    out: &mut Vec<T>,
) -> Result<()> {
    let len = r.count(rows)?;
    let mut values = Vec::with_capacity(len.max(256));
    let mut value = 0u64;
    for _ in 0..len {
        value = value.checked_add(r.varint()?).ok_or(Malformed("a dictionary exceeds 64 bits"))?;
        let cell = value.wrapping_sub(min);
        if cell > range {
            return Err(TOO_LARGE);
        }
        values.push(T::cut(cell));
    }
    let inside = if len == 0 {
        return Err(Malformed("a dictionary is empty"));
    } else if len <= 1 << 8 {
        values.resize(256, T::default());
        look_up::<T, u8>(codec, r, rows, (&values, len), out)?
    } else if len <= 1 << 16 {
        look_up::<T, u16>(codec, r, rows, (&values, len), out)?
    } else {
        look_up::<T, u32>(codec, r, rows, (&values, len), out)?
    };
    if inside { Ok(()) } else { Err(Malformed("a code is outside of its dictionary")) }
}

fn look_up<T: Cell, C: Cell>(
    codec: &mut Codec,
    r: &mut Reader,
    rows: usize,
    (values, len): (&[T], usize),
    out: &mut Vec<T>,
) -> Result<bool> {
    let mut codes = codec.shelf.take::<C>();
    numbers::read(codec, r, rows, &mut codes)?;
    let inside = codes.iter().fold(C::default(), |top, &c| top.max(c)).wide() < len as u64;
    out.clear();
    if inside {
        #[expect(clippy::cast_possible_truncation, reason = "below the number of entries")]
        out.extend(codes.iter().map(|c| values[c.wide() as usize]));
    }
    codec.shelf.put(codes);
    Ok(inside)
}
