//! Pages: handed out, missed, looked for, and the end when none are left.

use aya_ebpf::{
    EbpfContext,
    bindings::task_struct,
    macros::{btf_tracepoint, map},
    maps::Array,
    programs::BtfTracePointContext,
};
use ingero_ebpf_common::{FrameCell, Kind, NO_OFFSET, OomKill, PageAlloc, PageFault, Reclaim, reclaim_flag};

use crate::{
    Task, config,
    kernel::{self, Typed},
    ring, targets,
};

/// How `struct page` pointers become frame numbers: one cell, which the recorder fills in.
#[map]
static FRAMES: Array<FrameCell> = Array::with_max_entries(1, 0);

/// Address of the first argument's `struct page`, as a number; 0 when the allocation failed.
#[inline(always)]
fn page(ctx: &BtfTracePointContext) -> u64 {
    // Read by the helper, since the verifier does no arithmetic with typed pointers.
    kernel::read(ctx.as_ptr() as u64).unwrap_or(0)
}

/// `mm_page_alloc(struct page *page, unsigned int order, gfp_t gfp_flags, int migratetype)`: pages handed out to followed
/// processes.
#[btf_tracepoint(function = "mm_page_alloc")]
pub fn mm_page_alloc(ctx: BtfTracePointContext) -> i32 {
    let task = Task::current();
    if !targets::followed(task) {
        return 0;
    }
    let order = ctx.arg::<u64>(1) as u8 & 0xf;
    let migratetype = ctx.arg::<u64>(3) as u8 & 0xf;
    let (page, base) = (page(&ctx), FRAMES.get(0).map_or(0, |cell| cell.base));
    let pfn =
        if page == 0 || base == 0 { None } else { page.wrapping_sub(base).checked_div(config!(page_bytes) as u64) };
    ring::emit(Kind::PageAlloc, task, order | migratetype << 4, |header| PageAlloc {
        header,
        pfn: pfn.unwrap_or(u64::MAX),
        tgid: task.tgid,
        gfp_flags: ctx.arg::<u64>(2) as u32,
    });
    0
}

/// Attached to `mm_page_alloc` for a moment at the start: notes the last single page that one thread of the recorder got
/// for itself, whose frame number that thread can look up.
#[btf_tracepoint(function = "mm_page_alloc")]
pub fn page_frame(ctx: BtfTracePointContext) -> i32 {
    const MOVABLE: u32 = 1;
    let Some(cell) = FRAMES.get_ptr_mut(0) else { return 0 };
    // SAFETY: a map value; only one thread passes.
    let cell = unsafe { &mut *cell };
    if Task::current().tid == cell.tid && ctx.arg::<u64>(1) as u32 == 0 && ctx.arg::<u64>(3) as u32 == MOVABLE {
        cell.page = page(&ctx);
    }
    0
}

/// `page_fault_user(unsigned long address, struct pt_regs *regs, unsigned long error_code)`, x86-64 alone.
#[btf_tracepoint(function = "page_fault_user")]
pub fn page_fault_user(ctx: BtfTracePointContext) -> i32 {
    let task = Task::current();
    if targets::followed(task) {
        let (address, error) = (ctx.arg::<u64>(0), ctx.arg::<u64>(2) as u32);
        ring::emit(Kind::PageFault, task, 0, |header| PageFault { header, address, tgid: task.tgid, error });
    }
    0
}

#[inline(always)]
fn reclaim(flags: u8, pages: u64) -> i32 {
    let task = Task::current();
    ring::emit(Kind::Reclaim, task, flags, |header| Reclaim { header, pages, tgid: task.tgid, reserved: 0 });
    0
}

/// `mm_vmscan_direct_reclaim_begin(int order, gfp_t gfp_flags)`.
#[btf_tracepoint(function = "mm_vmscan_direct_reclaim_begin")]
pub fn mm_vmscan_direct_reclaim_begin(ctx: BtfTracePointContext) -> i32 {
    reclaim(0, ctx.arg::<u64>(0) as u32 as u64)
}

/// `mm_vmscan_direct_reclaim_end(unsigned long nr_reclaimed)`.
#[btf_tracepoint(function = "mm_vmscan_direct_reclaim_end")]
pub fn mm_vmscan_direct_reclaim_end(ctx: BtfTracePointContext) -> i32 {
    reclaim(reclaim_flag::END, ctx.arg::<u64>(0))
}

/// `mm_vmscan_memcg_reclaim_begin(int order, gfp_t gfp_flags)`; newer kernels hand over the group too, behind these.
#[btf_tracepoint(function = "mm_vmscan_memcg_reclaim_begin")]
pub fn mm_vmscan_memcg_reclaim_begin(ctx: BtfTracePointContext) -> i32 {
    reclaim(reclaim_flag::MEMCG, ctx.arg::<u64>(0) as u32 as u64)
}

/// `mm_vmscan_memcg_reclaim_end(unsigned long nr_reclaimed)`.
#[btf_tracepoint(function = "mm_vmscan_memcg_reclaim_end")]
pub fn mm_vmscan_memcg_reclaim_end(ctx: BtfTracePointContext) -> i32 {
    reclaim(reclaim_flag::MEMCG | reclaim_flag::END, ctx.arg::<u64>(0))
}

/// `mark_victim(struct task_struct *task, uid_t uid)`, before 6.8 `mark_victim(int pid)`: a process is chosen to die.
#[btf_tracepoint(function = "mark_victim")]
pub fn mark_victim(ctx: BtfTracePointContext) -> i32 {
    let task = Task::current();
    let (mut kib, mut score_adj) = ([u64::MAX; 4], i64::MIN);
    let victim_tid = if config!(victim_is_task) != 0 {
        // SAFETY: the first argument is a task then.
        let victim = unsafe { Typed::new(ctx.arg::<*const task_struct>(0)) };
        let [anon, file, shmem] = config!(mm_counts);
        if anon != NO_OFFSET {
            let mm = victim.follow(config!(task_mm)).address();
            kib = [pages_kib(mm, config!(mm_total)), pages_kib(mm, anon), pages_kib(mm, file), pages_kib(mm, shmem)];
        }
        if config!(signal_score_adj) != NO_OFFSET {
            score_adj = victim.follow(config!(task_signal)).field::<i16>(config!(signal_score_adj)) as i64;
        }
        victim.task().tid
    } else {
        ctx.arg::<u64>(0) as u32
    };
    ring::emit(Kind::OomKill, task, 0, |header| OomKill { header, tgid: task.tgid, victim_tid, kib, score_adj });
    0
}

/// A counter of pages in an address space. It is summed over the CPUs lazily, so one about zero may be below it.
#[inline(always)]
fn pages_kib(mm: u64, offset: u32) -> u64 {
    match kernel::read::<i64>(mm.wrapping_add(u64::from(offset))) {
        Some(pages) if pages > 0 => (pages as u64) << (config!(page_kib_shift) & 31),
        Some(_) => 0,
        None => u64::MAX,
    }
}
