//! What the events of a trace mean: their order, the state of every thread, the calls and what
//! they waited for.
//!
//! The crate stands between the file ([`ingero_format`]) and the reports. [`Merge`] gives events in
//! time order; [`Timeline`] makes thread states and calls of them; [`Processes`] says
//! whose they are and what they were called at the time; [`Window`] cuts a range out of the whole.
//!
//! ```no_run
//! use ingero_replay::{Sink, Timeline, CallSpan};
//!
//! #[derive(Default)]
//! struct Longest(u64);
//! impl Sink for Longest {
//!     fn call(&mut self, span: &CallSpan) {
//!         self.0 = self.0.max(span.dur_ns());
//!     }
//! }
//! # fn main() -> Result<(), ingero_format::Error> {
//! let trace = ingero_format::Trace::open("run.igt")?;
//! let mut longest = Longest::default();
//! Timeline::new(&trace).run(&mut longest);
//! println!("longest call: {} ns", longest.0);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests fail by panicking"))]

#[cfg(feature = "fixture")]
pub mod fixture;
mod merge;
mod processes;
pub mod program;
mod timeline;
mod window;

pub use merge::{Event, LostBlock, Merge, Row};
pub use processes::{Process, ProcessId, Processes};
pub use timeline::{CallSpan, Cpus, OffCpu, OffKind, Repairs, Run, Sink, Spent, Timeline, Waker};
pub use window::{BadTime, When, Window, parse_duration, parse_when, show_wall, start_unix_ns};
