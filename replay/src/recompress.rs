//! The same events in a smaller file: what `ingero-replay compact` does.

use std::collections::BTreeSet;
use std::io::Write;

use anyhow::{Result, bail};
use ingero_format::catalog::{Kind, event_kind};
use ingero_format::layout::MAX_ROWS;
use ingero_format::{SPAN_KEY, Trace, TraceWriter, WriterOptions};

use crate::Merge;

/// zstd's strongest level that needs no special memory to read.
const LEVEL: i32 = 19;
/// Events between two reports of progress.
const STEP: u64 = 1 << 14;

/// Refuses what could not be rewritten whole: the result would hide what is missing.
///
/// # Errors
/// What is missing, or what this build does not know.
pub fn check(trace: &Trace) -> Result<()> {
    let path = trace.path();
    if !trace.complete() || !trace.damage().is_empty() {
        bail!("{path} is cut off or damaged, and a compacted copy would not show it; see ingero-replay verify {path}");
    }
    for kind in trace.schema() {
        let known = Kind::from_number(kind.number).map(event_kind);
        let rows = trace.has_rows(kind.number);
        let columns = |id: u8| known.is_some_and(|k| k.columns.iter().any(|c| c.id == id));
        if rows && !kind.columns.iter().all(|c| columns(c.id)) {
            bail!("{path} has events ({}) that this build does not know in full; use a newer ingero", kind.name);
        }
    }
    Ok(())
}

/// Writes all events but those `without` anew and returns the bytes that they take; `progress` hears of the events so far.
///
/// What is left out counts as not recorded in the result, which names it (`left_out`): else its absence would be read as
/// "watched for, and did not happen".
///
/// # Errors
/// When a block cannot be read, or the output not be written.
pub fn rewrite(trace: &Trace, without: &BTreeSet<u16>, out: impl Write, progress: impl Fn(u64)) -> Result<u64> {
    let options = WriterOptions { level: LEVEL, seal_rows: MAX_ROWS, thorough: true, seal_ns: u64::MAX };
    let mut writer = TraceWriter::new(out, options)?;
    let names: Vec<&str> =
        trace.all_kinds().iter().filter(|k| without.contains(&k.number)).map(|k| k.name.as_str()).collect();
    for (key, value) in trace.meta_entries() {
        match key.as_str() {
            "probes" => {
                let kept: Vec<&str> = value.split(',').filter(|probe| !names.contains(probe)).collect();
                writer.set_meta(key, &kept.join(","));
            }
            "left_out" | SPAN_KEY if !names.is_empty() => (),
            _ => writer.set_meta(key, value),
        }
    }
    if !names.is_empty() {
        let before = trace.meta("left_out").into_iter().flat_map(|list| list.split(','));
        let all: BTreeSet<&str> = before.chain(names.iter().copied()).collect();
        if let Some((first_ns, last_ns)) = trace.span_ns() {
            writer.set_meta(SPAN_KEY, &format!("{first_ns} {last_ns}"));
        }
        writer.set_meta("left_out", &all.into_iter().collect::<Vec<_>>().join(","));
    }
    for (id, text) in trace.strings().iter().enumerate().skip(1) {
        if writer.string(text).index() != id {
            bail!("{}: string {id} ({text:?}) stands twice in its dictionary", trace.path());
        }
    }
    for &task in trace.tasks().iter().skip(1) {
        writer.task(task);
    }
    for function in trace.functions() {
        writer.function(function.clone());
    }
    let kept = |kind: Kind| !without.contains(&(kind as u16));
    // Readings of the clocks come first: a copy that is cut off still says when it was.
    let mut clocks = Merge::of(trace, |kind| kind == Kind::Clock && kept(kind));
    for event in clocks.by_ref() {
        writer.push_any(event.ts_ns, event.cpu, &event.body)?;
    }
    writer.seal_kind(Kind::Clock)?;
    if let Some(lost) = clocks.into_lost().pop() {
        return Err(lost.error.into());
    }
    let mut merge = Merge::of(trace, |kind| kind != Kind::Clock && kept(kind));
    for (event, number) in merge.by_ref().zip(1u64..) {
        writer.push_any(event.ts_ns, event.cpu, &event.body)?;
        if number % STEP == 0 {
            progress(number);
        }
    }
    if let Some(lost) = merge.into_lost().pop() {
        return Err(lost.error.into());
    }
    Ok(writer.finish()?.1.bytes)
}
