//! The rows: names at the left, states by columns, calls above them.

use ingero_format::catalog::{FuncId, TaskId};
use ratatui::buffer::Buffer;
use ratatui::style::Style;

use super::{Parts, put};
use crate::app::App;
use crate::readout;
use crate::rows::Row;

/// Calls whose lane is drawn one by one; of more, the columns' shares are.
const ONE_BY_ONE: usize = 5_000;

impl App<'_> {
    pub(super) fn draw_rows(&mut self, parts: &Parts, buffer: &mut Buffer) {
        self.scroll_to_chosen(parts.rows.height);
        let shown: Vec<Row> = self.rows.shown().to_vec();
        // Lines count from the first row's.
        let mut line = 0i64;
        let top = i64::from(self.scroll);
        let bottom = top + i64::from(parts.rows.height);
        for (at, &row) in shown.iter().enumerate() {
            let height = i64::from(self.rows.height(row));
            if line + height > top && line < bottom {
                for part in 0..height {
                    let y = line + part - top;
                    let Ok(y) = u16::try_from(y) else { continue };
                    if y < parts.rows.height {
                        self.line(parts, buffer, (at, row), u16::try_from(part).unwrap_or(0), parts.rows.y + y);
                    }
                }
            }
            line += height;
        }
    }

    /// Scrolls as far as needed for the chosen row to be seen.
    fn scroll_to_chosen(&mut self, height: u16) {
        let heights = self.rows.shown().iter().map(|&row| self.rows.height(row));
        let mut above = 0u32;
        let mut own = 1u32;
        let mut total = 0u32;
        for (at, height) in heights.enumerate() {
            if at < self.chosen {
                above += u32::from(height);
            } else if at == self.chosen {
                own = u32::from(height);
            }
            total += u32::from(height);
        }
        let height = u32::from(height);
        let scroll = self.scroll.min(above).max((above + own).saturating_sub(height));
        self.scroll = scroll.min(total.saturating_sub(height));
    }

    /// One line of a row: lanes of calls first, the states last.
    fn line(&self, parts: &Parts, buffer: &mut Buffer, (at, row): (usize, Row), part: u16, y: u16) {
        let chosen = at == self.chosen;
        let lanes = self.rows.lanes(row);
        if part < lanes {
            if let Row::Thread(_, task) = row {
                self.call_lane(parts, buffer, (row, task), usize::from(part), y);
            }
            return;
        }
        self.name(parts, buffer, row, chosen, y);
        match row {
            Row::Cpus => self.fold_hint(parts, buffer, y),
            Row::Cpu(cpu) => self.cpu(parts, buffer, cpu, y),
            Row::Process(_) | Row::Thread(..) => self.states(parts, buffer, row, y),
        }
        if chosen && let Some(column) = self.view.column(self.cursor_ns) {
            let x = parts.left() + u16::try_from(column).unwrap_or(0);
            if let Some(cell) = buffer.cell_mut((x, y)) {
                let style = self.options.palette.reversed();
                cell.set_style(style);
            }
        }
    }

    fn name(&self, parts: &Parts, buffer: &mut Buffer, row: Row, chosen: bool, y: u16) {
        let palette = self.options.palette;
        let x = parts.area.x;
        let (mark, _) = palette.marks();
        let style = if chosen { palette.strong() } else { Style::new() };
        if chosen {
            put(buffer, (x, y), mark.encode_utf8(&mut [0; 4]), 1, style);
        }
        // A mark, the name, a space before the picture; a thread's id stands at the right.
        let room = parts.gutter.saturating_sub(2);
        let fold = palette.fold(self.rows.is_folded(row));
        let (name, id) = match row {
            Row::Cpus => {
                let seen = self.pyramid.cpus().count();
                let all = self.trace.meta("cpus").and_then(|n| n.parse().ok()).filter(|&all: &usize| all > seen);
                let of = all.map_or_else(String::new, |all| format!(" of {all}"));
                (format!("{fold} CPUs ({seen}{of})"), String::new())
            }
            Row::Cpu(cpu) => (format!("   cpu {cpu}"), String::new()),
            Row::Process(at) => {
                let label = self.rows.groups.get(at).map(|group| {
                    let n = group.threads.len();
                    let threads = if self.rows.is_folded(row) && n > 1 { format!(" x{n}") } else { String::new() };
                    (self.rows.process_label(group.process, self.cursor_ns), threads)
                });
                let (label, threads) = label.unwrap_or_default();
                (format!("{fold} {label}"), threads)
            }
            Row::Thread(_, task) => {
                (format!("   {}", self.rows.thread_name(task, self.cursor_ns)), self.trace.task(task).tid.to_string())
            }
        };
        let id_width = u16::try_from(id.chars().count()).unwrap_or(0);
        let name_room = room.saturating_sub(if id_width > 0 { id_width + 1 } else { 0 });
        let name = self.fit(&palette.text(&name), name_room);
        put(buffer, (x + 1, y), &name, name_room, style);
        put(
            buffer,
            (x + 1 + room - id_width.min(room), y),
            &id,
            id_width,
            if chosen { style } else { palette.quiet() },
        );
    }

    /// A text of at most so many columns, with a mark where it was cut.
    fn fit(&self, text: &str, width: u16) -> String {
        let width = usize::from(width);
        if text.chars().count() <= width {
            return text.to_owned();
        }
        let mut out: String = text.chars().take(width.saturating_sub(1)).collect();
        out.push(self.options.palette.cut());
        out
    }

    fn fold_hint(&self, parts: &Parts, buffer: &mut Buffer, y: u16) {
        if self.rows.is_folded(Row::Cpus) {
            put(
                buffer,
                (parts.left(), y),
                "Enter shows who was on them",
                parts.columns(),
                self.options.palette.quiet(),
            );
        }
    }

    fn states(&self, parts: &Parts, buffer: &mut Buffer, row: Row, y: u16) {
        let cells = self.cells(row);
        let lost = self.lost_columns(row, true);
        for ((column, cell), lost) in (0..parts.columns()).zip(cells.iter()).zip(lost) {
            let palette = self.options.palette;
            let (c, style) = if lost && cell.unknown_ns() > 0 { palette.lost() } else { palette.cell(cell) };
            if let Some(place) = buffer.cell_mut((parts.left() + column, y)) {
                place.set_char(c).set_style(style);
            }
        }
    }

    /// Who was on a CPU, by name where there is room for it.
    fn cpu(&self, parts: &Parts, buffer: &mut Buffer, cpu: u32, y: u16) {
        let palette = self.options.palette;
        let cells = self.cpu_cells(cpu);
        self.mark_lost(parts, buffer, (Row::Cpu(cpu), true), y);
        let holder = |column: usize| {
            // Of a CPU that idles most of the time nobody is the one who has it.
            cells
                .get(column)
                .filter(|cell| cell.busy_ns >= cell.width_ns.div_ceil(4) && cell.busy_ns > 0)
                .and_then(|cell| cell.task)
        };
        let mut column = 0;
        while column < cells.len() {
            let task = holder(column);
            let mut end = column + 1;
            while end < cells.len() && holder(end) == task {
                end += 1;
            }
            if let Some(task) = task {
                let name = self.rows.thread_name(task, self.view.start_of(column));
                self.run(parts, buffer, (column, end), y, &palette.text(&name), palette.holder(task.0), '#');
            }
            column = end;
        }
    }

    /// Marks the columns of a line in which events were lost; what is known is drawn over it.
    fn mark_lost(&self, parts: &Parts, buffer: &mut Buffer, (row, states): (Row, bool), y: u16) {
        let (c, style) = self.options.palette.lost();
        for (column, _) in (0..parts.columns()).zip(self.lost_columns(row, states)).filter(|(_, lost)| *lost) {
            if let Some(place) = buffer.cell_mut((parts.left() + column, y)) {
                place.set_char(c).set_style(style);
            }
        }
    }

    fn call_lane(&self, parts: &Parts, buffer: &mut Buffer, (row, task): (Row, TaskId), depth: usize, y: u16) {
        let palette = self.options.palette;
        let label = if depth == 0 { "calls" } else { "calls within" };
        let x = parts.area.x + 5.min(parts.gutter);
        put(buffer, (x, y), label, parts.gutter.saturating_sub(6), palette.quiet());
        self.mark_lost(parts, buffer, (row, false), y);
        if let Some(closeup) = self.closeup() {
            let calls = closeup.calls(task);
            if calls.len() <= ONE_BY_ONE {
                let calls = calls.iter().filter(|nested| nested.depth == depth);
                for (n, nested) in calls.enumerate() {
                    let call = nested.call;
                    self.one_call(parts, buffer, (call.start_ns, call.end_ns, call.func), n.is_multiple_of(2), y);
                }
                return;
            }
        }
        if depth > 0 {
            let hint = if self.is_close() { "too many to tell apart" } else { "zoom in to see the calls within calls" };
            put(buffer, (parts.left(), y), hint, parts.columns(), palette.quiet());
            return;
        }
        let row = Row::Thread(0, task);
        let row =
            self.rows.shown().iter().copied().find(|r| matches!(r, Row::Thread(_, t) if *t == task)).unwrap_or(row);
        let cells = self.cells(row);
        let func = |column: usize| {
            cells.get(column).filter(|c| c.call_ns >= c.width_ns.div_ceil(2) && c.call_ns > 0).and_then(|c| c.func)
        };
        let (fill, short) = palette.call_fill();
        let (mut column, mut n) = (0, 0);
        while column < cells.len() {
            let here = func(column);
            let mut end = column + 1;
            while end < cells.len() && func(end) == here {
                end += 1;
            }
            match here {
                Some(func) => {
                    n += 1;
                    let name = palette.text(&readout::function(self.trace, func));
                    self.run(parts, buffer, (column, end), y, &name, palette.call(n % 2 == 1), fill);
                }
                None => {
                    for at in (column..end).filter(|&at| cells.get(at).is_some_and(|c| c.call_ns > 0)) {
                        let x = parts.left() + u16::try_from(at).unwrap_or(0);
                        if let Some(place) = buffer.cell_mut((x, y)) {
                            place.set_char(short).set_style(palette.short_calls());
                        }
                    }
                }
            }
            column = end;
        }
    }

    /// A call by itself.
    fn one_call(&self, parts: &Parts, buffer: &mut Buffer, call: (u64, Option<u64>, FuncId), even: bool, y: u16) {
        let palette = self.options.palette;
        let (start_ns, end_ns, func) = call;
        let (from_ns, to_ns) = (self.view.start_ns(), self.view.end_ns());
        let last_ns = end_ns.unwrap_or(start_ns).max(start_ns + 1) - 1;
        if start_ns >= to_ns || last_ns < from_ns {
            return;
        }
        let column = |at: u64| self.view.column(at.clamp(from_ns, to_ns - 1)).unwrap_or(0);
        let name = palette.text(&readout::function(self.trace, func));
        let (fill, _) = palette.call_fill();
        self.run(parts, buffer, (column(start_ns), column(last_ns) + 1), y, &name, palette.call(even), fill);
    }

    /// Columns of one thing, with its name as far as there is room.
    #[expect(clippy::too_many_arguments, reason = "a place, a text and how it looks")]
    fn run(
        &self,
        parts: &Parts,
        buffer: &mut Buffer,
        (column, end): (usize, usize),
        y: u16,
        name: &str,
        style: Style,
        fill: char,
    ) {
        let columns = usize::from(parts.columns());
        let (column, end) = (column.min(columns), end.min(columns));
        let width = end - column;
        let x = parts.left() + u16::try_from(column).unwrap_or(0);
        let brackets = self.options.palette.brackets() && width > 1;
        let room = width - if brackets { 2 } else { 0 };
        let mut text: String = name.chars().take(room).collect();
        // Two letters of a name say nothing.
        if room < 3 {
            text.clear();
        }
        let missing = room - text.chars().count();
        text.extend(std::iter::repeat_n(fill, missing));
        let text = if brackets { format!("[{text}]") } else { text };
        put(buffer, (x, y), &text, u16::try_from(width).unwrap_or(0), style);
    }
}
