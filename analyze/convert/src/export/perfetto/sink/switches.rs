//! Who is on each CPU, as the reader takes it from the rows of switches.

use std::io::Write;

use ingero_format::catalog::{Kind, TaskId};

use super::super::sched::{DEFAULT_PRIO, Name, SwitchRow};
use super::{DEAD, LATEST, MAX_CPUS, OTHERS, PREEMPTED, PerfettoSink, UNKNOWN};

impl<W: Write> PerfettoSink<'_, W> {
    /// Puts a switch among the rows of its CPU. The CPU of who is not selected is not idle: one stands there for all of them.
    pub(super) fn put_switch(&mut self, ts_ns: u64, cpu: u32, prev_state: u64, next: TaskId, next_prio: Option<u64>) {
        let Some(place) = self.place(cpu) else { return };
        let before = self.as_shown(self.is_on(place));
        if let Some(on) = self.on_cpu.get_mut(place) {
            *on = (next, ts_ns);
        }
        let next = self.as_shown(next);
        if (before, next) == (OTHERS, OTHERS) {
            return;
        }
        let prev_state = match before {
            // It has no states.
            TaskId(0) => 0,
            // They are many: in which state one of them left says nothing of the others.
            OTHERS => UNKNOWN,
            _ => prev_state,
        };
        let next_tid = match next {
            OTHERS => self.others(place),
            _ => self.tracks.calls(next).map_or(0, |t| t.tid),
        };
        let next_tid = i32::try_from(next_tid).unwrap_or(0);
        let next_prio = next_prio.and_then(|p| i32::try_from(p).ok()).unwrap_or(DEFAULT_PRIO);
        let next_name = match next {
            TaskId(0) => Name::Idle,
            OTHERS => Name::Others,
            _ => Name::Of(self.name(next, LATEST)),
        };
        self.done.switches += 1;
        let row = SwitchRow { ts_ns: self.boot(ts_ns), prev_state, next_tid, next_prio, next_name };
        let held = self.bundles.switch(cpu, row);
        if let Some(left) = self.left.get_mut(before.index()) {
            *left = Some(held);
        }
    }

    /// The place of a CPU; its first switch says nothing, since the reader drops it.
    pub(super) fn place(&mut self, cpu: u32) -> Option<usize> {
        let place = usize::try_from(cpu).ok().filter(|_| cpu < MAX_CPUS)?;
        while self.on_cpu.len() <= place {
            let first = self.on_cpu.len();
            self.on_cpu.push((TaskId(0), 0));
            let ts_ns = self.boot(self.start_ns.max(self.selection.window.from_ns));
            let nothing =
                SwitchRow { ts_ns, prev_state: 0, next_tid: 0, next_prio: DEFAULT_PRIO, next_name: Name::Idle };
            if let Ok(cpu) = u32::try_from(first) {
                let _ = self.bundles.switch(cpu, nothing);
            }
        }
        Some(place)
    }

    pub(super) fn shows_states(&self) -> bool {
        self.selection.takes_kind(Kind::Switch)
    }

    /// The switch that was told last: what it brought about is told, and whoever it says was running is on the CPU.
    pub(super) fn settle_switch(&mut self) {
        let Some((ts_ns, cpu, e)) = self.switch.take() else { return };
        if !self.selection.touches((ts_ns, ts_ns)) {
            return;
        }
        // The reader takes who came last to be who leaves. Where that is another one, a switch between the two went
        // unreported, and without it the state would be told of the wrong thread.
        if e.prev != TaskId(0) && self.place(cpu).is_some_and(|place| self.is_on(place) != e.prev) {
            self.put_switch(ts_ns, cpu, UNKNOWN, e.prev, e.prev_prio);
        }
        // Who ends waits for nothing that anybody waits for: it has no states any more.
        let is_over = self.exits.get(&e.prev).is_some_and(|at_ns| *at_ns <= ts_ns) && e.throttled != Some(1);
        let ends = is_over && e.prev_state != 0 && e.prev_state & (DEAD | PREEMPTED) == 0;
        let prev_state = if ends { UNKNOWN } else { e.prev_state };
        self.put_switch(ts_ns, cpu, prev_state, e.next, e.next_prio);
    }

    /// The thread that stands for all who are not selected on a CPU: one is on one CPU at a time.
    fn others(&mut self, place: usize) -> u32 {
        while self.others.len() <= place {
            self.others.push(self.tracks.fresh().tid);
        }
        self.others.get(place).copied().unwrap_or(0)
    }

    /// Who stands for a task.
    pub(super) fn as_shown(&self, task: TaskId) -> TaskId {
        if task == TaskId(0) || self.selection.shows(task) { task } else { OTHERS }
    }

    /// Who the reader takes to be on a CPU, or who it is that another one stands for.
    pub(super) fn is_on(&self, place: usize) -> TaskId {
        self.on_cpu.get(place).map_or(TaskId(0), |(task, _)| *task)
    }

    pub(super) fn flush_bundles(&mut self) {
        let trace = self.trace;
        let mut bundles = std::mem::take(&mut self.bundles);
        bundles.flush(|id| trace.string(id), |packet| self.stream.packet(packet));
        self.bundles = bundles;
    }
}
