//! What the recording and the analysis say as a whole: the run itself, its processes and tasks, phases, incidents, counters.

use ingero_analyze::counters::{Counters, Reading};
use ingero_analyze::{Analysis, Incident, OpTotals, PhaseFigures};
use ingero_format::catalog::{FuncId, Kind, StrId, TaskId};
use ingero_replay::{Merge, PageSizes, Process, ProcessId};

use super::columns::Columns;
use super::place::Place;
use super::table::{GROUP_ROWS, TableFile};
use super::tasks::Common;
use super::words::Word;
use crate::error::Error;
use crate::export::phase::Figures;
use crate::export::selection::Selection;

/// Writes the tables.
pub(super) fn write(a: &Analysis, selection: &Selection, of: &Common, place: &mut Place) -> Result<(), Error> {
    let shown = |id: ProcessId| selection.shows_verdicts(a.processes.get(id));
    put(place, of, "runs", &[()], |()| a.window.trace_start_ns, |rows, c| run(a, rows, of, c))?;
    let all: Vec<_> = a.processes.iter().filter(|(_, p)| selection.shows_process(p)).collect();
    put(place, of, "processes", &all, |(id, _)| id.0.into(), |rows, c| processes(a, selection, rows, of, c))?;
    // Others may be named as wakers or holders: all of them are there.
    let all: Vec<TaskId> = (0..).zip(a.trace.tasks()).map(|(id, _)| TaskId(id)).collect();
    put(place, of, "tasks", &all, |id| id.0.into(), |rows, c| tasks(a, rows, of, c))?;
    let all = totals(a, selection);
    put(place, of, "totals", &all, |row| row.process.0.into(), |rows, c| total_columns(a, rows, of, c))?;
    let all: Vec<_> = (0..).zip(&a.phases).filter(|(_, p)| shown(p.phase.process)).collect();
    put(place, of, "phases", &all, |(_, p)| p.phase.start_ns, |rows, c| phases(a, rows, of, c))?;
    let all: Vec<_> = (1..).zip(&a.incidents).filter(|(_, i)| shown(i.process)).collect();
    put(place, of, "incidents", &all, |(_, i)| span(a, i).0, |rows, c| incidents(a, rows, of, c))?;
    let all = readings(a, selection);
    put(place, of, "counters", &all, |(ts_ns, _)| *ts_ns, |rows, c| counters(rows, of, c))
}

/// What the machine and its GPUs were at, at each sample.
fn readings(a: &Analysis, selection: &Selection) -> Vec<(u64, Reading)> {
    let mut counters = Counters::new(a.trace);
    let mut all = Vec::new();
    let samples = |kind| matches!(kind, Kind::System | Kind::Pressure | Kind::GpuSample);
    // Shares are of the time since the sample before, which need not be within the range.
    for event in Merge::of(a.trace, samples) {
        let Some((kind, readings)) = counters.readings(&event) else { continue };
        if selection.takes_kind(kind) && selection.touches((event.ts_ns, event.ts_ns)) {
            all.extend(readings.into_iter().map(|reading| (event.ts_ns, reading)));
        }
    }
    all
}

fn counters(rows: &[&(u64, Reading)], of: &Common, c: &mut Columns) {
    #[expect(clippy::cast_precision_loss, reason = "values of counters are for comparing and showing")]
    let value = |reading: &Reading| reading.thousandths as f64 / 1000.0;
    c.ns("ts_ns", rows.iter().map(|(ts_ns, _)| *ts_ns));
    c.text("name", rows.iter().map(|(_, r)| of.words.own(&r.name)));
    c.maybe_real("value", rows.iter().map(|(_, r)| Some(value(r))));
    c.maybe_signed("unix_ns", rows.iter().map(|(ts_ns, _)| of.clock.at(*ts_ns)));
    c.same("run", of.run, rows.len());
}

/// Writes a table of these rows in order of their keys, which are its first column.
fn put<R>(
    place: &mut Place,
    of: &Common,
    name: &str,
    rows: &[R],
    key: impl Fn(&R) -> u64,
    layout: impl Fn(&[&R], &mut Columns),
) -> Result<(), Error> {
    let mut file = TableFile::create(&place.path(name), |columns| layout(&[], columns))?;
    let mut sorted: Vec<&R> = rows.iter().collect();
    sorted.sort_by_key(|row| key(row));
    for group in sorted.chunks(GROUP_ROWS) {
        if let (Some(first), Some(last)) = (group.first(), group.last()) {
            file.group(group.len(), (key(first), key(last)), of.words, |columns| layout(group, columns))?;
        }
    }
    place.keep(name, file.finish()?);
    Ok(())
}

fn run(a: &Analysis, rows: &[&()], of: &Common, c: &mut Columns) {
    let w = a.window;
    let number = |key: &str| a.trace.meta(key).and_then(|s| s.parse::<i64>().ok());
    let kernel = a.trace.meta("kernel").map(|k| of.words.own(k));
    c.ns("start_ns", rows.iter().map(|()| w.trace_start_ns));
    c.ns("end_ns", rows.iter().map(|()| w.trace_end_ns));
    c.maybe_ns("start_unix_ns", rows.iter().map(|()| a.start_unix_ns));
    c.ns("events", rows.iter().map(|()| a.events()));
    c.maybe_ns("lost_events", rows.iter().map(|()| a.losses.events()));
    c.flag("complete", rows.iter().map(|()| a.trace.complete()));
    c.flag("sampled", rows.iter().map(|()| a.sampled()));
    c.flag("knows_throttling", rows.iter().map(|()| a.knows_throttling()));
    c.flag("knows_page_allocs", rows.iter().map(|()| a.has(Kind::PageAlloc)));
    c.maybe_signed("page_size", rows.iter().map(|()| number("page_size")));
    c.maybe_signed("cpus", rows.iter().map(|()| number("cpus")));
    c.maybe_text("kernel", rows.iter().map(|()| kernel));
    c.same("run", of.run, rows.len());
}

fn processes(a: &Analysis, selection: &Selection, rows: &[&(ProcessId, &Process)], of: &Common, c: &mut Columns) {
    let text = |id: Option<StrId>| id.map(|id| of.words.string(id));
    let page_sizes = PageSizes::new(a.trace);
    c.id("process_id", rows.iter().map(|(id, _)| id.0));
    c.id("pid", rows.iter().map(|(_, p)| p.pid));
    c.maybe_text("name", rows.iter().map(|(id, _)| text(a.processes.process_name_at(*id, u64::MAX))));
    c.maybe_text("exe", rows.iter().map(|(_, p)| text(p.exe)));
    c.maybe_text("args", rows.iter().map(|(_, p)| text(p.args)));
    c.maybe_id("parent_id", rows.iter().map(|(_, p)| Some(p.parent?.0)));
    c.maybe_id("parent_pid", rows.iter().map(|(_, p)| p.parent_pid));
    c.ns("threads", rows.iter().map(|(_, p)| p.threads.len() as u64));
    c.flag("followed", rows.iter().map(|(_, p)| p.followed));
    c.flag("knows_states", rows.iter().map(|(id, _)| a.knows_states_of(*id)));
    c.flag("knows_throttling", rows.iter().map(|(id, _)| a.knows_throttling_of(*id)));
    c.flag("knows_page_allocs", rows.iter().map(|(id, _)| a.knows_page_allocs_of(*id)));
    c.flag("sampled", rows.iter().map(|(id, _)| a.sampled_of(*id)));
    let squeezed = |id: ProcessId| {
        let known = a.knows_states_of(id) && a.knows_affinity_of(id) && selection.counts(Kind::Switch);
        known.then(|| a.figures(id).off_cpu.squeezed_ns)
    };
    c.maybe_ns("squeezed_ns", rows.iter().map(|(id, _)| squeezed(*id)));
    c.unsigned("page_size", rows.iter().map(|(_, p)| page_sizes.of_pid(p.pid)));
    c.same("run", of.run, rows.len());
}

/// What a source that kept a sample says that there was: no query over what it stored finds it.
struct Total {
    process: ProcessId,
    /// Off-CPU stays, page allocations or calls of a function.
    what: &'static str,
    func: Option<FuncId>,
    of: OpTotals,
}

/// Those of the selected processes; none where every event is there.
fn totals(a: &Analysis, selection: &Selection) -> Vec<Total> {
    let mut all = Vec::new();
    let shown = |id: &ProcessId| a.sampled_of(*id) && selection.shows_process(a.processes.get(*id));
    for process in a.active().into_iter().filter(shown) {
        let Some(totals) = &a.figures(process).totals else { continue };
        let off_cpu = totals.off_cpu.filter(|_| selection.counts(Kind::OffCpu));
        all.extend(off_cpu.map(|of| Total { process, what: "off_cpu", func: None, of }));
        let pages = totals.page_allocs.filter(|_| selection.takes_kind(Kind::PageAlloc));
        all.extend(pages.map(|of| Total { process, what: "page_allocs", func: None, of }));
        let calls = totals.ops.iter().filter(|_| selection.counts(Kind::Call));
        all.extend(calls.map(|(func, of)| Total { process, what: "calls", func: Some(*func), of: *of }));
    }
    all
}

fn total_columns(a: &Analysis, rows: &[&Total], of: &Common, c: &mut Columns) {
    let function = |r: &Total| r.func.and_then(|func| a.trace.function(func));
    c.id("process_id", rows.iter().map(|r| r.process.0));
    c.id("pid", rows.iter().map(|r| a.processes.get(r.process).pid));
    c.text("process", rows.iter().map(|r| of.words.own(a.name(r.process))));
    c.text("what", rows.iter().map(|r| of.words.own(r.what)));
    c.maybe_text("layer", rows.iter().map(|r| function(r).map(|f| of.words.own(f.layer.name()))));
    c.maybe_text("function", rows.iter().map(|r| function(r).map(|f| of.words.own(&f.symbol))));
    c.unsigned("count", rows.iter().map(|r| r.of.count));
    c.maybe_unsigned("sum_ns", rows.iter().map(|r| r.of.sum_ns));
    c.maybe_unsigned("mean_ns", rows.iter().map(|r| r.of.mean_ns()));
    c.maybe_unsigned("max_ns", rows.iter().map(|r| r.of.max_ns));
    c.maybe_unsigned("bytes", rows.iter().map(|r| r.of.bytes));
    c.same("run", of.run, rows.len());
}

fn tasks(a: &Analysis, rows: &[&TaskId], of: &Common, c: &mut Columns) {
    c.id("task", rows.iter().map(|id| id.0));
    c.id("pid", rows.iter().map(|id| a.trace.task(**id).pid));
    c.id("tid", rows.iter().map(|id| a.trace.task(**id).tid));
    c.id("process_id", rows.iter().map(|id| a.processes.of(**id).0));
    c.maybe_text("name", rows.iter().map(|id| of.tasks.name(**id, u64::MAX)));
    c.same("run", of.run, rows.len());
}

fn phases(a: &Analysis, rows: &[&(u64, &PhaseFigures)], of: &Common, c: &mut Columns) {
    let figures: Vec<Figures> = rows.iter().map(|(_, p)| Figures::new(a, p)).collect();
    let maybe = |pick: fn(&Figures) -> Option<u64>| figures.iter().map(pick);
    let process = |p: &PhaseFigures| a.processes.get(p.phase.process);
    c.ns("start_ns", rows.iter().map(|(_, p)| p.phase.start_ns));
    c.ns("end_ns", rows.iter().map(|(_, p)| p.phase.end_ns));
    c.ns("phase", rows.iter().map(|(at, _)| *at));
    c.text("label", rows.iter().map(|(_, p)| of.words.own(&p.phase.label())));
    c.id("process_id", rows.iter().map(|(_, p)| p.phase.process.0));
    c.id("pid", rows.iter().map(|(_, p)| process(p).pid));
    c.text("process", rows.iter().map(|(_, p)| of.words.own(a.name(p.phase.process))));
    c.maybe_text("args", rows.iter().map(|(_, p)| process(p).args.map(|id| of.words.string(id))));
    c.maybe_ns("submissions", maybe(|f| f.submissions));
    c.maybe_ns("gaps", maybe(|f| f.gaps));
    c.maybe_ns("gaps_ns", maybe(|f| f.gaps_ns));
    c.maybe_real("gaps_share", figures.iter().map(|f| f.gaps_share));
    c.maybe_ns("gaps_running_ns", maybe(|f| f.gaps_running_ns));
    c.maybe_ns("gaps_runnable_ns", maybe(|f| f.gaps_runnable_ns));
    c.maybe_ns("gaps_throttled_ns", maybe(|f| f.gaps_throttled_ns));
    c.maybe_ns("gaps_blocked_ns", maybe(|f| f.gaps_blocked_ns));
    c.ns("unclaimed_ns", rows.iter().map(|(_, p)| p.phase.len_ns().saturating_sub(p.phase.claimed_ns())));
    c.maybe_ns("asked_ns", maybe(|f| f.asked_ns));
    c.maybe_ns("lost_gaps", maybe(|f| f.lost_gaps));
    c.maybe_ns("lost_gaps_ns", maybe(|f| f.lost_gaps_ns));
    c.ns("workers", figures.iter().map(|f| f.workers));
    c.flag("warm_up", figures.iter().map(|f| f.warm_up));
    c.maybe_ns("step_ns", maybe(|f| f.step_ns));
    c.maybe_ns("busy_percent", maybe(|f| f.busy.map(|b| b.percent)));
    c.maybe_ns("busy_samples", maybe(|f| f.busy.map(|b| b.samples)));
    c.maybe_ns("busy_devices", maybe(|f| f.busy.map(|b| b.devices)));
    c.maybe_ns("busy_idle_ns", maybe(|f| f.busy.map(|b| b.idle_ns)));
    c.maybe_ns("busy_told_ns", maybe(|f| f.busy.map(|b| b.told_ns)));
    c.maybe_ns("busy_unqueued_ns", maybe(|f| f.busy.map(|b| b.unqueued_ns)));
    c.maybe_signed("unix_ns", rows.iter().map(|(_, p)| of.clock.at(p.phase.start_ns)));
    c.same("run", of.run, rows.len());
}

/// The phase that an incident is of, else the whole range.
fn span(a: &Analysis, i: &Incident) -> (u64, u64) {
    a.phases.get(i.phase).map_or((a.window.from_ns, a.window.to_ns), |p| (p.phase.start_ns, p.phase.end_ns))
}

fn incidents(a: &Analysis, rows: &[&(u64, &Incident)], of: &Common, c: &mut Columns) {
    let own = |text: &str| -> Word { of.words.own(text) };
    c.ns("start_ns", rows.iter().map(|(_, i)| span(a, i).0));
    c.ns("end_ns", rows.iter().map(|(_, i)| span(a, i).1));
    c.text("id", rows.iter().map(|(_, i)| own(&i.id(a))));
    c.ns("rank", rows.iter().map(|(rank, _)| *rank));
    c.text("severity", rows.iter().map(|(_, i)| own(i.severity.name())));
    c.text("kind", rows.iter().map(|(_, i)| own(i.kind)));
    c.id("process_id", rows.iter().map(|(_, i)| i.process.0));
    c.id("pid", rows.iter().map(|(_, i)| a.processes.get(i.process).pid));
    c.text("process", rows.iter().map(|(_, i)| own(a.name(i.process))));
    c.ns("phase", rows.iter().map(|(_, i)| i.phase as u64));
    c.ns("lost_ns", rows.iter().map(|(_, i)| i.lost_ns));
    c.flag("at_most", rows.iter().map(|(_, i)| i.at_most));
    c.ns("fed_ns", rows.iter().map(|(_, i)| i.fed_ns));
    c.maybe_real("share", rows.iter().map(|(_, i)| Some(i.share)));
    let function = |i: &Incident| i.op.and_then(|op| a.trace.function(op)).map(|f| own(&f.symbol));
    c.maybe_text("op", rows.iter().map(|(_, i)| function(i)));
    c.text("summary", rows.iter().map(|(_, i)| own(&i.summary)));
    c.text("root_cause", rows.iter().map(|(_, i)| own(&i.root_cause)));
    c.text("advice", rows.iter().map(|(_, i)| own(&i.recommendations.join("\n"))));
    c.maybe_signed("unix_ns", rows.iter().map(|(_, i)| of.clock.at(span(a, i).0)));
    c.same("run", of.run, rows.len());
}
