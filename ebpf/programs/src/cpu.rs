//! Which CPUs tasks may use, and how fast those run.

use aya_ebpf::{
    bindings::task_struct,
    macros::{btf_tracepoint, fexit},
    programs::{BtfTracePointContext, FExitContext},
};
use ingero_ebpf_common::{Affinity, CpuFrequency, Kind};

use crate::{Task, kernel::Typed, ring};

/// `__set_cpus_allowed_ptr(struct task_struct *p, struct affinity_context *ctx)`: all changes pass here, whether asked for by
/// the task, by another one, or by a cpuset. The new mask is for the recorder to ask for.
#[fexit(function = "__set_cpus_allowed_ptr")]
pub fn affinity_changed(ctx: FExitContext) -> i32 {
    if ctx.arg::<u64>(2) as i32 == 0 {
        // SAFETY: the first argument is a task.
        let task = unsafe { Typed::new(ctx.arg::<*const task_struct>(0)) }.task();
        ring::emit(Kind::Affinity, task, 0, |header| Affinity { header, tgid: task.tgid, reserved: 0 });
    }
    0
}

/// `cpu_frequency(unsigned int frequency, unsigned int cpu_id)`.
#[btf_tracepoint(function = "cpu_frequency")]
pub fn cpu_frequency(ctx: BtfTracePointContext) -> i32 {
    let (khz, of_cpu) = (ctx.arg::<u64>(0) as u32, ctx.arg::<u64>(1) as u32);
    ring::emit(Kind::CpuFrequency, Task::current(), 0, |header| CpuFrequency { header, of_cpu, khz });
    0
}
