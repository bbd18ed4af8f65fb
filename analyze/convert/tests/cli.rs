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
    let slices = json["traceEvents"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|e| e["ph"] == "X" && (e["cat"] == "runtime" || e["cat"] == "driver"))
        .count();
    let db = rusqlite::Connection::open(dir.join("workers.sqlite")).unwrap();
    let calls: i64 = db.query_row("SELECT count(*) FROM calls", [], |r| r.get(0)).unwrap();
    assert_eq!(slices, usize::try_from(calls).unwrap());
    assert!(calls > 40);
    ok(dir, &["workers.igt", "--chrome", "-f", "--pid", "496", "--from", "1s", "--to", "2s"]);
    let part = std::fs::read(dir.join("workers.json")).unwrap();
    assert!(part.len() < plain.len());
}

/// The files below a folder, by name.
fn files_below(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let of = |path: std::path::PathBuf| match path.is_dir() {
        true => files_below(&path),
        false => vec![path.file_name().unwrap().to_str().unwrap().to_owned()],
    };
    entries.flat_map(of).collect()
}

#[test]
fn a_recording_under_another_name_is_the_same_one() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../investigations/h200-pageable-copies/run.igt");
    ["run.igt", "renamed.igt"].iter().for_each(|name| assert!(std::fs::copy(&recorded, dir.join(name)).unwrap() > 0));
    ok(dir, &["run.igt", "--parquet", "lake"]);
    let before = files_below(&dir.join("lake"));
    fails(dir, &["renamed.igt", "--parquet", "lake"], "lake: has this recording already");
    assert_eq!(files_below(&dir.join("lake")), before);
    ok(dir, &["renamed.igt", "--parquet", "lake", "--force"]);
    let after = files_below(&dir.join("lake"));
    assert!(after.len() == before.len() && after.iter().all(|name| name.contains("-renamed.")), "{after:?}");
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
    fails(dir, &["run.igt"], "--csv or --jsonl");
    fails(dir, &["run.igt", "--chrome", "--sqlite"], "cannot be used with");
    fails(dir, &["run.igt", "--sqlite", "-o", "-"], "standard output");
    fails(dir, &["run.igt", "--chrome", "--min-duration", "-1s"], "the length of time \"-1s\" is negative");
    ok(dir, &["run.igt", "--parquet", "lake"]);
    fails(dir, &["run.igt", "--parquet", "lake"], "lake: has this recording already");
    std::fs::remove_dir_all(dir.join("lake")).unwrap();
    fails(dir, &["run.igt", "--chrome", "--pid", "4"], "no process 4");
    fails(dir, &["run.igt", "--chrome", "--from", "1h"], "range is empty");
    fails(dir, &["missing"], "missing");
    fails(dir, &["."], "is a directory");
    fails(dir, &["other.txt"], "not ftrace text");
    ok(dir, &["workers.trace.txt", "-o", "run.igt", "--force"]);
    let left: Vec<_> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "no temporary file stays: {left:?}");
}

#[test]
fn no_export_touches_what_is_there_or_leaves_a_part_behind() {
    let dir = with_fixture();
    let dir = dir.path();
    ok(dir, &["workers.trace.txt", "-o", "run.igt"]);
    let recording = std::fs::read(dir.join("run.igt")).unwrap();
    std::fs::create_dir(dir.join("folder")).unwrap();
    std::fs::write(dir.join("file"), "mine").unwrap();
    for format in ["--chrome", "--perfetto", "--csv", "--jsonl", "--folded", "--sqlite"] {
        // Onto itself, into a folder's place, onto a file of somebody's.
        fails(dir, &["run.igt", format, "-o", "run.igt"], "run.igt");
        fails(dir, &["run.igt", format, "-o", "folder"], "folder");
        fails(dir, &["run.igt", format, "-o", "folder", "--force"], "folder");
        fails(dir, &["run.igt", format, "-o", "file"], "--force");
    }
    fails(dir, &["run.igt", "--parquet", "file"], "file");
    for format in ["--chrome", "--perfetto", "--csv", "--jsonl", "--folded"] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_ingero-convert"));
        let out = command.current_dir(dir).args(["run.igt", format, "-o", "-"]).stdout(full).output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(!out.status.success() && said.contains("No space left"), "{format}: {said}");
    }
    assert_eq!(std::fs::read(dir.join("run.igt")).unwrap(), recording);
    assert_eq!(std::fs::read(dir.join("file")).unwrap(), b"mine");
    assert_eq!(std::fs::read_dir(dir.join("folder")).unwrap().count(), 0);
    let mut left: Vec<_> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["file", "folder", "run.igt", "workers.trace.txt"]);
}

/// To open a pipe is to wait until somebody writes into it.
#[test]
fn nothing_takes_the_place_of_what_is_read() {
    let dir = with_fixture();
    ok(dir.path(), &["workers.trace.txt", "-o", "run.igt"]);
    // With clocks that can be aligned.
    let real = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/data/cuda.igt");
    std::fs::copy(&real, dir.path().join("a.igt")).unwrap();
    std::fs::copy(&real, dir.path().join("b.igt")).unwrap();
    std::os::unix::fs::symlink("run.igt", dir.path().join("link.igt")).unwrap();
    let kept = |name: &str| std::fs::read(dir.path().join(name)).unwrap();
    let (igt, text) = (kept("run.igt"), kept("workers.trace.txt"));
    for args in [
        &["run.igt", "--csv", "-f", "-o", "run.igt"][..],
        &["run.igt", "--sqlite", "-f", "-o", "link.igt"],
        &["link.igt", "--perfetto", "-f", "-o", "./run.igt"],
        &["workers.trace.txt", "-f", "-o", "workers.trace.txt"],
        &["merge", "a.igt", "b.igt", "-f", "-o", "b.igt"],
    ] {
        fails(dir.path(), args, "is what is read");
        assert!(kept("b.igt") == kept("a.igt"), "{args:?}");
        assert!(kept("run.igt") == igt && kept("workers.trace.txt") == text, "{args:?}");
    }
}

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
    for format in ["--chrome", "--perfetto", "--csv", "--jsonl", "--folded"] {
        // Closed before the program starts: one that is quick fills no pipe and would never notice.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_ingero-convert"));
        let out = command.current_dir(dir).args(["run.igt", format, "-o", "-"]).stdout(writer).output().unwrap();
        assert!(out.status.success(), "{format}");
        assert_eq!(String::from_utf8_lossy(&out.stderr), "", "{format}");
    }
}

#[test]
fn every_conversion_takes_every_cut() {
    let dir = with_fixture();
    let dir = dir.path();
    ok(dir, &["workers.trace.txt", "-o", "run.igt"]);
    let formats: [&[&str]; 7] = [
        &["--chrome", "-o", "out"],
        &["--perfetto", "-o", "out"],
        &["--csv", "-o", "out"],
        &["--jsonl", "-o", "out"],
        &["--folded", "-o", "out"],
        &["--sqlite", "-o", "out"],
        &["--parquet", "lake"],
    ];
    let cuts: [&[&str]; 5] = [
        &["--from", "1s", "--to", "1500ms"],
        &["--since", "100ms"],
        &["--pid", "496"],
        &["--only", "call"],
        &["--min-duration", "1s"],
    ];
    for format in formats {
        let converted = |cut: &[&str]| {
            drop(std::fs::remove_dir_all(dir.join("lake")));
            ok(dir, &[&["run.igt", "-f"], format, cut].concat());
            let written = files(dir);
            let of_output = |name: &&String| name.ends_with("/out") || name.ends_with(".parquet");
            let all = written.iter().filter(of_output);
            all.map(|name| std::fs::metadata(name).unwrap().len()).sum::<u64>()
        };
        let whole = converted(&[]);
        for cut in cuts {
            let part = converted(cut);
            // A stack of a flame graph is told with calls alone too.
            assert!(part < whole || format[0] == "--folded" && part <= whole, "{format:?} {cut:?}: {part} of {whole}");
        }
        drop(std::fs::remove_file(dir.join("out")));
    }
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

/// Of each kind of input: what is whole is imported, and whoever runs it in a script is told that it is not all.
#[test]
fn an_input_that_is_cut_is_imported_as_far_as_it_goes() {
    use std::io::Write;
    let dir = with_fixture();
    let dir = dir.path();
    let whole = std::fs::read(dir.join("workers.trace.txt")).unwrap();
    let part = &whole[..whole.len() * 3 / 4];
    let cut_in_line = if part.ends_with(b"\n") { &part[..part.len() - 5] } else { part };
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 0);
    gz.write_all(&whole).unwrap();
    xz.write_all(&whole).unwrap();
    // A frame has a block for each 128 KiB, of which nothing is had before it is whole.
    let frame = |text: &[u8]| zstd::encode_all(text, 0).unwrap();
    let zst = [frame(&whole[..whole.len() / 2]), frame(&whole[whole.len() / 2..])].concat();
    let packed = [gz.finish().unwrap(), xz.finish().unwrap(), zst].map(|all| all[..all.len() * 3 / 4].to_vec());
    let event = r#"{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":2,"ts":5.5,"dur":1}"#;
    let profile = format!("{{\"schemaVersion\":1,\"traceEvents\":[{event},{event},{{\"ph\"");
    let [gz, xz, zst] = packed;
    let inputs = [
        ("cut.txt", cut_in_line.to_vec(), "ends within a line"),
        ("cut.txt.gz", gz, "the package that the text is in is cut"),
        ("cut.txt.xz", xz, "the package that the text is in is cut"),
        ("cut.txt.zst", zst, "the package that the text is in is cut"),
        ("cut.json", profile.into_bytes(), "ends within its document"),
    ];
    for (name, bytes, note) in inputs {
        std::fs::write(dir.join(name), bytes).unwrap();
        let out = convert(dir, &[name, "-o", "cut.igt", "-f", "--keep-going"]);
        let said = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(2), "{name}: {said}");
        assert!(said.contains(note), "{name}: {said}");
        assert!(
            said.lines().last().unwrap().contains("is cut off or damaged; what is whole was imported"),
            "{name}: {said}"
        );
        let read = ingero_format::Trace::open(dir.join("cut.igt")).unwrap();
        assert!(read.complete() && read.span_ns().is_some(), "{name}");
    }
}

/// The largest recording of the repository.
fn long_recording() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../investigations/h200-dataloader/run.igt")
}

/// Ways to convert it, each with what comes of it.
const CONVERSIONS: &[(&[&str], &str)] = &[
    (&["--chrome", "-o", "out.json"], "out.json"),
    (&["--chrome", "-o", "out.json.gz"], "out.json.gz"),
    (&["--perfetto", "-o", "out.pftrace"], "out.pftrace"),
    (&["--sqlite", "-o", "out.sqlite"], "out.sqlite"),
    (&["--sqlite", "--schema", "ingero", "-o", "out.db"], "out.db"),
    (&["--csv", "-o", "out.csv"], "out.csv"),
    (&["--jsonl", "-o", "out.jsonl"], "out.jsonl"),
    (&["--folded", "-o", "out.folded"], "out.folded"),
    (&["--parquet", "out"], "out"),
    (&["--merge", "again.igt", "-o", "out.igt"], "out.igt"),
];

/// Files below a folder.
fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path.display().to_string());
        }
    }
    found
}

/// A folder with another recording to merge with.
fn with_again() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let other = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../investigations/h200-allocator-churn/keep.igt");
    std::fs::copy(other, dir.path().join("again.igt")).unwrap();
    dir
}

#[test]
fn an_interrupt_leaves_nothing_half_written_behind() {
    for (args, output) in CONVERSIONS {
        let dir = with_again();
        let dir = dir.path();
        let mut command = Command::new(env!("CARGO_BIN_EXE_ingero-convert"));
        command.current_dir(dir).arg(long_recording()).args(*args).arg("-q");
        let mut child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
        // As soon as it has begun to write.
        let hidden = |name: &String| name.strip_prefix(dir.to_str().unwrap()).unwrap().contains("/.");
        while !files(dir).iter().any(hidden) && child.try_wait().unwrap().is_none() {
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
        let pid = child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success(), "{output}: was too quick");
        let ended = child.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(130), "{output}: {}", String::from_utf8_lossy(&ended.stderr));
        let left = files(dir);
        assert!(left.len() == 1 && left[0].ends_with("/again.igt"), "{output}: {left:?}");
    }
}

/// What the system says of a disk that is full it says of a file that may grow no more: every writer meets it midway.
#[test]
fn a_file_that_cannot_grow_is_said_and_taken_away() {
    for (args, output) in CONVERSIONS {
        let dir = with_again();
        let dir = dir.path();
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' XFSZ; ulimit -f 1; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_ingero-convert")]);
        let ended = command.current_dir(dir).arg(long_recording()).args(*args).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(!ended.status.success() && said.contains(output), "{output}: {said}");
        assert!(!said.contains("/."), "a name that nobody gave: {said}");
        assert!(said.contains("File too large") || said.contains("disk I/O error") || said.contains("full"), "{said}");
        let left = files(dir);
        assert!(left.len() == 1 && left[0].ends_with("/again.igt"), "{output}: {left:?}");
    }
}

#[test]
fn every_output_is_its_owner_s_alone() {
    use std::os::unix::fs::PermissionsExt;
    let dir = with_fixture();
    let dir = dir.path();
    ok(dir, &["workers.trace.txt", "-o", "run.igt"]);
    for format in ["--chrome", "--perfetto", "--sqlite", "--folded", "--csv", "--jsonl"] {
        ok(dir, &["run.igt", format, "-q"]);
    }
    ok(dir, &["run.igt", "--parquet", "lake"]);
    let (mut folders, mut files) = (vec![dir.to_owned()], 0);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_none_or(|e| e != "txt") {
                files += 1;
                assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{}", path.display());
            }
        }
    }
    assert!(files > 14, "{files}");
}

#[test]
fn datasets_need_a_folder_and_leave_none_behind() {
    let dir = with_fixture();
    let dir = dir.path();
    ok(dir, &["workers.trace.txt", "-o", "run.igt"]);
    fails(dir, &["run.igt", "--parquet", "-"], "cannot be written to standard output");
    assert!(!dir.join("-").exists());
    fails(dir, &["run.igt", "--parquet", "run.igt"], "is a file; name a folder");
    // What is written aside has no room: a limit on the size of files, which is none of the folder's.
    let limited = "ulimit -f 1; trap '' XFSZ; exec \"$0\" run.igt --parquet lake";
    let out = Command::new("sh")
        .current_dir(dir)
        .args(["-c", limited, env!("CARGO_BIN_EXE_ingero-convert")])
        .output()
        .unwrap();
    assert!(!out.status.success(), "{out:?}");
    assert!(!dir.join("lake").exists());
}

#[test]
fn what_only_one_kind_tells_is_all_that_is_told() {
    let dir = with_fixture();
    let dir = dir.path();
    ok(dir, &["workers.trace.txt", "-o", "w.igt"]);
    let records = |args: &[&str]| {
        let out = convert(dir, &[&["w.igt", "--jsonl", "-q", "-o", "-"], args].concat());
        String::from_utf8(out.stdout).unwrap()
    };
    assert!(
        records(&[]).contains("\"record\":\"phase\"") && records(&["--only", "call"]).contains("\"record\":\"phase\"")
    );
    // Phases and incidents are made of calls.
    let switches = records(&["--only", "sched_switch"]);
    assert!(!switches.is_empty() && !switches.contains("\"phase\"") && !switches.contains("\"incident\""));
}

#[test]
fn refusals_say_what_is_wrong_and_what_to_do() {
    let dir = with_fixture();
    let dir = dir.path();
    ok(dir, &["workers.trace.txt", "-o", "w.igt"]);
    fails(dir, &["w.igt", "--chrome", "-f", "-o", "/dev/null"], "-o - > /dev/null");
    fails(dir, &["w.igt", "--chrome", "-o", "x.json", "--from", "9999s"], "the trace is over by then");
    std::fs::write(dir.join("cut.igt"), &std::fs::read(dir.join("w.igt")).unwrap()[..7]).unwrap();
    fails(dir, &["cut.igt", "--chrome"], "cut too short");
    let line = "  worker-7 [001] 1.000000000: sched_waking: comm=a pid=8 prio=120 target_cpu=000\n";
    for (from, to, word) in [("[001]", "[70000]", "its CPU is none"), ("-7 ", "-99999999999 ", "no thread id")] {
        std::fs::write(dir.join("bad.txt"), line.to_owned() + &line.replace(from, to)).unwrap();
        fails(dir, &["bad.txt"], word);
    }
    for name in ["x.json", "bad.igt"] {
        assert!(!dir.join(name).exists(), "{name}");
    }
}

/// Readers of Chrome's format would lose slices, of one format that is not: that is said, and which.
#[test]
fn times_that_viewers_of_json_round_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for (name, end_us, is_told) in [("near.igt", (1_u64 << 43) - 10, false), ("far.igt", (1 << 43) + 10, true)] {
        let mut f = ingero_replay::fixture::Fixture::new();
        let (task, idle) = (f.task(7, 7), ingero_format::catalog::TaskId(0));
        f.switch(1_000, 0, idle, 0, task);
        f.switch(1_000 + end_us * 1_000, 0, task, 1, idle);
        std::fs::write(dir.join(name), f.into_bytes()).unwrap();
        for quiet in [&[][..], &["-q"]] {
            let said = ok(dir, &[&[name, "--chrome", "-f"], quiet].concat());
            assert_eq!(said.contains("101 days") && said.contains("--perfetto has all of them"), is_told, "{said}");
        }
        let said = ok(dir, &[name, "--chrome", "-f", "-q", "--to", "1h"]);
        assert!(said.is_empty(), "{said}");
        assert!(!ok(dir, &[name, "--perfetto"]).contains("days"));
    }
}
