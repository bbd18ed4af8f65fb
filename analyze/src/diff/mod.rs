//! Two recordings beside each other: did the fix work?
//!
//! Processes are matched by their role, which is their name and whether they submit to a GPU, and not by their ids;
//! calls by role and function. Runs are seldom equally long, so what is compared is shares of the time in
//! which a process fed its GPU, and the time per submission; where one of the runs launches graphs, of which each stands for
//! many launches, the time per wait for the device. Warm-up is left out. A role that feeds a GPU in one of the
//! recordings alone has nothing to be compared with.

mod words;

use std::collections::{BTreeMap, BTreeSet};

use ingero_format::catalog::{Class, Layer};
use ingero_replay::ProcessId;
use serde::Serialize;

use crate::report::duration;
use crate::{Analysis, Busy, PhaseFigures};
pub use words::{markdown, text};

/// Changes below this share of the time, or of the time per submission, are none.
const CHANGE: f64 = 0.05;
/// A share below this one is told as less than 1 %, and its time not at all.
const LEAST: f64 = 0.005;

/// What became of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The GPU is better fed, or each submission takes less time.
    Better,
    /// The opposite.
    Worse,
    /// Neither.
    Same,
    /// Better for one role, and worse for another.
    Mixed,
    /// One of the recordings shows no GPU being fed, or nobody feeds one in both.
    Unknown,
}

/// How GPUs were fed in one of the two runs: by one role, or by all that both runs have; where they have none, by all.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Feed {
    /// Wall time of all phases without warm-up.
    pub wall_ns: u64,
    /// Of that, gaps between submissions; unknown of a sample, as is what follows from them.
    pub gaps_ns: Option<u64>,
    /// Share of the time in which the GPU was fed.
    pub fed: Option<f64>,
    /// Whether that is the most that it may have been: time was lost that counts as fed.
    pub fed_at_most: bool,
    /// How busy the GPU was by its own count, where that is known of nine tenths of the time.
    pub busy: Option<Busy>,
    /// Submissions in it.
    pub submissions: Option<u64>,
    /// Wall time for one.
    pub ns_per_submission: Option<u64>,
    /// Share of its launches that launch a graph; warm-up counts.
    pub graphs: Option<f64>,
    /// Wall time for one wait for the device.
    pub ns_per_wait: Option<u64>,
    /// Time lost to all causes; of some of it the trace may not prove that it was ([`CauseChange::before_at_most`]).
    pub lost_ns: u64,
}

/// One of the two runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Side {
    /// The file.
    pub file: String,
    /// How GPUs were fed.
    #[serde(flatten)]
    pub feed: Feed,
    /// Whether the recording is a sample, or that of any of its hosts.
    pub sampled: bool,
    /// Roles that feed a GPU in this run alone.
    pub alone: Vec<String>,
    /// Roles of which this recording has a sample: on a host whose source kept no more. They are not compared as far as they are.
    pub sampled_roles: Vec<String>,
    /// What this recording cannot show.
    pub caveats: Vec<String>,
}

/// One role that feeds a GPU in both runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RoleChange {
    /// Name of its processes.
    pub process: String,
    /// What became of it.
    pub outcome: Outcome,
    /// The same in one line.
    pub verdict: String,
    /// Before.
    pub before: Feed,
    /// After.
    pub after: Feed,
}

/// One cause in both runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CauseChange {
    /// Name of the process that lost the time.
    pub process: String,
    /// Kind of incident.
    pub kind: String,
    /// The cause in words.
    pub cause: String,
    /// Lost before.
    pub before_ns: u64,
    /// Lost after.
    pub after_ns: u64,
    /// The same as shares of the time of its role.
    pub before_share: f64,
    /// Of the time after.
    pub after_share: f64,
    /// Whether no more than this was lost before: the trace cannot prove that all of it was.
    pub before_at_most: bool,
    /// The same of what was lost after.
    pub after_at_most: bool,
    /// Of what was lost before, what counts as time in which the GPU was fed.
    pub before_fed_ns: u64,
    /// The same of what was lost after.
    pub after_fed_ns: u64,
}

/// Calls of one function in one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct OpSide {
    /// Calls that returned.
    pub count: u64,
    /// Mean.
    pub mean_ns: Option<u64>,
    /// Largest 99th percentile of any process of the role: percentiles are not mixed.
    pub p99_ns: Option<u64>,
}

/// Calls of one function in both runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OpChange {
    /// Role of the processes: their name.
    pub process: String,
    /// Library.
    pub layer: &'static str,
    /// Function.
    pub name: String,
    /// Before.
    pub before: Option<OpSide>,
    /// After.
    pub after: Option<OpSide>,
}

/// Two runs beside each other.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Diff {
    schema: &'static str,
    /// What became of it.
    pub outcome: Outcome,
    /// The same in one line.
    pub verdict: String,
    /// The first recording.
    pub before: Side,
    /// The second.
    pub after: Side,
    /// The roles that can be compared.
    pub roles: Vec<RoleChange>,
    /// Causes of lost time of these roles, the largest change first.
    pub causes: Vec<CauseChange>,
    /// Calls, the largest total first.
    pub ops: Vec<OpChange>,
}

impl Diff {
    /// Compares two analyses.
    #[must_use]
    pub fn new(before: &Analysis, after: &Analysis) -> Self {
        // Half of a comparison would be a claim: with a sample there is none.
        let [told, told_after] = [before, after].map(|a| feeding(a, |p| p.phase.sample.is_none()));
        let common: BTreeSet<&str> = told.intersection(&told_after).copied().collect();
        let (a, b) = (side(before, after, &common), side(after, before, &common));
        let feeds = common.into_iter().map(|name| (name, feed(before, |n| n == name), feed(after, |n| n == name)));
        let feeds: Vec<(&str, Feed, Feed)> = feeds.collect();
        let causes = causes(before, after, &feeds);
        let role = |(name, x, y): (&str, Feed, Feed)| {
            let outcome = outcome(&x, &y);
            let verdict = verdict(outcome, &x, &y, causes.iter().find(|c| c.process == name));
            RoleChange { process: name.to_owned(), outcome, verdict, before: x, after: y }
        };
        let roles: Vec<RoleChange> = feeds.into_iter().map(role).collect();
        let (outcome, verdict) = overall(&a, &b, &roles);
        let ops = ops(before, after);
        Self { schema: "ingero-analyze-diff/1", outcome, verdict, before: a, after: b, roles, causes, ops }
    }

    /// The comparison as one JSON document.
    ///
    /// # Errors
    /// When a document cannot be made of it, which nothing should bring about.
    pub fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }
}

#[expect(clippy::cast_precision_loss, reason = "shares and rates are for comparing and showing")]
fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// The names of the processes that feed a GPU in phases of this sort.
fn feeding<'a>(a: &'a Analysis, of: impl Fn(&PhaseFigures) -> bool) -> BTreeSet<&'a str> {
    let phases = a.phases.iter().filter(|p| feeds(p) && of(p));
    phases.map(|p| a.name(p.phase.process)).collect()
}

/// The same of those of which the source kept a sample, warm-up or not: a sample may have no more than one round.
fn feeding_a_sample<'a>(a: &'a Analysis) -> BTreeSet<&'a str> {
    let phases = a.phases.iter().filter(|p| p.phase.sample.is_some() && p.phase.submissions > 0);
    phases.map(|p| a.name(p.phase.process)).collect()
}

/// Whether a GPU is fed in a phase, as far as that is compared.
fn feeds(p: &PhaseFigures) -> bool {
    !p.phase.warm_up && p.phase.submissions > 0
}

fn side(a: &Analysis, other: &Analysis, common: &BTreeSet<&str>) -> Side {
    let [sampled, in_other] = [a, other].map(feeding_a_sample);
    let owned = |name: &&str| (*name).to_owned();
    let alone = feeding(a, |_| true);
    let alone = alone.iter().filter(|name| !common.contains(**name) && !sampled.contains(**name));
    let alone = alone.filter(|name| !in_other.contains(**name)).map(owned).collect();
    let feed = feed(a, |name| common.is_empty() || common.contains(name));
    let sampled_roles = sampled.iter().map(owned).collect();
    Side { file: a.trace.path().to_owned(), feed, sampled: a.sampled(), alone, sampled_roles, caveats: a.caveats() }
}

/// How busy the GPU was in so much time of these phases, where that is known of nine tenths of it.
fn busy<'a>(phases: impl Iterator<Item = &'a PhaseFigures>, wall_ns: u64) -> Option<Busy> {
    let (mut known_ns, mut busy_ns) = (0_u64, 0_u128);
    let mut all = Busy { len_ns: wall_ns, ..Busy::default() };
    for (p, busy) in phases.filter_map(|p| Some((p, p.busy?))) {
        known_ns = known_ns.saturating_add(p.phase.len_ns());
        busy_ns += u128::from(p.phase.len_ns()) * u128::from(busy.percent);
        all.samples = all.samples.saturating_add(busy.samples);
        all.devices = all.devices.max(busy.devices);
        for (sum, of) in [
            (&mut all.idle_ns, busy.idle_ns),
            (&mut all.told_ns, busy.told_ns),
            (&mut all.unqueued_ns, busy.unqueued_ns),
        ] {
            *sum = sum.saturating_add(of);
        }
    }
    let percent = u64::try_from(busy_ns.checked_div(u128::from(known_ns))?).unwrap_or(100);
    // What no sample tells of counts as idle, as it does within a phase.
    let idle_ns = all.idle_ns.saturating_add(wall_ns.saturating_sub(known_ns));
    (u128::from(known_ns) * 10 >= u128::from(wall_ns) * 9).then_some(Busy { percent, idle_ns, ..all })
}

fn feed(a: &Analysis, wanted: impl Fn(&str) -> bool) -> Feed {
    // Of several hosts those count whose sources kept all events, where there are any.
    let all_sampled = a.sampled.all();
    let counts = |id: ProcessId| (all_sampled || !a.sampled_of(id)) && wanted(a.name(id));
    let phases = || a.phases.iter().filter(|p| feeds(p) && counts(p.phase.process));
    let wall_ns = crate::sum(phases().map(|p| p.phase.len_ns()));
    let known = |n: u64| (!all_sampled).then_some(n);
    let submissions = known(crate::sum(phases().map(|p| p.phase.submissions)));
    let asked_ns = crate::sum(phases().map(|p| p.phase.asked_ns()));
    // Where events were lost in all of it, gaps are not none but unknown.
    let unclaimed = wall_ns > 0 && phases().all(PhaseFigures::is_unclaimed);
    let gaps_ns = known(crate::sum(phases().map(|p| p.phase.gaps_ns()))).filter(|_| !unclaimed);
    let incidents = a.incidents.iter().filter(|i| counts(i.process));
    let waits = known(crate::sum(phases().map(|p| p.waits.count)));
    let ids: BTreeSet<ProcessId> = phases().map(|p| p.phase.process).collect();
    let launches = |of: &dyn Fn(Layer) -> bool| {
        let ops = ids.iter().flat_map(|&id| a.ops(id));
        let wanted = |func| a.trace.function(func).is_some_and(|f| f.class == Class::Launch && of(f.layer));
        crate::sum(ops.filter(|(func, _)| wanted(*func)).map(|(_, op)| op.count()))
    };
    let graphs = known(launches(&|layer| layer == Layer::Graph)).and_then(|graphs| ratio(graphs, launches(&|_| true)));
    Feed {
        wall_ns,
        gaps_ns,
        fed: gaps_ns.and_then(|gaps_ns| ratio(asked_ns.saturating_sub(gaps_ns), asked_ns)),
        fed_at_most: phases().any(|p| a.fed_at_most(p)),
        busy: busy(phases(), wall_ns),
        submissions,
        ns_per_submission: submissions.and_then(|n| wall_ns.checked_div(n)),
        graphs,
        ns_per_wait: waits.and_then(|n| wall_ns.checked_div(n)),
        lost_ns: crate::sum(incidents.map(|i| i.lost_ns)),
    }
}

/// What one run lost to a cause.
#[derive(Debug, Clone, Copy, Default)]
struct Lost {
    ns: u64,
    /// Of that, what counts as fed.
    fed_ns: u64,
    /// Of that, what it may have been at most.
    at_most_ns: u64,
    /// Whether any of its phases has an incident of it.
    told: bool,
}

fn causes(before: &Analysis, after: &Analysis, roles: &[(&str, Feed, Feed)]) -> Vec<CauseChange> {
    let mut found: BTreeMap<(&str, &'static str), (&'static str, [Lost; 2])> = BTreeMap::new();
    for (run, analysis) in [before, after].into_iter().enumerate() {
        // What is too small to be told of one run is what is left of a cause of the other.
        let all = analysis.incidents.iter().chain(&analysis.minor);
        for i in all.filter(|i| !analysis.sampled_of(i.process)) {
            let key = (analysis.name(i.process), i.kind);
            let (_, lost) = found.entry(key).or_insert((i.cause, [Lost::default(); 2]));
            if let Some(lost) = lost.get_mut(run) {
                lost.ns = lost.ns.saturating_add(i.lost_ns);
                lost.fed_ns = lost.fed_ns.saturating_add(i.fed_ns);
                lost.at_most_ns = lost.at_most_ns.saturating_add(if i.at_most { i.lost_ns } else { 0 });
                lost.told |= !i.minor;
            }
        }
    }
    found.retain(|_, (_, lost)| lost.iter().any(|l| l.told));
    let change = |((process, kind), (cause, [before, after])): ((&str, &'static str), (&'static str, [Lost; 2]))| {
        let (before_ns, after_ns) = (before.ns, after.ns);
        // What a role lost that the other run does not have is not compared with nothing.
        let (_, a, b) = roles.iter().find(|(name, ..)| *name == process)?;
        let share = |ns: u64, feed: &Feed| ratio(ns, feed.wall_ns).unwrap_or(0.0);
        let (before_share, after_share) = (share(before_ns, a), share(after_ns, b));
        let (process, kind, cause) = (process.to_owned(), kind.to_owned(), cause.to_owned());
        Some(CauseChange {
            process,
            kind,
            cause,
            before_ns,
            after_ns,
            before_share,
            after_share,
            before_at_most: crate::report::matters(before.at_most_ns, before_ns),
            after_at_most: crate::report::matters(after.at_most_ns, after_ns),
            before_fed_ns: before.fed_ns,
            after_fed_ns: after.fed_ns,
        })
    };
    let mut causes: Vec<_> = found.into_iter().filter_map(change).collect();
    let size = |c: &CauseChange| (c.before_share - c.after_share).abs();
    causes.sort_by(|x, y| size(y).total_cmp(&size(x)));
    causes
}

/// What a piece of the work took before and after, and what is taken for one. Of a graph nobody knows how many launches it
/// stands for; how often a program waits for its device is the same before and after it makes use of graphs.
fn pace(a: &Feed, b: &Feed) -> Option<(&'static str, u64, u64)> {
    let apart = (a.graphs.unwrap_or(0.0) - b.graphs.unwrap_or(0.0)).abs();
    let (of, before, after) = if apart < CHANGE {
        ("a submission", a.ns_per_submission, b.ns_per_submission)
    } else {
        ("a wait for the device", a.ns_per_wait, b.ns_per_wait)
    };
    Some((of, before?, after?))
}

fn outcome(a: &Feed, b: &Feed) -> Outcome {
    let (Some(fed_a), Some(fed_b)) = (a.fed, b.fed) else { return Outcome::Unknown };
    let pace = pace(a, b).and_then(|(_, before, after)| ratio(after, before)).map_or(0.0, |ratio| ratio - 1.0);
    // The pace is what counts; how well the GPU is fed decides where it hardly changed. What is no more than a bound decides nothing, nor
    // does what the host did beside a device that had work queued in both.
    let queued = |feed: &Feed| feed.busy.is_some_and(|busy| busy.idle_beside_queue_ns().is_some());
    let says_nothing = a.fed_at_most || b.fed_at_most || (queued(a) && queued(b));
    match (pace, fed_b - fed_a) {
        (pace, _) if pace <= -CHANGE => Outcome::Better,
        (pace, _) if pace >= CHANGE => Outcome::Worse,
        _ if says_nothing => Outcome::Same,
        (_, fed) if fed >= CHANGE => Outcome::Better,
        (_, fed) if fed <= -CHANGE => Outcome::Worse,
        _ => Outcome::Same,
    }
}

fn percent(share: f64) -> String {
    format!("{} %", crate::report::percent(share))
}

/// What became of all roles, and one line that says so.
fn overall(a: &Side, b: &Side, roles: &[RoleChange]) -> (Outcome, String) {
    if let Some(side) = [a, b].into_iter().find(|side| side.feed.submissions.is_none()) {
        let file = crate::printable(&side.file);
        let why = "is a sample, which does not tell how its GPU was fed";
        return (Outcome::Unknown, format!("nothing can be compared: {file} {why}"));
    }
    if let Some(side) = [a, b].into_iter().find(|side| side.feed.fed.is_none()) {
        let file = crate::printable(&side.file);
        // Something was submitted, and no time of it is claimed.
        let why = match side.feed.submissions {
            _ if !side.sampled_roles.is_empty() => {
                "has no more than a sample of what feeds a GPU, which does not tell how that was fed"
            }
            Some(n) if n > 0 => "lost events in all its time, and does not tell how its GPU was fed",
            _ => "shows no GPU being fed",
        };
        return (Outcome::Unknown, format!("nothing can be compared: {file} {why}"));
    }
    let names = |list: &[String]| list.iter().map(|name| crate::printable(name)).collect::<Vec<_>>().join(", ");
    let is = |outcome| roles.iter().any(|r| r.outcome == outcome);
    let outcome = match (is(Outcome::Better), is(Outcome::Worse), is(Outcome::Same)) {
        (true, true, _) => Outcome::Mixed,
        (true, false, _) => Outcome::Better,
        (false, true, _) => Outcome::Worse,
        (false, false, true) => Outcome::Same,
        (false, false, false) => Outcome::Unknown,
    };
    let mut verdict = match roles {
        [] => {
            let (x, y) = (names(&a.alone), names(&b.alone));
            let why = "no process of one name feeds a GPU in both";
            let [x, y] = [(x, a), (y, b)].map(|(alone, side)| match side.sampled_roles.is_empty() {
                true => alone,
                false if alone.is_empty() => format!("a sample of {}", names(&side.sampled_roles)),
                false => format!("{alone} and a sample of {}", names(&side.sampled_roles)),
            });
            return (outcome, format!("nothing can be compared: {why}, before it is {x}, after {y}"));
        }
        [one] => one.verdict.clone(),
        // The roles' own verdicts follow.
        several => {
            let each = several.iter().map(|r| format!("{} {}", crate::printable(&r.process), head(r.outcome)));
            format!("{}: {}", head(outcome), each.collect::<Vec<_>>().join(", "))
        }
    };
    for (when, side) in [("before", a), ("after", b)].into_iter().filter(|(_, side)| !side.alone.is_empty()) {
        verdict += &format!("; not compared, since it is only {when}: {}", names(&side.alone));
    }
    for (when, side) in [("before", a), ("after", b)].into_iter().filter(|(_, side)| !side.sampled_roles.is_empty()) {
        let why = format!("since its source kept a sample {when}");
        verdict += &format!("; not compared, {why}: {}", names(&side.sampled_roles));
    }
    (outcome, verdict)
}

fn head(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Better => "better",
        Outcome::Worse => "worse",
        Outcome::Mixed => "mixed",
        Outcome::Same => "no difference",
        Outcome::Unknown => "unknown",
    }
}

/// How well a GPU was fed, as a sentence has it: `83 %`, `at most 83 %`, `20 % (and busy 97 %)`.
fn fed(feed: &Feed, share: f64) -> String {
    let most = if feed.fed_at_most { "at most " } else { "" };
    let busy = feed.busy.filter(|busy| busy.is_beyond(share));
    let busy = busy.map_or(String::new(), |busy| format!(" (and busy {} %)", busy.percent));
    format!("{most}{}{busy}", percent(share))
}

/// What became of one role; its cause with the largest change.
fn verdict(outcome: Outcome, a: &Feed, b: &Feed, cause: Option<&CauseChange>) -> String {
    let head = head(outcome);
    let (Some(fed_a), Some(fed_b)) = (a.fed, b.fed) else {
        return format!("{head}: of one of the two too many events were lost to tell how its GPU was fed");
    };
    let pace = pace(a, b);
    let pace =
        pace.map_or(String::new(), |(of, x, y)| format!(", {} for {of} after {} before", duration(y), duration(x)));
    let gone = cause.filter(|c| (c.before_share - c.after_share).abs() >= CHANGE).map(|c| {
        // That what is hardly there is even less says nothing.
        let share = |at_most, share| crate::report::most(at_most && share >= LEAST, &percent(share));
        let (x, y) = (share(c.before_at_most, c.before_share), share(c.after_at_most, c.after_share));
        let matters = crate::report::matters;
        let fed = if matters(c.before_fed_ns, c.before_ns) || matters(c.after_fed_ns, c.after_ns) {
            ", some of it counted as fed"
        } else {
            ""
        };
        match c.after_ns {
            0 => format!("; {} is gone ({x} of the time before{fed})", c.kind),
            _ if c.before_ns == 0 => format!("; {} is new ({y} of the time{fed})", c.kind),
            _ => format!("; {} took {y} of the time after {x} before{fed}", c.kind),
        }
    });
    let gone = gone.unwrap_or_default();
    format!("{head}: GPU fed {} of the time after {} before{pace}{gone}", fed(b, fed_b), fed(a, fed_a))
}

fn ops(before: &Analysis, after: &Analysis) -> Vec<OpChange> {
    type Key = (String, ingero_format::catalog::Layer, String);
    /// Count, sum and worst percentile of one run.
    type Sums = Option<(u64, u64, Option<u64>)>;
    let mut found: BTreeMap<Key, ([Sums; 2], u64)> = BTreeMap::new();
    for (run, a) in [before, after].into_iter().enumerate() {
        for id in a.active() {
            for (func, op) in a.ops(id) {
                let Some(info) = a.trace.function(func) else { continue };
                // A sample has its own totals, and no percentiles.
                let totals = a.figures(id).totals.as_ref().and_then(|t| t.ops.get(&func));
                let (op_count, op_sum) = match totals {
                    Some(t) => (t.count, t.sum_ns.unwrap_or(0)),
                    None if a.sampled_of(id) => continue,
                    None => (op.count(), op.sum_ns()),
                };
                let p99 = op.percentile_ns(99).filter(|_| !a.sampled_of(id));
                let key = (role(a, id), info.layer, info.symbol.clone());
                let (sides, total) = found.entry(key).or_default();
                if let Some(side) = sides.get_mut(run) {
                    let (count, sum, worst) = side.unwrap_or_default();
                    *side = Some((count.saturating_add(op_count), sum.saturating_add(op_sum), worst.max(p99)));
                }
                *total = total.saturating_add(op_sum);
            }
        }
    }
    let mut found: Vec<_> = found.into_iter().collect();
    found.sort_by(|(x, (_, a)), (y, (_, b))| b.cmp(a).then_with(|| x.cmp(y)));
    let side = |s: Sums| s.map(|(count, sum, p99_ns)| OpSide { count, mean_ns: sum.checked_div(count), p99_ns });
    let change = |((process, layer, name), (sides, _)): (Key, ([Sums; 2], u64))| {
        let [before, after] = sides.map(side);
        OpChange { process, layer: layer.name(), name, before, after }
    };
    found.into_iter().map(change).collect()
}

/// What a process is for, whatever its id: its name.
fn role(a: &Analysis, id: ProcessId) -> String {
    let submits = |class| matches!(class, Class::Launch | Class::Copy);
    let feeds = a.ops(id).iter().any(|(func, _)| a.trace.function(*func).is_some_and(|f| submits(f.class)));
    let name = a.name(id);
    if feeds { name.to_owned() } else { format!("{name} (no submissions)") }
}

#[cfg(test)]
mod tests;
