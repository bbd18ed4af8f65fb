//! Replaces the committed BPF object by the one that this build made.

use std::path::Path;

fn main() -> std::io::Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("prebuilt/ingero.bpf.o");
    if !ingero_ebpf::FROM_SOURCE {
        return Err(std::io::Error::other("this build took the committed object; unset INGERO_BPF_PREBUILT"));
    }
    std::fs::write(&path, ingero_ebpf::OBJECT)?;
    println!("{}: {} bytes", path.display(), ingero_ebpf::OBJECT.len());
    Ok(())
}
