//! The figures of an analysis. Two programs that read the same trace must get the same ones; they
//! are defined in `spec/semantics.md`.

use std::collections::BTreeMap;

use ingero_format::catalog::{FuncId, TaskId};
use ingero_replay::{ProcessId, Spent};

use crate::feed::Phase;

/// Stays off a CPU of all threads of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OffCpuFigures {
    /// Closed stays.
    pub count: u64,
    /// Their sum.
    pub sum_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// How they divide.
    pub spent: Spent,
    /// Stays that began before the range or run past its end: at least this long together.
    pub unfinished_ns: u64,
    /// Switch-ins that were made up.
    pub synthesised: u64,
}

/// Calls of one function by one process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpFigures {
    /// Durations of all calls that returned, sorted.
    pub durations_ns: Vec<u64>,
    /// Calls that never returned.
    pub unreturned: u64,
    /// Returns of calls that were entered before the recording.
    pub began_before: u64,
    /// Calls whose result is not 0.
    pub errors: u64,
    /// Bytes asked for or copied, where the calls say.
    pub bytes: Option<u64>,
    /// Time outside of calls within them.
    pub self_ns: u64,
    /// Where the time of the calls that returned went.
    pub spent: Spent,
}

impl OpFigures {
    /// Calls that returned.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.durations_ns.len() as u64
    }

    /// Time of all calls that returned.
    #[must_use]
    pub fn sum_ns(&self) -> u64 {
        crate::sum(self.durations_ns.iter().copied())
    }

    /// Mean duration, rounded down.
    #[must_use]
    pub fn mean_ns(&self) -> Option<u64> {
        self.sum_ns().checked_div(self.count())
    }

    /// The nearest-rank percentile: the `ceil(q·n)`-th smallest, `q` in hundredths.
    #[must_use]
    pub fn percentile_ns(&self, hundredths: u64) -> Option<u64> {
        let rank = (self.count() * hundredths).div_ceil(100).max(1) - 1;
        self.durations_ns.get(usize::try_from(rank).ok()?).copied()
    }
}

/// One process.
#[derive(Debug, Clone, Default)]
pub struct ProcessFigures {
    /// Switch-outs of its threads.
    pub context_switches: u64,
    /// Stays off a CPU.
    pub off_cpu: OffCpuFigures,
    /// Time on a CPU.
    pub on_cpu_ns: u64,
    /// Who was on the CPU that its threads could have run on.
    pub behind: BTreeMap<ProcessId, u64>,
    /// Pages handed out to it.
    pub page_allocs: u64,
    /// The same in bytes.
    pub page_alloc_bytes: u64,
    /// Calls by function.
    pub ops: BTreeMap<FuncId, OpFigures>,
}

impl ProcessFigures {
    /// Whether anything at all was seen of it.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.context_switches > 0
            || self.on_cpu_ns > 0
            // Whoever waits all through the range does nothing else.
            || self.off_cpu.unfinished_ns > 0
            || self.page_allocs > 0
            || !self.ops.is_empty()
    }
}

/// What happened in one gap.
#[derive(Debug, Clone, Copy, Default)]
pub struct GapFigures {
    /// What the submitting thread did.
    pub submitter: Spent,
    /// What the threads that may have worked for it did: the other threads of its process and those
    /// of the processes that descend from it, added up.
    pub helpers: Spent,
}

/// A stretch that shows a cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// The thread.
    pub task: TaskId,
    /// Begin.
    pub start_ns: u64,
    /// End.
    pub end_ns: u64,
}

impl Stretch {
    /// Length.
    #[must_use]
    pub fn len_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// One phase with what happened in its gaps.
#[derive(Debug, Clone)]
pub struct PhaseFigures {
    /// The phase.
    pub phase: Phase,
    /// One entry per gap.
    pub gaps: Vec<GapFigures>,
    /// Who was on the CPU that a helper could have run on during a gap, added up over the helpers.
    pub helpers_behind: BTreeMap<ProcessId, u64>,
    /// Who was on the CPU that the submitting thread could have run on during a gap.
    pub submitter_behind: BTreeMap<ProcessId, u64>,
    /// What each helper did during the gaps.
    pub helpers: BTreeMap<TaskId, Spent>,
    /// The longest waits of helpers and submitters for a CPU during gaps, longest first.
    pub waits: Vec<Stretch>,
}

impl PhaseFigures {
    /// Share of the phase in which the GPU was given nothing to do.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    pub fn starved_share(&self) -> f64 {
        match self.phase.len_ns() {
            0 => 0.0,
            len => self.phase.gaps_ns() as f64 / len as f64,
        }
    }

    /// What the submitting threads did in all gaps.
    #[must_use]
    pub fn submitters(&self) -> Spent {
        self.gaps.iter().fold(Spent::default(), |mut sum, g| {
            sum += g.submitter;
            sum
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_rank() {
        let op = |durations_ns: &[u64]| OpFigures { durations_ns: durations_ns.to_vec(), ..OpFigures::default() };
        let hundred: Vec<u64> = (1..=100).collect();
        for (q, expected) in [(50, 50), (95, 95), (99, 99), (100, 100), (0, 1)] {
            assert_eq!(op(&hundred).percentile_ns(q), Some(expected));
        }
        assert_eq!(op(&[15, 20, 35, 40, 50]).percentile_ns(50), Some(35));
        assert_eq!(op(&[15, 20, 35, 40]).percentile_ns(50), Some(20));
        assert_eq!(op(&[7]).percentile_ns(99), Some(7));
        assert_eq!(op(&[]).percentile_ns(50), None);
        assert_eq!(op(&[]).mean_ns(), None);
    }
}
