//! From `.igt` into other formats.

pub mod sqlite;
