//! `get_timeline`: what a thread or a CPU did from one time to another.

use ingero_analyze::Losses;
use ingero_analyze::report::duration;
use ingero_format::catalog::{Call, Kind, Layer, StrId, TaskId};
use ingero_replay::scene::{Cast, Doing, Queued, Scene, Stretch, WokenBy};
use ingero_replay::{
    self as replay, CallSpan, Cpus, Event, Hosts, Lost, OffCpu, Run, Sink, Spent, StoredStay, Undivided, Window,
    syscall_name,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::knowledge::{Knowledge, Unknown};
use super::part::Part;
use super::{TypedTool, counted, known_pid, known_tid, notes, seconds};
use crate::figures::Range;
use crate::names::MAX_CHARS;
use crate::page::{LeftOut, Paging};
use crate::problem::Problem;
use crate::recording::Opened;
use crate::shelf::Shelf;
use crate::words::{NAME_CHARS, SENTENCE_CHARS, clean, named, quoted, quoted_to};

pub(super) struct Timeline;

/// Whose timeline, and which part of it.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Args {
    #[serde(flatten)]
    pub(super) part: Part,
    /// Thread id. Give one of tid, pid and cpu.
    pub(super) tid: Option<u32>,
    /// Process id: all its threads.
    pid: Option<u32>,
    /// CPU: who ran on it, waited for it, woke others from it.
    cpu: Option<u32>,
    /// What to show: states, calls, wakes, marks; without it all four.
    #[serde(default)]
    only: Option<Vec<What>>,
    #[serde(flatten)]
    pub(super) page: Paging,
}

/// A kind of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum What {
    /// Running, runnable, blocked, throttled; off-cpu where the source does not tell which.
    States,
    /// Calls of watched functions.
    Calls,
    /// Wakes of other threads.
    Wakes,
    /// What programs say of themselves: ranges and marks by NVTX, spans of a profiler, lines of the file that
    /// INGERO_MARKS names.
    Marks,
}

/// What was done, in the order of its beginning.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Output {
    /// The range.
    range: Range,
    /// Time by state within the range, over all rows, shown or not, where no events were lost; of several threads added up. Null
    /// where the recording holds no context switches of the host, all of the range are lost, or the host did not record then: then
    /// no state is known.
    spent: Option<Sums>,
    /// Time off the CPUs within the range by the stays that the source stored in place of context switches, blocked or
    /// waiting for a CPU; of several threads added up. Null where there are none such. A source that keeps a sample
    /// stores only some.
    stored_off_cpu_ns: Option<u64>,
    /// Stretches within the range in which events were lost: a thread or CPU without a row there was not idle, nothing is known
    /// of it. At most twenty.
    lost: Vec<Missing>,
    /// The rows.
    rows: Vec<Shown>,
    /// What was left out of them.
    left_out: LeftOut,
    /// What the recording cannot show.
    caveats: Vec<String>,
}

/// A stretch in which events were lost.
#[derive(Debug, Serialize, JsonSchema)]
struct Missing {
    /// Kind of event, or what lost them: data from the recording.
    what: String,
    /// Why.
    cause: &'static str,
    /// How many; null where nobody could count them.
    count: Option<u64>,
    /// CPU on which they happened; null where it was not one alone. The states of threads on other CPUs hang on them too.
    cpu: Option<u32>,
    /// The host that they are of, in a recording of several; none where they may be of any.
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    /// First instant.
    from_ns: u64,
    /// Last instant.
    to_ns: u64,
    /// What is not known for want of them.
    hidden: &'static str,
}

impl Missing {
    fn new(opened: &Opened, lost: &Lost, start_ns: u64) -> Self {
        let hosts = Hosts::new(&opened.trace);
        Self {
            what: clean(&lost.what, NAME_CHARS),
            cause: lost.cause,
            count: lost.count,
            cpu: lost.cpu,
            host: lost.host.and_then(|host| hosts.get(host).map(|host| clean(&host.label, NAME_CHARS))),
            from_ns: lost.from_ns.saturating_sub(start_ns),
            to_ns: lost.to_ns.saturating_sub(start_ns),
            hidden: lost.hidden(&opened.trace),
        }
    }

    fn words(&self) -> String {
        let count = self.count.map_or_else(|| "an unknown number of".to_owned(), ingero_analyze::report::count);
        let cpu = self.cpu.map_or_else(String::new, |cpu| format!(" of CPU {cpu}"));
        let (from, to) = (seconds(self.from_ns), seconds(self.to_ns));
        let what = named(&self.what);
        let host = self.host.as_deref().map_or_else(String::new, |host| format!(" of {}", named(host)));
        format!("EVENTS LOST {from} to {to}: {count} {what} events{cpu}{host} ({}); {}", self.cause, self.hidden)
    }
}

/// Time by state.
#[derive(Debug, Default, Serialize, JsonSchema)]
struct Sums {
    /// On a CPU.
    running_ns: u64,
    /// Could have run, had no CPU.
    runnable_ns: u64,
    /// Held back by a CPU quota.
    throttled_ns: u64,
    /// Waited for something else.
    blocked_ns: u64,
    /// Off the CPUs: whether for want of one or of something else is not known, since wakes were lost.
    off_cpu_ns: u64,
}

/// One stretch of one thread. Times count from the recording's start and are not cut to the range.
#[derive(Debug, Serialize, JsonSchema)]
struct Shown {
    /// running, runnable, blocked, throttled, off-cpu, call, woke, range or mark.
    what: &'static str,
    /// The thread; absent for a mark of the whole recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    thread: Option<Person>,
    /// Begin.
    start_ns: u64,
    /// Length; absent where it does not end within the recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    dur_ns: Option<u64>,
    /// Present where it began earlier still, nobody saw when.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    began_before: bool,
    /// CPU that it ran on or waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu: Option<u32>,
    /// System call that it was blocked in.
    #[serde(skip_serializing_if = "Option::is_none")]
    blocked_in: Option<String>,
    /// How the state came about, or ended where it is blocked: woken by whom, preempted.
    #[serde(skip_serializing_if = "Option::is_none")]
    because: Option<String>,
    /// Who ended the block, where it was a thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    woken_by: Option<Person>,
    /// Who had the CPU meanwhile, within the range, largest first, at most five.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    behind: Vec<Holder>,
    /// Name of a range, text of a mark: data from the recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// Function that was called.
    #[serde(skip_serializing_if = "Option::is_none")]
    function: Option<String>,
    /// Layer of the function: runtime, driver, graph, nccl.
    #[serde(skip_serializing_if = "Option::is_none")]
    layer: Option<&'static str>,
    /// Its result; absent without a return.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<i64>,
    /// Thread that was woken.
    #[serde(skip_serializing_if = "Option::is_none")]
    woke: Option<Person>,
}

/// A thread.
#[derive(Debug, Serialize, JsonSchema)]
struct Person {
    /// Thread id.
    tid: u32,
    /// Process id.
    pid: u32,
    /// Name at that time: data from the recording.
    name: String,
}

/// Who had a CPU.
#[derive(Debug, Serialize, JsonSchema)]
struct Holder {
    /// The thread.
    #[serde(flatten)]
    thread: Person,
    /// For how long.
    ns: u64,
}

/// Holders of a CPU that are shown.
const MAX_BEHIND: usize = 5;
/// Stretches with losses that are told.
const MAX_LOST: usize = 20;

impl TypedTool for Timeline {
    const NAME: &'static str = "get_timeline";
    const TITLE: &'static str = "What a thread or a CPU did";
    const DESCRIPTION: &'static str = "What one thread, one process or one CPU did from one time to another: each state \
        (running, runnable and behind whom, blocked in which system call and woken by whom, throttled), each call, each \
        wake of another thread, each NVTX range and mark, in order. Call it to check the evidence of a chain, or to follow a wait: look up who woke \
        the thread, then what that one did over the same time. Give a short range. For totals call get_trace_stats or \
        get_per_process_breakdown instead, for causes over a whole phase get_causal_chains, for aggregates of events \
        run_sql.";
    type Args = Args;
    type Output = Output;

    fn answer(shelf: &Shelf, args: Args) -> Result<(Output, String), Problem> {
        let extract = args.part.open(shelf)?;
        let (opened, window) = (&extract.opened, extract.window);
        let (cast, whose) = cast(opened, &args)?;
        let asked = args.page.asked()?;
        let size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let scene = Scene::new(window.from_ns, window.to_ns, cast.clone(), size(asked.offset), size(asked.limit));
        let others = Scene::new(window.from_ns, window.to_ns, cast.clone(), 0, 0);
        let mut watch = Watch {
            scene,
            others,
            window,
            cast: cast.clone(),
            only: args.only,
            spent: Spent::default(),
            undivided_ns: 0,
            stored_ns: 0,
            knows: Knowledge::new(opened, &cast),
        };
        let repairs = replay::Timeline::new(&opened.trace).run(&mut watch);
        let losses = Losses::of(&opened.trace, &repairs.lost_blocks);
        let hidden_parts = losses.hidden(window.from_ns, window.to_ns);
        let Spent { running_ns, runnable_ns, throttled_ns, blocked_ns } = watch.spent;
        let off_cpu_ns = watch.undivided_ns;
        let hidden = watch.others.into_page().total;
        let unknown = watch.knows.nothing(opened, &losses, window);
        // Of a host whose switches were recorded those tell all.
        let is_stored = opened.trace.has_rows(Kind::OffCpu as u16) && (unknown.is_some() || watch.stored_ns > 0);
        let stored_off_cpu_ns = is_stored.then_some(watch.stored_ns);
        let sums = Sums { running_ns, runnable_ns, throttled_ns, blocked_ns, off_cpu_ns };
        let spent = unknown.is_none().then_some(sums);
        let exited_ns = exited(opened, &watch.cast).filter(|&ns| ns < window.from_ns);
        let page = watch.scene.into_page();
        let machine = ingero_replay::machine(&opened.trace);
        let stage = Stage { opened, start_ns: window.trace_start_ns, machine };
        let rows = page.rows.iter().map(|row| stage.row(row));
        let shown = asked.fit(rows, page.total, Shown::words);

        let range = extract.range();
        let caveats = opened.caveats()?;
        let mut text = vec![format!(
            "Recording {}, {} to {}: {whose}",
            quoted_to(extract.name(), MAX_CHARS),
            seconds(range.from_ns),
            seconds(range.to_ns)
        )];
        let throttled =
            if throttled_ns > 0 { format!(", throttled {}", duration(throttled_ns)) } else { String::new() };
        let undivided = match off_cpu_ns {
            0 => String::new(),
            ns => format!(
                ", was off the CPUs {} of which it is not known whether it was blocked or waited for a CPU, since wakes were lost",
                duration(ns)
            ),
        };
        text.push(match (unknown, stored_off_cpu_ns) {
            (Some(Unknown::Apart), _) => {
                "Its host did not record in this range: no state of its threads is known.".to_owned()
            }
            (Some(Unknown::Lost), None) => {
                "Context switches were lost in all of this range: no state of any thread is known.".to_owned()
            }
            (Some(_), None) => "The recording holds no context switches: no state of any thread is known.".to_owned(),
            (Some(_), Some(ns)) => format!(
                "The recording holds no context switches, but stays off the CPUs, as its source stored them: {} of this \
                 range; blocked or waiting for a CPU, they do not tell which, and of the rest no state is known.",
                duration(ns)
            ),
            (None, _) => format!(
                "In all: ran {}, waited for a CPU {}{throttled}, blocked {}{undivided}.",
                duration(running_ns),
                duration(runnable_ns),
                duration(blocked_ns)
            ),
        });
        let lost: Vec<Missing> =
            hidden_parts.iter().take(MAX_LOST).map(|lost| Missing::new(opened, lost, window.trace_start_ns)).collect();
        text.extend(lost.iter().map(Missing::words));
        if hidden_parts.len() > MAX_LOST {
            let more = (hidden_parts.len() - MAX_LOST) as u64;
            text.push(format!(
                "{} with losses in this range: a shorter one shows them.",
                counted(more, "more stretch")
            ));
        }
        text.push(format!("{}:", counted(page.total, "row")));
        if page.total == 0 {
            text.push(match (hidden, exited_ns) {
                (0, Some(ns)) => {
                    format!("It had exited before, at {}.", seconds(ns.saturating_sub(window.trace_start_ns)))
                }
                (0, None) if unknown == Some(Unknown::Lost) => {
                    "Whoever has no row here was not idle for that: events were lost.".to_owned()
                }
                (0, None) => {
                    "Nothing is known of it in this range. Widen the range, or look at get_capture_health.".to_owned()
                }
                (n, _) => format!(
                    "None of what `only` asks for is in this range; without it there are {}.",
                    counted(n, "row")
                ),
            });
        }
        text.extend(shown.lines);
        text.extend(shown.left_out.sentence("rows"));
        text.extend(notes(&caveats));
        let output =
            Output { range, spent, stored_off_cpu_ns, lost, rows: shown.rows, left_out: shown.left_out, caveats };
        Ok((output, text.join("\n")))
    }
}

/// When the last of some threads exited, if all of them did.
fn exited(opened: &Opened, cast: &Cast) -> Option<u64> {
    let Cast::Tasks(wanted) = cast else { return None };
    let tasks = (0..).map(TaskId).zip(wanted).filter(|(_, wanted)| **wanted);
    let exits: Option<Vec<u64>> = tasks.map(|(task, _)| opened.processes.exited_ns(task)).collect();
    exits?.into_iter().max()
}

/// Whose timeline is asked for.
fn cast(opened: &Opened, args: &Args) -> Result<(Cast, String), Problem> {
    let tasks = |wanted: &dyn Fn(&ingero_format::Task) -> bool| {
        opened.trace.tasks().iter().map(|t| t.tid != 0 && wanted(t)).collect::<Vec<bool>>()
    };
    match (args.tid, args.pid, args.cpu) {
        (Some(tid), None, None) => {
            known_tid(opened, tid)?;
            Ok((Cast::Tasks(tasks(&|t| t.tid == tid)), format!("thread {tid}")))
        }
        (None, Some(pid), None) => {
            known_pid(opened, pid)?;
            Ok((Cast::Tasks(tasks(&|t| t.pid == pid)), format!("threads of process {pid}")))
        }
        (None, None, Some(cpu)) => {
            let cpus: Option<u32> = opened.trace.meta("cpus").and_then(|n| n.parse().ok());
            if cpus.is_some_and(|n| cpu >= n) {
                return Err(Problem::new(format!(
                    "no CPU {cpu} is in the recording: they are 0 to {}",
                    cpus.unwrap_or(1) - 1
                )));
            }
            Ok((Cast::Cpu(cpu), format!("CPU {cpu}")))
        }
        (None, None, None) => Err(Problem::new(
            "give tid, pid or cpu: whose timeline is it? The evidence in get_causal_chains names threads, \
             get_per_process_breakdown lists processes",
        )),
        _ => Err(Problem::new("give one of tid, pid and cpu")),
    }
}

/// Adds up all states, and keeps a page of what is wanted.
struct Watch {
    scene: Scene,
    /// What is not asked for: how much of it there is.
    others: Scene,
    window: Window,
    cast: Cast,
    only: Option<Vec<What>>,
    spent: Spent,
    undivided_ns: u64,
    stored_ns: u64,
    knows: Knowledge,
}

impl Watch {
    /// Where something belongs.
    fn place(&mut self, what: What) -> &mut Scene {
        let shows = self.only.as_ref().is_none_or(|only| only.contains(&what));
        if shows { &mut self.scene } else { &mut self.others }
    }

    /// How much of a stretch lies in the range.
    fn within(&self, from_ns: u64, to_ns: Option<u64>) -> u64 {
        let last = self.window.to_ns.min(self.window.trace_end_ns);
        to_ns.unwrap_or(last).min(last).saturating_sub(from_ns.max(self.window.from_ns))
    }

    fn is_cast(&self, task: TaskId, cpu: Option<u32>) -> bool {
        match &self.cast {
            Cast::All => true,
            Cast::Tasks(wanted) => wanted.get(task.index()).copied().unwrap_or(false),
            Cast::Cpu(wanted) => cpu == Some(*wanted),
        }
    }
}

impl Sink for Watch {
    fn event(&mut self, event: &Event) {
        self.knows.event(event);
        self.place(What::Wakes).event(event);
        self.place(What::Marks).mark(event);
    }
    fn off_cpu(&mut self, stay: &OffCpu, cpus: &Cpus) {
        let spent = stay.spent(self.window.from_ns, self.window.to_ns.min(self.window.trace_end_ns));
        match self.cast {
            // Who is blocked is on no CPU, and waits for none.
            Cast::Cpu(_) if self.is_cast(stay.task, stay.wait_cpu) => self.spent.runnable_ns += spent.runnable_ns,
            Cast::Cpu(_) => {}
            _ if self.is_cast(stay.task, None) => self.spent += spent,
            _ => {}
        }
        self.place(What::States).off_cpu(stay, cpus);
    }
    fn stored_stay(&mut self, stay: &StoredStay) {
        if self.is_cast(stay.task, None) {
            self.stored_ns = self.stored_ns.saturating_add(self.within(stay.out_ns, Some(stay.back_ns)));
        }
        self.place(What::States).stored_stay(stay);
    }
    fn undivided(&mut self, part: &Undivided) {
        if self.is_cast(part.task, None) {
            self.undivided_ns = self.undivided_ns.saturating_add(self.within(part.from_ns, part.to_ns));
        }
        self.place(What::States).undivided(part);
    }
    fn run(&mut self, run: &Run) {
        if self.is_cast(run.task, Some(run.cpu)) {
            let running_ns = self.within(run.start_ns, run.end_ns);
            self.spent += Spent { running_ns, ..Spent::default() };
        }
        self.place(What::States).run(run);
    }
    fn call(&mut self, span: &CallSpan) {
        self.place(What::Calls).call(span);
    }
    fn unreturned(&mut self, at_ns: u64, call: &Call) {
        self.place(What::Calls).unreturned(at_ns, call);
    }
}

/// Gives the rows their names.
struct Stage<'t> {
    opened: &'t Opened,
    start_ns: u64,
    /// Whose numbers of system calls the recording has.
    machine: Option<&'t str>,
}

impl Stage<'_> {
    fn person(&self, task: TaskId, at_ns: u64) -> Person {
        let trace = &self.opened.trace;
        let t = trace.task(task);
        let name = self.opened.processes.name_at(task, at_ns).map_or("?", |s| trace.string(s));
        Person { tid: t.tid, pid: t.pid, name: clean(name, NAME_CHARS) }
    }

    fn text(&self, text: Option<StrId>) -> String {
        text.map_or_else(|| "?".to_owned(), |id| clean(self.opened.trace.string(id), SENTENCE_CHARS))
    }

    fn row(&self, s: &Stretch) -> Shown {
        let mut row = Shown {
            what: "",
            thread: Some(self.person(s.task, s.start_ns)),
            start_ns: s.start_ns.saturating_sub(self.start_ns),
            dur_ns: s.end_ns.map(|end| end.saturating_sub(s.start_ns)),
            began_before: s.before,
            cpu: None,
            blocked_in: None,
            because: None,
            woken_by: None,
            behind: Vec::new(),
            text: None,
            function: None,
            layer: None,
            result: None,
            woke: None,
        };
        match &s.doing {
            Doing::Running { cpu } => {
                row.what = "running";
                row.cpu = Some(*cpu);
                row.because = s.synthesised.then(|| "its switch-in went unreported and was made up".to_owned());
            }
            Doing::Throttled => row.what = "throttled",
            Doing::OffCpu => row.what = "off-cpu",
            Doing::Range { name } => {
                row.what = "range";
                row.text = Some(self.text(*name));
            }
            Doing::Mark { text, of_thread } => {
                row.what = "mark";
                row.text = Some(self.text(*text));
                row.thread = row.thread.filter(|_| *of_thread);
            }
            Doing::Runnable { cpu, since, behind } => {
                row.what = "runnable";
                row.cpu = *cpu;
                match since {
                    Queued::Woken(waker) => self.woken(&mut row, *waker, s.start_ns),
                    Queued::Preempted => row.because = Some("preempted".to_owned()),
                    Queued::Born => row.because = Some("new".to_owned()),
                }
                let holders = behind.iter().take(MAX_BEHIND);
                row.behind = holders.map(|&(task, ns)| Holder { thread: self.person(task, s.start_ns), ns }).collect();
            }
            Doing::Blocked { syscall, waker, .. } => {
                row.what = "blocked";
                row.blocked_in = syscall.map(|n| syscall_name(self.machine, n));
                match s.end_ns {
                    Some(end_ns) => self.woken(&mut row, *waker, end_ns),
                    None => row.because = Some("nothing woke it before the recording ended".to_owned()),
                }
            }
            Doing::Calling { func, returned, result } => {
                row.what = "call";
                let function = self.opened.trace.function(*func);
                let layer = function.map_or("", |f| Layer::name(f.layer));
                let symbol = function.map_or("?", |f| f.symbol.as_str());
                row.function = Some(clean(symbol, NAME_CHARS));
                row.layer = Some(layer);
                row.result = *result;
                row.because = (!returned).then(|| "it never returned".to_owned());
            }
            Doing::Woke { wakee } => {
                row.what = "woke";
                row.woke = Some(self.person(*wakee, s.start_ns));
            }
        }
        row
    }

    fn woken(&self, row: &mut Shown, waker: WokenBy, at_ns: u64) {
        let because = match waker {
            WokenBy::Task(task) => {
                row.woken_by = Some(self.person(task, at_ns));
                return;
            }
            WokenBy::Interrupt(1) => "woken by a softirq (a timer or a device)",
            WokenBy::Interrupt(2) => "woken by an interrupt (a timer or a device)",
            WokenBy::Interrupt(_) => "woken by a non-maskable interrupt",
            WokenBy::Unknown => "woken by somebody that the recording does not name",
            WokenBy::NoMoreKnown => "what came of it is not known",
        };
        row.because = Some(because.to_owned());
    }
}

impl Person {
    fn words(&self) -> String {
        format!("{} (tid {} of {})", quoted(&self.name), self.tid, self.pid)
    }
}

impl Shown {
    fn words(&self) -> String {
        let least = if self.began_before { "at least " } else { "" };
        let length = match (self.what, self.dur_ns) {
            ("woke" | "mark", _) => String::new(),
            (_, Some(ns)) => format!(" for {least}{}", duration(ns)),
            (_, None) => " to the end of the recording".to_owned(),
        };
        let who = self.thread.as_ref().map_or_else(|| "the whole recording".to_owned(), Person::words);
        let mut out = format!("  {} {who}: {}", seconds(self.start_ns), self.what);
        if let Some(text) = &self.text {
            out.push_str(&format!(" {}", quoted_to(text, SENTENCE_CHARS)));
        }
        if let Some(function) = &self.function {
            out.push_str(&format!(" {} ({})", named(function), self.layer.unwrap_or("unknown layer")));
        }
        out.push_str(&length);
        if let Some(cpu) = self.cpu {
            out.push_str(&format!(", CPU {cpu}"));
        }
        if let Some(place) = &self.blocked_in {
            out.push_str(&format!(", in {place}"));
        }
        if let Some(waker) = &self.woken_by {
            out.push_str(&format!(", woken by {}", waker.words()));
        }
        if let Some(because) = &self.because {
            out.push_str(&format!(", {because}"));
        }
        if let Some(woke) = &self.woke {
            out.push_str(&format!(" {}", woke.words()));
        }
        if !self.behind.is_empty() {
            let behind = self.behind.iter().map(|h| format!("{} {}", h.thread.words(), duration(h.ns)));
            out.push_str(&format!(", behind {}", behind.collect::<Vec<_>>().join(", ")));
        }
        if let Some(result) = self.result.filter(|&r| r != 0) {
            out.push_str(&format!(", result {result}"));
        }
        out
    }
}
