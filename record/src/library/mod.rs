//! Finding CUDA libraries: in processes, and on disk before a command runs.

pub mod elf;
pub mod kind;
pub mod prescan;
