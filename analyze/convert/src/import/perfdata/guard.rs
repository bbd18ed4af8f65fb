//! The library that reads perf.data takes some things of a file for granted, and panics where a broken one lacks them.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// Whether a panic on this thread is the library's.
    static WITHIN: Cell<bool> = const { Cell::new(false) };
}

/// Runs what calls the library: none where it panics, which is told to nobody else.
pub(super) fn guarded<T>(call: impl FnOnce() -> T) -> Option<T> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| {
            if !WITHIN.get() {
                before(info);
            }
        }));
    });
    WITHIN.set(true);
    let done = catch_unwind(AssertUnwindSafe(call)).ok();
    WITHIN.set(false);
    done
}
