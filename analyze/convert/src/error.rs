//! What can go wrong, and whose fault it is.

use std::io;
use std::path::PathBuf;

use ingero_replay::output::OutputError;

/// An error of a conversion, with its place.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error("{what}: {source}")]
    Io {
        /// What was being done, with the path.
        what: String,
        /// Its answer.
        #[source]
        source: io::Error,
    },
    /// The input is nothing that can be converted.
    #[error("{path}: {problem}")]
    Input {
        /// Path of the input.
        path: PathBuf,
        /// What it is instead, and what to do.
        problem: String,
    },
    /// A line of a text input does not have the form that it has to have.
    #[error("{path}:{line}: {problem}: {text:?}; correct or remove the line, or count bad lines with --keep-going")]
    Line {
        /// Path of the input.
        path: PathBuf,
        /// Line number, from 1.
        line: u64,
        /// What does not fit.
        problem: String,
        /// The line, shortened.
        text: String,
    },
    /// A row of a database has a value that it cannot have.
    #[error(
        "{path}: table {table}, row {row}: {problem}; correct or delete the row, or count bad rows with --keep-going"
    )]
    Row {
        /// Path of the database.
        path: PathBuf,
        /// Its table.
        table: String,
        /// The row's id.
        row: String,
        /// What does not fit.
        problem: String,
    },
    /// The output is there already.
    #[error("{0} exists; choose another name with -o, or overwrite it with --force")]
    Exists(PathBuf),
    /// The output is what is read.
    #[error("{0}: is what is read, and would be lost; choose another name")]
    Read(PathBuf),
    /// The `.igt` file could not be read or written.
    #[error("{path}: {source}")]
    Trace {
        /// Path of the file.
        path: PathBuf,
        /// What the format says.
        #[source]
        source: ingero_format::Error,
    },
    /// A Parquet file could not be written.
    #[error("{path}: {source}")]
    Parquet {
        /// Path of the file.
        path: PathBuf,
        /// What the writer says.
        #[source]
        source: parquet::errors::ParquetError,
    },
    /// SQLite refused.
    #[error("{path}: {source}")]
    Sqlite {
        /// Path of the database.
        path: PathBuf,
        /// Its answer.
        #[source]
        source: rusqlite::Error,
    },
}

impl Error {
    pub(crate) fn io(what: impl Into<String>, source: io::Error) -> Self {
        Self::Io { what: what.into(), source }
    }
}

impl From<OutputError> for Error {
    fn from(error: OutputError) -> Self {
        match error {
            OutputError::Exists(path) => Self::Exists(path),
            OutputError::Input(path) => Self::Read(path),
            OutputError::Io { what, source } => Self::Io { what, source },
        }
    }
}
