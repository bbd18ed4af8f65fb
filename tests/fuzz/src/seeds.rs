//! What inputs are made of: the recordings and captures of the repository, cut to a size that is quick to try.

use std::fs::File;
use std::io::{Read, Write};

use ingero_convert::input::{Input, Progress};
use ingero_format::layout::{CHUNK_BLOCK, TRANSFORM_CONST, TRANSFORM_NAMES};
use ingero_format::{Batch, Trace, TraceWriter, WriterOptions};
use ingero_replay::Merge;

use crate::recording::Seed;

/// Name and bytes of each file.
const FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/seeds.rs"));

/// Events of a recording that are taken.
const EVENTS: usize = 2500;
/// Rows of a block in what is made of them.
const ROWS: usize = 600;
/// Recordings up to this size are taken as they are.
const SMALL_BYTES: usize = 40 << 10;
/// Bytes of a capture that are taken.
const TEXT_BYTES: u64 = 1 << 19;

/// All seeds, and a folder for files.
pub(crate) struct Seeds {
    pub(crate) recordings: Vec<Seed>,
    pub(crate) texts: Vec<Vec<u8>>,
    /// Places of stored columns: recording, part, column; by what encodes them.
    samples: Vec<(String, [usize; 3])>,
    pub(crate) folder: tempfile::TempDir,
}

impl Seeds {
    pub(crate) fn load() -> Result<Self, String> {
        // In memory where there is such a place: a file is written for each input.
        let memory = std::path::Path::new("/dev/shm");
        let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let mut seeds = Self {
            recordings: Vec::new(),
            texts: Vec::new(),
            samples: Vec::new(),
            folder: folder.map_err(|e| e.to_string())?,
        };
        for (name, bytes) in FILES {
            seeds.add(name, bytes).map_err(|e| format!("seed {name}: {e}"))?;
        }
        for (at, seed) in seeds.recordings.iter().enumerate() {
            seeds.samples.extend(seed.columns().map(|(part, column, code)| (code, [at, part, column])));
        }
        if seeds.recordings.len() < 8 || seeds.texts.is_empty() || seeds.samples.is_empty() {
            return Err("there are too few seeds".to_owned());
        }
        Ok(seeds)
    }

    fn add(&mut self, name: &str, bytes: &[u8]) -> Result<(), String> {
        let text = |e: &dyn std::fmt::Display| e.to_string();
        let path = self.folder.path().join(name);
        File::create(&path).and_then(|mut f| f.write_all(bytes)).map_err(|e| text(&e))?;
        if !name.ends_with(".igt") {
            let input = Input::open(&path).map_err(|e| text(&e))?;
            let mut capture = Vec::new();
            let reader = input.text(Progress::none()).map_err(|e| text(&e))?;
            reader.take(TEXT_BYTES).read_to_end(&mut capture).map_err(|e| text(&e))?;
            self.texts.push(capture);
            return Ok(());
        }
        // Of the corpus, what is damaged or refused on purpose begins no input.
        let Ok(trace) = Trace::open(&path) else { return Ok(()) };
        if !is_whole(&trace)? {
            return Ok(());
        }
        if bytes.len() <= SMALL_BYTES {
            return self.add_recording(bytes);
        }
        for thorough in [false, true] {
            let made = cut(&trace, thorough).map_err(|e| text(&e))?;
            self.add_recording(&made)?;
        }
        Ok(())
    }

    fn add_recording(&mut self, bytes: &[u8]) -> Result<(), String> {
        let path = self.folder.path().join("seed.igt");
        let seed = Seed::read(bytes, &path).map_err(|e| e.to_string())?;
        std::fs::write(&path, seed.unchanged()).map_err(|e| e.to_string())?;
        if !is_whole(&Trace::open(&path).map_err(|e| e.to_string())?)? {
            return Err("it does not survive being taken apart".to_owned());
        }
        self.recordings.push(seed);
        Ok(())
    }

    /// Columns that are encoded so.
    pub(crate) fn samples<'s>(&'s self, code: &'s str) -> impl Iterator<Item = [usize; 3]> + 's {
        self.samples.iter().filter(move |(c, _)| c == code).map(|(_, at)| *at)
    }

    /// Every way in which a column is encoded in the seeds: the name of its transform, or of the form of its numbers.
    pub(crate) fn codes(&self) -> std::collections::BTreeSet<&str> {
        self.samples.iter().map(|(code, _)| code.as_str()).collect()
    }
}

/// The names under which a column's encodings are known, from its transform and its first byte.
pub(crate) fn codes(transform: u8, bytes: &[u8]) -> Vec<String> {
    let mut codes = vec![match TRANSFORM_NAMES.get(usize::from(transform)) {
        Some(name) => (*name).to_owned(),
        None => return Vec::new(),
    }];
    // Of these the numbers' form stands first.
    if transform != TRANSFORM_CONST && ["offset", "rise", "step"].contains(&codes[0].as_str()) {
        let form = match bytes.first() {
            Some(0..=8) => "planes",
            Some(17..=20) => "scaled",
            Some(32) => "pco",
            _ => return codes,
        };
        codes.push(form.to_owned());
    }
    codes
}

fn is_whole(trace: &Trace) -> Result<bool, String> {
    let mut batch = Batch::new().map_err(|e| e.to_string())?;
    let readable = trace.blocks().iter().all(|b| trace.read_block(b, &mut batch, None).is_ok());
    let blocks = trace.chunks().iter().filter(|c| c.header.chunk_type == CHUNK_BLOCK).count();
    Ok(trace.complete() && trace.damage().is_empty() && readable && blocks == trace.blocks().len())
}

/// The first events of a recording.
fn cut(trace: &Trace, thorough: bool) -> Result<Vec<u8>, ingero_format::Error> {
    let level = if thorough { 19 } else { 1 };
    let mut writer =
        TraceWriter::new(Vec::new(), WriterOptions { seal_rows: ROWS, thorough, level, ..WriterOptions::default() })?;
    for (key, value) in trace.meta_entries() {
        writer.set_meta(key, value);
    }
    trace.strings().iter().skip(1).for_each(|text| _ = writer.string(text));
    trace.tasks().iter().skip(1).for_each(|&task| _ = writer.task(task));
    trace.functions().iter().for_each(|function| _ = writer.function(function.clone()));
    for event in Merge::new(trace).take(EVENTS) {
        writer.push_any(event.ts_ns, event.cpu, &event.body)?;
    }
    Ok(writer.finish()?.0)
}
