//! The time axis.

use ingero_replay::show_wall;
use ratatui::buffer::Buffer;

use super::{Parts, put};
use crate::app::App;

/// The shortest of 1, 2, 5, 10, 20, … nanoseconds that is at least this.
fn step_from(ns: u64) -> u64 {
    let mut step = 1u64;
    loop {
        for factor in [1, 2, 5] {
            if step.saturating_mul(factor) >= ns {
                return step.saturating_mul(factor);
            }
        }
        step = step.saturating_mul(10);
        if step > u64::MAX / 10 {
            return u64::MAX;
        }
    }
}

/// Seconds with as many places as a step needs.
fn seconds(ns: u64, step_ns: u64) -> String {
    let mut places = 9;
    let mut unit = 1;
    while places > 0 && step_ns.is_multiple_of(unit * 10) {
        unit *= 10;
        places -= 1;
    }
    let text = ingero_replay::wording::seconds(i128::from(ns));
    let cut = text.len() - (9 - places) - usize::from(places == 0);
    format!("{} s", text.get(..cut).unwrap_or(&text))
}

impl App<'_> {
    pub(super) fn axis(&self, parts: &Parts, buffer: &mut Buffer) {
        let palette = self.options.palette;
        let (quiet, y) = (palette.quiet(), parts.axis);
        let start_ns = self.options.window.trace_start_ns;
        let width_ns = self.view.width_ns();
        let wall = self.options.start_unix_ns;
        // A label has room beside the next.
        let label_columns: u64 = if wall.is_some() { 18 } else { 14 };
        let step_ns = step_from(width_ns.saturating_mul(label_columns));
        let offset = self.view.start_ns().saturating_sub(start_ns);
        let mut at_ns = offset.div_ceil(step_ns).saturating_mul(step_ns);
        let (_, tick) = palette.lines();
        let mut free = parts.left();
        while let Some(column) = self.view.column(start_ns.saturating_add(at_ns)) {
            let x = parts.left() + u16::try_from(column).unwrap_or(0);
            let label = match wall {
                Some(start) => show_wall(start.saturating_add(at_ns)).get(11..23).unwrap_or_default().to_owned(),
                None => seconds(at_ns, step_ns),
            };
            let room = (parts.area.x + parts.area.width).saturating_sub(x);
            // Half a label would be another time.
            if x >= free && usize::from(room) > label.chars().count() {
                let end = put(buffer, (x, y), tick.encode_utf8(&mut [0; 4]), 1, quiet);
                free = put(buffer, (end, y), &label, room.saturating_sub(1), quiet) + 1;
            }
            at_ns = at_ns.saturating_add(step_ns);
        }
        let gutter = match self.options.pids.len() {
            0 => "CPUs, processes, threads",
            _ => "CPUs, chosen processes",
        };
        put(buffer, (parts.area.x, y), gutter, parts.gutter.saturating_sub(1), quiet);
        if let Some(column) = self.view.column(self.cursor_ns) {
            let x = parts.left() + u16::try_from(column).unwrap_or(0);
            let (_, mark) = palette.marks();
            if let Some(cell) = buffer.cell_mut((x, y)) {
                // Of a label no digit is lost.
                if cell.symbol() == " " || cell.symbol().starts_with(tick) {
                    cell.set_char(mark);
                }
                cell.set_style(palette.strong().patch(palette.reversed()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_have_the_places_that_their_step_needs() {
        assert_eq!([1, 3, 7, 12, 501, 6_000].map(step_from), [1, 5, 10, 20, 1_000, 10_000]);
        assert_eq!(step_from(u64::MAX), u64::MAX);
        assert_eq!(seconds(12_000_000_000, 2_000_000_000), "12 s");
        assert_eq!(seconds(12_500_000_000, 500_000_000), "12.5 s");
        assert_eq!(seconds(12_000_000_005, 5), "12.000000005 s");
        assert_eq!(seconds(0, 20_000), "0.00000 s");
    }
}
