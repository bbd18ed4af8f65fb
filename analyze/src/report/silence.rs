//! What a process did in a phase without a submission, in words.

use super::{chains, duration, instant, states};
use crate::{Analysis, Ending, LongWait, PhaseFigures};

/// A wait is named from this part of the phase on, one in so many.
const NAMED_FROM: u64 = 20;

/// Sentences about the main thread of a phase without a submission; none where there was one.
pub(crate) fn sentences(a: &Analysis, p: &PhaseFigures, wall: bool) -> Vec<String> {
    let Some(silence) = &p.silence else { return Vec::new() };
    if !a.knows_states_of(p.phase.process) {
        return vec!["no submission; what its main thread did is unknown: no context switch can be read".to_owned()];
    }
    let spent = silence.spent;
    let states = states(spent, p.phase.len_ns().saturating_sub(spent.total_ns()));
    let states = format!("no submission: its main thread {states}");
    let long = silence.waits.iter().filter(|w| w.len_ns().saturating_mul(NAMED_FROM) >= p.phase.len_ns());
    let mut waits: Vec<&LongWait> = long.collect();
    waits.sort_by_key(|w| w.start_ns);
    let told: Vec<String> = waits.iter().map(|w| wait(a, w, wall)).collect();
    let waits = (!told.is_empty()).then(|| format!("its longest waits: {}", told.join("; ")));
    [states].into_iter().chain(waits).collect()
}

/// `4.00 s from 5.000000 s on until worker (20) woke it`; of one that goes on behind the phase `at least 4.00 s from 5.000000 s
/// on, past the phase's end, until worker (20) woke it`.
fn wait(a: &Analysis, w: &LongWait, wall: bool) -> String {
    let least = if w.began_before || w.unfinished { "at least " } else { "" };
    let ended = match (w.by, w.ending) {
        (Some(by), _) => format!(" until {} woke it", a.thread_label(by)),
        (None, Some(ending)) => format!(" {}", ending.words_of_one()),
        (None, None) => String::new(),
    };
    // What ended it later is known, where the recording goes on.
    let past = if w.unfinished && w.ending != Some(Ending::Edge) { ", past the phase's end," } else { "" };
    format!("{least}{} from {} on{past}{ended}", duration(w.len_ns()), instant(a, w.start_ns, wall))
}

/// The same in a few words, as a verdict has it: with whom, or what, most of a wait was for.
pub(super) fn verdict(a: &Analysis, p: &PhaseFigures) -> Option<String> {
    let spent = p.silence.as_ref().filter(|_| a.knows_states_of(p.phase.process))?.spent;
    let states = [
        (spent.blocked_ns, "waited"),
        (spent.running_ns, "ran"),
        (spent.runnable_ns, "had no CPU for"),
        (spent.throttled_ns, "was throttled for"),
    ];
    let (ns, did) = states.into_iter().max_by_key(|(ns, _)| *ns).filter(|(ns, _)| *ns > 0)?;
    let most = if did == "waited" { chains::most(a, p) } else { None };
    let all = duration(ns);
    let most = most.map_or(String::new(), |(ns, what)| match duration(ns) {
        part if part == all => format!(" {what}"),
        part => format!(", {part} of that {what}"),
    });
    Some(format!("; its main thread {did} {all} of it{most}"))
}
