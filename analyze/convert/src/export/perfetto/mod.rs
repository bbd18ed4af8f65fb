//! Export to Perfetto's own format, a stream of protocol buffers.
//!
//! Switches and wakes go into it as the kernel's tracer records them, in compact bundles, so that Perfetto makes thread
//! states, CPU tracks and arrows from wakers of them as it does of its own recordings. Calls, phases, incidents, losses and
//! counters are track events, and so are the two ends of a wake, on a track of wakes below each thread: the reader's table
//! of flows joins slices, which it makes of no state. Packets are written as they come, some
//! 64 KiB of them packed together: a file that is cut off loses what came after, no more.
//!
//! Times are on `CLOCK_BOOTTIME`, which Perfetto expects; snapshots of the clocks lead to the others.

mod proto;
mod sched;
mod sink;
mod stream;

use std::io::Write;

use ingero_analyze::Analysis;
use ingero_format::Trace;
use ingero_replay::Processes;

use super::selection::Selection;
use super::track::Tracks;
use crate::error::Error;
use crate::input::Progress;
use sink::PerfettoSink;
use stream::PacketStream;

/// What an export did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Exported {
    /// Slices of calls.
    pub calls: u64,
    /// Switches written.
    pub switches: u64,
    /// Wakes written.
    pub wakes: u64,
    /// Arrows from a waker to whom it woke.
    pub flows: u64,
    /// Slices that were cut because they overlapped.
    pub cut: u64,
    /// Parts of the trace that could not be read.
    pub damaged: u64,
}

/// Writes what is selected of a trace in Perfetto's format.
///
/// # Errors
/// [`Error::Io`] when `out` does not take the bytes.
pub fn export(trace: &Trace, selection: &Selection, out: impl Write, progress: &Progress) -> Result<Exported, Error> {
    export_to(PacketStream::new(out), trace, selection, progress)
}

fn export_to(
    stream: PacketStream<impl Write>,
    trace: &Trace,
    selection: &Selection,
    progress: &Progress,
) -> Result<Exported, Error> {
    let processes = Processes::new(trace);
    let tracks = Tracks::new(trace, &processes);
    let mut sink = PerfettoSink::new(trace, &processes, &tracks, selection, stream, progress);
    sink.begin();
    let analysis = Analysis::beside(trace, selection.window, &mut sink);
    let repairs = &analysis.repairs;
    for lost in &repairs.lost_blocks {
        sink.damage(&lost.error.to_string(), lost.entry.header.ts_min, lost.entry.header.ts_max);
    }
    // After the events: what is cut off is then what the events show anyway.
    sink.verdicts(&analysis);
    let mut exported = sink.finish().map_err(|e| Error::io(crate::output::WRITING, e))?;
    exported.damaged = repairs.lost_blocks.len() as u64 + trace.damage().len() as u64;
    progress.done();
    Ok(exported)
}

#[cfg(test)]
mod tests;
