//! The investigations that are bundled: what their recordings show does not change. Needs no root.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ingero_tests::{analyze_json, perfetto_query, run, tool};
use serde_json::Value;
use tempfile::tempdir;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("investigations").join(name)
}

fn process(analysis: &Value, pid: u64) -> &Value {
    let list = analysis["processes"].as_array().unwrap();
    list.iter().find(|p| p["pid"] == pid).unwrap_or_else(|| panic!("no process {pid}"))
}

fn runnable_s(analysis: &Value, pid: u64) -> f64 {
    process(analysis, pid)["off_cpu"]["runnable_ns"].as_f64().unwrap() / 1e9
}

/// Seconds that a process could have run while another held its CPU.
fn behind_s(analysis: &Value, pid: u64, holder: u64) -> f64 {
    let list = process(analysis, pid)["runnable_behind"].as_array().unwrap();
    list.iter().find(|b| b["pid"] == holder).map_or(0.0, |b| b["ns"].as_f64().unwrap() / 1e9)
}

/// The capture gives the bundled recording, figure for figure.
fn assert_import(name: &str) -> Value {
    let dir = tempdir().unwrap();
    let fresh = dir.path().join("run.igt");
    let mut command = Command::new(tool("ingero-convert"));
    command.arg(folder(name).join("capture.trace.txt.xz")).arg("-o").arg(&fresh);
    let _ = run(&mut command, Duration::from_secs(60)).success();
    let bundled = analyze_json(&folder(name).join("run.igt"), &[]);
    assert!(analyze_json(&fresh, &[]) == bundled, "{name}: import and bundled recording differ");
    bundled
}

#[test]
fn workers_beside_busy_shells_wait_behind_them() {
    let analysis = assert_import("h200-fight");
    for worker in 551..=554 {
        let runnable = runnable_s(&analysis, worker);
        assert!((3.40..=4.10).contains(&runnable), "{worker}: {runnable}");
        let list = process(&analysis, worker)["runnable_behind"].as_array().unwrap();
        let sum: u64 = list.iter().map(|b| b["ns"].as_u64().unwrap()).sum();
        assert!(sum <= process(&analysis, worker)["off_cpu"]["runnable_ns"].as_u64().unwrap(), "{worker}: {list:#?}");
    }
    // 551 and 552 shared a CPU with each other and with one shell.
    for (worker, other) in [(551, 552), (552, 551)] {
        assert!((1.90..=1.95).contains(&behind_s(&analysis, worker, 538)), "{worker}");
        assert!((1.85..=1.95).contains(&behind_s(&analysis, worker, other)), "{worker}");
    }
    let first = &analysis["incidents"][0];
    assert_eq!((&first["kind"], &first["severity"]), (&"cpu-contention".into(), &"HIGH".into()), "{first:#}");
    assert!(first["summary"].as_str().unwrap().contains("sh (538)"), "{first:#}");
}

#[test]
fn workers_by_themselves_hardly_wait() {
    let analysis = assert_import("h200-workers");
    for worker in 509..=512 {
        let runnable = runnable_s(&analysis, worker);
        assert!((0.18..=0.55).contains(&runnable), "{worker}: {runnable}");
    }
    let incidents = analysis["incidents"].as_array().unwrap();
    assert!(incidents.iter().all(|i| i["kind"] != "cpu-contention" || i["severity"] != "HIGH"), "{incidents:#?}");
    assert_eq!(incidents[0]["kind"], "busy-workers", "{incidents:#?}");
}

/// The kernel's own uprobes counted the same run.
#[test]
fn every_call_on_a_real_gpu_is_there() {
    let folder = folder("h200-dataloader");
    let counted: Value = serde_json::from_str(&std::fs::read_to_string(folder.join("counted.json")).unwrap()).unwrap();
    let counted: BTreeMap<String, u64> = counted["counts"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, n)| (name.clone(), n.as_u64().unwrap()))
        .filter(|(_, n)| *n > 0)
        .collect();
    let analysis = analyze_json(&folder.join("run.igt"), &[]);
    let mut recorded: BTreeMap<String, u64> = BTreeMap::new();
    for op in analysis["processes"].as_array().unwrap().iter().flat_map(|p| p["ops"].as_array().unwrap()) {
        let calls = op["count"].as_u64().unwrap() + op["unreturned"].as_u64().unwrap();
        *recorded.entry(op["name"].as_str().unwrap().to_owned()).or_default() += calls;
    }
    assert_eq!(recorded, counted);
    assert_eq!(counted.len(), 14);
    assert_eq!(analysis["trace"]["lost_events"], 0);
    let first = &analysis["incidents"][0];
    assert_eq!((&first["kind"], &first["severity"]), (&"busy-workers".into(), &"HIGH".into()), "{first:#}");
}

#[test]
fn perfetto_takes_the_whole_of_a_real_recording() {
    let dir = tempdir().unwrap();
    let trace = dir.path().join("run.json");
    let mut command = Command::new(tool("ingero-convert"));
    command.arg(folder("h200-fight").join("run.igt")).arg("--chrome").arg("-o").arg(&trace);
    let _ = run(&mut command, Duration::from_secs(60)).success();
    let answers = perfetto_query(
        &trace,
        &[
            "select name, value from stats where severity in ('error', 'data_loss') and value > 0",
            "select count(*) from slice where (name glob 'cu[A-Z]*' or name glob 'cuda[A-Z]*') and name not glob '* *'",
            "select count(distinct track_id) from slice where name glob 'running on CPU *'",
        ],
    );
    assert!(answers[0].rows.is_empty(), "{:?}", answers[0].rows);
    // As many as the capture has entries of functions.
    assert_eq!(answers[1].number(), 237);
    assert!(answers[2].number() > 60);
}

/// What the engine itself says of that database: direct, then busy, then workers without a call.
fn assert_phases_of_the_sample(analysis: &Value) {
    let phases = analysis["phases"].as_array().unwrap();
    let [warm, direct, busy, workers] = &phases[..] else { panic!("{phases:#?}") };
    for p in phases {
        for unknown in ["submissions", "waited", "chains"] {
            assert!(p[unknown].is_null(), "{unknown}: {p:#}");
        }
        assert!(p["gaps"].as_object().unwrap().values().all(Value::is_null), "{p:#}");
    }
    let ms = |p: &Value| (p["end_ns"].as_u64().unwrap() - p["start_ns"].as_u64().unwrap()) as f64 / 1e6;
    let within =
        |of: &Value, range: std::ops::RangeInclusive<f64>| range.contains(&(of.as_u64().unwrap() as f64 / 1e6));
    assert_eq!(warm["warm_up"], true, "{warm:#}");
    assert!((433.0..434.0).contains(&ms(direct)) && (49_600.0..49_610.0).contains(&ms(busy)), "{phases:#?}");
    assert_eq!((&direct["sample"]["steps"]["count"], &busy["sample"]["steps"]["count"]), (&7.into(), &7.into()));
    assert_eq!(busy["sample"]["times_as_long"]["phase"], direct["id"], "{busy:#}");
    assert!((114.0..115.0).contains(&busy["sample"]["times_as_long"]["times"].as_f64().unwrap()), "{busy:#}");
    let off = &busy["sample"]["main_off_cpu_ns"];
    assert!(within(&off["at_least"], 42.0..=43.0) && within(&off["at_most"], 43.0..=45.0), "{busy:#}");
    assert!(within(&busy["sample"]["copies_ns"]["at_most"], 220.0..=225.0), "{busy:#}");
    assert!(within(&busy["sample"]["main_busy_ns_at_least"], 49_200.0..=49_400.0), "{busy:#}");
    assert_eq!((&busy["workers"], &workers["workers"]), (&0.into(), &4.into()));
    assert_eq!(workers["sample"]["calls_stored"], 0, "{workers:#}");
    let switches = &workers["sample"]["switches"];
    for bound in ["at_least", "at_most"] {
        assert!((190_000..192_000).contains(&switches[bound].as_u64().unwrap()), "{workers:#}");
    }
    let [first] = &analysis["incidents"].as_array().unwrap()[..] else { panic!("{:#}", analysis["incidents"]) };
    assert_eq!(
        (&first["kind"], &first["severity"], &first["phase"]),
        (&"busy-main".into(), &"HIGH".into(), &busy["id"])
    );
    assert!(first["root_cause"].as_str().unwrap().contains("none is to blame"), "{first:#}");
}

/// The same in words, and nothing of it in a comparison.
fn assert_report_of_the_sample(file: &Path) {
    let analyzed = |args: &[&str]| {
        let mut command = Command::new(tool("ingero-analyze"));
        command.arg(file).args(args);
        run(&mut command, Duration::from_secs(60)).success().stdout.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    for text in [analyzed(&[]), analyzed(&["--format", "markdown"])] {
        for fact in ["434 ms", "49.6 s", "42.9 ms to 44.0 ms", "all copies took at most 224 ms", "114 times as long"] {
            assert!(text.contains(fact), "{fact}: {text}");
        }
        for fact in ["no worker to blame", "its 4 workers", "190,", "no CUDA call is recorded of it"] {
            assert!(text.contains(fact), "{fact}: {text}");
        }
        assert!(!text.contains("GPU fed"), "{text}");
    }
    let mut command = Command::new(tool("ingero-analyze"));
    command.arg("diff").arg(file).arg(file).args(["--format", "json"]);
    let diff: Value = serde_json::from_str(&run(&mut command, Duration::from_secs(60)).success().stdout).unwrap();
    assert_eq!((&diff["outcome"], &diff["causes"]), (&"unknown".into(), &Value::Array(Vec::new())), "{diff:#}");
    assert!(diff["verdict"].as_str().unwrap().contains("is a sample"), "{diff:#}");
    assert!(diff["before"]["gaps_ns"].is_null() && diff["before"]["fed"].is_null(), "{diff:#}");
}

/// Of a thread that was busy a sample does not tell with what; that the same steps took less elsewhere does.
#[test]
fn a_sample_advises_what_its_evidence_carries() {
    let file = folder("pytorch-dataloader-starvation").join("recording.igt");
    let advice = |args: &[&str]| analyze_json(&file, args)["incidents"][0]["recommendations"].to_string();
    let whole = advice(&[]);
    assert!(whole.contains("num_workers") && !whole.contains("profile"), "{whole}");
    // The quick steps are outside of this range.
    let part = advice(&["--from", "13.2s", "--to", "60s"]);
    assert!(part.contains("profile the main thread's own code") && !part.contains("num_workers"), "{part}");
}

/// The figures of the database by which its investigation stands, from the recording alone.
#[test]
fn the_dataloader_database_has_no_worker_to_blame() {
    const BASE_NS: u64 = 1_774_015_560_000_000_000;
    let file = folder("pytorch-dataloader-starvation").join("recording.igt");
    let analysis = analyze_json(&file, &[]);
    assert_eq!(analysis["trace"]["sampled"], true);
    // Switches, longest stay in microseconds, page allocations; what is not counted is unknown.
    for (pid, switches, mean_us, max_us, allocs) in [
        (2233, 3_713, 397, 23_871, Some(1_173_407)),
        (2254, 53_526, 100, 1_059_842, Some(77_792)),
        (2255, 45_281, 95, 31_014, Some(71_226)),
        (2256, 40_292, 94, 35_991, Some(59_036)),
        (2257, 29_956, 247, 5_000_057, Some(49_110)),
        (2258, 18_093, 403, 5_003_853, None),
    ] {
        let p = process(&analysis, pid);
        let off = &p["off_cpu"];
        let us = |key: &str| off[key].as_u64().unwrap() / 1000;
        assert_eq!((p["context_switches"].as_u64(), off["count"].as_u64()), (Some(switches), Some(switches)), "{pid}");
        assert_eq!((us("sum_ns") / switches, us("max_ns")), (mean_us, max_us), "{pid}");
        assert_eq!(p["page_allocs"]["count"].as_u64(), allocs, "{pid}");
        assert!(off["runnable_ns"].is_null() && off["blocked_ns"].is_null() && p["on_cpu_ns"].is_null(), "{pid}");
    }
    assert_phases_of_the_sample(&analysis);
    assert_report_of_the_sample(&file);
    let ops = process(&analysis, 2233)["ops"].as_array().unwrap();
    assert!(ops.iter().all(|op| op["p50_ns"].is_null() && op["p99_ns"].is_null() && op["count"].is_u64()), "{ops:#?}");

    let mut command = Command::new(tool("ingero-replay"));
    command.arg("dump").arg(&file).args(["--format", "json"]);
    let lines = run(&mut command, Duration::from_secs(60)).success();
    let events: Vec<Value> = lines.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |kind: &'static str| events.iter().filter(move |e| e["kind"] == kind);
    let at_ms = |e: &Value| (e["ts_ns"].as_u64().unwrap() - BASE_NS) as f64 / 1e6;
    let dur_ms = |e: &Value| e["fields"]["dur_ns"].as_u64().unwrap() as f64 / 1e6;
    let ends: Vec<f64> =
        of("call").filter(|e| e["fields"]["func"] == "cudaDeviceSynchronize").map(|e| at_ms(e) + dur_ms(e)).collect();
    let [warm, direct, loader] = ends[..] else { panic!("{ends:?}") };
    assert!((433.0..434.0).contains(&(direct - warm)), "{ends:?}");
    assert!((49_600.0..49_610.0).contains(&(loader - direct)), "{ends:?}");
    let within = |e: &&Value| (direct..loader).contains(&at_ms(e));
    let off_ms: f64 = of("off_cpu").filter(within).map(dur_ms).sum();
    assert!((42.0..44.0).contains(&off_ms), "{off_ms}");
    // None of the copies of that phase is stored: they are what the totals count beyond the stored ones.
    let copies = |e: &&Value| e["fields"]["func"] == "cudaMemcpyAsync";
    let counted_ms: f64 =
        of("aggregate").filter(copies).map(|e| e["fields"]["sum_dur_ns"].as_u64().unwrap() as f64 / 1e6).sum();
    let stored_ms: f64 = of("call").filter(copies).map(dur_ms).sum();
    assert!(of("call").filter(copies).all(|e| at_ms(e) < direct));
    assert!((220.0..225.0).contains(&(counted_ms - stored_ms)), "{counted_ms} {stored_ms}");
    // The first worker is born after it; the switches are of the second minute, and no call is.
    let born: Vec<f64> = of("sched_process_fork").map(at_ms).collect();
    assert!(born.iter().all(|&at| at > loader), "{born:?}");
    let second: u64 = of("aggregate")
        .filter(|e| e["fields"]["op"] == "sched_switch" && e["fields"]["bucket_ns"].as_u64().unwrap() > BASE_NS)
        .map(|e| e["fields"]["count"].as_u64().unwrap())
        .sum();
    assert!((190_000..192_000).contains(&second), "{second}");
    assert!(of("call").all(|e| at_ms(e) < loader));
    assert_eq!(of("annotation").filter(|e| e["fields"]["label"] == "causal_chain").count(), 316);
}

/// The recording as a database, and what a query of it answers: rows of text, split at the bars.
fn queried(recording: &Path, query: &str) -> Vec<Vec<String>> {
    let dir = tempdir().unwrap();
    let database = dir.path().join("run.db");
    let mut convert = Command::new(tool("ingero-convert"));
    convert.arg(recording).args(["--sqlite", "-q", "-o"]).arg(&database);
    let _ = run(&mut convert, Duration::from_secs(60)).success();
    let script = "import sqlite3, sys\nfor row in sqlite3.connect(sys.argv[1]).execute(sys.argv[2]): print('|'.join(map(str, row)))";
    let mut python = Command::new("python3");
    python.args(["-c", script]).arg(&database).arg(query);
    let answer = run(&mut python, Duration::from_secs(60)).success().stdout;
    answer.lines().map(|line| line.split('|').map(str::to_owned).collect()).collect()
}

/// Kind and severity of the first incident of all.
fn first_cause(investigation: &str, recording: &str) -> (String, String) {
    let analysis = analyze_json(&folder(investigation).join(recording), &[]);
    let first = &analysis["incidents"][0];
    (first["kind"].as_str().unwrap().to_owned(), first["severity"].as_str().unwrap().to_owned())
}

/// One loop, slowed down three ways: three causes. Left alone it has none of them above LOW.
#[test]
fn three_ways_to_starve_a_loop_have_three_names() {
    for (recording, kind) in
        [("neighbours", "cpu-contention"), ("quota", "cpu-quota"), ("affinity", "affinity-squeeze")]
    {
        let found = first_cause("h200-cpu-contention", &format!("{recording}.igt"));
        assert_eq!(found, (kind.to_owned(), "HIGH".to_owned()), "{recording}");
    }
    let free = analyze_json(&folder("h200-cpu-contention").join("free.igt"), &[]);
    for incident in free["incidents"].as_array().unwrap() {
        let kind = incident["kind"].as_str().unwrap();
        let blamed =
            ["cpu-contention", "noisy-neighbour", "cpu-quota", "affinity-squeeze", "too-many-workers"].contains(&kind);
        assert!(!blamed || incident["severity"] == "LOW", "{incident:#}");
    }
}

#[test]
fn emptying_the_cache_is_churn_and_keeping_it_none() {
    let kinds = |recording: &str| {
        let analysis = analyze_json(&folder("h200-allocator-churn").join(recording), &[]);
        let list = analysis["incidents"].as_array().unwrap().iter();
        let churn = list.filter(|i| i["kind"] == "allocation-churn" && i["severity"] == "HIGH");
        churn.map(|i| i["lost_ns"].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!(kinds("keep.igt"), 0);
    // The job took 0.61 s longer by its own clock.
    assert!((500_000_000..620_000_000).contains(&kinds("empty.igt")));
}

/// The table of that investigation, from the trace alone.
#[test]
fn the_link_and_what_pageable_memory_makes_of_it_are_in_the_trace() {
    let folder = folder("h200-pageable-copies");
    let query = std::fs::read_to_string(folder.join("rates.sql")).unwrap();
    let rows = queried(&folder.join("run.igt"), &query);
    let rate = |row: &Vec<String>| (row[1].parse::<u64>().unwrap(), row[3].parse::<f64>().unwrap());
    let readme = std::fs::read_to_string(folder.join("README.md")).unwrap();
    let (pageable, pinned) = rows.split_at(7);
    assert_eq!(pinned.len(), 7, "{rows:?}");
    for (slow, fast) in pageable.iter().map(rate).zip(pinned.iter().map(rate)) {
        assert_eq!(slow.0, fast.0);
        let bytes = slow.0.to_string();
        let shown = readme.lines().find(|line| line.replace(',', "").starts_with(&format!("| {bytes} |"))).unwrap();
        let cells: Vec<&str> = shown.split('|').map(str::trim).collect();
        assert_eq!((cells[2], cells[4]), (&*format!("{:.2}", slow.1), &*format!("{:.2}", fast.1)), "{shown}");
    }
    assert_eq!(first_cause("h200-pageable-copies", "run.igt"), ("pageable-copies".to_owned(), "HIGH".to_owned()));
}

/// Rank 1 is slow on purpose, since its main thread is busy: both are found.
#[test]
fn the_slow_rank_is_named_and_why_it_is_slow() {
    let analysis = analyze_json(&folder("h200-two-gpu-straggler").join("run.igt"), &[]);
    let incidents = analysis["incidents"].as_array().unwrap();
    let first = &incidents[0];
    assert_eq!((&first["kind"], &first["severity"]), (&"nccl-straggler".into(), &"HIGH".into()), "{first:#}");
    assert!(first["summary"].as_str().unwrap().contains("before rank 1, python3 (639)"), "{first:#}");
    let busy = incidents.iter().find(|i| i["kind"] == "busy-main" && i["pid"] == 639).unwrap();
    assert_eq!(busy["severity"], "HIGH", "{busy:#}");
    // In the first half neither is slow, and the phases of both end with it.
    let stragglers = incidents.iter().filter(|i| i["kind"] == "nccl-straggler").count();
    assert_eq!(stragglers, 1, "{incidents:#?}");
    for pid in [638, 639] {
        let own = analysis["phases"].as_array().unwrap().iter().filter(|p| p["pid"] == pid && p["warm_up"] == false);
        let ends: Vec<f64> = own.map(|p| p["end_ns"].as_f64().unwrap() / 1e9).collect();
        assert!((16.6..16.8).contains(&ends[0]), "{pid}: {ends:?}");
    }
    // Where its threads were seen all the while, what they did in gaps is all of these, whatever cause has their time.
    for p in analysis["phases"].as_array().unwrap().iter().filter(|p| p["warm_up"] == false) {
        let gaps = &p["gaps"];
        let states = ["running_ns", "runnable_ns", "throttled_ns", "blocked_ns"].map(|s| gaps[s].as_u64().unwrap_or(0));
        assert_eq!(states.iter().sum::<u64>(), gaps["sum_ns"].as_u64().unwrap(), "{p:#}");
    }
}

/// The job makes collectives of known numbers: collectives.py.
#[test]
fn ranks_and_counts_of_collectives_are_those_that_were_made() {
    let rows = queried(
        &folder("h200-two-gpu-straggler").join("collectives.igt"),
        "SELECT k.function, c.rank, c.ranks, c.count, count(*) FROM collective c JOIN calls k ON k.ts_ns = c.ts_ns AND k.task = c.task \
         WHERE c.count IS NOT NULL GROUP BY 1, 2, 3, 4 ORDER BY 1, 2",
    );
    let made = [
        ("AllGather", 300_000, 25),
        ("AllReduce", 1_000_000, 100),
        ("Bcast", 4096, 50),
        ("Broadcast", 4096, 50),
        ("ReduceScatter", 512, 10),
    ];
    let expected: Vec<Vec<String>> = made
        .iter()
        .flat_map(|(name, count, times)| [0, 1].map(|rank| format!("nccl{name}|{rank}|2|{count}|{times}")))
        .map(|row| row.split('|').map(str::to_owned).collect())
        .collect();
    assert_eq!(rows, expected);
    // Its ranks are as quick: neither is blamed for what the other waits.
    let analysis = analyze_json(&folder("h200-two-gpu-straggler").join("collectives.igt"), &[]);
    assert!(analysis["incidents"].as_array().unwrap().iter().all(|i| i["kind"] != "nccl-straggler"), "{analysis:#}");
}

#[test]
fn launches_one_by_one_are_the_cause_and_a_graph_is_the_cure() {
    assert_eq!(first_cause("llm-decode-launch-bound", "eager.igt"), ("launch-bound".to_owned(), "HIGH".to_owned()));
    let folder = folder("llm-decode-launch-bound");
    let mut command = Command::new(tool("ingero-analyze"));
    command.arg("diff").args([folder.join("eager.igt"), folder.join("graph.igt")]).args(["--format", "json"]);
    let diff: Value = serde_json::from_str(&run(&mut command, Duration::from_secs(60)).success().stdout).unwrap();
    assert_eq!(diff["outcome"], "better", "{:#}", diff["verdict"]);
    // What is left of it is its launches before there is a graph.
    let left = diff["causes"].as_array().unwrap().iter().find(|cause| cause["kind"] == "launch-bound").unwrap();
    assert!(left["before_share"].as_f64().unwrap() > 0.5 && left["after_share"].as_f64().unwrap() < 0.005, "{left:#}");
    let told = "launch-bound took less than 1 % of the time";
    assert!(diff["verdict"].as_str().unwrap().contains(told), "{:#}", diff["verdict"]);
}

/// PyTorch's profiler saw the same run: the same calls, one for one, and times that agree.
#[test]
fn the_profiler_saw_the_calls_that_the_recorder_saw() {
    let folder = folder("agreement");
    let dir = tempdir().unwrap();
    let database = dir.path().join("run.db");
    let mut convert = Command::new(tool("ingero-convert"));
    convert.arg(folder.join("host.igt")).args(["--sqlite", "-q", "-o"]).arg(&database);
    let _ = run(&mut convert, Duration::from_secs(60)).success();
    let mut compare = Command::new("python3");
    compare.arg(folder.join("compare.py")).arg(&database).arg(folder.join("kineto.json.gz"));
    let answer = run(&mut compare, Duration::from_secs(60)).success().stdout;
    let counted = "6225 calls are in both, one for one; counts differ for 1 pairs of function and thread: [('cuDevicePrimaryCtxRetain', 879, 0, 2)]";
    assert!(answer.contains(counted), "{answer}");
    // The README shows this table.
    let readme = std::fs::read_to_string(folder.join("README.md")).unwrap();
    assert!(readme.contains(answer.split("\n\n").next().unwrap()), "{answer}");
}
