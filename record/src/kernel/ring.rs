//! The reading end of one BPF ring buffer.
//!
//! The kernel maps the data twice in a row, so a record is always contiguous. Producers reserve in order and
//! commit in any order: the reader stops at the first record that is not committed yet.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
};

use aya_obj::generated::bpf_map_type;

use super::sys::{self, MapShape, Mapping};

const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;
/// Before each record: length with the two bits above, then a word of the kernel's own.
const RECORD_HEAD_BYTES: usize = 8;
/// Read records give their room back in such portions: often enough that producers never run short behind a
/// reader at work, seldom enough that the shared cache line does not bounce for every record.
const RELEASE_BYTES: u64 = 64 << 10;

/// Reads records in the order in which they were reserved.
#[derive(Debug)]
pub(super) struct Ring {
    fd: OwnedFd,
    consumer: Mapping,
    /// Producer position, then the data twice.
    producer: Mapping,
    page_bytes: usize,
    size_bytes: u32,
    /// Where the producers were when somebody looked: their word is in their caches, so that each look waits for them.
    produced: u64,
    read: u64,
    released: u64,
    /// Length of the record at `read`, once [`Ring::peek`] has found it committed.
    next: Option<usize>,
}

/// What the ring has next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// A committed record: [`Ring::record`].
    Record,
    /// A record that its producer still writes.
    Busy,
    /// Nothing.
    Nothing,
}

impl Ring {
    /// `size_bytes` is a power of two and a multiple of the page size.
    pub(super) fn create(name: &str, size_bytes: u32) -> io::Result<Self> {
        let map_type = bpf_map_type::BPF_MAP_TYPE_RINGBUF as u32;
        let shape = MapShape { map_type, key_size: 0, value_size: 0, max_entries: size_bytes, flags: 0 };
        Self::over(sys::map_create(name, shape, None)?, size_bytes)
    }

    /// A ring over a descriptor that can be mapped as one.
    pub(super) fn over(fd: OwnedFd, size_bytes: u32) -> io::Result<Self> {
        let page_bytes = sys::page_bytes();
        let consumer = Mapping::new(fd.as_fd(), page_bytes, 0, true)?;
        let producer = Mapping::new(fd.as_fd(), page_bytes + 2 * size_bytes as usize, page_bytes, false)?;
        Ok(Self { fd, consumer, producer, page_bytes, size_bytes, produced: 0, read: 0, released: 0, next: None })
    }

    /// Where the producers are; `None` cannot be, the page is mapped.
    fn look_at_producers(&self) -> Option<u64> {
        // SAFETY: the mapping begins with a position word, page aligned, which the kernel stores atomically and
        // which lives as long as the mapping. The page is read-only: it is only loaded.
        Some(unsafe { AtomicU64::from_ptr(self.producer.at(0, 8)?.cast()) }.load(Ordering::Acquire))
    }

    /// Length word of the record at `self.read`; `None` when there is none.
    fn record_head(&mut self) -> Option<u32> {
        if self.read == self.produced {
            self.produced = self.look_at_producers()?;
            if self.read == self.produced {
                return None;
            }
        }
        let head = self.producer.at(self.place(), RECORD_HEAD_BYTES)?;
        // SAFETY: a record head lies here, aligned to eight; the kernel stores it atomically.
        Some(unsafe { AtomicU32::from_ptr(head.cast()) }.load(Ordering::Acquire))
    }

    fn place(&self) -> usize {
        self.page_bytes + (self.read as usize & (self.size_bytes as usize - 1))
    }

    /// What is next; it stays next until [`Ring::advance`].
    pub(super) fn peek(&mut self) -> Next {
        loop {
            let Some(head) = self.record_head() else { return Next::Nothing };
            if head & BUSY != 0 {
                return Next::Busy;
            }
            self.next = Some((head & !DISCARDED) as usize);
            if head & DISCARDED == 0 {
                return Next::Record;
            }
            self.advance();
        }
    }

    /// The record that [`Ring::peek`] has found, aligned to eight.
    pub(super) fn record(&self) -> Option<&[u8]> {
        let len = self.next?;
        let record = self.producer.at(self.place() + RECORD_HEAD_BYTES, len)?;
        // SAFETY: inside the mapping, as `at` has checked. `next` is there only for a committed record, and the kernel leaves
        // that alone until the consumer position passes it; that takes `&mut self`, and the result borrows `self`.
        Some(unsafe { std::slice::from_raw_parts(record, len) })
    }

    /// Leaves that record behind.
    pub(super) fn advance(&mut self) {
        let Some(len) = self.next.take() else { return };
        self.read += (RECORD_HEAD_BYTES + len).next_multiple_of(8) as u64;
        if self.read - self.released >= RELEASE_BYTES.min(u64::from(self.size_bytes) / 4) {
            self.release();
        }
    }

    /// Gives the room of all records left behind to the producers.
    pub(super) fn release(&mut self) {
        if self.released != self.read
            && let Some(position) = self.consumer.at(0, 8)
        {
            // SAFETY: the mapping begins with the consumer position, page aligned; this is its only writer.
            unsafe { AtomicU64::from_ptr(position.cast()) }.store(self.read, Ordering::Release);
            self.released = self.read;
        }
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
