//! The line on the terminal while a recording runs.

use std::io::IsTerminal;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::drain::Signals;

/// Redrawn in place; nothing at all where standard error is no terminal.
#[derive(Debug)]
pub(crate) struct Live {
    bar: ProgressBar,
    begun: Instant,
    last: (Instant, u64),
    rate: f64,
}

impl Live {
    /// Begins the line.
    #[must_use]
    pub(crate) fn new(quiet: bool) -> Self {
        let bar = if quiet || !std::io::stderr().is_terminal() {
            ProgressBar::hidden()
        } else {
            ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr())
        };
        if let Ok(style) = ProgressStyle::with_template("recording {msg}") {
            bar.set_style(style);
        }
        let now = Instant::now();
        Self { bar, begun: now, last: (now, 0), rate: 0.0 }
    }

    /// Shows the figures of now.
    pub(crate) fn update(&mut self, signals: &Signals) {
        if self.bar.is_hidden() {
            return;
        }
        let events = signals.events.load(Ordering::Relaxed);
        let bytes = signals.bytes.load(Ordering::Relaxed);
        let lost = signals.lost.load(Ordering::Relaxed);
        let seconds = self.last.0.elapsed().as_secs_f64();
        if seconds >= 0.9 {
            self.rate = events.saturating_sub(self.last.1) as f64 / seconds;
            self.last = (Instant::now(), events);
        }
        let mut line = format!(
            "{}  {} events  {}/s  {}  {}",
            clock(self.begun.elapsed()),
            count(events as f64),
            count(if self.rate > 0.0 {
                self.rate
            } else {
                events as f64 / self.begun.elapsed().as_secs_f64().max(0.01)
            }),
            size(bytes),
            per_event(bytes, events),
        );
        line.push_str(&match lost {
            0 => "  none lost".to_owned(),
            lost => format!("  LOST {}", count(lost as f64)),
        });
        self.bar.set_message(line);
        self.bar.tick();
    }

    /// Removes the line.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// `1:02:03` or `2:03`.
fn clock(time: Duration) -> String {
    let s = time.as_secs();
    match s / 3600 {
        0 => format!("{}:{:02}", s / 60, s % 60),
        h => format!("{h}:{:02}:{:02}", s / 60 % 60, s % 60),
    }
}

/// Short form of a count.
pub(crate) fn count(n: f64) -> String {
    match n {
        n if n >= 1e9 => format!("{:.2} G", n / 1e9),
        n if n >= 1e6 => format!("{:.2} M", n / 1e6),
        n if n >= 1e4 => format!("{:.1} k", n / 1e3),
        n => format!("{n:.0}"),
    }
}

/// Short form of a size.
pub(crate) fn size(bytes: u64) -> String {
    let b = bytes as f64;
    match bytes {
        0..=9_999 => format!("{bytes} B"),
        10_000..=999_999 => format!("{:.1} kB", b / 1e3),
        1_000_000..=999_999_999 => format!("{:.1} MB", b / 1e6),
        _ => format!("{:.2} GB", b / 1e9),
    }
}

/// Bytes per event.
pub(crate) fn per_event(bytes: u64, events: u64) -> String {
    if events == 0 { "- B/event".to_owned() } else { format!("{:.2} B/event", bytes as f64 / events as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures() {
        assert_eq!(clock(Duration::from_secs(123)), "2:03");
        assert_eq!(clock(Duration::from_secs(3723)), "1:02:03");
        assert_eq!(count(9_999.0), "9999");
        assert_eq!(count(12_345.0), "12.3 k");
        assert_eq!(count(1_234_567.0), "1.23 M");
        assert_eq!(size(999), "999 B");
        assert_eq!(size(1_500_000), "1.5 MB");
        assert_eq!(per_event(10, 0), "- B/event");
        assert_eq!(per_event(30, 10), "3.00 B/event");
    }
}
