//! The table of a process's calls.

use std::fmt::Write;

use ingero_format::catalog::FuncId;
use ingero_replay::ProcessId;

use super::text::{Report, line};
use super::{count, duration};
use crate::{OpFigures, OpTotals};

/// Width of a column with its space.
const CELL: usize = 9;
/// Columns that are always there: count, total, mean, p50, p99, max.
const CELLS: usize = 6;
/// With those of what the time went to, a name's column is at least so wide.
const NAME: usize = 18;
/// A call's time off its CPU is worth a line from this share of its whole on, in percent.
const WORTH_PERCENT: u64 = 10;

impl Report<'_> {
    /// All calls of a process by function, those that took longest first.
    pub(super) fn calls(&mut self, id: ProcessId, indent: &str) {
        let a = self.a;
        let mut ops = a.ops(id);
        if ops.is_empty() {
            return;
        }
        let totals = a.figures(id).totals.as_ref();
        let total = |func: FuncId| totals.and_then(|t| t.ops.get(&func)).copied();
        ops.sort_by_key(|&(func, op)| {
            let sum_ns = total(func).map_or(op.sum_ns(), |t| t.sum_ns.unwrap_or(0));
            (std::cmp::Reverse(sum_ns), func)
        });
        // Where there is room, what the time went to has columns too.
        let room = self.width - indent.len();
        let states = room >= NAME + 6 + (CELLS + 2) * CELL;
        let cells = if states { CELLS + 2 } else { CELLS };
        // A count has more digits than a length of time, which has three.
        let most = ops.iter().map(|&(func, op)| total(func).map_or(op.count(), |t| t.count.max(op.count()))).max();
        let counts = (count(most.unwrap_or(0)).len() + 1).max(CELL);
        let width = room.saturating_sub((cells - 1) * CELL + counts).max(3);
        let mut table = Table { indent: indent.to_owned(), width, cells, counts };
        let head = ["count", "total", "mean", "p50", "p99", "max", "runnable", "blocked"].map(str::to_owned);
        let at_least = a.at_least_of(id);
        let least = match (at_least.calls, at_least.states) {
            (false, false) => "",
            (true, false) => ", at least: calls were lost",
            (false, true) => ", runnable and blocked at least: events were lost",
            (true, true) => ", at least: events were lost",
        };
        let title = if indent.is_empty() { format!("Calls of {}", a.label(id)) } else { "calls".to_owned() };
        let title = title + least;
        for row in table.rows(&title, &head) {
            line!(self, "{}", self.bold(&row));
        }
        table.indent.push_str("  ");
        table.width -= 2;
        let mut layers: Vec<&str> = Vec::new();
        for (func, op) in ops {
            let info = a.trace.function(func);
            let name = info.map_or("?", |i| i.symbol.as_str());
            if let Some(layer) = info.map(|i| i.layer.name())
                && !layers.contains(&layer)
            {
                layers.push(layer);
            }
            let rows = match total(func) {
                _ if !a.sampled_of(id) => table.rows(name, &cells_of(op, a.knows_states_of(id))),
                totals => table.rows(name, &cells_of_totals(&totals.unwrap_or_default())),
            };
            for row in rows {
                line!(self, "{row}");
            }
            if !a.sampled_of(id) {
                self.odd(op, &format!("{}  ", table.indent), states);
            }
        }
        if layers.len() > 1 {
            self.wrapped(indent, "A runtime call holds the driver call that it makes: the two are not to be added up.");
        }
    }

    /// What else is to be said of a function's calls.
    fn odd(&mut self, op: &OpFigures, indent: &str, states: bool) {
        let mut odd = Vec::new();
        let sum_ns = op.sum_ns();
        let worth = |ns: u64| ns > 0 && ns.saturating_mul(100 / WORTH_PERCENT) >= sum_ns && !states;
        if worth(op.spent.runnable_ns) {
            odd.push(format!("runnable {}", duration(op.spent.runnable_ns)));
        }
        if op.spent.throttled_ns > 0 {
            odd.push(format!("throttled {}", duration(op.spent.throttled_ns)));
        }
        if worth(op.spent.blocked_ns) {
            odd.push(format!("blocked {}", duration(op.spent.blocked_ns)));
        }
        if op.errors > 0 {
            odd.push(format!("{} returned an error", count(op.errors)));
        }
        if op.unreturned > 0 {
            odd.push(format!("{} never returned", count(op.unreturned)));
        }
        if op.began_before > 0 {
            odd.push(format!("{} more began before the recording", count(op.began_before)));
        }
        if !odd.is_empty() {
            self.wrapped(indent, &format!("of these {}", odd.join(", ")));
        }
    }
}

fn some(ns: Option<u64>) -> String {
    ns.map_or("-".to_owned(), duration)
}

fn cells_of(op: &OpFigures, knows_states: bool) -> [String; CELLS + 2] {
    let state = |ns: u64| some(knows_states.then_some(ns));
    [
        count(op.count()),
        duration(op.sum_ns()),
        some(op.mean_ns()),
        some(op.percentile_ns(50)),
        some(op.percentile_ns(99)),
        some(op.percentile_ns(100)),
        state(op.spent.runnable_ns),
        state(op.spent.blocked_ns),
    ]
}

/// The cells of a function of a sampled source.
fn cells_of_totals(t: &OpTotals) -> [String; CELLS + 2] {
    let unknown = || "-".to_owned();
    let calls = if t.count > 0 { count(t.count) } else { unknown() };
    [calls, some(t.sum_ns), some(t.mean_ns()), unknown(), unknown(), some(t.max_ns), unknown(), unknown()]
}

/// A table whose first column is a name.
struct Table {
    indent: String,
    /// Of the name's column.
    width: usize,
    cells: usize,
    /// Width of the first of them.
    counts: usize,
}

impl Table {
    /// The row of a name, or several where the name needs more room than its column has.
    fn rows(&self, name: &str, cells: &[String]) -> Vec<String> {
        let name = crate::printable(name);
        let place = |at: usize| if at == 0 { self.counts } else { CELL };
        let cells = cells.iter().take(self.cells).enumerate().map(|(at, cell)| format!("{cell:>0$}", place(at)));
        let cells: String = cells.collect();
        let (indent, width) = (&self.indent, self.width);
        if super::columns_of(&name) <= width {
            return vec![format!("{indent}{}{cells}", super::padded(&name, width))];
        }
        let own = super::wrap(&name, width + self.counts + (self.cells - 1) * CELL)
            .into_iter()
            .map(|row| format!("{indent}{row}"));
        own.chain([format!("{indent}{:<width$}{cells}", "")]).collect()
    }
}
