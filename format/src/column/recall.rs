//! What a column held in the last row that agrees in other columns, or a new value.

use super::MISSING;
use super::cell::Cell;
use super::codec::Codec;
use super::numbers::{self, Forms, Numbers, TOO_LARGE};
use super::words::{Words, each, fit};
use crate::bytes::{Malformed, Reader, Result, put_len, put_varint, unzigzag, zigzag};
use crate::layout::{RECALL_DEFAULTS, RECALL_SLOTS, RECALL_STRIDE};

/// Bits of a key that number the slot; the others number the default.
const SLOT_MASK: u16 = 0xfff;
const DEFAULT_SHIFT: u32 = 12;
const _: () = assert!(SLOT_MASK as usize + 1 == RECALL_SLOTS && (1 << (16 - DEFAULT_SHIFT)) == RECALL_DEFAULTS);
/// Rows that are looked up together where most of them hold what is recalled.
const GROUP: usize = 8;
/// Rows of which one in so many holds something else: more, and each is looked up by itself.
const RARE: usize = 32;
/// The same for the writer, which has more to do for a row by itself.
const RARE_TO_WRITE: usize = 12;
/// Rows after which the writer reckons anew which is better.
const STRETCH: usize = 512;
/// Words that lie no further apart are numbered by a table.
const TABLED: u64 = 0xfff;

/// The columns that tell which row is recalled.
#[derive(Clone, Copy)]
pub(super) struct Sources<'a> {
    pub(super) first: &'a Words,
    /// None where there is no second one.
    pub(super) second: Option<&'a Words>,
}

impl Sources<'_> {
    /// Slot and default of each row, in one number.
    fn keys(self, keys: &mut Vec<u16>) {
        keys.clear();
        let base = self.first.base.low16();
        each!(&self.first.held, cells => slots(cells, base, keys), keys.resize(self.first.rows, base & SLOT_MASK));
        if let Some(second) = self.second {
            let base = second.base.low16();
            each!(
                &second.held,
                cells => keys.iter_mut().zip(cells).for_each(|(key, c)| *key = with_second(*key, c.low16().plus(base))),
                keys.iter_mut().for_each(|key| *key = with_second(*key, base))
            );
        }
    }

    fn rows(self) -> Option<usize> {
        self.second.is_none_or(|s| s.rows == self.first.rows).then_some(self.first.rows)
    }
}

fn slots<T: Cell>(cells: &[T], base: u16, keys: &mut Vec<u16>) {
    keys.extend(cells.iter().map(|c| c.low16().plus(base) & SLOT_MASK));
}

#[inline(always)]
fn with_second(key: u16, second: u16) -> u16 {
    #[expect(clippy::cast_possible_truncation, reason = "the low bits are meant")]
    let stride = RECALL_STRIDE as u16;
    (key.wrapping_add(second.wrapping_mul(stride)) & SLOT_MASK) | second << DEFAULT_SHIFT
}

/// What is remembered. Both sides keep it alike, row by row.
struct Memory<T> {
    slots: [T; RECALL_SLOTS],
    /// The latest word that was the first of its slot.
    defaults: [T; RECALL_DEFAULTS],
    /// In a slot that no row had yet; no word of the column.
    empty: T,
}

impl<T: Cell> Memory<T> {
    /// `min` is the smallest word, and there is one that no word is, either below it or at the top.
    fn new(min: T) -> Self {
        let empty = min.minus(T::cut(1));
        Self { slots: [empty; RECALL_SLOTS], defaults: [min; RECALL_DEFAULTS], empty }
    }

    /// What the slots of some rows hold, and whether none of them is empty.
    #[inline(always)]
    fn peek(&self, keys: &[u16; GROUP]) -> ([T; GROUP], bool) {
        let held = std::array::from_fn(|i| self.slots[usize::from(keys[i] & SLOT_MASK)]);
        (held, held.iter().fold(true, |known, &h| known & (h != self.empty)))
    }

    /// Makes one word of a guess by what the key recalls, and remembers it.
    #[inline(always)]
    fn row(&mut self, key: u16, word: impl FnOnce(T) -> T) -> T {
        let slot = &mut self.slots[usize::from(key & SLOT_MASK)];
        let held = *slot;
        if held == self.empty {
            let default = &mut self.defaults[usize::from(key >> DEFAULT_SHIFT)];
            *default = word(*default);
            *slot = *default;
        } else {
            *slot = word(held);
        }
        *slot
    }
}

/// False where recalling fails too often, and nothing is written. The words are as stored; `shift`
/// was added to each.
pub(super) fn write<T: Cell>(
    codec: &mut Codec,
    (cells, min, max): (&[T], T, T),
    shift: u64,
    sources: Sources,
    out: &mut Vec<u8>,
) -> bool {
    // Without a word that is none of the column's nothing marks an empty slot.
    if sources.rows() != Some(cells.len()) || (min == T::default() && max == T::TOP) {
        return false;
    }
    let mut keys = codec.shelf.take();
    sources.keys(&mut keys);
    let mut codes = codec.shelf.take::<u8>();
    codes.resize(cells.len(), 0);
    let mut values = Vec::new();
    let tried = if max.wide() - min.wide() <= TABLED {
        let mut numbers = [0u16; TABLED as usize + 1];
        recall(cells, min, &keys, &mut codes, |cell, missed| {
            let number = &mut numbers[usize::from(cell.minus(min).low16()) & TABLED as usize];
            if missed & (*number == 0) {
                values.push(cell.wide());
                *number = u16::cut(values.len() as u64);
            }
            if missed { u32::from(*number) } else { 0 }
        })
    } else {
        hashed(codec, (cells, min), &keys, &mut codes, &mut values)
    };
    let coded = match tried {
        Tried::Coded => {
            put_values(&values, shift, out);
            numbers::write(codec, Numbers::plain(&codes, values.len() as u64), Forms::Planes, out);
            true
        }
        Tried::Missed => false,
        Tried::TooMany => {
            let mut codes = codec.shelf.take::<u32>();
            codes.resize(cells.len(), 0);
            let coded = matches!(hashed(codec, (cells, min), &keys, &mut codes, &mut values), Tried::Coded);
            if coded {
                put_values(&values, shift, out);
                numbers::write(codec, Numbers::plain(&codes, values.len() as u64), Forms::Planes, out);
            }
            codec.shelf.put(codes);
            coded
        }
    };
    codec.shelf.put(codes);
    codec.shelf.put(keys);
    coded
}

fn put_values(values: &[u64], shift: u64, out: &mut Vec<u8>) {
    put_len(out, values.len());
    let mut before = 0;
    for &value in values {
        let value = value.wrapping_sub(shift);
        put_varint(out, zigzag(value.wrapping_sub(before).cast_signed()));
        before = value;
    }
}

/// As [`recall`], for words that lie far apart; replaces `values` by what the codes stand for.
fn hashed<T: Cell, C: Cell>(
    codec: &mut Codec,
    (cells, min): (&[T], T),
    keys: &[u16],
    codes: &mut [C],
    values: &mut Vec<u64>,
) -> Tried {
    let places = &mut codec.places;
    places.clear();
    let tried = recall(cells, min, keys, codes, |cell, missed| if missed { 1 + places.of(cell.wide()) } else { 0 });
    values.clear();
    values.extend_from_slice(places.values());
    tried
}

enum Tried {
    Coded,
    /// What is recalled is wrong too often.
    Missed,
    /// A code is wider than its cell.
    TooMany,
}

/// Finds the code of each row: by `number` from its word, and whether that is another than what is recalled.
/// `codes` are 0 at first.
fn recall<T: Cell, C: Cell>(
    cells: &[T],
    min: T,
    keys: &[u16],
    codes: &mut [C],
    mut number: impl FnMut(T, bool) -> u32,
) -> Tried {
    let mut memory = Memory::new(min);
    let (mut missed, mut wide) = (0, 0);
    let mut row = |memory: &mut Memory<T>, cell: T, key: u16, code: &mut C| {
        let mut miss = false;
        memory.row(key, |guess| {
            miss = guess != cell;
            cell
        });
        // Whether a row misses cannot be foretold: no branch depends on it.
        let number = u64::from(number(cell, miss));
        missed += usize::from(miss);
        wide |= number;
        *code = C::cut(number);
        usize::from(miss)
    };
    let mut rare = true;
    for ((cells, keys), codes) in cells.chunks(STRETCH).zip(keys.chunks(STRETCH)).zip(codes.chunks_mut(STRETCH)) {
        let mut here = 0;
        let groups = if rare { cells.len() / GROUP } else { 0 };
        for at in (0..groups * GROUP).step_by(GROUP) {
            let (Some(group), Some(keys), Some(codes)) = (
                cells.get(at..).and_then(|c| c.first_chunk::<GROUP>()),
                keys.get(at..).and_then(|k| k.first_chunk::<GROUP>()),
                codes.get_mut(at..).and_then(|c| c.first_chunk_mut::<GROUP>()),
            ) else {
                break;
            };
            if memory.peek(keys).0 == *group {
                continue;
            }
            for ((&cell, &key), code) in group.iter().zip(keys).zip(codes) {
                here += row(&mut memory, cell, key, code);
            }
        }
        for ((&cell, &key), code) in cells.iter().zip(keys).zip(codes).skip(groups * GROUP) {
            here += row(&mut memory, cell, key, code);
        }
        rare = here * RARE_TO_WRITE <= STRETCH;
    }
    if missed * 2 > cells.len() {
        Tried::Missed
    } else if wide > C::TOP.wide() {
        Tried::TooMany
    } else {
        Tried::Coded
    }
}

/// Reads the words, each counted from `base`.
pub(super) fn read<T: Cell>(
    codec: &mut Codec,
    r: &mut Reader,
    (rows, base, range): (usize, u64, u64),
    sources: Sources,
    out: &mut Vec<T>,
) -> Result<()> {
    if sources.rows() != Some(rows) {
        return Err(MISSING);
    }
    let len = r.count(rows)?;
    // A code of 0 takes the guess, the others a value.
    let mut values = Vec::with_capacity((len + 1).max(256));
    let mut value = 0u64;
    values.push(T::default());
    for _ in 0..len {
        value = value.wrapping_add(unzigzag(r.varint()?).cast_unsigned());
        let cell = value.wrapping_sub(base);
        if cell > range {
            return Err(TOO_LARGE);
        }
        values.push(T::cut(cell));
    }
    let mut keys = codec.shelf.take();
    sources.keys(&mut keys);
    fit(out, rows);
    if len <= usize::from(u8::MAX) {
        values.resize(256, T::default());
        let table: &[T; 256] = values.first_chunk().ok_or(MISSING)?;
        read_codes(codec, r, (&keys, len), |code: u8| table[usize::from(code)], out)?;
    } else if len <= usize::from(u16::MAX) {
        read_codes(codec, r, (&keys, len), |code: u16| values[usize::from(code)], out)?;
    } else {
        read_codes(codec, r, (&keys, len), |code: u32| values[code as usize], out)?;
    }
    codec.shelf.put(keys);
    Ok(())
}

fn read_codes<T: Cell, C: Cell>(
    codec: &mut Codec,
    r: &mut Reader,
    (keys, len): (&[u16], usize),
    value: impl Fn(C) -> T,
    out: &mut [T],
) -> Result<()> {
    let mut codes = codec.shelf.take_used::<C>();
    numbers::read(codec, r, out.len(), &mut codes)?;
    if codes.iter().fold(C::default(), |top, &c| top.max(c)).wide() > len as u64 {
        return Err(Malformed("a code is outside of its dictionary"));
    }
    // Counted in bytes, a part at a time: many of them are counted at once.
    let in_part = |part: &[C]| part.iter().fold(0u8, |missed, &c| missed + u8::from(c != C::default()));
    let missed: usize = codes.chunks(128).map(|part| usize::from(in_part(part))).sum();
    recollect(&codes, missed * RARE <= codes.len(), value, keys, out);
    codec.shelf.put(codes);
    Ok(())
}

/// Recalls all rows. No code is outside of its dictionary.
fn recollect<T: Cell, C: Cell>(codes: &[C], rare: bool, value: impl Fn(C) -> T, keys: &[u16], out: &mut [T]) {
    let mut memory = Memory::new(T::default());
    let row = |memory: &mut Memory<T>, code: C, key: u16| {
        // Looked up even where it is not needed: which rows need it cannot be foretold.
        let value = value(code);
        memory.row(key, |guess| if code == C::default() { guess } else { value })
    };
    if !rare {
        for ((cell, &key), &code) in out.iter_mut().zip(keys).zip(codes) {
            *cell = row(&mut memory, code, key);
        }
        return;
    }
    let (groups, rest) = out.as_chunks_mut::<GROUP>();
    let (key_groups, rest_keys) = keys.as_chunks::<GROUP>();
    let (code_groups, rest_codes) = codes.as_chunks::<GROUP>();
    for ((group, keys), codes) in groups.iter_mut().zip(key_groups).zip(code_groups) {
        if *codes == [C::default(); GROUP]
            && let (held, true) = memory.peek(keys)
        {
            *group = held;
            continue;
        }
        for ((cell, &key), &code) in group.iter_mut().zip(keys).zip(codes) {
            *cell = row(&mut memory, code, key);
        }
    }
    for ((cell, &key), &code) in rest.iter_mut().zip(rest_keys).zip(rest_codes) {
        *cell = row(&mut memory, code, key);
    }
}
