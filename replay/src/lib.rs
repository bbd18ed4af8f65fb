//! What the events of a trace mean: their order, the state of every thread, the calls and what
//! they waited for.
//!
//! The crate stands between the file ([`ingero_format`]) and the reports. [`Merge`] gives events in
//! time order; [`Timeline`] makes thread states and calls of them; [`Processes`] says
//! whose they are and what they were called at the time; [`Window`] cuts a range out of the whole;
//! [`scene`] keeps what threads and CPUs did in a range; [`pyramid`] adds it up in cells of every width, for pictures, and
//! [`closeup`] reads what is to be seen within a cell.
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

pub mod closeup;
mod event;
mod findings;
#[cfg(feature = "fixture")]
pub mod fixture;
mod hosts;
mod lost;
mod merge;
pub mod output;
mod processes;
pub mod program;
pub mod pyramid;
mod range;
pub mod recompress;
pub mod scene;
mod syscalls;
mod timeline;
mod window;
pub mod wording;

pub use event::Event;
pub use findings::{Finding, chunk_name, findings};
pub use hosts::{Host, Hosts, PageSizes, machine};
pub use lost::{CUT_OFF, DAMAGED, Lost, Missing, UNKNOWN_KIND, cut_off, known_span, lost, of_host, was_recorded};
pub use merge::{LostBlock, Merge, Row, misdated};
pub use processes::{Process, ProcessId, Processes};
pub use range::Range;
pub use syscalls::syscall_name;
pub use timeline::{
    Blind, Both, CallSpan, Cpus, OffCpu, OffKind, Repairs, Run, Sight, Sink, Spent, State, StoredStay, Timeline,
    Undivided, Waker,
};
pub use window::{
    BadDuration, BadTime, When, Window, parse_before, parse_duration, parse_when, show_wall, start_unix_ns,
};
