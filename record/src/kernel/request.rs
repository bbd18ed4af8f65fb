//! What a block request's flags mean on this kernel.

use super::btf::Btf;

/// Places of flags in a request's `cmd_flags`, as masks; 0 where this kernel has no such flag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestFlags {
    preflush: u32,
    fua: u32,
    ahead: u32,
    sync: u32,
    meta: u32,
    atomic: u32,
}

const OPERATION: u32 = 0xff;

impl RequestFlags {
    pub(super) fn of(btf: &Btf) -> Self {
        let mask = |name| btf.enumerator("req_flag_bits", name).and_then(|bit| 1_u32.checked_shl(bit)).unwrap_or(0);
        Self {
            preflush: mask("__REQ_PREFLUSH"),
            fua: mask("__REQ_FUA"),
            ahead: mask("__REQ_RAHEAD"),
            sync: mask("__REQ_SYNC"),
            meta: mask("__REQ_META"),
            atomic: mask("__REQ_ATOMIC"),
        }
    }

    /// The letters that the kernel's own tracer prints for a request: operation, then flags.
    #[must_use]
    pub fn letters(self, cmd_flags: u32) -> String {
        let flag = |mask: u32, letter| if cmd_flags & mask != 0 { letter } else { "" };
        let operation = match cmd_flags & OPERATION {
            0 => "R",
            1 => "W",
            2 => "F",
            3 => "D",
            5 => "DE",
            _ => "N",
        };
        [
            flag(self.preflush, "F"),
            operation,
            flag(self.fua, "F"),
            flag(self.ahead, "A"),
            flag(self.sync, "S"),
            flag(self.meta, "M"),
            flag(self.atomic, "U"),
        ]
        .concat()
    }
}

/// The error number below 0 that a request ended with, of what `block_rq_complete` handed over; 0: it went well.
#[must_use]
pub fn request_error(status: i32) -> i32 {
    match status {
        // Already one: kernels before 5.16.
        ..=0 => status,
        1 => -libc::EOPNOTSUPP,
        2 => -libc::ETIMEDOUT,
        3 => -libc::ENOSPC,
        4 => -libc::ENOLINK,
        5 => -libc::EREMOTEIO,
        6 => -libc::EBADE,
        7 => -libc::ENODATA,
        8 => -libc::EILSEQ,
        9 => -libc::ENOMEM,
        12 => -libc::EAGAIN,
        13 => -libc::EBUSY,
        // The numbers of the rarer ones differ between kernels.
        _ => -libc::EIO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_those_of_the_kernels_own_tracer() {
        let flags = RequestFlags { preflush: 0x100, fua: 0x200, ahead: 0x400, sync: 0x800, meta: 0x1000, atomic: 0 };
        let shown = [0x801, 0, 0x400, 0x902, 0xb01, 0x1800, 3, 5, 34].map(|bits| flags.letters(bits));
        assert_eq!(shown, ["WS", "R", "RA", "FFS", "FWFS", "RSM", "D", "DE", "N"]);
    }

    #[test]
    fn errors_of_either_kind_are_told() {
        assert_eq!([0, -5, 10, 7, 200].map(request_error), [0, -5, -libc::EIO, -libc::ENODATA, -libc::EIO]);
    }
}
