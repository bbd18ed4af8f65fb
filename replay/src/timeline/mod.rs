//! The state of every thread and CPU through the trace.
//!
//! [`Timeline::run`] walks the events in time order and tells a [`Sink`] what it makes of them:
//! stays off a CPU with their parts, stretches on a CPU, calls with the states that their thread
//! went through. The definitions are those of `spec/semantics.md`.

mod ahead;
mod calls;
mod cpus;
mod sight;
mod state;

pub use calls::CallSpan;
pub use cpus::Cpus;
pub use sight::{Blind, Sight};
pub use state::{OffCpu, OffKind, Run, Spent, State, StoredStay, Undivided, Waker};

use ingero_format::catalog::{Body, Call, END_RETURNED, Kind, NO_CPU, Switch, TaskId, Wakeup, Waking};
use ingero_format::{ChunkHeader, Trace};

use crate::event::Event;
use crate::hosts::Hosts;
use crate::lost::{Lost, Missing, was_recorded};
use crate::merge::{LostBlock, Merge};
use ahead::Told;
use calls::Stack;
use state::{Now, TaskState, Wake};

/// A wake that was recorded this shortly before its task's switch-out belongs to it, where the
/// trace has no sched_wakeup to tell: two CPUs write the two events, and the waker's may come first.
pub(crate) const EARLY_WAKE_NS: u64 = 20_000;

/// Who takes in what the timeline finds. Every method may be left out.
///
/// Things are told when they are complete: a stay off the CPU at its switch-in, a call at its
/// return. What is still open when the trace ends is told then, with `None` for its end.
pub trait Sink {
    /// An event as it was recorded, before its effects are told.
    fn event(&mut self, _event: &Event) {}
    /// A stay off the CPU, from switch-out to switch-in.
    fn off_cpu(&mut self, _stay: &OffCpu, _cpus: &Cpus) {}
    /// A stay off the CPUs of a source that stores such stays in place of switches. It is told where it begins, and its
    /// thread has no other states.
    fn stored_stay(&mut self, _stay: &StoredStay) {}
    /// The rest of a stay off the CPU in which wakes are missing. What is known of the stay before that was told just now
    /// ([`OffCpu::told_to_ns`]).
    fn undivided(&mut self, _part: &Undivided) {}
    /// A stretch on a CPU, from switch-in to switch-out.
    fn run(&mut self, _run: &Run) {}
    /// A thread runs from here on: [`Sink::run`] tells the stretch when it is over.
    fn starts(&mut self, _task: TaskId, _at_ns: u64) {}
    /// What a thread does from here on is not known, until it is told of again.
    fn lost_sight(&mut self, _task: TaskId) {}
    /// Switches are missing: what threads and CPUs did is not known.
    fn blind(&mut self, _blind: &Blind) {}
    /// A call begins. Its return is known already where it returned at all.
    fn enter(&mut self, _at_ns: u64, _call: &Call) {}
    /// A call returned.
    fn call(&mut self, _span: &CallSpan) {}
    /// A call that never returned.
    fn unreturned(&mut self, _at_ns: u64, _call: &Call) {}
}

/// Two that take in the same, the first one first.
#[derive(Debug)]
pub struct Both<'a, A, B>(pub &'a mut A, pub &'a mut B);

impl<A: Sink, B: Sink> Sink for Both<'_, A, B> {
    #[inline]
    fn event(&mut self, event: &Event) {
        self.0.event(event);
        self.1.event(event);
    }

    #[inline]
    fn off_cpu(&mut self, stay: &OffCpu, cpus: &Cpus) {
        self.0.off_cpu(stay, cpus);
        self.1.off_cpu(stay, cpus);
    }

    #[inline]
    fn stored_stay(&mut self, stay: &StoredStay) {
        self.0.stored_stay(stay);
        self.1.stored_stay(stay);
    }

    #[inline]
    fn undivided(&mut self, part: &Undivided) {
        self.0.undivided(part);
        self.1.undivided(part);
    }

    #[inline]
    fn run(&mut self, run: &Run) {
        self.0.run(run);
        self.1.run(run);
    }

    #[inline]
    fn starts(&mut self, task: TaskId, at_ns: u64) {
        self.0.starts(task, at_ns);
        self.1.starts(task, at_ns);
    }

    #[inline]
    fn lost_sight(&mut self, task: TaskId) {
        self.0.lost_sight(task);
        self.1.lost_sight(task);
    }

    #[inline]
    fn blind(&mut self, blind: &Blind) {
        self.0.blind(blind);
        self.1.blind(blind);
    }

    #[inline]
    fn enter(&mut self, at_ns: u64, call: &Call) {
        self.0.enter(at_ns, call);
        self.1.enter(at_ns, call);
    }

    #[inline]
    fn call(&mut self, span: &CallSpan) {
        self.0.call(span);
        self.1.call(span);
    }

    #[inline]
    fn unreturned(&mut self, at_ns: u64, call: &Call) {
        self.0.unreturned(at_ns, call);
        self.1.unreturned(at_ns, call);
    }
}

/// What the timeline had to leave out or make up.
#[derive(Debug, Default)]
pub struct Repairs {
    /// Switch-ins that the kernel did not report, made up from the wakeup.
    pub synthesised: u64,
    /// Open intervals that had to be dropped: nothing says when they ended.
    pub dropped: u64,
    /// Durations or orders that cannot be.
    pub impossible: u64,
    /// Blocks that could not be read.
    pub lost_blocks: Vec<LostBlock>,
    /// Time of the last event.
    pub end_ns: u64,
}

/// Walks a trace.
pub struct Timeline<'t> {
    trace: &'t Trace,
    tasks: Vec<TaskState>,
    stacks: Vec<Stack>,
    cpus: Cpus,
    /// Whether the trace has sched_waking: sched_wakeup then only says that it took effect.
    has_waking: bool,
    /// Whether sched_wakeup can confirm an early sched_waking.
    confirms: bool,
    /// Whether the trace has context switches. Without them nobody is known to run, or to have stopped: states made of wakes and calls
    /// alone would go on for ever.
    has_switches: bool,
    start_ns: u64,
    /// Stretches to come in which switches are missing, the next one last.
    blind: Vec<Blind>,
    /// By host: stretches in which wakes are missing, in order and apart.
    wakeless: Vec<Vec<(u64, u64)>>,
    /// From when on threads and CPUs are seen.
    sight: Sight,
    /// By task: its host; nothing where the file is one recording.
    host_of: Vec<usize>,
    repairs: Repairs,
}

impl<'t> Timeline<'t> {
    /// A timeline at the start of the trace.
    #[must_use]
    pub fn new(trace: &'t Trace) -> Self {
        Self::knowing(trace, &Missing::new(trace))
    }

    /// The same where it is known already what is missing from the trace.
    #[must_use]
    pub fn knowing(trace: &'t Trace, missing: &Missing) -> Self {
        let lost = missing.parts();
        let had = |kind: Kind| was_recorded(trace, lost, kind);
        let tasks = trace.tasks().len();
        let hosts = Hosts::new(trace);
        Self {
            trace,
            tasks: vec![TaskState::default(); tasks],
            stacks: (0..tasks).map(|_| Stack::default()).collect(),
            cpus: Cpus::default(),
            has_waking: had(Kind::Waking),
            confirms: had(Kind::Waking) && had(Kind::Wakeup),
            has_switches: had(Kind::Switch),
            start_ns: trace.span_ns().map_or(0, |(start, _)| start),
            blind: without_switches(trace, lost),
            wakeless: (0..hosts.count()).map(|host| without_wakes(trace, lost, host)).collect(),
            host_of: hosts.by_task(trace),
            sight: Sight::new(hosts),
            repairs: Repairs::default(),
        }
    }

    /// Walks the whole trace.
    pub fn run(mut self, sink: &mut impl Sink) -> Repairs {
        let mut last = 0;
        let lost = ahead::events(self.trace, |told| match told {
            Told::Event(event) => {
                last = event.ts_ns.max(last);
                self.look(event.ts_ns, sink);
                sink.event(event);
                self.apply(event, sink);
            }
            Told::Lost(header) => self.misses(header),
        });
        let end = self.trace.span_ns().map_or(last, |(_, end)| end.max(last));
        self.finish(end, sink);
        self.repairs.lost_blocks = lost;
        self.repairs.end_ns = end;
        self.repairs
    }

    /// Walks ranges of the trace, in order, as if it held nothing else. What began before the first of them is told with
    /// the begin of that, marked as such; so is what a thread does where one ends and nothing of it is known, to the end of the last. A
    /// thread that did nothing between two of them is told of as it was; of others nothing holds.
    pub fn run_pieces(mut self, pieces: &[(u64, u64)], sink: &mut impl Sink) -> Repairs {
        self.start_ns = pieces.first().map_or(self.start_ns, |&(from_ns, _)| from_ns.max(self.start_ns));
        let mut end = self.start_ns;
        for &(from_ns, to_ns) in pieces {
            let mut merge = Merge::new(self.trace).within(from_ns, to_ns);
            let mut missed = 0;
            while let Some(event) = merge.next() {
                merge.lost().iter().skip(missed).for_each(|lost| self.misses(&lost.entry.header));
                missed = merge.lost().len();
                self.look(event.ts_ns, sink);
                sink.event(&event);
                self.apply(&event, sink);
            }
            merge.lost().iter().skip(missed).for_each(|lost| self.misses(&lost.entry.header));
            self.repairs.lost_blocks.extend(merge.into_lost());
            end = to_ns;
        }
        let end = self.trace.span_ns().map_or(end, |(_, last)| end.min(last));
        self.finish(end, sink);
        self.repairs.end_ns = end;
        self.repairs
    }

    /// From when on something can be known of a task: its host's recording begins, or switches are no longer missing.
    fn start_of(&self, task: TaskId) -> u64 {
        let own_ns = self.span_of(task).map_or(0, |(own_ns, _)| own_ns);
        self.start_ns.max(self.sight.of_host(self.host_of(task))).max(own_ns)
    }

    /// The host of a task; 0 where the file is one recording.
    #[inline]
    fn host_of(&self, task: TaskId) -> usize {
        self.host_of.get(task.index()).copied().unwrap_or(0)
    }

    /// Begin and end of the recording that a task is of, where the file is one of several hosts. The idle task is one and the
    /// same on all.
    fn span_of(&self, task: TaskId) -> Option<(u64, u64)> {
        Some(self.sight.hosts().get(self.host_of(task))?.span_ns).filter(|_| task != TaskId(0))
    }

    /// A block that cannot be read: where it held switches or wakes, they are missing.
    fn misses(&mut self, header: &ChunkHeader) {
        let host = self.sight.hosts().of_block(header.cpu);
        let blind = Blind { from_ns: header.ts_min, to_ns: header.ts_max, host };
        if [Kind::Waking as u16, Kind::Wakeup as u16].contains(&header.kind) {
            for (_, wakeless) in self.wakeless.iter_mut().enumerate().filter(|(host, _)| blind.concerns(*host)) {
                wakeless.push((blind.from_ns, blind.to_ns));
                *wakeless = joined(std::mem::take(wakeless));
            }
        }
        if header.kind == Kind::Switch as u16 {
            self.blind.push(blind);
            self.blind.sort_unstable_by(|a, b| b.cmp(a));
        }
    }

    /// Loses sight of all threads where a stretch without switches begins by `ts`.
    #[inline]
    fn look(&mut self, ts: u64, sink: &mut impl Sink) {
        while let Some(blind) = self.blind.last().filter(|blind| blind.from_ns <= ts).copied() {
            self.blind.pop();
            self.lose_all(&blind, sink);
        }
    }

    /// Tells what all threads that it concerns did up to where it begins; up to its end nothing is known of them.
    #[cold]
    fn lose_all(&mut self, blind: &Blind, sink: &mut impl Sink) {
        let from_ns = blind.from_ns;
        for at in 0..self.tasks.len() {
            #[expect(clippy::cast_possible_truncation, reason = "a file has at most MAX_ENTRIES tasks")]
            let task = TaskId(at as u32);
            let is_unknown = matches!(self.tasks.get(at), None | Some(TaskState { now: Now::Unknown, .. }));
            if is_unknown || !blind.concerns(self.host_of(task)) {
                continue;
            }
            self.settle(from_ns, task, sink);
            let Some(t) = self.tasks.get_mut(at) else { continue };
            if let Some(run) = t.open_run(task).filter(|run| run.start_ns < from_ns) {
                sink.run(&Run { end_ns: Some(from_ns), unfinished: false, ..run });
            }
            let stay = t.open_stay(task).filter(|stay| stay.out_ns < from_ns);
            if let Some(stay) = stay {
                // When it could have run again is known only as far as that lies before.
                let runnable_ns = stay.runnable_ns.filter(|ns| *ns <= from_ns);
                self.stayed(&OffCpu { told_to_ns: from_ns, unfinished: false, runnable_ns, ..stay }, sink);
            }
            if let Some(t) = self.tasks.get_mut(at) {
                t.lose(from_ns);
            }
            sink.lost_sight(task);
        }
        for cpu in (0..self.cpus.count()).filter(|&cpu| self.sight.is_blind(blind, cpu)) {
            self.cpus.end(cpu, from_ns);
        }
        self.sight.lose(blind);
        sink.blind(blind);
    }

    fn apply(&mut self, event: &Event, sink: &mut impl Sink) {
        let (ts, cpu) = (event.ts_ns, event.cpu);
        // What was seen on no CPU shows nobody on one. Sources that keep a sample have no CPUs, and
        // states made of what they kept would be made up.
        let tells = cpu != NO_CPU && self.has_switches && self.sight.holds(ts, cpu);
        if !tells && !matches!(event.body, Body::Call(_) | Body::OffCpu(_)) {
            return;
        }
        match &event.body {
            Body::Switch(e) => self.switch(ts, cpu, e, sink),
            Body::Waking(e) => {
                // Only in its own context is the current task known to do this itself; but it is
                // on the CPU in any case.
                self.prove_running(ts, cpu, e.waker, sink);
                self.waking(ts, e);
            }
            Body::Wakeup(e) => self.wakeup(ts, e),
            Body::WakeupNew(e) => {
                if let Some(t) = self.tasks.get_mut(e.wakee.index()) {
                    t.born(ts, Some(target(e.target_cpu)));
                }
            }
            Body::Fork(e) => {
                self.prove_running(ts, cpu, e.parent, sink);
                if let Some(t) = self.tasks.get_mut(e.child.index()) {
                    t.born(ts, None);
                }
            }
            Body::Exec(e) => self.prove_running(ts, cpu, e.task, sink),
            Body::Exit(e) => {
                self.prove_running(ts, cpu, e.task, sink);
                if let Some(t) = self.tasks.get_mut(e.task.index()) {
                    t.exiting = true;
                }
            }
            Body::PageAlloc(e) => self.prove_running(ts, cpu, e.task, sink),
            Body::Call(e) => self.call(ts, cpu, e, sink),
            Body::OffCpu(e) => {
                // Of whom switches are recorded, those tell all.
                if self.tasks.get(e.task.index()).is_some_and(|t| !t.seen()) {
                    sink.stored_stay(&StoredStay { task: e.task, out_ns: ts, back_ns: ts.saturating_add(e.dur_ns) });
                }
            }
            // These say nothing about the state of a thread.
            Body::Name(_)
            | Body::Process(_)
            | Body::Loss(_)
            | Body::Clock(_)
            | Body::System(_)
            | Body::BlockIssue(_)
            | Body::BlockComplete(_)
            | Body::Irq(_)
            | Body::Softirq(_)
            | Body::PageFault(_)
            | Body::Reclaim(_)
            | Body::OomKill(_)
            | Body::Affinity(_)
            | Body::CpuFrequency(_)
            | Body::Retransmit(_)
            | Body::SocketIo(_)
            | Body::Collective(_)
            | Body::Range(_)
            | Body::Mark(_)
            | Body::Mapping(_)
            | Body::ProcessCgroup(_)
            | Body::ProcessSample(_)
            | Body::CgroupSample(_)
            | Body::Pressure(_)
            | Body::GpuSample(_)
            // These come from other tools.
            | Body::Aggregate(_)
            | Body::Usage(_)
            | Body::Frame(_)
            | Body::Stack(_)
            | Body::Annotation(_)
            | Body::OtherEvent(_)
            | Body::DeviceActivity(_)
            | Body::Span(_)
            | Body::Correlation(_) => {}
        }
    }

    /// Tells the calls of a thread that returned by `ts`, before its state changes.
    fn settle(&mut self, ts: u64, task: TaskId, sink: &mut impl Sink) {
        let at = task.index();
        let (Some(stack), Some(state)) = (self.stacks.get_mut(at), self.tasks.get_mut(at)) else { return };
        if let Some(returned_ns) = stack.pop_until(ts, state, |span| sink.call(span)) {
            // Whoever returns from a call runs.
            state.prove(returned_ns);
        }
    }

    fn switch(&mut self, ts: u64, cpu: u32, e: &Switch, sink: &mut impl Sink) {
        self.prove_running(ts, cpu, e.prev, sink);
        if e.prev != TaskId(0) {
            self.settle(ts, e.prev, sink);
            self.leave(ts, cpu, e, sink);
        }
        self.cpus.occupy(cpu, ts, e.next);
        if e.next != TaskId(0) {
            self.settle(ts, e.next, sink);
            self.enter_cpu(ts, cpu, e.next, false, sink);
        }
    }

    fn leave(&mut self, ts: u64, cpu: u32, e: &Switch, sink: &mut impl Sink) {
        let (confirms, start_ns) = (self.confirms, self.start_of(e.prev));
        let Some(t) = self.tasks.get_mut(e.prev.index()) else { return };
        if let Some(run) = t.open_run(e.prev) {
            sink.run(&Run { end_ns: Some(ts), unfinished: false, ..run });
        }
        let early = t.early_wake.take().filter(|w| !confirms && ts.saturating_sub(w.at_ns) <= EARLY_WAKE_NS);
        t.unconfirmed = t.late_wake.take();
        t.switch_out(ts, cpu, e);
        if let (Some(wake), true) = (early, t.is_blocked()) {
            t.wake(ts, wake, start_ns);
        }
    }

    /// Tells a stay off the CPU that is over, or of which no more is known.
    fn stayed(&mut self, stay: &OffCpu, sink: &mut impl Sink) {
        // Before what the recording, or what is known of it, begins with lies nothing that could be told.
        if stay.before && stay.end_ns() == Some(stay.out_ns) {
            return;
        }
        let Some(from_ns) = self.undivided_from(stay) else { return sink.off_cpu(stay, &self.cpus) };
        if from_ns > stay.out_ns {
            let known = OffCpu { back: None, told_to_ns: from_ns, unfinished: false, synthesised: false, ..*stay };
            sink.off_cpu(&known, &self.cpus);
        }
        sink.undivided(&Undivided {
            task: stay.task,
            out_ns: Some(stay.out_ns).filter(|_| !stay.before),
            from_ns,
            to_ns: stay.end_ns(),
            unfinished: stay.unfinished,
            in_cpu: stay.back.map(|(cpu, _)| cpu),
        });
    }

    /// From when on it is not known of a stay whether its thread was blocked: nothing woke it that can be read, and wakes are
    /// missing in it.
    fn undivided_from(&self, stay: &OffCpu) -> Option<u64> {
        if stay.kind != OffKind::Blocked || stay.runnable_ns.is_some() {
            return None;
        }
        let wakeless = self.wakeless.get(self.host_of(stay.task))?;
        let at = wakeless.partition_point(|&(_, to_ns)| to_ns < stay.out_ns);
        let from_ns = wakeless.get(at)?.0.max(stay.out_ns);
        (from_ns < stay.end_ns().unwrap_or(u64::MAX)).then_some(from_ns)
    }

    /// The same of the stay that a thread is in and that ends now. Asked at each switch-in: mostly no wake is missing.
    #[inline]
    fn open_undivided(&self, task: TaskId, back: (u32, u64)) -> Option<u64> {
        self.wakeless.get(self.host_of(task)).filter(|wakeless| !wakeless.is_empty())?;
        let stay = self.tasks.get(task.index())?.open_stay(task)?;
        self.undivided_from(&OffCpu { back: Some(back), unfinished: false, ..stay })
    }

    /// `task` takes the CPU: its stay off it ends.
    fn enter_cpu(&mut self, ts: u64, cpu: u32, task: TaskId, synthesised: bool, sink: &mut impl Sink) {
        let start_ns = self.start_of(task);
        let undivided_ns = self.open_undivided(task, (cpu, ts));
        let Some(t) = self.tasks.get_mut(task.index()) else { return };
        if let Some(run) = t.proven_run(task) {
            sink.run(&run);
        }
        sink.starts(task, ts);
        if let Some(from_ns) = undivided_ns {
            t.doubt(from_ns, ts);
        }
        match t.switch_in(ts, cpu, task, synthesised, start_ns) {
            Ok(Some(stay)) => self.stayed(&stay, sink),
            Ok(None) => {}
            Err(state::Unseen) => self.repairs.dropped += 1,
        }
    }

    /// Something was recorded that only a running task can have done. If it was last seen waiting,
    /// its switch-in went unreported: it is put where its wakeup was, or where the CPU last changed
    /// hands if that was later.
    fn prove_running(&mut self, ts: u64, cpu: u32, task: TaskId, sink: &mut impl Sink) {
        let contradicted = self.unseat_other(ts, cpu, task, sink);
        if task == TaskId(0) {
            return;
        }
        let Some(t) = self.tasks.get_mut(task.index()) else { return };
        match t.now {
            Now::Running { .. } => t.prove(ts),
            Now::Waiting { runnable_ns: Some(since), .. } if !contradicted => {
                let at = since.max(self.cpus.changed(cpu)).min(ts);
                self.settle(at, task, sink);
                self.repairs.synthesised += 1;
                self.cpus.occupy(cpu, at, task);
                self.enter_cpu(at, cpu, task, true, sink);
            }
            Now::Waiting { .. } => {
                // Nothing woke it, or somebody else is known to have been here since: when it began to run is unknown.
                self.settle(ts, task, sink);
                self.repairs.dropped += 1;
                if let Some(t) = self.tasks.get_mut(task.index()) {
                    t.forget(ts);
                    t.runs_unseen(ts, cpu);
                }
                sink.lost_sight(task);
                sink.starts(task, ts);
                self.cpus.occupy(cpu, ts, task);
            }
            Now::Unknown => {
                t.runs_unseen(ts, cpu);
                sink.starts(task, ts);
                self.cpus.occupy(cpu, ts, task);
            }
        }
    }

    /// `task` is on this CPU: whoever else was last seen to take it left without being seen, nobody knows when. True
    /// where there was somebody.
    fn unseat_other(&mut self, ts: u64, cpu: u32, task: TaskId, sink: &mut impl Sink) -> bool {
        let Some((other, _)) = self.cpus.current(cpu).filter(|(now, _)| *now != task && *now != TaskId(0)) else {
            return false;
        };
        if matches!(self.tasks.get(task.index()), Some(TaskState { now: Now::Running { .. }, .. })) {
            // It is known to run: what is in doubt is the CPU that the event names, not who left one.
            return false;
        }
        self.settle(ts, other, sink);
        if let Some(t) = self.tasks.get_mut(other.index()) {
            if let Some(run) = t.proven_run(other) {
                sink.run(&run);
            }
            t.forget(ts);
            sink.lost_sight(other);
            self.repairs.dropped += 1;
        }
        self.cpus.vacate(cpu);
        true
    }

    fn waking(&mut self, ts: u64, e: &Waking) {
        let start_ns = self.start_of(e.wakee);
        let Some(t) = self.tasks.get_mut(e.wakee.index()) else { return };
        let waker = match e.context {
            // The idle task wakes nobody: something that the trace did not see did.
            Some(0) if e.waker == TaskId(0) => Waker::Unknown,
            Some(0) => Waker::Task(e.waker),
            Some(context) => Waker::Interrupt { context, source: e.source, irq: e.irq },
            None => Waker::Unknown,
        };
        let wake = Wake { at_ns: ts, waker, cpu: Some(target(e.target_cpu)) };
        self.repairs.dropped += u64::from(t.wake(ts, wake, start_ns));
    }

    fn wakeup(&mut self, ts: u64, e: &Wakeup) {
        let start_ns = self.start_of(e.wakee);
        let Some(t) = self.tasks.get_mut(e.wakee.index()) else { return };
        let unseen = t.queued(ts, target(e.target_cpu), !self.has_waking, start_ns);
        self.repairs.dropped += u64::from(unseen);
    }

    fn call(&mut self, ts: u64, cpu: u32, e: &Call, sink: &mut impl Sink) {
        if cpu != NO_CPU && self.has_switches && self.sight.holds(ts, cpu) {
            self.prove_running(ts, cpu, e.task, sink);
        }
        self.settle(ts, e.task, sink);
        sink.enter(ts, e);
        let at = e.task.index();
        let (Some(stack), Some(state)) = (self.stacks.get_mut(at), self.tasks.get(at)) else { return };
        match e.dur_ns.filter(|_| e.end == END_RETURNED) {
            None => sink.unreturned(ts, e),
            Some(dur) => match ts.checked_add(dur) {
                Some(end) => stack.push(ts, end, *e, state),
                None => self.repairs.impossible += 1,
            },
        }
    }

    fn finish(&mut self, end: u64, sink: &mut impl Sink) {
        self.look(end, sink);
        for at in 0..self.tasks.len() {
            #[expect(clippy::cast_possible_truncation, reason = "a file has at most MAX_ENTRIES tasks")]
            let task = TaskId(at as u32);
            // Nobody knows what the threads of a host did after its own recording.
            let own_end = self.span_of(task).map(|(_, own_end)| own_end).filter(|own_end| *own_end < end);
            self.settle(own_end.unwrap_or(end), task, sink);
            let t = &self.tasks[at];
            if let Some(run) = t.open_run(task) {
                sink.run(&Run { end_ns: own_end, ..run });
            }
            if let Some(stay) = t.open_stay(task) {
                self.stayed(&OffCpu { told_to_ns: own_end.unwrap_or(u64::MAX), ..stay }, sink);
            }
        }
    }
}

/// Stretches in which wakes of a host are missing, in order and apart.
fn without_wakes(trace: &Trace, lost: &[Lost], host: usize) -> Vec<(u64, u64)> {
    let hidden = lost.iter().filter(|l| l.hides_wakes(trace) && l.concerns(host));
    joined(hidden.map(|l| (l.from_ns, l.to_ns)).collect())
}

/// Stretches in which switches are known to be missing, the first one last.
fn without_switches(trace: &Trace, lost: &[Lost]) -> Vec<Blind> {
    let hidden = lost.iter().filter(|l| l.hides_states(trace));
    let mut out: Vec<_> = hidden.map(|l| Blind { from_ns: l.from_ns, to_ns: l.to_ns, host: l.host }).collect();
    out.sort_unstable_by(|a, b| b.cmp(a));
    out
}

/// Stretches in order, those that touch as one.
fn joined(mut stretches: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    stretches.sort_unstable();
    stretches.dedup_by(|next, last| {
        let touches = next.0 <= last.1.saturating_add(1);
        if touches {
            last.1 = last.1.max(next.1);
        }
        touches
    });
    stretches
}

fn target(cpu: u64) -> u32 {
    u32::try_from(cpu).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
