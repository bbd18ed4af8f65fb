//! Recordings held in memory, to be written again and again: what the benchmarks and the size
//! measurements work on.
//!
//! Everything here works on what was recorded, never on made-up rows: what a codec makes of counters
//! says nothing of what it makes of a scheduler.

#![deny(unsafe_code)]

mod clock;

use std::io::Write;
use std::path::Path;

use ingero_format::catalog::Kind;
use ingero_format::{Error, FunctionInfo, Task, Totals, Trace, TraceWriter, WriterOptions};
use ingero_replay::{Event, Merge};

pub use clock::thread_time;

/// How often a recording writer is told the time.
const TICK_NS: u64 = 20_000_000;

/// The events of a recording in the order of their times, as the recorder hands them to the writer,
/// and the dictionaries that they refer to.
pub struct Recording {
    /// All events.
    pub events: Vec<Event>,
    meta: Vec<(String, String)>,
    strings: Vec<Box<str>>,
    tasks: Vec<Task>,
    functions: Vec<FunctionInfo>,
}

/// Whether a kind says something of tasks, clocks or the machine, and comes with every recording
/// whatever its tracepoints.
#[must_use]
pub fn describes(kind: Kind) -> bool {
    matches!(kind, Kind::Name | Kind::Process | Kind::Clock | Kind::System | Kind::Loss)
}

impl Recording {
    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be opened or some of its blocks cannot be read.
    pub fn load(path: &Path) -> anyhow::Result<Self> {
        let trace = Trace::open(path)?;
        let mut merge = Merge::new(&trace);
        let events: Vec<Event> = merge.by_ref().collect();
        if let Some(lost) = merge.into_lost().pop() {
            return Err(lost.error.into());
        }
        Ok(Self {
            events,
            meta: trace.meta_entries().to_vec(),
            strings: trace.strings().to_vec(),
            tasks: trace.tasks().to_vec(),
            functions: trace.functions().to_vec(),
        })
    }

    /// Leaves out what is not `wanted`.
    pub fn retain(&mut self, wanted: impl Fn(Kind) -> bool) {
        self.events.retain(|e| wanted(e.body.kind()));
    }

    /// How many events of a kind there are.
    #[must_use]
    pub fn count(&self, kind: Kind) -> u64 {
        self.events.iter().filter(|e| e.body.kind() == kind).count() as u64
    }

    /// Ends the recording behind so many events that do not merely describe.
    pub fn truncate(&mut self, events: usize) {
        let mut places = self.events.iter().enumerate().filter(|(_, e)| !describes(e.body.kind()));
        if let Some((end, _)) = places.nth(events) {
            self.events.truncate(end);
        }
    }

    /// Begins a file with the recording's metadata and dictionaries.
    ///
    /// # Errors
    /// When `out` does not take the bytes.
    pub fn writer<W: Write>(&self, out: W, options: WriterOptions) -> Result<TraceWriter<W>, Error> {
        let mut writer = TraceWriter::new(out, options)?;
        for (key, value) in &self.meta {
            writer.set_meta(key, value);
        }
        for text in self.strings.iter().skip(1) {
            writer.string(text);
        }
        for &task in self.tasks.iter().skip(1) {
            writer.task(task);
        }
        for function in &self.functions {
            writer.function(function.clone());
        }
        Ok(writer)
    }

    /// Writes the recording as the recorder does: blocks end by their age, too.
    ///
    /// # Errors
    /// When `out` does not take the bytes.
    pub fn write<W: Write>(&self, out: W, options: WriterOptions) -> Result<(W, Totals), Error> {
        let mut writer = self.writer(out, options)?;
        let mut ticked_ns = 0;
        for event in &self.events {
            writer.push_any(event.ts_ns, event.cpu, &event.body)?;
            if event.ts_ns.saturating_sub(ticked_ns) >= TICK_NS {
                ticked_ns = event.ts_ns;
                writer.tick(ticked_ns)?;
            }
        }
        writer.finish()
    }
}
