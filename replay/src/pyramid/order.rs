//! The order in which rows are worth looking at.

use std::cmp::Reverse;

use ingero_format::catalog::TaskId;

use super::Pyramid;
use crate::processes::{ProcessId, Processes};

/// The rows of one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The process.
    pub process: ProcessId,
    /// Its threads: the main thread, then the others from the busiest on.
    pub threads: Vec<TaskId>,
}

impl Pyramid {
    /// All threads by process. First come the processes with calls, then what the recording followed, then all others; of each kind
    /// those that were longest on a CPU first.
    #[must_use]
    pub fn groups(&self, processes: &Processes) -> Vec<Group> {
        let (from_ns, to_ns) = self.span_ns();
        let mut rows: Vec<_> = self
            .tasks()
            .map(|task| {
                let cell = self.cell(task, from_ns, to_ns);
                (processes.of(task), task, cell.running_ns, cell.call_ns)
            })
            .filter(|(process, ..)| *process != ProcessId::IDLE)
            .collect();
        rows.sort_by_key(|&(process, task, running_ns, call_ns)| {
            let leads = processes.get(process).leader == Some(task);
            (process, !leads, Reverse(running_ns), Reverse(call_ns), task)
        });
        let mut groups: Vec<_> = rows
            .chunk_by(|a, b| a.0 == b.0)
            .filter_map(|rows| {
                let process = rows.first()?.0;
                let running_ns = rows.iter().fold(0, |sum: u64, row| sum.saturating_add(row.2));
                let rank =
                    (rows.iter().all(|row| row.3 == 0), !processes.get(process).followed, Reverse(running_ns), process);
                Some((rank, Group { process, threads: rows.iter().map(|row| row.1).collect() }))
            })
            .collect();
        groups.sort_by_key(|(rank, _)| *rank);
        groups.into_iter().map(|(_, group)| group).collect()
    }
}
