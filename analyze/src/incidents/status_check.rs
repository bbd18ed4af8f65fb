//! Waits of 5 s on purpose: a loader that gets no data looks every 5 s whether its workers are alive.
//!
//! Lost time: timed waits of the submitting thread, or of one that it waited for, that ran out after 5.000 s
//! (`PyTorch`'s `MP_STATUS_CHECK_INTERVAL`). Nothing came in all that time. Must not fire for other timed waits, or for
//! sleeps.

use super::case::Case;
use super::{Incident, Layer};
use crate::chain::Ending;

pub(super) fn find(case: &Case) -> Option<Incident> {
    let lost_ns = case.all(|s| s.ended_ns(Ending::StatusCheck));
    let mut incident = case.incident("status-check", "5 s waits for data that did not come", lost_ns)?;
    incident.summary = format!(
        "{} lost {} in timed waits of 5.000 s that ran out: no worker gave anything in that time",
        case.label(),
        incident.lost()
    );
    incident.root_cause =
        "these waits are made on purpose, to look after workers; that they run out means that data was not there for 5 s".into();
    incident.recommendations =
        vec!["see what the workers did in the evidence's stretches: they were stuck, or slow, or gone".into()];
    case.show(&mut incident, Layer::Host, "waited in vain", |_, link| link.ended(Ending::StatusCheck));
    case.show_longest_gap(&mut incident);
    Some(incident)
}
