//! Finding CUDA libraries: in processes, and on disk before a command runs.

pub mod attached;
pub mod discovery;
pub mod elf;
pub mod kind;
pub mod prescan;
