//! What a command line means.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};

use crate::cli::Cli;
use crate::keep::{Keep, existing_parts};
use crate::selection::Selection;
use crate::user::User;

/// Whose calls are recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A program to start, with its arguments, and its descendants.
    Command(Vec<OsString>),
    /// Running processes and their descendants.
    Processes(Vec<u32>),
    /// Every process.
    All,
}

impl Target {
    /// Its name in the file's metadata.
    #[must_use]
    pub fn mode(&self) -> &'static str {
        match self {
            Self::Command(_) => "command",
            Self::Processes(_) => "pids",
            Self::All => "all",
        }
    }
}

/// Everything that a recording is asked to do, checked as far as the words alone allow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// File to write.
    pub output: PathBuf,
    /// Overwrite it.
    pub force: bool,
    /// When to stop at the latest.
    pub duration: Option<Duration>,
    /// What to record.
    pub target: Target,
    /// Keep command lines out of the file.
    pub redact_args: bool,
    /// Size of all ring buffers together, a power of two; `None`: what suits the machine.
    pub ring_bytes: Option<u32>,
    /// Print nothing but failures.
    pub quiet: bool,
    /// File whose new lines are marks.
    pub marks: Option<PathBuf>,
    /// Which sources.
    pub selection: Selection,
    /// Whether the returns of functions are probed; `None`: as a trial shows that it is safe.
    pub returns: Option<bool>,
    /// Whether each function is probed by a link of its own, whatever the kernel can.
    pub single_links: bool,
    /// Whether the command's programs are held until their libraries are probed.
    pub hold: bool,
    /// One file, several, or the last while.
    pub keep: Keep,
    /// Bytes of all files at most.
    pub max_bytes: Option<u64>,
    /// As whom the command runs, and who owns the files.
    pub user: Option<User>,
}

impl Plan {
    /// Reads the meaning out of what was typed.
    ///
    /// # Errors
    /// When the words contradict each other or one of them is no value of its kind.
    pub fn from_cli(cli: Cli) -> Result<Self> {
        let target = target(cli.command.clone(), &cli.pids, cli.all)?;
        if cli.user && !matches!(target, Target::Command(_)) {
            bail!("--user: says as whom COMMAND runs; --pid and --all start none");
        }
        let max_bytes = cli.max_size.as_deref().map(|text| parse_size("--max-size", text)).transpose()?;
        if max_bytes.is_some_and(|bytes| bytes < MAX_BYTES_MIN) {
            bail!("--max-size {}: too small; give at least 1MiB", cli.max_size.as_deref().unwrap_or_default());
        }
        Ok(Self {
            selection: Selection::new(&cli.only, &cli.without, &cli.layers)?,
            returns: match cli.returns.as_str() {
                "auto" => None,
                "always" => Some(true),
                "never" => Some(false),
                other => bail!("--returns {other}: give auto, always or never"),
            },
            hold: !cli.no_hold,
            single_links: cli.single_links,
            keep: Keep::from_cli(&cli)?,
            max_bytes,
            user: cli.user.then(User::behind_sudo).transpose()?,
            output: cli.output,
            force: cli.force,
            duration: cli.duration.as_deref().map(|text| parse_duration("--duration", text)).transpose()?,
            target,
            redact_args: cli.no_args,
            ring_bytes: cli.ring_size.as_deref().map(parse_ring_size).transpose()?,
            quiet: cli.quiet,
            marks: cli.marks,
        })
    }

    /// Fails early where the output file could not be created in the end.
    ///
    /// # Errors
    /// When the file exists without `--force`, is a directory, or its directory is missing or read-only.
    pub fn check_output(&self) -> Result<()> {
        let output = &self.output;
        let shown = output.display();
        if !matches!(self.keep, Keep::Whole) {
            if fs_is_special(output) {
                bail!("--output {shown}: is no regular file, so --split and --flight cannot make others beside it");
            }
            if let Some(part) = existing_parts(output).first().filter(|_| !self.force) {
                bail!("--output {shown}: {} exists already; choose another name or add --force", part.display());
            }
        }
        match std::fs::metadata(output) {
            Ok(m) if m.is_dir() => bail!("--output {shown}: is a directory; name a file in it"),
            Ok(_) if !self.force => {
                bail!("--output {shown}: exists already; choose another name or add --force")
            }
            Ok(_) => return Ok(()),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => bail!("--output {shown}: {e}"),
        }
        if output.file_name().is_none() {
            bail!("--output {shown}: names no file");
        }
        let parent = match output.parent() {
            Some(p) if !p.as_os_str().is_empty() => p,
            _ => Path::new("."),
        };
        match std::fs::metadata(parent) {
            Ok(m) if m.is_dir() => {}
            Ok(_) => bail!("--output {shown}: {} is no directory", parent.display()),
            Err(e) => bail!("--output {shown}: directory {}: {e}; create it first", parent.display()),
        }
        if !is_writable(parent) {
            bail!(
                "--output {shown}: directory {} is not writable: {}",
                parent.display(),
                std::io::Error::last_os_error()
            );
        }
        Ok(())
    }
}

/// Whether there is something that is neither a file nor a directory, such as a device.
fn fs_is_special(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|m| !m.is_file() && !m.is_dir())
}

fn is_writable(dir: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let Ok(path) = std::ffi::CString::new(dir.as_os_str().as_bytes()) else {
        return false;
    };
    // SAFETY: `path` is a zero-terminated string that outlives the call.
    unsafe { libc::access(path.as_ptr(), libc::W_OK) == 0 }
}

fn target(command: Vec<OsString>, pids: &[String], all: bool) -> Result<Target> {
    match (!command.is_empty(), !pids.is_empty(), all) {
        (true, false, false) => Ok(Target::Command(command)),
        (false, false, true) => Ok(Target::All),
        (false, true, false) => {
            let mut numbers = Vec::new();
            for text in pids {
                let pid = parse_pid(text)?;
                if !numbers.contains(&pid) {
                    numbers.push(pid);
                }
            }
            Ok(Target::Processes(numbers))
        }
        (false, false, false) => {
            bail!("nothing to record: give -- COMMAND, --pid PID or --all")
        }
        _ => bail!("COMMAND, --pid and --all exclude each other: give exactly one"),
    }
}

fn parse_pid(text: &str) -> Result<u32> {
    match text.trim().parse::<u32>() {
        Ok(pid) if pid > 0 && i32::try_from(pid).is_ok() => Ok(pid),
        _ => bail!("--pid {text}: no process id; give a number such as 4711"),
    }
}

/// Parses `500ms`, `60s`, `5m`, `1h`, `1.5s`; a bare number is seconds. `option` is what it was given to.
///
/// # Errors
/// When the text is none of these, is zero or longer than a year.
pub fn parse_duration(option: &str, text: &str) -> Result<Duration> {
    const YEAR_S: f64 = 365.0 * 86_400.0;
    let wrong = || anyhow::anyhow!("{option} {text}: no time; give a number and a unit: 500ms, 60s, 5m, 1h");
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let factor = match unit {
        "ms" => 1e-3,
        "s" | "" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(wrong()),
    };
    let seconds = number * factor;
    if seconds < 1e-3 {
        bail!("{option} {text}: too short; give at least 1ms");
    }
    if seconds > YEAR_S {
        bail!("{option} {text}: longer than a year");
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| wrong())
}

/// Smallest and largest ring that the kernel and common sense take.
const RING_BYTES: std::ops::RangeInclusive<u64> = 64 << 10..=1 << 30;

/// A recording needs some room for names, however little happens.
const MAX_BYTES_MIN: u64 = 1 << 20;

/// Parses `64MiB`, `1G`, `524288`. `option` is what it was given to.
///
/// # Errors
/// When the text is no size.
pub fn parse_size(option: &str, text: &str) -> Result<u64> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let shift = match unit {
        "" | "B" => 0,
        "K" | "k" | "KiB" => 10,
        "M" | "MiB" => 20,
        "G" | "GiB" => 30,
        _ => 64,
    };
    let bytes = number.parse::<u64>().ok().and_then(|n| n.checked_mul(1u64.checked_shl(shift)?));
    bytes.ok_or_else(|| anyhow::anyhow!("{option} {text}: no size; give a number and a unit: 64MiB"))
}

/// Parses a size and rounds it up to a power of two.
///
/// # Errors
/// When the text is no size or is out of range.
pub fn parse_ring_size(text: &str) -> Result<u32> {
    let none = || anyhow::anyhow!("--ring-size {text}: no size; give a number and a unit: 64MiB");
    match parse_size("--ring-size", text)?.checked_next_power_of_two().ok_or_else(none)? {
        bytes if RING_BYTES.contains(&bytes) => Ok(u32::try_from(bytes)?),
        _ => bail!("--ring-size {text}: out of range; give 64KiB to 1GiB"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn plan(words: &[&str]) -> Result<Plan> {
        Plan::from_cli(Cli::try_parse_from([&["ingero-record"], words].concat())?)
    }

    fn message(words: &[&str]) -> String {
        plan(words).unwrap_err().to_string()
    }

    #[test]
    fn durations() {
        for (text, ms) in
            [("500ms", 500), ("60s", 60_000), ("60", 60_000), ("1.5s", 1_500), ("5m", 300_000), ("1h", 3_600_000)]
        {
            assert_eq!(parse_duration("--duration", text).unwrap(), Duration::from_millis(ms), "{text}");
        }
        for text in ["", "s", "-1s", "1x", "1.2.3s", "0s", "nan", "inf", "1e9s", "9999999h", "60 s", "１s"] {
            let e = parse_duration("--duration", text).unwrap_err().to_string();
            assert!(e.starts_with(&format!("--duration {text}: ")), "{e}");
        }
    }

    #[test]
    fn ring_sizes() {
        assert_eq!(parse_ring_size("64MiB").unwrap(), 64 << 20);
        assert_eq!(parse_ring_size("65537").unwrap(), 128 << 10);
        assert_eq!(parse_ring_size("1G").unwrap(), 1 << 30);
        for text in ["", "MiB", "64MB", "0", "1K", "2G", "-1", "99999999999999999999", "17179869184G"] {
            let e = parse_ring_size(text).unwrap_err().to_string();
            assert!(e.starts_with(&format!("--ring-size {text}: ")), "{e}");
        }
    }

    #[test]
    fn exactly_one_target() {
        assert_eq!(
            plan(&["-o", "x", "--", "ls", "-l"]).unwrap().target,
            Target::Command(vec!["ls".into(), "-l".into()])
        );
        assert_eq!(plan(&["-o", "x", "-p", "7,8", "--pid", "7"]).unwrap().target, Target::Processes(vec![7, 8]));
        assert_eq!(plan(&["-o", "x", "-a"]).unwrap().target, Target::All);
        assert!(message(&["-o", "x"]).starts_with("nothing to record"));
        assert!(message(&["-o", "x", "-a", "--", "ls"]).contains("exactly one"));
        assert!(message(&["-o", "x", "-a", "-p", "7"]).contains("exactly one"));
        for bad in ["0", "x", "1x", "4294967295"] {
            assert!(message(&["-o", "x", "-p", bad]).starts_with(&format!("--pid {bad}: ")));
        }
    }

    #[test]
    fn output_is_checked_before_anything_runs() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str, force: bool| {
            let path = dir.path().join(name);
            let mut words = vec!["-o", path.to_str().unwrap(), "-a"];
            if force {
                words.push("--force");
            }
            plan(&words).unwrap().check_output().map_err(|e| e.to_string())
        };
        std::fs::write(dir.path().join("there"), b"x").unwrap();
        assert_eq!(at("new.igt", false), Ok(()));
        assert_eq!(at("there", true), Ok(()));
        assert!(at("there", false).unwrap_err().contains("--force"));
        assert!(at("", true).unwrap_err().contains("is a directory"));
        assert!(at("no/new.igt", false).unwrap_err().contains("create it"));
        assert!(at("there/new.igt", false).is_err());
    }
}
