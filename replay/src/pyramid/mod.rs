//! What every thread and CPU did, added up in cells of time of every width: what a picture of a trace of any length is drawn
//! from without touching its events.
//!
//! [`Pyramid::build`] walks a trace once. [`Pyramid::row`] then divides any range into columns and says for each how long the
//! thread ran, could have run, was throttled, was blocked, and was in a call; it touches a few cells for each column, whatever
//! the length of the range. Sums are exact for ranges that begin and end where cells do ([`Pyramid::cell_ns`]); a range that
//! cuts a cell takes as large a part of what is in it, so that columns side by side always add up. What is in a cell, and in
//! which order, tell the events of its time alone ([`crate::Merge::within`]).
//!
//! A pyramid takes [`MAX_BYTES`] at most: the cells of a trace are as narrow as that allows. A thread that stays in one
//! state takes nothing for it, however long it stays.
//!
//! [`Pyramid::open_or_build`] keeps the pyramid of a large recording in a file beside it ([`cache_path`]).
//!
//! ```no_run
//! use ingero_replay::pyramid::Pyramid;
//! # fn main() -> Result<(), ingero_format::Error> {
//! let trace = ingero_format::Trace::open("run.igt")?;
//! let pyramid = Pyramid::open_or_build(&trace, &mut |_| {});
//! let (from_ns, to_ns) = pyramid.span_ns();
//! for task in pyramid.tasks() {
//!     let cells = pyramid.row(task, from_ns, to_ns, 80);
//!     let text: String = cells.iter().map(|c| if c.running_ns * 2 > c.width_ns { '#' } else { ' ' }).collect();
//!     println!("{:>8} {text}", trace.task(task).tid);
//! }
//! # Ok(())
//! # }
//! ```

mod build;
mod cache;
mod level;
mod order;
mod track;

use std::collections::BTreeMap;

use ingero_format::Trace;
use ingero_format::catalog::{FuncId, TaskId};

pub use cache::cache_path;
pub use order::Group;

use crate::timeline::State;
use level::{Cells, Longest, NOTHING, States};
use track::{Pass, Track};

/// What a pyramid takes in memory at most, about, while it is built and afterwards.
pub const MAX_BYTES: usize = 256 << 20;

/// What a thread did in one column of a row. Times by state add up to the width as far as its state is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cell {
    /// Length of the column.
    pub width_ns: u64,
    /// On a CPU.
    pub running_ns: u64,
    /// Able to run, without a CPU.
    pub runnable_ns: u64,
    /// Held back by a CPU quota.
    pub throttled_ns: u64,
    /// Waiting for something else.
    pub blocked_ns: u64,
    /// Off the CPUs, for want of one or of something else.
    pub off_cpu_ns: u64,
    /// In a call, whatever its state; calls within calls count once.
    pub call_ns: u64,
    /// The outermost call that took longest, or of several cells the one that did so in most of their time.
    pub func: Option<FuncId>,
}

impl Cell {
    /// Time of which it is not known what the thread did.
    #[must_use]
    pub fn unknown_ns(&self) -> u64 {
        self.width_ns.saturating_sub(self.known_ns())
    }

    /// Time of which it is known what the thread did.
    #[must_use]
    pub fn known_ns(&self) -> u64 {
        self.running_ns.saturating_add(self.off_ns())
    }

    /// Time that it was off the CPUs, for whatever reason.
    #[must_use]
    pub fn off_ns(&self) -> u64 {
        let parts = [self.runnable_ns, self.throttled_ns, self.blocked_ns, self.off_cpu_ns];
        parts.into_iter().fold(0, u64::saturating_add)
    }
}

/// Who was on a CPU in one column of its row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuCell {
    /// Length of the column.
    pub width_ns: u64,
    /// For how long a thread ran on it.
    pub busy_ns: u64,
    /// The thread that ran longest, or of several cells the one that did so in most of their time.
    pub task: Option<TaskId>,
}

/// A stretch of whole cells in which a thread kept one state, or nothing is known of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Steady {
    /// The state.
    pub state: Option<State>,
    /// Begin of the first of the cells. The state may have begun within the cell before.
    pub from_ns: u64,
    /// End of the last of them. The state may go on into the next cell.
    pub to_ns: u64,
}

/// What threads and CPUs did.
#[derive(Debug, Clone, PartialEq)]
pub struct Pyramid {
    start_ns: u64,
    /// The instant behind the last one of the trace.
    end_ns: u64,
    /// Width of the smallest cells, as a power of two.
    shift: u32,
    states: BTreeMap<u32, Track<States>>,
    calls: BTreeMap<u32, Track<Longest>>,
    cpus: BTreeMap<u32, Track<Longest>>,
}

impl Pyramid {
    /// Begin and end of the trace: the instants of its first and last events.
    #[must_use]
    pub fn span_ns(&self) -> (u64, u64) {
        (self.start_ns, self.end_ns)
    }

    /// Width of the smallest cells, a power of two. The first begins with the trace.
    #[must_use]
    pub fn cell_ns(&self) -> u64 {
        1 << self.shift
    }

    /// The begin of the smallest cell that holds an instant.
    #[must_use]
    pub fn cell_start_ns(&self, at_ns: u64) -> u64 {
        let from = at_ns.clamp(self.start_ns, self.end_ns) - self.start_ns;
        self.start_ns + (from >> self.shift << self.shift)
    }

    /// Bytes of memory that it takes, about.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let threads = self.states.values().map(Track::held_bytes);
        let others = self.calls.values().chain(self.cpus.values()).map(Track::held_bytes);
        threads.chain(others).sum()
    }

    /// The threads of which anything is known, by their ids.
    pub fn tasks(&self) -> impl Iterator<Item = TaskId> + '_ {
        let calls_only = self.calls.keys().filter(|task| !self.states.contains_key(task));
        let mut tasks: Vec<u32> = self.states.keys().chain(calls_only).copied().collect();
        tasks.sort_unstable();
        tasks.into_iter().map(TaskId)
    }

    /// The CPUs on which a thread ran.
    pub fn cpus(&self) -> impl Iterator<Item = u32> + '_ {
        self.cpus.keys().copied()
    }

    /// Whether a thread was in any call that returned, or that it was still in at the end.
    #[must_use]
    pub fn has_calls(&self, task: TaskId) -> bool {
        self.calls.contains_key(&task.0)
    }

    /// What a thread did from `from_ns` to before `to_ns`, in so many columns of the same width, to a nanosecond. What lies outside
    /// of the trace is unknown.
    #[must_use]
    pub fn row(&self, task: TaskId, from_ns: u64, to_ns: u64, columns: usize) -> Vec<Cell> {
        let (states, calls) = (self.states.get(&task.0), self.calls.get(&task.0));
        let (mut spent, mut called) = (Pass::default(), Pass::default());
        let cell = |(from, to): (u64, u64)| {
            spent.clear();
            called.clear();
            let (clipped_from, clipped_to) = (self.within(from), self.within(to));
            if let Some(track) = states {
                track.add_up(clipped_from, clipped_to, &mut spent);
            }
            if let Some(track) = calls {
                track.add_up(clipped_from, clipped_to, &mut called);
            }
            let [running_ns, runnable_ns, throttled_ns, blocked_ns, off_cpu_ns] = spent.sums;
            Cell {
                width_ns: to - from,
                running_ns,
                runnable_ns,
                throttled_ns,
                blocked_ns,
                off_cpu_ns,
                call_ns: called.sums[0],
                func: called.longest().map(FuncId),
            }
        };
        columns_of(from_ns, to_ns, columns).map(cell).collect()
    }

    /// What a thread did in a range: [`Pyramid::row`] with one column.
    #[must_use]
    pub fn cell(&self, task: TaskId, from_ns: u64, to_ns: u64) -> Cell {
        self.row(task, from_ns, to_ns, 1).pop().unwrap_or_default()
    }

    /// Who was on a CPU, in columns as of [`Pyramid::row`].
    #[must_use]
    pub fn cpu_row(&self, cpu: u32, from_ns: u64, to_ns: u64, columns: usize) -> Vec<CpuCell> {
        let track = self.cpus.get(&cpu);
        let mut pass = Pass::default();
        let cell = |(from, to): (u64, u64)| {
            pass.clear();
            if let Some(track) = track {
                track.add_up(self.within(from), self.within(to), &mut pass);
            }
            CpuCell { width_ns: to - from, busy_ns: pass.sums[0], task: pass.longest().map(TaskId) }
        };
        columns_of(from_ns, to_ns, columns).map(cell).collect()
    }

    /// The stretch of whole cells around an instant in which a thread kept one state, or was not known. None where the cell
    /// that holds the instant has more than one.
    #[must_use]
    pub fn steady(&self, task: TaskId, at_ns: u64) -> Option<Steady> {
        let all = Steady { state: None, from_ns: self.start_ns, to_ns: self.end_ns };
        let Some(track) = self.states.get(&task.0) else { return Some(all) };
        let at = self.within(at_ns);
        let Some(run) = track.run_at(at) else {
            // It comes before the first run.
            let first = track.base().and_then(|base| base.run(0)).map_or(self.end_ns, |run| self.instant(run.first));
            return Some(Steady { to_ns: first, ..all });
        };
        let lanes = run.sums.iter().filter(|&&sum| sum > 0).count();
        let state = if lanes == 0 {
            None
        } else if run.sums.contains(&track.width(run.first)) {
            State::of_label(run.label)
        } else {
            return None;
        };
        Some(Steady { state, from_ns: self.instant(run.first), to_ns: self.instant(run.end) })
    }

    /// The stretch of whole cells around an instant that a thread spent in calls of one function, most of each at least. None
    /// where the cell that holds the instant is not full of calls.
    #[must_use]
    pub fn in_call(&self, task: TaskId, at_ns: u64) -> Option<(u64, u64)> {
        let track = self.calls.get(&task.0)?;
        let is_full = |run: &Cells| run.sums[0] > 0 && run.sums[0] == track.width(run.first);
        let run = track.run_at(self.within(at_ns)).filter(is_full)?;
        Some((self.instant(run.first), self.instant(run.end)))
    }

    /// The begin of one of the smallest cells.
    fn instant(&self, cell: u32) -> u64 {
        self.start_ns + (u64::from(cell) << self.shift).min(self.end_ns - self.start_ns)
    }

    /// The state in which a thread was where the smallest cell that holds an instant begins.
    #[must_use]
    pub fn state_at_cell_start(&self, task: TaskId, at_ns: u64) -> Option<State> {
        let run = self.states.get(&task.0)?.run_at(self.within(at_ns))?;
        if run.label == NOTHING { None } else { State::of_label(run.label) }
    }

    /// An instant from the trace's start on.
    fn within(&self, at_ns: u64) -> u64 {
        at_ns.clamp(self.start_ns, self.end_ns) - self.start_ns
    }

    fn new(trace: &Trace, shift: u32) -> Self {
        let (start_ns, end_ns) = trace.span_ns().unwrap_or((0, 0));
        Self { start_ns, end_ns, shift, states: BTreeMap::new(), calls: BTreeMap::new(), cpus: BTreeMap::new() }
    }
}

/// Begins and ends of columns.
fn columns_of(from_ns: u64, to_ns: u64, columns: usize) -> impl Iterator<Item = (u64, u64)> {
    let length = u128::from(to_ns.saturating_sub(from_ns));
    let edge = move |n: usize| {
        let share = length * n as u128 / columns.max(1) as u128;
        from_ns + u64::try_from(share).unwrap_or(u64::MAX)
    };
    (0..columns).map(move |n| (edge(n), edge(n + 1)))
}

#[cfg(test)]
mod tests;
