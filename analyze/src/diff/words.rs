//! The comparison in words.

use super::{CauseChange, Diff, LEAST, OpChange, OpSide, percent};
use crate::report::{count, duration, most};

/// Rows of the table of calls.
const OPS: usize = 15;

/// What a cause lost before and after.
fn lost(c: &CauseChange) -> [String; 2] {
    let cell = |(ns, share, at_most): (u64, f64, bool)| match ns {
        0 => "-".to_owned(),
        _ if share < LEAST => percent(share),
        // A column has no room for more words.
        _ => most(at_most, &format!("{} ({})", duration(ns), percent(share).replace("more than ", ">"))),
    };
    [(c.before_ns, c.before_share, c.before_at_most), (c.after_ns, c.after_share, c.after_at_most)].map(cell)
}

/// How often a function was called, how long that took and how long at worst, before and after.
fn calls(op: &OpChange) -> [String; 6] {
    let some = |ns: Option<u64>| ns.map_or("-".to_owned(), duration);
    let cells = |s: Option<OpSide>| match s {
        Some(s) => [count(s.count), some(s.mean_ns), some(s.p99_ns)],
        None => ["-".to_owned(), "-".to_owned(), "-".to_owned()],
    };
    let ([a, b, c], [d, e, f]) = (cells(op.before), cells(op.after));
    [a, b, c, d, e, f]
}

/// The comparison for a person, so many columns wide as [`crate::report::Options::width`] has it.
#[must_use]
pub fn text(d: &Diff, colour: bool, width: usize) -> String {
    use std::fmt::Write;
    let width = crate::report::columns(width);
    let mut out = String::new();
    macro_rules! line {
        ($($arg:tt)*) => {
            // Writing to a String cannot fail.
            let _ = writeln!(out, $($arg)*);
        };
    }
    let bold = |text: &str| if colour { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() };
    for row in crate::report::wrap(&d.verdict, width) {
        line!("{}", bold(&row));
    }
    if d.roles.len() > 1 {
        for role in &d.roles {
            for row in crate::report::wrap(&format!("{}: {}", role.process, role.verdict), width) {
                line!("{row}");
            }
        }
    }
    line!("");
    for (name, side) in [("before", &d.before), ("after", &d.after)] {
        let text = format!(
            "{}: {} submissions in {}, {} of it in gaps{}",
            side.file,
            side.feed.submissions.map_or("unknown".to_owned(), count),
            duration(side.feed.wall_ns),
            side.feed.gaps_ns.map_or("unknown".to_owned(), duration),
            side.feed.busy.map_or(String::new(), |busy| format!("; {}", busy.words()))
        );
        for (n, row) in crate::report::wrap(&text, width - 8).into_iter().enumerate() {
            line!("{:<7} {row}", if n == 0 { name } else { "" });
        }
        for caveat in &side.caveats {
            for (n, row) in crate::report::wrap(caveat, width - 14).into_iter().enumerate() {
                line!("        {} {row}", if n == 0 { "note:" } else { "     " });
            }
        }
    }
    if !d.causes.is_empty() {
        line!("");
        // Hours are longer than what most runs lose.
        let cell = d.causes.iter().flat_map(lost).map(|cell| cell.len()).max().unwrap_or(0).max(20);
        let first = width.min(78).saturating_sub(2 * (cell + 1));
        line!("{}", bold(&format!("{:<first$} {:>cell$} {:>cell$}", "Time lost to", "before", "after")));
        for c in &d.causes {
            let [before, after] = lost(c);
            let name = crate::report::short(&format!("{}, {}", c.kind, c.process), first);
            let name = crate::report::padded(&name, first);
            line!("{name} {before:>cell$} {after:>cell$}");
        }
    }
    if !d.ops.is_empty() {
        line!("");
        let head = ["before", "mean", "p99", "after", "mean", "p99"];
        // A count has more digits than a length of time, which has three.
        let counts = |cells: [String; 6]| [0, 3].map(|at| cells.get(at).map_or(0, String::len));
        let most = |at: usize| d.ops.iter().take(OPS).filter_map(|op| counts(calls(op)).get(at).copied()).max();
        let [before, after] = [0, 1].map(|at| most(at).unwrap_or(0).max(8));
        let first = width.saturating_sub(39 + before + after).max(1);
        // Where there is room, the process has a column.
        let rows = || d.ops.iter().take(OPS);
        let longest = rows().map(|op| crate::report::columns_of(&crate::printable(&op.process))).max().unwrap_or(0);
        let process = longest.clamp("Process".len(), 20);
        let row = |of: &str, name: &str, cells: [String; 6]| {
            let [a, b, c, d, e, f] = cells;
            let name = if first >= 40 {
                format!("{} {name}", crate::report::padded(&crate::report::short(of, process), process))
            } else {
                format!("{name}, {of}")
            };
            // A long name has rows of its own.
            let lead = if crate::report::columns_of(&name) > first {
                crate::report::wrap(&name, width).join("\n") + &format!("\n{:first$}", "")
            } else {
                crate::report::padded(&name, first)
            };
            format!("{lead} {a:>before$} {b:>8} {c:>8}  {d:>after$} {e:>8} {f:>8}")
        };
        line!("{}", bold(&row("Process", "Calls", head.map(str::to_owned))));
        for op in rows() {
            line!("{}", row(&crate::printable(&op.process), &crate::printable(&op.name), calls(op)));
        }
        if d.ops.len() > OPS {
            line!("… and {} more (--format json has all)", d.ops.len() - OPS);
        }
    }
    out
}

/// The comparison as Markdown, for pasting into an issue.
#[must_use]
pub fn markdown(d: &Diff) -> String {
    use crate::report::escaped;
    use std::fmt::Write;
    let mut out = String::new();
    macro_rules! line {
        ($($arg:tt)*) => {
            // Writing to a String cannot fail.
            let _ = writeln!(out, $($arg)*);
        };
    }
    let known = |text: Option<String>| text.unwrap_or_else(|| "unknown".to_owned());
    line!("**{}**\n", escaped(&d.verdict));
    for role in d.roles.iter().filter(|_| d.roles.len() > 1) {
        line!("- {}: {}", escaped(&role.process), escaped(&role.verdict));
    }
    line!("\n| | recording | submissions | time | in gaps |");
    line!("|---|---|--:|--:|--:|");
    for (name, side) in [("before", &d.before), ("after", &d.after)] {
        let (file, feed) = (escaped(&side.file), &side.feed);
        let (submissions, gaps) = (known(feed.submissions.map(count)), known(feed.gaps_ns.map(duration)));
        line!("| {name} | {file} | {submissions} | {} | {gaps} |", duration(feed.wall_ns));
    }
    line!("");
    for (name, side) in [("before", &d.before), ("after", &d.after)] {
        if let Some(busy) = &side.feed.busy {
            line!("- {name}: {}", busy.words());
        }
        for caveat in &side.caveats {
            line!("- note, {name}: {}", escaped(caveat));
        }
    }
    if !d.causes.is_empty() {
        line!("\n### Time lost\n");
        line!("| process | cause | before | after |");
        line!("|---|---|--:|--:|");
        for c in &d.causes {
            let [before, after] = lost(c);
            line!("| {} | {} | {before} | {after} |", escaped(&c.process), c.kind);
        }
    }
    if !d.ops.is_empty() {
        line!("\n### Calls\n");
        line!("| process | call | before | mean | p99 | after | mean | p99 |");
        line!("|---|---|--:|--:|--:|--:|--:|--:|");
        for op in d.ops.iter().take(OPS) {
            line!("| {} | {} | {} |", escaped(&op.process), escaped(&op.name), calls(op).join(" | "));
        }
        if d.ops.len() > OPS {
            line!("\n{} more are left out.", d.ops.len() - OPS);
        }
    }
    out
}
