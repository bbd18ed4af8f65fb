//! More than a recorder can take: what is lost is counted, and the end comes soon all the same.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::process::Command;
use std::time::Duration;

use ingero_tests::{Recorder, Report, analyze_json, record_with, run, standin, tool};
use rustix::process::Signal;

const LIMIT: Duration = Duration::from_secs(60);

/// The number before a word in what the recorder says at the end; 0 where it does not say it.
fn said(stderr: &str, behind: &str) -> u64 {
    let words: Vec<&str> = stderr.split(|c: char| c.is_whitespace() || c == ',').filter(|w| !w.is_empty()).collect();
    let behind: Vec<&str> = behind.split(' ').collect();
    let place = words.windows(behind.len()).position(|w| w == behind);
    place.and_then(|at| words.get(at.checked_sub(1)?)?.parse().ok()).unwrap_or(0)
}

/// With the smallest rings and a recorder that may not run: what was recorded and what was lost is what was called.
#[test]
fn recorded_and_lost_is_called() {
    let program = standin().program.display().to_string();
    let options = ["--ring-size", "64KiB", "--no", "sched_switch,sched_waking,sched_wakeup,mm_page_alloc"];
    let words = [&options[..], &["--", &program, "loop", "60000"]].concat();
    let mut recorder = Recorder::start(&words);
    recorder.wait_until_attached();
    for _ in 0..3 {
        recorder.running().signal(Signal::STOP);
        std::thread::sleep(Duration::from_millis(150));
        recorder.running().signal(Signal::CONT);
        std::thread::sleep(Duration::from_millis(50));
    }
    let recording = recorder.finish(LIMIT);
    assert!(recording.run.status.success(), "{:#?}", recording.run);
    let called: u64 = recording.report().processes[0].calls.values().sum();
    let stderr = &recording.run.stderr;
    let lost = said(stderr, "call (ring-full);");
    let whole = said(stderr, "runtime calls") + said(stderr, "driver calls");
    let halves = said(stderr, "calls with one edge only");
    assert!(lost > 1000, "{stderr}");
    // Each call is two records: its entry and its return.
    assert_eq!(2 * whole + halves + lost, 2 * called, "{stderr}");
    // Every reader says so.
    let json = analyze_json(&recording.file, &[]);
    let all: u64 = stderr.lines().filter_map(|l| l.strip_prefix("LOST ")?.split(' ').next()?.parse::<u64>().ok()).sum();
    assert_eq!(json["trace"]["lost_events"], all);
    for command in ["inspect", "verify"] {
        let mut replay = Command::new(tool("ingero-replay"));
        let shown = run(replay.arg(command).arg(&recording.file), LIMIT);
        assert!(shown.stdout.contains("lost") || shown.stdout.contains("loss"), "{command}: {shown:#?}");
    }
    let rows = run(
        Command::new(tool("ingero-replay"))
            .arg("dump")
            .arg(&recording.file)
            .args(["--only", "loss", "--format", "json"]),
        LIMIT,
    );
    let rows: Vec<serde_json::Value> =
        rows.success().stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // A range for each time that it was stopped, each on one CPU.
    assert!(rows.len() >= 3, "{rows:#?}");
    for row in &rows {
        assert!(row["fields"]["to_ns"].as_u64().unwrap() >= row["ts_ns"].as_u64().unwrap(), "{row}");
        assert!(row["cpu"].as_u64().is_some_and(|cpu| cpu < 4096), "{row}");
    }
}

/// Two busy callers and ten thousands of switches a second.
#[test]
fn an_interrupt_ends_a_storm_within_two_seconds() {
    let standin = standin();
    let program = standin.program.display();
    let script = format!(
        "for i in 1 2; do timeout 20 {program} loop 100000000 & done; timeout 20 perf bench sched messaging -l 100000 >/dev/null 2>&1 & wait"
    );
    let mut recorder = Recorder::start(&["-a"]);
    recorder.wait_until_attached();
    let storm = ingero_tests::Running::start(Command::new("sh").args(["-c", &script]));
    std::thread::sleep(Duration::from_secs(3));
    let recording = recorder.stop();
    drop(storm);
    assert_eq!(recording.run.code(), 0, "{:#?}", recording.run);
    let json = recording.analyze(&[]).0;
    assert_eq!(json["trace"]["complete"], true);
    assert!(json["trace"]["events"].as_u64().unwrap() > 100_000, "{}", json["trace"]);
}

/// A call that never returns, a recursion and a nest in one storm: each return finds its own entry.
#[test]
fn calls_that_never_return_take_no_return_of_others() {
    let program = standin().program.display().to_string();
    let script = format!("{program} longjmp 50 & {program} nested 200 & {program} die 200 & wait");
    let recording = record_with(&[], &["sh".to_owned(), "-c".to_owned(), script], &[]);
    let analysis = recording.analyze(&[]);
    let reports = Report::parse_all(&recording.run.stdout);
    assert_eq!(reports.len(), 3);
    for report in reports {
        analysis.assert_process(&report.processes[0]);
    }
}
