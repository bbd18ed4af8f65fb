//! Imports of what others made, and what recordings are converted to.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use ingero_convert::export::{Selection, chrome, sqlite};
use ingero_convert::import::{ImportOptions, Imported, ftrace};
use ingero_convert::input::{Input, Progress};
use ingero_format::Trace;
use ingero_replay::{Merge, Timeline};

use super::reading::Longest;
use super::{EVENTS_AT_MOST, changed, opened};
use crate::dice::Dice;
use crate::seeds::Seeds;

/// Converts a changed recording to something.
fn export(seeds: &Seeds, dice: &mut Dice, to: impl Fn(&Trace) -> Result<u64, String>) -> Result<u64, String> {
    let bytes = changed(seeds, dice);
    let Some(trace) = opened(seeds, &bytes) else { return Ok(0) };
    let promised: u64 = trace.blocks().iter().map(|b| u64::from(b.header.rows)).sum();
    if promised > EVENTS_AT_MOST / 10 { Ok(promised) } else { to(&trace) }
}

/// Whatever is in a recording, the JSON is well formed.
pub(super) fn chrome(seeds: &Seeds, dice: &mut Dice) -> Result<u64, String> {
    export(seeds, dice, |trace| {
        let mut out = Vec::new();
        if chrome::export(trace, &Selection::whole(trace), &mut out, &Progress::none()).is_err() {
            return Ok(1);
        }
        serde_json::from_slice::<serde::de::IgnoredAny>(&out).map_err(|e| format!("no JSON: {e}"))?;
        Ok(out.len() as u64)
    })
}

/// A database is made, or a refusal; nothing else stays.
pub(super) fn sqlite(seeds: &Seeds, dice: &mut Dice) -> Result<u64, String> {
    let output = seeds.folder.path().join("output.sqlite");
    export(seeds, dice, |trace| {
        Ok(sqlite::export(trace, &Selection::whole(trace), &output, true, &Progress::none())
            .map_or(1, |done| 1 + done.rows))
    })
}

/// The same in ingero's own layout.
pub(super) fn ingero(seeds: &Seeds, dice: &mut Dice) -> Result<u64, String> {
    let output = seeds.folder.path().join("output.db");
    export(seeds, dice, |trace| {
        let whole = Selection::whole(trace);
        Ok(sqlite::ingero::export(trace, &whole, &output, true, &Progress::none()).map_or(1, |done| 1 + done.rows))
    })
}

/// The header and some lines of a capture, changed.
fn text(seeds: &Seeds, dice: &mut Dice) -> Vec<u8> {
    let text = &seeds.texts[dice.below(seeds.texts.len())];
    let lines: Vec<&[u8]> = text.split_inclusive(|&b| b == b'\n').collect();
    let from = 12.min(lines.len()) + dice.below(lines.len());
    let mut bytes: Vec<u8> = lines.iter().take(12).copied().flatten().copied().collect();
    bytes.extend(lines.iter().skip(from).take(1 + dice.below(200)).copied().flatten());
    for _ in 0..dice.below(4) {
        dice.spoil(&mut bytes);
    }
    bytes
}

/// The import of a text.
pub(super) fn ftrace(seeds: &Seeds, dice: &mut Dice) -> Result<u64, String> {
    let mut bytes = text(seeds, dice);
    if dice.one_in(3) {
        bytes = as_trace_cmd(&bytes);
    }
    import(seeds, &bytes)
}

/// The same lines as `trace-cmd report` prints them: a header of its own, no group, no flags.
fn as_trace_cmd(bytes: &[u8]) -> Vec<u8> {
    let mut out = b"cpus=16\n".to_vec();
    for line in bytes.split_inclusive(|&b| b == b'\n').filter(|l| !l.starts_with(b"#")) {
        let open = line.iter().position(|&b| b == b'(');
        let cpu = line.iter().position(|&b| b == b'[');
        let time = cpu.and_then(|at| line[at..].iter().position(|&b| b == b']').map(|n| at + n + 1));
        let (Some(cpu), Some(time)) = (cpu, time) else {
            out.extend(line);
            continue;
        };
        out.extend(&line[..open.filter(|&at| at < cpu).unwrap_or(cpu)]);
        out.extend(&line[cpu..time]);
        // Flags stand between the CPU and the time.
        let flags = line[time..].iter().take_while(|&&b| b == b' ').count() + 5;
        out.extend(line.get(time + flags..).unwrap_or_default());
    }
    out
}

fn import(seeds: &Seeds, bytes: &[u8]) -> Result<u64, String> {
    let (input, output) = (seeds.folder.path().join("input"), seeds.folder.path().join("output.igt"));
    File::create(&input).and_then(|mut f| f.write_all(bytes)).map_err(|e| e.to_string())?;
    let options = ImportOptions { force: true, keep_going: true, progress: false };
    let imported = |path: &Path| -> Result<Imported, ingero_convert::Error> {
        let input = Input::open(path)?;
        ftrace::import(&input, &output, options)
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

/// A compressed capture, changed after it was compressed.
fn packed(seeds: &Seeds, dice: &mut Dice, pack: impl Fn(&[u8]) -> Option<Vec<u8>>) -> Result<u64, String> {
    let mut bytes = pack(&text(seeds, dice)).ok_or("cannot compress")?;
    // Most of what is changed is found by a checksum at the end: what was read until then counts too.
    if dice.one_in(2) {
        for _ in 0..=dice.below(2) {
            dice.spoil(&mut bytes);
        }
    }
    import(seeds, &bytes)
}

pub(super) fn xz(seeds: &Seeds, dice: &mut Dice) -> Result<u64, String> {
    packed(seeds, dice, |text| {
        let mut out = Vec::new();
        liblzma::read::XzEncoder::new(text, 0).read_to_end(&mut out).ok().map(|_| out)
    })
}

pub(super) fn gz(seeds: &Seeds, dice: &mut Dice) -> Result<u64, String> {
    packed(seeds, dice, |text| {
        let mut out = Vec::new();
        flate2::read::GzEncoder::new(text, flate2::Compression::fast()).read_to_end(&mut out).ok().map(|_| out)
    })
}

pub(super) fn zst(seeds: &Seeds, dice: &mut Dice) -> Result<u64, String> {
    packed(seeds, dice, |text| zstd::bulk::compress(text, 1).ok())
}
