//! The recordings of investigations/ mean today what they meant when they were made. Needs no root.
//!
//! Beside each recording of a folder `figures.json` has what the analysis said of it: the whole of a figure, to the nanosecond, for the
//! processes that the investigation is about. `UPDATE_FIGURES=1` writes these files anew: whoever does so says in the commit why a
//! figure is another now.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use ingero_tests::analyze_json;
use serde_json::{Map, Value, json};

fn investigations() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("investigations")
}

/// The folders with recordings, and these.
fn recordings() -> Vec<(PathBuf, Vec<PathBuf>)> {
    let sorted = |path: &Path| {
        let mut list: Vec<PathBuf> = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
        list.sort();
        list
    };
    let is_recording = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "igt");
    let folders = sorted(&investigations()).into_iter().filter(|path| path.is_dir());
    let held = folders.map(|folder| {
        let files = sorted(&folder).into_iter().filter(is_recording).collect::<Vec<_>>();
        (folder, files)
    });
    held.filter(|(_, files)| !files.is_empty()).collect()
}

fn only(of: &Value, keys: &[&str]) -> Value {
    Value::Object(keys.iter().map(|&key| (key.to_owned(), of[key].clone())).collect())
}

fn list<'a>(of: &'a Value, key: &str) -> &'a [Value] {
    of[key].as_array().unwrap_or_else(|| panic!("no list {key} in {of:#}"))
}

/// What must stay: figures, not sentences.
fn figures(analysis: &Value) -> Value {
    // Who made CUDA calls, and their children: the workers.
    let callers: BTreeSet<u64> = list(analysis, "processes")
        .iter()
        .filter(|process| !list(process, "ops").is_empty())
        .map(|process| process["pid"].as_u64().unwrap())
        .collect();
    let is_kept = |process: &&Value| {
        [&process["pid"], &process["parent_pid"]]
            .iter()
            .any(|pid| pid.as_u64().is_some_and(|pid| callers.contains(&pid)))
    };
    let processes = list(analysis, "processes").iter().filter(is_kept).map(|process| {
        let keys = [
            "pid",
            "name",
            "threads",
            "context_switches",
            "off_cpu",
            "runnable_behind",
            "on_cpu_ns",
            "page_allocs",
            "ops",
        ];
        only(process, &keys)
    });
    let phases = list(analysis, "phases")
        .iter()
        .map(|phase| only(phase, &["id", "pid", "warm_up", "start_ns", "end_ns", "submissions", "gaps", "workers"]));
    let incidents = list(analysis, "incidents")
        .iter()
        .map(|incident| only(incident, &["kind", "severity", "pid", "phase", "lost_ns"]));
    json!({
        "trace": analysis["trace"],
        "losses": analysis["losses"],
        "processes": processes.collect::<Vec<_>>(),
        "phases": phases.collect::<Vec<_>>(),
        "incidents": incidents.collect::<Vec<_>>(),
    })
}

/// Where two values differ, as paths.
fn differences(path: &str, before: &Value, now: &Value, found: &mut Vec<String>) {
    match (before, now) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for key in keys {
                let [a, b] = [a, b].map(|of| of.get(key).unwrap_or(&Value::Null));
                differences(&format!("{path}.{key}"), a, b, found);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (at, (a, b)) in a.iter().zip(b).enumerate() {
                differences(&format!("{path}[{at}]"), a, b, found);
            }
        }
        _ if before == now => {}
        _ => found.push(format!("{path}: {before} then, {now} now")),
    }
}

#[test]
fn recordings_keep_their_figures() {
    let update = std::env::var_os("UPDATE_FIGURES").is_some();
    let mut wrong = Vec::new();
    let mut checked = 0;
    for (folder, files) in recordings() {
        let kept = folder.join("figures.json");
        let now: Map<String, Value> = files
            .iter()
            .map(|file| (file.file_name().unwrap().to_string_lossy().into_owned(), figures(&analyze_json(file, &[]))))
            .collect();
        checked += now.len();
        let now = Value::Object(now);
        if update {
            fs::write(&kept, format!("{now}\n").replace("},{", "},\n{")).unwrap();
            continue;
        }
        let text = fs::read_to_string(&kept)
            .unwrap_or_else(|error| panic!("{}: {error}: make it with UPDATE_FIGURES=1", kept.display()));
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        differences(&name, &serde_json::from_str(&text).unwrap(), &now, &mut wrong);
    }
    assert!(wrong.is_empty(), "{} figures changed:\n{}", wrong.len(), wrong[..wrong.len().min(40)].join("\n"));
    assert!(checked >= 12, "{checked} recordings found in {}", investigations().display());
}
