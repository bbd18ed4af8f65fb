//! Builds the BPF object: compiles `programs/` to LLVM bitcode with the toolchain at hand, then turns that
//! into BPF code with the libLLVM that the same toolchain ships. No clang, no nightly, no bpf-linker.
//!
//! `INGERO_BPF_PREBUILT=1` takes the committed object instead; so does, with a warning, a toolchain that
//! has no libLLVM to load.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

#[path = "build/link.rs"]
mod link;

type Failure = Box<dyn std::error::Error>;

const PREBUILT: &str = "prebuilt/ingero.bpf.o";
/// The object knows the registers of one processor; the committed one is for this.
const PREBUILT_ARCH: &str = "x86_64";

fn main() -> Result<(), Failure> {
    let here = PathBuf::from(var("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(var("OUT_DIR")?);
    for watched in ["build.rs", "build", "programs", "common", PREBUILT, "../Cargo.toml"] {
        println!("cargo::rerun-if-changed={}", here.join(watched).display());
    }
    println!("cargo::rerun-if-env-changed=INGERO_BPF_PREBUILT");
    println!("cargo::rustc-check-cfg=cfg(bpf_from_source)");

    let object = out.join("ingero.bpf.o");
    let reason = if env::var("INGERO_BPF_PREBUILT").is_ok_and(|value| value == "1") {
        Some("INGERO_BPF_PREBUILT=1".to_owned())
    } else {
        find_llvm()?.err()
    };
    if let Some(reason) = reason {
        let arch = var("CARGO_CFG_TARGET_ARCH")?;
        if arch != PREBUILT_ARCH {
            return Err(format!("{reason}; but the committed BPF object is for {PREBUILT_ARCH}, not {arch}").into());
        }
        println!("cargo::warning=using the committed BPF object {PREBUILT}: {reason}");
        fs::copy(here.join(PREBUILT), &object)
            .map_err(|error| format!("cannot copy {PREBUILT}: {error}; restore it with git"))?;
        return Ok(());
    }
    let bitcode = compile(&here.join("programs"), &out.join("bpf-target"))?;
    link::link(&find_llvm()??, &bitcode, &object)?;
    check_symbols(&object)?;
    println!("cargo::rustc-cfg=bpf_from_source");
    Ok(())
}

fn var(name: &str) -> Result<String, Failure> {
    env::var(name).map_err(|error| format!("{name}: {error}; cargo sets it").into())
}

/// The toolchain's own libLLVM, or why there is none that loads.
fn find_llvm() -> Result<Result<PathBuf, String>, Failure> {
    let sysroot = Command::new(var("RUSTC")?).args(["--print", "sysroot"]).output()?;
    let lib = Path::new(String::from_utf8(sysroot.stdout)?.trim()).join("lib");
    let mut found: Vec<_> = fs::read_dir(&lib)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libLLVM.so")))
        .collect();
    found.sort();
    Ok(match found.pop() {
        None => Err(format!("no libLLVM.so* in {}", lib.display())),
        Some(path) => match link::can_load(&path) {
            Ok(()) => Ok(path),
            Err(error) => Err(format!("{}: {error}", path.display())),
        },
    })
}

/// Compiles for the machine that the recorder runs on: only its register names matter, the code generator
/// has not run yet. Returns the bitcode file.
fn compile(programs: &Path, target_dir: &Path) -> Result<PathBuf, Failure> {
    let mut cargo = Command::new(var("CARGO")?);
    cargo
        .args(["rustc", "--quiet", "--profile", "bpf", "--lib", "--manifest-path"])
        .arg(programs.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target_dir);
    let mut deps = target_dir.to_owned();
    let target = var("TARGET")?;
    if target != var("HOST")? {
        cargo.args(["--target", &target]);
        deps.push(&target);
    }
    deps.push("bpf/deps");
    // Without optimisation here: LLVM's passes for the host make code that the verifier refuses.
    cargo.args(["--", "--emit=llvm-bc", "-Cno-prepopulate-passes", "--cfg=bpf_build"]);
    for name in [
        "CARGO_BUILD_TARGET",
        "CARGO_ENCODED_RUSTFLAGS",
        "RUSTFLAGS",
        "RUSTC",
        "RUSTC_WRAPPER",
        "RUSTC_WORKSPACE_WRAPPER",
    ] {
        cargo.env_remove(name);
    }
    // The same bytes whatever the builder's habits: incremental compilation would cut the crate into other units, and the settings of
    // a profile can be given by the environment too.
    cargo.env("CARGO_INCREMENTAL", "0");
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("CARGO_PROFILE_") {
            cargo.env_remove(name);
        }
    }
    if !cargo.status()?.success() {
        return Err(format!("compiling {} for BPF failed", programs.display()).into());
    }
    let mut newest = None;
    for entry in fs::read_dir(&deps)? {
        let path = entry?.path();
        let is_ours = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("ingero_ebpf_programs-"));
        if is_ours && path.extension().is_some_and(|extension| extension == "bc") {
            newest = newest.max(Some((fs::metadata(&path)?.modified()?, path)));
        }
    }
    Ok(newest.ok_or_else(|| format!("no bitcode in {}", deps.display()))?.1)
}

/// A panic that is still there would make the verifier refuse the program that holds it, with a message
/// that says nothing. So does a function that nobody defines.
fn check_symbols(object: &Path) -> Result<(), Failure> {
    use object::{Object, ObjectSymbol};
    let bytes = fs::read(object)?;
    let parsed = object::File::parse(&*bytes)?;
    for symbol in parsed.symbols() {
        let name = symbol.name()?;
        if name.contains("panicking") || name.contains("panic_fmt") {
            return Err(format!("a BPF program can panic: symbol {name} remains").into());
        }
        if symbol.is_undefined() && !name.is_empty() {
            return Err(format!("a BPF program calls {name}, which is not there").into());
        }
    }
    Ok(())
}
