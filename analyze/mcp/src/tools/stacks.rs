//! `get_stacks`: where in the code threads were, for recordings that hold call stacks.

use std::collections::{BTreeMap, HashMap};

use ingero_format::catalog::{StrId, TaskId, Unit, Word};
use ingero_format::{KindSchema, Trace};
use ingero_replay::{Merge, Window};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::part::Part;
use super::{TypedTool, counted, known_pid, known_tid, notes, seconds};
use crate::figures::Range;
use crate::names::MAX_CHARS;
use crate::page::{LeftOut, Paging};
use crate::problem::Problem;
use crate::recording::Opened;
use crate::shelf::Shelf;
use crate::words::{clean, quoted_to};

/// Kind of the rows that say which stack a thread had.
pub(super) const STACK: &str = "stack";
/// Kind of the rows that say what a stack consists of.
const FRAME: &str = "stack_frame";

pub(super) struct Stacks;

/// Whose stacks, and of which part.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Args {
    #[serde(flatten)]
    part: Part,
    /// Only stacks of this process.
    pid: Option<u32>,
    /// Only stacks of this thread.
    tid: Option<u32>,
    #[serde(flatten)]
    page: Paging,
}

/// The stacks that threads had, the most frequent first.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Output {
    /// Whether the recording holds call stacks at all.
    recorded: bool,
    /// The range.
    range: Range,
    /// The stacks.
    stacks: Vec<Found>,
    /// What was left out of them.
    left_out: LeftOut,
    /// What the recording cannot show.
    caveats: Vec<String>,
}

/// A call stack.
#[derive(Debug, Serialize, JsonSchema)]
struct Found {
    /// Times it was recorded in the range. A source that samples recorded not every time.
    count: u64,
    /// Threads that had it, by id, at most ten.
    tids: Vec<u32>,
    /// First time, from the recording's start.
    first_ns: u64,
    /// Frames, innermost first, at most 40: data from the recording.
    frames: Vec<String>,
    /// Frames that are not shown.
    frames_left_out: u64,
}

const MAX_FRAMES: usize = 40;
const MAX_TIDS: usize = 10;
/// Characters of a frame at most: symbols of C++ are long.
const FRAME_CHARS: usize = 200;
/// Frames that are read at most: damaged or hostile files may name any number.
const MAX_READ: usize = 1 << 20;

impl TypedTool for Stacks {
    const NAME: &'static str = "get_stacks";
    const TITLE: &'static str = "Call stacks";
    const DESCRIPTION: &'static str = "Call stacks of threads at their calls and waits, the most frequent first. Only \
        imported recordings hold stacks; get_capture_health says whether this one does. Call it to name the function or \
        line behind a call or wait. Without stacks call get_timeline instead: it says which system call a thread was \
        blocked in and who woke it, and get_trace_stats says which CUDA functions took the time.";
    type Args = Args;
    type Output = Output;

    fn answer(shelf: &Shelf, args: Args) -> Result<(Output, String), Problem> {
        let extract = args.part.open(shelf)?;
        args.pid.map(|pid| known_pid(&extract.opened, pid)).transpose()?;
        if let Some(tid) = args.tid {
            known_tid(&extract.opened, tid)?;
        }
        let (opened, window, range) = (&extract.opened, &extract.window, extract.range());
        let caveats = opened.caveats()?;
        let recorded = has_rows(&opened.trace, STACK);
        let found = if recorded { find(opened, window, &args) } else { Vec::new() };
        let shown = args.page.asked()?.of(found, words);

        let mut text = vec![format!(
            "Recording {}, {} to {}",
            quoted_to(extract.name(), MAX_CHARS),
            seconds(range.from_ns),
            seconds(range.to_ns)
        )];
        text.push(match (recorded, shown.left_out.total_rows) {
            (false, _) => {
                "No call stacks were recorded. Call get_timeline instead for what a thread was blocked in and \
                           who woke it, or get_trace_stats for which CUDA functions took the time."
                    .to_owned()
            }
            (true, 0) => {
                "No stack was recorded of these threads in this range; widen it, or leave pid and tid out.".to_owned()
            }
            (true, n) => format!("{}, the most frequent first:", counted(n, "different stack")),
        });
        text.extend(shown.lines);
        text.extend(shown.left_out.sentence("stacks"));
        text.extend(notes(&caveats));
        Ok((Output { recorded, range, stacks: shown.rows, left_out: shown.left_out, caveats }, text.join("\n")))
    }
}

fn schema<'t>(trace: &'t Trace, name: &str) -> Option<&'t KindSchema> {
    trace.all_kinds().iter().find(|k| k.name == name)
}

fn has_rows(trace: &Trace, name: &str) -> bool {
    schema(trace, name).is_some_and(|kind| trace.has_rows(kind.number))
}

fn column(kind: &KindSchema, name: &str) -> Option<u8> {
    kind.columns.iter().find(|c| c.name == name).map(|c| c.id)
}

fn find(opened: &Opened, window: &Window, args: &Args) -> Vec<Found> {
    let trace = &opened.trace;
    let Some(kind) = schema(trace, STACK) else { return Vec::new() };
    let task_column = kind.columns.iter().find(|c| c.is(Unit::Task)).map(|c| c.id);
    let (Some(task_column), Some(stack_column)) = (task_column, column(kind, "stack")) else { return Vec::new() };
    let mut found: BTreeMap<u64, Found> = BTreeMap::new();
    let mut rows = Merge::rows(trace, |number| number == kind.number).within(window.from_ns, window.to_ns);
    while let Some(row) = rows.next_row() {
        let (Some(task), Some(stack)) = (row.word(task_column), row.word(stack_column)) else { continue };
        let task = trace.task(TaskId::from_word(task));
        let wanted = args.pid.is_none_or(|pid| pid == task.pid) && args.tid.is_none_or(|tid| tid == task.tid);
        if !window.holds(row.ts_ns) || !wanted {
            continue;
        }
        let first_ns = row.ts_ns - window.trace_start_ns;
        let entry = found.entry(stack).or_insert_with(|| Found {
            count: 0,
            tids: Vec::new(),
            first_ns,
            frames: Vec::new(),
            frames_left_out: 0,
        });
        entry.count += 1;
        if entry.tids.len() < MAX_TIDS && !entry.tids.contains(&task.tid) {
            entry.tids.push(task.tid);
        }
    }
    let mut frames = frames(trace);
    for (stack, entry) in &mut found {
        let all = frames.remove(stack).unwrap_or_default();
        entry.frames_left_out = all.len().saturating_sub(MAX_FRAMES) as u64;
        entry.frames = all.into_values().take(MAX_FRAMES).collect();
    }
    let mut found: Vec<Found> = found.into_values().collect();
    found.sort_by_key(|f| (std::cmp::Reverse(f.count), f.first_ns));
    found
}

/// The frames of every stack, by depth.
fn frames(trace: &Trace) -> HashMap<u64, BTreeMap<u64, String>> {
    let mut frames: HashMap<u64, BTreeMap<u64, String>> = HashMap::new();
    let Some(kind) = schema(trace, FRAME) else { return frames };
    let id = |name: &str| column(kind, name);
    let (Some(stack), Some(depth)) = (id("stack"), id("depth")) else { return frames };
    let (symbol, file, line, address) = (id("symbol"), id("file"), id("line"), id("address"));
    let mut rows = Merge::rows(trace, |number| number == kind.number);
    let mut read = 0;
    while let Some(row) = rows.next_row() {
        read += 1;
        if read > MAX_READ {
            break;
        }
        let word = |id: Option<u8>| id.and_then(|id| row.word(id)).filter(|&w| w != ingero_format::catalog::NULL);
        let text = |id| word(id).map(|w| trace.string(StrId::from_word(w)));
        let mut frame = match (text(symbol), word(address)) {
            (Some(symbol), _) => symbol.to_owned(),
            (None, Some(address)) => format!("{address:#x}"),
            (None, None) => "?".to_owned(),
        };
        if let Some(file) = text(file) {
            let line = word(line).map_or_else(String::new, |n| format!(":{n}"));
            frame.push_str(&format!(" ({file}{line})"));
        }
        if let (Some(stack), Some(depth)) = (word(Some(stack)), word(Some(depth))) {
            frames.entry(stack).or_default().insert(depth, clean(&frame, FRAME_CHARS));
        }
    }
    frames
}

fn words(row: &Found) -> String {
    let tids: Vec<String> = row.tids.iter().map(u32::to_string).collect();
    let mut out =
        vec![format!("  {} from {}, tid {}:", counted(row.count, "time"), seconds(row.first_ns), tids.join(", "))];
    out.extend(row.frames.iter().map(|frame| format!("    {}", quoted_to(frame, FRAME_CHARS))));
    if row.frames_left_out > 0 {
        out.push(format!("    left out: {} outer frames", row.frames_left_out));
    }
    out.join("\n")
}
