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
    /// Probed functions of NCCL.
    pub nccl: usize,
    /// Probed functions of NVTX.
    pub nvtx: usize,
    /// A program or library that holds the runtime itself.
    pub is_static: bool,
    /// A process of the recording has it mapped.
    pub mapped: bool,
}

/// Numbers of functions per layer: runtime, driver, NCCL, NVTX.
#[must_use]
pub fn count_layers(points: &[Point]) -> [usize; 4] {
    let of = |layer| points.iter().filter(|p| FUNCTIONS.get(p.function).is_some_and(|f| f.layer == layer)).count();
    [Layer::Runtime, Layer::Driver, Layer::Nccl, Layer::Nvtx].map(of)
}

impl Attached {
    /// Whether it has functions whose calls are recorded as such: NVTX alone has none.
    #[must_use]
    pub fn has_calls(&self) -> bool {
        self.runtime + self.driver + self.nccl > 0 || self.nvtx == 0
    }

    /// How many functions of what are probed, for people.
    #[must_use]
    pub fn functions(&self) -> String {
        let layers = [(self.runtime, "runtime"), (self.driver, "driver"), (self.nccl, "NCCL"), (self.nvtx, "NVTX")];
        let words: Vec<String> =
            layers.iter().filter(|(count, _)| *count > 0).map(|(count, name)| format!("{count} {name}")).collect();
        format!("{} functions", if words.is_empty() { "0".to_owned() } else { words.join(", ") })
    }

    /// One line for the metadata.
    #[must_use]
    pub fn describe(&self) -> String {
        format!(
            "path={} dev={} inode={} build_id={} runtime={} driver={} nccl={} nvtx={} static={} mapped={}",
            self.path.display(),
            self.inode.0,
            self.inode.1,
            if self.build_id.is_empty() { "-" } else { &self.build_id },
            self.runtime,
            self.driver,
            self.nccl,
            self.nvtx,
            u8::from(self.is_static),
            u8::from(self.mapped),
        )
    }
}
