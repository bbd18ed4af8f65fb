//! Bytes per event: writes a recording anew with some of its event kinds and says what each of them
//! takes.
//!
//!     cargo run --release -p ingero-benches --bin sizes -- run.igt --only sched_switch
//!
//! With `--out` the result is kept. Names of tasks, processes, clocks and the state of the machine
//! come with every recording and stay in.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Result;
use clap::Parser;
use ingero_benches::{Recording, describes};
use ingero_format::catalog::event_kind;
use ingero_format::{Trace, WriterOptions};

/// Say what each event kind of a recording takes.
#[derive(Parser)]
struct Typed {
    /// The recording.
    file: PathBuf,
    /// Only these kinds of events, by name.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Only so many of them.
    #[arg(long)]
    events: Option<usize>,
    /// zstd level.
    #[arg(long, default_value_t = WriterOptions::default().level, allow_hyphen_values = true)]
    level: i32,
    /// Keep the written file here.
    #[arg(long)]
    out: Option<PathBuf>,
}

fn main() -> Result<()> {
    let typed = Typed::parse();
    let mut recording = Recording::load(&typed.file)?;
    let wanted = |name: &str| typed.only.is_empty() || typed.only.iter().any(|n| n == name);
    recording.retain(|k| describes(k) || wanted(event_kind(k).name));
    if let Some(events) = typed.events {
        recording.truncate(events);
    }
    let out = typed.out.unwrap_or_else(|| std::env::temp_dir().join(format!("sizes-{}.igt", std::process::id())));
    let options = WriterOptions { level: typed.level, ..WriterOptions::default() };
    let totals = recording.write(std::fs::File::create(&out)?, options)?.1;
    let trace = Trace::open(&out)?;
    let counted = recording.events.iter().filter(|e| !describes(e.body.kind())).count();
    let _ = writeln!(
        std::io::stdout(),
        "{}: {} bytes, {counted} events, {:.3} bytes per event in all",
        typed.file.display(),
        totals.bytes,
        totals.bytes as f64 / counted.max(1) as f64
    );
    // By kind: rows, bytes of the blocks; by column: bytes.
    let mut kinds: BTreeMap<u16, (u64, u64, BTreeMap<u8, u64>)> = BTreeMap::new();
    let mut blocks = 0;
    for block in trace.blocks() {
        let kind = kinds.entry(block.header.kind).or_default();
        kind.0 += u64::from(block.header.rows);
        kind.1 += block.header.span();
        blocks += block.header.span();
        for column in trace.stored_columns(block)? {
            *kind.2.entry(column.id).or_default() += u64::from(column.len_bytes);
        }
    }
    for (number, (rows, bytes, columns)) in kinds {
        let _ = writeln!(
            std::io::stdout(),
            "  {:<20} {rows:>9} rows {:7.3} B",
            trace.kind_name(number),
            bytes as f64 / rows as f64
        );
        let Some(schema) = trace.kind_schema(number) else { continue };
        for column in schema.columns.iter().filter(|c| columns.get(&c.id).is_some_and(|&b| b > 0)) {
            let _ = writeln!(
                std::io::stdout(),
                "      {:<16} {:24.4}",
                column.name,
                columns[&column.id] as f64 / rows as f64
            );
        }
    }
    let _ = writeln!(std::io::stdout(), "  everything but blocks: {} bytes", totals.bytes - blocks);
    if out.starts_with(std::env::temp_dir())
        && out.file_name().is_some_and(|n| n.to_string_lossy().starts_with("sizes-"))
    {
        std::fs::remove_file(out)?;
    }
    Ok(())
}
