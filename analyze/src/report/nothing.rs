//! What is said where nothing is to be shown: that nothing was recorded is claimed only of a whole recording.

use ingero_replay::ProcessId;

use crate::Analysis;

/// How far the recording was looked at; none where it was as far as there is anything.
fn part(a: &Analysis) -> Option<&'static str> {
    let damaged = !a.trace.complete() || !a.trace.damage().is_empty() || !a.repairs.lost_blocks.is_empty();
    match (damaged, is_cut(a)) {
        (true, true) => Some("in what could be read of this range"),
        (true, false) => Some("in what could be read of the recording"),
        (false, true) => Some("in this range"),
        (false, false) => None,
    }
}

/// Whether something was left out; of a recording without an event nothing can be.
fn is_cut(a: &Analysis) -> bool {
    a.window.is_cut() && a.window.trace_end_ns > a.window.trace_start_ns
}

/// Why there may have been more than was found, in a bracket.
fn doubt(a: &Analysis) -> &'static str {
    if a.sampled() {
        " (the source stored a sample: there may have been some)"
    } else if a.losses.events() != Some(0) || a.losses.uncounted() {
        " (events were lost: there may have been some)"
    } else {
        ""
    }
}

/// The verdict where no CUDA call is at hand, of the processes that were chosen or of all.
pub(super) fn of_calls(a: &Analysis) -> String {
    let whose = if a.phases.is_empty() { "" } else { " of the chosen processes" };
    let (verb, doubt) = (if a.sampled() { "is stored" } else { "was recorded" }, doubt(a));
    let found = match part(a) {
        Some(part) => format!("{verb} {part}"),
        None => verb.to_owned(),
    };
    format!("No CUDA call{whose} {found}{doubt}: nothing can be said about a GPU's feed.")
}

/// What is said where no cause of lost time is shown, of the phases of processes that are wanted.
pub(crate) fn of_causes(a: &Analysis, wanted: &impl Fn(ProcessId) -> bool) -> &'static str {
    let mut phases = a.phases.iter().filter(|p| wanted(p.phase.process)).peekable();
    if phases.peek().is_some() && phases.clone().all(crate::PhaseFigures::is_unclaimed) {
        "Events were lost in all phases: causes of lost time cannot be told."
    } else if phases.any(|p| !p.phase.unclaimed.is_empty())
        || !a.losses.hidden(a.window.from_ns, a.window.to_ns).is_empty()
    {
        "No cause of lost time was found where no events were lost; of the rest nothing can be told."
    } else if a.phases.iter().filter(|p| wanted(p.phase.process)).any(|p| a.unexplained(p).is_some()) {
        "No cause of lost time was found in what the recording shows: what some gaps were for it does not."
    } else {
        "No cause of lost time was found."
    }
}

/// The same where no process is to be shown, of those that are wanted.
pub(crate) fn of_processes(a: &Analysis, wanted: &impl Fn(ProcessId) -> bool) -> String {
    let all = a.processes.iter().all(|(id, _)| wanted(id));
    let whose = if all { "any process" } else { "the chosen processes" };
    match part(a) {
        // Totals are of stretches longer than what may lie beside the range.
        _ if a.sampled() && is_cut(a) => {
            format!("Nothing can be told of {whose} in this range: what the source counted is of its whole run.")
        }
        Some(part) => format!("Nothing was recorded of {whose} {part}{}.", doubt(a)),
        None => format!("Nothing was recorded of {whose}{}.", doubt(a)),
    }
}
