//! What one thread does at one instant.

use ingero_format::Trace;
use ingero_format::catalog::{Call, FuncId, TaskId};

use super::entry_cell;
use crate::event::Event;
use crate::pyramid::Pyramid;
use crate::scene::{Cast, Doing, Scene, Stretch};
use crate::timeline::{Cpus, EARLY_WAKE_NS, OffCpu, Run, Sink, StoredStay, Timeline, Undivided};

/// A call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Called {
    /// Function.
    pub func: FuncId,
    /// Entry.
    pub start_ns: u64,
    /// Return; the end of the trace where its thread is in it then; none where it was left in another way.
    pub end_ns: Option<u64>,
    /// Whether it returned.
    pub returned: bool,
    /// Result code.
    pub result: Option<i64>,
}

/// What a thread does at an instant.
#[derive(Debug, Clone)]
pub struct Moment {
    /// The thread.
    pub task: TaskId,
    /// The instant.
    pub at_ns: u64,
    /// Its state there, with its begin and end wherever they are; none where it is not known.
    pub stretch: Option<Stretch>,
    /// The calls that it is in, outermost first.
    pub calls: Vec<Called>,
    /// Whether who is said to have had the CPU meanwhile is known to the nanosecond.
    pub behind_is_exact: bool,
}

/// Events that are read for one moment, about, where there are more between its begin and its end.
const ROWS: u64 = 200_000;
/// Columns in which a long wait is looked through for who had the CPU.
const HOLDER_COLUMNS: usize = 256;

/// What a thread does at an instant of the trace. Reads the events around it and those around the begin and the end of what it does then,
/// which the pyramid finds: a few cells of its time, however long ago the begin was.
#[must_use]
pub fn moment(trace: &Trace, pyramid: &Pyramid, task: TaskId, at_ns: u64) -> Moment {
    let (start_ns, end_ns) = pyramid.span_ns();
    let mut cells = vec![pyramid.cell_start_ns(at_ns), before(pyramid, task, at_ns), behind(pyramid, task, at_ns)];
    if pyramid.has_calls(task) {
        let here = pyramid.cell_start_ns(at_ns);
        cells.push(entry_cell(pyramid, task, at_ns));
        cells.push(entry_cell(pyramid, task, here.saturating_sub(1)));
        // Of calls without a pause between them only the last one matters.
        cells.push(pyramid.cell_start_ns(here.saturating_sub(1)));
    }
    let mut wanted = vec![false; trace.tasks().len()];
    if let Some(place) = wanted.get_mut(task.index()) {
        *place = true;
    }
    let mut moment = Moment { task, at_ns, stretch: None, calls: Vec::new(), behind_is_exact: true };
    // What is not known after all events is not made up of a few.
    let unknown = pyramid.steady(task, at_ns).is_some_and(|steady| steady.state.is_none());
    // What begins in the cell that the stretch was thought to begin in may have begun before that, and so on: rarely.
    for _ in 0..3 {
        let pieces = pieces(trace, pyramid, &mut cells);
        let scene = Scene::moment(at_ns, Cast::Tasks(wanted.clone()));
        let mut look = Look { scene, task, at_ns, trace_end_ns: end_ns, calls: Vec::new(), behind: Vec::new() };
        Timeline::new(trace).run_pieces(&pieces, &mut look);
        moment.calls = look.calls;
        let rows = look.scene.into_page().rows;
        let is_state = |row: &&Stretch| !matches!(row.doing, Doing::Calling { .. } | Doing::Woke { .. });
        moment.stretch = rows.iter().rev().find(is_state).cloned();
        if let Some(Stretch { doing: Doing::Runnable { behind, .. }, .. }) = &mut moment.stretch {
            *behind = look.behind;
            behind.sort_by_key(|&(task, ns)| (std::cmp::Reverse(ns), task));
        }
        moment.behind_is_exact = pieces.len() == 1;
        if unknown {
            moment.stretch = None;
            break;
        }
        let (first_ns, last_ns) = (pieces.first().map_or(0, |p| p.0), pieces.last().map_or(0, |p| p.1));
        let begins = moment.stretch.as_ref().is_some_and(|s| !s.before);
        let ends = moment.stretch.as_ref().is_some_and(|s| s.end_ns.is_some());
        let mut more = false;
        if !begins && first_ns > start_ns {
            cells.push(before(pyramid, task, first_ns - 1));
            more = true;
        }
        if !ends && last_ns <= end_ns {
            cells.push(behind(pyramid, task, last_ns));
            more = true;
        }
        if !more {
            break;
        }
    }
    if !moment.behind_is_exact {
        look_through(pyramid, &mut moment);
    }
    moment
}

/// The cell in which what a thread does at an instant began, as far as whole cells tell.
fn before(pyramid: &Pyramid, task: TaskId, at_ns: u64) -> u64 {
    let first = match pyramid.steady(task, at_ns) {
        Some(steady) if steady.state.is_some() => steady.from_ns,
        _ => pyramid.cell_start_ns(at_ns),
    };
    pyramid.cell_start_ns(first.saturating_sub(1))
}

/// The cell in which it ends.
fn behind(pyramid: &Pyramid, task: TaskId, at_ns: u64) -> u64 {
    match pyramid.steady(task, at_ns) {
        Some(steady) if steady.state.is_some() => pyramid.cell_start_ns(steady.to_ns),
        _ => pyramid.cell_start_ns(pyramid.cell_start_ns(at_ns).saturating_add(pyramid.cell_ns())),
    }
}

/// What is to be read: the cells, and what lies between them where that is not much.
fn pieces(trace: &Trace, pyramid: &Pyramid, cells: &mut Vec<u64>) -> Vec<(u64, u64)> {
    cells.sort_unstable();
    cells.dedup();
    let end = |cell: u64| cell.saturating_add(pyramid.cell_ns());
    let mut left = ROWS;
    let mut out: Vec<(u64, u64)> = Vec::new();
    for &cell in cells.iter() {
        if let Some(last) = out.last_mut() {
            let between = rows_within(trace, last.1, cell);
            if between <= left {
                left -= between;
                last.1 = end(cell);
                continue;
            }
        }
        // A wake that belongs to a switch-out in the cell may have been recorded before it.
        out.push((cell.saturating_sub(EARLY_WAKE_NS), end(cell)));
    }
    out
}

/// How many events there are within a range, about, as the headers of the blocks tell.
#[must_use]
pub fn rows_within(trace: &Trace, from_ns: u64, to_ns: u64) -> u64 {
    if from_ns >= to_ns {
        return 0;
    }
    let rows = trace.blocks().iter().map(|block| {
        let h = &block.header;
        let overlap = h.ts_max.min(to_ns).saturating_sub(h.ts_min.max(from_ns));
        let length = h.ts_max.saturating_sub(h.ts_min).max(1);
        u128::from(h.rows) * u128::from(overlap) / u128::from(length)
    });
    u64::try_from(rows.sum::<u128>()).unwrap_or(u64::MAX)
}

/// Who had the CPU that a thread waited for, by the pyramid.
fn look_through(pyramid: &Pyramid, moment: &mut Moment) {
    let (_, trace_end_ns) = pyramid.span_ns();
    let task = moment.task;
    let Some(Stretch { start_ns, end_ns, doing: Doing::Runnable { cpu: Some(cpu), behind, .. }, .. }) =
        &mut moment.stretch
    else {
        return;
    };
    behind.clear();
    for cell in pyramid.cpu_row(*cpu, *start_ns, end_ns.unwrap_or(trace_end_ns), HOLDER_COLUMNS) {
        let Some(holder) = cell.task.filter(|&holder| holder != task) else { continue };
        add(behind, holder, cell.busy_ns);
    }
    behind.sort_by_key(|&(task, ns)| (std::cmp::Reverse(ns), task));
}

/// Takes in what the timeline tells of the thread.
struct Look {
    scene: Scene,
    task: TaskId,
    at_ns: u64,
    trace_end_ns: u64,
    calls: Vec<Called>,
    /// Who had the CPU that it waited for.
    behind: Vec<(TaskId, u64)>,
}

/// Adds to what somebody had.
fn add(sums: &mut Vec<(TaskId, u64)>, task: TaskId, ns: u64) {
    match sums.iter_mut().find(|(known, _)| *known == task) {
        Some((_, sum)) => *sum = sum.saturating_add(ns),
        None => sums.push((task, ns)),
    }
}

impl Sink for Look {
    fn event(&mut self, event: &Event) {
        self.scene.event(event);
    }
    fn off_cpu(&mut self, stay: &OffCpu, cpus: &Cpus) {
        if stay.task != self.task {
            return;
        }
        self.scene.off_cpu(stay, cpus);
        // The scene tells who had the CPU at the instant; here it is about the whole wait.
        let (Some(cpu), Some(since_ns)) = (stay.wait_cpu, stay.runnable_ns) else { return };
        let until_ns = stay.end_ns().unwrap_or(self.trace_end_ns);
        if (since_ns..until_ns).contains(&self.at_ns) {
            self.behind.clear();
            cpus.holders(cpu, since_ns, until_ns, |holder, ns| add(&mut self.behind, holder, ns));
        }
    }
    fn stored_stay(&mut self, stay: &StoredStay) {
        self.scene.stored_stay(stay);
    }
    fn undivided(&mut self, part: &Undivided) {
        self.scene.undivided(part);
    }
    fn run(&mut self, run: &Run) {
        self.scene.run(run);
    }
    fn enter(&mut self, at_ns: u64, call: &Call) {
        if call.task == self.task && at_ns <= self.at_ns {
            let called = Called::new(at_ns, call, self.trace_end_ns);
            // What a thread is in when the trace ends, it is in at the last instant, too.
            let to_the_end = !called.returned && called.end_ns.is_some();
            if called.end_ns.is_some_and(|end| end > self.at_ns) || to_the_end {
                self.calls.push(called);
            }
        }
    }
}
