//! Launch-bound: kernels so small that the device is done with each before the next one is launched.
//!
//! Sign: bursts of ten submissions and more, back to back, and a wait behind each that returns at once (within 50 us),
//! so that the device was done already: one for all that was submitted, not for another stream, or an event that was recorded before. Lost time: the length of those bursts: the host was at launching all that
//! time, and the device at most busy in between. Gaps of 50 us and more end a burst, so none is told twice; slow copies, and
//! allocations and releases, within one are told by the rules for those. Must not fire where waits take long (the device is behind), or where nothing waits (nobody knows).

use ingero_format::catalog::Kind;

use super::case::Case;
use super::{Incident, Layer, seconds};
use crate::figures::Stretch;
use crate::sum;

pub(super) fn find(case: &Case) -> Option<Incident> {
    let bursts = &case.phase.phase.bursts;
    let (lost_ns, fed_ns) = case.bursts_ns();
    let mut incident = case.incident("launch-bound", "launching kernels one by one", lost_ns)?;
    incident.at_most |= true;
    let submissions = sum(bursts.iter().map(|b| b.submissions));
    incident.summary = format!(
        "{} lost {} launching small kernels one by one: {} submissions, {} each, and the device was done as soon as it was asked",
        case.label(),
        incident.lost(),
        case.counted(Kind::Call, submissions),
        seconds(lost_ns.checked_div(submissions).unwrap_or(0))
    );
    incident.root_cause = "kernels take less time on the device than launching them takes on the host".into();
    incident.counts_as_fed(fed_ns, "its host was in the launches themselves");
    incident.recommendations = vec![
        "put the launches of a step into a CUDA graph (torch.cuda.graph, torch.compile mode reduce-overhead)".into(),
        "fuse small kernels, or give each more work (larger batches)".into(),
    ];
    let longest = bursts.iter().rev().max_by_key(|b| b.end_ns - b.start_ns)?;
    let stretch = Stretch { task: longest.submitter, start_ns: longest.start_ns, end_ns: longest.end_ns };
    case.show_stretch(&mut incident, Layer::Runtime, "launched back to back", stretch);
    Some(incident)
}
