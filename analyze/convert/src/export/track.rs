//! Which numbers the tracks of tasks have in the output.
//!
//! Viewers know a track by process id and thread id alone. The first life of an id keeps it; a
//! later one, and every track that is no thread, gets a number above all that Linux hands out.

use std::cell::RefCell;
use std::collections::HashSet;

use ingero_format::Trace;
use ingero_format::catalog::TaskId;
use ingero_replay::{ProcessId, Processes};

/// A track by its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Track {
    pub(crate) pid: u32,
    pub(crate) tid: u32,
}

/// First number that no thread of a Linux machine has (`PID_MAX_LIMIT` is 2^22).
const FIRST_OWN: u32 = 1 << 23;

/// The tracks of a trace.
pub(crate) struct Tracks {
    /// By task: its calls, its states.
    tasks: Vec<(Track, Track)>,
    processes: Vec<u32>,
    machine: u32,
    losses: Track,
    numbers: RefCell<Numbers>,
}

struct Numbers {
    taken: HashSet<u32>,
    next: u32,
}

impl Numbers {
    fn own(&mut self) -> u32 {
        while !self.taken.insert(self.next) {
            self.next = self.next.wrapping_add(1).max(FIRST_OWN);
        }
        self.next
    }
    fn wanted(&mut self, number: u32) -> u32 {
        // Viewers read ids as signed numbers.
        let fits = number != 0 && number < u32::MAX / 2;
        if fits && self.taken.insert(number) { number } else { self.own() }
    }
}

impl Tracks {
    pub(crate) fn new(trace: &Trace, processes: &Processes) -> Self {
        let mut numbers = Numbers { taken: HashSet::new(), next: FIRST_OWN };
        let mut pids = vec![0];
        for (_, process) in processes.iter() {
            pids.push(numbers.wanted(process.pid));
        }
        let machine = numbers.own();
        // A main thread shares its number with its process; thread ids are a world of their own.
        let mut numbers = Numbers { taken: HashSet::new(), next: numbers.next };
        let mut calls = Vec::new();
        for (id, task) in (0..).map(TaskId).zip(trace.tasks()) {
            let process = processes.of(id);
            let pid = pids.get(process.index()).copied().unwrap_or(machine);
            let leads = processes.get(process).leader == Some(id);
            let tid = if leads && numbers.taken.insert(pid) { pid } else { numbers.wanted(task.tid) };
            calls.push(Track { pid, tid });
        }
        let tasks = calls.into_iter().map(|t| (t, Track { pid: t.pid, tid: numbers.own() })).collect();
        let losses = Track { pid: machine, tid: numbers.own() };
        Self { tasks, processes: pids, machine, losses, numbers: RefCell::new(numbers) }
    }

    /// The track of a task's calls.
    pub(crate) fn calls(&self, task: TaskId) -> Option<Track> {
        self.tasks.get(task.index()).map(|t| t.0).filter(|_| task != TaskId(0))
    }

    /// The track of a task's states.
    pub(crate) fn states(&self, task: TaskId) -> Option<Track> {
        self.tasks.get(task.index()).map(|t| t.1).filter(|_| task != TaskId(0))
    }

    /// The number of a process.
    pub(crate) fn pid(&self, process: ProcessId) -> u32 {
        self.processes.get(process.index()).copied().unwrap_or(self.machine)
    }

    /// The process that stands for the whole machine.
    pub(crate) fn machine(&self) -> u32 {
        self.machine
    }

    /// A track of the machine that no other has.
    pub(crate) fn fresh(&self) -> Track {
        Track { pid: self.machine, tid: self.numbers.borrow_mut().own() }
    }

    /// A track of a process that no other has.
    pub(crate) fn fresh_in(&self, process: ProcessId) -> Track {
        Track { pid: self.pid(process), ..self.fresh() }
    }

    /// The track that says what the recording lost.
    pub(crate) fn losses(&self) -> Track {
        self.losses
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ingero_replay::fixture::Fixture;

    #[test]
    fn lives_that_share_an_id_do_not_share_a_track() {
        let mut f = Fixture::new();
        let tasks: Vec<_> =
            [(7, 7), (7, 8), (7, 7), (9, 8), (8, 8), (8, 7), (0, 0), (u32::MAX, u32::MAX), (FIRST_OWN, FIRST_OWN)]
                .map(|(pid, tid)| f.task(pid, tid))
                .to_vec();
        let trace = f.finish();
        let processes = Processes::new(&trace);
        let tracks = Tracks::new(&trace, &processes);
        assert_eq!(tracks.calls(tasks[0]), Some(Track { pid: 7, tid: 7 }));
        assert_eq!(tracks.calls(TaskId(0)), None);
        let mut seen = HashSet::from([tracks.losses().tid]);
        for task in tasks.iter().filter(|t| trace.task(**t).tid != 0) {
            for track in [tracks.calls(*task).unwrap(), tracks.states(*task).unwrap()] {
                assert!(seen.insert(track.tid), "{task:?} {track:?}");
                assert!(track.pid < u32::MAX / 2 && track.tid < u32::MAX / 2);
            }
        }
        assert_ne!(tracks.calls(tasks[2]).unwrap().pid, 7);
    }
}
