//! Which part of a trace is converted.

use ingero_format::Trace;
use ingero_format::catalog::{Kind, TaskId};
use ingero_replay::{Hosts, Merge, Process, Processes, Window};

/// What a person asked to leave out, beside the range of time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cut {
    /// Processes to convert; none given are all.
    pub pids: Vec<u32>,
    /// Kinds of events to convert, by name; none given are all.
    pub only: Vec<String>,
    /// Shortest call or state to convert.
    pub min_duration_ns: u64,
}

/// A range of time, a choice of processes, kinds and lengths.
#[derive(Debug, Clone)]
pub struct Selection {
    pub(crate) window: Window,
    /// By task: whether it is shown; all are where this is none.
    tasks: Option<Vec<bool>>,
    /// Numbers of the kinds that are shown; all are where this is none.
    kinds: Option<Vec<u16>>,
    pub(crate) min_duration_ns: u64,
}

impl Selection {
    /// The whole trace.
    #[must_use]
    pub fn whole(trace: &Trace) -> Self {
        Self { window: Window::whole(trace), tasks: None, kinds: None, min_duration_ns: 0 }
    }

    /// A range, and what is cut out of it.
    ///
    /// # Errors
    /// A sentence for the person, where a process or a kind is not in the trace.
    pub fn new(trace: &Trace, window: Window, cut: &Cut) -> Result<Self, String> {
        let kinds = (!cut.only.is_empty()).then(|| kinds(trace, &cut.only)).transpose()?;
        let tasks = (!cut.pids.is_empty()).then(|| tasks(trace, &cut.pids)).transpose()?;
        Ok(Self { window, tasks, kinds, min_duration_ns: cut.min_duration_ns })
    }

    /// Whether nothing is left out.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        !self.window.is_cut() && self.tasks.is_none() && self.kinds.is_none() && self.min_duration_ns == 0
    }

    /// Whether a task is shown.
    pub(crate) fn shows(&self, task: TaskId) -> bool {
        self.tasks.as_ref().is_none_or(|t| t.get(task.index()).copied().unwrap_or(false))
    }

    /// Whether the tasks of all processes are shown, and with them what belongs to none.
    pub(crate) fn shows_all(&self) -> bool {
        self.tasks.is_none()
    }

    /// Whether a kind is shown, by its number.
    pub(crate) fn takes(&self, kind: u16) -> bool {
        self.kinds.as_ref().is_none_or(|k| k.contains(&kind))
    }

    /// Whether what is made of a kind is shown.
    pub(crate) fn takes_kind(&self, kind: Kind) -> bool {
        self.takes(kind as u16)
    }

    /// Whether figures of a kind can be taken from what is shown: all events of it are there, short ones too.
    pub(crate) fn counts(&self, kind: Kind) -> bool {
        self.takes_kind(kind) && self.min_duration_ns == 0
    }

    /// Whether what the analysis says of a process is shown: its phases and incidents are made of calls.
    pub(crate) fn shows_verdicts(&self, process: &Process) -> bool {
        self.takes_kind(Kind::Call) && self.shows_process(process)
    }

    /// Whether a process is shown: one of its threads is.
    pub(crate) fn shows_process(&self, process: &Process) -> bool {
        process.threads.iter().any(|&task| self.shows(task))
    }

    /// Whether a stretch of a thread's state is shown, as it is after [`Self::clip`].
    pub(crate) fn shows_state(&self, (from, to): (u64, u64)) -> bool {
        to > from && to - from >= self.min_duration_ns
    }

    /// The part of a span that is shown.
    pub(crate) fn clip(&self, span: (u64, u64)) -> (u64, u64) {
        (span.0.max(self.window.from_ns), span.1.min(self.window.to_ns))
    }

    /// Whether anything of a span is shown. Outside of a trace's span there are only things that
    /// belong to all of it.
    pub(crate) fn touches(&self, span: (u64, u64)) -> bool {
        !self.window.is_cut() || (span.1 >= self.window.from_ns && span.0 < self.window.to_ns)
    }

    /// Whether a call is shown, which belongs to the range that its entry is in.
    pub(crate) fn shows_call(&self, at_ns: u64, dur_ns: Option<u64>, task: TaskId) -> bool {
        let long = dur_ns.is_none_or(|ns| ns >= self.min_duration_ns);
        long && self.takes_kind(Kind::Call) && self.touches((at_ns, at_ns)) && self.shows(task)
    }
}

fn kinds(trace: &Trace, only: &[String]) -> Result<Vec<u16>, String> {
    let mut numbers = Vec::new();
    for name in only {
        let Some(kind) = trace.all_kinds().iter().find(|k| k.name == *name) else {
            let known: Vec<_> = trace.all_kinds().iter().map(|k| k.name.as_str()).collect();
            return Err(format!("no kind of event {name:?} in {}; there are {}", trace.path(), known.join(", ")));
        };
        numbers.push(kind.number);
    }
    Ok(numbers)
}

fn tasks(trace: &Trace, pids: &[u32]) -> Result<Vec<bool>, String> {
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
    Ok(tasks)
}

/// Of whom the trace tells states at all, by one context switch of their host that can be read: what is 0 without is not known.
pub(crate) struct KnownStates {
    /// Of a recording of one host.
    all: bool,
    /// By task, in a recording of several.
    by_task: Vec<bool>,
}

impl KnownStates {
    pub(crate) fn new(trace: &Trace) -> Self {
        let hosts = Hosts::new(trace);
        let mut seen = vec![false; hosts.count()];
        let mut switches = Merge::rows(trace, |kind| kind == Kind::Switch as u16).columns(&[]);
        while seen.contains(&false)
            && let Some(row) = switches.next_row()
        {
            if let Some(seen) = seen.get_mut(hosts.of_cpu(row.cpu)) {
                *seen = true;
            }
        }
        let tasks = (0..).map(TaskId).zip(trace.tasks()).map(|(id, _)| id);
        let of = |task: TaskId| seen.get(hosts.of_task(trace, task)).is_some_and(|&seen| seen);
        let by_task = if hosts.are_several() { tasks.map(of).collect() } else { Vec::new() };
        Self { all: seen.contains(&true), by_task }
    }

    /// Whether anything is known of when this thread ran and when it waited.
    pub(crate) fn of(&self, task: TaskId) -> bool {
        self.by_task.get(task.index()).copied().unwrap_or(self.all)
    }
}

/// Whether a kind describes what others name: it is converted whatever is cut.
pub(crate) fn describes(kind: u16) -> bool {
    Kind::from_number(kind).is_some_and(|k| matches!(k, Kind::Name | Kind::Process | Kind::Clock))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ingero_replay::fixture::Fixture;

    #[test]
    fn what_is_not_there_is_refused_with_what_is() {
        let mut f = Fixture::new();
        let (main, _) = (f.task(7, 7), f.task(7, 8));
        f.switch(10, 0, main, 1, TaskId(0));
        let trace = f.finish();
        let new = |pids: &[u32], only: &[&str]| {
            let only = only.iter().map(|s| (*s).to_owned()).collect();
            Selection::new(&trace, Window::whole(&trace), &Cut { pids: pids.to_vec(), only, min_duration_ns: 0 })
        };
        assert!(new(&[8], &[]).unwrap_err().contains("use --pid 7"));
        assert!(new(&[9], &[]).unwrap_err().contains("no process 9"));
        assert!(new(&[], &["calls"]).unwrap_err().contains("sched_switch, sched_waking"));
        let cut = new(&[7], &["call"]).unwrap();
        assert!(cut.shows(main) && cut.takes_kind(Kind::Call) && !cut.takes_kind(Kind::Switch) && !cut.is_whole());
    }
}
