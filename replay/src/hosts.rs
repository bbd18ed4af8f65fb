//! The hosts of a merged recording, as it describes them: `host.0.host`, `host.0.pid_base` and so on.

use ingero_format::Trace;
use ingero_format::catalog::{NO_CPU, TaskId};
use ingero_format::layout::CPU_SEVERAL;

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Its name, with its number where another has the same one.
    pub label: String,
    /// Its CPUs begin there.
    cpu_base: Option<u32>,
    /// Its process ids begin there.
    pid_base: Option<u32>,
    /// Begin and end of its recording, as far as they are known.
    pub span_ns: (u64, u64),
    /// What its times are wrong by at most, seen from its own wall clock.
    pub uncertainty_ns: u64,
    /// Whether its source kept a sample of the events only.
    pub sampled: bool,
    /// Bytes of a page of its memory, where it says so.
    page_bytes: Option<u64>,
}

/// The machine that a recording is of, as `uname -m` has it: of several hosts that of all of which it is known.
#[must_use]
pub fn machine(trace: &Trace) -> Option<&str> {
    let of_hosts = || {
        let known = || (0..Hosts::new(trace).count()).filter_map(|n| trace.meta(&format!("host.{n}.machine")));
        known().next().filter(|first| known().all(|other| other == *first))
    };
    trace.meta("machine").or_else(of_hosts)
}

/// All of them, in order; none of a recording that is of one host alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hosts(Vec<Host>);

impl Hosts {
    /// The hosts of a recording.
    #[must_use]
    pub fn new(trace: &Trace) -> Self {
        let host = |n: usize| {
            let own = |key: &str| trace.meta(&format!("host.{n}.{key}"));
            let base = |key: &str| own(key).and_then(|text| text.parse().ok());
            let time = |key: &str| own(key).and_then(|text| text.parse::<u64>().ok());
            let (cpu_base, pid_base) = (base("cpu_base"), base("pid_base"));
            (cpu_base.is_some() || pid_base.is_some()).then(|| Host {
                // Where all have one name, it is the file's.
                label: own("host").or_else(|| trace.meta("host")).map_or_else(|| format!("host {n}"), str::to_owned),
                cpu_base,
                pid_base,
                span_ns: time("start_ns").zip(time("end_ns")).unwrap_or((0, u64::MAX)),
                // Of what nobody can read nothing is known.
                uncertainty_ns: time("uncertainty_ns").unwrap_or(u64::MAX),
                sampled: own("sampled") == Some("true"),
                page_bytes: time("page_size").filter(|&bytes| bytes > 0),
            })
        };
        let mut hosts: Vec<Host> = (0..).map_while(host).collect();
        // Two recordings of one host are told apart by their numbers.
        let names: Vec<String> = hosts.iter().map(|host| host.label.clone()).collect();
        for (n, host) in hosts.iter_mut().enumerate() {
            if names.iter().filter(|name| **name == host.label).count() > 1 {
                host.label = format!("{} ({n})", host.label);
            }
        }
        Self(hosts)
    }

    /// How many there are: at least one.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len().max(1)
    }

    /// Whether the file holds the recordings of several.
    #[must_use]
    pub fn are_several(&self) -> bool {
        self.0.len() > 1
    }

    /// What is said of one; nothing in a recording of one host alone.
    #[must_use]
    pub fn get(&self, host: usize) -> Option<&Host> {
        self.0.get(host)
    }

    /// By host: whether its source kept a sample of the events only.
    #[must_use]
    pub fn sampled(&self, trace: &Trace) -> Vec<bool> {
        // Of one host the file says it; of several each has its own word.
        let all = trace.meta("sampled") == Some("true");
        (0..self.count()).map(|host| self.get(host).map_or(all, |host| host.sampled)).collect()
    }

    /// Where the CPUs of each begin, in order.
    #[must_use]
    pub fn cpu_bases(&self) -> Vec<u32> {
        let mut bases: Vec<u32> = self.0.iter().filter_map(|host| host.cpu_base).collect();
        bases.sort_unstable();
        bases
    }

    /// The host of a CPU; 0 in a recording of one.
    #[must_use]
    pub fn of_cpu(&self, cpu: u32) -> usize {
        self.0.iter().rposition(|host| host.cpu_base.is_some_and(|base| base <= cpu)).unwrap_or(0)
    }

    /// The host of a block by the CPU in its head; none where that tells no CPU, and in a recording of one.
    #[must_use]
    pub(crate) fn of_block(&self, cpu: u32) -> Option<usize> {
        (self.are_several() && cpu != NO_CPU && cpu != CPU_SEVERAL).then(|| self.of_cpu(cpu))
    }

    /// The host of a process; 0 in a recording of one.
    #[must_use]
    pub fn of_pid(&self, pid: u32) -> usize {
        self.0.iter().rposition(|host| host.pid_base.is_some_and(|base| base <= pid)).unwrap_or(0)
    }

    /// The host of a thread; 0 in a recording of one. The idle task is on every CPU and has none.
    #[must_use]
    pub fn of_task(&self, trace: &Trace, task: TaskId) -> usize {
        if self.are_several() { self.of_pid(trace.task(task).pid) } else { 0 }
    }

    /// The host of an event: that of its CPU, or of its thread where the source does not tell the CPU.
    #[must_use]
    pub fn of_event(&self, trace: &Trace, cpu: u32, task: TaskId) -> usize {
        if cpu == NO_CPU { self.of_task(trace, task) } else { self.of_cpu(cpu) }
    }

    /// The host of each thread, by task; nothing in a recording of one.
    pub(crate) fn by_task(&self, trace: &Trace) -> Vec<usize> {
        if self.0.is_empty() {
            return Vec::new();
        }
        trace.tasks().iter().map(|task| self.of_pid(task.pid)).collect()
    }
}

/// How large a page of memory is where nothing says so.
const PAGE_BYTES: u64 = 4096;

/// How large the pages of memory are, host by host.
#[derive(Debug, Clone)]
pub struct PageSizes {
    hosts: Hosts,
    /// By host, where they differ.
    of: Vec<u64>,
    /// Of any other.
    others: u64,
}

impl PageSizes {
    /// What a recording says of them.
    #[must_use]
    pub fn new(trace: &Trace) -> Self {
        let hosts = Hosts::new(trace);
        let shared = trace.meta("page_size").and_then(|bytes| bytes.parse().ok()).filter(|&bytes| bytes > 0);
        let others = shared.unwrap_or(PAGE_BYTES);
        let of: Vec<u64> = hosts.0.iter().map(|host| host.page_bytes.unwrap_or(others)).collect();
        let differ = of.iter().any(|&bytes| bytes != others);
        Self { hosts, of: if differ { of } else { Vec::new() }, others }
    }

    /// Bytes of a page on the host of a process.
    #[must_use]
    pub fn of_pid(&self, pid: u32) -> u64 {
        if self.of.is_empty() {
            return self.others;
        }
        self.of.get(self.hosts.of_pid(pid)).copied().unwrap_or(self.others)
    }

    /// Bytes of 2^`order` pages that a thread was given.
    #[must_use]
    #[inline]
    pub fn bytes(&self, trace: &Trace, task: TaskId, order: u64) -> u64 {
        let page = if self.of.is_empty() { self.others } else { self.of_pid(trace.task(task).pid) };
        page.saturating_mul(1 << order.min(32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    #[test]
    fn namesakes_are_told_apart_by_their_numbers() {
        let mut f = Fixture::new();
        for (key, value) in [
            ("host.0.host", "node"),
            ("host.0.cpu_base", "0"),
            ("host.0.pid_base", "0"),
            ("host.1.host", "other"),
            ("host.1.cpu_base", "16"),
            ("host.1.pid_base", "4194304"),
            ("host.1.uncertainty_ns", "250"),
            ("host.2.host", "node"),
            ("host.2.cpu_base", "32"),
            ("host.2.pid_base", "8388608"),
            ("host.4.cpu_base", "64"),
        ] {
            f.writer().set_meta(key, value);
        }
        let hosts = Hosts::new(&f.finish());
        let labels: Vec<_> = hosts.0.iter().map(|host| host.label.as_str()).collect();
        assert_eq!(labels, ["node (0)", "other", "node (2)"]);
        assert_eq!([0, 15, 16, 31, 99].map(|cpu| hosts.of_cpu(cpu)), [0, 0, 1, 1, 2]);
        assert_eq!([1, 4_194_304, 9_000_000].map(|pid| hosts.of_pid(pid)), [0, 1, 2]);
        assert_eq!(hosts.0.iter().map(|host| host.uncertainty_ns).collect::<Vec<_>>(), [u64::MAX, 250, u64::MAX]);
        let mut f = Fixture::new();
        for (key, value) in [("host", "vm"), ("host.0.pid_base", "0"), ("host.1.pid_base", "4194304")] {
            f.writer().set_meta(key, value);
        }
        let hosts = Hosts::new(&f.finish());
        let labels: Vec<_> = hosts.0.iter().map(|host| host.label.as_str()).collect();
        assert_eq!(labels, ["vm (0)", "vm (1)"]);
        let alone = Hosts::new(&Fixture::new().finish());
        assert_eq!((alone.of_cpu(7), alone.get(0)), (0, None));
    }
}
