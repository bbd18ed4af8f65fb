//! What the analysis makes of the trace: phases and incidents.

use ingero_analyze::Analysis;
use ingero_format::catalog::Kind;
use ingero_replay::PageSizes;
use rusqlite::{Connection, params};

use super::integer;
use crate::export::phase;
use crate::export::selection::Selection;

const TABLES: &str = "
CREATE TABLE phase (id INTEGER PRIMARY KEY, process INTEGER NOT NULL REFERENCES processes(id), start_ns INTEGER NOT NULL,
    end_ns INTEGER NOT NULL, submissions INTEGER, gaps INTEGER, gaps_ns INTEGER, gaps_share REAL, gaps_running_ns INTEGER,
    gaps_runnable_ns INTEGER, gaps_throttled_ns INTEGER, gaps_blocked_ns INTEGER, label TEXT NOT NULL,
    unclaimed_ns INTEGER NOT NULL, asked_ns INTEGER, lost_gaps INTEGER, lost_gaps_ns INTEGER, workers INTEGER NOT NULL,
    warm_up INTEGER NOT NULL, step_ns INTEGER, busy_percent INTEGER, busy_samples INTEGER, busy_devices INTEGER,
    busy_idle_ns INTEGER, busy_told_ns INTEGER, busy_unqueued_ns INTEGER);
CREATE TABLE lost (ts_ns INTEGER NOT NULL, to_ns INTEGER NOT NULL, cpu INTEGER, probe TEXT NOT NULL, cause TEXT NOT NULL, count INTEGER,
    host INTEGER);
CREATE TABLE known (process INTEGER PRIMARY KEY REFERENCES processes(id), states INTEGER NOT NULL, throttling INTEGER NOT NULL,
    page_allocs INTEGER NOT NULL, sampled INTEGER NOT NULL, page_bytes INTEGER NOT NULL, squeezed_ns INTEGER);
CREATE VIEW losses AS SELECT * FROM lost;
CREATE TABLE incident (id TEXT PRIMARY KEY, rank INTEGER NOT NULL, severity TEXT NOT NULL, kind TEXT NOT NULL,
    process INTEGER NOT NULL REFERENCES processes(id), phase INTEGER NOT NULL REFERENCES phase(id), lost_ns INTEGER NOT NULL,
    share REAL NOT NULL, summary TEXT NOT NULL, root_cause TEXT NOT NULL,
    at_most INTEGER NOT NULL, fed_ns INTEGER NOT NULL, op TEXT);
CREATE TABLE incident_advice (incident TEXT NOT NULL REFERENCES incident(id), number INTEGER NOT NULL, text TEXT NOT NULL);
CREATE TABLE incident_moment (incident TEXT NOT NULL REFERENCES incident(id), number INTEGER NOT NULL, layer TEXT NOT NULL,
    detail TEXT NOT NULL, start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL, task INTEGER NOT NULL REFERENCES tasks(id));
CREATE TABLE incident_evidence (incident TEXT NOT NULL REFERENCES incident(id), number INTEGER NOT NULL, what TEXT NOT NULL,
    start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL, task INTEGER NOT NULL REFERENCES tasks(id));
";

/// Writes the phases and incidents of the selected processes.
pub(super) fn write(db: &Connection, a: &Analysis, selection: &Selection) -> rusqlite::Result<()> {
    db.execute_batch(TABLES)?;
    let knows_allocs = a.has(Kind::PageAlloc) && selection.takes_kind(Kind::PageAlloc);
    for (key, knows) in [("knows_states", a.knows_states()), ("knows_page_allocs", knows_allocs)] {
        db.execute("INSERT INTO meta VALUES (?1, ?2)", params![key, knows.to_string()])?;
    }
    let mut known = db.prepare("INSERT INTO known VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?;
    let (mut some, mut all) = (false, true);
    let page_sizes = PageSizes::new(a.trace);
    for (id, p) in a.processes.iter() {
        let allocs = a.knows_page_allocs_of(id) && selection.takes_kind(Kind::PageAlloc);
        let (states, throttling) = (a.knows_states_of(id), a.knows_throttling_of(id));
        let page_bytes = integer(page_sizes.of_pid(p.pid));
        // No row tells which waits another CPU could have ended.
        let squeezed_ns = (states && a.knows_affinity_of(id)).then(|| integer(a.figures(id).off_cpu.squeezed_ns));
        known.execute(params![id.0, states, throttling, allocs, a.sampled_of(id), page_bytes, squeezed_ns])?;
        some |= a.knows_states_of(id);
        all &= a.knows_states_of(id);
    }
    // Where nothing is known of states, what the walk counted of them is no zero.
    let unknown = "UPDATE call_time SET running_ns = NULL, runnable_ns = NULL, throttled_ns = NULL, blocked_ns = NULL";
    if !some {
        db.execute_batch(unknown)?;
    } else if !all && db.prepare("SELECT 1 FROM pragma_table_info('call') WHERE name = 'task'")?.exists([])? {
        db.execute_batch(&format!(
            "{unknown} WHERE call IN (SELECT c.id FROM call c JOIN tasks t ON t.id = c.task JOIN known k ON k.process = t.process \
             WHERE NOT k.states)"
        ))?;
    }
    let mut lost = db.prepare("INSERT INTO lost VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?;
    for l in a.losses.parts.iter().filter(|l| l.is_within(a.window.from_ns, a.window.to_ns)) {
        let (from, to) = (integer(l.from_ns), integer(l.to_ns));
        let host = l.host.map(|host| integer(host as u64));
        lost.execute(params![from, to, l.cpu, l.what, l.cause, l.count.map(integer), host])?;
    }
    let shown = |id| selection.shows_verdicts(a.processes.get(id));
    let marks = (1..=26).map(|at| format!("?{at}")).collect::<Vec<_>>().join(", ");
    let mut insert = db.prepare(&format!("INSERT INTO phase VALUES ({marks})"))?;
    for (id, p) in (0i64..).zip(&a.phases).filter(|(_, p)| shown(p.phase.process)) {
        let f = phase::Figures::new(a, p);
        insert.execute(params![
            id,
            p.phase.process.0,
            integer(p.phase.start_ns),
            integer(p.phase.end_ns),
            f.submissions.map(integer),
            f.gaps.map(integer),
            f.gaps_ns.map(integer),
            f.gaps_share,
            f.gaps_running_ns.map(integer),
            f.gaps_runnable_ns.map(integer),
            f.gaps_throttled_ns.map(integer),
            f.gaps_blocked_ns.map(integer),
            p.phase.label(),
            integer(p.phase.len_ns().saturating_sub(p.phase.claimed_ns())),
            f.asked_ns.map(integer),
            f.lost_gaps.map(integer),
            f.lost_gaps_ns.map(integer),
            integer(f.workers),
            f.warm_up,
            f.step_ns.map(integer),
            f.busy.map(|b| integer(b.percent)),
            f.busy.map(|b| integer(b.samples)),
            f.busy.map(|b| integer(b.devices)),
            f.busy.map(|b| integer(b.idle_ns)),
            f.busy.map(|b| integer(b.told_ns)),
            f.busy.map(|b| integer(b.unqueued_ns)),
        ])?;
    }
    let mut incident =
        db.prepare("INSERT INTO incident VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)")?;
    let mut advice = db.prepare("INSERT INTO incident_advice VALUES (?1, ?2, ?3)")?;
    let mut moment = db.prepare("INSERT INTO incident_moment VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?;
    let mut evidence = db.prepare("INSERT INTO incident_evidence VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?;
    for (rank, i) in (1i64..).zip(&a.incidents).filter(|(_, i)| shown(i.process)) {
        let id = i.id(a);
        incident.execute(params![
            id,
            rank,
            i.severity.name(),
            i.kind,
            i.process.0,
            integer(i.phase as u64),
            integer(i.lost_ns),
            i.share,
            i.summary,
            i.root_cause,
            i.at_most,
            integer(i.fed_ns),
            i.op.and_then(|op| a.trace.function(op)).map(|f| f.symbol.as_str()),
        ])?;
        for (n, text) in (1i64..).zip(&i.recommendations) {
            advice.execute(params![id, n, text])?;
        }
        for (n, m) in (1i64..).zip(&i.timeline) {
            let (start, end) = (integer(m.start_ns), integer(m.end_ns));
            moment.execute(params![id, n, m.layer.name(), m.detail, start, end, m.task.0])?;
        }
        for (n, e) in (1i64..).zip(&i.evidence) {
            evidence.execute(params![id, n, e.what, integer(e.start_ns), integer(e.end_ns), e.task.0])?;
        }
    }
    Ok(())
}
