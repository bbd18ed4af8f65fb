//! The numbers of the tools are those of `ingero-analyze --format json`, to the last digit.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::path::{Path, PathBuf};

use ingero_analyze::{Analysis, report};
use ingero_format::Trace;
use ingero_mcp::{Shelf, tools};
use ingero_replay::Window;
use serde_json::{Value, json};

/// Where both have a key, both have the same: numbers are compared as they are written.
fn assert_same(of: &str, told: &Value, known: &Value, compared: &mut usize) {
    match (told, known) {
        (Value::Object(told), Value::Object(known)) => {
            for (key, value) in told {
                if let Some(known) = known
                    .get(key)
                    .filter(|_| !["summary", "root_cause", "label", "name", "process"].contains(&key.as_str()))
                {
                    assert_same(&format!("{of}.{key}"), value, known, compared);
                }
            }
        }
        (Value::Array(told), Value::Array(all)) => {
            for (at, value) in told.iter().enumerate() {
                // Some lists stand in another order, or are cut: what names a row finds it.
                let keys = ["pid", "layer", "name", "id", "start_ns", "end_ns"];
                let is_same = |other: &&Value| {
                    keys.iter()
                        .all(|key| value.get(key).is_none() || other.get(key).is_none() || value[key] == other[key])
                };
                let known = if value.is_object() { all.iter().find(is_same) } else { all.get(at) };
                let Some(known) = known else { panic!("{of}[{at}] {value} is not in the JSON") };
                assert_same(&format!("{of}[{at}]"), value, known, compared);
            }
        }
        (Value::Number(a), Value::Number(b)) => {
            assert_eq!(a.to_string(), b.to_string(), "{of}");
            *compared += 1;
        }
        (Value::Null, Value::Null) => *compared += 1,
        (Value::Null, _) | (_, Value::Null) => panic!("{of}: {told} and {known}"),
        _ => {}
    }
}

/// Every share in an answer.
fn shares(value: &Value, out: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            if let Some(Value::Number(share)) = map.get("share") {
                out.push(share.to_string());
            }
            map.values().for_each(|v| shares(v, out));
        }
        Value::Array(list) => list.iter().for_each(|v| shares(v, out)),
        _ => {}
    }
}

#[test]
fn every_number_is_that_of_the_json() {
    let investigations = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../investigations");
    let recordings =
        ["h200-fight/run.igt", "h200-workers/run.igt", "h200-pageable-copies/run.igt", "h200-dataloader/run.igt"];
    let (mut compared, mut seen) = (0, 0);
    for path in recordings.map(|name| investigations.join(name)) {
        let trace = Trace::open(&path).unwrap();
        let text = report::json(&Analysis::new(&trace, Window::whole(&trace)), &[]).unwrap();
        let known: Value = serde_json::from_str(&text).unwrap();
        let shelf = Shelf::new(vec![PathBuf::from(&path)]).unwrap();
        for (tool, lists) in [
            ("get_trace_stats", ["phases", "trace"].as_slice()),
            ("get_per_process_breakdown", &["processes"]),
            ("get_causal_chains", &["incidents", "chains"]),
        ] {
            let answer = tools::call(&shelf, tool, json!({"limit": 500})).unwrap().structured;
            for &list in lists {
                let of = if list == "chains" { "incidents" } else { list };
                if let Some(told) = answer.get(list) {
                    assert_same(&format!("{} {tool} {list}", path.display()), told, &known[of], &mut compared);
                }
            }
            // As the JSON has them on its lines: what reads it must not round.
            let mut told = Vec::new();
            shares(&answer, &mut told);
            seen += told.len();
            for share in told {
                assert!(text.contains(&format!("\"share\": {share}")), "{} {tool}: {share}", path.display());
            }
        }
    }
    assert!(compared > 500 && seen > 10, "{compared} numbers, {seen} shares");
}
