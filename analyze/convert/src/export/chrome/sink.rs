//! Turns what the timeline tells into events of the output.

mod named;
mod verdicts;

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::io::Write;

use ingero_analyze::counters::{Counters, Reading};
use ingero_format::Trace;
use ingero_format::catalog::{
    Body, CALL_ENDS, CONTEXTS, Call, END_OPEN, END_THREAD_EXIT, Kind, LOSS_CAUSES, Loss, NO_CPU, TaskId,
};
use ingero_replay::{CallSpan, Cpus, Event, OffCpu, OffKind, ProcessId, Processes, Run, Sink, Spent, Undivided, Waker};

use super::{Events, Exported};
use crate::export::arguments::write_arguments;
use crate::export::exits::exits;
use crate::export::json::Object;
use crate::export::layers::{self, Layers};
use crate::export::names::{host_of, name_of};
use crate::export::selection::Selection;
use crate::export::track::{Track, Tracks};
use crate::input::Progress;

/// Takes what the timeline tells.
pub(crate) struct ChromeSink<'t, W: Write> {
    trace: &'t Trace,
    processes: &'t Processes,
    tracks: &'t Tracks,
    selection: &'t Selection,
    events: Events<W>,
    progress: &'t Progress,
    told: u64,
    done: Exported,
    start_ns: u64,
    end_ns: u64,
    /// When tasks exit, where the trace says so.
    exits: HashMap<TaskId, u64>,
    named_processes: HashSet<u32>,
    named_threads: HashSet<u32>,
    threads: HashMap<TaskId, Thread>,
    /// Wakes by the task that did them, until its stretch on the CPU has been told.
    wakes: HashMap<TaskId, Vec<Wake>>,
    /// Wakes whose waker has its slice, until the stay of whom it woke has been told.
    half_flows: HashMap<TaskId, (TaskId, u64)>,
    counters: Counters,
    /// By CPU: its track, and where the last slice on it ended.
    cpus: HashMap<u32, (Track, u64)>,
    layers: Layers,
    layer_tracks: HashMap<layers::Place, Track>,
}

/// What is remembered of a thread.
#[derive(Default)]
struct Thread {
    /// Calls that wait until the outermost one around them has been told.
    calls: Vec<Slice>,
    /// Ends of the calls that the last one written is inside of.
    enclosing: Vec<u64>,
    /// Where the last state ended.
    state_end_ns: u64,
}

/// A call on its way to its track.
struct Slice {
    start_ns: u64,
    end_ns: u64,
    call: Call,
    spent: Option<(Spent, u64)>,
}

struct Wake {
    at_ns: u64,
    wakee: TaskId,
    /// Where the slice of whom it woke begins, once that has been told.
    wakee_ns: Option<u64>,
}

impl<'t, W: Write> ChromeSink<'t, W> {
    pub(crate) fn new(
        trace: &'t Trace,
        processes: &'t Processes,
        tracks: &'t Tracks,
        selection: &'t Selection,
        events: Events<W>,
        progress: &'t Progress,
    ) -> Self {
        let (start_ns, end_ns) = trace.span_ns().unwrap_or_default();
        Self {
            trace,
            processes,
            tracks,
            selection,
            events,
            progress,
            told: 0,
            done: Exported::default(),
            start_ns,
            end_ns,
            exits: exits(trace),
            named_processes: HashSet::new(),
            named_threads: HashSet::new(),
            threads: HashMap::new(),
            wakes: HashMap::new(),
            half_flows: HashMap::new(),
            counters: Counters::new(trace),
            cpus: HashMap::new(),
            layers: Layers::default(),
            layer_tracks: HashMap::new(),
        }
    }

    /// Writes what is still held back.
    pub(crate) fn finish(mut self) -> (Events<W>, Exported) {
        let mut tasks: Vec<_> = self.threads.keys().copied().collect();
        tasks.sort_unstable();
        for task in tasks {
            self.write_calls(task);
        }
        let layers = std::mem::take(&mut self.layers);
        layers.finish(|place, slice| self.write_layer(place, slice));
        self.progress.done();
        (self.events, self.done)
    }

    /// Says that a part of the file could not be read.
    pub(crate) fn damage(&mut self, problem: &str, from_ns: u64, to_ns: u64) {
        self.note("damaged block", from_ns, |o| {
            o.text("problem", problem);
            o.number("to_ns", to_ns);
        });
    }

    /// Time from the trace's start.
    fn since_start(&self, ns: u64) -> u64 {
        ns.saturating_sub(self.start_ns)
    }

    fn task_name(&self, task: TaskId, ts_ns: u64) -> Option<&'t str> {
        self.processes.name_at(task, ts_ns).map(|id| self.trace.string(id))
    }

    /// A task for people: its name of the moment and its thread id.
    fn shown(&self, task: TaskId, ts_ns: u64) -> String {
        let tid = self.trace.task(task).tid;
        self.task_name(task, ts_ns).map_or_else(|| tid.to_string(), |name| format!("{name} {tid}"))
    }

    /// Names a track before its first event: by its latest name, which is what it became.
    fn name_track(&mut self, track: Track, task: TaskId, suffix: &str) {
        if !self.named_threads.insert(track.tid) {
            return;
        }
        let process = self.processes.of(task);
        let real = self.trace.task(task);
        debug_assert_eq!(track.pid, self.tracks.pid(process));
        self.name_process(process);
        let name = match self.task_name(task, u64::MAX) {
            Some(name) => name.to_owned(),
            None => format!("thread {}", real.tid),
        };
        // The number of a track that is no first life says nothing.
        let name = match (suffix, track.tid == real.tid) {
            ("", true) => name,
            ("", false) => format!("{name} (tid {} again)", real.tid),
            _ => format!("{name} {} {suffix}", real.tid),
        };
        self.metadata("thread_name", track.pid, track.tid, &name);
    }

    fn name_process(&mut self, process: ProcessId) {
        let (pid, real) = (self.tracks.pid(process), self.processes.get(process).pid);
        if self.named_processes.insert(pid) {
            let mut name = match self.processes.process_name_at(process, u64::MAX) {
                Some(name) => self.trace.string(name).to_owned(),
                None => format!("process {real}"),
            };
            if pid != real {
                name = format!("{name} (pid {real} again)");
            }
            self.metadata("process_name", pid, 0, &name);
        }
    }

    fn metadata(&mut self, what: &str, pid: u32, tid: u32, name: &str) {
        self.events.event(|o| {
            o.text("ph", "M").text("name", what).number("pid", pid.into());
            if what == "thread_name" {
                o.number("tid", tid.into());
            }
            o.object("args", |o| {
                o.text("name", name);
            });
        });
    }

    fn slice(&mut self, track: Track, category: &str, name: &str, span: (u64, u64), args: impl FnOnce(&mut Object)) {
        let (ts, dur) = (self.since_start(span.0), span.1.saturating_sub(span.0.max(self.start_ns)));
        self.events.event(|o| {
            o.text("ph", "X").text("cat", category).text("name", name);
            o.number("pid", track.pid.into()).number("tid", track.tid.into());
            o.micros("ts", ts).micros("dur", dur).object("args", args);
        });
    }

    /// Writes the calls of a thread that are complete, outer ones first.
    fn write_calls(&mut self, task: TaskId) {
        let (Some(track), Some(thread)) = (self.tracks.calls(task), self.threads.get_mut(&task)) else { return };
        let mut calls = std::mem::take(&mut thread.calls);
        if calls.is_empty() {
            return;
        }
        let mut enclosing = std::mem::take(&mut thread.enclosing);
        self.name_track(track, task, "");
        calls.sort_by_key(|c| (c.start_ns, Reverse(c.end_ns)));
        for c in &calls {
            while enclosing.last().is_some_and(|end| *end <= c.start_ns) {
                enclosing.pop();
            }
            let end_ns = enclosing.last().map_or(c.end_ns, |outer| c.end_ns.min(*outer));
            self.done.cut += u64::from(end_ns < c.end_ns);
            enclosing.push(end_ns);
            self.write_call(track, c, end_ns);
        }
        calls.clear();
        if let Some(thread) = self.threads.get_mut(&task) {
            thread.calls = calls;
            thread.enclosing = enclosing;
        }
    }

    fn write_call(&mut self, track: Track, c: &Slice, end_ns: u64) {
        let (trace, call) = (self.trace, &c.call);
        let function = trace.function(call.func);
        let symbol = function.map_or("unknown function", |f| f.symbol.as_str());
        let thread = self.task_name(call.task, c.start_ns);
        let renamed = thread.filter(|_| thread != self.task_name(call.task, u64::MAX));
        self.done.calls += 1;
        self.slice(track, function.map_or("call", |f| f.layer.name()), symbol, (c.start_ns, end_ns), |o| {
            if let Some(f) = function {
                o.text("class", f.class.name());
            }
            write_arguments(call, o);
            if call.dur_ns.is_none() {
                o.text("end", name_of(CALL_ENDS, call.end));
            }
            if end_ns < c.end_ns {
                o.text("cut", "overlapped the call around it");
            }
            if let Some((spent, self_ns)) = c.spent {
                let parts = [
                    ("self_ns", self_ns),
                    ("running_ns", spent.running_ns),
                    ("runnable_ns", spent.runnable_ns),
                    ("throttled_ns", spent.throttled_ns),
                    ("blocked_ns", spent.blocked_ns),
                ];
                for (key, ns) in parts.into_iter().filter(|(_, ns)| *ns > 0) {
                    o.number(key, ns);
                }
            }
            if let Some(name) = renamed {
                o.text("thread", name);
            }
        });
    }

    /// Writes a state of a thread, later than all before it; says where it begins if anything of it is left.
    fn state(&mut self, task: TaskId, name: &str, span: (u64, u64), args: impl FnOnce(&mut Object)) -> Option<u64> {
        let shown = self.selection.shows(task) && self.selection.takes_kind(Kind::Switch);
        let track = self.tracks.states(task).filter(|_| shown)?;
        let span = self.selection.clip(span);
        let thread = self.threads.entry(task).or_default();
        let from_ns = span.0.max(thread.state_end_ns);
        if span.1 <= from_ns || span.1 - from_ns < self.selection.min_duration_ns {
            return None;
        }
        self.done.cut += u64::from(from_ns > span.0);
        thread.state_end_ns = span.1;
        self.name_track(track, task, "state");
        self.done.states += 1;
        self.slice(track, "state", name, (from_ns, span.1), args);
        Some(from_ns)
    }

    /// An arrow between two slices that are both written.
    fn flow(&mut self, from: (TaskId, u64), to: (TaskId, u64)) {
        let (Some(source), Some(target)) = (self.tracks.states(from.0), self.tracks.states(to.0)) else { return };
        self.done.flows += 1;
        let id = self.done.flows;
        // Two clocks may have the effect before its cause.
        let ends = [("s", source, from.1), ("f", target, to.1.max(from.1))];
        for (ph, track, ns) in ends {
            let ts = self.since_start(ns);
            self.events.event(|o| {
                o.text("ph", ph).text("cat", "wake").text("name", "wake").number("id", id);
                o.number("pid", track.pid.into()).number("tid", track.tid.into()).micros("ts", ts);
                if ph == "f" {
                    o.text("bp", "e");
                }
            });
        }
    }

    /// The wakee's slice is written: its arrow follows as soon as the waker's is.
    fn woken(&mut self, wakee: TaskId, waker: TaskId, slice_ns: u64) {
        if let Some((by, at_ns)) = self.half_flows.get(&wakee).copied() {
            self.half_flows.remove(&wakee);
            if by == waker && at_ns <= slice_ns {
                self.flow((waker, at_ns), (wakee, slice_ns));
                return;
            }
        }
        let wakes = self.wakes.get_mut(&waker);
        let wake = wakes.and_then(|w| w.iter_mut().rev().find(|w| w.wakee == wakee && w.at_ns <= slice_ns));
        if let Some(wake) = wake {
            wake.wakee_ns.get_or_insert(slice_ns);
        }
    }

    fn counter(&mut self, name: &str, ts_ns: u64, fill: impl FnOnce(&mut Object)) {
        let (ts, pid) = (self.since_start(ts_ns), self.tracks.machine());
        self.name_machine();
        self.events.event(|o| {
            o.text("ph", "C").text("name", name).number("pid", pid.into()).micros("ts", ts).object("args", fill);
        });
    }

    fn name_machine(&mut self) {
        let pid = self.tracks.machine();
        if self.named_processes.insert(pid) {
            self.metadata("process_name", pid, 0, "machine");
        }
    }

    fn counters(&mut self, event: &Event) {
        let Some((kind, readings)) = self.counters.readings(event) else { return };
        if !self.selection.takes_kind(kind) || !self.selection.touches((event.ts_ns, event.ts_ns)) {
            return;
        }
        for Reading { name, thousandths } in readings {
            self.counter(&name, event.ts_ns, |o| {
                o.thousandths("value", thousandths);
            });
        }
    }

    /// Who was on a CPU, on the CPU's own track.
    fn on_cpu(&mut self, run: &Run, span: (u64, u64)) {
        let tracks = self.tracks;
        let (track, last_ns) = *self.cpus.entry(run.cpu).or_insert_with(|| (tracks.fresh(), 0));
        let from_ns = span.0.max(last_ns);
        if span.1 <= from_ns {
            return;
        }
        self.cpus.insert(run.cpu, (track, span.1));
        self.name_machine();
        if self.named_threads.insert(track.tid) {
            self.metadata("thread_name", track.pid, track.tid, &format!("CPU {}", run.cpu));
        }
        let name = self.shown(run.task, run.start_ns);
        let pid = self.trace.task(run.task).pid;
        self.slice(track, "cpu", &name, (from_ns, span.1), |o| {
            o.number("pid", pid.into());
        });
    }

    fn loss(&mut self, ts_ns: u64, cpu: u32, loss: &Loss) {
        if !self.selection.takes_kind(Kind::Loss) || !self.selection.touches((ts_ns, loss.to_ns)) {
            return;
        }
        let (probe, from, to) = (self.trace.string(loss.probe), self.since_start(ts_ns), self.since_start(loss.to_ns));
        let name = format!("lost: {probe}");
        let host = host_of(self.trace, loss);
        self.note(&name, ts_ns, |o| {
            o.text("cause", name_of(LOSS_CAUSES, loss.cause));
            if let Some(count) = loss.count {
                o.number("count", count);
            }
            if cpu != NO_CPU {
                o.number("cpu", cpu.into());
            }
            if let Some(host) = &host {
                o.text("host", host);
            }
            o.number("from_ns", from).number("to_ns", to);
        });
    }

    /// A mark on the track of losses.
    fn note(&mut self, name: &str, ts_ns: u64, args: impl FnOnce(&mut Object)) {
        let (track, ts) = (self.tracks.losses(), self.since_start(ts_ns.max(self.selection.window.from_ns)));
        self.name_machine();
        if self.named_threads.insert(track.tid) {
            self.metadata("thread_name", track.pid, track.tid, "losses");
        }
        self.events.event(|o| {
            o.text("ph", "i").text("s", "t").text("cat", "loss").text("name", name);
            o.number("pid", track.pid.into()).number("tid", track.tid.into()).micros("ts", ts).object("args", args);
        });
    }

    /// Who held the CPU that a thread waited for, longest first.
    fn holders(&self, cpus: &Cpus, cpu: u32, span: (u64, u64)) -> Option<String> {
        const SHOWN: usize = 3;
        let mut held: HashMap<TaskId, u64> = HashMap::new();
        cpus.holders(cpu, span.0, span.1, |task, ns| *held.entry(task).or_default() += ns);
        let mut held: Vec<_> = held.into_iter().collect();
        held.sort_by_key(|(task, ns)| (Reverse(*ns), *task));
        let shown: Vec<_> = held
            .iter()
            .take(SHOWN)
            .map(|(task, ns)| format!("{} {}.{:03} µs", self.shown(*task, span.1), ns / 1000, ns % 1000))
            .collect();
        (!shown.is_empty()).then(|| shown.join(", "))
    }
}

impl<W: Write> Sink for ChromeSink<'_, W> {
    fn event(&mut self, event: &Event) {
        self.told += 1;
        if self.told.is_multiple_of(1 << 14) {
            self.progress.add(1 << 14);
        }
        match &event.body {
            Body::Waking(w)
                if w.context == Some(0) && w.waker != TaskId(0) && self.selection.takes_kind(Kind::Waking) =>
            {
                let wake = Wake { at_ns: event.ts_ns, wakee: w.wakee, wakee_ns: None };
                self.wakes.entry(w.waker).or_default().push(wake);
            }
            Body::Loss(loss) => self.loss(event.ts_ns, event.cpu, loss),
            Body::Range(_) | Body::Mark(_) | Body::Span(_) | Body::DeviceActivity(_) => self.layer(event),
            _ => self.counters(event),
        }
    }

    fn run(&mut self, run: &Run) {
        let end_ns = run.end_ns.unwrap_or(self.end_ns);
        let thread = self.task_name(run.task, run.start_ns);
        let renamed = thread.filter(|_| thread != self.task_name(run.task, u64::MAX));
        let written = self.state(run.task, &format!("running on CPU {}", run.cpu), (run.start_ns, end_ns), |o| {
            o.number("cpu", run.cpu.into());
            if run.before {
                o.text("began", "before this");
            }
            if run.synthesised {
                o.text("began", "made up from the wakeup: the kernel did not report the switch");
            }
            if run.unfinished {
                o.text("end", "unfinished");
            }
            if let Some(name) = renamed {
                o.text("thread", name);
            }
        });
        let (_, shown_end_ns) = self.selection.clip((run.start_ns, end_ns));
        if let Some(from_ns) = written {
            self.on_cpu(run, (from_ns, shown_end_ns));
        }
        let Some(wakes) = self.wakes.get_mut(&run.task) else { return };
        for wake in std::mem::take(wakes) {
            // A slice holds its first instant, not its last.
            let covered = written.is_some_and(|from| from <= wake.at_ns && wake.at_ns < shown_end_ns);
            match wake.wakee_ns {
                _ if !covered => {}
                Some(slice_ns) => self.flow((run.task, wake.at_ns), (wake.wakee, slice_ns)),
                None => {
                    self.half_flows.insert(wake.wakee, (run.task, wake.at_ns));
                }
            }
        }
    }

    fn undivided(&mut self, part: &Undivided) {
        self.state(part.task, "off-cpu", (part.from_ns, part.to_ns.unwrap_or(self.end_ns)), |o| {
            if part.out_ns.is_none() {
                o.text("began", "before this");
            }
            if part.unfinished {
                o.text("end", "unfinished");
            }
        });
    }

    fn off_cpu(&mut self, stay: &OffCpu, cpus: &Cpus) {
        let end_ns = stay.end_ns().unwrap_or(self.end_ns);
        let unfinished = stay.back.is_none();
        if stay.kind == OffKind::Throttled {
            self.state(stay.task, "throttled", (stay.out_ns, end_ns), |o| {
                if unfinished {
                    o.text("end", "unfinished");
                }
            });
            return;
        }
        let runnable_ns = stay.runnable_ns.unwrap_or(end_ns).clamp(stay.out_ns, end_ns.max(stay.out_ns));
        let waker = match stay.waker {
            // The idle task wakes nobody: it is only what was current.
            Waker::Task(TaskId(0)) => None,
            Waker::Task(task) => Some(self.shown(task, runnable_ns)),
            Waker::Interrupt { context, .. } => Some(format!("interrupt ({})", name_of(CONTEXTS, context))),
            Waker::Unknown => None,
        };
        self.state(stay.task, "blocked", (stay.out_ns, runnable_ns), |o| {
            // Nobody saw it leave: neither when nor in which state.
            if stay.before {
                o.text("began", "before this");
            } else {
                o.address("state", stay.prev_state);
            }
            if let Some(syscall) = stay.syscall {
                o.number("syscall", syscall);
            }
            if let Some(waker) = &waker {
                o.text("waker", waker);
            }
            if unfinished && stay.runnable_ns.is_none() {
                o.text("end", "unfinished");
            }
        });
        let holders = stay.wait_cpu.and_then(|cpu| self.holders(cpus, cpu, (runnable_ns, end_ns)));
        let written = self.state(stay.task, "runnable", (runnable_ns, end_ns), |o| {
            let why = match stay.kind {
                OffKind::Preempted => "preempted",
                OffKind::Newborn => "newborn",
                OffKind::Blocked | OffKind::Throttled => "woken",
            };
            o.text("why", why);
            if let Some(cpu) = stay.wait_cpu {
                o.number("cpu", cpu.into());
            }
            if let Some(holders) = &holders {
                o.text("behind", holders);
            }
            if let Some(waker) = &waker {
                o.text("waker", waker);
            }
            if unfinished {
                o.text("end", "unfinished");
            }
        });
        if let (Some(slice_ns), Waker::Task(waker)) = (written, stay.waker) {
            self.woken(stay.task, waker, slice_ns);
        }
    }

    fn call(&mut self, span: &CallSpan) {
        if self.selection.shows_call(span.start_ns, Some(span.dur_ns()), span.call.task) {
            let known = span.spent.total_ns() > 0;
            let slice = Slice {
                start_ns: span.start_ns,
                end_ns: span.end_ns,
                call: span.call,
                spent: known.then_some((span.spent, span.self_ns)),
            };
            self.threads.entry(span.call.task).or_default().calls.push(slice);
        }
        if span.depth == 0 {
            self.write_calls(span.call.task);
        }
    }

    fn unreturned(&mut self, at_ns: u64, call: &Call) {
        if !self.selection.shows_call(at_ns, None, call.task) {
            return;
        }
        // Where the end cannot be known, none is claimed.
        let end_ns = match call.end {
            END_OPEN => self.end_ns,
            END_THREAD_EXIT => self.exits.get(&call.task).copied().unwrap_or(at_ns),
            _ => at_ns,
        };
        let slice = Slice { start_ns: at_ns, end_ns: end_ns.max(at_ns), call: *call, spent: None };
        self.threads.entry(call.task).or_default().calls.push(slice);
    }
}
