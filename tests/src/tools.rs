//! The programs under test, where they lie and what they owe a user whatever happens.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use crate::process::{Run, run};

/// Packages whose programs are tested.
const PACKAGES: &[&str] = &["ingero-record", "ingero-analyze", "ingero-replay", "ingero-convert", "ingero-mcp"];

/// Folder of Cargo's outputs.
#[must_use]
pub fn target_dir() -> PathBuf {
    Path::new(env!("STANDIN_STABLE")).parent().map(Path::to_path_buf).unwrap_or_default()
}

/// Path of a program under test, `ingero-record` and so on, of the profile that the tests are built in.
///
/// Cargo brings it up to date first, once per test process; `INGERO_BIN_DIR` names a folder of ready programs instead.
#[must_use]
pub fn tool(name: &str) -> PathBuf {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    let path = DIR.get_or_init(programs).join(name);
    assert!(path.exists(), "{} does not exist", path.display());
    path
}

fn programs() -> PathBuf {
    if let Some(dir) = env::var_os("INGERO_BIN_DIR") {
        return PathBuf::from(dir);
    }
    let release = !cfg!(debug_assertions);
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["build", "--quiet", "--bins"])
        .args(PACKAGES.iter().flat_map(|p| ["-p", p]))
        .arg("--target-dir")
        .arg(target_dir());
    if release {
        cargo.arg("--release");
    }
    drop(run(&mut cargo, Duration::from_secs(1200)).success());
    target_dir().join(if release { "release" } else { "debug" })
}

/// Whether this process may load programs into the kernel.
#[must_use]
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Fails the test when it does not run as root.
pub fn require_root() {
    assert!(
        is_root(),
        "this test attaches probes and needs root: run tests/run as root, or sudo -E cargo test -p ingero-tests"
    );
}

/// Runs a program that must refuse what it is given: one line on standard error that says why, an exit code other than 0, nothing
/// on standard output, no panic, no backtrace.
pub fn bad_input(command: &mut Command) -> Run {
    let run = run(command, Duration::from_secs(20));
    assert_ne!(run.code(), 0, "accepted: {run:#?}");
    assert!(run.code() < 128, "died: {run:#?}");
    assert!(!run.stderr.contains("panicked") && !run.stderr.contains("RUST_BACKTRACE"), "panicked: {run:#?}");
    let lines: Vec<_> = run.stderr.lines().filter(|l| !l.trim().is_empty()).collect();
    assert_eq!(lines.len(), 1, "one line was due: {run:#?}");
    assert!(run.stdout.is_empty(), "nothing was due on stdout: {run:#?}");
    run
}
