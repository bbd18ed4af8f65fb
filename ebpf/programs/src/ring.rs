//! The ring, and the accounts of what did not get into it.
//!
//! One ring for all kinds: records then come out nearly in the order of their time stamps, and the
//! producers' lock is no bottleneck at the rates that were measured (see `ingero_record::kernel::ring`).

use aya_ebpf::{
    bindings::{BPF_RB_AVAIL_DATA, BPF_RB_FORCE_WAKEUP, BPF_RB_NO_WAKEUP},
    helpers::generated::{bpf_get_smp_processor_id, bpf_ktime_get_ns},
    macros::map,
    maps::{Array, PerCpuArray, RingBuf, ring_buf::RingBufEntry},
};
use core::sync::atomic::{AtomicU64, Ordering};
use ingero_ebpf_common::{Header, Kind, LossCell};

use crate::{Task, config};

/// The recorder sets its size.
#[map]
static EVENTS: RingBuf = RingBuf::with_byte_size(1 << 20, 0);

/// Indexed by kind.
#[map]
static LOSSES: PerCpuArray<LossCell> = PerCpuArray::with_max_entries(Kind::ALL.len() as u32, 0);

/// One word: the number of the recorder's latest look at [`LOSSES`].
#[map]
static LOOK: Array<u64> = Array::with_max_entries(1, 0);

/// Past the fill mark, bytes in which a record still rings the bell: enough that some record of every CPU
/// lands in it, little enough that a slow reader is not rung for each record. A bell costs an interrupt.
const BELL_BYTES: u64 = 16 << 10;

#[inline(always)]
pub(crate) fn now_ns() -> u64 {
    // SAFETY: the helper has no preconditions.
    unsafe { bpf_ktime_get_ns() }
}

#[inline(always)]
pub(crate) fn header(kind: Kind, task: Task, flags: u8) -> Header {
    // SAFETY: the helper has no preconditions.
    let cpu = unsafe { bpf_get_smp_processor_id() } as u16;
    Header { ts_ns: now_ns(), tid: task.tid, cpu, kind: kind as u8, flags }
}

/// Room for one record, counted as a loss when there is none.
#[inline(always)]
pub(crate) fn reserve<T: 'static>(kind: Kind) -> Option<RingBufEntry<T>> {
    let room = EVENTS.reserve::<T>(0);
    if room.is_none() {
        count(kind, |cell| &raw mut cell.ring_full);
    }
    room
}

/// Hands a filled record to the reader, without waking it below the fill mark.
#[inline(always)]
pub(crate) fn submit<T>(room: RingBufEntry<T>) {
    let past_mark = EVENTS.query(BPF_RB_AVAIL_DATA as u64).wrapping_sub(config!(wakeup_bytes) as u64);
    let flags = if past_mark < BELL_BYTES { BPF_RB_FORCE_WAKEUP } else { BPF_RB_NO_WAKEUP };
    room.submit(flags as u64);
}

/// Records a struct that is small enough to be built on the stack.
#[inline(always)]
pub(crate) fn emit<T: 'static>(kind: Kind, record: T) {
    if let Some(mut room) = reserve::<T>(kind) {
        room.write(record);
        submit(room);
    }
}

/// Counts an insert that a map refused while a record of this kind was made.
#[inline(always)]
pub(crate) fn map_was_full(kind: Kind) {
    count(kind, |cell| &raw mut cell.map_full);
}

#[inline(always)]
fn count(kind: Kind, which: impl FnOnce(&mut LossCell) -> *mut u64) {
    let (Some(cell), Some(look)) = (LOSSES.get_ptr_mut(kind as u32), LOOK.get(0)) else { return };
    let now = now_ns();
    // SAFETY: a map value of this CPU. Another thread can only get in between where a probe is preemptible:
    // the counters are atomic for that, and two stores of nearly the same time do no harm.
    unsafe {
        let cell = &mut *cell;
        if cell.look != *look {
            cell.look = *look;
            cell.first_ns = now;
        }
        cell.last_ns = now;
        AtomicU64::from_ptr(which(cell)).fetch_add(1, Ordering::Relaxed);
    }
}
