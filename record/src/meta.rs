//! What the file says about the recording itself: keys and values.
//!
//! | key | value |
//! |---|---|
//! | `recorder` | program and version |
//! | `kernel`, `machine`, `host` | as `uname` has them |
//! | `cpus`, `page_size` | CPUs online, bytes |
//! | `start_unix_ns` | wall clock at the start; the clock rows say it more exactly |
//! | `mode` | `command`, `pids` or `all` |
//! | `command` | the recorder's own command line; absent when redacted |
//! | `pids` | asked-for processes, by comma |
//! | `gpus` | how many devices NVML sees, or why it cannot be asked |
//! | `marks` | the file whose lines are marks |
//! | `nvtx3` | `injected`: the command's NVTX 3 was told of the recorder's library; else why it stays unseen |
//! | `rings`, `ring_bytes`, `drain_stalls` | number of rings and size of each; how often the writer was behind |
//! | `probes` | event kinds that were recorded, by comma |
//! | `pressures` | times that compression gave way because the writer was behind |
//! | `held_programs` | starts of programs that were held until their libraries were probed |
//! | `returns` | `probed`, or `not-probed`: entries alone were, so no call has a length |
//! | `call_cost_ns` | what a probed call cost at the start, measured on a child of the recorder's own |
//! | `absent` | event kinds for which this kernel has no probe, by comma |
//! | `layers` | layers of functions that were probed, by comma |
//! | `part` | number of this file among those of `--split`, from 1 |
//! | `flight`, `flight_window_ns`, `flight_short` | of `--flight`: why this file was written; the time asked for; why it holds less |
//! | `knows` | what the kernel can tell, by comma: `interrupt-context`, `throttling`, `syscalls`, `multi-links` |
//! | `libraries` | how many files were probed |
//! | `library.N` | `path=… dev=… inode=… build_id=… runtime=… driver=… nccl=… nvtx=… static=… mapped=…`; functions per layer. `mapped=1`: seen loaded by what was recorded; 0 may also mean that the process was gone before anyone looked. Driver calls of a process without any file of `runtime>0`: its runtime is static and stripped |
//! | `problem.N` | what could not be probed, and why |

use std::ffi::CStr;

use ingero_format::catalog::Kind;

use crate::gpu::Gpus;
use crate::keep::Keep;
use crate::kernel::Facts;
use crate::library::discovery::Discovery;
use crate::plan::{Plan, Target};
use crate::proc::clock::real_ns;
use crate::proc::process::join_words;
use crate::text;

/// What is known at the start.
#[must_use]
pub fn describe(plan: &Plan, facts: &Facts) -> Vec<(String, String)> {
    let mut words: Vec<(String, String)> = Vec::new();
    let mut put = |key: &str, value: String| words.push((key.to_owned(), value));
    put("recorder", format!("ingero-record {}", env!("CARGO_PKG_VERSION")));
    let [release, machine, host] = uname();
    put("kernel", release);
    put("machine", machine);
    put("host", host);
    put("cpus", sysconf(libc::_SC_NPROCESSORS_ONLN).to_string());
    put("page_size", sysconf(libc::_SC_PAGESIZE).to_string());
    put("start_unix_ns", real_ns().to_string());
    put("mode", plan.target.mode().to_owned());
    if !plan.redact_args {
        let words: Vec<_> = std::env::args_os().collect();
        put("command", text::from_bytes(&join_words(&words)).into_owned());
    }
    if let Target::Processes(pids) = &plan.target {
        put("pids", pids.iter().map(u32::to_string).collect::<Vec<_>>().join(","));
    }
    put("rings", facts.rings.to_string());
    put("ring_bytes", facts.ring_bytes.to_string());
    let absent = |name: &str| facts.absent.contains(&name);
    let kinds = plan.selection.kind_names() + ",process";
    put("probes", kinds.split(',').filter(|name| !absent(name)).collect::<Vec<_>>().join(","));
    put("absent", facts.absent.join(","));
    if plan.selection.has(Kind::Call) {
        put("layers", plan.selection.layer_names());
    }
    match &plan.keep {
        Keep::Whole => {}
        Keep::Parts(_) => put("part", "1".to_owned()),
        Keep::Flight(flight) => put("flight_window_ns", flight.window.as_nanos().to_string()),
    }
    let knows = [
        ("interrupt-context", facts.interrupt_context),
        ("throttling", facts.throttling),
        ("syscalls", facts.syscalls),
        ("multi-links", facts.multi_links),
    ];
    put("knows", knows.iter().filter(|(_, yes)| *yes).map(|(name, _)| *name).collect::<Vec<_>>().join(","));
    words
}

/// How many devices there are, or why none can be asked.
#[must_use]
pub fn describe_gpus(gpus: Result<&Gpus, &String>) -> String {
    match gpus {
        Ok(gpus) => gpus.count().to_string(),
        Err(why) => format!("none: {}", text::from_bytes(why.as_bytes())),
    }
}

/// What is known of the libraries now; said again at the end, when more were found.
#[must_use]
pub fn libraries(discovery: &Discovery) -> Vec<(String, String)> {
    let attached = discovery.attached();
    let mut words = vec![("libraries".to_owned(), attached.len().to_string())];
    words.extend(attached.iter().enumerate().map(|(i, a)| (format!("library.{i}"), a.describe())));
    words.extend(discovery.problems().iter().enumerate().map(|(i, p)| (format!("problem.{i}"), p.clone())));
    words
}

fn sysconf(name: i32) -> i64 {
    // SAFETY: sysconf takes no pointer.
    unsafe { libc::sysconf(name) }
}

/// Release, machine and host name.
fn uname() -> [String; 3] {
    // SAFETY: a zeroed structure is a valid place for the result.
    let mut names: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: `names` is valid for the length of the call.
    unsafe { libc::uname(&raw mut names) };
    let text = |field: &[libc::c_char]| {
        let bytes: Vec<u8> = field.iter().map(|c| c.cast_unsigned()).chain([0]).collect();
        CStr::from_bytes_until_nul(&bytes).map(|s| text::from_bytes(s.to_bytes()).into_owned()).unwrap_or_default()
    };
    [text(&names.release), text(&names.machine), text(&names.nodename)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_names() {
        let [release, machine, _] = uname();
        assert!(release.starts_with(|c: char| c.is_ascii_digit()), "{release}");
        assert_eq!(machine, std::env::consts::ARCH);
        assert!(sysconf(libc::_SC_PAGESIZE) >= 4096);
    }
}
