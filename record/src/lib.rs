//! Records CUDA calls and scheduler events into an `.igt` file.

pub mod kernel;
