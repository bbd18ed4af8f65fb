//! What the BPF programs and the recorder agree on: ring records, map values and the globals set at load.
//!
//! Place in the flow: `ingero-ebpf-programs` writes these structs into the ring buffer, `ingero-record`
//! reads them there and turns them into trace events. Nothing else may depend on them: the layout follows
//! what is cheap to record, may change with any commit, and never reaches a disk.
//!
//! Every struct is `repr(C)` without implicit padding ([`bytemuck::NoUninit`] checks that), in the byte
//! order of the host, and a multiple of eight bytes long, since the ring aligns records to eight.
//! A record starts with a [`Header`]; [`Header::kind`] and the record's length tell how to go on.
//!
//! ```
//! use ingero_ebpf_common::{Header, Kind, Wakeup};
//! let bytes = bytemuck::bytes_of(&Wakeup::default()).to_vec();
//! assert_eq!(bytes.len(), 24);
//! assert_eq!(Kind::from_wire(Kind::Wakeup as u8), Some(Kind::Wakeup));
//! assert_eq!(core::mem::size_of::<Header>(), 16);
//! ```
#![no_std]
#![forbid(unsafe_code)]

use bytemuck::{Pod, Zeroable};

mod hold;
mod interrupt;
mod kind;
mod network;
mod record;
mod resource;
mod spec;

pub use hold::{HOLD_RING_BYTES, Held, HoldPlan, MAX_KNOWN_PROGRAMS, ProgramFile};
pub use interrupt::{IRQ_NAME_BYTES, Irq, NO_IRQ, OpenIrq, OpenIrqs, Softirq};
pub use kind::Kind;
pub use network::{Retransmit, SocketIo};
pub use resource::{
    Affinity, BlockComplete, BlockIssue, CpuFrequency, FrameCell, OomKill, PageFault, Reclaim, reclaim_flag,
};

pub use record::{
    CallEntry, CallReturn, CallText, Exec, Exit, FILENAME_BYTES, Fork, Header, Mapped, PageAlloc, Rename, SYSCALL_NONE,
    SYSCALL_UNRECORDED, Switch, TASK_COMM_BYTES, TEXT_BYTES, Wakeup, Waking, call_entry_args, context, exit_flag,
    return_flag, switch_flag,
};
pub use spec::{ArgSlot, FunctionSpec, MAX_FUNCTIONS, OpenOut, OpenOuts, SLOTS, text_form};

/// Losses of one [`Kind`] on one CPU. The counts only ever grow; the recorder keeps what it saw last and
/// reports differences. It numbers its looks, and the first loss after a look starts a new range.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct LossCell {
    /// Records for which the ring had no room.
    pub ring_full: u64,
    /// Inserts that a map refused; for a call these cost the out value, not the record itself.
    pub map_full: u64,
    /// `CLOCK_MONOTONIC` of the first loss after look number `look`.
    pub first_ns: u64,
    /// `CLOCK_MONOTONIC` of the latest loss.
    pub last_ns: u64,
    /// Number of the recorder's look that `first_ns` follows, from 1; 0: nothing was lost yet.
    pub look: u64,
}

/// How deep one CPU is in interrupts, for [`irq_source::COUNTED`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct IrqDepth {
    /// Hardware interrupt handlers entered and not left.
    pub hard: u32,
    /// Softirq handlers entered and not left.
    pub soft: u32,
}

/// Everything the programs must know about this kernel and this recording, written once before loading.
///
/// It lives in read-only data, which the verifier treats as constant: a branch on a switched-off feature
/// costs nothing at run time, and code behind it is never checked against a kernel that lacks it.
/// Offsets are bytes; [`NO_OFFSET`] says that this kernel has no such field.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Config {
    /// Thread group of the recorder: its own calls, mappings and page allocations are not recorded.
    pub own_tgid: u32,
    /// 1: calls, mappings and page allocations of every process; 0: only of those in the target map.
    pub all_processes: u32,
    /// Unread bytes in the ring from which a record wakes the reader; below it only the timer does.
    pub wakeup_bytes: u32,
    /// `task_struct.pid`
    pub task_pid: u32,
    /// `task_struct.tgid`
    pub task_tgid: u32,
    /// `task_struct.thread_info.cpu` or `task_struct.cpu`
    pub task_cpu: u32,
    /// `task_struct.prio`
    pub task_prio: u32,
    /// `task_struct.flags`
    pub task_flags: u32,
    /// `task_struct.__state`, formerly `state`
    pub task_state: u32,
    /// `task_struct.comm`
    pub task_comm: u32,
    /// `task_struct.exit_code`
    pub task_exit_code: u32,
    /// `task_struct.signal`
    pub task_signal: u32,
    /// `task_struct.throttled`: since bandwidth throttling works per task, this tells it from preemption.
    pub task_throttled: u32,
    /// `cfs_rq.throttle_count`: where throttling works per run queue, above 0 while the group of [`Config::task_cfs_rq`] is
    /// throttled.
    pub cfs_rq_throttled: u32,
    /// `signal_struct.live.counter`
    pub signal_live: u32,
    /// `pt_regs.orig_ax` on x86-64, `pt_regs.syscallno` on aarch64; the low four bytes are read.
    pub regs_syscall: u32,
    /// `linux_binprm.filename`
    pub binprm_filename: u32,
    /// 1 when `sched_switch` hands over the previous state itself (else it is read from the task).
    pub switch_has_state: u32,
    /// 1 when `sched_process_exit` says whether the group is dead.
    pub exit_has_group_dead: u32,
    /// 1 when the probes run that know which interrupt is under way.
    pub irq_spans: u32,
    /// How the interrupt context is found: one of [`irq_source`].
    pub irq_source: u32,
    /// [`irq_source::PER_TASK`]: offset in `task_struct`;
    /// [`irq_source::PER_CPU`]: distance from this CPU's `runqueues` to its preempt count, wrapping.
    pub preempt_count: u32,
    /// `task_struct.se.cfs_rq`
    pub task_cfs_rq: u32,
    /// `cfs_rq.rq`
    pub cfs_rq_rq: u32,
    /// Size of `struct page`; 0 where it is not known.
    pub page_bytes: u32,
    /// `irqaction.name`
    pub irqaction_name: u32,
    /// `irqaction.flags`, four bytes
    pub irqaction_flags: u32,
    /// 1 when the request queue comes before the request that `block_rq_issue` hands over.
    pub issue_has_queue: u32,
    /// `request.q`
    pub request_queue: u32,
    /// `request.__sector`
    pub request_sector: u32,
    /// `request.__data_len`
    pub request_bytes: u32,
    /// `request.cmd_flags`
    pub request_flags: u32,
    /// `request_queue.disk`, or `request.rq_disk` where [`Config::disk_of_request`] says so.
    pub request_disk: u32,
    /// 1 when the request itself names its disk.
    pub disk_of_request: u32,
    /// `gendisk.major`
    pub disk_major: u32,
    /// `gendisk.first_minor`
    pub disk_first_minor: u32,
    /// 1 when `mark_victim` hands over the task, 0 when its id alone.
    pub victim_is_task: u32,
    /// `task_struct.mm`
    pub task_mm: u32,
    /// `mm_struct.total_vm`, in pages
    pub mm_total: u32,
    /// The counters in `mm_struct.rss_stat` of private, file and shared pages.
    pub mm_counts: [u32; 3],
    /// `1 << this` KiB are a page.
    pub page_kib_shift: u32,
    /// `signal_struct.oom_score_adj`
    pub signal_score_adj: u32,
    /// `sock.__sk_common.skc_state`
    pub sock_state: u32,
    /// `sock.__sk_common.skc_rcv_saddr` and `skc_daddr`
    pub sock_addresses_v4: [u32; 2],
    /// `sock.__sk_common.skc_v6_rcv_saddr` and `skc_v6_daddr`
    pub sock_addresses_v6: [u32; 2],
    /// `sock.__sk_common.skc_family`
    pub sock_family: u32,
    /// `sock.__sk_common.skc_num`
    pub sock_port: u32,
    /// `sock.__sk_common.skc_dport`, in network order
    pub sock_peer_port: u32,
}

impl Config {
    /// What the object holds until the recorder fills it in.
    pub const UNSET: Self = bytemuck::zeroed();
}

/// Processes that can be followed at a time.
pub const MAX_TARGETS: u32 = 32 << 10;

/// Marks an offset in [`Config`] that this kernel does not have.
pub const NO_OFFSET: u32 = u32::MAX;

/// Where [`Config::irq_source`] finds out that code runs in an interrupt.
pub mod irq_source {
    /// Nowhere: wakers carry [`crate::context::UNKNOWN`].
    pub const UNKNOWN: u32 = 0;
    /// The per-CPU preempt count, reached from the current task's run queue (x86-64).
    pub const PER_CPU: u32 = 1;
    /// The preempt count in the current task (aarch64).
    pub const PER_TASK: u32 = 2;
    /// Depths counted by probes on the interrupt tracepoints.
    pub const COUNTED: u32 = 3;
}
