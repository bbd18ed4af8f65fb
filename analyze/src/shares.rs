//! What the processes of each phase took of it: time on a CPU, new pages, page faults. A phase is judged by what happened in it,
//! whatever the rest of the recording is like.

use std::collections::BTreeMap;

use ingero_replay::ProcessId;

/// What a process took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) on_cpu_ns: u64,
    pub(crate) page_allocs: u64,
    pub(crate) faults: u64,
}

impl Share {
    fn since(self, before: Self) -> Self {
        Self {
            on_cpu_ns: self.on_cpu_ns.saturating_sub(before.on_cpu_ns),
            page_allocs: self.page_allocs.saturating_sub(before.page_allocs),
            faults: self.faults.saturating_sub(before.faults),
        }
    }
}

impl std::iter::Sum for Share {
    fn sum<I: Iterator<Item = Self>>(shares: I) -> Self {
        shares.fold(Self::default(), |a, b| Self {
            on_cpu_ns: a.on_cpu_ns.saturating_add(b.on_cpu_ns),
            page_allocs: a.page_allocs.saturating_add(b.page_allocs),
            faults: a.faults.saturating_add(b.faults),
        })
    }
}

/// The bounds of phases, at each of which it is noted what their processes took so far.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    /// When, of which phase, and whether that ends there; in order.
    bounds: Vec<(u64, usize, bool)>,
    /// The bounds before it are passed.
    next: usize,
    /// By phase: its processes.
    members: Vec<Vec<ProcessId>>,
    /// What they had taken when it began, and when it ended.
    noted: Vec<[BTreeMap<ProcessId, Share>; 2]>,
}

impl Shares {
    /// For phases with these bounds and processes.
    pub(crate) fn new(phases: impl Iterator<Item = ((u64, u64), Vec<ProcessId>)>) -> Self {
        let mut this = Self::default();
        for (number, ((start_ns, end_ns), members)) in phases.enumerate() {
            this.bounds.extend([(start_ns, number, false), (end_ns, number, true)]);
            this.members.push(members);
            this.noted.push([BTreeMap::new(), BTreeMap::new()]);
        }
        this.bounds.sort_unstable();
        this
    }

    /// Something of this instant is about to count.
    #[inline]
    pub(crate) fn reach(&mut self, at_ns: u64, so_far: impl Fn(ProcessId) -> Share) {
        if self.bounds.get(self.next).is_some_and(|bound| bound.0 <= at_ns) {
            self.pass(at_ns, so_far);
        }
    }

    #[cold]
    fn pass(&mut self, at_ns: u64, so_far: impl Fn(ProcessId) -> Share) {
        while let Some(&(_, phase, ends)) = self.bounds.get(self.next).filter(|bound| bound.0 <= at_ns) {
            self.next += 1;
            let members = self.members.get(phase).map_or(&[][..], Vec::as_slice);
            if let Some(noted) = self.noted.get_mut(phase).and_then(|n| n.get_mut(usize::from(ends))) {
                *noted = members.iter().map(|&id| (id, so_far(id))).collect();
            }
        }
    }

    /// A process was on a CPU over `from..to`, which counts only now: at the bounds within it had taken its part already.
    #[inline]
    pub(crate) fn ran(&mut self, process: ProcessId, from: u64, to: u64) {
        let passed = self.bounds.get(..self.next).unwrap_or_default();
        for &(at_ns, phase, ends) in passed.iter().rev().take_while(|bound| bound.0 > from) {
            let noted = self.noted.get_mut(phase).and_then(|n| n.get_mut(usize::from(ends)));
            if let Some(share) = noted.and_then(|n| n.get_mut(&process)) {
                share.on_cpu_ns = share.on_cpu_ns.saturating_add(at_ns.min(to) - from);
            }
        }
    }

    /// What each process took of each phase, once all is counted.
    pub(crate) fn close(mut self, so_far: impl Fn(ProcessId) -> Share) -> Vec<BTreeMap<ProcessId, Share>> {
        self.pass(u64::MAX, so_far);
        let taken = |[before, after]: [BTreeMap<ProcessId, Share>; 2]| {
            let since =
                |(id, share): (ProcessId, Share)| (id, share.since(before.get(&id).copied().unwrap_or_default()));
            after.into_iter().map(since).collect()
        };
        self.noted.into_iter().map(taken).collect()
    }
}
