//! Page allocations of followed processes.

use aya_ebpf::{EbpfContext, macros::tracepoint, programs::TracePointContext};
use ingero_ebpf_common::{Kind, PageAlloc};

use crate::{Task, config, kernel, ring, targets};

/// The classic tracepoint: the typed one has a `struct page` pointer where this one has the frame number.
#[tracepoint(category = "kmem", name = "mm_page_alloc")]
pub fn mm_page_alloc(ctx: TracePointContext) -> u32 {
    let task = Task::current();
    if !targets::followed(task) {
        return 0;
    }
    let fields = ctx.as_ptr() as u64;
    let word = |offset: u32| kernel::read::<u32>(fields.wrapping_add(u64::from(offset))).unwrap_or(0);
    let order = word(config!(page_alloc_order)) as u8 & 0xf;
    let migratetype = word(config!(page_alloc_migratetype)) as u8 & 0xf;
    ring::emit(Kind::PageAlloc, task, order | migratetype << 4, |header| PageAlloc {
        header,
        pfn: kernel::read(fields.wrapping_add(u64::from(config!(page_alloc_pfn)))).unwrap_or(u64::MAX),
        tgid: task.tgid,
        gfp_flags: word(config!(page_alloc_gfp)),
    });
    0
}
