//! All that depends on the processor: where a call's arguments, result and stack pointer are.

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::*;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;

/// Integer arguments that `argument_registers` yields: a power of two, so that a mask bounds an index.
pub(crate) const REGISTER_ROOM: usize = 8;

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use super::REGISTER_ROOM;
    use aya_ebpf::bindings::pt_regs;

    /// Arguments that are passed in registers; the others are on the caller's stack.
    pub(crate) const REGISTER_ARGUMENTS: u64 = 6;

    #[inline(always)]
    pub(crate) fn argument_registers(regs: &pt_regs) -> [u64; REGISTER_ROOM] {
        [regs.rdi, regs.rsi, regs.rdx, regs.rcx, regs.r8, regs.r9, 0, 0]
    }

    /// Address of stack argument `n` (0 is the first that has no register), above the return address.
    #[inline(always)]
    pub(crate) fn stack_argument(entry_sp: u64, n: u64) -> u64 {
        entry_sp.wrapping_add(8).wrapping_add(n << 3)
    }

    #[inline(always)]
    pub(crate) fn entry_sp(regs: &pt_regs) -> u64 {
        regs.rsp
    }

    /// At a return probe `ret` has already taken the return address off.
    #[inline(always)]
    pub(crate) fn entry_sp_at_return(regs: &pt_regs) -> u64 {
        regs.rsp.wrapping_sub(8)
    }

    #[inline(always)]
    pub(crate) fn result(regs: &pt_regs) -> u64 {
        regs.rax
    }
}

#[cfg(target_arch = "aarch64")]
mod aarch64 {
    use super::REGISTER_ROOM;
    use aya_ebpf::bindings::pt_regs;

    /// Arguments that are passed in registers; the others are on the caller's stack.
    pub(crate) const REGISTER_ARGUMENTS: u64 = 8;

    #[inline(always)]
    pub(crate) fn argument_registers(regs: &pt_regs) -> [u64; REGISTER_ROOM] {
        let [a, b, c, d, e, f, g, h, ..] = regs.regs;
        [a, b, c, d, e, f, g, h]
    }

    /// Address of stack argument `n` (0 is the first that has no register).
    #[inline(always)]
    pub(crate) fn stack_argument(entry_sp: u64, n: u64) -> u64 {
        entry_sp.wrapping_add(n << 3)
    }

    #[inline(always)]
    pub(crate) fn entry_sp(regs: &pt_regs) -> u64 {
        regs.sp
    }

    /// The return address is in a register, so the stack pointer is back where it was.
    #[inline(always)]
    pub(crate) fn entry_sp_at_return(regs: &pt_regs) -> u64 {
        regs.sp
    }

    #[inline(always)]
    pub(crate) fn result(regs: &pt_regs) -> u64 {
        let [a, ..] = regs.regs;
        a
    }
}
