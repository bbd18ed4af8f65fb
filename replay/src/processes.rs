//! Which process a task belongs to, and what tasks and processes were called when.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ingero_format::Trace;
use ingero_format::catalog::{Body, Kind, StrId, TaskId};

use crate::merge::Merge;

/// A process of the trace: one life of one thread group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(pub u32);

impl ProcessId {
    /// The idle tasks' process, which is none.
    pub const IDLE: ProcessId = ProcessId(0);

    /// The number as an index.
    #[must_use]
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What is known of a process.
#[derive(Debug, Clone, Default)]
pub struct Process {
    /// Its id, which an earlier or later process may share.
    pub pid: u32,
    /// Its main thread, where it was seen.
    pub leader: Option<TaskId>,
    /// All its threads, in order of their first appearance.
    pub threads: Vec<TaskId>,
    /// Process id of its parent.
    pub parent_pid: Option<u32>,
    /// Its parent, where that is in the trace.
    pub parent: Option<ProcessId>,
    /// Executable.
    pub exe: Option<StrId>,
    /// Command line.
    pub args: Option<StrId>,
    /// Whether the recording was asked to follow it.
    pub followed: bool,
}

/// The processes and names of a trace.
#[derive(Debug)]
pub struct Processes {
    processes: Vec<Process>,
    by_task: Vec<ProcessId>,
    names: HashMap<TaskId, Vec<(u64, StrId)>>,
    /// When threads exited, as far as that was recorded.
    exits: HashMap<TaskId, u64>,
    /// By process: whom it begot.
    children: Vec<Vec<ProcessId>>,
}

impl Processes {
    /// Reads what the trace says about processes: its tasks and a few of its event kinds.
    #[must_use]
    pub fn new(trace: &Trace) -> Self {
        let mut this = Self::of_tasks(trace);
        let describes = |k: Kind| matches!(k, Kind::Fork | Kind::Exit | Kind::Name | Kind::Process);
        for event in Merge::of(trace, describes) {
            match event.body {
                Body::Fork(e) => this.forked(e.parent, e.child),
                Body::Exit(e) => drop(this.exits.insert(e.task, event.ts_ns)),
                Body::Name(e) => this.names.entry(e.task).or_default().push((event.ts_ns, e.name)),
                Body::Process(e) => {
                    let parent = e.parent_pid.and_then(|p| u32::try_from(p).ok());
                    let id = this.of(e.task);
                    let parent_id = parent.and_then(|pid| this.latest_before(pid, id));
                    if let Some(p) = this.processes.get_mut(id.index()) {
                        p.parent_pid = parent.or(p.parent_pid);
                        p.parent = p.parent.or(parent_id);
                        // Who names a program names its command line too, or knows none: an earlier one was another's.
                        p.args = if e.exe.is_some() { e.args } else { e.args.or(p.args) };
                        p.exe = e.exe.or(p.exe);
                        p.followed |= e.followed == 1;
                    }
                }
                _ => {}
            }
        }
        this.children = vec![Vec::new(); this.processes.len()];
        for (child, parent) in this.iter().filter_map(|(id, p)| Some((id, p.parent?))).collect::<Vec<_>>() {
            if let Some(children) = this.children.get_mut(parent.index()) {
                children.push(child);
            }
        }
        this
    }

    /// Groups the tasks. Tasks stand in the order of their first appearance, so a second main thread
    /// with the same id begins a new process.
    fn of_tasks(trace: &Trace) -> Self {
        let mut this = Self {
            processes: vec![Process::default()],
            by_task: Vec::new(),
            names: HashMap::new(),
            exits: HashMap::new(),
            children: Vec::new(),
        };
        let mut current: HashMap<u32, ProcessId> = HashMap::new();
        for (task, t) in (0..).map(TaskId).zip(trace.tasks()) {
            if t.tid == 0 {
                this.by_task.push(ProcessId::IDLE);
                continue;
            }
            let leads = t.pid == t.tid;
            let known = current
                .get(&t.pid)
                .copied()
                .filter(|p| !leads || this.processes.get(p.index()).is_some_and(|process| process.leader.is_none()));
            let id = known.unwrap_or_else(|| {
                let id = ProcessId(u32::try_from(this.processes.len()).unwrap_or(u32::MAX));
                this.processes.push(Process { pid: t.pid, ..Process::default() });
                current.insert(t.pid, id);
                id
            });
            if let Some(p) = this.processes.get_mut(id.index()) {
                p.threads.push(task);
                if leads {
                    p.leader = Some(task);
                }
            }
            this.by_task.push(id);
        }
        this
    }

    fn forked(&mut self, parent: TaskId, child: TaskId) {
        let (parent, child) = (self.of(parent), self.of(child));
        if parent == child {
            return;
        }
        let pid = self.get(parent).pid;
        if let Some(p) = self.processes.get_mut(child.index()) {
            p.parent = Some(parent);
            p.parent_pid = Some(pid);
        }
    }

    /// The latest process with this id that came before `before`.
    fn latest_before(&self, pid: u32, before: ProcessId) -> Option<ProcessId> {
        let end = before.index().min(self.processes.len());
        let at = self.processes.iter().take(end).rposition(|p| p.pid == pid && pid != 0);
        // Tasks appear in the order of their first event: a parent may come later than its child.
        let at = at.or_else(|| self.processes.iter().position(|p| p.pid == pid && pid != 0));
        at.filter(|&at| at != before.index()).map(|at| ProcessId(u32::try_from(at).unwrap_or(u32::MAX)))
    }

    /// The process of a task.
    #[must_use]
    #[inline]
    pub fn of(&self, task: TaskId) -> ProcessId {
        self.by_task.get(task.index()).copied().unwrap_or(ProcessId::IDLE)
    }

    /// What is known of a process.
    #[must_use]
    pub fn get(&self, id: ProcessId) -> &Process {
        // The idle process stands first and is always there.
        self.processes.get(id.index()).unwrap_or(&self.processes[0])
    }

    /// All processes but the idle one, in order of their first appearance.
    pub fn iter(&self) -> impl Iterator<Item = (ProcessId, &Process)> {
        (0..).map(ProcessId).zip(&self.processes).skip(1)
    }

    /// The name that a task had at a moment: the latest one given until then, else its first.
    #[must_use]
    pub fn name_at(&self, task: TaskId, ts_ns: u64) -> Option<StrId> {
        let names = self.names.get(&task)?;
        let after = names.partition_point(|(ts, _)| *ts <= ts_ns);
        names.get(after.saturating_sub(1)).map(|(_, name)| *name)
    }

    /// Every name that a task had, with the time from which on it had it.
    #[must_use]
    pub fn names(&self, task: TaskId) -> &[(u64, StrId)] {
        self.names.get(&task).map_or(&[], Vec::as_slice)
    }

    /// The name of a process at a moment: its main thread's, else any of its threads'.
    #[must_use]
    pub fn process_name_at(&self, id: ProcessId, ts_ns: u64) -> Option<StrId> {
        let p = self.get(id);
        p.leader.and_then(|t| self.name_at(t, ts_ns)).or_else(|| p.threads.iter().find_map(|&t| self.name_at(t, ts_ns)))
    }

    /// When a thread exited, if that was recorded.
    #[must_use]
    pub fn exited_ns(&self, task: TaskId) -> Option<u64> {
        self.exits.get(&task).copied()
    }

    /// Whether `id` is `ancestor` or was begotten by it.
    #[must_use]
    pub fn descends(&self, id: ProcessId, ancestor: ProcessId) -> bool {
        self.line(id).any(|of| of == ancestor)
    }

    /// A process and all that it begot, in order of their first appearance. Takes time for these alone.
    #[must_use]
    pub fn family(&self, of: ProcessId) -> Vec<ProcessId> {
        let mut found = BTreeSet::from([of]);
        let mut open = vec![of];
        // Where a damaged trace makes a process its own ancestor, it is met once.
        while let Some(id) = open.pop() {
            let children = self.children.get(id.index()).map_or(&[][..], Vec::as_slice);
            open.extend(children.iter().copied().filter(|&child| found.insert(child)));
        }
        found.into_iter().collect()
    }

    /// A process, its parent, and so on.
    pub fn line(&self, of: ProcessId) -> impl Iterator<Item = ProcessId> {
        // Where a damaged trace makes a process its own ancestor, the walk ends all the same.
        std::iter::successors(Some(of), |&id| self.get(id).parent).take(self.processes.len() + 1)
    }

    /// Processes by their id, in order of their lives.
    #[must_use]
    pub fn with_pid(&self, pid: u32) -> Vec<ProcessId> {
        self.iter().filter(|(_, p)| p.pid == pid).map(|(id, _)| id).collect()
    }

    /// How many processes had each id.
    #[must_use]
    pub fn lives(&self) -> BTreeMap<u32, usize> {
        self.iter().fold(BTreeMap::new(), |mut lives, (_, p)| {
            *lives.entry(p.pid).or_default() += 1;
            lives
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;
    use ingero_format::catalog::{Fork, Name};

    #[test]
    fn a_reused_pid_is_another_process() {
        let mut f = Fixture::new();
        let (a, a2, b, a_again) = (f.task(7, 7), f.task(7, 8), f.task(9, 9), f.task(7, 7));
        f.push(5, 0, Fork { parent: b, child: a_again });
        for (ts, task, name) in [(1, a, "first"), (10, a_again, "second"), (20, a_again, "third")] {
            let name = f.writer().string(name);
            f.push(ts, 0, Name { task, name, source: 0 });
        }
        let trace = f.finish();
        let p = Processes::new(&trace);
        assert_eq!(p.of(a), p.of(a2));
        assert_ne!(p.of(a), p.of(a_again));
        assert_eq!(p.get(p.of(a_again)).parent, Some(p.of(b)));
        assert!(p.descends(p.of(a_again), p.of(b)));
        assert!(!p.descends(p.of(a), p.of(b)));
        assert_eq!(
            p.family(p.of(b)),
            p.iter().map(|(id, _)| id).filter(|&id| p.descends(id, p.of(b))).collect::<Vec<_>>()
        );
        assert_eq!(p.with_pid(7).len(), 2);
        let name = |task, ts| p.name_at(task, ts).map(|s| trace.string(s));
        assert_eq!(name(a_again, 9), Some("second"));
        assert_eq!(name(a_again, 20), Some("third"));
        assert_eq!(name(a, 99), Some("first"));
        assert_eq!(name(a2, 99), None);
    }

    #[test]
    fn a_command_line_goes_with_its_program() {
        let mut f = Fixture::new();
        let task = f.task(7, 7);
        let texts = ["/bin/recorder", "recorder -o x", "/bin/short"].map(|text| f.writer().string(text));
        let row = |exe, args| ingero_format::catalog::Process { task, parent_pid: None, exe, args, followed: 1 };
        f.push(1, 0, row(Some(texts[0]), Some(texts[1])));
        f.push(2, 0, row(None, None));
        let trace = f.finish();
        let p = Processes::new(&trace);
        assert_eq!(p.get(p.of(task)).args.map(|s| trace.string(s)), Some("recorder -o x"));

        let mut f = Fixture::new();
        let task = f.task(7, 7);
        let texts = ["/bin/recorder", "recorder -o x", "/bin/short"].map(|text| f.writer().string(text));
        let row = |exe, args| ingero_format::catalog::Process { task, parent_pid: None, exe, args, followed: 1 };
        f.push(1, 0, row(Some(texts[0]), Some(texts[1])));
        // It ended before anybody could read how it was called.
        f.push(2, 0, row(Some(texts[2]), None));
        let trace = f.finish();
        let p = Processes::new(&trace);
        let process = p.get(p.of(task));
        assert_eq!((process.exe.map(|s| trace.string(s)), process.args), (Some("/bin/short"), None));
    }

    #[test]
    fn a_helper_threads_child_belongs_to_the_tree() {
        let mut f = Fixture::new();
        let (_main, helper, child) = (f.task(7, 7), f.task(7, 8), f.task(20, 20));
        f.push(5, 0, Fork { parent: helper, child });
        let trace = f.finish();
        let p = Processes::new(&trace);
        assert_eq!(p.get(p.of(child)).parent_pid, Some(7));
    }
}
