//! The database: what is asked of it, and how its values are taken.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row};

use crate::error::Error;

/// A database, opened for reading.
pub(super) struct Database {
    pub(super) connection: Connection,
    path: PathBuf,
}

/// Why a row was not taken.
#[derive(Debug)]
pub(super) enum Refusal {
    /// A value of the row is to blame.
    Value(String),
    /// The whole database is.
    Database(rusqlite::Error),
    /// The output is.
    Trace(ingero_format::Error),
}

impl From<rusqlite::Error> for Refusal {
    fn from(e: rusqlite::Error) -> Self {
        Self::Database(e)
    }
}

impl From<ingero_format::Error> for Refusal {
    fn from(e: ingero_format::Error) -> Self {
        Self::Trace(e)
    }
}

/// The bytes that a database has and those that its head counts, where there are fewer: SQLite itself says of it that something is
/// malformed.
fn lacking(path: &Path) -> io::Result<Option<(u64, u64)>> {
    const HEAD: usize = 100;
    let mut head = Vec::new();
    let file = File::open(path)?;
    let has = file.metadata()?.len();
    file.take(HEAD as u64).read_to_end(&mut head)?;
    if head.len() < HEAD {
        return Ok(Some((has, HEAD as u64)));
    }
    let word = |at: usize, len: usize| head[at..at + len].iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
    // Older versions of SQLite leave the count of pages as it was; then it is of another change than the last.
    let counts = word(24, 4) == word(92, 4);
    let page_bytes = if word(16, 2) == 1 { 1 << 16 } else { word(16, 2) };
    let due = page_bytes * word(28, 4);
    Ok((counts && has < due).then_some((has, due)))
}

impl Database {
    /// Opens a file. What it holds is not trusted: nothing in it is run.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let sqlite = |source| Error::Sqlite { path: path.to_owned(), source };
        if let Some((has, due)) = lacking(path).map_err(|e| Error::io(path.display().to_string(), e))? {
            let problem = format!("is cut: {has} of its {due} bytes are there, and its tables may be in any of them");
            return Err(Error::Input { path: path.to_owned(), problem });
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(address(path), flags).map_err(sqlite)?;
        connection
            .execute_batch("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA query_only = ON;")
            .map_err(sqlite)?;
        let this = Self { connection, path: path.to_owned() };
        for table in ["events", "sources", "ops"] {
            if this.columns(table)?.is_empty() {
                return Err(this.refuse(format!("is a SQLite database without a table {table:?}: not one of ingero")));
            }
        }
        Ok(this)
    }

    /// The columns of a table; none where there is no such table. Views and virtual tables are none.
    pub(super) fn columns(&self, table: &str) -> Result<BTreeSet<String>, Error> {
        let read = || -> rusqlite::Result<BTreeSet<String>> {
            let sql = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND rootpage > 0 AND name = ?1";
            let found: i64 = self.connection.query_row(sql, [table], |row| row.get(0))?;
            if found != 1 {
                return Ok(BTreeSet::new());
            }
            let mut list = self.connection.prepare("SELECT name FROM pragma_table_info(?1)")?;
            list.query_map([table], |row| row.get(0))?.collect()
        };
        read().map_err(|e| self.error(e))
    }

    /// Whether the table has rows.
    pub(super) fn count(&self, table: &str) -> Result<u64, Error> {
        if self.columns(table)?.is_empty() {
            return Ok(0);
        }
        let sql = format!("SELECT count(*) FROM {table}");
        let count: i64 = self.connection.query_row(&sql, [], |row| row.get(0)).map_err(|e| self.error(e))?;
        Ok(count.unsigned_abs())
    }

    /// Hands every row of a query to `take`, its first column being the row's id. A row with a value
    /// that cannot be is an error, unless `skipped` counts them. Returns how many rows there were.
    pub(super) fn each(
        &self,
        table: &str,
        sql: &str,
        mut skipped: Option<&mut u64>,
        mut take: impl FnMut(&Row) -> Result<(), Refusal>,
    ) -> Result<u64, Error> {
        let mut statement = self.connection.prepare(sql).map_err(|e| self.error(e))?;
        let mut rows = statement.query([]).map_err(|e| self.error(e))?;
        let mut count = 0;
        while let Some(row) = rows.next().map_err(|e| self.error(e))? {
            count += 1;
            match (take(row), &mut skipped) {
                (Ok(()), _) => {}
                (Err(Refusal::Value(_)), Some(skipped)) => **skipped += 1,
                (Err(Refusal::Value(problem)), None) => {
                    let id = row.get_ref(0).map_or_else(|_| "?".to_owned(), shown);
                    return Err(Error::Row { path: self.path.clone(), table: table.to_owned(), row: id, problem });
                }
                (Err(Refusal::Database(e)), _) => return Err(self.error(e)),
                (Err(Refusal::Trace(source)), _) => return Err(Error::Trace { path: self.path.clone(), source }),
            }
        }
        Ok(count)
    }

    pub(super) fn error(&self, source: rusqlite::Error) -> Error {
        Error::Sqlite { path: self.path.clone(), source }
    }

    pub(super) fn refuse(&self, problem: String) -> Error {
        Error::Input { path: self.path.clone(), problem }
    }
}

/// The file's address for SQLite. Only a log beside it makes SQLite look for one: else it would want to
/// write beside a database in that mode.
fn address(path: &Path) -> PathBuf {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let has_log = Path::new(&log).metadata().is_ok_and(|m| m.len() > 0);
    let mut address = b"file:".to_vec();
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => address.push(byte),
            other => address.extend_from_slice(format!("%{other:02X}").as_bytes()),
        }
    }
    address.extend_from_slice(if has_log { b"?mode=ro" } else { b"?immutable=1" });
    OsString::from_vec(address).into()
}

/// A value as messages show it.
fn shown(value: ValueRef) -> String {
    match value {
        ValueRef::Null => "NULL".to_owned(),
        ValueRef::Integer(n) => n.to_string(),
        ValueRef::Real(x) => x.to_string(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).chars().take(80).collect(),
        ValueRef::Blob(bytes) => format!("{} bytes", bytes.len()),
    }
}

/// The values of a row, by the names that the query gives them.
pub(super) struct Values<'r, 's>(pub(super) &'r Row<'s>);

impl<'r> Values<'r, '_> {
    fn value(&self, name: &str) -> Result<ValueRef<'r>, Refusal> {
        Ok(self.0.get_ref(name)?)
    }

    fn wrong(name: &str, expected: &str, found: ValueRef) -> Refusal {
        Refusal::Value(format!("column {name}: expected {expected}, found {:?}", shown(found)))
    }

    /// A whole number.
    pub(super) fn integer(&self, name: &str) -> Result<i64, Refusal> {
        match self.value(name)? {
            ValueRef::Integer(n) => Ok(n),
            other => Err(Self::wrong(name, "a whole number", other)),
        }
    }

    /// A whole number from 0 up.
    pub(super) fn count(&self, name: &str) -> Result<u64, Refusal> {
        match self.value(name)? {
            ValueRef::Integer(n @ 0..) => Ok(n.unsigned_abs()),
            other => Err(Self::wrong(name, "a whole number from 0 up", other)),
        }
    }

    /// A process or thread id.
    pub(super) fn id(&self, name: &str) -> Result<u32, Refusal> {
        let id = self.count(name)?;
        u32::try_from(id).map_err(|_| Self::wrong(name, "a process or thread id", ValueRef::Integer(id.cast_signed())))
    }

    /// A number from 0 up, in parts of which `scale` make one.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "held against its bounds before")]
    #[expect(clippy::cast_precision_loss, reason = "a measured share or load, not a count")]
    pub(super) fn scaled(&self, name: &str, scale: f64) -> Result<u64, Refusal> {
        let value = self.value(name)?;
        let number = match value {
            ValueRef::Integer(n) => n as f64 * scale,
            ValueRef::Real(x) => x * scale,
            other => return Err(Self::wrong(name, "a number", other)),
        };
        if (0.0..1e18).contains(&number) {
            Ok(number.round() as u64)
        } else {
            Err(Self::wrong(name, "a number from 0 up", value))
        }
    }

    /// A text; bytes that are none are shown as escapes.
    pub(super) fn text(&self, name: &str) -> Result<String, Refusal> {
        match self.value(name)? {
            ValueRef::Text(text) => Ok(String::from_utf8_lossy(text).into_owned()),
            ValueRef::Null => Ok(String::new()),
            other => Err(Self::wrong(name, "a text", other)),
        }
    }

    /// The whole row as a JSON object, without the columns named `row_id`.
    pub(super) fn object(&self) -> Result<String, Refusal> {
        let mut object = serde_json::Map::new();
        let statement = self.0.as_ref();
        for (at, name) in statement.column_names().enumerate().filter(|(_, name)| *name != "row_id") {
            let value = match self.0.get_ref(at)? {
                ValueRef::Null => serde_json::Value::Null,
                ValueRef::Integer(n) => n.into(),
                ValueRef::Real(x) => x.into(),
                ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned().into(),
                other @ ValueRef::Blob(_) => return Err(Self::wrong(name, "a text or number", other)),
            };
            object.insert(name.to_owned(), value);
        }
        Ok(serde_json::Value::Object(object).to_string())
    }
}
