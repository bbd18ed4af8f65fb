//! Everyone who is alive, written down once more: a file that begins in the middle of a recording needs it.

use std::io::Write;

use ingero_format::{Error, TraceWriter};

use ingero_format::catalog::{NAMED_AT_START, Name};

use super::{At, Tasks, row};

impl Tasks {
    /// Writes the name of every thread and the row of every process, as they are known by now, in the order of their
    /// ids.
    ///
    /// # Errors
    /// When the file does not take the rows.
    pub fn write_roster<W: Write>(&self, out: &mut TraceWriter<W>, at: At) -> Result<(), Error> {
        let mut threads: Vec<_> = self.threads.iter().collect();
        threads.sort_unstable_by_key(|(_, thread)| thread.id);
        for (&tid, thread) in threads {
            if let Some(name) = thread.name {
                out.push(at.ts_ns, at.cpu, &Name { task: thread.id, name, source: NAMED_AT_START })?;
            }
            if tid == thread.pid
                && let Some(group) = self.groups.get(&tid)
            {
                out.push(at.ts_ns, at.cpu, &row(thread.id, group))?;
            }
        }
        Ok(())
    }
}
