//! `run_sql`: whatever no other tool answers.
//!
//! The database is a temporary one, made of the recording, opened for reading alone. SQLite asks before
//! each thing that a statement does; what is not reading is refused. Statements end when their time is
//! over, values, rows and memory are limited.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{TypedTool, counted, notes};
use crate::names::MAX_CHARS;
use crate::page::{Asked, Paging};
use crate::problem::Problem;
use crate::shelf::Shelf;
use crate::wanted::Wanted;
use crate::words::{clean, quoted, quoted_to};

pub(super) struct Sql;

/// Which recording, which statement.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Args {
    /// Recording, by the name that get_capture_health lists. Needed where there are several.
    recording: Option<String>,
    /// One SELECT statement of SQLite. Without it the views and their columns are listed.
    sql: Option<String>,
    #[serde(flatten)]
    page: Paging,
}

/// Rows of a statement.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Output {
    /// Names of the columns.
    columns: Vec<String>,
    /// The rows: texts are data from the recording; whole numbers beyond 2^53 are texts.
    rows: Vec<Vec<Value>>,
    /// Place of the first row that is shown.
    offset: u64,
    /// Whether there are more rows.
    more: bool,
    /// Give this as offset for the next rows; null when there are none.
    next_offset: Option<u64>,
    /// What the recording cannot show.
    caveats: Vec<String>,
}

/// Time of a statement at most.
const TIME: Duration = Duration::from_secs(10);
/// Steps of SQLite's machine between two looks at the clock: a few microseconds, unless a function takes long.
const STEPS: i32 = 100;
/// Bytes of a statement, and of any value in it. Within one function nobody looks at the clock, and to look for one text in
/// another, or for a pattern, takes time by the product of their lengths.
const MAX_SQL: usize = 8 << 10;
const MAX_VALUE: i32 = 64 << 10;
const MAX_PATTERN: i32 = 200;
/// Characters of a shown text.
const MAX_TEXT: usize = 500;
const MAX_COLUMNS: i32 = 100;
/// Memory of all of SQLite in this process: for making tables and for statements together. The allocator may keep as much again
/// of what was given back in small pieces.
const MAX_MEMORY_BYTES: u64 = 512 << 20;

/// Limits what SQLite may take, for the rest of the process.
pub(crate) fn limit_memory() -> rusqlite::Result<()> {
    Connection::open_in_memory()?.execute_batch(&format!("PRAGMA hard_heap_limit = {MAX_MEMORY_BYTES}"))
}

impl TypedTool for Sql {
    const NAME: &'static str = "run_sql";
    const TITLE: &'static str = "A query over the recording";
    const DESCRIPTION: &'static str = "Runs one SELECT of SQLite over the recording's tables and views, reading only, for \
        10 s at most. Views: calls, thread_states, off_cpu, switches, wakeups, phases, incidents, losses, \
        process_figures, op_figures, behind_figures. Call it without sql first: that lists the views with their columns. \
        Times are nanoseconds on the recording's own clock; its start is (SELECT value FROM meta WHERE key = 'start_ns'). \
        Call it when the other tools leave a question open. Figures that they have are better taken from them instead: \
        get_trace_stats for percentiles, get_causal_chains for causes, get_timeline for one thread.";
    type Args = Args;
    type Output = Output;

    fn answer(shelf: &Shelf, args: Args) -> Result<(Output, String), Problem> {
        let recording = shelf.recording(args.recording.as_deref())?;
        if args.sql.as_ref().is_some_and(|sql| sql.len() > MAX_SQL) {
            return Err(Problem::new(format!(
                "the statement is longer than {MAX_SQL} bytes; ask in several smaller ones"
            )));
        }
        let opened = recording.open()?;
        let path = opened.database()?;
        let sql = args.sql.as_deref().unwrap_or(VIEWS);
        let mut asked = args.page.asked()?;
        if args.sql.is_none() && args.page.limit.is_none() {
            asked.limit = crate::page::MAX_ROWS;
        }
        let (mut output, lines) = select(&path, sql, asked)?;
        output.caveats = opened.caveats()?;
        let mut text = vec![format!("Recording {}", quoted_to(recording.name(), MAX_CHARS))];
        text.push(output.columns.join(" | "));
        text.extend(lines);
        let rows = counted(output.rows.len() as u64, "row");
        text.push(match (output.rows.len(), output.next_offset, output.offset) {
            (0, _, 0) => "No row.".to_owned(),
            (0, _, offset) => format!("No row from {offset} on: give a smaller offset."),
            (_, None, _) if output.more => {
                format!("{rows}; more cannot be reached: aggregate, or narrow the WHERE clause.")
            }
            (_, None, 0) => format!("{rows}, which are all."),
            (_, None, offset) => format!("{rows} from {offset}, these are the last."),
            (_, Some(next), _) => format!("{rows}; there are more: call again with offset={next}, or aggregate."),
        });
        text.extend(notes(&output.caveats));
        Ok((output, text.join("\n")))
    }
}

/// Lists the views with their columns, and the tables below them.
const VIEWS: &str = "SELECT m.type, m.name, group_concat(c.name, ', ') AS columns FROM sqlite_master m, \
    pragma_table_info(m.name) c WHERE m.type IN ('view', 'table') AND m.name NOT LIKE 'sqlite_%' \
    GROUP BY m.type, m.name ORDER BY m.type DESC, m.name";

fn select(path: &Path, sql: &str, asked: Asked) -> Result<(Output, Vec<String>), Problem> {
    let begun = Instant::now();
    let db = open(path, begun).map_err(|e| Problem::new(format!("cannot open the recording's tables: {e}")))?;
    let explain = |e: &rusqlite::Error| Problem::new(explained(e));
    let mut statement = db.prepare(sql).map_err(|e| explain(&e))?;
    if !statement.readonly() || statement.column_count() == 0 {
        return Err(Problem::new("run_sql takes a SELECT: the recording cannot be changed"));
    }
    let columns: Vec<String> = statement.column_names().map(|name| clean(name, MAX_TEXT)).collect();
    let width = columns.len();
    let mut rows = statement.query([]).map_err(|e| explain(&e))?;
    let mut skipped = 0;
    let mut kept: Vec<Vec<Value>> = Vec::new();
    let mut more = false;
    while let Some(row) = rows.next().map_err(|e| explain(&e))? {
        if skipped < asked.offset {
            skipped += 1;
            continue;
        }
        if kept.len() as u64 == asked.limit {
            more = true;
            break;
        }
        let cells = (0..width).map(|at| row.get_ref(at).map(cell).unwrap_or(Value::Null));
        kept.push(cells.collect());
    }
    let seen = skipped + kept.len() as u64;
    let shown = asked.fit(kept, seen, |row: &Vec<Value>| row.iter().map(words).collect::<Vec<_>>().join(" | "));
    more |= shown.left_out.offset + (shown.rows.len() as u64) < seen;
    let next = asked.offset + shown.rows.len() as u64;
    let next_offset = (more && next <= crate::page::MAX_OFFSET).then_some(next);
    let output = Output { columns, rows: shown.rows, offset: asked.offset, more, next_offset, caveats: Vec::new() };
    Ok((output, shown.lines))
}

fn open(path: &Path, begun: Instant) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut db = Connection::open_with_flags(path, flags)?;
    // Nothing is spilled to disk; what does not fit into memory is refused.
    db.execute_batch(
        "PRAGMA query_only = ON; PRAGMA temp_store = MEMORY; PRAGMA mmap_size = 0; PRAGMA trusted_schema = OFF",
    )?;
    for (limit, value) in [
        (Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE),
        (Limit::SQLITE_LIMIT_SQL_LENGTH, MAX_VALUE),
        (Limit::SQLITE_LIMIT_COLUMN, MAX_COLUMNS),
        (Limit::SQLITE_LIMIT_EXPR_DEPTH, 200),
        (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 50),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
        (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, MAX_PATTERN),
        (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
    ] {
        db.set_limit(limit, value)?;
    }
    let wanted = Wanted::of_this_thread();
    db.progress_handler(STEPS, Some(move || begun.elapsed() >= TIME || !wanted.still()))?;
    db.authorizer(Some(authorise))?;
    Ok(db)
}

/// Pragmas that describe and change nothing.
const PRAGMAS: [&str; 5] = ["table_info", "table_xinfo", "table_list", "index_list", "index_info"];

/// Functions that reach out of the statement, or take the product of two lengths, slowly.
const REFUSED: [&str; 6] = ["load_extension", "fts3_tokenizer", "sqlite_log", "trim", "ltrim", "rtrim"];

fn authorise(context: AuthContext<'_>) -> Authorization {
    let allowed = match context.action {
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive => true,
        AuthAction::Function { function_name } => !REFUSED.iter().any(|name| name.eq_ignore_ascii_case(function_name)),
        AuthAction::Pragma { pragma_name, .. } => PRAGMAS.iter().any(|known| known.eq_ignore_ascii_case(pragma_name)),
        _ => false,
    };
    if allowed { Authorization::Allow } else { Authorization::Deny }
}

fn explained(error: &rusqlite::Error) -> String {
    const HINT: &str = "call run_sql without sql for the views and their columns";
    match error.sqlite_error_code() {
        Some(ErrorCode::OperationInterrupted) => format!(
            "the statement took longer than {} s and was stopped: narrow its WHERE clause (start_ns and ts_ns are indexed \
             in the tables), or take the figures from get_trace_stats or get_per_process_breakdown",
            TIME.as_secs()
        ),
        Some(ErrorCode::AuthorizationForStatementDenied) => {
            "this statement does more than read, which is refused: run_sql takes a SELECT over the recording's views, no \
             ATTACH, PRAGMA, VACUUM or change of any kind"
                .to_owned()
        }
        Some(ErrorCode::OutOfMemory) => {
            "the statement needs more memory than it may have: aggregate, or narrow its WHERE clause".to_owned()
        }
        Some(ErrorCode::TooBig) => {
            format!("a value in the statement became too big: {MAX_VALUE} bytes are allowed; cut texts with substr")
        }
        _ => match error {
            rusqlite::Error::MultipleStatement => "run_sql takes one statement".to_owned(),
            other if other.to_string().contains("not authorized to use function") => {
                format!("run_sql has none of these functions: {}; texts need no trimming", REFUSED.join(", "))
            }
            other => format!("{other}; {HINT}"),
        },
    }
}

/// The largest whole number that every reader of JSON keeps exactly.
const EXACT: u64 = 1 << 53;

fn cell(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(i) if i.unsigned_abs() <= EXACT => Value::from(i),
        ValueRef::Integer(i) => Value::from(i.to_string()),
        ValueRef::Real(f) => serde_json::Number::from_f64(f).map_or_else(|| Value::from(f.to_string()), Value::Number),
        ValueRef::Text(text) => Value::from(clean(&String::from_utf8_lossy(text), MAX_TEXT)),
        ValueRef::Blob(blob) => Value::from(format!("{} bytes", blob.len())),
    }
}

fn words(cell: &Value) -> String {
    match cell {
        Value::Null => "NULL".to_owned(),
        // A text could look like the end of its cell.
        Value::String(text) if text.contains(['|', '"']) => quoted(text),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
