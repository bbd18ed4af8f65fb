//! The figures of a range, as `ingero-analyze --format json` gives them.
//!
//! What the contract may leave open is open here: a source that cannot know a figure has null.

pub(crate) use ingero_analyze::report::{Behind, OffCpu, Op, PageAllocs, Range};
pub(crate) use ingero_analyze::{AtLeast, Busy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::problem::Problem;
use crate::words::{NAME_CHARS, Quoter, SENTENCE_CHARS, clean};

/// Sentences about what the recording cannot show at most, and how many of them are the last ones.
const MAX_CAVEATS: usize = 20;
const LAST_CAVEATS: usize = 5;

/// The report `ingero-analyze/1`.
#[derive(Debug, Deserialize)]
pub(crate) struct Figures {
    pub(crate) trace: TraceHead,
    pub(crate) range: Range,
    pub(crate) at_least: AtLeast,
    pub(crate) phases: Vec<Phase>,
    pub(crate) processes: Vec<Process>,
    pub(crate) incidents: Vec<Incident>,
    pub(crate) losses: Vec<Loss>,
    pub(crate) caveats: Vec<String>,
}

/// What to put before a figure.
pub(crate) fn least(at_least: bool) -> &'static str {
    if at_least { "at least " } else { "" }
}

/// The recording as a whole.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
pub(crate) struct TraceHead {
    /// Length of the recording.
    pub(crate) duration_ns: u64,
    /// Wall-clock time of its start, Unix nanoseconds; null where the source does not know.
    pub(crate) start_unix_ns: Option<u64>,
    /// Events in it.
    pub(crate) events: u64,
    /// Events that were lost; null where nobody counted them.
    pub(crate) lost_events: Option<u64>,
    /// Whether it ends as it should.
    pub(crate) complete: bool,
    /// Whether the source kept a sample of the events only.
    pub(crate) sampled: bool,
    /// Kernel release.
    pub(crate) kernel: Option<String>,
    /// CPUs of the machine.
    pub(crate) cpus: Option<u64>,
}

/// A stretch of one behaviour of one process.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
pub(crate) struct Phase {
    /// Number, as chains name it.
    pub(crate) id: u64,
    /// What it is.
    pub(crate) label: String,
    /// Process.
    pub(crate) pid: u32,
    /// Its name: data from the recording.
    #[serde(default)]
    pub(crate) process: String,
    /// Begin, from the recording's start.
    pub(crate) start_ns: u64,
    /// End.
    pub(crate) end_ns: u64,
    /// Launches and copies to the device.
    #[serde(default)]
    pub(crate) submissions: Option<u64>,
    /// The times between them, in which the GPU was given nothing new to do.
    pub(crate) gaps: Gaps,
    /// Stretches in which events were lost: nothing in them counts in the gaps, and no claim is made of them. At most twenty.
    #[serde(default)]
    pub(crate) unclaimed: Vec<Range>,
    /// Length of all of them. Where it is that of the phase, nothing can be said of it.
    #[serde(default)]
    pub(crate) unclaimed_ns: u64,
    /// What a sample can say of the phase; null where every event was recorded.
    #[serde(default)]
    pub(crate) sample: Option<SampledPhase>,
    /// Where nothing was asked of a GPU: what the main thread did; null elsewhere, and where it is not known.
    #[serde(default)]
    pub(crate) silence: Option<Silence>,
    /// How busy the GPU was by its own count; null where that is not known.
    #[serde(default)]
    pub(crate) busy: Option<Busy>,
}

/// What the main thread of a process did in a phase in which nothing was asked of a GPU.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
pub(crate) struct Silence {
    /// The thread.
    pub(crate) tid: u32,
    /// It ran.
    pub(crate) running_ns: u64,
    /// It could have run and had no CPU.
    pub(crate) runnable_ns: u64,
    /// It was held back by a CPU quota; null where the kernel does not tell.
    pub(crate) throttled_ns: Option<u64>,
    /// It waited for something else.
    pub(crate) blocked_ns: u64,
}

/// A phase of a recording that holds a sample of what happened.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
pub(crate) struct SampledPhase {
    /// Sentences, with the bounds that the stored events and the totals give.
    pub(crate) summary: Vec<String>,
}

/// The gaps between submissions of a phase, and what the submitting thread did in them.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
pub(crate) struct Gaps {
    /// How many; null where the recording is a sample, which does not hold every submission.
    pub(crate) count: Option<u64>,
    /// How long in all; null likewise.
    pub(crate) sum_ns: Option<u64>,
    /// The same as a share of the phase without what is unclaimed: how starved the GPU was, seen from the host; null
    /// likewise, where all of it is unclaimed, where nothing was asked of a GPU, and of a start-up.
    pub(crate) share: Option<f64>,
    /// Of them, those of 50 us and more: only these count as lost time; null likewise.
    pub(crate) lost_count: Option<u64>,
    /// How long those last in all; null likewise.
    pub(crate) lost_ns: Option<u64>,
    /// Of all gaps: it ran.
    #[serde(default)]
    pub(crate) running_ns: Option<u64>,
    /// It could have run and had no CPU.
    #[serde(default)]
    pub(crate) runnable_ns: Option<u64>,
    /// It was held back by a CPU quota; null where the kernel does not tell.
    #[serde(default)]
    pub(crate) throttled_ns: Option<u64>,
    /// It waited for something else.
    #[serde(default)]
    pub(crate) blocked_ns: Option<u64>,
}

/// One process. Its figures are never mixed with those of another.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
pub(crate) struct Process {
    /// Process id.
    pub(crate) pid: u32,
    /// Name at the end of the range: data from the recording.
    pub(crate) name: String,
    /// Process id of its parent.
    pub(crate) parent_pid: Option<u32>,
    /// Threads that were seen.
    pub(crate) threads: u64,
    /// Which of its figures are the least that there was: in a recording of several hosts only those of the hosts that lost something.
    pub(crate) at_least: AtLeast,
    /// Switch-outs of its threads.
    pub(crate) context_switches: Option<u64>,
    /// Time its threads were off their CPUs.
    pub(crate) off_cpu: OffCpu,
    /// Who was on the CPUs that its threads could have run on, largest first.
    pub(crate) runnable_behind: Vec<Behind>,
    /// Time its threads ran, added up.
    pub(crate) on_cpu_ns: Option<u64>,
    /// Pages handed out to it.
    pub(crate) page_allocs: PageAllocs,
    /// Its calls by function.
    pub(crate) ops: Vec<Op>,
    /// Executable.
    #[serde(default)]
    pub(crate) exe: Option<String>,
    /// Command line: data from the recording.
    #[serde(default)]
    pub(crate) args: Option<String>,
}

/// One cause of lost time, of one process in one phase.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
pub(crate) struct Incident {
    /// A name that stays the same from run to run over the same recording.
    pub(crate) id: String,
    /// HIGH from 20 % of the phase, MEDIUM from 5 %, LOW below.
    pub(crate) severity: String,
    /// Kind of cause.
    pub(crate) kind: String,
    /// Process that lost the time.
    pub(crate) pid: u32,
    /// Its name: data from the recording.
    pub(crate) process: String,
    /// Number of the phase.
    pub(crate) phase: u64,
    /// Function that it is about, if it is about one.
    pub(crate) op: Option<String>,
    /// Wall-clock time lost.
    pub(crate) lost_ns: u64,
    /// Whether that is the most that may have been lost: what the GPU did meanwhile is not in the recording.
    pub(crate) at_most: bool,
    /// The same as a share of the phase.
    pub(crate) share: f64,
    /// One line about it.
    pub(crate) summary: String,
    /// What brought it about.
    pub(crate) root_cause: String,
    /// What to do, as far as the cause tells. There is no other advice.
    pub(crate) recommendations: Vec<String>,
    /// What happened, by layer and time.
    pub(crate) timeline: Vec<Moment>,
    /// Where to look: give tid, from and to to `get_timeline`.
    pub(crate) evidence: Vec<Evidence>,
}

/// One moment of a chain.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
pub(crate) struct Moment {
    /// SYSTEM, HOST, RUNTIME or DRIVER.
    pub(crate) layer: String,
    /// What was the case.
    pub(crate) detail: String,
    /// From when on.
    pub(crate) start_ns: u64,
    /// Until when.
    pub(crate) end_ns: u64,
    /// Process.
    pub(crate) pid: u32,
    /// Thread.
    pub(crate) tid: u32,
}

/// Something that can be looked up.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
pub(crate) struct Evidence {
    /// What is to be seen.
    pub(crate) what: String,
    /// Process.
    pub(crate) pid: u32,
    /// Thread.
    pub(crate) tid: u32,
    /// From when on.
    pub(crate) start_ns: u64,
    /// Until when.
    pub(crate) end_ns: u64,
}

/// Events of one kind, lost for one cause.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
pub(crate) struct Loss {
    /// What lost them.
    pub(crate) probe: String,
    /// Why.
    pub(crate) cause: String,
    /// The host that they are of, in a recording of several; none where they may be of any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) host: Option<String>,
    /// How many, as far as they were counted.
    pub(crate) count: u64,
    /// Whether there may be more.
    pub(crate) uncounted: bool,
    /// First instant of any such loss.
    pub(crate) from_ns: u64,
    /// Last instant.
    pub(crate) to_ns: u64,
}

/// Unclaimed stretches of a phase that are told one by one.
const MAX_UNCLAIMED: usize = 20;

impl Phase {
    /// Its length.
    pub(crate) fn len_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// Whether events were lost in all of it.
    pub(crate) fn is_unclaimed(&self) -> bool {
        self.unclaimed_ns > 0 && self.unclaimed_ns >= self.len_ns()
    }

    /// Adds up what no claim is made of; where that is all of the phase, its figures are none.
    fn withhold(&mut self) {
        let lengths = self.unclaimed.iter().map(|r| r.to_ns.saturating_sub(r.from_ns));
        self.unclaimed_ns = lengths.fold(0, u64::saturating_add);
        self.unclaimed.truncate(MAX_UNCLAIMED);
        if self.is_unclaimed() {
            self.gaps = Gaps::default();
        }
    }
}

impl Figures {
    /// Events that were lost, in words; none where none was.
    pub(crate) fn lost(&self) -> Option<String> {
        let uncounted = self.losses.iter().any(|l| l.uncounted);
        match self.trace.lost_events {
            Some(0) => None,
            Some(n) => Some(format!("{}{}", least(uncounted), ingero_analyze::report::count(n))),
            None => Some("an unknown number".to_owned()),
        }
    }

    /// Reads a report, and makes its names and sentences fit for an assistant.
    pub(crate) fn new(json: &str, quoter: &Quoter) -> Result<Self, Problem> {
        let mut this: Self =
            serde_json::from_str(json).map_err(|e| Problem::new(format!("cannot read the analysis: {e}")))?;
        let name = |text: &mut String| *text = clean(text, NAME_CHARS);
        let long = |text: &mut String| *text = clean(text, SENTENCE_CHARS);
        let sentence = |text: &mut String| *text = quoter.sentence(text);
        this.trace.kernel.iter_mut().for_each(name);
        for phase in &mut this.phases {
            name(&mut phase.process);
            sentence(&mut phase.label);
            phase.withhold();
        }
        for process in &mut this.processes {
            name(&mut process.name);
            process.exe.iter_mut().for_each(long);
            process.args.iter_mut().for_each(long);
            process.runnable_behind.iter_mut().for_each(|b| name(&mut b.name));
            process.ops.iter_mut().for_each(|op| name(&mut op.name));
        }
        for incident in &mut this.incidents {
            name(&mut incident.process);
            incident.op.iter_mut().for_each(name);
            for text in [&mut incident.id, &mut incident.summary, &mut incident.root_cause] {
                sentence(text);
            }
            incident.recommendations.iter_mut().for_each(sentence);
            incident.timeline.iter_mut().for_each(|m| sentence(&mut m.detail));
            incident.evidence.iter_mut().for_each(|e| sentence(&mut e.what));
        }
        this.losses.iter_mut().for_each(|l| name(&mut l.probe));
        this.losses.iter_mut().filter_map(|l| l.host.as_mut()).for_each(name);
        // A damaged file has any number of them; what a whole file has stands at the end.
        if let Some(more) = this.caveats.len().checked_sub(MAX_CAVEATS).filter(|&more| more > 0) {
            let first = MAX_CAVEATS - LAST_CAVEATS;
            let left_out = format!("{} more notes of losses and damage are left out", more + 1);
            this.caveats.splice(first - 1..first + more, [left_out]);
        }
        this.caveats.iter_mut().for_each(sentence);
        Ok(this)
    }
}
