//! Causes of lost time, one rule per file.
//!
//! A rule looks at one phase and says what it lost, to whom, and what can be seen of it. An
//! incident's severity follows the wall-clock time that its phase lost to it, never the time that
//! several workers lost side by side.

mod affinity;
mod allocations;
mod block_io;
mod busy_main;
mod busy_main_sampled;
mod busy_workers;
mod case;
mod contention;
mod graph_capture;
mod hand_over;
mod interpreter_lock;
mod launch_bound;
mod memory_pressure;
mod network;
mod oom_kill;
mod other_process;
mod own_workers;
mod page_faults;
mod pageable_copies;
mod quota;
mod status_check;
mod straggler;
mod waits_too_often;
mod wake_up;

use std::collections::BTreeMap;

use ingero_format::catalog::TaskId;
use ingero_replay::ProcessId;

use case::Case;

use crate::Analysis;
use crate::report::duration as seconds;

/// How much of a phase an incident cost: HIGH from 20 %, MEDIUM from 5 %.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Below 5 % of the phase.
    Low,
    /// From 5 % of the phase.
    Medium,
    /// From 20 % of the phase.
    High,
}

impl Severity {
    pub(crate) fn of(share: f64) -> Self {
        match share {
            s if s >= 0.20 => Self::High,
            s if s >= 0.05 => Self::Medium,
            _ => Self::Low,
        }
    }

    /// Name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Low => "LOW",
            Self::Medium => "MEDIUM",
            Self::High => "HIGH",
        }
    }
}

/// Where in the stack a moment of an incident was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// The kernel and other processes.
    System,
    /// The process itself.
    Host,
    /// The CUDA runtime.
    Runtime,
    /// The CUDA driver.
    Driver,
}

impl Layer {
    /// Name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "SYSTEM",
            Self::Host => "HOST",
            Self::Runtime => "RUNTIME",
            Self::Driver => "DRIVER",
        }
    }
}

/// One moment of an incident.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    /// Where in the stack.
    pub layer: Layer,
    /// What was the case.
    pub detail: String,
    /// From when on.
    pub start_ns: u64,
    /// Until when.
    pub end_ns: u64,
    /// The thread.
    pub task: TaskId,
}

/// Something that can be looked up in a timeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// What is to be seen there.
    pub what: String,
    /// The thread.
    pub task: TaskId,
    /// From when on.
    pub start_ns: u64,
    /// Until when.
    pub end_ns: u64,
}

/// One cause of lost time of one process in one phase.
#[derive(Debug, Clone, PartialEq)]
pub struct Incident {
    /// What kind of cause.
    pub kind: &'static str,
    /// How bad.
    pub severity: Severity,
    /// Process that lost the time.
    pub process: ProcessId,
    /// Phase in which it did.
    pub phase: usize,
    /// Wall-clock time lost.
    pub lost_ns: u64,
    /// Whether that is the most that may have been lost: what the GPU did meanwhile the recording does not show.
    pub at_most: bool,
    /// Whether there would be more, had the GPU not been busy meanwhile by its own count.
    pub(crate) capped: bool,
    /// Of that, what lies in no gap between submissions: as far as the host tells, the GPU was fed then.
    pub fed_ns: u64,
    /// Whether it is too small to be told by itself; whoever compares two recordings wants to know it all the same.
    pub(crate) minor: bool,
    /// The same as a share of the phase.
    pub share: f64,
    /// The lost time in a few words, as the verdict names it: `its main thread being busy`.
    pub cause: &'static str,
    /// Function whose calls cost the time, where it is one.
    pub op: Option<ingero_format::catalog::FuncId>,
    /// One line that a person can repeat.
    pub summary: String,
    /// What brought it about.
    pub root_cause: String,
    /// What to do, as far as the cause tells.
    pub recommendations: Vec<String>,
    /// What happened, by layer and time.
    pub timeline: Vec<Moment>,
    /// Where to look.
    pub evidence: Vec<Evidence>,
}

impl Incident {
    /// The lost time in words: `3.25 s`, or `up to 3.25 s`.
    #[must_use]
    pub fn lost(&self) -> String {
        crate::report::most(self.at_most, &seconds(self.lost_ns))
    }

    /// What of it counts as fed, and why, is told with its cause.
    fn counts_as_fed(&mut self, fed_ns: u64, why: &str) {
        self.fed_ns = fed_ns.min(self.lost_ns);
        if let Some(fed) = self.fed() {
            self.root_cause += &format!("; {fed} of the lost time counts as time in which the GPU was fed: {why}");
        }
    }

    /// How much of it counts as fed, in words: `911 ms` or `all`; none where that does not matter.
    pub(crate) fn fed(&self) -> Option<String> {
        let (fed, lost) = (seconds(self.fed_ns), seconds(self.lost_ns));
        let part = if fed == lost { "all".to_owned() } else { fed };
        crate::report::matters(self.fed_ns, self.lost_ns).then_some(part)
    }

    /// A name that stays the same from run to run over the same range of a trace. Phases are numbered by range, so another
    /// range may give it another one; one phase alone (`--phase`) keeps its number.
    #[must_use]
    pub fn id(&self, analysis: &Analysis) -> String {
        format!("{}-{}-{}", self.kind, analysis.processes.get(self.process).pid, self.phase)
    }
}

/// Below this share of its phase a cause is not worth a line.
const SHARE_FROM: f64 = 0.01;

/// What finds a cause, and what it may call it.
struct Rule {
    kinds: &'static [&'static str],
    find: fn(&Case) -> Option<Incident>,
}

const fn rule(kinds: &'static [&'static str], find: fn(&Case) -> Option<Incident>) -> Rule {
    Rule { kinds, find }
}

/// Every rule. Each takes other parts of the lost time than the others: no nanosecond is lost twice.
const RULES: &[Rule] = &[
    rule(&["cpu-contention", "noisy-neighbour"], contention::find),
    rule(&["too-many-workers"], own_workers::find),
    rule(&["wake-up-latency"], wake_up::find),
    rule(&["cpu-quota"], quota::find),
    rule(&["busy-main"], busy_main::find),
    rule(&["busy-workers"], busy_workers::find),
    rule(&["hand-over"], hand_over::find),
    rule(&["page-faults"], page_faults::find),
    rule(&["interpreter-lock"], interpreter_lock::find),
    rule(&["status-check"], status_check::find),
    rule(&["block-io"], block_io::find),
    rule(&["network", "tcp-retransmits"], network::find),
    rule(&["other-process"], other_process::find),
    rule(&["allocation-churn"], allocations::find),
    rule(&["waits-too-often"], waits_too_often::find),
    rule(&["launch-bound"], launch_bound::find),
    rule(&["pageable-copies"], pageable_copies::find),
    rule(&["affinity-squeeze"], affinity::find),
    rule(&["memory-pressure"], memory_pressure::find),
    rule(&["oom-kill"], oom_kill::find),
    rule(&[straggler::KIND], straggler::find),
    rule(&["graph-capture"], graph_capture::find),
];

/// The rules for a source that kept a sample: it tells nothing of gaps and states, on which all others rest.
const SAMPLED_RULES: &[Rule] = &[rule(&["busy-main"], busy_main_sampled::find)];

/// The rules for a phase without a submission: a kill may be why there is none.
const SILENT_RULES: &[Rule] = &[rule(&["oom-kill"], oom_kill::find)];

/// The incidents of all phases, worst first, and behind them those that are too small to be told.
pub(crate) fn find(analysis: &Analysis) -> (Vec<Incident>, Vec<Incident>) {
    // What a process does before it is warm says nothing about the run.
    let phases = analysis.phases.iter().filter(|p| !p.phase.warm_up);
    // Where a process submits nothing its GPU is not asked for: what it does then is told, and is no lost time.
    let rules = |phase: &crate::PhaseFigures| match (phase.phase.sample.is_some(), phase.silence.is_some()) {
        (true, _) => SAMPLED_RULES,
        (false, true) => SILENT_RULES,
        (false, false) => RULES,
    };
    let of_phase = |phase| {
        let find = |case: &Case| rules(phase).iter().filter_map(|rule| (rule.find)(case)).collect::<Vec<_>>();
        let mut case = Case::new(analysis, phase);
        let found = find(&case);
        let Some(idle_ns) = phase.busy.and_then(|busy| busy.idle_beside_queue_ns()) else { return found };
        case.most_ns = shared_out(&found, idle_ns);
        let found = find(&case);
        let found = found.into_iter().filter(|incident| incident.lost_ns > 0 || !incident.capped);
        found.map(|incident| beside_queue(incident, phase)).collect()
    };
    let mut found: Vec<Incident> = phases.flat_map(of_phase).collect();
    debug_assert!(found.iter().all(|i| RULES.iter().chain(SAMPLED_RULES).any(|r| r.kinds.contains(&i.kind))));
    found.sort_by_key(|i| (std::cmp::Reverse(i.lost_ns), i.phase, i.kind));
    found.into_iter().partition(|i| !i.minor)
}

/// What each kind may count of the time in which a GPU was idle, those first that would have lost most: together they count no more.
fn shared_out(found: &[Incident], mut idle_ns: u64) -> BTreeMap<&'static str, u64> {
    let mut by_loss: Vec<_> = found.iter().collect();
    by_loss.sort_by_key(|i| (std::cmp::Reverse(i.lost_ns), i.kind));
    // Who waits for another rank does so in a kernel, on a GPU that is busy.
    let queued = by_loss.into_iter().filter(|i| i.kind != straggler::KIND);
    queued
        .map(|i| {
            let ns = i.lost_ns.min(idle_ns);
            idle_ns -= ns;
            (i.kind, ns)
        })
        .collect()
}

/// An incident that says why its lost time is no more.
fn beside_queue(mut incident: Incident, phase: &crate::PhaseFigures) -> Incident {
    if let Some((busy, idle_ns)) =
        phase.busy.filter(|_| incident.capped).and_then(|busy| Some((busy, busy.idle_beside_queue_ns()?)))
    {
        let idle = seconds(idle_ns);
        incident.root_cause += &format!(
            "; {}: it had work queued, and had none for about {idle} at most, for all causes together",
            busy.words()
        );
    }
    incident
}

/// How bad it is for a phase to lose so much.
pub(crate) fn severity_of(lost_ns: u64, phase: &crate::Phase) -> Severity {
    Severity::of(ratio(lost_ns, phase.claimed_ns()))
}

#[expect(clippy::cast_precision_loss, reason = "shares are for comparing and showing")]
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod rules;
#[cfg(test)]
mod tests;
