//! Whatever way a library gets into a process, and however short the process lives: every call, once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use ingero_tests::{Recorder, Recording, Report, Running, analyze_json, record, record_with, run, standin, tool};
use rustix::process::Signal;
use tempfile::tempdir;

const LIMIT: Duration = Duration::from_secs(60);

/// Every process of every report, exactly.
fn assert_all(recording: &Recording, reports: usize) {
    assert!(recording.run.status.success(), "{:#?}", recording.run);
    let analysis = recording.analyze(&[]);
    analysis.assert_lossless();
    let found = Report::parse_all(&recording.run.stdout);
    assert_eq!(found.len(), reports);
    for report in &found {
        for process in &report.processes {
            analysis.assert_process(process);
        }
    }
}

/// The folder is named where nobody can read it before: the program puts it together.
#[test]
fn sixty_short_programs_from_a_folder_that_nobody_could_know() {
    let folder = tempdir().unwrap();
    let _ = standin().copy_to(folder.path());
    let (first, second) = folder.path().to_str().unwrap().split_at(3);
    let script = format!("a={first}; b={second}; for i in $(seq 60); do $a$b/standin loop 3; done");
    let recording = record_with(&[], &["sh".to_owned(), "-c".to_owned(), script], &[]);
    assert_all(&recording, 60);
}

/// As above, in a mount namespace that the command itself makes: there is no path to the library from outside.
#[test]
fn short_programs_in_a_mount_namespace_of_their_own() {
    let script = format!(
        "exec unshare --mount sh -c 'mount -t tmpfs tmpfs /mnt && cp -r {} /mnt/there && \
         for i in 1 2 3 4 5; do /mnt/there/standin loop 3; done'",
        standin().dir.display()
    );
    assert_all(&record_with(&[], &["sh".to_owned(), "-c".to_owned(), script], &[]), 5);
}

/// The working folder and the environment say where the libraries are.
#[test]
fn a_library_by_a_relative_path_of_the_environment() {
    let (programs, libraries) = (tempdir().unwrap(), tempdir().unwrap());
    let there = standin().copy_to(libraries.path());
    let program = programs.path().join("standin");
    fs::rename(&there.program, &program).unwrap();
    let (first, second) = libraries.path().to_str().unwrap().split_at(3);
    let (p, q) = program.to_str().unwrap().split_at(3);
    let script = format!("cd $(printf %s%s {first} {second}); LD_LIBRARY_PATH=. $(printf %s%s {p} {q}) loop 4");
    assert_all(&record_with(&[], &["sh".to_owned(), "-c".to_owned(), script], &[]), 1);
}

#[test]
fn five_hundred_children_that_live_for_a_moment() {
    let script = format!("for i in 1 2 3 4 5 6 7 8 9 10; do {} forked 50 2; done", standin().program.display());
    let recording = record_with(&[], &["sh".to_owned(), "-c".to_owned(), script], &[]);
    assert_all(&recording, 10);
    let reports = Report::parse_all(&recording.run.stdout);
    assert_eq!(reports.iter().map(|r| r.processes.len()).sum::<usize>(), 510);
}

#[test]
fn single_links_see_what_multi_links_see() {
    // Detaching takes 0.1 s for each: the file is complete before that.
    let program = standin().program.display().to_string();
    let recording = record_with(&["--single-links", "--layers", "driver"], &[program, "loop".into(), "40".into()], &[]);
    assert!(recording.run.status.success(), "{:#?}", recording.run);
    let process = &recording.report().processes[0];
    let due: BTreeMap<String, u64> =
        process.calls.iter().filter(|(s, _)| !s.starts_with("cuda")).map(|(s, &n)| (s.clone(), n)).collect();
    assert_eq!(recording.analyze(&[]).figures(process.pid, "count"), due);
}

/// Fifty thousand threads that die inside a call leave nothing behind that later calls would miss.
#[test]
fn fifty_thousand_threads_that_die_inside_a_call() {
    let recording = record(&["die", "50000"]);
    assert!(recording.run.status.success(), "{:#?}", recording.run);
    // The kernel does not run a tracepoint's program inside another program: a page allocation may be missed, and is
    // counted. No call is.
    let losses =
        run(Command::new(tool("ingero-replay")).arg("dump").arg(&recording.file).args(["--only", "loss"]), LIMIT);
    let losses = losses.success().stdout;
    assert!(losses.lines().filter(|l| l.contains("loss")).all(|l| l.contains("mm_page_alloc")), "{losses}");
    let analysis = recording.analyze(&[]);
    let process = &recording.report().processes[0];
    assert_eq!(analysis.figures(process.pid, "count")["cudaStreamSynchronize"], 50_000);
    assert_eq!(analysis.figures(process.pid, "unreturned")["cudaStreamSynchronize"], 50_000);
}

/// Whoever is stopped for the recorder goes on, even if the recorder is killed at that moment.
#[test]
fn nobody_stays_stopped() {
    for round in 0..4_u32 {
        let folder = tempdir().unwrap();
        // Different programs, so that each is held.
        for n in 0..40 {
            fs::copy("/bin/sleep", folder.path().join(format!("sleep{n}"))).unwrap();
        }
        let script =
            format!("echo begun; for i in $(seq 0 39); do {}/sleep$i 0.01; done; echo all", folder.path().display());
        let mut recorder = Recorder::start(&["--", "sh", "-c", &script]);
        let _ = recorder.running().wait_for_line("begun", LIMIT);
        std::thread::sleep(Duration::from_millis(u64::from(round) * 37));
        recorder.running().signal(Signal::KILL);
        let run = recorder.finish_with_output(Duration::from_secs(20), "all");
        assert!(run.contains("all"), "{run}");
    }
}

/// A shell that manages jobs would take a held program for a stopped job.
#[test]
fn a_shell_with_jobs_sees_none_stopped() {
    let folder = tempdir().unwrap();
    fs::copy("/bin/true", folder.path().join("mine")).unwrap();
    let script = format!("set -m; {0}/mine & wait; jobs; {0}/mine; echo done $?", folder.path().display());
    let recording = record_with(&[], &["bash".to_owned(), "-c".to_owned(), script], &[]);
    let all = format!("{}{}", recording.run.stdout, recording.run.stderr);
    assert!(recording.run.stdout.ends_with("done 0\n") && !all.contains("topped"), "{all}");
}

/// One interrupt is enough, though the command cannot even see it.
#[test]
fn an_interrupt_ends_the_recording_of_a_stopped_command() {
    let dir = tempdir().unwrap();
    let _alone = ingero_tests::kernel_lock();
    let file = dir.path().join("run.igt");
    let mut command = Command::new(tool("ingero-record"));
    command.arg("-o").arg(&file).args(["--", "sh", "-c", "echo pid $$; kill -STOP $$; echo on"]);
    let mut recorder = Running::start(&mut command);
    let pid: i32 = recorder.wait_for_line("pid ", LIMIT)[4..].parse().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    recorder.interrupt();
    let begun = Instant::now();
    let ended = recorder.wait(Duration::from_secs(2));
    assert!(begun.elapsed() < Duration::from_secs(2), "{ended:#?}");
    assert_eq!(analyze_json(&file, &[])["trace"]["complete"], true);
    let _ = run(Command::new("kill").args(["-KILL", &pid.to_string()]), LIMIT);
}
