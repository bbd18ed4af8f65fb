//! Small recordings made by hand, for tests.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::io::{Seek, Write};

use ingero_format::catalog::{
    Call, Class, END_RETURNED, Event, FuncId, Layer, Loss, NO_CPU, Switch, TaskId, Wakeup, Waking,
};
use ingero_format::{FunctionInfo, Task, Trace, TraceWriter, WriterOptions};

/// A recording in the making.
pub struct Fixture {
    writer: TraceWriter<Vec<u8>>,
}

impl Default for Fixture {
    fn default() -> Self {
        Self::new()
    }
}

impl Fixture {
    /// A recording in blocks of the usual size.
    pub fn new() -> Self {
        Self::with_rows(1 << 16)
    }

    /// A recording in blocks of so many rows.
    pub fn with_rows(seal_rows: usize) -> Self {
        let options = WriterOptions { seal_rows, ..WriterOptions::default() };
        Self { writer: TraceWriter::new(Vec::new(), options).unwrap() }
    }

    /// A new task.
    pub fn task(&mut self, pid: u32, tid: u32) -> TaskId {
        self.writer.task(Task { pid, tid, start_ns: None })
    }

    /// A new function.
    pub fn func(&mut self, symbol: &str, layer: Layer, class: Class) -> FuncId {
        self.writer.function(FunctionInfo { symbol: symbol.into(), layer, class })
    }

    /// Any event.
    pub fn push<E: Event>(&mut self, ts_ns: u64, cpu: u32, event: E) {
        self.writer.push(ts_ns, cpu, &event).unwrap();
    }

    /// A context switch.
    pub fn switch(&mut self, ts_ns: u64, cpu: u32, prev: TaskId, prev_state: u64, next: TaskId) {
        let event = Switch { prev, prev_state, prev_prio: None, next, next_prio: None, syscall: None, throttled: None };
        self.push(ts_ns, cpu, event);
    }

    /// A wake that names its waker; the target is the CPU it is recorded on.
    pub fn waking(&mut self, ts_ns: u64, cpu: u32, waker: TaskId, wakee: TaskId, context: u64) {
        self.push(
            ts_ns,
            cpu,
            Waking { waker, wakee, target_cpu: u64::from(cpu), context: Some(context), source: None, irq: None },
        );
    }

    /// A task is on a run queue.
    pub fn wakeup(&mut self, ts_ns: u64, cpu: u32, wakee: TaskId, target_cpu: u64) {
        self.push(ts_ns, cpu, Wakeup { wakee, target_cpu });
    }

    /// A call that returned 0.
    pub fn call(&mut self, ts_ns: u64, cpu: u32, task: TaskId, func: FuncId, dur_ns: u64) {
        let call = returned(task, func, dur_ns);
        self.push(ts_ns, cpu, call);
    }

    /// The writer, for what has no method here.
    pub fn writer(&mut self) -> &mut TraceWriter<Vec<u8>> {
        &mut self.writer
    }

    /// The recording, as the bytes of its file.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.writer.finish().unwrap().0
    }

    /// The recording, opened for reading.
    #[must_use]
    pub fn finish(self) -> Trace {
        let bytes = self.into_bytes();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        file.rewind().unwrap();
        Trace::from_file(file, "fixture.igt".into()).unwrap()
    }
}

/// SplitMix64: the same numbers for the same seed.
pub struct Dice(pub u64);

impl Dice {
    /// From 0 to below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

/// Three CPUs on which eight threads of three processes run, sleep, are preempted, throttled, woken, call; now and then for
/// long, one of them hardly ever.
pub fn busy(seed: u64) -> (Trace, Vec<TaskId>) {
    busy_without_wakes(seed, &[])
}

/// The same, of which the wakes of some stretches are lost.
pub fn busy_without_wakes(seed: u64, lost: &[(u64, u64)]) -> (Trace, Vec<TaskId>) {
    const IDLE: TaskId = TaskId(0);
    let mut dice = Dice(seed);
    let mut f = Fixture::with_rows(500);
    let tasks: Vec<TaskId> =
        (0..8).map(|i| f.task(10 + i / 3, if i % 3 == 0 { 10 + i / 3 } else { 100 + i })).collect();
    let funcs: Vec<FuncId> = (0..3).map(|i| f.func(&format!("call{i}"), Layer::Runtime, Class::Launch)).collect();
    let mut now = [IDLE; 3];
    let mut ts = 5_000;
    for _ in 0..4_000 {
        ts += if dice.below(200) == 0 { dice.below(40_000_000) } else { dice.below(3_000) };
        let cpu = dice.below(3) as usize;
        let prev = now[cpu];
        match dice.below(4) {
            0 if prev != IDLE => {
                let length = 1 + dice.below(2_000);
                f.call(ts, cpu as u32, prev, funcs[dice.below(3) as usize], length);
                ts += 1 + dice.below(length * 2);
            }
            1 => {
                let among = if dice.below(50) == 0 { 8 } else { 7 };
                let wakee = tasks[dice.below(among) as usize];
                if !lost.iter().any(|&(from_ns, to_ns)| (from_ns..=to_ns).contains(&ts)) {
                    f.waking(ts, cpu as u32, prev, wakee, 0);
                }
            }
            _ => {
                let free: Vec<TaskId> = tasks.iter().copied().filter(|t| !now.contains(t)).collect();
                let next = if dice.below(4) == 0 { IDLE } else { free[dice.below(free.len() as u64) as usize] };
                if next != prev {
                    f.switch(ts, cpu as u32, prev, dice.below(2), next);
                    now[cpu] = next;
                }
            }
        }
    }
    for &(from_ns, to_ns) in lost {
        let probe = f.writer().string("sched_waking");
        f.push(from_ns, NO_CPU, Loss { to_ns, probe, cause: 0, count: Some(1), of_host: None });
    }
    (f.finish(), tasks)
}

/// A call that returned 0 after so long, and of which nothing else is known.
#[must_use]
pub fn returned(task: TaskId, func: FuncId, dur_ns: u64) -> Call {
    Call {
        task,
        func,
        dur_ns: Some(dur_ns),
        end: END_RETURNED,
        result: Some(0),
        ptr: None,
        ptr2: None,
        bytes: None,
        copy: None,
        stream: None,
        device: None,
    }
}
