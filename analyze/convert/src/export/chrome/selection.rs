//! Which part of a trace is shown.

use ingero_format::Trace;
use ingero_format::catalog::TaskId;
use ingero_replay::{Processes, Window};

/// A range of time, and perhaps a choice of processes.
#[derive(Debug, Clone)]
pub struct Selection {
    pub(super) window: Window,
    /// By task: whether it is shown; all are where this is none.
    tasks: Option<Vec<bool>>,
}

impl Selection {
    /// The whole trace.
    #[must_use]
    pub fn whole(trace: &Trace) -> Self {
        Self { window: Window::whole(trace), tasks: None }
    }

    /// A range, and processes by their ids; none given are all.
    ///
    /// # Errors
    /// A sentence for the person, where a process is not in the trace.
    pub fn new(trace: &Trace, window: Window, pids: &[u32]) -> Result<Self, String> {
        if pids.is_empty() {
            return Ok(Self { window, tasks: None });
        }
        let processes = Processes::new(trace);
        let mut tasks = vec![false; trace.tasks().len()];
        for &pid in pids {
            let lives = processes.with_pid(pid);
            if lives.is_empty() {
                let path = trace.path();
                return Err(match trace.tasks().iter().find(|t| t.tid == pid && t.tid != 0) {
                    Some(thread) => format!("{pid} is a thread of process {} in {path}; use --pid {0}", thread.pid),
                    None => format!("no process {pid} in {path}"),
                });
            }
            for task in lives.iter().flat_map(|life| &processes.get(*life).threads) {
                if let Some(shown) = tasks.get_mut(task.index()) {
                    *shown = true;
                }
            }
        }
        Ok(Self { window, tasks: Some(tasks) })
    }

    /// Whether a task is shown.
    pub(super) fn shows(&self, task: TaskId) -> bool {
        self.tasks.as_ref().is_none_or(|t| t.get(task.index()).copied().unwrap_or(false))
    }

    /// The part of a span that is shown.
    pub(super) fn clip(&self, span: (u64, u64)) -> (u64, u64) {
        (span.0.max(self.window.from_ns), span.1.min(self.window.to_ns))
    }

    /// Whether anything of a span is shown. Outside of a trace's span there are only things that
    /// belong to all of it.
    pub(super) fn touches(&self, span: (u64, u64)) -> bool {
        !self.window.is_cut() || (span.1 >= self.window.from_ns && span.0 < self.window.to_ns)
    }
}
