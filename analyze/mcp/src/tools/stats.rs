//! `get_trace_stats`: how well the GPU was fed, and where the time of the calls went.

use std::collections::HashMap;

use ingero_analyze::report::{count, duration};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::part::Part;
use super::{TypedTool, counted, heading, maybe, maybe_count, notes, percent, seconds};
use crate::figures::{AtLeast, Figures, Op, Phase, Range, TraceHead, least};
use crate::page::{LeftOut, Paging};
use crate::problem::Problem;
use crate::shelf::Shelf;
use crate::words::{named, quoted};

pub(super) struct Stats;

/// Which recording and which part of it.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Args {
    #[serde(flatten)]
    part: Part,
    #[serde(flatten)]
    page: Paging,
}

/// How well the GPU was fed, and the operations by time.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Output {
    /// The recording as a whole.
    trace: TraceHead,
    /// Range that the figures are of.
    range: Range,
    /// Which figures are the least that there was.
    at_least: AtLeast,
    /// Processes of which anything was seen in the range.
    processes: u64,
    /// Phases of the processes with CUDA calls, at most 50.
    phases: Vec<Phase>,
    /// Operations, the longest in all first.
    ops: Vec<ProcessOp>,
    /// What was left out of the operations.
    left_out: LeftOut,
    /// What the recording cannot show.
    caveats: Vec<String>,
}

/// An operation of one process. Those of several processes are never pooled.
#[derive(Debug, Serialize, JsonSchema)]
struct ProcessOp {
    /// Process.
    pid: u32,
    /// Its name: data from the recording.
    process: String,
    /// The operation.
    #[serde(flatten)]
    op: Op,
}

/// Phases that are shown at most.
const MAX_PHASES: usize = 50;

impl TypedTool for Stats {
    const NAME: &'static str = "get_trace_stats";
    const TITLE: &'static str = "Statistics of a recording";
    const DESCRIPTION: &'static str = "How well the GPU was fed: phases with the share of time in which nothing was \
        submitted and what the submitting thread did meanwhile; and all CUDA operations by process with counts, exact \
        percentiles and how their time divides. Call it second, for the size of the problem. For why time was lost call \
        get_causal_chains instead; for one process with its scheduling get_per_process_breakdown; for single calls \
        get_timeline or run_sql.";
    type Args = Args;
    type Output = Output;

    fn answer(shelf: &Shelf, args: Args) -> Result<(Output, String), Problem> {
        let extract = args.part.open(shelf)?;
        let figures = extract.figures()?;
        let mut ops: Vec<ProcessOp> = figures
            .processes
            .iter()
            .flat_map(|p| p.ops.iter().map(|op| ProcessOp { pid: p.pid, process: p.name.clone(), op: op.clone() }))
            .collect();
        ops.sort_by(|a, b| {
            (b.op.sum_ns, b.op.count)
                .cmp(&(a.op.sum_ns, a.op.count))
                .then_with(|| (a.pid, &a.op.name).cmp(&(b.pid, &b.op.name)))
        });
        let at_least: HashMap<u32, AtLeast> = figures.processes.iter().map(|p| (p.pid, p.at_least)).collect();
        let shown = args.page.asked()?.of(ops, |row| {
            format!(
                "  {} of {} ({}): {}",
                named(&row.op.name),
                quoted(&row.process),
                row.pid,
                op_words(&row.op, at_least.get(&row.pid).copied().unwrap_or(figures.at_least))
            )
        });
        let mut text = vec![heading(extract.name(), &figures)];
        let active = figures.processes.len() as u64;
        text.push(format!("{} active", counted(active, "process")));
        text.extend(figures.phases.iter().take(MAX_PHASES).map(phase_words));
        if figures.phases.is_empty() {
            text.push(no_call(&figures).to_owned());
        }
        if figures.phases.len() > MAX_PHASES {
            let more = figures.phases.len() - MAX_PHASES;
            text.push(format!("Left out: {more} more phases; narrow the range with from and to."));
        }
        if !shown.rows.is_empty() {
            text.push("Operations, by their time in all (a runtime call contains its driver call):".to_owned());
        }
        text.extend(shown.lines);
        text.extend(shown.left_out.sentence("operations"));
        text.extend(notes(&figures.caveats));
        let output = Output {
            trace: figures.trace.clone(),
            range: figures.range.clone(),
            at_least: figures.at_least,
            processes: active,
            phases: figures.phases.iter().take(MAX_PHASES).cloned().collect(),
            ops: shown.rows,
            left_out: shown.left_out,
            caveats: figures.caveats.clone(),
        };
        Ok((output, text.join("\n")))
    }
}

/// What is said where no phase is: that there was no call is claimed only where nothing is missing.
fn no_call(figures: &Figures) -> &'static str {
    match (figures.trace.sampled, figures.trace.complete && figures.losses.is_empty()) {
        (true, _) => "No CUDA call is stored of this range (the source stored a sample: there may have been some).",
        (false, true) => "No process made a CUDA call in this range.",
        (false, false) => {
            "No CUDA call is in what could be read of this range (events were lost: there may have been some)."
        }
    }
}

/// A phase in words.
pub(super) fn phase_words(p: &Phase) -> String {
    let head = format!(
        "Phase {} ({}) of {} ({}), {} to {}",
        p.id,
        p.label,
        quoted(&p.process),
        p.pid,
        seconds(p.start_ns),
        seconds(p.end_ns)
    );
    if p.is_unclaimed() {
        return format!(
            "{head}: events were lost in all of it: how well the GPU was fed, and what its threads did, cannot be told"
        );
    }
    let withheld = match p.unclaimed_ns {
        0 => String::new(),
        ns => format!(
            "; of {} of it no claim is made, since events were lost there: the share is of the rest",
            duration(ns)
        ),
    };
    let g = &p.gaps;
    let (Some(gaps), Some(sum_ns)) = (g.count, g.sum_ns) else {
        let told = p.sample.as_ref().map_or_else(String::new, |sample| sample.summary.join("; "));
        return format!("{head}: a sample, gaps are not known; {told}");
    };
    // Of a start-up there is no share: what comes before its first submission is no gap.
    if let Some(s) = p.silence.as_ref() {
        let throttled = s.throttled_ns.filter(|&ns| ns > 0);
        let throttled = throttled.map_or_else(String::new, |ns| format!(", was throttled {}", duration(ns)));
        return format!(
            "{head}: no submission in {}; its main thread ran {}, could have run {}{throttled}, was blocked {}{withheld}",
            duration(p.len_ns()),
            duration(s.running_ns),
            duration(s.runnable_ns),
            duration(s.blocked_ns)
        );
    }
    let share = g.share.map_or_else(String::new, |share| format!(" ({})", percent(share)));
    let lost = match (g.lost_count, g.lost_ns) {
        (Some(n), Some(ns)) if n < gaps => format!(", of which {} of 50 us and more {}", count(n), duration(ns)),
        _ => String::new(),
    };
    let parts = match g.blocked_ns {
        None => "what the submitting thread did in them is not known".to_owned(),
        Some(blocked) => {
            let throttled = g.throttled_ns.filter(|&ns| ns > 0);
            let throttled = throttled.map_or_else(String::new, |ns| format!(", was throttled {}", duration(ns)));
            format!(
                "in them the submitting thread ran {}, could have run {}{throttled}, was blocked {}",
                maybe(g.running_ns),
                maybe(g.runnable_ns),
                duration(blocked)
            )
        }
    };
    format!(
        "{head}: {} submissions in {}; {} gaps between them last {} in all{share}{lost}; {parts}{withheld}",
        maybe_count(p.submissions),
        duration(p.len_ns()),
        count(gaps),
        duration(sum_ns)
    )
}

/// An operation in words.
pub(super) fn op_words(op: &Op, at_least: AtLeast) -> String {
    let calls = least(at_least.calls);
    // What it ran hangs on no wake.
    let [states, ran] = [at_least.states, at_least.switches].map(|lacks| least(at_least.calls || lacks));
    let mut out = format!(
        "{calls}{}, {calls}{} in all, mean {}, p50 {}, p99 {}, max {calls}{}",
        op.count.map_or_else(|| "an unknown number of calls".to_owned(), |n| counted(n, "call")),
        maybe(op.sum_ns),
        maybe(op.mean_ns),
        maybe(op.p50_ns),
        maybe(op.p99_ns),
        maybe(op.max_ns)
    );
    if let (Some(running), Some(runnable), Some(blocked)) = (op.running_ns, op.runnable_ns, op.blocked_ns) {
        out.push_str(&format!(
            "; ran {ran}{}, waited for a CPU {states}{}, blocked {states}{}",
            duration(running),
            duration(runnable),
            duration(blocked)
        ));
    }
    if let Some(errors) = op.errors.filter(|&n| n > 0) {
        out.push_str(&format!("; {calls}{errors} failed"));
    }
    if let Some(unreturned) = op.unreturned.filter(|&n| n > 0) {
        out.push_str(&format!("; {calls}{unreturned} never returned"));
    }
    out
}
