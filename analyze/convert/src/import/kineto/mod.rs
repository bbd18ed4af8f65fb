//! Import of PyTorch profiler JSON (Kineto): operators, calls, and the GPU's own work, alone or as
//! further layers of a recording of the same run.

mod align;
mod document;
mod profile;

use std::collections::HashMap;
use std::io::{BufWriter, Write};
use std::path::Path;

use ingero_format::catalog::{
    Body, Call, Class, Clock, Correlation, DeviceActivity, END_RETURNED, FUNCTIONS, FuncId, Kind, Layer, Loss, NO_CPU,
    Name, Span, StrId, TaskId,
};
use ingero_format::layout::CHUNK_BLOCK;
use ingero_format::{ChunkCopy, FunctionInfo, Task, Trace, TraceWriter, WriterOptions};
use ingero_replay::{LostBlock, Merge, show_wall};

use super::{CAUSE_SOURCE_LOST, ImportOptions, Imported, Moved, NAME_SEEN, tell_damage};
use crate::error::Error;
use crate::input::{Input, Progress};
use crate::output::PendingFile;
use align::{Alignment, align, base_name, crossing};
use profile::{CallRow, Profile, ThreadId};

/// Imports a profile into `output`.
///
/// # Errors
/// [`Error::Input`] for a document of another kind, or with an event that cannot be where `keep_going`
/// is not set (the message has its line), [`Error::Exists`], [`Error::Io`] and [`Error::Trace`] for
/// the output.
pub fn import(input: &Input, output: &Path, options: ImportOptions) -> Result<Imported, Error> {
    let pending = PendingFile::create(output, options.force)?;
    let trace = |source| Error::Trace { path: output.to_owned(), source };
    let profile = read(input, options)?;
    let out = BufWriter::with_capacity(1 << 20, pending.writer()?);
    let mut writer = TraceWriter::new(out, WriterOptions::default()).map_err(trace)?;
    for (key, value) in [("source", "kineto"), ("sampled", "false"), ("clock", "realtime")] {
        writer.set_meta(key, value);
    }
    if let Some((rank, world)) = profile.head.rank {
        writer.set_meta("rank", &rank.to_string());
        world.iter().for_each(|world| writer.set_meta("world_size", &world.to_string()));
    }
    if !profile.head.devices.is_empty() {
        writer.set_meta("gpu_model", &profile.head.devices.join(", "));
    }
    let mut layers = Layers::new(writer, &profile);
    layers.write(&Alignment::default(), None).map_err(trace)?;
    let (_, totals) = layers.writer.finish().map_err(trace)?;
    pending.publish()?;
    Ok(Imported {
        damaged: u64::from(profile.head.cut),
        totals,
        records: profile.events,
        unit: "entries",
        notes: notes(&profile),
        ignored: profile.ignored,
    })
}

/// Adds a profile to a recording of the same run: a new file that holds both.
///
/// # Errors
/// As [`import`]; [`Error::Input`] too where the recording has no wall clock to hold the profile against.
pub fn merge(host: &Trace, input: &Input, output: &Path, options: ImportOptions) -> Result<Imported, Error> {
    let pending = PendingFile::create(output, options.force)?;
    let trace = |source| Error::Trace { path: output.to_owned(), source };
    let profile = read(input, options)?;
    let refuse = |problem: &str| Error::Input { path: host.path().into(), problem: problem.to_owned() };
    let alignment = align(&profile, host).ok_or_else(|| {
        refuse("has no wall-clock anchors, or the profile no events: their times cannot be held against each other")
    })?;
    if let Some(problem) = apart(host, &profile, &alignment) {
        return Err(Error::Input { path: input.path().to_owned(), problem });
    }
    if holds(host, &profile, &alignment) {
        return Err(refuse("holds this profile already: its operators and GPU work would be there twice"));
    }
    let out = BufWriter::with_capacity(1 << 20, pending.writer()?);
    let mut copy = ChunkCopy::extended(host, out, WriterOptions::default()).map_err(trace)?;
    let (mut notes, mut lost, mut names_lost) = (Vec::new(), Vec::new(), 0);
    for chunk in host.chunks() {
        match copy.take(chunk) {
            Ok(()) => {}
            Err(error @ ingero_format::Error::Corrupt { .. }) => {
                notes.push(format!("left out: {error}"));
                match chunk.header.chunk_type {
                    CHUNK_BLOCK => lost.push(LostBlock { entry: *chunk, error }),
                    _ => names_lost += 1,
                }
            }
            Err(other) => return Err(trace(other)),
        }
    }
    let mut writer = copy.into_writer().map_err(trace)?;
    let damaged = tell_damage(&mut writer, host, &lost, names_lost, Moved::default()).map_err(trace)?;
    let uncertainty = alignment.uncertainty_ns.to_string();
    let matched = alignment.matched.to_string();
    for (key, value) in [
        ("kineto", "merged"),
        ("kineto.aligned", alignment.means),
        ("kineto.uncertainty_ns", &uncertainty),
        ("kineto.matched_calls", &matched),
    ] {
        writer.set_meta(key, value);
    }
    let mut layers = Layers::new(writer, &profile);
    for (task, t) in (0..).map(TaskId).zip(host.tasks()) {
        // Of several lives the last one: ids are handed out in order of their birth.
        layers.tasks.insert((t.pid, t.tid), task);
    }
    layers.write(&alignment, Some(host)).map_err(trace)?;
    let unknown = layers.unknown_threads;
    let (_, totals) = layers.writer.finish().map_err(trace)?;
    pending.publish()?;
    notes.push(format!(
        "clocks aligned {}, to within {} ns; {} of {} calls of the profile are in the recording",
        alignment.means,
        alignment.uncertainty_ns,
        alignment.matched,
        profile.calls.len()
    ));
    if unknown > 0 {
        notes.push(format!(
            "{unknown} threads of the profile are not in the recording: it is of another run, or its process ids are \
             those of a container"
        ));
    }
    notes.extend(self::notes(&profile));
    let damaged = damaged + u64::from(profile.head.cut);
    Ok(Imported { damaged, totals, records: profile.events, unit: "entries", notes, ignored: profile.ignored })
}

/// Why a profile is of another time than a recording: before its clock began, or all of it before or after it. Anchors say
/// nothing of such a time, for the host was booted or its wall clock was set in between.
fn apart(host: &Trace, profile: &Profile, alignment: &Alignment) -> Option<String> {
    let (from, to) = profile.span_ns()?;
    let moved = |ts_ns: u64| i128::from(ts_ns) + alignment.shift_ns;
    let (start_ns, end_ns) = host.span_ns()?;
    let touch = moved(from) <= i128::from(end_ns) && moved(to) >= i128::from(start_ns);
    if touch && moved(from) >= 0 {
        return None;
    }
    let wall = |ts_ns: u64| show_wall(u64::try_from(i128::from(ts_ns) - alignment.shift_ns).unwrap_or(0));
    let where_ =
        if touch { "begins before the recording's host was booted" } else { "is of another time than the recording" };
    Some(format!(
        "{where_}: {} to {}, the recording ({}) {} to {}; merge it with the recording of the same run",
        show_wall(from),
        show_wall(to),
        host.path(),
        wall(start_ns),
        wall(end_ns)
    ))
}

/// Whether a recording has a profile's first span, or its first work of a GPU: of that name and length, at that time.
fn holds(host: &Trace, profile: &Profile, alignment: &Alignment) -> bool {
    /// The same profile may have been aligned by other calls than now.
    const APART_NS: u64 = 1_000_000;
    let at = |ts_ns: u64| u64::try_from(i128::from(ts_ns) + alignment.shift_ns).unwrap_or(0);
    let span = profile.spans.first().map(|s| (at(s.ts_ns), profile.text(s.name), s.dur_ns));
    let work = profile.device.first().map(|d| (at(d.ts_ns), profile.text(d.name), d.dur_ns));
    let same = |of: Option<(u64, &str, u64)>, ts_ns: u64, name: StrId, dur_ns: u64| {
        of.is_some_and(|(at_ns, text, dur)| {
            dur == dur_ns && at_ns.abs_diff(ts_ns) <= APART_NS && text == host.string(name)
        })
    };
    Merge::of(host, |kind| matches!(kind, Kind::Span | Kind::DeviceActivity)).any(|e| match e.body {
        Body::Span(s) => same(span, e.ts_ns, s.name, s.dur_ns),
        Body::DeviceActivity(d) => same(work, e.ts_ns, d.name, d.dur_ns),
        _ => false,
    })
}

fn notes(profile: &Profile) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(problem) = &profile.head.broken {
        notes.push(format!("the profile is no JSON from here on: {problem}; what stood before was imported"));
    } else if profile.head.cut {
        notes.push("the profile ends within its document; what is whole was imported".to_owned());
    }
    if profile.bad > 0 {
        notes.push(format!("{} entries could not be read", profile.bad));
    }
    if profile.no_ids > 0 {
        notes.push(format!(
            "numbers that join events (correlation, External id) and are none from 0 to 2^64 \u{2212} 2, left out: {}",
            profile.no_ids
        ));
    }
    if profile.spans.is_empty() && profile.calls.is_empty() && profile.device.is_empty() {
        notes.push("the profile has no events".to_owned());
    }
    notes
}

fn read(input: &Input, options: ImportOptions) -> Result<Profile, Error> {
    let path = input.path();
    let progress = if options.progress { Progress::bytes("reading", input.len_bytes()?) } else { Progress::none() };
    let mut profile = Profile::default();
    let head = document::read(input.text(progress.clone())?, options.keep_going, &mut |_, event| {
        let taken = event.and_then(|event| profile.take(&event));
        if taken.is_err() && options.keep_going {
            profile.bad += 1;
            return Ok(());
        }
        taken
    });
    progress.done();
    profile.head = match head {
        Ok(head) => head,
        Err(e) => {
            // Nothing helps where it is not its events that are to blame.
            let again = input.text(Progress::none())?;
            let helps = !options.keep_going && document::read(again, true, &mut |_, _| Ok(())).is_ok();
            let problem = if helps {
                format!("is no whole profile: {e}; with --keep-going what can be read is imported")
            } else {
                format!("is no profile: {e}")
            };
            return Err(Error::Input { path: path.to_owned(), problem });
        }
    };
    if !profile.head.has_events {
        let problem = "is JSON without traceEvents: expected what PyTorch's profiler exports".to_owned();
        return Err(Error::Input { path: path.to_owned(), problem });
    }
    if profile.events > 0 && !profile.head.is_kineto && !profile.has_work() {
        let problem = "is a Chrome trace, but not one of PyTorch's profiler: it has neither the keys of one (schemaVersion, \
                       deviceProperties, baseTimeNanoseconds) nor operators, CUDA calls or kernels. What ingero-convert --chrome \
                       writes is for viewers: convert the .igt file that it was made of";
        return Err(Error::Input { path: path.to_owned(), problem: problem.to_owned() });
    }
    profile.close();
    Ok(profile)
}

/// The rows on their way into a file.
struct Layers<'p, W: Write> {
    writer: TraceWriter<W>,
    profile: &'p Profile,
    tasks: HashMap<ThreadId, TaskId>,
    unknown_threads: usize,
    strings: HashMap<u32, StrId>,
    functions: HashMap<u32, FuncId>,
}

type Written = Result<(), ingero_format::Error>;

impl<'p, W: Write> Layers<'p, W> {
    fn new(writer: TraceWriter<W>, profile: &'p Profile) -> Self {
        let (tasks, strings, functions) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { writer, profile, tasks, unknown_threads: 0, strings, functions }
    }

    fn string(&mut self, text: u32) -> StrId {
        let (writer, profile) = (&mut self.writer, self.profile);
        *self.strings.entry(text).or_insert_with(|| writer.string(profile.text(text)))
    }

    fn task(&mut self, thread: ThreadId) -> TaskId {
        let (writer, unknown) = (&mut self.writer, &mut self.unknown_threads);
        *self.tasks.entry(thread).or_insert_with(|| {
            *unknown += 1;
            writer.task(Task { pid: thread.0, tid: thread.1, start_ns: None })
        })
    }

    fn function(&mut self, call: &CallRow) -> FuncId {
        let (writer, name) = (&mut self.writer, self.profile.text(call.name));
        *self.functions.entry(call.name).or_insert_with(|| {
            let later = format!("{name}_v2");
            let known = FUNCTIONS.iter().find(|f| f.symbol == name).or(FUNCTIONS.iter().find(|f| f.symbol == later));
            let layer = if call.is_driver { Layer::Driver } else { Layer::Runtime };
            writer.function(known.map_or_else(
                || FunctionInfo { symbol: name.to_owned(), layer, class: Class::Other },
                |f| FunctionInfo { symbol: f.symbol.to_owned(), layer: f.layer, class: f.class },
            ))
        })
    }

    /// Writes every row. Calls that the host's recording has are not written again.
    fn write(&mut self, alignment: &Alignment, host: Option<&Trace>) -> Written {
        let at = |ts_ns: u64| u64::try_from(i128::from(ts_ns) + alignment.shift_ns).unwrap_or(0);
        let profile = self.profile;
        if host.is_none()
            && let Some((from, to)) = profile.span_ns()
        {
            for ts_ns in [from, to] {
                let clock = Clock { boot_ns: ts_ns, real_ns: ts_ns, tsc: None, bracket_ns: 0 };
                self.writer.push(ts_ns, NO_CPU, &clock)?;
            }
            // Cut off anywhere behind it, the file still says when it was.
            self.writer.seal_kind(Kind::Clock)?;
        }
        let recorded: std::collections::HashSet<&str> =
            host.map(|h| h.functions().iter().map(|f| base_name(&f.symbol)).collect()).unwrap_or_default();
        let crossing = host.map(|h| crossing(profile, alignment, h, &self.tasks)).unwrap_or_default();
        let mut submitters = HashMap::new();
        let mut spans: Vec<_> = profile.spans.clone();
        for (place, call) in profile.calls.iter().enumerate() {
            let ts_ns = at(call.ts_ns);
            let (ts_ns, task) = match alignment.same.get(&place) {
                Some(seen) => (seen.ts_ns, seen.task),
                None => (ts_ns, self.task(call.thread)),
            };
            if let Some(id) = call.correlation {
                submitters.insert(id, task);
            }
            if alignment.same.contains_key(&place) {
                continue;
            }
            let name = base_name(profile.text(call.name));
            if recorded.contains(name) || crossing.contains(name) {
                // The recording counts the calls of this function: one that it lacks is no further call. And what crosses the
                // recording's calls has no place among them: there they are, and would be cut.
                let CallRow { ts_ns, dur_ns, thread, name, category, external_id, .. } = *call;
                spans.push(profile::SpanRow { ts_ns, dur_ns, thread, name, category, external_id });
                continue;
            }
            let func = self.function(call);
            let (dur_ns, end) = (Some(call.dur_ns), END_RETURNED);
            let (result, ptr, ptr2, bytes, copy, stream) = (None, None, None, None, None, None);
            let device = None;
            let row = Call { task, func, dur_ns, end, result, ptr, ptr2, bytes, copy, stream, device };
            self.writer.push(ts_ns, NO_CPU, &row)?;
        }
        let mut correlations: Vec<(u64, Correlation)> = Vec::new();
        for (place, call) in profile.calls.iter().enumerate() {
            let Some(id) = call.correlation else { continue };
            let seen = alignment.same.get(&place);
            let ts_ns = seen.map_or_else(|| at(call.ts_ns), |s| s.ts_ns);
            let task = seen.map_or_else(|| self.task(call.thread), |s| s.task);
            correlations.push((ts_ns, Correlation { task, id, external_id: call.external_id }));
        }
        correlations.sort_by_key(|c| c.0);
        for (ts_ns, row) in correlations {
            self.writer.push(ts_ns, NO_CPU, &row)?;
        }
        spans.sort_by_key(|s| s.ts_ns);
        for s in spans {
            let (task, name, category) = (self.task(s.thread), self.string(s.name), self.string(s.category));
            let row = Span { task, name, category, dur_ns: s.dur_ns, external_id: s.external_id };
            self.writer.push(at(s.ts_ns), NO_CPU, &row)?;
        }
        for d in &profile.device {
            let row = DeviceActivity {
                device: d.device,
                stream: d.stream,
                activity: d.activity,
                name: self.string(d.name),
                dur_ns: d.dur_ns,
                correlation: d.correlation,
                bytes: d.bytes,
                copy: direction(profile.text(d.name)),
                task: d.correlation.and_then(|id| submitters.get(&id).copied()),
            };
            self.writer.push(at(d.ts_ns), NO_CPU, &row)?;
        }
        self.rest(at(profile.span_ns().map_or(0, |s| s.0)), host.is_some())
    }

    /// Names, and what was lost.
    fn rest(&mut self, from_ns: u64, has_host: bool) -> Written {
        if !has_host {
            for (&pid, name) in &self.profile.names {
                // The profiler also calls its tracks of GPUs processes.
                let Some(&task) = self.tasks.get(&(pid, pid)) else { continue };
                let name = self.writer.string(name);
                self.writer.push(from_ns, NO_CPU, &Name { task, name, source: NAME_SEEN })?;
            }
        }
        if self.profile.bad > 0 || self.profile.head.cut {
            let probe = self.writer.string("unreadable entries of the profile");
            let count = (!self.profile.head.cut).then_some(self.profile.bad);
            self.writer.push(
                from_ns,
                NO_CPU,
                &Loss { to_ns: from_ns, probe, cause: CAUSE_SOURCE_LOST, count, of_host: None },
            )?;
        }
        Ok(())
    }
}

/// Direction of a copy, by the name that the profiler gives it.
fn direction(name: &str) -> Option<u64> {
    let of = name.strip_prefix("Memcpy ")?;
    ["HtoH", "HtoD", "DtoH", "DtoD"].iter().position(|d| of.starts_with(d)).map(|at| at as u64)
}
