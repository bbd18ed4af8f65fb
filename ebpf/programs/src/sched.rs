//! Who runs, who waits, who wakes whom.

use aya_ebpf::{
    bindings::task_struct, helpers::generated::bpf_task_pt_regs, macros::btf_tracepoint, programs::BtfTracePointContext,
};
use ingero_ebpf_common::{Kind, NO_OFFSET, SYSCALL_NONE, SYSCALL_UNRECORDED, Switch, Wakeup, Waking, switch_flag};

use crate::{
    Task, config, context, irq,
    kernel::{self, Typed},
    ring,
};

/// `PF_KTHREAD` and `PF_IO_WORKER`: threads that never enter the kernel by a system call.
const NO_USER_REGISTERS: u32 = 0x0020_0000 | 0x10;

#[inline(always)]
fn task_argument(ctx: &BtfTracePointContext, n: usize) -> (*mut task_struct, Typed) {
    let task: *mut task_struct = ctx.arg(n);
    // SAFETY: callers name an argument that is a task.
    (task, unsafe { Typed::new(task) })
}

/// `sched_switch(bool preempt, prev, next, unsigned int prev_state)`; older kernels lack the last one.
#[btf_tracepoint(function = "sched_switch")]
pub fn sched_switch(ctx: BtfTracePointContext) -> i32 {
    let preempted = ctx.arg::<u64>(0) as u8 != 0;
    let (prev_task, prev) = task_argument(&ctx, 1);
    let (_, next) = task_argument(&ctx, 2);
    let (prev_is, next_is) = (prev.task(), next.task());

    let (prev_state, syscall) = if preempted {
        (0, SYSCALL_UNRECORDED)
    } else {
        let state =
            if config!(switch_has_state) != 0 { ctx.arg::<u64>(3) as u32 } else { prev.field(config!(task_state)) };
        (state, if state == 0 { SYSCALL_UNRECORDED } else { blocking_syscall(prev_task, prev) })
    };
    let flags = throttle_flags(prev, prev_state == 0) | if preempted { switch_flag::PREEMPTED } else { 0 };
    ring::emit(Kind::Switch, prev_is, flags, |header| Switch {
        header,
        prev_tgid: prev_is.tgid,
        next_tid: next_is.tid,
        next_tgid: next_is.tgid,
        prev_state,
        prev_prio: prev.field::<i32>(config!(task_prio)) as i16,
        next_prio: next.field::<i32>(config!(task_prio)) as i16,
        syscall,
    });
    0
}

#[inline(always)]
fn throttle_flags(prev: Typed, runnable: bool) -> u8 {
    let throttled = if config!(task_throttled) != NO_OFFSET {
        prev.field::<u8>(config!(task_throttled)) & 1 != 0
    } else if config!(task_cfs_rq) != NO_OFFSET && config!(cfs_rq_throttled) != NO_OFFSET {
        // The group was throttled on this CPU just before, when its quota was looked at on the way to the next task. Whoever
        // leaves to sleep leaves for that.
        runnable && prev.follow(config!(task_cfs_rq)).field::<i32>(config!(cfs_rq_throttled)) > 0
    } else {
        return switch_flag::THROTTLE_UNKNOWN;
    };
    if throttled { switch_flag::THROTTLED } else { 0 }
}

/// The system call number that the thread's saved user registers hold. They sit on its kernel stack and
/// say -1 when it came in by a fault or an interrupt.
#[inline(always)]
fn blocking_syscall(task: *mut task_struct, typed: Typed) -> i32 {
    if config!(regs_syscall) == NO_OFFSET {
        return SYSCALL_UNRECORDED;
    }
    if typed.field::<u32>(config!(task_flags)) & NO_USER_REGISTERS != 0 {
        return SYSCALL_NONE;
    }
    // SAFETY: a typed task pointer, straight from the tracepoint.
    let registers = unsafe { bpf_task_pt_regs(task) } as u64;
    match kernel::read::<i32>(registers.wrapping_add(u64::from(config!(regs_syscall)))) {
        Some(number) if number >= 0 => number,
        Some(_) => SYSCALL_NONE,
        None => SYSCALL_UNRECORDED,
    }
}

/// `sched_waking(task)`, on the CPU and in the context of whoever wakes.
#[btf_tracepoint(function = "sched_waking")]
pub fn sched_waking(ctx: BtfTracePointContext) -> i32 {
    let (_, wakee) = task_argument(&ctx, 0);
    let (waker, wakee_is) = (Task::current(), wakee.task());
    let context = context::flags();
    let (source, irq) = irq::woke(context);
    ring::emit(Kind::Waking, waker, context | source, |header| Waking {
        header,
        waker_tgid: waker.tgid,
        wakee_tid: wakee_is.tid,
        wakee_tgid: wakee_is.tgid,
        target_cpu: wakee.field::<u32>(config!(task_cpu)) as u16,
        irq,
    });
    0
}

/// `sched_wakeup(task)`, possibly on the woken CPU.
#[btf_tracepoint(function = "sched_wakeup")]
pub fn sched_wakeup(ctx: BtfTracePointContext) -> i32 {
    wakeup(Kind::Wakeup, &ctx);
    0
}

/// `sched_wakeup_new(task)`.
#[btf_tracepoint(function = "sched_wakeup_new")]
pub fn sched_wakeup_new(ctx: BtfTracePointContext) -> i32 {
    wakeup(Kind::WakeupNew, &ctx);
    0
}

#[inline(always)]
fn wakeup(kind: Kind, ctx: &BtfTracePointContext) {
    let (_, wakee) = task_argument(ctx, 0);
    let task = wakee.task();
    ring::emit(kind, task, 0, |header| Wakeup { header, tgid: task.tgid, target_cpu: wakee.field(config!(task_cpu)) });
}
