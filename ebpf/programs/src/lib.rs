//! The BPF programs: what runs inside the kernel at every recorded event.
//!
//! Place in the flow: built by `ingero-ebpf` into one BPF object, loaded by `ingero-record`. Each program
//! fills one record of `ingero-ebpf-common` and puts it into the ring.
//!
//! House rules of this crate, each of which a verifier or a compiler has taught:
//! - nothing that can panic: no indexing, no division, no slices with computed bounds;
//! - at most 512 bytes of stack per program, so large records are filled inside the ring;
//! - kernel structs are read through typed pointers at offsets from [`Config`], never at fixed ones;
//! - the result of an atomic operation is not used: LLVM 22 gets the relaxed ones wrong.
#![no_std]

use aya_ebpf::helpers::bpf_get_current_pid_tgid;
use ingero_ebpf_common::Config;

mod arch;
mod block;
mod calls;
mod context;
mod cpu;
mod hold;
mod irq;
mod kernel;
mod memory;
mod network;
mod process;
mod ring;
mod sched;
mod targets;

/// Replaced by the recorder before loading.
#[unsafe(no_mangle)]
static CONFIG: Config = Config::UNSET;

/// One field of [`CONFIG`]. Volatile, or the compiler would believe the value it sees; the verifier then
/// folds the real one.
macro_rules! config {
    ($field:ident) => {{
        let at = &raw const crate::CONFIG.$field;
        // SAFETY: it points into a static of this type.
        unsafe { core::ptr::read_volatile(at) }
    }};
}
pub(crate) use config;

/// A thread and its process, as the kernel's initial PID namespace numbers them.
#[derive(Clone, Copy)]
pub(crate) struct Task {
    tid: u32,
    tgid: u32,
}

impl Task {
    #[inline(always)]
    fn current() -> Self {
        let both = bpf_get_current_pid_tgid();
        Self { tid: both as u32, tgid: (both >> 32) as u32 }
    }
}

#[cfg(bpf_build)]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
