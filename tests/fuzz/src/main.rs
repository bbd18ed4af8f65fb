//! `ingero-fuzz [SECONDS [TARGET [NUMBER]]] [--processes N]`: feeds broken and hostile inputs to everything that reads
//! a file, for so long in all, and fails when something panics, crashes, takes too long, takes too much memory or breaks
//! a promise. It needs no other toolchain than the programs do, and no file: its seeds are in it.
//!
//! Inputs are made of real recordings: parts of them are changed, with all CRCs put right, so that what
//! lies behind the CRCs is reached. An input follows from its number, which a finding names:
//! `ingero-fuzz 1 TARGET NUMBER` runs it again, first of all.
//!
//! The inputs are tried in processes of their own, so that a crash or a hang ends none but one of them.

mod dice;
mod memory;
mod overseer;
mod recording;
mod seeds;
mod targets;
mod worker;

use std::process::ExitCode;

/// What was asked for.
struct Asked {
    seconds: u64,
    /// Target, none for all.
    target: Option<String>,
    /// Number of the first input.
    first: Option<u64>,
    processes: u64,
}

const USAGE: &str = "ingero-fuzz [SECONDS [TARGET [NUMBER]]] [--processes N]   (or --list: the names of all targets)";

fn asked(args: &[String]) -> Option<Asked> {
    let mut asked = Asked { seconds: 60, target: None, first: None, processes: 1 };
    let mut args = args.iter();
    let mut place = 0;
    while let Some(arg) = args.next() {
        match (arg.as_str(), place) {
            ("--processes", _) => asked.processes = args.next()?.parse().ok().filter(|&n| n > 0)?,
            (option, _) if option.starts_with('-') => return None,
            (seconds, 0) => asked.seconds = seconds.parse().ok()?,
            (target, 1) => asked.target = Some(target.to_owned()),
            (number, 2) => asked.first = Some(number.parse().ok()?),
            _ => return None,
        }
        place += usize::from(!arg.starts_with('-'));
    }
    Some(asked)
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.first().map(String::as_str) {
        Some("--worker") => worker::main(&args),
        Some("--list") => seeds::Seeds::load().map(|seeds| {
            targets::all(&seeds).iter().for_each(|(name, _)| println!("{name}"));
            true
        }),
        _ => match asked(&args) {
            Some(asked) => overseer::main(&asked),
            None => Err(USAGE.to_owned()),
        },
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::from(2)
        }
    }
}
