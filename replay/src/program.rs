//! How the programs of the toolkit begin and end: the one owner of usage errors, messages and exit
//! statuses.
//!
//! Whatever goes wrong is one line on stderr, `name: what is wrong`, and a status. A reader that
//! closes the pipe early has seen enough: that ends quietly.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::ErrorKind;
use ingero_format::one_line;

/// Status when what was asked for could not be done, or only in part.
pub const FAILED: u8 = 2;
/// Status when the person broke it off, as shells give it for SIGINT.
pub const INTERRUPTED: u8 = 130;

/// How a program ended that could do its work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// All is well.
    Done,
    /// The work is done, but this has to be said of it.
    Noted {
        /// One sentence.
        note: String,
        /// The status.
        status: u8,
    },
}

/// Runs a program: reads its arguments, does its work, says what went wrong.
pub fn run<A: clap::Parser>(name: &str, work: impl FnOnce(A) -> anyhow::Result<Ending>) -> ExitCode {
    let (note, status) = match parse(std::env::args_os()) {
        Ok(args) => match work(args) {
            Ok(Ending::Done) => return ExitCode::SUCCESS,
            Ok(Ending::Noted { note, status }) => (note, status),
            Err(error) if is_closed_pipe(&error) => return ExitCode::SUCCESS,
            Err(error) => (with_causes(&*error), FAILED),
        },
        Err(Usage::Help(error)) => {
            // Nobody is left to tell when this fails.
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        Err(Usage::Wrong(problem)) => (format!("{problem}; see {name} --help"), FAILED),
    };
    say(name, &note);
    ExitCode::from(status)
}

/// Says something to the person. Where nobody can hear it, on a full disk or a closed pipe, it goes unsaid: that is no
/// reason to end otherwise.
pub fn say(name: &str, text: &str) {
    let _ = writeln!(io::stderr(), "{name}: {}", one_line(text));
}

enum Usage {
    Help(clap::Error),
    Wrong(String),
}

fn parse<A: clap::Parser>(args: impl Iterator<Item = OsString>) -> Result<A, Usage> {
    A::try_parse_from(args).map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Usage::Help(error),
        // clap's text goes on with the usage behind an empty line.
        _ => {
            let text = error.render().to_string();
            let problem = text.split("\n\n").next().unwrap_or_default();
            let problem = problem.split_whitespace().collect::<Vec<_>>().join(" ");
            Usage::Wrong(problem.trim_start_matches("error: ").to_owned())
        }
    })
}

/// Whether a program failed because nobody reads its output any more.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let closed = |e: &io::Error| e.kind() == io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| cause.downcast_ref::<io::Error>().is_some_and(closed))
}

/// An error with its causes, each said once: some errors quote their cause themselves.
#[must_use]
pub fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text
}
