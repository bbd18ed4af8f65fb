//! What the analysis says, as slices on tracks of their own: phases, incidents, what happened in those.

use std::io::Write;

use ingero_analyze::Analysis;
use ingero_replay::ProcessId;

use super::super::proto::{AnnotationValue, DebugAnnotation, SLICE_BEGIN, TrackDescriptor, TrackEvent};
use super::{PerfettoSink, number_arg, text_arg};

/// Numbers of their tracks.
const VERDICTS: u64 = 4 << 32;

impl<W: Write> PerfettoSink<'_, W> {
    /// A slice on a track of its own.
    fn verdict(&mut self, parent: u64, track: &str, name: &str, span: (u64, u64), args: Vec<DebugAnnotation>) -> u64 {
        let uuid = VERDICTS + self.verdicts;
        self.verdicts += 1;
        let (name_of_track, parent_uuid) = (Some(track.to_owned()), Some(parent));
        self.describe(TrackDescriptor {
            uuid: Some(uuid),
            name: name_of_track,
            parent_uuid,
            ..TrackDescriptor::default()
        });
        let event = TrackEvent {
            debug_annotations: args,
            kind: Some(SLICE_BEGIN),
            track_uuid: Some(uuid),
            name: Some(name.to_owned()),
            ..TrackEvent::default()
        };
        self.track_event(span.0, event);
        self.end_slice(uuid, span.1.max(span.0));
        uuid
    }

    /// Phases and incidents, each in its process.
    pub(in super::super) fn verdicts(&mut self, a: &Analysis) {
        let selection = self.selection;
        let shown = |id: ProcessId| selection.shows_verdicts(a.processes.get(id));
        for p in a.phases.iter().filter(|p| shown(p.phase.process)) {
            let parent = self.describe_process(p.phase.process);
            // A sample does not tell what was submitted, nor what was between.
            let args = if p.phase.sample.is_some() {
                Vec::new()
            } else {
                let mut args = vec![number_arg("submissions", p.phase.submissions)];
                // Nor does a phase in all of which events were lost.
                if !p.is_unclaimed() {
                    args.push(number_arg("gaps", p.phase.gaps.len() as u64));
                    args.push(number_arg("gaps_ns", p.phase.gaps_ns()));
                }
                args.extend(p.starved_share().map(|share| share_arg("gaps_share", share)));
                args
            };
            let span = (p.phase.start_ns, p.phase.end_ns);
            self.verdict(parent, "phases", &p.phase.label(), span, args);
        }
        for i in a.incidents.iter().filter(|i| shown(i.process)) {
            let parent = self.describe_process(i.process);
            let span =
                a.phases.get(i.phase).map_or((self.start_ns, self.end_ns), |p| (p.phase.start_ns, p.phase.end_ns));
            let mut args = vec![
                text_arg("severity", i.severity.name()),
                number_arg("lost_ns", i.lost_ns),
                share_arg("share", i.share),
                text_arg("summary", &i.summary),
                text_arg("root_cause", &i.root_cause),
            ];
            args.extend(i.recommendations.iter().map(|text| text_arg("advice", text)));
            let track = format!("incident: {}", i.kind);
            let uuid = self.verdict(parent, &track, &i.summary, span, args);
            for m in &i.timeline {
                let args = vec![number_arg("tid", a.trace.task(m.task).tid.into())];
                self.verdict(uuid, m.layer.name(), &m.detail, (m.start_ns, m.end_ns), args);
            }
        }
    }
}

fn share_arg(name: &str, value: f64) -> DebugAnnotation {
    let value = Some(AnnotationValue::Double(value));
    DebugAnnotation { name_iid: None, name: Some(name.to_owned()), value }
}
