//! What a probe pair costs at the least: programs of a few instructions on the same function, once doing nothing, once
//! writing a record of a size into a ring.

use std::{
    ffi::CString,
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
};

const MAP_CREATE: libc::c_long = 0;
const PROG_LOAD: libc::c_long = 5;
const LINK_CREATE: libc::c_long = 28;

const RINGBUF: u32 = 27;
const KPROBE: u32 = 2;
const UPROBE_MULTI: u32 = 48;
const AT_RETURN: u32 = 1;

/// All that one run writes finds room: nobody reads.
const RING_BYTES: u32 = 128 << 20;

/// The programs, attached to an entry and its return.
pub(crate) struct Reference(#[expect(dead_code, reason = "held for what dropping them does")] [OwnedFd; 5]);

impl Reference {
    /// Attaches to the function at `offset` in this very binary. `bytes`: the records to write at the entry and at the
    /// return; 0 for none.
    ///
    /// # Errors
    /// Where the kernel refuses: before 6.6 it has no such links.
    pub(crate) fn attach(offset: u64, bytes: [i32; 2]) -> io::Result<Self> {
        let ring = bpf(MAP_CREATE, &[u64::from(RINGBUF), u64::from(RING_BYTES) << 32, 0])?;
        let [entry, on_return] = bytes.map(|bytes| load(&program(&ring, bytes)));
        let (entry, on_return) = (entry?, on_return?);
        // The return first: every entry has one then.
        let second = link(&on_return, offset, AT_RETURN)?;
        let first = link(&entry, offset, 0)?;
        Ok(Self([first, second, entry, on_return, ring]))
    }
}

/// One instruction: operation, registers (target in the lower half), jump distance, constant.
fn instruction(code: u8, registers: u8, distance: i16, constant: i32) -> u64 {
    u64::from_le_bytes(
        [[code, registers].as_slice(), &distance.to_le_bytes(), &constant.to_le_bytes()]
            .concat()
            .try_into()
            .unwrap_or([0; 8]),
    )
}

fn program(ring: &OwnedFd, bytes: i32) -> Vec<u64> {
    let end = [instruction(0xb7, 0, 0, 0), instruction(0x95, 0, 0, 0)];
    if bytes == 0 {
        return end.to_vec();
    }
    let mut code = vec![
        // r0 = bpf_ringbuf_reserve(ring, bytes, 0)
        instruction(0x18, 0x11, 0, ring.as_raw_fd()),
        0,
        instruction(0xb7, 2, 0, bytes),
        instruction(0xb7, 3, 0, 0),
        instruction(0x85, 0, 0, 131),
        // Without room it is over.
        instruction(0x15, 0, 6, 0),
        // *r0 = bpf_ktime_get_ns(), and it is submitted without waking anybody.
        instruction(0xbf, 0x06, 0, 0),
        instruction(0x85, 0, 0, 5),
        instruction(0x7b, 0x06, 0, 0),
        instruction(0xbf, 0x61, 0, 0),
        instruction(0xb7, 2, 0, 1),
        instruction(0x85, 0, 0, 132),
    ];
    code.extend(end);
    code
}

fn load(code: &[u64]) -> io::Result<OwnedFd> {
    let license = c"GPL";
    let mut words = [0; 10];
    words[0] = u64::from(KPROBE) | (code.len() as u64) << 32;
    words[1] = code.as_ptr() as u64;
    words[2] = license.as_ptr() as u64;
    // Behind the name: an interface, then the kind of link that it is for.
    words[8] = u64::from(UPROBE_MULTI) << 32;
    bpf(PROG_LOAD, &words)
}

fn link(program: &OwnedFd, offset: u64, flags: u32) -> io::Result<OwnedFd> {
    let path = CString::new("/proc/self/exe")?;
    let words = [
        program.as_raw_fd() as u64,
        u64::from(UPROBE_MULTI),
        path.as_ptr() as u64,
        &raw const offset as u64,
        0,
        0,
        1 | u64::from(flags) << 32,
        0,
    ];
    bpf(LINK_CREATE, &words)
}

fn bpf(command: libc::c_long, attributes: &[u64]) -> io::Result<OwnedFd> {
    // SAFETY: the callers above lay the words out as the kernel's header has them, and what they point to outlives the
    // call; each of these commands returns a new descriptor.
    unsafe {
        let result = libc::syscall(libc::SYS_bpf, command, attributes.as_ptr(), size_of_val(attributes));
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(result as i32)) }
    }
}
