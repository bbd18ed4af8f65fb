//! Builds the library that NVTX 3 loads into a recorded program. It goes into the recorder, which lays it down where it is needed.

use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

const SOURCE: &str = "nvtx/injection.rs";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={SOURCE}");
    println!("cargo::rerun-if-changed=build.rs");
    let source = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join(SOURCE);
    let built = PathBuf::from(env::var("OUT_DIR")?).join("ingero-nvtx.so");
    let mut rustc = Command::new(env::var("RUSTC")?);
    rustc.args(["--edition", "2024", "--crate-type", "cdylib", "--crate-name", "ingeronvtx"]);
    rustc.args(["--target", &env::var("TARGET")?, "-C", "opt-level=2", "-C", "panic=abort", "-C", "strip=symbols"]);
    // The cheapest place for a probe is the `push` of the frame pointer, which the kernel need not step over.
    rustc.args(["-C", "force-frame-pointers=yes"]);
    rustc.args(["-C", "link-arg=-nostdlib", "-C", "link-arg=-nostartfiles"]);
    // Its functions have the names that NVTX's own have in a program: it must never get to those, which would call it again.
    rustc.args(["-C", "link-arg=-Wl,-Bsymbolic"]);
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        let mut option = OsString::from("linker=");
        option.push(linker);
        rustc.arg("-C").arg(option);
    }
    let status = rustc.arg("-o").arg(&built).arg(&source).status()?;
    if !status.success() {
        return Err(format!("rustc failed to build {SOURCE}: {status}").into());
    }
    Ok(())
}
