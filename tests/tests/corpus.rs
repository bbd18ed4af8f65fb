//! Recordings of every version of the format stay readable, and mean what they meant. Needs no root.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../corpus/expectation.rs"]
mod expectation;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ingero_format::Trace;
use ingero_format::catalog::EVENTS;
use ingero_format::layout::TRANSFORM_NAMES;
use ingero_tests::{Run, run, tool};
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(60);

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// The files of all versions with this extension.
fn files(extension: &str) -> Vec<PathBuf> {
    let versions = fs::read_dir(corpus()).unwrap().map(|e| e.unwrap().path()).filter(|p| p.is_dir());
    let files = versions.flat_map(|v| fs::read_dir(v).unwrap().map(|e| e.unwrap().path()).collect::<Vec<_>>());
    let mut files: Vec<PathBuf> = files.filter(|p| p.extension().is_some_and(|e| e == extension)).collect();
    files.sort();
    files
}

fn replay(arguments: &[&str], file: &Path) -> Run {
    run(Command::new(tool("ingero-replay")).args(arguments).arg(file), TIMEOUT)
}

fn v1(name: &str) -> PathBuf {
    corpus().join("v1").join(name)
}

#[test]
fn no_file_of_the_corpus_ever_changes() {
    let versions: BTreeSet<PathBuf> = files("igt").iter().map(|p| p.parent().unwrap().to_owned()).collect();
    assert!(versions.contains(&corpus().join("v1")), "the corpus is missing: run tests/corpus/write");
    for version in versions {
        let check = ["--check", "--strict", "--quiet", "SHA256SUMS"];
        drop(run(Command::new("sha256sum").args(check).current_dir(&version), TIMEOUT).success());
        let sums = fs::read_to_string(version.join("SHA256SUMS")).unwrap();
        let summed: BTreeSet<&str> = sums.lines().filter_map(|l| l.split_once("  ")).map(|(_, name)| name).collect();
        for file in files("igt").iter().chain(&files("json")).filter(|f| f.starts_with(&version)) {
            let name = file.file_name().unwrap().to_str().unwrap();
            assert!(summed.contains(name), "{} has no checksum", file.display());
        }
        assert!(version.join("write.rs").is_file(), "{}: the program that wrote it is missing", version.display());
    }
}

#[test]
fn todays_reader_yields_what_was_written_down_when_each_file_was_made() {
    assert!(files("igt").len() >= 10, "the corpus is missing: run tests/corpus/write");
    for file in files("igt") {
        let text = fs::read_to_string(file.with_extension("json")).unwrap();
        let expected: Value = serde_json::from_str(&text).unwrap();
        let found = expectation::of(&file);
        let Some(refusal) = expected["refused"].as_array() else {
            assert_eq!(found, expected, "{}: what the reader yields left", file.display());
            continue;
        };
        let said = found["refused"].as_str().unwrap_or_else(|| panic!("{} is read", file.display()));
        for part in refusal {
            assert!(said.contains(part.as_str().unwrap()), "{}: {said:?} lacks {part}", file.display());
        }
    }
}

#[test]
fn every_kind_and_every_transform_that_the_reader_knows_occurs() {
    let (mut kinds, mut transforms) = (BTreeSet::new(), BTreeSet::new());
    for trace in files("igt").iter().filter_map(|f| Trace::open(f).ok()) {
        for block in trace.blocks() {
            kinds.insert(block.header.kind);
            transforms.extend(trace.stored_columns(block).unwrap_or_default().iter().map(|c| c.transform));
        }
    }
    let missing: Vec<&str> = EVENTS.iter().filter(|e| !kinds.contains(&(e.kind as u16))).map(|e| e.name).collect();
    assert!(missing.is_empty(), "no recording of {missing:?}: add one, see tests/corpus/README.md");
    let unused: Vec<&str> =
        (0..).zip(TRANSFORM_NAMES).filter(|(number, _)| !transforms.contains(number)).map(|(_, name)| name).collect();
    assert!(unused.is_empty(), "no recording has the transform {unused:?}: add one, see tests/corpus/README.md");
}

#[test]
fn what_later_versions_add_is_passed_over_or_shown_by_the_schema_of_the_file() {
    let verify = replay(&["verify"], &v1("later.igt"));
    assert_eq!(verify.code(), 0, "{verify:#?}");
    let dump = replay(&["dump"], &v1("later.igt")).success();
    assert_eq!(dump.stdout.lines().count(), 40, "{}", dump.stdout);
    let shown = |kind: &str, field: &str| dump.stdout.lines().filter(|l| l.contains(kind) && l.contains(field)).count();
    // Of a known kind, a column that this build does not know; nine of ten rows, one value is unknown.
    assert_eq!(shown("sched_process_exit", "exit_code="), 9);
    assert_eq!(shown("sched_process_exit", "exit_code=8"), 1);
    // Of an unknown kind, an enumeration with a value that nobody named, and a text.
    assert_eq!((shown("gpu_power", "state=P8"), shown("gpu_power", "state=9")), (4, 2));
    assert_eq!(shown("gpu_power", "sensor=board"), 10);
    // A copy keeps what this build does not understand.
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.igt");
    drop(replay(&["repair", "-o", copy.to_str().unwrap()], &v1("later.igt")).success());
    assert_eq!(replay(&["dump"], &copy).success().stdout, dump.stdout);
}

#[test]
fn a_transform_of_a_later_version_costs_its_block_alone() {
    let verify = replay(&["verify"], &v1("later-transform.igt"));
    assert_eq!(verify.code(), 1, "{verify:#?}");
    let text = verify.stdout.clone() + &verify.stderr;
    assert!(text.contains("10 events lost") && text.contains("30 whole"), "{text}");
}

#[test]
fn an_unknown_chunk_that_must_not_be_skipped_is_refused_by_its_number_in_every_command() {
    for command in ["dump", "inspect", "verify"] {
        let refused = replay(&[command], &v1("refused-chunk.igt"));
        assert_ne!(refused.code(), 0, "{refused:#?}");
        assert_eq!(refused.stderr.lines().count(), 1, "{refused:#?}");
        for part in ["refused-chunk.igt", "chunk type 42", "use a newer ingero"] {
            assert!(refused.stderr.contains(part), "{part:?} is not in {refused:#?}");
        }
    }
}
