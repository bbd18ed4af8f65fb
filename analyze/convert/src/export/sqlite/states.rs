//! What the timeline makes of the events: stretches on a CPU, stays off it with whoever held the CPU
//! meanwhile, and where the time of each call went.

use std::collections::HashMap;

use ingero_format::Trace;
use ingero_format::catalog::{Body, CONTEXTS, Call, Kind, TaskId};
use ingero_replay::{CallSpan, Cpus, Event, OffCpu, OffKind, Run, Sink, StoredStay, Timeline, Undivided, Waker};
use rusqlite::{Connection, Statement, params};

use super::integer;
use crate::export::names::{known_cpu, name_of};
use crate::export::selection::Selection;

const TABLES: &str = "
CREATE TABLE call_time (call INTEGER PRIMARY KEY REFERENCES call(id), depth INTEGER NOT NULL, self_ns INTEGER NOT NULL,
    running_ns INTEGER, runnable_ns INTEGER, throttled_ns INTEGER, blocked_ns INTEGER);
CREATE TABLE run (id INTEGER PRIMARY KEY, task INTEGER NOT NULL REFERENCES tasks(id), cpu INTEGER,
    start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL, before INTEGER NOT NULL, unfinished INTEGER NOT NULL,
    synthesised INTEGER NOT NULL);
CREATE TABLE stay (id INTEGER PRIMARY KEY, task INTEGER NOT NULL REFERENCES tasks(id), kind TEXT NOT NULL,
    start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL, before INTEGER NOT NULL, unfinished INTEGER NOT NULL,
    synthesised INTEGER NOT NULL, out_cpu INTEGER, in_cpu INTEGER, runnable_from_ns INTEGER, wait_cpu INTEGER,
    blocked_ns INTEGER NOT NULL, runnable_ns INTEGER NOT NULL, throttled_ns INTEGER NOT NULL, prev_state INTEGER,
    syscall INTEGER, woken_by TEXT, waker INTEGER REFERENCES tasks(id));
CREATE TABLE stored_stay (id INTEGER PRIMARY KEY, task INTEGER NOT NULL REFERENCES tasks(id), start_ns INTEGER NOT NULL,
    end_ns INTEGER NOT NULL, before INTEGER NOT NULL, unfinished INTEGER NOT NULL);
CREATE TABLE undivided (id INTEGER PRIMARY KEY, task INTEGER NOT NULL REFERENCES tasks(id), start_ns INTEGER NOT NULL,
    end_ns INTEGER NOT NULL, before INTEGER NOT NULL, unfinished INTEGER NOT NULL);
CREATE TABLE behind (stay INTEGER NOT NULL REFERENCES stay(id), holder INTEGER NOT NULL REFERENCES tasks(id), ns INTEGER NOT NULL);
";

const INDEXES: &str = "
CREATE INDEX run_by_task ON run (task, start_ns);
CREATE INDEX run_by_cpu ON run (cpu, start_ns);
CREATE INDEX stay_by_task ON stay (task, start_ns);
CREATE INDEX stay_by_start ON stay (start_ns);
CREATE INDEX stored_stay_by_task ON stored_stay (task, start_ns);
CREATE INDEX undivided_by_task ON undivided (task, start_ns);
CREATE INDEX behind_by_stay ON behind (stay);
";

/// Writes the tables of what the timeline tells.
pub(super) fn write(db: &Connection, trace: &Trace, selection: &Selection) -> rusqlite::Result<()> {
    db.execute_batch(TABLES)?;
    let mut sink = StateSink {
        selection,
        trace_end_ns: trace.span_ns().map_or(0, |(_, end)| end),
        calls: db.prepare("INSERT INTO call_time VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?,
        runs: db.prepare("INSERT INTO run VALUES (NULL, ?1, ?2, ?3, ?4, ?5, ?6, ?7)")?,
        stays: db.prepare(
            "INSERT INTO stay VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)",
        )?,
        stored: db.prepare("INSERT INTO stored_stay VALUES (NULL, ?1, ?2, ?3, ?4, ?5)")?,
        undivided: db.prepare("INSERT INTO undivided VALUES (NULL, ?1, ?2, ?3, ?4, ?5)")?,
        behind: db.prepare("INSERT INTO behind VALUES (?1, ?2, ?3)")?,
        held: HashMap::new(),
        told: 0,
        stay: 0,
        open: HashMap::new(),
        knows_throttling: false,
        failed: None,
    };
    let repairs = Timeline::new(trace).run(&mut sink);
    if let Some(e) = sink.failed {
        return Err(e);
    }
    let knows_throttling = sink.knows_throttling;
    let facts = [
        ("knows_throttling", knows_throttling.to_string()),
        ("switch_ins_synthesised", repairs.synthesised.to_string()),
        ("intervals_dropped", repairs.dropped.to_string()),
    ];
    for (key, value) in facts {
        db.execute("INSERT INTO meta VALUES (?1, ?2)", params![key, value])?;
    }
    db.execute_batch(INDEXES)
}

struct StateSink<'d> {
    selection: &'d Selection,
    trace_end_ns: u64,
    calls: Statement<'d>,
    runs: Statement<'d>,
    stays: Statement<'d>,
    stored: Statement<'d>,
    undivided: Statement<'d>,
    behind: Statement<'d>,
    held: HashMap<TaskId, u64>,
    /// Calls that came by: the rowid of the last one.
    told: i64,
    stay: i64,
    /// By task: calls that have not been told to have returned, with their rowids, outermost first.
    open: HashMap<TaskId, Vec<(u64, Call, i64)>>,
    knows_throttling: bool,
    failed: Option<rusqlite::Error>,
}

impl StateSink<'_> {
    fn note(&mut self, done: rusqlite::Result<usize>) {
        if let Err(e) = done {
            self.failed.get_or_insert(e);
        }
    }

    /// A span of a thread's state within the range; whether its begin and its end are cut off by it.
    fn clip(&self, task: TaskId, start_ns: u64, end_ns: Option<u64>, kind: Kind) -> Option<(u64, u64, bool, bool)> {
        let w = self.selection.window;
        let end = end_ns.unwrap_or_else(|| w.to_ns.min(self.trace_end_ns));
        let (from, to) = self.selection.clip((start_ns, end));
        let shown = self.selection.shows_state((from, to)) && self.selection.shows(task);
        let wanted = shown && self.selection.takes_kind(kind) && self.failed.is_none();
        wanted.then_some((from, to, from > start_ns, to < end || end_ns.is_none()))
    }
}

impl Sink for StateSink<'_> {
    fn event(&mut self, event: &Event) {
        match &event.body {
            Body::Call(_) => self.told += 1,
            Body::Switch(e) => self.knows_throttling |= e.throttled.is_some(),
            _ => {}
        }
    }

    fn enter(&mut self, at_ns: u64, call: &Call) {
        self.open.entry(call.task).or_default().push((at_ns, *call, self.told));
    }

    fn call(&mut self, span: &CallSpan) {
        let Some(open) = self.open.get_mut(&span.call.task) else { return };
        let Some(at) = open.iter().rposition(|(ts, call, _)| *ts == span.start_ns && *call == span.call) else {
            return;
        };
        let (_, _, row) = open.remove(at);
        let dur_ns = Some(span.dur_ns());
        if self.failed.is_some() || !self.selection.shows_call(span.start_ns, dur_ns, span.call.task) {
            return;
        }
        let s = span.spent;
        // Where nothing is known of states, the analysis says so when it is done.
        let done = self.calls.execute(params![
            row,
            span.depth,
            integer(span.self_ns),
            integer(s.running_ns),
            integer(s.runnable_ns),
            integer(s.throttled_ns),
            integer(s.blocked_ns)
        ]);
        self.note(done);
    }

    fn unreturned(&mut self, _at_ns: u64, call: &Call) {
        if let Some(open) = self.open.get_mut(&call.task) {
            open.pop();
        }
    }

    fn run(&mut self, run: &Run) {
        let Some((from, to, before, unfinished)) = self.clip(run.task, run.start_ns, run.end_ns, Kind::Switch) else {
            return;
        };
        let done = self.runs.execute(params![
            run.task.0,
            known_cpu(run.cpu),
            integer(from),
            integer(to),
            run.before || before,
            unfinished || run.unfinished,
            run.synthesised
        ]);
        self.note(done);
    }

    fn stored_stay(&mut self, stay: &StoredStay) {
        let clipped = self.clip(stay.task, stay.out_ns, Some(stay.back_ns), Kind::OffCpu);
        let Some((from, to, before, unfinished)) = clipped else { return };
        let done = self.stored.execute(params![stay.task.0, integer(from), integer(to), before, unfinished]);
        self.note(done);
    }

    fn undivided(&mut self, part: &Undivided) {
        let clipped = self.clip(part.task, part.from_ns, part.to_ns, Kind::Switch);
        let Some((from, to, cut, unfinished)) = clipped else { return };
        let before = cut || part.out_ns.is_none();
        let unfinished = unfinished || part.unfinished;
        let done = self.undivided.execute(params![part.task.0, integer(from), integer(to), before, unfinished]);
        self.note(done);
    }

    fn off_cpu(&mut self, stay: &OffCpu, cpus: &Cpus) {
        let end_ns = stay.end_ns();
        let Some((from, to, cut, unfinished)) = self.clip(stay.task, stay.out_ns, end_ns, Kind::Switch) else { return };
        let unfinished = unfinished || stay.back.is_none();
        self.stay += 1;
        let before = stay.before || cut;
        let kind = match stay.kind {
            OffKind::Blocked => "blocked",
            OffKind::Preempted => "preempted",
            OffKind::Throttled => "throttled",
            OffKind::Newborn => "newborn",
        };
        let (woken_by, waker) = match stay.waker {
            Waker::Task(task) => (Some("task"), Some(task.0)),
            Waker::Interrupt { context, .. } => (Some(name_of(CONTEXTS, context)), None),
            Waker::Unknown => (None, None),
        };
        let spent = stay.spent(from, to);
        let done = self.stays.execute(params![
            self.stay,
            stay.task.0,
            kind,
            integer(from),
            integer(to),
            before,
            unfinished,
            stay.synthesised,
            stay.out_cpu.and_then(known_cpu),
            stay.back.and_then(|(cpu, _)| known_cpu(cpu)),
            stay.runnable_ns.map(integer),
            stay.wait_cpu.and_then(known_cpu),
            integer(spent.blocked_ns),
            integer(spent.runnable_ns),
            integer(spent.throttled_ns),
            // Nobody saw in which state it left.
            (!stay.before).then_some(integer(stay.prev_state)),
            stay.syscall.map(integer),
            woken_by,
            waker,
        ]);
        self.note(done);
        let Some((cpu, since)) = stay.wait_cpu.zip(stay.runnable_ns).filter(|_| stay.kind != OffKind::Throttled) else {
            return;
        };
        let mut held = std::mem::take(&mut self.held);
        cpus.holders(cpu, from.max(since), to, |task, ns| {
            let sum = held.entry(task).or_default();
            *sum = sum.saturating_add(ns);
        });
        let mut holders: Vec<_> = held.drain().collect();
        holders.sort_unstable();
        for (holder, ns) in holders {
            let done = self.behind.execute(params![self.stay, holder.0, integer(ns)]);
            self.note(done);
        }
        self.held = held;
    }
}
