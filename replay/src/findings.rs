//! What is missing from a file, as far as its chunks tell without their content.

use ingero_format::layout::{
    CHUNK_BLOCK, CHUNK_FOOTER, CHUNK_FUNCTIONS, CHUNK_INDEX, CHUNK_META, CHUNK_SCHEMA, CHUNK_STRINGS, CHUNK_TASKS,
};
use ingero_format::{ChunkHeader, Damage, Trace};

use crate::wording::count;

/// Something that is not as it was written.
#[derive(Debug, Clone)]
pub struct Finding {
    /// Where in the file.
    pub offset: u64,
    /// The chunk, where it is known.
    pub chunk: Option<String>,
    /// What is wrong.
    pub problem: String,
    /// The block, where its header is known.
    pub block: Option<ChunkHeader>,
    /// Events that are lost with it; none where nobody can know.
    pub rows: Option<u64>,
    /// What else is lost.
    pub also: Option<&'static str>,
    /// First and last instant that may be concerned.
    pub span_ns: Option<(u64, u64)>,
    /// Whether the file was cut off here, and no more than that is known: it is no damage.
    pub is_cut: bool,
}

/// What is not as it was written, as far as headers tell: parts that were found damaged when the file was opened, and chunks
/// that are gone. Whether the content of a chunk can be read shows only when it is.
#[must_use]
pub fn findings(trace: &Trace) -> Vec<Finding> {
    let mut found = Found { trace, findings: Vec::new() };
    for damage in trace.damage() {
        found.damage(damage);
    }
    found.sequence();
    found.count_the_rest();
    found.findings
}

struct Found<'t> {
    trace: &'t Trace,
    findings: Vec<Finding>,
}

impl Found<'_> {
    /// The footer knows how many events there were: where one finding alone has no number, it is the rest.
    fn count_the_rest(&mut self) {
        let Some(written) = self.trace.events_written() else { return };
        let listed = self.trace.blocks().iter().map(|b| u64::from(b.header.rows));
        let known = self.findings.iter().filter_map(|f| f.rows).chain(listed).fold(0, u64::saturating_add);
        let mut open = self.findings.iter_mut().filter(|f| f.rows.is_none());
        if let (Some(only), None) = (open.next(), open.next()) {
            only.rows = Some(written.saturating_sub(known));
        }
    }

    /// What was found when the file was opened.
    fn damage(&mut self, damage: &Damage) {
        let quoted = damage.problem.starts_with("index: ");
        let around = self.around(damage.offset);
        let block = damage.header.filter(|h| h.chunk_type == CHUNK_BLOCK);
        let (rows, also, span_ns) = match damage.header {
            Some(h) if h.chunk_type == CHUNK_BLOCK => (Some(u64::from(h.rows)), None, Some((h.ts_min, h.ts_max))),
            Some(h) => (Some(0), Some(needed_for(&h)), None),
            None if damage.offset == 0 => (Some(0), Some("which version of the format it is"), None),
            None if quoted => (Some(0), Some("the index; the file was scanned instead"), None),
            // What came behind the last whole chunk is not known, not even whether it was a block.
            None if damage.is_cut => (None, None, around.map(|(_, last_ns)| (last_ns, last_ns))),
            // Between the chunks: what stood there is gone with its header.
            None => (None, None, around),
        };
        self.findings.push(Finding {
            offset: damage.offset,
            chunk: damage.header.map(|h| chunk_name(self.trace, &h)),
            problem: format!("{} ({})", damage.problem, count(damage.len, "byte")),
            block,
            rows,
            also,
            span_ns,
            is_cut: damage.is_cut,
        });
    }

    /// The instants between which the blocks around an offset leave a place.
    fn around(&self, offset: u64) -> Option<(u64, u64)> {
        let blocks = || self.trace.chunks().iter().filter(|c| c.header.chunk_type == CHUNK_BLOCK);
        let (first, last) = self.trace.span_ns()?;
        let before = blocks().rev().find(|c| c.offset < offset).map_or(first, |c| c.header.ts_min);
        let after = blocks().find(|c| c.offset > offset).map_or(last, |c| c.header.ts_max);
        Some((before.min(after), after.max(before)))
    }

    /// Chunks that left no trace but a gap in the numbers.
    fn sequence(&mut self) {
        let mut expected = 0;
        let mut end = 0;
        for c in self.trace.chunks() {
            let seq = c.header.seq;
            let explained = self.trace.damage().iter().any(|d| (end..c.offset).contains(&d.offset));
            if seq != expected && !explained {
                let missing = i64::from(seq) - i64::from(expected);
                let problem = match missing {
                    1 => format!("chunk {expected} is missing before it"),
                    2.. => format!("chunks {expected} to {} are missing before it", seq - 1),
                    _ => format!("its number should be {expected}"),
                };
                self.findings.push(Finding {
                    offset: c.offset,
                    chunk: Some(chunk_name(self.trace, &c.header)),
                    problem,
                    block: None,
                    rows: None,
                    also: None,
                    span_ns: self.around(c.offset),
                    is_cut: false,
                });
            }
            expected = seq.wrapping_add(1);
            end = c.offset;
        }
    }
}

/// What a chunk is called: its number and what it holds.
#[must_use]
pub fn chunk_name(trace: &Trace, header: &ChunkHeader) -> String {
    let what = match header.chunk_type {
        CHUNK_BLOCK => trace.kind_name(header.kind),
        CHUNK_SCHEMA => "schema",
        CHUNK_META => "meta",
        CHUNK_STRINGS => "strings",
        CHUNK_TASKS => "tasks",
        CHUNK_FUNCTIONS => "functions",
        CHUNK_INDEX => "index",
        CHUNK_FOOTER => "footer",
        _ => "unknown type",
    };
    format!("chunk {}, {what}", header.seq)
}

/// What is lost with a chunk that is no block.
fn needed_for(header: &ChunkHeader) -> &'static str {
    match header.chunk_type {
        CHUNK_SCHEMA => "the file's schema; this build's own was used instead",
        CHUNK_META => "facts about the recording",
        CHUNK_STRINGS => "names and texts, shown as ?",
        CHUNK_TASKS => "which threads some events belong to, which count as lost",
        CHUNK_FUNCTIONS => "which functions some calls are of, which count as lost",
        CHUNK_INDEX | CHUNK_FOOTER => "the index; the file was scanned instead",
        _ => "the chunk",
    }
}
