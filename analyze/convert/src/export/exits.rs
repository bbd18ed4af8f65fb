//! When threads ended, for calls that they were still inside of.

use std::collections::HashMap;

use ingero_format::Trace;
use ingero_format::catalog::{Body, Exit, Kind, TaskId};
use ingero_replay::Merge;

/// The time of each thread's first exit, nanoseconds of the trace's clock.
pub(crate) fn exits(trace: &Trace) -> HashMap<TaskId, u64> {
    let mut exits = HashMap::new();
    for event in Merge::of(trace, |kind| kind == Kind::Exit) {
        if let Body::Exit(Exit { task, .. }) = event.body {
            exits.entry(task).or_insert(event.ts_ns);
        }
    }
    exits
}
