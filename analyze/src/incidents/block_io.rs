//! Block I/O: a gap ends with a disk.
//!
//! Lost time: what the chains' threads spent in waits that the completion of block I/O ended: a request was done on the waking
//! CPU just before, or the softirq is that of block devices; where the trace has no requests, waits that no signal could end
//! (pages read in). Must not fire for sockets, timers, device calls, or interrupts of which nobody knows whose they were.

use super::case::{Case, Group};
use super::{Incident, Layer, seconds};
use crate::chain::Ending;

pub(super) fn find(case: &Case) -> Option<Incident> {
    let lost_ns = case.all(|s| s.ended_ns(Ending::Disk));
    let mut incident = case.incident("block-io", "waiting for disk", lost_ns)?;
    let direct = case.of(Group::Submitter).ended_ns(Ending::Disk);
    incident.summary = format!(
        "{} lost {} waiting for disk: its submitting thread {}, threads that it waited for {}",
        case.label(),
        incident.lost(),
        seconds(direct),
        seconds(lost_ns.saturating_sub(direct))
    );
    incident.root_cause = "data was not in memory when it was needed, and had to be read".into();
    incident.recommendations = vec![
        "read ahead: more workers with a larger prefetch, larger sequential reads, fewer and larger files".into(),
        "keep the data in memory or on a faster disk".into(),
    ];
    case.show(&mut incident, Layer::System, "waited for disk", |_, link| link.ended(Ending::Disk));
    case.show_longest_gap(&mut incident);
    Some(incident)
}
