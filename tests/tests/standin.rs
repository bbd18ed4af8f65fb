//! The stand-in itself: without its promises no other test means anything. Needs no root and no program under test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use ingero_tests::{Report, Running, run, standin};
use object::{Object, ObjectSection, ObjectSymbol};

const LIMIT: Duration = Duration::from_secs(30);

/// The names in symbols.h that stand behind `macro_name(`.
fn listed(macro_name: &str) -> BTreeSet<String> {
    let header = include_str!("../standin/symbols.h");
    let opening = format!("    {macro_name}(");
    header.lines().filter_map(|l| l.strip_prefix(&opening)?.split(')').next()).map(str::to_owned).collect()
}

/// Exported functions of a library with their first `N` bytes.
fn exported<const N: usize>(library: &Path) -> Vec<(String, [u8; N])> {
    let bytes = fs::read(library).unwrap();
    let elf = object::File::parse(bytes.as_slice()).unwrap();
    let text = elf.section_by_name(".text").unwrap();
    let code = text.data().unwrap();
    elf.dynamic_symbols()
        .filter(|s| s.is_definition() && s.kind() == object::SymbolKind::Text)
        .filter(|s| !s.name().unwrap().starts_with("standin_"))
        .map(|s| {
            let at = usize::try_from(s.address() - text.address()).unwrap();
            let name = s.name().unwrap().to_owned();
            (name, code[at..at + N].try_into().unwrap())
        })
        .collect()
}

fn report(args: &[&str]) -> Report {
    let run = run(&mut standin().command(args), LIMIT).success();
    assert!(run.stderr.is_empty(), "{run:#?}");
    Report::parse(&run.stdout)
}

#[test]
fn exports_exactly_what_its_table_lists() {
    for (library, table) in [(standin().libcudart, listed("RUNTIME")), (standin().libcuda, listed("DRIVER"))] {
        let names: BTreeSet<_> = exported::<1>(&library).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, table, "{}", library.display());
        assert!(table.len() > 40);
    }
}

/// A probe on another first instruction costs ten times as much: measurements on the stand-in would mislead.
#[cfg(target_arch = "x86_64")]
#[test]
fn every_function_begins_with_push_rbp() {
    for library in [standin().libcudart, standin().libcuda] {
        for (name, first) in exported::<4>(&library) {
            // push %rbp; mov %rsp,%rbp
            assert_eq!(first, [0x55, 0x48, 0x89, 0xe5], "{name}");
        }
    }
}

#[test]
fn no_two_exported_functions_share_an_address() {
    for library in [standin().libcudart, standin().libcuda] {
        let bytes = fs::read(&library).unwrap();
        let elf = object::File::parse(bytes.as_slice()).unwrap();
        let mut seen = BTreeSet::new();
        for symbol in elf.dynamic_symbols().filter(ObjectSymbol::is_definition) {
            if symbol.kind() == object::SymbolKind::Text {
                assert!(seen.insert(symbol.address()), "{:?}", symbol.name());
            }
        }
    }
}

#[test]
fn has_a_local_name_at_the_address_of_an_exported_one() {
    let bytes = fs::read(standin().libcudart).unwrap();
    let elf = object::File::parse(bytes.as_slice()).unwrap();
    let address = |name: &str| elf.symbol_by_name(name).map(|s| s.address());
    assert_eq!(address("cudaLaunchKernel_local").unwrap(), address("cudaLaunchKernel").unwrap());
}

#[test]
fn static_runtime_is_in_symtab_alone_or_nowhere() {
    for (program, in_symtab) in [(standin().program_static, true), (standin().program_stripped, false)] {
        let bytes = fs::read(&program).unwrap();
        let elf = object::File::parse(bytes.as_slice()).unwrap();
        let is_defined = |s: &object::Symbol<'_, '_>| s.name() == Ok("cudaLaunchKernel") && s.is_definition();
        assert_eq!(elf.symbols().any(|s| is_defined(&s)), in_symtab);
        assert!(!elf.dynamic_symbols().any(|s| is_defined(&s)));
    }
}

#[test]
fn loop_counts_each_symbol_once_a_round() {
    let report = report(&["loop", "100"]);
    let [process] = report.processes.as_slice() else { panic!("{report:#?}") };
    assert_eq!(process.calls.len(), 12);
    assert!(process.calls.values().all(|&n| n == 100), "{process:#?}");
    assert!(process.unreturned.is_empty() && process.errors.is_empty());
    assert_eq!(process.bytes["cudaMalloc"], 100 * 4096);
}

#[test]
fn every_reaches_every_function() {
    let report = report(&["every", "3"]);
    let called: BTreeSet<_> = report.processes[0].calls.keys().cloned().collect();
    let table: BTreeSet<_> = listed("RUNTIME").union(&listed("DRIVER")).cloned().collect();
    assert_eq!(called, table);
    for symbol in listed("RUNTIME") {
        assert_eq!(report.processes[0].calls[&symbol], 3, "{symbol}");
    }
}

#[test]
fn every_mode_ends_with_a_report() {
    for (args, processes) in [
        (&["nested", "2"][..], 1),
        (&["args"], 1),
        (&["errors", "2"], 1),
        (&["forked", "3", "2"], 4),
        (&["prefork", "3", "2"], 4),
        (&["forkthread", "2"], 2),
        (&["threads", "4", "2"], 1),
        (&["names", "2"], 1),
        (&["mainexit", "2"], 1),
        (&["exec", "2"], 1),
        (&["dlopen", "2"], 1),
        (&["seccomp", "2"], 1),
        (&["die", "4"], 1),
        (&["longjmp", "3"], 1),
        (&["exitcode", "0"], 1),
        (&["contention", "0.3", "2", "1"], 4),
        (&["busy", "2"], 1),
        (&["healthy", "10"], 1),
        (&["sleeper", "2"], 1),
    ] {
        let report = report(args);
        assert_eq!(report.processes.len(), processes, "{args:?}: {report:#?}");
        assert!(report.processes.iter().any(|p| !p.calls.is_empty()), "{args:?}");
    }
}

#[test]
fn counts_survive_threads_exec_and_jumps() {
    assert_eq!(report(&["threads", "8", "500"]).processes[0].calls["cudaFree"], 4000);
    assert_eq!(report(&["exec", "7"]).processes[0].calls["cudaFree"], 14);
    let died = report(&["die", "6"]);
    assert_eq!(died.processes[0].unreturned["cudaStreamSynchronize"], 6);
    assert_eq!(died.processes[0].calls["cudaStreamSynchronize"], 12);
    let jumped = report(&["longjmp", "5"]);
    assert_eq!(jumped.processes[0].unreturned["cudaStreamSynchronize"], 6);
    assert_eq!(jumped.processes[0].unreturned["cuStreamSynchronize"], 1);
    assert_eq!(jumped.processes[0].calls["cudaStreamSynchronize"], 12);
}

#[test]
fn static_programs_do_the_same() {
    for program in [standin().program_static, standin().program_stripped] {
        let run = run(std::process::Command::new(program).args(["loop", "5"]), LIMIT).success();
        assert_eq!(Report::parse(&run.stdout).processes[0].calls["cudaMalloc"], 5);
    }
}

#[test]
fn wait_says_ready_and_then_waits() {
    let mut running = Running::start(&mut standin().command(&["wait", "prefork", "2", "3"]));
    let ready: serde_json::Value = serde_json::from_str(&running.wait_for_line("{\"ready\":", LIMIT)).unwrap();
    assert_eq!(ready["ready"], running.pid());
    assert_eq!(ready["workers"].as_array().unwrap().len(), 2);
    std::thread::sleep(Duration::from_millis(50));
    assert!(running.is_running());
    running.send_line("go");
    let run = running.wait(LIMIT).success();
    assert_eq!(Report::parse(&run.stdout).of_role("worker").count(), 2);
}

#[test]
fn forever_ends_at_an_interrupt() {
    let mut running = Running::start(&mut standin().command(&["wait", "forever"]));
    let _ = running.wait_for_line("{\"ready\":", LIMIT);
    running.send_line("go");
    std::thread::sleep(Duration::from_millis(100));
    running.interrupt();
    let run = running.wait(LIMIT).success();
    assert!(Report::parse(&run.stdout).processes[0].calls["cudaStreamSynchronize"] > 5);
}

#[test]
fn calls_take_the_time_they_are_told_to() {
    for (variable, value, args, at_least_ms) in [
        ("STANDIN_LAUNCH_NS", "1000000", ["healthy", "50"], 50),
        ("STANDIN_SYNC_US", "1000", ["healthy", "50"], 50),
        ("STANDIN_COPY_NS", "1000000", ["loop", "25"], 50),
    ] {
        let run = run(standin().command(&args).env(variable, value), LIMIT).success();
        assert!(run.wall >= Duration::from_millis(at_least_ms), "{variable}: {run:#?}");
    }
}
