//! Which interrupt is under way, so that a wakeup can say what it came from.
//!
//! Every interrupt passes these probes, few are recorded: those that woke somebody, and the long ones.

use aya_ebpf::{
    bindings::task_struct,
    macros::{btf_tracepoint, map},
    maps::PerCpuArray,
    programs::BtfTracePointContext,
};
use ingero_ebpf_common::{IRQ_NAME_BYTES, Irq, Kind, NO_IRQ, OpenIrq, OpenIrqs, Softirq, context};

use crate::{
    Task, config,
    kernel::{self, Typed},
    ring::{self, now_ns},
};

/// `IRQF_TIMER` without what it implies: where the CPU's timer is an ordinary interrupt.
const TIMER_FLAG: u32 = 0x200;
/// From this length on one is recorded that woke nobody.
const LONG_NS: u64 = 50_000;

#[map]
static OPEN_IRQS: PerCpuArray<OpenIrqs> = PerCpuArray::with_max_entries(1, 0);

#[inline(always)]
fn open() -> Option<&'static mut OpenIrqs> {
    // SAFETY: a map value of this CPU; each place is written by one kind of interrupt, which does not nest.
    OPEN_IRQS.get_ptr_mut(0).map(|open| unsafe { &mut *open })
}

/// A task is being woken from here: what the interrupt is, as a bit of [`context`], and its number.
#[inline(always)]
pub(crate) fn woke(flags: u8) -> (u8, u16) {
    if config!(irq_spans) == 0 || flags & context::UNKNOWN != 0 || flags & (context::HARDIRQ | context::SOFTIRQ) == 0 {
        return (0, NO_IRQ);
    }
    let Some(open) = open() else { return (0, NO_IRQ) };
    let this = if flags & context::HARDIRQ != 0 { &mut open.hard } else { &mut open.soft };
    if this.since_ns == 0 {
        // A call from another CPU, or it began before the probes were there.
        return (context::OTHER, NO_IRQ);
    }
    this.woke = this.woke.saturating_add(1);
    (this.source as u8, this.irq)
}

#[inline(always)]
fn begin(this: &mut OpenIrq, irq: u16, source: u8) {
    *this = OpenIrq { since_ns: now_ns(), irq, woke: 0, source: source as u32 };
}

/// Length and wakes of the one that ends, if it is to be recorded.
#[inline(always)]
fn end(this: &mut OpenIrq) -> Option<(u32, u16)> {
    let (since_ns, woke) = (this.since_ns, this.woke);
    if since_ns == 0 {
        return None;
    }
    this.since_ns = 0;
    let dur_ns = now_ns().wrapping_sub(since_ns);
    if woke == 0 && dur_ns < LONG_NS {
        return None;
    }
    Some((if dur_ns > u32::MAX as u64 { u32::MAX } else { dur_ns as u32 }, woke))
}

#[inline(always)]
fn action(ctx: &BtfTracePointContext) -> Typed {
    // SAFETY: the second argument of both tracepoints is an `irqaction`.
    unsafe { Typed::new(ctx.arg::<*const task_struct>(1)) }
}

#[inline(always)]
fn line(ctx: &BtfTracePointContext) -> u16 {
    let number = ctx.arg::<u64>(0) as u32;
    if number < NO_IRQ as u32 { number as u16 } else { NO_IRQ }
}

/// `irq_handler_entry(int irq, struct irqaction *action)`.
#[btf_tracepoint(function = "irq_handler_entry")]
pub fn irq_handler_entry(ctx: BtfTracePointContext) -> i32 {
    if let Some(open) = open() {
        let timer = action(&ctx).field::<u32>(config!(irqaction_flags)) & TIMER_FLAG != 0;
        begin(&mut open.hard, line(&ctx), if timer { context::TIMER } else { context::DEVICE });
    }
    0
}

/// `irq_handler_exit(int irq, struct irqaction *action, int ret)`.
#[btf_tracepoint(function = "irq_handler_exit")]
pub fn irq_handler_exit(ctx: BtfTracePointContext) -> i32 {
    let Some((dur_ns, woke)) = open().and_then(|open| end(&mut open.hard)) else { return 0 };
    let task = Task::current();
    let mut name = [0; IRQ_NAME_BYTES];
    let text = action(&ctx).field::<u64>(config!(irqaction_name));
    // SAFETY: `name` is a local of that size.
    unsafe { kernel::read_str(&raw mut name, text) };
    let irq = line(&ctx);
    ring::emit(Kind::Irq, task, 0, |header| Irq { header, tgid: task.tgid, dur_ns, irq, woke, reserved: 0, name });
    0
}

/// `local_timer_entry(int vector)`, the timer of x86-64 CPUs.
#[btf_tracepoint(function = "local_timer_entry")]
pub fn local_timer_entry(_: BtfTracePointContext) -> i32 {
    if let Some(open) = open() {
        begin(&mut open.hard, NO_IRQ, context::TIMER);
    }
    0
}

/// `local_timer_exit(int vector)`.
#[btf_tracepoint(function = "local_timer_exit")]
pub fn local_timer_exit(_: BtfTracePointContext) -> i32 {
    let Some((dur_ns, woke)) = open().and_then(|open| end(&mut open.hard)) else { return 0 };
    let task = Task::current();
    ring::emit(Kind::Irq, task, 0, |header| Irq {
        header,
        tgid: task.tgid,
        dur_ns,
        irq: NO_IRQ,
        woke,
        reserved: 0,
        name: [0; IRQ_NAME_BYTES],
    });
    0
}

/// `softirq_entry(unsigned int vec_nr)`.
#[btf_tracepoint(function = "softirq_entry")]
pub fn softirq_begins(ctx: BtfTracePointContext) -> i32 {
    if let Some(open) = open() {
        let vector = ctx.arg::<u64>(0) as u16;
        let source = match vector {
            // timer, hrtimer
            1 | 8 => context::TIMER,
            // tasklets (drivers have them), network, block, polling
            0 | 2..=6 => context::DEVICE,
            _ => context::OTHER,
        };
        begin(&mut open.soft, vector, source);
    }
    0
}

/// `softirq_exit(unsigned int vec_nr)`.
#[btf_tracepoint(function = "softirq_exit")]
pub fn softirq_ends(ctx: BtfTracePointContext) -> i32 {
    let Some((dur_ns, woke)) = open().and_then(|open| end(&mut open.soft)) else { return 0 };
    let (task, vector) = (Task::current(), ctx.arg::<u64>(0) as u16);
    ring::emit(Kind::Softirq, task, 0, |header| Softirq { header, tgid: task.tgid, dur_ns, vector, woke, reserved: 0 });
    0
}
