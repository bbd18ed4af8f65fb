//! The rows of the layout's one table of events, what is counted of them by minute, and samples of the system.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ingero_format::Trace;
use ingero_format::catalog::{
    Aggregate as Total, Body, Call, END_RETURNED, Exec, Kind, NO_CPU, OffCpu as StoredStay, OtherEvent, System, TaskId,
    Usage, Wakeup,
};
use ingero_replay::{CallSpan, Cpus, Event, Hosts, OffCpu, OffKind, PageSizes, Sink, Undivided};
use rusqlite::{Connection, Statement, params};

use super::kept::Kept;
use super::nodes::Nodes;
use super::ops::{CUDA, EXEC, EXIT, FORK, HOST, IO, Ops, PAGE_ALLOC, SWITCH, WAKEUP};
use super::{Clock, INSERT_AGGREGATE, integer};
use crate::export::selection::Selection;
use crate::input::Progress;

/// One row of `event_aggregates`.
#[derive(Clone, Copy)]
pub(super) struct Aggregate {
    pub(super) count: i64,
    pub(super) sum_dur: i64,
    pub(super) min_dur: i64,
    pub(super) max_dur: i64,
    pub(super) sum_arg0: i64,
}

/// Writes each event that the layout has a place for.
pub(super) struct EventSink<'d> {
    kept: &'d Kept,
    /// By host: whether its recording was a database of ingero's.
    of_ingero: Vec<bool>,
    trace: &'d Trace,
    selection: &'d Selection,
    progress: &'d Progress,
    clock: Clock,
    ops: &'d Ops,
    nodes: &'d Nodes,
    page_sizes: PageSizes,
    insert: Statement<'d>,
    snapshot: Statement<'d>,
    total: Statement<'d>,
    /// By host: whether its source kept a sample.
    sampled: Vec<bool>,
    takes_totals: bool,
    /// Totals of the source that were written.
    pub(super) totals: u64,
    hosts: Hosts,
    /// By host: its sample before.
    last_systems: HashMap<usize, System>,
    /// Stacks of the events that were written.
    pub(super) stacks: BTreeSet<u64>,
    /// Requests under way, by host, device and sector: when, by whom, how large.
    requests: HashMap<(usize, u64, u64), (u64, TaskId, u64)>,
    /// Of events of recordings: of a sample they would say how many were stored, not how many there were.
    pub(super) aggregates: BTreeMap<(i64, i64, i64, u32), Aggregate>,
    told: u64,
    pub(super) rows: u64,
    pub(super) failed: Option<rusqlite::Error>,
}

/// What an event of ingero holds beside its time and its task.
#[derive(Clone, Copy, Default)]
struct Values {
    dur_ns: u64,
    arg0: u64,
    arg1: u64,
    result: i64,
    /// Whether `arg0` is a size: sums of addresses mean nothing.
    sized: bool,
    /// Whether the time of the row is that of its end.
    ended: bool,
}

impl<'d> EventSink<'d> {
    #[expect(clippy::too_many_arguments, reason = "each is a part of one conversion")]
    pub(super) fn new(
        db: &'d Connection,
        trace: &'d Trace,
        selection: &'d Selection,
        progress: &'d Progress,
        kept: &'d Kept,
        ops: &'d Ops,
        nodes: &'d Nodes,
        clock: Clock,
    ) -> rusqlite::Result<Self> {
        let hosts = Hosts::new(trace);
        let source = |host: usize| trace.meta(&format!("host.{host}.source")).or_else(|| trace.meta("source"));
        Ok(Self {
            kept,
            of_ingero: (0..hosts.count()).map(|host| source(host) == Some("ingero")).collect(),
            trace,
            selection,
            progress,
            clock,
            ops,
            nodes,
            page_sizes: PageSizes::new(trace),
            insert: db.prepare(
                "INSERT INTO events (id, timestamp, pid, tid, source, op, duration, gpu_id, arg0, arg1, ret_code, node, stack_hash, \
                 cgroup_id) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, ?8, ?9, ?10, ?11, ?12, ?13)",
            )?,
            snapshot: db.prepare("INSERT OR IGNORE INTO system_snapshots VALUES (NULL, ?1, ?2, ?3, ?4, ?5, ?6)")?,
            total: db.prepare(INSERT_AGGREGATE)?,
            sampled: hosts.sampled(trace),
            // A total is of a whole minute, of events of any length.
            takes_totals: !selection.window.is_cut() && selection.min_duration_ns == 0,
            totals: 0,
            hosts,
            last_systems: HashMap::new(),
            stacks: BTreeSet::new(),
            requests: HashMap::new(),
            aggregates: BTreeMap::new(),
            told: 0,
            rows: 0,
            failed: None,
        })
    }
}

impl EventSink<'_> {
    fn is_of_ingero(&self, task: TaskId) -> bool {
        self.of_ingero.get(self.hosts.of_task(self.trace, task)).is_some_and(|&it| it)
    }

    fn is_sampled(&self, task: TaskId) -> bool {
        self.sampled.get(self.hosts.of_task(self.trace, task)).is_some_and(|&it| it)
    }

    fn put(&mut self, ts_ns: u64, task: TaskId, (source, op): (i64, i64), values: Values) {
        const MINUTE_NS: i64 = 60_000_000_000;
        if self.failed.is_some() || values.dur_ns < self.selection.min_duration_ns && values.dur_ns > 0 {
            return;
        }
        self.rows += 1;
        let begun_ns = if values.ended { ts_ns.saturating_sub(values.dur_ns) } else { ts_ns };
        let stack = self.kept.stack(begun_ns, task);
        self.stacks.extend(stack);
        let stack_hash = stack.map_or(0, |stack| self.kept.hash(self.trace, stack));
        let cgroup = self.kept.cgroup(ts_ns, task);
        let (is_of_ingero, is_sampled) = (self.is_of_ingero(task), self.is_sampled(task));
        let (unix, task) = (self.clock.unix(ts_ns), self.trace.task(task));
        // Events of the kernel name a thread as if it were a process there; exits name both.
        let by_thread = is_of_ingero && source == HOST && (source, op) != EXIT;
        let pid = if by_thread { task.tid } else { task.pid };
        let dur = i64::try_from(values.dur_ns).unwrap_or(i64::MAX);
        let node = self.nodes.of_pid(task.pid);
        let id = format!("{node}:{}", self.rows);
        let (arg0, arg1) = (integer(values.arg0), integer(values.arg1));
        let result = values.result;
        let row = params![id, unix, pid, task.tid, source, op, dur, arg0, arg1, result, node, stack_hash, cgroup];
        if let Err(e) = self.insert.execute(row) {
            self.failed = Some(e);
            return;
        }
        if is_sampled {
            return;
        }
        let key = (unix - unix.rem_euclid(MINUTE_NS), source, op, task.pid);
        let none = Aggregate { count: 0, sum_dur: 0, min_dur: i64::MAX, max_dur: 0, sum_arg0: 0 };
        let sum = self.aggregates.entry(key).or_insert(none);
        sum.count += 1;
        sum.sum_dur = sum.sum_dur.saturating_add(dur);
        sum.min_dur = sum.min_dur.min(dur);
        sum.max_dur = sum.max_dur.max(dur);
        if values.sized {
            sum.sum_arg0 = sum.sum_arg0.saturating_add(arg0.max(0));
        }
    }

    fn shows(&self, kind: Kind, ts_ns: u64, task: TaskId) -> bool {
        self.selection.takes_kind(kind) && self.selection.touches((ts_ns, ts_ns)) && self.selection.shows(task)
    }

    fn put_call(&mut self, ts_ns: u64, call: &Call, dur_ns: u64) {
        let op = self.ops.functions.get(call.func.index()).copied().unwrap_or((CUDA, 0));
        // Allocations and copies have a size, launches the kernel's address; copies have a direction.
        let arg0 = call.bytes.or(call.ptr).unwrap_or(0);
        let arg1 = call.copy.or(call.stream).unwrap_or(0);
        self.put(
            ts_ns,
            call.task,
            op,
            Values { dur_ns, arg0, arg1, result: call.result.unwrap_or(0), sized: call.bytes.is_some(), ended: false },
        );
    }

    /// A switch-in, and since when its task was away.
    fn came_back(&mut self, task: TaskId, out_ns: u64, at_ns: u64) {
        if self.shows(Kind::Switch, at_ns, task) {
            let arg1 = self.trace.task(task).tid.into();
            let dur_ns = at_ns.saturating_sub(out_ns);
            self.put(at_ns, task, SWITCH, Values { dur_ns, arg1, ended: true, ..Values::default() });
        }
    }

    /// A stay that a source stored by itself: no switch of it was recorded.
    fn stored_stay(&mut self, ts_ns: u64, stay: &StoredStay) {
        let end_ns = ts_ns.saturating_add(stay.dur_ns);
        let arg1 = self.trace.task(stay.task).tid.into();
        self.put(end_ns, stay.task, SWITCH, Values { dur_ns: stay.dur_ns, arg1, ended: true, ..Values::default() });
    }

    fn other(&mut self, ts_ns: u64, e: &OtherEvent) {
        let Some(op) = self.ops.named.get(&(e.source, e.op)).copied() else { return };
        let (arg0, arg1) = (e.arg0.cast_unsigned(), e.arg1.cast_unsigned());
        let values = Values { dur_ns: e.dur_ns.unwrap_or(0), arg0, arg1, result: e.result, sized: false, ended: false };
        self.put(ts_ns, e.task, op, values);
    }

    /// A total of the source, as it is: it counts what is not stored as well.
    fn total(&mut self, total: &Total) {
        // What is counted of a kind that is left out is left out as well.
        let kind = match (total.func, self.trace.string(total.op)) {
            (Some(_), _) => Kind::Call,
            (None, "sched_switch") => Kind::OffCpu,
            (None, "mm_page_alloc") => Kind::PageAlloc,
            _ => Kind::OtherEvent,
        };
        let taken =
            self.takes_totals && (self.selection.takes_kind(kind) || self.selection.takes_kind(Kind::Aggregate));
        let Some((source, op)) = self.ops.of(total).filter(|_| taken && self.selection.shows(total.task)) else {
            return;
        };
        let ns = |ns: Option<u64>| integer(ns.unwrap_or(0));
        let row = params![
            integer(total.bucket_ns),
            source,
            op,
            // The source counts by what it takes for a process, which may be a thread.
            self.trace.task(total.task).tid,
            integer(total.count),
            integer(total.stored),
            ns(total.sum_dur_ns),
            ns(total.min_dur_ns),
            ns(total.max_dur_ns),
            integer(total.sum_arg0)
        ];
        match self.total.execute(row) {
            Ok(_) => self.totals += 1,
            Err(e) => self.failed = Some(e),
        }
    }

    /// Takes the request that a completion on a CPU is of. Where the source does not tell the CPU, and requests of two hosts could
    /// be meant, it is of neither.
    fn request_of(&mut self, cpu: u32, (dev, sector): (u64, u64)) -> Option<(u64, TaskId, u64)> {
        let host = if cpu == NO_CPU {
            let mut hosts = (0..self.hosts.count()).filter(|host| self.requests.contains_key(&(*host, dev, sector)));
            let only = hosts.next()?;
            hosts.next().is_none().then_some(only)?
        } else {
            self.hosts.of_cpu(cpu)
        };
        self.requests.remove(&(host, dev, sector))
    }

    /// A sample of the system as another tool took it: shares, not sums.
    fn usage(&mut self, ts_ns: u64, now: &Usage) {
        #[expect(clippy::cast_precision_loss, reason = "shares for people")]
        let percent = |ppb: u64| ppb as f64 / 1e7;
        #[expect(clippy::cast_precision_loss, reason = "thousandths of a load")]
        let load = now.load1_milli as f64 / 1000.0;
        let mib = |bytes: u64| integer(bytes >> 20);
        let (cpu, used) = (percent(now.cpu_ppb), percent(now.mem_ppb));
        let (available, swap) = (mib(now.mem_available_bytes), mib(now.swap_used_bytes));
        if self.selection.touches((ts_ns, ts_ns))
            && let Err(e) = self.snapshot.execute(params![self.clock.unix(ts_ns), cpu, used, available, swap, load])
        {
            self.failed = Some(e);
        }
    }

    fn system(&mut self, host: usize, ts_ns: u64, now: &System) {
        #[expect(clippy::cast_precision_loss, reason = "shares for people")]
        let share = |part: u64, all: u64| if all == 0 { 0.0 } else { part as f64 * 100.0 / all as f64 };
        let before = self.last_systems.insert(host, *now);
        if !self.selection.touches((ts_ns, ts_ns)) || self.failed.is_some() {
            return;
        }
        // The layout allows no null: a sample that lacks a value is left out (OR IGNORE).
        let busy = |s: &System| Some(s.user_ns?.saturating_add(s.system_ns?).saturating_add(s.steal_ns?));
        let all = |s: &System| Some(busy(s)?.saturating_add(s.idle_ns?).saturating_add(s.iowait_ns?));
        let since = |pick: &dyn Fn(&System) -> Option<u64>| match before {
            Some(before) => Some(pick(now)?.saturating_sub(pick(&before)?)),
            None => Some(0),
        };
        let cpu = since(&busy).zip(since(&all)).map(|(part, all)| share(part, all));
        let used = now
            .mem_total_bytes
            .zip(now.mem_available_bytes)
            .map(|(all, available)| share(all.saturating_sub(available), all));
        #[expect(clippy::cast_precision_loss, reason = "thousandths of a load")]
        let load = now.load1_milli.map(|load| load as f64 / 1000.0);
        let mib = |bytes: Option<u64>| bytes.map(|bytes| integer(bytes >> 20));
        let row =
            params![self.clock.unix(ts_ns), cpu, used, mib(now.mem_available_bytes), mib(now.swap_used_bytes), load];
        if let Err(e) = self.snapshot.execute(row) {
            self.failed = Some(e);
        }
    }
}

impl Sink for EventSink<'_> {
    fn event(&mut self, event: &Event) {
        self.told += 1;
        if self.told.is_multiple_of(1 << 14) {
            self.progress.add(1 << 14);
        }
        let ts = event.ts_ns;
        match &event.body {
            Body::PageAlloc(e) if self.shows(Kind::PageAlloc, ts, e.task) => {
                let arg0 = self.page_sizes.bytes(self.trace, e.task, e.order);
                self.put(ts, e.task, PAGE_ALLOC, Values { arg0, sized: true, ..Values::default() });
            }
            Body::Exec(Exec { task, .. }) if self.shows(Kind::Exec, ts, *task) => {
                self.put(ts, *task, EXEC, Values::default());
            }
            Body::Exit(e) if self.shows(Kind::Exit, ts, e.task) => self.put(ts, e.task, EXIT, Values::default()),
            Body::Fork(e) if self.shows(Kind::Fork, ts, e.parent) => {
                let arg1 = self.trace.task(e.child).tid.into();
                self.put(ts, e.parent, FORK, Values { arg1, ..Values::default() });
            }
            Body::BlockIssue(e) => {
                let host = self.hosts.of_event(self.trace, event.cpu, e.task);
                self.requests.insert((host, e.dev, e.sector), (ts, e.task, e.bytes));
            }
            Body::BlockComplete(e) => {
                let Some((since, task, bytes)) = self.request_of(event.cpu, (e.dev, e.sector)) else { return };
                let op = match self.trace.string(e.rwbs) {
                    r if r.starts_with('D') => 3,
                    r if r.contains('W') => 2,
                    _ => 1,
                };
                if self.shows(Kind::BlockIssue, ts, task) {
                    let dur_ns = ts.saturating_sub(since);
                    self.put(
                        ts,
                        task,
                        (IO, op),
                        Values { dur_ns, arg0: bytes / 512, arg1: e.sector, ended: true, ..Values::default() },
                    );
                }
            }
            Body::OffCpu(e) if self.shows(Kind::OffCpu, ts, e.task) => self.stored_stay(ts, e),
            // Of a recording the switch says what came of it.
            Body::Wakeup(Wakeup { wakee, .. }) if self.is_sampled(*wakee) && self.shows(Kind::Wakeup, ts, *wakee) => {
                let arg1 = self.trace.task(*wakee).tid.into();
                // Who woke is not told.
                let waker = if self.is_of_ingero(*wakee) { TaskId(0) } else { *wakee };
                self.put(ts, waker, WAKEUP, Values { arg1, ..Values::default() });
            }
            Body::OtherEvent(e) if self.shows(Kind::OtherEvent, ts, e.task) => self.other(ts, e),
            Body::Aggregate(e) => self.total(e),
            Body::Usage(e) if self.selection.takes_kind(Kind::Usage) => self.usage(ts, e),
            Body::System(system) if self.selection.takes_kind(Kind::System) => {
                self.system(self.hosts.of_cpu(event.cpu), ts, system)
            }
            _ => {}
        }
    }

    /// A switch is stamped where its task came back, with the time that it was away.
    fn off_cpu(&mut self, stay: &OffCpu, _: &Cpus) {
        if let Some((_, at)) = stay.back.filter(|_| !stay.before && stay.kind != OffKind::Newborn) {
            self.came_back(stay.task, stay.out_ns, at);
        }
    }

    fn undivided(&mut self, part: &Undivided) {
        // That wakes are missing does not change how long it was away.
        if let (Some(out_ns), Some(at), Some(_)) = (part.out_ns, part.to_ns, part.in_cpu) {
            self.came_back(part.task, out_ns, at);
        }
    }

    fn call(&mut self, span: &CallSpan) {
        if self.selection.shows_call(span.start_ns, Some(span.dur_ns()), span.call.task) {
            self.put_call(span.start_ns, &span.call, span.dur_ns());
        }
    }

    /// The layout has no call without a return: it stands with a length of 0 and the result -1.
    fn unreturned(&mut self, at_ns: u64, call: &Call) {
        if call.end != END_RETURNED && self.selection.shows_call(at_ns, None, call.task) {
            self.put_call(at_ns, &Call { result: Some(-1), ..*call }, 0);
        }
    }
}
