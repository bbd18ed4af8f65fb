//! Ring records.

use bytemuck::{Pod, Zeroable};

/// Length of a kernel thread name, the closing zero byte included.
pub const TASK_COMM_BYTES: usize = 16;

/// Longest file name in an [`Exec`] record, the closing zero byte included; longer ones are cut.
pub const FILENAME_BYTES: usize = 256;

/// Longest text in a [`CallText`] record, the closing zero byte included; longer ones are cut.
pub const TEXT_BYTES: usize = 128;

/// [`Switch::syscall`] of a thread that was in no system call: a kernel thread, a page fault.
pub const SYSCALL_NONE: i32 = -1;

/// [`Switch::syscall`] when it was not looked up: the thread was preempted, or the kernel hides it.
pub const SYSCALL_UNRECORDED: i32 = i32::MIN;

/// First 16 bytes of every record.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Header {
    /// `CLOCK_MONOTONIC` when the probe ran.
    pub ts_ns: u64,
    /// The thread that the record is about; each struct says which that is.
    pub tid: u32,
    /// CPU that the probe ran on.
    pub cpu: u16,
    /// A [`Kind`].
    pub kind: u8,
    /// Bits whose meaning depends on the kind.
    pub flags: u8,
}

/// Bits of [`Header::flags`] in a [`Switch`].
pub mod switch_flag {
    /// It was taken off in the middle of kernel code, whatever state it was about to enter. A thread taken off
    /// on its way back to user space has no such mark: it is just runnable, as after `sched_yield`.
    pub const PREEMPTED: u8 = 1;
    /// A CPU quota took it off, no other task.
    pub const THROTTLED: u8 = 2;
    /// The kernel cannot say whether a quota took it off.
    pub const THROTTLE_UNKNOWN: u8 = 4;
}

/// Bits of [`Header::flags`] in a [`Waking`]: what the CPU was doing on top of the current thread.
pub mod context {
    /// A hardware interrupt, the timer among them.
    pub const HARDIRQ: u8 = 1;
    /// A softirq.
    pub const SOFTIRQ: u8 = 2;
    /// A non-maskable interrupt.
    pub const NMI: u8 = 4;
    /// This kernel could not be asked; the three bits above mean nothing.
    pub const UNKNOWN: u8 = 8;
    /// The interrupt is a timer's.
    pub const TIMER: u8 = 0x10;
    /// The interrupt is a device's, or a softirq that does the rest of a device's work.
    pub const DEVICE: u8 = 0x20;
    /// The interrupt is of another kind. None of the three: which it was is not known.
    pub const OTHER: u8 = 0x40;
    /// Any of the three interrupt contexts.
    pub const INTERRUPT: u8 = HARDIRQ | SOFTIRQ | NMI;
}

/// Bits of [`Header::flags`] in an [`Exit`].
pub mod exit_flag {
    /// The last thread of its process.
    pub const GROUP_DEAD: u8 = 1;
    /// The kernel did not say whether it was the last.
    pub const GROUP_UNKNOWN: u8 = 2;
}

/// Bits of [`Header::flags`] in a [`CallReturn`].
pub mod return_flag {
    /// [`CallReturn::out`](super::CallReturn) holds the out value.
    pub const HAS_OUT: u8 = 1;
    /// The function has an out pointer, yet its value could not be read.
    pub const OUT_UNREAD: u8 = 2;
}

/// One thread left a CPU for another. `header.tid` is the one that left.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Switch {
    /// Flags: [`switch_flag`].
    pub header: Header,
    /// Process of the thread that left.
    pub prev_tgid: u32,
    /// Thread that came.
    pub next_tid: u32,
    /// Process of the thread that came.
    pub next_tgid: u32,
    /// The kernel's own state word of the thread that left, with bits above those that tracefs shows:
    /// 0 runnable (always so with [`switch_flag::PREEMPTED`]), 1 interruptible, 2 uninterruptible sleep,
    /// 4 stopped, 8 traced, 0x80 dead.
    pub prev_state: u32,
    /// Kernel priority, 0 to 139 (120 is nice 0), below 0 for deadline tasks.
    pub prev_prio: i16,
    /// Kernel priority of the thread that came.
    pub next_prio: i16,
    /// Number of the system call that it left from, or [`SYSCALL_NONE`], or [`SYSCALL_UNRECORDED`].
    pub syscall: i32,
}

impl Switch {
    /// Whether the thread that left could have gone on.
    pub fn is_runnable(&self) -> bool {
        self.prev_state == 0
    }

    /// The system call it blocked in; `None` outside of one, or when that is unknown.
    pub fn blocking_syscall(&self) -> Option<u32> {
        u32::try_from(self.syscall).ok()
    }
}

/// A thread is about to be woken. `header.tid` is the thread current on the waking CPU, which is the waker
/// unless the flags name an interrupt.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Waking {
    /// Flags: [`context`].
    pub header: Header,
    /// Process of the current thread.
    pub waker_tgid: u32,
    /// Thread that is woken.
    pub wakee_tid: u32,
    /// Its process.
    pub wakee_tgid: u32,
    /// CPU that it last ran on.
    pub target_cpu: u16,
    /// Interrupt line of a device's hard interrupt, vector of a softirq; [`NO_IRQ`](crate::NO_IRQ) for others.
    pub irq: u16,
}

/// A thread became runnable. `header.tid` is that thread.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Wakeup {
    /// No flags.
    pub header: Header,
    /// Its process.
    pub tgid: u32,
    /// CPU whose queue it joined.
    pub target_cpu: u32,
}

/// A thread or process was born. `header.tid` is the thread that called fork or clone.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Fork {
    /// No flags.
    pub header: Header,
    /// Process of the caller.
    pub parent_tgid: u32,
    /// The newborn thread.
    pub child_tid: u32,
    /// Its process: its own id for a new process, the caller's for a new thread.
    pub child_tgid: u32,
    /// Zero.
    pub reserved: u32,
    /// Name of the newborn, zero-terminated, any bytes.
    pub child_comm: [u8; TASK_COMM_BYTES],
}

/// A process runs a new program. `header.tid` is its only thread from now on.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Exec {
    /// No flags.
    pub header: Header,
    /// Process.
    pub tgid: u32,
    /// Thread id that called exec; differs from `header.tid` when that was not the main thread.
    pub old_tid: u32,
    /// New name, zero-terminated, any bytes.
    pub comm: [u8; TASK_COMM_BYTES],
    /// Path as it was given to exec, zero-terminated, cut at [`FILENAME_BYTES`].
    pub filename: [u8; FILENAME_BYTES],
}

/// A thread ends. `header.tid` is that thread.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Exit {
    /// Flags: [`exit_flag`].
    pub header: Header,
    /// Process.
    pub tgid: u32,
    /// Wait status as `waitpid` would give it: exit code in bits 8 to 15, signal in the low seven.
    pub exit_code: i32,
}

/// A thread got another name. `header.tid` is that thread.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Rename {
    /// No flags.
    pub header: Header,
    /// Process.
    pub tgid: u32,
    /// Zero.
    pub reserved: u32,
    /// New name, zero-terminated, any bytes.
    pub comm: [u8; TASK_COMM_BYTES],
}

/// The kernel handed out pages. `header.tid` is the current thread.
///
/// Flags hold two small numbers: see [`PageAlloc::order`] and [`PageAlloc::migratetype`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct PageAlloc {
    /// Flags: order in the low four bits, migrate type in the high four.
    pub header: Header,
    /// Page frame number of the first page; all ones when the allocation failed.
    pub pfn: u64,
    /// Process of the current thread.
    pub tgid: u32,
    /// `GFP_*` bits of this kernel.
    pub gfp_flags: u32,
}

impl PageAlloc {
    /// `1 << order` pages were asked for.
    pub fn order(&self) -> u8 {
        self.header.flags & 0xf
    }

    /// The kernel's migrate type.
    pub fn migratetype(&self) -> u8 {
        self.header.flags >> 4
    }
}

/// A process mapped a file as code: a library may have come. `header.tid` is the thread that did.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Mapped {
    /// No flags.
    pub header: Header,
    /// Process.
    pub tgid: u32,
    /// Zero.
    pub reserved: u32,
}

/// A probed function was entered. `header.tid` is the caller.
///
/// As many argument words follow as the record has room for: [`call_entry_args`] of the words that the
/// function's [`FunctionSpec`](crate::FunctionSpec) names. Flags have bit *n* set when word *n* could not be
/// read (it is 0 then).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct CallEntry {
    /// Flags: words that could not be read.
    pub header: Header,
    /// Process.
    pub tgid: u32,
    /// Function, from the attach cookie.
    pub function: u32,
    /// User stack pointer at the function's first instruction: it points at the return address on x86-64.
    pub sp: u64,
}

/// A probed function returned. `header.tid` is the caller. Eight more bytes with the out value follow when
/// the flags have [`return_flag::HAS_OUT`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct CallReturn {
    /// Flags: [`return_flag`].
    pub header: Header,
    /// Process.
    pub tgid: u32,
    /// Function, from the attach cookie.
    pub function: u32,
    /// Stack pointer that the matching [`CallEntry::sp`] had: the programs undo what `ret` does to it, so
    /// equal values pair on every architecture.
    pub sp: u64,
    /// Return register, all 64 bits; a C `int` lives in the low 32.
    pub result: u64,
}

/// Text that a probed function was given; the [`CallEntry`] of the same call follows. `header.tid` is the caller.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct CallText {
    /// Flags: 1 when it could not be read, or is in wide characters.
    pub header: Header,
    /// Process.
    pub tgid: u32,
    /// Function, from the attach cookie.
    pub function: u32,
    /// User stack pointer, as in the entry.
    pub sp: u64,
    /// Zero-terminated, any bytes, cut at [`TEXT_BYTES`].
    pub text: [u8; TEXT_BYTES],
}

/// Argument words in the record of a function that names `used` of them: sizes are few so that the
/// programs stay small, and a function without arguments pays for none.
pub const fn call_entry_args(used: usize) -> usize {
    match used {
        0 => 0,
        1 | 2 => 2,
        3..=5 => 5,
        _ => 6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::mem::size_of;

    // The cost of a recording follows from these: change them knowingly.
    #[test]
    fn sizes() {
        assert_eq!(size_of::<Header>(), 16);
        assert_eq!(size_of::<Switch>(), 40);
        assert_eq!(size_of::<Waking>(), 32);
        assert_eq!(size_of::<Wakeup>(), 24);
        assert_eq!(size_of::<Fork>(), 48);
        assert_eq!(size_of::<Exec>(), 296);
        assert_eq!(size_of::<Exit>(), 24);
        assert_eq!(size_of::<Rename>(), 40);
        assert_eq!(size_of::<PageAlloc>(), 32);
        assert_eq!(size_of::<Mapped>(), 24);
        assert_eq!(size_of::<CallEntry>(), 32);
        assert_eq!(size_of::<CallReturn>(), 40);
        assert_eq!(size_of::<CallText>(), 160);
    }

    #[test]
    fn blocking_syscall_is_none_outside_of_one() {
        let at = |syscall| Switch { syscall, ..Switch::default() }.blocking_syscall();
        assert_eq!((at(202), at(SYSCALL_NONE), at(SYSCALL_UNRECORDED)), (Some(202), None, None));
    }

    #[test]
    fn page_alloc_unpacks_its_flags() {
        let mut record = PageAlloc::default();
        record.header.flags = 0x29;
        assert_eq!((record.order(), record.migratetype()), (9, 2));
    }
}
