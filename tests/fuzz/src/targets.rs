//! What is fed, and what must hold whatever it is fed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use ingero_format::catalog::{EVENTS, Event};
use ingero_format::{Batch, ChunkCopy, Error, FunctionInfo, Task, Trace, TraceWriter, WriterOptions};
use ingero_replay::{CallSpan, Merge, Sink, Timeline};

use crate::dice::Dice;
use crate::recording::Seed;

/// Events of one input that are walked at most: so many that all of a real seed are.
const EVENTS_AT_MOST: u64 = 2_000_000;

pub(crate) struct Seeds {
    pub(crate) recordings: Vec<Seed>,
    pub(crate) texts: Vec<Vec<u8>>,
    pub(crate) folder: tempfile::TempDir,
}

/// Runs one input; what it says is a broken promise. Returns how much could be read.
pub(crate) type Target = fn(&Seeds, &mut Dice) -> Result<u64, String>;

pub(crate) const TARGETS: &[(&str, Target)] =
    &[("reader", reader), ("repair", repair), ("columns", columns), ("ftrace", ftrace)];

fn opened(seeds: &Seeds, bytes: &[u8]) -> Option<Trace> {
    let path = seeds.folder.path().join("input.igt");
    File::create(&path).and_then(|mut f| f.write_all(bytes)).ok()?;
    Trace::open(&path).ok()
}

#[derive(Default)]
struct Longest(u64);

impl Sink for Longest {
    fn call(&mut self, span: &CallSpan) {
        self.0 = self.0.max(span.dur_ns());
    }
}

fn changed(seeds: &Seeds, dice: &mut Dice) -> Vec<u8> {
    let seed = &seeds.recordings[dice.below(seeds.recordings.len())];
    seed.change(dice)
}

/// Everything that reads a recording.
fn reader(seeds: &Seeds, dice: &mut Dice) -> Result<u64, String> {
    let bytes = changed(seeds, dice);
    let Some(trace) = opened(seeds, &bytes) else { return Ok(0) };
    let mut batch = Batch::new().map_err(|e| e.to_string())?;
    let mut rows = 0;
    for c in trace.chunks() {
        let _ = trace.check_chunk(c);
    }
    for b in trace.blocks() {
        let _ = trace.stored_columns(b);
        let _ = trace.read_block(b, &mut batch, Some(&[3, 5]));
        if trace.read_block(b, &mut batch, None).is_ok() {
            rows += batch.rows() as u64;
            for c in trace.kind_schema(b.header.kind).iter().flat_map(|k| &k.columns) {
                if let Some(&word) = batch.column(c.id).and_then(<[u64]>::last) {
                    let _ = trace.show(c, word);
                }
            }
        } else if batch.rows() != 0 {
            return Err("a block that cannot be read left rows behind".to_owned());
        }
    }
    if rows > EVENTS_AT_MOST {
        return Ok(rows);
    }
    // In order only where the headers tell the truth, which verify finds out.
    Merge::new(&trace).for_each(drop);
    Timeline::new(&trace).run(&mut Longest::default());
    Ok(rows)
}

/// What repair makes of anything is whole, and has every row that could be read.
fn repair(seeds: &Seeds, dice: &mut Dice) -> Result<u64, String> {
    let bytes = changed(seeds, dice);
    let Some(trace) = opened(seeds, &bytes) else { return Ok(0) };
    let mut copy = ChunkCopy::new(&trace, Vec::new(), WriterOptions::default()).map_err(|e| e.to_string())?;
    let (mut kept, mut rows) = (Vec::new(), 0);
    for chunk in trace.chunks() {
        match copy.take(chunk) {
            Ok(()) => kept.push(chunk),
            Err(Error::Corrupt { .. }) => {}
            Err(other) => return Err(other.to_string()),
        }
    }
    let whole = copy.into_writer().and_then(TraceWriter::finish).map_err(|e| e.to_string())?.0;
    let mended = opened(seeds, &whole).ok_or("what was repaired does not open")?;
    if !mended.complete() || !mended.damage().is_empty() {
        return Err(format!("what was repaired is damaged: {:?}", mended.damage().first()));
    }
    let mut batch = Batch::new().map_err(|e| e.to_string())?;
    for c in mended.chunks() {
        mended.check_chunk(c).map_err(|e| format!("repaired: {e}"))?;
    }
    for b in mended.blocks() {
        match mended.read_block(b, &mut batch, None) {
            Ok(()) => rows += batch.rows() as u64,
            // Kept for a later version that knows the transform.
            Err(_) if later(&mended, b) => {}
            Err(e) => return Err(format!("repaired: {e}")),
        }
    }
    let due = kept.iter().filter(|c| c.header.chunk_type == ingero_format::layout::CHUNK_BLOCK).count();
    if due != mended.blocks().len() {
        return Err(format!("{due} blocks were kept, {} are there", mended.blocks().len()));
    }
    Ok(rows)
}

fn later(trace: &Trace, block: &ingero_format::IndexEntry) -> bool {
    let known = |transform| usize::from(transform) < ingero_format::layout::TRANSFORM_NAMES.len();
    trace.stored_columns(block).is_ok_and(|columns| columns.iter().any(|c| !known(c.transform)))
}

/// Whatever words go into the columns of any kind come out again.
fn columns(seeds: &Seeds, dice: &mut Dice) -> Result<u64, String> {
    let options = WriterOptions { seal_rows: 1 + dice.below(3000), ..WriterOptions::default() };
    let mut writer = TraceWriter::new(Vec::new(), options).map_err(|e| e.to_string())?;
    let _ = writer.task(Task { pid: 1, tid: 1, start_ns: None });
    let _ = writer.function(FunctionInfo {
        symbol: "cuX".into(),
        layer: ingero_format::catalog::Layer::Driver,
        class: ingero_format::catalog::Class::Sync,
    });
    let mut given = BTreeMap::new();
    let at = dice.below(EVENTS.len());
    let rows = 1 + dice.below(4000);
    macro_rules! push {
        ($($kind:ident)*) => {
            match at { $(_ if EVENTS[at].kind == ingero_format::catalog::Kind::$kind => {
                push_rows::<ingero_format::catalog::$kind, _>(&mut writer, dice, rows, &mut given)?;
            })* _ => {} }
        };
    }
    push!(Switch Waking Wakeup WakeupNew Fork Exec Exit PageAlloc Call Name Process Loss Clock System BlockIssue BlockComplete);
    let bytes = writer.finish().map_err(|e| e.to_string())?.0;
    let trace = opened(seeds, &bytes).ok_or("what was written does not open")?;
    let mut batch = Batch::new().map_err(|e| e.to_string())?;
    let mut found = BTreeMap::new();
    let kind = &EVENTS[at];
    for b in trace.blocks() {
        trace.read_block(b, &mut batch, None).map_err(|e| e.to_string())?;
        for row in 0..batch.rows() {
            let word = |id| batch.column(id).and_then(|c| c.get(row)).copied().unwrap_or_default();
            let words: Vec<u64> = kind.columns.iter().map(|c| word(c.id)).collect();
            *found.entry(words).or_insert(0) += 1;
        }
    }
    if given == found { Ok(rows as u64) } else { Err(format!("{} came out as something else", kind.name)) }
}

type Rows = BTreeMap<Vec<u64>, u64>;

fn push_rows<E: Event, W: Write>(
    writer: &mut TraceWriter<W>,
    dice: &mut Dice,
    rows: usize,
    given: &mut Rows,
) -> Result<(), String> {
    // How each column goes: anything, few values, constant, rising, or what another column held before.
    let width = E::WIDTH;
    let habits: Vec<usize> = (0..width).map(|_| dice.below(6)).collect();
    let few: Vec<u64> = (0..5).map(|_| dice.any_word()).collect();
    let mut last: Vec<u64> = (0..width).map(|_| dice.any_word()).collect();
    let cpus = 1 + dice.below(4);
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
        }
        row[1] = dice.below(cpus) as u64;
        let event = E::gather(|i| row[i]);
        let (ts_ns, cpu) = (row[0], u32::try_from(row[1]).unwrap_or(0));
        // What a typed event makes of the words: ids have 32 bits.
        row = event.row(ts_ns, cpu).as_ref().to_vec();
        *given.entry(row.clone()).or_insert(0) += 1;
        writer.push(ts_ns, cpu, &event).map_err(|e| e.to_string())?;
        last = row;
    }
    Ok(())
}

/// The import of a text.
fn ftrace(seeds: &Seeds, dice: &mut Dice) -> Result<u64, String> {
    let text = &seeds.texts[dice.below(seeds.texts.len())];
    // The header and some of the lines.
    let lines: Vec<&[u8]> = text.split_inclusive(|&b| b == b'\n').collect();
    let from = 12.min(lines.len()) + dice.below(lines.len());
    let mut bytes: Vec<u8> = lines.iter().take(12).copied().flatten().copied().collect();
    bytes.extend(lines.iter().skip(from).take(1 + dice.below(200)).copied().flatten());
    for _ in 0..dice.below(4) {
        dice.spoil(&mut bytes);
    }
    let (input, output) = (seeds.folder.path().join("input.txt"), seeds.folder.path().join("output.igt"));
    File::create(&input).and_then(|mut f| f.write_all(&bytes)).map_err(|e| e.to_string())?;
    let options = ingero_convert::import::ftrace::ImportOptions { force: true, keep_going: true, progress: false };
    let imported = |path: &Path| {
        let input = ingero_convert::input::Input::open(path)?;
        ingero_convert::import::ftrace::import(&input, &output, options)
    };
    let Ok(done) = imported(&input) else { return Ok(0) };
    let trace = Trace::open(&output).map_err(|e| format!("what was imported does not open: {e}"))?;
    let rows = Merge::new(&trace).count() as u64;
    if !trace.complete() || rows > done.totals.events {
        return Err(format!("{rows} rows of {}", done.totals.events));
    }
    Timeline::new(&trace).run(&mut Longest::default());
    Ok(rows)
}
