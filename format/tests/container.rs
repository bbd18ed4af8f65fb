//! The container as a whole: what goes in comes out, every prefix opens, every flipped bit is
//! found and costs no more than its block, or what needs the names that stood there.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::collections::BTreeMap;
use std::io::Write;

use ingero_format::catalog::*;
use ingero_format::layout::{CHUNK_FUNCTIONS, CHUNK_TASKS};
use ingero_format::{Batch, Damage, Error, FunctionInfo, Task, Trace, TraceWriter, WriterOptions};

/// A small recording with every kind, several CPUs and several blocks.
fn sample(rows_per_block: usize) -> Vec<u8> {
    let options = WriterOptions { seal_rows: rows_per_block, ..WriterOptions::default() };
    let mut w = TraceWriter::new(Vec::new(), options).unwrap();
    w.set_meta("kernel", "6.18");
    w.set_meta("kernel", "6.18.1");
    let tasks: Vec<TaskId> =
        (1..20).map(|i| w.task(Task { pid: 100 + i / 2, tid: 100 + i, start_ns: Some(u64::from(i)) })).collect();
    let func =
        w.function(FunctionInfo { symbol: "cudaLaunchKernel".into(), layer: Layer::Runtime, class: Class::Launch });
    let mut last = [TaskId(0); 4];
    for i in 0..500u64 {
        let (ts, cpu) = (1_000_000 + i * 977, (i * 7 % 4) as u32);
        let next = tasks[(i * i % 19) as usize];
        let prev = std::mem::replace(&mut last[cpu as usize], next);
        w.push(
            ts,
            cpu,
            &Switch {
                prev,
                prev_state: i % 3,
                prev_prio: Some(120),
                next,
                next_prio: Some(120),
                syscall: (i % 5 == 0).then_some(202),
                throttled: None,
            },
        )
        .unwrap();
        if i % 4 == 0 {
            let call = Call {
                task: next,
                func,
                dur_ns: (i % 8 == 0).then_some(500 + i),
                end: if i % 8 == 0 { END_RETURNED } else { END_OPEN },
                result: (i % 8 == 0).then_some(-(i as i64 % 3)),
                ptr: Some(0x7f00_0000_0000 + i * 4096),
                ptr2: None,
                bytes: Some(1 << (i % 20)),
                copy: None,
                stream: Some(0),
                device: None,
            };
            // Calls are written when they return: not in the order of their entries.
            w.push(ts - (i % 13) * 10_000, cpu, &call).unwrap();
        }
    }
    let name = w.string("python3 \"quoted\"\n");
    w.push(1, NO_CPU, &Name { task: tasks[0], name, source: 0 }).unwrap();
    let probe = w.string("sched_switch");
    w.push(2_000_000, 1, &Loss { to_ns: 2_100_000, probe, cause: 0, count: Some(17), of_host: None }).unwrap();
    w.finish().unwrap().0
}

fn open(bytes: &[u8]) -> Result<Trace, Error> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    Trace::from_file(file, "test.igt".into())
}

/// Every row of a trace as words, with its kind; unreadable blocks are left out and counted.
fn rows(trace: &Trace) -> (Vec<(u16, Vec<u64>)>, usize) {
    let mut batch = Batch::new().unwrap();
    let (mut out, mut broken) = (vec![], 0);
    for b in trace.blocks() {
        if trace.read_block(b, &mut batch, None).is_err() {
            broken += 1;
            continue;
        }
        let ids: Vec<u8> = trace.kind_schema(b.header.kind).unwrap().columns.iter().map(|c| c.id).collect();
        for row in 0..batch.rows() {
            out.push((b.header.kind, ids.iter().map(|&id| batch.column(id).unwrap().get(row).unwrap()).collect()));
        }
    }
    out.sort();
    (out, broken)
}

#[test]
fn what_goes_in_comes_out() {
    let bytes = sample(100);
    let trace = open(&bytes).unwrap();
    assert!(trace.complete());
    assert!(trace.damage().is_empty());
    assert_eq!(trace.meta("kernel"), Some("6.18.1"));
    assert_eq!(trace.tasks().len(), 20);
    assert_eq!(trace.functions()[0].symbol, "cudaLaunchKernel");
    let (rows, broken) = rows(&trace);
    assert_eq!(broken, 0);
    let mut kinds = BTreeMap::new();
    for (kind, _) in &rows {
        *kinds.entry(*kind).or_insert(0) += 1;
    }
    assert_eq!(kinds, BTreeMap::from([(1, 500), (9, 125), (10, 1), (12, 1)]));
    let switch = rows.iter().find(|(k, r)| *k == 1 && r[0] == 1_000_000 + 5 * 977).unwrap();
    assert_eq!(Switch::gather(|i| switch.1[i]).syscall, Some(202));
    let name = rows.iter().find(|(k, _)| *k == 10).unwrap();
    assert_eq!(trace.string(Name::gather(|i| name.1[i]).name), "python3 \"quoted\"\n");
}

#[test]
fn blocks_are_sorted_by_cpu_and_time() {
    let trace = open(&sample(1000)).unwrap();
    let mut batch = Batch::new().unwrap();
    for b in trace.blocks() {
        trace.read_block(b, &mut batch, None).unwrap();
        let (ts, cpu) = (batch.column(TS).unwrap(), batch.column(CPU).unwrap());
        let keys: Vec<_> = cpu.iter().zip(ts.iter()).collect();
        assert!(keys.is_sorted());
        assert_eq!(ts.iter().min(), Some(b.header.ts_min));
        assert!(ts.iter().max().unwrap() <= b.header.ts_max);
    }
}

#[test]
fn a_reader_can_ask_for_some_columns() {
    let trace = open(&sample(1000)).unwrap();
    let mut all = Batch::new().unwrap();
    let mut some = Batch::new().unwrap();
    for b in trace.blocks().iter().filter(|b| b.header.kind == 1) {
        trace.read_block(b, &mut all, None).unwrap();
        trace.read_block(b, &mut some, Some(&[2])).unwrap();
        assert_eq!(some.column(2), all.column(2), "a follower brings its leader");
        assert_eq!(some.column(0), None);
        assert_eq!(some.column(3), None);
    }
}

#[test]
fn the_same_events_give_the_same_bytes() {
    assert_eq!(sample(64), sample(64));
}

#[test]
fn every_prefix_opens_with_all_its_whole_blocks() {
    let bytes = sample(100);
    let whole = open(&bytes).unwrap();
    let ends: Vec<(u64, u32)> = whole
        .chunks()
        .iter()
        .filter(|c| c.header.chunk_type == 6)
        .map(|c| (c.offset + 56 + u64::from(c.header.payload_len), c.header.rows))
        .collect();
    let (all, _) = rows(&whole);
    for cut in 0..bytes.len() {
        match open(&bytes[..cut]) {
            Err(Error::NotIgt(_)) => assert!(cut < 32, "cut at {cut}"),
            Err(e) => panic!("cut at {cut}: {e}"),
            Ok(trace) => {
                assert!(!trace.complete(), "cut at {cut}");
                let expected: u32 = ends.iter().filter(|(end, _)| *end <= cut as u64).map(|(_, rows)| rows).sum();
                let (rows, broken) = rows(&trace);
                assert_eq!((rows.len() as u32, broken), (expected, 0), "cut at {cut}");
                assert!(rows.iter().all(|r| all.contains(r)), "cut at {cut}");
            }
        }
    }
}

#[test]
fn a_flipped_bit_costs_its_block_and_is_found() {
    let bytes = sample(100);
    let (all, _) = rows(&open(&bytes).unwrap());
    let largest = 100;
    let mut most_nameless = 0;
    for at in (0..bytes.len()).step_by(3) {
        let mut bad = bytes.clone();
        bad[at] ^= 1 << (at % 8);
        let trace = match open(&bad) {
            Ok(trace) => trace,
            Err(Error::NotIgt(_) | Error::Corrupt { .. } | Error::Version { .. }) if at < 32 => continue,
            Err(e) => panic!("flip at {at:#x}: {e}"),
        };
        let (rows, broken) = rows(&trace);
        let lost = all.len() - rows.len().min(all.len());
        // With the names of tasks or functions go all rows that name one.
        let has_names = |d: &Damage| d.header.is_some_and(|h| [CHUNK_TASKS, CHUNK_FUNCTIONS].contains(&h.chunk_type));
        let nameless = trace.damage().iter().any(has_names);
        assert!(lost <= largest || (nameless && broken > 1), "flip at {at:#x} lost {lost}");
        most_nameless = most_nameless.max(if nameless { lost } else { 0 });
        let wrong = rows.iter().filter(|r| !all.contains(r)).count();
        assert_eq!(wrong, 0, "flip at {at:#x} changed rows");
        if lost > 0 {
            assert!(broken > 0 || !trace.damage().is_empty(), "flip at {at:#x} lost {lost} rows in silence");
        }
    }
    assert!(most_nameless > largest, "with all names of tasks only {most_nameless} rows are lost");
}

#[test]
fn unknown_critical_chunks_are_refused_and_ancillary_ones_skipped() {
    let bytes = sample(100);
    for (flags, refused) in [(0u8, true), (1, false)] {
        let mut more = bytes.clone();
        let trace = open(&bytes).unwrap();
        let last = trace.chunks().last().unwrap();
        let end = (last.offset + 56 + u64::from(last.header.payload_len)).next_multiple_of(8) as usize;
        more.truncate(end);
        let mut header = [0u8; 56];
        header[..4].copy_from_slice(b"\xc9igt");
        header[4] = 99;
        header[5] = flags;
        let crc = crc32c::crc32c(&header[..52]).to_le_bytes();
        header[52..].copy_from_slice(&crc);
        more.extend(header);
        match open(&more) {
            Err(Error::Unsupported { what, offset }) => {
                assert!(refused);
                assert_eq!((what.as_str(), offset), ("test.igt: chunk type 99", end as u64));
            }
            Ok(trace) => {
                assert!(!refused);
                assert_eq!(rows(&trace).0.len(), rows(&open(&bytes).unwrap()).0.len());
            }
            Err(e) => panic!("{e}"),
        }
    }
}

#[test]
fn other_files_are_refused_by_name() {
    for bytes in [&b""[..], b"hello", b"\x89IGT", b"# tracer: nop\n# and so on, long enough for a header\n"] {
        let error = open(bytes).err().map(|e| e.to_string()).unwrap();
        assert!(error.starts_with("not an .igt file: test.igt "), "{error}");
    }
    let mut newer = sample(100);
    newer[8] = 9;
    let crc = crc32c::crc32c(&newer[..28]).to_le_bytes();
    newer[28..32].copy_from_slice(&crc);
    let error = open(&newer).err().map(|e| e.to_string()).unwrap();
    assert_eq!(error, "test.igt: version 9 of the format is not known here, the newest known is 1; use a newer ingero");
}

/// The later of two calls that begin together is the inner one, which is written first.
#[test]
fn of_calls_that_begin_together_the_longest_stands_first() {
    let mut w = TraceWriter::new(Vec::new(), WriterOptions::default()).unwrap();
    let func =
        w.function(FunctionInfo { symbol: "cudaLaunchKernel".into(), layer: Layer::Runtime, class: Class::Launch });
    for dur in [5, 70, 9] {
        let call = Call {
            task: TaskId(0),
            func,
            dur_ns: Some(dur),
            end: END_RETURNED,
            result: Some(0),
            ptr: None,
            ptr2: None,
            bytes: None,
            copy: None,
            stream: None,
            device: None,
        };
        w.push(1000, 0, &call).unwrap();
    }
    let trace = open(&w.finish().unwrap().0).unwrap();
    let mut batch = Batch::new().unwrap();
    trace.read_block(&trace.blocks()[0], &mut batch, None).unwrap();
    assert_eq!(batch.column(4).unwrap().to_vec(), [70, 9, 5]);
}

#[test]
fn a_scan_does_not_take_the_headers_that_an_index_quotes_for_chunks() {
    let bytes = sample(100);
    let trace = open(&bytes).unwrap();
    // An index that is stored as it is, its own header gone.
    let last = trace.chunks().last().unwrap();
    let mut more = bytes[..usize::try_from(last.offset + last.header.span()).unwrap()].to_vec();
    more.extend([0u8; 56]);
    for c in trace.chunks() {
        let at = usize::try_from(c.offset).unwrap();
        more.extend(c.offset.to_le_bytes());
        more.extend(&bytes[at..at + 56]);
    }
    more.extend(vec![0; bytes.len()]);
    let again = open(&more).unwrap();
    assert_eq!(again.chunks(), trace.chunks());
    assert_eq!(rows(&again), rows(&trace));
}

#[test]
fn a_header_that_ends_before_it_begins_is_damage() {
    let mut bytes = sample(1000);
    let trace = open(&bytes).unwrap();
    let block = *trace.blocks().iter().find(|b| b.header.rows > 1).unwrap();
    let at = usize::try_from(block.offset).unwrap();
    bytes.truncate(at + usize::try_from(block.header.span()).unwrap());
    bytes[at + 32..at + 40].copy_from_slice(&u64::MAX.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[at..at + 52]).to_le_bytes();
    bytes[at + 52..at + 56].copy_from_slice(&crc);
    let trace = open(&bytes).unwrap();
    assert!(trace.damage()[0].problem.starts_with("impossible times"), "{:?}", trace.damage());
    assert!(trace.span_ns().is_none_or(|(from, to)| from <= to));
}

#[test]
fn pipes_and_devices_are_refused_before_they_are_opened() {
    let error = Trace::open("/dev/null").err().map(|e| e.to_string()).unwrap();
    assert_eq!(error, "not an .igt file: /dev/null is a pipe or a device: copy it to a file first");
}

#[test]
fn every_chunk_of_a_whole_file_checks() {
    let bytes = sample(100);
    let trace = open(&bytes).unwrap();
    assert_eq!(trace.events_written(), Some(627));
    for c in trace.chunks() {
        trace.check_chunk(c).unwrap();
    }
    for b in trace.blocks() {
        let stored = trace.stored_columns(b).unwrap();
        let ids: Vec<u8> = trace.kind_schema(b.header.kind).unwrap().columns.iter().map(|c| c.id).collect();
        assert_eq!(stored.iter().map(|c| c.id).collect::<Vec<_>>(), ids);
        let sum: u32 = stored.iter().map(|c| c.len_bytes).sum();
        assert_eq!(sum + b.header.head_len, b.header.payload_len);
    }
    // The index stands for a header that is broken; the check tells.
    let mut bad = bytes.clone();
    bad[usize::try_from(trace.blocks()[0].offset).unwrap() + 12] ^= 1;
    let trace = open(&bad).unwrap();
    assert!(trace.check_chunk(&trace.blocks()[0]).unwrap_err().to_string().contains("header crc"));
}

/// Found by tests/fuzz: a time that falls by nearly 2^64 is a small distance ahead, for distances wrap around.
#[test]
fn times_at_the_end_of_their_range_come_out_as_they_went_in() {
    let mut w = TraceWriter::new(Vec::new(), WriterOptions::default()).unwrap();
    let task = w.task(Task { pid: 1, tid: 1, start_ns: None });
    let mut times = vec![5, u64::MAX, 3, u64::MAX - 1, 0, 1 << 63];
    for &ts_ns in &times {
        w.push(ts_ns, 0, &Exit { task, group_dead: None }).unwrap();
    }
    let trace = open(&w.finish().unwrap().0).unwrap();
    let mut batch = Batch::new().unwrap();
    trace.read_block(&trace.blocks()[0], &mut batch, None).unwrap();
    times.sort_unstable();
    assert_eq!(batch.column(0).unwrap().to_vec(), times);
}

/// Found by tests/fuzz: with a single digit in the size byte, more bits were behind it than can be stored.
#[test]
fn a_thorough_writer_keeps_the_largest_numbers_that_scale() {
    let options = WriterOptions { thorough: true, level: 19, ..WriterOptions::default() };
    let mut w = TraceWriter::new(Vec::new(), options).unwrap();
    let task = w.task(Task { pid: 1, tid: 1, start_ns: None });
    let mut given = Vec::new();
    for i in 0..3000u64 {
        // Of every size up to 2^60, and without a pattern in the lowest digits.
        let any = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        given.push(any >> (4 + any % 50));
        w.push(i, 0, &Exit { task, group_dead: given.last().copied() }).unwrap();
    }
    let trace = open(&w.finish().unwrap().0).unwrap();
    let mut batch = Batch::new().unwrap();
    trace.read_block(&trace.blocks()[0], &mut batch, None).unwrap();
    assert_eq!(batch.column(3).unwrap().to_vec(), given);
}
