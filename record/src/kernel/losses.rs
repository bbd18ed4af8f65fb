//! What the programs could not record.

use std::{
    fmt,
    os::fd::{AsFd, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use ingero_ebpf_common::{Kind, LossCell};

use super::{Error, cpus, sys};

/// Records of one kind that were lost since the last look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// What was lost.
    pub kind: Kind,
    /// Where; `None` when the kernel does not tell.
    pub cpu: Option<u32>,
    /// Why, and what that means.
    pub cause: LossCause,
    /// How many.
    pub count: u64,
    /// `CLOCK_MONOTONIC` of the first one. Where that is not known: of the look before.
    pub first_ns: u64,
    /// `CLOCK_MONOTONIC` of the last one. Where that is not known: of this look.
    pub last_ns: u64,
}

/// Why something was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LossCause {
    /// The ring had no room: the record is missing.
    RingFull,
    /// A map had no room. For [`Kind::CallReturn`] an out value is missing, for [`Kind::Fork`] a newborn
    /// process is not followed; the record itself is there.
    MapFull,
    /// The kernel skipped the program because it was running on that CPU already: the record is missing.
    Recursion,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cause = match self.cause {
            LossCause::RingFull => "ring full",
            LossCause::MapFull => "map full",
            LossCause::Recursion => "probe skipped by the kernel",
        };
        write!(f, "lost {} {:?}", self.count, self.kind)?;
        if let Some(cpu) = self.cpu {
            write!(f, " on CPU {cpu}")?;
        }
        write!(f, " from {} to {} ns: {cause}", self.first_ns, self.last_ns)
    }
}

/// Losses of the mapping watch, which its reader counts.
pub(super) type Overruns = Arc<AtomicU64>;

/// Remembers what was reported.
#[derive(Debug)]
pub(super) struct Losses {
    cells: OwnedFd,
    look: OwnedFd,
    /// Number of the current look, as the programs see it.
    looks: u64,
    looked_ns: u64,
    cpus: usize,
    reported: Vec<LossCell>,
    /// Programs, whose skipped runs the kernel counts, with what was reported of them.
    programs: Vec<(Kind, OwnedFd, u64)>,
    overruns: Overruns,
}

impl Losses {
    pub(super) fn new(cells: OwnedFd, look: OwnedFd, overruns: Overruns) -> Result<Self, Error> {
        let cpus = cpus::possible()?.into_iter().max().map_or(1, |last| last as usize + 1);
        let reported = vec![LossCell::default(); cpus * Kind::COUNT];
        let looked_ns = sys::monotonic_ns();
        let mut losses = Self { cells, look, looks: 0, looked_ns, cpus, reported, programs: Vec::new(), overruns };
        losses.begin_look()?;
        Ok(losses)
    }

    /// Also reports runs of this program that the kernel skipped.
    pub(super) fn watch(&mut self, kind: Kind, program: &OwnedFd) -> Result<(), Error> {
        let program = program.try_clone().map_err(|source| Error::os("duplicating a program", source))?;
        self.programs.push((kind, program, 0));
        Ok(())
    }

    /// From now on the programs note a first loss anew.
    fn begin_look(&mut self) -> Result<(), Error> {
        self.looks += 1;
        sys::map_update(self.look.as_fd(), &0_u32, bytemuck::bytes_of(&self.looks))
            .map_err(|source| Error::os("numbering a look at the losses", source))
    }

    /// What was lost since the last call.
    pub(super) fn take(&mut self) -> Result<Vec<Loss>, Error> {
        let mut losses = Vec::new();
        let now_ns = sys::monotonic_ns();
        let mut cells = vec![LossCell::default(); self.cpus];
        for (kind, reported) in Kind::all().zip(self.reported.chunks_mut(self.cpus)) {
            sys::map_lookup(self.cells.as_fd(), &(kind as u32), bytemuck::cast_slice_mut(&mut cells))
                .map_err(|source| Error::os("reading the losses", source))?;
            for ((cpu, cell), before) in (0..).zip(&cells).zip(reported) {
                compare(kind, cpu, before, cell, self.looked_ns, &mut losses);
                *before = *cell;
            }
        }
        // A loss between reading and this is reported next time, with a range that may begin too late by
        // that moment.
        self.begin_look()?;
        for (kind, program, before) in &mut self.programs {
            let misses = sys::prog_recursion_misses(program.as_fd())
                .map_err(|source| Error::os("reading a program's counters", source))?;
            let range = (self.looked_ns, now_ns);
            push(&mut losses, *kind, None, LossCause::Recursion, misses.saturating_sub(*before), range);
            *before = misses;
        }
        let overruns = self.overruns.swap(0, Ordering::Relaxed);
        push(&mut losses, Kind::Mapped, None, LossCause::RingFull, overruns, (self.looked_ns, now_ns));
        self.looked_ns = now_ns;
        Ok(losses)
    }
}

fn compare(kind: Kind, cpu: u32, before: &LossCell, now: &LossCell, looked_ns: u64, losses: &mut Vec<Loss>) {
    // A cell that is still in an older range began it before the last look.
    let first_ns = if now.look == before.look { looked_ns } else { now.first_ns };
    let range = (first_ns, now.last_ns.max(first_ns));
    for (cause, count) in [
        (LossCause::RingFull, now.ring_full.saturating_sub(before.ring_full)),
        (LossCause::MapFull, now.map_full.saturating_sub(before.map_full)),
    ] {
        push(losses, kind, Some(cpu), cause, count, range);
    }
}

fn push(
    losses: &mut Vec<Loss>,
    kind: Kind,
    cpu: Option<u32>,
    cause: LossCause,
    count: u64,
    (first_ns, last_ns): (u64, u64),
) {
    if count > 0 {
        losses.push(Loss { kind, cpu, cause, count, first_ns, last_ns });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_new_is_reported() {
        let cell =
            |ring_full, map_full, first_ns, last_ns, look| LossCell { ring_full, map_full, first_ns, last_ns, look };
        let mut losses = Vec::new();
        compare(Kind::Switch, 3, &cell(5, 0, 10, 20, 1), &cell(5, 0, 10, 20, 1), 100, &mut losses);
        assert_eq!(losses, []);
        compare(Kind::Switch, 3, &cell(5, 0, 10, 20, 1), &cell(9, 1, 110, 120, 2), 100, &mut losses);
        let loss = |cause, count| Loss { kind: Kind::Switch, cpu: Some(3), cause, count, first_ns: 110, last_ns: 120 };
        assert_eq!(losses, [loss(LossCause::RingFull, 4), loss(LossCause::MapFull, 1)]);
        assert_eq!(losses[0].to_string(), "lost 4 Switch on CPU 3 from 110 to 120 ns: ring full");
    }
}
