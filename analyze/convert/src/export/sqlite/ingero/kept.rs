//! What a trace that was an ingero database keeps of it beside its events: stacks, control groups, names, sessions, causal
//! chains. It goes back into the tables that it came from.

use std::collections::{BTreeMap, HashMap};

use ingero_format::Trace;
use ingero_format::catalog::{Body, Frame, Kind, TaskId};
use ingero_replay::Merge;
use rusqlite::types::Value as Cell;
use rusqlite::{Connection, params, params_from_iter};
use serde_json::Value;

use crate::export::selection::Selection;
use crate::import::ingero::{LABELS, SOURCE, STACK_LABEL, TASK_CGROUP_LABEL};

/// Language of a frame: Python's, whose frames ingero writes with other keys.
const PYTHON: u64 = 1;

/// A row of the database, as its table and what it holds by column.
struct Row {
    table: &'static str,
    columns: serde_json::Map<String, Value>,
}

/// All of it.
#[derive(Default)]
pub(super) struct Kept {
    rows: Vec<Row>,
    /// Stacks by the time at which their events begin, and their thread.
    stacks: HashMap<(u64, TaskId), u64>,
    frames: BTreeMap<u64, Vec<Frame>>,
    /// By stack: what ingero calls it.
    hashes: HashMap<u64, i64>,
    /// By task: from when on in which control group.
    cgroups: HashMap<TaskId, Vec<(u64, i64)>>,
}

impl Kept {
    pub(super) fn read(trace: &Trace, selection: &Selection) -> Self {
        let mut this = Self::default();
        // Rows name processes by the ids of their own host, which in a recording of several are other ones.
        let of_one_host = trace.meta("hosts").is_none();
        for event in Merge::of(trace, |kind| matches!(kind, Kind::Stack | Kind::Frame | Kind::Annotation)) {
            match event.body {
                Body::Stack(s) => {
                    this.stacks.insert((event.ts_ns, s.task), s.stack);
                }
                Body::Frame(f) => this.frames.entry(f.stack).or_default().push(f),
                Body::Annotation(a) if trace.string(a.source) == SOURCE => {
                    let Ok(Value::Object(columns)) = serde_json::from_str(trace.string(a.text)) else { continue };
                    let number = |key: &str| columns.get(key).and_then(Value::as_i64);
                    let label = trace.string(a.label);
                    match (label, a.task) {
                        (STACK_LABEL, _) if of_one_host => {
                            if let (Some(stack), Some(hash)) = (number("stack"), number("hash")) {
                                this.hashes.insert(stack.cast_unsigned(), hash);
                            }
                        }
                        (TASK_CGROUP_LABEL, Some(task)) => {
                            let from = (event.ts_ns, number("cgroup_id").unwrap_or(0));
                            this.cgroups.entry(task).or_default().push(from);
                        }
                        _ => {
                            let table = LABELS.iter().find(|(_, name)| *name == label).map(|(table, _)| *table);
                            let to_ns = a.to_ns.unwrap_or(event.ts_ns).max(event.ts_ns);
                            let taken = of_one_host && selection.takes_kind(Kind::Annotation);
                            // What is told of no moment is told of all.
                            let shown = selection.touches((event.ts_ns, to_ns)) || table == Some("cgroup_metadata");
                            if let Some(table) = table.filter(|_| taken && shown || table == Some("process_names")) {
                                this.rows.push(Row { table, columns });
                            }
                        }
                    }
                }
                _ => {}
            }
        }
        for frames in this.frames.values_mut() {
            frames.sort_by_key(|frame| frame.depth);
            frames.dedup_by_key(|frame| frame.depth);
        }
        this
    }

    /// Whether rows of a table were kept.
    pub(super) fn has(&self, table: &str) -> bool {
        self.rows.iter().any(|row| row.table == table)
    }

    /// The stack of an event that began then.
    pub(super) fn stack(&self, begun_ns: u64, task: TaskId) -> Option<u64> {
        self.stacks.get(&(begun_ns, task)).copied()
    }

    /// The control group of a task then; 0 where it is not known.
    pub(super) fn cgroup(&self, at_ns: u64, task: TaskId) -> i64 {
        let Some(all) = self.cgroups.get(&task) else { return 0 };
        let after = all.partition_point(|(from_ns, _)| *from_ns <= at_ns);
        after.checked_sub(1).and_then(|at| all.get(at)).map_or(0, |(_, id)| *id)
    }

    /// The number that the database has for a stack.
    pub(super) fn hash(&self, trace: &Trace, stack: u64) -> i64 {
        if let Some(hash) = self.hashes.get(&stack) {
            return *hash;
        }
        // FNV-1a of what it holds, so that one stack has one number in every database.
        let (ips, frames) = self.texts(trace, stack);
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let hash = ips.bytes().chain(frames.bytes()).fold(0xcbf2_9ce4_8422_2325, step).cast_signed();
        if hash == 0 { 1 } else { hash }
    }

    /// A stack's columns `ips` and `frames`, as ingero writes them.
    fn texts(&self, trace: &Trace, stack: u64) -> (String, String) {
        let frames = self.frames.get(&stack).map(Vec::as_slice).unwrap_or_default();
        let text = |id| Value::from(trace.string(id)).to_string();
        let named = frames.iter().any(|f| f.symbol.is_some() || f.file.is_some());
        if !named {
            let ips: Vec<String> = frames.iter().map(|f| format!("\"{:#x}\"", f.address.unwrap_or(u64::MAX))).collect();
            return (if ips.is_empty() { String::new() } else { format!("[{}]", ips.join(",")) }, String::new());
        }
        let frame = |f: &Frame| {
            let mut parts = Vec::new();
            let python = f.language == PYTHON;
            match (f.symbol.map(text), f.file.map(text)) {
                (symbol, file) if python => {
                    parts.extend(file.map(|file| format!("\"pf\":{file}")));
                    parts.extend(symbol.map(|symbol| format!("\"pfn\":{symbol}")));
                    parts.extend(f.line.map(|line| format!("\"pl\":{line}")));
                }
                (symbol, file) => {
                    parts.extend(f.address.map(|address| format!("\"i\":\"{address:#x}\"")));
                    parts.extend(symbol.map(|symbol| format!("\"s\":{symbol}")));
                    parts.extend(file.map(|file| format!("\"f\":{file}")));
                }
            }
            format!("{{{}}}", parts.join(","))
        };
        (String::new(), format!("[{}]", frames.iter().map(frame).collect::<Vec<_>>().join(",")))
    }

    /// Writes the rows, and the stacks that are to be shown.
    pub(super) fn write(
        &self,
        db: &Connection,
        trace: &Trace,
        shows_stack: impl Fn(u64) -> bool,
        shows_pid: impl Fn(i64) -> bool,
    ) -> rusqlite::Result<()> {
        let mut insert = db.prepare("INSERT OR IGNORE INTO stack_traces VALUES (?1, ?2, ?3)")?;
        for stack in self.frames.keys().filter(|&&stack| shows_stack(stack)) {
            let (ips, frames) = self.texts(trace, *stack);
            insert.execute(params![self.hash(trace, *stack), ips, frames])?;
        }
        // What a column has that must have something, where an older database has no such column.
        let without = "SELECT name, CASE WHEN \"notnull\" AND dflt_value IS NULL AND NOT pk THEN iif(type = 'TEXT', '', 0) END \
                       FROM pragma_table_info(?1)";
        let mut columns: HashMap<&str, Vec<(String, Cell)>> = HashMap::new();
        for (table, _) in LABELS {
            let mut list = db.prepare(without)?;
            let list = list.query_map([table], |row| Ok((row.get(0)?, row.get(1)?)))?;
            columns.insert(table, list.collect::<rusqlite::Result<_>>()?);
        }
        for row in &self.rows {
            let known = columns.get(row.table).map(Vec::as_slice).unwrap_or_default();
            let pid = row.columns.get("pid").and_then(Value::as_i64);
            if row.table == "process_names" && !pid.is_some_and(&shows_pid) {
                continue;
            }
            let of_row = |(name, without): &'_ (String, Cell)| {
                let kept = row.columns.get(name).and_then(cell);
                kept.or_else(|| Some(without.clone()).filter(|cell| *cell != Cell::Null))
            };
            let cells: Vec<(&String, Cell)> =
                known.iter().filter_map(|column| Some((&column.0, of_row(column)?))).collect();
            let names: Vec<&str> = cells.iter().map(|(name, _)| name.as_str()).collect();
            let places = vec!["?"; cells.len()].join(", ");
            let sql = format!("INSERT OR IGNORE INTO {} ({}) VALUES ({places})", row.table, names.join(", "));
            db.prepare_cached(&sql)?.execute(params_from_iter(cells.into_iter().map(|(_, cell)| cell)))?;
        }
        Ok(())
    }
}

/// A value as the column has it; what is none leaves the column as it is without.
fn cell(value: &Value) -> Option<Cell> {
    match value {
        Value::Number(n) => n.as_i64().map(Cell::Integer).or_else(|| n.as_f64().map(Cell::Real)),
        Value::String(text) => Some(Cell::Text(text.clone())),
        _ => None,
    }
}
