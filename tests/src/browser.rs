//! A report of `ingero-analyze --html`, opened in Chromium.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::process::run;
use crate::wheels::playwright;

/// Debian's package `chromium` and what others call it.
const CHROMIUM: [&str; 4] =
    ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome-stable", "/usr/bin/google-chrome"];

fn chromium() -> PathBuf {
    CHROMIUM.into_iter().map(PathBuf::from).find(|p| p.exists()).unwrap_or_else(|| {
        panic!("no Chromium at any of {CHROMIUM:?}: install it, on Debian by apt-get install chromium")
    })
}

/// Opens a report, does with it what a person does, and returns what `tests/html/browser.mjs` tells of it. Screenshots are
/// left in a folder, where one is given.
#[must_use]
pub fn browse(report: &Path, screenshots: Option<&Path>) -> Value {
    let mut node = Command::new("node");
    node.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/html/browser.mjs"))
        .arg(playwright())
        .arg(chromium())
        .arg(report)
        .args(screenshots);
    let run = run(&mut node, Duration::from_secs(240)).success();
    serde_json::from_str(&run.stdout).unwrap_or_else(|e| panic!("browser.mjs printed no JSON: {e}: {run:#?}"))
}
