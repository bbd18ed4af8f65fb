//! `compact`: the same events in a smaller file.

use std::ffi::OsString;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use ingero_format::catalog::{Kind, event_kind};
use ingero_format::layout::MAX_ROWS;
use ingero_format::{Trace, TraceWriter, WriterOptions};
use ingero_replay::Merge;
use ingero_replay::program::Ending;

use crate::args::CompactArgs;
use crate::wording::{count, grouped, ratio};

/// zstd's strongest level that needs no special memory to read.
const LEVEL: i32 = 19;
/// Events between two steps of the progress bar.
const STEP: u64 = 1 << 14;

pub(super) fn run(trace: &Trace, args: &CompactArgs, out: &mut impl Write) -> Result<Ending> {
    check(trace)?;
    let output = args.output.canonicalize().unwrap_or_else(|_| args.output.clone());
    let shown = args.output.display();
    match output.symlink_metadata() {
        Ok(meta) if !meta.is_file() => bail!("--output {shown}: is there and is no regular file"),
        Ok(_) if !args.force => bail!("--output {shown}: exists already; choose another name or add --force"),
        _ => {}
    }
    // Under a name of its own until it is complete, readable by its owner alone.
    let folder = output.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut prefix = OsString::from(".");
    prefix.push(output.file_name().unwrap_or_default());
    let file = tempfile::Builder::new()
        .prefix(&prefix)
        .suffix(".tmp")
        .tempfile_in(folder)
        .with_context(|| format!("creating a file in {}", folder.display()))?;
    let events: u64 = trace.blocks().iter().map(|b| u64::from(b.header.rows)).sum();
    let bar = if args.quiet { ProgressBar::hidden() } else { ProgressBar::new(events) };
    if let Ok(style) = ProgressStyle::with_template("compacting {wide_bar} {human_pos}/{human_len} {eta}") {
        bar.set_style(style);
    }
    let bytes = rewrite(trace, BufWriter::new(file.as_file()), &bar)?;
    bar.finish_and_clear();
    let named = if args.force { file.persist(&output) } else { file.persist_noclobber(&output) };
    named.map_err(|e| e.error).with_context(|| format!("renaming to {shown}"))?;
    if !args.quiet {
        let before = trace.len_bytes();
        writeln!(
            out,
            "{shown}: {}, {} bytes per event (before: {} bytes, {})",
            count(bytes, "byte"),
            ratio(bytes, events),
            grouped(before),
            ratio(before, events)
        )
        .context("cannot write")?;
    }
    Ok(Ending::Done)
}

/// Refuses what could not be rewritten whole: the result would hide what is missing.
fn check(trace: &Trace) -> Result<()> {
    let path = trace.path();
    if !trace.complete() || !trace.damage().is_empty() {
        bail!("{path} is cut off or damaged, and a compacted copy would not show it; see ingero-replay verify {path}");
    }
    for kind in trace.schema() {
        let known = Kind::from_number(kind.number).map(event_kind);
        let rows = trace.blocks().iter().any(|b| b.header.kind == kind.number && b.header.rows > 0);
        let columns = |id: u8| known.is_some_and(|k| k.columns.iter().any(|c| c.id == id));
        if rows && !kind.columns.iter().all(|c| columns(c.id)) {
            bail!("{path} has events ({}) that this build does not know in full; use a newer ingero", kind.name);
        }
    }
    Ok(())
}

/// Writes all events anew and returns the bytes that they take.
fn rewrite(trace: &Trace, out: impl Write, bar: &ProgressBar) -> Result<u64> {
    let options = WriterOptions { level: LEVEL, seal_rows: MAX_ROWS, thorough: true, seal_ns: u64::MAX };
    let mut writer = TraceWriter::new(out, options)?;
    for (key, value) in trace.meta_entries() {
        writer.set_meta(key, value);
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
    let mut merge = Merge::new(trace);
    for (event, number) in merge.by_ref().zip(1u64..) {
        writer.push_any(event.ts_ns, event.cpu, &event.body)?;
        if number % STEP == 0 {
            bar.set_position(number);
        }
    }
    if let Some(lost) = merge.into_lost().pop() {
        return Err(lost.error.into());
    }
    Ok(writer.finish()?.1.bytes)
}
