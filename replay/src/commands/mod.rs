//! What was typed becomes a plan here, with the file at hand; each command carries its plan out.

mod compact;
mod dump;
mod fresh_file;
mod inspect;
mod repair;
mod verify;

use std::collections::BTreeSet;
use std::io::{self, BufWriter, Write};

use anyhow::{Context, Result, bail};
use ingero_format::Trace;
use ingero_format::catalog::Kind;
use ingero_replay::program::{Ending, FAILED, one_line, with_causes};
use ingero_replay::{Processes, Window};

use crate::args::{Command, DumpArgs, Typed};
use crate::wording::count;

/// Does what was typed.
pub(crate) fn run(typed: Typed) -> Result<Ending> {
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let ending = match typed.command {
        Command::Dump(args) => {
            let trace = Trace::open(&args.file.file)?;
            dump::run(&plan_dump(&trace, &args)?, &mut out)?
        }
        Command::Compact(args) => compact::run(&Trace::open(&args.file.file)?, &args, &mut out)?,
        Command::Inspect(args) => inspect::run(&Trace::open(&args.file)?, &mut out)?,
        Command::Verify(args) => match Trace::open(&args.file) {
            Ok(trace) => verify::run(&trace, &mut out)?,
            // This is the verdict, not a failure to reach one.
            Err(error) => Ending::Noted { note: unopened(error), status: verify::NOT_WHOLE },
        },
        Command::Repair(args) => repair::run(&Trace::open(&args.file.file)?, &args.output, args.force, &mut out)?,
    };
    out.flush().context("cannot write")?;
    Ok(ending)
}

/// Why a file could not be opened, without the advice to run `verify`.
fn unopened(error: ingero_format::Error) -> String {
    match error {
        ingero_format::Error::Corrupt { what, offset, problem } => {
            format!("{what} at offset {offset:#x}: {problem}; nothing of the file can be read")
        }
        other => with_causes(&other),
    }
}

fn plan_dump<'t>(trace: &'t Trace, args: &DumpArgs) -> Result<dump::Plan<'t>> {
    let window = Window::parse(trace, args.from.as_deref(), args.to.as_deref(), args.since.as_deref())
        .map_err(anyhow::Error::msg)?;
    let begins = args.from.is_some() || args.since.is_some();
    let processes = Processes::new(trace);
    Ok(dump::Plan {
        trace,
        start_ns: window.trace_start_ns,
        // What describes the recording may stand before its start: unless a range is asked for, it is
        // shown.
        from_ns: if begins { window.from_ns } else { 0 },
        to_ns: args.to.is_some().then_some(window.to_ns),
        kinds: wanted_kinds(trace, &args.only)?,
        tasks: wanted_tasks(trace, &processes, &args.pid)?,
        processes,
        format: args.format,
    })
}

fn wanted_kinds(trace: &Trace, only: &[String]) -> Result<Option<BTreeSet<u16>>> {
    let named = |name: &String| {
        let kind = trace.schema().iter().find(|k| k.name == *name);
        kind.map(|k| k.number).with_context(|| {
            let known: Vec<&str> = trace.schema().iter().map(|k| k.name.as_str()).collect();
            format!("no kind of event is called {name:?} in {}; known are {}", trace.path(), known.join(", "))
        })
    };
    if only.is_empty() { Ok(None) } else { only.iter().map(named).collect::<Result<_>>().map(Some) }
}

/// The tasks of the asked-for processes, as a table by task.
fn wanted_tasks(trace: &Trace, processes: &Processes, pids: &[u32]) -> Result<Option<Vec<bool>>> {
    if pids.is_empty() {
        return Ok(None);
    }
    let mut wanted = vec![false; trace.tasks().len()];
    for &pid in pids {
        let lives = processes.with_pid(pid);
        if lives.is_empty() {
            let path = trace.path();
            match trace.tasks().iter().find(|t| t.tid == pid && t.tid != 0) {
                Some(thread) => bail!("{pid} is a thread of process {} in {path}; use --pid {0}", thread.pid),
                None => bail!("no process {pid} in {path}; ingero-replay dump --only process {path} lists them"),
            }
        }
        for task in lives.iter().flat_map(|&life| &processes.get(life).threads) {
            if let Some(w) = wanted.get_mut(task.index()) {
                *w = true;
            }
        }
    }
    Ok(Some(wanted))
}

/// What has to be said of output that was made of a file with parts missing.
fn incomplete(trace: &Trace, lost_blocks: usize, lost_events: u64) -> Ending {
    if trace.complete() && trace.damage().is_empty() && lost_blocks == 0 {
        return Ending::Done;
    }
    let mut parts = Vec::new();
    if !trace.complete() {
        parts.push("the recording was cut off before its end".to_owned());
    }
    if !trace.damage().is_empty() {
        parts.push(count(trace.damage().len() as u64, "damaged part"));
    }
    if lost_blocks > 0 {
        let blocks = count(lost_blocks as u64, "unreadable block");
        parts.push(format!("{blocks} with {}", count(lost_events, "event")));
    }
    let path = trace.path();
    let note = format!("{path}: {}; what is whole was shown, ingero-replay verify {path} says more", parts.join(", "));
    Ending::Noted { note, status: FAILED }
}

/// Name of a loss's cause, as the file has it.
fn cause(trace: &Trace, cause: u64) -> String {
    let column = trace
        .schema()
        .iter()
        .find(|k| k.kind() == Some(Kind::Loss))
        .and_then(|k| k.columns.iter().find(|c| c.name == "cause"));
    let name = column.and_then(|c| c.name_of(cause));
    name.map_or_else(|| format!("cause {cause}"), one_line)
}
