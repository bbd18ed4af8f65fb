//! Starting, attaching, stopping, and what the recorder hands back to the shell.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use ingero_tests::{Recorder, Report, Running, record, record_with, run, standin, tool};
use rustix::process::Signal;
use tempfile::tempdir;

const LIMIT: Duration = Duration::from_secs(60);

fn waiting(args: &[&str]) -> (Running, serde_json::Value) {
    let mut all = vec!["wait"];
    all.extend(args);
    let mut program = Running::start(&mut standin().command(&all));
    let ready = program.wait_for_line("{\"ready\":", LIMIT);
    (program, serde_json::from_str(&ready).unwrap())
}

fn go(mut program: Running) -> Report {
    program.send_line("go");
    Report::parse(&program.wait(LIMIT).success().stdout)
}

#[test]
fn attaches_to_a_running_process() {
    let (program, _) = waiting(&["loop", "200"]);
    let mut recorder = Recorder::start(&["--pid", &program.pid().to_string()]);
    recorder.wait_until_attached();
    let report = go(program);
    let recording = recorder.stop();
    let analysis = recording.analyze(&[]);
    analysis.assert_lossless();
    analysis.assert_process(&report.processes[0]);
}

#[test]
fn ends_by_itself_when_the_process_it_was_asked_for_has_ended() {
    let (program, _) = waiting(&["loop", "50"]);
    let mut recorder = Recorder::start(&["--pid", &program.pid().to_string()]);
    recorder.wait_until_attached();
    let report = go(program);
    let recording = recorder.finish(Duration::from_secs(10));
    assert_eq!(recording.run.code(), 0, "{:#?}", recording.run);
    recording.analyze(&[]).assert_process(&report.processes[0]);
}

#[test]
fn follows_workers_that_existed_before_it_attached() {
    let (program, ready) = waiting(&["prefork", "4", "100"]);
    assert_eq!(ready["workers"].as_array().unwrap().len(), 4);
    let mut recorder = Recorder::start(&["--pid", &program.pid().to_string()]);
    recorder.wait_until_attached();
    let report = go(program);
    let analysis = recorder.stop().analyze(&[]);
    analysis.assert_lossless();
    for process in &report.processes {
        analysis.assert_process(process);
    }
}

#[test]
fn of_two_processes_with_one_library_only_the_asked_for_is_recorded() {
    let (asked, _) = waiting(&["loop", "100"]);
    let (other, _) = waiting(&["loop", "100"]);
    let mut recorder = Recorder::start(&["--pid", &asked.pid().to_string()]);
    recorder.wait_until_attached();
    let other = go(other);
    let asked = go(asked);
    let analysis = recorder.stop().analyze(&[]);
    analysis.assert_process(&asked.processes[0]);
    assert!(analysis.figures(other.pid, "count").is_empty());
}

#[test]
fn two_asked_for_processes_are_both_recorded() {
    let (one, _) = waiting(&["loop", "60"]);
    let (two, _) = waiting(&["nested", "60"]);
    let mut recorder = Recorder::start(&["--pid", &one.pid().to_string(), "--pid", &two.pid().to_string()]);
    recorder.wait_until_attached();
    let reports = [go(one), go(two)];
    let analysis = recorder.stop().analyze(&[]);
    for report in reports {
        analysis.assert_process(&report.processes[0]);
    }
}

#[test]
fn the_whole_system_is_every_process() {
    let (one, _) = waiting(&["loop", "70"]);
    let mut recorder = Recorder::start(&["-a"]);
    recorder.wait_until_attached();
    let report = go(one);
    // Started after the recorder: its library is known, or found when it is mapped.
    let late = run(&mut standin().command(&["dlopen", "70"]), LIMIT).success();
    let late = Report::parse(&late.stdout);
    let analysis = recorder.stop().analyze(&[]);
    analysis.assert_lossless();
    analysis.assert_process(&report.processes[0]);
    analysis.assert_process(&late.processes[0]);
}

#[test]
fn an_interrupt_ends_it_within_two_seconds_with_a_complete_file() {
    for signal in [Signal::INT, Signal::TERM] {
        let program = standin().program.display().to_string();
        let mut recorder = Recorder::start(&["--", &program, "forever"]);
        recorder.wait_until_attached();
        std::thread::sleep(Duration::from_millis(300));
        recorder.running().signal(signal);
        let recording = recorder.finish(Duration::from_secs(2));
        let analysis = recording.analyze(&[]);
        analysis.assert_lossless();
        let calls: u64 = analysis
            .processes()
            .flat_map(|p| p["ops"].as_array().into_iter().flatten())
            .filter_map(|op| op["count"].as_u64())
            .sum();
        assert!(calls > 20, "{calls} calls");
    }
}

#[test]
fn a_duration_ends_it() {
    let mut recorder = Recorder::start(&["-a", "--duration", "1s"]);
    recorder.wait_until_attached();
    let recording = recorder.finish(Duration::from_secs(6));
    assert_eq!(recording.run.code(), 0, "{:#?}", recording.run);
    let analysis = recording.analyze(&[]);
    analysis.assert_lossless();
    let duration_ns = analysis.0["trace"]["duration_ns"].as_u64().unwrap();
    assert!((800_000_000..3_000_000_000).contains(&duration_ns), "{duration_ns}");
}

#[test]
fn the_exit_code_is_the_commands_own() {
    for code in [0, 1, 7, 124, 255] {
        let recording = record(&["exitcode", &code.to_string()]);
        assert_eq!(recording.run.code(), code, "{:#?}", recording.run);
        recording.analyze(&[]).assert_lossless();
    }
    for signal in [6, 9, 15] {
        let recording = record(&["signal", &signal.to_string()]);
        assert_eq!(recording.run.code(), 128 + signal, "{:#?}", recording.run);
        recording.analyze(&[]).assert_lossless();
    }
}

/// Whoever ignores SIGCHLD has children that vanish with their exit codes; the recorder must not inherit that.
#[test]
fn the_exit_code_survives_an_ignored_sigchld() {
    let folder = tempdir().unwrap();
    let _alone = ingero_tests::kernel_lock();
    let recorded = |name: &str, words: &[&str]| {
        let mut command = Command::new("env");
        command
            .arg("--ignore-signal=CHLD")
            .arg(tool("ingero-record"))
            .arg("-q")
            .arg("-o")
            .arg(folder.path().join(name));
        run(command.arg("--").args(words), LIMIT)
    };
    let failed = recorded("failed.igt", &["sh", "-c", "exit 7"]);
    assert_eq!(failed.code(), 7, "{failed:#?}");
    // The command finds it as it would without the recorder.
    let seen = recorded("seen.igt", &["grep", "SigIgn", "/proc/self/status"]).success().stdout;
    let ignored = u64::from_str_radix(seen.trim().trim_start_matches("SigIgn:").trim(), 16).unwrap();
    assert_ne!(ignored & (1 << 16), 0, "{seen}");
}

/// A child that is forked while the recorder attaches is no stranger, nor is what it forks in turn.
#[test]
fn follows_children_that_are_born_while_it_attaches() {
    let script = "while :; do sleep 20 & sleep 0.005; done";
    let parent = Running::start(Command::new("sh").args(["-c", script]));
    let mut recorder = Recorder::start(&["--pid", &parent.pid().to_string()]);
    recorder.wait_until_attached();
    let recording = recorder.stop();
    let mut dump = Command::new(tool("ingero-replay"));
    dump.arg("dump").arg(&recording.file).args(["--only", "process", "--format", "json"]);
    let mut followed = std::collections::BTreeMap::new();
    for line in run(&mut dump, LIMIT).success().stdout.lines() {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        let fields = &row["fields"];
        if fields["parent_pid"] == parent.pid() {
            *followed.entry(fields["task"]["pid"].as_u64().unwrap()).or_insert(false) |= fields["followed"] == 1;
        }
    }
    // The short ones may be dying while the recorder begins: nobody has to follow those.
    followed.retain(|pid, _| std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|args| args == b"sleep\x0020\0"));
    assert!(followed.len() > 10, "{followed:?}");
    assert!(followed.values().all(|&f| f), "{followed:?}");
}

#[test]
fn what_cannot_be_executed_is_told_as_env_tells_it() {
    let folder = tempdir().unwrap();
    let plain = folder.path().join("plain");
    fs::write(&plain, "no program").unwrap();
    for (command, code) in [
        (plain.display().to_string(), 126),
        (folder.path().display().to_string(), 126),
        ("/nonexistent/program".to_owned(), 127),
        ("no-such-program-anywhere".to_owned(), 127),
    ] {
        let recording = record_with(&[], std::slice::from_ref(&command), &[]);
        assert_eq!(recording.run.code(), code, "{command}: {:#?}", recording.run);
        assert_eq!(recording.run.stderr.trim().lines().count(), 1, "{:#?}", recording.run);
        let as_env = run(Command::new("env").arg(&command), LIMIT);
        assert_eq!(as_env.code(), code, "{as_env:#?}");
    }
}

#[test]
fn the_commands_output_and_input_are_its_own() {
    let command = ["sh", "-c", "echo out; echo err >&2; exit 3"].map(str::to_owned);
    let recording = record_with(&[], &command, &[]);
    assert_eq!(recording.run.code(), 3);
    assert_eq!(recording.run.stdout, "out\n");
    assert!(recording.run.stderr.contains("err\n"));
}

/// A recording holds names, command lines and addresses of other users' processes.
#[test]
fn a_recording_is_for_its_owner_alone() {
    let recording = record(&["loop", "1"]);
    let mode = fs::metadata(&recording.file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn no_args_keeps_command_lines_out() {
    let secret = "4711081500";
    let command = ["sh", "-c", "exit 0", secret].map(str::to_owned);
    let plain = record_with(&[], &command, &[]);
    let redacted = record_with(&["--no-args"], &command, &[]);
    let dump = |file| {
        let mut replay = Command::new(tool("ingero-replay"));
        replay.arg("dump").arg(file);
        run(&mut replay, LIMIT).success().stdout
    };
    assert!(dump(&plain.file).contains(secret));
    assert!(!dump(&redacted.file).contains(secret));
}

/// The file is written in whole blocks as the recording goes: `kill -9` costs the last moment, not the recording.
#[test]
fn a_killed_recorder_leaves_a_readable_file() {
    let program = standin().program.display().to_string();
    let mut recorder = Recorder::start(&["--", &program, "forever"]);
    recorder.wait_until_attached();
    std::thread::sleep(Duration::from_secs(1));
    recorder.running().signal(Signal::KILL);
    let recording = recorder.finish(Duration::from_secs(2));
    let file = [recording.file.clone(), recording.file.with_extension("igt.tmp")]
        .into_iter()
        .find(|f| f.exists())
        .expect("nothing was written");
    let run = ingero_tests::analyze(&file, &["--format", "json"]);
    assert_eq!(run.code(), 2);
    assert!(run.stderr.lines().count() == 1 && run.stderr.contains("was cut off before its end"), "{}", run.stderr);
    let json: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(json["trace"]["complete"], false);
    assert!(json["trace"]["events"].as_u64().unwrap() > 0);
}

/// A shell runs `line`; `$0` is the recorder and `$1` a file in `folder`.
fn in_shell(folder: &tempfile::TempDir, line: &str) -> ingero_tests::Run {
    let _alone = ingero_tests::kernel_lock();
    let mut shell = Command::new("sh");
    shell.args(["-c", line]).arg(tool("ingero-record")).arg(folder.path().join("run.igt"));
    run(&mut shell, LIMIT)
}

/// Messages that nobody can read are no reason to end otherwise.
#[test]
fn the_exit_code_survives_a_standard_error_that_takes_nothing() {
    for stderr in ["2>/dev/full", "2>&-"] {
        let folder = tempdir().unwrap();
        let run = in_shell(&folder, &format!("\"$0\" -o \"$1\" -- sh -c 'exit 5' {stderr}"));
        assert_eq!(run.code(), 5, "{stderr}: {run:#?}");
        let json = ingero_tests::analyze_json(&folder.path().join("run.igt"), &[]);
        assert_eq!(json["trace"]["complete"], true, "{stderr}");
    }
    for (name, args) in [("ingero-analyze", "/nonexistent"), ("ingero-convert", "/nonexistent")] {
        let line = format!("{} {args} 2>/dev/full", tool(name).display());
        assert_eq!(run(Command::new("sh").args(["-c", &line]), LIMIT).code(), 2, "{name}");
    }
}

/// Daemons often ignore SIGCHLD, and programs that they start inherit that.
#[test]
fn the_exit_code_survives_a_parent_that_ignores_its_children() {
    let folder = tempdir().unwrap();
    // A shell cannot do it for others.
    let python =
        "import os,signal,sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])";
    let run = in_shell(&folder, &format!("python3 -c '{python}' \"$0\" -q -o \"$1\" -- sh -c 'exit 7'"));
    assert_eq!(run.code(), 7, "{run:#?}");
}

/// The file cannot even be ended: the recorder says so, once the command has ended.
#[test]
fn a_file_that_may_grow_no_more_does_not_leave_the_command_behind() {
    let folder = tempdir().unwrap();
    let run = in_shell(&folder, "ulimit -f 32; \"$0\" -o \"$1\" -- sh -c 'sleep 1; echo ended; exit 4'");
    assert_eq!(run.code(), 125, "{run:#?}");
    assert_eq!(run.stdout, "ended\n", "{run:#?}");
    assert!(run.stderr.contains("the command ended with code 4"), "{run:#?}");
    assert!(folder.path().join("run.igt").metadata().unwrap().len() <= 32 * 1024);
}

#[test]
fn a_pipe_that_nobody_reads_is_refused() {
    let folder = tempdir().unwrap();
    let run = in_shell(&folder, "mkfifo \"$1\"; \"$0\" --force -o \"$1\" -- sh -c 'echo ran'");
    assert_eq!(run.code(), 125, "{run:#?}");
    assert_eq!(run.stdout, "", "{run:#?}");
    assert!(run.stderr.contains("is a pipe that nobody reads"), "{run:#?}");
}
