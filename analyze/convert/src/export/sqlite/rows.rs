//! The rows of the tables of event kinds, in time order.

use std::collections::{HashMap, HashSet};

use ingero_format::Trace;
use ingero_format::catalog::{Body, CPU, FuncId, Kind, NO_CPU, NULL, StrId, TS, TaskId, Word};
use ingero_replay::{Hosts, Merge, Row};
use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, Statement, params};

use super::tables::{SqlUnit, Table, Tables};
use super::{Exported, integer};
use crate::export::selection::{self, Selection};
use crate::input::Progress;

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

/// Id of a call's duration.
const CALL_DUR: u8 = 4;

/// Whether a row is within what is selected: a kind without tasks belongs to everybody.
fn selected(row: &Row, table: &Table, selection: &Selection) -> bool {
    if selection::describes(row.kind) {
        return true;
    }
    if !selection.touches((row.ts_ns, row.ts_ns)) {
        return false;
    }
    if row.kind == Kind::Call as u16
        && row.word(CALL_DUR).is_some_and(|ns| ns != NULL && ns < selection.min_duration_ns)
    {
        return false;
    }
    let mut tasks = table.columns.iter().filter(|c| c.unit == SqlUnit::Task).peekable();
    tasks.peek().is_none() || tasks.any(|c| row.word(c.id).is_some_and(|w| selection.shows(TaskId::from_word(w))))
}

/// Writes every selected row. The rowids of a table count its rows in time order, from 1, cut or not: so the timeline can
/// name them when it comes by the same event.
pub(super) fn write(
    db: &Connection,
    trace: &Trace,
    tables: &Tables,
    selection: &Selection,
    progress: &Progress,
) -> rusqlite::Result<Exported> {
    let mut done = Exported { rows: 0, damaged: trace.damage().len() as u64 };
    let mut damage = db.prepare("INSERT INTO damage VALUES (?1, ?2)")?;
    let mut statements = HashMap::new();
    for table in &tables.0 {
        statements.insert(table.kind, (table, db.prepare(&table.insert_sql())?, 0i64));
    }
    let unknown = trace.blocks().iter().filter(|b| !statements.contains_key(&b.header.kind));
    for block in unknown {
        // Its kind stood in a part of the schema that is damaged.
        done.damaged += 1;
        damage.execute(params![integer(block.offset), format!("kind {} has no schema", block.header.kind)])?;
    }
    let wanted = |kind| statements.contains_key(&kind) && (selection.takes(kind) || selection::describes(kind));
    let before = samples_before(trace, selection);
    let mut merge = Merge::rows(trace, wanted);
    let mut passed = 0u64;
    while let Some(row) = merge.next_row() {
        passed += 1;
        if passed.is_multiple_of(1 << 14) {
            progress.add(1 << 14);
        }
        let Some((table, insert, number)) = statements.get_mut(&row.kind) else { continue };
        *number += 1;
        if selected(&row, table, selection) || before.contains(&(row.kind, row.ts_ns, row.cpu)) {
            bind(insert, *number, &row, table, trace)?;
            insert.raw_execute()?;
            done.rows += 1;
        }
    }
    for lost in merge.into_lost() {
        done.damaged += 1;
        damage.execute(params![integer(lost.entry.offset), lost.error.to_string()])?;
    }
    Ok(done)
}

/// The samples of the machine that are the last ones before a range, by kind, time and CPU: the shares at its first ones are of the
/// time since.
fn samples_before(trace: &Trace, selection: &Selection) -> HashSet<(u16, u64, u32)> {
    let window = selection.window;
    if !window.is_cut() {
        return HashSet::new();
    }
    let hosts = Hosts::new(trace);
    let samples = |kind| matches!(kind, Kind::System | Kind::Pressure) && selection.takes_kind(kind);
    let mut last = HashMap::new();
    for event in Merge::of(trace, samples).within(0, window.from_ns) {
        let (kind, of) = match &event.body {
            Body::Pressure(pressure) => (Kind::Pressure, Some(pressure.resource)),
            _ => (Kind::System, None),
        };
        if event.ts_ns < window.from_ns {
            last.insert((hosts.of_cpu(event.cpu), kind as u16, of), (kind as u16, event.ts_ns, event.cpu));
        }
    }
    last.into_values().collect()
}

fn bind(insert: &mut Statement, number: i64, row: &Row, table: &Table, trace: &Trace) -> rusqlite::Result<()> {
    let mut at = 1;
    let mut put = |cell: Cell| {
        let bound = insert.raw_bind_parameter(at, cell);
        at += 1;
        bound
    };
    put(Cell::Integer(number))?;
    for c in &table.columns {
        // A column that an older file lacks is unknown, or 0 where unknown cannot be said.
        let missing = if c.nullable { NULL } else { 0 };
        let word = match c.id {
            TS => row.ts_ns,
            CPU => row.cpu.into(),
            id => row.word(id).unwrap_or(missing),
        };
        if c.nullable && word == NULL {
            put(Cell::Null)?;
            if c.id_name.is_some() {
                put(Cell::Null)?;
            }
            continue;
        }
        match c.unit {
            SqlUnit::Str => {
                put(Cell::Text(trace.string(StrId::from_word(word))))?;
                put(Cell::Integer(integer(word)))?;
            }
            SqlUnit::Func => {
                let function = trace.function(FuncId::from_word(word));
                put(function.map_or(Cell::Null, |f| Cell::Text(&f.symbol)))?;
                put(Cell::Integer(integer(word)))?;
            }
            SqlUnit::Cpu if word == u64::from(NO_CPU) => put(Cell::Null)?,
            SqlUnit::Signed => put(Cell::Integer(i64::from_word(word)))?,
            SqlUnit::Cpu | SqlUnit::Task | SqlUnit::Time | SqlUnit::Word => put(Cell::Integer(integer(word)))?,
        }
    }
    Ok(())
}
