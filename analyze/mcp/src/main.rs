//! `ingero-mcp`: answers an AI assistant's questions about recordings.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use ingero_mcp::cli;
use ingero_replay::program;

fn main() -> ExitCode {
    program::run("ingero-mcp", cli::run)
}
