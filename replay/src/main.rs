//! `ingero-replay`: shows, describes and checks a recording.

#![forbid(unsafe_code)]

mod args;
mod commands;

use std::process::ExitCode;

use ingero_replay::program;

fn main() -> ExitCode {
    program::run("ingero-replay", commands::run)
}
