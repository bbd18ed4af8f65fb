//! What is said when a recording is over.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use ingero_format::Totals;
use ingero_format::catalog::Layer;

use crate::library::attached::Attached;
use crate::live::{per_event, size};
use crate::scribe::{Counts, RECORDER};
use crate::text::one_line;

/// Everything that the last lines are made of.
#[derive(Debug)]
pub(crate) struct Summary<'a> {
    /// The file.
    pub(crate) output: &'a Path,
    /// How long was recorded.
    pub(crate) duration: Duration,
    /// Rows and bytes.
    pub(crate) totals: Totals,
    /// Rows by what they are.
    pub(crate) counts: &'a Counts,
    /// Files with probes.
    pub(crate) attached: &'a [Attached],
    /// What went wrong on the way.
    pub(crate) problems: &'a [String],
}

impl Summary<'_> {
    /// A few lines of text.
    #[must_use]
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        // Writing into a string cannot fail.
        let mut line = |text: String| {
            let _ = writeln!(out, "{}", one_line(&text));
        };
        let c = self.counts;
        line(format!(
            "recorded {} into {}: {} events, {}, {}",
            match self.duration.as_millis() {
                ms @ 0..1000 => format!("{ms} ms"),
                _ => format!("{:.1} s", self.duration.as_secs_f64()),
            },
            self.output.display(),
            self.totals.events,
            size(self.totals.bytes),
            per_event(self.totals.bytes, self.totals.events),
        ));
        let calls: Vec<String> = c.calls.iter().map(|(l, n)| format!("{n} {} calls", l.name())).collect();
        let mut what = if calls.is_empty() { vec!["0 CUDA calls".to_owned()] } else { calls };
        if c.halves > 0 {
            what.push(format!("{} calls with one edge only", c.halves));
        }
        what.push(format!("{} context switches", c.switches));
        what.push(format!("{} new processes", c.processes));
        line(what.join(", "));
        let seen = !c.calls.is_empty() || c.halves > 0;
        let mapped = self.attached.iter().any(|a| a.mapped);
        // A short-lived process is gone before anyone sees what it has mapped: its calls prove that it had something.
        let used: Vec<&Attached> = self.attached.iter().filter(|a| a.mapped || (seen && !mapped)).collect();
        for a in &used {
            let kind = if a.is_static { " (linked statically)" } else { "" };
            line(format!("probed {}{kind}: {} runtime, {} driver functions", a.path.display(), a.runtime, a.driver));
        }
        if used.is_empty() {
            let waiting = match self.attached.len() {
                0 => "none was found".to_owned(),
                n => format!("{n} found on disk, none loaded by what was recorded"),
            };
            line(format!("WARNING: no CUDA library: {waiting}; the file holds scheduling only"));
        } else if !seen {
            line("WARNING: CUDA libraries were loaded, yet no call was seen".to_owned());
        } else if !used.iter().any(|a| a.runtime > 0) && c.calls.contains_key(&Layer::Driver) {
            line(
                "note: no CUDA runtime with symbols (linked statically and stripped?): only driver calls are seen"
                    .to_owned(),
            );
        }
        for ((probe, cause), n) in &c.losses {
            match *probe {
                RECORDER => line(format!("LOST everything after that ({cause})")),
                probe => line(format!("LOST {n} {probe} ({cause}); reports say where")),
            }
        }
        for problem in self.problems {
            line(format!("WARNING: {problem}"));
        }
        line(format!("next: ingero-analyze {}", shell_word(&self.output.display().to_string())));
        out
    }
}

/// A word as a shell takes it.
fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_cannot_steer_the_terminal() {
        let text = Summary {
            output: Path::new("run\x1b[31m\n.igt"),
            duration: Duration::ZERO,
            totals: Totals { events: 0, bytes: 0 },
            counts: &Counts::default(),
            attached: &[],
            problems: &["lib\x1b[31m\n.so".to_owned()],
        }
        .text();
        assert!(!text.contains('\x1b'), "{text:?}");
        assert!(text.contains("WARNING: lib\\u{1b}[31m\\n.so\n"), "{text:?}");
    }

    #[test]
    fn says_what_is_missing() {
        let counts = Counts { losses: [(("call", "ring-full"), 3)].into(), ..Counts::default() };
        let text = Summary {
            output: Path::new("my run.igt"),
            duration: Duration::from_millis(1500),
            totals: Totals { events: 10, bytes: 100 },
            counts: &counts,
            attached: &[],
            problems: &["x".to_owned()],
        }
        .text();
        for part in [
            "1.5 s",
            "10 events",
            "10.00 B/event",
            "WARNING: no CUDA library: none was found",
            "LOST 3 call (ring-full)",
            "WARNING: x",
            "ingero-analyze 'my run.igt'",
        ] {
            assert!(text.contains(part), "{part} not in {text}");
        }
    }
}
