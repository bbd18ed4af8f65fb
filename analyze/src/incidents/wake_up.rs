//! Slow wake-ups: threads that a gap waited for could have run, their CPU had nobody on it, and yet they did not run.
//!
//! Lost time: what the chains' threads spent runnable while no process was seen on their CPU, where that is more than what they
//! waited for others there: a CPU takes its time to wake from a deep idle state, and one of a virtual machine waits for its
//! host. Where data goes in pieces that is a part of each hand-over. Must not fire where somebody held the CPU.

use super::case::Case;
use super::{Incident, Layer};

pub(super) fn find(case: &Case) -> Option<Incident> {
    let lost_ns = case.runnable().nobody_ns;
    let mut incident = case.incident("wake-up-latency", "idle CPUs that were slow to take up work", lost_ns)?;
    let label = case.label();
    incident.summary = format!(
        "{label} lost {} because threads that it waited for could have run and their CPUs, on which nobody was seen, were slow to run them",
        incident.lost()
    );
    incident.root_cause =
        "an idle CPU has to wake up for each of its short waits: out of a deep idle state, or, in a virtual machine, once its host runs it again".into();
    incident.recommendations = vec![
        "keep the CPUs from deep idle states (cpupower idle-set -D 0, a latency profile of tuned); in a virtual machine let the host poll (kvm.halt_poll_ns) and not overcommit".into(),
        "wake threads less often: larger pieces of work for each wake".into(),
    ];
    case.show(&mut incident, Layer::System, "could have run and nobody was on its CPU", |_, link| link.runnable);
    case.show_longest_gap(&mut incident);
    Some(incident)
}
