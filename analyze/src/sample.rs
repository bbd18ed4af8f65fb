//! Phases of a source that kept a sample: what can be said of them from what it stored and what it counted.
//!
//! A sample has no rhythm that could be read from its gaps: calls may be missing in any of them. Three signs are left.
//! A wait for the whole device ends a piece of work that somebody wanted to be over, so that a **round** reaches from
//! the end of one such wait to the end of the next; rounds that take alike belong together. The birth of a worker ends
//! what was before, and what follows begins where the last stored call before it ended. The first round is warm-up.
//!
//! A source's totals are of whole minutes. Of a figure in a phase two bounds are told therefore: what is stored
//! within it, and that with all that is counted and not stored in the minutes that the phase touches; of what one thread did
//! no more than the phase's length.

use std::collections::BTreeMap;

use ingero_format::Trace;
use ingero_format::catalog::{Body, Class, END_RETURNED, FuncId, TaskId};
use ingero_replay::{Hosts, Merge, ProcessId, Processes, Window};

use crate::phases::Phase;

/// Two figures between which the true one lies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bounds {
    /// It is no less than this.
    pub at_least: u64,
    /// And no more than this.
    pub at_most: u64,
}

impl std::ops::AddAssign for Bounds {
    fn add_assign(&mut self, other: Self) {
        self.at_least = self.at_least.saturating_add(other.at_least);
        self.at_most = self.at_most.saturating_add(other.at_most);
    }
}

/// Steps of a phase: calls of a function of which the source stored every one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Steps {
    /// The function.
    pub func: FuncId,
    /// Its calls within the phase.
    pub count: u64,
}

/// An earlier phase that did the same in less time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Faster {
    /// Its number.
    pub phase: usize,
    /// Its length.
    pub len_ns: u64,
    /// Its steps.
    pub steps: u64,
}

/// What a sample tells of one phase.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sample {
    /// Calls of the process that are stored, driver calls within runtime calls included.
    pub calls_stored: u64,
    /// Calls that were counted, are not stored, and may belong here, at most.
    pub calls_not_stored: u64,
    /// The thread that made all stored calls of the process; none where there are several.
    pub main: Option<TaskId>,
    /// Time that it was off its CPU; none where the source counts no such time for it.
    pub off_cpu_ns: Option<Bounds>,
    /// Time in copies.
    pub copies_ns: Bounds,
    /// Time in calls of its outermost layer.
    pub calls_ns: Bounds,
    /// Switches of the process and of all that descend from it.
    pub switches: Bounds,
    /// Its steps, where the source stored all calls of a function.
    pub steps: Option<Steps>,
    /// The fastest earlier phase with the same steps, where it was twice as fast at least.
    pub faster: Option<Faster>,
    /// Descendants of which the source does not tell whether they are processes or threads.
    pub others: usize,
}

impl Sample {
    /// Time that the main thread ran on its CPU outside of its calls at least: the phase less all that it can have
    /// been off the CPU and in calls.
    #[must_use]
    pub fn busy_ns(&self, len_ns: u64) -> Option<u64> {
        let off = self.off_cpu_ns?;
        Some(len_ns.saturating_sub(off.at_most).saturating_sub(self.calls_ns.at_most))
    }
}

impl Faster {
    /// How many times as long a step took in a phase of this length with so many steps.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a ratio for showing")]
    pub fn times(&self, len_ns: u64, steps: u64) -> f64 {
        (len_ns as f64 / steps.max(1) as f64) / (self.len_ns.max(1) as f64 / self.steps.max(1) as f64)
    }
}

/// Waits for all that a device has to do.
const DEVICE_WAITS: &[&str] = &["cudaDeviceSynchronize", "cudaThreadSynchronize", "cuCtxSynchronize"];
/// Rounds and their steps differ when one takes so many times as long as the other.
const DIFFERS: u64 = 3;
/// What took so many times as long as before is told.
const SLOWER: f64 = 2.0;
/// Fewer steps say nothing about how long one takes.
const STEPS: u64 = 3;
/// Workers that come within this time of one another come together.
const TOGETHER_NS: u64 = 1_000_000_000;
/// A round shorter than this, and than a fiftieth of the process's whole, is no behaviour of its own.
const SLIVER_NS: u64 = 250_000_000;
const SLIVER_SHARE: u64 = 50;

/// One thing that a source stores and counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Switch,
    Call(FuncId),
}

/// A total of a source.
#[derive(Debug, Clone, Copy)]
struct Total {
    start_ns: u64,
    end_ns: u64,
    count: u64,
    sum_ns: u64,
}

/// Everything of one task and one key.
#[derive(Debug, Default)]
struct Series {
    totals: Vec<Total>,
    /// Begin and length of what is stored, in order.
    stored: Vec<(u64, u64)>,
}

impl Series {
    /// How many there were within `from..to`, and how long they took. Nothing can have been before `born_ns`.
    fn within(&self, from: u64, to: u64, born_ns: u64) -> (Bounds, Bounds) {
        let stored = |from: u64, to: u64| {
            let of = self.stored.iter().filter(|(at, _)| (from..to).contains(at));
            of.fold((0, 0_u64), |(n, ns), (_, dur)| (n + 1, ns.saturating_add(*dur)))
        };
        let (n, ns) = stored(from, to);
        let mut count = Bounds { at_least: n, at_most: n };
        let mut time = Bounds { at_least: ns, at_most: ns };
        for t in self.totals.iter().filter(|t| t.start_ns < to && t.end_ns > from) {
            let (n, ns) = stored(t.start_ns, t.end_ns);
            let (more, longer) = (t.count.saturating_sub(n), t.sum_ns.saturating_sub(ns));
            count.at_most = count.at_most.saturating_add(more);
            time.at_most = time.at_most.saturating_add(longer);
            if t.start_ns.max(born_ns) >= from && t.end_ns <= to {
                count.at_least = count.at_least.saturating_add(more);
                time.at_least = time.at_least.saturating_add(longer);
            }
        }
        (count, time)
    }

    /// When the last of what is stored was over.
    fn stored_until_ns(&self) -> u64 {
        self.stored.iter().map(|(at, dur)| at.saturating_add(*dur)).max().unwrap_or(0)
    }

    /// Whether the source stored all that it counted.
    fn is_whole(&self) -> bool {
        crate::sum(self.totals.iter().map(|t| t.count)) == self.stored.len() as u64
    }
}

/// Of which hosts a source kept a sample of the events only.
#[derive(Debug, Clone)]
pub(crate) struct Sampled {
    hosts: Hosts,
    /// By host.
    of: Vec<bool>,
}

impl Sampled {
    pub(crate) fn new(trace: &Trace) -> Self {
        let hosts = Hosts::new(trace);
        Self { of: hosts.sampled(trace), hosts }
    }

    pub(crate) fn any(&self) -> bool {
        self.of.contains(&true)
    }

    pub(crate) fn all(&self) -> bool {
        !self.of.contains(&false)
    }

    pub(crate) fn of_host(&self, host: usize) -> bool {
        self.of.get(host).is_some_and(|&sampled| sampled)
    }

    /// Whether the host of a process is one of them, by its id.
    pub(crate) fn of_pid(&self, pid: u32) -> bool {
        self.of_host(self.hosts.of_pid(pid))
    }

    pub(crate) fn host_of(&self, pid: u32) -> usize {
        self.hosts.of_pid(pid)
    }

    /// The hosts that are, each with what it is called where there are several.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = (usize, String)> {
        let sampled = self.of.iter().enumerate().filter(|(_, sampled)| **sampled);
        sampled.map(|(host, _)| (host, ingero_replay::of_host(&self.hosts, Some(host))))
    }

    /// The end of a host's recording.
    fn end_ns(&self, host: usize, window: &Window) -> u64 {
        let own_ns = self.hosts.get(host).map_or(u64::MAX, |host| host.span_ns.1);
        window.trace_end_ns.min(own_ns)
    }
}

/// A sample as it was read.
struct Kept {
    series: BTreeMap<(TaskId, Key), Series>,
    /// First calls of processes, in order.
    order: Vec<ProcessId>,
    born_ns: BTreeMap<ProcessId, u64>,
    died_ns: BTreeMap<ProcessId, u64>,
    /// Processes to which pages were counted, and the hosts whose sources count them.
    paged: Vec<ProcessId>,
    counts_pages: Vec<usize>,
    /// By process: its host, and the end of what is known of that.
    host_of: Vec<usize>,
    last_ns: Vec<u64>,
}

impl Kept {
    fn read(trace: &Trace, processes: &Processes, window: &Window) -> Self {
        let sampled = Sampled::new(trace);
        let ids = processes.iter().map(|(id, _)| id.index() + 1).max().unwrap_or(0);
        let mut host_of = vec![0; ids];
        for (id, p) in processes.iter() {
            host_of[id.index()] = sampled.host_of(p.pid);
        }
        let last_ns = host_of.iter().map(|&host| sampled.end_ns(host, window).min(window.to_ns)).collect();
        let mut this = Self {
            series: BTreeMap::new(),
            order: Vec::new(),
            born_ns: BTreeMap::new(),
            died_ns: BTreeMap::new(),
            paged: Vec::new(),
            counts_pages: Vec::new(),
            host_of,
            last_ns,
        };
        // Events of a host that was recorded in full are for others to tell of.
        let is_sampled = |task: TaskId| sampled.of_pid(trace.task(task).pid);
        // The totals' stretches are told by the clock of the source, which is the wall's.
        let unix_ns = ingero_replay::start_unix_ns(trace, window.trace_start_ns).unwrap_or(window.trace_start_ns);
        let at = |wall_ns: u64| window.trace_start_ns.saturating_add(wall_ns).saturating_sub(unix_ns);
        for event in Merge::new(trace) {
            let ts = event.ts_ns;
            match event.body {
                Body::Aggregate(e) if is_sampled(e.task) => {
                    let id = processes.of(e.task);
                    let key = match (e.func, trace.string(e.op)) {
                        (Some(func), _) => Key::Call(func),
                        (None, "sched_switch") => Key::Switch,
                        (None, "mm_page_alloc") => {
                            this.counts_pages.push(this.host_of(id));
                            this.paged.push(id);
                            continue;
                        }
                        _ => continue,
                    };
                    let (start_ns, end_ns) = (at(e.bucket_ns), at(e.bucket_ns.saturating_add(e.len_ns)));
                    // Nothing was counted past the end of its host's recording.
                    let end_ns = end_ns.min(sampled.end_ns(this.host_of(id), window));
                    let total = Total { start_ns, end_ns, count: e.count, sum_ns: e.sum_dur_ns.unwrap_or(0) };
                    this.series.entry((e.task, key)).or_default().totals.push(total);
                }
                Body::OffCpu(e) if is_sampled(e.task) => {
                    this.series.entry((e.task, Key::Switch)).or_default().stored.push((ts, e.dur_ns));
                }
                Body::Call(e) if is_sampled(e.task) => {
                    let dur = e.dur_ns.filter(|_| e.end == END_RETURNED).unwrap_or(0);
                    this.series.entry((e.task, Key::Call(e.func))).or_default().stored.push((ts, dur));
                    let id = processes.of(e.task);
                    if window.holds(ts) && !this.order.contains(&id) {
                        this.order.push(id);
                    }
                }
                Body::Fork(e) if is_sampled(e.child) && processes.of(e.child) != processes.of(e.parent) => {
                    this.born_ns.entry(processes.of(e.child)).or_insert(ts);
                }
                Body::Exit(e) if is_sampled(e.task) && processes.get(processes.of(e.task)).leader == Some(e.task) => {
                    this.died_ns.insert(processes.of(e.task), ts);
                }
                _ => {}
            }
        }
        this
    }

    /// Whether a descendant is told to be a process: one is handed pages, and they are counted by process.
    fn is_process(&self, id: ProcessId) -> bool {
        !self.counts_pages.contains(&self.host_of(id)) || self.paged.contains(&id)
    }

    fn host_of(&self, id: ProcessId) -> usize {
        self.host_of.get(id.index()).copied().unwrap_or(0)
    }

    /// The end of what is known of a process.
    fn last_ns(&self, id: ProcessId) -> u64 {
        self.last_ns.get(id.index()).copied().unwrap_or(0)
    }
}

/// The phases of all processes with stored calls.
pub(crate) fn phases(trace: &Trace, processes: &Processes, window: &Window) -> Vec<Phase> {
    let kept = Kept::read(trace, processes, window);
    let mut out: Vec<Phase> = Vec::new();
    for &id in &kept.order {
        let first = out.len();
        out.extend(Walk::new(trace, processes, &kept, window, id).phases());
        compare(&mut out, first);
    }
    out
}

/// Finds for each phase from `first` on the fastest earlier one that did the same.
fn compare(phases: &mut [Phase], first: usize) {
    let steps = |p: &Phase| p.sample.as_ref().and_then(|s| s.steps).filter(|s| s.count >= STEPS && !p.warm_up);
    for at in first..phases.len() {
        let Some(own) = phases.get(at).and_then(steps) else { continue };
        let earlier = (first..at).filter_map(|n| {
            let p = phases.get(n)?;
            let s = steps(p).filter(|s| s.func == own.func)?;
            Some(Faster { phase: n, len_ns: p.len_ns(), steps: s.count })
        });
        let fastest = earlier.min_by_key(|f| (f.len_ns / f.steps.max(1), f.phase));
        if let Some(p) = phases.get_mut(at) {
            let len_ns = p.len_ns();
            if let Some(s) = &mut p.sample {
                s.faster = fastest.filter(|f| f.times(len_ns, own.count) >= SLOWER);
            }
        }
    }
}

/// One process.
struct Walk<'a> {
    trace: &'a Trace,
    kept: &'a Kept,
    id: ProcessId,
    /// Its tasks and those of its descendants, with the births of their processes.
    family: Vec<(TaskId, u64)>,
    workers: Vec<ProcessId>,
    others: Vec<ProcessId>,
    /// Begin and end of its stored calls within the range, by begin.
    calls: Vec<(u64, u64, FuncId)>,
    main: Option<TaskId>,
}

impl<'a> Walk<'a> {
    fn new(trace: &'a Trace, processes: &Processes, kept: &'a Kept, window: &Window, id: ProcessId) -> Self {
        let (mut workers, mut others, mut family) = (Vec::new(), Vec::new(), Vec::new());
        for (other, process) in processes.family(id).into_iter().map(|other| (other, processes.get(other))) {
            let born_ns = kept.born_ns.get(&other).copied().unwrap_or(0);
            family.extend(process.threads.iter().map(|&task| (task, born_ns)));
            if other != id {
                // Of one that the source counts nothing for nothing is known but its birth.
                let counted = process.threads.iter().any(|&task| kept.series.contains_key(&(task, Key::Switch)));
                if kept.is_process(other) {
                    workers.push(other);
                } else if counted {
                    others.push(other);
                }
            }
        }
        let own = |task: &TaskId| processes.of(*task) == id;
        let mut calls = Vec::new();
        let mut callers: Vec<TaskId> = Vec::new();
        for ((task, key), series) in kept.series.iter().filter(|((task, _), _)| own(task)) {
            let Key::Call(func) = *key else { continue };
            for &(at, dur) in series.stored.iter().filter(|(at, _)| window.holds(*at)) {
                calls.push((at, at.saturating_add(dur), func));
                callers.push(*task);
            }
        }
        calls.sort_unstable();
        callers.dedup();
        let main = callers.first().copied().filter(|first| callers.iter().all(|c| c == first));
        Self { trace, kept, id, family, workers, others, calls, main }
    }

    fn class(&self, func: FuncId) -> Option<Class> {
        self.trace.function(func).map(|f| f.class)
    }

    fn is_device_wait(&self, func: FuncId) -> bool {
        self.trace.function(func).is_some_and(|f| DEVICE_WAITS.contains(&f.symbol.as_str()))
    }

    fn phases(self) -> Vec<Phase> {
        let Some(&(start_ns, ..)) = self.calls.first() else { return Vec::new() };
        let last_call_ns = self.calls.iter().map(|c| c.1).max().unwrap_or(start_ns);
        let mut waits: Vec<u64> = self.calls.iter().filter(|c| self.is_device_wait(c.2)).map(|c| c.1).collect();
        waits.sort_unstable();
        // A driver call ends within its runtime call: the outer one's end is the round's.
        let begin = |end: &u64| self.calls.iter().any(|c| self.is_device_wait(c.2) && c.0 < *end && c.1 > *end);
        waits.retain(|end| !begin(end));
        let births = self.births(start_ns);
        let end_ns = match births.last() {
            // What workers do after the last stored call belongs to it.
            Some(_) => self.kept.died_ns.get(&self.id).copied().unwrap_or(self.kept.last_ns(self.id)).max(last_call_ns),
            None => last_call_ns,
        };
        let warm_ns = waits.first().copied().filter(|&end| end < last_call_ns);
        let mut cuts = births;
        cuts.extend(warm_ns);
        cuts.extend(self.rounds(&waits, end_ns - start_ns));
        cuts.retain(|&cut| cut > start_ns && cut < end_ns);
        cuts.sort_unstable();
        cuts.dedup();
        let ends = cuts.iter().copied().chain(std::iter::once(end_ns));
        let starts = std::iter::once(start_ns).chain(cuts.iter().copied());
        starts.zip(ends).map(|(from, to)| self.phase(from, to, warm_ns.is_some_and(|warm| to <= warm))).collect()
    }

    /// Where workers begin: at the end of the last stored call before the first of them.
    fn births(&self, start_ns: u64) -> Vec<u64> {
        let mut born: Vec<u64> = self.workers.iter().filter_map(|id| self.kept.born_ns.get(id).copied()).collect();
        born.retain(|&at| at > start_ns && at <= self.kept.last_ns(self.id));
        born.sort_unstable();
        let mut cuts = Vec::new();
        let mut latest: Option<u64> = None;
        for at in born {
            if latest.is_none_or(|l| at - l > TOGETHER_NS) {
                let ended = self.calls.iter().take_while(|c| c.0 < at).map(|c| c.1.min(at)).max();
                cuts.push(ended.unwrap_or(at));
            }
            latest = Some(at);
        }
        cuts
    }

    /// Where rounds begin to take longer, or less long. The first wait ends the warm-up.
    fn rounds(&self, waits: &[u64], len_ns: u64) -> Vec<u64> {
        let sliver_ns = (len_ns / SLIVER_SHARE).min(SLIVER_NS);
        let mut cuts = Vec::new();
        // Length and number of the rounds since the last cut.
        let mut like: (u64, u64) = (0, 0);
        for pair in waits.windows(2) {
            let &[from, to] = pair else { continue };
            let len = to - from;
            let usual = like.0.checked_div(like.1);
            let differs = |usual: u64| {
                let (short, long) = (len.min(usual), len.max(usual));
                long >= short.saturating_mul(DIFFERS) && long >= sliver_ns
            };
            if usual.is_some_and(differs) {
                cuts.push(from);
                like = (0, 0);
            }
            like = (like.0.saturating_add(len), like.1 + 1);
        }
        cuts
    }

    /// The last stored sign of the main thread.
    fn seen_until_ns(&self) -> u64 {
        let Some(main) = self.main else { return 0 };
        let series = self.kept.series.range((main, Key::Switch)..).take_while(|((task, _), _)| *task == main);
        let calls = self.calls.iter().map(|c| c.1);
        series.map(|(_, series)| series.stored_until_ns()).chain(calls).max().unwrap_or(0)
    }

    fn phase(&self, start_ns: u64, end_ns: u64, warm_up: bool) -> Phase {
        let within = |at: u64| (start_ns..end_ns).contains(&at);
        let mut sample = Sample { main: self.main, ..Sample::default() };
        sample.calls_stored = self.calls.iter().filter(|c| within(c.0)).count() as u64;
        let submits = |func| matches!(self.class(func), Some(Class::Launch | Class::Copy));
        let outer = self.outer_layer();
        for &(task, born_ns) in &self.family {
            for ((_, key), series) in self.kept.series.range((task, Key::Switch)..).take_while(|((t, _), _)| *t == task)
            {
                let (count, time) = series.within(start_ns, end_ns, born_ns);
                match *key {
                    Key::Switch => {
                        sample.switches += count;
                        if Some(task) == self.main {
                            sample.off_cpu_ns = Some(time);
                        }
                    }
                    Key::Call(func) if self.main.is_none_or(|main| main == task) => {
                        let missing = count.at_most - self.stored(series, start_ns, end_ns);
                        sample.calls_not_stored = sample.calls_not_stored.saturating_add(missing);
                        if self.class(func) == Some(Class::Copy) {
                            sample.copies_ns += time;
                        }
                        if self.trace.function(func).map(|f| f.layer) == outer {
                            sample.calls_ns += time;
                        }
                    }
                    Key::Call(_) => {}
                }
            }
        }
        if let Some(off) = &mut sample.off_cpu_ns {
            // A source stores a wait when it is over: behind the last sign of the thread there may be one that never was.
            off.at_most = off.at_most.saturating_add(end_ns.saturating_sub(self.seen_until_ns().max(start_ns)));
        }
        if self.main.is_some() {
            // One thread can spend no more time than there is; only what begins here may last beyond.
            let most = end_ns.saturating_sub(start_ns);
            let bounds = [Some(&mut sample.copies_ns), Some(&mut sample.calls_ns), sample.off_cpu_ns.as_mut()];
            for b in bounds.into_iter().flatten() {
                b.at_most = b.at_most.min(most.max(b.at_least));
            }
        }
        sample.steps = self.steps(start_ns, end_ns);
        let alive = |list: &[ProcessId]| {
            let lives = |id: &&ProcessId| self.kept.born_ns.get(id).copied().unwrap_or(0) < end_ns;
            let lived = |id: &&ProcessId| self.kept.died_ns.get(id).is_none_or(|&died| died > start_ns);
            list.iter().filter(lives).filter(lived).count()
        };
        sample.others = alive(&self.others);
        let steps = sample.steps.map_or(0, |s| s.count);
        Phase {
            process: self.id,
            start_ns,
            end_ns,
            submissions: self.calls.iter().filter(|c| within(c.0) && submits(c.2)).count() as u64,
            gaps: Vec::new(),
            workers: alive(&self.workers),
            warm_up,
            within_call: false,
            begun_ns: None,
            first_ns: None,
            over_ns: None,
            steps: usize::try_from(steps).unwrap_or(usize::MAX),
            step_ns: (steps >= STEPS).then(|| (end_ns - start_ns) / steps),
            bursts: Vec::new(),
            sample: Some(sample),
            unclaimed: Vec::new(),
            is_alone: false,
            kill: None,
            late: None,
            taken: Vec::new(),
        }
    }

    fn stored(&self, series: &Series, from: u64, to: u64) -> u64 {
        series.stored.iter().filter(|(at, _)| (from..to).contains(at)).count() as u64
    }

    /// The layer whose calls hold the others'.
    fn outer_layer(&self) -> Option<ingero_format::catalog::Layer> {
        use ingero_format::catalog::Layer;
        let has = |layer| self.calls.iter().any(|c| self.trace.function(c.2).is_some_and(|f| f.layer == layer));
        [Layer::Runtime, Layer::Driver].into_iter().find(|&layer| has(layer))
    }

    /// Calls of the most frequent wait of which every one is stored, other than for the whole device.
    fn steps(&self, from: u64, to: u64) -> Option<Steps> {
        let whole = |func: FuncId| {
            let of = |((_, key), _): &(&(TaskId, Key), &Series)| *key == Key::Call(func);
            let family = |((task, _), _): &(&(TaskId, Key), &Series)| self.family.iter().any(|(t, _)| t == task);
            self.kept.series.iter().filter(of).filter(family).all(|(_, series)| series.is_whole())
        };
        let mut counts: BTreeMap<FuncId, (u64, u64)> = BTreeMap::new();
        for &(at, _, func) in &self.calls {
            if self.class(func) == Some(Class::Sync) && !self.is_device_wait(func) {
                let (all, within) = counts.entry(func).or_default();
                *all += 1;
                *within += u64::from((from..to).contains(&at));
            }
        }
        counts.retain(|&func, _| whole(func));
        let (func, (_, count)) = counts.into_iter().max_by_key(|(func, (all, _))| (*all, std::cmp::Reverse(*func)))?;
        (count > 0).then_some(Steps { func, count })
    }
}
