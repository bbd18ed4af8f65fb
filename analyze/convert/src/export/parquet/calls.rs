//! The table of calls: where each began, what it was given, where its time went.

use ingero_format::catalog::{CALL_ENDS, COPY_KINDS, Call};
use ingero_replay::Spent;

use super::columns::Columns;
use super::table::Row;
use super::tasks::Common;
use crate::export::names::{known_cpu, name_of};

/// A call.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallRow {
    pub(super) ts_ns: u64,
    pub(super) cpu: u32,
    pub(super) call: Call,
    /// How it divides; none where it did not return.
    pub(super) split: Option<Split>,
}

/// How the time of a call divides.
#[derive(Debug, Clone, Copy)]
pub(super) struct Split {
    /// None where the recording tells no states of threads.
    pub(super) spent: Option<Spent>,
    pub(super) self_ns: u64,
    pub(super) depth: u32,
}

impl Row for CallRow {
    fn key(&self) -> u64 {
        self.ts_ns
    }
}

pub(super) fn columns(rows: &[CallRow], of: &Common, trace: &ingero_format::Trace, c: &mut Columns) {
    let part = |pick: fn(&Split) -> u64| rows.iter().map(move |r| r.split.as_ref().map(pick));
    let state = |pick: fn(&Spent) -> u64| rows.iter().map(move |r| r.split.as_ref()?.spent.as_ref().map(pick));
    let function = |r: &CallRow| trace.function(r.call.func);
    c.ns("ts_ns", rows.iter().map(|r| r.ts_ns));
    c.maybe_ns("dur_ns", rows.iter().map(|r| r.call.dur_ns));
    c.maybe_ns("self_ns", part(|s| s.self_ns));
    c.maybe_ns("running_ns", state(|s| s.running_ns));
    c.maybe_ns("runnable_ns", state(|s| s.runnable_ns));
    c.maybe_ns("throttled_ns", state(|s| s.throttled_ns));
    c.maybe_ns("blocked_ns", state(|s| s.blocked_ns));
    c.maybe_ns("depth", part(|s| s.depth.into()));
    c.maybe_id("cpu", rows.iter().map(|r| known_cpu(r.cpu)));
    c.id("pid", rows.iter().map(|r| of.tasks.get(r.call.task).pid));
    c.id("tid", rows.iter().map(|r| of.tasks.get(r.call.task).tid));
    c.maybe_text("process", rows.iter().map(|r| of.tasks.process_name(r.call.task, r.ts_ns)));
    c.maybe_text("thread", rows.iter().map(|r| of.tasks.name(r.call.task, r.ts_ns)));
    c.id("process_id", rows.iter().map(|r| of.tasks.get(r.call.task).process.0));
    c.id("task", rows.iter().map(|r| r.call.task.0));
    c.maybe_text("layer", rows.iter().map(|r| function(r).map(|f| of.words.own(f.layer.name()))));
    c.maybe_text("class", rows.iter().map(|r| function(r).map(|f| of.words.own(f.class.name()))));
    c.maybe_text("function", rows.iter().map(|r| of.words.function(r.call.func)));
    c.text("ended", rows.iter().map(|r| of.words.own(name_of(CALL_ENDS, r.call.end))));
    c.maybe_signed("result", rows.iter().map(|r| r.call.result));
    c.maybe_unsigned("bytes", rows.iter().map(|r| r.call.bytes));
    c.maybe_text("copy", rows.iter().map(|r| r.call.copy.map(|k| of.words.own(name_of(COPY_KINDS, k)))));
    c.maybe_unsigned("stream", rows.iter().map(|r| r.call.stream));
    c.maybe_unsigned("ptr", rows.iter().map(|r| r.call.ptr));
    c.maybe_unsigned("ptr2", rows.iter().map(|r| r.call.ptr2));
    c.maybe_signed("unix_ns", rows.iter().map(|r| of.clock.at(r.ts_ns)));
    c.same("run", of.run, rows.len());
}
