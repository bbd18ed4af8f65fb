//! Too many threads of its own: those that a gap waited for could have run, and the process itself or its own
//! workers had their CPUs.
//!
//! Lost time: what the chains' threads spent runnable while one of the phase's own processes was on their CPU.
//! Must not fire where strangers hold the CPUs, or where every thread has one.

use super::case::Case;
use super::{Incident, Layer, seconds};

pub(super) fn find(case: &Case) -> Option<Incident> {
    // Two sides that hand over data piece by piece take turns on purpose.
    if case.in_pieces() {
        return None;
    }
    let lost_ns = case.runnable().own_ns;
    let mut incident = case.incident("too-many-workers", "its own threads competing for CPUs", lost_ns)?;
    let label = case.label();
    let holders: Vec<_> = case.behind.iter().copied().filter(|(id, _)| case.is_family(*id)).collect();
    incident.summary = format!(
        "{label} lost {} because its own threads and workers stood in each other's way, behind {}",
        incident.lost(),
        case.names(&holders)
    );
    let cpus = case.analysis.trace.meta("cpus").map(crate::printable);
    let competed = format!("{} of its processes competed", holders.len());
    let bound = case.analysis.knows_affinity_of(case.phase.phase.process);
    let remedy = if bound {
        let cpus = cpus.map_or(String::new(), |n| format!(" of {n}"));
        incident.root_cause = format!("{label} and its own workers want more CPUs than they may use{cpus}: {competed}");
        "use fewer workers than CPUs that they may use, one less for the main process"
    } else {
        let unknown = match case.analysis.may_have_lost(ingero_format::catalog::Kind::Affinity) {
            true => "cannot be read from what is left of the recording",
            false => "is not recorded",
        };
        // How many CPUs the machine has says nothing about how many of them they may use.
        let cpus = cpus.map_or(String::new(), |n| format!(" of the machine's {n}"));
        incident.root_cause = format!(
            "{label} and its own workers had the CPUs that they needed: {competed}; which{cpus} CPUs they may use {unknown}"
        );
        "see which CPUs they may use (taskset -p, the container's CPU set), and use fewer workers than those, one less for \
         the main process"
    };
    let causes = case.runnable();
    if causes.own_ns >= causes.strangers_ns && crate::report::matters(causes.unseen_ns, lost_ns) {
        let unseen = seconds(causes.unseen_ns);
        incident.root_cause.push_str(&format!("; nobody was seen on their CPUs for {unseen} more"));
    }
    incident.recommendations =
        vec![remedy.into(), "let each worker use one thread (OMP_NUM_THREADS=1, torch.set_num_threads(1))".into()];
    case.show(&mut incident, Layer::System, "could have run and had no CPU", |_, link| link.runnable);
    case.show_longest_gap(&mut incident);
    Some(incident)
}
