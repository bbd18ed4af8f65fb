//! Export in the layout of ingero's own databases, version 0.9, so that its readers open them.
//!
//! That layout has one table of events with a source and an operation by number; what a trace knows
//! beyond it (wakers, states, CPUs) stays behind. Of a recording one made here holds every event, unlike ingero's own: in
//! `event_aggregates` as many are stored as were counted. Of a source that kept a sample it holds that sample, and the
//! totals of the source.

mod kept;
mod nodes;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use ingero_analyze::Analysis;
use ingero_format::Trace;
use ingero_format::catalog::{
    Aggregate as Total, Body, Call, END_RETURNED, Exec, Kind, Layer, NO_CPU, OffCpu as StoredStay, OtherEvent, StrId,
    System, TaskId, Usage, Wakeup,
};
use ingero_replay::{
    CallSpan, Cpus, Event, Hosts, Merge, OffCpu, OffKind, Processes, Sink, Timeline, Undivided, start_unix_ns,
};
use rusqlite::{Connection, Statement, params};

use super::{Exported, create, integer};
use crate::error::Error;
use crate::export::selection::Selection;
use crate::import::ingero::OWN_CHAIN;
use crate::input::Progress;
use kept::Kept;
use nodes::Nodes;

/// The tables, indexes and views of ingero's layout.
const LAYOUT: &str = include_str!("ingero.sql");

/// Sources of ingero by number.
const CUDA: i64 = 1;
const HOST: i64 = 3;
const DRIVER: i64 = 4;
const IO: i64 = 5;

const SOURCES: &[(i64, &str, &str)] = &[
    (CUDA, "CUDA", "CUDA runtime calls, and those of graphs and NCCL"),
    (2, "NVIDIA", "NVIDIA's kernel driver: nothing is recorded of it"),
    (HOST, "HOST", "scheduler, page allocations, lives of processes"),
    (DRIVER, "DRIVER", "CUDA driver calls"),
    (IO, "IO", "requests to block devices"),
    (6, "TCP", "TCP: nothing is recorded of it"),
    (7, "NET", "sockets: nothing is recorded of it"),
];

/// Operations of ingero: source, number, name, and the symbols that count as it.
const OPS: &[(i64, i64, &str, &[&str])] = &[
    (CUDA, 1, "cudaMalloc", &["cudaMalloc"]),
    (CUDA, 2, "cudaFree", &["cudaFree"]),
    (CUDA, 3, "cudaLaunchKernel", &["cudaLaunchKernel"]),
    (CUDA, 4, "cudaMemcpy", &["cudaMemcpy"]),
    (CUDA, 5, "cudaStreamSync", &["cudaStreamSynchronize"]),
    (CUDA, 6, "cudaDeviceSync", &["cudaDeviceSynchronize"]),
    (CUDA, 7, "cudaMemcpyAsync", &["cudaMemcpyAsync"]),
    (CUDA, 8, "cudaMallocManaged", &["cudaMallocManaged"]),
    (HOST, 1, "sched_switch", &[]),
    (HOST, 2, "sched_wakeup", &[]),
    (HOST, 3, "mm_page_alloc", &[]),
    (HOST, 4, "oom_kill", &[]),
    (HOST, 5, "process_exec", &[]),
    (HOST, 6, "process_exit", &[]),
    (HOST, 7, "process_fork", &[]),
    (HOST, 10, "pod_restart", &[]),
    (HOST, 11, "pod_eviction", &[]),
    (HOST, 12, "pod_oom_kill", &[]),
    (DRIVER, 1, "cuLaunchKernel", &["cuLaunchKernel"]),
    (DRIVER, 2, "cuMemcpy", &["cuMemcpy"]),
    (DRIVER, 3, "cuMemcpyAsync", &["cuMemcpyAsync"]),
    (DRIVER, 4, "cuCtxSynchronize", &["cuCtxSynchronize"]),
    (DRIVER, 5, "cuMemAlloc", &["cuMemAlloc", "cuMemAlloc_v2"]),
    (DRIVER, 6, "cuMemAllocManaged", &["cuMemAllocManaged"]),
    (IO, 1, "block_read", &[]),
    (IO, 2, "block_write", &[]),
    (IO, 3, "block_discard", &[]),
    (6, 1, "tcp_retransmit", &[]),
    (7, 1, "net_send", &[]),
    (7, 2, "net_recv", &[]),
];
/// Operations of functions that ingero has no number for count from here.
const FIRST_OWN_OP: i64 = 101;
/// Sources that ingero has no number for count from here.
const FIRST_OWN_SOURCE: i64 = 101;

const SWITCH: (i64, i64) = (HOST, 1);
const WAKEUP: (i64, i64) = (HOST, 2);
const PAGE_ALLOC: (i64, i64) = (HOST, 3);
const EXEC: (i64, i64) = (HOST, 5);
const EXIT: (i64, i64) = (HOST, 6);
const FORK: (i64, i64) = (HOST, 7);

/// Writes what is selected of a trace into a new database of ingero's layout.
///
/// # Errors
/// As of [`super::export`].
pub fn export(
    trace: &Trace,
    selection: &Selection,
    output: &Path,
    force: bool,
    progress: &Progress,
) -> Result<Exported, Error> {
    create(output, force, |db| fill(db, trace, selection, progress))
}

fn fill(db: &Connection, trace: &Trace, selection: &Selection, progress: &Progress) -> rusqlite::Result<Exported> {
    db.execute_batch(LAYOUT)?;
    let ops = Ops::new(trace);
    ops.write(db)?;
    let clock = Clock::new(trace);
    let nodes = Nodes::new(trace);
    let processes = Processes::new(trace);
    let analysis = Analysis::new(trace, selection.window);
    let sampled = analysis.sampled();
    let kept = Kept::read(trace, selection);
    let mut sink = EventSink {
        kept: &kept,
        of_ingero: trace.meta("source") == Some("ingero"),
        trace,
        selection,
        progress,
        clock,
        ops: &ops,
        nodes: &nodes,
        page_bytes: trace.meta("page_size").and_then(|s| s.parse().ok()).unwrap_or(4096),
        insert: db.prepare(
            "INSERT INTO events (id, timestamp, pid, tid, source, op, duration, gpu_id, arg0, arg1, ret_code, node, stack_hash, \
             cgroup_id) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, ?8, ?9, ?10, ?11, ?12, ?13)",
        )?,
        snapshot: db.prepare("INSERT OR IGNORE INTO system_snapshots VALUES (NULL, ?1, ?2, ?3, ?4, ?5, ?6)")?,
        total: db.prepare(INSERT_AGGREGATE)?,
        sampled,
        // A total is of a whole minute, of events of any length.
        takes_totals: !selection.window.is_cut() && selection.min_duration_ns == 0,
        totals: 0,
        hosts: Hosts::new(trace),
        last_systems: HashMap::new(),
        stacks: BTreeSet::new(),
        requests: HashMap::new(),
        aggregates: BTreeMap::new(),
        told: 0,
        rows: 0,
        failed: None,
    };
    let repairs = Timeline::new(trace).run(&mut sink);
    if let Some(e) = sink.failed {
        return Err(e);
    }
    let (rows, aggregates, totals, stacks) = (sink.rows, sink.aggregates, sink.totals, sink.stacks);
    // Those of a sample say how many were stored, not how many there were.
    if !sampled {
        write_aggregates(db, &aggregates)?;
    }
    if !kept.has("process_names") {
        write_names(db, trace, &processes, selection, clock)?;
    }
    if !kept.has("sessions") {
        write_sessions(db, trace, &nodes, clock)?;
    }
    let shows_pid = |pid| {
        let named =
            |(_, task): (TaskId, &ingero_format::Task)| i64::from(task.pid) == pid || i64::from(task.tid) == pid;
        let tasks = (0..).map(TaskId).zip(trace.tasks());
        selection.shows_all() || tasks.filter(|(id, _)| selection.shows(*id)).any(named)
    };
    // A stack that no event has goes back too where nothing is cut.
    kept.write(db, trace, |stack| selection.is_whole() || stacks.contains(&stack), shows_pid)?;
    write_chains(db, &analysis, selection, &nodes, clock)?;
    let aggregates_note = match (sampled, totals) {
        (false, _) => "by minute; every event is stored",
        (true, 0) => "none: what is stored is a sample, and how many events there were is not known here",
        (true, _) => "by minute, as the source counted them; what is stored is a sample",
    };
    write_facts(db, clock, sampled, aggregates_note)?;
    progress.done();
    Ok(Exported { rows, damaged: (repairs.lost_blocks.len() + trace.damage().len()) as u64 })
}

/// From the trace's clock to Unix time.
#[derive(Clone, Copy)]
struct Clock {
    start_ns: u64,
    end_ns: u64,
    start_unix_ns: Option<u64>,
}

impl Clock {
    fn new(trace: &Trace) -> Self {
        let (start_ns, end_ns) = trace.span_ns().unwrap_or_default();
        Self { start_ns, end_ns, start_unix_ns: start_unix_ns(trace, start_ns) }
    }

    /// Where the wall clock is unknown, times count from the trace's start.
    fn unix(&self, ns: u64) -> i64 {
        let at = i128::from(self.start_unix_ns.unwrap_or(0)) + i128::from(ns) - i128::from(self.start_ns);
        i64::try_from(at).unwrap_or(i64::MAX)
    }
}

/// Which source and operation each function of a trace is.
struct Ops {
    functions: Vec<(i64, i64)>,
    /// Operations of other tools that are no function, by their own names for source and operation.
    named: HashMap<(StrId, StrId), (i64, i64)>,
    /// Those that ingero has no number for.
    own: Vec<(i64, i64, String)>,
    own_sources: Vec<(i64, String)>,
}

impl Ops {
    fn new(trace: &Trace) -> Self {
        let mut next = FIRST_OWN_OP;
        let mut own = Vec::new();
        let functions = trace.functions().iter().map(|f| {
            let source = if f.layer == Layer::Driver { DRIVER } else { CUDA };
            let known = OPS.iter().find(|(s, _, _, symbols)| *s == source && symbols.contains(&f.symbol.as_str()));
            if let Some((_, op, ..)) = known {
                return (source, *op);
            }
            let op = next;
            next += 1;
            own.push((source, op, f.symbol.clone()));
            (source, op)
        });
        let functions = functions.collect();
        let mut this = Self { functions, named: HashMap::new(), own, own_sources: Vec::new() };
        for event in Merge::of(trace, |kind| matches!(kind, Kind::Aggregate | Kind::OtherEvent)) {
            match event.body {
                Body::Aggregate(Total { source, op, func: None, .. })
                | Body::OtherEvent(OtherEvent { source, op, .. }) => {
                    this.name(trace, (source, op));
                }
                _ => {}
            }
        }
        this
    }

    fn name(&mut self, trace: &Trace, names: (StrId, StrId)) {
        if self.named.contains_key(&names) {
            return;
        }
        let (source, op) = (trace.string(names.0), trace.string(names.1));
        let known = SOURCES.iter().map(|(id, name, _)| (*id, *name));
        let own = self.own_sources.iter().map(|(id, name)| (*id, name.as_str()));
        let source = known
            .chain(own)
            .find(|(_, name)| *name == source)
            .map_or_else(|| (FIRST_OWN_SOURCE..).nth(self.own_sources.len()).unwrap_or(FIRST_OWN_SOURCE), |(id, _)| id);
        if source >= FIRST_OWN_SOURCE && self.own_sources.iter().all(|(id, _)| *id != source) {
            self.own_sources.push((source, trace.string(names.0).to_owned()));
        }
        let op = match OPS.iter().find(|(s, _, name, _)| *s == source && *name == op) {
            Some((_, number, ..)) => *number,
            None => {
                let number = (FIRST_OWN_OP..).nth(self.own.len()).unwrap_or(FIRST_OWN_OP);
                self.own.push((source, number, op.to_owned()));
                number
            }
        };
        self.named.insert(names, (source, op));
    }

    /// What a total is of.
    fn of(&self, total: &Total) -> Option<(i64, i64)> {
        match total.func {
            Some(func) => self.functions.get(func.index()).copied(),
            None => self.named.get(&(total.source, total.op)).copied(),
        }
    }

    fn write(&self, db: &Connection) -> rusqlite::Result<()> {
        for (id, name, what) in SOURCES {
            db.execute("INSERT INTO sources VALUES (?1, ?2, ?3)", params![id, name, what])?;
        }
        for (id, name) in &self.own_sources {
            db.execute("INSERT INTO sources VALUES (?1, ?2, ?3)", params![id, name, "no source of ingero"])?;
        }
        let mut insert = db.prepare("INSERT INTO ops VALUES (?1, ?2, ?3, ?4)")?;
        for (source, op, name, symbols) in OPS {
            insert.execute(params![source, op, name, symbols.join(", ")])?;
        }
        for (source, op, name) in &self.own {
            insert.execute(params![source, op, name, "no operation of ingero"])?;
        }
        Ok(())
    }
}

/// One row of `event_aggregates`.
#[derive(Clone, Copy)]
struct Aggregate {
    count: i64,
    sum_dur: i64,
    min_dur: i64,
    max_dur: i64,
    sum_arg0: i64,
}

struct EventSink<'d> {
    kept: &'d Kept,
    /// Whether the trace was a database of ingero's.
    of_ingero: bool,
    trace: &'d Trace,
    selection: &'d Selection,
    progress: &'d Progress,
    clock: Clock,
    ops: &'d Ops,
    nodes: &'d Nodes,
    page_bytes: u64,
    insert: Statement<'d>,
    snapshot: Statement<'d>,
    total: Statement<'d>,
    sampled: bool,
    takes_totals: bool,
    /// Totals of the source that were written.
    totals: u64,
    hosts: Hosts,
    /// By host: its sample before.
    last_systems: HashMap<usize, System>,
    /// Stacks of the events that were written.
    stacks: BTreeSet<u64>,
    /// Requests under way, by host, device and sector: when, by whom, how large.
    requests: HashMap<(usize, u64, u64), (u64, TaskId, u64)>,
    aggregates: BTreeMap<(i64, i64, i64, u32), Aggregate>,
    told: u64,
    rows: u64,
    failed: Option<rusqlite::Error>,
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

impl EventSink<'_> {
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
        let (unix, task) = (self.clock.unix(ts_ns), self.trace.task(task));
        // Events of the kernel name a thread as if it were a process there; exits name both.
        let by_thread = self.of_ingero && source == HOST && (source, op) != EXIT;
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
                let arg0 = self.page_bytes.saturating_mul(1 << e.order.min(32));
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
            Body::Wakeup(Wakeup { wakee, .. }) if self.sampled && self.shows(Kind::Wakeup, ts, *wakee) => {
                let arg1 = self.trace.task(*wakee).tid.into();
                // Who woke is not told.
                let waker = if self.of_ingero { TaskId(0) } else { *wakee };
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

/// Rows of kinds that the layout has no place for, by the name of the kind.
#[must_use]
pub fn left_out(trace: &Trace, selection: &Selection) -> BTreeMap<String, u64> {
    let sampled = trace.meta("sampled") == Some("true");
    let has_place = |kind: Kind| match kind {
        Kind::Wakeup => sampled,
        Kind::Switch
        | Kind::PageAlloc
        | Kind::Exec
        | Kind::Exit
        | Kind::Fork
        | Kind::BlockIssue
        | Kind::BlockComplete
        | Kind::OffCpu
        | Kind::OtherEvent
        | Kind::Aggregate
        | Kind::Usage
        | Kind::System
        | Kind::Call
        | Kind::Name
        | Kind::Process
        | Kind::Clock
        | Kind::Stack
        | Kind::Frame
        | Kind::Annotation => true,
        _ => false,
    };
    let mut left_out = BTreeMap::new();
    for block in trace.blocks() {
        let kind = block.header.kind;
        if selection.takes(kind) && !Kind::from_number(kind).is_some_and(has_place) && block.header.rows > 0 {
            *left_out.entry(trace.kind_name(kind).to_owned()).or_default() += u64::from(block.header.rows);
        }
    }
    left_out
}

/// Two totals of one minute, operation and process are one; sums stay below what an integer holds.
const INSERT_AGGREGATE: &str = "INSERT INTO event_aggregates VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) \
    ON CONFLICT DO UPDATE SET count = count + excluded.count, stored = stored + excluded.stored, \
    sum_dur = iif(sum_dur > 9223372036854775807 - excluded.sum_dur, 9223372036854775807, sum_dur + excluded.sum_dur), \
    min_dur = min(min_dur, excluded.min_dur), max_dur = max(max_dur, excluded.max_dur), \
    sum_arg0 = iif(sum_arg0 > 9223372036854775807 - excluded.sum_arg0, 9223372036854775807, sum_arg0 + excluded.sum_arg0)";

fn write_aggregates(db: &Connection, all: &BTreeMap<(i64, i64, i64, u32), Aggregate>) -> rusqlite::Result<()> {
    let mut insert = db.prepare(INSERT_AGGREGATE)?;
    for ((bucket, source, op, pid), a) in all {
        let (count, stored) = (a.count, a.count);
        insert.execute(params![bucket, source, op, pid, count, stored, a.sum_dur, a.min_dur, a.max_dur, a.sum_arg0])?;
    }
    Ok(())
}

/// The layout has one name for each process: the last one.
fn write_names(
    db: &Connection,
    trace: &Trace,
    processes: &Processes,
    selection: &Selection,
    clock: Clock,
) -> rusqlite::Result<()> {
    let mut insert = db.prepare("INSERT OR REPLACE INTO process_names VALUES (?1, ?2, ?3)")?;
    for (id, p) in processes.iter().filter(|(_, p)| p.threads.iter().any(|&t| selection.shows(t))) {
        if let Some(name) = processes.process_name_at(id, u64::MAX) {
            insert.execute(params![p.pid, trace.string(name), clock.unix(clock.end_ns)])?;
        }
    }
    Ok(())
}

/// A session for each host.
fn write_sessions(db: &Connection, trace: &Trace, nodes: &Nodes, clock: Clock) -> rusqlite::Result<()> {
    for node in nodes.iter() {
        let text = |key: &str| node.meta(trace, key).unwrap_or("");
        db.execute(
            "INSERT INTO sessions (started_at, stopped_at, cpu_cores, kernel, ingero_ver, pid_filter, flags, node) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            params![
                clock.unix(node.start_ns),
                clock.unix(node.end_ns),
                text("cpus").parse::<i64>().unwrap_or(0),
                text("kernel"),
                text("recorder"),
                text("pids"),
                "record",
                node.name
            ],
        )?;
    }
    Ok(())
}

/// Incidents as causal chains: nothing of a chain's percentiles is claimed, for an incident follows from none. Their ids say who
/// found them, so that nobody takes them for ingero's.
fn write_chains(
    db: &Connection,
    a: &Analysis,
    selection: &Selection,
    nodes: &Nodes,
    clock: Clock,
) -> rusqlite::Result<()> {
    let mut insert = db.prepare(
        "INSERT INTO causal_chains (id, detected_at, severity, summary, root_cause, explanation, recommendations, timeline, \
         node) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?;
    let shown = |id| selection.shows_verdicts(a.processes.get(id));
    for i in a.incidents.iter().filter(|i| shown(i.process)) {
        let timeline: Vec<_> = i
            .timeline
            .iter()
            .map(|m| {
                // ingero has layers of its own: what it calls CUDA is the runtime.
                let layer = match m.layer.name() {
                    "RUNTIME" => "CUDA",
                    other => other,
                };
                let dur_us = m.end_ns.saturating_sub(m.start_ns) / 1000;
                serde_json::json!({ "layer": layer, "op": i.kind, "detail": m.detail, "dur_us": dur_us })
            })
            .collect();
        let node = nodes.of_pid(a.processes.get(i.process).pid);
        let end_ns = a.phases.get(i.phase).map_or(clock.end_ns, |p| p.phase.end_ns);
        insert.execute(params![
            format!("{OWN_CHAIN}{node}:{}", i.id(a)),
            clock.unix(end_ns),
            i.severity.name(),
            i.summary,
            i.root_cause,
            format!("{} {}", i.summary, i.root_cause),
            serde_json::Value::from(i.recommendations.clone()).to_string(),
            serde_json::Value::from(timeline).to_string(),
            node,
        ])?;
    }
    Ok(())
}

fn write_facts(db: &Connection, clock: Clock, sampled: bool, aggregates_note: &str) -> rusqlite::Result<()> {
    let known = clock.start_unix_ns.is_some();
    let facts = [
        ("version", "0.9"),
        ("timestamp_unit", if known { "nanoseconds (Unix epoch)" } else { "nanoseconds from the start of the trace" }),
        ("duration_unit", "nanoseconds"),
        (
            "arg0_note",
            "bytes of allocations and copies, sectors of a request, else the kernel function's or event's address",
        ),
        (
            "arg1_note",
            "direction of a copy, else the stream; thread of a switch, newborn of a fork, first sector of a request",
        ),
        ("ret_code_note", "result of the call, 0 for success; -1 for a call that never returned, with a duration of 0"),
        ("event_aggregates_note", aggregates_note),
        ("sampled", if sampled { "true" } else { "false" }),
        ("writer", concat!("ingero-convert ", env!("CARGO_PKG_VERSION"))),
    ];
    for (key, value) in facts {
        db.execute("INSERT INTO schema_info VALUES (?1, ?2)", params![key, value])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
