//! What can go wrong on the kernel side, and what to do about it.

use std::{fs, io, path::PathBuf};

/// Why the kernel side could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel refused for lack of rights.
    #[error("{action}: not permitted: {cause}")]
    NotPermitted {
        /// What was tried.
        action: String,
        /// Which right is missing and how to get it.
        cause: String,
    },
    /// The kernel does not describe its own types.
    #[error("cannot read {path}: {source}; recording needs a kernel built with CONFIG_DEBUG_INFO_BTF=y")]
    NoBtf {
        /// Where the description should be.
        path: PathBuf,
        /// What reading it gave.
        source: io::Error,
    },
    /// The kernel's description of its types is damaged.
    #[error("{path}: {source}")]
    BadBtf {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: super::btf::BtfError,
    },
    /// A type or field that recording needs has another name here.
    #[error("this kernel's BTF has no {name}; please report it with the output of uname -r")]
    NotInBtf {
        /// The type, field or tracepoint.
        name: String,
    },
    /// The verifier refused a program.
    #[error("the kernel refused program {program}: {source}; verifier: {log}")]
    Refused {
        /// Program name.
        program: String,
        /// Error of the load.
        source: io::Error,
        /// End of the verifier's log.
        log: String,
    },
    /// The embedded object is not what this crate expects.
    #[error("embedded BPF object: {problem}; rebuild with cargo clean -p ingero-ebpf")]
    Object {
        /// What is missing.
        problem: String,
    },
    /// Links with many probes were demanded of a kernel that has none.
    #[error("this kernel has no uprobe_multi links (6.6 and later do); leave the choice to the recorder")]
    NoMultiLinks,
    /// An argument out of range.
    #[error("function id {id} is not below {limit}")]
    FunctionId {
        /// The id.
        id: u32,
        /// First id that is too large.
        limit: u32,
    },
    /// The reader was taken before.
    #[error("the ring has one reader, and it was taken already")]
    DrainTaken,
    /// The ring holds something that this crate cannot read.
    #[error("ring record of kind {kind} with {len} bytes: programs and recorder do not match; rebuild both")]
    Undecodable {
        /// Kind number found.
        kind: u8,
        /// Length found.
        len: usize,
    },
    /// Any other refusal of the operating system.
    #[error("{action}: {source}")]
    Os {
        /// What was tried.
        action: String,
        /// What the system said.
        source: io::Error,
    },
}

impl Error {
    /// Wraps an error of the operating system; refusals for lack of rights are looked into.
    pub(super) fn os(action: impl Into<String>, source: io::Error) -> Self {
        let action = action.into();
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::NotPermitted { action, cause: why_not_permitted() },
            _ => Self::Os { action, source },
        }
    }
}

const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// The likely cause of EPERM, from what the kernel shows of this process.
fn why_not_permitted() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let lockdown = fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
    cause(&status, &lockdown)
}

fn cause(status: &str, lockdown: &str) -> String {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let capabilities = field("CapEff:").and_then(|hex| u64::from_str_radix(hex, 16).ok()).unwrap_or(0);
    let has = |bit: u32| capabilities & (1 << bit) != 0;
    if !has(CAP_SYS_ADMIN) {
        let missing: Vec<_> = [(CAP_BPF, "CAP_BPF"), (CAP_PERFMON, "CAP_PERFMON")]
            .into_iter()
            .filter(|(bit, _)| !has(*bit))
            .map(|(_, name)| name)
            .collect();
        if !missing.is_empty() {
            return format!("this process lacks {}; run it as root (sudo)", missing.join(" and "));
        }
    }
    if lockdown.contains("[confidentiality]") {
        return "kernel lockdown is in confidentiality mode, which forbids reading kernel memory from BPF; \
                boot with lockdown=integrity or without it"
            .to_owned();
    }
    if field("Seccomp:").is_some_and(|mode| mode != "0") {
        return "a seccomp filter is in force, as in most containers; run outside, or with --privileged".to_owned();
    }
    "the process has the capabilities, so a security module or the container forbids it; run on the host itself"
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::cause;

    #[test]
    fn each_cause_of_eperm_has_its_own_advice() {
        let root = "CapEff:\t000001ffffffffff\nSeccomp:\t0\n";
        assert!(cause("CapEff:\t0000000000000000\n", "").contains("CAP_BPF and CAP_PERFMON"));
        assert!(cause("CapEff:\t0000008000000000\n", "").contains("lacks CAP_PERFMON;"));
        assert!(cause(root, "none integrity [confidentiality]").contains("lockdown"));
        assert!(cause("CapEff:\t000001ffffffffff\nSeccomp:\t2\n", "[none] integrity").contains("seccomp"));
        assert!(cause(root, "").contains("on the host"));
    }
}
