//! The report as Markdown, for pasting into an issue.

use std::fmt::Write;

use ingero_replay::ProcessId;

use super::text::{Options, share_of, verdicts};
use super::{AT_LEAST, chains, count, duration, instant, least, sample, silence, unclaimed};
use crate::{Analysis, printable};

/// Rows of the table of processes.
const PROCESSES: usize = 12;

/// The report: verdict, causes, phases, processes.
#[must_use]
pub fn markdown(a: &Analysis, options: &Options) -> String {
    let wanted = |id: ProcessId| options.pids.is_empty() || options.pids.contains(&a.processes.get(id).pid);
    let at = |ts_ns| instant(a, ts_ns, options.wall);
    let mut out = String::new();
    macro_rules! line {
        ($($arg:tt)*) => {
            // Writing to a String cannot fail.
            let _ = writeln!(out, $($arg)*);
        };
    }
    for verdict in verdicts(a, &wanted) {
        line!("**{}**\n", escaped(&verdict));
    }
    let lost = super::text::lost(a);
    let length = duration(a.window.trace_end_ns - a.window.trace_start_ns);
    line!("`{}`: {length}, {} events, {lost}", printable(a.trace.path()).replace('`', "'"), count(a.events()));
    if let Some(range) = super::range(a, options.wall) {
        line!("- {range}");
    }
    for caveat in a.caveats() {
        line!("- note: {}", escaped(&caveat));
    }
    let incidents: Vec<_> = a.incidents.iter().filter(|i| wanted(i.process)).collect();
    if !incidents.is_empty() {
        line!("\n### Causes of lost time\n");
    }
    for i in incidents {
        let head = format!("**{} {} ({} %), {}**", i.severity.name(), i.lost(), share_of(i), i.kind);
        line!("- {head}: {}", escaped(&i.summary));
        line!("  - cause: {}", escaped(&i.root_cause));
        for advice in &i.recommendations {
            line!("  - do: {}", escaped(advice));
        }
        let mut moments: Vec<_> = i.timeline.iter().collect();
        moments.sort_by_key(|m| (m.start_ns, m.end_ns));
        for m in moments {
            line!("  - at {}, {}: {}", at(m.start_ns), m.layer.name(), escaped(&m.detail));
        }
    }
    let phases: Vec<_> = a.phases.iter().filter(|p| wanted(p.phase.process)).collect();
    if !phases.is_empty() {
        line!("\n### Phases\n");
        line!(
            "| phase | process | what | from | to | submissions | in gaps | in those of {} and more |",
            super::lost_from()
        );
        line!("|--:|---|---|--:|--:|--:|--:|--:|");
        for p in &phases {
            let gaps = |ns: u64| {
                if p.phase.sample.is_some() || p.is_unclaimed() { "unknown".to_owned() } else { duration(ns) }
            };
            line!(
                "| {} | {} | {} | {} | {} | {} | {} | {} |",
                p.number,
                escaped(&a.label(p.phase.process)),
                p.phase.label(),
                at(p.phase.start_ns),
                at(p.phase.end_ns),
                if p.phase.sample.is_some() { "unknown".to_owned() } else { super::submissions(a, p) },
                gaps(p.phase.gaps_ns()),
                gaps(p.lost_gaps_ns())
            );
        }
        line!("");
        for p in &phases {
            let sample = p.phase.sample.as_ref().map_or(Vec::new(), |s| sample::sentences(p, s));
            let silence = silence::sentences(a, p, options.wall);
            let told = sample.into_iter().chain(unclaimed(a, p, options.wall)).chain(silence);
            let told = told.chain(p.busy.map(|busy| busy.words())).chain(chains::line(a, p));
            for sentence in told {
                line!("- phase {}: {}", p.number, escaped(&sentence));
            }
        }
    }
    let mut ids: Vec<ProcessId> = a.active().into_iter().filter(|&id| wanted(id)).collect();
    ids.sort_by_key(|&id| (a.figures(id).ops.is_empty(), std::cmp::Reverse(a.figures(id).on_cpu_ns), id));
    line!("\n### Processes\n");
    if ids.is_empty() {
        line!("{}", escaped(&super::nothing_of_processes(a, &wanted)));
        return out;
    }
    line!("| process | on CPU | runnable | blocked | worst stay | switches |");
    line!("|---|--:|--:|--:|--:|--:|");
    for &id in ids.iter().take(PROCESSES) {
        let f = a.figures(id);
        let o = f.off_cpu;
        if a.sampled_of(id) {
            let off = f.totals.as_ref().and_then(|t| t.off_cpu);
            let (worst, switches) = (off.and_then(|t| t.max_ns).map(duration), off.map(|t| count(t.count)));
            let some = |text: Option<String>| text.unwrap_or_else(|| "unknown".to_owned());
            let name = escaped(&a.label(id));
            line!("| {name} | unknown | unknown | unknown | {} | {} |", some(worst), some(switches));
            continue;
        }
        let (knows_states, at_least) = (a.knows_states_of(id), a.at_least_of(id));
        let of = |lacks: bool, text: String| if knows_states { least(lacks, &text) } else { "unknown".to_owned() };
        let known = |text: String| of(at_least.states, text);
        let of_switches = |text: String| of(at_least.switches, text);
        line!(
            "| {} | {} | {} | {} | {} | {} |",
            escaped(&a.label(id)),
            of_switches(duration(f.on_cpu_ns)),
            known(duration(o.spent.runnable_ns)),
            known(duration(o.spent.blocked_ns)),
            if knows_states && o.worst_ns().is_none() { "-".to_owned() } else { known(duration(o.max_ns)) },
            of_switches(count(f.context_switches))
        );
    }
    if ids.iter().any(|&id| a.at_least_of(id).states) {
        line!("\n{AT_LEAST}: at least so much, since events are missing that it rests on.");
    }
    if ids.len() > PROCESSES {
        line!("\n{} more processes are left out.", ids.len() - PROCESSES);
    }
    out
}

/// A text in which nothing is markup, on one line.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in printable(text).chars() {
        if matches!(c, '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '<' | '>' | '|' | '#' | '~') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_no_markup() {
        assert_eq!(escaped("a|b*c_[x](y)<img>\n"), "a\\|b\\*c\\_\\[x\\](y)\\<img\\>\\\\n");
    }
}
