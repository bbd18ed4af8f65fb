//! Where a process goes over to another rate of submissions for good, whatever its pauses are like.
//!
//! A loop that submits back to back has few pauses of a step's length, or none: their rhythm says nothing of it. So the
//! submissions of a stretch are cut into pieces of equally many, and the time of each piece is compared with that of all
//! others. The test is Pettitt's (A non-parametric approach to the change-point problem, Applied Statistics 28, 1979): it
//! looks at nothing but which of two pieces took longer, so that a pause of minutes, which is in one piece, counts as one.
//! A boundary is where it finds less than one chance in a hundred that pieces of one behaviour came in that order, and the
//! usual piece on one side takes three times as long as on the other, as steps have to.

use std::cmp::Ordering;

use super::{Span, Step, turns};
use crate::feed::Gap;

/// Pieces of a stretch at most. With so many the test finds a side that has 7 % of the submissions.
const PIECES: u64 = 256;
/// The same where two rates may take turns, and that test is none.
const TURNS: u64 = 4096;
/// Pieces without which nothing is said.
const PIECES_FROM: usize = 16;
/// A piece of fewer submissions says more of each of them than of their rate.
const PIECE: u64 = 16;
/// Where there are so many steps, a piece holds one of the usual size at least: what alternates within a step is no change.
const STEPS_FROM: usize = 16;
/// Chance that pieces of one behaviour came in an order that is taken for two.
const CHANCE: f64 = 0.01;

/// Where in a stretch, with these steps, the rate changes: begins of gaps, in no order.
pub(super) fn changes(gaps: &[Gap], steps: &[Step], span: Span, (sliver_ns, least_ns): (u64, u64)) -> Vec<u64> {
    let first = gaps.partition_point(|g| g.start_ns < span.start_ns);
    let last = gaps.partition_point(|g| g.start_ns < span.end_ns);
    let mut cuts = Vec::new();
    let mut rest = (gaps.get(first..last).unwrap_or_default(), steps);
    for cut in turns(rest.0, steps, least_ns) {
        let (before, after) = rest.0.split_at(rest.0.partition_point(|g| g.start_ns < cut));
        let (steps_before, steps_after) = rest.1.split_at(rest.1.partition_point(|s| s.start_ns < cut));
        within(before, steps_before, sliver_ns, &mut cuts);
        cuts.push(cut);
        rest = (after, steps_after);
    }
    within(rest.0, rest.1, sliver_ns, &mut cuts);
    cuts
}

/// Where two rates take turns: begins of gaps, in order.
fn turns(gaps: &[Gap], steps: &[Step], least_ns: u64) -> Vec<u64> {
    let Some(size) = piece(gaps, steps, TURNS) else { return Vec::new() };
    let edges = edges(gaps, size);
    let begins = |at: usize| edges.get(at).and_then(|&at| gaps.get(at)).map_or(0, |g| g.start_ns);
    let lens: Vec<u64> = (1..edges.len()).map(|at| begins(at) - begins(at - 1)).collect();
    let changes = turns::changes(&lens, least_ns);
    let exact = |&at: &usize| {
        let (left, right) = (lens.get(at.checked_sub(3)?..at)?, lens.get(at..at + 3)?);
        let (from, to) = (edges.get(at - 1).copied()?, edges.get(at + 1).copied()?);
        #[expect(clippy::cast_precision_loss, reason = "rates")]
        let rate = |lens: &[u64]| size as f64 / median(lens) as f64;
        let cut = from + likeliest(gaps.get(from..to)?, (rate(left), rate(right)));
        Some(gaps.get(cut)?.start_ns)
    };
    changes.iter().filter_map(exact).collect()
}

fn within(gaps: &[Gap], steps: &[Step], sliver_ns: u64, cuts: &mut Vec<u64>) {
    let Some(size) = piece(gaps, steps, PIECES) else { return };
    let edges = edges(gaps, size);
    let begins = |at: usize| edges.get(at).and_then(|&at| gaps.get(at)).map_or(0, |g| g.start_ns);
    let lens: Vec<u64> = (1..edges.len()).map(|at| begins(at) - begins(at - 1)).collect();
    if lens.len() < PIECES_FROM {
        return;
    }
    let Some((at, chance)) = pettitt(&lens) else { return };
    let (left, right) = lens.split_at(at);
    let (left_ns, right_ns) = (median(left), median(right));
    if chance >= CHANCE || !super::rates_differ((size, left_ns), (size, right_ns)) {
        return;
    }
    // The change itself is in one of the two pieces beside that edge.
    let (from, to) = (edges.get(at - 1).copied().unwrap_or(0), edges.get(at + 1).copied().unwrap_or(gaps.len()));
    let beside = gaps.get(from..to).unwrap_or_default();
    #[expect(clippy::cast_precision_loss, reason = "rates")]
    let rates = (size as f64 / left_ns as f64, size as f64 / right_ns as f64);
    let cut = from + likeliest(beside, rates);
    let (before, after) = gaps.split_at(cut);
    let (Some(first), Some(change), Some(last)) = (gaps.first(), after.first(), gaps.last()) else { return };
    // What lasts for a moment is no behaviour of its own.
    if change.start_ns - first.start_ns < sliver_ns || last.start_ns - change.start_ns < sliver_ns {
        return;
    }
    cuts.push(change.start_ns);
    let (steps_before, steps_after) = steps.split_at(steps.partition_point(|s| s.start_ns < change.start_ns));
    within(before, steps_before, sliver_ns, cuts);
    within(after, steps_after, sliver_ns, cuts);
}

/// The usual rate of a stretch outside of a part of it: submissions and nanoseconds of the median piece. None where there is
/// too little of it to tell.
pub(super) fn usual(gaps: &[Gap], steps: &[Step], span: Span, part: (u64, u64)) -> Option<(u64, u64)> {
    let first = gaps.partition_point(|g| g.start_ns < span.start_ns);
    let last = gaps.partition_point(|g| g.start_ns < span.end_ns);
    let gaps = gaps.get(first..last)?;
    let size = piece(gaps, steps, PIECES)?;
    let begins: Vec<u64> = edges(gaps, size).into_iter().filter_map(|at| gaps.get(at)).map(|g| g.start_ns).collect();
    let outside = |p: &[u64]| matches!(*p, [from, to] if to <= part.0 || from >= part.1);
    let lens: Vec<u64> =
        begins.windows(2).filter(|p| outside(p)).filter_map(|p| Some(p.last()? - p.first()?)).collect();
    (lens.len() >= PIECES_FROM).then(|| (size, median(&lens)))
}

/// Submissions of a piece.
fn piece(gaps: &[Gap], steps: &[Step], pieces: u64) -> Option<u64> {
    let all = u64::from(gaps.last()?.before - gaps.first()?.before);
    let of_step = if steps.len() >= STEPS_FROM { all.div_ceil(steps.len() as u64) } else { 0 };
    Some(all.div_ceil(pieces).max(of_step).max(PIECE))
}

/// The gaps that pieces of so many submissions begin with, and the one that the last ends with.
fn edges(gaps: &[Gap], size: u64) -> Vec<usize> {
    let mut edges = Vec::new();
    let mut next = gaps.first().map_or(0, |g| u64::from(g.before));
    loop {
        let at = gaps.partition_point(|g| u64::from(g.before) < next);
        let Some(gap) = gaps.get(at) else { return edges };
        edges.push(at);
        next = u64::from(gap.before).saturating_add(size);
    }
}

/// The edge at which values change most, and how probable as much is where they do not, after Pettitt.
fn pettitt(values: &[u64]) -> Option<(usize, f64)> {
    let mut sum = 0_i64;
    let mut most = (0, 0);
    for (at, value) in values.iter().enumerate() {
        // What the value is below, less what it is above, of all: where it goes to the other side, each pair across changes.
        let signs = values.iter().map(|other| match value.cmp(other) {
            Ordering::Less => 1,
            Ordering::Equal => 0,
            Ordering::Greater => -1,
        });
        sum += signs.sum::<i64>();
        if at + 1 < values.len() && sum.unsigned_abs() > most.0 {
            most = (sum.unsigned_abs(), at + 1);
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "a probability")]
    let (k, n) = (most.0 as f64, values.len() as f64);
    (most.1 > 0).then(|| (most.1, 2.0 * (-6.0 * k * k / (n * n * n + n * n)).exp()))
}

fn median(lens: &[u64]) -> u64 {
    let mut lens = lens.to_vec();
    lens.sort_unstable();
    lens.get(lens.len() / 2).map_or(1, |&ns| ns.max(1))
}

/// The gap at which submissions likeliest go over from one rate to another, were each as likely at any moment.
fn likeliest(gaps: &[Gap], (left, right): (f64, f64)) -> usize {
    let Some(first) = gaps.first() else { return 0 };
    let mut best = (f64::NEG_INFINITY, 0);
    for (at, gap) in gaps.iter().enumerate() {
        #[expect(clippy::cast_precision_loss, reason = "a likelihood")]
        let (count, ns) = (f64::from(gap.before - first.before), (gap.start_ns - first.start_ns) as f64);
        let likelihood = count * (left / right).ln() - (left - right) * ns;
        if likelihood > best.0 {
            best = (likelihood, at);
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_found_where_it_is_and_none_where_there_is_none() {
        let (at, chance) = pettitt(&[[10_u64; 30], [40; 30]].concat()).unwrap();
        assert_eq!(at, 30);
        assert!(chance < 1e-3, "{chance}");
        // One pause, however long, is one value among many.
        let mut values: Vec<u64> = (0..60).map(|n| 10 + n * 7 % 5).collect();
        values[3] = u64::MAX;
        let (_, chance) = pettitt(&values).unwrap();
        assert!(chance > 0.5, "{chance}");
        assert_eq!(pettitt(&[5; 20]), None);
        assert_eq!(pettitt(&[]), None);
    }
}
