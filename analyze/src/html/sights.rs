//! Where to look: the stretches that show an incident, each with a place in the timeline.

use ingero_format::catalog::TaskId;

use crate::report::duration;
use crate::{Analysis, Incident};

/// A stretch that shows an incident.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sight {
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    pub(super) task: TaskId,
    /// Where in the stack, where the incident says so.
    pub(super) layer: Option<&'static str>,
    /// What is to be seen, as a sentence.
    pub(super) text: String,
}

/// The stretches of an incident's evidence and of its timeline, each once, in order of time.
pub(super) fn sights(a: &Analysis, incident: &Incident) -> Vec<Sight> {
    let mut out: Vec<Sight> = Vec::new();
    for m in &incident.timeline {
        let (layer, text) = (Some(m.layer.name()), m.detail.clone());
        out.push(Sight { start_ns: m.start_ns, end_ns: m.end_ns, task: m.task, layer, text });
    }
    for e in &incident.evidence {
        let place = (e.start_ns, e.end_ns, e.task);
        if !out.iter().any(|s| (s.start_ns, s.end_ns, s.task) == place) {
            let text =
                format!("{}: {}, {}", a.thread_label(e.task), e.what, duration(e.end_ns.saturating_sub(e.start_ns)));
            out.push(Sight { start_ns: e.start_ns, end_ns: e.end_ns, task: e.task, layer: None, text });
        }
    }
    out.sort_by_key(|s| (s.start_ns, s.end_ns, s.task));
    out
}
