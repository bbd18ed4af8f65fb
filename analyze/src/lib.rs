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

mod feed;
mod figures;
mod incidents;
mod ledger;
mod losses;
pub mod report;

use ingero_format::Trace;
use ingero_format::catalog::{FuncId, Kind};
use ingero_replay::{ProcessId, Processes, Repairs, Timeline, Window};

pub use feed::{Gap, Phase};
pub use figures::{GapFigures, OffCpuFigures, OpFigures, PhaseFigures, ProcessFigures, Stretch};
pub use incidents::{Evidence, Incident, Layer, Moment, Severity};
pub use losses::{Loss, Losses};

/// What a trace shows within a range.
pub struct Analysis<'t> {
    /// The trace.
    pub trace: &'t Trace,
    /// The range.
    pub window: Window,
    /// Its processes and names.
    pub processes: Processes,
    figures: Vec<ProcessFigures>,
    /// Phases in order of their first call.
    pub phases: Vec<PhaseFigures>,
    /// Incidents, worst first.
    pub incidents: Vec<Incident>,
    /// What the timeline had to leave out or make up.
    pub repairs: Repairs,
    /// What was lost while recording, and what cannot be read.
    pub losses: Losses,
    /// Whether the source can tell a throttled task from a preempted one.
    pub knows_throttling: bool,
    /// Wall-clock time of the trace's start, where known.
    pub start_unix_ns: Option<u64>,
}

impl<'t> Analysis<'t> {
    /// Analyses a range of a trace.
    #[must_use]
    pub fn new(trace: &'t Trace, window: Window) -> Self {
        let processes = Processes::new(trace);
        let phases = feed::phases(trace, &processes, &window);
        let mut ledger = ledger::Ledger::new(trace, &processes, window, phases);
        let repairs = Timeline::new(trace).run(&mut ledger);
        ledger.close();
        let (figures, phases, knows_throttling) = (ledger.figures, ledger.phases, ledger.knows_throttling);
        let losses = Losses::new(trace, &repairs);
        let start_unix_ns = ingero_replay::start_unix_ns(trace, window.trace_start_ns);
        let incidents = Vec::new();
        let mut this = Self {
            trace,
            window,
            processes,
            figures,
            phases,
            incidents,
            repairs,
            losses,
            knows_throttling,
            start_unix_ns,
        };
        this.incidents = incidents::find(&this);
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

    /// The same for a thread.
    #[must_use]
    pub fn thread_label(&self, task: ingero_format::catalog::TaskId) -> String {
        let name = self.processes.name_at(task, self.window.to_ns).map_or("?", |s| self.trace.string(s));
        format!("{} ({})", printable(name), self.trace.task(task).tid)
    }

    /// Events of the trace: those that happened, not those that describe. A call is one.
    #[must_use]
    pub fn events(&self) -> u64 {
        let describes = |k: Kind| matches!(k, Kind::Name | Kind::Process | Kind::Loss | Kind::Clock | Kind::System);
        let blocks = self.trace.blocks().iter().map(|b| b.header);
        blocks.filter(|h| !Kind::from_number(h.kind).is_some_and(describes)).map(|h| u64::from(h.rows)).sum()
    }

    /// Whether the trace holds any event of a kind.
    #[must_use]
    pub fn has(&self, kind: Kind) -> bool {
        self.trace.blocks().iter().any(|b| b.header.kind == kind as u16 && b.header.rows > 0)
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

    /// Whether the source holds a sample of the events only.
    #[must_use]
    pub fn sampled(&self) -> bool {
        self.trace.meta("sampled") == Some("true")
    }

    /// What the trace cannot show, in sentences.
    #[must_use]
    pub fn caveats(&self) -> Vec<String> {
        let mut out = self.losses.sentences(self.window.trace_start_ns);
        if !self.trace.complete() {
            out.push(
                "the recording was cut off: its footer is missing, what came after the last whole block is lost".into(),
            );
        }
        for d in self.trace.damage() {
            out.push(format!("{} bytes at offset {:#x} cannot be read: {}", d.len, d.offset, d.problem));
        }
        if self.sampled() {
            out.push("the source kept a sample of the events: totals hold, percentiles cannot be told".into());
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

/// A sum of times, which stays at the largest number that there is: those of a damaged file may be any.
fn sum(times_ns: impl Iterator<Item = u64>) -> u64 {
    times_ns.fold(0, u64::saturating_add)
}

/// A text from a trace, fit for a terminal: control and invisible characters as escapes.
#[must_use]
pub fn printable(text: &str) -> String {
    ingero_replay::program::one_line(text)
}
