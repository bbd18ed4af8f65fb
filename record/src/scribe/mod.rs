//! Turns ring records into rows of the file: the one place that knows both.

mod kernel;

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

use ingero_format::catalog::{self, Layer, NO_CPU, StrId, loss_cause_name};
use ingero_format::{Error, Totals, TraceWriter};

use crate::calls::{CallRow, Calls, Entry, Return};
use crate::finding::Finding;
use crate::kernel::{Loss, LossCause, RequestFlags, WireEvent, exit_flag, wire};
use crate::library::discovery::Requests;
use crate::meanings::Meanings;
use crate::proc::clock::read_anchor;
use crate::proc::system::read_system;
use crate::reclaims::Reclaims;
use crate::tasks::{At, Tasks};
use crate::text;

mod parts;

pub use parts::{Slowest, write_clocks};

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
    /// The longest call since somebody asked.
    pub slowest: Slowest,
}

/// What is recorded beside that which the records themselves say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sight {
    /// The ends of processes.
    pub exits: bool,
    /// Samples of the machine.
    pub samples: bool,
    /// What the flags of block requests mean on this kernel.
    pub request_flags: RequestFlags,
}

impl Default for Sight {
    fn default() -> Self {
        Self { exits: true, samples: true, request_flags: RequestFlags::default() }
    }
}

impl Counts {
    fn add(&mut self, row: &CallRow, layer: Option<Layer>) {
        match layer {
            Some(layer) if row.call.end == catalog::END_RETURNED => {
                *self.calls.entry(layer).or_default() += 1;
                if let Some(dur_ns) = row.call.dur_ns.filter(|ns| *ns > self.slowest.dur_ns) {
                    self.slowest = Slowest { dur_ns, function: row.call.func.index() };
                }
            }
            Some(_) => self.halves += 1,
            // It was no call, but a mark or a part of a range.
            None => {}
        }
    }
}

/// Writes records down.
pub struct Scribe<W: Write> {
    out: TraceWriter<W>,
    tasks: Tasks,
    calls: Calls,
    meanings: Meanings,
    reclaims: Reclaims,
    counts: Counts,
    requests: Arc<Requests>,
    sight: Sight,
}

impl<W: Write> Scribe<W> {
    /// Takes over a file that has been begun.
    #[must_use]
    pub fn new(out: TraceWriter<W>, tasks: Tasks, requests: Arc<Requests>) -> Self {
        Self {
            out,
            tasks,
            calls: Calls::new(),
            meanings: Meanings::default(),
            reclaims: Reclaims::default(),
            counts: Counts::default(),
            requests,
            sight: Sight::default(),
        }
    }

    /// Says what is recorded.
    #[must_use]
    pub fn with_sight(self, sight: Sight) -> Self {
        Self { sight, ..self }
    }

    /// What was written so far.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
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
    pub fn write(&mut self, event: &WireEvent<'_>) -> Result<(), Error> {
        let header = event.header();
        let at = At { ts_ns: header.ts_ns, cpu: u32::from(header.cpu) };
        let tid = header.tid;
        match event {
            WireEvent::Switch(r) => self.switch(at, r),
            WireEvent::Waking(r) => self.waking(at, r),
            WireEvent::Wakeup(r) => {
                let wakee = self.tasks.get(&mut self.out, at, tid, r.tgid)?;
                self.push(at, &catalog::Wakeup { wakee, target_cpu: u64::from(r.target_cpu) })
            }
            WireEvent::WakeupNew(r) => {
                let wakee = self.tasks.get(&mut self.out, at, tid, r.tgid)?;
                self.push(at, &catalog::WakeupNew { wakee, target_cpu: u64::from(r.target_cpu) })
            }
            WireEvent::Fork(r) => {
                let parent = self.tasks.get(&mut self.out, at, tid, r.parent_tgid)?;
                let comm = text::from_c_bytes(&r.child_comm);
                let child = (r.child_tid, r.child_tgid);
                let child = self.tasks.fork(&mut self.out, at, r.parent_tgid, child, &comm)?;
                self.push(at, &catalog::Fork { parent, child })
            }
            WireEvent::Exec(r) => {
                let (comm, filename) = (text::from_c_bytes(&r.comm), text::from_c_bytes(&r.filename));
                let (task, caller) = self.tasks.exec(&mut self.out, at, r.tgid, r.old_tid, &comm, &filename)?;
                for gone in [Some(task), caller].into_iter().flatten() {
                    self.with_calls(|calls, done| calls.exec(gone, done))?;
                    self.meanings.thread_exit(&mut self.out, gone)?;
                }
                if self.tasks.is_followed(r.tgid) {
                    self.requests.look_at(r.tgid);
                }
                let file = self.out.string(&filename);
                self.push(at, &catalog::Exec { task, file })
            }
            WireEvent::Exit(r) => {
                let task = self.tasks.get(&mut self.out, at, tid, r.tgid)?;
                self.with_calls(|calls, done| calls.thread_exit(task, done))?;
                self.meanings.thread_exit(&mut self.out, task)?;
                let known = r.header.flags & exit_flag::GROUP_UNKNOWN == 0;
                let dead = r.header.flags & exit_flag::GROUP_DEAD != 0;
                if known && dead {
                    self.tasks.group_exit(r.tgid);
                }
                self.push(at, &catalog::Exit { task, group_dead: known.then_some(u64::from(dead)) })
            }
            WireEvent::Rename(r) => self.tasks.rename(&mut self.out, at, (tid, r.tgid), &text::from_c_bytes(&r.comm)),
            WireEvent::Mapped(r) => {
                self.requests.look_at(r.tgid);
                Ok(())
            }
            WireEvent::CallText(r) => {
                let task = self.tasks.get(&mut self.out, at, tid, r.tgid)?;
                let text = (r.header.flags == 0).then(|| self.out.string(&text::from_c_bytes(&r.text)));
                self.meanings.text(task, text);
                Ok(())
            }
            WireEvent::CallEntry(r, words) => {
                let task = self.tasks.get(&mut self.out, at, tid, r.tgid)?;
                let mut all = [0; wire::SLOTS];
                for (to, from) in all.iter_mut().zip(*words) {
                    *to = *from;
                }
                let entry = Entry {
                    ts_ns: at.ts_ns,
                    cpu: at.cpu,
                    function: r.function,
                    sp: r.sp,
                    words: all,
                    unread: r.header.flags,
                };
                self.with_calls(|calls, done| calls.enter(task, entry, done))
            }
            WireEvent::CallReturn(r, value) => {
                let task = self.tasks.get(&mut self.out, at, tid, r.tgid)?;
                let ret = Return {
                    ts_ns: at.ts_ns,
                    cpu: at.cpu,
                    function: r.function,
                    sp: r.sp,
                    result: r.result,
                    out: *value,
                };
                self.with_calls(|calls, done| calls.leave(task, &ret, done))
            }
            WireEvent::PageAlloc(r) => self.page_alloc(at, r),
            WireEvent::Irq(r) => self.irq(at, r),
            WireEvent::Softirq(r) => self.softirq(at, r),
            WireEvent::BlockIssue(r) => self.block_issue(at, r),
            WireEvent::BlockComplete(r) => self.block_complete(at, r),
            WireEvent::PageFault(r) => self.page_fault(at, r),
            WireEvent::Reclaim(r) => self.reclaim(at, r),
            WireEvent::OomKill(r) => self.oom_kill(at, r),
            WireEvent::Affinity(r) => self.affinity(at, r),
            WireEvent::CpuFrequency(r) => self.cpu_frequency(at, r),
            WireEvent::Retransmit(r) => self.retransmit(at, r),
            WireEvent::SocketIo(r) => self.socket(at, r),
        }
    }

    /// Lets the open calls change, and writes down those that end by it.
    fn with_calls(&mut self, change: impl FnOnce(&mut Calls, &mut dyn FnMut(CallRow))) -> Result<(), Error> {
        let Self { calls, out, tasks, meanings, counts, .. } = self;
        let mut result = Ok(());
        change(calls, &mut |row| {
            if result.is_ok() {
                result = meanings.write(out, tasks, &row).map(|layer| counts.add(&row, layer));
            }
        });
        result
    }

    fn push<E: catalog::Event>(&mut self, at: At, event: &E) -> Result<(), Error> {
        self.out.push(at.ts_ns, at.cpu, event)
    }

    /// Writes losses down.
    ///
    /// # Errors
    /// When the file does not take them.
    pub fn losses(&mut self, losses: &[Loss]) -> Result<(), Error> {
        for loss in losses {
            let probe_name = loss.kind.event();
            let cause = match loss.cause {
                LossCause::RingFull => catalog::LOST_RING_FULL,
                LossCause::MapFull => catalog::LOST_MAP_FULL,
                LossCause::Recursion => catalog::LOST_RECURSION,
            };
            *self.counts.losses.entry((probe_name, loss_cause_name(cause))).or_default() += loss.count;
            let probe = self.out.string(probe_name);
            let row = catalog::Loss { to_ns: loss.last_ns, probe, cause, count: Some(loss.count), of_host: None };
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
        let cause = if full { catalog::LOST_DISK_FULL } else { catalog::LOST_SOURCE };
        self.counts.losses.insert((RECORDER, loss_cause_name(cause)), 1);
        self.out.push(from_ns, NO_CPU, &catalog::Loss { to_ns, probe, cause, count: None, of_host: None })
    }

    /// Writes down what was found by looking.
    ///
    /// # Errors
    /// When the file does not take it.
    pub fn findings(&mut self, findings: Vec<Finding>) -> Result<(), Error> {
        let Self { out, tasks, .. } = self;
        findings.into_iter().try_for_each(|finding| finding.write(out, tasks))
    }

    /// Samples the machine and its clocks.
    ///
    /// # Errors
    /// When the file does not take the rows.
    pub fn sample(&mut self) -> Result<(), Error> {
        let (ts_ns, clock) = read_anchor();
        self.out.push(ts_ns, NO_CPU, &clock)?;
        self.sample_machine(ts_ns)
    }

    fn sample_machine(&mut self, ts_ns: u64) -> Result<(), Error> {
        if self.sight.samples { self.out.push(ts_ns, NO_CPU, &read_system()) } else { Ok(()) }
    }

    /// Writes into the file, at once, which calls have been open since `until_ns` or before and were not written down yet.
    ///
    /// # Errors
    /// When the file does not take them.
    pub fn open_calls(&mut self, until_ns: u64) -> Result<(), Error> {
        let Self { calls, out, tasks, meanings, .. } = self;
        let (mut result, mut told) = (Ok(()), false);
        calls.tell_open(until_ns, |row| {
            told = true;
            // Counted when it ends, or at the end of the recording.
            if result.is_ok() {
                result = meanings.write_alone(out, tasks, &row);
            }
        });
        result?;
        if told { out.seal_kind(catalog::Kind::Call) } else { Ok(()) }
    }

    /// Closes what is open: the recording ends.
    ///
    /// # Errors
    /// When the file does not take the rows.
    pub fn close(&mut self) -> Result<(), Error> {
        let mut told = 0;
        self.with_calls(|calls, done| told = calls.finish(done))?;
        self.counts.halves += told;
        self.meanings.finish(&mut self.out)?;
        for (at, row) in self.reclaims.finish() {
            self.push(at, &row)?;
        }
        self.counts.processes = self.tasks.born_processes();
        Ok(())
    }

    /// Closes what is open and finishes the file.
    ///
    /// # Errors
    /// When the file does not take the rest.
    pub fn finish(mut self) -> Result<(W, Totals, Counts), Error> {
        self.close()?;
        let (out, totals) = self.out.finish()?;
        Ok((out, totals, self.counts))
    }
}
