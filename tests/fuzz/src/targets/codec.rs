//! Single columns: changed where they are stored, made of any words, and made to grow.

use std::collections::BTreeMap;

use ingero_format::catalog::{Body, EVENTS, NULL, Unit};
use ingero_format::layout::{
    CHUNK_BLOCK, CODE_NULLABLE, MAX_COLUMNS, MAX_OPEN, MAX_ROWS, PLANE_CONST, PLANE_ZSTD, TRANSFORM_CONST,
    TRANSFORM_DICT, TRANSFORM_FOLLOW, TRANSFORM_OFFSET, TRANSFORM_RECALL, TRANSFORM_RISE, TRANSFORM_RUNS,
    TRANSFORM_STEP,
};
use ingero_format::{Batch, FunctionInfo, Task, TraceWriter, WriterOptions};
use ingero_replay::Merge;

use super::{BLOCK_LIMIT, opened, read_block};
use crate::dice::Dice;
use crate::memory;
use crate::recording::file_of;
use crate::seeds::Seeds;

/// One column that is encoded so, changed; the block is otherwise as it was.
pub(super) fn codec(seeds: &Seeds, code: &str, dice: &mut Dice) -> Result<u64, String> {
    let samples: Vec<_> = seeds.samples(code).collect();
    let [recording, part, column] = samples[dice.below(samples.len())];
    let bytes = seeds.recordings[recording].change_column(part, column, dice);
    let Some(trace) = opened(seeds, &bytes) else { return Ok(0) };
    let mut batch = Batch::new().map_err(|e| e.to_string())?;
    for block in trace.blocks() {
        let _ = read_block(&trace, block, &mut batch, None)?;
    }
    // A block that is refused is as good as one that is read.
    Ok(trace.chunks().len() as u64)
}

/// Whatever words go into the columns of any kind come out again.
pub(super) fn columns(seeds: &Seeds, dice: &mut Dice) -> Result<u64, String> {
    let options =
        WriterOptions { seal_rows: 1 + dice.below(3000), thorough: dice.one_in(8), ..WriterOptions::default() };
    let mut writer = TraceWriter::new(Vec::new(), options).map_err(|e| e.to_string())?;
    let _ = writer.task(Task { pid: 1, tid: 1, start_ns: None });
    let _ = writer.function(FunctionInfo {
        symbol: "cuX".into(),
        layer: ingero_format::catalog::Layer::Driver,
        class: ingero_format::catalog::Class::Sync,
    });
    let kind = &EVENTS[dice.below(EVENTS.len())];
    let (mut given, mut found) = (BTreeMap::new(), BTreeMap::new());
    // How each column goes: anything, few values, constant, rising, or what another column held before.
    let width = kind.columns.len();
    let habits: Vec<usize> = (0..width).map(|_| dice.below(6)).collect();
    let few: Vec<u64> = (0..5).map(|_| dice.any_word()).collect();
    let mut last: Vec<u64> = (0..width).map(|_| dice.any_word()).collect();
    let cpus = 1 + dice.below(4);
    let rows = 1 + dice.below(4000);
    for _ in 0..rows {
        let mut row = last.clone();
        for (column, word) in row.iter_mut().enumerate() {
            *word = match habits[column] {
                0 => dice.any_word(),
                1 => few[dice.below(few.len())],
                2 => *word,
                3 => word.wrapping_add(dice.word() >> (40 + dice.below(24))),
                4 => last[dice.below(width)],
                _ if dice.one_in(50) => dice.any_word(),
                _ => *word,
            };
            let column = &kind.columns[column];
            // Ids have 32 bits.
            if matches!(column.unit, Unit::Task | Unit::Str | Unit::Func) && !(column.nullable && *word == NULL) {
                *word = (*word).min(u64::from(u32::MAX));
            }
        }
        row[1] = dice.below(cpus) as u64;
        let body = Body::gather(kind.kind, |i| row[i]);
        *given.entry(row.clone()).or_insert(0) += 1;
        writer.push_any(row[0], u32::try_from(row[1]).unwrap_or(0), &body).map_err(|e| e.to_string())?;
        last = row;
    }
    let bytes = writer.finish().map_err(|e| e.to_string())?.0;
    let trace = opened(seeds, &bytes).ok_or("what was written does not open")?;
    let mut batch = Batch::new().map_err(|e| e.to_string())?;
    for b in trace.blocks() {
        read_block(&trace, b, &mut batch, None)?.map_err(|e| e.to_string())?;
        for row in 0..batch.rows() {
            let word = |id| batch.column(id).and_then(|c| c.get(row)).unwrap_or_default();
            let words: Vec<u64> = kind.columns.iter().map(|c| word(c.id)).collect();
            *found.entry(words).or_insert(0) += 1;
        }
    }
    if given == found {
        return Ok(rows as u64);
    }
    let odd = |one: &BTreeMap<Vec<u64>, u64>, other: &BTreeMap<Vec<u64>, u64>| {
        one.iter().find(|(row, n)| other.get(*row) != Some(n)).map(|(row, n)| format!("{row:?} ({n} times)"))
    };
    let (lost, new) = (odd(&given, &found).unwrap_or_default(), odd(&found, &given).unwrap_or_default());
    Err(format!("{} came out as something else: {lost} went in, {new} came out", kind.name))
}

/// Few bytes that claim many rows: one block within its cap, and many that overlap within theirs.
pub(super) fn bombs(seeds: &Seeds, dice: &mut Dice) -> Result<u64, String> {
    let rows = if dice.one_in(4) { 1 + dice.below(MAX_ROWS) } else { MAX_ROWS };
    let columns = 2 + dice.below(MAX_COLUMNS - 1);
    let (mut head, mut body) = (Vec::new(), Vec::new());
    varint(&mut head, columns as u64);
    for id in 0..u8::try_from(columns).unwrap_or(u8::MAX) {
        column(id, rows, dice, &mut head, &mut body);
    }
    let (span, copies) = ((0, u64::MAX >> dice.below(64)), 1 + dice.below(10));
    let payload = [head.as_slice(), &body].concat();
    let kind = EVENTS[dice.below(EVENTS.len())].kind as u16;
    let bytes = file_of(&seeds.recordings[0], CHUNK_BLOCK, kind, rows, &payload, head.len(), span, copies);
    let trace = opened(seeds, &bytes).ok_or("a sound header was refused")?;
    let mut batch = Batch::new().map_err(|e| e.to_string())?;
    let Some(block) = trace.blocks().first() else { return Err("the block is not there".to_owned()) };
    let read = read_block(&trace, block, &mut batch, None)?;
    drop(batch);
    let (given, peak) = memory::peak_of(|| {
        let mut rows = Merge::rows(&trace, |_| true);
        (0..1000).take_while(|_| rows.next_row().is_some()).count()
    });
    // What is open, what is being opened, and the order of its rows.
    let limit = MAX_OPEN + 2 * BLOCK_LIMIT;
    if peak > limit {
        return Err(format!("{copies} blocks that overlap took {} MiB, more than {} MiB", peak >> 20, limit >> 20));
    }
    // One that is refused is as good as one that is read.
    drop(read);
    Ok(1 + given as u64)
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

/// A column of few bytes and many rows.
fn column(id: u8, rows: usize, dice: &mut Dice, head: &mut Vec<u8>, body: &mut Vec<u8>) {
    let any = [
        TRANSFORM_CONST,
        TRANSFORM_OFFSET,
        TRANSFORM_RISE,
        TRANSFORM_STEP,
        TRANSFORM_DICT,
        TRANSFORM_FOLLOW,
        TRANSFORM_RUNS,
        TRANSFORM_RECALL,
    ];
    let transform = match id {
        0 => TRANSFORM_RISE,
        1 => TRANSFORM_CONST,
        _ => any[dice.below(any.len())],
    };
    // The range decides how wide the cells are.
    let range = u64::MAX >> (1 + dice.below(63));
    let widest = (71 - range.leading_zeros() as usize) / 8;
    let mut bytes = Vec::new();
    match transform {
        TRANSFORM_CONST => {}
        TRANSFORM_RUNS => [0, rows as u64].into_iter().for_each(|n| varint(&mut bytes, n)),
        TRANSFORM_DICT => {
            [1, 0].into_iter().for_each(|n| varint(&mut bytes, n));
            zeros(rows, 1, dice, &mut bytes);
        }
        TRANSFORM_FOLLOW => {
            [1, 0].into_iter().for_each(|n| varint(&mut bytes, n));
            zeros(1, widest, dice, &mut bytes);
        }
        TRANSFORM_RECALL => {
            varint(&mut bytes, 0);
            zeros(rows, 1, dice, &mut bytes);
        }
        _ => zeros(rows, widest, dice, &mut bytes),
    }
    head.extend([id, transform | if dice.one_in(4) && id > 1 { CODE_NULLABLE } else { 0 }]);
    varint(head, 0);
    if transform == TRANSFORM_CONST {
        return;
    }
    varint(head, range);
    varint(head, bytes.len() as u64);
    head.extend(crc32c::crc32c(&bytes).to_le_bytes());
    match transform {
        TRANSFORM_FOLLOW => head.push(1),
        TRANSFORM_RECALL => head.extend([1, 0]),
        _ => {}
    }
    body.extend(bytes);
}

/// Numbers that are all 0, in one of many ways.
fn zeros(count: usize, widest: usize, dice: &mut Dice, out: &mut Vec<u8>) {
    let width = dice.below(1 + widest);
    out.push(u8::try_from(width).unwrap_or(8));
    for _ in 0..width {
        if dice.one_in(2) {
            out.extend([PLANE_CONST, 0]);
            continue;
        }
        let frame = zstd::bulk::compress(&vec![0; count], 1).unwrap_or_default();
        out.push(PLANE_ZSTD);
        varint(out, frame.len() as u64);
        out.extend(frame);
    }
}
