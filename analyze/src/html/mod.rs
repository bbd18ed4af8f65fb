//! The report as one page for a browser: verdict, causes, a timeline to zoom into, tables, histograms.
//!
//! The page is one file that loads nothing: style and script stand in it, and its policy allows just these two. Its words
//! and tables are there without the script; the figures are those of the JSON contract, made from the same rows. What
//! the timeline is drawn from ([`pack`]) is cut to size before: see [`page`].

mod charts;
mod document;
mod gather;
mod grid;
mod pack;
mod sights;
mod tracks;

use std::io::{self, Read};
use std::path::Path;

use document::Document;
use gather::Gathered;
use grid::Grid;
use ingero_format::catalog::Kind;
use ingero_replay::pyramid::{Pyramid, cache_path};

use crate::Analysis;
use crate::report::{Options, count, duration};

/// The most that the timeline's data take in a page.
pub const DATA_BYTES: usize = 4 << 20;
/// Switches and calls in the range up to which the timeline has every one of them.
const EXACT_ROWS: u64 = 400_000;
/// Columns of the timeline where it has not, in the order in which they are tried.
const COLUMNS: [usize; 8] = [32_768, 16_384, 8_192, 4_096, 2_048, 1_024, 512, 256];
/// Columns of all threads together at most: a browser is to have them ready in a moment.
const CELLS: usize = 1 << 20;
/// Parts that are shown exactly then at most, around what shows the causes.
const PARTS: usize = 64;
/// A part shorter than this shows nothing.
const SLIVER_NS: u64 = 1_000;

/// The report as a page: [`DATA_BYTES`] at most for its timeline, and its words and tables. `tell` is told which share of the
/// work is done.
///
/// Where the range holds few enough events, the timeline has all of them. Otherwise it has columns of equal width with
/// the time by state in each, and all events around what shows the causes.
///
/// # Errors
/// When a page cannot be made of it, which no trace should bring about.
pub fn page(a: &Analysis, options: &Options, tell: &mut dyn FnMut(f64)) -> io::Result<String> {
    page_of(a, options, Limits { exact_rows: EXACT_ROWS, data_bytes: DATA_BYTES }, tell)
}

/// How much of a recording is in a page.
#[derive(Clone, Copy)]
struct Limits {
    /// Switches and calls up to which every one is there.
    exact_rows: u64,
    /// Bytes of the timeline's data.
    data_bytes: usize,
}

/// [`page`] within other limits.
fn page_of(a: &Analysis, options: &Options, limits: Limits, tell: &mut dyn FnMut(f64)) -> io::Result<String> {
    let (from_ns, to_ns) = (a.window.from_ns, a.window.from_ns.saturating_add(a.window.len_ns()).saturating_add(1));
    let mut notes = Vec::new();
    if a.sampled() {
        notes.push("A sample: what is blank was not stored, and may have been anything.".to_owned());
    }
    if !a.losses.hidden(from_ns, to_ns).is_empty() {
        notes.push(
            "Events were lost in the hatched stretches: what is blank there is not idle, nothing is known of it."
                .to_owned(),
        );
    }
    if within(a, &[Kind::Switch, Kind::Call]) <= limits.exact_rows {
        let grid = Grid::new(from_ns, to_ns, 1, 1);
        let gathered = Gathered::new(a, grid, &[(from_ns, to_ns)], tell);
        let (rows, hidden) = tracks::rows(a, options, &gathered.seen);
        let data = tracks::pack(a, options, grid, &rows, hidden, &gathered, None)?;
        if data.len() <= limits.data_bytes {
            note_left_out(&mut notes, hidden, gathered.named_left_out);
            return Ok(Document { a, options, gathered: &gathered, data: &data, notes: &notes }.render());
        }
    }
    // A pyramid that the timeline for terminals has left beside the recording is as good as a new one.
    let known = Pyramid::open(a.trace, &cache_path(a.trace));
    let pyramid = known.unwrap_or_else(|| Pyramid::build(a.trace, &mut |share| tell(share / 2.0)));
    let parts = parts(a, options, from_ns, to_ns);
    let whole = Grid::new(from_ns, to_ns, 1, 1);
    let mut gathered = Gathered::new(a, whole, &parts, &mut |share| tell(0.5 + share / 2.0));
    let (rows, hidden) = tracks::rows(a, options, &gathered.seen);
    let mut packed = (String::new(), whole);
    for columns in COLUMNS.into_iter().filter(|n| n * rows.len() <= CELLS) {
        let grid = Grid::new(from_ns, to_ns, columns, pyramid.cell_ns());
        packed = (tracks::pack(a, options, grid, &rows, hidden, &gathered, Some(&pyramid))?, grid);
        if packed.0.len() <= limits.data_bytes {
            break;
        }
    }
    if packed.0.len() > limits.data_bytes {
        gathered.parts.clear();
        packed.0 = tracks::pack(a, options, packed.1, &rows, hidden, &gathered, Some(&pyramid))?;
    }
    let shown: Vec<_> = gathered.parts.iter().filter(|p| p.to_ns > p.from_ns).collect();
    let around = match shown.len() {
        0 => String::new(),
        n => format!(
            ", and every event in {n} stretch{} of {} in all around what shows the causes",
            if n == 1 { "" } else { "es" },
            duration(crate::sum(shown.iter().map(|p| p.to_ns - p.from_ns)))
        ),
    };
    notes.push(format!(
        "The timeline has the time by state in columns of {}{around}; --from and --to show a part of the recording with all \
         its events.",
        duration(packed.1.width_ns)
    ));
    note_left_out(&mut notes, hidden, gathered.named_left_out);
    Ok(Document { a, options, gathered: &gathered, data: &packed.0, notes: &notes }.render())
}

/// Stretches around what shows the causes, in order and apart. Where there are too many, the first one of each cause goes before the others,
/// and short ones go before long ones.
fn parts(a: &Analysis, options: &Options, from_ns: u64, to_ns: u64) -> Vec<(u64, u64)> {
    let wanted = |pid| options.pids.is_empty() || options.pids.contains(&pid);
    let incidents = a.incidents.iter().filter(|i| wanted(a.processes.get(i.process).pid));
    let around = |s: sights::Sight| {
        let margin = s.end_ns.saturating_sub(s.start_ns).max(1_000) * 7 / 10;
        (s.start_ns.saturating_sub(margin).max(from_ns), s.end_ns.saturating_add(margin).min(to_ns))
    };
    let ranked = |i| sights::sights(a, i).into_iter().enumerate().map(|(n, sight)| (n > 0, around(sight)));
    let mut all: Vec<(bool, (u64, u64))> = incidents.flat_map(ranked).collect();
    all.retain(|(_, (from, to))| from < to);
    all.sort_unstable_by_key(|&(later, (from, to))| (later, to - from, from));
    let mut out: Vec<(u64, u64)> = Vec::new();
    for (_, (from, to)) in all.into_iter().take(PARTS) {
        // What others have already is left out.
        let mut at = from;
        let mut fresh = Vec::new();
        for &(begin, end) in out.iter().filter(|&&(begin, end)| begin < to && from < end) {
            fresh.push((at, begin));
            at = end;
        }
        fresh.push((at, to));
        out.extend(fresh.into_iter().filter(|(from, to)| from + SLIVER_NS <= *to));
        out.sort_unstable();
    }
    out
}

fn note_left_out(notes: &mut Vec<String>, hidden: usize, named: u64) {
    if named > 0 {
        notes.push(format!(
            "{} more named ranges and pieces of GPU work, the shortest ones, are left out; --from and --to show a part of the recording",
            count(named)
        ));
    }
    if hidden > 0 {
        notes.push(format!(
            "{} more threads have no row here: those of processes with calls and of their causes come first, --pid picks some",
            count(hidden as u64)
        ));
    }
}

/// Events of some kinds in the range, at most.
fn within(a: &Analysis, kinds: &[Kind]) -> u64 {
    let (from_ns, to_ns) = (a.window.from_ns, a.window.to_ns);
    let blocks = a.trace.blocks().iter().map(|b| b.header);
    let wanted =
        blocks.filter(|h| kinds.iter().any(|&k| k as u16 == h.kind) && h.ts_min < to_ns && h.ts_max >= from_ns);
    wanted.map(|h| u64::from(h.rows)).sum()
}

/// Whether a file is an earlier report, or empty, so that a new one may take its place.
#[must_use]
pub fn is_report(path: &Path) -> bool {
    let mut begin = Vec::new();
    let read = std::fs::File::open(path).and_then(|f| f.take(document::BEGINS.len() as u64).read_to_end(&mut begin));
    read.is_ok() && (begin.is_empty() || begin == document::BEGINS.as_bytes())
}

#[cfg(test)]
mod tests;
