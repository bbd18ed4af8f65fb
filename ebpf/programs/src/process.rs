//! Births, deaths and names.

use aya_ebpf::{bindings::task_struct, macros::btf_tracepoint, programs::BtfTracePointContext};
use ingero_ebpf_common::{Exec, Exit, Fork, Kind, NO_OFFSET, Rename, TASK_COMM_BYTES, exit_flag};

use crate::{
    calls, config,
    kernel::{self, Typed},
    ring, targets,
};

#[inline(always)]
fn typed_argument(ctx: &BtfTracePointContext, n: usize) -> Typed {
    // SAFETY: callers name an argument that is a typed pointer.
    unsafe { Typed::new(ctx.arg::<*const task_struct>(n)) }
}

#[inline(always)]
fn comm(task: Typed) -> [u8; TASK_COMM_BYTES] {
    kernel::read(task.address().wrapping_add(u64::from(config!(task_comm)))).unwrap_or([0; TASK_COMM_BYTES])
}

/// `sched_process_fork(parent, child)`: the parent is the thread that called, the child has not run yet.
#[btf_tracepoint(function = "sched_process_fork")]
pub fn sched_process_fork(ctx: BtfTracePointContext) -> i32 {
    let (parent, child) = (typed_argument(&ctx, 0), typed_argument(&ctx, 1));
    let (parent_is, child_is) = (parent.task(), child.task());
    targets::forked(parent_is, child_is);
    ring::emit(Kind::Fork, parent_is, 0, |header| Fork {
        header,
        parent_tgid: parent_is.tgid,
        child_tid: child_is.tid,
        child_tgid: child_is.tgid,
        reserved: 0,
        child_comm: comm(child),
    });
    0
}

/// `sched_process_exec(task, old_pid, binprm)`.
#[btf_tracepoint(function = "sched_process_exec")]
pub fn sched_process_exec(ctx: BtfTracePointContext) -> i32 {
    let (task, binprm) = (typed_argument(&ctx, 0), typed_argument(&ctx, 2));
    let is = task.task();
    let filename = binprm.field::<u64>(config!(binprm_filename));
    let Some(mut room) = ring::reserve::<Exec>(Kind::Exec) else { return 0 };
    let header = room.header(Kind::Exec, is, 0);
    let record = room.as_mut_ptr();
    // SAFETY: `record` points at room for one Exec. It is filled in place, as it would take over half the stack.
    unsafe {
        (&raw mut (*record).header).write(header);
        (&raw mut (*record).tgid).write(is.tgid);
        (&raw mut (*record).old_tid).write(ctx.arg::<u64>(1) as u32);
        (&raw mut (*record).comm).write(comm(task));
        kernel::read_str(&raw mut (*record).filename, filename);
        room.submit();
    }
    0
}

/// `sched_process_exit(task, bool group_dead)`; older kernels lack the flag.
#[btf_tracepoint(function = "sched_process_exit")]
pub fn sched_process_exit(ctx: BtfTracePointContext) -> i32 {
    let task = typed_argument(&ctx, 0);
    let is = task.task();
    // Threads that end together may all see a count of zero: each then says that it was the last one.
    let flags = if config!(exit_has_group_dead) != 0 {
        if ctx.arg::<u64>(1) as u8 != 0 { exit_flag::GROUP_DEAD } else { 0 }
    } else if config!(signal_live) == NO_OFFSET {
        exit_flag::GROUP_UNKNOWN
    } else if task.follow(config!(task_signal)).field::<i32>(config!(signal_live)) == 0 {
        exit_flag::GROUP_DEAD
    } else {
        0
    };
    calls::thread_died(is.tid);
    if flags & exit_flag::GROUP_DEAD != 0 {
        targets::died(is.tgid);
    }
    ring::emit(Kind::Exit, is, flags, |header| Exit {
        header,
        tgid: is.tgid,
        exit_code: task.field(config!(task_exit_code)),
    });
    0
}

/// `task_rename(task, const char *comm)`: the task still has its old name, and need not be the current one.
#[btf_tracepoint(function = "task_rename")]
pub fn task_rename(ctx: BtfTracePointContext) -> i32 {
    let is = typed_argument(&ctx, 0).task();
    let mut name = [0; TASK_COMM_BYTES];
    // SAFETY: `name` is a local of that size.
    unsafe { kernel::read_str(&raw mut name, ctx.arg::<u64>(1)) };
    ring::emit(Kind::Rename, is, 0, |header| Rename { header, tgid: is.tgid, reserved: 0, comm: name });
    0
}
