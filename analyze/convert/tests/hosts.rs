//! Recordings of several hosts in one file.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod packets;
mod put;

use ingero_convert::export::{Selection, chrome, folded, perfetto, records, sqlite};
use ingero_convert::import::{ImportOptions, hosts};
use ingero_convert::input::Progress;
use ingero_format::Trace;
use ingero_format::catalog::{
    Affinity, Annotation, Body, Class, Clock, Collective, Frame, Kind, Layer, NO_CPU, Name, Process, Stack, System,
    TaskId,
};
use ingero_replay::fixture::Fixture;
use ingero_replay::{Merge, Window};

use put::{WALL, put};

/// A host whose clock reads `mono` when its wall clock reads `WALL`: process 41 on CPU 1 calls a
/// function 1 ms after that.
fn host(name: &str, mono: u64, bracket_ns: u64) -> Vec<u8> {
    let mut f = Fixture::new();
    f.writer().set_meta("host", name);
    f.writer().set_meta("kernel", "6.18.1");
    f.writer().set_meta("cpus", "4");
    let task = f.task(41, 42);
    let func = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
    let text = f.writer().string(&format!("train on {name}"));
    let cpus = f.writer().string("0-3");
    let clock = |real_ns| Clock { boot_ns: 1, real_ns, tsc: None, bracket_ns };
    f.push(mono, NO_CPU, clock(WALL));
    // The wall clock was slewed by 30 ns in a second.
    f.push(mono + 1_000_000_000, NO_CPU, clock(WALL + 1_000_000_030));
    f.push(mono + 5, NO_CPU, Name { task, name: text, source: 0 });
    f.push(mono + 5, NO_CPU, Process { task, parent_pid: Some(7), exe: Some(text), args: None, followed: 1 });
    f.push(mono + 6, NO_CPU, Affinity { task, cpus, source: 0 });
    f.push(mono + 7, NO_CPU, System { load1_milli: Some(500), ..System::default() });
    f.switch(mono + 999_000, 1, TaskId(0), 0, task);
    f.call(mono + 1_000_000, 1, task, func, 250);
    f.switch(mono + 1_001_000, 1, task, 1, TaskId(0));
    f.into_bytes()
}

#[test]
fn hosts_stay_apart_on_one_clock() {
    let dir = tempfile::tempdir().unwrap();
    let traces = [
        put(dir.path(), "a.igt", &host("a", 50_000_000_000, 90)),
        put(dir.path(), "b.igt", &host("b", 8_000_000_000_000, 40)),
    ];
    let output = dir.path().join("all.igt");
    let done = hosts::merge(&traces, &output, ImportOptions::default()).unwrap();
    let all = Trace::open(&output).unwrap();
    assert!(all.complete());
    assert_eq!(Merge::new(&all).count() as u64, done.totals.events);
    // Both called 1 ms after the same moment, on CPUs and threads of their own.
    let calls: Vec<_> = Merge::of(&all, |kind| kind == Kind::Call).collect();
    let b = hosts::PIDS;
    let seen: Vec<_> = calls
        .iter()
        .map(|e| {
            let Body::Call(call) = e.body else { panic!() };
            let task = all.task(call.task);
            (task.pid, task.tid, e.cpu, all.function(call.func).unwrap().symbol.as_str())
        })
        .collect();
    assert_eq!(seen, [(41, 42, 1, "cudaLaunchKernel"), (b + 41, b + 42, 5, "cudaLaunchKernel")]);
    let apart = calls[0].ts_ns.abs_diff(calls[1].ts_ns);
    assert!(apart <= 30, "{apart}");
    assert_eq!(calls[1].ts_ns, 8_000_001_000_000, "the host that booted first keeps its times");
    let process = |e: &ingero_replay::Event| if let Body::Process(p) = e.body { p.parent_pid } else { None };
    let parents: Vec<_> = Merge::of(&all, |kind| kind == Kind::Process).map(|e| process(&e).unwrap()).collect();
    assert_eq!(parents, [7, u64::from(b) + 7]);
    let machines: Vec<_> = Merge::of(&all, |kind| kind == Kind::System).map(|e| e.cpu).collect();
    assert_eq!(machines, [0, 4]);
    assert_eq!(Merge::of(&all, |kind| kind == Kind::Clock).count(), 2, "the anchors of one clock");
    // Each may use the CPUs of its own host.
    let lists: Vec<_> = Merge::of(&all, |kind| kind == Kind::Affinity)
        .filter_map(|e| if let Body::Affinity(a) = e.body { Some(all.string(a.cpus).to_owned()) } else { None })
        .collect();
    assert_eq!(lists, ["0-3", "4-7"]);
    assert!(!done.ignored.contains_key("task_affinity"), "{:?}", done.ignored);
    for (key, value) in [
        ("hosts", "2"),
        ("cpus", "8"),
        ("kernel", "6.18.1"),
        ("host.0.host", "a"),
        ("host.1.host", "b"),
        ("host.0.shift_ns", "7950000000000"),
        ("host.0.uncertainty_ns", "120"),
        ("host.1.pid_base", "4194304"),
        ("host.1.cpu_base", "4"),
        ("host.1.uncertainty_ns", "70"),
    ] {
        assert_eq!(all.meta(key), Some(value), "{key}");
    }
    // Each process has the figures that it had alone.
    let whole = ingero_analyze::Analysis::new(&all, Window::whole(&all));
    let pids: Vec<_> = whole.processes.iter().map(|(_, p)| p.pid).collect();
    assert!(pids.contains(&41) && pids.contains(&(b + 41)), "{pids:?}");
}

#[test]
fn the_counters_of_hosts_stay_apart_in_every_format() {
    let dir = tempfile::tempdir().unwrap();
    let traces = [
        put(dir.path(), "a.igt", &host("a", 50_000_000_000, 90)),
        put(dir.path(), "b.igt", &host("b", 8_000_000_000_000, 40)),
    ];
    let output = dir.path().join("all.igt");
    hosts::merge(&traces, &output, ImportOptions::default()).unwrap();
    let all = Trace::open(&output).unwrap();
    let (whole, none) = (Selection::whole(&all), Progress::none());
    let due = ["a: load, 1 minute", "b: load, 1 minute"];

    let mut json = Vec::new();
    chrome::export(&all, &whole, &mut json, &none).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let counters = json["traceEvents"].as_array().unwrap().iter().filter(|e| e["ph"] == "C");
    let mut names: Vec<_> = counters.map(|e| e["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, due);

    let mut lines = Vec::new();
    records::export(&all, &whole, records::Layout::JsonLines, &mut lines, &none).unwrap();
    let lines = String::from_utf8(lines).unwrap();
    let lines = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let mut names: Vec<_> =
        lines.filter(|r| r["record"] == "counter").map(|r| r["name"].as_str().unwrap().to_owned()).collect();
    names.sort_unstable();
    assert_eq!(names, due);

    let mut packets = Vec::new();
    perfetto::export(&all, &whole, &mut packets, &none).unwrap();
    let packets = packets::unpacked(&packets);
    for name in due {
        assert!(packets.windows(name.len()).any(|at| at == name.as_bytes()), "{name}");
    }

    let database = dir.path().join("all.sqlite");
    sqlite::export(&all, &whole, &database, false, &none).unwrap();
    let db = rusqlite::Connection::open(&database).unwrap();
    let mut query = db.prepare("SELECT name, value FROM counters WHERE value IS NOT NULL ORDER BY name").unwrap();
    let rows = query.query_map([], |r| Ok((r.get::<_, String>(0)?, r.get::<_, f64>(1)?))).unwrap();
    let rows: Vec<_> = rows.map(Result::unwrap).collect();
    assert_eq!(rows, due.map(|name| (name.to_owned(), 0.5)));
    let hosts: i64 = db.query_row("SELECT count(*) FROM hosts WHERE name IN ('a', 'b')", [], |r| r.get(0)).unwrap();
    assert_eq!(hosts, 2);
}

#[test]
fn what_cannot_be_put_in_time_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut f = Fixture::new();
    let task = f.task(1, 1);
    f.switch(5, 0, TaskId(0), 0, task);
    let traces =
        [put(dir.path(), "a.igt", &host("a", 50_000_000_000, 90)), put(dir.path(), "clockless.igt", &f.into_bytes())];
    let output = dir.path().join("all.igt");
    let refused = hosts::merge(&traces, &output, ImportOptions::default()).unwrap_err().to_string();
    assert!(refused.contains("clockless.igt") && refused.contains("wall-clock anchors"), "{refused}");
    assert!(!output.exists());
    // The ids of the second host of a merge are those that the next recording would get.
    let all = dir.path().join("two.igt");
    let two = [
        put(dir.path(), "a.igt", &host("a", 50_000_000_000, 90)),
        put(dir.path(), "b.igt", &host("b", 8_000_000_000_000, 40)),
    ];
    hosts::merge(&two, &all, ImportOptions::default()).unwrap();
    let three = [Trace::open(&all).unwrap(), put(dir.path(), "c.igt", &host("c", 70_000_000_000, 40))];
    let refused = hosts::merge(&three, &output, ImportOptions::default()).unwrap_err().to_string();
    assert!(refused.contains("two.igt") && refused.contains("2 hosts already"), "{refused}");
    assert!(!output.exists());
}

/// A rank that launches each 100 ms and enters a collective 30 ms later, or `late_ns` after that. Its host booted at another time.
fn rank(host: &str, mono: u64, rank: u64, late_ns: u64) -> Vec<u8> {
    const MS: u64 = 1_000_000;
    let mut f = Fixture::new();
    f.writer().set_meta("host", host);
    let task = f.task(41, 41);
    let launch = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
    let reduce = f.func("ncclAllReduce", Layer::Nccl, Class::Collective);
    let name = f.writer().string("train");
    f.push(mono, NO_CPU, Clock { boot_ns: 1, real_ns: WALL, tsc: None, bracket_ns: 500 });
    f.push(mono, NO_CPU, Name { task, name, source: 0 });
    for step in 0..20 {
        let at = mono + MS + step * 100 * MS;
        f.call(at, 0, task, launch, 1_000);
        let at = at + 30 * MS + late_ns;
        f.call(at, 0, task, reduce, 1_000);
        // Each process has its communicator elsewhere.
        let (comm, rank, ranks, count) = (Some(0x7000 + rank), Some(rank), Some(2), Some(1 << 20));
        f.push(at, 0, Collective { task, comm, rank, ranks, count, datatype: Some(7), op: Some(0), peer: None });
    }
    // The clocks are read at the end as well.
    f.push(mono + 2_000 * MS, NO_CPU, Clock { boot_ns: 1, real_ns: WALL + 2_000 * MS, tsc: None, bracket_ns: 500 });
    f.into_bytes()
}

#[test]
fn the_rank_that_comes_last_is_named_across_hosts() {
    let told = |late_ns: u64| {
        let dir = tempfile::tempdir().unwrap();
        let traces = [
            put(dir.path(), "a.igt", &rank("node-a", 50_000_000_000, 0, 0)),
            put(dir.path(), "b.igt", &rank("node-b", 8_000_000_000_000, 1, late_ns)),
        ];
        let output = dir.path().join("all.igt");
        hosts::merge(&traces, &output, ImportOptions::default()).unwrap();
        let all = Trace::open(&output).unwrap();
        let analysis = ingero_analyze::Analysis::new(&all, Window::whole(&all));
        let found = analysis.incidents.iter().filter(|i| i.kind == "nccl-straggler");
        found.map(|i| (i.lost_ns, i.summary.clone())).collect::<Vec<_>>()
    };
    let found = told(50_000_000);
    let [(lost_ns, summary)] = &found[..] else { panic!("{found:?}") };
    assert!(summary.starts_with("train (41) (rank 0 on node-a) lost up to "), "{summary}");
    assert!(summary.contains("before rank 1, train (4194345) on node-b, which came last to "), "{summary}");
    // Of each wait the brackets of both anchors and the millisecond for NTP are left out.
    assert!((lost_ns / 19).abs_diff(50_000_000 - 1_000_000 - 2 * 500) < 1_000, "{lost_ns}");
    assert_eq!(told(900_000), [], "less than what wall clocks may differ by");
    assert_eq!(told(0), []);
}

/// A host whose thread 41 is on CPU 0 when the recording begins or ends, and 43 off it.
fn cut_host(name: &str, mono: u64, wall: u64) -> Vec<u8> {
    const MS: u64 = 1_000_000;
    let mut f = Fixture::new();
    f.writer().set_meta("host", name);
    f.writer().set_meta("cpus", "2");
    let (runs, waits) = (f.task(41, 41), f.task(43, 43));
    f.push(mono, NO_CPU, Clock { boot_ns: 1, real_ns: wall, tsc: None, bracket_ns: 100 });
    f.push(mono, NO_CPU, System { load1_milli: Some(500), ..System::default() });
    f.switch(mono + 2 * MS, 1, TaskId(0), 0, waits);
    f.switch(mono + 4 * MS, 1, waits, 1, TaskId(0));
    f.switch(mono + 5 * MS, 0, TaskId(0), 0, runs);
    f.push(mono + 10 * MS, NO_CPU, System { load1_milli: Some(500), ..System::default() });
    f.into_bytes()
}

/// Two hosts that recorded 100 s apart: of neither more is told than it recorded.
#[test]
fn nothing_is_told_of_a_host_beyond_its_own_recording() {
    let dir = tempfile::tempdir().unwrap();
    let alone = [cut_host("a", 50_000_000_000, WALL), cut_host("b", 8_000_000_000_000, WALL + 100_000_000_000)];
    let traces: Vec<_> =
        ["a.igt", "b.igt"].iter().zip(&alone).map(|(name, bytes)| put(dir.path(), name, bytes)).collect();
    let output = dir.path().join("all.igt");
    hosts::merge(&traces, &output, ImportOptions::default()).unwrap();
    let all = Trace::open(&output).unwrap();
    let figures = |trace: &Trace| {
        let a = ingero_analyze::Analysis::new(trace, Window::whole(trace));
        let of = |(id, p): (_, &ingero_replay::Process)| {
            let f = a.figures(id);
            (p.pid % hosts::PIDS, f.on_cpu_ns, f.off_cpu.unfinished_ns, f.off_cpu.count)
        };
        let mut all: Vec<_> = a.processes.iter().map(of).collect();
        all.sort_unstable();
        all
    };
    let mut due = [figures(&traces[0]), figures(&traces[1])].concat();
    due.sort_unstable();
    assert!(due.contains(&(41, 5_000_000, 5_000_000, 0)) && due.contains(&(43, 2_000_000, 8_000_000, 0)), "{due:?}");
    assert_eq!(figures(&all), due);

    // So it is in what becomes of the file: states by thread, whatever their ends are called.
    let (whole, none) = (Selection::whole(&all), Progress::none());
    let mut json = Vec::new();
    chrome::export(&all, &whole, &mut json, &none).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let slices = json["traceEvents"].as_array().unwrap().iter().filter(|e| e["cat"] == "state");
    let longest = slices.map(|e| e["dur"].as_f64().unwrap()).fold(0.0, f64::max);
    assert!((5_000.0..=10_000.0).contains(&longest), "{longest} us");
    let mut lines = Vec::new();
    records::export(&all, &whole, records::Layout::JsonLines, &mut lines, &none).unwrap();
    let lines = String::from_utf8(lines).unwrap();
    let states = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let states: Vec<_> = states.filter(|r| r["record"] == "state").collect();
    // One thread of each runs on when its host's recording ends, and one waits.
    assert_eq!(states.iter().filter(|r| r["end"] == "unfinished").count(), 4, "{states:?}");
    let sum: u64 = states.iter().map(|r| r["dur_ns"].as_u64().unwrap()).sum();
    let total: u64 = due.iter().map(|d| d.1 + d.2).sum();
    assert_eq!(sum, total);
    let database = dir.path().join("all.sqlite");
    sqlite::export(&all, &whole, &database, false, &none).unwrap();
    let db = rusqlite::Connection::open(&database).unwrap();
    let one = |sql: &str| db.query_row(sql, [], |r| r.get::<_, i64>(0)).unwrap();
    assert_eq!(one("SELECT sum(dur_ns) FROM thread_states"), total.cast_signed());
    assert_eq!(one("SELECT sum(off_cpu_count) FROM process_figures"), 0, "none has an end");
    assert_eq!(one("SELECT sum(unfinished) FROM thread_states"), 4);
    assert_eq!(
        one("SELECT sum(unfinished_ns) FROM process_figures"),
        due.iter().map(|d| d.2).sum::<u64>().cast_signed()
    );
}

/// What cannot be read of a recording is lost to the file that is made of several, and that file says so.
#[test]
fn what_one_recording_lost_to_damage_is_a_loss_of_all() {
    let dir = tempfile::tempdir().unwrap();
    let mut bytes = host("a", 50_000_000_000, 90);
    let whole = put(dir.path(), "whole.igt", &bytes);
    let block = whole.blocks().iter().find(|b| b.header.kind == Kind::Switch as u16).unwrap();
    bytes[usize::try_from(block.offset).unwrap() + ingero_format::layout::CHUNK_HEADER_LEN + 1] ^= 0x55;
    let (rows, from_ns, to_ns) = (u64::from(block.header.rows), block.header.ts_min, block.header.ts_max);
    let traces = [put(dir.path(), "a.igt", &bytes), put(dir.path(), "b.igt", &host("b", 8_000_000_000_000, 40))];
    let output = dir.path().join("all.igt");
    let done = hosts::merge(&traces, &output, ImportOptions::default()).unwrap();
    assert_eq!(done.damaged, 1, "{:?}", done.notes);
    let all = Trace::open(&output).unwrap();
    let shift: u64 = all.meta("host.0.shift_ns").unwrap().parse().unwrap();
    let losses: Vec<_> = Merge::of(&all, |kind| kind == Kind::Loss)
        .filter_map(|e| {
            if let Body::Loss(l) = e.body { Some((e.ts_ns, l.to_ns, all.string(l.probe), l.count)) } else { None }
        })
        .collect();
    assert_eq!(losses, [(from_ns + shift, to_ns + shift, "sched_switch", Some(rows))]);
    let a = ingero_analyze::Analysis::new(&all, Window::whole(&all));
    assert!(a.losses.list.iter().any(|l| l.unclaimed && l.count == rows), "{:?}", a.losses);
    let done = hosts::merge(&[whole], &dir.path().join("one.igt"), ImportOptions::default()).unwrap();
    assert_eq!(done.damaged, 0);

    // So it is where a recording ends before its end.
    let cut = host("a", 50_000_000_000, 90);
    let cut = put(dir.path(), "cut.igt", &cut[..cut.len() - 8]);
    let output = dir.path().join("of_cut.igt");
    let done = hosts::merge(&[cut], &output, ImportOptions::default()).unwrap();
    let count = Merge::of(&Trace::open(&output).unwrap(), |kind| kind == Kind::Loss).count() as u64;
    assert!(done.damaged > 0 && count == done.damaged, "{count} {done:?}");
}

#[test]
fn a_recording_is_merged_once() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = host("a", 50_000_000_000, 90);
    let other = host("b", 8_000_000_000_000, 40);
    let traces = [
        put(dir.path(), "a.igt", &bytes),
        put(dir.path(), "b.igt", &other),
        // Under whatever name.
        put(dir.path(), "copy.igt", &bytes),
    ];
    let output = dir.path().join("all.igt");
    let refused = hosts::merge(&traces, &output, ImportOptions::default()).map(|_| ()).unwrap_err().to_string();
    assert!(refused.contains("copy.igt: is the recording that") && refused.contains("a.igt is"), "{refused}");
    assert!(!output.exists());
}

/// A host whose call has a recorded stack, number 0 there, of these frames, innermost first. What ingero calls it stands beside.
fn stacked_host(name: &str, mono: u64, frames: &[&str]) -> Vec<u8> {
    let mut f = Fixture::new();
    f.writer().set_meta("host", name);
    let task = f.task(41, 41);
    let func = f.func("cudaMalloc", Layer::Runtime, Class::Alloc);
    let (source, label) = (f.writer().string("ingero"), f.writer().string("stack"));
    let text = f.writer().string(&format!("{{\"stack\":0,\"hash\":-{}}}", frames.len()));
    f.push(mono, NO_CPU, Clock { boot_ns: 1, real_ns: WALL, tsc: None, bracket_ns: 100 });
    f.push(mono, NO_CPU, Annotation { source, label, task: None, to_ns: None, text });
    for (depth, frame) in (0..).zip(frames) {
        let symbol = Some(f.writer().string(frame));
        f.push(
            mono + 10,
            NO_CPU,
            Frame { stack: 0, depth, symbol, file: None, line: None, address: None, language: 0 },
        );
    }
    f.push(mono + 10, NO_CPU, Stack { task, stack: 0 });
    f.call(mono + 10, NO_CPU, task, func, 250);
    f.into_bytes()
}

/// Each recording counts its stacks from 0: in one file the frames of one host are not those of another.
#[test]
fn stacks_of_two_hosts_stay_apart() {
    let dir = tempfile::tempdir().unwrap();
    let traces = [
        put(dir.path(), "a.igt", &stacked_host("a", 50_000_000_000, &["alloc", "step", "main"])),
        put(dir.path(), "b.igt", &stacked_host("b", 8_000_000_000_000, &["empty_cache", "run"])),
    ];
    let output = dir.path().join("all.igt");
    hosts::merge(&traces, &output, ImportOptions::default()).unwrap();
    let all = Trace::open(&output).unwrap();
    let (mut frames, mut stacks, mut names) = (Vec::new(), Vec::new(), Vec::new());
    for event in Merge::new(&all) {
        match event.body {
            Body::Frame(f) => frames.push((f.stack, f.depth, all.string(f.symbol.unwrap()).to_owned())),
            Body::Stack(s) => stacks.push((all.task(s.task).pid, s.stack)),
            Body::Annotation(a) => {
                let name: serde_json::Value = serde_json::from_str(all.string(a.text)).unwrap();
                names.push((name["stack"].as_u64().unwrap(), name["hash"].as_i64().unwrap()));
            }
            _ => {}
        }
    }
    frames.sort_unstable();
    let due = [(0, 0, "alloc"), (0, 1, "step"), (0, 2, "main"), (1, 0, "empty_cache"), (1, 1, "run")];
    assert_eq!(frames, due.map(|(stack, depth, symbol)| (stack, depth, symbol.to_owned())));
    stacks.sort_unstable();
    names.sort_unstable();
    assert_eq!((stacks, names), (vec![(41, 0), (41 + hosts::PIDS, 1)], vec![(0, -3), (1, -2)]));

    let mut lines = Vec::new();
    folded::export(&all, &Selection::whole(&all), &mut lines, &Progress::none()).unwrap();
    let lines = String::from_utf8(lines).unwrap();
    let due = [("(41)", ";main;step;alloc;cudaMalloc;"), ("(4194345)", ";run;empty_cache;cudaMalloc;")];
    for (pid, stack) in due {
        assert!(lines.lines().any(|line| line.contains(pid) && line.contains(stack)), "{lines}");
    }
    assert_eq!(lines.lines().count(), 2, "{lines}");
}

/// In ingero's layout each row says which node it is of, and each has its session.
#[test]
fn nodes_of_the_old_layout_are_the_hosts() {
    let dir = tempfile::tempdir().unwrap();
    let traces = [
        put(dir.path(), "a.igt", &host("a", 50_000_000_000, 90)),
        put(dir.path(), "b.igt", &host("b", 8_000_000_000_000, 40)),
    ];
    let output = dir.path().join("all.igt");
    hosts::merge(&traces, &output, ImportOptions::default()).unwrap();
    let all = Trace::open(&output).unwrap();
    let database = dir.path().join("all.db");
    sqlite::ingero::export(&all, &Selection::whole(&all), &database, false, &Progress::none()).unwrap();
    let db = rusqlite::Connection::open(&database).unwrap();
    let rows = |sql: &str| {
        let mut query = db.prepare(sql).unwrap();
        let rows = query.query_map([], |r| Ok((r.get::<_, String>(0)?, r.get::<_, i64>(1)?, r.get::<_, i64>(2)?)));
        rows.unwrap().map(Result::unwrap).collect::<Vec<_>>()
    };
    let pid = 41 + i64::from(hosts::PIDS);
    assert_eq!(
        rows("SELECT node, pid, count(*) FROM events WHERE source = 1 GROUP BY 1, 2 ORDER BY 1"),
        [("a".to_owned(), 41, 1), ("b".to_owned(), pid, 1)]
    );
    let sessions = rows("SELECT node, cpu_cores, stopped_at - started_at FROM sessions ORDER BY node");
    assert_eq!(sessions, [("a".to_owned(), 4, 1_000_000_000), ("b".to_owned(), 4, 1_000_000_000)]);
}

/// A recording lies between its first and its last event, a reading of its clocks perhaps, which the file has not.
#[test]
fn the_file_lasts_as_long_as_its_recordings() {
    let dir = tempfile::tempdir().unwrap();
    let traces = [
        put(dir.path(), "a.igt", &host("a", 50_000_000_000, 90)),
        // Booted first: the file's clock is its clock. It ends 990 ms sooner.
        put(dir.path(), "b.igt", &cut_host("b", 8_000_000_000_000, WALL)),
    ];
    let output = dir.path().join("all.igt");
    hosts::merge(&traces, &output, ImportOptions::default()).unwrap();
    let all = Trace::open(&output).unwrap();
    let key = |key: &str| all.meta(key).unwrap().parse::<u64>().unwrap();
    let (start_ns, end_ns) = all.span_ns().unwrap();
    assert_eq!((start_ns, end_ns), (key("host.0.start_ns").min(key("host.1.start_ns")), key("host.0.end_ns")));
    assert!((end_ns - start_ns).abs_diff(1_000_000_000) < 1_000);
    assert!(all.blocks().iter().all(|b| b.header.ts_max < end_ns));
}
