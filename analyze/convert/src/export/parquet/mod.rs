//! Export to Parquet datasets: one per event kind, and those of what the timeline and the analysis make of them.
//!
//! Recordings of many hosts go into one folder or bucket, each under its host and date, so that an engine that is there
//! already analyses a fleet. `spec/dataset.md` describes the tables.

mod calls;
mod columns;
mod events;
mod indices;
mod place;
mod sink;
mod states;
mod table;
mod tasks;
mod verdicts;
mod words;

use std::path::Path;

use ingero_analyze::Analysis;
use ingero_format::Trace;
use ingero_format::catalog::Kind;
use ingero_replay::{LostBlock, Processes};

use super::selection::Selection;
use crate::error::Error;
use crate::input::Progress;
use place::Place;
use sink::DatasetSink;
use tasks::{Common, Tasks};
use words::Words;

/// Version of the datasets, in every manifest.
pub const DATASET: &str = "ingero-dataset/1";

/// What an export did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Exported {
    /// Files written.
    pub files: u64,
    /// Rows of all of them.
    pub rows: u64,
    /// Their size.
    pub bytes: u64,
    /// Parts of the trace that could not be read.
    pub damaged: u64,
}

/// Adds what is selected of a trace to the datasets in a folder.
///
/// # Errors
/// [`Error::Input`] when this recording is there already and `force` is not set, [`Error::Io`] and [`Error::Parquet`] when
/// the files cannot be written.
pub fn export(
    trace: &Trace,
    selection: &Selection,
    folder: &Path,
    force: bool,
    progress: &Progress,
) -> Result<Exported, Error> {
    let is_new = !folder.exists();
    let done = tables(trace, selection, folder, force, progress);
    if done.is_err() && is_new {
        // Where something is in it by now, somebody else put it there, and it stays.
        let _ = std::fs::remove_dir(folder);
    }
    done.map_err(|e| match e {
        // They are written aside, under a name that means nothing to anybody.
        Error::Parquet { path, source } => {
            Error::Parquet { path: folder.join(path.file_name().unwrap_or_default()), source }
        }
        other => other,
    })
}

fn tables(
    trace: &Trace,
    selection: &Selection,
    folder: &Path,
    force: bool,
    progress: &Progress,
) -> Result<Exported, Error> {
    let processes = Processes::new(trace);
    let words = Words::new(trace);
    let mut place = Place::new(trace, folder, force)?;
    let tasks = Tasks::new(trace, &processes, &words);
    let common = Common { tasks, words: &words, clock: place.clock, run: words.own(&place.run) };
    let mut damaged = trace.damage().len() as u64;
    for kind in trace.all_kinds() {
        // Calls are a table of their own, with where their time went.
        if kind.number != Kind::Call as u16
            && (selection.takes(kind.number) || super::selection::describes(kind.number))
        {
            damaged += events::write(trace, kind, selection, &common, &mut place, progress)?;
        }
    }
    let mut sink = DatasetSink::new(trace, &common, selection, &place, progress)?;
    let analysis = Analysis::beside(trace, selection.window, &mut sink);
    sink.finish(&mut place)?;
    let of_calls = |b: &&LostBlock| b.entry.header.kind == Kind::Call as u16;
    damaged += analysis.repairs.lost_blocks.iter().filter(of_calls).count() as u64;
    verdicts::write(&analysis, selection, &common, &mut place)?;
    let written = place.publish(trace, selection)?;
    progress.done();
    Ok(Exported { damaged, ..written })
}
