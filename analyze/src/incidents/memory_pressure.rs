//! Memory pressure: threads have to find free memory themselves before they go on (direct reclaim).
//!
//! Lost time: reclaim by threads of the chains, within the gaps, and no more than those threads' time in the chains.
//! Must not fire for reclaim in the background, which holds up nobody.

use ingero_format::catalog::Kind;

use super::case::{Case, Group};
use super::{Incident, Layer, seconds};
use crate::sum;

pub(super) fn find(case: &Case) -> Option<Incident> {
    let lost_ns = case.own_work().reclaimed_ns.saturating_add(case.reclaimed_ns(Group::Worker));
    let mut incident = case.incident("memory-pressure", "memory pressure", lost_ns)?;
    let signs = &case.analysis.signs;
    let phase = &case.phase.phase;
    let stretches = || signs.reclaims.iter().filter(|(id, _)| case.is_family(**id)).flat_map(|(_, list)| list);
    let within = || stretches().filter(|s| s.end_ns > phase.start_ns && s.start_ns < phase.end_ns);
    incident.summary = format!(
        "{} lost {} to memory pressure: its threads had to reclaim memory themselves, {} times for {}",
        case.label(),
        incident.lost(),
        case.counted(Kind::Reclaim, within().count() as u64),
        seconds(sum(within().map(|s| s.len_ns())))
    );
    incident.root_cause = "the machine, or the memory limit of a control group, has no free memory left".into();
    incident.recommendations = vec![
        "use less memory: fewer workers, less prefetching, no copies of the data set in each worker".into(),
        "raise the memory limit (memory.max, a container's limit), or move other programs away".into(),
    ];
    if let Some(longest) = within().max_by_key(|s| (s.len_ns(), std::cmp::Reverse(s.start_ns))) {
        case.show_stretch(&mut incident, Layer::System, "reclaimed memory", *longest);
    }
    case.show_longest_gap(&mut incident);
    Some(incident)
}
