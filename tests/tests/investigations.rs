//! The investigations that are bundled: what their recordings show does not change. Needs no root.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ingero_tests::{analyze_json, perfetto_query, run, tool};
use serde_json::Value;
use tempfile::tempdir;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("investigations").join(name)
}

fn process(analysis: &Value, pid: u64) -> &Value {
    let list = analysis["processes"].as_array().unwrap();
    list.iter().find(|p| p["pid"] == pid).unwrap_or_else(|| panic!("no process {pid}"))
}

fn runnable_s(analysis: &Value, pid: u64) -> f64 {
    process(analysis, pid)["off_cpu"]["runnable_ns"].as_f64().unwrap() / 1e9
}

/// Seconds that a process could have run while another held its CPU.
fn behind_s(analysis: &Value, pid: u64, holder: u64) -> f64 {
    let list = process(analysis, pid)["runnable_behind"].as_array().unwrap();
    list.iter().find(|b| b["pid"] == holder).map_or(0.0, |b| b["ns"].as_f64().unwrap() / 1e9)
}

/// The capture gives the bundled recording, figure for figure.
fn assert_import(name: &str) -> Value {
    let dir = tempdir().unwrap();
    let fresh = dir.path().join("run.igt");
    let mut command = Command::new(tool("ingero-convert"));
    command.arg(folder(name).join("capture.trace.txt.xz")).arg("-o").arg(&fresh);
    let _ = run(&mut command, Duration::from_secs(60)).success();
    let bundled = analyze_json(&folder(name).join("run.igt"), &[]);
    assert!(analyze_json(&fresh, &[]) == bundled, "{name}: import and bundled recording differ");
    bundled
}

#[test]
fn workers_beside_busy_shells_wait_behind_them() {
    let analysis = assert_import("h200-fight");
    for worker in 551..=554 {
        let runnable = runnable_s(&analysis, worker);
        assert!((3.40..=4.10).contains(&runnable), "{worker}: {runnable}");
        let list = process(&analysis, worker)["runnable_behind"].as_array().unwrap();
        let sum: u64 = list.iter().map(|b| b["ns"].as_u64().unwrap()).sum();
        assert!(sum <= process(&analysis, worker)["off_cpu"]["runnable_ns"].as_u64().unwrap(), "{worker}: {list:#?}");
    }
    // 551 and 552 shared a CPU with each other and with one shell.
    for (worker, other) in [(551, 552), (552, 551)] {
        assert!((1.90..=1.95).contains(&behind_s(&analysis, worker, 538)), "{worker}");
        assert!((1.85..=1.95).contains(&behind_s(&analysis, worker, other)), "{worker}");
    }
    let first = &analysis["incidents"][0];
    assert_eq!((&first["kind"], &first["severity"]), (&"cpu-contention".into(), &"HIGH".into()), "{first:#}");
    assert!(first["summary"].as_str().unwrap().contains("sh (538)"), "{first:#}");
}

#[test]
fn workers_by_themselves_hardly_wait() {
    let analysis = assert_import("h200-workers");
    for worker in 509..=512 {
        let runnable = runnable_s(&analysis, worker);
        assert!((0.18..=0.55).contains(&runnable), "{worker}: {runnable}");
    }
    let incidents = analysis["incidents"].as_array().unwrap();
    assert!(incidents.iter().all(|i| i["kind"] != "cpu-contention" || i["severity"] != "HIGH"), "{incidents:#?}");
    assert_eq!(incidents[0]["kind"], "busy-workers", "{incidents:#?}");
}

/// The kernel's own uprobes counted the same run.
#[test]
fn every_call_on_a_real_gpu_is_there() {
    let folder = folder("h200-dataloader");
    let counted: Value = serde_json::from_str(&std::fs::read_to_string(folder.join("counted.json")).unwrap()).unwrap();
    let counted: BTreeMap<String, u64> = counted["counts"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, n)| (name.clone(), n.as_u64().unwrap()))
        .filter(|(_, n)| *n > 0)
        .collect();
    let analysis = analyze_json(&folder.join("run.igt"), &[]);
    let mut recorded: BTreeMap<String, u64> = BTreeMap::new();
    for op in analysis["processes"].as_array().unwrap().iter().flat_map(|p| p["ops"].as_array().unwrap()) {
        let calls = op["count"].as_u64().unwrap() + op["unreturned"].as_u64().unwrap();
        *recorded.entry(op["name"].as_str().unwrap().to_owned()).or_default() += calls;
    }
    assert_eq!(recorded, counted);
    assert_eq!(counted.len(), 14);
    assert_eq!(analysis["trace"]["lost_events"], 0);
    let first = &analysis["incidents"][0];
    assert_eq!((&first["kind"], &first["severity"]), (&"busy-workers".into(), &"HIGH".into()), "{first:#}");
}

#[test]
fn perfetto_takes_the_whole_of_a_real_recording() {
    let dir = tempdir().unwrap();
    let trace = dir.path().join("run.json");
    let mut command = Command::new(tool("ingero-convert"));
    command.arg(folder("h200-fight").join("run.igt")).arg("--chrome").arg("-o").arg(&trace);
    let _ = run(&mut command, Duration::from_secs(60)).success();
    let answers = perfetto_query(
        &trace,
        &[
            "select name, value from stats where severity in ('error', 'data_loss') and value > 0",
            "select count(*) from slice where name glob 'cu[A-Z]*' or name glob 'cuda[A-Z]*'",
            "select count(distinct track_id) from slice where name glob 'running on CPU *'",
        ],
    );
    assert!(answers[0].rows.is_empty(), "{:?}", answers[0].rows);
    // As many as the capture has entries of functions.
    assert_eq!(answers[1].number(), 237);
    assert!(answers[2].number() > 60);
}
