//! Who was on the CPUs that processes could have run on.

use ingero_replay::ProcessId;

use crate::figures::ProcessFigures;
use crate::ledger::grow;

/// Pairs of processes whose time is added up apart from the others'. A power of two.
const PAIRS: usize = 1 << 12;

/// Who was on the CPU that a process could have run on, of the pairs that came last: looking a pair up among all holders
/// of a process for each wait would take longer than everything else that is done about the wait.
pub(crate) struct Behind {
    /// Waiter, holder, time. Each pair has one slot that it may be in.
    slots: Vec<(ProcessId, ProcessId, u64)>,
}

impl Behind {
    /// Nobody waited for anybody yet.
    pub(crate) fn new() -> Self {
        Self { slots: vec![(ProcessId::IDLE, ProcessId::IDLE, 0); PAIRS] }
    }

    /// Adds to a pair's time. What was in its slot goes to the figures.
    #[inline]
    pub(crate) fn add(&mut self, waiter: ProcessId, holder: ProcessId, ns: u64, figures: &mut [ProcessFigures]) {
        let at = waiter.0.wrapping_mul(31).wrapping_add(holder.0) as usize & (PAIRS - 1);
        let Some(slot) = self.slots.get_mut(at) else { return };
        if (slot.0, slot.1) != (waiter, holder) {
            Self::settle(std::mem::replace(slot, (waiter, holder, 0)), figures);
        }
        grow(&mut slot.2, ns);
    }

    fn settle((waiter, holder, ns): (ProcessId, ProcessId, u64), figures: &mut [ProcessFigures]) {
        if ns > 0
            && let Some(f) = figures.get_mut(waiter.index())
        {
            grow(f.behind.entry(holder).or_default(), ns);
        }
    }

    /// Gives what is left to the figures.
    pub(crate) fn close(&mut self, figures: &mut [ProcessFigures]) {
        self.slots.drain(..).for_each(|slot| Self::settle(slot, figures));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_that_share_a_slot_keep_their_own_times() {
        let mut figures = vec![ProcessFigures::default(); 3];
        let mut behind = Behind::new();
        // The second and third share a slot, and the last is as much as there is.
        let slots = u32::try_from(PAIRS).unwrap();
        let holders = [ProcessId(1), ProcessId(5), ProcessId(5 + slots)];
        for ns in 1..=10 {
            for holder in holders {
                behind.add(ProcessId(1), holder, ns, &mut figures);
            }
        }
        behind.add(ProcessId(2), ProcessId(1), u64::MAX, &mut figures);
        behind.add(ProcessId(2), ProcessId(1), 1, &mut figures);
        behind.close(&mut figures);
        assert_eq!(figures[1].behind, holders.map(|h| (h, 55)).into());
        assert_eq!(figures[2].behind, [(ProcessId(1), u64::MAX)].into());
        assert!(figures[0].behind.is_empty());
    }
}
