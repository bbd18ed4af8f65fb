//! Calls that never come back have no duration and take no later call's return.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::time::Duration;

use ingero_tests::{Call, calls, record_with, standin};

const SLEEP_US: u64 = 2000;

/// `standin ARGS…` with waits of two milliseconds; checks the counts and returns the calls.
fn recorded(args: &[&str]) -> Vec<Call> {
    let mut command = vec![standin().program.display().to_string()];
    command.extend(args.iter().map(|&a| a.to_owned()));
    let sleep = SLEEP_US.to_string();
    let recording = record_with(&[], &command, &[("STANDIN_SYNC_US", &sleep)]);
    let analysis = recording.assert_exact();
    let pid = recording.report().pid;
    let longest = analysis.op(pid, "cudaStreamSynchronize").unwrap()["max_ns"].as_u64().unwrap();
    // Nothing lasted from one call to the next one's return.
    assert!(Duration::from_nanos(longest) < Duration::from_millis(200), "{longest}");
    calls(&recording.file)
}

fn assert_good_calls_keep_their_durations(calls: &[Call], good: usize) {
    let returned: Vec<_> =
        calls.iter().filter(|c| c.symbol == "cudaStreamSynchronize" && c.end == "returned").collect();
    assert_eq!(returned.len(), good);
    for call in returned {
        let dur_ns = call.dur_ns.unwrap();
        assert!(dur_ns >= SLEEP_US * 1000, "{call:?}");
    }
    for call in calls.iter().filter(|c| c.end != "returned") {
        assert_eq!((call.dur_ns, call.result), (None, None), "{call:?}");
    }
}

#[test]
fn threads_that_end_inside_a_call() {
    let calls = recorded(&["die", "10"]);
    assert_good_calls_keep_their_durations(&calls, 10);
    let ended = calls.iter().filter(|c| c.end == "thread-exit").count();
    assert_eq!(ended, 20, "runtime and driver, ten each");
}

#[test]
fn jumps_out_of_a_call() {
    let calls = recorded(&["longjmp", "10"]);
    assert_good_calls_keep_their_durations(&calls, 11);
    let skipped = calls.iter().filter(|c| c.end == "skipped").count();
    assert_eq!(skipped, 12, "eleven runtime calls and one driver call");
}
