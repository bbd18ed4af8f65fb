//! The interpreter lock: the submitting thread waits for other threads of its process to let go of it.
//!
//! `CPython` lets a thread wait 5 ms for the lock before it asks the holder to hand it over, so timed waits of 4.5 to
//! 5.6 ms that run out are its trace. Lost time: those waits, and as much again at most of what other threads of the
//! process ran while the submitting thread waited for them: the holder lets go soon after it is asked, so what it
//! runs beyond that is a hand-over. Must not fire for other timed waits.

use super::case::{Case, Group};
use super::{Incident, Layer, seconds};
use crate::chain::{Ending, Part};

/// What other threads of the process ran with the lock.
pub(super) fn held_ns(case: &Case) -> u64 {
    case.of(Group::Own).ran_ns.min(case.of(Group::Submitter).ended_ns(Ending::LockInterval))
}

pub(super) fn find(case: &Case) -> Option<Incident> {
    let timed = case.of(Group::Submitter).ended_ns(Ending::LockInterval);
    let lost_ns = timed.saturating_add(held_ns(case));
    let mut incident = case.incident("interpreter-lock", "the interpreter lock", lost_ns)?;
    incident.summary = format!(
        "{} lost {} to its interpreter lock: its submitting thread waited {} in steps of 5 ms for other threads to hand it over, which ran on for {}",
        case.label(),
        incident.lost(),
        seconds(timed),
        seconds(held_ns(case))
    );
    incident.root_cause =
        "another thread of the process computes in the interpreter, and gives up the lock only when asked, every 5 ms"
            .into();
    incident.recommendations = vec![
        "move the other thread's work into a process of its own".into(),
        "shorten the interval (sys.setswitchinterval), or use library calls that release the lock".into(),
    ];
    // What the others ran is in part a hand-over, and shows there: these waits are of the lock and of nothing else.
    let part = |group, link: &crate::Link| match group {
        Group::Submitter => link.ended(Ending::LockInterval),
        _ => Part::default(),
    };
    case.show(&mut incident, Layer::Host, "waited for the interpreter lock", part);
    case.show_longest_gap(&mut incident);
    Some(incident)
}
