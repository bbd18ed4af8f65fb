//! Which CPUs there are.

use std::fs;

use super::Error;

/// Parses the kernel's list form: `0-3,8,10-11`.
pub(super) fn parse_list(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        // The kernel's own limit is 8192; a damaged list must not fill the memory.
        cpus.extend((first..=last).take(1 << 16));
    }
    Some(cpus)
}

fn read(which: &str) -> Result<Vec<u32>, Error> {
    let path = format!("/sys/devices/system/cpu/{which}");
    let text = fs::read_to_string(&path).map_err(|source| Error::os(format!("reading {path}"), source))?;
    parse_list(&text).filter(|cpus| !cpus.is_empty()).ok_or_else(|| Error::Os {
        action: format!("reading {path}"),
        source: std::io::Error::other(format!("{text:?} is no list of CPUs")),
    })
}

/// CPUs that run now.
pub(super) fn online() -> Result<Vec<u32>, Error> {
    read("online")
}

/// CPUs that may ever run: per-CPU maps hold one value for each number up to the largest.
pub(super) fn possible() -> Result<Vec<u32>, Error> {
    read("possible")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_ranges_and_single_numbers() {
        assert_eq!(parse_list("0-2,5,7-8\n"), Some(vec![0, 1, 2, 5, 7, 8]));
        assert_eq!(parse_list("\n"), Some(vec![]));
        assert_eq!(parse_list("0-x"), None);
    }
}
