//! Recordings on disk, of hosts whose clocks are held against one moment.

use std::path::Path;

use ingero_format::Trace;

/// The wall clock at that moment, Unix nanoseconds.
pub(crate) const WALL: u64 = 1_700_000_000_000_000_000;

/// Writes a recording into a folder, and opens it.
pub(crate) fn put(dir: &Path, name: &str, bytes: &[u8]) -> Trace {
    let path = dir.join(name);
    std::fs::write(&path, bytes).unwrap();
    Trace::open(path).unwrap()
}
