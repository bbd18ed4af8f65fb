//! What each process did, in a table and one by one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use ingero_format::catalog::Kind;
use ingero_replay::ProcessId;

use super::text::{Report, line, short};
use super::{AT_LEAST, bytes, count, duration, least};
use crate::{Analysis, ProcessFigures, ProcessTotals};

/// Processes in the short table.
const PROCESSES: usize = 15;
/// Holders named per process.
const HOLDERS: usize = 5;
/// The columns of the short table, each with the least room that it has; those that lack room go from the last one on in this
/// order: threads, pages, worst.
const COLUMNS: [(&str, usize); 7] =
    [("threads", 7), ("on CPU", 8), ("runnable", 8), ("blocked", 8), ("worst", 8), ("switches", 9), ("pages", 10)];
const LEAVE_OUT: [usize; 3] = [0, 6, 4];
/// A name's column is so wide at most, and at least so wide where columns can be left out.
const NAME: (usize, usize) = (26, 12);

/// Where the columns of the short table stand.
struct Columns {
    name: usize,
    /// Width of each; none for one that is left out.
    cells: [Option<usize>; 7],
}

impl Columns {
    fn of(rows: &[(String, [String; 7])], width: usize) -> Self {
        let mut cells = COLUMNS.map(|(_, least)| Some(least));
        for (_, row) in rows {
            for (cell, text) in cells.iter_mut().zip(row) {
                *cell = cell.map(|wide| wide.max(super::columns_of(text)));
            }
        }
        let used = |cells: &[Option<usize>; 7]| cells.iter().flatten().map(|wide| wide + 1).sum::<usize>();
        for (n, &at) in LEAVE_OUT.iter().enumerate() {
            // Names come before the number of threads.
            let least = if n == 0 { NAME.0 } else { NAME.1 };
            if used(&cells) + least > width
                && let Some(cell) = cells.get_mut(at)
            {
                *cell = None;
            }
        }
        Self { name: width.saturating_sub(used(&cells)).min(NAME.0), cells }
    }

    fn row(&self, name: &str, cells: &[String; 7]) -> String {
        let mut out = super::padded(&short(name, self.name), self.name);
        for (wide, text) in self.cells.iter().zip(cells).filter_map(|(wide, text)| Some(((*wide)?, text))) {
            let _ = write!(out, " {:1$}{text}", "", wide.saturating_sub(super::columns_of(text)));
        }
        out
    }
}

/// A cell of something that may not be known.
fn cell(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

/// Processes that a person wants to see, those with CUDA calls first, then by their time.
pub(crate) fn shown(a: &Analysis, pids: &[u32], wanted: &impl Fn(ProcessId) -> bool, most: usize) -> Vec<ProcessId> {
    let feeding: BTreeSet<ProcessId> = a.phases.iter().map(|p| p.phase.process).collect();
    let related = |id: ProcessId| a.processes.line(id).any(|of| feeding.contains(&of));
    let mut ids: Vec<ProcessId> = a.active().into_iter().filter(|&id| wanted(id)).collect();
    if pids.is_empty() && most == usize::MAX {
        ids.retain(|&id| related(id) || a.processes.get(id).followed || is_to_blame(a, id));
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
fn is_to_blame(a: &Analysis, id: ProcessId) -> bool {
    a.phases.iter().any(|p| {
        let held = |of: Option<ProcessId>| {
            let links = p.chains.links().flat_map(|(_, link)| &link.behind);
            crate::sum(links.filter(|(id, _)| of.is_none_or(|of| of == **id)).map(|(_, &ns)| ns))
        };
        let ns = held(Some(id));
        ns > 0 && ns.saturating_mul(10) >= held(None)
    })
}

impl Report<'_> {
    /// The short table.
    pub(super) fn table(&mut self, pids: &[u32], wanted: &impl Fn(ProcessId) -> bool) {
        let a = self.a;
        let ids = shown(a, pids, wanted, PROCESSES);
        line!(self, "");
        if ids.is_empty() {
            self.wrapped("", &super::nothing_of_processes(a, wanted));
            return;
        }
        let cells = |id: ProcessId| {
            let f = a.figures(id);
            let (s, exact) = (f.off_cpu.spent, !a.sampled_of(id));
            let (off, allocs) = f.totals.as_ref().map_or((None, None), |t| (t.off_cpu, t.page_allocs));
            let (knows_states, has_pages) = (a.knows_states_of(id), a.knows_page_allocs_of(id));
            let at_least = a.at_least_of(id);
            let of_states = |text: String| least(at_least.states, &text);
            let of_switches = |text: String| least(at_least.switches, &text);
            let known = |ns: u64| cell(knows_states.then(|| of_states(duration(ns))));
            let worst = if exact { f.off_cpu.worst_ns().filter(|_| knows_states) } else { off.and_then(|t| t.max_ns) };
            let switches = if exact { knows_states.then_some(f.context_switches) } else { off.map(|t| t.count) };
            let pages = if exact { has_pages.then_some(f.page_allocs) } else { allocs.map(|t| t.count) };
            [
                a.processes.get(id).threads.len().to_string(),
                cell(knows_states.then(|| of_switches(duration(f.on_cpu_ns)))),
                known(s.runnable_ns),
                known(s.blocked_ns),
                cell(worst.map(|ns| of_states(duration(ns)))),
                cell(switches.map(|n| of_switches(count(n)))),
                cell(pages.map(|n| least(at_least.page_allocs, &count(n)))),
            ]
        };
        let rows: Vec<_> = ids.iter().map(|&id| (a.label(id), cells(id))).collect();
        let table = Columns::of(&rows, self.width);
        let head = table.row("Process", &COLUMNS.map(|(name, _)| name.to_owned()));
        line!(self, "{}", self.bold(&head));
        for (label, cells) in &rows {
            line!(self, "{}", table.row(label, cells));
        }
        let more = a.active().into_iter().filter(|&id| wanted(id)).count() - ids.len();
        if more > 0 {
            self.wrapped("", &format!("… and {more} more (--format json has all, --pid P picks some)"));
        }
        self.wrapped(
            "",
            "runnable: could run, had no CPU. blocked: waited for something else. worst: longest stay off a CPU.",
        );
        if rows.iter().any(|(_, cells)| cells.iter().any(|cell| cell.starts_with(AT_LEAST))) {
            self.wrapped("", &format!("{AT_LEAST}: at least so much, since events are missing that it rests on."));
        }
    }

    /// A section for each process that matters: those with CUDA calls, each followed by its workers, then the others.
    pub(super) fn each_process(&mut self, pids: &[u32], wanted: &impl Fn(ProcessId) -> bool) {
        let a = self.a;
        let shown = shown(a, pids, wanted, usize::MAX);
        if shown.is_empty() {
            line!(self, "");
            self.wrapped("", &super::nothing_of_processes(a, wanted));
            return;
        }
        let mains: Vec<ProcessId> = with_phases(a, &|_| true);
        let place: BTreeMap<ProcessId, usize> = mains.iter().copied().zip(0..).collect();
        let main_of = |id: ProcessId| a.processes.line(id).filter_map(|of| place.get(&of).copied()).min();
        let mut ids: Vec<(usize, bool, u32, ProcessId)> = shown
            .into_iter()
            .map(|id| {
                let own = place.get(&id).copied();
                let rank = own.or_else(|| main_of(id)).unwrap_or(usize::MAX);
                (rank, own.is_none(), a.processes.get(id).pid, id)
            })
            .collect();
        ids.sort_unstable();
        for &(rank, is_worker, _, id) in &ids {
            let role = match mains.get(rank) {
                Some(_) if !is_worker => "main process".to_owned(),
                Some(&main) => format!("works for {}", a.label(main)),
                None if a.processes.get(id).followed => "followed".to_owned(),
                None => "not of this job; had CPUs that it needed".to_owned(),
            };
            self.process(id, &role);
        }
        line!(self, "");
        self.wrapped(
            "",
            "Of calls, mean to max are exact, by process and function. Off-CPU: stays from a switch-out to the next \
             switch-in, begun and ended within the range.",
        );
    }

    fn process(&mut self, id: ProcessId, role: &str) {
        let a = self.a;
        let (p, f) = (a.processes.get(id), a.figures(id));
        line!(self, "");
        let parent = p.parent_pid.map_or(String::new(), |pid| format!(", child of {pid}"));
        let threads = p.threads.len();
        let plural = if threads == 1 { "" } else { "s" };
        let head = format!("{}: {role}, {threads} thread{plural}{parent}", a.label(id));
        for row in super::wrap(&head, self.width) {
            line!(self, "{}", self.bold(&row));
        }
        if let Some((what, text)) = p.args.map(|s| ("command", s)).or(p.exe.map(|s| ("program", s))) {
            self.wrapped(&format!("  {what:<12}"), a.trace.string(text));
        }
        if a.sampled_of(id) {
            self.totals(f.totals.as_ref());
        } else {
            self.states(id);
        }
        self.calls(id, "  ");
    }

    fn states(&mut self, id: ProcessId) {
        let (a, f) = (self.a, self.a.figures(id));
        if a.knows_states_of(id) {
            match a.at_least_of(id) {
                crate::AtLeast { switches: true, .. } => {
                    self.wrapped("  states      ", "at least, and of what was seen: events were lost");
                }
                crate::AtLeast { states: true, .. } => {
                    self.wrapped("  states      ", "off the CPUs at least, and of what was seen: wakes were lost");
                }
                _ => {}
            }
            self.switches(id, f);
        } else {
            line!(self, "  states      unknown: no context switch can be read");
        }
        if a.knows_page_allocs_of(id) {
            line!(
                self,
                "  page allocs {}, {}",
                a.counted(id, Kind::PageAlloc, f.page_allocs),
                bytes(f.page_alloc_bytes)
            );
        }
        let behind = a.behind(id);
        if !behind.is_empty() {
            let names: Vec<String> =
                behind.iter().take(HOLDERS).map(|&(h, ns)| format!("{} {}", a.label(h), duration(ns))).collect();
            let more = behind.len().saturating_sub(HOLDERS);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            self.wrapped("  behind      ", &format!("{}{more}", names.join(", ")));
        }
    }

    fn switches(&mut self, id: ProcessId, f: &ProcessFigures) {
        let o = f.off_cpu;
        line!(self, "  switches    {}", self.a.counted(id, Kind::Switch, f.context_switches));
        let mean = cell(o.sum_ns.checked_div(o.count).map(duration));
        let worst = cell(o.worst_ns().map(duration));
        let off = format!("mean {mean}, worst {worst}; {} in {} stays", duration(o.sum_ns), count(o.count));
        let mut parts = vec![format!("runnable {}", duration(o.spent.runnable_ns))];
        if o.squeezed_ns > 0 {
            parts.push(format!("of which squeezed {}", duration(o.squeezed_ns)));
        }
        if o.spent.throttled_ns > 0 {
            parts.push(format!("throttled {}", duration(o.spent.throttled_ns)));
        }
        parts.push(format!("blocked {}", duration(o.spent.blocked_ns)));
        if o.unfinished_ns > 0 {
            parts.push(format!("and at least {} begun before the range or not ended in it", duration(o.unfinished_ns)));
        }
        self.wrapped("  off CPU     ", &off);
        self.wrapped("              ", &parts.join(", "));
        line!(self, "  on CPU      {}", duration(f.on_cpu_ns));
    }

    /// What the totals of a sampled source tell of a process.
    fn totals(&mut self, totals: Option<&ProcessTotals>) {
        let some = |ns: Option<u64>| cell(ns.map(duration));
        if let Some(off) = totals.and_then(|t| t.off_cpu) {
            let (sum, mean, worst) = (some(off.sum_ns), some(off.mean_ns()), some(off.max_ns));
            line!(self, "  switches    {}", count(off.count));
            self.wrapped("  off CPU     ", &format!("mean {mean}, worst {worst}; {sum} in {} stays", count(off.count)));
        }
        if let Some(allocs) = totals.and_then(|t| t.page_allocs) {
            line!(self, "  page allocs {}, {}", count(allocs.count), cell(allocs.bytes.map(bytes)));
        }
    }
}

/// The processes that have phases, each once, in that order.
pub(super) fn with_phases(a: &Analysis, wanted: &impl Fn(ProcessId) -> bool) -> Vec<ProcessId> {
    let mut seen = BTreeSet::new();
    a.phases.iter().map(|p| p.phase.process).filter(|&id| wanted(id) && seen.insert(id)).collect()
}
