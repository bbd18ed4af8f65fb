//! The CUDA device that is current in each thread.

use std::collections::HashMap;

use ingero_format::catalog::TaskId;

/// Contexts on a thread's stack at most; CUDA itself allows few.
const DEPTH: usize = 64;

/// What each thread chose, as far as it was seen.
#[derive(Debug, Default)]
pub struct Devices {
    /// The current one is the last. An unknown one is there, but not known.
    threads: HashMap<TaskId, Vec<Option<u64>>>,
    /// Device of each context, by process and handle.
    contexts: HashMap<(u32, u64), u64>,
}

impl Devices {
    /// The device of a thread: what it chose, else the first one if it was seen from its birth, since that is what CUDA begins
    /// with.
    #[must_use]
    pub fn current(&self, task: TaskId, seen_from_birth: bool) -> Option<u64> {
        match self.threads.get(&task).and_then(|stack| stack.last()) {
            Some(device) => *device,
            None => seen_from_birth.then_some(0),
        }
    }

    /// A device becomes the current one.
    pub fn set(&mut self, task: TaskId, device: Option<u64>) {
        let stack = self.threads.entry(task).or_default();
        stack.pop();
        stack.push(device);
    }

    /// A device becomes the current one until [`pop`](Self::pop).
    pub fn push(&mut self, task: TaskId, device: Option<u64>) {
        let stack = self.threads.entry(task).or_default();
        if stack.len() < DEPTH {
            stack.push(device);
        }
    }

    /// The one before becomes the current one.
    pub fn pop(&mut self, task: TaskId) {
        if let Some(stack) = self.threads.get_mut(&task) {
            stack.pop();
            if stack.is_empty() {
                self.threads.remove(&task);
            }
        }
    }

    /// A context is known to be of a device.
    pub fn learn(&mut self, pid: u32, context: u64, device: u64) {
        self.contexts.insert((pid, context), device);
    }

    /// The device of a context.
    #[must_use]
    pub fn of_context(&self, pid: u32, context: u64) -> Option<u64> {
        self.contexts.get(&(pid, context)).copied()
    }

    /// A thread ended or began another program.
    pub fn forget(&mut self, task: TaskId) {
        if !self.threads.is_empty() {
            self.threads.remove(&task);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_what_it_chose() {
        let mut d = Devices::default();
        let (t, other) = (TaskId(1), TaskId(2));
        assert_eq!((d.current(t, true), d.current(t, false)), (Some(0), None));
        d.set(t, Some(3));
        assert_eq!((d.current(t, false), d.current(other, false)), (Some(3), None));
        d.learn(9, 0x7f00, 5);
        d.push(t, d.of_context(9, 0x7f00));
        assert_eq!(d.current(t, true), Some(5));
        // A context that was made before the recording: it is not the first device for that.
        d.set(t, d.of_context(8, 0x7f00));
        assert_eq!(d.current(t, true), None);
        d.pop(t);
        assert_eq!(d.current(t, true), Some(3));
        d.forget(t);
        assert_eq!(d.current(t, false), None);
    }
}
