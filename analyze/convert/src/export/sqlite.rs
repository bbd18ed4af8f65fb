//! Export to SQLite: one table per event kind, made from the schema in the file, so that a kind
//! which this version does not know comes out as well.
//!
//! SQLite's integers have a sign. A word of 2^63 or more is stored as the same 64 bits, which read
//! as a negative number: `printf('%llu', x)` shows the number, `printf('0x%llx', x)` the address.
//! The table `schema` says which columns may hold such words.

use std::collections::HashSet;
use std::path::Path;

use ingero_format::catalog::{END_OPEN, FuncId, NULL, StrId, TaskId, Unit, Word};
use ingero_format::{Batch, ColumnSchema, KindSchema, Trace};
use ingero_replay::{ProcessId, Processes};
use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, OpenFlags, params};

use crate::error::Error;
use crate::input::Progress;
use crate::output::PendingFile;

/// Version of the tables and views, in `meta` as `sqlite_schema`.
pub const SCHEMA: &str = "ingero-convert-sqlite/1";

/// What an export did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exported {
    /// Rows of the tables that hold events.
    pub rows: u64,
    /// Parts of the trace that could not be read.
    pub damaged: u64,
}

/// Writes a trace into a new database.
///
/// # Errors
/// [`Error::Exists`] when `output` exists and `force` is not set, [`Error::Io`] and
/// [`Error::Sqlite`] when it cannot be written.
pub fn export(trace: &Trace, output: &Path, force: bool, progress: &Progress) -> Result<Exported, Error> {
    let pending = PendingFile::create(output, force)?;
    let exported = fill(trace, pending.temporary_path(), progress)
        .map_err(|source| Error::Sqlite { path: output.to_owned(), source })?;
    pending.publish()?;
    Ok(exported)
}

fn fill(trace: &Trace, path: &Path, progress: &Progress) -> rusqlite::Result<Exported> {
    // No SQLITE_OPEN_URI: a path is a path whatever it looks like.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut db = Connection::open_with_flags(path, flags)?;
    // The file has no name yet that anybody could read it by: no journal is needed.
    db.execute_batch(
        "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE; PRAGMA foreign_keys = OFF; PRAGMA temp_store = MEMORY",
    )?;
    let tx = db.transaction()?;
    let tables = Tables::new(trace.schema());
    write_dictionaries(&tx, trace)?;
    write_schema(&tx, trace.schema(), &tables)?;
    let mut exported = write_rows(&tx, trace, &tables, progress)?;
    for table in &tables.0 {
        table.create_indexes(&tx)?;
    }
    exported.rows -= drop_superseded(&tx, &tables)?;
    write_views(&tx, &tables)?;
    tx.commit()?;
    progress.done();
    db.close().map_err(|(_, e)| e)?;
    Ok(exported)
}

const FIXED: &str = "
CREATE TABLE meta (key TEXT NOT NULL, value TEXT NOT NULL);
CREATE TABLE strings (id INTEGER PRIMARY KEY, text TEXT NOT NULL);
CREATE TABLE functions (id INTEGER PRIMARY KEY, symbol TEXT NOT NULL, layer TEXT NOT NULL, class TEXT NOT NULL);
CREATE TABLE tasks (id INTEGER PRIMARY KEY, pid INTEGER NOT NULL, tid INTEGER NOT NULL, start_ns INTEGER,
    process INTEGER NOT NULL REFERENCES processes(id));
CREATE TABLE processes (id INTEGER PRIMARY KEY, pid INTEGER NOT NULL, leader INTEGER REFERENCES tasks(id),
    parent INTEGER REFERENCES processes(id), parent_pid INTEGER, name TEXT, exe TEXT, args TEXT, followed INTEGER NOT NULL);
CREATE TABLE schema (table_name TEXT NOT NULL, column_name TEXT NOT NULL, kind INTEGER NOT NULL, column_id INTEGER NOT NULL,
    unit TEXT NOT NULL, nullable INTEGER NOT NULL, storage TEXT NOT NULL, doc TEXT NOT NULL);
CREATE TABLE kinds (kind INTEGER PRIMARY KEY, name TEXT NOT NULL, table_name TEXT NOT NULL, doc TEXT NOT NULL);
CREATE TABLE enum_values (table_name TEXT NOT NULL, column_name TEXT NOT NULL, value INTEGER NOT NULL, name TEXT NOT NULL);
CREATE TABLE damage (offset INTEGER NOT NULL, problem TEXT NOT NULL);
";

/// Names that the tables of kinds must not take.
const TAKEN: &[&str] = &[
    "meta",
    "strings",
    "functions",
    "tasks",
    "processes",
    "schema",
    "kinds",
    "enum_values",
    "damage",
    "calls",
    "switches",
    "wakeups",
    "losses",
];

/// A stored word of 64 bits as SQLite's integer of the same bits.
fn integer(word: u64) -> i64 {
    word.cast_signed()
}

fn write_dictionaries(db: &Connection, trace: &Trace) -> rusqlite::Result<()> {
    db.execute_batch(FIXED)?;
    let mut meta = db.prepare("INSERT INTO meta VALUES (?1, ?2)")?;
    meta.execute(params!["sqlite_schema", SCHEMA])?;
    meta.execute(params!["complete", if trace.complete() { "true" } else { "false" }])?;
    if let Some((start, end)) = trace.span_ns() {
        meta.execute(params!["start_ns", start.to_string()])?;
        meta.execute(params!["end_ns", end.to_string()])?;
    }
    for (key, value) in trace.meta_entries() {
        meta.execute(params![key, value])?;
    }
    let mut strings = db.prepare("INSERT INTO strings VALUES (?1, ?2)")?;
    for (id, text) in (0i64..).zip(trace.strings()) {
        strings.execute(params![id, &**text])?;
    }
    let mut functions = db.prepare("INSERT INTO functions VALUES (?1, ?2, ?3, ?4)")?;
    for (id, f) in (0i64..).zip(trace.functions()) {
        functions.execute(params![id, f.symbol, f.layer.name(), f.class.name()])?;
    }
    let processes = Processes::new(trace);
    let mut tasks = db.prepare("INSERT INTO tasks VALUES (?1, ?2, ?3, ?4, ?5)")?;
    for (id, t) in (0u32..).zip(trace.tasks()) {
        tasks.execute(params![id, t.pid, t.tid, t.start_ns.map(integer), processes.of(TaskId(id)).0])?;
    }
    let mut insert = db.prepare("INSERT INTO processes VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")?;
    let text = |id: Option<StrId>| id.map(|id| trace.string(id));
    let idle = (ProcessId::IDLE, processes.get(ProcessId::IDLE));
    for (id, p) in std::iter::once(idle).chain(processes.iter()) {
        insert.execute(params![
            id.0,
            p.pid,
            p.leader.map(|t| t.0),
            p.parent.map(|p| p.0),
            p.parent_pid,
            text(processes.process_name_at(id, u64::MAX)),
            text(p.exe),
            text(p.args),
            p.followed,
        ])?;
    }
    let mut damage = db.prepare("INSERT INTO damage VALUES (?1, ?2)")?;
    for d in trace.damage() {
        damage.execute(params![integer(d.offset), d.problem])?;
    }
    Ok(())
}

/// The tables of a trace's event kinds.
struct Tables(Vec<Table>);

struct Table {
    kind: u16,
    name: String,
    columns: Vec<SqlColumn>,
}

/// A column of the file and what becomes of it.
struct SqlColumn {
    id: u8,
    name: String,
    /// The column beside it that holds the id of its text.
    id_name: Option<String>,
    nullable: bool,
    unit: SqlUnit,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SqlUnit {
    Str,
    Func,
    Task,
    Signed,
    Time,
    Word,
}

/// `name`, or the first of `name_2`, `name_3`… that is free; SQLite does not tell cases apart.
fn free_name(name: &str, taken: &mut HashSet<String>) -> String {
    let mut free = name.replace('\0', "");
    if free.is_empty() || free.to_ascii_lowercase().starts_with("sqlite_") {
        free = format!("kind_{free}");
    }
    let base = free.clone();
    let mut n = 1;
    while !taken.insert(free.to_lowercase()) {
        n += 1;
        free = format!("{base}_{n}");
    }
    free
}

/// A name as SQL takes it whatever it holds.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

impl Tables {
    fn new(schema: &[KindSchema]) -> Self {
        let mut taken: HashSet<String> = TAKEN.iter().map(|t| (*t).to_owned()).collect();
        Self(schema.iter().map(|kind| Table::new(kind, &mut taken)).collect())
    }

    /// The table of a kind, if it has these columns.
    fn with(&self, name: &str, columns: &[&str]) -> Option<&Table> {
        self.0.iter().find(|t| t.name == name && columns.iter().all(|c| t.columns.iter().any(|have| have.name == *c)))
    }
}

impl Table {
    fn new(kind: &KindSchema, taken: &mut HashSet<String>) -> Self {
        let mut columns_taken = HashSet::new();
        let columns = kind.columns.iter().map(|c| SqlColumn::new(c, &mut columns_taken)).collect();
        Self { kind: kind.number, name: free_name(&kind.name, taken), columns }
    }

    fn create(&self, db: &Connection) -> rusqlite::Result<()> {
        let mut columns = Vec::new();
        for c in &self.columns {
            let not_null = if c.nullable { "" } else { " NOT NULL" };
            match &c.id_name {
                Some(id) => {
                    columns.push(format!("{} TEXT", quoted(&c.name)));
                    columns.push(format!("{} INTEGER{not_null}", quoted(id)));
                }
                None => columns.push(format!("{} INTEGER{not_null}", quoted(&c.name))),
            }
        }
        db.execute_batch(&format!("CREATE TABLE {} ({})", quoted(&self.name), columns.join(", ")))
    }

    fn insert_sql(&self) -> String {
        let width: usize = self.columns.iter().map(|c| 1 + usize::from(c.id_name.is_some())).sum();
        format!("INSERT INTO {} VALUES ({})", quoted(&self.name), vec!["?"; width].join(", "))
    }

    /// Made when the rows are in: that is several times faster.
    fn create_indexes(&self, db: &Connection) -> rusqlite::Result<()> {
        let Some(ts) = self.columns.iter().find(|c| c.id == ingero_format::catalog::TS) else { return Ok(()) };
        let by = |name: &str, columns: &str| {
            let index = quoted(&format!("{}_by_{name}", self.name));
            db.execute_batch(&format!("CREATE INDEX IF NOT EXISTS {index} ON {} ({columns})", quoted(&self.name)))
        };
        by(&ts.name, &quoted(&ts.name))?;
        for c in self.columns.iter().filter(|c| c.unit == SqlUnit::Task) {
            by(&c.name, &format!("{}, {}", quoted(&c.name), quoted(&ts.name)))?;
        }
        Ok(())
    }
}

impl SqlColumn {
    fn new(column: &ColumnSchema, taken: &mut HashSet<String>) -> Self {
        let unit = [
            (Unit::Str, SqlUnit::Str),
            (Unit::Func, SqlUnit::Func),
            (Unit::Task, SqlUnit::Task),
            (Unit::Signed, SqlUnit::Signed),
            (Unit::TimeNs, SqlUnit::Time),
            (Unit::DurationNs, SqlUnit::Time),
        ];
        let unit = unit.into_iter().find(|(u, _)| column.is(*u)).map_or(SqlUnit::Word, |(_, sql)| sql);
        let name = free_name(&column.name, taken);
        let id_name = matches!(unit, SqlUnit::Str | SqlUnit::Func).then(|| free_name(&format!("{name}_id"), taken));
        Self { id: column.id, name, id_name, nullable: column.nullable, unit }
    }

    /// How the words of the column are kept, for people.
    fn storage(&self) -> &'static str {
        match self.unit {
            SqlUnit::Str | SqlUnit::Func => "text; its id in the column beside it",
            SqlUnit::Task => "tasks.id",
            SqlUnit::Signed => "signed integer",
            SqlUnit::Time => "integer",
            SqlUnit::Word => "64 bits as a signed integer: printf('%llu', x) shows values from 2^63 up",
        }
    }
}

/// Name of a unit by its code in the schema.
fn unit_name(column: &ColumnSchema) -> String {
    let names = [
        (Unit::TimeNs, "ns since boot (CLOCK_MONOTONIC)"),
        (Unit::DurationNs, "ns"),
        (Unit::Cpu, "cpu"),
        (Unit::Task, "task"),
        (Unit::Str, "string"),
        (Unit::Func, "function"),
        (Unit::Number, "number"),
        (Unit::Signed, "signed number"),
        (Unit::Bytes, "bytes"),
        (Unit::Address, "address"),
        (Unit::Enum(&[]), "enum"),
        (Unit::Flags, "flags"),
    ];
    names.iter().find(|(u, _)| column.is(*u)).map_or_else(|| format!("unit {}", column.unit), |(_, n)| (*n).to_owned())
}

fn write_schema(db: &Connection, schema: &[KindSchema], tables: &Tables) -> rusqlite::Result<()> {
    let mut kinds = db.prepare("INSERT OR REPLACE INTO kinds VALUES (?1, ?2, ?3, ?4)")?;
    let mut columns = db.prepare("INSERT INTO schema VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?;
    let mut values = db.prepare("INSERT INTO enum_values VALUES (?1, ?2, ?3, ?4)")?;
    for (kind, table) in schema.iter().zip(&tables.0) {
        table.create(db)?;
        kinds.execute(params![kind.number, kind.name, table.name, kind.doc])?;
        for (c, sql) in kind.columns.iter().zip(&table.columns) {
            let unit = unit_name(c);
            let (name, storage) = (&sql.name, sql.storage());
            columns.execute(params![table.name, name, kind.number, c.id, unit, c.nullable, storage, c.doc])?;
            for (word, text) in &c.names {
                values.execute(params![table.name, name, integer(*word), text])?;
            }
        }
    }
    Ok(())
}

/// A value on its way into a row, borrowed from the trace.
enum Cell<'t> {
    Null,
    Integer(i64),
    Text(&'t str),
}

impl rusqlite::ToSql for Cell<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Cell::Null => ToSqlOutput::Owned(Value::Null),
            Cell::Integer(i) => ToSqlOutput::Owned(Value::Integer(*i)),
            Cell::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
        })
    }
}

fn write_rows(db: &Connection, trace: &Trace, tables: &Tables, progress: &Progress) -> rusqlite::Result<Exported> {
    let mut done = Exported { rows: 0, damaged: trace.damage().len() as u64 };
    let mut damage = db.prepare("INSERT INTO damage VALUES (?1, ?2)")?;
    let mut statements = Vec::new();
    for table in &tables.0 {
        statements.push((table, db.prepare(&table.insert_sql())?));
    }
    let mut batch = None;
    for block in trace.blocks() {
        progress.add(u64::from(block.header.rows));
        let Some((table, insert)) = statements.iter_mut().find(|(t, _)| t.kind == block.header.kind) else {
            // Its kind stood in a part of the schema that is damaged.
            done.damaged += 1;
            damage.execute(params![integer(block.offset), format!("kind {} has no schema", block.header.kind)])?;
            continue;
        };
        let decoded = match &mut batch {
            Some(batch) => trace.read_block(block, batch, None),
            None => Batch::new().and_then(|new| trace.read_block(block, batch.insert(new), None)),
        };
        let batch = match (decoded, &batch) {
            (Ok(()), Some(batch)) => batch,
            (Err(e), _) => {
                done.damaged += 1;
                damage.execute(params![integer(block.offset), e.to_string()])?;
                continue;
            }
            (Ok(()), None) => continue,
        };
        let columns: Vec<_> = table.columns.iter().map(|c| (c, batch.column(c.id))).collect();
        for row in 0..batch.rows() {
            let mut at = 1;
            let mut bind = |cell: Cell| {
                let bound = insert.raw_bind_parameter(at, cell);
                at += 1;
                bound
            };
            for (c, words) in &columns {
                // A column that an older file lacks is unknown, or 0 where unknown cannot be said.
                let missing = if c.nullable { NULL } else { 0 };
                let word = words.and_then(|w| w.get(row)).copied().unwrap_or(missing);
                if c.nullable && word == NULL {
                    bind(Cell::Null)?;
                    if c.id_name.is_some() {
                        bind(Cell::Null)?;
                    }
                    continue;
                }
                match c.unit {
                    SqlUnit::Str => {
                        bind(Cell::Text(trace.string(StrId::from_word(word))))?;
                        bind(Cell::Integer(integer(word)))?;
                    }
                    SqlUnit::Func => {
                        let function = trace.function(FuncId::from_word(word));
                        bind(function.map_or(Cell::Null, |f| Cell::Text(&f.symbol)))?;
                        bind(Cell::Integer(integer(word)))?;
                    }
                    SqlUnit::Signed => bind(Cell::Integer(i64::from_word(word)))?,
                    SqlUnit::Task | SqlUnit::Time | SqlUnit::Word => bind(Cell::Integer(integer(word)))?,
                }
            }
            insert.raw_execute()?;
            done.rows += 1;
        }
    }
    Ok(done)
}

/// Takes away what was only noted of calls while they were open, where the whole call is there. Returns how many rows.
fn drop_superseded(db: &Connection, tables: &Tables) -> rusqlite::Result<u64> {
    if tables.with("call", &["ts_ns", "task", "func", "end"]).is_none() {
        return Ok(0);
    }
    let dropped = db.execute(
        "DELETE FROM call AS o WHERE o.\"end\" = ?1 AND EXISTS (SELECT 1 FROM call e \
         WHERE e.ts_ns = o.ts_ns AND e.task = o.task AND e.func_id = o.func_id AND e.\"end\" <> ?1)",
        params![integer(END_OPEN)],
    )?;
    Ok(dropped as u64)
}

/// Views for people, each where the trace has what it is made of.
fn write_views(db: &Connection, tables: &Tables) -> rusqlite::Result<()> {
    // The name of a task at a moment: the latest one given until then, else its first.
    let names = tables.with("task_name", &["task", "name", "ts_ns"]).is_some();
    let name_at = |task: &str, ts: &str| {
        if !names {
            return "NULL".to_owned();
        }
        format!(
            "coalesce((SELECT n.name FROM task_name n WHERE n.task = {task} AND n.ts_ns <= {ts} ORDER BY n.ts_ns DESC LIMIT 1), \
             (SELECT n.name FROM task_name n WHERE n.task = {task} ORDER BY n.ts_ns LIMIT 1))"
        )
    };
    let enum_name = |table: &str, column: &str, alias: &str| {
        format!(
            "(SELECT v.name FROM enum_values v WHERE v.table_name = '{table}' AND v.column_name = '{column}' \
             AND v.value = {alias}.{column})"
        )
    };
    let call = [
        "ts_ns", "cpu", "task", "func", "func_id", "dur_ns", "end", "result", "ptr", "ptr2", "bytes", "copy", "stream",
    ];
    let known = |name: &str, columns: &[&str]| {
        // The column of a function's id is ours, not the file's.
        let columns: Vec<_> = columns.iter().copied().filter(|c| *c != "func_id" && *c != "probe_id").collect();
        tables.with(name, &columns).is_some()
    };
    if known("call", &call) {
        db.execute_batch(&format!(
            "CREATE VIEW calls AS SELECT c.ts_ns, c.dur_ns, c.func AS function, f.layer, f.class, t.pid, t.tid, \
             {process} AS process, {thread} AS thread, c.cpu, {end} AS \"end\", c.result, c.bytes, {copy} AS copy, \
             CASE WHEN c.stream IS NOT NULL THEN printf('0x%llx', c.stream) END AS stream, \
             CASE WHEN c.ptr IS NOT NULL THEN printf('0x%llx', c.ptr) END AS ptr, \
             CASE WHEN c.ptr2 IS NOT NULL THEN printf('0x%llx', c.ptr2) END AS ptr2, c.task \
             FROM call c JOIN tasks t ON t.id = c.task JOIN processes p ON p.id = t.process \
             LEFT JOIN functions f ON f.id = c.func_id",
            process = name_at("coalesce(p.leader, c.task)", "c.ts_ns"),
            thread = name_at("c.task", "c.ts_ns"),
            end = enum_name("call", "end", "c").replace("c.end", "c.\"end\""),
            copy = enum_name("call", "copy", "c"),
        ))?;
    }
    if known("sched_switch", &["ts_ns", "cpu", "prev", "prev_state", "next"]) {
        db.execute_batch(&format!(
            "CREATE VIEW switches AS SELECT s.ts_ns, s.cpu, p.pid AS prev_pid, p.tid AS prev_tid, {prev} AS prev_name, \
             s.prev_state, n.pid AS next_pid, n.tid AS next_tid, {next} AS next_name, s.prev, s.next \
             FROM sched_switch s JOIN tasks p ON p.id = s.prev JOIN tasks n ON n.id = s.next",
            prev = name_at("s.prev", "s.ts_ns"),
            next = name_at("s.next", "s.ts_ns"),
        ))?;
    }
    let mut wakes = Vec::new();
    if known("sched_waking", &["ts_ns", "cpu", "waker", "wakee", "target_cpu", "context"]) {
        wakes.push(format!(
            "SELECT ts_ns, cpu, 'waking' AS event, wakee, CASE WHEN context = 0 AND waker <> 0 THEN waker END AS waker, \
             {context} AS context, target_cpu FROM sched_waking w",
            context = enum_name("sched_waking", "context", "w"),
        ));
    }
    for (table, event) in [("sched_wakeup", "wakeup"), ("sched_wakeup_new", "wakeup-new")] {
        if known(table, &["ts_ns", "cpu", "wakee", "target_cpu"]) {
            wakes.push(format!(
                "SELECT ts_ns, cpu, '{event}' AS event, wakee, NULL AS waker, NULL AS context, target_cpu FROM {table}"
            ));
        }
    }
    if !wakes.is_empty() {
        db.execute_batch(&format!(
            "CREATE VIEW wakeups AS SELECT a.ts_ns, a.cpu, a.event, t.pid, t.tid, {name} AS name, a.target_cpu, \
             a.context, r.pid AS waker_pid, r.tid AS waker_tid, {waker} AS waker_name, a.wakee, a.waker \
             FROM ({all}) a JOIN tasks t ON t.id = a.wakee LEFT JOIN tasks r ON r.id = a.waker",
            name = name_at("a.wakee", "a.ts_ns"),
            waker = name_at("a.waker", "a.ts_ns"),
            all = wakes.join(" UNION ALL "),
        ))?;
    }
    if known("loss", &["ts_ns", "cpu", "to_ns", "probe", "cause", "count"]) {
        db.execute_batch(&format!(
            "CREATE VIEW losses AS SELECT ts_ns, to_ns, CASE WHEN cpu < 65535 THEN cpu END AS cpu, probe, \
             {cause} AS cause, count FROM loss l",
            cause = enum_name("loss", "cause", "l"),
        ))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
