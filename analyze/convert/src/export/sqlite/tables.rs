//! The tables of a trace's event kinds, and what the file's schema says of them.

use std::collections::HashSet;

use ingero_format::catalog::{TS, Unit};
use ingero_format::{ColumnSchema, KindSchema};
use rusqlite::{Connection, params};

use super::integer;

const SCHEMA_TABLES: &str = "
CREATE TABLE schema (table_name TEXT NOT NULL, column_name TEXT NOT NULL, kind INTEGER NOT NULL, column_id INTEGER NOT NULL,
    unit TEXT NOT NULL, nullable INTEGER NOT NULL, storage TEXT NOT NULL, doc TEXT NOT NULL);
CREATE TABLE kinds (kind INTEGER PRIMARY KEY, name TEXT NOT NULL, table_name TEXT NOT NULL, doc TEXT NOT NULL);
CREATE TABLE enum_values (table_name TEXT NOT NULL, column_name TEXT NOT NULL, value INTEGER NOT NULL, name TEXT NOT NULL);
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
    "call_time",
    "run",
    "stay",
    "stored_stay",
    "undivided",
    "behind",
    "phase",
    "incident",
    "incident_advice",
    "incident_moment",
    "incident_evidence",
    "calls",
    "switches",
    "wakeups",
    "losses",
    "lost",
    "known",
    "thread_states",
    "off_cpu",
    "counters",
    "hosts",
    "phases",
    "incidents",
    "process_figures",
    "op_figures",
    "behind_figures",
];

/// The tables of a trace's event kinds.
pub(super) struct Tables(pub(super) Vec<Table>);

pub(super) struct Table {
    pub(super) kind: u16,
    pub(super) name: String,
    pub(super) columns: Vec<SqlColumn>,
}

/// A column of the file and what becomes of it.
pub(super) struct SqlColumn {
    pub(super) id: u8,
    name: String,
    /// The column beside it that holds the id of its text.
    pub(super) id_name: Option<String>,
    pub(super) nullable: bool,
    pub(super) unit: SqlUnit,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SqlUnit {
    Str,
    Func,
    Task,
    /// A CPU, NULL where it is unknown.
    Cpu,
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
    pub(super) fn new(schema: &[KindSchema]) -> Self {
        let mut taken: HashSet<String> = TAKEN.iter().map(|t| (*t).to_owned()).collect();
        Self(schema.iter().map(|kind| Table::new(kind, &mut taken)).collect())
    }

    /// Made when the rows are in: that is several times faster.
    pub(super) fn create_indexes(&self, db: &Connection) -> rusqlite::Result<()> {
        self.0.iter().try_for_each(|table| table.create_indexes(db))
    }

    /// The table of a kind, if it has these columns.
    pub(super) fn with(&self, name: &str, columns: &[&str]) -> Option<&Table> {
        self.0.iter().find(|t| t.name == name && columns.iter().all(|c| t.columns.iter().any(|have| have.name == *c)))
    }
}

impl Table {
    fn new(kind: &KindSchema, taken: &mut HashSet<String>) -> Self {
        // Ours, in front of those of the file.
        let mut columns_taken = HashSet::from(["id".to_owned()]);
        let columns = kind.columns.iter().map(|c| SqlColumn::new(c, &mut columns_taken)).collect();
        Self { kind: kind.number, name: free_name(&kind.name, taken), columns }
    }

    fn create(&self, db: &Connection) -> rusqlite::Result<()> {
        let mut columns = vec!["id INTEGER PRIMARY KEY".to_owned()];
        for c in &self.columns {
            let not_null = if c.may_be_null() { "" } else { " NOT NULL" };
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

    pub(super) fn insert_sql(&self) -> String {
        let width: usize = 1 + self.columns.iter().map(|c| 1 + usize::from(c.id_name.is_some())).sum::<usize>();
        format!("INSERT INTO {} VALUES ({})", quoted(&self.name), vec!["?"; width].join(", "))
    }

    fn create_indexes(&self, db: &Connection) -> rusqlite::Result<()> {
        let Some(ts) = self.columns.iter().find(|c| c.id == TS) else { return Ok(()) };
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
            (Unit::Cpu, SqlUnit::Cpu),
            (Unit::Signed, SqlUnit::Signed),
            (Unit::TimeNs, SqlUnit::Time),
            (Unit::DurationNs, SqlUnit::Time),
        ];
        let unit = unit.into_iter().find(|(u, _)| column.is(*u)).map_or(SqlUnit::Word, |(_, sql)| sql);
        let name = free_name(&column.name, taken);
        let id_name = matches!(unit, SqlUnit::Str | SqlUnit::Func).then(|| free_name(&format!("{name}_id"), taken));
        Self { id: column.id, name, id_name, nullable: column.nullable, unit }
    }

    /// Whether it has NULL where something is unknown: in the file an unknown CPU is a number that no CPU has.
    fn may_be_null(&self) -> bool {
        self.nullable || self.unit == SqlUnit::Cpu
    }

    /// How the words of the column are kept, for people.
    fn storage(&self) -> &'static str {
        match self.unit {
            SqlUnit::Str | SqlUnit::Func => "text; its id in the column beside it",
            SqlUnit::Task => "tasks.id",
            SqlUnit::Signed => "signed integer",
            SqlUnit::Cpu | SqlUnit::Time => "integer",
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

pub(super) fn write_schema(db: &Connection, schema: &[KindSchema], tables: &Tables) -> rusqlite::Result<()> {
    db.execute_batch(SCHEMA_TABLES)?;
    let mut kinds = db.prepare("INSERT OR REPLACE INTO kinds VALUES (?1, ?2, ?3, ?4)")?;
    let mut columns = db.prepare("INSERT INTO schema VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?;
    let mut values = db.prepare("INSERT INTO enum_values VALUES (?1, ?2, ?3, ?4)")?;
    for (kind, table) in schema.iter().zip(&tables.0) {
        table.create(db)?;
        kinds.execute(params![kind.number, kind.name, table.name, kind.doc])?;
        for (c, sql) in kind.columns.iter().zip(&table.columns) {
            let unit = unit_name(c);
            let (name, storage) = (&sql.name, sql.storage());
            columns.execute(params![table.name, name, kind.number, c.id, unit, sql.may_be_null(), storage, c.doc])?;
            for (word, text) in &c.names {
                values.execute(params![table.name, name, integer(*word), text])?;
            }
        }
    }
    Ok(())
}
