//! `ingero-convert`: reads the command line, runs one conversion, says what came of it.

#![forbid(unsafe_code)]

mod cli;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use ingero_convert::Error;
use ingero_convert::export::records::Layout;
use ingero_convert::export::{Selection, chrome, folded, parquet, perfetto, records, sqlite};
use ingero_convert::import::{ImportOptions, Imported, ftrace, hosts, ingero, kineto, perfdata};
use ingero_convert::input::{Input, InputKind, Progress};
use ingero_convert::output::{forget_on_signal, write_stream};
use ingero_format::Trace;
use ingero_replay::output::keep;
use ingero_replay::program::{self, Ending, FAILED};

use cli::{Args, Format, Plan, Schema};

fn main() -> ExitCode {
    let watched = forget_on_signal(|| std::process::exit(program::INTERRUPTED.into()));
    if let Err(e) = watched {
        program::say("ingero-convert", &format!("an interrupt may leave a temporary file behind: {e}"));
    }
    program::run("ingero-convert", run)
}

/// Runs the conversion.
fn run(args: Args) -> anyhow::Result<Ending> {
    let args = args.spelled_out().map_err(|problem| anyhow!(problem))?;
    let input = Input::open(&args.input)?;
    std::iter::once(&args.input).chain(&args.merge).for_each(|read| keep(read));
    match args.plan(input.kind()).map_err(|problem| anyhow!(problem))? {
        Plan::Import(output) => {
            let options = import_options(&args);
            let done = match input.kind() {
                InputKind::Database => ingero::import(&input, &output, options)?,
                InputKind::Kineto => kineto::import(&input, &output, options)?,
                InputKind::PerfData => perfdata::import(&input, &output, options)?,
                _ => ftrace::import(&input, &output, options)?,
            };
            tell(&args, &done, &output);
            Ok(match done.damaged {
                0 => Ending::Done,
                _ => Ending::Noted {
                    note: format!(
                        "{} is cut off or damaged; what is whole was imported, and {} says of the rest that it was lost",
                        input.path().display(),
                        output.display()
                    ),
                    status: FAILED,
                },
            })
        }
        Plan::Merge(others, output) => {
            let trace = open(&input)?;
            let done = merge(&args, trace, &others, &output)?;
            tell(&args, &done, &output);
            Ok(match done.damaged {
                0 => Ending::Done,
                n => Ending::Noted {
                    note: format!(
                        "parts of what is merged that could not be read: {n}; what is whole was merged, and {} says of the rest \
                         that it was lost",
                        output.display()
                    ),
                    status: FAILED,
                },
            })
        }
        Plan::Export(format, output) => {
            let trace = open(&input)?;
            let progress = progress(&args, &trace);
            let selection = args
                .range
                .window(&trace)
                .and_then(|window| Selection::new(&trace, window, &args.cut()?))
                .map_err(|problem| anyhow!(problem))?;
            if trace.meta("sampled") == Some("true") && !matches!(format, Format::Sqlite(_) | Format::Parquet) {
                say(
                    &args,
                    "the source kept a sample: its waits, what it noted of the system, and what it counted and did not store are in --sqlite and \
                     --parquet alone (the waits in --folded, too)",
                );
            }
            let (done, damaged) = export(&args, &trace, &selection, format, output.as_deref(), &progress)?;
            let what = output.as_deref().unwrap_or(Path::new("standard output")).display();
            say(&args, &format!("{what}: {done}"));
            Ok(ending(&trace, damaged))
        }
    }
}

fn import_options(args: &Args) -> ImportOptions {
    ImportOptions { force: args.force, keep_going: args.keep_going, progress: !args.quiet }
}

/// Says what an import did.
fn tell(args: &Args, done: &Imported, output: &Path) {
    for note in &done.notes {
        say(args, note);
    }
    for (name, count) in &done.ignored {
        say(args, &format!("{count} {name} events have no place in the format and were left out"));
    }
    let (events, records, unit) = (done.totals.events, done.records, done.unit);
    say(args, &format!("{}: {events} events from {records} {unit}", output.display()));
}

/// Adds other files to a recording.
fn merge(args: &Args, trace: Trace, others: &[PathBuf], output: &Path) -> anyhow::Result<Imported> {
    let inputs = others.iter().map(|other| Input::open(other)).collect::<Result<Vec<_>, _>>()?;
    match &inputs[..] {
        [profile] if profile.kind() == InputKind::Kineto => {
            Ok(kineto::merge(&trace, profile, output, import_options(args))?)
        }
        _ => {
            let mut traces = vec![trace];
            for input in &inputs {
                if input.kind() != InputKind::Igt {
                    let path = input.path().display();
                    return Err(anyhow!("{path}: --merge takes .igt files, or one profile of PyTorch alone"));
                }
                traces.push(open(input)?);
            }
            Ok(hosts::merge(&traces, output, import_options(args))?)
        }
    }
}

/// Writes one format; returns what was written, in words, and how many parts of the trace could not be read.
fn export(
    args: &Args,
    trace: &Trace,
    selection: &Selection,
    format: Format,
    output: Option<&Path>,
    progress: &Progress,
) -> anyhow::Result<(String, u64)> {
    Ok(match format {
        Format::Sqlite(schema) => {
            let output = output.context("a database needs a file")?;
            let done = match schema {
                Schema::Full => sqlite::export(trace, selection, output, args.force, progress)?,
                Schema::Ingero => {
                    let done = sqlite::ingero::export(trace, selection, output, args.force, progress)?;
                    let all = sqlite::ingero::left_out(trace, selection);
                    if !all.is_empty() {
                        let all: Vec<_> = all.iter().map(|(name, rows)| format!("{rows} {name}")).collect();
                        say(args, &format!("left out, for ingero's layout has no place for it: {}", all.join(", ")));
                    }
                    done
                }
            };
            (format!("{} rows", done.rows), done.damaged)
        }
        Format::Folded => {
            let done = write_stream(output, args.force, |out| folded::export(trace, selection, out, progress))?;
            (format!("{} stacks", done.stacks), done.damaged)
        }
        Format::Csv | Format::JsonLines => {
            let layout = if format == Format::Csv { Layout::Csv } else { Layout::JsonLines };
            let done =
                write_stream(output, args.force, |out| records::export(trace, selection, layout, out, progress))?;
            (format!("{} records", done.records), done.damaged)
        }
        Format::Parquet => {
            let folder = output.context("datasets need a folder")?;
            let done = parquet::export(trace, selection, folder, args.force, progress)?;
            (format!("{} rows in {} files, {} bytes", done.rows, done.files, done.bytes), done.damaged)
        }
        Format::Perfetto => {
            let done = write_stream(output, args.force, |out| perfetto::export(trace, selection, out, progress))?;
            say_cut(args, done.cut);
            (
                format!(
                    "{} calls, {} switches, {} wakes, {} arrows",
                    done.calls, done.switches, done.wakes, done.flows
                ),
                done.damaged,
            )
        }
        Format::Chrome => {
            let done = write_stream(output, args.force, |out| chrome::export(trace, selection, out, progress))?;
            say_cut(args, done.cut);
            if let Some(warning) = chrome::inexact(trace, selection) {
                // What is missing later is no less an error for having been asked to be quiet.
                program::say("ingero-convert", &warning);
            }
            (format!("{} calls, {} states, {} wakes", done.calls, done.states, done.flows), done.damaged)
        }
    })
}

/// Tells the person something that is no error.
fn say(args: &Args, text: &str) {
    if !args.quiet {
        program::say("ingero-convert", text);
    }
}

/// Tells of slices that no viewer would have shown.
fn say_cut(args: &Args, cut: u64) {
    if cut > 0 {
        say(args, &format!("{cut} slices overlapped others and were cut"));
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
