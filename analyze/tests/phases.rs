//! Phases on made-up streams: what comes before a process is under way stands apart, and nothing else does.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use ingero_analyze::{Analysis, report};
use ingero_format::Trace;
use ingero_format::catalog::{Call, Class, Exit, Fork, FuncId, Layer, TaskId};
use ingero_replay::Window;
use ingero_replay::fixture::{Fixture, returned};

const MS: u64 = 1_000_000;
const IDLE: TaskId = TaskId(0);

struct Run {
    f: Fixture,
    main: TaskId,
    launch: FuncId,
    at: u64,
}

impl Run {
    /// A process that a shell starts at 1 ms, or that was there before.
    fn new(born: bool) -> Self {
        let mut f = Fixture::new();
        let (shell, main) = (f.task(5, 5), f.task(10, 10));
        let launch = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
        f.switch(0, 1, IDLE, 0, shell);
        if born {
            f.push(MS, 1, Fork { parent: shell, child: main });
        }
        f.switch(2 * MS, 0, IDLE, 0, main);
        Self { f, main, launch, at: 3 * MS }
    }

    fn call(&mut self, symbol: &str, class: Class, ns: u64) {
        let func = self.f.func(symbol, Layer::Runtime, class);
        self.f.call(self.at, 0, self.main, func, ns);
        self.at += ns;
    }

    /// Launches a kernel by its address.
    fn launch(&mut self, kernel: u64, ns: u64) {
        let call = Call { ptr: Some(kernel), ..returned(self.main, self.launch, ns) };
        self.f.push(self.at, 0, call);
        self.at += ns;
    }

    fn finish(mut self) -> Trace {
        self.f.switch(self.at + MS, 0, self.main, 1, IDLE);
        self.f.finish()
    }

    /// The process exits, and with it all of its threads.
    fn exit(mut self) -> Trace {
        self.f.switch(self.at + MS, 0, self.main, 0, IDLE);
        self.f.push(self.at + 2 * MS, 0, Exit { task: self.main, group_dead: Some(1) });
        self.f.finish()
    }

    /// An import, then a first step in which each kernel's code is loaded, then steps of short launches.
    fn training(born: bool) -> Self {
        let mut r = Self::new(born);
        r.call("cudaGetDeviceCount", Class::Other, 10_000);
        r.at += 3_000 * MS;
        r.call("cudaMalloc", Class::Alloc, 200 * MS);
        for kernel in 0..20 {
            r.at += 40 * MS;
            r.launch(kernel, 20 * MS);
        }
        r.at += 5_000;
        for _ in 0..500 {
            for kernel in 0..20 {
                r.launch(kernel, 5_000);
                r.at += 5_000;
            }
        }
        r
    }
}

fn phases(trace: &Trace) -> Vec<(bool, u64, u64)> {
    let a = Analysis::new(trace, Window::whole(trace));
    a.phases.iter().map(|p| (p.phase.warm_up, p.phase.len_ns() / MS, p.phase.submissions)).collect()
}

#[test]
fn imports_and_first_kernels_are_warm_up() {
    let trace = Run::training(true).finish();
    let a = Analysis::new(&trace, Window::whole(&trace));
    assert_eq!(phases(&trace), [(true, 3_000 + 200 + 20 * 60, 20), (false, 100, 10_000)]);
    // It is no cause of anything, and the last to be told of.
    assert!(a.incidents.iter().all(|i| i.phase == 1), "{:?}", a.incidents);
    let text = report::text(&a, &report::Options::default());
    assert!(text.lines().next().unwrap().contains("phase 1"), "{text}");
}

/// Of a process that was there before nobody knows what it does for the first time: what is new in the recording is no
/// warm-up.
#[test]
fn a_process_that_ran_before_is_under_way() {
    let found = phases(&Run::training(false).finish());
    assert!(found.iter().all(|(warm_up, len, _)| !warm_up || *len < 4_400), "{found:?}");
}

/// A process that builds its model, imports a library for seconds and goes on with calls that it knows.
fn imports_late(pauses: &[u64]) -> Trace {
    let mut r = Run::new(true);
    (0..6).for_each(|_| r.launch(0, 10_000));
    for step in 0..300 {
        r.at += pauses.get(step).copied().unwrap_or(20 * MS);
        (0..10).for_each(|_| r.launch(0, 10_000));
    }
    r.finish()
}

#[test]
fn a_pause_among_the_first_submissions_like_none_later_is_warm_up() {
    let trace = imports_late(&[4_000 * MS]);
    let found = phases(&trace);
    assert!(matches!(found[..], [(true, 4_000.., 6..=16), (false, ..)]), "{found:?}");
    let a = Analysis::new(&trace, Window::whole(&trace));
    assert!(a.incidents.iter().all(|i| i.phase == 1), "{:?}", a.incidents);
    // Wherever a range ends, and if little of what is usual lies in it.
    let found = phases_to(&trace, 0, 4_100 * MS);
    assert!(matches!(found[..], [(true, 4_000.., 6..=16)] | [(true, 4_000.., 6..=16), (false, ..)]), "{found:?}");
}

/// The first batch of workers takes long, and what it is copied with is called for the first time: a wait for workers, all
/// the same, of which there is something to be said.
#[test]
fn the_wait_for_the_first_batch_of_workers_is_no_warm_up() {
    let mut r = Run::new(true);
    (0..6).for_each(|_| r.launch(0, 10_000));
    for worker in 0..4 {
        let child = r.f.task(20 + worker, 20 + worker);
        r.f.push(r.at, 0, Fork { parent: r.main, child });
    }
    r.at += 5_000 * MS;
    for batch in 0..14 {
        (0..6).for_each(|kernel| r.launch(100 + kernel, 10_000));
        r.at += if batch == 6 { 3_000 * MS } else { 700 * MS };
    }
    let found = phases(&r.finish());
    assert!(found.iter().all(|(warm_up, len, _)| !warm_up || *len < 1_000), "{found:?}");
}

/// As long a pause comes again: that is how the run goes.
#[test]
fn a_pause_that_comes_again_is_no_warm_up() {
    let mut pauses = vec![20 * MS; 200];
    (pauses[0], pauses[100], pauses[150]) = (4_000 * MS, 4_000 * MS, 3_000 * MS);
    let found = phases(&imports_late(&pauses));
    assert!(found.iter().all(|(warm_up, len, _)| !warm_up || *len < 4_000), "{found:?}");
}

/// Where pauses of a step's length are rare, a stretch without one is chance and no behaviour of its own.
#[test]
fn a_loop_of_one_rate_is_one_phase() {
    let mut r = Run::new(true);
    for launch in 0..60_000 {
        r.launch(0, 10_000);
        let rare = launch % 20_000 < 6_000 && launch % 300 == 0;
        r.at += if rare { 1_100_000 } else { 60_000 };
    }
    let found = phases(&r.finish());
    assert_eq!(found.iter().filter(|(warm_up, ..)| !warm_up).count(), 1, "{found:?}");
}

/// Long steps that do nothing for the first time are how the run is, not how it begins.
#[test]
fn slow_steps_that_recur_are_no_warm_up() {
    let mut r = Run::new(true);
    for step in 0..100 {
        let (pause, kernel) = if step < 10 { (400 * MS, 1) } else { (20 * MS, 1) };
        r.launch(kernel, 10_000);
        r.at += pause;
    }
    let found = phases(&r.finish());
    assert!(found.iter().all(|(warm_up, len, _)| !warm_up || *len < 500), "{found:?}");
}

/// A kernel that comes late, as an evaluation begins, does not make warm-up of what was before.
#[test]
fn a_new_kernel_later_on_is_no_warm_up() {
    let mut r = Run::new(true);
    r.call("cudaGetDeviceCount", Class::Other, 10_000);
    r.at += 5 * MS;
    for step in 0..400 {
        r.launch(1, 10_000);
        r.at += 5 * MS;
        if step == 80 {
            r.launch(2, 60 * MS);
        }
    }
    let found = phases(&r.finish());
    assert_eq!(found.len(), 1, "{found:?}");
}

/// Direct loading, and then four workers whose batches take as long as the first kernels' code took before.
fn with_workers_later() -> Trace {
    let mut r = Run::new(true);
    r.call("cudaGetDeviceCount", Class::Other, 10_000);
    (0..6).for_each(|_| r.launch(0, 10_000));
    for (kernel, pause) in [(1, 140 * MS), (2, 30 * MS)] {
        r.at += pause;
        r.launch(kernel, MS);
    }
    for _ in 0..90 {
        r.at += 5_000;
        r.launch(0, 3 * MS);
    }
    for worker in 0..4 {
        let child = r.f.task(20 + worker, 20 + worker);
        r.f.push(r.at, 0, Fork { parent: r.main, child });
    }
    r.at += 2_000 * MS;
    for _ in 0..12 {
        (0..20).for_each(|kernel| r.launch(kernel, 5 * MS));
        r.at += 350 * MS;
    }
    r.finish()
}

fn phases_to(trace: &Trace, from_ns: u64, to_ns: u64) -> Vec<(bool, u64, u64)> {
    let a = Analysis::new(trace, Window { from_ns, to_ns, ..Window::whole(trace) });
    a.phases.iter().map(|p| (p.phase.warm_up, p.phase.len_ns() / MS, p.phase.submissions)).collect()
}

/// What a process waits for its workers later says nothing about what it did before it had any.
#[test]
fn first_kernels_are_warm_up_though_waits_for_workers_take_as_long() {
    let trace = with_workers_later();
    let found = phases(&trace);
    assert!(matches!(found[..], [(true, 172, 8), (false, 270, 90), (false, _, 240)]), "{found:?}");
    let a = Analysis::new(&trace, Window::whole(&trace));
    assert!(a.incidents.iter().all(|i| i.phase == 2 || i.kind != "busy-main"), "{:?}", a.incidents);
}

/// What is start-up does not hang on where the range ends.
#[test]
fn the_end_of_the_range_does_not_change_the_start_up() {
    let trace = with_workers_later();
    for to_ms in [400, 3_000, 5_000] {
        let found = phases_to(&trace, 0, to_ms * MS);
        assert_eq!(found.first(), Some(&(true, 172, 8)), "to {to_ms} ms: {found:?}");
    }
    // Where it ends within the start-up there is nothing else.
    for to_ms in [160, 176] {
        let found = phases_to(&trace, 0, to_ms * MS);
        assert!(matches!(found[..], [(true, ..)]), "to {to_ms} ms: {found:?}");
    }
}

/// A range that begins when the process is under way has calls that come first in it, and nothing that is new.
#[test]
fn a_range_that_begins_later_has_no_start_up() {
    let trace = with_workers_later();
    for from_ms in [300, 3_000, 4_000] {
        let found = phases_to(&trace, from_ms * MS, u64::MAX);
        assert!(found.iter().all(|(warm_up, ..)| !warm_up), "from {from_ms} ms: {found:?}");
    }
}

/// Each share of the time within a range, to the instant: gaps are clipped to it, and never absent.
#[test]
fn a_range_has_what_the_whole_has_of_it() {
    for made in [true, false] {
        let mut r = Run::new(made);
        r.call("cudaGetDeviceCount", Class::Other, 10_000);
        for _ in 0..20 {
            r.at += 300 * MS;
            (0..10).for_each(|_| r.launch(0, 10 * MS));
            r.call("cudaDeviceSynchronize", Class::Sync, 50 * MS);
        }
        let trace = r.finish();
        let whole = Analysis::new(&trace, Window::whole(&trace));
        // From the second step on, in stretches that begin and end anywhere in a step, and within one gap.
        for (from_ms, to_ms) in
            [(900, 1_500), (800, 810), (1_000, 5_000), (1_234, 1_767), (2_000, 2_001), (4_444, 4_999)]
        {
            let (from, to) = (from_ms * MS, to_ms * MS);
            let a = Analysis::new(&trace, Window { from_ns: from, to_ns: to, ..Window::whole(&trace) });
            let gaps: Vec<_> = a.phases.iter().flat_map(|p| &p.phase.gaps).map(|g| (g.start_ns, g.end_ns)).collect();
            let of_whole = whole.phases.iter().flat_map(|p| p.phase.gaps_within(from, to)).map(|(_, a, b)| (a, b));
            assert_eq!(gaps, of_whole.collect::<Vec<_>>(), "{made}: {from_ms} to {to_ms}");
            let lasted: u64 = a.phases.iter().map(|p| p.phase.len_ns()).sum();
            assert!(
                a.phases.is_empty() == gaps.is_empty() || lasted >= to - from,
                "{made}: {lasted} of {from_ms} to {to_ms}"
            );
            let chained =
                |p: &ingero_analyze::PhaseFigures| p.chains.roots().map(|(at, _)| p.chains.total_ns(at)).sum::<u64>();
            assert!(a.phases.iter().all(|p| chained(p) == p.lost_gaps_ns()));
        }
    }
}

/// A process that was there before the recording asks for memory and waits long for what it submits; at the end it does so again.
#[test]
fn what_nothing_is_submitted_in_is_not_fed_at_the_ends_either() {
    let mut r = Run::new(false);
    r.call("cudaMalloc", Class::Alloc, 10_000);
    r.at += 1_000 * MS;
    (0..50).for_each(|_| r.launch(0, MS));
    r.at += 2_000 * MS;
    r.call("cudaFree", Class::Free, 10_000);
    let trace = r.finish();
    let a = Analysis::new(&trace, Window::whole(&trace));
    let gaps: u64 = a.phases.iter().map(|p| p.phase.gaps_ns()).sum();
    assert!((3_000 * MS..3_001 * MS).contains(&gaps), "{gaps} in {:?}", a.phases);
}

/// A process that starts its workers in the pause after its first submissions, which take 200 ms of 15 s.
fn soon_with_workers(kernels: bool) -> Trace {
    let mut r = Run::new(true);
    r.call("cudaGetDeviceCount", Class::Other, 10_000);
    for step in 0..10 {
        r.at += 10 * MS;
        // Each loads its kernel's code, or all but the first are like any other.
        let (kernel, ns) = if kernels { (step, 10 * MS) } else { (0, 10_000) };
        r.launch(kernel, ns);
    }
    r.at += 200 * MS;
    for worker in 0..2 {
        let child = r.f.task(20 + worker, 20 + worker);
        r.f.push(r.at, 0, Fork { parent: r.main, child });
    }
    r.at += 200 * MS;
    for _ in 0..50 {
        r.launch(0, 10_000);
        r.at += 300 * MS;
    }
    r.finish()
}

/// The first phase ends with its workers' begin and is shorter than any that would be parted: where it is what the
/// process does for the first time, it is warm-up all the same.
#[test]
fn a_short_first_phase_of_first_kernels_is_warm_up() {
    let (new, usual) = (phases(&soon_with_workers(true)), phases(&soon_with_workers(false)));
    assert!(matches!(new[..], [(true, 200, 10), (false, ..)]), "{new:?}");
    assert!(usual.iter().all(|(warm_up, ..)| !warm_up), "{usual:?}");
}

/// Launches back to back, each so long after the last one.
fn back_to_back(apart_ns: impl Fn(u64) -> u64) -> Trace {
    let mut r = Run::new(false);
    for launch in 0..20_000 {
        r.launch(0, 5_000);
        r.at += apart_ns(launch);
    }
    r.finish()
}

/// Where no pause is as long as a step's, the rate of submissions alone tells that it has become another.
#[test]
fn a_lasting_change_of_the_rate_is_a_boundary() {
    let trace = back_to_back(|launch| if launch < 12_000 { 20_000 } else { 120_000 });
    let a = Analysis::new(&trace, Window::whole(&trace));
    let found: Vec<_> = a.phases.iter().map(|p| (p.phase.start_ns, p.phase.submissions)).collect();
    // The first pause of the slower part is the one behind the launch with this number.
    assert_eq!(found, [(3 * MS, 12_001), (3 * MS + 12_001 * 25_000 - 20_000, 7_999)]);
    // As far as that is threefold, whatever long pause there is.
    assert_eq!(phases(&back_to_back(|launch| if launch < 12_000 { 20_000 } else { 60_000 })).len(), 1);
    let paused = |launch| if launch % 5_000 == 4_999 { 400 * MS } else { 20_000 };
    assert_eq!(phases(&back_to_back(paused)).len(), 1);
}

/// What changes within each step is one behaviour.
#[test]
fn rates_that_alternate_are_one_phase() {
    let found = phases(&back_to_back(|launch| if launch / 250 % 2 == 0 { 10_000 } else { 200_000 }));
    assert_eq!(found.len(), 1, "{found:?}");
}

/// The first kernel's code is loaded for as long as half a step takes: warm-up, whatever steps take.
#[test]
fn the_first_kernel_is_warm_up_among_long_steps() {
    let run = |workers: u32| {
        let mut r = Run::new(true);
        r.call("cudaGetDeviceCount", Class::Other, 10_000);
        for worker in 0..workers {
            let child = r.f.task(20 + worker, 20 + worker);
            r.f.push(r.at, 0, Fork { parent: r.main, child });
        }
        r.at += 300 * MS;
        let copy = r.f.func("cudaMemcpyAsync", Layer::Runtime, Class::Copy);
        for step in 0..30 {
            if step > 0 {
                r.at += 200 * MS;
            }
            let call = Call { copy: Some(1), ..returned(r.main, copy, 10_000) };
            r.f.push(r.at, 0, call);
            r.at += if step == 0 { 112 * MS } else { 10_000 };
            r.launch(1, MS);
        }
        phases(&r.finish())
    };
    // All until the first kernel has been launched, and 29 steps.
    assert_eq!(run(0), [(true, 413, 2), (false, 5_829, 58)]);
    // With workers it may be their first batch that it comes after.
    assert!(run(2).iter().all(|(warm_up, len, _)| !warm_up || *len < 400), "{:?}", run(2));
}

/// The first of the steps has no pause before it, and is no rhythm of its own.
#[test]
fn a_steady_loop_is_one_phase_from_its_first_submission_on() {
    for born in [true, false] {
        let mut r = Run::new(born);
        for _ in 0..300 {
            r.launch(0, 10_000);
            r.at += 7 * MS;
        }
        let found = phases(&r.finish());
        assert!(matches!(found[..], [(false, _, 300)]), "{found:?}");
    }
}

/// Training and evaluation in turns: each stretch is a phase, whether its pauses are those of steps or not.
#[test]
fn stretches_that_come_again_are_phases() {
    let rates = phases(&back_to_back(|launch| if launch / 2_500 % 2 == 0 { 100_000 } else { 900_000 }));
    assert_eq!(rates.len(), 8, "{rates:?}");
    for (at, (_, len_ms, submissions)) in rates.iter().enumerate() {
        let expected_ms = if at % 2 == 0 { 262 } else { 2_262 };
        assert!(len_ms.abs_diff(expected_ms) <= 5 && submissions.abs_diff(2_500) <= 5, "{at}: {rates:?}");
    }
    let steps = |train: u64| {
        let mut r = Run::new(false);
        for _ in 0..4 {
            for (steps, pause_ms) in [(train, 4), (20, 50)] {
                for _ in 0..steps {
                    (0..20).for_each(|_| r.launch(0, 10_000));
                    r.at += pause_ms * MS;
                }
            }
        }
        phases(&r.finish())
    };
    assert_eq!(steps(100).len(), 8, "{:?}", steps(100));
    // Three steps in a row are none.
    assert_eq!(steps(3).len(), 1, "{:?}", steps(3));
}

/// What a process calls after its last submission asks for nothing: it comes to its end, and feeds no GPU.
#[test]
fn what_comes_after_the_last_submission_is_not_fed() {
    let mut r = Run::new(true);
    for _ in 0..200 {
        r.launch(0, 10_000);
        r.at += 3 * MS;
    }
    r.at += 2_400 * MS;
    r.call("cudaFree", Class::Free, 10_000);
    let trace = r.exit();
    let a = Analysis::new(&trace, Window::whole(&trace));
    let found: Vec<_> = a.phases.iter().map(|p| (p.phase.len_ns() / MS, p.phase.submissions)).collect();
    assert_eq!(found, [(599, 200), (2_403, 0)]);
    assert!(a.phases[0].starved_share().unwrap() > 0.9);
    assert!(a.phases[1].silence.is_some() && a.phases[1].phase.gaps.is_empty());
    let text = report::text(&a, &report::Options::default());
    assert!(text.contains("submitted nothing to a GPU"), "{text}");
}

/// Nor is an end that is too short for a phase of its own.
#[test]
fn a_short_end_is_not_fed_either() {
    let share = |end_ns: u64| {
        let mut r = Run::new(true);
        for _ in 0..200 {
            r.launch(0, 2 * MS);
            r.at += 3 * MS;
        }
        r.at -= 3 * MS;
        r.call("cudaFree", Class::Free, end_ns);
        let trace = r.exit();
        let a = Analysis::new(&trace, Window::whole(&trace));
        let p = a.phases.iter().find(|p| !p.phase.warm_up).unwrap();
        let json: serde_json::Value = serde_json::from_str(&report::json(&a, &[]).unwrap()).unwrap();
        assert_eq!(json["phases"][p.number]["gaps"]["share"].as_f64(), p.starved_share());
        assert_eq!(json["phases"][p.number]["asked_ns"].as_u64(), Some(p.phase.asked_ns()));
        let text = report::text(&a, &report::Options::default()).split_whitespace().collect::<Vec<_>>().join(" ");
        let told = text.contains("; the last 15.0 ms are the end of the process, and count for nothing");
        assert_eq!(told, end_ns == 15 * MS, "{text}");
        (a.phases.len(), p.phase.len_ns(), p.starved_share().unwrap())
    };
    let (short, long) = (share(10), share(15 * MS));
    assert_eq!((long.0, long.1), (short.0, short.1 + 15 * MS - 10));
    assert!((short.2 - long.2).abs() < 1e-6, "{short:?} {long:?}");
}

/// Whoever starts up feeds no GPU, however few gaps there are.
#[test]
fn a_start_up_is_not_told_as_fed() {
    let mut r = Run::new(true);
    r.call("cudaMalloc", Class::Alloc, 10_000);
    r.at += 3_000 * MS;
    let mut late = Run::new(true);
    late.call("cudaMalloc", Class::Alloc, 10_000);
    late.at += 3_000 * MS;
    late.launch(0, 10_000);
    for _ in 0..500 {
        r.launch(0, 10_000);
        r.at += 2 * MS;
    }
    for (r, submissions) in [(r, "submission"), (late, "1 submission in the start-up")] {
        let trace = r.finish();
        let a = Analysis::new(&trace, Window::whole(&trace));
        assert!(a.phases[0].phase.warm_up && a.phases[0].phase.len_ns() >= 3_000 * MS, "{:?}", a.phases);
        assert_eq!(a.phases[0].starved_share(), None);
        let text = report::text(&a, &report::Options::default());
        assert!(text.contains(submissions) && text.contains("start-up of"), "{text}");
        assert!(!text.contains("GPU fed 100 %") && !text.contains("more than 99 %"), "{text}");
    }
}

/// What comes before the first submission of a short process is told as its start-up, and not as fed, though all that it does is done
/// for the first time.
#[test]
fn the_head_of_a_short_process_is_not_fed() {
    let mut r = Run::new(true);
    r.call("cudaMalloc", Class::Alloc, 10_000);
    r.at += 50 * MS;
    r.launch(0, 60 * MS);
    assert_eq!(phases(&r.finish()), [(true, 50, 0), (false, 60, 1)]);
}

/// A process ends with its last thread: one of whose threads ended is there still, and what comes after its last submission may be
/// before the next one.
#[test]
fn a_thread_that_ends_ends_no_process() {
    let run = |group_dead| {
        let mut r = Run::new(true);
        let helper = r.f.task(10, 11);
        for _ in 0..200 {
            r.launch(0, 10_000);
            r.at += 3 * MS;
        }
        r.f.push(r.at, 1, Exit { task: helper, group_dead });
        r.at += 2_400 * MS;
        r.call("cudaFree", Class::Free, 10_000);
        phases(&r.finish())
    };
    assert_eq!(run(Some(0)), [(false, 3_002, 200)]);
    assert_eq!(run(None), [(false, 3_002, 200)]);
    assert_eq!(run(Some(1)), [(false, 599, 200), (false, 2_403, 0)]);
}

/// Steps of 20 launches, a pause of 5 ms and a wait of 30 ms for the device each.
fn waiting_steps() -> Trace {
    let mut r = Run::new(false);
    for _ in 0..40 {
        for kernel in 0..20 {
            r.launch(kernel, 100_000);
        }
        r.call("cudaDeviceSynchronize", Class::Sync, 30 * MS);
        r.at += 5 * MS;
    }
    r.finish()
}

/// A range that begins in a wait for the device and in which nothing is submitted: the device is busy up to the wait's end, and not asked
/// for anything behind it.
#[test]
fn a_wait_that_a_range_begins_in_is_no_silence() {
    let mut r = Run::new(true);
    for kernel in 0..40 {
        r.launch(kernel % 4, 100_000);
    }
    let waits_ns = r.at;
    r.call("cudaDeviceSynchronize", Class::Sync, 2_000 * MS);
    r.at += 1_000 * MS;
    let trace = r.finish();
    let from_ns = waits_ns + 500 * MS;
    let a = Analysis::new(&trace, Window { from_ns, ..Window::whole(&trace) });
    let told: Vec<_> = a.phases.iter().map(|p| (p.phase.within_call, p.phase.len_ns() / MS)).collect();
    assert_eq!(told, [(true, 1_500), (false, 1_001)]);
}

#[test]
fn no_phase_goes_beyond_its_range() {
    let trace = waiting_steps();
    let (start_ns, end_ns) = trace.span_ns().unwrap();
    for at in 1..60 {
        let (from_ns, to_ns) = (start_ns + at * 7 * MS, start_ns + at * 7 * MS + 111 * MS);
        let a = Analysis::new(&trace, Window { from_ns, to_ns, ..Window::whole(&trace) });
        assert!(!a.phases.is_empty());
        for p in &a.phases {
            let (phase, to_ns) = (&p.phase, to_ns.min(end_ns));
            assert!(
                from_ns <= phase.start_ns && phase.end_ns <= to_ns,
                "{from_ns}: {} to {}",
                phase.start_ns,
                phase.end_ns
            );
            assert!(!p.is_silent() && !phase.warm_up, "{from_ns}");
        }
    }
}

#[test]
fn a_range_within_one_wait_is_fed() {
    let trace = waiting_steps();
    // The first step's wait is from 5 to 35 ms.
    let (from_ns, to_ns) = (10 * MS, 30 * MS);
    let a = Analysis::new(&trace, Window { from_ns, to_ns, ..Window::whole(&trace) });
    let [p] = &a.phases[..] else { panic!("{}", a.phases.len()) };
    assert_eq!((p.phase.start_ns, p.phase.end_ns, p.starved_share()), (from_ns, to_ns, Some(0.0)));
    let text = report::text(&a, &report::Options::default());
    assert!(
        text.contains("GPU fed 100 %") && text.contains("inside one submission, or one wait for the GPU"),
        "{text}"
    );
    assert!(!text.contains("submitted nothing"), "{text}");
}

/// Slow first steps of a range are those of a run that has long been under way.
#[test]
fn a_range_in_mid_run_has_no_warm_up() {
    let mut r = Run::new(false);
    for step in 0..120 {
        for kernel in 0..20 {
            r.launch(kernel, 10_000);
        }
        r.at += if (40..46).contains(&step) { 60 * MS } else { 5 * MS };
    }
    let trace = r.finish();
    let from_ns = 3 * MS + 40 * (200_000 + 5 * MS) - 6 * MS;
    let a = Analysis::new(&trace, Window { from_ns, ..Window::whole(&trace) });
    assert!(a.phases.iter().all(|p| !p.phase.warm_up), "{}", report::text(&a, &report::Options::default()));
    let whole = Analysis::new(&trace, Window::whole(&trace));
    assert!(whole.phases.iter().map(|p| p.phase.submissions).sum::<u64>() == 120 * 20);
}

/// What comes before the first submission of a process is not told as fed, however short it is; nothing is asked in a phase without one.
#[test]
fn what_was_asked_of_a_gpu_leaves_out_the_start_up_and_silence() {
    let run = |head_ns: u64| {
        let mut r = Run::new(true);
        r.call("cudaMalloc", Class::Alloc, head_ns);
        for _ in 0..200 {
            r.launch(0, 5 * MS);
            r.at += 5 * MS;
        }
        r.at += 2_400 * MS;
        r.call("cudaFree", Class::Free, 10_000);
        r.exit()
    };
    let told = |head_ns: u64| {
        let trace = run(head_ns);
        let a = Analysis::new(&trace, Window::whole(&trace));
        let json: serde_json::Value = serde_json::from_str(&report::json(&a, &[]).unwrap()).unwrap();
        let asked: Vec<_> =
            json["phases"].as_array().unwrap().iter().map(|p| p["asked_ns"].as_u64().unwrap()).collect();
        let shares: Vec<_> = a.phases.iter().map(|p| p.starved_share()).collect();
        let text = report::text(&a, &report::Options::default()).split_whitespace().collect::<Vec<_>>().join(" ");
        (a.phases[0].phase.len_ns(), asked, shares, text)
    };
    let (_, short, shares, text) = told(10);
    let (len_ns, long, long_shares, long_text) = told(20 * MS);
    // What is asked, and the share of gaps in it, is the same, though the phase is longer.
    assert_eq!((&short, &shares), (&long, &long_shares));
    assert!(len_ns >= long[0] + 20 * MS && shares[0].is_some_and(|share| (share - 0.5).abs() < 0.01), "{shares:?}");
    assert_eq!((long[1], shares[1]), (0, None), "nothing was asked in the end");
    let said = "; the first 20.0 ms are the start-up of the process, and count for nothing";
    assert!(long_text.contains(said) && !text.contains("are the start-up"), "{long_text}");
    // A warm-up is asked from its first submission on.
    let trace = run(800 * MS);
    let a = Analysis::new(&trace, Window::whole(&trace));
    let p = &a.phases[0];
    assert!(p.phase.warm_up && p.phase.len_ns() > 790 * MS, "{:?}", p.phase);
    assert!(p.phase.asked_ns() < 20 * MS, "{} of {}", p.phase.asked_ns(), p.phase.len_ns());
}

/// The first kernel's caller is at it for longer than its launch, until it waits for the device: the boundary is behind that, and no gap is
/// cut by it.
#[test]
fn a_warm_up_ends_with_the_wait_behind_its_last_submission() {
    let run = |late_ns: u64, wait_ns: u64| {
        let mut r = Run::new(true);
        r.call("cudaMalloc", Class::Alloc, 300 * MS);
        // Not for the first time behind it: what comes next has nothing new about it.
        let sync = r.f.func("cudaDeviceSynchronize", Layer::Runtime, Class::Sync);
        r.f.call(r.at, 0, r.main, sync, 5_000);
        r.at += 5_000;
        r.launch(0, 400 * MS);
        let launched_ns = r.at;
        r.at += late_ns;
        r.f.call(r.at, 0, r.main, sync, wait_ns);
        r.at += wait_ns;
        let waited_ns = r.at;
        for _ in 0..500 {
            r.at += 5 * MS;
            r.launch(0, 10_000);
        }
        let trace = r.finish();
        let a = Analysis::new(&trace, Window::whole(&trace));
        let [warm_up, rest] = &a.phases[..] else { panic!("{} phases", a.phases.len()) };
        assert!(warm_up.phase.warm_up && warm_up.phase.end_ns == rest.phase.start_ns);
        assert!(rest.phase.gaps[0].start_ns >= rest.phase.start_ns, "no gap is cut");
        let ends = |end_ns: u64| match end_ns {
            ns if ns == launched_ns => "launch",
            ns if ns == waited_ns => "wait",
            _ => "?",
        };
        (ends(warm_up.phase.end_ns), ends(rest.phase.gaps[0].start_ns))
    };
    // As recorded on an H200: 0.27 ms up to the wait, which returned at once.
    assert_eq!(run(270_000, 17_000), ("wait", "wait"));
    assert_eq!(run(10_000, 17_000), ("wait", "wait"));
    // Later nobody knows since when the device idles.
    assert_eq!(run(2 * MS, 17_000), ("launch", "launch"));
    // What keeps the device busy for longer belongs to the first step, which is as slow.
    assert_eq!(run(10_000, 30 * MS), ("wait", "wait"));
}
