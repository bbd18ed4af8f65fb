//! Switches and wakes on their way into compact bundles.
//!
//! A bundle holds columns of one CPU. The reader takes the task that leaves to be the one that came last, so what the
//! kernel left unreported must be written as well, and it drops the first switch of each CPU, so each begins with one
//! that tells nothing.

use std::collections::{BTreeMap, HashMap};

use ingero_format::catalog::StrId;

use super::proto::{CompactSched, Data, FtraceEventBundle, TracePacket};

/// What a thread is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Name {
    Idle,
    /// Who is not selected.
    Others,
    Of(Option<StrId>),
}

/// A switch: `prev` is who left, in this state.
#[derive(Debug, Clone, Copy)]
pub(super) struct SwitchRow {
    pub(super) ts_ns: u64,
    pub(super) prev_state: u64,
    pub(super) next_tid: i32,
    pub(super) next_prio: i32,
    pub(super) next_name: Name,
}

/// A wake, recorded on the waker's CPU.
#[derive(Debug, Clone, Copy)]
pub(super) struct WakeRow {
    pub(super) ts_ns: u64,
    pub(super) wakee_tid: i32,
    pub(super) target_cpu: i32,
    pub(super) flags: u32,
    pub(super) wakee_name: Name,
}

/// Rows of all CPUs that have not been written yet.
#[derive(Debug, Default)]
pub(super) struct Bundles {
    switches: BTreeMap<u32, Vec<SwitchRow>>,
    wakes: BTreeMap<u32, Vec<WakeRow>>,
    rows: usize,
    /// How often rows were written.
    written: u64,
}

/// Which switch it was, as long as it has not been written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    cpu: u32,
    place: usize,
    written: u64,
}

/// Rows that are held back at most: what is written together is sorted, and its names stand once.
const HELD: usize = 1 << 15;

impl Bundles {
    pub(super) fn switch(&mut self, cpu: u32, row: SwitchRow) -> Held {
        let rows = self.switches.entry(cpu).or_default();
        rows.push(row);
        self.rows += 1;
        Held { cpu, place: rows.len() - 1, written: self.written }
    }

    /// Says in which state it was that somebody left, where that is not written yet.
    pub(super) fn amend(&mut self, switch: Held, prev_state: u64) {
        let rows = self.switches.get_mut(&switch.cpu).filter(|_| switch.written == self.written);
        if let Some(row) = rows.and_then(|rows| rows.get_mut(switch.place)) {
            row.prev_state = prev_state;
        }
    }

    pub(super) fn wake(&mut self, cpu: u32, row: WakeRow) {
        self.wakes.entry(cpu).or_default().push(row);
        self.rows += 1;
    }

    /// Something was written past them: they stay no further behind than if it were rows.
    pub(super) fn overtaken(&mut self) {
        self.rows += 1;
    }

    pub(super) fn is_full(&self) -> bool {
        self.rows >= HELD
    }

    /// Writes all of them: switches first, since a wake that was moved to its switch-out comes after it.
    pub(super) fn flush<'t>(&mut self, text: impl Fn(StrId) -> &'t str + Copy, mut write: impl FnMut(&TracePacket)) {
        self.rows = 0;
        self.written += 1;
        for (cpu, rows) in self.switches.iter_mut().filter(|(_, rows)| !rows.is_empty()) {
            rows.sort_by_key(|r| r.ts_ns);
            let mut names = Names::new(text);
            let mut sched = CompactSched::default();
            let mut last = 0;
            for r in rows.drain(..) {
                sched.switch_timestamp.push(r.ts_ns - last);
                last = r.ts_ns;
                sched.switch_prev_state.push(r.prev_state.cast_signed());
                sched.switch_next_pid.push(r.next_tid);
                sched.switch_next_prio.push(r.next_prio);
                sched.switch_next_comm_index.push(names.index(r.next_name));
            }
            sched.intern_table = names.table;
            write(&bundle(*cpu, sched));
        }
        for (cpu, rows) in self.wakes.iter_mut().filter(|(_, rows)| !rows.is_empty()) {
            rows.sort_by_key(|r| r.ts_ns);
            let mut names = Names::new(text);
            let mut sched = CompactSched::default();
            let mut last = 0;
            for r in rows.drain(..) {
                sched.waking_timestamp.push(r.ts_ns - last);
                last = r.ts_ns;
                sched.waking_pid.push(r.wakee_tid);
                sched.waking_target_cpu.push(r.target_cpu);
                sched.waking_prio.push(DEFAULT_PRIO);
                sched.waking_comm_index.push(names.index(r.wakee_name));
                sched.waking_common_flags.push(r.flags);
            }
            sched.intern_table = names.table;
            write(&bundle(*cpu, sched));
        }
    }
}

/// The kernel's priority of a task that nothing was done to.
pub(super) const DEFAULT_PRIO: i32 = 120;

fn bundle(cpu: u32, sched: CompactSched) -> TracePacket {
    let events = FtraceEventBundle { cpu: Some(cpu), compact_sched: Some(sched) };
    TracePacket { data: Some(Data::FtraceEvents(events)), ..TracePacket::default() }
}

/// The names of a bundle.
struct Names<F> {
    text: F,
    table: Vec<String>,
    places: HashMap<Name, u32>,
    last: (Name, u32),
}

impl<'t, F: Fn(StrId) -> &'t str> Names<F> {
    fn new(text: F) -> Self {
        let table = vec!["swapper".to_owned()];
        Self { text, table, places: HashMap::from([(Name::Idle, 0)]), last: (Name::Idle, 0) }
    }

    fn index(&mut self, name: Name) -> u32 {
        if self.last.0 == name {
            return self.last.1;
        }
        let (table, text) = (&mut self.table, &self.text);
        let place = *self.places.entry(name).or_insert_with(|| {
            let text = match name {
                Name::Idle => "swapper",
                Name::Others => "not selected",
                // Who has no name stays without: to say nothing changes no name.
                Name::Of(name) => name.map(text).unwrap_or_default(),
            };
            table.push(text.to_owned());
            u32::try_from(table.len() - 1).unwrap_or(0)
        });
        self.last = (name, place);
        place
    }
}
