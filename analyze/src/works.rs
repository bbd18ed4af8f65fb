//! Who works for whom: of the processes that descend from one with CUDA calls, those whose work it takes in.
//!
//! A worker wakes the process that it works for, or another of its workers, when its work is there: in the whole
//! recording, for in a range that is cut out, or in one phase, nobody may have waited for it. A process that was started
//! beside the job and never wakes any of it only shares the CPUs with it.

use std::collections::{BTreeSet, HashSet};

use ingero_format::catalog::TaskId;
use ingero_replay::{OffCpu, ProcessId, Processes, Waker};

/// Which descendants woke whom.
#[derive(Debug, Default)]
pub(crate) struct Works {
    /// By process: whether it is, or descends from, one that has phases.
    watched: Vec<bool>,
    /// Waker and woken, both watched.
    woke: HashSet<(ProcessId, ProcessId)>,
    /// By process: when it became another program.
    became_ns: Vec<Option<u64>>,
    /// By task: when it exited.
    gone_ns: Vec<Option<u64>>,
    knows_wakers: bool,
}

impl Works {
    pub(crate) fn new(
        feeding: impl Iterator<Item = ProcessId>,
        processes: &Processes,
        tasks: usize,
        knows_wakers: bool,
    ) -> Self {
        let feeding: BTreeSet<_> = feeding.collect();
        let mut watched = vec![false; processes.iter().count() + 1];
        for id in feeding.iter().flat_map(|&of| processes.family(of)) {
            if let Some(slot) = watched.get_mut(id.index()) {
                *slot = true;
            }
        }
        let became_ns = vec![None; watched.len()];
        Self { watched, woke: HashSet::new(), became_ns, gone_ns: vec![None; tasks], knows_wakers }
    }

    fn is_watched(&self, id: ProcessId) -> bool {
        self.watched.get(id.index()).copied().unwrap_or(false)
    }

    /// A process becomes another program: what woke its maker so far (the end of `vfork`, the closing of pipes) was its
    /// start and no work.
    pub(crate) fn becomes(&mut self, id: ProcessId, at_ns: u64) {
        if self.is_watched(id) {
            self.woke.retain(|(by, _)| *by != id);
        }
        if let Some(became_ns) = self.became_ns.get_mut(id.index()) {
            *became_ns = Some(at_ns);
        }
    }

    pub(crate) fn exits(&mut self, task: TaskId, at_ns: u64) {
        if let Some(gone) = self.gone_ns.get_mut(task.index()) {
            *gone = Some(at_ns);
        }
    }

    /// A wait is over.
    #[inline]
    pub(crate) fn woken(&mut self, stay: &OffCpu, processes: &Processes) {
        let (Waker::Task(by), Some(at_ns)) = (stay.waker, stay.runnable_ns) else { return };
        let (by_id, id) = (processes.of(by), processes.of(stay.task));
        if by_id == id || !self.is_watched(by_id) || !self.is_watched(id) {
            return;
        }
        // Waits are told when the thread is back, which may be later than what came after their end.
        if self.became_ns.get(by_id.index()).copied().flatten().is_some_and(|became_ns| at_ns <= became_ns) {
            return;
        }
        // Whoever waits for the end of a process is woken by it, whatever it did.
        if self.gone_ns.get(by.index()).copied().flatten().is_some_and(|gone_ns| gone_ns <= at_ns) {
            return;
        }
        self.woke.insert((by_id, id));
    }

    /// Descendants of a process that work for it. Where the source does not say who woke whom, any may.
    pub(crate) fn of(&self, process: ProcessId, processes: &Processes) -> BTreeSet<ProcessId> {
        let family = processes.family(process);
        if !self.knows_wakers {
            return family.into_iter().filter(|&id| self.is_watched(id)).collect();
        }
        // Alone it has nobody to work for it.
        if family.len() == 1 {
            return family.into_iter().collect();
        }
        let descends = |id: ProcessId| family.binary_search(&id).is_ok();
        let mut found = BTreeSet::from([process]);
        loop {
            let works = |(by, id): &&(ProcessId, ProcessId)| found.contains(id) && !found.contains(by) && descends(*by);
            let more: Vec<_> = self.woke.iter().filter(works).map(|(by, _)| *by).collect();
            if more.is_empty() {
                return found;
            }
            found.extend(more);
        }
    }
}
