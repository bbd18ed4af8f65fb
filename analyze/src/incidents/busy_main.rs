//! A busy main process: between its submissions the submitting thread itself ran on its CPU.
//!
//! Lost time: what the submitters spent running in gaps, less what rules for something more special tell of it. Such a
//! thread waits for nobody, no call of it is slow, and yet the GPU has nothing to do: loading without workers,
//! collating sample by sample, unpickling what workers hand over. Must not fire where the submissions come back to
//! back, or where the thread is blocked in the gaps.

use ingero_format::catalog::Kind;

use super::case::{Case, Group, OwnWork};
use super::{Incident, Layer, seconds};
use crate::chain::{Ending, Part};
use crate::feed::Gap;
use crate::sum;

pub(super) fn find(case: &Case) -> Option<Incident> {
    if case.in_pieces() || case.is_faulting(&[case.phase.phase.process]) {
        return None;
    }
    let work = case.own_work();
    let lost_ns = work.left_ns;
    let mut incident = case.incident("busy-main", "its main thread being busy", lost_ns)?;
    let p = case.phase;
    let gaps = p.lost_gaps_ns();
    // What another cause has of them is told there, and of what the recording lost sight of nothing is known.
    let submitter = case.of(Group::Submitter);
    let (ran_ns, told_ns) = (submitter.ran_ns, p.chains.all_ns().saturating_sub(submitter.ended_ns(Ending::Unseen)));
    // Data is prepared in the pause before a step; what fills the short gaps within steps is the way from launch to launch.
    let within_steps = sum(p.lost_gaps().filter(|g| !g.begins_step()).map(Gap::len_ns)) > gaps / 2;
    // A device that has work queued outlasts them, unless it was waited for right before: then it had none.
    let behind_waits = sum(p.lost_gaps().filter(|g| g.after_wait).map(Gap::len_ns));
    incident.at_most |= within_steps && behind_waits < gaps / 2;
    incident.summary = format!(
        "{} lost {} because its submitting thread was busy on its own CPU {}",
        case.label(),
        incident.lost(),
        match p.phase.submissions {
            0 => "and submitted nothing".to_owned(),
            n => format!("between {} submissions", case.counted(Kind::Call, n)),
        }
    );
    incident.root_cause = format!(
        "in gaps of {} and more, {} in all, the submitting thread ran for {} and was off its CPU for {}: {}",
        crate::report::lost_from(),
        seconds(told_ns),
        seconds(ran_ns),
        seconds(told_ns.saturating_sub(ran_ns)),
        if within_steps { "it works between the launches of a step" } else { "it prepares what it submits itself" }
    );
    incident.root_cause += &elsewhere(work);
    if incident.at_most && !incident.capped {
        incident.root_cause += "; a device that had work queued, which is not recorded, waited less";
    }
    incident.recommendations = if within_steps {
        vec![
            "submit less often: CUDA graphs, torch.compile, fused or foreach optimizers, larger batches".into(),
            "profile the submitting thread's own code in the evidence's stretch".into(),
        ]
    } else if p.phase.workers == 0 {
        vec![
            "if it prepares data: let worker processes do that (num_workers of a DataLoader), and fetch whole batches instead of single samples (index the tensor, __getitems__)".into(),
            "else profile its own code in the evidence's stretch".into(),
        ]
    } else {
        vec![
            "workers prepare data, but the main process still works between submissions: hand over ready batches (collate in the workers), pin memory in them".into(),
            "profile the submitting thread's own Python code in the evidence's stretch".into(),
        ]
    };
    let submitters = |group, link: &crate::Link| if group == Group::Submitter { link.ran } else { Part::default() };
    case.show(&mut incident, Layer::Host, "ran without a submission", submitters);
    case.show_longest_gap(&mut incident);
    Some(incident)
}

/// What of a submitting thread's running time was in calls, and what is no part of this cause, as a sentence goes on.
fn elsewhere(work: OwnWork) -> String {
    let parts = [
        (work.memory_ns, "allocating and releasing memory"),
        (work.graphs_ns, "making graphs"),
        (work.after_waits_ns, "behind waits that come too often"),
        (work.reclaimed_ns, "reclaiming memory"),
    ];
    let told = parts.iter().filter(|(ns, _)| crate::report::matters(*ns, work.ran_ns));
    let told: Vec<String> = told.map(|(ns, what)| format!("{} {what}", seconds(*ns))).collect();
    let mut out = String::new();
    if crate::report::matters(work.in_calls_ns, work.left_ns) {
        out += &format!("; {} of it in calls that allocate, release or make graphs", seconds(work.in_calls_ns));
    }
    if !told.is_empty() {
        out += &format!("; of what it ran, {} are not counted here", crate::report::list(told));
    }
    out
}
