//! The JSON contract, `ingero-analyze/1`: see `spec/semantics.md`. Keys are stable, additions are
//! allowed, what a source cannot know is null.

use ingero_format::catalog::{FuncId, Kind, TaskId};
use ingero_replay::ProcessId;
use serde::Serialize;

use crate::figures::{OpFigures, PhaseFigures};
use crate::{Analysis, Evidence, Incident, Moment};

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    trace: TraceHead<'a>,
    range: Range,
    phases: Vec<PhaseRow<'a>>,
    processes: Vec<ProcessRow<'a>>,
    incidents: Vec<IncidentRow<'a>>,
    losses: Vec<LossRow<'a>>,
    caveats: Vec<String>,
}

#[derive(Serialize)]
struct TraceHead<'a> {
    duration_ns: u64,
    start_unix_ns: Option<u64>,
    events: u64,
    lost_events: Option<u64>,
    complete: bool,
    sampled: bool,
    kernel: Option<&'a str>,
    cpus: Option<u64>,
}

#[derive(Serialize)]
struct Range {
    from_ns: u64,
    to_ns: u64,
}

#[derive(Serialize)]
struct PhaseRow<'a> {
    id: usize,
    label: &'static str,
    pid: u32,
    process: &'a str,
    start_ns: u64,
    end_ns: u64,
    submissions: u64,
    gaps: Gaps,
}

#[derive(Serialize)]
struct Gaps {
    count: usize,
    sum_ns: u64,
    share: f64,
    running_ns: u64,
    runnable_ns: u64,
    throttled_ns: Option<u64>,
    blocked_ns: u64,
}

#[derive(Serialize)]
struct ProcessRow<'a> {
    pid: u32,
    name: &'a str,
    parent_pid: Option<u32>,
    threads: usize,
    context_switches: u64,
    off_cpu: OffCpu,
    runnable_behind: Vec<Behind<'a>>,
    on_cpu_ns: u64,
    page_allocs: PageAllocs,
    ops: Vec<Op<'a>>,
    exe: Option<&'a str>,
    args: Option<&'a str>,
}

#[derive(Serialize)]
struct OffCpu {
    count: u64,
    sum_ns: u64,
    max_ns: u64,
    runnable_ns: u64,
    squeezed_ns: Option<u64>,
    throttled_ns: Option<u64>,
    blocked_ns: u64,
    unfinished_ns: u64,
    synthesised: u64,
}

#[derive(Serialize)]
struct Behind<'a> {
    pid: u32,
    name: &'a str,
    ns: u64,
}

#[derive(Serialize)]
struct PageAllocs {
    count: Option<u64>,
    bytes: Option<u64>,
}

#[derive(Serialize)]
struct Op<'a> {
    layer: &'static str,
    name: &'a str,
    count: u64,
    unreturned: u64,
    began_before: u64,
    errors: u64,
    bytes: Option<u64>,
    sum_ns: u64,
    self_ns: u64,
    mean_ns: Option<u64>,
    p50_ns: Option<u64>,
    p95_ns: Option<u64>,
    p99_ns: Option<u64>,
    max_ns: Option<u64>,
    running_ns: u64,
    runnable_ns: u64,
    throttled_ns: Option<u64>,
    blocked_ns: u64,
}

#[derive(Serialize)]
struct IncidentRow<'a> {
    id: String,
    severity: &'static str,
    kind: &'static str,
    pid: u32,
    process: &'a str,
    phase: usize,
    op: Option<&'a str>,
    lost_ns: u64,
    share: f64,
    summary: &'a str,
    root_cause: &'a str,
    recommendations: &'a [String],
    timeline: Vec<TimelineRow<'a>>,
    evidence: Vec<EvidenceRow<'a>>,
}

#[derive(Serialize)]
struct TimelineRow<'a> {
    layer: &'static str,
    detail: &'a str,
    start_ns: u64,
    end_ns: u64,
    pid: u32,
    tid: u32,
}

#[derive(Serialize)]
struct EvidenceRow<'a> {
    what: &'a str,
    pid: u32,
    tid: u32,
    start_ns: u64,
    end_ns: u64,
}

#[derive(Serialize)]
struct LossRow<'a> {
    probe: &'a str,
    cause: &'a str,
    count: u64,
    uncounted: bool,
    from_ns: u64,
    to_ns: u64,
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
    fn new(a: &'a Analysis, pids: &[u32]) -> Self {
        let wanted = |id: ProcessId| pids.is_empty() || pids.contains(&a.processes.get(id).pid);
        let phases = a.phases.iter().enumerate().filter(|(_, p)| wanted(p.phase.process));
        let incidents = a.incidents.iter().filter(|i| wanted(i.process));
        Self {
            schema: "ingero-analyze/1",
            trace: TraceHead::new(a),
            range: Range { from_ns: rel(a, a.window.from_ns), to_ns: rel(a, a.window.from_ns) + a.window.len_ns() },
            phases: phases.map(|(id, p)| PhaseRow::new(a, id, p)).collect(),
            processes: a.active().into_iter().filter(|id| wanted(*id)).map(|id| ProcessRow::new(a, id)).collect(),
            incidents: incidents.map(|i| IncidentRow::new(a, i)).collect(),
            losses: a
                .losses
                .list
                .iter()
                .map(|l| LossRow {
                    probe: &l.probe,
                    cause: &l.cause,
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
    fn new(a: &'a Analysis, id: usize, p: &PhaseFigures) -> Self {
        let spent = p.submitters();
        Self {
            id,
            label: "first to last CUDA call",
            pid: a.processes.get(p.phase.process).pid,
            process: a.name(p.phase.process),
            start_ns: rel(a, p.phase.start_ns),
            end_ns: rel(a, p.phase.end_ns),
            submissions: p.phase.submissions,
            gaps: Gaps {
                count: p.phase.gaps.len(),
                sum_ns: p.phase.gaps_ns(),
                share: p.starved_share(),
                running_ns: spent.running_ns,
                runnable_ns: spent.runnable_ns,
                throttled_ns: a.knows_throttling.then_some(spent.throttled_ns),
                blocked_ns: spent.blocked_ns,
            },
        }
    }
}

impl<'a> ProcessRow<'a> {
    fn new(a: &'a Analysis, id: ProcessId) -> Self {
        let (p, f) = (a.processes.get(id), a.figures(id));
        let spent = f.off_cpu.spent;
        let knows_allocs = a.has(Kind::PageAlloc);
        Self {
            pid: p.pid,
            name: a.name(id),
            parent_pid: p.parent_pid,
            threads: p.threads.len(),
            context_switches: f.context_switches,
            off_cpu: OffCpu {
                count: f.off_cpu.count,
                sum_ns: f.off_cpu.sum_ns,
                max_ns: f.off_cpu.max_ns,
                runnable_ns: spent.runnable_ns,
                // Which CPUs a task may use is not recorded yet.
                squeezed_ns: None,
                throttled_ns: a.knows_throttling.then_some(spent.throttled_ns),
                blocked_ns: spent.blocked_ns,
                unfinished_ns: f.off_cpu.unfinished_ns,
                synthesised: f.off_cpu.synthesised,
            },
            runnable_behind: a
                .behind(id)
                .into_iter()
                .map(|(holder, ns)| Behind { pid: a.processes.get(holder).pid, name: a.name(holder), ns })
                .collect(),
            on_cpu_ns: f.on_cpu_ns,
            page_allocs: PageAllocs {
                count: knows_allocs.then_some(f.page_allocs),
                bytes: knows_allocs.then_some(f.page_alloc_bytes),
            },
            ops: a.ops(id).into_iter().map(|(func, op)| Op::new(a, func, op)).collect(),
            exe: p.exe.map(|s| a.trace.string(s)),
            args: p.args.map(|s| a.trace.string(s)),
        }
    }
}

impl<'a> Op<'a> {
    fn new(a: &'a Analysis, func: FuncId, op: &OpFigures) -> Self {
        let info = a.trace.function(func);
        let exact = !a.sampled();
        let percentile = |q| op.percentile_ns(q).filter(|_| exact);
        Self {
            layer: info.map_or("?", |i| i.layer.name()),
            name: info.map_or("?", |i| i.symbol.as_str()),
            count: op.count(),
            unreturned: op.unreturned,
            began_before: op.began_before,
            errors: op.errors,
            bytes: op.bytes,
            sum_ns: op.sum_ns(),
            self_ns: op.self_ns,
            mean_ns: op.mean_ns(),
            p50_ns: percentile(50),
            p95_ns: percentile(95),
            p99_ns: percentile(99),
            max_ns: percentile(100),
            running_ns: op.spent.running_ns,
            runnable_ns: op.spent.runnable_ns,
            throttled_ns: a.knows_throttling.then_some(op.spent.throttled_ns),
            blocked_ns: op.spent.blocked_ns,
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
            op: None,
            lost_ns: i.lost_ns,
            share: i.share,
            summary: &i.summary,
            root_cause: &i.root_cause,
            recommendations: &i.recommendations,
            timeline: i.timeline.iter().map(moment).collect(),
            evidence: i.evidence.iter().map(evidence).collect(),
        }
    }
}
