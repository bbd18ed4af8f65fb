//! CPU contention: threads that a gap waited for, the submitting one first, could have run, and others had their CPUs.
//!
//! Lost time: what the chains' threads spent runnable while a process that does not work for the phase was on
//! their CPU; a **noisy neighbour** where most of that is of processes in another control group. What they waited for a
//! CPU on which nobody was seen goes to the larger of this and of [`super::own_workers`], unless it is more than either, and a
//! cause of its own ([`super::wake_up`]); where the threads are bound to that CPU while another
//! idles, half of it is [`super::affinity`]'s. Must not fire where threads wait for anything but a CPU.

use std::collections::BTreeMap;

use ingero_format::catalog::StrId;
use ingero_replay::ProcessId;

use super::case::Case;
use super::{Incident, Layer, seconds};
use crate::sum;

/// Control groups that are named.
const GROUPS: usize = 4;
/// What others held is told from this part of all on, one in so many.
const TOLD: u64 = 10;

/// Of the processes that held CPUs, those in another control group than the phase's.
fn neighbours(case: &Case, holders: &[(ProcessId, u64)]) -> Vec<(ProcessId, u64)> {
    let Some(own) = group_of(case, case.phase.phase.process) else { return Vec::new() };
    let other = |id| group_of(case, id).is_some_and(|group| group != own);
    holders.iter().copied().filter(|(id, _)| other(*id)).collect()
}

/// Whose processes they are: the control group, or, of several, what each of the largest held.
fn groups(case: &Case, holders: &[(ProcessId, u64)]) -> String {
    let mut held: BTreeMap<StrId, u64> = BTreeMap::new();
    for (id, ns) in holders {
        if let Some(group) = group_of(case, *id) {
            let of_group = held.entry(group).or_default();
            *of_group = of_group.saturating_add(*ns);
        }
    }
    let mut held: Vec<_> = held.into_iter().collect();
    held.sort_by_key(|&(group, ns)| (std::cmp::Reverse(ns), group));
    let name = |group: StrId| crate::printable(case.analysis.trace.string(group));
    if let [(group, _)] = held[..] {
        return format!("another control group ({})", name(group));
    }
    let mut told: Vec<_> = held.iter().take(GROUPS).map(|&(g, ns)| format!("{} {}", name(g), seconds(ns))).collect();
    if held.len() > GROUPS {
        told.push(format!("{} more", held.len() - GROUPS));
    }
    format!("other control groups ({})", told.join(", "))
}

fn group_of(case: &Case, id: ProcessId) -> Option<StrId> {
    case.analysis.signs.cgroup(id, &case.analysis.processes)
}

/// Who had no CPU, and for how long, the longer one first.
fn waiters(case: &Case) -> String {
    let (own, others) = case.behind_strangers();
    let mut told = [(own, "its submitting thread", "it"), (others, "threads that it waited for", "they")];
    told.sort_by_key(|(ns, ..)| std::cmp::Reverse(*ns));
    let [(first, who, they), (second, whom, _)] = told;
    if crate::report::matters(second, first) {
        let (first, second) = (seconds(first), seconds(second));
        format!("{who} had no CPU for {first} in which {they} could have run, {whom} had none for {second}")
    } else {
        format!("{who} could have run for {} more and had no CPU", seconds(first))
    }
}

pub(super) fn find(case: &Case) -> Option<Incident> {
    let causes = case.runnable();
    let lost_ns = causes.strangers_ns;
    let mut incident = case.incident("cpu-contention", "CPU contention", lost_ns)?;
    let label = case.label();
    let holders: Vec<_> = case.behind.iter().copied().filter(|(id, _)| !case.is_family(*id)).collect();
    let behind = format!("behind {}", case.names(&holders));
    incident.summary = format!("{label} lost {} to CPU contention: {}, {behind}", incident.lost(), waiters(case));
    let held = |holders: &[(ProcessId, u64)]| sum(holders.iter().map(|&(_, ns)| ns));
    incident.root_cause =
        format!("other processes held the CPUs that {label} needed, for {} in all", seconds(held(&holders)));
    let neighbours = neighbours(case, &holders);
    let mut to_move = &holders;
    if held(&neighbours).saturating_mul(2) > held(&holders) {
        incident.kind = "noisy-neighbour";
        incident.cause = "a neighbour in another control group";
        to_move = &neighbours;
        incident.root_cause = format!(
            "processes of {} held the CPUs that {label} needed, for {}",
            groups(case, &neighbours),
            seconds(held(&neighbours))
        );
        incident.recommendations.push(
            "give each control group CPUs of its own (cpuset.cpus), or a larger weight to this one (cpu.weight)".into(),
        );
    }
    // Where they are no more than half, they are told all the same.
    else if held(&neighbours).saturating_mul(TOLD) >= held(&holders) && !neighbours.is_empty() {
        let (whose, ns) = (groups(case, &neighbours), seconds(held(&neighbours)));
        incident.root_cause.push_str(&format!("; {ns} of that by processes of {whose}"));
    }
    if causes.strangers_ns > causes.own_ns && crate::report::matters(causes.unseen_ns, lost_ns) {
        let unseen = seconds(causes.unseen_ns);
        incident.root_cause.push_str(&format!("; nobody was seen on them for {unseen} more"));
    }
    if causes.shared_ns > 0 {
        incident.root_cause.push_str(&format!(
            "; for {} of it other CPUs were idle that it may not use, and half of that is counted here",
            seconds(causes.shared_ns)
        ));
    }
    incident.recommendations.push(format!(
        "move {} to other CPUs, or give them a lower priority (taskset, cpuset, nice)",
        case.grouped(to_move)
    ));
    incident.recommendations.push(format!("give {label} and its workers CPUs of their own"));
    case.show(&mut incident, Layer::System, "could have run and had no CPU", |_, link| link.runnable);
    case.show_longest_gap(&mut incident);
    Some(incident)
}
