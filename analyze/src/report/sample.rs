//! What a sample tells of a phase, in words.

use super::{count, duration};
use crate::figures::PhaseFigures;
use crate::{Bounds, Sample};

/// `43 ms`, or `42.9 to 44.0 ms` where the bounds differ.
fn between(b: Bounds) -> String {
    let (low, high) = (duration(b.at_least), duration(b.at_most));
    match (b.at_least, low == high) {
        (_, true) => low,
        (0, _) => format!("at most {high}"),
        _ => format!("{low} to {high}"),
    }
}

/// What a phase's sample tells, a fact each.
pub(crate) fn sentences(p: &PhaseFigures, s: &Sample) -> Vec<String> {
    let len_ns = p.phase.len_ns();
    let mut out = Vec::new();
    if let Some((f, steps)) = s.faster.zip(s.steps) {
        let times = f.times(len_ns, steps.count);
        out.push(format!(
            "a step took {times:.0} times as long as in phase {}: {} steps in {}, there {} in {}",
            f.phase,
            steps.count,
            duration(len_ns),
            f.steps,
            duration(f.len_ns)
        ));
    }
    if let Some(off) = s.off_cpu_ns {
        let busy = match s.busy_ns(len_ns) {
            Some(ns) if ns > 0 && s.calls_stored > 0 => {
                format!(": busy on its own CPU for at least {} of {}", duration(ns), duration(len_ns))
            }
            _ => String::new(),
        };
        let copies =
            if s.calls_stored > 0 { format!(", all copies took {}", between(s.copies_ns)) } else { String::new() };
        out.push(format!("its main thread was off the CPU for {}{copies}{busy}", between(off)));
    }
    let others = match s.others {
        0 => String::new(),
        n => format!(" (and {n} descendants that may be threads or processes)"),
    };
    match p.phase.workers {
        0 => out.push("no worker lived: none is to blame".to_owned()),
        n => {
            let switches = if s.switches.at_least == s.switches.at_most {
                count(s.switches.at_most)
            } else {
                format!("{} to {}", count(s.switches.at_least), count(s.switches.at_most))
            };
            let plural = if n == 1 { "" } else { "s" };
            out.push(format!("it and its {n} worker{plural}{others} were switched off a CPU {switches} times"));
        }
    }
    if s.calls_stored == 0 {
        out.push(match s.calls_not_stored {
            0 => "no CUDA call is recorded of it".to_owned(),
            n => format!(
                "no CUDA call is recorded of it: of {} that were counted in its minutes and not stored nobody knows when \
                 they were made",
                count(n)
            ),
        });
    }
    out
}
