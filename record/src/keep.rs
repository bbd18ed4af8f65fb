//! What becomes of the events: one file, parts, or the last while of them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};

use crate::cli::Cli;
use crate::plan::{parse_duration, parse_size};

/// Memory of `--flight` where nobody says another.
const FLIGHT_BYTES: u64 = 256 << 20;
const FLIGHT_BYTES_MIN: u64 = 1 << 20;
/// The parts of a recording are not smaller: schema and names alone take some kilobytes.
const PART_BYTES_MIN: u64 = 64 << 10;
const PART_TIME_MIN: Duration = Duration::from_millis(100);

/// How events are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Keep {
    /// In one file.
    Whole,
    /// In files that follow each other.
    Parts(Limit),
    /// In memory, the last while of them; written when something asks for it.
    Flight(FlightPlan),
}

/// When a part is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// At so many bytes.
    Bytes(u64),
    /// After so long.
    Time(Duration),
}

/// What `--flight` and its companions ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlightPlan {
    /// How much of the past is kept at least.
    pub window: Duration,
    /// Bytes that the past may take.
    pub limit_bytes: u64,
    /// A call of this length or longer has the past written.
    pub slow_call: Option<Duration>,
    /// The end of a process does.
    pub any_exit: bool,
    /// The end of a process does that failed.
    pub failed_exit: bool,
}

impl Keep {
    /// Reads the meaning out of what was typed.
    ///
    /// # Errors
    /// When options contradict each other or one of them is no value of its kind.
    pub fn from_cli(cli: &Cli) -> Result<Self> {
        let trigger = cli.trigger_call.is_some() || cli.trigger_exit || cli.trigger_failure;
        let Some(window) = &cli.flight else {
            if trigger || cli.flight_size.is_some() {
                bail!("--trigger-call, --trigger-exit, --trigger-failure and --flight-size need --flight TIME");
            }
            return Ok(cli.split.as_deref().map(parse_limit).transpose()?.map_or(Self::Whole, Self::Parts));
        };
        if cli.split.is_some() || cli.max_size.is_some() {
            bail!("--flight keeps the last while in memory: it goes with neither --split nor --max-size");
        }
        let limit_bytes =
            cli.flight_size.as_deref().map_or(Ok(FLIGHT_BYTES), |text| parse_size("--flight-size", text))?;
        if limit_bytes < FLIGHT_BYTES_MIN {
            bail!("--flight-size {}: too small; give at least 1MiB", cli.flight_size.as_deref().unwrap_or_default());
        }
        let slow_call = cli.trigger_call.as_deref().map(|text| parse_duration("--trigger-call", text)).transpose()?;
        Ok(Self::Flight(FlightPlan {
            window: parse_duration("--flight", window)?,
            limit_bytes,
            slow_call,
            any_exit: cli.trigger_exit,
            failed_exit: cli.trigger_failure,
        }))
    }
}

/// `1GiB` or `5m`.
fn parse_limit(text: &str) -> Result<Limit> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    if matches!(unit, "ms" | "s" | "m" | "min" | "h") {
        let time = parse_duration("--split", text)?;
        if time < PART_TIME_MIN {
            bail!("--split {text}: too short; give at least 100ms");
        }
        return Ok(Limit::Time(time));
    }
    if unit.is_empty() || text.is_empty() {
        bail!("--split {text}: neither a size nor a time; give 1GiB or 5m");
    }
    match parse_size("--split", text)? {
        bytes if bytes < PART_BYTES_MIN => bail!("--split {text}: too small; give at least 64KiB"),
        bytes => Ok(Limit::Bytes(bytes)),
    }
}

/// The name of one of several files: `run.igt` becomes `run-0001.igt`, and so on.
///
/// ```
/// use ingero_record::keep::numbered;
/// assert_eq!(numbered("out/run.igt".as_ref(), 12), std::path::Path::new("out/run-0012.igt"));
/// assert_eq!(numbered("run".as_ref(), 1), std::path::Path::new("run-0001"));
/// ```
#[must_use]
pub fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-{number:04}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

/// Files that are there under such names, in their order.
#[must_use]
pub fn existing_parts(path: &Path) -> Vec<PathBuf> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned() + "-";
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(entries) = std::fs::read_dir(parent) else { return Vec::new() };
    let is_part = |found: &Path| {
        let number = found.file_stem().and_then(|s| s.to_str()?.strip_prefix(&stem)?.parse::<u32>().ok());
        number.is_some_and(|n| numbered(path, n).file_name() == found.file_name())
    };
    let mut parts: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).filter(|found| is_part(found)).collect();
    parts.sort_unstable();
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn keep(words: &[&str]) -> Result<Keep> {
        Keep::from_cli(&Cli::try_parse_from([&["ingero-record", "-o", "x", "-a"], words].concat())?)
    }

    #[test]
    fn what_was_typed() {
        assert_eq!(keep(&[]).unwrap(), Keep::Whole);
        assert_eq!(keep(&["--split", "1GiB"]).unwrap(), Keep::Parts(Limit::Bytes(1 << 30)));
        assert_eq!(keep(&["--split", "5m"]).unwrap(), Keep::Parts(Limit::Time(Duration::from_secs(300))));
        assert_eq!(keep(&["--split", "5M"]).unwrap(), Keep::Parts(Limit::Bytes(5 << 20)));
        let Keep::Flight(flight) =
            keep(&["--flight", "30s", "--trigger-call", "50ms", "--trigger-failure", "--flight-size", "64M"]).unwrap()
        else {
            panic!()
        };
        assert_eq!((flight.window, flight.limit_bytes), (Duration::from_secs(30), 64 << 20));
        assert_eq!(flight.slow_call, Some(Duration::from_millis(50)));
        assert!(flight.failed_exit && !flight.any_exit);
    }

    #[test]
    fn what_makes_no_sense() {
        for (words, says) in [
            (&["--split", "5"][..], "--split 5: neither a size nor a time"),
            (&["--split", ""], "--split : neither"),
            (&["--split", "1K"], "--split 1K: too small"),
            (&["--split", "1ms"], "--split 1ms: too short"),
            (&["--split", "1parsec"], "--split 1parsec: no size"),
            (&["--flight", "x"], "--flight x: no time"),
            (&["--flight", "1s", "--flight-size", "1K"], "--flight-size 1K: too small"),
            (&["--flight", "1s", "--trigger-call", "fast"], "--trigger-call fast: no time"),
            (&["--flight", "1s", "--split", "5m"], "neither --split"),
            (&["--trigger-exit"], "need --flight"),
        ] {
            let e = keep(words).unwrap_err().to_string();
            assert!(e.contains(says), "{e}");
        }
    }

    #[test]
    fn parts_are_found_by_their_names() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["run.igt", "run-0002.igt", "run-0001.igt", "run-x.igt", "run-12.igt", "run-0003.txt"] {
            std::fs::write(dir.path().join(name), b"").unwrap();
        }
        let found = existing_parts(&dir.path().join("run.igt"));
        let names: Vec<_> = found.iter().filter_map(|p| p.file_name()?.to_str()).collect();
        assert_eq!(names, ["run-0001.igt", "run-0002.igt"]);
    }
}
