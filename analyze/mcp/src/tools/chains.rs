//! `get_causal_chains`: why time was lost.

use ingero_analyze::report::duration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::part::Part;
use super::stats::phase_words;
use super::{TypedTool, counted, heading, known_pid, notes, percent, seconds};
use crate::figures::{Evidence, Incident, Phase, Range};
use crate::page::{LeftOut, Paging};
use crate::problem::Problem;
use crate::shelf::Shelf;
use crate::words::quoted;

pub(super) struct Chains;

/// Which recording, which part, which chains.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Args {
    #[serde(flatten)]
    part: Part,
    /// Only chains of this process.
    pid: Option<u32>,
    /// Only chains at least so bad: LOW, MEDIUM or HIGH.
    severity: Option<String>,
    #[serde(flatten)]
    page: Paging,
}

/// Causes of lost time, worst first.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Output {
    /// Range that was analysed.
    range: Range,
    /// The chains, worst first.
    chains: Vec<Incident>,
    /// What was left out of the chains.
    left_out: LeftOut,
    /// The phases that the chains are of.
    phases: Vec<Phase>,
    /// What the recording cannot show.
    caveats: Vec<String>,
}

/// From the mildest on.
const SEVERITIES: [&str; 3] = ["LOW", "MEDIUM", "HIGH"];

fn rank(severity: &str) -> Option<usize> {
    SEVERITIES.iter().position(|known| known.eq_ignore_ascii_case(severity.trim()))
}

impl TypedTool for Chains {
    const NAME: &'static str = "get_causal_chains";
    const TITLE: &'static str = "Causes of lost time";
    const DESCRIPTION: &'static str = "Why the GPU had nothing to do: one chain per cause, process and phase, ranked by \
        lost wall-clock time, each with its share, what happened by layer, the root cause, advice that follows from it, \
        and evidence (tid, from, to) to look up. Call it for every question of the form why. Times of different chains \
        are not to be added up. To check a chain's evidence call get_timeline instead; for sizes without causes \
        get_trace_stats. No chain means that no rule found a cause, not that none exists.";
    type Args = Args;
    type Output = Output;

    fn answer(shelf: &Shelf, args: Args) -> Result<(Output, String), Problem> {
        let extract = args.part.open(shelf)?;
        args.pid.map(|pid| known_pid(&extract.opened, pid)).transpose()?;
        let least = match args.severity.as_deref() {
            None => 0,
            Some(text) => rank(text).ok_or_else(|| {
                Problem::new(format!("no severity is called {text:?}; there are {}", SEVERITIES.join(", ")))
            })?,
        };
        let figures = extract.figures()?;
        let wanted = |pid: u32| args.pid.is_none_or(|only| only == pid);
        let all = figures.incidents.iter().filter(|i| wanted(i.pid));
        let (milder, chains): (Vec<Incident>, Vec<Incident>) =
            all.cloned().partition(|i| rank(&i.severity).unwrap_or(0) < least);
        let phases: Vec<Phase> = figures.phases.iter().filter(|p| wanted(p.pid)).take(20).cloned().collect();
        let shown = args.page.asked()?.of(chains, words);

        let mut text = vec![heading(extract.name(), &figures)];
        text.extend(phases.iter().map(phase_words));
        text.push(match (shown.left_out.total_rows, milder.len()) {
            (0, 0) => "No chain: no rule found a cause of lost time in this range. Look at get_trace_stats and \
                       get_timeline before concluding anything."
                .to_owned(),
            (0, n) => format!("No chain of this severity; {n} milder."),
            (n, 0) => format!("{}, worst first:", counted(n, "chain")),
            (n, m) => format!("{}, worst first ({m} milder left out by severity):", counted(n, "chain")),
        });
        text.extend(shown.lines);
        text.extend(shown.left_out.sentence("chains"));
        text.extend(notes(&figures.caveats));
        let (range, caveats) = (figures.range.clone(), figures.caveats.clone());
        Ok((Output { range, chains: shown.rows, left_out: shown.left_out, phases, caveats }, text.join("\n")))
    }
}

fn words(i: &Incident) -> String {
    let mut out = vec![format!(
        "{} {}: {} lost {}{} ({} of phase {})",
        i.severity,
        i.id,
        quoted(&i.process),
        if i.at_most { "up to " } else { "" },
        duration(i.lost_ns),
        percent(i.share),
        i.phase
    )];
    out.push(format!("  summary: {}", i.summary));
    out.push(format!("  cause: {}", i.root_cause));
    out.extend(i.recommendations.iter().map(|r| format!("  advice: {r}")));
    // What happened is looked up by the same call that shows it: evidence of the same stretch is told once.
    // A range has a length, though a moment has none.
    let call = |tid: u32, start_ns: u64, end_ns: u64| {
        format!("get_timeline tid={tid} from={} to={}", seconds(start_ns), seconds(end_ns.max(start_ns + 1)))
    };
    let told = |e: &Evidence| i.timeline.iter().any(|m| (m.tid, m.start_ns, m.end_ns) == (e.tid, e.start_ns, e.end_ns));
    out.extend(
        i.timeline.iter().map(|m| format!("  {}: {}: {}", m.layer, m.detail, call(m.tid, m.start_ns, m.end_ns))),
    );
    out.extend(
        i.evidence
            .iter()
            .filter(|e| !told(e))
            .map(|e| format!("  evidence: {}: {}", e.what, call(e.tid, e.start_ns, e.end_ns))),
    );
    out.join("\n")
}
