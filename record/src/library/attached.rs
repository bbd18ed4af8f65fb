//! What was attached to, for the file's metadata and the summary.

use std::path::PathBuf;

use ingero_format::catalog::{FUNCTIONS, Layer};

use super::elf::Point;

/// A file with probes on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attached {
    /// Path under which it was found.
    pub path: PathBuf,
    /// Device and inode.
    pub inode: (u64, u64),
    /// Build id, in hexadecimal; empty when it has none.
    pub build_id: String,
    /// Probed functions of the runtime.
    pub runtime: usize,
    /// Probed functions of the driver.
    pub driver: usize,
    /// A program or library that holds the runtime itself.
    pub is_static: bool,
    /// A process of the recording has it mapped.
    pub mapped: bool,
}

/// Numbers of functions per layer: runtime, driver.
#[must_use]
pub fn count_layers(points: &[Point]) -> (usize, usize) {
    let of = |layer| points.iter().filter(|p| FUNCTIONS.get(p.function).is_some_and(|f| f.layer == layer)).count();
    (of(Layer::Runtime), of(Layer::Driver))
}

impl Attached {
    /// One line for the metadata.
    #[must_use]
    pub fn describe(&self) -> String {
        format!(
            "path={} dev={} inode={} build_id={} runtime={} driver={} static={} mapped={}",
            self.path.display(),
            self.inode.0,
            self.inode.1,
            if self.build_id.is_empty() { "-" } else { &self.build_id },
            self.runtime,
            self.driver,
            u8::from(self.is_static),
            u8::from(self.mapped),
        )
    }
}
