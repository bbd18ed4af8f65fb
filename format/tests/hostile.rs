//! Bytes that somebody made on purpose: every CRC fits, and what they cover is nonsense. A reader may
//! refuse them or read nonsense; it may not panic, and overflow checks are on in tests.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::io::Write;

use ingero_format::catalog::*;
use ingero_format::layout::*;
use ingero_format::{Batch, FunctionInfo, Task, Trace, TraceWriter, WriterOptions};

/// Numbers without a pattern, the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % n
    }
    fn byte(&mut self) -> u8 {
        const EDGES: [u8; 8] = [0, 1, 0x7f, 0x80, 0xff, 0xfe, 2, 9];
        let at = self.below(16);
        EDGES.get(at).copied().unwrap_or_else(|| u8::try_from(self.below(256)).unwrap())
    }
}

/// A file without index, so that it is scanned, with every transform in it.
fn sample() -> Vec<u8> {
    let mut w = TraceWriter::new(Vec::new(), WriterOptions { seal_rows: 150, ..WriterOptions::default() }).unwrap();
    w.set_meta("kernel", "6.18");
    let tasks: Vec<TaskId> = (1..9).map(|i| w.task(Task { pid: i, tid: i, start_ns: Some(7) })).collect();
    let func = w.function(FunctionInfo { symbol: "cuX".into(), layer: Layer::Driver, class: Class::Sync });
    let mut last = tasks[0];
    for i in 0..300u64 {
        let next = tasks[(i * i % 8) as usize];
        let prev = std::mem::replace(&mut last, next);
        let prio = Some(i * 7919 % 5 * 1000);
        let switch =
            Switch { prev, prev_state: i % 3, prev_prio: prio, next, next_prio: prio, syscall: None, throttled: None };
        w.push(1000 + i * i, (i / 60 % 2) as u32, &switch).unwrap();
        let call = Call {
            task: next,
            func,
            dur_ns: Some(i * 31),
            end: END_RETURNED,
            result: Some(-1),
            ptr: Some(i << 40),
            ptr2: None,
            bytes: Some(1 << (i % 40)),
            copy: None,
            stream: None,
            device: None,
        };
        w.push(1000 + i, 1, &call).unwrap();
    }
    w.flush().unwrap();
    w.get_ref().clone()
}

fn open(bytes: &[u8]) -> Option<Trace> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    Trace::from_file(file, "hostile.igt".into()).ok()
}

fn varint(bytes: &[u8], at: &mut usize) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = bytes[*at];
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    value
}

/// For each stored column of a block: where its CRC stands and where its bytes are.
fn columns(bytes: &[u8], payload: usize, head_len: usize) -> Vec<(usize, std::ops::Range<usize>)> {
    let mut at = payload;
    let mut start = payload + head_len;
    let mut out = Vec::new();
    for _ in 0..varint(bytes, &mut at) {
        let transform = bytes[at + 1] & !CODE_NULLABLE;
        at += 2;
        varint(bytes, &mut at);
        if transform != TRANSFORM_CONST {
            varint(bytes, &mut at);
            let len = usize::try_from(varint(bytes, &mut at)).unwrap();
            out.push((at, start..start + len));
            start += len;
            at += 4;
        }
        at += usize::from(transform == TRANSFORM_FOLLOW);
    }
    out
}

fn put_crc(bytes: &mut [u8], of: std::ops::Range<usize>, at: usize) {
    let crc = crc32c::crc32c(&bytes[of]).to_le_bytes();
    bytes[at..at + 4].copy_from_slice(&crc);
}

fn read_everything(bytes: &[u8], batch: &mut Batch) -> usize {
    let Some(trace) = open(bytes) else { return 0 };
    assert!(trace.span_ns().is_none_or(|(from, to)| from <= to));
    let mut read = 0;
    for c in trace.chunks() {
        let _ = trace.check_chunk(c);
    }
    for b in trace.blocks() {
        let _ = trace.stored_columns(b);
        if trace.read_block(b, batch, None).is_ok() {
            read += 1;
            let columns = trace.kind_schema(b.header.kind).map(|k| k.columns.clone()).unwrap_or_default();
            for c in columns {
                if let Some(word) = batch.column(c.id).and_then(ingero_format::Words::first) {
                    let _ = trace.show(&c, word);
                }
            }
        } else {
            assert_eq!((batch.rows(), batch.runs().len()), (0, 0));
        }
        let _ = trace.read_block(b, batch, Some(&[2]));
    }
    read
}

#[test]
fn nonsense_with_fitting_crcs_never_panics() {
    let whole = sample();
    let chunks = open(&whole).unwrap().chunks().to_vec();
    let mut batch = Batch::new().unwrap();
    assert_eq!(read_everything(&whole, &mut batch), 4);
    let mut dice = Dice(42);
    let (mut read, mut rounds) = (0, 0);
    for round in 0..6000 {
        let mut bytes = whole.clone();
        let c = chunks[dice.below(chunks.len())];
        let start = usize::try_from(c.offset).unwrap();
        let (head_len, payload_len) = (c.header.head_len as usize, c.header.payload_len as usize);
        let payload = start + CHUNK_HEADER_LEN;
        let is_block = c.header.chunk_type == CHUNK_BLOCK;
        match round % 3 {
            // A field of the header.
            0 => bytes[start + 4 + dice.below(CHUNK_HEADER_LEN - 8)] = dice.byte(),
            // The bytes of a column.
            1 if is_block => {
                let columns = columns(&bytes, payload, head_len);
                let (crc_at, range) = columns[dice.below(columns.len())].clone();
                for _ in 0..=dice.below(3) {
                    bytes[range.start + dice.below(range.len())] = dice.byte();
                }
                put_crc(&mut bytes, range, crc_at);
            }
            // The directory, or the payload of another chunk.
            _ => {
                for _ in 0..=dice.below(2) {
                    let len = if is_block { head_len } else { payload_len };
                    bytes[payload + dice.below(len)] = dice.byte();
                }
            }
        }
        if round % 3 != 0 {
            put_crc(&mut bytes, payload..payload + head_len, start + 28);
        }
        put_crc(&mut bytes, start..start + CHUNK_HEADER_LEN - 4, start + CHUNK_HEADER_LEN - 4);
        read += read_everything(&bytes, &mut batch);
        rounds += 1;
    }
    assert!(read > rounds * 2, "most blocks stay readable, or nothing was tried: {read} in {rounds}");
}

/// The header of a file is 32 bytes that nothing repeats: one wrong bit in it made the rest unreadable.
#[test]
fn a_broken_file_header_costs_no_event() {
    let whole = sample();
    let mut batch = Batch::new().unwrap();
    for at in 0..FILE_HEADER_LEN {
        for bit in 0..8 {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << bit;
            assert_eq!(read_everything(&bytes, &mut batch), 4, "bit {bit} of byte {at}");
            let trace = open(&bytes).unwrap();
            assert_eq!((trace.damage()[0].offset, trace.damage()[0].len), (0, 32), "bit {bit} of byte {at}");
        }
    }
    // Without chunks behind it, it is no recording.
    let mut bytes = whole[..FILE_HEADER_LEN].to_vec();
    bytes[9] ^= 1;
    assert!(open(&bytes).is_none());
}

/// A small index could list one large block a million times.
#[test]
fn an_index_lists_every_chunk_once() {
    let whole = sample();
    let chunks = open(&whole).unwrap().chunks().to_vec();
    let entry = |c: &ingero_format::IndexEntry| {
        let at = usize::try_from(c.offset).unwrap();
        [&c.offset.to_le_bytes()[..], &whole[at..at + CHUNK_HEADER_LEN]].concat()
    };
    let ended = |listed: &[ingero_format::IndexEntry]| {
        let mut bytes = whole.clone();
        let index: Vec<u8> = listed.iter().flat_map(entry).collect();
        let footer = [bytes.len() as u64, listed.len() as u64, 600, 0].map(u64::to_le_bytes).concat();
        for (chunk_type, flags, payload) in [(CHUNK_INDEX, FLAG_ANCILLARY, &index), (CHUNK_FOOTER, 0, &footer)] {
            let at = bytes.len();
            bytes.extend(vec![0; CHUNK_HEADER_LEN]);
            bytes[at..at + 4].copy_from_slice(&CHUNK_MAGIC);
            bytes[at + 4..at + 6].copy_from_slice(&[chunk_type, flags]);
            bytes[at + 8..at + 12].copy_from_slice(&u32::from(chunk_type).to_le_bytes());
            let len = u32::try_from(payload.len()).unwrap().to_le_bytes();
            bytes[at + 20..at + 24].copy_from_slice(&len);
            bytes[at + 24..at + 28].copy_from_slice(&len);
            bytes.extend_from_slice(payload);
            put_crc(&mut bytes, at + CHUNK_HEADER_LEN..at + CHUNK_HEADER_LEN + payload.len(), at + 28);
            put_crc(&mut bytes, at..at + CHUNK_HEADER_LEN - 4, at + CHUNK_HEADER_LEN - 4);
            bytes.resize(bytes.len().next_multiple_of(CHUNK_ALIGN), 0);
        }
        open(&bytes).unwrap()
    };
    assert!(ended(&chunks).complete());
    let mut twice = chunks.clone();
    twice.push(*chunks.last().unwrap());
    let trace = ended(&twice);
    assert!(!trace.complete() && trace.damage()[0].problem.starts_with("index: "), "{:?}", trace.damage());
    assert_eq!(trace.chunks(), chunks, "scanned instead");
}
