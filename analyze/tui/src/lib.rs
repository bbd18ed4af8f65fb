//! A timeline in the terminal: threads as rows, their states by columns, calls above them.
//!
//! Drawn from the [`Pyramid`] of a trace and, where columns are narrower than its cells, from the events of the range that is
//! shown: a screen costs the same whatever the length of the recording. [`App`] takes keys and draws; [`run`] gives it a
//! terminal. What is worth jumping to, the incidents, comes from whoever analyses the trace, when it is done.
//!
//! ```no_run
//! # fn main() -> anyhow::Result<()> {
//! use ingero_replay::{Processes, Window, pyramid::Pyramid};
//! use ingero_tui::{App, Options, Palette};
//!
//! let trace = ingero_format::Trace::open("run.igt")?;
//! let (processes, pyramid) = (Processes::new(&trace), Pyramid::open_or_build(&trace, &mut |_| {}));
//! let palette = Palette::of_terminal(|name| std::env::var(name).ok());
//! let options = Options { window: Window::whole(&trace), pids: Vec::new(), start_unix_ns: None, palette };
//! let (_send, incidents) = std::sync::mpsc::channel();
//! ingero_tui::run(App::new(&trace, &processes, &pyramid, options), &incidents)?;
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests fail by panicking"))]

mod app;
mod draw;
mod incident;
mod palette;
mod readout;
mod rows;
mod search;
mod terminal;
mod view;

pub use app::{App, Options};
pub use incident::{Found, Incident, Place};
pub use palette::Palette;
pub use terminal::{check, run};
