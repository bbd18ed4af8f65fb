//! `ingero-convert`: reads the command line, runs one conversion, says what came of it.

mod cli;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::anyhow;
use clap::Parser;
use ingero_convert::export::{chrome, sqlite};
use ingero_convert::import::ftrace;
use ingero_convert::input::{Input, Progress};
use ingero_convert::output::PendingFile;
use ingero_convert::{Error, import::ftrace::ImportOptions};
use ingero_format::Trace;

use cli::{Args, Plan};

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(notes) => {
            for note in notes.iter().filter(|_| !args.quiet) {
                eprintln!("ingero-convert: {note}");
            }
            ExitCode::SUCCESS
        }
        // Whoever read the output had enough.
        Err(e) if e.downcast_ref::<Error>().is_some_and(Error::is_broken_pipe) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("ingero-convert: error: {e}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the conversion; hands out what to tell the person.
fn run(args: &Args) -> anyhow::Result<Vec<String>> {
    let input = Input::open(&args.input)?;
    match args.plan(input.kind()).map_err(|problem| anyhow!(problem))? {
        Plan::Import(output) => {
            let options = ImportOptions { force: args.force, keep_going: args.keep_going, progress: !args.quiet };
            let done = ftrace::import(&input, &output, options)?;
            let mut notes = done.notes;
            for (name, count) in &done.ignored {
                notes.push(format!("{count} {name} events have no place in the format and were left out"));
            }
            let (events, lines) = (done.totals.events, done.event_lines);
            notes.push(format!("{}: {events} events from {lines} lines", output.display()));
            Ok(notes)
        }
        Plan::Sqlite(output) => {
            let trace = open(&input)?;
            let done = sqlite::export(&trace, &output, args.force, &progress(args, &trace))?;
            Ok(summary(&trace, done.damaged, format!("{}: {} rows", output.display(), done.rows)))
        }
        Plan::Chrome(output) => {
            let trace = open(&input)?;
            let progress = progress(args, &trace);
            let done = match &output {
                Some(output) => export_chrome(&trace, output, args.force, &progress)?,
                None => chrome::export(&trace, io::stdout().lock(), &progress)?,
            };
            let what = output.as_deref().unwrap_or(Path::new("standard output")).display();
            let said = format!("{what}: {} calls, {} states, {} wakes", done.calls, done.states, done.flows);
            let mut notes = summary(&trace, done.damaged, said);
            if done.cut > 0 {
                notes.insert(0, format!("{} slices overlapped others and were cut", done.cut));
            }
            Ok(notes)
        }
    }
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

fn summary(trace: &Trace, damaged: u64, said: String) -> Vec<String> {
    let mut notes = Vec::new();
    if !trace.complete() {
        notes.push(format!("{} was not finished: what it holds is converted", trace.path()));
    }
    if damaged > 0 {
        notes.push(format!("parts of {} that could not be read: {damaged}; run ingero-replay verify", trace.path()));
    }
    notes.push(said);
    notes
}

/// Writes Chrome JSON to a file, packed if its name says so.
fn export_chrome(trace: &Trace, output: &Path, force: bool, progress: &Progress) -> Result<chrome::Exported, Error> {
    let io = |e| Error::Io { what: format!("writing {}", output.display()), source: e };
    let pending = PendingFile::create(output, force)?;
    let mut out: BufWriter<File> = BufWriter::with_capacity(1 << 18, pending.writer()?);
    let done = if output.extension().is_some_and(|e| e == "gz") {
        let mut packed = flate2::write::GzEncoder::new(&mut out, flate2::Compression::default());
        let done = chrome::export(trace, &mut packed, progress)?;
        packed.finish().map_err(io)?;
        done
    } else {
        chrome::export(trace, &mut out, progress)?
    };
    out.flush().map_err(io)?;
    pending.publish()?;
    Ok(done)
}
