//! What threads and CPUs did within a range: the stretches that a timeline consists of.
//!
//! [`Scene`] is a [`Sink`] that keeps what overlaps a range, of the threads or the CPU that are asked
//! for, and no more of it than is asked for: a page of the rows in the order of their beginnings.

use std::collections::BinaryHeap;

use ingero_format::catalog::{Body, Call, END_RETURNED, FuncId, StrId, TaskId};

use crate::event::Event;
use crate::timeline::{CallSpan, Cpus, OffCpu, OffKind, Run, Sink, StoredStay, Undivided, Waker};

/// What a stretch is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doing {
    /// The thread was blocked.
    Blocked {
        /// System call that it blocked in, where known.
        syscall: Option<u64>,
        /// State in which it left its CPU, as in `sched_switch`.
        prev_state: u64,
        /// Who ended it; unknown also where nothing did within the trace.
        waker: WokenBy,
    },
    /// The thread could have run and had no CPU.
    Runnable {
        /// CPU whose queue it stood in.
        cpu: Option<u32>,
        /// How it came to be there.
        since: Queued,
        /// Who was on that CPU meanwhile, within the range, largest first. The idle task is nobody.
        behind: Vec<(TaskId, u64)>,
    },
    /// The thread was held back by the CPU quota of its cgroup.
    Throttled,
    /// The thread was off the CPUs, blocked or runnable: its source measured that alone, or wakes are missing.
    OffCpu,
    /// The thread ran.
    Running {
        /// Its CPU.
        cpu: u32,
    },
    /// The thread was in a call.
    Calling {
        /// Function.
        func: FuncId,
        /// Whether the call returned.
        returned: bool,
        /// Result code.
        result: Option<i64>,
    },
    /// The program said what it does: a range by NVTX, a span of a profiler.
    Range {
        /// Its name, where it is known.
        name: Option<StrId>,
    },
    /// Something named a moment: a mark by NVTX, a line in the file of `INGERO_MARKS`.
    Mark {
        /// Its text, where it is known.
        text: Option<StrId>,
        /// Whether a thread made it; if not, the stretch's task means nothing.
        of_thread: bool,
    },
    /// The thread woke another, in its own context.
    Woke {
        /// Which.
        wakee: TaskId,
    },
}

/// Who ended a block, in an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WokenBy {
    /// This task.
    Task(TaskId),
    /// An interrupt: 1 softirq, 2 hardirq, 3 NMI.
    Interrupt(u64),
    /// The trace does not tell.
    Unknown,
    /// Where the stretch ends, no more is known of it: events are missing, or its host's recording ends.
    NoMoreKnown,
}

impl WokenBy {
    /// Who ended the block, in words; `label` is what a task is called.
    #[must_use]
    pub fn sentence(self, label: impl FnOnce(TaskId) -> String) -> String {
        match self {
            Self::Task(task) => format!("woken by {}", label(task)),
            Self::Interrupt(1) => "woken by a softirq (a timer or a device)".to_owned(),
            Self::Interrupt(2) => "woken by an interrupt (a timer or a device)".to_owned(),
            Self::Interrupt(_) => "woken by a non-maskable interrupt".to_owned(),
            Self::Unknown => "woken by somebody that the recording does not name".to_owned(),
            Self::NoMoreKnown => "what came of it is not known".to_owned(),
        }
    }
}

impl From<Waker> for WokenBy {
    fn from(waker: Waker) -> Self {
        match waker {
            Waker::Task(task) => Self::Task(task),
            Waker::Interrupt { context, .. } => Self::Interrupt(context),
            Waker::Unknown => Self::Unknown,
        }
    }
}

/// How a thread came to wait for a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Queued {
    /// It was woken.
    Woken(WokenBy),
    /// It was taken off its CPU.
    Preempted,
    /// It had just been made.
    Born,
}

/// One stretch of one thread.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stretch {
    /// Begin; the trace's start, or where the thread was first seen, when `before` is set.
    pub start_ns: u64,
    /// The thread.
    pub task: TaskId,
    /// What it did.
    pub doing: Doing,
    /// End; none where the recording ends first, or does not tell.
    pub end_ns: Option<u64>,
    /// Whether it began before `start_ns`.
    pub before: bool,
    /// Whether its switch-in was made up, since the kernel did not report it.
    pub synthesised: bool,
}

/// Which threads a [`Scene`] is about.
#[derive(Debug, Clone)]
pub enum Cast {
    /// All but the idle tasks.
    All,
    /// Those whose place in this table is set, by task.
    Tasks(Vec<bool>),
    /// Whoever ran on this CPU, waited for it, or woke somebody from it.
    Cpu(u32),
}

/// Keeps a page of the stretches that overlap a range.
#[derive(Debug)]
pub struct Scene {
    from_ns: u64,
    to_ns: u64,
    cast: Cast,
    /// Rows that can still matter.
    keep: usize,
    skip: usize,
    total: u64,
    /// The smallest `keep` so far, the largest of them on top.
    rows: BinaryHeap<Stretch>,
}

/// What a [`Scene`] found.
#[derive(Debug)]
pub struct Page {
    /// The rows, in the order of their beginnings.
    pub rows: Vec<Stretch>,
    /// How many there are in all.
    pub total: u64,
}

impl Scene {
    /// What `cast` did within `from_ns..to_ns`: `take` rows after the first `skip`.
    #[must_use]
    pub fn new(from_ns: u64, to_ns: u64, cast: Cast, skip: usize, take: usize) -> Self {
        let keep = skip.saturating_add(take);
        Self { from_ns, to_ns, cast, keep, skip, total: 0, rows: BinaryHeap::new() }
    }

    /// What everybody did at one moment.
    #[must_use]
    pub fn moment(at_ns: u64, cast: Cast) -> Self {
        Self::new(at_ns, at_ns.saturating_add(1), cast, 0, usize::MAX)
    }

    /// Whom it is about.
    #[must_use]
    pub fn cast(&self) -> &Cast {
        &self.cast
    }

    /// The rows that were asked for.
    #[must_use]
    pub fn into_page(self) -> Page {
        let rows = self.rows.into_sorted_vec().into_iter().skip(self.skip).collect();
        Page { rows, total: self.total }
    }

    fn is_cast(&self, task: TaskId, cpu: Option<u32>) -> bool {
        match &self.cast {
            Cast::All => task != TaskId(0),
            Cast::Tasks(wanted) => wanted.get(task.index()).copied().unwrap_or(false),
            Cast::Cpu(wanted) => cpu == Some(*wanted) && task != TaskId(0),
        }
    }

    fn overlaps(&self, start_ns: u64, end_ns: Option<u64>) -> bool {
        start_ns < self.to_ns && (end_ns.is_none_or(|end| end > self.from_ns) || start_ns >= self.from_ns)
    }

    fn keep(&mut self, stretch: Stretch) {
        self.total += 1;
        if self.rows.len() < self.keep {
            self.rows.push(stretch);
        } else if let Some(mut last) = self.rows.peek_mut()
            && stretch < *last
        {
            *last = stretch;
        }
    }

    fn behind(&self, cpu: Option<u32>, from_ns: u64, to_ns: u64, cpus: &Cpus) -> Vec<(TaskId, u64)> {
        let mut behind: Vec<(TaskId, u64)> = Vec::new();
        let Some(cpu) = cpu else { return behind };
        cpus.holders(cpu, from_ns.max(self.from_ns), to_ns.min(self.to_ns), |task, ns| {
            match behind.iter_mut().find(|(known, _)| *known == task) {
                Some((_, sum)) => *sum = sum.saturating_add(ns),
                None => behind.push((task, ns)),
            }
        });
        behind.sort_by_key(|&(task, ns)| (std::cmp::Reverse(ns), task));
        behind
    }
}

impl Sink for Scene {
    fn event(&mut self, event: &Event) {
        if let Body::Waking(e) = &event.body
            && e.context == Some(0)
            && self.is_cast(e.waker, Some(event.cpu))
            && e.waker != TaskId(0)
            && (self.from_ns..self.to_ns).contains(&event.ts_ns)
        {
            self.keep(Stretch {
                start_ns: event.ts_ns,
                task: e.waker,
                doing: Doing::Woke { wakee: e.wakee },
                end_ns: Some(event.ts_ns),
                before: false,
                synthesised: false,
            });
        }
    }

    fn off_cpu(&mut self, stay: &OffCpu, cpus: &Cpus) {
        let back = stay.end_ns();
        if !self.overlaps(stay.out_ns, back) {
            return;
        }
        let OffCpu { task, out_ns, before, synthesised, .. } = *stay;
        let known = |end_ns: Option<u64>| end_ns.filter(|ns| !stay.unfinished || back != Some(*ns));
        let row = |start_ns, doing, end_ns, before| {
            let end_ns = known(end_ns);
            Stretch { start_ns, task, doing, end_ns, before, synthesised }
        };
        if stay.kind == OffKind::Throttled {
            if self.is_cast(task, stay.out_cpu) {
                self.keep(row(out_ns, Doing::Throttled, back, before));
            }
            return;
        }
        let blocked_until = stay.runnable_ns.or(back);
        let was_blocked = stay.kind == OffKind::Blocked && stay.runnable_ns != Some(out_ns);
        // Of whom nobody woke it is not known when the wait for a CPU began, nor for which.
        if was_blocked && self.is_cast(task, None) && self.overlaps(out_ns, blocked_until) {
            let is_told_to = stay.runnable_ns.is_none() && known(back).is_some() && stay.back.is_none();
            let waker = if is_told_to { WokenBy::NoMoreKnown } else { stay.waker.into() };
            let doing = Doing::Blocked { syscall: stay.syscall, prev_state: stay.prev_state, waker };
            self.keep(row(out_ns, doing, blocked_until, before));
        }
        if let Some(since_ns) = stay.runnable_ns
            && self.is_cast(task, stay.wait_cpu)
            && self.overlaps(since_ns, back)
        {
            let since = match stay.kind {
                OffKind::Preempted => Queued::Preempted,
                OffKind::Newborn => Queued::Born,
                _ => Queued::Woken(stay.waker.into()),
            };
            let behind = self.behind(stay.wait_cpu, since_ns, back.unwrap_or(u64::MAX), cpus);
            let doing = Doing::Runnable { cpu: stay.wait_cpu, since, behind };
            self.keep(row(since_ns, doing, back, before && !was_blocked));
        }
    }

    fn stored_stay(&mut self, stay: &StoredStay) {
        let StoredStay { task, out_ns: start_ns, back_ns } = *stay;
        // For which CPU it waited, if for any, is not known.
        if self.is_cast(task, None) && self.overlaps(start_ns, Some(back_ns)) {
            let (doing, end_ns) = (Doing::OffCpu, Some(back_ns));
            self.keep(Stretch { start_ns, task, doing, end_ns, before: false, synthesised: false });
        }
    }

    fn undivided(&mut self, part: &Undivided) {
        let Undivided { task, out_ns, from_ns: start_ns, to_ns: end_ns, .. } = *part;
        if self.is_cast(task, None) && self.overlaps(start_ns, end_ns) {
            let before = out_ns.is_none();
            let end_ns = end_ns.filter(|_| !part.unfinished);
            self.keep(Stretch { start_ns, task, doing: Doing::OffCpu, end_ns, before, synthesised: false });
        }
    }

    fn run(&mut self, run: &Run) {
        if self.is_cast(run.task, Some(run.cpu)) && self.overlaps(run.start_ns, run.end_ns) {
            self.keep(Stretch {
                start_ns: run.start_ns,
                task: run.task,
                doing: Doing::Running { cpu: run.cpu },
                end_ns: run.end_ns.filter(|_| !run.unfinished),
                before: run.before,
                synthesised: run.synthesised,
            });
        }
    }

    fn call(&mut self, span: &CallSpan) {
        self.keep_call(span.start_ns, Some(span.end_ns), &span.call);
    }

    fn unreturned(&mut self, at_ns: u64, call: &Call) {
        self.keep_call(at_ns, None, call);
    }
}

impl Scene {
    /// Takes in ranges and marks that programs set themselves, which a sink is not told of: for those who show them. What was marked for
    /// the recording as a whole is part of every range's scene.
    pub fn mark(&mut self, event: &Event) {
        let (task, doing, dur_ns) = match &event.body {
            Body::Range(e) => (Some(e.task), Doing::Range { name: e.name }, e.dur_ns.filter(|_| e.end == END_RETURNED)),
            Body::Span(e) => (Some(e.task), Doing::Range { name: Some(e.name) }, Some(e.dur_ns)),
            Body::Mark(e) => (e.task, Doing::Mark { text: e.text, of_thread: e.task.is_some() }, Some(0)),
            _ => return,
        };
        let end_ns = dur_ns.map(|dur| event.ts_ns.saturating_add(dur));
        if task.is_none_or(|task| self.is_cast(task, None)) && self.overlaps(event.ts_ns, end_ns) {
            let task = task.unwrap_or(TaskId(0));
            self.keep(Stretch { start_ns: event.ts_ns, task, doing, end_ns, before: false, synthesised: false });
        }
    }

    fn keep_call(&mut self, start_ns: u64, end_ns: Option<u64>, call: &Call) {
        // On which CPUs a call was is for the runs of its thread to tell.
        if self.is_cast(call.task, None) && self.overlaps(start_ns, end_ns) {
            let returned = call.end == END_RETURNED;
            self.keep(Stretch {
                start_ns,
                task: call.task,
                doing: Doing::Calling { func: call.func, returned, result: call.result },
                end_ns,
                before: false,
                synthesised: false,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use ingero_format::catalog::{Class, Layer};

    use super::*;
    use crate::fixture::Fixture;
    use crate::timeline::Timeline;

    const IDLE: TaskId = TaskId(0);
    const SLEEPS: u64 = 1;

    /// `main` sleeps from 20 to 60, is woken by `helper`, waits behind `other` until 80, runs, calls.
    fn page(scene: impl FnOnce(TaskId) -> Scene) -> (Vec<String>, u64) {
        let mut f = Fixture::new();
        let (main, helper, other) = (f.task(1, 1), f.task(1, 2), f.task(9, 9));
        let launch = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
        f.switch(10, 0, IDLE, 0, main);
        f.switch(20, 0, main, SLEEPS, other);
        f.switch(30, 1, IDLE, 0, helper);
        f.waking(60, 1, helper, main, 0);
        f.wakeup(60, 0, main, 0);
        f.switch(70, 1, helper, SLEEPS, IDLE);
        f.switch(80, 0, other, SLEEPS, main);
        f.call(85, 0, main, launch, 10);
        f.switch(100, 0, main, SLEEPS, IDLE);
        let trace = f.finish();
        let mut scene = scene(main);
        Timeline::new(&trace).run(&mut scene);
        let page = scene.into_page();
        let name = |t: TaskId| ["idle", "main", "helper", "other"][t.index()];
        let row = |s: &Stretch| {
            let end = s.end_ns.map_or("end".to_owned(), |e| e.to_string());
            let what = match &s.doing {
                Doing::Blocked { waker: WokenBy::Task(t), .. } => format!("blocked, woken by {}", name(*t)),
                Doing::Blocked { .. } => "blocked".to_owned(),
                Doing::Runnable { cpu, behind, .. } => {
                    let behind: Vec<_> = behind.iter().map(|(t, ns)| format!("{} {ns}", name(*t))).collect();
                    format!("runnable on {cpu:?} behind {}", behind.join(", "))
                }
                Doing::Running { cpu } => format!("on {cpu}"),
                Doing::Calling { returned, .. } => format!("call {returned}"),
                Doing::Woke { wakee } => format!("woke {}", name(*wakee)),
                Doing::Throttled => "throttled".to_owned(),
                Doing::OffCpu => "off".to_owned(),
                Doing::Range { .. } => "range".to_owned(),
                Doing::Mark { .. } => "mark".to_owned(),
            };
            let before = if s.before { "before " } else { "" };
            format!("{} {before}{}..{end} {what}", name(s.task), s.start_ns)
        };
        (page.rows.iter().map(row).collect(), page.total)
    }

    fn of_main(main: TaskId) -> Cast {
        let mut wanted = vec![false; 8];
        wanted[main.index()] = true;
        Cast::Tasks(wanted)
    }

    #[test]
    fn a_thread_is_followed_from_state_to_state() {
        let (rows, total) = page(|main| Scene::new(15, 90, of_main(main), 0, 10));
        let expected = [
            "main 10..20 on 0",
            "main 20..60 blocked, woken by helper",
            "main 60..80 runnable on Some(0) behind other 20",
            "main 80..100 on 0",
            "main 85..95 call true",
        ];
        assert_eq!((rows.as_slice(), total), (&expected.map(String::from)[..], 5));
    }

    #[test]
    fn what_programs_say_is_shown_with_the_thread_or_for_the_whole_recording() {
        use ingero_format::catalog::{END_OPEN, MARKED_BY_NVTX, MARKED_IN_FILE, Mark, RANGE_PUSHED, Range};

        let mut f = Fixture::new();
        let (a, b) = (f.task(1, 1), f.task(1, 2));
        let name = Some(f.writer().string("epoch"));
        let range = |task, dur_ns, end| Range { task, dur_ns, end, name, form: RANGE_PUSHED };
        f.push(10, 0, range(a, Some(20), END_RETURNED));
        f.push(12, 0, range(b, Some(20), END_RETURNED));
        f.push(25, 0, range(a, None, END_OPEN));
        f.push(26, 0, Mark { task: Some(a), text: name, source: MARKED_BY_NVTX });
        f.push(27, 0, Mark { task: None, text: name, source: MARKED_IN_FILE });
        f.push(90, 0, Mark { task: Some(a), text: name, source: MARKED_BY_NVTX });
        let trace = f.finish();
        let mut scene = Scene::new(20, 50, Cast::Tasks(vec![false, true, false]), 0, 10);
        crate::merge::Merge::new(&trace).for_each(|event| scene.mark(&event));
        let rows: Vec<_> = scene.into_page().rows.into_iter().map(|s| (s.start_ns, s.end_ns, s.doing)).collect();
        assert_eq!(
            rows,
            [
                (10, Some(30), Doing::Range { name }),
                (25, None, Doing::Range { name }),
                (26, Some(26), Doing::Mark { text: name, of_thread: true }),
                (27, Some(27), Doing::Mark { text: name, of_thread: false }),
            ]
        );
    }

    #[test]
    fn a_page_is_a_part_of_the_whole() {
        let (all, _) = page(|main| Scene::new(0, 1000, of_main(main), 0, 100));
        for skip in 0..all.len() {
            let (rows, total) = page(|main| Scene::new(0, 1000, of_main(main), skip, 2));
            assert_eq!(rows, all[skip..(skip + 2).min(all.len())]);
            assert_eq!(total, all.len() as u64);
        }
        assert_eq!(page(|main| Scene::new(0, 1000, of_main(main), 0, 0)).1, all.len() as u64);
    }

    #[test]
    fn a_cpu_has_its_runners_and_those_who_wait_for_it() {
        let (rows, _) = page(|_| Scene::new(50, 75, Cast::Cpu(0), 0, 10));
        assert_eq!(rows, ["other 20..80 on 0", "main 60..80 runnable on Some(0) behind other 15"]);
        let (rows, _) = page(|_| Scene::new(50, 75, Cast::Cpu(1), 0, 10));
        assert_eq!(rows, ["helper 30..70 on 1", "helper 60..60 woke main"]);
    }

    #[test]
    fn at_a_moment_each_thread_has_one_state() {
        let (rows, _) = page(|_| Scene::moment(65, Cast::All));
        let expected = ["other 20..80 on 0", "helper 30..70 on 1", "main 60..80 runnable on Some(0) behind other 1"];
        assert_eq!(rows, expected);
        // A state ends before the instant at which the next one begins.
        let (rows, _) = page(|_| Scene::moment(80, Cast::All));
        assert!(rows.contains(&"main 80..100 on 0".to_owned()), "{rows:?}");
        assert!(!rows.iter().any(|r| r.starts_with("main 60")), "{rows:?}");
    }
}
