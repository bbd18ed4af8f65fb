//! What rows say of a task: its ids, its name and its process's at a moment.

use ingero_format::Trace;
use ingero_format::catalog::TaskId;
use ingero_replay::{ProcessId, Processes};

use super::words::{Word, Words};

/// All tasks of a trace, looked up once.
pub(super) struct Tasks<'s, 't> {
    processes: &'s Processes,
    words: &'s Words<'t>,
    all: Vec<Task>,
}

/// A task, as far as it stays the same.
#[derive(Clone, Copy)]
pub(super) struct Task {
    pub(super) pid: u32,
    pub(super) tid: u32,
    pub(super) process: ProcessId,
    name: Name,
    process_name: Name,
}

#[derive(Clone, Copy)]
enum Name {
    /// The same at all times.
    Always(Option<Word>),
    Changes,
}

impl<'s, 't> Tasks<'s, 't> {
    pub(super) fn new(trace: &'t Trace, processes: &'s Processes, words: &'s Words<'t>) -> Self {
        // A name may be noted again and again without changing.
        let steady = |task| {
            let names = processes.names(task);
            names.first().is_none_or(|(_, first)| names.iter().all(|(_, name)| name == first))
        };
        let name = |task| match processes.names(task).first() {
            _ if !steady(task) => Name::Changes,
            first => Name::Always(first.map(|(_, name)| words.string(*name))),
        };
        // The first process is the idle one, which has no name.
        let mut of_process = vec![Name::Always(None)];
        of_process.extend(processes.iter().map(|(id, p)| {
            // The leader's name, else that of any thread which has one.
            let named = |task: &&TaskId| !processes.names(**task).is_empty();
            let names = p.leader.iter().chain(&p.threads).find(named);
            if names.is_none_or(|&task| steady(task)) {
                Name::Always(processes.process_name_at(id, 0).map(|n| words.string(n)))
            } else {
                Name::Changes
            }
        }));
        let task = |(id, task): (u32, &ingero_format::Task)| {
            let process = processes.of(TaskId(id));
            let process_name = of_process.get(process.index()).copied().unwrap_or(Name::Always(None));
            Task { pid: task.pid, tid: task.tid, process, name: name(TaskId(id)), process_name }
        };
        Self { processes, words, all: (0..).zip(trace.tasks()).map(task).collect() }
    }

    /// A task; the idle one where there is none of that number.
    pub(super) fn get(&self, task: TaskId) -> Task {
        let idle = Name::Always(None);
        let none = Task { pid: 0, tid: 0, process: ProcessId::IDLE, name: idle, process_name: idle };
        self.all.get(task.index()).copied().unwrap_or(none)
    }

    /// Its name at a moment.
    pub(super) fn name(&self, task: TaskId, ts_ns: u64) -> Option<Word> {
        match self.get(task).name {
            Name::Always(name) => name,
            Name::Changes => self.processes.name_at(task, ts_ns).map(|id| self.words.string(id)),
        }
    }

    /// The name of its process at a moment.
    pub(super) fn process_name(&self, task: TaskId, ts_ns: u64) -> Option<Word> {
        let task = self.get(task);
        match task.process_name {
            Name::Always(name) => name,
            Name::Changes => self.processes.process_name_at(task.process, ts_ns).map(|id| self.words.string(id)),
        }
    }
}

/// What the columns of every table need.
pub(super) struct Common<'s, 't> {
    pub(super) tasks: Tasks<'s, 't>,
    pub(super) words: &'s Words<'t>,
    pub(super) clock: UnixClock,
    pub(super) run: Word,
}

/// From the trace's clock to Unix time, where known.
#[derive(Debug, Clone, Copy)]
pub(super) struct UnixClock {
    pub(super) offset_ns: Option<i128>,
}

impl UnixClock {
    /// A moment as Unix nanoseconds.
    pub(super) fn at(self, ns: u64) -> Option<i64> {
        i64::try_from(i128::from(ns) + self.offset_ns?).ok()
    }
}
