//! Ranges, marks, operators and work of GPUs, as slices on tracks of their own.

use std::io::Write;

use ingero_replay::Event;

use super::ChromeSink;
use crate::export::layers::{Layer, Place, Value, stretch};
use crate::export::nesting::Slice;
use crate::export::track::Track;

impl<W: Write> ChromeSink<'_, W> {
    pub(super) fn layer(&mut self, event: &Event) {
        let Some(s) = stretch(event, self.processes, self.selection, self.end_ns) else { return };
        let mut layers = std::mem::take(&mut self.layers);
        layers.push(&s, |place, slice| self.write_layer(place, slice));
        self.layers = layers;
    }

    pub(super) fn write_layer(&mut self, place: Place, slice: &Slice<Layer>) {
        let (track, trace) = (self.layer_track(place), self.trace);
        self.done.cut += u64::from(slice.cut);
        self.slice(track, slice.what.what(), slice.what.name(trace), (slice.start_ns, slice.end_ns), |o| {
            slice.what.details(trace, |key, value| {
                match value {
                    Value::Number(n) => o.number(key, n),
                    Value::Text(text) => o.text(key, text),
                };
            });
            if slice.cut {
                o.text("cut", "overlapped the one around it");
            }
        });
    }

    fn layer_track(&mut self, place: Place) -> Track {
        if let Some(track) = self.layer_tracks.get(&place) {
            return *track;
        }
        let track = match place.process(self.processes) {
            Some(process) => {
                self.name_process(process);
                self.tracks.fresh_in(process)
            }
            None => {
                self.name_machine();
                self.tracks.fresh()
            }
        };
        let name = match place {
            Place::Thread(task, what) => format!("{} {what}", self.shown(task, u64::MAX)),
            _ => place.name(),
        };
        self.metadata("thread_name", track.pid, track.tid, &name);
        self.layer_tracks.insert(place, track);
        track
    }
}
