use super::*;
use ingero_format::catalog::{Class, Exec, Exit, Fork, GpuSample, Layer as Library, NO_CPU, Name, Switch, TaskId};
use ingero_replay::Window;
use ingero_replay::fixture::Fixture;

const IDLE: TaskId = TaskId(0);
const S: u64 = 1;
const PREEMPTED: u64 = 0x100;
const MS: u64 = 1_000_000;

/// A main process with a launch function, on CPU 0 from the start.
fn start() -> (Fixture, TaskId, impl Fn(&mut Fixture, u64)) {
    let mut f = Fixture::new();
    let main = f.task(10, 10);
    name(&mut f, main, "train");
    let launch = f.func("cudaLaunchKernel", Library::Runtime, Class::Launch);
    f.switch(0, 0, IDLE, 0, main);
    (f, main, move |f: &mut Fixture, ts: u64| f.call(ts, 0, main, launch, 10_000))
}

fn name(f: &mut Fixture, task: TaskId, name: &str) {
    let name = f.writer().string(name);
    f.push(0, 0, Name { task, name, source: 0 });
}

pub(super) fn incidents(f: Fixture) -> Vec<(&'static str, Severity, u64, String)> {
    let trace = f.finish();
    let a = Analysis::new(&trace, Window::whole(&trace));
    a.incidents.iter().map(|i| (i.kind, i.severity, i.lost_ns, i.summary.clone())).collect()
}

#[test]
fn a_main_thread_that_computes_between_launches_is_the_cause() {
    let (mut f, main, launch) = start();
    for i in 0..10 {
        launch(&mut f, MS + i * 20 * MS);
    }
    f.switch(200 * MS, 0, main, S, IDLE);
    let found = incidents(f);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].0, found[0].1), ("busy-main", Severity::High));
    assert_eq!(found[0].2, 9 * (20 * MS - 10_000));
}

/// A main thread that launches each millisecond for 4 s, while its GPU says once a second how busy it was.
fn gpu(percent: u64, others: impl Fn(&mut Fixture)) -> Fixture {
    let mut f = steps_beside_a_gpu(percent, |_, _, _| {});
    others(&mut f);
    f
}

/// The same, with something behind each launch.
fn steps_beside_a_gpu(percent: u64, step: impl Fn(&mut Fixture, TaskId, u64)) -> Fixture {
    let (mut f, main, launch) = start();
    for i in 0..4_000 {
        launch(&mut f, 1_000_000 * i);
        step(&mut f, main, 1_000_000 * i);
    }
    for at in 0..5 {
        let sample = GpuSample { busy_percent: Some(percent), ..GpuSample::default() };
        f.push(1_000_000_000 * at + 100, NO_CPU, sample);
    }
    f
}

fn beside_a_gpu(percent: u64, others: impl Fn(&mut Fixture)) -> Vec<(&'static str, Severity, u64, String)> {
    incidents(gpu(percent, others))
}

#[test]
fn no_more_is_lost_than_the_gpu_was_idle() {
    // What is behind the last sample within the phase the next one tells.
    assert_eq!(beside_a_gpu(100, |_| {}), []);
    let found = beside_a_gpu(97, |_| {});
    let [(kind, severity, lost_ns, summary)] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((*kind, *severity), ("busy-main", Severity::Low));
    assert!((119_000_000..121_000_000).contains(lost_ns), "{lost_ns}");
    assert!(summary.starts_with("train (10) lost up to 120 ms because"), "{summary}");
    // Where each step ends with a wait for the device, nothing of the process is queued behind it: somebody else's kernels ran.
    let trace = steps_beside_a_gpu(100, |f, main, at| {
        let sync = f.func("cudaDeviceSynchronize", Library::Runtime, Class::Sync);
        f.call(at + 20_000, 0, main, sync, 100_000);
    })
    .finish();
    let whole = Analysis::new(&trace, Window::whole(&trace));
    let (worst, busy) = (&whole.incidents[0], whole.phases[0].busy.unwrap());
    assert_eq!((worst.kind, worst.severity, worst.at_most), ("waits-too-often", Severity::High, false));
    assert!(worst.lost_ns > 3_500_000_000 && busy.unqueued_ns >= worst.lost_ns, "{} {busy:?}", worst.lost_ns);
    assert!(busy.words().contains("nothing queued for 3.5"), "{}", busy.words());
    let text = crate::report::text(&whole, &crate::report::Options::default());
    assert!(!text.lines().next().unwrap_or_default().contains("busy 100"), "{text}");
    // It was idle for a while: how long exactly no sample tells.
    let found = beside_a_gpu(80, |_| {});
    assert!(matches!(found.as_slice(), [("busy-main", Severity::High, 3_900_000_000.., _)]), "{found:?}");

    let alone = beside_a_gpu(0, |_| {});
    assert!(
        matches!(alone.as_slice(), [("busy-main", Severity::High, 3_900_000_000.., s)] if !s.contains("samples")),
        "{alone:?}"
    );
    // Another process of the host submits too: whose kernels they are is not known.
    let trace = gpu(100, |f| {
        let other = f.task(7_000, 7_000);
        let func = f.func("cudaLaunchKernel", Library::Runtime, Class::Launch);
        (0..4_000).for_each(|i| f.call(1_000_000 * i + 500, 3, other, func, 10_000));
    })
    .finish();
    let (window, whole) = (Window::whole(&trace), Analysis::new(&trace, Window::whole(&trace)));
    let worst = &whole.incidents[0];
    assert_eq!((worst.kind, worst.severity), ("busy-main", Severity::High));
    // One phase alone is told as it is among the others.
    assert_eq!(whole.phases.len(), 2);
    for p in &whole.phases {
        let alone = Analysis::of_phase(&trace, window, p.number).unwrap();
        assert_eq!((alone.phases[0].busy, p.busy), (None, None));
    }
}

#[test]
fn causes_share_the_time_in_which_a_gpu_was_idle() {
    // Half of each pause the thread computes, and for a bit less another process has its CPU.
    let of = |percent: u64| {
        let trace = steps_beside_a_gpu(percent, |f, main, at| {
            let other = f.task(99, 99);
            f.switch(at + 500_000, 0, main, PREEMPTED, other);
            f.switch(at + 900_000, 0, other, PREEMPTED, main);
        })
        .finish();
        let a = Analysis::new(&trace, Window::whole(&trace));
        let told: Vec<_> = a.incidents.iter().map(|i| (i.kind, i.lost_ns / 10_000_000, i.at_most)).collect();
        let idle_ns = a.phases[0].busy.map_or(0, |busy| busy.idle_ns);
        (told, a.incidents.iter().map(|i| i.lost_ns).sum::<u64>(), idle_ns)
    };
    assert_eq!(of(0).0, [("busy-main", 235, true), ("cpu-contention", 159, false)]);
    // What would have lost most is named, and no second is lost twice.
    let (told, lost_ns, idle_ns) = of(95);
    assert_eq!((told.len(), told[0].0, told[0].2), (1, "busy-main", true), "{told:?}");
    assert_eq!(lost_ns, idle_ns);
}

#[test]
fn launches_back_to_back_are_no_incident() {
    let (mut f, main, launch) = start();
    for i in 0..1000 {
        launch(&mut f, MS + i * 15_000);
    }
    f.switch(200 * MS, 0, main, S, IDLE);
    assert_eq!(incidents(f), []);
}

#[test]
fn a_thread_that_sleeps_on_purpose_is_no_incident() {
    let (mut f, main, launch) = start();
    // Beside it another thread of its process runs for a moment.
    let other = f.task(10, 11);
    for i in 0..10 {
        let at = MS + i * 20 * MS;
        launch(&mut f, at);
        f.switch(at + 50_000, 0, main, S, other);
        f.switch(at + 90_000, 0, other, S, IDLE);
        f.waking(at + 19 * MS, 0, IDLE, main, 2);
        f.switch(at + 19 * MS + 5_000, 0, IDLE, 0, main);
    }
    let found = incidents(f);
    assert!(found.iter().all(|(.., severity_lost, _)| *severity_lost < 10 * MS), "{found:?}");
    assert!(found.iter().all(|(_, severity, ..)| *severity < Severity::High), "{found:?}");
}

#[test]
fn whoever_takes_the_cpu_is_named() {
    let (mut f, main, launch) = start();
    let hog = f.task(99, 99);
    name(&mut f, hog, "hog");
    for i in 0..10 {
        let at = MS + i * 20 * MS;
        launch(&mut f, at);
        f.switch(at + MS, 0, main, PREEMPTED, hog);
        f.switch(at + 19 * MS, 0, hog, PREEMPTED, main);
    }
    let found = incidents(f);
    assert_eq!((found[0].0, found[0].1, found[0].2), ("cpu-contention", Severity::High, 9 * 18 * MS));
    assert!(found[0].3.contains("behind hog (99) 162 ms"), "{}", found[0].3);
}

#[test]
fn nobody_is_to_be_moved_where_nobody_was_seen() {
    let (mut f, main, launch) = start();
    for i in 0..10 {
        let at = MS + i * 20 * MS;
        launch(&mut f, at);
        f.switch(at + MS, 0, main, PREEMPTED, IDLE);
        f.switch(at + 19 * MS, 0, IDLE, 0, main);
    }
    let trace = f.finish();
    let a = Analysis::new(&trace, Window::whole(&trace));
    let kinds: Vec<_> = a.incidents.iter().map(|i| (i.kind, i.severity)).collect();
    assert_eq!(kinds.first(), Some(&("wake-up-latency", Severity::High)), "{kinds:?}");
    assert!(kinds.iter().all(|(kind, _)| *kind != "cpu-contention" && *kind != "too-many-workers"), "{kinds:?}");
    let said = a.incidents.iter().flat_map(|i| &i.recommendations);
    assert!(said.clone().all(|r| !r.starts_with("move ")), "{:?}", said.collect::<Vec<_>>());
}

/// A moment of somebody else on the CPU is not what a long wait for an idle one was for.
#[test]
fn a_moment_of_a_kernel_thread_is_not_to_blame_for_an_idle_cpu() {
    let (mut f, main, launch) = start();
    let kernel = f.task(16, 16);
    name(&mut f, kernel, "ksoftirqd/0");
    for i in 0..10 {
        let at = MS + i * 20 * MS;
        launch(&mut f, at);
        f.switch(at + MS, 0, main, PREEMPTED, kernel);
        f.switch(at + MS + 5_000, 0, kernel, S, IDLE);
        f.switch(at + 19 * MS, 0, IDLE, 0, main);
    }
    let found = incidents(f);
    assert_eq!((found[0].0, found[0].2), ("wake-up-latency", 9 * (18 * MS - 5_000)), "{found:?}");
    assert!(found.iter().all(|i| i.0 != "cpu-contention" || i.2 <= 9 * 5_000), "{found:?}");
}

#[test]
fn workers_that_get_no_cpu_count_once_however_many_they_are() {
    let (mut f, main, launch) = start();
    let hog = f.task(99, 99);
    name(&mut f, hog, "hog");
    let workers: Vec<TaskId> = (0..3).map(|i| f.task(20 + i, 20 + i)).collect();
    for &child in &workers {
        f.push(10, 0, Fork { parent: main, child });
    }
    launch(&mut f, MS);
    f.switch(2 * MS, 0, main, S, hog);
    for &w in &workers {
        f.waking(2 * MS + 1_000, 0, hog, w, 2);
        f.wakeup(2 * MS + 1_000, 0, w, 0);
    }
    // The hog runs, then the workers, then the main thread's batch is there.
    f.switch(80 * MS, 0, hog, S, workers[0]);
    f.switch(81 * MS, 0, workers[0], S, workers[1]);
    f.switch(82 * MS, 0, workers[1], S, workers[2]);
    f.waking(83 * MS - 1_000, 0, workers[2], main, 0);
    f.switch(83 * MS, 0, workers[2], S, main);
    launch(&mut f, 84 * MS);
    f.switch(90 * MS, 0, main, S, IDLE);
    let found = incidents(f);
    let contention = found.iter().find(|i| i.0 == "cpu-contention").unwrap();
    assert_eq!(contention.1, Severity::High);
    // Never more than the 81 ms that the main thread waited, though three workers waited for it.
    assert!((75 * MS..=81 * MS).contains(&contention.2), "{found:?}");
    assert!(contention.3.contains("behind hog (99)"), "{}", contention.3);
}

#[test]
fn a_quota_is_to_blame_for_throttled_waits_and_no_process_is() {
    let (mut f, main, launch) = start();
    let other = f.task(99, 99);
    for i in 0..5 {
        let at = MS + i * 100 * MS;
        launch(&mut f, at);
        let out = Switch {
            prev: main,
            prev_state: PREEMPTED,
            prev_prio: None,
            next: other,
            next_prio: None,
            syscall: None,
            throttled: Some(1),
        };
        f.push(at + 20 * MS, 0, out);
        f.switch(at + 99 * MS, 0, other, PREEMPTED, main);
    }
    let found = incidents(f);
    assert_eq!((found[0].0, found[0].1, found[0].2), ("cpu-quota", Severity::High, 4 * 79 * MS));
    assert!(found.iter().all(|i| i.0 != "cpu-contention"), "{found:?}");
}

/// A worker brings each batch, and another child of the main process has the CPU that both need. In the end that one
/// wakes the main process, or not.
fn beside_a_worker(then: impl Fn(&mut Fixture, TaskId, TaskId, u64)) -> Fixture {
    let (mut f, main, launch) = start();
    let (worker, hog) = (f.task(20, 20), f.task(30, 30));
    name(&mut f, worker, "worker");
    name(&mut f, hog, "hog");
    for child in [worker, hog] {
        f.push(10, 0, Fork { parent: main, child });
    }
    for i in 0..5 {
        let at = MS + i * 20 * MS;
        launch(&mut f, at);
        f.switch(at + MS, 0, main, S, hog);
        f.waking(at + 2 * MS, 0, hog, worker, 2);
        f.switch(at + 18 * MS, 0, hog, PREEMPTED, worker);
        f.waking(at + 19 * MS, 0, worker, main, 0);
        f.switch(at + 19 * MS, 0, worker, S, main);
    }
    let at = 101 * MS;
    launch(&mut f, at);
    f.switch(at + MS, 0, main, S, hog);
    then(&mut f, main, hog, at + 2 * MS);
    f.switch(at + 3 * MS, 0, hog, S, main);
    f
}

fn assert_strangers(f: Fixture) {
    let trace = f.finish();
    let a = Analysis::new(&trace, Window::whole(&trace));
    let chain: Vec<_> = a.phases[0].chains.links().map(|(_, link)| a.thread_name(link.task)).collect();
    assert_eq!(chain, ["train", "worker"]);
    let contention = a.incidents.iter().find(|i| i.kind == "cpu-contention").unwrap();
    assert_eq!(contention.severity, Severity::High);
    assert!(contention.root_cause.starts_with("other processes held"), "{}", contention.root_cause);
    assert!(contention.recommendations[0].starts_with("move hog (30)"), "{:?}", contention.recommendations);
}

#[test]
fn a_child_that_never_wakes_anybody_works_for_nobody() {
    assert_strangers(beside_a_worker(|_, _, _, _| ()));
}

/// Its batch is due after the last submission, or was not waited for in the range: it is one of its own all the same.
#[test]
fn a_worker_that_nobody_waited_for_in_the_range_is_no_stranger() {
    let trace = beside_a_worker(|f, main, hog, at| f.waking(at, 0, hog, main, 0)).finish();
    let whole = Window::whole(&trace);
    for window in [whole, Window { to_ns: 90 * MS, ..whole }] {
        let a = Analysis::new(&trace, window);
        let kinds: Vec<_> = a.incidents.iter().map(|i| (i.kind, i.severity)).collect();
        assert!(kinds.contains(&("too-many-workers", Severity::High)), "{kinds:?}");
        assert!(kinds.iter().all(|(kind, _)| *kind != "cpu-contention"), "{kinds:?}");
        let said = a.incidents.iter().flat_map(|i| &i.recommendations);
        assert!(said.clone().all(|r| !r.starts_with("move ")), "{:?}", said.collect::<Vec<_>>());
    }
}

/// A program that is started wakes whoever started it once it is under way, and again when it ends: neither is work.
#[test]
fn a_program_that_only_starts_and_ends_is_a_stranger() {
    assert_strangers(beside_a_worker(|f, main, hog, at| {
        f.waking(at, 0, hog, main, 0);
        let file = f.writer().string("/bin/hog");
        f.push(at + 10, 0, Exec { task: hog, file });
    }));
    assert_strangers(beside_a_worker(|f, main, hog, at| {
        f.push(at, 0, Exit { task: hog, group_dead: Some(1) });
        f.waking(at + 10, 0, hog, main, 0);
    }));
}

#[test]
fn severity_follows_the_share() {
    assert_eq!([0.2, 0.1999, 0.05, 0.0499].map(Severity::of), {
        use Severity::{High, Low, Medium};
        [High, Medium, Medium, Low]
    });
}

/// That nothing was lost is said of what the recording shows: not of gaps of which it has no switches.
#[test]
fn where_nothing_shows_what_gaps_were_for_no_cause_is_denied() {
    let told = |switches: bool, every_ns: u64| {
        let mut f = Fixture::new();
        let main = f.task(10, 10);
        let launch = f.func("cudaLaunchKernel", Library::Runtime, Class::Launch);
        if switches {
            f.switch(0, 0, IDLE, 0, main);
        }
        (0..20).for_each(|i| f.call(MS + i * every_ns, 0, main, launch, 10_000));
        let trace = f.finish();
        let a = Analysis::new(&trace, Window::whole(&trace));
        let page = crate::html::page(&a, &crate::report::Options::default(), &mut |_| {}).unwrap();
        let denied =
            [page.contains("No cause of lost time was found."), page.contains("found in what the recording shows")];
        (crate::report::verdicts(&a, &|_| true).join("; "), denied)
    };
    let (verdict, denied) = told(false, 20 * MS);
    assert!(verdict.ends_with("; for 380 ms of its gaps the recording does not show what they were for"), "{verdict}");
    assert_eq!(denied, [false, true]);
    let (verdict, denied) = told(false, 12_000);
    assert!(verdict.ends_with("; no cause of lost time above 5 %"), "{verdict}");
    assert_eq!(denied, [true, false]);
    assert!(told(true, 20 * MS).0.contains(" lost to its main thread being busy"));
}
