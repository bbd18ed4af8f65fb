//! What is fed, and what must hold whatever it is fed.

mod codec;
mod convert;
mod imports;
mod pyramid;
mod reading;
mod rewriting;

use std::fs::File;
use std::io::Write;

use ingero_format::layout::{MAX_COLUMNS, MAX_PAYLOAD, MAX_ROWS};
use ingero_format::{Batch, Error, IndexEntry, Trace};

use crate::dice::Dice;
use crate::memory;
use crate::recording::Seed;
use crate::seeds::Seeds;

/// Events of one input that are walked at most: so many that all of a real seed are.
const EVENTS_AT_MOST: u64 = 2_000_000;
/// What reading one block may take, whatever is in it: its columns, its payload, and room to work in.
pub(crate) const BLOCK_LIMIT: usize = MAX_COLUMNS * MAX_ROWS * 8 + MAX_PAYLOAD + (64 << 20);

/// Runs one input; what it says is a broken promise. Returns how much could be read.
pub(crate) type Run = Box<dyn Fn(&Seeds, &mut Dice) -> Result<u64, String>>;

/// All targets by name, those of the codecs as the seeds have them.
pub(crate) fn all(seeds: &Seeds) -> Vec<(String, Run)> {
    type Plain = fn(&Seeds, &mut Dice) -> Result<u64, String>;
    let plain: [(&str, Plain); 26] = [
        ("reader", reading::reader),
        ("schema", reading::schema),
        ("meta", reading::meta),
        ("strings", reading::strings),
        ("tasks", reading::tasks),
        ("functions", reading::functions),
        ("headers", reading::headers),
        ("index", reading::index),
        ("footer", reading::footer),
        ("merge", reading::merge),
        ("analyze", reading::analyze),
        ("pyramid", pyramid::pyramid),
        ("columns", codec::columns),
        ("bombs", codec::bombs),
        ("repair", rewriting::repair),
        ("compact", rewriting::compact),
        ("chrome", convert::chrome),
        ("sqlite", convert::sqlite),
        ("ingero", convert::ingero),
        ("ftrace", convert::ftrace),
        ("database", imports::database),
        ("profile", imports::profile),
        ("perf-data", imports::perf_data),
        ("xz", convert::xz),
        ("gz", convert::gz),
        ("zst", convert::zst),
    ];
    let plain = plain.into_iter().map(|(name, run)| (name.to_owned(), Box::new(run) as Run));
    let codecs = seeds.codes().into_iter().map(|code| {
        let wanted = code.to_owned();
        let run: Run = Box::new(move |seeds, dice| codec::codec(seeds, &wanted, dice));
        (format!("codec-{code}"), run)
    });
    plain.chain(codecs).collect()
}

fn opened(seeds: &Seeds, bytes: &[u8]) -> Option<Trace> {
    let path = seeds.folder.path().join("input.igt");
    File::create(&path).and_then(|mut f| f.write_all(bytes)).ok()?;
    Trace::open(&path).ok()
}

fn any<'s>(seeds: &'s Seeds, dice: &mut Dice) -> &'s Seed {
    &seeds.recordings[dice.below(seeds.recordings.len())]
}

fn changed(seeds: &Seeds, dice: &mut Dice) -> Vec<u8> {
    any(seeds, dice).change(dice)
}

/// Reads a block, within the memory that one block may take.
fn read_block(
    trace: &Trace,
    block: &IndexEntry,
    batch: &mut Batch,
    only: Option<&[u8]>,
) -> Result<Result<(), Error>, String> {
    let (read, peak) = memory::peak_of(|| trace.read_block(block, batch, only));
    if peak > BLOCK_LIMIT {
        return Err(format!("block {} took {} MiB, more than {} MiB", block.header.seq, peak >> 20, BLOCK_LIMIT >> 20));
    }
    if read.is_err() && batch.rows() != 0 {
        return Err("a block that cannot be read left rows behind".to_owned());
    }
    Ok(read)
}
