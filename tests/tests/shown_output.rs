//! What the READMEs show of the programs' output is what the programs print. Needs no root.
//!
//! A block of a README whose first line is `$ ingero-…` is run in the README's folder, by a shell, and the rest of the block is
//! compared with what comes. `UPDATE_FIGURES=1` writes the blocks anew.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ingero_tests::{run, tool};

const FENCE: &str = "```";

fn readmes() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let folders =
        fs::read_dir(root.join("investigations")).unwrap().map(|entry| entry.unwrap().path().join("README.md"));
    let mut all: Vec<PathBuf> = folders.filter(|path| path.exists()).chain([root.join("README.md")]).collect();
    all.sort();
    all
}

/// What a command prints in a folder.
fn printed(folder: &Path, line: &str) -> String {
    let programs = tool("ingero-analyze").parent().unwrap().to_owned();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("bash");
    command.args(["-o", "pipefail", "-c", line]).current_dir(folder).env("PATH", path).env_remove("COLUMNS");
    // head closes the pipe before all is said, which ends a program quietly.
    let done = run(&mut command, Duration::from_secs(300));
    assert!(done.stderr.is_empty(), "{}: {line}: {}", folder.display(), done.stderr);
    done.stdout
}

#[test]
fn what_readmes_show_is_what_the_programs_print() {
    let (mut blocks, mut stale) = (0, Vec::new());
    for path in readmes() {
        let text = fs::read_to_string(&path).unwrap();
        let mut fresh = String::new();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            fresh.push_str(line);
            fresh.push('\n');
            if !line.starts_with(FENCE) {
                continue;
            }
            let block: Vec<&str> = lines.by_ref().take_while(|line| !line.starts_with(FENCE)).collect();
            match block
                .first()
                .and_then(|first| first.strip_prefix("$ "))
                .filter(|command| command.starts_with("ingero-"))
            {
                Some(command) => {
                    blocks += 1;
                    let output = printed(path.parent().unwrap(), command);
                    fresh.push_str(&format!("$ {command}\n{output}"));
                }
                None => block.iter().for_each(|line| fresh.push_str(&format!("{line}\n"))),
            }
            fresh.push_str(FENCE);
            fresh.push('\n');
        }
        if text != fresh {
            stale.push(path.clone());
        }
        if std::env::var_os("UPDATE_FIGURES").is_some() {
            fs::write(&path, &fresh).unwrap();
        }
    }
    let updated = std::env::var_os("UPDATE_FIGURES").is_some();
    assert!(updated || stale.is_empty(), "{stale:?} show what is not printed now; UPDATE_FIGURES=1 writes them anew");
    assert!(blocks >= 8, "only {blocks} blocks with a command were found");
}
