//! What can be typed. What it means is worked out by [`crate::commands`], with the file at hand.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Show, describe and check recordings of CUDA calls and scheduler events (.igt files).
#[derive(Debug, Parser)]
#[command(name = "ingero-replay", version, arg_required_else_help = false, max_term_width = 100)]
pub(crate) struct Typed {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Print every event in time order, one a line.
    Dump(DumpArgs),
    /// Describe a file: what it holds, how large each part is, what is missing.
    Inspect(FileArg),
    /// Rewrite a file smaller: the same events, in larger blocks, compressed for as long as it takes.
    Compact(CompactArgs),
    /// Check every byte of a file; exit with 0 only if it is whole and complete.
    Verify(FileArg),
    /// Write a whole and complete file of what can be read of a damaged one; what is lost is
    /// noted in it.
    Repair(RepairArgs),
}

#[derive(Debug, Args)]
pub(crate) struct RepairArgs {
    #[command(flatten)]
    pub(crate) file: FileArg,
    /// Where to write it.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Overwrite a file that is there.
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct FileArg {
    /// The recording.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct CompactArgs {
    #[command(flatten)]
    pub(crate) file: FileArg,
    /// File to write; must not exist yet.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Overwrite the output.
    #[arg(long)]
    pub(crate) force: bool,
    /// No progress bar and no summary.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DumpArgs {
    #[command(flatten)]
    pub(crate) file: FileArg,
    /// Begin here: an offset from the trace's start (12.5s, 300ms, 2m) or a wall-clock time
    /// (2026-03-01T14:06:13Z).
    #[arg(long, value_name = "TIME")]
    pub(crate) from: Option<String>,
    /// End before this time.
    #[arg(long, value_name = "TIME")]
    pub(crate) to: Option<String>,
    /// Only the last part of the trace, so long (5m, 20s).
    #[arg(long, value_name = "DURATION", conflicts_with = "from")]
    pub(crate) since: Option<String>,
    /// Only these kinds of events, by the names that `inspect` shows.
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Only events that name a thread of this process. Can be given several times.
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Vec<u32>,
    /// How to print.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Aligned, for people.
    Text,
    /// One JSON object a line.
    Json,
}
