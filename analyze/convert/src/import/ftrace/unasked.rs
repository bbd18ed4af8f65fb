//! What is missing because nobody asked for it: neither a ring nor a file says that it is lost.

use super::event::{KernelEvent, KernelName};

/// A CPU without an event on which threads were woken so often was not recorded.
const WOKEN_UNSEEN: u64 = 8;
/// Of what perf records of a whole machine about one switch in a hundred does not follow from the one before on its CPU, of some threads
/// alone one in five or more. Fewer switches than this say nothing.
const FEWEST_SWITCHES: u64 = 32;
const FOLLOWS_NOT: u64 = 8;
/// More CPUs than any machine has: a number beyond is broken.
const CPUS: usize = 1 << 13;

/// Events that nobody asked for: they are in no text and no file, and what hangs on them is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unasked {
    /// Why, as a sentence has it.
    pub(crate) why: String,
    of: Whose,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Whose {
    Threads,
    Cpus,
    Kind(String),
}

impl Unasked {
    /// Those of threads that were not recorded: their switches and wakes above all.
    pub(crate) fn threads(why: &str) -> Self {
        Self { why: why.to_owned(), of: Whose::Threads }
    }

    /// Those on CPUs that were not recorded, whatever they are.
    pub(crate) fn cpus(why: String) -> Self {
        Self { why, of: Whose::Cpus }
    }

    /// Those of one event that was counted, of which one of several was recorded.
    pub(crate) fn thinned(event: &str) -> Self {
        let bare = event.rsplit(':').next().unwrap_or(event);
        let kind = if KernelName::from_name(bare.as_bytes()).is_some() { bare } else { "call" };
        Self { why: format!("perf recorded some {event} alone (-c, -F)"), of: Whose::Kind(kind.to_owned()) }
    }

    /// What it means, as a sentence.
    pub(crate) fn note(&self) -> String {
        let hidden = match &self.of {
            Whose::Threads => {
                "since when threads could run, and who had the CPUs, is not known; record with perf record -a"
            }
            Whose::Cpus => "who ran, who waited and who was in which call is not known; record all of them",
            Whose::Kind(_) => "what hangs on them is not known; record each",
        };
        format!("{}: {hidden}", self.why)
    }
}

/// What events say of others that there must be.
#[derive(Debug, Default)]
pub(crate) struct Expected {
    /// Switches behind another on their CPU, and those that do not follow from it.
    behind: u64,
    breaks: u64,
    /// Switches from the idle task: it is of no process, and whoever records processes alone never sees it leave.
    idle_left: u64,
    /// By CPU: wakes that name it as the one to run on.
    woken_on: Vec<u64>,
    /// Kinds of events that were recorded and that others cause too.
    kinds: Vec<&'static str>,
}

impl Expected {
    /// Takes an event, on a CPU on which the switch before put `on_cpu`.
    pub(super) fn note(&mut self, on_cpu: Option<u32>, event: &KernelEvent) {
        let kind = match event {
            KernelEvent::Switch { prev, .. } => {
                self.behind += u64::from(on_cpu.is_some());
                self.breaks += u64::from(on_cpu.is_some_and(|tid| tid != prev.tid));
                self.idle_left += u64::from(prev.tid == 0);
                SWITCH
            }
            KernelEvent::Waking { target_cpu, .. } => {
                self.woken(*target_cpu);
                "sched_waking"
            }
            KernelEvent::Wakeup { target_cpu, .. } => {
                self.woken(*target_cpu);
                "sched_wakeup"
            }
            KernelEvent::WakeupNew { .. } => "sched_wakeup_new",
            KernelEvent::PageAlloc { .. } => "mm_page_alloc",
            KernelEvent::BlockIssue { .. } => "block_rq_issue",
            KernelEvent::BlockComplete { .. } => "block_rq_complete",
            _ => return,
        };
        if !self.kinds.contains(&kind) {
            self.kinds.push(kind);
        }
    }

    fn woken(&mut self, cpu: u64) {
        let Some(cpu) = usize::try_from(cpu).ok().filter(|&cpu| cpu < CPUS) else { return };
        if self.woken_on.len() <= cpu {
            self.woken_on.resize(cpu + 1, 0);
        }
        if let Some(count) = self.woken_on.get_mut(cpu) {
            *count += 1;
        }
    }

    /// What the events themselves show to be missing, of a text that has events of the CPUs that are `seen`.
    pub(super) fn unasked(&self, seen: &[bool], is_perf: bool) -> Vec<Unasked> {
        if !self.kinds.contains(&SWITCH) {
            return Vec::new();
        }
        let unseen = |cpu: usize| !seen.get(cpu).copied().unwrap_or(false);
        let cpus =
            self.woken_on.iter().enumerate().filter(|(cpu, woken)| **woken >= WOKEN_UNSEEN && unseen(*cpu)).count();
        let mut all = Vec::new();
        if cpus > 0 {
            all.push(Unasked::cpus(format!(
                "CPUs on which threads were woken, and of which nothing was recorded: {cpus}"
            )));
        }
        let Self { behind, breaks, idle_left, .. } = *self;
        if is_perf && idle_left == 0 && behind >= FEWEST_SWITCHES && breaks.saturating_mul(FOLLOWS_NOT) > behind {
            all.push(Unasked::threads(&format!(
                "{breaks} of {behind} switches do not follow from the one before on their CPU, as where perf records some threads alone"
            )));
        }
        all
    }

    /// What is lost with it: kinds of events, or more than that.
    pub(super) fn missing(&self, unasked: &[Unasked]) -> Vec<String> {
        let mut missing: Vec<String> = Vec::new();
        for unasked in unasked {
            match &unasked.of {
                Whose::Threads => missing.extend(self.kinds.iter().map(|&kind| kind.to_owned())),
                Whose::Cpus => missing.push("other CPUs'".to_owned()),
                Whose::Kind(kind) => missing.push(kind.clone()),
            }
        }
        missing.sort();
        missing.dedup();
        missing
    }
}

/// The kind on which states hang.
const SWITCH: &str = "sched_switch";
