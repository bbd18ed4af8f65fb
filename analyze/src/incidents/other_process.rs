//! Another process: the submitting thread, or one that it waited for, waits for a process outside of its family.
//!
//! Lost time: what threads of processes that do not descend from the phase's own ran at the ends of its chains: a
//! server on the same host, a data service, a kernel thread. Must not fire for the process's own workers.

use super::case::{Case, Group};
use super::{Incident, Layer};
use crate::chain::Part;

pub(super) fn find(case: &Case) -> Option<Incident> {
    let lost_ns = case.of(Group::Other).ran_ns;
    let mut incident = case.incident("other-process", "waiting for another process", lost_ns)?;
    let processes = case.processes_of(Group::Other);
    incident.summary = format!(
        "{} lost {} waiting for processes that are not its own, which ran meanwhile: {}",
        case.label(),
        incident.lost(),
        case.names(&processes)
    );
    incident.root_cause = format!("{} did what it waited for", case.grouped(&processes));
    incident.recommendations =
        vec!["see what these processes do for it: they are part of its pipeline, and its slowest".into()];
    let ran = |group, link: &crate::Link| if group == Group::Other { link.ran } else { Part::default() };
    case.show(&mut incident, Layer::System, "ran while it was waited for", ran);
    case.show_longest_gap(&mut incident);
    Some(incident)
}
