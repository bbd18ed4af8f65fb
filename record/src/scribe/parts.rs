//! What it takes to end one file and begin another in the middle of a recording.

use std::io::Write;

use ingero_format::Error;
use ingero_format::catalog::NO_CPU;

use super::Scribe;
use crate::calls::CallRow;
use crate::tasks::At;

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

    /// Writes down who is alive, and the clocks.
    ///
    /// # Errors
    /// When the file does not take the rows.
    pub fn write_roster(&mut self, now_ns: u64) -> Result<(), Error> {
        self.tasks.write_roster(&mut self.out, At { ts_ns: now_ns, cpu: NO_CPU })?;
        self.sample()
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
