//! `ingero-record`: see the library of the same name.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;
use clap::error::Error;
use ingero_record::{CheckCli, Cli, Failure, OWN_FAILURE, Plan, check, conclude, record};

fn main() -> ExitCode {
    let mut words: Vec<OsString> = std::env::args_os().collect();
    if words.get(1).is_some_and(|word| word == "check") {
        words.remove(1);
        return match CheckCli::try_parse_from(words) {
            Ok(CheckCli {}) => check::run(),
            Err(e) => refuse(&e),
        };
    }
    match Cli::try_parse_from(words) {
        Ok(cli) => conclude(Plan::from_cli(cli).map_err(Failure::from).and_then(|plan| record(&plan))),
        Err(e) => refuse(&e),
    }
}

fn refuse(e: &Error) -> ExitCode {
    if e.use_stderr() {
        return conclude(Err(Failure::usage(&e.render().to_string())));
    }
    // Help and version are no failures.
    ExitCode::from(if e.print().is_ok() { 0 } else { OWN_FAILURE })
}
