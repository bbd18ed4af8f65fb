//! What the analysis says, as slices: phases, incidents, what happened in those.

use std::io::Write;

use ingero_analyze::Analysis;
use ingero_replay::ProcessId;

use super::ChromeSink;

impl<W: Write> ChromeSink<'_, W> {
    /// Phases and incidents, each in its process.
    pub(crate) fn verdicts(&mut self, a: &Analysis) {
        let (tracks, selection) = (self.tracks, self.selection);
        let shown = |id: ProcessId| selection.shows_verdicts(a.processes.get(id));
        for p in a.phases.iter().filter(|p| shown(p.phase.process)) {
            self.name_process(p.phase.process);
            let track = tracks.fresh_in(p.phase.process);
            self.metadata("thread_name", track.pid, track.tid, "phases");
            let span = (p.phase.start_ns, p.phase.end_ns);
            let sampled = p.phase.sample.is_some();
            self.slice(track, "phase", &p.phase.label(), span, |o| {
                // A sample does not tell what was submitted, nor what was between.
                if sampled {
                    return;
                }
                o.number("submissions", p.phase.submissions);
                // Nor does a phase in all of which events were lost.
                if p.is_unclaimed() {
                    return;
                }
                o.number("gaps", p.phase.gaps.len() as u64).number("gaps_ns", p.phase.gaps_ns());
                if let Some(share) = p.starved_share() {
                    o.text("gaps_share", &format!("{share:.4}"));
                }
                if let Some(waited) = ingero_analyze::report::waited(a, p) {
                    o.text("waited", &waited);
                }
            });
        }
        for i in a.incidents.iter().filter(|i| shown(i.process)) {
            let span =
                a.phases.get(i.phase).map_or((self.start_ns, self.end_ns), |p| (p.phase.start_ns, p.phase.end_ns));
            self.name_process(i.process);
            let track = tracks.fresh_in(i.process);
            self.metadata("thread_name", track.pid, track.tid, &format!("incident: {}", i.kind));
            self.slice(track, "incident", &i.summary, span, |o| {
                o.text("severity", i.severity.name()).number("lost_ns", i.lost_ns);
                o.text("share", &format!("{:.4}", i.share)).text("root_cause", &i.root_cause);
                o.text("advice", &i.recommendations.join("\n"));
            });
            // Moments may overlap each other: each has a track of its own.
            for m in &i.timeline {
                let track = tracks.fresh_in(i.process);
                self.metadata(
                    "thread_name",
                    track.pid,
                    track.tid,
                    &format!("incident: {}: {}", i.kind, m.layer.name()),
                );
                let tid = self.trace.task(m.task).tid;
                self.slice(track, "incident", &m.detail, (m.start_ns, m.end_ns), |o| {
                    o.number("tid", tid.into());
                });
            }
        }
    }
}
