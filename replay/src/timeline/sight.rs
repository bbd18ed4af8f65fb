//! Where switches are missing nobody is seen: on all hosts of a recording, or on one of several.

use crate::hosts::Hosts;

/// A stretch in which switches are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Blind {
    /// First instant.
    pub from_ns: u64,
    /// Last instant.
    pub to_ns: u64,
    /// The host that they are of, in a recording of several; none where they may be of any.
    pub host: Option<usize>,
}

impl Blind {
    /// Whether nothing is known of this host.
    #[must_use]
    pub fn concerns(&self, host: usize) -> bool {
        self.host.is_none_or(|own| own == host)
    }
}

/// From when on the hosts of a recording can be seen, as a walk comes to know it.
#[derive(Debug, Clone)]
pub struct Sight {
    hosts: Hosts,
    /// By host: before this instant switches are missing.
    from_ns: Vec<u64>,
    /// The last of those instants.
    all_from_ns: u64,
}

impl Sight {
    /// All are seen.
    #[must_use]
    pub fn new(hosts: Hosts) -> Self {
        Self { from_ns: vec![0; hosts.count()], all_from_ns: 0, hosts }
    }

    /// The hosts.
    #[must_use]
    pub fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    /// Whom it concerns is not seen before its end.
    pub fn lose(&mut self, blind: &Blind) {
        let sighted_ns = blind.to_ns.saturating_add(1);
        for (_, from_ns) in self.from_ns.iter_mut().enumerate().filter(|(host, _)| blind.concerns(*host)) {
            *from_ns = sighted_ns.max(*from_ns);
        }
        self.all_from_ns = self.all_from_ns.max(sighted_ns);
    }

    /// From when on a host is seen.
    #[must_use]
    pub fn of_host(&self, host: usize) -> u64 {
        self.from_ns.get(host).copied().unwrap_or(0)
    }

    /// Whether what happens on a CPU shows who runs there.
    #[must_use]
    #[inline]
    pub fn holds(&self, ts_ns: u64, cpu: u32) -> bool {
        ts_ns >= self.all_from_ns || ts_ns >= self.of_host(self.hosts.of_cpu(cpu))
    }

    /// Whether nothing is known of a CPU in such a stretch.
    #[must_use]
    pub fn is_blind(&self, blind: &Blind, cpu: u32) -> bool {
        blind.concerns(self.hosts.of_cpu(cpu))
    }
}
