//! Reading kernel structs.

use aya_ebpf::{
    bindings::task_struct,
    helpers::generated::{bpf_probe_read_kernel, bpf_probe_read_kernel_str},
};

use crate::{Task, config};

/// A pointer that the verifier knows the type of: loads through it need no helper, and a bad one reads zero.
#[derive(Clone, Copy)]
pub(crate) struct Typed(*const u8);

impl Typed {
    /// # Safety
    /// `pointer` must come from a typed tracepoint argument or a helper that returns one.
    #[inline(always)]
    pub(crate) unsafe fn new(pointer: *const task_struct) -> Self {
        Self(pointer.cast())
    }

    /// The field of type `T` at byte `offset`.
    #[inline(always)]
    pub(crate) fn field<T: Copy>(self, offset: u32) -> T {
        // SAFETY: the verifier refuses the program unless a field of that size lies there, and the kernel
        // turns a fault on a typed pointer into zero. Volatile keeps the load whole.
        unsafe { core::ptr::read_volatile(self.0.wrapping_add(offset as usize).cast::<T>()) }
    }

    /// The pointer in the field at byte `offset`, of which the verifier knows the type too.
    #[inline(always)]
    pub(crate) fn follow(self, offset: u32) -> Self {
        Self(self.field::<*const u8>(offset))
    }

    #[inline(always)]
    pub(crate) fn address(self) -> u64 {
        self.0 as u64
    }

    #[inline(always)]
    pub(crate) fn task(self) -> Task {
        Task { tid: self.field(config!(task_pid)), tgid: self.field(config!(task_tgid)) }
    }
}

/// Copies from any kernel address; `None` when it cannot be read.
#[inline(always)]
pub(crate) fn read<T: Copy>(address: u64) -> Option<T> {
    let mut value = core::mem::MaybeUninit::<T>::uninit();
    // SAFETY: the helper writes size_of::<T>() bytes to `value`, zeroes when it fails; T is plain data.
    unsafe {
        match bpf_probe_read_kernel(value.as_mut_ptr().cast(), size_of::<T>() as u32, address as *const _) {
            0 => Some(value.assume_init()),
            _ => None,
        }
    }
}

/// Copies a string of at most `N` bytes, closing zero included; empty when it cannot be read.
/// Bytes behind the closing zero keep what they were.
///
/// # Safety
/// `to` must be writable for `N` bytes.
#[inline(always)]
pub(crate) unsafe fn read_str<const N: usize>(to: *mut [u8; N], address: u64) {
    // SAFETY: the caller vouches for `to`.
    unsafe {
        if bpf_probe_read_kernel_str(to.cast(), N as u32, address as *const _) < 0 {
            to.cast::<u8>().write(0);
        }
    }
}
