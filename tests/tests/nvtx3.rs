//! NVTX 3, which is compiled into the program: what it was called with is what the file says.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ingero_format::Trace;
use ingero_format::catalog::{Body, END_RETURNED, MARKED_BY_NVTX, RANGE_PUSHED, RANGE_STARTED};
use ingero_replay::Merge;
use ingero_tests::{Recording, nvtx_headers, record_with, run};

/// The program, built with NVIDIA's headers.
fn program(folder: &Path) -> PathBuf {
    let built = folder.join("uses-nvtx3");
    let mut cc = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    cc.args(["-std=gnu11", "-O1", "-g1", "-I"]).arg(nvtx_headers()).arg("-o").arg(&built);
    cc.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/standin/nvtx3.c")).arg("-ldl");
    let built_by = run(&mut cc, Duration::from_secs(60));
    assert!(built_by.status.success(), "{}", built_by.stderr);
    built
}

struct Seen {
    /// Name, form and end, in the order of their begins.
    ranges: Vec<(Option<String>, u64, u64)>,
    marks: Vec<Option<String>>,
    trace: Trace,
}

fn seen(recording: &Recording) -> Seen {
    let trace = Trace::open(&recording.file).unwrap();
    let (mut ranges, mut marks) = (vec![], vec![]);
    for event in Merge::new(&trace) {
        let text = |id| trace.string(id).to_owned();
        match event.body {
            Body::Range(row) => {
                assert!(row.dur_ns.is_some(), "{row:?}");
                ranges.push((row.name.map(text), row.form, row.end));
            }
            Body::Mark(row) if row.source == MARKED_BY_NVTX => marks.push(row.text.map(text)),
            _ => {}
        }
    }
    Seen { ranges, marks, trace }
}

#[test]
fn ranges_and_marks_of_every_form_are_there_once_with_their_texts() {
    let folder = tempfile::tempdir().unwrap();
    let recording = record_with(&[], &[program(folder.path()).display().to_string()], &[]);
    assert_eq!(recording.run.code(), 0, "{}", recording.run.stderr);
    let seen = seen(&recording);
    let range = |name: &str, form| (Some(name.to_owned()), form, END_RETURNED);
    let due = [
        range("plain", RANGE_PUSHED),
        range("w\u{ef}de", RANGE_PUSHED),
        range("in a structure", RANGE_PUSHED),
        range("registered", RANGE_PUSHED),
        range("registered \u{1f680}", RANGE_PUSHED),
        range("started", RANGE_STARTED),
        range("started \u{fc}", RANGE_STARTED),
        range("w", RANGE_STARTED),
        range("started \u{fc}", RANGE_STARTED),
    ];
    assert_eq!(seen.ranges, due);
    let cut = "0123456789".repeat(12) + "012345";
    let text = |text: &str| Some(text.to_owned());
    let due = [text("mark"), text("wide mark"), text("started \u{fc}"), text("started \u{fc}"), None, text(&cut)];
    assert_eq!(seen.marks, due);
    assert_eq!(seen.trace.meta("nvtx3"), Some("injected"));
    // Nothing of it is left when the command has ended.
    let path =
        seen.trace.meta("library.0").unwrap().split_once("path=").unwrap().1.split(' ').next().unwrap().to_owned();
    assert!(path.ends_with("libingeronvtx.so") && !Path::new(&path).parent().unwrap().exists(), "{path}");
}

#[test]
fn another_tool_keeps_its_place_and_the_file_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let words = ["sh", "-c", "echo $NVTX_INJECTION64_PATH; exec \"$0\""].map(str::to_owned);
    let command: Vec<_> = words.into_iter().chain([program(folder.path()).display().to_string()]).collect();
    let recording = record_with(&[], &command, &[("NVTX_INJECTION64_PATH", "/nonexistent/tool.so")]);
    assert_eq!(recording.run.code(), 0, "{}", recording.run.stderr);
    assert_eq!(recording.run.stdout.trim(), "/nonexistent/tool.so");
    let unseen = "unseen: NVTX_INJECTION64_PATH is set to /nonexistent/tool.so";
    assert_eq!(seen(&recording).trace.meta("nvtx3"), Some(unseen));
}

#[test]
fn ranges_alone_can_be_asked_for_and_not_be_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path()).display().to_string();
    let only = record_with(&["--only", "range"], std::slice::from_ref(&program), &[]);
    assert_eq!(only.run.code(), 0, "{}", only.run.stderr);
    let found = seen(&only);
    assert_eq!((found.ranges.len(), found.marks.len()), (9, 0));
    let words = ["sh", "-c", "echo \"<$NVTX_INJECTION64_PATH>\"; exec \"$0\""].map(str::to_owned);
    let command: Vec<_> = words.into_iter().chain([program]).collect();
    let none = record_with(&["--no", "range,mark"], &command, &[]);
    assert_eq!(none.run.stdout.trim(), "<>", "told of a library for nothing");
    let found = seen(&none);
    assert_eq!((found.ranges.len(), found.marks.len(), found.trace.meta("nvtx3")), (0, 0, None));
    assert!(fs::metadata(&none.file).unwrap().len() > 0);
}
