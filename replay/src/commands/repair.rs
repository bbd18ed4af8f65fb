//! `repair`: a whole and complete file of what can be read of a damaged one.

use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use ingero_format::catalog::{Loss, NO_CPU};
use ingero_format::layout::{CHUNK_BLOCK, CPU_SEVERAL};
use ingero_format::{ChunkCopy, Error, SPAN_KEY, Trace, WriterOptions, one_line};
use ingero_replay::output::PendingFile;
use ingero_replay::program::Ending;
use ingero_replay::{UNKNOWN_KIND, cut_off, known_span};

use super::verify::{Check, SOURCE_LOST};
use ingero_replay::wording::{count, seconds};

pub(super) fn run(trace: &Trace, output: &Path, force: bool, out: &mut impl Write) -> Result<Ending> {
    let file = PendingFile::create(output, force)?;
    let writing = || format!("cannot write {}", output.display());
    let mut check = Check::opened(trace);
    let mut copy = ChunkCopy::new(trace, BufWriter::new(file.writer()?), WriterOptions::default())?;
    let mut events = 0;
    let mut dictionaries = 0_u64;
    for chunk in trace.chunks() {
        match copy.take(chunk) {
            Ok(()) if chunk.header.chunk_type == CHUNK_BLOCK => events += u64::from(chunk.header.rows),
            Ok(()) => {}
            Err(Error::Corrupt { problem, .. }) => {
                let known = trace.damage().iter().any(|d| d.offset == chunk.offset);
                let rows = if chunk.header.chunk_type == CHUNK_BLOCK { chunk.header.rows } else { 0 };
                dictionaries += u64::from(chunk.header.chunk_type != CHUNK_BLOCK);
                if !known {
                    check.note(chunk, problem, Some(u64::from(rows)));
                }
            }
            Err(other) => return Err(other.into()),
        }
    }
    let (lost, unknown) = count_lost(trace, &mut check, events);

    let mut writer = copy.into_writer()?;
    // That the file ends there is told below.
    for finding in check.findings.iter().filter(|f| f.rows != Some(0) && !f.is_cut) {
        let name = finding.block.map_or(UNKNOWN_KIND, |h| trace.kind_name(h.kind));
        let probe = writer.string(name);
        let cpu = finding.block.map(|h| h.cpu).filter(|&cpu| cpu != CPU_SEVERAL).unwrap_or(NO_CPU);
        let (from_ns, to_ns) = finding.span_ns.or(known_span(trace)).unwrap_or_default();
        writer.push(from_ns, cpu, &Loss { to_ns, probe, cause: SOURCE_LOST, count: finding.rows, of_host: None })?;
    }
    // What came after the last whole block is not known, not even whether anything did; nor what came of the kinds that
    // everything hangs on, behind the last block of each.
    let behind = cut_off(trace);
    let ends_early = !behind.is_empty();
    for l in behind {
        let probe = writer.string(&l.what);
        let of_host = l.host.map(|host| host as u64);
        writer.push(l.from_ns, NO_CPU, &Loss { to_ns: l.to_ns, probe, cause: SOURCE_LOST, count: None, of_host })?;
    }
    if lost > 0 || unknown || ends_early || dictionaries > 0 || !check.findings.is_empty() {
        if let Some((first_ns, last_ns)) = known_span(trace) {
            writer.set_meta(SPAN_KEY, &format!("{first_ns} {last_ns}"));
        }
        writer.set_meta("repaired", &summary(&check, events, lost, unknown || ends_early, dictionaries));
    }
    let (buffered, _) = writer.finish()?;
    buffered.into_inner().map_err(|e| anyhow!("{}: {}", writing(), e.error()))?.sync_all().with_context(writing)?;
    file.publish()?;
    let said = summary(&check, events, lost, unknown || ends_early, dictionaries);
    writeln!(out, "{}: {said}", one_line(&output.display().to_string())).context("cannot write")?;
    Ok(Ending::Done)
}

/// Events that are not in the copy, and whether there may be more. The footer knows how many there
/// were: where one finding alone has no number, it is the rest.
fn count_lost(trace: &Trace, check: &mut Check, kept: u64) -> (u64, bool) {
    let known: u64 = check.findings.iter().filter_map(|f| f.rows).sum();
    let mut open = check.findings.iter_mut().filter(|f| f.rows.is_none());
    let (first, second) = (open.next(), open.next());
    match (trace.events_written(), first, second) {
        (Some(written), Some(only), None) => {
            let rest = written.saturating_sub(kept).saturating_sub(known);
            only.rows = Some(rest);
            (known + rest, false)
        }
        (_, None, _) => (known, false),
        (written, ..) => (written.map_or(known, |w| w.saturating_sub(kept)), written.is_none()),
    }
}

fn summary(check: &Check, kept: u64, lost: u64, unknown: bool, dictionaries: u64) -> String {
    let mut text = format!("{} kept", count(kept, "event"));
    let least = if unknown { "at least " } else { "" };
    text.push_str(&match (lost, unknown) {
        (0, false) => ", none lost".to_owned(),
        (0, true) if check.lost_ns() == 0 => ", what came after the last one is unknown".to_owned(),
        (0, true) => format!(", an unknown number lost within {} s", seconds(check.lost_ns())),
        _ => format!(", {least}{} lost within {} s", count(lost, "event"), seconds(check.lost_ns())),
    });
    if dictionaries > 0 {
        text.push_str(&format!("; {} of names lost", count(dictionaries, "chunk")));
    }
    text
}
