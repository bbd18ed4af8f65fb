//! What `/proc` says. Everything here takes hostile text: names hold any byte, files vanish at any time.

pub mod affinity;
pub mod cgroup;
pub mod clock;
pub mod maps;
pub mod pressure;
pub mod process;
pub mod stat;
pub mod system;
