//! Sizes, pointers, directions, streams and results are those of the call.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use ingero_tests::{Call, calls, record};
use serde_json::Value;

/// The only call of a symbol with the size `bytes`, or the only one of the symbol.
fn find<'a>(calls: &'a [Call], due: &Value) -> &'a Call {
    let symbol = due["symbol"].as_str().unwrap();
    let found: Vec<_> = calls
        .iter()
        .filter(|c| c.symbol == symbol)
        .filter(|c| due["bytes"].is_null() || c.bytes == due["bytes"].as_u64())
        .filter(|c| due["function"].is_null() || c.stream == due["stream"].as_u64())
        .collect();
    match found.as_slice() {
        [] => panic!("no call {due} in {calls:#?}"),
        [call, ..] => call,
    }
}

#[test]
fn every_argument_is_the_one_that_was_passed() {
    let recording = record(&["args"]);
    recording.assert_exact();
    let recorded = calls(&recording.file);
    let due = recording.report().json["args"].as_array().unwrap().clone();
    assert!(due.len() > 20);
    for due in &due {
        let call = find(&recorded, due);
        let number = |key: &str| due[key].as_u64();
        if let Some(stream) = number("stream") {
            assert_eq!(call.stream, Some(stream), "stream of {due}: {call:?}");
        }
        if let Some(kind) = number("kind") {
            assert_eq!(call.copy, Some(kind), "direction of {due}: {call:?}");
        }
        if let Some(bytes) = number("bytes") {
            assert_eq!(call.bytes, Some(bytes), "size of {due}: {call:?}");
        }
        let ptr = number("dst").or(number("ptr")).or(number("function")).or(number("event")).or(number("out"));
        if let Some(ptr) = ptr {
            assert_eq!(call.ptr, Some(ptr), "pointer of {due}: {call:?}");
        }
        if let Some(src) = number("src") {
            assert_eq!(call.ptr2, Some(src), "source of {due}: {call:?}");
        }
        assert_eq!(call.result, Some(0), "result of {due}: {call:?}");
    }
}

/// What the driver was asked for on behalf of the runtime carries the same values.
#[test]
fn the_driver_inside_the_runtime_gets_the_same_arguments() {
    let recording = record(&["args"]);
    let recorded = calls(&recording.file);
    let of = |symbol: &str| recorded.iter().find(|c| c.symbol == symbol).unwrap();
    let (runtime, driver) = (of("cudaMemcpy"), of("cuMemcpyHtoD_v2"));
    assert_eq!((driver.bytes, driver.copy), (Some(200_001), Some(1)));
    assert_eq!((driver.ptr, driver.ptr2), (runtime.ptr, runtime.ptr2));
    assert_eq!(driver.tid, runtime.tid);
}

#[test]
fn results_and_errors_are_exact() {
    let recording = record(&["errors", "10"]);
    let analysis = recording.assert_exact();
    let pid = recording.report().pid;
    let errors = analysis.figures(pid, "errors");
    assert_eq!(errors["cudaMalloc"], 20);
    assert_eq!(errors["cudaLaunchKernel"], 10);
    let mut results: Vec<_> =
        calls(&recording.file).into_iter().filter(|c| c.symbol == "cudaMalloc").map(|c| c.result.unwrap()).collect();
    results.sort_unstable();
    results.dedup();
    assert_eq!(results, [0, 1, 2]);
    for (symbol, due) in
        [("cudaMemcpy", 21), ("cudaLaunchKernel", 700), ("cuLaunchKernel", 700), ("cudaStreamSynchronize", 700)]
    {
        assert!(
            calls(&recording.file).iter().filter(|c| c.symbol == symbol).all(|c| c.result == Some(due)),
            "{symbol}"
        );
    }
}
