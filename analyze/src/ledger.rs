//! Takes in what the timeline tells and keeps the figures.

use std::collections::BTreeMap;
use std::ops::Range;

use ingero_format::Trace;
use ingero_format::catalog::{Body, Call, Class, END_BEGAN_BEFORE, Kind, NO_CPU, TaskId};
use ingero_replay::{
    Blind, CallSpan, Cpus, Event, Merge, Missing, OffCpu, OffKind, PageSizes, ProcessId, Processes, Run, Sink, Spent,
    Waker, Window,
};

use crate::affinity::Affinities;
use crate::behind::Behind;
use crate::chain::{Ending, History, LOOKS_NS, Machine, Surroundings, Wait, manner};
use crate::devices::{Busy, Devices};
use crate::disks::Disks;
use crate::feed::Gap;
use crate::figures::{LongWait, PhaseFigures, ProcessFigures, Silence};
use crate::grow;
use crate::known::Known;
use crate::peers::Peers;
use crate::phases::Phase;
use crate::shares::{Share, Shares};
use crate::signs::Signs;
use crate::works::Works;

/// A copy to the host that follows a wait for the device so soon waits for nothing.
const RIGHT_AFTER_NS: u64 = 50_000;
const TO_HOST: u64 = 2;
/// Copies that stay on one side of the link: within the host, within a device.
const NO_LINK: [Option<u64>; 2] = [Some(0), Some(3)];

/// Keeps the figures of a walk.
pub(crate) struct Ledger<'a> {
    trace: &'a Trace,
    disks: Disks,
    peers: Peers,
    /// What else happened.
    pub(crate) signs: Signs,
    devices: Devices,
    /// Who works for whom.
    pub(crate) works: Works,
    window: Window,
    page_sizes: PageSizes,
    pub(crate) figures: Vec<ProcessFigures>,
    behind: Behind,
    pub(crate) phases: Vec<PhaseFigures>,
    shares: Shares,
    /// Per task: phases in which it submits.
    submits: Vec<Vec<usize>>,
    /// Per process: its phases.
    of_process: Vec<Range<usize>>,
    classes: Vec<Class>,
    /// Whether each function only asks for what it does.
    asynchronous: Vec<bool>,
    /// Per task: when its last wait for the device was over.
    waited: Vec<u64>,
    history: History,
    /// What is known beside the threads' own turns.
    pub(crate) surroundings: Surroundings<'a>,
    /// By submitting thread: its waits that ran out, until it shows whom they were for.
    timed_out: BTreeMap<TaskId, TimedOuts>,
    /// What the recording knows at all.
    known: Known,
}

impl<'a> Ledger<'a> {
    pub(crate) fn new(
        trace: &'a Trace,
        processes: &'a Processes,
        missing: &Missing,
        window: Window,
        phases: impl Iterator<Item = (usize, Phase)>,
    ) -> Self {
        let tasks = trace.tasks().len();
        let mut submits = vec![Vec::new(); tasks];
        let mut of_process = vec![0..0; processes.iter().count() + 1];
        let phases = phases.map(|(number, phase)| {
            let silence = Silence::of(&phase, processes);
            PhaseFigures { silence, ..PhaseFigures::new(number, phase) }
        });
        let phases: Vec<_> = phases.collect();
        for (at, p) in phases.iter().enumerate() {
            for task in p.phase.gaps.iter().map(|gap| gap.submitter).chain(p.silence.as_ref().map(|s| s.task)) {
                if let Some(list) = submits.get_mut(task.index())
                    && list.last() != Some(&at)
                {
                    list.push(at);
                }
            }
            if let Some(range) = of_process.get_mut(p.phase.process.index()) {
                *range = if range.start == range.end { at..at + 1 } else { range.start..at + 1 };
            }
        }
        let bounds = phases.iter().map(|p| ((p.phase.start_ns, p.phase.end_ns), processes.family(p.phase.process)));
        let shares = Shares::new(bounds);
        let knows_wakers = knows_wakers(trace);
        let machine = Machine::of(ingero_replay::machine(trace));
        let helpers = phases.iter().map(|p| {
            let family = processes.family(p.phase.process).into_iter();
            family.flat_map(|id| processes.get(id).threads.iter().copied()).collect()
        });
        Self {
            trace,
            disks: Disks::new(machine, tasks),
            peers: Peers::default(),
            signs: Signs::default(),
            devices: Devices::default(),
            works: Works::new(phases.iter().map(|p| p.phase.process), processes, tasks, knows_wakers),
            window,
            surroundings: Surroundings {
                processes,
                affinities: Affinities::new(trace),
                knows_wakers,
                helpers: helpers.collect(),
            },
            timed_out: BTreeMap::new(),
            page_sizes: PageSizes::new(trace),
            figures: vec![ProcessFigures::default(); of_process.len()],
            behind: Behind::new(),
            phases,
            shares,
            submits,
            of_process,
            classes: trace.functions().iter().map(|f| f.class).collect(),
            asynchronous: trace.functions().iter().map(|f| f.symbol.contains("Async")).collect(),
            waited: vec![0; tasks],
            history: History::new(tasks, machine, sees_disks(trace)),
            known: Known::new(trace, missing),
        }
    }

    /// What is known of the range.
    pub(crate) fn known(&self) -> Known {
        self.known.clone().within(&self.window)
    }

    /// Does what can be done once the walk is over.
    pub(crate) fn close(&mut self) {
        self.behind.close(&mut self.figures);
        let shares = std::mem::take(&mut self.shares).close(so_far(&self.figures, &self.signs));
        self.phases.iter_mut().zip(shares).for_each(|(p, shares)| p.shares = shares);
        for (task, timed_out) in std::mem::take(&mut self.timed_out) {
            timed_out.waits.iter().for_each(|t| self.give_up(task, t, &Cpus::default()));
        }
        for op in self.figures.iter_mut().flat_map(|f| f.ops.values_mut()) {
            op.durations_ns.sort_unstable();
        }
        self.tell_busy();
        for p in &mut self.phases {
            let mut lost: BTreeMap<TaskId, u64> = BTreeMap::new();
            // As far as a gap has chains.
            for (gap, from, to) in p.phase.open_gaps_within(0, u64::MAX).filter(|(g, ..)| g.is_lost()) {
                *lost.entry(gap.submitter).or_default() += to - from;
            }
            if let Some(silence) = &p.silence {
                lost.insert(silence.task, p.phase.len_ns());
            }
            let told: BTreeMap<TaskId, u64> =
                p.chains.roots().map(|(at, link)| (link.task, p.chains.total_ns(at))).collect();
            for (task, ns) in lost {
                p.chains.submitter_unseen(task, ns.saturating_sub(told.get(&task).copied().unwrap_or(0)));
            }
        }
    }

    /// Tells each phase how busy its GPU was, where nobody else of its host asked a GPU for anything meanwhile.
    fn tell_busy(&mut self) {
        for p in self.phases.iter_mut().filter(|p| p.phase.is_alone && p.starved_share().is_some()) {
            let host = self.known.host_of(self.surroundings.processes.get(p.phase.process).pid);
            let unqueued_ns = crate::sum(p.phase.gaps.iter().filter(|gap| gap.after_wait).map(Gap::len_ns));
            let busy = self.devices.busy(host, p.phase.start_ns, p.phase.end_ns);
            let before_percent = p.phase.first_ns.and_then(|first_ns| self.devices.just_before(host, first_ns));
            p.busy = busy.map(|busy| Busy { unqueued_ns, before_percent, ..busy });
        }
    }

    fn process(&mut self, task: TaskId) -> &mut ProcessFigures {
        let at = self.surroundings.processes.of(task).index();
        // Every task has its process by construction; the idle one stands in for a miss.
        let at = if at < self.figures.len() { at } else { 0 };
        &mut self.figures[at]
    }

    /// Whether a thread has gaps of its own.
    fn submits(&self, task: TaskId) -> bool {
        self.submits.get(task.index()).is_some_and(|phases| !phases.is_empty())
    }

    /// Adds a submitting thread's turn over `from..to` to its gaps.
    fn overlay(&mut self, task: TaskId, from: u64, to: u64, turn: Turn) {
        let Some(phases) = self.submits.get(task.index()).filter(|phases| !phases.is_empty()) else { return };
        let mut timed_out = self.timed_out.remove(&task).unwrap_or_default();
        for &at in phases {
            let Some(p) = self.phases.get_mut(at).filter(|p| p.phase.start_ns < to && from < p.phase.end_ns) else {
                continue;
            };
            // What the thread did in a gap is told whoever has the gap's time.
            let states = |from, to| match turn {
                Turn::Stayed(stay, _) => stay.spent(from, to),
                Turn::Ran => Spent { running_ns: to - from, ..Spent::default() },
            };
            let all_open = p.phase.taken.is_empty();
            if !all_open {
                for (_, from, to) in p.phase.gaps_within(from, to).filter(|(gap, ..)| gap.submitter == task) {
                    p.submitters += states(from, to);
                }
            }
            for (gap, from, to) in p.phase.open_gaps_within(from, to).filter(|(gap, ..)| gap.submitter == task) {
                if all_open {
                    p.submitters += states(from, to);
                }
                let Turn::Stayed(stay, cpus) = turn else {
                    if gap.is_behind_wait() {
                        grow(&mut p.after_waits_ns, to - from);
                        grow(&mut p.after_waits_lost_ns, if gap.is_lost() { to - from } else { 0 });
                    }
                    if gap.is_lost() {
                        p.chains.submitter_ran(task, from, to);
                    }
                    continue;
                };
                if !gap.is_lost() {
                    continue;
                }
                let view = self.surroundings.view(at, cpus);
                if let Waker::Task(by) = stay.waker
                    && timed_out.ran_ns <= LOOKS_NS
                {
                    for t in timed_out.waits.extract_if(.., |t| t.phase == at && t.gap_end_ns == gap.end_ns) {
                        p.chains.submitter_waited_for(&self.history, &view, task, t.wait, by);
                    }
                }
                if let Some(wait) = p.chains.submitter_stayed(&self.history, &view, stay, (from, to)) {
                    let (gap_end_ns, until_ns) = (gap.end_ns, gap.until_ns);
                    timed_out.next = Some(TimedOut { phase: at, gap_end_ns, until_ns, wait });
                }
            }
            let end_ns = p.phase.end_ns;
            let (from, to) = (from.max(p.phase.start_ns), to.min(end_ns));
            let Some(silence) = p.silence.as_mut().filter(|s| s.task == task) else { continue };
            let Turn::Stayed(stay, cpus) = turn else {
                silence.spent += Spent { running_ns: to - from, ..Spent::default() };
                p.chains.submitter_ran(task, from, to);
                continue;
            };
            silence.spent += stay.spent(from, to);
            if let Some(wait) = long_wait(&self.history, stay, from, to) {
                silence.waited(wait);
            }
            let view = self.surroundings.view(at, cpus);
            if let Some(wait) = p.chains.submitter_stayed(&self.history, &view, stay, (from, to)) {
                timed_out.next = Some(TimedOut { phase: at, gap_end_ns: end_ns, until_ns: end_ns, wait });
            }
        }
        self.await_more(task, from, to, turn, timed_out);
    }

    /// Keeps the waits of a submitting thread that ran out as long as it may yet show whom they were for.
    fn await_more(&mut self, task: TaskId, from: u64, to: u64, turn: Turn, mut timed_out: TimedOuts) {
        match turn {
            Turn::Ran => timed_out.ran_ns = timed_out.ran_ns.saturating_add(to - from),
            Turn::Stayed(stay, cpus) => {
                let next = timed_out.next.take();
                let blocked = stay.runnable_ns.is_none_or(|since| since > stay.out_ns);
                // Whoever worked for a while, or waited for something else, waits for something else now.
                let over = timed_out.ran_ns > LOOKS_NS || (blocked && next.is_none());
                for t in timed_out.waits.extract_if(.., |t| over || t.until_ns <= from).collect::<Vec<_>>() {
                    self.give_up(task, &t, cpus);
                }
                if blocked {
                    timed_out.ran_ns = 0;
                }
                timed_out.waits.extend(next);
            }
        }
        if let Some(first) = timed_out.waits.first() {
            self.history.waits(task, first.wait.from);
            self.timed_out.insert(task, timed_out);
        } else if matches!(turn, Turn::Stayed(..)) {
            self.history.is_back(task);
        }
    }

    /// A turn of a submitting thread behind the range, which may yet show whom its last waits within were for.
    fn behind(&mut self, task: TaskId, from: u64, to: u64, turn: Turn) {
        let Some(mut timed_out) = self.timed_out.remove(&task) else { return };
        if let Turn::Stayed(stay, cpus) = turn {
            if let (Waker::Task(by), true) = (stay.waker, timed_out.ran_ns <= LOOKS_NS) {
                for t in timed_out.waits.extract_if(.., |t| from < t.until_ns) {
                    let Some(p) = self.phases.get_mut(t.phase) else { continue };
                    let view = self.surroundings.view(t.phase, cpus);
                    p.chains.submitter_waited_for(&self.history, &view, task, t.wait, by);
                }
            } else if let (Some(first), Some(since)) = (timed_out.waits.first().copied(), stay.runnable_ns)
                && since > stay.out_ns
                && from < first.until_ns
                && self.history.ending(stay.waker, manner(stay), since - stay.out_ns).is_timed_out()
            {
                // It looked once more; what is behind the range is nobody's.
                timed_out.next = Some(TimedOut { wait: Wait { from: since, to: since, ..first.wait }, ..first });
            }
        }
        self.await_more(task, from, to, turn, timed_out);
    }

    fn give_up(&mut self, task: TaskId, t: &TimedOut, cpus: &Cpus) {
        let Some(p) = self.phases.get_mut(t.phase) else { return };
        let view = self.surroundings.view(t.phase, cpus);
        p.chains.submitter_gave_up(&self.history, &view, task, t.wait);
    }

    /// Since when the turns of others are needed for a submitting thread that waits from `at_ns` on.
    fn needed_since(&self, task: TaskId, at_ns: u64) -> u64 {
        let first = self.timed_out.get(&task).and_then(|t| t.waits.first());
        first.map_or(at_ns, |t| t.wait.from.min(at_ns))
    }

    /// The phase of its process that an instant lies in.
    fn phase_at(&self, process: ProcessId, at_ns: u64) -> Option<usize> {
        let range = self.of_process.get(process.index())?.clone();
        let phases = self.phases.get(range.clone())?;
        let at = phases.partition_point(|p| p.phase.start_ns <= at_ns).checked_sub(1)?;
        (phases.get(at)?.phase.end_ns >= at_ns).then_some(range.start + at)
    }

    /// Adds an outermost call to its phase.
    fn phase_call(&mut self, span: &CallSpan) {
        let func = span.call.func.index();
        let Some(class) = self.classes.get(func).copied() else { return };
        if span.depth > 0 || !matches!(class, Class::Sync | Class::Copy | Class::Alloc | Class::Free | Class::Graph) {
            return;
        }
        let idle = self
            .waited
            .get(span.call.task.index())
            .is_some_and(|&until| until > 0 && (until..until.saturating_add(RIGHT_AFTER_NS)).contains(&span.start_ns));
        if class == Class::Sync
            && let Some(until) = self.waited.get_mut(span.call.task.index())
        {
            *until = span.end_ns;
        }
        let Some(at) = self.phase_at(self.surroundings.processes.of(span.call.task), span.start_ns) else { return };
        let Some(p) = self.phases.get_mut(at) else { return };
        if p.phase.is_unclaimed(span.start_ns) {
            return;
        }
        let figures = match class {
            Class::Copy => {
                // One to the host waits for what it copies, unless all of that was waited for before.
                if !NO_LINK.contains(&span.call.copy) && (span.call.copy != Some(TO_HOST) || idle) {
                    p.copies.add(span, self.asynchronous.get(func).copied().unwrap_or(false));
                }
                return;
            }
            Class::Sync => &mut p.waits,
            Class::Graph => &mut p.graphs,
            _ => &mut p.memory,
        };
        let gap = p.phase.open_gaps_within(span.start_ns, span.end_ns).next();
        let holds = |(g, from, to): &(&Gap, u64, u64)| {
            g.submitter == span.call.task && (*from, *to) == (span.start_ns, span.end_ns)
        };
        let gap = gap.filter(holds).map(|(gap, ..)| gap);
        figures.add(span, &p.phase, gap);
        if matches!(class, Class::Alloc | Class::Free) {
            figures.stretches.push((span.start_ns, span.end_ns));
        }
        if class == Class::Free {
            p.releases.add(span, &p.phase, gap);
        }
    }
}

/// What a process took of all that is counted.
fn so_far<'a>(figures: &'a [ProcessFigures], signs: &'a Signs) -> impl Fn(ProcessId) -> Share + 'a {
    |id| {
        let (on_cpu_ns, page_allocs) = figures.get(id.index()).map_or((0, 0), |f| (f.on_cpu_ns, f.page_allocs));
        Share { on_cpu_ns, page_allocs, faults: signs.faults.get(&id).copied().unwrap_or(0) }
    }
}

/// The wait of a stay within `from..to`, and what ended it; none where the thread could have run all the while.
fn long_wait(history: &History, stay: &OffCpu, from: u64, to: u64) -> Option<LongWait> {
    let end_ns = stay.runnable_ns.unwrap_or(to).min(to);
    let began_before = stay.before || stay.out_ns < from;
    let unfinished = stay.runnable_ns.is_none_or(|until| until > to);
    let by = match (stay.waker, stay.runnable_ns) {
        (Waker::Task(by), Some(_)) => Some(by),
        _ => None,
    };
    let ending = match stay.runnable_ns {
        None => Some(Ending::Edge),
        Some(_) if by.is_some() => None,
        Some(until) => Some(history.ending(stay.waker, manner(stay), until.saturating_sub(stay.out_ns))),
    };
    let wait = LongWait { start_ns: from, end_ns, by, ending, began_before, unfinished };
    (end_ns > from && stay.kind != OffKind::Throttled).then_some(wait)
}

/// Whether a trace tells when block I/O was done.
fn sees_disks(trace: &Trace) -> bool {
    trace.blocks().iter().any(|b| b.header.kind == Kind::BlockComplete as u16 && b.header.rows > 0)
}

/// Whether a trace says who wakes whom: its first wake tells.
fn knows_wakers(trace: &Trace) -> bool {
    let first = Merge::of(trace, |k| k == Kind::Waking).next();
    matches!(first.map(|e| e.body), Some(Body::Waking(e)) if e.context.is_some())
}

/// A turn of a thread.
#[derive(Clone, Copy)]
enum Turn<'a> {
    Ran,
    Stayed(&'a OffCpu, &'a Cpus),
}

/// A wait of a submitting thread, in a gap, that ran out.
#[derive(Debug, Clone, Copy)]
struct TimedOut {
    phase: usize,
    gap_end_ns: u64,
    /// The same, behind the range where that cuts it.
    until_ns: u64,
    wait: Wait,
}

/// Such waits, one after the other.
#[derive(Debug, Default)]
struct TimedOuts {
    waits: Vec<TimedOut>,
    /// The one that is being told.
    next: Option<TimedOut>,
    /// Running time since the last of them.
    ran_ns: u64,
}

impl Sink for Ledger<'_> {
    fn event(&mut self, event: &Event) {
        let within = self.window.holds(event.ts_ns);
        self.known.event(self.trace, event);
        self.shares.reach(event.ts_ns, so_far(&self.figures, &self.signs));
        match &event.body {
            Body::Switch(e) => {
                if within && e.prev != TaskId(0) {
                    self.process(e.prev).context_switches += 1;
                }
                if self.submits(e.prev) {
                    self.history.waits(e.prev, self.needed_since(e.prev, event.ts_ns));
                }
            }
            Body::Waking(e) => {
                self.peers.wakes(event.ts_ns, e, self.surroundings.processes);
                self.disks.wakes(event.ts_ns, event.cpu, e);
            }
            Body::BlockComplete(_) => self.disks.completes(event.ts_ns, event.cpu),
            Body::SocketIo(e) => self.peers.used(e, self.surroundings.processes),
            Body::Fork(e) => {
                self.history.born(e.child, e.parent, event.ts_ns);
                self.surroundings.affinities.born(e.child, e.parent);
            }
            Body::Exec(e) => self.works.becomes(self.surroundings.processes.of(e.task), event.ts_ns),
            Body::Exit(e) => self.works.exits(e.task, event.ts_ns),
            Body::Affinity(e) => self.surroundings.affinities.binds(e.task, e.cpus, self.trace.string(e.cpus)),
            Body::PageAlloc(e) if within => {
                let bytes = self.page_sizes.bytes(self.trace, e.task, e.order);
                let p = self.process(e.task);
                p.page_allocs += 1;
                p.page_alloc_bytes = p.page_alloc_bytes.saturating_add(bytes);
            }
            Body::GpuSample(e) => self.devices.sample(self.known.host_of_cpu(event.cpu), event.ts_ns, e),
            Body::Retransmit(e) if within => {
                let host = (event.cpu != NO_CPU).then(|| self.known.host_of_cpu(event.cpu));
                self.signs.sends_again(event.ts_ns, host, e.peer);
            }
            Body::ProcessCgroup(e) => self.signs.joins(e, self.surroundings.processes),
            body if within => self.signs.add(event.ts_ns, body, self.surroundings.processes),
            _ => {}
        }
    }

    fn starts(&mut self, task: TaskId, at_ns: u64) {
        self.history.starts(task, at_ns);
        if self.submits(task) && !self.timed_out.contains_key(&task) {
            self.history.is_back(task);
        }
    }

    fn lost_sight(&mut self, task: TaskId) {
        self.history.lost_sight(task);
        if self.submits(task) {
            self.history.is_back(task);
        }
    }

    fn blind(&mut self, blind: &Blind) {
        self.known.blind(blind);
    }

    fn off_cpu(&mut self, stay: &OffCpu, cpus: &Cpus) {
        let resolved = self.disks.resolve(stay).or_else(|| self.peers.resolve(stay));
        let stay = resolved.as_ref().unwrap_or(stay);
        self.history.stayed(stay);
        self.works.woken(stay, self.surroundings.processes);
        let w = self.window;
        // Nothing is told of the time past the last event.
        let last_ns = w.to_ns.min(w.trace_end_ns);
        let end = stay.end_ns().unwrap_or(last_ns);
        let (from, to) = (stay.out_ns.max(w.from_ns), end.min(w.to_ns));
        if to <= from {
            if stay.out_ns >= w.to_ns && end > stay.out_ns {
                self.behind(stay.task, stay.out_ns, end, Turn::Stayed(stay, cpus));
            }
            return;
        }
        self.overlay(stay.task, from, to, Turn::Stayed(stay, cpus));
        let closed = stay.back.is_some() && !stay.before && stay.out_ns >= w.from_ns && end <= w.to_ns;
        let spent = stay.spent(from, to);
        if stay.kind != OffKind::Newborn {
            let squeezed_ns = match stay.runnable_ns {
                Some(since) if stay.kind != OffKind::Throttled && closed => {
                    self.surroundings.affinities.squeezed_ns(stay.task, cpus, from.max(since), to)
                }
                _ => 0,
            };
            let f = &mut self.process(stay.task).off_cpu;
            if closed {
                f.count += 1;
                grow(&mut f.sum_ns, spent.total_ns());
                f.max_ns = f.max_ns.max(spent.total_ns());
                f.spent += spent;
                grow(&mut f.squeezed_ns, squeezed_ns);
                f.synthesised += u64::from(stay.synthesised);
            } else {
                grow(&mut f.unfinished_ns, spent.total_ns());
            }
        }
        // What is blamed for a process adds up to no more than the runnable time that is reported.
        if closed
            && matches!(stay.kind, OffKind::Blocked | OffKind::Preempted)
            && let (Some(runnable_ns), Some(cpu)) = (stay.runnable_ns, stay.wait_cpu)
        {
            let (processes, behind, figures) = (self.surroundings.processes, &mut self.behind, &mut self.figures);
            let waiter = processes.of(stay.task);
            let from = from.max(runnable_ns);
            cpus.holders(cpu, from, to, |holder, ns| behind.add(waiter, processes.of(holder), ns, figures));
        }
    }

    fn run(&mut self, run: &Run) {
        self.history.ran(run);
        let w = self.window;
        let end = run.end_ns.unwrap_or(w.to_ns.min(w.trace_end_ns)).min(w.to_ns);
        let start = run.start_ns.max(w.from_ns);
        if end > start {
            grow(&mut self.process(run.task).on_cpu_ns, end - start);
            self.shares.ran(self.surroundings.processes.of(run.task), start, end);
            self.overlay(run.task, start, end, Turn::Ran);
        }
        // What it ran behind the range counts with what it ran within.
        if let Some(until_ns) = run.end_ns.filter(|&ns| ns > w.to_ns.max(run.start_ns)) {
            self.behind(run.task, run.start_ns.max(w.to_ns), until_ns, Turn::Ran);
        }
    }

    fn call(&mut self, span: &CallSpan) {
        if !self.window.holds(span.start_ns) {
            return;
        }
        self.phase_call(span);
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
        let (feeds, _) = crate::feed::feeds(&trace, &processes, &Window::whole(&trace), &mut Default::default());
        let lives = crate::phases::Lives::new(&trace, &processes);
        let phases = crate::phases::split(feeds, &processes, &lives, &Window::whole(&trace));
        let mut ledger = Ledger::new(&trace, &processes, &Missing::new(&trace), window, phases.into_iter().enumerate());
        ingero_replay::Timeline::new(&trace).run(&mut ledger);
        ledger.close();
        let hog = processes.of(hog);
        let (_, submitter) = ledger.phases[0].chains.roots().next().unwrap();
        assert_eq!(submitter.behind.get(&hog), Some(&400_000));
        assert!(ledger.process(main).behind.is_empty());
        assert_eq!(ledger.process(main).off_cpu.unfinished_ns, 400_000);
    }
}
