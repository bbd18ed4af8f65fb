//! The kernel side against the running kernel: needs root.
//!
//! Children are this very binary, told by the environment to act as one; the functions that are probed are
//! its own, found by their address.
#![expect(clippy::unwrap_used, clippy::panic, clippy::exit, reason = "a test fails by panicking, and a child may exit")]

use std::sync::{Mutex, MutexGuard, PoisonError};

use ingero_record::kernel::{FunctionSpec, Kernel, Probe, UprobeLinks};

mod calls;
mod probed;
mod processes;
mod puppet;
mod quota;
mod scheduling;
mod seen;

/// Recordings disturb each other's timing, so tests take turns.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn the_reader_is_one() {
    let _turn = turn();
    let mut kernel = Kernel::load(&seen::only_calls(UprobeLinks::Auto)).unwrap();
    let _drain = kernel.take_drain().unwrap();
    assert!(kernel.take_drain().is_err());
    assert!(kernel.set_function_spec(4096, &FunctionSpec::NONE).is_err());
    let error = kernel.attach_calls("/no/such/file", &[Probe { offset: 0, function: 0 }]).unwrap_err().to_string();
    assert!(error.contains("/no/such/file") && error.contains("No such file"), "{error}");
}
