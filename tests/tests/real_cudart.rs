//! NVIDIA's own runtime library. Without a driver its calls fail at once, which is a call with an entry, a return and a result all
//! the same: real symbol tables, real attach points.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use ingero_tests::{calls, real_cudart, record_with, standin};

fn records_exactly(major: u32) {
    let library = real_cudart(major);
    let command = [standin().late.display().to_string(), "100".to_owned(), library.display().to_string()];
    let recording = record_with(&[], &command, &[]);
    recording.assert_exact();
    let report = recording.report();
    assert_eq!(report.calls(report.pid, "cudaMalloc"), 100);
    let result = report.json["cudaMalloc_result"].as_i64();
    let recorded = calls(&recording.file);
    let mallocs: Vec<_> = recorded.iter().filter(|c| c.symbol == "cudaMalloc").collect();
    assert_eq!(mallocs.len(), 100);
    for call in mallocs {
        assert_eq!((call.result, call.bytes), (result, Some(4096)), "{call:?}");
    }
    if result == Some(35) {
        // No driver here: every call has the same answer, "insufficient driver".
        assert!(
            recorded.iter().filter(|c| c.symbol.starts_with("cuda")).all(|c| c.result == Some(35)),
            "{recorded:#?}"
        );
    }
}

#[test]
fn cuda_13() {
    records_exactly(13);
}

#[test]
fn cuda_12() {
    records_exactly(12);
}
