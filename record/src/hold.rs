//! The thread that looks into programs before their first instruction, while the kernel holds them.
//!
//! A program that is linked with a copy of a library which nobody could know of (another folder, another mount namespace)
//! would call into it before a probe is there: it is loaded and called within a millisecond. So the first start of every
//! program file below the command is held by SIGSTOP at its exec, the files that it is linked with are probed, and it
//! goes on. What is loaded later by dlopen is not covered, nor is a program whose libraries change between two starts.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::drain::go_first;
use crate::kernel::Hold;
use crate::library::discovery::{Discovery, lock};
use crate::library::prescan::{Loader, linked_files};

/// Longest time without a look whether to stop.
const ROUND: Duration = Duration::from_millis(100);

/// Lets everyone go who is held, in the end too.
struct Held<'h> {
    hold: &'h mut Hold,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.hold.stop();
        while let Some(held) = self.hold.next_held() {
            resume(held.tgid);
        }
    }
}

/// Looks into each program that is held and lets it go, until `stopped`. Returns how many there were.
pub fn run(mut hold: Hold, discovery: &Mutex<Discovery>, stopped: &AtomicBool) -> u64 {
    go_first(-20);
    let held = Held { hold: &mut hold };
    let mut count = 0;
    while !stopped.load(Ordering::Acquire) {
        if held.hold.wait(ROUND).is_err() {
            break;
        }
        while let Some(one) = held.hold.next_held() {
            count += 1;
            let files = loader_of(one.tgid).map(|loader| linked_files(&loader)).unwrap_or_default();
            lock(discovery).look_into(&files);
            // Should that fail, it is held once more: no harm.
            let _ = held.hold.remember(&one);
            resume(one.tgid);
        }
    }
    count
}

fn resume(pid: u32) {
    if let Ok(pid) = libc::pid_t::try_from(pid) {
        // SAFETY: no pointers.
        unsafe { libc::kill(pid, libc::SIGCONT) };
    }
}

/// What the loader of a process will go by.
fn loader_of(pid: u32) -> Option<Loader> {
    let link = |name: &str| fs::read_link(format!("/proc/{pid}/{name}")).ok();
    let root = PathBuf::from(format!("/proc/{pid}/root"));
    let namespace = |pid: &str| fs::metadata(format!("/proc/{pid}/ns/mnt")).ok().map(|m| m.ino());
    let same = namespace("self") == namespace(&pid.to_string()) && link("root").is_some_and(|r| r == Path::new("/"));
    let env = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    Some(Loader {
        program: link("exe")?,
        root: (!same).then_some(root),
        folder: link("cwd"),
        env: crate::library::prescan::parse_environ(&env),
    })
}
