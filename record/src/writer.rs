//! The writer thread: takes batches off the queue and writes them into the file.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use ingero_format::{Error, Totals};

use crate::batch::Batch;
use crate::drain::{Packet, Signals, go_first};
use crate::keeper::Keeper;
use crate::kernel::{WireEvent, exit_flag};
use crate::proc::clock::monotonic_ns;
use crate::scribe::{Counts, Scribe};
use crate::store::Store;

/// Longest time without a look at the clock.
const TICK: Duration = Duration::from_millis(20);
const TICK_NS: u64 = 20_000_000;
const SAMPLE_NS: u64 = 1_000_000_000;
/// Age after which a block is written. With the times at which it is looked at, and those that a record lies in the ring
/// and in the queue, a kill costs less than [`ingero_format::layout::SEAL_NS`].
pub const SEAL_AGE_NS: u64 = 150_000_000;
/// Age at which it is written down that a call is open, and how often that is looked at.
const OPEN_AGE_NS: u64 = 140_000_000;
const OPEN_LOOK_NS: u64 = 50_000_000;

/// zstd's level, and the one to which compression falls back while the writer is behind: events come before size.
const LEVEL: i32 = 1;
const LEVEL_BEHIND: i32 = -7;
/// Batches in the queue at which the writer counts as behind, and as back again: 64 k and 8 k records.
const BEHIND: usize = 8;
const CAUGHT_UP: usize = 1;

/// What became of the files.
#[derive(Debug)]
pub struct Written {
    /// Rows and bytes.
    pub totals: Totals,
    /// Rows by what they are.
    pub counts: Counts,
    /// The files, in order.
    pub files: Vec<PathBuf>,
    /// What else is to be said, a line each.
    pub notes: Vec<String>,
    /// Why it ends early, if it does; it is whole up to there.
    pub problem: Option<anyhow::Error>,
}

/// Writes until the drain is done. `last_words` adds metadata known at the end.
///
/// # Errors
/// When the file could not be ended properly; what was written before stays readable.
pub fn run(
    mut scribe: Scribe<Store>,
    mut keeper: Keeper,
    packets: Receiver<Packet>,
    spare: &SyncSender<Batch>,
    signals: &Signals,
    last_words: impl FnOnce() -> Vec<(String, String)>,
) -> Result<Written> {
    // With some hundred busy threads about, -10 left it a twentieth of a CPU.
    go_first(-20);
    let problem = write_all(&mut scribe, &mut keeper, &packets, spare, signals).err();
    // After a failure the drain must not wait for room in the queue.
    drop(packets);
    let problem = problem.map(|e| {
        signals.failed.store(true, Ordering::Release);
        let now = monotonic_ns();
        let full = e.downcast_ref::<Error>().is_some_and(Error::is_disk_full) || scribe.out().get_ref().is_full();
        // It will be tried again by the end of the file.
        let _ = scribe.ends_early(full, now, now);
        e.context("the recording ends early, what was written before is whole")
    });
    for (key, value) in last_words() {
        scribe.out().set_meta(&key, &value);
    }
    let (totals, counts) = keeper.finish(scribe).map_err(|e| match &problem {
        Some(problem) => anyhow!("{problem:#}"),
        None => anyhow!("{e:#}; what was written before is whole"),
    })?;
    let (files, notes) = keeper.into_notes();
    Ok(Written { totals, counts, files, notes, problem })
}

fn write_all(
    scribe: &mut Scribe<Store>,
    keeper: &mut Keeper,
    packets: &Receiver<Packet>,
    spare: &SyncSender<Batch>,
    signals: &Signals,
) -> Result<()> {
    let (mut ticked_ns, mut sampled_ns, mut looked_ns, mut last_ns) = (0, monotonic_ns(), 0, 0);
    let (in_flight, mut was_behind) = (keeper.flight().is_some(), false);
    scribe.sample()?;
    loop {
        match packets.recv_timeout(TICK) {
            Ok(Packet::Records(mut batch)) => {
                for event in batch.iter() {
                    let event = event?;
                    let ts_ns = event.header().ts_ns;
                    if !signals.is_within(ts_ns) {
                        continue;
                    }
                    if in_flight {
                        look_at_end(scribe, keeper, &event);
                    }
                    scribe.write(&event)?;
                    last_ns = ts_ns;
                }
                batch.clear();
                // A full pool or a drain that is gone: the batch is freed.
                let _ = spare.try_send(batch);
                // The drain may count a batch after it was written.
                let counted =
                    signals.queued.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| Some(n.saturating_sub(1)));
                match counted.unwrap_or(0) {
                    n if n >= BEHIND => {
                        if !was_behind {
                            signals.pressures.fetch_add(1, Ordering::Relaxed);
                        }
                        was_behind = true;
                        scribe.out().set_level(LEVEL_BEHIND)?;
                    }
                    n if n <= CAUGHT_UP => {
                        was_behind = false;
                        scribe.out().set_level(LEVEL)?;
                    }
                    _ => {}
                }
            }
            Ok(Packet::Losses(losses)) => scribe.losses(&losses)?,
            Ok(Packet::Findings(findings)) => scribe.findings(findings)?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if scribe.out().get_ref().is_full() {
            bail!("the disk is full, or the file as large as it may be (ulimit -f)");
        }
        let now_ns = monotonic_ns();
        if now_ns - ticked_ns >= TICK_NS {
            ticked_ns = now_ns;
            scribe.out().tick(now_ns)?;
            keeper.look(scribe, signals, now_ns, last_ns)?;
            let totals = keeper.totals(scribe.out());
            signals.events.store(totals.events, Ordering::Relaxed);
            signals.bytes.store(totals.bytes, Ordering::Relaxed);
        }
        // Memory does not outlive a kill, and the past is written with what is open then.
        if now_ns - looked_ns >= OPEN_LOOK_NS && !in_flight {
            looked_ns = now_ns;
            scribe.open_calls(now_ns.saturating_sub(OPEN_AGE_NS))?;
        }
        if now_ns - sampled_ns >= SAMPLE_NS {
            sampled_ns = now_ns;
            scribe.sample()?;
        }
    }
    Ok(scribe.sample()?)
}

/// Tells the keeper of a process that ends, before the scribe forgets it.
fn look_at_end(scribe: &Scribe<Store>, keeper: &mut Keeper, event: &WireEvent<'_>) {
    if let WireEvent::Exit(exit) = event
        && exit.header.flags & exit_flag::GROUP_DEAD != 0
        && scribe.is_followed(exit.tgid)
    {
        keeper.process_ended(exit.tgid, exit.exit_code);
    }
}
