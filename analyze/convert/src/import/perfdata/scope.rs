//! Of whom and where perf recorded. What it was not asked for is in no file, and no ring says that it is lost.

use std::collections::{BTreeSet, HashSet};

use linux_perf_data::AttributeDescription;
use linux_perf_data::linux_perf_event_reader::{AttrFlags, PerfEventType, SamplingPolicy};

use super::super::ftrace::unasked::Unasked;

/// Bytes of an entry of PERF_RECORD_ID_INDEX: id, place, CPU, thread.
const ENTRY_BYTES: usize = 32;
/// The thread of an event that all threads have.
const EVERYBODY: u64 = u64::MAX;

/// Options of `perf record` that take the next word.
const WITH_VALUE: &[&str] = &[
    "-e",
    "-o",
    "-p",
    "-t",
    "-u",
    "-C",
    "-c",
    "-F",
    "-m",
    "-k",
    "-j",
    "-G",
    "-D",
    "-M",
    "-r",
    "--event",
    "--output",
    "--pid",
    "--tid",
    "--uid",
    "--cpu",
    "--count",
    "--freq",
    "--mmap-pages",
    "--clockid",
    "--call-graph",
    "--cgroup",
    "--delay",
    "--filter",
    "--max-size",
    "--switch-max-files",
    "--realtime",
    "--proc-map-timeout",
    "--control",
    "--user-regs",
];

/// What the file says of what perf was asked to record.
#[derive(Debug, Default)]
pub(super) struct Scope {
    /// Ids of the events that are read.
    ids: HashSet<u64>,
    /// Whether any of them is of some threads alone.
    of_threads: bool,
    /// The CPUs that they are on, where the file lists them.
    cpus: BTreeSet<u64>,
    online: Option<u64>,
    /// Events of which perf took one of several, by name.
    thinned: Vec<String>,
    /// What the command line leaves out, in its words.
    told: Option<(&'static str, bool)>,
}

impl Scope {
    pub(super) fn new(events: &[AttributeDescription], online: Option<u32>, command: &[&str]) -> Self {
        let mut scope = Self { online: online.map(u64::from), told: of_command(command), ..Self::default() };
        for event in events {
            let attributes = event.attributes();
            if !matches!(attributes.type_, PerfEventType::Tracepoint(_)) {
                continue;
            }
            scope.ids.extend(event.ids());
            // It begins with the program that perf started: so it is of that program.
            scope.of_threads |= attributes.flags.contains(AttrFlags::ENABLE_ON_EXEC);
            let all = matches!(attributes.sampling_policy, SamplingPolicy::Period(every) if every.get() == 1);
            if !all {
                scope.thinned.extend(event.name().map(str::to_owned));
            }
        }
        scope
    }

    /// Takes the record that says for which CPU and which thread each id is.
    pub(super) fn index(&mut self, record: &[u8]) {
        for entry in record.get(8..).unwrap_or_default().chunks_exact(ENTRY_BYTES) {
            let word = |at: usize| entry.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes);
            if self.ids.contains(&word(0)) {
                self.cpus.insert(word(16));
                // Threads are told in 32 bits by some.
                self.of_threads |= word(24) != EVERYBODY && word(24) as u32 != u32::MAX;
            }
        }
    }

    /// What is not in the file because perf was not asked for it; none where the file does not say of whom and where it recorded.
    pub(super) fn unasked(&self) -> Option<Vec<Unasked>> {
        let mut all = Vec::new();
        if self.of_threads {
            all.push(Unasked::threads("perf recorded some threads alone"));
        }
        if let Some((why, of_cpus)) = self.told {
            if of_cpus && self.cpus.is_empty() {
                all.push(Unasked::cpus(why.to_owned()));
            } else if !of_cpus && !self.of_threads {
                all.push(Unasked::threads(why));
            }
        }
        if let Some(online) =
            self.online.filter(|&online| !self.cpus.is_empty() && !self.of_threads && (self.cpus.len() as u64) < online)
        {
            all.push(Unasked::cpus(format!("perf recorded {} of {online} CPUs", self.cpus.len())));
        }
        all.extend(self.thinned.iter().map(|event| Unasked::thinned(event)));
        (!self.cpus.is_empty() || !all.is_empty()).then_some(all)
    }
}

/// What the options of a command line restrict, and whether that is CPUs. Newer files say it themselves, but for filters.
fn of_command(command: &[&str]) -> Option<(&'static str, bool)> {
    let at = command.iter().position(|word| *word == "record")?;
    let mut words = command.get(at + 1..)?.iter();
    while let Some(word) = words.next().filter(|word| word.starts_with('-') && **word != "--") {
        let name = word.split_once('=').map_or(*word, |(name, _)| name);
        let short = |letter: &str| name.starts_with(letter) && !name.starts_with("--");
        if ["--filter", "--exclude-perf"].contains(&name) {
            return Some(("perf recorded what its filter lets through alone", false));
        }
        if name == "--cgroup" || short("-G") {
            return Some(("perf recorded some cgroups alone", false));
        }
        if ["--pid", "--tid", "--uid", "--per-thread"].contains(&name) || ["-p", "-t", "-u"].iter().any(|l| short(l)) {
            return Some(("perf recorded some threads alone", false));
        }
        if name == "--cpu" || short("-C") {
            return Some(("perf recorded some CPUs alone", true));
        }
        if WITH_VALUE.contains(word) {
            words.next();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::of_command;

    #[test]
    fn a_command_says_what_it_leaves_out() {
        let of = |command: &str| of_command(&command.split(' ').collect::<Vec<_>>()).map(|(_, of_cpus)| of_cpus);
        assert_eq!(of("perf record -a -e sched:* -- prog -p 7"), None);
        assert_eq!(of("/usr/bin/perf record -q -a -k mono -m 2048 -o x prog --filter y"), None);
        assert_eq!(of("perf record -p 26910 -e sched:*"), Some(false));
        assert_eq!(of("perf record -k mono -t7"), Some(false));
        assert_eq!(of("perf record -a -C 0"), Some(true));
        assert_eq!(of("perf record -a -e sched:sched_switch --filter=prev_pid>7"), Some(false));
        assert_eq!(of("perf record -a -e sched:sched_switch -G pods"), Some(false));
        assert_eq!(of("perf record -e sched:* prog"), None);
        assert_eq!(of("perf"), None);
    }
}
