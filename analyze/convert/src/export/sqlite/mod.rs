//! Export to SQLite: one table per event kind, made from the schema in the file, so that a kind
//! which this version does not know comes out as well; tables of what the timeline and the analysis
//! make of them; and views with the names of the moment. `spec/sqlite.md` describes all of it.
//!
//! SQLite's integers have a sign. A word of 2^63 or more is stored as the same 64 bits, which read
//! as a negative number: `printf('%llu', x)` shows the number, `printf('0x%llx', x)` the address.
//! The table `schema` says which columns may hold such words.

mod dictionaries;
pub mod ingero;
mod rows;
mod sampled;
mod states;
mod tables;
mod verdicts;
mod views;

use std::path::Path;

use ingero_analyze::Analysis;
use ingero_format::Trace;
use rusqlite::{Connection, OpenFlags};

use super::selection::Selection;
use crate::error::Error;
use crate::input::Progress;
use crate::output::PendingFile;
use tables::Tables;

/// Version of the tables and views, in `meta` as `sqlite_schema`.
pub const SCHEMA: &str = "ingero-convert-sqlite/2";

/// What an export did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Exported {
    /// Rows of the tables that hold events.
    pub rows: u64,
    /// Parts of the trace that could not be read.
    pub damaged: u64,
}

/// Writes what is selected of a trace into a new database.
///
/// # Errors
/// [`Error::Exists`] when `output` exists and `force` is not set, [`Error::Io`] and
/// [`Error::Sqlite`] when it cannot be written.
pub fn export(
    trace: &Trace,
    selection: &Selection,
    output: &Path,
    force: bool,
    progress: &Progress,
) -> Result<Exported, Error> {
    create(output, force, |db| fill(db, trace, selection, progress))
}

/// Makes a database under a temporary name and gives it its own when `fill` is through.
fn create(
    output: &Path,
    force: bool,
    fill: impl FnOnce(&Connection) -> rusqlite::Result<Exported>,
) -> Result<Exported, Error> {
    let pending = PendingFile::create(output, force)?;
    let exported = in_transaction(pending.temporary_path(), fill)
        .map_err(|source| Error::Sqlite { path: output.to_owned(), source })?;
    pending.publish()?;
    Ok(exported)
}

fn in_transaction(
    path: &Path,
    fill: impl FnOnce(&Connection) -> rusqlite::Result<Exported>,
) -> rusqlite::Result<Exported> {
    // No SQLITE_OPEN_URI: a path is a path whatever it looks like.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut db = Connection::open_with_flags(path, flags)?;
    // The file has no name yet that anybody could read it by: no journal is needed.
    db.execute_batch(
        "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE; PRAGMA foreign_keys = OFF; PRAGMA temp_store = MEMORY",
    )?;
    let tx = db.transaction()?;
    let exported = fill(&tx)?;
    tx.commit()?;
    db.close().map_err(|(_, e)| e)?;
    Ok(exported)
}

fn fill(db: &Connection, trace: &Trace, selection: &Selection, progress: &Progress) -> rusqlite::Result<Exported> {
    let tables = Tables::new(trace.all_kinds());
    dictionaries::write(db, trace, selection)?;
    tables::write_schema(db, trace.all_kinds(), &tables)?;
    let exported = rows::write(db, trace, &tables, selection, progress)?;
    tables.create_indexes(db)?;
    states::write(db, trace, selection)?;
    let analysis = Analysis::new(trace, selection.window);
    verdicts::write(db, &analysis, selection)?;
    views::write(db, &tables, selection)?;
    if analysis.sampled() && views::has_figures(db)? {
        sampled::write(db, &analysis, selection)?;
    }
    // What the planner knows of the indexes makes it choose them.
    db.execute_batch("ANALYZE")?;
    progress.done();
    Ok(exported)
}

/// A stored word of 64 bits as SQLite's integer of the same bits.
fn integer(word: u64) -> i64 {
    word.cast_signed()
}

#[cfg(test)]
mod tests;
