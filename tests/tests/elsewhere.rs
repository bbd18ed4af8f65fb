//! Libraries and processes that are not where a path says: namespaces, replaced files, hard links, sandboxes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use ingero_tests::{Analysis, Process, Recorder, Report, Running, record, record_with, standin};
use tempfile::tempdir;

const LIMIT: Duration = Duration::from_secs(60);

fn shell(script: &str) -> [String; 3] {
    ["sh".to_owned(), "-c".to_owned(), script.to_owned()]
}

/// Somebody in the recording did exactly this, whatever number it has in the eyes of its namespace.
fn assert_somebody(analysis: &Analysis, process: &Process) {
    let everybody: Vec<BTreeMap<String, u64>> = analysis
        .processes()
        .filter_map(|p| p["pid"].as_u64())
        .map(|pid| analysis.figures(pid, "count"))
        .filter(|figures| !figures.is_empty())
        .collect();
    assert_eq!(everybody, vec![process.calls.clone()]);
}

#[test]
fn a_library_in_another_mount_namespace() {
    let standin = standin();
    let script = format!(
        "exec unshare --mount sh -c 'mount -t tmpfs tmpfs /mnt && cp -r {} /mnt/there && /mnt/there/standin loop 50'",
        standin.dir.display()
    );
    record_with(&[], &shell(&script), &[]).assert_exact();
}

#[test]
fn a_process_in_another_pid_namespace() {
    let script = format!("exec unshare --pid --fork --kill-child {} loop 50", standin().program.display());
    let recording = record_with(&[], &shell(&script), &[]);
    let report = recording.report();
    assert_eq!(report.pid, 1, "it knows itself by its number inside");
    let analysis = recording.analyze(&[]);
    analysis.assert_lossless();
    assert!(analysis.process(1).is_none_or(|p| p["ops"].as_array().unwrap().is_empty()));
    assert_somebody(&analysis, &report.processes[0]);
}

#[test]
fn a_library_that_was_replaced_on_disk_while_in_use() {
    for replace in [true, false] {
        let folder = tempdir().unwrap();
        let there = standin().copy_to(folder.path());
        let mut program = Running::start(&mut there.command(&["wait", "loop", "80"]));
        let _ = program.wait_for_line("{\"ready\":", LIMIT);
        if replace {
            let _ = standin().copy_to(folder.path());
        } else {
            fs::remove_file(&there.libcudart).unwrap();
            fs::remove_file(&there.libcuda).unwrap();
        }
        let mut recorder = Recorder::start(&["--pid", &program.pid().to_string()]);
        recorder.wait_until_attached();
        program.send_line("go");
        let report = Report::parse(&program.wait(LIMIT).success().stdout);
        let analysis = recorder.stop().analyze(&[]);
        analysis.assert_lossless();
        analysis.assert_process(&report.processes[0]);
    }
}

#[test]
fn a_library_with_two_paths_is_probed_once() {
    let (one, two) = (tempdir().unwrap(), tempdir().unwrap());
    let first = standin().copy_to(one.path());
    for file in [&first.libcuda, &first.libcudart, &first.program] {
        fs::hard_link(file, two.path().join(file.file_name().unwrap())).unwrap();
    }
    let script = format!(
        "{0}/standin loop 20; {1}/standin loop 30; {0}/standin loop 40",
        one.path().display(),
        two.path().display()
    );
    let recording = record_with(&[], &shell(&script), &[]);
    let analysis = recording.analyze(&[]);
    analysis.assert_lossless();
    let reports = Report::parse_all(&recording.run.stdout);
    assert_eq!(reports.len(), 3);
    for report in reports {
        analysis.assert_process(&report.processes[0]);
    }
}

#[test]
fn two_copies_of_a_library_in_one_recording() {
    let (one, two) = (tempdir().unwrap(), tempdir().unwrap());
    let script = format!(
        "{}/standin loop 20 & {}/standin loop 30; wait",
        standin().copy_to(one.path()).dir.display(),
        standin().copy_to(two.path()).dir.display()
    );
    let recording = record_with(&[], &shell(&script), &[]);
    let analysis = recording.analyze(&[]);
    analysis.assert_lossless();
    for report in Report::parse_all(&recording.run.stdout) {
        analysis.assert_process(&report.processes[0]);
    }
}

/// Return probes must not cost a sandboxed program its life: where the kernel cannot help, the recorder goes without them.
#[test]
fn a_program_under_a_strict_seccomp_filter_survives() {
    let recording = record(&["seccomp", "50"]);
    assert!(recording.run.status.success(), "{:#?}", recording.run);
    recording.assert_exact();
}
