//! Every call of every process is in the recording, once. The figures are compared with what the stand-in itself counted.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

use ingero_tests::{Recording, analyze, calls, record, record_with, standin};
use tempfile::tempdir;

/// Records a program of the stand-in other than `standin`.
fn record_program(program: &std::path::Path, args: &[&str]) -> Recording {
    let mut command = vec![program.display().to_string()];
    command.extend(args.iter().map(|&a| a.to_owned()));
    record_with(&[], &command, &[])
}

#[test]
fn a_loop_of_a_hundred_is_exact_in_twenty_recordings_in_a_row() {
    for round in 0..20 {
        let recording = record(&["loop", "100"]);
        let analysis = recording.assert_exact();
        let pid = recording.report().pid;
        let figures = analysis.figures(pid, "count");
        assert_eq!(figures.len(), 12, "round {round}: {figures:?}");
        assert!(figures.values().all(|&n| n == 100), "round {round}: {figures:?}");
    }
}

#[test]
fn a_loop_of_a_hundred_thousand_loses_nothing() {
    record(&["loop", "100000"]).assert_exact();
}

#[test]
fn every_function_is_recorded_as_often_as_it_was_called() {
    let recording = record(&["every", "25"]);
    let analysis = recording.assert_exact();
    let layer = |symbol: &str| analysis.op(recording.report().pid, symbol).map(|op| op["layer"].clone());
    assert_eq!(layer("cudaMemcpy_ptds").unwrap(), "runtime");
    assert_eq!(layer("cuMemcpyHtoDAsync_v2_ptsz").unwrap(), "driver");
    assert_eq!(layer("cudaGraphLaunch").unwrap(), "graph");
}

/// One symbol table entry more at the same address must not make a second probe.
#[test]
fn a_local_alias_does_not_count_twice() {
    let recording = record(&["healthy", "10"]);
    let analysis = recording.assert_exact();
    assert!(analysis.op(recording.report().pid, "cudaLaunchKernel_local").is_none());
}

#[test]
fn forked_workers_are_kept_apart() {
    let recording = record(&["forked", "6", "50"]);
    let analysis = recording.assert_exact();
    let report = recording.report();
    for worker in report.of_role("worker") {
        let seen = analysis.process(worker.pid).unwrap();
        assert_eq!(seen["parent_pid"], report.pid, "{seen:#}");
        assert_eq!(analysis.figures(worker.pid, "count")["cudaLaunchKernel"], 50);
    }
}

#[test]
fn a_child_that_a_helper_thread_forks_belongs_to_the_process() {
    let recording = record(&["forkthread", "20"]);
    let analysis = recording.assert_exact();
    let report = recording.report();
    let child = report.of_role("child of a helper thread").next().unwrap();
    assert_eq!(analysis.process(child.pid).unwrap()["parent_pid"], report.pid);
}

#[test]
fn threads_are_counted_in_their_process() {
    let recording = record(&["threads", "8", "500"]);
    let analysis = recording.assert_exact();
    let pid = recording.report().pid;
    assert_eq!(analysis.figures(pid, "count")["cudaMalloc"], 4000);
    // No thread shows up as a process of its own.
    let with_calls = analysis.processes().filter(|p| p["ops"].as_array().is_some_and(|o| !o.is_empty())).count();
    assert_eq!(with_calls, 1);
    let tids: BTreeSet<_> = calls(&recording.file).iter().map(|c| c.tid).collect();
    assert_eq!(tids.len(), 8);
}

#[test]
fn calls_inside_calls_are_paired_innermost_first() {
    let recording = record(&["nested", "40"]);
    let analysis = recording.assert_exact();
    let pid = recording.report().pid;
    assert_eq!(analysis.figures(pid, "count")["cudaLaunchKernel"], 40 * 5);
    // Each call lies wholly inside the one that was open when it began.
    let mut open: Vec<(u64, u64)> = Vec::new();
    let mut deepest = 0;
    for call in calls(&recording.file) {
        let end = call.ts_ns + call.dur_ns.unwrap();
        open.retain(|&(_, outer_end)| outer_end > call.ts_ns);
        if let Some(&(start, outer_end)) = open.last() {
            assert!(start <= call.ts_ns && end <= outer_end, "{call:?}");
        }
        open.push((call.ts_ns, end));
        deepest = deepest.max(open.len());
    }
    // Five launches deep, and the innermost one's driver call.
    assert_eq!(deepest, 6);
    // Time of nested calls is counted once.
    let process = analysis.process(pid).unwrap();
    let own: u64 = process["ops"].as_array().unwrap().iter().map(|op| op["self_ns"].as_u64().unwrap()).sum();
    assert!(own <= analysis.0["trace"]["duration_ns"].as_u64().unwrap());
}

#[test]
fn a_library_that_comes_late_is_recorded_from_its_first_call() {
    record(&["dlopen", "50"]).assert_exact();
}

#[test]
fn a_library_of_another_path_is_another_library() {
    let folder = tempdir().unwrap();
    let library = standin().copy_to(folder.path()).libcudart;
    record_program(&standin().late, &["50", library.to_str().unwrap()]).assert_exact();
}

#[test]
fn a_process_that_executes_itself_stays_one_process() {
    let recording = record(&["exec", "30"]);
    let analysis = recording.assert_exact();
    let count = analysis.figures(recording.report().pid, "count");
    assert_eq!(count["cudaFree"], 60);
}

#[test]
fn a_process_outlives_its_main_thread() {
    let recording = record(&["mainexit", "30"]);
    recording.assert_exact();
}

#[test]
fn a_static_runtime_with_symbols_is_recorded() {
    record_program(&standin().program_static, &["loop", "50"]).assert_exact();
}

/// Without symbols only the driver can be seen; the report has to say so.
#[test]
fn a_stripped_static_runtime_leaves_the_driver() {
    let recording = record_program(&standin().program_stripped, &["loop", "50"]);
    let analysis = recording.analyze(&[]);
    analysis.assert_lossless();
    let count = analysis.figures(recording.report().pid, "count");
    assert_eq!(count.len(), 6, "{count:?}");
    assert!(count.iter().all(|(s, &n)| !s.starts_with("cuda") && n == 50), "{count:?}");
    let text = analyze(&recording.file, &[]).success().stdout;
    assert!(text.contains("static"), "nothing is said of the runtime that cannot be seen: {text}");
}

#[test]
fn threads_carry_the_names_of_their_moment() {
    let recording = record(&["names", "5"]);
    recording.assert_exact();
    let names: BTreeSet<_> = calls(&recording.file).into_iter().map(|c| c.thread).collect();
    for due in ["first name", "a\"b\\c\n\u{1} d", "after"] {
        assert!(names.contains(due), "{names:?}");
    }
}
