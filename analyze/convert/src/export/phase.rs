//! The figures of a phase, as tables have them: none where they are not known.

use ingero_analyze::{Analysis, Busy, PhaseFigures};

/// What is known of a phase beside its begin, its end and its name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Figures {
    pub(crate) submissions: Option<u64>,
    /// The part of it in which its process asked a GPU for anything.
    pub(crate) asked_ns: Option<u64>,
    pub(crate) gaps: Option<u64>,
    pub(crate) gaps_ns: Option<u64>,
    pub(crate) gaps_share: Option<f64>,
    /// Of the gaps, those that count as lost time.
    pub(crate) lost_gaps: Option<u64>,
    pub(crate) lost_gaps_ns: Option<u64>,
    pub(crate) gaps_running_ns: Option<u64>,
    pub(crate) gaps_runnable_ns: Option<u64>,
    pub(crate) gaps_throttled_ns: Option<u64>,
    pub(crate) gaps_blocked_ns: Option<u64>,
    pub(crate) workers: u64,
    pub(crate) warm_up: bool,
    pub(crate) step_ns: Option<u64>,
    /// How busy the GPU was by its own count.
    pub(crate) busy: Option<Busy>,
}

impl Figures {
    pub(crate) fn new(a: &Analysis, p: &PhaseFigures) -> Self {
        // A sample does not tell what was submitted, nor what was between.
        let known = |n: u64| p.phase.sample.is_none().then_some(n);
        // Nor does a phase in all of which events were lost.
        let of_gaps = |n: u64| known(n).filter(|_| !p.is_unclaimed());
        let spent = a.in_gaps(p);
        Self {
            submissions: known(p.phase.submissions),
            asked_ns: known(p.phase.asked_ns()),
            gaps: of_gaps(p.phase.gaps.len() as u64),
            gaps_ns: of_gaps(p.phase.gaps_ns()),
            gaps_share: p.starved_share().filter(|_| p.phase.sample.is_none()),
            lost_gaps: of_gaps(p.lost_gaps().count() as u64),
            lost_gaps_ns: of_gaps(p.lost_gaps_ns()),
            gaps_running_ns: spent.map(|s| s.running_ns),
            gaps_runnable_ns: spent.map(|s| s.runnable_ns),
            gaps_throttled_ns: spent.filter(|_| a.knows_throttling_of(p.phase.process)).map(|s| s.throttled_ns),
            gaps_blocked_ns: spent.map(|s| s.blocked_ns),
            workers: p.phase.workers as u64,
            warm_up: p.phase.warm_up,
            step_ns: p.phase.step_ns,
            busy: p.busy,
        }
    }
}
