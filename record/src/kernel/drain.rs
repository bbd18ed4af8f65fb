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
    held_up: bool,
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
            Next::Record => {
                let stamp = ring.record().and_then(<[u8]>::first_chunk);
                return Head::At(stamp.map_or(0, |stamp| u64::from_ne_bytes(*stamp)));
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
        Ok(Self { rings, bell, heads, held_up: false, watch, targets, own_tgid, all_processes })
    }

    /// Hands at most `limit` records to `each`, in the order of their time stamps, and returns how many. 0:
    /// there was none when it was called, unless it [is held up](Self::is_held_up). It never reads what came after the call, so it ends under any load.
    ///
    /// The order is exact between CPUs. Two records of one CPU can be swapped when an interrupt came between
    /// making room for one and taking its time. [`WireEvent::Mapped`] come from elsewhere, after the others of
    /// the same call.
    pub fn read(&mut self, limit: usize, mut each: impl FnMut(WireEvent<'_>)) -> Result<usize, Error> {
        self.read_bytes(limit, |bytes| WireEvent::decode(bytes).map(&mut each))
    }

    /// Like [`read`](Self::read), without a look at what the records say: their bytes are aligned to eight. An error of
    /// `each` ends it, behind that record.
    pub fn read_bytes(
        &mut self,
        limit: usize,
        mut each: impl FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<usize, Error> {
        let mut count = 0;
        self.held_up = false;
        let merged = self.merge(limit, &mut count, &mut each);
        self.heads.clear();
        for ring in &mut self.rings {
            ring.release();
        }
        merged?;
        self.read_mappings(&mut count, &mut each)?;
        Ok(count)
    }

    /// Whether the last read stopped at a record that its producer, interrupted or preempted, was still writing: there is
    /// more to come of what was there already, from other rings too.
    #[must_use]
    pub fn is_held_up(&self) -> bool {
        self.held_up
    }

    fn merge(
        &mut self,
        limit: usize,
        count: &mut usize,
        each: &mut impl FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        // Programs make room first and take the time then: whatever has a time up to this one is visible in
        // its ring from now on, and nothing can come in before it.
        let horizon_ns = sys::monotonic_ns();
        for (index, ring) in self.rings.iter_mut().enumerate() {
            match head(ring) {
                Head::At(ts_ns) => self.heads.push(Reverse((ts_ns, index))),
                Head::Nothing => {}
                Head::Unknown => {
                    self.held_up = true;
                    return Ok(());
                }
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
                let Some(record) = ring.record() else { return Ok(()) };
                let handed = each(record);
                ring.advance();
                handed?;
                *count += 1;
                match head(ring) {
                    Head::At(ts_ns) => next_ns = ts_ns,
                    Head::Nothing => next_ns = u64::MAX,
                    Head::Unknown => {
                        self.held_up = true;
                        return Ok(());
                    }
                }
            }
            if next_ns != u64::MAX {
                self.heads.push(Reverse((next_ns, index)));
            }
        }
        Ok(())
    }

    fn read_mappings(
        &mut self,
        count: &mut usize,
        each: &mut impl FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
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
                if let Err(error) = each(bytemuck::bytes_of(&mapped)) {
                    result = Err(error);
                }
            }
        });
        result
    }

    /// Waits until some ring is filled by a quarter, or for `timeout`, whichever comes first.
    pub fn wait(&self, timeout: Duration) -> Result<(), Error> {
        self.bell.wait(timeout).map_err(|source| Error::os("waiting for the rings", source))
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::FromRawFd;

    use bytemuck::bytes_of;
    use ingero_ebpf_common::{Header, Kind, Wakeup};

    use super::*;

    const SIZE_BYTES: u32 = 4096;
    const BUSY: u32 = 1 << 31;

    /// Memory with the layout of a ring, into which the test writes what programs would.
    fn fake_ring(records: &[(Wakeup, u32)]) -> Ring {
        use std::io::{Seek, SeekFrom, Write};
        let page = sys::page_bytes();
        // SAFETY: a name that ends with zero, and a new descriptor that nobody owns.
        let fd = unsafe { OwnedFd::from_raw_fd(libc::memfd_create(c"ring".as_ptr(), 0)) };
        let mut file = std::fs::File::from(fd.try_clone().unwrap());
        file.set_len((2 * page + 2 * SIZE_BYTES as usize) as u64).unwrap();
        let mut data = Vec::new();
        for (record, flags) in records {
            data.extend_from_slice(&(size_of::<Wakeup>() as u32 | flags).to_ne_bytes());
            data.extend_from_slice(&[0; 4]);
            data.extend_from_slice(bytes_of(record));
        }
        for (at, bytes) in [(page, &(data.len() as u64).to_ne_bytes()[..]), (2 * page, &data)] {
            file.seek(SeekFrom::Start(at as u64)).unwrap();
            file.write_all(bytes).unwrap();
        }
        Ring::over(fd, SIZE_BYTES).unwrap()
    }

    fn wakeup(ts_ns: u64) -> Wakeup {
        Wakeup { header: Header { ts_ns, tid: 1, cpu: 0, kind: Kind::Wakeup as u8, flags: 0 }, tgid: 1, target_cpu: 0 }
    }

    fn drain(rings: Vec<Ring>) -> Drain {
        let targets = std::fs::File::open("/dev/null").unwrap().into();
        let bell = Bell::new([]).unwrap();
        Drain {
            rings,
            bell,
            heads: BinaryHeap::new(),
            held_up: false,
            watch: None,
            targets,
            own_tgid: 0,
            all_processes: true,
        }
    }

    #[test]
    fn a_record_under_way_is_no_empty_ring() {
        let mut done = drain(vec![fake_ring(&[(wakeup(1), 0)]), fake_ring(&[(wakeup(2), 0)])]);
        assert_eq!((done.read(9, |_| ()).unwrap(), done.is_held_up()), (2, false));
        assert_eq!((done.read(9, |_| ()).unwrap(), done.is_held_up()), (0, false));
        // What is there must wait for it, and whoever stops must wait for both.
        let mut held = drain(vec![fake_ring(&[(wakeup(1), 0)]), fake_ring(&[(wakeup(2), BUSY)])]);
        assert_eq!((held.read(9, |_| ()).unwrap(), held.is_held_up()), (0, true));
        let mut later = drain(vec![fake_ring(&[(wakeup(1), 0), (wakeup(2), BUSY)])]);
        assert_eq!((later.read(9, |_| ()).unwrap(), later.is_held_up()), (1, true));
    }
}
