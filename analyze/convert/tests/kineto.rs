//! Imports of a real profile (an H200; see fixtures/kineto.py), alone and into a recording, and of broken ones.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod packets;

use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use ingero_convert::Error;
use ingero_convert::export::{Cut, Selection, chrome, perfetto, records};
use ingero_convert::import::{ImportOptions, Imported, kineto};
use ingero_convert::input::{Input, InputKind, Progress};
use ingero_format::Trace;
use ingero_format::catalog::{Body, Class, Clock, Kind, Layer, NO_CPU};
use ingero_replay::fixture::Fixture;
use ingero_replay::{Event, Merge, Window};
use serde_json::Value;

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/kineto.json.gz")
}

fn document() -> Value {
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(fixture()).unwrap()).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

struct Run {
    done: Imported,
    trace: Trace,
    events: Vec<Event>,
}

fn run(host: Option<&Trace>, path: &Path, options: ImportOptions) -> Result<Run, Error> {
    let dir = tempfile::tempdir().unwrap();
    let output = dir.path().join("run.igt");
    let input = Input::open(path)?;
    assert_eq!(input.kind(), InputKind::Kineto);
    let done = match host {
        Some(host) => kineto::merge(host, &input, &output, options),
        None => kineto::import(&input, &output, options),
    };
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), usize::from(done.is_ok()), "nothing half-written");
    let done = done?;
    let trace = Trace::open(&output).unwrap();
    let events: Vec<_> = Merge::new(&trace).collect();
    assert_eq!(events.len() as u64, done.totals.events);
    Ok(Run { done, trace, events })
}

fn run_text(text: &str, options: ImportOptions) -> Result<Run, Error> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    run(None, file.path(), options)
}

/// Number and total nanoseconds of the complete events of each category, by the document itself.
fn counted(document: &Value) -> BTreeMap<String, (u64, u64)> {
    let mut counts = BTreeMap::new();
    for e in document["traceEvents"].as_array().unwrap().iter().filter(|e| e["ph"] == "X") {
        let entry: &mut (u64, u64) = counts.entry(e["cat"].as_str().unwrap().to_owned()).or_default();
        entry.0 += 1;
        entry.1 += (e["dur"].as_f64().unwrap() * 1e3).round() as u64;
    }
    counts
}

#[test]
fn every_entry_of_a_real_profile_is_there() {
    let run = run(None, &fixture(), ImportOptions::default()).unwrap();
    let mut seen: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let text = |id| run.trace.string(id).to_owned();
    let mut submitted: HashMap<u64, u64> = HashMap::new();
    for e in &run.events {
        let (category, dur_ns) = match e.body {
            Body::Span(s) => (text(s.category), s.dur_ns),
            Body::Call(c) if run.trace.function(c.func).unwrap().symbol.starts_with("cuda") => {
                ("cuda_runtime".into(), c.dur_ns.unwrap())
            }
            Body::Call(c) => ("cuda_driver".into(), c.dur_ns.unwrap()),
            Body::DeviceActivity(d) => {
                let names = ["kernel", "gpu_memcpy", "gpu_memset", "cuda_sync", "gpu_user_annotation"];
                (names[d.activity as usize].into(), d.dur_ns)
            }
            _ => continue,
        };
        let entry = seen.entry(category).or_default();
        *entry = (entry.0 + 1, entry.1 + dur_ns);
    }
    let mut expected = counted(&document());
    for own_track in ["Trace", "overhead"] {
        let (count, _) = expected.remove(own_track).unwrap();
        assert_eq!(run.done.ignored[&format!("{own_track} (of no thread: the profiler's own track)")], count);
    }
    assert_eq!(seen, expected);
    // The GPU works after the call that submitted it was made, and every kernel has one.
    for e in &run.events {
        match e.body {
            Body::Correlation(c) => assert!(submitted.insert(c.id, e.ts_ns).is_none()),
            Body::DeviceActivity(d) if d.activity < 3 => {
                assert!(submitted[&d.correlation.unwrap()] <= e.ts_ns && d.task.is_some() && d.stream == Some(7));
                assert!(d.activity != 1 || (d.bytes.is_some() && d.copy.is_some()));
            }
            _ => {}
        }
    }
    let first = run.events.iter().find(|e| matches!(e.body, Body::Span(_))).unwrap();
    assert_eq!(first.ts_ns / 1_000_000_000, 1_796_033_032, "Unix time");
    assert_eq!((run.trace.meta("source"), run.trace.meta("gpu_model")), (Some("kineto"), Some("NVIDIA H200")));
}

/// How far the recording's anchors are off, and where its clock stands.
const ANCHORS_OFF_NS: u64 = 1_235_000;
const BOOTED_NS: u64 = 1_796_033_000_000_000_000;

/// A recording of the same run as its own observer would have made it: every call of the profile a
/// little earlier, some of them missed, each with a driver call inside.
fn host(document: &Value, keep: impl Fn(usize) -> bool) -> Trace {
    host_of(document, keep, |name, at, dur| (name, at, dur)).finish()
}

fn host_bytes(document: &Value, keep: impl Fn(usize) -> bool) -> Vec<u8> {
    host_of(document, keep, |name, at, dur| (name, at, dur)).into_bytes()
}

fn host_of<'d>(
    document: &'d Value,
    keep: impl Fn(usize) -> bool,
    seen: impl Fn(&'d str, u64, u64) -> (&'d str, u64, u64),
) -> Fixture {
    let base = document["baseTimeNanoseconds"].as_u64().unwrap();
    let mut f = Fixture::new();
    let mut tasks = HashMap::new();
    let mut functions = HashMap::new();
    for ts_ns in [31_000_000_000, 33_000_000_000] {
        let real_ns = BOOTED_NS + ts_ns + ANCHORS_OFF_NS;
        f.push(ts_ns, NO_CPU, Clock { boot_ns: ts_ns, real_ns, tsc: None, bracket_ns: 100 });
    }
    let list = document["traceEvents"].as_array().unwrap().iter();
    let mut calls: Vec<_> = list.filter(|e| e["cat"] == "cuda_runtime").collect();
    calls.sort_by_key(|e| (e["ts"].as_f64().unwrap() * 1e3) as u64);
    for (i, e) in calls.into_iter().enumerate().filter(|(i, _)| keep(*i)) {
        let tid = u32::try_from(e["tid"].as_u64().unwrap()).unwrap();
        let task = *tasks.entry(tid).or_insert_with(|| f.task(457, tid));
        let at = base + (e["ts"].as_f64().unwrap() * 1e3) as u64 - BOOTED_NS - 1_500 - (i as u64 * 37) % 400;
        let dur = (e["dur"].as_f64().unwrap() * 1e3) as u64 + 2_000;
        let (name, at, dur) = seen(e["name"].as_str().unwrap(), at, dur);
        let func = *functions.entry(name).or_insert_with(|| f.func(name, Layer::Runtime, Class::Launch));
        f.call(at, 0, task, func, dur);
    }
    f
}

#[test]
fn a_profile_and_a_recording_of_the_same_run() {
    let document = document();
    let host = host(&document, |i| i % 10 != 3);
    let run = run(Some(&host), &fixture(), ImportOptions::default()).unwrap();
    // What the recording has stays, call for call; those that it lacks are no further calls of functions it counts.
    let calls =
        |events: &[Event]| -> Vec<Event> { events.iter().filter(|e| e.body.kind() == Kind::Call).copied().collect() };
    let before: Vec<Event> = Merge::new(&host).collect();
    let recorded = calls(&before);
    let driver = counted(&document)["cuda_driver"].0 as usize;
    assert_eq!((recorded.len(), calls(&run.events).len()), (72, 72 + driver));
    let spans =
        run.events.iter().filter(|e| matches!(e.body, Body::Span(s) if run.trace.string(s.category) == "cuda_runtime"));
    assert_eq!(spans.count(), 8);
    let correlated: HashMap<u64, u64> = run
        .events
        .iter()
        .filter_map(|e| if let Body::Correlation(c) = e.body { Some((c.id, e.ts_ns)) } else { None })
        .collect();
    let on_a_call = correlated.values().filter(|ts| recorded.iter().any(|e| e.ts_ns == **ts)).count();
    assert_eq!((correlated.len(), on_a_call), (80 + driver, 72));
    let uncertainty: u64 = run.trace.meta("kineto.uncertainty_ns").unwrap().parse().unwrap();
    assert!(uncertainty < 1_000, "{uncertainty}");
    assert_eq!(run.trace.meta("kineto.matched_calls"), Some("72"));
    assert!(run.done.notes[0].contains("by the calls that both have seen"), "{:?}", run.done.notes);
    let kernels: Vec<&Event> =
        run.events.iter().filter(|e| matches!(e.body, Body::DeviceActivity(d) if d.activity == 0)).collect();
    assert!(kernels.len() == 60 && kernels.iter().all(|e| (31_000_000_000..34_000_000_000).contains(&e.ts_ns)));
}

/// Calls that the profiler alone saw and that end within the driver's calls of the recording, as it saw them: they are spans, and the
/// recording's calls stay whole.
#[test]
fn calls_of_two_observers_that_cross_are_kept_apart() {
    let document = document();
    let host = host_of(
        &document,
        |_| true,
        |name, at, dur| match name {
            "cudaLaunchKernel" => ("cuLaunchKernelEx", at + dur / 2, dur - dur / 2 + 1_000),
            other => (other, at, dur),
        },
    )
    .finish();
    let run = run(Some(&host), &fixture(), ImportOptions::default()).unwrap();
    let all = document["traceEvents"].as_array().unwrap();
    let launches = all.iter().filter(|e| e["cat"] == "cuda_runtime" && e["name"] == "cudaLaunchKernel").count();
    let named = |name: &str| {
        let is = |e: &&Event| match e.body {
            Body::Call(c) => run.trace.function(c.func).is_some_and(|f| f.symbol == name),
            _ => false,
        };
        run.events.iter().filter(is).count()
    };
    let spans =
        run.events.iter().filter(|e| matches!(e.body, Body::Span(s) if run.trace.string(s.name) == "cudaLaunchKernel"));
    assert_eq!((named("cuLaunchKernelEx"), named("cudaLaunchKernel"), spans.count()), (launches, 0, launches));
    let whole = ingero_convert::export::Selection::whole(&run.trace);
    let done = ingero_convert::export::chrome::export(&run.trace, &whole, &mut Vec::new(), &Progress::none()).unwrap();
    assert_eq!(done.cut, 0);
}

/// What cannot be read of the recording is a loss of the file.
#[test]
fn damage_of_the_recording_is_told_in_the_file() {
    let document = document();
    let mut bytes = host_bytes(&document, |_| true);
    let whole = host(&document, |_| true);
    let dir = tempfile::tempdir().unwrap();
    let call = whole.blocks().iter().find(|b| b.header.kind == Kind::Call as u16).unwrap();
    bytes[usize::try_from(call.offset).unwrap() + ingero_format::layout::CHUNK_HEADER_LEN + 1] ^= 0x55;
    let path = dir.path().join("host.igt");
    std::fs::write(&path, bytes).unwrap();
    let run = run(Some(&Trace::open(&path).unwrap()), &fixture(), ImportOptions::default()).unwrap();
    assert_eq!(run.done.damaged, 1, "{:?}", run.done.notes);
    let lost = run.events.iter().find_map(|e| if let Body::Loss(l) = e.body { Some((e.ts_ns, l)) } else { None });
    let (ts_ns, lost) = lost.unwrap();
    assert_eq!((ts_ns, lost.to_ns, run.trace.string(lost.probe)), (call.header.ts_min, call.header.ts_max, "call"));
    assert_eq!(lost.count, Some(u64::from(call.header.rows)));
}

#[test]
fn without_common_calls_the_anchors_decide_and_say_so() {
    let run = run(Some(&host(&document(), |i| i < 4)), &fixture(), ImportOptions::default()).unwrap();
    assert!(run.done.notes[0].contains("wall-clock anchors, to within 100 ns"), "{:?}", run.done.notes);
    let span = run.events.iter().find(|e| matches!(e.body, Body::Span(_))).unwrap();
    let unix = document()["traceEvents"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|e| e["cat"] == "user_annotation")
        .map(|e| (e["ts"].as_f64().unwrap() * 1e3) as u64)
        .min()
        .unwrap()
        + 1_790_857_026_000_000_000;
    assert!(span.ts_ns.abs_diff(unix - BOOTED_NS - ANCHORS_OFF_NS) < 1_000_000);
    let no_clock = Fixture::new().finish();
    let dir = tempfile::tempdir().unwrap();
    let refused = kineto::merge(
        &no_clock,
        &Input::open(&fixture()).unwrap(),
        &dir.path().join("x.igt"),
        ImportOptions::default(),
    );
    assert!(refused.unwrap_err().to_string().contains("no wall-clock anchors"));
}

/// A recording of an older version lacks the kinds that a profile brings.
#[test]
fn an_older_recording_gets_the_kinds_that_it_lacks() {
    let host = host(&document(), |_| true);
    assert!(host.kind_schema(Kind::Span as u16).is_some());
    let older = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../investigations/h200-dataloader/run.igt");
    let trace = Trace::open(older).unwrap();
    assert!(!trace.schema().iter().any(|k| k.number == Kind::Span as u16), "recorded before there were spans");
    let before = Merge::new(&trace).count();
    // As if it were of that time.
    let real_ns = Merge::of(&trace, |k| k == Kind::Clock).find_map(|e| match e.body {
        Body::Clock(c) => Some(c.real_ns),
        _ => None,
    });
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(moved(real_ns.unwrap() as i64 - PROFILED_NS as i64 + 1_000_000_000).as_bytes()).unwrap();
    let run = run(Some(&trace), file.path(), ImportOptions::default()).unwrap();
    assert!(run.trace.kind_schema(Kind::Span as u16).is_some());
    assert_eq!(run.trace.kind_name(Kind::DeviceActivity as u16), "device_activity");
    assert!(run.events.len() > before + 400);
    assert!(
        run.done.notes.iter().any(|n| n.contains("threads of the profile are not in the recording")),
        "{:?}",
        run.done.notes
    );
}

/// When the profile begins, Unix time.
const PROFILED_NS: u64 = 1_796_033_032_000_000_000;

/// The profile as if it were so much later.
fn moved(by_ns: i64) -> String {
    let mut document = document();
    let base = document["baseTimeNanoseconds"].as_u64().unwrap();
    document["baseTimeNanoseconds"] = Value::from(base.checked_add_signed(by_ns).unwrap());
    document.to_string()
}

#[test]
fn a_profile_of_another_time_is_refused() {
    const HOUR_NS: i64 = 3_600_000_000_000;
    let host = host(&document(), |_| true);
    let merged = |by_ns: i64| {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(moved(by_ns).as_bytes()).unwrap();
        run(Some(&host), file.path(), ImportOptions::default())
            .map(|run| run.done.totals.events)
            .map_err(|e| e.to_string())
    };
    assert!(merged(0).is_ok());
    // Before the host was booted, after the recording, and a year off either way.
    for by_ns in [-18 * HOUR_NS, HOUR_NS, 365 * 24 * HOUR_NS, -365 * 24 * HOUR_NS] {
        let said = merged(by_ns).unwrap_err();
        assert!(said.contains("is of another time than the recording: 20"), "{by_ns}: {said}");
        assert_eq!((said.lines().count(), said.matches(" UTC").count()), (1, 4), "{said}");
    }
    // It reaches into the recording, and begins before there was a clock.
    let mut document = document();
    let list = document["traceEvents"].as_array_mut().unwrap();
    let early = list.iter_mut().find(|e| e["cat"] == "cpu_op").unwrap();
    early["ts"] = Value::from(early["ts"].as_f64().unwrap() - 60e6);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(document.to_string().as_bytes()).unwrap();
    let said = run(Some(&host), file.path(), ImportOptions::default()).map(|_| ()).unwrap_err().to_string();
    assert!(said.contains("begins before the recording's host was booted"), "{said}");
}

#[test]
fn the_line_of_a_bad_event_is_the_file_s() {
    let event = "{\n \"ph\": \"X\",\n \"cat\": \"cpu_op\",\n \"name\": \"a\",\n \"pid\": 1, \"tid\": 2,\n \"ts\": 5.5,\n \"dur\": 1\n}";
    let with = |bad: &str| format!("{{\"schemaVersion\": 1,\n\"traceEvents\": [\n{event},\n{bad}\n,\n{event}\n]\n}}");
    // The second event begins on line 11.
    for (bad, problem) in [
        (event.replace("\"a\"", "5"), "event 2: invalid type: integer `5`, expected a string at line 14"),
        (event.replace("\"X\"", "7"), "event 2: invalid type: integer `7`, expected a string at line 12"),
        (event.replace("\"a\"", "\"\\ud800\""), "at line 14"),
        (event.replace("5.5", "-5"), "event 2: ts: expected microseconds from 0 up, found \"-5\" at line 16"),
        (
            event.replace(": 1\n", ": \"x\"\n"),
            "event 2: dur: expected microseconds from 0 up, found \"\\\"x\\\"\" at line 17",
        ),
        (event.replace(",\n \"dur\": 1", ""), "event 2: a complete event (ph X) without dur at line 11"),
        ("7".to_owned(), "event 2: invalid type: integer `7`, expected struct Event at line 11"),
    ] {
        let said = run_text(&with(&bad), ImportOptions::default()).map(|_| ()).unwrap_err().to_string();
        assert!(said.contains(problem), "{bad}: {said}");
        assert_eq!(said.matches(" at line ").count(), 1, "{said}");
    }
}

#[test]
fn numbers_that_join_nothing_are_counted() {
    let event = |args: &str| {
        format!(
            "{{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":1,\"tid\":2,\"ts\":5.5,\"dur\":1,\"args\":{args}}}"
        )
    };
    let all = [
        "{\"correlation\":1180591620717411303424}",
        "{\"correlation\":-1,\"External id\":3}",
        "{\"correlation\":\"x\"}",
        "{\"correlation\":7,\"External id\":1.5}",
        "{\"correlation\":null}",
        "{}",
    ];
    let text = format!("{{\"schemaVersion\":1,\"traceEvents\":[{}]}}", all.map(event).join(","));
    let run = run_text(&text, ImportOptions::default()).unwrap();
    assert!(run.done.notes.iter().any(|n| n.contains("correlation") && n.ends_with(": 4")), "{:?}", run.done.notes);
    let ids: Vec<_> =
        run.events.iter().filter_map(|e| if let Body::Correlation(c) = e.body { Some(c.id) } else { None }).collect();
    assert_eq!(ids, [7]);
    let none = run_text(&text.replace("correlation", "other").replace("1.5", "5"), ImportOptions::default()).unwrap();
    assert!(!none.done.notes.iter().any(|n| n.contains("correlation")), "{:?}", none.done.notes);
}

#[test]
fn broken_documents_are_refused_with_their_line() {
    let event = r#"{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":2,"ts":5.5,"dur":1}"#;
    let with = |events: &str| format!("{{\"schemaVersion\":1,\n\"traceEvents\":[\n{events}\n]}}");
    for (text, problem) in [
        (with(&event.replace("5.5", "-5")), "event 1: ts: expected microseconds from 0 up, found \"-5\" at line 3"),
        (with(&event.replace(",\"dur\":1", "")), "event 1: a complete event (ph X) without dur"),
        (with(&format!("{event},\n{}", event.replace("1}", "\"x\"}"))), "event 2: dur: expected microseconds"),
        (with(&event.replace("\"a\"", "a")), "expected value at line 3 column 33"),
        (with(event).replace("]}", ""), "EOF while parsing a list at line 4"),
        ("{\"schemaVersion\":1}".to_owned(), "JSON without traceEvents"),
        ("{\"traceEvents\":7}".to_owned(), "expected a list of events"),
        (with("7"), "event 1: invalid type: integer `7`"),
    ] {
        let message = run_text(&text, ImportOptions::default()).map(|_| ()).unwrap_err().to_string();
        assert!(message.contains(problem), "{text}: {message}");
    }
    let keep_going = ImportOptions { keep_going: true, ..Default::default() };
    let bad = run_text(&with(&format!("{},\n{event}", event.replace("5.5", "-5"))), keep_going).unwrap();
    assert!(bad.events.iter().any(|e| matches!(e.body, Body::Loss(l) if l.count == Some(1))));
    let cut = run_text(&with(&format!("{event},\n{event}")).replace("]}", ""), keep_going).unwrap();
    assert_eq!(cut.events.iter().filter(|e| e.body.kind() == Kind::Span).count(), 2);
    assert!(cut.events.iter().any(|e| matches!(e.body, Body::Loss(l) if l.count.is_none())));
    // However deep it goes, what nobody needs is skipped without a stack, and the rest has a limit.
    for (key, problem) in [("x", "EOF while parsing a list"), ("deviceProperties", "recursion limit")] {
        let deep = format!("{{\"traceEvents\":[],\"{key}\":{}", "[".repeat(100_000));
        let message = run_text(&deep, ImportOptions::default()).map(|_| ()).unwrap_err().to_string();
        assert!(message.contains(problem), "{key}: {message}");
    }
}

/// Operators and GPU work reach whoever looks: the slices of each name are as many, and as long, as the profile has them.
#[test]
fn operators_and_gpu_work_are_in_every_trace_of_a_viewer() {
    let run = run(None, &fixture(), ImportOptions::default()).unwrap();
    let (trace, none) = (&run.trace, Progress::none());
    let mut due: BTreeMap<(String, String), (u64, u64)> = BTreeMap::new();
    for e in &run.events {
        let (what, name, dur_ns) = match e.body {
            Body::Span(s) => ("span", s.name, s.dur_ns),
            Body::DeviceActivity(d) => ("device", d.name, d.dur_ns),
            _ => continue,
        };
        let entry = due.entry((what.to_owned(), trace.string(name).to_owned())).or_default();
        *entry = (entry.0 + 1, entry.1 + dur_ns);
    }
    assert!(due.len() > 20, "{due:?}");
    let mut out = Vec::new();
    records::export(trace, &Selection::whole(trace), records::Layout::JsonLines, &mut out, &none).unwrap();
    let mut seen: BTreeMap<(String, String), (u64, u64)> = BTreeMap::new();
    for line in String::from_utf8(out).unwrap().lines() {
        let r: Value = serde_json::from_str(line).unwrap();
        let text = |key: &str| r[key].as_str().unwrap_or_default().to_owned();
        if ["span", "device"].contains(&text("record").as_str()) {
            let entry = seen.entry((text("record"), text("name"))).or_default();
            *entry = (entry.0 + 1, entry.1 + r["dur_ns"].as_u64().unwrap());
        }
    }
    assert_eq!(seen, due);
    let slices = |selection: &Selection| {
        let mut out = Vec::new();
        let done = chrome::export(trace, selection, &mut out, &none).unwrap();
        let json: Value = serde_json::from_slice(&out).unwrap();
        let mut seen: BTreeMap<(String, String), (u64, u64)> = BTreeMap::new();
        let mut tracks: BTreeMap<(u64, u64), Vec<(u64, u64)>> = BTreeMap::new();
        for e in json["traceEvents"].as_array().unwrap().iter().filter(|e| e["cat"] == "span" || e["cat"] == "device") {
            let text = |key: &str| e[key].as_str().unwrap().to_owned();
            let ns = |key: &str| (e[key].as_f64().unwrap() * 1e3).round() as u64;
            let entry = seen.entry((text("cat"), text("name"))).or_default();
            *entry = (entry.0 + 1, entry.1 + ns("dur"));
            let track = (e["pid"].as_u64().unwrap(), e["tid"].as_u64().unwrap());
            tracks.entry(track).or_default().push((ns("ts"), ns("ts") + ns("dur")));
        }
        // Every track nests.
        for stretches in tracks.values() {
            for (n, a) in stretches.iter().enumerate() {
                assert!(stretches[n + 1..].iter().all(|b| b.0 >= a.1 || b.1 <= a.1 && b.0 >= a.0), "{a:?}");
            }
        }
        (seen, done.cut)
    };
    let (seen, cut) = slices(&Selection::whole(trace));
    let counts =
        |all: &BTreeMap<(String, String), (u64, u64)>| all.iter().map(|(k, v)| (k.clone(), v.0)).collect::<Vec<_>>();
    assert_eq!(counts(&seen), counts(&due));
    assert!(cut > 0 || seen == due, "{seen:?}");
    let only = |kind: &str| {
        let cut = Cut { only: vec![kind.to_owned()], ..Cut::default() };
        slices(&Selection::new(trace, Window::whole(trace), &cut).unwrap()).0
    };
    assert!(only("call").is_empty());
    assert!(only("device_activity").keys().all(|(what, _)| what == "device") && !only("device_activity").is_empty());
    let mut packets = Vec::new();
    perfetto::export(trace, &Selection::whole(trace), &mut packets, &none).unwrap();
    let packets = packets::unpacked(&packets);
    for (_, name) in due.keys() {
        assert!(packets.windows(name.len()).any(|at| at == name.as_bytes()), "{name}");
    }
}

/// What PyTorch and others write that is no clean profile: with --keep-going each event that can be read is.
#[test]
fn events_that_cannot_be_read_cost_themselves_alone() {
    let event = |name: &str| {
        format!("{{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":{name},\"pid\":1,\"tid\":2,\"ts\":5.5,\"dur\":1}}")
    };
    let with = |odd: &str| {
        format!("{{\"schemaVersion\":1,\n\"traceEvents\":[\n{},\n{odd},\n{}\n]}}", event("\"a\""), event("\"b\""))
    };
    let keep_going = ImportOptions { keep_going: true, ..Default::default() };
    let args = |args: &str| event("\"c\"").replace("\"dur\":1", &format!("\"dur\":1,\"args\":{args}"));
    let spans = |run: &Run| run.events.iter().filter(|e| e.body.kind() == Kind::Span).count();
    // No event at all, to whoever does not go on.
    for odd in [event("5"), event("null"), args("{\"correlation\":1,\"correlation\":2}"), "7".to_owned()] {
        let message = run_text(&with(&odd), ImportOptions::default()).map(|_| ()).unwrap_err().to_string();
        assert!(message.contains("event 2") && message.contains("with --keep-going"), "{odd}: {message}");
        let run = run_text(&with(&odd), keep_going).unwrap();
        assert_eq!(spans(&run), 2, "{odd}");
        assert!(run.done.notes.iter().any(|n| n == "1 entries could not be read"), "{odd}: {:?}", run.done.notes);
    }
    assert_eq!(spans(&run_text(&with(&args("null")), ImportOptions::default()).unwrap()), 3, "no arguments");
    // Where it is no JSON any more, what stood before counts.
    for odd in [event("\"a\"b\""), event("\"two\nlines\""), event("\"\\x\""), args("{\"x\":inf}")] {
        let message = run_text(&with(&odd), ImportOptions::default()).map(|_| ()).unwrap_err().to_string();
        assert!(message.contains("with --keep-going"), "{odd}: {message}");
        let run = run_text(&with(&odd), keep_going).unwrap();
        assert_eq!(spans(&run), 1, "{odd}");
        assert!(
            run.done.notes[0].contains("no JSON from here on") && run.done.notes[0].contains(" at line "),
            "{odd}: {:?}",
            run.done.notes
        );
        assert!(run.events.iter().any(|e| matches!(e.body, Body::Loss(l) if l.count.is_none())));
    }
    // It is not offered where it does not help.
    for text in [
        "{\"traceEvents\":7}".to_owned(),
        with(&event("\"c\"")).replacen("1,", "1,\"baseTimeNanoseconds\":99999999999999999999,", 1),
    ] {
        for options in [ImportOptions::default(), keep_going] {
            let refused = run_text(&text, options).map(|_| ()).unwrap_err().to_string();
            assert!(!refused.contains("--keep-going"), "{refused}");
        }
    }
}

#[test]
fn a_profile_is_merged_once() {
    let dir = tempfile::tempdir().unwrap();
    let (once, twice) = (dir.path().join("once.igt"), dir.path().join("twice.igt"));
    let input = Input::open(&fixture()).unwrap();
    kineto::merge(&host(&document(), |_| true), &input, &once, ImportOptions::default()).unwrap();
    let refused = kineto::merge(&Trace::open(&once).unwrap(), &input, &twice, ImportOptions::default());
    let refused = refused.map(|_| ()).unwrap_err().to_string();
    assert!(refused.contains("once.igt") && refused.contains("holds this profile already"), "{refused}");
    assert!(!twice.exists());
}

/// Other programs write Chrome traces too, this one among them.
#[test]
fn a_trace_for_viewers_is_no_profile() {
    let state = r#"{"ph":"X","cat":"state","name":"running","pid":1,"tid":2,"ts":5.5,"dur":1}"#;
    for (text, refused) in [
        (format!("{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[{state}]}}"), true),
        (format!("{{\"traceEvents\":[{}]}}", state.replace("state", "cpu_op")), false),
        (format!("{{\"schemaVersion\":1,\"traceEvents\":[{state}]}}"), false),
        ("{\"traceEvents\":[]}".to_owned(), false),
    ] {
        match run_text(&text, ImportOptions::default()) {
            Ok(_) => assert!(!refused, "{text}"),
            Err(e) => {
                let said = e.to_string();
                assert!(
                    refused && said.contains("not one of PyTorch's profiler") && said.contains("--chrome"),
                    "{text}: {said}"
                );
            }
        }
    }
}
