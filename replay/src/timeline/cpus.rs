//! Who was on each CPU, and since when.

use std::collections::VecDeque;

use ingero_format::catalog::TaskId;

/// Stretches that a CPU remembers at least. A wait that reaches further back is told with what is
/// still remembered, and the rest of it has no holder.
pub(super) const REMEMBERED: usize = 1 << 16;

/// Who was on each CPU through the last stretch of the walk.
#[derive(Debug, Default)]
pub struct Cpus {
    cpus: Vec<Cpu>,
}

#[derive(Debug, Default)]
struct Cpu {
    /// Stretches of tasks other than the idle task, by time.
    past: VecDeque<(u64, u64, TaskId)>,
    current: Option<(TaskId, u64)>,
    changed_ns: u64,
}

/// CPUs beyond this number are damage, not hardware.
const MAX_CPUS: u32 = 1 << 16;

impl Cpus {
    fn cpu(&mut self, cpu: u32) -> Option<&mut Cpu> {
        if cpu >= MAX_CPUS {
            return None;
        }
        let at = cpu as usize;
        if at >= self.cpus.len() {
            self.cpus.resize_with(at + 1, Cpu::default);
        }
        self.cpus.get_mut(at)
    }

    /// Who is on a CPU, and since when.
    #[must_use]
    #[inline]
    pub fn current(&self, cpu: u32) -> Option<(TaskId, u64)> {
        self.cpus.get(cpu as usize)?.current
    }

    /// When a CPU last changed hands.
    pub(super) fn changed(&self, cpu: u32) -> u64 {
        self.cpus.get(cpu as usize).map_or(0, |c| c.changed_ns)
    }

    pub(super) fn occupy(&mut self, cpu: u32, ts: u64, task: TaskId) {
        if let Some(c) = self.cpu(cpu) {
            c.end(ts);
            c.current = Some((task, ts));
            c.changed_ns = ts;
        }
    }

    /// Whoever is on the CPU left it unseen.
    pub(super) fn vacate(&mut self, cpu: u32) {
        if let Some(c) = self.cpu(cpu) {
            c.current = None;
        }
    }

    /// Who is on the CPU is not known from here on.
    pub(super) fn end(&mut self, cpu: u32, ts: u64) {
        if let Some(c) = self.cpu(cpu) {
            c.end(ts);
            c.current = None;
        }
    }

    /// How many CPUs there are, as far as the trace shows: one more than the largest number.
    #[must_use]
    #[inline]
    pub fn count(&self) -> u32 {
        u32::try_from(self.cpus.len()).unwrap_or(u32::MAX)
    }

    /// Whether anything was seen of a CPU so far.
    #[must_use]
    #[inline]
    pub fn is_seen(&self, cpu: u32) -> bool {
        self.cpus.get(cpu as usize).is_some_and(|c| c.changed_ns > 0)
    }

    /// Tells who was on `cpu` within `from..to`, latest first; the idle task is nobody.
    #[inline]
    pub fn holders(&self, cpu: u32, from: u64, to: u64, mut tell: impl FnMut(TaskId, u64)) {
        self.stretches(cpu, from, to, |task, start, end| tell(task, end - start));
    }

    /// Tells from when to when somebody was on `cpu` within `from..to`, latest first; the idle task is nobody.
    #[inline]
    pub fn stretches(&self, cpu: u32, from: u64, to: u64, mut tell: impl FnMut(TaskId, u64, u64)) {
        let Some(c) = self.cpus.get(cpu as usize) else { return };
        let now = c.current.filter(|(task, _)| *task != TaskId(0)).map(|(task, since)| (since, to, task));
        // Stretches follow one another: those that matter stand side by side, mostly last.
        let past = match c.past.back() {
            Some((start, ..)) if *start >= to => c.past.partition_point(|(start, ..)| *start < to),
            _ => c.past.len(),
        };
        for (start, end, task) in now.into_iter().chain(c.past.range(..past).rev().copied()) {
            if end <= from {
                break;
            }
            let (start, end) = (start.max(from), end.min(to));
            if end > start {
                tell(task, start, end);
            }
        }
    }
}

impl Cpu {
    fn end(&mut self, ts: u64) {
        if let Some((task, since)) = self.current.take()
            && task != TaskId(0)
            && ts > since
        {
            if self.past.len() >= REMEMBERED {
                self.past.pop_front();
            }
            self.past.push_back((since, ts, task));
        }
    }
}
