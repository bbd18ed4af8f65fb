//! The state of every thread and CPU through the trace.
//!
//! [`Timeline::run`] walks the events in time order and tells a [`Sink`] what it makes of them:
//! stays off a CPU with their parts, stretches on a CPU, calls with the states that their thread
//! went through. The definitions are those of `spec/semantics.md`.

mod calls;
mod cpus;
mod state;

pub use calls::CallSpan;
pub use cpus::Cpus;
pub use state::{OffCpu, OffKind, Run, Spent, Waker};

use ingero_format::Trace;
use ingero_format::catalog::{Body, Call, END_RETURNED, Kind, Switch, TaskId, Wakeup, Waking};

use crate::merge::{Event, LostBlock, Merge};
use calls::Stack;
use state::{Now, TaskState, Wake};

/// A wake that was recorded this shortly before its task's switch-out belongs to it, where the
/// trace has no sched_wakeup to tell: two CPUs write the two events, and the waker's may come first.
const EARLY_WAKE_NS: u64 = 20_000;

/// Who takes in what the timeline finds. Every method may be left out.
///
/// Things are told when they are complete: a stay off the CPU at its switch-in, a call at its
/// return. What is still open when the trace ends is told then, with `None` for its end.
pub trait Sink {
    /// An event as it was recorded, before its effects are told.
    fn event(&mut self, _event: &Event) {}
    /// A stay off the CPU, from switch-out to switch-in.
    fn off_cpu(&mut self, _stay: &OffCpu, _cpus: &Cpus) {}
    /// A stretch on a CPU, from switch-in to switch-out.
    fn run(&mut self, _run: &Run) {}
    /// A call begins. Its return is known already where it returned at all.
    fn enter(&mut self, _at_ns: u64, _call: &Call) {}
    /// A call returned.
    fn call(&mut self, _span: &CallSpan) {}
    /// A call that never returned.
    fn unreturned(&mut self, _at_ns: u64, _call: &Call) {}
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
    start_ns: u64,
    repairs: Repairs,
}

impl<'t> Timeline<'t> {
    /// A timeline at the start of the trace.
    #[must_use]
    pub fn new(trace: &'t Trace) -> Self {
        let has = |kind: Kind| trace.blocks().iter().any(|b| b.header.kind == kind as u16 && b.header.rows > 0);
        let tasks = trace.tasks().len();
        Self {
            trace,
            tasks: vec![TaskState::default(); tasks],
            stacks: (0..tasks).map(|_| Stack::default()).collect(),
            cpus: Cpus::default(),
            has_waking: has(Kind::Waking),
            confirms: has(Kind::Waking) && has(Kind::Wakeup),
            start_ns: trace.span_ns().map_or(0, |(start, _)| start),
            repairs: Repairs::default(),
        }
    }

    /// Walks the whole trace.
    pub fn run(mut self, sink: &mut impl Sink) -> Repairs {
        let mut merge = Merge::new(self.trace);
        let mut last = 0;
        for event in merge.by_ref() {
            last = event.ts_ns.max(last);
            sink.event(&event);
            self.apply(&event, sink);
        }
        let end = self.trace.span_ns().map_or(last, |(_, end)| end.max(last));
        self.finish(end, sink);
        self.repairs.lost_blocks = merge.into_lost();
        self.repairs.end_ns = end;
        self.repairs
    }

    fn apply(&mut self, event: &Event, sink: &mut impl Sink) {
        let (ts, cpu) = (event.ts_ns, event.cpu);
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
            // These say nothing about the state of a thread.
            Body::Name(_)
            | Body::Process(_)
            | Body::Loss(_)
            | Body::Clock(_)
            | Body::System(_)
            | Body::BlockIssue(_)
            | Body::BlockComplete(_) => {}
        }
    }

    /// Tells the calls of a thread that returned by `ts`, before its state changes.
    fn settle(&mut self, ts: u64, task: TaskId, sink: &mut impl Sink) {
        let at = task.index();
        let (Some(stack), Some(state)) = (self.stacks.get_mut(at), self.tasks.get(at)) else { return };
        stack.pop_until(ts, state, |span| sink.call(span));
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
        let confirms = self.confirms;
        let Some(t) = self.tasks.get_mut(e.prev.index()) else { return };
        if let Some(run) = t.open_run(e.prev) {
            sink.run(&Run { end_ns: Some(ts), ..run });
        }
        let early = t.early_wake.take().filter(|w| !confirms && ts.saturating_sub(w.at_ns) <= EARLY_WAKE_NS);
        t.unconfirmed = t.late_wake.take();
        t.switch_out(ts, cpu, e);
        if let (Some(wake), true) = (early, t.is_blocked()) {
            t.wake(ts, wake, self.start_ns);
        }
    }

    /// `task` takes the CPU: its stay off it ends.
    fn enter_cpu(&mut self, ts: u64, cpu: u32, task: TaskId, synthesised: bool, sink: &mut impl Sink) {
        let Some(t) = self.tasks.get_mut(task.index()) else { return };
        match t.switch_in(ts, cpu, task, synthesised, self.start_ns) {
            Ok(Some(stay)) => sink.off_cpu(&stay, &self.cpus),
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
        let Some(t) = self.tasks.get(task.index()) else { return };
        match t.now {
            Now::Running { .. } => {}
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
                self.cpus.occupy(cpu, ts, task);
            }
            Now::Unknown => {
                if let Some(t) = self.tasks.get_mut(task.index()) {
                    t.runs_unseen(ts, cpu);
                }
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
            t.forget(ts);
            self.repairs.dropped += 1;
        }
        self.cpus.vacate(cpu);
        true
    }

    fn waking(&mut self, ts: u64, e: &Waking) {
        let Some(t) = self.tasks.get_mut(e.wakee.index()) else { return };
        let waker = match e.context {
            // The idle task wakes nobody: something that the trace did not see did.
            Some(0) if e.waker == TaskId(0) => Waker::Unknown,
            Some(0) => Waker::Task(e.waker),
            Some(context) => Waker::Interrupt { context },
            None => Waker::Unknown,
        };
        let wake = Wake { at_ns: ts, waker, cpu: Some(target(e.target_cpu)) };
        self.repairs.dropped += u64::from(t.wake(ts, wake, self.start_ns));
    }

    fn wakeup(&mut self, ts: u64, e: &Wakeup) {
        let Some(t) = self.tasks.get_mut(e.wakee.index()) else { return };
        let unseen = t.queued(ts, target(e.target_cpu), !self.has_waking, self.start_ns);
        self.repairs.dropped += u64::from(unseen);
    }

    fn call(&mut self, ts: u64, cpu: u32, e: &Call, sink: &mut impl Sink) {
        self.prove_running(ts, cpu, e.task, sink);
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
        for at in 0..self.tasks.len() {
            #[expect(clippy::cast_possible_truncation, reason = "a file has at most MAX_ENTRIES tasks")]
            let task = TaskId(at as u32);
            self.settle(end, task, sink);
            let t = &self.tasks[at];
            if let Some(run) = t.open_run(task) {
                sink.run(&run);
            }
            if let Some(stay) = t.open_stay(task) {
                sink.off_cpu(&stay, &self.cpus);
            }
        }
    }
}

fn target(cpu: u64) -> u32 {
    u32::try_from(cpu).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
