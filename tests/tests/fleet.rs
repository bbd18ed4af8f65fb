//! Engines of others find in the datasets what the recordings say. Needs no root, but Java, and PyPI the first time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ingero_format::catalog::{Class, Clock, Collective, Layer, Loss, Name, Process, System, TaskId};
use ingero_replay::fixture::Fixture;
use ingero_tests::{analyze_json, run, tool};
use serde_json::{Value, json};
use tempfile::tempdir;

/// The engines, in the versions that the queries were tried with.
const ENGINES: &[&str] = &["duckdb==2.0.1", "polars==2.1.0", "pyspark==4.3.0"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Python with the engines, made once.
fn python() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let venv = target.join("fleet-venv");
    let (python, done) = (venv.join("bin/python"), venv.join("complete"));
    if !done.exists() {
        let made = run(Command::new("python3").args(["-m", "venv"]).arg(&venv), Duration::from_secs(120));
        assert!(made.status.success(), "{made:?}");
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "-q"]).args(ENGINES);
        let got = run(&mut pip, Duration::from_secs(900));
        assert!(got.status.success(), "{got:?}");
        std::fs::write(&done, ENGINES.join("\n")).unwrap();
    }
    python
}

fn ask(engine: &str, lake: &Path) -> Value {
    let mut command = Command::new(python());
    command.arg(root().join("tests/fleet/query.py")).arg(engine).arg(lake).arg(root().join("spec/fleet.md"));
    let answer = run(&mut command, Duration::from_secs(300)).success();
    serde_json::from_str(&answer.stdout).unwrap_or_else(|e| panic!("{engine}: {e}: {answer:?}"))
}

fn add(recording: &Path, lake: &Path) {
    let mut command = Command::new(tool("ingero-convert"));
    command.arg(recording).arg("--parquet").arg(lake);
    let _ = run(&mut command, Duration::from_secs(120)).success();
}

const IDLE: TaskId = TaskId(0);
const MS: u64 = 1_000_000;

/// A host that trains: batches of 10 ms, with a device that is busy for 6 of them. On host 3 a neighbour takes the worker's
/// CPU, on host 5 the device is busy for 1 ms only, and it comes to each collective 3 µs after the others of its job.
fn host(number: u32) -> Vec<u8> {
    losing_host(number, (number == 7).then_some((MS, 2 * MS)))
}

/// The same with a loss of switches between two instants.
fn losing_host(number: u32, lost: Option<(u64, u64)>) -> Vec<u8> {
    let mut f = Fixture::new();
    f.writer().set_meta("host", &format!("node-{number}"));
    let (main, worker, other) = (f.task(100, 100), f.task(100, 101), f.task(200, 200));
    let launch = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
    let wait = f.func("cudaStreamSynchronize", Layer::Runtime, Class::Sync);
    let reduce = f.func("ncclAllReduce", Layer::Nccl, Class::Collective);
    let (rank, ranks) = if number < 6 { (number, 6) } else { (number - 6, 2) };
    let start = 1_000 * MS;
    let real_ns = 1_790_000_000_000 * MS + u64::from(number);
    f.push(start, 0, Clock { boot_ns: start, real_ns, tsc: None, bracket_ns: 1 });
    for (task, name) in [(main, "train"), (worker, "loader"), (other, "backup")] {
        let name = f.writer().string(name);
        f.push(start, 0, Name { task, name, source: 0 });
    }
    f.push(start, 0, System { load1_milli: Some(500), swap_used_bytes: Some(0), ..System::default() });
    let args = f.writer().string(if number < 6 { "python train.py --job a" } else { "python train.py --job b" });
    f.push(start, 0, Process { task: main, parent_pid: Some(1), exe: None, args: Some(args), followed: 1 });
    f.switch(start, 0, IDLE, 0, main);
    let busy = if number == 5 { MS } else { 6 * MS };
    for batch in 0..200u64 {
        let at = start + batch * 10 * MS;
        f.call(at + 1_000, 0, main, launch, 50_000);
        f.call(at + 60_000, 0, main, wait, busy);
        if batch % 10 == 0 {
            let at = at + if number == 5 { 58_000 } else { 55_000 };
            let comm = Some(0x7f00_0000 + u64::from(number));
            let (rank, ranks) = (Some(rank.into()), Some(ranks));
            f.call(at, 0, main, reduce, 1_000);
            f.push(
                at,
                0,
                Collective {
                    task: main,
                    comm,
                    rank,
                    ranks,
                    count: Some(1 << 20),
                    datatype: None,
                    op: None,
                    peer: None,
                },
            );
        }
        f.switch(at + 2_000, 1, IDLE, 0, worker);
        if number == 3 {
            f.switch(at + MS, 1, worker, 0x100, other);
            f.switch(at + 5 * MS, 1, other, 1, worker);
        }
        f.switch(at + 8 * MS, 1, worker, 1, IDLE);
        f.waking(at + 9 * MS, 0, main, worker, 0);
    }
    if let Some((from_ns, to_ns)) = lost {
        let probe = f.writer().string("sched_switch");
        f.push(start + from_ns, 0, Loss { to_ns: start + to_ns, probe, cause: 0, count: Some(3), of_host: None });
    }
    f.switch(start + 2_000 * MS, 0, main, 0x10, IDLE);
    f.into_bytes()
}

/// Every recording of the repository that holds all of what happened.
fn recordings() -> Vec<PathBuf> {
    let mut found = all_recordings();
    found.retain(|path| ingero_format::Trace::open(path).unwrap().meta("sampled") != Some("true"));
    found
}

/// Every recording of the repository that can be opened.
fn all_recordings() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join("benches/data"), root().join("investigations"), root().join("tests/corpus")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "igt") && ingero_format::Trace::open(&path).is_ok() {
                found.push(path);
            }
        }
    }
    found.sort();
    assert!(found.len() >= 15, "{found:?}");
    found
}

/// The processes of the analysis as the query of figures has them.
fn figures(analysis: &Value, host: &str) -> Vec<Value> {
    let flat = |p: &Value| {
        let off = &p["off_cpu"];
        json!({
            "host": host, "pid": p["pid"], "name": p["name"], "context_switches": p["context_switches"],
            "off_cpu_count": off["count"], "off_cpu_ns": off["sum_ns"], "off_cpu_max_ns": off["max_ns"],
            "blocked_ns": off["blocked_ns"], "runnable_ns": off["runnable_ns"],
            "unfinished_ns": off["unfinished_ns"], "on_cpu_ns": p["on_cpu_ns"],
        })
    };
    let seen = |p: &&Value| p["context_switches"] != 0 || p["on_cpu_ns"] != 0 || p["off_cpu"]["unfinished_ns"] != 0;
    analysis["processes"].as_array().unwrap().iter().filter(seen).map(flat).collect()
}

/// Rows of processes of which something is known, and of which nothing is.
fn by_knowledge(rows: &[Value]) -> (Vec<String>, Vec<String>) {
    let (known, unknown): (Vec<Value>, Vec<Value>) =
        rows.iter().cloned().partition(|row| !row["context_switches"].is_null());
    (sorted(&known.into()), sorted(&unknown.into()))
}

fn sorted(rows: &Value) -> Vec<String> {
    let mut rows: Vec<String> = rows.as_array().unwrap().iter().map(Value::to_string).collect();
    rows.sort();
    rows
}

#[test]
fn every_query_of_the_page_answers_alike_in_duckdb_and_spark_over_eight_hosts() {
    let dir = tempdir().unwrap();
    let lake = dir.path().join("lake");
    let mut due = Vec::new();
    for number in 0..8 {
        let file = dir.path().join(format!("node-{number}.igt"));
        std::fs::write(&file, host(number)).unwrap();
        add(&file, &lake);
        due.extend(figures(&analyze_json(&file, &[]), &format!("node-{number}")));
    }
    let duck = ask("duckdb", &lake);
    assert_eq!(sorted(&duck["Figures per process"]), sorted(&Value::from(due)));
    let slow = duck["Stragglers"].as_array().unwrap();
    assert_eq!(slow.iter().map(|r| &r["host"]).collect::<Vec<_>>(), ["node-5"], "{slow:?}");
    let worst = &duck["Contention by neighbour"][0];
    assert_eq!(
        (&worst["host"], &worst["process"], &worst["holder"]),
        (&"node-3".into(), &"train".into(), &"backup".into())
    );
    assert_eq!(worst["s"], 0.8);
    let late = duck["Late ranks"].as_array().unwrap();
    let seen: Vec<_> = late.iter().map(|r| (&r["host"], &r["rank"], &r["came_last"], &r["longest_ns"])).collect();
    // Wall clocks were set to differ by a nanosecond from host to host.
    assert_eq!(
        seen,
        [
            (&"node-5".into(), &5.into(), &20.into(), &3_005.into()),
            (&"node-7".into(), &1.into(), &20.into(), &1.into()),
        ]
    );
    assert_eq!(duck["Starved seconds per host and job"].as_array().unwrap().len(), 8);
    let spark = ask("spark", &lake);
    for (heading, rows) in duck.as_object().unwrap() {
        assert_eq!(&spark[heading], rows, "{heading}");
    }
    let polars = ask("polars", &lake);
    assert_eq!(polars["calls"], 8 * 420);
    assert_eq!(polars["counters"], 8 * 2);
    assert_eq!(sorted(&polars["Figures per process"]), sorted(&duck["Figures per process"]));
    // The same recording is there once.
    let mut again = Command::new(tool("ingero-convert"));
    again.arg(dir.path().join("node-0.igt")).arg("--parquet").arg(&lake);
    assert!(!run(&mut again, Duration::from_secs(60)).status.success());
    let _ = run(again.arg("--force"), Duration::from_secs(60)).success();
    assert_eq!(ask("polars", &lake), polars);
}

/// Two hosts in one file, of which one lost its switches.
fn of_one_lossy_host_and_another(folder: &Path) -> PathBuf {
    let files = [3, 4].map(|number| folder.join(format!("node-{number}.igt")));
    std::fs::write(&files[0], host(3)).unwrap();
    std::fs::write(&files[1], losing_host(4, Some((0, 3_000 * MS)))).unwrap();
    let all = folder.join("all.igt");
    let mut merge = Command::new(tool("ingero-convert"));
    let _ = run(merge.arg("merge").args(&files).arg("-o").arg(&all), Duration::from_secs(60)).success();
    let analysis = analyze_json(&all, &[]);
    let (known, unknown) = by_knowledge(&figures(&analysis, ""));
    assert_eq!((known.len(), unknown.len()), (2, 1), "{known:?} {unknown:?}");
    all
}

/// Runs a program on a recording of which a part may be damaged: then it ends with 2, and has done the rest.
fn run_on_any(command: &mut Command) -> (bool, String) {
    let done = run(command, Duration::from_secs(120));
    let whole = done.status.success();
    assert!(whole || done.status.code() == Some(2), "{done:#?}");
    (whole, done.stdout)
}

#[test]
fn the_figures_of_every_recording_survive_its_datasets() {
    let (mut damaged, mut without) = (0, 0);
    let merged = tempdir().unwrap();
    let lossy = of_one_lossy_host_and_another(merged.path());
    for file in recordings().into_iter().chain([lossy]) {
        let name = file.display();
        let dir = tempdir().unwrap();
        let lake = dir.path().join("lake");
        let (whole, _) = run_on_any(Command::new(tool("ingero-convert")).arg(&file).arg("--parquet").arg(&lake));
        let (_, json) = run_on_any(Command::new(tool("ingero-analyze")).arg(&file).args(["--format", "json"]));
        let analysis: Value = serde_json::from_str(&json).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(analysis["schema"], "ingero-analyze/1", "{name}");
        damaged += u64::from(!whole);
        // A kind of event that a recording has not is no table: the question of these figures is not put to it.
        if !lake.join("sched_switch").exists() {
            without += 1;
            assert_eq!(figures(&analysis, ""), Vec::<Value>::new(), "{name}");
            continue;
        }
        let answers = ask("duckdb", &lake);
        // Calls alone are nobody's figures.
        let host = answers["Figures per process"][0]["host"].as_str().unwrap_or_default().to_owned();
        let (known, unknown) = by_knowledge(answers["Figures per process"].as_array().unwrap());
        let (due, due_unknown) = by_knowledge(&figures(&analysis, &host));
        assert_eq!(known, due, "{name}");
        // Who has no switch at all is no row of the query.
        assert!(unknown.iter().all(|row| due_unknown.contains(row)), "{name}: {unknown:?} {due_unknown:?}");
    }
    // The corpus has such.
    assert!(damaged > 0 && without > 0, "{damaged} {without}");
}

/// Nothing that a sample stored has the figures of what its source counted: the table of totals does, in every engine.
#[test]
fn what_a_sampled_source_counted_is_in_its_datasets() {
    let dir = tempdir().unwrap();
    let lake = dir.path().join("lake");
    // One run that holds everything, so that the two are told apart.
    let whole = dir.path().join("node-1.igt");
    std::fs::write(&whole, host(1)).unwrap();
    add(&whole, &lake);
    let mut due = Vec::new();
    let mut samples = 0;
    for file in all_recordings() {
        if ingero_format::Trace::open(&file).unwrap().meta("sampled") != Some("true") {
            continue;
        }
        samples += 1;
        add(&file, &lake);
        for p in analyze_json(&file, &[])["processes"].as_array().unwrap() {
            let row = |what: &str, function: &Value, n: &Value, ns: (&Value, &Value), bytes: &Value| {
                json!({ "pid": p["pid"], "process": p["name"], "what": what, "function": function, "n": n,
                        "sum_ns": ns.0, "max_ns": ns.1, "bytes": bytes })
            };
            let (off, pages, none) = (&p["off_cpu"], &p["page_allocs"], &Value::Null);
            if !p["context_switches"].is_null() {
                due.push(row("off_cpu", none, &off["count"], (&off["sum_ns"], &off["max_ns"]), none));
            }
            if !pages["count"].is_null() {
                due.push(row("page_allocs", none, &pages["count"], (none, none), &pages["bytes"]));
            }
            for op in p["ops"].as_array().unwrap() {
                due.push(row("calls", &op["name"], &op["count"], (&op["sum_ns"], &op["max_ns"]), &op["bytes"]));
            }
        }
    }
    assert!(samples > 0 && due.len() > 10, "{samples} {due:?}");
    let answers = ["duckdb", "spark"].map(|engine| ask(engine, &lake)["Totals of sampled sources"].clone());
    assert_eq!(answers[0], answers[1]);
    let mut rows = answers[0].clone();
    for row in rows.as_array_mut().unwrap() {
        assert_ne!(row["host"], "node-1");
        row.as_object_mut().unwrap().remove("host");
    }
    assert_eq!(sorted(&rows), sorted(&Value::from(due)));
}
