//! `inspect`: what a file holds, and how large each part of it is.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use anyhow::{Context, Result};
use ingero_format::catalog::{Body, Kind, NO_CPU};
use ingero_format::layout::{
    CHUNK_BLOCK, CHUNK_FUNCTIONS, CHUNK_HEADER_LEN, CHUNK_META, CHUNK_SCHEMA, CHUNK_STRINGS, CHUNK_TASKS, CPU_SEVERAL,
    FILE_HEADER_LEN,
};
use ingero_format::{Trace, one_line};
use ingero_replay::program::Ending;
use ingero_replay::{Merge, Window, show_wall, start_unix_ns};

use super::incomplete;
use ingero_replay::wording::{count, grouped, ratio, seconds, wrapped};

/// Characters of a line at most.
const WIDTH: usize = 80;
/// Where the values of the first lines begin.
const INDENT: usize = 18;

pub(super) fn run(trace: &Trace, list_chunks: bool, out: &mut impl Write) -> Result<Ending> {
    let mut unreadable = Unreadable::default();
    let mut lines = Vec::new();
    about(trace, &mut lines);
    kinds(trace, &mut lines, &mut unreadable);
    overhead(trace, &mut lines);
    losses(trace, &mut lines);
    damage(trace, &mut lines, &unreadable);
    if list_chunks {
        chunks(trace, &mut lines);
    }
    for line in lines {
        writeln!(out, "{}", line.trim_end()).context("cannot write")?;
    }
    Ok(incomplete(trace, unreadable.problems.len(), unreadable.rows))
}

/// Blocks whose directory cannot be read. `verify` checks their columns too.
#[derive(Default)]
struct Unreadable {
    problems: Vec<String>,
    rows: u64,
}

fn entry(lines: &mut Vec<String>, key: &str, value: &str) {
    let key = one_line(key);
    let mut first = format!("{key:<w$}", w = INDENT - 1);
    first.push(' ');
    if first.chars().count() > INDENT {
        lines.push(first);
        first = " ".repeat(INDENT);
    }
    for line in wrapped(one_line(value).trim_end(), WIDTH - INDENT) {
        lines.push(format!("{first}{line}"));
        first = " ".repeat(INDENT);
    }
}

fn section(lines: &mut Vec<String>, title: &str, columns: &str) {
    lines.push(String::new());
    lines.push(format!("{title:<24}{columns}"));
}

fn about(trace: &Trace, lines: &mut Vec<String>) {
    entry(lines, "file", trace.path());
    let events: u64 = trace.blocks().iter().map(|b| u64::from(b.header.rows)).sum();
    let per_event = ratio(trace.len_bytes(), events);
    entry(
        lines,
        "size",
        &format!("{}, {}, {per_event} bytes per event", count(trace.len_bytes(), "byte"), count(events, "event")),
    );
    let complete = if trace.complete() { "yes" } else { "no: the recording was cut off before its end" };
    entry(lines, "complete", complete);
    let w = Window::whole(trace);
    let length = seconds(i128::from(w.trace_end_ns) - i128::from(w.trace_start_ns));
    entry(lines, "length", &format!("{length} s"));
    let start = start_unix_ns(trace, w.trace_start_ns);
    entry(lines, "start", &start.map_or_else(|| "unknown by the wall clock".to_owned(), show_wall));
    // Of several values the last one holds.
    let mut said = BTreeSet::new();
    let held: Vec<_> = trace.meta_entries().iter().rev().filter(|(key, _)| said.insert(key)).collect();
    for (key, value) in held.into_iter().rev() {
        entry(lines, key, value);
    }
}

#[derive(Default)]
struct Column {
    bytes: u64,
    transforms: BTreeSet<&'static str>,
}

#[derive(Default)]
struct Group {
    blocks: u64,
    rows: u64,
    bytes: u64,
    columns: BTreeMap<u8, Column>,
}

fn kinds(trace: &Trace, lines: &mut Vec<String>, unreadable: &mut Unreadable) {
    let mut groups: BTreeMap<u16, Group> = BTreeMap::new();
    for block in trace.blocks() {
        let h = &block.header;
        let group = groups.entry(h.kind).or_default();
        group.blocks += 1;
        group.rows += u64::from(h.rows);
        group.bytes += h.span();
        match trace.stored_columns(block) {
            Ok(columns) => {
                for c in columns {
                    let column = group.columns.entry(c.id).or_default();
                    column.bytes += u64::from(c.len_bytes);
                    column.transforms.insert(c.transform_name());
                }
            }
            Err(error) => {
                unreadable.problems.push(error.to_string());
                unreadable.rows += u64::from(h.rows);
            }
        }
    }
    section(lines, "events", &format!("{:>14} {:>14} {:>10} {:>8}", "count", "bytes", "per event", "blocks"));
    for (number, g) in &groups {
        let name = one_line(trace.kind_name(*number));
        lines.push(format!(
            "  {name:<22}{:>14} {:>14} {:>10} {:>8}",
            grouped(g.rows),
            grouped(g.bytes),
            ratio(g.bytes, g.rows),
            grouped(g.blocks)
        ));
    }
    for (number, g) in &groups {
        let title = one_line(trace.kind_name(*number));
        section(lines, &title, &format!("{:>14} {:>14}   {}", "bytes", "per value", "stored as"));
        for (id, c) in &g.columns {
            let schema = trace.kind_schema(*number).and_then(|k| k.columns.iter().find(|s| s.id == *id));
            let name = schema.map_or_else(|| format!("column {id}"), |s| one_line(&s.name));
            let transforms: Vec<&str> = c.transforms.iter().copied().collect();
            let per = ratio(c.bytes, g.rows);
            lines.push(format!("  {name:<22}{:>14} {per:>14}   {}", grouped(c.bytes), transforms.join(", ")));
        }
    }
}

fn overhead(trace: &Trace, lines: &mut Vec<String>) {
    section(lines, "everything else", &format!("{:>14} {:>14} {:>10}", "entries", "bytes", "chunks"));
    let mut row = |name: &str, entries: Option<u64>, bytes: u64, chunks: Option<u64>| {
        let (entries, chunks) = (entries.map_or_else(String::new, grouped), chunks.map_or_else(String::new, grouped));
        lines.push(format!("  {name:<22}{entries:>14} {:>14} {:>10}", grouped(bytes), chunks));
    };
    let names = [
        (CHUNK_SCHEMA, "schema"),
        (CHUNK_META, "meta"),
        (CHUNK_STRINGS, "strings"),
        (CHUNK_TASKS, "tasks"),
        (CHUNK_FUNCTIONS, "functions"),
    ];
    let of = |wanted: &dyn Fn(u8) -> bool| {
        let chunks = trace.chunks().iter().map(|c| c.header).filter(|h| wanted(h.chunk_type));
        chunks.fold((0, 0, 0), |(n, rows, bytes), h| (n + 1, rows + u64::from(h.rows), bytes + h.span()))
    };
    for (chunk_type, name) in names {
        let (chunks, entries, bytes) = of(&|t| t == chunk_type);
        row(name, Some(entries), bytes, Some(chunks));
    }
    let (unknown, _, bytes) = of(&|t| t != CHUNK_BLOCK && names.iter().all(|(known, _)| *known != t));
    if unknown > 0 {
        row("of later versions", None, bytes, Some(unknown));
    }
    let all: u64 = trace.chunks().iter().map(|c| c.header.span()).sum();
    let lost: u64 =
        trace.damage().iter().filter(|d| trace.chunks().iter().all(|c| c.offset != d.offset)).map(|d| d.len).sum();
    let rest = trace.len_bytes().saturating_sub(FILE_HEADER_LEN as u64 + all + lost);
    row("index and footer", None, rest, None);
    row("file header", None, FILE_HEADER_LEN as u64, None);
    let blocks = trace.blocks();
    let heads: u64 = blocks.iter().map(|b| CHUNK_HEADER_LEN as u64 + u64::from(b.header.head_len)).sum();
    row("heads of blocks*", None, heads, Some(blocks.len() as u64));
    lines.push("  * header and directory; counted with the events above".to_owned());
}

/// Every chunk in the order of the file.
fn chunks(trace: &Trace, lines: &mut Vec<String>) {
    let start = trace.span_ns().map_or(0, |(start, _)| start);
    section(lines, "chunks", "");
    lines.push(format!(
        "  {:>11} {:>6} {:<18} {:>3} {:>7} {:>9} {:>9}{:>9}",
        "offset", "number", "holds", "cpu", "entries", "bytes", "from s", "to s"
    ));
    for c in trace.chunks() {
        let h = &c.header;
        let is_block = h.chunk_type == CHUNK_BLOCK;
        let holds = match h.chunk_type {
            CHUNK_BLOCK => one_line(trace.kind_name(h.kind)),
            CHUNK_SCHEMA => "schema".to_owned(),
            CHUNK_META => "meta".to_owned(),
            CHUNK_STRINGS => "strings".to_owned(),
            CHUNK_TASKS => "tasks".to_owned(),
            CHUNK_FUNCTIONS => "functions".to_owned(),
            other => format!("type {other}"),
        };
        let cpu = match h.cpu {
            CPU_SEVERAL if is_block => "all".to_owned(),
            cpu if is_block && cpu != NO_CPU => cpu.to_string(),
            _ => "-".to_owned(),
        };
        let time = |ns: u64| match is_block {
            #[expect(clippy::cast_precision_loss, reason = "for people")]
            true => format!("{:.3}", (i128::from(ns) - i128::from(start)) as f64 / 1e9),
            false => String::new(),
        };
        lines.push(format!(
            "  {:>11} {:>6} {holds:<18} {cpu:>3} {:>7} {:>9} {:>9}{:>9}",
            format!("{:#x}", c.offset),
            h.seq,
            h.rows,
            h.span(),
            time(h.ts_min),
            time(h.ts_max)
        ));
    }
}

fn losses(trace: &Trace, lines: &mut Vec<String>) {
    let mut sums: BTreeMap<(String, String), (u64, u64, u64)> = BTreeMap::new();
    for event in Merge::of(trace, |k| k == Kind::Loss) {
        let Body::Loss(loss) = event.body else { continue };
        let key = (one_line(trace.string(loss.probe)), super::cause(trace, loss.cause));
        let sum = sums.entry(key).or_default();
        sum.0 += 1;
        sum.1 = sum.1.saturating_add(loss.count.unwrap_or(0));
        sum.2 += u64::from(loss.count.is_none());
    }
    if sums.is_empty() {
        section(lines, "losses noted in it", "none");
        return;
    }
    // Of a file that was repaired they are those of the damage, too.
    section(lines, "losses noted in it", &format!("{:>14} {:>14}   {}", "events", "times", "cause"));
    for ((probe, cause), (times, events, unknown)) in sums {
        let events = match (events, unknown) {
            (0, 1..) => "unknown".to_owned(),
            (n, 0) => grouped(n),
            (n, _) => format!(">= {}", grouped(n)),
        };
        lines.push(format!("  {probe:<22}{events:>14} {:>14}   {cause}", grouped(times)));
    }
}

fn damage(trace: &Trace, lines: &mut Vec<String>, unreadable: &Unreadable) {
    // That it was cut off is said above.
    let opened = trace.damage().iter().filter(|d| !d.is_cut);
    let opened = opened.map(|d| format!("{:#x}, {}: {}", d.offset, count(d.len, "byte"), d.problem));
    let all: Vec<String> = opened.chain(unreadable.problems.iter().cloned()).collect();
    if all.is_empty() {
        section(lines, "damage", "none seen; verify reads every byte");
        return;
    }
    section(lines, "damage", "");
    for problem in all {
        for line in wrapped(&one_line(&problem), WIDTH - 2) {
            lines.push(format!("  {line}"));
        }
    }
}
