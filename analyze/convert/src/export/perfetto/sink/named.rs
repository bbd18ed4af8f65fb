//! Ranges, marks, operators and work of GPUs, as slices on tracks of their own.

use std::io::Write;

use ingero_replay::Event;

use super::super::proto::{SLICE_BEGIN, TrackDescriptor, TrackEvent};
use super::{PerfettoSink, number_arg, text_arg};
use crate::export::layers::{Layer, Place, Value, stretch};
use crate::export::nesting::Slice;

/// Numbers of their tracks.
const LAYERS: u64 = 5 << 32;

impl<W: Write> PerfettoSink<'_, W> {
    pub(super) fn layer(&mut self, event: &Event) {
        let Some(s) = stretch(event, self.processes, self.selection, self.end_ns) else { return };
        let mut layers = std::mem::take(&mut self.layers);
        layers.push(&s, |place, slice| self.write_layer(place, slice));
        self.layers = layers;
    }

    pub(super) fn write_layer(&mut self, place: Place, slice: &Slice<Layer>) {
        let track_uuid = self.describe_place(place);
        let mut args = Vec::new();
        slice.what.details(self.trace, |key, value| {
            args.push(match value {
                Value::Number(n) => number_arg(key, n),
                Value::Text(text) => text_arg(key, text),
            });
        });
        if slice.cut {
            self.done.cut += 1;
            args.push(text_arg("cut", "overlapped the one around it"));
        }
        let event = TrackEvent {
            debug_annotations: args,
            kind: Some(SLICE_BEGIN),
            track_uuid: Some(track_uuid),
            name: Some(slice.what.name(self.trace).to_owned()),
            ..TrackEvent::default()
        };
        self.track_event(slice.start_ns, event);
        self.end_slice(track_uuid, slice.end_ns);
    }

    fn describe_place(&mut self, place: Place) -> u64 {
        if let Some(uuid) = self.layer_tracks.get(&place) {
            return *uuid;
        }
        let uuid = LAYERS + self.layer_tracks.len() as u64;
        self.layer_tracks.insert(place, uuid);
        let parent_uuid = match place {
            Place::Thread(task, _) => self.describe_thread(task),
            _ => place.process(self.processes).map(|process| self.describe_process(process)),
        };
        let name = Some(place.name());
        self.describe(TrackDescriptor { uuid: Some(uuid), name, parent_uuid, ..TrackDescriptor::default() });
        uuid
    }
}
