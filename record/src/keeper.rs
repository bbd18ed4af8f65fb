//! Ends one file and begins the next, keeps the last while in memory, and writes it when asked to.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow};
use ingero_format::catalog::FUNCTIONS;
use ingero_format::{Recent, Totals, TraceWriter, WriterOptions};

use crate::drain::Signals;
use crate::keep::{FlightPlan, Keep, Limit, existing_parts, numbered};
use crate::output::Output;
use crate::plan::Plan;
use crate::scribe::Scribe;
use crate::store::{Store, Writer};
use crate::writer;

/// Share of `--flight` after which a new segment begins: what is kept beyond the time that was asked for.
const SEGMENTS: u64 = 8;
const SEGMENT_NS_MIN: u64 = 50_000_000;
/// Files that triggers may have written in one recording.
const TRIGGERED_FILES: u32 = 100;
/// Room below `--max-size` for rows that are not in a block yet.
const LAST_ROWS_BYTES: u64 = 256 << 10;
/// What a chunk takes in the index.
const CHUNK_INDEX_BYTES: u64 = 80;

/// Which files there are, and when the next one is due.
#[derive(Debug)]
pub struct Keeper {
    output: PathBuf,
    force: bool,
    owner: Option<(u32, u32)>,
    keep: Keep,
    max_bytes: Option<u64>,
    files: Vec<PathBuf>,
    number: u32,
    /// Of the files that are complete.
    ended: Totals,
    /// When the part or the segment began.
    began_ns: u64,
    triggered: Option<Triggered>,
    last_trigger_ns: Option<u64>,
    trigger_files: u32,
    too_soon: u64,
    writing: Option<JoinHandle<Result<(PathBuf, Totals)>>>,
    notes: Vec<String>,
}

/// What asks for the past to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Triggered {
    /// Somebody.
    Signal,
    /// What was recorded, and how it reads.
    Event(String),
}

impl Keeper {
    /// As planned.
    #[must_use]
    pub fn new(plan: &Plan) -> Self {
        Self {
            output: plan.output.clone(),
            force: plan.force,
            owner: plan.user.as_ref().map(|user| (user.uid, user.gid)),
            keep: plan.keep.clone(),
            max_bytes: plan.max_bytes,
            files: Vec::new(),
            number: 0,
            ended: Totals::default(),
            began_ns: 0,
            triggered: None,
            last_trigger_ns: None,
            trigger_files: 0,
            too_soon: 0,
            writing: None,
            notes: Vec::new(),
        }
    }

    /// Begins the first file, or the memory.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn begin(&mut self, now_ns: u64) -> Result<Writer> {
        self.began_ns = now_ns;
        if self.force && !matches!(self.keep, Keep::Whole) {
            // Parts of an earlier recording would pass for parts of this one.
            for part in existing_parts(&self.output) {
                std::fs::remove_file(&part).with_context(|| format!("--output {}: replacing it", part.display()))?;
            }
        }
        let store = match &self.keep {
            Keep::Whole => self.create(self.output.clone())?,
            Keep::Parts(_) => self.create_next()?,
            Keep::Flight(flight) => Store::Recent(Recent::new(flight.limit_bytes)),
        };
        let options = WriterOptions { seal_ns: writer::SEAL_AGE_NS, ..WriterOptions::default() };
        TraceWriter::new(store, options).context("beginning the file").inspect_err(|_| {
            // It holds nothing.
            for begun in self.files.drain(..) {
                let _ = std::fs::remove_file(begun);
            }
        })
    }

    fn create(&mut self, path: PathBuf) -> Result<Store> {
        let output = Output::create(&path, self.force)?;
        self.give(&output, &path)?;
        self.files.push(path);
        Ok(Store::File(output))
    }

    fn create_next(&mut self) -> Result<Store> {
        self.number += 1;
        self.create(numbered(&self.output, self.number))
    }

    fn give(&self, output: &Output, path: &Path) -> Result<()> {
        let Some((uid, gid)) = self.owner else { return Ok(()) };
        output.give_to(uid, gid).with_context(|| format!("--output {}: giving it to user {uid}", path.display()))
    }

    /// Files that were begun, in order.
    #[must_use]
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// What flight recording waits for.
    #[must_use]
    pub fn flight(&self) -> Option<&FlightPlan> {
        match &self.keep {
            Keep::Flight(flight) => Some(flight),
            _ => None,
        }
    }

    /// A process ended that was asked for.
    pub fn process_ended(&mut self, pid: u32, wait_status: i32) {
        let Some(flight) = self.flight() else { return };
        if flight.any_exit || flight.failed_exit && wait_status != 0 {
            let how = match (wait_status & 0x7f, wait_status >> 8 & 0xff) {
                (0, code) => format!("with code {code}"),
                (signal, _) => format!("by signal {signal}"),
            };
            self.triggered = Some(Triggered::Event(format!("process {pid} ended {how}")));
        }
    }

    /// Events and bytes so far, all files together.
    #[must_use]
    pub fn totals(&self, out: &Writer) -> Totals {
        Totals { events: self.ended.events + out.events(), bytes: self.ended.bytes + out.bytes_written() }
    }

    /// Does what is due. `last_ns` is the time of the latest record that was written.
    ///
    /// # Errors
    /// When a file does not take its end, or the next one its beginning.
    pub fn look(&mut self, scribe: &mut Scribe<Store>, signals: &Signals, now_ns: u64, last_ns: u64) -> Result<()> {
        let bytes = self.totals(scribe.out()).bytes;
        if let Some(max) = self.max_bytes {
            let index = scribe.out().chunks() as u64 * CHUNK_INDEX_BYTES;
            if bytes + index + LAST_ROWS_BYTES.min(max / 4) >= max && !signals.limit_reached.load(Ordering::Acquire) {
                // What comes later is no part of the recording any more.
                let _ = signals.stop_ns.compare_exchange(0, last_ns.max(1), Ordering::AcqRel, Ordering::Acquire);
                signals.limit_reached.store(true, Ordering::Release);
                self.notes.push("stopped at --max-size".to_owned());
            }
        }
        match self.keep.clone() {
            Keep::Whole => Ok(()),
            Keep::Parts(limit) => {
                let due = match limit {
                    Limit::Bytes(limit) => scribe.out().bytes_written() >= limit,
                    Limit::Time(time) => u128::from(now_ns - self.began_ns) >= time.as_nanos(),
                };
                if due && !signals.limit_reached.load(Ordering::Acquire) {
                    self.next_part(scribe, now_ns)
                } else {
                    Ok(())
                }
            }
            Keep::Flight(flight) => self.look_at_flight(scribe, signals, &flight, now_ns),
        }
    }

    fn next_part(&mut self, scribe: &mut Scribe<Store>, now_ns: u64) -> Result<()> {
        scribe.tell_open()?;
        let next = self.create_next()?;
        scribe.out().set_meta("part", &self.number.to_string());
        scribe.out().set_meta("start_unix_ns", &crate::proc::clock::real_ns().to_string());
        let (ended, totals) = scribe.out().next_part(next).context("beginning the next part")?;
        ended.trim().context("trimming the file")?;
        self.ended.events += totals.events;
        self.ended.bytes += totals.bytes;
        self.began_ns = now_ns;
        scribe.begin_part(now_ns)?;
        Ok(())
    }

    fn look_at_flight(
        &mut self,
        scribe: &mut Scribe<Store>,
        signals: &Signals,
        flight: &FlightPlan,
        now_ns: u64,
    ) -> Result<()> {
        let window_ns = u64::try_from(flight.window.as_nanos()).unwrap_or(u64::MAX);
        if now_ns - self.began_ns >= (window_ns / SEGMENTS).max(SEGMENT_NS_MIN) {
            self.began_ns = now_ns;
            scribe.out().flush()?;
            scribe.out().forget_chunks();
            if let Some(recent) = scribe.out().get_mut().recent() {
                recent.begin_segment(now_ns, now_ns.saturating_sub(window_ns));
            }
            scribe.write_roster(now_ns)?;
        }
        let slowest = scribe.take_slowest();
        if flight.slow_call.is_some_and(|limit| u128::from(slowest.dur_ns) >= limit.as_nanos()) {
            let name = FUNCTIONS.get(slowest.function).map_or("?", |f| f.symbol);
            let text = format!("{name} took {:.1} ms", slowest.dur_ns as f64 / 1e6);
            self.triggered.get_or_insert(Triggered::Event(text));
        }
        if signals.write_now.swap(false, Ordering::AcqRel) {
            self.triggered = Some(Triggered::Signal);
        }
        if self.writing.as_ref().is_some_and(JoinHandle::is_finished) {
            self.collect();
        }
        match self.triggered.take() {
            None => Ok(()),
            Some(Triggered::Signal) => self.write_past(scribe, "signal"),
            Some(Triggered::Event(why)) => {
                // Windows that overlap would tell the same again and again.
                let soon = self.last_trigger_ns.is_some_and(|last| now_ns - last < window_ns);
                if soon || self.trigger_files >= TRIGGERED_FILES {
                    self.too_soon += 1;
                    return Ok(());
                }
                self.last_trigger_ns = Some(now_ns);
                self.trigger_files += 1;
                self.write_past(scribe, &why)
            }
        }
    }

    /// Writes what is kept into a file of its own, on a thread of its own: recording goes on.
    fn write_past(&mut self, scribe: &mut Scribe<Store>, why: &str) -> Result<()> {
        self.collect();
        self.number += 1;
        let path = numbered(&self.output, self.number);
        // A disk that is full now may have room at the end: the recording goes on.
        match self.begin_past(scribe, &path, why) {
            Ok(write) => {
                self.notes.push(format!("{}: {why}", path.display()));
                self.writing = Some(std::thread::Builder::new().name("ingero-past".to_owned()).spawn(write)?);
            }
            Err(e) => self.notes.push(format!("WARNING: {}: {e:#}", path.display())),
        }
        Ok(())
    }

    /// Prepares the file of the past; the result, when called, writes it.
    fn begin_past(
        &self,
        scribe: &mut Scribe<Store>,
        path: &Path,
        why: &str,
    ) -> Result<impl FnOnce() -> Result<(PathBuf, Totals)> + Send + 'static> {
        scribe.out().flush()?;
        let open = scribe.open_rows();
        let unfinished = path.with_added_extension("tmp");
        let output = Output::create(&unfinished, true)?;
        self.give(&output, &unfinished)?;
        let mut copy = scribe.out().copy_to(output)?;
        copy.set_meta("flight", why);
        let recent = scribe.out().get_mut().recent();
        let (blocks, crowded_out) = recent.map_or((Vec::new(), 0), |r| (r.blocks(), r.crowded_out()));
        if crowded_out > 0 {
            copy.set_meta("flight_short", "the memory of --flight-size did not hold the whole time");
        }
        let path = path.to_path_buf();
        Ok(move || {
            let write = || -> Result<Totals> {
                for block in &blocks {
                    copy.adopt(block)?;
                }
                for row in &open {
                    copy.push(row.ts_ns, row.cpu, &row.call)?;
                }
                let (output, totals) = copy.finish()?;
                output.trim()?;
                std::fs::rename(&unfinished, &path)?;
                Ok(totals)
            };
            let written = write();
            if written.is_err() {
                let _ = std::fs::remove_file(&unfinished);
            }
            written.map(|totals| (path.clone(), totals)).with_context(|| format!("{}", path.display()))
        })
    }

    /// Waits for the file of the past that is being written.
    fn collect(&mut self) {
        let Some(writing) = self.writing.take() else { return };
        match writing.join() {
            Ok(Ok((path, _))) => self.files.push(path),
            Ok(Err(e)) => self.notes.push(format!("WARNING: {e:#}")),
            Err(_) => self.notes.push("WARNING: the thread that wrote the past crashed; please report this".to_owned()),
        }
    }

    /// Ends the last file. The events and bytes are those of all files; of flight recording, those of the last one.
    ///
    /// # Errors
    /// When the file could not be ended properly.
    pub fn finish(&mut self, mut scribe: Scribe<Store>) -> Result<(Totals, crate::scribe::Counts)> {
        scribe.close()?;
        if let Some(flight) = self.flight().cloned() {
            self.collect();
            let output = self.output.clone();
            let write = self.begin_past(&mut scribe, &output, "end")?;
            let (path, totals) = write()?;
            self.files.push(path);
            let out = scribe.out();
            if out.get_mut().recent().is_some_and(|r| r.crowded_out() > 0) {
                self.notes.push(format!(
                    "WARNING: --flight-size did not hold {:.1} s: the files hold less",
                    flight.window.as_secs_f64()
                ));
            }
            if self.too_soon > 0 {
                self.notes.push(format!("{} more triggers came within a window of one before", self.too_soon));
            }
            return Ok((totals, scribe.counts().clone()));
        }
        let (out, last, counts) = scribe.finish().map_err(|e| anyhow!("ending the file: {e}"))?;
        out.trim().context("trimming the file")?;
        let totals = Totals { events: self.ended.events + last.events, bytes: self.ended.bytes + last.bytes };
        Ok((totals, counts))
    }

    /// What is to be said at the end, a line each.
    #[must_use]
    pub fn into_notes(self) -> (Vec<PathBuf>, Vec<String>) {
        (self.files, self.notes)
    }
}
