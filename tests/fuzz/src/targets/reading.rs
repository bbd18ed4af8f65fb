//! Everything that reads a recording.

use ingero_analyze::{Analysis, html, report};
use ingero_format::layout::{
    CHUNK_FOOTER, CHUNK_FUNCTIONS, CHUNK_INDEX, CHUNK_META, CHUNK_SCHEMA, CHUNK_STRINGS, CHUNK_TASKS,
};
use ingero_format::{Batch, Trace};
use ingero_replay::{CallSpan, Merge, Processes, Sink, Timeline, Window};

use super::{EVENTS_AT_MOST, any, changed, opened, read_block};
use crate::dice::Dice;
use crate::seeds::Seeds;

#[derive(Default)]
pub(super) struct Longest(u64);

impl Sink for Longest {
    fn call(&mut self, span: &CallSpan) {
        self.0 = self.0.max(span.dur_ns());
    }
}

/// Anything may be changed.
pub(super) fn reader(seeds: &Seeds, dice: &mut Dice) -> Result<u64, String> {
    read(seeds, &changed(seeds, dice))
}

pub(super) fn schema(seeds: &Seeds, dice: &mut Dice) -> Result<u64, String> {
    read(seeds, &any(seeds, dice).change_type(CHUNK_SCHEMA, dice))
}

pub(super) fn meta(seeds: &Seeds, dice: &mut Dice) -> Result<u64, String> {
    read(seeds, &any(seeds, dice).change_type(CHUNK_META, dice))
}

pub(super) fn strings(seeds: &Seeds, dice: &mut Dice) -> Result<u64, String> {
    read(seeds, &any(seeds, dice).change_type(CHUNK_STRINGS, dice))
}

pub(super) fn tasks(seeds: &Seeds, dice: &mut Dice) -> Result<u64, String> {
    read(seeds, &any(seeds, dice).change_type(CHUNK_TASKS, dice))
}

pub(super) fn functions(seeds: &Seeds, dice: &mut Dice) -> Result<u64, String> {
    read(seeds, &any(seeds, dice).change_type(CHUNK_FUNCTIONS, dice))
}

pub(super) fn headers(seeds: &Seeds, dice: &mut Dice) -> Result<u64, String> {
    read(seeds, &any(seeds, dice).change_headers(dice))
}

pub(super) fn index(seeds: &Seeds, dice: &mut Dice) -> Result<u64, String> {
    read(seeds, &any(seeds, dice).change_type(CHUNK_INDEX, dice))
}

pub(super) fn footer(seeds: &Seeds, dice: &mut Dice) -> Result<u64, String> {
    read(seeds, &any(seeds, dice).change_type(CHUNK_FOOTER, dice))
}

/// Reads every part of a file by itself.
fn read(seeds: &Seeds, bytes: &[u8]) -> Result<u64, String> {
    let Some(trace) = opened(seeds, bytes) else { return Ok(0) };
    let mut batch = Batch::new().map_err(|e| e.to_string())?;
    let mut rows = 0;
    for c in trace.chunks() {
        let _ = trace.check_chunk(c);
    }
    for b in trace.blocks() {
        let _ = trace.stored_columns(b);
        let _ = read_block(&trace, b, &mut batch, Some(&[3, 5]))?;
        if read_block(&trace, b, &mut batch, None)?.is_ok() {
            rows += batch.rows() as u64;
            for c in trace.kind_schema(b.header.kind).iter().flat_map(|k| &k.columns) {
                if let Some(word) = batch.column(c.id).and_then(ingero_format::Words::last) {
                    let _ = trace.show(c, word);
                }
            }
        }
    }
    Ok(rows)
}

/// Rows that the headers promise.
fn promised(trace: &Trace) -> u64 {
    trace.blocks().iter().map(|b| u64::from(b.header.rows)).sum()
}

/// Events in the order of their times, and the timeline made of them.
pub(super) fn merge(seeds: &Seeds, dice: &mut Dice) -> Result<u64, String> {
    let bytes = changed(seeds, dice);
    let Some(trace) = opened(seeds, &bytes) else { return Ok(0) };
    if promised(&trace) > EVENTS_AT_MOST {
        return Ok(promised(&trace));
    }
    // In order only where the headers tell the truth, which verify finds out.
    let mut rows = Merge::rows(&trace, |_| true);
    let mut given = 0;
    while rows.next_row().is_some() {
        given += 1;
    }
    let processes = Processes::new(&trace);
    processes.iter().for_each(|(id, process)| {
        let _ = (processes.process_name_at(id, process.pid.into()), processes.descends(id, id));
    });
    Timeline::new(&trace).run(&mut Longest::default());
    Ok(given)
}

/// The whole analysis, as JSON, as text and as a page.
pub(super) fn analyze(seeds: &Seeds, dice: &mut Dice) -> Result<u64, String> {
    let bytes = changed(seeds, dice);
    let Some(trace) = opened(seeds, &bytes) else { return Ok(0) };
    if promised(&trace) > EVENTS_AT_MOST {
        return Ok(promised(&trace));
    }
    let analysis = Analysis::new(&trace, Window::whole(&trace));
    let json = report::json(&analysis, &[]).map_err(|e| e.to_string())?;
    let text = report::text(&analysis, &report::Options { per_process: true, ..Default::default() });
    if text.contains('\u{1b}') || !json.starts_with('{') {
        return Err("a report with control characters, or no JSON".to_owned());
    }
    let page = html::page(&analysis, &report::Options::default(), &mut |_| {}).map_err(|e| e.to_string())?;
    // Its two scripts are its own.
    if page.matches("<script").count() != 2 || page.contains('\u{1b}') {
        return Err("a page with what is not its own".to_owned());
    }
    Ok(text.len() as u64)
}
