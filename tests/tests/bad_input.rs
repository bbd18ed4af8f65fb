//! Whatever a user gets wrong is answered by one line that says what, and by an exit code other than 0.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ingero_tests::{bad_input, is_root, record, run, tool};
use tempfile::{TempDir, tempdir};

/// The programs that read a recording, each with what it needs beside the file.
const READERS: &[(&str, &[&str], &[&str])] = &[
    ("ingero-analyze", &[], &["--format", "json"]),
    ("ingero-replay", &["dump"], &[]),
    ("ingero-replay", &["inspect"], &[]),
    ("ingero-convert", &[], &["--chrome"]),
];

fn reader((name, before, after): (&str, &[&str], &[&str]), file: &Path) -> Command {
    let mut command = Command::new(tool(name));
    command.args(before).arg(file).args(after);
    command
}

fn written(folder: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, bytes).unwrap();
    path
}

fn record_to(output: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(tool("ingero-record"));
    command.arg("-o").arg(output);
    command
}

#[test]
fn files_that_are_no_recording() {
    let folder = tempdir().unwrap();
    let text = written(&folder, "text.igt", b"This is no recording.\n");
    let empty = written(&folder, "empty.igt", b"");
    let zeros = written(&folder, "zeros.igt", &[0; 65536]);
    let missing = folder.path().join("missing.igt");
    for &tool in READERS {
        for file in [&text, &empty, &zeros, &missing, &folder.path().to_path_buf()] {
            let run = bad_input(&mut reader(tool, file));
            let name = file.file_name().unwrap().to_string_lossy();
            assert!(run.stderr.contains(&*name), "the line names no file: {run:#?}");
        }
    }
}

#[test]
fn files_with_a_broken_first_line() {
    let recording = record(&["loop", "5"]);
    let good = fs::read(&recording.file).unwrap();
    let folder = tempdir().unwrap();
    // Magic and version stand in the first bytes: whichever of them is wrong, nothing may panic; what is whole is read, and what is
    // not is told in a line of its own.
    let mut told = 0;
    for at in 0..16.min(good.len()) {
        let mut bytes = good.clone();
        bytes[at] = 0xee;
        let file = written(&folder, "future.igt", &bytes);
        for &tool in READERS {
            let run = run(&mut reader(tool, &file), Duration::from_secs(20));
            assert!(run.code() < 101, "byte {at}: {run:#?}");
            assert!(!run.stderr.contains("panicked"), "byte {at}: {run:#?}");
            if run.code() != 0 {
                let name = format!("{}: ", tool.0);
                let lines: Vec<&str> = run.stderr.trim().lines().collect();
                assert!(lines.len() <= 2 && lines.iter().all(|l| l.starts_with(&name)), "byte {at}: {run:#?}");
                told += 1;
            }
        }
    }
    assert!(told >= 4 * READERS.len(), "told {told} times");
}

#[test]
fn a_file_cut_anywhere_is_read_as_far_as_it_goes() {
    let recording = record(&["loop", "500"]);
    let good = fs::read(&recording.file).unwrap();
    let folder = tempdir().unwrap();
    let mut events_before = 0;
    for share in 0..=16 {
        let length = good.len() * share / 16;
        let file = written(&folder, "cut.igt", &good[..length]);
        let run = run(&mut reader(READERS[0], &file), Duration::from_secs(20));
        assert!(!run.stderr.contains("panicked") && run.code() < 101, "{length}: {run:#?}");
        // A part is better than nothing, but whoever takes it for the whole must be told.
        assert_eq!(run.code() == 0, length == good.len(), "{length}: {run:#?}");
        assert_eq!(run.stderr.lines().count(), usize::from(length < good.len()), "{length}: {run:#?}");
        if !run.stdout.is_empty() {
            let json: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
            assert_eq!(json["trace"]["complete"], length == good.len(), "{length}");
            let events = json["trace"]["events"].as_u64().unwrap();
            assert!(events >= events_before, "{length}: {events} after {events_before}");
            events_before = events;
        }
    }
    assert!(events_before > 6000);
}

#[test]
fn verify_finds_every_flipped_bit() {
    let recording = record(&["loop", "50"]);
    let good = fs::read(&recording.file).unwrap();
    let verify = |file: &Path| {
        let mut command = Command::new(tool("ingero-replay"));
        command.arg("verify").arg(file);
        run(&mut command, Duration::from_secs(20))
    };
    assert_eq!(verify(&recording.file).code(), 0);
    let folder = tempdir().unwrap();
    for at in (0..good.len()).step_by(good.len() / 64 + 1) {
        let mut bytes = good.clone();
        bytes[at] ^= 0x10;
        let run = verify(&written(&folder, "flipped.igt", &bytes));
        assert!(run.code() != 0 && run.code() < 101, "byte {at}: {run:#?}");
        assert!(!run.stderr.contains("panicked"), "byte {at}: {run:#?}");
    }
}

#[test]
fn times_and_processes_that_make_no_sense() {
    let recording = record(&["loop", "5"]);
    let file = &recording.file;
    for args in [
        &["--from", "yesterday-ish"][..],
        &["--from", "soon"],
        &["--from", "1h"],
        &["--from", "5 parsecs"],
        &["--to", ""],
        &["--since", "-3s"],
        &["--since", "1e999s"],
        &["--from", "2s", "--to", "1s"],
        &["--since", "5s", "--from", "1s"],
        &["--pid", "4000000"],
        &["--pid", "-1"],
        &["--pid", "me"],
        &["--format", "xml"],
    ] {
        let mut command = Command::new(tool("ingero-analyze"));
        command.arg(file).args(args);
        assert_eq!(bad_input(&mut command).code(), 2, "{args:?}");
    }
}

#[test]
fn a_report_that_nobody_takes_is_told_and_one_that_somebody_has_seen_enough_of_is_not() {
    let recording = record(&["loop", "5"]);
    let full = |stdout: &str| {
        let script = format!("\"$0\" \"$1\" {stdout}");
        let mut command = Command::new("sh");
        command.args(["-c", &script]).arg(tool("ingero-analyze")).arg(&recording.file);
        command
    };
    let run_full = bad_input(&mut full(">/dev/full"));
    assert!(run_full.stderr.contains("cannot write the report"), "{run_full:#?}");
    let closed = run(&mut full("--format json | true"), Duration::from_secs(20));
    assert!(closed.stderr.is_empty(), "{closed:#?}");
}

#[test]
fn outputs_that_cannot_be_written() {
    assert!(is_root(), "the recorder's checks differ without root: run as root");
    let folder = tempdir().unwrap();
    let present = written(&folder, "present.igt", b"precious");
    for (output, code) in [
        (present.clone(), 125),
        (folder.path().to_path_buf(), 125),
        (folder.path().join("no/such/folder/run.igt"), 125),
        (PathBuf::from("/proc/run.igt"), 125),
        (PathBuf::from("/dev/null/run.igt"), 125),
    ] {
        let run = bad_input(record_to(&output).args(["--", "true"]));
        assert_eq!(run.code(), code, "{run:#?}");
        assert!(run.stderr.contains(&*output.display().to_string()), "{run:#?}");
    }
    assert_eq!(fs::read(&present).unwrap(), b"precious");
}

/// A disk that is full from the start ends the recorder before the command runs, and leaves no file that is none.
#[test]
fn a_disk_without_any_room() {
    let folder = tempdir().unwrap();
    let script = "mount -t tmpfs -o size=64k tmpfs \"$1\" && cd \"$1\" && head -c 65536 /dev/zero >fill && \
                  \"$0\" -o run.igt -- touch ran; code=$?; \
                  [ -e run.igt ] && echo 'left a file' >&2; [ -e ran ] && echo 'ran the command' >&2; exit $code";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script]).arg(tool("ingero-record")).arg(folder.path());
    let run = bad_input(&mut command);
    assert_eq!(run.code(), 125, "{run:#?}");
    assert!(run.stderr.contains("No space left"), "{run:#?}");
}

#[test]
fn converters_outputs_that_cannot_be_written() {
    let recording = record(&["loop", "5"]);
    let folder = tempdir().unwrap();
    let present = written(&folder, "present", b"precious");
    for format in ["--chrome", "--sqlite"] {
        for output in [
            &present,
            &folder.path().to_path_buf(),
            &folder.path().join("no/such/folder/out"),
            &PathBuf::from("/proc/out"),
        ] {
            let mut command = Command::new(tool("ingero-convert"));
            bad_input(command.arg(&recording.file).arg(format).arg("-o").arg(output));
        }
    }
    assert_eq!(fs::read(&present).unwrap(), b"precious");
}

#[test]
fn recorder_requests_that_make_no_sense() {
    let folder = tempdir().unwrap();
    let output = folder.path().join("run.igt");
    for args in [
        &["--pid", "4000000"][..],
        &["--duration", "soon", "-a"],
        &["--duration", "-1s", "-a"],
        &["--duration", "0s", "-a"],
        &["--pid", "1", "--", "true"],
        &["-a", "--", "true"],
        &["--bogus", "-a"],
        &[],
    ] {
        let run = bad_input(record_to(&output).args(args));
        assert_eq!(run.code(), 125, "{args:?}: {run:#?}");
        assert!(!output.exists(), "{args:?} left a file");
    }
}

#[test]
fn help_and_version_are_there() {
    for name in ["ingero-record", "ingero-analyze", "ingero-replay", "ingero-convert"] {
        for option in ["--help", "--version"] {
            let run = run(Command::new(tool(name)).arg(option), Duration::from_secs(20)).success();
            assert!(!run.stdout.is_empty() && run.stderr.is_empty(), "{run:#?}");
        }
    }
}
