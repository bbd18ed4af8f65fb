//! What calls mean beyond their own rows: which device is current, who is in a communicator, which range is open.

use std::collections::HashMap;
use std::io::Write;

use ingero_format::catalog::{
    Call, Collective, Detail, END_RETURNED, FUNCTIONS, FuncId, Function, Layer, MARKED_BY_NVTX, Mark, StrId, TaskId,
};
use ingero_format::{Error, FunctionInfo, TraceWriter};

use crate::calls::CallRow;
use crate::devices::Devices;
use crate::ranges::{RangeRow, Ranges};
use crate::tasks::{At, Tasks};

/// Rank and number of ranks.
type Place = (Option<u64>, Option<u64>);

/// Knows what was called before.
#[derive(Debug)]
pub struct Meanings {
    functions: Vec<Option<FuncId>>,
    devices: Devices,
    /// By process and communicator.
    comms: HashMap<(u32, u64), Place>,
    ranges: Ranges,
    /// Text of a call that has begun and is not written down yet.
    texts: HashMap<TaskId, Option<StrId>>,
}

impl Default for Meanings {
    fn default() -> Self {
        Self {
            functions: vec![None; FUNCTIONS.len()],
            devices: Devices::default(),
            comms: HashMap::new(),
            ranges: Ranges::default(),
            texts: HashMap::new(),
        }
    }
}

impl Meanings {
    /// The call that this thread begins now was given a text; `None`: it could not be read.
    pub fn text(&mut self, task: TaskId, text: Option<StrId>) {
        self.texts.insert(task, text);
    }

    /// Writes a call down, and what follows from it. Returns the layer of a call that has a row of its own.
    ///
    /// # Errors
    /// When the file does not take it.
    pub fn write<W: Write>(
        &mut self,
        out: &mut TraceWriter<W>,
        tasks: &Tasks,
        row: &CallRow,
    ) -> Result<Option<Layer>, Error> {
        let Some(function) = FUNCTIONS.get(row.call.func.index()) else { return Ok(None) };
        if function.layer == Layer::Nvtx {
            self.nvtx(out, tasks, row, function)?;
            return Ok(None);
        }
        self.write_alone(out, tasks, row)?;
        if row.call.end == END_RETURNED {
            self.follow(tasks.pid_of(row.call.task), row, function);
        }
        if let Some(collective) = self.collective(tasks.pid_of(row.call.task), row, function) {
            out.push(row.ts_ns, row.cpu, &collective)?;
        }
        Ok(Some(function.layer))
    }

    /// Writes a call's own row down, and changes nothing.
    ///
    /// # Errors
    /// When the file does not take it.
    pub fn write_alone<W: Write>(
        &mut self,
        out: &mut TraceWriter<W>,
        tasks: &Tasks,
        row: &CallRow,
    ) -> Result<(), Error> {
        match self.named(out, tasks, &row.call) {
            Some(call) => out.push(row.ts_ns, row.cpu, &call),
            None => Ok(()),
        }
    }

    /// A call's own row: with the file's number of its function, and the device. `None`: it has none.
    pub fn named<W: Write>(&mut self, out: &mut TraceWriter<W>, tasks: &Tasks, call: &Call) -> Option<Call> {
        let number = call.func.index();
        let function = FUNCTIONS.get(number).filter(|function| function.layer != Layer::Nvtx)?;
        let func = *self.functions.get_mut(number)?.get_or_insert_with(|| {
            out.function(FunctionInfo {
                symbol: function.symbol.to_owned(),
                layer: function.layer,
                class: function.class,
            })
        });
        let device = self.devices.current(call.task, tasks.seen_from_birth(call.task));
        Some(Call { func, device, ..*call })
    }

    /// What a call that succeeded changes.
    fn follow(&mut self, pid: u32, row: &CallRow, function: &Function) {
        if row.call.result != Some(0) {
            return;
        }
        let (task, [first, second, ..], made) = (row.call.task, row.extra, row.call.ptr);
        match function.detail {
            Detail::Device(_) => self.devices.set(task, first),
            Detail::Context(_) => self.devices.set(task, first.and_then(|c| self.devices.of_context(pid, c))),
            Detail::PushContext(_) => self.devices.push(task, first.and_then(|c| self.devices.of_context(pid, c))),
            Detail::PopContext => self.devices.pop(task),
            Detail::NewContext(_, current) => {
                if let (Some(context), Some(device)) = (made, first) {
                    self.devices.learn(pid, context, device);
                }
                if current {
                    self.devices.push(task, first);
                }
            }
            Detail::NewComm { .. } => {
                if let Some(comm) = made {
                    self.comms.insert((pid, comm), (second, first));
                }
            }
            Detail::RankOf(_) => {
                if let Some(comm) = first {
                    self.comms.entry((pid, comm)).or_default().0 = made.map(|word| word & 0xffff_ffff);
                }
            }
            Detail::RanksOf(_) => {
                if let Some(comm) = first {
                    self.comms.entry((pid, comm)).or_default().1 = made.map(|word| word & 0xffff_ffff);
                }
            }
            _ => {}
        }
    }

    /// The row beside a call of NCCL that names a communicator.
    fn collective(&self, pid: u32, row: &CallRow, function: &Function) -> Option<Collective> {
        let [a, b, c, d, e] = row.extra;
        let place = |comm: Option<u64>| comm.and_then(|comm| self.comms.get(&(pid, comm)).copied()).unwrap_or_default();
        let task = row.call.task;
        match function.detail {
            Detail::Collective { .. } => {
                let (rank, ranks) = place(d);
                Some(Collective { task, comm: d, rank, ranks, count: a, datatype: b, op: c, peer: e })
            }
            Detail::NewComm { .. } => {
                let comm = row.call.ptr.filter(|_| row.call.result == Some(0));
                Some(Collective { task, comm, rank: b, ranks: a, ..Collective::default() })
            }
            _ => None,
        }
    }

    fn nvtx<W: Write>(
        &mut self,
        out: &mut TraceWriter<W>,
        tasks: &Tasks,
        row: &CallRow,
        function: &Function,
    ) -> Result<(), Error> {
        let task = row.call.task;
        let (at, pid) = (At { ts_ns: row.ts_ns, cpu: row.cpu }, tasks.pid_of(task));
        let [word, ..] = row.extra;
        let mut text = || self.texts.remove(&task).flatten();
        match function.detail {
            Detail::RangePush(..) => {
                let name = text();
                self.ranges.push(task, word.unwrap_or(0), at, name);
            }
            Detail::RangePop(_) => {
                let row = self.ranges.pop(task, word.unwrap_or(0), at);
                push(out, row)?;
            }
            Detail::RangeStart(_) => {
                let name = text();
                if let Some(id) = row.register {
                    self.ranges.start(task, (pid, id), at, name);
                }
            }
            Detail::RangeEnd(_) => {
                if let Some(id) = word {
                    let row = self.ranges.end(task, (pid, id), at);
                    push(out, row)?;
                }
            }
            Detail::Mark(_) => {
                let text = text();
                out.push(at.ts_ns, at.cpu, &Mark { task: Some(task), text, source: MARKED_BY_NVTX })?;
            }
            _ => {}
        }
        Ok(())
    }

    /// A thread ended.
    ///
    /// # Errors
    /// When the file does not take the ranges that end with it.
    pub fn thread_exit<W: Write>(&mut self, out: &mut TraceWriter<W>, task: TaskId) -> Result<(), Error> {
        self.devices.forget(task);
        if !self.texts.is_empty() {
            self.texts.remove(&task);
        }
        self.ranges.thread_exit(task).into_iter().try_for_each(|row| push(out, row))
    }

    /// The recording ends.
    ///
    /// # Errors
    /// When the file does not take the ranges that are open.
    pub fn finish<W: Write>(&mut self, out: &mut TraceWriter<W>) -> Result<(), Error> {
        self.ranges.finish().into_iter().try_for_each(|row| push(out, row))
    }
}

fn push<W: Write>(out: &mut TraceWriter<W>, (at, range): RangeRow) -> Result<(), Error> {
    out.push(at.ts_ns, at.cpu, &range)
}
