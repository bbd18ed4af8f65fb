//! Import of `perf.data`: what `perf record -a -e 'sched:*'` wrote, for machines where only perf is allowed.
//!
//! Tracepoints are read by the formats that the file carries, so no kernel's layout is assumed. Records
//! of names, births and ends tell the processes; records of losses become losses, mapped files mappings.

mod format;
mod guard;
mod scope;
mod sections;
mod watch;

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::Path;

use ingero_format::catalog::{Clock, Kind, NO_CPU};
use ingero_format::{TraceWriter, WriterOptions};
use linux_perf_data::linux_perf_event_reader::{
    EventRecord, Mmap2FileId, PerfEventType, RawEventRecord, RecordType, SampleRecord,
};
use linux_perf_data::{Endianness, Feature, PerfFile, PerfFileReader, PerfFileRecord, UserRecordType};

use super::ftrace::census::Census;
use super::ftrace::event::{Gfp, KernelEvent, KernelName, Named};
use super::ftrace::line::{EventLine, NAMELESS};
use super::ftrace::pass::{Mapped, Pass, Refusal};
use super::ftrace::rows::{FileRows, NoRows, Rows};
use super::ftrace::unasked::Unasked;
use super::{ImportOptions, Imported};
use crate::error::Error;
use crate::input::{Input, Progress};
use crate::output::PendingFile;
use format::{Format, Formats, read_formats};
use guard::guarded;
use scope::Scope;
use watch::Watched;

/// What lost what perf says it lost.
const RING: &str = "perf ring";
/// Of a mapping: it holds code.
const PROT_EXEC: u32 = 4;
/// `CLOCK_MONOTONIC`.
const MONOTONIC: u32 = 1;

/// Imports a `perf.data` file into `output`.
///
/// # Errors
/// [`Error::Input`] for a file that is cut or broken (the message has the record's number), or of
/// which no event has a time and a CPU; [`Error::Exists`], [`Error::Io`] and [`Error::Trace`] for the output.
pub fn import(input: &Input, output: &Path, options: ImportOptions) -> Result<Imported, Error> {
    let pending = PendingFile::create(output, options.force)?;
    let failed = |source| Error::Trace { path: output.to_owned(), source };
    let first = read(input, Pass::new(NoRows, None), options, "reading", &failed)?;
    if let Some(problem) = first.census.nothing_known() {
        return Err(Error::Input { path: input.path().to_owned(), problem });
    }
    let out = BufWriter::with_capacity(1 << 20, pending.writer()?);
    let mut writer = TraceWriter::new(out, WriterOptions::default()).map_err(failed)?;
    for (key, value) in &first.keys {
        writer.set_meta(key, value);
    }
    let threads = match first.census.groups.unknown() {
        0 => "known".to_owned(),
        n => format!("{n} of unknown process, shown as their own"),
    };
    writer.set_meta("threads", &threads);
    for (name, count) in &first.census.ignored {
        writer.set_meta(&format!("ignored.{name}"), &count.to_string());
    }
    if let Some((ts_ns, real_ns)) = first.clock.map(|clock| within(clock, first.census.span_ns)) {
        // perf reads one clock right after the other; how long that took it does not say.
        let clock = Clock { boot_ns: ts_ns, real_ns, tsc: None, bracket_ns: 1000 };
        writer.push(ts_ns, NO_CPU, &clock).map_err(failed)?;
        // Cut off anywhere behind it, the file still says when it was.
        writer.seal_kind(Kind::Clock).map_err(failed)?;
    }
    let second = read(input, Pass::new(FileRows::new(writer), Some(&first.census)), options, "writing", &failed)?;
    let (_, totals) = second.rows.writer.finish().map_err(failed)?;
    pending.publish()?;
    let mut notes = Vec::new();
    if first.clock.is_none() {
        notes.push("the wall clock is unknown; record with perf record -k mono to have it".to_owned());
    }
    notes.extend(first.census.unasked.iter().map(Unasked::note));
    if first.bad > 0 {
        notes.push(format!("{} records could not be read", first.bad));
    }
    Ok(Imported { damaged: 0, totals, records: first.records, unit: "records", ignored: first.census.ignored, notes })
}

/// The clocks' reading, taken along both to where the events are: perf reads them before it begins, and the recording
/// would begin with that reading.
fn within((ts_ns, real_ns): (u64, u64), span_ns: Option<(u64, u64)>) -> (u64, u64) {
    let Some((from_ns, to_ns)) = span_ns else { return (ts_ns, real_ns) };
    let at_ns = ts_ns.clamp(from_ns, to_ns.max(from_ns));
    (at_ns, real_ns.saturating_add(at_ns).saturating_sub(ts_ns))
}

/// What a pass over the file gave.
struct Done<R> {
    rows: R,
    census: Census,
    keys: Vec<(String, String)>,
    /// Time on the file's clock, and the wall clock's at that moment.
    clock: Option<(u64, u64)>,
    records: u64,
    bad: u64,
}

/// What the file's head says.
struct Head {
    keys: Vec<(String, String)>,
    clock: Option<(u64, u64)>,
    scope: Scope,
}

fn head(about: &PerfFile) -> Head {
    let mut keys = vec![("source".to_owned(), "perf.data".to_owned()), ("sampled".to_owned(), "false".to_owned())];
    for (key, value) in [("host", about.hostname()), ("kernel", about.os_release()), ("cpu_model", about.cpu_desc())] {
        if let Ok(Some(value)) = value {
            keys.push((key.to_owned(), value.to_owned()));
        }
    }
    let cpus = about.nr_cpus().ok().flatten();
    if let Some(cpus) = cpus {
        keys.push(("cpus".to_owned(), cpus.nr_cpus_available.to_string()));
    }
    let clock = about.clock_data().ok().flatten();
    let is_monotonic = clock.as_ref().is_some_and(|c| c.clockid == MONOTONIC);
    keys.push(("clock".to_owned(), if is_monotonic { "monotonic" } else { "perf" }.to_owned()));
    let listed = about.feature_section_data(Feature::CMDLINE).is_some_and(sections::has_room_for_its_words);
    let command = if listed { about.cmdline().ok().flatten().unwrap_or_default() } else { Vec::new() };
    let scope = Scope::new(about.event_attributes(), cpus.map(|cpus| cpus.nr_cpus_online), &command);
    Head { keys, clock: clock.map(|c| (c.clockid_time_ns, c.wall_clock_ns)), scope }
}

/// What is said of what the library cannot read.
const UNREADABLE: &str = "is broken in a way that its reader does not expect";

/// Why the reading ended.
enum Stop {
    Broken(String),
    Trace(ingero_format::Error),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Trace(e) => Self::Trace(e),
            Refusal::Line(problem) => Self::Broken(problem),
        }
    }
}

fn read<R: Rows>(
    input: &Input,
    pass: Pass<'_, R>,
    options: ImportOptions,
    what: &'static str,
    failed: &impl Fn(ingero_format::Error) -> Error,
) -> Result<Done<R>, Error> {
    let broken = |problem: String| Error::Input { path: input.path().to_owned(), problem };
    let file = File::open(input.path()).map_err(|e| Error::io(input.path().display().to_string(), e))?;
    if let Some(problem) = sections::problem(&file) {
        return Err(broken(problem));
    }
    let progress = if options.progress { Progress::bytes(what, input.len_bytes()?) } else { Progress::none() };
    let pass = pass.of_ring(RING);
    let read =
        Reading { pass, formats: Formats::new(), births: true, ends: true, sampled: false, lost: (0, 0), bad: 0 }
            .run(file, options, &progress);
    progress.done();
    read.map_err(|stop| match stop {
        Stop::Trace(source) => failed(source),
        Stop::Broken(problem) => broken(problem),
    })
}

struct Reading<'k, R: Rows> {
    pass: Pass<'k, R>,
    formats: Formats,
    /// Whether records of births and ends are the only ones: no tracepoint tells them.
    births: bool,
    ends: bool,
    /// Whether an event has come. perf notes births, names and ends before it arms its tracepoints; of that time they are all
    /// that is known, and what threads did in it would be made up.
    sampled: bool,
    /// Events that the rings lost as they told at once, and as the kernel counted them in the end: the latter has the former in
    /// it, and those that a ring had no room to tell.
    lost: (u64, u64),
    bad: u64,
}

impl<R: Rows> Reading<'_, R> {
    fn run(mut self, file: File, options: ImportOptions, progress: &Progress) -> Result<Done<R>, Stop> {
        let broken = |e: &dyn std::fmt::Display| Stop::Broken(e.to_string());
        let bytes = file.metadata().map_or(0, |meta| meta.len());
        let (input, begun) = Watched::new(BufReader::with_capacity(1 << 18, file), bytes);
        let opened = guarded(|| PerfFileReader::parse_file(input))
            .ok_or_else(|| broken(&format!("its head {UNREADABLE}")))?
            .map_err(|e| broken(&e))?;
        let PerfFileReader { perf_file: mut about, record_iter: mut records } = opened;
        begun.set(true);
        if about.endian() != Endianness::LittleEndian {
            return Err(Stop::Broken("is of a big-endian machine, which is not read".to_owned()));
        }
        self.formats = read_formats(about.feature_section_data(Feature::TRACING_DATA).unwrap_or_default());
        let points: Vec<(Option<u64>, String)> = about
            .event_attributes()
            .iter()
            .map(|a| {
                let id = if let PerfEventType::Tracepoint(id) = a.attributes().type_ { Some(id) } else { None };
                (id, a.name().unwrap_or("nameless event").to_owned())
            })
            .collect();
        let has = |name: &str| {
            let formats = &self.formats;
            points.iter().any(|(id, _)| id.and_then(|id| formats.get(&id)).is_some_and(|(n, _)| n == name))
        };
        (self.births, self.ends) = (!has("sched:sched_process_fork"), !has("sched:sched_process_exit"));
        let Head { keys, clock, mut scope } =
            guarded(|| head(&about)).ok_or_else(|| broken(&format!("its head {UNREADABLE}")))?;
        let mut count = 0u64;
        loop {
            let at = |problem: String| Stop::Broken(format!("record {}: {problem}", count + 1));
            let record = match guarded(|| records.next_record(&mut about)) {
                Some(Ok(Some(record))) => record,
                Some(Ok(None)) => break,
                Some(Err(e)) => return Err(at(e.to_string())),
                None => return Err(at(UNREADABLE.to_owned())),
            };
            let taken = match record {
                PerfFileRecord::EventRecord { attr_index, record } => {
                    progress.add(record.data.len() as u64);
                    self.take(points.get(attr_index), &record)
                }
                PerfFileRecord::UserRecord(record)
                    if [UserRecordType::PERF_COMPRESSED, UserRecordType::PERF_COMPRESSED2]
                        .contains(&record.record_type) =>
                {
                    return Err(at("is compressed; unpack it: perf inject -i perf.data -o plain.data".to_owned()));
                }
                PerfFileRecord::UserRecord(record) => {
                    if record.record_type == UserRecordType::PERF_ID_INDEX {
                        scope.index(&record.data.as_slice());
                    }
                    continue;
                }
            };
            count += 1;
            match taken {
                Ok(()) => {}
                Err(Refusal::Trace(e)) => return Err(Stop::Trace(e)),
                Err(Refusal::Line(_)) if options.keep_going => {
                    self.bad += 1;
                    self.pass.skip_bad_line();
                }
                Err(Refusal::Line(problem)) => return Err(Stop::Broken(format!("record {count}: {problem}"))),
            }
        }
        let Self { mut pass, bad, lost: (told, counted), .. } = self;
        if counted > told {
            pass.lost(None, counted - told)?;
        }
        pass.not_asked_for(scope.unasked());
        let (rows, census) = pass.finish(false)?;
        Ok(Done { rows, census, keys, clock, records: count, bad })
    }

    fn take(&mut self, point: Option<&(Option<u64>, String)>, record: &RawEventRecord) -> Result<(), Refusal> {
        let unreadable = |e: std::io::Error| Refusal::Line(format!("{:?}: {e}", record.record_type));
        if record.record_type == RecordType::LOST_SAMPLES {
            let data = record.data.as_slice();
            let count = data.get(..8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes);
            self.lost.1 = self.lost.1.saturating_add(count);
            return Ok(());
        }
        let read = || (record.common_data().ok().and_then(|c| c.cpu), record.timestamp(), record.parse());
        let Some((cpu, at, parsed)) = guarded(read) else {
            return Err(Refusal::Line(format!("{:?}: {UNREADABLE}", record.record_type)));
        };
        let at = at.filter(|&ts_ns| ts_ns > 0);
        self.sampled |= record.record_type == RecordType::SAMPLE;
        match parsed.map_err(unreadable)? {
            EventRecord::Sample(sample) => self.sample(point, &sample),
            EventRecord::Comm(comm) => {
                let (Some(pid), Some(tid)) = (id(comm.pid), id(comm.tid)) else { return Ok(()) };
                let name = comm.name.as_slice();
                self.pass.comm(at, (pid, tid), &name, comm.is_execve)
            }
            EventRecord::Fork(f) if at.is_some() => {
                let (Some(pid), Some(tid), Some(parent)) = (id(f.pid), id(f.tid), id(f.ptid)) else { return Ok(()) };
                let is_thread = id(f.ppid) == Some(pid);
                if !self.sampled {
                    return self.pass.born_before(parent, tid, is_thread);
                }
                let line = bare(parent, at.unwrap_or(0), cpu);
                let child = Named { tid, comm: NAMELESS };
                self.pass.told(&line, KernelEvent::NewTask { child, thread: is_thread })?;
                if self.births {
                    let parent = Named { tid: parent, comm: NAMELESS };
                    self.pass.told(&line, KernelEvent::Fork { parent, child })?;
                }
                Ok(())
            }
            EventRecord::Exit(e) if self.ends && self.sampled && at.is_some() => {
                let Some(tid) = id(e.tid) else { return Ok(()) };
                let task = Named { tid, comm: NAMELESS };
                self.pass.told(&bare(tid, at.unwrap_or(0), cpu), KernelEvent::Exit { task, group_dead: None })
            }
            EventRecord::Lost(lost) => {
                self.lost.0 = self.lost.0.saturating_add(lost.count);
                self.pass.lost(cpu, lost.count)
            }
            EventRecord::Mmap(m) if m.is_executable => {
                let place = Mapped { start: m.address, bytes: m.length, offset: m.page_offset, build_id: None };
                self.mapped(at, m.pid, place, &m.path.as_slice())
            }
            EventRecord::Mmap2(m) if m.protection & PROT_EXEC != 0 => {
                let build_id = if let Mmap2FileId::BuildId(id) = &m.file_id { Some(id.as_slice()) } else { None };
                let place = Mapped { start: m.address, bytes: m.length, offset: m.page_offset, build_id };
                self.mapped(at, m.pid, place, &m.path.as_slice())
            }
            _ => Ok(()),
        }
    }

    /// Takes a file that a process has mapped as code. What is no file, and what the kernel has, tells nothing.
    fn mapped(&mut self, at: Option<u64>, pid: i32, place: Mapped, path: &[u8]) -> Result<(), Refusal> {
        let Some(pid) = id(pid).filter(|_| path.starts_with(b"/") && !path.starts_with(b"//")) else { return Ok(()) };
        self.pass.mapped(at.filter(|_| self.sampled), pid, place, path)
    }

    fn sample(&mut self, point: Option<&(Option<u64>, String)>, sample: &SampleRecord) -> Result<(), Refusal> {
        let Some((number, event)) = point else { return Err("a sample of no event that the file lists".into()) };
        let (Some(ts_ns), Some(cpu)) = (sample.timestamp, sample.cpu) else {
            return Err(Refusal::Line(format!(
                "{event} has no time or no CPU; record with perf record -a -T --sample-cpu"
            )));
        };
        let known = number.and_then(|number| self.formats.get(&number));
        let (Some((name, format)), Some(raw)) = (known, &sample.raw) else {
            return self.pass.unplaced((ts_ns, cpu), event.as_bytes());
        };
        let raw = raw.as_slice();
        // Of a thread in its last switch perf has no ids any more; the kernel's own note of it is the id.
        let noted = || format.number(&raw, "common_pid").map(|n| n as u32);
        let Some(tid) = sample.tid.and_then(id).or_else(noted) else {
            return Err(Refusal::Line(format!("{event} has no thread; record with perf record -a")));
        };
        let flags = format.number(&raw, "common_flags").unwrap_or(0);
        // NMI, hard and soft interrupt: the innermost counts.
        let context = [(0x40, 3), (0x08, 2), (0x10, 1)].iter().find(|(bit, _)| flags & bit != 0).map_or(0, |c| c.1);
        let line = EventLine {
            comm: NAMELESS,
            tid,
            tgid: sample.pid.and_then(id).filter(|&pid| pid != 0 && tid != 0),
            cpu,
            context: Some(context),
            ts_ns,
            name: name.as_bytes(),
            body: b"",
            is_perf: true,
        };
        let bare = name.rsplit(':').next().unwrap_or(name);
        match KernelName::from_name(bare.as_bytes()) {
            Some(kernel) => match kernel_event(kernel, format, &raw) {
                Ok(event) => self.pass.told(&line, event),
                Err(field) => Err(Refusal::Line(format!("{name} has no field {field}"))),
            },
            None => {
                // Probes print like this, and are read like that.
                let mut body = Vec::new();
                let address = |field| format.number(&raw, field);
                match (address("__probe_ip"), address("__probe_func"), address("__probe_ret_ip")) {
                    (Some(ip), ..) => body.extend(format!("({ip:x})").bytes()),
                    (_, Some(func), Some(ret)) => body.extend(format!("({ret:x} <- {func:x})").bytes()),
                    _ => return self.pass.unplaced((ts_ns, cpu), name.as_bytes()),
                }
                for (field, value) in format.numbers(&raw, |f| !f.starts_with("common_") && !f.starts_with("__probe")) {
                    body.extend(format!(" {field}={value:#x}").bytes());
                }
                self.pass.event(&EventLine { body: &body, ..line })
            }
        }
    }
}

/// An id that is one: those of tasks outside of the recorder's namespace are negative.
fn id(number: i32) -> Option<u32> {
    u32::try_from(number).ok()
}

/// A line that says nothing but when, where and who.
fn bare(tid: u32, ts_ns: u64, cpu: Option<u32>) -> EventLine<'static> {
    let (comm, name, body) = (NAMELESS, &b""[..], &b""[..]);
    EventLine { comm, tid, tgid: None, cpu: cpu.unwrap_or(NO_CPU), context: None, ts_ns, name, body, is_perf: true }
}

/// What the raw bytes say. `Err` names the field that is missing.
fn kernel_event<'r>(name: KernelName, format: &Format, raw: &'r [u8]) -> Result<KernelEvent<'r>, &'static str> {
    let text = |field: &'static str| format.text(raw, field).ok_or(field);
    let number = |field: &'static str| format.number(raw, field).ok_or(field);
    let tid = |field: &'static str| number(field).map(|n| n as u32);
    // Priorities of deadline tasks are negative; they are unknown, as in texts. So are types of pages that have none.
    let prio = |field: &'static str| number(field).map(|n| Some(u64::from(n as u32)).filter(|&n| n < 1 << 31));
    let named = |comm, id| Ok::<_, &'static str>(Named { comm: text(comm)?, tid: tid(id)? });
    let target = || number("target_cpu");
    Ok(match name {
        KernelName::Switch => KernelEvent::Switch {
            prev: named("prev_comm", "prev_pid")?,
            prev_prio: prio("prev_prio")?,
            // What the kernel prints letters for: its own bits, and the one that says preempted.
            prev_state: number("prev_state")? & 0x1ff,
            next: named("next_comm", "next_pid")?,
            next_prio: prio("next_prio")?,
        },
        KernelName::Waking => KernelEvent::Waking { wakee: named("comm", "pid")?, target_cpu: target()? },
        KernelName::Wakeup => KernelEvent::Wakeup { wakee: named("comm", "pid")?, target_cpu: target()? },
        KernelName::WakeupNew => KernelEvent::WakeupNew { wakee: named("comm", "pid")?, target_cpu: target()? },
        KernelName::Fork => {
            KernelEvent::Fork { parent: named("parent_comm", "parent_pid")?, child: named("child_comm", "child_pid")? }
        }
        KernelName::NewTask => {
            let thread = number("clone_flags")? & 0x1_0000 != 0;
            KernelEvent::NewTask { child: named("comm", "pid")?, thread }
        }
        KernelName::Exec => KernelEvent::Exec { file: text("filename")?, tid: tid("pid")?, old_tid: tid("old_pid")? },
        KernelName::Exit => {
            let group_dead = format.number(raw, "group_dead").map(|dead| u64::from(dead != 0));
            KernelEvent::Exit { task: named("comm", "pid")?, group_dead }
        }
        KernelName::Rename => KernelEvent::Rename { tid: tid("pid")?, name: text("newcomm")? },
        KernelName::PageAlloc => KernelEvent::PageAlloc {
            // What nobody was given has the number -1.
            pfn: Some(number("pfn")?).filter(|&pfn| pfn != u64::MAX),
            order: number("order")?,
            migratetype: prio("migratetype")?,
            gfp_flags: Gfp::Bits(number("gfp_flags")?),
        },
        KernelName::BlockIssue => KernelEvent::BlockIssue {
            dev: number("dev")?,
            rwbs: text("rwbs")?,
            bytes: number("bytes")?,
            sector: number("sector")?,
            comm: text("comm")?,
        },
        KernelName::BlockComplete => KernelEvent::BlockComplete {
            dev: number("dev")?,
            rwbs: text("rwbs")?,
            bytes: number("nr_sector")?.saturating_mul(512),
            sector: number("sector")?,
            // Older kernels call it so.
            error: i64::from(number("error").or_else(|_| number("errors"))? as u32 as i32),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::within;

    #[test]
    fn the_clocks_are_read_where_the_events_are() {
        assert_eq!(within((1_000, 50_000), Some((4_000, 9_000))), (4_000, 53_000));
        assert_eq!(within((5_000, 54_000), Some((4_000, 9_000))), (5_000, 54_000));
        assert_eq!(within((10_000, 59_000), Some((4_000, 9_000))), (9_000, 58_000));
        assert_eq!(within((1_000, 50_000), None), (1_000, 50_000));
    }
}
