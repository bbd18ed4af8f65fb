//! Where events were lost or a file is damaged, every answer says so: a count of what is left reads like a fact.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use ingero_format::catalog::{Class, Layer, Loss, NO_CPU, TaskId};
use ingero_mcp::{Shelf, tools};
use ingero_replay::fixture::Fixture;
use serde_json::{Value, json};

const MS: u64 = 1_000_000;

/// Twenty launches of one thread, in blocks of a few rows.
fn recording(lost: bool) -> Vec<u8> {
    lacking(lost.then_some("sched_switch"))
}

/// The same with a loss of this.
fn lacking(lost: Option<&str>) -> Vec<u8> {
    let mut f = Fixture::with_rows(4);
    let main = f.task(41, 41);
    let launch = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
    f.switch(1, 0, TaskId(0), 0, main);
    for i in 0..20 {
        f.call(MS + i * 20 * MS, 0, main, launch, 10_000);
    }
    f.switch(900 * MS, 0, main, 1, TaskId(0));
    if let Some(lost) = lost {
        let probe = f.writer().string(lost);
        f.push(205 * MS, NO_CPU, Loss { to_ns: 206 * MS, probe, cause: 0, count: Some(5), of_host: None });
    }
    f.into_bytes()
}

const CALLS: [(&str, &str); 8] = [
    ("get_capture_health", "{}"),
    ("get_trace_stats", "{}"),
    ("get_causal_chains", "{}"),
    ("get_per_process_breakdown", "{}"),
    ("get_timeline", "{\"tid\": 41}"),
    ("get_timeline", "{\"cpu\": 0, \"from\": \"100ms\"}"),
    ("get_stacks", "{}"),
    ("run_sql", "{\"sql\": \"SELECT count(*) FROM switches\"}"),
];

/// Every answer about a file of these bytes, with what it says the recording cannot show.
fn answers(bytes: &[u8]) -> Vec<(&'static str, String, Value)> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.igt");
    std::fs::write(&path, bytes).unwrap();
    let shelf = Shelf::new(vec![path]).unwrap();
    let ask = |(tool, arguments): (&'static str, &str)| {
        let answer = tools::call(&shelf, tool, serde_json::from_str(arguments).unwrap());
        let answer = answer.unwrap_or_else(|e| panic!("{tool} {arguments}: {e}"));
        let caveats = answer.structured.pointer("/health/caveats").or(answer.structured.get("caveats"));
        (tool, answer.text, caveats.unwrap_or_else(|| panic!("{tool}: {}", answer.structured)).clone())
    };
    CALLS.into_iter().map(ask).collect()
}

#[test]
fn every_answer_tells_of_losses() {
    for (tool, text, caveats) in answers(&recording(false)) {
        // That nothing was recorded of who woke whom is no loss.
        assert!(!text.contains("were lost") && !caveats.to_string().contains("were lost"), "{tool}: {text}");
    }
    for (tool, text, caveats) in answers(&recording(true)) {
        let note = "5 sched_switch events were lost (ring-full) between 0.205 s and 0.206 s";
        assert!(text.contains(&format!("note: {note}")), "{tool}: {text}");
        let mut told = caveats.as_array().unwrap().iter().map(|caveat| caveat.as_str().unwrap());
        assert!(told.any(|caveat| caveat.starts_with(note)), "{tool}: {caveats}");
    }
}

/// Switches and times on the CPUs hang on no wake: where wakes alone are lost, they are exact.
#[test]
fn what_hangs_on_no_wake_is_no_least_where_wakes_are_lost() {
    let told = |lost| {
        let answers = answers(&lacking(lost));
        let of = |tool: &str| answers.iter().find(|(name, ..)| *name == tool).unwrap().1.clone();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.igt");
        std::fs::write(&path, lacking(lost)).unwrap();
        let shelf = Shelf::new(vec![path]).unwrap();
        let answer = tools::call(&shelf, "get_per_process_breakdown", json!({})).unwrap();
        let at_least = answer.structured["processes"][0]["at_least"].clone();
        (of("get_per_process_breakdown"), of("get_trace_stats"), at_least)
    };
    let (process, stats, at_least) = told(Some("sched_waking"));
    assert!(
        process.contains("on CPU 900 ms; off CPU at least 0 times") && process.contains("  1 context switches"),
        "{process}"
    );
    assert!(stats.contains("; ran 200 us, waited for a CPU at least 0"), "{stats}");
    assert_eq!(at_least, json!({"states": true, "switches": false, "calls": false, "page_allocs": false}));
    let (process, stats, at_least) = told(Some("sched_switch"));
    assert!(process.contains("on CPU at least ") && process.contains("  at least 1 context switches"), "{process}");
    assert!(stats.contains("; ran at least "), "{stats}");
    assert_eq!(at_least, json!({"states": true, "switches": true, "calls": false, "page_allocs": false}));
    let (process, stats, _) = told(None);
    assert!(!process.contains("at least") && !stats.contains("at least"), "{process} {stats}");
}

#[test]
fn every_answer_tells_of_damage() {
    let mut cut = recording(false);
    cut.truncate(cut.len() * 3 / 4);
    for (tool, text, caveats) in answers(&cut) {
        assert!(text.contains("note: the recording was cut off"), "{tool}: {text}");
        assert!(!caveats.as_array().unwrap().is_empty(), "{tool}");
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.igt");
    std::fs::write(&path, &cut).unwrap();
    let shelf = Shelf::new(vec![path]).unwrap();
    for (tool, arguments) in [("get_timeline", json!({"tid": 99})), ("get_causal_chains", json!({"pid": 99}))] {
        let problem = tools::call(&shelf, tool, arguments).unwrap_err().to_string();
        assert!(problem.ends_with("it may be in them: see get_capture_health"), "{problem}");
    }
}

#[test]
fn any_number_of_notes_stays_readable() {
    let whole = recording(false);
    let mut damaged = whole.clone();
    // All through the file, without its index: each chunk that is hit is a damage of its own.
    damaged.truncate(whole.len() - 40);
    let first = 64;
    for at in (first..damaged.len()).step_by(90) {
        damaged[at] ^= 0xff;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.igt");
    std::fs::write(&path, &damaged).unwrap();
    let shelf = Shelf::new(vec![path]).unwrap();
    let stats = tools::call(&shelf, "get_trace_stats", json!({})).unwrap();
    let notes = stats.structured["caveats"].as_array().unwrap().len();
    assert!(notes <= 20, "{notes}");
}

#[test]
fn a_file_that_changes_or_vanishes_is_seen_at_the_next_call() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.igt");
    std::fs::write(&path, recording(false)).unwrap();
    let shelf = Shelf::new(vec![dir.path().to_owned()]).unwrap();
    let health = || tools::call(&shelf, "get_capture_health", json!({"recording": "run"}));
    assert!(!health().unwrap().text.contains("LOST"));
    // Another file in its place, under its name.
    let other = dir.path().join("other");
    std::fs::write(&other, recording(true)).unwrap();
    std::fs::rename(&other, &path).unwrap();
    assert!(health().unwrap().text.contains("LOST: 5 sched_switch"));
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(200).unwrap();
    assert!(health().unwrap().text.contains("complete: no"));
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
    let problem = health().unwrap_err().to_string();
    assert!(problem.ends_with("is empty; get_capture_health lists the recordings"), "{problem}");
    std::fs::remove_file(&path).unwrap();
    assert!(health().unwrap_err().to_string().starts_with("no recording is called \"run\""));
}

/// The structured answer of a tool about a file of these bytes, and its text.
fn answer(bytes: &[u8], tool: &'static str, arguments: Value) -> (Value, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.igt");
    std::fs::write(&path, bytes).unwrap();
    let answer = tools::call(&Shelf::new(vec![path]).unwrap(), tool, arguments).unwrap();
    (answer.structured, answer.text)
}

#[test]
fn a_timeline_tells_the_stretches_of_which_nothing_is_known() {
    let (whole, _) = answer(&recording(false), "get_timeline", json!({"cpu": 0}));
    assert_eq!(whole["lost"], json!([]));
    let (lossy, text) = answer(&recording(true), "get_timeline", json!({"cpu": 0}));
    let lost = &lossy["lost"][0];
    assert_eq!(
        (&lost["what"], &lost["count"], &lost["cpu"]),
        (&json!("sched_switch"), &json!(5), &json!(null)),
        "{lossy}"
    );
    assert_eq!(lost["to_ns"].as_u64().unwrap() - lost["from_ns"].as_u64().unwrap(), MS);
    assert!(
        text.contains("EVENTS LOST 0.204999999s to 0.205999999s: 5 \"sched_switch\" events")
            || text.contains("EVENTS LOST"),
        "{text}"
    );
    // Within the stretch alone there is no sum of states, which would read as if nobody had done anything.
    let (within, text) =
        answer(&recording(true), "get_timeline", json!({"cpu": 0, "from": "205.1ms", "to": "205.5ms"}));
    assert!(within["spent"].is_null(), "{within}");
    assert!(text.contains("Context switches were lost in all of this range"), "{text}");
}

#[test]
fn of_a_cut_file_every_program_counts_the_same_losses() {
    let mut cut = recording(false);
    cut.truncate(cut.len() * 3 / 4);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.igt");
    std::fs::write(&path, &cut).unwrap();
    let trace = ingero_format::Trace::open(&path).unwrap();
    let a = ingero_analyze::Analysis::new(&trace, ingero_replay::Window::whole(&trace));
    let json: Value = serde_json::from_str(&ingero_analyze::report::json(&a, &[]).unwrap()).unwrap();
    let (health, text) = answer(&cut, "get_capture_health", json!({}));
    let health = &health["health"];
    assert_eq!(health["trace"]["lost_events"], json["trace"]["lost_events"]);
    // Nobody knows how many came behind the cut: that is not none.
    assert_ne!(health["trace"]["lost_events"], 0, "{health}");
    assert!(!text.contains("lost 0"), "{text}");
    let uncounted = |losses: &Value| losses.as_array().unwrap().iter().any(|l| l["uncounted"] == true);
    assert!(uncounted(&health["losses"]) && uncounted(&json["losses"]), "{health}");
    // A source that does not say what it watched for did not leave out what lies behind the cut.
    assert_eq!(health["not_watched"], json!([]), "{health}");
    let (whole, _) = answer(&recording(false), "get_capture_health", json!({}));
    assert_ne!(whole["health"]["not_watched"], json!([]));
}

/// One thread that is off its CPU from 100 to 700 ms, and wakes of which some are lost meanwhile.
fn sleeper(lost: &str) -> Vec<u8> {
    let mut f = Fixture::new();
    let main = f.task(41, 41);
    f.switch(1, 0, TaskId(0), 0, main);
    f.switch(100 * MS, 0, main, 1, TaskId(0));
    let probe = f.writer().string(lost);
    f.push(200 * MS, NO_CPU, Loss { to_ns: 210 * MS, probe, cause: 0, count: Some(5), of_host: None });
    f.switch(700 * MS, 0, TaskId(0), 0, main);
    f.push(800 * MS, 0, ingero_format::catalog::Exit { task: main, group_dead: None });
    f.switch(801 * MS, 0, main, 0x10, TaskId(0));
    f.switch(900 * MS, 0, TaskId(0), 0, TaskId(0));
    f.into_bytes()
}

#[test]
fn where_wakes_are_lost_no_split_is_told_as_exact() {
    let (exact, text) = answer(&sleeper("page_fault_user"), "get_timeline", json!({"tid": 41}));
    assert_eq!((&exact["spent"]["blocked_ns"], &exact["spent"]["off_cpu_ns"]), (&json!(600 * MS), &json!(0)), "{text}");
    let (lossy, text) = answer(&sleeper("sched_waking"), "get_timeline", json!({"tid": 41}));
    assert_eq!((&lossy["spent"]["blocked_ns"], &lossy["spent"]["off_cpu_ns"]), (&json!(100 * MS), &json!(500 * MS)));
    assert!(text.contains("was off the CPUs 500 ms of which it is not known whether it was blocked"), "{text}");
    let whats: Vec<&str> = lossy["rows"].as_array().unwrap().iter().map(|row| row["what"].as_str().unwrap()).collect();
    // The first event is a switch-in: nothing lies before it, and no row is told of it.
    assert_eq!(whats, ["running", "blocked", "off-cpu", "running"], "{lossy}");
    // Where the loss begins nobody woke it.
    assert_eq!(lossy["rows"][1]["because"], "what came of it is not known", "{lossy}");
}

#[test]
fn figures_say_that_they_are_the_least_where_they_are() {
    // What a thread ran hangs on no wake.
    for (lost, least, least_on) in
        [("page_fault_user", false, false), ("sched_waking", true, false), ("sched_switch", true, true)]
    {
        let (structured, text) = answer(&sleeper(lost), "get_per_process_breakdown", json!({}));
        assert_eq!(structured["at_least"]["states"], least, "{lost}");
        assert_eq!(structured["at_least"]["switches"], least_on, "{lost}");
        assert_eq!(text.contains("on CPU at least 201 ms"), least_on, "{lost}: {text}");
        assert_eq!(text.contains("on CPU 201 ms"), !least_on, "{lost}: {text}");
        assert_eq!(text.contains("blocked at least "), least, "{lost}: {text}");
        assert!(text.starts_with("Recording \"run.igt\", all of its 900 ms; LOST: 5 events, see"), "{text}");
    }
    let mut cut = recording(false);
    cut.truncate(cut.len() * 3 / 4);
    let (structured, text) = answer(&cut, "get_trace_stats", json!({}));
    assert_eq!(structured["at_least"]["calls"], true);
    assert!(text.contains("; it was CUT OFF; LOST: ") && text.contains(": at least "), "{text}");
}

#[test]
fn a_thread_that_has_exited_is_said_to_have() {
    let bytes = sleeper("page_fault_user");
    let (_, text) = answer(&bytes, "get_timeline", json!({"tid": 41, "from": "850ms"}));
    assert!(text.contains("It had exited before, at 0.799999999s."), "{text}");
    let (_, text) = answer(&bytes, "get_timeline", json!({"tid": 41, "from": "150ms", "to": "160ms"}));
    assert!(!text.contains("exited"), "{text}");
}

/// Two hosts: the first one recorded from 0 to 500 ms and lost all its switches, the second one from 0 to a second.
fn two_hosts() -> Vec<u8> {
    let mut f = Fixture::new();
    for (key, value) in [
        ("host.0.host", "a"),
        ("host.0.cpu_base", "0"),
        ("host.0.pid_base", "0"),
        ("host.0.start_ns", "0"),
        ("host.0.end_ns", "500000000"),
        ("host.1.host", "b"),
        ("host.1.cpu_base", "2"),
        ("host.1.pid_base", "4194304"),
        ("host.1.start_ns", "0"),
        ("host.1.end_ns", "1000000000"),
    ] {
        f.writer().set_meta(key, value);
    }
    let (of_a, of_b) = (f.task(41, 41), f.task(4_194_345, 4_194_345));
    let launch = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
    for i in 0..50 {
        f.call(MS + i * 10 * MS, 0, of_a, launch, 10_000);
    }
    f.switch(0, 2, TaskId(0), 0, of_b);
    f.switch(1_000 * MS, 2, of_b, 1, TaskId(0));
    let probe = f.writer().string("sched_switch");
    f.push(0, NO_CPU, Loss { to_ns: 500 * MS, probe, cause: 0, count: None, of_host: Some(0) });
    f.into_bytes()
}

#[test]
fn of_a_host_that_lost_all_its_switches_no_time_is_told() {
    let bytes = two_hosts();
    let of = |who: &str, id: u32, part: Value| {
        let mut arguments = json!({ who: id });
        arguments.as_object_mut().unwrap().extend(part.as_object().unwrap().clone());
        answer(&bytes, "get_timeline", arguments)
    };
    for (who, id) in [("tid", 41), ("pid", 41), ("cpu", 0)] {
        let (lossy, text) = of(who, id, json!({}));
        assert!(lossy["spent"].is_null(), "{who}: {lossy}");
        assert!(text.contains("Context switches were lost in all of this range"), "{who}: {text}");
    }
    for (who, id) in [("tid", 4_194_345), ("cpu", 2)] {
        let (whole, text) = of(who, id, json!({}));
        assert_eq!(whole["spent"]["running_ns"], json!(1_000 * MS), "{who}: {whole}");
        assert!(text.contains("In all: ran 1.00 s"), "{who}: {text}");
    }
    // Behind its own recording nothing is known of a host either.
    let (late, text) = of("tid", 41, json!({"from": "600ms"}));
    assert!(late["spent"].is_null() && text.contains("Its host did not record in this range"), "{text}");
}
