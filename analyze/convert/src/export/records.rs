//! Export as records, one a line, for a quick look with other tools: CSV, or one JSON object a line.
//!
//! Calls, states of threads, counters and losses stand in the order in which they end, ranges, operators and work of GPUs in
//! that in which they begin, phases and incidents behind them.
//! Times count from the trace's start.

use std::io::{self, Write};

use ingero_analyze::Analysis;
use ingero_analyze::counters::{Counters, Reading};
use ingero_format::Trace;
use ingero_format::catalog::{Body, CALL_ENDS, CONTEXTS, Call, END_OPEN, Kind, LOSS_CAUSES, TaskId};
use ingero_replay::{CallSpan, Cpus, Event, OffCpu, OffKind, ProcessId, Processes, Run, Sink, Undivided, Waker};

use super::arguments::write_arguments;
use super::json::Object;
use super::layers::{Value, stretch};
use super::names::{host_of, known_cpu, name_of};
use super::selection::{KnownStates, Selection};
use crate::error::Error;
use crate::input::Progress;

/// How a record is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Values between commas, with a line of names first. What only some records have is in `detail`.
    Csv,
    /// A JSON object a line.
    JsonLines,
}

/// What an export did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Exported {
    /// Records.
    pub records: u64,
    /// Parts of the trace that could not be read.
    pub damaged: u64,
}

/// Writes what is selected of a trace as records.
///
/// # Errors
/// [`Error::Io`] when `out` does not take the bytes.
pub fn export(
    trace: &Trace,
    selection: &Selection,
    layout: Layout,
    out: impl Write,
    progress: &Progress,
) -> Result<Exported, Error> {
    let processes = Processes::new(trace);
    let (start_ns, end_ns) = trace.span_ns().unwrap_or_default();
    let mut sink = RecordSink {
        trace,
        processes: &processes,
        selection,
        progress,
        layout,
        out,
        line: String::new(),
        start_ns,
        end_ns,
        told: 0,
        records: 0,
        counters: Counters::new(trace),
        known: KnownStates::new(trace),
        failed: None,
    };
    if layout == Layout::Csv {
        sink.write("record,start_ns,end_ns,dur_ns,pid,tid,process,thread,name,cpu,detail\n");
    }
    let analysis = Analysis::beside(trace, selection.window, &mut sink);
    sink.verdicts(&analysis);
    progress.done();
    let flushed = sink.out.flush();
    match sink.failed.map_or(flushed, Err) {
        Err(e) => Err(Error::io(crate::output::WRITING, e)),
        Ok(()) => {
            let damaged = (analysis.repairs.lost_blocks.len() + trace.damage().len()) as u64;
            Ok(Exported { records: sink.records, damaged })
        }
    }
}

/// What every record has.
struct Record<'a> {
    what: &'static str,
    span: (u64, Option<u64>),
    task: Option<TaskId>,
    process: Option<ProcessId>,
    name: &'a str,
    cpu: Option<u32>,
}

struct RecordSink<'t, W: Write> {
    trace: &'t Trace,
    processes: &'t Processes,
    selection: &'t Selection,
    progress: &'t Progress,
    layout: Layout,
    out: W,
    line: String,
    start_ns: u64,
    end_ns: u64,
    told: u64,
    records: u64,
    counters: Counters,
    known: KnownStates,
    failed: Option<io::Error>,
}

impl<W: Write> RecordSink<'_, W> {
    fn write(&mut self, text: &str) {
        if self.failed.is_none()
            && let Err(e) = self.out.write_all(text.as_bytes())
        {
            self.failed = Some(e);
        }
    }

    /// Writes a record with what it alone has.
    fn put(&mut self, r: &Record, details: impl Fn(&mut Object)) {
        if self.failed.is_some() {
            return;
        }
        self.records += 1;
        let since = |ns: u64| ns.saturating_sub(self.start_ns);
        let (trace, processes) = (self.trace, self.processes);
        let start = since(r.span.0);
        let end = r.span.1.map(since);
        let at_ns = r.span.0;
        let process = r.process.or(r.task.map(|t| processes.of(t)));
        let process_name = process.and_then(|p| processes.process_name_at(p, at_ns)).map(|s| trace.string(s));
        let thread = r.task.and_then(|t| processes.name_at(t, at_ns)).map(|s| trace.string(s));
        let pid = process.map(|p| processes.get(p).pid);
        let tid = r.task.map(|t| trace.task(t).tid);
        let mut line = std::mem::take(&mut self.line);
        line.clear();
        match self.layout {
            Layout::JsonLines => {
                let mut o = Object::open(&mut line);
                o.text("record", r.what).number("start_ns", start);
                if let Some(end) = end {
                    o.number("end_ns", end).number("dur_ns", end.saturating_sub(start));
                }
                for (key, value) in [("pid", pid), ("tid", tid)] {
                    if let Some(value) = value {
                        o.number(key, value.into());
                    }
                }
                for (key, value) in [("process", process_name), ("thread", thread), ("name", Some(r.name))] {
                    if let Some(value) = value {
                        o.text(key, value);
                    }
                }
                if let Some(cpu) = r.cpu {
                    o.number("cpu", cpu.into());
                }
                details(&mut o);
                o.close();
            }
            Layout::Csv => {
                let number = |n: Option<u64>| n.map(|n| n.to_string()).unwrap_or_default();
                let mut detail = String::new();
                let mut o = Object::open(&mut detail);
                details(&mut o);
                o.close();
                let detail = if detail == "{}" { "" } else { &detail };
                let cells = [
                    r.what.to_owned(),
                    start.to_string(),
                    number(end),
                    number(end.map(|e| e.saturating_sub(start))),
                    number(pid.map(u64::from)),
                    number(tid.map(u64::from)),
                    quoted(process_name.unwrap_or_default()),
                    quoted(thread.unwrap_or_default()),
                    quoted(r.name),
                    number(r.cpu.map(u64::from)),
                    quoted(detail),
                ];
                line.push_str(&cells.join(","));
            }
        }
        line.push('\n');
        self.write(&line);
        self.line = line;
    }

    fn state(&mut self, task: TaskId, name: &str, span: (u64, u64), cpu: Option<u32>, details: impl Fn(&mut Object)) {
        let (from, to) = self.selection.clip(span);
        if self.selection.shows_state((from, to))
            && self.selection.shows(task)
            && self.selection.takes_kind(Kind::Switch)
        {
            let cpu = cpu.and_then(known_cpu);
            let record = Record { what: "state", span: (from, Some(to)), task: Some(task), process: None, name, cpu };
            self.put(&record, details);
        }
    }

    fn put_call(&mut self, at_ns: u64, end_ns: Option<u64>, call: &Call, span: Option<&CallSpan>) {
        let dur_ns = span.map(CallSpan::dur_ns);
        if !self.selection.shows_call(at_ns, dur_ns, call.task) {
            return;
        }
        let function = self.trace.function(call.func);
        let name = function.map_or("unknown function", |f| f.symbol.as_str());
        let record =
            Record { what: "call", span: (at_ns, end_ns), task: Some(call.task), process: None, name, cpu: None };
        let knows_states = self.known.of(call.task);
        self.put(&record, |o| {
            if let Some(f) = function {
                o.text("layer", f.layer.name()).text("class", f.class.name());
            }
            write_arguments(call, o);
            match span {
                None => {
                    o.text("end", name_of(CALL_ENDS, call.end));
                }
                Some(s) => {
                    o.number("depth", s.depth.into()).number("self_ns", s.self_ns);
                    if knows_states {
                        o.number("running_ns", s.spent.running_ns).number("runnable_ns", s.spent.runnable_ns);
                        o.number("throttled_ns", s.spent.throttled_ns).number("blocked_ns", s.spent.blocked_ns);
                    }
                }
            }
        });
    }

    fn layer(&mut self, event: &Event) {
        let Some(s) = stretch(event, self.processes, self.selection, self.end_ns) else { return };
        let (trace, what) = (self.trace, s.layer.what());
        let end_ns = s.end_ns.filter(|_| what != "mark");
        let (task, process) = (s.layer.task(), s.place.process(self.processes));
        let record = Record { what, span: (s.start_ns, end_ns), task, process, name: s.layer.name(trace), cpu: None };
        self.put(&record, |o| {
            s.layer.details(trace, |key, value| {
                match value {
                    Value::Number(n) => o.number(key, n),
                    Value::Text(text) => o.text(key, text),
                };
            });
        });
    }

    fn verdicts(&mut self, a: &Analysis) {
        let selection = self.selection;
        let shown = |id: ProcessId| selection.shows_verdicts(a.processes.get(id));
        for p in a.phases.iter().filter(|p| shown(p.phase.process)) {
            let label = p.phase.label();
            let record = Record {
                what: "phase",
                span: (p.phase.start_ns, Some(p.phase.end_ns)),
                task: None,
                process: Some(p.phase.process),
                name: &label,
                cpu: None,
            };
            self.put(&record, |o| {
                // A sample does not tell what was submitted, nor what was between.
                if p.phase.sample.is_some() {
                    return;
                }
                o.number("submissions", p.phase.submissions);
                // Nor does a phase in all of which events were lost.
                if !p.is_unclaimed() {
                    o.number("gaps_ns", p.phase.gaps_ns());
                }
                if let Some(waited) = ingero_analyze::report::waited(a, p) {
                    o.text("waited", &waited);
                }
            });
        }
        for i in a.incidents.iter().filter(|i| shown(i.process)) {
            let (start, end) =
                a.phases.get(i.phase).map_or((self.start_ns, self.end_ns), |p| (p.phase.start_ns, p.phase.end_ns));
            let record = Record {
                what: "incident",
                span: (start, Some(end)),
                task: None,
                process: Some(i.process),
                name: i.kind,
                cpu: None,
            };
            self.put(&record, |o| {
                o.text("severity", i.severity.name()).number("lost_ns", i.lost_ns).text("summary", &i.summary);
                o.text("root_cause", &i.root_cause).text("advice", &i.recommendations.join("\n"));
            });
        }
    }
}

/// A value with quotes where it needs them.
fn quoted(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

impl<W: Write> Sink for RecordSink<'_, W> {
    fn event(&mut self, event: &Event) {
        self.told += 1;
        if self.told.is_multiple_of(1 << 14) {
            self.progress.add(1 << 14);
        }
        let (ts, cpu) = (event.ts_ns, known_cpu(event.cpu));
        match &event.body {
            Body::Loss(loss) if self.selection.takes_kind(Kind::Loss) && self.selection.touches((ts, loss.to_ns)) => {
                let name = self.trace.string(loss.probe);
                let host = host_of(self.trace, loss);
                let record =
                    Record { what: "loss", span: (ts, Some(loss.to_ns)), task: None, process: None, name, cpu };
                self.put(&record, |o| {
                    o.text("cause", name_of(LOSS_CAUSES, loss.cause));
                    if let Some(count) = loss.count {
                        o.number("count", count);
                    }
                    if let Some(host) = &host {
                        o.text("host", host);
                    }
                });
            }
            Body::Loss(_) => {}
            Body::Range(_) | Body::Mark(_) | Body::Span(_) | Body::DeviceActivity(_) => self.layer(event),
            _ => {
                let Some((kind, readings)) = self.counters.readings(event) else { return };
                if !self.selection.takes_kind(kind) || !self.selection.touches((ts, ts)) {
                    return;
                }
                for Reading { name, thousandths } in readings {
                    let record =
                        Record { what: "counter", span: (ts, None), task: None, process: None, name: &name, cpu: None };
                    self.put(&record, |o| {
                        o.thousandths("value", thousandths);
                    });
                }
            }
        }
    }

    fn run(&mut self, run: &Run) {
        let end_ns = run.end_ns.unwrap_or(self.end_ns);
        self.state(run.task, "running", (run.start_ns, end_ns), Some(run.cpu), |o| {
            if run.unfinished {
                o.text("end", "unfinished");
            }
        });
    }

    fn undivided(&mut self, part: &Undivided) {
        let span = (part.from_ns, part.to_ns.unwrap_or(self.end_ns));
        self.state(part.task, "off-cpu", span, None, |o| {
            if part.out_ns.is_none() {
                o.text("began", "before this");
            }
            if part.unfinished {
                o.text("end", "unfinished");
            }
        });
    }

    fn off_cpu(&mut self, stay: &OffCpu, _: &Cpus) {
        let end_ns = stay.end_ns().unwrap_or(self.end_ns);
        let waker = match stay.waker {
            Waker::Task(task) => Some(format!("{}", self.trace.task(task).tid)),
            Waker::Interrupt { context, .. } => Some(name_of(CONTEXTS, context).to_owned()),
            Waker::Unknown => None,
        };
        let details = |o: &mut Object| {
            if let Some(waker) = &waker {
                o.text("waker", waker);
            }
            if stay.before {
                o.text("began", "before this");
            }
            if stay.back.is_none() {
                o.text("end", "unfinished");
            }
        };
        if stay.kind == OffKind::Throttled {
            self.state(stay.task, "throttled", (stay.out_ns, end_ns), stay.out_cpu, details);
            return;
        }
        let split = stay.runnable_ns.unwrap_or(end_ns).clamp(stay.out_ns, end_ns.max(stay.out_ns));
        self.state(stay.task, "blocked", (stay.out_ns, split), stay.out_cpu, details);
        self.state(stay.task, "runnable", (split, end_ns), stay.wait_cpu, details);
    }

    fn call(&mut self, span: &CallSpan) {
        self.put_call(span.start_ns, Some(span.end_ns), &span.call, Some(span));
    }

    fn unreturned(&mut self, at_ns: u64, call: &Call) {
        let end_ns = (call.end == END_OPEN).then_some(self.end_ns);
        self.put_call(at_ns, end_ns, call, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ingero_format::catalog::{Class, Layer, Name};
    use ingero_replay::fixture::Fixture;

    fn exported(layout: Layout) -> String {
        let mut f = Fixture::new();
        let a = f.task(7, 7);
        let name = f.writer().string("a \"b\",\nc");
        let launch = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
        f.push(0, 0, Name { task: a, name, source: 0 });
        f.switch(10, 0, TaskId(0), 0, a);
        f.call(20, 0, a, launch, 30);
        f.switch(100, 0, a, 1, TaskId(0));
        let trace = f.finish();
        let mut out = Vec::new();
        export(&trace, &Selection::whole(&trace), layout, &mut out, &Progress::none()).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_line_is_an_object() {
        let text = exported(Layout::JsonLines);
        let all: Vec<serde_json::Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        let call = all.iter().find(|r| r["record"] == "call").unwrap();
        assert_eq!((&call["start_ns"], &call["dur_ns"], &call["running_ns"]), (&10.into(), &30.into(), &30.into()));
        assert_eq!(call["process"], "a \"b\",\nc");
        assert!(all.iter().any(|r| r["record"] == "state" && r["name"] == "running" && r["dur_ns"] == 90));
    }

    #[test]
    fn hostile_names_stay_in_their_cells() {
        let text = exported(Layout::Csv);
        assert!(text.starts_with("record,start_ns,"));
        assert!(
            text.contains(
                "call,10,40,30,7,7,\"a \"\"b\"\",\nc\",\"a \"\"b\"\",\nc\",cudaLaunchKernel,,\"{\"\"layer\"\":"
            ),
            "{text}"
        );
    }
}
