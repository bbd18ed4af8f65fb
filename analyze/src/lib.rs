//! Says what a GPU waited for: figures per process and operation, phases, incidents, reports.
//!
//! The crate stands behind the timeline ([`ingero_replay`]) and before whoever shows its results:
//! `ingero-analyze` itself, the converters, the assistant's tools. [`Analysis::new`] reads a trace
//! once and keeps what every report needs; [`report`] puts it into words and JSON.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use ingero_analyze::{Analysis, report};
//!
//! let trace = ingero_format::Trace::open("run.igt")?;
//! let analysis = Analysis::new(&trace, ingero_replay::Window::whole(&trace));
//! println!("{}", report::json(&analysis, &[])?);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests fail by panicking"))]

mod affinity;
mod behind;
mod chain;
pub mod counters;
mod devices;
pub mod diff;
mod disks;
mod exchange;
mod feed;
mod figures;
pub mod html;
mod incidents;
mod known;
mod ledger;
mod losses;
mod peers;
mod phases;
pub mod report;
mod sample;
mod shares;
mod signs;
mod spans;
mod totals;
mod works;

use ingero_format::catalog::{FuncId, Kind, TaskId};
use ingero_format::layout::{CHUNK_FUNCTIONS, CHUNK_STRINGS, CHUNK_TASKS};
use ingero_format::{ChunkHeader, Trace};
use ingero_replay::{Both, Hosts, ProcessId, Processes, Repairs, Sink, Spent, Timeline, Window};

pub use chain::{Ending, Link, Part, Tree};
pub use devices::Busy;
pub use feed::{Burst, Gap, LOST_FROM_NS};
pub use figures::{
    CallsFigures, LongWait, OffCpuFigures, OpFigures, PhaseFigures, ProcessFigures, Silence, SlowCopies, Stretch,
};
pub use incidents::{Evidence, Incident, Layer, Moment, Severity};
pub use losses::{Loss, Losses};
pub use phases::Phase;
pub use sample::{Bounds, Faster, Sample, Steps};
pub use totals::{OpTotals, ProcessTotals};

/// Takes nothing of what the timeline tells.
struct Nobody;

impl Sink for Nobody {}

/// What a trace shows within a range.
pub struct Analysis<'t> {
    /// The trace.
    pub trace: &'t Trace,
    /// The range.
    pub window: Window,
    /// Its processes and names.
    pub processes: Processes,
    figures: Vec<ProcessFigures>,
    signs: signs::Signs,
    works: works::Works,
    /// Phases in order of their first call.
    pub phases: Vec<PhaseFigures>,
    /// Incidents, worst first.
    pub incidents: Vec<Incident>,
    /// Causes that lost too little to be told by themselves.
    minor: Vec<Incident>,
    /// What the timeline had to leave out or make up.
    pub repairs: Repairs,
    /// What was lost while recording, and what cannot be read.
    pub losses: Losses,
    known: known::Known,
    sampled: sample::Sampled,
    /// Whether the source says who wakes whom.
    pub knows_wakers: bool,
    /// Wall-clock time of the trace's start, where known.
    pub start_unix_ns: Option<u64>,
}

impl<'t> Analysis<'t> {
    /// Analyses a range of a trace.
    #[must_use]
    pub fn new(trace: &'t Trace, window: Window) -> Self {
        Self::beside(trace, window, &mut Nobody)
    }

    /// Analyses a range of a trace, and tells `other` all that the timeline tells, whatever the range: both see the trace in
    /// one pass.
    #[must_use]
    pub fn beside(trace: &'t Trace, window: Window, other: &mut impl Sink) -> Self {
        let processes = Processes::new(trace);
        let phases = Self::phases_of(trace, &processes, &window);
        Self::over(trace, window, processes, phases.into_iter().enumerate(), other)
    }

    /// Analyses one phase of a range, by the number that [`Analysis::new`] gives it: all figures are those of its
    /// time. None where there is no such phase.
    #[must_use]
    pub fn of_phase(trace: &'t Trace, window: Window, number: usize) -> Option<Self> {
        let processes = Processes::new(trace);
        let phases = Self::phases_of(trace, &processes, &window);
        let phase = phases.into_iter().nth(number)?;
        let window =
            Window { from_ns: phase.start_ns, to_ns: phase.end_ns.saturating_add(1).min(window.to_ns), ..window };
        Some(Self::over(trace, window, processes, std::iter::once((number, phase)), &mut Nobody))
    }

    fn phases_of(trace: &Trace, processes: &Processes, window: &Window) -> Vec<Phase> {
        let sampled = sample::Sampled::new(trace);
        if sampled.all() {
            return sample::phases(trace, processes, window);
        }
        let mut calls = exchange::Calls::of(trace);
        let (mut feeds, lost) = feed::feeds(trace, processes, window, &mut calls);
        // What lies between stored calls of a sample tells nothing.
        feeds.retain(|feed| !sampled.of_pid(processes.get(feed.process).pid));
        let lives = phases::Lives::new(trace, processes);
        let mut phases = phases::split(feeds, processes, &lives, window);
        let lossy = losses::Lossy::of(trace, &ingero_replay::lost(trace, &lost));
        phases.iter_mut().for_each(|phase| phase.leave_out(lossy.of_pid(processes.get(phase.process).pid)));
        exchange::Collectives::new(trace, processes, calls, lost).tell(&mut phases, processes);
        Self::kill(&mut phases, trace, processes, window, &lossy);
        Self::tell_alone(&mut phases, &Hosts::new(trace), processes);
        if sampled.any() {
            phases.extend(sample::phases(trace, processes, window));
        }
        phases
    }

    /// Tells each phase whether another process of its host asks a GPU for anything meanwhile.
    fn tell_alone(phases: &mut [Phase], hosts: &Hosts, processes: &Processes) {
        let host = |p: &Phase| hosts.of_pid(processes.get(p.process).pid);
        let beside = |p: &Phase, other: &Phase| {
            let overlaps = other.start_ns < p.end_ns && p.start_ns < other.end_ns;
            other.process != p.process && overlaps && !other.is_silent() && host(other) == host(p)
        };
        let alone: Vec<bool> = phases.iter().map(|p| !phases.iter().any(|other| beside(p, other))).collect();
        phases.iter_mut().zip(alone).for_each(|(p, alone)| p.is_alone = alone);
    }

    /// Tells each phase of the first kill in it. One in a stretch with losses tells nothing of what came of it.
    fn kill(phases: &mut [Phase], trace: &Trace, processes: &Processes, window: &Window, lossy: &losses::Lossy) {
        let kills = signs::kills(trace, processes, window);
        for at in 0..phases.len() {
            let (before, rest) = phases.split_at_mut(at + 1);
            let Some(phase) = before.last_mut() else { continue };
            // A kill ends the phase of its own process, and comes when that is over.
            let is_last = rest.iter().all(|p| p.process != phase.process);
            let until_ns = if is_last { u64::MAX } else { phase.end_ns };
            let lossy = lossy.of_pid(processes.get(phase.process).pid);
            let told = |kill: &&signs::Kill| {
                (phase.start_ns..until_ns).contains(&kill.at_ns)
                    && processes.descends(kill.victim, phase.process)
                    && !phase.is_unclaimed(kill.at_ns)
                    // What the phase leaves out ends with it, and a kill may lie behind that.
                    && !lossy.iter().any(|&(from, to)| (from..to).contains(&kill.at_ns))
            };
            phase.kill = kills.iter().find(told).copied();
            phase.take();
        }
    }

    fn over(
        trace: &'t Trace,
        window: Window,
        processes: Processes,
        phases: impl Iterator<Item = (usize, Phase)>,
        other: &mut impl Sink,
    ) -> Self {
        let mut phases: Vec<_> = phases.collect();
        let mut ledger = ledger::Ledger::new(trace, &processes, window, phases.iter().cloned());
        let mut repairs = Timeline::new(trace).run(&mut Both(&mut ledger, other));
        let losses = Losses::of(trace, &repairs.lost_blocks);
        // Which blocks of the threads' states cannot be read shows only now: then it is done again without their time.
        let sampled = sample::Sampled::new(trace);
        if !repairs.lost_blocks.is_empty() && !sampled.all() {
            let lossy = losses::Lossy::of(trace, &losses.parts);
            for (_, phase) in phases.iter_mut().filter(|(_, phase)| phase.sample.is_none()) {
                let lossy = lossy.of_pid(processes.get(phase.process).pid);
                phase.leave_out(lossy);
                let is_lossy =
                    |at: u64| phase.is_unclaimed(at) || lossy.iter().any(|&(from, to)| (from..to).contains(&at));
                if phase.kill.is_some_and(|kill| is_lossy(kill.at_ns)) {
                    phase.kill = None;
                }
                phase.take();
            }
            ledger = ledger::Ledger::new(trace, &processes, window, phases.into_iter());
            repairs = Timeline::new(trace).run(&mut ledger);
        }
        ledger.close();
        let known = ledger.known();
        let (mut figures, phases, signs, works) = (ledger.figures, ledger.phases, ledger.signs, ledger.works);
        let knows_wakers = ledger.surroundings.knows_wakers;
        if sampled.any() {
            for (id, totals) in totals::of(trace, &processes, &window) {
                if let Some(f) = figures.get_mut(id.index()) {
                    for &func in totals.ops.keys() {
                        f.ops.entry(func).or_default();
                    }
                    f.totals = Some(totals);
                }
            }
        }
        let start_unix_ns = ingero_replay::start_unix_ns(trace, window.trace_start_ns);
        let (incidents, minor) = (Vec::new(), Vec::new());
        let mut this = Self {
            trace,
            window,
            processes,
            figures,
            signs,
            works,
            phases,
            incidents,
            minor,
            repairs,
            losses,
            known,
            sampled,
            knows_wakers,
            start_unix_ns,
        };
        (this.incidents, this.minor) = incidents::find(&this);
        this
    }

    /// The figures of a process.
    #[must_use]
    pub fn figures(&self, id: ProcessId) -> &ProcessFigures {
        // The idle process stands first and is always there.
        self.figures.get(id.index()).unwrap_or(&self.figures[0])
    }

    /// Processes of which anything was seen within the range, by id and life.
    #[must_use]
    pub fn active(&self) -> Vec<ProcessId> {
        let active = |id: &ProcessId| self.figures(*id).is_active();
        let mut ids: Vec<_> = self.processes.iter().map(|(id, _)| id).filter(active).collect();
        ids.sort_by_key(|id| (self.processes.get(*id).pid, *id));
        ids
    }

    /// The name that a process had at the end of the range.
    #[must_use]
    pub fn name(&self, id: ProcessId) -> &str {
        self.processes.process_name_at(id, self.window.to_ns).map_or("?", |s| self.trace.string(s))
    }

    /// Name and id of a process, as sentences use them. The name comes from the trace and may hold
    /// anything: control characters are shown as escapes.
    #[must_use]
    pub fn label(&self, id: ProcessId) -> String {
        format!("{} ({})", printable(self.name(id)), self.processes.get(id).pid)
    }

    /// The name that a thread had at the end of the range.
    #[must_use]
    pub fn thread_name(&self, task: TaskId) -> &str {
        self.processes.name_at(task, self.window.to_ns).map_or("?", |s| self.trace.string(s))
    }

    /// Name and id of a thread, as sentences use them.
    #[must_use]
    pub fn thread_label(&self, task: TaskId) -> String {
        format!("{} ({})", printable(self.thread_name(task)), self.trace.task(task).tid)
    }

    /// Events of the trace that can be read: those that happened, not those that describe. A call is one.
    #[must_use]
    pub fn events(&self) -> u64 {
        let describes = |k: Kind| {
            use Kind::{Aggregate, Annotation, Clock, Correlation, Frame, Loss, Name, Process, Stack, System, Usage};
            matches!(
                k,
                Name | Process | Loss | Clock | System | Aggregate | Annotation | Correlation | Frame | Stack | Usage
            )
        };
        let happened = |h: &ChunkHeader| !Kind::from_number(h.kind).is_some_and(describes);
        let rows = |headers: &mut dyn Iterator<Item = ChunkHeader>| -> u64 {
            headers.filter(happened).map(|h| u64::from(h.rows)).fold(0, u64::saturating_add)
        };
        let unread = rows(&mut self.repairs.lost_blocks.iter().map(|l| l.entry.header));
        rows(&mut self.trace.blocks().iter().map(|b| b.header)).saturating_sub(unread)
    }

    /// Whether what is counted of events of a kind is the least that there was: some are lost, or cannot be read.
    #[must_use]
    pub fn lacks(&self, kind: Kind) -> bool {
        self.losses.lacks(self.trace, kind, &self.window, None)
    }

    /// Which figures of processes are the least that there was, of any of them.
    #[must_use]
    pub fn at_least(&self) -> AtLeast {
        self.at_least_where(self.sampled.all(), self.has(Kind::Switch), |kind| self.lacks(kind))
    }

    /// Which figures of a process are the least that there was.
    #[must_use]
    pub fn at_least_of(&self, id: ProcessId) -> AtLeast {
        self.at_least_where(self.sampled_of(id), self.knows_states_of(id), |kind| self.lacks_of(id, kind))
    }

    fn at_least_where(&self, sampled: bool, has_states: bool, lacks: impl Fn(Kind) -> bool) -> AtLeast {
        let told = !sampled && has_states;
        let switches = told && lacks(Kind::Switch);
        AtLeast {
            states: switches || (told && [Kind::Waking, Kind::Wakeup].into_iter().any(&lacks)),
            switches,
            calls: !sampled && lacks(Kind::Call),
            page_allocs: !sampled && lacks(Kind::PageAlloc),
        }
    }

    /// The same of all processes of a host.
    pub(crate) fn at_least_of_host(&self, host: usize) -> AtLeast {
        self.at_least_where(self.sampled.of_host(host), self.knows_states_of_host(host), |kind| {
            self.losses.lacks(self.trace, kind, &self.window, Some(host))
        })
    }

    /// The same of the events of a process: what another host lost is none of its.
    #[must_use]
    pub fn lacks_of(&self, id: ProcessId, kind: Kind) -> bool {
        let host = self.known.host_of(self.processes.get(id).pid);
        self.losses.lacks(self.trace, kind, &self.window, Some(host))
    }

    /// Whether anything is known of who ran and who waited in the range: not of a sample, nor where no context switch was recorded, or
    /// none can be read.
    #[must_use]
    pub fn knows_states(&self) -> bool {
        !self.sampled.all() && self.known.hosts().any(|host| host.states)
    }

    /// The same of a process, by what its own host recorded.
    #[must_use]
    pub fn knows_states_of(&self, id: ProcessId) -> bool {
        !self.sampled_of(id) && self.known.of_pid(self.processes.get(id).pid).states
    }

    /// The same of a host.
    pub(crate) fn knows_states_of_host(&self, host: usize) -> bool {
        !self.sampled.of_host(host) && self.known.hosts().nth(host).is_some_and(|of| of.states)
    }

    /// Whether the source can tell a throttled task from a preempted one.
    #[must_use]
    pub fn knows_throttling(&self) -> bool {
        self.known.hosts().any(|host| host.throttling)
    }

    /// The same of the source that a process's host was recorded by.
    #[must_use]
    pub fn knows_throttling_of(&self, id: ProcessId) -> bool {
        self.known.of_pid(self.processes.get(id).pid).throttling
    }

    /// Whether page allocations were recorded of a process's host.
    #[must_use]
    pub fn knows_page_allocs_of(&self, id: ProcessId) -> bool {
        self.known.of_pid(self.processes.get(id).pid).page_allocs
    }

    /// Whether the source of a process's host says which CPUs its threads may use.
    #[must_use]
    pub fn knows_affinity_of(&self, id: ProcessId) -> bool {
        self.known.of_pid(self.processes.get(id).pid).affinity
    }

    /// A count of events of a kind of a process in words: `at least 12` where some are lost.
    pub(crate) fn counted(&self, id: ProcessId, kind: Kind, n: u64) -> String {
        self.counted_in(id, kind, n, self.window.from_ns, self.window.to_ns)
    }

    /// The same of a stretch.
    pub(crate) fn counted_in(&self, id: ProcessId, kind: Kind, n: u64, from_ns: u64, to_ns: u64) -> String {
        let stretch = Window { from_ns, to_ns, ..self.window };
        let host = self.known.host_of(self.processes.get(id).pid);
        let least = if self.losses.lacks(self.trace, kind, &stretch, Some(host)) { "at least " } else { "" };
        format!("{least}{}", report::count(n))
    }

    /// Whether the trace holds any event of a kind, or says that it lost some.
    #[must_use]
    pub fn has(&self, kind: Kind) -> bool {
        ingero_replay::was_recorded(self.trace, &self.losses.parts, kind)
    }

    /// Whether any event of a kind can be read.
    fn reads(&self, kind: Kind) -> bool {
        let unread = |offset: u64| self.repairs.lost_blocks.iter().any(|l| l.entry.offset == offset);
        let mut blocks = self.trace.blocks().iter();
        blocks.any(|b| b.header.kind == kind as u16 && b.header.rows > 0 && !unread(b.offset))
    }

    /// Whether events of a kind of which there are none to be read may have been in the recording: they were watched for, and parts of it are
    /// missing.
    pub(crate) fn may_have_lost(&self, kind: Kind) -> bool {
        let name = self.trace.kind_name(kind as u16);
        if self.losses.parts.iter().any(|lost| lost.what == name) {
            return true;
        }
        let is_watched = self.trace.meta("probes").is_some_and(|probes| probes.split(',').any(|probe| probe == name));
        is_watched && !(self.trace.complete() && self.losses.list.is_empty())
    }

    /// What the submitting threads of a phase did in all its gaps; none where that is unknown.
    #[must_use]
    pub fn in_gaps(&self, p: &PhaseFigures) -> Option<Spent> {
        (self.knows_states_of(p.phase.process) && !p.is_unclaimed()).then_some(p.submitters)
    }

    /// Who was on the CPUs that a process could have run on, largest first.
    #[must_use]
    pub fn behind(&self, id: ProcessId) -> Vec<(ProcessId, u64)> {
        let mut behind: Vec<_> = self.figures(id).behind.iter().map(|(&id, &ns)| (id, ns)).collect();
        behind.sort_by_key(|&(id, ns)| (std::cmp::Reverse(ns), id));
        behind
    }

    /// The calls of a process by function, in order of layer and name.
    #[must_use]
    pub fn ops(&self, id: ProcessId) -> Vec<(FuncId, &OpFigures)> {
        let key = |func: FuncId| self.trace.function(func).map(|i| (i.layer, i.symbol.as_str()));
        let mut ops: Vec<_> = self.figures(id).ops.iter().map(|(&func, op)| (func, op)).collect();
        ops.sort_by_key(|(func, _)| key(*func));
        ops
    }

    /// Whether the source holds a sample of the events only; of several hosts, that of any.
    #[must_use]
    pub fn sampled(&self) -> bool {
        self.sampled.any()
    }

    /// The same of the source that a process's host was recorded by.
    #[must_use]
    pub fn sampled_of(&self, id: ProcessId) -> bool {
        self.sampled.of_pid(self.processes.get(id).pid)
    }

    /// What the trace cannot show, in sentences.
    #[must_use]
    pub fn caveats(&self) -> Vec<String> {
        let mut out = self.losses.sentences(self.trace, self.window.trace_start_ns);
        if !self.trace.complete() {
            out.push(
                "the recording was cut off: its footer is missing, what came after the last whole block is lost".into(),
            );
        }
        for d in self.trace.damage() {
            let also = match d.header.map(|h| h.chunk_type) {
                Some(CHUNK_STRINGS) => "; names were lost with it, which are shown as ?",
                Some(CHUNK_TASKS) => "; names of tasks were lost with it, and events that need them count as lost",
                Some(CHUNK_FUNCTIONS) => {
                    "; names of functions were lost with it, and events that need them count as lost"
                }
                _ => "",
            };
            out.push(format!("{} bytes at offset {:#x} cannot be read: {}{also}", d.len, d.offset, d.problem));
        }
        if let Some(repaired) = self.trace.meta("repaired").filter(|said| said.contains("of names lost")) {
            out.push(format!("the file is what was left of a damaged one: {}", printable(repaired)));
        }
        for (host, of) in self.sampled.hosts() {
            let own = |key: &str| self.trace.meta(&format!("host.{host}.{key}")).or_else(|| self.trace.meta(key));
            out.push(match (own("stored_events"), own("counted_events")) {
                (Some(stored), Some(counted)) => format!(
                    "a sample{of}: the source stored {} of {} events; totals are its own counts, percentiles and states \
                     of threads cannot be told, and gaps between stored calls may hold others",
                    printable(stored),
                    printable(counted)
                ),
                _ => format!(
                    "a sample{of}: the source did not store all events, nor count them; only what it stored is counted, \
                     percentiles and states of threads cannot be told, and gaps between stored calls may hold others"
                ),
            });
        }
        // Where no switch can be read, nothing is told that any of this would be needed for.
        let has_states = self.reads(Kind::Switch) && !self.phases.is_empty();
        // What is missing from the recording is not the source's fault.
        let blamed = |kind: Kind, what: &str| match !self.reads(kind) && self.may_have_lost(kind) {
            true => format!("{what} cannot be read from what is left of the recording"),
            false => format!("the source does not say {what}"),
        };
        if !self.knows_wakers && has_states {
            let unknown = blamed(Kind::Waking, "who woke whom");
            out.push(format!("{unknown}: what a blocked thread waited for is assumed from what its process's other threads and workers did meanwhile"));
        }
        let has_states = has_states && !self.sampled.all();
        if has_states && !self.reads(Kind::Affinity) {
            let unknown = blamed(Kind::Affinity, "which CPUs a thread may use");
            out.push(format!(
                "{unknown}: whether one waited for a CPU while another idled that it may not use cannot be told"
            ));
        }
        if has_states && !self.knows_throttling() {
            out.push(
                "the source does not say when a CPU quota held a thread back: such time counts as runnable".into(),
            );
        }
        let has = |layer| self.trace.functions().iter().any(|f| f.layer == layer);
        if has(ingero_format::catalog::Layer::Driver) && !has(ingero_format::catalog::Layer::Runtime) {
            out.push("only driver calls were seen: the runtime is linked statically, or was not found".into());
        }
        if self.repairs.synthesised > 0 || self.repairs.dropped > 0 {
            let made_up = match self.repairs.synthesised {
                0 => String::new(),
                n => format!(" {n} switch-ins were made up from their wakeups,"),
            };
            let dropped = self.repairs.dropped;
            out.push(format!("the kernel did not report every switch:{made_up} {dropped} intervals dropped"));
        }
        out
    }
}

/// Which figures of processes are the least that there was, since events are missing within the range on which they rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AtLeast {
    /// Anything of what threads did: switches, times on and off the CPUs and what they divide into, of calls too.
    pub states: bool,
    /// Of that also what hangs on no wake: switches, times on the CPUs, and what calls ran. Without it only times off the CPUs, and
    /// what these divide into, are the least that there was.
    pub switches: bool,
    /// Calls and their time.
    pub calls: bool,
    /// Pages.
    pub page_allocs: bool,
}

/// A sum of times, which stays at the largest number that there is: those of a damaged file may be any.
fn sum(times_ns: impl Iterator<Item = u64>) -> u64 {
    times_ns.fold(0, u64::saturating_add)
}

/// A text from a trace, fit for a terminal: control and invisible characters as escapes.
#[must_use]
pub fn printable(text: &str) -> String {
    ingero_format::one_line(text)
}
