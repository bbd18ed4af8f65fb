//! An event of any kind that this build knows.

use ingero_format::catalog::{Body, CPU, Exit, Kind, TS};

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// `CLOCK_MONOTONIC` nanoseconds.
    pub ts_ns: u64,
    /// CPU on which it was recorded, [`ingero_format::catalog::NO_CPU`] where it belongs to none.
    pub cpu: u32,
    /// Its fields.
    pub body: Body,
}

impl Event {
    /// The event whose words these are, in the order of its kind's columns.
    #[inline]
    pub(crate) fn of(kind: Kind, words: &[u64]) -> Self {
        let mut event = Self { ts_ns: 0, cpu: 0, body: Body::Exit(Exit::default()) };
        event.set(kind, words);
        event
    }

    /// Becomes the event whose words these are.
    #[inline]
    pub(crate) fn set(&mut self, kind: Kind, words: &[u64]) {
        let word = |column: usize| words.get(column).copied().unwrap_or(0);
        self.ts_ns = word(usize::from(TS));
        self.cpu = u32::try_from(word(usize::from(CPU))).unwrap_or(u32::MAX);
        self.body.regather(kind, word);
    }
}
