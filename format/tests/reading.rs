//! How much of a file is read for what was asked.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::io::Write;

use ingero_format::catalog::{Kind, Switch, TaskId};
use ingero_format::{Batch, IndexEntry, StoredColumn, Trace, TraceWriter, WriterOptions};

/// Bytes that this thread has read by the kernel's count, and those that asking for it reads.
fn bytes_read() -> (u64, u64) {
    let io = std::fs::read_to_string("/proc/thread-self/io").unwrap();
    let read = io.lines().find_map(|l| l.strip_prefix("rchar: ")).unwrap();
    (read.parse().unwrap(), io.len() as u64)
}

/// Bytes that `work` reads.
fn cost(work: impl FnOnce()) -> u64 {
    let (before, asking) = bytes_read();
    work();
    bytes_read().0 - before - asking
}

/// One block of switches with little regularity.
fn recorded() -> Trace {
    let mut writer = TraceWriter::new(tempfile::tempfile().unwrap(), WriterOptions::default()).unwrap();
    let mut random = 7u64;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let mut ts = 1_000_000;
    for _ in 0..40_000 {
        ts += next(100_000);
        let switch = Switch {
            prev: TaskId(u32::try_from(next(500)).unwrap()),
            prev_state: next(4),
            next: TaskId(u32::try_from(next(500)).unwrap()),
            syscall: Some(next(300)),
            ..Switch::default()
        };
        writer.push(ts, 0, &switch).unwrap();
    }
    let (mut file, _) = writer.finish().unwrap();
    file.flush().unwrap();
    Trace::from_file(file, "test.igt".into()).unwrap()
}

fn length(trace: &Trace, block: &IndexEntry, ids: &[u8]) -> u64 {
    let stored = trace.stored_columns(block).unwrap();
    let of = |c: &&StoredColumn| ids.contains(&c.id);
    stored.iter().filter(of).map(|c| u64::from(c.len_bytes)).sum()
}

#[test]
fn only_the_columns_asked_for_are_read() {
    let trace = recorded();
    let block = &trace.blocks()[0];
    assert_eq!(block.header.kind, Kind::Switch as u16);
    let (mut all, mut some) = (Batch::new().unwrap(), Batch::new().unwrap());
    let whole = cost(|| trace.read_block(block, &mut all, None).unwrap());
    assert_eq!(whole, u64::from(block.header.payload_len));
    // `prev` was not derived here, so nothing is read for `next` but itself.
    for ids in [&[0, 1][..], &[1, 5], &[0, 1, 5], &[0, 1, 2, 3, 5, 7], &[1]] {
        let read = cost(|| trace.read_block(block, &mut some, Some(ids)).unwrap());
        let columns = length(&trace, block, ids);
        let head = u64::from(block.header.head_len);
        assert!((columns + head..=columns + head + 2 * 4096).contains(&read), "{ids:?}: {read} of {whole}");
        for &id in ids {
            assert_eq!(some.column(id), all.column(id), "{id}");
        }
        assert!((0..9).filter(|id| !ids.contains(id)).all(|id| some.column(id).is_none()), "{ids:?}");
    }
}

#[test]
fn a_small_block_is_read_in_one_piece() {
    let mut writer = TraceWriter::new(tempfile::tempfile().unwrap(), WriterOptions::default()).unwrap();
    for ts in 0..50 {
        writer.push(ts * ts, 0, &Switch { next: TaskId(u32::try_from(ts).unwrap()), ..Switch::default() }).unwrap();
    }
    let (file, _) = writer.finish().unwrap();
    let trace = Trace::from_file(file, "test.igt".into()).unwrap();
    let block = &trace.blocks()[0];
    let mut batch = Batch::new().unwrap();
    let read = cost(|| trace.read_block(block, &mut batch, Some(&[5])).unwrap());
    assert_eq!(read, u64::from(block.header.payload_len));
}
