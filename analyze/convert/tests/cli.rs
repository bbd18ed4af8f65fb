//! The program as a person runs it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::path::Path;
use std::process::{Command, Output};

fn convert(dir: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ingero-convert")).current_dir(dir).args(args).output().unwrap()
}

fn ok(dir: &Path, args: &[&str]) -> String {
    let out = convert(dir, args);
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(out.status.success(), "{args:?}: {said}");
    said
}

fn fails(dir: &Path, args: &[&str], word: &str) {
    let out = convert(dir, args);
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(!out.status.success() && said.contains(word), "{args:?}: {said}");
    if out.status.code() == Some(2) {
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

fn with_fixture() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/workers.trace.txt");
    std::fs::copy(fixture, dir.path().join("workers.trace.txt")).unwrap();
    dir
}

#[test]
fn text_to_igt_to_everything() {
    let dir = with_fixture();
    let dir = dir.path();
    let said = ok(dir, &["workers.trace.txt"]);
    assert!(said.contains("workers.igt: ") && said.contains("301 lines"), "{said}");
    assert!(ok(dir, &["workers.igt", "--sqlite", "-q"]).is_empty());
    ok(dir, &["workers.igt", "--chrome"]);
    ok(dir, &["workers.igt", "--chrome", "-o", "packed.json.gz"]);
    let plain = std::fs::read(dir.join("workers.json")).unwrap();
    let mut unpacked = Vec::new();
    let packed = std::fs::File::open(dir.join("packed.json.gz")).unwrap();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(packed), &mut unpacked).unwrap();
    let piped = convert(dir, &["workers.igt", "--chrome", "-o", "-"]).stdout;
    assert!(plain == unpacked && plain == piped);
    let json: serde_json::Value = serde_json::from_slice(&plain).unwrap();
    let slices =
        json["traceEvents"].as_array().unwrap().iter().filter(|e| e["ph"] == "X" && e["cat"] != "state").count();
    let db = rusqlite::Connection::open(dir.join("workers.sqlite")).unwrap();
    let calls: i64 = db.query_row("SELECT count(*) FROM calls", [], |r| r.get(0)).unwrap();
    assert_eq!(slices, usize::try_from(calls).unwrap());
    assert!(calls > 40);
    ok(dir, &["workers.igt", "--chrome", "-f", "--pid", "496", "--from", "1s", "--to", "2s"]);
    let part = std::fs::read(dir.join("workers.json")).unwrap();
    assert!(part.len() < plain.len());
}

#[test]
fn what_cannot_be_done_is_said_in_one_line() {
    let dir = with_fixture();
    let dir = dir.path();
    ok(dir, &["workers.trace.txt", "-o", "run.igt"]);
    std::fs::write(dir.join("other.txt"), "hello\n").unwrap();
    fails(dir, &["workers.trace.txt", "-o", "run.igt"], "--force");
    fails(dir, &["workers.trace.txt", "--chrome"], "import it first");
    fails(dir, &["workers.trace.txt", "-o", "no/such/folder.igt"], "no/such");
    fails(dir, &["run.igt"], "--chrome or --sqlite");
    fails(dir, &["run.igt", "--chrome", "--sqlite"], "cannot be used with");
    fails(dir, &["run.igt", "--sqlite", "-o", "-"], "standard output");
    fails(dir, &["run.igt", "--chrome", "--pid", "4"], "no process 4");
    fails(dir, &["run.igt", "--chrome", "--from", "1h"], "range is empty");
    fails(dir, &["missing"], "missing");
    fails(dir, &["."], "is a directory");
    fails(dir, &["other.txt"], "not ftrace text");
    ok(dir, &["workers.trace.txt", "-o", "run.igt", "--force"]);
    let left: Vec<_> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "no temporary file stays: {left:?}");
}

/// To open a pipe is to wait until somebody writes into it.
#[test]
fn a_pipe_is_refused_before_it_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    assert!(Command::new("mkfifo").arg(dir.path().join("pipe")).status().unwrap().success());
    fails(dir.path(), &["pipe"], "regular file");
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let dir = with_fixture();
    let dir = dir.path();
    ok(dir, &["workers.trace.txt", "-o", "run.igt"]);
    // Closed before the program starts: one that is quick fills no pipe and would never notice.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let out = Command::new(env!("CARGO_BIN_EXE_ingero-convert"))
        .current_dir(dir)
        .args(["run.igt", "--chrome", "-o", "-"])
        .stdout(writer)
        .output()
        .unwrap();
    assert!(out.status.success());
    assert_eq!(String::from_utf8_lossy(&out.stderr), "");
}

#[test]
fn a_cut_trace_is_converted_as_far_as_it_goes() {
    let dir = with_fixture();
    let dir = dir.path();
    ok(dir, &["workers.trace.txt", "-o", "run.igt"]);
    let whole = std::fs::read(dir.join("run.igt")).unwrap();
    for part in [whole.len() / 4, whole.len() / 2, whole.len() - 10] {
        std::fs::write(dir.join("cut.igt"), &whole[..part]).unwrap();
        for format in ["--sqlite", "--chrome"] {
            let out = convert(dir, &["cut.igt", format, "--force"]);
            let said = String::from_utf8(out.stderr).unwrap();
            assert!(out.status.code() == Some(2), "{said}");
        }
    }
}
