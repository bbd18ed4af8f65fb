//! Busy workers: the submitting thread waits while threads that work for it run.
//!
//! Lost time: of what the submitter spent blocked in a gap, the part that its helpers spent
//! running rather than waiting for a CPU. Must not fire for a thread that sleeps while nobody works
//! for it.

use super::{Case, Evidence, Incident, Layer, Moment, divide_blocked, seconds};
use crate::sum;

/// Helpers that the timeline shows.
const SHOWN: usize = 3;

pub(super) fn find(case: &Case) -> Option<Incident> {
    let (a, p) = (case.analysis, case.phase);
    let lost = sum(case.gaps().map(|g| divide_blocked(g).running_ns));
    let mut incident = case.incident("busy-workers", lost)?;
    let label = a.label(incident.process);
    let mut helpers: Vec<_> = p.helpers.iter().filter(|(_, s)| s.running_ns > 0).collect();
    helpers.sort_by_key(|(task, s)| (std::cmp::Reverse(s.running_ns), **task));
    let ran = sum(helpers.iter().map(|(_, s)| s.running_ns));
    incident.summary = format!(
        "{label} lost {} waiting for threads that work for it: {} of them ran for {} meanwhile",
        seconds(lost),
        helpers.len(),
        seconds(ran)
    );
    incident.root_cause = "the work that a batch needs on the CPU takes longer than the GPU needs for a batch".into();
    incident.recommendations = vec![
        "make a batch cheaper to prepare: fetch whole batches, collate less, decode less".into(),
        "more workers help only while CPUs are free".into(),
    ];
    for (task, s) in helpers.iter().take(SHOWN) {
        let gaps = &p.phase.gaps;
        let (Some(first), Some(last)) = (gaps.first(), gaps.last()) else { break };
        let detail = format!(
            "{} ran {}, could have run {} more, was blocked {}, over all gaps",
            a.thread_label(**task),
            seconds(s.running_ns),
            seconds(s.runnable_ns),
            seconds(s.blocked_ns)
        );
        let (start_ns, end_ns, task) = (first.start_ns, last.end_ns, **task);
        incident.timeline.push(Moment { layer: Layer::Host, detail, start_ns, end_ns, task });
        incident.evidence.push(Evidence {
            what: "works while the submitting thread waits".into(),
            task,
            start_ns,
            end_ns,
        });
    }
    case.show_longest_gap(&mut incident);
    Some(incident)
}
