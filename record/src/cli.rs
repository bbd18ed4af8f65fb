//! What was typed, before anyone thinks about what it means.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Parser;

/// Record what CUDA libraries and the kernel's scheduler do, into an .igt file.
///
/// Exactly one of COMMAND, --pid and --all says what to record. Context switches, wakeups and process
/// life are recorded of the whole machine, since the cause of a wait is often elsewhere; CUDA calls and page
/// allocations only of what was asked for and its descendants.
///
/// With COMMAND, recording ends when the command's main process ends, even where descendants outlive it, and
/// the exit code is the command's own (128+n when signal n killed it). The recorder's own failures exit with
/// 125, a command that cannot be executed with 126, one that is not found with 127.
#[derive(Debug, Parser)]
#[command(
    name = "ingero-record",
    version,
    max_term_width = 100,
    after_help = "Examples:
  ingero-record -o run.igt -- python train.py
  ingero-record -o run.igt --pid 4711 --duration 60s
  ingero-record -o run.igt --all --duration 5m
  ingero-record -o slow.igt --pid 4711 --flight 30s --trigger-call 50ms
  ingero-record check                                  can this machine record?

Afterwards: ingero-analyze run.igt"
)]
pub struct Cli {
    /// File to write; must not exist yet
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,

    /// Overwrite FILE
    #[arg(long)]
    pub force: bool,

    /// Stop after this time: 500ms, 60s, 5m, 1h; a command goes on without the recorder
    #[arg(short, long, value_name = "TIME")]
    pub duration: Option<String>,

    /// Record a running process and its descendants; may be given several times
    #[arg(short, long = "pid", value_name = "PID", value_delimiter = ',')]
    pub pids: Vec<String>,

    /// Record every process
    #[arg(short, long)]
    pub all: bool,

    /// Leave command lines out of the file: they may hold secrets
    #[arg(long)]
    pub no_args: bool,

    /// Record these sources alone: sched_switch, call, mm_page_alloc, … (another name lists all)
    #[arg(long, value_name = "KIND", value_delimiter = ',', help_heading = "What to record")]
    pub only: Vec<String>,

    /// Leave these sources out
    #[arg(long = "no", value_name = "KIND", value_delimiter = ',', help_heading = "What to record")]
    pub without: Vec<String>,

    /// Probe the functions of these layers alone: runtime, driver, …
    #[arg(long, value_name = "LAYER", value_delimiter = ',', help_heading = "What to record")]
    pub layers: Vec<String>,

    /// Keep the last TIME in memory; written to FILE at the end, and to FILE-0001, FILE-0002, … on SIGUSR1 and on triggers
    #[arg(long, value_name = "TIME", help_heading = "What to keep")]
    pub flight: Option<String>,

    /// Memory for that, past which the oldest goes early; default: 256MiB
    #[arg(long, value_name = "SIZE", help_heading = "What to keep")]
    pub flight_size: Option<String>,

    /// With --flight: write when a call took TIME or longer
    #[arg(long, value_name = "TIME", help_heading = "What to keep")]
    pub trigger_call: Option<String>,

    /// With --flight: write when a recorded process ends
    #[arg(long, help_heading = "What to keep")]
    pub trigger_exit: bool,

    /// With --flight: write when a recorded process ends by a signal or with a code other than 0
    #[arg(long, help_heading = "What to keep")]
    pub trigger_failure: bool,

    /// Go on in a new file at this size or after this time: 1GiB, 5m. FILE run.igt becomes run-0001.igt, run-0002.igt, …
    #[arg(long, value_name = "SIZE|TIME", help_heading = "What to keep")]
    pub split: Option<String>,

    /// Stop recording before the file, or all parts together, take more than this; a command goes on
    #[arg(long, value_name = "SIZE", help_heading = "What to keep")]
    pub max_size: Option<String>,

    /// Probe the returns of functions: always, never, or as a trial at the start shows that this kernel's return probes are
    /// safe for programs in a sandbox (auto)
    #[arg(long, value_name = "WHEN", default_value = "auto", help_heading = "What to record")]
    pub returns: String,

    /// Do not stop the programs that COMMAND starts until their libraries are probed (about 1 ms, each program once)
    #[arg(long, help_heading = "What to record")]
    pub no_hold: bool,

    /// Probe each function by a link of its own, as on kernels before 6.6: for tests
    #[arg(long, hide = true)]
    pub single_links: bool,

    /// Under sudo: run COMMAND as the user who called it, who then owns FILE
    #[arg(short, long)]
    pub user: bool,

    /// Memory between the kernel and the recorder in all, rounded up to a power of two; default: 8 MiB for each CPU,
    /// 256 MiB at most
    #[arg(long, value_name = "SIZE")]
    pub ring_size: Option<String>,

    /// Record each line that anyone appends to FILE as a mark (an epoch, a batch). COMMAND finds the name of such a file in
    /// $INGERO_MARKS, with or without this option: echo "epoch 3" >> "$INGERO_MARKS"
    #[arg(long, value_name = "FILE")]
    pub marks: Option<PathBuf>,

    /// No progress line and no summary
    #[arg(short, long)]
    pub quiet: bool,

    /// Program to run and record, with its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// Say, line by line, whether this machine can record, and what to do if not.
///
/// The exit code is 0 if it can, 1 if not.
#[derive(Debug, Parser)]
#[command(name = "ingero-record check", bin_name = "ingero-record check", version, max_term_width = 100)]
pub struct CheckCli {}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn definition_is_sound() {
        Cli::command().debug_assert();
    }
}
