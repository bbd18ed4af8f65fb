//! No nanosecond has two causes: over made-up runs in which everything happens side by side, the incidents of a phase add up to
//! no more than its wall time.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use ingero_analyze::{Analysis, Severity};
use ingero_format::catalog::{Call, Class, Collective, Fork, FuncId, Layer, Loss, OomKill, PageAlloc, Reclaim, TaskId};
use ingero_replay::Window;
use ingero_replay::fixture::{Dice, Fixture, returned};

const IDLE: TaskId = TaskId(0);
const MS: u64 = 1_000_000;
const LEN: u64 = 400 * MS;
const POLL: u64 = 7;

struct Functions {
    launch: FuncId,
    sync: FuncId,
    copy: FuncId,
    malloc: FuncId,
    free: FuncId,
    graph: FuncId,
}

fn copies(task: TaskId, func: FuncId, bytes: u64, ns: u64) -> Call {
    Call { bytes: Some(bytes), copy: Some(1), ..returned(task, func, ns) }
}

/// What a thread does on a CPU of its own: bursts of launches, copies, allocations, graphs, waits, computing; and waits that somebody
/// else ends, or nobody.
fn lives(f: &mut Fixture, dice: &mut Dice, (cpu, task): (u32, TaskId), others: &[TaskId], calls: Option<&Functions>) {
    let idle_kinds = if calls.is_some() { 3 } else { 1 };
    let mut at = 1_000 + dice.below(MS);
    f.switch(at, cpu, IDLE, 0, task);
    while at < LEN {
        at += 1_000;
        match (dice.below(8), calls) {
            (0, Some(c)) => {
                for _ in 0..5 + dice.below(200) {
                    f.call(at, cpu, task, c.launch, 5_000);
                    at += 6_000;
                    if dice.below(30) == 0 {
                        let ns = 200_000 + dice.below(5 * MS);
                        f.push(at, cpu, copies(task, c.copy, 1 << (18 + dice.below(6)), ns));
                        at += ns + 1_000;
                    }
                    if dice.below(40) == 0 {
                        let ns = 10_000 + dice.below(MS);
                        let func = [c.malloc, c.free][dice.below(2) as usize];
                        f.call(at, cpu, task, func, ns);
                        at += ns + 1_000;
                    }
                }
                let ns = [2_000, 3 * MS][dice.below(2) as usize];
                f.call(at, cpu, task, c.sync, ns);
                at += ns;
            }
            (1 | 2, Some(c)) => {
                let ns = 1_000 + dice.below(4 * MS);
                let func = [c.malloc, c.free, c.graph][dice.below(3) as usize];
                f.call(at, cpu, task, func, ns);
                at += ns;
            }
            (3, _) => at += dice.below(10 * MS),
            (n, _) if n < 4 + idle_kinds => {
                let (state, ns) = (1 + dice.below(2), 10_000 + dice.below(12 * MS));
                let by = dice.below(others.len() as u64 + 1) as usize;
                let e = ingero_format::catalog::Switch {
                    prev: task,
                    prev_state: state,
                    prev_prio: None,
                    next: IDLE,
                    next_prio: None,
                    syscall: Some(POLL),
                    throttled: Some(u64::from(dice.below(5) == 0)),
                };
                f.push(at, cpu, e);
                match others.get(by) {
                    Some(&by) => f.waking(at + ns / 2, cpu, by, task, 0),
                    None => f.waking(at + ns / 2, cpu, IDLE, task, 1 + dice.below(2)),
                }
                f.switch(at + ns, cpu, IDLE, 0, task);
                at += ns;
            }
            _ => {
                let ns = dice.below(3 * MS);
                let reclaim = Reclaim { task, dur_ns: Some(ns), order: Some(0), reclaimed: Some(32), memcg: 1 };
                f.push(at, cpu, reclaim);
                for i in 0..dice.below(200) {
                    let page = PageAlloc { task, pfn: Some(i), order: 0, gfp_flags: 0, migratetype: None };
                    f.push(at + i * 1_000, cpu, page);
                }
                at += ns.max(200_000);
            }
        }
    }
    f.switch(at, cpu, task, 1, IDLE);
}

fn story(seed: u64) -> Fixture {
    let mut dice = Dice(seed);
    let mut f = Fixture::with_rows(700);
    // Two threads of a process that submit, its worker, another rank, and a stranger.
    let tasks: Vec<TaskId> = [(10, 10), (10, 11), (20, 20), (30, 30), (40, 40)].map(|(p, t)| f.task(p, t)).to_vec();
    f.push(10, 0, Fork { parent: tasks[0], child: tasks[2] });
    let mut func = |name: &str, class| f.func(name, Layer::Runtime, class);
    let calls = Functions {
        launch: func("cudaLaunchKernel", Class::Launch),
        sync: func("cudaDeviceSynchronize", Class::Sync),
        copy: func("cudaMemcpy", Class::Copy),
        malloc: func("cudaMalloc", Class::Alloc),
        free: func("cudaFree", Class::Free),
        graph: func("cudaGraphInstantiate", Class::Graph),
    };
    for (cpu, &task) in (0..).zip(&tasks) {
        // The second thread submits in some runs only.
        let submits = matches!(cpu, 0 | 3) || (cpu == 1 && seed.is_multiple_of(3));
        let others: Vec<TaskId> = tasks.iter().copied().filter(|&t| t != task).collect();
        lives(&mut f, &mut dice, (cpu, task), &others, submits.then_some(&calls));
    }
    // The other rank comes late, in most runs.
    if !seed.is_multiple_of(4) {
        for n in 0..20 {
            let at = 5 * MS + n * 19 * MS + dice.below(2 * MS);
            for (rank, task, late) in [(0, tasks[0], 0), (1, tasks[3], dice.below(12 * MS))] {
                let e = Collective {
                    task,
                    comm: Some(1 + rank),
                    rank: Some(rank),
                    ranks: Some(2),
                    count: Some(64),
                    datatype: None,
                    op: None,
                    peer: None,
                };
                f.push(at + late, 0, e);
            }
        }
    }
    if seed.is_multiple_of(5) {
        let at = dice.below(LEN);
        let kill = OomKill {
            task: tasks[0],
            victim: tasks[2],
            total_bytes: None,
            anon_bytes: None,
            file_bytes: None,
            shmem_bytes: None,
            score_adj: None,
        };
        f.push(at, 1, kill);
    }
    if seed.is_multiple_of(7) {
        let probe = f.writer().string("sched_switch");
        let from = dice.below(LEN);
        f.push(from, 0, Loss { probe, cause: 0, count: Some(1), to_ns: from + dice.below(20 * MS), of_host: None });
    }
    f
}

#[test]
fn the_causes_of_a_phase_add_up_to_no_more_than_it_lasted() {
    let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
    for seed in 0..120 {
        let trace = story(seed).finish();
        let whole = Window::whole(&trace);
        for window in [whole, Window { from_ns: 90 * MS, to_ns: 250 * MS, ..whole }] {
            let a = Analysis::new(&trace, window);
            for p in &a.phases {
                let of_phase = a.incidents.iter().filter(|i| i.phase == p.number);
                let lost: Vec<_> = of_phase.map(|i| (i.kind, i.lost_ns)).collect();
                let sum: u64 = lost.iter().map(|(_, ns)| ns).sum();
                assert!(sum <= p.phase.claimed_ns(), "{seed}: {sum} of {} in {lost:?}", p.phase.claimed_ns());
                // What is lost in no gap is told as such.
                let in_gaps: u64 =
                    a.incidents.iter().filter(|i| i.phase == p.number).map(|i| i.lost_ns - i.fed_ns).sum();
                assert!(in_gaps <= p.phase.gaps_ns(), "{seed}: {in_gaps} of {} in {lost:?}", p.phase.gaps_ns());
                let chained: u64 = p.chains.roots().map(|(at, _)| p.chains.total_ns(at)).sum();
                assert!(chained <= p.lost_gaps_ns(), "{seed}: {chained} of {}", p.lost_gaps_ns());
            }
            for i in &a.incidents {
                assert!(i.share <= 1.0 && (i.severity == Severity::High) >= (i.share >= 0.2), "{i:?}");
                *seen.entry(i.kind).or_default() += 1;
            }
        }
    }
    // All that is told beside the gaps' own causes was there.
    for kind in ["oom-kill", "nccl-straggler", "launch-bound", "pageable-copies", "allocation-churn", "busy-main"] {
        assert!(seen.get(kind).is_some_and(|&n| n >= 3), "{kind}: {seen:?}");
    }
}
