//! Import of the text that the kernel's tracer prints: the `trace` file of tracefs and what
//! `trace-cmd report` makes of a `trace.dat`.
//!
//! What the text cannot tell stays unknown in the file: the wall-clock start, the system call a
//! task blocks in, CPU quota. Events without a table in the format are counted by name in the
//! file's keys (`ignored.NAME`). Where the text has no TGID column and no `task_newtask` events,
//! each thread stands as a process of its own, and the key `threads` says so.

mod call;
pub(super) mod census;
pub(super) mod event;
mod gfp;
mod header;
mod life;
pub(super) mod line;
pub(super) mod pass;
pub(super) mod rows;
mod state;
mod text;
pub(super) mod unasked;

use std::io::{self, BufRead, BufWriter, Read};
use std::path::Path;

use ingero_format::{TraceWriter, WriterOptions};

use super::{ImportOptions, Imported};
use crate::error::Error;
use crate::input::{Input, Progress};
use crate::output::PendingFile;
use census::Census;
use pass::{Pass, Refusal};
use rows::{FileRows, NoRows, Rows};
use unasked::Unasked;

/// Longest line that is read: no event prints more.
const MAX_LINE: u64 = 1 << 16;

/// Imports a text into `output`.
///
/// # Errors
/// [`Error::Line`] for the first line that is no event where `keep_going` is not set,
/// [`Error::Input`] for a text of another kind, [`Error::Exists`], [`Error::Io`] and
/// [`Error::Trace`] for the output.
pub fn import(input: &Input, output: &Path, options: ImportOptions) -> Result<Imported, Error> {
    let pending = PendingFile::create(output, options.force)?;
    let trace = |source| Error::Trace { path: output.to_owned(), source };
    let (_, census) = read(input, Pass::new(NoRows, None), options, "reading", &trace)?;
    if let Some(problem) = unusable(&census) {
        return Err(Error::Input { path: input.path().to_owned(), problem });
    }
    let out = BufWriter::with_capacity(1 << 20, pending.writer()?);
    let mut writer = TraceWriter::new(out, WriterOptions::default()).map_err(trace)?;
    for (key, value) in meta(&census) {
        writer.set_meta(&key, &value);
    }
    let (rows, _) = read(input, Pass::new(FileRows::new(writer), Some(&census)), options, "writing", &trace)?;
    let (_, totals) = rows.writer.finish().map_err(trace)?;
    pending.publish()?;
    Ok(Imported {
        damaged: u64::from(census.cut),
        totals,
        records: census.event_lines,
        unit: "lines",
        notes: notes(&census),
        ignored: census.ignored,
    })
}

/// Runs a pass over the whole text.
fn read<R: Rows>(
    input: &Input,
    mut pass: Pass<'_, R>,
    options: ImportOptions,
    what: &'static str,
    trace: &impl Fn(ingero_format::Error) -> Error,
) -> Result<(R, Census), Error> {
    let path = input.path();
    let progress = if options.progress { Progress::bytes(what, input.len_bytes()?) } else { Progress::none() };
    let mut text = input.text(progress.clone())?;
    let mut line = Vec::new();
    let mut number = 0u64;
    let mut cut = false;
    loop {
        line.clear();
        match (&mut text).take(MAX_LINE).read_until(b'\n', &mut line) {
            Ok(0) => break,
            Ok(_) => {}
            // A compressed text that was cut is read as far as it goes, and its last line is cut too.
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof && number > 0 => cut = true,
            Err(e) => return Err(Error::io(format!("{}, line {}", path.display(), number + 1), e)),
        }
        number += 1;
        let taken = match line.split_last() {
            Some((b'\n', whole)) => pass.line(whole),
            _ if line.len() as u64 >= MAX_LINE => {
                Err(Refusal::Line(format!("the line is longer than {MAX_LINE} bytes")))
            }
            _ => pass.unterminated_line(&line),
        };
        match taken {
            Ok(()) => {}
            Err(Refusal::Trace(source)) => return Err(trace(source)),
            Err(Refusal::Line(_)) if options.keep_going && number > 1 => {
                pass.skip_bad_line();
                skip_rest(&mut text, &line).map_err(|e| Error::io(path.display().to_string(), e))?;
            }
            Err(Refusal::Line(problem)) if pass.is_recognised() => {
                return Err(Error::Line { path: path.to_owned(), line: number, problem, text: excerpt(&line) });
            }
            Err(Refusal::Line(_)) => return Err(not_ftrace(path, &line)),
        }
        if cut {
            break;
        }
    }
    progress.done();
    if !pass.is_recognised() {
        return Err(not_ftrace(path, &line));
    }
    let done = pass.finish(cut).map_err(|refusal| match refusal {
        Refusal::Trace(source) => trace(source),
        Refusal::Line(problem) => Error::Input { path: path.to_owned(), problem },
    });
    done.map(|(rows, census)| (rows, Census { package_cut: cut, ..census }))
}

/// Why a text of the right form tells nothing, or nothing that is true.
fn unusable(census: &Census) -> Option<String> {
    if census.runs_back() {
        return Some(format!(
            "has no times that count on: {} of its {} events come before the one ahead of them on their CPU; print the time of \
             each, not what passed since the one before (without --deltatime)",
            census.backwards, census.event_lines
        ));
    }
    census.nothing_known()
}

/// Reads on to the end of a line that was too long to hold.
fn skip_rest(text: &mut dyn BufRead, line: &[u8]) -> io::Result<()> {
    let mut last = line.last().copied();
    while last.is_some_and(|b| b != b'\n') {
        let held = text.fill_buf()?;
        let end = memchr::memchr(b'\n', held).map_or(held.len(), |at| at + 1);
        last = held.get(..end).and_then(<[u8]>::last).copied();
        text.consume(end);
    }
    Ok(())
}

fn not_ftrace(path: &Path, line: &[u8]) -> Error {
    let problem = format!(
        "is not ftrace text: expected the trace file of tracefs or the output of trace-cmd report or perf script, found {:?}",
        excerpt(line)
    );
    Error::Input { path: path.to_owned(), problem }
}

/// Enough of a line to find it again.
fn excerpt(line: &[u8]) -> String {
    const SHOWN: usize = 160;
    let whole = text::escaped(line.trim_ascii_end());
    match whole.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}…", &whole[..at]),
        None => whole.into_owned(),
    }
}

fn meta(census: &Census) -> Vec<(String, String)> {
    let mut meta = vec![
        ("source".to_owned(), if census.is_perf { "perf script" } else { "ftrace" }.to_owned()),
        ("sampled".to_owned(), "false".to_owned()),
        ("gfp_bits".to_owned(), "by name, numbered as in Linux 6.18".to_owned()),
    ];
    if let Some(cpus) = census.header.cpus {
        meta.push(("cpus".to_owned(), cpus.to_string()));
    }
    let threads = match (census.has_groups, census.groups.unknown()) {
        (_, 0) => "known".to_owned(),
        (true, n) => format!("{n} of unknown process, shown as their own"),
        (false, n) => format!("no TGID column; {n} of unknown process, shown as their own"),
    };
    meta.push(("threads".to_owned(), threads));
    for (name, bit) in &census.own_gfp {
        meta.push((format!("gfp_bit.{name}"), bit.to_string()));
    }
    for (name, count) in &census.ignored {
        meta.push((format!("ignored.{name}"), count.to_string()));
    }
    meta
}

fn notes(census: &Census) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some((held, written)) = census.header.entries {
        if written > held {
            notes.push(format!("{} events were overwritten before the text begins", written - held));
        }
        if census.event_lines < held {
            notes.push(format!("the text has {} of the {held} events that its header counts", census.event_lines));
        }
    }
    if census.package_cut {
        notes.push("the package that the text is in is cut; what is whole of it was imported".to_owned());
    } else if census.cut {
        notes.push("the text ends within a line; what is cut is not imported".to_owned());
    }
    notes.extend(census.unasked.iter().map(Unasked::note));
    if census.bad_lines > 0 {
        notes.push(format!("{} lines could not be read", census.bad_lines));
    }
    if census.event_lines == 0 {
        notes.push("the text has no events".to_owned());
    }
    let unknown = census.groups.unknown();
    if unknown > 0 && !census.has_groups {
        notes.push(format!(
            "the text does not tell the process of {unknown} threads: each stands as a process of its own; \
             record with: echo 1 > options/record-tgid, or print with: perf script -F +pid"
        ));
    }
    notes
}
