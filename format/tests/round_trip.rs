//! Whatever goes in comes out: rows of every kind, from numbers of every size and pattern, whole and by
//! column.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::io::Write;

use ingero_format::catalog::{Body, EVENTS, NULL, Unit};
use ingero_format::{Batch, Trace, TraceWriter, WriterOptions};

/// xorshift: the same numbers every time.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// A word for a column by one of several patterns.
fn word(dice: &mut Dice, pattern: u64, unit: Unit, last: u64) -> u64 {
    let cap = match unit {
        Unit::Task | Unit::Str | Unit::Func => u64::from(u32::MAX),
        _ => u64::MAX - 1,
    };
    let word = match pattern {
        0 => 7,
        1 => dice.below(3),
        2 => dice.below(200),
        3 => 5000 + dice.below(700),
        4 => last.wrapping_add(dice.below(9)),
        5 => {
            let bits = dice.below(64);
            dice.next() >> bits
        }
        6 => dice.next(),
        _ => {
            if dice.below(50) == 0 {
                dice.below(5)
            } else {
                last
            }
        }
    };
    word.min(cap)
}

fn check(seed: u64, options: WriterOptions) {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut writer = TraceWriter::new(Vec::new(), options).unwrap();
    let kind = &EVENTS[usize::try_from(dice.below(EVENTS.len() as u64)).unwrap()];
    let patterns: Vec<u64> = kind.columns.iter().map(|_| dice.below(8)).collect();
    let nulls: Vec<bool> = kind.columns.iter().map(|c| c.nullable && dice.below(2) == 0).collect();
    let (rows, cpus, gap) = (1 + dice.below(3000), 1 + dice.below(5), 1 << dice.below(40));
    let mut row = vec![0u64; kind.columns.len()];
    let mut written = Vec::new();
    let mut ts = dice.below(1 << 40);
    for _ in 0..rows {
        // Rows come nearly in order.
        ts += dice.below(gap);
        row[0] = ts.saturating_sub(if dice.below(20) == 0 { dice.below(gap) } else { 0 });
        row[1] = dice.below(cpus) * 3;
        for (i, column) in kind.columns.iter().enumerate().skip(2) {
            row[i] = word(&mut dice, patterns[i], column.unit, row[i]);
            if nulls[i] && dice.below(4) == 0 {
                row[i] = NULL;
            }
        }
        writer.push_any(row[0], u32::try_from(row[1]).unwrap(), &Body::gather(kind.kind, |i| row[i])).unwrap();
        written.push(row.clone());
    }
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&writer.finish().unwrap().0).unwrap();
    let trace = Trace::from_file(file, format!("seed {seed}")).unwrap();
    assert!(trace.complete() && trace.damage().is_empty());
    let (mut batch, mut one) = (Batch::new().unwrap(), Batch::new().unwrap());
    let mut read = Vec::new();
    for block in trace.blocks() {
        trace.read_block(block, &mut batch, None).unwrap();
        let columns: Vec<Vec<u64>> = kind.columns.iter().map(|c| batch.column(c.id).unwrap().to_vec()).collect();
        read.extend((0..batch.rows()).map(|r| columns.iter().map(|c| c[r]).collect::<Vec<u64>>()));
        let stored = trace.stored_columns(block).unwrap();
        for (column, words) in kind.columns.iter().zip(&columns) {
            trace.read_block(block, &mut one, Some(&[column.id])).unwrap();
            assert_eq!(one.column(column.id).unwrap(), words.as_slice(), "seed {seed}, {} alone", column.name);
            let known = || words.iter().copied().filter(|&w| !(column.nullable && w == NULL));
            let range = stored.iter().find(|s| s.id == column.id).unwrap().range;
            // With "not known" in between the smallest is a bound, not a value.
            assert_eq!(range.map(|r| r.1), known().max(), "seed {seed}, {}", column.name);
            assert!(known().all(|w| w >= range.unwrap().0), "seed {seed}, {}", column.name);
        }
    }
    written.sort();
    read.sort();
    assert!(written == read, "seed {seed}, {}", kind.name);
}

#[test]
fn random_rows_come_back() {
    for seed in 0..400 {
        let seal_rows = [50, 700, 1 << 16][usize::try_from(seed % 3).unwrap()];
        check(seed, WriterOptions { seal_rows, ..WriterOptions::default() });
    }
}

#[test]
fn random_rows_come_back_from_every_form() {
    for seed in 400..500 {
        check(seed, WriterOptions { thorough: true, level: 3, ..WriterOptions::default() });
    }
}
