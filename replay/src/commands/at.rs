//! `at`: one moment of a recording, and why each waiting thread waits in it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use anyhow::{Context, Result};
use ingero_format::Trace;
use ingero_format::catalog::{Body, Call, TaskId};
use ingero_format::one_line;
use ingero_replay::program::Ending;
use ingero_replay::scene::{Cast, Doing, Queued, Scene, Stretch, WokenBy};
use ingero_replay::{
    Blind, CallSpan, Cpus, Event, Hosts, Lost, OffCpu, Run, Sight, Sink, StoredStay, Timeline, Undivided, machine,
    show_wall, start_unix_ns, syscall_name,
};

use super::incomplete;
use super::threads::Threads;
use ingero_replay::wording::{grouped, length, seconds, wrapped};

/// Characters of a line at most.
const WIDTH: usize = 100;
/// Where what is said of a thread begins.
const INDENT: usize = 28;
/// Why nothing is known where events are missing.
const LOST: &str = "events were lost";

/// Shows the moment `at_ns`, of the threads in `tasks` or of all.
pub(super) fn run(threads: &Threads, at_ns: u64, tasks: Option<Vec<bool>>, out: &mut impl Write) -> Result<Ending> {
    let cast = tasks.map_or(Cast::All, Cast::Tasks);
    let hosts = Hosts::new(threads.trace);
    let mut moment = Moment {
        at_ns,
        scene: Scene::moment(at_ns, cast),
        everybody: None,
        holders: BTreeMap::new(),
        switched: vec![false; hosts.count()],
        sight: Sight::new(hosts),
    };
    if !matches!(moment.scene.cast(), Cast::All) {
        // Who is on the CPUs is shown whoever is asked for.
        moment.everybody = Some(Scene::moment(at_ns, Cast::All));
    }
    let repairs = Timeline::new(threads.trace).run(&mut moment);
    let lost = ingero_replay::lost(threads.trace, &repairs.lost_blocks);
    let hidden: Vec<&Lost> = lost.iter().filter(|l| l.hides && l.is_within(at_ns, at_ns.saturating_add(1))).collect();
    for line in moment.show(threads, &hidden) {
        writeln!(out, "{}", line.trim_end()).context("cannot write")?;
    }
    let lost_events = repairs.lost_blocks.iter().map(|l| u64::from(l.entry.header.rows)).sum();
    Ok(incomplete(threads.trace, repairs.lost_blocks.len(), lost_events))
}

struct Moment {
    at_ns: u64,
    scene: Scene,
    everybody: Option<Scene>,
    /// Who took each CPU last, as far as it was recorded.
    holders: BTreeMap<u32, TaskId>,
    /// From when on it is known who has a CPU.
    sight: Sight,
    /// By host: whether a context switch of it was recorded, whenever.
    switched: Vec<bool>,
}

impl Sink for Moment {
    fn event(&mut self, event: &Event) {
        let Body::Switch(switch) = &event.body else { return };
        if let Some(switched) = self.switched.get_mut(self.sight.hosts().of_cpu(event.cpu)) {
            *switched = true;
        }
        if event.ts_ns <= self.at_ns && self.sight.holds(event.ts_ns, event.cpu) {
            self.holders.insert(event.cpu, switch.next);
        }
    }
    fn blind(&mut self, blind: &Blind) {
        if blind.from_ns > self.at_ns {
            return;
        }
        let sight = &self.sight;
        self.holders.retain(|cpu, _| !sight.is_blind(blind, *cpu));
        self.sight.lose(blind);
    }
    fn off_cpu(&mut self, stay: &OffCpu, cpus: &Cpus) {
        self.scene.off_cpu(stay, cpus);
    }
    fn stored_stay(&mut self, stay: &StoredStay) {
        self.scene.stored_stay(stay);
    }
    fn undivided(&mut self, part: &Undivided) {
        self.scene.undivided(part);
    }
    fn run(&mut self, run: &Run) {
        self.scene.run(run);
        if let Some(everybody) = &mut self.everybody {
            everybody.run(run);
        }
    }
    fn call(&mut self, span: &CallSpan) {
        self.scene.call(span);
    }
    fn unreturned(&mut self, at_ns: u64, call: &Call) {
        self.scene.unreturned(at_ns, call);
    }
}

impl Moment {
    /// By host: why nothing is known of who runs and who waits on it; none where something is.
    fn unknown(&self, trace: &Trace, hidden: &[&Lost]) -> Vec<Option<&'static str>> {
        let why = |(host, switched): (usize, &bool)| {
            let (from_ns, to_ns) = self.sight.hosts().get(host).map_or((0, u64::MAX), |host| host.span_ns);
            match () {
                () if self.at_ns < from_ns => Some("its recording has not begun"),
                () if self.at_ns > to_ns => Some("its recording is over"),
                () if hidden.iter().any(|l| l.hides_states(trace) && l.concerns(host)) => Some(LOST),
                () if !switched => Some("no context switch was recorded"),
                () => None,
            }
        };
        self.switched.iter().enumerate().map(why).collect()
    }

    fn show(self, threads: &Threads, hidden: &[&Lost]) -> Vec<String> {
        let trace = threads.trace;
        let start_ns = trace.span_ns().map_or(0, |(start, _)| start);
        let (unknown, hosts) = (self.unknown(trace, hidden), self.sight.hosts().clone());
        let shown: BTreeSet<usize> = match self.scene.cast() {
            Cast::Tasks(tasks) => {
                let tasks = (0..).map(TaskId).zip(tasks).filter(|(_, wanted)| **wanted);
                tasks.map(|(task, _)| hosts.of_task(trace, task)).collect()
            }
            _ => (0..hosts.count()).collect(),
        };
        let rows = self.scene.into_page().rows;
        let (calls, lines) = (BTreeMap::new(), Vec::new());
        let machine = machine(trace);
        let mut report = Report { threads, at_ns: self.at_ns, hosts, machine, unknown, shown, calls, lines };
        for row in &rows {
            if let Doing::Calling { func, .. } = row.doing {
                let symbol = trace.function(func).map_or("?", |f| &f.symbol);
                report.calls.entry(row.task).or_default().push((one_line(symbol), row.start_ns));
            }
        }
        let wall = start_unix_ns(trace, self.at_ns).map_or_else(String::new, |ns| format!(", {}", show_wall(ns)));
        let at = seconds(i128::from(self.at_ns) - i128::from(start_ns));
        report.lines.push(format!("{} at {at} s{wall}", one_line(trace.path())));
        report.lines.push("\"for 2 ms of 8 ms\": for 2 ms already, 8 ms in all".to_owned());
        for lost in hidden {
            let s = |ns: u64| seconds(i128::from(ns) - i128::from(start_ns));
            let (from, to) = (s(lost.from_ns), s(lost.to_ns));
            let text = format!("EVENTS LOST here, {from} s to {to} s: {}; {}", lost.words(trace), lost.hidden(trace));
            report.lines.extend(wrapped(&text, WIDTH));
        }
        report.unknown();

        let everybody = self.everybody.map(|scene| scene.into_page().rows);
        report.cpus(everybody.as_deref().unwrap_or(&rows), &self.holders);
        report.section("runnable: wait for a CPU", &rows, |d| matches!(d, Doing::Runnable { .. }));
        report.section("throttled: held back by a CPU quota", &rows, |d| matches!(d, Doing::Throttled));
        report.section("blocked", &rows, |d| matches!(d, Doing::Blocked { .. }));
        if rows.iter().any(|row| row.doing == Doing::OffCpu) {
            let title = "off the CPUs: blocked or waiting for one, the recording does not tell which";
            report.section(title, &rows, |d| matches!(d, Doing::OffCpu));
        }
        report.lines
    }
}

struct Report<'a> {
    threads: &'a Threads<'a>,
    at_ns: u64,
    hosts: Hosts,
    /// Whose numbers of system calls the recording has.
    machine: Option<&'a str>,
    /// By host: why nothing is known of who runs and who waits on it.
    unknown: Vec<Option<&'static str>>,
    /// The hosts of whose threads it is.
    shown: BTreeSet<usize>,
    /// The calls that each thread is in, outermost first, with their entries.
    calls: BTreeMap<TaskId, Vec<(String, u64)>>,
    lines: Vec<String>,
}

impl Report<'_> {
    fn is_unknown(&self, host: usize) -> bool {
        self.unknown.get(host).is_some_and(Option::is_some)
    }

    /// Says of which hosts nothing is known here, and why.
    fn unknown(&mut self) {
        for (host, why) in self.unknown.iter().enumerate() {
            // Losses have lines of their own.
            let Some(why) = why.filter(|why| *why != LOST) else { continue };
            let of = ingero_replay::of_host(&self.hosts, Some(host));
            let text = format!("NOT KNOWN here{of}: who runs and who waits; {why}");
            self.lines.extend(wrapped(&text, WIDTH));
        }
    }

    fn cpus(&mut self, rows: &[Stretch], holders: &BTreeMap<u32, TaskId>) {
        let running: BTreeMap<u32, &Stretch> = rows
            .iter()
            .filter_map(|row| match row.doing {
                Doing::Running { cpu } => Some((cpu, row)),
                _ => None,
            })
            .collect();
        let count = self.threads.trace.meta("cpus").and_then(|n| n.parse().ok()).unwrap_or(0).min(1 << 16);
        let seen = running.keys().chain(holders.keys()).map(|cpu| cpu.saturating_add(1)).max().unwrap_or(0);
        self.lines.push(String::new());
        if self.unknown.iter().all(Option::is_some) {
            self.lines.push("on the CPUs (not known)".to_owned());
            return;
        }
        let all = count.max(seen);
        let dark = (0..all).filter(|&cpu| self.is_unknown(self.hosts.of_cpu(cpu))).count();
        let of_others = if dark > 0 { format!(", {dark} are not known") } else { String::new() };
        self.lines.push(format!("on the CPUs ({} of {all} run a thread{of_others})", running.len()));
        for cpu in 0..all {
            let (who, what) = match (running.get(&cpu), holders.get(&cpu)) {
                (Some(row), _) => {
                    let mut what = vec![format!("runs {}", self.so_far(row, "goes on to the end"))];
                    what.extend(self.in_calls(row.task));
                    (self.label(row.task), what.join("; "))
                }
                (None, Some(&TaskId(0))) if !self.is_unknown(self.hosts.of_cpu(cpu)) => {
                    ("idle".to_owned(), String::new())
                }
                (None, _) => ("not known".to_owned(), String::new()),
            };
            self.line(&format!("{cpu:>4}  {who}"), &what);
        }
    }

    fn section(&mut self, title: &str, rows: &[Stretch], wanted: impl Fn(&Doing) -> bool) {
        let processes = &self.threads.processes;
        let mut wanted: Vec<&Stretch> = rows.iter().filter(|row| wanted(&row.doing)).collect();
        wanted.sort_by_key(|row| {
            let t = self.threads.trace.task(row.task);
            (!processes.get(processes.of(row.task)).followed, t.pid, t.tid, row.task)
        });
        self.lines.push(String::new());
        let dark = self.shown.iter().all(|&host| self.is_unknown(host));
        let how_many = if dark && wanted.is_empty() { "not known".to_owned() } else { grouped(wanted.len() as u64) };
        self.lines.push(format!("{title} ({how_many})"));
        for row in wanted {
            let mut what = self.reason(row);
            what.extend(self.in_calls(row.task));
            self.line(&format!("  {}", self.label(row.task)), &what.join("; "));
        }
    }

    fn reason(&self, row: &Stretch) -> Vec<String> {
        match &row.doing {
            Doing::Blocked { syscall, waker, .. } => {
                let place = syscall.map_or_else(String::new, |n| format!("in {} ", syscall_name(self.machine, n)));
                let mut what = vec![format!("{place}{}", self.so_far(row, "nothing wakes it before the end"))];
                what.extend(row.end_ns.map(|_| format!("then {}", self.woken(*waker))));
                what
            }
            Doing::Runnable { cpu, since, behind } => {
                let queue = cpu.map_or_else(String::new, |cpu| format!(" for cpu {cpu}"));
                let mut what = vec![format!("waits{queue} {}", self.so_far(row, "gets none before the end"))];
                what.push(match behind.first() {
                    Some((task, _)) => format!("behind {}", self.label(*task)),
                    None => "nobody is known to have that CPU".to_owned(),
                });
                what.push(match since {
                    Queued::Woken(waker) => self.woken(*waker),
                    Queued::Preempted => "was preempted".to_owned(),
                    Queued::Born => "is new".to_owned(),
                });
                what
            }
            _ => vec![self.so_far(row, "to the end")],
        }
    }

    fn woken(&self, waker: WokenBy) -> String {
        waker.sentence(|task| self.label(task))
    }

    /// How long a state has lasted, and how long it lasts in all.
    fn so_far(&self, row: &Stretch, endless: &str) -> String {
        let so_far = length(self.at_ns.saturating_sub(row.start_ns));
        let least = if row.before { "at least " } else { "" };
        match row.end_ns {
            Some(end) => format!("for {least}{so_far} of {}", length(end.saturating_sub(row.start_ns))),
            None => format!("for {least}{so_far}, {endless}"),
        }
    }

    fn in_calls(&self, task: TaskId) -> Option<String> {
        let calls = self.calls.get(&task)?;
        let (names, since) = (calls.iter().map(|(name, _)| name.as_str()), calls.first()?.1);
        let names: Vec<&str> = names.collect();
        Some(format!("in {} for {}", names.join(" > "), length(self.at_ns.saturating_sub(since))))
    }

    fn label(&self, task: TaskId) -> String {
        self.threads.label(task, self.at_ns)
    }

    /// A line that begins with who, broken where it is too long.
    fn line(&mut self, who: &str, what: &str) {
        let mut head = format!("{who:<w$} ", w = INDENT - 1);
        if head.chars().count() > INDENT && !what.is_empty() {
            self.lines.push(head);
            head = " ".repeat(INDENT);
        }
        for part in wrapped(what, WIDTH - INDENT) {
            self.lines.push(format!("{head}{part}"));
            head = " ".repeat(INDENT);
        }
    }
}
