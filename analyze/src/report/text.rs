//! The report for a person: the verdict first, then what led to it, then the figures. At most 100
//! columns wide.

use std::fmt::Write;

use ingero_replay::ProcessId;

use super::{bytes, count, duration};
use crate::figures::{OpFigures, PhaseFigures};
use crate::{Analysis, Incident, Severity, printable};

/// Lines are broken before this column.
const WIDTH: usize = 100;
/// Processes in the short table.
const PROCESSES: usize = 15;
/// Holders named per process.
const HOLDERS: usize = 5;

/// The report. With `per_process`, each process that matters has a section of its own; with `pids`,
/// processes and incidents are those of these ids alone. `colour` is for terminals.
#[must_use]
pub fn text(a: &Analysis, pids: &[u32], per_process: bool, colour: bool) -> String {
    let mut r = Report { a, out: String::new(), colour };
    let wanted = |id: ProcessId| pids.is_empty() || pids.contains(&a.processes.get(id).pid);
    r.head();
    r.caveats();
    r.verdict(&wanted);
    r.incidents(&wanted);
    r.table(pids, &wanted);
    if per_process {
        for id in r.shown(pids, &wanted, usize::MAX) {
            r.process(id);
        }
    } else {
        for p in a.phases.iter().filter(|p| wanted(p.phase.process)) {
            r.calls(p.phase.process);
        }
    }
    r.out
}

struct Report<'a> {
    a: &'a Analysis<'a>,
    out: String,
    colour: bool,
}

macro_rules! line {
    ($r:expr, $($arg:tt)*) => {
        // Writing to a String cannot fail.
        let _ = writeln!($r.out, $($arg)*);
    };
}

impl Report<'_> {
    fn bold(&self, text: &str) -> String {
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
        facts.push(match a.losses.events() {
            Some(0) if !a.trace.complete() => "CUT OFF".to_owned(),
            Some(0) => "none lost".to_owned(),
            Some(n) if a.losses.uncounted() => format!("at least {} LOST", count(n)),
            Some(n) => format!("{} LOST", count(n)),
            None => "an unknown number LOST".to_owned(),
        });
        line!(self, "{}: {}", self.bold(&printable(a.trace.path())), facts.join(", "));
        if a.window.is_cut() && a.window.trace_end_ns > a.window.trace_start_ns {
            let rel = |ns: u64| duration(ns.saturating_sub(a.window.trace_start_ns));
            line!(self, "only {} to {} of it", rel(a.window.from_ns), rel(a.window.from_ns + a.window.len_ns()));
        }
    }

    fn caveats(&mut self) {
        for caveat in self.a.caveats() {
            self.wrapped("note: ", &caveat);
        }
    }

    fn wrapped(&mut self, indent: &str, text: &str) {
        let mut row = indent.to_owned();
        let mut empty = true;
        for word in printable(text).split(' ') {
            if !empty && row.chars().count() + 1 + word.chars().count() > WIDTH {
                line!(self, "{row}");
                row = " ".repeat(indent.chars().count());
                empty = true;
            }
            if !empty {
                row.push(' ');
            }
            row.push_str(word);
            empty = false;
        }
        line!(self, "{row}");
    }

    fn verdict(&mut self, wanted: &impl Fn(ProcessId) -> bool) {
        line!(self, "");
        let a = self.a;
        let mut phases: Vec<(usize, &PhaseFigures)> =
            a.phases.iter().enumerate().filter(|(_, p)| wanted(p.phase.process)).collect();
        phases.sort_by_key(|(i, p)| (std::cmp::Reverse(p.phase.len_ns()), *i));
        if phases.is_empty() {
            let text = if a.phases.is_empty() {
                "No CUDA call was recorded: nothing can be said about a GPU's feed."
            } else {
                "The chosen processes made no CUDA call: nothing can be said about a GPU's feed."
            };
            line!(self, "{}", self.bold(text));
            return;
        }
        for (number, p) in phases {
            let label = a.label(p.phase.process);
            let starved = p.starved_share();
            let worst = a.incidents.iter().find(|i| i.phase == number);
            let head = if p.phase.submissions == 0 {
                format!("{label} submitted nothing to a GPU")
            } else {
                format!("GPU fed {} % of the time by {label}", percent(1.0 - starved))
            };
            let tail = match worst {
                Some(i) if i.severity > Severity::Low => {
                    let what = match i.kind {
                        "cpu-contention" => "CPU contention",
                        "cpu-quota" => "a CPU quota",
                        "busy-main" => "its main thread being busy",
                        _ => "waiting for its own workers",
                    };
                    format!("; {} lost to {what}", duration(i.lost_ns))
                }
                _ if p.phase.submissions > 0 => "; no cause of lost time above 5 %".to_owned(),
                _ => String::new(),
            };
            line!(self, "{}", self.bold(&format!("{head}{tail}")));
            let spent = p.submitters();
            let text = format!(
                "{} submissions in {}; {} gaps between them last {} in all: the submitting thread ran {}, could have run {} more, was blocked {}",
                count(p.phase.submissions),
                duration(p.phase.len_ns()),
                count(p.phase.gaps.len() as u64),
                duration(p.phase.gaps_ns()),
                duration(spent.running_ns),
                duration(spent.runnable_ns),
                duration(spent.blocked_ns),
            );
            self.wrapped("  ", &text);
        }
    }

    fn incidents(&mut self, wanted: &impl Fn(ProcessId) -> bool) {
        let incidents: Vec<&Incident> = self.a.incidents.iter().filter(|i| wanted(i.process)).collect();
        if incidents.is_empty() {
            return;
        }
        line!(self, "");
        line!(self, "{}", self.bold("Causes of lost time"));
        for i in incidents {
            let head =
                format!("  {} {:>8} {:>4.0} %  ", self.severity(i.severity), duration(i.lost_ns), 100.0 * i.share);
            // Colour codes take no room.
            let indent = " ".repeat(2 + 6 + 1 + 8 + 1 + 6 + 2);
            let mut body = Report { a: self.a, out: String::new(), colour: false };
            body.wrapped(&indent, &i.summary);
            self.out.push_str(&body.out.replacen(&indent, &head, 1));
            self.wrapped(&format!("{indent}cause: "), &i.root_cause);
            for advice in &i.recommendations {
                self.wrapped(&format!("{indent}do:    "), advice);
            }
            let mut moments: Vec<_> = i.timeline.iter().collect();
            moments.sort_by_key(|m| (m.start_ns, m.end_ns));
            for m in moments {
                let at = m.start_ns.saturating_sub(self.a.window.trace_start_ns);
                #[expect(clippy::cast_precision_loss, reason = "for people")]
                let at = format!("{:.6} s", at as f64 / 1e9);
                self.wrapped(&format!("{indent}at {at:>12} {:<7} ", m.layer.name()), &m.detail);
            }
        }
    }

    /// Processes that a person wants to see, those with CUDA calls first, then by their time.
    fn shown(&self, pids: &[u32], wanted: &impl Fn(ProcessId) -> bool, most: usize) -> Vec<ProcessId> {
        let a = self.a;
        let related = |id: ProcessId| a.phases.iter().any(|p| a.processes.descends(id, p.phase.process));
        let mut ids: Vec<ProcessId> = a.active().into_iter().filter(|&id| wanted(id)).collect();
        if pids.is_empty() && most == usize::MAX {
            ids.retain(|&id| related(id) || a.processes.get(id).followed || self.is_to_blame(id));
        }
        let has_calls = |id: ProcessId| !a.figures(id).ops.is_empty();
        ids.sort_by_key(|&id| {
            let f = a.figures(id);
            let rank = u8::from(!has_calls(id)) + u8::from(!related(id));
            (rank, std::cmp::Reverse(f.on_cpu_ns.saturating_add(f.off_cpu.spent.runnable_ns)), id)
        });
        ids.truncate(most);
        ids
    }

    /// Whether a process held the CPU of one that a phase depends on, for a tenth of its waits.
    fn is_to_blame(&self, id: ProcessId) -> bool {
        self.a.phases.iter().any(|p| {
            let held = |map: &std::collections::BTreeMap<ProcessId, u64>| {
                map.get(&id).is_some_and(|&ns| ns.saturating_mul(10) >= crate::sum(map.values().copied()) && ns > 0)
            };
            held(&p.helpers_behind) || held(&p.submitter_behind)
        })
    }

    fn table(&mut self, pids: &[u32], wanted: &impl Fn(ProcessId) -> bool) {
        let a = self.a;
        let ids = self.shown(pids, wanted, PROCESSES);
        line!(self, "");
        if ids.is_empty() {
            line!(self, "Nothing was recorded of any process.");
            return;
        }
        let head = format!(
            "{:<26} {:>7} {:>8} {:>9} {:>9} {:>9} {:>9} {:>9}",
            "Process", "threads", "on CPU", "runnable", "blocked", "worst", "switches", "pages"
        );
        line!(self, "{}", self.bold(&head));
        for &id in &ids {
            let f = a.figures(id);
            let s = f.off_cpu.spent;
            line!(
                self,
                "{:<26} {:>7} {:>8} {:>9} {:>9} {:>9} {:>9} {:>9}",
                short(&a.label(id), 26),
                a.processes.get(id).threads.len(),
                duration(f.on_cpu_ns),
                duration(s.runnable_ns),
                duration(s.blocked_ns),
                duration(f.off_cpu.max_ns),
                count(f.context_switches),
                count(f.page_allocs)
            );
        }
        let more = a.active().into_iter().filter(|&id| wanted(id)).count() - ids.len();
        if more > 0 {
            line!(self, "… and {more} more (--format json has all, --pid P picks some)");
        }
        line!(
            self,
            "runnable: could run, had no CPU. blocked: waited for something else. worst: longest stay off a CPU."
        );
    }

    fn process(&mut self, id: ProcessId) {
        let a = self.a;
        let (p, f) = (a.processes.get(id), a.figures(id));
        line!(self, "");
        let parent = p.parent_pid.map_or(String::new(), |pid| format!(", child of {pid}"));
        let threads = p.threads.len();
        let plural = if threads == 1 { "" } else { "s" };
        line!(self, "{}{parent}, {threads} thread{plural}", self.bold(&a.label(id)));
        if let Some(args) = p.args {
            line!(self, "  command      {}", short(a.trace.string(args), WIDTH - 15));
        } else if let Some(exe) = p.exe {
            line!(self, "  program      {}", short(a.trace.string(exe), WIDTH - 15));
        }
        let o = f.off_cpu;
        line!(self, "  on CPU       {}", duration(f.on_cpu_ns));
        let mean = o.sum_ns.checked_div(o.count).unwrap_or(0);
        line!(
            self,
            "  off CPU      {} in {} stays, mean {}, worst {}: runnable {}, {}blocked {}",
            duration(o.sum_ns),
            count(o.count),
            duration(mean),
            duration(o.max_ns),
            duration(o.spent.runnable_ns),
            if o.spent.throttled_ns > 0 {
                format!("throttled {}, ", duration(o.spent.throttled_ns))
            } else {
                String::new()
            },
            duration(o.spent.blocked_ns)
        );
        if o.unfinished_ns > 0 {
            line!(
                self,
                "  unfinished   at least {} more, begun before the range or not ended in it",
                duration(o.unfinished_ns)
            );
        }
        line!(self, "  switches     {}", count(f.context_switches));
        if f.page_allocs > 0 {
            line!(self, "  page allocs  {} ({})", count(f.page_allocs), bytes(f.page_alloc_bytes));
        }
        let behind = a.behind(id);
        if !behind.is_empty() {
            let names: Vec<String> =
                behind.iter().take(HOLDERS).map(|&(h, ns)| format!("{} {}", a.label(h), duration(ns))).collect();
            let more = behind.len().saturating_sub(HOLDERS);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            self.wrapped("  behind       ", &format!("{}{more}", names.join(", ")));
        }
        self.calls(id);
    }

    fn calls(&mut self, id: ProcessId) {
        let a = self.a;
        let mut ops = a.ops(id);
        if ops.is_empty() {
            return;
        }
        ops.sort_by_key(|(func, op)| (std::cmp::Reverse(op.sum_ns()), *func));
        line!(self, "");
        let head = format!(
            "{:<27} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}",
            short(&format!("Calls of {}", a.label(id)), 27),
            "count",
            "total",
            "mean",
            "p50",
            "p99",
            "max",
            "runnable",
            "blocked"
        );
        line!(self, "{}", self.bold(&head));
        let mut layers: Vec<&str> = Vec::new();
        for (func, op) in ops {
            let info = a.trace.function(func);
            let name = info.map_or("?", |i| i.symbol.as_str());
            if let Some(layer) = info.map(|i| i.layer.name())
                && !layers.contains(&layer)
            {
                layers.push(layer);
            }
            self.op(name, op);
        }
        if layers.len() > 1 {
            line!(self, "A runtime call holds the driver call that it makes: the two are not to be added up.");
        }
    }

    fn op(&mut self, name: &str, op: &OpFigures) {
        let some = |ns: Option<u64>| ns.map_or("-".to_owned(), duration);
        let percentile = |q| some(op.percentile_ns(q).filter(|_| !self.a.sampled()));
        let row = format!(
            "  {:<25} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}",
            short(name, 25),
            count(op.count()),
            duration(op.sum_ns()),
            some(op.mean_ns()),
            percentile(50),
            percentile(99),
            percentile(100),
            duration(op.spent.runnable_ns),
            duration(op.spent.blocked_ns)
        );
        line!(self, "{row}");
        let mut odd = Vec::new();
        if op.errors > 0 {
            odd.push(format!("{} returned an error", count(op.errors)));
        }
        if op.unreturned > 0 {
            odd.push(format!("{} never returned", count(op.unreturned)));
        }
        if op.began_before > 0 {
            odd.push(format!("{} more began before the recording", count(op.began_before)));
        }
        if !odd.is_empty() {
            line!(self, "    of these calls {}", odd.join(", "));
        }
    }
}

/// A share in percent. Only all is 100 and only nothing is 0.
fn percent(share: f64) -> String {
    match 100.0 * share {
        p if p > 0.0 && p < 0.5 => "less than 1".to_owned(),
        p if p > 99.5 && p < 100.0 => "more than 99".to_owned(),
        p => format!("{p:.0}"),
    }
}

/// A text fit for a terminal, cut to a width, with a mark where it was.
fn short(text: &str, width: usize) -> String {
    let text = printable(text);
    if text.chars().count() <= width {
        return text;
    }
    // The end of a label is its id: the middle goes.
    let chars: Vec<char> = text.chars().collect();
    let tail = (width / 3).min(8);
    let head: String = chars.iter().take(width - tail - 1).collect();
    let end: String = chars.iter().skip(chars.len() - tail).collect();
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
