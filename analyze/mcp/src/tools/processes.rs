//! `get_per_process_breakdown`: each process apart.

use ingero_analyze::report::{bytes, count, duration};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::part::Part;
use super::stats::op_words;
use super::{TypedTool, counted, heading, known_pid, maybe, maybe_count, notes};
use crate::figures::{AtLeast, Process, Range, least};
use crate::page::{LeftOut, Paging};
use crate::problem::Problem;
use crate::shelf::Shelf;
use crate::words::{named, quoted};

pub(super) struct Breakdown;

/// Which recording, which part, which processes.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Args {
    #[serde(flatten)]
    part: Part,
    /// Only this process, with all its operations; without it those that called CUDA come first, then their children, then
    /// the others by their time on a CPU.
    pid: Option<u32>,
    #[serde(flatten)]
    page: Paging,
}

/// Processes, those that called CUDA first.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Output {
    /// Range that the figures are of.
    range: Range,
    /// Which figures are the least that there was.
    at_least: AtLeast,
    /// The processes.
    processes: Vec<Broken>,
    /// What was left out of them.
    left_out: LeftOut,
    /// What the recording cannot show.
    caveats: Vec<String>,
}

/// A process, with what was left out of it.
#[derive(Debug, Serialize, JsonSchema)]
struct Broken {
    /// The process.
    #[serde(flatten)]
    process: Process,
    /// Operations that are not shown; give pid to see all.
    ops_left_out: u64,
    /// Processes in runnable_behind that are not shown; give pid to see more.
    behind_left_out: u64,
}

impl Broken {
    fn new(mut process: Process, max_ops: usize, max_behind: usize) -> Self {
        // Those that took longest are worth their place.
        process.ops.sort_by(|a, b| b.sum_ns.cmp(&a.sum_ns).then_with(|| a.name.cmp(&b.name)));
        let ops_left_out = process.ops.len().saturating_sub(max_ops) as u64;
        let behind_left_out = process.runnable_behind.len().saturating_sub(max_behind) as u64;
        process.ops.truncate(max_ops);
        process.runnable_behind.truncate(max_behind);
        Self { process, ops_left_out, behind_left_out }
    }
}

impl TypedTool for Breakdown {
    const NAME: &'static str = "get_per_process_breakdown";
    const TITLE: &'static str = "Each process apart";
    const DESCRIPTION: &'static str = "Main process, workers and neighbours each apart: calls with exact percentiles, \
        context switches, time on and off the CPU and how it divides, behind whom its threads waited for a CPU, page \
        allocations. Call it to compare a process with its workers, or to see who took the CPUs. For who waited for whom \
        call get_causal_chains instead, for what one thread did at a time get_timeline; for sums over processes \
        run_sql.";
    type Args = Args;
    type Output = Output;

    fn answer(shelf: &Shelf, args: Args) -> Result<(Output, String), Problem> {
        let extract = args.part.open(shelf)?;
        args.pid.map(|pid| known_pid(&extract.opened, pid)).transpose()?;
        let figures = extract.figures()?;
        let callers: Vec<u32> = figures.processes.iter().filter(|p| !p.ops.is_empty()).map(|p| p.pid).collect();
        let mut all: Vec<Process> =
            figures.processes.iter().filter(|p| args.pid.is_none_or(|pid| pid == p.pid)).cloned().collect();
        all.sort_by_key(|p| {
            let kin = p.parent_pid.is_some_and(|parent| callers.contains(&parent));
            let class = if !p.ops.is_empty() {
                0
            } else if kin {
                1
            } else {
                2
            };
            (class, std::cmp::Reverse(p.on_cpu_ns), p.pid)
        });
        let (max_ops, max_behind) = if args.pid.is_some() { (200, 50) } else { (8, 5) };
        let all = all.into_iter().map(|p| Broken::new(p, max_ops, max_behind)).collect();
        let shown = args.page.asked()?.of(all, words);
        let mut text = vec![heading(extract.name(), &figures)];
        if let (Some(pid), 0) = (args.pid, shown.left_out.total_rows) {
            text.push(format!("Process {pid} did nothing that was seen in this range; widen from and to."));
        }
        text.extend(shown.lines);
        text.extend(shown.left_out.sentence("processes"));
        text.extend(notes(&figures.caveats));
        let (range, caveats) = (figures.range.clone(), figures.caveats.clone());
        let at_least = figures.at_least;
        Ok((Output { range, at_least, processes: shown.rows, left_out: shown.left_out, caveats }, text.join("\n")))
    }
}

fn words(row: &Broken) -> String {
    let p = &row.process;
    let (o, at_least) = (&p.off_cpu, p.at_least);
    // Times off the CPUs hang on wakes, too; switches and times on them do not.
    let (off, on, pages_least) = (least(at_least.states), least(at_least.switches), least(at_least.page_allocs));
    // What is unknown is no least.
    let time = |least: &str, ns: Option<u64>| ns.map_or_else(|| maybe(None), |ns| format!("{least}{}", duration(ns)));
    let number = |least: &str, n: Option<u64>| n.map_or_else(|| maybe_count(None), |n| format!("{least}{}", count(n)));
    let parent = p.parent_pid.map_or_else(String::new, |pid| format!(", child of {pid}"));
    let throttled = o.throttled_ns.filter(|&ns| ns > 0);
    let throttled = throttled.map_or_else(String::new, |ns| format!(", throttled {off}{}", duration(ns)));
    let unfinished = o.unfinished_ns.filter(|&ns| ns > 0);
    let unfinished = unfinished.map_or_else(String::new, |ns| format!("; unfinished at least {}", duration(ns)));
    let pages = p.page_allocs.count.map_or_else(
        || "page allocations unknown".to_owned(),
        |n| {
            format!(
                "page allocations {pages_least}{} ({})",
                count(n),
                p.page_allocs.bytes.map_or_else(|| "bytes unknown".to_owned(), bytes)
            )
        },
    );
    let mut out = vec![
        format!("{} ({}){parent}: {}", quoted(&p.name), p.pid, counted(p.threads, "thread")),
        format!(
            "  on CPU {}; off CPU {} times, {} in all, longest {}: waited for a CPU {}{throttled}, blocked {}{unfinished}",
            time(on, p.on_cpu_ns),
            number(off, o.count),
            time(off, o.sum_ns),
            time(off, o.max_ns),
            time(off, o.runnable_ns),
            time(off, o.blocked_ns)
        ),
        format!("  {} context switches; {pages}", number(on, p.context_switches)),
    ];
    if !p.runnable_behind.is_empty() {
        let behind = p.runnable_behind.iter().map(|b| format!("{} ({}) {}", quoted(&b.name), b.pid, duration(b.ns)));
        let more = if row.behind_left_out > 0 { format!(", {} more", row.behind_left_out) } else { String::new() };
        out.push(format!("  waited for a CPU behind {}{more}", behind.collect::<Vec<_>>().join(", ")));
    }
    out.extend(p.ops.iter().map(|op| format!("  {} {}: {}", op.layer, named(&op.name), op_words(op, at_least))));
    if row.ops_left_out > 0 {
        out.push(format!("  left out: {} more operations; give pid={} to see all", row.ops_left_out, p.pid));
    }
    out.join("\n")
}
