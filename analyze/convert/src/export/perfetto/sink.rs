//! Turns what the timeline tells into packets.

mod flows;
mod named;
mod switches;
mod verdicts;

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};

use ingero_analyze::counters::{Counters, Reading};
use ingero_format::Trace;
use ingero_format::catalog::{
    Body, CALL_ENDS, COPY_KINDS, CPU, Call, Clock as ClockRow, END_OPEN, END_THREAD_EXIT, Kind, LOSS_CAUSES, Loss,
    NO_CPU, StrId, Switch, TaskId,
};
use ingero_replay::{Blind, Cpus, Event, Hosts, Merge, OffCpu, OffKind, ProcessId, Processes, Run, Sight, Sink, Waker};

use super::Exported;
use super::proto::{
    AnnotationValue, BOOTTIME, COUNTER, Clock, ClockSnapshot, CounterDescriptor, Data, DebugAnnotation,
    INCREMENTAL_STATE_CLEARED, INSTANT, InternedData, InternedName, MONOTONIC, OWN_CLOCK, ProcessDescriptor,
    ProcessTree, REALTIME, SLICE_BEGIN, SLICE_END, SystemInfo, ThreadDescriptor, TracePacket, TracePacketDefaults,
    TrackDescriptor, TrackEvent, TreeProcess, TreeThread, Utsname,
};
use super::sched::{Bundles, Held, Name, WakeRow};
use super::stream::PacketStream;
use crate::export::exits::exits;
use crate::export::layers::{self, Layers};
use crate::export::names::{host_of, name_of};
use crate::export::nesting::{Nesting, Slice};
use crate::export::selection::Selection;
use crate::export::track::Tracks;
use crate::input::Progress;
use flows::Flows;

/// Sequence of all packets but those of [`flows`] and of track events.
const SEQUENCE: u32 = 1;
/// Sequence of track events.
const EVENTS: u32 = 3;
/// Sequences, and one more: their numbers begin at 1.
const SEQUENCES: usize = 4;
/// Numbers of tracks by what they are: a thread has two, of its calls and of its wakes.
const THREADS: u64 = 1;
const TRACKS_OF_A_THREAD: u64 = 2;
const PROCESSES: u64 = 1 << 32;
const COUNTERS: u64 = 2 << 32;
const LOSSES: u64 = 3 << 32;

/// Names of annotations, interned by their place here, from 1.
const ANNOTATIONS: &[&str] = &["bytes", "copy", "stream", "ptr", "ptr2", "result", "end", "cut", "thread"];
const BYTES: u64 = 1;
const COPY: u64 = 2;
const STREAM: u64 = 3;
const PTR: u64 = 4;
const PTR2: u64 = 5;
const RESULT: u64 = 6;
const END: u64 = 7;
const CUT: u64 = 8;
const THREAD: u64 = 9;
/// Interned values: copies from 1, ends from 101.
const COPIES_FROM: u64 = 1;
const ENDS_FROM: u64 = 101;

/// `common_flags` of a wake from a hard and a soft interrupt.
const FLAG_HARDIRQ: u32 = 0x08;
const FLAG_SOFTIRQ: u32 = 0x10;

/// Perfetto keeps one name for each thread, the last it is told: that is to be what it became. Calls say where they had
/// another one.
const LATEST: u64 = u64::MAX;
/// Stands on a CPU for everybody who is not selected: no task has this number.
const OTHERS: TaskId = TaskId(u32::MAX);
/// The state in which a thread leaves a CPU unreported: parked and idle at once, which the kernel says of nobody. The reader must
/// take one, and any other would be time that the recording does not have: runnable, or blocked.
const UNKNOWN: u64 = 0xc0;
/// Bits of a state: dead or a zombie; could have gone on.
const DEAD: u64 = 0x30;
const PREEMPTED: u64 = 0x100;
/// Wakes of a task that are remembered while it does not block.
const WAKES_KEPT: usize = 16;
/// CPUs beyond this number are damage, not hardware.
const MAX_CPUS: u32 = 1 << 12;

/// Number of CPUs that took part in switches and wakes, as far as they are numbered like CPUs.
fn cpus(trace: &Trace) -> u32 {
    let took_part = [Kind::Switch as u16, Kind::Waking as u16];
    let blocks = trace.blocks().iter().filter(|b| took_part.contains(&b.header.kind));
    let highest = blocks.filter_map(|b| {
        let columns = trace.stored_columns(b).ok()?;
        let (_, highest) = columns.iter().find(|c| c.id == CPU)?.range?;
        u32::try_from(highest).ok().filter(|cpu| *cpu < MAX_CPUS - 1)
    });
    highest.max().map_or(0, |cpu| cpu + 1)
}

pub(super) struct PerfettoSink<'t, W: Write> {
    trace: &'t Trace,
    processes: &'t Processes,
    tracks: &'t Tracks,
    selection: &'t Selection,
    stream: PacketStream<W>,
    progress: &'t Progress,
    told: u64,
    done: Exported,
    start_ns: u64,
    end_ns: u64,
    /// By sequence: the time of its last event, from the trace's start.
    reached_ns: [u64; SEQUENCES],
    /// From the trace's clock to boot time.
    boot_offset_ns: i128,
    exits: HashMap<TaskId, u64>,
    described: HashSet<u64>,
    bundles: Bundles,
    /// By CPU: the task that the reader takes to be on it, and since when.
    on_cpu: Vec<(TaskId, u64)>,
    /// By CPU: the thread that stands for who is not selected.
    others: Vec<u32>,
    /// The stretch that was told last: whose it was, and its end.
    last_run: Option<(TaskId, u64)>,
    /// By task: the switch with which it left its CPU, until it is told what it did then.
    left: Vec<Option<Held>>,
    /// From when on switches tell who is on a CPU: where some are missing, the others would be taken for all.
    sight: Sight,
    /// The switch that is being told, until its effects are.
    switch: Option<(u64, u32, Switch)>,
    /// By wakee: when and on which CPUs wakes of it were recorded since its last stay.
    wakes: Vec<Vec<(u64, u32)>>,
    /// A CPU that the machine does not have, on which nobody ever is: wakes by unknown wakers come from there.
    nowhere: u32,
    threads: Vec<Nesting<Call>>,
    layers: Layers,
    layer_tracks: HashMap<layers::Place, u64>,
    counters: Counters,
    /// Numbers of the counters' tracks, by name.
    counter_tracks: HashMap<String, u64>,
    verdicts: u64,
    flows: Flows,
}

impl<'t, W: Write> PerfettoSink<'t, W> {
    pub(super) fn new(
        trace: &'t Trace,
        processes: &'t Processes,
        tracks: &'t Tracks,
        selection: &'t Selection,
        stream: PacketStream<W>,
        progress: &'t Progress,
    ) -> Self {
        let (start_ns, end_ns) = trace.span_ns().unwrap_or_default();
        let boot_offset_ns = Merge::of(trace, |kind| kind == Kind::Clock).find_map(|event| match event.body {
            Body::Clock(c) => Some(i128::from(c.boot_ns) - i128::from(event.ts_ns)),
            _ => None,
        });
        Self {
            trace,
            processes,
            tracks,
            selection,
            stream,
            progress,
            told: 0,
            done: Exported::default(),
            start_ns,
            end_ns,
            reached_ns: [0; SEQUENCES],
            boot_offset_ns: boot_offset_ns.unwrap_or(0),
            exits: exits(trace),
            described: HashSet::new(),
            bundles: Bundles::default(),
            on_cpu: Vec::new(),
            others: Vec::new(),
            last_run: None,
            left: vec![None; trace.tasks().len()],
            sight: Sight::new(Hosts::new(trace)),
            switch: None,
            wakes: vec![Vec::new(); trace.tasks().len()],
            nowhere: cpus(trace),
            threads: (0..trace.tasks().len()).map(|_| Nesting::default()).collect(),
            layers: Layers::default(),
            layer_tracks: HashMap::new(),
            counters: Counters::new(trace),
            counter_tracks: HashMap::new(),
            verdicts: 0,
            flows: Flows::default(),
        }
    }

    /// A time as Perfetto has it.
    fn boot(&self, ns: u64) -> u64 {
        u64::try_from((i128::from(ns) + self.boot_offset_ns).max(0)).unwrap_or(u64::MAX)
    }

    fn text(&self, id: StrId) -> &'t str {
        self.trace.string(id)
    }

    fn name(&self, task: TaskId, ts_ns: u64) -> Option<StrId> {
        match self.processes.names(task) {
            [] => None,
            [(_, only)] => Some(*only),
            _ => self.processes.name_at(task, ts_ns),
        }
    }

    /// What all packets after it refer to: interned names, the processes, the machine.
    pub(super) fn begin(&mut self) {
        let interned = |from: u64, names: &mut dyn Iterator<Item = &str>| -> Vec<InternedName> {
            (from..)
                .zip(names)
                .map(|(iid, name)| InternedName { iid: Some(iid), name: Some(name.to_owned()) })
                .collect()
        };
        let functions = self.trace.functions();
        let mut values = interned(COPIES_FROM, &mut COPY_KINDS.iter().map(|(_, n)| *n));
        values.extend(interned(ENDS_FROM, &mut CALL_ENDS.iter().map(|(_, n)| *n)));
        let mut event_names = interned(1, &mut functions.iter().map(|f| f.symbol.as_str()));
        event_names.push(InternedName { iid: Some(self.unknown_function()), name: Some("unknown function".into()) });
        let categories = ["runtime", "driver", "graph", "nccl"];
        let mut event_categories = interned(1, &mut categories.into_iter());
        event_categories.push(InternedName { iid: Some(255), name: Some("other".into()) });
        let interned_data = InternedData {
            event_categories,
            event_names,
            debug_annotation_names: interned(1, &mut ANNOTATIONS.iter().copied()),
            debug_annotation_string_values: values,
        };
        let meta = |key: &str| self.trace.meta(key).map(str::to_owned);
        let utsname = Utsname {
            sysname: Some("Linux".to_owned()),
            release: Some(release(self.trace.meta("kernel"))),
            machine: meta("machine"),
        };
        self.data(None, Data::SystemInfo(SystemInfo { utsname: Some(utsname) }));
        // Before the others: snapshots go forward in time.
        self.begin_sequence(EVENTS, interned_data);
        self.begin_flows();
        let anchors: Vec<(u64, ClockRow)> = Merge::of(self.trace, |kind| kind == Kind::Clock)
            .filter_map(|event| match event.body {
                Body::Clock(c) => Some((event.ts_ns, c)),
                _ => None,
            })
            .collect();
        for (ts_ns, c) in anchors {
            let times = [(BOOTTIME, self.boot(ts_ns)), (MONOTONIC, ts_ns), (REALTIME, c.real_ns)];
            let clock = |(id, ns)| Clock { clock_id: Some(id), timestamp: Some(ns), is_incremental: None };
            let clocks = times.map(clock).to_vec();
            self.data(Some(ts_ns), Data::ClockSnapshot(ClockSnapshot { clocks }));
        }
        self.process_tree();
    }

    /// Begins a sequence with names and a clock of its own, which begins with the trace and counts from packet to packet.
    fn begin_sequence(&mut self, sequence: u32, interned_data: InternedData) {
        self.stream.packet(&TracePacket {
            trusted_packet_sequence_id: Some(sequence),
            sequence_flags: Some(INCREMENTAL_STATE_CLEARED),
            interned_data: Some(interned_data),
            trace_packet_defaults: Some(TracePacketDefaults { timestamp_clock_id: Some(OWN_CLOCK) }),
            ..TracePacket::default()
        });
        let times = [(BOOTTIME, self.boot(self.start_ns), None), (OWN_CLOCK, 0, Some(true))];
        let clock = |(id, ns, is_incremental)| Clock { clock_id: Some(id), timestamp: Some(ns), is_incremental };
        let clocks = times.map(clock).to_vec();
        self.stream.packet(&TracePacket {
            trusted_packet_sequence_id: Some(sequence),
            data: Some(Data::ClockSnapshot(ClockSnapshot { clocks })),
            ..TracePacket::default()
        });
    }

    fn unknown_function(&self) -> u64 {
        self.trace.functions().len() as u64 + 1
    }

    fn process_tree(&mut self) {
        let signed = |id: u32| i32::try_from(id).ok();
        let mut tree = ProcessTree::default();
        for (id, p) in self.processes.iter() {
            let shown = p.threads.iter().filter(|t| self.selection.shows(**t));
            let Some(pid) = signed(self.tracks.pid(id)) else { continue };
            let mut any = false;
            for &task in shown {
                any = true;
                let name = self.processes.name_at(task, u64::MAX).map(|n| self.text(n).to_owned());
                let tid = self.tracks.calls(task).and_then(|t| signed(t.tid));
                if tid != Some(pid) {
                    tree.threads.push(TreeThread { tid, name, tgid: Some(pid) });
                }
            }
            if any {
                let parent = p.parent.map(|parent| self.tracks.pid(parent)).or(p.parent_pid);
                let ppid = parent.and_then(signed);
                tree.processes.push(TreeProcess { pid: Some(pid), ppid, cmdline: vec![self.process_name(id)] });
            }
        }
        self.data(Some(self.start_ns), Data::ProcessTree(tree));
    }

    fn process_name(&self, id: ProcessId) -> String {
        match self.processes.process_name_at(id, u64::MAX) {
            Some(name) => self.text(name).to_owned(),
            None => format!("process {}", self.processes.get(id).pid),
        }
    }

    fn data(&mut self, ts_ns: Option<u64>, data: Data) {
        let timestamp = ts_ns.map(|ns| self.boot(ns));
        self.stream.packet(&TracePacket {
            timestamp,
            trusted_packet_sequence_id: Some(SEQUENCE),
            data: Some(data),
            ..TracePacket::default()
        });
    }

    fn track_event(&mut self, ts_ns: u64, event: TrackEvent) {
        self.event_of(EVENTS, ts_ns, event);
    }

    /// A track event of a sequence. Its time counts from the one before it there: near times are few bytes, and most alike. Slices
    /// are written when they are known to be whole, so it may be earlier too: the reader adds words, and so does this.
    fn event_of(&mut self, sequence: u32, ts_ns: u64, event: TrackEvent) {
        self.bundles.overtaken();
        let at_ns = ts_ns.saturating_sub(self.start_ns);
        let before = self.reached_ns.get_mut(sequence as usize).map_or(0, |ns| std::mem::replace(ns, at_ns));
        self.stream.packet(&TracePacket {
            timestamp: Some(at_ns.wrapping_sub(before)),
            trusted_packet_sequence_id: Some(sequence),
            data: Some(Data::TrackEvent(event)),
            ..TracePacket::default()
        });
    }

    fn counters(&mut self, event: &Event) {
        let Some((kind, readings)) = self.counters.readings(event) else { return };
        if !self.selection.takes_kind(kind) || !self.selection.touches((event.ts_ns, event.ts_ns)) {
            return;
        }
        for Reading { name, thousandths } in readings {
            let known = self.counter_tracks.len() as u64;
            let uuid = COUNTERS + *self.counter_tracks.entry(name.to_string()).or_insert(known);
            self.describe(TrackDescriptor {
                uuid: Some(uuid),
                name: Some(name.into_owned()),
                counter: Some(CounterDescriptor {}),
                ..TrackDescriptor::default()
            });
            #[expect(clippy::cast_precision_loss, reason = "a counter is shown, not added up")]
            let value = thousandths as f64 / 1000.0;
            let event_data = TrackEvent {
                kind: Some(COUNTER),
                track_uuid: Some(uuid),
                double_counter_value: Some(value),
                ..TrackEvent::default()
            };
            self.track_event(event.ts_ns, event_data);
        }
    }

    fn describe(&mut self, track: TrackDescriptor) {
        if let Some(uuid) = track.uuid
            && self.described.insert(uuid)
        {
            self.data(None, Data::TrackDescriptor(track));
        }
    }

    fn describe_process(&mut self, id: ProcessId) -> u64 {
        let uuid = PROCESSES + u64::from(id.0);
        if !self.described.contains(&uuid) {
            let process = ProcessDescriptor {
                pid: i32::try_from(self.tracks.pid(id)).ok(),
                process_name: Some(self.process_name(id)),
            };
            self.describe(TrackDescriptor { uuid: Some(uuid), process: Some(process), ..TrackDescriptor::default() });
        }
        uuid
    }

    fn describe_thread(&mut self, task: TaskId) -> Option<u64> {
        let uuid = THREADS + TRACKS_OF_A_THREAD * u64::from(task.0);
        if !self.described.contains(&uuid) {
            let track = self.tracks.calls(task)?;
            self.describe_process(self.processes.of(task));
            let thread = ThreadDescriptor {
                pid: i32::try_from(track.pid).ok(),
                tid: i32::try_from(track.tid).ok(),
                thread_name: self.processes.name_at(task, u64::MAX).map(|n| self.text(n).to_owned()),
            };
            self.describe(TrackDescriptor { uuid: Some(uuid), thread: Some(thread), ..TrackDescriptor::default() });
        }
        Some(uuid)
    }

    fn write_call(&mut self, slice: &Slice<Call>) {
        let call = &slice.what;
        let Some(track_uuid) = self.describe_thread(call.task) else { return };
        let mut args = Vec::new();
        let mut arg = |name_iid, value| {
            args.push(DebugAnnotation { name_iid: Some(name_iid), name: None, value: Some(value) });
        };
        if let Some(bytes) = call.bytes {
            arg(BYTES, AnnotationValue::Unsigned(bytes));
        }
        if let Some(copy) = call.copy.filter(|c| COPY_KINDS.iter().any(|(v, _)| v == c)) {
            arg(COPY, AnnotationValue::TextIid(COPIES_FROM + copy));
        }
        for (name, value) in [(STREAM, call.stream), (PTR, call.ptr), (PTR2, call.ptr2)] {
            if let Some(value) = value {
                arg(name, AnnotationValue::Pointer(value));
            }
        }
        if let Some(result) = call.result {
            arg(RESULT, AnnotationValue::Signed(result));
        }
        if call.dur_ns.is_none() && CALL_ENDS.iter().any(|(v, _)| *v == call.end) {
            arg(END, AnnotationValue::TextIid(ENDS_FROM + call.end));
        }
        if slice.cut {
            self.done.cut += 1;
            arg(CUT, AnnotationValue::Text("overlapped the call around it".to_owned()));
        }
        let name = self.name(call.task, slice.start_ns);
        if let Some(id) = name.filter(|_| name != self.name(call.task, u64::MAX)) {
            arg(THREAD, AnnotationValue::Text(self.text(id).to_owned()));
        }
        let function = self.trace.function(call.func);
        let begin = TrackEvent {
            category_iids: vec![function.map_or(255, |f| f.layer as u64)],
            debug_annotations: args,
            kind: Some(SLICE_BEGIN),
            name_iid: Some(function.map_or_else(|| self.unknown_function(), |_| u64::from(call.func.0) + 1)),
            track_uuid: Some(track_uuid),
            ..TrackEvent::default()
        };
        self.done.calls += 1;
        self.track_event(slice.start_ns, begin);
        self.end_slice(track_uuid, slice.end_ns);
    }

    fn end_slice(&mut self, track_uuid: u64, ts_ns: u64) {
        let end = TrackEvent { kind: Some(SLICE_END), track_uuid: Some(track_uuid), ..TrackEvent::default() };
        self.track_event(ts_ns, end);
    }

    fn take_call(&mut self, ts_ns: u64, call: &Call) {
        if !self.selection.shows_call(ts_ns, call.dur_ns, call.task) {
            return;
        }
        // Where the end cannot be known, none is claimed.
        let end_ns = match (call.dur_ns, call.end) {
            (Some(dur), _) => match ts_ns.checked_add(dur) {
                Some(end) => end,
                None => return,
            },
            (None, END_OPEN) => self.end_ns,
            (None, END_THREAD_EXIT) => self.exits.get(&call.task).copied().unwrap_or(ts_ns),
            _ => ts_ns,
        };
        let Some(mut nesting) = self.threads.get_mut(call.task.index()).map(std::mem::take) else { return };
        nesting.push(ts_ns, end_ns, *call, |slice| self.write_call(slice));
        if let Some(place) = self.threads.get_mut(call.task.index()) {
            *place = nesting;
        }
    }

    fn loss(&mut self, ts_ns: u64, cpu: u32, loss: &Loss) {
        if !self.selection.takes_kind(Kind::Loss) || !self.selection.touches((ts_ns, loss.to_ns)) {
            return;
        }
        let mut args = vec![text_arg("cause", name_of(LOSS_CAUSES, loss.cause))];
        if let Some(count) = loss.count {
            args.push(number_arg("count", count));
        }
        if cpu != NO_CPU {
            args.push(number_arg("cpu", cpu.into()));
        }
        if let Some(host) = host_of(self.trace, loss) {
            args.push(text_arg("host", &host));
        }
        args.push(number_arg("to_ns", self.boot(loss.to_ns)));
        let name = format!("lost: {}", self.text(loss.probe));
        self.note(name, ts_ns, args);
    }

    /// Says that a part of the file could not be read.
    pub(super) fn damage(&mut self, problem: &str, from_ns: u64, to_ns: u64) {
        let args = vec![text_arg("problem", problem), number_arg("to_ns", self.boot(to_ns))];
        self.note("damaged block".to_owned(), from_ns, args);
    }

    fn note(&mut self, name: String, ts_ns: u64, args: Vec<DebugAnnotation>) {
        let name_of_track = Some("losses".to_owned());
        self.describe(TrackDescriptor { uuid: Some(LOSSES), name: name_of_track, ..TrackDescriptor::default() });
        let ts_ns = ts_ns.max(self.selection.window.from_ns);
        let event = TrackEvent {
            debug_annotations: args,
            kind: Some(INSTANT),
            track_uuid: Some(LOSSES),
            name: Some(name),
            ..TrackEvent::default()
        };
        self.track_event(ts_ns, event);
    }

    /// Writes what is still held back.
    pub(super) fn finish(mut self) -> io::Result<Exported> {
        self.settle_switch();
        self.flush_bundles();
        for at in 0..self.threads.len() {
            let mut nesting = std::mem::take(&mut self.threads[at]);
            nesting.flush(|slice| self.write_call(slice));
        }
        let layers = std::mem::take(&mut self.layers);
        layers.finish(|place, slice| self.write_layer(place, slice));
        self.stream.end()?;
        Ok(self.done)
    }
}

fn text_arg(name: &str, value: &str) -> DebugAnnotation {
    let value = Some(AnnotationValue::Text(value.to_owned()));
    DebugAnnotation { name_iid: None, name: Some(name.to_owned()), value }
}

fn number_arg(name: &str, value: u64) -> DebugAnnotation {
    let value = Some(AnnotationValue::Unsigned(value));
    DebugAnnotation { name_iid: None, name: Some(name.to_owned()), value }
}

impl<W: Write> Sink for PerfettoSink<'_, W> {
    fn event(&mut self, event: &Event) {
        self.settle_switch();
        self.told += 1;
        if self.told.is_multiple_of(1 << 14) {
            self.progress.add(1 << 14);
        }
        if self.bundles.is_full() {
            self.flush_bundles();
        }
        match &event.body {
            Body::Switch(e) if self.shows_states() && self.sight.holds(event.ts_ns, event.cpu) => {
                self.switch = Some((event.ts_ns, event.cpu, *e));
            }
            Body::Waking(w) => {
                if let Some(wakes) = self.wakes.get_mut(w.wakee.index()) {
                    // Who is woken over and over without a stay is running: those wakes end no block.
                    if wakes.len() >= WAKES_KEPT {
                        wakes.remove(0);
                    }
                    wakes.push((event.ts_ns, event.cpu));
                }
            }
            Body::Call(call) => self.take_call(event.ts_ns, call),
            Body::Loss(loss) => self.loss(event.ts_ns, event.cpu, loss),
            Body::Range(_) | Body::Mark(_) | Body::Span(_) | Body::DeviceActivity(_) => self.layer(event),
            _ => self.counters(event),
        }
    }

    /// A stretch on a CPU whose begin the reader does not know of: nobody reported the switch.
    fn run(&mut self, run: &Run) {
        if !self.shows_states() {
            return;
        }
        let (from, to) = self.selection.clip((run.start_ns, run.end_ns.unwrap_or(self.end_ns)));
        if to <= from && run.end_ns.is_some() {
            return;
        }
        if run.end_ns.is_none() {
            // Told at the end of the trace: the last switch has had its effects.
            self.settle_switch();
        }
        let Some(place) = self.place(run.cpu) else { return };
        if self.is_on(place) != run.task {
            self.put_switch(from, run.cpu, UNKNOWN, run.task, None);
        }
        self.last_run = Some((run.task, to));
        let is_switched = self.switch.is_some_and(|(_, _, e)| e.prev == run.task);
        if run.end_ns.is_some_and(|end_ns| end_ns == to && to < self.end_ns) && !is_switched {
            // No switch ended it: it was lost sight of, or its host's recording ends.
            self.put_switch(to, run.cpu, UNKNOWN, TaskId(0), None);
        }
    }

    fn blind(&mut self, blind: &Blind) {
        self.sight.lose(blind);
    }

    /// It left its CPU unseen: it is on it no longer than something showed that it was.
    fn lost_sight(&mut self, task: TaskId) {
        if task == TaskId(0) {
            return;
        }
        let Some(place) = self.on_cpu.iter().position(|(on, _)| *on == task) else {
            // It did not sleep, or was not ready to run, for as long as it seemed when it left: when that ended nobody saw.
            if let Some(left) = self.left.get_mut(task.index()).and_then(Option::take) {
                self.bundles.amend(left, UNKNOWN);
            }
            return;
        };
        let Some((_, since_ns)) = self.on_cpu.get(place).copied() else { return };
        let proven_ns =
            self.last_run.filter(|(of, _)| *of == task).map_or(since_ns, |(_, end_ns)| end_ns.max(since_ns));
        if let Ok(cpu) = u32::try_from(place) {
            self.put_switch(proven_ns, cpu, UNKNOWN, TaskId(0), None);
        }
    }

    fn off_cpu(&mut self, stay: &OffCpu, _: &Cpus) {
        let recorded = self.wakes.get_mut(stay.task.index()).map(std::mem::take).unwrap_or_default();
        if let Some(left) = self.left.get_mut(stay.task.index()) {
            *left = None;
        }
        if !self.shows_states() {
            return;
        }
        let wakes = matches!(stay.kind, OffKind::Blocked | OffKind::Newborn) && self.selection.shows(stay.task);
        if let Some(ts_ns) = stay.runnable_ns.filter(|ns| wakes && self.selection.touches((*ns, *ns))) {
            // The one that counts, or the early one that was moved to the switch-out.
            let this =
                recorded.iter().find(|(at, _)| *at == ts_ns).or_else(|| recorded.iter().rfind(|(at, _)| *at < ts_ns));
            let (cpu, flags) = match (stay.waker, this) {
                (Waker::Task(_), Some((_, cpu))) => (*cpu, 0),
                (Waker::Interrupt { context: 1, .. }, Some((_, cpu))) => (*cpu, FLAG_SOFTIRQ),
                (Waker::Interrupt { .. }, Some((_, cpu))) => (*cpu, FLAG_HARDIRQ),
                _ => (self.nowhere, 0),
            };
            if self.place(cpu).is_some() {
                let target = stay.wait_cpu.and_then(|cpu| i32::try_from(cpu).ok()).unwrap_or(0);
                let wakee_tid = self.tracks.calls(stay.task).and_then(|t| i32::try_from(t.tid).ok()).unwrap_or(0);
                let wakee_name = Name::Of(self.name(stay.task, LATEST));
                let row = WakeRow { ts_ns: self.boot(ts_ns), wakee_tid, target_cpu: target, flags, wakee_name };
                self.done.wakes += 1;
                self.bundles.wake(cpu, row);
            }
            if let (Waker::Task(waker), Some((woke_ns, _))) = (stay.waker, this) {
                let woke_ns = *woke_ns;
                self.flow((waker, woke_ns.min(ts_ns)), (stay.task, ts_ns));
            }
        }
        // What the kernel did not report has no switch of its own to come.
        if let Some((cpu, at)) = stay.back.filter(|_| stay.synthesised)
            && self.selection.touches((at, at))
        {
            self.put_switch(at, cpu, UNKNOWN, stay.task, None);
        }
    }
}

/// The kernel's release, by which the reader decides what the bits of a thread's state mean. Ours are as kernels since 4.14 have
/// them: an older one, or one that it cannot read, stands behind that.
fn release(kernel: Option<&str>) -> String {
    const FIRST: &str = "4.14.0";
    let number = |text: &str| text.parse::<u32>().ok();
    let Some(kernel) = kernel else { return FIRST.to_owned() };
    let mut parts = kernel.splitn(3, '.');
    let version = parts.next().and_then(number).zip(parts.next().and_then(number)).filter(|_| parts.next().is_some());
    if version >= Some((4, 14)) { kernel.to_owned() } else { format!("{FIRST} (recorded by {kernel})") }
}
