use super::*;
use crate::export::Cut;
use std::collections::BTreeMap;

use ingero_format::catalog::{
    Call, Class, END_BEGAN_BEFORE, END_OPEN, END_SKIPPED, END_THREAD_EXIT, Event, Exit, FuncId, Layer, Loss, NO_CPU,
    Name, System, TaskId,
};
use ingero_replay::fixture::Fixture;
use serde_json::Value;

fn exported(trace: &Trace) -> (Vec<Value>, Exported) {
    selected(trace, &Selection::whole(trace))
}

fn selected(trace: &Trace, selection: &Selection) -> (Vec<Value>, Exported) {
    let mut out = Vec::new();
    let done = export(trace, selection, &mut out, &Progress::none()).unwrap();
    let json: Value = serde_json::from_slice(&out).unwrap();
    let events = json["traceEvents"].as_array().unwrap().clone();
    check(&events);
    let mut again = Vec::new();
    export(trace, selection, &mut again, &Progress::none()).unwrap();
    assert!(out == again, "the same trace gives the same bytes");
    (events, done)
}

/// Nanoseconds of a time in microseconds with three decimals.
fn ns(value: &Value) -> u64 {
    let (micros, rest) = value.to_string().split_once('.').map(|(a, b)| (a.to_owned(), format!("{b:0<3}"))).unwrap();
    assert_eq!(rest.len(), 3);
    micros.parse::<u64>().unwrap() * 1000 + rest.parse::<u64>().unwrap()
}

/// What a viewer needs: slices of a track nest, arrows begin and end in slices, tracks have names.
fn check(events: &[Value]) {
    let mut tracks: BTreeMap<(u64, u64), Vec<(u64, u64)>> = BTreeMap::new();
    let of = |e: &Value| (e["pid"].as_u64().unwrap(), e["tid"].as_u64().unwrap());
    let mut named = std::collections::HashSet::new();
    for e in events {
        match e["ph"].as_str().unwrap() {
            "M" if e["name"] == "thread_name" => assert!(named.insert(of(e)), "{e}"),
            "M" => {}
            "X" => {
                assert!(named.contains(&of(e)), "{e}");
                tracks.entry(of(e)).or_default().push((ns(&e["ts"]), ns(&e["dur"])));
            }
            "s" | "f" => {
                let at = ns(&e["ts"]);
                let holds = |(ts, dur): &(u64, u64)| *ts <= at && at < ts + dur;
                assert!(tracks[&of(e)].iter().any(holds), "written before and around it: {e}");
            }
            "C" | "i" => {
                ns(&e["ts"]);
            }
            other => panic!("{other}"),
        }
        assert_ne!(e["tid"], 0, "the idle task has no track");
    }
    for (track, mut slices) in tracks {
        // Written in the order in which a viewer has to take slices that begin together.
        slices.sort_by_key(|(ts, _)| *ts);
        let mut open: Vec<u64> = Vec::new();
        for (ts, dur) in slices {
            while open.last().is_some_and(|end| *end <= ts) {
                open.pop();
            }
            assert!(open.last().is_none_or(|end| ts + dur <= *end), "{track:?}: {ts}+{dur} leaves {open:?}");
            open.push(ts + dur);
        }
    }
}

fn slices<'e>(events: &'e [Value], category: &str) -> Vec<&'e Value> {
    events.iter().filter(|e| e["ph"] == "X" && e["cat"] == category).collect()
}

fn call(task: TaskId, func: FuncId, dur_ns: Option<u64>, end: u64) -> Call {
    Call {
        task,
        func,
        dur_ns,
        end,
        result: None,
        ptr: None,
        ptr2: None,
        bytes: None,
        copy: None,
        stream: None,
        device: None,
    }
}

fn name(f: &mut Fixture, ts: u64, task: TaskId, text: &str) {
    let name = f.writer().string(text);
    f.push(ts, 0, Name { task, name, source: 0 });
}

#[test]
fn a_stay_that_began_before_the_trace_says_so() {
    let mut f = Fixture::new();
    let (a, b) = (f.task(7, 7), f.task(8, 8));
    f.switch(100, 0, TaskId(0), 0, a);
    f.switch(200, 0, a, 1, b);
    f.switch(900, 0, b, 1, TaskId(0));
    f.switch(950, 0, TaskId(0), 0, a);
    let (events, _) = exported(&f.finish());
    let began = |tid: u64| {
        let slice = slices(&events, "state").into_iter().find(|e| e["name"] == "blocked" && e["pid"] == tid).unwrap();
        (slice["args"]["began"].clone(), slice["args"]["state"].is_null())
    };
    assert_eq!(began(8), ("before this".into(), true));
    assert_eq!(began(7), (Value::Null, false));
}

#[test]
fn calls_nest_and_keep_what_is_known_of_them() {
    let mut f = Fixture::new();
    let main = f.task(7, 7);
    let runtime = f.func("cudaMemcpyAsync", Layer::Runtime, Class::Copy);
    let driver = f.func("cuMemcpyHtoDAsync_v2", Layer::Driver, Class::Copy);
    let full = Call {
        result: Some(-3),
        ptr: Some(u64::MAX - 7),
        ptr2: Some(0x10),
        bytes: Some(1 << 60),
        copy: Some(1),
        stream: Some(2),
        ..call(main, runtime, Some(1_500), 0)
    };
    f.push(1_000_000_001, 0, full);
    // Both begin in the same instant.
    f.push(1_000_000_001, 0, call(main, driver, Some(500), 0));
    f.push(1_000_002_000, 0, call(main, driver, Some(0), 0));
    let (events, done) = exported(&f.finish());
    assert_eq!((done.calls, done.cut), (3, 0));
    let outer = slices(&events, "runtime")[0];
    assert_eq!((ns(&outer["ts"]), ns(&outer["dur"])), (0, 1_500), "times count from the start");
    let args = &outer["args"];
    assert_eq!(args["ptr"], "0xfffffffffffffff8");
    assert_eq!(args["bytes"], (1u64 << 60).to_string());
    assert_eq!((&args["copy"], &args["result"]), (&"host-to-device".into(), &(-3).into()));
    assert_eq!(slices(&events, "driver").len(), 2);
}

#[test]
fn calls_without_a_return_claim_no_more_than_is_known() {
    let mut f = Fixture::new();
    let (a, b) = (f.task(7, 7), f.task(7, 8));
    let func = f.func("cudaFree", Layer::Runtime, Class::Free);
    f.push(100, 0, call(a, func, None, END_BEGAN_BEFORE));
    f.push(200, 0, call(a, func, None, END_SKIPPED));
    f.push(300, 0, call(a, func, None, END_OPEN));
    f.push(400, 0, call(a, func, Some(50), 0));
    f.push(500, 1, call(b, func, None, END_THREAD_EXIT));
    f.push(700, 1, Exit { task: b, group_dead: None });
    f.push(900, 1, Exit { task: a, group_dead: None });
    let (events, done) = exported(&f.finish());
    assert_eq!(done.calls, 5);
    let mut seen: Vec<_> = slices(&events, "runtime")
        .iter()
        .map(|e| (ns(&e["ts"]), ns(&e["dur"]), e["args"]["end"].as_str().unwrap_or("returned").to_owned()))
        .collect();
    seen.sort();
    let row = |ts, dur, end: &str| (ts, dur, end.to_owned());
    assert_eq!(
        seen,
        [
            row(0, 0, "began-before"),
            row(100, 0, "skipped"),
            row(200, 600, "open"),
            row(300, 50, "returned"),
            row(400, 200, "thread-exit"),
        ]
    );
}

#[test]
fn slices_that_overlap_are_cut() {
    let mut f = Fixture::new();
    let main = f.task(7, 7);
    let func = f.func("cudaFree", Layer::Runtime, Class::Free);
    for (ts, dur) in [(0, 100), (50, 100), (60, 500), (120, 10), (u64::MAX / 2, 100)] {
        f.call(ts, 0, main, func, dur);
    }
    f.call(10, 1, main, func, u64::MAX);
    let (events, done) = exported(&f.finish());
    assert!(done.cut >= 2, "{done:?}");
    assert!(slices(&events, "runtime").iter().any(|e| e["args"]["cut"].is_string()));
}

#[test]
fn states_and_wakes() {
    let mut f = Fixture::new();
    let (main, worker, idle) = (f.task(7, 7), f.task(7, 8), TaskId(0));
    for (ts, task, text) in [(0, main, "main"), (0, worker, "pin\u{0}\"\\\u{7f}memory")] {
        name(&mut f, ts, task, text);
    }
    f.switch(100, 0, idle, 0, worker);
    f.switch(200, 0, worker, 1, idle);
    f.switch(250, 1, idle, 0, main);
    f.waking(300, 1, main, worker, 0);
    f.switch(340, 0, idle, 0, worker);
    f.switch(400, 0, worker, 1, idle);
    f.waking(500, 1, main, worker, 2);
    f.switch(540, 0, idle, 0, worker);
    f.switch(600, 1, main, 0x100, idle);
    let (events, done) = exported(&f.finish());
    let states: Vec<_> = slices(&events, "state");
    assert_eq!(states.len() as u64, done.states);
    let find = |name: &str, ts: u64| {
        *states.iter().find(|e| e["name"] == name && ns(&e["ts"]) == ts).unwrap_or_else(|| panic!("{name} {ts}"))
    };
    assert_eq!(ns(&find("running on CPU 0", 0)["dur"]), 100);
    assert_eq!(find("blocked", 100)["args"]["waker"], "main 7");
    assert_eq!(ns(&find("runnable", 200)["dur"]), 40);
    assert_eq!(find("blocked", 300)["args"]["waker"], "interrupt (hardirq)");
    assert_eq!(find("running on CPU 0", 440)["args"]["end"], "unfinished");
    assert_eq!(done.flows, 1, "an interrupt wakes without an arrow");
    let named = events.iter().any(|e| e["ph"] == "M" && e["args"]["name"] == "pin\u{0}\"\\\u{7f}memory 8 state");
    assert!(named);
}

#[test]
fn a_task_that_was_renamed_says_so_where_it_matters() {
    let mut f = Fixture::new();
    let main = f.task(7, 7);
    let func = f.func("cudaFree", Layer::Runtime, Class::Free);
    name(&mut f, 0, main, "sh");
    name(&mut f, 50, main, "python");
    f.call(10, 0, main, func, 5);
    f.call(60, 0, main, func, 5);
    let (events, _) = exported(&f.finish());
    let calls = slices(&events, "runtime");
    assert_eq!(calls[0]["args"]["thread"], "sh");
    assert!(calls[1]["args"]["thread"].is_null());
    assert!(events.iter().any(|e| e["name"] == "process_name" && e["args"]["name"] == "python"));
}

#[test]
fn counters_and_losses() {
    let system = |n: u64| System {
        user_ns: Some(n * 300),
        system_ns: Some(n * 100),
        idle_ns: Some(n * 500),
        iowait_ns: Some(0),
        steal_ns: Some(n * 100),
        mem_total_bytes: Some(1 << 40),
        mem_available_bytes: Some(1 << 39),
        swap_total_bytes: Some(0),
        swap_used_bytes: Some(u64::MAX - 1),
        load1_milli: Some(1_250),
        load5_milli: Some(0),
        load15_milli: Some(0),
        ..System::default()
    };
    let mut f = Fixture::new();
    f.push(0, NO_CPU, system(1));
    f.push(1_000, NO_CPU, system(2));
    // A counter that falls is damage, not 2^64.
    f.push(2_000, NO_CPU, system(1));
    let probe = f.writer().string("sched_switch");
    f.push(500, 3, Loss { to_ns: 700, probe, cause: 0, count: Some(5), of_host: None });
    let (events, _) = exported(&f.finish());
    let counter = |name: &str| {
        let found = events.iter().filter(|e| e["ph"] == "C" && e["name"] == name);
        found.map(|e| e["args"]["value"].as_f64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(counter("CPU user %"), [30.0, 0.0]);
    assert_eq!(counter("load, 1 minute"), [1.25; 3]);
    assert_eq!(counter("memory used bytes"), [549_755_813_888.0; 3]);
    let loss = events.iter().find(|e| e["ph"] == "i").unwrap();
    assert_eq!((&loss["name"], &loss["args"]["count"]), (&"lost: sched_switch".into(), &5.into()));
    assert_eq!(loss["args"]["cause"], "ring-full");
}

#[test]
fn an_empty_trace_is_valid() {
    let (events, done) = exported(&Fixture::new().finish());
    assert!(events.is_empty());
    assert_eq!(done, Exported::default());
}

#[test]
fn rows_that_refer_to_nothing_do_no_harm() {
    let mut f = Fixture::new();
    f.push(1, 0, call(TaskId(99), FuncId(99), Some(5), 0));
    f.push(2, 0, call(TaskId(0), FuncId(0), Some(5), 77));
    f.switch(3, u32::MAX, TaskId(98), 1, TaskId(97));
    let (events, _) = exported(&f.finish());
    assert!(events.iter().all(|e| e["ph"] != "X"), "{events:?}");
    // Every kind can be written and none stops the export.
    assert_eq!(<Call as Event>::WIDTH, 13);
}

#[test]
fn a_reader_that_goes_away_is_told_apart() {
    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let trace = Fixture::new().finish();
    let failed = export(&trace, &Selection::whole(&trace), Closed, &Progress::none());
    let Err(Error::Io { source, .. }) = failed else { panic!("{failed:?}") };
    assert_eq!(source.kind(), io::ErrorKind::BrokenPipe);
}

#[test]
fn a_range_and_a_process_can_be_cut_out() {
    let mut f = Fixture::new();
    let (main, other) = (f.task(7, 7), f.task(9, 9));
    let outer = f.func("cudaMalloc", Layer::Runtime, Class::Alloc);
    let inner = f.func("cuMemAlloc_v2", Layer::Driver, Class::Alloc);
    f.switch(1_000, 0, TaskId(0), 0, main);
    f.push(2_000, 0, call(main, outer, Some(4_000), 0));
    f.push(3_500, 0, call(main, inner, Some(1_000), 0));
    f.push(5_000, 1, call(other, outer, Some(100), 0));
    f.waking(5_500, 0, main, other, 0);
    f.switch(9_000, 0, main, 1, other);
    f.switch(11_000, 0, other, 1, main);
    let trace = f.finish();
    let window = ingero_replay::Window::parse(&trace, Some("2us"), Some("7us"), None).unwrap();
    let selection = Selection::new(&trace, window, &Cut { pids: vec![7], ..Cut::default() }).unwrap();
    let (events, done) = selected(&trace, &selection);
    assert_eq!((done.calls, done.flows), (1, 0), "the outer call began before, the other is of another process");
    let inner = slices(&events, "driver")[0];
    assert_eq!((ns(&inner["ts"]), ns(&inner["dur"])), (2_500, 1_000), "times count from the trace's start");
    let states = slices(&events, "state");
    assert_eq!(states.len(), 1);
    assert_eq!((ns(&states[0]["ts"]), ns(&states[0]["dur"])), (2_000, 5_000));
    assert!(
        Selection::new(&trace, window, &Cut { pids: vec![8], ..Cut::default() }).unwrap_err().contains("no process 8")
    );
}
