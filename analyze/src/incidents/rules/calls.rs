//! Causes that show in the calls.

use super::*;
use ingero_format::catalog::{Call, PageAlloc};
use ingero_replay::Window;
use ingero_replay::fixture::returned;

pub(super) fn faulting(every: u64) -> Found {
    let mut pages = Scene::new().steps(move |s, at| {
        for i in 0..(17 * MS / every) {
            let page = PageAlloc { task: s.main, pfn: Some(i), order: 0, gfp_flags: 0, migratetype: None };
            s.f.push(at + i * every, 0, page);
        }
    });
    pages.f.switch(STEPS * PERIOD + 2 * MS, 0, pages.main, S, IDLE);
    pages.found()
}

/// A phase with a worker, in which the main thread takes page after page, and one without, in which it computes: each has its
/// own cause, whatever the other is like.
#[test]
fn a_phase_is_judged_by_its_own_pages() {
    use ingero_format::catalog::Exit;
    let mut s = Scene::new().steps(|s, at| {
        for i in 0..(17 * MS / 1_200) {
            let page = PageAlloc { task: s.main, pfn: Some(i), order: 0, gfp_flags: 0, migratetype: None };
            s.f.push(at + i * 1_200, 0, page);
        }
    });
    s.f.push(STEPS * PERIOD, 1, Exit { task: s.worker, group_dead: Some(1) });
    for i in STEPS..9 * STEPS {
        s.f.call(MS + i * PERIOD, 0, s.main, s.launch, 10_000);
    }
    s.f.switch(9 * STEPS * PERIOD + 2 * MS, 0, s.main, S, IDLE);
    let trace = s.f.finish();
    let whole = ingero_replay::Window::whole(&trace);
    let kinds = |a: &Analysis| a.incidents.iter().map(|i| (i.phase, i.kind)).collect::<Vec<_>>();
    let all = kinds(&Analysis::new(&trace, whole));
    assert_eq!(all, [(1, "busy-main"), (0, "page-faults")]);
    for (phase, kind) in all {
        assert_eq!(kinds(&Analysis::of_phase(&trace, whole, phase).unwrap()), [(phase, kind)]);
    }
}

/// What `between` calls takes the 18 ms between two launches, in each step or in the first one alone.
fn calling(every_step: bool, between: impl Fn(&mut Scene, u64)) -> Found {
    let mut first = true;
    let scene = Scene::new().steps(|s, at| {
        if every_step || std::mem::take(&mut first) {
            between(s, at);
        }
    });
    scene.found()
}

pub(super) fn churning(every_step: bool) -> Found {
    calling(every_step, |s, at| {
        let malloc = s.f.func("cudaMalloc", Library::Runtime, Class::Alloc);
        let free = s.f.func("cudaFree", Library::Runtime, Class::Free);
        s.f.call(at, 0, s.main, malloc, 9 * MS);
        s.f.call(at + 9 * MS, 0, s.main, free, 9 * MS - 10);
    })
}

pub(super) fn capturing(every_step: bool) -> Found {
    calling(every_step, |s, at| {
        let make = s.f.func("cudaGraphInstantiate", Library::Graph, Class::Graph);
        s.f.call(at, 0, s.main, make, 18 * MS);
    })
}

pub(super) fn waiting_behind(idle_ns: u64) -> Found {
    waits_behind(idle_ns).found()
}

fn waits_behind(idle_ns: u64) -> Scene {
    let mut s = Scene::new();
    let sync = s.f.func("cudaStreamSynchronize", Library::Runtime, Class::Sync);
    for i in 0..1_000 {
        let at = MS + i * (200_000 + idle_ns);
        s.f.call(at, 0, s.main, s.launch, 10_000);
        s.f.call(at + 20_000, 0, s.main, sync, 180_000);
    }
    s.f.switch(900 * MS, 0, s.main, S, IDLE);
    s
}

pub(super) fn bursting(wait_ns: u64) -> Found {
    bursts(wait_ns).found()
}

fn bursts(wait_ns: u64) -> Scene {
    let mut s = Scene::new();
    let sync = s.f.func("cudaDeviceSynchronize", Library::Runtime, Class::Sync);
    for i in 0..100 {
        let at = MS + i * (200 * 6_000 + wait_ns + 2_000);
        for k in 0..200 {
            s.f.call(at + k * 6_000, 0, s.main, s.launch, 5_000);
        }
        s.f.call(at + 200 * 6_000, 0, s.main, sync, wait_ns);
    }
    s.f.switch(900 * MS, 0, s.main, S, IDLE);
    s
}

const TO_DEVICE: u64 = 1;
const TO_HOST: u64 = 2;

fn copy(s: &mut Scene, at: u64, symbol: &str, bytes: u64, direction: u64, ns: u64) {
    let func = s.f.func(symbol, Library::Runtime, Class::Copy);
    let call = Call { bytes: Some(bytes), copy: Some(direction), ..returned(s.main, func, ns) };
    s.f.push(at, 0, call);
}

/// 16 MiB each 10 ms.
pub(super) fn copying(ns: u64) -> Found {
    let mut s = Scene::new();
    for i in 0..50 {
        copy(&mut s, MS + i * 10 * MS, "cudaMemcpy", 16 << 20, TO_DEVICE, ns);
    }
    s.f.switch(900 * MS, 0, s.main, S, IDLE);
    s.found()
}

#[test]
fn what_costs_the_time_comes_first() {
    for (kind, found) in [
        ("page-faults", faulting(1_200)),
        ("busy-main", faulting(20_000)),
        ("allocation-churn", churning(true)),
        ("graph-capture", capturing(true)),
        ("waits-too-often", waiting_behind(300_000)),
        ("launch-bound", bursting(5_000)),
    ] {
        assert_eq!((found[0].0, found[0].1), (kind, Severity::High), "{found:?}");
    }
    assert_eq!(waiting_behind(1_000), []);
    assert_eq!(bursting(900_000), []);
}

/// A sweep over sizes, each at its own rate: from pageable memory a copy takes its time on the thread that asks for it;
/// from pinned memory it returns at once, and the wait behind it takes the time.
fn sweep(pinned: bool) -> Found {
    let mut s = Scene::new();
    let sync = s.f.func("cudaStreamSynchronize", Library::Runtime, Class::Sync);
    let mut at = MS;
    for (shift, megabytes_per_s) in [(16, 2_000), (18, 4_000), (20, 7_000), (22, 9_000), (24, 9_500), (26, 10_000)] {
        let bytes = 1u64 << shift;
        let (copy_ns, wait_ns) = if pinned { (6_000, bytes / 50) } else { (bytes * 1_000 / megabytes_per_s, 5_000) };
        for _ in 0..((1 << 28) / bytes).clamp(4, 64) {
            copy(&mut s, at, "cudaMemcpyAsync", bytes, TO_DEVICE, copy_ns);
            s.f.call(at + copy_ns + 2_000, 0, s.main, sync, wait_ns);
            at += copy_ns + wait_ns + 5_000;
        }
    }
    s.f.switch(at, 0, s.main, S, IDLE);
    s.found()
}

#[test]
fn a_sweep_over_sizes_is_judged_by_each_large_copy() {
    let found = sweep(false);
    assert_eq!((found[0].0, found[0].1), ("pageable-copies", Severity::High), "{found:?}");
    assert!(!has(&sweep(true), "pageable-copies"));
}

/// Slow copies back to back, each burst with a wait that returns at once: their time is theirs, and no burst's.
#[test]
fn slow_copies_within_a_burst_are_told_once() {
    let mut s = Scene::new();
    let sync = s.f.func("cudaStreamSynchronize", Library::Runtime, Class::Sync);
    let (mut at, mut copied_ns) = (MS, 0);
    for _ in 0..10 {
        for _ in 0..20 {
            copy(&mut s, at, "cudaMemcpy", 16 << 20, TO_DEVICE, 6 * MS);
            at += 6 * MS + 5_000;
            copied_ns += 6 * MS;
        }
        s.f.call(at, 0, s.main, sync, 5_000);
        at += 8_000;
    }
    s.f.switch(at, 0, s.main, S, IDLE);
    let found = s.found();
    assert_eq!((found[0].0, found[0].1), ("pageable-copies", Severity::High), "{found:?}");
    let lost_ns: u64 = found.iter().map(|i| i.2).sum();
    assert!(lost_ns <= copied_ns + 2 * MS, "{lost_ns} of {copied_ns}: {found:?}");
}

#[test]
fn a_copy_to_the_host_that_waits_for_results_is_no_slow_copy() {
    let scene = |waits_before: bool| {
        let mut s = Scene::new();
        let sync = s.f.func("cudaStreamSynchronize", Library::Runtime, Class::Sync);
        for i in 0..50 {
            let at = MS + i * 10 * MS;
            s.f.call(at, 0, s.main, s.launch, 10_000);
            if waits_before {
                s.f.call(at + 20_000, 0, s.main, sync, 1_000_000);
            }
            copy(&mut s, at + 1_030_000, "cudaMemcpyAsync", 4 << 20, TO_HOST, 2 * MS);
        }
        s.f.switch(900 * MS, 0, s.main, S, IDLE);
        s.found()
    };
    assert!(!has(&scene(false), "pageable-copies"));
    assert!(has(&scene(true), "pageable-copies"));
}

/// Steps of many launches; in each a cache is emptied and filled again, which takes a quarter of the step.
#[test]
fn a_cache_that_is_emptied_in_each_step_is_churn_however_many_launches_there_are() {
    let scene = |blocks: u64| {
        let mut s = Scene::new();
        let malloc = s.f.func("cudaMalloc", Library::Runtime, Class::Alloc);
        let free = s.f.func("cudaFree", Library::Runtime, Class::Free);
        let mut at = MS;
        for _ in 0..200 {
            for _ in 0..200 {
                s.f.call(at, 0, s.main, s.launch, 8_000);
                at += 10_000;
            }
            for _ in 0..blocks {
                s.f.call(at, 0, s.main, free, 70_000);
                s.f.call(at + 75_000, 0, s.main, malloc, 30_000);
                at += 110_000;
            }
        }
        s.f.switch(at, 0, s.main, S, IDLE);
        s.found()
    };
    let found = scene(6);
    assert_eq!((found[0].0, found[0].1), ("allocation-churn", Severity::High), "{found:?}");
    assert!(!has(&scene(0), "allocation-churn"));
}

/// What a stream orders waits for no device, and whoever does that already is not advised to.
#[test]
fn a_release_that_a_stream_orders_is_not_said_to_wait() {
    let cause = |symbols: &'static [&'static str]| {
        let s = Scene::new().steps(move |s, at| {
            for (n, symbol) in (0..).zip(symbols) {
                let class = if symbol.contains("Free") { Class::Free } else { Class::Alloc };
                let func = s.f.func(symbol, Library::Runtime, class);
                s.f.call(at + n * 5 * MS, 0, s.main, func, 4 * MS);
            }
        });
        let trace = s.f.finish();
        let a = Analysis::new(&trace, Window::whole(&trace));
        let churn = a.incidents.iter().find(|i| i.kind == "allocation-churn").unwrap();
        (churn.root_cause.clone(), churn.recommendations.join("; "))
    };
    let (waiting, advice) = cause(&["cudaMalloc", "cudaFree"]);
    assert!(
        waiting.contains("; each release waits until the device") && advice.contains("cudaFreeAsync"),
        "{waiting}: {advice}"
    );
    let (ordered, advice) = cause(&["cudaMallocAsync", "cudaFreeAsync"]);
    assert!(!ordered.contains("waits") && !advice.contains("cudaFreeAsync"), "{ordered}: {advice}");
    let (mixed, _) = cause(&["cudaMalloc", "cudaFree", "cudaFreeAsync"]);
    assert!(mixed.contains("each release that no stream orders waits"), "{mixed}");
}

/// At the end of a run all that was allocated is freed, at once.
#[test]
fn what_is_freed_at_the_end_is_no_churn() {
    let mut s = Scene::new().steps(|_, _| {});
    let free = s.f.func("cudaFree", Library::Runtime, Class::Free);
    for i in 0..100 {
        s.f.call(STEPS * PERIOD + i * MS, 0, s.main, free, MS - 10);
    }
    s.f.switch(STEPS * PERIOD + 101 * MS, 0, s.main, S, IDLE);
    assert!(!has(&s.found(), "allocation-churn"));
}

/// Between steps data is prepared, within them the model is walked through: what helps is another thing.
#[test]
fn what_helps_a_busy_main_thread_hangs_on_where_it_is_busy() {
    let advice = |pause_ns: u64| {
        let mut s = Scene::new();
        s.f.push(20, 0, ingero_format::catalog::Exit { task: s.worker, group_dead: Some(1) });
        for i in 0..2_000 {
            s.f.call(MS + i * (pause_ns + 10_000), 0, s.main, s.launch, 10_000);
        }
        s.f.switch(2 * MS + 2_000 * (pause_ns + 10_000), 0, s.main, S, IDLE);
        let trace = s.f.finish();
        let found = Analysis::new(&trace, Window::whole(&trace)).incidents;
        let busy = found.iter().find(|i| i.kind == "busy-main").unwrap();
        busy.recommendations.join("; ")
    };
    let (within, between) = (advice(300_000), advice(3 * MS));
    assert!(within.contains("CUDA graphs") && !within.contains("num_workers"), "{within}");
    assert!(between.contains("num_workers") && !between.contains("CUDA graphs"), "{between}");
}

/// What is lost beyond the gaps is lost in time in which the GPU counts as fed, and the first line says so.
#[test]
fn what_is_lost_while_the_gpu_counts_as_fed_is_told_so() {
    let [_, cause, verdict] = bursts(5_000).told("launch-bound");
    assert!(verdict.starts_with("GPU fed at most 83 % of the time by train (10); "), "{verdict}");
    assert!(
        verdict.contains("; up to 120 ms lost to launching kernels one by one, 100 ms of it counted as fed"),
        "{verdict}"
    );
    assert!(
        cause.contains(
            "; 100 ms of the lost time counts as time in which the GPU was fed: its host was in the launches"
        ),
        "{cause}"
    );
    // Nothing of what a busy thread loses is.
    let [_, cause, verdict] = Scene::new().steps(|_, _| {}).told("busy-main");
    assert!(verdict.starts_with("GPU fed less than 1 % of the time by train (10); 580 ms lost to "), "{verdict}");
    assert!(!cause.contains("counts as"), "{cause}");
}

/// A short gap is no loss by itself, but for one behind a wait; then both are told.
#[test]
fn short_gaps_behind_waits_are_told_apart() {
    let part = "lies in gaps below 50 us, which count here, for behind a wait nothing is queued";
    let [summary, cause, _] = waits_behind(30_000).told("waits-too-often");
    assert!(
        summary.contains("lost 30.0 ms") && cause.contains(&format!("; 30.0 ms of it {part}")),
        "{summary}: {cause}"
    );
    let [_, cause, _] = waits_behind(300_000).told("waits-too-often");
    assert!(!cause.contains(part), "{cause}");
}

/// Steps in which the main thread computes, and calls these functions for so long each.
fn computing(calls: &'static [(&'static str, Class)], ns: u64) -> Scene {
    Scene::new().steps(move |s, at| {
        for (n, &(symbol, class)) in (0..).zip(calls) {
            let func = s.f.func(symbol, Library::Runtime, class);
            s.f.call(at + n * 5 * MS, 0, s.main, func, ns);
        }
    })
}

const MALLOC: (&str, Class) = ("cudaMalloc", Class::Alloc);
const FREE: (&str, Class) = ("cudaFree", Class::Free);
const MAKE: (&str, Class) = ("cudaGraphInstantiate", Class::Graph);

/// What a busy thread ran is more than what is lost to that where it allocates in its loop: the cause says what is left out.
#[test]
fn what_a_busy_thread_ran_elsewhere_is_told_with_its_cause() {
    let [summary, cause, _] = computing(&[MALLOC, FREE, MAKE], 2 * MS).told("busy-main");
    assert!(summary.contains("lost 413 ms") && cause.contains("ran for 593 ms"), "{summary}: {cause}");
    assert!(
        cause.ends_with(
            "; of what it ran, 120 ms allocating and releasing memory and 60.0 ms making graphs are not counted here"
        ),
        "{cause}"
    );
    let [summary, cause, _] = computing(&[], 0).told("busy-main");
    assert!(summary.contains("lost 580 ms") && !cause.contains("not counted"), "{summary}: {cause}");
}

/// Where calls are too few for a rule of their own, their time is somebody's all the same.
#[test]
fn what_no_rule_tells_of_calls_is_part_of_what_is_left() {
    let sums = |calls: &'static [(&'static str, Class)], ns: u64| {
        let found = computing(calls, ns).found();
        let of = |kind: &str| found.iter().find(|i| i.0 == kind).map_or(0, |i| i.2);
        (of("busy-main"), of("allocation-churn"), of("graph-capture"))
    };
    let (whole, ..) = sums(&[], 0);
    // The last step's call comes behind the last submission: up to its end is a gap, too.
    let ended = 5 * MS - 10_000;
    // Allocations without a release are no churn.
    let (busy, churn, graphs) = sums(&[MALLOC], 4 * MS);
    assert_eq!((busy, churn, graphs), (whole + ended, 0, 0));
    let [_, cause, _] = computing(&[MALLOC], 4 * MS).told("busy-main");
    assert!(cause.ends_with("; 120 ms of it in calls that allocate, release or make graphs"), "{cause}");
    // Where they are, all of it is told once.
    let (busy, churn, graphs) = sums(&[MALLOC, FREE, MAKE], 2 * MS);
    assert_eq!(churn, STEPS * 4 * MS);
    assert_eq!(graphs, STEPS * 2 * MS);
    let (one, ..) = sums(&[MALLOC, MALLOC, MALLOC], 2 * MS);
    assert_eq!(busy + churn + graphs, one);
}

/// A release that waits for another thread of the process, which runs meanwhile: that is told of the thread, and once.
#[test]
fn what_a_release_waits_for_another_thread_is_told_there() {
    let mut s = Scene::new();
    let helper = s.f.task(10, 11);
    let found = s
        .steps(|s, at| {
            let free = s.f.func("cudaFree", Library::Runtime, Class::Free);
            s.f.call(at, 0, s.main, free, 18 * MS);
            s.out(at + 1_000, 0, s.main, S, FUTEX, helper);
            s.f.waking(at + 17 * MS - 1_000, 0, helper, s.main, 0);
            s.out(at + 17 * MS, 0, helper, S, FUTEX, s.main);
        })
        .found();
    let of = |kind: &str| found.iter().find(|i| i.0 == kind).map_or(0, |i| i.2);
    assert!(of("hand-over") > (STEPS - 1) * 16 * MS, "{found:?}");
    assert!(of("allocation-churn") < (STEPS - 1) * 2 * MS, "{found:?}");
    assert!(found.iter().map(|i| i.2).sum::<u64>() <= STEPS * PERIOD, "{found:?}");
}

/// What a thread that makes a graph stands in line for is told of whoever has its CPU, and of nobody else.
#[test]
fn a_graph_that_is_made_without_a_cpu_is_told_once() {
    let mut s = Scene::new();
    let hog = s.f.task(99, 99);
    let found = s
        .steps(|s, at| {
            let make = s.f.func("cudaGraphInstantiate", Library::Graph, Class::Graph);
            s.f.call(at, 0, s.main, make, 18 * MS);
            s.f.switch(at + MS, 0, s.main, PREEMPTED, hog);
            s.f.switch(at + 11 * MS, 0, hog, PREEMPTED, s.main);
        })
        .found();
    let of = |kind: &str| found.iter().find(|i| i.0 == kind).map_or(0, |i| i.2);
    assert_eq!((of("cpu-contention"), of("graph-capture")), (STEPS * 10 * MS, STEPS * 8 * MS), "{found:?}");
}

/// Launches back to back with a wait behind each burst that returns at once: for the stream that they go to, for another one, for an event
/// behind them, or for one that was recorded before them.
fn bursts_before(waits_for: &str) -> Found {
    let mut s = Scene::new();
    let sync = s.f.func("cudaStreamSynchronize", Library::Runtime, Class::Sync);
    let sync_event = s.f.func("cudaEventSynchronize", Library::Runtime, Class::Sync);
    let record = s.f.func("cudaEventRecord", Library::Runtime, Class::Event);
    let (own, event) = (Some(7), Some(0x5000));
    for i in 0..100 {
        let at = MS + i * (200 * 6_000 + 20_000);
        let mut call = |at: u64, func, ptr, stream, ns| {
            s.f.push(at, 0, Call { ptr, stream, ..returned(s.main, func, ns) });
        };
        if waits_for == "an older event" {
            call(at - 2_000, record, event, own, 500);
        }
        for k in 0..200 {
            call(at + k * 6_000, s.launch, Some(1), own, 5_000);
        }
        let at = at + 200 * 6_000;
        match waits_for {
            "its stream" => call(at + 2_000, sync, None, own, 5_000),
            "another stream" => call(at + 2_000, sync, None, Some(9), 5_000),
            "an event" => {
                call(at, record, event, own, 500);
                call(at + 2_000, sync_event, event, None, 5_000);
            }
            _ => call(at + 2_000, sync_event, event, None, 5_000),
        }
    }
    s.f.switch(900 * MS, 0, s.main, S, IDLE);
    s.found()
}

#[test]
fn a_wait_for_something_else_shows_no_device_that_is_done() {
    for (waits_for, shows) in
        [("its stream", true), ("an event", true), ("another stream", false), ("an older event", false)]
    {
        let found = bursts_before(waits_for);
        assert_eq!(has(&found, "launch-bound"), shows, "{waits_for}: {found:?}");
    }
}
