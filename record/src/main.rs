//! `ingero-record`: see the library of the same name.

use std::process::ExitCode;

use clap::Parser;
use ingero_record::{Cli, Failure, OWN_FAILURE, Plan, conclude, record};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => {
            // Help and version are no failures; whatever is one exits as all failures of the recorder do.
            let code = if e.use_stderr() { OWN_FAILURE } else { 0 };
            return match e.print() {
                Ok(()) => ExitCode::from(code),
                Err(_) => ExitCode::from(OWN_FAILURE),
            };
        }
    };
    conclude(Plan::from_cli(cli).map_err(Failure::from).and_then(|plan| record(&plan)))
}
