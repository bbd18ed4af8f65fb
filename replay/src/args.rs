//! What can be typed. What it means is worked out by [`crate::commands`], with the file at hand.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use ingero_replay::Range;

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
    /// Print events as they happened: at the pace of the recording, or faster or slower.
    ///
    /// In a terminal it takes commands while it plays, each ended by Enter: nothing pauses and goes
    /// on, 12.5s or a wall-clock time goes there, +5s and -5s go ahead and back, x2 sets the speed,
    /// q ends.
    Play(PlayArgs),
    /// Show one moment: the state of every thread and CPU, and why each waiting thread waits.
    At(AtArgs),
    /// Describe a file: what it holds, how large each part is, what is missing.
    Inspect(InspectArgs),
    /// Rewrite a file smaller: the same events, in larger blocks, compressed for as long as it takes.
    Compact(CompactArgs),
    /// Check every byte of a file; exit with 0 only if it is whole and complete.
    Verify(FileArg),
    /// Write a whole and complete file of what can be read of a damaged one; what is lost is
    /// noted in it.
    Repair(RepairArgs),
}

#[derive(Debug, Args)]
pub(crate) struct PlayArgs {
    #[command(flatten)]
    pub(crate) file: FileArg,
    /// Begin here: an offset from the trace's start (12.5s, 300ms, 2m) or a wall-clock time
    /// (2026-03-01T14:06:13Z).
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) at: Option<String>,
    /// End before this time.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) to: Option<String>,
    /// How many times as fast as it happened: 0.1 for a tenth of the speed, 100 for a hundredfold.
    #[arg(long, value_name = "FACTOR", allow_hyphen_values = true, default_value = "1")]
    pub(crate) speed: String,
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

#[derive(Debug, Args)]
pub(crate) struct AtArgs {
    #[command(flatten)]
    pub(crate) file: FileArg,
    /// The moment: an offset from the trace's start (12.5s, 300ms, 2m) or a wall-clock time
    /// (2026-03-01T14:06:13Z).
    #[arg(value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) time: String,
    /// Only threads of this process. Can be given several times.
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Vec<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    #[command(flatten)]
    pub(crate) file: FileArg,
    /// List every chunk too: where it is, what it holds, of which time.
    #[arg(long)]
    pub(crate) chunks: bool,
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
    /// File to write; must not exist yet. - for standard output.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Overwrite the output.
    #[arg(long)]
    pub(crate) force: bool,
    /// Leave these kinds of events out, by the names that `inspect` shows: a smaller file that says what it lacks.
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub(crate) no: Vec<String>,
    /// No progress bar and no summary.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DumpArgs {
    #[command(flatten)]
    pub(crate) file: FileArg,
    #[command(flatten)]
    pub(crate) range: Range,
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
