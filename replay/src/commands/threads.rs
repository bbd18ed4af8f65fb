//! What threads are called in what the commands print.

use ingero_format::Trace;
use ingero_format::catalog::TaskId;
use ingero_format::one_line;
use ingero_replay::Processes;

/// The threads of a trace.
pub(super) struct Threads<'t> {
    pub(super) trace: &'t Trace,
    pub(super) processes: Processes,
}

impl<'t> Threads<'t> {
    /// Name of a thread at a moment.
    pub(super) fn name(&self, task: TaskId, ts_ns: u64) -> Option<&'t str> {
        self.processes.name_at(task, ts_ns).map(|name| self.trace.string(name))
    }

    /// A thread by the name of the moment: `python3[41]`, `python3[41/44]` (process, thread).
    pub(super) fn label(&self, task: TaskId, ts_ns: u64) -> String {
        let t = self.trace.task(task);
        let name = one_line(self.name(task, ts_ns).unwrap_or_default());
        match (t.tid, t.pid == t.tid) {
            (0, _) => "idle".to_owned(),
            (tid, true) => format!("{name}[{tid}]"),
            (tid, false) => format!("{name}[{}/{tid}]", t.pid),
        }
    }
}
