//! Answers an AI assistant's questions about recordings: a server of the Model Context Protocol.
//!
//! The crate stands beside the converters at the end of the flow. Its figures are those of
//! `ingero-analyze`'s JSON contract, its timelines those of [`ingero_replay::scene`], its tables
//! those that `ingero-convert --sqlite` writes; nothing is worked out here. `spec/assistant.md`
//! describes the tools.
//!
//! [`Shelf`] finds and opens recordings, [`tools`] answer from them, [`Assistant`] speaks the protocol,
//! over stdin and stdout ([`stdio`]) or HTTP ([`http`]).
//!
//! ```no_run
//! use std::path::PathBuf;
//! use ingero_mcp::{Shelf, tools};
//!
//! # fn main() -> Result<(), ingero_mcp::Problem> {
//! let shelf = Shelf::new(vec![PathBuf::from("run.igt")])?;
//! let health = tools::call(&shelf, "get_capture_health", serde_json::json!({}))?;
//! println!("{}", health.text);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests fail by panicking"))]

mod assistant;
pub mod cli;
mod figures;
pub mod http;
mod lobby;
mod names;
mod outlet;
mod page;
mod problem;
mod prompt;
mod recording;
mod scratch;
mod shelf;
pub mod stdio;
pub mod tools;
mod wanted;
pub mod wire;
pub mod words;

pub use assistant::Assistant;
pub use names::Names;
pub use problem::Problem;
pub use recording::Recording;
pub use shelf::Shelf;
