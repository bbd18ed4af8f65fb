//! One pass over the text: lines in, rows out.

use std::collections::HashMap;

use ingero_format::Task;
use ingero_format::catalog::{
    BlockComplete, BlockIssue, END_OPEN, END_SKIPPED, END_THREAD_EXIT, Exec, Exit, Fork, LOSS_CAUSES, Loss, Mapping,
    NO_CPU, Name, PageAlloc, Process, Switch, TaskId, Wakeup, WakeupNew, Waking,
};

use super::call::{CallRow, Probe, function_of_event, parse_probe};
use super::census::{Census, STACK_TRACE};
use super::event::{Gfp, KernelEvent, KernelName, Named};
use super::gfp::GfpFlags;
use super::life::{Life, Lives};
use super::line::{ENDING, EventLine, Line, parse_line};
use super::rows::Rows;
use super::state::is_dead;
use super::text::{COMM_MAX, escaped};
use super::unasked::{Expected, Unasked};

/// Numbers of `NAME_SOURCES`.
const NAME_START: u64 = 0;
const NAME_FORK: u64 = 1;
const NAME_EXEC: u64 = 2;
const NAME_RENAME: u64 = 3;
const NAME_SEEN: u64 = 4;
/// `source-lost`: the tracer lost the events, before this tool saw any.
const CAUSE_SOURCE_LOST: u64 = 7;

/// Why a line was not taken.
pub(crate) enum Refusal {
    /// The line is to blame.
    Line(String),
    /// The output is.
    Trace(ingero_format::Error),
}

impl From<ingero_format::Error> for Refusal {
    fn from(e: ingero_format::Error) -> Self {
        Self::Trace(e)
    }
}

impl From<&str> for Refusal {
    fn from(problem: &str) -> Self {
        Self::Line(problem.to_owned())
    }
}

/// What the name of an event stands for.
#[derive(Clone, Copy)]
enum Meaning {
    Kernel(KernelName),
    Function(usize),
    Unknown,
}

/// Where a process has a file mapped as code.
pub(crate) struct Mapped<'a> {
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    pub(crate) offset: u64,
    pub(crate) build_id: Option<&'a [u8]>,
}

/// What a CPU's stream has shown.
#[derive(Default, Clone, Copy)]
struct CpuStream {
    last_ns: Option<u64>,
    /// A loss that ends with the CPU's next event.
    lost: Option<Option<u64>>,
    /// The thread that its last switch put on it, where nothing was lost since.
    on_cpu: Option<u32>,
}

impl CpuStream {
    /// Loses more; of an unknown number the sum is unknown.
    fn lose(&mut self, count: Option<u64>) {
        self.lost = Some(match (self.lost.take(), count) {
            (None, count) => count,
            (Some(Some(before)), Some(count)) => Some(before.saturating_add(count)),
            (Some(_), _) => None,
        });
    }
}

/// A pass under way.
pub(crate) struct Pass<'k, R: Rows> {
    pub(crate) rows: R,
    /// Who loses what a CPU lost.
    ring: &'static str,
    known: Option<&'k Census>,
    census: Census,
    lives: Lives,
    meanings: HashMap<Vec<u8>, Meaning>,
    unknown: HashMap<Vec<u8>, u64>,
    gfp: GfpFlags,
    cpus: Vec<CpuStream>,
    calls: Vec<CallRow>,
    expected: Expected,
    /// What is missing because nobody asked for it, where that is known from elsewhere.
    told_unasked: Option<Vec<Unasked>>,
}

/// Time and CPU of the line at hand.
type At = (u64, u32);

impl<'k, R: Rows> Pass<'k, R> {
    /// Begins a pass. `known` is what an earlier one found out.
    pub(crate) fn new(rows: R, known: Option<&'k Census>) -> Self {
        Self {
            rows,
            ring: "ftrace",
            known,
            census: Census::default(),
            lives: Lives::default(),
            meanings: HashMap::new(),
            unknown: HashMap::new(),
            gfp: GfpFlags::default(),
            cpus: Vec::new(),
            calls: Vec::new(),
            expected: Expected::default(),
            told_unasked: None,
        }
    }

    /// With another ring than that of ftrace.
    pub(crate) fn of_ring(self, ring: &'static str) -> Self {
        Self { ring, ..self }
    }

    /// Takes one line, without its end.
    pub(crate) fn line(&mut self, text: &[u8]) -> Result<(), Refusal> {
        match parse_line(text)? {
            Line::Event(line) => self.event(&line),
            Line::Lost(NO_CPU, count) => self.lost_somewhere("bpftrace", count),
            Line::Lost(cpu, count) => match self.stream(cpu) {
                Some(stream) => {
                    stream.lose(count);
                    Ok(())
                }
                // No machine has a CPU of that number; what was lost was lost all the same.
                None => self.lost_somewhere(self.ring, count),
            },
            Line::Stack => {
                *self.unknown.entry(STACK_TRACE.as_bytes().to_vec()).or_default() += 1;
                Ok(())
            }
            Line::Other => Ok(self.census.header.read(text)?),
        }
    }

    /// Counts a line that could not be read, where that is allowed.
    pub(crate) fn skip_bad_line(&mut self) {
        self.census.bad_lines += 1;
        self.census.event_lines += 1;
    }

    /// Takes the last line of a text that ends without a line end. It counts only where the header
    /// confirms that it is the last one whole: the numbers at its end may have lost digits.
    pub(crate) fn unterminated_line(&mut self, text: &[u8]) -> Result<(), Refusal> {
        let known = match parse_line(text) {
            // A name that is cut is the name of no event.
            Ok(Line::Event(line)) => !matches!(self.meaning(line.name), Meaning::Unknown),
            Ok(_) => return Ok(()),
            Err(_) => false,
        };
        let is_last = self.census.header.entries.is_some_and(|(held, _)| held == self.census.event_lines + 1);
        self.census.cut |= !(known && is_last && self.line(text).is_ok());
        Ok(())
    }

    /// Whether anything showed that the text is one of those that this tool reads.
    pub(crate) fn is_recognised(&self) -> bool {
        self.census.header.is_ftrace || self.census.event_lines > self.census.bad_lines
    }

    /// Ends the pass: what is open, what is missing.
    pub(crate) fn finish(mut self, cut: bool) -> Result<(R, Census), Refusal> {
        self.census.cut |= cut;
        let (first_ns, last_ns) = self.census.span_ns.unwrap_or_default();
        self.tell_unasked((first_ns, last_ns))?;
        for (cpu, stream) in std::mem::take(&mut self.cpus).into_iter().enumerate() {
            if let Some(count) = stream.lost {
                let cpu = u32::try_from(cpu).unwrap_or(NO_CPU);
                self.loss(stream.last_ns.unwrap_or(first_ns), last_ns, cpu, self.ring, count)?;
            }
        }
        if let Some((held, written)) = self.census.header.entries {
            if written > held {
                // Overwritten before the oldest event that is left.
                self.loss(first_ns, first_ns, NO_CPU, "ftrace ring", Some(written - held))?;
            }
            let missing = held.saturating_sub(self.census.event_lines);
            if missing > 0 {
                self.loss(last_ns, last_ns, NO_CPU, "ftrace text", Some(missing))?;
            }
        } else if self.census.cut {
            self.loss(last_ns, last_ns, NO_CPU, "ftrace text", None)?;
        }
        if self.census.bad_lines > 0 {
            self.loss(first_ns, last_ns, NO_CPU, "ftrace line", Some(self.census.bad_lines))?;
        }
        let lives = std::mem::take(&mut self.lives);
        let (threads, groups) = lives.finish();
        for mut life in threads {
            life.calls.end(life.id, if life.dead { END_THREAD_EXIT } else { END_OPEN }, &mut self.calls);
        }
        self.write_calls()?;
        self.census.groups = groups;
        self.census.own_gfp = self.gfp.own_names().collect();
        self.census.ignored = self.unknown.iter().map(|(name, count)| (escaped(name).into_owned(), *count)).collect();
        Ok((self.rows, self.census))
    }

    /// Takes what is missing because nobody asked for it, where that is known.
    pub(crate) fn not_asked_for(&mut self, unasked: Option<Vec<Unasked>>) {
        self.told_unasked = unasked;
    }

    /// Says in the file what is missing because nobody asked for it.
    fn tell_unasked(&mut self, (from_ns, to_ns): (u64, u64)) -> Result<(), Refusal> {
        let seen: Vec<bool> = self.cpus.iter().map(|stream| stream.last_ns.is_some()).collect();
        let found = || self.expected.unasked(&seen, self.census.is_perf);
        self.census.unasked = self.told_unasked.take().unwrap_or_else(found);
        for what in self.expected.missing(&self.census.unasked) {
            self.loss(from_ns, to_ns, NO_CPU, &what, None)?;
        }
        Ok(())
    }

    /// Takes a kernel event that was read elsewhere: of the line its time, place and task count.
    pub(crate) fn told(&mut self, line: &EventLine, event: KernelEvent) -> Result<(), Refusal> {
        let at = (line.ts_ns, line.cpu);
        self.arrive(at)?;
        let current = self.current(line)?;
        self.kernel_event(at, line, current, event)
    }

    /// Counts an event that the format has no place for.
    pub(crate) fn unplaced(&mut self, at: At, name: &[u8]) -> Result<(), Refusal> {
        self.arrive(at)?;
        self.leave_out(name);
        Ok(())
    }

    /// Takes what is said of a thread beside the events: its process, and its name from `ts_ns` on, or
    /// from the first event where it was noted before them.
    pub(crate) fn comm(
        &mut self,
        ts_ns: Option<u64>,
        (pid, tid): (u32, u32),
        comm: &[u8],
        executes: bool,
    ) -> Result<(), Refusal> {
        self.task(tid, None)?;
        if let Some(number) = self.lives.get(tid).map(|l| l.number) {
            self.lives.learn(number, pid);
        }
        let first_ns = self.known.and_then(|k| k.span_ns).map_or(0, |span| span.0);
        let source = match (ts_ns, executes) {
            (None, _) => NAME_START,
            (_, true) => NAME_EXEC,
            (_, false) => NAME_RENAME,
        };
        // What came before the first event came before the recording: in its order, and not before it.
        self.name((ts_ns.unwrap_or(first_ns).max(first_ns), NO_CPU), tid, comm, source)
    }

    /// Takes a birth that was noted before the first event: it tells the thread's process and who made that, and is no event.
    pub(crate) fn born_before(&mut self, parent: u32, child: u32, thread: bool) -> Result<(), Refusal> {
        self.task(parent, None)?;
        let made_by = self.lives.get(parent).map(|l| (l.number, l.pid));
        let task = self.task(child, None)?;
        let Some((number, pid)) = self.lives.get(child).map(|l| (l.number, l.pid)) else { return Ok(()) };
        match made_by {
            Some((parent, _)) if thread => self.lives.learn_as(number, parent),
            _ if !thread => self.lives.learn(number, child),
            _ => {}
        }
        if let Some(life) = self.lives.get(child) {
            life.parent_pid = made_by.map(|(_, pid)| pid);
        }
        if pid == child && !thread {
            let first_ns = self.known.and_then(|k| k.span_ns).map_or(0, |span| span.0);
            let parent_pid = made_by.map(|(_, pid)| u64::from(pid));
            self.rows.push(first_ns, NO_CPU, &Process { task, parent_pid, exe: None, args: None, followed: 0 })?;
        }
        Ok(())
    }

    /// Takes a file that a process has mapped as code: since `ts_ns`, or since before the first event.
    pub(crate) fn mapped(&mut self, ts_ns: Option<u64>, pid: u32, at: Mapped, file: &[u8]) -> Result<(), Refusal> {
        let first_ns = self.known.and_then(|k| k.span_ns).map_or(0, |span| span.0);
        let task = self.task(pid, None)?;
        let hex = |id: &[u8]| id.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let build_id = at.build_id.filter(|id| !id.is_empty()).map(|id| self.rows.string(&hex(id)));
        let file = self.rows.string(&escaped(file));
        let mapping = Mapping { task, start: at.start, bytes: at.bytes, offset: at.offset, file, build_id };
        Ok(self.rows.push(ts_ns.unwrap_or(first_ns), NO_CPU, &mapping)?)
    }

    /// Takes a loss of `count` events; of a CPU that the ring names, or that is not known.
    pub(crate) fn lost(&mut self, cpu: Option<u32>, count: u64) -> Result<(), Refusal> {
        match cpu.and_then(|cpu| self.stream(cpu)) {
            Some(stream) => {
                stream.lose(Some(count));
                Ok(())
            }
            None => self.lost_somewhere(self.ring, Some(count)),
        }
    }

    /// Takes a loss of which nothing is known but who lost how much.
    fn lost_somewhere(&mut self, who: &str, count: Option<u64>) -> Result<(), Refusal> {
        self.cpus.iter_mut().for_each(|stream| stream.on_cpu = None);
        let span = self.census.span_ns.or(self.known.and_then(|k| k.span_ns)).unwrap_or_default();
        self.loss(span.0, span.1, NO_CPU, who, Some(count.unwrap_or(0)))
    }

    fn leave_out(&mut self, name: &[u8]) {
        // As many as a kernel has, and more; a text that has more names than that is told of in sum.
        const NAMES: usize = 4096;
        let known = self.unknown.len() < NAMES || self.unknown.contains_key(name);
        let name = if known { name } else { b"(other names)" };
        match self.unknown.get_mut(name) {
            Some(count) => *count += 1,
            None => {
                self.unknown.insert(name.to_vec(), 1);
            }
        }
    }

    /// Takes an event with its text.
    pub(crate) fn event(&mut self, line: &EventLine) -> Result<(), Refusal> {
        let at = (line.ts_ns, line.cpu);
        let meaning = self.meaning(line.name);
        // What the event says is read first: a line that cannot be read leaves no trace behind.
        enum Read<'a> {
            Kernel(KernelEvent<'a>),
            Probe(usize, Probe),
            Unknown,
        }
        let read = match meaning {
            Meaning::Kernel(name) => Read::Kernel(
                name.parse(line.body)
                    .ok_or_else(|| Refusal::Line(format!("{} is not {}", escaped(line.name), name.form())))?,
            ),
            Meaning::Function(number) => Read::Probe(
                number,
                parse_probe(line.name, line.body).ok_or_else(|| {
                    Refusal::Line(format!("{} is not (0x…) a0=… or (0x… <- 0x…)", escaped(line.name)))
                })?,
            ),
            Meaning::Unknown => Read::Unknown,
        };
        self.arrive(at)?;
        // Who is ending, the event says itself or the switch before it.
        let tid = match &read {
            _ if line.tid != ENDING => Some(line.tid),
            Read::Kernel(KernelEvent::Switch { prev, .. }) => Some(prev.tid),
            Read::Kernel(KernelEvent::Exit { task, .. }) => Some(task.tid),
            _ => self.stream(line.cpu).and_then(|stream| stream.on_cpu),
        };
        let Some(tid) = tid else {
            self.leave_out(line.name);
            return Ok(());
        };
        let line = &EventLine { tid, ..*line };
        let current = self.current(line)?;
        match read {
            Read::Kernel(event) => self.kernel_event(at, line, current, event),
            Read::Probe(number, probe) => self.probe_event(at, line.tid, number, probe),
            Read::Unknown => {
                self.leave_out(line.name);
                Ok(())
            }
        }
    }

    fn meaning(&mut self, name: &[u8]) -> Meaning {
        if let Some(meaning) = self.meanings.get(name) {
            return *meaning;
        }
        let bare = memchr::memrchr(b':', name).map_or(name, |at| &name[at + 1..]);
        let meaning = match (KernelName::from_name(bare), function_of_event(name)) {
            (Some(kernel), _) => Meaning::Kernel(kernel),
            (None, Some(function)) => Meaning::Function(function),
            (None, None) => Meaning::Unknown,
        };
        // A text has a few hundred event names; one with more is not worth the memory.
        if self.meanings.len() < 4096 {
            self.meanings.insert(name.to_vec(), meaning);
        }
        meaning
    }

    fn stream(&mut self, cpu: u32) -> Option<&mut CpuStream> {
        let at = usize::try_from(cpu).ok().filter(|_| cpu < NO_CPU)?;
        if self.cpus.len() <= at {
            self.cpus.resize(at + 1, CpuStream::default());
        }
        self.cpus.get_mut(at)
    }

    /// Notes that a CPU has an event, and that what it lost was lost before.
    fn arrive(&mut self, at: At) -> Result<(), Refusal> {
        self.census.event_lines += 1;
        let span = self.census.span_ns.get_or_insert((at.0, at.0));
        *span = (span.0.min(at.0), span.1.max(at.0));
        let first_ns = span.0;
        let Some(stream) = self.stream(at.1) else { return Ok(()) };
        let last_ns = stream.last_ns.replace(at.0);
        let ran_back = last_ns.is_some_and(|last_ns| at.0 < last_ns);
        if let Some(count) = stream.lost.take() {
            stream.on_cpu = None;
            self.loss(last_ns.unwrap_or(first_ns), at.0, at.1, self.ring, count)?;
        }
        self.census.backwards += u64::from(ran_back);
        Ok(())
    }

    fn loss(&mut self, from_ns: u64, to_ns: u64, cpu: u32, probe: &str, count: Option<u64>) -> Result<(), Refusal> {
        debug_assert_eq!(LOSS_CAUSES[7].1, "source-lost");
        let probe = self.rows.string(probe);
        let loss = Loss { to_ns: to_ns.max(from_ns), probe, cause: CAUSE_SOURCE_LOST, count, of_host: None };
        Ok(self.rows.push(from_ns, cpu, &loss)?)
    }

    /// The task whose line it is, with what its columns say of it.
    fn current(&mut self, line: &EventLine) -> Result<TaskId, Refusal> {
        self.census.is_perf |= line.is_perf;
        let id = self.task(line.tid, None)?;
        if line.tid == 0 {
            return Ok(id);
        }
        let Some(life) = self.lives.get(line.tid) else { return Ok(id) };
        if let Some(pid) = line.tgid {
            self.census.has_groups = true;
            let number = life.number;
            self.lives.learn(number, pid);
        }
        let Some(life) = self.lives.get(line.tid) else { return Ok(id) };
        // The tracer prints the name that its cache has when the text is printed. It counts where
        // nothing better is known, and where it changes from line to line.
        if life.line_comm != line.comm && line.comm != b"<...>" {
            let first = life.line_comm.is_empty();
            life.line_comm.clear();
            life.line_comm.extend_from_slice(line.comm);
            if !first || life.name.is_empty() {
                self.name((line.ts_ns, line.cpu), line.tid, line.comm, NAME_SEEN)?;
            }
        }
        Ok(id)
    }

    /// The task that an id means now; a life begins where there is none.
    fn task(&mut self, tid: u32, born_ns: Option<u64>) -> Result<TaskId, Refusal> {
        if tid == 0 {
            return Ok(TaskId(0));
        }
        if born_ns.is_none()
            && let Some(life) = self.lives.get(tid)
        {
            return Ok(life.id);
        }
        let (known, rows) = (self.known, &mut self.rows);
        let pid = |number| known.and_then(|k| k.groups.pid(number)).map_or(tid, |(pid, _)| pid);
        let before = self.lives.begin(tid, pid, |pid| rows.task(Task { pid, tid, start_ns: born_ns }));
        if let Some(mut life) = before {
            self.end_calls(&mut life, END_THREAD_EXIT)?;
        }
        Ok(self.lives.get(tid).map_or(TaskId(0), |l| l.id))
    }

    /// A task that an event names, with its name of this moment.
    fn named(&mut self, at: At, task: Named) -> Result<TaskId, Refusal> {
        let id = self.task(task.tid, None)?;
        self.name(at, task.tid, task.comm, NAME_SEEN)?;
        Ok(id)
    }

    fn name(&mut self, at: At, tid: u32, comm: &[u8], source: u64) -> Result<(), Refusal> {
        let Some(life) = self.lives.get(tid).filter(|_| tid != 0) else { return Ok(()) };
        if life.name == comm || comm == b"<...>" {
            return Ok(());
        }
        life.name.clear();
        life.name.extend_from_slice(comm);
        let task = life.id;
        let name = self.rows.string(&escaped(comm));
        Ok(self.rows.push(at.0, at.1, &Name { task, name, source })?)
    }

    fn end_calls(&mut self, life: &mut Life, end: u64) -> Result<(), Refusal> {
        life.calls.end(life.id, end, &mut self.calls);
        self.write_calls()
    }

    fn write_calls(&mut self) -> Result<(), Refusal> {
        for (ts_ns, cpu, call) in self.calls.drain(..) {
            self.rows.push(ts_ns, cpu, &call)?;
        }
        Ok(())
    }

    fn probe_event(&mut self, at: At, tid: u32, number: usize, probe: Probe) -> Result<(), Refusal> {
        let func = self.rows.function(number);
        // The idle task calls no library; a line that says so is as good as none.
        let Some(life) = self.lives.get(tid) else { return Ok(()) };
        match probe {
            Probe::Entry(slots) => life.calls.enter(life.id, number, func, at, slots, &mut self.calls),
            Probe::Return(result) => life.calls.leave(life.id, func, at, result, &mut self.calls),
        }
        self.write_calls()
    }

    fn kernel_event(&mut self, at: At, line: &EventLine, current: TaskId, event: KernelEvent) -> Result<(), Refusal> {
        let on_cpu = self.stream(at.1).and_then(|stream| stream.on_cpu);
        self.expected.note(on_cpu, &event);
        match event {
            KernelEvent::Switch { prev, prev_prio, prev_state, next, next_prio } => {
                let (prev_id, next_id) = (self.named(at, prev)?, self.named(at, next)?);
                let switch = Switch {
                    prev: prev_id,
                    prev_state,
                    prev_prio,
                    next: next_id,
                    next_prio,
                    syscall: None,
                    throttled: None,
                };
                self.rows.push(at.0, at.1, &switch)?;
                if let Some(stream) = self.stream(at.1) {
                    stream.on_cpu = Some(next.tid);
                }
                if is_dead(prev_state)
                    && let Some(life) = self.lives.get(prev.tid)
                {
                    life.dead = true;
                    life.calls.end(life.id, END_THREAD_EXIT, &mut self.calls);
                    self.write_calls()?;
                }
            }
            KernelEvent::Waking { wakee, target_cpu } => {
                let wakee = self.named(at, wakee)?;
                self.rows.push(
                    at.0,
                    at.1,
                    &Waking { waker: current, wakee, target_cpu, context: line.context, source: None, irq: None },
                )?;
            }
            KernelEvent::Wakeup { wakee, target_cpu } => {
                let wakee = self.named(at, wakee)?;
                self.rows.push(at.0, at.1, &Wakeup { wakee, target_cpu })?;
            }
            KernelEvent::WakeupNew { wakee, target_cpu } => {
                let wakee = self.named(at, wakee)?;
                self.rows.push(at.0, at.1, &WakeupNew { wakee, target_cpu })?;
            }
            KernelEvent::NewTask { child, thread } => {
                self.task(child.tid, Some(at.0))?;
                let parent = self.lives.get(line.tid).map(|l| l.number);
                if let Some(life) = self.lives.get(child.tid) {
                    life.newborn = true;
                    let number = life.number;
                    match parent {
                        Some(parent) if thread => self.lives.learn_as(number, parent),
                        _ if !thread => self.lives.learn(number, child.tid),
                        _ => {}
                    }
                }
                self.name(at, child.tid, child.comm, NAME_FORK)?;
            }
            KernelEvent::Fork { parent, child } => self.fork(at, parent, child)?,
            KernelEvent::Exec { file, tid, old_tid } => self.exec(at, file, tid, old_tid)?,
            KernelEvent::Exit { task, group_dead } => {
                let id = self.named(at, task)?;
                self.rows.push(at.0, at.1, &Exit { task: id, group_dead })?;
                if let Some(life) = self.lives.get(task.tid) {
                    life.calls.end(life.id, END_THREAD_EXIT, &mut self.calls);
                    self.write_calls()?;
                }
            }
            KernelEvent::Rename { tid, name } => {
                self.census.has_renames = true;
                self.task(tid, None)?;
                self.name(at, tid, name, NAME_RENAME)?;
            }
            KernelEvent::PageAlloc { pfn, order, migratetype, gfp_flags } => {
                let gfp_flags = match gfp_flags {
                    Gfp::Names(names) => self.gfp.bits(names).ok_or("gfp_flags= is no list of names joined by |")?,
                    Gfp::Bits(bits) => bits,
                };
                self.rows.push(at.0, at.1, &PageAlloc { task: current, pfn, order, gfp_flags, migratetype })?;
            }
            KernelEvent::BlockIssue { dev, rwbs, bytes, sector, comm } => {
                self.name(at, line.tid, comm, NAME_SEEN)?;
                let rwbs = self.rows.string(&escaped(rwbs));
                self.rows.push(at.0, at.1, &BlockIssue { task: current, dev, sector, bytes, rwbs })?;
            }
            KernelEvent::BlockComplete { dev, rwbs, bytes, sector, error } => {
                let rwbs = self.rows.string(&escaped(rwbs));
                self.rows.push(at.0, at.1, &BlockComplete { dev, sector, bytes, rwbs, error })?;
            }
        }
        Ok(())
    }

    fn fork(&mut self, at: At, parent: Named, child: Named) -> Result<(), Refusal> {
        let parent_id = self.named(at, parent)?;
        let parent_pid = self.lives.get(parent.tid).map(|l| u64::from(l.pid));
        // task_newtask comes first where it is recorded: the same birth.
        let born = self.lives.get(child.tid).is_some_and(|l| std::mem::take(&mut l.newborn));
        let child_id = self.task(child.tid, (!born).then_some(at.0))?;
        self.rows.push(at.0, at.1, &Fork { parent: parent_id, child: child_id })?;
        self.name(at, child.tid, child.comm, NAME_FORK)?;
        let Some(life) = self.lives.get(child.tid) else { return Ok(()) };
        life.parent_pid = parent_pid.and_then(|p| u32::try_from(p).ok());
        if life.pid == child.tid {
            self.rows.push(at.0, at.1, &Process { task: child_id, parent_pid, exe: None, args: None, followed: 0 })?;
        }
        Ok(())
    }

    fn exec(&mut self, at: At, file: &[u8], tid: u32, old_tid: u32) -> Result<(), Refusal> {
        if old_tid != tid {
            // A thread that is not the leader ends the others and takes the leader's id and place over.
            if let Some(life) = self.lives.get(old_tid) {
                life.dead = true;
                life.calls.end(life.id, END_THREAD_EXIT, &mut self.calls);
                self.write_calls()?;
            }
            self.lives.revive(tid);
        }
        let task = self.task(tid, None)?;
        if let Some(life) = self.lives.get(tid) {
            // No frame outlives its program.
            life.calls.end(life.id, END_SKIPPED, &mut self.calls);
            self.write_calls()?;
        }
        let path = self.rows.string(&escaped(file));
        self.rows.push(at.0, at.1, &Exec { task, file: path })?;
        if !self.known.is_some_and(|k| k.has_renames) {
            // The kernel names the task after the file.
            let base = memchr::memrchr(b'/', file).map_or(file, |slash| &file[slash + 1..]);
            self.name(at, tid, base.get(..COMM_MAX).unwrap_or(base), NAME_EXEC)?;
        }
        let parent_pid = self.lives.get(tid).and_then(|l| l.parent_pid).map(u64::from);
        Ok(self.rows.push(at.0, at.1, &Process { task, parent_pid, exe: Some(path), args: None, followed: 0 })?)
    }
}
