//! Conversion of `.igt` traces to other formats, and of other formats to `.igt`.
//!
//! This crate stands at the end of the flow: it reads what [`ingero_format`] stores and what
//! [`ingero_replay`] makes of it, and nothing depends on it. Its dependencies are heavy and stay
//! out of the recorder's build.
//!
//! ```no_run
//! use std::path::Path;
//! use ingero_convert::{import, input::Input};
//!
//! # fn main() -> Result<(), ingero_convert::Error> {
//! let input = Input::open(Path::new("capture.trace.txt.xz"))?;
//! let done = import::ftrace::import(&input, Path::new("run.igt"), Default::default())?;
//! println!("{} events", done.totals.events);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

pub mod error;
pub mod export;
pub mod import;
pub mod input;
pub mod output;

pub use error::Error;
