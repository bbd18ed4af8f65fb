//! How a process feeds its GPU: its submissions, and the gaps between them.

mod queue;

use std::collections::HashSet;

use ingero_format::Trace;
use ingero_format::catalog::{Body, Call, Class, END_OPEN, END_RETURNED, FuncId, Kind, TaskId};
use ingero_replay::{Hosts, LostBlock, Merge, ProcessId, Processes, Window};

use crate::exchange::Calls;
use queue::Queue;

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
    /// Function that it made it with.
    pub next: FuncId,
    /// Submissions of the process before it.
    pub before: u32,
    /// Whether it began with the end of a wait for the device, which had nothing left to do then.
    pub after_wait: bool,
    /// Whether it had begun before: the range cuts it, or the recording begins in it.
    pub began_before: bool,
    /// Whether no submission ends it: the range cuts it, or the recording ends in it. What is said of the next one is then of
    /// the last one.
    pub unfinished: bool,
    /// When it ended at last, behind the range where that cuts it.
    pub until_ns: u64,
}

/// Gaps shorter than this are no loss by themselves: they are of the order of a launch, and what is queued on the
/// device outlasts them. A loop that submits back to back has no other gaps.
pub const LOST_FROM_NS: u64 = 50_000;

/// A gap from which on another step begins. What keeps a device fed has shorter ones.
pub(crate) const STEP_FROM_NS: u64 = 1_000_000;

/// Submissions back to back that the device was done with before anybody waited for them: it was faster than its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Burst {
    /// Entry of the first.
    pub start_ns: u64,
    /// Entry of the wait that returned at once.
    pub end_ns: u64,
    /// How many.
    pub submissions: u64,
    /// The thread that made the first of them.
    pub submitter: TaskId,
}

impl Gap {
    /// Length of the gap.
    #[must_use]
    pub fn len_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }

    /// Whether it is long enough to count as lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.len_ns() >= LOST_FROM_NS
    }

    /// Whether it is a short one that a wait for the device began: such gaps come from waiting too often.
    pub(crate) fn is_behind_wait(&self) -> bool {
        self.after_wait && !self.begins_step()
    }

    /// Whether it is the pause that another step begins with.
    #[must_use]
    pub fn begins_step(&self) -> bool {
        self.len_ns() >= STEP_FROM_NS
    }
}

/// All that a process submitted to its GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Feed {
    /// The process.
    pub(crate) process: ProcessId,
    /// Entry of its first call.
    pub(crate) start_ns: u64,
    /// Return of its last call.
    pub(crate) end_ns: u64,
    /// Launches and copies to the device.
    pub(crate) submissions: u64,
    /// Its gaps, in order; they do not overlap.
    pub(crate) gaps: Vec<Gap>,
    /// Its bursts, in order.
    pub(crate) bursts: Vec<Burst>,
    /// Entry of its first submission.
    pub(crate) fed_from_ns: Option<u64>,
    /// Its submissions before which, or by which, something was called for the first time.
    pub(crate) firsts: Vec<First>,
    /// Its submissions in the range and in what was recorded after it: how long it goes on is no matter of the range.
    pub(crate) recorded: u64,
    /// The gaps behind the range: how many, and the longest. They tell what is usual for it.
    pub(crate) behind: (usize, u64),
    /// Whether it submitted before the range: then it is under way where that begins.
    pub(crate) fed_before: bool,
    /// The thread and the function of its first submission, and of its last one.
    pub(crate) ends: Option<[(TaskId, FuncId); 2]>,
    /// Until when its last submission, or a wait for it, lasted.
    pub(crate) fed_until_ns: u64,
    /// Return of its last call in the recording.
    pub(crate) called_until_ns: u64,
    /// Whether it makes a call in the range, or is between two submissions there.
    pub(crate) called: bool,
    /// Whether it submits anything in the recording, wherever the range lies.
    pub(crate) submits: bool,
    /// From when to when its host was recorded: in a recording of several that is not from begin to end.
    pub(crate) known_ns: (u64, u64),
}

impl Feed {
    /// Takes what comes before its first submission for a gap: it began while the process ran already.
    pub(crate) fn open_at_its_begin(&mut self) {
        let Some([(submitter, next), _]) = self.ends else { return };
        if let Some(end_ns) = self.fed_from_ns.filter(|&ns| ns > self.start_ns) {
            let gap = Gap {
                start_ns: self.start_ns,
                end_ns,
                submitter,
                next,
                before: 0,
                after_wait: false,
                began_before: true,
                unfinished: false,
                until_ns: end_ns,
            };
            self.gaps.insert(0, gap);
        }
    }

    /// Takes what comes after its last submission for a gap: it may go on behind the recording's end.
    pub(crate) fn open_at_its_end(&mut self) {
        let Some([_, (submitter, next)]) = self.ends else { return };
        // Before the range nobody asks for it.
        let start_ns = self.fed_until_ns.max(self.start_ns);
        if start_ns < self.end_ns && self.gaps.last().is_none_or(|gap| gap.end_ns <= start_ns) {
            let before = u32::try_from(self.submissions).unwrap_or(u32::MAX);
            let end_ns = self.end_ns;
            self.gaps.push(Gap {
                start_ns,
                end_ns,
                submitter,
                next,
                before,
                after_wait: false,
                began_before: self.fed_until_ns < start_ns,
                unfinished: true,
                until_ns: end_ns,
            });
        }
    }

    /// Whether no call and no gap begins or ends in its range.
    pub(crate) fn is_silent(&self) -> bool {
        self.submissions == 0 && self.gaps.is_empty()
    }
}

/// A submission that has a function or a kernel of its process called for the first time, itself or since the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct First {
    /// When the submission before it was over.
    pub(crate) start_ns: u64,
    /// When it was over itself.
    pub(crate) end_ns: u64,
    /// Submissions of the process before it.
    pub(crate) before: u64,
    /// Whether it is the first kernel that the process launches.
    pub(crate) kernel: bool,
}

impl First {
    /// What it took, with the pause before it.
    pub(crate) fn len_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// What a call does for the GPU's feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Submission,
    Wait,
    Neither,
}

fn role(class: Option<Class>, call: &Call) -> Role {
    const HOST_TO_HOST: u64 = 0;
    const DEVICE_TO_HOST: u64 = 2;
    match class {
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
pub(crate) const AT_ONCE_NS: u64 = 50_000;

/// A burst has so many submissions at least: a launch takes its host some 2 to 10 us, so that fewer are over within
/// [`AT_ONCE_NS`], and nothing shows who of the two was faster.
const BURST_FROM: u64 = 10;

/// One process while its calls are walked.
struct Walk {
    feed: Feed,
    range: Window,
    /// Whether its first submission behind the range was seen.
    closed: bool,
    /// Return of the latest submission, or of a wait for it.
    fed_until_ns: Option<u64>,
    /// The same behind the range, from its first submission there on.
    behind_until_ns: Option<u64>,
    /// Ends of the submissions that each thread is in: what it submits within one is the same
    /// submission, seen from a lower layer.
    inside: Vec<(TaskId, u64)>,
    /// Whether a wait ended last, not a submission.
    waited: bool,
    /// What was submitted since the last wait: when that began, and how much.
    burst: Option<Burst>,
    /// Functions that were called, and kernels that were launched by them.
    called: HashSet<(FuncId, Option<u64>)>,
    /// Whether there is a new one since the last submission.
    first: bool,
    /// Whether a kernel was launched.
    launched: bool,
    /// Whether the submission at hand is the first of a kernel.
    first_kernel: bool,
    /// Whether the last submission had something new about it.
    behind_first: bool,
    /// What is queued, as far as waits tell when it is done.
    queue: Queue,
}

/// What a wait for the device tells of it.
#[derive(Debug, Clone, Copy)]
struct Wait {
    /// Whether all that was submitted is done behind it.
    all: bool,
}

/// Columns of a call that tell what it submits: task, function, duration, end, kernel or event, direction, stream.
const COLUMNS: &[u8] = &[2, 3, 4, 5, 7, 10, 11];
/// So many functions and kernels are told apart in a process at most.
const CALLED: usize = 1 << 16;

/// The feeds of all processes with CUDA calls, in order of their first call. Only calls that are entered within the
/// window count. With the blocks of calls that could not be read. `exchanges` is told of every call.
pub(crate) fn feeds(
    trace: &Trace,
    processes: &Processes,
    window: &Window,
    exchanges: &mut Calls,
) -> (Vec<Feed>, Vec<LostBlock>) {
    let hosts = Hosts::new(trace);
    let known_ns = |pid: u32| {
        let (from_ns, to_ns) = hosts.get(hosts.of_pid(pid)).map_or((0, u64::MAX), |host| host.span_ns);
        (from_ns, to_ns.min(window.trace_end_ns))
    };
    let roles: Vec<_> = trace.functions().iter().map(|f| f.class).collect();
    let records: Vec<bool> = trace.functions().iter().map(queue::records_event).collect();
    let mut walks: Vec<Option<Walk>> = Vec::new();
    let mut order: Vec<ProcessId> = Vec::new();
    let mut merge = Merge::of(trace, |k| k == Kind::Call).columns(COLUMNS);
    for event in merge.by_ref() {
        let Body::Call(call) = event.body else { continue };
        let within = window.holds(event.ts_ns);
        let id = processes.of(call.task);
        if walks.len() <= id.index() {
            walks.resize_with(id.index() + 1, || None);
        }
        let slot = &mut walks[id.index()];
        let walk = slot.get_or_insert_with(|| {
            let feed = Feed {
                process: id,
                start_ns: event.ts_ns,
                end_ns: event.ts_ns,
                submissions: 0,
                gaps: Vec::new(),
                bursts: Vec::new(),
                fed_from_ns: None,
                firsts: Vec::new(),
                recorded: 0,
                behind: (0, 0),
                fed_before: false,
                ends: None,
                fed_until_ns: 0,
                called_until_ns: 0,
                called: false,
                submits: false,
                known_ns: known_ns(processes.get(id).pid),
            };
            Walk {
                feed,
                range: *window,
                closed: false,
                fed_until_ns: None,
                behind_until_ns: None,
                inside: Vec::new(),
                waited: false,
                burst: None,
                called: HashSet::new(),
                first: false,
                launched: false,
                first_kernel: false,
                behind_first: false,
                queue: Queue::default(),
            }
        });
        let class = roles.get(call.func.index()).copied();
        // Of other calls the address is one of data.
        let launches = class == Some(Class::Launch);
        walk.first_kernel |= launches && !walk.launched;
        walk.launched |= launches;
        walk.calls(call.func, call.ptr.filter(|_| launches));
        if records.get(call.func.index()).is_some_and(|&records| records) {
            walk.queue.records(&call);
        }
        let role = role(class, &call);
        let wait = Wait { all: walk.queue.is_done_after(class, &call) };
        walk.feed.submits |= role == Role::Submission;
        walk.feed.called_until_ns = walk.feed.called_until_ns.max(until_ns(event.ts_ns, &call, walk.feed.known_ns.1));
        exchanges.add(id, event.ts_ns, &call, class, role);
        let before = event.ts_ns < window.from_ns;
        // What it submitted before the range, or will submit behind it, is what it is between two submissions for.
        let begins = within || (!before && role == Role::Submission && walk.is_fed());
        if begins && !std::mem::replace(&mut walk.feed.called, true) {
            order.push(id);
            walk.open(event.ts_ns);
        }
        if within || before {
            walk.call(event.ts_ns, &call, role, wait);
        } else {
            walk.behind(event.ts_ns, &call, role, wait);
        }
    }
    let mut called: Vec<Walk> = order.into_iter().filter_map(|id| walks.get_mut(id.index())?.take()).collect();
    // Who submits at another time than that of the range may have been there in it.
    let silent = walks.into_iter().flatten().filter(|w| w.feed.submits);
    called.extend(silent.map(|mut walk| {
        walk.open(window.from_ns);
        walk
    }));
    let feeds = called.into_iter().map(|w| Feed { fed_until_ns: w.fed_until_ns.unwrap_or(0), ..w.feed }).collect();
    (feeds, merge.into_lost())
}

impl Walk {
    fn calls(&mut self, func: FuncId, kernel: Option<u64>) {
        if !self.called.contains(&(func, kernel)) && self.called.len() < CALLED {
            self.called.insert((func, kernel));
            self.first = true;
        }
    }

    /// Whether anything was submitted so far.
    fn is_fed(&self) -> bool {
        self.fed_until_ns.is_some()
    }

    /// The range begins: what was before it counts no more, but for what lasts.
    fn open(&mut self, first_ns: u64) {
        let feed = &mut self.feed;
        feed.fed_before = self.fed_until_ns.is_some();
        (feed.start_ns, feed.end_ns) = match self.fed_until_ns {
            // It was under way, whatever it calls first.
            Some(_) => (self.range.from_ns, self.range.from_ns),
            None => (first_ns, first_ns),
        };
        (feed.submissions, feed.recorded, feed.fed_from_ns) = (0, 0, None);
        feed.gaps.clear();
        feed.bursts.clear();
        feed.firsts.clear();
        self.burst = None;
    }

    /// A call behind the range: the first submission there tells that the process was between two all the while.
    fn behind(&mut self, ts: u64, call: &Call, role: Role, wait: Wait) {
        let end = ts.saturating_add(call.dur_ns.unwrap_or(0));
        match role {
            Role::Wait if !self.closed => self.waits(ts, end, wait),
            Role::Wait => self.behind_until_ns = self.behind_until_ns.map(|until| until.max(end)),
            Role::Submission if self.submits(ts, end, *call) => {
                if let Some(pause_ns) =
                    self.behind_until_ns.and_then(|until| ts.checked_sub(until)).filter(|&ns| ns > 0)
                {
                    let (count, longest_ns) = self.feed.behind;
                    self.feed.behind = (count + 1, longest_ns.max(pause_ns));
                }
                self.behind_until_ns = Some(self.behind_until_ns.map_or(end, |until| until.max(end)));
                let first = std::mem::take(&mut self.first);
                let kernel = std::mem::take(&mut self.first_kernel);
                self.feed.recorded += 1;
                if let (Some(until), false) = (self.fed_until_ns, std::mem::replace(&mut self.closed, true)) {
                    let (start_ns, end_ns) = (until.max(self.range.from_ns), self.range.to_ns);
                    let before = u32::try_from(self.feed.submissions).unwrap_or(u32::MAX);
                    if start_ns < end_ns {
                        let gap = Gap {
                            start_ns,
                            end_ns,
                            submitter: call.task,
                            next: call.func,
                            before,
                            after_wait: self.waited,
                            began_before: until < self.range.from_ns,
                            unfinished: true,
                            until_ns: ts,
                        };
                        self.feed.gaps.push(gap);
                        if first {
                            self.feed.firsts.push(First { start_ns, end_ns, before: self.feed.submissions, kernel });
                        }
                        self.feed.end_ns = self.feed.end_ns.max(end_ns);
                        self.fed_until_ns = Some(end_ns);
                    }
                }
            }
            _ => {}
        }
    }

    /// A wait for the device, which shows it busy.
    fn waits(&mut self, ts: u64, end: u64, wait: Wait) {
        // Whoever called for something new is at it for longer than the call that is recorded: what a library does once, around its own
        // calls, took 0.23 to 0.37 ms up to the wait that came next (investigations/h200-dataloader-remedies).
        let follows_ns = if self.behind_first { STEP_FROM_NS } else { AT_ONCE_NS };
        if let Some(until) = self.fed_until_ns
            && (end - ts >= AT_ONCE_NS || ts <= until.saturating_add(follows_ns))
        {
            // What came behind that on the queue is still to be done.
            self.waited |= end > until && wait.all;
            self.fed_until_ns = Some(until.max(end));
        }
    }

    /// Whether a submission is none that its thread is in already.
    fn submits(&mut self, ts: u64, end: u64, Call { task, stream, .. }: Call) -> bool {
        self.inside.retain(|(_, until)| *until > ts);
        let outermost = self.inside.iter().all(|(of, _)| *of != task);
        if outermost {
            self.inside.push((task, end));
            self.queue.takes(stream);
        }
        outermost
    }

    fn call(&mut self, ts: u64, call: &Call, role: Role, wait: Wait) {
        let until = until_ns(ts, call, self.feed.known_ns.1);
        // What it is in at the end of the range goes on behind it.
        let end = if self.range.is_cut() { until.min(self.range.to_ns).max(ts) } else { until };
        let dur = until - ts;
        self.feed.end_ns = self.feed.end_ns.max(end);
        match role {
            Role::Neither => {}
            Role::Wait => {
                // One for something else that was over shows nothing of what was submitted since.
                let shows = wait.all || dur >= AT_ONCE_NS;
                if let Some(burst) = self.burst.take_if(|_| shows)
                    && burst.submissions >= BURST_FROM
                    && dur < AT_ONCE_NS
                {
                    self.feed.bursts.push(Burst { end_ns: ts, ..burst });
                }
                self.waits(ts, end, wait);
            }
            Role::Submission => {
                if !self.submits(ts, until, *call) {
                    return;
                }
                let kernel = std::mem::take(&mut self.first_kernel);
                self.behind_first = self.first;
                if std::mem::take(&mut self.first) {
                    let start_ns = self.fed_until_ns.unwrap_or(ts).min(ts);
                    self.feed.firsts.push(First { start_ns, end_ns: end, before: self.feed.submissions, kernel });
                }
                self.feed.fed_from_ns.get_or_insert(ts);
                self.feed.submissions += 1;
                self.feed.recorded += 1;
                let after_wait = std::mem::take(&mut self.waited);
                // A gap that counts as lost by itself ends what came back to back.
                let pause = self.fed_until_ns.is_none_or(|until| ts >= until.saturating_add(LOST_FROM_NS));
                let burst = self.burst.filter(|_| !pause);
                let begun = Burst { start_ns: ts, end_ns: ts, submissions: 0, submitter: call.task };
                let burst = burst.unwrap_or(begun);
                self.burst = Some(Burst { submissions: burst.submissions + 1, ..burst });
                if let Some(until) = self.fed_until_ns
                    && ts > until
                {
                    let before = u32::try_from(self.feed.submissions - 1).unwrap_or(u32::MAX);
                    let (submitter, next) = (call.task, call.func);
                    let (start_ns, began_before) = (until.max(self.range.from_ns), until < self.range.from_ns);
                    // Before the range nobody asks for them.
                    if ts > start_ns {
                        let (end_ns, until_ns, unfinished) = (ts, ts, false);
                        let gap = Gap {
                            start_ns,
                            end_ns,
                            submitter,
                            next,
                            before,
                            after_wait,
                            began_before,
                            unfinished,
                            until_ns,
                        };
                        self.feed.gaps.push(gap);
                    }
                }
                let made = (call.task, call.func);
                self.feed.ends = Some(self.feed.ends.map_or([made, made], |[first, _]| [first, made]));
                self.fed_until_ns = Some(self.fed_until_ns.map_or(end, |until| until.max(end)));
            }
        }
    }
}

/// When a call was over, as far as what was recorded of its host tells, which ends there.
fn until_ns(ts_ns: u64, call: &Call, end_ns: u64) -> u64 {
    match call.end {
        END_RETURNED => ts_ns.saturating_add(call.dur_ns.unwrap_or(0)),
        // It is inside still: a process that hangs in a call has not come to its end.
        END_OPEN => end_ns.max(ts_ns),
        // It was left, or its row is stamped with its return.
        _ => ts_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ingero_format::catalog::Layer;
    use ingero_replay::fixture::Fixture;

    fn found(f: Fixture) -> Vec<Feed> {
        let trace = f.finish();
        feeds(&trace, &Processes::new(&trace), &Window::whole(&trace), &mut Calls::default()).0
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
        let feeds = found(f);
        assert_eq!(feeds.len(), 1);
        let p = &feeds[0];
        assert_eq!((p.start_ns, p.end_ns, p.submissions), (0, 330, 3));
        let gaps: Vec<_> = p.gaps.iter().map(|g| (g.start_ns, g.end_ns)).collect();
        assert_eq!(gaps, [(100, 300), (310, 320)]);
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
        let feeds = found(f);
        assert_eq!(
            feeds[0].gaps,
            [Gap {
                start_ns: 150,
                end_ns: 200,
                submitter: a,
                next: launch,
                before: 2,
                after_wait: false,
                began_before: false,
                unfinished: false,
                until_ns: 200,
            }]
        );
    }

    #[test]
    fn a_call_that_is_inside_still_keeps_its_feed_open() {
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
            device: None,
        };
        f.push(20, 0, hangs);
        f.call(9_000, 1, other, launch, 1_000);
        let feeds = found(f);
        assert_eq!((feeds[0].start_ns, feeds[0].end_ns), (0, 10_000));
    }

    /// In a recording of several hosts each has its own end.
    #[test]
    fn a_call_that_is_inside_still_ends_with_its_own_host() {
        let mut f = Fixture::new();
        for (n, pid_base, end_ns) in [(0, "0", "5000"), (1, "1000", "10000")] {
            f.writer().set_meta(&format!("host.{n}.pid_base"), pid_base);
            f.writer().set_meta(&format!("host.{n}.start_ns"), "0");
            f.writer().set_meta(&format!("host.{n}.end_ns"), end_ns);
        }
        let (a, other) = (f.task(1, 1), f.task(1001, 1001));
        let launch = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
        f.call(0, 0, a, launch, 10);
        f.push(20, 0, Call { dur_ns: None, end: END_OPEN, ..ingero_replay::fixture::returned(a, launch, 0) });
        f.call(9_000, 1, other, launch, 1_000);
        let trace = f.finish();
        let a = crate::Analysis::new(&trace, Window::whole(&trace));
        let ends: Vec<_> = a.phases.iter().map(|p| (p.phase.start_ns, p.phase.end_ns)).collect();
        assert_eq!(ends, [(0, 5_000), (9_000, 10_000)]);
    }

    #[test]
    fn processes_have_their_own_feeds() {
        let mut f = Fixture::new();
        let (a, b) = (f.task(1, 1), f.task(2, 2));
        let launch = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
        f.call(100, 0, b, launch, 10);
        f.call(200, 0, a, launch, 10);
        f.call(400, 0, b, launch, 10);
        let feeds = found(f);
        assert_eq!(feeds.iter().map(|p| (p.start_ns, p.gaps.len())).collect::<Vec<_>>(), [(100, 1), (200, 0)]);
    }
}
