//! Disks: which threads were woken by the completion of block I/O.
//!
//! A driver tells the block layer of a request that is done in an interrupt, and whoever waits for it is woken there, right
//! after, by the handler that told it. So a wake from an interrupt is a disk's where the same CPU completed a request just
//! before. Which interrupt that was differs: a hard one, the softirq of the block layer, the network's for a remote disk. That it
//! followed is not enough, since a busy disk completes something all the time: the thread must have waited as one does for a
//! disk, and the interrupt must not be known to be another's.

use ingero_format::catalog::{WOKEN_BY_DEVICE, WOKEN_BY_TIMER, Waking};
use ingero_replay::{OffCpu, Waker};

use crate::chain::{BLOCK, Machine, SOFTIRQ, is_disks_softirq, manner};

/// From a completion to the wakes that follow from it, in the same handler: a few microseconds each, and a handler may complete
/// many requests before it wakes anybody. A scheduler's tick, which may wake somebody else, comes each 1 to 10 ms.
const HANDLER_NS: u64 = 100_000;

/// CPUs of which completions are remembered at most: the number comes from the file.
const CPUS: usize = 1 << 14;

/// What is known of them at a moment of the walk.
#[derive(Debug)]
pub(crate) struct Disks {
    machine: Machine,
    /// When each CPU last completed a request, where it did.
    completed: Vec<Option<u64>>,
    /// The latest wake of each thread that a completion led to, by the thread's number: a row may name one that the file does not have.
    latest: Vec<Option<u64>>,
}

impl Disks {
    /// Of so many threads.
    pub(crate) fn new(machine: Machine, tasks: usize) -> Self {
        Self { machine, completed: Vec::new(), latest: vec![None; tasks] }
    }

    pub(crate) fn completes(&mut self, at_ns: u64, cpu: u32) {
        let cpu = cpu as usize;
        if cpu < CPUS && self.completed.len() <= cpu {
            self.completed.resize(cpu + 1, None);
        }
        keep(&mut self.completed, cpu, at_ns);
    }

    #[inline]
    pub(crate) fn wakes(&mut self, at_ns: u64, cpu: u32, e: &Waking) {
        if self.completed.is_empty() || e.context.is_none_or(|context| context == 0) {
            return;
        }
        let done_ns = self.completed.get(cpu as usize).copied().flatten();
        if done_ns.is_some_and(|done_ns| at_ns.saturating_sub(done_ns) <= HANDLER_NS) {
            keep(&mut self.latest, e.wakee.index(), at_ns);
        }
    }

    /// A stay with its waker, if that was a disk: as its own softirq would have woken it.
    #[inline]
    pub(crate) fn resolve(&self, stay: &OffCpu) -> Option<OffCpu> {
        let Waker::Interrupt { context, source, irq } = stay.waker else { return None };
        let (manner, vector) = (manner(stay), irq.filter(|_| context == SOFTIRQ));
        let is_anothers = source == Some(WOKEN_BY_TIMER) || vector.is_some_and(|vector| !is_disks_softirq(vector));
        if is_anothers || !self.machine.waits_for_disks(manner) {
            return None;
        }
        let at_ns = self.latest.get(stay.task.index()).copied().flatten()?;
        let waker = Waker::Interrupt { context: SOFTIRQ, source: Some(WOKEN_BY_DEVICE), irq: Some(BLOCK) };
        (stay.runnable_ns == Some(at_ns)).then_some(OffCpu { waker, ..*stay })
    }
}

/// Keeps an instant in a place, if there is such a one.
fn keep(places: &mut [Option<u64>], at: usize, ns: u64) {
    if let Some(place) = places.get_mut(at) {
        *place = Some(ns);
    }
}
