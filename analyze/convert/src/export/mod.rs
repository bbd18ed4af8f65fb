//! From `.igt` into other formats.

pub mod chrome;
pub mod sqlite;
