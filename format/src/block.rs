//! A block: the rows of one event kind, sorted by CPU and time, by column.
//!
//! Payload: the directory (varint count, then one entry per column), then the columns' bytes in
//! the directory's order.

use crate::bytes::{Malformed, Reader, Result, put_len};
use crate::catalog::{CPU, Column, EventKind, Kind, Shape, TS};
use crate::column::{self, Codec, Context, Entry};
use crate::layout::{CPU_SEVERAL, MAX_COLUMNS, MAX_ROWS};

/// Rows of one event kind that wait to be sealed into a block.
pub(crate) struct Pending {
    pub(crate) kind: &'static EventKind,
    /// Words by column, rows in the order of their coming.
    columns: Vec<Vec<u64>>,
    /// When the first row came, on the writer's clock.
    pub(crate) since_ns: u64,
}

/// A sealed block, to be put behind a chunk header.
pub(crate) struct Sealed {
    pub(crate) rows: u32,
    pub(crate) cpu: u32,
    pub(crate) head_len: u32,
    pub(crate) ts_min: u64,
    pub(crate) ts_max: u64,
}

impl Pending {
    pub(crate) fn new(kind: &'static EventKind) -> Self {
        Self { kind, columns: vec![Vec::new(); kind.columns.len()], since_ns: 0 }
    }

    pub(crate) fn rows(&self) -> usize {
        self.columns.first().map_or(0, Vec::len)
    }

    /// Takes the words of one row.
    pub(crate) fn push(&mut self, row: &[u64]) {
        debug_assert_eq!(row.len(), self.columns.len());
        for (column, &word) in self.columns.iter_mut().zip(row) {
            column.push(word);
        }
    }

    /// Encodes all rows into `out` and forgets them.
    pub(crate) fn seal(&mut self, codec: &mut Codec, out: &mut Vec<u8>) -> Sealed {
        self.sort();
        let mut runs = Vec::new();
        let cpus = self.columns.get(usize::from(CPU)).map_or(&[][..], Vec::as_slice);
        column::runs_of(cpus, &mut runs);
        let cpu = match (runs.len(), cpus.first()) {
            (1, Some(&cpu)) => u32::try_from(cpu).unwrap_or(CPU_SEVERAL),
            _ => CPU_SEVERAL,
        };
        let (ts_min, ts_max) = self.span();
        let rows = self.rows();

        let mut entries = Vec::with_capacity(self.kind.columns.len());
        let mut bytes = Vec::new();
        let mut words = Vec::new();
        for (at, column) in self.kind.columns.iter().enumerate() {
            words.clear();
            words.extend_from_slice(&self.columns[at]);
            let leader = follows(column).and_then(|id| self.by_id(id));
            entries.push(column::encode(codec, column, &mut words, Context { runs: &runs, leader }, &mut bytes));
        }
        out.clear();
        put_len(out, entries.len());
        for entry in &entries {
            entry.write(out);
        }
        let head_len = u32::try_from(out.len()).unwrap_or(u32::MAX);
        out.extend_from_slice(&bytes);
        self.columns.iter_mut().for_each(Vec::clear);
        Sealed { rows: u32::try_from(rows).unwrap_or(u32::MAX), cpu, head_len, ts_min, ts_max }
    }

    fn by_id(&self, id: u8) -> Option<&[u64]> {
        let at = self.kind.columns.iter().position(|c| c.id == id)?;
        self.columns.get(at).map(Vec::as_slice)
    }

    /// Sorts the rows by CPU and time. Rows come nearly sorted within a CPU.
    fn sort(&mut self) {
        let [ts, cpu, ..] = self.columns.as_slice() else { return };
        // Of calls that begin in the same instant the longest holds the others.
        let ties = (self.kind.kind == Kind::Call).then(|| self.by_id(4)).flatten();
        if ties.is_none() && ts.is_sorted() && cpu.is_sorted() {
            return;
        }
        let key = |row: u32| {
            let row = row as usize;
            (cpu[row], ts[row], ties.map_or(0, |d| !d[row]))
        };
        #[expect(clippy::cast_possible_truncation, reason = "a block has at most MAX_ROWS rows")]
        let mut order: Vec<u32> = (0..ts.len() as u32).collect();
        if order.is_sorted_by_key(|&row| key(row)) {
            return;
        }
        order.sort_by_key(|&row| key(row));
        let mut sorted = Vec::with_capacity(order.len());
        for column in &mut self.columns {
            sorted.clear();
            sorted.extend(order.iter().map(|&row| column[row as usize]));
            std::mem::swap(column, &mut sorted);
        }
    }

    /// First and last instant that any row speaks of.
    fn span(&self) -> (u64, u64) {
        let ts = &self.columns[usize::from(TS)];
        let min = ts.iter().copied().min().unwrap_or(0);
        let max = match self.kind.kind {
            Kind::Call => self.by_id(4).map(|d| {
                // An unknown duration adds nothing.
                ts.iter().zip(d).map(|(&t, &d)| if d == u64::MAX { t } else { t.saturating_add(d) }).max().unwrap_or(0)
            }),
            Kind::Loss => self.by_id(2).map(|to| ts.iter().chain(to).copied().max().unwrap_or(0)),
            _ => None,
        };
        (min, max.unwrap_or_else(|| ts.iter().copied().max().unwrap_or(0)))
    }
}

fn follows(column: &Column) -> Option<u8> {
    match column.shape {
        Shape::Follows(id) => Some(id),
        _ => None,
    }
}

/// The directory in the first bytes of a block's payload.
pub(crate) fn read_directory(head: &[u8], rows: u32) -> Result<Vec<Entry>> {
    if rows as usize > MAX_ROWS {
        return Err(Malformed("it has more rows than a block may have"));
    }
    let mut r = Reader::new(head);
    let count = r.count(MAX_COLUMNS)?;
    let entries = (0..count).map(|_| Entry::read(&mut r)).collect::<Result<Vec<_>>>()?;
    if !r.is_empty() {
        return Err(Malformed("bytes are left over in the directory"));
    }
    Ok(entries)
}
