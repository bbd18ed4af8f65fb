//! Affinity: threads that a gap waited for could have run, and an idle CPU that they may not use was there.
//!
//! Lost time: the part of the chains' runnable time in which another CPU idled that the thread may not use
//! (taskset, cpuset, a container's CPU set); half of it where a stranger had the thread's own CPU, for then two things
//! are to blame, and the other half is [`super::contention`]'s. Must not fire where all CPUs were taken, or where the
//! recording does not know who is bound to what.

use super::case::Case;
use super::{Incident, Layer, seconds};
use crate::chain::Part;

pub(super) fn find(case: &Case) -> Option<Incident> {
    let causes = case.runnable();
    let lost_ns = causes.bound_ns;
    let mut incident = case.incident("affinity-squeeze", "threads bound to CPUs that others had", lost_ns)?;
    let label = case.label();
    let names = case.names(&case.squeezed_holders());
    let behind = if names.is_empty() { String::new() } else { format!(", behind {names}") };
    incident.summary = format!(
        "{label} lost {} because threads that it waited for are bound to CPUs that were taken{behind}, while others idled",
        incident.lost()
    );
    incident.root_cause =
        "the CPUs that its threads are bound to (taskset, cpuset, the container's CPU set) are too few for what runs on them".into();
    if causes.shared_ns > 0 {
        incident.root_cause.push_str(&format!(
            "; for {} of it other processes had those CPUs, and half of that is counted here",
            seconds(causes.shared_ns)
        ));
    }
    incident.recommendations = vec![
        format!("let {label} and its workers use more CPUs, the idle ones at least"),
        "see who binds them: taskset, numactl, a launcher, sched_setaffinity in a library (OMP_PROC_BIND, KMP_AFFINITY)".into(),
    ];
    let part = |_, link: &crate::Link| if link.squeezed_ns > 0 { link.runnable } else { Part::default() };
    case.show(&mut incident, Layer::System, "could have run on another CPU, and waited", part);
    case.show_longest_gap(&mut incident);
    Some(incident)
}
