//! `dump`: every event, one a line, by the file's own schema.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write;
use std::ops::ControlFlow;

use anyhow::{Context, Result};
use ingero_format::catalog::{CPU, FuncId, NO_CPU, NULL, StrId, TS, TaskId, Unit, Word};
use ingero_format::{ColumnSchema, KindSchema, Trace, one_line};
use ingero_replay::program::{Ending, say};
use ingero_replay::{Merge, Row};

use super::incomplete;
use super::threads::Threads;
use crate::args::Format;
use ingero_replay::wording::{count, quoted, seconds};

/// What to print of a trace.
pub(super) struct Plan<'t> {
    pub(super) trace: &'t Trace,
    /// Times are shown from here.
    pub(super) start_ns: u64,
    pub(super) from_ns: u64,
    /// The range ends before this instant; none for no end.
    pub(super) to_ns: Option<u64>,
    /// Kinds by number; none for all.
    pub(super) kinds: Option<BTreeSet<u16>>,
    /// Whether a task is wanted, by its id; none for all, and for events of no task.
    pub(super) tasks: Option<Vec<bool>>,
    pub(super) threads: Threads<'t>,
    pub(super) format: Format,
}

pub(super) fn run(plan: &Plan, out: &mut impl Write) -> Result<Ending> {
    let walked = plan.walk(|_, line| {
        out.write_all(line.as_bytes()).context("cannot write")?;
        Ok(ControlFlow::Continue(()))
    })?;
    if walked.is_empty() {
        plan.say_nothing_matched();
    }
    Ok(walked.ending(plan.trace))
}

/// What a walk came to: how much was shown, and blocks that could not be read.
pub(super) struct Walked {
    shown: u64,
    lost_blocks: usize,
    lost_events: u64,
}

impl Walked {
    /// What has to be said of the output.
    pub(super) fn ending(&self, trace: &Trace) -> Ending {
        incomplete(trace, self.lost_blocks, self.lost_events)
    }

    /// Whether nothing was shown.
    pub(super) fn is_empty(&self) -> bool {
        self.shown == 0
    }
}

impl Plan<'_> {
    /// Tells time and line of each event that is wanted, until `tell` has enough.
    pub(super) fn walk(&self, mut tell: impl FnMut(u64, &str) -> Result<ControlFlow<()>>) -> Result<Walked> {
        let wanted = |kind: u16| self.kinds.as_ref().is_none_or(|kinds| kinds.contains(&kind));
        let mut merge = Merge::rows(self.trace, wanted);
        if self.from_ns > 0 || self.to_ns.is_some() {
            merge = merge.within(self.from_ns, self.to_ns.unwrap_or(u64::MAX));
        }
        if let Some(tasks) = &self.tasks {
            merge = merge.naming(tasks);
        }
        let (mut line, mut shown) = (String::new(), 0);
        while let Some(row) = merge.next_row() {
            // A block's kind that the schema lacks has no names to print.
            let Some(kind) = self.trace.kind_schema(row.kind) else { continue };
            if !self.concerns(kind, &row) {
                continue;
            }
            line.clear();
            match self.format {
                Format::Text => self.text(&mut line, kind, &row),
                Format::Json => self.json(&mut line, kind, &row),
            }
            line.push('\n');
            shown += 1;
            if tell(row.ts_ns, &line)?.is_break() {
                break;
            }
        }
        let lost = merge.lost();
        let lost_events = lost.iter().map(|l| u64::from(l.entry.header.rows)).sum();
        Ok(Walked { shown, lost_blocks: lost.len(), lost_events })
    }
}

impl Plan<'_> {
    /// Says, where nobody reads it as events, that none is as was asked, what was asked, and what there is.
    pub(super) fn say_nothing_matched(&self) {
        say("ingero-replay", &self.nothing_matched());
    }

    fn nothing_matched(&self) -> String {
        let path = one_line(self.trace.path());
        let rows: u64 = self.trace.blocks().iter().map(|b| u64::from(b.header.rows)).sum();
        let Some((first_ns, last_ns)) = self.trace.span_ns().filter(|_| rows > 0) else {
            return format!("{path} holds no events");
        };
        let mut asked = Vec::new();
        if let Some(kinds) = &self.kinds {
            let names: Vec<String> = kinds.iter().map(|&kind| one_line(self.trace.kind_name(kind))).collect();
            asked.push(format!("of the kind {}", names.join(" or ")));
        }
        if self.tasks.is_some() {
            asked.push("of the chosen processes".to_owned());
        }
        let begin = |ns: u64| seconds(self.relative(ns));
        match (self.from_ns > 0, self.to_ns) {
            (true, Some(to_ns)) => asked.push(format!("from {} s to {} s", begin(self.from_ns), begin(to_ns))),
            (true, None) if self.from_ns > self.start_ns => asked.push(format!("from {} s on", begin(self.from_ns))),
            (false, Some(to_ns)) => asked.push(format!("before {} s", begin(to_ns))),
            _ => {}
        }
        let mut held: Vec<u16> =
            self.trace.blocks().iter().map(|b| b.header).filter(|h| h.rows > 0).map(|h| h.kind).collect();
        held.sort_unstable();
        held.dedup();
        // What nothing but damage keeps from being shown is there all the same.
        let unreadable = asked.len() == 1 && self.kinds.iter().flatten().any(|kind| held.contains(kind));
        let (place, whose) =
            if unreadable { ("can be read from", "whose blocks have") } else { ("is in", "which has") };
        let names: Vec<String> = held.into_iter().map(|kind| one_line(self.trace.kind_name(kind))).collect();
        format!(
            "no event {} {place} {path}, {whose} {} from {} s to {} s: {}",
            asked.join(" "),
            count(rows, "event"),
            begin(first_ns),
            begin(last_ns),
            names.join(", ")
        )
    }
}

/// The columns of a kind behind time and CPU, with their words.
fn fields<'a>(kind: &'a KindSchema, row: &'a Row<'a>) -> impl Iterator<Item = (&'a ColumnSchema, Option<u64>)> {
    kind.columns.iter().filter(|c| c.id != TS && c.id != CPU).map(|c| {
        let unknown = |w| c.nullable && w == NULL || c.is(Unit::Cpu) && w == u64::from(NO_CPU);
        let word = row.word(c.id).filter(|&w| !unknown(w));
        (c, word)
    })
}

/// The threads that an event names.
fn tasks<'a>(kind: &'a KindSchema, row: &'a Row<'a>) -> impl Iterator<Item = TaskId> {
    fields(kind, row).filter(|(c, _)| c.is(Unit::Task)).filter_map(|(_, w)| w.map(TaskId::from_word))
}

impl Plan<'_> {
    fn concerns(&self, kind: &KindSchema, row: &Row) -> bool {
        self.tasks
            .as_ref()
            .is_none_or(|wanted| tasks(kind, row).any(|task| wanted.get(task.index()).copied().unwrap_or(false)))
    }

    fn relative(&self, ts_ns: u64) -> i128 {
        i128::from(ts_ns) - i128::from(self.start_ns)
    }

    fn text(&self, line: &mut String, kind: &KindSchema, row: &Row) {
        let time = seconds(self.relative(row.ts_ns));
        let cpu = if row.cpu == NO_CPU { "-".to_owned() } else { row.cpu.to_string() };
        let whose = tasks(kind, row).next().map_or_else(|| "-".to_owned(), |task| self.threads.label(task, row.ts_ns));
        // Writing to a string cannot fail.
        let _ = write!(line, "{time:>15} {cpu:>4}  {whose:<24} {:<18}", one_line(&kind.name));
        for (column, word) in fields(kind, row) {
            let Some(word) = word else { continue };
            let value = if column.is(Unit::Task) {
                let thread = self.threads.label(TaskId::from_word(word), row.ts_ns);
                if thread.contains(' ') { quoted(&thread) } else { thread }
            } else {
                quoted(&self.trace.show(column, word))
            };
            let _ = write!(line, " {}={value}", one_line(&column.name));
        }
        line.truncate(line.trim_end().len());
    }

    fn json(&self, line: &mut String, kind: &KindSchema, row: &Row) {
        let cpu = if row.cpu == NO_CPU { "null".to_owned() } else { row.cpu.to_string() };
        let _ = write!(
            line,
            "{{\"time_ns\":{},\"ts_ns\":{},\"cpu\":{cpu},\"kind\":{},\"fields\":{{",
            self.relative(row.ts_ns),
            row.ts_ns,
            text(&kind.name)
        );
        for (i, (column, word)) in fields(kind, row).enumerate() {
            let comma = if i > 0 { "," } else { "" };
            let value = word.map_or_else(|| "null".to_owned(), |word| self.value(column, word, row.ts_ns));
            let _ = write!(line, "{comma}{}:{value}", text(&column.name));
        }
        line.push_str("}}");
    }

    /// A word as JSON: numbers where they are numbers, texts for all that has a name, hexadecimal
    /// texts for addresses, which many readers of JSON could not hold.
    fn value(&self, column: &ColumnSchema, word: u64, ts_ns: u64) -> String {
        if column.is(Unit::Task) {
            let id = TaskId::from_word(word);
            let t = self.trace.task(id);
            let name = self.threads.name(id, ts_ns).map_or_else(|| "null".to_owned(), text);
            return format!("{{\"pid\":{},\"tid\":{},\"name\":{name}}}", t.pid, t.tid);
        }
        if column.is(Unit::Str) {
            return text(self.trace.string(StrId::from_word(word)));
        }
        if column.is(Unit::Func) {
            return self.trace.function(FuncId::from_word(word)).map_or_else(|| "null".to_owned(), |f| text(&f.symbol));
        }
        if column.name_of(word).is_some() || column.is(Unit::Address) || column.is(Unit::Flags) {
            return text(&self.trace.show(column, word));
        }
        if column.is(Unit::Signed) {
            return i64::from_word(word).to_string();
        }
        word.to_string()
    }
}

fn text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
