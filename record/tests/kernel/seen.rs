//! One recording, and what came of it.

use ingero_record::kernel::{
    CallEntry, CallReturn, Drain, Exec, Exit, Fork, Kernel, Options, PageAlloc, Rename, Switch, UprobeLinks, Waking,
    WireEvent,
};

/// An entry with its argument words.
pub(crate) type Entry = (CallEntry, Vec<u64>);
/// A return with its out value.
pub(crate) type Return = (CallReturn, Option<u64>);

/// Records of one recording, sorted by what they are.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) switches: Vec<Switch>,
    pub(crate) wakings: Vec<Waking>,
    pub(crate) wakeups: usize,
    pub(crate) forks: Vec<Fork>,
    pub(crate) execs: Vec<Exec>,
    pub(crate) exits: Vec<Exit>,
    pub(crate) renames: Vec<Rename>,
    pub(crate) page_allocs: Vec<PageAlloc>,
    pub(crate) mapped: Vec<u32>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) returns: Vec<Return>,
}

impl Seen {
    pub(crate) fn drain(&mut self, drain: &mut Drain) {
        let mut last_ns = 0;
        let keep = |event: WireEvent<'_>| {
            if !matches!(event, WireEvent::Mapped(_)) {
                // Interrupts may swap neighbours of one CPU.
                assert!(event.header().ts_ns + 50_000 > last_ns, "{event:?} after {last_ns} ns");
                last_ns = last_ns.max(event.header().ts_ns);
            }
            self.keep(event);
        };
        drain.read(usize::MAX, keep).unwrap();
    }

    fn keep(&mut self, event: WireEvent<'_>) {
        match event {
            WireEvent::Switch(record) => self.switches.push(*record),
            WireEvent::Waking(record) => self.wakings.push(*record),
            WireEvent::Wakeup(_) | WireEvent::WakeupNew(_) => self.wakeups += 1,
            WireEvent::Fork(record) => self.forks.push(*record),
            WireEvent::Exec(record) => self.execs.push(*record),
            WireEvent::Exit(record) => self.exits.push(*record),
            WireEvent::Rename(record) => self.renames.push(*record),
            WireEvent::PageAlloc(record) => self.page_allocs.push(*record),
            WireEvent::Mapped(record) => self.mapped.push(record.tgid),
            WireEvent::CallEntry(record, args) => self.entries.push((*record, args.to_vec())),
            WireEvent::CallReturn(record, out) => self.returns.push((*record, out)),
            // Of other tests.
            _ => {}
        }
    }

    pub(crate) fn entries_of(&self, function: u32) -> Vec<&Entry> {
        self.entries.iter().filter(|(entry, _)| entry.function == function).collect()
    }
}

pub(crate) fn only_calls(uprobes: UprobeLinks) -> Options {
    Options { uprobes, ..Options::calls_alone() }
}

pub(crate) fn only_switches() -> Options {
    Options { switches: true, wakeups: true, interrupts: true, ..Options::calls_alone() }
}

pub(crate) fn record(options: &Options, work: impl FnOnce(&Kernel)) -> Seen {
    let mut kernel = Kernel::load(options).unwrap();
    let mut drain = kernel.take_drain().unwrap();
    kernel.start().unwrap();
    work(&kernel);
    kernel.stop();
    let mut seen = Seen::default();
    seen.drain(&mut drain);
    assert_eq!(kernel.take_losses().unwrap(), [], "nothing may be lost");
    seen
}

pub(crate) fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is writable.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

pub(crate) fn gettid() -> u32 {
    // SAFETY: no preconditions.
    unsafe { libc::gettid() as u32 }
}
