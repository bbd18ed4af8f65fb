//! Export as folded stacks, one line each with its time in nanoseconds, as flame graph tools read them.
//!
//! A stack is a process, a thread, the frames that the source recorded, the calls that the thread was in, outermost first, and in
//! brackets the state that it was in there: where the time went, on the CPU and off it. A source without context switches has time
//! in calls, and stays off the CPUs.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::Write;

use ingero_format::Trace;
use ingero_format::catalog::{Body, Call, END_RETURNED, FuncId, Kind, TaskId};
use ingero_replay::{Cpus, Event, Merge, OffCpu, Processes, Run, Sink, Spent, StoredStay, Timeline, Undivided};

use super::selection::{KnownStates, Selection};
use crate::error::Error;
use crate::input::Progress;

/// What an export did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Exported {
    /// Lines.
    pub stacks: u64,
    /// Parts of the trace that could not be read.
    pub damaged: u64,
}

/// Writes the time of every selected thread by stack and state.
///
/// # Errors
/// [`Error::Io`] when `out` does not take the bytes.
pub fn export(trace: &Trace, selection: &Selection, out: impl Write, progress: &Progress) -> Result<Exported, Error> {
    let processes = Processes::new(trace);
    let recorded = Recorded::read(trace);
    let mut sink = StackSink {
        recorded: &recorded,
        selection,
        progress,
        trace_end_ns: trace.span_ns().map_or(0, |(_, end)| end),
        known: KnownStates::new(trace),
        told: 0,
        threads: HashMap::new(),
        stacks: BTreeMap::new(),
    };
    let repairs = Timeline::new(trace).run(&mut sink);
    sink.finish();
    progress.done();
    let mut lines = 0;
    write(trace, &processes, &recorded, &sink.stacks, out, &mut lines)
        .map_err(|e| Error::io(crate::output::WRITING, e))?;
    Ok(Exported { stacks: lines, damaged: (repairs.lost_blocks.len() + trace.damage().len()) as u64 })
}

/// A thread, the stack that was recorded of it there, and its calls.
type Stacks = BTreeMap<(TaskId, Option<u64>, Vec<FuncId>), Times>;

/// Where the time of a stack went.
#[derive(Debug, Default, Clone, Copy)]
struct Times {
    spent: Spent,
    /// Of a source that has no states: time in calls.
    in_call_ns: u64,
    /// Of such a source, or where wakes are missing: off the CPUs, be it in a call or not.
    off_cpu_ns: u64,
}

/// The stacks that a source recorded.
#[derive(Debug, Default)]
struct Recorded {
    /// By the begin of an event, and its thread.
    at: HashMap<(u64, TaskId), u64>,
    /// What stands for each, outermost frame first.
    frames: HashMap<u64, String>,
}

impl Recorded {
    fn read(trace: &Trace) -> Self {
        let mut this = Self::default();
        let mut all: BTreeMap<u64, BTreeMap<u64, String>> = BTreeMap::new();
        for event in Merge::of(trace, |kind| matches!(kind, Kind::Stack | Kind::Frame)) {
            match event.body {
                Body::Stack(s) => {
                    this.at.insert((event.ts_ns, s.task), s.stack);
                }
                Body::Frame(f) => {
                    let symbol = f.symbol.map(|symbol| trace.string(symbol));
                    let file = f.file.map(|file| trace.string(file).rsplit('/').next().unwrap_or("?"));
                    let text = match (symbol, file, f.line, f.address) {
                        (Some(symbol), Some(file), Some(line), _) => format!("{symbol} ({file}:{line})"),
                        (Some(symbol), ..) => symbol.to_owned(),
                        (None, Some(file), _, Some(address)) => format!("{file} {address:#x}"),
                        (None, Some(file), ..) => file.to_owned(),
                        (None, None, _, address) => format!("{:#x}", address.unwrap_or(0)),
                    };
                    all.entry(f.stack).or_default().insert(f.depth, frame(&text));
                }
                _ => {}
            }
        }
        let outermost_first = |frames: BTreeMap<u64, String>| frames.into_values().rev().collect::<Vec<_>>().join(";");
        this.frames = all.into_iter().map(|(stack, frames)| (stack, outermost_first(frames))).collect();
        this
    }
}

fn write(
    trace: &Trace,
    processes: &Processes,
    recorded: &Recorded,
    stacks: &Stacks,
    mut out: impl Write,
    lines: &mut u64,
) -> std::io::Result<()> {
    for ((task, recorded_stack, calls), times) in stacks {
        let id = processes.of(*task);
        let text = |id| processes.process_name_at(id, u64::MAX).map_or("?", |s| trace.string(s));
        let thread = processes.name_at(*task, u64::MAX).map_or("?", |s| trace.string(s));
        let t = trace.task(*task);
        let mut stack = format!("{} ({});{} ({})", frame(text(id)), t.pid, frame(thread), t.tid);
        if let Some(frames) = recorded_stack.and_then(|stack| recorded.frames.get(&stack)) {
            stack.push(';');
            stack.push_str(frames);
        }
        for call in calls {
            stack.push(';');
            stack.push_str(&frame(trace.function(*call).map_or("unknown function", |f| &f.symbol)));
        }
        let spent = times.spent;
        let states = [
            ("running", spent.running_ns),
            ("runnable", spent.runnable_ns),
            ("throttled", spent.throttled_ns),
            ("blocked", spent.blocked_ns),
            ("in call", times.in_call_ns),
            ("off-cpu", times.off_cpu_ns),
        ];
        for (state, ns) in states.into_iter().filter(|(_, ns)| *ns > 0) {
            *lines += 1;
            writeln!(out, "{stack};[{state}] {ns}")?;
        }
    }
    out.flush()
}

/// A name without what would end a frame or a line.
fn frame(text: &str) -> String {
    ingero_format::one_line(text).replace(';', ":")
}

/// A call that a thread is in, until its return.
struct Frame {
    start_ns: u64,
    end_ns: u64,
    func: FuncId,
    /// The stack that was recorded at its entry.
    stack: Option<u64>,
}

/// What stands for calls: their functions, and the innermost stack that was recorded.
fn key(task: TaskId, own: Option<u64>, calls: &[Frame]) -> (TaskId, Option<u64>, Vec<FuncId>) {
    let stack = own.or_else(|| calls.iter().rev().find_map(|call| call.stack));
    (task, stack, calls.iter().map(|call| call.func).collect())
}

/// The calls of a thread that its states have not passed yet.
#[derive(Default)]
struct Thread {
    /// Those that its states have not reached, in order.
    ahead: VecDeque<Frame>,
    /// Those that it is in where its states have been told to, outermost first.
    within: Vec<Frame>,
    /// Where nothing tells states: how far its time has been passed, and the stay that it is in there.
    at_ns: u64,
    away: Option<Stay>,
}

impl Thread {
    /// Tells the parts of a stretch that lie in the same calls, with these. Stretches come in order.
    fn pass(&mut self, (mut from, to): (u64, u64), mut tell: impl FnMut((u64, u64), &[Frame])) {
        loop {
            self.within.retain(|call| call.end_ns > from);
            while let Some(call) = self.ahead.pop_front_if(|call| call.start_ns <= from) {
                if call.end_ns > from {
                    self.within.push(call);
                }
            }
            if from >= to {
                return;
            }
            let entry = self.ahead.front().map(|call| call.start_ns);
            let end = self.within.iter().map(|call| call.end_ns).chain(entry).fold(to, u64::min);
            tell((from, end), &self.within);
            from = end;
        }
    }
}

/// A stay off the CPUs that the source stored in place of switches.
#[derive(Clone, Copy)]
struct Stay {
    to_ns: u64,
    stack: Option<u64>,
}

struct StackSink<'s> {
    recorded: &'s Recorded,
    selection: &'s Selection,
    progress: &'s Progress,
    trace_end_ns: u64,
    /// Of whom there are states at all.
    known: KnownStates,
    told: u64,
    threads: HashMap<TaskId, Thread>,
    stacks: Stacks,
}

impl StackSink<'_> {
    fn add(&mut self, task: TaskId, start_ns: u64, end_ns: Option<u64>, add: impl Fn(&mut Times, u64, u64)) {
        let end = end_ns.unwrap_or_else(|| self.selection.window.to_ns.min(self.trace_end_ns));
        let (from, to) = self.selection.clip((start_ns, end));
        let shown = self.selection.shows_state((from, to))
            && self.selection.shows(task)
            && self.selection.takes_kind(Kind::Switch);
        if !shown {
            return;
        }
        let stacks = &mut self.stacks;
        self.threads.entry(task).or_default().pass((from, to), |(from, to), calls| {
            add(stacks.entry(key(task, None, calls)).or_default(), from, to);
        });
    }

    /// Where nothing tells states: passes a thread's time up to here, that in calls and that off the CPUs, each instant once.
    fn advance(&mut self, task: TaskId, to_ns: u64) {
        let (thread, stacks) = (self.threads.entry(task).or_default(), &mut self.stacks);
        let to_ns = to_ns.min(self.selection.window.to_ns);
        let mut at_ns = thread.at_ns.max(self.selection.window.from_ns);
        if let Some(stay) = thread.away.take_if(|stay| stay.to_ns <= to_ns) {
            thread.pass((at_ns, stay.to_ns), |(from, to), calls| {
                stacks.entry(key(task, stay.stack, calls)).or_default().off_cpu_ns += to - from;
            });
            at_ns = at_ns.max(stay.to_ns);
        } else if let Some(Stay { stack, .. }) = thread.away {
            thread.pass((at_ns, to_ns), |(from, to), calls| {
                stacks.entry(key(task, stack, calls)).or_default().off_cpu_ns += to - from;
            });
            at_ns = at_ns.max(to_ns);
        }
        thread.pass((at_ns, to_ns), |(from, to), calls| {
            if !calls.is_empty() {
                stacks.entry(key(task, None, calls)).or_default().in_call_ns += to - from;
            }
        });
        thread.at_ns = at_ns.max(to_ns);
    }

    fn finish(&mut self) {
        let threads: Vec<TaskId> = self.threads.keys().copied().filter(|&task| !self.known.of(task)).collect();
        threads.into_iter().for_each(|task| self.advance(task, u64::MAX));
    }
}

impl Sink for StackSink<'_> {
    fn event(&mut self, _: &Event) {
        self.told += 1;
        if self.told.is_multiple_of(1 << 14) {
            self.progress.add(1 << 14);
        }
    }

    /// Calls without a return are no part of a stack: nobody knows what of the time was theirs. Time in calls that are not
    /// shown is of what is around them.
    fn enter(&mut self, at_ns: u64, call: &Call) {
        let selection = self.selection;
        let Some(dur_ns) = call.dur_ns.filter(|_| call.end == END_RETURNED) else { return };
        let Some(end_ns) = at_ns.checked_add(dur_ns) else { return };
        let shown = dur_ns >= selection.min_duration_ns && selection.takes_kind(Kind::Call);
        if shown && selection.shows(call.task) && selection.touches((at_ns, end_ns)) {
            if !self.known.of(call.task) {
                self.advance(call.task, at_ns);
            }
            let stack = self.recorded.at.get(&(at_ns, call.task)).copied();
            let frame = Frame { start_ns: at_ns, end_ns, func: call.func, stack };
            self.threads.entry(call.task).or_default().ahead.push_back(frame);
        }
    }

    fn stored_stay(&mut self, stay: &StoredStay) {
        let (from_ns, to_ns) = self.selection.clip((stay.out_ns, stay.back_ns));
        let shown = self.selection.shows_state((from_ns, to_ns)) && self.selection.takes_kind(Kind::OffCpu);
        if shown && self.selection.shows(stay.task) {
            self.advance(stay.task, from_ns);
            let stack = self.recorded.at.get(&(stay.out_ns, stay.task)).copied();
            let thread = self.threads.entry(stay.task).or_default();
            // Stays that overlap, which those of one thread do not, would be as long as the longer one.
            let to_ns = thread.away.map_or(to_ns, |before| before.to_ns.max(to_ns));
            thread.away = Some(Stay { to_ns, stack });
        }
    }

    fn run(&mut self, run: &Run) {
        self.add(run.task, run.start_ns, run.end_ns, |times, from, to| {
            times.spent += Spent { running_ns: to - from, ..Spent::default() };
        });
    }

    fn off_cpu(&mut self, stay: &OffCpu, _: &Cpus) {
        for (_, from, to) in stay.parts() {
            self.add(stay.task, from, to, |times, from, to| times.spent += stay.spent(from, to));
        }
    }

    fn undivided(&mut self, part: &Undivided) {
        self.add(part.task, part.from_ns, part.to_ns, |times, from, to| times.off_cpu_ns += to - from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ingero_format::catalog::{Class, Layer, Name};
    use ingero_replay::fixture::Fixture;

    #[test]
    fn time_stands_under_its_calls_and_states_once() {
        let mut f = Fixture::new();
        let (a, idle) = (f.task(7, 7), TaskId(0));
        let name = f.writer().string("py;\n");
        let outer = f.func("cudaMemcpy", Layer::Runtime, Class::Copy);
        let inner = f.func("cuMemcpy", Layer::Driver, Class::Copy);
        f.push(0, 0, Name { task: a, name, source: 0 });
        f.switch(0, 0, idle, 0, a);
        f.call(1_000, 0, a, outer, 5_000);
        f.call(2_000, 0, a, inner, 3_000);
        f.switch(3_000, 0, a, 1, idle);
        f.waking(3_500, 1, idle, a, 2);
        f.switch(4_000, 0, idle, 0, a);
        f.switch(9_000, 0, a, 0x10, idle);
        let trace = f.finish();
        let mut out = Vec::new();
        export(&trace, &Selection::whole(&trace), &mut out, &Progress::none()).unwrap();
        let text = String::from_utf8(out).unwrap();
        let sum: u64 = text.lines().map(|l| l.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum();
        assert_eq!(sum, 9_000, "{text}");
        assert!(text.contains("py:\\n (7);py:\\n (7);cudaMemcpy;[running] 2000\n"), "{text}");
        assert!(text.contains(";cudaMemcpy;cuMemcpy;[running] 2000\n"), "{text}");
        assert!(text.contains("(7);[running] 4000\n"), "{text}");
    }

    #[test]
    fn what_is_cut_adds_up_to_the_states_of_the_database() {
        let mut f = Fixture::new();
        let (a, idle) = (f.task(7, 7), TaskId(0));
        let outer = f.func("cudaMemcpy", Layer::Runtime, Class::Copy);
        let inner = f.func("cuMemcpy", Layer::Driver, Class::Copy);
        f.switch(0, 0, idle, 0, a);
        f.call(1_000, 0, a, outer, 15_000);
        f.call(2_000, 0, a, inner, 6_000);
        f.switch(3_000, 0, a, 1, idle);
        f.waking(3_500, 1, idle, a, 2);
        f.switch(7_000, 0, idle, 0, a);
        f.call(9_000, 0, a, inner, 10);
        f.switch(12_000, 0, a, 0, idle);
        f.switch(12_050, 0, idle, 0, a);
        f.switch(19_000, 0, a, 0x10, idle);
        let trace = f.finish();
        let dir = tempfile::tempdir().unwrap();
        for (number, (from_ns, to_ns, min_duration_ns)) in
            [(0, 20_000, 0), (1_500, 9_500, 0), (3_200, 3_900, 0), (0, 20_000, 1_000), (2_500, 12_020, 1_000)]
                .into_iter()
                .enumerate()
        {
            let window = ingero_replay::Window { from_ns, to_ns, ..ingero_replay::Window::whole(&trace) };
            let cut = crate::export::selection::Cut { min_duration_ns, ..Default::default() };
            let selection = Selection::new(&trace, window, &cut).unwrap();
            let mut out = Vec::new();
            export(&trace, &selection, &mut out, &Progress::none()).unwrap();
            let text = String::from_utf8(out).unwrap();
            let mut sums = BTreeMap::<String, u64>::new();
            for line in text.lines() {
                let (stack, ns) = line.rsplit_once(' ').unwrap();
                let state = stack.rsplit_once('[').unwrap().1.trim_end_matches(']');
                *sums.entry(state.to_owned()).or_default() += ns.parse::<u64>().unwrap();
            }
            let path = dir.path().join(format!("{number}.sqlite"));
            crate::export::sqlite::export(&trace, &selection, &path, false, &Progress::none()).unwrap();
            let db = rusqlite::Connection::open(&path).unwrap();
            let mut states = db.prepare("SELECT state, sum(dur_ns) FROM thread_states GROUP BY state").unwrap();
            let states: BTreeMap<String, u64> = states
                .query_map([], |row| Ok((row.get(0)?, u64::try_from(row.get::<_, i64>(1)?).unwrap())))
                .unwrap()
                .map(Result::unwrap)
                .collect();
            assert_eq!(sums, states, "{number}: {text}");
            // A call shorter than what is asked for leaves its time to the one around it.
            assert_eq!(text.contains("cudaMemcpy;cuMemcpy;[running] 2010\n"), number < 2, "{number}: {text}");
            // One that began before the range is in it still.
            assert!(text.contains("cudaMemcpy"), "{text}");
        }
    }

    /// A source without switches: the time in its calls and off the CPUs, each instant once, by the stacks that it recorded.
    #[test]
    fn recorded_stacks_stand_below_the_calls() {
        use ingero_format::catalog::{Frame, NO_CPU, OffCpu, Stack};
        let mut f = Fixture::new();
        f.writer().set_meta("sampled", "true");
        let a = f.task(7, 8);
        let outer = f.func("cudaMemcpy", Layer::Runtime, Class::Copy);
        let inner = f.func("cuMemcpy", Layer::Driver, Class::Copy);
        f.call(1_000, NO_CPU, a, outer, 5_000);
        f.call(2_000, NO_CPU, a, inner, 3_000);
        f.call(9_000, NO_CPU, a, outer, 500);
        // One in a call, one that a call begins in.
        f.push(3_000, NO_CPU, OffCpu { task: a, dur_ns: 1_000 });
        f.push(8_000, NO_CPU, OffCpu { task: a, dur_ns: 1_200 });
        f.push(1_000, NO_CPU, Stack { task: a, stack: 5 });
        f.push(8_000, NO_CPU, Stack { task: a, stack: 6 });
        let mut text = |text: &str| Some(f.writer().string(text));
        let (forward, file, main, library) = (text("forward"), text("/src/model.py"), text("ma;in"), text("/lib/a.so"));
        let frame = |stack, depth, symbol, file, line, address| Frame {
            stack,
            depth,
            symbol,
            file,
            line,
            address,
            language: 0,
        };
        f.push(1_000, NO_CPU, frame(5, 1, main, None, None, None));
        f.push(1_000, NO_CPU, frame(5, 0, forward, file, Some(6), None));
        f.push(8_000, NO_CPU, frame(6, 0, None, library, None, Some(0x7f00)));
        let trace = f.finish();
        let folded = |selection: &Selection| {
            let mut out = Vec::new();
            export(&trace, selection, &mut out, &Progress::none()).unwrap();
            String::from_utf8(out).unwrap()
        };
        let stack = "? (7);? (8);ma:in;forward (model.py:6);cudaMemcpy";
        let due = format!(
            "? (7);? (8);cudaMemcpy;[in call] 300\n? (7);? (8);a.so 0x7f00;[off-cpu] 1000\n\
             ? (7);? (8);a.so 0x7f00;cudaMemcpy;[off-cpu] 200\n\
             {stack};[in call] 2000\n{stack};cuMemcpy;[in call] 2000\n{stack};cuMemcpy;[off-cpu] 1000\n"
        );
        let sorted = |text: &str| text.lines().map(str::to_owned).collect::<std::collections::BTreeSet<_>>();
        assert_eq!(sorted(&folded(&Selection::whole(&trace))), sorted(&due));
        let window = ingero_replay::Window { from_ns: 3_500, to_ns: 8_500, ..ingero_replay::Window::whole(&trace) };
        let cut = Selection::new(&trace, window, &crate::export::selection::Cut::default()).unwrap();
        let due = format!(
            "{stack};[in call] 1000\n{stack};cuMemcpy;[in call] 1000\n{stack};cuMemcpy;[off-cpu] 500\n\
             ? (7);? (8);a.so 0x7f00;[off-cpu] 500\n"
        );
        assert_eq!(sorted(&folded(&cut)), sorted(&due));
    }
}
