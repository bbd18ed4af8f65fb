//! `--html`: the report as a page for a browser, and where it goes.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressStyle};
use ingero_analyze::{Analysis, html, report};
use ingero_replay::output::{PendingFile, forget_on_signal, is_kept, keep};
use ingero_replay::program;

/// Where a page goes: a file that is not there yet or may be replaced, or standard output.
pub(crate) struct Target<'a>(Option<&'a Path>);

impl<'a> Target<'a> {
    /// Checks that the page may be written, before the work.
    pub(crate) fn new(recording: &Path, output: &'a Path) -> anyhow::Result<Self> {
        if output == Path::new("-") {
            return Ok(Self(None));
        }
        let shown = output.display();
        keep(recording);
        if is_kept(output) {
            bail!("--html {shown}: is the recording itself; choose another name");
        }
        match output.metadata() {
            Ok(there) if !there.is_file() => {
                bail!("--html {shown}: is there and is no regular file; choose another name, or - for standard output")
            }
            Ok(_) if !html::is_report(output) => {
                bail!("--html {shown}: is there and is no report of ingero-analyze; choose another name")
            }
            _ => {}
        }
        if let Err(e) = forget_on_signal(|| std::process::exit(program::INTERRUPTED.into())) {
            program::say("ingero-analyze", &format!("an interrupt may leave a temporary file behind: {e}"));
        }
        Ok(Self(Some(output)))
    }

    /// Shows that there is work going on, until it is dropped.
    pub(crate) fn waiting() -> impl Drop {
        let spinner = ProgressBar::new_spinner().with_message("analysing");
        spinner.enable_steady_tick(Duration::from_millis(120));
        Waiting(spinner)
    }

    /// Makes the page and writes it: the whole of it, or nothing.
    pub(crate) fn write(&self, analysis: &Analysis, options: &report::Options) -> anyhow::Result<()> {
        let bar = ProgressBar::new(1000).with_message("drawing");
        if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {percent} % {eta}") {
            bar.set_style(style);
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a thousand")]
        let mut tell = |share: f64| bar.set_position((1000.0 * share) as u64);
        let page = html::page(analysis, options, &mut tell).context("cannot make the page")?;
        bar.finish_and_clear();
        let Some(output) = self.0 else {
            return std::io::stdout().lock().write_all(page.as_bytes()).context("cannot write the report");
        };
        let file = PendingFile::create(output, true).context("--html")?;
        file.writer()?
            .write_all(page.as_bytes())
            .with_context(|| format!("--html {}: cannot write", output.display()))?;
        file.publish()?;
        Ok(())
    }
}

struct Waiting(ProgressBar);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
