//! The exchanges of ranks: which entry into a collective of one rank belongs to which of the others, and how well their clocks
//! agree.
//!
//! The n-th collective on a communicator of one rank is the n-th of each other rank, of as many elements of the same type. Which
//! communicators of several processes are one, nothing in a recording says: they have as many ranks, each of another number,
//! were used at the same time and equally often, and for the same. Where two could be it, none is.

use std::collections::{BTreeMap, HashMap, HashSet};

use ingero_format::Trace;
use ingero_format::catalog::{Body, Call, Class, Kind, TaskId};
use ingero_replay::{Hosts, LostBlock, Merge, Missing, ProcessId, Processes};

use crate::feed::{AT_ONCE_NS, Role, STEP_FROM_NS};
use crate::figures::Stretch;
use crate::losses::Losses;
use crate::phases::Phase;
use crate::spans;

/// Exchanges without which nothing is said: were it chance who of two ranks comes last, one of them would come last to
/// two thirds of eight in 29 % of all cases, of twenty in 12 %, of fifty in 2 % (binomial); a wait for nothing but chance is
/// short, and stays below what is told of a phase.
const EXCHANGES: usize = 8;
/// Of so many exchanges a rank comes last to so many, if it is the straggler: more than two in the long run where two ranks
/// take turns, who come last to half each.
const LAST_TO: (usize, usize) = (2, 3);

/// A rank entered a collective.
#[derive(Debug, Clone, Copy)]
struct Arrival {
    at_ns: u64,
    task: TaskId,
    rank: u64,
    ranks: u64,
    /// Elements, their type, the reduction, and the root or the peer: what the ranks of an exchange have in common.
    what: [Option<u64>; 4],
}

/// A rank that waits for another stands still for so much of that time, at least: in a wait for its device, or without a
/// submission for as long as a step's pause. One that goes on submitting runs ahead of its own device, and loses nothing to
/// a peer that is behind it by the same steps all the while. A rank cannot run ahead for ever: what it waits for a true straggler
/// its queue or its next wait for the device makes it stand still for.
const STANDS: (u64, u64) = (1, 2);

/// What the calls of a trace tell of exchanges beside the entries themselves.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// Whether there are any exchanges.
    wanted: bool,
    inside_until: HashMap<TaskId, u64>,
    /// Entries into a collective from within another one of the same thread, as `ncclBroadcast` makes them: one exchange, told by
    /// the outer one.
    within: HashSet<(TaskId, u64)>,
    /// When each process submitted last.
    submitted: HashMap<ProcessId, u64>,
    /// When each process stood still.
    still: HashMap<ProcessId, Vec<(u64, u64)>>,
}

impl Calls {
    pub(crate) fn of(trace: &Trace) -> Self {
        let wanted = trace.has_rows(Kind::Collective as u16);
        Self { wanted, ..Self::default() }
    }

    /// A call of a process, in order of entry.
    pub(crate) fn add(&mut self, process: ProcessId, ts_ns: u64, call: &Call, class: Option<Class>, role: Role) {
        if !self.wanted {
            return;
        }
        let end_ns = ts_ns.saturating_add(call.dur_ns.unwrap_or(0));
        if class == Some(Class::Collective) {
            let until_ns = self.inside_until.entry(call.task).or_default();
            if ts_ns < *until_ns {
                self.within.insert((call.task, ts_ns));
            } else {
                *until_ns = end_ns;
            }
        }
        let still = match role {
            Role::Submission => {
                let last_ns = self.submitted.insert(process, ts_ns);
                last_ns.map(|last_ns| (last_ns, ts_ns)).filter(|(from, to)| to - from >= STEP_FROM_NS)
            }
            Role::Wait => Some((ts_ns, end_ns)).filter(|(from, to)| to - from >= AT_ONCE_NS),
            Role::Neither => None,
        };
        if let Some(still) = still {
            self.still.entry(process).or_default().push(still);
        }
    }
}

/// What a rank lost to one that comes late.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Late {
    /// Its own number.
    pub(crate) rank: u64,
    /// Of a merged recording: its own host.
    pub(crate) on: Option<String>,
    /// The number of the one that comes last.
    pub(crate) straggler: u64,
    /// Its process.
    pub(crate) process: ProcessId,
    /// Its host.
    pub(crate) straggler_on: Option<String>,
    /// The waits for it.
    pub(crate) waits: Vec<Stretch>,
    /// The thread that ended the longest of them.
    pub(crate) ended_by: Option<TaskId>,
    /// Exchanges in the phase.
    pub(crate) exchanges: usize,
    /// Ranks that the communicator has, and those of them that were recorded.
    pub(crate) ranks: (u64, u64),
    /// What is left out of each wait, for what the clocks of two hosts may differ by.
    pub(crate) doubt_ns: u64,
}

impl Late {
    /// The waits, in order and side by side ones once.
    pub(crate) fn stretches(&self) -> Vec<(u64, u64)> {
        spans::joined(self.waits.iter().map(|w| (w.start_ns, w.end_ns)).collect())
    }
}

/// The collectives of a whole recording: they are told apart by their numbers.
pub(crate) struct Collectives {
    hosts: Hosts,
    /// By process and communicator, in order.
    arrivals: BTreeMap<(ProcessId, Option<u64>), Vec<Arrival>>,
    /// By host: from when on a collective may be missing in the numbers of its ranks.
    numbered_until_ns: Vec<u64>,
    /// When each process stood still; in order, apart from one another.
    still: HashMap<ProcessId, Vec<(u64, u64)>>,
}

impl Collectives {
    /// Of a trace of whose calls these blocks cannot be read.
    pub(crate) fn new(
        trace: &Trace,
        processes: &Processes,
        calls: Calls,
        lost_calls: Vec<LostBlock>,
        missing: &Missing,
    ) -> Self {
        let mut arrivals: BTreeMap<_, Vec<Arrival>> = BTreeMap::new();
        let mut merge = Merge::of(trace, |k| k == Kind::Collective);
        for event in merge.by_ref() {
            let Body::Collective(e) = event.body else { continue };
            if let (Some(rank), Some(ranks @ 2..)) = (e.rank, e.ranks)
                && !calls.within.contains(&(e.task, event.ts_ns))
            {
                let what = [e.count, e.datatype, e.op, e.peer];
                let list = arrivals.entry((processes.of(e.task), e.comm)).or_default();
                list.push(Arrival { at_ns: event.ts_ns, task: e.task, rank, ranks, what });
            }
        }
        let lost: Vec<LostBlock> = lost_calls.into_iter().chain(merge.into_lost()).collect();
        let of_calls = |probe: &str| {
            matches!(probe, "call" | "collective") || !trace.all_kinds().iter().any(|kind| kind.name == probe)
        };
        let losses = Losses::from_parts(missing.with(trace, &lost));
        let lost = losses.list.iter().filter(|l| (l.count > 0 || l.uncounted) && of_calls(&l.probe));
        let hosts = Hosts::new(trace);
        let of_host =
            |host: usize| lost.clone().filter(|l| l.host.is_none_or(|own| own == host)).map(|l| l.from_ns).min();
        let numbered_until_ns = (0..hosts.count()).map(|host| of_host(host).unwrap_or(u64::MAX)).collect();
        let still = calls.still.into_iter().map(|(process, still)| (process, spans::joined(still))).collect();
        Self { hosts, arrivals, numbered_until_ns, still }
    }

    /// Tells each phase of the rank that comes last, if it is one and the same.
    pub(crate) fn tell(&self, phases: &mut [Phase], processes: &Processes) {
        if self.arrivals.is_empty() {
            return;
        }
        let host = |process: ProcessId| self.hosts.of_pid(processes.get(process).pid);
        let ranks = self.arrivals.iter().map(|(&(process, _), entries)| (process, entries));
        let all: Vec<Rank> = ranks.map(|(process, entries)| Rank { process, entries, host: host(process) }).collect();
        let mut of_process: BTreeMap<ProcessId, Vec<Communicator>> = BTreeMap::new();
        for phase in phases {
            let communicators =
                of_process.entry(phase.process).or_insert_with(|| Communicator::of(&all, phase.process));
            let late =
                communicators.iter().filter_map(|c| self.late(phase, c)).filter(|l| self.stands(phase.process, l));
            phase.late = late.max_by_key(|late| spans::total_ns(&late.stretches()));
        }
    }

    /// Whether a process stands still while it waits for a rank.
    fn stands(&self, process: ProcessId, late: &Late) -> bool {
        let waits = late.stretches();
        let still = self.still.get(&process).map_or(&[][..], Vec::as_slice);
        let still_ns = spans::total_ns(&spans::common(&waits, still));
        still_ns.saturating_mul(STANDS.1) >= spans::total_ns(&waits).saturating_mul(STANDS.0)
    }

    /// Who comes late to the exchanges of the phase, if it is one and the same.
    fn late(&self, phase: &Phase, communicator: &Communicator) -> Option<Late> {
        let own_rank = communicator.ranks.first()?;
        let mut waits: BTreeMap<usize, Vec<Stretch>> = BTreeMap::new();
        let mut exchanges = 0;
        let numbered = |(rank, entry): (&Rank, &Arrival)| {
            self.numbered_until_ns.get(rank.host).is_none_or(|&until_ns| entry.at_ns < until_ns)
        };
        let known = |entries: &Vec<&Arrival>| communicator.ranks.iter().zip(entries.iter().copied()).all(numbered);
        for entries in communicator.exchanges().take_while(known) {
            let Some(own) = entries.first().filter(|own| (phase.start_ns..phase.end_ns).contains(&own.at_ns)) else {
                continue;
            };
            exchanges += 1;
            let Some((at, last)) = entries.iter().enumerate().max_by_key(|(_, e)| e.at_ns) else { continue };
            let Some(rank) = communicator.ranks.get(at) else { continue };
            // The last one is known where it is later than each other by more than the two's clocks leave in doubt.
            let known = communicator.ranks.iter().zip(&entries).enumerate().all(|(other, (peer, entry))| {
                other == at || last.at_ns.saturating_sub(entry.at_ns) > doubt_ns(&self.hosts, rank, peer)
            });
            if known {
                let end_ns = last.at_ns.saturating_sub(doubt_ns(&self.hosts, rank, own_rank));
                waits.entry(at).or_default().push(Stretch { task: own.task, start_ns: own.at_ns, end_ns });
            }
        }
        let (at, waits) = waits.into_iter().max_by_key(|(at, waits)| (waits.len(), std::cmp::Reverse(*at)))?;
        if at == 0 || exchanges < EXCHANGES || waits.len() * LAST_TO.1 < exchanges * LAST_TO.0 {
            return None;
        }
        let straggler = communicator.ranks.get(at)?;
        let on = |rank: &Rank| self.hosts.get(rank.host).map(|host| host.label.clone());
        let longest = waits.iter().max_by_key(|w| (w.len_ns(), std::cmp::Reverse(w.start_ns)));
        let ended_by = longest.and_then(|w| straggler.entries.iter().find(|e| e.at_ns >= w.end_ns)).map(|e| e.task);
        Some(Late {
            rank: own_rank.number(),
            on: on(own_rank),
            straggler: straggler.number(),
            process: straggler.process,
            straggler_on: on(straggler),
            ended_by,
            exchanges,
            ranks: (communicator.size, communicator.ranks.len() as u64),
            doubt_ns: doubt_ns(&self.hosts, own_rank, straggler),
            waits,
        })
    }
}

/// What the wall clocks of two hosts may differ by where NTP keeps them, beside what their recordings say themselves. RFC 5905
/// gives its accuracy as tens of microseconds on fast local networks; a recording does not say how well it did.
const WALL_CLOCKS_NS: u64 = 1_000_000;

/// One rank of a communicator: its process, and its entries in order.
struct Rank<'a> {
    process: ProcessId,
    entries: &'a [Arrival],
    /// Host of a merged recording, 0 in any other.
    host: usize,
}

impl Rank<'_> {
    fn number(&self) -> u64 {
        self.entries.first().map_or(0, |e| e.rank)
    }

    fn ranks(&self) -> u64 {
        self.entries.first().map_or(0, |e| e.ranks)
    }

    fn lasted(&self) -> (u64, u64) {
        (self.entries.first().map_or(0, |e| e.at_ns), self.entries.last().map_or(0, |e| e.at_ns))
    }
}

/// What the times of two ranks may be wrong by, seen from each other.
fn doubt_ns(hosts: &Hosts, a: &Rank, b: &Rank) -> u64 {
    let of = |rank: &Rank| hosts.get(rank.host).map_or(0, |host| host.uncertainty_ns);
    if a.host == b.host { 0 } else { of(a).saturating_add(of(b)).saturating_add(WALL_CLOCKS_NS) }
}

/// A communicator as one of its ranks sees it.
struct Communicator<'a> {
    /// The rank that it was asked for stands first.
    ranks: Vec<Rank<'a>>,
    /// Ranks that it has, recorded or not.
    size: u64,
}

impl<'a> Communicator<'a> {
    /// The communicators of a process that can be told, each with the ranks that were recorded.
    fn of(all: &'a [Rank<'a>], process: ProcessId) -> Vec<Self> {
        let own = all.iter().enumerate().filter(|(_, rank)| rank.process == process);
        let others = |at: usize| all.iter().enumerate().filter(move |(n, _)| *n != at).map(|(_, rank)| rank);
        own.filter_map(|(at, own)| Self::around(own, others(at))).collect()
    }

    fn around<'r>(own: &Rank<'a>, others: impl Iterator<Item = &'r Rank<'a>>) -> Option<Self>
    where
        'a: 'r,
    {
        let mut ranks = vec![own.clone()];
        for other in others.filter(|other| belong_together(own, other)) {
            if ranks.iter().any(|r| r.number() == other.number()) {
                return None;
            }
            ranks.push(other.clone());
        }
        (ranks.len() > 1).then(|| Self { size: own.ranks(), ranks })
    }

    /// The entries of all ranks into each exchange, in order.
    fn exchanges(&self) -> impl Iterator<Item = Vec<&Arrival>> {
        let count = self.ranks.iter().map(|r| r.entries.len()).min().unwrap_or(0);
        (0..count).filter_map(|at| {
            let entries: Vec<_> = self.ranks.iter().filter_map(|r| r.entries.get(at)).collect();
            let alike = entries.windows(2).all(|pair| matches!(pair, [a, b] if a.what == b.what));
            alike.then_some(entries)
        })
    }
}

impl Clone for Rank<'_> {
    fn clone(&self) -> Self {
        Self { process: self.process, entries: self.entries, host: self.host }
    }
}

/// Whether two ranks may be of one communicator. One may have entered a collective that the other did not come to, when the
/// recording ended.
fn belong_together(a: &Rank, b: &Rank) -> bool {
    let ((a_from, a_to), (b_from, b_to)) = (a.lasted(), b.lasted());
    let count = a.entries.len().min(b.entries.len());
    let alike = a.entries.iter().zip(b.entries).filter(|(x, y)| x.what == y.what).count();
    a.ranks() == b.ranks()
        && a.number() != b.number()
        && a.entries.len().abs_diff(b.entries.len()) <= 1
        && a_from <= b_to
        && b_from <= a_to
        && alike * 10 >= count * 9
}
