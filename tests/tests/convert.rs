//! Converted traces hold what was recorded, in the eyes of the programs that read them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ingero_tests::{Recording, perfetto_query, record, run, tool};
use rusqlite::{Connection, OpenFlags};

fn convert(recording: &Recording, format: &str, name: &str) -> PathBuf {
    let out = recording.dir.path().join(name);
    let mut command = Command::new(tool("ingero-convert"));
    command.arg(&recording.file).arg(format).arg("-o").arg(&out);
    let run = run(&mut command, Duration::from_secs(60)).success();
    assert!(run.stdout.is_empty(), "{run:#?}");
    out
}

const COMPLAINTS: &str = "select name, value from stats where severity in ('error', 'data_loss') and value > 0";
/// Sentences about causes may begin with a function's name.
const SLICES: &str = "select name, count(*) from slice \
     where (name glob 'cu[A-Z]*' or name glob 'cuda[A-Z]*') and name not glob '* *' group by name order by name";

/// Slices by symbol as Perfetto sees them, and no complaint of its importer.
fn slices(trace: &Path) -> BTreeMap<String, u64> {
    let answers = perfetto_query(trace, &[COMPLAINTS, SLICES]);
    assert!(answers[0].rows.is_empty(), "Perfetto complains: {:?}", answers[0].rows);
    answers[1].rows.iter().map(|row| (row[0].as_str().unwrap().to_owned(), row[1].as_u64().unwrap())).collect()
}

/// What a recording of a single process must hold.
fn due(recording: &Recording) -> BTreeMap<String, u64> {
    recording.assert_exact().figures(recording.report().pid, "count")
}

#[test]
fn perfetto_sees_every_call_of_a_chrome_trace() {
    for args in [&["loop", "200"][..], &["nested", "50"], &["every", "10"], &["threads", "4", "50"]] {
        let recording = record(args);
        let trace = convert(&recording, "--chrome", "trace.json");
        assert_eq!(slices(&trace), due(&recording), "{args:?}");
    }
}

#[test]
fn perfetto_sees_who_was_running_and_who_waited() {
    let recording = record(&["contention", "1.5", "2", "3"]);
    let trace = convert(&recording, "--chrome", "trace.json");
    let answers = perfetto_query(
        &trace,
        &[
            COMPLAINTS,
            "select distinct substr(name, 1, 7) from slice where name glob 'running on CPU [0-9]*' or name in ('runnable', 'blocked')",
            "select count(*) from slice where dur < 0 or ts < 0",
            "select distinct t.name from thread t join thread_track tt using (utid) join slice s on s.track_id = tt.id",
            "select count(*) from slice where dur > 10000000000",
        ],
    );
    assert!(answers[0].rows.is_empty(), "Perfetto complains: {:?}", answers[0].rows);
    assert_eq!(answers[1].rows.len(), 3, "thread states: {:?}", answers[1].rows);
    assert_eq!(answers[2].number(), 0, "times below zero");
    let threads: Vec<_> = answers[3].rows.iter().filter_map(|r| r[0].as_str()).collect();
    assert!(threads.iter().any(|t| t.contains("worker")) && threads.iter().any(|t| t.contains("hog")), "{threads:?}");
    assert_eq!(answers[4].number(), 0, "slices longer than the recording");
}

/// Names with quotes, newlines and control bytes, calls without a return: still valid JSON.
#[test]
fn chrome_traces_of_odd_recordings_load() {
    for args in [&["names", "5"][..], &["die", "6"], &["longjmp", "6"], &["forked", "4", "5"], &["errors", "3"]] {
        let recording = record(args);
        let trace = convert(&recording, "--chrome", "trace.json");
        let text = std::fs::read_to_string(&trace).unwrap();
        serde_json::from_str::<serde_json::Value>(&text).unwrap_or_else(|e| panic!("{args:?}: {e}"));
        assert!(!slices(&trace).is_empty(), "{args:?}");
    }
}

#[test]
fn a_chrome_trace_goes_beside_the_recording_or_to_standard_output() {
    let recording = record(&["loop", "5"]);
    let mut command = Command::new(tool("ingero-convert"));
    command.current_dir(recording.dir.path()).arg("run.igt").arg("--chrome");
    assert!(run(&mut command, Duration::from_secs(60)).success().stdout.is_empty());
    let file = std::fs::read_to_string(recording.dir.path().join("run.json")).unwrap();
    serde_json::from_str::<serde_json::Value>(&file).unwrap();
    let run = run(command.args(["-o", "-"]), Duration::from_secs(60)).success();
    assert_eq!(run.stdout, file);
}

#[test]
fn the_same_file_converts_to_the_same_bytes() {
    let recording = record(&["forked", "3", "20"]);
    for format in ["--chrome", "--sqlite"] {
        let one = std::fs::read(convert(&recording, format, &format!("one{format}"))).unwrap();
        let two = std::fs::read(convert(&recording, format, &format!("two{format}"))).unwrap();
        assert!(one == two, "{format}");
    }
}

#[test]
fn sqlite_holds_every_call() {
    let recording = record(&["forked", "3", "40"]);
    recording.assert_exact();
    let file = convert(&recording, "--sqlite", "trace.db");
    let db = Connection::open_with_flags(&file, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let check: String = db.query_row("pragma integrity_check", [], |r| r.get(0)).unwrap();
    assert_eq!(check, "ok");
    for process in &recording.report().processes {
        let mut query = db.prepare("select function, count(*) from calls where pid = ?1 group by function").unwrap();
        let counts: BTreeMap<String, u64> = query
            .query_map([i64::try_from(process.pid).unwrap()], |r| Ok((r.get(0)?, r.get::<_, i64>(1)?.cast_unsigned())))
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap();
        assert_eq!(counts, process.calls, "{}", process.role);
    }
    let switches: i64 = db.query_row("select count(*) from switches", [], |r| r.get(0)).unwrap();
    assert!(switches > 0);
}
