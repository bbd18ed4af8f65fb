//! A block whose rows are on their way out, in the order of their times.

use std::collections::HashSet;
use std::ops::Range;

use ingero_format::Batch;
use ingero_format::catalog::{CPU, END_OPEN, Kind, NULL};

/// Places of the columns of a call.
const CALL_TASK: usize = 2;
const CALL_FUNC: usize = 3;
const CALL_END: usize = 5;

/// Rows of a block whose words are laid out together, ahead of their turn: few enough that those of all open blocks
/// stay in the CPU's first cache.
pub(super) const STRIP_ROWS: usize = 32;

pub(super) struct OpenBlock {
    pub(super) number: u16,
    /// The kind, if this build knows it.
    pub(super) kind: Option<Kind>,
    pub(super) seq: u32,
    pub(super) batch: Batch,
    /// Times of the rows, in order.
    pub(super) times: Vec<u64>,
    /// Rows in time order; empty where the block has a single run and is in order already.
    pub(super) order: Vec<u32>,
    pub(super) next: usize,
    /// Column ids by their places in this build's table.
    pub(super) ids: Vec<(u8, bool)>,
    /// The words of the rows that are laid out, in the order in which they come, row by row.
    pub(super) strip: Vec<u64>,
    /// Which rows those are, as [`OpenBlock::next`] counts them.
    pub(super) laid_out: Range<usize>,
}

impl OpenBlock {
    pub(super) fn held_bytes(&self) -> usize {
        let own = std::mem::size_of_val(self.order.as_slice()) + std::mem::size_of_val(self.times.as_slice());
        let strip = STRIP_ROWS * self.ids.len() * size_of::<u64>();
        self.batch.held_bytes() + own + strip
    }

    #[inline]
    pub(super) fn row(&self) -> usize {
        self.order.get(self.next).map_or(self.next, |&r| r as usize)
    }

    #[inline]
    fn word(&self, column: usize, row: usize) -> u64 {
        let Some(&(id, nullable)) = self.ids.get(column) else { return 0 };
        // A column that an older file lacks is unknown, or 0 where unknown cannot be said.
        let missing = if nullable { NULL } else { 0 };
        self.batch.column(id).and_then(|c| c.get(row)).unwrap_or(missing)
    }

    #[inline]
    pub(super) fn cpu(&self) -> u32 {
        u32::try_from(self.word(usize::from(CPU), self.row())).unwrap_or(u32::MAX)
    }

    /// The words of the next row, in the order of this build's columns.
    #[inline]
    pub(super) fn words(&mut self) -> &[u64] {
        if !self.laid_out.contains(&self.next) {
            self.lay_out();
        }
        let width = self.ids.len();
        let at = (self.next - self.laid_out.start) * width;
        self.strip.get(at..at + width).unwrap_or(&[])
    }

    /// Lays out the words of the next row and of those behind it: each column is looked at once for all of them.
    #[inline(never)]
    pub(super) fn lay_out(&mut self) {
        let width = self.ids.len();
        let rows = self.next..self.times.len().min(self.next + STRIP_ROWS);
        let fresh = self.strip.is_empty();
        self.strip.resize(STRIP_ROWS * width, 0);
        self.laid_out = rows.clone();
        for (at, &(id, nullable)) in self.ids.iter().enumerate() {
            let places = self.strip.get_mut(at..).unwrap_or_default().iter_mut().step_by(width);
            match self.batch.column(id) {
                // The same in every row: it stays from the first rows that were laid out, of which there are no fewer.
                Some(words) if words.is_one() && !fresh => {}
                Some(words) if self.order.is_empty() => words.pick(rows.clone(), places),
                Some(words) => {
                    let order = self.order.get(rows.clone()).unwrap_or_default();
                    words.pick(order.iter().map(|&row| row as usize), places);
                }
                // A column that an older file lacks is unknown, or 0 where unknown cannot be said.
                None if nullable && fresh => places.for_each(|place| *place = NULL),
                None => {}
            }
        }
    }

    /// Task and function of the next row, where it only says that a call was open when it was written.
    #[inline]
    pub(super) fn open_call(&self) -> Option<(u64, u64)> {
        let row = self.row();
        let is_open = self.kind == Some(Kind::Call) && self.word(CALL_END, row) == END_OPEN;
        is_open.then(|| (self.word(CALL_TASK, row), self.word(CALL_FUNC, row)))
    }

    /// Adds task and function of every call that began at `ts` and has ended.
    pub(super) fn find_ended(&self, ts: u64, found: &mut HashSet<(u64, u64)>) {
        if self.kind != Some(Kind::Call) {
            return;
        }
        let times = &self.times;
        let from = times.partition_point(|&at| at < ts);
        for at in (from..times.len()).take_while(|&at| times.get(at) == Some(&ts)) {
            let row = self.order.get(at).map_or(at, |&r| r as usize);
            if self.word(CALL_END, row) != END_OPEN {
                found.insert((self.word(CALL_TASK, row), self.word(CALL_FUNC, row)));
            }
        }
    }

    #[inline]
    pub(super) fn ts_ns(&self) -> Option<u64> {
        self.times.get(self.next).copied()
    }
}
