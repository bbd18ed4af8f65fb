//! What was typed, and what it means.

use std::path::{Path, PathBuf};

use clap::{ArgGroup, Parser, ValueEnum};
use ingero_convert::export::Cut;
use ingero_convert::input::InputKind;
use ingero_replay::{Range, parse_duration};

/// Convert .igt traces to other formats, and other formats to .igt.
///
/// The input's format is told by its content. ftrace text (the trace file of tracefs, or the output
/// of trace-cmd report, perf script or bpftrace), JSON of PyTorch's profiler (both plain, .xz, .gz or .zst), perf.data
/// and databases of ingero become an .igt file. An .igt file becomes what one of the formats below says.
#[derive(Debug, Parser)]
#[command(name = "ingero-convert", version, max_term_width = 100)]
#[command(group(ArgGroup::new("format").args([
    "chrome", "perfetto", "sqlite", "parquet", "folded", "csv", "jsonl",
])))]
#[command(after_help = "Examples:
  ingero-convert capture.trace.txt.xz -o run.igt
  ingero-convert pytorch-dataloader-starvation.db -o run.igt
  ingero-convert host.igt --merge kineto.json.gz -o both.igt
  ingero-convert merge rank0.igt rank1.igt rank2.igt -o job.igt
  ingero-convert run.igt --perfetto                 (open it at https://ui.perfetto.dev)
  ingero-convert run.igt --chrome --from 12s --to 15s --pid 4711 --min-duration 10us
  ingero-convert run.igt --folded -o - | flamegraph.pl > run.svg
  ingero-convert run.igt --parquet /lake            (then SQL: spec/fleet.md)
  ingero-convert run.igt --sqlite && sqlite3 run.sqlite 'select * from calls limit 5'")]
pub(crate) struct Args {
    /// File to convert; or the word merge, and the recordings to put into one.
    pub(crate) input: PathBuf,
    /// With merge: the recordings of hosts and ranks, two or more. Needs -o.
    #[arg(value_name = "RECORDING")]
    recordings: Vec<PathBuf>,
    /// Write a Chrome trace, for https://ui.perfetto.dev; run.json unless -o says otherwise, packed
    /// if the name ends in .gz.
    #[arg(long, help_heading = "Formats")]
    pub(crate) chrome: bool,
    /// Write a trace in Perfetto's own format, a small fraction of the JSON; run.pftrace unless -o
    /// says otherwise, packed if the name ends in .gz.
    #[arg(long, help_heading = "Formats")]
    pub(crate) perfetto: bool,
    /// Write a SQLite database; run.sqlite unless -o says otherwise (run.db with --schema ingero).
    #[arg(long, help_heading = "Formats")]
    pub(crate) sqlite: bool,
    /// Add it to the Parquet datasets in this folder, which may hold those of many hosts.
    #[arg(long, value_name = "DIR", help_heading = "Formats")]
    pub(crate) parquet: Option<PathBuf>,
    /// Write folded stacks for flame graphs: nanoseconds by process, thread, calls and state;
    /// run.folded unless -o says otherwise.
    #[arg(long, help_heading = "Formats")]
    pub(crate) folded: bool,
    /// Write calls, states, counters and incidents as CSV, one a line; run.csv unless -o says
    /// otherwise.
    #[arg(long, help_heading = "Formats")]
    pub(crate) csv: bool,
    /// Write the same as JSON objects, one a line; run.jsonl unless -o says otherwise.
    #[arg(long, help_heading = "Formats")]
    pub(crate) jsonl: bool,
    /// Tables of the database (with --sqlite); full unless given.
    #[arg(long, value_enum, help_heading = "Formats")]
    pub(crate) schema: Option<Schema>,
    /// Add this to the input, an .igt file: JSON of PyTorch's profiler of the same run (one at a time; those of other ranks
    /// to what came of it), or a recording of another host or rank (can be given several times). Needs -o.
    #[arg(long, value_name = "FILE")]
    pub(crate) merge: Vec<PathBuf>,
    /// File to write; - for standard output (not with --sqlite and --parquet).
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Overwrite the output if it exists.
    #[arg(short, long)]
    pub(crate) force: bool,
    #[command(flatten, next_help_heading = "Cuts")]
    pub(crate) range: Range,
    /// Only this process. Can be given several times.
    #[arg(long, value_name = "PID", help_heading = "Cuts")]
    pub(crate) pid: Vec<u32>,
    /// Only what these kinds of events tell, by the names that ingero-replay inspect shows: call for
    /// calls, sched_switch for states of threads, sched_waking for wakes, system for counters.
    #[arg(long, value_name = "KIND", value_delimiter = ',', help_heading = "Cuts")]
    pub(crate) only: Vec<String>,
    /// Only calls and states that lasted so long (10us, 1ms).
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, help_heading = "Cuts")]
    pub(crate) min_duration: Option<String>,
    /// Count lines and rows that cannot be read, as losses, instead of giving up at the first.
    #[arg(long)]
    pub(crate) keep_going: bool,
    /// Say nothing but errors, and show no progress.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// Tables of a database.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Schema {
    /// Everything that the trace holds and what follows from it, as spec/sqlite.md describes it.
    #[default]
    Full,
    /// The layout of ingero's own databases, version 0.9, for its readers.
    Ingero,
}

/// What an .igt file becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Chrome,
    Perfetto,
    Sqlite(Schema),
    Parquet,
    Folded,
    Csv,
    JsonLines,
}

impl Format {
    /// Ending of the name that the output gets unless another is given.
    fn extension(self) -> &'static str {
        match self {
            Self::Chrome => "json",
            Self::Perfetto => "pftrace",
            Self::Sqlite(Schema::Full) => "sqlite",
            Self::Sqlite(Schema::Ingero) => "db",
            Self::Parquet => "",
            Self::Folded => "folded",
            Self::Csv => "csv",
            Self::JsonLines => "jsonl",
        }
    }

    /// What cannot go through a pipe, in words.
    fn unpipeable(self) -> Option<&'static str> {
        match self {
            Self::Chrome | Self::Perfetto | Self::Folded | Self::Csv | Self::JsonLines => None,
            Self::Sqlite(_) => Some("a database"),
            Self::Parquet => Some("a folder of datasets"),
        }
    }
}

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Import into this file.
    Import(PathBuf),
    /// Merge these with the input, into this file.
    Merge(Vec<PathBuf>, PathBuf),
    /// Export to a file; none is standard output.
    Export(Format, Option<PathBuf>),
}

impl Args {
    /// Decides by the input's kind.
    pub(crate) fn plan(&self, kind: InputKind) -> Result<Plan, String> {
        let stdout = self.output.as_deref() == Some(Path::new("-"));
        let input = self.input.display();
        let unpipeable = |what: &str| Err(format!("{what} cannot be written to standard output; name a file with -o"));
        if self.schema.is_some() && !self.sqlite {
            return Err("--schema is for --sqlite".to_owned());
        }
        match (kind, self.format()) {
            (InputKind::Igt, Some(_)) if !self.merge.is_empty() => {
                Err("--merge makes an .igt file; convert that afterwards".to_owned())
            }
            (InputKind::Igt, None) if !self.merge.is_empty() => match &self.output {
                _ if self.is_cut() => Err("--merge takes whole files: leave the cuts out".to_owned()),
                _ if stdout => unpipeable("an .igt file"),
                Some(output) => Ok(Plan::Merge(self.merge.clone(), output.clone())),
                None => Err("--merge makes a new .igt file; name it with -o".to_owned()),
            },
            (InputKind::Igt, _) if self.keep_going => Err("--keep-going is for imports".to_owned()),
            (InputKind::Igt, None) => Err(format!(
                "{input} is an .igt file; say what to make of it: --perfetto, --chrome, --sqlite, --parquet DIR, --folded, --csv or --jsonl"
            )),
            (InputKind::Igt, Some(Format::Parquet)) if self.output.is_some() => {
                Err("--parquet names the folder itself; leave -o away".to_owned())
            }
            (InputKind::Igt, Some(Format::Parquet)) if self.parquet.as_deref() == Some(Path::new("-")) => {
                Err("a folder of datasets cannot be written to standard output; name a folder with --parquet"
                    .to_owned())
            }
            (InputKind::Igt, Some(Format::Parquet)) => Ok(Plan::Export(Format::Parquet, self.parquet.clone())),
            (InputKind::Igt, Some(format)) => match (stdout, format.unpipeable()) {
                (true, Some(what)) => unpipeable(what),
                (true, None) => Ok(Plan::Export(format, None)),
                (false, _) => {
                    let beside = || self.input.with_extension(format.extension());
                    Ok(Plan::Export(format, Some(self.output.clone().unwrap_or_else(beside))))
                }
            },
            // Everything else becomes an .igt file.
            (_, Some(_)) => {
                Err(format!("{input} becomes an .igt file; import it first (without a format), then convert that"))
            }
            (_, None) if !self.merge.is_empty() => {
                Err(format!("--merge adds to an .igt file, which {input} is not: import it first"))
            }
            (_, None) if self.is_cut() => {
                Err("--from, --to, --since, --pid, --only and --min-duration are for .igt files".to_owned())
            }
            (_, None) if stdout => unpipeable("an .igt file"),
            (_, None) => Ok(Plan::Import(self.output.clone().unwrap_or_else(|| imported_name(&self.input)))),
        }
    }

    /// With `merge FIRST OTHER…` written as FIRST and what is merged into it.
    pub(crate) fn spelled_out(mut self) -> Result<Self, String> {
        if self.recordings.is_empty() {
            return Ok(self);
        }
        if self.input != Path::new("merge") {
            let (first, second) = (self.input.display(), self.recordings.first().unwrap_or(&self.input).display());
            return Err(format!(
                "one file at a time; to put recordings into one: ingero-convert merge {first} {second} -o all.igt"
            ));
        }
        self.input = self.recordings.remove(0);
        self.merge.splice(..0, std::mem::take(&mut self.recordings));
        if self.merge.is_empty() {
            return Err(format!("merge takes two recordings or more, and {} is one", self.input.display()));
        }
        Ok(self)
    }

    /// The one that was asked for.
    fn format(&self) -> Option<Format> {
        let formats = [
            (self.chrome, Format::Chrome),
            (self.perfetto, Format::Perfetto),
            (self.sqlite, Format::Sqlite(self.schema.unwrap_or_default())),
            (self.parquet.is_some(), Format::Parquet),
            (self.folded, Format::Folded),
            (self.csv, Format::Csv),
            (self.jsonl, Format::JsonLines),
        ];
        formats.into_iter().find(|(asked, _)| *asked).map(|(_, format)| format)
    }

    fn is_cut(&self) -> bool {
        self.range.is_given() || !self.pid.is_empty() || !self.only.is_empty() || self.min_duration.is_some()
    }

    /// What to leave out, beside the range.
    pub(crate) fn cut(&self) -> Result<Cut, String> {
        let shortest = self.min_duration.as_deref().map(parse_duration).transpose();
        let min_duration_ns = shortest.map_err(|e| format!("--min-duration: {e}"))?.unwrap_or(0);
        Ok(Cut { pids: self.pid.clone(), only: self.only.clone(), min_duration_ns })
    }
}

/// `capture.trace.txt.xz` becomes `capture.igt`.
fn imported_name(input: &Path) -> PathBuf {
    let mut name = input.to_owned();
    for ending in ["xz", "gz", "zst", "txt", "trace", "db", "sqlite", "json", "data"] {
        if name.extension().is_some_and(|e| e == ending) && name.file_stem().is_some() {
            name.set_extension("");
        }
    }
    let mut file = name.file_name().unwrap_or_default().to_owned();
    file.push(".igt");
    name.with_file_name(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(args: &[&str], kind: InputKind) -> Result<Plan, String> {
        let args = Args::try_parse_from([&["ingero-convert"], args].concat()).map_err(|e| e.to_string())?;
        let args = args.spelled_out()?;
        args.cut()?;
        args.plan(kind)
    }

    #[test]
    fn what_was_typed_becomes_a_plan() {
        use InputKind::{Database, Igt, Kineto, Text};
        let path = |p: &str| PathBuf::from(p);
        assert_eq!(plan(&["a/h200.trace.txt.xz"], Text), Ok(Plan::Import(path("a/h200.igt"))));
        assert_eq!(plan(&["trace"], Text), Ok(Plan::Import(path("trace.igt"))));
        assert_eq!(plan(&["v1.2.txt", "-o", "x"], Text), Ok(Plan::Import(path("x"))));
        assert_eq!(plan(&["a/old.db"], Database), Ok(Plan::Import(path("a/old.igt"))));
        assert_eq!(plan(&["p/kineto.json.gz"], Kineto), Ok(Plan::Import(path("p/kineto.igt"))));
        let merge = Ok(Plan::Merge(vec![path("k.json")], path("both.igt")));
        assert_eq!(plan(&["run.igt", "--merge", "k.json", "-o", "both.igt"], Igt), merge);
        let merge = Ok(Plan::Merge(vec![path("b.igt"), path("c.igt"), path("d.igt")], path("all.igt")));
        assert_eq!(plan(&["merge", "a.igt", "b.igt", "c.igt", "--merge", "d.igt", "-o", "all.igt"], Igt), merge);
        // A file may have that name.
        assert_eq!(plan(&["merge"], Text), Ok(Plan::Import(path("merge.igt"))));
        let export = |args: &[&str]| match plan(&[&["run.igt"], args].concat(), Igt) {
            Ok(Plan::Export(format, output)) => (format, output),
            other => panic!("{args:?}: {other:?}"),
        };
        assert_eq!(export(&["--sqlite"]), (Format::Sqlite(Schema::Full), Some(path("run.sqlite"))));
        assert_eq!(export(&["--sqlite", "--schema", "ingero"]), (Format::Sqlite(Schema::Ingero), Some(path("run.db"))));
        assert_eq!(export(&["--chrome", "--pid", "7"]), (Format::Chrome, Some(path("run.json"))));
        assert_eq!(export(&["--parquet", "lake"]), (Format::Parquet, Some(path("lake"))));
        assert_eq!(export(&["--chrome", "-o", "-"]), (Format::Chrome, None));
        for (args, kind) in [
            (&["run.igt", "--merge", "k.json"][..], Igt),
            (&["run.igt", "--merge", "k.json", "-o", "-"], Igt),
            (&["run.igt", "--merge", "k.json", "-o", "x", "--chrome"], Igt),
            (&["run.igt", "--merge", "k.json", "-o", "x", "--pid", "1"], Igt),
            (&["a.txt", "--merge", "k.json", "-o", "x"], Text),
            (&["merge", "a.igt", "b.igt"], Igt),
            (&["merge", "a.igt", "-o", "x"], Igt),
            (&["a.igt", "b.igt", "-o", "x"], Igt),
            (&["old.db", "--sqlite"], Database),
            (&["run.igt"][..], Igt),
            (&["run.igt", "--sqlite", "--chrome"], Igt),
            (&["run.igt", "--sqlite", "-o", "-"], Igt),
            (&["run.igt", "--parquet", "lake", "-o", "x"], Igt),
            (&["run.igt", "--parquet", "-"], Igt),
            (&["run.igt", "--chrome", "--keep-going"], Igt),
            (&["run.igt", "--chrome", "--schema", "ingero"], Igt),
            (&["run.igt", "--chrome", "--min-duration", "soon"], Igt),
            (&["run.igt", "--chrome", "--from", "1s", "--since", "2s"], Igt),
            (&["t.txt", "--chrome"], Text),
            (&["t.txt", "--pid", "7"], Text),
            (&["t.txt", "-o", "-"], Text),
            (&[], Text),
        ] {
            assert!(plan(args, kind).is_err(), "{args:?}");
        }
    }
}
