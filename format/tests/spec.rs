//! `spec/igt.md` says what the code does. Numbers and hand-written tables are parsed and compared;
//! the tables of events and the example are made from the code and compared as text. After a change
//! that is meant, `UPDATE_SPEC=1 cargo test -p ingero-format --test spec` writes those two anew.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use ingero_format::catalog::{Class, Column, EVENTS, Exit, Layer, Unit};
use ingero_format::layout::*;
use ingero_format::{Task, TraceWriter, WriterOptions};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../spec/igt.md");

fn spec() -> String {
    std::fs::read_to_string(PATH).unwrap()
}

/// The cells of every table row; a heading line begins a new section, whose title comes with its rows.
fn rows(spec: &str) -> Vec<(String, Vec<String>)> {
    let mut section = String::new();
    let mut out = Vec::new();
    for line in spec.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            section = title.to_owned();
        } else if let Some(cells) = line.strip_prefix("| ").and_then(|l| l.strip_suffix('|')) {
            out.push((section.clone(), cells.split('|').map(|c| c.trim().to_owned()).collect()));
        }
    }
    out
}

macro_rules! constants {
    (bytes: $($magic:ident)*; numbers: $($name:ident)*;) => {
        BTreeMap::from([
            $((stringify!($magic), $magic.map(|b| format!("{b:02x}")).join(" ")),)*
            $((stringify!($name), $name.to_string()),)*
        ])
    };
}

fn constants() -> BTreeMap<&'static str, String> {
    constants! {
        bytes: FILE_MAGIC CHUNK_MAGIC;
        numbers: FILE_HEADER_LEN VERSION_MAJOR VERSION_MINOR CHUNK_HEADER_LEN CHUNK_ALIGN CHUNK_SCHEMA CHUNK_META
            CHUNK_STRINGS CHUNK_TASKS CHUNK_FUNCTIONS CHUNK_BLOCK CHUNK_INDEX CHUNK_FOOTER FLAG_ANCILLARY FLAG_ZSTD
            FOOTER_PAYLOAD_LEN NO_INDEX INDEX_ENTRY_LEN CPU_SEVERAL TRANSFORM_CONST TRANSFORM_OFFSET TRANSFORM_RISE
            TRANSFORM_STEP TRANSFORM_DICT TRANSFORM_FOLLOW TRANSFORM_RUNS TRANSFORM_RECALL RECALL_SLOTS RECALL_DEFAULTS
            RECALL_STRIDE FORM_SCALED FORM_PCO SCALED_MAX_DIGITS SCALED_MAX_SHIFT PLANE_CONST PLANE_RAW PLANE_ZSTD PLANE_PACKED
            PACKED_MAX_BASE CODE_NULLABLE MAX_NAMES MAX_ROWS MAX_COLUMNS MAX_KINDS MAX_PAYLOAD MAX_ENTRIES DICTIONARY_FREE
            DICTIONARY_PER_BYTE ENTRY_COST MAX_OPEN SEAL_ROWS SEAL_NS;
    }
}

#[test]
fn every_number_of_the_layout_stands_in_the_spec_once() {
    let in_code = constants();
    let source = include_str!("../src/layout.rs");
    let declared: BTreeSet<&str> = source
        .lines()
        .filter_map(|l| l.strip_prefix("pub const ")?.split(':').next())
        .filter(|name| *name != "TRANSFORM_NAMES")
        .collect();
    assert_eq!(declared, in_code.keys().copied().collect(), "the list in this test and layout.rs differ");

    let mut in_spec = BTreeMap::new();
    let mut transforms = Vec::new();
    for (_, cells) in rows(&spec()) {
        let Some(name) = cells[0].strip_prefix('`').and_then(|c| c.strip_suffix('`')) else { continue };
        if !name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_') {
            continue;
        }
        let before = in_spec.insert(name.to_owned(), cells[1].trim_matches('`').to_owned());
        assert_eq!(before, None, "{name} stands twice in the spec");
        if name.starts_with("TRANSFORM_") {
            transforms.push(cells[2].clone());
        }
    }
    let in_code: BTreeMap<String, String> = in_code.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
    assert_eq!(in_spec, in_code);
    assert_eq!(transforms, TRANSFORM_NAMES);
}

#[test]
fn the_byte_tables_leave_no_gap() {
    let rows = rows(&spec());
    for (section, first, len) in [
        ("File", "magic", FILE_HEADER_LEN),
        ("Chunks", "magic", CHUNK_HEADER_LEN),
        ("Index and footer", "index_offset", FOOTER_PAYLOAD_LEN),
    ] {
        let table = rows.iter().filter(|(s, c)| s == section && c.len() == 4 && c[0].parse::<usize>().is_ok());
        let mut end = 0;
        for (i, (_, cells)) in table.enumerate() {
            assert!(i > 0 || cells[2] == first);
            assert_eq!(cells[0], end.to_string(), "{section}: {}", cells[2]);
            end += cells[1].parse::<usize>().unwrap();
        }
        assert_eq!(end, len, "{section}");
    }
}

/// Names of the units by code, as the spec has them.
fn units(spec: &str) -> BTreeMap<u8, String> {
    let table = rows(spec).into_iter().filter(|(s, c)| s == "Schema" && c.len() == 3);
    table.filter_map(|(_, c)| Some((c[1].parse().ok()?, c[0].clone()))).collect()
}

#[test]
fn units_layers_and_classes_have_their_numbers() {
    let spec = spec();
    let all = [
        (Unit::TimeNs, "time"),
        (Unit::DurationNs, "duration"),
        (Unit::Cpu, "cpu"),
        (Unit::Task, "task"),
        (Unit::Str, "string"),
        (Unit::Func, "function"),
        (Unit::Number, "number"),
        (Unit::Signed, "signed"),
        (Unit::Bytes, "bytes"),
        (Unit::Address, "address"),
        (Unit::Enum(&[]), "enum"),
        (Unit::Flags, "flags"),
    ];
    assert_eq!(units(&spec), all.iter().map(|(u, n)| (u.code(), (*n).to_owned())).collect());

    let table: Vec<_> = rows(&spec).into_iter().filter(|(s, c)| s == "Dictionaries" && c.len() == 5).collect();
    let column = |name: usize, number: usize| -> BTreeMap<u8, String> {
        table.iter().filter_map(|(_, c)| Some((c[number].parse().ok()?, c[name].clone()))).collect()
    };
    let layers = (0..=255).filter_map(|n| Layer::from_number(n).map(|l| (n, l.name().to_owned()))).collect();
    let classes = (0..=255).filter_map(|n| Class::from_number(n).map(|c| (n, c.name().to_owned()))).collect();
    assert_eq!(column(0, 1), layers);
    assert_eq!(column(3, 4), classes);
}

fn one_line(doc: &str) -> String {
    doc.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn column_row(out: &mut String, c: &Column, units: &BTreeMap<u8, String>) {
    let names: Vec<String> = c.unit.names().iter().map(|(n, name)| format!("{n} {name}")).collect();
    let names = if names.is_empty() { String::new() } else { format!(" Values: {}.", names.join(", ")) };
    let unit = &units[&c.unit.code()];
    let null = if c.nullable { "yes" } else { "no" };
    writeln!(out, "| {} | `{}` | {unit} | {null} | {}{names} |", c.id, c.name, one_line(c.doc).replace('|', "\\|"))
        .unwrap();
}

/// The tables of event kinds.
fn events(units: &BTreeMap<u8, String>) -> String {
    const HEAD: &str = "| id | column | unit | null | meaning |\n|---|---|---|---|---|\n";
    let mut out = String::from(HEAD);
    for c in &EVENTS[0].columns[..2] {
        column_row(&mut out, c, units);
    }
    out.push_str("\n| kind | name |\n|---|---|\n");
    for e in EVENTS {
        assert_eq!(e.columns[..2], EVENTS[0].columns[..2], "{}", e.name);
        writeln!(out, "| {} | `{}` |", e.kind as u16, e.name).unwrap();
    }
    for e in EVENTS {
        writeln!(out, "\n### {} `{}`\n\n{}\n", e.kind as u16, e.name, one_line(e.doc)).unwrap();
        out.push_str(HEAD);
        for c in &e.columns[2..] {
            column_row(&mut out, c, units);
        }
    }
    out
}

/// Walks a file by the rules of the spec, not with the crate's reader, and notes each part.
struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
    out: String,
}

impl<'a> Walk<'a> {
    fn take(&mut self, len: usize, note: &str) -> &'a [u8] {
        const SHOWN: usize = 16;
        let part = &self.bytes[self.at..self.at + len];
        for (i, line) in part.chunks(8).take(SHOWN / 8).enumerate() {
            let hex: Vec<String> = line.iter().map(|b| format!("{b:02x}")).collect();
            let last = part.len() > SHOWN && i == SHOWN / 8 - 1;
            let more = if last { format!(" and {} bytes more", part.len() - SHOWN) } else { String::new() };
            let note = match i {
                0 => note.to_owned(),
                _ if last => more.trim_start().to_owned(),
                _ => String::new(),
            };
            let text = format!("{:06x}  {:<23}  {note}", self.at + i * 8, hex.join(" "));
            writeln!(self.out, "{}", text.trim_end()).unwrap();
        }
        self.at += len;
        part
    }

    fn number(&mut self, len: usize, note: &str) -> u64 {
        let at = self.at;
        let value = self.bytes[at..at + len].iter().rev().fold(0, |n, &b| n << 8 | u64::from(b));
        self.take(len, &format!("{note}: {value}"));
        value
    }

    fn crc(&mut self, of: &[u8], note: &str) {
        let stored = self.take(4, note);
        assert_eq!(stored, crc32c::crc32c(of).to_le_bytes(), "{note}");
    }

    fn varint(&mut self, note: &str) -> u64 {
        let len = 1 + self.bytes[self.at..].iter().take_while(|&&b| b >= 0x80).count();
        let value = self.bytes[self.at..self.at + len].iter().rev().fold(0, |n, &b| n << 7 | u64::from(b & 0x7f));
        self.take(len, &format!("{note}: {value}"));
        value
    }

    fn title(&mut self, title: &str) {
        writeln!(self.out, "\n{title}").unwrap();
    }

    fn chunk(&mut self) -> u64 {
        let start = self.at;
        let types = ["schema", "meta", "strings", "tasks", "functions", "block", "index", "footer"];
        let name = types[usize::from(self.bytes[start + 4]) - 1];
        self.title(&format!("{name} chunk"));
        assert_eq!(self.take(4, "magic"), CHUNK_MAGIC);
        let chunk_type = self.number(1, "type");
        let flags = self.number(1, "flags");
        self.number(2, "kind");
        self.number(4, "seq");
        self.number(4, "rows");
        self.number(4, "cpu");
        let head_len = self.number(4, "head_len") as usize;
        let payload_len = self.number(4, "payload_len") as usize;
        let payload = start + CHUNK_HEADER_LEN;
        self.crc(&self.bytes[payload..payload + head_len], "head_crc");
        self.number(8, "ts_min");
        self.number(8, "ts_max");
        self.take(4, "reserved");
        self.crc(&self.bytes[start..self.at], "crc of the header");
        let end = payload + payload_len;
        if flags & u64::from(FLAG_ZSTD) != 0 {
            self.number(4, "raw length");
            self.take(end - self.at, "zstd frame");
        }
        let chunk_type = u8::try_from(chunk_type).unwrap();
        match chunk_type {
            CHUNK_TASKS if self.at < end => {
                self.varint("first");
                while self.at < end {
                    self.varint("process id, zigzag distance");
                    self.varint("thread id, zigzag distance");
                    self.varint("birth, zigzag distance plus 1");
                }
            }
            CHUNK_BLOCK => self.block(end),
            CHUNK_FOOTER => {
                self.number(8, "index_offset");
                self.number(8, "chunks");
                self.number(8, "events");
                self.take(8, "reserved");
            }
            _ => {}
        }
        assert_eq!(self.at, end);
        let padding = end.next_multiple_of(CHUNK_ALIGN) - end;
        if padding > 0 {
            assert!(self.take(padding, "padding").iter().all(|&b| b == 0));
        }
        u64::from(chunk_type)
    }

    fn block(&mut self, end: usize) {
        let columns = EVENTS.iter().find(|e| e.kind == ingero_format::catalog::Kind::Exit).unwrap().columns;
        let mut stored = Vec::new();
        for _ in 0..self.varint("columns") {
            let id = self.number(1, "id") as u8;
            let name = columns.iter().find(|c| c.id == id).unwrap().name;
            let code = self.bytes[self.at];
            let transform = TRANSFORM_NAMES[usize::from(code & !CODE_NULLABLE)];
            let nullable = if code & CODE_NULLABLE != 0 { ", nullable" } else { "" };
            self.take(1, &format!("code: {transform}{nullable} ({name})"));
            self.varint("min");
            if code & !CODE_NULLABLE != TRANSFORM_CONST {
                self.varint("range");
                let len = self.varint("length") as usize;
                let crc: [u8; 4] = self.take(4, "crc of the column").try_into().unwrap();
                stored.push((name, len, u32::from_le_bytes(crc)));
            }
        }
        for (name, len, crc) in stored {
            let bytes = self.take(len, &format!("column {name}"));
            assert_eq!(crc, crc32c::crc32c(bytes));
        }
        assert_eq!(self.at, end);
    }
}

fn example() -> String {
    let mut w = TraceWriter::new(Vec::new(), WriterOptions::default()).unwrap();
    let main = w.task(Task { pid: 42, tid: 42, start_ns: Some(900) });
    let helper = w.task(Task { pid: 42, tid: 43, start_ns: None });
    w.push(1_000_000, 3, &Exit { task: helper, group_dead: Some(0) }).unwrap();
    w.push(1_000_300, 3, &Exit { task: main, group_dead: Some(1) }).unwrap();
    let bytes = w.finish().unwrap().0;
    let mut walk = Walk { bytes: &bytes, at: 0, out: String::from("```text\nfile header\n") };
    assert_eq!(walk.take(8, "magic"), FILE_MAGIC);
    walk.number(2, "major");
    walk.number(2, "minor");
    walk.number(4, "length");
    walk.take(12, "reserved");
    walk.crc(&bytes[..28], "crc of the header");
    let mut types = Vec::new();
    while walk.at < bytes.len() {
        types.push(walk.chunk());
    }
    let expected = [CHUNK_SCHEMA, CHUNK_TASKS, CHUNK_BLOCK, CHUNK_INDEX, CHUNK_FOOTER];
    assert_eq!(types, expected.map(u64::from));
    walk.out.push_str("```\n");
    walk.out
}

/// Compares a generated part of the spec, or writes it where that was asked for.
fn compare(name: &str, made: &str) {
    let spec = spec();
    let begin = format!("<!-- begin: {name}. Written by format/tests/spec.rs, see there. -->\n");
    let end = format!("<!-- end: {name} -->");
    let (before, rest) = spec.split_once(&begin).expect("the marker before the part");
    let (held, after) = rest.split_once(&end).expect("the marker behind the part");
    if held == made {
        return;
    }
    if std::env::var_os("UPDATE_SPEC").is_some() {
        std::fs::write(PATH, format!("{before}{begin}{made}{end}{after}")).unwrap();
        return;
    }
    let differing = held.lines().zip(made.lines()).find(|(h, m)| h != m);
    panic!("spec/igt.md ({name}) differs from the code; see the top of format/tests/spec.rs\n{differing:#?}");
}

#[test]
fn generated_parts_are_what_the_code_makes() {
    compare("events", &events(&units(&spec())));
    compare("example", &example());
}
