//! The report for a person: the verdict first, then what led to it, then the figures. Between 60 and 100 columns wide.

use std::collections::BTreeMap;
use std::fmt::Write;

use ingero_replay::ProcessId;

use super::{count, duration};
use crate::figures::PhaseFigures;
use crate::{Analysis, Incident, Sample, Severity, printable};

/// Adds a line to a report.
macro_rules! line {
    ($r:expr, $($arg:tt)*) => {
        // Writing to a String cannot fail.
        let _ = writeln!($r.out, $($arg)*);
    };
}
pub(super) use line;

/// What a report is to show, and how.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options<'a> {
    /// Show processes and incidents of these ids alone; all where there are none.
    pub pids: &'a [u32],
    /// Give each process that matters a section of its own.
    pub per_process: bool,
    /// Use colours, for terminals.
    pub colour: bool,
    /// Show wall-clock times instead of times from the start, where the recording knows them.
    pub wall: bool,
    /// Columns, from 60 to 100; 0 for 100.
    pub width: usize,
}

/// Columns of a report for so many of a terminal.
pub(crate) fn columns(width: usize) -> usize {
    if width == 0 { 100 } else { width.clamp(60, 100) }
}

/// The report: the verdict, what the recording is and lacks, the causes, the phases, the processes.
#[must_use]
pub fn text(a: &Analysis, options: &Options) -> String {
    let &Options { pids, per_process, colour, wall, width } = options;
    let mut r = Report { a, out: String::new(), colour, wall, width: columns(width) };
    let wanted = |id: ProcessId| pids.is_empty() || pids.contains(&a.processes.get(id).pid);
    for verdict in verdicts(a, &wanted) {
        r.wrapped_bold(&verdict);
    }
    line!(r, "");
    r.head();
    r.caveats();
    r.incidents(&wanted);
    r.phases(&wanted);
    if per_process {
        r.each_process(pids, &wanted);
    } else {
        r.table(pids, &wanted);
        // A process has several phases, and one table of its calls.
        let callers = super::processes::with_phases(a, &wanted);
        for &id in callers.iter().take(CALLERS) {
            line!(r, "");
            r.calls(id, "");
        }
        r.more(callers.len().saturating_sub(CALLERS), "process with calls", "processes with calls");
    }
    r.out
}

/// Sentences of the verdict, incidents, phases and tables of calls that a report has room for. Of a whole cluster node each may be
/// hundreds: the first are those that lost most.
const VERDICTS: usize = 8;
const INCIDENTS: usize = 40;
const PHASES: usize = 40;
const CALLERS: usize = 16;

pub(super) struct Report<'a> {
    pub(super) a: &'a Analysis<'a>,
    pub(super) out: String,
    colour: bool,
    wall: bool,
    /// Lines are broken before this column.
    pub(super) width: usize,
}

impl Report<'_> {
    pub(super) fn bold(&self, text: &str) -> String {
        if self.colour { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn severity(&self, s: Severity) -> String {
        let name = format!("{:<6}", s.name());
        let code = match s {
            Severity::High => "1;31",
            Severity::Medium => "1;33",
            Severity::Low => "36",
        };
        if self.colour { format!("\x1b[{code}m{name}\x1b[0m") } else { name }
    }

    fn head(&mut self) {
        let a = self.a;
        let mut facts = vec![duration(a.window.trace_end_ns - a.window.trace_start_ns)];
        if let Some(cpus) = a.trace.meta("cpus") {
            facts.push(format!("{} CPUs", printable(cpus)));
        }
        if let Some(kernel) = a.trace.meta("kernel") {
            facts.push(format!("kernel {}", printable(kernel)));
        }
        facts.push(format!("{} events", count(a.events())));
        facts.push(lost(a));
        self.wrapped("", &format!("{}: {}", printable(a.trace.path()), facts.join(", ")));
        if let Some(range) = super::range(a, self.wall) {
            self.wrapped("", &range);
        }
    }

    fn caveats(&mut self) {
        for caveat in self.a.caveats() {
            self.wrapped("note: ", &caveat);
        }
    }

    pub(super) fn wrapped(&mut self, indent: &str, text: &str) {
        let width = self.width.saturating_sub(super::columns_of(indent));
        let mut lead = indent.to_owned();
        for row in super::wrap(text, width) {
            line!(self, "{lead}{row}");
            lead = " ".repeat(super::columns_of(indent));
        }
    }

    fn phases(&mut self, wanted: &impl Fn(ProcessId) -> bool) {
        let mut phases = self.a.phases.iter().filter(|p| wanted(p.phase.process));
        for p in phases.by_ref().take(PHASES) {
            line!(self, "");
            self.phase(p);
        }
        self.more(phases.count(), "phase", "phases");
    }

    /// Says how many of something are left out.
    fn more(&mut self, left_out: usize, one: &str, many: &str) {
        if left_out > 0 {
            let what = if left_out == 1 { one } else { many };
            line!(self, "");
            self.wrapped("", &format!("… and {left_out} more {what} (--format json has all, --pid P picks some)"));
        }
    }

    /// An instant, as it is to be shown.
    fn at(&self, ts_ns: u64) -> String {
        super::instant(self.a, ts_ns, self.wall)
    }

    fn phase(&mut self, p: &PhaseFigures) {
        let a = self.a;
        let head = format!(
            "Phase {} of {}: {}, {} to {} ({})",
            p.number,
            a.label(p.phase.process),
            p.phase.label(),
            self.at(p.phase.start_ns),
            self.at(p.phase.end_ns),
            duration(p.phase.len_ns())
        );
        self.wrapped_bold(&head);
        if let Some(sample) = &p.phase.sample {
            for sentence in super::sample::sentences(p, sample) {
                self.wrapped("  ", &sentence);
            }
            return;
        }
        if let Some(sentence) = super::unclaimed(a, p, self.wall) {
            self.wrapped("  ", &sentence);
        }
        if p.is_silent() {
            let sentences = super::silence::sentences(a, p, self.wall);
            if sentences.is_empty() {
                line!(self, "  no submission");
            }
            for sentence in sentences.into_iter().chain(super::chains::line(a, p)) {
                self.wrapped("  ", &sentence);
            }
            return;
        }
        self.wrapped("  ", &gaps(a, p));
        if let Some(busy) = &p.busy {
            self.wrapped("  ", &busy.words());
        }
        if let Some(line) = super::chains::line(a, p) {
            self.wrapped("  ", &line);
        }
    }

    fn wrapped_bold(&mut self, text: &str) {
        for row in super::wrap(text, self.width) {
            line!(self, "{}", self.bold(&row));
        }
    }

    fn incidents(&mut self, wanted: &impl Fn(ProcessId) -> bool) {
        let mut incidents = self.a.incidents.iter().filter(|i| wanted(i.process));
        for i in incidents.by_ref().take(INCIDENTS) {
            line!(self, "");
            let head = format!("{:>4} %  {}, phase {}", share_of(i), i.kind, i.phase);
            line!(self, "{} {:>8} {head}", self.severity(i.severity), i.lost());
            self.wrapped("  ", &i.summary);
            self.wrapped("  cause  ", &i.root_cause);
            for (n, advice) in i.recommendations.iter().enumerate() {
                self.wrapped(if n == 0 { "  do     " } else { "         " }, advice);
            }
            let mut moments: Vec<_> = i.timeline.iter().collect();
            moments.sort_by_key(|m| (m.start_ns, m.end_ns));
            for (n, m) in moments.into_iter().enumerate() {
                let lead = if n == 0 { "  see    " } else { "         " };
                self.wrapped(&format!("{lead}{:>12} {:<7} ", self.at(m.start_ns), m.layer.name()), &m.detail);
            }
        }
        self.more(incidents.count(), "incident", "incidents");
    }
}

/// How many submissions a phase has: `12 submissions`, or `at least 12 submissions` where calls are lost.
fn submissions(a: &Analysis, p: &PhaseFigures) -> String {
    let n = super::submissions(a, p);
    format!("{n} submission{}", if n == "1" { "" } else { "s" })
}

/// The gaps of a phase and what its submitting thread did in them, in one sentence.
fn gaps(a: &Analysis, p: &PhaseFigures) -> String {
    let submissions = submissions(a, p);
    if p.is_unclaimed() {
        return format!("{submissions}; gaps between them: unknown");
    }
    let all = p.phase.gaps.len();
    let (long, long_ns) = (p.lost_gaps().count(), p.lost_gaps_ns());
    // Causes are looked for in gaps from a length on, and tell of these alone.
    let (lasting, long_lasting) = (duration(p.phase.gaps_ns()), duration(long_ns));
    let those = if lasting == long_lasting {
        String::new()
    } else {
        format!(" ({} of {} and more, {long_lasting})", count(long as u64), super::lost_from())
    };
    // What a range cuts lasted longer.
    let least = if p.phase.gaps.iter().any(|g| g.began_before || g.unfinished) { "at least " } else { "" };
    let head = match (p.phase.submissions, all) {
        (1.., 0) => return format!("{submissions}; no gap between them"),
        (0, _) if p.phase.within_call => {
            return "inside one submission, or one wait for the GPU, all the while".to_owned();
        }
        (0, _) => format!("no submission in a gap of {least}{lasting}"),
        (_, 1) => format!("{submissions}; 1 gap between them lasts {lasting}{those}"),
        (_, n) => format!("{submissions}; {} gaps between them last {lasting} in all{those}", count(n as u64)),
    };
    match a.in_gaps(p) {
        None => format!("{head}; what the submitting thread did in them is unknown: no context switch can be read"),
        Some(spent) => {
            let unknown_ns = p.phase.gaps_ns().saturating_sub(spent.total_ns());
            let unasked = [(p.phase.start_up_ns(), "first", "start-up"), (p.phase.ended_ns(), "last", "end")];
            // All of a warm-up is called one.
            let unasked = unasked.into_iter().skip(usize::from(p.phase.warm_up));
            let told = unasked.filter(|(ns, ..)| super::matters(*ns, p.phase.claimed_ns()));
            let told = told.map(|(ns, which, what)| {
                format!("; the {which} {} are the {what} of the process, and count for nothing", duration(ns))
            });
            let spent = super::states(spent, unknown_ns);
            format!("{head}: the submitting thread {spent}{}", told.collect::<String>())
        }
    }
}

/// The share of an incident in percent. What is not HIGH is not rounded to where that begins.
pub(crate) fn share_of(i: &Incident) -> String {
    let percent = 100.0 * i.share;
    let rounded = Severity::of(percent.round() / 100.0);
    if rounded == i.severity { format!("{percent:.0}") } else { format!("{:.1}", (10.0 * percent).floor() / 10.0) }
}

/// What was lost of a recording, in capitals where that matters.
pub(crate) fn lost(a: &Analysis) -> String {
    let cut = if a.trace.complete() { "" } else { "CUT OFF, " };
    let lost = match a.losses.events() {
        Some(0) if a.sampled() => "a SAMPLE".to_owned(),
        Some(0) => "none lost".to_owned(),
        Some(n) if a.losses.uncounted() => format!("at least {} LOST", count(n)),
        Some(n) => format!("{} LOST", count(n)),
        None => "an unknown number LOST".to_owned(),
    };
    format!("{cut}{lost}")
}

/// One sentence for each phase, those first that lost most to one cause, and then the longest: how well it fed its GPU, and what
/// most of the rest went to. So many at most as a screen has room for.
pub(crate) fn verdicts(a: &Analysis, wanted: &impl Fn(ProcessId) -> bool) -> Vec<String> {
    let mut phases: Vec<&PhaseFigures> = a.phases.iter().filter(|p| wanted(p.phase.process)).collect();
    // An incident of a phase that lost most to it; they are in that order.
    let mut worst: BTreeMap<usize, &Incident> = BTreeMap::new();
    a.incidents.iter().for_each(|i| {
        worst.entry(i.phase).or_insert(i);
    });
    let told = |p: &PhaseFigures| worst.get(&p.number).filter(|i| i.severity > Severity::Low);
    // What comes before a process is under way says least.
    phases.sort_by_key(|p| {
        let lost_ns = told(p).map_or(0, |i| i.lost_ns);
        (p.phase.warm_up, std::cmp::Reverse((lost_ns, p.phase.len_ns())), p.number)
    });
    let left_out = phases.len().saturating_sub(VERDICTS);
    let longest = phases.iter().skip(VERDICTS).map(|p| p.phase.len_ns()).max();
    if phases.is_empty() {
        return vec![super::nothing::of_calls(a)];
    }
    let several = phases.len() > 1;
    let verdict = |p: &PhaseFigures| {
        let label = a.label(p.phase.process);
        let phase =
            if several { format!(" [phase {}, {}]", p.number, duration(p.phase.len_ns())) } else { String::new() };
        if let Some(sample) = &p.phase.sample {
            return format!("{}{phase}", sampled_verdict(&label, p, sample));
        }
        let lost_ns = p.phase.len_ns().saturating_sub(p.phase.claimed_ns());
        if p.is_unclaimed() {
            let lost = format!("events were lost in all of it ({})", duration(lost_ns));
            return format!("nothing can be said of how {label} fed the GPU: {lost}{phase}");
        }
        let of = match lost_ns {
            0 => "the time".to_owned(),
            ns => format!("the time that is known (events were lost in {})", duration(ns)),
        };
        let head = match (p.phase.submissions, p.starved_share()) {
            (0, _) if !p.phase.within_call => format!("{label} submitted nothing to a GPU"),
            (_, Some(starved)) => {
                let busy = p.busy.filter(|busy| busy.is_beyond(1.0 - starved));
                let busy = busy.map_or(String::new(), |b| format!(", and busy {} %", b.percent));
                // Seen from the host it was fed in time in which it may have had nothing to do.
                let most = if a.fed_at_most(p) { "at most " } else { "" };
                format!("GPU fed {most}{} % of {of} by {label}{busy}", percent(1.0 - starved))
            }
            // Whoever starts up does not feed a GPU yet, and that is no loss.
            _ if p.phase.warm_up => format!("{} in the start-up of {label}", submissions(a, p)),
            _ => format!("{} by {label}", submissions(a, p)),
        };
        let tail = match told(p) {
            Some(i) if i.lost_ns == 0 => format!("; {}", i.cause),
            Some(i) => {
                let fed = i.fed().map_or(String::new(), |fed| format!(", {fed} of it counted as fed"));
                format!("; {} lost to {}{fed}", i.lost(), i.cause)
            }
            _ if p.phase.submissions == 0 && !p.phase.within_call => super::silence::verdict(a, p).unwrap_or_default(),
            // That there is no cause is said of what the recording shows alone.
            _ if !p.phase.warm_up => match a.unexplained(p) {
                Some(ns) => {
                    format!("; for {} of its gaps the recording does not show what they were for", duration(ns))
                }
                None => "; no cause of lost time above 5 %".to_owned(),
            },
            _ => String::new(),
        };
        format!("{head}{tail}{phase}")
    };
    let more = longest.map(|ns| format!("and {left_out} more phases, of {} at most", duration(ns)));
    phases.iter().copied().take(VERDICTS).map(verdict).chain(more).collect()
}

/// The verdict on a phase of a sample: how long the main thread was busy, or that nothing shows what it did.
fn sampled_verdict(label: &str, p: &PhaseFigures, s: &Sample) -> String {
    let workers = match p.phase.workers {
        0 => "no worker to blame".to_owned(),
        1 => "1 worker".to_owned(),
        n => format!("{n} workers"),
    };
    let len_ns = p.phase.len_ns();
    if s.calls_stored == 0 {
        let switches = count(s.switches.at_least);
        return format!("{label} with {workers}: at least {switches} switches and no CUDA call recorded");
    }
    match s.busy_ns(len_ns).filter(|ns| ns.saturating_mul(2) >= len_ns) {
        Some(ns) => {
            let slower = s.faster.zip(s.steps).map_or(String::new(), |(f, steps)| {
                format!(", {:.0} times as long for a step as phase {}", f.times(len_ns, steps.count), f.phase)
            });
            format!("{label} was busy on its own CPU for {}{slower}; {workers}", duration(ns))
        }
        None => {
            let steps = match (s.steps, p.phase.warm_up) {
                (_, true) => ", its first calls".to_owned(),
                (Some(steps), _) => format!(", {} steps", steps.count),
                (None, _) => String::new(),
            };
            format!("{label}: {} of {} spent in copies{steps}", duration(s.copies_ns.at_least), duration(len_ns))
        }
    }
}

/// A share in percent. Only all is 100 and only nothing is 0.
pub(crate) fn percent(share: f64) -> String {
    match 100.0 * share {
        p if p > 0.0 && p < 0.5 => "less than 1".to_owned(),
        p if p > 99.5 && p < 100.0 => "more than 99".to_owned(),
        p => format!("{p:.0}"),
    }
}

/// A text fit for a terminal, cut to a width, with a mark where it was.
pub(crate) fn short(text: &str, width: usize) -> String {
    let text = printable(text);
    if super::columns_of(&text) <= width {
        return text;
    }
    // The end of a label is its id: the middle goes.
    let tail = (width / 3).min(8);
    let fitting = |most: usize, chars: &mut dyn Iterator<Item = char>| -> Vec<char> {
        let mut used = 0;
        let fits = |c: &char| {
            used += super::columns_of(c.encode_utf8(&mut [0; 4]));
            used <= most
        };
        chars.take_while(fits).collect()
    };
    let head: String = fitting(width.saturating_sub(tail + 1), &mut text.chars()).into_iter().collect();
    let end: String = fitting(tail, &mut text.chars().rev()).into_iter().rev().collect();
    format!("{head}…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_not_rounded_to_all_or_nothing() {
        let shown = [0.0, 0.001, 0.12, 0.99, 0.9961, 1.0].map(percent);
        assert_eq!(shown, ["0", "less than 1", "12", "99", "more than 99", "100"]);
    }
}
