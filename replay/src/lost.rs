//! Which events are missing from a trace, and of which stretch of time: one answer for every program.

use ingero_format::Trace;
use ingero_format::catalog::{Body, Kind, LOSS_CAUSES, NO_CPU};
use ingero_format::layout::{CHUNK_BLOCK, CPU_SEVERAL};

use crate::findings::findings;
use crate::hosts::Hosts;
use crate::merge::{LostBlock, Merge};

/// Cause of losses in the file itself.
pub const DAMAGED: &str = "damaged file";
/// Cause of losses behind the last whole block of a file that was cut off.
pub const CUT_OFF: &str = "cut off";
/// What is lost where no kind of event is known.
pub const UNKNOWN_KIND: &str = "damaged file";

/// Kinds of events whose blocks end this much apart end together.
const SHORT_NS: u64 = 1_000_000;

/// Events that are missing from one stretch of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// Kind of event, or the probe that lost them.
    pub what: String,
    /// Why.
    pub cause: &'static str,
    /// How many; unknown where nobody could count them.
    pub count: Option<u64>,
    /// The CPU on which they happened, where all of them did on one.
    pub cpu: Option<u32>,
    /// In a recording of several hosts: the one that they are of; none where they may be of any, and in a recording of one.
    pub host: Option<usize>,
    /// First instant.
    pub from_ns: u64,
    /// Last instant.
    pub to_ns: u64,
    /// Whether calls or states of threads hang on such events: then nothing is known of those in this stretch.
    pub hides: bool,
}

impl Lost {
    /// Whether context switches are among them: who ran and who waited is not known then.
    #[must_use]
    pub fn hides_states(&self, trace: &Trace) -> bool {
        self.may_be(trace, &[Kind::Switch])
    }

    /// Whether wakes are among them: whether a thread off the CPUs was blocked still, and who woke it, is not known then.
    #[must_use]
    pub fn hides_wakes(&self, trace: &Trace) -> bool {
        self.may_be(trace, &[Kind::Waking, Kind::Wakeup])
    }

    /// Whether calls are among them: which ones threads were in is not known then.
    #[must_use]
    pub fn hides_calls(&self, trace: &Trace) -> bool {
        self.may_be(trace, &[Kind::Call])
    }

    /// Whether events of these kinds are among them. Where it is no kind of event that was lost, it may have been any.
    fn may_be(&self, trace: &Trace, kinds: &[Kind]) -> bool {
        let is_of = |kind: &Kind| self.what == trace.kind_name(*kind as u16);
        self.hides && (kinds.iter().any(is_of) || !is_kind(trace, &self.what))
    }

    /// What is not known for want of them, as sentences use it.
    #[must_use]
    pub fn hidden(&self, trace: &Trace) -> &'static str {
        match () {
            () if !self.hides => "nothing else hangs on them",
            () if !is_kind(trace, &self.what) => "who ran, who waited and who was in which call is not known",
            () if self.what == "call" => "which calls threads were in is not known",
            () if self.hides_states(trace) => "who ran and who waited is not known",
            () => "since when threads could run, and who woke them, is not known",
        }
    }

    /// Whether it has a part in a range that ends before `to_ns`.
    #[must_use]
    pub fn is_within(&self, from_ns: u64, to_ns: u64) -> bool {
        self.from_ns < to_ns && self.to_ns >= from_ns
    }

    /// Whether events of this host are among them, as far as anybody knows: what is lost of one hides nothing of the others.
    #[must_use]
    pub fn concerns(&self, host: usize) -> bool {
        self.host.is_none_or(|own| own == host)
    }

    /// What is lost here, as sentences use it.
    #[must_use]
    pub fn words(&self, trace: &Trace) -> String {
        let count = self.count.map_or_else(|| "an unknown number of".to_owned(), crate::wording::grouped);
        let cpu = self.cpu.map_or_else(String::new, |cpu| format!(" of CPU {cpu}"));
        let host = of_host(&Hosts::new(trace), self.host);
        format!("{count} {} events{cpu}{host} ({})", ingero_format::one_line(&self.what), self.cause)
    }
}

/// ` of node-3`, where events are of one host of several.
#[must_use]
pub fn of_host(hosts: &Hosts, host: Option<usize>) -> String {
    let label = host.and_then(|host| hosts.get(host)).map(|host| ingero_format::one_line(&host.label));
    label.map_or_else(String::new, |label| format!(" of {label}"))
}

/// What is missing from a trace, as far as it tells before its blocks are read: what its recorder says that it lost, what cannot be found
/// in the file, and what came behind the place where it was cut off. To work it out reads parts of the file: once is enough.
#[derive(Debug, Clone, Default)]
pub struct Missing {
    hosts: Hosts,
    parts: Vec<Lost>,
    /// From which of them on what was cut off is told.
    cut_from: usize,
    trace_end_ns: u64,
}

/// Where events are missing, before anything is made of it.
struct Place<'a> {
    what: &'a str,
    cause: &'static str,
    count: Option<u64>,
    cpu: u32,
    host: Option<usize>,
    span_ns: (u64, u64),
}

impl Missing {
    /// What is missing from a trace.
    #[must_use]
    pub fn new(trace: &Trace) -> Self {
        let hosts = Hosts::new(trace);
        let trace_end_ns = known_span(trace).map_or(0, |(_, end_ns)| end_ns);
        let mut this = Self { hosts, parts: Vec::new(), cut_from: 0, trace_end_ns };
        for event in Merge::of(trace, |k| k == Kind::Loss) {
            let Body::Loss(e) = event.body else { continue };
            let cause = LOSS_CAUSES.iter().find(|(n, _)| *n == e.cause).map_or("unknown cause", |(_, name)| name);
            // A number that no host has is none.
            let host = e.of_host.and_then(|n| usize::try_from(n).ok()).filter(|&n| n < this.hosts.count());
            let (what, count, span_ns) = (trace.string(e.probe), e.count, (event.ts_ns, e.to_ns));
            this.parts.push(this.lost(trace, Place { what, cause, count, cpu: event.cpu, host, span_ns }));
        }
        for finding in findings(trace).into_iter().filter(|f| f.rows != Some(0) && !f.is_cut) {
            let header = finding.block.filter(|h| h.chunk_type == CHUNK_BLOCK);
            let what = header.map_or(UNKNOWN_KIND, |h| trace.kind_name(h.kind));
            let span_ns = finding.span_ns.or(known_span(trace)).unwrap_or_default();
            let (count, cpu) = (finding.rows, header.map_or(NO_CPU, |h| h.cpu));
            this.parts.push(this.lost(trace, Place { what, cause: DAMAGED, count, cpu, host: None, span_ns }));
        }
        this.cut_from = this.parts.len();
        if !trace.complete() && trace.events_written().is_none() {
            let cut = |what, host, span_ns| Place { what, cause: CUT_OFF, count: None, cpu: NO_CPU, host, span_ns };
            for (kind, host, last_ns) in cut_short(trace, &this.hosts) {
                let end_ns = this.end_of(host);
                if end_ns.saturating_sub(last_ns) >= SHORT_NS {
                    let place = cut(trace.kind_name(kind as u16), host, (last_ns.saturating_add(1), end_ns));
                    this.parts.push(this.lost(trace, place));
                }
            }
            // What came after the last whole block is not known, not even whether anything did.
            this.parts.push(this.lost(trace, cut(UNKNOWN_KIND, None, (trace_end_ns, trace_end_ns))));
        }
        this
    }

    /// The same with blocks that turned out to be unreadable.
    #[must_use]
    pub fn with(&self, trace: &Trace, unread: &[LostBlock]) -> Vec<Lost> {
        let (told, cut) = self.parts.split_at(self.cut_from);
        let unread = unread.iter().map(|block| {
            let h = &block.entry.header;
            let (what, count, span_ns) = (trace.kind_name(h.kind), Some(u64::from(h.rows)), (h.ts_min, h.ts_max));
            self.lost(trace, Place { what, cause: DAMAGED, count, cpu: h.cpu, host: None, span_ns })
        });
        told.iter().cloned().chain(unread).chain(cut.iter().cloned()).collect()
    }

    /// All of it.
    #[must_use]
    pub fn parts(&self) -> &[Lost] {
        &self.parts
    }

    fn end_of(&self, host: Option<usize>) -> u64 {
        match host.and_then(|host| self.hosts.get(host)) {
            Some(host) => host.span_ns.1.min(self.trace_end_ns),
            None => self.trace_end_ns,
        }
    }

    fn lost(&self, trace: &Trace, place: Place) -> Lost {
        let Place { what, cause, count, cpu, host, span_ns: (from_ns, to_ns) } = place;
        let host = host.filter(|_| self.hosts.are_several()).or_else(|| self.hosts.of_block(cpu));
        let cpu = Some(cpu).filter(|&cpu| cpu != NO_CPU && cpu != CPU_SEVERAL);
        // What begins with the last event hides none.
        let hides = count != Some(0) && from_ns < self.end_of(host) && hides(trace, what);
        Lost { what: what.to_owned(), cause, count, cpu, host, from_ns, to_ns: to_ns.max(from_ns), hides }
    }
}

/// What is missing from a trace of which `unread` are the blocks that turned out to be unreadable.
#[must_use]
pub fn lost(trace: &Trace, unread: &[LostBlock]) -> Vec<Lost> {
    Missing::new(trace).with(trace, unread)
}

/// Whether events of a kind were recorded, of a trace that lacks `lost`: it has them, readable or not, or says that it lost some.
/// A file that was repaired has none left where no block of them could be read.
#[must_use]
pub fn was_recorded(trace: &Trace, lost: &[Lost], kind: Kind) -> bool {
    let name = trace.kind_name(kind as u16);
    trace.has_rows(kind as u16) || lost.iter().any(|l| l.count != Some(0) && l.what == name)
}

/// Kinds on which everything hangs, with the last instant that a file that was cut off has of each, host by host: blocks of
/// other kinds may go on for longer, and a file of several hosts has one behind the other.
fn cut_short(trace: &Trace, hosts: &Hosts) -> Vec<(Kind, Option<usize>, u64)> {
    let damaged = || trace.damage().iter().filter_map(|d| d.header).filter(|h| h.chunk_type == CHUNK_BLOCK);
    // Where functions were probed, their calls may have stood behind the cut.
    let probed = !trace.functions().is_empty();
    let mut out = Vec::new();
    for kind in [Kind::Switch, Kind::Call] {
        let may_lack = kind == Kind::Call && probed;
        if hosts.are_several() {
            let seen = last_of_hosts(trace, hosts, kind);
            let may_lack = may_lack || seen.iter().any(Option::is_some);
            out.extend(seen.iter().enumerate().filter_map(|(host, last_ns)| {
                let before = || Some(hosts.get(host)?.span_ns.0.saturating_sub(1)).filter(|_| may_lack);
                Some((kind, Some(host), last_ns.or_else(before)?))
            }));
            continue;
        }
        let headers = trace.blocks().iter().map(|b| b.header).chain(damaged());
        let last_ns = headers.filter(|h| h.kind == kind as u16 && h.rows > 0).map(|h| h.ts_max).max();
        let before = || trace.span_ns().filter(|_| may_lack).map(|(start_ns, _)| start_ns.saturating_sub(1));
        out.extend(last_ns.or_else(before).map(|last_ns| (kind, None, last_ns)));
    }
    out
}

/// When the last event of a kind was on each host: a block may hold those of several.
fn last_of_hosts(trace: &Trace, hosts: &Hosts, kind: Kind) -> Vec<Option<u64>> {
    let mut last_ns = vec![None; hosts.count()];
    for event in Merge::of(trace, |of| of == kind) {
        let host = match event.body {
            Body::Call(call) => hosts.of_event(trace, event.cpu, call.task),
            _ => hosts.of_cpu(event.cpu),
        };
        if let Some(last_ns) = last_ns.get_mut(host) {
            *last_ns = Some(event.ts_ns);
        }
    }
    last_ns
}

/// First and last instant that anything in the file tells of: blocks that can be read, or else heads of those that cannot.
#[must_use]
pub fn known_span(trace: &Trace) -> Option<(u64, u64)> {
    let damaged = || trace.damage().iter().filter_map(|d| d.header).filter(|h| h.chunk_type == CHUNK_BLOCK);
    let of_damaged = || Some((damaged().map(|h| h.ts_min).min()?, damaged().map(|h| h.ts_max).max()?));
    trace.span_ns().or_else(of_damaged)
}

/// What came behind the place where a file was cut off, kind by kind.
#[must_use]
pub fn cut_off(trace: &Trace) -> Vec<Lost> {
    let mut all = lost(trace, &[]);
    all.retain(|l| l.cause == CUT_OFF);
    all
}

fn is_kind(trace: &Trace, name: &str) -> bool {
    trace.all_kinds().iter().any(|kind| kind.name == name)
}

/// Whether gaps, calls or states of threads hang on events of this name.
fn hides(trace: &Trace, what: &str) -> bool {
    !is_kind(trace, what) || what == "call" || what.starts_with("sched_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;
    use ingero_format::catalog::TaskId;

    #[test]
    fn what_was_cut_off_is_missing_from_where_each_kind_ends() {
        const MS: u64 = 1_000_000;
        let mut f = Fixture::with_rows(4);
        let task = f.task(1, 1);
        for i in 0..8 {
            f.switch(i * MS, 0, TaskId(0), 1, task);
        }
        for i in 0..60 {
            f.waking(i * MS, 0, task, task, 0);
        }
        let bytes = f.into_bytes();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.igt");
        std::fs::write(&path, &bytes).unwrap();
        let whole = Trace::open(&path).unwrap();
        assert_eq!(lost(&whole, &[]), []);
        // The last chunk of all that is a block is one of the wakes: index and footer come behind it.
        let last = whole.blocks().iter().map(|b| b.offset).max().unwrap();
        let path = dir.path().join("cut.igt");
        std::fs::write(&path, &bytes[..usize::try_from(last).unwrap() + 8]).unwrap();
        let cut = Trace::open(&path).unwrap();
        assert!(!cut.complete());
        let all = lost(&cut, &[]);
        let end_ns = cut.span_ns().unwrap().1;
        let switch_end_ns =
            cut.blocks().iter().filter(|b| b.header.kind == Kind::Switch as u16).map(|b| b.header.ts_max);
        let switch_end_ns = switch_end_ns.max().unwrap();
        assert!(switch_end_ns + SHORT_NS < end_ns);
        let of = |what: &str| all.iter().find(|l| l.what == what && l.cause == CUT_OFF).unwrap();
        assert_eq!((of("sched_switch").from_ns, of("sched_switch").to_ns), (switch_end_ns + 1, end_ns));
        assert!(of("sched_switch").hides_states(&cut) && of("sched_switch").count.is_none());
        // Behind the last event nothing is hidden that anybody could see.
        assert!(all.iter().any(|l| l.what == UNKNOWN_KIND && !l.hides && l.from_ns == end_ns));
    }

    /// A file that ends within the header of a chunk tells no more, and no less, than one that ends between two.
    #[test]
    fn a_cut_within_a_header_is_a_cut_between_two_chunks() {
        const MS: u64 = 1_000_000;
        let mut f = Fixture::with_rows(4);
        let task = f.task(1, 1);
        for i in 0..40 {
            f.switch(i * MS, 0, TaskId(0), 1, task);
            f.waking(i * MS, 0, task, task, 0);
        }
        let bytes = f.into_bytes();
        let dir = tempfile::tempdir().unwrap();
        let cut = |len: usize| {
            let path = dir.path().join(format!("{len}.igt"));
            std::fs::write(&path, &bytes[..len]).unwrap();
            Trace::open(&path).unwrap()
        };
        let offset = |entry: &ingero_format::IndexEntry| usize::try_from(entry.offset).unwrap();
        let whole = cut(bytes.len());
        let blocks: Vec<usize> = whole.blocks().iter().map(offset).collect();
        assert!(blocks.len() > 10);
        for &at in &blocks[3..] {
            let clean = cut(at);
            assert!(clean.damage().is_empty());
            for more in 1..56 {
                let ragged = cut(at + more);
                assert_eq!(lost(&ragged, &[]), lost(&clean, &[]), "{more} bytes behind {at:#x}");
                let found = findings(&ragged);
                assert!(found.len() == 1 && found[0].is_cut && found[0].rows.is_none(), "{found:?}");
            }
            // What is no begin of a header is damage, and hides what it may have been.
            let path = dir.path().join("garbage.igt");
            std::fs::write(&path, [&bytes[..at], &[7; 20]].concat()).unwrap();
            let garbage = Trace::open(&path).unwrap();
            assert!(lost(&garbage, &[]).iter().any(|l| l.cause == DAMAGED));
        }
    }

    #[test]
    fn what_is_missing_is_worked_out_once_for_whatever_turns_out_to_be_unreadable() {
        let mut f = Fixture::with_rows(4);
        let task = f.task(1, 1);
        (0..40).for_each(|i| f.switch(i, 0, TaskId(0), 1, task));
        let trace = f.finish();
        let unread =
            |at: usize| LostBlock { entry: trace.blocks()[at], error: ingero_format::Error::NotIgt(String::new()) };
        let missing = Missing::new(&trace);
        assert_eq!(missing.parts(), []);
        for blocks in [vec![], vec![unread(0)], vec![unread(2), unread(1)]] {
            let told = missing.with(&trace, &blocks);
            assert_eq!(told.len(), blocks.len());
            for (lost, block) in told.iter().zip(&blocks) {
                let h = &block.entry.header;
                assert_eq!((lost.cause, lost.from_ns, lost.to_ns), (DAMAGED, h.ts_min, h.ts_max));
            }
        }
    }
}
