//! What happened beside scheduling and calls, as far as rules ask for it.

use std::collections::{BTreeMap, HashMap};

use ingero_format::Trace;
use ingero_format::catalog::{Body, Kind, ProcessCgroup, StrId, TaskId};
use ingero_replay::{Event, Merge, ProcessId, Processes, Window};

use crate::figures::Stretch;

/// A process was killed for want of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kill {
    pub(crate) at_ns: u64,
    /// Who wanted memory.
    pub(crate) task: TaskId,
    pub(crate) victim: ProcessId,
    pub(crate) bytes: Option<u64>,
}

/// The kills of a range, in order.
pub(crate) fn kills(trace: &Trace, processes: &Processes, window: &Window) -> Vec<Kill> {
    let kill = |event: Event| match event.body {
        Body::OomKill(e) if window.holds(event.ts_ns) => {
            let victim = processes.of(e.victim);
            Some(Kill { at_ns: event.ts_ns, task: e.task, victim, bytes: e.anon_bytes })
        }
        _ => None,
    };
    Merge::of(trace, |k| k == Kind::OomKill).filter_map(kill).collect()
}

/// A segment was sent again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Retransmit {
    pub(crate) at_ns: u64,
    pub(crate) peer: StrId,
    /// The host that sent it; none where the source does not tell the CPU.
    pub(crate) host: Option<usize>,
}

/// All of it, within the range.
#[derive(Debug, Default)]
pub(crate) struct Signs {
    /// Direct reclaim, by process.
    pub(crate) reclaims: BTreeMap<ProcessId, Vec<Stretch>>,
    pub(crate) retransmits: Vec<Retransmit>,
    /// The control group that each process is in.
    cgroups: HashMap<ProcessId, StrId>,
    /// Page faults, by process.
    pub(crate) faults: BTreeMap<ProcessId, u64>,
}

impl Signs {
    pub(crate) fn add(&mut self, at_ns: u64, body: &Body, processes: &Processes) {
        match body {
            Body::Reclaim(e) => {
                // Without its length, or its begin, nobody knows what it cost.
                if let (Some(dur_ns), Some(_)) = (e.dur_ns, e.order) {
                    let end_ns = at_ns.saturating_add(dur_ns);
                    let list = self.reclaims.entry(processes.of(e.task)).or_default();
                    list.push(Stretch { task: e.task, start_ns: at_ns, end_ns });
                }
            }
            Body::PageFault(e) => *self.faults.entry(processes.of(e.task)).or_default() += 1,
            _ => {}
        }
    }

    /// A host sends a segment again: that holds up nobody on another one.
    pub(crate) fn sends_again(&mut self, at_ns: u64, host: Option<usize>, peer: StrId) {
        self.retransmits.push(Retransmit { at_ns, peer, host });
    }

    /// A process is in this control group from now on, in whatever range: it is said once.
    pub(crate) fn joins(&mut self, e: &ProcessCgroup, processes: &Processes) {
        self.cgroups.insert(processes.of(e.task), e.cgroup);
    }

    /// The control group of a process, where the trace says. One that was too short-lived to be asked is in its parent's, where
    /// it was born.
    pub(crate) fn cgroup(&self, id: ProcessId, processes: &Processes) -> Option<StrId> {
        processes.line(id).find_map(|id| self.cgroups.get(&id).copied())
    }
}
