//! Which CPUs each thread may use, and what it loses by not using others.

use std::collections::HashMap;

use ingero_format::Trace;
use ingero_format::catalog::{StrId, TaskId};
use ingero_replay::{Cpus, Hosts};

use crate::spans::common;

/// The CPUs that a thread may use.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mask {
    /// The lowest of them. In a recording of several hosts a list is of the CPUs of one of them, which may begin at any number.
    first: u32,
    /// Those from it on.
    cpus: Vec<bool>,
    /// How many of them follow one another from the first on.
    in_a_row: u32,
}

impl Mask {
    /// Reads a list as the kernel writes it: `0-3,8`. None where it is something else.
    fn parse(text: &str) -> Option<Self> {
        const MOST: usize = 1 << 14;
        let mut ranges = Vec::new();
        for part in text.split(',').filter(|p| !p.is_empty()) {
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            ranges.push((from.trim().parse::<u32>().ok()?, to.trim().parse::<u32>().ok()?));
        }
        let first = ranges.iter().map(|(from, _)| *from).min().unwrap_or(0);
        let mut cpus = Vec::new();
        for (from, to) in ranges {
            let (from, to) = ((from - first) as usize, to.checked_sub(first)? as usize);
            if to >= MOST || from > to {
                return None;
            }
            if cpus.len() <= to {
                cpus.resize(to + 1, false);
            }
            cpus.get_mut(from..=to)?.fill(true);
        }
        let in_a_row = cpus.iter().take_while(|&&cpu| cpu).count();
        Some(Self { first, cpus, in_a_row: u32::try_from(in_a_row).unwrap_or(u32::MAX) })
    }

    fn allows(&self, cpu: u32) -> bool {
        let place = cpu.checked_sub(self.first);
        place.and_then(|at| self.cpus.get(at as usize)).copied().unwrap_or(false)
    }
}

/// What is known of all threads' CPUs at a moment of the walk.
#[derive(Debug, Default)]
pub(crate) struct Affinities {
    /// Where the CPUs of each host begin, in order; nothing in a recording of one.
    hosts: Vec<u32>,
    /// The masks of the trace; none for a text that is none.
    masks: Vec<Option<Mask>>,
    /// Their places, by text.
    places: HashMap<StrId, usize>,
    /// The place of each thread's mask, by the thread's number: a row may name one that the file does not have.
    of: Vec<Option<usize>>,
}

impl Affinities {
    pub(crate) fn new(trace: &Trace) -> Self {
        Self { hosts: Hosts::new(trace).cpu_bases(), of: vec![None; trace.tasks().len()], ..Self::default() }
    }

    /// The CPUs of the host whose CPUs a mask names: those of others are out of reach for everybody.
    fn of_host(&self, mask: &Mask, count: u32) -> std::ops::Range<u32> {
        let after = self.hosts.partition_point(|base| *base <= mask.first);
        let begin = after.checked_sub(1).and_then(|at| self.hosts.get(at)).copied().unwrap_or(0);
        begin..self.hosts.get(after).copied().unwrap_or(count).min(count)
    }

    pub(crate) fn binds(&mut self, task: TaskId, cpus: StrId, text: &str) {
        let masks = &mut self.masks;
        let place = *self.places.entry(cpus).or_insert_with(|| {
            masks.push(Mask::parse(text));
            masks.len() - 1
        });
        self.set(task, Some(place));
    }

    /// A newborn has the CPUs of its parent.
    pub(crate) fn born(&mut self, child: TaskId, parent: TaskId) {
        if let Some(place) = self.of.get(parent.index()).copied().flatten() {
            self.set(child, Some(place));
        }
    }

    fn set(&mut self, task: TaskId, place: Option<usize>) {
        if let Some(slot) = self.of.get_mut(task.index()) {
            *slot = place;
        }
    }

    fn mask(&self, task: TaskId) -> Option<&Mask> {
        let place = self.of.get(task.index()).copied().flatten()?;
        self.masks.get(place)?.as_ref()
    }

    /// The part of `from..to`, in which the thread could have run and did not, in which another CPU was idle that it
    /// may not use.
    pub(crate) fn squeezed_ns(&self, task: TaskId, cpus: &Cpus, from: u64, to: u64) -> u64 {
        crate::sum(self.squeezed(task, cpus, from, to).iter().map(|(a, b)| b - a))
    }

    /// The same as stretches, in order.
    pub(crate) fn squeezed(&self, task: TaskId, cpus: &Cpus, from: u64, to: u64) -> Vec<(u64, u64)> {
        let Some(mask) = self.mask(task).filter(|_| to > from) else { return Vec::new() };
        let of_host = self.of_host(mask, cpus.count());
        // Nearly everybody may use all of them.
        if mask.first <= of_host.start && mask.first.saturating_add(mask.in_a_row) >= of_host.end {
            return Vec::new();
        }
        let mut others = of_host.filter(|&cpu| !mask.allows(cpu) && cpus.is_seen(cpu)).peekable();
        if others.peek().is_none() {
            return Vec::new();
        }
        // What is left of the stretch in which every CPU so far was taken.
        let mut taken = vec![(from, to)];
        let mut held = Vec::new();
        for cpu in others {
            held.clear();
            cpus.stretches(cpu, from, to, |_, start, end| held.push((start, end)));
            held.reverse();
            taken = common(&taken, &held);
            if taken.is_empty() {
                break;
            }
        }
        let mut idle = Vec::new();
        let mut at = from;
        for (a, b) in taken {
            if a > at {
                idle.push((at, a));
            }
            at = at.max(b);
        }
        if at < to {
            idle.push((at, to));
        }
        idle
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ingero_format::catalog::Switch;
    use ingero_replay::fixture::Fixture;
    use ingero_replay::{OffCpu, Sink, Timeline};

    #[test]
    fn lists_of_cpus_are_read() {
        let allowed = |text: &str| Mask::parse(text).map(|m| (0..12).filter(|&c| m.allows(c)).collect::<Vec<u32>>());
        assert_eq!(allowed("0-2,8"), Some(vec![0, 1, 2, 8]));
        assert_eq!(allowed("3"), Some(vec![3]));
        assert_eq!(allowed(""), Some(vec![]));
        assert_eq!(allowed("8,0-2"), allowed("0-2,8"));
        let far = Mask::parse("4000000-4000003,4000008").unwrap();
        assert_eq!([3_999_999, 4_000_000, 4_000_004, 4_000_008].map(|c| far.allows(c)), [false, true, false, true]);
        for text in ["x", "3-1", "0-99999999", "-"] {
            assert_eq!(allowed(text), None, "{text}");
        }
    }

    struct Squeezed(Affinities, u64);

    impl Sink for Squeezed {
        fn off_cpu(&mut self, stay: &OffCpu, cpus: &Cpus) {
            if let (Some(from), Some((_, to))) = (stay.runnable_ns, stay.back) {
                self.1 += self.0.squeezed_ns(stay.task, cpus, from, to);
            }
        }
    }

    #[test]
    fn a_wait_is_squeezed_while_a_cpu_idles_that_may_not_be_used() {
        let mut f = Fixture::new();
        let (a, b, c) = (f.task(1, 1), f.task(2, 2), f.task(3, 3));
        let idle = TaskId(0);
        f.switch(10, 0, idle, 0, a);
        f.switch(20, 1, idle, 0, c);
        f.switch(100, 0, a, 0x100, b);
        // CPU 1 idles from 300 to 600.
        f.switch(300, 1, c, 1, idle);
        f.switch(600, 1, idle, 0, c);
        f.switch(900, 0, b, 1, a);
        let event = Switch {
            prev: c,
            prev_state: 1,
            prev_prio: None,
            next: idle,
            next_prio: None,
            syscall: None,
            throttled: None,
        };
        f.push(950, 1, event);
        let trace = f.finish();
        // A CPU of another host is none that it could have used.
        let own = [("0", &[][..], 300), ("0-1", &[], 0), ("1", &[], 0), ("0", &[0, 2], 300), ("0", &[0, 1], 0)];
        for (cpus, hosts, expected) in own {
            let affinities = Affinities { hosts: hosts.to_vec(), ..Affinities::new(&trace) };
            let mut sink = Squeezed(affinities, 0);
            sink.0.binds(a, StrId(7), cpus);
            let _ = Timeline::new(&trace).run(&mut sink);
            assert_eq!(sink.1, expected, "{cpus} {hosts:?}");
        }
    }
}
