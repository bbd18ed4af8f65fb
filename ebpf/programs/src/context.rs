//! Whether a probe runs in an interrupt, so that the thread under it is not blamed for a wakeup.

use aya_ebpf::{
    helpers::generated::bpf_get_current_task_btf,
    macros::{map, raw_tracepoint},
    maps::PerCpuArray,
    programs::RawTracePointContext,
};
use ingero_ebpf_common::{IrqDepth, context, irq_source};

use crate::{
    config,
    kernel::{self, Typed},
};

// The kernel's preempt count: which bits count what has not changed since 2.6.
const SERVING_SOFTIRQ: u32 = 0x100;
const HARDIRQ: u32 = 0xf_0000;
const NMI: u32 = 0xf0_0000;

/// Bits of [`context`] for the place that this is called from, but for those that tell interrupts apart.
#[inline(always)]
pub(crate) fn flags() -> u8 {
    match config!(irq_source) {
        irq_source::PER_CPU => per_cpu_count().map_or(context::UNKNOWN, decode),
        irq_source::PER_TASK => decode(current().field(config!(preempt_count))),
        irq_source::COUNTED => counted(),
        _ => context::UNKNOWN,
    }
}

#[inline(always)]
fn decode(preempt_count: u32) -> u8 {
    let bit = |mask: u32, flag: u8| if preempt_count & mask != 0 { flag } else { 0 };
    bit(HARDIRQ, context::HARDIRQ) | bit(SERVING_SOFTIRQ, context::SOFTIRQ) | bit(NMI, context::NMI)
}

#[inline(always)]
fn current() -> Typed {
    // SAFETY: the helper returns a typed pointer to the current task.
    unsafe { Typed::new(bpf_get_current_task_btf()) }
}

/// x86-64 keeps the count in per-CPU data, for which there is no address here. But the current task's
/// run queue is per-CPU data too, and BTF says how far apart the two are.
#[inline(always)]
fn per_cpu_count() -> Option<u32> {
    let run_queue = current().follow(config!(task_cfs_rq)).follow(config!(cfs_rq_rq)).address();
    let distance = i64::from(config!(preempt_count).cast_signed());
    if run_queue == 0 { None } else { kernel::read(run_queue.wrapping_add_signed(distance)) }
}

/// For [`irq_source::COUNTED`].
#[map]
static IRQ_DEPTH: PerCpuArray<IrqDepth> = PerCpuArray::with_max_entries(1, 0);

#[inline(always)]
fn depth() -> Option<&'static mut IrqDepth> {
    // SAFETY: a map value of this CPU; interrupts nest, and each leaves the depth as it found it.
    IRQ_DEPTH.get_ptr_mut(0).map(|depth| unsafe { &mut *depth })
}

#[inline(always)]
fn counted() -> u8 {
    let Some(depth) = depth() else { return context::UNKNOWN };
    let hard = if depth.hard > 0 { context::HARDIRQ } else { 0 };
    hard | if depth.soft > 0 { context::SOFTIRQ } else { 0 }
}

/// Attached to every tracepoint at which a hardware interrupt begins.
#[raw_tracepoint]
pub fn hardirq_entry(_: RawTracePointContext) -> i32 {
    if let Some(depth) = depth() {
        depth.hard = depth.hard.wrapping_add(1);
    }
    0
}

/// Attached to every tracepoint at which one ends. One that began before the probes were there is ignored.
#[raw_tracepoint]
pub fn hardirq_exit(_: RawTracePointContext) -> i32 {
    if let Some(depth) = depth() {
        depth.hard = depth.hard.saturating_sub(1);
    }
    0
}

/// Attached to `softirq_entry`.
#[raw_tracepoint]
pub fn softirq_entry(_: RawTracePointContext) -> i32 {
    if let Some(depth) = depth() {
        depth.soft = depth.soft.wrapping_add(1);
    }
    0
}

/// Attached to `softirq_exit`.
#[raw_tracepoint]
pub fn softirq_exit(_: RawTracePointContext) -> i32 {
    if let Some(depth) = depth() {
        depth.soft = depth.soft.saturating_sub(1);
    }
    0
}
