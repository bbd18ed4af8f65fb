//! `compact`: the same events in a smaller file.

use std::fs::File;
use std::io::{BufWriter, Seek, Write};
use std::path::Path;

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use ingero_format::Trace;
use ingero_format::catalog::Kind;
use ingero_format::one_line;
use ingero_replay::output::PendingFile;
use ingero_replay::program::Ending;
use ingero_replay::recompress;

use super::kinds_called;
use crate::args::CompactArgs;
use ingero_replay::wording::{count, grouped, ratio};

/// Where the smaller file goes.
enum Target {
    File(PendingFile),
    /// Standard output, once it is whole: until then it is kept in a file without a name.
    Out(File),
}

impl Target {
    fn new(args: &CompactArgs) -> Result<Self> {
        if args.output == Path::new("-") {
            return Ok(Self::Out(tempfile::tempfile().context("cannot make a temporary file")?));
        }
        Ok(Self::File(PendingFile::create(&args.output, args.force)?))
    }

    fn writer(&self) -> Result<File> {
        match self {
            Self::File(file) => Ok(file.writer()?),
            Self::Out(file) => file.try_clone().context("cannot write"),
        }
    }
}

/// Whether no block stands before the readings of the clocks, if there are any.
fn clocks_come_first(trace: &Trace) -> bool {
    let is_clock = |kind: u16| kind == Kind::Clock as u16;
    let first = trace.blocks().iter().min_by_key(|block| block.offset);
    first.is_none_or(|block| is_clock(block.header.kind))
        || !trace.blocks().iter().any(|block| is_clock(block.header.kind))
}

pub(super) fn run(trace: &Trace, args: &CompactArgs, out: &mut impl Write) -> Result<Ending> {
    recompress::check(trace)?;
    let without = kinds_called(trace, &args.no)?;
    let target = Target::new(args)?;
    let rows = |left_out: bool| -> u64 {
        let blocks = trace.blocks().iter().filter(|b| without.contains(&b.header.kind) == left_out);
        blocks.map(|b| u64::from(b.header.rows)).sum()
    };
    let (events, left_out) = (rows(false), rows(true));
    let bar = if args.quiet { ProgressBar::hidden() } else { ProgressBar::new(events) };
    if let Ok(style) = ProgressStyle::with_template("compacting {wide_bar} {human_pos}/{human_len} {eta}") {
        bar.set_style(style);
    }
    let mut bytes =
        recompress::rewrite(trace, &without, BufWriter::new(target.writer()?), |done| bar.set_position(done))?;
    bar.finish_and_clear();
    let before = trace.len_bytes();
    // What was compacted already may come out larger by some words. A file with the readings of its clocks behind the rest is written
    // anew all the same: cut off, it would not say when it was.
    let larger = bytes > before && without.is_empty() && clocks_come_first(trace);
    if larger {
        let mut copy = target.writer()?;
        copy.set_len(0)?;
        copy.rewind()?;
        bytes = std::io::copy(&mut File::open(&args.file.file)?, &mut copy)?;
    }
    match target {
        Target::File(file) => file.publish()?,
        Target::Out(mut file) => {
            file.rewind().context("cannot read what was written")?;
            // What is said of it would be taken for a part of it.
            std::io::copy(&mut file, out).context("cannot write")?;
            return Ok(Ending::Done);
        }
    }
    if !args.quiet {
        writeln!(
            out,
            "{}: {}, {} bytes per event (before: {} bytes, {}){}{}",
            one_line(&args.output.display().to_string()),
            count(bytes, "byte"),
            ratio(bytes, events),
            grouped(before),
            ratio(before, events + left_out),
            if left_out > 0 { format!("; {} left out", count(left_out, "event")) } else { String::new() },
            if larger { "; it was as small as it gets: this is a copy" } else { "" }
        )
        .context("cannot write")?;
    }
    Ok(Ending::Done)
}
