//! `/proc/PID/maps`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Where a mapped file lives, as `/proc/PID/maps` tells it. Some file systems (btrfs, overlayfs) show other
/// device numbers here than `stat` does, so this identifies a file only among mappings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MappedInode {
    /// Major device number.
    pub major: u32,
    /// Minor device number.
    pub minor: u32,
    /// Inode number.
    pub inode: u64,
}

/// One file-backed, executable mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// Address behind the last.
    pub end: u64,
    /// Place in the file of the first byte.
    pub offset: u64,
    /// The file.
    pub inode: MappedInode,
    /// Its path as the process saw it when it was mapped, unescaped.
    pub path: PathBuf,
    /// The path leads there no longer.
    pub deleted: bool,
}

impl Mapping {
    /// Name of the link below `/proc/PID/map_files` that opens the very file, whatever its path says now.
    #[must_use]
    pub fn link_name(&self) -> String {
        format!("{:x}-{:x}", self.start, self.end)
    }
}

/// Parses the executable file mappings out of a maps file. Lines that make no sense are left out.
///
/// ```
/// use ingero_record::proc::maps::parse_maps;
/// let maps = b"7f00-8f00 r-xp 00001000 fd:01 42   /lib/lib cuda.so (deleted)\n";
/// let found = parse_maps(maps);
/// assert_eq!(found[0].path.to_str(), Some("/lib/lib cuda.so"));
/// assert!(found[0].deleted);
/// ```
#[must_use]
pub fn parse_maps(text: &[u8]) -> Vec<Mapping> {
    text.split(|&b| b == b'\n').filter_map(parse_line).collect()
}

fn parse_line(line: &[u8]) -> Option<Mapping> {
    let mut rest = line;
    let mut word = || {
        let end = rest.iter().position(|&b| b == b' ')?;
        let (word, tail) = rest.split_at(end);
        rest = tail.get(1..)?;
        std::str::from_utf8(word).ok()
    };
    let (start, end) = word()?.split_once('-')?;
    let permissions = word()?;
    let offset = u64::from_str_radix(word()?, 16).ok()?;
    let (major, minor) = word()?.split_once(':')?;
    // The inode is followed by blanks up to a column, then the path: both may be missing.
    let inode = word()?.parse().ok()?;
    let path = rest.trim_ascii_start();
    if permissions.as_bytes().get(2) != Some(&b'x') || inode == 0 || path.first() != Some(&b'/') {
        return None;
    }
    let (path, deleted) = match path.strip_suffix(b" (deleted)") {
        Some(path) => (path, true),
        None => (path, false),
    };
    Some(Mapping {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        offset,
        inode: MappedInode {
            major: u32::from_str_radix(major, 16).ok()?,
            minor: u32::from_str_radix(minor, 16).ok()?,
            inode,
        },
        path: PathBuf::from(OsString::from_vec(unescape(path))),
        deleted,
    })
}

/// The kernel writes a newline in a path as `\012` and nothing else escaped.
fn unescape(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((&first, tail)) = rest.split_first() {
        if let Some(tail) = rest.strip_prefix(br"\012") {
            out.push(b'\n');
            rest = tail;
        } else {
            out.push(first);
            rest = tail;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_kernel_writes() {
        let text = b"\
55d0c0a00000-55d0c0a20000 r--p 00000000 fd:00 131                        /usr/bin/a
55d0c0a20000-55d0c0a40000 r-xp 00020000 fd:00 131                        /usr/bin/a
7f5b0000-7f5c0000 r-xp 00000000 00:2a 18446744073709551615               /opt/new\\012line (deleted)
7f5d0000-7f5e0000 rwxp 00000000 00:00 0 \n\
7f5d0000-7f5e0000 r-xp 00000000 00:00 0                                  [vdso]
7f5d0000-7f5e0000 r-xs 00000000 00:01 99                                 anon_inode:[perf]
7f5f0000-7f600000 r-xp 00000000 103:0a 7                                 /dir with  blanks/x";
        let found = parse_maps(text);
        assert_eq!(found.len(), 3);
        assert_eq!(found[0].link_name(), "55d0c0a20000-55d0c0a40000");
        assert_eq!(found[0].path.to_str(), Some("/usr/bin/a"));
        assert_eq!(found[0].offset, 0x20000);
        assert_eq!(found[1].path.to_str(), Some("/opt/new\nline"));
        assert_eq!(found[1].inode.inode, u64::MAX);
        assert!(found[1].deleted && !found[0].deleted);
        assert_eq!(found[2].path.to_str(), Some("/dir with  blanks/x"));
        assert_eq!((found[2].inode.major, found[2].inode.minor), (0x103, 10));
    }

    #[test]
    fn a_process_reads_itself() {
        let found = parse_maps(&std::fs::read("/proc/self/maps").unwrap());
        let exe = std::env::current_exe().unwrap();
        assert!(found.iter().any(|m| m.path == exe));
    }

    #[test]
    fn nonsense_yields_nothing() {
        for text in [
            &b""[..],
            b"\n\n",
            b"-",
            b"zz-yy r-xp 0 0:0 1 /x",
            b"1-2 r-xp 0 0:0 x /x",
            b"1-2 r-x",
            b"1-2 r-xp 0 0:0 99999999999999999999 /x",
            b"\xff\xfe-\x00 r-xp 0 0:0 1 /x",
        ] {
            assert_eq!(parse_maps(text), [], "{text:?}");
        }
        let line = b"1-2 r-xp 0 0:0 1 /a\\012\\01\xff";
        for cut in 0..line.len() {
            let _ = parse_maps(&line[..cut]);
        }
        assert_eq!(parse_maps(line)[0].path, PathBuf::from(OsString::from_vec(b"/a\n\\01\xff".to_vec())));
    }
}
