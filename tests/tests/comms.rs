//! NCCL, NVTX and the device of each call: what the stand-ins were called with is what the file says.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use ingero_format::Trace;
use ingero_format::catalog::{Body, Call, Collective, Mark, Range, TaskId};
use ingero_replay::Merge;
use ingero_tests::{Recording, record_with, standin};

struct Seen {
    trace: Trace,
    collectives: Vec<(u64, Collective)>,
    calls: Vec<(u64, Call)>,
    ranges: Vec<Range>,
    marks: Vec<Mark>,
}

fn recorded() -> (Recording, Seen) {
    let recording = record_with(&[], &[standin().comms.display().to_string()], &[]);
    assert_eq!(recording.run.code(), 0, "{}", recording.run.stderr);
    let trace = Trace::open(&recording.file).unwrap();
    let (mut collectives, mut calls, mut ranges, mut marks) = (vec![], vec![], vec![], vec![]);
    for event in Merge::new(&trace) {
        match event.body {
            Body::Collective(row) => collectives.push((event.ts_ns, row)),
            Body::Call(row) => calls.push((event.ts_ns, row)),
            Body::Range(row) => ranges.push(row),
            Body::Mark(row) => marks.push(row),
            _ => {}
        }
    }
    (recording, Seen { trace, collectives, calls, ranges, marks })
}

impl Seen {
    fn symbol(&self, call: &Call) -> &str {
        &self.trace.function(call.func).unwrap().symbol
    }
}

#[test]
fn collectives_have_the_arguments_they_were_called_with() {
    let (recording, seen) = recorded();
    let line = recording.run.stdout.lines().find_map(|l| l.strip_prefix("comms ")).unwrap().to_owned();
    let [comm, half] = line.split(' ').map(|n| n.parse().ok()).collect::<Vec<Option<u64>>>()[..] else {
        panic!("{line}")
    };
    let found: Vec<_> = seen
        .collectives
        .iter()
        .map(|(ts_ns, row)| {
            let (_, call) =
                seen.calls.iter().find(|(at, c)| at == ts_ns && c.task == row.task).expect("the call's own row");
            let place = (row.comm, row.rank, row.ranks);
            (
                seen.symbol(call),
                place,
                (row.count, row.datatype, row.op, row.peer),
                call.bytes,
                call.stream,
                call.result,
            )
        })
        .collect();
    let whole = (comm, Some(2), Some(4));
    let stream = Some(0x5000);
    let collective = |symbol, count, datatype, op, peer, bytes| {
        (symbol, whole, (Some(count), Some(datatype), op, peer), Some(bytes), stream, Some(0))
    };
    let due = [
        ("ncclCommInitRank", whole, (None, None, None, None), None, None, Some(0)),
        collective("ncclAllReduce", 1000, 6, Some(2), None, 2000),
        collective("ncclAllGather", 2000, 7, None, None, 8000),
        collective("ncclReduceScatter", 3000, 8, Some(0), None, 24_000),
        collective("ncclReduce", 4000, 9, Some(4), Some(1), 8000),
        collective("ncclBroadcast", 5000, 0, None, Some(3), 5000),
        collective("ncclAlltoAll", 6000, 10, None, None, 6000),
        collective("ncclBcast", 7000, 2, None, Some(0), 28_000),
        collective("ncclSend", 8000, 1, None, Some(3), 8000),
        collective("ncclRecv", 9000, 4, None, Some(1), 72_000),
        // Nobody has said yet who is who in the half.
        ("ncclCommSplit", (half, None, None), (None, None, None, None), None, None, Some(0)),
        ("ncclAllReduce", (half, None, None), (Some(10), Some(6), Some(0), None), Some(20), stream, Some(0)),
        ("ncclAllReduce", (half, Some(1), Some(2)), (Some(20), Some(6), Some(0), None), Some(40), stream, Some(0)),
        ("ncclAllReduce", (half, Some(1), Some(2)), (Some(0), Some(6), Some(0), None), Some(0), stream, Some(4)),
        ("ncclCommDestroy", (half, Some(1), Some(2)), (None, None, None, None), None, None, Some(0)),
    ];
    assert_eq!(found, due);
    let symbols: Vec<_> = seen.calls.iter().map(|(_, c)| seen.symbol(c)).collect();
    assert!(symbols.contains(&"ncclGroupStart") && symbols.contains(&"ncclGroupEnd"));
    assert!(symbols.iter().all(|s| !s.starts_with("nvtx")), "{symbols:?}");
}

#[test]
fn a_call_has_the_device_that_its_thread_chose() {
    let (_recording, seen) = recorded();
    let of = |symbol: &str| -> Vec<(Option<u64>, Option<i64>)> {
        let found = seen.calls.iter().filter(|(_, c)| seen.symbol(c) == symbol);
        found.map(|(_, c)| (c.device, c.result)).collect()
    };
    assert_eq!(of("cudaSetDevice"), [(Some(0), Some(0)), (Some(3), Some(101))]);
    // The last one is another thread's, which chose none.
    let devices: Vec<_> = of("cudaDeviceSynchronize").into_iter().map(|(device, _)| device).collect();
    assert_eq!(devices, [Some(0), Some(3), Some(3), Some(0)]);
    assert!(of("ncclAllReduce").iter().all(|(device, _)| *device == Some(3)));
}

#[test]
fn ranges_and_marks_have_names_and_lengths() {
    let (_recording, seen) = recorded();
    let name = |range: &Range| range.name.map(|name| seen.trace.string(name).to_owned());
    let main = seen.ranges.iter().find(|r| name(r).as_deref() == Some("outer")).unwrap().task;
    let brief: Vec<_> = seen.ranges.iter().map(|r| (name(r), r.form, r.end, r.task == main)).collect();
    let text = |text: &str| Some(text.to_owned());
    let mut due = vec![
        (text("outer"), 0, 0, true),
        (text("inner \"quoted\""), 0, 0, true),
        // The same in a domain of its own.
        (text("inner \"quoted\""), 0, 0, true),
        (None, 0, 4, true),
        (None, 0, 0, true),
        (text("first"), 1, 0, true),
        (text("second"), 1, 0, true),
        (text("never popped"), 0, 3, false),
        (text("open at the end"), 1, 1, true),
    ];
    let mut found = brief.clone();
    found.sort();
    due.sort();
    assert_eq!(found, due, "{brief:?}");
    let long = |wanted: &str| {
        let found = seen.ranges.iter().find(|r| name(r).as_deref() == Some(wanted));
        found.and_then(|r| r.dur_ns).unwrap_or_else(|| panic!("{wanted} has no length"))
    };
    assert!((40_000_000..2_000_000_000).contains(&long("outer")), "{}", long("outer"));
    assert!((20_000_000..long("outer")).contains(&long("inner \"quoted\"")), "{}", long("inner \"quoted\""));
    let [mark] = seen.marks[..] else { panic!("{:?}", seen.marks) };
    assert_eq!((mark.text.map(|t| seen.trace.string(t)), mark.source, mark.task), (Some("half way"), 1, Some(main)));
    assert_ne!(main, TaskId(0));
}
