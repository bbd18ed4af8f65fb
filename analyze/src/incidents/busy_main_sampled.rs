//! A busy main process, seen by a source that kept a sample: the thread that feeds the GPU was neither off its CPU nor
//! in a call.
//!
//! Lost time: the phase, less all that the thread can have been off its CPU and in calls, by the source's own totals. It
//! is the same cause as `busy-main`, found by subtraction, since the states of threads are unknown. Must not fire where
//! no call of the phase is stored (what the process waited to submit is unknown then), where several threads call, or
//! where the source does not count the thread's time off the CPU.

use super::case::Case;
use super::{Incident, Layer, seconds};
use crate::figures::Stretch;

pub(super) fn find(case: &Case) -> Option<Incident> {
    let phase = &case.phase.phase;
    let sample = phase.sample.as_ref().filter(|s| s.calls_stored > 0)?;
    let (task, off) = (sample.main?, sample.off_cpu_ns?);
    let lost_ns = sample.busy_ns(phase.len_ns())?;
    let mut incident = case.incident("busy-main", "its main thread being busy on its own CPU", lost_ns)?;
    let slower = sample.faster.zip(sample.steps).map_or(String::new(), |(f, steps)| {
        let times = f.times(phase.len_ns(), steps.count);
        format!(", {times:.0} times as long for a step as phase {} took", f.phase)
    });
    let (label, len) = (case.label(), seconds(phase.len_ns()));
    incident.summary = format!("{label} lost {} of {len} because it was busy on its own CPU{slower}", seconds(lost_ns));
    let workers = match phase.workers {
        0 => "no worker lived, so that none is to blame",
        _ => "what its workers did meanwhile is unknown",
    };
    incident.root_cause = format!(
        "of {len} its main thread was off the CPU for {} and in CUDA calls for {} at most: it prepared itself what it \
         submitted; {workers}",
        seconds(off.at_most),
        seconds(sample.calls_ns.at_most),
    );
    // That the same steps took a fraction of the time elsewhere shows that it is their preparation that costs. Of a thread
    // that was busy and no more, a sample does not tell what it did.
    incident.recommendations = match sample.faster {
        Some(_) => vec![
            "fetch whole batches instead of single samples (index the tensor, __getitems__), so that there is less to prepare".into(),
            "prepare the data in worker processes (num_workers of a DataLoader)".into(),
        ],
        None => vec!["profile the main thread's own code in the evidence's stretch: the sample does not tell what it did".into()],
    };
    let stretch = Stretch { task, start_ns: phase.start_ns, end_ns: phase.end_ns };
    let ran = if lost_ns >= phase.len_ns() / 10 * 9 {
        "ran nearly all through the phase".to_owned()
    } else {
        format!("ran outside of calls for {} of this phase, looked at", seconds(lost_ns))
    };
    case.show_stretch(&mut incident, Layer::Host, &ran, stretch);
    Some(incident)
}
