//! The tables that do not depend on the file's schema: names, tasks, processes, what the file says of itself.

use ingero_format::Trace;
use ingero_format::catalog::{Kind, StrId, TaskId};
use ingero_replay::{ProcessId, Processes};
use rusqlite::{Connection, params};

use super::{SCHEMA, integer};
use crate::export::selection::Selection;

const TABLES: &str = "
CREATE TABLE meta (key TEXT NOT NULL, value TEXT NOT NULL);
CREATE TABLE strings (id INTEGER PRIMARY KEY, text TEXT NOT NULL);
CREATE TABLE functions (id INTEGER PRIMARY KEY, symbol TEXT NOT NULL, layer TEXT NOT NULL, class TEXT NOT NULL);
CREATE TABLE tasks (id INTEGER PRIMARY KEY, pid INTEGER NOT NULL, tid INTEGER NOT NULL, start_ns INTEGER,
    process INTEGER NOT NULL REFERENCES processes(id));
CREATE TABLE processes (id INTEGER PRIMARY KEY, pid INTEGER NOT NULL, leader INTEGER REFERENCES tasks(id),
    parent INTEGER REFERENCES processes(id), parent_pid INTEGER, name TEXT, exe TEXT, args TEXT, followed INTEGER NOT NULL,
    shown INTEGER NOT NULL);
CREATE TABLE damage (offset INTEGER NOT NULL, problem TEXT NOT NULL);
";

pub(super) fn write(db: &Connection, trace: &Trace, selection: &Selection) -> rusqlite::Result<()> {
    db.execute_batch(TABLES)?;
    let mut meta = db.prepare("INSERT INTO meta VALUES (?1, ?2)")?;
    meta.execute(params!["sqlite_schema", SCHEMA])?;
    meta.execute(params!["complete", if trace.complete() { "true" } else { "false" }])?;
    if let Some((start, end)) = trace.span_ns() {
        meta.execute(params!["start_ns", start.to_string()])?;
        meta.execute(params!["end_ns", end.to_string()])?;
    }
    if !selection.is_whole() {
        // Who reads a part must know that it is one.
        meta.execute(params!["cut", "true"])?;
        meta.execute(params!["from_ns", selection.window.from_ns.to_string()])?;
        meta.execute(params!["to_ns", selection.window.to_ns.to_string()])?;
        meta.execute(params!["min_duration_ns", selection.min_duration_ns.to_string()])?;
    }
    // Where a cut leaves them out, or the short ones of them, nothing can be counted.
    for (key, kind) in [("counts_switches", Kind::Switch), ("counts_calls", Kind::Call)] {
        meta.execute(params![key, selection.counts(kind).to_string()])?;
    }
    for (key, value) in trace.meta_entries() {
        meta.execute(params![key, value])?;
    }
    let mut strings = db.prepare("INSERT INTO strings VALUES (?1, ?2)")?;
    for (id, text) in (0i64..).zip(trace.strings()) {
        strings.execute(params![id, &**text])?;
    }
    let mut functions = db.prepare("INSERT INTO functions VALUES (?1, ?2, ?3, ?4)")?;
    for (id, f) in (0i64..).zip(trace.functions()) {
        functions.execute(params![id, f.symbol, f.layer.name(), f.class.name()])?;
    }
    let processes = Processes::new(trace);
    let mut tasks = db.prepare("INSERT INTO tasks VALUES (?1, ?2, ?3, ?4, ?5)")?;
    for (id, t) in (0u32..).zip(trace.tasks()) {
        tasks.execute(params![id, t.pid, t.tid, t.start_ns.map(integer), processes.of(TaskId(id)).0])?;
    }
    let mut insert = db.prepare("INSERT INTO processes VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)")?;
    let text = |id: Option<StrId>| id.map(|id| trace.string(id));
    let idle = (ProcessId::IDLE, processes.get(ProcessId::IDLE));
    for (id, p) in std::iter::once(idle).chain(processes.iter()) {
        insert.execute(params![
            id.0,
            p.pid,
            p.leader.map(|t| t.0),
            p.parent.map(|p| p.0),
            p.parent_pid,
            text(processes.process_name_at(id, u64::MAX)),
            text(p.exe),
            text(p.args),
            p.followed,
            selection.shows_process(p),
        ])?;
    }
    let mut damage = db.prepare("INSERT INTO damage VALUES (?1, ?2)")?;
    for d in trace.damage() {
        damage.execute(params![integer(d.offset), d.problem])?;
    }
    Ok(())
}
