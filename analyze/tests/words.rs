//! What reports say, and do not say, of recordings that are whole, cut off, or a sample.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::io::{Seek, Write};
use std::path::{Path, PathBuf};

use ingero_analyze::diff::{self, Diff};
use ingero_analyze::{Analysis, report};
use ingero_format::Trace;
use ingero_format::catalog::{Class, Exit, Fork, Layer, Loss, PageAlloc, Switch, TaskId, WOKEN_BY_TIMER, Waking};
use ingero_replay::Window;
use ingero_replay::fixture::Fixture;

fn investigation(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("investigations").join(name)
}

/// The report in both lengths and as Markdown.
fn reports(a: &Analysis) -> Vec<String> {
    let options = |per_process| report::Options { per_process, ..report::Options::default() };
    let texts = [options(false), options(true)].map(|options| report::text(a, &options));
    texts.into_iter().chain([report::markdown(a, &options(false))]).collect()
}

/// In one line, whatever the width.
fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn no_line_holds_an_escape_that_no_recording_brought() {
    let trace = Trace::open(investigation("h200-fight").join("run.igt")).unwrap();
    let a = Analysis::new(&trace, Window::whole(&trace));
    for text in reports(&a) {
        assert!(!text.contains("\\n"), "{text}");
    }
    assert!(reports(&a)[1].contains("\n\nOf calls, mean to max are exact"), "{}", reports(&a)[1]);
}

#[test]
fn a_range_of_a_sample_without_a_stored_call_is_not_said_to_be_empty() {
    let trace = Trace::open(investigation("pytorch-dataloader-starvation").join("recording.igt")).unwrap();
    let a = Analysis::new(&trace, Window::parse(&trace, Some("63.5s"), None, None).unwrap());
    assert!(a.phases.is_empty());
    for text in reports(&a).iter().map(|text| joined(text)) {
        assert!(text.contains("No CUDA call is stored in this range (the source stored a sample"), "{text}");
        assert!(!text.contains("was recorded"), "{text}");
        assert!(text.contains("Nothing can be told of any process in this range"), "{text}");
    }
}

#[test]
fn a_recording_that_was_cut_off_is_not_said_to_be_empty() {
    let whole = std::fs::read(investigation("h200-fight").join("run.igt")).unwrap();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&whole[..40_000]).unwrap();
    file.rewind().unwrap();
    let trace = Trace::from_file(file, "cut.igt".into()).unwrap();
    let a = Analysis::new(&trace, Window::whole(&trace));
    assert!(a.phases.is_empty() && !trace.complete());
    for text in reports(&a).iter().map(|text| joined(text)) {
        assert!(text.contains("No CUDA call was recorded in what could be read of the recording"), "{text}");
    }
}

/// A recording of every kind of event, and of names that are hard to print.
fn kinds() -> Trace {
    let kinds = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("tests/corpus/v1/kinds.igt");
    Trace::open(kinds).unwrap()
}

#[test]
fn no_line_is_wider_than_asked_for_whatever_names_are_in_it() {
    let trace = kinds();
    let a = Analysis::new(&trace, Window::whole(&trace));
    for (width, per_process) in (60..=100).flat_map(|width| [(width, true), (width, false)]) {
        let text = report::text(&a, &report::Options { width, per_process, ..report::Options::default() });
        for line in text.lines() {
            assert!(unicode_width::UnicodeWidthStr::width(line) <= width, "{width}: {line}");
        }
        assert!(width < 72 || text.contains('線'), "{text}");
    }
}

#[test]
fn a_kill_in_no_gap_costs_nothing() {
    let trace = kinds();
    let a = Analysis::new(&trace, Window::whole(&trace));
    // One lies behind what was lost, in no gap: it is told, and costs nothing.
    let kills: Vec<_> = a.incidents.iter().filter(|i| i.kind == "oom-kill").collect();
    assert!(!kills.is_empty() && kills.iter().all(|i| i.lost_ns == 0 && !i.summary.contains(" lost ")), "{kills:#?}");
    let text = report::text(&a, &report::Options::default());
    assert!(!joined(&text).contains("lost to a process killed"), "{text}");
}

#[test]
fn one_thread_of_a_sample_spends_no_more_than_its_phase_lasts() {
    let trace = Trace::open(investigation("pytorch-dataloader-starvation").join("recording.igt")).unwrap();
    let a = Analysis::new(&trace, Window::whole(&trace));
    let phases: Vec<_> = a.phases.iter().map(|p| &p.phase).collect();
    let mut capped = 0;
    for (phase, sample) in phases.iter().filter_map(|p| p.sample.as_ref().map(|s| (p, s))) {
        let len_ns = phase.end_ns - phase.start_ns;
        assert!(sample.main.is_some(), "{phase:?}");
        for bounds in [Some(sample.copies_ns), Some(sample.calls_ns), sample.off_cpu_ns].into_iter().flatten() {
            assert!(bounds.at_least <= bounds.at_most && bounds.at_most <= len_ns.max(bounds.at_least), "{phase:?}");
            capped += u32::from(bounds.at_most == len_ns);
        }
    }
    assert!(capped > 0, "{phases:#?}");
}

#[test]
fn what_is_not_recorded_of_cpus_is_no_cause() {
    let trace = Trace::open(investigation("h200-dataloader").join("run.igt")).unwrap();
    let a = Analysis::new(&trace, Window::whole(&trace));
    let crowded = a.incidents.iter().find(|i| i.kind == "too-many-workers").unwrap();
    assert!(crowded.root_cause.contains("CPUs they may use is not recorded"), "{crowded:#?}");
    assert!(!crowded.root_cause.contains("want more CPUs"), "{crowded:#?}");
    let caveats = a.caveats().join("\n");
    assert!(caveats.contains("which CPUs a thread may use"), "{caveats}");
    // Of throttling this source tells.
    assert!(a.knows_throttling() && !caveats.contains("CPU quota"), "{caveats}");
}

/// What is counted of events of which some were lost is the least that there was; other counts are exact.
#[test]
fn counts_of_what_was_lost_are_at_least() {
    let of = |probe: Option<&str>| {
        let mut f = Fixture::new();
        let main = f.task(10, 10);
        let launch = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
        f.switch(0, 0, TaskId(0), 0, main);
        for step in 0..20 {
            f.call(1_000 + step * 100_000, 0, main, launch, 10_000);
            let page = PageAlloc { task: main, pfn: None, order: 0, gfp_flags: 0, migratetype: None };
            f.push(20_000 + step * 100_000, 0, page);
        }
        f.switch(3_000_000, 0, main, 1, TaskId(0));
        if let Some(probe) = probe {
            let probe = f.writer().string(probe);
            f.push(500_000, 0, Loss { to_ns: 510_000, probe, cause: 0, count: Some(3), of_host: None });
        }
        let trace = f.finish();
        let a = Analysis::new(&trace, Window::whole(&trace));
        let show = |per_process| report::text(&a, &report::Options { per_process, ..report::Options::default() });
        (show(false), show(true))
    };
    let (table, each) = of(None);
    assert!(!table.contains('≥') && !each.contains("at least"), "{table}{each}");
    let (table, each) = of(Some("mm_page_alloc"));
    assert!(table.contains("≥20\n") && table.contains("≥: at least"), "{table}");
    assert!(each.contains("page allocs at least 20,") && each.contains("switches    1\n"), "{each}");
    let (table, each) = of(Some("call"));
    assert!(table.contains(", at least: calls were lost") && !table.contains('≥'), "{table}{each}");
    // Nobody knows of which kind these were.
    let (table, each) = of(Some("recorder"));
    assert!(table.contains("≥20\n") && each.contains("switches    at least 1\n"), "{table}{each}");
}

const S: u64 = 1_000_000_000;

/// A process that submits for 4 s and ends while its worker still goes on: it waits twice for 4 s, which run out, then until the
/// worker wakes it, and ends after 17 s.
fn ending() -> Trace {
    const POLL: Option<u64> = Some(7);
    let mut f = Fixture::new();
    let (idle, main, worker) = (TaskId(0), f.task(10, 10), f.task(20, 20));
    let launch = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
    f.switch(0, 0, idle, 0, main);
    f.push(10, 0, Fork { parent: main, child: worker });
    f.switch(20, 1, idle, 0, worker);
    for step in 0..40 {
        f.call(S / 10 + step * S / 10, 0, main, launch, 10_000);
    }
    // Two waits of 4 s that run out, and one that the worker ends with its own end.
    let out = |f: &mut Fixture, at: u64| {
        let (prev_prio, next_prio, throttled) = (None, None, None);
        f.push(at, 0, Switch { prev: main, prev_state: 1, prev_prio, next: idle, next_prio, syscall: POLL, throttled });
    };
    for at in [5 * S, 9 * S + S / 2] {
        out(&mut f, at);
        let (context, source, irq) = (Some(2), Some(WOKEN_BY_TIMER), None);
        f.push(at + 4 * S, 0, Waking { waker: idle, wakee: main, target_cpu: 0, context, source, irq });
        f.switch(at + 4 * S, 0, idle, 0, main);
    }
    out(&mut f, 14 * S);
    f.waking(16 * S, 1, worker, main, 0);
    f.switch(16 * S, 0, idle, 0, main);
    f.push(16 * S + 10, 1, Exit { task: worker, group_dead: Some(1) });
    f.push(17 * S, 0, Exit { task: main, group_dead: Some(1) });
    f.switch(17 * S + 10, 0, main, 0x10, idle);
    // The machine goes on.
    let other = f.task(30, 30);
    f.switch(18 * S, 1, idle, 0, other);
    f.switch(20 * S, 1, other, 1, idle);
    f.finish()
}

/// What its main thread waits for is told, and is no lost time.
#[test]
fn a_phase_without_a_submission_tells_what_its_main_thread_waits_for() {
    let trace = ending();
    let a = Analysis::new(&trace, Window::whole(&trace));
    let silent = a.phases.last().unwrap();
    assert_eq!(silent.phase.submissions, 0, "{:?}", silent.phase);
    let silence = silent.silence.as_ref().unwrap();
    assert_eq!(silence.spent.total_ns(), silent.phase.len_ns());
    assert_eq!(silence.spent.blocked_ns, 10 * S);
    assert!(a.incidents.iter().all(|i| i.phase != silent.number), "{:?}", a.incidents);
    let text = joined(&report::text(&a, &report::Options::default()));
    let told = "its longest waits: 4.00 s from 5.000000 s on until a timed wait ran out; 4.00 s from 9.500000 s on until a \
                timed wait ran out; 2.00 s from 14.000000 s on until ? (20) woke it";
    assert!(text.contains(told), "{text}");
    let verdict =
        "submitted nothing to a GPU; its main thread waited 10.0 s of it, 8.00 s of that until a timed wait ran out";
    assert!(text.contains(verdict), "{text}");
    let markdown = report::markdown(&a, &report::Options::default());
    assert!(markdown.contains("its longest waits: 4.00 s"), "{markdown}");
    let json = report::json(&a, &[]).unwrap();
    assert!(json.contains("\"ended_by\":\"timeout\"") || json.contains("\"ended_by\": \"timeout\""), "{json}");
    // It is no gap in which a GPU was starved, nor time in which it was fed.
    assert_eq!(silent.starved_share(), None);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(json["phases"][silent.number]["gaps"]["share"].is_null(), "{json}");
    assert!(json["phases"][0]["gaps"]["share"].as_f64().unwrap() > 0.9, "{json}");
    let page = ingero_analyze::html::page(&a, &report::Options::default(), &mut |_| {}).unwrap();
    // A number and its unit are not parted there.
    let page = page.replace('\u{a0}', " ");
    let told = page.split("its longest waits: ").nth(1).map(|told| told.split('<').next().unwrap()).unwrap_or_default();
    assert!(told.starts_with("4.00 s from 5.000000 s on"), "{told}");
}

/// A range in which nothing is asked of a GPU tells what the main thread did there, wherever it lies; a wait that it cuts lasted longer.
#[test]
fn a_range_without_a_call_tells_what_the_main_thread_did() {
    let trace = ending();
    let of = |from: &str, to: &str| {
        let a = Analysis::new(&trace, Window::parse(&trace, Some(from), Some(to), None).unwrap());
        let phases: Vec<_> = a.phases.iter().map(|p| (p.phase.start_ns, p.phase.end_ns, p.phase.submissions)).collect();
        assert!(a.phases.iter().all(|p| p.starved_share().is_none()) && a.incidents.is_empty(), "{:?}", a.phases);
        // Whatever form a report has, it says of which range it is.
        let cut = |text: &String| text.lines().any(|l| l.trim_start_matches("- ").starts_with("only "));
        assert!(reports(&a).iter().all(cut), "{:?}", reports(&a));
        let silences: Vec<_> = a.phases.iter().filter_map(|p| p.silence.as_ref()).map(|s| s.spent).collect();
        assert!(silences.iter().zip(&phases).all(|(s, (from, to, _))| s.total_ns() == to - from), "{silences:?}");
        (phases, joined(&report::text(&a, &report::Options::default())))
    };
    let (phases, text) = of("6s", "8s");
    assert_eq!(phases, [(6 * S, 8 * S, 0)]);
    assert!(text.contains("its main thread waited 2.00 s of it until a timed wait ran out"), "{text}");
    let cut = "its longest waits: at least 2.00 s from 6.000000 s on, past the phase's end, until a timed wait ran out";
    assert!(text.contains(cut), "{text}");
    let (phases, text) = of("8s", "9.25s");
    assert_eq!(phases, [(8 * S, 9 * S + S / 4, 0)]);
    assert!(
        text.contains("its longest waits: at least 1.00 s from 8.000000 s on until a timed wait ran out "),
        "{text}"
    );
    let (phases, text) = of("15s", "15.5s");
    assert_eq!(phases, [(15 * S, 15 * S + S / 2, 0)]);
    assert!(text.contains("waited 500 ms of it for ? (20)"), "{text}");
    // Before its first call, and up to its end.
    let (phases, _) = of("1us", "10ms");
    assert_eq!(phases, [(1_000, S / 100, 0)]);
    let (phases, text) = of("16.5s", "19s");
    assert_eq!(phases, [(16 * S + S / 2, 17 * S, 0)]);
    assert!(text.contains("its main thread ran 500 ms of it"), "{text}");
    // Behind that there is nobody.
    let (phases, text) = of("17.5s", "19s");
    assert!(phases.is_empty() && text.contains("No CUDA call was recorded in this range"), "{text}");
}

/// A process that is there at the end may yet submit, as long as it makes calls; in a range, too, and behind its last call it asks for
/// nothing.
#[test]
fn a_range_behind_the_last_submission_of_a_process_that_goes_on_is_a_gap() {
    let mut f = Fixture::new();
    let main = f.task(10, 10);
    let launch = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
    let free = f.func("cudaFree", Layer::Runtime, Class::Free);
    f.switch(0, 0, TaskId(0), 0, main);
    for step in 1..20 {
        f.call(step * S / 10, 0, main, launch, 10_000);
    }
    // A thread of it ends, and it does not.
    let helper = f.task(10, 11);
    f.push(2 * S, 1, Exit { task: helper, group_dead: Some(0) });
    f.call(6 * S, 0, main, free, 10_000);
    f.switch(9 * S, 0, main, 1, TaskId(0));
    let trace = f.finish();
    let whole = Analysis::new(&trace, Window::whole(&trace));
    assert_eq!(whole.phases.len(), 1);
    assert!(whole.phases[0].starved_share().unwrap() > 0.99);
    for (from, to, share) in [("3s", "4s", Some(1.0)), ("5s", "6.5s", Some(1.0)), ("7s", "8s", None)] {
        let a = Analysis::new(&trace, Window::parse(&trace, Some(from), Some(to), None).unwrap());
        let [p] = &a.phases[..] else { panic!("{from}: {:?}", a.phases) };
        assert_eq!((p.starved_share(), p.silence.is_some()), (share, share.is_none()), "{from}: {:?}", p.phase);
        if share.is_some() {
            let text = joined(&report::text(&a, &report::Options::default()));
            assert!(text.contains("no submission for at least "), "{text}");
            assert!(text.contains("ran without a submission for at least "), "{text}");
        }
    }
}

/// What is not known of gaps is not 0.
#[test]
fn without_switches_what_was_done_in_gaps_is_unknown() {
    let mut f = Fixture::new();
    let main = f.task(10, 10);
    let launch = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
    for step in 0..20 {
        f.call(1_000 + step * 2_000_000, 0, main, launch, 10_000);
    }
    let trace = f.finish();
    let a = Analysis::new(&trace, Window::whole(&trace));
    let json: serde_json::Value = serde_json::from_str(&report::json(&a, &[]).unwrap()).unwrap();
    let gaps = &json["phases"][0]["gaps"];
    assert_eq!((gaps["count"].as_u64(), gaps["sum_ns"].as_u64()), (Some(19), Some(19 * 1_990_000)));
    for state in ["running_ns", "runnable_ns", "throttled_ns", "blocked_ns"] {
        assert!(gaps[state].is_null(), "{state}: {gaps}");
    }
    let text = joined(&report::text(&a, &report::Options::default()));
    assert!(text.contains("what the submitting thread did in them is unknown"), "{text}");
    assert!(!text.contains("ran 0"), "{text}");
}

/// Causes are looked for in long gaps alone: where there are others, both are told.
#[test]
fn gaps_that_count_as_lost_are_told_beside_all_gaps() {
    let of = |short: u64| {
        let mut f = Fixture::new();
        let main = f.task(10, 10);
        let launch = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
        f.switch(0, 0, TaskId(0), 0, main);
        for step in 0..20 {
            f.call(step * 1_000_000, 0, main, launch, 10_000);
            f.call(step * 1_000_000 + 10_000 + short, 0, main, launch, 10_000);
        }
        f.switch(20_000_000, 0, main, 1, TaskId(0));
        let trace = f.finish();
        let a = Analysis::new(&trace, Window::whole(&trace));
        let json: serde_json::Value = serde_json::from_str(&report::json(&a, &[]).unwrap()).unwrap();
        let gaps = ["count", "lost_count", "lost_ns"].map(|key| json["phases"][0]["gaps"][key].as_u64().unwrap());
        let words =
            (joined(&report::text(&a, &report::Options::default())), report::markdown(&a, &report::Options::default()));
        (gaps, words)
    };
    let (gaps, (text, markdown)) = of(20_000);
    assert_eq!(gaps, [39, 19, 19 * 960_000]);
    let told = "39 gaps between them last 18.6 ms in all (19 of 50 us and more, 18.2 ms): the submitting thread ran";
    assert!(text.contains(told), "{text}");
    assert!(
        text.contains("in gaps of 50 us and more, 18.2 ms in all, the submitting thread ran for 18.2 ms"),
        "{text}"
    );
    assert!(markdown.contains("| 18.6 ms | 18.2 ms |"), "{markdown}");
    let (gaps, (text, _)) = of(200_000);
    assert_eq!(gaps, [39, 39, 19 * 780_000 + 20 * 200_000]);
    assert!(text.contains("39 gaps between them last 18.8 ms in all: the submitting"), "{text}");
}

/// A gap within a step costs nothing while the device has work queued: what is lost to such gaps is an upper bound, unless a wait
/// showed that it had none.
#[test]
fn what_a_queue_may_hide_is_lost_at_most() {
    // Fewer submissions than those from which on waits that come so often are a cause of their own.
    let of = |waits: bool| {
        let mut f = Fixture::new();
        let main = f.task(10, 10);
        let launch = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
        let sync = f.func("cudaDeviceSynchronize", Layer::Runtime, Class::Sync);
        f.switch(0, 0, TaskId(0), 0, main);
        for step in 0..50 {
            f.call(step * 800_000, 0, main, launch, 10_000);
            if waits {
                f.call(step * 800_000 + 20_000, 0, main, sync, 60_000);
            }
        }
        f.switch(100_000_000, 0, main, 1, TaskId(0));
        let trace = f.finish();
        let a = Analysis::new(&trace, Window::whole(&trace));
        let json: serde_json::Value = serde_json::from_str(&report::json(&a, &[]).unwrap()).unwrap();
        let incident = json["incidents"].as_array().unwrap().iter().find(|i| i["kind"] == "busy-main").unwrap();
        (incident["at_most"].as_bool().unwrap(), report::markdown(&a, &report::Options::default()))
    };
    let (at_most, markdown) = of(false);
    assert!(at_most && markdown.contains("lost up to 38.7 ms because its submitting thread"), "{markdown}");
    assert!(markdown.contains("; up to 38.7 ms lost to its main thread being busy"), "{markdown}");
    let (at_most, markdown) = of(true);
    assert!(!at_most && markdown.contains("; 35.3 ms lost to its main thread being busy"), "{markdown}");
}

/// Two runs are compared by what each may have lost.
#[test]
fn a_comparison_says_up_to_where_an_incident_does() {
    let folder = investigation("llm-decode-launch-bound");
    let traces = ["eager.igt", "graph.igt"].map(|name| Trace::open(folder.join(name)).unwrap());
    let [before, after] = traces.each_ref().map(|trace| Analysis::new(trace, Window::whole(trace)));
    let d = Diff::new(&before, &after);
    let told = "; launch-bound took less than 1 % of the time after up to 80 % before, some of it counted as fed";
    assert!(d.verdict.ends_with(told), "{}", d.verdict);
    let text = diff::text(&d, false, 100);
    assert!(text.contains(" up to 2.21 s (80 %)"), "{text}");
    let cause = d.causes.iter().find(|c| c.kind == "launch-bound").unwrap();
    assert_eq!((cause.before_at_most, cause.after_at_most), (true, true));
}
