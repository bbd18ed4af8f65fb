//! Requests to block devices, of the whole machine: who waits for a disk waits for what others asked of it too.

use aya_ebpf::{bindings::task_struct, macros::btf_tracepoint, programs::BtfTracePointContext};
use ingero_ebpf_common::{BlockComplete, BlockIssue, Kind};

use crate::{Task, config, kernel::Typed, ring};

/// Requests that drivers make for themselves have no place on the disk.
const DRIVER_IN: u32 = 34;
const DRIVER_OUT: u32 = 35;
const OPERATION: u32 = 0xff;
const MINOR_BITS: u32 = 20;

#[inline(always)]
fn request(ctx: &BtfTracePointContext, n: usize) -> Typed {
    // SAFETY: callers name an argument that is a request.
    unsafe { Typed::new(ctx.arg::<*const task_struct>(n)) }
}

#[inline(always)]
fn device(request: Typed) -> u32 {
    let owner = if config!(disk_of_request) != 0 { request } else { request.follow(config!(request_queue)) };
    let disk = owner.follow(config!(request_disk));
    disk.field::<u32>(config!(disk_major)) << MINOR_BITS | disk.field::<u32>(config!(disk_first_minor))
}

/// `block_rq_issue(struct request *rq)`, before 5.11 behind its queue: a request goes to the device.
#[btf_tracepoint(function = "block_rq_issue")]
pub fn block_rq_issue(ctx: BtfTracePointContext) -> i32 {
    let request = if config!(issue_has_queue) != 0 { request(&ctx, 1) } else { request(&ctx, 0) };
    let task = Task::current();
    let cmd_flags = request.field::<u32>(config!(request_flags));
    let sector = match cmd_flags & OPERATION {
        DRIVER_IN | DRIVER_OUT => 0,
        _ => request.field::<u64>(config!(request_sector)),
    };
    ring::emit(Kind::BlockIssue, task, 0, |header| BlockIssue {
        header,
        sector: if sector == u64::MAX { 0 } else { sector },
        tgid: task.tgid,
        dev: device(request),
        bytes: request.field(config!(request_bytes)),
        cmd_flags,
    });
    0
}

/// `block_rq_complete(struct request *rq, blk_status_t error, unsigned int nr_bytes)`, before 5.16 with an error number:
/// the device is done with it, or with a part.
#[btf_tracepoint(function = "block_rq_complete")]
pub fn block_rq_complete(ctx: BtfTracePointContext) -> i32 {
    let request = request(&ctx, 0);
    ring::emit(Kind::BlockComplete, Task::current(), 0, |header| BlockComplete {
        header,
        sector: request.field(config!(request_sector)),
        dev: device(request),
        sectors: ctx.arg::<u64>(2) as u32 >> 9,
        error: ctx.arg::<u64>(1) as i32,
        cmd_flags: request.field(config!(request_flags)),
    });
    0
}
