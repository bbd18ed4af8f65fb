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

    /// Memory between the kernel and the recorder in all, rounded up to a power of two; default: 8 MiB for each CPU,
    /// 256 MiB at most
    #[arg(long, value_name = "SIZE")]
    pub ring_size: Option<String>,

    /// No progress line and no summary
    #[arg(short, long)]
    pub quiet: bool,

    /// Program to run and record, with its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn definition_is_sound() {
        Cli::command().debug_assert();
    }
}
