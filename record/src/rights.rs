//! Whether this process may record at all, asked before anything else so that the answer is the plain one.

use std::fs;

use anyhow::{Result, bail};

const CAP_DAC_READ_SEARCH: u32 = 2;
const CAP_SYS_PTRACE: u32 = 19;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// Checks the effective capabilities.
///
/// # Errors
/// When they do not suffice.
pub(crate) fn check() -> Result<()> {
    check_status(&fs::read_to_string("/proc/self/status").unwrap_or_default())
}

fn check_status(status: &str) -> Result<()> {
    let line = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
    // A kernel that does not tell is left to refuse for itself.
    let Some(held) = line.and_then(|l| u64::from_str_radix(l.trim(), 16).ok()) else { return Ok(()) };
    let has = |cap: u32| held & (1 << cap) != 0;
    if has(CAP_SYS_ADMIN) {
        return Ok(());
    }
    let needed = [
        (CAP_BPF, "CAP_BPF"),
        (CAP_PERFMON, "CAP_PERFMON"),
        (CAP_SYS_PTRACE, "CAP_SYS_PTRACE"),
        (CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH"),
    ];
    let missing: Vec<&str> = needed.iter().filter(|(cap, _)| !has(*cap)).map(|(_, name)| *name).collect();
    if missing.is_empty() {
        return Ok(());
    }
    bail!("not permitted: recording needs root; run it with sudo (missing here: {})", missing.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_suffices_and_nobody_is_told() {
        assert!(check_status("Name:\tx\nCapEff:\t000001ffffffffff\n").is_ok());
        assert!(check_status("CapEff:\t000000c000080004\n").is_ok());
        assert!(check_status("").is_ok());
        let e = check_status("CapEff:\t0000000000000000\n").unwrap_err().to_string();
        assert!(e.contains("sudo") && e.contains("CAP_BPF"), "{e}");
    }
}
