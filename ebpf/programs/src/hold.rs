//! Stops a followed process before the first instruction of a program that nobody has looked into yet, so that its
//! libraries are probed before it can call into them.

use aya_ebpf::{
    bindings::BPF_RB_FORCE_WAKEUP,
    helpers::generated::bpf_send_signal,
    macros::{btf_tracepoint, map},
    maps::{Array, LruHashMap, RingBuf},
    programs::BtfTracePointContext,
};
use ingero_ebpf_common::{HOLD_RING_BYTES, Held, HoldPlan, MAX_KNOWN_PROGRAMS, ProgramFile};

use crate::{Task, kernel, targets};

const SIGSTOP: u32 = 19;

/// One entry.
#[map]
static HOLD_PLAN: Array<HoldPlan> = Array::with_max_entries(1, 0);

/// Programs that need not be held; the value means nothing. Old ones may be forgotten: they are held once more.
#[map]
static KNOWN_PROGRAMS: LruHashMap<ProgramFile, u32> = LruHashMap::with_max_entries(MAX_KNOWN_PROGRAMS, 0);

/// Tells the recorder at once.
#[map]
static HOLDS: RingBuf = RingBuf::with_byte_size(HOLD_RING_BYTES, 0);

#[inline(always)]
fn at<T: Copy>(address: u64, offset: u32) -> Option<T> {
    kernel::read(address.wrapping_add(u64::from(offset)))
}

/// `sched_process_exec(task, old_pid, binprm)`: the process has one thread, and no user code of the new program has run.
#[btf_tracepoint(function = "sched_process_exec")]
pub fn hold_exec(ctx: BtfTracePointContext) -> i32 {
    let _ = hold(&ctx);
    0
}

#[inline(always)]
fn hold(ctx: &BtfTracePointContext) -> Option<()> {
    let plan = HOLD_PLAN.get(0)?;
    let is = Task::current();
    if plan.group == 0 || !targets::followed(is) {
        return None;
    }
    let (task, binprm) = (ctx.arg::<u64>(0), ctx.arg::<u64>(2));
    // A shell that manages jobs gives each a group of its own, and would take it for stopped. So would a debugger.
    let group: u64 = at(at(task, plan.task_signal)?, plan.signal_group)?;
    if at::<u32>(group, plan.pid_number)? != plan.group || at::<u32>(task, plan.task_ptrace)? != 0 {
        return None;
    }
    let inode: u64 = at(at(binprm, plan.binprm_file)?, plan.file_inode)?;
    let file = ProgramFile {
        inode: at(inode, plan.inode_number)?,
        device: at(at(inode, plan.inode_super)?, plan.super_device)?,
        reserved: 0,
    };
    if KNOWN_PROGRAMS.get_ptr(&file).is_some() {
        return None;
    }
    // Nobody is stopped whom the recorder is not told of.
    let mut room = HOLDS.reserve::<Held>(0)?;
    room.write(Held { file, tgid: is.tgid, reserved: 0 });
    // SAFETY: the helper takes a number.
    unsafe { bpf_send_signal(SIGSTOP) };
    room.submit(u64::from(BPF_RB_FORCE_WAKEUP));
    Some(())
}
