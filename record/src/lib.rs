//! The recorder: attaches to CUDA libraries and kernel tracepoints, drains their events and writes them into
//! an `.igt` file.
//!
//! Place in the flow: `ingero-ebpf` holds the programs that run in the kernel, this crate loads and drains them,
//! and `ingero-format` owns the bytes on disk. Nothing depends on this crate.
//!
//! ```text
//! ring buffer ─ drain thread ─► writer thread: Tasks (who) + Calls (entry+return) ─► TraceWriter ─► run.igt
//!                                     │ exec, mapped
//!                                     ▼
//!                             discovery thread: maps ─► ELF ─► uprobes
//! ```
//!
//! ```
//! use clap::Parser;
//! use ingero_record::{Cli, Plan, Target};
//! let cli = Cli::parse_from(["ingero-record", "-o", "run.igt", "--pid", "4711"]);
//! let plan = Plan::from_cli(cli)?;
//! assert_eq!(plan.target, Target::Processes(vec![4711]));
//! # Ok::<(), anyhow::Error>(())
//! ```

pub mod batch;
pub mod calibration;
pub mod calls;
pub mod check;
mod cli;
pub mod devices;
pub mod drain;
mod failure;
pub mod finding;
pub mod gpu;
pub mod hold;
pub mod keep;
pub mod keeper;
pub mod kernel;
pub mod launch;
pub mod library;
mod live;
pub mod marks;
pub mod meanings;
pub mod meta;
pub mod nvtx;
pub mod output;
mod plan;
pub mod proc;
pub mod processor;
pub mod ranges;
pub mod reclaims;
mod rights;
pub mod sampler;
pub mod scribe;
pub mod selection;
mod session;
pub mod signals;
pub mod state;
pub mod store;
mod subject;
mod summary;
pub mod tasks;
mod text;
mod threads;
pub mod trial;
pub mod user;
pub mod watchdog;
pub mod writer;

pub use cli::{CheckCli, Cli};
pub use failure::{CommandEnd, Failure, NOT_EXECUTABLE, NOT_FOUND, OWN_FAILURE, Outcome, conclude};
pub use plan::{Plan, Target, parse_duration, parse_ring_size, parse_size};
pub use session::record;
