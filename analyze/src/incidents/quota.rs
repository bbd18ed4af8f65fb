//! A CPU quota: the submitting thread, or the threads that work for it, were held back because their
//! cgroup had used up its share of CPU time.
//!
//! Lost time: in each gap, what the submitter spent throttled, and of what it spent blocked the part
//! that its helpers spent throttled. Whoever ran meanwhile is not to blame. Must not fire where the
//! source cannot tell a throttled thread from a preempted one: there the time counts as runnable.

use super::{Case, Incident, divide_blocked, seconds};
use crate::sum;

pub(super) fn find(case: &Case) -> Option<Incident> {
    let (a, p) = (case.analysis, case.phase);
    let direct = case.submitters().throttled_ns;
    let chained = sum(case.gaps().map(|g| divide_blocked(g).throttled_ns));
    let mut incident = case.incident("cpu-quota", direct.saturating_add(chained))?;
    let label = a.label(incident.process);
    let helpers = sum(p.helpers.values().map(|s| s.throttled_ns));
    let lost = seconds(incident.lost_ns);
    incident.summary = format!("{label} lost {lost} to the CPU quota of its cgroup, which throttled its threads");
    incident.root_cause = format!(
        "the quota ran out in the gaps between submissions: the submitting thread was throttled for {}, threads that work for it for {}",
        seconds(direct),
        seconds(helpers)
    );
    incident.recommendations = vec![
        "raise the quota (cpu.max, cpu.cfs_quota_us, a container's CPU limit), or take it away".into(),
        "use fewer threads and workers, so that the quota lasts for the whole period".into(),
    ];
    case.show_longest_gap(&mut incident);
    Some(incident)
}
