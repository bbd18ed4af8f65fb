//! Arrows from who woke to who was woken.
//!
//! Where many threads wake one another these are most of a trace, so each end is as few bytes as can be: the packets are a
//! sequence of their own, whose times count from one to the next and whose names are two.

use std::io::Write;

use ingero_format::catalog::{Kind, TaskId};

use super::super::proto::{INSTANT, InternedData, InternedName, TrackDescriptor, TrackEvent};
use super::{PerfettoSink, THREADS, TRACKS_OF_A_THREAD};

const SEQUENCE: u32 = 2;
/// Names of the two ends, by their number.
const ENDS: [&str; 2] = ["wakes", "woken"];
const WAKES: u64 = 1;
const WOKEN: u64 = 2;
/// The id of every arrow that begins and ends in one instant: it is over before the next one begins, and a small number
/// takes one byte.
const IN_AN_INSTANT: u64 = 1;

/// What is remembered of the arrows.
#[derive(Debug, Default)]
pub(super) struct Flows {
    /// Arrows so far whose ends are apart.
    apart: u64,
}

impl<W: Write> PerfettoSink<'_, W> {
    /// What all ends of arrows refer to.
    pub(super) fn begin_flows(&mut self) {
        let names = (1..).zip(ENDS).map(|(iid, name)| InternedName { iid: Some(iid), name: Some(name.to_owned()) });
        self.begin_sequence(SEQUENCE, InternedData { event_names: names.collect(), ..InternedData::default() });
    }

    /// An arrow between two threads that are both shown.
    pub(super) fn flow(&mut self, from: (TaskId, u64), to: (TaskId, u64)) {
        // The idle task wakes nobody: it is only what was current.
        let shown = from.0 != TaskId(0) && self.selection.shows(from.0) && self.selection.touches((from.1, from.1));
        if !shown || !self.selection.takes_kind(Kind::Waking) {
            return;
        }
        let (Some(waker), Some(wakee)) = (self.describe_wakes(from.0), self.describe_wakes(to.0)) else { return };
        let id = if from.1 == to.1 {
            IN_AN_INSTANT
        } else {
            self.flows.apart += 1;
            IN_AN_INSTANT + self.flows.apart
        };
        self.done.flows += 1;
        let end = |name_iid, track_uuid| TrackEvent {
            kind: Some(INSTANT),
            name_iid: Some(name_iid),
            track_uuid: Some(track_uuid),
            ..TrackEvent::default()
        };
        self.end_of_flow(from.1, TrackEvent { flow_ids: vec![id], ..end(WAKES, waker) });
        self.end_of_flow(to.1, TrackEvent { terminating_flow_ids: vec![id], ..end(WOKEN, wakee) });
    }

    fn end_of_flow(&mut self, ts_ns: u64, event: TrackEvent) {
        self.event_of(SEQUENCE, ts_ns, event);
    }

    /// The track of a thread's wakes, below that of its calls.
    fn describe_wakes(&mut self, task: TaskId) -> Option<u64> {
        let uuid = THREADS + TRACKS_OF_A_THREAD * u64::from(task.0) + 1;
        if !self.described.contains(&uuid) {
            let parent_uuid = Some(self.describe_thread(task)?);
            let name = Some("wakes".to_owned());
            self.describe(TrackDescriptor { uuid: Some(uuid), name, parent_uuid, ..TrackDescriptor::default() });
        }
        Some(uuid)
    }
}
