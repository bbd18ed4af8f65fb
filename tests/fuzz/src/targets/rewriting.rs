//! What makes a recording of another one.

use std::collections::BTreeSet;

use ingero_format::layout::{CHUNK_BLOCK, TRANSFORM_NAMES};
use ingero_format::{Batch, ChunkCopy, Error, Trace, TraceWriter, WriterOptions};
use ingero_replay::{Merge, recompress};

use super::{EVENTS_AT_MOST, changed, opened};
use crate::dice::Dice;
use crate::seeds::Seeds;

/// What repair makes of anything is whole, and has every row that could be read.
pub(super) fn repair(seeds: &Seeds, dice: &mut Dice) -> Result<u64, String> {
    let bytes = changed(seeds, dice);
    let Some(trace) = opened(seeds, &bytes) else { return Ok(0) };
    let mut copy = ChunkCopy::new(&trace, Vec::new(), WriterOptions::default()).map_err(|e| e.to_string())?;
    let (mut kept, mut rows) = (Vec::new(), 0);
    for chunk in trace.chunks() {
        match copy.take(chunk) {
            Ok(()) => kept.push(chunk),
            Err(Error::Corrupt { .. }) => {}
            Err(other) => return Err(other.to_string()),
        }
    }
    let whole = copy.into_writer().and_then(TraceWriter::finish).map_err(|e| e.to_string())?.0;
    let mended = opened(seeds, &whole).ok_or("what was repaired does not open")?;
    if !mended.complete() || !mended.damage().is_empty() {
        return Err(format!("what was repaired is damaged: {:?}", mended.damage().first()));
    }
    let mut batch = Batch::new().map_err(|e| e.to_string())?;
    for c in mended.chunks() {
        mended.check_chunk(c).map_err(|e| format!("repaired: {e}"))?;
    }
    for b in mended.blocks() {
        match mended.read_block(b, &mut batch, None) {
            Ok(()) => rows += batch.rows() as u64,
            // Kept for a later version that knows the transform.
            Err(_) if later(&mended, b) => {}
            Err(e) => return Err(format!("repaired: {e}")),
        }
    }
    let due = kept.iter().filter(|c| c.header.chunk_type == CHUNK_BLOCK).count();
    if due != mended.blocks().len() {
        return Err(format!("{due} blocks were kept, {} are there", mended.blocks().len()));
    }
    Ok(rows)
}

fn later(trace: &Trace, block: &ingero_format::IndexEntry) -> bool {
    let known = |transform| usize::from(transform) < TRANSFORM_NAMES.len();
    trace.stored_columns(block).is_ok_and(|columns| columns.iter().any(|c| !known(c.transform)))
}

/// What compact makes has the same events in the same order, or it refuses.
pub(super) fn compact(seeds: &Seeds, dice: &mut Dice) -> Result<u64, String> {
    let bytes = changed(seeds, dice);
    let Some(trace) = opened(seeds, &bytes) else { return Ok(0) };
    let promised: u64 = trace.blocks().iter().map(|b| u64::from(b.header.rows)).sum();
    if promised > EVENTS_AT_MOST / 10 {
        return Ok(promised);
    }
    let mut made = Vec::new();
    if recompress::check(&trace)
        .and_then(|()| recompress::rewrite(&trace, &BTreeSet::new(), &mut made, |_| ()))
        .is_err()
    {
        return Ok(promised);
    }
    let original: Vec<_> = Merge::new(&trace).collect();
    let compacted = opened(seeds, &made).ok_or("what was compacted does not open")?;
    if !compacted.complete() || !compacted.damage().is_empty() {
        return Err("what was compacted is damaged".to_owned());
    }
    let sorted = |mut events: Vec<ingero_replay::Event>| {
        events.sort_by_cached_key(|e| (e.ts_ns, e.cpu, format!("{:?}", e.body)));
        events
    };
    let after: Vec<_> = Merge::new(&compacted).collect();
    if original.len() != after.len() || sorted(original) != sorted(after) {
        return Err("compact changed the events".to_owned());
    }
    Ok(promised)
}
