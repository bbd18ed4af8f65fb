//! What a converted recording says is what the recording says: every figure of every committed recording, taken from the
//! database, equals the analysis's own.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::path::{Path, PathBuf};

use ingero_analyze::{Analysis, report};
use ingero_convert::export::{Cut, Selection, sqlite};
use ingero_convert::input::Progress;
use ingero_format::Trace;
use ingero_replay::Window;
use rusqlite::Connection;
use rusqlite::types::Value as Cell;
use serde_json::{Value, json};

/// Every recording of the repository.
fn recordings() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    let mut folders = vec![
        root.join("benches/data"),
        root.join("investigations"),
        root.join("analyze/tests"),
        root.join("tests/corpus"),
    ];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "igt") && !is_refused(&path) {
                found.push(path);
            }
        }
    }
    found.sort();
    assert!(found.len() >= 7, "{found:?}");
    found
}

/// Of the corpus, what no reader takes.
fn is_refused(path: &Path) -> bool {
    let name = path.file_name().unwrap().to_string_lossy();
    let refused = name.starts_with("refused-");
    assert_eq!(Trace::open(path).is_err(), refused, "{name}");
    refused
}

/// The rows of a query as objects.
fn objects(db: &Connection, sql: &str) -> Vec<Value> {
    let mut query = db.prepare(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
    let names: Vec<String> = query.column_names().map(str::to_owned).collect();
    let rows = query.query_map([], |row| {
        let cell = |i| -> rusqlite::Result<Value> {
            Ok(match row.get::<_, Cell>(i)? {
                Cell::Null => Value::Null,
                Cell::Integer(n) => json!(n.cast_unsigned()),
                Cell::Real(r) => json!(r),
                Cell::Text(t) => json!(t),
                Cell::Blob(b) => panic!("{b:?}"),
            })
        };
        names.iter().enumerate().map(|(i, name)| Ok((name.clone(), cell(i)?))).collect::<rusqlite::Result<Value>>()
    });
    rows.unwrap().map(Result::unwrap).collect()
}

/// The processes of the analysis's JSON as the view `process_figures` has them.
fn processes(analysis: &Value) -> Vec<Value> {
    let flat = |p: &Value| {
        let off = &p["off_cpu"];
        json!({
            "pid": p["pid"], "process": p["name"], "parent_pid": p["parent_pid"], "threads": p["threads"],
            "context_switches": p["context_switches"], "off_cpu_count": off["count"], "off_cpu_ns": off["sum_ns"],
            "off_cpu_max_ns": off["max_ns"], "blocked_ns": off["blocked_ns"], "runnable_ns": off["runnable_ns"],
            "throttled_ns": off["throttled_ns"], "unfinished_ns": off["unfinished_ns"], "synthesised": off["synthesised"],
            "on_cpu_ns": p["on_cpu_ns"], "page_allocs": p["page_allocs"]["count"],
            "page_alloc_bytes": p["page_allocs"]["bytes"],
        })
    };
    analysis["processes"].as_array().unwrap().iter().map(flat).collect()
}

/// The operations as the view `op_figures` has them.
fn ops(analysis: &Value) -> Vec<Value> {
    let mut all = Vec::new();
    for p in analysis["processes"].as_array().unwrap() {
        for op in p["ops"].as_array().unwrap() {
            let mut op = op.as_object().unwrap().clone();
            let name = op.remove("name").unwrap();
            op.insert("function".into(), name);
            op.insert("pid".into(), p["pid"].clone());
            all.push(Value::Object(op));
        }
    }
    all
}

fn behind(analysis: &Value) -> Vec<Value> {
    let mut all = Vec::new();
    for p in analysis["processes"].as_array().unwrap() {
        for b in p["runnable_behind"].as_array().unwrap() {
            all.push(json!({ "pid": p["pid"], "holder_pid": b["pid"], "holder": b["name"], "ns": b["ns"] }));
        }
    }
    all
}

/// `got` has what `due` has; both may come in any order.
fn same(what: &str, mut got: Vec<Value>, mut due: Vec<Value>) {
    got.sort_by_key(Value::to_string);
    due.sort_by_key(Value::to_string);
    assert_eq!(got.len(), due.len(), "{what}: {got:#?} {due:#?}");
    for (got, due) in got.iter().zip(&due) {
        assert_eq!(got, due, "{what}");
    }
}

fn compare(path: &Path, cut: impl Fn(&Trace) -> Window) {
    let dir = tempfile::tempdir().unwrap();
    let trace = Trace::open(path).unwrap();
    let window = cut(&trace);
    let selection = Selection::new(&trace, window, &Cut::default()).unwrap();
    let file = dir.path().join("run.sqlite");
    sqlite::export(&trace, &selection, &file, false, &Progress::none()).unwrap();
    let db = Connection::open(&file).unwrap();
    let analysis = Analysis::new(&trace, window);
    let due: Value = serde_json::from_str(&report::json(&analysis, &[]).unwrap()).unwrap();
    let name = path.display();
    let columns = "pid, process, parent_pid, threads, context_switches, off_cpu_count, off_cpu_ns, off_cpu_max_ns, blocked_ns, \
                   runnable_ns, throttled_ns, unfinished_ns, synthesised, on_cpu_ns, page_allocs, page_alloc_bytes";
    let got = objects(&db, &format!("SELECT {columns} FROM process_figures"));
    same(&format!("{name}: processes"), got, processes(&due));
    let columns = "pid, layer, function, count, unreturned, began_before, errors, bytes, sum_ns, self_ns, mean_ns, p50_ns, \
                   p95_ns, p99_ns, max_ns, running_ns, runnable_ns, throttled_ns, blocked_ns";
    same(&format!("{name}: operations"), objects(&db, &format!("SELECT {columns} FROM op_figures")), ops(&due));
    let got = objects(&db, "SELECT pid, holder_pid, holder, ns FROM behind_figures");
    same(&format!("{name}: behind"), got, behind(&due));
    let incidents = |all: &[Value]| -> Vec<Value> {
        let keys = ["id", "severity", "kind", "pid", "phase", "lost_ns", "share", "summary", "root_cause"];
        all.iter().map(|i| keys.iter().map(|k| ((*k).to_owned(), i[*k].clone())).collect()).collect()
    };
    // Through the same text as the report's: what reads JSON rounds fractions to within their last bit.
    let got = Value::Array(objects(&db, "SELECT * FROM incidents ORDER BY rank")).to_string();
    let got: Vec<Value> = serde_json::from_str(&got).unwrap();
    assert_eq!(incidents(&got), incidents(due["incidents"].as_array().unwrap()), "{name}: incidents");
}

#[test]
fn the_figures_of_a_database_are_those_of_the_recording() {
    for path in recordings() {
        compare(&path, Window::whole);
    }
}

#[test]
fn the_figures_of_a_range_are_those_of_the_range() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/data/mixed.igt");
    compare(&path, |trace| {
        let whole = Window::whole(trace);
        let third = whole.len_ns() / 3;
        Window { from_ns: whole.from_ns + third, to_ns: whole.to_ns - third, ..whole }
    });
}
