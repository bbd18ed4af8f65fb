//! Which processes have the GPUs of their host for themselves.

use std::collections::BTreeMap;

use ingero_replay::{Hosts, ProcessId, Processes};

use super::Phase;

/// When a process asks a GPU for something.
#[derive(Debug, Clone, Copy)]
struct Asks {
    start_ns: u64,
    end_ns: u64,
    process: ProcessId,
}

/// What begins before some instant: the one that ends last, and the one that does of all other processes.
#[derive(Debug, Clone, Copy, Default)]
struct Latest {
    first: Option<Asks>,
    other: Option<Asks>,
}

impl Latest {
    fn with(self, asks: Asks) -> Self {
        let is_later = |than: Option<Asks>| than.is_none_or(|than| asks.end_ns > than.end_ns);
        match self.first {
            Some(first) if first.process == asks.process => {
                Self { first: Some(if is_later(self.first) { asks } else { first }), ..self }
            }
            _ if is_later(self.first) => Self { first: Some(asks), other: self.first },
            _ if is_later(self.other) => Self { other: Some(asks), ..self },
            _ => self,
        }
    }

    /// The latest end of what is of another process than this one.
    fn end_of_others_ns(&self, process: ProcessId) -> Option<u64> {
        let of = if self.first.is_some_and(|first| first.process == process) { self.other } else { self.first };
        of.map(|asks| asks.end_ns)
    }
}

/// Tells each phase whether another process of its host asks a GPU for anything meanwhile.
pub(crate) fn tell_alone(phases: &mut [Phase], hosts: &Hosts, processes: &Processes) {
    let host = |p: &Phase| hosts.of_pid(processes.get(p.process).pid);
    let mut by_host: BTreeMap<usize, Vec<Asks>> = BTreeMap::new();
    for p in phases.iter().filter(|p| !p.is_silent()) {
        let asks = Asks { start_ns: p.start_ns, end_ns: p.end_ns, process: p.process };
        by_host.entry(host(p)).or_default().push(asks);
    }
    let by_host: BTreeMap<usize, Beside> = by_host.into_iter().map(|(host, all)| (host, Beside::of(all))).collect();
    for p in phases {
        let own = Asks { start_ns: p.start_ns, end_ns: p.end_ns, process: p.process };
        p.is_alone = !by_host.get(&host(p)).is_some_and(|beside| beside.asks(own));
    }
}

/// All that processes of a host ask, by begin, with what is the latest of all up to each.
struct Beside {
    starts_ns: Vec<u64>,
    latest: Vec<Latest>,
}

impl Beside {
    fn of(mut all: Vec<Asks>) -> Self {
        all.sort_unstable_by_key(|asks| asks.start_ns);
        let latest = all.iter().scan(Latest::default(), |latest, asks| {
            *latest = latest.with(*asks);
            Some(*latest)
        });
        Self { latest: latest.collect(), starts_ns: all.iter().map(|asks| asks.start_ns).collect() }
    }

    /// Whether another process asks for something meanwhile.
    fn asks(&self, own: Asks) -> bool {
        let before = self.starts_ns.partition_point(|&start_ns| start_ns < own.end_ns);
        let latest = before.checked_sub(1).and_then(|at| self.latest.get(at));
        latest.and_then(|latest| latest.end_of_others_ns(own.process)).is_some_and(|end_ns| end_ns > own.start_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ingero_replay::fixture::Dice;

    #[test]
    fn the_sweep_tells_what_each_against_all_others_tells() {
        let mut dice = Dice(3);
        for _ in 0..2_000 {
            let all: Vec<Asks> = (0..dice.below(9))
                .map(|_| {
                    let start_ns = dice.below(30);
                    let process = ProcessId(u32::try_from(dice.below(4)).unwrap());
                    Asks { start_ns, end_ns: start_ns + dice.below(12), process }
                })
                .collect();
            let swept = Beside::of(all.clone());
            for asks in &all {
                let beside = |other: &Asks| {
                    other.process != asks.process && other.start_ns < asks.end_ns && asks.start_ns < other.end_ns
                };
                assert_eq!(swept.asks(*asks), all.iter().any(beside), "{asks:?} {all:?}");
            }
        }
    }
}
