//! Ring records of what tasks wait for besides each other: memory, disks, CPUs.

use bytemuck::{Pod, Zeroable};

use crate::Header;

/// A request went to a block device. `header.tid` is the current thread.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct BlockIssue {
    /// No flags.
    pub header: Header,
    /// First sector.
    pub sector: u64,
    /// Process of the thread.
    pub tgid: u32,
    /// Device, as the kernel numbers it: major << 20 | minor.
    pub dev: u32,
    /// Size.
    pub bytes: u32,
    /// `cmd_flags`: the operation in the low eight bits, then flags, whose places depend on the kernel.
    pub cmd_flags: u32,
}

/// A block device finished a request. `header.tid` is whoever was interrupted.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct BlockComplete {
    /// No flags.
    pub header: Header,
    /// First sector.
    pub sector: u64,
    /// Device, as the kernel numbers it: major << 20 | minor.
    pub dev: u32,
    /// Sectors of 512 bytes.
    pub sectors: u32,
    /// 0, an error number below 0, or a `blk_status_t` above.
    pub error: i32,
    /// `cmd_flags`: the operation in the low eight bits, then flags, whose places depend on the kernel.
    pub cmd_flags: u32,
}

/// A thread touched a page that was not there, or not as it wanted it. `header.tid` is that thread.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct PageFault {
    /// No flags.
    pub header: Header,
    /// What it touched.
    pub address: u64,
    /// Process.
    pub tgid: u32,
    /// The processor's error code.
    pub error: u32,
}

/// Bits of [`Header::flags`] in a [`Reclaim`].
pub mod reclaim_flag {
    /// It ends, else it begins.
    pub const END: u8 = 1;
    /// For a memory cgroup's limit.
    pub const MEMCG: u8 = 2;
}

/// A thread begins or ends to look for free pages itself. `header.tid` is that thread.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Reclaim {
    /// Flags: [`reclaim_flag`].
    pub header: Header,
    /// Pages that it freed, at the end; at the begin those wanted, as a power of two.
    pub pages: u64,
    /// Process.
    pub tgid: u32,
    /// Zero.
    pub reserved: u32,
}

/// The kernel chose a process to kill. `header.tid` is the thread that wanted memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct OomKill {
    /// No flags.
    pub header: Header,
    /// Process of that thread.
    pub tgid: u32,
    /// A thread of the process that is killed.
    pub victim_tid: u32,
    /// Its address space, its private, file and shared memory, in KiB; all ones where the kernel does not say.
    pub kib: [u64; 4],
    /// Its `oom_score_adj`; [`i64::MIN`] where the kernel does not say.
    pub score_adj: i64,
}

/// A thread was bound to other CPUs. `header.tid` is that thread, whoever did it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Affinity {
    /// No flags.
    pub header: Header,
    /// Its process.
    pub tgid: u32,
    /// Zero.
    pub reserved: u32,
}

/// A CPU changes its clock. `header.tid` says nothing.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct CpuFrequency {
    /// No flags.
    pub header: Header,
    /// CPU.
    pub of_cpu: u32,
    /// Frequency in kHz.
    pub khz: u32,
}

/// What ties pointers to `struct page` to frame numbers.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct FrameCell {
    /// Where the `struct page` of frame 0 would lie; 0 as long as nobody knows.
    pub base: u64,
    /// The last page that the thread below got for itself.
    pub page: u64,
    /// The thread that is watched.
    pub tid: u32,
    /// Zero.
    pub reserved: u32,
}
