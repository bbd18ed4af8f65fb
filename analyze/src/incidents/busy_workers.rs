//! Busy workers: the submitting thread waits while threads of its workers run.
//!
//! Lost time: of what the submitter spent blocked in gaps, the part in which the worker at the end of the chain ran.
//! Must not fire for a thread that sleeps while nobody works for it, or where workers wait for a CPU.

use super::case::{Case, Group};
use super::{Incident, Layer};
use crate::chain::Part;

pub(super) fn find(case: &Case) -> Option<Incident> {
    let workers = case.processes_of(Group::Worker);
    let ids: Vec<_> = workers.iter().map(|(id, _)| *id).collect();
    if case.in_pieces() || case.is_faulting(&ids) {
        return None;
    }
    let lost_ns = case.workers_work_ns();
    let mut incident = case.incident("busy-workers", "waiting for its own workers", lost_ns)?;
    let label = case.label();
    incident.summary = format!(
        "{label} lost {} waiting for its workers, which ran meanwhile: {}",
        incident.lost(),
        case.names(&workers)
    );
    incident.root_cause = "the work that a batch needs on the CPU takes longer than the GPU needs for a batch".into();
    incident.recommendations = vec![
        "make a batch cheaper to prepare: fetch whole batches, collate less, decode less".into(),
        "more workers help only while CPUs are free".into(),
    ];
    let ran = |group, link: &crate::Link| if group == Group::Worker { link.ran } else { Part::default() };
    case.show(&mut incident, Layer::Host, "ran while the submitting thread waited for it", ran);
    case.show_longest_gap(&mut incident);
    Some(incident)
}
