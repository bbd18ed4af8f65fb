//! NVTX ranges: begins and ends become rows.

use std::collections::HashMap;

use ingero_format::catalog::{
    END_BEGAN_BEFORE, END_OPEN, END_RETURNED, END_THREAD_EXIT, RANGE_PUSHED, RANGE_STARTED, Range, StrId, TaskId,
};

use crate::tasks::At;

/// Ranges that may be open at a time in one thread and domain, and ids in all: a program that begins and never ends must not
/// fill the memory.
const LIMIT: usize = 1 << 16;

/// A row and its place in time.
pub type RangeRow = (At, Range);

#[derive(Debug, Clone, Copy)]
struct Open {
    at: At,
    task: TaskId,
    name: Option<StrId>,
}

impl Open {
    fn row(self, form: u64, end: u64, dur_ns: Option<u64>) -> RangeRow {
        (self.at, Range { task: self.task, dur_ns, end, name: self.name, form })
    }
}

/// The ranges that are open.
#[derive(Debug, Default)]
pub struct Ranges {
    /// By thread and domain, the innermost last.
    pushed: HashMap<(TaskId, u64), Vec<Open>>,
    /// By process and id.
    started: HashMap<(u32, u64), Open>,
}

impl Ranges {
    /// A range begins in its thread.
    pub fn push(&mut self, task: TaskId, domain: u64, at: At, name: Option<StrId>) {
        let stack = self.pushed.entry((task, domain)).or_default();
        if stack.len() < LIMIT {
            stack.push(Open { at, task, name });
        }
    }

    /// The innermost one ends. One that began before the recording has the time of its end.
    pub fn pop(&mut self, task: TaskId, domain: u64, at: At) -> RangeRow {
        match self.pushed.get_mut(&(task, domain)).and_then(Vec::pop) {
            Some(open) => open.row(RANGE_PUSHED, END_RETURNED, Some(at.ts_ns.saturating_sub(open.at.ts_ns))),
            None => Open { at, task, name: None }.row(RANGE_PUSHED, END_BEGAN_BEFORE, None),
        }
    }

    /// A range begins that any thread of the process may end.
    pub fn start(&mut self, task: TaskId, (pid, id): (u32, u64), at: At, name: Option<StrId>) {
        if self.started.len() < LIMIT {
            self.started.insert((pid, id), Open { at, task, name });
        }
    }

    /// The range of this id ends.
    pub fn end(&mut self, task: TaskId, (pid, id): (u32, u64), at: At) -> RangeRow {
        match self.started.remove(&(pid, id)) {
            Some(open) => open.row(RANGE_STARTED, END_RETURNED, Some(at.ts_ns.saturating_sub(open.at.ts_ns))),
            None => Open { at, task, name: None }.row(RANGE_STARTED, END_BEGAN_BEFORE, None),
        }
    }

    /// A thread ended, and with it the ranges nested in it; the innermost first.
    pub fn thread_exit(&mut self, task: TaskId) -> Vec<RangeRow> {
        if self.pushed.is_empty() {
            return Vec::new();
        }
        self.close(|of| of == task, END_THREAD_EXIT)
    }

    /// The recording ends: whatever is open stays so.
    pub fn finish(&mut self) -> Vec<RangeRow> {
        let mut rows = self.close(|_| true, END_OPEN);
        rows.extend(
            std::mem::take(&mut self.started).into_values().map(|open| open.row(RANGE_STARTED, END_OPEN, None)),
        );
        rows.sort_by_key(|(at, row)| (at.ts_ns, row.task, row.name));
        rows
    }

    fn close(&mut self, which: impl Fn(TaskId) -> bool, end: u64) -> Vec<RangeRow> {
        let mut keys: Vec<_> = self.pushed.keys().copied().filter(|(task, _)| which(*task)).collect();
        keys.sort_unstable();
        let stacks = keys.into_iter().filter_map(|key| self.pushed.remove(&key));
        stacks.flat_map(|stack| stack.into_iter().rev()).map(|open| open.row(RANGE_PUSHED, end, None)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: TaskId = TaskId(1);

    fn at(ts_ns: u64) -> At {
        At { ts_ns, cpu: 0 }
    }

    fn brief((at, row): RangeRow) -> (u64, Option<u64>, u64, Option<u32>) {
        (at.ts_ns, row.dur_ns, row.end, row.name.map(|n| n.0))
    }

    #[test]
    fn ranges_nest_in_each_thread_and_domain() {
        let mut r = Ranges::default();
        r.push(T, 0, at(10), Some(StrId(1)));
        r.push(T, 0, at(20), Some(StrId(2)));
        r.push(T, 7, at(25), None);
        r.push(TaskId(2), 0, at(26), Some(StrId(3)));
        assert_eq!(brief(r.pop(T, 0, at(30))), (20, Some(10), END_RETURNED, Some(2)));
        assert_eq!(brief(r.pop(T, 7, at(35))), (25, Some(10), END_RETURNED, None));
        assert_eq!(brief(r.pop(T, 0, at(40))), (10, Some(30), END_RETURNED, Some(1)));
        assert_eq!(brief(r.pop(T, 0, at(50))), (50, None, END_BEGAN_BEFORE, None));
        assert_eq!(
            r.thread_exit(TaskId(2)).into_iter().map(brief).collect::<Vec<_>>(),
            [(26, None, END_THREAD_EXIT, Some(3))]
        );
        assert_eq!(r.finish(), []);
    }

    #[test]
    fn a_started_range_may_end_on_another_thread_and_overlap() {
        let mut r = Ranges::default();
        r.start(T, (9, 100), at(10), Some(StrId(1)));
        r.start(T, (9, 101), at(20), Some(StrId(2)));
        r.start(T, (8, 100), at(21), Some(StrId(3)));
        let (place, row) = r.end(TaskId(2), (9, 100), at(30));
        assert_eq!((place.ts_ns, row.task, row.dur_ns, row.form), (10, T, Some(20), RANGE_STARTED));
        assert_eq!(brief(r.end(T, (9, 100), at(40))), (40, None, END_BEGAN_BEFORE, None));
        let open: Vec<_> = r.finish().into_iter().map(brief).collect();
        assert_eq!(open, [(20, None, END_OPEN, Some(2)), (21, None, END_OPEN, Some(3))]);
    }
}
