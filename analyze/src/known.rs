//! What a recording knows at all: of a file of several hosts, what each of them recorded.

use ingero_format::Trace;
use ingero_format::catalog::{Body, Kind};
use ingero_replay::{Blind, Event, Hosts, Missing, Window};

use crate::losses::covers;

/// What is known of one host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct OfHost {
    /// Who ran and who waited in the range, at least in a part of it.
    pub(crate) states: bool,
    /// A throttled task from a preempted one.
    pub(crate) throttling: bool,
    /// Page allocations.
    pub(crate) page_allocs: bool,
    /// Which CPUs threads may use.
    pub(crate) affinity: bool,
}

/// The same of all hosts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    hosts: Hosts,
    of: Vec<OfHost>,
    /// Stretches in which switches are missing.
    blind: Vec<Blind>,
}

impl Known {
    pub(crate) fn new(trace: &Trace, missing: &Missing) -> Self {
        let hosts = Hosts::new(trace);
        let mut of = vec![OfHost::default(); hosts.count()];
        if let [only] = &mut of[..] {
            // Of one host the heads of the blocks tell what was counted, whether they can be read or not, and the losses.
            only.page_allocs = ingero_replay::was_recorded(trace, missing.parts(), Kind::PageAlloc);
        }
        Self { hosts, of, blind: Vec::new() }
    }

    /// Takes in what an event shows that its host recorded.
    #[inline]
    pub(crate) fn event(&mut self, trace: &Trace, event: &Event) {
        let host = match &event.body {
            Body::Switch(_) => self.hosts.of_cpu(event.cpu),
            Body::PageAlloc(e) => self.hosts.of_event(trace, event.cpu, e.task),
            Body::Affinity(e) => self.hosts.of_task(trace, e.task),
            _ => return,
        };
        let Some(host) = self.of.get_mut(host) else { return };
        match &event.body {
            Body::Switch(e) => {
                host.states = true;
                host.throttling |= e.throttled.is_some();
            }
            Body::PageAlloc(_) => host.page_allocs = true,
            _ => host.affinity = true,
        }
    }

    pub(crate) fn blind(&mut self, blind: &Blind) {
        self.blind.push(*blind);
    }

    /// What is known of a range: nothing of states where switches are missing in all of it.
    pub(crate) fn within(mut self, window: &Window) -> Self {
        let (from_ns, to_ns) = (window.from_ns, window.to_ns.min(window.trace_end_ns));
        for (host, of) in self.of.iter_mut().enumerate() {
            let missing = self.blind.iter().filter(|blind| blind.concerns(host)).map(|b| (b.from_ns, b.to_ns));
            of.states &= !covers(missing, &self.hosts, host, (from_ns, to_ns));
        }
        self
    }

    pub(crate) fn hosts(&self) -> impl Iterator<Item = &OfHost> {
        self.of.iter()
    }

    pub(crate) fn host_of_cpu(&self, cpu: u32) -> usize {
        self.hosts.of_cpu(cpu)
    }

    pub(crate) fn host_of(&self, pid: u32) -> usize {
        self.hosts.of_pid(pid)
    }

    /// What is known of the host of a process, by its id.
    pub(crate) fn of_pid(&self, pid: u32) -> OfHost {
        self.of.get(self.hosts.of_pid(pid)).copied().unwrap_or_default()
    }
}
