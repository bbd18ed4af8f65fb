//! Searching by the names of threads, processes and calls.

use ingero_format::Trace;
use ingero_format::catalog::{Body, FuncId, Kind, TaskId};
use ingero_replay::Merge;

use crate::rows::Rows;

/// Calls that are looked through for one step.
const CALLS: usize = 2_000_000;
/// Looking back, the range to look through grows from this on.
const FIRST_BACK_NS: u64 = 1_000_000;

/// What is searched for.
#[derive(Debug)]
pub(crate) struct Search {
    text: String,
    /// Threads that match, in the order of their rows.
    threads: Vec<TaskId>,
    /// Functions that match, looked for where no thread does.
    functions: Vec<FuncId>,
}

/// What was found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Hit {
    /// A thread, and which of those that match it is, from 1.
    Thread(TaskId, usize),
    /// A call of a thread, at its entry.
    Call(TaskId, u64),
    /// Nothing.
    None,
    /// Nothing among as many calls as are worth waiting for.
    TooFar,
}

impl Search {
    /// None where nothing has such a name.
    pub(crate) fn new(trace: &Trace, rows: &Rows, text: &str) -> Option<Self> {
        let threads = rows.find(text);
        let wanted = text.to_lowercase();
        let functions = (0..).map(FuncId).zip(trace.functions());
        let functions: Vec<FuncId> =
            functions.filter(|(_, f)| f.symbol.to_lowercase().contains(&wanted)).map(|(id, _)| id).collect();
        (!threads.is_empty() || !functions.is_empty()).then(|| Self { text: text.to_owned(), threads, functions })
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn threads(&self) -> &[TaskId] {
        &self.threads
    }

    /// The next hit after a thread and an instant, or the one before.
    pub(crate) fn next(
        &self,
        trace: &Trace,
        rows: &Rows,
        task: Option<TaskId>,
        at_ns: u64,
        bounds_ns: (u64, u64),
        forward: bool,
    ) -> Hit {
        let count = self.threads.len();
        if count > 0 {
            // In the order of the rows, round and round.
            let here = task.and_then(|task| self.threads.iter().position(|&t| t == task));
            let at = match (here, forward) {
                (Some(at), true) => (at + 1) % count,
                (Some(at), false) => (at + count - 1) % count,
                (None, true) => 0,
                (None, false) => count - 1,
            };
            return self.threads.get(at).map_or(Hit::None, |&task| Hit::Thread(task, at + 1));
        }
        let mut shown = vec![false; trace.tasks().len()];
        for &task in rows.groups.iter().flat_map(|group| &group.threads) {
            if let Some(place) = shown.get_mut(task.index()) {
                *place = true;
            }
        }
        let mut left = CALLS;
        if forward {
            return self.first_within(trace, &shown, at_ns.saturating_add(1), bounds_ns.1, &mut left);
        }
        let (mut to_ns, mut length) = (at_ns, FIRST_BACK_NS);
        while to_ns > bounds_ns.0 {
            let from_ns = to_ns.saturating_sub(length).max(bounds_ns.0);
            match self.last_within(trace, &shown, from_ns, to_ns, &mut left) {
                Hit::None => {}
                hit => return hit,
            }
            (to_ns, length) = (from_ns, length.saturating_mul(4));
        }
        Hit::None
    }

    fn matches(&self, shown: &[bool], body: &Body) -> Option<TaskId> {
        let Body::Call(call) = body else { return None };
        let wanted = shown.get(call.task.index()) == Some(&true) && self.functions.contains(&call.func);
        wanted.then_some(call.task)
    }

    fn first_within(&self, trace: &Trace, shown: &[bool], from_ns: u64, to_ns: u64, left: &mut usize) -> Hit {
        for event in Merge::of(trace, |kind| kind == Kind::Call).within(from_ns, to_ns) {
            if let Some(task) = self.matches(shown, &event.body) {
                return Hit::Call(task, event.ts_ns);
            }
            *left = left.saturating_sub(1);
            if *left == 0 {
                return Hit::TooFar;
            }
        }
        Hit::None
    }

    fn last_within(&self, trace: &Trace, shown: &[bool], from_ns: u64, to_ns: u64, left: &mut usize) -> Hit {
        let mut last = Hit::None;
        for event in Merge::of(trace, |kind| kind == Kind::Call).within(from_ns, to_ns) {
            if let Some(task) = self.matches(shown, &event.body) {
                last = Hit::Call(task, event.ts_ns);
            }
            *left = left.saturating_sub(1);
            if *left == 0 {
                return Hit::TooFar;
            }
        }
        last
    }
}
