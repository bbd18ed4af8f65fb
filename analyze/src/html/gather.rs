//! One more walk over the trace, for what the pictures show and no figure of the analysis holds: who was on each CPU,
//! when calls were made, the counters, what programs named and what GPUs did, and every stretch within the parts that
//! are shown exactly.

use std::borrow::Cow;
use std::collections::BTreeMap;

use ingero_format::catalog::{Body, Call, END_RETURNED, StrId, TaskId};
use ingero_replay::scene::{Cast, Scene, Stretch};
use ingero_replay::{CallSpan, Cpus, Event, OffCpu, ProcessId, Run, Sink, StoredStay, Timeline, Undivided};

use super::grid::Grid;
use crate::Analysis;
use crate::counters::Counters;

/// Stretches that one part that is shown exactly has at most.
const PART_ROWS: usize = 4_000;

/// Stretches with names that a page has at most: the longest ones.
const NAMED: usize = 50_000;

/// A counter: its name; instants and thousandths.
type Series = (Cow<'static, str>, Vec<(u64, u64)>);

/// What the walk found.
pub(super) struct Gathered {
    /// Time of each process on each CPU, by the CPU's number.
    pub(super) on_cpus: BTreeMap<u32, BTreeMap<ProcessId, u64>>,
    /// Counters in order of first appearance.
    pub(super) counters: Vec<Series>,
    /// Parts that are shown exactly, in order, apart from one another.
    pub(super) parts: Vec<Part>,
    /// Stays off the CPUs that a sampling source stored.
    pub(super) stored_stays: Vec<(TaskId, u64, u64)>,
    /// Whether wakes are missing, so that of some stays it is not known whether their threads were blocked.
    pub(super) undivided: bool,
    /// What programs named and what GPUs did, within the range: the longest ones.
    pub(super) named: Vec<Named>,
    /// How many shorter ones are left out.
    pub(super) named_left_out: u64,
    /// Threads of which anything was seen.
    pub(super) seen: Vec<bool>,
}

/// Where a stretch with a name stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Track {
    /// With the thread that it is of.
    Thread(TaskId),
    /// On a GPU: in the process that gave it the work, where that is known.
    Gpu { process: Option<ProcessId>, device: u64, stream: Option<u64> },
}

/// A range of NVTX, a span that a program told a profiler, or a piece of a GPU's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Named {
    pub(super) track: Track,
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
    pub(super) name: Option<StrId>,
    /// What is done, by the names that classes of calls have; `range` for what a program named.
    pub(super) class: &'static str,
    /// Whether its end is not known.
    pub(super) is_open: bool,
    /// Whether it is longer than what lies in the range.
    pub(super) is_cut: bool,
}

/// Classes of a GPU's work by the number of its activity.
const ACTIVITY_CLASSES: [&str; 4] = ["launch", "copy", "alloc", "sync"];

/// A part of the range with all that is known of it.
pub(super) struct Part {
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
    /// The trace's last event: nothing is told of the time past it.
    pub(super) last_ns: u64,
    pub(super) stretches: Vec<Stretch>,
}

impl Gathered {
    /// Walks the trace. Within `parts`, which are in order and apart, every stretch is kept, up to a number unless the
    /// one part is the whole range. `tell` is told which share of the trace is read.
    pub(super) fn new(a: &Analysis, grid: Grid, parts: &[(u64, u64)], tell: &mut dyn FnMut(f64)) -> Self {
        let keep = if parts == [(grid.from_ns, grid.to_ns)] { usize::MAX } else { PART_ROWS };
        let events: u64 = a.trace.blocks().iter().map(|b| u64::from(b.header.rows)).sum();
        let scenes = parts.iter().map(|&(from, to)| Scene::new(from, to, Cast::All, 0, keep)).collect();
        let mut walk = Walk {
            a,
            grid,
            tell,
            read: 0,
            events,
            scenes,
            counters: Counters::new(a.trace),
            out: Self {
                on_cpus: BTreeMap::new(),
                counters: Vec::new(),
                parts: Vec::new(),
                stored_stays: Vec::new(),
                undivided: false,
                named: Vec::new(),
                named_left_out: 0,
                seen: vec![false; a.trace.tasks().len()],
            },
        };
        Timeline::new(a.trace).run(&mut walk);
        walk.leave_out_short();
        let Walk { scenes, mut out, .. } = walk;
        out.parts =
            scenes.into_iter().zip(parts).map(|(scene, &part)| Part::new(scene, part, a.window.trace_end_ns)).collect();
        out
    }
}

impl Part {
    fn new(scene: Scene, (from_ns, to_ns): (u64, u64), last_ns: u64) -> Self {
        let page = scene.into_page();
        let whole = page.rows.len() as u64 == page.total;
        // Rows stand in the order of their beginnings: where some are left out, it is known up to the last one.
        let known_to = if whole { to_ns } else { page.rows.last().map_or(from_ns, |s| s.start_ns.max(from_ns)) };
        Self { from_ns, to_ns: known_to.min(to_ns), last_ns, stretches: page.rows }
    }
}

struct Walk<'a> {
    a: &'a Analysis<'a>,
    grid: Grid,
    tell: &'a mut dyn FnMut(f64),
    read: u64,
    events: u64,
    scenes: Vec<Scene>,
    counters: Counters,
    out: Gathered,
}

impl Walk<'_> {
    fn see(&mut self, task: TaskId) {
        if let Some(seen) = self.out.seen.get_mut(task.index()) {
            *seen = true;
        }
    }

    /// Keeps a stretch with a name, as far as it lies in the range.
    fn name(&mut self, event: &Event) {
        let gpu = |task: Option<TaskId>, device, stream| Track::Gpu {
            process: task.map(|task| self.a.processes.of(task)),
            device,
            stream,
        };
        let (track, dur_ns, name, class) = match &event.body {
            Body::Range(e) => (Track::Thread(e.task), e.dur_ns.filter(|_| e.end == END_RETURNED), e.name, "range"),
            Body::Span(e) => (Track::Thread(e.task), Some(e.dur_ns), Some(e.name), "range"),
            Body::DeviceActivity(e) => {
                let class = usize::try_from(e.activity).ok().and_then(|n| ACTIVITY_CLASSES.get(n));
                (gpu(e.task, e.device, e.stream), Some(e.dur_ns), Some(e.name), class.copied().unwrap_or("other"))
            }
            _ => return,
        };
        let end_ns = event.ts_ns.saturating_add(dur_ns.unwrap_or(0));
        let Some((from_ns, to_ns)) = self.grid.clip(event.ts_ns, end_ns) else { return };
        if let Track::Thread(task) = track {
            self.see(task);
        }
        let is_cut = from_ns > event.ts_ns || to_ns < end_ns;
        self.out.named.push(Named { track, from_ns, to_ns, name, class, is_open: dur_ns.is_none(), is_cut });
        if self.out.named.len() >= 2 * NAMED {
            self.leave_out_short();
        }
    }

    fn leave_out_short(&mut self) {
        let named = &mut self.out.named;
        let Some(more) = named.len().checked_sub(NAMED).filter(|&more| more > 0) else { return };
        named.sort_unstable_by_key(|n| (std::cmp::Reverse(n.to_ns - n.from_ns), *n));
        named.truncate(NAMED);
        self.out.named_left_out += more as u64;
    }
}

/// Events after which the progress is told.
const TELL_EACH: u64 = 1 << 16;

impl Sink for Walk<'_> {
    fn event(&mut self, event: &Event) {
        self.read += 1;
        if self.read.is_multiple_of(TELL_EACH) {
            #[expect(clippy::cast_precision_loss, reason = "a share")]
            (self.tell)(self.read as f64 / self.events.max(1) as f64);
        }
        // Shares are of the time since the sample before, also where that is before the range.
        if let Some((_, readings)) = self.counters.readings(event)
            && self.a.window.holds(event.ts_ns)
        {
            for reading in readings {
                let list = match self.out.counters.iter_mut().find(|(name, _)| *name == reading.name) {
                    Some((_, list)) => list,
                    None => {
                        self.out.counters.push((reading.name.clone(), Vec::new()));
                        let Some((_, list)) = self.out.counters.last_mut() else { continue };
                        list
                    }
                };
                list.push((event.ts_ns, reading.thousandths));
            }
        }
        self.name(event);
    }

    fn stored_stay(&mut self, stay: &StoredStay) {
        if let Some((from, to)) = self.grid.clip(stay.out_ns, stay.back_ns) {
            self.see(stay.task);
            self.out.stored_stays.push((stay.task, from, to));
        }
    }

    fn undivided(&mut self, part: &Undivided) {
        if self.grid.clip(part.from_ns, part.to_ns.unwrap_or(u64::MAX)).is_some() {
            self.see(part.task);
            self.out.undivided = true;
            self.scenes.iter_mut().for_each(|scene| scene.undivided(part));
        }
    }

    fn off_cpu(&mut self, stay: &OffCpu, cpus: &Cpus) {
        let end_ns = stay.end_ns().unwrap_or(u64::MAX);
        if self.grid.clip(stay.out_ns, end_ns).is_none() {
            return;
        }
        self.see(stay.task);
        self.scenes.iter_mut().for_each(|scene| scene.off_cpu(stay, cpus));
    }

    fn run(&mut self, run: &Run) {
        // Nothing is told of the time past the last event.
        let end_ns = run.end_ns.unwrap_or(self.a.window.trace_end_ns).max(run.start_ns);
        let Some((from, to)) = self.grid.clip(run.start_ns, end_ns) else { return };
        self.see(run.task);
        let process = self.a.processes.of(run.task);
        let held = self.out.on_cpus.entry(run.cpu).or_default().entry(process).or_default();
        *held = held.saturating_add(to - from);
        self.scenes.iter_mut().for_each(|scene| scene.run(run));
    }

    fn call(&mut self, span: &CallSpan) {
        if self.grid.clip(span.start_ns, span.end_ns).is_none() {
            return;
        }
        self.see(span.call.task);
        self.scenes.iter_mut().for_each(|scene| scene.call(span));
    }

    fn unreturned(&mut self, at_ns: u64, call: &Call) {
        if self.grid.clip(at_ns, at_ns.saturating_add(1)).is_some() {
            self.see(call.task);
            self.scenes.iter_mut().for_each(|scene| scene.unreturned(at_ns, call));
        }
    }
}
