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

use crate::Analysis;
use crate::report::duration;
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
    /// Whether the recording is a sample.
    pub sampled: bool,
    /// Roles that feed a GPU in this run alone.
    pub alone: Vec<String>,
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
        let common: BTreeSet<&str> = feeding(before).intersection(&feeding(after)).copied().collect();
        let (a, b) = (side(before, &common), side(after, &common));
        // Half of a comparison would be a claim: with a sample there is none.
        let known: Vec<&str> = common.into_iter().filter(|_| !a.sampled && !b.sampled).collect();
        let feeds = known.into_iter().map(|name| (name, feed(before, |n| n == name), feed(after, |n| n == name)));
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

/// The names of the processes that feed a GPU.
fn feeding<'a>(a: &'a Analysis) -> BTreeSet<&'a str> {
    let phases = a.phases.iter().filter(|p| !p.phase.warm_up && p.phase.submissions > 0);
    phases.map(|p| a.name(p.phase.process)).collect()
}

fn side(a: &Analysis, common: &BTreeSet<&str>) -> Side {
    let alone = feeding(a).difference(common).map(|&name| name.to_owned()).collect();
    let feed = feed(a, |name| common.is_empty() || common.contains(name));
    Side { file: a.trace.path().to_owned(), feed, sampled: a.sampled(), alone, caveats: a.caveats() }
}

fn feed(a: &Analysis, wanted: impl Fn(&str) -> bool) -> Feed {
    let of = |p: &&crate::PhaseFigures| !p.phase.warm_up && p.phase.submissions > 0 && wanted(a.name(p.phase.process));
    let phases = || a.phases.iter().filter(of);
    let wall_ns = crate::sum(phases().map(|p| p.phase.len_ns()));
    let known = |n: u64| (!a.sampled()).then_some(n);
    let submissions = known(crate::sum(phases().map(|p| p.phase.submissions)));
    let asked_ns = crate::sum(phases().map(|p| p.phase.asked_ns()));
    // Where events were lost in all of it, gaps are not none but unknown.
    let unclaimed = wall_ns > 0 && phases().all(crate::PhaseFigures::is_unclaimed);
    let gaps_ns = known(crate::sum(phases().map(|p| p.phase.gaps_ns()))).filter(|_| !unclaimed);
    let incidents = a.incidents.iter().filter(|i| wanted(a.name(i.process)));
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
        for i in analysis.incidents.iter().chain(&analysis.minor) {
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
    // The pace is what counts; how well the GPU is fed decides where it hardly changed.
    match (pace, fed_b - fed_a) {
        (pace, _) if pace <= -CHANGE => Outcome::Better,
        (pace, _) if pace >= CHANGE => Outcome::Worse,
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
    if let Some(side) = [a, b].into_iter().find(|side| side.sampled) {
        let file = crate::printable(&side.file);
        let why = "is a sample, which does not tell how its GPU was fed";
        return (Outcome::Unknown, format!("nothing can be compared: {file} {why}"));
    }
    if let Some(side) = [a, b].into_iter().find(|side| side.feed.fed.is_none()) {
        let file = crate::printable(&side.file);
        // Something was submitted, and no time of it is claimed.
        let why = match side.feed.submissions {
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
        let fed = |fed_ns, ns| crate::report::matters(fed_ns, ns);
        let fed = if fed(c.before_fed_ns, c.before_ns) || fed(c.after_fed_ns, c.after_ns) {
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
    format!("{head}: GPU fed {} of the time after {} before{pace}{gone}", percent(fed_b), percent(fed_a))
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
mod tests {
    use super::*;
    use ingero_format::catalog::TaskId;
    use ingero_replay::Window;
    use ingero_replay::fixture::Fixture;

    const MS: u64 = 1_000_000;

    /// A launch each 20 ms; between them the main thread runs for this long and sleeps otherwise.
    fn run(pid: u32, busy_ms: u64, period_ms: u64) -> ingero_format::Trace {
        fixture(pid, None, busy_ms, period_ms).finish()
    }

    fn fixture(pid: u32, name: Option<&str>, busy_ms: u64, period_ms: u64) -> Fixture {
        let mut f = Fixture::new();
        runs(&mut f, (0, pid), name, busy_ms, period_ms);
        f
    }

    fn runs(f: &mut Fixture, (cpu, pid): (u32, u32), name: Option<&str>, busy_ms: u64, period_ms: u64) {
        let main = f.task(pid, pid);
        if let Some(name) = name {
            let name = f.writer().string(name);
            f.push(0, 0, ingero_format::catalog::Name { task: main, name, source: 0 });
        }
        let launch = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
        let sync = f.func("cudaStreamSynchronize", Layer::Runtime, Class::Sync);
        f.switch(0, cpu, TaskId(0), 0, main);
        for i in 0..20 {
            let at = MS + i * period_ms * MS;
            f.call(at, cpu, main, launch, 10_000);
            f.call(at + 20_000, cpu, main, sync, (period_ms - busy_ms) * MS);
        }
        f.switch(900 * MS, cpu, main, 1, TaskId(0));
    }

    fn diff(a: &ingero_format::Trace, b: &ingero_format::Trace) -> Diff {
        Diff::new(&Analysis::new(a, Window::whole(a)), &Analysis::new(b, Window::whole(b)))
    }

    #[test]
    fn a_fix_is_better_its_undoing_worse_and_the_same_run_the_same() {
        let (slow, fast) = (run(10, 18, 20), run(77, 1, 3));
        let d = diff(&slow, &fast);
        assert_eq!(d.outcome, Outcome::Better);
        assert!(d.verdict.starts_with("better: GPU fed "), "{}", d.verdict);
        // Matched by role, though the ids differ.
        assert_eq!(d.causes.len(), 1, "{:?}", d.causes);
        assert!(d.causes[0].before_share > 0.8 && d.causes[0].after_share < 0.4, "{:?}", d.causes);
        assert_eq!(d.ops.len(), 2);
        assert!(d.ops.iter().all(|op| op.before.is_some() && op.after.is_some()));
        assert_eq!(diff(&fast, &slow).outcome, Outcome::Worse);
        let same = diff(&slow, &slow);
        assert_eq!(same.outcome, Outcome::Same);
        assert!(same.verdict.starts_with("no difference"), "{}", same.verdict);
    }

    /// What is left of a cause is told, however little; nothing is told as nothing.
    #[test]
    fn a_cause_that_is_hardly_there_is_not_told_as_gone() {
        let gaps_of = |gap_ns: u64| {
            let mut f = Fixture::new();
            let main = f.task(10, 10);
            let launch = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
            let sync = f.func("cudaStreamSynchronize", Layer::Runtime, Class::Sync);
            f.switch(0, 0, TaskId(0), 0, main);
            for i in 0..20 {
                let at = MS + i * 20 * MS;
                f.call(at, 0, main, launch, 10_000);
                f.call(at + 20_000, 0, main, sync, 20 * MS - 20_000 - gap_ns);
            }
            f.switch(900 * MS, 0, main, 1, TaskId(0));
            f.finish()
        };
        let (slow, hardly, none) = (gaps_of(16 * MS), gaps_of(90_000), gaps_of(20_000));
        let row = |before: &ingero_format::Trace, after: &ingero_format::Trace| {
            let d = diff(before, after);
            let text = text(&d, false, 100);
            let row = text.lines().find(|l| l.starts_with("busy-main")).unwrap();
            let row = row.split_whitespace().skip(2).collect::<Vec<_>>().join(" ");
            (row, d.verdict.rsplit("; ").next().unwrap().to_owned(), markdown(&d))
        };
        let (cells, verdict, pasted) = row(&slow, &hardly);
        assert_eq!(cells, "304 ms (79 %) less than 1 %");
        assert_eq!(verdict, "busy-main took less than 1 % of the time after 79 % before");
        assert!(pasted.contains("| 304 ms (79 %) | less than 1 % |"), "{pasted}");
        let (cells, verdict, _) = row(&slow, &none);
        assert_eq!(
            (cells.as_str(), verdict.as_str()),
            ("304 ms (79 %) -", "busy-main is gone (79 % of the time before)")
        );
        // Of what is small in both there is no row.
        assert!(diff(&hardly, &hardly).causes.is_empty());
    }

    /// Twenty steps of launches, or of a graph in their place, each with a wait for the device.
    fn steps(launches: u64, symbol: &str, layer: Layer, period_ns: u64) -> ingero_format::Trace {
        let mut f = Fixture::new();
        let main = f.task(10, 10);
        let launch = f.func(symbol, layer, Class::Launch);
        let sync = f.func("cudaStreamSynchronize", Layer::Runtime, Class::Sync);
        f.switch(0, 0, TaskId(0), 0, main);
        for step in 0..20 {
            let at = MS + step * period_ns;
            (0..launches).for_each(|i| f.call(at + i * 6_000, 0, main, launch, 5_000));
            f.call(at + launches * 6_000, 0, main, sync, period_ns - launches * 6_000 - 20_000);
        }
        f.switch(900 * MS, 0, main, 1, TaskId(0));
        f.finish()
    }

    #[test]
    fn a_graph_in_place_of_launches_is_judged_by_what_a_step_takes() {
        let eager = steps(300, "cudaLaunchKernel", Layer::Runtime, 2 * MS);
        let graph = steps(1, "cudaGraphLaunch", Layer::Graph, MS);
        let d = diff(&eager, &graph);
        // A submission takes far longer, a step half as long.
        assert!(d.after.feed.ns_per_submission > d.before.feed.ns_per_submission, "{d:?}");
        assert_eq!(d.outcome, Outcome::Better, "{}", d.verdict);
        assert!(d.verdict.contains("for a wait for the device after 2.0"), "{}", d.verdict);
        assert_eq!(diff(&graph, &eager).outcome, Outcome::Worse);
        assert!(diff(&graph, &graph).verdict.contains("for a submission"));
    }

    /// Two roles beside each other, each with so long a busy part of each period.
    fn two_roles(train: (u64, u64), eval: (u64, u64)) -> ingero_format::Trace {
        let mut f = Fixture::new();
        runs(&mut f, (0, 10), Some("train"), train.0, train.1);
        runs(&mut f, (1, 20), Some("eval"), eval.0, eval.1);
        f.finish()
    }

    #[test]
    fn each_role_has_its_own_verdict_and_together_they_may_be_mixed() {
        let (slow, fast) = ((18, 20), (1, 3));
        let of = |before: ((u64, u64), (u64, u64)), after: ((u64, u64), (u64, u64))| {
            diff(&two_roles(before.0, before.1), &two_roles(after.0, after.1))
        };
        let mixed = of((slow, fast), (fast, slow));
        assert_eq!(mixed.outcome, Outcome::Mixed);
        assert_eq!(mixed.verdict, "mixed: eval worse, train better");
        let outcomes = |d: &Diff| d.roles.iter().map(|r| (r.process.clone(), r.outcome)).collect::<Vec<_>>();
        assert_eq!(outcomes(&mixed), [("eval".into(), Outcome::Worse), ("train".into(), Outcome::Better)]);
        // What each lost is its own: one cause each, the opposite of the other's.
        let causes: Vec<_> =
            mixed.causes.iter().map(|c| (c.process.as_str(), c.before_share > c.after_share)).collect();
        assert!(mixed.causes.iter().all(|c| c.kind == "busy-main"), "{:?}", mixed.causes);
        assert!(causes.contains(&("train", true)) && causes.contains(&("eval", false)), "{causes:?}");
        // Their verdicts follow, and the JSON says the same.
        let text = text(&mixed, false, 100);
        assert!(text.lines().any(|l| l.starts_with("eval: worse: GPU fed ")), "{text}");
        assert!(text.lines().any(|l| l.starts_with("train: better: GPU fed ")), "{text}");
        let json: serde_json::Value = serde_json::from_str(&mixed.json().unwrap()).unwrap();
        assert_eq!((&json["outcome"], &json["roles"][0]["outcome"]), (&"mixed".into(), &"worse".into()));
        // One that is better decides where the other is the same.
        let better = of((slow, slow), (fast, slow));
        assert_eq!(
            (better.outcome, better.verdict.as_str()),
            (Outcome::Better, "better: eval no difference, train better")
        );
        assert_eq!(of((slow, fast), (slow, fast)).outcome, Outcome::Same);
    }

    /// A source that does not tell throttling shows it as something else: whoever compares it is told so.
    #[test]
    fn each_side_says_what_it_cannot_show() {
        let quota = |tells: bool| {
            let mut f = fixture(10, None, 18, 20);
            if tells {
                let (other, idle) = (f.task(50, 50), TaskId(0));
                let out = ingero_format::catalog::Switch {
                    prev: other,
                    prev_state: 1,
                    prev_prio: None,
                    next: idle,
                    next_prio: None,
                    syscall: None,
                    throttled: Some(0),
                };
                f.switch(10 * MS, 3, idle, 0, other);
                f.push(11 * MS, 3, out);
            }
            f.finish()
        };
        let d = diff(&quota(false), &quota(true));
        let told = |side: &Side| side.caveats.iter().any(|c| c.contains("when a CPU quota held a thread back"));
        assert_eq!((told(&d.before), told(&d.after)), (true, false), "{d:?}");
        let text = text(&d, false, 100);
        let notes = text.lines().filter(|l| l.contains("when a CPU quota")).count();
        assert_eq!(notes, 1, "{text}");
    }

    fn named(pid: u32, name: &str, busy_ms: u64, period_ms: u64) -> ingero_format::Trace {
        fixture(pid, Some(name), busy_ms, period_ms).finish()
    }

    #[test]
    fn strangers_are_not_compared() {
        let (loader, stranger) = (named(10, "python3", 18, 20), named(77, "線程|x", 1, 3));
        let d = diff(&loader, &stranger);
        assert_eq!((d.outcome, d.roles.len(), d.causes.len()), (Outcome::Unknown, 0, 0), "{d:?}");
        assert!(d.verdict.starts_with("nothing can be compared: no process of one name"), "{}", d.verdict);
        assert!(d.verdict.ends_with("before it is python3, after 線程|x"), "{}", d.verdict);
        // The same function of both stands there twice, and whose it is.
        for width in [60, 72, 100] {
            let text = text(&d, false, width);
            for name in ["python3", "線程|x"] {
                let rows = text.lines().filter(|l| l.contains("cudaLaunchKernel") && l.contains(name));
                assert_eq!(rows.count(), 1, "{text}");
            }
            assert!(text.lines().all(|l| crate::report::columns_of(l) <= width), "{text}");
        }
        let pasted = markdown(&d);
        assert!(pasted.starts_with("**nothing can be compared"), "{pasted}");
        assert!(pasted.contains("\n| python3 | cudaLaunchKernel | 20 |"), "{pasted}");
        assert!(pasted.contains("\n| 線程\\|x | cudaLaunchKernel | - |"), "{pasted}");
        // One role in both: it is compared, and nothing else.
        let same = diff(&loader, &named(99, "python3", 1, 3));
        assert_eq!((same.outcome, same.roles.len()), (Outcome::Better, 1));
        assert!(markdown(&same).contains("### Time lost"), "{}", markdown(&same));
    }

    #[test]
    fn without_a_gpu_nothing_is_claimed() {
        let mut f = Fixture::new();
        let task = f.task(1, 1);
        f.switch(0, 0, TaskId(0), 0, task);
        let (empty, run) = (f.finish(), run(10, 18, 20));
        let d = diff(&run, &empty);
        assert_eq!(d.outcome, Outcome::Unknown);
        assert!(d.verdict.starts_with("nothing can be compared"), "{}", d.verdict);
        for width in 60..=100 {
            assert!(text(&d, false, width).lines().all(|l| l.chars().count() <= width), "{}", text(&d, false, width));
        }
    }
}
