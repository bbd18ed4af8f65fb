//! In a file of several hosts each has the figures of its own recording.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod put;

use std::path::Path;

use ingero_convert::export::{Selection, sqlite};
use ingero_convert::import::{ImportOptions, hosts};
use ingero_convert::input::Progress;
use ingero_format::Trace;
use ingero_format::catalog::{Aggregate, Class, Clock, Kind, Layer, Loss, NO_CPU, OffCpu, PageAlloc, TaskId, Wakeup};
use ingero_replay::Window;
use ingero_replay::fixture::Fixture;

use put::{WALL, put};

/// A host on which a trainer launches every 20 ms, runs, is preempted, waits and allocates for a second; with a loss of such events
/// between two instants, ms.
fn training(name: &str, mono: u64, lost: Option<(&str, u64, u64)>) -> Vec<u8> {
    const MS: u64 = 1_000_000;
    let mut f = Fixture::with_rows(40);
    f.writer().set_meta("host", name);
    f.writer().set_meta("cpus", "2");
    let (main, other) = (f.task(41, 41), f.task(50, 50));
    let launch = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
    f.push(mono, NO_CPU, Clock { boot_ns: 1, real_ns: WALL, tsc: None, bracket_ns: 40 });
    f.writer().seal_kind(Kind::Clock).unwrap();
    f.switch(mono, 0, TaskId(0), 0, main);
    for i in 0..50 {
        let at = mono + i * 20 * MS;
        f.call(at + MS, 0, main, launch, 3 * MS);
        f.push(at + 2 * MS, 0, PageAlloc { task: main, pfn: None, order: 1, gfp_flags: 0, migratetype: None });
        f.switch(at + 5 * MS, 0, main, 0x100, other);
        f.switch(at + 9 * MS, 0, other, 1, main);
        f.switch(at + 12 * MS, 0, main, 1, TaskId(0));
        f.waking(at + 16 * MS, 1, other, main, 0);
        f.switch(at + 17 * MS, 0, TaskId(0), 0, main);
    }
    f.switch(mono + 1_000 * MS, 0, main, 0x10, TaskId(0));
    if let Some((probe, from_ms, to_ms)) = lost {
        let probe = f.writer().string(probe);
        let loss = Loss { to_ns: mono + to_ms * MS, probe, cause: 0, count: Some(5), of_host: None };
        f.push(mono + from_ms * MS, NO_CPU, loss);
    }
    f.into_bytes()
}

/// What the JSON says of the processes, phases and incidents of one host, as that host numbers them.
fn told_of(trace: &Trace, host: u32) -> serde_json::Value {
    fn unnumbered(value: &mut serde_json::Value, base: u64) {
        match value {
            serde_json::Value::Object(fields) => {
                fields.retain(|key, _| !matches!(key.as_str(), "id" | "phase"));
                for (key, field) in fields {
                    match (matches!(key.as_str(), "pid" | "tid"), field.as_u64()) {
                        (true, Some(id)) => *field = (id - base).into(),
                        _ => unnumbered(field, base),
                    }
                }
            }
            serde_json::Value::Array(list) => list.iter_mut().for_each(|item| unnumbered(item, base)),
            serde_json::Value::String(text) => {
                for pid in [41, 50] {
                    *text = text.replace(&format!("({})", base + pid), &format!("({pid})"));
                }
            }
            _ => {}
        }
    }
    let base = u64::from(host) * u64::from(hosts::PIDS);
    let a = ingero_analyze::Analysis::new(trace, Window::whole(trace));
    let mut all: serde_json::Value = serde_json::from_str(&ingero_analyze::report::json(&a, &[]).unwrap()).unwrap();
    let shift: u64 = trace
        .meta(&format!("host.{host}.start_ns"))
        .map_or(0, |ns| ns.parse::<u64>().unwrap() - trace.span_ns().unwrap().0);
    assert_eq!(shift, 0, "all begin at once");
    for list in ["processes", "phases", "incidents"] {
        let of_host =
            |row: &serde_json::Value| row["pid"].as_u64().unwrap() / u64::from(hosts::PIDS) == u64::from(host);
        all[list].as_array_mut().unwrap().retain(of_host);
        unnumbered(&mut all[list], base);
    }
    serde_json::json!([all["processes"], all["phases"], all["incidents"]])
}

/// What one host lost, or what cannot be read of it, hides nothing of another.
#[test]
fn each_host_has_the_figures_of_its_own_recording_whatever_another_lost() {
    let dir = tempfile::tempdir().unwrap();
    let sources = [
        training("a", 50_000_000_000, Some(("sched_switch", 0, 1_000))),
        training("a", 50_000_000_000, Some(("sched_switch", 300, 400))),
        training("a", 50_000_000_000, Some(("call", 300, 400))),
        training("a", 50_000_000_000, Some(("no kind", 0, 1_000))),
        {
            let mut bytes = training("a", 50_000_000_000, None);
            let whole = put(dir.path(), "whole.igt", &bytes);
            for block in whole.blocks().iter().filter(|b| b.header.kind == Kind::Switch as u16) {
                bytes[usize::try_from(block.offset).unwrap() + ingero_format::layout::CHUNK_HEADER_LEN + 1] ^= 0x55;
            }
            bytes
        },
    ];
    for (n, source) in sources.into_iter().enumerate() {
        for lossy in [0, 1] {
            let clean = put(dir.path(), &format!("clean-{n}-{lossy}.igt"), &training("b", 8_000_000_000_000, None));
            let source = put(dir.path(), &format!("lossy-{n}-{lossy}.igt"), &source);
            let due = [told_of(&source, 0), told_of(&clean, 0)];
            let traces = if lossy == 0 { [source, clean] } else { [clean, source] };
            let output = dir.path().join(format!("all-{n}-{lossy}.igt"));
            hosts::merge(&traces, &output, ImportOptions::default()).unwrap();
            let all = Trace::open(&output).unwrap();
            assert_eq!(told_of(&all, 1 - lossy), due[1], "the clean host beside lossy {n}, which is {lossy}");
            assert_eq!(told_of(&all, lossy), due[0], "lossy host {n}, which is {lossy}");

            // So it is in a database, and in records.
            let whole = Selection::whole(&all);
            let database = dir.path().join(format!("all-{n}-{lossy}.sqlite"));
            sqlite::export(&all, &whole, &database, false, &Progress::none()).unwrap();
            let db = rusqlite::Connection::open(&database).unwrap();
            let base = hosts::PIDS * (1 - lossy);
            let figures = "SELECT f.on_cpu_ns, f.context_switches, o.running_ns FROM process_figures f JOIN op_figures o ON o.pid = f.pid \
                           WHERE f.pid = ?1";
            let figures = db.query_row(figures, [41 + base], |r| {
                Ok((r.get::<_, Option<i64>>(0)?, r.get::<_, Option<i64>>(1)?, r.get::<_, Option<i64>>(2)?))
            });
            assert_eq!(figures.unwrap(), (Some(550_000_000), Some(101), Some(150_000_000)), "{n} {lossy}");
            let process = &told_of(&all, lossy)[0][0];
            let own: Option<i64> = db
                .query_row("SELECT on_cpu_ns FROM process_figures WHERE pid = ?1", [41 + hosts::PIDS * lossy], |r| {
                    r.get(0)
                })
                .unwrap();
            assert_eq!(own, process["on_cpu_ns"].as_i64(), "{n} {lossy}");
            let hosts: Vec<Option<u32>> = {
                let mut hosts = db.prepare("SELECT DISTINCT host FROM losses").unwrap();
                let hosts = hosts.query_map([], |r| r.get(0)).unwrap();
                hosts.map(Result::unwrap).collect()
            };
            assert_eq!(hosts, [Some(lossy)]);
        }
    }
}

/// A host of which a source kept a sample, for so many milliseconds: process 41 waits for its device every 100 ms, and launches and is off
/// the CPU between; of what it counted over a minute it stored a part.
fn sampled(name: &str, mono: u64, lasts_ms: u64) -> Vec<u8> {
    const MS: u64 = 1_000_000;
    let mut f = Fixture::new();
    f.writer().set_meta("host", name);
    f.writer().set_meta("sampled", "true");
    for (key, value) in [("stored_events", "30"), ("counted_events", "90")] {
        f.writer().set_meta(key, value);
    }
    let task = f.task(41, 41);
    let launch = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
    let wait = f.func("cudaDeviceSynchronize", Layer::Runtime, Class::Sync);
    f.push(mono, NO_CPU, Clock { boot_ns: 1, real_ns: WALL, tsc: None, bracket_ns: 40 });
    for step in 0..lasts_ms / 100 {
        let at = mono + step * 100 * MS;
        f.call(at, NO_CPU, task, launch, MS);
        f.push(at + 10 * MS, NO_CPU, OffCpu { task, dur_ns: 20 * MS });
        f.call(at + 60 * MS, NO_CPU, task, wait, 40 * MS);
    }
    let (source, switch) = (f.writer().string("HOST"), f.writer().string("sched_switch"));
    for (func, op, dur_ns) in [(None, switch, 20 * MS), (Some(launch), switch, MS), (Some(wait), switch, 40 * MS)] {
        let count = 3 * lasts_ms / 100;
        let total = Aggregate {
            task,
            source,
            op,
            func,
            bucket_ns: WALL,
            len_ns: 60_000 * MS,
            count,
            stored: lasts_ms / 100,
            sum_dur_ns: Some(count * dur_ns / 2),
            min_dur_ns: Some(dur_ns),
            max_dur_ns: Some(dur_ns),
            sum_arg0: 0,
        };
        f.push(mono, NO_CPU, total);
    }
    f.into_bytes()
}

/// What the views of figures say of one host, by its own process ids.
fn figures_of(trace: &Trace, dir: &Path, name: &str, host: u32) -> Vec<String> {
    let database = dir.join(name);
    sqlite::export(trace, &Selection::whole(trace), &database, true, &Progress::none()).unwrap();
    let db = rusqlite::Connection::open(&database).unwrap();
    let (base, mut rows) = (hosts::PIDS * host, Vec::new());
    for (view, columns) in [
        (
            "process_figures",
            "context_switches, off_cpu_count, off_cpu_ns, off_cpu_max_ns, blocked_ns, runnable_ns, on_cpu_ns, page_alloc_bytes",
        ),
        ("op_figures", "function, count, sum_ns, self_ns, mean_ns, p99_ns, running_ns, blocked_ns"),
        ("behind_figures", "ns"),
    ] {
        let sql = format!(
            "SELECT pid - {base}, {columns} FROM {view} WHERE pid BETWEEN {base} AND {base} + 1000 ORDER BY 1, 2"
        );
        let mut query = db.prepare(&sql).unwrap();
        let count = query.column_count();
        let row = |r: &rusqlite::Row| {
            let cell = |at| Ok(format!("{:?}", r.get::<_, rusqlite::types::Value>(at)?));
            Ok((0..count).map(cell).collect::<rusqlite::Result<Vec<_>>>()?.join(" "))
        };
        rows.extend(query.query_map([], row).unwrap().map(|row| format!("{view} {}", row.unwrap())));
    }
    assert!(!rows.is_empty());
    rows
}

/// A full recording and a sample in one file: each has the figures of its own, whichever lasts longer.
#[test]
fn a_full_recording_keeps_its_figures_beside_a_sample() {
    let dir = tempfile::tempdir().unwrap();
    for (n, lasts_ms) in [500, 3_000].into_iter().enumerate() {
        let full = put(dir.path(), &format!("full-{n}.igt"), &training("a", 50_000_000_000, None));
        let part = put(dir.path(), &format!("part-{n}.igt"), &sampled("b", 8_000_000_000_000, lasts_ms));
        let due = [told_of(&full, 0), told_of(&part, 0)];
        let rows = [figures_of(&full, dir.path(), "f.sqlite", 0), figures_of(&part, dir.path(), "p.sqlite", 0)];
        for first in [0, 1] {
            let traces =
                if first == 0 { [&full, &part] } else { [&part, &full] }.map(|t| Trace::open(t.path()).unwrap());
            let output = dir.path().join(format!("all-{n}-{first}.igt"));
            hosts::merge(&traces, &output, ImportOptions::default()).unwrap();
            let all = Trace::open(&output).unwrap();
            assert_eq!(
                told_of(&all, first),
                due[0],
                "the full host beside a sample of {lasts_ms} ms, as number {first}"
            );
            assert_eq!(told_of(&all, 1 - first), due[1], "the sample of {lasts_ms} ms, as number {}", 1 - first);
            assert_eq!(figures_of(&all, dir.path(), "a.sqlite", first), rows[0], "{lasts_ms} {first}");
            assert_eq!(figures_of(&all, dir.path(), "a.sqlite", 1 - first), rows[1], "{lasts_ms} {first}");
        }
    }
}

/// A recording that was cut off beside a whole one: it hides nothing of that.
#[test]
fn a_whole_recording_keeps_its_figures_beside_one_that_was_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = training("a", 50_000_000_000, None);
    for part in [3, 5, 7] {
        let cut = put(dir.path(), &format!("cut-{part}.igt"), &bytes[..bytes.len() * part / 8]);
        assert!(!cut.complete());
        let whole = put(dir.path(), &format!("whole-{part}.igt"), &training("b", 8_000_000_000_000, None));
        let (due, rows) = (told_of(&whole, 0), figures_of(&whole, dir.path(), "w.sqlite", 0));
        for first in [0, 1] {
            let traces =
                if first == 0 { [&whole, &cut] } else { [&cut, &whole] }.map(|t| Trace::open(t.path()).unwrap());
            let output = dir.path().join(format!("cut-all-{part}-{first}.igt"));
            hosts::merge(&traces, &output, ImportOptions::default()).unwrap();
            let all = Trace::open(&output).unwrap();
            assert_eq!(told_of(&all, first), due, "beside {part}/8 of a recording, as number {first}");
            assert_eq!(figures_of(&all, dir.path(), "a.sqlite", first), rows, "{part} {first}");
        }
    }
}

/// Pages of two hosts need not be of one size.
#[test]
fn pages_are_as_large_as_those_of_their_host() {
    let dir = tempfile::tempdir().unwrap();
    let paged = |name: &str, mono: u64, page_size: &str| {
        let mut f = Fixture::new();
        f.writer().set_meta("host", name);
        f.writer().set_meta("page_size", page_size);
        let task = f.task(41, 41);
        f.push(mono, NO_CPU, Clock { boot_ns: 1, real_ns: WALL, tsc: None, bracket_ns: 40 });
        f.switch(mono, 0, TaskId(0), 0, task);
        f.push(mono + 5, 0, PageAlloc { task, pfn: None, order: 1, gfp_flags: 0, migratetype: None });
        f.switch(mono + 10, 0, task, 1, TaskId(0));
        put(dir.path(), &format!("{name}.igt"), &f.into_bytes())
    };
    let traces = [paged("x86", 50_000_000_000, "4096"), paged("arm", 8_000_000_000_000, "65536")];
    let output = dir.path().join("all.igt");
    hosts::merge(&traces, &output, ImportOptions::default()).unwrap();
    let all = Trace::open(&output).unwrap();
    for (host, bytes) in [(0, 2 * 4096), (1, 2 * 65536)] {
        let told = told_of(&all, host);
        assert_eq!(told[0][0]["page_allocs"]["bytes"], bytes, "{told}");
        let rows = figures_of(&all, dir.path(), "all.sqlite", host).join("; ");
        assert!(rows.contains(&format!("Integer({bytes})")), "{rows}");
    }
    let database = dir.path().join("all.db");
    sqlite::ingero::export(&all, &Selection::whole(&all), &database, false, &Progress::none()).unwrap();
    let db = rusqlite::Connection::open(&database).unwrap();
    let mut query = db.prepare("SELECT arg0 FROM events WHERE source = 3 AND op = 3 ORDER BY node").unwrap();
    let bytes: Vec<i64> = query.query_map([], |r| r.get(0)).unwrap().map(Result::unwrap).collect();
    assert_eq!(bytes, [2 * 65536, 2 * 4096]);
}

/// What happened on a host is what happened there, whoever else is in the file: each process has the causes that it has alone.
#[test]
fn the_verdicts_of_a_file_are_those_of_its_recordings() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../investigations/h200-cpu-contention");
    let traces = ["affinity.igt", "quota.igt"].map(|name| Trace::open(folder.join(name)).unwrap());
    let dir = tempfile::tempdir().unwrap();
    let output = dir.path().join("all.igt");
    hosts::merge(&traces, &output, ImportOptions::default()).unwrap();
    let verdicts = |trace: &Trace, base: u32| {
        let a = ingero_analyze::Analysis::new(trace, Window::whole(trace));
        let of = |i: &ingero_analyze::Incident| {
            (a.processes.get(i.process).pid + base, i.kind, i.severity.name(), i.lost_ns)
        };
        a.incidents.iter().map(of).collect::<Vec<_>>()
    };
    let mut due = [verdicts(&traces[0], 0), verdicts(&traces[1], hosts::PIDS)].concat();
    let mut seen = verdicts(&Trace::open(&output).unwrap(), 0);
    assert!(due.iter().any(|(_, kind, ..)| *kind == "affinity-squeeze"), "{due:?}");
    due.sort_unstable();
    seen.sort_unstable();
    assert_eq!(seen, due);
}

/// Of a host that was recorded the switches say what came of its wakeups, which the old layout has no place for; of a sample it has.
#[test]
fn wakeups_that_the_old_layout_leaves_out_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let waking = |name: &str, mono: u64, is_sample: bool, wakeups: u64| {
        let mut f = Fixture::new();
        f.writer().set_meta("host", name);
        f.writer().set_meta("sampled", if is_sample { "true" } else { "false" });
        let task = f.task(41, 41);
        f.push(mono, NO_CPU, Clock { boot_ns: 1, real_ns: WALL, tsc: None, bracket_ns: 40 });
        if !is_sample {
            f.switch(mono, 0, TaskId(0), 0, task);
        }
        for at in 0..wakeups {
            f.push(mono + at, NO_CPU, Wakeup { wakee: task, target_cpu: u64::from(NO_CPU) });
        }
        put(dir.path(), &format!("{name}.igt"), &f.into_bytes())
    };
    let recorded = waking("recorded", 50_000_000_000, false, 5);
    let sample = waking("sample", 8_000_000_000_000, true, 3);
    let left_out = |trace: &Trace| {
        let all = sqlite::ingero::left_out(trace, &Selection::whole(trace));
        all.get("sched_wakeup").copied().unwrap_or(0)
    };
    assert_eq!((left_out(&recorded), left_out(&sample)), (5, 0));
    let output = dir.path().join("all.igt");
    hosts::merge(&[recorded, sample], &output, ImportOptions::default()).unwrap();
    let all = Trace::open(&output).unwrap();
    let database = dir.path().join("all.db");
    sqlite::ingero::export(&all, &Selection::whole(&all), &database, false, &Progress::none()).unwrap();
    let db = rusqlite::Connection::open(&database).unwrap();
    let kept: i64 = db.query_row("SELECT count(*) FROM events WHERE source = 3 AND op = 2", [], |r| r.get(0)).unwrap();
    assert_eq!((kept, left_out(&all)), (3, 5));
}
