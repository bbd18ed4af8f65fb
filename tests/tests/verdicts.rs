//! The reason that is given is the reason: known causes are named, and nothing is named where nothing is wrong.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::time::Duration;

use ingero_tests::{Analysis, Quota, Recording, record, record_with, run, standin, tool};
use serde_json::Value;

fn incidents_of(recording: &Recording) -> (Analysis, Vec<Value>) {
    let analysis = recording.analyze(&["--per-process"]);
    analysis.assert_lossless();
    let incidents = analysis.incidents();
    for incident in &incidents {
        let text = |key: &str| incident[key].as_str().is_some_and(|t| !t.trim().is_empty());
        assert!(text("summary") && text("root_cause"), "{incident:#}");
        assert!(!incident["evidence"].as_array().unwrap().is_empty(), "{incident:#}");
        assert!(!incident["timeline"].as_array().unwrap().is_empty(), "{incident:#}");
        let share = incident["share"].as_f64().unwrap();
        let due = match share {
            s if s >= 0.20 => "HIGH",
            s if s >= 0.05 => "MEDIUM",
            _ => "LOW",
        };
        assert_eq!(incident["severity"], due, "{incident:#}");
        assert!((0.0..=1.0).contains(&share), "{incident:#}");
    }
    (analysis, incidents)
}

/// Incidents that somebody would act on. On a busy machine a millisecond lost to a stranger is true, and LOW.
fn serious(incidents: &[Value]) -> Vec<&Value> {
    incidents.iter().filter(|i| i["severity"] != "LOW").collect()
}

/// The whole of what is claimed, for looking up a word.
fn claim(incident: &Value) -> String {
    format!("{} {}", incident["summary"], incident["root_cause"])
}

#[test]
fn workers_whose_cpu_is_taken_starve_the_gpu() {
    let recording = record(&["contention", "4", "2", "3"]);
    let (analysis, incidents) = incidents_of(&recording);
    let report = recording.report();
    let first = incidents.first().expect("a starving process and no incident");
    assert_eq!(first["pid"], report.pid, "{first:#}");
    assert_eq!(first["severity"], "HIGH", "{first:#}");
    assert!(claim(first).contains("hog"), "the busy processes are not named: {first:#}");
    // The same in the workers' own figures: runnable, behind the busy processes.
    for worker in report.of_role("worker") {
        let process = analysis.process(worker.pid).unwrap();
        let runnable = process["off_cpu"]["runnable_ns"].as_u64().unwrap();
        let behind_hogs: u64 = process["runnable_behind"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|b| b["name"] == "hog")
            .filter_map(|b| b["ns"].as_u64())
            .sum();
        assert!(runnable > 1_000_000_000, "{process:#}");
        assert!(behind_hogs * 2 > runnable, "{process:#}");
    }
    // One cause, one incident: not one per worker or per call.
    let mut causes: Vec<_> =
        incidents.iter().map(|i| (i["kind"].as_str(), i["pid"].as_u64(), i["phase"].as_u64())).collect();
    causes.sort_unstable();
    assert!(causes.windows(2).all(|two| two[0] != two[1]), "{incidents:#?}");
    assert!(serious(&incidents).len() <= 3, "{incidents:#?}");
}

#[test]
fn the_fixed_run_loses_the_incident() {
    let recording = record(&["contention", "3", "2", "0"]);
    let (_, incidents) = incidents_of(&recording);
    assert!(!incidents.iter().any(|i| claim(i).contains("hog")), "{incidents:#?}");
}

#[test]
fn a_main_process_that_does_all_the_work_itself_is_to_blame() {
    let recording = record(&["busy", "150"]);
    let (analysis, incidents) = incidents_of(&recording);
    let first = incidents.first().expect("a starving process and no incident");
    let pid = recording.report().pid;
    assert_eq!(first["pid"], pid, "{first:#}");
    assert_eq!(first["severity"], "HIGH", "{first:#}");
    // No call of it is slow, no worker exists: only the gaps tell.
    let phases = analysis.0["phases"].as_array().unwrap();
    let starved =
        phases.iter().filter(|p| p["pid"] == pid).filter_map(|p| p["gaps"]["share"].as_f64()).fold(0.0, f64::max);
    assert!(starved > 0.9, "{phases:#?}");
    let claim = claim(first).to_lowercase();
    assert!(claim.contains("itself") || claim.contains("own") || claim.contains("running"), "{first:#}");
    assert!(!claim.contains("preempt") || claim.contains("not preempt"), "{first:#}");
}

#[test]
fn a_healthy_run_has_no_incident() {
    let command = [standin().program.display().to_string(), "healthy".into(), "3000".into()];
    let recording = record_with(&[], &command, &[("STANDIN_LAUNCH_NS", "20000"), ("STANDIN_SYNC_US", "200")]);
    let (_, incidents) = incidents_of(&recording);
    assert!(serious(&incidents).is_empty(), "{incidents:#?}");
}

#[test]
fn sleeping_on_purpose_is_no_incident() {
    let recording = record(&["sleeper", "40"]);
    let (_, incidents) = incidents_of(&recording);
    assert!(serious(&incidents).is_empty(), "{incidents:#?}");
}

#[test]
fn the_same_file_gives_the_same_report() {
    let recording = record(&["contention", "1", "2", "2"]);
    let report = |format: &str| {
        let mut command = std::process::Command::new(tool("ingero-analyze"));
        command.arg(&recording.file).args(["--per-process", "--format", format]);
        run(&mut command, Duration::from_secs(30)).success().stdout
    };
    for format in ["text", "json"] {
        assert_eq!(report(format), report(format));
    }
    let text = report("text");
    assert!(text.contains("worker") && text.contains("hog"), "{text}");
}

#[test]
fn ranges_hold_the_calls_that_began_in_them() {
    let recording = record(&["sleeper", "40"]);
    let launches = |args: &[&str]| {
        recording
            .analyze(args)
            .figures(recording.report().pid, "count")
            .get("cudaLaunchKernel")
            .copied()
            .unwrap_or_default()
    };
    let all = launches(&[]);
    let (first, second) = (launches(&["--to", "1s"]), launches(&["--from", "1s"]));
    assert_eq!(all, 40);
    assert_eq!(first + second, all);
    assert!((10..=20).contains(&first), "{first}");
    // "Since" counts from the trace's end, not from now.
    let late = launches(&["--since", "500ms"]);
    assert!((5..=11).contains(&late), "{late}");
}

#[test]
fn waits_of_a_cpu_quota_are_nobodys_fault() {
    let quota = Quota::new(20_000, 100_000);
    let command = quota.group().command(&standin().program, &["busy", "20"]);
    let recording = record_with(&[], &command, &[]);
    let (analysis, incidents) = incidents_of(&recording);
    let process = analysis.process(recording.report().pid).unwrap();
    let throttled = process["off_cpu"]["throttled_ns"].as_u64().unwrap();
    let kernel = quota.throttled_ns();
    assert!(kernel > 500_000_000, "the quota did not bite: {kernel}");
    assert!(
        throttled > kernel / 10 * 8 && throttled < kernel / 10 * 12,
        "{throttled} against the kernel's {kernel}: {process:#}"
    );
    let behind: u64 = process["runnable_behind"].as_array().unwrap().iter().filter_map(|b| b["ns"].as_u64()).sum();
    assert!(behind < throttled / 2, "{process:#}");
    let first = incidents.first().expect("a throttled process and no incident");
    let claim = claim(first).to_lowercase();
    assert!(claim.contains("quota") || claim.contains("throttl"), "{first:#}");
}
