//! What is kept and what is left out: parts, the last while, chosen sources, other users.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ingero_format::Trace;
use ingero_format::catalog::Kind;
use ingero_tests::{Recorder, Report, analyze_json, record_with, run, standin, tool};
use rustix::process::Signal;

const LIMIT: Duration = Duration::from_secs(60);

fn standin_words(args: &[&str]) -> Vec<String> {
    let program = standin().program.display().to_string();
    [program].into_iter().chain(args.iter().map(|&a| a.to_owned())).collect()
}

/// Files named `run-NNNN.igt` beside a recording.
fn parts(file: &Path) -> Vec<PathBuf> {
    let mut parts: Vec<PathBuf> = fs::read_dir(file.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("run-"))
        .collect();
    parts.sort();
    parts
}

fn assert_whole(file: &Path) {
    let _ = run(Command::new(tool("ingero-replay")).arg("verify").arg(file), LIMIT).success();
}

/// Rows by kind, as `inspect` counts them.
fn kinds(file: &Path) -> BTreeMap<String, u64> {
    let inspect = run(Command::new(tool("ingero-replay")).arg("inspect").arg(file), LIMIT).success().stdout;
    let table = inspect.split("\nevents ").nth(1).unwrap().split("\n\n").next().unwrap();
    let rows = table.lines().skip(1).filter_map(|line| {
        let mut words = line.split_whitespace();
        Some((words.next()?.to_owned(), words.next()?.replace(',', "").parse().ok()?))
    });
    rows.collect()
}

/// A figure of every operation of a process, summed over files.
fn sums(files: &[PathBuf], pid: u64, figure: &str) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for file in files {
        for (symbol, n) in ingero_tests::Analysis(analyze_json(file, &[])).figures(pid, figure) {
            *sums.entry(symbol).or_default() += n;
        }
    }
    sums
}

#[test]
fn parts_are_complete_by_themselves_and_hold_every_call_once() {
    for split in ["300ms", "128KiB"] {
        let recording = record_with(&["--split", split], &standin_words(&["loop", "100000"]), &[]);
        assert_eq!(recording.run.code(), 0, "{:#?}", recording.run);
        assert!(!recording.file.exists());
        let parts = parts(&recording.file);
        assert!(parts.len() > 2, "{split}: {parts:?}");
        let process = &recording.report().processes[0];
        let mut gone = false;
        for part in &parts {
            assert_whole(part);
            let analysis = ingero_tests::Analysis(analyze_json(part, &[]));
            analysis.assert_lossless();
            // Whoever reads one part alone knows who it was. Once it has ended it does not come back.
            match analysis.process(process.pid) {
                Some(seen) => assert_eq!((&seen["name"], gone), (&"standin".into(), false)),
                None => gone = true,
            }
            assert_eq!(fs::metadata(part).unwrap().mode() & 0o777, 0o600);
            // Cut off anywhere, it says when it was.
            let trace = Trace::open(part).unwrap();
            let first = trace.blocks().iter().min_by_key(|block| block.offset).unwrap();
            assert_eq!(first.header.kind, Kind::Clock as u16, "{}", part.display());
        }
        let counted = sums(&parts, process.pid, "count");
        for (symbol, n) in &process.calls {
            assert_eq!(counted.get(symbol), Some(n), "{split}: {symbol}");
        }
    }
}

/// A call that is open when a part ends is open in that part, and whole in the one in which it ends.
#[test]
fn a_call_over_the_border_is_in_both_parts() {
    let words = standin_words(&["loop", "1"]);
    let recording = record_with(&["--split", "400ms"], &words, &[("STANDIN_SYNC_US", "1000000")]);
    let parts = parts(&recording.file);
    let pid = recording.report().pid;
    let figure = |part: &Path, figure: &str| {
        let analysis = ingero_tests::Analysis(analyze_json(part, &[]));
        analysis.figures(pid, figure).get("cudaStreamSynchronize").copied().unwrap_or(0)
    };
    let unreturned: Vec<u64> = parts.iter().map(|part| figure(part, "unreturned")).collect();
    let counted: Vec<u64> = parts.iter().map(|part| figure(part, "count")).collect();
    assert!(unreturned.iter().sum::<u64>() >= 1, "{unreturned:?} {counted:?}");
    assert_eq!(counted.iter().sum::<u64>(), 1, "{unreturned:?} {counted:?}");
    let whole = parts.iter().find(|part| figure(part, "count") == 1).unwrap();
    assert_eq!(figure(whole, "unreturned"), 0);
    assert!(figure(whole, "sum_ns") >= 1_000_000_000);
}

#[test]
fn parts_of_another_recording_are_not_overwritten_unasked() {
    let dir = tempfile::tempdir().unwrap();
    let _alone = ingero_tests::kernel_lock();
    let record = |more: &[&str]| {
        let mut command = Command::new(tool("ingero-record"));
        command.arg("-o").arg(dir.path().join("run.igt")).args(["--split", "1m"]).args(more).args(["--", "true"]);
        run(&mut command, LIMIT)
    };
    for stale in ["run-0001.igt", "run-0007.igt"] {
        fs::write(dir.path().join(stale), "mine").unwrap();
    }
    let refused = record(&[]);
    assert_eq!(refused.code(), 125);
    assert!(refused.stderr.contains("run-0001.igt exists already"), "{}", refused.stderr);
    assert_eq!(fs::read(dir.path().join("run-0001.igt")).unwrap(), b"mine");
    let _ = record(&["--force"]).success();
    // An old part would pass for one of this recording.
    assert!(!dir.path().join("run-0007.igt").exists());
    assert_whole(&dir.path().join("run-0001.igt"));
}

#[test]
fn a_size_is_not_passed() {
    let recording = record_with(&["--max-size", "1MiB"], &standin_words(&["loop", "100000"]), &[]);
    assert_eq!(recording.run.code(), 0, "{:#?}", recording.run);
    assert!(recording.run.stderr.contains("--max-size"), "{}", recording.run.stderr);
    let bytes = fs::metadata(&recording.file).unwrap().len();
    assert!((300_000..=1 << 20).contains(&bytes), "{bytes}");
    assert_whole(&recording.file);
}

#[test]
fn the_last_while_is_written_at_the_end() {
    let script = format!("{0} loop 20; sleep 2; {0} loop 30", standin().program.display());
    let words = ["sh", "-c", &script].map(str::to_owned);
    let recording = record_with(&["--flight", "800ms"], &words, &[]);
    assert_eq!(recording.run.code(), 0, "{:#?}", recording.run);
    assert_whole(&recording.file);
    assert!(parts(&recording.file).is_empty());
    let analysis = recording.analyze(&[]);
    analysis.assert_lossless();
    let reports = Report::parse_all(&recording.run.stdout);
    assert!(analysis.figures(reports[0].pid, "count").is_empty(), "the past is over");
    analysis.assert_process(&reports[1].processes[0]);
    let duration_ns = analysis.0["trace"]["duration_ns"].as_u64().unwrap();
    assert!((700_000_000..1_600_000_000).contains(&duration_ns), "{duration_ns}");
}

#[test]
fn a_signal_has_the_last_while_written_and_recording_goes_on() {
    let program = standin().program.display().to_string();
    let mut recorder = Recorder::start(&["--flight", "30s", "--", &program, "forever"]);
    recorder.wait_until_attached();
    let first = recorder.file().with_file_name("run-0001.igt");
    recorder.running().signal(Signal::USR1);
    let deadline = std::time::Instant::now() + Duration::from_secs(5);
    while !first.exists() {
        assert!(std::time::Instant::now() < deadline, "nothing was written");
        std::thread::sleep(Duration::from_millis(20));
    }
    // What lies under the name is complete from the first moment on.
    assert_whole(&first);
    let before = kinds(&first)["call"];
    std::thread::sleep(Duration::from_millis(300));
    let recording = recorder.stop();
    assert!(before > 0 && kinds(&recording.file)["call"] > before);
}

#[test]
fn triggers_have_it_written() {
    let script = format!("{} loop 3; sleep 0.3; exit 3", standin().program.display());
    let words = ["sh", "-c", &script].map(str::to_owned);
    let slow = [("STANDIN_SYNC_US", "60000")];
    let recording = record_with(&["--flight", "10s", "--trigger-call", "50ms"], &words, &slow);
    assert_eq!(parts(&recording.file).len(), 1, "{:#?}", recording.run);
    assert!(recording.run.stderr.contains("Synchronize took 6"), "{}", recording.run.stderr);
    let none = record_with(&["--flight", "10s", "--trigger-call", "5s"], &words, &slow);
    assert!(parts(&none.file).is_empty());
    let failed = record_with(&["--flight", "10s", "--trigger-failure"], &words, &[]);
    assert_eq!(failed.run.code(), 3);
    assert!(failed.run.stderr.contains("ended with code 3"), "{}", failed.run.stderr);
    let fine = record_with(&["--flight", "10s", "--trigger-failure"], &standin_words(&["loop", "1"]), &[]);
    assert!(parts(&fine.file).is_empty(), "{:#?}", fine.run);
    let any = record_with(&["--flight", "10s", "--trigger-exit"], &standin_words(&["loop", "1"]), &[]);
    assert_eq!(parts(&any.file).len(), 1, "{:#?}", any.run);
}

/// The call that everybody waits for began long before the window: it is there all the same, with the time at which it began.
#[test]
fn a_call_that_hangs_is_in_the_last_while() {
    let program = standin().program.display().to_string();
    let mut recorder =
        Recorder::start(&["--flight", "300ms", "--", "env", "STANDIN_SYNC_US=60000000", &program, "loop", "1"]);
    recorder.wait_until_attached();
    std::thread::sleep(Duration::from_millis(1500));
    recorder.running().signal(Signal::TERM);
    let recording = recorder.finish(Duration::from_secs(8));
    let analysis = recording.analyze(&[]);
    let hung = analysis
        .processes()
        .find_map(|p| p["ops"].as_array()?.iter().find(|op| op["name"] == "cudaStreamSynchronize").cloned());
    assert_eq!(hung.expect("the call is there")["unreturned"], 1);
}

#[test]
fn one_tracepoint_alone() {
    let recording = record_with(&["--only", "sched_switch"], &standin_words(&["loop", "100"]), &[]);
    let kinds = kinds(&recording.file);
    let happens: Vec<&str> =
        kinds.keys().map(String::as_str).filter(|k| !["task_name", "process", "clock"].contains(k)).collect();
    assert_eq!(happens, ["sched_switch"]);
    let mut recorder = Recorder::start(&["-a", "--only", "sched_switch"]);
    recorder.wait_until_attached();
    // One link, and no other event either.
    assert_eq!(links(recorder.running().pid()), 1);
    drop(recorder.stop());
}

/// Links and perf events of a process.
fn links(pid: u32) -> usize {
    let fds = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let is_probe = |to: PathBuf| {
        let to = to.to_string_lossy().into_owned();
        to.contains("bpf_link") || to.contains("bpf-link") || to.contains("perf_event")
    };
    fds.filter_map(|fd| fs::read_link(fd.ok()?.path()).ok()).filter(|to| is_probe(to.clone())).count()
}

#[test]
fn sources_that_are_left_out_are_not_there() {
    let options = ["--no", "mm_page_alloc,sched_wakeup", "--no", "system"];
    let recording = record_with(&options, &standin_words(&["loop", "100"]), &[]);
    recording.assert_exact();
    let kinds = kinds(&recording.file);
    for (kind, there) in [("mm_page_alloc", false), ("sched_wakeup", false), ("system", false), ("sched_waking", true)]
    {
        assert_eq!(kinds.contains_key(kind), there, "{kind}: {kinds:?}");
    }
}

#[test]
fn one_layer_alone() {
    for (layer, begin, other) in [("driver", "cu", "cuda"), ("runtime", "cuda", "cuL")] {
        let recording = record_with(&["--layers", layer], &standin_words(&["loop", "50"]), &[]);
        let process = &recording.report().processes[0];
        let seen = recording.analyze(&[]).figures(process.pid, "count");
        let due: BTreeMap<String, u64> = process
            .calls
            .iter()
            .filter(|(symbol, _)| symbol.starts_with("cuda") == (layer == "runtime"))
            .map(|(symbol, &n)| (symbol.clone(), n))
            .collect();
        assert_eq!(seen, due, "{layer}");
        assert!(seen.keys().all(|s| s.starts_with(begin) && !s.starts_with(other)));
        assert!(!recording.run.stderr.contains("statically"), "{}", recording.run.stderr);
    }
}

#[test]
fn under_sudo_the_command_is_the_users_own() {
    let dir = tempfile::tempdir().unwrap();
    let _alone = ingero_tests::kernel_lock();
    let file = dir.path().join("run.igt");
    let mut command = Command::new(tool("ingero-record"));
    command.arg("-o").arg(&file).args([
        "--user",
        "--",
        "sh",
        "-c",
        "id -u; id -g; id -G; echo $HOME; echo ${SUDO_UID-none}",
    ]);
    // Debian's account "daemon".
    command.env("SUDO_UID", "1").env("SUDO_GID", "1").env("HOME", "/root");
    let shown = run(&mut command, LIMIT).success().stdout;
    assert_eq!(shown, "1\n1\n1\n/usr/sbin\nnone\n");
    let owner = fs::metadata(&file).unwrap();
    assert_eq!((owner.uid(), owner.gid(), owner.mode() & 0o777), (1, 1, 0o600));
    assert_whole(&file);
    let mut nobody = Command::new(tool("ingero-record"));
    nobody.arg("-o").arg(dir.path().join("x.igt")).args(["--user", "--", "true"]).env_remove("SUDO_UID");
    let refused = run(&mut nobody, LIMIT);
    assert_eq!(refused.code(), 125);
    assert!(refused.stderr.lines().count() == 1 && refused.stderr.contains("sudo"), "{}", refused.stderr);
}
