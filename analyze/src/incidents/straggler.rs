//! A straggler among ranks: one process enters its collectives later than the others, which wait for it; on one host, or across
//! the hosts of a merged recording.
//!
//! Lost time of a rank: all moments of its phase in which it has entered an exchange and the last one has not, less what the
//! clocks of their hosts leave in doubt. What the rank submits meanwhile the device does not begin: no gap in that time has
//! another cause; slow copies and bursts of launches have theirs. It is told of ranks that wait, about the rank that comes last
//! to two thirds of the exchanges, where the waiting rank stands still for half of that time at least: one that goes on submitting
//! runs ahead of its own device, and a peer that is behind it by the same time in each step costs it nothing. Must not fire where
//! that is so, where the last one changes from exchange to exchange, where the ranks did not make equally many, or where another
//! rank is as late as far as the clocks can tell. Behind a lost call nobody's collectives can be numbered.

use super::case::Case;
use super::{Incident, Layer, seconds};
use crate::figures::Stretch;

pub(super) const KIND: &str = "nccl-straggler";

pub(super) fn find(case: &Case) -> Option<Incident> {
    let a = case.analysis;
    let late = case.phase.phase.late.as_ref()?;
    let (lost_ns, fed_ns) = case.waits_for_ranks_ns(late);
    let mut incident = case.incident(KIND, "another rank that comes late", lost_ns)?;
    incident.at_most |= true;
    let on = |host: &Option<String>| host.as_ref().map_or(String::new(), |h| format!(" on {}", crate::printable(h)));
    incident.summary = format!(
        "{} (rank {}{}) lost {}: it was ready that long in all before rank {}, {}{}, which came last to {} of {} collectives",
        case.label(),
        late.rank,
        on(&late.on),
        incident.lost(),
        late.straggler,
        a.label(late.process),
        on(&late.straggler_on),
        late.waits.len(),
        late.exchanges
    );
    incident.root_cause = format!(
        "rank {} takes longer for its part of a step than the others; a GPU that still had work when its rank was ready, which is not recorded, waited less",
        late.straggler
    );
    let (all, seen) = late.ranks;
    if seen < all {
        incident.root_cause +=
            &format!("; only {seen} of the {all} ranks were recorded, and another may be later still");
    }
    match late.doubt_ns {
        0 => {}
        doubt_ns => {
            let doubt = seconds(doubt_ns);
            incident.root_cause += &format!(
                "; it is told by the wall clocks of two hosts, of each wait {doubt} is left out for what these may differ by"
            );
        }
    }
    incident.counts_as_fed(
        fed_ns,
        "its host had submitted, or waited for the device, which stands still in a collective all the same",
    );
    incident.recommendations = vec![
        format!("see what {} waits for: its own incidents in this report", a.label(late.process)),
        "give each rank equally much to do: sequence lengths, numbers of samples, CPUs, a share of the data loading"
            .into(),
    ];
    if let Some(longest) = late.waits.iter().max_by_key(|w| (w.len_ns(), std::cmp::Reverse(w.start_ns))) {
        case.show_stretch(&mut incident, Layer::Runtime, "was ready and its peer was not", *longest);
        if let Some(task) = late.ended_by {
            let late = Stretch { task, ..*longest };
            case.show_stretch(&mut incident, Layer::Runtime, "had not entered the collective", late);
        }
    }
    Some(incident)
}
