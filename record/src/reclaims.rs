//! Direct reclaim: begins and ends become rows.

use std::collections::HashMap;

use ingero_format::catalog::{Reclaim, TaskId};

use crate::tasks::At;

/// Who looks for pages right now.
#[derive(Debug, Default)]
pub struct Reclaims {
    /// By thread and whether it is for a memory cgroup: one may contain the other.
    open: HashMap<(TaskId, bool), (At, u64)>,
}

impl Reclaims {
    /// A thread begins.
    pub fn begin(&mut self, at: At, task: TaskId, memcg: bool, order: u64) {
        self.open.insert((task, memcg), (at, order));
    }

    /// It is done, and has freed pages. One that began before the recording has the time of its end.
    pub fn end(&mut self, at: At, task: TaskId, memcg: bool, pages: u64) -> (At, Reclaim) {
        let begun = self.open.remove(&(task, memcg));
        let row = Reclaim {
            task,
            dur_ns: begun.map(|(begin, _)| at.ts_ns.saturating_sub(begin.ts_ns)),
            order: begun.map(|(_, order)| order),
            reclaimed: Some(pages),
            memcg: u64::from(memcg),
        };
        (begun.map_or(at, |(begin, _)| begin), row)
    }

    /// The recording ends: those that still look.
    pub fn finish(&mut self) -> Vec<(At, Reclaim)> {
        let mut rows: Vec<_> = std::mem::take(&mut self.open)
            .into_iter()
            .map(|((task, memcg), (at, order))| {
                let memcg = u64::from(memcg);
                (at, Reclaim { task, dur_ns: None, order: Some(order), reclaimed: None, memcg })
            })
            .collect();
        rows.sort_by_key(|(at, row)| (at.ts_ns, row.task));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn begins_and_ends_pair_by_thread() {
        let at = |ts_ns| At { ts_ns, cpu: 0 };
        let mut r = Reclaims::default();
        r.begin(at(10), TaskId(1), false, 3);
        r.begin(at(12), TaskId(2), true, 0);
        let (begin, row) = r.end(at(25), TaskId(1), false, 40);
        assert_eq!((begin.ts_ns, row.dur_ns, row.order, row.reclaimed), (10, Some(15), Some(3), Some(40)));
        let (end, row) = r.end(at(30), TaskId(1), false, 1);
        assert_eq!((end.ts_ns, row.dur_ns, row.order), (30, None, None));
        let [(begin, row)] = r.finish()[..] else { unreachable!("one is open") };
        assert_eq!((begin.ts_ns, row.dur_ns, row.memcg), (12, None, 1));
    }
}
