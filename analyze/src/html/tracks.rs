//! The rows of the timeline, and what stands in them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ingero_format::catalog::{StrId, TaskId};
use ingero_replay::pyramid::Pyramid;
use ingero_replay::scene::{Doing, Stretch, WokenBy};
use ingero_replay::{ProcessId, syscall_name};
use serde_json::{Map, Value, json};

use super::gather::{Gathered, Part, Track};
use super::grid::Grid;
use super::pack::Pack;
use super::sights::sights;
use crate::report::{Options, short, shown};
use crate::{Analysis, printable};

/// Processes with rows of their own at most, threads of each, and threads in all.
const PROCESSES: usize = 80;
const THREADS_EACH: usize = 48;
pub(super) const THREADS: usize = 200;
/// CPUs with a row at most.
pub(super) const CPUS: usize = 512;
/// Tasks that are named at most: those that had the CPUs longest.
const NAMED: usize = 4000;
/// Characters of a name.
const NAME: usize = 60;

/// States of a thread by their number in the data.
const RUNNING: u64 = 0;
const RUNNABLE: u64 = 1;
const BLOCKED: u64 = 2;
const THROTTLED: u64 = 3;
const OFF_CPU: u64 = 4;
/// Added to a state that began before its stretch, ends after it, or whose beginning was made up.
const BEFORE: u64 = 8;
const AFTER: u64 = 16;
const MADE_UP: u64 = 32;

/// The threads that have a row, in the order of their rows, and how many of those that were seen have none.
pub(super) fn rows(a: &Analysis, options: &Options, seen: &[bool]) -> (Vec<TaskId>, usize) {
    let wanted = |id: ProcessId| options.pids.is_empty() || options.pids.contains(&a.processes.get(id).pid);
    let is_seen = |task: &TaskId| seen.get(task.index()).copied().unwrap_or(false);
    let mut evidence: Vec<TaskId> = Vec::new();
    for incident in a.incidents.iter().filter(|i| wanted(i.process)) {
        evidence.extend(sights(a, incident).into_iter().map(|s| s.task));
    }
    let mut order: Vec<ProcessId> = shown(a, options.pids, &wanted, PROCESSES);
    for &task in &evidence {
        let process = a.processes.of(task);
        if !order.contains(&process) && process != ProcessId::IDLE {
            order.push(process);
        }
    }
    let mut rows = Vec::new();
    for process in order {
        let threads = &a.processes.get(process).threads;
        let mut some: Vec<TaskId> = threads.iter().copied().filter(is_seen).collect();
        if some.len() > THREADS_EACH {
            let (mut told, rest): (Vec<_>, Vec<_>) = some.iter().partition(|task| evidence.contains(task));
            told.extend(rest.into_iter().take(THREADS_EACH.saturating_sub(told.len())));
            told.sort();
            some = told;
        }
        rows.extend(some);
    }
    let all = (0..).map(TaskId).zip(seen).filter(|(task, seen)| **seen && *task != TaskId(0));
    let all = all.filter(|(task, _)| wanted(a.processes.of(*task))).count();
    // Whoever shows a cause stays.
    let mut spare = rows.len().saturating_sub(THREADS);
    let mut kept: Vec<TaskId> = Vec::new();
    for task in rows.into_iter().rev() {
        if spare > 0 && !evidence.contains(&task) {
            spare -= 1;
        } else {
            kept.push(task);
        }
    }
    kept.reverse();
    let of_wanted = kept.iter().filter(|task| wanted(a.processes.of(**task))).count();
    (kept, all.saturating_sub(of_wanted))
}

/// Names by number: what the script shows of tasks, processes, functions, system calls, ranges and GPUs' work.
struct Names<'a> {
    a: &'a Analysis<'a>,
    hosts: ingero_replay::Hosts,
    tasks: HashMap<TaskId, u64>,
    processes: HashMap<ProcessId, u64>,
    syscalls: BTreeMap<u64, u64>,
    task_rows: Vec<Value>,
    process_rows: Vec<Value>,
    syscall_rows: Vec<Value>,
    labels: HashMap<(Option<StrId>, &'static str), u64>,
    label_rows: Vec<Value>,
}

impl<'a> Names<'a> {
    fn new(a: &'a Analysis<'a>) -> Self {
        // Number 0 stands for whoever is not named.
        Self {
            a,
            hosts: ingero_replay::Hosts::new(a.trace),
            tasks: HashMap::new(),
            processes: HashMap::new(),
            syscalls: BTreeMap::new(),
            task_rows: vec![json!(["another thread", 0])],
            process_rows: vec![json!(["another process", 0])],
            syscall_rows: Vec::new(),
            labels: HashMap::new(),
            label_rows: vec![json!(["another name", "other"])],
        }
    }

    fn process(&mut self, id: ProcessId) -> u64 {
        if let Some(&number) = self.processes.get(&id) {
            return number;
        }
        if self.process_rows.len() >= NAMED {
            return 0;
        }
        let number = self.process_rows.len() as u64;
        let pid = self.a.processes.get(id).pid;
        self.process_rows.push(json!([short(&self.a.label(id), NAME), pid, self.hosts.of_pid(pid)]));
        self.processes.insert(id, number);
        number
    }

    fn task(&mut self, task: TaskId) -> u64 {
        if let Some(&number) = self.tasks.get(&task) {
            return number;
        }
        if self.task_rows.len() >= NAMED || task == TaskId(0) {
            return 0;
        }
        let process = self.process(self.a.processes.of(task));
        let number = self.task_rows.len() as u64;
        self.task_rows.push(json!([short(&self.a.thread_label(task), NAME), process]));
        self.tasks.insert(task, number);
        number
    }

    /// What a stretch is called, and what is done in it.
    fn label(&mut self, name: Option<StrId>, class: &'static str) -> u64 {
        if let Some(&number) = self.labels.get(&(name, class)) {
            return number;
        }
        if self.label_rows.len() >= NAMED {
            return 0;
        }
        let number = self.label_rows.len() as u64;
        let text = name.map_or_else(|| "unknown name".to_owned(), |name| printable(self.a.trace.string(name)));
        self.label_rows.push(json!([short(&text, NAME), class]));
        self.labels.insert((name, class), number);
        number
    }

    /// One more than the number of a system call's name; 0 where it is unknown.
    fn syscall(&mut self, number: Option<u64>) -> u64 {
        let Some(number) = number else { return 0 };
        let (rows, trace) = (&mut self.syscall_rows, self.a.trace);
        let at = self.syscalls.entry(number).or_insert_with(|| {
            let name = syscall_name(ingero_replay::machine(trace), number);
            rows.push(json!(name));
            rows.len() as u64
        });
        *at
    }
}

/// Packs everything that the timeline shows.
pub(super) fn pack(
    a: &Analysis,
    options: &Options,
    grid: Grid,
    rows: &[TaskId],
    hidden: usize,
    gathered: &Gathered,
    pyramid: Option<&Pyramid>,
) -> std::io::Result<String> {
    let mut pack = Pack::default();
    let mut names = Names::new(a);
    for &task in rows {
        names.task(task);
    }
    let busiest = busiest(gathered);
    for &process in &busiest {
        names.process(process);
    }
    pack_states(&mut pack, &mut names, grid, rows, gathered);
    pack_calls(&mut pack, rows, grid, &gathered.parts);
    let cpus: Vec<u32> = gathered.on_cpus.keys().copied().take(CPUS).collect();
    let cpu_hosts: Vec<usize> = cpus.iter().map(|&cpu| names.hosts.of_cpu(cpu)).collect();
    pack_runs(&mut pack, &mut names, &cpus, grid, &gathered.parts);
    let called = match pyramid {
        Some(pyramid) => pack_columns(&mut pack, &mut names, grid, rows, &cpus, pyramid, gathered.undivided),
        None => Vec::new(),
    };
    let wanted = |id: ProcessId| options.pids.is_empty() || options.pids.contains(&a.processes.get(id).pid);
    let (gpus, gpus_hidden) = pack_named(&mut pack, &mut names, grid, rows, gathered, &wanted);
    let rel = |ts_ns: u64| ts_ns.saturating_sub(grid.from_ns);
    let mut head = Map::new();
    let columns = if pyramid.is_some() { grid.columns() } else { 0 };
    // Columns that begin within a cell have a share of it.
    let about = pyramid.is_some_and(|p| p.cell_start_ns(grid.from_ns) != grid.from_ns);
    let parts: Vec<Value> =
        gathered.parts.iter().filter(|p| p.to_ns > p.from_ns).map(|p| json!([rel(p.from_ns), rel(p.to_ns)])).collect();
    let (phases, incidents) = (phases(a, grid, &wanted), incidents(a, &mut names, grid, &wanted));
    let functions: Vec<Value> =
        a.trace.functions().iter().map(|f| json!([short(&f.symbol, NAME), f.layer.name(), f.class.name()])).collect();
    let start_unix_ns = a.start_unix_ns.map(|ns| ns.saturating_add(grid.from_ns - a.window.trace_start_ns));
    let entries = [
        ("offset", json!(grid.from_ns - a.window.trace_start_ns)),
        ("len", json!(grid.to_ns - grid.from_ns)),
        ("wall", json!(start_unix_ns.filter(|_| options.wall).map(|ns| ns.to_string()))),
        ("sampled", json!(a.sampled())),
        ("lost", lost(a, grid)),
        ("undivided", json!(gathered.undivided)),
        ("columns", json!(columns)),
        ("width", json!(grid.width_ns)),
        ("about", json!(about)),
        ("parts", json!(parts)),
        ("rows", json!(rows.iter().map(|&task| names.task(task)).collect::<Vec<_>>())),
        ("hidden", json!(hidden)),
        ("called", json!(called)),
        ("cpus", json!(cpus)),
        ("cpuHosts", json!(cpu_hosts)),
        ("gpus", json!(gpus)),
        ("gpusHidden", json!(gpus_hidden)),
        ("labels", json!(names.label_rows)),
        ("phases", phases),
        ("incidents", incidents),
        ("functions", json!(functions)),
        ("busiest", json!(busiest.iter().map(|&id| names.process(id)).collect::<Vec<_>>())),
        ("tasks", json!(names.task_rows)),
        ("processes", json!(names.process_rows)),
        ("syscalls", json!(names.syscall_rows)),
    ];
    head.extend(entries.map(|(key, value)| (key.to_owned(), value)));
    pack.finish(head)
}

/// Stretches with losses that are marked at most.
const LOST: usize = 500;

/// Stretches in which events were lost on which states or calls hang: begin, end, what was lost, and of which host if of one of
/// several.
fn lost(a: &Analysis, grid: Grid) -> Value {
    let parts = a.losses.hidden(grid.from_ns, grid.to_ns);
    let row = |l: &&ingero_replay::Lost| {
        let (from, to) = (l.from_ns.max(grid.from_ns), l.to_ns.saturating_add(1).clamp(grid.from_ns, grid.to_ns));
        let what = format!("{}; {}", l.words(a.trace), l.hidden(a.trace));
        json!([from - grid.from_ns, to.max(from) - grid.from_ns, what, l.host])
    };
    parts.iter().take(LOST).map(row).collect()
}

/// Processes that had the CPUs longest, first of all.
pub(super) fn busiest(gathered: &Gathered) -> Vec<ProcessId> {
    const MOST: usize = 7;
    let mut sums: BTreeMap<ProcessId, u64> = BTreeMap::new();
    for (&process, &ns) in gathered.on_cpus.values().flatten() {
        let sum = sums.entry(process).or_default();
        *sum = sum.saturating_add(ns);
    }
    let mut order: Vec<_> = sums.into_iter().collect();
    order.sort_by_key(|&(id, ns)| (std::cmp::Reverse(ns), id));
    order.into_iter().take(MOST).map(|(id, _)| id).collect()
}

fn phases(a: &Analysis, grid: Grid, wanted: &impl Fn(ProcessId) -> bool) -> Value {
    let phases = a.phases.iter().filter(|p| wanted(p.phase.process));
    let row = |p: &crate::PhaseFigures| {
        let (from, to) = (p.phase.start_ns.max(grid.from_ns), p.phase.end_ns.min(grid.to_ns).max(grid.from_ns));
        json!([
            p.number,
            p.phase.label(),
            short(&a.label(p.phase.process), NAME),
            from - grid.from_ns,
            to - grid.from_ns
        ])
    };
    phases.map(row).collect()
}

fn incidents(a: &Analysis, names: &mut Names, grid: Grid, wanted: &impl Fn(ProcessId) -> bool) -> Value {
    let mut rows = Vec::new();
    for incident in a.incidents.iter().filter(|i| wanted(i.process)) {
        let clip = |ts_ns: u64| ts_ns.clamp(grid.from_ns, grid.to_ns) - grid.from_ns;
        let marks: Vec<Value> = sights(a, incident)
            .iter()
            .map(|s| json!([printable(&s.text), names.task(s.task), clip(s.start_ns), clip(s.end_ns)]))
            .collect();
        let summary = printable(&incident.summary);
        rows.push(json!([incident.id(a), incident.kind, incident.severity.name(), summary, marks, incident.phase]));
    }
    Value::Array(rows)
}

/// Packs the columns of threads and CPUs. Returns the rows of threads with calls, in the order in which theirs are packed.
fn pack_columns(
    pack: &mut Pack,
    names: &mut Names,
    grid: Grid,
    rows: &[TaskId],
    cpus: &[u32],
    pyramid: &Pyramid,
    undivided: bool,
) -> Vec<usize> {
    let columns = grid.columns();
    let to_ns = grid.from_ns.saturating_add(grid.width_ns.saturating_mul(columns as u64));
    let mut called = Vec::new();
    for (row, &task) in rows.iter().enumerate() {
        let has_calls = pyramid.has_calls(task);
        if has_calls {
            called.push(row);
        }
        for cell in pyramid.row(task, grid.from_ns, to_ns, columns) {
            pack.push("z.running", cell.running_ns);
            pack.push("z.runnable", cell.runnable_ns);
            pack.push("z.throttled", cell.throttled_ns);
            pack.push("z.blocked", cell.blocked_ns);
            if undivided {
                pack.push("z.offCpu", cell.off_cpu_ns);
            }
            if has_calls {
                pack.push("k.ns", cell.call_ns);
                pack.push("k.who", cell.func.map_or(0, |func| u64::from(func.0) + 1));
            }
        }
    }
    for &cpu in cpus {
        for cell in pyramid.cpu_row(cpu, grid.from_ns, to_ns, columns) {
            pack.push("q.ns", cell.busy_ns);
            pack.push("q.who", cell.task.map_or(0, |task| names.task(task)));
        }
    }
    called
}

/// A stretch as far as its part knows it: begin, end, and what is added to its state.
fn within(part: &Part, s: &Stretch) -> Option<(u64, u64, u64)> {
    let end_ns = s.end_ns.unwrap_or(part.last_ns.max(s.start_ns));
    let (from, to) = (s.start_ns.max(part.from_ns), end_ns.min(part.to_ns));
    if from > to || s.start_ns >= part.to_ns {
        return None;
    }
    let mut flags = 0;
    if s.before || s.start_ns < part.from_ns {
        flags += BEFORE;
    }
    if s.end_ns.is_none_or(|end| end > part.to_ns) {
        flags += AFTER;
    }
    if s.synthesised {
        flags += MADE_UP;
    }
    Some((from, to, flags))
}

fn pack_states(pack: &mut Pack, names: &mut Names, grid: Grid, rows: &[TaskId], gathered: &Gathered) {
    let mut of: BTreeMap<TaskId, Vec<[u64; 5]>> = rows.iter().map(|&task| (task, Vec::new())).collect();
    for part in &gathered.parts {
        for s in &part.stretches {
            let Some(list) = of.get_mut(&s.task) else { continue };
            let Some((from, to, flags)) = within(part, s) else { continue };
            let cpu = |cpu: Option<u32>| cpu.map_or(0, |cpu| u64::from(cpu) + 1);
            let (state, first, second) = match &s.doing {
                Doing::Running { cpu: on } => (RUNNING, cpu(Some(*on)), 0),
                Doing::Runnable { cpu: on, behind, .. } => {
                    (RUNNABLE, cpu(*on), behind.first().map_or(0, |&(task, _)| names.task(task)))
                }
                Doing::Blocked { syscall, waker, .. } => {
                    let waker = match waker {
                        WokenBy::Unknown | WokenBy::NoMoreKnown => 0,
                        WokenBy::Interrupt(_) => 1,
                        WokenBy::Task(task) => names.task(*task) + 2,
                    };
                    (BLOCKED, names.syscall(*syscall), waker)
                }
                Doing::Throttled => (THROTTLED, 0, 0),
                Doing::OffCpu => (OFF_CPU, 0, 0),
                // What programs say of themselves comes apart from these.
                Doing::Range { .. } | Doing::Mark { .. } | Doing::Calling { .. } | Doing::Woke { .. } => continue,
            };
            list.push([from, to, state + flags, first, second]);
        }
    }
    for &(task, from, to) in &gathered.stored_stays {
        if let Some(list) = of.get_mut(&task) {
            list.push([from, to, OFF_CPU, 0, 0]);
        }
    }
    for task in rows {
        let mut list = of.remove(task).unwrap_or_default();
        list.sort_unstable();
        pack.push("s.count", list.len() as u64);
        let mut last = grid.from_ns;
        for [from, to, state, first, second] in list {
            // Stretches of a damaged file may overlap: the later one is cut.
            let from = from.max(last);
            let to = to.max(from);
            for (stream, number) in ["s.gap", "s.len", "s.state", "s.where", "s.whom"].into_iter().zip([
                from - last,
                to - from,
                state,
                first,
                second,
            ]) {
                pack.push(stream, number);
            }
            last = to;
        }
    }
}

/// Streams of stretches that may stand in one another: how many a row has, then of each its begin, length, what it is, how it
/// ended, and its lane.
pub(super) type Nested = [&'static str; 6];
const CALL_STREAMS: Nested = ["c.count", "c.gap", "c.len", "c.func", "c.how", "c.depth"];
pub(super) const NAMED_STREAMS: Nested = ["n.count", "n.gap", "n.len", "n.func", "n.how", "n.depth"];
const GPU_STREAMS: Nested = ["g.count", "g.gap", "g.len", "g.func", "g.how", "g.depth"];
/// How a stretch ended: it did not, or past what is shown.
const OPEN: u64 = 2;
const CUT: u64 = 4;

fn pack_calls(pack: &mut Pack, rows: &[TaskId], grid: Grid, parts: &[Part]) {
    let mut of: BTreeMap<TaskId, Vec<[u64; 4]>> = rows.iter().map(|&task| (task, Vec::new())).collect();
    for part in parts {
        for s in &part.stretches {
            let Doing::Calling { func, returned, result } = &s.doing else { continue };
            let Some(list) = of.get_mut(&s.task) else { continue };
            let Some((from, to, _)) = within(part, s) else { continue };
            // An entry without a return has no length.
            let end = if *returned { to } else { from };
            let cut = u64::from(*returned && (s.start_ns < from || s.end_ns.is_some_and(|end| end > to)));
            let how = if *returned { u64::from(result.is_some_and(|r| r != 0)) + CUT * cut } else { OPEN };
            list.push([from, end, u64::from(func.0), how]);
        }
    }
    for task in rows {
        pack_nested(pack, CALL_STREAMS, grid, of.remove(task).unwrap_or_default());
    }
}

/// Packs a row of stretches (begin, end, what, how). Each stands in the first lane that is free: inner ones below outer ones.
pub(super) fn pack_nested(pack: &mut Pack, streams: Nested, grid: Grid, mut list: Vec<[u64; 4]>) {
    // Whoever begins at the same moment and ends later is around the other.
    list.sort_unstable_by_key(|&[from, to, what, how]| (from, std::cmp::Reverse(to), what, how));
    let [count, rest @ ..] = streams;
    pack.push(count, list.len() as u64);
    let mut last = grid.from_ns;
    // Until when each lane is taken.
    let mut lanes: Vec<u64> = Vec::new();
    for [from, to, what, how] in list {
        let free = lanes.iter().position(|&until| until <= from).unwrap_or(lanes.len());
        match lanes.get_mut(free) {
            Some(until) => *until = to,
            None => lanes.push(to),
        }
        for (stream, number) in rest.into_iter().zip([from - last, to - from, what, how, free as u64]) {
            pack.push(stream, number);
        }
        last = from;
    }
}

/// GPUs' streams with a row at most.
const GPU_ROWS: usize = 64;

/// Packs what programs named, by thread, and what GPUs did, by stream. Returns the names of the rows of GPUs, and how many have none.
fn pack_named(
    pack: &mut Pack,
    names: &mut Names,
    grid: Grid,
    rows: &[TaskId],
    gathered: &Gathered,
    wanted: &impl Fn(ProcessId) -> bool,
) -> (Vec<String>, usize) {
    let mut of: BTreeMap<Track, Vec<[u64; 4]>> = rows.iter().map(|&task| (Track::Thread(task), Vec::new())).collect();
    let submitters: BTreeSet<ProcessId> = gathered
        .named
        .iter()
        .filter_map(|n| match n.track {
            Track::Gpu { process, .. } => process,
            Track::Thread(_) => None,
        })
        .collect();
    let only = submitters.first().copied().filter(|_| submitters.len() == 1);
    for n in &gathered.named {
        let list = match n.track {
            Track::Thread(_) => of.get_mut(&n.track),
            Track::Gpu { process, device, stream } => {
                // Work of which nobody knows who gave it to the GPU is that of the only one who does so.
                let process = process.or(only);
                let track = Track::Gpu { process, device, stream };
                process.is_none_or(wanted).then(|| of.entry(track).or_default())
            }
        };
        let Some(list) = list else { continue };
        let how = if n.is_open { OPEN } else { CUT * u64::from(n.is_cut) };
        list.push([n.from_ns, n.to_ns, names.label(n.name, n.class), how]);
    }
    for &task in rows {
        pack_nested(pack, NAMED_STREAMS, grid, of.remove(&Track::Thread(task)).unwrap_or_default());
    }
    let hidden = of.len().saturating_sub(GPU_ROWS);
    let mut labels = Vec::new();
    for (track, list) in of.into_iter().take(GPU_ROWS) {
        let Track::Gpu { process, device, stream } = track else { continue };
        let mut label = format!("GPU {device}");
        if let Some(stream) = stream {
            label += &format!(", stream {stream}");
        }
        if let Some(process) = process.filter(|_| submitters.len() > 1) {
            label += &format!(" ({})", names.a.processes.get(process).pid);
        }
        labels.push(label);
        pack_nested(pack, GPU_STREAMS, grid, list);
    }
    (labels, hidden)
}

fn pack_runs(pack: &mut Pack, names: &mut Names, cpus: &[u32], grid: Grid, parts: &[Part]) {
    let mut of: BTreeMap<u32, Vec<(u64, u64, TaskId)>> = cpus.iter().map(|&cpu| (cpu, Vec::new())).collect();
    for part in parts {
        for s in &part.stretches {
            let Doing::Running { cpu } = &s.doing else { continue };
            if let (Some((from, to, _)), Some(list)) = (within(part, s), of.get_mut(cpu)) {
                list.push((from, to, s.task));
            }
        }
    }
    for cpu in cpus {
        let mut list = of.remove(cpu).unwrap_or_default();
        list.sort_unstable();
        pack.push("p.count", list.len() as u64);
        let mut last = grid.from_ns;
        for (from, to, task) in list {
            let from = from.max(last);
            let to = to.max(from);
            for (stream, number) in
                ["p.gap", "p.len", "p.who"].into_iter().zip([from - last, to - from, names.task(task)])
            {
                pack.push(stream, number);
            }
            last = to;
        }
    }
}
