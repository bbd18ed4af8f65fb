//! What a large file costs: writes one by repeating a recording, opens a range of it, reads all of it,
//! and says how long that took and how much memory.
//!
//!     cargo run --release -p ingero-benches --bin large -- benches/data/mixed.igt 1 /tmp/large.igt
//!
//! The sizes are in GB. The file is left in place; `benches/large` deletes it.

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Parser;
use ingero_benches::Recording;
use ingero_format::{Batch, Trace, WriterOptions};
use ingero_replay::Merge;

/// Write a large file and read it.
#[derive(Parser)]
struct Typed {
    /// The recording to repeat.
    file: PathBuf,
    /// Size of the large file, GB.
    size_gb: f64,
    /// The large file; read as it is where it exists.
    large: PathBuf,
    /// Pass through all events in the order of their times, too.
    #[arg(long)]
    merge: bool,
}

/// Most memory that this process ever held, MiB.
fn peak_mib() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).context("no VmHWM in /proc/self/status")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse::<u64>()? / 1024)
}

fn write(typed: &Typed) -> Result<()> {
    let recording = Recording::load(&typed.file)?;
    let first = recording.events.first().context("the recording is empty")?.ts_ns;
    let length = recording.events.last().map_or(0, |e| e.ts_ns) - first + 1_000;
    let out = std::io::BufWriter::with_capacity(1 << 20, std::fs::File::create(&typed.large)?);
    let mut writer = recording.writer(out, WriterOptions::default())?;
    let mut shift = 0;
    while (writer.bytes_written() as f64) < typed.size_gb * 1e9 {
        for event in &recording.events {
            writer.push_any(event.ts_ns + shift, event.cpu, &event.body)?;
        }
        shift += length;
        writer.tick(first + shift)?;
    }
    writer.finish()?;
    Ok(())
}

fn main() -> Result<()> {
    let typed = Typed::parse();
    if !typed.large.exists() {
        // The writer's memory is not the reader's: it has a process of its own.
        write(&typed)?;
        println!("written; run again to read");
        return Ok(());
    }
    let began = Instant::now();
    let trace = Trace::open(&typed.large)?;
    let opened = began.elapsed();
    let blocks = trace.blocks();
    println!(
        "{}: {:.2} GB, {} blocks; open {:.2} ms",
        trace.path(),
        trace.len_bytes() as f64 / 1e9,
        blocks.len(),
        opened.as_secs_f64() * 1e3
    );
    let (start, end) = trace.span_ns().context("no events")?;
    let mut times = Vec::new();
    for part in 1..20 {
        let from = start + (end - start) / 20 * part;
        let began = Instant::now();
        let trace = Trace::open(&typed.large)?;
        let first = Merge::new(&trace).within(from, from + 1_000_000).find(|e| e.ts_ns >= from);
        times.push((began.elapsed().as_secs_f64() * 1e3, first.is_some()));
    }
    times.sort_by(|a, b| a.0.total_cmp(&b.0));
    println!(
        "open and first event of a range: median {:.2} ms, worst {:.2} ms; {} MiB at most so far",
        times[times.len() / 2].0,
        times[times.len() - 1].0,
        peak_mib()?
    );
    let began = Instant::now();
    let mut batch = Batch::new()?;
    let mut rows = 0u64;
    for block in blocks {
        trace.read_block(block, &mut batch, None)?;
        rows += batch.rows() as u64;
    }
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "all blocks: {rows} events, {:.1} M events/s; {} MiB at most so far",
        rows as f64 / seconds / 1e6,
        peak_mib()?
    );
    if typed.merge {
        let began = Instant::now();
        let events = Merge::new(&trace).count();
        let seconds = began.elapsed().as_secs_f64();
        println!("in order of time: {:.1} M events/s; {} MiB at most", events as f64 / seconds / 1e6, peak_mib()?);
    }
    Ok(())
}
