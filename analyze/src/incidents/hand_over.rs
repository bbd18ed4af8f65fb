//! Hand-over: moving a batch from a worker to the submitting thread costs more than making it.
//!
//! Two signs. Other threads of the process itself (pin-memory, queue feeders) run while the submitting thread waits for
//! them. Or the submitting thread and its workers wake each other again and again within each gap (20 times and
//! more): a batch that fits into a pipe or a shared memory segment takes one or two wakes, one that is squeezed through
//! a 64 KiB pipe takes one for each piece. Lost time: what those threads ran, and in the second case what both sides ran, or stood
//! behind each other. Must not fire where one wake hands over a batch.

use super::case::{Case, Group};
use super::{Incident, Layer, interpreter_lock, seconds};
use crate::chain::Part;

/// What is handed over where there are workers, and what helps.
const BATCHES: (&str, &[&str]) = (
    "a thread between the workers and the submitting one (pin-memory, a queue) takes its time for each batch",
    &[
        "make batches cheaper to hand over: one tensor instead of many objects, shared memory instead of pickling",
        "try without pin_memory where batches are small, or give the thread a CPU of its own",
    ],
);

/// The same where there are none: threads of one process take turns, as those for the forward and the backward pass do.
const TURNS: (&str, &[&str]) = (
    "threads of the process work in turns (a queue, a pool, a framework's thread for the backward pass), and each turn costs what one does before the other can go on",
    &["see what they do in the evidence's stretches; fewer and larger pieces of work need fewer turns"],
);

/// What the runtime's calls took that allocate pinned memory, on any thread of the process.
fn pinning_ns(case: &Case) -> u64 {
    let pins = |func| {
        let symbol = case.analysis.trace.function(func).map(|f| f.symbol.as_str());
        matches!(symbol, Some("cudaHostAlloc" | "cudaMallocHost" | "cudaHostRegister"))
    };
    crate::sum(case.phase.memory.ops.iter().filter(|(func, _)| pins(**func)).map(|(_, &ns)| ns))
}

pub(super) fn find(case: &Case) -> Option<Incident> {
    let own = case.of(Group::Own);
    // The interpreter lock goes from thread to thread in its own way.
    let own_ns = own.ran_ns.saturating_sub(interpreter_lock::held_ns(case));
    let pieces = case.in_pieces();
    let lost_ns = if pieces {
        let in_turns = case.runnable().own_ns;
        crate::sum([own_ns, case.own_work().left_ns, case.workers_work_ns(), in_turns].into_iter())
    } else {
        own_ns
    };
    let mut incident = case.incident("hand-over", "handing over work", lost_ns)?;
    let label = case.label();
    if pieces {
        incident.summary = format!(
            "{label} lost {} handing over data in pieces: its submitting thread waited {} times in {} gaps of {} and more for the next one",
            incident.lost(),
            crate::report::count(case.pieces()),
            crate::report::count(case.lost_gaps()),
            crate::report::lost_from()
        );
        incident.root_cause =
            "workers and the submitting thread copy a batch through a pipe or socket piece by piece, and wake each other for each".into();
        incident.recommendations = vec![
            "hand over batches in shared memory (torch tensors do that, pickled objects and lists do not), or in larger pieces".into(),
            "collate in the workers, so that one tensor is handed over instead of many objects".into(),
        ];
    } else {
        incident.summary = format!(
            "{label} lost {} to threads of its own that hand over {}, while its submitting thread waited for them",
            incident.lost(),
            if case.phase.phase.workers > 0 { "batches" } else { "work" }
        );
        let (cause, advice) = if case.phase.phase.workers > 0 { BATCHES } else { TURNS };
        incident.root_cause = cause.into();
        incident.recommendations = advice.iter().map(|&text| text.into()).collect();
        let pinning_ns = pinning_ns(case);
        if pinning_ns.saturating_mul(4) >= lost_ns {
            incident.root_cause +=
                &format!("; calls that pin host memory (cudaHostAlloc) took {} in this phase", seconds(pinning_ns));
            let advice = "pin memory once: what is pinned is kept for the next batch, so large first batches, many of them in flight, and loaders made anew for each epoch cost most";
            incident.recommendations.insert(0, advice.into());
        }
    }
    let ran = |group, link: &crate::Link| match group {
        Group::Own => link.ran,
        Group::Worker | Group::Submitter if pieces => link.ran,
        _ => Part::default(),
    };
    case.show(&mut incident, Layer::Host, "ran for a hand-over", ran);
    case.show_longest_gap(&mut incident);
    Some(incident)
}
