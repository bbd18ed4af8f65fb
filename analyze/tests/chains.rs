//! Wait chains against a second way to work them out: slow, from what was made up, with neither the file, the merge
//! nor the timeline between.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use ingero_analyze::{Analysis, Ending, report};
use ingero_format::catalog::{Class, Layer, Switch, TaskId};
use ingero_replay::Window;
use ingero_replay::fixture::Fixture;

/// One step of time: long enough that a gap of one counts as lost.
const STEP: u64 = 60_000;
const IDLE: TaskId = TaskId(0);
const BLOCKED: u64 = 1;
const PREEMPTED: u64 = 0x100;
const INTERRUPT: u64 = 2;
/// A system call that may have a time limit: where an interrupt ends it, the limit did.
const POLL: u64 = 7;
/// Steps for which a thread may run between two waits that are for the same thing: 2 ms.
const LOOKS: usize = 33;
/// Lengths of a timed wait that is one for an interpreter's lock: 4.5 to 5.6 ms.
const LOCK_INTERVAL: std::ops::RangeInclusive<usize> = 75..=93;

/// Numbers that come in no pattern, the same ones each time (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as usize
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Runs(usize),
    Runnable(usize),
    Blocked,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Switch {
        cpu: usize,
        prev: usize,
        state: u64,
        next: usize,
        timed: bool,
    },
    /// The waker is 0 for an interrupt, whoever was current then.
    Wake {
        cpu: usize,
        current: usize,
        waker: usize,
        wakee: usize,
        target: usize,
    },
    Launch {
        cpu: usize,
    },
}

/// A made-up run: what was recorded, and what every thread did in each step.
struct Story {
    events: Vec<(u64, Event)>,
    /// States by step, then thread; thread 0 is nobody.
    states: Vec<Vec<State>>,
    /// For each thread its waits.
    waits: Vec<Vec<Wait>>,
    threads: usize,
}

/// A wait from one step to another, and who ended it.
#[derive(Clone, Copy, Debug)]
struct Wait {
    out: usize,
    woken: usize,
    waker: usize,
    timed: bool,
}

impl Wait {
    fn ran_out(&self) -> bool {
        self.timed && self.waker == 0 && !LOCK_INTERVAL.contains(&(self.woken - self.out))
    }
}

/// Thread 1 submits. Each step holds one event, at its begin.
fn story(seed: u64, threads: usize, cpus: usize, steps: usize) -> Story {
    let mut dice = Dice(seed);
    let mut now = vec![State::Blocked; threads + 1];
    let mut on = vec![0; cpus];
    let mut s = Story { events: Vec::new(), states: Vec::new(), waits: vec![Vec::new(); threads + 1], threads };
    let mut out = vec![(0, false); threads + 1];
    for step in 0..steps {
        let at = step as u64 * STEP;
        let cpu = dice.below(cpus);
        let runs = on[cpu];
        let waiting: Vec<usize> = (1..=threads).filter(|&t| now[t] == State::Runnable(cpu)).collect();
        let blocked: Vec<usize> = (1..=threads).filter(|&t| now[t] == State::Blocked).collect();
        let next = if waiting.is_empty() { 0 } else { waiting[dice.below(waiting.len())] };
        let event = match dice.below(10) {
            0..=2 if runs == 1 => Event::Launch { cpu },
            0..=3 if runs != 0 => Event::Switch { cpu, prev: runs, state: BLOCKED, next, timed: dice.below(2) == 0 },
            4 if runs != 0 && next != 0 => Event::Switch { cpu, prev: runs, state: PREEMPTED, next, timed: false },
            5..=8 if !blocked.is_empty() => {
                let wakee = blocked[dice.below(blocked.len())];
                let waker = if dice.below(4) == 0 { 0 } else { runs };
                Event::Wake { cpu, current: runs, waker, wakee, target: dice.below(cpus) }
            }
            _ if runs == 0 && next != 0 => Event::Switch { cpu, prev: 0, state: 0, next, timed: false },
            _ => {
                s.states.push(now.clone());
                continue;
            }
        };
        match event {
            Event::Switch { prev, state, next, timed, .. } => {
                if prev != 0 {
                    out[prev] = (step, timed);
                    now[prev] = if state == BLOCKED { State::Blocked } else { State::Runnable(cpu) };
                }
                if next != 0 {
                    now[next] = State::Runs(cpu);
                }
                on[cpu] = next;
            }
            Event::Wake { waker, wakee, target, .. } => {
                now[wakee] = State::Runnable(target);
                let (out, timed) = out[wakee];
                s.waits[wakee].push(Wait { out, woken: step, waker, timed });
            }
            Event::Launch { .. } => {}
        }
        s.events.push((at, event));
        s.states.push(now.clone());
    }
    s
}

type Told = BTreeMap<String, u64>;

impl Story {
    /// The recording, each event in the order that `order` gives.
    fn recorded(&self, rows: usize, by_cpu: bool) -> Fixture {
        let mut f = Fixture::with_rows(rows);
        let tasks: Vec<TaskId> =
            (0..=self.threads).map(|t| if t == 0 { IDLE } else { f.task(100 + t as u32, 100 + t as u32) }).collect();
        let launch = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
        let mut events = self.events.clone();
        if by_cpu {
            events.sort_by_key(|(_, e)| match e {
                Event::Switch { cpu, .. } | Event::Wake { cpu, .. } | Event::Launch { cpu } => *cpu,
            });
        }
        for (at, event) in events {
            let at = 1_000_000 + at;
            match event {
                Event::Switch { cpu, prev, state, next, timed } => {
                    let (prev, next, syscall) = (tasks[prev], tasks[next], timed.then_some(POLL));
                    let (prev_prio, next_prio, throttled) = (None, None, None);
                    let prev_state = state;
                    f.push(at, cpu as u32, Switch { prev, prev_state, prev_prio, next, next_prio, syscall, throttled });
                }
                Event::Wake { cpu, current, waker, wakee, target } => {
                    // Two rows, as the kernel writes them.
                    let context = if waker == 0 { INTERRUPT } else { 0 };
                    f.waking(at, cpu as u32, tasks[current], tasks[wakee], context);
                    f.wakeup(at, target as u32, tasks[wakee], target as u64);
                }
                Event::Launch { cpu } => f.call(at, cpu as u32, tasks[1], launch, 1),
            }
        }
        f
    }

    /// Steps in which nothing was submitted, between the first and the last launch: a launch takes its first nanosecond.
    fn expected(&self) -> Told {
        let launches: Vec<usize> = self
            .events
            .iter()
            .filter(|(_, e)| matches!(e, Event::Launch { .. }))
            .map(|(at, _)| (at / STEP) as usize)
            .collect();
        let mut told = Told::new();
        let (Some(&first), Some(&last)) = (launches.first(), launches.last()) else { return told };
        for step in first..last {
            let ns = if launches.contains(&step) { STEP - 1 } else { STEP };
            self.tell(step, 1, "", usize::MAX, ns, &mut told);
        }
        told
    }

    /// What a thread did in a step; where it waited, what it waited for. Whoever asks has what it asks for at `until`.
    fn tell(&self, step: usize, thread: usize, path: &str, until: usize, ns: u64, told: &mut Told) {
        let before = path.to_owned();
        let path = format!("{path}/{thread}");
        let mut add = |what: &str| *told.entry(format!("{path} {what}")).or_default() += ns;
        match self.states[step][thread] {
            State::Runs(_) => add("ran"),
            State::Runnable(cpu) => {
                add("runnable");
                if let Some(t) = (1..=self.threads).find(|&t| self.states[step][t] == State::Runs(cpu)) {
                    add(&format!("behind {t}"));
                }
            }
            State::Blocked => {
                let Some(at) = self.waits[thread].iter().position(|w| w.woken > step) else { return add("edge") };
                let wait = self.waits[thread][at];
                let waker = if wait.ran_out() { self.later(thread, at, before.is_empty(), until) } else { wait.waker };
                match waker {
                    0 => add("interrupt"),
                    t if path.split('/').any(|on| on == t.to_string()) => add("unknown-waker"),
                    t => self.tell(step, t, &path, wait.woken, ns, told),
                }
            }
        }
    }

    /// Who ended the wait that came after one that ran out, for the same thing; 0 where nobody did.
    fn later(&self, thread: usize, at: usize, submits: bool, until: usize) -> usize {
        let waits = &self.waits[thread];
        let (wait, Some(next)) = (waits[at], waits.get(at + 1)) else { return 0 };
        let between = wait.woken..next.out;
        let ran = between.clone().filter(|&step| matches!(self.states[step][thread], State::Runs(_))).count();
        let launches =
            |(ts, e): &(u64, Event)| matches!(e, Event::Launch { .. }) && between.contains(&((ts / STEP) as usize));
        if ran > LOOKS || next.out >= until || (submits && self.events.iter().any(launches)) {
            return 0;
        }
        if next.ran_out() { self.later(thread, at + 1, submits, until) } else { next.waker }
    }
}

/// What the analysis says, in the same words.
fn told(a: &Analysis) -> Told {
    let mut told = Told::new();
    for p in &a.phases {
        let mut paths: BTreeMap<usize, String> = BTreeMap::new();
        for (at, link) in p.chains.links() {
            let before = link.waiter.map_or("", |w| paths[&w].as_str());
            let path = format!("{before}/{}", a.trace.task(link.task).pid - 100);
            let mut add = |what: String, ns: u64| {
                if ns > 0 {
                    *told.entry(format!("{path} {what}")).or_default() += ns;
                }
            };
            add("ran".into(), link.ran.ns);
            add("runnable".into(), link.runnable.ns);
            for (id, ns) in &link.behind {
                add(format!("behind {}", a.processes.get(*id).pid - 100), *ns);
            }
            for (ending, part) in Ending::ALL.into_iter().zip(link.endings) {
                // Told apart by their length alone, where the system call is not known.
                let interrupt = matches!(ending, Ending::LockInterval | Ending::Timeout | Ending::StatusCheck);
                add(if interrupt { "interrupt".into() } else { ending.name().into() }, part.ns);
            }
            paths.insert(at, path);
        }
    }
    told
}

fn both(seed: u64) -> (Story, ingero_format::Trace) {
    let mut dice = Dice(seed ^ 0xfeed);
    let story = story(seed, 2 + dice.below(6), 1 + dice.below(3), 1500);
    let trace = story.recorded(1 << 16, false).finish();
    (story, trace)
}

#[test]
fn each_moment_of_a_gap_is_told_as_the_slow_way_tells_it() {
    let mut links = 0;
    for seed in 0..300 {
        let (story, trace) = both(seed);
        let a = Analysis::new(&trace, Window::whole(&trace));
        assert_eq!(told(&a), story.expected(), "seed {seed}");
        assert_eq!((a.repairs.synthesised, a.repairs.dropped), (0, 0), "seed {seed}");
        links = links.max(a.phases.iter().map(|p| p.chains.links().count()).max().unwrap_or(0));
    }
    assert!(links > 12, "no chain was long: {links}");
}

#[test]
fn the_parts_of_the_gaps_sum_to_the_gaps() {
    for seed in 0..300 {
        let (_, trace) = both(seed);
        let a = Analysis::new(&trace, Window::whole(&trace));
        for p in &a.phases {
            assert_eq!(p.chains.all_ns(), p.lost_gaps_ns(), "seed {seed}");
            assert_eq!(p.submitters.total_ns(), p.phase.gaps_ns(), "seed {seed}");
            assert!(p.phase.gaps_ns() <= p.phase.len_ns(), "seed {seed}");
            let roots: u64 = p.chains.roots().map(|(at, _)| p.chains.total_ns(at)).sum();
            assert_eq!(roots, p.chains.all_ns(), "seed {seed}");
            for (at, link) in p.chains.links() {
                assert!(link.behind.values().sum::<u64>() <= link.runnable.ns, "seed {seed}");
                assert!(p.chains.total_ns(at) <= p.phase.len_ns(), "seed {seed}");
            }
        }
        // No incident takes what another has: together they never exceed the gaps.
        let lost: u64 = a.incidents.iter().map(|i| i.lost_ns).sum();
        let whole: u64 = a.phases.iter().map(|p| p.phase.len_ns()).sum();
        assert!(lost <= whole, "seed {seed}: {lost} of {whole}");
        // No thread does more than there is time.
        for id in a.active() {
            let f = a.figures(id);
            assert!(f.on_cpu_ns + f.off_cpu.sum_ns <= a.window.len_ns(), "seed {seed}");
        }
    }
}

#[test]
fn the_order_of_the_file_does_not_matter() {
    for seed in 0..100 {
        let (story, trace) = both(seed);
        let json =
            |trace: &ingero_format::Trace| report::json(&Analysis::new(trace, Window::whole(trace)), &[]).unwrap();
        let expected = json(&trace);
        for (rows, by_cpu) in [(7, false), (1 << 16, true), (5, true)] {
            assert_eq!(json(&story.recorded(rows, by_cpu).finish()), expected, "seed {seed}");
        }
    }
}
