//! Writes the corpus of version 1.0 of the format: `corpus-v1 FOLDER`, through `tests/corpus/write`.
//!
//! Every number follows from the code below, nothing from the machine or the time. A file that is there
//! is left alone: what was written once is what later readers are held to.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a program for maintainers, who see its panics"
)]

#[path = "../expectation.rs"]
mod expectation;

use std::fs;
use std::path::Path;

use ingero_format::catalog::{Body, Class, Column, EVENTS, Event, EventKind, Exit, Kind, Layer, NO_CPU, Unit};
use ingero_format::layout::{
    CHUNK_ALIGN, CHUNK_BLOCK, CHUNK_FOOTER, CHUNK_FUNCTIONS, CHUNK_HEADER_LEN, CHUNK_INDEX, CHUNK_MAGIC, CHUNK_META,
    CHUNK_SCHEMA, CHUNK_STRINGS, CHUNK_TASKS, CPU_SEVERAL, FILE_MAGIC, FLAG_ANCILLARY, MAX_ROWS,
};
use ingero_format::{FunctionInfo, KindSchema, Task, Trace, TraceWriter, WriterOptions, own_schema};
use serde_json::json;

fn main() {
    let folder = std::env::args().nth(1).expect("usage: corpus-v1 FOLDER");
    let kinds = kinds();
    let files: [(&str, Vec<u8>); 11] = [
        ("kinds", kinds.clone()),
        ("columns", columns(WriterOptions::default())),
        ("compact", columns(WriterOptions { level: 19, seal_rows: MAX_ROWS, thorough: true, seal_ns: u64::MAX })),
        ("empty", writer(WriterOptions::default()).finish().unwrap().0),
        ("growing-schema", growing_schema()),
        ("cut", kinds[..kinds.len() * 3 / 5].to_vec()),
        ("damaged", damaged(&kinds)),
        ("later", later(false)),
        ("later-transform", later(true)),
        ("refused-chunk", refused_chunk(&kinds)),
        ("refused-version", refused_version(&kinds)),
    ];
    for (name, bytes) in files {
        let path = Path::new(&folder).join(name).with_extension("igt");
        if path.exists() {
            println!("{} is there and stays", path.display());
            continue;
        }
        fs::write(&path, bytes).unwrap();
        let expected = match name {
            // The place is a part of the message; its wording may become better.
            "refused-chunk" => json!({ "refused": ["chunk type 42 ", "offset 0x", "newer"] }),
            "refused-version" => json!({ "refused": ["version 2 ", "newer"] }),
            _ => expectation::of(&path),
        };
        fs::write(path.with_extension("json"), format!("{expected:#}\n")).unwrap();
        println!("{}", path.display());
    }
}

/// One kind after another, each described before its first block; from some number on all at once.
fn growing_schema() -> Vec<u8> {
    let mut writer = writer(WriterOptions::default());
    let mut dice = Dice(3);
    for (kind, ts_ns) in EVENTS.iter().take(9).zip((5_000_000_000..).step_by(1_000_000)) {
        for row in 0..5 {
            let body = Body::gather(kind.kind, |at| word(&kind.columns[at], &mut dice));
            writer.push_any(ts_ns + row, 0, &body).unwrap();
        }
        writer.flush().unwrap();
    }
    writer.finish().unwrap().0
}

/// SplitMix64: numbers without a pattern, the same in every run.
struct Dice(u64);

impl Dice {
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

const TASKS: u32 = 12;
const STRINGS: u32 = 6;
/// One of each class.
const FUNCTIONS: u8 = 11;

/// A writer with dictionaries of every sort.
fn writer(options: WriterOptions) -> TraceWriter<Vec<u8>> {
    let mut writer = TraceWriter::new(Vec::new(), options).unwrap();
    writer.set_meta("recorder", "corpus of version 1");
    writer.set_meta("kernel", "6.18");
    writer.set_meta("kernel", "the last value holds");
    for text in ["python3", "naïve \"name\"\n\t\u{1}", "/usr/bin/env", "線程", "a".repeat(300).as_str(), "W"] {
        writer.string(text);
    }
    for i in 1..=TASKS {
        // Threads of processes; births known and not; ids that fall, and one at the edge.
        let pid = if i == TASKS { u32::MAX } else { 4_200 - i / 3 * 7 };
        writer.task(Task { pid, tid: pid - i % 3, start_ns: (i % 4 > 0).then(|| 1_000_000_007 * u64::from(i % 5)) });
    }
    for number in 1..=FUNCTIONS {
        let class = Class::from_number(number).unwrap();
        let layer = Layer::from_number(1 + number % 5).unwrap();
        writer.function(FunctionInfo { symbol: format!("cuFunction{number}"), layer, class });
    }
    writer
}

/// A word that a column may hold: of few values, or anything, at the edges too.
fn word(column: &Column, dice: &mut Dice) -> u64 {
    let any = dice.word();
    if column.nullable && any.is_multiple_of(5) {
        return u64::MAX;
    }
    let any = any >> 8;
    match column.unit {
        Unit::Task => any % u64::from(TASKS + 1),
        Unit::Str => any % u64::from(STRINGS + 1),
        Unit::Func => any % u64::from(FUNCTIONS),
        Unit::Cpu => any % 4,
        Unit::TimeNs => 7_100_000_000 + any % 1_000_000_000,
        Unit::DurationNs => any >> (16 + any % 40),
        Unit::Enum(names) => names[usize::try_from(any).unwrap() % names.len()].0,
        Unit::Flags | Unit::Number if !any.is_multiple_of(3) => any % 7,
        // Below the word for "not known".
        _ if any.is_multiple_of(11) => u64::MAX - 1,
        _ => any >> (any % 56),
    }
}

/// Every kind, in small blocks.
fn kinds() -> Vec<u8> {
    let mut writer = writer(WriterOptions { seal_rows: 25, ..WriterOptions::default() });
    let mut dice = Dice(1);
    for kind in EVENTS {
        for row in 0..60u64 {
            let ts_ns = 7_000_000_000 + row * 1000 + dice.word() % 3000;
            let cpu = [0, 1, 5, NO_CPU][usize::try_from(row / 9 % 4).unwrap()];
            let mut body = Body::gather(kind.kind, |at| word(&kind.columns[at], &mut dice));
            if row < 25 {
                // A block in which nothing is known that need not be.
                body = Body::gather(kind.kind, |at| match &kind.columns[at] {
                    c if c.nullable => u64::MAX,
                    c if c.unit == Unit::TimeNs => ts_ns + 50 * row,
                    _ => row % 3,
                });
            }
            writer.push_any(ts_ns, cpu, &body).unwrap();
        }
    }
    // A call that is written while it is open, and again when it has ended.
    let call = EVENTS.iter().find(|k| k.kind == Kind::Call).unwrap();
    let at = |name: &str| call.columns.iter().position(|c| c.name == name).unwrap();
    let (end, dur_ns) = (at("end"), at("dur_ns"));
    for (ended, dur) in [(1, u64::MAX), (0, 200_000_000)] {
        let fields = |place| {
            if place == end {
                ended
            } else if place == dur_ns {
                dur
            } else {
                1
            }
        };
        writer.push_any(8_000_000_000, 2, &Body::gather(Kind::Call, fields)).unwrap();
        writer.seal_kind(Kind::Call).unwrap();
    }
    writer.finish().unwrap().0
}

/// Long columns with the patterns of recordings.
fn columns(options: WriterOptions) -> Vec<u8> {
    let mut writer = writer(options);
    let mut dice = Dice(2);
    let mut running = [1u64, 2, 3];
    let mut pointer = 0x7f00_0000_0000u64;
    for row in 0..6000u64 {
        let ts_ns = 9_000_000_000 + row * 700 + dice.word() % 600;
        let cpu = row % 3;
        let place = usize::try_from(cpu).unwrap();
        let next = (running[place] + 1 + dice.word() % 3) % u64::from(TASKS);
        // Now and then a switch is missing.
        let prev = if row % 400 == 399 { 5 } else { running[place] };
        running[place] = next;
        pointer = pointer.wrapping_add((dice.word() % 5) << 12).wrapping_sub(1 << 13);
        let mut give = |kind: &EventKind, of: &dyn Fn(&Column, &mut Dice) -> u64| {
            let body = Body::gather(kind.kind, |at| of(&kind.columns[at], &mut dice));
            writer.push_any(ts_ns, u32::try_from(cpu).unwrap(), &body).unwrap();
        };
        for kind in EVENTS {
            match kind.kind {
                Kind::Switch => give(kind, &|c, _| match c.name {
                    "prev" => prev,
                    "next" => next,
                    "prev_state" => prev % 2,
                    "prev_prio" => 100 + prev,
                    "next_prio" => 100 + next,
                    "syscall" if prev % 2 == 1 => 200 + prev * 3,
                    _ => u64::MAX,
                }),
                Kind::Call => give(kind, &|c, dice| match c.name {
                    "task" => 3,
                    "func" => row % 4,
                    "dur_ns" => 300 + (dice.word() >> (40 + dice.word() % 20)),
                    "ptr" => pointer,
                    "bytes" if row % 4 == 1 => 4096 << (dice.word() % 6),
                    "result" | "end" => 0,
                    "stream" => [0x55_0000_1000, 0x55_0000_2000, 0][usize::try_from(row / 100 % 3).unwrap()],
                    _ => u64::MAX,
                }),
                Kind::PageAlloc if row % 2 == 0 => give(kind, &|c, dice| match c.name {
                    "task" => prev,
                    "pfn" => dice.word() >> 42,
                    "order" => u64::from(dice.word() % 9 == 0),
                    "gfp_flags" => [0x0014_0dca, 0xcc0, 0x2_0000_0cc0][usize::try_from(dice.word() % 3).unwrap()],
                    _ => 1,
                }),
                Kind::Waking if row % 3 == 0 => give(kind, &|c, _| match c.name {
                    "waker" => prev,
                    "wakee" => next,
                    "target_cpu" => next % 3,
                    _ => 0,
                }),
                _ => {}
            }
        }
    }
    writer.finish().unwrap().0
}

/// Bits flipped where each costs something else.
fn damaged(whole: &[u8]) -> Vec<u8> {
    let trace = opened(whole);
    let at = |offset: u64| usize::try_from(offset).unwrap();
    let mut bytes = whole.to_vec();
    let block = |n: usize| trace.chunks().iter().filter(|c| c.header.chunk_type == CHUNK_BLOCK).nth(n).unwrap();
    // A column: the last byte of a block. A directory: its second byte. A header: a byte of its times.
    let (column, directory, header) = (block(3), block(8), block(14));
    bytes[at(column.offset) + CHUNK_HEADER_LEN + column.header.payload_len as usize - 1] ^= 4;
    bytes[at(directory.offset) + CHUNK_HEADER_LEN + 1] ^= 1;
    bytes[at(header.offset) + 35] ^= 0x80;
    let strings = trace.chunks().iter().find(|c| c.header.chunk_type == CHUNK_STRINGS).unwrap();
    bytes[at(strings.offset) + CHUNK_HEADER_LEN + 3] ^= 0x10;
    bytes
}

fn opened(bytes: &[u8]) -> Trace {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), bytes).unwrap();
    Trace::open(file.path()).unwrap()
}

/// The chunk `after` which another one is put, of a type that nobody may skip.
fn refused_chunk(whole: &[u8]) -> Vec<u8> {
    let trace = opened(whole);
    let last = trace.chunks().last().unwrap();
    let mut bytes = whole[..usize::try_from(last.offset).unwrap()].to_vec();
    bytes.extend(chunk(42, 0, 0, last.header.seq, 1, b"what it says cannot be understood without this", None));
    bytes
}

fn refused_version(whole: &[u8]) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    bytes[8] = 2;
    let crc = crc32c::crc32c(&bytes[..28]).to_le_bytes();
    bytes[28..32].copy_from_slice(&crc);
    bytes
}

// ---- what no writer of this version writes: put together by hand, from spec/igt.md ----

/// A whole chunk with its padding; of a block, the length of the directory and the times too.
fn chunk(
    kind_of: u8,
    flags: u8,
    kind: u16,
    seq: u32,
    rows: u32,
    payload: &[u8],
    block: Option<(usize, u64, u64)>,
) -> Vec<u8> {
    let (head_len, ts_min, ts_max) = block.unwrap_or((payload.len(), 0, 0));
    let mut out = CHUNK_MAGIC.to_vec();
    out.extend([kind_of, flags]);
    out.extend(kind.to_le_bytes());
    let cpu = if block.is_some() { 0 } else { CPU_SEVERAL };
    let crc = crc32c::crc32c(&payload[..head_len]);
    for number in [seq, rows, cpu, len32(head_len), len32(payload.len()), crc] {
        out.extend(number.to_le_bytes());
    }
    out.extend(ts_min.to_le_bytes());
    out.extend(ts_max.to_le_bytes());
    out.extend([0; 4]);
    out.extend(crc32c::crc32c(&out).to_le_bytes());
    assert_eq!(out.len(), CHUNK_HEADER_LEN);
    out.extend(payload);
    out.resize(out.len().next_multiple_of(CHUNK_ALIGN), 0);
    out
}

fn len32(len: usize) -> u32 {
    u32::try_from(len).unwrap()
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

fn text(out: &mut Vec<u8>, text: &str) {
    varint(out, text.len() as u64);
    out.extend(text.as_bytes());
}

fn schema_payload(kinds: &[KindSchema]) -> Vec<u8> {
    let mut out = Vec::new();
    varint(&mut out, kinds.len() as u64);
    for kind in kinds {
        out.extend(kind.number.to_le_bytes());
        text(&mut out, &kind.name);
        text(&mut out, &kind.doc);
        varint(&mut out, kind.columns.len() as u64);
        for c in &kind.columns {
            out.extend([c.id, c.unit, u8::from(c.nullable)]);
            text(&mut out, &c.name);
            text(&mut out, &c.doc);
            varint(&mut out, c.names.len() as u64);
            for (value, name) in &c.names {
                varint(&mut out, *value);
                text(&mut out, name);
            }
        }
    }
    out.extend(b"bytes of a later version");
    out
}

/// A block of rows on CPU 0: of each column its id, code, and words; stored as raw planes of one byte above the smallest.
fn block(kind: u16, seq: u32, columns: &[(u8, u8, &[u64])]) -> Vec<u8> {
    let (mut head, mut body) = (Vec::new(), Vec::new());
    varint(&mut head, columns.len() as u64);
    for &(id, code, words) in columns {
        let (low, high) = (*words.iter().min().unwrap(), *words.iter().max().unwrap());
        head.extend([id, code]);
        varint(&mut head, low);
        if code & 0x7f == 0 {
            continue;
        }
        // Numbers of one byte, their plane raw.
        let mut stored = vec![1, 1];
        stored.extend(words.iter().map(|w| u8::try_from(w - low).unwrap()));
        varint(&mut head, high - low);
        varint(&mut head, stored.len() as u64);
        head.extend(crc32c::crc32c(&stored).to_le_bytes());
        body.extend(stored);
    }
    let times = columns[0].2;
    let whole = [head.clone(), body].concat();
    let span = (head.len(), *times.iter().min().unwrap(), *times.iter().max().unwrap());
    chunk(CHUNK_BLOCK, 0, kind, seq, len32(times.len()), &whole, Some(span))
}

/// What version 1.7 might write.
fn later(transform: bool) -> Vec<u8> {
    const OFFSET: u8 = 1;
    let mut out = FILE_MAGIC.to_vec();
    for number in [1u16, 7] {
        out.extend(number.to_le_bytes());
    }
    out.extend(32u32.to_le_bytes());
    out.extend([0xee; 12]); // reserved today
    out.extend(crc32c::crc32c(&out).to_le_bytes());

    let mut schema = own_schema();
    let exit = schema.iter_mut().find(|k| k.number == Exit::KIND as u16).unwrap();
    let mut later_column = exit.columns[3].clone();
    (later_column.id, later_column.name, later_column.unit) = (60, "exit_code".into(), 77);
    exit.columns.push(later_column);
    let mut power = exit.clone();
    (power.number, power.name, power.doc) = (900, "gpu_power".into(), "Power that a GPU drew.".into());
    for (id, name, unit, names) in
        [(2, "milliwatt", 7, vec![]), (3, "state", 11, vec![(0, "P0"), (8, "P8")]), (4, "sensor", 5, vec![])]
    {
        let names = names.into_iter().map(|(w, n): (u64, &str)| (w, n.to_owned())).collect();
        let column = ingero_format::ColumnSchema {
            id,
            name: name.into(),
            unit,
            nullable: id == 2,
            doc: "Of a later version.".into(),
            names,
        };
        power.columns.retain(|c| c.id != id && c.id != 60);
        power.columns.push(column);
    }
    power.columns.sort_by_key(|c| c.id);
    schema.push(power);

    let mut meta = vec![0];
    text(&mut meta, "recorder");
    text(&mut meta, "a later version");
    let mut strings = vec![1];
    text(&mut strings, "board");
    // Task 1: process 42, thread 43, born at 5.
    let tasks = [1, 84, 2, 11];
    let mut functions = vec![0, 99, 200];
    text(&mut functions, "cuLater");
    let times: Vec<u64> = (0..10).map(|i| 1_000 + i * 10).collect();
    let small: Vec<u64> = (0..10).collect();
    let ones = [1; 10];
    let parts: Vec<Vec<u8>> = vec![
        chunk(CHUNK_SCHEMA, 0, 0, 0, len32(schema.len()), &schema_payload(&schema), None),
        chunk(CHUNK_META, 0, 0, 1, 1, &meta, None),
        chunk(77, FLAG_ANCILLARY, 0, 2, 3, b"may be skipped", None),
        chunk(CHUNK_STRINGS, 0, 0, 3, 1, &strings, None),
        chunk(CHUNK_TASKS, 0, 0, 4, 1, &tasks, None),
        chunk(CHUNK_FUNCTIONS, 0, 0, 5, 1, &functions, None),
        // A column of a later version beside known ones, of which one (group_dead) is missing.
        block(7, 6, &[(0, OFFSET, &times), (1, 0, &[0; 10]), (2, 0, &ones), (60, OFFSET | 0x80, &small)]),
        // The schema does not name column 200.
        block(
            900,
            7,
            &[
                (0, OFFSET, &times),
                (1, 0, &[0; 10]),
                (2, OFFSET | 0x80, &small),
                (3, OFFSET, &[0, 8, 0, 8, 0, 8, 0, 8, 9, 9]),
                (4, 0, &ones),
                (200, OFFSET, &small),
            ],
        ),
        // The schema does not name one of the two kinds.
        block(if transform { 901 } else { 900 }, 8, &[(0, OFFSET, &times), (1, 0, &[0; 10])]),
        block(
            7,
            9,
            &[(0, OFFSET, &times), (1, 0, &[0; 10]), (2, if transform { 99 } else { OFFSET }, &small[..2].repeat(5))],
        ),
    ];
    let mut index = Vec::new();
    for part in &parts {
        index.extend((out.len() as u64).to_le_bytes());
        index.extend(&part[..CHUNK_HEADER_LEN]);
        out.extend(part);
    }
    let footer = [out.len() as u64, parts.len() as u64, 40, 0].map(u64::to_le_bytes).concat();
    out.extend(chunk(CHUNK_INDEX, FLAG_ANCILLARY, 0, 10, len32(parts.len()), &index, None));
    out.extend(chunk(CHUNK_FOOTER, 0, 0, 11, 0, &footer, None));
    out
}
