//! The `.igt` trace format: the only crate that knows bytes on disk.
//!
//! The recorder and the importers write with [`TraceWriter`]; everything else reads with
//! [`Trace`]. What a file can hold stands in [`catalog`]; what its bytes mean stands in prose in
//! `spec/igt.md`, and its numbers in [`layout`].
//!
//! ```
//! use ingero_format::{Batch, Task, Trace, TraceWriter, WriterOptions, catalog::{Event, Exit, Word, TaskId}};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let path = std::env::temp_dir().join(format!("doc-{}.igt", std::process::id()));
//! let mut writer = TraceWriter::new(std::fs::File::create(&path)?, WriterOptions::default())?;
//! let task = writer.task(Task { pid: 42, tid: 42, start_ns: None });
//! writer.push(1_000, 0, &Exit { task, group_dead: Some(1) })?;
//! writer.finish()?;
//!
//! let trace = Trace::open(&path)?;
//! let mut batch = Batch::new()?;
//! trace.read_block(&trace.blocks()[0], &mut batch, None)?;
//! assert_eq!(batch.column(0).unwrap().to_vec(), [1_000]);
//! assert_eq!(trace.task(TaskId::from_word(batch.column(2).unwrap().get(0).unwrap())).pid, 42);
//! # std::fs::remove_file(path)?;
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod block;
mod bytes;
pub mod catalog;
mod chunk;
mod column;
mod dictionary;
mod error;
mod index;
mod lane;
pub mod layout;
mod read;
mod schema;
mod text;
mod write;

pub use chunk::ChunkHeader;
pub use column::{View, Words};
pub use dictionary::{FunctionInfo, IDLE, Task};
pub use error::Error;
pub use index::IndexEntry;
pub use read::{Batch, Damage, SPAN_KEY, StoredColumn, Trace};
pub use schema::{ColumnSchema, KindSchema, own_schema};
pub use text::one_line;
pub use write::{ChunkCopy, Recent, Totals, TraceWriter, WriterOptions};
