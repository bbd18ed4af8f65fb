//! A process was killed because memory ran out: the phase's own, or one that works for it.
//!
//! Lost time: what is left of the gap that the kill lies in, or else the gaps of the phase behind it. No other cause is told of
//! that time: what the process did afterwards is not what it would have done. It is told however short it is. Must not fire for a
//! stranger's death, nor for one within a stretch of which nothing is claimed.

use super::case::Case;
use super::{Evidence, Incident, Layer, Moment, Severity, seconds};
use crate::figures::Stretch;

pub(super) fn find(case: &Case) -> Option<Incident> {
    let (a, phase) = (case.analysis, &case.phase.phase);
    let kill = phase.kill?;
    let behind: Vec<Stretch> =
        phase.killed().map(|(start_ns, end_ns)| Stretch { task: kill.task, start_ns, end_ns }).collect();
    let within = behind.first().is_some_and(|gap| gap.start_ns == kill.at_ns);
    let lost_ns = crate::sum(behind.iter().map(Stretch::len_ns));
    let mut incident = case.incident_of_any("oom-kill", "a process killed for want of memory", lost_ns);
    if kill.victim == phase.process {
        incident.severity = Severity::High;
    }
    let size = kill.bytes.map_or(String::new(), |b| format!(", which had {} of its own,", crate::report::bytes(b)));
    incident.summary = format!("{}{size} was killed because memory ran out", a.label(kill.victim));
    if lost_ns > 0 {
        incident.summary += &format!("; {} lost {} by it at least", case.label(), seconds(lost_ns));
    }
    incident.root_cause = format!("{} wanted memory, and none was left", a.thread_label(kill.task));
    incident.recommendations = vec![
        "raise the memory limit, or use less memory: fewer workers, smaller batches, less prefetching".into(),
        "watch shared memory too: batches in /dev/shm count as memory of the container".into(),
    ];
    match behind.first() {
        Some(gap) if within => {
            case.show_stretch(
                &mut incident,
                Layer::System,
                "wanted memory; nothing was submitted after the kill",
                *gap,
            );
        }
        _ => {
            let (task, start_ns, end_ns) = (kill.task, kill.at_ns, kill.at_ns);
            let what = "wanted memory, and there was the kill";
            let detail = format!("{} {what}", a.thread_label(task));
            incident.timeline.push(Moment { layer: Layer::System, detail, start_ns, end_ns, task });
            incident.evidence.push(Evidence { what: what.into(), task, start_ns, end_ns });
        }
    }
    Some(incident)
}
