//! What a converted recording says is what the recording says: every figure of every committed recording, taken from the
//! database, equals the analysis's own.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::path::{Path, PathBuf};

use ::parquet::file::reader::{FileReader, SerializedFileReader};
use ::parquet::record::Field;
use ingero_analyze::{Analysis, report};
use ingero_convert::export::{Cut, Selection, parquet, sqlite};
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
            "page_alloc_bytes": p["page_allocs"]["bytes"], "squeezed_ns": off["squeezed_ns"],
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

/// The phases of the analysis's JSON as tables have them, on the trace's clock.
fn phases(analysis: &Value, trace_start_ns: u64) -> Vec<Value> {
    let flat = |p: &Value| {
        let (gaps, busy) = (&p["gaps"], &p["busy"]);
        let at = |key: &str| p[key].as_u64().unwrap() + trace_start_ns;
        json!({
            "phase": p["id"], "pid": p["pid"], "label": p["label"], "start_ns": at("start_ns"), "end_ns": at("end_ns"),
            "submissions": p["submissions"], "asked_ns": p["asked_ns"], "gaps": gaps["count"], "gaps_ns": gaps["sum_ns"],
            "gaps_share": gaps["share"], "lost_gaps": gaps["lost_count"], "lost_gaps_ns": gaps["lost_ns"],
            "gaps_running_ns": gaps["running_ns"], "gaps_runnable_ns": gaps["runnable_ns"],
            "gaps_throttled_ns": gaps["throttled_ns"], "gaps_blocked_ns": gaps["blocked_ns"], "workers": p["workers"],
            "warm_up": u64::from(p["warm_up"].as_bool().unwrap()), "step_ns": p["step_ns"], "busy_percent": busy["percent"],
            "busy_samples": busy["samples"], "busy_devices": busy["devices"], "busy_idle_ns": busy["idle_ns"],
            "busy_told_ns": busy["told_ns"], "busy_unqueued_ns": busy["unqueued_ns"],
        })
    };
    // Of a process that stood in the part of a file that is missing (it is 0 there) tables have nothing.
    analysis["phases"].as_array().unwrap().iter().filter(|p| p["pid"] != 0).map(flat).collect()
}

/// The incidents likewise.
fn incidents(analysis: &Value) -> Vec<Value> {
    const KEYS: [&str; 11] =
        ["id", "severity", "kind", "pid", "phase", "lost_ns", "fed_ns", "op", "share", "summary", "root_cause"];
    let flat = |(rank, i): (u64, &Value)| {
        let mut all: serde_json::Map<String, Value> = KEYS.iter().map(|k| ((*k).to_owned(), i[*k].clone())).collect();
        all.insert("at_most".to_owned(), u64::from(i["at_most"].as_bool().unwrap()).into());
        all.insert("rank".to_owned(), rank.into());
        Value::Object(all)
    };
    (1..).zip(analysis["incidents"].as_array().unwrap()).map(flat).collect()
}

/// The columns of `like` alone, of each row. Fractions go through the same text as the report's: what reads JSON rounds them to within
/// their last bit.
fn like(rows: Vec<Value>, due: &[Value]) -> Vec<Value> {
    let Some(like) = due.first().and_then(Value::as_object) else { return rows };
    let pick = |row: &Value| like.keys().map(|k| (k.clone(), row[k].clone())).collect::<Value>();
    serde_json::from_str(&Value::Array(rows.iter().map(pick).collect()).to_string()).unwrap()
}

/// The rows of a table of the datasets in a folder, truths as numbers.
fn dataset(folder: &Path, table: &str) -> Vec<Value> {
    let mut folders = vec![folder.join(table)];
    let mut rows = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let file = SerializedFileReader::new(std::fs::File::open(&path).unwrap()).unwrap();
            for row in file.get_row_iter(None).unwrap() {
                let value = |field: &Field| match field {
                    Field::Null => Value::Null,
                    Field::Bool(b) => json!(u64::from(*b)),
                    Field::Long(n) => json!(n.cast_unsigned()),
                    Field::ULong(n) => json!(n),
                    Field::Double(f) => json!(f),
                    Field::Str(s) => json!(s),
                    other => panic!("{other:?}"),
                };
                rows.push(row.unwrap().get_column_iter().map(|(name, field)| (name.clone(), value(field))).collect());
            }
        }
    }
    rows
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

/// Compares what is made of a recording with what the analysis says, and returns that.
fn compare(path: &Path, cut: impl Fn(&Trace) -> Window) -> Value {
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
                   runnable_ns, throttled_ns, unfinished_ns, synthesised, on_cpu_ns, page_allocs, page_alloc_bytes, squeezed_ns";
    let got = objects(&db, &format!("SELECT {columns} FROM process_figures"));
    same(&format!("{name}: processes"), got, processes(&due));
    let columns = "pid, layer, function, count, unreturned, began_before, errors, bytes, sum_ns, self_ns, mean_ns, p50_ns, \
                   p95_ns, p99_ns, max_ns, running_ns, runnable_ns, throttled_ns, blocked_ns";
    same(&format!("{name}: operations"), objects(&db, &format!("SELECT {columns} FROM op_figures")), ops(&due));
    let got = objects(&db, "SELECT pid, holder_pid, holder, ns FROM behind_figures");
    same(&format!("{name}: behind"), got, behind(&due));
    let lake = dir.path().join("lake");
    parquet::export(&trace, &selection, &lake, false, &Progress::none()).unwrap();
    let (all, worst) = (phases(&due, window.trace_start_ns), incidents(&due));
    for (kind, got_phases, got_incidents) in [
        ("tables", objects(&db, "SELECT * FROM phases"), objects(&db, "SELECT * FROM incidents")),
        ("datasets", dataset(&lake, "phases"), dataset(&lake, "incidents")),
    ] {
        same(&format!("{name}: phases in {kind}"), like(got_phases, &all), all.clone());
        same(&format!("{name}: incidents in {kind}"), like(got_incidents, &worst), worst.clone());
    }
    let squeezed = |p: &Value| json!({ "pid": p["pid"], "squeezed_ns": p["squeezed_ns"] });
    let known: Vec<Value> = processes(&due).iter().map(squeezed).collect();
    let got: Vec<Value> = dataset(&lake, "processes").iter().map(squeezed).collect();
    // Who did nothing is in the datasets alone.
    for process in &known {
        assert!(got.contains(process), "{name}: {process}");
    }
    due
}

#[test]
fn the_figures_of_a_database_are_those_of_the_recording() {
    let mut told = (0, 0);
    for path in recordings() {
        let due = compare(&path, Window::whole);
        let has = |list: &str, key: &str| {
            due[list].as_array().unwrap().iter().filter(|row| !row[key].is_null() && row[key] != 0).count()
        };
        told = (told.0 + has("phases", "busy"), told.1 + has("incidents", "fed_ns"));
    }
    // Else nothing of it was compared.
    assert!(told.0 > 0 && told.1 > 0, "{told:?}");
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
