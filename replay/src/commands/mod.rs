//! What was typed becomes a plan here, with the file at hand; each command carries its plan out.

mod at;
mod compact;
mod dump;
mod inspect;
mod play;
mod repair;
mod threads;
mod verify;

use std::collections::BTreeSet;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use ingero_format::catalog::Kind;
use ingero_format::{Trace, one_line};
use ingero_replay::output::keep;
use ingero_replay::program::{Ending, FAILED, with_causes};
use ingero_replay::{Processes, Range, Window, parse_before, parse_when};

use crate::args::{Command, DumpArgs, PlayArgs, Typed};
use ingero_replay::wording::count;
use threads::Threads;

/// Does what was typed.
pub(crate) fn run(typed: Typed) -> Result<Ending> {
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let ending = match typed.command {
        Command::Dump(args) => {
            let trace = Trace::open(&args.file.file)?;
            dump::run(&plan_dump(&trace, &args)?, &mut out)?
        }
        Command::Compact(args) => {
            keep(&args.file.file);
            compact::run(&Trace::open(&args.file.file)?, &args, &mut out)?
        }
        Command::Play(args) => {
            let trace = open(&args.file.file)?;
            let (plan, speed) = plan_play(&trace, &args)?;
            play::run(plan, speed, &play::typed_commands(), &mut out)?
        }
        Command::At(args) => {
            let trace = open(&args.file.file)?;
            let at_ns = Window::parse_instant(&trace, &args.time).map_err(anyhow::Error::msg)?;
            let processes = Processes::new(&trace);
            let tasks = wanted_tasks(&trace, &processes, &args.pid)?;
            at::run(&Threads { trace: &trace, processes }, at_ns, tasks, &mut out)?
        }
        Command::Inspect(args) => inspect::run(&Trace::open(&args.file.file)?, args.chunks, &mut out)?,
        Command::Verify(args) => match Trace::open(&args.file) {
            Ok(trace) => verify::run(&trace, &mut out)?,
            // This is the verdict, not a failure to reach one.
            Err(error) => Ending::Noted { note: unopened(error), status: verify::NOT_WHOLE },
        },
        Command::Repair(args) => {
            keep(&args.file.file);
            repair::run(&Trace::open(&args.file.file)?, &args.output, args.force, &mut out)?
        }
    };
    out.flush().context("cannot write")?;
    Ok(ending)
}

/// Opens a recording. Whoever gave a time in its place is told the order.
fn open(path: &Path) -> Result<Trace> {
    Trace::open(path).map_err(|error| {
        let is_time = path.to_str().is_some_and(|text| parse_when(text).is_ok());
        match is_time && !path.exists() {
            true => anyhow!("{}: this is a time and no file; the file comes first, then the time", path.display()),
            false => error.into(),
        }
    })
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
    // What describes the recording may stand before its first event: here, where every row is shown, that is a time like any
    // other.
    let start_ns = Window::whole(trace).trace_start_ns;
    let before_ns = args.range.from.as_deref().and_then(parse_before).map(|ns| start_ns.saturating_sub(ns));
    let range = Range { from: args.range.from.clone().filter(|_| before_ns.is_none()), ..args.range.clone() };
    let window = range.window(trace).map_err(anyhow::Error::msg)?;
    let begins = range.from.is_some() || range.since.is_some();
    let processes = Processes::new(trace);
    Ok(dump::Plan {
        trace,
        start_ns: window.trace_start_ns,
        // Unless a begin is asked for, all is shown.
        from_ns: before_ns.unwrap_or(if begins { window.from_ns } else { 0 }),
        to_ns: args.range.to.is_some().then_some(window.to_ns),
        kinds: wanted_kinds(trace, &args.only)?,
        tasks: wanted_tasks(trace, &processes, &args.pid)?,
        threads: Threads { trace, processes },
        format: args.format,
    })
}

fn plan_play<'t>(trace: &'t Trace, args: &PlayArgs) -> Result<(dump::Plan<'t>, f64)> {
    let window = Window::parse(trace, None, args.to.as_deref(), None).map_err(anyhow::Error::msg)?;
    let at_ns =
        args.at.as_deref().map(|at| Window::parse_instant(trace, at)).transpose().map_err(anyhow::Error::msg)?;
    if let (Some(at_ns), Some(to)) = (at_ns, &args.to)
        && at_ns >= window.to_ns
    {
        let at = args.at.as_deref().unwrap_or_default();
        bail!("nothing lies between --at {at} and --to {to}: the end has to come after the begin");
    }
    let processes = Processes::new(trace);
    let speed = play::parse_speed(&args.speed).map_err(anyhow::Error::msg)?;
    let plan = dump::Plan {
        trace,
        start_ns: window.trace_start_ns,
        from_ns: at_ns.unwrap_or(window.from_ns),
        to_ns: args.to.is_some().then_some(window.to_ns),
        kinds: wanted_kinds(trace, &args.only)?,
        tasks: wanted_tasks(trace, &processes, &args.pid)?,
        threads: Threads { trace, processes },
        format: args.format,
    };
    Ok((plan, speed))
}

fn wanted_kinds(trace: &Trace, only: &[String]) -> Result<Option<BTreeSet<u16>>> {
    if only.is_empty() { Ok(None) } else { kinds_called(trace, only).map(Some) }
}

fn kinds_called(trace: &Trace, names: &[String]) -> Result<BTreeSet<u16>> {
    let number = |name: &String| {
        let kind = trace.all_kinds().iter().find(|k| k.name == *name);
        kind.map(|k| k.number).with_context(|| {
            let known: Vec<&str> = trace.all_kinds().iter().map(|k| k.name.as_str()).collect();
            format!("no kind of event is called {name:?} in {}; known are {}", trace.path(), known.join(", "))
        })
    };
    names.iter().map(number).collect()
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
    let damaged = trace.damage().iter().filter(|d| !d.is_cut).count();
    if damaged > 0 {
        parts.push(count(damaged as u64, "damaged part"));
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
        .all_kinds()
        .iter()
        .find(|k| k.kind() == Some(Kind::Loss))
        .and_then(|k| k.columns.iter().find(|c| c.name == "cause"));
    let name = column.and_then(|c| c.name_of(cause));
    name.map_or_else(|| format!("cause {cause}"), one_line)
}
