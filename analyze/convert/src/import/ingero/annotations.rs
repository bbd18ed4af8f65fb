//! What the old tool said about its recording: sessions, causal chains, containers. Kept as it is.

use std::collections::HashMap;
use std::io::Write;

use ingero_format::catalog::{Annotation, TaskId};

use super::database::Values;
use super::{Import, Meta};
use crate::error::Error;

/// One of them, before it is put in order.
struct Entry {
    ts_ns: u64,
    label: &'static str,
    task: Option<TaskId>,
    to_ns: Option<u64>,
    text: String,
}

/// Who said it.
pub(crate) const SOURCE: &str = "ingero";
/// Tables whose rows are kept whole, and what they are called here.
pub(crate) const LABELS: &[(&str, &str)] = &[
    ("sessions", "session"),
    ("causal_chains", "causal_chain"),
    ("cgroup_metadata", "cgroup"),
    ("cgroup_schedstat", "cgroup_schedstat"),
    ("process_names", "process_name"),
];
/// Its columns of time: when, and the end of the stretch.
fn times(table: &str) -> (Option<&'static str>, Option<&'static str>) {
    match table {
        "sessions" => (Some("started_at"), Some("stopped_at")),
        "causal_chains" => (Some("detected_at"), None),
        "cgroup_schedstat" => (Some("window_start"), Some("window_end")),
        _ => (None, None),
    }
}
/// The control group of a task from here on.
pub(crate) const TASK_CGROUP_LABEL: &str = "task_cgroup";
/// What the source calls a stack.
pub(crate) const STACK_LABEL: &str = "stack";

/// What the ids of causal chains begin with that are incidents of ours, in a database that was written here.
pub(crate) const OWN_CHAIN: &str = "ingero-analyze:";

/// Keys of a session that are keys of the file.
const KEYS: &[(&str, &str)] = &[
    ("kernel", "kernel"),
    ("cpu_cores", "cpus"),
    ("cpu_model", "cpu_model"),
    ("gpu_model", "gpu_model"),
    ("gpu_driver", "gpu_driver"),
    ("os_release", "os_release"),
    ("cuda_ver", "cuda"),
    ("python_ver", "python"),
    ("ingero_ver", "source_program"),
    ("flags", "source_flags"),
];

/// Imports them all, in order of time. Returns what the last session says of the machine, and how many chains were left out since
/// they are incidents of ours.
pub(super) fn import<W: Write>(import: &mut Import<W>, from_ns: u64) -> Result<(Meta, u64), Error> {
    let mut entries = Vec::new();
    let mut meta = Meta::new();
    let mut own_chains = 0;
    for &(table, label) in LABELS {
        let (at, to) = times(table);
        let columns = import.db.columns(table)?;
        if columns.is_empty() {
            continue;
        }
        let sql = format!("SELECT rowid AS row_id, * FROM {table} ORDER BY rowid");
        import.db.each(table, &sql, import.keep_going.then_some(&mut import.skipped), |row| {
            let row = Values(row);
            // Ours are no chains of the old tool's; they are found anew.
            if table == "causal_chains" && row.text("id").is_ok_and(|id| id.starts_with(OWN_CHAIN)) {
                own_chains += 1;
                return Ok(());
            }
            let ts_ns = at.map_or(Ok(from_ns), |at| row.count(at))?;
            let to_ns = to.map(|to| row.count(to)).transpose()?.filter(|&to| to >= ts_ns);
            if table == "sessions" {
                meta.clear();
                for (column, key) in KEYS.iter().filter(|(column, _)| columns.contains(*column)) {
                    let value = row.text(column).or_else(|_| row.count(column).map(|n| n.to_string()))?;
                    if !value.is_empty() && value != "0" {
                        meta.push(((*key).to_owned(), value));
                    }
                }
            }
            // A session without a start says nothing about time.
            let ts_ns = if ts_ns == 0 { from_ns } else { ts_ns };
            entries.push(Entry { ts_ns, label, task: None, to_ns, text: row.object()? });
            Ok(())
        })?;
    }
    cgroups(import, &mut entries)?;
    for (stack, hash) in &import.stack_hashes {
        let text = format!("{{\"stack\":{stack},\"hash\":{hash}}}");
        entries.push(Entry { ts_ns: from_ns, label: STACK_LABEL, task: None, to_ns: None, text });
    }
    entries.sort_by_key(|e| e.ts_ns);
    let source = import.transcript.writer.string(SOURCE);
    for Entry { ts_ns, label, task, to_ns, text } in entries {
        let (label, text) = (import.transcript.writer.string(label), import.transcript.writer.string(&text));
        import.push(ts_ns, &Annotation { source, label, task, to_ns, text })?;
    }
    Ok((meta, own_chains))
}

/// The control group of each task, where it has another one than before.
fn cgroups<W: Write>(import: &mut Import<W>, entries: &mut Vec<Entry>) -> Result<(), Error> {
    if !import.db.columns("events")?.contains("cgroup_id") {
        return Ok(());
    }
    let sql = "SELECT rowid AS row_id, timestamp, pid, tid, cgroup_id FROM events ORDER BY timestamp, rowid";
    let transcript = &mut import.transcript;
    let mut last: HashMap<TaskId, i64> = HashMap::new();
    import.db.each("events", sql, import.keep_going.then_some(&mut 0), |row| {
        let row = Values(row);
        let (pid, tid) = (row.id("pid")?, row.id("tid")?);
        let task = transcript.people.task(&mut transcript.writer, pid, tid);
        let (ts_ns, id) = (row.count("timestamp")?, row.integer("cgroup_id")?);
        if last.insert(task, id).unwrap_or(0) != id {
            let text = format!("{{\"cgroup_id\":{id}}}");
            entries.push(Entry { ts_ns, label: TASK_CGROUP_LABEL, task: Some(task), to_ns: None, text });
        }
        Ok(())
    })?;
    Ok(())
}
