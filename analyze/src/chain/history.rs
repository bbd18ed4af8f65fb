//! What each thread did of late, for as long as somebody may have waited for it.

use std::collections::VecDeque;

use ingero_format::catalog::TaskId;
use ingero_replay::{Cpus, OffCpu, OffKind, ProcessId, Processes, Run, Waker};

use super::ending::{Ending, Machine, Manner};
use super::tree::Tree;
use crate::affinity::Affinities;

/// A stretch on or off a CPU that is over.
#[derive(Debug, Clone, Copy)]
struct Turn {
    start_ns: u64,
    end_ns: u64,
    /// Off the CPU: from when on it could have run.
    runnable_ns: u64,
    waker: Waker,
    wait_cpu: Option<u32>,
    manner: Manner,
    sort: Sort,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    Ran,
    Waited,
    Throttled,
}

/// How a stay came about.
pub(crate) fn manner(stay: &OffCpu) -> Manner {
    const UNINTERRUPTIBLE: u64 = 2;
    Manner {
        syscall: stay.syscall.and_then(|n| u16::try_from(n).ok()),
        uninterruptible: stay.prev_state & UNINTERRUPTIBLE != 0,
    }
}

/// Turns that are kept at most, of 80 bytes each.
const TURNS: usize = 3 << 20;
/// A thread whose timed wait ran out, and that ran no longer than this before it waited again, waits for the same: it
/// only looked whether there is something else to do.
pub(crate) const LOOKS_NS: u64 = 2_000_000;
/// Chains are followed through so many threads.
const DEPTH: usize = 32;

/// The turns of all threads since the first of those waits began that may still have to be followed.
#[derive(Debug)]
pub(crate) struct History {
    turns: Vec<VecDeque<Turn>>,
    /// Since when each thread is on its CPU, where it is.
    running_ns: Vec<Option<u64>>,
    /// Who waits, and since when: the threads whose chains will be asked for.
    waiting: Vec<(TaskId, u64)>,
    /// Begin of the earliest of those waits.
    needed_ns: Option<u64>,
    /// Nothing is known of what was before.
    floor_ns: u64,
    kept: usize,
    machine: Machine,
    /// Whether the trace tells when block I/O was done.
    sees_disks: bool,
    /// Who made each thread, and when.
    born: Vec<Option<(TaskId, u64)>>,
}

impl History {
    pub(crate) fn new(tasks: usize, machine: Machine, sees_disks: bool) -> Self {
        Self {
            turns: (0..tasks).map(|_| VecDeque::new()).collect(),
            running_ns: vec![None; tasks],
            waiting: Vec::new(),
            needed_ns: None,
            floor_ns: 0,
            kept: 0,
            machine,
            sees_disks,
            born: vec![None; tasks],
        }
    }

    pub(crate) fn born(&mut self, child: TaskId, parent: TaskId, at_ns: u64) {
        if let Some(born) = self.born.get_mut(child.index()) {
            *born = Some((parent, at_ns));
        }
    }

    /// A thread waits whose chain will be asked for.
    pub(crate) fn waits(&mut self, task: TaskId, since_ns: u64) {
        self.waiting.retain(|(t, _)| *t != task);
        self.waiting.push((task, since_ns));
        self.settle();
    }

    /// Its chain was asked for, or never will be.
    pub(crate) fn is_back(&mut self, task: TaskId) {
        self.waiting.retain(|(t, _)| *t != task);
        self.settle();
    }

    fn settle(&mut self) {
        self.needed_ns = self.waiting.iter().map(|(_, since)| *since).min();
    }

    #[inline]
    pub(crate) fn starts(&mut self, task: TaskId, at_ns: u64) {
        if let Some(since) = self.running_ns.get_mut(task.index()) {
            *since = Some(at_ns);
        }
    }

    #[inline]
    pub(crate) fn lost_sight(&mut self, task: TaskId) {
        if let Some(since) = self.running_ns.get_mut(task.index()) {
            *since = None;
        }
    }

    #[inline]
    pub(crate) fn ran(&mut self, run: &Run) {
        if let Some(since) = self.running_ns.get_mut(run.task.index()) {
            *since = None;
        }
        let (Some(end_ns), Some(_)) = (run.end_ns, self.needed_ns) else { return };
        self.keep(
            run.task,
            Turn {
                start_ns: run.start_ns,
                end_ns,
                runnable_ns: 0,
                waker: Waker::Unknown,
                wait_cpu: None,
                manner: Manner::default(),
                sort: Sort::Ran,
            },
        );
    }

    #[inline]
    pub(crate) fn stayed(&mut self, stay: &OffCpu) {
        let (Some((_, end_ns)), Some(_)) = (stay.back, self.needed_ns) else { return };
        self.keep(
            stay.task,
            Turn {
                start_ns: stay.out_ns,
                end_ns,
                runnable_ns: stay.runnable_ns.unwrap_or(end_ns).clamp(stay.out_ns, end_ns),
                waker: stay.waker,
                wait_cpu: stay.wait_cpu,
                manner: manner(stay),
                sort: if stay.kind == OffKind::Throttled { Sort::Throttled } else { Sort::Waited },
            },
        );
    }

    #[inline(never)]
    fn keep(&mut self, task: TaskId, turn: Turn) {
        let Some(needed_ns) = self.needed_ns else { return };
        let Some(turns) = self.turns.get_mut(task.index()) else { return };
        while turns.front().is_some_and(|t| t.end_ns <= needed_ns) {
            turns.pop_front();
            self.kept -= 1;
        }
        if turn.end_ns <= needed_ns {
            return;
        }
        turns.push_back(turn);
        self.kept += 1;
        if self.kept > TURNS {
            self.shrink(turn.end_ns);
        }
    }

    /// Drops what nobody needs any more, and everything where that does not help.
    fn shrink(&mut self, now_ns: u64) {
        let needed_ns = self.needed_ns.unwrap_or(now_ns);
        for turns in &mut self.turns {
            turns.retain(|t| t.end_ns > needed_ns);
        }
        self.kept = self.turns.iter().map(VecDeque::len).sum();
        if self.kept > TURNS / 2 {
            self.turns.iter_mut().for_each(|t| *t = VecDeque::new());
            self.kept = 0;
            self.floor_ns = now_ns;
        }
    }

    /// Adds to the link at `at` what it waited for within `from..to`: whoever ended the wait, and what that thread did
    /// over the same time. `waited_ns` is how long the whole wait was.
    pub(crate) fn follow(&self, view: &View, tree: &mut Tree, at: usize, wait: Wait) {
        let Wait { from, to, waker, manner, waited_ns, again } = wait;
        if to <= from {
            return;
        }
        let Waker::Task(next) = waker else {
            if waker == Waker::Unknown && !view.knows_wakers {
                return self.assume(view, tree, at, (from, to), Ending::UnknownWaker);
            }
            return tree.end(at, self.ending(waker, manner, waited_ns), from, to);
        };
        if tree.is_on_path(at, next) || tree.depth(at) >= DEPTH {
            return tree.end(at, Ending::UnknownWaker, from, to);
        }
        let Some(link) = tree.behind(at, next, !again) else {
            return tree.end(at, Ending::UnknownWaker, from, to);
        };
        self.states(view, tree, link, next, from, to);
    }

    /// Adds to a link what its thread did within `from..to`.
    fn states(&self, view: &View, tree: &mut Tree, link: usize, task: TaskId, from: u64, to: u64) {
        // From the end on backwards: up to `known` it is told already.
        let mut known = to;
        let mut again = Again::default();
        if let Some(Some(since)) = self.running_ns.get(task.index())
            && *since < known
        {
            let start = (*since).max(from);
            if let Some(l) = tree.link_mut(link) {
                l.ran.add(task, start, known);
            }
            known = start;
        }
        let turns = self.turns.get(task.index());
        let before = turns.map_or(0, |t| t.partition_point(|t| t.start_ns < known));
        for turn in turns.into_iter().flat_map(|t| t.range(..before).rev()) {
            let (start, end) = (turn.start_ns.max(from), turn.end_ns.min(known));
            if end < known && end > from {
                tree.end(link, Ending::Unseen, end.max(from), known);
                known = end;
            }
            if turn.end_ns <= from {
                break;
            }
            if end <= start {
                continue;
            }
            match turn.sort {
                Sort::Ran => {
                    again.ran(turn.end_ns - turn.start_ns);
                    if let Some(l) = tree.link_mut(link) {
                        l.ran.add(task, start, end);
                    }
                }
                Sort::Throttled => {
                    if let Some(l) = tree.link_mut(link) {
                        l.throttled.add(task, start, end);
                    }
                }
                Sort::Waited => {
                    let split = turn.runnable_ns.clamp(start, end);
                    view.runnable(tree, link, task, turn.wait_cpu, split, end);
                    let waker = again.waker(self, turn);
                    let wait = Wait {
                        from: start,
                        to: split,
                        waker,
                        again: waker != turn.waker,
                        manner: turn.manner,
                        waited_ns: turn.runnable_ns - turn.start_ns,
                    };
                    self.follow(view, tree, link, wait);
                }
            }
            known = start;
            if known <= from {
                break;
            }
        }
        if let Some(Some((parent, born_ns))) = self.born.get(task.index())
            && *born_ns > from
        {
            // Before it was there, whoever was to make it was waited for.
            let until = (*born_ns).min(known);
            tree.end(link, Ending::Unseen, until, known);
            let wait = Wait {
                from,
                to: until,
                waker: Waker::Task(*parent),
                manner: Manner::default(),
                waited_ns: 0,
                again: false,
            };
            return self.follow(view, tree, link, wait);
        }
        if known > from {
            let ending = if from < self.floor_ns { Ending::Edge } else { Ending::Unseen };
            tree.end(link, ending, from, known);
        }
    }
}

/// Who ended the wait that came after the ones that are walked, from the last one backwards: it would have ended those
/// too that ran out before it came.
#[derive(Debug, Default)]
struct Again {
    waker: Option<TaskId>,
    ran_ns: u64,
}

impl Again {
    fn ran(&mut self, ns: u64) {
        self.ran_ns = self.ran_ns.saturating_add(ns);
    }

    /// Who is to be followed for a wait.
    fn waker(&mut self, history: &History, turn: &Turn) -> Waker {
        if turn.runnable_ns <= turn.start_ns {
            // It was preempted, and waited for nothing.
            return turn.waker;
        }
        let ran_ns = std::mem::take(&mut self.ran_ns);
        if history.ending(turn.waker, turn.manner, turn.runnable_ns - turn.start_ns).is_timed_out() {
            self.waker = self.waker.filter(|_| ran_ns <= LOOKS_NS);
            return self.waker.map_or(turn.waker, Waker::Task);
        }
        self.waker = match turn.waker {
            Waker::Task(task) => Some(task),
            _ => None,
        };
        turn.waker
    }
}

impl History {
    /// What a wait ended in, were no thread to be followed.
    pub(crate) fn ending(&self, waker: Waker, manner: Manner, waited_ns: u64) -> Ending {
        self.machine.ending(waker, manner, waited_ns, self.sees_disks)
    }

    /// Adds to the link at `at` what the threads that may work for it did within `from..to`, where nothing says whom it
    /// waited for: the trace does not tell who wakes whom, or its wait ran out first. Each gets its share of the time,
    /// and never more than it was at work itself, so that a thread that sleeps while another works for a moment waits for
    /// that moment at most; what is left ended in `rest`.
    pub(crate) fn assume(&self, view: &View, tree: &mut Tree, at: usize, (from, to): (u64, u64), rest: Ending) {
        let waiter = tree.link(at).map(|l| l.task);
        let mut active: Vec<(TaskId, Vec<Stretch>)> = Vec::new();
        for &task in view.helpers.iter().filter(|t| Some(**t) != waiter) {
            let stretches = self.active(task, from, to);
            if !stretches.is_empty() {
                active.push((task, stretches));
            }
        }
        let len = |s: &Stretch| u128::from(s.to - s.from);
        let all: u128 = active.iter().flat_map(|(_, s)| s).map(len).sum();
        let whole = u128::from(to - from).max(all);
        let mut given = 0;
        for (task, stretches) in active {
            let Some(link) = tree.behind(at, task, true) else { continue };
            let Some(l) = tree.link_mut(link) else { continue };
            l.assumed = true;
            for s in stretches {
                let scaled = |ns: u64| u64::try_from(u128::from(ns) * u128::from(to - from) / whole).unwrap_or(0);
                let ns = scaled(s.to - s.from);
                given += ns;
                let part = match s.work {
                    Work::Ran => &mut l.ran,
                    Work::Throttled => &mut l.throttled,
                    Work::Runnable(_) => &mut l.runnable,
                    Work::Awaits(ending) => match l.endings.get_mut(ending as usize) {
                        Some(part) => part,
                        None => continue,
                    },
                };
                part.add_share(task, s.from, s.to, ns);
                if let Work::Runnable(Some(cpu)) = s.work {
                    view.cpus.holders(cpu, s.from, s.to, |holder, ns| {
                        let held = l.behind.entry(view.processes.of(holder)).or_default();
                        *held = held.saturating_add(scaled(ns));
                    });
                }
            }
        }
        tree.end(at, rest, from + given, to);
    }

    /// Where a thread was at work within `from..to`: it ran, or could have, or waited for a device.
    fn active(&self, task: TaskId, from: u64, to: u64) -> Vec<Stretch> {
        let mut out = Vec::new();
        let mut push = |a: u64, b: u64, work| {
            let (from, to) = (a.max(from), b.min(to));
            if to > from {
                out.push(Stretch { from, to, work });
            }
        };
        let Some(turns) = self.turns.get(task.index()) else { return out };
        let first = turns.partition_point(|t| t.end_ns <= from);
        for turn in turns.range(first..).take_while(|t| t.start_ns < to) {
            match turn.sort {
                Sort::Ran => push(turn.start_ns, turn.end_ns, Work::Ran),
                Sort::Throttled => push(turn.start_ns, turn.end_ns, Work::Throttled),
                Sort::Waited => {
                    let waited_ns = turn.runnable_ns - turn.start_ns;
                    let ending = self.ending(turn.waker, turn.manner, waited_ns);
                    if ending.is_work() {
                        push(turn.start_ns, turn.runnable_ns, Work::Awaits(ending));
                    }
                    push(turn.runnable_ns, turn.end_ns, Work::Runnable(turn.wait_cpu));
                }
            }
        }
        if let Some(Some(since)) = self.running_ns.get(task.index()) {
            push(*since, to, Work::Ran);
        }
        out
    }
}

/// How a thread is at work.
#[derive(Debug, Clone, Copy)]
enum Work {
    Ran,
    Throttled,
    /// It could run, and stands in the queue of this CPU.
    Runnable(Option<u32>),
    /// It waits for something that is no thread.
    Awaits(Ending),
}

/// A stretch of one sort.
struct Stretch {
    from: u64,
    to: u64,
    work: Work,
}

/// A wait, or the part of it that is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wait {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) waker: Waker,
    pub(crate) manner: Manner,
    /// Length of the whole of it.
    pub(crate) waited_ns: u64,
    /// Whether it ran out, and the waker is that of a later one for the same thing: which counts as one.
    pub(crate) again: bool,
}

/// What is known beside the threads' own turns, of all phases.
pub(crate) struct Surroundings<'a> {
    pub(crate) processes: &'a Processes,
    pub(crate) affinities: Affinities,
    /// Whether the trace says who wakes whom.
    pub(crate) knows_wakers: bool,
    /// Per phase: the threads that may work for it.
    pub(crate) helpers: Vec<Vec<TaskId>>,
}

impl Surroundings<'_> {
    /// What is known for a phase.
    pub(crate) fn view<'v>(&'v self, phase: usize, cpus: &'v Cpus) -> View<'v> {
        View {
            cpus,
            processes: self.processes,
            affinities: &self.affinities,
            knows_wakers: self.knows_wakers,
            helpers: self.helpers.get(phase).map_or(&[][..], Vec::as_slice),
        }
    }
}

/// What is known beside the threads' own turns.
pub(crate) struct View<'a> {
    pub(crate) cpus: &'a Cpus,
    pub(crate) processes: &'a Processes,
    pub(crate) affinities: &'a Affinities,
    /// Whether the trace says who wakes whom.
    pub(crate) knows_wakers: bool,
    /// Where it does not: the threads that may work for the phase.
    pub(crate) helpers: &'a [TaskId],
}

impl View<'_> {
    /// Adds to a link that its thread could have run within `from..to`, and who was in its way.
    pub(crate) fn runnable(&self, tree: &mut Tree, at: usize, task: TaskId, cpu: Option<u32>, from: u64, to: u64) {
        let Some(link) = tree.link_mut(at).filter(|_| to > from) else { return };
        link.runnable.add(task, from, to);
        let squeezed = self.affinities.squeezed(task, self.cpus, from, to);
        link.squeezed_ns = link.squeezed_ns.saturating_add(crate::sum(squeezed.iter().map(|(a, b)| b - a)));
        let Some(cpu) = cpu else { return };
        self.cpus.stretches(cpu, from, to, |holder, from, to| {
            let id: ProcessId = self.processes.of(holder);
            let held = link.behind.entry(id).or_default();
            *held = held.saturating_add(to - from);
            let both = squeezed.iter().map(|&(a, b)| b.min(to).saturating_sub(a.max(from)));
            let ns = crate::sum(both);
            if ns > 0 {
                let held = link.squeezed_behind.entry(id).or_default();
                *held = held.saturating_add(ns);
            }
        });
    }
}
