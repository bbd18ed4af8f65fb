//! The calls that a thread is in.

use ingero_format::catalog::Call;

use super::state::{Spent, TaskState};

/// A call that returned, with where its time went.
#[derive(Debug, Clone, Copy)]
pub struct CallSpan {
    /// Entry.
    pub start_ns: u64,
    /// Return.
    pub end_ns: u64,
    /// The call as it was recorded.
    pub call: Call,
    /// Calls of the same thread around it.
    pub depth: u32,
    /// Time outside of the calls within it.
    pub self_ns: u64,
    /// What its thread did meanwhile. Adds up to the call's duration, unless the trace lost sight
    /// of the thread.
    pub spent: Spent,
}

impl CallSpan {
    /// Time from entry to return.
    #[must_use]
    pub fn dur_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }
}

/// The calls that a thread is in, outermost first.
#[derive(Debug, Default)]
pub(super) struct Stack {
    open: Vec<Open>,
}

#[derive(Debug)]
struct Open {
    start_ns: u64,
    end_ns: u64,
    call: Call,
    inner_ns: u64,
    spent: Spent,
}

impl Stack {
    /// A call begins. Its end is known.
    pub(super) fn push(&mut self, start_ns: u64, end_ns: u64, call: Call, state: &TaskState) {
        self.open.push(Open { start_ns, end_ns, call, inner_ns: 0, spent: state.spent(start_ns) });
    }

    /// Tells every call that returned by `ts`. The thread's state has not changed since then. Returns the last return.
    pub(super) fn pop_until(&mut self, ts: u64, state: &TaskState, mut tell: impl FnMut(&CallSpan)) -> Option<u64> {
        let mut returned_ns = None;
        while let Some(last) = self.open.last()
            && last.end_ns <= ts
            && let Some(o) = self.open.pop()
        {
            returned_ns = returned_ns.max(Some(o.end_ns));
            let dur = o.end_ns - o.start_ns;
            if let Some(outer) = self.open.last_mut() {
                outer.inner_ns = outer.inner_ns.saturating_add(dur);
            }
            tell(&CallSpan {
                start_ns: o.start_ns,
                end_ns: o.end_ns,
                call: o.call,
                depth: u32::try_from(self.open.len()).unwrap_or(u32::MAX),
                self_ns: dur.saturating_sub(o.inner_ns),
                spent: state.spent(o.end_ns) - o.spent,
            });
        }
        returned_ns
    }
}
