//! Records of all rings in one order.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    hint,
    os::fd::{AsFd, OwnedFd},
    time::Duration,
};

use super::{
    Error, WireEvent, is_target,
    mappings::MappingWatch,
    ring::{Next, Ring},
    sys::{self, Bell},
};

/// Looks at a record that its producer still writes before leaving it for the next time: some microseconds.
const BUSY_LOOKS: u32 = 2000;

/// Reads the rings, on the thread that calls it.
#[derive(Debug)]
pub struct Drain {
    rings: Vec<Ring>,
    bell: Bell,
    /// Time stamp of the next record of each ring that has one, and the ring's index; empty between reads.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    watch: Option<MappingWatch>,
    targets: OwnedFd,
    own_tgid: u32,
    all_processes: bool,
}

/// First record of a ring, as far as the merge is concerned.
enum Head {
    At(u64),
    Nothing,
    Unknown,
}

fn head(ring: &mut Ring) -> Head {
    for _ in 0..BUSY_LOOKS {
        match ring.peek() {
            // Every record begins with its time stamp.
            Next::Record(bytes) => {
                let stamp = bytes.first_chunk().map_or(0, |stamp| u64::from_ne_bytes(*stamp));
                return Head::At(stamp);
            }
            Next::Nothing => return Head::Nothing,
            Next::Busy => hint::spin_loop(),
        }
    }
    Head::Unknown
}

impl Drain {
    pub(super) fn new(
        rings: Vec<Ring>,
        watch: Option<MappingWatch>,
        targets: OwnedFd,
        own_tgid: u32,
        all_processes: bool,
    ) -> Result<Self, Error> {
        let bell =
            Bell::new(rings.iter().map(AsFd::as_fd)).map_err(|source| Error::os("listening to the rings", source))?;
        let heads = BinaryHeap::with_capacity(rings.len());
        Ok(Self { rings, bell, heads, watch, targets, own_tgid, all_processes })
    }

    /// Hands at most `limit` records to `each`, in the order of their time stamps, and returns how many. 0:
    /// there was none when it was called. It never reads what came after the call, so it ends under any load.
    ///
    /// The order is exact between CPUs. Two records of one CPU can be swapped when an interrupt came between
    /// making room for one and taking its time. [`WireEvent::Mapped`] come from elsewhere, after the others of
    /// the same call.
    pub fn read(&mut self, limit: usize, mut each: impl FnMut(WireEvent<'_>)) -> Result<usize, Error> {
        let mut count = 0;
        let merged = self.merge(limit, &mut count, &mut each);
        self.heads.clear();
        for ring in &mut self.rings {
            ring.release();
        }
        merged?;
        self.read_mappings(&mut count, &mut each)?;
        Ok(count)
    }

    fn merge(&mut self, limit: usize, count: &mut usize, each: &mut impl FnMut(WireEvent<'_>)) -> Result<(), Error> {
        // Programs make room first and take the time then: whatever has a time up to this one is visible in
        // its ring from now on, and nothing can come in before it.
        let horizon_ns = sys::monotonic_ns();
        for (index, ring) in self.rings.iter_mut().enumerate() {
            match head(ring) {
                Head::At(ts_ns) => self.heads.push(Reverse((ts_ns, index))),
                Head::Nothing => {}
                Head::Unknown => return Ok(()),
            }
        }
        while let Some(Reverse((first_ns, index))) = self.heads.pop() {
            let until_ns = self.heads.peek().map_or(horizon_ns, |Reverse((ts_ns, _))| horizon_ns.min(*ts_ns));
            let Some(ring) = self.rings.get_mut(index) else { break };
            if first_ns > horizon_ns {
                break;
            }
            // This ring goes on until another one is due.
            let mut next_ns = first_ns;
            while next_ns <= until_ns {
                if *count >= limit {
                    return Ok(());
                }
                let Next::Record(bytes) = ring.peek() else { return Ok(()) };
                let len = bytes.len();
                let handed = WireEvent::decode(bytes).map(&mut *each);
                ring.advance(len);
                handed?;
                *count += 1;
                match head(ring) {
                    Head::At(ts_ns) => next_ns = ts_ns,
                    Head::Nothing => next_ns = u64::MAX,
                    Head::Unknown => return Ok(()),
                }
            }
            if next_ns != u64::MAX {
                self.heads.push(Reverse((next_ns, index)));
            }
        }
        Ok(())
    }

    fn read_mappings(&mut self, count: &mut usize, each: &mut impl FnMut(WireEvent<'_>)) -> Result<(), Error> {
        let Some(watch) = &mut self.watch else { return Ok(()) };
        let mut result = Ok(());
        watch.read(|mapped| {
            let followed = self.all_processes
                || is_target(&self.targets, mapped.tgid).unwrap_or_else(|error| {
                    result = Err(error);
                    false
                });
            if followed && mapped.tgid != self.own_tgid {
                *count += 1;
                each(WireEvent::Mapped(&mapped));
            }
        });
        result
    }

    /// Waits until some ring is filled by a quarter, or for `timeout`, whichever comes first.
    pub fn wait(&self, timeout: Duration) -> Result<(), Error> {
        self.bell.wait(timeout).map_err(|source| Error::os("waiting for the rings", source))
    }
}
