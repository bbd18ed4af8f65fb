//! `ingero-replay compact`: the same events bit for bit, in a smaller file, or none at all.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ingero_format::Trace;
use ingero_replay::{Event, Merge};

fn compact(input: &Path, output: &Path, more: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_ingero-replay");
    Command::new(program).arg("compact").arg(input).arg("-o").arg(output).args(more).output().unwrap()
}

fn recordings() -> Vec<PathBuf> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../benches/data");
    let mut files: Vec<PathBuf> = data.read_dir().unwrap().map(|e| e.unwrap().path()).collect();
    files.retain(|p| p.extension().is_some_and(|e| e == "igt"));
    files.sort();
    assert!(files.len() >= 4);
    files
}

fn events(trace: &Trace) -> Vec<Event> {
    let mut merge = Merge::new(trace);
    let events = merge.by_ref().collect();
    assert!(merge.lost().is_empty());
    events
}

#[test]
fn a_compacted_recording_has_the_same_events_and_is_smaller() {
    let folder = tempfile::tempdir().unwrap();
    for input in recordings() {
        let output = folder.path().join(input.file_name().unwrap());
        let done = compact(&input, &output, &[]);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let (before, after) = (Trace::open(&input).unwrap(), Trace::open(&output).unwrap());
        assert!(after.complete());
        assert!(after.len_bytes() < before.len_bytes());
        assert_eq!(before.meta_entries(), after.meta_entries());
        assert_eq!(before.strings(), after.strings());
        assert_eq!(before.tasks(), after.tasks());
        assert_eq!(before.functions(), after.functions());
        // Events of one instant on different CPUs have no order; those on one CPU keep theirs by kind.
        let sorted = |trace: &Trace| {
            let mut events = events(trace);
            events.sort_by_key(|e| (e.ts_ns, e.body.kind(), e.cpu));
            events
        };
        assert!(sorted(&before) == sorted(&after), "{}", input.display());
        assert_eq!(output.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn what_is_there_is_kept_unless_force_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let input = recordings().pop().unwrap();
    let output = folder.path().join("there.igt");
    std::fs::write(&output, "mine").unwrap();
    let refused = compact(&input, &output, &[]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--force"));
    assert_eq!(std::fs::read(&output).unwrap(), b"mine");
    assert!(compact(&input, &output, &["--force", "--quiet"]).status.success());
    assert!(Trace::open(&output).unwrap().complete());
    // Nothing is left beside it.
    assert_eq!(folder.path().read_dir().unwrap().count(), 1);
}

#[test]
fn a_recording_that_was_cut_off_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("cut.igt"), folder.path().join("out.igt"));
    let whole = std::fs::read(recordings().pop().unwrap()).unwrap();
    std::fs::write(&input, &whole[..whole.len() * 2 / 3]).unwrap();
    let refused = compact(&input, &output, &[]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("verify"));
    assert!(!output.exists());
}
