//! `bpf(2)` and `perf_event_open(2)`: one function per command, each with the arguments that are used here.
//!
//! Attribute structs end where the used part does; the kernel takes the rest for zero.

use std::{
    ffi::{CStr, c_void},
    io,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    time::Duration,
};

use aya_obj::generated::{bpf_cmd, bpf_insn, bpf_prog_info};
use bytemuck::{NoUninit, Pod};

/// # Safety
/// Pointers in `attributes` must fit the command, and stay valid during the call.
unsafe fn bpf<T: NoUninit>(command: bpf_cmd, attributes: &T) -> io::Result<i32> {
    // SAFETY: the kernel reads size_of::<T>() bytes; the caller vouches for pointers inside.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, command as libc::c_long, std::ptr::from_ref(attributes), size_of::<T>())
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

/// # Safety
/// As for [`bpf`], and the command must return a new file descriptor.
unsafe fn bpf_fd<T: NoUninit>(command: bpf_cmd, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: the caller vouches for both; nobody else owns a new descriptor.
    unsafe { Ok(OwnedFd::from_raw_fd(bpf(command, attributes)?)) }
}

fn fd(fd: BorrowedFd<'_>) -> u32 {
    fd.as_raw_fd() as u32
}

/// Kernel object names hold 15 bytes.
fn object_name(name: &str) -> [u8; 16] {
    let mut field = [0; 16];
    for (to, from) in field.iter_mut().take(15).zip(name.bytes()) {
        *to = from;
    }
    field
}

#[repr(C)]
#[derive(Clone, Copy, NoUninit)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
    inner_map_fd: u32,
    numa_node: u32,
    map_name: [u8; 16],
}

/// Shape of a map.
#[derive(Clone, Copy, Debug)]
pub(super) struct MapShape {
    pub(super) map_type: u32,
    pub(super) key_size: u32,
    pub(super) value_size: u32,
    pub(super) max_entries: u32,
    pub(super) flags: u32,
}

/// `inner`: for a map of maps, one that is like those it will hold.
pub(super) fn map_create(name: &str, shape: MapShape, inner: Option<BorrowedFd<'_>>) -> io::Result<OwnedFd> {
    let attributes = MapCreate {
        map_type: shape.map_type,
        key_size: shape.key_size,
        value_size: shape.value_size,
        max_entries: shape.max_entries,
        map_flags: shape.flags,
        inner_map_fd: inner.map_or(0, fd),
        numa_node: 0,
        map_name: object_name(&name.replace(|c: char| !c.is_ascii_alphanumeric() && c != '_', "_")),
    };
    // SAFETY: no pointers inside.
    unsafe { bpf_fd(bpf_cmd::BPF_MAP_CREATE, &attributes) }
}

#[repr(C)]
#[derive(Clone, Copy, NoUninit)]
struct MapElement {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

impl MapElement {
    fn new<K: NoUninit>(map: BorrowedFd<'_>, key: &K, value: *const u8) -> Self {
        Self { map_fd: fd(map), padding: 0, key: std::ptr::from_ref(key) as u64, value: value as u64, flags: 0 }
    }
}

/// Key and value must have the sizes that the map was made with, as for all functions on elements.
pub(super) fn map_update<K: NoUninit>(map: BorrowedFd<'_>, key: &K, value: &[u8]) -> io::Result<()> {
    // SAFETY: both pointers are to live memory, of the map's sizes as this module's callers ensure.
    unsafe { bpf(bpf_cmd::BPF_MAP_UPDATE_ELEM, &MapElement::new(map, key, value.as_ptr())) }.map(drop)
}

/// Copies the value into `value`, which is as long as the map's value (for per-CPU maps: one each, padded to
/// eight bytes, for every possible CPU). False: there is no such key.
pub(super) fn map_lookup<K: NoUninit>(map: BorrowedFd<'_>, key: &K, value: &mut [u8]) -> io::Result<bool> {
    // SAFETY: as in `map_update`; `value` is writable for the length that callers size after the map.
    match unsafe { bpf(bpf_cmd::BPF_MAP_LOOKUP_ELEM, &MapElement::new(map, key, value.as_mut_ptr())) } {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
        Err(error) => Err(error),
    }
}

/// False: there was no such key.
pub(super) fn map_delete<K: NoUninit>(map: BorrowedFd<'_>, key: &K) -> io::Result<bool> {
    // SAFETY: as in `map_update`; the value is not used.
    match unsafe { bpf(bpf_cmd::BPF_MAP_DELETE_ELEM, &MapElement::new(map, key, std::ptr::null())) } {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The key after `key` in the map's own order; the first one for `None`.
pub(super) fn map_next_key<K: Pod>(map: BorrowedFd<'_>, key: Option<&K>) -> io::Result<Option<K>> {
    let mut next = K::zeroed();
    let attributes = MapElement {
        map_fd: fd(map),
        padding: 0,
        key: key.map_or(0, |key| std::ptr::from_ref(key) as u64),
        value: &raw mut next as u64,
        flags: 0,
    };
    // SAFETY: as in `map_update`; the kernel writes one key to `next`.
    match unsafe { bpf(bpf_cmd::BPF_MAP_GET_NEXT_KEY, &attributes) } {
        Ok(_) => Ok(Some(next)),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Makes a map read-only for user space: only then does the verifier take its contents for constants.
pub(super) fn map_freeze(map: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no pointers inside.
    unsafe { bpf(bpf_cmd::BPF_MAP_FREEZE, &fd(map)) }.map(drop)
}

#[repr(C)]
#[derive(Clone, Copy, NoUninit)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
    prog_ifindex: u32,
    expected_attach_type: u32,
    prog_btf_fd: u32,
    func_info_rec_size: u32,
    func_info: u64,
    func_info_cnt: u32,
    line_info_rec_size: u32,
    line_info: u64,
    line_info_cnt: u32,
    attach_btf_id: u32,
}

/// A program as it goes to the verifier.
#[derive(Clone, Copy)]
pub(super) struct ProgramImage<'a> {
    pub(super) name: &'a str,
    pub(super) program_type: u32,
    pub(super) attach_type: u32,
    pub(super) attach_btf_id: u32,
    pub(super) instructions: &'a [bpf_insn],
    pub(super) license: &'a CStr,
}

/// `log` receives the verifier's words; empty for none.
pub(super) fn prog_load(image: ProgramImage<'_>, log: &mut [u8]) -> io::Result<OwnedFd> {
    let attributes = ProgLoad {
        prog_type: image.program_type,
        insn_cnt: image.instructions.len() as u32,
        insns: image.instructions.as_ptr() as u64,
        license: image.license.as_ptr() as u64,
        log_level: u32::from(!log.is_empty()),
        log_size: log.len() as u32,
        log_buf: if log.is_empty() { 0 } else { log.as_mut_ptr() as u64 },
        kern_version: 0,
        prog_flags: 0,
        prog_name: object_name(image.name),
        prog_ifindex: 0,
        expected_attach_type: image.attach_type,
        prog_btf_fd: 0,
        func_info_rec_size: 0,
        func_info: 0,
        func_info_cnt: 0,
        line_info_rec_size: 0,
        line_info: 0,
        line_info_cnt: 0,
        attach_btf_id: image.attach_btf_id,
    };
    // SAFETY: pointers and lengths are those of slices that outlive the call.
    unsafe { bpf_fd(bpf_cmd::BPF_PROG_LOAD, &attributes) }
}

/// Times that the kernel skipped a program because it was running on that CPU already.
pub(super) fn prog_recursion_misses(program: BorrowedFd<'_>) -> io::Result<u64> {
    #[repr(C)]
    #[derive(Clone, Copy, NoUninit)]
    struct GetInfo {
        bpf_fd: u32,
        info_len: u32,
        info: u64,
    }
    // SAFETY: a C struct of integers, for which zero is valid.
    let mut info: bpf_prog_info = unsafe { std::mem::zeroed() };
    let attributes =
        GetInfo { bpf_fd: fd(program), info_len: size_of::<bpf_prog_info>() as u32, info: &raw mut info as u64 };
    // SAFETY: the kernel writes at most info_len bytes to `info`.
    unsafe { bpf(bpf_cmd::BPF_OBJ_GET_INFO_BY_FD, &attributes) }?;
    Ok(info.recursion_misses)
}

/// Attaches a raw tracepoint program by name, or a typed one, which knows its tracepoint, without.
pub(super) fn raw_tracepoint_open(program: BorrowedFd<'_>, name: Option<&CStr>) -> io::Result<OwnedFd> {
    #[repr(C)]
    #[derive(Clone, Copy, NoUninit)]
    struct Open {
        name: u64,
        prog_fd: u32,
        padding: u32,
    }
    let name = name.map_or(0, |name| name.as_ptr() as u64);
    // SAFETY: the name is a C string that outlives the call.
    unsafe { bpf_fd(bpf_cmd::BPF_RAW_TRACEPOINT_OPEN, &Open { name, prog_fd: fd(program), padding: 0 }) }
}

const BPF_PERF_EVENT: u32 = 41;
/// `BPF_TRACE_UPROBE_MULTI`, for loading and for linking.
pub(super) const UPROBE_MULTI: u32 = 48;
const UPROBE_MULTI_RETURN: u32 = 1;

/// Attaches a program to an open perf event.
pub(super) fn link_perf_event(program: BorrowedFd<'_>, event: BorrowedFd<'_>, cookie: u64) -> io::Result<OwnedFd> {
    #[repr(C)]
    #[derive(Clone, Copy, NoUninit)]
    struct LinkPerfEvent {
        prog_fd: u32,
        target_fd: u32,
        attach_type: u32,
        flags: u32,
        cookie: u64,
    }
    let attributes =
        LinkPerfEvent { prog_fd: fd(program), target_fd: fd(event), attach_type: BPF_PERF_EVENT, flags: 0, cookie };
    // SAFETY: no pointers inside.
    unsafe { bpf_fd(bpf_cmd::BPF_LINK_CREATE, &attributes) }
}

/// Attaches a program to many places of one file at once, for all processes.
pub(super) fn link_uprobe_multi(
    program: BorrowedFd<'_>,
    path: &CStr,
    offsets: &[u64],
    cookies: &[u64],
    at_return: bool,
) -> io::Result<OwnedFd> {
    #[repr(C)]
    #[derive(Clone, Copy, NoUninit)]
    struct LinkUprobeMulti {
        prog_fd: u32,
        target_fd: u32,
        attach_type: u32,
        link_flags: u32,
        path: u64,
        offsets: u64,
        ref_ctr_offsets: u64,
        cookies: u64,
        cnt: u32,
        flags: u32,
        pid: u32,
        padding: u32,
    }
    let attributes = LinkUprobeMulti {
        prog_fd: fd(program),
        target_fd: 0,
        attach_type: UPROBE_MULTI,
        link_flags: 0,
        path: path.as_ptr() as u64,
        offsets: offsets.as_ptr() as u64,
        ref_ctr_offsets: 0,
        cookies: cookies.as_ptr() as u64,
        cnt: offsets.len().min(cookies.len()) as u32,
        flags: if at_return { UPROBE_MULTI_RETURN } else { 0 },
        pid: 0,
        padding: 0,
    };
    // SAFETY: path is a C string, and both arrays hold at least `cnt` words; all outlive the call.
    unsafe { bpf_fd(bpf_cmd::BPF_LINK_CREATE, &attributes) }
}

/// `perf_event_attr` as far as it is used here (`PERF_ATTR_SIZE_VER5`).
#[repr(C)]
#[derive(Clone, Copy, Default, NoUninit)]
pub(super) struct PerfAttributes {
    pub(super) event_type: u32,
    pub(super) size: u32,
    pub(super) config: u64,
    pub(super) sample_period: u64,
    pub(super) sample_type: u64,
    pub(super) read_format: u64,
    pub(super) flags: u64,
    pub(super) wakeup: u32,
    pub(super) bp_type: u32,
    pub(super) config1: u64,
    pub(super) config2: u64,
    pub(super) branch_sample_type: u64,
    pub(super) sample_regs_user: u64,
    pub(super) sample_stack_user: u32,
    pub(super) clockid: i32,
    pub(super) sample_regs_intr: u64,
    pub(super) aux_watermark: u32,
    pub(super) sample_max_stack: u16,
    pub(super) reserved: u16,
}

/// Opens an event of all processes on one CPU.
///
/// # Safety
/// Where the event type takes a pointer in `config1`, it must be to a C string.
pub(super) unsafe fn perf_event_open(mut attributes: PerfAttributes, cpu: u32) -> io::Result<OwnedFd> {
    const CLOSE_ON_EXEC: libc::c_ulong = 8;
    attributes.size = size_of::<PerfAttributes>() as u32;
    // SAFETY: the struct has the size it says; the caller vouches for config1; a new descriptor has no owner.
    unsafe {
        let result = libc::syscall(libc::SYS_perf_event_open, &raw const attributes, -1, cpu, -1, CLOSE_ON_EXEC);
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(result as i32)) }
    }
}

/// Memory shared with the kernel through a file descriptor, unmapped when dropped.
#[derive(Debug)]
pub(super) struct Mapping {
    start: *mut c_void,
    len: usize,
}

// SAFETY: plain memory; those who read or write it use atomics where the kernel does the other part.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    pub(super) fn new(of: BorrowedFd<'_>, len: usize, offset: usize, writable: bool) -> io::Result<Self> {
        let protection = libc::PROT_READ | if writable { libc::PROT_WRITE } else { 0 };
        // SAFETY: a new mapping wherever the kernel likes; it touches no memory in use.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), len, protection, libc::MAP_SHARED, of.as_raw_fd(), offset as libc::off_t)
        };
        if start == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(Self { start, len }) }
    }

    /// Address of byte `offset`; `None` unless `len` bytes lie there.
    pub(super) fn at(&self, offset: usize, len: usize) -> Option<*mut u8> {
        (offset.checked_add(len)? <= self.len).then(|| self.start.cast::<u8>().wrapping_add(offset))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this struct's own and nobody can hold a reference past it.
        unsafe { libc::munmap(self.start, self.len) };
    }
}

pub(super) fn page_bytes() -> usize {
    // SAFETY: no preconditions.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// Waits for any of several files, each of which is named once per wakeup.
#[derive(Debug)]
pub(super) struct Bell(OwnedFd);

impl Bell {
    pub(super) fn new<'fd>(files: impl IntoIterator<Item = BorrowedFd<'fd>>) -> io::Result<Self> {
        // SAFETY: no pointers; a new descriptor has no owner.
        let epoll = unsafe {
            match libc::epoll_create1(libc::EPOLL_CLOEXEC) {
                -1 => return Err(io::Error::last_os_error()),
                epoll => OwnedFd::from_raw_fd(epoll),
            }
        };
        for file in files {
            // By edges: a ring counts as readable while anything is in it, but only a bell makes an edge.
            let mut event = libc::epoll_event { events: (libc::EPOLLIN | libc::EPOLLET) as u32, u64: 0 };
            // SAFETY: both descriptors are open and `event` is valid during the call.
            let added =
                unsafe { libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, file.as_raw_fd(), &raw mut event) };
            if added != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(Self(epoll))
    }

    pub(super) fn wait(&self, timeout: Duration) -> io::Result<()> {
        const AT_ONCE: usize = 64;
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; AT_ONCE];
        let timeout_ms = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: room for as many events as it says.
        if unsafe { libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), AT_ONCE as i32, timeout_ms) } >= 0 {
            return Ok(());
        }
        match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            error => Err(error),
        }
    }
}

/// Number of this thread.
pub(super) fn thread_id() -> u32 {
    // SAFETY: no arguments.
    unsafe { libc::gettid() }.cast_unsigned()
}

/// Touches one new page of this process, and gives it back after `look` had its address.
pub(super) fn with_new_page<T>(look: impl FnOnce(u64) -> T) -> io::Result<T> {
    let (length, flags) = (page_bytes(), libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping of one page, touched and looked at before it is gone; nobody else knows of it.
    unsafe {
        let page = libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        if page == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // Neighbours may have joined into a range that takes a large page.
        libc::madvise(page, length, libc::MADV_NOHUGEPAGE);
        page.cast::<u8>().write_volatile(1);
        let seen = look(page as u64);
        libc::munmap(page, length);
        Ok(seen)
    }
}

/// `CLOCK_MONOTONIC`, the clock of all records.
pub(super) fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is writable; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
