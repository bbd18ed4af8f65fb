//! The rows of one event kind and one CPU on their way into a block: by column, and as narrow as their
//! words are.

use crate::catalog::{CPU, EventKind, Kind, TS};
use crate::column::{Cell, Held, Shelf, Words, cell_bytes, each};

/// Rows that are taken before they are made narrow: as many as stay in the processor's nearest cache.
const TILE_ROWS: usize = 128;
/// Words from one column of a tile to the next. Not a power of two: the same row of all columns would
/// fall into a few places of the cache.
const TILE_STRIDE: usize = TILE_ROWS + 8;

/// Rows of one CPU, which mostly come in the order of their times.
pub(crate) struct Lane {
    pub(crate) cpu: u32,
    /// The latest rows: all words of a column, then those of the next one.
    tile: Box<[[u64; TILE_STRIDE]]>,
    tiled: usize,
    /// Rows before those.
    rows: usize,
    times: Times,
    /// By place in the kind's table; those of `ts_ns` and `cpu` are not used.
    columns: Vec<Words>,
    /// Whether times never fell.
    sorted: bool,
}

/// The times of a lane.
struct Times {
    first: u64,
    last: u64,
    /// Distances from the row before; the first is 0.
    steps: Vec<u32>,
    /// Times as they are, once a distance did not fit.
    whole: Option<Vec<u64>>,
}

impl Times {
    fn clear(&mut self) {
        (self.first, self.last, self.whole) = (0, 0, None);
        self.steps.clear();
    }

    /// Takes more times; whether none fell.
    fn take(&mut self, times: &[u64]) -> bool {
        let Some(&first) = times.first() else { return true };
        if self.steps.is_empty() && self.whole.is_none() {
            (self.first, self.last) = (first, first);
        }
        let mut last = self.last;
        if let Some(whole) = &mut self.whole {
            let rises = times.iter().fold(true, |rises, &t| rises & (std::mem::replace(&mut last, t) <= t));
            whole.extend_from_slice(times);
            self.last = last;
            return rises;
        }
        let before = self.steps.len();
        let all = push_steps(last, times, &mut self.steps);
        self.last = times.last().copied().unwrap_or(first);
        if all <= u64::from(u32::MAX) {
            return true;
        }
        self.steps.truncate(before);
        let mut whole: Vec<u64> = self.iter().collect();
        whole.extend_from_slice(times);
        let rises = times.iter().fold(true, |rises, &t| rises & (std::mem::replace(&mut last, t) <= t));
        self.whole = Some(whole);
        rises
    }

    fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        let mut at = self.first;
        let steps = self.steps.iter().map(move |&s| {
            at += u64::from(s);
            at
        });
        let whole = self.whole.as_deref();
        whole.unwrap_or_default().iter().copied().chain(steps.take(if whole.is_some() { 0 } else { usize::MAX }))
    }
}

/// Times from here on may fall and still be a small distance ahead, for distances wrap around.
const WRAPS: u64 = 1 << 63;

/// Appends the distances of `times`, each from the one before; their bits, and those of times that may wrap.
fn push_steps(last: u64, times: &[u64], steps: &mut Vec<u32>) -> u64 {
    let Some((&first, rest)) = times.split_first() else { return 0 };
    let step = first.wrapping_sub(last);
    let mut all = step | (first & WRAPS);
    steps.push(u32::cut(step));
    let mut before = [0; TILE_ROWS];
    let before = &mut before[..rest.len().min(TILE_ROWS)];
    before.copy_from_slice(times.get(..before.len()).unwrap_or_default());
    steps.extend(rest.iter().zip(&*before).map(|(t, b)| {
        let step = t.wrapping_sub(*b);
        all |= step | (t & WRAPS);
        u32::cut(step)
    }));
    all
}

impl Lane {
    pub(crate) fn new(kind: &EventKind, cpu: u32) -> Self {
        let width = kind.columns.len();
        Self {
            cpu,
            tile: vec![[0; TILE_STRIDE]; width].into_boxed_slice(),
            tiled: 0,
            rows: 0,
            times: Times { first: 0, last: 0, steps: Vec::new(), whole: None },
            columns: kind.columns.iter().map(|_| Words::default()).collect(),
            sorted: true,
        }
    }

    /// Takes the words of one row; true where the tile is full and has to be [`Lane::narrow`]ed.
    #[inline(always)]
    pub(crate) fn push(&mut self, words: &[u64]) -> bool {
        let at = self.tiled % TILE_ROWS;
        if let Some(tile) = self.tile.get_mut(..words.len()) {
            for (column, &word) in tile.iter_mut().zip(words) {
                column[at] = word;
            }
        }
        self.tiled = at + 1;
        self.tiled == TILE_ROWS
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows + self.tiled
    }

    /// Puts the rows of the tile behind those before.
    #[inline(never)]
    pub(crate) fn narrow(&mut self, kind: &EventKind, shelf: &mut Shelf) {
        let tiled = std::mem::take(&mut self.tiled);
        for (at, (column, tile)) in kind.columns.iter().zip(&self.tile).enumerate() {
            let words = tile.get(..tiled).unwrap_or_default();
            if at == usize::from(TS) {
                self.sorted &= self.times.take(words);
            } else if at != usize::from(CPU)
                && let Some(to) = self.columns.get_mut(at)
            {
                take(to, words, u64::from(column.nullable), shelf);
            }
        }
        self.rows += tiled;
    }

    /// Sorts the rows by time. What is equal stays in the order of its coming.
    pub(crate) fn sort(&mut self, kind: &EventKind) {
        // Of calls that begin in the same instant the longest holds the others.
        let duration = (kind.kind == Kind::Call).then(|| kind.columns.iter().position(|c| c.id == 4)).flatten();
        let duration = duration.and_then(|at| self.columns.get(at));
        if self.sorted
            && (duration.is_none() || self.times.whole.is_none() && !self.times.steps.iter().skip(1).any(|s| *s == 0))
        {
            return;
        }
        let mut times: Vec<u64> = self.times.iter().collect();
        let key = |i: u32| {
            let time = times.get(i as usize).copied().unwrap_or(0);
            (time, duration.map_or(0, |d| !d.get(i as usize).unwrap_or(0)))
        };
        let rows = u32::try_from(self.rows).unwrap_or(u32::MAX);
        if (0..rows).is_sorted_by_key(key) {
            return;
        }
        let mut order: Vec<u32> = (0..rows).collect();
        order.sort_by_key(|&i| key(i));
        times = order.iter().filter_map(|&i| times.get(i as usize).copied()).collect();
        self.times.clear();
        for part in times.chunks(TILE_ROWS) {
            self.times.take(part);
        }
        for column in &mut self.columns {
            each!(&mut column.held, cells => *cells = order.iter().filter_map(|&i| cells.get(i as usize).copied()).collect(), ());
        }
    }

    /// First and last time of the rows.
    pub(crate) fn span(&self) -> (u64, u64) {
        (self.times.first, self.times.last)
    }

    /// The latest of the instants that `reach` makes of each row's time and the word of the `at`th column.
    pub(crate) fn reach(&self, at: usize, reach: impl Fn(u64, u64) -> u64) -> u64 {
        let Some(words) = self.columns.get(at) else { return 0 };
        self.times.iter().zip(words.iter()).map(|(time, word)| reach(time, word)).max().unwrap_or(0)
    }

    /// Appends the distances of the times, the first one from `min`; false where one does not fit.
    pub(crate) fn steps<T: Cell>(&self, min: u64, steps: &mut Vec<T>) -> bool {
        let first = self.times.first.wrapping_sub(min);
        if self.times.whole.is_none() {
            let rest = self.times.steps.get(1..).unwrap_or_default();
            steps.push(T::cut(first));
            steps.extend(rest.iter().map(|&s| T::cut(u64::from(s))));
            return first <= T::TOP.wide() && T::BYTES >= 4;
        }
        let mut last = min;
        let mut all = 0;
        steps.extend(self.times.iter().map(|t| {
            let step = t.wrapping_sub(std::mem::replace(&mut last, t));
            all |= step;
            T::cut(step)
        }));
        all <= T::TOP.wide()
    }

    pub(crate) fn column(&self, at: usize) -> Option<&Words> {
        self.columns.get(at)
    }

    /// Forgets all rows.
    pub(crate) fn clear(&mut self, shelf: &mut Shelf) {
        (self.rows, self.tiled, self.sorted) = (0, 0, true);
        self.times.clear();
        for column in &mut self.columns {
            column.rows = 0;
            shelf.put_held(std::mem::take(&mut column.held));
        }
    }
}

/// Appends words to those of a column. Cells hold words as stored: `shift` more than they are.
pub(crate) fn take(to: &mut Words, words: &[u64], shift: u64, shelf: &mut Shelf) {
    let Some(&first) = words.first() else { return };
    // Mostly they fit the cells that there are: so they are put there before it is known.
    let all = each!(&mut to.held, cells => append(cells, words, shift), {
        if to.rows == 0 {
            to.base = first;
        }
        let differ = words.iter().fold(0, |differ, w| differ | (w ^ to.base));
        let stored = |w: &u64| w.wrapping_add(shift);
        (differ != 0).then(|| words.iter().fold(stored(&to.base), |all, w| all | stored(w)))
    });
    if let Some(all) = all {
        widen(to, all, shift, shelf);
        each!(&mut to.held, cells => append(cells, words, shift), None);
    }
    to.rows += words.len();
}

/// The words' bits where one does not fit, and nothing is appended then.
fn append<T: Cell>(cells: &mut Vec<T>, words: &[u64], shift: u64) -> Option<u64> {
    let before = cells.len();
    let mut all = 0;
    cells.extend(words.iter().map(|w| {
        let stored = w.wrapping_add(shift);
        all |= stored;
        T::cut(stored)
    }));
    if T::BYTES >= cell_bytes(all) {
        return None;
    }
    cells.truncate(before);
    Some(all)
}

/// Gives a column cells that hold words, as stored, up to `max`.
pub(crate) fn widen(words: &mut Words, max: u64, shift: u64, shelf: &mut Shelf) {
    let bytes = each!(&words.held, cells => bytes_of(cells), 0);
    let needed = cell_bytes(max);
    if bytes >= needed {
        return;
    }
    match needed {
        1 => widen_to::<u8>(words, shift, shelf),
        2 => widen_to::<u16>(words, shift, shelf),
        4 => widen_to::<u32>(words, shift, shelf),
        _ => widen_to::<u64>(words, shift, shelf),
    }
}

fn bytes_of<T: Cell>(_: &[T]) -> usize {
    T::BYTES
}

fn widen_to<T: Cell>(words: &mut Words, shift: u64, shelf: &mut Shelf) {
    let mut wider = shelf.take::<T>();
    let held = std::mem::take(&mut words.held);
    each!(&held, cells => wider.extend(cells.iter().map(|c| T::cut(c.wide()))), {
        wider.resize(words.rows, T::cut(words.base.wrapping_add(shift)));
    });
    shelf.put_held(held);
    words.held = T::hold(wider);
    words.base = shift.wrapping_neg();
}

/// Appends all words of a column to those of another.
pub(crate) fn join(to: &mut Words, more: &Words, shift: u64, shelf: &mut Shelf) {
    if to.rows == 0 {
        to.base = more.base;
    }
    let one = matches!(to.held, Held::One);
    let stored = |words: &Words| each!(&words.held, cells => top_of(cells), words.base.wrapping_add(shift));
    let same = matches!(more.held, Held::One) && to.base == more.base;
    if !(one && same) {
        let max = if one { stored(more) | to.base.wrapping_add(shift) } else { stored(more) };
        widen(to, max, shift, shelf);
        let word = more.base.wrapping_add(shift);
        each!(&mut to.held, cells => join_cells(cells, more, word), ());
    }
    to.rows += more.rows;
}

/// The largest word that cells of this width hold.
fn top_of<T: Cell>(_: &[T]) -> u64 {
    T::TOP.wide() - 1
}

fn join_cells<T: Cell>(cells: &mut Vec<T>, more: &Words, word: u64) {
    each!(&more.held, more => cells.extend(more.iter().map(|c| T::cut(c.wide()))), {
        cells.resize(cells.len() + more.rows, T::cut(word));
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::EVENTS;

    /// Pushes exits with these times; the times, and what came with them, in the order of the lane.
    fn sorted(times: &[u64], dead: impl Fn(usize) -> u64) -> (Vec<u64>, Vec<u64>) {
        let kind = EVENTS.iter().find(|e| e.kind == Kind::Exit).unwrap();
        let mut shelf = Shelf::default();
        let mut lane = Lane::new(kind, 3);
        for (i, &time) in times.iter().enumerate() {
            if lane.push(&[time, 3, i as u64, dead(i)]) {
                lane.narrow(kind, &mut shelf);
            }
        }
        assert_eq!(lane.rows(), times.len());
        lane.narrow(kind, &mut shelf);
        lane.sort(kind);
        let mut steps: Vec<u64> = vec![];
        let min = lane.span().0;
        assert!(lane.steps(min, &mut steps));
        let mut sum = min;
        steps.iter_mut().for_each(|s| {
            sum += *s;
            *s = sum;
        });
        assert_eq!(lane.span(), (steps[0], steps[steps.len() - 1]));
        assert_eq!(
            lane.column(3).unwrap().to_vec(),
            lane.column(2).unwrap().iter().map(|i| dead(i as usize)).collect::<Vec<_>>()
        );
        (steps, lane.column(2).unwrap().to_vec())
    }

    #[test]
    fn rows_come_out_in_the_order_of_their_times() {
        let rising: Vec<u64> = (0..1000).map(|i| 5_000_000_000 + i * 977).collect();
        let far: Vec<u64> = (0..300).map(|i| i << 33).collect();
        let mut swapped = rising.clone();
        swapped.swap(499, 500);
        let mut early = far.clone();
        early.push(3);
        let same = vec![7; 400];
        for times in [rising, far, swapped, early, same] {
            for dead in [|_| u64::MAX, |i| i as u64 % 2, |i| if i < 700 { 1 } else { u64::MAX }, |i| (i as u64) << 50] {
                let (came, rows) = sorted(&times, dead);
                let mut expected: Vec<(u64, u64)> = times.iter().copied().zip(0..).collect();
                expected.sort();
                assert_eq!(came.into_iter().zip(rows).collect::<Vec<_>>(), expected);
            }
        }
    }
}
