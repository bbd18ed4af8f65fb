//! What a thread does at the cursor, in sentences.

use ingero_format::Trace;
use ingero_format::catalog::FuncId;
use ingero_format::one_line;
use ingero_replay::closeup::Moment;
use ingero_replay::pyramid::Cell;
use ingero_replay::scene::{Doing, Queued, Stretch, WokenBy};
use ingero_replay::syscall_name;
use ingero_replay::wording::length;

use crate::rows::Rows;

/// Who had a CPU: so many are named.
const HOLDERS: usize = 2;

/// Name of a function.
pub(crate) fn function(trace: &Trace, func: FuncId) -> String {
    one_line(trace.function(func).map_or("?", |f| &f.symbol))
}

/// How a column's time divides. `exited` is whether the thread had exited before its end: then it is not there in the rest.
pub(crate) fn column(trace: &Trace, cell: &Cell, exited: bool) -> String {
    let mut parts = Vec::new();
    let names = [
        ("ran", cell.running_ns),
        ("could run", cell.runnable_ns),
        ("throttled", cell.throttled_ns),
        ("blocked", cell.blocked_ns),
        ("off the CPUs", cell.off_cpu_ns),
        (if exited { "exited" } else { "not known" }, cell.unknown_ns()),
    ];
    for (name, ns) in names {
        match ns {
            0 => {}
            ns if ns == cell.width_ns => parts.push(format!("{name} all of it")),
            ns => parts.push(format!("{name} {}", length(ns))),
        }
    }
    let mut out = format!("column of {}: {}", length(cell.width_ns), parts.join(", "));
    if let (Some(func), true) = (cell.func, cell.call_ns > 0) {
        out.push_str(&format!("; in calls {}, mostly {}", length(cell.call_ns), function(trace, func)));
    }
    out
}

/// What a thread does at an instant: its state, since when and how long, on whom it waits.
pub(crate) fn state(trace: &Trace, rows: &Rows, moment: &Moment) -> String {
    let Some(stretch) = &moment.stretch else {
        // Its last turn on a CPU ends a little later.
        return match rows.processes.exited_ns(moment.task).filter(|&ns| ns <= moment.at_ns) {
            Some(ns) => format!("has exited, {} before", length(moment.at_ns - ns)),
            None => "what it does here is not known".to_owned(),
        };
    };
    let span = so_far(moment.at_ns, stretch);
    match &stretch.doing {
        Doing::Running { cpu } => {
            let made_up = if stretch.synthesised { "; its switch-in went unreported and was made up" } else { "" };
            let then = if stretch.end_ns.is_some() { "" } else { ", to the end" };
            format!("runs on cpu {cpu} {span}{then}{made_up}")
        }
        Doing::OffCpu => format!("off the CPUs {span}: blocked or waiting for one, the recording does not tell which"),
        Doing::Throttled => format!("held back by its CPU quota {span}"),
        Doing::Blocked { syscall, waker, .. } => {
            let place =
                syscall.map_or_else(String::new, |n| format!("in {} ", syscall_name(ingero_replay::machine(trace), n)));
            match stretch.end_ns {
                Some(end_ns) => format!("blocked {place}{span}, then {}", woken(rows, *waker, end_ns)),
                None => format!("blocked {place}{span}; nothing wakes it before the end"),
            }
        }
        Doing::Runnable { cpu, since, behind } => {
            let queue = cpu.map_or_else(String::new, |cpu| format!(" for cpu {cpu}"));
            let since = match since {
                Queued::Woken(waker) => woken(rows, *waker, stretch.start_ns),
                Queued::Preempted => "was preempted".to_owned(),
                Queued::Born => "is new".to_owned(),
            };
            format!("waits{queue} {span}; {}; {since}", holders(rows, moment, behind))
        }
        Doing::Calling { .. } | Doing::Woke { .. } | Doing::Range { .. } | Doing::Mark { .. } => String::new(),
    }
}

/// Who had the CPU that a thread waits for.
fn holders(rows: &Rows, moment: &Moment, behind: &[(ingero_format::catalog::TaskId, u64)]) -> String {
    if behind.is_empty() {
        return "nobody is known to have that CPU".to_owned();
    }
    let about = if moment.behind_is_exact { "" } else { "about " };
    let named = behind.iter().take(HOLDERS);
    let named: Vec<String> =
        named.map(|&(task, ns)| format!("{} {about}{}", rows.thread_label(task, moment.at_ns), length(ns))).collect();
    let more = match behind.len().saturating_sub(HOLDERS) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    format!("behind {}{more}", named.join(", "))
}

/// The calls that a thread is in, outermost first; empty where it is in none.
pub(crate) fn calls(trace: &Trace, moment: &Moment) -> String {
    let Some(first) = moment.calls.first() else { return String::new() };
    let names: Vec<String> = moment.calls.iter().map(|call| function(trace, call.func)).collect();
    let so_far = length(moment.at_ns.saturating_sub(first.start_ns));
    let in_all = match (first.returned, first.end_ns) {
        (true, Some(end_ns)) => format!(" of {}", length(end_ns.saturating_sub(first.start_ns))),
        _ => ", to the end".to_owned(),
    };
    let failed = match first.result {
        Some(result) if result != 0 => format!(", result {result}"),
        _ => String::new(),
    };
    format!("in {} for {so_far}{in_all}{failed}", names.join(" > "))
}

/// Who ended a block.
fn woken(rows: &Rows, waker: WokenBy, at_ns: u64) -> String {
    waker.sentence(|task| rows.thread_label(task, at_ns))
}

/// How long a state has lasted, and how long it lasts in all.
fn so_far(at_ns: u64, stretch: &Stretch) -> String {
    let so_far = length(at_ns.saturating_sub(stretch.start_ns));
    let least = if stretch.before { "at least " } else { "" };
    match stretch.end_ns {
        Some(end_ns) => format!("for {least}{so_far} of {}", length(end_ns.saturating_sub(stretch.start_ns))),
        None => format!("for {least}{so_far}"),
    }
}
