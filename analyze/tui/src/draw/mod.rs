//! The picture: title, time axis, rows, what is said of the cursor, keys.

mod axis;
mod help;
mod panel;
mod rows;

use ingero_format::catalog::Kind;
use ingero_replay::show_wall;
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::app::{App, Mode};

/// The smallest screen that anything can be seen on.
const SMALLEST: (u16, u16) = (40, 10);

/// Columns that all keys take in one line.
const ALL_KEYS: u16 = 150;

/// Where the parts of the screen are.
#[derive(Debug, Clone, Copy)]
struct Parts {
    area: Rect,
    /// Columns of names, left of the picture.
    gutter: u16,
    axis: u16,
    rows: Rect,
    /// The line between rows and panel.
    line: u16,
    panel: Rect,
    keys: u16,
    key_lines: u16,
}

impl Parts {
    fn of(area: Rect) -> Self {
        let panel = match area.height {
            0..14 => 3,
            14..30 => 5,
            _ => 6,
        };
        let gutter = (area.width * 2 / 7).clamp(13, 34);
        // Where there is room, every key is shown.
        let key_lines = if area.height >= 20 && area.width < ALL_KEYS { 2 } else { 1 };
        let rows_height = area.height - 3 - key_lines - panel;
        let rows = Rect { y: area.y + 2, height: rows_height, ..area };
        let line = rows.y + rows.height;
        Self {
            area,
            gutter,
            axis: area.y + 1,
            rows,
            line,
            panel: Rect { y: line + 1, height: panel, ..area },
            keys: area.y + area.height - key_lines,
            key_lines,
        }
    }

    /// First column of the picture.
    fn left(&self) -> u16 {
        self.area.x + self.gutter
    }

    /// Columns of the picture.
    fn columns(&self) -> u16 {
        self.area.width - self.gutter
    }
}

/// Puts a text into a line, cut where it must be; where it ends.
fn put(buffer: &mut Buffer, (x, y): (u16, u16), text: &str, most: u16, style: Style) -> u16 {
    if most == 0 {
        return x;
    }
    let (end, _) = buffer.set_stringn(x, y, text, usize::from(most), style);
    end
}

impl App<'_> {
    /// Draws everything.
    pub fn draw(&mut self, frame: &mut Frame) {
        let area = frame.area();
        let buffer = frame.buffer_mut();
        if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
            let text = format!("too small: needs {} x {}, q quits", SMALLEST.0, SMALLEST.1);
            if area.height > 0 {
                put(buffer, (area.x, area.y), &text, area.width, Style::new());
            }
            return;
        }
        let parts = Parts::of(area);
        self.view.resize(usize::from(parts.columns()), self.cursor_ns);
        self.page = parts.rows.height;
        self.title(&parts, buffer);
        self.axis(&parts, buffer);
        self.draw_rows(&parts, buffer);
        self.legend(&parts, buffer);
        self.panel(&parts, buffer);
        self.key_line(&parts, buffer);
        if self.mode == Mode::Help {
            self.help(&parts, buffer);
        }
    }

    fn title(&self, parts: &Parts, buffer: &mut Buffer) {
        let palette = self.options.palette;
        let (from_ns, to_ns) = self.view.bounds_ns();
        let path = ingero_format::one_line(self.trace.path());
        let name = path.rsplit('/').next().unwrap_or(&path);
        // First, so that a narrow terminal shows it too.
        let lossy = if self.is_whole() { "" } else { "not whole, " };
        let length = ingero_replay::wording::length(to_ns - from_ns);
        let left = palette.text(&format!("{lossy}{name}: {length}"));
        let closeness = match (self.is_close(), self.closeup().is_some()) {
            (false, _) => "",
            (true, true) => ", event by event",
            (true, false) => ", many events: shares",
        };
        let column = ingero_replay::wording::length(self.view.width_ns());
        let right = palette.text(&format!("{}  (column {column}{closeness})", self.instant(self.cursor_ns)));
        let width = parts.area.width;
        let at = width.saturating_sub(u16::try_from(right.chars().count()).unwrap_or(width));
        put(buffer, (parts.area.x, parts.area.y), &left, at.saturating_sub(1), palette.strong());
        put(buffer, (parts.area.x + at, parts.area.y), &right, width - at, Style::new());
    }

    /// An instant, as times are to be shown.
    pub(crate) fn instant(&self, at_ns: u64) -> String {
        let offset_ns = at_ns.saturating_sub(self.options.window.trace_start_ns);
        match self.options.start_unix_ns {
            Some(start) => show_wall(start.saturating_add(offset_ns)),
            None => format!("{} s", ingero_replay::wording::seconds(i128::from(offset_ns))),
        }
    }

    fn legend(&self, parts: &Parts, buffer: &mut Buffer) {
        let palette = self.options.palette;
        let (line, _) = palette.lines();
        let quiet = palette.quiet();
        let mut x = parts.area.x;
        let end = parts.area.x + parts.area.width;
        for at in x..end {
            put(buffer, (at, parts.line), line.encode_utf8(&mut [0; 4]), 1, quiet);
        }
        x += 1;
        let has = |kind: Kind| self.trace.has_rows(kind as u16);
        let undivided = self.lost.iter().any(|l| l.hides_wakes(self.trace));
        let (switches, off_cpu) = (has(Kind::Switch), has(Kind::OffCpu) || undivided);
        let mut legend = palette.legend(switches || !off_cpu, off_cpu);
        if !self.lost.is_empty() {
            // First, for a narrow terminal has no room for all.
            let (c, style) = palette.lost();
            legend.insert(0, (c, style, ["events lost", "lost"]));
        }
        let width = |name: &str| u16::try_from(name.chars().count()).unwrap_or(0) + 5;
        // Rather fewer words than fewer states.
        let all: u16 = legend.iter().map(|(.., [name, _])| width(name)).sum();
        let short = usize::from(x + all > end);
        for (c, style, names) in legend {
            let name = names[short];
            let width = width(name);
            if x + width > end {
                break;
            }
            let sample: String = [' ', c, c, ' '].iter().collect();
            put(buffer, (x, parts.line), " ", 1, quiet);
            put(buffer, (x + 1, parts.line), &sample[1..sample.len() - 1], 2, style);
            put(buffer, (x + 3, parts.line), &format!(" {name} "), width - 3, quiet);
            x += width;
        }
    }

    /// What can be pressed, or what is being typed.
    fn key_line(&self, parts: &Parts, buffer: &mut Buffer) {
        let palette = self.options.palette;
        let (x, y, width) = (parts.area.x, parts.keys, parts.area.width);
        let prompt = match self.mode {
            Mode::Search => Some("thread, process or call: "),
            Mode::Time => Some("time (12.5s, or 2026-03-01T14:06:13Z): "),
            _ => None,
        };
        if let Some(prompt) = prompt {
            let end = put(buffer, (x, y), prompt, width, palette.strong());
            let room = usize::from((x + width).saturating_sub(end + 1));
            // The end of what is typed stays in sight.
            let typed: Vec<char> = self.typed.chars().collect();
            let shown: String = typed[typed.len().saturating_sub(room)..].iter().collect();
            let end = put(buffer, (end, y), &ingero_format::one_line(&shown), width, Style::new());
            put(buffer, (end, y), " ", 1, palette.reversed());
            return;
        }
        let arrows = if palette == crate::palette::Palette::plain() { "arrows" } else { "←→↑↓" };
        let help = ("?", "help");
        let keys = [
            help,
            (arrows, "move"),
            ("+-", "zoom"),
            ("Tab", "next state"),
            (".", "incident"),
            ("w", "waker"),
            ("b", "back"),
            ("/", "find"),
            ("n", "next"),
            ("t", "time"),
            ("Enter", "fold"),
            ("e", "next place"),
            ("z", "to state"),
            ("0", "all"),
            ("q", "quit"),
        ];
        // What does not fit stands in the help; how to leave is always there.
        let length =
            |(key, what): &(&str, &str)| u16::try_from(key.chars().count() + what.chars().count() + 2).unwrap_or(0);
        let quit = length(&keys[keys.len() - 1]);
        let mut at = x;
        let mut show = |pair: &(&str, &str), at: &mut u16, y: u16| {
            *at = put(buffer, (*at, y), pair.0, width, palette.reversed());
            *at = put(buffer, (*at, y), &format!(" {} ", pair.1), width, Style::new()).min(x + width);
        };
        let mut rest = &keys[..];
        let (mut y, last) = (y, y + parts.key_lines - 1);
        if y < last {
            // The line above the last: help and how to leave stand below.
            rest = &keys[1..];
            while let [pair, after @ ..] = rest
                && !after.is_empty()
                && at + length(pair) <= x + width + 1
            {
                show(pair, &mut at, y);
                rest = after;
            }
            (at, y) = (x, last);
            show(&help, &mut at, y);
        }
        for (n, pair) in rest.iter().enumerate() {
            let room = if n + 1 == rest.len() { 0 } else { quit };
            if at + length(pair) + room > x + width + 1 {
                continue;
            }
            show(pair, &mut at, y);
        }
    }
}

#[cfg(test)]
mod tests;
