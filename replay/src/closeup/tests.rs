//! A range read by itself says what a walk through the whole trace says of it.

use super::*;
use crate::fixture::{Dice, Fixture, busy, busy_without_wakes};
use crate::scene::{Cast, Doing, Scene, Stretch, WokenBy};
use ingero_format::catalog::{Class, Layer, NO_CPU, OffCpu};

/// All stretches of the trace, by a walk.
fn walked(trace: &Trace) -> Vec<Stretch> {
    walked_until(trace, u64::MAX)
}

fn walked_until(trace: &Trace, to_ns: u64) -> Vec<Stretch> {
    let mut scene = Scene::new(0, to_ns, Cast::All, 0, usize::MAX);
    Timeline::new(trace).run(&mut scene);
    scene.into_page().rows
}

fn state(stretch: &Stretch) -> Option<State> {
    match stretch.doing {
        Doing::Running { .. } => Some(State::Running),
        Doing::Runnable { .. } => Some(State::Runnable),
        Doing::Throttled => Some(State::Throttled),
        Doing::Blocked { .. } => Some(State::Blocked),
        Doing::OffCpu => Some(State::OffCpu),
        _ => None,
    }
}

/// Pyramids with cells of several widths.
fn pyramids(trace: &Trace) -> [Pyramid; 3] {
    [usize::MAX, 30_000, 6_000].map(|most| Pyramid::build_within(trace, most, &mut |_| {}))
}

/// Recordings of which nothing is lost, and one of which wakes are.
fn recordings() -> Vec<(Trace, Vec<TaskId>)> {
    const MS: u64 = 1_000_000;
    let lossy = busy_without_wakes(2, &[(30 * MS, 90 * MS), (150 * MS, 151 * MS), (200 * MS, 280 * MS)]);
    let undivided = |s: &Stretch| s.doing == Doing::OffCpu;
    assert!(walked(&lossy.0).iter().filter(|s| undivided(s)).count() > 10);
    vec![busy(0), busy(1), busy(2), lossy]
}

#[test]
fn a_range_has_the_states_and_calls_of_the_whole() {
    for (seed, (trace, tasks)) in (0..).zip(recordings()) {
        let all = walked(&trace);
        let mut dice = Dice(seed);
        let (mut told, mut compared) = (0, 0);
        for pyramid in pyramids(&trace) {
            let (start, end) = pyramid.span_ns();
            for _ in 0..40 {
                let from = start + dice.below(end - start);
                let to = (from + dice.below(6 * pyramid.cell_ns())).min(end);
                let closeup = Closeup::read(&trace, &pyramid, from, to, &tasks);
                assert!(closeup.holds(from, to));
                for &task in &tasks {
                    // Each column as narrow as a nanosecond where the range is short.
                    let columns = usize::try_from(to - from).unwrap().clamp(1, 700);
                    let row = closeup.row(&pyramid, task, from, to, columns);
                    let mut sums = [0; 6];
                    for cell in &row {
                        assert!(cell.known_ns() <= cell.width_ns && cell.call_ns <= cell.width_ns, "{cell:?}");
                        let lanes = [
                            cell.running_ns,
                            cell.runnable_ns,
                            cell.throttled_ns,
                            cell.blocked_ns,
                            cell.off_cpu_ns,
                            cell.call_ns,
                        ];
                        sums.iter_mut().zip(lanes).for_each(|(sum, ns)| *sum += ns);
                    }
                    let mut expected = [0; 6];
                    for s in all.iter().filter(|s| s.task == task) {
                        let ns = s.end_ns.unwrap_or(end).min(to).saturating_sub(s.start_ns.max(from));
                        if let Some(state) = state(s) {
                            expected[state.lane()] += ns;
                        }
                    }
                    expected[5] = pyramid.cell(task, from, to).call_ns;
                    told += sums[5];
                    // What nobody saw the end of a few events cannot tell from what is going on.
                    let (first, last) = closeup.span_ns();
                    let cell = pyramid.cell(task, first.saturating_sub(pyramid.cell_ns()).max(start), last.min(end));
                    if cell.unknown_ns() == 0 {
                        assert_eq!(sums[..5], expected[..5], "{task:?} in {from}..{to} of {start}..{end}");
                        compared += 1;
                    }
                }
            }
        }
        assert!(told > 0 && compared > 300, "{told} {compared}");
    }
}

#[test]
fn a_moment_has_its_begin_and_end_wherever_they_are() {
    for (seed, (trace, tasks)) in (0..).zip(recordings()) {
        let all = walked(&trace);
        // Who holds a CPU when the trace ends holds it until then, not for ever.
        let ended = walked_until(&trace, trace.span_ns().unwrap().1);
        let mut dice = Dice(seed + 5);
        let (mut long, mut in_calls, mut lost) = (0, 0, 0);
        for pyramid in pyramids(&trace) {
            let (start, end) = pyramid.span_ns();
            for _ in 0..150 {
                let mut at = start + dice.below(end - start);
                let mut task = tasks[dice.below(8) as usize];
                // Calls are short: every other moment lies in one.
                let call = &all[dice.below(all.len() as u64) as usize];
                if matches!(call.doing, Doing::Calling { .. }) {
                    at = (call.start_ns + dice.below(call.end_ns.unwrap() - call.start_ns)).min(end - 1);
                    task = call.task;
                }
                let moment = moment(&trace, &pyramid, task, at);
                let holds = |s: &&Stretch| s.task == task && s.start_ns <= at && s.end_ns.is_none_or(|end| at < end);
                let expected = all.iter().filter(holds).find(|s| state(s).is_some());
                let plain = |s: &Stretch| (s.start_ns, s.end_ns, state(s));
                if expected.is_none_or(|s| s.before && s.start_ns > start) {
                    // Sight of it was lost: a few events may show less of that, or more.
                    lost += 1;
                    continue;
                }
                assert_eq!(moment.stretch.as_ref().map(plain), expected.map(plain), "{task:?} at {at}");
                match (&moment.stretch, expected) {
                    (Some(Stretch { doing: Doing::Blocked { waker: a, .. }, .. }), Some(s)) => {
                        assert!(matches!(s.doing, Doing::Blocked { waker, .. } if waker == *a));
                    }
                    (Some(Stretch { doing: Doing::Runnable { since: a, cpu: b, behind, .. }, .. }), Some(s)) => {
                        let same = |e: &&Stretch| (e.task, e.start_ns) == (s.task, s.start_ns) && state(e) == state(s);
                        let s = ended.iter().find(same).unwrap();
                        let Doing::Runnable { since, cpu, behind: expected } = &s.doing else { panic!("{s:?}") };
                        assert_eq!((a, b), (since, cpu));
                        if moment.behind_is_exact {
                            assert_eq!(behind, expected);
                        }
                    }
                    _ => {}
                }
                let length = expected.map_or(0, |s| s.end_ns.unwrap_or(end) - s.start_ns);
                long += usize::from(length > 4 * pyramid.cell_ns());
                let calls: Vec<u64> = all
                    .iter()
                    .filter(|s| holds(s) && matches!(s.doing, Doing::Calling { .. }))
                    .map(|s| s.start_ns)
                    .collect();
                assert_eq!(moment.calls.iter().map(|c| c.start_ns).collect::<Vec<_>>(), calls, "{task:?} at {at}");
                in_calls += usize::from(!calls.is_empty());
            }
        }
        assert!(long > 20 && in_calls > 3 && lost < 250, "{long} {in_calls} {lost}");
    }
}

#[test]
fn a_call_of_minutes_ago_is_still_the_one_that_its_thread_is_in() {
    let mut f = Fixture::new();
    let (main, waker) = (f.task(1, 1), f.task(2, 2));
    let (outer, inner) = (
        f.func("cudaStreamSynchronize", Layer::Runtime, Class::Sync),
        f.func("cuStreamSynchronize", Layer::Driver, Class::Sync),
    );
    let second = 1_000_000_000;
    f.switch(0, 0, TaskId(0), 0, main);
    f.call(second, 0, main, outer, 300 * second);
    f.call(second + 10, 0, main, inner, 300 * second - 20);
    f.switch(second + 50, 0, main, 1, waker);
    f.waking(301 * second - 500, 0, waker, main, 0);
    f.switch(301 * second - 400, 0, waker, 1, main);
    f.switch(400 * second, 0, main, 1, TaskId(0));
    let trace = f.finish();
    let pyramid = Pyramid::build(&trace, &mut |_| {});
    let here = moment(&trace, &pyramid, main, 200 * second);
    let stretch = here.stretch.unwrap();
    assert_eq!((stretch.start_ns, stretch.end_ns, stretch.before), (second + 50, Some(301 * second - 500), false));
    assert!(matches!(stretch.doing, Doing::Blocked { waker: WokenBy::Task(w), .. } if w == waker), "{stretch:?}");
    assert_eq!(
        here.calls.iter().map(|c| (c.func, c.start_ns)).collect::<Vec<_>>(),
        [(outer, second), (inner, second + 10)]
    );

    let closeup = Closeup::read(&trace, &pyramid, 200 * second, 200 * second + 1000, &[main]);
    let calls: Vec<_> = closeup.calls(main).iter().map(|n| (n.call.func, n.depth)).collect();
    assert_eq!(calls, [(outer, 0), (inner, 1)]);
    let cell = closeup.row(&pyramid, main, 200 * second, 200 * second + 1000, 1)[0];
    assert_eq!((cell.blocked_ns, cell.call_ns, cell.func), (1000, 1000, Some(outer)));
    assert!(closeup.states(main).is_empty(), "nothing happened there");
}

/// Three threads of which a source stored stays off the CPUs: some longer than many cells, some one behind the other, many short.
fn stored(seed: u64) -> (Trace, Vec<TaskId>) {
    let mut dice = Dice(seed);
    let mut f = Fixture::with_rows(200);
    let tasks: Vec<TaskId> = (1..4).map(|tid| f.task(1, tid)).collect();
    let mut free = [5_000_u64; 3];
    let mut stays: Vec<(u64, TaskId, u64)> = Vec::new();
    for _ in 0..900 {
        let at = dice.below(3) as usize;
        let out_ns = free[at] + if dice.below(4) == 0 { 0 } else { dice.below(60_000) };
        let dur_ns = if dice.below(20) == 0 { dice.below(3_000_000) } else { dice.below(9_000) };
        stays.push((out_ns, tasks[at], dur_ns));
        free[at] = out_ns + dur_ns;
    }
    stays.sort_unstable();
    for (out_ns, task, dur_ns) in stays {
        f.push(out_ns, NO_CPU, OffCpu { task, dur_ns });
    }
    (f.finish(), tasks)
}

#[test]
fn stored_stays_are_shown_at_every_width_with_nothing_between_them() {
    for seed in 0..3 {
        let (trace, tasks) = stored(seed);
        let all = walked(&trace);
        assert_eq!(all.len(), 900);
        let mut dice = Dice(seed);
        for pyramid in pyramids(&trace) {
            let (start, end) = pyramid.span_ns();
            for _ in 0..60 {
                let from = start + dice.below(end - start);
                let to = (from + dice.below(6 * pyramid.cell_ns())).min(end);
                let closeup = Closeup::read(&trace, &pyramid, from, to, &tasks);
                for &task in &tasks {
                    let columns = usize::try_from(to - from).unwrap().clamp(1, 700);
                    let row = closeup.row(&pyramid, task, from, to, columns);
                    let shown: u64 = row.iter().map(|cell| cell.off_cpu_ns).sum();
                    assert!(row.iter().all(|cell| cell.known_ns() == cell.off_cpu_ns), "nothing else is known");
                    let of_task = all.iter().filter(|s| s.task == task);
                    let parts = of_task.map(|s| s.end_ns.unwrap().min(to).saturating_sub(s.start_ns.max(from)));
                    assert_eq!(shown, parts.sum::<u64>(), "{task:?} in {from}..{to} of {start}..{end}");
                }
            }
            for _ in 0..60 {
                let (task, at) = (tasks[dice.below(3) as usize], start + dice.below(end - start));
                let moment = moment(&trace, &pyramid, task, at);
                let expected = all.iter().find(|s| s.task == task && s.start_ns <= at && at < s.end_ns.unwrap());
                assert_eq!(moment.stretch.as_ref(), expected, "{task:?} at {at} of {start}..{end}");
            }
        }
    }
}
