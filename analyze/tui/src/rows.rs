//! The rows of the picture: CPUs, processes, threads.

use std::collections::BTreeMap;

use ingero_format::Trace;
use ingero_format::catalog::TaskId;
use ingero_format::one_line;
use ingero_replay::pyramid::{Group, Pyramid};
use ingero_replay::{ProcessId, Processes};

/// What a row is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Row {
    /// All CPUs.
    Cpus,
    /// Who is on a CPU.
    Cpu(u32),
    /// A process, by its place among the groups.
    Process(usize),
    /// A thread, with its process.
    Thread(usize, TaskId),
}

/// Lanes of calls that an unfolded thread has at most, outermost first.
pub(crate) const MAX_LANES: u16 = 3;
/// Processes with more threads than this are folded at first, unless calls are recorded of them.
const MANY_THREADS: usize = 8;
/// Processes that are unfolded at first, at most.
const UNFOLDED: usize = 4;

/// All rows, and which of them are shown.
pub(crate) struct Rows<'t> {
    trace: &'t Trace,
    pub(crate) processes: &'t Processes,
    pub(crate) groups: Vec<Group>,
    cpus: Vec<u32>,
    folded: Vec<bool>,
    cpus_folded: bool,
    /// Lanes of calls above a thread.
    lanes: BTreeMap<TaskId, u16>,
    shown: Vec<Row>,
}

impl<'t> Rows<'t> {
    /// The rows of some processes, or of all where `pids` names none.
    pub(crate) fn new(trace: &'t Trace, processes: &'t Processes, pyramid: &Pyramid, pids: &[u32]) -> Self {
        let mut groups = pyramid.groups(processes);
        groups.retain(|group| pids.is_empty() || pids.contains(&processes.get(group.process).pid));
        let calls = |group: &Group| group.threads.iter().any(|&task| pyramid.has_calls(task));
        let mut left = UNFOLDED;
        let folded = groups
            .iter()
            .map(|group| {
                let followed = processes.get(group.process).followed || !pids.is_empty();
                let open = left > 0 && (calls(group) || followed && group.threads.len() <= MANY_THREADS);
                left -= usize::from(open);
                !open
            })
            .collect();
        let callers = groups.iter().flat_map(|group| &group.threads).filter(|&&task| pyramid.has_calls(task));
        let lanes = callers.map(|&task| (task, 1)).collect();
        let cpus = pyramid.cpus().collect();
        let mut this = Self { trace, processes, groups, cpus, folded, cpus_folded: true, lanes, shown: Vec::new() };
        if this.folded.iter().all(|&folded| folded)
            && let Some(first) = this.folded.first_mut()
        {
            *first = false;
        }
        this.show();
        this
    }

    fn show(&mut self) {
        self.shown.clear();
        if !self.cpus.is_empty() {
            self.shown.push(Row::Cpus);
            if !self.cpus_folded {
                self.shown.extend(self.cpus.iter().map(|&cpu| Row::Cpu(cpu)));
            }
        }
        for (at, group) in self.groups.iter().enumerate() {
            self.shown.push(Row::Process(at));
            if self.folded.get(at) == Some(&false) {
                self.shown.extend(group.threads.iter().map(|&task| Row::Thread(at, task)));
            }
        }
    }

    /// Rows that are shown.
    pub(crate) fn shown(&self) -> &[Row] {
        &self.shown
    }

    /// The row that is best looked at first: the first thread.
    pub(crate) fn first(&self) -> usize {
        self.shown.iter().position(|row| matches!(row, Row::Thread(..))).unwrap_or(0)
    }

    /// Whether a row's parts are hidden.
    pub(crate) fn is_folded(&self, row: Row) -> bool {
        match row {
            Row::Cpus => self.cpus_folded,
            Row::Process(at) => self.folded.get(at).copied().unwrap_or(false),
            _ => false,
        }
    }

    /// Lanes of calls above a row.
    pub(crate) fn lanes(&self, row: Row) -> u16 {
        match row {
            Row::Thread(_, task) => self.lanes.get(&task).copied().unwrap_or(0),
            _ => 0,
        }
    }

    /// Lines that a row takes.
    pub(crate) fn height(&self, row: Row) -> u16 {
        1 + self.lanes(row)
    }

    /// Folds or unfolds a process or the CPUs; of a thread, changes how much is shown of its calls.
    pub(crate) fn toggle(&mut self, row: Row) {
        match row {
            Row::Cpus => self.cpus_folded = !self.cpus_folded,
            Row::Cpu(_) => self.cpus_folded = true,
            Row::Process(at) => {
                if let Some(folded) = self.folded.get_mut(at) {
                    *folded = !*folded;
                }
            }
            Row::Thread(_, task) => {
                if let Some(lanes) = self.lanes.get_mut(&task) {
                    *lanes = match *lanes {
                        0 => 1,
                        1 => MAX_LANES,
                        _ => 0,
                    };
                }
            }
        }
        self.show();
    }

    /// Shows a thread's row, unfolding its process; its place among those shown.
    pub(crate) fn reveal(&mut self, task: TaskId) -> Option<usize> {
        let process = self.groups.iter().position(|group| group.threads.contains(&task))?;
        if let Some(folded) = self.folded.get_mut(process)
            && *folded
        {
            *folded = false;
            self.show();
        }
        self.shown.iter().position(|row| matches!(row, Row::Thread(_, t) if *t == task))
    }

    /// The place of a row, or of the one that it is hidden in.
    pub(crate) fn place(&self, row: Row) -> usize {
        let hidden_in = match row {
            Row::Thread(at, _) => Row::Process(at),
            Row::Cpu(_) => Row::Cpus,
            row => row,
        };
        let place = |wanted: Row| self.shown.iter().position(|&row| row == wanted);
        place(row).or_else(|| place(hidden_in)).unwrap_or(0)
    }

    /// The name of a thread at a moment, fit for a terminal.
    pub(crate) fn thread_name(&self, task: TaskId, at_ns: u64) -> String {
        let name = self.processes.name_at(task, at_ns).map_or("?", |name| self.trace.string(name));
        one_line(name)
    }

    fn process_name(&self, process: ProcessId, at_ns: u64) -> String {
        let name = self.processes.process_name_at(process, at_ns).map_or("?", |name| self.trace.string(name));
        one_line(name)
    }

    /// A process by name and id.
    pub(crate) fn process_label(&self, process: ProcessId, at_ns: u64) -> String {
        format!("{} ({})", self.process_name(process, at_ns), self.processes.get(process).pid)
    }

    /// A thread by name and id, as sentences use them; a helper's process is named too.
    pub(crate) fn thread_label(&self, task: TaskId, at_ns: u64) -> String {
        let t = self.trace.task(task);
        if t.tid == 0 {
            return "nobody".to_owned();
        }
        let own = format!("{} ({})", self.thread_name(task, at_ns), t.tid);
        if t.pid == t.tid {
            return own;
        }
        format!("{own} of {}", self.process_label(self.processes.of(task), at_ns))
    }

    /// Threads that a text names, by any of their names or their process's, or by an id, in the order of the rows.
    pub(crate) fn find(&self, text: &str) -> Vec<TaskId> {
        let wanted = text.to_lowercase();
        let id: Option<u32> = text.parse().ok();
        let named = |task: TaskId| {
            let mut names = self.processes.names(task).iter();
            names.any(|&(_, name)| self.trace.string(name).to_lowercase().contains(&wanted))
        };
        let mut found = Vec::new();
        for group in &self.groups {
            let process = self.processes.get(group.process);
            // A process is found by its main thread, which is its first row.
            for (at, &task) in group.threads.iter().enumerate() {
                let whole = at == 0 && (id == Some(process.pid) || process.leader.is_some_and(named));
                if whole || named(task) || id == Some(self.trace.task(task).tid) {
                    found.push(task);
                }
            }
        }
        found
    }
}
