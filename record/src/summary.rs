//! What is said when a recording is over.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ingero_format::catalog::{Kind, Layer};
use ingero_format::{Totals, one_line};

use crate::library::attached::Attached;
use crate::live::{per_event, size};
use crate::scribe::{Counts, RECORDER};
use crate::selection::Selection;

/// Everything that the last lines are made of.
#[derive(Debug)]
pub(crate) struct Summary<'a> {
    /// The files, in order.
    pub(crate) files: &'a [PathBuf],
    /// What else there is to say.
    pub(crate) notes: &'a [String],
    /// Which sources were asked for.
    pub(crate) selection: &'a Selection,
    /// Whether returns were probed.
    pub(crate) returns: bool,
    /// What a probed call costs here, nanoseconds.
    pub(crate) call_ns: Option<u64>,
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
        let last = self.files.last().map_or(Path::new(""), PathBuf::as_path);
        line(format!(
            "recorded {} into {}: {} events, {}, {}",
            match self.duration.as_millis() {
                ms @ 0..1000 => format!("{ms} ms"),
                _ => format!("{:.1} s", self.duration.as_secs_f64()),
            },
            self.names(),
            self.totals.events,
            size(self.totals.bytes),
            per_event(self.totals.bytes, self.totals.events),
        ));
        let calls: Vec<String> = c.calls.iter().map(|(l, n)| format!("{n} {} calls", l.name())).collect();
        let mut what = if !self.selection.has(Kind::Call) {
            Vec::new()
        } else if calls.is_empty() {
            vec!["0 CUDA calls".to_owned()]
        } else {
            calls
        };
        if c.halves > 0 {
            what.push(format!("{} calls with one edge only", c.halves));
        }
        what.push(format!("{} context switches", c.switches));
        what.push(format!("{} new processes", c.processes));
        line(what.join(", "));
        let seen = !c.calls.is_empty() || c.halves > 0;
        // NVTX by itself makes no calls that a recording is made for.
        let (cuda, names): (Vec<&Attached>, Vec<&Attached>) = self.attached.iter().partition(|a| a.has_calls());
        let mapped = cuda.iter().any(|a| a.mapped);
        // A short-lived process is gone before anyone sees what it has mapped: its calls prove that it had something.
        let used: Vec<&Attached> = cuda.iter().copied().filter(|a| a.mapped || (seen && !mapped)).collect();
        for a in used.iter().copied().chain(names.into_iter().filter(|a| a.mapped)) {
            let kind = if a.is_static { " (linked statically)" } else { "" };
            line(format!("probed {}{kind}: {}", a.path.display(), a.functions()));
        }
        if !self.selection.has(Kind::Call) {
            line("CUDA calls were not asked for".to_owned());
        } else if used.is_empty() {
            let waiting = match cuda.len() {
                0 => "none was found".to_owned(),
                n => format!("{n} found on disk, none loaded by what was recorded"),
            };
            line(format!("WARNING: no CUDA library: {waiting}; the file holds scheduling only"));
        } else if !seen {
            line("WARNING: CUDA libraries were loaded, yet no call was seen".to_owned());
        } else if !used.iter().any(|a| a.runtime > 0)
            && c.calls.contains_key(&Layer::Driver)
            && self.selection.has_layer(Layer::Runtime)
        {
            line(
                "note: no CUDA runtime with symbols (linked statically and stripped?): only driver calls are seen"
                    .to_owned(),
            );
        }
        if !self.returns && self.selection.has(Kind::Call) {
            line(
                "note: entries alone were probed, so no call has a length (--returns never, or because return probes would \
                 kill programs in a sandbox on this kernel; --returns always takes that risk)"
                    .to_owned(),
            );
        }
        let probed = c.calls.values().sum::<u64>() + c.halves;
        if let Some(ns) = self.call_ns.filter(|_| probed > 0) {
            let all = Duration::from_nanos(ns.saturating_mul(probed)).as_secs_f64();
            line(format!(
                "recording cost the calls {:.2} µs each (measured here at the start), {all:.2} s in all threads",
                ns as f64 / 1e3
            ));
        }
        line(format!("the recorder itself used {}", own_cpu(self.duration)));
        for ((probe, cause), n) in &c.losses {
            match *probe {
                RECORDER => line(format!("LOST everything after that ({cause})")),
                probe => line(format!("LOST {n} {probe} ({cause}); reports say where")),
            }
        }
        for note in self.notes {
            line(note.clone());
        }
        for problem in self.problems {
            line(format!("WARNING: {problem}"));
        }
        line(format!("next: ingero-analyze {}", shell_word(&last.display().to_string())));
        out
    }
}

/// CPU time of this process so far, and its share of one CPU over a time.
fn own_cpu(wall: Duration) -> String {
    // SAFETY: a zeroed structure is a valid place for the result.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is valid for the length of the call.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    let (user, system) = (seconds(usage.ru_utime), seconds(usage.ru_stime));
    let share = (user + system) / wall.as_secs_f64().max(1e-3) * 100.0;
    format!("{:.2} s of CPU time ({user:.2} user, {system:.2} system), {share:.0} % of one CPU", user + system)
}

impl Summary<'_> {
    /// The file, or the first and the last of several.
    fn names(&self) -> String {
        match self.files {
            [] => "no file".to_owned(),
            [one] => one.display().to_string(),
            [first, .., last] => format!("{} … {} ({} files)", first.display(), last.display(), self.files.len()),
        }
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
            files: &["run\x1b[31m\n.igt".into()],
            notes: &[],
            selection: &Selection::default(),
            returns: true,
            call_ns: None,
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
            files: &["my run.igt".into()],
            notes: &[],
            selection: &Selection::default(),
            returns: true,
            call_ns: None,
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
