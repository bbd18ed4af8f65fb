//! Export to the Chrome trace format, as <https://ui.perfetto.dev> reads it.
//!
//! Each thread has two tracks in its process: its calls, nested, and its states (running on a CPU,
//! runnable, blocked, throttled). Arrows lead from a waker to whom it woke. Each CPU has a track of
//! who was on it, each process one of its phases and one for each of its incidents; counters show
//! the machine, and a track of its own says what the recording lost. Times count from the trace's
//! start, in microseconds with three decimals, so that no nanosecond is lost to a double.
//!
//! A viewer drops slices that overlap others of their track without nesting, so none do here:
//! where a trace says so (damage, two clocks) the inner one is cut and marked `cut`.

mod sink;

use std::io::{self, Write};

use ingero_analyze::Analysis;
use ingero_format::Trace;
use ingero_replay::Processes;

use super::json::Object;
use super::selection::Selection;
use super::track::Tracks;
use crate::error::Error;
use crate::input::Progress;
use sink::ChromeSink;

/// What an export did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Exported {
    /// Slices of calls.
    pub calls: u64,
    /// Slices of thread states.
    pub states: u64,
    /// Arrows from wakers to whom they woke.
    pub flows: u64,
    /// Slices that were cut because they overlapped.
    pub cut: u64,
    /// Blocks of the trace that could not be read.
    pub damaged: u64,
}

/// From so many nanoseconds on a double, in which readers of this format keep microseconds, no longer tells nanoseconds apart: ten of
/// its 53 bits have to stand behind the point.
const EXACT_NS: u64 = (1 << 43) * 1000;

/// What has to be said of a part that ends too long after its recording's start for readers of this format, as one of recordings that
/// are months apart does. Times from another start would not be those of the recording.
#[must_use]
pub fn inexact(trace: &Trace, selection: &Selection) -> Option<String> {
    let (start_ns, end_ns) = trace.span_ns()?;
    let ns = selection.window.to_ns.min(end_ns).saturating_sub(start_ns);
    (ns > EXACT_NS).then(|| {
        let days = |ns: u64| ns / (24 * 3600 * 1_000_000_000);
        format!(
            "WARNING: this ends {} days after the recording's start; readers of this format keep times in doubles, which have no \
             nanoseconds left after {} days, and drop slices that seem to overlap then: --perfetto has all of them",
            days(ns),
            days(EXACT_NS)
        )
    })
}

/// Writes what is selected of a trace as Chrome JSON.
///
/// # Errors
/// [`Error::Io`] when `out` does not take the bytes.
pub fn export(trace: &Trace, selection: &Selection, out: impl Write, progress: &Progress) -> Result<Exported, Error> {
    let processes = Processes::new(trace);
    let tracks = Tracks::new(trace, &processes);
    let mut sink = ChromeSink::new(trace, &processes, &tracks, selection, Events::begin(out), progress);
    let analysis = Analysis::beside(trace, selection.window, &mut sink);
    let repairs = &analysis.repairs;
    for lost in &repairs.lost_blocks {
        sink.damage(&lost.error.to_string(), lost.entry.header.ts_min, lost.entry.header.ts_max);
    }
    sink.verdicts(&analysis);
    let (events, mut exported) = sink.finish();
    exported.damaged = repairs.lost_blocks.len() as u64 + trace.damage().len() as u64;
    events
        .end(|o| {
            o.text("converter", "ingero-convert");
            o.text("complete", if trace.complete() { "true" } else { "false" });
            o.text("slices_cut", &exported.cut.to_string());
            o.text("switch_ins_synthesised", &repairs.synthesised.to_string());
            o.text("intervals_dropped", &repairs.dropped.to_string());
            o.text("blocks_damaged", &exported.damaged.to_string());
            if let Some((start, _)) = trace.span_ns() {
                o.text("start_ns", &start.to_string());
                if let Some(unix) = ingero_replay::start_unix_ns(trace, start) {
                    o.text("start_unix_ns", &unix.to_string());
                }
            }
            for (key, value) in trace.meta_entries() {
                o.text(&format!("trace.{key}"), value);
            }
        })
        .map_err(|e| Error::io(crate::output::WRITING, e))?;
    Ok(exported)
}

/// The array of events. The first error stays and ends all writing.
pub(crate) struct Events<W: Write> {
    out: W,
    buffer: String,
    first: bool,
    failed: Option<io::Error>,
}

impl<W: Write> Events<W> {
    fn begin(out: W) -> Self {
        Self { out, buffer: "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[".to_owned(), first: true, failed: None }
    }

    /// Writes one event.
    pub(crate) fn event(&mut self, fill: impl FnOnce(&mut Object)) {
        const FULL: usize = 1 << 16;
        if self.failed.is_some() {
            return;
        }
        self.buffer.push_str(if std::mem::take(&mut self.first) { "\n" } else { ",\n" });
        let mut object = Object::open(&mut self.buffer);
        fill(&mut object);
        object.close();
        if self.buffer.len() >= FULL {
            self.write();
        }
    }

    fn write(&mut self) {
        if let Err(e) = self.out.write_all(self.buffer.as_bytes()) {
            self.failed = Some(e);
        }
        self.buffer.clear();
    }

    fn end(mut self, other: impl FnOnce(&mut Object)) -> io::Result<()> {
        self.buffer.push_str("\n],\"otherData\":");
        let mut object = Object::open(&mut self.buffer);
        other(&mut object);
        object.close();
        self.buffer.push_str("}\n");
        if self.failed.is_none() {
            self.write();
        }
        match self.failed {
            Some(e) => Err(e),
            None => self.out.flush(),
        }
    }
}

#[cfg(test)]
mod tests;
