//! What threads did in a range that is short enough to be read event by event.
//!
//! A [`Pyramid`] says how much of what there is in each of its cells; where a picture shows less time than that in a column,
//! a [`Closeup`] reads the events of the range, and no others. What is not among them, the state in which each
//! thread comes into the range and the calls that it is in then, comes from the pyramid. [`moment`] says what one
//! thread does at one instant: since when, until when, woken by whom, in which calls.

mod moment;

use std::collections::BTreeMap;

use ingero_format::Trace;
use ingero_format::catalog::{Call, END_OPEN, END_RETURNED, Kind, TaskId};

pub use moment::{Called, Moment, moment, rows_within};

use crate::merge::Merge;
use crate::pyramid::{Cell, Pyramid};
use crate::timeline::{Cpus, EARLY_WAKE_NS, OffCpu, Run, Sink, State, StoredStay, Timeline, Undivided};

/// A stretch of one state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// The state.
    pub state: State,
    /// Begin, or that of what was read.
    pub from_ns: u64,
    /// End, or that of what was read.
    pub to_ns: u64,
}

/// A call and its place among the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nested {
    /// The call.
    pub call: Called,
    /// Calls of its thread around it.
    pub depth: usize,
}

/// What threads did within a range.
#[derive(Debug, Default)]
pub struct Closeup {
    from_ns: u64,
    to_ns: u64,
    states: BTreeMap<TaskId, Vec<Piece>>,
    calls: BTreeMap<TaskId, Vec<Nested>>,
}

/// Threads whose calls are looked for far before the range, at most.
const FAR_CALLS: usize = 64;

impl Closeup {
    /// Reads the events of a range, rounded to whole cells of the pyramid. The calls that `callers` come into the range with
    /// are looked up wherever they began.
    #[must_use]
    pub fn read(trace: &Trace, pyramid: &Pyramid, from_ns: u64, to_ns: u64, callers: &[TaskId]) -> Self {
        let from_ns = pyramid.cell_start_ns(from_ns);
        let to_ns = pyramid.cell_start_ns(to_ns).saturating_add(pyramid.cell_ns());
        // Most calls that reach into the range began in the cell before it, and wakes may be recorded before their switch-outs.
        let first_ns = pyramid.cell_start_ns(from_ns.saturating_sub(EARLY_WAKE_NS));
        let mut this = Self { from_ns, to_ns, ..Self::default() };
        this.find_far_calls(trace, pyramid, first_ns, callers);
        let mut watch =
            Watch { first_ns, last_ns: to_ns.min(pyramid.span_ns().1), closeup: this, began_before: Vec::new() };
        Timeline::new(trace).run_pieces(&[(first_ns, to_ns)], &mut watch);
        watch.finish(pyramid)
    }

    /// Begin and end of what was read.
    #[must_use]
    pub fn span_ns(&self) -> (u64, u64) {
        (self.from_ns, self.to_ns)
    }

    /// Whether a range was read.
    #[must_use]
    pub fn holds(&self, from_ns: u64, to_ns: u64) -> bool {
        self.from_ns <= from_ns && to_ns <= self.to_ns
    }

    /// The stretches of a thread in order; none of a thread that kept its state.
    #[must_use]
    pub fn states(&self, task: TaskId) -> &[Piece] {
        self.states.get(&task).map_or(&[], Vec::as_slice)
    }

    /// The calls of a thread that reach into the range, in the order of their entries.
    #[must_use]
    pub fn calls(&self, task: TaskId) -> &[Nested] {
        self.calls.get(&task).map_or(&[], Vec::as_slice)
    }

    /// What a thread did in columns as of [`Pyramid::row`], exactly, however narrow they are.
    #[must_use]
    pub fn row(&self, pyramid: &Pyramid, task: TaskId, from_ns: u64, to_ns: u64, columns: usize) -> Vec<Cell> {
        let mut cells = pyramid.row(task, from_ns, to_ns, columns);
        let length = u128::from(to_ns.saturating_sub(from_ns));
        let edge = |n: usize| from_ns + u64::try_from(length * n as u128 / columns.max(1) as u128).unwrap_or(0);
        // The columns that a stretch has a part of, with their parts.
        let parts = |a: u64, b: u64, tell: &mut dyn FnMut(usize, u64)| {
            let (a, b) = (a.max(from_ns), b.min(to_ns));
            if a >= b {
                return;
            }
            let near = u128::from(a - from_ns) * columns as u128 / length.max(1);
            let mut column = usize::try_from(near).unwrap_or(0).saturating_sub(1);
            while column < columns && edge(column) < b {
                let ns = b.min(edge(column + 1)).saturating_sub(a.max(edge(column)));
                if ns > 0 {
                    tell(column, ns);
                }
                column += 1;
            }
        };
        let states = self.states(task);
        if !states.is_empty() {
            for cell in &mut cells {
                *cell = Cell { width_ns: cell.width_ns, call_ns: cell.call_ns, func: cell.func, ..Cell::default() };
            }
            for piece in states {
                parts(piece.from_ns, piece.to_ns, &mut |column, ns| {
                    let Some(cell) = cells.get_mut(column) else { return };
                    match piece.state {
                        State::Running => cell.running_ns += ns,
                        State::Runnable => cell.runnable_ns += ns,
                        State::Throttled => cell.throttled_ns += ns,
                        State::Blocked => cell.blocked_ns += ns,
                        State::OffCpu => cell.off_cpu_ns += ns,
                    }
                });
            }
        }
        if pyramid.has_calls(task) {
            let mut longest = vec![0; columns];
            for cell in &mut cells {
                *cell = Cell { call_ns: 0, func: None, ..*cell };
            }
            for nested in self.calls(task).iter().filter(|nested| nested.depth == 0) {
                let Some(end) = nested.call.end_ns else { continue };
                parts(nested.call.start_ns, end, &mut |column, ns| {
                    let (Some(cell), Some(longest)) = (cells.get_mut(column), longest.get_mut(column)) else { return };
                    cell.call_ns += ns;
                    if ns > *longest {
                        *longest = ns;
                        cell.func = Some(nested.call.func);
                    }
                });
            }
        }
        cells
    }

    /// Looks up the calls that began before the first cell that is read and go on in it.
    fn find_far_calls(&mut self, trace: &Trace, pyramid: &Pyramid, first_ns: u64, callers: &[TaskId]) {
        let mut left = FAR_CALLS;
        for &task in callers {
            if first_ns <= pyramid.span_ns().0 || !pyramid.has_calls(task) || left == 0 {
                continue;
            }
            let entry = entry_cell(pyramid, task, first_ns - 1);
            if pyramid.cell(task, entry, entry + pyramid.cell_ns()).call_ns == 0 {
                continue;
            }
            left -= 1;
            let mut wanted = vec![false; trace.tasks().len()];
            if let Some(place) = wanted.get_mut(task.index()) {
                *place = true;
            }
            let calls = Merge::of(trace, |kind| kind == Kind::Call).naming(&wanted);
            for event in calls.within(entry, entry.saturating_add(pyramid.cell_ns()).min(first_ns)) {
                if let ingero_format::catalog::Body::Call(call) = event.body
                    && call.task == task
                {
                    self.enter(event.ts_ns, &call, pyramid.span_ns().1);
                }
            }
        }
    }

    fn enter(&mut self, at_ns: u64, call: &Call, trace_end_ns: u64) {
        let calls = self.calls.entry(call.task).or_default();
        let called = Called::new(at_ns, call, trace_end_ns);
        // Whatever it lies within, innermost last.
        let inside = |outer: &Nested| outer.call.end_ns.is_some_and(|end| end > at_ns);
        let depth = calls.iter().rev().find(|outer| inside(outer)).map_or(0, |outer| outer.depth + 1);
        calls.push(Nested { call: called, depth });
    }
}

/// The begin of the cell in which the outermost call that a thread is in at an instant began, if it is in one at all.
fn entry_cell(pyramid: &Pyramid, task: TaskId, at_ns: u64) -> u64 {
    match pyramid.in_call(task, at_ns) {
        Some((from_ns, _)) => pyramid.cell_start_ns(from_ns.saturating_sub(1)),
        None => pyramid.cell_start_ns(at_ns),
    }
}

impl Called {
    fn new(at_ns: u64, call: &Call, trace_end_ns: u64) -> Self {
        let end_ns = match call.end {
            END_RETURNED => call.dur_ns.and_then(|dur| at_ns.checked_add(dur)),
            // Its thread is in it when the trace ends.
            END_OPEN => Some(trace_end_ns.max(at_ns)),
            _ => None,
        };
        Self { func: call.func, start_ns: at_ns, end_ns, returned: call.end == END_RETURNED, result: call.result }
    }
}

/// Takes in what the timeline tells of the range.
struct Watch {
    first_ns: u64,
    last_ns: u64,
    closeup: Closeup,
    /// Threads of which the first stretch that was told began before, nobody saw when.
    began_before: Vec<TaskId>,
}

impl Watch {
    fn add(&mut self, task: TaskId, state: State, from_ns: u64, to_ns: Option<u64>, before: bool) {
        let pieces = self.closeup.states.entry(task).or_default();
        if pieces.is_empty() && before {
            self.began_before.push(task);
        }
        let from_ns = from_ns.max(pieces.last().map_or(0, |last| last.to_ns));
        let to_ns = to_ns.unwrap_or(self.last_ns);
        if from_ns < to_ns {
            pieces.push(Piece { state, from_ns, to_ns });
        }
    }

    fn finish(mut self, pyramid: &Pyramid) -> Closeup {
        for task in std::mem::take(&mut self.began_before) {
            // Of whoever comes in on its way to a CPU, the events alone cannot tell what it waited for.
            if let Some(first) = self.closeup.states.get_mut(&task).and_then(|pieces| pieces.first_mut())
                && first.state == State::Blocked
                && first.from_ns == self.first_ns
                && let Some(state @ (State::Runnable | State::Throttled | State::OffCpu)) =
                    pyramid.state_at_cell_start(task, self.first_ns)
            {
                first.state = state;
            }
        }
        // Stays that a source stored have no event at their end, and leave nothing known behind it.
        for task in pyramid.tasks() {
            if pyramid.state_at_cell_start(task, self.first_ns) == Some(State::OffCpu) {
                let pieces = self.closeup.states.entry(task).or_default();
                let end = stored_stay_end(pyramid, task, pieces, self.first_ns);
                let end = end.min(pieces.first().map_or(self.last_ns, |first| first.from_ns));
                pieces.insert(0, Piece { state: State::OffCpu, from_ns: self.first_ns, to_ns: end });
            }
        }
        for (&task, pieces) in &mut self.closeup.states {
            let Some(first) = pieces.first() else { continue };
            if first.from_ns > self.first_ns
                && let Some(state) = pyramid.state_at_cell_start(task, self.first_ns)
                && state != State::OffCpu
            {
                let lead = Piece { state, from_ns: self.first_ns, to_ns: first.from_ns };
                pieces.insert(0, lead);
            }
        }
        for (&task, pieces) in &mut self.closeup.states {
            *pieces = agreed(pyramid, task, pieces, (self.first_ns, self.last_ns));
        }
        self.closeup
    }
}

/// When a stay ends that a source stored and that a thread is in at the begin of a cell: what there is of such stays in the cell of its
/// end, less those that begin there.
fn stored_stay_end(pyramid: &Pyramid, task: TaskId, pieces: &[Piece], at_ns: u64) -> u64 {
    let steady = pyramid.steady(task, at_ns).filter(|steady| steady.state == Some(State::OffCpu));
    let cell = steady.map_or(pyramid.cell_start_ns(at_ns), |steady| steady.to_ns);
    if cell >= pyramid.span_ns().1 || pyramid.state_at_cell_start(task, cell) != Some(State::OffCpu) {
        return cell;
    }
    let end = cell.saturating_add(pyramid.cell_ns());
    let begun = pieces.iter().map(|piece| piece.to_ns.min(end).saturating_sub(piece.from_ns.max(cell)));
    cell + pyramid.cell(task, cell, end).off_cpu_ns.saturating_sub(begun.fold(0, u64::saturating_add))
}

/// Stretches as the events of a range tell them, but for whole cells in which a walk through all events knows better: of a stay
/// that turns out later to have ended unseen, nothing is known.
fn agreed(pyramid: &Pyramid, task: TaskId, pieces: &[Piece], (first_ns, last_ns): (u64, u64)) -> Vec<Piece> {
    let mut out: Vec<Piece> = Vec::with_capacity(pieces.len() + 2);
    let mut add = |piece: Piece| match out.last_mut() {
        Some(last) if last.state == piece.state && last.to_ns == piece.from_ns => last.to_ns = piece.to_ns,
        _ if piece.from_ns < piece.to_ns => out.push(piece),
        _ => {}
    };
    let (mut at, mut next) = (first_ns, 0);
    while at < last_ns {
        let steady = pyramid.steady(task, at);
        let cell_end = pyramid.cell_start_ns(at).saturating_add(pyramid.cell_ns());
        let end = steady.map_or(cell_end, |steady| steady.to_ns).clamp(at + 1, last_ns);
        match steady {
            Some(steady) => {
                if let Some(state) = steady.state {
                    add(Piece { state, from_ns: at, to_ns: end });
                }
            }
            None => {
                while pieces.get(next).is_some_and(|piece| piece.to_ns <= at) {
                    next += 1;
                }
                for piece in pieces.iter().skip(next).take_while(|piece| piece.from_ns < end) {
                    add(Piece { from_ns: piece.from_ns.max(at), to_ns: piece.to_ns.min(end), ..*piece });
                }
            }
        }
        at = end;
    }
    out
}

impl Sink for Watch {
    fn off_cpu(&mut self, stay: &OffCpu, _cpus: &Cpus) {
        for (state, from_ns, to_ns) in stay.parts() {
            self.add(stay.task, state, from_ns, to_ns, stay.before);
        }
    }
    fn stored_stay(&mut self, stay: &StoredStay) {
        self.add(stay.task, State::OffCpu, stay.out_ns, Some(stay.back_ns), false);
    }
    fn undivided(&mut self, part: &Undivided) {
        self.add(part.task, State::OffCpu, part.from_ns, part.to_ns, part.out_ns.is_none());
    }
    fn run(&mut self, run: &Run) {
        self.add(run.task, State::Running, run.start_ns, run.end_ns, run.before);
    }
    fn enter(&mut self, at_ns: u64, call: &Call) {
        self.closeup.enter(at_ns, call, self.last_ns);
    }
}

#[cfg(test)]
mod tests;
