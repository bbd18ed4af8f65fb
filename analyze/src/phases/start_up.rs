//! What a process does before it is under way: first steps that take far longer than the rest, and all that it does for the
//! first time.

use super::{STEPS, Span, Step, median};
use crate::feed::{Feed, First, Gap, STEP_FROM_NS};

/// Steps of a warm-up take so many times the median at least.
const WARM_UP: u64 = 3;

/// Parts the first steps from the first stretch where they take far longer than the rest.
pub(super) fn warm_up(spans: &mut Vec<Span>, steps: &[Step], feed: &Feed) {
    let Some(first) = spans.first().copied() else { return };
    let steps = steps.get(..steps.partition_point(|s| s.start_ns < first.end_ns)).unwrap_or_default();
    if steps.len() < 2 * STEPS || feed.submissions == 0 {
        return;
    }
    let Some(median) = median(steps) else { return };
    let slow = |s: &&Step| s.len_ns >= median.saturating_mul(WARM_UP);
    // Nor of its submissions: a step that has more of them is no first one, where pauses of a step's length are rare.
    let mut submissions = 0;
    let few = |s: &&Step| {
        submissions += s.submissions;
        submissions.saturating_mul(4) <= feed.recorded
    };
    let count = steps.iter().take(steps.len() / 4).take_while(slow).take_while(few).count();
    let Some(end_ns) = (count > 0).then(|| steps.get(count)).flatten().map(|s| s.start_ns) else { return };
    if end_ns > first.start_ns && end_ns < first.end_ns {
        spans.splice(0..1, [Span { end_ns, warm_up: true, ..first }, Span { start_ns: end_ns, ..first }]);
    }
}

/// A pause so long may be what the run is like, where there are few to compare it with.
const LONG_NS: u64 = 1_000_000_000;

/// The pauses of a feed before submissions that have nothing new about them, for each stretch with one number of workers:
/// what a process waits for its workers says nothing about what took it long before there were any.
pub(super) struct Usual(Vec<Pauses>);

struct Pauses {
    end_ns: u64,
    workers: usize,
    count: usize,
    median_ns: u64,
}

impl Usual {
    pub(super) fn of(feed: &Feed, populations: &[Span]) -> Self {
        let mut firsts = feed.firsts.iter().peekable();
        let mut lens = vec![Vec::new(); populations.len()];
        for gap in feed.gaps.iter().filter(|g| g.begins_step() && !g.unfinished) {
            while firsts.next_if(|f| f.before < u64::from(gap.before)).is_some() {}
            if firsts.peek().is_none_or(|f| f.before != u64::from(gap.before))
                && let Some(lens) = lens.get_mut(populations.partition_point(|s| s.end_ns <= gap.start_ns))
            {
                lens.push(gap.len_ns());
            }
        }
        let pauses = |(span, mut lens): (&Span, Vec<u64>)| {
            lens.sort_unstable();
            let median_ns = lens.get(lens.len() / 2).copied().unwrap_or(0);
            Pauses { end_ns: span.end_ns, workers: span.workers, count: lens.len(), median_ns }
        };
        Self(populations.iter().zip(lens).map(pauses).collect())
    }

    /// Whether what took so long is not how the run goes on: it takes far longer, or far less.
    fn is_unlike(&self, first: &First) -> bool {
        let at = self.0.partition_point(|p| p.end_ns <= first.start_ns);
        let (count, median_ns, workers) = self.0.get(at).map_or((0, 0, 0), |p| (p.count, p.median_ns, p.workers));
        let cost_ns = first.len_ns();
        let longer = cost_ns >= median_ns.saturating_mul(WARM_UP);
        let shorter = cost_ns.saturating_mul(WARM_UP) <= median_ns;
        // What takes as long while there are workers is a wait for their first batch.
        let compared = workers == 0 && (count == 0 || count >= 2 * STEPS);
        // The first kernel has its code loaded, and what a library sets up for it: that is done once, whatever steps take.
        let loads = first.kernel && workers == 0 && cost_ns < LONG_NS;
        shorter || loads || (longer && (cost_ns < LONG_NS || compared))
    }
}

/// Within so small a part of its submissions (one in a hundred) a process may still be coming up, however long it takes.
const COMING_UP: u64 = 100;

/// Long pauses among the first of a feed's submissions that are like none of the later ones: a library is imported, a model
/// is built, ranks find each other. That needs something later to be compared with.
fn coming_up(feed: &Feed) -> impl Iterator<Item = First> {
    let early = |g: &&Gap| u64::from(g.before).saturating_mul(COMING_UP) <= feed.recorded;
    let paused = |g: &&Gap| g.begins_step() && !g.unfinished;
    let (behind, behind_ns) = feed.behind;
    let known = feed.gaps.iter().skip_while(early).count() + behind;
    let later_ns = feed.gaps.iter().skip_while(early).map(Gap::len_ns).max().unwrap_or(0).max(behind_ns);
    let unlike = move |g: &&Gap| known >= 2 * STEPS && g.len_ns() >= later_ns.saturating_mul(WARM_UP);
    let first = |g: &Gap| First { start_ns: g.start_ns, end_ns: g.end_ns, before: u64::from(g.before), kernel: false };
    feed.gaps.iter().take_while(early).filter(paused).filter(unlike).map(first)
}

/// When a submission was over, with a wait that directly follows and is no longer than what is within a step: no gap begins before that.
fn with_its_wait(feed: &Feed, first: &First) -> u64 {
    let at = feed.gaps.partition_point(|gap| u64::from(gap.before) <= first.before);
    let next = feed.gaps.get(at).filter(|gap| u64::from(gap.before) == first.before + 1);
    let waited_ns = next.map(|gap| gap.start_ns).filter(|&ns| ns > first.end_ns);
    waited_ns.filter(|ns| ns - first.end_ns < STEP_FROM_NS).unwrap_or(first.end_ns)
}

/// Parts what a process does before it is under way from its first stretches: all until its first submission, and from
/// there on as long as most of the time goes to what it does for the first time (a kernel's code is loaded when it is
/// first launched, a library when it is first needed), a quarter of its submissions at most, or to pauses as it comes up.
pub(super) fn start_up(spans: &mut Vec<Span>, feed: &Feed, usual: &Usual, sliver_ns: u64) {
    let Some(fed_from_ns) = feed.fed_from_ns else { return };
    let unusual = feed.firsts.iter().map(|&first| (first, usual.is_unlike(&first), with_its_wait(feed, &first)));
    let pauses = coming_up(feed).map(|pause| (pause, true, pause.end_ns));
    let mut firsts: Vec<(First, bool, u64)> = unusual.chain(pauses).collect();
    firsts.sort_by_key(|(first, ..)| (first.before, first.end_ns));
    let mut end_ns = fed_from_ns;
    let mut new_ns = 0;
    let mut counted_ns = 0;
    for (first, unlike, until_ns) in firsts.iter().take_while(|(f, ..)| f.before.saturating_mul(4) <= feed.recorded) {
        // A pause, and the new thing that comes after it, are one stretch of time.
        let own_ns = first.end_ns.saturating_sub(first.start_ns.max(counted_ns));
        if *unlike {
            new_ns += own_ns;
            counted_ns = counted_ns.max(first.end_ns);
        }
        if new_ns.saturating_mul(2) >= first.end_ns.saturating_sub(fed_from_ns) {
            end_ns = end_ns.max(*until_ns);
        }
    }
    let Some(whole) = spans.first().copied() else { return };
    let under_way = spans.iter().take_while(|s| !s.silent);
    let (count, last_ns) = under_way.fold((0, whole.end_ns), |(count, _), s| (count + 1, s.end_ns));
    // What is left has to be worth a phase.
    if end_ns.saturating_add(sliver_ns) >= last_ns {
        // Where the process ends, or the range does, before it is under way there is nothing else.
        let cut = end_ns > fed_from_ns && feed.recorded > feed.submissions;
        let late = (fed_from_ns - whole.start_ns.min(fed_from_ns)).saturating_mul(2) > last_ns - whole.start_ns;
        if count == 0 {
            return;
        }
        if cut || late {
            spans.splice(..count, [Span { end_ns: last_ns, warm_up: true, ..whole }]);
            return;
        }
        // What it does for the first time is all that it does: only what comes before that is its start-up.
        end_ns = fed_from_ns;
    }
    let new_ns = end_ns.saturating_sub(whole.start_ns);
    if new_ns < sliver_ns {
        // So is the start-up itself, to be parted from what follows. But a first stretch that is as short (workers came
        // soon) and is start-up for the most part is nothing else.
        if spans.len() > 1
            && whole.len_ns() < sliver_ns
            && new_ns.saturating_mul(2) >= whole.len_ns()
            && let Some(first) = spans.first_mut()
        {
            first.warm_up = true;
        }
        return;
    }
    let end_ns = spans.iter().filter(|s| s.warm_up).fold(end_ns, |end, s| end.max(s.end_ns));
    spans.retain(|s| s.end_ns > end_ns.saturating_add(sliver_ns));
    if let Some(next) = spans.first_mut() {
        next.start_ns = end_ns;
    }
    spans.insert(0, Span { end_ns, warm_up: true, ..whole });
}
