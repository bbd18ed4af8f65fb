//! The calls of a thread, or what else has a begin and an end, as slices that nest, while they come in the order of their
//! begins.
//!
//! Of those that begin in one instant the longest is the outer one, so they are held back until a later one comes.
//! One that outlasts the one around it, which damage and two clocks bring about, is cut.

use std::cmp::Reverse;

/// A call, or another stretch, with its place in time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slice<T> {
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) what: T,
    /// Slices around it.
    pub(crate) depth: usize,
    /// Whether it was cut because it overlapped.
    pub(crate) cut: bool,
}

/// The slices of one track that are not told yet, and those that the last one is inside of.
#[derive(Debug)]
pub(crate) struct Nesting<T> {
    held: Vec<Slice<T>>,
    enclosing: Vec<u64>,
}

impl<T> Default for Nesting<T> {
    fn default() -> Self {
        Self { held: Vec::new(), enclosing: Vec::new() }
    }
}

impl<T> Nesting<T> {
    /// A slice that begins no earlier than those before it; tells what cannot change any more.
    pub(crate) fn push(&mut self, start_ns: u64, end_ns: u64, what: T, tell: impl FnMut(&Slice<T>)) {
        if self.held.first().is_some_and(|first| first.start_ns < start_ns) {
            self.flush(tell);
        }
        let end_ns = end_ns.max(start_ns);
        self.held.push(Slice { start_ns, end_ns, what, depth: 0, cut: false });
    }

    /// Tells what is held back.
    pub(crate) fn flush(&mut self, mut tell: impl FnMut(&Slice<T>)) {
        if self.held.len() > 1 {
            self.held.sort_by_key(|c| Reverse(c.end_ns));
        }
        for mut slice in self.held.drain(..) {
            while self.enclosing.last().is_some_and(|end| *end <= slice.start_ns) {
                self.enclosing.pop();
            }
            if let Some(&outer) = self.enclosing.last() {
                slice.cut = slice.end_ns > outer;
                slice.end_ns = slice.end_ns.min(outer);
            }
            slice.depth = self.enclosing.len();
            self.enclosing.push(slice.end_ns);
            tell(&slice);
        }
    }
}
