//! `ingero-analyze`: what a GPU waited for.

mod browser;
mod tui;

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Parser, Subcommand, ValueEnum};
use ingero_analyze::diff::{self, Diff};
use ingero_analyze::{Analysis, report};
use ingero_format::Trace;
use ingero_replay::program::{self, Ending};
use ingero_replay::{Processes, Window};

/// Say what a GPU waited for.
///
/// Reads a recording and reports, for each process with CUDA calls, how much of the time its GPU was
/// fed, what the rest of the time went to, and who took it.
///
/// Text is as wide as the terminal or as COLUMNS says, from 60 to 100 columns, and coloured on a terminal alone unless
/// `NO_COLOR` is set.
///
/// Exits with 0 when the whole recording was read, with 2 when nothing or only a part of it could be.
#[derive(Parser)]
#[command(
    name = "ingero-analyze",
    version,
    max_term_width = 100,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:
  ingero-analyze run.igt
  ingero-analyze run.igt --per-process --since 30s
  ingero-analyze run.igt --tui
  ingero-analyze run.igt --html report.html
  ingero-analyze run.igt --from 12s --to 15s --pid 4711 --format json
  ingero-analyze diff before.igt after.igt"
)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Recording to read.
    #[arg(required = true)]
    file: Option<PathBuf>,
    /// Show each process in a section of its own.
    #[arg(long)]
    per_process: bool,
    /// Leave out what was before this time: an offset from the start (12.5s) or a wall-clock time
    /// (2026-03-01T14:06:13Z).
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    from: Option<String>,
    /// Leave out what came from this time on.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    to: Option<String>,
    /// Only the last stretch of the recording, such as 5m.
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, conflicts_with = "from")]
    since: Option<String>,
    /// Only this phase, by the number that the report gives it.
    #[arg(long, value_name = "N")]
    phase: Option<usize>,
    /// Show wall-clock times instead of times from the start.
    #[arg(long)]
    wall: bool,
    /// Only this process; may be given several times.
    #[arg(long, value_name = "PID")]
    pid: Vec<u32>,
    /// Kind of report.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Show a timeline in the terminal: every thread's states and calls, with the keys on the screen. Of a large recording
    /// it keeps what it drew from in a file beside it, FILE.pyramid, if it can.
    #[arg(long, conflicts_with_all = ["per_process", "format"])]
    tui: bool,
    /// Write the report as one page for a browser, with a timeline to zoom into; - for standard output. The page is
    /// complete in itself and loads nothing. An earlier page is replaced, any other file is not.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["per_process", "format", "tui"])]
    html: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Command {
    /// Compare two recordings: did the fix work?
    ///
    /// Processes are matched by their names, calls by process and function. Compared are the share of the time in
    /// which the GPU was fed, the time for a submission, and the time lost to each cause; warm-up is left out, and so is
    /// what feeds a GPU in one of the recordings alone.
    Diff(DiffArgs),
}

#[derive(clap::Args)]
struct DiffArgs {
    /// Recording from before.
    before: PathBuf,
    /// Recording from after.
    after: PathBuf,
    /// Kind of report.
    #[arg(long, value_enum, default_value_t = DiffFormat::Text)]
    format: DiffFormat,
}

#[derive(Clone, Copy, ValueEnum)]
enum DiffFormat {
    /// For people.
    Text,
    /// For programs: `ingero-analyze-diff/1`.
    Json,
    /// For pasting into an issue.
    Markdown,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// For people.
    Text,
    /// For programs: the contract `ingero-analyze/1`.
    Json,
    /// For pasting into an issue.
    Markdown,
}

fn main() -> ExitCode {
    program::run("ingero-analyze", run)
}

fn run(args: Args) -> anyhow::Result<Ending> {
    match (&args.command, &args.file) {
        (Some(Command::Diff(diff)), _) => compare(diff),
        (None, Some(file)) => analyse(file, &args),
        (None, None) => bail!("name a recording; --help says more"),
    }
}

fn colour() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}

/// Columns of the terminal, or as COLUMNS says; 0 where there is none.
fn width() -> usize {
    let said = std::env::var("COLUMNS").ok().and_then(|n| n.trim().parse().ok());
    said.or_else(|| terminal_size::terminal_size_of(std::io::stdout()).map(|(w, _)| usize::from(w.0))).unwrap_or(0)
}

fn print(mut out: String) -> anyhow::Result<()> {
    if !out.ends_with('\n') {
        out.push('\n');
    }
    std::io::stdout().lock().write_all(out.as_bytes()).context("cannot write the report")
}

fn compare(args: &DiffArgs) -> anyhow::Result<Ending> {
    let (before, after) = (Trace::open(&args.before)?, Trace::open(&args.after)?);
    let analyses = [&before, &after].map(|trace| Analysis::new(trace, Window::whole(trace)));
    let [a, b] = &analyses;
    let diff = Diff::new(a, b);
    print(match args.format {
        DiffFormat::Text => diff::text(&diff, colour(), width()),
        DiffFormat::Markdown => diff::markdown(&diff),
        DiffFormat::Json => diff.json().context("cannot write the comparison as JSON")?,
    })?;
    let endings = analyses.iter().map(|a| ending(a.trace, a.repairs.lost_blocks.len()));
    Ok(endings.into_iter().find(|e| !matches!(e, Ending::Done)).unwrap_or(Ending::Done))
}

fn analyse(file: &Path, args: &Args) -> anyhow::Result<Ending> {
    if args.tui {
        ingero_tui::check()?;
    }
    let trace = Trace::open(file)?;
    let page = args.html.as_deref().map(|output| browser::Target::new(file, output)).transpose()?;
    let window = Window::parse(&trace, args.from.as_deref(), args.to.as_deref(), args.since.as_deref())
        .map_err(anyhow::Error::msg)?;
    if args.tui {
        return timeline(file, args, &trace, window);
    }
    let waiting = page.as_ref().map(|_| browser::Target::waiting());
    let analysis = match args.phase {
        None => Analysis::new(&trace, window),
        Some(number) => of_phase(file, &trace, window, number)?,
    };
    drop(waiting);
    check_wall(file, args, analysis.start_unix_ns)?;
    let calling = || analysis.phases.iter().map(|p| analysis.processes.get(p.phase.process).pid).collect();
    check_pids(file, args, &analysis.processes, calling)?;
    let options = report::Options {
        pids: &args.pid,
        per_process: args.per_process,
        colour: false,
        wall: args.wall,
        width: width(),
    };
    if let Some(page) = page {
        page.write(&analysis, &options)?;
        return Ok(ending(&trace, analysis.repairs.lost_blocks.len()));
    }
    let out = match args.format {
        Format::Markdown => report::markdown(&analysis, &options),
        Format::Json => report::json(&analysis, &args.pid).context("cannot write the report as JSON")?,
        Format::Text => report::text(&analysis, &report::Options { colour: colour(), ..options }),
    };
    print(out)?;
    Ok(ending(&trace, analysis.repairs.lost_blocks.len()))
}

/// The analysis of one phase.
fn of_phase<'t>(file: &Path, trace: &'t Trace, window: Window, number: usize) -> anyhow::Result<Analysis<'t>> {
    Analysis::of_phase(trace, window, number).with_context(|| {
        let count = Analysis::new(trace, window).phases.len();
        let known = match count {
            0 => "no CUDA call is in what was read".to_owned(),
            n => format!("there are {n}, from 0 to {}", n - 1),
        };
        format!("no phase {number} in {}: {known}", file.display())
    })
}

fn check_wall(file: &Path, args: &Args, start_unix_ns: Option<u64>) -> anyhow::Result<()> {
    if args.wall && start_unix_ns.is_none() {
        bail!("{} does not know its wall-clock time: leave out --wall", file.display());
    }
    Ok(())
}

/// Whether each process that was asked for is there; `calling` names those with CUDA calls.
fn check_pids(file: &Path, args: &Args, processes: &Processes, calling: impl Fn() -> Vec<u32>) -> anyhow::Result<()> {
    for &pid in &args.pid {
        if processes.with_pid(pid).is_empty() {
            let mut known = calling();
            known.dedup();
            let hint = match known.as_slice() {
                [] => "run without --pid to see which there are".to_owned(),
                pids => format!(
                    "processes with CUDA calls: {}",
                    pids.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
                ),
            };
            bail!("no process {pid} in {}: {hint}", file.display());
        }
    }
    Ok(())
}

fn timeline(file: &Path, args: &Args, trace: &Trace, window: Window) -> anyhow::Result<Ending> {
    let start_unix_ns = ingero_replay::start_unix_ns(trace, window.trace_start_ns);
    check_wall(file, args, start_unix_ns)?;
    check_pids(file, args, &Processes::new(trace), Vec::new)?;
    let shown = match args.phase {
        None => window,
        Some(number) => of_phase(file, trace, window, number)?.window,
    };
    let start_unix_ns = start_unix_ns.filter(|_| args.wall);
    let asked = tui::Asked { file, window: shown, analysed: window, phase: args.phase, pids: &args.pid, start_unix_ns };
    let lost_blocks = tui::show(trace, &asked)?;
    Ok(ending(trace, lost_blocks))
}

/// What has to be said of a report about a file with parts missing.
fn ending(trace: &Trace, lost_blocks: usize) -> Ending {
    let path = trace.path();
    let problem = match (trace.complete(), trace.damage().len() + lost_blocks) {
        (true, 0) => return Ending::Done,
        (false, _) => "the recording was cut off before its end".to_owned(),
        (_, n) => format!("parts that could not be read: {n}"),
    };
    let note = format!("{path}: {problem}; the report is about what is whole, ingero-replay verify {path} says more");
    Ending::Noted { note, status: program::FAILED }
}
