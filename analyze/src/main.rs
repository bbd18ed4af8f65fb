//! `ingero-analyze`: what a GPU waited for.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Parser, ValueEnum};
use ingero_analyze::{Analysis, report};
use ingero_format::Trace;
use ingero_replay::Window;
use ingero_replay::program::{self, Ending};

/// Say what a GPU waited for.
///
/// Reads a recording and reports, for each process with CUDA calls, how much of the time its GPU was
/// fed, what the rest of the time went to, and who took it.
///
/// Exits with 0 when the whole recording was read, with 2 when nothing or only a part of it could be.
#[derive(Parser)]
#[command(
    name = "ingero-analyze",
    version,
    max_term_width = 100,
    after_help = "Examples:
  ingero-analyze run.igt
  ingero-analyze run.igt --per-process --since 30s
  ingero-analyze run.igt --from 12s --to 15s --pid 4711 --format json"
)]
struct Args {
    /// Recording to read.
    file: std::path::PathBuf,
    /// Show each process in a section of its own.
    #[arg(long)]
    per_process: bool,
    /// Leave out what was before this time: an offset from the start (12.5s) or a wall-clock time
    /// (2026-03-01T14:06:13Z).
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Leave out what came from this time on.
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// Only the last stretch of the recording, such as 5m.
    #[arg(long, value_name = "DURATION", conflicts_with = "from")]
    since: Option<String>,
    /// Only this process; may be given several times.
    #[arg(long, value_name = "PID")]
    pid: Vec<u32>,
    /// Kind of report.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// For people.
    Text,
    /// For programs: the contract `ingero-analyze/1`.
    Json,
}

fn main() -> ExitCode {
    program::run("ingero-analyze", run)
}

fn run(args: Args) -> anyhow::Result<Ending> {
    let trace = Trace::open(&args.file)?;
    let window = Window::parse(&trace, args.from.as_deref(), args.to.as_deref(), args.since.as_deref())
        .map_err(anyhow::Error::msg)?;
    let analysis = Analysis::new(&trace, window);
    for &pid in &args.pid {
        if analysis.processes.with_pid(pid).is_empty() {
            let mut known: Vec<u32> =
                analysis.phases.iter().map(|p| analysis.processes.get(p.phase.process).pid).collect();
            known.dedup();
            let hint = match known.as_slice() {
                [] => "run without --pid to see which there are".to_owned(),
                pids => format!(
                    "processes with CUDA calls: {}",
                    pids.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
                ),
            };
            bail!("no process {pid} in {}: {hint}", args.file.display());
        }
    }
    let mut out = match args.format {
        Format::Json => report::json(&analysis, &args.pid).context("cannot write the report as JSON")?,
        Format::Text => {
            let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            report::text(&analysis, &args.pid, args.per_process, colour)
        }
    };
    if !out.ends_with('\n') {
        out.push('\n');
    }
    std::io::stdout().lock().write_all(out.as_bytes()).context("cannot write the report")?;
    Ok(ending(&trace, analysis.repairs.lost_blocks.len()))
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
