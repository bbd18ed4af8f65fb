//! The writer thread: takes batches off the queue and writes them into the file.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use ingero_format::{Error, Totals};

use crate::batch::Record;
use crate::drain::{Packet, Signals, go_first};
use crate::output::Output;
use crate::proc::clock::monotonic_ns;
use crate::scribe::{Counts, Scribe};

/// Longest time without a look at the clock.
const TICK: Duration = Duration::from_millis(50);
const TICK_NS: u64 = 20_000_000;
const SAMPLE_NS: u64 = 1_000_000_000;

/// What became of the file.
#[derive(Debug)]
pub struct Written {
    /// Rows and bytes.
    pub totals: Totals,
    /// Rows by what they are.
    pub counts: Counts,
    /// Why it ends early, if it does; it is whole up to there.
    pub problem: Option<anyhow::Error>,
}

/// Writes until the drain is done. `last_words` adds metadata known at the end.
///
/// # Errors
/// When the file could not be ended properly; what was written before stays readable.
pub fn run(
    mut scribe: Scribe<Output>,
    packets: Receiver<Packet>,
    spare: &SyncSender<Vec<Record>>,
    signals: &Signals,
    full: &AtomicBool,
    last_words: impl FnOnce() -> Vec<(String, String)>,
) -> Result<Written> {
    go_first(-10);
    let problem = write_all(&mut scribe, &packets, spare, signals, full).err();
    // After a failure the drain must not wait for room in the queue.
    drop(packets);
    let problem = problem.map(|e| {
        signals.failed.store(true, Ordering::Release);
        let now = monotonic_ns();
        let full = e.downcast_ref::<Error>().is_some_and(Error::is_disk_full) || full.load(Ordering::Acquire);
        // It will be tried again by the end of the file.
        let _ = scribe.ends_early(full, now, now);
        e.context("the recording ends early, what was written before is whole")
    });
    for (key, value) in last_words() {
        scribe.out().set_meta(&key, &value);
    }
    let (out, totals, counts) = scribe.finish().map_err(|e| match &problem {
        Some(problem) => anyhow!("{problem:#}"),
        None => anyhow!("ending the file: {e}; what was written before is whole"),
    })?;
    out.trim().map_err(|e| anyhow!("trimming the file: {e}"))?;
    Ok(Written { totals, counts, problem })
}

fn write_all(
    scribe: &mut Scribe<Output>,
    packets: &Receiver<Packet>,
    spare: &SyncSender<Vec<Record>>,
    signals: &Signals,
    full: &AtomicBool,
) -> Result<()> {
    let (mut ticked_ns, mut sampled_ns) = (0, monotonic_ns());
    scribe.sample()?;
    loop {
        match packets.recv_timeout(TICK) {
            Ok(Packet::Records(mut batch)) => {
                for record in &batch {
                    if signals.is_within(record.header().ts_ns) {
                        scribe.write(record)?;
                    }
                }
                batch.clear();
                // A full pool or a drain that is gone: the batch is freed.
                let _ = spare.try_send(batch);
            }
            Ok(Packet::Losses(losses)) => scribe.losses(&losses)?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if full.load(Ordering::Relaxed) {
            bail!("the disk is full, or the file as large as it may be (ulimit -f)");
        }
        let now_ns = monotonic_ns();
        if now_ns - ticked_ns >= TICK_NS {
            ticked_ns = now_ns;
            scribe.out().tick(now_ns)?;
            signals.events.store(scribe.out().events(), Ordering::Relaxed);
            signals.bytes.store(scribe.out().bytes_written(), Ordering::Relaxed);
        }
        if now_ns - sampled_ns >= SAMPLE_NS {
            sampled_ns = now_ns;
            scribe.sample()?;
        }
    }
    Ok(scribe.sample()?)
}
