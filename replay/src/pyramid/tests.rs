//! A pyramid says what a plain walk of the timeline says, whatever the width of its cells.

use std::collections::BTreeMap;

use ingero_format::Trace;
use ingero_format::catalog::{Call, Class, END_OPEN, FuncId, Layer, TaskId};

use super::*;
use crate::fixture::{Dice, Fixture, busy};
use crate::processes::Processes;
use crate::timeline::{CallSpan, Cpus, OffCpu, Run, Sink, Timeline};

const IDLE: TaskId = TaskId(0);

/// What a walk tells: by thread stretches of its states and of its calls, by CPU who was on it.
#[derive(Default)]
struct Plain {
    end_ns: u64,
    states: BTreeMap<TaskId, Vec<(usize, u64, u64)>>,
    calls: BTreeMap<TaskId, Vec<(FuncId, u64, u64)>>,
    cpus: BTreeMap<u32, Vec<(TaskId, u64, u64)>>,
}

impl Sink for Plain {
    fn off_cpu(&mut self, stay: &OffCpu, _: &Cpus) {
        let spent = stay.spent(0, self.end_ns);
        let mut at = stay.out_ns;
        for (lane, ns) in [(2, spent.throttled_ns), (3, spent.blocked_ns), (1, spent.runnable_ns)] {
            self.states.entry(stay.task).or_default().push((lane, at, at + ns));
            at += ns;
        }
    }
    fn run(&mut self, run: &Run) {
        let end = run.end_ns.unwrap_or(self.end_ns);
        self.states.entry(run.task).or_default().push((0, run.start_ns, end));
        self.cpus.entry(run.cpu).or_default().push((run.task, run.start_ns, end));
    }
    fn call(&mut self, span: &CallSpan) {
        if span.depth == 0 {
            self.calls.entry(span.call.task).or_default().push((span.call.func, span.start_ns, span.end_ns));
        }
    }
}

fn plain(trace: &Trace) -> Plain {
    let mut plain = Plain { end_ns: trace.span_ns().unwrap().1, ..Plain::default() };
    Timeline::new(trace).run(&mut plain);
    plain
}

fn overlap(from: u64, to: u64, a: u64, b: u64) -> u64 {
    b.min(to).saturating_sub(a.max(from))
}

impl Plain {
    fn cell(&self, task: TaskId, from: u64, to: u64) -> Cell {
        let mut lanes = [0; 4];
        for &(lane, a, b) in self.states.get(&task).into_iter().flatten() {
            lanes[lane] += overlap(from, to, a, b);
        }
        let calls = self.calls.get(&task).into_iter().flatten();
        let call_ns = calls.map(|&(_, a, b)| overlap(from, to, a, b)).sum();
        let [running_ns, runnable_ns, throttled_ns, blocked_ns] = lanes;
        Cell { width_ns: to - from, running_ns, runnable_ns, throttled_ns, blocked_ns, call_ns, ..Cell::default() }
    }
}

fn without_func(cell: Cell) -> Cell {
    Cell { func: None, ..cell }
}

/// Pyramids of the same trace whose smallest cells are of several widths.
fn pyramids(trace: &Trace) -> Vec<Pyramid> {
    let made: Vec<Pyramid> = [usize::MAX, 60_000, 20_000, 6_000, 1_500, 0]
        .map(|most| Pyramid::build_within(trace, most, &mut |_| {}))
        .into();
    assert!(made.is_sorted_by(|a, b| a.cell_ns() <= b.cell_ns()));
    assert!(made[0].cell_ns() < made[2].cell_ns() && made[2].cell_ns() < made[4].cell_ns());
    made
}

#[test]
fn sums_of_whole_cells_are_those_of_a_walk() {
    for seed in 0..4 {
        let (trace, tasks) = busy(seed);
        let plain = plain(&trace);
        let mut dice = Dice(seed + 77);
        for pyramid in pyramids(&trace) {
            let (start, end) = pyramid.span_ns();
            let cells = (end - start) / pyramid.cell_ns() + 1;
            for _ in 0..300 {
                let task = tasks[dice.below(8) as usize];
                let (a, b) = (dice.below(cells + 1), dice.below(cells + 1));
                let (from, to) = (start + a.min(b) * pyramid.cell_ns(), start + a.max(b) * pyramid.cell_ns());
                let cell = pyramid.cell(task, from, to);
                assert_eq!(
                    without_func(cell),
                    plain.cell(task, from, to),
                    "{task:?} {from}..{to} of {}",
                    pyramid.cell_ns()
                );
                assert!(cell.known_ns() <= cell.width_ns && cell.call_ns <= cell.width_ns);
            }
        }
    }
}

#[test]
fn columns_of_any_width_add_up() {
    let (trace, tasks) = busy(11);
    let mut dice = Dice(5);
    for pyramid in pyramids(&trace) {
        let (start, end) = pyramid.span_ns();
        for _ in 0..200 {
            let task = tasks[dice.below(8) as usize];
            let (a, b) = (start + dice.below(end - start), start + dice.below(end - start));
            let (from, to) = (a.min(b), a.max(b));
            let columns = 1 + dice.below(300) as usize;
            let row = pyramid.row(task, from, to, columns);
            assert_eq!(row.len(), columns);
            let whole = pyramid.cell(task, from, to);
            let mut sum = Cell::default();
            for cell in row {
                assert!(cell.known_ns() <= cell.width_ns + 4, "{cell:?}");
                sum.width_ns += cell.width_ns;
                sum.running_ns += cell.running_ns;
                sum.runnable_ns += cell.runnable_ns;
                sum.throttled_ns += cell.throttled_ns;
                sum.blocked_ns += cell.blocked_ns;
                sum.call_ns += cell.call_ns;
            }
            assert_eq!(sum, without_func(whole));
        }
    }
}

#[test]
fn a_cpu_has_whom_it_had_longest() {
    let (trace, _) = busy(3);
    let plain = plain(&trace);
    let pyramid = Pyramid::build(&trace, &mut |_| {});
    let (start, end) = pyramid.span_ns();
    let cells = (end - start) / pyramid.cell_ns();
    assert_eq!(pyramid.cpus().collect::<Vec<_>>(), [0, 1, 2]);
    let mut named = 0;
    for cpu in 0..3 {
        let row = pyramid.cpu_row(cpu, start, start + cells * pyramid.cell_ns(), usize::try_from(cells).unwrap());
        for (at, cell) in row.iter().enumerate() {
            let from = start + at as u64 * pyramid.cell_ns();
            let mut held: BTreeMap<TaskId, u64> = BTreeMap::new();
            for &(task, a, b) in &plain.cpus[&cpu] {
                *held.entry(task).or_default() += overlap(from, from + pyramid.cell_ns(), a, b);
            }
            assert_eq!(cell.busy_ns, held.values().sum::<u64>());
            assert_eq!(cell.task.map_or(0, |t| held[&t]), held.values().copied().max().unwrap_or(0));
            named += usize::from(cell.task.is_some());
        }
    }
    assert!(named > 100, "{named}");
}

#[test]
fn the_call_that_took_longest_is_named() {
    let mut f = Fixture::new();
    let task = f.task(1, 1);
    let (short, long, last) = (
        f.func("short", Layer::Runtime, Class::Launch),
        f.func("long", Layer::Driver, Class::Sync),
        f.func("last", Layer::Driver, Class::Sync),
    );
    f.switch(0, 0, IDLE, 0, task);
    f.call(10, 0, task, short, 100);
    f.call(200, 0, task, long, 500);
    // Within the long one: it counts once.
    f.call(300, 0, task, short, 100);
    f.call(800, 0, task, short, 150);
    let open = Call {
        task,
        func: last,
        dur_ns: None,
        end: END_OPEN,
        result: None,
        ptr: None,
        ptr2: None,
        bytes: None,
        copy: None,
        stream: None,
        device: None,
    };
    f.push(5_000_000, 0, open);
    f.call(5_500_000, 0, task, short, 10);
    f.switch(9_000_000, 0, task, 1, IDLE);
    let trace = f.finish();
    let pyramid = Pyramid::build(&trace, &mut |_| {});
    let cell = pyramid.cell(task, 0, pyramid.cell_ns());
    assert_eq!((cell.call_ns, cell.func), (100 + 500 + 150, Some(long)));
    let rest = pyramid.cell(task, 0, 9_000_000);
    assert_eq!((rest.call_ns, rest.func), (750 + 4_000_000, Some(last)), "it is in the last one to the end");
    assert!(pyramid.has_calls(task));
}

#[test]
fn long_stays_take_no_room() {
    let mut f = Fixture::new();
    let (sleeper, waker) = (f.task(1, 1), f.task(2, 2));
    let second = 1_000_000_000;
    f.switch(0, 0, IDLE, 0, sleeper);
    f.switch(second, 0, sleeper, 1, waker);
    f.waking(100 * second + 5, 0, waker, sleeper, 0);
    f.switch(103 * second, 0, waker, 0, sleeper);
    f.switch(200 * second, 0, sleeper, 1, IDLE);
    let trace = f.finish();
    let pyramid = Pyramid::build(&trace, &mut |_| {});
    assert!(pyramid.cell_ns() < 200_000, "{}", pyramid.cell_ns());
    assert!(pyramid.held_bytes() < 2_000, "{}", pyramid.held_bytes());
    let cell = pyramid.cell(sleeper, 0, 200 * second);
    assert_eq!((cell.running_ns, cell.unknown_ns()), (98 * second, 0));
    assert!(cell.blocked_ns.abs_diff(99 * second) < 10 && cell.runnable_ns.abs_diff(3 * second) < 10);

    let steady = pyramid.steady(sleeper, 50 * second).unwrap();
    assert_eq!(steady.state, Some(State::Blocked));
    let near = |a: u64, b: u64| a.abs_diff(b) <= pyramid.cell_ns();
    assert!(near(steady.from_ns, second) && near(steady.to_ns, 100 * second), "{steady:?}");
    // The cells at its ends have two states, and say with which they begin.
    assert_eq!(pyramid.steady(sleeper, second), None);
    assert_eq!(pyramid.state_at_cell_start(sleeper, second), Some(State::Running));
    assert_eq!(pyramid.state_at_cell_start(sleeper, 100 * second + 5), Some(State::Blocked));
    // Of the waker nothing is known before it was first seen, but that it was there and off.
    assert_eq!(pyramid.steady(waker, second / 2).map(|s| s.state), Some(Some(State::Blocked)));
    assert_eq!(pyramid.steady(TaskId(0), second).map(|s| s.state), Some(None));
    assert_eq!(pyramid.cell_start_ns(second) % pyramid.cell_ns(), 0);
    assert!(second - pyramid.cell_start_ns(second) < pyramid.cell_ns());
}

#[test]
fn the_steady_stretches_of_a_thread_are_the_ones_of_a_walk() {
    let (trace, tasks) = busy(21);
    let plain = plain(&trace);
    for pyramid in pyramids(&trace) {
        let (start, end) = pyramid.span_ns();
        let mut dice = Dice(9);
        for _ in 0..400 {
            let (task, at) = (tasks[dice.below(8) as usize], start + dice.below(end - start));
            let begin = pyramid.cell_start_ns(at);
            let within = plain.states[&task].iter().find(|&&(_, a, b)| a <= begin && begin < b);
            let known = within.map(|&(lane, ..)| State::ALL[lane]);
            assert_eq!(pyramid.state_at_cell_start(task, at), known, "{task:?} at {begin}");
            if let Some(steady) = pyramid.steady(task, at) {
                assert!(steady.from_ns <= at && at < steady.to_ns);
                let cell = plain.cell(task, steady.from_ns, steady.to_ns);
                let lanes = [cell.running_ns, cell.runnable_ns, cell.throttled_ns, cell.blocked_ns];
                match steady.state {
                    Some(state) => assert_eq!(lanes[state.lane()], cell.width_ns),
                    None => assert_eq!(lanes, [0; 4]),
                }
            }
        }
    }
}

#[test]
fn rows_stand_by_process_main_thread_first() {
    let mut f = Fixture::new();
    let (other, main, helper, worker) = (f.task(9, 9), f.task(1, 1), f.task(1, 2), f.task(1, 3));
    let launch = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
    f.switch(0, 0, IDLE, 0, other);
    f.switch(0, 1, IDLE, 0, worker);
    f.switch(50_000, 1, worker, 1, helper);
    f.switch(60_000, 1, helper, 1, main);
    f.call(61_000, 1, main, launch, 500);
    f.switch(62_000, 1, main, 1, IDLE);
    f.switch(100_000, 0, other, 1, IDLE);
    let trace = f.finish();
    let processes = Processes::new(&trace);
    let groups = Pyramid::build(&trace, &mut |_| {}).groups(&processes);
    let threads: Vec<_> = groups.iter().map(|g| g.threads.clone()).collect();
    assert_eq!(threads, [vec![main, worker, helper], vec![other]]);
    assert_eq!(groups[1].process, processes.of(other));
}

#[test]
fn a_file_gives_back_what_was_put_in() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, _) = busy(1);
    for (at, pyramid) in pyramids(&trace).into_iter().enumerate() {
        let path = folder.path().join(format!("{at}.pyramid"));
        pyramid.keep(&trace, &path).unwrap();
        assert_eq!(Pyramid::open(&trace, &path), Some(pyramid));
    }
}

#[test]
fn a_trace_of_centuries_has_wide_cells() {
    let mut f = Fixture::new();
    let (a, b) = (f.task(1, 1), f.task(2, 2));
    f.switch(0, 0, IDLE, 0, a);
    for i in 1..200 {
        let (prev, next) = if i % 2 == 1 { (a, b) } else { (b, a) };
        f.switch(i * 80_000_000_000_000_000, 0, prev, 0, next);
    }
    let trace = f.finish();
    let plain = plain(&trace);
    let pyramid = Pyramid::build(&trace, &mut |_| {});
    assert!(pyramid.cell_ns() > 1 << 32);
    let (start, end) = pyramid.span_ns();
    assert_eq!(without_func(pyramid.cell(a, start, end)), plain.cell(a, start, end));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x");
    pyramid.keep(&trace, &path).unwrap();
    assert_eq!(Pyramid::open(&trace, &path), Some(pyramid));
}

#[test]
fn an_empty_trace_has_an_empty_pyramid() {
    let trace = Fixture::new().finish();
    let pyramid = Pyramid::build(&trace, &mut |_| {});
    assert_eq!((pyramid.tasks().count(), pyramid.cpus().count()), (0, 0));
    assert_eq!(pyramid.row(TaskId(3), 0, 100, 2), [Cell { width_ns: 50, ..Cell::default() }; 2]);
    assert!(pyramid.row(TaskId(3), 100, 0, 0).is_empty());
}

#[test]
fn a_file_that_is_not_this_recordings_is_not_believed() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.igt.pyramid");
    let (trace, _) = busy(1);
    let built = Pyramid::open_or_build_at(&trace, &path, u64::MAX, &mut |_| {});
    assert!(!path.exists(), "it is not worth a file");
    assert_eq!(Pyramid::open_or_build_at(&trace, &path, 0, &mut |_| {}), built);
    let whole = std::fs::read(&path).unwrap();
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let mut asked = 0;
    assert_eq!(Pyramid::open_or_build_at(&trace, &path, 0, &mut |_| asked += 1), built);
    assert_eq!(asked, 0, "it is read, not built");
    assert_eq!(Pyramid::open(&busy(2).0, &path), None, "another recording");

    // Any byte changed, and any cut.
    for at in (0..whole.len()).step_by(whole.len() / 400) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x40;
        assert_eq!(Pyramid::parse(&trace, &bytes), None, "byte {at}");
        assert_eq!(Pyramid::parse(&trace, &whole[..at]), None, "cut at {at}");
    }
    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    assert_eq!(Pyramid::open_or_build_at(&trace, &path, 0, &mut |_| {}), built);
    assert_eq!(std::fs::read(&path).unwrap(), whole, "it is put right, the same byte for byte");
    // A folder, a pipe, nothing: built all the same.
    assert_eq!(Pyramid::open_or_build_at(&trace, folder.path(), 0, &mut |_| {}), built);
    assert_eq!(Pyramid::open_or_build_at(&trace, &folder.path().join("none/x"), 0, &mut |_| {}), built);
}
