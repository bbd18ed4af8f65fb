//! Words for numbers of the format.

use ingero_format::Trace;
use ingero_format::catalog::{Loss, NO_CPU};
use ingero_replay::Hosts;

/// The name of a value in a table of the catalog.
pub(crate) fn name_of(names: &'static [(u64, &'static str)], value: u64) -> &'static str {
    names.iter().find(|(v, _)| *v == value).map_or("unknown", |(_, n)| n)
}

/// A CPU, where it is known.
pub(crate) fn known_cpu(cpu: u32) -> Option<u32> {
    (cpu != NO_CPU).then_some(cpu)
}

/// What the host is called that lost events, where the recording is of several and says so.
pub(crate) fn host_of(trace: &Trace, loss: &Loss) -> Option<String> {
    let host = usize::try_from(loss.of_host?).ok()?;
    Some(Hosts::new(trace).get(host)?.label.clone())
}
