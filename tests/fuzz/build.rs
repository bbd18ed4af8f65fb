//! Puts the recordings and captures of the repository into the program, so that it runs anywhere.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a build fails by panicking")]

use std::path::{Path, PathBuf};

/// Folders, from the root of the repository.
const FOLDERS: [&str; 3] = ["benches/data", "investigations", "tests/corpus"];

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    let mut folders: Vec<PathBuf> = FOLDERS.iter().map(|f| root.join(f)).collect();
    while let Some(folder) = folders.pop() {
        println!("cargo:rerun-if-changed={}", folder.display());
        for entry in std::fs::read_dir(&folder).expect("a folder of seeds").map(Result::unwrap) {
            let path = entry.path();
            let name = path.to_string_lossy();
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".igt") || name.ends_with(".trace.txt.xz") {
                files.push(path.canonicalize().expect("a seed"));
            }
        }
    }
    files.sort();
    let list: Vec<String> =
        files.iter().map(|f| format!("({:?}, include_bytes!({f:?}))", f.file_name().unwrap())).collect();
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("OUT_DIR")).join("seeds.rs");
    std::fs::write(out, format!("&[{}]", list.join(",\n"))).expect("cannot write the list of seeds");
}
