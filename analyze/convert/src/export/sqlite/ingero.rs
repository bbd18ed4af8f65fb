//! Export in the layout of ingero's own databases, version 0.9, so that its readers open them.
//!
//! That layout has one table of events with a source and an operation by number; what a trace knows
//! beyond it (wakers, states, CPUs) stays behind. Of a recording one made here holds every event, unlike ingero's own: in
//! `event_aggregates` as many are stored as were counted. Of a source that kept a sample it holds that sample, and the
//! totals of the source.

mod events;
mod kept;
mod nodes;
mod ops;

use std::collections::BTreeMap;
use std::path::Path;

use ingero_analyze::Analysis;
use ingero_format::Trace;
use ingero_format::catalog::{Body, Kind, TaskId};
use ingero_replay::{Hosts, Merge, Processes, Timeline, start_unix_ns};
use rusqlite::{Connection, params};

use super::{Exported, create, integer};
use crate::error::Error;
use crate::export::selection::Selection;
use crate::import::ingero::OWN_CHAIN;
use crate::input::Progress;
use events::{Aggregate, EventSink};
use kept::Kept;
use nodes::Nodes;
use ops::Ops;

/// The tables, indexes and views of ingero's layout.
const LAYOUT: &str = include_str!("ingero.sql");

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
    let kept = Kept::read(trace, selection);
    let mut sink = EventSink::new(db, trace, selection, progress, &kept, &ops, &nodes, clock)?;
    let repairs = Timeline::new(trace).run(&mut sink);
    if let Some(e) = sink.failed {
        return Err(e);
    }
    let (rows, aggregates, totals, stacks) = (sink.rows, sink.aggregates, sink.totals, sink.stacks);
    write_aggregates(db, &aggregates)?;
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
    let sampled = Hosts::new(trace).sampled(trace);
    let aggregates_note = match (sampled.contains(&true), sampled.contains(&false), totals) {
        (false, ..) => "by minute; every event is stored",
        (true, true, _) => {
            "by minute, of hosts whose sources kept a sample as these counted them, if they did; of the others every event is stored"
        }
        (true, false, 0) => "none: what is stored is a sample, and how many events there were is not known here",
        (true, false, _) => "by minute, as the source counted them; what is stored is a sample",
    };
    write_facts(db, clock, sampled.contains(&true), aggregates_note)?;
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

/// Rows of kinds that the layout has no place for, by the name of the kind.
#[must_use]
pub fn left_out(trace: &Trace, selection: &Selection) -> BTreeMap<String, u64> {
    let hosts = Hosts::new(trace);
    let sampled = hosts.sampled(trace);
    let has_place = |kind: Kind| match kind {
        Kind::Wakeup => sampled.contains(&true),
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
    // Of a host that was recorded the switches say what came of its wakeups, beside another that kept a sample, too.
    if sampled.contains(&true) && sampled.contains(&false) && selection.takes_kind(Kind::Wakeup) {
        let is_sampled = |task| sampled.get(hosts.of_task(trace, task)).copied().unwrap_or(false);
        let wakeups = Merge::of(trace, |kind| kind == Kind::Wakeup);
        let recorded = wakeups.filter(|e| matches!(&e.body, Body::Wakeup(w) if !is_sampled(w.wakee))).count() as u64;
        if recorded > 0 {
            left_out.insert(trace.kind_name(Kind::Wakeup as u16).to_owned(), recorded);
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
