//! Cells of one width in a row, run by run.

use std::marker::PhantomData;

use crate::timeline::State;

/// How cells are made of smaller ones, and so what the label of a cell says.
pub(super) trait Lanes {
    /// Sums that a cell holds side by side.
    const COUNT: usize;
    /// Whether a cell takes its first part's label; if not, that of the parts that hold most.
    const FIRST: bool;
}

/// What a thread did: running, runnable, throttled, blocked, off the CPUs. The label is the state in which the cell begins.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct States;

impl Lanes for States {
    const COUNT: usize = State::ALL.len();
    const FIRST: bool = true;
}

/// For how long there was something (a call, somebody on a CPU). The label is which one was there longest.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Longest;

impl Lanes for Longest {
    const COUNT: usize = 1;
    const FIRST: bool = false;
}

/// Sums of a cell that any kind of lanes has room for.
pub(super) type Sums = [u64; State::ALL.len()];

/// Label of a cell in which there was nothing.
pub(super) const NOTHING: u32 = u32::MAX;

/// Cells that are alike and follow one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cells {
    /// The first cell's number.
    pub(super) first: u32,
    /// The number behind the last one.
    pub(super) end: u32,
    /// What each of them holds.
    pub(super) sums: Sums,
    /// The label of each.
    pub(super) label: u32,
}

impl Cells {
    fn is_empty(&self) -> bool {
        self.sums == Sums::default() && self.label == NOTHING
    }
}

/// Sums one after another: in half the room where no cell is wide enough to need more.
#[derive(Debug, Clone, PartialEq)]
enum Room {
    Narrow(Vec<u32>),
    Wide(Vec<u64>),
}

/// All cells of one width. Cells that are alike take room once, however many they are; what comes before the first and
/// behind the last run is empty.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Level<L> {
    starts: Vec<u32>,
    labels: Vec<u32>,
    room: Room,
    lanes: PhantomData<L>,
}

/// Cells up to this width in powers of two have sums of 32 bits.
const NARROW: u32 = 31;

impl<L: Lanes> Level<L> {
    /// No cells yet, each of `1 << shift` nanoseconds.
    pub(super) fn new(shift: u32) -> Self {
        let room = if Self::is_narrow(shift) { Room::Narrow(Vec::new()) } else { Room::Wide(Vec::new()) };
        Self { starts: Vec::new(), labels: Vec::new(), room, lanes: PhantomData }
    }

    /// Whether sums of cells of this width are kept in 32 bits.
    pub(super) fn is_narrow(shift: u32) -> bool {
        shift <= NARROW
    }

    /// Bytes for one run.
    pub(super) fn run_bytes(shift: u32) -> usize {
        8 + L::COUNT * if Self::is_narrow(shift) { 4 } else { 8 }
    }

    /// Runs, the empty ones between others and the last one among them.
    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    /// Gives back room that is not used.
    pub(super) fn trim(&mut self) {
        self.starts.shrink_to_fit();
        self.labels.shrink_to_fit();
        match &mut self.room {
            Room::Narrow(sums) => sums.shrink_to_fit(),
            Room::Wide(sums) => sums.shrink_to_fit(),
        }
    }

    /// Bytes held.
    pub(super) fn held_bytes(&self) -> usize {
        let sums = match &self.room {
            Room::Narrow(sums) => sums.capacity() * 4,
            Room::Wide(sums) => sums.capacity() * 8,
        };
        sums + (self.starts.capacity() + self.labels.capacity()) * 4
    }

    fn sums(&self, at: usize) -> Sums {
        let mut out = Sums::default();
        let places = at * L::COUNT..(at + 1) * L::COUNT;
        match &self.room {
            Room::Narrow(sums) => {
                out.iter_mut().zip(sums.get(places).unwrap_or_default()).for_each(|(o, &s)| *o = u64::from(s));
            }
            Room::Wide(sums) => {
                out.iter_mut().zip(sums.get(places).unwrap_or_default()).for_each(|(o, &s)| *o = s);
            }
        }
        out
    }

    /// The run at a place; the last one has no end.
    pub(super) fn run(&self, at: usize) -> Option<Cells> {
        let &first = self.starts.get(at)?;
        let end = self.starts.get(at + 1).copied().unwrap_or(u32::MAX);
        Some(Cells { first, end, sums: self.sums(at), label: self.labels.get(at).copied().unwrap_or(NOTHING) })
    }

    pub(super) fn runs(&self) -> impl Iterator<Item = Cells> + '_ {
        (0..self.len()).filter_map(|at| self.run(at))
    }

    /// Adds cells behind all others. What lies between is empty, and so is what follows, until more is added.
    pub(super) fn push(&mut self, cells: Cells) {
        if cells.first >= cells.end || cells.is_empty() {
            return;
        }
        // The last run is the empty one, which ends where this one begins.
        match self.starts.last() {
            Some(&open) if open == cells.first => self.pop(),
            _ => {}
        }
        let alike = self.len().checked_sub(1).and_then(|last| self.run(last));
        if alike.is_none_or(|last| (last.sums, last.label) != (cells.sums, cells.label)) {
            self.put(cells.first, cells.sums, cells.label);
        }
        self.put(cells.end, Sums::default(), NOTHING);
    }

    /// Takes the last cell that is not empty off again.
    pub(super) fn take_last(&mut self) -> Option<Cells> {
        let last = self.run(self.len().checked_sub(2)?)?;
        let taken = Cells { first: last.end - 1, ..last };
        self.pop();
        if last.first == taken.first {
            self.pop();
        }
        // Behind a run that is empty already there is nothing to end.
        let ends_empty = self.len().checked_sub(1).and_then(|at| self.run(at)).is_none_or(|run| run.is_empty());
        if !ends_empty {
            self.put(taken.first, Sums::default(), NOTHING);
        }
        Some(taken)
    }

    /// Number behind the last cell that is not empty.
    pub(super) fn end(&self) -> Option<u32> {
        self.starts.last().copied()
    }

    fn pop(&mut self) {
        self.starts.pop();
        self.labels.pop();
        match &mut self.room {
            Room::Narrow(sums) => sums.truncate(sums.len().saturating_sub(L::COUNT)),
            Room::Wide(sums) => sums.truncate(sums.len().saturating_sub(L::COUNT)),
        }
    }

    /// Begins a run, as it is.
    pub(super) fn put(&mut self, first: u32, sums: Sums, label: u32) {
        self.starts.push(first);
        self.labels.push(label);
        let lanes = sums.iter().take(L::COUNT);
        match &mut self.room {
            // A cell's sums never exceed its width, which fits.
            Room::Narrow(to) => to.extend(lanes.map(|&s| u32::try_from(s).unwrap_or(u32::MAX))),
            Room::Wide(to) => to.extend(lanes),
        }
    }

    /// Place of the run that holds a cell.
    pub(super) fn place(&self, cell: u32) -> Option<usize> {
        self.starts.partition_point(|&s| s <= cell).checked_sub(1)
    }

    /// Tells the runs within `first..end`, cut to it, in order. `hint` is a place to look first, and the place of the last
    /// run afterwards: for whoever passes through.
    pub(super) fn within(&self, first: u32, end: u32, hint: &mut usize, mut tell: impl FnMut(Cells)) {
        if first >= end || self.starts.is_empty() {
            return;
        }
        let mut at = *hint;
        let holds = |at: usize| {
            self.starts.get(at).is_some_and(|&s| s <= first) && self.starts.get(at + 1).is_none_or(|&s| s > first)
        };
        if !holds(at) {
            at += 1;
            if !holds(at) {
                at = self.starts.partition_point(|&s| s <= first).saturating_sub(1);
            }
        }
        while let Some(run) = self.run(at) {
            if run.first >= end {
                break;
            }
            *hint = at;
            tell(Cells { first: run.first.max(first), end: run.end.min(end), ..run });
            at += 1;
        }
    }

    /// The same cells put together, `1 << by` at a time, where these are `1 << shift` nanoseconds wide.
    pub(super) fn coarser(&self, shift: u32, by: u32) -> Self {
        let mut out = Self::new(shift + by);
        let mut open = Open::<L>::new();
        for run in self.runs().take_while(|run| run.end < u32::MAX) {
            let mut at = run.first;
            while at < run.end {
                let cell = at >> by;
                let next = (u64::from(cell) + 1) << by;
                let whole = (run.end - at) >> by;
                if at & ((1 << by) - 1) == 0 && whole > 0 {
                    open.close(&mut out);
                    out.push(Cells {
                        first: cell,
                        end: cell + whole,
                        sums: run.sums.map(|s| s << by),
                        label: run.label,
                    });
                    at += whole << by;
                } else {
                    let end = u32::try_from(next).unwrap_or(u32::MAX).min(run.end);
                    open.turn_to(cell, &mut out);
                    let begins = at & ((1 << by) - 1) == 0;
                    open.add(run.sums.map(|s| s * u64::from(end - at)), run.label, begins);
                    at = end;
                }
            }
        }
        open.close(&mut out);
        out.trim();
        out
    }
}

/// A cell in the making.
#[derive(Debug, Clone)]
pub(super) struct Open<L> {
    cell: Option<u32>,
    sums: Sums,
    /// The label, of a cell that takes its first part's.
    first: Option<u32>,
    /// For how long there was what, of a cell that takes what was there longest.
    tally: Vec<(u32, u64)>,
    lanes: PhantomData<L>,
}

/// Of so many different things in one cell it is known for how long each was there; one more takes the place of the one
/// that was there for the shortest time.
const TALLIED: usize = 24;

impl<L: Lanes> Open<L> {
    pub(super) fn new() -> Self {
        Self { cell: None, sums: Sums::default(), first: None, tally: Vec::new(), lanes: PhantomData }
    }

    /// Number of the cell.
    pub(super) fn cell(&self) -> Option<u32> {
        self.cell
    }

    /// Makes `cell` the one in the making.
    pub(super) fn turn_to(&mut self, cell: u32, level: &mut Level<L>) {
        if self.cell != Some(cell) {
            self.close(level);
            self.cell = Some(cell);
        }
    }

    /// Adds a part; `begins` is whether the cell begins with it.
    pub(super) fn add(&mut self, sums: Sums, label: u32, begins: bool) {
        self.sums.iter_mut().zip(sums).for_each(|(sum, more)| *sum += more);
        if L::FIRST {
            if begins {
                self.first = Some(label);
            }
            return;
        }
        let ns: u64 = sums.iter().sum();
        if ns == 0 {
            return;
        }
        if let Some((_, sum)) = self.tally.iter_mut().find(|(known, _)| *known == label) {
            *sum += ns;
        } else if self.tally.len() < TALLIED {
            self.tally.push((label, ns));
        } else if let Some(least) = self.tally.iter_mut().min_by_key(|(_, sum)| *sum)
            && least.1 < ns
        {
            *least = (label, ns);
        }
    }

    /// Cells are twice as wide now. True where this one is the second half of one.
    pub(super) fn halve(&mut self) -> bool {
        let second = self.cell.is_some_and(|cell| cell & 1 == 1);
        self.cell = self.cell.map(|cell| cell >> 1);
        second
    }

    /// Goes on with a cell that was closed too early, whatever was added since.
    pub(super) fn begin_with(&mut self, begun: Cells) {
        self.cell = Some(begun.first);
        self.first = None;
        self.add(begun.sums, begun.label, begun.label != NOTHING);
    }

    /// There was nothing where the cell begins.
    pub(super) fn begins_empty(&mut self) {
        self.first = None;
    }

    /// Puts the cell behind the others.
    pub(super) fn close(&mut self, level: &mut Level<L>) {
        let Some(first) = self.cell.take() else { return };
        let longest = self.tally.iter().max_by_key(|&&(label, ns)| (ns, std::cmp::Reverse(label)));
        let label = if L::FIRST { self.first } else { longest.map(|&(label, _)| label) };
        level.push(Cells { first, end: first.saturating_add(1), sums: self.sums, label: label.unwrap_or(NOTHING) });
        self.sums = Sums::default();
        self.first = None;
        self.tally.clear();
    }
}
