//! Whether this process may record what it is asked to, asked before anything else so that the answer is the plain one.

use std::fs;

use anyhow::{Result, bail};

/// What recording may need. Tried one by one with `setpriv` on Linux 6.18: without the first two nothing works.
const CAPABILITIES: [(u32, &str); 5] =
    [(39, "CAP_BPF"), (38, "CAP_PERFMON"), (19, "CAP_SYS_PTRACE"), (6, "CAP_SETGID"), (7, "CAP_SETUID")];
const CAP_SYS_ADMIN: u32 = 21;

/// What a recording needs beside `CAP_BPF` and `CAP_PERFMON`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// It looks into other users' processes.
    pub(crate) others: bool,
    /// It starts a command as another user.
    pub(crate) user: bool,
}

/// Checks the effective capabilities.
///
/// # Errors
/// When they do not suffice.
pub(crate) fn check(needs: Needs) -> Result<()> {
    let missing = missing(&status(), needs);
    if missing.is_empty() {
        return Ok(());
    }
    bail!(
        "not permitted: missing {}; run it with sudo, or give the program what it lacks: \
         sudo setcap {}+ep {}",
        missing.join(", "),
        CAPABILITIES[..3].iter().map(|(_, name)| name.to_lowercase()).collect::<Vec<_>>().join(","),
        std::env::current_exe().unwrap_or_default().display(),
    )
}

/// `/proc/self/status`.
pub(crate) fn status() -> String {
    fs::read_to_string("/proc/self/status").unwrap_or_default()
}

/// Names of capabilities that are needed and not held.
pub(crate) fn missing(status: &str, needs: Needs) -> Vec<&'static str> {
    let line = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
    // A kernel that does not tell is left to refuse for itself.
    let Some(held) = line.and_then(|l| u64::from_str_radix(l.trim(), 16).ok()) else { return Vec::new() };
    let has = |cap: u32| held & (1 << cap) != 0;
    let stands_in = |name: &str| matches!(name, "CAP_BPF" | "CAP_PERFMON") && has(CAP_SYS_ADMIN);
    let needed = |name: &str| match name {
        "CAP_SYS_PTRACE" => needs.others,
        "CAP_SETGID" | "CAP_SETUID" => needs.user,
        _ => true,
    };
    let lacking = CAPABILITIES.iter().filter(|(cap, name)| needed(name) && !has(*cap) && !stands_in(name));
    lacking.map(|(_, name)| *name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Needs = Needs { others: true, user: false };

    #[test]
    fn root_suffices_and_nobody_is_told() {
        assert!(missing("Name:\tx\nCapEff:\t000001ffffffffff\n", Needs { user: true, ..ALL }).is_empty());
        assert!(missing("", ALL).is_empty());
        assert_eq!(missing("CapEff:\t0000000000000000\n", ALL), ["CAP_BPF", "CAP_PERFMON", "CAP_SYS_PTRACE"]);
    }

    #[test]
    fn two_suffice_for_a_command_of_ones_own() {
        let two = "CapEff:\t000000c000000000\n";
        assert!(missing(two, Needs::default()).is_empty());
        assert_eq!(missing(two, ALL), ["CAP_SYS_PTRACE"]);
        assert!(missing("CapEff:\t000000c000080000\n", ALL).is_empty());
        // Before 5.8 one stood for many.
        assert_eq!(missing("CapEff:\t0000000000200000\n", ALL), ["CAP_SYS_PTRACE"]);
    }
}
