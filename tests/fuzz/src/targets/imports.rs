//! Files of other tools: databases with values and pages changed, profiles with bytes changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use ingero_convert::Error;
use ingero_convert::import::{ImportOptions, Imported, ingero, kineto, perfdata};
use ingero_convert::input::{Input, Progress};
use ingero_format::Trace;
use ingero_replay::Merge;
use rusqlite::Connection;

use crate::dice::Dice;
use crate::seeds::Seeds;

type Import = fn(&Input, &Path, ImportOptions) -> Result<Imported, Error>;

/// Imports what lies at `path` and holds the file that came of it against what was said of it.
fn held(seeds: &Seeds, path: &Path, import: Import) -> Result<u64, String> {
    let output = seeds.folder.path().join("imported.igt");
    let options = ImportOptions { force: true, keep_going: true, progress: false };
    let Ok(done) = Input::open(path).and_then(|input| import(&input, &output, options)) else { return Ok(0) };
    let trace = Trace::open(&output).map_err(|e| format!("what was imported does not open: {e}"))?;
    let rows = Merge::new(&trace).count() as u64;
    if !trace.complete() || rows != done.totals.events {
        return Err(format!("{rows} rows of {}", done.totals.events));
    }
    Ok(rows.max(1))
}

const TABLES: &str = "
CREATE TABLE events (id INTEGER PRIMARY KEY, timestamp, pid, tid, source, op, duration, gpu_id DEFAULT 0, arg0, arg1, ret_code,
    stack_hash DEFAULT 0, cgroup_id DEFAULT 0);
CREATE TABLE stack_traces (hash INTEGER PRIMARY KEY, ips, frames);
CREATE TABLE sources (id, name); CREATE TABLE ops (source_id, op_id, name);
CREATE TABLE event_aggregates (bucket, source, op, pid, count, stored, sum_dur, min_dur, max_dur, sum_arg0);
CREATE TABLE process_names (pid, name); CREATE TABLE sessions (started_at, stopped_at, kernel);
INSERT INTO sources VALUES (1, 'CUDA'), (3, 'HOST'), (5, 'IO');
INSERT INTO ops VALUES (1, 3, 'cudaLaunchKernel'), (3, 1, 'sched_switch'), (3, 7, 'process_fork'), (5, 1, 'block_read');
INSERT INTO stack_traces VALUES (9, '[\"0x1\"]', '[{\"s\":\"f\",\"f\":\"lib\"}]');
INSERT INTO event_aggregates VALUES (60, 1, 3, 40, 5, 2, 100, 10, 50, 0), (60, 3, 1, 40, 9, 1, 900, 100, 200, 0);
INSERT INTO process_names VALUES (40, 'python3'); INSERT INTO sessions VALUES (1000, 90000, '6.1');
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60)
INSERT INTO events SELECT i, 1000 * i + 500, 40, 40 + i % 3, CASE i % 4 WHEN 0 THEN 1 WHEN 1 THEN 3 WHEN 2 THEN 3 ELSE 5 END,
    CASE i % 4 WHEN 0 THEN 3 WHEN 1 THEN 1 WHEN 2 THEN 7 ELSE 1 END, i * 7, 0, i, 50 + i, 0, CASE i % 5 WHEN 0 THEN 9 ELSE 0 END, 7 FROM n;
";

/// Values that rows do not expect.
const VALUES: &[&str] = &[
    "NULL",
    "-1",
    "'x'",
    "x'00ff'",
    "9223372036854775807",
    "-9223372036854775808",
    "1.5",
    "1e300",
    "4294967296",
    "''",
    "'[{'",
];
const PLACES: &[(&str, &str)] = &[
    ("events", "timestamp"),
    ("events", "duration"),
    ("events", "pid"),
    ("events", "tid"),
    ("events", "source"),
    ("events", "op"),
    ("events", "arg0"),
    ("events", "arg1"),
    ("events", "stack_hash"),
    ("events", "cgroup_id"),
    ("ops", "name"),
    ("sources", "name"),
    ("event_aggregates", "count"),
    ("event_aggregates", "bucket"),
    ("event_aggregates", "pid"),
    ("stack_traces", "frames"),
    ("process_names", "pid"),
    ("sessions", "started_at"),
    ("sessions", "stopped_at"),
];

/// A database of ingero.
pub(super) fn database(seeds: &Seeds, dice: &mut Dice) -> Result<u64, String> {
    static SEED: OnceLock<Result<Vec<u8>, String>> = OnceLock::new();
    let path = seeds.folder.path().join("input.db");
    let seed = SEED.get_or_init(|| {
        let made = Connection::open(&path).and_then(|db| db.execute_batch(TABLES));
        made.map_err(|e| e.to_string()).and_then(|()| fs::read(&path).map_err(|e| e.to_string()))
    });
    let mut bytes = seed.clone()?;
    if dice.below(3) == 0 {
        // Behind the header of the file, so that it is still taken for a database.
        let mut rest = bytes.split_off(100);
        dice.spoil(&mut rest);
        bytes.extend(rest);
    }
    fs::write(&path, &bytes).map_err(|e| e.to_string())?;
    for _ in 0..dice.below(3) {
        let ((table, column), value) = (PLACES[dice.below(PLACES.len())], VALUES[dice.below(VALUES.len())]);
        let sql = format!("UPDATE {table} SET {column} = {value} WHERE rowid % {} = 0", 1 + dice.below(20));
        // One whose pages are changed may not be writable.
        let _ = Connection::open(&path).and_then(|db| db.execute_batch(&sql));
    }
    held(seeds, &path, ingero::import)
}

/// A profile of PyTorch.
pub(super) fn profile(seeds: &Seeds, dice: &mut Dice) -> Result<u64, String> {
    static SEED: OnceLock<Result<Vec<u8>, String>> = OnceLock::new();
    let seed = SEED.get_or_init(|| {
        let path =
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../analyze/convert/tests/fixtures/kineto.json.gz");
        let mut bytes = Vec::new();
        let text = Input::open(&path).and_then(|input| input.text(Progress::none())).map_err(|e| e.to_string())?;
        std::io::Read::read_to_end(&mut { text }, &mut bytes).map_err(|e| e.to_string())?;
        Ok(bytes)
    });
    let mut bytes = seed.clone()?;
    if dice.one_in(3) {
        // Within the events, the head stays.
        let at = 600 + dice.below(bytes.len() - 600);
        let mut part = bytes.split_off(at);
        dice.spoil(&mut part);
        bytes.extend(part);
    }
    let path = seeds.folder.path().join("input.json");
    fs::write(&path, &bytes).map_err(|e| e.to_string())?;
    held(seeds, &path, kineto::import)
}

/// A file of `perf record`.
pub(super) fn perf_data(seeds: &Seeds, dice: &mut Dice) -> Result<u64, String> {
    static SEED: OnceLock<Result<Vec<u8>, String>> = OnceLock::new();
    let seed = SEED.get_or_init(|| {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../analyze/convert/tests/fixtures/perf.data.zst");
        let packed = fs::File::open(&path).map_err(|e| e.to_string())?;
        zstd::decode_all(packed).map_err(|e| e.to_string())
    });
    let mut bytes = seed.clone()?;
    if dice.one_in(2) {
        // Sections and records: behind the magic, so that it is still taken for one.
        let at = 8 + dice.below(bytes.len() - 8);
        let mut part = bytes.split_off(at);
        dice.spoil(&mut part);
        bytes.extend(part);
    } else {
        // A few bytes of the records alone.
        for _ in 0..dice.below(8) {
            let at = 8 + dice.below(bytes.len() - 8);
            bytes[at] = bytes[at].wrapping_add(1 + u8::try_from(dice.below(255)).unwrap_or(0));
        }
    }
    let path = seeds.folder.path().join("input.perf.data");
    fs::write(&path, &bytes).map_err(|e| e.to_string())?;
    held(seeds, &path, perfdata::import)
}
