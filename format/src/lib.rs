//! The `.igt` trace format.
pub mod catalog;
