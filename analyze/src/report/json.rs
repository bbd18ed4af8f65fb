//! The JSON contract, `ingero-analyze/1`: see `spec/semantics.md`. Keys are stable, additions are
//! allowed, what a source cannot know is null.

use std::collections::BTreeMap;

use ingero_format::catalog::{FuncId, TaskId};
use ingero_replay::{Hosts, ProcessId};
use serde::Serialize;

use super::{Behind, OffCpu, Op, PageAllocs, Range};
use crate::chain::{Ending, Link};
use crate::figures::{OpFigures, PhaseFigures};
use crate::{Analysis, AtLeast, Bounds, Busy, Evidence, Faster, Incident, Moment, OpTotals, Sample, Steps};

#[derive(Serialize)]
pub(crate) struct Report<'a> {
    pub(crate) schema: &'static str,
    pub(crate) trace: TraceHead<'a>,
    pub(crate) range: Range,
    pub(crate) at_least: AtLeast,
    pub(crate) phases: Vec<PhaseRow<'a>>,
    pub(crate) processes: Vec<ProcessRow<'a>>,
    pub(crate) incidents: Vec<IncidentRow<'a>>,
    pub(crate) losses: Vec<LossRow<'a>>,
    pub(crate) caveats: Vec<String>,
}

#[derive(Serialize)]
pub(crate) struct TraceHead<'a> {
    pub(crate) duration_ns: u64,
    pub(crate) start_unix_ns: Option<u64>,
    pub(crate) events: u64,
    pub(crate) lost_events: Option<u64>,
    pub(crate) complete: bool,
    pub(crate) sampled: bool,
    pub(crate) kernel: Option<&'a str>,
    pub(crate) cpus: Option<u64>,
}

#[derive(Serialize)]
pub(crate) struct PhaseRow<'a> {
    pub(crate) id: usize,
    pub(crate) label: String,
    pub(crate) pid: u32,
    pub(crate) process: &'a str,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) asked_ns: Option<u64>,
    pub(crate) submissions: Option<u64>,
    pub(crate) gaps: Gaps,
    pub(crate) workers: usize,
    pub(crate) warm_up: bool,
    pub(crate) step_ns: Option<u64>,
    pub(crate) waited: Option<String>,
    pub(crate) chains: Option<Vec<LinkRow<'a>>>,
    pub(crate) silence: Option<SilenceRow>,
    pub(crate) busy: Option<Busy>,
    pub(crate) unclaimed: Vec<Range>,
    pub(crate) sample: Option<SampleRow<'a>>,
}

/// What a sample tells of a phase.
#[derive(Serialize)]
pub(crate) struct SampleRow<'a> {
    pub(crate) calls_stored: u64,
    pub(crate) calls_not_stored_at_most: u64,
    pub(crate) steps: Option<StepsRow<'a>>,
    pub(crate) times_as_long: Option<TimesRow>,
    pub(crate) main_off_cpu_ns: Option<BoundsRow>,
    pub(crate) main_busy_ns_at_least: Option<u64>,
    pub(crate) copies_ns: BoundsRow,
    pub(crate) calls_ns: BoundsRow,
    pub(crate) switches: BoundsRow,
    pub(crate) other_descendants: usize,
    pub(crate) summary: Vec<String>,
}

#[derive(Serialize)]
pub(crate) struct BoundsRow {
    pub(crate) at_least: u64,
    pub(crate) at_most: u64,
}

#[derive(Serialize)]
pub(crate) struct StepsRow<'a> {
    pub(crate) name: &'a str,
    pub(crate) count: u64,
}

#[derive(Serialize)]
pub(crate) struct TimesRow {
    pub(crate) phase: usize,
    pub(crate) times: f64,
}

/// One thread of a chain, with what it did while the one before it waited for it.
#[derive(Serialize)]
pub(crate) struct LinkRow<'a> {
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    pub(crate) thread: &'a str,
    /// Place in this list of the link that waited for it; null for a submitting thread.
    pub(crate) waiter: Option<usize>,
    /// Its own time and that of the links that it waited for.
    pub(crate) total_ns: u64,
    pub(crate) running_ns: u64,
    pub(crate) runnable_ns: u64,
    pub(crate) squeezed_ns: Option<u64>,
    pub(crate) throttled_ns: Option<u64>,
    pub(crate) runnable_behind: Vec<Behind>,
    /// Waits that no thread ended, by what did.
    pub(crate) waited_ns: BTreeMap<&'static str, u64>,
    /// Waits that it ended.
    pub(crate) waits: u64,
    /// Whether that is assumed, since the source does not say who wakes whom.
    pub(crate) assumed: bool,
}

#[derive(Serialize)]
pub(crate) struct Gaps {
    pub(crate) count: Option<usize>,
    pub(crate) sum_ns: Option<u64>,
    pub(crate) share: Option<f64>,
    /// Of them, those of 50 us and more: only these count as lost time.
    pub(crate) lost_count: Option<u64>,
    pub(crate) lost_ns: Option<u64>,
    pub(crate) running_ns: Option<u64>,
    pub(crate) runnable_ns: Option<u64>,
    pub(crate) throttled_ns: Option<u64>,
    pub(crate) blocked_ns: Option<u64>,
}

/// What a main thread did in a phase without a submission.
#[derive(Serialize)]
pub(crate) struct SilenceRow {
    pub(crate) tid: u32,
    pub(crate) running_ns: u64,
    pub(crate) runnable_ns: u64,
    pub(crate) throttled_ns: Option<u64>,
    pub(crate) blocked_ns: u64,
    pub(crate) longest_waits: Vec<WaitRow>,
}

#[derive(Serialize)]
pub(crate) struct WaitRow {
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) woken_by_tid: Option<u32>,
    pub(crate) ended_by: Option<&'static str>,
    pub(crate) began_before: bool,
    pub(crate) unfinished: bool,
}

impl SilenceRow {
    fn new(a: &Analysis, process: ProcessId, s: &crate::Silence) -> Self {
        let wait = |w: &crate::LongWait| WaitRow {
            start_ns: rel(a, w.start_ns),
            end_ns: rel(a, w.end_ns),
            woken_by_tid: w.by.map(|by| a.trace.task(by).tid),
            ended_by: w.ending.map(crate::Ending::name),
            began_before: w.began_before,
            unfinished: w.unfinished,
        };
        Self {
            tid: a.trace.task(s.task).tid,
            running_ns: s.spent.running_ns,
            runnable_ns: s.spent.runnable_ns,
            throttled_ns: a.knows_throttling_of(process).then_some(s.spent.throttled_ns),
            blocked_ns: s.spent.blocked_ns,
            longest_waits: s.waits.iter().map(wait).collect(),
        }
    }
}

#[derive(Serialize)]
pub(crate) struct ProcessRow<'a> {
    pub(crate) pid: u32,
    pub(crate) name: &'a str,
    pub(crate) parent_pid: Option<u32>,
    pub(crate) threads: usize,
    pub(crate) at_least: AtLeast,
    pub(crate) context_switches: Option<u64>,
    pub(crate) off_cpu: OffCpu,
    pub(crate) runnable_behind: Vec<Behind>,
    pub(crate) on_cpu_ns: Option<u64>,
    pub(crate) page_allocs: PageAllocs,
    pub(crate) ops: Vec<Op>,
    pub(crate) exe: Option<&'a str>,
    pub(crate) args: Option<&'a str>,
}

#[derive(Serialize)]
pub(crate) struct IncidentRow<'a> {
    pub(crate) id: String,
    pub(crate) severity: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) pid: u32,
    pub(crate) process: &'a str,
    pub(crate) phase: usize,
    pub(crate) op: Option<&'a str>,
    pub(crate) lost_ns: u64,
    pub(crate) at_most: bool,
    pub(crate) fed_ns: u64,
    pub(crate) share: f64,
    pub(crate) summary: &'a str,
    pub(crate) root_cause: &'a str,
    pub(crate) recommendations: &'a [String],
    pub(crate) timeline: Vec<TimelineRow<'a>>,
    pub(crate) evidence: Vec<EvidenceRow<'a>>,
}

#[derive(Serialize)]
pub(crate) struct TimelineRow<'a> {
    pub(crate) layer: &'static str,
    pub(crate) detail: &'a str,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) pid: u32,
    pub(crate) tid: u32,
}

#[derive(Serialize)]
pub(crate) struct EvidenceRow<'a> {
    pub(crate) what: &'a str,
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
}

#[derive(Serialize)]
pub(crate) struct LossRow<'a> {
    pub(crate) probe: &'a str,
    pub(crate) cause: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) host: Option<String>,
    pub(crate) count: u64,
    pub(crate) uncounted: bool,
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
}

/// The analysis as one JSON document. With `pids`, processes and incidents are those of these ids
/// alone; the figures are the same.
///
/// # Errors
/// When a document cannot be made of it, which no trace should bring about.
pub fn json(a: &Analysis, pids: &[u32]) -> serde_json::Result<String> {
    serde_json::to_string_pretty(&Report::new(a, pids))
}

impl<'a> Report<'a> {
    /// What the document holds.
    pub(crate) fn new(a: &'a Analysis, pids: &[u32]) -> Self {
        let wanted = |id: ProcessId| pids.is_empty() || pids.contains(&a.processes.get(id).pid);
        let phases = a.phases.iter().filter(|p| wanted(p.phase.process));
        let incidents = a.incidents.iter().filter(|i| wanted(i.process));
        let hosts = Hosts::new(a.trace);
        Self {
            schema: "ingero-analyze/1",
            trace: TraceHead::new(a),
            range: Range { from_ns: rel(a, a.window.from_ns), to_ns: rel(a, a.window.from_ns) + a.window.len_ns() },
            at_least: a.at_least(),
            phases: phases.map(|p| PhaseRow::new(a, p)).collect(),
            processes: a.active().into_iter().filter(|id| wanted(*id)).map(|id| ProcessRow::new(a, id)).collect(),
            incidents: incidents.map(|i| IncidentRow::new(a, i)).collect(),
            losses: a
                .losses
                .list
                .iter()
                .map(|l| LossRow {
                    probe: &l.probe,
                    cause: &l.cause,
                    host: l.host.and_then(|host| hosts.get(host)).map(|host| host.label.clone()),
                    count: l.count,
                    uncounted: l.uncounted,
                    from_ns: rel(a, l.from_ns),
                    to_ns: rel(a, l.to_ns),
                })
                .collect(),
            caveats: a.caveats(),
        }
    }
}

/// An instant as the contract has it: from the trace's start.
fn rel(a: &Analysis, ts_ns: u64) -> u64 {
    ts_ns.saturating_sub(a.window.trace_start_ns)
}

impl<'a> TraceHead<'a> {
    fn new(a: &'a Analysis) -> Self {
        Self {
            duration_ns: a.window.trace_end_ns - a.window.trace_start_ns,
            start_unix_ns: a.start_unix_ns,
            events: a.events(),
            lost_events: a.losses.events(),
            complete: a.trace.complete(),
            sampled: a.sampled(),
            kernel: a.trace.meta("kernel"),
            cpus: a.trace.meta("cpus").and_then(|s| s.parse().ok()),
        }
    }
}

impl<'a> PhaseRow<'a> {
    fn new(a: &'a Analysis, p: &PhaseFigures) -> Self {
        let spent = a.in_gaps(p);
        let sampled = p.phase.sample.is_some();
        let known = |ns: u64| (!sampled).then_some(ns);
        let of_gaps = |ns: u64| known(ns).filter(|_| !p.is_unclaimed());
        Self {
            id: p.number,
            label: p.phase.label(),
            pid: a.processes.get(p.phase.process).pid,
            process: a.name(p.phase.process),
            start_ns: rel(a, p.phase.start_ns),
            end_ns: rel(a, p.phase.end_ns),
            asked_ns: known(p.phase.asked_ns()),
            submissions: known(p.phase.submissions),
            gaps: Gaps {
                count: (!sampled && !p.is_unclaimed()).then_some(p.phase.gaps.len()),
                sum_ns: of_gaps(p.phase.gaps_ns()),
                share: p.starved_share().filter(|_| !sampled),
                lost_count: of_gaps(p.lost_gaps().count() as u64),
                lost_ns: of_gaps(p.lost_gaps_ns()),
                running_ns: spent.map(|s| s.running_ns),
                runnable_ns: spent.map(|s| s.runnable_ns),
                throttled_ns: spent.map(|s| s.throttled_ns).filter(|_| a.knows_throttling_of(p.phase.process)),
                blocked_ns: spent.map(|s| s.blocked_ns),
            },
            workers: p.phase.workers,
            warm_up: p.phase.warm_up,
            step_ns: p.phase.step_ns,
            waited: super::chains::line(a, p),
            chains: (!sampled).then(|| p.chains.links().map(|(at, link)| LinkRow::new(a, p, at, link)).collect()),
            silence: p
                .silence
                .as_ref()
                .filter(|_| a.knows_states_of(p.phase.process))
                .map(|s| SilenceRow::new(a, p.phase.process, s)),
            busy: p.busy,
            unclaimed: p
                .phase
                .unclaimed
                .iter()
                .map(|&(from, to)| Range { from_ns: rel(a, from), to_ns: rel(a, to) })
                .collect(),
            sample: p.phase.sample.as_ref().map(|s| SampleRow::new(a, p, s)),
        }
    }
}

impl From<Bounds> for BoundsRow {
    fn from(b: Bounds) -> Self {
        Self { at_least: b.at_least, at_most: b.at_most }
    }
}

impl<'a> SampleRow<'a> {
    fn new(a: &'a Analysis, p: &PhaseFigures, s: &Sample) -> Self {
        let name = |func| a.trace.function(func).map_or("?", |f| f.symbol.as_str());
        let len_ns = p.phase.len_ns();
        let times = |(f, steps): (Faster, Steps)| TimesRow { phase: f.phase, times: f.times(len_ns, steps.count) };
        Self {
            calls_stored: s.calls_stored,
            calls_not_stored_at_most: s.calls_not_stored,
            steps: s.steps.map(|steps| StepsRow { name: name(steps.func), count: steps.count }),
            times_as_long: s.faster.zip(s.steps).map(times),
            main_off_cpu_ns: s.off_cpu_ns.map(Into::into),
            main_busy_ns_at_least: s.busy_ns(len_ns),
            copies_ns: s.copies_ns.into(),
            calls_ns: s.calls_ns.into(),
            switches: s.switches.into(),
            other_descendants: s.others,
            summary: super::sample::sentences(p, s),
        }
    }
}

impl<'a> LinkRow<'a> {
    fn new(a: &'a Analysis, p: &PhaseFigures, at: usize, link: &Link) -> Self {
        let task = a.trace.task(link.task);
        let mut behind: Vec<_> = link.behind.iter().map(|(&id, &ns)| (id, ns)).collect();
        behind.sort_by_key(|&(id, ns)| (std::cmp::Reverse(ns), id));
        let ended = Ending::ALL.into_iter().zip(link.endings).filter(|(_, part)| part.ns > 0);
        Self {
            pid: task.pid,
            tid: task.tid,
            thread: a.thread_name(link.task),
            waiter: link.waiter,
            total_ns: p.chains.total_ns(at),
            running_ns: link.ran.ns,
            runnable_ns: link.runnable.ns,
            squeezed_ns: (a.knows_affinity_of(p.phase.process) && p.phase.sample.is_none()).then_some(link.squeezed_ns),
            throttled_ns: (a.knows_throttling_of(p.phase.process) && p.phase.sample.is_none())
                .then_some(link.throttled.ns),
            runnable_behind: behind.into_iter().map(|(id, ns)| Behind::new(a, id, ns)).collect(),
            waited_ns: ended.map(|(ending, part)| (ending.name(), part.ns)).collect(),
            waits: link.waits,
            assumed: link.assumed,
        }
    }
}

impl Behind {
    fn new(a: &Analysis, id: ProcessId, ns: u64) -> Self {
        Self { pid: a.processes.get(id).pid, name: a.name(id).to_owned(), ns }
    }
}

impl<'a> ProcessRow<'a> {
    fn new(a: &'a Analysis, id: ProcessId) -> Self {
        let (p, f) = (a.processes.get(id), a.figures(id));
        let spent = f.off_cpu.spent;
        let (knows_states, knows_allocs) = (a.knows_states_of(id), a.knows_page_allocs_of(id) && !a.sampled_of(id));
        let known = |n: u64| knows_states.then_some(n);
        let (off, allocs) = f.totals.as_ref().map_or((None, None), |t| (t.off_cpu, t.page_allocs));
        Self {
            pid: p.pid,
            name: a.name(id),
            parent_pid: p.parent_pid,
            threads: p.threads.len(),
            at_least: a.at_least_of(id),
            context_switches: known(f.context_switches).or(off.map(|t| t.count)),
            off_cpu: OffCpu {
                count: known(f.off_cpu.count).or(off.map(|t| t.count)),
                sum_ns: known(f.off_cpu.sum_ns).or(off.and_then(|t| t.sum_ns)),
                max_ns: f.off_cpu.worst_ns().filter(|_| knows_states).or(off.and_then(|t| t.max_ns)),
                runnable_ns: known(spent.runnable_ns),
                squeezed_ns: (a.knows_affinity_of(id) && knows_states).then_some(f.off_cpu.squeezed_ns),
                throttled_ns: (a.knows_throttling_of(id) && knows_states).then_some(spent.throttled_ns),
                blocked_ns: known(spent.blocked_ns),
                unfinished_ns: known(f.off_cpu.unfinished_ns),
                synthesised: known(f.off_cpu.synthesised),
            },
            runnable_behind: a.behind(id).into_iter().map(|(holder, ns)| Behind::new(a, holder, ns)).collect(),
            on_cpu_ns: known(f.on_cpu_ns),
            page_allocs: PageAllocs {
                count: knows_allocs.then_some(f.page_allocs).or(allocs.map(|t| t.count)),
                bytes: knows_allocs.then_some(f.page_alloc_bytes).or(allocs.and_then(|t| t.bytes)),
            },
            ops: a.ops(id).into_iter().map(|(func, op)| Op::new(a, id, func, op)).collect(),
            exe: p.exe.map(|s| a.trace.string(s)),
            args: p.args.map(|s| a.trace.string(s)),
        }
    }
}

impl Op {
    fn new(a: &Analysis, id: ProcessId, func: FuncId, op: &OpFigures) -> Self {
        let info = a.trace.function(func);
        let exact = !a.sampled_of(id);
        let percentile = |q| op.percentile_ns(q).filter(|_| exact);
        let known = |n: u64| exact.then_some(n);
        let state = |n: u64| a.knows_states_of(id).then_some(n);
        let totals = a.figures(id).totals.as_ref().and_then(|t| t.ops.get(&func));
        Self {
            layer: info.map_or("?", |i| i.layer.name()).to_owned(),
            name: info.map_or("?", |i| i.symbol.as_str()).to_owned(),
            count: known(op.count()).or(totals.map(|t| t.count)),
            unreturned: known(op.unreturned),
            began_before: known(op.began_before),
            errors: known(op.errors),
            bytes: if exact { op.bytes } else { totals.and_then(|t| t.bytes) },
            sum_ns: known(op.sum_ns()).or(totals.and_then(|t| t.sum_ns)),
            self_ns: known(op.self_ns),
            mean_ns: if exact { op.mean_ns() } else { totals.and_then(OpTotals::mean_ns) },
            p50_ns: percentile(50),
            p95_ns: percentile(95),
            p99_ns: percentile(99),
            max_ns: percentile(100).or(totals.and_then(|t| t.max_ns)),
            running_ns: state(op.spent.running_ns),
            runnable_ns: state(op.spent.runnable_ns),
            throttled_ns: state(op.spent.throttled_ns).filter(|_| a.knows_throttling_of(id)),
            blocked_ns: state(op.spent.blocked_ns),
        }
    }
}

impl<'a> IncidentRow<'a> {
    fn new(a: &'a Analysis, i: &'a Incident) -> Self {
        let ids = |task: TaskId| {
            let t = a.trace.task(task);
            (t.pid, t.tid)
        };
        let moment = |m: &'a Moment| {
            let (pid, tid) = ids(m.task);
            let (start_ns, end_ns) = (rel(a, m.start_ns), rel(a, m.end_ns));
            TimelineRow { layer: m.layer.name(), detail: &m.detail, start_ns, end_ns, pid, tid }
        };
        let evidence = |e: &'a Evidence| {
            let (pid, tid) = ids(e.task);
            EvidenceRow { what: &e.what, pid, tid, start_ns: rel(a, e.start_ns), end_ns: rel(a, e.end_ns) }
        };
        Self {
            id: i.id(a),
            severity: i.severity.name(),
            kind: i.kind,
            pid: a.processes.get(i.process).pid,
            process: a.name(i.process),
            phase: i.phase,
            op: i.op.and_then(|op| a.trace.function(op)).map(|f| f.symbol.as_str()),
            lost_ns: i.lost_ns,
            at_most: i.at_most,
            fed_ns: i.fed_ns,
            share: i.share,
            summary: &i.summary,
            root_cause: &i.root_cause,
            recommendations: &i.recommendations,
            timeline: i.timeline.iter().map(moment).collect(),
            evidence: i.evidence.iter().map(evidence).collect(),
        }
    }
}
