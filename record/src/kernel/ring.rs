//! The reading end of the BPF ring buffer.
//!
//! The kernel maps the data twice in a row, so a record is always contiguous. Producers reserve in order and
//! commit in any order: the reader stops at the first record that is not committed yet.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
    time::Duration,
};

use super::sys::{self, Mapping};

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
    read: u64,
    released: u64,
}

impl Ring {
    /// `size_bytes` as the map was created.
    pub(super) fn new(fd: OwnedFd, size_bytes: u32) -> io::Result<Self> {
        let page_bytes = sys::page_bytes();
        let consumer = Mapping::new(fd.as_fd(), page_bytes, 0, true)?;
        let producer = Mapping::new(fd.as_fd(), page_bytes + 2 * size_bytes as usize, page_bytes, false)?;
        let mut ring = Self { fd, consumer, producer, page_bytes, size_bytes, read: 0, released: 0 };
        ring.read = ring.position(&ring.consumer).unwrap_or(0);
        ring.released = ring.read;
        Ok(ring)
    }

    fn position(&self, of: &Mapping) -> Option<u64> {
        // SAFETY: both mappings begin with a position word, page aligned, which the other side accesses
        // atomically and which lives as long as the mapping. The producer's page is read-only: only loaded.
        Some(unsafe { AtomicU64::from_ptr(of.at(0, 8)?.cast()) }.load(Ordering::Acquire))
    }

    /// Hands the next record to `each`; `None` when there is no committed one.
    pub(super) fn next<R>(&mut self, each: impl FnOnce(&[u8]) -> R) -> Option<R> {
        loop {
            if self.read == self.position(&self.producer)? {
                return None;
            }
            let at = self.page_bytes + (self.read as usize & (self.size_bytes as usize - 1));
            let head = self.producer.at(at, RECORD_HEAD_BYTES)?;
            // SAFETY: a record head lies here, aligned to eight; the kernel stores it atomically.
            let head = unsafe { AtomicU32::from_ptr(head.cast()) }.load(Ordering::Acquire);
            if head & BUSY != 0 {
                return None;
            }
            let len = (head & !DISCARDED) as usize;
            let record = self.producer.at(at + RECORD_HEAD_BYTES, len)?;
            let next = self.read + (RECORD_HEAD_BYTES + len).next_multiple_of(8) as u64;
            if head & DISCARDED != 0 {
                self.read = next;
                continue;
            }
            // SAFETY: inside the mapping as just checked. The record is committed, and the kernel leaves it
            // alone until the consumer position passes it, which happens after `each` has returned.
            let result = each(unsafe { std::slice::from_raw_parts(record, len) });
            self.read = next;
            if self.read - self.released >= RELEASE_BYTES.min(u64::from(self.size_bytes) / 4) {
                self.release();
            }
            return Some(result);
        }
    }

    /// Gives the room of all read records back to the producers.
    pub(super) fn release(&mut self) {
        if self.released != self.read
            && let Some(position) = self.consumer.at(0, 8)
        {
            // SAFETY: as in `position`; this page is writable, and this is its only writer.
            unsafe { AtomicU64::from_ptr(position.cast()) }.store(self.read, Ordering::Release);
            self.released = self.read;
        }
    }

    /// Waits for the bell that the programs ring past the fill mark.
    pub(super) fn wait(&self, timeout: Duration) -> io::Result<()> {
        let mut poll = libc::pollfd { fd: self.fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let timeout_ms = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: one valid pollfd.
        if unsafe { libc::poll(&raw mut poll, 1, timeout_ms) } >= 0 {
            return Ok(());
        }
        match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            error => Err(error),
        }
    }
}
