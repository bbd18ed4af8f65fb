//! Synchronisation too often: a wait for the device follows nearly every submission.
//!
//! Lost time: what the submitting threads ran in gaps that a wait began and that are shorter than a millisecond. The
//! device had nothing left to do then, and all that the host does until its next submission is idle time; without the
//! wait it would have been done while the device was busy. Must not fire where waits are rare (fewer than one for
//! two submissions), or where the gaps behind them are short beside the work.

use ingero_format::catalog::Kind;

use super::case::Case;
use super::{Incident, Layer, seconds};

pub(super) fn find(case: &Case) -> Option<Incident> {
    if !case.waits_too_often() {
        return None;
    }
    let lost_ns = case.after_waits_ns();
    let mut incident = case.incident("waits-too-often", "waiting for the device too often", lost_ns)?;
    let p = case.phase;
    incident.op = p.waits.op();
    incident.summary = format!(
        "{} lost {} because it waits for the device after nearly every submission: {} waits for {} submissions",
        case.label(),
        incident.lost(),
        case.counted(Kind::Call, p.waits.count),
        case.counted(Kind::Call, p.phase.submissions)
    );
    incident.root_cause =
        "after each wait the device has nothing to do until the host has prepared its next submission".into();
    // What is queued outlasts short gaps elsewhere; behind a wait nothing is.
    let short_ns = case.after_waits_short_ns();
    if crate::report::matters(short_ns, lost_ns) {
        incident.root_cause += &format!(
            "; {} of it lies in gaps below {}, which count here, for behind a wait nothing is queued",
            seconds(short_ns),
            crate::report::lost_from()
        );
    }
    incident.recommendations = vec![
        "take results back seldom: .item(), .cpu(), print(loss) and synchronize() in the loop each wait for the device"
            .into(),
        "let several steps be under way: non_blocking copies, events instead of synchronisation".into(),
    ];
    if let Some(longest) = p.waits.longest {
        case.show_stretch(&mut incident, Layer::Runtime, "waited for the device", longest);
    }
    case.show_longest_gap(&mut incident);
    Some(incident)
}
