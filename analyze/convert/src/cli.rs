//! What was typed, and what it means.

use std::path::{Path, PathBuf};

use clap::{ArgGroup, Parser};
use ingero_convert::input::InputKind;

/// Convert .igt traces to other formats, and other formats to .igt.
///
/// The input's format is told by its content. ftrace text (the trace file of tracefs, or the output
/// of trace-cmd report; plain, .xz, .gz or .zst) becomes an .igt file. An .igt file becomes what one
/// of --chrome and --sqlite names.
#[derive(Debug, Parser)]
#[command(name = "ingero-convert", version, max_term_width = 100)]
#[command(group(ArgGroup::new("format").args(["chrome", "sqlite"])))]
#[command(after_help = "Examples:
  ingero-convert capture.trace.txt.xz -o run.igt
  ingero-convert run.igt --chrome -o run.json.gz    (open it at https://ui.perfetto.dev)
  ingero-convert run.igt --sqlite && sqlite3 run.sqlite 'select * from calls limit 5'")]
pub(crate) struct Args {
    /// File to convert.
    pub(crate) input: PathBuf,
    /// Write a Chrome trace, for https://ui.perfetto.dev; run.json unless -o says otherwise, packed
    /// if the name ends in .gz.
    #[arg(long)]
    pub(crate) chrome: bool,
    /// Write a SQLite database; run.sqlite unless -o says otherwise.
    #[arg(long)]
    pub(crate) sqlite: bool,
    /// File to write; - for standard output (with --chrome).
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Overwrite the output if it exists.
    #[arg(short, long)]
    pub(crate) force: bool,
    /// Show the trace from here on (with --chrome): an offset from its start (12.5s, 300ms, 2m) or a
    /// wall-clock time (2026-03-01T14:06:13Z).
    #[arg(long, value_name = "TIME")]
    pub(crate) from: Option<String>,
    /// Show it until before this time (with --chrome).
    #[arg(long, value_name = "TIME")]
    pub(crate) to: Option<String>,
    /// Show only the last part of it, so long (with --chrome; 5m, 20s).
    #[arg(long, value_name = "DURATION", conflicts_with = "from")]
    pub(crate) since: Option<String>,
    /// Show only this process (with --chrome). Can be given several times.
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Vec<u32>,
    /// Count lines that cannot be read, as losses, instead of giving up at the first.
    #[arg(long)]
    pub(crate) keep_going: bool,
    /// Say nothing but errors.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Import text into this file.
    Import(PathBuf),
    /// Export to a database.
    Sqlite(PathBuf),
    /// Export to Chrome JSON; none is standard output.
    Chrome(Option<PathBuf>),
}

impl Args {
    /// Decides by the input's kind.
    pub(crate) fn plan(&self, kind: InputKind) -> Result<Plan, String> {
        let stdout = self.output.as_deref() == Some(Path::new("-"));
        let input = self.input.display();
        let only_chrome = |what: &str| format!("{what} cannot be written to standard output; name a file with -o");
        let selects = self.from.is_some() || self.to.is_some() || self.since.is_some() || !self.pid.is_empty();
        if selects && !self.chrome {
            return Err("--from, --to, --since and --pid are for --chrome; in a database select with SQL".to_owned());
        }
        match kind {
            InputKind::Text if self.chrome || self.sqlite => Err(format!(
                "{input} is text, which becomes an .igt file; import it first (without --chrome and --sqlite), then convert that"
            )),
            InputKind::Text if stdout => Err(only_chrome("an .igt file")),
            InputKind::Text => Ok(Plan::Import(self.output.clone().unwrap_or_else(|| imported_name(&self.input)))),
            InputKind::Igt if self.keep_going => Err("--keep-going is for imports of text".to_owned()),
            InputKind::Igt if self.sqlite && stdout => Err(only_chrome("a database")),
            InputKind::Igt if self.sqlite => {
                Ok(Plan::Sqlite(self.output.clone().unwrap_or_else(|| self.input.with_extension("sqlite"))))
            }
            InputKind::Igt if self.chrome && stdout => Ok(Plan::Chrome(None)),
            InputKind::Igt if self.chrome => {
                Ok(Plan::Chrome(Some(self.output.clone().unwrap_or_else(|| self.input.with_extension("json")))))
            }
            InputKind::Igt => Err(format!("{input} is an .igt file; say what to make of it: --chrome or --sqlite")),
        }
    }
}

/// `capture.trace.txt.xz` becomes `capture.igt`.
fn imported_name(input: &Path) -> PathBuf {
    let mut name = input.to_owned();
    for ending in ["xz", "gz", "zst", "txt", "trace"] {
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
        args.plan(kind)
    }

    #[test]
    fn what_was_typed_becomes_a_plan() {
        use InputKind::{Igt, Text};
        let path = |p: &str| PathBuf::from(p);
        assert_eq!(plan(&["a/h200.trace.txt.xz"], Text), Ok(Plan::Import(path("a/h200.igt"))));
        assert_eq!(plan(&["trace"], Text), Ok(Plan::Import(path("trace.igt"))));
        assert_eq!(plan(&["v1.2.txt", "-o", "x"], Text), Ok(Plan::Import(path("x"))));
        assert_eq!(plan(&["run.igt", "--sqlite"], Igt), Ok(Plan::Sqlite(path("run.sqlite"))));
        assert_eq!(plan(&["run.igt", "--chrome"], Igt), Ok(Plan::Chrome(Some(path("run.json")))));
        assert_eq!(plan(&["run.igt", "--chrome", "-o", "-"], Igt), Ok(Plan::Chrome(None)));
        for (args, kind) in [
            (&["run.igt"][..], Igt),
            (&["run.igt", "--sqlite", "--chrome"], Igt),
            (&["run.igt", "--sqlite", "-o", "-"], Igt),
            (&["run.igt", "--chrome", "--keep-going"], Igt),
            (&["run.igt", "--sqlite", "--pid", "7"], Igt),
            (&["run.igt", "--chrome", "--from", "1s", "--since", "2s"], Igt),
            (&["t.txt", "--chrome"], Text),
            (&["t.txt", "-o", "-"], Text),
            (&[], Text),
        ] {
            assert!(plan(args, kind).is_err(), "{args:?}");
        }
    }
}
