//! `verify`: is every byte as it was written, and if not, what is lost?

use std::io::Write;

use anyhow::{Context, Result};
use ingero_format::catalog::{Body, CPU, Kind, TS, Unit};
use ingero_format::layout::{
    CHUNK_BLOCK, CHUNK_FUNCTIONS, CHUNK_META, CHUNK_SCHEMA, CHUNK_STRINGS, CHUNK_TASKS, CPU_SEVERAL,
};
use ingero_format::{Batch, ChunkHeader, Damage, Error, IndexEntry, Trace};
use ingero_replay::Merge;
use ingero_replay::program::{Ending, one_line};

use crate::wording::{count, grouped, seconds};

/// Status when a file is not whole and complete.
pub(super) const NOT_WHOLE: u8 = 1;

pub(super) fn run(trace: &Trace, out: &mut impl Write) -> Result<Ending> {
    let check = Check::of(trace)?;
    for finding in &check.findings {
        let chunk = finding.chunk.as_ref().map_or_else(String::new, |name| format!(" ({name})"));
        writeln!(out, "damage at {:#x}{chunk}: {}", finding.offset, one_line(&finding.problem))
            .context("cannot write")?;
        writeln!(out, "    lost: {}", finding.loss(check.start_ns)).context("cannot write")?;
    }
    let recorded = recorded_losses(trace, check.start_ns);
    for line in &recorded.lines {
        writeln!(out, "{}", one_line(line)).context("cannot write")?;
    }
    let path = one_line(trace.path());
    let while_recording = match (recorded.events, recorded.unknown) {
        (0, false) => String::new(),
        (events, unknown) => {
            let least = if unknown { "at least " } else { "" };
            format!("; while recording, {least}{} were lost", count(events, "event"))
        }
    };
    if check.findings.is_empty() && trace.complete() {
        writeln!(
            out,
            "{path}: whole and complete, {} in {}{while_recording}",
            count(check.rows, "event"),
            count(trace.blocks().len() as u64, "block")
        )
        .context("cannot write")?;
        return Ok(Ending::Done);
    }
    let mut parts = Vec::new();
    if !trace.complete() {
        parts.push("not complete (no footer with an index that fits)".to_owned());
    }
    if !check.findings.is_empty() {
        parts.push(format!("damaged in {}", count(check.findings.len() as u64, "place")));
    }
    let lost = match trace.events_written() {
        Some(written) => count(written.saturating_sub(check.rows), "event"),
        None if trace.complete() => count(check.lost_rows(), "event"),
        None => format!("at least {}", count(check.lost_rows(), "event")),
    };
    parts.push(format!("{lost} lost within {} s, {} whole", seconds(check.lost_ns()), grouped(check.rows)));
    Ok(Ending::Noted { note: format!("{path}: {}{while_recording}", parts.join(", ")), status: NOT_WHOLE })
}

/// Something that is not as it was written.
struct Finding {
    offset: u64,
    /// The chunk, where it is known.
    chunk: Option<String>,
    problem: String,
    /// Events that are lost with it; none where nobody can know.
    rows: Option<u64>,
    /// What else is lost.
    also: Option<&'static str>,
    /// First and last instant that may be concerned.
    span_ns: Option<(u64, u64)>,
}

impl Finding {
    fn loss(&self, start_ns: u64) -> String {
        let events = self.rows.map_or_else(|| "an unknown number of events".to_owned(), |n| count(n, "event"));
        let also = self.also.map_or_else(String::new, |also| format!(", {also}"));
        let relative = |ns: u64| seconds(i128::from(ns) - i128::from(start_ns));
        let when = self.span_ns.filter(|_| self.rows != Some(0)).map_or_else(String::new, |(from, to)| {
            let length = seconds(i128::from(to) - i128::from(from));
            format!(" within {length} s, from {} s to {} s", relative(from), relative(to))
        });
        format!("{events}{when}{also}")
    }
}

struct Check<'t> {
    trace: &'t Trace,
    start_ns: u64,
    findings: Vec<Finding>,
    /// Rows that could be read.
    rows: u64,
}

impl<'t> Check<'t> {
    fn of(trace: &'t Trace) -> Result<Self> {
        let start_ns = trace.span_ns().map_or(0, |(start, _)| start);
        let mut check = Check { trace, start_ns, findings: Vec::new(), rows: 0 };
        for damage in trace.damage() {
            check.opened(damage);
        }
        check.sequence();
        check.chunks()?;
        if let Some(written) = trace.events_written() {
            let listed: u64 = trace.blocks().iter().map(|b| u64::from(b.header.rows)).sum();
            if listed != written && check.findings.is_empty() {
                check.findings.push(Finding {
                    offset: trace.len_bytes(),
                    chunk: Some("footer".to_owned()),
                    problem: format!("it counts {written} events, the blocks have {listed}"),
                    rows: Some(written.saturating_sub(listed)),
                    also: None,
                    span_ns: trace.span_ns(),
                });
            }
        }
        check.findings.sort_by_key(|f| f.offset);
        Ok(check)
    }

    /// What was found when the file was opened.
    fn opened(&mut self, damage: &Damage) {
        let chunk = self.trace.chunks().iter().find(|c| c.offset == damage.offset);
        let quoted = damage.problem.starts_with("index: ");
        let around = self.around(damage.offset);
        let (rows, also, span_ns) = match chunk {
            Some(chunk) => (Some(0), Some(needed_for(&chunk.header)), None),
            None if quoted => (Some(0), Some("the index; the file was scanned instead"), None),
            // Between the chunks: what stood there is gone with its header.
            None => (None, None, around),
        };
        self.findings.push(Finding {
            offset: damage.offset,
            chunk: chunk.map(|c| self.name(&c.header)),
            problem: format!("{} ({})", damage.problem, count(damage.len, "byte")),
            rows,
            also,
            span_ns,
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
                    chunk: Some(self.name(&c.header)),
                    problem,
                    rows: None,
                    also: None,
                    span_ns: self.around(c.offset),
                });
            }
            expected = seq.wrapping_add(1);
            end = c.offset;
        }
    }

    fn chunks(&mut self) -> Result<()> {
        let mut batch = Batch::new()?;
        for c in self.trace.chunks() {
            if self.trace.damage().iter().any(|d| d.offset == c.offset) {
                continue;
            }
            let is_block = c.header.chunk_type == CHUNK_BLOCK;
            let read = if is_block { self.trace.read_block(c, &mut batch, None) } else { Ok(()) };
            let readable = read.is_ok();
            if is_block && readable {
                self.rows += batch.rows() as u64;
                for problem in self.contradictions(c, &batch) {
                    self.note(c, problem, Some(0));
                }
            }
            // One broken chunk is one finding.
            match read.and_then(|()| self.trace.check_chunk(c)) {
                Ok(()) => {}
                Err(Error::Corrupt { problem, .. }) => {
                    let rows = if readable { 0 } else { u64::from(c.header.rows) };
                    self.note(c, problem, Some(rows));
                }
                Err(other) => return Err(other.into()),
            }
        }
        Ok(())
    }

    fn note(&mut self, c: &IndexEntry, problem: String, rows: Option<u64>) {
        let h = &c.header;
        let span_ns = (h.chunk_type == CHUNK_BLOCK).then_some((h.ts_min, h.ts_max));
        let chunk = Some(self.name(h));
        self.findings.push(Finding { offset: c.offset, chunk, problem, rows, also: None, span_ns });
    }

    /// What the rows of a readable block say against its header, its order or the dictionaries.
    fn contradictions(&self, c: &IndexEntry, batch: &Batch) -> Vec<String> {
        let mut found = Vec::new();
        let h = &c.header;
        let (Some(ts), Some(cpu)) = (batch.column(TS), batch.column(CPU)) else {
            return vec!["it lacks the columns ts_ns or cpu".to_owned()];
        };
        if !cpu.iter().zip(ts).is_sorted() {
            found.push("its rows are not in the order of CPU and time".to_owned());
        }
        if let (Some(&lo), Some(&hi)) = (ts.iter().min(), ts.iter().max())
            && (lo != h.ts_min || hi > h.ts_max)
        {
            found.push(format!("its rows are from {lo} to {hi}, its header says {} to {}", h.ts_min, h.ts_max));
        }
        if h.cpu != CPU_SEVERAL && cpu.iter().any(|&c| c != u64::from(h.cpu)) {
            found.push(format!("its header says cpu {}, its rows have others", h.cpu));
        }
        let Some(kind) = self.trace.kind_schema(h.kind) else {
            found.push(format!("the schema does not describe kind {}", h.kind));
            return found;
        };
        for column in &kind.columns {
            let entries = if column.is(Unit::Task) {
                self.trace.tasks().len()
            } else if column.is(Unit::Str) {
                self.trace.strings_len()
            } else if column.is(Unit::Func) {
                self.trace.functions().len()
            } else {
                continue;
            };
            let words = batch.column(column.id).unwrap_or_default();
            let known = |&&w: &&u64| !(column.nullable && w == u64::MAX);
            if let Some(&top) = words.iter().filter(known).max()
                && top >= entries as u64
            {
                found.push(format!("column {} refers to entry {top} of {entries}", column.name));
            }
        }
        found
    }

    fn name(&self, header: &ChunkHeader) -> String {
        let what = match header.chunk_type {
            CHUNK_BLOCK => self.trace.kind_name(header.kind),
            CHUNK_SCHEMA => "schema",
            CHUNK_META => "meta",
            CHUNK_STRINGS => "strings",
            CHUNK_TASKS => "tasks",
            CHUNK_FUNCTIONS => "functions",
            _ => "unknown type",
        };
        format!("chunk {}, {what}", header.seq)
    }

    fn lost_rows(&self) -> u64 {
        self.findings.iter().filter_map(|f| f.rows).sum()
    }

    /// Length of the time in which events are missing, each instant counted once.
    fn lost_ns(&self) -> i128 {
        let concerned = self.findings.iter().filter(|f| f.rows != Some(0)).filter_map(|f| f.span_ns);
        let mut spans: Vec<(u64, u64)> = concerned.collect();
        spans.sort_unstable();
        let mut total = 0;
        let mut end = 0;
        for (from, to) in spans {
            total += i128::from(to.saturating_sub(from.max(end)));
            end = end.max(to);
        }
        total
    }
}

/// What is lost with a chunk that is no block.
fn needed_for(header: &ChunkHeader) -> &'static str {
    match header.chunk_type {
        CHUNK_SCHEMA => "the file's schema; this build's own was used instead",
        CHUNK_META => "facts about the recording",
        CHUNK_STRINGS => "names and texts, shown as ?",
        CHUNK_TASKS => "which threads some events belong to",
        CHUNK_FUNCTIONS => "which functions some calls are of, shown as ?",
        _ => "the chunk",
    }
}

struct Recorded {
    lines: Vec<String>,
    events: u64,
    /// Whether some loss has no number.
    unknown: bool,
}

/// What the recorder said that it lost.
fn recorded_losses(trace: &Trace, start_ns: u64) -> Recorded {
    let mut recorded = Recorded { lines: Vec::new(), events: 0, unknown: false };
    for event in Merge::of(trace, |k| k == Kind::Loss) {
        let Body::Loss(loss) = event.body else { continue };
        let relative = |ns: u64| seconds(i128::from(ns) - i128::from(start_ns));
        let events = loss.count.map_or_else(|| "an unknown number of events".to_owned(), |n| count(n, "event"));
        recorded.events = recorded.events.saturating_add(loss.count.unwrap_or(0));
        recorded.unknown |= loss.count.is_none();
        let cause = super::cause(trace, loss.cause);
        recorded.lines.push(format!(
            "lost while recording: {events} of {} from {} s to {} s ({cause})",
            trace.string(loss.probe),
            relative(event.ts_ns),
            relative(loss.to_ns)
        ));
    }
    recorded
}
