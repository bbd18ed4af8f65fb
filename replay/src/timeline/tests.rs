use super::*;
use crate::fixture::Fixture;
use ingero_format::catalog::{self, Class, Exit, Fork, Layer, WakeupNew};

/// Keeps everything that is told.
#[derive(Default)]
struct Told {
    /// Stays whose begin was seen.
    stays: Vec<OffCpu>,
    /// Stays that began before they were seen.
    before: Vec<OffCpu>,
    runs: Vec<Run>,
    calls: Vec<CallSpan>,
    behind: Vec<(TaskId, TaskId, u64)>,
    stored: Vec<StoredStay>,
    undivided: Vec<Undivided>,
}

impl Sink for Told {
    fn off_cpu(&mut self, stay: &OffCpu, cpus: &Cpus) {
        if let (Some(cpu), Some(from), Some((_, to))) = (stay.wait_cpu, stay.runnable_ns, stay.back) {
            cpus.holders(cpu, from, to, |holder, ns| self.behind.push((stay.task, holder, ns)));
        }
        if stay.before { self.before.push(*stay) } else { self.stays.push(*stay) }
    }
    fn run(&mut self, run: &Run) {
        self.runs.push(*run);
    }
    fn call(&mut self, span: &CallSpan) {
        self.calls.push(*span);
    }
    fn stored_stay(&mut self, stay: &StoredStay) {
        self.stored.push(*stay);
    }
    fn undivided(&mut self, part: &Undivided) {
        self.undivided.push(*part);
    }
}

fn walk(f: Fixture) -> (Told, Repairs) {
    let trace = f.finish();
    let mut told = Told::default();
    let repairs = Timeline::new(&trace).run(&mut told);
    (told, repairs)
}

const IDLE: TaskId = TaskId(0);
const S: u64 = 1;
const R: u64 = 0;
const PREEMPTED: u64 = 0x100;

#[test]
fn a_block_splits_at_its_wake_and_names_the_waker() {
    let mut f = Fixture::new();
    let (a, b) = (f.task(1, 1), f.task(2, 2));
    f.switch(100, 0, IDLE, R, a);
    f.switch(200, 0, a, S, b);
    f.waking(500, 1, b, a, 0);
    f.wakeup(510, 1, a, 0);
    f.switch(800, 0, b, PREEMPTED, a);
    f.switch(900, 0, a, S, IDLE);
    let (told, repairs) = walk(f);
    let stay = told.stays.iter().find(|s| s.task == a && s.back.is_some()).unwrap();
    assert_eq!(stay.waker, Waker::Task(b));
    let spent = stay.spent(0, u64::MAX);
    assert_eq!((spent.blocked_ns, spent.runnable_ns), (300, 300));
    assert_eq!(told.behind, [(a, b, 300)], "b held the CPU while a could have run");
    assert_eq!(told.runs.iter().filter(|r| r.task == a).map(|r| r.end_ns.unwrap() - r.start_ns).sum::<u64>(), 200);
    assert_eq!((repairs.synthesised, repairs.dropped), (0, 0));
}

#[test]
fn an_interrupt_is_the_waker_whoever_was_current() {
    let mut f = Fixture::new();
    let (a, b) = (f.task(1, 1), f.task(2, 2));
    f.switch(100, 0, a, S, b);
    f.waking(500, 0, b, a, 2);
    f.switch(600, 0, b, R, a);
    let (told, _) = walk(f);
    assert_eq!(told.stays[0].waker, Waker::Interrupt { context: 2, source: None, irq: None });
}

#[test]
fn the_idle_task_is_never_a_waker() {
    let mut f = Fixture::new();
    let a = f.task(1, 1);
    f.switch(100, 0, a, S, IDLE);
    f.waking(500, 0, IDLE, a, 0);
    f.switch(600, 0, IDLE, R, a);
    let (told, _) = walk(f);
    assert_eq!(told.stays[0].waker, Waker::Unknown);
}

#[test]
fn preemption_is_runnable_from_the_switch_out() {
    let mut f = Fixture::new();
    let (a, b) = (f.task(1, 1), f.task(2, 2));
    f.switch(100, 0, a, PREEMPTED, b);
    f.switch(400, 0, b, S, a);
    let (told, _) = walk(f);
    let spent = told.stays[0].spent(0, u64::MAX);
    assert_eq!((spent.runnable_ns, spent.blocked_ns), (300, 0));
    assert_eq!(told.behind, [(a, b, 300)]);
}

#[test]
fn a_throttled_wait_blames_nobody() {
    let mut f = Fixture::new();
    let (a, b) = (f.task(1, 1), f.task(2, 2));
    f.push(
        100,
        0,
        Switch {
            prev: a,
            prev_state: PREEMPTED,
            prev_prio: None,
            next: b,
            next_prio: None,
            syscall: None,
            throttled: Some(1),
        },
    );
    f.switch(400, 0, b, S, a);
    let (told, _) = walk(f);
    assert_eq!(told.stays[0].spent(0, u64::MAX), Spent { throttled_ns: 300, ..Spent::default() });
    assert!(told.behind.is_empty());
}

#[test]
fn an_unreported_switch_in_is_made_up_from_the_wakeup() {
    let mut f = Fixture::new();
    let a = f.task(1, 1);
    f.switch(100, 0, a, S, IDLE);
    f.wakeup(300, 0, a, 0);
    // The idle task's switch to `a` is missing here.
    f.switch(700, 0, a, S, IDLE);
    let (told, repairs) = walk(f);
    assert_eq!((repairs.synthesised, repairs.dropped), (1, 0));
    let stay = told.stays[0];
    assert!(stay.synthesised);
    assert_eq!(stay.back, Some((0, 300)));
    assert_eq!(stay.spent(0, u64::MAX), Spent { blocked_ns: 200, ..Spent::default() });
    let run = told.runs.iter().find(|r| r.synthesised).unwrap();
    assert_eq!((run.start_ns, run.end_ns), (300, Some(700)));
}

#[test]
fn an_unreported_switch_in_without_a_wakeup_is_dropped() {
    let mut f = Fixture::new();
    let a = f.task(1, 1);
    f.switch(100, 0, a, S, IDLE);
    f.switch(700, 0, a, S, IDLE);
    f.wakeup(800, 0, a, 0);
    f.switch(900, 0, IDLE, R, a);
    let (told, repairs) = walk(f);
    assert_eq!((repairs.synthesised, repairs.dropped), (0, 1));
    let closed: Vec<_> = told.stays.iter().filter(|s| s.back.is_some()).collect();
    assert_eq!(closed.len(), 1);
    assert_eq!(closed[0].out_ns, 700);
}

#[test]
fn a_wake_seen_just_before_its_switch_out_counts_at_the_switch_out() {
    // With sched_wakeup to confirm it, however long before.
    let mut f = Fixture::new();
    let (a, b) = (f.task(1, 1), f.task(2, 2));
    f.switch(100, 0, IDLE, R, a);
    f.waking(5_000, 1, b, a, 0);
    f.switch(105_000, 0, a, S, IDLE);
    f.wakeup(105_500, 1, a, 0);
    f.switch(106_000, 0, IDLE, R, a);
    let (told, _) = walk(f);
    let stay = told.stays.iter().find(|s| s.task == a).unwrap();
    assert_eq!((stay.runnable_ns, stay.waker), (Some(105_000), Waker::Task(b)));

    // Without it, only shortly before.
    for (gap, runnable) in [(10_000, Some(200_000)), (50_000, Some(300_000))] {
        let mut f = Fixture::new();
        let (a, b) = (f.task(1, 1), f.task(2, 2));
        f.switch(100, 0, IDLE, R, a);
        f.waking(200_000 - gap, 1, b, a, 0);
        f.switch(200_000, 0, a, S, IDLE);
        if gap > 20_000 {
            f.waking(300_000, 1, b, a, 0);
        }
        f.switch(400_000, 0, IDLE, R, a);
        let (told, _) = walk(f);
        assert_eq!(told.stays.iter().find(|s| s.task == a).unwrap().runnable_ns, runnable);
    }
}

#[test]
fn what_began_before_the_trace_is_marked() {
    // Woken and gone again before its switch-in was ever reported.
    let mut f = Fixture::new();
    let (a, b) = (f.task(1, 1), f.task(2, 2));
    f.switch(0, 1, b, S, IDLE);
    f.wakeup(5_000, 0, a, 0);
    f.switch(9_000, 0, a, S, IDLE);
    f.wakeup(90_000, 0, a, 0);
    f.switch(100_000, 0, IDLE, R, a);
    let (told, repairs) = walk(f);
    assert_eq!((repairs.synthesised, repairs.dropped), (1, 0));
    assert_eq!(told.before.iter().map(|s| (s.task, s.out_ns, s.back)).collect::<Vec<_>>(), [(a, 0, Some((0, 5_000)))]);
    let stay = told.stays.iter().find(|s| s.task == a).unwrap();
    assert_eq!((stay.out_ns, stay.runnable_ns, stay.back), (9_000, Some(90_000), Some((0, 100_000))));
}

#[test]
fn a_second_wake_shows_that_a_run_went_unseen() {
    let mut f = Fixture::new();
    let a = f.task(1, 1);
    f.switch(100, 0, a, S, IDLE);
    f.wakeup(200, 0, a, 0);
    f.wakeup(10_000, 0, a, 0);
    f.switch(10_050, 0, IDLE, R, a);
    let (told, repairs) = walk(f);
    assert_eq!(repairs.dropped, 1);
    assert!(told.stays.is_empty());
    assert_eq!(told.before[0].spent(0, u64::MAX).runnable_ns, 50);
}

#[test]
fn a_newborn_waits_but_is_not_off_cpu_and_the_dead_open_no_stay() {
    let mut f = Fixture::new();
    let (a, b) = (f.task(1, 1), f.task(2, 2));
    f.switch(10, 0, IDLE, R, a);
    f.push(100, 0, Fork { parent: a, child: b });
    f.push(110, 0, WakeupNew { wakee: b, target_cpu: 1 });
    f.switch(150, 1, IDLE, R, b);
    f.push(200, 1, Exit { task: b, group_dead: Some(1) });
    f.switch(210, 1, b, 0x10, IDLE);
    let (told, _) = walk(f);
    let of_b: Vec<_> = told.stays.iter().filter(|s| s.task == b).collect();
    assert_eq!(of_b.len(), 1);
    assert_eq!(of_b[0].kind, OffKind::Newborn);
    assert_eq!(of_b[0].spent(0, u64::MAX).runnable_ns, 40);
}

#[test]
fn calls_nest_and_split_exactly() {
    let mut f = Fixture::new();
    let (a, b) = (f.task(1, 1), f.task(2, 2));
    let outer = f.func("cudaStreamSynchronize", Layer::Runtime, Class::Sync);
    let inner = f.func("cuStreamSynchronize", Layer::Driver, Class::Sync);
    f.switch(0, 0, IDLE, R, a);
    // The row of the inner call comes first, as it returned first.
    f.call(120, 0, a, inner, 800);
    f.call(100, 0, a, outer, 900);
    f.switch(200, 0, a, S, b);
    f.waking(600, 1, TaskId(0), a, 2);
    f.switch(700, 0, b, PREEMPTED, a);
    f.switch(2000, 0, a, S, IDLE);
    let (told, _) = walk(f);
    assert_eq!(told.calls.len(), 2);
    let (i, o) = (told.calls[0], told.calls[1]);
    assert_eq!((i.call.func, o.call.func), (inner, outer));
    assert_eq!((i.depth, o.depth), (1, 0));
    assert_eq!((i.dur_ns(), i.self_ns, o.self_ns), (800, 800, 100));
    assert_eq!(o.spent, Spent { running_ns: 100 + 300, runnable_ns: 100, blocked_ns: 400, throttled_ns: 0 });
    for c in &told.calls {
        assert_eq!(c.spent.total_ns(), c.dur_ns());
    }
}

#[test]
fn a_call_proves_that_its_thread_runs() {
    let mut f = Fixture::new();
    let a = f.task(1, 1);
    let func = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
    f.switch(100, 0, a, S, IDLE);
    f.wakeup(300, 0, a, 0);
    f.call(400, 0, a, func, 50);
    f.switch(700, 0, a, S, IDLE);
    let (told, repairs) = walk(f);
    assert_eq!(repairs.synthesised, 1);
    assert_eq!(told.calls[0].spent, Spent { running_ns: 50, ..Spent::default() });
}

/// The spec names two limits of the walk.
#[test]
fn the_spec_has_the_limits_of_the_walk() {
    let spec = include_str!("../../../spec/semantics.md");
    let early = format!("a wake within {} µs before the switch-out", EARLY_WAKE_NS / 1000);
    assert!(spec.contains(&early), "{early}");
    let (thousands, rest) = (cpus::REMEMBERED / 1000, cpus::REMEMBERED % 1000);
    let remembered = format!("{thousands},{rest:03} stretches");
    assert!(spec.contains(&remembered), "{remembered}");
}

#[test]
fn where_switches_were_lost_nobody_is_given_a_time_that_nobody_saw() {
    // `a` takes the CPU, and then `b` leaves it: when one went and the other came is unknown.
    let mut f = Fixture::new();
    let (a, b) = (f.task(1, 1), f.task(2, 2));
    f.switch(0, 0, b, PREEMPTED, IDLE);
    f.switch(100, 0, IDLE, R, a);
    f.switch(900, 0, b, S, IDLE);
    let (told, repairs) = walk(f);
    assert_eq!((repairs.synthesised, repairs.dropped), (0, 2));
    assert!(told.stays.iter().all(|s| s.back.is_none()), "{:?}", told.stays);
    assert!(told.runs.iter().all(|r| r.end_ns == Some(r.start_ns)), "{:?}", told.runs);

    // The same where a call of `b` is what shows it.
    let mut f = Fixture::new();
    let (a, b) = (f.task(1, 1), f.task(2, 2));
    let func = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
    f.switch(0, 0, b, PREEMPTED, IDLE);
    f.switch(100, 0, IDLE, R, a);
    f.call(500, 0, b, func, 50);
    f.switch(900, 0, b, S, IDLE);
    let (told, repairs) = walk(f);
    assert_eq!((repairs.synthesised, repairs.dropped), (0, 2));
    assert_eq!(told.calls[0].spent.running_ns, 50);
    assert_eq!(
        told.runs.iter().map(|r| (r.task, r.start_ns, r.before)).collect::<Vec<_>>(),
        [(b, 0, true), (b, 500, true)]
    );
}

#[test]
fn what_a_thread_proves_of_its_run_is_kept_when_it_is_lost_sight_of() {
    let mut f = Fixture::new();
    let (a, b) = (f.task(1, 1), f.task(2, 2));
    let func = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
    f.switch(100, 0, IDLE, R, a);
    f.call(200, 0, a, func, 400);
    f.waking(500, 0, a, b, 0);
    // Somebody else leaves its CPU: it went between 500 and 700, nobody saw when.
    f.switch(700, 0, b, S, IDLE);
    f.switch(900, 0, IDLE, R, a);
    let (told, _) = walk(f);
    let run = told.runs.iter().find(|r| r.task == a).unwrap();
    assert_eq!((run.start_ns, run.end_ns), (100, Some(600)));
    // It returned from its call at 600, and so ran all through it.
    assert_eq!(told.calls[0].spent, Spent { running_ns: 400, ..Spent::default() });
}

#[test]
fn holders_are_found_behind_later_ones() {
    let mut cpus = Cpus::default();
    for (at, task) in [(0, 1), (2, 2), (80, 3), (81, 4), (82, 0), (83, 1)] {
        cpus.occupy(0, at, TaskId(task));
    }
    let held = |from, to| {
        let mut told = Vec::new();
        cpus.holders(0, from, to, |task, ns| told.push((task.0, ns)));
        told
    };
    assert_eq!(held(3, 82), [(4, 1), (3, 1), (2, 77)]);
    assert_eq!(held(1, 3), [(2, 1), (1, 1)]);
    assert_eq!(held(82, 90), [(1, 7)]);
    assert_eq!(held(90, 95), [(1, 5)]);
}

#[test]
fn a_source_without_switches_tells_its_stays_and_no_other_state() {
    let mut f = Fixture::new();
    let (a, b) = (f.task(1, 1), f.task(2, 2));
    let func = f.func("cudaMalloc", Layer::Runtime, Class::Alloc);
    f.push(100, NO_CPU, catalog::OffCpu { task: a, dur_ns: 50 });
    f.waking(120, 1, b, a, 0);
    f.wakeup(130, 1, a, 1);
    f.call(200, 1, a, func, 10);
    f.push(300, NO_CPU, catalog::OffCpu { task: a, dur_ns: u64::MAX });
    let (told, repairs) = walk(f);
    let stored: Vec<_> = told.stored.iter().map(|s| (s.task, s.out_ns, s.back_ns)).collect();
    assert_eq!(stored, [(a, 100, 150), (a, 300, u64::MAX)]);
    assert!(told.runs.is_empty() && told.stays.is_empty() && told.before.is_empty());
    assert_eq!((told.calls.len(), told.calls[0].spent, repairs.dropped), (1, Spent::default(), 0));
}

#[test]
fn where_switches_are_recorded_they_tell_all() {
    let mut f = Fixture::new();
    let (a, b) = (f.task(1, 1), f.task(2, 2));
    f.switch(100, 0, IDLE, R, a);
    f.switch(200, 0, a, S, IDLE);
    f.push(200, NO_CPU, catalog::OffCpu { task: a, dur_ns: 50 });
    f.push(220, NO_CPU, catalog::OffCpu { task: b, dur_ns: 50 });
    let (told, _) = walk(f);
    assert_eq!(told.stored.iter().map(|s| s.task).collect::<Vec<_>>(), [b]);
}

#[test]
fn where_switches_were_lost_nothing_is_known_of_threads() {
    let mut f = Fixture::new();
    let (a, b) = (f.task(1, 1), f.task(2, 2));
    f.switch(10, 0, TaskId(0), 0, a);
    f.switch(20, 0, a, 1, b);
    let probe = f.writer().string("sched_switch");
    f.push(50, NO_CPU, catalog::Loss { to_ns: 90, probe, cause: 0, count: Some(7), of_host: None });
    // What shows a thread on a CPU within the stretch does not show since when, nor how long.
    f.waking(60, 0, b, a, 0);
    f.switch(100, 0, b, 1, a);
    f.switch(130, 0, a, 1, TaskId(0));
    f.switch(140, 0, TaskId(0), 0, b);
    let (told, _) = walk(f);
    let spans = |runs: &[Run], of: TaskId| -> Vec<(u64, Option<u64>)> {
        runs.iter().filter(|run| run.task == of).map(|run| (run.start_ns, run.end_ns)).collect()
    };
    assert_eq!(spans(&told.runs, a), [(10, Some(20)), (100, Some(130))]);
    assert_eq!(spans(&told.runs, b).first(), Some(&(20, Some(50))));
    let in_stretch = |from: u64, to: u64| from < 90 && 50 < to;
    assert!(told.runs.iter().all(|run| !in_stretch(run.start_ns, run.end_ns.unwrap_or(u64::MAX))), "{:?}", told.runs);
    let stays = || told.stays.iter().chain(&told.before);
    assert!(stays().all(|s| !in_stretch(s.out_ns, s.end_ns().unwrap_or(u64::MAX))), "{:?}", told.stays);
    assert!(stays().any(|s| s.task == a && (s.out_ns, s.end_ns()) == (20, Some(50))), "{:?}", told.stays);
}

#[test]
fn where_wakes_were_lost_it_is_not_known_whether_a_thread_was_blocked() {
    let at_loss_of = |probe: &str| {
        let mut f = Fixture::new();
        let (a, b, c, d) = (f.task(1, 1), f.task(2, 2), f.task(3, 3), f.task(4, 4));
        let sync = f.func("cudaDeviceSynchronize", Layer::Runtime, Class::Sync);
        f.switch(10, 0, IDLE, R, a);
        f.call(15, 0, a, sync, 145);
        f.switch(20, 0, a, S, b);
        f.switch(20, 1, IDLE, R, c);
        f.switch(30, 1, c, S, IDLE);
        f.switch(31, 2, IDLE, R, d);
        f.switch(32, 2, d, PREEMPTED, IDLE);
        let probe = f.writer().string(probe);
        f.push(50, NO_CPU, catalog::Loss { to_ns: 90, probe, cause: 0, count: Some(7), of_host: None });
        // Whoever is seen to be woken was blocked until then, losses or not.
        f.waking(120, 0, b, c, 0);
        f.switch(130, 1, IDLE, R, c);
        f.switch(135, 2, IDLE, R, d);
        f.switch(150, 0, b, S, a);
        f.switch(170, 0, a, S, IDLE);
        f.switch(200, 1, c, S, IDLE);
        let (told, _) = walk(f);
        let stay = |of: TaskId| told.stays.iter().find(|s| s.task == of).map(|s| (s.out_ns, s.end_ns(), s.runnable_ns));
        let call = told.calls[0].spent;
        let stays = [a, c, d].map(stay);
        (stays, told.undivided, (call.running_ns, call.blocked_ns, call.runnable_ns), [a, b])
    };
    let exact = [Some((20, Some(150), None)), Some((30, Some(130), Some(120))), Some((32, Some(135), Some(32)))];
    assert_eq!(at_loss_of("page_fault_user").0, exact);
    assert_eq!(at_loss_of("page_fault_user").2, (15, 130, 0));
    for probe in ["sched_waking", "sched_wakeup"] {
        let (stays, undivided, call, [a, _]) = at_loss_of(probe);
        // What is known of the stay ends where the wakes are missing.
        assert_eq!(stays, [Some((20, Some(50), None)), exact[1], exact[2]], "{probe}");
        let part =
            Undivided { task: a, out_ns: Some(20), from_ns: 50, to_ns: Some(150), unfinished: false, in_cpu: Some(0) };
        assert_eq!(undivided, [part], "{probe}");
        assert_eq!(call, (15, 30, 0), "{probe}: of the rest of the call nothing is claimed");
    }
    // Of an unknown kind it may have been any event: nothing at all is known there.
    let (stays, undivided, ..) = at_loss_of("damaged file");
    assert_eq!((stays[0], undivided), (Some((20, Some(50), None)), Vec::new()));
}

#[test]
fn whoever_is_not_seen_again_since_wakes_were_lost_may_have_been_woken() {
    let mut f = Fixture::new();
    let (a, b) = (f.task(1, 1), f.task(2, 2));
    f.switch(10, 0, IDLE, R, a);
    f.switch(20, 0, a, S, b);
    for (probe, from_ns) in [("sched_waking", 50), ("sched_switch", 80)] {
        let probe = f.writer().string(probe);
        f.push(from_ns, NO_CPU, catalog::Loss { to_ns: from_ns + 10, probe, cause: 0, count: Some(7), of_host: None });
    }
    f.switch(100, 0, b, S, IDLE);
    f.switch(150, 1, IDLE, R, IDLE);
    let (told, _) = walk(f);
    // Behind lost switches nothing is known of it, and of the other one all: no wake is missing since it left.
    let part = Undivided { task: a, out_ns: Some(20), from_ns: 50, to_ns: Some(80), unfinished: false, in_cpu: None };
    assert_eq!(told.undivided, [part]);
    let open = |of: TaskId| told.stays.iter().rfind(|s| s.task == of).map(|s| (s.out_ns, s.end_ns()));
    assert_eq!((open(a), open(b)), (Some((20, Some(50))), Some((100, None))));
}
