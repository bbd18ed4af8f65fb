//! Whether anything is known of who ran and who waited, on the hosts that a timeline is of.

use ingero_analyze::Losses;
use ingero_format::Trace;
use ingero_format::catalog::{Body, Kind, TaskId};
use ingero_replay::scene::Cast;
use ingero_replay::{DAMAGED, Event, Host, Hosts, Window};

use crate::recording::Opened;

/// Why nothing is known of who ran and who waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unknown {
    /// No context switch was recorded.
    Unrecorded,
    /// All switches of the range are lost.
    Lost,
    /// The host's own recording does not reach into the range.
    Apart,
}

/// Of which hosts a timeline is, and of which of them states are known.
pub(super) struct Knowledge {
    hosts: Hosts,
    /// Those whose threads, or whose CPU, are asked for.
    wanted: Vec<usize>,
    /// Those of which a context switch was recorded.
    switched: Vec<usize>,
}

impl Knowledge {
    pub(super) fn new(opened: &Opened, cast: &Cast) -> Self {
        let (trace, hosts) = (&opened.trace, Hosts::new(&opened.trace));
        let mut wanted: Vec<usize> = match cast {
            Cast::All => (0..hosts.count()).collect(),
            Cast::Cpu(cpu) => vec![hosts.of_cpu(*cpu)],
            Cast::Tasks(tasks) => {
                let tasks = (0..).map(TaskId).zip(tasks).filter(|(_, wanted)| **wanted);
                tasks.map(|(task, _)| hosts.of_task(trace, task)).collect()
            }
        };
        wanted.sort_unstable();
        wanted.dedup();
        let has = trace.has_rows(Kind::Switch as u16);
        // Of one host the heads of the blocks tell, whether they can be read or not.
        let switched = if has && !hosts.are_several() { vec![0] } else { Vec::new() };
        Self { hosts, wanted, switched }
    }

    pub(super) fn event(&mut self, event: &Event) {
        if self.switched.len() < self.hosts.count() && matches!(event.body, Body::Switch(_)) {
            let host = self.hosts.of_cpu(event.cpu);
            if !self.switched.contains(&host) {
                self.switched.push(host);
            }
        }
    }

    /// Why nothing is known of what was asked for in a range; none where something is.
    pub(super) fn nothing(&self, opened: &Opened, losses: &Losses, window: Window) -> Option<Unknown> {
        let to_ns = window.to_ns.min(window.trace_end_ns);
        let mut why = None;
        for &host in &self.wanted {
            let apart = |own: &Host| own.span_ns.0 > to_ns || own.span_ns.1 < window.from_ns;
            why = Some(match () {
                () if self.hosts.get(host).is_some_and(apart) => Unknown::Apart,
                () if losses.hides_states(&opened.trace, host, window.from_ns, to_ns) => Unknown::Lost,
                () if !self.hosts.are_several() && none_is_left(&opened.trace, losses) => Unknown::Lost,
                () if !self.switched.contains(&host) => Unknown::Unrecorded,
                () => return None,
            });
        }
        why
    }
}

/// Whether switches were recorded, of which none can be read: nothing is known then of the time beside them either.
fn none_is_left(trace: &Trace, losses: &Losses) -> bool {
    let of_kind = trace.blocks().iter().filter(|b| b.header.kind == Kind::Switch as u16);
    let rows = of_kind.map(|b| u64::from(b.header.rows)).fold(0, u64::saturating_add);
    let name = trace.kind_name(Kind::Switch as u16);
    let unread = losses.parts.iter().filter(|l| l.cause == DAMAGED && l.what == name).filter_map(|l| l.count);
    rows > 0 && unread.fold(0, u64::saturating_add) >= rows
}
