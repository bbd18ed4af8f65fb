//! The report for a browser, in a browser: `ingero-analyze --html`. Needs no root.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ingero_format::catalog::{Class, DeviceActivity, Layer, Loss, Name, Process, Range, TaskId};
use ingero_replay::fixture::Fixture;
use ingero_tests::{analyze, analyze_json, bad_input, browse, run, tool};
use serde_json::Value;
use tempfile::tempdir;

fn investigation(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("investigations").join(name)
}

fn report(recording: &Path, args: &[&str], page: &Path) {
    let mut all = vec!["--html", page.to_str().unwrap()];
    all.extend(args);
    let done = analyze(recording, &all).success();
    assert!(done.stdout.is_empty() && done.stderr.is_empty(), "{done:#?}");
}

/// What a page owes whatever it shows: nothing goes out, nothing complains, nothing from the recording runs.
fn assert_quiet(told: &Value) {
    for what in ["console", "errors", "requests"] {
        assert_eq!(told[what], Value::Array(Vec::new()), "{what}");
    }
    assert!(told["hacked"].is_null() && told["elements"] == 0, "{:?} {:?}", told["hacked"], told["elements"]);
}

fn u64s(list: &Value) -> Vec<Option<u64>> {
    list.as_array().unwrap().iter().map(Value::as_u64).collect()
}

/// A row of a table by what its first cell says.
fn row<'v>(table: &'v Value, begins: &str) -> &'v Value {
    let rows = table.as_array().unwrap();
    rows.iter()
        .find(|r| r[0].as_str().unwrap().starts_with(begins))
        .unwrap_or_else(|| panic!("no {begins} in {rows:?}"))
}

#[test]
fn a_report_is_looked_at_zoomed_sorted_printed() {
    let dir = tempdir().unwrap();
    let (recording, page) = (investigation("h200-fight/run.igt"), dir.path().join("report.html"));
    report(&recording, &[], &page);
    assert!(page.metadata().unwrap().len() < 1 << 20, "{}", page.metadata().unwrap().len());
    let (told, json) = (browse(&page, None), analyze_json(&recording, &[]));
    assert_quiet(&told);
    assert_eq!(told["headings"][0], "What the GPU waited for");
    assert_eq!((&told["scroll_width"], &told["phone"]["scroll_width"]), (&1280.into(), &390.into()));
    assert_eq!(told["tables"], true);

    // What is above the rows has their scale, also where a scrollbar takes room from them.
    let widths = &told["widths"];
    assert!(widths["bar"].as_f64().unwrap() > 0.0, "no scrollbar: {widths}");
    for which in ["top", "drawn", "topDrawn"] {
        assert_eq!(widths[which], widths["body"], "{widths}");
    }

    // The canvas shows something, and something else wherever one goes.
    let filled = |what: &str| told[what]["filled"].as_f64().unwrap();
    assert!(filled("whole") > 0.05 && filled("whole") < 0.95, "{}", filled("whole"));
    let moves = ["whole", "wheel", "drag", "plus", "right", "zero", "jump", "jump_last"];
    for pair in moves.windows(2) {
        let [a, b] = pair else { panic!() };
        assert_ne!(told[a]["range"], told[b]["range"], "{a} {b}");
        assert_ne!(told[a]["digest"], told[b]["digest"], "{a} {b}");
    }
    assert_ne!(told["phone"]["pinch"][0], told["phone"]["pinch"][1]);
    let said = told["said"].as_str().unwrap();
    let state = |state: &&str| said.contains(&format!("python3 (531): {state} "));
    assert!(["running", "runnable", "blocked"].iter().any(state) && said.ends_with(" ns"), "{said}");

    // A cause leads to where it is to be seen, to the nanosecond.
    let incidents = json["incidents"].as_array().unwrap();
    let evidence = incidents[0]["evidence"].as_array().unwrap();
    let last = evidence.iter().max_by_key(|e| (e["start_ns"].as_u64(), e["end_ns"].as_u64())).unwrap();
    let exact = last["end_ns"].as_u64().unwrap() - last["start_ns"].as_u64().unwrap();
    let digits = exact.to_string();
    let grouped: Vec<&str> = [&digits[..digits.len() % 3]]
        .into_iter()
        .chain((digits.len() % 3..digits.len()).step_by(3).map(|at| &digits[at..at + 3]))
        .filter(|s| !s.is_empty())
        .collect();
    let (grouped, tid) = (format!("{} ns", grouped.join(",")), format!("({})\n", last["tid"]));
    let tips: Vec<&str> = told["tips"].as_array().unwrap().iter().map(|t| t.as_str().unwrap()).collect();
    assert!(
        tips.iter().any(|t| t.contains(&tid) && t.contains("runnable") && t.contains(&grouped)),
        "{grouped} {tid}: {tips:#?}"
    );
    // A moment of the story and a piece of evidence that are one stretch have one link.
    let place = |of: &Value| [&of["start_ns"], &of["end_ns"], &of["tid"]].map(Value::as_u64);
    let links_of = |incident: &Value| {
        let moments: Vec<_> = incident["timeline"].as_array().unwrap().iter().map(place).collect();
        let evidence = incident["evidence"].as_array().unwrap().iter().map(place);
        moments.len() + evidence.filter(|place| !moments.contains(place)).count()
    };
    let links: usize = incidents.iter().map(links_of).sum();
    assert_eq!(told["links"], links);
    assert!(told["jump"]["said"].as_str().unwrap().contains(incidents[0]["kind"].as_str().unwrap()));

    // Sorting goes by the exact figures, both ways, and the table says which way.
    let sorted = |which: &str| {
        u64s(&Value::Array(
            told["sorted"][which]["column"]
                .as_array()
                .unwrap()
                .iter()
                .map(|v| v.as_str().unwrap().parse::<u64>().unwrap().into())
                .collect(),
        ))
    };
    let (down, up) = (sorted("first"), sorted("second"));
    assert!(down.is_sorted_by(|a, b| a >= b) && up.is_sorted() && down.len() > 20 && down[0] != up[0]);
    assert_eq!(
        (&told["sorted"]["first"]["by"], &told["sorted"]["second"]["by"]),
        (&"descending".into(), &"ascending".into())
    );

    assert_ne!(told["light"], told["dark"]);
    assert_ne!(told["light"]["ground"], told["phone"]["ground"]);
    assert_eq!(told["after_print"], "dark");
    assert!(
        told["pdf"]["pages"].as_u64().unwrap() >= 3 && told["pdf"]["bytes"].as_u64().unwrap() > 50_000,
        "{}",
        told["pdf"]
    );

    // A figure keeps its unit on its line.
    let breakable = |text: &str| text.replace('\u{a0}', " ");
    let plain = breakable(told["plain"].as_str().unwrap());
    for words in [
        told["verdict"].as_str().unwrap(),
        incidents[0]["root_cause"].as_str().unwrap(),
        "pt_data_worker (551)",
        "cudaMemcpyAsync",
    ] {
        assert!(plain.contains(&breakable(words)), "{words}: {plain}");
    }
}

#[test]
fn its_figures_are_those_of_the_json() {
    let dir = tempdir().unwrap();
    for (name, args) in [
        ("h200-fight/run.igt", &[][..]),
        ("h200-dataloader/run.igt", &["--from", "8s", "--to", "12s", "--pid", "505"]),
        ("pytorch-dataloader-starvation/recording.igt", &[]),
    ] {
        let (recording, page) = (investigation(name), dir.path().join("report.html"));
        report(&recording, args, &page);
        let (told, json) = (browse(&page, None), analyze_json(&recording, args));
        assert_quiet(&told);
        let processes = json["processes"].as_array().unwrap();
        assert_eq!(told["processes"].as_array().unwrap().len(), processes.len(), "{name}");
        let mut counts = Vec::new();
        for p in processes {
            let seen = row(&told["processes"], &format!("{} ({})", p["name"].as_str().unwrap(), p["pid"]));
            let off = &p["off_cpu"];
            let due = [
                &p["threads"],
                &p["on_cpu_ns"],
                &off["runnable_ns"],
                &off["throttled_ns"],
                &off["blocked_ns"],
                &off["max_ns"],
                &p["context_switches"],
                &p["page_allocs"]["count"],
            ];
            let seen: Vec<&Value> = seen.as_array().unwrap()[2..10].iter().collect();
            assert_eq!(seen, due, "{name}: {p:#}");
            for op in p["ops"].as_array().unwrap() {
                let names = [
                    "count",
                    "sum_ns",
                    "mean_ns",
                    "p50_ns",
                    "p95_ns",
                    "p99_ns",
                    "max_ns",
                    "running_ns",
                    "runnable_ns",
                    "blocked_ns",
                    "bytes",
                    "errors",
                    "unreturned",
                ];
                let due: Vec<&Value> = names.iter().map(|name| &op[name]).collect();
                let rows = told["calls"].as_array().unwrap();
                let found = rows
                    .iter()
                    .any(|r| r[0] == op["name"] && r.as_array().unwrap()[3..].iter().collect::<Vec<_>>() == due);
                assert!(found, "{name}: {op:#} in {rows:?}");
                counts.extend(op["count"].as_u64().filter(|&n| n > 0 && !op["p50_ns"].is_null()));
            }
        }
        // Every call is in its function's histogram, once.
        let mut drawn: Vec<u64> = u64s(&told["histograms"]).into_iter().flatten().collect();
        drawn.sort_unstable();
        counts.sort_unstable();
        assert_eq!(drawn, counts, "{name}");
        let counters = told["counters"].as_array().unwrap();
        let used = counters.iter().any(|c| c.as_str().unwrap().starts_with("memory used bytes: "));
        assert_eq!(used, name.starts_with("h200-dataloader"), "{name}: {counters:?}");
        let lost: Vec<_> = json["incidents"].as_array().unwrap().iter().map(|i| i["lost_ns"].as_u64()).collect();
        assert_eq!(u64s(&told["lost"]), lost, "{name}");
        for (seen, due) in told["phases"].as_array().unwrap().iter().zip(json["phases"].as_array().unwrap()) {
            let g = &due["gaps"];
            let length = due["end_ns"].as_u64().unwrap() - due["start_ns"].as_u64().unwrap();
            assert_eq!((&seen[1], &seen[4], &seen[5]), (&due["id"], &due["start_ns"], &length.into()), "{name}");
            let rest = [
                &due["submissions"],
                &g["sum_ns"],
                &g["share"],
                &g["lost_ns"],
                &g["running_ns"],
                &g["runnable_ns"],
                &g["throttled_ns"],
                &g["blocked_ns"],
            ];
            // JSON's 0 and 0.0 are one number.
            let numbers = |list: &[&Value]| list.iter().map(|value| value.as_f64()).collect::<Vec<_>>();
            assert_eq!(numbers(&seen.as_array().unwrap()[6..].iter().collect::<Vec<_>>()), numbers(&rest), "{name}");
        }
        // What the CPUs were busy with is what the processes ran, where all are shown.
        if args.is_empty() && json["trace"]["sampled"] == false {
            let busy: u64 = told["cpus"].as_array().unwrap().iter().map(|r| r[2].as_u64().unwrap()).sum();
            let ran: u64 = processes.iter().map(|p| p["on_cpu_ns"].as_u64().unwrap()).sum();
            assert_eq!(busy, ran, "{name}");
        }
    }
}

/// Names that want to be more than names.
const HOSTILE: [&str; 6] = [
    "</script><script>window.hacked=1</script>",
    "\"><img src=x onerror=window.hacked=1>",
    "' onmouseover='window.hacked=1",
    "<!--\u{202e}evil\u{2066}\u{200f}",
    "\u{1b}[31m\u{0}\u{7}\r\n<b>&lt;",
    "javascript:window.hacked=1//${window.hacked=1}`",
];

/// A recording in which everything that has a name is called by one of these.
fn hostile() -> Vec<u8> {
    let mut f = Fixture::new();
    let tasks: Vec<TaskId> = (0..).zip(HOSTILE).map(|(n, _)| f.task(100 + n, 100 + n)).collect();
    let funcs: Vec<_> = HOSTILE.iter().map(|name| f.func(name, Layer::Runtime, Class::Launch)).collect();
    f.writer().set_meta("kernel", HOSTILE[1]);
    for (&task, name) in tasks.iter().zip(HOSTILE) {
        let name = f.writer().string(name);
        f.push(1, 0, Name { task, name, source: 0 });
        f.push(1, 0, Process { task, parent_pid: Some(1), exe: Some(name), args: Some(name), followed: 1 });
    }
    let idle = TaskId(0);
    let gemm = f.writer().string("gemm");
    let names: Vec<_> = HOSTILE.iter().map(|name| f.writer().string(name)).collect();
    for step in 0..200_u64 {
        let at = 1_000_000 + step * 4_000_000;
        let (task, func) = (tasks[step as usize % tasks.len()], funcs[step as usize % funcs.len()]);
        f.switch(at, 0, idle, 0, task);
        f.call(at + 1000, 0, task, func, 500_000 + step);
        f.switch(at + 2_000_000, 0, task, 1, idle);
        f.waking(at + 2_500_000, 1, tasks[0], task, 0);
        let name = names[step as usize % names.len()];
        f.push(at, 0, Range { task, dur_ns: Some(3_900_000), end: 0, name: Some(name), form: 0 });
        let (name, copy, task) = (if step % 2 == 0 { gemm } else { name }, None, Some(task));
        let (device, stream, dur_ns) = (0, Some(7), 3_900_000);
        f.push(
            at,
            0,
            DeviceActivity { device, stream, activity: 0, name, dur_ns, correlation: None, bytes: None, copy, task },
        );
    }
    f.into_bytes()
}

#[test]
fn names_in_a_recording_stay_names() {
    let dir = tempdir().unwrap();
    let (recording, page) =
        (dir.path().join("\"><img src=x onerror=window.hacked=1>.igt"), dir.path().join("report.html"));
    std::fs::write(&recording, hostile()).unwrap();
    report(&recording, &[], &page);
    let html = std::fs::read_to_string(&page).unwrap();
    // Single quotation marks end nothing: attributes stand in double ones. What the names would do shows in the browser, below.
    for part in ["<img", "<b>&lt;", "</script><script>window", "\u{202e}", "\u{1b}", "\u{0}"] {
        assert!(!html.contains(part), "{part:?}");
    }
    let told = browse(&page, None);
    assert_quiet(&told);
    assert_eq!(told["phone"]["scroll_width"], 390);
    // What a program named and what its GPU did is told where the pointer is.
    let tips: Vec<&str> = told["tips"].as_array().unwrap().iter().map(|t| t.as_str().unwrap()).collect();
    for words in ["GPU 0, stream 7", " from ", " for 3,900,000 ns"] {
        assert!(tips.iter().any(|tip| tip.starts_with("GPU 0") && tip.contains(words)), "{words}: {tips:#?}");
    }
    let plain = told["plain"].as_str().unwrap();
    for words in ["<img src=x onerror=window.hacked=1>", "</script><script>window.hacked=1</script>", "\\u{202e}evil"] {
        assert!(plain.contains(words), "{words}: {plain}");
    }
}

/// Eight threads that take turns on a CPU, one of them submitting: more switches than a page has room for one by one.
fn long() -> Vec<u8> {
    let mut f = Fixture::new();
    let tasks: Vec<TaskId> = (0..8).map(|n| f.task(70, 70 + n)).collect();
    let launch = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
    let mut at = 1_000;
    for step in 0..210_000_u64 {
        let task = tasks[(step * 7 % 8) as usize];
        f.switch(at, 0, TaskId(0), 0, task);
        if step % 8 == 0 {
            f.call(at + 500, 0, task, launch, 4_000);
        }
        at += 20_000 + step % 977 * 10;
        f.switch(at, 0, task, step % 2, TaskId(0));
        if step % 2 == 1 {
            f.waking(at + 2_000, 1, tasks[0], task, 0);
        }
        at += 4_000;
    }
    f.into_bytes()
}

#[test]
fn a_long_recording_is_drawn_in_columns_and_its_causes_in_full() {
    let dir = tempdir().unwrap();
    let (recording, page) = (dir.path().join("run.igt"), dir.path().join("report.html"));
    std::fs::write(&recording, long()).unwrap();
    report(&recording, &[], &page);
    assert!(page.metadata().unwrap().len() < 5 << 20, "{}", page.metadata().unwrap().len());
    let told = browse(&page, None);
    assert_quiet(&told);
    assert!(
        told["plain"].as_str().unwrap().contains("The timeline has the time by state in columns of"),
        "{}",
        told["plain"]
    );
    assert!(told["whole"]["filled"].as_f64().unwrap() > 0.05);
    for pair in ["whole", "wheel", "drag", "plus", "right"].windows(2) {
        assert_ne!(told[pair[0]]["digest"], told[pair[1]]["digest"], "{pair:?}");
    }
    assert!(told["said"].as_str().unwrap().contains("running "), "{}", told["said"]);
    // Where a cause is to be seen, each stretch has its own length and waker.
    let tips = told["tips"].as_array().unwrap();
    assert!(tips.iter().any(|t| t.as_str().unwrap().contains(" s for ")), "{tips:#?}");
}

#[test]
fn a_report_takes_the_place_of_a_report_alone() {
    let dir = tempdir().unwrap();
    let (recording, page) = (dir.path().join("run.igt"), dir.path().join("report.html"));
    std::fs::copy(investigation("h200-workers/run.igt"), &recording).unwrap();
    report(&recording, &[], &page);
    let first = std::fs::read(&page).unwrap();
    report(&recording, &[], &page);
    assert_eq!(std::fs::read(&page).unwrap(), first, "the same recording makes another page");
    let to_stdout = analyze(&recording, &["--html", "-"]).success();
    assert_eq!(to_stdout.stdout.as_bytes(), first);

    let refused = |page: &Path, extra: &[&str]| {
        let mut command = Command::new(tool("ingero-analyze"));
        command.arg(&recording).arg("--html").arg(page).args(extra);
        bad_input(&mut command).stderr
    };
    let before = std::fs::read(&recording).unwrap();
    assert!(refused(&recording, &[]).contains("is the recording itself"));
    assert_eq!(std::fs::read(&recording).unwrap(), before);
    let notes = dir.path().join("notes.txt");
    std::fs::write(&notes, "precious").unwrap();
    assert!(refused(&notes, &[]).contains("no report of ingero-analyze; choose another name"));
    assert_eq!(std::fs::read(&notes).unwrap(), b"precious");
    assert!(refused(dir.path(), &[]).contains("no regular file"));
    assert!(refused(&dir.path().join("no/where.html"), &[]).contains("No such file"));
    assert!(refused(&page, &["--format", "json"]).contains("cannot be used with"));
    assert!(refused(&page, &["--from", "99s"]).contains("the range is empty"));
    assert_eq!(std::fs::read(&page).unwrap(), first);
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "{left:?}");
}

#[test]
fn a_cut_recording_makes_a_page_that_says_so() {
    let dir = tempdir().unwrap();
    let (recording, page) = (dir.path().join("run.igt"), dir.path().join("report.html"));
    let bytes = std::fs::read(investigation("h200-dataloader/run.igt")).unwrap();
    std::fs::write(&recording, &bytes[..bytes.len() * 2 / 3]).unwrap();
    let mut command = Command::new(tool("ingero-analyze"));
    command.arg(&recording).arg("--html").arg(&page);
    let done = run(&mut command, Duration::from_secs(60));
    assert_eq!(done.code(), 2, "{done:#?}");
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.contains("the recording was cut off: its footer is missing") && html.contains("CUT OFF"));
}

/// A second in which a thread runs by turns; switches of one CPU, and calls, are missing from its middle.
fn lossy(lost: bool) -> Vec<u8> {
    const MS: u64 = 1_000_000;
    let mut f = Fixture::new();
    let task = f.task(7, 7);
    let func = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
    for i in 0..100 {
        f.switch(i * 10 * MS, 3, TaskId(0), 0, task);
        f.call(i * 10 * MS + MS, 3, task, func, MS);
        f.switch((i * 10 + 8) * MS, 3, task, 1, TaskId(0));
    }
    for kind in ["sched_switch", "call"].into_iter().filter(|_| lost) {
        let probe = f.writer().string(kind);
        f.push(300 * MS, 3, Loss { to_ns: 700 * MS, probe, cause: 0, count: Some(41), of_host: None });
    }
    f.into_bytes()
}

#[test]
fn stretches_in_which_events_were_lost_are_hatched_and_said() {
    let dir = tempdir().unwrap();
    let look = |lost: bool| {
        let (recording, page) = (dir.path().join("run.igt"), dir.path().join(format!("{lost}.html")));
        std::fs::write(&recording, lossy(lost)).unwrap();
        report(&recording, &[], &page);
        let told = browse(&page, None);
        assert_quiet(&told);
        assert_eq!(told["phone"]["scroll_width"], 390);
        told
    };
    let (whole, told) = (look(false), look(true));
    let texts = |told: &Value, of: &str| -> Vec<String> {
        told[of].as_array().unwrap().iter().map(|t| t.as_str().unwrap().to_owned()).collect()
    };
    assert!(texts(&told, "legend").iter().any(|t| t.starts_with("events lost")), "{:?}", told["legend"]);
    assert!(!texts(&whole, "legend").iter().any(|t| t.contains("lost")), "{:?}", whole["legend"]);
    // The thread, the CPU and the line above them each tell it where the pointer is.
    let lost = "41 sched_switch events of CPU 3 (ring-full); who ran and who waited is not known";
    let middle = texts(&told, "middle");
    for begins in ["events lost\n", "CPU 3\n"] {
        assert!(middle.iter().any(|t| t.starts_with(begins) && t.contains(lost)), "{begins}: {middle:#?}");
    }
    assert!(middle.iter().filter(|t| t.contains(lost)).count() >= 3, "{middle:#?}");
    assert!(!middle.iter().any(|t| t.contains("idle")), "{middle:#?}");
    assert!(!texts(&whole, "middle").iter().any(|t| t.contains("events lost")), "{:?}", whole["middle"]);
    assert_ne!(whole["whole"]["digest"], told["whole"]["digest"]);
}
