//! A CPU quota: the submitting thread, or threads that it waited for, were held back because their cgroup had used up
//! its share of CPU time.
//!
//! Lost time: what the chains' threads spent throttled in gaps. Whoever ran meanwhile is not to blame. Must not fire
//! where the source cannot tell a throttled thread from a preempted one: there the time counts as runnable.

use super::case::{Case, Group};
use super::{Incident, Layer, seconds};

pub(super) fn find(case: &Case) -> Option<Incident> {
    let lost_ns = case.all(|s| s.throttled_ns);
    let mut incident = case.incident("cpu-quota", "a CPU quota", lost_ns)?;
    let direct = case.of(Group::Submitter).throttled_ns;
    incident.summary = format!(
        "{} lost {} to the CPU quota of its cgroup, which throttled its threads",
        case.label(),
        incident.lost()
    );
    incident.root_cause = format!(
        "the quota ran out in the gaps between submissions: the submitting thread was throttled for {}, threads that it waited for for {}",
        seconds(direct),
        seconds(lost_ns.saturating_sub(direct))
    );
    incident.recommendations = vec![
        "raise the quota (cpu.max, cpu.cfs_quota_us, a container's CPU limit), or take it away".into(),
        "use fewer threads and workers, so that the quota lasts for the whole period".into(),
    ];
    case.show(&mut incident, Layer::System, "was throttled", |_, link| link.throttled);
    case.show_longest_gap(&mut incident);
    Some(incident)
}
