//! The rows of the table `events`, each kind of the format in its own order of time.

use std::collections::HashMap;
use std::io::Write;

use ingero_format::TraceWriter;
use ingero_format::catalog::{
    BlockComplete, BlockIssue, Call, Class, END_RETURNED, Exec, Exit, Fork, FuncId, NO_CPU, OffCpu, OtherEvent,
    PageAlloc, Process, StrId, TaskId, Wakeup,
};

use super::database::{Refusal, Values};
use super::people::People;
use super::vocabulary::{Meaning, Vocabulary};

/// Where everything goes.
pub(super) struct Transcript<W: Write> {
    pub(super) writer: TraceWriter<W>,
    pub(super) people: People,
    pub(super) vocabulary: Vocabulary,
    functions: HashMap<(i64, i64), FuncId>,
}

/// Bytes of a sector, whatever the device's are.
const SECTOR_BYTES: u64 = 512;
/// Pages of the machines that the source runs on.
const PAGE_BYTES: u64 = 4096;

/// What every row has.
struct Common {
    end_or_start_ns: u64,
    task: TaskId,
    source: i64,
    op: i64,
}

impl<W: Write> Transcript<W> {
    pub(super) fn new(writer: TraceWriter<W>, people: People, vocabulary: Vocabulary) -> Self {
        Self { writer, people, vocabulary, functions: HashMap::new() }
    }

    /// The function that an operation is a call of.
    pub(super) fn function(&mut self, source: i64, op: i64) -> Option<FuncId> {
        let Meaning::Call(info) = &self.vocabulary.get(source, op).meaning else { return None };
        let (info, writer) = (info.clone(), &mut self.writer);
        Some(*self.functions.entry((source, op)).or_insert_with(|| writer.function(info)))
    }

    fn common(&mut self, row: &Values) -> Result<Common, Refusal> {
        let (ts_ns, pid, tid) = (row.count("timestamp")?, row.id("pid")?, row.id("tid")?);
        let (source, op) = (row.integer("source")?, row.integer("op")?);
        Ok(Common { end_or_start_ns: ts_ns, task: self.people.task(&mut self.writer, pid, tid), source, op })
    }

    /// Whether the time of an operation's rows is that of its end.
    pub(super) fn is_stamped_at_end(&mut self, source: i64, op: i64) -> bool {
        matches!(self.vocabulary.get(source, op).meaning, Meaning::Switch | Meaning::Block(_))
    }

    /// Events by the time of their rows.
    pub(super) fn in_order_of_time(&mut self, row: &Values) -> Result<(), Refusal> {
        let Common { end_or_start_ns: ts_ns, task, source, op } = self.common(row)?;
        let (arg0, arg1, result) = (row.integer("arg0")?, row.integer("arg1")?, row.integer("ret_code")?);
        let dur_ns = row.count("duration")?;
        match self.vocabulary.get(source, op).meaning.clone() {
            // Taken by its begin; what is wrong with it is found here, as with every row.
            Meaning::Switch => {
                begin(ts_ns, dur_ns)?;
            }
            Meaning::Call(info) => {
                let Some(func) = self.function(source, op) else { return Ok(()) };
                let size = u64::try_from(arg0).ok();
                let call = Call {
                    task,
                    func,
                    dur_ns: Some(dur_ns),
                    end: END_RETURNED,
                    result: Some(result),
                    ptr: matches!(info.class, Class::Launch | Class::Free | Class::Other)
                        .then(|| arg0.cast_unsigned())
                        .filter(|&ptr| ptr != 0 && ptr != u64::MAX),
                    ptr2: None,
                    bytes: size.filter(|_| matches!(info.class, Class::Alloc | Class::Copy | Class::Fill)),
                    // Driver copies say no direction; theirs is in their name.
                    copy: u64::try_from(arg1)
                        .ok()
                        .filter(|d| info.class == Class::Copy && info.symbol.starts_with("cuda") && *d <= 4),
                    stream: None,
                    // The source has 0 in all rows, whatever the GPU.
                    device: None,
                };
                self.writer.push(ts_ns, NO_CPU, &call)?;
            }
            Meaning::Wakeup => {
                let wakee = row.id("arg1")?;
                let wakee = self.people.task(&mut self.writer, wakee, wakee);
                self.writer.push(ts_ns, NO_CPU, &Wakeup { wakee, target_cpu: u64::from(NO_CPU) })?;
            }
            Meaning::PageAlloc => match pages_order(arg0) {
                Some(order) => {
                    let event = PageAlloc { task, pfn: None, order, gfp_flags: 0, migratetype: None };
                    self.writer.push(ts_ns, NO_CPU, &event)?;
                }
                None => return Err(Refusal::Value(format!("column arg0: {arg0} bytes are no power of two of pages"))),
            },
            Meaning::Exec => {
                // What was executed is not told.
                self.writer.push(ts_ns, NO_CPU, &Exec { task, file: StrId(0) })?;
            }
            Meaning::Exit => self.writer.push(ts_ns, NO_CPU, &Exit { task, group_dead: None })?,
            Meaning::Fork => {
                let (parent_pid, child) = (row.id("pid")?, row.id("arg1")?);
                let child_task = self.people.task(&mut self.writer, child, child);
                self.writer.push(ts_ns, NO_CPU, &Fork { parent: task, child: child_task })?;
                if self.people.leads(child) {
                    let parent_pid = Some(u64::from(parent_pid));
                    let process = Process { task: child_task, parent_pid, exe: None, args: None, followed: 0 };
                    self.writer.push(ts_ns, NO_CPU, &process)?;
                }
            }
            Meaning::Block(rwbs) => {
                begin(ts_ns, dur_ns)?;
                let (bytes, sector) = block_request(row)?;
                let rwbs = self.writer.string(rwbs);
                self.writer.push(ts_ns, NO_CPU, &BlockComplete { dev: 0, sector, bytes, rwbs, error: result })?;
            }
            Meaning::Other => {
                let operation = self.vocabulary.get(source, op);
                let (source, op) = (self.writer.string(&operation.source), self.writer.string(&operation.name));
                let dur_ns = Some(dur_ns).filter(|&d| d > 0);
                let event = OtherEvent { task, source, op, dur_ns, arg0, arg1, result };
                self.writer.push(ts_ns, NO_CPU, &event)?;
            }
        }
        Ok(())
    }

    /// Events that are stamped at their end, by the time at which they began.
    pub(super) fn in_order_of_begin(&mut self, row: &Values) -> Result<(), Refusal> {
        let Common { end_or_start_ns: end_ns, task, source, op } = self.common(row)?;
        if !self.is_stamped_at_end(source, op) {
            return Ok(());
        }
        let dur_ns = row.count("duration")?;
        let ts_ns = begin(end_ns, dur_ns)?;
        match self.vocabulary.get(source, op).meaning {
            Meaning::Switch => self.writer.push(ts_ns, NO_CPU, &OffCpu { task, dur_ns })?,
            Meaning::Block(rwbs) => {
                let (bytes, sector) = block_request(row)?;
                let rwbs = self.writer.string(rwbs);
                self.writer.push(ts_ns, NO_CPU, &BlockIssue { task, dev: 0, sector, bytes, rwbs })?;
            }
            _ => {}
        }
        Ok(())
    }
}

/// When something began that ended at `end_ns`.
fn begin(end_ns: u64, dur_ns: u64) -> Result<u64, Refusal> {
    let begin = end_ns.checked_sub(dur_ns);
    begin.ok_or_else(|| Refusal::Value(format!("column duration: {dur_ns} ns before {end_ns} is before 1970")))
}

fn block_request(row: &Values) -> Result<(u64, u64), Refusal> {
    Ok((row.count("arg0")?.saturating_mul(SECTOR_BYTES), row.count("arg1")?))
}

/// Pages as a power of two.
fn pages_order(bytes: i64) -> Option<u64> {
    let pages = u64::try_from(bytes).ok()?.checked_div(PAGE_BYTES)?;
    (pages.is_power_of_two() && pages * PAGE_BYTES == bytes.cast_unsigned()).then(|| u64::from(pages.trailing_zeros()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_come_in_powers_of_two() {
        let orders = [4096, 8192, 12288, 0, -4096, 4097, 2 << 20].map(pages_order);
        assert_eq!(orders, [Some(0), Some(1), None, None, None, None, Some(9)]);
    }
}
