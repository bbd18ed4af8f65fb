//! Which processes are followed.

use aya_ebpf::{macros::map, maps::HashMap};
use ingero_ebpf_common::{Kind, MAX_TARGETS};

use crate::{Task, config, ring};

/// Thread groups; the value means nothing.
#[map]
static TARGETS: HashMap<u32, u32> = HashMap::with_max_entries(MAX_TARGETS, 0);

/// Whether calls, mappings and page allocations of this thread are recorded.
#[inline(always)]
pub(crate) fn followed(task: Task) -> bool {
    task.tgid != config!(own_tgid) && (config!(all_processes) != 0 || TARGETS.get_ptr(task.tgid).is_some())
}

/// A child is followed from its first instruction if its parent is.
#[inline(always)]
pub(crate) fn forked(parent: Task, child: Task) {
    if child.tgid != parent.tgid && TARGETS.get_ptr(parent.tgid).is_some() && TARGETS.insert(child.tgid, 1, 0).is_err()
    {
        ring::map_was_full(Kind::Fork);
    }
}

/// The last thread is gone; the id may soon be someone else's.
#[inline(always)]
pub(crate) fn died(tgid: u32) {
    let _ = TARGETS.remove(tgid);
}
