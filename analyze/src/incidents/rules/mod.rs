//! Each rule on made-up streams: one that fires it, and one beside it that must not.

mod calls;
mod machine;
mod waits;

use super::tests::incidents;
use super::*;
use ingero_format::catalog::{Class, Fork, FuncId, Layer as Library, Name, Switch, TaskId};
use ingero_replay::fixture::Fixture;

const IDLE: TaskId = TaskId(0);
const S: u64 = 1;
const D: u64 = 2;
const PREEMPTED: u64 = 0x100;
const MS: u64 = 1_000_000;
const FUTEX: u64 = 202;
const READ: u64 = 0;
const POLL: u64 = 7;
const IO_URING: u64 = 426;
const NANOSLEEP: u64 = 230;
const SOFTIRQ: u64 = 1;
const HARDIRQ: u64 = 2;

/// A process that submits every 20 ms, on CPU 0 from the start; a rule's test says what it does in between.
struct Scene {
    f: Fixture,
    main: TaskId,
    worker: TaskId,
    launch: FuncId,
}

const PERIOD: u64 = 20 * MS;
const STEPS: u64 = 30;

impl Scene {
    fn new() -> Self {
        let mut f = Fixture::new();
        let (main, worker) = (f.task(10, 10), f.task(20, 20));
        for (task, text) in [(main, "train"), (worker, "worker")] {
            let name = f.writer().string(text);
            f.push(0, 0, Name { task, name, source: 0 });
        }
        let launch = f.func("cudaLaunchKernel", Library::Runtime, Class::Launch);
        f.switch(0, 0, IDLE, 0, main);
        f.push(10, 0, Fork { parent: main, child: worker });
        Self { f, main, worker, launch }
    }

    /// Steps of a launch and of what `between` does from 1 ms after it until 19 ms after it.
    fn steps(mut self, mut between: impl FnMut(&mut Self, u64)) -> Self {
        for i in 0..STEPS {
            let at = MS + i * PERIOD;
            self.f.call(at, 0, self.main, self.launch, 10_000);
            between(&mut self, at + MS);
        }
        self
    }

    /// `task` leaves the CPU for `next`.
    fn out(&mut self, at: u64, cpu: u32, task: TaskId, state: u64, syscall: u64, next: TaskId) {
        let syscall = Some(syscall);
        let e =
            Switch { prev: task, prev_state: state, prev_prio: None, next, next_prio: None, syscall, throttled: None };
        self.f.push(at, cpu, e);
    }

    /// `task` blocks on CPU 0 until an interrupt wakes it 18 ms later.
    fn waits(&mut self, at: u64, task: TaskId, state: u64, syscall: u64, context: u64) {
        self.waits_for(at, 18 * MS, task, state, syscall, context);
    }

    fn waits_for(&mut self, at: u64, len: u64, task: TaskId, state: u64, syscall: u64, context: u64) {
        self.out(at, 0, task, state, syscall, IDLE);
        self.f.waking(at + len - 1_000, 0, IDLE, task, context);
        self.f.switch(at + len, 0, IDLE, 0, task);
    }

    /// The main thread waits on CPU 0 for the worker, which runs there.
    fn works(&mut self, at: u64) {
        let (main, worker) = (self.main, self.worker);
        self.out(at, 0, main, S, READ, IDLE);
        self.f.waking(at + 1_000, 0, IDLE, worker, HARDIRQ);
        self.f.wakeup(at + 1_000, 0, worker, 0);
        self.f.switch(at + 2_000, 0, IDLE, 0, worker);
        self.f.waking(at + 18 * MS - 1_000, 0, worker, main, 0);
        self.out(at + 18 * MS, 0, worker, S, READ, main);
    }

    fn found(self) -> Found {
        incidents(self.f)
    }

    /// The summary and the cause of an incident of this kind, and the verdict.
    fn told(self, kind: &str) -> [String; 3] {
        let trace = self.f.finish();
        let a = Analysis::new(&trace, ingero_replay::Window::whole(&trace));
        let incident = a.incidents.iter().find(|i| i.kind == kind).expect("no incident");
        let verdict = crate::report::verdicts(&a, &|_| true).join("; ");
        [incident.summary.clone(), incident.root_cause.clone(), verdict]
    }
}

/// Kind, severity, lost time and summary of each incident.
type Found = Vec<(&'static str, Severity, u64, String)>;

fn has(found: &[(&'static str, Severity, u64, String)], kind: &str) -> bool {
    found.iter().any(|i| i.0 == kind)
}

/// The first cause is this one, it is HIGH, and it takes nearly all of the gaps' 18 ms of 20.
fn assert_first(scene: Scene, kind: &str) -> String {
    let found = scene.found();
    let (first, severity, lost_ns, summary) = found.first().cloned().expect("no incident");
    assert_eq!((first, severity), (kind, Severity::High), "{found:?}");
    assert!((STEPS * 17 * MS..STEPS * PERIOD).contains(&(lost_ns * STEPS / (STEPS - 1))), "{lost_ns} {found:?}");
    summary
}

/// For a kind of incident a stream that brings it about, and one beside it that must not.
struct Pair {
    kind: &'static str,
    fires: fn() -> Found,
    must_not: fn() -> Found,
}

const fn pair(kind: &'static str, fires: fn() -> Found, must_not: fn() -> Found) -> Pair {
    Pair { kind, fires, must_not }
}

fn working() -> Found {
    Scene::new().steps(|s, at| s.works(at)).found()
}

fn idling() -> Found {
    Scene::new().found()
}

const PAIRS: &[Pair] = &[
    pair("busy-workers", working, || waits::sleeping(FUTEX)),
    pair("block-io", || waits::waiting(D, 999, SOFTIRQ), || waits::waiting(S, FUTEX, HARDIRQ)),
    pair("network", || waits::waiting(S, POLL, SOFTIRQ), || waits::waiting(S, POLL, HARDIRQ)),
    pair("tcp-retransmits", || waits::retransmitting(true), || waits::retransmitting(false)),
    pair("interpreter-lock", || waits::locked(5 * MS + 50_000), || waits::locked(3 * MS)),
    pair("status-check", || waits::checking(5_001 * MS), || waits::checking(4_000 * MS)),
    pair("other-process", waits::served, working),
    pair("hand-over", waits::in_pieces, working),
    pair("busy-main", || calls::faulting(20_000), || calls::faulting(1_200)),
    pair("page-faults", || calls::faulting(1_200), || calls::faulting(20_000)),
    pair("allocation-churn", || calls::churning(true), || calls::churning(false)),
    pair("graph-capture", || calls::capturing(true), || calls::capturing(false)),
    pair("waits-too-often", || calls::waiting_behind(300_000), || calls::waiting_behind(1_000)),
    pair("launch-bound", || calls::bursting(5_000), || calls::bursting(900_000)),
    pair("pageable-copies", || calls::copying(6 * MS), || calls::copying(MS)),
    pair("affinity-squeeze", || machine::bound(true, None), || machine::bound(false, None)),
    pair("cpu-contention", || machine::bound(false, None), idling),
    pair("wake-up-latency", || machine::waking(true), || machine::waking(false)),
    pair("noisy-neighbour", || machine::bound(false, Some("/other")), || machine::bound(false, Some("/job"))),
    pair("too-many-workers", || machine::crowded(true), || machine::crowded(false)),
    pair("cpu-quota", || machine::throttled(Some(1)), || machine::throttled(Some(0))),
    pair("memory-pressure", || machine::reclaiming(15 * MS), || machine::reclaiming(20_000)),
    pair("oom-kill", || machine::killing(true), || machine::killing(false)),
    pair("nccl-straggler", || machine::exchanging(&|_| 2), || machine::exchanging(&|step| step % 3)),
];

#[test]
fn every_rule_has_a_stream_that_fires_it_and_one_that_must_not() {
    for kind in RULES.iter().flat_map(|rule| rule.kinds) {
        assert!(PAIRS.iter().any(|p| p.kind == *kind), "{kind} has no pair of streams");
    }
    for p in PAIRS {
        assert!(RULES.iter().any(|rule| rule.kinds.contains(&p.kind)), "no rule finds {}", p.kind);
        let (fires, must_not) = ((p.fires)(), (p.must_not)());
        assert!(has(&fires, p.kind), "{}: {fires:?}", p.kind);
        assert!(!has(&must_not, p.kind), "{}: {must_not:?}", p.kind);
    }
}

#[test]
fn workers_that_run_are_busy_workers() {
    let summary = assert_first(Scene::new().steps(|s, at| s.works(at)), "busy-workers");
    assert!(summary.contains("worker (20)"), "{summary}");
}

#[test]
fn nothing_is_told_of_launches_back_to_back() {
    let mut s = Scene::new();
    for i in 0..20_000 {
        s.f.call(MS + i * 12_000, 0, s.main, s.launch, 10_000);
    }
    assert_eq!(s.found(), []);
}
