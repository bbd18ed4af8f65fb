//! How a process feeds its GPU: its submissions, and the gaps between them.

use std::collections::{HashMap, HashSet};

use ingero_format::catalog::{Body, Call, Class, END_OPEN, END_RETURNED, Kind, NULL, TS, TaskId, Word};
use ingero_format::{Batch, Trace};
use ingero_replay::{Merge, ProcessId, Processes, Window};

/// Time between the return of one submission, or of the waits that follow it, and the entry of the
/// next one in the same process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// When the last submission or wait returned.
    pub start_ns: u64,
    /// When the next submission was entered.
    pub end_ns: u64,
    /// The thread that made that next submission.
    pub submitter: TaskId,
}

impl Gap {
    /// Length of the gap.
    #[must_use]
    pub fn len_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }
}

/// A stretch of one behaviour of one process. Until phases are told apart by their rhythm it is the
/// stretch from a process's first to its last CUDA call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phase {
    /// The process.
    pub process: ProcessId,
    /// Entry of its first call.
    pub start_ns: u64,
    /// Return of its last call.
    pub end_ns: u64,
    /// Launches and copies to the device.
    pub submissions: u64,
    /// Its gaps, in order; they do not overlap.
    pub gaps: Vec<Gap>,
}

impl Phase {
    /// Length of the phase.
    #[must_use]
    pub fn len_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }

    /// Length of all gaps together.
    #[must_use]
    pub fn gaps_ns(&self) -> u64 {
        crate::sum(self.gaps.iter().map(Gap::len_ns))
    }

    /// The gaps that share time with `from..to`, with the shared stretch.
    pub fn gaps_within(&self, from: u64, to: u64) -> impl Iterator<Item = (usize, u64, u64)> {
        let first = self.gaps.partition_point(|g| g.end_ns <= from);
        let rest = self.gaps.iter().enumerate().skip(first);
        rest.take_while(move |(_, g)| g.start_ns < to).map(move |(i, g)| (i, g.start_ns.max(from), g.end_ns.min(to)))
    }
}

/// What a call does for the GPU's feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Submission,
    Wait,
    Neither,
}

fn role(trace: &Trace, call: &Call) -> Role {
    const HOST_TO_HOST: u64 = 0;
    const DEVICE_TO_HOST: u64 = 2;
    match trace.function(call.func).map(|f| f.class) {
        Some(Class::Launch) => Role::Submission,
        Some(Class::Sync) => Role::Wait,
        Some(Class::Copy) => match call.copy {
            Some(DEVICE_TO_HOST) => Role::Wait,
            Some(HOST_TO_HOST) => Role::Neither,
            _ => Role::Submission,
        },
        _ => Role::Neither,
    }
}

/// A wait that is entered this soon after the device was last seen busy directly follows, and one that lasted this long
/// has waited for the device. A later one that returns at once found the device idle, nobody knows since when.
const AT_ONCE_NS: u64 = 50_000;

/// One process while its calls are walked.
struct Walk {
    phase: Phase,
    /// Return of the latest submission, or of a wait for it.
    fed_until_ns: Option<u64>,
    /// Ends of the submissions that each thread is in: what it submits within one is the same
    /// submission, seen from a lower layer.
    inside: Vec<(TaskId, u64)>,
}

/// Finds the phases of all processes with CUDA calls, in order of their first call. Only calls that
/// are entered within the window count.
pub(crate) fn phases(trace: &Trace, processes: &Processes, window: &Window) -> Vec<Phase> {
    let mut walks: Vec<Option<Walk>> = Vec::new();
    let mut order: Vec<ProcessId> = Vec::new();
    for event in Merge::of(trace, |k| k == Kind::Call) {
        let Body::Call(call) = event.body else { continue };
        if !window.holds(event.ts_ns) {
            continue;
        }
        let id = processes.of(call.task);
        if walks.len() <= id.index() {
            walks.resize_with(id.index() + 1, || None);
        }
        let slot = &mut walks[id.index()];
        let walk = slot.get_or_insert_with(|| {
            order.push(id);
            let phase =
                Phase { process: id, start_ns: event.ts_ns, end_ns: event.ts_ns, submissions: 0, gaps: Vec::new() };
            Walk { phase, fed_until_ns: None, inside: Vec::new() }
        });
        walk.call(event.ts_ns, &call, role(trace, &call), window.trace_end_ns);
    }
    order.into_iter().filter_map(|id| walks.get_mut(id.index())?.take()).map(|w| w.phase).collect()
}

impl Walk {
    fn call(&mut self, ts: u64, call: &Call, role: Role, trace_end_ns: u64) {
        let end = match call.end {
            END_RETURNED => ts.saturating_add(call.dur_ns.unwrap_or(0)),
            // It is inside still: a process that hangs in a call has not come to its end.
            END_OPEN => trace_end_ns.max(ts),
            // It was left, or its row is stamped with its return.
            _ => ts,
        };
        let dur = end - ts;
        self.phase.end_ns = self.phase.end_ns.max(end);
        match role {
            Role::Neither => {}
            Role::Wait => {
                if let Some(until) = self.fed_until_ns
                    && (dur >= AT_ONCE_NS || ts <= until.saturating_add(AT_ONCE_NS))
                {
                    self.fed_until_ns = Some(until.max(end));
                }
            }
            Role::Submission => {
                self.inside.retain(|(_, until)| *until > ts);
                if self.inside.iter().any(|(task, _)| *task == call.task) {
                    return;
                }
                self.inside.push((call.task, end));
                self.phase.submissions += 1;
                if let Some(until) = self.fed_until_ns
                    && ts > until
                {
                    self.phase.gaps.push(Gap { start_ns: until, end_ns: ts, submitter: call.task });
                }
                self.fed_until_ns = Some(self.fed_until_ns.map_or(end, |until| until.max(end)));
            }
        }
    }
}

/// The threads that work for the submitters of a phase: who woke them, who woke those, and so on,
/// among the threads of the process and of the processes that descend from it.
///
/// None where the trace does not say who wakes whom: then any of these threads may.
pub(crate) fn helpers(trace: &Trace, processes: &Processes, phases: &[Phase]) -> Option<Vec<HashSet<TaskId>>> {
    const IN_TASK: u64 = 0;
    let mut wakes: Vec<HashMap<TaskId, HashSet<TaskId>>> = vec![HashMap::new(); phases.len()];
    let mut known = false;
    let blocks = trace.blocks().iter().filter(|b| b.header.kind == Kind::Waking as u16);
    let mut batch = Batch::new().ok()?;
    for block in blocks {
        // A block that cannot be read is told by the timeline; here its edges are missing.
        if trace.read_block(block, &mut batch, Some(&[TS, 2, 3, 5])).is_err() {
            continue;
        }
        let column = |id| batch.column(id).unwrap_or_default();
        let rows = column(TS).iter().zip(column(2)).zip(column(3)).zip(column(5));
        for (((&ts, &waker), &wakee), &context) in rows {
            known |= context != NULL;
            let (waker, wakee) = (TaskId::from_word(waker), TaskId::from_word(wakee));
            if context != IN_TASK || waker == TaskId(0) {
                continue;
            }
            for (phase, wakes) in phases.iter().zip(&mut wakes) {
                let family = |task| processes.descends(processes.of(task), phase.process);
                let within = (phase.start_ns..=phase.end_ns).contains(&ts);
                let seen = || wakes.get(&wakee).is_some_and(|w| w.contains(&waker));
                if within && !seen() && family(wakee) && family(waker) {
                    wakes.entry(wakee).or_default().insert(waker);
                }
            }
        }
    }
    let reach = |(phase, wakes): (&Phase, HashMap<TaskId, HashSet<TaskId>>)| {
        let mut found: HashSet<TaskId> = HashSet::new();
        let mut next: Vec<TaskId> = phase.gaps.iter().map(|g| g.submitter).collect();
        next.sort_unstable();
        next.dedup();
        while let Some(task) = next.pop() {
            let wakers = wakes.get(&task).into_iter().flatten();
            next.extend(wakers.filter(|w| found.insert(**w)));
        }
        found
    };
    known.then(|| phases.iter().zip(wakes).map(reach).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ingero_format::catalog::Layer;
    use ingero_replay::fixture::Fixture;

    fn found(f: Fixture) -> Vec<Phase> {
        let trace = f.finish();
        phases(&trace, &Processes::new(&trace), &Window::whole(&trace))
    }

    #[test]
    fn a_gap_runs_from_the_last_wait_to_the_next_submission() {
        let mut f = Fixture::new();
        let a = f.task(1, 1);
        let launch = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
        let inner = f.func("cuLaunchKernel", Layer::Driver, Class::Launch);
        let sync = f.func("cudaStreamSynchronize", Layer::Runtime, Class::Sync);
        f.call(0, 0, a, launch, 10);
        f.call(2, 0, a, inner, 5);
        f.call(20, 0, a, sync, 80);
        f.call(300, 0, a, launch, 10);
        f.call(320, 0, a, launch, 10);
        let phases = found(f);
        assert_eq!(phases.len(), 1);
        let p = &phases[0];
        assert_eq!((p.start_ns, p.end_ns, p.submissions), (0, 330, 3));
        let gaps: Vec<_> = p.gaps.iter().map(|g| (g.start_ns, g.end_ns)).collect();
        assert_eq!(gaps, [(100, 300), (310, 320)]);
        assert_eq!(p.gaps_ns(), 210);
        assert_eq!(p.gaps_within(50, 315).collect::<Vec<_>>(), [(0, 100, 300), (1, 310, 315)]);
    }

    #[test]
    fn a_late_wait_that_finds_the_device_idle_hides_no_gap() {
        let gaps = |wait_ns| {
            let mut f = Fixture::new();
            let a = f.task(1, 1);
            let launch = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
            let sync = f.func("cudaDeviceSynchronize", Layer::Runtime, Class::Sync);
            f.call(0, 0, a, launch, 10_000);
            f.call(500_000_000, 0, a, sync, wait_ns);
            f.call(600_000_000, 0, a, launch, 10_000);
            found(f)[0].gaps.iter().map(|g| (g.start_ns, g.end_ns)).collect::<Vec<_>>()
        };
        assert_eq!(gaps(5_000), [(10_000, 600_000_000)]);
        // This one did wait: the device was busy all the while.
        assert_eq!(gaps(50_000_000), [(550_000_000, 600_000_000)]);
    }

    #[test]
    fn submissions_of_two_threads_fill_each_others_gaps() {
        let mut f = Fixture::new();
        let (a, b) = (f.task(1, 1), f.task(1, 2));
        let launch = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
        f.call(0, 0, a, launch, 100);
        f.call(50, 1, b, launch, 100);
        f.call(200, 0, a, launch, 10);
        let phases = found(f);
        assert_eq!(phases[0].gaps, [Gap { start_ns: 150, end_ns: 200, submitter: a }]);
    }

    #[test]
    fn a_call_that_is_inside_still_keeps_its_phase_open() {
        let mut f = Fixture::new();
        let (a, other) = (f.task(1, 1), f.task(2, 2));
        let launch = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
        let sync = f.func("cudaDeviceSynchronize", Layer::Runtime, Class::Sync);
        f.call(0, 0, a, launch, 10);
        let hangs = Call {
            task: a,
            func: sync,
            dur_ns: None,
            end: END_OPEN,
            result: None,
            ptr: None,
            ptr2: None,
            bytes: None,
            copy: None,
            stream: None,
        };
        f.push(20, 0, hangs);
        f.call(9_000, 1, other, launch, 1_000);
        let phases = found(f);
        assert_eq!((phases[0].start_ns, phases[0].end_ns), (0, 10_000));
    }

    #[test]
    fn processes_have_their_own_phases() {
        let mut f = Fixture::new();
        let (a, b) = (f.task(1, 1), f.task(2, 2));
        let launch = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
        f.call(100, 0, b, launch, 10);
        f.call(200, 0, a, launch, 10);
        f.call(400, 0, b, launch, 10);
        let phases = found(f);
        assert_eq!(phases.iter().map(|p| (p.start_ns, p.gaps.len())).collect::<Vec<_>>(), [(100, 1), (200, 0)]);
    }
}
