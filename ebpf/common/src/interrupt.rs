//! Ring records of interrupts, and what one CPU keeps of those under way.

use bytemuck::{Pod, Zeroable};

use crate::Header;

/// No interrupt line, or one whose number does not fit.
pub const NO_IRQ: u16 = u16::MAX;

/// Longest name of an interrupt's handler, the closing zero byte included; longer ones are cut.
pub const IRQ_NAME_BYTES: usize = 24;

/// A hard interrupt of a device or a timer ended. `header.tid` is the thread under it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Irq {
    /// No flags.
    pub header: Header,
    /// Process of that thread.
    pub tgid: u32,
    /// How long it ran, nanoseconds; at most what fits.
    pub dur_ns: u32,
    /// Its line; [`NO_IRQ`] for the CPU's own timer, which has no name either.
    pub irq: u16,
    /// Tasks that it woke.
    pub woke: u16,
    /// Zero.
    pub reserved: u32,
    /// Name of its handler, zero-terminated.
    pub name: [u8; IRQ_NAME_BYTES],
}

/// A softirq ended. `header.tid` is the thread under it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Softirq {
    /// No flags.
    pub header: Header,
    /// Process of that thread.
    pub tgid: u32,
    /// How long it ran, nanoseconds; at most what fits.
    pub dur_ns: u32,
    /// Its vector.
    pub vector: u16,
    /// Tasks that it woke.
    pub woke: u16,
    /// Zero.
    pub reserved: u32,
}

/// An interrupt under way on a CPU.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct OpenIrq {
    /// When it began; 0: none is under way.
    pub since_ns: u64,
    /// Line or vector.
    pub irq: u16,
    /// Tasks that it has woken.
    pub woke: u16,
    /// One of the bits of [`crate::context`] that say what it is.
    pub source: u32,
}

/// Those of one CPU: a hard interrupt does not interrupt another, nor a softirq another.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct OpenIrqs {
    /// The hard one.
    pub hard: OpenIrq,
    /// The soft one.
    pub soft: OpenIrq,
}
