//! `get_capture_health`: can the recording be trusted, and what can it not show.

use std::collections::BTreeMap;
use std::path::Path;

use ingero_analyze::report::{bytes, count, duration};
use ingero_format::catalog::Kind;
use ingero_replay::{Window, show_wall};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{TypedTool, counted, heading, notes, seconds};
use crate::figures::{Loss, TraceHead};
use crate::names::MAX_CHARS;
use crate::page::{LeftOut, Paging};
use crate::problem::Problem;
use crate::recording::{self, Opened, Recording};
use crate::shelf::Shelf;
use crate::words::{NAME_CHARS, SENTENCE_CHARS, clean, named, quoted, quoted_to};

pub(super) struct Health;

/// Which recording.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Args {
    /// Recording, by its name. Without it all recordings are listed; a single one is described at once.
    recording: Option<String>,
    #[serde(flatten)]
    page: Paging,
}

/// Which recordings there are, and how one of them is.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Output {
    /// The recordings that can be asked about.
    recordings: Vec<Listed>,
    /// What was left out of that list.
    left_out: LeftOut,
    /// Whether there are more recordings than are served.
    more_not_served: bool,
    /// The recording that was asked about; null where there are several and none was named.
    health: Option<Report>,
}

/// A recording.
#[derive(Debug, Clone, Serialize, JsonSchema)]
struct Listed {
    /// Give this as `recording`.
    name: String,
    /// Size of its file.
    size_bytes: Option<u64>,
    /// Why it cannot be read; absent where nothing was found that speaks against it. Parts of it may be damaged all the
    /// same: name it to know.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

impl Listed {
    fn new(name: &str, path: &Path) -> Self {
        let size_bytes = std::fs::metadata(path).ok().map(|m| m.len());
        let problem = size_bytes.and_then(|_| recording::kind(path).err());
        Self { name: name.to_owned(), size_bytes, problem: problem.map(|p| clean(&p, SENTENCE_CHARS)) }
    }
}

/// How a recording is.
#[derive(Debug, Serialize, JsonSchema)]
struct Report {
    /// Its name.
    recording: String,
    /// The recording as a whole.
    trace: TraceHead,
    /// Wall-clock time of its start; null where the source does not know.
    start: Option<String>,
    /// Program that made it; of an import, what was imported.
    recorder: Option<String>,
    /// Kinds of events that it holds.
    recorded: Vec<Counted>,
    /// Kinds that were watched for and did not happen.
    watched_without_events: Vec<String>,
    /// Kinds of which no event can be read, though there may have been some: they were watched for, or the source does not say
    /// what it watched for, and parts of the recording are missing.
    watched_and_unknown: Vec<String>,
    /// Kinds that nobody watched for: nothing can be said about them.
    not_watched: Vec<String>,
    /// Functions with calls, by layer.
    functions_called: BTreeMap<String, u64>,
    /// Libraries whose calls were watched: data from the recording.
    libraries: Vec<String>,
    /// Whether call stacks are in it.
    has_stacks: bool,
    /// What was lost, by cause, with the time from first to last.
    losses: Vec<Loss>,
    /// Parts of the file that cannot be read.
    damage: Vec<String>,
    /// Entries that are not shown of libraries, losses and damage.
    entries_left_out: u64,
    /// What the recording cannot show, in sentences.
    caveats: Vec<String>,
}

/// Events of a kind.
#[derive(Debug, Serialize, JsonSchema)]
struct Counted {
    /// Kind.
    kind: String,
    /// How many were written.
    rows: u64,
    /// Of them: how many cannot be read any more. They count as lost.
    #[serde(skip_serializing_if = "is_zero")]
    unreadable: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde has it")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// Cause of losses in the recording's file itself, as the analysis names it.
const DAMAGED: &str = "damaged file";
/// Entries of a list within the report at most.
const MAX_LISTED: usize = 20;

impl TypedTool for Health {
    const NAME: &'static str = "get_capture_health";
    const TITLE: &'static str = "Health of a recording";
    const DESCRIPTION: &'static str = "Lists the recordings, and says of one whether it is complete, what was lost and \
        when, which kinds of events and libraries were watched and which were not. Call it first, and again before \
        claiming that something did not happen: what was not watched, or was lost, cannot be claimed. For figures call \
        get_trace_stats instead, for causes get_causal_chains.";
    type Args = Args;
    type Output = Output;

    fn answer(shelf: &Shelf, args: Args) -> Result<(Output, String), Problem> {
        let names = shelf.names();
        let (only, is_cut) = (names.only().is_some(), names.is_cut());
        let health = match (args.recording.as_deref(), only) {
            (None, false) => None,
            (name, _) => Some(Report::new(&*shelf.recording(name)?)?),
        };
        let row = |r: &Listed| {
            let size = r.size_bytes.map_or_else(|| "gone".to_owned(), bytes);
            let problem = r.problem.as_ref().map_or_else(String::new, |problem| format!(", CANNOT BE READ: {problem}"));
            format!("  {} ({size}{problem})", quoted_to(&r.name, MAX_CHARS))
        };
        let asked = args.page.asked()?;
        let skip = usize::try_from(asked.offset).unwrap_or(usize::MAX);
        // Only those that are shown are looked into.
        let list = names.iter().skip(skip).map(|(name, path)| Listed::new(name, path));
        let shown = asked.fit(list, names.len() as u64, row);
        let mut text = Vec::new();
        match &health {
            Some((_, words)) => text.extend(words.iter().cloned()),
            None if names.is_empty() => text.push(
                "No recording is left: the files that ingero-mcp was started with are gone. Record anew, or start it with \
                 others."
                    .to_owned(),
            ),
            None => {
                text.push(format!(
                    "{}; name one of them as recording:",
                    counted(shown.left_out.total_rows, "recording")
                ));
                text.extend(shown.lines);
                text.extend(shown.left_out.sentence("recordings"));
                if is_cut {
                    text.push(
                        "There are more, which are not served: ingero-mcp has to be given a folder further down."
                            .to_owned(),
                    );
                }
            }
        }
        let health = health.map(|(report, _)| report);
        Ok((
            Output { recordings: shown.rows, left_out: shown.left_out, more_not_served: is_cut, health },
            text.join("\n"),
        ))
    }
}

impl Report {
    fn new(recording: &Recording) -> Result<(Self, Vec<String>), Problem> {
        let opened = recording.open()?;
        let trace = &opened.trace;
        let figures = opened.figures(Window::whole(trace))?;
        let Kinds { recorded, silent, unknown, unwatched } = Kinds::of(&opened, &figures.losses);
        let meta = |key: &str, max| trace.meta(key).map(|value| clean(value, max));
        let libraries = trace.meta_entries().iter().filter(|(key, _)| key.starts_with("library."));
        let libraries: Vec<String> = libraries.map(|(_, value)| clean(value, SENTENCE_CHARS)).collect();
        let lists = [libraries.len(), figures.losses.len(), trace.damage().len()];
        let entries_left_out = lists.iter().map(|len| len.saturating_sub(MAX_LISTED) as u64).sum();
        let mut functions_called = BTreeMap::new();
        for layer in figures
            .processes
            .iter()
            .flat_map(|p| &p.ops)
            .map(|op| (&op.layer, &op.name))
            .collect::<std::collections::BTreeSet<_>>()
        {
            *functions_called.entry(layer.0.clone()).or_insert(0) += 1;
        }
        let damage = trace.damage().iter().take(MAX_LISTED);
        let report = Self {
            recording: recording.name().to_owned(),
            trace: figures.trace.clone(),
            start: figures.trace.start_unix_ns.map(show_wall),
            // What was imported has a source in place of a recorder.
            recorder: meta("recorder", NAME_CHARS)
                .or_else(|| meta("source", NAME_CHARS).map(|source| format!("an import of {source}"))),
            has_stacks: recorded.iter().any(|k| k.kind == super::stacks::STACK),
            recorded,
            watched_without_events: silent,
            watched_and_unknown: unknown,
            not_watched: unwatched,
            functions_called,
            libraries: libraries.into_iter().take(MAX_LISTED).collect(),
            losses: figures.losses.iter().take(MAX_LISTED).cloned().collect(),
            damage: damage
                .map(|d| clean(&format!("{} bytes at {:#x}: {}", d.len, d.offset, d.problem), SENTENCE_CHARS))
                .collect(),
            entries_left_out,
            caveats: figures.caveats.clone(),
        };
        let lost = figures.lost().unwrap_or_else(|| "0".to_owned());
        let words = report.words(&heading(recording.name(), &figures), opened.trace.len_bytes(), &lost);
        Ok((report, words))
    }

    fn words(&self, heading: &str, size: u64, lost: &str) -> Vec<String> {
        let t = &self.trace;
        let start = self.start.as_ref().map_or_else(|| "unknown".to_owned(), Clone::clone);
        let mut out = vec![
            heading.to_owned(),
            format!(
                "{} long, start {start}, {} events ({}), lost {lost}, complete: {}{}",
                duration(t.duration_ns),
                count(t.events),
                bytes(size),
                if t.complete { "yes" } else { "no, it was cut off" },
                if t.sampled { ", a SAMPLE of the events only" } else { "" }
            ),
            format!(
                "kernel {}, {} CPUs, made by {}",
                named(t.kernel.as_deref().unwrap_or("unknown")),
                t.cpus.map_or_else(|| "unknown".to_owned(), count),
                quoted(self.recorder.as_deref().unwrap_or("unknown"))
            ),
        ];
        let kinds: Vec<String> = self.recorded.iter().map(Counted::words).collect();
        out.push(format!("recorded: {}", kinds.join(", ")));
        for (list, what) in [
            (&self.watched_without_events, "watched for, did not happen"),
            (
                &self.watched_and_unknown,
                "nothing of it can be read, and parts of the recording are missing: whether it happened is not known",
            ),
            (&self.not_watched, "not watched for, nothing can be said of them"),
        ] {
            if !list.is_empty() {
                let list: Vec<String> = list.iter().map(|kind| named(kind)).collect();
                out.push(format!("{what}: {}", list.join(", ")));
            }
        }
        let functions: Vec<String> = self.functions_called.iter().map(|(layer, n)| format!("{n} {layer}")).collect();
        out.push(match functions.as_slice() {
            [] if self.is_whole() => "no call of a watched library was seen".to_owned(),
            [] => "no call of a watched library is in what can be read of the recording".to_owned(),
            some => format!("functions called: {}", some.join(", ")),
        });
        out.extend(self.libraries.iter().map(|l| format!("library: {}", quoted_to(l, SENTENCE_CHARS))));
        out.push(format!("call stacks: {}", if self.has_stacks { "yes, see get_stacks" } else { "none" }));
        for l in &self.losses {
            let more = if l.uncounted { "at least " } else { "" };
            let span = format!("{} to {}", seconds(l.from_ns), seconds(l.to_ns));
            let host = l.host.as_deref().map_or_else(String::new, |host| format!(" of {}", named(host)));
            let (events, probe) = (count(l.count), named(&l.probe));
            out.push(format!("LOST: {more}{events} {probe} events{host} between {span} ({})", l.cause));
        }
        out.extend(self.damage.iter().map(|d| format!("DAMAGED: {d}")));
        if self.entries_left_out > 0 {
            out.push(format!("Left out: {} more libraries, losses or damaged parts.", count(self.entries_left_out)));
        }
        out.extend(notes(&self.caveats));
        out
    }
}

impl Counted {
    fn words(&self) -> String {
        let unreadable = match self.unreadable {
            0 => String::new(),
            n if n >= self.rows => " (none of which can be read)".to_owned(),
            n => format!(" ({} of which cannot be read)", count(n)),
        };
        format!("{} {}{unreadable}", named(&self.kind), count(self.rows))
    }
}

impl Report {
    /// Whether all that happened is in it, as far as it was watched for.
    fn is_whole(&self) -> bool {
        self.trace.complete && self.damage.is_empty() && self.losses.is_empty()
    }
}

/// Kinds of events, by what can be said of them.
#[derive(Default)]
struct Kinds {
    /// With events.
    recorded: Vec<Counted>,
    /// Watched for in vain.
    silent: Vec<String>,
    /// Watched for; there may have been some.
    unknown: Vec<String>,
    /// Not watched for.
    unwatched: Vec<String>,
}

impl Kinds {
    fn of(opened: &Opened, losses: &[Loss]) -> Self {
        let trace = &opened.trace;
        let mut rows: BTreeMap<u16, u64> = BTreeMap::new();
        for block in trace.blocks() {
            *rows.entry(block.header.kind).or_default() += u64::from(block.header.rows);
        }
        // An import does not say what its source watched for: what is there is what was.
        let watched: Option<Vec<&str>> = trace.meta("probes").map(|probes| probes.split(',').collect());
        let is_whole = trace.complete() && trace.damage().is_empty() && losses.is_empty();
        // What the recorder writes of itself is not watched for.
        let own = |k: &ingero_format::KindSchema| matches!(k.kind(), Some(Kind::Loss | Kind::Clock | Kind::System));
        let mut kinds = Self::default();
        for kind in trace.all_kinds() {
            let name = clean(&kind.name, NAME_CHARS);
            let of_kind = || losses.iter().filter(|loss| loss.probe == name);
            match rows.get(&kind.number) {
                Some(&rows) if rows > 0 => {
                    let damaged = of_kind().filter(|loss| loss.cause == DAMAGED).map(|loss| loss.count);
                    let unreadable = damaged.fold(0, u64::saturating_add).min(rows);
                    kinds.recorded.push(Counted { kind: name, rows, unreadable });
                }
                _ if own(kind) => {}
                _ => match &watched {
                    // A loss tells that it was watched for.
                    Some(watched) if !watched.contains(&kind.name.as_str()) && of_kind().next().is_none() => {
                        kinds.unwatched.push(name);
                    }
                    None if is_whole => kinds.unwatched.push(name),
                    Some(_) if is_whole => kinds.silent.push(name),
                    // A loss may be told by the name of a probe that is none of a kind.
                    _ => kinds.unknown.push(name),
                },
            }
        }
        kinds
    }
}
