//! `verify`: is every byte as it was written, and if not, what is lost?

use std::io::Write;

use anyhow::{Context, Result};
use ingero_format::catalog::{Body, CPU, Kind, TS, Unit};
use ingero_format::layout::{CHUNK_BLOCK, CPU_SEVERAL};
use ingero_format::{Batch, Error, IndexEntry, Trace, one_line};
use ingero_replay::program::Ending;
use ingero_replay::{Finding, Hosts, Merge, chunk_name, findings, misdated, of_host};

use ingero_replay::wording::{count, grouped, seconds};

/// Cause of the losses that a file takes over: what it was made from lacked them.
pub(super) const SOURCE_LOST: u64 = 7;

/// Status when a file is not whole and complete.
pub(super) const NOT_WHOLE: u8 = 1;

/// Why the rows of a block are not read, though they can be decoded.
fn misplaced(c: &IndexEntry, batch: &Batch) -> Option<String> {
    let ts = batch.column(TS)?;
    misdated(&c.header, ts.iter().min()?, ts.iter().max()?)
}

pub(super) fn run(trace: &Trace, out: &mut impl Write) -> Result<Ending> {
    let check = Check::of(trace)?;
    for finding in &check.findings {
        let chunk = finding.chunk.as_ref().map_or_else(String::new, |name| format!(" ({name})"));
        let what = if finding.is_cut { "cut off" } else { "damage" };
        writeln!(out, "{what} at {:#x}{chunk}: {}", finding.offset, one_line(&finding.problem))
            .context("cannot write")?;
        writeln!(out, "    lost: {}", loss(finding, check.start_ns)).context("cannot write")?;
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
            let when = if recorded.in_source { "before this file was written" } else { "while recording" };
            format!("; {when}, {least}{} were lost", count(events, "event"))
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
    let damaged = check.findings.iter().filter(|f| !f.is_cut).count();
    if damaged > 0 {
        parts.push(format!("damaged in {}", count(damaged as u64, "place")));
    }
    let lost = match trace.events_written() {
        Some(written) => count(written.saturating_sub(check.rows), "event"),
        None if trace.complete() => count(check.lost_rows(), "event"),
        None => format!("at least {}", count(check.lost_rows(), "event")),
    };
    parts.push(format!("{lost} lost within {} s, {} whole", seconds(check.lost_ns()), grouped(check.rows)));
    Ok(Ending::Noted { note: format!("{path}: {}{while_recording}", parts.join(", ")), status: NOT_WHOLE })
}

/// What is lost with a finding, in words.
fn loss(f: &Finding, start_ns: u64) -> String {
    let events = f.rows.map_or_else(|| "an unknown number of events".to_owned(), |n| count(n, "event"));
    let also = f.also.map_or_else(String::new, |also| format!(", {also}"));
    let relative = |ns: u64| seconds(i128::from(ns) - i128::from(start_ns));
    if let (true, Some((_, last_ns))) = (f.is_cut, f.span_ns) {
        return format!("{events} behind the last one, at {} s", relative(last_ns));
    }
    let when = f.span_ns.filter(|_| f.rows != Some(0)).map_or_else(String::new, |(from, to)| {
        let length = seconds(i128::from(to) - i128::from(from));
        format!(" within {length} s, from {} s to {} s", relative(from), relative(to))
    });
    format!("{events}{when}{also}")
}

pub(super) struct Check<'t> {
    trace: &'t Trace,
    start_ns: u64,
    pub(super) findings: Vec<Finding>,
    /// Rows that could be read.
    rows: u64,
}

impl<'t> Check<'t> {
    /// What is known once the file is open.
    pub(super) fn opened(trace: &'t Trace) -> Self {
        // Where nothing could be read, the damaged blocks still have their headers.
        let blocks = trace.damage().iter().filter_map(|d| d.header).filter(|h| h.chunk_type == CHUNK_BLOCK);
        let first_damaged = blocks.map(|h| h.ts_min).min();
        let start_ns = trace.span_ns().map(|(start, _)| start).or(first_damaged).unwrap_or(0);
        Check { trace, start_ns, findings: findings(trace), rows: 0 }
    }

    fn of(trace: &'t Trace) -> Result<Self> {
        let mut check = Self::opened(trace);
        check.chunks()?;
        if let Some(written) = trace.events_written() {
            let listed: u64 = trace.blocks().iter().map(|b| u64::from(b.header.rows)).sum();
            if listed != written && check.findings.is_empty() {
                check.findings.push(Finding {
                    offset: trace.len_bytes(),
                    chunk: Some("footer".to_owned()),
                    problem: format!("it counts {written} events, the blocks have {listed}"),
                    block: None,
                    rows: Some(written.saturating_sub(listed)),
                    also: None,
                    span_ns: trace.span_ns(),
                    is_cut: false,
                });
            }
        }
        check.findings.sort_by_key(|f| f.offset);
        Ok(check)
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
                match misplaced(c, &batch) {
                    Some(problem) => self.note(c, problem, Some(u64::from(c.header.rows))),
                    None => self.rows += batch.rows() as u64,
                }
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
        // The index does not list itself.
        if let Some(index) = self.trace.index_chunk() {
            match self.trace.check_chunk(index) {
                Ok(()) => {}
                Err(Error::Corrupt { problem, .. }) => self.note(index, problem, Some(0)),
                Err(other) => return Err(other.into()),
            }
        }
        Ok(())
    }

    pub(super) fn note(&mut self, c: &IndexEntry, problem: String, rows: Option<u64>) {
        let h = &c.header;
        let span_ns = (h.chunk_type == CHUNK_BLOCK).then_some((h.ts_min, h.ts_max));
        let chunk = Some(chunk_name(self.trace, h));
        let block = (h.chunk_type == CHUNK_BLOCK).then_some(*h);
        self.findings.push(Finding {
            offset: c.offset,
            chunk,
            problem,
            block,
            rows,
            also: None,
            span_ns,
            is_cut: false,
        });
    }

    /// What the rows of a readable block say against its header, its order or the dictionaries.
    fn contradictions(&self, c: &IndexEntry, batch: &Batch) -> Vec<String> {
        let mut found = Vec::new();
        let h = &c.header;
        let (Some(ts), Some(cpu)) = (batch.column(TS), batch.column(CPU)) else {
            return vec!["it lacks the columns ts_ns or cpu".to_owned()];
        };
        if !cpu.iter().zip(ts.iter()).is_sorted() {
            found.push("its rows are not in the order of CPU and time".to_owned());
        }
        if let Some(lo) = ts.iter().min()
            && lo > h.ts_min
        {
            found.push(format!("its first row is at {lo}, its header says {}", h.ts_min));
        }
        if h.cpu != CPU_SEVERAL && cpu.iter().any(|c| c != u64::from(h.cpu)) {
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
            let Some(words) = batch.column(column.id) else { continue };
            let known = |&w: &u64| !(column.nullable && w == u64::MAX);
            if let Some(top) = words.iter().filter(known).max()
                && top >= entries as u64
            {
                found.push(format!("column {} refers to entry {top} of {entries}", column.name));
            }
        }
        found
    }

    fn lost_rows(&self) -> u64 {
        self.findings.iter().filter_map(|f| f.rows).sum()
    }

    /// Length of the time in which events are missing, each instant counted once.
    pub(super) fn lost_ns(&self) -> i128 {
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

struct Recorded {
    lines: Vec<String>,
    events: u64,
    /// Whether some loss has no number.
    unknown: bool,
    /// Whether what this file was made from lacked some.
    in_source: bool,
}

/// What the recorder said that it lost.
fn recorded_losses(trace: &Trace, start_ns: u64) -> Recorded {
    let mut recorded = Recorded { lines: Vec::new(), events: 0, unknown: false, in_source: false };
    let hosts = Hosts::new(trace);
    for event in Merge::of(trace, |k| k == Kind::Loss) {
        let Body::Loss(loss) = event.body else { continue };
        let host = of_host(&hosts, loss.of_host.and_then(|n| usize::try_from(n).ok()));
        let relative = |ns: u64| seconds(i128::from(ns) - i128::from(start_ns));
        let events = loss.count.map_or_else(|| "an unknown number of events".to_owned(), |n| count(n, "event"));
        recorded.in_source |= loss.cause == SOURCE_LOST;
        recorded.events = recorded.events.saturating_add(loss.count.unwrap_or(0));
        recorded.unknown |= loss.count.is_none();
        let cause = super::cause(trace, loss.cause);
        recorded.lines.push(format!(
            "{}: {events} of {}{host} from {} s to {} s ({cause})",
            if loss.cause == SOURCE_LOST { "lost before this file was written" } else { "lost while recording" },
            trace.string(loss.probe),
            relative(event.ts_ns),
            relative(loss.to_ns)
        ));
    }
    recorded
}
