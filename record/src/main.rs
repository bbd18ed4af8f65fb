//! `ingero-record`: see the library of the same name.

use std::process::ExitCode;

use clap::Parser;
use ingero_record::{Cli, Failure, OWN_FAILURE, Plan, conclude, record};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) if e.use_stderr() => return conclude(Err(Failure::usage(&e.render().to_string()))),
        // Help and version are no failures.
        Err(e) => return ExitCode::from(if e.print().is_ok() { 0 } else { OWN_FAILURE }),
    };
    conclude(Plan::from_cli(cli).map_err(Failure::from).and_then(|plan| record(&plan)))
}
