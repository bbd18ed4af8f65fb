//! CPU contention: the submitting thread, or the threads that work for it, could have run and had
//! no CPU.
//!
//! Lost time: in each gap, what the submitter spent runnable, and of what it spent blocked the part
//! that its helpers spent waiting for a CPU rather than running. Must not fire where threads wait
//! for anything but a CPU.

use std::collections::{BTreeMap, BTreeSet};

use ingero_replay::ProcessId;

use super::{Case, Evidence, Incident, Layer, Moment, divide_blocked, seconds};
use crate::sum;

/// Holders that a summary names.
const NAMED: usize = 3;

pub(super) fn find(case: &Case) -> Option<Incident> {
    let (a, p) = (case.analysis, case.phase);
    let direct = case.submitters().runnable_ns;
    let chained = sum(case.gaps().map(|g| divide_blocked(g).runnable_ns));
    let mut incident = case.incident("cpu-contention", direct.saturating_add(chained))?;

    let mut behind = p.submitter_behind.clone();
    for (&id, &ns) in &p.helpers_behind {
        let held = behind.entry(id).or_default();
        *held = held.saturating_add(ns);
    }
    // Its own are the process itself and whoever works for it, not all that it ever started.
    let helping: BTreeSet<ProcessId> = p.helpers.keys().map(|&t| a.processes.of(t)).collect();
    let own = |id: ProcessId| id == incident.process || helping.contains(&id);
    let mut holders: Vec<(ProcessId, u64)> = behind.iter().map(|(&id, &ns)| (id, ns)).collect();
    holders.sort_by_key(|&(id, ns)| (std::cmp::Reverse(ns), id));
    let of_own = sum(holders.iter().filter(|(id, _)| own(*id)).map(|&(_, ns)| ns));
    let of_others = sum(holders.iter().filter(|(id, _)| !own(*id)).map(|&(_, ns)| ns));

    let helpers: Vec<_> = p.helpers.iter().filter(|(_, s)| s.runnable_ns > 0).collect();
    let wanted = sum(helpers.iter().map(|(_, s)| s.runnable_ns));
    let label = a.label(incident.process);
    let names: Vec<String> =
        holders.iter().take(NAMED).map(|&(id, ns)| format!("{} {}", a.label(id), seconds(ns))).collect();
    let lost = seconds(incident.lost_ns);
    let waiters = if chained >= direct {
        format!("{} threads that work for it could have run for {} more and had no CPU", helpers.len(), seconds(wanted))
    } else {
        format!("its submitting thread could have run for {} more and had no CPU", seconds(direct))
    };
    let holders_text =
        if names.is_empty() { "nobody seen on theirs".to_owned() } else { format!("behind {}", names.join(", ")) };
    incident.summary = format!("{label} lost {lost} to CPU contention: {waiters}, {holders_text}");
    incident.root_cause = if holders.is_empty() {
        format!(
            "{label} or threads that work for it could have run and did not; the trace does not show who held the CPU"
        )
    } else if of_others >= of_own {
        format!("other processes held the CPUs that {label} needed, for {} in all", seconds(of_others))
    } else {
        format!(
            "{label} and its own workers want more CPUs than they may use: they held them for {} while others of them waited",
            seconds(of_own)
        )
    };
    incident.recommendations = if holders.is_empty() {
        vec![format!("give {label} and its workers CPUs of their own")]
    } else if of_others >= of_own {
        vec![
            format!(
                "move {} to other CPUs, or give them a lower priority (taskset, cpuset, nice)",
                list_names(a, &holders, own)
            ),
            format!("give {label} and its workers CPUs of their own"),
        ]
    } else {
        vec![format!("use fewer workers than CPUs: {} threads competed", helpers.len() + 1)]
    };

    for w in p.waits.iter().take(NAMED) {
        let detail = format!("{} could have run and waited {} for a CPU", a.thread_label(w.task), seconds(w.len_ns()));
        let (start_ns, end_ns, task) = (w.start_ns, w.end_ns, w.task);
        incident.timeline.push(Moment { layer: Layer::System, detail, start_ns, end_ns, task });
        incident.evidence.push(Evidence { what: "runnable without a CPU".into(), task, start_ns, end_ns });
    }
    case.show_longest_gap(&mut incident);
    Some(incident)
}

/// The worst holders that are not of the process's own, by name and without repetition.
fn list_names(a: &crate::Analysis, holders: &[(ProcessId, u64)], own: impl Fn(ProcessId) -> bool) -> String {
    let mut by_name: BTreeMap<String, (u64, Vec<u32>)> = BTreeMap::new();
    for &(id, ns) in holders.iter().filter(|(id, _)| !own(*id)) {
        let entry = by_name.entry(crate::printable(a.name(id))).or_default();
        entry.0 = entry.0.saturating_add(ns);
        entry.1.push(a.processes.get(id).pid);
    }
    let mut names: Vec<_> = by_name.into_iter().collect();
    names.sort_by_key(|(_, (ns, _))| std::cmp::Reverse(*ns));
    // Whoever held a CPU for a moment is not worth moving.
    let worst = names.first().map_or(0, |(_, (ns, _))| *ns);
    names.retain(|(_, (ns, _))| ns.saturating_mul(10) >= worst);
    let show = |(name, (_, pids)): &(String, (u64, Vec<u32>))| match pids.as_slice() {
        [one] => format!("{name} ({one})"),
        more => format!("{name} ({} processes)", more.len()),
    };
    names.iter().take(NAMED).map(show).collect::<Vec<_>>().join(", ")
}
