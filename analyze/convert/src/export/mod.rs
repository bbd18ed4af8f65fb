//! From `.igt` into other formats.

mod arguments;
pub mod chrome;
mod exits;
pub mod folded;
mod json;
mod layers;
mod names;
mod nesting;
pub mod parquet;
pub mod perfetto;
mod phase;
pub mod records;
mod selection;
pub mod sqlite;
mod track;

pub use selection::{Cut, Selection};
