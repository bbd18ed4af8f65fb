//! Turns ring records into rows of the file: the one place that knows both.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

use ingero_format::catalog::{self, FUNCTIONS, FuncId, Layer, NO_CPU, StrId};
use ingero_format::{Error, FunctionInfo, Totals, TraceWriter};

use crate::batch::Record;
use crate::calls::{CallRow, Calls, Entry, Return};
use crate::kernel::{Kind, Loss, LossCause, Mapped, Switch, Waking, context, exit_flag, switch_flag};
use crate::library::discovery::Requests;
use crate::proc::clock::read_anchor;
use crate::proc::system::read_system;
use crate::state::{is_last, traced_state};
use crate::tasks::{At, Tasks};
use crate::text;

const RING_FULL: u64 = 0;
const MAP_FULL: u64 = 1;
const RECURSION: u64 = 2;
const DISK_FULL: u64 = 5;
const SOURCE_LOST: u64 = 7;
/// What lost events when it was no probe.
pub const RECORDER: &str = "recorder";

/// What was written, for the summary.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Calls per layer with both edges.
    pub calls: BTreeMap<Layer, u64>,
    /// Calls with one edge.
    pub halves: u64,
    /// Context switches.
    pub switches: u64,
    /// Processes that were born.
    pub processes: u64,
    /// Losses by probe and cause.
    pub losses: BTreeMap<(&'static str, &'static str), u64>,
}

/// Writes records down.
pub struct Scribe<W: Write> {
    out: TraceWriter<W>,
    tasks: Tasks,
    calls: Calls,
    functions: Vec<Option<FuncId>>,
    counts: Counts,
    requests: Arc<Requests>,
}

impl<W: Write> Scribe<W> {
    /// Takes over a file that has been begun.
    #[must_use]
    pub fn new(out: TraceWriter<W>, tasks: Tasks, requests: Arc<Requests>) -> Self {
        let functions = vec![None; FUNCTIONS.len()];
        Self { out, tasks, calls: Calls::new(), functions, counts: Counts::default(), requests }
    }

    /// The file.
    pub fn out(&mut self) -> &mut TraceWriter<W> {
        &mut self.out
    }

    /// Where it asks for looks at processes.
    #[must_use]
    pub fn requests(&self) -> Arc<Requests> {
        Arc::clone(&self.requests)
    }

    /// Writes one record down.
    ///
    /// # Errors
    /// When the file does not take it.
    pub fn write(&mut self, record: &Record) -> Result<(), Error> {
        let header = record.header();
        let at = At { ts_ns: header.ts_ns, cpu: u32::from(header.cpu) };
        let tid = header.tid;
        match record {
            Record::Switch(r) => self.switch(at, r),
            Record::Waking(r) => self.waking(at, r),
            Record::Wakeup(r) => {
                let wakee = self.tasks.get(&mut self.out, at, tid, r.tgid)?;
                self.push(at, &catalog::Wakeup { wakee, target_cpu: u64::from(r.target_cpu) })
            }
            Record::WakeupNew(r) => {
                let wakee = self.tasks.get(&mut self.out, at, tid, r.tgid)?;
                self.push(at, &catalog::WakeupNew { wakee, target_cpu: u64::from(r.target_cpu) })
            }
            Record::Fork(r) => {
                let parent = self.tasks.get(&mut self.out, at, tid, r.parent_tgid)?;
                let comm = text::from_c_bytes(&r.child_comm);
                let child = (r.child_tid, r.child_tgid);
                let child = self.tasks.fork(&mut self.out, at, r.parent_tgid, child, &comm)?;
                self.push(at, &catalog::Fork { parent, child })
            }
            Record::Exec(r) => {
                let (comm, filename) = (text::from_c_bytes(&r.comm), text::from_c_bytes(&r.filename));
                let (task, caller) = self.tasks.exec(&mut self.out, at, r.tgid, r.old_tid, &comm, &filename)?;
                let Self { calls, out, functions, counts, .. } = self;
                let mut result = Ok(());
                for gone in [Some(task), caller].into_iter().flatten() {
                    calls.exec(gone, |row| write_call(out, functions, counts, row, &mut result));
                }
                result?;
                if self.tasks.is_followed(r.tgid) {
                    self.requests.look_at(r.tgid);
                }
                let file = self.out.string(&filename);
                self.push(at, &catalog::Exec { task, file })
            }
            Record::Exit(r) => {
                let task = self.tasks.get(&mut self.out, at, tid, r.tgid)?;
                let Self { calls, out, functions, counts, .. } = self;
                let mut result = Ok(());
                calls.thread_exit(task, |row| write_call(out, functions, counts, row, &mut result));
                result?;
                let known = r.header.flags & exit_flag::GROUP_UNKNOWN == 0;
                let dead = r.header.flags & exit_flag::GROUP_DEAD != 0;
                if known && dead {
                    self.tasks.group_exit(r.tgid);
                }
                self.push(at, &catalog::Exit { task, group_dead: known.then_some(u64::from(dead)) })
            }
            Record::Rename(r) => self.tasks.rename(&mut self.out, at, (tid, r.tgid), &text::from_c_bytes(&r.comm)),
            Record::PageAlloc(r) => {
                let task = self.tasks.get(&mut self.out, at, tid, r.tgid)?;
                let row = catalog::PageAlloc {
                    task,
                    pfn: Some(r.pfn).filter(|&pfn| pfn != u64::MAX),
                    order: u64::from(r.order()),
                    gfp_flags: u64::from(r.gfp_flags),
                    migratetype: Some(u64::from(r.migratetype())),
                };
                self.push(at, &row)
            }
            Record::Mapped(Mapped { tgid, .. }) => {
                self.requests.look_at(*tgid);
                Ok(())
            }
            Record::CallEntry(r, words) => {
                let task = self.tasks.get(&mut self.out, at, tid, r.tgid)?;
                let entry = Entry {
                    ts_ns: at.ts_ns,
                    cpu: at.cpu,
                    function: r.function,
                    sp: r.sp,
                    words: *words,
                    unread: r.header.flags,
                };
                let Self { calls, out, functions, counts, .. } = self;
                let mut result = Ok(());
                calls.enter(task, entry, |row| write_call(out, functions, counts, row, &mut result));
                result
            }
            Record::CallReturn(r, value) => {
                let task = self.tasks.get(&mut self.out, at, tid, r.tgid)?;
                let ret = Return {
                    ts_ns: at.ts_ns,
                    cpu: at.cpu,
                    function: r.function,
                    sp: r.sp,
                    result: r.result,
                    out: *value,
                };
                let Self { calls, out, functions, counts, .. } = self;
                let mut result = Ok(());
                calls.leave(task, &ret, |row| write_call(out, functions, counts, row, &mut result));
                result
            }
        }
    }

    fn push<E: catalog::Event>(&mut self, at: At, event: &E) -> Result<(), Error> {
        self.out.push(at.ts_ns, at.cpu, event)
    }

    fn switch(&mut self, at: At, r: &Switch) -> Result<(), Error> {
        let (tid, pid) = (r.header.tid, r.prev_tgid);
        let prev = self.tasks.get(&mut self.out, at, tid, pid)?;
        let next = self.tasks.get(&mut self.out, at, r.next_tid, r.next_tgid)?;
        let flag = |bit| r.header.flags & bit != 0;
        let preempted = flag(switch_flag::PREEMPTED);
        let prev_state = traced_state(r.prev_state, preempted, tid == pid);
        let row = catalog::Switch {
            prev,
            prev_state,
            // Deadline tasks have negative ones: no number of the column's scale.
            prev_prio: u64::try_from(r.prev_prio).ok(),
            next,
            next_prio: u64::try_from(r.next_prio).ok(),
            syscall: r.blocking_syscall().filter(|_| !preempted).map(u64::from),
            throttled: (!flag(switch_flag::THROTTLE_UNKNOWN)).then_some(u64::from(flag(switch_flag::THROTTLED))),
        };
        self.counts.switches += 1;
        self.push(at, &row)?;
        if is_last(prev_state) {
            self.tasks.last_switch(tid, pid);
        }
        Ok(())
    }

    fn waking(&mut self, at: At, r: &Waking) -> Result<(), Error> {
        let waker = self.tasks.get(&mut self.out, at, r.header.tid, r.waker_tgid)?;
        let wakee = self.tasks.get(&mut self.out, at, r.wakee_tid, r.wakee_tgid)?;
        let flag = |bit| r.header.flags & bit != 0;
        let context = if flag(context::UNKNOWN) {
            None
        } else if flag(context::NMI) {
            Some(3)
        } else if flag(context::HARDIRQ) {
            Some(2)
        } else if flag(context::SOFTIRQ) {
            Some(1)
        } else {
            Some(0)
        };
        self.push(at, &catalog::Waking { waker, wakee, target_cpu: u64::from(r.target_cpu), context })
    }

    /// Writes losses down.
    ///
    /// # Errors
    /// When the file does not take them.
    pub fn losses(&mut self, losses: &[Loss]) -> Result<(), Error> {
        for loss in losses {
            let probe_name = probe_name(loss.kind);
            let (cause, cause_name) = match loss.cause {
                LossCause::RingFull => (RING_FULL, "ring-full"),
                LossCause::MapFull => (MAP_FULL, "map-full"),
                LossCause::Recursion => (RECURSION, "recursion"),
            };
            *self.counts.losses.entry((probe_name, cause_name)).or_default() += loss.count;
            let probe = self.out.string(probe_name);
            let row = catalog::Loss { to_ns: loss.last_ns, probe, cause, count: Some(loss.count) };
            self.out.push(loss.first_ns, loss.cpu.unwrap_or(NO_CPU), &row)?;
        }
        Ok(())
    }

    /// Writes down that everything from here on is missing: because the disk is full, or because the file took no more
    /// for another reason.
    ///
    /// # Errors
    /// When there is no room even for that.
    pub fn ends_early(&mut self, full: bool, from_ns: u64, to_ns: u64) -> Result<(), Error> {
        let probe: StrId = self.out.string(RECORDER);
        let (cause, name) = if full { (DISK_FULL, "disk-full") } else { (SOURCE_LOST, "source-lost") };
        self.counts.losses.insert((RECORDER, name), 1);
        self.out.push(from_ns, NO_CPU, &catalog::Loss { to_ns, probe, cause, count: None })
    }

    /// Samples the machine and its clocks.
    ///
    /// # Errors
    /// When the file does not take the rows.
    pub fn sample(&mut self) -> Result<(), Error> {
        let (ts_ns, clock) = read_anchor();
        self.out.push(ts_ns, NO_CPU, &clock)?;
        self.out.push(ts_ns, NO_CPU, &read_system())
    }

    /// Closes open calls and finishes the file.
    ///
    /// # Errors
    /// When the file does not take the rest.
    pub fn finish(mut self) -> Result<(W, Totals, Counts), Error> {
        let mut result = Ok(());
        let Self { calls, out, functions, counts, .. } = &mut self;
        calls.finish(|row| write_call(out, functions, counts, row, &mut result));
        result?;
        self.counts.processes = self.tasks.born_processes();
        let (out, totals) = self.out.finish()?;
        Ok((out, totals, self.counts))
    }
}

fn write_call<W: Write>(
    out: &mut TraceWriter<W>,
    functions: &mut [Option<FuncId>],
    counts: &mut Counts,
    mut row: CallRow,
    result: &mut Result<(), Error>,
) {
    let number = row.call.func.index();
    let (Some(function), Some(id)) = (FUNCTIONS.get(number), functions.get_mut(number)) else { return };
    row.call.func = *id.get_or_insert_with(|| {
        out.function(FunctionInfo { symbol: function.symbol.to_owned(), layer: function.layer, class: function.class })
    });
    if row.call.end == catalog::END_RETURNED {
        *counts.calls.entry(function.layer).or_default() += 1;
    } else {
        counts.halves += 1;
    }
    if result.is_ok() {
        *result = out.push(row.ts_ns, row.cpu, &row.call);
    }
}

/// Name of what was lost: the event kind's, as in the file's schema.
fn probe_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Switch => "sched_switch",
        Kind::Waking => "sched_waking",
        Kind::Wakeup => "sched_wakeup",
        Kind::WakeupNew => "sched_wakeup_new",
        Kind::Fork => "sched_process_fork",
        Kind::Exec => "sched_process_exec",
        Kind::Exit => "sched_process_exit",
        Kind::Rename => "task_name",
        Kind::PageAlloc => "mm_page_alloc",
        Kind::Mapped => "mapping",
        Kind::CallEntry | Kind::CallReturn => "call",
    }
}
