//! What one thread or CPU did through the whole trace, at every width of cells.

use super::level::{Cells, Lanes, Level, NOTHING, Open, Sums};

/// Each level has cells as wide as so many of the one below, as a power of two.
pub(super) const STEP: u32 = 2;
/// A level with no more runs than this needs none above it.
const FEW_RUNS: usize = 32;

/// A track in the making. Times count from the trace's start.
#[derive(Debug, Clone)]
pub(super) struct Growing<L> {
    base: Level<L>,
    open: Open<L>,
    /// Until when it is known.
    filled_ns: u64,
}

impl<L: Lanes> Growing<L> {
    pub(super) fn new(shift: u32) -> Self {
        Self { base: Level::new(shift), open: Open::new(), filled_ns: 0 }
    }

    /// Runs that it holds.
    pub(super) fn len(&self) -> usize {
        self.base.len()
    }

    /// Adds a stretch, `1 << shift` nanoseconds to a cell. Stretches come in order; of one that lies before what is known
    /// already only the rest counts.
    pub(super) fn add(&mut self, shift: u32, lane: usize, from_ns: u64, to_ns: u64, label: u32) {
        let mut at = from_ns.max(self.filled_ns);
        if at >= to_ns {
            return;
        }
        self.filled_ns = to_ns;
        let sums = |ns: u64| {
            let mut sums = Sums::default();
            if let Some(sum) = sums.get_mut(lane) {
                *sum = ns;
            }
            sums
        };
        while at < to_ns {
            let cell = at >> shift;
            let begin = cell << shift;
            let whole = (to_ns >> shift) - cell;
            // The trace's length in cells of this width fits: whoever chose the width saw to it.
            let number = u32::try_from(cell).unwrap_or(u32::MAX);
            if at == begin && whole > 0 {
                self.open.close(&mut self.base);
                let end = u32::try_from(cell + whole).unwrap_or(u32::MAX);
                self.base.push(Cells { first: number, end, sums: sums(1 << shift), label });
                at = begin + (whole << shift);
            } else {
                let end = begin.saturating_add(1 << shift).min(to_ns);
                self.open.turn_to(number, &mut self.base);
                self.open.add(sums(end - at), label, at == begin);
                at = end;
            }
        }
    }

    /// Makes cells of two, where they were `1 << shift` nanoseconds wide.
    pub(super) fn widen(&mut self, shift: u32) {
        self.base = self.base.coarser(shift, 1);
        let half = self.open.halve();
        // The cell that is not over may have begun with one that was.
        let cell = self.open.cell().or_else(|| u32::try_from(self.filled_ns >> (shift + 1)).ok());
        if let Some(cell) = cell
            && self.base.end() == cell.checked_add(1)
            && let Some(begun) = self.base.take_last()
        {
            self.open.begin_with(begun);
        } else if half {
            self.open.begins_empty();
        }
    }

    /// The track, with all its levels.
    pub(super) fn finish(mut self, shift: u32, length_ns: u64) -> Track<L> {
        self.open.close(&mut self.base);
        self.base.trim();
        Track::over(self.base, shift, length_ns)
    }
}

/// A finished track.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Track<L> {
    /// Width of the smallest cells, as a power of two.
    shift: u32,
    /// Length of the trace: its last cell ends there.
    length_ns: u64,
    /// From the smallest cells to the widest; never none.
    levels: Vec<Level<L>>,
}

/// What there is within a range, and the places where it was found, which make it quick to go on to the next.
#[derive(Debug, Clone, Default)]
pub(super) struct Pass {
    pub(super) sums: Sums,
    /// For how long there was what.
    tally: Vec<(u32, u64)>,
    hints: Vec<usize>,
}

impl Pass {
    /// Forgets what was found, not where.
    pub(super) fn clear(&mut self) {
        self.sums = Sums::default();
        self.tally.clear();
    }

    /// What was there longest.
    pub(super) fn longest(&self) -> Option<u32> {
        let longest = self.tally.iter().max_by_key(|&&(label, ns)| (ns, std::cmp::Reverse(label)))?;
        Some(longest.0)
    }

    fn add(&mut self, sums: Sums, label: u32, tallied: bool) {
        self.sums.iter_mut().zip(sums).for_each(|(sum, more)| *sum += more);
        if tallied && label != NOTHING {
            let ns = sums.iter().sum();
            match self.tally.iter_mut().find(|(known, _)| *known == label) {
                Some((_, sum)) => *sum += ns,
                None => self.tally.push((label, ns)),
            }
        }
    }
}

impl<L: Lanes> Track<L> {
    /// A track by its smallest cells.
    pub(super) fn over(base: Level<L>, shift: u32, length_ns: u64) -> Self {
        let mut levels = vec![base];
        let mut width = shift;
        while let Some(last) = levels.last()
            && last.len() > FEW_RUNS
            && width + STEP < u64::BITS
        {
            let wider = last.coarser(width, STEP);
            width += STEP;
            levels.push(wider);
        }
        Self { shift, length_ns, levels }
    }

    /// Width of the smallest cells, as a power of two.
    pub(super) fn shift(&self) -> u32 {
        self.shift
    }

    /// The smallest cells.
    pub(super) fn base(&self) -> Option<&Level<L>> {
        self.levels.first()
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.levels.iter().map(Level::held_bytes).sum()
    }

    /// The run of smallest cells that holds an instant.
    pub(super) fn run_at(&self, at_ns: u64) -> Option<Cells> {
        let cell = u32::try_from(at_ns >> self.shift).ok()?;
        let mut found = None;
        self.base()?.within(cell, cell.saturating_add(1), &mut 0, |run| found = Some(run));
        let first = found?.first;
        // Told cut to the one cell: the run itself is looked up by its place.
        let place = self.base()?.place(first)?;
        self.base()?.run(place)
    }

    /// Adds what there is within a range, touching few cells whatever its length. Of a cell that the range has a part of, it
    /// takes as large a part.
    pub(super) fn add_up(&self, from_ns: u64, to_ns: u64, pass: &mut Pass) {
        pass.hints.resize(self.levels.len(), 0);
        if from_ns >= to_ns {
            return;
        }
        let shift = self.shift;
        let (first, last) = (from_ns >> shift, to_ns >> shift);
        let within = |ns: u64, cell: u64| ns - (cell << shift);
        if first == last {
            self.add_part(first, within(from_ns, first), within(to_ns, first), pass);
            return;
        }
        let mut begin = first;
        if within(from_ns, first) > 0 {
            self.add_part(first, within(from_ns, first), 1 << shift, pass);
            begin += 1;
        }
        self.add_cells(begin, last, pass);
        self.add_part(last, 0, within(to_ns, last), pass);
    }

    /// Length of one of the smallest cells within the trace.
    pub(super) fn width(&self, cell: u32) -> u64 {
        self.length_ns.saturating_sub(u64::from(cell) << self.shift).min(1 << self.shift)
    }

    /// Adds whole cells.
    fn add_cells(&self, begin: u64, end: u64, pass: &mut Pass) {
        let number = |cell: u64| u32::try_from(cell).unwrap_or(u32::MAX);
        let (mut begin, mut end) = (number(begin), number(end));
        let per_cell = 1u32 << STEP;
        for (at, level) in self.levels.iter().enumerate() {
            let mut add = |from: u32, to: u32| {
                let Some(mut hint) = pass.hints.get(at).copied() else { return };
                level.within(from, to, &mut hint, |run| {
                    let n = u64::from(run.end - run.first);
                    pass.add(run.sums.map(|s| s * n), run.label, !L::FIRST);
                });
                if let Some(place) = pass.hints.get_mut(at) {
                    *place = hint;
                }
            };
            let (up, down) = (begin.next_multiple_of(per_cell), end / per_cell * per_cell);
            if at + 1 == self.levels.len() || up >= down {
                add(begin, end);
                return;
            }
            add(begin, up);
            add(down, end);
            (begin, end) = (up / per_cell, down / per_cell);
        }
    }

    /// Adds the part of a cell from one distance from its begin to another. Parts that follow one another add up to the cell.
    fn add_part(&self, cell: u64, from: u64, to: u64, pass: &mut Pass) {
        let (Ok(cell), Some(base)) = (u32::try_from(cell), self.base()) else { return };
        if from >= to {
            return;
        }
        let Some(mut hint) = pass.hints.first().copied() else { return };
        let width = self.width(cell);
        let until = |sum: u64, ns: u64| {
            let part = u128::from(sum) * u128::from(ns.min(width)) / u128::from(width.max(1));
            u64::try_from(part).unwrap_or(u64::MAX)
        };
        base.within(cell, cell.saturating_add(1), &mut hint, |run| {
            pass.add(run.sums.map(|sum| until(sum, to) - until(sum, from)), run.label, !L::FIRST);
        });
        if let Some(place) = pass.hints.first_mut() {
            *place = hint;
        }
    }
}
