//! Stretches of time as pairs of begin and end: in order, and apart from one another.

/// Stretches in order, those that touch as one.
pub(crate) fn joined(mut stretches: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    stretches.retain(|(from, to)| from < to);
    stretches.sort_unstable();
    let mut out: Vec<(u64, u64)> = Vec::new();
    for (from, to) in stretches {
        match out.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => out.push((from, to)),
        }
    }
    out
}

/// What two lists share.
pub(crate) fn common(a: &[(u64, u64)], b: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    let mut out = Vec::new();
    while let (Some(&&(a_from, a_to)), Some(&&(b_from, b_to))) = (a.peek(), b.peek()) {
        let (from, to) = (a_from.max(b_from), a_to.min(b_to));
        if to > from {
            out.push((from, to));
        }
        if a_to <= b_to {
            a.next();
        } else {
            b.next();
        }
    }
    out
}

/// What the first list has and the second has not.
pub(crate) fn without(a: &[(u64, u64)], b: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut out = Vec::new();
    let mut b = b.iter().peekable();
    for &(from, to) in a {
        let mut at = from;
        while let Some(&&(hole_from, hole_to)) = b.peek().filter(|hole| hole.0 < to) {
            if hole_from > at {
                out.push((at, hole_from));
            }
            at = at.max(hole_to);
            if hole_to > to {
                // It reaches into the next one.
                break;
            }
            b.next();
        }
        if at < to {
            out.push((at, to));
        }
    }
    out
}

/// How long they are together.
pub(crate) fn total_ns(stretches: &[(u64, u64)]) -> u64 {
    crate::sum(stretches.iter().map(|(from, to)| to - from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ingero_replay::fixture::Dice;

    #[test]
    fn stretches_that_touch_are_one() {
        assert_eq!(joined(vec![(5, 9), (1, 3), (3, 4), (8, 12), (7, 7)]), [(1, 4), (5, 12)]);
    }

    #[test]
    fn lists_are_what_their_instants_are() {
        let mut dice = Dice(7);
        for _ in 0..2_000 {
            let mut list = || joined((0..dice.below(6)).map(|_| (dice.below(40), dice.below(40))).collect());
            let (a, b) = (list(), list());
            let holds = |list: &[(u64, u64)], at: u64| list.iter().any(|&(from, to)| (from..to).contains(&at));
            let (both, rest) = (common(&a, &b), without(&a, &b));
            for at in 0..40 {
                assert_eq!(holds(&both, at), holds(&a, at) && holds(&b, at), "{a:?} {b:?} {at}");
                assert_eq!(holds(&rest, at), holds(&a, at) && !holds(&b, at), "{a:?} {b:?} {at}");
            }
            assert_eq!(total_ns(&both) + total_ns(&rest), total_ns(&a));
            assert!([&both, &rest].iter().all(|l| l.is_sorted() && l.iter().all(|(from, to)| from < to)));
        }
    }
}
