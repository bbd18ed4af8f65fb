//! Takes in what the timeline tells and keeps the figures.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

use ingero_format::Trace;
use ingero_format::catalog::{Body, Call, END_BEGAN_BEFORE, TaskId};
use ingero_replay::{CallSpan, Cpus, Event, OffCpu, OffKind, ProcessId, Processes, Run, Sink, Spent, Window};

use crate::feed::{self, Phase};
use crate::figures::{GapFigures, PhaseFigures, ProcessFigures, Stretch};

/// Longest waits that are kept per phase.
const WAITS_KEPT: usize = 8;
/// Pages of unknown size are taken to be this large.
const PAGE_BYTES: u64 = 4096;

/// Keeps the figures of a walk.
pub(crate) struct Ledger<'a> {
    window: Window,
    processes: &'a Processes,
    page_bytes: u64,
    pub(crate) figures: Vec<ProcessFigures>,
    pub(crate) phases: Vec<PhaseFigures>,
    /// Per process: phases in which its threads may help, or submit.
    helps: Vec<Vec<usize>>,
    /// Per phase: the threads that do help, where the trace tells.
    helpers: Option<Vec<HashSet<TaskId>>>,
    /// Whether the source can tell a throttled task from a preempted one.
    pub(crate) knows_throttling: bool,
}

impl<'a> Ledger<'a> {
    pub(crate) fn new(trace: &Trace, processes: &'a Processes, window: Window, phases: Vec<Phase>) -> Self {
        let ids: Vec<ProcessId> = std::iter::once(ProcessId::IDLE).chain(processes.iter().map(|(id, _)| id)).collect();
        let helps = ids
            .iter()
            .map(|&id| {
                let helps = |p: &Phase| id != ProcessId::IDLE && processes.descends(id, p.process);
                phases.iter().enumerate().filter(|(_, p)| helps(p)).map(|(i, _)| i).collect()
            })
            .collect();
        let helpers = feed::helpers(trace, processes, &phases);
        let phases = phases
            .into_iter()
            .map(|phase| PhaseFigures {
                gaps: vec![GapFigures::default(); phase.gaps.len()],
                helpers_behind: BTreeMap::new(),
                submitter_behind: BTreeMap::new(),
                helpers: BTreeMap::new(),
                waits: Vec::new(),
                phase,
            })
            .collect();
        Self {
            window,
            processes,
            page_bytes: trace.meta("page_size").and_then(|s| s.parse().ok()).unwrap_or(PAGE_BYTES),
            figures: vec![ProcessFigures::default(); ids.len()],
            phases,
            helps,
            helpers,
            knows_throttling: false,
        }
    }

    /// Sorts what has to be sorted once the walk is over.
    pub(crate) fn close(&mut self) {
        for op in self.figures.iter_mut().flat_map(|f| f.ops.values_mut()) {
            op.durations_ns.sort_unstable();
        }
        for phase in &mut self.phases {
            keep_longest(&mut phase.waits);
        }
    }

    fn process(&mut self, task: TaskId) -> &mut ProcessFigures {
        let at = self.processes.of(task).index();
        // Every task has its process by construction; the idle one stands in for a miss.
        let at = if at < self.figures.len() { at } else { 0 };
        &mut self.figures[at]
    }

    /// Adds a thread's state over `from..to` to the gaps of the phases that it matters to.
    fn overlay(&mut self, task: TaskId, from: u64, to: u64, spent: impl Fn(u64, u64) -> Spent) {
        let process = self.processes.of(task);
        let Some(helps) = self.helps.get(process.index()) else { return };
        for &at in helps {
            let Some(p) = self.phases.get_mut(at) else { continue };
            for (gap, from, to) in p.phase.gaps_within(from, to) {
                let part = spent(from, to);
                let submits = p.phase.gaps.get(gap).is_some_and(|g| g.submitter == task);
                let Some(figures) = p.gaps.get_mut(gap) else { continue };
                if submits {
                    figures.submitter += part;
                } else if helps_in(self.helpers.as_deref(), at, task) {
                    figures.helpers += part;
                    *p.helpers.entry(task).or_default() += part;
                }
            }
        }
    }

    /// Adds who held the CPU while `task` could have run: to its process where the stay is `closed`, as the runnable
    /// time that is reported of it is that of closed stays, and to the phases' gaps in any case.
    fn blame(&mut self, stay: &OffCpu, closed: bool, cpus: &Cpus, from: u64, to: u64) {
        let Some(cpu) = stay.wait_cpu else { return };
        let processes = self.processes;
        // What is blamed for a process adds up to no more than the runnable time that is reported.
        if closed && stay.kind != OffKind::Newborn {
            let behind = &mut self.process(stay.task).behind;
            cpus.holders(cpu, from, to, |holder, ns| grow(behind.entry(processes.of(holder)).or_default(), ns));
        }
        let Some(helps) = self.helps.get(processes.of(stay.task).index()) else { return };
        for &at in helps {
            let Some(p) = self.phases.get_mut(at) else { continue };
            for (gap, from, to) in p.phase.gaps_within(from, to) {
                let submits = p.phase.gaps.get(gap).is_some_and(|g| g.submitter == stay.task);
                if !submits && !helps_in(self.helpers.as_deref(), at, stay.task) {
                    continue;
                }
                let behind = if submits { &mut p.submitter_behind } else { &mut p.helpers_behind };
                cpus.holders(cpu, from, to, |holder, ns| grow(behind.entry(processes.of(holder)).or_default(), ns));
                p.waits.push(Stretch { task: stay.task, start_ns: from, end_ns: to });
                if p.waits.len() >= 32 * WAITS_KEPT {
                    keep_longest(&mut p.waits);
                }
            }
        }
    }
}

/// Whether a thread works for the submitters of a phase.
fn helps_in(helpers: Option<&[HashSet<TaskId>]>, phase: usize, task: TaskId) -> bool {
    helpers.is_none_or(|h| h.get(phase).is_some_and(|h| h.contains(&task)))
}

/// Adds to a sum of times, which stays at the largest number that there is: those of a damaged file may be any.
fn grow(sum: &mut u64, ns: u64) {
    *sum = sum.saturating_add(ns);
}

fn keep_longest(waits: &mut Vec<Stretch>) {
    waits.sort_by_key(|w| (Reverse(w.len_ns()), w.start_ns, w.task));
    waits.truncate(WAITS_KEPT);
}

impl Sink for Ledger<'_> {
    fn event(&mut self, event: &Event) {
        let within = self.window.holds(event.ts_ns);
        match &event.body {
            Body::Switch(e) => {
                self.knows_throttling |= e.throttled.is_some();
                if within && e.prev != TaskId(0) {
                    self.process(e.prev).context_switches += 1;
                }
            }
            Body::PageAlloc(e) if within => {
                let bytes = self.page_bytes.saturating_mul(1 << e.order.min(32));
                let p = self.process(e.task);
                p.page_allocs += 1;
                p.page_alloc_bytes = p.page_alloc_bytes.saturating_add(bytes);
            }
            _ => {}
        }
    }

    fn off_cpu(&mut self, stay: &OffCpu, cpus: &Cpus) {
        let w = self.window;
        // Nothing is told of the time past the last event.
        let last_ns = w.to_ns.min(w.trace_end_ns);
        let end = stay.back.map_or(last_ns, |(_, at)| at);
        let (from, to) = (stay.out_ns.max(w.from_ns), end.min(w.to_ns));
        if to <= from {
            return;
        }
        self.overlay(stay.task, from, to, |from, to| stay.spent(from, to));
        let closed = stay.back.is_some() && !stay.before && stay.out_ns >= w.from_ns && end <= w.to_ns;
        let spent = stay.spent(from, to);
        if stay.kind != OffKind::Newborn {
            let f = &mut self.process(stay.task).off_cpu;
            if closed {
                f.count += 1;
                grow(&mut f.sum_ns, spent.total_ns());
                f.max_ns = f.max_ns.max(spent.total_ns());
                f.spent += spent;
                f.synthesised += u64::from(stay.synthesised);
            } else {
                grow(&mut f.unfinished_ns, spent.total_ns());
            }
        }
        if stay.kind != OffKind::Throttled
            && let Some(runnable_ns) = stay.runnable_ns
        {
            self.blame(stay, closed, cpus, from.max(runnable_ns), to);
        }
    }

    fn run(&mut self, run: &Run) {
        let w = self.window;
        let end = run.end_ns.unwrap_or(w.to_ns.min(w.trace_end_ns)).min(w.to_ns);
        let start = run.start_ns.max(w.from_ns);
        if end > start {
            grow(&mut self.process(run.task).on_cpu_ns, end - start);
            self.overlay(run.task, start, end, |from, to| Spent { running_ns: to - from, ..Spent::default() });
        }
    }

    fn call(&mut self, span: &CallSpan) {
        if !self.window.holds(span.start_ns) {
            return;
        }
        let op = self.process(span.call.task).ops.entry(span.call.func).or_default();
        op.durations_ns.push(span.dur_ns());
        op.errors += u64::from(span.call.result.is_some_and(|r| r != 0));
        grow(&mut op.self_ns, span.self_ns);
        op.spent += span.spent;
        if let Some(bytes) = span.call.bytes {
            op.bytes = Some(op.bytes.unwrap_or(0).saturating_add(bytes));
        }
    }

    fn unreturned(&mut self, at_ns: u64, call: &Call) {
        if self.window.holds(at_ns) {
            let op = self.process(call.task).ops.entry(call.func).or_default();
            match call.end {
                END_BEGAN_BEFORE => op.began_before += 1,
                _ => op.unreturned += 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Analysis;
    use ingero_format::catalog::{Class, Layer};
    use ingero_replay::fixture::Fixture;

    const IDLE: TaskId = TaskId(0);
    const PREEMPTED: u64 = 0x100;

    #[test]
    fn an_unfinished_stay_ends_with_the_last_event() {
        let mut f = Fixture::new();
        let a = f.task(1, 1);
        f.switch(100, 0, IDLE, 0, a);
        f.switch(200, 0, a, 1, IDLE);
        f.switch(1000, 1, IDLE, 0, IDLE);
        let trace = f.finish();
        let a = Analysis::new(&trace, Window::whole(&trace));
        let [id] = a.active()[..] else { panic!("{:?}", a.active()) };
        assert_eq!((a.figures(id).on_cpu_ns, a.figures(id).off_cpu.unfinished_ns), (100, 800));
    }

    #[test]
    fn whoever_waits_all_through_the_range_is_there() {
        let mut f = Fixture::new();
        let a = f.task(1, 1);
        f.switch(100, 0, IDLE, 0, a);
        f.switch(200, 0, a, 1, IDLE);
        f.switch(900, 0, IDLE, 0, a);
        let trace = f.finish();
        let window = Window { from_ns: 300, to_ns: 500, ..Window::whole(&trace) };
        let a = Analysis::new(&trace, window);
        let [id] = a.active()[..] else { panic!("{:?}", a.active()) };
        assert_eq!(a.figures(id).off_cpu.unfinished_ns, 200);
    }

    #[test]
    fn a_wait_that_the_range_cuts_has_its_holder_in_the_gap_and_not_in_the_figures() {
        let mut f = Fixture::new();
        let (main, hog) = (f.task(1, 1), f.task(2, 2));
        let launch = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
        f.switch(0, 0, IDLE, 0, main);
        f.call(1_000, 0, main, launch, 1_000);
        f.switch(100_000, 0, main, PREEMPTED, hog);
        f.switch(900_000, 0, hog, PREEMPTED, main);
        f.call(950_000, 0, main, launch, 1_000);
        f.switch(960_000, 0, main, 1, IDLE);
        let trace = f.finish();
        let processes = Processes::new(&trace);
        let window = Window { from_ns: 500_000, ..Window::whole(&trace) };
        // The gap as a whole: phases know the range by their calls alone.
        let phases = feed::phases(&trace, &processes, &Window::whole(&trace));
        let mut ledger = Ledger::new(&trace, &processes, window, phases);
        ingero_replay::Timeline::new(&trace).run(&mut ledger);
        let hog = processes.of(hog);
        assert_eq!(ledger.phases[0].submitter_behind.get(&hog), Some(&400_000));
        assert!(ledger.process(main).behind.is_empty());
        assert_eq!(ledger.process(main).off_cpu.unfinished_ns, 400_000);
    }
}
