//! A phase in which the rules look for their causes, with its chains added up.

use std::collections::BTreeMap;

use ingero_format::catalog::{Kind, Layer as Library, TaskId};
use ingero_replay::ProcessId;

use super::{Evidence, Incident, Layer, Moment, SHARE_FROM, Severity, allocations, graph_capture, ratio, seconds};
use crate::chain::{Ending, Link, Part};
use crate::exchange::Late;
use crate::feed::Gap;
use crate::figures::{CallsFigures, PhaseFigures, Stretch};
use crate::shares::Share;
use crate::{Analysis, spans, sum};

/// Stretches that an incident shows at most.
const SHOWN: usize = 3;
/// Threads that wake one another so often within a gap hand over their data in pieces.
const PIECES: u64 = 20;
/// And so often within it: a pipe's 64 KiB are copied in some 20 us, and made by the slowest Python code in a few
/// milliseconds. Who is woken more seldom waits for whole batches.
const PIECE_NS: u64 = 10_000_000;
/// Submissions from which on there is a loop to judge: at the 1 ms of a gap behind a wait at most, these are 100 ms and less,
/// which matter in no phase that lasts; a program that submits a few times and looks at each result is a test.
const LOOP_FROM: u64 = 100;
/// A page that is new costs its thread this much at least: a fault, the page made zero, and given back. A loop that does
/// nothing else took 2.4 us a page while it was recorded (`standin-scenes page-faults`, 2026-11-30, 2 vCPUs of an Intel
/// Xeon (KVM), Linux 6.18.44); half of it is taken to be sure.
const PAGE_NS: u64 = 1_200;

/// What a thread is to the phase's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Group {
    /// It submits.
    Submitter,
    /// Another thread of the same process.
    Own,
    /// Of a process that descends from it.
    Worker,
    /// Of any other process, or of the kernel.
    Other,
}

/// Time in chains, by what was done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) ran_ns: u64,
    pub(super) runnable_ns: u64,
    pub(super) squeezed_ns: u64,
    pub(super) throttled_ns: u64,
    pub(super) endings_ns: [u64; Ending::COUNT],
}

impl Sum {
    fn add(&mut self, link: &Link) {
        self.ran_ns = self.ran_ns.saturating_add(link.ran.ns);
        self.runnable_ns = self.runnable_ns.saturating_add(link.runnable.ns);
        self.squeezed_ns = self.squeezed_ns.saturating_add(link.squeezed_ns);
        self.throttled_ns = self.throttled_ns.saturating_add(link.throttled.ns);
        for (sum, part) in self.endings_ns.iter_mut().zip(link.endings) {
            *sum = sum.saturating_add(part.ns);
        }
    }

    pub(super) fn ended_ns(&self, ending: Ending) -> u64 {
        self.endings_ns.get(ending as usize).copied().unwrap_or(0)
    }
}

/// Runnable time of the chains by its cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RunnableCauses {
    /// Strangers had the CPUs.
    pub(super) strangers_ns: u64,
    /// The phase's own processes had them.
    pub(super) own_ns: u64,
    /// Nobody was seen on them, for longer than either had them.
    pub(super) nobody_ns: u64,
    /// The threads are bound to CPUs that were taken.
    pub(super) bound_ns: u64,
    /// What strangers and the binding share: half of it is in each of the two.
    pub(super) shared_ns: u64,
    /// Of what strangers, or its own processes, have: while nobody was seen on the CPUs.
    pub(super) unseen_ns: u64,
}

/// What a submitting thread ran in lost gaps, shared out: what rules for something more special have of it, and what is left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct OwnWork {
    pub(super) ran_ns: u64,
    /// Reclaiming memory.
    pub(super) reclaimed_ns: u64,
    /// In calls that allocate and release, where these are churn.
    pub(super) memory_ns: u64,
    /// In calls that make graphs, where these are made again and again.
    pub(super) graphs_ns: u64,
    /// Behind waits for the device that come too often.
    pub(super) after_waits_ns: u64,
    /// The rest.
    pub(super) left_ns: u64,
    /// Of the rest: in calls that allocate, release or make graphs, too seldom for a rule of their own.
    pub(super) in_calls_ns: u64,
}

/// Two parts, made smaller alike where they exceed the whole.
fn scaled(a: u64, b: u64, whole: u64) -> (u64, u64) {
    let both = u128::from(a) + u128::from(b);
    if both <= u128::from(whole) {
        return (a, b);
    }
    let part = |x: u64| u64::try_from(u128::from(x) * u128::from(whole) / both).unwrap_or(0);
    (part(a), part(b))
}

pub(super) struct Case<'a> {
    pub(super) analysis: &'a Analysis<'a>,
    pub(super) phase: &'a PhaseFigures,
    groups: BTreeMap<Group, Sum>,
    /// Who held the CPUs that threads of the chains could have run on, largest first.
    pub(super) behind: Vec<(ProcessId, u64)>,
    /// Of that, while another CPU was idle that the threads may not use.
    squeezed_behind: BTreeMap<ProcessId, u64>,
    /// The phase's own process, its descendants with a thread in the chains, and those that work for it at any time.
    family: Vec<ProcessId>,
    /// What an incident of a kind may count at most, where its GPU was busy meanwhile.
    pub(super) most_ns: BTreeMap<&'static str, u64>,
}

impl<'a> Case<'a> {
    pub(super) fn new(analysis: &'a Analysis<'a>, phase: &'a PhaseFigures) -> Self {
        let mut this = Self {
            analysis,
            phase,
            groups: BTreeMap::new(),
            behind: Vec::new(),
            squeezed_behind: BTreeMap::new(),
            family: Vec::new(),
            most_ns: BTreeMap::new(),
        };
        let mut behind: BTreeMap<ProcessId, u64> = BTreeMap::new();
        for (at, link) in phase.chains.links() {
            let group = this.group(at, link);
            this.groups.entry(group).or_default().add(link);
            if group != Group::Other {
                this.family.push(analysis.processes.of(link.task));
            }
            for (&id, &ns) in &link.behind {
                let held = behind.entry(id).or_default();
                *held = held.saturating_add(ns);
            }
            // Threads of the kernel are bound to their CPUs on purpose.
            let squeezed_behind = link.squeezed_behind.iter().filter(|_| group != Group::Other);
            for (&id, &ns) in squeezed_behind {
                let held = this.squeezed_behind.entry(id).or_default();
                *held = held.saturating_add(ns);
            }
        }
        this.family.push(phase.phase.process);
        // A worker whose batch nobody waited for in this phase is no stranger.
        this.family.extend(analysis.works.of(phase.phase.process, &analysis.processes));
        this.family.sort_unstable();
        this.family.dedup();
        this.behind = behind.into_iter().collect();
        this.behind.sort_by_key(|&(id, ns)| (std::cmp::Reverse(ns), id));
        this
    }

    pub(super) fn group(&self, at: usize, link: &Link) -> Group {
        let process = self.analysis.processes.of(link.task);
        if self.phase.chains.is_root(at) {
            Group::Submitter
        } else if process == self.phase.phase.process {
            Group::Own
        } else if self.analysis.processes.descends(process, self.phase.phase.process) {
            Group::Worker
        } else {
            Group::Other
        }
    }

    pub(super) fn of(&self, group: Group) -> Sum {
        self.groups.get(&group).copied().unwrap_or_default()
    }

    /// Over all threads of the chains.
    pub(super) fn all(&self, part: impl Fn(&Sum) -> u64) -> u64 {
        sum(self.groups.values().map(part))
    }

    /// Whether a process works for this phase.
    pub(super) fn is_family(&self, id: ProcessId) -> bool {
        self.family.binary_search(&id).is_ok()
    }

    /// How the runnable time of the chains divides by its cause.
    ///
    /// What is spent behind a stranger while another CPU idles that the thread may not use has two causes, and either
    /// remedy ends it: each gets half. Behind its own processes it is the binding alone, for they would spread. What
    /// nobody was seen to hold goes to the larger of the other two; where it is more than that, it has a cause of its own.
    pub(super) fn runnable(&self) -> RunnableCauses {
        let all = self.all(|s| s.runnable_ns);
        let of_others = self.of(Group::Other).squeezed_ns;
        let squeezed = self.all(|s| s.squeezed_ns).saturating_sub(of_others).min(all);
        let held = |own: bool, ns: &dyn Fn(&(ProcessId, u64)) -> u64| {
            sum(self.behind.iter().filter(|(id, _)| self.is_family(*id) == own).map(ns))
        };
        let squeezed_behind = |&(id, _): &(ProcessId, u64)| self.squeezed_behind.get(&id).copied().unwrap_or(0);
        let free = |entry: &(ProcessId, u64)| entry.1.saturating_sub(squeezed_behind(entry));
        let waited = all - squeezed;
        let (strangers, own) = scaled(held(false, &free), held(true, &free), waited);
        // Behind nobody a thread waits for its CPU to wake up. Where data go in pieces that is a part of each hand-over, and nobody's fault.
        let behind_nobody = waited.saturating_sub(strangers).saturating_sub(own);
        let rest = if self.in_pieces() { 0 } else { behind_nobody };
        let (nobody, rest) = if rest > strangers.max(own) { (rest, 0) } else { (0, rest) };
        let (strangers, own) = if strangers >= own { (strangers + rest, own) } else { (strangers, own + rest) };
        let shared = held(false, &squeezed_behind).min(squeezed);
        RunnableCauses {
            strangers_ns: strangers + shared / 2,
            own_ns: own,
            nobody_ns: nobody,
            bound_ns: squeezed - shared / 2,
            shared_ns: shared,
            unseen_ns: rest,
        }
    }

    /// What the chains' threads could have run while strangers had their CPUs: the submitting threads, and those that they waited
    /// for.
    pub(super) fn behind_strangers(&self) -> (u64, u64) {
        let (mut own, mut others) = (0u64, 0u64);
        for (at, link) in self.phase.chains.links() {
            let ns = sum(link.behind.iter().filter(|(id, _)| !self.is_family(**id)).map(|(_, &ns)| ns));
            let of = if self.phase.chains.is_root(at) { &mut own } else { &mut others };
            *of = of.saturating_add(ns);
        }
        (own, others)
    }

    /// Who held the CPUs that threads are bound to, while others idled.
    pub(super) fn squeezed_holders(&self) -> Vec<(ProcessId, u64)> {
        self.squeezed_behind.iter().map(|(&id, &ns)| (id, ns)).collect()
    }

    pub(super) fn label(&self) -> String {
        self.analysis.label(self.phase.phase.process)
    }

    /// Whether the submitting thread and a worker, or two of its threads, woke each other again and again for every
    /// gap: then data goes from one to the other in pieces.
    pub(super) fn in_pieces(&self) -> bool {
        let pieces = self.pieces();
        pieces >= PIECES.saturating_mul(self.lost_gaps().max(1))
            && pieces.saturating_mul(PIECE_NS) >= self.phase.lost_gaps_ns()
    }

    /// Waits of submitting threads that family ended.
    pub(super) fn pieces(&self) -> u64 {
        let chains = &self.phase.chains;
        let of_root = |link: &&(usize, &Link)| link.1.waiter.is_some_and(|w| chains.is_root(w));
        let family = |(at, link): &(usize, &Link)| self.group(*at, link) != Group::Other;
        sum(chains.links().filter(|l| of_root(&l)).filter(family).map(|(_, link)| link.waits))
    }

    pub(super) fn lost_gaps(&self) -> u64 {
        self.phase.lost_gaps().count() as u64
    }

    /// Running time of submitting threads in gaps, shared out: each nanosecond of it is in one part.
    pub(super) fn own_work(&self) -> OwnWork {
        let (memory, graphs) = (&self.phase.memory, &self.phase.graphs);
        let [churns, captures] = [allocations::fires(self), graph_capture::fires(self)];
        let ran_ns = self.of(Group::Submitter).ran_ns;
        let mut left_ns = ran_ns;
        let mut take = |ns: u64| {
            let ns = ns.min(left_ns);
            left_ns -= ns;
            ns
        };
        let reclaimed_ns = take(self.reclaimed_ns(Group::Submitter));
        let memory_ns = take(if churns { memory.in_gaps.running_ns } else { 0 });
        let graphs_ns = take(if captures { graphs.in_gaps.running_ns } else { 0 });
        // Gaps that are not lost are no part of what it ran in lost ones.
        let after_waits_ns = take(if self.waits_too_often() {
            let in_calls = self.ruled_ns(|calls| calls.behind_waits_lost_ns);
            self.phase.after_waits_lost_ns.saturating_sub(in_calls)
        } else {
            0
        });
        let in_calls = [(churns, memory), (captures, graphs)].into_iter().filter(|(fires, _)| !fires);
        let in_calls = in_calls.map(|(_, calls)| match self.waits_too_often() {
            true => calls.in_gaps.running_ns.saturating_sub(calls.behind_waits_lost_ns),
            false => calls.in_gaps.running_ns,
        });
        let in_calls_ns = sum(in_calls).min(left_ns);
        OwnWork { ran_ns, reclaimed_ns, memory_ns, graphs_ns, after_waits_ns, left_ns, in_calls_ns }
    }

    /// A part of the running time of calls for which rules of their own fire.
    fn ruled_ns(&self, part: impl Fn(&CallsFigures) -> u64) -> u64 {
        let of = |fires: bool, calls: &CallsFigures| if fires { part(calls) } else { 0 };
        let memory_ns = of(allocations::fires(self), &self.phase.memory);
        memory_ns.saturating_add(of(graph_capture::fires(self), &self.phase.graphs))
    }

    /// Running time in short gaps that a wait began, less calls for which rules of their own fire.
    pub(super) fn after_waits_ns(&self) -> u64 {
        self.own_work().after_waits_ns.saturating_add(self.after_waits_short_ns())
    }

    /// Of that, what lies in gaps that are too short to be lost by themselves.
    pub(super) fn after_waits_short_ns(&self) -> u64 {
        let short = |all_ns: u64, lost_ns: u64| all_ns.saturating_sub(lost_ns);
        let memory = &self.phase.memory;
        // Nobody else tells of graphs that are made there.
        let in_calls = match allocations::fires(self) {
            true => short(memory.behind_waits_ns, memory.behind_waits_lost_ns),
            false => 0,
        };
        short(self.phase.after_waits_ns, self.phase.after_waits_lost_ns).saturating_sub(in_calls)
    }

    /// What calls in gaps that allocate and release, and those that make graphs, were blocked, where rules of their own fire: as far as no
    /// other rule tells what such waits were for. Whom they waited for is told there.
    fn calls_blocked_ns(&self) -> (u64, u64) {
        const NOBODYS: [Ending; 6] =
            [Ending::Sleep, Ending::Timeout, Ending::Device, Ending::Interrupt, Ending::UnknownWaker, Ending::Edge];
        let nobodys = sum(NOBODYS.into_iter().map(|ending| self.all(|s| s.ended_ns(ending))));
        let memory = if allocations::fires(self) { self.phase.memory.in_gaps.blocked_ns.min(nobodys) } else { 0 };
        (memory, self.phase.graphs.in_gaps.blocked_ns.min(nobodys - memory))
    }

    /// What making graphs ran and waited in gaps.
    pub(super) fn graphs_lost_ns(&self) -> u64 {
        self.own_work().graphs_ns.saturating_add(self.calls_blocked_ns().1)
    }

    /// Running time of workers that nothing more special explains.
    pub(super) fn workers_work_ns(&self) -> u64 {
        self.of(Group::Worker).ran_ns.saturating_sub(self.reclaimed_ns(Group::Worker))
    }

    /// Direct reclaim of a group within the gaps, and no more than its threads' time in the chains.
    pub(super) fn reclaimed_ns(&self, group: Group) -> u64 {
        let phase = &self.phase.phase;
        let of_group = |id: ProcessId| match group {
            Group::Submitter => id == phase.process,
            _ => id != phase.process && self.is_family(id),
        };
        // What another thread of the process reclaims meanwhile holds up no submitting one.
        let holds_up = |gap: &Gap, task: TaskId| group != Group::Submitter || gap.submitter == task;
        let lists = self.analysis.signs.reclaims.iter().filter(|(id, _)| of_group(**id));
        let stretches = lists.flat_map(|(_, list)| list);
        let in_gaps = stretches.flat_map(|s| {
            let gaps = phase.open_gaps_within(s.start_ns, s.end_ns);
            gaps.filter(|(gap, ..)| gap.is_lost() && holds_up(gap, s.task)).map(|(_, a, b)| (a, b))
        });
        // Workers that reclaim side by side hold up the one thread that waits for them once.
        spans::total_ns(&spans::joined(in_gaps.collect())).min(self.of(group).ran_ns)
    }

    /// Where the process made copies that were slow: all of that time is theirs, whoever else could claim it.
    fn copying(&self) -> Vec<(u64, u64)> {
        self.within(self.phase.copies.stretches.iter().copied())
    }

    /// Where it allocated and released device memory beside those copies, outside of gaps, and that is churn.
    fn allocating(&self) -> Vec<(u64, u64)> {
        if !allocations::fires(self) {
            return Vec::new();
        }
        let calls = self.within(self.phase.memory.stretches.iter().copied());
        spans::without(&spans::without(&calls, &self.copying()), &self.lost_stretches())
    }

    /// Where it launched in bursts, and did neither.
    fn launching(&self) -> Vec<(u64, u64)> {
        let bursts = self.within(self.phase.phase.bursts.iter().map(|b| (b.start_ns, b.end_ns)));
        let rest = spans::without(&spans::without(&bursts, &self.copying()), &self.lost_stretches());
        spans::without(&rest, &self.allocating())
    }

    /// The gaps that count as lost.
    fn lost_stretches(&self) -> Vec<(u64, u64)> {
        self.phase.lost_gaps().map(|g| (g.start_ns, g.end_ns)).collect()
    }

    /// What of some stretches is in no gap at all: it counts as time in which the GPU was fed.
    fn fed_ns(&self, stretches: &[(u64, u64)]) -> u64 {
        let gaps: Vec<_> = self.phase.phase.gaps.iter().map(|g| (g.start_ns, g.end_ns)).collect();
        spans::total_ns(&spans::without(stretches, &gaps))
    }

    /// Stretches, as far as they are of the phase and of what is claimed.
    fn within(&self, stretches: impl Iterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
        let phase = &self.phase.phase;
        let clipped = stretches.map(|(from, to)| (from.max(phase.start_ns), to.min(phase.end_ns)));
        spans::without(&spans::joined(clipped.collect()), &phase.unclaimed)
    }

    /// What slow copies lost, side by side ones once, and what of it counts as fed.
    pub(super) fn copies_lost_ns(&self) -> (u64, u64) {
        let copying = self.copying();
        let lost_ns = self.phase.copies.lost_ns.min(spans::total_ns(&copying));
        (lost_ns, self.fed_ns(&copying).min(lost_ns))
    }

    /// What allocations and releases ran and waited: in gaps, and outside of them where no slow copy was made; and what of it counts
    /// as fed.
    pub(super) fn memory_lost_ns(&self) -> (u64, u64) {
        // What a thread stood in line for a CPU within them is told there, and whom it waited for.
        let worked = |s: ingero_replay::Spent| s.running_ns.saturating_add(s.blocked_ns);
        let (all, in_gaps) = (worked(self.phase.memory.spent), worked(self.phase.memory.in_gaps));
        let allocating = self.allocating();
        let outside = all.saturating_sub(in_gaps).min(spans::total_ns(&allocating));
        let in_gaps = self.own_work().memory_ns.saturating_add(self.calls_blocked_ns().0);
        (in_gaps.saturating_add(outside), self.fed_ns(&allocating).min(outside))
    }

    /// Time in bursts of launches that is nothing else, and what of it counts as fed.
    pub(super) fn bursts_ns(&self) -> (u64, u64) {
        let bursts = self.launching();
        (spans::total_ns(&bursts), self.fed_ns(&bursts))
    }

    /// What of the waits for another rank is none of the above, and what of it counts as fed.
    pub(super) fn waits_for_ranks_ns(&self, late: &Late) -> (u64, u64) {
        let mut rest = self.within(late.stretches().into_iter());
        let killed: Vec<_> = self.phase.phase.killed().collect();
        for others in [killed, self.copying(), self.allocating(), self.launching()] {
            rest = spans::without(&rest, &others);
        }
        (spans::total_ns(&rest), self.fed_ns(&rest))
    }

    /// Whether there is a wait for nearly every submission.
    pub(super) fn waits_too_often(&self) -> bool {
        let submissions = self.phase.phase.submissions;
        submissions >= LOOP_FROM && self.phase.waits.count.saturating_mul(2) >= submissions
    }

    /// Whether the pages that a process was handed out account for a third of a running time.
    pub(super) fn is_faulting(&self, processes: &[ProcessId]) -> bool {
        let share = self.share_of(processes);
        // Faults where they are recorded, else the pages that they bring.
        let pages = share.page_allocs.max(share.faults);
        pages.saturating_mul(PAGE_NS).saturating_mul(3) >= share.on_cpu_ns && share.on_cpu_ns > 0
    }

    /// What some processes took of the phase.
    pub(super) fn share_of(&self, processes: &[ProcessId]) -> Share {
        processes.iter().filter_map(|id| self.phase.shares.get(id).copied()).sum()
    }

    /// Processes of a group that are in the chains, by running time.
    pub(super) fn processes_of(&self, group: Group) -> Vec<(ProcessId, u64)> {
        let mut ran: BTreeMap<ProcessId, u64> = BTreeMap::new();
        for (_, link) in self.phase.chains.links().filter(|(at, link)| self.group(*at, link) == group) {
            let sum = ran.entry(self.analysis.processes.of(link.task)).or_default();
            *sum = sum.saturating_add(link.ran.ns);
        }
        let mut ran: Vec<_> = ran.into_iter().collect();
        ran.sort_by_key(|&(id, ns)| (std::cmp::Reverse(ns), id));
        ran
    }

    /// An incident of this phase, if it lost enough.
    pub(super) fn incident(&self, kind: &'static str, cause: &'static str, lost_ns: u64) -> Option<Incident> {
        (lost_ns > 0).then(|| {
            let incident = self.incident_of_any(kind, cause, lost_ns);
            Incident { minor: incident.share < SHARE_FROM, ..incident }
        })
    }

    /// An incident of this phase, however little it lost.
    pub(super) fn incident_of_any(&self, kind: &'static str, cause: &'static str, lost_ns: u64) -> Incident {
        let most_ns = self.most_ns.get(kind).copied().unwrap_or(u64::MAX);
        let capped = most_ns < lost_ns;
        let lost_ns = lost_ns.min(most_ns);
        let share = ratio(lost_ns, self.phase.phase.claimed_ns());
        Incident {
            kind,
            cause,
            op: None,
            severity: Severity::of(share),
            process: self.phase.phase.process,
            phase: self.phase.number,
            lost_ns,
            at_most: capped,
            capped,
            fed_ns: 0,
            minor: false,
            share: share.min(1.0),
            summary: String::new(),
            root_cause: String::new(),
            recommendations: Vec::new(),
            timeline: Vec::new(),
            evidence: Vec::new(),
        }
    }

    /// Shows the longest stretches of one part of the chains.
    pub(super) fn show(&self, incident: &mut Incident, layer: Layer, what: &str, part: impl Fn(Group, &Link) -> Part) {
        let mut found: BTreeMap<TaskId, Stretch> = BTreeMap::new();
        for (at, link) in self.phase.chains.links() {
            let Some(stretch) = part(self.group(at, link), link).longest else { continue };
            let longest = found.entry(link.task).or_insert(stretch);
            if longest.len_ns() < stretch.len_ns() {
                *longest = stretch;
            }
        }
        let mut found: Vec<_> = found.into_values().collect();
        found.sort_by_key(|s| (std::cmp::Reverse(s.len_ns()), s.start_ns, s.task));
        for s in found.into_iter().take(SHOWN) {
            self.show_stretch(incident, layer, what, s);
        }
    }

    pub(super) fn show_stretch(&self, incident: &mut Incident, layer: Layer, what: &str, s: Stretch) {
        let least = if self.is_cut(&s) { "at least " } else { "" };
        let detail = format!("{} {what} for {least}{}", self.analysis.thread_label(s.task), seconds(s.len_ns()));
        let (start_ns, end_ns, task) = (s.start_ns, s.end_ns, s.task);
        incident.timeline.push(Moment { layer, detail, start_ns, end_ns, task });
        incident.evidence.push(Evidence { what: what.to_owned(), task, start_ns, end_ns });
    }

    /// Whether what goes on at one end of a stretch is not known, or not asked for: its gap is cut there.
    fn is_cut(&self, s: &Stretch) -> bool {
        let mut gaps = self.phase.phase.gaps_within(s.start_ns, s.end_ns);
        gaps.any(|(gap, ..)| {
            (gap.began_before && gap.start_ns == s.start_ns) || (gap.unfinished && gap.end_ns == s.end_ns)
        })
    }

    /// A count of events of the phase in words: `at least 12` where some of their kind are lost in it.
    pub(super) fn counted(&self, kind: Kind, n: u64) -> String {
        let phase = &self.phase.phase;
        self.analysis.counted_in(phase.process, kind, n, phase.start_ns, phase.end_ns)
    }

    /// The phase's longest gap, as a moment and as evidence.
    pub(super) fn show_longest_gap(&self, incident: &mut Incident) {
        let Some(gap) = self.phase.longest_gap() else { return };
        let least = if gap.began_before || gap.unfinished { "at least " } else { "" };
        let detail = format!("no submission for {least}{}, the longest gap of the phase", seconds(gap.len_ns()));
        let (start_ns, end_ns, task) = (gap.start_ns, gap.end_ns, gap.submitter);
        incident.timeline.push(Moment { layer: Layer::Host, detail, start_ns, end_ns, task });
        incident.evidence.push(Evidence { what: "longest gap between submissions".into(), task, start_ns, end_ns });
        if let Some(next) = self.analysis.trace.function(gap.next).filter(|_| !gap.unfinished) {
            let layer = if next.layer == Library::Driver { Layer::Driver } else { Layer::Runtime };
            let detail = format!("{} is called at last, the first submission after it", next.symbol);
            incident.timeline.push(Moment { layer, detail, start_ns: end_ns, end_ns, task });
        }
    }

    /// Who the worst of some processes are, and their times: `sh (538) and 5 more of that name 3.28 s, cc1 (99) 1 s`.
    pub(super) fn names(&self, list: &[(ProcessId, u64)]) -> String {
        let groups = self.by_name(list);
        let more = groups.len().saturating_sub(SHOWN);
        let name = |(ids, ns): &(Vec<ProcessId>, u64)| {
            let first = ids.first().map_or(String::new(), |&id| self.analysis.label(id));
            match ids.len() {
                1 => format!("{first} {}", seconds(*ns)),
                n => format!("{first} and {} more of that name {}", n - 1, seconds(*ns)),
            }
        };
        let mut names: Vec<String> = groups.iter().take(SHOWN).map(name).collect();
        if more > 0 {
            names.push(format!("{more} more"));
        }
        names.join(", ")
    }

    /// The worst of some processes, without repetition: `sh (6 processes)`.
    pub(super) fn grouped(&self, list: &[(ProcessId, u64)]) -> String {
        let mut groups = self.by_name(list);
        // Whoever held a CPU for a moment is not worth moving.
        let worst = groups.first().map_or(0, |(_, ns)| *ns);
        groups.retain(|(_, ns)| ns.saturating_mul(10) >= worst);
        let show = |(ids, _): &(Vec<ProcessId>, u64)| match ids.as_slice() {
            [one] => self.analysis.label(*one),
            [first, ..] => format!("{} ({} processes)", crate::printable(self.analysis.name(*first)), ids.len()),
            [] => String::new(),
        };
        groups.iter().take(SHOWN).map(show).collect::<Vec<_>>().join(", ")
    }

    /// Processes and their times by name, the worst first; so are those of one name.
    fn by_name(&self, list: &[(ProcessId, u64)]) -> Vec<(Vec<ProcessId>, u64)> {
        let mut list = list.to_vec();
        list.sort_by_key(|&(id, ns)| (std::cmp::Reverse(ns), id));
        let mut by_name: BTreeMap<&str, (Vec<ProcessId>, u64)> = BTreeMap::new();
        for (id, ns) in list {
            let entry = by_name.entry(self.analysis.name(id)).or_default();
            entry.0.push(id);
            entry.1 = entry.1.saturating_add(ns);
        }
        let mut groups: Vec<_> = by_name.into_values().collect();
        groups.sort_by_key(|(ids, ns)| (std::cmp::Reverse(*ns), ids.first().copied()));
        groups
    }
}
