//! Wait chains in words.

use std::collections::BTreeMap;

use ingero_format::catalog::TaskId;
use ingero_replay::ProcessId;

use super::{duration, list};
use crate::Analysis;
use crate::chain::{Ending, Link};
use crate::figures::PhaseFigures;

/// Threads that a line names.
const NAMED: usize = 3;

/// What one thread did over all the time that it was waited for, wherever it stands in the chains.
#[derive(Debug, Clone, Default)]
struct Waited {
    ran_ns: u64,
    runnable_ns: u64,
    throttled_ns: u64,
    behind: BTreeMap<ProcessId, u64>,
    endings_ns: [u64; Ending::COUNT],
}

impl Waited {
    fn add(&mut self, link: &Link) {
        self.ran_ns = self.ran_ns.saturating_add(link.ran.ns);
        self.runnable_ns = self.runnable_ns.saturating_add(link.runnable.ns);
        self.throttled_ns = self.throttled_ns.saturating_add(link.throttled.ns);
        for (&id, &ns) in &link.behind {
            let held = self.behind.entry(id).or_default();
            *held = held.saturating_add(ns);
        }
        for (sum, part) in self.endings_ns.iter_mut().zip(link.endings) {
            *sum = sum.saturating_add(part.ns);
        }
    }

    fn all_ns(&self) -> u64 {
        let own = [self.ran_ns, self.runnable_ns, self.throttled_ns];
        crate::sum(own.into_iter().chain(self.endings_ns))
    }

    /// `ran 9.1 s, was runnable 12.7 s behind sh (538) and waited 2.2 s for disk`, the parts that matter.
    fn parts(&self, a: &Analysis) -> Vec<String> {
        let worth = |ns: u64| ns > 0 && ns.saturating_mul(50) >= self.all_ns();
        let mut parts = Vec::new();
        if worth(self.ran_ns) {
            parts.push(format!("ran {}", duration(self.ran_ns)));
        }
        if worth(self.runnable_ns) {
            let worst = self.behind.iter().max_by_key(|(id, ns)| (**ns, std::cmp::Reverse(**id)));
            let who = worst.map_or(String::new(), |(id, _)| format!(" behind {}", a.label(*id)));
            parts.push(format!("was runnable {}{who}", duration(self.runnable_ns)));
        }
        if worth(self.throttled_ns) {
            parts.push(format!("was throttled {}", duration(self.throttled_ns)));
        }
        for (ending, ns) in Ending::ALL.into_iter().zip(self.endings_ns).filter(|(_, ns)| worth(*ns)) {
            parts.push(format!("waited {} {}", duration(ns), ending.words()));
        }
        parts
    }
}

/// Whom a line names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    Thread(TaskId),
    Process(ProcessId),
}

impl Who {
    fn of(a: &Analysis, p: &PhaseFigures, link: &Link) -> Self {
        let process = a.processes.of(link.task);
        if process == p.phase.process { Self::Thread(link.task) } else { Self::Process(process) }
    }

    fn label(self, a: &Analysis) -> String {
        match self {
            // It has the name of its process.
            Self::Thread(task) if a.processes.get(a.processes.of(task)).leader == Some(task) => {
                "its main thread".to_owned()
            }
            // Names tell the threads of a process apart, or do not.
            Self::Thread(task) if a.thread_name(task) == a.name(a.processes.of(task)) => {
                format!("its thread {}", a.trace.task(task).tid)
            }
            Self::Thread(task) => a.thread_label(task),
            Self::Process(id) => a.label(id),
        }
    }
}

/// What those did that the submitting threads of a phase waited for, the longest first, and these themselves.
fn waited(a: &Analysis, p: &PhaseFigures) -> (Waited, Vec<(u64, Who, Waited)>) {
    let mut own = Waited::default();
    // Threads of the process itself stand for themselves, those of another for their process.
    let mut others: BTreeMap<Who, Waited> = BTreeMap::new();
    for (at, link) in p.chains.links() {
        if p.chains.is_root(at) { own.add(link) } else { others.entry(Who::of(a, p, link)).or_default().add(link) }
    }
    let mut others: Vec<_> = others.into_iter().map(|(who, w)| (w.all_ns(), who, w)).collect();
    others.sort_by_key(|(ns, who, _)| (std::cmp::Reverse(*ns), *who));
    (own, others)
}

/// What most of the wait of a phase's threads was for, with its time; none where nothing was half of it.
pub(super) fn most(a: &Analysis, p: &PhaseFigures) -> Option<(u64, String)> {
    let (own, others) = waited(a, p);
    let endings = Ending::ALL.into_iter().zip(own.endings_ns);
    // Of what it was not seen to do nobody knows that it was a wait.
    let endings: Vec<_> = endings.filter(|(ending, _)| *ending != Ending::Unseen).collect();
    let ended_ns = crate::sum(endings.iter().map(|(_, ns)| *ns));
    let all_ns = crate::sum(others.iter().map(|(ns, ..)| *ns)).saturating_add(ended_ns);
    let ended = endings.into_iter().map(|(ending, ns)| (ns, ending.words().to_owned()));
    let for_others = others.into_iter().map(|(ns, who, _)| (ns, format!("for {}", who.label(a))));
    let most = for_others.chain(ended).max_by_key(|(ns, _)| *ns);
    most.filter(|(ns, _)| *ns > 0 && ns.saturating_mul(2) >= all_ns)
}

/// What the submitting threads of a phase waited for, as one line that a person can repeat; none where they
/// hardly waited.
pub(super) fn line(a: &Analysis, p: &PhaseFigures) -> Option<String> {
    if !a.knows_states_of(p.phase.process) {
        return None;
    }
    let (own, others) = waited(a, p);
    let waited_ns = p.chains.all_ns().saturating_sub(own.ran_ns);
    if waited_ns.saturating_mul(100) < p.phase.len_ns() {
        return None;
    }
    let worth = |ns: u64| ns > 0 && ns.saturating_mul(50) >= waited_ns;
    let mut parts = Vec::new();
    for (ns, who, w) in others.iter().take(NAMED).filter(|(ns, ..)| worth(*ns)) {
        parts.push(format!("{} for {}, which {}", duration(*ns), who.label(a), list(w.parts(a))));
    }
    let rest: Vec<u64> = others.iter().skip(NAMED).map(|(ns, ..)| *ns).collect();
    let rest_ns = crate::sum(rest.iter().copied());
    if worth(rest_ns) {
        parts.push(format!("{} for {} more", duration(rest_ns), rest.len()));
    }
    if worth(own.runnable_ns) {
        let worst = own.behind.iter().max_by_key(|(id, ns)| (**ns, std::cmp::Reverse(**id)));
        let who = worst.map_or(String::new(), |(id, _)| format!(" behind {}", a.label(*id)));
        parts.push(format!("{} for a CPU{who}", duration(own.runnable_ns)));
    }
    if worth(own.throttled_ns) {
        parts.push(format!("{} throttled by a CPU quota", duration(own.throttled_ns)));
    }
    for (ending, ns) in Ending::ALL.into_iter().zip(own.endings_ns).filter(|(_, ns)| worth(*ns)) {
        parts.push(format!("{} {}", duration(ns), ending.words()));
    }
    let who = a.label(p.phase.process);
    Some(format!("{who} waited {}: {}", duration(waited_ns), parts.join("; ")))
}
