//! The committed object is what the sources give: nobody has to trust a binary.

#[test]
fn committed_object_is_the_built_one() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/prebuilt/ingero.bpf.o");
    let committed = std::fs::read(path).unwrap();
    assert!(
        ingero_ebpf::OBJECT == committed,
        "{path} differs from the object built here ({} and {} bytes): if the sources changed on purpose, run \
         cargo run -p ingero-ebpf --example refresh_prebuilt",
        committed.len(),
        ingero_ebpf::OBJECT.len()
    );
}
