//! The tables of what threads did: their states, and who held the CPU that they waited for.

use ingero_format::catalog::TaskId;

use super::columns::Columns;
use super::table::Row;
use super::tasks::Common;
use super::words::Word;
use crate::export::names::known_cpu;

/// A stretch of a thread in one state.
#[derive(Debug, Clone, Copy)]
pub(super) struct StateRow {
    pub(super) task: TaskId,
    pub(super) span: (u64, u64),
    pub(super) state: Word,
    pub(super) cpu: Option<u32>,
    /// The stay off the CPU that it is a part of; none while running.
    pub(super) stay: Option<Stay>,
    pub(super) whole: bool,
    pub(super) synthesised: bool,
}

/// A stay off the CPU.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stay {
    pub(super) number: i64,
    pub(super) kind: Word,
    pub(super) woken_by: Option<Word>,
    pub(super) waker: Option<TaskId>,
    pub(super) syscall: Option<u64>,
}

impl Row for StateRow {
    fn key(&self) -> u64 {
        self.span.0
    }
}

pub(super) fn state_columns(rows: &[StateRow], of: &Common, c: &mut Columns) {
    let stay = || rows.iter().map(|r| r.stay.as_ref());
    c.ns("start_ns", rows.iter().map(|r| r.span.0));
    c.ns("end_ns", rows.iter().map(|r| r.span.1));
    c.ns("dur_ns", rows.iter().map(|r| r.span.1 - r.span.0));
    c.text("state", rows.iter().map(|r| r.state));
    c.maybe_id("cpu", rows.iter().map(|r| r.cpu.and_then(known_cpu)));
    c.id("pid", rows.iter().map(|r| of.tasks.get(r.task).pid));
    c.id("tid", rows.iter().map(|r| of.tasks.get(r.task).tid));
    c.maybe_text("process", rows.iter().map(|r| of.tasks.process_name(r.task, r.span.0)));
    c.maybe_text("thread", rows.iter().map(|r| of.tasks.name(r.task, r.span.0)));
    c.id("process_id", rows.iter().map(|r| of.tasks.get(r.task).process.0));
    c.id("task", rows.iter().map(|r| r.task.0));
    c.maybe_signed("stay", stay().map(|s| Some(s?.number)));
    c.maybe_text("kind", stay().map(|s| Some(s?.kind)));
    c.flag("whole", rows.iter().map(|r| r.whole));
    c.flag("synthesised", rows.iter().map(|r| r.synthesised));
    c.maybe_text("woken_by", stay().map(|s| s?.woken_by));
    c.maybe_id("waker", stay().map(|s| Some(s?.waker?.0)));
    c.maybe_unsigned("syscall", stay().map(|s| s?.syscall));
    c.maybe_signed("unix_ns", rows.iter().map(|r| of.clock.at(r.span.0)));
    c.same("run", of.run, rows.len());
}

/// Who held the CPU that a stay waited for, and how long.
#[derive(Debug, Clone, Copy)]
pub(super) struct BehindRow {
    pub(super) start_ns: u64,
    pub(super) ns: u64,
    pub(super) stay: i64,
    pub(super) kind: Word,
    pub(super) whole: bool,
    pub(super) task: TaskId,
    pub(super) holder: TaskId,
}

impl Row for BehindRow {
    fn key(&self) -> u64 {
        self.start_ns
    }
}

pub(super) fn behind_columns(rows: &[BehindRow], of: &Common, c: &mut Columns) {
    c.ns("start_ns", rows.iter().map(|r| r.start_ns));
    c.ns("ns", rows.iter().map(|r| r.ns));
    c.signed("stay", rows.iter().map(|r| r.stay));
    c.text("kind", rows.iter().map(|r| r.kind));
    c.flag("whole", rows.iter().map(|r| r.whole));
    c.id("pid", rows.iter().map(|r| of.tasks.get(r.task).pid));
    c.id("tid", rows.iter().map(|r| of.tasks.get(r.task).tid));
    c.maybe_text("process", rows.iter().map(|r| of.tasks.process_name(r.task, r.start_ns)));
    c.id("process_id", rows.iter().map(|r| of.tasks.get(r.task).process.0));
    c.id("holder_pid", rows.iter().map(|r| of.tasks.get(r.holder).pid));
    c.id("holder_tid", rows.iter().map(|r| of.tasks.get(r.holder).tid));
    c.maybe_text("holder", rows.iter().map(|r| of.tasks.process_name(r.holder, r.start_ns)));
    c.id("holder_process_id", rows.iter().map(|r| of.tasks.get(r.holder).process.0));
    c.maybe_signed("unix_ns", rows.iter().map(|r| of.clock.at(r.start_ns)));
    c.same("run", of.run, rows.len());
}
