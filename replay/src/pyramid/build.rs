//! Making a pyramid of a trace.

use std::collections::BTreeMap;

use ingero_format::Trace;
use ingero_format::catalog::{Call, END_OPEN, TaskId};

use super::level::{Lanes, Level, Longest, States};
use super::track::{Growing, Track};
use super::{MAX_BYTES, Pyramid};
use crate::event::Event;
use crate::timeline::{CallSpan, Cpus, OffCpu, Run, Sink, State, StoredStay, Timeline, Undivided};

/// The trace is divided into as many cells as this at most, as a power of two.
const CELLS: u32 = 22;
/// Cells are no narrower than this power of two in nanoseconds: no thread does anything in less.
const NARROWEST: u32 = 10;
/// How often progress is told, in events.
const TELL_EVERY: u64 = 1 << 18;

impl Pyramid {
    /// Makes the pyramid of a trace in one walk. `progress` hears now and then which share of the events was passed, from 0
    /// to 1. What cannot be read is left out, as everywhere.
    #[must_use]
    pub fn build(trace: &Trace, progress: &mut dyn FnMut(f64)) -> Self {
        // Lists grow by doubling, and the levels above the smallest cells take a third of those.
        Self::build_within(trace, MAX_BYTES / 2, progress)
    }

    /// The same with room for so many bytes of cells.
    pub(crate) fn build_within(trace: &Trace, most_bytes: usize, progress: &mut dyn FnMut(f64)) -> Self {
        let (start_ns, end_ns) = trace.span_ns().unwrap_or((0, 0));
        let bits = u64::BITS - (end_ns - start_ns).leading_zeros();
        let shift = bits.saturating_sub(CELLS).max(NARROWEST);
        let rows: u64 = trace.blocks().iter().map(|b| u64::from(b.header.rows)).sum();
        let mut builder = Builder {
            shift,
            start_ns,
            end_ns,
            states: Growth::new(trace.tasks().len(), trace.tasks().len()),
            calls: Growth::new(trace.tasks().len(), trace.tasks().len()),
            cpus: Growth::new(0, MAX_CPUS),
            inside: BTreeMap::new(),
            most_bytes,
            seen: 0,
            rows,
            progress,
        };
        Timeline::new(trace).run(&mut builder);
        for (task, (since, func)) in std::mem::take(&mut builder.inside) {
            builder.calls.add(task.0, builder.shift, 0, (since, end_ns - start_ns), func);
        }
        (builder.progress)(1.0);
        let Builder { shift, states, calls, cpus, .. } = builder;
        let mut pyramid = Self::new(trace, shift);
        pyramid.states = states.finish(shift, end_ns - start_ns);
        pyramid.calls = calls.finish(shift, end_ns - start_ns);
        pyramid.cpus = cpus.finish(shift, end_ns - start_ns);
        pyramid
    }
}

/// Tracks in the making, by the number of their thread or CPU.
struct Growth<L> {
    /// Numbers from here on are damage: threads that the file does not have, and no hardware.
    most: usize,
    places: Vec<u32>,
    tracks: Vec<(u32, Growing<L>)>,
    /// Runs of all of them.
    runs: usize,
}

const NOWHERE: u32 = u32::MAX;

impl<L: Lanes> Growth<L> {
    fn new(numbers: usize, most: usize) -> Self {
        Self { most, places: vec![NOWHERE; numbers], tracks: Vec::new(), runs: 0 }
    }

    fn track(&mut self, number: u32, shift: u32) -> Option<&mut Growing<L>> {
        let at = number as usize;
        if at >= self.most {
            return None;
        }
        if at >= self.places.len() {
            self.places.resize(at + 1, NOWHERE);
        }
        if self.places[at] == NOWHERE {
            self.places[at] = u32::try_from(self.tracks.len()).unwrap_or(NOWHERE);
            self.tracks.push((number, Growing::new(shift)));
        }
        self.tracks.get_mut(self.places[at] as usize).map(|(_, track)| track)
    }

    fn add(&mut self, number: u32, shift: u32, lane: usize, (from_ns, to_ns): (u64, u64), label: u32) {
        let Some(track) = self.track(number, shift) else { return };
        let before = track.len();
        track.add(shift, lane, from_ns, to_ns, label);
        let after = track.len();
        self.runs = (self.runs + after).saturating_sub(before);
    }

    fn bytes(&self, shift: u32) -> usize {
        self.runs * Level::<L>::run_bytes(shift) + self.tracks.len() * size_of::<Growing<L>>()
    }

    fn widen(&mut self, shift: u32) {
        self.tracks.iter_mut().for_each(|(_, track)| track.widen(shift));
        self.runs = self.tracks.iter().map(|(_, track)| track.len()).sum();
    }

    fn finish(self, shift: u32, length_ns: u64) -> BTreeMap<u32, Track<L>> {
        self.tracks.into_iter().map(|(number, track)| (number, track.finish(shift, length_ns))).collect()
    }
}

struct Builder<'p> {
    shift: u32,
    start_ns: u64,
    end_ns: u64,
    states: Growth<States>,
    calls: Growth<Longest>,
    cpus: Growth<Longest>,
    /// Calls that threads are still in when the trace ends, from when on.
    inside: BTreeMap<TaskId, (u64, u32)>,
    most_bytes: usize,
    seen: u64,
    rows: u64,
    progress: &'p mut dyn FnMut(f64),
}

/// CPUs beyond this number are damage, not hardware.
const MAX_CPUS: usize = 1 << 16;

impl Builder<'_> {
    /// A range from the trace's start on.
    fn range(&self, from_ns: u64, to_ns: Option<u64>) -> (u64, u64) {
        let within = |ns: u64| ns.clamp(self.start_ns, self.end_ns) - self.start_ns;
        (within(from_ns), within(to_ns.unwrap_or(self.end_ns)))
    }

    fn state(&mut self, task: TaskId, state: State, range: (u64, u64)) {
        let lane = state.lane();
        self.states.add(task.0, self.shift, lane, range, u32::try_from(lane).unwrap_or(0));
        self.keep_small();
    }

    fn keep_small(&mut self) {
        let bytes = |shift| self.states.bytes(shift) + self.calls.bytes(shift) + self.cpus.bytes(shift);
        // One cell for all of the time is as wide as they get.
        if bytes(self.shift) > self.most_bytes
            && (self.end_ns - self.start_ns) >> self.shift > 0
            && self.shift < u64::BITS - 4
        {
            self.states.widen(self.shift);
            self.calls.widen(self.shift);
            self.cpus.widen(self.shift);
            self.shift += 1;
        }
    }
}

impl Sink for Builder<'_> {
    fn event(&mut self, _event: &Event) {
        self.seen += 1;
        if self.seen.is_multiple_of(TELL_EVERY) {
            #[expect(clippy::cast_precision_loss, reason = "a share, for people")]
            let share = self.seen as f64 / self.rows.max(1) as f64;
            (self.progress)(share.min(1.0));
        }
    }

    fn off_cpu(&mut self, stay: &OffCpu, _cpus: &Cpus) {
        for (state, from_ns, to_ns) in stay.parts() {
            let range = self.range(from_ns, to_ns);
            self.state(stay.task, state, range);
        }
    }

    fn stored_stay(&mut self, stay: &StoredStay) {
        let range = self.range(stay.out_ns, Some(stay.back_ns));
        self.state(stay.task, State::OffCpu, range);
    }

    fn undivided(&mut self, part: &Undivided) {
        let range = self.range(part.from_ns, part.to_ns);
        self.state(part.task, State::OffCpu, range);
    }

    fn run(&mut self, run: &Run) {
        let range = self.range(run.start_ns, run.end_ns);
        self.cpus.add(run.cpu, self.shift, 0, range, run.task.0);
        self.state(run.task, State::Running, range);
    }

    fn call(&mut self, span: &CallSpan) {
        if span.depth > 0 || self.inside.contains_key(&span.call.task) {
            return;
        }
        let range = self.range(span.start_ns, Some(span.end_ns));
        self.calls.add(span.call.task.0, self.shift, 0, range, span.call.func.0);
        self.keep_small();
    }

    fn unreturned(&mut self, at_ns: u64, call: &Call) {
        if call.end == END_OPEN {
            let (since, _) = self.range(at_ns, None);
            self.inside.entry(call.task).or_insert((since, call.func.0));
        }
    }
}
