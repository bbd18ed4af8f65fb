//! Events per second through the writer and the reader, one thread, on recorded data.
//!
//! Encoding is everything from [`TraceWriter::push`] to bytes handed to the file; decoding is
//! everything from a file in the page cache to all columns of all blocks.

#![allow(clippy::unwrap_used, reason = "a benchmark ends by panicking")]
#![allow(missing_docs, reason = "criterion's macros")]

use std::io::{Write, sink};
use std::path::Path;
use std::time::Duration;

use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use ingero_benches::{Recording, describes, thread_time};
use ingero_format::catalog::{Body, Event as _, Kind, Switch, TaskId};
use ingero_format::{Batch, Trace, TraceWriter, WriterOptions};

/// Time that this thread had a processor: what others do on the machine meanwhile counts less.
struct ThreadTime;

impl Measurement for ThreadTime {
    type Intermediate = Duration;
    type Value = Duration;
    fn start(&self) -> Duration {
        thread_time()
    }
    fn end(&self, start: Duration) -> Duration {
        self.start() - start
    }
    fn add(&self, a: &Duration, b: &Duration) -> Duration {
        *a + *b
    }
    fn zero(&self) -> Duration {
        Duration::ZERO
    }
    fn to_f64(&self, value: &Duration) -> f64 {
        WallTime.to_f64(value)
    }
    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}

fn load(name: &str) -> Recording {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(name);
    let mut recording = Recording::load(&path).unwrap();
    recording.retain(|k| !describes(k));
    recording
}

const FILES: [&str; 4] = ["messaging-switches.igt", "mixed-switches.igt", "mixed.igt", "cuda.igt"];

/// A switch in 40 bytes, as a recorder's buffer holds it.
#[derive(Clone, Copy)]
struct Record {
    ts_ns: u64,
    cpu: u32,
    prev: u32,
    next: u32,
    prev_state: u32,
    prev_prio: i32,
    next_prio: i32,
    syscall: i32,
    throttled: i32,
}

impl Record {
    fn event(&self) -> Switch {
        let known = |n: i32| u64::try_from(n).ok();
        Switch {
            prev: TaskId(self.prev),
            prev_state: u64::from(self.prev_state),
            prev_prio: known(self.prev_prio),
            next: TaskId(self.next),
            next_prio: known(self.next_prio),
            syscall: known(self.syscall),
            throttled: known(self.throttled),
        }
    }

    fn bytes(&self) -> [u8; 40] {
        let small = [self.cpu, self.prev, self.next, self.prev_state].map(|n| n.to_le_bytes());
        let signed = [self.prev_prio, self.next_prio, self.syscall, self.throttled].map(i32::to_le_bytes);
        let parts = [&self.ts_ns.to_le_bytes()[..], small.as_flattened(), signed.as_flattened()];
        parts.concat().try_into().unwrap()
    }
}

fn switches(recording: &Recording) -> Vec<Record> {
    let number = |n: Option<u64>| n.map_or(-1, |n| i32::try_from(n).unwrap());
    let of = |e: &ingero_replay::Event| match e.body {
        Body::Switch(s) => Some(Record {
            ts_ns: e.ts_ns,
            cpu: e.cpu,
            prev: s.prev.0,
            next: s.next.0,
            prev_state: u32::try_from(s.prev_state).unwrap(),
            prev_prio: number(s.prev_prio),
            next_prio: number(s.next_prio),
            syscall: number(s.syscall),
            throttled: number(s.throttled),
        }),
        _ => None,
    };
    recording.events.iter().filter_map(of).collect()
}

fn encode(c: &mut Criterion<ThreadTime>) {
    let mut group = c.benchmark_group("encode");
    group.sample_size(20);
    for name in &FILES[..2] {
        let recording = load(name);
        let rows = switches(&recording);
        let mut writer = recording.writer(sink(), WriterOptions::default()).unwrap();
        group.throughput(Throughput::Elements(rows.len() as u64));
        group.bench_function(BenchmarkId::new("sched_switch", name), |b| {
            b.iter(|| {
                for row in &rows {
                    writer.push(row.ts_ns, row.cpu, &row.event()).unwrap();
                }
                writer.flush().unwrap();
            });
        });
    }
    for name in &FILES[2..] {
        let recording = load(name);
        let mut writer: TraceWriter<_> = recording.writer(sink(), WriterOptions::default()).unwrap();
        group.throughput(Throughput::Elements(recording.events.len() as u64));
        group.bench_function(BenchmarkId::new("all", name), |b| {
            b.iter(|| {
                for event in &recording.events {
                    writer.push_any(event.ts_ns, event.cpu, &event.body).unwrap();
                }
                writer.flush().unwrap();
            });
        });
    }
    group.finish();
}

fn decode(c: &mut Criterion<ThreadTime>) {
    let mut group = c.benchmark_group("decode");
    group.sample_size(20);
    for name in FILES {
        let recording = load(name);
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut writer = recording.writer(Vec::new(), WriterOptions::default()).unwrap();
        for event in &recording.events {
            writer.push_any(event.ts_ns, event.cpu, &event.body).unwrap();
        }
        file.write_all(&writer.finish().unwrap().0).unwrap();
        let trace = Trace::open(file.path()).unwrap();
        let mut batch = Batch::new().unwrap();
        let mut run = |what: &str, kind: Option<Kind>, only: Option<&[u8]>| {
            let blocks: Vec<_> =
                trace.blocks().iter().filter(|b| kind.is_none_or(|k| b.header.kind == k as u16)).collect();
            let rows: u64 = blocks.iter().map(|b| u64::from(b.header.rows)).sum();
            if rows == 0 {
                return;
            }
            group.throughput(Throughput::Elements(rows));
            group.bench_function(BenchmarkId::new(what, name), |b| {
                b.iter(|| {
                    for block in &blocks {
                        trace.read_block(block, &mut batch, only).unwrap();
                        std::hint::black_box(&batch);
                    }
                });
            });
        };
        run("all", None, None);
        run("sched_switch", Some(Switch::KIND), None);
        run("sched_switch, time and task", Some(Switch::KIND), Some(&[0, 5]));
    }
    group.finish();
}

/// What a row-wise store does with the same events: 40 bytes a row, 64 Ki rows a zstd frame.
fn row_wise(c: &mut Criterion<ThreadTime>) {
    let mut group = c.benchmark_group("row-wise zstd-3");
    group.sample_size(20);
    let recording = load(FILES[0]);
    let bytes: Vec<u8> = switches(&recording).iter().flat_map(Record::bytes).collect();
    let mut compressor = zstd::bulk::Compressor::new(3).unwrap();
    let frames: Vec<(Vec<u8>, usize)> =
        bytes.chunks(40 << 16).map(|rows| (compressor.compress(rows).unwrap(), rows.len())).collect();
    group.throughput(Throughput::Elements(bytes.len() as u64 / 40));
    let mut out = Vec::with_capacity(41 << 16);
    group.bench_function(BenchmarkId::new("encode", FILES[0]), |b| {
        b.iter(|| {
            for rows in bytes.chunks(40 << 16) {
                out.clear();
                compressor.compress_to_buffer(rows, &mut out).unwrap();
            }
        });
    });
    let mut decompressor = zstd::bulk::Decompressor::new().unwrap();
    group.bench_function(BenchmarkId::new("decode", FILES[0]), |b| {
        b.iter(|| {
            for (frame, _) in &frames {
                out.clear();
                decompressor.decompress_to_buffer(frame, &mut out).unwrap();
            }
        });
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().with_measurement(ThreadTime);
    targets = encode, decode, row_wise
}
criterion_main!(benches);
