//! A trace of another tool, whose every figure is known beforehand. Needs no root.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ingero_tests::{Analysis, analyze_json, bad_input, run, tool};
use tempfile::tempdir;

/// A wait for the GPU that takes 30.02 ms: 10 µs until the thread sleeps, 10 ms until it is woken, 20 ms until `hog` leaves its CPU,
/// 10 µs to return.
const TRACE: &str = "\
# tracer: nop
#
# entries-in-buffer/entries-written: 7/7   #P:2
#
#           TASK-PID       TGID    CPU#  |||||  TIMESTAMP  FUNCTION
#              | |           |       |   |||||     |         |
         python3-100     (    100) [000] .....     1.000000: cudaStreamSynchronize: (0x7f3a48a70000) a0=0x55
         python3-100     (    100) [000] d..2.     1.000010: sched_switch: prev_comm=python3 prev_pid=100 prev_prio=120 prev_state=S ==> next_comm=hog next_pid=200 next_prio=120
          worker-101     (    101) [001] dNh2.     1.010010: sched_wakeup: comm=python3 pid=100 prio=120 target_cpu=000
             hog-200     (    200) [000] d..2.     1.030010: sched_switch: prev_comm=hog prev_pid=200 prev_prio=120 prev_state=R ==> next_comm=python3 next_pid=100 next_prio=120
         python3-100     (    100) [000] .....     1.030020: cudaStreamSynchronize_ret: (0x7f3995c27b99 <- 0x7f3a48a70000) rc=0
         python3-100     (    100) [000] .....     1.030040: cudaLaunchKernel: (0x7f3a48a74370) a0=0x22ec6480 a1=0x100000200 a2=0x1 a3=0x100000080 a4=0x1
         python3-100     (    100) [000] .....     1.030050: cudaLaunchKernel_ret: (0x7f3995c27b99 <- 0x7f3a48a74370) rc=700
";

fn import(trace: &Path) -> PathBuf {
    let out = trace.with_extension("igt");
    let mut command = Command::new(tool("ingero-convert"));
    command.arg(trace).arg("-o").arg(&out);
    let _ = run(&mut command, Duration::from_secs(30)).success();
    out
}

fn assert_figures(analysis: &Analysis) {
    analysis.assert_lossless();
    assert!(analysis.0["trace"]["start_unix_ns"].is_null(), "the text has no wall clock");
    let wait = analysis.op(100, "cudaStreamSynchronize").unwrap();
    for (figure, due) in [
        ("count", 1),
        ("unreturned", 0),
        ("errors", 0),
        ("sum_ns", 30_020_000),
        ("self_ns", 30_020_000),
        ("p50_ns", 30_020_000),
        ("p99_ns", 30_020_000),
        ("max_ns", 30_020_000),
        ("running_ns", 20_000),
        ("runnable_ns", 20_000_000),
        ("blocked_ns", 10_000_000),
    ] {
        assert_eq!(wait[figure], due, "{figure} of {wait:#}");
    }
    let launch = analysis.op(100, "cudaLaunchKernel").unwrap();
    assert_eq!((&launch["errors"], &launch["sum_ns"]), (&1.into(), &10_000.into()), "{launch:#}");
    let main = analysis.process(100).unwrap();
    for (figure, due) in [("count", 1), ("sum_ns", 30_000_000), ("runnable_ns", 20_000_000), ("blocked_ns", 10_000_000)]
    {
        assert_eq!(main["off_cpu"][figure], due, "{figure} of {main:#}");
    }
    let behind = &main["runnable_behind"];
    assert_eq!(behind[0]["name"], "hog", "{behind:#}");
    assert_eq!(behind[0]["ns"], 20_000_000, "{behind:#}");
    assert_eq!(behind.as_array().unwrap().len(), 1, "{behind:#}");
}

#[test]
fn ftrace_text_keeps_every_figure() {
    let folder = tempdir().unwrap();
    let trace = folder.path().join("host.trace.txt");
    fs::write(&trace, TRACE).unwrap();
    assert_figures(&Analysis(analyze_json(&import(&trace), &[])));
}

#[test]
fn compressed_ftrace_text_is_the_same() {
    let folder = tempdir().unwrap();
    let trace = folder.path().join("host.trace.txt");
    fs::write(&trace, TRACE).unwrap();
    let script = "import lzma, sys; p = sys.argv[1]; lzma.open(p + '.xz', 'wb').write(open(p, 'rb').read())";
    let _ = run(Command::new("python3").args(["-c", script]).arg(&trace), Duration::from_secs(30)).success();
    assert_figures(&Analysis(analyze_json(&import(&folder.path().join("host.trace.txt.xz")), &[])));
}

#[test]
fn text_that_is_no_trace_is_refused() {
    let folder = tempdir().unwrap();
    let trace = folder.path().join("novel.trace.txt");
    fs::write(&trace, "It was a dark and stormy night.\n").unwrap();
    let out = folder.path().join("out.igt");
    let mut command = Command::new(tool("ingero-convert"));
    let _ = bad_input(command.arg(&trace).arg("-o").arg(&out));
    assert!(!out.exists());
}
