//! Which files are worth a look, by their names.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Names before the first `.` or `-` (wheels insert a hash: `libcudart-9335f6a2.so.12`).
const STEMS: [&[u8]; 5] = [b"libcudart", b"libcuda", b"libnccl", NVTX_2, NVTX_3];
/// NVTX 2, and the library by which NVTX 3 is seen ([`nvtx`](crate::nvtx)).
const NVTX_2: &[u8] = b"libnvToolsExt";
const NVTX_3: &[u8] = b"libingeronvtx";

/// Whether a file name is one of a library that has probed functions: the CUDA runtime, its driver, NCCL, NVTX.
///
/// ```
/// use ingero_record::library::kind::is_cuda_library;
/// assert!(is_cuda_library("libcudart.so.13".as_ref()));
/// assert!(is_cuda_library("libcuda.so.580.159".as_ref()));
/// assert!(!is_cuda_library("libcudadevrt.a".as_ref()));
/// ```
#[must_use]
pub fn is_cuda_library(name: &OsStr) -> bool {
    stem(name).is_some_and(|stem| STEMS.contains(&stem))
}

/// Whether the name is one of a library of NVTX.
#[must_use]
pub fn is_nvtx_library(name: &OsStr) -> bool {
    stem(name).is_some_and(|stem| [NVTX_2, NVTX_3].contains(&stem))
}

/// Of a shared library's name the part that tells which it is.
fn stem(name: &OsStr) -> Option<&[u8]> {
    let name = name.as_bytes();
    let end = name.iter().position(|b| matches!(b, b'.' | b'-')).unwrap_or(name.len());
    let (stem, rest) = name.split_at(end);
    rest.windows(3).any(|w| w == b".so").then_some(stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for yes in
            ["libcudart.so", "libcudart.so.12.9.79", "libcudart-9335f6a2.so.12", "libcuda.so.1", "libcuda-abc.so"]
        {
            assert!(is_cuda_library(yes.as_ref()), "{yes}");
        }
        for no in [
            "libcudart_static.a",
            "libcudart",
            "libcudart.a",
            "xlibcuda.so",
            "libcudadebugger.so.1",
            "libcudnn.so.9",
            "",
            ".so",
        ] {
            assert!(!is_cuda_library(no.as_ref()), "{no}");
        }
    }
}
