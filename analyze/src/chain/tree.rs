//! The chains of one phase, merged: for whom the submitting threads waited, for whom those, and so on.

use std::collections::BTreeMap;

use ingero_format::catalog::TaskId;
use ingero_replay::ProcessId;

use super::Ending;
use crate::figures::Stretch;

/// Time of one sort, and its longest stretch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Part {
    /// The sum.
    pub ns: u64,
    /// The longest single stretch of it.
    pub longest: Option<Stretch>,
}

impl Part {
    pub(super) fn add(&mut self, task: TaskId, from: u64, to: u64) {
        self.add_share(task, from, to, to - from);
    }

    /// Adds a stretch that counts for `ns` only.
    pub(super) fn add_share(&mut self, task: TaskId, from: u64, to: u64, ns: u64) {
        self.ns = self.ns.saturating_add(ns);
        if self.longest.is_none_or(|l| l.len_ns() < to - from) {
            self.longest = Some(Stretch { task, start_ns: from, end_ns: to });
        }
    }
}

/// One thread in a chain, with what it did while the thread before it waited for it.
#[derive(Debug, Clone, Default)]
pub struct Link {
    /// The thread.
    pub task: TaskId,
    /// The link that waited for it; none for a submitting thread.
    pub waiter: Option<usize>,
    /// Waits that it ended.
    pub waits: u64,
    /// Whether it is only assumed to have been waited for: the trace does not say who wakes whom.
    pub assumed: bool,
    /// It ran.
    pub ran: Part,
    /// It could have run and had no CPU.
    pub runnable: Part,
    /// Of that, the part in which another CPU was idle that it may not use.
    pub squeezed_ns: u64,
    /// Who was on its CPU in that part.
    pub squeezed_behind: BTreeMap<ProcessId, u64>,
    /// Its cgroup had no quota left.
    pub throttled: Part,
    /// Who was on its CPU while it could have run.
    pub behind: BTreeMap<ProcessId, u64>,
    /// It waited, and no thread ended that: by [`Ending::ALL`].
    pub endings: [Part; Ending::COUNT],
    /// Links that it waited for, by thread.
    pub next: BTreeMap<TaskId, usize>,
}

impl Link {
    /// Time that this link did not pass on.
    #[must_use]
    pub fn own_ns(&self) -> u64 {
        let ended = self.endings.iter().map(|p| p.ns);
        crate::sum([self.ran.ns, self.runnable.ns, self.throttled.ns].into_iter().chain(ended))
    }

    /// How long it waited for something of this sort.
    #[must_use]
    pub fn ended(&self, ending: Ending) -> Part {
        self.endings.get(ending as usize).copied().unwrap_or_default()
    }
}

/// The chains of a phase. Each nanosecond of its gaps is in exactly one part of one link.
#[derive(Debug, Clone, Default)]
pub struct Tree {
    links: Vec<Link>,
    roots: BTreeMap<TaskId, usize>,
}

/// More links than this are not kept apart: what they did is told of the link before them.
const LINKS: usize = 1 << 14;

impl Tree {
    /// The links of the submitting threads.
    pub fn roots(&self) -> impl Iterator<Item = (usize, &Link)> {
        self.roots.values().filter_map(|&at| Some((at, self.links.get(at)?)))
    }

    /// A link by its place.
    #[must_use]
    pub fn link(&self, at: usize) -> Option<&Link> {
        self.links.get(at)
    }

    /// All links, each after the one that waits for it.
    pub fn links(&self) -> impl Iterator<Item = (usize, &Link)> {
        self.links.iter().enumerate()
    }

    /// All time of a link: its own, and that of those that it waited for.
    #[must_use]
    pub fn total_ns(&self, at: usize) -> u64 {
        let Some(link) = self.links.get(at) else { return 0 };
        link.next.values().fold(link.own_ns(), |sum, &next| sum.saturating_add(self.total_ns(next)))
    }

    /// All time of the tree.
    #[must_use]
    pub fn all_ns(&self) -> u64 {
        crate::sum(self.links.iter().map(Link::own_ns))
    }

    /// Whether a link is a submitting thread's.
    #[must_use]
    pub fn is_root(&self, at: usize) -> bool {
        self.links.get(at).is_some_and(|l| l.waiter.is_none())
    }

    pub(super) fn root(&mut self, task: TaskId) -> usize {
        let at = *self.roots.entry(task).or_insert(self.links.len());
        if at == self.links.len() {
            self.links.push(Link { task, ..Link::default() });
        }
        at
    }

    /// The link of `task` behind the one at `waiter`; none where there are too many. `counts` is whether this is a wait
    /// that was not followed yet.
    pub(super) fn behind(&mut self, waiter: usize, task: TaskId, counts: bool) -> Option<usize> {
        let free = self.links.len();
        let next = &mut self.links.get_mut(waiter)?.next;
        if let Some(&at) = next.get(&task) {
            if let Some(link) = self.links.get_mut(at) {
                link.waits += u64::from(counts);
            }
            return Some(at);
        }
        if free >= LINKS {
            return None;
        }
        next.insert(task, free);
        self.links.push(Link { task, waiter: Some(waiter), waits: u64::from(counts), ..Link::default() });
        Some(free)
    }

    pub(super) fn link_mut(&mut self, at: usize) -> Option<&mut Link> {
        self.links.get_mut(at)
    }

    pub(super) fn end(&mut self, at: usize, ending: Ending, from: u64, to: u64) {
        if let Some(link) = self.links.get_mut(at)
            && let Some(part) = link.endings.get_mut(ending as usize)
            && to > from
        {
            part.add(link.task, from, to);
        }
    }

    /// Whether a task stands on the way from a submitting thread to a link, that link included.
    pub(super) fn is_on_path(&self, mut at: usize, task: TaskId) -> bool {
        while let Some(link) = self.links.get(at) {
            if link.task == task {
                return true;
            }
            match link.waiter {
                Some(waiter) => at = waiter,
                None => return false,
            }
        }
        false
    }

    /// Threads from a submitting thread to a link.
    pub(super) fn depth(&self, mut at: usize) -> usize {
        let mut depth = 1;
        while let Some(waiter) = self.links.get(at).and_then(|l| l.waiter) {
            (at, depth) = (waiter, depth + 1);
        }
        depth
    }
}
