//! What of a process's submissions a wait waits for.
//!
//! A wait for the device waits for all of them. One for a stream waits for what was submitted to that stream, and one for an event for
//! what had been when the event was recorded: what came later may be queued still.

use std::collections::HashMap;

use ingero_format::FunctionInfo;
use ingero_format::catalog::{Call, Class};

/// So many events are told apart in a process at most.
const EVENTS: usize = 1 << 16;

/// The submission that was made last, and where events stand in the queue.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Submissions so far.
    made: u64,
    /// The stream of the last of them; none where that is not known.
    stream: Option<u64>,
    /// By event: the submissions before it was recorded last, and the stream that it was recorded in.
    events: HashMap<u64, (u64, Option<u64>)>,
}

/// Whether a function records an event.
pub(super) fn records_event(function: &FunctionInfo) -> bool {
    function.class == Class::Event && function.symbol.contains("EventRecord")
}

/// A stream by its handle: 0 is the default stream, and 1 the same by its own name.
fn same(a: u64, b: u64) -> bool {
    a == b || a.max(b) == 1
}

impl Queue {
    /// Something is submitted to a stream.
    pub(super) fn takes(&mut self, stream: Option<u64>) {
        self.made += 1;
        self.stream = stream;
    }

    /// An event is recorded.
    pub(super) fn records(&mut self, call: &Call) {
        if let Some(event) = call.ptr
            && (self.events.len() < EVENTS || self.events.contains_key(&event))
        {
            self.events.insert(event, (self.made, call.stream));
        }
    }

    /// Whether a wait is for the last submission too, as far as the recording tells what it waits for.
    pub(super) fn is_done_after(&self, class: Option<Class>, wait: &Call) -> bool {
        let is_last = |stream: Option<u64>| stream.zip(self.stream).is_none_or(|(a, b)| same(a, b));
        // Of other calls the pointer is one to data.
        match wait.ptr.filter(|_| class == Some(Class::Sync)) {
            Some(event) => match self.events.get(&event) {
                Some(&(made, stream)) => made == self.made && is_last(stream),
                // Where no event was seen to be recorded, nothing is known of any.
                None => self.events.is_empty(),
            },
            None => is_last(wait.stream),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ingero_format::catalog::{FuncId, TaskId};
    use ingero_replay::fixture::returned;

    #[test]
    fn a_wait_is_for_its_stream_and_for_what_came_before_its_event() {
        let call = |ptr, stream| Call { ptr, stream, ..returned(TaskId(1), FuncId(1), 1) };
        let mut queue = Queue::default();
        let done = |queue: &Queue, ptr, stream| queue.is_done_after(Some(Class::Sync), &call(ptr, stream));
        queue.takes(Some(7));
        assert_eq!([None, Some(7), Some(8)].map(|stream| done(&queue, None, stream)), [true, true, false]);
        // Nothing is known of an event that nobody records.
        assert!(done(&queue, Some(0x10), None));
        queue.records(&call(Some(0x10), Some(7)));
        assert_eq!([0x10, 0x20].map(|event| done(&queue, Some(event), None)), [true, false]);
        queue.takes(Some(7));
        assert!(!done(&queue, Some(0x10), None));
        // The other stream's events do not wait for this one.
        queue.records(&call(Some(0x20), Some(8)));
        assert!(!done(&queue, Some(0x20), None));
        // The default stream has two names; a copy's pointer is no event.
        queue.takes(Some(0));
        assert!(done(&queue, None, Some(1)) && done(&queue, None, None));
        assert!(queue.is_done_after(Some(Class::Copy), &call(Some(0x10), Some(0))));
        // A source that tells no streams says no more than that there was a wait.
        queue.takes(None);
        assert!(done(&queue, None, Some(9)));
    }
}
