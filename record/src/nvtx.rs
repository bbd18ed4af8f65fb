//! Making NVTX 3 of a command visible: it is told of a library (`nvtx/injection.rs`) whose functions can be probed.

use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// The variable by which NVTX 3 is told of a tool.
pub const VARIABLE: &str = "NVTX_INJECTION64_PATH";

/// The library, as `build.rs` has built it.
const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/ingero-nvtx.so"));
/// Its file's name.
const NAME: &str = "libingeronvtx.so";

/// Places for the library, the first that a program can be run from.
const PLACES: [&str; 3] = ["/dev/shm", "/var/tmp", "/run"];

/// The library on disk, for as long as this value lives.
#[derive(Debug)]
pub struct Injection {
    path: PathBuf,
    folder: TempDir,
}

/// Why a command's NVTX 3 stays unseen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unseen {
    /// Another tool is asked for.
    Taken(OsString),
    /// The library found no place.
    NoPlace(String),
}

impl std::fmt::Display for Unseen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Taken(by) => write!(f, "{VARIABLE} is set to {}", by.display()),
            Self::NoPlace(why) => write!(f, "no place for its library: {why}"),
        }
    }
}

impl Injection {
    /// Lays the library where anyone can load it. `present`: what [`VARIABLE`] says already.
    ///
    /// # Errors
    /// When it stays unseen: a recording without these ranges is a recording.
    pub fn offer(present: Option<&OsStr>) -> Result<Self, Unseen> {
        if let Some(present) = present.filter(|p| !p.is_empty()) {
            return Err(Unseen::Taken(present.to_owned()));
        }
        let places = std::iter::once(std::env::temp_dir()).chain(PLACES.iter().map(PathBuf::from));
        let mut why = String::new();
        for place in places {
            match Self::lay(&place) {
                Ok(laid) => return Ok(laid),
                Err(e) => why += &format!("{}{}: {e}", if why.is_empty() { "" } else { "; " }, place.display()),
            }
        }
        Err(Unseen::NoPlace(why))
    }

    fn lay(place: &Path) -> io::Result<Self> {
        if is_noexec(place)? {
            return Err(io::Error::other("mounted noexec"));
        }
        // Whoever the command runs as: read and executed, but changed by nobody.
        let all = Permissions::from_mode(0o755);
        let folder = tempfile::Builder::new().prefix("ingero-nvtx-").permissions(all.clone()).tempdir_in(place)?;
        let path = folder.path().join(NAME);
        fs::write(&path, LIBRARY)?;
        // The umask has had its say in both.
        fs::set_permissions(folder.path(), all.clone())?;
        fs::set_permissions(&path, all)?;
        Ok(Self { path, folder })
    }

    /// Where the library is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves it there, for a command that runs on.
    pub fn leave(self) {
        let _ = self.folder.keep();
    }
}

fn is_noexec(place: &Path) -> io::Result<bool> {
    let path = std::ffi::CString::new(place.as_os_str().as_bytes())?;
    // SAFETY: plain numbers, for which zeros are a value.
    let mut facts: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: a zero-terminated path and a place for the answer.
    if unsafe { libc::statvfs(path.as_ptr(), &raw mut facts) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(facts.f_flag & libc::ST_NOEXEC != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    use ingero_format::catalog::{FUNCTIONS, Layer};

    use crate::library::elf::Elf;
    use crate::library::kind::is_cuda_library;

    #[test]
    fn the_library_goes_with_its_value_unless_it_is_left() {
        let offered = Injection::offer(None).unwrap();
        let (path, folder) = (offered.path().to_path_buf(), offered.folder.path().to_path_buf());
        assert_eq!(fs::read(&path).unwrap(), LIBRARY);
        drop(offered);
        assert!(!folder.exists());
        let offered = Injection::offer(Some("".as_ref())).unwrap();
        let (path, folder) = (offered.path().to_path_buf(), offered.folder.path().to_path_buf());
        offered.leave();
        assert!(path.exists());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn another_tool_keeps_its_place() {
        let unseen = Injection::offer(Some("/opt/nsight/libToolsInjection64.so".as_ref())).unwrap_err();
        assert_eq!(unseen.to_string(), "NVTX_INJECTION64_PATH is set to /opt/nsight/libToolsInjection64.so");
    }

    #[test]
    fn each_function_has_a_place_of_its_own_where_a_probe_is_cheap() {
        let offered = Injection::offer(None).unwrap();
        assert!(is_cuda_library(offered.path().file_name().unwrap()));
        let elf = Elf::read(&File::open(offered.path()).unwrap()).unwrap();
        let mut places: Vec<_> = elf.points.iter().map(|p| p.attach_offset).collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), elf.points.len(), "two names for one function");
        let mut symbols: Vec<_> = elf.points.iter().map(|p| FUNCTIONS[p.function].symbol).collect();
        symbols.sort_unstable();
        // Wide texts go through the plain functions.
        let mut due: Vec<_> = FUNCTIONS.iter().filter(|f| f.layer == Layer::Nvtx).map(|f| f.symbol).collect();
        due.retain(|symbol| !symbol.ends_with('W'));
        due.sort_unstable();
        assert_eq!(symbols, due);
        #[cfg(target_arch = "x86_64")]
        for point in &elf.points {
            let at = usize::try_from(point.attach_offset).unwrap();
            assert_eq!(LIBRARY[at], 0x55, "{}: push %rbp", FUNCTIONS[point.function].symbol);
        }
    }
}
