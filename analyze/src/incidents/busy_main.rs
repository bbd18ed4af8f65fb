//! A busy main process: between its submissions the submitting thread itself ran on its CPU.
//!
//! Lost time: what the submitters spent running in gaps. Such a thread waits for nobody, no call of
//! it is slow, and yet the GPU has nothing to do: loading without workers, collating sample by
//! sample, unpickling what workers hand over. Must not fire where the submissions come back to
//! back, or where the thread is blocked in the gaps.

use super::{Case, Incident, seconds};
use crate::sum;

pub(super) fn find(case: &Case) -> Option<Incident> {
    let (a, p) = (case.analysis, case.phase);
    let spent = case.submitters();
    let mut incident = case.incident("busy-main", spent.running_ns)?;
    let label = a.label(incident.process);
    let gaps = p.phase.gaps_ns();
    incident.summary = format!(
        "{label} lost {} because its submitting thread was busy on its own CPU between {} submissions",
        seconds(spent.running_ns),
        p.phase.submissions
    );
    incident.root_cause = format!(
        "in gaps of {} between submissions the submitting thread ran for {} and was off its CPU for {}: it prepares what it submits itself",
        seconds(gaps),
        seconds(spent.running_ns),
        seconds(gaps.saturating_sub(spent.running_ns))
    );
    let helpers = sum(p.helpers.values().map(|s| s.running_ns));
    incident.recommendations = if helpers * 10 < spent.running_ns {
        vec![
            "prepare the data in worker processes (num_workers of a DataLoader)".into(),
            "fetch whole batches instead of single samples (index the tensor, __getitems__), so that there is less to prepare".into(),
        ]
    } else {
        vec![
            "workers prepare data, but the main process still works between submissions: hand over ready batches (collate in the workers), pin memory in them".into(),
            "profile the submitting thread's own Python code in the evidence's stretch".into(),
        ]
    };
    case.show_longest_gap(&mut incident);
    Some(incident)
}
