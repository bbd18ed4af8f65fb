//! The BPF object of the recorder, as bytes to load.
//!
//! Place in the flow: `build.rs` compiles `programs/` into the object, `ingero-record` loads it. The same
//! object is committed as `prebuilt/ingero.bpf.o`, for toolchains that cannot build it; a test compares the
//! two. After a change to `programs/` or `common/`:
//!
//! ```text
//! cargo run -p ingero-ebpf --example refresh_prebuilt
//! ```
//!
//! ```
//! assert_eq!(ingero_ebpf::OBJECT.get(..4), Some(b"\x7fELF".as_slice()));
//! ```
#![forbid(unsafe_code)]

/// An ELF file for the BPF machine. Aligned as its 64-bit fields want it.
pub static OBJECT: &[u8] = &ALIGNED.bytes;

/// Whether [`OBJECT`] was built from source here, or is the committed one.
pub const FROM_SOURCE: bool = cfg!(bpf_from_source);

#[repr(C, align(16))]
struct Aligned<const N: usize> {
    bytes: [u8; N],
}

const SIZE_BYTES: usize = include_bytes!(concat!(env!("OUT_DIR"), "/ingero.bpf.o")).len();

static ALIGNED: Aligned<SIZE_BYTES> = Aligned { bytes: *include_bytes!(concat!(env!("OUT_DIR"), "/ingero.bpf.o")) };
