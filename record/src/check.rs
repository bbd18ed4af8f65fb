//! `ingero-record check`: whether this machine can record, line by line, and what to do if not.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::ExitCode;

use ingero_format::one_line;

use crate::kernel::{Facts, Kernel, Options};
use crate::library::kind::is_cuda_library;
use crate::library::prescan::{Surroundings, find_candidates};
use crate::proc::maps::parse_maps;
use crate::proc::process::list_ids;
use crate::rights::{self, Needs};
use crate::trial::{ReturnProbes, try_return_probes};

/// `PROC_PID_INIT_INO`
const INITIAL_PID_NAMESPACE: u64 = 0xEFFF_FFFC;
/// Libraries and processes that are listed by name.
const LISTED: usize = 10;

/// How one look came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// As it should be.
    Fine,
    /// Recording works, yet something is missing from it.
    Less,
    /// Recording does not work.
    Fails,
}

/// One line, and what to do about it.
#[derive(Debug)]
struct Finding {
    verdict: Verdict,
    what: &'static str,
    words: String,
    advice: &'static str,
}

fn finding(verdict: Verdict, what: &'static str, words: impl Into<String>, advice: &'static str) -> Finding {
    Finding { verdict, what, words: words.into(), advice }
}

/// Looks, prints, and says by the exit code whether recording works.
#[must_use]
pub fn run() -> ExitCode {
    let findings = look();
    let fails = findings.iter().any(|f| f.verdict == Verdict::Fails);
    let mut text = show(&findings);
    text.push_str(if fails { "this machine cannot record yet\n" } else { "this machine can record\n" });
    // Whoever closes standard output still gets the exit code.
    let _ = std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes());
    ExitCode::from(u8::from(fails))
}

fn show(findings: &[Finding]) -> String {
    let mut text = String::new();
    for f in findings {
        let verdict = match f.verdict {
            Verdict::Fine => "ok",
            Verdict::Less => "note",
            Verdict::Fails => "FAILS",
        };
        let _ = writeln!(text, "{verdict:<6} {:<14} {}", f.what, one_line(&f.words));
        if f.verdict != Verdict::Fine && !f.advice.is_empty() {
            let _ = writeln!(text, "{:<6} {:<14} do: {}", "", "", f.advice);
        }
    }
    text
}

fn look() -> Vec<Finding> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut findings = vec![finding(Verdict::Fine, "kernel", release.trim(), ""), btf(), lockdown(), namespace()];
    let rights = capabilities(&rights::status());
    let permitted = rights.verdict != Verdict::Fails;
    findings.push(rights);
    if permitted {
        findings.extend(programs());
    } else {
        findings.push(finding(Verdict::Less, "programs", "not tried: not permitted", ""));
    }
    findings.extend([libraries(), processes()]);
    findings
}

fn btf() -> Finding {
    const PATH: &str = "/sys/kernel/btf/vmlinux";
    match fs::metadata(PATH) {
        Ok(m) => finding(Verdict::Fine, "BTF", format!("{PATH}, {} kB", m.len() / 1000), ""),
        Err(e) => finding(
            Verdict::Fails,
            "BTF",
            format!("{PATH}: {e}"),
            "boot a kernel built with CONFIG_DEBUG_INFO_BTF=y; distributions' kernels since 2021 have it",
        ),
    }
}

fn lockdown() -> Finding {
    let text = fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
    let mode = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or("none", |(mode, _)| mode);
    match mode {
        "confidentiality" => finding(
            Verdict::Fails,
            "lockdown",
            "confidentiality: BPF programs may not read kernel memory",
            "boot without lockdown=confidentiality (it often follows secure boot; see man kernel_lockdown)",
        ),
        mode => finding(Verdict::Fine, "lockdown", mode, ""),
    }
}

fn namespace() -> Finding {
    let initial = fs::metadata("/proc/self/ns/pid").is_ok_and(|at| at.ino() == INITIAL_PID_NAMESPACE);
    if initial {
        finding(Verdict::Fine, "PID namespace", "the initial one", "")
    } else {
        finding(
            Verdict::Fails,
            "PID namespace",
            "one of its own, where ids differ from the kernel's",
            "run on the host, or in a container with the host's (docker run --pid=host)",
        )
    }
}

fn capabilities(status: &str) -> Finding {
    let must = rights::missing(status, Needs::default());
    if !must.is_empty() {
        return finding(
            Verdict::Fails,
            "capabilities",
            format!("missing {}", must.join(", ")),
            "run it with sudo, or: setcap cap_bpf,cap_perfmon,cap_sys_ptrace+ep ingero-record",
        );
    }
    let may = rights::missing(status, Needs { others: true, user: false });
    if may.is_empty() {
        return finding(Verdict::Fine, "capabilities", "all that are needed", "");
    }
    finding(
        Verdict::Less,
        "capabilities",
        format!("enough for a command of your own; missing {}", may.join(", ")),
        "CAP_SYS_PTRACE lets it look into other users' processes (--pid, --all)",
    )
}

/// Loads the programs, and tries them as far as that harms nobody.
fn programs() -> Vec<Finding> {
    let kernel = match Kernel::load(&Options::default()) {
        Ok(kernel) => kernel,
        Err(e) => return vec![finding(Verdict::Fails, "programs", e.to_string(), "")],
    };
    let mut findings = facts(kernel.facts());
    findings.push(match try_return_probes(&kernel) {
        Ok(ReturnProbes::Safe) => finding(Verdict::Fine, "return probes", "a program in a sandbox survives them", ""),
        Ok(ReturnProbes::Lethal) => finding(
            Verdict::Less,
            "return probes",
            "they would kill programs in a sandbox (seccomp), so entries alone are probed",
            "update the kernel (6.14, 6.13.4 and later let them pass), or take the risk by --returns always",
        ),
        Ok(ReturnProbes::Untried(_)) => finding(Verdict::Less, "return probes", "could not be tried in a sandbox", ""),
        Err(e) => finding(Verdict::Fails, "uprobes", e.to_string(), "boot a kernel built with CONFIG_UPROBES=y"),
    });
    findings
}

fn facts(facts: &Facts) -> Vec<Finding> {
    let memory = (facts.rings as u64 * u64::from(facts.ring_bytes)) >> 20;
    let mut findings =
        vec![finding(Verdict::Fine, "programs", format!("load; {} rings, {memory} MiB in all", facts.rings), "")];
    findings.push(if facts.multi_links {
        finding(Verdict::Fine, "uprobes", "many functions on one link", "")
    } else {
        finding(
            Verdict::Less,
            "uprobes",
            "one link for each function: stopping takes about 0.1 s for each",
            "a kernel of 6.6 or later attaches them all at once",
        )
    });
    for (known, what, words) in [
        (facts.interrupt_context, "wakers", "wakeups by interrupts cannot be told from wakeups by threads"),
        (facts.throttling, "CPU quotas", "waits because of a CPU quota look like others"),
        (facts.syscalls, "system calls", "what a thread blocked in is not known"),
    ] {
        findings.push(if known {
            finding(Verdict::Fine, what, "told by this kernel", "")
        } else {
            finding(Verdict::Less, what, words, "")
        });
    }
    findings
}

fn libraries() -> Finding {
    let surroundings = Surroundings { program: PathBuf::new(), args: Vec::new(), env: std::env::vars_os().collect() };
    let found: Vec<String> = find_candidates(&surroundings)
        .into_iter()
        .filter(|path| path.file_name().is_some_and(is_cuda_library))
        .map(|path| path.display().to_string())
        .collect();
    if found.is_empty() {
        return finding(
            Verdict::Less,
            "CUDA libraries",
            "none in the usual places; those of a program are found when it starts or loads them",
            "",
        );
    }
    finding(Verdict::Fine, "CUDA libraries", list(&found), "")
}

fn processes() -> Finding {
    let mut using: BTreeMap<u32, String> = BTreeMap::new();
    let mut hidden = 0;
    for pid in list_ids("/proc") {
        match fs::read(format!("/proc/{pid}/maps")) {
            Ok(maps) if parse_maps(&maps).iter().any(|m| m.path.file_name().is_some_and(is_cuda_library)) => {
                let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
                using.insert(pid, comm.trim_end().to_owned());
            }
            Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => hidden += 1,
            _ => {}
        }
    }
    let mut words: Vec<String> = using.iter().map(|(pid, comm)| format!("{comm} ({pid})")).collect();
    if words.is_empty() {
        words.push("none uses CUDA now".to_owned());
    }
    let mut words = list(&words);
    if hidden > 0 {
        let _ = write!(words, "; not permitted to look into others: {hidden}");
    }
    finding(Verdict::Fine, "processes", words, "")
}

fn list(words: &[String]) -> String {
    let shown = words.iter().take(LISTED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match words.len().saturating_sub(LISTED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_says_what_to_do() {
        let text = show(&[
            finding(Verdict::Fine, "kernel", "6.18", "never said"),
            finding(Verdict::Fails, "BTF", "none\x1b[31m", "boot another kernel"),
        ]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "ok     kernel         6.18");
        assert_eq!(lines[1], "FAILS  BTF            none\\u{1b}[31m");
        assert_eq!(lines[2], "                      do: boot another kernel");
        assert_eq!(lines.len(), 3);
    }

    #[test]
    fn rights_are_told_apart() {
        let verdict = |held: &str| capabilities(&format!("CapEff:\t{held}\n")).verdict;
        assert_eq!(verdict("000001ffffffffff"), Verdict::Fine);
        assert_eq!(verdict("000000c000000000"), Verdict::Less);
        assert_eq!(verdict("0000000000000000"), Verdict::Fails);
    }

    #[test]
    fn long_lists_are_cut() {
        let words: Vec<String> = (0..12).map(|n| n.to_string()).collect();
        assert_eq!(list(&words), "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more");
    }
}
