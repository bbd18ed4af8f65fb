//! What a pass finds out about a text as a whole.

use std::collections::BTreeMap;

use super::header::Header;
use super::life::Groups;
use super::unasked::Unasked;

/// Name among what is left out of the lines of a stack.
pub(super) const STACK_TRACE: &str = "stack trace";
/// Times that run back once in so many events are those of no clock; of fewer times than this nothing is said.
const RUNS_BACK: u64 = 4;
const FEWEST_BACK: u64 = 4;

/// What a pass found out about the text as a whole.
#[derive(Debug, Default)]
pub(crate) struct Census {
    pub(crate) header: Header,
    pub(crate) groups: Groups,
    /// Lines with an event, those of unknown kinds and bad ones included.
    pub(crate) event_lines: u64,
    /// Events that the format has no place for, by name.
    pub(crate) ignored: BTreeMap<String, u64>,
    /// Lines that could not be read.
    pub(crate) bad_lines: u64,
    /// Whether the text ends within a line.
    pub(crate) cut: bool,
    /// Whether the lines have a TGID column that tells anything.
    pub(crate) has_groups: bool,
    /// Whether `task_rename` was recorded: then every change of a name is.
    pub(crate) has_renames: bool,
    /// Flags of page allocations that this version has no bit for, with the bits they got.
    pub(crate) own_gfp: Vec<(String, u32)>,
    /// Whether `perf script` printed the text.
    pub(crate) is_perf: bool,
    /// First and last instant.
    pub(crate) span_ns: Option<(u64, u64)>,
    /// Events that came at an earlier time than the one before on their CPU.
    pub(crate) backwards: u64,
    /// Whether the text's package is cut.
    pub(crate) package_cut: bool,
    /// What is missing because nobody asked for it.
    pub(crate) unasked: Vec<Unasked>,
}

impl Census {
    /// Why nothing can be made of a text or file, where no event of it is of a kind that is read.
    pub(crate) fn nothing_known(&self) -> Option<String> {
        let ignored = self.ignored.iter().filter(|(name, _)| *name != STACK_TRACE);
        let (names, count) = ignored.fold((Vec::new(), 0u64), |(mut names, sum), (name, count)| {
            names.push(name.as_str());
            (names, sum.saturating_add(*count))
        });
        let read = self.event_lines.saturating_sub(self.bad_lines);
        (read > 0 && count >= read).then(|| {
            const SHOWN: usize = 5;
            let more = if names.len() > SHOWN { ", …" } else { "" };
            format!(
                "has {count} events and none that is read (sched_switch, sched_waking, calls of probed functions, \u{2026}): {}{more}",
                names.get(..SHOWN).unwrap_or(&names).join(", ")
            )
        })
    }

    /// Whether the times are those of no clock: on the CPUs they run back all the way.
    pub(crate) fn runs_back(&self) -> bool {
        self.backwards >= FEWEST_BACK && self.backwards.saturating_mul(RUNS_BACK) > self.event_lines
    }
}
