//! Small recordings made by hand, for tests.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::io::{Seek, Write};

use ingero_format::catalog::{Call, Class, END_RETURNED, Event, FuncId, Layer, Switch, TaskId, Wakeup, Waking};
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
        self.push(ts_ns, cpu, Waking { waker, wakee, target_cpu: u64::from(cpu), context: Some(context) });
    }

    /// A task is on a run queue.
    pub fn wakeup(&mut self, ts_ns: u64, cpu: u32, wakee: TaskId, target_cpu: u64) {
        self.push(ts_ns, cpu, Wakeup { wakee, target_cpu });
    }

    /// A call that returned 0.
    pub fn call(&mut self, ts_ns: u64, cpu: u32, task: TaskId, func: FuncId, dur_ns: u64) {
        let call = Call {
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
        };
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
