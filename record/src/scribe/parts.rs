//! What it takes to end one file and begin another in the middle of a recording.

use std::io::Write;

use ingero_format::catalog::{Kind, NO_CPU};
use ingero_format::{Error, TraceWriter};

use super::Scribe;
use crate::calls::CallRow;
use crate::proc::clock::{monotonic_ns, read_anchor};
use crate::tasks::At;

/// Reads the clocks and writes the reading into the file at once, as its first block: cut off anywhere behind it, the file still says
/// when it was.
///
/// # Errors
/// When the file does not take it.
pub fn write_clocks<W: Write>(out: &mut TraceWriter<W>) -> Result<(), Error> {
    let (ts_ns, clock) = read_anchor();
    out.push(ts_ns, NO_CPU, &clock)?;
    out.seal_kind(Kind::Clock)
}

/// The longest call since somebody asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Slowest {
    /// How long it took.
    pub dur_ns: u64,
    /// Its number in the table of functions.
    pub function: usize,
}

impl<W: Write> Scribe<W> {
    /// Writes into the file which calls are open and were not written down yet.
    ///
    /// # Errors
    /// When the file does not take them.
    pub fn tell_open(&mut self) -> Result<(), Error> {
        let Self { calls, out, tasks, meanings, .. } = self;
        let mut result = Ok(());
        calls.tell_open(u64::MAX, |row| {
            if result.is_ok() {
                result = meanings.write_alone(out, tasks, &row);
            }
        });
        result
    }

    /// Writes what a file needs that begins here: who is alive, the clocks, and the calls that are open, with the times
    /// at which they began.
    ///
    /// # Errors
    /// When the file does not take the rows.
    pub fn begin_part(&mut self, now_ns: u64) -> Result<(), Error> {
        self.write_roster(now_ns)?;
        self.calls.forget_told();
        self.tell_open()
    }

    /// Writes down the clocks, and who is alive.
    ///
    /// # Errors
    /// When the file does not take the rows.
    pub fn write_roster(&mut self, now_ns: u64) -> Result<(), Error> {
        write_clocks(&mut self.out)?;
        self.tasks.write_roster(&mut self.out, At { ts_ns: now_ns, cpu: NO_CPU })?;
        self.sample_machine(monotonic_ns())
    }

    /// The calls that are open, as rows for a file that shares the ids of this one.
    pub fn open_rows(&mut self) -> Vec<CallRow> {
        let mut rows = self.calls.open_rows();
        rows.retain_mut(|row| {
            let named = self.meanings.named(&mut self.out, &self.tasks, &row.call);
            row.call = named.unwrap_or(row.call);
            named.is_some()
        });
        rows
    }

    /// The longest call that ended since the last time this was asked.
    pub fn take_slowest(&mut self) -> Slowest {
        std::mem::take(&mut self.counts.slowest)
    }

    /// Whether a process is one of those that were asked for.
    #[must_use]
    pub fn is_followed(&self, pid: u32) -> bool {
        self.tasks.is_followed(pid)
    }
}
