//! What `/proc` says of one process.

use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::stat::Stat;

/// Longest command line that is kept; longer ones are cut.
const ARGS_BYTES: usize = 4096;

/// A process as it was at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessNow {
    /// Its main thread.
    pub stat: Stat,
    /// Executable; unknown for kernel threads.
    pub exe: Option<Vec<u8>>,
    /// Arguments joined by spaces; unknown for kernel threads.
    pub args: Option<Vec<u8>>,
}

/// Reads a process; `None` when there is none (any more).
#[must_use]
pub fn read_process(pid: u32) -> Option<ProcessNow> {
    let stat = Stat::parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)?;
    let exe = fs::read_link(format!("/proc/{pid}/exe")).ok().map(|p| p.into_os_string().into_vec());
    let args =
        read_bounded(&format!("/proc/{pid}/cmdline"), ARGS_BYTES).filter(|bytes| !bytes.is_empty()).map(join_args);
    Some(ProcessNow { stat, exe, args })
}

/// Reads a thread's stat; `None` when there is none (any more).
#[must_use]
pub fn read_thread(pid: u32, tid: u32) -> Option<Stat> {
    Stat::parse(&fs::read(format!("/proc/{pid}/task/{tid}/stat")).ok()?)
}

/// The process that a thread (or process) belongs to, from `/proc/TID/status`.
#[must_use]
pub fn read_group(tid: u32) -> Option<u32> {
    let status = fs::read(format!("/proc/{tid}/status")).ok()?;
    // The name comes first and its line breaks are escaped, so no name can fake this line.
    let line = status.split(|&b| b == b'\n').find_map(|l| l.strip_prefix(b"Tgid:"))?;
    std::str::from_utf8(line).ok()?.trim().parse().ok()
}

/// Numbers among the names of a directory: processes of `/proc`, threads of `/proc/PID/task`.
#[must_use]
pub fn list_ids(dir: &str) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Vec::new();
    };
    let mut ids: Vec<u32> = entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok()).collect();
    ids.sort_unstable();
    ids
}

fn read_bounded(path: &str, limit: usize) -> Option<Vec<u8>> {
    use std::io::Read;
    let mut bytes = Vec::new();
    let limit = u64::try_from(limit).ok()?;
    fs::File::open(path).ok()?.take(limit).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Arguments are separated and ended by zero bytes; a program may have written other text there.
fn join_args(mut bytes: Vec<u8>) -> Vec<u8> {
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    for b in &mut bytes {
        if *b == 0 {
            *b = b' ';
        }
    }
    bytes
}

/// Arguments joined by spaces, as [`ProcessNow::args`] has them.
pub fn join_words<S: AsRef<std::ffi::OsStr>>(words: &[S]) -> Vec<u8> {
    words.iter().map(|w| w.as_ref().as_bytes()).collect::<Vec<_>>().join(&b' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_reads_itself() {
        let me = std::process::id();
        let now = read_process(me).unwrap();
        assert_eq!(now.stat.tid, me);
        let exe = std::env::current_exe().unwrap();
        assert_eq!(now.exe.unwrap(), exe.as_os_str().as_bytes());
        assert!(!now.args.unwrap().is_empty());
        assert_eq!(read_group(me), Some(me));
        assert!(list_ids("/proc").contains(&me));
        let tids = list_ids("/proc/self/task");
        assert!(tids.iter().all(|&t| read_group(t) == Some(me)));
        assert!(tids.contains(&me));
    }

    #[test]
    fn what_is_not_there_is_none() {
        assert_eq!(read_process(u32::MAX), None);
        assert_eq!(read_thread(1, u32::MAX), None);
        assert_eq!(read_group(u32::MAX), None);
        assert_eq!(list_ids("/nonexistent"), Vec::<u32>::new());
    }

    #[test]
    fn arguments() {
        assert_eq!(join_args(b"a\0b c\0\0".to_vec()), b"a b c");
        assert_eq!(join_args(b"\0\0".to_vec()), b"");
        assert_eq!(join_args(b"title: x".to_vec()), b"title: x");
        assert_eq!(join_words(&["a", "b c"]), b"a b c");
    }
}
