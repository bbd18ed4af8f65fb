//! Whose ids the rows name: processes and threads.

use std::collections::HashMap;
use std::io::Write;

use ingero_format::catalog::TaskId;
use ingero_format::{Task, TraceWriter};

use super::database::{Database, Values};
use crate::error::Error;

/// The tasks of a database. Its kernel events name a thread as if it were a process; its calls and
/// exits name both, and what they say holds for all.
#[derive(Debug, Default)]
pub(super) struct People {
    /// Process of a thread; none where rows disagree.
    process_of: HashMap<u32, Option<u32>>,
    tasks: HashMap<(u32, u32), TaskId>,
}

impl People {
    pub(super) fn read(db: &Database) -> Result<Self, Error> {
        let mut this = Self::default();
        let sql = "SELECT max(rowid) AS row_id, pid, tid FROM events \
                   WHERE typeof(pid) = 'integer' AND typeof(tid) = 'integer' AND pid != tid GROUP BY pid, tid";
        db.each("events", sql, None, |row| {
            let row = Values(row);
            if let (Ok(pid), Ok(tid)) = (row.id("pid"), row.id("tid")) {
                this.process_of.entry(tid).and_modify(|p| *p = p.filter(|p| *p == pid)).or_insert(Some(pid));
            }
            Ok(())
        })?;
        Ok(this)
    }

    /// The task that a row names.
    pub(super) fn task<W: Write>(&mut self, writer: &mut TraceWriter<W>, pid: u32, tid: u32) -> TaskId {
        if tid == 0 {
            return TaskId(0);
        }
        let pid = if pid == tid { self.process_of.get(&tid).copied().flatten().unwrap_or(pid) } else { pid };
        *self.tasks.entry((pid, tid)).or_insert_with(|| writer.task(Task { pid, tid, start_ns: None }))
    }

    /// Whether a task leads its process, as far as is known.
    pub(super) fn leads(&self, tid: u32) -> bool {
        self.process_of.get(&tid).copied().flatten().is_none_or(|pid| pid == tid)
    }
}
