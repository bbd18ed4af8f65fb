//! The keys, explained.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::{Parts, put};
use crate::app::App;

/// Keys and what they do.
pub(super) const KEYS: [(&str, &str); 17] = [
    ("Left Right, h l", "move the cursor by a column"),
    ("Up Down, k j", "choose a row; PgUp PgDn: a page"),
    ("+ -", "zoom in and out around the cursor; 0: all of the time"),
    ("[ ], Shift+arrows", "move by half a screen; Home End: the ends"),
    ("Tab, Shift+Tab", "to the thread's next state, to the one before"),
    ("z", "zoom to the state under the cursor"),
    ("w", "follow the wake: to the thread that ended this wait"),
    ("b, Backspace", "back to where the cursor was before a jump"),
    (". ,", "to the next incident, to the one before"),
    ("e", "to the incident's next place"),
    ("/", "find a thread, process or call by its name or id"),
    ("n N", "the next one found, the one before"),
    ("t", "go to a time: 12.5s, 300ms, 2026-03-01T14:06:13Z"),
    ("Enter, Space", "fold a process; of a thread: more or less of its calls"),
    ("?", "this help"),
    ("q, Ctrl-C", "quit"),
    ("", ""),
];

pub(super) const NOTES: [&str; 3] = [
    "A column shows in how much of it the thread ran (the bar, or #), and what",
    "it did else: could run but had no CPU (from a quarter on), was throttled,",
    "blocked. The line of the process: whether any of its threads ran.",
];

impl App<'_> {
    pub(super) fn help(&self, parts: &Parts, buffer: &mut Buffer) {
        let palette = self.options.palette;
        let lines = KEYS.len() + NOTES.len() + 1;
        let width = parts.area.width.min(80);
        // Where little of the screen would show around it, all of it is taken, up to the heading and the keys: what is left
        // of a sentence below says nothing.
        let screen = parts.area.height;
        let needed = u16::try_from(lines).unwrap_or(0).min(screen);
        let height = if screen - needed < 6 { needed.max(screen.saturating_sub(2)) } else { needed };
        let x = parts.area.x + (parts.area.width - width) / 2;
        let y = parts.area.y + (parts.area.height - height) / 2;
        let area = Rect { x, y, width, height };
        for y in area.top()..area.bottom() {
            for x in area.left()..area.right() {
                if let Some(cell) = buffer.cell_mut((x, y)) {
                    cell.reset();
                }
            }
        }
        let mut at = y;
        let bottom = y + height;
        let mut line = |key: &str, what: &str, style: Style| {
            if at < bottom {
                let end = put(buffer, (x + 1, at), key, width - 1, palette.strong());
                let column = if key.is_empty() { x + 1 } else { end.max(x + 20) + 1 };
                put(buffer, (column, at), what, (x + width).saturating_sub(column), style);
            }
            at += 1;
        };
        line("", "any key closes this", palette.reversed());
        for (key, what) in KEYS {
            line(key, what, Style::new());
        }
        for note in NOTES {
            line("", note, palette.quiet());
        }
    }
}
