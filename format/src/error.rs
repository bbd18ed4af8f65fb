//! What can go wrong, and whose fault it is.

use std::io;

/// An error of the format, with its place.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error("{what}: {cause}")]
    Io {
        /// What was being done, with the path or the offset.
        what: String,
        /// Its answer.
        cause: io::Error,
    },
    /// The file is something else.
    #[error("not an .igt file: {0}")]
    NotIgt(String),
    /// The file is of a version that this build does not read.
    #[error("{path}: version {found} of the format is not known here, the newest known is {known}; use a newer ingero")]
    Version {
        /// The file.
        path: String,
        /// Major version in the file.
        found: u16,
        /// Major version of this build.
        known: u16,
    },
    /// The bytes contradict themselves.
    #[error("{what} at offset {offset:#x}: {problem}; run ingero-replay verify to see what is lost")]
    Corrupt {
        /// Part of the file: a chunk, a column.
        what: String,
        /// Offset of the chunk.
        offset: u64,
        /// What does not fit, with the values.
        problem: String,
    },
    /// The file needs something that this build does not have.
    #[error("{what} at offset {offset:#x} is not known to this build; use a newer ingero")]
    Unsupported {
        /// The unknown part, by number or name.
        what: String,
        /// Offset of the chunk.
        offset: u64,
    },
    /// More than the format can carry was asked for.
    #[error("{0}")]
    Limit(String),
}

impl Error {
    pub(crate) fn io(what: impl Into<String>, cause: io::Error) -> Self {
        Self::Io { what: what.into(), cause }
    }

    pub(crate) fn corrupt(what: impl Into<String>, offset: u64, problem: impl Into<String>) -> Self {
        Self::Corrupt { what: what.into(), offset, problem: problem.into() }
    }

    /// Whether the disk had no room left.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        matches!(self, Self::Io { cause, .. } if matches!(cause.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
    }
}
