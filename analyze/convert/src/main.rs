//! `ingero-convert`: reads the command line, runs one conversion, says what came of it.

#![forbid(unsafe_code)]

mod cli;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::anyhow;
use ingero_convert::export::{chrome, chrome::Selection, sqlite};
use ingero_convert::import::ftrace;
use ingero_convert::input::{Input, Progress};
use ingero_convert::output::PendingFile;
use ingero_convert::{Error, import::ftrace::ImportOptions};
use ingero_format::Trace;
use ingero_replay::Window;
use ingero_replay::program::{self, Ending, FAILED};

use cli::{Args, Plan};

fn main() -> ExitCode {
    program::run("ingero-convert", run)
}

/// Runs the conversion.
fn run(args: Args) -> anyhow::Result<Ending> {
    let input = Input::open(&args.input)?;
    match args.plan(input.kind()).map_err(|problem| anyhow!(problem))? {
        Plan::Import(output) => {
            let options = ImportOptions { force: args.force, keep_going: args.keep_going, progress: !args.quiet };
            let done = ftrace::import(&input, &output, options)?;
            for note in &done.notes {
                say(&args, note);
            }
            for (name, count) in &done.ignored {
                say(&args, &format!("{count} {name} events have no place in the format and were left out"));
            }
            let (events, lines) = (done.totals.events, done.event_lines);
            say(&args, &format!("{}: {events} events from {lines} lines", output.display()));
            Ok(Ending::Done)
        }
        Plan::Sqlite(output) => {
            let trace = open(&input)?;
            let done = sqlite::export(&trace, &output, args.force, &progress(&args, &trace))?;
            say(&args, &format!("{}: {} rows", output.display(), done.rows));
            Ok(ending(&trace, done.damaged))
        }
        Plan::Chrome(output) => {
            let trace = open(&input)?;
            let progress = progress(&args, &trace);
            let (from, to, since) = (args.from.as_deref(), args.to.as_deref(), args.since.as_deref());
            let selection = Window::parse(&trace, from, to, since)
                .and_then(|window| Selection::new(&trace, window, &args.pid))
                .map_err(|problem| anyhow!(problem))?;
            let done = match &output {
                Some(output) => export_chrome(&trace, &selection, output, args.force, &progress)?,
                None => chrome::export(&trace, &selection, io::stdout().lock(), &progress)?,
            };
            if done.cut > 0 {
                say(&args, &format!("{} slices overlapped others and were cut", done.cut));
            }
            let what = output.as_deref().unwrap_or(Path::new("standard output")).display();
            say(&args, &format!("{what}: {} calls, {} states, {} wakes", done.calls, done.states, done.flows));
            Ok(ending(&trace, done.damaged))
        }
    }
}

/// Tells the person something that is no error.
fn say(args: &Args, text: &str) {
    if !args.quiet {
        program::say("ingero-convert", text);
    }
}

/// What has to be said of output that was made of a file with parts missing.
fn ending(trace: &Trace, damaged: u64) -> Ending {
    let path = trace.path();
    let problem = match (trace.complete(), damaged) {
        (true, 0) => return Ending::Done,
        (false, 0) => "the recording was cut off before its end".to_owned(),
        (_, n) => format!("parts that could not be read: {n}"),
    };
    let note = format!("{path}: {problem}; what is whole was converted, ingero-replay verify {path} says more");
    Ending::Noted { note, status: FAILED }
}

fn open(input: &Input) -> Result<Trace, Error> {
    Trace::open(input.path()).map_err(|source| Error::Trace { path: input.path().to_owned(), source })
}

fn progress(args: &Args, trace: &Trace) -> Progress {
    if args.quiet {
        return Progress::none();
    }
    Progress::count("converting", trace.blocks().iter().map(|b| u64::from(b.header.rows)).sum())
}

/// Writes Chrome JSON to a file, packed if its name says so.
fn export_chrome(
    trace: &Trace,
    selection: &Selection,
    output: &Path,
    force: bool,
    progress: &Progress,
) -> Result<chrome::Exported, Error> {
    let io = |e| Error::Io { what: format!("writing {}", output.display()), source: e };
    let pending = PendingFile::create(output, force)?;
    let mut out: BufWriter<File> = BufWriter::with_capacity(1 << 18, pending.writer()?);
    let done = if output.extension().is_some_and(|e| e == "gz") {
        let mut packed = flate2::write::GzEncoder::new(&mut out, flate2::Compression::default());
        let done = chrome::export(trace, selection, &mut packed, progress)?;
        packed.finish().map_err(io)?;
        done
    } else {
        chrome::export(trace, selection, &mut out, progress)?
    };
    out.flush().map_err(io)?;
    pending.publish()?;
    Ok(done)
}
