//! What a recording must not do to what it records, and what it needs to be allowed to do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use ingero_tests::{Recorder, Report, Running, analyze_json, record_with, run, standin, tool};
use object::{Object, ObjectSegment, ObjectSymbol};
use rustix::process::Signal;

const LIMIT: Duration = Duration::from_secs(60);
#[cfg(target_arch = "x86_64")]
const BREAKPOINT: u8 = 0xcc;

/// Address in a process of a function of a library.
fn address_of(pid: u32, library: &Path, symbol: &str) -> u64 {
    let bytes = fs::read(library).unwrap();
    let elf = object::File::parse(bytes.as_slice()).unwrap();
    let address = elf.dynamic_symbols().find(|s| s.name() == Ok(symbol)).unwrap().address();
    let segment = elf.segments().find(|s| (s.address()..s.address() + s.size()).contains(&address)).unwrap();
    let offset = address - segment.address() + segment.file_range().0;
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let name = library.file_name().unwrap().to_str().unwrap();
    maps.lines()
        .filter(|line| line.ends_with(name) && line.contains("r-xp"))
        .find_map(|line| {
            let mut words = line.split(' ');
            let (start, end) = words.next()?.split_once('-')?;
            let number = |text| u64::from_str_radix(text, 16).unwrap();
            let (start, end, from) = (number(start), number(end), number(words.nth(1)?));
            let at = start + offset.checked_sub(from)?;
            (at < end).then_some(at)
        })
        .unwrap()
}

fn byte_at(pid: u32, address: u64) -> u8 {
    let mut byte = [0];
    File::open(format!("/proc/{pid}/mem")).unwrap().read_exact_at(&mut byte, address).unwrap();
    byte[0]
}

fn waiting(args: &[&str]) -> Running {
    let mut all = vec!["wait"];
    all.extend(args);
    let mut program = Running::start(&mut standin().command(&all));
    let _ = program.wait_for_line("{\"ready\":", LIMIT);
    program
}

/// A probe is a changed byte in somebody else's program: it must be as it was, however the recorder ends.
#[cfg(target_arch = "x86_64")]
#[test]
fn no_probe_stays_behind() {
    for end in [Signal::INT, Signal::KILL] {
        let mut program = waiting(&["loop", "100"]);
        let at = address_of(program.pid(), &standin().libcudart, "cudaMalloc");
        let before = byte_at(program.pid(), at);
        assert_ne!(before, BREAKPOINT);
        let mut recorder = Recorder::start(&["--pid", &program.pid().to_string()]);
        recorder.wait_until_attached();
        assert_eq!(byte_at(program.pid(), at), BREAKPOINT);
        recorder.running().signal(end);
        drop(recorder.finish(Duration::from_secs(2)));
        let deadline = Instant::now() + Duration::from_secs(3);
        while byte_at(program.pid(), at) != before {
            assert!(Instant::now() < deadline, "{end:?} left a probe");
            std::thread::sleep(Duration::from_millis(10));
        }
        program.send_line("go");
        assert_eq!(Report::parse(&program.wait(LIMIT).success().stdout).processes[0].calls["cudaMalloc"], 100);
    }
}

/// Where return probes would kill, entries alone are probed: calls are counted, nobody claims lengths.
#[test]
fn entries_alone() {
    let program = standin().program.display().to_string();
    let recording = record_with(&["--returns", "never"], &[program, "loop".to_owned(), "50".to_owned()], &[]);
    assert_eq!(recording.run.code(), 0, "{:#?}", recording.run);
    assert!(recording.run.stderr.contains("entries alone"), "{}", recording.run.stderr);
    let analysis = recording.analyze(&[]);
    analysis.assert_lossless();
    let process = &recording.report().processes[0];
    assert!(analysis.figures(process.pid, "count").is_empty());
    assert_eq!(analysis.figures(process.pid, "unreturned"), process.calls);
}

#[test]
fn says_what_it_cost_itself() {
    let recording = record_with(&[], &["true".to_owned()], &[]);
    assert!(recording.run.stderr.contains("the recorder itself used 0."), "{}", recording.run.stderr);
}

/// `ingero-record` as the user daemon, with these capabilities alone.
fn with_capabilities(names: &str) -> Command {
    let list: String = names.split_terminator(',').map(|name| format!(",+{name}")).collect();
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=1", "--regid=1", "--clear-groups"])
        .arg(format!("--inh-caps=-all{list}"))
        .arg(format!("--ambient-caps=-all{list}"))
        .arg(reachable_recorder());
    command
}

/// Users may not be able to enter the folder that it was built in.
fn reachable_recorder() -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let dir = std::env::temp_dir().join("ingero-harm-test");
    fs::create_dir_all(&dir).unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
    let (from, to) = (tool("ingero-record"), dir.join("ingero-record"));
    let fresh = dir.join(format!("fresh-{}", std::process::id()));
    fs::copy(from, &fresh).unwrap();
    fs::rename(&fresh, &to).unwrap();
    to
}

#[test]
fn two_capabilities_suffice_for_a_command_of_ones_own() {
    let _alone = ingero_tests::kernel_lock();
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(dir.path(), Some(1), Some(1)).unwrap();
    let copies = tempfile::tempdir_in("/tmp").unwrap();
    let standin = standin().copy_to(copies.path());
    for path in [copies.path(), &standin.libcuda, &standin.libcudart, &standin.program] {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let file = dir.path().join("run.igt");
    let mut recorder = with_capabilities("bpf,perfmon");
    recorder.arg("-o").arg(&file).arg("--").arg(&standin.program).args(["loop", "40"]);
    let stdout = run(&mut recorder, LIMIT).success().stdout;
    let analysis = ingero_tests::Analysis(analyze_json(&file, &[]));
    analysis.assert_process(&Report::parse(&stdout).processes[0]);
}

#[test]
fn says_which_capability_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(dir.path(), Some(1), Some(1)).unwrap();
    for (held, words, missing) in [
        ("", &["--", "true"][..], "missing CAP_BPF, CAP_PERFMON;"),
        ("bpf", &["--", "true"], "missing CAP_PERFMON;"),
        ("perfmon", &["--", "true"], "missing CAP_BPF;"),
        ("bpf,perfmon", &["-a", "-d", "1s"], "missing CAP_SYS_PTRACE;"),
    ] {
        let mut recorder = with_capabilities(held);
        recorder.arg("-o").arg(dir.path().join("run.igt")).args(words);
        let refused = run(&mut recorder, LIMIT);
        assert_eq!(refused.code(), 125, "{held}: {refused:#?}");
        assert!(refused.stderr.lines().count() == 1 && refused.stderr.contains(missing), "{held}: {}", refused.stderr);
        assert!(!dir.path().join("run.igt").exists());
    }
}

#[test]
fn check_says_whether_this_machine_can_record() {
    let fine = run(Command::new(tool("ingero-record")).arg("check"), LIMIT).success().stdout;
    for line in ["ok     BTF", "ok     capabilities", "return probes", "this machine can record"] {
        assert!(fine.contains(line), "{line} not in {fine}");
    }
    let program = waiting(&["loop", "1"]);
    let seen = run(Command::new(tool("ingero-record")).arg("check"), LIMIT).success().stdout;
    assert!(seen.contains(&format!("standin ({})", program.pid())), "{seen}");
    let mut unprivileged = with_capabilities("");
    let refused = run(unprivileged.arg("check"), LIMIT);
    assert_eq!(refused.code(), 1, "{refused:#?}");
    assert!(refused.stdout.contains("FAILS  capabilities   missing CAP_BPF, CAP_PERFMON"), "{}", refused.stdout);
    assert!(refused.stdout.contains("do: run it with sudo"), "{}", refused.stdout);
}
