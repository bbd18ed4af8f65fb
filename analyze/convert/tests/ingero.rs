//! Imports of ingero's databases: small ones made here, as schemas 0.8 and 0.9 have them, and broken ones.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::collections::BTreeMap;
use std::path::Path;

use ingero_analyze::{Analysis, OpTotals, report};
use ingero_convert::Error;
use ingero_convert::export::{Cut, Selection, sqlite};
use ingero_convert::import::{ImportOptions, Imported, ingero};
use ingero_convert::input::{Input, InputKind, Progress};
use ingero_format::Trace;
use ingero_format::catalog::{Body, Kind};
use ingero_replay::{Event, Merge, Window};
use rusqlite::Connection;

/// The tables that hold what is imported, with the columns of 0.8.
const TABLES: &str = "
CREATE TABLE events (id INTEGER PRIMARY KEY AUTOINCREMENT, timestamp INTEGER NOT NULL, pid INTEGER NOT NULL,
    tid INTEGER NOT NULL, source INTEGER NOT NULL, op INTEGER NOT NULL, duration INTEGER NOT NULL,
    gpu_id INTEGER NOT NULL DEFAULT 0, arg0 INTEGER NOT NULL DEFAULT 0, arg1 INTEGER NOT NULL DEFAULT 0,
    ret_code INTEGER NOT NULL DEFAULT 0, stack_hash INTEGER NOT NULL DEFAULT 0, stack_ips TEXT NOT NULL DEFAULT '',
    cgroup_id INTEGER NOT NULL DEFAULT 0);
CREATE TABLE stack_traces (hash INTEGER PRIMARY KEY, ips TEXT NOT NULL, frames TEXT NOT NULL DEFAULT '');
CREATE TABLE causal_chains (id TEXT PRIMARY KEY, detected_at INTEGER NOT NULL, severity TEXT NOT NULL, summary TEXT NOT NULL);
CREATE TABLE sources (id INTEGER PRIMARY KEY, name TEXT NOT NULL, description TEXT NOT NULL);
CREATE TABLE ops (source_id INTEGER NOT NULL, op_id INTEGER NOT NULL, name TEXT NOT NULL, description TEXT NOT NULL,
    PRIMARY KEY (source_id, op_id));
CREATE TABLE schema_info (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE system_snapshots (id INTEGER PRIMARY KEY AUTOINCREMENT, timestamp INTEGER NOT NULL UNIQUE, cpu_pct REAL NOT NULL,
    mem_pct REAL NOT NULL, mem_avail INTEGER NOT NULL, swap_mb INTEGER NOT NULL, load_avg REAL NOT NULL);
CREATE TABLE sessions (id INTEGER PRIMARY KEY AUTOINCREMENT, started_at INTEGER NOT NULL, stopped_at INTEGER NOT NULL DEFAULT 0,
    cpu_cores INTEGER NOT NULL DEFAULT 0, kernel TEXT NOT NULL DEFAULT '');
CREATE TABLE process_names (pid INTEGER NOT NULL, name TEXT NOT NULL, seen_at INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (pid));
CREATE TABLE event_aggregates (bucket INTEGER NOT NULL, source INTEGER NOT NULL, op INTEGER NOT NULL, pid INTEGER NOT NULL DEFAULT 0,
    count INTEGER NOT NULL DEFAULT 0, stored INTEGER NOT NULL DEFAULT 0, sum_dur INTEGER NOT NULL DEFAULT 0,
    min_dur INTEGER NOT NULL DEFAULT 0, max_dur INTEGER NOT NULL DEFAULT 0, sum_arg0 INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (bucket, source, op, pid));
INSERT INTO sources VALUES (1, 'CUDA', ''), (3, 'HOST', ''), (4, 'DRIVER', ''), (5, 'IO', ''), (7, 'NET', '');
INSERT INTO ops VALUES (1, 3, 'cudaLaunchKernel', ''), (1, 5, 'cudaStreamSync', ''), (1, 7, 'cudaMemcpyAsync', ''),
    (3, 1, 'sched_switch', ''), (3, 2, 'sched_wakeup', ''), (3, 3, 'mm_page_alloc', ''), (3, 5, 'process_exec', ''),
    (3, 6, 'process_exit', ''), (3, 7, 'process_fork', ''), (4, 5, 'cuMemAlloc', ''), (5, 1, 'block_read', ''), (7, 2, 'net_recv', '');
INSERT INTO schema_info VALUES ('version', '0.8');
";

/// Times of the rows count from here.
const T: u64 = 1_774_015_560_000_000_000;

const ROWS: &str = "
INSERT INTO events (timestamp, pid, tid, source, op, duration, arg0, arg1, ret_code, stack_hash, cgroup_id) VALUES
    (T + 2000, 40, 40, 1, 3, 100, 139, 0, 0, -5, 7), (T + 1000, 40, 40, 1, 7, 300, 4096, 1, 0, 0, 7),
    (T + 2500, 40, 41, 4, 5, 50, 1024, 0, 2, 0, 7), (T + 9000, 40, 40, 3, 1, 6000, 0, 40, 0, -5, 7),
    (T + 9500, 41, 41, 3, 1, 100, 0, 41, 0, 0, 7), (T + 3000, 40, 40, 3, 7, 0, 0, 50, 0, 0, 7),
    (T + 3100, 0, 0, 3, 2, 0, 0, 40, 0, 0, 1), (T + 3200, 50, 50, 3, 5, 0, 0, 0, 0, 0, 7),
    (T + 3300, 40, 40, 3, 3, 0, 8192, 0, 0, 0, 7), (T + 8000, 40, 40, 5, 1, 700, 8, 1234, 0, 0, 7),
    (T + 8100, 50, 50, 7, 2, 55, 6, -1, 0, 0, 7), (T + 8200, 50, 50, 99, 1, 0, 1, 2, 3, 0, 0),
    (T + 8300, 40, 41, 3, 6, 0, 0, 0, 0, 0, 7);
INSERT INTO stack_traces VALUES (-5, '', '[{\"s\":\"cudaLaunchKernel+0x5\",\"f\":\"libcudart.so\"},{\"i\":\"0x7f00\",\"f\":\"a.so\"},
    {\"pfn\":\"forward\",\"pf\":\"m.py\",\"pl\":6}]');
INSERT INTO causal_chains VALUES ('chain-1', T + 5000, 'HIGH', 'it was slow');
INSERT INTO system_snapshots (timestamp, cpu_pct, mem_pct, mem_avail, swap_mb, load_avg) VALUES (T + 4000, 12.5, 50, 100, 1, 0.29);
INSERT INTO sessions (started_at, stopped_at, cpu_cores, kernel) VALUES (T + 500, T + 20000, 4, '5.15.0');
INSERT INTO process_names VALUES (40, 'python3', T), (50, 'sh', T);
INSERT INTO event_aggregates VALUES (T, 1, 3, 40, 10, 1, 1000, 60, 400, 0), (T, 3, 1, 40, 5, 2, 9000, 10, 6000, 0),
    (T, 3, 3, 40, 100, 1, 0, 0, 0, 409600);
";

fn database(path: &Path, sql: &[&str]) {
    let db = Connection::open(path).unwrap();
    for sql in sql {
        db.execute_batch(&sql.replace("(T", &format!("({T}")).replace(", T", &format!(", {T}"))).unwrap();
    }
}

struct Run {
    done: Imported,
    trace: Trace,
    events: Vec<Event>,
}

fn run(sql: &[&str], options: ImportOptions) -> Result<Run, Error> {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("old?#%.db");
    database(&db, sql);
    let input = Input::open(&db)?;
    assert_eq!(input.kind(), InputKind::Database);
    let output = dir.path().join("run.igt");
    let done = ingero::import(&input, &output, options);
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), if done.is_ok() { 2 } else { 1 }, "{left:?}");
    let done = done?;
    let trace = Trace::open(&output).unwrap();
    let events: Vec<_> = Merge::new(&trace).collect();
    assert_eq!(events.len() as u64, done.totals.events);
    assert!(events.is_sorted_by_key(|e| e.ts_ns));
    Ok(Run { done, trace, events })
}

impl Run {
    /// Each event of the kinds, in words.
    fn lines(&self, kinds: &[Kind]) -> Vec<String> {
        let of = |e: &&Event| kinds.contains(&e.body.kind());
        let text = |e: &Event| format!("{} {:?}", e.ts_ns.saturating_sub(T), e.body);
        self.events.iter().filter(of).map(text).collect()
    }

    fn count(&self, kind: Kind) -> usize {
        self.events.iter().filter(|e| e.body.kind() == kind).count()
    }
}

#[test]
fn every_row_finds_its_kind() {
    let run = run(&[TABLES, ROWS], ImportOptions::default()).unwrap();
    let t = &run.trace;
    let mut seen = BTreeMap::new();
    for e in &run.events {
        let at = e.ts_ns - T;
        let tid = |task| t.task(task).tid;
        let ids = |task| (t.task(task).pid, t.task(task).tid);
        match e.body {
            Body::Call(c) => {
                let symbol = t.function(c.func).unwrap().symbol.as_str();
                let words = (at, ids(c.task), c.dur_ns, c.result, c.ptr, c.bytes, c.copy);
                match symbol {
                    "cudaLaunchKernel" => {
                        assert_eq!(words, (2000, (40, 40), Some(100), Some(0), Some(139), None, None))
                    }
                    "cudaMemcpyAsync" => {
                        assert_eq!(words, (1000, (40, 40), Some(300), Some(0), None, Some(4096), Some(1)))
                    }
                    "cuMemAlloc_v2" => assert_eq!(words, (2500, (40, 41), Some(50), Some(2), None, Some(1024), None)),
                    other => panic!("{other}"),
                }
            }
            // Stamped at their end. The thread that only exits and calls name a process for is one of it.
            Body::OffCpu(o) if tid(o.task) == 40 => assert_eq!((at, o.dur_ns), (3000, 6000)),
            Body::OffCpu(o) => assert_eq!((at, ids(o.task), o.dur_ns), (9400, (40, 41), 100)),
            Body::BlockIssue(b) => assert_eq!((at, tid(b.task), b.sector, b.bytes), (7300, 40, 1234, 4096)),
            Body::BlockComplete(b) => assert_eq!((at, b.sector, b.bytes, b.error), (8000, 1234, 4096, 0)),
            Body::Fork(f) => assert_eq!((at, tid(f.parent), tid(f.child)), (3000, 40, 50)),
            Body::Process(p) => assert_eq!((at, tid(p.task), p.parent_pid), (3000, 50, Some(40))),
            Body::Exit(x) => assert_eq!((at, ids(x.task)), (8300, (40, 41))),
            Body::Exec(x) => assert_eq!((at, tid(x.task)), (3200, 50)),
            Body::Wakeup(w) => assert_eq!((at, tid(w.wakee)), (3100, 40)),
            Body::PageAlloc(p) => assert_eq!((at, tid(p.task), p.order), (3300, 40, 1)),
            Body::OtherEvent(o) => {
                let words = (at, t.string(o.source), t.string(o.op), o.dur_ns, o.arg0, o.arg1, o.result);
                match o.arg1 {
                    -1 => assert_eq!(words, (8100, "NET", "net_recv", Some(55), 6, -1, 0)),
                    _ => assert_eq!(words, (8200, "source 99", "op 1", None, 1, 2, 3)),
                }
            }
            Body::Usage(u) => assert_eq!(
                (at, u.cpu_ppb, u.mem_ppb, u.mem_available_bytes, u.swap_used_bytes, u.load1_milli),
                (4000, 125_000_000, 500_000_000, 100 << 20, 1 << 20, 290)
            ),
            Body::Name(n) => assert!(at == 500 && ["python3", "sh"].contains(&t.string(n.name))),
            Body::Clock(c) => assert!([500, 20_000].contains(&at) && c.real_ns == e.ts_ns),
            Body::Stack(s) => assert!([2000, 3000].contains(&at) && (tid(s.task), s.stack) == (40, 0)),
            Body::Frame(f) => {
                let text = |s: Option<_>| s.map_or("-", |s| t.string(s));
                let words = (at, f.depth, text(f.symbol), text(f.file), f.line, f.address, f.language);
                match f.depth {
                    0 => assert_eq!(words, (2000, 0, "cudaLaunchKernel+0x5", "libcudart.so", None, None, 0)),
                    1 => assert_eq!(words, (2000, 1, "-", "a.so", None, Some(0x7f00), 0)),
                    _ => assert_eq!(words, (2000, 2, "forward", "m.py", Some(6), None, 1)),
                }
            }
            Body::Annotation(a) => match t.string(a.label) {
                "session" => assert_eq!((at, a.to_ns), (500, Some(T + 20_000))),
                "causal_chain" => assert!(at == 5000 && t.string(a.text).contains("\"summary\":\"it was slow\"")),
                "process_name" => assert!(at == 500 && t.string(a.text).contains("\"pid\":")),
                "stack" => assert_eq!(t.string(a.text), "{\"stack\":0,\"hash\":-5}"),
                "task_cgroup" => assert!(t.string(a.text).starts_with("{\"cgroup_id\":")),
                other => panic!("{other}"),
            },
            Body::Aggregate(a) if t.string(a.op) == "mm_page_alloc" => {
                assert_eq!(
                    (at, a.bucket_ns, a.count, a.stored, a.sum_dur_ns, a.sum_arg0),
                    (500, T, 100, 1, None, 409_600)
                );
            }
            Body::Aggregate(a) => assert!(a.sum_dur_ns.is_some() && a.len_ns == 60_000_000_000 && at == 500),
            other => panic!("{other:?}"),
        }
        *seen.entry(t.kind_name(e.body.kind() as u16)).or_insert(0) += 1;
    }
    let counts: Vec<_> = seen.into_iter().collect();
    let expected = [
        ("aggregate", 3),
        ("annotation", 10),
        ("block_rq_complete", 1),
        ("block_rq_issue", 1),
        ("call", 3),
        ("clock", 2),
        ("mm_page_alloc", 1),
        ("off_cpu", 2),
        ("other_event", 2),
        ("process", 1),
        ("sched_process_exec", 1),
        ("sched_process_exit", 1),
        ("sched_process_fork", 1),
        ("sched_wakeup", 1),
        ("stack", 2),
        ("stack_frame", 3),
        ("system_usage", 1),
        ("task_name", 2),
    ];
    assert_eq!(counts, expected);
    let meta = |key| run.trace.meta(key);
    assert_eq!(
        [meta("sampled"), meta("source"), meta("kernel"), meta("cpus")],
        [Some("true"), Some("ingero"), Some("5.15.0"), Some("4")]
    );
}

#[test]
fn what_a_sample_does_not_tell_is_unknown() {
    let run = run(&[TABLES, ROWS], ImportOptions::default()).unwrap();
    let a = Analysis::new(&run.trace, Window::whole(&run.trace));
    assert!(a.sampled());
    let main = a.active().into_iter().find(|&id| a.processes.get(id).pid == 40).unwrap();
    let totals = a.figures(main).totals.clone().unwrap();
    // 5 stays are counted of 2 claimed; the other thread's is among the stored ones.
    assert_eq!(totals.off_cpu, Some(OpTotals { count: 5, sum_ns: Some(9000), max_ns: Some(6000), bytes: None }));
    assert_eq!(totals.page_allocs, Some(OpTotals { count: 100, sum_ns: None, max_ns: None, bytes: Some(409_600) }));
    let json: serde_json::Value = serde_json::from_str(&report::json(&a, &[40]).unwrap()).unwrap();
    let p = &json["processes"][0];
    assert_eq!((&p["context_switches"], &p["page_allocs"]["count"]), (&5.into(), &100.into()));
    for unknown in [&p["on_cpu_ns"], &p["off_cpu"]["runnable_ns"], &p["off_cpu"]["blocked_ns"]] {
        assert!(unknown.is_null(), "{p:#}");
    }
    let ops = p["ops"].as_array().unwrap();
    let launch = ops.iter().find(|op| op["name"] == "cudaLaunchKernel").unwrap();
    assert_eq!((&launch["count"], &launch["mean_ns"], &launch["max_ns"]), (&10.into(), &100.into(), &400.into()));
    assert!(
        ["p50_ns", "p95_ns", "p99_ns", "self_ns", "running_ns"].iter().all(|key| launch[key].is_null()),
        "{launch:#}"
    );
    let text = report::text(&a, &report::Options::default());
    assert!(text.contains("a SAMPLE") && text.contains("stored 13 of 125 events"), "{text}");
    assert!(json["incidents"].as_array().unwrap().is_empty());
    // A part of a total is not known.
    let window = Window { from_ns: T + 1500, ..Window::whole(&run.trace) };
    assert_eq!(Analysis::new(&run.trace, window).figures(main).totals, None);
}

#[test]
fn without_totals_the_stored_events_count() {
    let run = run(&[TABLES, ROWS, "DELETE FROM event_aggregates"], ImportOptions::default()).unwrap();
    assert!(run.done.notes[0].contains("keeps no totals"), "{:?}", run.done.notes);
    let a = Analysis::new(&run.trace, Window::whole(&run.trace));
    let main = a.active().into_iter().find(|&id| a.processes.get(id).pid == 40).unwrap();
    let off = a.figures(main).totals.clone().unwrap().off_cpu;
    assert_eq!(off, Some(OpTotals { count: 2, sum_ns: Some(6100), max_ns: Some(6000), bytes: None }));
}

#[test]
fn text_ids_and_nodes_of_0_9() {
    let newer = TABLES
        .replace(
            "id INTEGER PRIMARY KEY AUTOINCREMENT, timestamp INTEGER NOT NULL, pid",
            "id TEXT PRIMARY KEY, timestamp INTEGER NOT NULL, pid",
        )
        .replace(
            "cgroup_id INTEGER NOT NULL DEFAULT 0);",
            "cgroup_id INTEGER NOT NULL DEFAULT 0, node TEXT NOT NULL DEFAULT '', rank INTEGER);",
        );
    let one = "UPDATE events SET id = 'n1:' || rowid, node = 'n1'";
    let r = run(&[&newer, ROWS, one], ImportOptions::default()).unwrap();
    assert_eq!((r.trace.meta("host"), r.count(Kind::Call), r.done.records), (Some("n1"), 3, 13));
    let two = "UPDATE events SET node = 'n2' WHERE pid = 50";
    let problem = run(&[&newer, ROWS, one, two], ImportOptions::default()).map(|_| ()).unwrap_err().to_string();
    assert!(problem.contains("several nodes (n1, n2)"), "{problem}");
}

#[test]
fn bad_rows_are_named_or_counted() {
    for (sql, problem) in [
        (
            "UPDATE events SET timestamp = 'noon' WHERE id = 4",
            "table events, row 4: column timestamp: expected a whole number from 0 up, found \"noon\"",
        ),
        (
            "UPDATE events SET duration = -1 WHERE id = 2",
            "row 2: column duration: expected a whole number from 0 up, found \"-1\"",
        ),
        ("UPDATE events SET tid = 5000000000 WHERE id = 2", "row 2: column tid: expected a process or thread id"),
        (
            "UPDATE events SET duration = 9000000000000000000 WHERE id = 4",
            "row 4: column duration: 9000000000000000000 ns before",
        ),
        (
            "UPDATE events SET arg0 = 5000 WHERE op = 3 AND source = 3",
            "row 9: column arg0: 5000 bytes are no power of two",
        ),
        ("UPDATE stack_traces SET frames = '[{'", "table stack_traces, row -5: column frames: no JSON list"),
        ("UPDATE system_snapshots SET cpu_pct = -3.0", "column cpu_pct: expected a number from 0 up"),
        ("UPDATE event_aggregates SET stored = 500", "column stored: 500 of 10 events"),
        ("UPDATE process_names SET pid = -1 WHERE pid = 50", "table process_names, row -1: column pid"),
        ("UPDATE causal_chains SET detected_at = x'00'", "table causal_chains, row 1: column detected_at"),
    ] {
        let message = run(&[TABLES, ROWS, sql], ImportOptions::default()).map(|_| ()).unwrap_err().to_string();
        assert!(message.contains(problem), "{sql}: {message}");
        let going = run(&[TABLES, ROWS, sql], ImportOptions { keep_going: true, ..Default::default() }).unwrap();
        assert_eq!(going.lines(&[Kind::Loss]).len(), 1, "{sql}");
        assert!(going.done.notes.last().unwrap().ends_with("rows could not be read"), "{:?}", going.done.notes);
    }
}

#[test]
fn what_is_no_database_of_ingero_is_refused() {
    for sql in [
        "CREATE TABLE t (x)",
        "CREATE VIEW events AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x FROM n) SELECT x AS id FROM n;
         CREATE TABLE sources (id, name); CREATE TABLE ops (source_id, op_id, name)",
    ] {
        let problem = run(&[sql], ImportOptions::default()).map(|_| ()).unwrap_err().to_string();
        assert!(problem.contains("without a table \"events\""), "{problem}");
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cut.db");
    database(&path, &[TABLES, ROWS]);
    let whole = std::fs::read(&path).unwrap();
    for cut in [16, 99, 100, 4096, whole.len() / 2, whole.len() - 1] {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let input = Input::open(&path).unwrap();
        let output = dir.path().join("run.igt");
        let e = ingero::import(&input, &output, ImportOptions::default()).map(|_| ()).unwrap_err().to_string();
        let due = format!("is cut: {cut} of its {} bytes are there", if cut < 100 { 100 } else { whole.len() });
        assert!(e.contains("cut.db") && e.contains(&due) && !output.exists(), "{e}");
    }
}

/// What a database says by the names that it gives its numbers.
fn told(db: &Path, sql: &str) -> Vec<String> {
    let db = Connection::open(db).unwrap();
    let mut query = db.prepare(sql).unwrap();
    query.query_map([], |row| row.get::<_, String>(0)).unwrap().map(Result::unwrap).collect()
}

const BY_NAME: &str = "coalesce(s.name, 'source ' || t.source) || ' ' || coalesce(o.name, 'op ' || t.op)";
const NAMES: &str =
    "t LEFT JOIN sources s ON s.id = t.source LEFT JOIN ops o ON o.source_id = t.source AND o.op_id = t.op";

fn back(trace: &Trace, path: &Path, selection: &Selection) -> BTreeMap<String, String> {
    sqlite::ingero::export(trace, selection, path, true, &Progress::none()).unwrap();
    told(path, "SELECT key || char(9) || value FROM schema_info")
        .iter()
        .filter_map(|line| line.split_once('\t'))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

#[test]
fn a_sample_goes_back_with_its_totals_and_says_that_it_is_one() {
    let dir = tempfile::tempdir().unwrap();
    let (old, new) = (dir.path().join("old.db"), dir.path().join("new.db"));
    database(&old, &[TABLES, ROWS]);
    let run = run(&[TABLES, ROWS], ImportOptions::default()).unwrap();
    let facts = back(&run.trace, &new, &Selection::whole(&run.trace));
    assert_eq!(facts["sampled"], "true");
    assert!(facts["event_aggregates_note"].contains("as the source counted them"), "{facts:?}");
    let totals = format!(
        "SELECT {BY_NAME} || ' ' || bucket || ' ' || pid || ' ' || count || ' ' || stored || ' ' || sum_dur || ' ' || min_dur || ' ' || \
         max_dur || ' ' || sum_arg0 FROM event_aggregates {NAMES} ORDER BY 1"
    );
    assert_eq!(told(&new, &totals), told(&old, &totals));
    let events = format!(
        "SELECT {BY_NAME} || ' ' || timestamp || ' ' || tid || ' ' || duration || ' ' || ret_code FROM events {NAMES} \
         WHERE coalesce(o.name, '') NOT IN ('sched_wakeup') ORDER BY 1"
    );
    assert_eq!(told(&new, &events), told(&old, &events));
    let snapshots = "SELECT timestamp || ' ' || cpu_pct || ' ' || mem_pct || ' ' || load_avg FROM system_snapshots";
    assert_eq!(told(&new, snapshots), told(&old, snapshots));
    // What comes back has the figures that went.
    let again = dir.path().join("again.igt");
    ingero::import(&Input::open(&new).unwrap(), &again, ImportOptions::default()).unwrap();
    let again = Trace::open(&again).unwrap();
    let figures = |trace: &Trace| {
        let a = Analysis::new(trace, Window::whole(trace));
        let of = |id| {
            (
                a.processes.get(id).pid,
                format!("{:?}", a.figures(id).totals.as_ref().map(|t| (t.off_cpu, t.page_allocs))),
            )
        };
        a.active().into_iter().map(of).collect::<BTreeMap<_, _>>()
    };
    assert_eq!(figures(&again)[&40], figures(&run.trace)[&40]);
    // A part of a total is not known, and a sample is none.
    let cut = Window { from_ns: T + 1500, ..Window::whole(&run.trace) };
    let facts = back(&run.trace, &new, &Selection::new(&run.trace, cut, &Cut::default()).unwrap());
    assert!(facts["event_aggregates_note"].starts_with("none"), "{facts:?}");
    assert_eq!(told(&new, "SELECT CAST(count(*) AS TEXT) FROM event_aggregates"), ["0"]);
}

/// What `--schema ingero` makes of a whole recording says so, and nothing of it is called a sample.
#[test]
fn a_database_that_has_every_event_is_no_sample() {
    const WHOLE: &str = "INSERT INTO schema_info VALUES ('sampled', 'false')";
    let sampled = |more: &[&str]| {
        let run = run(&[&[TABLES, ROWS, WHOLE], more].concat(), ImportOptions::default()).unwrap();
        let analysis = Analysis::new(&run.trace, Window::whole(&run.trace));
        let says = run.done.notes.iter().any(|n| n.contains("a sample: ") && !n.contains("not a sample"));
        (run.trace.meta("sampled") == Some("true"), analysis.sampled(), says)
    };
    assert_eq!(sampled(&["DELETE FROM event_aggregates"]), (false, false, false));
    assert_eq!(sampled(&["UPDATE event_aggregates SET count = 1, stored = 1"]), (false, false, false));
    // Its totals know better.
    assert_eq!(sampled(&[]), (true, true, true));
    // A recording, there and back.
    let mut f = ingero_replay::fixture::Fixture::new();
    let task = f.task(7, 7);
    let func =
        f.func("cudaLaunchKernel", ingero_format::catalog::Layer::Runtime, ingero_format::catalog::Class::Launch);
    for i in 0..20 {
        f.call(1_000_000 + i * 10_000, 0, task, func, 1_000 + i);
    }
    let trace = f.finish();
    let dir = tempfile::tempdir().unwrap();
    let (db, igt) = (dir.path().join("new.db"), dir.path().join("again.igt"));
    assert_eq!(back(&trace, &db, &Selection::whole(&trace))["sampled"], "false");
    ingero::import(&Input::open(&db).unwrap(), &igt, ImportOptions::default()).unwrap();
    let again = Trace::open(&igt).unwrap();
    let calls = |trace: &Trace| {
        let json = report::json(&Analysis::new(trace, Window::whole(trace)), &[]).unwrap();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        json["processes"][0]["ops"][0].clone()
    };
    assert_eq!(again.meta("sampled"), Some("false"));
    for key in ["count", "sum_ns", "p50_ns", "p99_ns", "max_ns"] {
        assert!(calls(&trace)[key].is_u64(), "{key}: {}", calls(&trace));
        assert_eq!(calls(&again)[key], calls(&trace)[key], "{key}");
    }
}

#[test]
fn a_database_without_totals_goes_back_without() {
    let run = run(&[TABLES, ROWS, "DELETE FROM event_aggregates"], ImportOptions::default()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let new = dir.path().join("new.db");
    let facts = back(&run.trace, &new, &Selection::whole(&run.trace));
    assert_eq!(facts["sampled"], "true");
    assert_eq!(told(&new, "SELECT CAST(count(*) AS TEXT) FROM event_aggregates"), ["0"]);
}

/// The figures of a sample follow a cut as all figures do.
#[test]
fn the_figures_of_a_cut_of_a_sample_are_of_what_is_shown() {
    let run = run(&[TABLES, ROWS], ImportOptions::default()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let new = dir.path().join("new.sqlite");
    let sql = "SELECT pid || ' ' || coalesce(context_switches, '-') || ' ' || coalesce(page_allocs, '-') FROM process_figures ORDER BY pid";
    let figures = |cut: Cut| {
        let selection = Selection::new(&run.trace, Window::whole(&run.trace), &cut).unwrap();
        sqlite::export(&run.trace, &selection, &new, true, &Progress::none()).unwrap();
        told(&new, sql)
    };
    let of = |rows: &[String], pid: &str| rows.iter().find(|r| r.starts_with(pid)).cloned();
    let all = figures(Cut::default());
    assert_eq!(of(&all, "40 "), Some("40 5 100".to_owned()), "{all:?}");
    assert_eq!(figures(Cut { pids: vec![40], ..Cut::default() }), ["40 5 100"]);
    assert_eq!(of(&figures(Cut { pids: vec![50], ..Cut::default() }), "40 "), None);
    let calls = figures(Cut { only: vec!["call".to_owned()], ..Cut::default() });
    assert_eq!(of(&calls, "40 "), Some("40 - -".to_owned()), "{calls:?}");
}

/// Rows of a table as a database has them, without what is made anew: ids of events. JSON and fractions by what they mean.
fn content(db: &Connection, table: &str, columns: &[String]) -> Vec<String> {
    let mut query = db.prepare(&format!("SELECT {} FROM {table}", columns.join(", "))).unwrap();
    let cell = |name: &str, value: rusqlite::types::Value| match value {
        rusqlite::types::Value::Text(text) if name == "frames" && !text.is_empty() => {
            serde_json::from_str::<serde_json::Value>(&text).unwrap().to_string()
        }
        // Shares are kept in billionths.
        rusqlite::types::Value::Real(x) if table == "system_snapshots" => format!("{:.5}", x + 1e-7),
        other => format!("{other:?}"),
    };
    let row = |r: &rusqlite::Row| {
        let cells = columns.iter().enumerate().map(|(at, name)| Ok(cell(name, r.get(at)?)));
        cells.collect::<rusqlite::Result<Vec<_>>>().map(|cells| cells.join("|"))
    };
    let mut rows: Vec<String> = query.query_map([], row).unwrap().map(Result::unwrap).collect();
    rows.sort();
    rows
}

/// A database that became a recording and a database again holds what it held: table by table, column by column.
fn goes_back_whole(old: &Path) {
    let dir = tempfile::tempdir().unwrap();
    let (recording, new) = (dir.path().join("run.igt"), dir.path().join("new.db"));
    ingero::import(&Input::open(old).unwrap(), &recording, ImportOptions::default()).unwrap();
    let trace = Trace::open(&recording).unwrap();
    let whole = Selection::whole(&trace);
    sqlite::ingero::export(&trace, &whole, &new, false, &Progress::none()).unwrap();
    assert!(sqlite::ingero::left_out(&trace, &whole).is_empty());
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY | rusqlite::OpenFlags::SQLITE_OPEN_URI;
    let before = Connection::open_with_flags(format!("file:{}?immutable=1", old.display()), flags).unwrap();
    let after = Connection::open(&new).unwrap();
    let name = old.display();
    for table in [
        "events",
        "stack_traces",
        "process_names",
        "sessions",
        "system_snapshots",
        "cgroup_metadata",
        "cgroup_schedstat",
        "event_aggregates",
        "causal_chains",
    ] {
        let columns = |db: &Connection| -> Vec<String> {
            let mut list = db.prepare("SELECT name FROM pragma_table_info(?1)").unwrap();
            list.query_map([table], |r| r.get(0)).unwrap().map(Result::unwrap).collect()
        };
        let known = columns(&after);
        let columns: Vec<String> = columns(&before).into_iter().filter(|c| !(c == "id" && table == "events")).collect();
        assert!(columns.iter().all(|c| known.contains(c)), "{name}: {table}: {columns:?}");
        if columns.is_empty() {
            continue;
        }
        let (due, got) = (content(&before, table, &columns), content(&after, table, &columns));
        if table == "causal_chains" {
            // Beside those of the old tool there are our own.
            assert!(due.iter().all(|chain| got.contains(chain)), "{name}: {table}: {due:#?} {got:#?}");
        } else {
            assert_eq!(got, due, "{name}: {table}");
        }
    }

    // So it does a second time, and no incident of ours has become one of the old tool's meanwhile.
    let (recording, again) = (dir.path().join("again.igt"), dir.path().join("again.db"));
    ingero::import(&Input::open(&new).unwrap(), &recording, ImportOptions::default()).unwrap();
    let trace = Trace::open(&recording).unwrap();
    sqlite::ingero::export(&trace, &Selection::whole(&trace), &again, false, &Progress::none()).unwrap();
    let again = Connection::open(&again).unwrap();
    let chains = |db: &Connection| content(db, "causal_chains", &["id".to_owned(), "summary".to_owned()]);
    assert_eq!(chains(&again), chains(&after), "{name}");
    let of_old_tool = |label: &str, text: &str| label == "causal_chain" && text.contains("\"ingero-analyze:");
    let mut kept = Merge::of(&trace, |kind| kind == Kind::Annotation);
    assert!(
        !kept
            .any(|e| matches!(e.body, Body::Annotation(a) if of_old_tool(trace.string(a.label), trace.string(a.text)))),
        "{name}"
    );
}

#[test]
fn a_database_goes_back_as_it_came() {
    let dir = tempfile::tempdir().unwrap();
    let old = dir.path().join("old.db");
    // A stack is that of what its thread began in one nanosecond: there is one such event. What nobody named has no number.
    let rows =
        ROWS.replace("(T + 3000, 40, 40, 3, 7", "(T + 3050, 40, 40, 3, 7").replace("50, 50, 99, 1,", "50, 50, 7, 2,");
    database(&old, &[TABLES, &rows]);
    let more = "CREATE TABLE cgroup_metadata (cgroup_id INTEGER PRIMARY KEY, container_id TEXT NOT NULL DEFAULT '',
            cgroup_path TEXT NOT NULL DEFAULT '', pod_name TEXT NOT NULL DEFAULT '', namespace TEXT NOT NULL DEFAULT '');
        CREATE TABLE cgroup_schedstat (cgroup_id INTEGER NOT NULL, p99_off_cpu INTEGER NOT NULL, total_off_cpu INTEGER NOT NULL,
            event_count INTEGER NOT NULL, window_start INTEGER NOT NULL DEFAULT 0, window_end INTEGER NOT NULL DEFAULT 0,
            PRIMARY KEY (cgroup_id, window_end));
        INSERT INTO cgroup_metadata VALUES (7, '0123abc', '/kubepods/pod1', 'train-0', 'ml'), (1, '', '/', '', '');
        INSERT INTO cgroup_schedstat VALUES (7, 500, 6100, 2, T, T + 9000), (7, 400, 400, 1, T + 9000, T + 10000);
        INSERT INTO stack_traces VALUES (77, '[\"0x7f01\",\"0x7f02\"]', '');
        DELETE FROM stack_traces WHERE hash = -5;
        INSERT INTO stack_traces VALUES (-5, '', '[{\"s\":\"cudaLaunchKernel+0x5\",\"f\":\"libcudart.so\"},\
            {\"i\":\"0x7f00\",\"f\":\"a.so\"},{\"pf\":\"m.py\",\"pfn\":\"forward\",\"pl\":6}]');";
    database(&old, &[&more.replace("\\\n", "")]);
    // In this one rows of a thread of 40 name it as a process, which is undone where the kernel's rows are; and the kernel wakes.
    goes_back_whole(&old);
}

/// A cut has the stacks of the rows that it keeps, and no others.
#[test]
fn a_cut_has_the_stacks_of_its_rows() {
    let dir = tempfile::tempdir().unwrap();
    let (old, recording) = (dir.path().join("old.db"), dir.path().join("run.igt"));
    database(&old, &[TABLES, ROWS]);
    database(&old, &["INSERT INTO stack_traces VALUES (77, '[\"0x7f01\"]', '');"]);
    ingero::import(&Input::open(&old).unwrap(), &recording, ImportOptions::default()).unwrap();
    let trace = Trace::open(&recording).unwrap();
    let mut counts = Vec::new();
    for (n, only) in ["call", "sched_process_exit"].into_iter().enumerate() {
        let cut = Cut { only: vec![only.to_owned()], ..Cut::default() };
        let selection = Selection::new(&trace, Window::whole(&trace), &cut).unwrap();
        let new = dir.path().join(format!("{n}.db"));
        sqlite::ingero::export(&trace, &selection, &new, false, &Progress::none()).unwrap();
        let db = Connection::open(&new).unwrap();
        let one = |sql: &str| db.query_row(sql, [], |r| r.get::<_, i64>(0)).unwrap();
        assert_eq!(one("SELECT count(*) FROM stack_traces WHERE hash NOT IN (SELECT stack_hash FROM events)"), 0);
        assert_eq!(
            one(
                "SELECT count(*) FROM events WHERE stack_hash <> 0 AND stack_hash NOT IN (SELECT hash FROM stack_traces)"
            ),
            0
        );
        counts.push(one("SELECT count(*) FROM stack_traces"));
    }
    assert_eq!(counts, [1, 0]);
}

/// The public databases, where they are.
#[test]
fn public_databases_go_back_as_they_came() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/databases");
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "db") {
            goes_back_whole(&path);
        }
    }
}
