//! Recordings that were cut off, beside others: a reading of the clocks is in what is left of them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod put;

use std::path::Path;

use ingero_convert::import::{ImportOptions, hosts};
use ingero_format::Trace;
use ingero_format::catalog::{Clock, Kind, NO_CPU, TaskId};
use ingero_format::layout::CHUNK_BLOCK;
use ingero_replay::fixture::Fixture;
use ingero_replay::{Merge, recompress};

use put::{WALL, put};

const SECOND: u64 = 1_000_000_000;

/// A host that is recorded for ten seconds as the recorder does: a reading of the clocks first of all, and one each second; the wall
/// clock gains 10 ns a second.
fn host(name: &str, mono: u64) -> Vec<u8> {
    let mut f = Fixture::with_rows(20);
    f.writer().set_meta("host", name);
    let task = f.task(41, 41);
    for second in 0..=10 {
        let now = mono + second * SECOND;
        let real_ns = WALL + second * (SECOND + 10);
        f.push(now, NO_CPU, Clock { boot_ns: now, real_ns, tsc: None, bracket_ns: 40 });
        f.writer().seal_kind(Kind::Clock).unwrap();
        for at in (0..SECOND).step_by(10_000_000).filter(|_| second < 10) {
            f.switch(now + at, 0, TaskId(0), 0, task);
            f.switch(now + at + 5_000_000, 0, task, 1, TaskId(0));
        }
    }
    f.into_bytes()
}

fn uncertainty_ns(trace: &Trace, host: u32) -> u64 {
    trace.meta(&format!("host.{host}.uncertainty_ns")).unwrap().parse().unwrap()
}

#[test]
fn a_recording_that_is_cut_anywhere_behind_its_first_block_is_merged() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = host("a", 50 * SECOND);
    let whole = put(dir.path(), "whole.igt", &bytes);
    let chunks: Vec<_> =
        whole.chunks().iter().map(|c| (c.header, usize::try_from(c.offset + c.header.span()).unwrap())).collect();
    let first = chunks.iter().position(|(header, _)| header.chunk_type == CHUNK_BLOCK).unwrap();
    assert_eq!(chunks[first].0.kind, Kind::Clock as u16);
    let output = dir.path().join("all.igt");
    let options = ImportOptions { force: true, ..ImportOptions::default() };
    let merged = |cut: usize| {
        let traces = [put(dir.path(), "cut.igt", &bytes[..cut]), put(dir.path(), "b.igt", &host("b", 8_000 * SECOND))];
        hosts::merge(&traces, &output, options).map(|_| Trace::open(&output).unwrap()).map_err(|e| e.to_string())
    };
    let mut cuts = 0;
    for (_, end) in &chunks[first..] {
        // At its end, and within the one behind it.
        for cut in [*end, (*end + 40).min(bytes.len())] {
            let all = merged(cut).unwrap_or_else(|e| panic!("cut at {cut}: {e}"));
            let cut_off = Trace::open(dir.path().join("cut.igt")).unwrap();
            let read: Vec<u64> = Merge::of(&cut_off, |kind| kind == Kind::Clock).map(|e| e.ts_ns).collect();
            // Each is in the file by the time at which others are: what follows the last one is what the wall clock may have been
            // slewed in meanwhile, by 500 in a million at most.
            let beyond_ns = cut_off.span_ns().unwrap().1 - read.last().unwrap();
            assert!(beyond_ns <= SECOND, "{beyond_ns}");
            let slewed = 10 * (read.len() as u64 / 2);
            assert_eq!(uncertainty_ns(&all, 0), 40 + slewed + beyond_ns / 2000, "cut at {cut}: {read:?}");
            assert!(all.meta("host.0.shift_ns").is_some() && all.meta("host.1.host") == Some("b"));
            cuts += 1;
        }
    }
    assert!(cuts > 200, "{cuts}");
    // Within that nothing is known of when it was, nor of anything that happened.
    let refused = merged(chunks[first].1 - 9).err().unwrap();
    assert!(refused.contains("cut.igt") && refused.contains("no wall-clock anchors"), "{refused}");
}

/// Also one that older versions compacted, with its readings last: `compact` puts them first.
#[test]
fn half_of_a_compacted_recording_is_merged() {
    let dir = tempfile::tempdir().unwrap();
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../investigations/h200-cpu-contention/affinity.igt");
    let old = Trace::open(old).unwrap();
    let mut bytes = Vec::new();
    recompress::rewrite(&old, &std::collections::BTreeSet::new(), &mut bytes, |_| ()).unwrap();
    let half = put(dir.path(), "half.igt", &bytes[..bytes.len() / 2]);
    assert!(!half.complete() && half.span_ns().unwrap().1 <= old.span_ns().unwrap().1);
    let output = dir.path().join("all.igt");
    let done =
        hosts::merge(&[half, put(dir.path(), "b.igt", &host("b", 8_000 * SECOND))], &output, ImportOptions::default());
    assert!(done.unwrap().notes.iter().any(|note| note.contains("cut off before its end")));
    let all = Trace::open(&output).unwrap();
    // All of its readings are there.
    assert!(uncertainty_ns(&all, 0) < 1_000_000, "{}", uncertainty_ns(&all, 0));
}
