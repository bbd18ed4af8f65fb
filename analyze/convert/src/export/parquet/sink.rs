//! Takes what the timeline tells and makes rows of it: calls, states of threads, who held a CPU meanwhile.

use ingero_format::Trace;
use ingero_format::catalog::{Body, CONTEXTS, Call, Kind, NO_CPU, TaskId};
use ingero_replay::{CallSpan, Cpus, Event, OffCpu, OffKind, Run, Sink, Undivided, Waker};

use super::calls::{self, CallRow, Split};
use super::columns::Columns;
use super::place::Place;
use super::states::{self, BehindRow, StateRow, Stay};
use super::table::Table;
use super::tasks::Common;
use super::words::{Word, Words};
use crate::error::Error;
use crate::export::selection::{KnownStates, Selection};
use crate::input::Progress;

type Layout<'s, R> = Box<dyn Fn(&[R], &mut Columns) + 's>;

pub(super) struct DatasetSink<'s> {
    words: &'s Words<'s>,
    selection: &'s Selection,
    progress: &'s Progress,
    names: Names,
    calls: Table<CallRow, Layout<'s, CallRow>>,
    states: Table<StateRow, Layout<'s, StateRow>>,
    behind: Table<BehindRow, Layout<'s, BehindRow>>,
    trace_end_ns: u64,
    stay: i64,
    told: u64,
    /// CPU of the event that is told.
    cpu: u32,
    /// By task: calls that have not been told to have returned, with their CPUs, outermost first.
    open: Vec<Vec<(u64, Call, u32)>>,
    holders: Vec<(TaskId, u64)>,
    known: KnownStates,
    failed: Option<Error>,
}

/// Words that rows hold.
struct Names {
    running: Word,
    runnable: Word,
    blocked: Word,
    throttled: Word,
    off_cpu: Word,
    preempted: Word,
    newborn: Word,
    by_task: Word,
    contexts: Vec<(u64, Word)>,
    unknown: Word,
}

impl Names {
    fn new(words: &Words) -> Self {
        Self {
            running: words.own("running"),
            runnable: words.own("runnable"),
            blocked: words.own("blocked"),
            throttled: words.own("throttled"),
            off_cpu: words.own("off-cpu"),
            preempted: words.own("preempted"),
            newborn: words.own("newborn"),
            by_task: words.own("task"),
            contexts: words.list(CONTEXTS),
            unknown: words.own("unknown"),
        }
    }

    fn context(&self, context: u64) -> Word {
        self.contexts.iter().find(|(value, _)| *value == context).map_or(self.unknown, |(_, word)| *word)
    }
}

impl<'s> DatasetSink<'s> {
    pub(super) fn new(
        trace: &'s Trace,
        of: &'s Common<'s, 's>,
        selection: &'s Selection,
        place: &Place,
        progress: &'s Progress,
    ) -> Result<Self, Error> {
        let calls: Layout<CallRow> = Box::new(move |rows, c| calls::columns(rows, of, trace, c));
        let states: Layout<StateRow> = Box::new(move |rows, c| states::state_columns(rows, of, c));
        let behind: Layout<BehindRow> = Box::new(move |rows, c| states::behind_columns(rows, of, c));
        Ok(Self {
            words: of.words,
            selection,
            progress,
            names: Names::new(of.words),
            calls: Table::new(&place.path("calls"), calls)?,
            states: Table::new(&place.path("thread_states"), states)?,
            behind: Table::new(&place.path("behind"), behind)?,
            trace_end_ns: trace.span_ns().map_or(0, |(_, end)| end),
            stay: 0,
            told: 0,
            cpu: NO_CPU,
            open: vec![Vec::new(); trace.tasks().len()],
            holders: Vec::new(),
            known: KnownStates::new(trace),
            failed: None,
        })
    }

    /// Writes what is still held.
    pub(super) fn finish(self, place: &mut Place) -> Result<(), Error> {
        if let Some(e) = self.failed {
            return Err(e);
        }
        place.keep("calls", self.calls.finish(self.words)?);
        place.keep("thread_states", self.states.finish(self.words)?);
        place.keep("behind", self.behind.finish(self.words)?);
        Ok(())
    }

    fn note(&mut self, done: Result<(), Error>) {
        if let Err(e) = done {
            self.failed.get_or_insert(e);
        }
    }

    fn put_call(&mut self, row: CallRow) {
        if self.failed.is_none() && self.selection.shows_call(row.ts_ns, row.call.dur_ns, row.call.task) {
            let done = self.calls.push(row, self.words);
            self.note(done);
        }
    }

    fn put_state(&mut self, row: StateRow) {
        // Of a stay that lasted long a part may not have.
        if self.selection.shows_state(row.span) {
            let done = self.states.push(row, self.words);
            self.note(done);
        }
    }

    /// A span of a thread's state within the range; whether the range cuts it off.
    fn clip(&self, task: TaskId, start_ns: u64, end_ns: Option<u64>) -> Option<(u64, u64, bool)> {
        let w = self.selection.window;
        let end = end_ns.unwrap_or_else(|| w.to_ns.min(self.trace_end_ns));
        let (from, to) = self.selection.clip((start_ns, end));
        let shown = self.selection.shows_state((from, to)) && self.selection.shows(task);
        let wanted = shown && self.selection.takes_kind(Kind::Switch) && self.failed.is_none();
        wanted.then_some((from, to, from > start_ns || to < end || end_ns.is_none()))
    }

    /// Who held the CPU from `since` to `to`.
    fn put_holders(&mut self, stay: &OffCpu, kind: Word, whole: bool, (since, to): (u64, u64), cpu: u32, cpus: &Cpus) {
        let mut holders = std::mem::take(&mut self.holders);
        cpus.holders(cpu, since, to, |task, ns| holders.push((task, ns)));
        holders.sort_unstable();
        let mut left = &holders[..];
        while let Some((holder, _)) = left.first().copied() {
            let (his, others) = left.split_at(left.partition_point(|(task, _)| *task == holder));
            left = others;
            let ns = his.iter().fold(0u64, |sum, (_, ns)| sum.saturating_add(*ns));
            let row = BehindRow { start_ns: since, ns, stay: self.stay, kind, whole, task: stay.task, holder };
            let done = self.behind.push(row, self.words);
            self.note(done);
        }
        holders.clear();
        self.holders = holders;
    }
}

impl Sink for DatasetSink<'_> {
    fn event(&mut self, event: &Event) {
        self.told += 1;
        if self.told.is_multiple_of(1 << 14) {
            self.progress.add(1 << 14);
        }
        if let Body::Call(_) = event.body {
            self.cpu = event.cpu;
        }
    }

    fn enter(&mut self, at_ns: u64, call: &Call) {
        let cpu = self.cpu;
        if let Some(open) = self.open.get_mut(call.task.index()) {
            open.push((at_ns, *call, cpu));
        }
    }

    fn call(&mut self, span: &CallSpan) {
        let Some(open) = self.open.get_mut(span.call.task.index()) else { return };
        let Some(at) = open.iter().rposition(|(ts, call, _)| *ts == span.start_ns && *call == span.call) else {
            return;
        };
        let (_, call, cpu) = open.remove(at);
        let spent = self.known.of(span.call.task).then_some(span.spent);
        let split = Split { spent, self_ns: span.self_ns, depth: span.depth };
        self.put_call(CallRow { ts_ns: span.start_ns, cpu, call, split: Some(split) });
    }

    fn unreturned(&mut self, at_ns: u64, call: &Call) {
        let cpu = self.open.get_mut(call.task.index()).and_then(Vec::pop).map_or(NO_CPU, |(_, _, cpu)| cpu);
        self.put_call(CallRow { ts_ns: at_ns, cpu, call: *call, split: None });
    }

    fn run(&mut self, run: &Run) {
        let Some((from, to, cut)) = self.clip(run.task, run.start_ns, run.end_ns) else { return };
        self.put_state(StateRow {
            task: run.task,
            span: (from, to),
            state: self.names.running,
            cpu: Some(run.cpu),
            stay: None,
            whole: !(run.before || cut),
            synthesised: run.synthesised,
        });
    }

    fn undivided(&mut self, part: &Undivided) {
        let Some((from, to, cut)) = self.clip(part.task, part.from_ns, part.to_ns) else { return };
        self.put_state(StateRow {
            task: part.task,
            span: (from, to),
            state: self.names.off_cpu,
            cpu: None,
            stay: None,
            whole: part.out_ns.is_some() && !cut,
            synthesised: false,
        });
    }

    fn off_cpu(&mut self, stay: &OffCpu, cpus: &Cpus) {
        let Some((from, to, cut)) = self.clip(stay.task, stay.out_ns, stay.end_ns()) else { return };
        self.stay += 1;
        let whole = !(stay.before || cut || stay.back.is_none());
        let names = &self.names;
        let kind = match stay.kind {
            OffKind::Blocked => names.blocked,
            OffKind::Preempted => names.preempted,
            OffKind::Throttled => names.throttled,
            OffKind::Newborn => names.newborn,
        };
        let (woken_by, waker) = match stay.waker {
            Waker::Task(task) => (Some(names.by_task), Some(task)),
            Waker::Interrupt { context, .. } => (Some(names.context(context)), None),
            Waker::Unknown => (None, None),
        };
        let spent = stay.spent(from, to);
        let parts = [
            (names.throttled, (from, from + spent.throttled_ns), stay.out_cpu),
            (names.blocked, (from, from + spent.blocked_ns), stay.out_cpu),
            (names.runnable, (to - spent.runnable_ns, to), stay.wait_cpu),
        ];
        let of = Stay { number: self.stay, kind, woken_by, waker, syscall: stay.syscall };
        for (state, span, cpu) in parts {
            let synthesised = stay.synthesised;
            self.put_state(StateRow { task: stay.task, span, state, cpu, stay: Some(of), whole, synthesised });
        }
        if let Some((cpu, since)) = stay.wait_cpu.zip(stay.runnable_ns).filter(|_| stay.kind != OffKind::Throttled) {
            self.put_holders(stay, kind, whole, (from.max(since), to), cpu, cpus);
        }
    }
}
