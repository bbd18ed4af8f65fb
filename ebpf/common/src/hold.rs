//! Holding a new program until its libraries are probed.

use bytemuck::{Pod, Zeroable};

/// What the program that holds must know: offsets in kernel structs, and whom to hold. A map value, so that nothing of
/// it needs to be there on every kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct HoldPlan {
    /// Process group whose programs are held; 0: nobody is.
    pub group: u32,
    /// `task_struct.signal`
    pub task_signal: u32,
    /// `signal_struct.pids[PIDTYPE_PGID]`
    pub signal_group: u32,
    /// `pid.numbers[0].nr`
    pub pid_number: u32,
    /// `task_struct.ptrace`
    pub task_ptrace: u32,
    /// `linux_binprm.file`
    pub binprm_file: u32,
    /// `file.f_inode`
    pub file_inode: u32,
    /// `inode.i_ino`
    pub inode_number: u32,
    /// `inode.i_sb`
    pub inode_super: u32,
    /// `super_block.s_dev`
    pub super_device: u32,
}

/// The file of a program, as the kernel numbers it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Pod, Zeroable)]
pub struct ProgramFile {
    /// Inode number.
    pub inode: u64,
    /// The kernel's own device number, which is not that of `stat`.
    pub device: u32,
    /// Zero.
    pub reserved: u32,
}

/// A process that was stopped before the first instruction of its new program.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Held {
    /// Its program.
    pub file: ProgramFile,
    /// The process.
    pub tgid: u32,
    /// Zero.
    pub reserved: u32,
}

/// Bytes of the ring of [`Held`] records.
pub const HOLD_RING_BYTES: u32 = 64 << 10;

/// Programs that are known, so that their next start is not held.
pub const MAX_KNOWN_PROGRAMS: u32 = 4096;
