//! Which files are worth a look, by their names.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Names before the first `.` or `-` (wheels insert a hash: `libcudart-9335f6a2.so.12`).
const STEMS: [&[u8]; 2] = [b"libcudart", b"libcuda"];

/// Whether a file name is one of a CUDA runtime or driver library.
///
/// ```
/// use ingero_record::library::kind::is_cuda_library;
/// assert!(is_cuda_library("libcudart.so.13".as_ref()));
/// assert!(is_cuda_library("libcuda.so.580.159".as_ref()));
/// assert!(!is_cuda_library("libcudadevrt.a".as_ref()));
/// ```
#[must_use]
pub fn is_cuda_library(name: &OsStr) -> bool {
    let name = name.as_bytes();
    let end = name.iter().position(|b| matches!(b, b'.' | b'-')).unwrap_or(name.len());
    let (stem, rest) = name.split_at(end);
    STEMS.contains(&stem) && rest.windows(3).any(|w| w == b".so")
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
