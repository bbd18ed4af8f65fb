//! Recordings of several hosts, or of several processes that recorded apart, in one file.
//!
//! Each recording keeps numbers of its own: its process and thread ids, and its CPUs, are moved out of
//! the others' way. The clocks are aligned by the wall clock that each recording is anchored to.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::io::{BufWriter, Write};
use std::path::Path;

use ingero_format::catalog::{Annotation, Body, CPU, Clock, FuncId, Kind, Loss, NO_CPU, StrId, TaskId, Unit};
use ingero_format::{Task, Trace, TraceWriter, WriterOptions};
use ingero_replay::Merge;

use super::ingero::{SOURCE, STACK_LABEL};
use super::{ImportOptions, Imported, Moved, tell_damage};
use crate::error::Error;
use crate::input::Progress;
use crate::output::PendingFile;

/// Linux hands out no process id from here on (`PID_MAX_LIMIT`): what the ids of the next host begin at.
pub const PIDS: u32 = 1 << 22;
/// Recordings whose ids fit beside each other.
const MOST: usize = (u32::MAX / PIDS) as usize;

/// Where a recording's times and numbers go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    pid_base: u32,
    cpu_base: u32,
    cpus: u32,
    /// Nanoseconds to add to its times.
    shift_ns: u64,
    /// What its times may be wrong by, as far as the anchors tell.
    uncertainty_ns: u64,
}

/// Puts recordings into one file.
///
/// # Errors
/// [`Error::Input`] for a recording without wall-clock anchors or of several hosts, and where there are more of them than
/// numbers; [`Error::Exists`], [`Error::Io`] and [`Error::Trace`] for the output.
pub fn merge(traces: &[Trace], output: &Path, options: ImportOptions) -> Result<Imported, Error> {
    let pending = PendingFile::create(output, options.force)?;
    let places = places(traces)?;
    let failed = |source| Error::Trace { path: output.to_owned(), source };
    let out = BufWriter::with_capacity(1 << 20, pending.writer()?);
    let mut writer = TraceWriter::new(out, WriterOptions::default()).map_err(failed)?;
    for (key, value) in meta(traces, &places) {
        writer.set_meta(&key, &value);
    }
    let rows = traces.iter().flat_map(Trace::blocks).map(|b| u64::from(b.header.rows)).sum();
    let progress = if options.progress { Progress::count("merging", rows) } else { Progress::none() };
    let (mut notes, mut records, mut damaged) = (Vec::new(), 0, 0);
    let mut ignored = std::collections::BTreeMap::new();
    let mut next_stack = 0;
    let reference = reference(&places);
    // Readings of the clocks come first: a file that is cut off still says when it was.
    if let Some(trace) = traces.get(reference) {
        for event in Merge::of(trace, |kind| kind == Kind::Clock) {
            writer.push_any(event.ts_ns, event.cpu, &event.body).map_err(failed)?;
        }
        writer.seal_kind(Kind::Clock).map_err(failed)?;
    }
    for (number, (trace, place)) in traces.iter().zip(&places).enumerate() {
        let mut host = Host {
            trace,
            place,
            number: number as u64,
            writer: &mut writer,
            strings: HashMap::new(),
            cpu_lists: HashMap::new(),
            tasks: Vec::new(),
            functions: Vec::new(),
            stacks: Stacks { own: HashMap::new(), next: &mut next_stack },
        };
        host.dictionaries();
        let mut merge = Merge::new(trace);
        for event in &mut merge {
            records += 1;
            if records % (1 << 14) == 0 {
                progress.add(1 << 14);
            }
            match event.body {
                // One host's anchors are the file's: its clock is.
                Body::Clock(_) if number == reference => {}
                Body::Clock(_) => *ignored.entry("clock".to_owned()).or_insert(0) += 1,
                _ => host.push(event.ts_ns, event.cpu, &event.body).map_err(failed)?,
            }
        }
        let moved = Moved { shift_ns: place.shift_ns, cpu_base: place.cpu_base, host: Some(number as u64) };
        damaged += tell_damage(&mut writer, trace, merge.lost(), 0, moved).map_err(failed)?;
        notes.extend(merge.lost().iter().map(|lost| format!("left out: {}", lost.error)));
        if !trace.complete() {
            notes.push(format!("{}: the recording was cut off before its end", trace.path()));
        }
        notes.push(format!(
            "{}: process ids from {}, CPUs from {}; times to within {} ns of its wall clock",
            name(trace),
            place.pid_base,
            place.cpu_base,
            place.uncertainty_ns
        ));
    }
    notes.push("what the hosts' wall clocks differ by is not known to the recordings, and comes on top".to_owned());
    progress.done();
    let (_, totals) = writer.finish().map_err(failed)?;
    pending.publish()?;
    Ok(Imported { damaged, totals, records, unit: "events", ignored, notes })
}

/// The recording whose clock is the file's: that of the host which booted first.
fn reference(places: &[Place]) -> usize {
    places.iter().position(|p| p.shift_ns == 0).unwrap_or(0)
}

fn name(trace: &Trace) -> &str {
    trace.meta("host").unwrap_or(trace.path())
}

fn places(traces: &[Trace]) -> Result<Vec<Place>, Error> {
    let refuse = |trace: &Trace, problem: String| Error::Input { path: trace.path().into(), problem };
    if let Some(trace) = traces.get(MOST) {
        return Err(refuse(trace, format!("is the {}th: at most {MOST} recordings fit into one file", MOST + 1)));
    }
    let mut offsets = Vec::new();
    let mut seen: HashMap<Identity, &Trace> = HashMap::new();
    for trace in traces {
        // Its hosts have moved out of each other's way already, into the room of those that come after the first.
        if let Some(hosts) = trace.meta("hosts") {
            let problem = format!("holds the recordings of {hosts} hosts already: merge those, all of them at once");
            return Err(refuse(trace, problem));
        }
        let none = || refuse(trace, without_anchors(trace));
        offsets.push(offset(trace).ok_or_else(none)?);
        if let Some(first) = seen.insert(identity(trace), trace) {
            let problem = format!(
                "is the recording that {} is: what happened would count twice; name each recording once",
                first.path()
            );
            return Err(refuse(trace, problem));
        }
    }
    // Nobody's times become negative: those of the host that booted first stay.
    let first = offsets.iter().map(|o| o.0).max().unwrap_or(0);
    let mut cpu_base = 0u32;
    let mut places = Vec::new();
    for ((trace, (offset, uncertainty_ns)), pid_base) in traces.iter().zip(offsets).zip((0..).step_by(PIDS as usize)) {
        let cpus = cpus(trace);
        if cpu_base.saturating_add(cpus) >= NO_CPU {
            return Err(refuse(
                trace,
                format!("has {cpus} CPUs, of which {} fit beside the others", NO_CPU - cpu_base),
            ));
        }
        let shift_ns = u64::try_from(first - offset)
            .map_err(|_| refuse(trace, "has a wall clock centuries away from the others'".to_owned()))?;
        places.push(Place { pid_base, cpu_base, cpus, shift_ns, uncertainty_ns });
        cpu_base += cpus;
    }
    Ok(places)
}

/// Why a recording that says nothing of the wall clock cannot be put beside others, and what to do.
fn without_anchors(trace: &Trace) -> String {
    let lacks = "has no wall-clock anchors: nothing says when it was, seen from the others";
    if !trace.complete() || !trace.damage().is_empty() || trace.meta("repaired").is_some() {
        return format!(
            "{lacks}; they stood in the part of it that is missing: merge the others without it, and look at it by itself"
        );
    }
    format!("{lacks}; its source did not note the wall clock: look at it by itself")
}

/// Nanoseconds by which a wall clock may run away from the monotonic one, in this many: the kernel slews by 500 parts in a million
/// at most (`adjtime`, NTP).
const SLEWED_ONE_IN: u64 = 2000;

/// The recording's clock less its wall clock at the anchor in the middle, and what that may be wrong by: the bracket of the anchor,
/// what the others disagree by, and what the wall clock may have been slewed by in the time that lies beyond all of them, which is
/// much in a recording that was cut off.
fn offset(trace: &Trace) -> Option<(i128, u64)> {
    let offset = |ts_ns: u64, clock: &Clock| i128::from(ts_ns) - i128::from(clock.real_ns);
    let anchors = anchors(trace);
    let (ts_ns, middle) = anchors.get(anchors.len() / 2)?;
    let by = offset(*ts_ns, middle);
    let slewed = anchors.iter().map(|(ts_ns, clock)| offset(*ts_ns, clock).abs_diff(by)).max().unwrap_or(0);
    let beyond_ns = match (anchors.first(), anchors.last(), trace.span_ns()) {
        // Its clock is the wall clock.
        _ if trace.meta("clock") == Some("realtime") => 0,
        (Some((first_ns, _)), Some((last_ns, _)), Some((from_ns, to_ns))) => {
            first_ns.saturating_sub(from_ns).max(to_ns.saturating_sub(*last_ns))
        }
        _ => 0,
    };
    let known_ns = u64::try_from(slewed).unwrap_or(u64::MAX).saturating_add(middle.bracket_ns);
    Some((by, known_ns.saturating_add(beyond_ns / SLEWED_ONE_IN)))
}

/// What no two recordings have in common: the host, and what its clocks read, to the nanosecond, each time they were read. A copy
/// that is packed otherwise has the same.
type Identity = (String, Vec<(u64, u64, u64)>);

fn identity(trace: &Trace) -> Identity {
    let read = |(ts_ns, clock): (u64, Clock)| (ts_ns, clock.real_ns, clock.bracket_ns);
    (trace.meta("host").unwrap_or("").to_owned(), anchors(trace).into_iter().map(read).collect())
}

/// Readings of all clocks, and when they were.
fn anchors(trace: &Trace) -> Vec<(u64, Clock)> {
    Merge::of(trace, |kind| kind == Kind::Clock)
        .filter_map(|e| if let Body::Clock(clock) = e.body { Some((e.ts_ns, clock)) } else { None })
        .collect()
}

/// How many CPUs a recording has: those that it names, and those that its events name.
fn cpus(trace: &Trace) -> u32 {
    let named = trace.meta("cpus").and_then(|n| n.parse().ok()).unwrap_or(0u32);
    let mut rows = Merge::rows(trace, |_| true).columns(&[CPU]);
    let mut highest = 0;
    while let Some(row) = rows.next_row() {
        let cpu = row.word(CPU).and_then(|cpu| u32::try_from(cpu).ok()).filter(|&cpu| cpu < NO_CPU);
        highest = highest.max(cpu.map_or(0, |cpu| cpu + 1));
    }
    named.min(NO_CPU).max(highest).max(1)
}

/// What all recordings agree upon, and of each the rest under its number.
fn meta(traces: &[Trace], places: &[Place]) -> Vec<(String, String)> {
    let mut keys = vec![("hosts".to_owned(), traces.len().to_string())];
    keys.push(("cpus".to_owned(), places.iter().map(|p| p.cpus).sum::<u32>().to_string()));
    let agreed = |key: &str, value: &str| {
        !matches!(key, "cpus" | "sampled" | ingero_format::SPAN_KEY)
            && traces.iter().all(|t| t.meta(key) == Some(value))
    };
    let sampled = traces.iter().any(|t| t.meta("sampled") == Some("true"));
    keys.push(("sampled".to_owned(), sampled.to_string()));
    // The last that is known of a recording may be a reading of its clocks, which the file has not.
    let spans = traces.iter().zip(places).filter_map(|(trace, place)| {
        let (start_ns, end_ns) = trace.span_ns()?;
        Some((start_ns.saturating_add(place.shift_ns), end_ns.saturating_add(place.shift_ns)))
    });
    if let Some((start_ns, end_ns)) = spans.reduce(|all, own| (all.0.min(own.0), all.1.max(own.1))) {
        keys.push((ingero_format::SPAN_KEY.to_owned(), format!("{start_ns} {end_ns}")));
    }
    if let Some(first) = traces.first() {
        let shared = first.meta_entries().iter().filter(|(key, value)| agreed(key, value));
        keys.extend(shared.cloned());
    }
    for (number, (trace, place)) in traces.iter().zip(places).enumerate() {
        // Each host's clock is moved: its span is told by its own times.
        let own =
            trace.meta_entries().iter().filter(|(key, value)| key != ingero_format::SPAN_KEY && !agreed(key, value));
        keys.extend(own.map(|(key, value)| (format!("host.{number}.{key}"), value.clone())));
        for (key, value) in [
            ("pid_base", u64::from(place.pid_base)),
            ("cpu_base", place.cpu_base.into()),
            ("shift_ns", place.shift_ns),
            ("uncertainty_ns", place.uncertainty_ns),
            ("start_ns", trace.span_ns().map_or(0, |(start_ns, _)| start_ns).saturating_add(place.shift_ns)),
            ("end_ns", trace.span_ns().map_or(0, |(_, end_ns)| end_ns).saturating_add(place.shift_ns)),
        ] {
            keys.push((format!("host.{number}.{key}"), value.to_string()));
        }
    }
    keys
}

/// A list of CPUs as the kernel writes it, `0-3,8`, of a host that has so many CPUs, by the numbers that they have in the file. The
/// kernel lists CPUs that the machine could have too: they would be another host's. What is no such list stays as it is.
fn moved_list(text: &str, cpu_base: u32, cpus: u32) -> String {
    let moved = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse::<u32>().ok()?, last.trim().parse::<u32>().ok()?);
        let last = last.min(cpus.saturating_sub(1));
        let (from, to) = (cpu_base.saturating_add(first), cpu_base.saturating_add(last));
        Some(match first.cmp(&last) {
            Ordering::Less => format!("{from}-{to}"),
            Ordering::Equal => from.to_string(),
            Ordering::Greater => String::new(),
        })
    };
    let parts: Option<Vec<String>> = text.split(',').filter(|part| !part.is_empty()).map(moved).collect();
    parts.map_or_else(
        || text.to_owned(),
        |parts| parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(","),
    )
}

/// A recording on its way into the file.
struct Host<'t, W: Write> {
    trace: &'t Trace,
    place: &'t Place,
    number: u64,
    writer: &'t mut TraceWriter<W>,
    strings: HashMap<u64, StrId>,
    /// Lists of CPUs, by the string that one of them was.
    cpu_lists: HashMap<u64, StrId>,
    /// By its own number: the file's.
    tasks: Vec<TaskId>,
    functions: Vec<FuncId>,
    stacks: Stacks<'t>,
}

/// Numbers of call stacks: each recording counts its own from 0.
struct Stacks<'n> {
    /// By a recording's own number: the file's.
    own: HashMap<u64, u64>,
    /// The first that no recording has taken.
    next: &'n mut u64,
}

impl Stacks<'_> {
    fn number(&mut self, own: u64) -> u64 {
        let next = &mut *self.next;
        *self.own.entry(own).or_insert_with(|| {
            *next += 1;
            *next - 1
        })
    }

    /// What ingero calls a stack, `{"stack":7,"hash":-5}`, by the number that it has in the file; other texts stay as they are.
    fn moved_name(&mut self, text: &str) -> String {
        let Ok(serde_json::Value::Object(mut name)) = serde_json::from_str(text) else { return text.to_owned() };
        let Some(own) = name.get("stack").and_then(serde_json::Value::as_u64) else { return text.to_owned() };
        name.insert("stack".to_owned(), self.number(own).into());
        serde_json::Value::Object(name).to_string()
    }
}

impl<W: Write> Host<'_, W> {
    fn dictionaries(&mut self) {
        let base = self.place.pid_base;
        let shift = self.place.shift_ns;
        for (number, task) in self.trace.tasks().iter().enumerate() {
            // The idle task is one and the same: it is on every CPU.
            let id = if number == 0 {
                TaskId(0)
            } else {
                self.writer.task(Task {
                    pid: task.pid.saturating_add(base),
                    tid: task.tid.saturating_add(base),
                    start_ns: task.start_ns.map(|ns| ns.saturating_add(shift)),
                })
            };
            self.tasks.push(id);
        }
        for function in self.trace.functions() {
            self.functions.push(self.writer.function(function.clone()));
        }
    }

    fn push(&mut self, ts_ns: u64, cpu: u32, body: &Body) -> Result<(), ingero_format::Error> {
        let &Place { pid_base, cpu_base, cpus, shift_ns, .. } = self.place;
        let Self { trace, number, writer, strings, cpu_lists, tasks, functions, stacks, .. } = self;
        let lookup = |number: u64| usize::try_from(number).ok();
        let is_stack = matches!(body, Body::Frame(_) | Body::Stack(_));
        let names_stack = |a: &Annotation| trace.string(a.source) == SOURCE && trace.string(a.label) == STACK_LABEL;
        let is_stack_name = matches!(body, Body::Annotation(a) if names_stack(a));
        let is_parent = matches!(body, Body::Process(_));
        let is_affinity = matches!(body, Body::Affinity(_));
        let body = match body {
            Body::Loss(loss) => Body::Loss(Loss { of_host: Some(*number), ..*loss }),
            _ => *body,
        };
        let body = body.renumbered(|column, word| match column.unit {
            Unit::TimeNs => word.saturating_add(shift_ns),
            Unit::Cpu if word < u64::from(NO_CPU) => word + u64::from(cpu_base),
            Unit::Task => lookup(word).and_then(|at| tasks.get(at)).map_or(0, |id| u64::from(id.0)),
            Unit::Func => lookup(word).and_then(|at| functions.get(at)).map_or(word, |id| u64::from(id.0)),
            Unit::Str if is_affinity && column.name == "cpus" => {
                let own = StrId(u32::try_from(word).unwrap_or(u32::MAX));
                let moved = || writer.string(&moved_list(trace.string(own), cpu_base, cpus));
                u64::from(cpu_lists.entry(word).or_insert_with(moved).0)
            }
            Unit::Str if is_stack_name && column.name == "text" => {
                let own = StrId(u32::try_from(word).unwrap_or(u32::MAX));
                u64::from(writer.string(&stacks.moved_name(trace.string(own))).0)
            }
            Unit::Str => {
                let own = StrId(u32::try_from(word).unwrap_or(u32::MAX));
                u64::from(strings.entry(word).or_insert_with(|| writer.string(trace.string(own))).0)
            }
            Unit::Number if is_stack && column.name == "stack" => stacks.number(word),
            // 0 is the kernel, which nobody started.
            Unit::Number if is_parent && column.name == "parent_pid" && word != 0 => word + u64::from(pid_base),
            _ => word,
        });
        let of_the_machine = matches!(body.kind(), Kind::System | Kind::Pressure | Kind::GpuSample);
        // What is of a machine as a whole stands on its first CPU: that tells whose it is.
        let cpu = if cpu < NO_CPU || of_the_machine { cpu_base + if cpu < NO_CPU { cpu } else { 0 } } else { cpu };
        writer.push_any(ts_ns.saturating_add(shift_ns), cpu, &body)
    }
}

#[cfg(test)]
mod tests {
    use super::moved_list;

    #[test]
    fn lists_of_cpus_move_with_the_cpus() {
        for (text, due) in [
            ("0-3,8", "100-103,108"),
            ("3", "103"),
            // Of a machine that could have more CPUs than it has.
            ("0-127", "100-115"),
            ("2,16-31", "102"),
            ("", ""),
            ("all", "all"),
        ] {
            assert_eq!(moved_list(text, 100, 16), due, "{text}");
        }
    }
}
