//! The words of one column of one block, held as narrow as they are.

use std::ops::Range;

use super::cell::Cell;

/// What the rows hold, each counted from the base of its [`Words`].
#[derive(Debug, Clone, Default)]
pub(crate) enum Held {
    /// 0 in every row.
    #[default]
    One,
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
    U64(Vec<u64>),
}

/// Does the same with the cells of whichever width; the second arm where all rows are alike.
macro_rules! each {
    ($held:expr, $cells:ident => $then:expr, $one:expr) => {
        match $held {
            $crate::column::Held::One => $one,
            $crate::column::Held::U8($cells) => $then,
            $crate::column::Held::U16($cells) => $then,
            $crate::column::Held::U32($cells) => $then,
            $crate::column::Held::U64($cells) => $then,
        }
    };
}
pub(crate) use each;

/// The words of one column of one block, one per row.
///
/// They are held as a base and a distance from it per row, as narrow as the distances are; where
/// all rows are alike, nothing is held per row. [`Words::view`] gives what is held, everything else
/// gives words.
#[derive(Debug, Clone, Default)]
pub struct Words {
    /// Added to what is held; the sum wraps around.
    pub(crate) base: u64,
    pub(crate) rows: usize,
    pub(crate) held: Held,
}

/// What [`Words`] hold: the word of a row is the sum of `base` and what stands in its row, and wraps
/// around at 64 bits ("not known" may be stored as a distance of 0 from a base of 2^64 − 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View<'a> {
    /// The same word in every row.
    One {
        /// The word.
        word: u64,
        /// Rows.
        rows: usize,
    },
    /// A byte per row.
    U8 {
        /// Added to each.
        base: u64,
        /// Distances from it.
        cells: &'a [u8],
    },
    /// Two bytes per row.
    U16 {
        /// Added to each.
        base: u64,
        /// Distances from it.
        cells: &'a [u16],
    },
    /// Four bytes per row.
    U32 {
        /// Added to each.
        base: u64,
        /// Distances from it.
        cells: &'a [u32],
    },
    /// Eight bytes per row.
    U64 {
        /// Added to each.
        base: u64,
        /// Distances from it.
        cells: &'a [u64],
    },
}

impl Words {
    pub(crate) fn one(word: u64, rows: usize) -> Self {
        Self { base: word, rows, held: Held::One }
    }

    /// Rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Whether one word is held for all rows. Rows may be alike without.
    #[must_use]
    #[inline]
    pub fn is_one(&self) -> bool {
        matches!(self.held, Held::One)
    }

    /// The word of a row; none behind the last row.
    #[must_use]
    #[inline]
    pub fn get(&self, row: usize) -> Option<u64> {
        let held = each!(&self.held, cells => cells.get(row)?.wide(), {
            if row >= self.rows {
                return None;
            }
            0
        });
        Some(self.base.wrapping_add(held))
    }

    /// The word of the first row.
    #[must_use]
    pub fn first(&self) -> Option<u64> {
        self.get(0)
    }

    /// The word of the last row.
    #[must_use]
    pub fn last(&self) -> Option<u64> {
        self.get(self.rows.checked_sub(1)?)
    }

    /// The words by row.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.rows).map_while(|row| self.get(row))
    }

    /// The words by row.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u64> {
        let base = self.base;
        each!(&self.held, cells => cells.iter().map(|c| base.wrapping_add(c.wide())).collect(), vec![base; self.rows])
    }

    /// Adds the words of some rows to others. Rows behind the last one have none.
    pub fn push_to(&self, rows: Range<usize>, out: &mut Vec<u64>) {
        let base = self.base;
        let end = rows.end.min(self.rows);
        let start = rows.start.min(end);
        each!(
            &self.held,
            cells => out.extend(cells.get(start..end).unwrap_or(&[]).iter().map(|c| base.wrapping_add(c.wide()))),
            out.resize(out.len() + end - start, base)
        );
    }

    /// Writes the words of some rows, one to each place. Where a row is behind the last one, its place stays as it is.
    pub fn pick<'o>(&self, rows: impl Iterator<Item = usize>, out: impl Iterator<Item = &'o mut u64>) {
        let base = self.base;
        each!(
            &self.held,
            cells => pick_cells(cells, base, rows, out),
            rows.zip(out).filter(|(row, _)| *row < self.rows).for_each(|(_, place)| *place = base)
        );
    }

    /// Whether no word is below the one before it.
    #[must_use]
    pub fn is_sorted(&self) -> bool {
        let base = self.base;
        each!(&self.held, cells => cells.is_sorted_by_key(|c| base.wrapping_add(c.wide())), true)
    }

    /// Bytes that are held.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        each!(&self.held, cells => std::mem::size_of_val(cells.as_slice()), 0)
    }

    /// What is held per row.
    #[must_use]
    pub fn view(&self) -> View<'_> {
        let base = self.base;
        match &self.held {
            Held::One => View::One { word: base, rows: self.rows },
            Held::U8(cells) => View::U8 { base, cells },
            Held::U16(cells) => View::U16 { base, cells },
            Held::U32(cells) => View::U32 { base, cells },
            Held::U64(cells) => View::U64 { base, cells },
        }
    }
}

/// [`Words::pick`] for one width. By itself, for the loop to have the registers that it needs.
#[inline(never)]
fn pick_cells<'o, T: Cell>(
    cells: &[T],
    base: u64,
    rows: impl Iterator<Item = usize>,
    out: impl Iterator<Item = &'o mut u64>,
) {
    for (row, place) in rows.zip(out) {
        if let Some(cell) = cells.get(row) {
            *place = base.wrapping_add(cell.wide());
        }
    }
}

impl PartialEq for Words {
    fn eq(&self, other: &Self) -> bool {
        self.rows == other.rows && self.iter().eq(other.iter())
    }
}

impl Eq for Words {}

impl PartialEq<[u64]> for Words {
    fn eq(&self, other: &[u64]) -> bool {
        self.rows == other.len() && self.iter().eq(other.iter().copied())
    }
}

/// Buffers that are not in use, by width.
#[derive(Default)]
pub(crate) struct Shelf {
    pub(super) bytes: Vec<Vec<u8>>,
    pub(super) halves: Vec<Vec<u16>>,
    pub(super) words: Vec<Vec<u32>>,
    pub(super) doubles: Vec<Vec<u64>>,
}

impl Shelf {
    /// An empty buffer.
    pub(crate) fn take<T: Cell>(&mut self) -> Vec<T> {
        let mut cells = T::spare(self).pop().unwrap_or_default();
        cells.clear();
        cells
    }

    /// A buffer with whatever it held last, to be written over.
    pub(crate) fn take_used<T: Cell>(&mut self) -> Vec<T> {
        T::spare(self).pop().unwrap_or_default()
    }

    pub(crate) fn put<T: Cell>(&mut self, cells: Vec<T>) {
        T::spare(self).push(cells);
    }

    /// Takes back what a column held.
    pub(crate) fn put_held(&mut self, held: Held) {
        each!(held, cells => self.put(cells), ());
    }
}

/// Gives a buffer this length. What it holds is still to be written: it is not made 0 first where it was
/// as long before.
pub(super) fn fit<T: Cell>(cells: &mut Vec<T>, len: usize) {
    cells.truncate(len);
    cells.resize(len, T::default());
}

/// The narrowest width that holds numbers up to `max` and one more that none of them is, in bytes.
pub(crate) fn cell_bytes(max: u64) -> usize {
    match max {
        0..0xff => 1,
        0xff..0xffff => 2,
        0xffff..0xffff_ffff => 4,
        _ => 8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_gives_its_words() {
        let held: [(Held, &[u64]); 4] = [
            (Held::U8(vec![0, 1, 255]), &[u64::MAX, 0, 254]),
            (Held::U16(vec![0, 1, 65_535]), &[u64::MAX, 0, 65_534]),
            (Held::U32(vec![7, 1, u32::MAX]), &[6, 0, (1 << 32) - 2]),
            (Held::U64(vec![0, 5, u64::MAX]), &[u64::MAX, 4, u64::MAX - 1]),
        ];
        for (held, expected) in held {
            // One less than what is held, as in a nullable column.
            let words = Words { base: u64::MAX, rows: 3, held };
            assert_eq!(words.to_vec(), expected);
            assert_eq!(&words, expected);
            assert_eq!((words.first(), words.last()), (Some(expected[0]), Some(expected[2])));
            assert_eq!((words.get(3), words.len(), words.is_sorted()), (None, 3, expected.is_sorted()));
            let mut picked = [77; 4];
            words.pick([2, 3, 0].into_iter(), picked.iter_mut());
            assert_eq!(picked, [expected[2], 77, expected[0], 77]);
        }
        let one = Words::one(9, 1 << 40);
        assert_eq!(one.view(), View::One { word: 9, rows: 1 << 40 });
        assert_eq!((one.get((1 << 40) - 1), one.get(1 << 40)), (Some(9), None));
        let mut picked = [77; 2];
        one.pick([1 << 40, 5].into_iter(), picked.iter_mut());
        assert_eq!(picked, [77, 9]);
        assert_eq!((Words::default().first(), Words::default().last()), (None, None));
    }

    #[test]
    fn a_width_leaves_room_for_what_is_no_word() {
        for (max, bytes) in [(0, 1), (0xfe, 1), (0xff, 2), (0xfffe, 2), (0xffff, 4), (0xffff_fffe, 4), (0xffff_ffff, 8)]
        {
            assert_eq!(cell_bytes(max), bytes);
        }
    }
}
