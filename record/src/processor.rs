//! What depends on the processor: how its functions begin, and where probing them costs least.
//!
//! All processors are compiled and tested everywhere: the bytes are data. The registers of calls are the BPF side's
//! (`ebpf/programs/src/arch.rs`).

/// A kind of processor that can be recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Processor {
    /// AMD's and Intel's, 64 bits.
    X86_64,
    /// Arm's, 64 bits.
    Aarch64,
}

impl Processor {
    /// The one that this program was built for.
    pub const OWN: Self = if cfg!(target_arch = "aarch64") { Self::Aarch64 } else { Self::X86_64 };

    /// Bytes of a function that [`cheapest`](Self::cheapest) wants to see.
    pub const HEAD_BYTES: u64 = 8;

    /// `e_machine` of its ELF files.
    #[must_use]
    pub fn elf_machine(self) -> u16 {
        match self {
            Self::X86_64 => 62,
            Self::Aarch64 => 183,
        }
    }

    /// Distance from a function's first instruction to where a probe is cheapest, given its first bytes.
    ///
    /// The stack pointer, the return address and the arguments are there what they were at the first instruction.
    #[must_use]
    pub fn cheapest(self, head: &[u8]) -> u64 {
        match self {
            Self::X86_64 => x86_64(head),
            Self::Aarch64 => aarch64(head),
        }
    }
}

/// The kernel emulates `push`; an `endbr64` before it is single-stepped, at ten times the cost.
fn x86_64(head: &[u8]) -> u64 {
    const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
    let push = |bytes: &[u8]| matches!(bytes, [0x50..=0x57, ..] | [0x41, 0x50..=0x57, ..]);
    match head.strip_prefix(&ENDBR64) {
        Some(rest) if push(rest) => 4,
        _ => 0,
    }
}

/// The kernel simulates `nop` and the hints `bti` and `paciasp` stands among, and single-steps most others. `bti c` does
/// nothing to a thread that got there by a call, and is simulated where it stands: it stays the place. `paciasp` signs
/// the return address, which a return probe must replace before: the probe never goes behind it.
fn aarch64(_head: &[u8]) -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behind_endbr64_where_a_push_follows() {
        let cheapest = |head: &[u8]| Processor::X86_64.cheapest(head);
        assert_eq!(cheapest(b"\xf3\x0f\x1e\xfa\x55\x48"), 4, "push %rbp");
        assert_eq!(cheapest(b"\xf3\x0f\x1e\xfa\x41\x57"), 4, "push %r15");
        assert_eq!(cheapest(b"\xf3\x0f\x1e\xfa\x48\x83"), 0, "sub $n,%rsp");
        assert_eq!(cheapest(b"\x55\x48\x89\xe5"), 0, "push %rbp at once");
        assert_eq!(cheapest(b"\xf3\x0f\x1e\xfb\x55\x48"), 0, "endbr32");
        assert_eq!(cheapest(b"\xf3\x0f\x1e\xfa"), 0, "cut");
        assert_eq!(cheapest(b""), 0);
    }

    #[test]
    fn never_behind_a_signed_return_address() {
        let cheapest = |head: &[u8]| Processor::Aarch64.cheapest(head);
        assert_eq!(cheapest(b"\x3f\x23\x03\xd5\xfd\x7b\xbf\xa9"), 0, "paciasp; stp x29, x30, [sp, #-16]!");
        assert_eq!(cheapest(b"\x5f\x24\x03\xd5\x3f\x23\x03\xd5"), 0, "bti c; paciasp");
        assert_eq!(cheapest(b"\xfd\x7b\xbf\xa9"), 0, "stp x29, x30, [sp, #-16]!");
        // Bytes that are an endbr64 elsewhere mean nothing here.
        assert_eq!(cheapest(b"\xf3\x0f\x1e\xfa\x55\x48"), 0);
    }

    #[test]
    fn machines_as_elf_numbers_them() {
        assert_eq!(Processor::X86_64.elf_machine(), object::elf::EM_X86_64.0);
        assert_eq!(Processor::Aarch64.elf_machine(), object::elf::EM_AARCH64.0);
    }
}
