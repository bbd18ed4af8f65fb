//! What is said of the cursor, and of the incident that was gone to.

use ingero_replay::wording::wrapped;
use ratatui::buffer::Buffer;
use ratatui::style::Style;

use super::{Parts, put};
use crate::app::App;
use crate::readout;
use crate::rows::Row;

impl App<'_> {
    pub(super) fn panel(&self, parts: &Parts, buffer: &mut Buffer) {
        let palette = self.options.palette;
        let width = usize::from(parts.panel.width);
        let mut lines: Vec<(String, Style)> = Vec::new();
        let most = usize::from(parts.panel.height);
        // The incident's sentence and what the last key has to say come last and always have their lines.
        let mut last: Vec<(String, Style)> = Vec::new();
        if let Some((text, style)) = self.incident_text() {
            let rows = wrapped(&text, width);
            let room = if most > 4 { 2 } else { 1 };
            last.extend(cut(rows, room, palette.cut()).into_iter().map(|row| (row, style)));
        }
        if !self.message.is_empty() {
            let message = palette.text(&self.message);
            // What went wrong is said in full where there is room: the incident comes back with the next key.
            let rows = cut(wrapped(&message, width), most.saturating_sub(2).clamp(1, 3), palette.cut());
            last.truncate(most.saturating_sub(1 + rows.len()));
            last.extend(rows.into_iter().map(|row| (row, palette.strong())));
        }
        let room = most.saturating_sub(last.len());
        let mut add = |text: String, style: Style, rows: usize| {
            let rows = rows.min(room.saturating_sub(lines.len()));
            let text = palette.text(&text);
            lines.extend(cut(wrapped(&text, width), rows, palette.cut()).into_iter().map(|row| (row, style)));
        };
        if let Some(lost) = self.lost_here() {
            let text = format!("events lost here: {}; {}", lost.words(self.trace), lost.hidden(self.trace));
            add(text, palette.severity("HIGH"), room.saturating_sub(1).clamp(1, 2));
        }
        match (self.row(), self.moment()) {
            (Some(row), Some(moment)) => {
                let who = self.rows.thread_label(moment.task, self.cursor_ns);
                let calls = readout::calls(self.trace, &moment);
                let state = readout::state(self.trace, &self.rows, &moment);
                let state = format!("{who}: {state}");
                // As much of the state as leaves a line for the calls.
                let spare = usize::from(!calls.is_empty());
                add(state, Style::new(), room.saturating_sub(spare).clamp(1, 3));
                if !calls.is_empty() {
                    add(calls, Style::new(), 1);
                }
                if let Row::Thread(..) = row
                    && let Some(column) = self.view.column(self.cursor_ns)
                    && let Some(cell) = self.cells(row).get(column)
                {
                    let column_end_ns = self.view.start_of(column + 1);
                    let exited = self.rows.processes.exited_ns(moment.task).is_some_and(|ns| ns < column_end_ns);
                    add(readout::column(self.trace, cell, exited), palette.quiet(), 2);
                }
            }
            (Some(Row::Cpus), _) => add("CPUs: Enter shows who was on each".to_owned(), Style::new(), 1),
            _ => add("nothing is known of any thread here".to_owned(), Style::new(), 1),
        }
        for (n, (text, style)) in lines.iter().enumerate() {
            self.panel_line(parts, buffer, n, text, *style);
        }
        for (n, (text, style)) in last.iter().enumerate() {
            self.panel_line(parts, buffer, most - last.len() + n, text, *style);
        }
    }

    fn panel_line(&self, parts: &Parts, buffer: &mut Buffer, n: usize, text: &str, style: Style) {
        let y = parts.panel.y + u16::try_from(n).unwrap_or(0);
        if y < parts.panel.y + parts.panel.height {
            put(buffer, (parts.panel.x, y), text, parts.panel.width, style);
        }
    }

    /// The incident that was gone to, or how many there are.
    fn incident_text(&self) -> Option<(String, Style)> {
        let palette = self.options.palette;
        let quiet = palette.quiet();
        let Some(incidents) = &self.incidents else {
            return Some(("incidents: the analysis runs".to_owned(), quiet));
        };
        let Some((at, place)) = self.at_incident else {
            let found = match incidents.len() {
                0 if self.is_whole() => return Some(("no incident was found".to_owned(), quiet)),
                0 => return Some(("no incident was found in what is whole".to_owned(), quiet)),
                1 => "1 incident".to_owned(),
                n => format!("{n} incidents"),
            };
            return Some((format!("{found}: . goes to the first"), quiet));
        };
        let incident = incidents.get(at)?;
        let mut text = format!("incident {}/{} {}: {}", at + 1, incidents.len(), incident.severity, incident.summary);
        if let Some(here) = incident.places.get(place) {
            let count = incident.places.len();
            let which = if count > 1 { format!(" ({}/{count}, e: next)", place + 1) } else { String::new() };
            text = format!("{text}. Here{which}: {}", here.what);
        }
        Some((palette.text(&text), palette.severity(incident.severity)))
    }
}

/// The first rows of a text, the last of them with a mark where more would follow.
fn cut(mut rows: Vec<String>, most: usize, mark: char) -> Vec<String> {
    if rows.len() > most {
        rows.truncate(most);
        if let Some(last) = rows.last_mut() {
            last.pop();
            last.push(mark);
        }
    }
    rows
}
