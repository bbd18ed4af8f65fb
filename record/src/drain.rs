//! The drain thread: empties the ring in bounded batches and never does anything slow.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::{Duration, Instant};

use crate::batch::{BATCH_BYTES, BATCH_RECORDS, Batch};
use crate::finding::Finding;
use crate::kernel::{Drain, Error, Kernel, Loss};
use crate::proc::process::list_ids;

/// Longest time for which records lie in the ring while there are few.
pub const ROUND: Duration = Duration::from_millis(4);
/// Memory that batches on their way to the writer may take, within these bounds an eighth of what is free. Beyond that the
/// ring holds what comes: the kernel cannot swap it, so it is the smaller store.
const QUEUE_BYTES: std::ops::RangeInclusive<u64> = 16 << 20..=256 << 20;
/// Batches grow to this many times their size while the writer is behind.
const GROWTH: usize = 4;
const LOSS_INTERVAL: Duration = Duration::from_millis(250);
/// Pause after the stop while a record is still being written.
const HELD_UP: Duration = Duration::from_micros(500);
/// A ring that refills as fast as it is drained after the stop holds nothing of the recording any more.
const LAST_ROUND: Duration = Duration::from_secs(10);

/// Batches on their way to the writer at most.
#[must_use]
pub fn queue_batches(free_bytes: u64) -> usize {
    let bytes = (free_bytes / 8).clamp(*QUEUE_BYTES.start(), *QUEUE_BYTES.end());
    usize::try_from(bytes).unwrap_or(0) / BATCH_BYTES
}

/// Lets the calling thread go before others of its kind.
pub fn go_first(nice: i32) {
    // SAFETY: no pointers. On Linux 0 is the calling thread. Without the right to it all stays as it was.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) };
}

/// Lets the calling thread run as soon as it wants to. A drain that waits behind the very programs it records loses what they
/// do; it needs little time, but at once. A better nice value alone was not enough with more busy threads than CPUs.
pub fn go_at_once() {
    if !take_precedence(0) {
        go_first(-20);
    }
}

/// Lets all threads of the recorder run as soon as they want to: for its end, which somebody waits for. Behind some hundred busy
/// threads each step of it took a second.
pub fn all_go_at_once() {
    for thread in list_ids("/proc/self/task") {
        take_precedence(thread);
    }
}

/// 0 is the calling thread. Returns whether it was granted.
fn take_precedence(thread: u32) -> bool {
    // SAFETY: a zeroed parameter block is valid; the pointer outlives the call.
    unsafe {
        let mut lowest: libc::sched_param = std::mem::zeroed();
        lowest.sched_priority = 1;
        let policy = libc::SCHED_RR | libc::SCHED_RESET_ON_FORK;
        libc::sched_setscheduler(thread.cast_signed(), policy, &raw const lowest) == 0
    }
}

/// What goes to the writer.
#[derive(Debug)]
pub enum Packet {
    /// Records in ring order.
    Records(Batch),
    /// What was lost meanwhile.
    Losses(Vec<Loss>),
    /// What was found by looking.
    Findings(Vec<Finding>),
}

/// What the threads tell each other without queueing.
#[derive(Debug, Default)]
pub struct Signals {
    /// Records later than this are not part of the recording; 0 while it runs.
    pub stop_ns: AtomicU64,
    /// The writer or the drain has given up.
    pub failed: AtomicBool,
    /// The files have become as large as they may: what comes after [`stop_ns`](Self::stop_ns) is not wanted.
    pub limit_reached: AtomicBool,
    /// Somebody asks for the past to be written.
    pub write_now: AtomicBool,
    /// Times that the drain found the writer's queue full.
    pub stalls: AtomicU64,
    /// Times that compression gave way because the writer was behind.
    pub pressures: AtomicU64,
    /// Batches on their way to the writer.
    pub queued: AtomicUsize,
    /// Events in the file.
    pub events: AtomicU64,
    /// Bytes in the file.
    pub bytes: AtomicU64,
    /// Events lost.
    pub lost: AtomicU64,
}

impl Signals {
    /// Whether a record of this time belongs to the recording.
    #[must_use]
    pub fn is_within(&self, ts_ns: u64) -> bool {
        let stop = self.stop_ns.load(Ordering::Acquire);
        stop == 0 || ts_ns <= stop
    }

    fn stopped(&self) -> bool {
        self.stop_ns.load(Ordering::Acquire) != 0
    }
}

/// Drains until the recording is stopped and the ring is empty, or the writer is gone.
///
/// # Errors
/// When the ring cannot be read.
pub fn run(
    mut drain: Drain,
    kernel: &Arc<Mutex<Kernel>>,
    to_writer: &SyncSender<Packet>,
    spare: &Receiver<Batch>,
    signals: &Signals,
) -> Result<(), Error> {
    go_at_once();
    let mut batch = Batch::default();
    let mut losses_at = Instant::now();
    let mut stopped_at = None;
    loop {
        // Asked before reading: what was in the ring at the stop is read after it.
        let stopped = signals.stopped();
        let room = (BATCH_RECORDS * GROWTH).saturating_sub(batch.len()).min(BATCH_RECORDS);
        let count = drain.read_bytes(room, |record| batch.push(record))?;
        let past = batch.last_ns().is_some_and(|ts_ns| !signals.is_within(ts_ns));
        if !batch.is_empty() && !send(&mut batch, to_writer, spare, signals) {
            return Ok(());
        }
        if losses_at.elapsed() >= LOSS_INTERVAL {
            losses_at = Instant::now();
            if !send_losses(kernel, to_writer, signals, false)? {
                return Ok(());
            }
        }
        if stopped {
            let since = *stopped_at.get_or_insert_with(Instant::now);
            let empty = count == 0 && !drain.is_held_up();
            if batch.is_empty() && (empty || past) || since.elapsed() > LAST_ROUND {
                if !batch.is_empty() {
                    // The writer takes it or is gone.
                    let _ = to_writer.send(Packet::Records(batch));
                }
                send_losses(kernel, to_writer, signals, true)?;
                return Ok(());
            }
            if drain.is_held_up() {
                // Whoever writes that record may need this very CPU to go on.
                std::thread::sleep(HELD_UP);
            }
        } else if count < BATCH_RECORDS / 2 {
            drain.wait(ROUND)?;
        }
    }
}

/// Hands the batch over; keeps it for the next round while the queue is full, unless it has grown too large.
/// Returns whether there still is a writer.
fn send(batch: &mut Batch, to_writer: &SyncSender<Packet>, spare: &Receiver<Batch>, signals: &Signals) -> bool {
    let full = std::mem::replace(batch, spare.try_recv().unwrap_or_default());
    match to_writer.try_send(Packet::Records(full)) {
        Ok(()) => {
            signals.queued.fetch_add(1, Ordering::Relaxed);
        }
        Err(TrySendError::Disconnected(_)) => return false,
        Err(TrySendError::Full(packet)) => {
            signals.stalls.fetch_add(1, Ordering::Relaxed);
            match packet {
                Packet::Records(kept) if kept.len() < BATCH_RECORDS * GROWTH => {
                    *batch = kept;
                    std::thread::sleep(Duration::from_micros(500));
                    return true;
                }
                packet => {
                    if to_writer.send(packet).is_err() {
                        return false;
                    }
                    signals.queued.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }
    true
}

fn send_losses(
    kernel: &Arc<Mutex<Kernel>>,
    to_writer: &SyncSender<Packet>,
    signals: &Signals,
    last: bool,
) -> Result<bool, Error> {
    // Attaching may hold the kernel side for a while: the counts do not run away.
    let losses = match kernel.try_lock() {
        Ok(mut kernel) => kernel.take_losses()?,
        Err(TryLockError::Poisoned(kernel)) => kernel.into_inner().take_losses()?,
        Err(TryLockError::WouldBlock) if last => crate::library::discovery::lock(kernel).take_losses()?,
        Err(TryLockError::WouldBlock) => return Ok(true),
    };
    if losses.is_empty() {
        return Ok(true);
    }
    let sum = losses.iter().map(|l| l.count).sum();
    signals.lost.fetch_add(sum, Ordering::Relaxed);
    Ok(to_writer.send(Packet::Losses(losses)).is_ok())
}
