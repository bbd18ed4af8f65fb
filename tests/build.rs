//! Builds the stand-in CUDA with the C compiler and lays it where both the tests and a person find it: `target/standin/`.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Every exported function has to begin with `push %rbp`, as NVIDIA's do: a probe on another first instruction costs ten times
/// as much, and measurements on the stand-in would mislead. So: frame pointers everywhere, no `endbr64`, prologues kept at the
/// top, and no two functions folded into one.
const FLAGS: &[&str] = &[
    "-std=gnu11",
    "-Wall",
    "-Wextra",
    "-g1",
    "-O1",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-omit-frame-pointer",
    "-fno-shrink-wrap",
    "-fno-schedule-insns2",
    "-fno-ipa-icf",
];
#[cfg(target_arch = "x86_64")]
const FLAGS_OF_ARCH: &[&str] = &["-mno-omit-leaf-frame-pointer", "-fcf-protection=none"];
#[cfg(not(target_arch = "x86_64"))]
const FLAGS_OF_ARCH: &[&str] = &[];

const ORIGIN: &str = "-Wl,-rpath,$ORIGIN";

/// What is built, in order: output, sources, further arguments.
const OUTPUTS: &[(&str, &[&str], &[&str])] = &[
    ("libcuda.so.1", &["libcuda.c"], &["-shared", "-Wl,-soname,libcuda.so.1"]),
    (
        "libcudart.so.13",
        &["libcudart.c"],
        &["-shared", "-Wl,-soname,libcudart.so.13", "-Wl,--version-script,libcudart.map", "-l:libcuda.so.1", ORIGIN],
    ),
    ("standin", &["driver.c", "report.c"], &["-l:libcudart.so.13", "-l:libcuda.so.1", "-pthread", ORIGIN]),
    ("standin-scenes", &["scenes.c", "report.c"], &["-l:libcudart.so.13", "-l:libcuda.so.1", "-pthread", ORIGIN]),
    ("libnccl.so.2", &["libnccl.c"], &["-shared", "-Wl,-soname,libnccl.so.2"]),
    ("libnvToolsExt.so.1", &["libnvtx.c"], &["-shared", "-Wl,-soname,libnvToolsExt.so.1"]),
    (
        "standin-comms",
        &["comms.c"],
        &["-l:libnccl.so.2", "-l:libnvToolsExt.so.1", "-l:libcudart.so.13", "-l:libcuda.so.1", "-pthread", ORIGIN],
    ),
    ("standin-late", &["late.c", "report.c"], &["-ldl"]),
    // The runtime linked statically: its symbols are in the executable's .symtab alone ...
    ("standin-static", &["driver.c", "report.c", "libcudart.c"], &["-l:libcuda.so.1", "-pthread", ORIGIN]),
    // ... or nowhere.
    ("standin-stripped", &["driver.c", "report.c", "libcudart.c"], &["-s", "-l:libcuda.so.1", "-pthread", ORIGIN]),
];

fn main() -> Result<(), Box<dyn Error>> {
    let sources = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("standin");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    println!("cargo:rerun-if-changed=standin");
    println!("cargo:rerun-if-env-changed=CC");

    // OUT_DIR is TARGET/PROFILE/build/PACKAGE-HASH/out.
    let stable = out.ancestors().nth(4).ok_or("OUT_DIR is not inside a target directory")?.join("standin");
    fs::create_dir_all(&stable)?;
    let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());

    for (output, inputs, more) in OUTPUTS {
        let built = out.join(output);
        let status = Command::new(&compiler)
            .current_dir(&sources)
            .args(FLAGS)
            .args(FLAGS_OF_ARCH)
            .arg("-o")
            .arg(&built)
            .args(*inputs)
            .arg("-L")
            .arg(&out)
            .args(*more)
            .status()
            .map_err(|e| format!("{}: {e}; a C compiler is needed", compiler.display()))?;
        if !status.success() {
            return Err(format!("{} failed to build {output}: {status}", compiler.display()).into());
        }
        install(&built, &stable.join(output))?;
    }
    println!("cargo:rustc-env=STANDIN_BUILT={}", out.display());
    println!("cargo:rustc-env=STANDIN_STABLE={}", stable.display());
    Ok(())
}

/// Replaces `to` by rename, and only if it differs: a program that runs from there keeps its file, probes keep their inode.
fn install(from: &Path, to: &Path) -> Result<(), Box<dyn Error>> {
    let bytes = fs::read(from)?;
    if fs::read(to).is_ok_and(|present| present == bytes) {
        return Ok(());
    }
    let temporary = to.with_extension(format!("tmp{}", std::process::id()));
    fs::copy(from, &temporary)?;
    fs::rename(&temporary, to)?;
    Ok(())
}
