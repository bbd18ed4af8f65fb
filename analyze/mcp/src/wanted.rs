//! Whether anybody still waits for what a thread works on.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

thread_local! {
    static CURRENT: RefCell<Wanted> = RefCell::new(Wanted::default());
}

/// Asked now and then by work that nobody can use later, so that it ends with the interest in it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wanted(Arc<AtomicBool>);

impl Wanted {
    /// That of the work which this thread does.
    pub(crate) fn of_this_thread() -> Self {
        CURRENT.with_borrow(Clone::clone)
    }

    /// Does work on this thread that can ask.
    pub(crate) fn during<T>(self, work: impl FnOnce() -> T) -> T {
        let before = CURRENT.replace(self);
        let done = work();
        CURRENT.set(before);
        done
    }

    /// Whether somebody waits.
    pub(crate) fn still(&self) -> bool {
        !self.0.load(Ordering::Relaxed)
    }
}

/// Somebody who waits: until it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Waiting(Wanted);

impl Waiting {
    /// What the work asks.
    pub(crate) fn wanted(&self) -> Wanted {
        self.0.clone()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_learns_that_nobody_waits_any_more() {
        let waiting = Waiting::default();
        waiting.wanted().during(|| {
            assert!(Wanted::of_this_thread().still());
            drop(waiting);
            assert!(!Wanted::of_this_thread().still());
        });
        assert!(Wanted::of_this_thread().still(), "other work is wanted");
    }
}
