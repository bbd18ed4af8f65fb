//! What programs and profilers say of themselves beside calls: ranges and marks of NVTX, operators of a profiler, work of
//! a GPU. Each has a track of its own beside the calls: a profiler's clock and the recorder's differ a little, so that
//! one would cut the other.

use std::collections::HashMap;

use ingero_format::Trace;
use ingero_format::catalog::{
    ACTIVITIES, Body, CALL_ENDS, COPY_KINDS, DeviceActivity, END_OPEN, END_RETURNED, Kind, MARK_SOURCES, Mark,
    RANGE_FORMS, RANGE_STARTED, Range, Span, TaskId,
};
use ingero_replay::{Event, ProcessId, Processes};

use super::names::name_of;
use super::nesting::{Nesting, Slice};
use super::selection::Selection;

/// Where a layer is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Place {
    /// Beside the calls of a thread: what it does by the name that this says.
    Thread(TaskId, &'static str),
    /// A stream of a GPU, as its number in the process.
    Gpu { process: Option<ProcessId>, device: u64, stream: Option<u64> },
    /// Marks that no thread set.
    Marks,
}

impl Place {
    /// The process that it belongs to; none is the machine.
    pub(crate) fn process(self, processes: &Processes) -> Option<ProcessId> {
        match self {
            Self::Thread(task, _) => Some(processes.of(task)),
            Self::Gpu { process, .. } => process,
            Self::Marks => None,
        }
    }

    /// What it is called beside the name of its thread or process.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Thread(_, what) => what.to_owned(),
            Self::Gpu { device, stream: Some(stream), .. } => format!("GPU {device} stream {stream}"),
            Self::Gpu { device, stream: None, .. } => format!("GPU {device}"),
            Self::Marks => "marks".to_owned(),
        }
    }
}

/// One of them.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Layer {
    Range(Range),
    Mark(Mark),
    Span(Span),
    Device(DeviceActivity),
}

/// A value that is shown with one.
pub(crate) enum Value<'t> {
    Number(u64),
    Text(&'t str),
}

/// A layer with its place in time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stretch {
    pub(crate) place: Place,
    pub(crate) start_ns: u64,
    /// None where nobody knows.
    pub(crate) end_ns: Option<u64>,
    pub(crate) layer: Layer,
}

impl Layer {
    pub(crate) fn name<'t>(&self, trace: &'t Trace) -> &'t str {
        let name = match self {
            Self::Range(e) => e.name,
            Self::Mark(e) => e.text,
            Self::Span(e) => Some(e.name),
            Self::Device(e) => Some(e.name),
        };
        name.map_or("unknown", |name| trace.string(name))
    }

    /// What it is, in a word.
    pub(crate) fn what(&self) -> &'static str {
        match self {
            Self::Range(_) => "range",
            Self::Mark(_) => "mark",
            Self::Span(_) => "span",
            Self::Device(_) => "device",
        }
    }

    /// The thread, where one is known.
    pub(crate) fn task(&self) -> Option<TaskId> {
        match self {
            Self::Range(e) => Some(e.task),
            Self::Mark(e) => e.task,
            Self::Span(e) => Some(e.task),
            Self::Device(e) => e.task,
        }
    }

    /// What is known of it beside.
    pub(crate) fn details<'t>(&self, trace: &'t Trace, mut tell: impl FnMut(&'static str, Value<'t>)) {
        let numbers = |all: &[(&'static str, Option<u64>)], tell: &mut dyn FnMut(&'static str, Value<'t>)| {
            all.iter().filter_map(|(key, n)| Some((*key, (*n)?))).for_each(|(key, n)| tell(key, Value::Number(n)));
        };
        match self {
            Self::Range(e) => {
                tell("form", Value::Text(name_of(RANGE_FORMS, e.form)));
                if e.end != END_RETURNED {
                    tell("end", Value::Text(name_of(CALL_ENDS, e.end)));
                }
            }
            Self::Mark(e) => tell("source", Value::Text(name_of(MARK_SOURCES, e.source))),
            Self::Span(e) => {
                tell("category", Value::Text(trace.string(e.category)));
                numbers(&[("external_id", e.external_id)], &mut tell);
            }
            Self::Device(e) => {
                tell("activity", Value::Text(name_of(ACTIVITIES, e.activity)));
                let all = [
                    ("device", Some(e.device)),
                    ("stream", e.stream),
                    ("bytes", e.bytes),
                    ("correlation", e.correlation),
                ];
                numbers(&all, &mut tell);
                if let Some(copy) = e.copy {
                    tell("copy", Value::Text(name_of(COPY_KINDS, copy)));
                }
            }
        }
    }
}

/// The layer that an event is, if it is one and is selected. It belongs to the range by its begin, as a call does.
pub(crate) fn stretch(
    event: &Event,
    processes: &Processes,
    selection: &Selection,
    trace_end_ns: u64,
) -> Option<Stretch> {
    let at = event.ts_ns;
    let after = |ns: u64| Some(at.saturating_add(ns));
    let (kind, place, end_ns, layer) = match event.body {
        Body::Range(e) => {
            // Those that start and end anywhere overlap the others.
            let what = if e.form == RANGE_STARTED { "ranges from start to end" } else { "ranges" };
            let end_ns = match e.end {
                END_OPEN => Some(trace_end_ns),
                _ => e.dur_ns.and_then(after),
            };
            (Kind::Range, Place::Thread(e.task, what), end_ns, Layer::Range(e))
        }
        Body::Mark(e) => {
            let place = e.task.map_or(Place::Marks, |task| Place::Thread(task, "marks"));
            (Kind::Mark, place, Some(at), Layer::Mark(e))
        }
        Body::Span(e) => (Kind::Span, Place::Thread(e.task, "operators"), after(e.dur_ns), Layer::Span(e)),
        Body::DeviceActivity(e) => {
            let process = e.task.map(|task| processes.of(task));
            let place = Place::Gpu { process, device: e.device, stream: e.stream };
            (Kind::DeviceActivity, place, after(e.dur_ns), Layer::Device(e))
        }
        _ => return None,
    };
    let long = layer.what() == "mark" || end_ns.is_none_or(|end| end - at >= selection.min_duration_ns);
    let shown = layer.task().map_or(selection.shows_all(), |task| selection.shows(task));
    (long && shown && selection.takes_kind(kind) && selection.touches((at, at))).then_some(Stretch {
        place,
        start_ns: at,
        end_ns,
        layer,
    })
}

/// All of them on their tracks, each of which nests.
#[derive(Default)]
pub(crate) struct Layers {
    tracks: HashMap<Place, Nesting<Layer>>,
}

impl Layers {
    /// Takes one that begins no earlier than those before it; tells what cannot change any more.
    pub(crate) fn push(&mut self, s: &Stretch, mut tell: impl FnMut(Place, &Slice<Layer>)) {
        let nesting = self.tracks.entry(s.place).or_default();
        // Where the end cannot be known, none is claimed.
        nesting.push(s.start_ns, s.end_ns.unwrap_or(s.start_ns), s.layer, |slice| tell(s.place, slice));
    }

    /// Tells what is held back.
    pub(crate) fn finish(self, mut tell: impl FnMut(Place, &Slice<Layer>)) {
        let mut tracks: Vec<_> = self.tracks.into_iter().collect();
        tracks.sort_by_key(|(place, _)| *place);
        for (place, mut nesting) in tracks {
            nesting.flush(|slice| tell(place, slice));
        }
    }
}
