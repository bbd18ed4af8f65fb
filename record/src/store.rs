//! Where the bytes of a recording go: into a file, or into memory that holds the last while of it.

use std::io::{self, Write};
use std::sync::atomic::Ordering;

use ingero_format::{Recent, TraceWriter};

use crate::output::Output;

/// What a recording is written to.
#[derive(Debug)]
pub enum Store {
    /// A file.
    File(Output),
    /// The last while, in memory.
    Recent(Recent),
}

impl Store {
    /// Whether the file system has no more room than what was reserved.
    #[must_use]
    pub fn is_full(&self) -> bool {
        match self {
            Self::File(output) => output.full().load(Ordering::Relaxed),
            Self::Recent(_) => false,
        }
    }

    /// Gives back what was reserved and not needed.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn trim(&self) -> io::Result<()> {
        match self {
            Self::File(output) => output.trim(),
            Self::Recent(_) => Ok(()),
        }
    }

    /// The memory, if it is that.
    pub fn recent(&mut self) -> Option<&mut Recent> {
        match self {
            Self::Recent(recent) => Some(recent),
            Self::File(_) => None,
        }
    }
}

impl Write for Store {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(output) => output.write(bytes),
            Self::Recent(recent) => recent.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File(output) => output.flush(),
            Self::Recent(recent) => recent.flush(),
        }
    }
}

/// The writer of a recording.
pub type Writer = TraceWriter<Store>;
