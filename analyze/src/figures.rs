//! The figures of an analysis. Two programs that read the same trace must get the same ones; they
//! are defined in `spec/semantics.md`.

use std::collections::BTreeMap;

use ingero_format::catalog::{FuncId, TaskId};
use ingero_replay::{CallSpan, ProcessId, Processes, Spent};

use crate::chain::{Ending, Tree};
use crate::devices::Busy;
use crate::feed::Gap;
use crate::phases::Phase;
use crate::shares::Share;
use crate::totals::ProcessTotals;

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
    /// Of the runnable part, that in which another CPU was idle which the thread may not use.
    pub squeezed_ns: u64,
    /// Stays that began before the range or run past its end: at least this long together.
    pub unfinished_ns: u64,
    /// Switch-ins that were made up.
    pub synthesised: u64,
}

impl OffCpuFigures {
    /// The longest closed stay; none where there is none.
    #[must_use]
    pub fn worst_ns(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max_ns)
    }
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
    /// Of a source that kept a sample: all that can be said, in place of the figures above.
    pub totals: Option<ProcessTotals>,
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
            || self.totals.is_some()
    }
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

/// Calls of one sort in a phase, the outermost alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallsFigures {
    /// How many.
    pub count: u64,
    /// Their time.
    pub ns: u64,
    /// Where it went.
    pub spent: Spent,
    /// Where it went, of those that were made in a gap that counts as lost.
    pub in_gaps: Spent,
    /// What they ran in gaps of less than a millisecond that a wait for the device began.
    pub(crate) behind_waits_ns: u64,
    /// Of that, in gaps that count as lost.
    pub(crate) behind_waits_lost_ns: u64,
    /// Sixteenths of the phase in which there was one, as bits.
    pub spread: u16,
    /// Time by function.
    pub ops: BTreeMap<FuncId, u64>,
    /// Bytes that they moved or asked for.
    pub bytes: u64,
    /// The longest.
    pub longest: Option<Stretch>,
    /// From when to when each was made, where others must know: of allocations and releases.
    pub(crate) stretches: Vec<(u64, u64)>,
}

impl CallsFigures {
    /// The function that took longest.
    #[must_use]
    pub fn op(&self) -> Option<FuncId> {
        longest(&self.ops)
    }

    /// Adds a call, with the gap of its thread's that it lies in.
    pub(crate) fn add(&mut self, span: &CallSpan, phase: &Phase, gap: Option<&Gap>) {
        self.count += 1;
        self.ns = self.ns.saturating_add(span.dur_ns());
        self.spent += span.spent;
        let place = u128::from(span.start_ns.saturating_sub(phase.start_ns)) * 16;
        let sixteenth = place.checked_div(u128::from(phase.len_ns())).unwrap_or(0).min(15);
        self.spread |= 1 << sixteenth;
        let of_func = self.ops.entry(span.call.func).or_default();
        *of_func = of_func.saturating_add(span.dur_ns());
        self.bytes = self.bytes.saturating_add(span.call.bytes.unwrap_or(0));
        if let Some(gap) = gap {
            let running_ns = if gap.is_behind_wait() { span.spent.running_ns } else { 0 };
            self.behind_waits_ns = self.behind_waits_ns.saturating_add(running_ns);
            if gap.is_lost() {
                self.in_gaps += span.spent;
                self.behind_waits_lost_ns = self.behind_waits_lost_ns.saturating_add(running_ns);
            }
        }
        if self.longest.is_none_or(|l| l.len_ns() < span.dur_ns()) {
            self.longest = Some(Stretch { task: span.call.task, start_ns: span.start_ns, end_ns: span.end_ns });
        }
    }
}

fn longest(ops: &BTreeMap<FuncId, u64>) -> Option<FuncId> {
    ops.iter().max_by_key(|(func, ns)| (**ns, std::cmp::Reverse(**func))).map(|(func, _)| *func)
}

/// Large copies whose calls moved their bytes far below what a link does, each judged by itself.
///
/// A copy from pinned memory that is asked for asynchronously returns at once, whatever its size: a call that takes time
/// in proportion to its bytes copies on its own thread. One that waits for the host in any case says less.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlowCopies {
    /// How many.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Their time, but for what their threads had no CPU.
    pub ns: u64,
    /// What they took beyond what a link takes.
    pub lost_ns: u64,
    /// Time by function.
    pub ops: BTreeMap<FuncId, u64>,
    /// The longest.
    pub longest: Option<Stretch>,
    /// From when to when each was made.
    pub(crate) stretches: Vec<(u64, u64)>,
}

/// Smaller copies say nothing about a link: what a call costs at all is most of their time.
const LARGE_COPY_BYTES: u64 = 256 << 10;
/// Smaller ones that are asynchronous neither, for there a call may be held up by anything.
const LARGE_ASYNC_BYTES: u64 = 1 << 20;
/// Bytes per second below which a synchronous copy is slow: 16 lanes of PCIe 3 move 12 GB/s from pinned memory, later
/// ones twice as much each; from pageable memory the driver copies to a buffer first, at 3 to 6 GB/s on most hosts.
const SLOW: u64 = 6_000_000_000;
/// The same for one that is asynchronous, and that should not take the time of its bytes at all.
const SLOW_ASYNC: u64 = 20_000_000_000;
/// What a copy from pinned memory reaches: 16 lanes of PCIe 4.
const LINK: u64 = 20_000_000_000;
/// No copy on the calling thread is slower than this. What goes beyond is a wait for the device, which was busy then.
const SLOWEST: u64 = 1_500_000_000;

impl SlowCopies {
    /// The function that took longest.
    #[must_use]
    pub fn op(&self) -> Option<FuncId> {
        longest(&self.ops)
    }

    /// Adds a copy if it is large and slow.
    pub(crate) fn add(&mut self, span: &CallSpan, is_async: bool) {
        let bytes = span.call.bytes.unwrap_or(0);
        let (large, slow) = if is_async { (LARGE_ASYNC_BYTES, SLOW_ASYNC) } else { (LARGE_COPY_BYTES, SLOW) };
        let at = |rate: u64| u64::try_from(u128::from(bytes) * 1_000_000_000 / u128::from(rate)).unwrap_or(u64::MAX);
        // While its thread had no CPU no copy was made: that has causes of its own.
        let off_ns = span.spent.runnable_ns.saturating_add(span.spent.throttled_ns);
        let dur_ns = span.dur_ns().saturating_sub(off_ns);
        if bytes < large || dur_ns <= at(slow) {
            return;
        }
        self.count += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        self.ns = self.ns.saturating_add(dur_ns);
        let of_func = self.ops.entry(span.call.func).or_default();
        *of_func = of_func.saturating_add(dur_ns);
        self.stretches.push((span.start_ns, span.end_ns));
        self.lost_ns = self.lost_ns.saturating_add(dur_ns.min(at(SLOWEST)).saturating_sub(at(LINK)));
        if self.longest.is_none_or(|l| l.len_ns() < dur_ns) {
            self.longest = Some(Stretch { task: span.call.task, start_ns: span.start_ns, end_ns: span.end_ns });
        }
    }
}

/// One phase with what happened in it.
#[derive(Debug, Clone)]
pub struct PhaseFigures {
    /// Its number: phases are counted over all processes of the trace, or of the range.
    pub number: usize,
    /// The phase.
    pub phase: Phase,
    /// What the submitting threads did in all gaps.
    pub submitters: Spent,
    /// The chains of the gaps that count as lost; where there is neither a submission nor a gap, of all of it.
    pub chains: Tree,
    /// Running time of the submitting threads in gaps of less than a millisecond that a wait for the device began.
    pub after_waits_ns: u64,
    /// Of that, in gaps that count as lost.
    pub after_waits_lost_ns: u64,
    /// Waits for the device.
    pub waits: CallsFigures,
    /// Allocations and releases of memory.
    pub memory: CallsFigures,
    /// Of those, the releases.
    pub releases: CallsFigures,
    /// Large copies between host and device that ran far below the link.
    pub copies: SlowCopies,
    /// Captures, builds and updates of graphs.
    pub graphs: CallsFigures,
    /// Where it has neither a submission nor a gap: what its process's main thread did.
    pub silence: Option<Silence>,
    /// How busy its GPU was by its own count, where that is known, and the process is the only one of its host to submit.
    pub busy: Option<Busy>,
    /// What its process, and those that descend from it, took of it.
    pub(crate) shares: BTreeMap<ProcessId, Share>,
}

/// What a main thread did in a phase in which its process submitted nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Silence {
    /// The thread.
    pub task: TaskId,
    /// All of it.
    pub spent: Spent,
    /// Its longest waits, the longest first.
    pub waits: Vec<LongWait>,
}

/// A wait of a thread, and what ended it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LongWait {
    /// From when on, within the phase.
    pub start_ns: u64,
    /// Until when.
    pub end_ns: u64,
    /// The thread that ended it.
    pub by: Option<TaskId>,
    /// What ended it where no thread did.
    pub ending: Option<Ending>,
    /// Whether it began before the phase, or before the recording.
    pub began_before: bool,
    /// Whether it goes on behind the phase, or to the end of what is known.
    pub unfinished: bool,
}

impl LongWait {
    /// Length of what lies in the phase.
    #[must_use]
    pub fn len_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }
}

impl Silence {
    /// Waits that are kept.
    const WAITS: usize = 4;

    /// Of a phase that has nothing else to tell of its process.
    pub(crate) fn of(phase: &Phase, processes: &Processes) -> Option<Self> {
        let silent = phase.is_silent() && phase.unclaimed.is_empty();
        let task = processes.get(phase.process).leader.filter(|_| silent && phase.sample.is_none())?;
        Some(Self { task, spent: Spent::default(), waits: Vec::new() })
    }

    pub(crate) fn waited(&mut self, wait: LongWait) {
        let longer = self.waits.partition_point(|w| w.len_ns() >= wait.len_ns());
        self.waits.insert(longer, wait);
        self.waits.truncate(Self::WAITS);
    }
}

impl PhaseFigures {
    pub(crate) fn new(number: usize, phase: Phase) -> Self {
        Self {
            number,
            phase,
            submitters: Spent::default(),
            chains: Tree::default(),
            after_waits_ns: 0,
            after_waits_lost_ns: 0,
            waits: CallsFigures::default(),
            memory: CallsFigures::default(),
            releases: CallsFigures::default(),
            copies: SlowCopies::default(),
            graphs: CallsFigures::default(),
            silence: None,
            busy: None,
            shares: BTreeMap::new(),
        }
    }

    /// Whether events were lost in all of it: nothing is known of its gaps.
    #[must_use]
    pub fn is_unclaimed(&self) -> bool {
        !self.phase.unclaimed.is_empty() && self.phase.claimed_ns() == 0
    }

    /// Whether nothing was asked of a GPU in it: there is neither a submission nor a gap between two.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.phase.is_silent()
    }

    /// Share of the phase in which the GPU was given nothing to do, as far as it is claimed and without the end of its process; none where events were lost in
    /// all of it, where nothing was asked of a GPU, and none of a warm-up: most of that is neither a gap nor time in which the
    /// GPU is fed.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    pub fn starved_share(&self) -> Option<f64> {
        match self.phase.asked_ns() {
            _ if self.is_unclaimed() || self.phase.warm_up || self.is_silent() => None,
            0 => None,
            len => Some(self.phase.gaps_ns() as f64 / len as f64),
        }
    }

    /// The gaps that count as lost.
    pub fn lost_gaps(&self) -> impl Iterator<Item = &Gap> {
        self.phase.gaps.iter().filter(|g| g.is_lost())
    }

    /// Length of the gaps that count as lost.
    #[must_use]
    pub fn lost_gaps_ns(&self) -> u64 {
        crate::sum(self.lost_gaps().map(Gap::len_ns))
    }

    /// The longest gap, the first of several.
    #[must_use]
    pub fn longest_gap(&self) -> Option<&Gap> {
        self.phase.gaps.iter().rev().max_by_key(|g| g.len_ns())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_not_slow_for_want_of_a_cpu() {
        use ingero_format::catalog::{Call, FuncId, TaskId};
        use ingero_replay::fixture::returned;
        let copy = |ms: u64, runnable_ms: u64| {
            let call = Call { bytes: Some(6 << 20), copy: Some(1), ..returned(TaskId(1), FuncId(1), ms * 1_000_000) };
            let spent = Spent {
                running_ns: (ms - runnable_ms) * 1_000_000,
                runnable_ns: runnable_ms * 1_000_000,
                ..Spent::default()
            };
            let span = CallSpan { start_ns: 0, end_ns: ms * 1_000_000, call, depth: 0, self_ns: 0, spent };
            let mut copies = SlowCopies::default();
            copies.add(&span, false);
            (copies.count, copies.ns)
        };
        assert_eq!(copy(17, 0), (1, 17_000_000));
        // It ran for 1 ms, at 6.3 GB/s: quick enough.
        assert_eq!(copy(17, 16), (0, 0));
        assert_eq!(copy(19, 16), (1, 3_000_000));
    }

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
