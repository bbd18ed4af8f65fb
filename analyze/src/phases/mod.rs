//! Phases: stretches in which a process behaves in one way.
//!
//! They are found from three signs. The number of processes that work for it changes (a loader starts its workers, or
//! they end). The rhythm of its submissions changes, or how many there are in a step: a **step** is a gap of 1 ms or
//! more with the submissions that follow it. And the first steps take far longer than later ones: warm-up.
//!
//! A boundary never cuts a gap: it is put where the gap around it begins, since that is where the wait for what comes
//! next began.

mod alone;
mod rates;
mod start_up;
mod turns;

use ingero_format::Trace;
use ingero_format::catalog::{Body, Exec, Exit, Fork, Kind};
use ingero_replay::{Merge, ProcessId, Processes, Window};

pub(crate) use alone::tell_alone;

use crate::exchange::Late;
use crate::feed::{Burst, Feed, Gap};
use crate::sample::Sample;
use crate::signs::Kill;
use crate::spans;

/// A stretch of one behaviour of one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phase {
    /// The process.
    pub process: ProcessId,
    /// Begin: the entry of the process's first call, or where another behaviour ended.
    pub start_ns: u64,
    /// End: where the next phase begins, or the return of the process's last call.
    pub end_ns: u64,
    /// Launches and copies to the device.
    pub submissions: u64,
    /// Its gaps, in order; they do not overlap.
    pub gaps: Vec<Gap>,
    /// Processes that descend from it and lived through it.
    pub workers: usize,
    /// The first calls, which take longer than any that follow.
    pub warm_up: bool,
    /// Whether it lies within one submission, or one wait for the device: a range may.
    pub within_call: bool,
    /// Until when a process whose begin was recorded has submitted nothing yet: the begin of the phase is its start-up, neither a gap nor
    /// time in which the GPU is fed.
    pub(crate) begun_ns: Option<u64>,
    /// The process's first submission, where its begin was recorded.
    pub(crate) first_ns: Option<u64>,
    /// From when on a process whose end was recorded submits nothing more: what is left of the phase is its end, neither a gap nor
    /// time in which the GPU is fed.
    pub(crate) over_ns: Option<u64>,
    /// Steps in it: stretches of submissions apart by 1 ms or more.
    pub steps: usize,
    /// The usual time from step to step (the median), where there are a few.
    pub step_ns: Option<u64>,
    /// Submissions that the device was done with before anybody waited for them.
    pub bursts: Vec<Burst>,
    /// Of a source that kept a sample: what can be said in place of gaps.
    pub sample: Option<Sample>,
    /// Stretches within it of which nothing is claimed, since events of them are lost, with the gaps that reach into
    /// them; in order, apart from one another.
    pub unclaimed: Vec<(u64, u64)>,
    /// Whether no other process of its host asks a GPU for anything meanwhile.
    pub(crate) is_alone: bool,
    /// The first process of it, or that works for it, that was killed for want of memory.
    pub(crate) kill: Option<Kill>,
    /// The rank that comes last to what it exchanges with others.
    pub(crate) late: Option<Late>,
    /// Time of gaps that is no cause's but these two's; in order, apart from one another.
    pub(crate) taken: Vec<(u64, u64)>,
}

/// A stretch shorter than this share of the process's whole, and than [`SLIVER_NS`], is no behaviour of its own.
const SLIVER_SHARE: u64 = 50;
const SLIVER_NS: u64 = 250_000_000;
/// Two rhythms differ when one is so many times the other's, as a logarithm: ln 3.
const DIFFERS: f64 = 1.098_612_288_668_11;
/// And when telling them apart explains so much more than chance does: a split of a thousand steps of one
/// behaviour gains about 14 at best.
const GAIN: f64 = 25.0;
/// Steps on either side of a change.
const STEPS: usize = 4;
/// A burst without any gap is a behaviour of its own where it is so many times as long as the usual step.
const BURST: u64 = 20;

impl Phase {
    /// Length of the phase.
    #[must_use]
    pub fn len_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }

    /// Length of the part of which something can be claimed.
    #[must_use]
    pub fn claimed_ns(&self) -> u64 {
        self.len_ns().saturating_sub(crate::sum(self.unclaimed.iter().map(|(from, to)| to - from)))
    }

    /// Length of the part of that in which something was asked of the GPU, or it waited to be asked: without the start-up of a process and
    /// its end. Nothing of a phase in which nothing was asked.
    #[must_use]
    pub fn asked_ns(&self) -> u64 {
        let unasked = self.start_up_ns().saturating_add(self.ended_ns());
        if self.is_silent() { 0 } else { self.claimed_ns().saturating_sub(unasked) }
    }

    /// Length of the part of what is claimed in which its process had not begun to submit.
    #[must_use]
    pub fn start_up_ns(&self) -> u64 {
        self.begun_ns.map_or(0, |until_ns| self.claimed_within_ns(self.start_ns, until_ns))
    }

    /// The same of what its process did once it had submitted all.
    #[must_use]
    pub fn ended_ns(&self) -> u64 {
        self.over_ns.map_or(0, |from_ns| self.claimed_within_ns(from_ns, self.end_ns))
    }

    fn claimed_within_ns(&self, from_ns: u64, to_ns: u64) -> u64 {
        spans::total_ns(&spans::without(&[(from_ns, to_ns)], &self.unclaimed))
    }

    /// Takes what lies in stretches with losses out: of a gap that reaches into one nobody knows whether it was one.
    pub(crate) fn leave_out(&mut self, lossy: &[(u64, u64)]) {
        let mut out: Vec<(u64, u64)> = lossy
            .iter()
            .map(|&(from, to)| (from.max(self.start_ns), to.min(self.end_ns)))
            .filter(|(from, to)| from < to)
            .collect();
        let touches = |g: &Gap, (from, to): (u64, u64)| g.start_ns < to && from < g.end_ns;
        let lossy = out.clone();
        self.gaps.retain(|gap| {
            let hit = lossy.iter().any(|&stretch| touches(gap, stretch));
            if hit {
                out.push((gap.start_ns.max(self.start_ns), gap.end_ns.min(self.end_ns)));
            }
            !hit
        });
        self.bursts.retain(|b| !lossy.iter().any(|&(from, to)| b.start_ns < to && from < b.end_ns));
        // What was left out before stays out.
        out.append(&mut self.unclaimed);
        self.unclaimed = spans::joined(out);
    }

    /// Whether nothing was asked of a GPU in it: there is neither a submission nor a gap between two, nor does it lie within one.
    pub(crate) fn is_silent(&self) -> bool {
        self.submissions == 0 && self.gaps.is_empty() && !self.within_call
    }

    /// Whether an instant lies where nothing is claimed.
    pub(crate) fn is_unclaimed(&self, at_ns: u64) -> bool {
        self.unclaimed.iter().any(|&(from, to)| (from..to).contains(&at_ns))
    }

    /// The gaps that the kill left behind: what is left of the one that it lies in, or else all later ones.
    pub(crate) fn killed(&self) -> impl Iterator<Item = (u64, u64)> {
        let (from_ns, to_ns) = self.killed_ns();
        self.gaps_within(from_ns, to_ns).map(|(_, from, to)| (from, to))
    }

    /// From when to when all gaps are the kill's.
    fn killed_ns(&self) -> (u64, u64) {
        let Some(kill) = self.kill else { return (u64::MAX, u64::MAX) };
        let within = self.gaps_within(kill.at_ns, kill.at_ns.saturating_add(1)).next();
        (kill.at_ns, within.map_or(self.end_ns, |(gap, ..)| gap.end_ns).max(kill.at_ns))
    }

    /// Gives the time of gaps that a kill left behind, and that goes to waiting for another rank, to these.
    pub(crate) fn take(&mut self) {
        let waits = self.late.as_ref().map_or_else(Vec::new, Late::stretches);
        self.taken = spans::joined(self.killed().chain(waits).collect());
    }

    /// The gaps that share time with `from..to`, each with the stretches that they share, as far as a cause is looked for.
    pub(crate) fn open_gaps_within(&self, from: u64, to: u64) -> impl Iterator<Item = (&Gap, u64, u64)> {
        self.gaps_within(from, to).flat_map(|(gap, from, to)| {
            let first = self.taken.partition_point(|t| t.1 <= from);
            let taken = self.taken.get(first..).unwrap_or_default();
            let free = taken.first().is_none_or(|t| t.0 >= to);
            let (whole, parts) =
                if free { (Some((from, to)), Vec::new()) } else { (None, spans::without(&[(from, to)], taken)) };
            whole.into_iter().chain(parts).map(move |(from, to)| (gap, from, to))
        })
    }

    /// Length of all gaps together.
    #[must_use]
    pub fn gaps_ns(&self) -> u64 {
        crate::sum(self.gaps.iter().map(Gap::len_ns))
    }

    /// The gaps that share time with `from..to`, with the shared stretch.
    pub fn gaps_within(&self, from: u64, to: u64) -> impl Iterator<Item = (&Gap, u64, u64)> {
        let first = self.gaps.partition_point(|g| g.end_ns <= from);
        let rest = self.gaps.iter().skip(first);
        rest.take_while(move |g| g.start_ns < to).map(move |g| (g, g.start_ns.max(from), g.end_ns.min(to)))
    }

    /// What it is, in a few words.
    #[must_use]
    pub fn label(&self) -> String {
        if self.warm_up {
            return "warm-up".to_owned();
        }
        let workers = match self.workers {
            0 => "no workers".to_owned(),
            1 => "1 worker".to_owned(),
            n => format!("{n} workers"),
        };
        if let Some(sample) = &self.sample {
            return match self.step_ns {
                _ if sample.calls_stored == 0 => format!("{workers}, no CUDA call stored"),
                Some(ns) => format!("{workers}, {} steps of {}", self.steps, crate::report::duration(ns)),
                None => workers,
            };
        }
        match (self.submissions, self.step_ns) {
            (0, _) => format!("{workers}, nothing submitted"),
            (_, Some(ns)) => format!("{workers}, a step each {}", crate::report::duration(ns)),
            (_, None) if self.steps <= 1 => format!("{workers}, without pause"),
            (_, None) => workers,
        }
    }
}

/// When the processes of a trace began and ended.
#[derive(Debug)]
pub(crate) struct Lives(Vec<Life>);

#[derive(Debug, Clone, Copy, Default)]
struct Life {
    born_ns: Option<u64>,
    died_ns: Option<u64>,
    /// Whether its begin is in the trace.
    made: bool,
}

impl Lives {
    pub(crate) fn new(trace: &Trace, processes: &Processes) -> Self {
        let mut lives = vec![Life::default(); processes.iter().count() + 1];
        let mut ended = vec![0; lives.len()];
        for event in Merge::of(trace, |k| matches!(k, Kind::Fork | Kind::Exec | Kind::Exit)) {
            let (Body::Fork(Fork { child: task, .. }) | Body::Exec(Exec { task, .. }) | Body::Exit(Exit { task, .. })) =
                event.body
            else {
                continue;
            };
            let id = processes.of(task);
            let (Some(life), Some(ended)) = (lives.get_mut(id.index()), ended.get_mut(id.index())) else { continue };
            let process = processes.get(id);
            match event.body {
                Body::Fork(_) if process.leader == Some(task) => {
                    life.born_ns = Some(event.ts_ns);
                    life.made = true;
                }
                // A program's own beginning, where its process was there before the recording.
                Body::Exec(_) => life.made = true,
                Body::Exit(e) => {
                    *ended += 1;
                    // A thread that lives on keeps its process alive, whoever else ended. Some kernels do not say which is the last.
                    if e.group_dead.map_or(*ended >= process.threads.len(), |dead| dead != 0) {
                        life.died_ns = Some(event.ts_ns);
                    }
                }
                _ => {}
            }
        }
        Self(lives)
    }

    fn of(&self, id: ProcessId) -> Life {
        self.0.get(id.index()).copied().unwrap_or_default()
    }
}

/// One step: a gap with what is submitted after it.
#[derive(Debug, Clone, Copy)]
struct Step {
    start_ns: u64,
    len_ns: u64,
    submissions: u64,
    /// Whether it begins with a pause: the first one has none, and says nothing of how long the others are.
    paused: bool,
}

/// A stretch while phases are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    start_ns: u64,
    end_ns: u64,
    workers: usize,
    warm_up: bool,
    /// After what the process asked for last.
    silent: bool,
}

impl Span {
    fn len_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }
}

/// The phases of all feeds of a range, in order of the feeds and then of time.
pub(crate) fn split(feeds: Vec<Feed>, processes: &Processes, lives: &Lives, window: &Window) -> Vec<Phase> {
    feeds.into_iter().flat_map(|feed| phases_of(feed, processes, lives, window)).collect()
}

fn phases_of(mut feed: Feed, processes: &Processes, lives: &Lives, window: &Window) -> Vec<Phase> {
    let life = lives.of(feed.process);
    let last_ns = window.to_ns.min(feed.known_ns.1);
    // Where it still makes calls behind the range, its last one in there is not its last.
    if window.is_cut() && feed.ends.is_some() {
        feed.end_ns = feed.end_ns.max(feed.called_until_ns.min(last_ns));
    }
    // What comes before its first submission is its start-up, where that was recorded; what comes after its last one is its end.
    if !life.made && !feed.fed_before {
        feed.open_at_its_begin();
    }
    if life.died_ns.is_none() {
        feed.open_at_its_end();
    }
    // Where a range has nothing that was asked of a GPU, all of it is told.
    let unasked = window.is_cut() && feed.submits && feed.is_silent();
    let silent = unasked && feed.fed_until_ns < last_ns;
    if unasked {
        let from_ns = life.born_ns.unwrap_or(feed.known_ns.0).max(window.from_ns);
        let to_ns = life.died_ns.unwrap_or(last_ns).min(last_ns);
        if !feed.called && from_ns >= to_ns {
            return Vec::new();
        }
        feed.start_ns = if feed.called { feed.start_ns.min(from_ns) } else { from_ns };
        feed.end_ns = feed.end_ns.max(to_ns);
    }
    let sliver_ns = (feed.end_ns - feed.start_ns) / SLIVER_SHARE;
    let sliver_ns = sliver_ns.min(SLIVER_NS);
    // What its workers do after its last call belongs to it as long as it lives.
    let died_ns = lives.of(feed.process).died_ns.unwrap_or(last_ns).min(last_ns).max(feed.end_ns);
    // What a process whose end was recorded calls after its last submission asks for nothing: it comes to its end.
    let ended = life.died_ns.is_some() && feed.ends.is_some();
    let asked_ns =
        Some(feed.fed_until_ns).filter(|&ns| ended && ns.saturating_add(sliver_ns) <= feed.end_ns && ns < feed.end_ns);
    // Behind a wait for the device that the range begins in nothing is asked; up to its end the device is busy.
    let until_ns = if silent { feed.fed_until_ns } else { asked_ns.unwrap_or(feed.end_ns) };
    let asked_ns = until_ns.max(feed.start_ns);
    let least_ns = turns::least_ns(feed.end_ns - feed.start_ns);
    let steps = steps(&feed, asked_ns);
    let mut spans = populations(&feed, processes, lives, (asked_ns, died_ns), sliver_ns);
    for boundary in spans.iter_mut() {
        boundary.start_ns = unsplit(&feed.gaps, boundary.start_ns);
    }
    close_up(&mut spans);
    let usual = start_up::Usual::of(&feed, &spans);
    let mut fine: Vec<Span> = Vec::new();
    for span in spans {
        let first = steps.partition_point(|s| s.start_ns < span.start_ns);
        let last = steps.partition_point(|s| s.start_ns < span.end_ns);
        let steps = steps.get(first..last).unwrap_or_default();
        let mut cuts = rates::changes(&feed.gaps, steps, span, (sliver_ns, least_ns));
        cuts.sort_unstable();
        // Rhythms are those of one rate.
        let mut rest = steps;
        let mut start_ns = span.start_ns;
        for end_ns in cuts.clone().into_iter().chain([span.end_ns]) {
            let (own, behind) = rest.split_at(rest.partition_point(|s| s.start_ns < end_ns));
            let part = Span { start_ns, end_ns, ..span };
            let mut finer = Vec::new();
            rhythms(own, least_ns, &mut finer);
            finer.extend(bursts(own, &feed, part, sliver_ns));
            // What lasts for a moment is no behaviour of its own.
            let apart = |cut: &u64| cut - start_ns >= sliver_ns && end_ns - cut >= sliver_ns;
            cuts.extend(finer.into_iter().filter(|cut| (start_ns..end_ns).contains(cut)).filter(apart));
            (rest, start_ns) = (behind, end_ns);
        }
        cuts.sort_unstable();
        cuts.dedup();
        let mut start_ns = span.start_ns;
        for cut in cuts.into_iter().filter(|&c| c > span.start_ns && c < span.end_ns) {
            fine.push(Span { start_ns, end_ns: cut, ..span });
            start_ns = cut;
        }
        fine.push(Span { start_ns, ..span });
    }
    // What was under way before the range has its first steps behind it.
    if !feed.fed_before {
        start_up::warm_up(&mut fine, &steps, &feed);
    }
    if lives.of(feed.process).made && !feed.fed_before {
        start_up::start_up(&mut fine, &feed, &usual, sliver_ns);
    }
    let over_ns = Some(feed.fed_until_ns).filter(|_| ended);
    let begun_ns = feed.fed_from_ns.filter(|_| life.made && !feed.fed_before);
    let mut phases = assemble(feed, &fine, &steps);
    for phase in &mut phases {
        phase.within_call = unasked && phase.start_ns < asked_ns;
        phase.first_ns = begun_ns;
        phase.begun_ns = begun_ns.filter(|&ns| phase.start_ns < ns).map(|ns| ns.min(phase.end_ns));
        phase.over_ns = over_ns.filter(|ns| (phase.start_ns + 1..phase.end_ns).contains(ns));
    }
    phases
}

/// The steps of a feed. What comes before its first gap is one, too.
fn steps(feed: &Feed, asked_ns: u64) -> Vec<Step> {
    let mut out: Vec<Step> = Vec::new();
    let mut begin = (feed.start_ns, 0);
    let mut paused = false;
    // What no submission ends belongs to the last one.
    let ended = feed.gaps.iter().filter(|g| g.begins_step() && !g.unfinished);
    for gap in ended {
        let (start_ns, before) = begin;
        if gap.start_ns == start_ns && before == u64::from(gap.before) {
            paused = true;
            continue;
        }
        let (len_ns, submissions) = (gap.start_ns - start_ns, u64::from(gap.before) - before);
        out.push(Step { start_ns, len_ns, submissions, paused });
        begin = (gap.start_ns, u64::from(gap.before));
        paused = true;
    }
    let (start_ns, before) = begin;
    // Nor is what comes after that, for as long as nothing comes, one of its steps.
    let until_ns = feed.gaps.last().filter(|g| g.unfinished).map_or(asked_ns, |g| g.start_ns.min(asked_ns));
    let (len_ns, submissions) = (until_ns.saturating_sub(start_ns), feed.submissions - before);
    out.push(Step { start_ns, len_ns, submissions, paused });
    out
}

/// Stretches with one number of lasting descendants each.
fn populations(
    feed: &Feed,
    processes: &Processes,
    lives: &Lives,
    (asked_ns, died_ns): (u64, u64),
    sliver_ns: u64,
) -> Vec<Span> {
    let mut changes: Vec<(u64, bool)> = Vec::new();
    let mut workers = 0;
    for id in processes.family(feed.process).into_iter().filter(|&id| id != feed.process) {
        let life = lives.of(id);
        let born = life.born_ns.unwrap_or(0).max(feed.start_ns);
        let died = life.died_ns.unwrap_or(died_ns).min(died_ns);
        // A program that it called up for a moment is no worker.
        if died.saturating_sub(born) < sliver_ns.max(1) || died <= feed.start_ns {
            continue;
        }
        if born <= feed.start_ns {
            workers += 1;
        } else {
            changes.push((born, true));
        }
        if died < died_ns {
            changes.push((died, false));
        }
    }
    changes.sort_unstable();
    let mut spans = vec![Span { start_ns: feed.start_ns, end_ns: died_ns, workers, warm_up: false, silent: false }];
    for (at, born) in changes {
        workers = if born { workers + 1 } else { workers.saturating_sub(1) };
        if let Some(last) = spans.last_mut() {
            last.end_ns = at;
        }
        spans.push(Span { start_ns: at, end_ns: died_ns, workers, warm_up: false, silent: false });
    }
    // After its last call nothing is asked for: that counts only where workers go on through most of a good while.
    let tail_ns = died_ns - feed.end_ns;
    let working = |s: &Span| if s.workers > 0 { s.end_ns.saturating_sub(s.start_ns.max(feed.end_ns)) } else { 0 };
    let working_ns = crate::sum(spans.iter().map(working));
    let lasting =
        tail_ns >= SLIVER_NS && tail_ns >= (feed.end_ns - feed.start_ns) / 10 && working_ns >= tail_ns.div_ceil(2);
    let until_ns = if lasting { died_ns } else { feed.end_ns };
    let mut ended: Vec<Span> = Vec::new();
    for span in spans {
        let (before, after) = (span.end_ns.min(asked_ns), span.start_ns.max(asked_ns));
        if span.start_ns < before || ended.is_empty() {
            ended.push(Span { end_ns: before.max(span.start_ns), ..span });
        }
        let end_ns = span.end_ns.min(until_ns);
        if after < end_ns {
            ended.push(Span { start_ns: after, end_ns, silent: true, ..span });
        }
    }
    drop_slivers(&mut ended, sliver_ns);
    merge_equal(&mut ended);
    ended
}

/// Gives stretches that are too short to the neighbour with more workers: while they come up, and while they go, there
/// are some.
fn drop_slivers(spans: &mut Vec<Span>, sliver_ns: u64) {
    while spans.len() > 1 {
        let shortest = spans.iter().enumerate().min_by_key(|(at, s)| (s.len_ns(), *at));
        let Some((at, sliver)) = shortest.filter(|(_, s)| s.len_ns() < sliver_ns).map(|(at, s)| (at, *s)) else {
            return;
        };
        spans.remove(at);
        let workers = |at: Option<usize>| at.and_then(|at| spans.get(at)).map(|s| (s.workers, s.len_ns()));
        let (before, after) = (at.checked_sub(1), Some(at));
        if workers(after) >= workers(before) {
            if let Some(next) = spans.get_mut(at) {
                next.start_ns = sliver.start_ns;
            }
        } else if let Some(last) = before.and_then(|at| spans.get_mut(at)) {
            last.end_ns = sliver.end_ns;
        }
    }
}

/// Joins neighbours with the same number of workers; how many there are matters no more once nothing is asked for.
fn merge_equal(spans: &mut Vec<Span>) {
    let mut out: Vec<Span> = Vec::new();
    for span in spans.drain(..) {
        match out.last_mut() {
            Some(last) if last.silent == span.silent && (span.silent || last.workers == span.workers) => {
                last.end_ns = span.end_ns;
            }
            _ => out.push(span),
        }
    }
    *spans = out;
}

/// A moment, or the begin of the gap that it lies in.
fn unsplit(gaps: &[Gap], at_ns: u64) -> u64 {
    let next = gaps.partition_point(|g| g.end_ns <= at_ns);
    gaps.get(next).map_or(at_ns, |g| g.start_ns.min(at_ns))
}

/// Lets each stretch end where the next one begins; empty ones go.
fn close_up(spans: &mut Vec<Span>) {
    let starts: Vec<u64> = spans.iter().skip(1).map(|s| s.start_ns).collect();
    for (span, next) in spans.iter_mut().zip(starts) {
        span.end_ns = next;
    }
    if spans.iter().any(|s| s.len_ns() > 0) {
        spans.retain(|s| s.len_ns() > 0);
    }
}

/// Finds where the rhythm changes, again and again within the parts.
fn rhythms(steps: &[Step], least_ns: u64, cuts: &mut Vec<u64>) {
    let steps = steps.get(steps.iter().take_while(|s| !s.paused).count()..).unwrap_or_default();
    if steps.len() < 2 * STEPS {
        return;
    }
    let lens_ns: Vec<u64> = steps.iter().map(|s| s.len_ns).collect();
    let turns = turns::changes(&lens_ns, least_ns);
    if !turns.is_empty() {
        cuts.extend(turns.iter().filter_map(|&at| steps.get(at)).map(|s| s.start_ns));
        let mut rest = steps;
        let mut from = 0;
        for at in turns.into_iter().chain([steps.len()]) {
            let (own, behind) = rest.split_at((at - from).min(rest.len()));
            rhythms(own, least_ns, cuts);
            (rest, from) = (behind, at);
        }
        return;
    }
    #[expect(clippy::cast_precision_loss, reason = "logarithms of lengths and counts")]
    let signs = steps.iter().map(|s| [(s.len_ns.max(1) as f64).ln(), (1.0 + s.submissions as f64).ln()]);
    // Sums and sums of squares up to each step.
    let mut sums = vec![[(0.0, 0.0); 2]];
    for sign in signs {
        let mut sum = sums.last().copied().unwrap_or_default();
        for (s, x) in sum.iter_mut().zip(sign) {
            *s = (s.0 + x, s.1 + x * x);
        }
        sums.push(sum);
    }
    let stretch = |sign: usize, from: usize, to: usize| -> (f64, f64) {
        let at = |i: usize| sums.get(i).and_then(|s| s.get(sign)).copied().unwrap_or_default();
        #[expect(clippy::cast_precision_loss, reason = "a count of steps")]
        let (n, (a, aa), (b, bb)) = ((to - from) as f64, at(from), at(to));
        let mean = (b - a) / n;
        ((bb - aa - n * mean * mean).max(0.0), mean)
    };
    let n = steps.len();
    let mut best: Option<(f64, usize)> = None;
    for at in STEPS..=n - STEPS {
        for sign in 0..2 {
            let ((whole, _), (left, left_mean), (right, right_mean)) =
                (stretch(sign, 0, n), stretch(sign, 0, at), stretch(sign, at, n));
            #[expect(clippy::cast_precision_loss, reason = "a count of steps")]
            let spread = (left + right) / n as f64 + 0.01;
            let gain = (whole - left - right) / spread;
            if (left_mean - right_mean).abs() >= DIFFERS && gain >= GAIN && best.is_none_or(|(g, _)| gain > g) {
                best = Some((gain, at));
            }
        }
    }
    let Some((_, at)) = best else { return };
    let (left, right) = steps.split_at(at);
    cuts.extend(right.first().map(|s| s.start_ns));
    rhythms(left, least_ns, cuts);
    rhythms(right, least_ns, cuts);
}

/// Begin and end of stretches without any gap that are far longer than the steps around them, and submit at another rate:
/// where pauses of a step's length are rare, a stretch without one is chance.
fn bursts(steps: &[Step], feed: &Feed, span: Span, sliver_ns: u64) -> Vec<u64> {
    let Some(median) = median(steps) else { return Vec::new() };
    let whole = (crate::sum(steps.iter().map(|s| s.submissions)), crate::sum(steps.iter().map(|s| s.len_ns)));
    let lasting = |s: &&Step| s.submissions > 1 && s.len_ns >= median.saturating_mul(BURST) && s.len_ns >= sliver_ns;
    let mut cuts = Vec::new();
    for s in steps.iter().filter(lasting) {
        // Where the burst itself begins: after the gap that its step begins with.
        let gap = feed.gaps.partition_point(|g| g.end_ns <= s.start_ns);
        let begin = feed.gaps.get(gap).filter(|g| g.start_ns <= s.start_ns).map_or(s.start_ns, |g| g.end_ns);
        let end = s.start_ns + s.len_ns;
        let len_ns = end - begin.min(end);
        let around = (whole.0.saturating_sub(s.submissions), whole.1.saturating_sub(len_ns));
        // A pause of minutes, as there is one while a process comes up, makes no rate.
        let usual = rates::usual(&feed.gaps, steps, span, (begin, end));
        let differs = |other| rates_differ((s.submissions, len_ns), other);
        if len_ns >= median.saturating_mul(BURST) && differs(around) && usual.is_none_or(differs) {
            cuts.extend([begin, end].into_iter().filter(|c| *c > span.start_ns && *c < span.end_ns));
        }
    }
    cuts
}

/// Whether two stretches, of so many submissions and nanoseconds each, submit at rates that differ as rhythms do.
fn rates_differ(a: (u64, u64), b: (u64, u64)) -> bool {
    #[expect(clippy::cast_precision_loss, reason = "logarithms of rates")]
    let rate = |(submissions, ns): (u64, u64)| (submissions.max(1) as f64 / ns.max(1) as f64).ln();
    (rate(a) - rate(b)).abs() >= DIFFERS
}

fn median(steps: &[Step]) -> Option<u64> {
    let mut lens: Vec<u64> = steps.iter().map(|s| s.len_ns).collect();
    lens.sort_unstable();
    lens.get(lens.len() / 2).copied()
}

/// Hands each gap to its stretch.
fn assemble(feed: Feed, spans: &[Span], steps: &[Step]) -> Vec<Phase> {
    let mut gaps = feed.gaps.into_iter().peekable();
    let mut bursts = feed.bursts.into_iter().peekable();
    let mut counted = 0;
    let count = spans.len();
    let phase = |(number, span): (usize, &Span)| {
        let mut own = Vec::new();
        while let Some(gap) = gaps.next_if(|g| g.start_ns < span.end_ns || number + 1 == count) {
            own.push(gap);
        }
        let last = number + 1 == count;
        let own_bursts = std::iter::from_fn(|| bursts.next_if(|b| b.start_ns < span.end_ns || last)).collect();
        // The submissions before the next stretch's first gap are this one's.
        let until = match gaps.peek() {
            // A start-up ends where the first one begins.
            _ if feed.fed_from_ns.is_some_and(|ns| ns >= span.end_ns) => 0,
            Some(next) if !last => u64::from(next.before),
            _ => feed.submissions,
        };
        let submissions = until - counted;
        counted = until;
        let first = steps.partition_point(|s| s.start_ns < span.start_ns);
        let past = steps.partition_point(|s| s.start_ns < span.end_ns);
        let own_steps = steps.get(first..past).unwrap_or_default();
        Phase {
            process: feed.process,
            start_ns: span.start_ns,
            end_ns: span.end_ns,
            submissions,
            gaps: own,
            workers: span.workers,
            warm_up: span.warm_up,
            within_call: false,
            begun_ns: None,
            first_ns: None,
            over_ns: None,
            steps: own_steps.len(),
            bursts: own_bursts,
            step_ns: (own_steps.len() >= STEPS).then(|| median(own_steps)).flatten(),
            sample: None,
            unclaimed: Vec::new(),
            is_alone: false,
            kill: None,
            late: None,
            taken: Vec::new(),
        }
    };
    spans.iter().enumerate().map(phase).collect()
}
