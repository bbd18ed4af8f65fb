//! Causes of lost time, one rule per file.
//!
//! A rule looks at one phase and says what it lost, to whom, and what can be seen of it. An
//! incident's severity follows the wall-clock time that its phase lost to it, never the time that
//! several workers lost side by side.

mod busy_main;
mod busy_workers;
mod contention;
mod quota;

use ingero_format::catalog::TaskId;
use ingero_replay::{ProcessId, Spent};

use crate::Analysis;
use crate::figures::{GapFigures, PhaseFigures};
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
    fn of(share: f64) -> Self {
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
    /// The same as a share of the phase.
    pub share: f64,
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
    /// A name that stays the same from run to run over the same trace.
    #[must_use]
    pub fn id(&self, analysis: &Analysis) -> String {
        format!("{}-{}-{}", self.kind, analysis.processes.get(self.process).pid, self.phase)
    }
}

/// Below this share of its phase a cause is not worth a line.
const SHARE_FROM: f64 = 0.01;

/// Gaps shorter than this are no loss: they are of the order of a launch itself, and what is queued
/// on the device outlasts them. A loop that submits back to back has no other gaps.
const GAP_FROM_NS: u64 = 50_000;

/// A phase in which a rule looks for its cause.
pub(crate) struct Case<'a> {
    pub(crate) analysis: &'a Analysis<'a>,
    pub(crate) number: usize,
    pub(crate) phase: &'a PhaseFigures,
}

impl Case<'_> {
    /// What happened in the gaps that count as lost.
    fn gaps(&self) -> impl Iterator<Item = &GapFigures> {
        let gaps = self.phase.phase.gaps.iter().zip(&self.phase.gaps);
        gaps.filter(|(gap, _)| gap.len_ns() >= GAP_FROM_NS).map(|(_, figures)| figures)
    }

    /// What the submitting threads did in the gaps that count as lost.
    fn submitters(&self) -> Spent {
        self.gaps().fold(Spent::default(), |mut sum, g| {
            sum += g.submitter;
            sum
        })
    }

    /// An incident of this phase, if it lost enough.
    fn incident(&self, kind: &'static str, lost_ns: u64) -> Option<Incident> {
        let share = ratio(lost_ns, self.phase.phase.len_ns());
        (share >= SHARE_FROM).then(|| Incident {
            kind,
            severity: Severity::of(share),
            process: self.phase.phase.process,
            phase: self.number,
            lost_ns,
            share,
            summary: String::new(),
            root_cause: String::new(),
            recommendations: Vec::new(),
            timeline: Vec::new(),
            evidence: Vec::new(),
        })
    }

    /// The phase's longest gap, as a moment and as evidence.
    fn show_longest_gap(&self, incident: &mut Incident) {
        let gaps = self.phase.phase.gaps.iter().enumerate();
        let Some((at, gap)) = gaps.max_by_key(|(i, g)| (g.len_ns(), std::cmp::Reverse(*i))) else { return };
        let spent = self.phase.gaps.get(at).copied().unwrap_or_default().submitter;
        let detail = format!(
            "no submission for {}; its thread ran {}, could have run {}, was blocked {}",
            seconds(gap.len_ns()),
            seconds(spent.running_ns),
            seconds(spent.runnable_ns),
            seconds(spent.blocked_ns)
        );
        let (start_ns, end_ns, task) = (gap.start_ns, gap.end_ns, gap.submitter);
        incident.timeline.push(Moment { layer: Layer::Host, detail, start_ns, end_ns, task });
        incident.evidence.push(Evidence { what: "longest gap between submissions".into(), task, start_ns, end_ns });
    }
}

/// Of the time that the submitting thread was blocked in a gap: what its helpers did meanwhile.
///
/// The blocked time is divided as the helpers' time is, and is never more than the helpers
/// themselves spent so: a thread that sleeps while some helper runs for a moment waits for that
/// moment at most.
fn divide_blocked(gap: &GapFigures) -> Spent {
    let blocked = u128::from(gap.submitter.blocked_ns);
    let h = gap.helpers;
    let all = u128::from(h.runnable_ns) + u128::from(h.running_ns) + u128::from(h.throttled_ns);
    let part = |of: u64| {
        let ns = (blocked * u128::from(of)).checked_div(all).unwrap_or(0);
        u64::try_from(ns).unwrap_or(u64::MAX).min(of)
    };
    Spent {
        running_ns: part(h.running_ns),
        runnable_ns: part(h.runnable_ns),
        throttled_ns: part(h.throttled_ns),
        blocked_ns: 0,
    }
}

pub(crate) fn find(analysis: &Analysis) -> Vec<Incident> {
    let rules = [contention::find, quota::find, busy_main::find, busy_workers::find];
    let cases = analysis.phases.iter().enumerate().map(|(number, phase)| Case { analysis, number, phase });
    let mut found: Vec<Incident> =
        cases.flat_map(|case| rules.iter().filter_map(|rule| rule(&case)).collect::<Vec<_>>()).collect();
    found.sort_by_key(|i| (std::cmp::Reverse(i.lost_ns), i.phase, i.kind));
    found
}

#[expect(clippy::cast_precision_loss, reason = "shares are for comparing and showing")]
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests;
