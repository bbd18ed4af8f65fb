//! What can be said of a source that kept a sample: its own totals, or, where it kept none, those of
//! what it stored. Nothing is said of what only all events would tell.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ingero_format::Trace;
use ingero_format::catalog::{Aggregate, Body, FuncId, Kind, TaskId};
use ingero_replay::{Merge, PageSizes, ProcessId, Processes, Window};

use crate::sample::Sampled;

/// Totals of one operation of one process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpTotals {
    /// Events that happened.
    pub count: u64,
    /// Sum of their durations, where the totals and the stored events do not overlap.
    pub sum_ns: Option<u64>,
    /// The longest.
    pub max_ns: Option<u64>,
    /// Bytes asked for, copied or handed out.
    pub bytes: Option<u64>,
}

impl OpTotals {
    /// Mean duration, rounded down.
    #[must_use]
    pub fn mean_ns(&self) -> Option<u64> {
        self.sum_ns?.checked_div(self.count)
    }
}

/// Totals of one process. What is none cannot be known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessTotals {
    /// Stays off a CPU, one per context switch.
    pub off_cpu: Option<OpTotals>,
    /// Page allocations.
    pub page_allocs: Option<OpTotals>,
    /// Calls by function.
    pub ops: BTreeMap<FuncId, OpTotals>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    OffCpu,
    PageAllocs,
    Call(FuncId),
}

/// What the source says and what it stored, of one operation of one process.
#[derive(Default)]
struct Sources {
    counted: OpTotals,
    claimed: u64,
    has_totals: bool,
    stored: OpTotals,
}

impl OpTotals {
    fn add(&mut self, count: u64, sum_ns: Option<u64>, max_ns: Option<u64>, bytes: Option<u64>) {
        self.count = self.count.saturating_add(count);
        let add = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (a, b) => a.or(b),
        };
        self.sum_ns = add(self.sum_ns, sum_ns);
        self.bytes = add(self.bytes, bytes);
        self.max_ns = self.max_ns.max(max_ns);
    }
}

impl Sources {
    /// The totals count what was stored, unless more is stored than they say: then they leave that out.
    fn totals(&self) -> OpTotals {
        let (counted, stored) = (self.counted, self.stored);
        if !self.has_totals {
            return stored;
        }
        if stored.count <= self.claimed {
            return OpTotals { max_ns: counted.max_ns.max(stored.max_ns), ..counted };
        }
        let mut both = counted;
        both.add(stored.count - self.claimed, stored.sum_ns, stored.max_ns, stored.bytes);
        if self.claimed > 0 {
            // Which of the stored events the sums include cannot be told.
            (both.sum_ns, both.bytes) = (None, None);
        }
        both
    }
}

/// The totals of all processes of hosts whose sources kept a sample. In a part of the trace only those of sources that keep none are known:
/// a total is of whole minutes.
pub(crate) fn of(trace: &Trace, processes: &Processes, window: &Window) -> HashMap<ProcessId, ProcessTotals> {
    let mut sources: HashMap<(ProcessId, Key), Sources> = HashMap::new();
    let wanted = |k| matches!(k, Kind::Aggregate | Kind::OffCpu | Kind::Call | Kind::PageAlloc);
    let sampled = Sampled::new(trace);
    let page_sizes = PageSizes::new(trace);
    // The hosts whose sources keep totals.
    let mut counting = BTreeSet::new();
    for event in Merge::of(trace, wanted) {
        let within = window.holds(event.ts_ns);
        let is_sampled = |task: TaskId| sampled.of_pid(trace.task(task).pid);
        match event.body {
            Body::Aggregate(e) if is_sampled(e.task) => {
                counting.insert(sampled.host_of(trace.task(e.task).pid));
                let Some(key) = key_of(trace, &e) else { continue };
                let entry = sources.entry((processes.of(e.task), key)).or_default();
                entry.has_totals = true;
                entry.claimed = entry.claimed.saturating_add(e.stored);
                let sizes = key == Key::PageAllocs || e.func.is_some() && e.sum_arg0 > 0;
                entry.counted.add(e.count, e.sum_dur_ns, e.max_dur_ns, sizes.then_some(e.sum_arg0));
            }
            Body::OffCpu(e) if within && is_sampled(e.task) => {
                let entry = sources.entry((processes.of(e.task), Key::OffCpu)).or_default();
                entry.stored.add(1, Some(e.dur_ns), Some(e.dur_ns), None);
            }
            Body::Call(e) if within && is_sampled(e.task) => {
                let entry = sources.entry((processes.of(e.task), Key::Call(e.func))).or_default();
                entry.stored.add(1, e.dur_ns, e.dur_ns, e.bytes);
            }
            Body::PageAlloc(e) if within && is_sampled(e.task) => {
                let entry = sources.entry((processes.of(e.task), Key::PageAllocs)).or_default();
                entry.stored.add(1, None, None, Some(page_sizes.bytes(trace, e.task, e.order)));
            }
            _ => {}
        }
    }
    let mut totals: HashMap<ProcessId, ProcessTotals> = HashMap::new();
    let is_told =
        |process: ProcessId| !window.is_cut() || !counting.contains(&sampled.host_of(processes.get(process).pid));
    for ((process, key), of) in sources.into_iter().filter(|((process, _), _)| is_told(*process)) {
        let totals = totals.entry(process).or_default();
        match key {
            Key::OffCpu => totals.off_cpu = Some(of.totals()),
            Key::PageAllocs => totals.page_allocs = Some(of.totals()),
            Key::Call(func) => {
                totals.ops.insert(func, of.totals());
            }
        }
    }
    totals
}

fn key_of(trace: &Trace, e: &Aggregate) -> Option<Key> {
    match (e.func, trace.string(e.op)) {
        (Some(func), _) => Some(Key::Call(func)),
        (None, "sched_switch") => Some(Key::OffCpu),
        (None, "mm_page_alloc") => Some(Key::PageAllocs),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_held_against_what_is_stored() {
        let of = |count, sum_ns, max_ns| OpTotals { count, sum_ns: Some(sum_ns), max_ns: Some(max_ns), bytes: None };
        let sources = |counted, claimed, stored| Sources { counted, claimed, has_totals: true, stored };
        assert_eq!(sources(of(70, 700, 30), 41, of(41, 410, 40)).totals(), of(70, 700, 40));
        assert_eq!(sources(of(70, 700, 30), 45, of(41, 410, 20)).totals(), of(70, 700, 30));
        assert_eq!(sources(of(70, 700, 30), 0, of(5, 50, 40)).totals(), of(75, 750, 40));
        let mixed = sources(of(70, 700, 30), 3, of(5, 50, 40)).totals();
        assert_eq!(mixed, OpTotals { sum_ns: None, ..of(72, 0, 40) });
        assert_eq!(mixed.mean_ns(), None);
        assert_eq!(Sources { stored: of(5, 50, 40), ..Sources::default() }.totals(), of(5, 50, 40));
    }
}
