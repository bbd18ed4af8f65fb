//! Wait chains: from the gap of a submitting thread along the wakes to whatever it waited for in the end.
//!
//! While a submitting thread waits, what every thread does is remembered ([`history`]). When it is back, its wait is
//! followed: to whoever woke it, and through that thread's own states over the same time, where that waited to
//! whoever woke it, until code that ran, a CPU that somebody else had, an interrupt, or the edge of the trace. What
//! comes of it is merged over the phase ([`tree`]). A thread that wakes another runs at that moment, so a chain never
//! comes back to a thread that it passed, unless the clocks of two CPUs disagree; such a chain ends there.

mod ending;
mod history;
mod tree;

pub use ending::Ending;
pub(crate) use ending::{BLOCK, Machine, NET_RX, SOFTIRQ, is_disks_softirq};
pub(crate) use history::{History, LOOKS_NS, Surroundings, View, Wait, manner};
pub use tree::{Link, Part, Tree};

use ingero_format::catalog::TaskId;
use ingero_replay::{OffCpu, Waker};

impl Tree {
    /// A submitting thread ran within a gap.
    pub(crate) fn submitter_ran(&mut self, task: TaskId, from: u64, to: u64) {
        let at = self.root(task);
        if let Some(link) = self.link_mut(at).filter(|_| to > from) {
            link.ran.add(task, from, to);
        }
    }

    /// A submitting thread was off its CPU within `from..to` of a gap. Returned is a wait that ran out before anybody
    /// ended it: whom it was for may show later.
    pub(crate) fn submitter_stayed(
        &mut self,
        history: &History,
        view: &View,
        stay: &OffCpu,
        (from, to): (u64, u64),
    ) -> Option<Wait> {
        let task = stay.task;
        let at = self.root(task);
        if stay.kind == ingero_replay::OffKind::Throttled {
            if let Some(link) = self.link_mut(at).filter(|_| to > from) {
                link.throttled.add(task, from, to);
            }
            return None;
        }
        let Some(runnable_ns) = stay.runnable_ns else {
            self.end(at, Ending::Edge, from, to);
            return None;
        };
        let split = runnable_ns.clamp(from, to);
        view.runnable(self, at, task, stay.wait_cpu, split, to);
        let waited_ns = runnable_ns.saturating_sub(stay.out_ns);
        let wait = Wait { from, to: split, waker: stay.waker, manner: manner(stay), waited_ns, again: false };
        if view.knows_wakers && split > from && history.ending(wait.waker, wait.manner, waited_ns).is_timed_out() {
            return Some(wait);
        }
        history.follow(view, self, at, wait);
        None
    }

    /// The same thread waited on, until this task woke it: it would have ended the wait that ran out too.
    pub(crate) fn submitter_waited_for(&mut self, history: &History, view: &View, of: TaskId, wait: Wait, by: TaskId) {
        let at = self.root(of);
        history.follow(view, self, at, Wait { waker: Waker::Task(by), again: true, ..wait });
    }

    /// Nothing shows whom a wait that ran out was for. Of one that looks after workers it is known that it was for those.
    pub(crate) fn submitter_gave_up(&mut self, history: &History, view: &View, task: TaskId, wait: Wait) {
        let at = self.root(task);
        match history.ending(wait.waker, wait.manner, wait.waited_ns) {
            Ending::StatusCheck => history.assume(view, self, at, (wait.from, wait.to), Ending::StatusCheck),
            ending => self.end(at, ending, wait.from, wait.to),
        }
    }

    /// The rest of a submitting thread's gaps, of which nothing was told.
    pub(crate) fn submitter_unseen(&mut self, task: TaskId, ns: u64) {
        let at = self.root(task);
        if let Some(link) = self.link_mut(at)
            && let Some(part) = link.endings.get_mut(Ending::Unseen as usize)
        {
            part.ns = part.ns.saturating_add(ns);
        }
    }
}
