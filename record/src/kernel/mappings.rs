//! Who maps code: how a library that is loaded late is noticed.
//!
//! perf's side band reports every executable mapping, and the kernel looks for such listeners at that
//! moment only. A probe on the `mmap` system call would instead slow down every system call of every
//! process, since their tracepoints share one switch; and function probes are missing on small kernels.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    sync::atomic::{AtomicU64, Ordering, fence},
};

use bytemuck::{Pod, Zeroable};
use ingero_ebpf_common::{Header, Kind, Mapped};

use super::{
    Error, cpus,
    losses::Overruns,
    sys::{self, Mapping, PerfAttributes},
};

const SOFTWARE: u32 = 1;
const DUMMY: u64 = 9;
/// Sample: thread ids, then the time. They trail every record.
const SAMPLE_TID: u64 = 1 << 1;
const SAMPLE_TIME: u64 = 1 << 2;
// Bits of `perf_event_attr` behind `read_format`.
const EXECUTABLE_MAPPINGS: u64 = 1 << 8;
const WATERMARK: u64 = 1 << 14;
const SAMPLE_ID_ALL: u64 = 1 << 18;
const USE_CLOCKID: u64 = 1 << 25;

const RECORD_MMAP: u32 = 1;
const RECORD_LOST: u32 = 2;

/// `perf_event_mmap_page`: positions of the data's writer and reader.
const DATA_HEAD: usize = 1024;
const DATA_TAIL: usize = 1032;
/// Room for the longest path sixteen times over, for each CPU.
const DATA_BYTES: usize = 64 << 10;

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct RecordHead {
    kind: u32,
    misc: u16,
    size: u16,
}

/// Listens on every CPU that is online when it is opened.
#[derive(Debug)]
pub(super) struct MappingWatch {
    cpus: Vec<CpuBuffer>,
    overruns: Overruns,
}

#[derive(Debug)]
struct CpuBuffer {
    cpu: u32,
    mapping: Mapping,
    data_offset: usize,
    _event: OwnedFd,
}

impl MappingWatch {
    pub(super) fn open(overruns: Overruns) -> Result<Self, Error> {
        let mut buffers = Vec::new();
        for cpu in cpus::online()? {
            match CpuBuffer::open(cpu) {
                Ok(buffer) => buffers.push(buffer),
                // It went offline meanwhile.
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {}
                Err(source) => return Err(Error::os(format!("watching executable mappings on CPU {cpu}"), source)),
            }
        }
        Ok(Self { cpus: buffers, overruns })
    }

    /// Hands on what came since the last call, at most one record in a row per process and CPU: a process
    /// that loads maps dozens of libraries.
    pub(super) fn read(&mut self, mut each: impl FnMut(Mapped)) {
        for buffer in &self.cpus {
            let mut last = 0;
            buffer.drain(|record| match record {
                SideBand::Mapped(mapped) if mapped.tgid != last => {
                    last = mapped.tgid;
                    each(mapped);
                }
                SideBand::Mapped(_) => {}
                SideBand::Lost(count) => {
                    self.overruns.fetch_add(count, Ordering::Relaxed);
                }
            });
        }
    }
}

#[derive(Debug, PartialEq)]
enum SideBand {
    Mapped(Mapped),
    Lost(u64),
}

impl CpuBuffer {
    fn open(cpu: u32) -> io::Result<Self> {
        let attributes = PerfAttributes {
            event_type: SOFTWARE,
            config: DUMMY,
            sample_type: SAMPLE_TID | SAMPLE_TIME,
            flags: EXECUTABLE_MAPPINGS | WATERMARK | SAMPLE_ID_ALL | USE_CLOCKID,
            wakeup: DATA_BYTES as u32,
            clockid: libc::CLOCK_MONOTONIC,
            ..PerfAttributes::default()
        };
        // SAFETY: a dummy event takes no pointer.
        let event = unsafe { sys::perf_event_open(attributes, cpu) }?;
        let data_offset = sys::page_bytes();
        let mapping = Mapping::new(event.as_fd(), data_offset + DATA_BYTES, 0, true)?;
        Ok(Self { cpu, mapping, data_offset, _event: event })
    }

    fn position(&self, at: usize) -> Option<&AtomicU64> {
        // SAFETY: the control page holds a position here, aligned to eight, for as long as it is mapped.
        Some(unsafe { AtomicU64::from_ptr(self.mapping.at(at, 8)?.cast()) })
    }

    fn drain(&self, mut each: impl FnMut(SideBand)) {
        let (Some(head), Some(tail)) = (self.position(DATA_HEAD), self.position(DATA_TAIL)) else { return };
        let end = head.load(Ordering::Acquire);
        let mut at = tail.load(Ordering::Relaxed);
        while at < end {
            let Some(record_head) = self.bytes::<8>(at) else { break };
            let record_head: RecordHead = bytemuck::cast(record_head);
            let size = u64::from(record_head.size);
            if size < 8 || size > end - at {
                break;
            }
            if let Some(record) = self.decode(record_head.kind, at, size) {
                each(record);
            }
            at += size;
        }
        // The kernel may overwrite what lies before the tail: reads come first.
        fence(Ordering::SeqCst);
        tail.store(end, Ordering::Release);
    }

    fn decode(&self, kind: u32, at: u64, size: u64) -> Option<SideBand> {
        match kind {
            RECORD_MMAP if size >= 32 => {
                let [tgid, tid]: [u32; 2] = bytemuck::cast(self.bytes::<8>(at + 8)?);
                let ts_ns = bytemuck::cast(self.bytes::<8>(at + size - 8)?);
                let header = Header { ts_ns, tid, cpu: self.cpu as u16, kind: Kind::Mapped as u8, flags: 0 };
                Some(SideBand::Mapped(Mapped { header, tgid, reserved: 0 }))
            }
            RECORD_LOST => Some(SideBand::Lost(bytemuck::cast(self.bytes::<8>(at + 16)?))),
            _ => None,
        }
    }

    /// Eight-byte aligned pieces never wrap, since the data area is a multiple of eight.
    fn bytes<const N: usize>(&self, at: u64) -> Option<[u8; N]> {
        let at = self.data_offset + (at as usize & (DATA_BYTES - 1));
        let place = self.mapping.at(at, N)?;
        // SAFETY: N bytes lie there, and the kernel does not touch them until the tail passes them.
        Some(unsafe { place.cast::<[u8; N]>().read_unaligned() })
    }
}
