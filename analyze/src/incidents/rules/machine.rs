//! Causes that lie in the machine, its limits, and other ranks.

use super::*;
use ingero_format::catalog::{Affinity, Collective, Loss, OomKill, ProcessCgroup, Reclaim};

/// The main thread is bound to CPU 0, where another process runs all the time.
pub(super) fn bound(cpu_1_idles: bool, cgroup: Option<&str>) -> Found {
    bound_beside(Scene::new(), cpu_1_idles, cgroup, None)
}

/// `parent`: who has the hog's group, if it is not the hog itself.
fn bound_beside(mut s: Scene, cpu_1_idles: bool, cgroup: Option<&str>, parent: Option<TaskId>) -> Found {
    let (hog, busy) = (s.f.task(80, 80), s.f.task(81, 81));
    let cpus = s.f.writer().string("0");
    s.f.push(1, 0, Affinity { task: s.main, cpus, source: 0 });
    if let Some(parent) = parent {
        s.f.push(1, 0, Fork { parent, child: hog });
    }
    for (task, group) in [(s.main, "/job"), (parent.unwrap_or(hog), cgroup.unwrap_or("/job"))] {
        let cgroup_id = s.f.writer().string(group);
        if cgroup.is_some() {
            s.f.push(2, 0, ProcessCgroup { task, cgroup: cgroup_id, container: None, pod: None });
        }
    }
    s.f.switch(5, 1, IDLE, 0, busy);
    if cpu_1_idles {
        s.f.switch(100, 1, busy, S, IDLE);
    }
    s.steps(|s, at| {
        s.f.switch(at, 0, s.main, PREEMPTED, hog);
        s.f.switch(at + 18 * MS, 0, hog, PREEMPTED, s.main);
    })
    .found()
}

pub(super) fn throttled(by_quota: Option<u64>) -> Found {
    let mut scene = Scene::new();
    let other = scene.f.task(80, 80);
    let scene = scene.steps(|s, at| {
        let out = Switch {
            prev: s.main,
            prev_state: PREEMPTED,
            prev_prio: None,
            next: other,
            next_prio: None,
            syscall: None,
            throttled: by_quota,
        };
        s.f.push(at, 0, out);
        s.f.switch(at + 18 * MS, 0, other, PREEMPTED, s.main);
    });
    scene.found()
}

pub(super) fn crowded(forked: bool) -> Found {
    crowd(forked).found()
}

fn crowd(forked: bool) -> Scene {
    let mut s = Scene::new();
    let (first, second) = (s.worker, s.f.task(30, 30));
    if forked {
        s.f.push(11, 0, Fork { parent: s.main, child: second });
    }
    s.steps(|s, at| {
        // The worker that is waited for stands behind the other one, which is waited for after that.
        s.out(at, 0, s.main, S, READ, second);
        s.f.waking(at + 1_000, 0, second, first, HARDIRQ);
        s.f.wakeup(at + 1_000, 0, first, 0);
        s.f.waking(at + 17 * MS - 2_000, 0, second, s.main, if forked { 0 } else { HARDIRQ });
        s.out(at + 17 * MS, 0, second, PREEMPTED, READ, s.main);
        s.out(at + 17 * MS + 10, 0, s.main, S, READ, first);
        s.f.waking(at + 18 * MS - 1_000, 0, first, s.main, 0);
        s.out(at + 18 * MS, 0, first, S, READ, s.main);
        s.f.call(at + 18 * MS + 1_000, 0, s.main, s.launch, 10);
        // Now it stands behind it once more, for the next.
        s.f.switch(at + 18 * MS + 3_000, 0, s.main, PREEMPTED, second);
        s.f.switch(at + 19 * MS - 1_000, 0, second, PREEMPTED, s.main);
    })
}

/// The main thread is woken each millisecond, and runs again only after a while; somebody is on its CPU meanwhile, or nobody.
pub(super) fn waking(idle: bool) -> Found {
    let mut scene = Scene::new();
    let stranger = scene.f.task(90, 90);
    let scene = scene.steps(|s, at| {
        let next = if idle { IDLE } else { stranger };
        for i in 0..17 {
            let at = at + i * MS;
            s.out(at, 0, s.main, S, READ, next);
            s.f.waking(at + 100_000, 0, next, s.main, HARDIRQ);
            s.f.switch(at + 900_000, 0, next, S, s.main);
        }
    });
    scene.found()
}

#[test]
fn workers_that_reclaim_side_by_side_hold_up_their_process_once() {
    let mut s = Scene::new();
    let others: Vec<TaskId> = (21..24).map(|id| s.f.task(id, id)).collect();
    for &child in &others {
        s.f.push(11, 0, Fork { parent: s.main, child });
    }
    let found = s
        .steps(|s, at| {
            s.works(at);
            // Each of four, of which one is waited for; all of them run as long.
            for task in [&[s.worker], &others[..]].concat() {
                let body = Reclaim { task, dur_ns: Some(5 * MS), order: Some(0), reclaimed: Some(32), memcg: 1 };
                s.f.push(at + 2 * MS, 1, body);
            }
        })
        .found();
    let of = |kind: &str| found.iter().find(|i| i.0 == kind).map_or(0, |i| i.2);
    assert_eq!(of("memory-pressure"), (STEPS - 1) * 5 * MS, "{found:?}");
    assert!(of("busy-workers") >= (STEPS - 1) * 12 * MS, "{found:?}");
}

pub(super) fn reclaiming(dur_ns: u64) -> Found {
    reclaiming_by(None, dur_ns)
}

/// In each gap another thread of the process, or the main thread itself, which runs all the while, reclaims memory.
fn reclaiming_by(other: Option<u32>, dur_ns: u64) -> Found {
    let mut s = Scene::new();
    let task = other.map_or(s.main, |tid| s.f.task(10, tid));
    let mut reclaims = s.steps(|s, at| {
        let body = Reclaim { task, dur_ns: Some(dur_ns), order: Some(0), reclaimed: Some(32), memcg: 1 };
        s.f.push(at, 0, body);
    });
    reclaims.f.switch(STEPS * PERIOD + 2 * MS, 0, reclaims.main, S, IDLE);
    reclaims.found()
}

pub(super) fn killing(own: bool) -> Found {
    killing_at(45 * MS, own, None)
}

/// The same at any instant, and with a stretch in which events were lost.
fn killing_at(at_ns: u64, own: bool, lost: Option<(u64, u64)>) -> Found {
    let mut s = Scene::new().steps(|s, at| s.works(at));
    if let Some((from, to_ns)) = lost {
        let probe = s.f.writer().string("sched_switch");
        s.f.push(from, 0, Loss { probe, cause: 1, count: Some(5), to_ns, of_host: None });
    }
    let stranger = s.f.task(90, 90);
    let victim = if own { s.worker } else { stranger };
    let kill = OomKill {
        task: s.main,
        victim,
        total_bytes: None,
        anon_bytes: Some(1 << 30),
        file_bytes: None,
        shmem_bytes: None,
        score_adj: None,
    };
    s.f.push(at_ns, 1, kill);
    s.found()
}

/// Entries of a rank into a collective of so many elements.
fn enters(f: &mut Fixture, at: u64, task: TaskId, comm: u64, (rank, ranks): (u64, u64), count: u64) {
    let (comm, rank, ranks, count) = (Some(comm), Some(rank), Some(ranks), Some(count));
    f.push(at, 0, Collective { task, comm, rank, ranks, count, datatype: None, op: None, peer: None });
}

/// Three ranks that launch and exchange in each step of 100 ms: processes of one host, or each of a host of a merged recording,
/// whose times are wrong by so much. The late one comes so much later.
fn exchanging_on(uncertainty_ns: Option<u64>, late: &dyn Fn(u64) -> u64, by_ns: u64) -> Fixture {
    const PIDS: u32 = 1 << 22;
    let mut f = Fixture::new();
    let base = |rank: u32| if uncertainty_ns.is_some() { rank * PIDS } else { rank };
    if let Some(ns) = uncertainty_ns {
        for (n, host) in ["a", "b", "c"].iter().enumerate() {
            f.writer().set_meta(&format!("host.{n}.host"), host);
            f.writer().set_meta(&format!("host.{n}.pid_base"), &base(n as u32).to_string());
            f.writer().set_meta(&format!("host.{n}.uncertainty_ns"), &ns.to_string());
        }
    }
    let ranks: Vec<TaskId> = (0..3).map(|i| f.task(50 + base(i), 50 + base(i))).collect();
    let launch = f.func("cudaLaunchKernel", Library::Runtime, Class::Launch);
    for step in 0..20 {
        for (rank, &task) in (0..).zip(&ranks) {
            let at = MS + step * 100 * MS + rank * 10_000;
            f.call(at, rank as u32, task, launch, 1_000);
            let at = at + 30 * MS + if late(step) == rank { by_ns } else { 0 };
            enters(&mut f, at, task, 0x1000 + rank, (rank, 3), 64 + step % 2);
        }
    }
    f
}

pub(super) fn exchanging(late: &dyn Fn(u64) -> u64) -> Found {
    incidents(exchanging_on(None, late, 50 * MS))
}

/// A stranger has the main thread's CPU, and then that of the worker that it waits for: the times of both are told.
#[test]
fn all_who_had_no_cpu_are_named() {
    let mut s = Scene::new();
    let hog = s.f.task(99, 99);
    let [summary, ..] = s
        .steps(|s, at| {
            s.f.switch(at, 0, s.main, PREEMPTED, hog);
            s.f.switch(at + 5 * MS, 0, hog, PREEMPTED, s.main);
            s.out(at + 6 * MS, 0, s.main, S, READ, hog);
            s.f.waking(at + 6 * MS + 1_000, 0, hog, s.worker, HARDIRQ);
            s.f.wakeup(at + 6 * MS + 1_000, 0, s.worker, 0);
            s.f.switch(at + 14 * MS, 0, hog, PREEMPTED, s.worker);
            s.f.waking(at + 15 * MS - 1_000, 0, s.worker, s.main, 0);
            s.out(at + 15 * MS, 0, s.worker, S, READ, s.main);
        })
        .told("cpu-contention");
    let told = "threads that it waited for had no CPU for 232 ms in which they could have run, its submitting thread had none for \
                145 ms, behind ? (99) 377 ms";
    assert!(summary.contains("lost 377 ms") && summary.ends_with(told), "{summary}");
}

/// A stranger has the main thread's CPU, and then nobody is seen there: that counts with what the stranger had, and is told apart.
#[test]
fn time_behind_nobody_is_told_where_it_counts_with_a_stranger() {
    let mut s = Scene::new();
    let hog = s.f.task(99, 99);
    let [summary, cause, _] = s
        .steps(|s, at| {
            s.f.switch(at, 0, s.main, PREEMPTED, hog);
            s.f.switch(at + 10 * MS, 0, hog, S, IDLE);
            s.f.switch(at + 15 * MS, 0, IDLE, 0, s.main);
        })
        .told("cpu-contention");
    assert!(
        summary.contains("lost 435 ms")
            && summary.ends_with("could have run for 290 ms more and had no CPU, behind ? (99) 290 ms"),
        "{summary}"
    );
    assert!(cause.ends_with("for 290 ms in all; nobody was seen on them for 145 ms more"), "{cause}");
}

/// Which CPUs threads may use was not recorded, or is lost: the cause does not mix them up.
#[test]
fn what_was_lost_of_who_may_use_which_cpus_is_told_as_lost() {
    let cause = |lost: bool| {
        let mut s = crowd(true);
        if lost {
            let probe = s.f.writer().string("task_affinity");
            s.f.push(MS, 0, Loss { probe, cause: 1, count: Some(5), to_ns: 2 * MS, of_host: None });
        }
        let [_, cause, _] = s.told("too-many-workers");
        cause
    };
    assert!(cause(false).contains("CPUs they may use is not recorded"), "{}", cause(false));
    assert!(cause(true).contains("CPUs they may use cannot be read from what is left"), "{}", cause(true));
}

#[test]
fn a_neighbour_is_one_of_another_control_group() {
    assert_eq!(bound(false, Some("/other"))[0].0, "noisy-neighbour");
    assert_eq!(bound(false, Some("/job"))[0].0, "cpu-contention");
}

/// Two neighbours in turn, in these groups, of which each has the CPU for so many of 18 ms.
fn two_neighbours(groups: [&str; 2], first_ms: u64) -> String {
    let mut s = Scene::new();
    let hogs = [s.f.task(80, 80), s.f.task(81, 81)];
    let all = [(s.main, "/job"), (hogs[0], groups[0]), (hogs[1], groups[1])];
    for (task, group) in all {
        let cgroup = s.f.writer().string(group);
        s.f.push(2, 0, ProcessCgroup { task, cgroup, container: None, pod: None });
    }
    let scene = s.steps(move |s, at| {
        s.f.switch(at, 0, s.main, PREEMPTED, hogs[0]);
        s.f.switch(at + first_ms * MS, 0, hogs[0], PREEMPTED, hogs[1]);
        s.f.switch(at + 18 * MS, 0, hogs[1], PREEMPTED, s.main);
    });
    let trace = scene.f.finish();
    let a = crate::Analysis::new(&trace, ingero_replay::Window::whole(&trace));
    format!("{}: {}", a.incidents[0].kind, a.incidents[0].root_cause)
}

#[test]
fn each_control_group_is_told_its_own_time() {
    let told = two_neighbours(["/a", "/b"], 12);
    assert!(
        told.starts_with("noisy-neighbour") && told.contains("other control groups (/a 348 ms, /b 174 ms)"),
        "{told}"
    );
    let told = two_neighbours(["/job", "/b"], 12);
    assert!(
        told.starts_with("cpu-contention")
            && told.contains("174 ms of that by processes of another control group (/b)"),
        "{told}"
    );
    let told = two_neighbours(["/job", "/job"], 12);
    assert!(!told.contains("control group"), "{told}");
}

#[test]
fn a_process_too_short_lived_to_be_asked_is_in_its_parents_control_group() {
    for (group, kind) in [("/other", "noisy-neighbour"), ("/job", "cpu-contention")] {
        let mut s = Scene::new();
        let shell = s.f.task(70, 70);
        assert_eq!(bound_beside(s, false, Some(group), Some(shell))[0].0, kind);
    }
}

#[test]
fn an_idle_cpu_that_may_not_be_used_is_a_squeeze_and_a_taken_one_is_contention() {
    let taken = bound(false, None);
    assert_eq!(taken[0].0, "cpu-contention");
    assert!(!has(&taken, "affinity-squeeze"), "{taken:?}");
    assert!(has(&crowded(false), "cpu-contention"), "{:?}", crowded(false));
}

#[test]
fn a_neighbour_on_the_cpu_that_a_job_is_bound_to_shares_the_blame() {
    let found = bound(true, None);
    let of = |kind: &str| found.iter().find(|i| i.0 == kind).map_or(0, |i| i.2);
    let (bound, taken) = (of("affinity-squeeze"), of("cpu-contention"));
    // Half each, and together no more than was lost.
    assert!(bound.abs_diff(taken) <= 1, "{found:?}");
    assert!((STEPS * 17 * MS..=STEPS * 18 * MS).contains(&((bound + taken) * STEPS / (STEPS - 1))), "{found:?}");
}

#[test]
fn what_another_thread_reclaims_holds_up_no_submitting_one() {
    assert!(has(&reclaiming_by(None, 15 * MS), "memory-pressure"));
    let found = reclaiming_by(Some(11), 15 * MS);
    assert!(!has(&found, "memory-pressure") && found[0].0 == "busy-main", "{found:?}");
}

#[test]
fn throttling_reclaim_and_kills_come_first() {
    assert_eq!(throttled(Some(1))[0].0, "cpu-quota");
    assert_eq!(reclaiming(15 * MS)[0].0, "memory-pressure");
    let found = killing(true);
    let kill = found.iter().find(|i| i.0 == "oom-kill").expect("no kill");
    assert!(kill.3.contains("worker (20), which had 1.0 GiB"), "{}", kill.3);
}

#[test]
fn a_kill_costs_gaps_behind_it_alone_and_nothing_where_events_are_lost() {
    let of = |found: Found| found.into_iter().find(|i| i.0 == "oom-kill").map(|i| (i.2, i.3));
    // From 45 ms to the launch at 61 ms: the gap that the kill lies in.
    let (lost_ns, summary) = of(killing_at(45 * MS, true, None)).unwrap();
    assert_eq!((lost_ns, summary.contains("lost 16.0 ms by it at least")), (16 * MS, true), "{summary}");
    // Within the last launch: no gap is behind it.
    let last = MS + (STEPS - 1) * PERIOD;
    let (lost_ns, summary) = of(killing_at(last + 5_000, true, None)).unwrap();
    assert_eq!((lost_ns, summary.contains("lost")), (0, false), "{summary}");
    // Within the last but one: the gap up to the last launch.
    let (lost_ns, _) = of(killing_at(last - PERIOD + 5_000, true, None)).unwrap();
    assert_eq!(lost_ns, PERIOD - 10_000);
    assert_eq!(of(killing_at(45 * MS, true, Some((44 * MS, 46 * MS)))), None);
    // Behind the phase's end as well.
    assert_eq!(of(killing_at(700 * MS, true, Some((690 * MS, 710 * MS)))), None);
}

#[test]
fn the_rank_that_comes_last_is_the_straggler() {
    let found = exchanging(&|_| 2);
    let told: Vec<_> = found.iter().filter(|i| i.0 == "nccl-straggler").collect();
    assert_eq!(told.len(), 2, "{found:?}");
    assert!(told.iter().all(|i| i.1 == Severity::High && i.3.contains(" in all before rank 2")), "{told:?}");
}

/// `ncclBroadcast` calls `ncclBcast`, and both are recorded: one exchange.
#[test]
fn a_collective_within_another_is_no_exchange_of_its_own() {
    let mut f = Fixture::new();
    let ranks = [f.task(50, 50), f.task(51, 51)];
    let launch = f.func("cudaLaunchKernel", Library::Runtime, Class::Launch);
    let [outer, inner] = ["ncclBroadcast", "ncclBcast"].map(|symbol| f.func(symbol, Library::Nccl, Class::Collective));
    for step in 0..20 {
        for (rank, &task) in (0..).zip(&ranks) {
            let (at, cpu) = (MS + step * 100 * MS, rank as u32);
            f.call(at, cpu, task, launch, 5_000);
            let at = at + if rank == 1 { 80 * MS } else { 10 * MS };
            for (func, later, ns) in [(outer, 0, 20_000), (inner, 5_000, 10_000)] {
                f.call(at + later, cpu, task, func, ns);
                enters(&mut f, at + later, task, 0x1000 + rank, (rank, 2), 64);
            }
        }
    }
    let told = stragglers(f);
    assert!(told.len() == 1 && told[0].3.ends_with("20 of 20 collectives"), "{told:?}");
}

/// A rank that goes on submitting while its peer is behind has lost nothing by that: it runs ahead of its own device.
#[test]
fn a_rank_that_runs_ahead_waits_for_nobody() {
    let scene = |stands: bool| {
        let mut f = Fixture::new();
        let ranks = [f.task(50, 50), f.task(51, 51)];
        let launch = f.func("cudaLaunchKernel", Library::Runtime, Class::Launch);
        let sync = f.func("cudaDeviceSynchronize", Library::Runtime, Class::Sync);
        for step in 0..20 {
            for (rank, &task) in (0..).zip(&ranks) {
                let at = MS + step * 100 * MS;
                // Rank 1 enters 80 ms late; meanwhile rank 0 waits for its device, or launches.
                let enters_at = at + if rank == 1 { 90 * MS } else { 10 * MS };
                if rank == 0 && stands {
                    f.call(at, 0, task, launch, 5_000);
                    enters(&mut f, enters_at, task, 0x1000, (0, 2), 64);
                    f.call(enters_at + 10_000, 0, task, sync, 80 * MS);
                } else {
                    for n in 0..190 {
                        let launch_at = at + n * 500_000;
                        if n > 0 && enters_at <= launch_at && launch_at < enters_at + 500_000 {
                            enters(&mut f, launch_at - 1_000, task, 0x1000 + rank, (rank, 2), 64);
                        }
                        f.call(launch_at, rank as u32, task, launch, 5_000);
                    }
                }
            }
        }
        stragglers(f)
    };
    assert_eq!(scene(true).len(), 1);
    assert_eq!(scene(false), []);
}

/// What is told of stragglers.
fn stragglers(f: Fixture) -> Found {
    incidents(f).into_iter().filter(|i| i.0 == "nccl-straggler").collect()
}

#[test]
fn ranks_of_several_hosts_are_compared_as_far_as_their_clocks_can_tell() {
    let on_hosts = |by_ns| stragglers(exchanging_on(Some(2 * MS), &|_| 2, by_ns));
    let told = on_hosts(50 * MS);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].3.contains("(rank 0 on a)") && told[0].3.contains("before rank 2, ? (8388658) on c"), "{told:?}");
    // Of each wait, 20 us longer or 10, are left out what each host's times may be wrong by and what NTP leaves; the first step is warm-up.
    let waits = [50 * MS + 20_000, 50 * MS + 10_000].map(|ns| 19 * (ns - 2 * 2 * MS - MS));
    assert_eq!(told.iter().map(|i| i.2).collect::<Vec<_>>(), waits);
    // A rank that is late by less than the clocks leave in doubt is not known to be.
    assert_eq!(on_hosts(4 * MS), []);
    assert_eq!(stragglers(exchanging_on(None, &|_| 2, 4 * MS)).len(), 2, "one host has one clock");
}

#[test]
fn a_host_whose_clock_nobody_knows_is_blamed_for_nothing() {
    let mut f = exchanging_on(Some(2 * MS), &|_| 2, 50 * MS);
    f.writer().set_meta("host.2.uncertainty_ns", "?");
    assert_eq!(stragglers(f), []);
}

#[test]
fn behind_a_lost_call_no_collective_has_a_number() {
    let lossy = |probe: &str, step: u64| {
        let mut f = exchanging_on(None, &|_| 2, 50 * MS);
        let (at, probe) = (step * 100 * MS, f.writer().string(probe));
        f.push(at, 0, ingero_format::catalog::Loss { to_ns: at + 1, probe, cause: 0, count: Some(1), of_host: None });
        stragglers(f)
    };
    assert_eq!(lossy("call", 5), []);
    let told = lossy("call", 15);
    assert!(told.len() == 2 && told[0].3.contains("15 of 15"), "{told:?}");
    assert!(lossy("page_fault_user", 5)[0].3.contains("19 of 19"));
}

/// Two pairs of ranks within four processes, beside the communicator of all: of the pairs nobody can say who is whose.
#[test]
fn communicators_are_counted_apart() {
    let scene = |of_all: bool| {
        let mut f = Fixture::new();
        let tasks: Vec<TaskId> = (0..4).map(|i| f.task(50 + i, 50 + i)).collect();
        let launch = f.func("cudaLaunchKernel", Library::Runtime, Class::Launch);
        for step in 0..20 {
            for (n, &task) in (0..).zip(&tasks) {
                let at = MS + step * 100 * MS + n * 10_000;
                f.call(at, n as u32, task, launch, 1_000);
                let at = at + 30 * MS + if n == 3 { 50 * MS } else { 0 };
                // Some have exchanged more within their pair than others.
                for more in 0..=(step + n) % 2 {
                    enters(&mut f, at + more * 1_000, task, 1, (n % 2, 2), 8);
                }
                if of_all {
                    enters(&mut f, at + 5_000, task, 2, (n, 4), 64);
                }
            }
        }
        stragglers(f)
    };
    let told = scene(true);
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told.iter().all(|i| i.3.contains("before rank 3, ? (53), which came last to 19 of 19")), "{told:?}");
    assert_eq!(scene(false), []);
}

#[test]
fn a_range_does_not_shift_the_numbers_of_collectives() {
    let trace = exchanging_on(None, &|_| 2, 50 * MS).finish();
    // Rank 2 enters the sixth exchange within the range, the others before it.
    let window = ingero_replay::Window { from_ns: 560 * MS, ..ingero_replay::Window::whole(&trace) };
    let a = Analysis::new(&trace, window);
    let told: Vec<_> = a.incidents.iter().filter(|i| i.kind == "nccl-straggler").collect();
    assert!(!told.is_empty() && told.iter().all(|i| i.summary.contains("before rank 2")), "{told:?}");
}

#[test]
// Several collectives that are queued at once wait for the straggler at once: their waits are one.
fn queued_collectives_wait_once() {
    let mut f = Fixture::new();
    let ranks: Vec<TaskId> = (0..2).map(|i| f.task(50 + i, 50 + i)).collect();
    let launch = f.func("cudaLaunchKernel", Library::Runtime, Class::Launch);
    for step in 0..20 {
        for (rank, &task) in (0..).zip(&ranks) {
            let at = MS + step * 100 * MS + rank * 10_000;
            f.call(at, rank as u32, task, launch, 1_000);
            for queued in 0..8 {
                enters(&mut f, at + 10 * MS + queued * 1_000 + rank * 60 * MS, task, 1, (rank, 2), 64);
            }
        }
    }
    let found = incidents(f);
    let told = found.iter().find(|i| i.0 == "nccl-straggler").expect("no straggler");
    // Of each step 60.01 ms and the 7 us in which the last rank's entries follow each other; the first step is warm-up.
    assert_eq!(told.2, 19 * (60 * MS + 10_000 + 7_000), "{told:?}");
}
