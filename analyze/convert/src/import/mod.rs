//! From other formats into `.igt`.

pub mod ftrace;
