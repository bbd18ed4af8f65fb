//! `dump`: every event, one a line, by the file's own schema.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write;

use anyhow::{Context, Result};
use ingero_format::catalog::{CPU, FuncId, NO_CPU, NULL, StrId, TS, TaskId, Unit, Word};
use ingero_format::{ColumnSchema, KindSchema, Trace};
use ingero_replay::program::{Ending, one_line};
use ingero_replay::{Merge, Processes, Row};

use super::incomplete;
use crate::args::Format;
use crate::wording::{quoted, seconds};

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
    pub(super) processes: Processes,
    pub(super) format: Format,
}

pub(super) fn run(plan: &Plan, out: &mut impl Write) -> Result<Ending> {
    let wanted = |kind: u16| plan.kinds.as_ref().is_none_or(|kinds| kinds.contains(&kind));
    let mut merge = Merge::rows(plan.trace, wanted);
    if plan.from_ns > 0 || plan.to_ns.is_some() {
        merge = merge.within(plan.from_ns, plan.to_ns.unwrap_or(u64::MAX));
    }
    if let Some(tasks) = &plan.tasks {
        merge = merge.naming(tasks);
    }
    let mut line = String::new();
    while let Some(row) = merge.next_row() {
        if plan.to_ns.is_some_and(|to| row.ts_ns >= to) {
            break;
        }
        // A block's kind that the schema lacks has no names to print.
        let Some(kind) = plan.trace.kind_schema(row.kind) else { continue };
        if row.ts_ns < plan.from_ns || !plan.concerns(kind, &row) {
            continue;
        }
        line.clear();
        match plan.format {
            Format::Text => plan.text(&mut line, kind, &row),
            Format::Json => plan.json(&mut line, kind, &row),
        }
        line.push('\n');
        out.write_all(line.as_bytes()).context("cannot write")?;
    }
    let lost = merge.lost();
    let events = lost.iter().map(|l| u64::from(l.entry.header.rows)).sum();
    Ok(incomplete(plan.trace, lost.len(), events))
}

/// The columns of a kind behind time and CPU, with their words.
fn fields<'a>(kind: &'a KindSchema, row: &'a Row<'a>) -> impl Iterator<Item = (&'a ColumnSchema, Option<u64>)> {
    kind.columns.iter().filter(|c| c.id != TS && c.id != CPU).map(|c| {
        let word = row.word(c.id).filter(|&w| !(c.nullable && w == NULL));
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

    fn name(&self, task: TaskId, ts_ns: u64) -> Option<&str> {
        self.processes.name_at(task, ts_ns).map(|name| self.trace.string(name))
    }

    /// A thread by the name of the moment: `python3[41]`, `python3[41/44]` (process, thread).
    fn thread(&self, task: TaskId, ts_ns: u64) -> String {
        let t = self.trace.task(task);
        let name = one_line(self.name(task, ts_ns).unwrap_or_default());
        match (t.tid, t.pid == t.tid) {
            (0, _) => "idle".to_owned(),
            (tid, true) => format!("{name}[{tid}]"),
            (tid, false) => format!("{name}[{}/{tid}]", t.pid),
        }
    }

    fn text(&self, line: &mut String, kind: &KindSchema, row: &Row) {
        let time = seconds(self.relative(row.ts_ns));
        let cpu = if row.cpu == NO_CPU { "-".to_owned() } else { row.cpu.to_string() };
        let whose = tasks(kind, row).next().map_or_else(|| "-".to_owned(), |task| self.thread(task, row.ts_ns));
        // Writing to a string cannot fail.
        let _ = write!(line, "{time:>15} {cpu:>4}  {whose:<24} {:<18}", one_line(&kind.name));
        for (column, word) in fields(kind, row) {
            let Some(word) = word else { continue };
            let value = if column.is(Unit::Task) {
                let thread = self.thread(TaskId::from_word(word), row.ts_ns);
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
            let name = self.name(id, ts_ns).map_or_else(|| "null".to_owned(), text);
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
