//! Two rates that take turns: training and evaluation, epoch by epoch.
//!
//! A test for one lasting change does not find them, since each half has both. So the lengths of all pieces (of equally many
//! submissions, or steps) are told apart into short ones and long ones where that parts them best (Otsu's threshold, IEEE
//! Transactions on Systems, Man, and Cybernetics 9, 1979, on logarithms), and the likeliest course from the one to the other is
//! looked for (Viterbi's algorithm), in which a change has a price: a pause, or a step that takes longer, is none.
//!
//! A stretch of either has to last, to be one that a person would want apart: [`LEAST_NS`], and one part in [`PARTS`] of the
//! process's time, so that a report stays short. Where some last and some do not, the shorter ones stay with what is around
//! them. And its pieces have to be more than chance puts in a row where short and long ones are mixed anyhow.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A stretch lasts so long at least.
const LEAST_NS: u64 = 200_000_000;
/// And one part in so many of the process's time.
const PARTS: u64 = 40;
/// Pieces of a stretch at least.
const PIECES: usize = 6;
/// What a change costs, in pieces that are clearly the other's: a stretch of more than twice as many is told apart.
const CHANGE: f64 = 2.0;
/// Chance that so many pieces of one behaviour came in a row anywhere.
const CHANCE: f64 = 0.0001;
/// Pieces in a row of the rarer sort that make up for one of the other among them.
const FOREIGN: usize = 3;

/// How long a stretch has to last in a process of this length.
pub(super) fn least_ns(process_ns: u64) -> u64 {
    LEAST_NS.max(process_ns / PARTS)
}

/// The pieces with which the other of two rates begins, where they take turns at least twice; `lens_ns` are the pieces' lengths.
pub(super) fn changes(lens_ns: &[u64], least_ns: u64) -> Vec<usize> {
    if lens_ns.len() < 3 * PIECES || crate::sum(lens_ns.iter().copied()) < least_ns.saturating_mul(3) {
        return Vec::new();
    }
    #[expect(clippy::cast_precision_loss, reason = "logarithms of lengths")]
    let logs: Vec<f64> = lens_ns.iter().map(|&ns| (ns.max(1) as f64).ln()).collect();
    let Some(levels) = levels(&logs) else { return Vec::new() };
    let course = course(&logs, levels);
    let is_long: Vec<bool> = logs.iter().map(|log| log - levels.0 > levels.1 - log).collect();
    let rare = |long: bool| is_long.iter().filter(|&&l| l == long).count();
    let long_is_rare = rare(true) * 2 <= logs.len();
    let least_pieces = least_pieces(rare(long_is_rare), logs.len());
    let pieces = Pieces::new(lens_ns, &is_long);
    let lasts = |run: &Run| {
        let (all, least) = (run.to - run.from, if run.long == long_is_rare { least_pieces } else { PIECES });
        // Of the rarer sort a run is what is nearly pure.
        let foreign = if run.long == long_is_rare { all - pieces.of_sort(run) } else { 0 };
        all - foreign >= foreign.saturating_mul(FOREIGN).saturating_add(least) && pieces.len_ns(run) >= least_ns
    };
    let runs = lasting(runs_of(&course), &pieces, lasts);
    // One change that lasts is another test's.
    if runs.len() < 3 || !differ(&logs, &runs) {
        return Vec::new();
    }
    runs.iter().skip(1).map(|run| run.from).collect()
}

/// Pieces in a row of one sort, as the course has it.
#[derive(Debug, Clone, Copy)]
struct Run {
    long: bool,
    from: usize,
    to: usize,
}

fn runs_of(course: &[bool]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (at, &long) in course.iter().enumerate() {
        match runs.last_mut() {
            Some(run) if run.long == long => run.to = at + 1,
            _ => runs.push(Run { long, from: at, to: at + 1 }),
        }
    }
    runs
}

/// Sums over pieces, up to each.
struct Pieces {
    ns: Vec<u64>,
    long: Vec<usize>,
}

impl Pieces {
    fn new(lens_ns: &[u64], is_long: &[bool]) -> Self {
        let mut this = Self { ns: vec![0], long: vec![0] };
        let (mut ns, mut long) = (0_u64, 0);
        for (len_ns, is_long) in lens_ns.iter().zip(is_long) {
            ns = ns.saturating_add(*len_ns);
            long += usize::from(*is_long);
            this.ns.push(ns);
            this.long.push(long);
        }
        this
    }

    fn between<T: Copy + Default + std::ops::Sub<Output = T>>(sums: &[T], run: &Run) -> T {
        let at = |at: usize| sums.get(at).copied().unwrap_or_default();
        at(run.to) - at(run.from)
    }

    fn len_ns(&self, run: &Run) -> u64 {
        Self::between(&self.ns, run)
    }

    /// How many are by themselves of the sort that the run is of.
    fn of_sort(&self, run: &Run) -> usize {
        let long = Self::between(&self.long, run);
        if run.long { long } else { run.to - run.from - long }
    }
}

/// Gives the shortest run that does not last to those around it, until all last; fewer than three where none is left but one
/// change. There may be as many runs as steps.
fn lasting(runs: Vec<Run>, pieces: &Pieces, lasts: impl Fn(&Run) -> bool) -> Vec<Run> {
    let mut left = runs.len();
    // Runs in a chain, so that one that takes in its neighbours costs no more than that.
    let mut chain: Vec<(Run, Option<usize>, Option<usize>, bool)> = (0_usize..)
        .zip(runs)
        .map(|(at, run)| (run, at.checked_sub(1), Some(at + 1).filter(|&next: &usize| next < left), true))
        .collect();
    let place = |at: usize, run: &Run| Reverse((pieces.len_ns(run), run.from, run.to, at));
    let mut short: BinaryHeap<_> =
        chain.iter().enumerate().filter(|(_, c)| !lasts(&c.0)).map(|(at, c)| place(at, &c.0)).collect();
    while let Some(Reverse((_, from, to, at))) = short.pop() {
        let Some(&(run, before, behind, alive)) = chain.get(at) else { break };
        // It has grown, or is part of another one, since.
        if !alive || (run.from, run.to) != (from, to) {
            continue;
        }
        if left < 3 {
            return Vec::new();
        }
        let mut whole = Run { long: !run.long, ..run };
        let (mut first, mut last) = (before, behind);
        for (neighbour, is_before) in [(before, true), (behind, false)] {
            let Some(other) = neighbour.and_then(|n| chain.get_mut(n)) else { continue };
            other.3 = false;
            left -= 1;
            if is_before {
                (whole.from, first) = (other.0.from, other.1);
            } else {
                (whole.to, last) = (other.0.to, other.2);
            }
        }
        for (neighbour, is_before) in [(first, true), (last, false)] {
            if let Some(other) = neighbour.and_then(|n| chain.get_mut(n)) {
                if is_before {
                    other.2 = Some(at);
                } else {
                    other.1 = Some(at);
                }
            }
        }
        if let Some(own) = chain.get_mut(at) {
            *own = (whole, first, last, true);
        }
        if !lasts(&whole) {
            short.push(place(at, &whole));
        }
    }
    let mut runs: Vec<Run> = chain.into_iter().filter(|c| c.3).map(|c| c.0).collect();
    runs.sort_unstable_by_key(|run| run.from);
    runs
}

/// Whether the usual piece of the one is so many times as long as that of the other.
fn differ(logs: &[f64], runs: &[Run]) -> bool {
    let median = |long: bool| {
        let own = runs.iter().filter(|run| run.long == long).filter_map(|run| logs.get(run.from..run.to));
        middle(own.flatten().copied().collect())
    };
    median(true).zip(median(false)).is_some_and(|(long, short)| long - short >= super::DIFFERS)
}

fn middle(mut logs: Vec<f64>) -> Option<f64> {
    logs.sort_unstable_by(f64::total_cmp);
    logs.get(logs.len() / 2).copied()
}

/// The usual logarithms of short pieces and of long ones; none where they hardly differ.
fn levels(logs: &[f64]) -> Option<(f64, f64)> {
    let mut sorted = logs.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let all: f64 = sorted.iter().sum();
    let mut below = 0.0;
    let mut best = (0.0, 0);
    #[expect(clippy::cast_precision_loss, reason = "counts of pieces")]
    for (at, log) in sorted.iter().enumerate().take(sorted.len() - 1) {
        below += log;
        let (left, right) = ((at + 1) as f64, (sorted.len() - at - 1) as f64);
        let apart = below / left - (all - below) / right;
        let between = left * right * apart * apart;
        if between > best.0 {
            best = (between, at + 1);
        }
    }
    let (short, long) = sorted.split_at(best.1);
    let (short, long) = (short.get(short.len() / 2)?, long.get(long.len() / 2)?);
    (long - short >= super::DIFFERS).then_some((*short, *long))
}

/// Whether each piece belongs to the long ones, where each that is not like its own and each change has its price.
fn course(logs: &[f64], (short, long): (f64, f64)) -> Vec<bool> {
    let apart = long - short;
    let price = CHANGE * apart;
    // What the cheapest course costs that ends short, and long, and whether it changed to that with each piece.
    let mut costs = [0.0_f64; 2];
    let mut changed: Vec<[bool; 2]> = Vec::with_capacity(logs.len());
    for log in logs {
        let change = [costs[1] + price < costs[0], costs[0] + price < costs[1]];
        let from = [costs[0].min(costs[1] + price), costs[1].min(costs[0] + price)];
        // However far off, a piece is one piece.
        let own = [(log - short).abs().min(apart), (log - long).abs().min(apart)];
        costs = [from[0] + own[0], from[1] + own[1]];
        changed.push(change);
    }
    let mut state = usize::from(costs[1] < costs[0]);
    let mut course = vec![false; logs.len()];
    for (long, change) in course.iter_mut().zip(&changed).rev() {
        *long = state == 1;
        if change.get(state).copied().unwrap_or(false) {
            state = 1 - state;
        }
    }
    course
}

/// Pieces in a row that chance does not make of so many among all.
fn least_pieces(rare: usize, all: usize) -> usize {
    #[expect(clippy::cast_precision_loss, reason = "a probability")]
    let (share, all) = (rare as f64 / all.max(1) as f64, all as f64);
    let mut pieces = PIECES;
    let mut chance = all * share.powi(6);
    while chance >= CHANCE && pieces < usize::from(u8::MAX) {
        pieces += 1;
        chance *= share;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Lengths of pieces: so many of so many milliseconds each.
    fn of(parts: &[(usize, u64)]) -> Vec<u64> {
        parts.iter().flat_map(|&(count, ms)| vec![ms * MS; count]).collect()
    }

    /// A long job with an evaluation after each few steps: as many runs as there are of these.
    #[test]
    fn many_short_turns_take_no_longer_than_their_number() {
        let turns: Vec<_> = (0..100_000).flat_map(|_| [(4, 10), (4, 100)]).collect();
        assert_eq!(changes(&of(&turns), 40_000_000 * MS / 40), Vec::<usize>::new());
    }

    /// The same, run by run over all that are left.
    fn lasting_slowly(mut runs: Vec<Run>, pieces: &Pieces, lasts: impl Fn(&Run) -> bool) -> Vec<Run> {
        while let Some(at) = (0..runs.len()).filter(|&at| !lasts(&runs[at])).min_by_key(|&at| pieces.len_ns(&runs[at]))
        {
            if runs.len() < 3 {
                return Vec::new();
            }
            runs[at].long = !runs[at].long;
            let course: Vec<bool> = runs.iter().flat_map(|run| vec![run.long; run.to - run.from]).collect();
            runs = runs_of(&course);
        }
        runs
    }

    #[test]
    fn the_shortest_goes_first() {
        let mut seed = 7_u64;
        let mut next = move |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        let mut kept = 0;
        for _ in 0..500 {
            let turns: Vec<_> = (0..1 + next(60)).map(|_| (1 + next(9), next(2) == 0)).collect();
            let is_long: Vec<bool> =
                turns.iter().flat_map(|&(count, long)| vec![long; usize::try_from(count).unwrap()]).collect();
            let lens_ns: Vec<u64> = is_long.iter().map(|long| 1 + next(if *long { 1000 } else { 100 })).collect();
            let (pieces, least_ns) = (Pieces::new(&lens_ns, &is_long), 50 + next(2000));
            let lasts = |run: &Run| pieces.len_ns(run) >= least_ns;
            let brief = |runs: Vec<Run>| runs.iter().map(|r| (r.long, r.from, r.to)).collect::<Vec<_>>();
            let found = brief(lasting(runs_of(&is_long), &pieces, lasts));
            assert_eq!(found, brief(lasting_slowly(runs_of(&is_long), &pieces, lasts)), "{turns:?} {least_ns}");
            kept += usize::from(found.len() > 2);
        }
        assert!(kept > 50, "{kept}");
    }

    #[test]
    fn stretches_that_come_again_are_told_apart() {
        assert_eq!(changes(&of(&[(300, 4), (20, 50), (300, 4), (20, 50)]), 200 * MS), [300, 320, 620]);
        // As long ones mostly, too.
        assert_eq!(changes(&of(&[(20, 50), (60, 4), (20, 50), (60, 4), (20, 50)]), 200 * MS), [20, 80, 100, 160]);
    }

    #[test]
    fn one_behaviour_is_not_taken_apart() {
        assert_eq!(changes(&[5 * MS; 400], 200 * MS), Vec::<usize>::new());
        // Long pieces that come one by one, few at a time, or at random.
        let every = |n: u64, of: u64| (0..600).map(|at| if at % of < n { 50 * MS } else { 4 * MS }).collect::<Vec<_>>();
        for (n, of) in [(1, 10), (1, 2), (3, 30), (4, 8)] {
            assert_eq!(changes(&every(n, of), 200 * MS), Vec::<usize>::new(), "{n} of {of}");
        }
        for seed in 1..200_u64 {
            let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let mut random = || {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state
            };
            // Two lengths, of which either may be rare; and lengths over three decades.
            let rare = seed % 9 + 1;
            let two: Vec<u64> = (0..800).map(|_| if random() % 10 < rare { 50 * MS } else { 4 * MS }).collect();
            assert_eq!(changes(&two, 200 * MS), Vec::<usize>::new(), "seed {seed}");
            let spread: Vec<u64> = (0..800).map(|_| MS << (random() % 10)).collect();
            assert_eq!(changes(&spread, 200 * MS), Vec::<usize>::new(), "seed {seed}");
        }
    }

    #[test]
    fn what_does_not_last_stays_with_what_is_around_it() {
        let alternating = of(&[(300, 4), (8, 20), (300, 4), (8, 20), (300, 4)]);
        assert_eq!(changes(&alternating, 200 * MS), Vec::<usize>::new());
        assert_eq!(changes(&alternating, 100 * MS), [300, 308, 608, 616]);
        // One pause among them is one piece.
        let mut paused = of(&[(300, 4), (20, 50), (300, 4)]);
        paused[100] = 5_000 * MS;
        assert_eq!(changes(&paused, 200 * MS), [300, 320]);
        assert_eq!(least_ns(100_000 * MS), 2_500 * MS);
    }
}
