//! The profile's clock against the recording's: by the recording's anchors, then by calls that both
//! have seen.

use std::collections::{HashMap, HashSet};

use ingero_format::Trace;
use ingero_format::catalog::{Body, Clock, END_RETURNED, Kind, TaskId};
use ingero_replay::Merge;

use super::profile::{Profile, ThreadId};

/// How far the anchors may be off: profilers keep their own conversion to the wall clock.
const REACH_NS: u64 = 100_000_000;
/// Shifts this close to each other are taken for one, and so are calls once the clocks are aligned:
/// what two observers of a call differ by.
const AGREE_NS: u64 = 20_000;
/// Calls that have to fit before they say anything about clocks.
const FEWEST: usize = 8;
/// Calls of the profile that are asked, and calls of the recording that each is held against.
const ASKED: usize = 2048;
const AGAINST: usize = 256;

/// A call of the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) ts_ns: u64,
    pub(super) task: TaskId,
}

/// How the clocks stand to each other.
#[derive(Debug, Default)]
pub(super) struct Alignment {
    /// Nanoseconds to add to a time of the profile.
    pub(super) shift_ns: i128,
    /// What the shift may be wrong by.
    pub(super) uncertainty_ns: u64,
    /// Calls of the profile that the recording has too.
    pub(super) matched: usize,
    /// By place in the profile's calls: the same call in the recording.
    pub(super) same: HashMap<usize, Seen>,
    /// How it was found.
    pub(super) means: &'static str,
}

/// Symbols and ABI versions of one function are one name.
pub(super) fn base_name(symbol: &str) -> &str {
    let mut name = symbol;
    for ending in ["_ptsz", "_ptds", "_v2", "_v3"] {
        name = name.strip_suffix(ending).unwrap_or(name);
    }
    name
}

/// Functions of the profile of which a call that it alone saw crosses one of the recording: begins within it and ends after it, or
/// ends within it and begins before. Of one stack of calls none does; two observers' times of it do, where one call is right
/// inside of the other.
pub(super) fn crossing<'p>(
    profile: &'p Profile,
    alignment: &Alignment,
    host: &Trace,
    tasks: &HashMap<ThreadId, TaskId>,
) -> HashSet<&'p str> {
    let mut recorded: HashMap<TaskId, Recorded> = HashMap::new();
    for event in Merge::of(host, |kind| kind == Kind::Call) {
        let Body::Call(call) = event.body else { continue };
        let Some(dur_ns) = call.dur_ns.filter(|_| call.end == END_RETURNED) else { continue };
        recorded.entry(call.task).or_default().calls.push((event.ts_ns, event.ts_ns.saturating_add(dur_ns)));
    }
    let mut crossing = HashSet::new();
    for (_, call) in profile.calls.iter().enumerate().filter(|(place, _)| !alignment.same.contains_key(place)) {
        let from = u64::try_from(i128::from(call.ts_ns) + alignment.shift_ns).unwrap_or(0);
        let seen = tasks.get(&call.thread).and_then(|task| recorded.get_mut(task));
        if seen.is_some_and(|seen| seen.crosses(from, from.saturating_add(call.dur_ns))) {
            crossing.insert(base_name(profile.text(call.name)));
        }
    }
    crossing
}

/// The calls of a thread in the recording, begin and end, while those of the profile are held against them in order.
#[derive(Default)]
struct Recorded {
    calls: Vec<(u64, u64)>,
    /// How many of them began before the last call of the profile.
    begun: usize,
    /// Ends of those that it began within, outermost first.
    within: Vec<u64>,
}

impl Recorded {
    fn crosses(&mut self, from: u64, to: u64) -> bool {
        while let Some(&(begin, end)) = self.calls.get(self.begun).filter(|call| call.0 < from) {
            self.within.retain(|&outer| outer > begin);
            self.within.push(end);
            self.begun += 1;
        }
        self.within.retain(|&end| end > from);
        let mut later = self.calls.iter().skip(self.begun).take_while(|call| call.0 < to);
        self.within.iter().any(|&end| end < to) || later.any(|&(begin, end)| begin > from && end > to)
    }
}

type ByThread<'t> = HashMap<(ThreadId, &'t str), Vec<Seen>>;

/// Finds the alignment; none where the recording has no wall clock.
pub(super) fn align(profile: &Profile, trace: &Trace) -> Option<Alignment> {
    let anchors: Vec<(u64, Clock)> = Merge::of(trace, |k| k == Kind::Clock)
        .filter_map(|e| if let Body::Clock(c) = e.body { Some((e.ts_ns, c)) } else { None })
        .collect();
    let (from, to) = profile.span_ns()?;
    // The anchor nearest to the middle of the profile.
    let middle = from.midpoint(to);
    let (mono, anchor) = anchors.iter().min_by_key(|(_, c)| c.real_ns.abs_diff(middle))?;
    let by_anchor = i128::from(*mono) - i128::from(anchor.real_ns);
    // What the wall clock was slewed by between anchors, over the stretch at hand.
    let offsets = anchors.iter().map(|(ts, c)| i128::from(*ts) - i128::from(c.real_ns));
    let slewed = offsets.map(|o| o.abs_diff(by_anchor)).max().unwrap_or(0);
    let uncertain = u64::try_from(slewed).unwrap_or(u64::MAX).saturating_add(anchor.bracket_ns);
    let seen = calls(trace);
    let mut found = Alignment {
        shift_ns: by_anchor,
        uncertainty_ns: uncertain,
        means: "by the recording's wall-clock anchors",
        ..Alignment::default()
    };
    let Some(shift) = most_agreed(profile, &seen, by_anchor) else { return Some(found) };
    let first = pairs(profile, &seen, shift);
    let mut offsets: Vec<i128> = first.iter().map(|&(at, s)| offset(profile, at, s)).collect();
    offsets.sort_unstable();
    let Some(&median) = offsets.get(offsets.len() / 2) else { return Some(found) };
    let again = pairs(profile, &seen, median);
    let mut residuals: Vec<u128> = again.iter().map(|&(at, s)| offset(profile, at, s).abs_diff(median)).collect();
    residuals.sort_unstable();
    // Nineteen calls of twenty lie within it: some are interrupted between the two who look.
    let spread = residuals.get(residuals.len() * 19 / 20).or(residuals.last()).copied().unwrap_or(0);
    found.shift_ns = median;
    found.uncertainty_ns = u64::try_from(spread).unwrap_or(u64::MAX).max(1);
    found.means = "by the calls that both have seen";
    found.matched = again.len();
    found.same = again.into_iter().collect();
    Some(found)
}

fn offset(profile: &Profile, at: usize, seen: Seen) -> i128 {
    i128::from(seen.ts_ns) - i128::from(profile.calls[at].ts_ns)
}

fn calls(trace: &Trace) -> ByThread<'_> {
    let mut seen = ByThread::new();
    for event in Merge::of(trace, |k| k == Kind::Call) {
        let Body::Call(call) = event.body else { continue };
        let Some(function) = trace.function(call.func) else { continue };
        let task = trace.task(call.task);
        let key = ((task.pid, task.tid), base_name(&function.symbol));
        seen.entry(key).or_default().push(Seen { ts_ns: event.ts_ns, task: call.task });
    }
    seen
}

/// The shift that most calls agree upon: each is held against all of its function and thread that the
/// recording has around its time. None where no shift fits half of them, or another fits nearly as
/// many, as in a loop whose rounds are all alike.
fn most_agreed(profile: &Profile, seen: &ByThread, by_anchor: i128) -> Option<i128> {
    let mut shifts: Vec<i128> = Vec::new();
    let mut asked = 0;
    let step = profile.calls.len().div_ceil(ASKED).max(1);
    for call in profile.calls.iter().step_by(step) {
        let Some(list) = seen.get(&(call.thread, base_name(profile.text(call.name)))) else { continue };
        asked += 1;
        let Ok(expected) = u64::try_from(i128::from(call.ts_ns) + by_anchor) else { continue };
        let middle = list.partition_point(|s| s.ts_ns < expected);
        let from =
            list.partition_point(|s| s.ts_ns < expected.saturating_sub(REACH_NS)).max(middle.saturating_sub(AGAINST));
        let to =
            list.partition_point(|s| s.ts_ns <= expected.saturating_add(REACH_NS)).min(middle.saturating_add(AGAINST));
        shifts.extend(list[from..to].iter().map(|s| i128::from(s.ts_ns) - i128::from(call.ts_ns)));
    }
    shifts.sort_unstable();
    let mut best = (0, 0);
    let mut from = 0;
    for to in 0..shifts.len() {
        while shifts[to] - shifts[from] > i128::from(AGREE_NS) {
            from += 1;
        }
        best = best.max((to + 1 - from, from));
    }
    let (agreed, from) = best;
    let middle = *shifts.get(from + agreed / 2)?;
    let rival = {
        let (mut most, mut from) = (0, 0);
        let others: Vec<i128> =
            shifts.iter().copied().filter(|s| (s - middle).abs() > 2 * i128::from(AGREE_NS)).collect();
        for to in 0..others.len() {
            while others[to] - others[from] > i128::from(AGREE_NS) {
                from += 1;
            }
            most = most.max(to + 1 - from);
        }
        most
    };
    (agreed >= FEWEST && agreed * 2 >= asked && rival * 10 <= agreed * 9).then_some(middle)
}

/// Calls of the profile with the one of the recording that is nearest, where that has no nearer one
/// itself. Either side may lack some.
fn pairs(profile: &Profile, seen: &ByThread, shift_ns: i128) -> Vec<(usize, Seen)> {
    let mut nearest: HashMap<(ThreadId, &str, usize), (u64, usize)> = HashMap::new();
    for (at, call) in profile.calls.iter().enumerate() {
        let (thread, name) = (call.thread, base_name(profile.text(call.name)));
        let Some(list) = seen.get(&(thread, name)) else { continue };
        let Ok(expected) = u64::try_from(i128::from(call.ts_ns) + shift_ns) else { continue };
        let after = list.partition_point(|s| s.ts_ns < expected);
        let near = [after.checked_sub(1), Some(after).filter(|&i| i < list.len())].into_iter().flatten();
        let distance = |i: usize| list[i].ts_ns.abs_diff(expected);
        let best = near.map(|i| (distance(i), i)).min().filter(|(distance, _)| *distance <= AGREE_NS);
        if let Some((distance, i)) = best {
            let held = nearest.entry((thread, name, i)).or_insert((distance, at));
            *held = (*held).min((distance, at));
        }
    }
    let seen_at = |(&(thread, name, i), &(_, at)): (&(ThreadId, &str, usize), &(u64, usize))| {
        Some((at, *seen.get(&(thread, name))?.get(i)?))
    };
    let mut pairs: Vec<_> = nearest.iter().filter_map(seen_at).collect();
    pairs.sort_unstable_by_key(|&(at, _)| at);
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_a_function_have_one_name() {
        let names =
            ["cuMemAlloc_v2", "cudaLaunchKernel_ptsz", "cuMemcpyHtoD_v2_ptds", "cuLaunchKernelEx"].map(base_name);
        assert_eq!(names, ["cuMemAlloc", "cudaLaunchKernel", "cuMemcpyHtoD", "cuLaunchKernelEx"]);
    }
}
