//! Which life of which thread a thread id means at a line of the text.
//!
//! Ids are reused, so a life ends with the thread's last switch-out and another begins with the
//! next mention of its id. The text tells the process of a thread only on the thread's own lines
//! (the TGID column) or in `task_newtask`, often long after the thread is first named; a first
//! pass over the text therefore collects them, and a second one writes the rows. Both passes see
//! the same lives in the same order: a life's number says which is which.

use std::collections::HashMap;

use ingero_format::catalog::TaskId;

use super::call::CallStack;

/// One life of one thread.
#[derive(Debug)]
pub(crate) struct Life {
    /// Place in the order of all lives.
    pub(crate) number: usize,
    /// Process; the thread's own id where the text never tells.
    pub(crate) pid: u32,
    /// Its task in the file.
    pub(crate) id: TaskId,
    /// Process that made it, where its birth was seen.
    pub(crate) parent_pid: Option<u32>,
    /// Its name as last seen.
    pub(crate) name: Vec<u8>,
    /// Its name in the first column of its latest line.
    pub(crate) line_comm: Vec<u8>,
    /// Calls it is inside of.
    pub(crate) calls: CallStack,
    /// Born by `task_newtask`; the fork that follows is the same birth.
    pub(crate) newborn: bool,
    /// Its last switch-out was seen.
    pub(crate) dead: bool,
}

/// What is known of a life's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    /// The text does not tell; the life's own id stands in.
    Unknown(u32),
    Is(u32),
    /// The same as that of another, earlier life.
    As(usize),
}

/// The processes of all lives, by number.
#[derive(Debug, Default)]
pub(crate) struct Groups(Vec<Group>);

impl Groups {
    /// The process of a life, and whether the text tells it.
    pub(crate) fn pid(&self, number: usize) -> Option<(u32, bool)> {
        let mut at = number;
        loop {
            match self.0.get(at)? {
                Group::Unknown(tid) => return Some((*tid, false)),
                Group::Is(pid) => return Some((*pid, true)),
                Group::As(other) if *other < at => at = *other,
                Group::As(_) => return None,
            }
        }
    }

    /// Lives whose process the text does not tell.
    pub(crate) fn unknown(&self) -> usize {
        (0..self.0.len()).filter(|n| self.pid(*n).is_none_or(|(_, told)| !told)).count()
    }
}

/// All threads that are alive, by id.
#[derive(Debug, Default)]
pub(crate) struct Lives {
    threads: HashMap<u32, Life>,
    learnt: Groups,
}

impl Lives {
    /// The life that an id means now, if there is one.
    pub(crate) fn get(&mut self, tid: u32) -> Option<&mut Life> {
        self.threads.get_mut(&tid).filter(|l| !l.dead)
    }

    /// The latest life of an id goes on: another thread took its place.
    pub(crate) fn revive(&mut self, tid: u32) {
        if let Some(life) = self.threads.get_mut(&tid) {
            life.dead = false;
        }
    }

    /// Begins a life; hands out the one that had its id.
    pub(crate) fn begin(
        &mut self,
        tid: u32,
        pid: impl FnOnce(usize) -> u32,
        id: impl FnOnce(u32) -> TaskId,
    ) -> Option<Life> {
        let number = self.learnt.0.len();
        self.learnt.0.push(Group::Unknown(tid));
        let pid = pid(number);
        let life = Life {
            number,
            pid,
            id: id(pid),
            parent_pid: None,
            name: Vec::new(),
            line_comm: Vec::new(),
            calls: CallStack::default(),
            newborn: false,
            dead: false,
        };
        self.threads.insert(tid, life)
    }

    /// Learns a life's process from its own line.
    pub(crate) fn learn(&mut self, number: usize, pid: u32) {
        if let Some(group) = self.learnt.0.get_mut(number) {
            *group = Group::Is(pid);
        }
    }

    /// Learns that a life belongs to the process of another.
    pub(crate) fn learn_as(&mut self, number: usize, other: usize) {
        if let Some(group @ Group::Unknown(_)) = self.learnt.0.get_mut(number) {
            *group = Group::As(other);
        }
    }

    /// All threads that are there at the end, by id, and what was learnt of all.
    pub(crate) fn finish(self) -> (Vec<Life>, Groups) {
        let mut threads: Vec<_> = self.threads.into_iter().collect();
        threads.sort_by_key(|(tid, _)| *tid);
        (threads.into_iter().map(|(_, life)| life).collect(), self.learnt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_means_one_life_after_the_other() {
        let mut lives = Lives::default();
        assert!(lives.get(7).is_none());
        assert!(lives.begin(7, |_| 7, |_| TaskId(1)).is_none());
        lives.get(7).unwrap().dead = true;
        assert!(lives.get(7).is_none());
        assert_eq!(lives.begin(7, |_| 5, |_| TaskId(2)).unwrap().id, TaskId(1));
        let life = lives.get(7).unwrap();
        assert!(life.pid == 5 && life.number == 1);
        life.dead = true;
        lives.revive(7);
        assert_eq!(lives.get(7).unwrap().number, 1);
    }

    #[test]
    fn a_thread_belongs_to_the_process_of_its_maker() {
        let mut lives = Lives::default();
        for tid in [1, 2, 3] {
            lives.begin(tid, |_| tid, TaskId);
        }
        lives.learn_as(2, 1);
        lives.learn_as(1, 0);
        lives.learn(0, 9);
        let (_, groups) = lives.finish();
        assert_eq!(groups.pid(2), Some((9, true)));
        assert_eq!(groups.unknown(), 0);
    }
}
