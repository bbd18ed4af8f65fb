//! The state of one thread.

use ingero_format::catalog::{Switch, TaskId};

/// Who ended a thread's block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waker {
    /// This task, in its own context.
    Task(TaskId),
    /// An interrupt: 1 softirq, 2 hardirq, 3 NMI. Whoever was current then is not the waker.
    Interrupt {
        /// The number in the event's `context`.
        context: u64,
        /// The number in the event's `source`: a timer, a device, or another interrupt.
        source: Option<u64>,
        /// The number in the event's `irq`: of a softirq's vector, or of an interrupt line.
        irq: Option<u64>,
    },
    /// The trace does not tell.
    Unknown,
}

/// Why a thread was off its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffKind {
    /// It waited for something, and then for a CPU.
    Blocked,
    /// It could have run on, and waited for a CPU.
    Preempted,
    /// Its cgroup had used up its CPU quota.
    Throttled,
    /// It had just been made and waited for its first CPU. Not counted as off-CPU.
    Newborn,
}

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// It is on a CPU.
    Running,
    /// It could run and has no CPU.
    Runnable,
    /// It is held back by the CPU quota of its cgroup.
    Throttled,
    /// It waits for something else.
    Blocked,
    /// It is off the CPUs, and the source does not tell whether it waits for one or for something else.
    OffCpu,
}

impl State {
    /// All of them, as they stand side by side in sums.
    pub const ALL: [State; 5] = [State::Running, State::Runnable, State::Throttled, State::Blocked, State::OffCpu];

    /// Name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Runnable => "runnable",
            Self::Throttled => "throttled",
            Self::Blocked => "blocked",
            Self::OffCpu => "off-cpu",
        }
    }

    pub(crate) fn lane(self) -> usize {
        match self {
            Self::Running => 0,
            Self::Runnable => 1,
            Self::Throttled => 2,
            Self::Blocked => 3,
            Self::OffCpu => 4,
        }
    }

    pub(crate) fn of_label(label: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(label).ok()?).copied()
    }
}

/// A stay off the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffCpu {
    /// The thread.
    pub task: TaskId,
    /// Why.
    pub kind: OffKind,
    /// CPU that it left.
    pub out_cpu: Option<u32>,
    /// When it left; the trace's start, or where it was lost sight of, when `before` is set.
    pub out_ns: u64,
    /// Whether it left before `out_ns`, nobody saw when.
    pub before: bool,
    /// From when on it could have run; none while it is blocked still.
    pub runnable_ns: Option<u64>,
    /// CPU that it waited for then.
    pub wait_cpu: Option<u32>,
    /// CPU that it came back on, and when; none at the end of the trace.
    pub back: Option<(u32, u64)>,
    /// Of one without an end: where its host's recording ends, if that is before the trace's end.
    pub told_to_ns: u64,
    /// Whether it goes on at the end of its recording, which is where it is told to; else no more is known of it there.
    pub unfinished: bool,
    /// State in which it left, as in [`Switch::prev_state`].
    pub prev_state: u64,
    /// System call that it blocked in.
    pub syscall: Option<u64>,
    /// Who ended the block.
    pub waker: Waker,
    /// Whether the switch-in was made up.
    pub synthesised: bool,
}

impl OffCpu {
    /// How the part of the stay within `from..to` divides: blocked, runnable, throttled.
    #[must_use]
    #[inline]
    pub fn spent(&self, from: u64, to: u64) -> Spent {
        let end = self.end_ns().unwrap_or(to).min(to);
        let clip = |a: u64, b: u64| b.min(end).saturating_sub(a.max(from));
        let mut spent = Spent::default();
        match self.kind {
            OffKind::Throttled => spent.throttled_ns = clip(self.out_ns, end),
            _ => {
                let split = self.runnable_ns.unwrap_or(end);
                spent.blocked_ns = clip(self.out_ns, split);
                spent.runnable_ns = clip(split, end);
            }
        }
        spent
    }

    /// Where what is told of it ends: it came back, or its host's recording ends; none for the end of the trace.
    #[must_use]
    #[inline]
    pub fn end_ns(&self) -> Option<u64> {
        self.back.map(|(_, at)| at).or(Some(self.told_to_ns).filter(|ns| *ns < u64::MAX))
    }

    /// The states that the stay consists of, each with its begin and end; none for the end of the trace.
    pub fn parts(&self) -> impl Iterator<Item = (State, u64, Option<u64>)> {
        let back = self.end_ns();
        let split = if self.kind == OffKind::Throttled { back } else { self.runnable_ns.or(back) };
        let held = if self.kind == OffKind::Throttled { State::Throttled } else { State::Blocked };
        let runnable = split.filter(|&at| back.is_none_or(|back| at < back)).map(|at| (State::Runnable, at, back));
        [Some((held, self.out_ns, split)).filter(|&(_, from, to)| to.is_none_or(|to| from < to)), runnable]
            .into_iter()
            .flatten()
    }
}

/// A stay off the CPUs that the source measured by itself, in place of the switches around it. What its thread waited for, or
/// when it could have run again, is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredStay {
    /// The thread.
    pub task: TaskId,
    /// When it left its CPU.
    pub out_ns: u64,
    /// When it was on one again.
    pub back_ns: u64,
}

/// A part of a stay off the CPUs in which wakes are missing, and what comes behind it: its thread may have been blocked still, or
/// have waited for a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Undivided {
    /// The thread.
    pub task: TaskId,
    /// When it had left its CPU; none where nobody saw that.
    pub out_ns: Option<u64>,
    /// From when on it is not known which.
    pub from_ns: u64,
    /// Where the stay ends, or what is known of it; none for the end of the trace.
    pub to_ns: Option<u64>,
    /// Whether it goes on at the end of its recording.
    pub unfinished: bool,
    /// CPU that it came back on, if it did.
    pub in_cpu: Option<u32>,
}

/// A stretch on a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The thread.
    pub task: TaskId,
    /// Its CPU.
    pub cpu: u32,
    /// Switch-in, or the first moment at which it was seen to run.
    pub start_ns: u64,
    /// Whether it ran already before `start_ns`.
    pub before: bool,
    /// Switch-out, or where its host's recording ends before the trace; none at the end of the trace.
    pub end_ns: Option<u64>,
    /// Whether it goes on at the end of its recording, which is where it is told to.
    pub unfinished: bool,
    /// Whether the switch-in was made up.
    pub synthesised: bool,
}

/// Time by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// On a CPU.
    pub running_ns: u64,
    /// Able to run, waiting for a CPU.
    pub runnable_ns: u64,
    /// Held back by a CPU quota.
    pub throttled_ns: u64,
    /// Waiting for something else.
    pub blocked_ns: u64,
}

impl Spent {
    /// All of it. Like every sum here it stays at the largest number that there is: times of a damaged file may be any.
    #[must_use]
    #[inline]
    pub fn total_ns(&self) -> u64 {
        let rest = self.runnable_ns.saturating_add(self.throttled_ns).saturating_add(self.blocked_ns);
        self.running_ns.saturating_add(rest)
    }
}

impl std::ops::Sub for Spent {
    type Output = Spent;
    #[inline]
    fn sub(self, other: Spent) -> Spent {
        Spent {
            running_ns: self.running_ns.saturating_sub(other.running_ns),
            runnable_ns: self.runnable_ns.saturating_sub(other.runnable_ns),
            throttled_ns: self.throttled_ns.saturating_sub(other.throttled_ns),
            blocked_ns: self.blocked_ns.saturating_sub(other.blocked_ns),
        }
    }
}

impl std::ops::AddAssign for Spent {
    #[inline]
    fn add_assign(&mut self, other: Spent) {
        self.running_ns = self.running_ns.saturating_add(other.running_ns);
        self.runnable_ns = self.runnable_ns.saturating_add(other.runnable_ns);
        self.throttled_ns = self.throttled_ns.saturating_add(other.throttled_ns);
        self.blocked_ns = self.blocked_ns.saturating_add(other.blocked_ns);
    }
}

/// A wake as it was recorded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wake {
    pub(super) at_ns: u64,
    pub(super) waker: Waker,
    pub(super) cpu: Option<u32>,
}

/// What a thread does at this moment of the walk.
#[derive(Debug, Clone, Copy, Default)]
pub(super) enum Now {
    /// Not seen yet, or lost sight of.
    #[default]
    Unknown,
    Running {
        /// Switch-in, or when it was first seen to run.
        since_ns: u64,
        cpu: u32,
        /// Whether it ran already before it was first seen.
        before: bool,
        synthesised: bool,
    },
    Waiting {
        kind: OffKind,
        out_cpu: Option<u32>,
        out_ns: u64,
        /// Whether it left earlier than `out_ns`.
        before: bool,
        runnable_ns: Option<u64>,
        wait_cpu: Option<u32>,
        prev_state: u64,
        syscall: Option<u64>,
        waker: Waker,
    },
}

/// A thread's switch-in came while it was not waiting.
pub(super) struct Unseen;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TaskState {
    pub(super) now: Now,
    /// Time by state up to the start of `now`.
    spent: Spent,
    /// Where `now` began to count.
    counted_ns: u64,
    /// When it was last known to run.
    proven_ns: u64,
    /// Whether anything was seen of it yet.
    seen: bool,
    /// It has begun to exit: its next switch-out opens no stay.
    pub(super) exiting: bool,
    /// A wake that was recorded while it ran: it may belong to the switch-out that follows.
    pub(super) early_wake: Option<Wake>,
    /// The same, where only a later sched_wakeup can tell.
    pub(super) late_wake: Option<Wake>,
    pub(super) unconfirmed: Option<Wake>,
}

/// State bits of a task that is dead (X) or a zombie (Z).
const DEAD: u64 = 0x10 | 0x20;
/// Bit of a task that was preempted (R+).
const PREEMPTED: u64 = 0x100;

impl TaskState {
    /// Time by state from where the trace knows the thread, up to `ts`.
    pub(super) fn spent(&self, ts: u64) -> Spent {
        let mut spent = self.spent;
        let passed = |from: u64| ts.saturating_sub(from.max(self.counted_ns));
        match self.now {
            Now::Unknown => {}
            // It was not seen to begin, but it does run.
            Now::Running { .. } => spent.running_ns += passed(self.counted_ns),
            Now::Waiting { kind: OffKind::Throttled, .. } => spent.throttled_ns += passed(self.counted_ns),
            Now::Waiting { runnable_ns, .. } => {
                let split = runnable_ns.unwrap_or(ts).clamp(self.counted_ns, ts.max(self.counted_ns));
                spent.blocked_ns += split - self.counted_ns;
                spent.runnable_ns += passed(split);
            }
        }
        spent
    }

    /// Whether its switches, wakes or birth told anything of it yet.
    pub(super) fn seen(&self) -> bool {
        self.seen
    }

    fn change(&mut self, ts: u64, now: Now) {
        self.spent = self.spent(ts);
        self.counted_ns = ts.max(self.counted_ns);
        self.now = now;
    }

    /// Something shows that it still runs.
    pub(super) fn prove(&mut self, ts: u64) {
        if matches!(self.now, Now::Running { .. }) {
            self.proven_ns = self.proven_ns.max(ts);
        }
    }

    /// The stretch on a CPU that it is in, as far as something shows that it ran.
    pub(super) fn proven_run(&self, task: TaskId) -> Option<Run> {
        let run = self.open_run(task)?;
        (self.proven_ns > run.start_ns).then_some(Run { end_ns: Some(self.proven_ns), unfinished: false, ..run })
    }

    /// Its state is not known any more.
    pub(super) fn forget(&mut self, ts: u64) {
        // What it did since it was last seen to run, or to change, counts for nothing.
        if matches!(self.now, Now::Running { .. }) && self.proven_ns > self.counted_ns {
            self.spent.running_ns += self.proven_ns.min(ts).saturating_sub(self.counted_ns);
        }
        self.counted_ns = ts;
        self.now = Now::Unknown;
        self.early_wake = None;
        self.late_wake = None;
        self.unconfirmed = None;
    }

    /// Whether it was blocked between these instants is not known.
    pub(super) fn doubt(&mut self, from_ns: u64, to_ns: u64) {
        self.spent = self.spent(from_ns);
        self.counted_ns = to_ns.max(self.counted_ns);
    }

    /// What it does from here on is not known.
    pub(super) fn lose(&mut self, ts: u64) {
        self.change(ts, Now::Unknown);
        self.early_wake = None;
        self.late_wake = None;
        self.unconfirmed = None;
    }

    /// It runs, and nobody saw since when.
    pub(super) fn runs_unseen(&mut self, ts: u64, cpu: u32) {
        self.counted_ns = ts;
        self.seen = true;
        self.now = Now::Running { since_ns: ts, cpu, before: true, synthesised: false };
    }

    pub(super) fn born(&mut self, ts: u64, cpu: Option<u32>) {
        let newborn = matches!(self.now, Now::Unknown | Now::Waiting { kind: OffKind::Newborn, .. });
        if newborn {
            self.seen = true;
            self.counted_ns = ts;
            self.now = Now::Waiting {
                kind: OffKind::Newborn,
                out_cpu: None,
                out_ns: ts,
                before: false,
                runnable_ns: Some(ts),
                wait_cpu: cpu,
                prev_state: 0,
                syscall: None,
                waker: Waker::Unknown,
            };
        }
    }

    pub(super) fn switch_out(&mut self, ts: u64, cpu: u32, e: &Switch) {
        self.seen = true;
        if e.prev_state & DEAD != 0 {
            self.change(ts, Now::Unknown);
            return;
        }
        let kind = if e.throttled == Some(1) {
            OffKind::Throttled
        } else if e.prev_state == 0 || e.prev_state & PREEMPTED != 0 {
            OffKind::Preempted
        } else if self.exiting {
            self.change(ts, Now::Unknown);
            return;
        } else {
            OffKind::Blocked
        };
        let runnable = kind == OffKind::Preempted;
        self.change(
            ts,
            Now::Waiting {
                kind,
                out_cpu: Some(cpu),
                out_ns: ts,
                before: false,
                runnable_ns: runnable.then_some(ts),
                wait_cpu: runnable.then_some(cpu),
                prev_state: e.prev_state,
                syscall: e.syscall,
                waker: Waker::Unknown,
            },
        );
    }

    pub(super) fn is_blocked(&self) -> bool {
        matches!(self.now, Now::Waiting { kind: OffKind::Blocked, runnable_ns: None, .. })
    }

    /// A wake of a task that it does not change: true where that shows that the task ran and
    /// blocked again since its last wake, and nobody saw it.
    pub(super) fn wake(&mut self, ts: u64, wake: Wake, start_ns: u64) -> bool {
        match &mut self.now {
            Now::Waiting { kind: OffKind::Blocked, runnable_ns: runnable @ None, wait_cpu, waker, .. } => {
                *runnable = Some(ts);
                *wait_cpu = wake.cpu;
                *waker = wake.waker;
                self.unconfirmed = None;
            }
            Now::Waiting { kind: OffKind::Blocked, runnable_ns: Some(_), .. } => {
                self.forget(ts);
                self.woken_unseen(ts, ts, wake);
                return true;
            }
            Now::Waiting { .. } => {}
            Now::Running { .. } => {
                self.early_wake = Some(wake);
                self.late_wake = Some(wake);
            }
            Now::Unknown => self.woken_unseen(start_ns, ts, wake),
        }
        false
    }

    /// It had blocked, nobody saw when; now it can run.
    fn woken_unseen(&mut self, out_ns: u64, ts: u64, wake: Wake) {
        if self.exiting {
            return;
        }
        self.counted_ns = ts;
        self.now = Now::Waiting {
            kind: OffKind::Blocked,
            out_cpu: None,
            out_ns: if self.seen { ts } else { out_ns },
            before: true,
            runnable_ns: Some(ts),
            wait_cpu: wake.cpu,
            prev_state: 0,
            syscall: None,
            waker: wake.waker,
        };
        self.seen = true;
    }

    /// sched_wakeup: it is on this CPU's run queue now. `wakes` is whether the source has no
    /// sched_waking, so that this is the wake itself; what is returned is as for [`Self::wake`].
    pub(super) fn queued(&mut self, ts: u64, cpu: u32, wakes: bool, start_ns: u64) -> bool {
        let wake = Wake { at_ns: ts, waker: Waker::Unknown, cpu: Some(cpu) };
        if wakes {
            let unseen = self.wake(ts, wake, start_ns);
            if let Now::Waiting { wait_cpu, .. } = &mut self.now {
                *wait_cpu = Some(cpu);
            }
            return unseen;
        }
        let unconfirmed = self.unconfirmed.take();
        match &mut self.now {
            Now::Waiting { kind: OffKind::Blocked, runnable_ns, wait_cpu, waker, out_ns, .. } => {
                if runnable_ns.is_none() {
                    // The waking that belongs to it was recorded just before the switch-out, or was
                    // lost.
                    *runnable_ns = Some(unconfirmed.map_or(ts, |_| *out_ns));
                    *waker = unconfirmed.map_or(Waker::Unknown, |w| w.waker);
                }
                *wait_cpu = Some(cpu);
            }
            Now::Waiting { wait_cpu, .. } => *wait_cpu = Some(cpu),
            // It was woken before it had left: it never will have blocked.
            Now::Running { .. } => self.late_wake = None,
            Now::Unknown => self.woken_unseen(start_ns, ts, wake),
        }
        false
    }

    pub(super) fn switch_in(
        &mut self,
        ts: u64,
        cpu: u32,
        task: TaskId,
        synthesised: bool,
        start_ns: u64,
    ) -> Result<Option<OffCpu>, Unseen> {
        let stay = self.open_stay(task);
        let seen = match self.now {
            Now::Waiting { .. } => {
                Ok(stay.map(|stay| OffCpu { back: Some((cpu, ts)), unfinished: false, synthesised, ..stay }))
            }
            // First seen as it takes a CPU: it was off it since before the trace.
            Now::Unknown if !self.seen => Ok(Some(OffCpu {
                task,
                kind: OffKind::Blocked,
                out_cpu: None,
                out_ns: start_ns,
                before: true,
                runnable_ns: None,
                wait_cpu: None,
                back: Some((cpu, ts)),
                told_to_ns: u64::MAX,
                unfinished: false,
                prev_state: 0,
                syscall: None,
                waker: Waker::Unknown,
                synthesised,
            })),
            Now::Unknown => Ok(None),
            Now::Running { .. } => Err(Unseen),
        };
        if seen.is_err() {
            self.forget(ts);
        }
        if matches!(self.now, Now::Unknown) {
            self.counted_ns = ts;
        }
        self.change(ts, Now::Running { since_ns: ts, cpu, before: false, synthesised });
        self.seen = true;
        self.early_wake = None;
        self.late_wake = None;
        self.unconfirmed = None;
        seen
    }

    /// The stretch on a CPU that it is in, without its end.
    pub(super) fn open_run(&self, task: TaskId) -> Option<Run> {
        let Now::Running { since_ns, cpu, before, synthesised } = self.now else { return None };
        Some(Run { task, cpu, start_ns: since_ns, before, end_ns: None, unfinished: true, synthesised })
    }

    /// The stay that it is in, without its end.
    pub(super) fn open_stay(&self, task: TaskId) -> Option<OffCpu> {
        let Now::Waiting { kind, out_cpu, out_ns, before, runnable_ns, wait_cpu, prev_state, syscall, waker } =
            self.now
        else {
            return None;
        };
        Some(OffCpu {
            task,
            kind,
            out_cpu,
            out_ns,
            before,
            runnable_ns,
            wait_cpu,
            back: None,
            told_to_ns: u64::MAX,
            unfinished: true,
            prev_state,
            syscall,
            waker,
            synthesised: false,
        })
    }
}
