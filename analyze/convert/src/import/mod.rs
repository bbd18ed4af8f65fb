//! From other formats into `.igt`.

use std::collections::BTreeMap;

use std::io::Write;

use ingero_format::catalog::{LOST_SOURCE, Loss, NO_CPU};
use ingero_format::{Totals, Trace, TraceWriter};
use ingero_replay::{CUT_OFF, DAMAGED, LostBlock, UNKNOWN_KIND};

pub mod ftrace;
pub mod hosts;
pub mod ingero;
pub mod kineto;
pub mod perfdata;

/// How to import.
#[derive(Debug, Clone, Copy, Default)]
pub struct ImportOptions {
    /// Overwrite an output that exists.
    pub force: bool,
    /// Count lines or rows that cannot be read instead of giving up at the first.
    pub keep_going: bool,
    /// Show how far it is.
    pub progress: bool,
}

/// What an import did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// What the file holds.
    pub totals: Totals,
    /// Events of the source: lines, rows or records, those that could not be read included.
    pub records: u64,
    /// What such an event is called: "lines".
    pub unit: &'static str,
    /// Events that the format has no place for, by name.
    pub ignored: BTreeMap<String, u64>,
    /// What whoever reads the file should know, one sentence each.
    pub notes: Vec<String>,
    /// Parts of recordings that could not be read, and their ends that are missing: losses of the file.
    pub damaged: u64,
}

/// What a recording becomes in the file that is made of it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Moved {
    /// Nanoseconds that its times are later.
    pub(crate) shift_ns: u64,
    /// What its CPUs are counted from.
    pub(crate) cpu_base: u32,
    /// Its number, where it becomes one of several.
    pub(crate) host: Option<u64>,
}

/// Tells in the file that is made of a recording what could not be read of it: these blocks, so many chunks of names, what was
/// found damaged when it was opened, and its end. Returns how many parts that are.
pub(crate) fn tell_damage<W: Write>(
    writer: &mut TraceWriter<W>,
    trace: &Trace,
    unread: &[LostBlock],
    names_unread: usize,
    moved: Moved,
) -> Result<u64, ingero_format::Error> {
    // Names and numbers: no event is missing with them.
    let nameless = ingero_replay::findings(trace).iter().filter(|f| f.rows == Some(0)).count() + names_unread;
    let start_ns = trace.span_ns().map_or(0, |(start_ns, _)| start_ns);
    let mut lost = ingero_replay::lost(trace, unread);
    lost.retain(|l| l.cause == DAMAGED || l.cause == CUT_OFF);
    let mut put = |what: &str, count, cpu: Option<u32>, host: Option<u64>, (from_ns, to_ns): (u64, u64)| {
        let probe = writer.string(what);
        let to_ns = to_ns.saturating_add(moved.shift_ns);
        let cpu = cpu.map_or(NO_CPU, |cpu| cpu.saturating_add(moved.cpu_base).min(NO_CPU));
        let of_host = moved.host.or(host);
        let loss = Loss { to_ns, probe, cause: LOST_SOURCE, count, of_host };
        writer.push(from_ns.saturating_add(moved.shift_ns), cpu, &loss)
    };
    for _ in 0..nameless {
        put(UNREAD, Some(0), None, None, (start_ns, start_ns))?;
    }
    for l in &lost {
        let what = match (l.cause, &*l.what) {
            (CUT_OFF, UNKNOWN_KIND) => LATER,
            (_, UNKNOWN_KIND) => UNREAD,
            (_, kind) => kind,
        };
        put(what, l.count, l.cpu, l.host.map(|host| host as u64), (l.from_ns, l.to_ns))?;
    }
    Ok((nameless + lost.len()) as u64)
}

/// What a part of a file is called that holds no events of one kind, or nobody knows of which.
const UNREAD: &str = "unreadable";
/// What came behind the place where a file was cut off.
const LATER: &str = "later";

/// Number of `source-lost` in [`ingero_format::catalog::LOSS_CAUSES`]: lost before this tool saw it.
pub(crate) const CAUSE_SOURCE_LOST: u64 = 7;
/// Number of `seen` in [`ingero_format::catalog::NAME_SOURCES`].
pub(crate) const NAME_SEEN: u64 = 4;
