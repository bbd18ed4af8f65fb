//! The events of a kind as they are in the file, block by block, column by column.

use ingero_format::catalog::{CPU, FuncId, NO_CPU, NULL, StrId, TS, TaskId, Unit, Word as _};
use ingero_format::{Batch, ColumnSchema, KindSchema, Trace};

use super::columns::Columns;
use super::place::Place;
use super::table::{GROUP_ROWS, TableFile};
use super::tasks::Common;
use super::words::Word;
use crate::error::Error;
use crate::export::selection::{self, Selection};
use crate::input::Progress;

/// What becomes of a column's words.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Made {
    /// Times, lengths and ids: numbers that fit.
    Number,
    Cpu,
    Signed,
    Word,
    Text,
    Symbol,
    Named,
}

fn made(c: &ColumnSchema) -> Made {
    let numbers = [Unit::TimeNs, Unit::DurationNs, Unit::Task];
    match c {
        c if c.id == CPU || c.is(Unit::Cpu) => Made::Cpu,
        c if numbers.iter().any(|u| c.is(*u)) => Made::Number,
        c if c.is(Unit::Signed) => Made::Signed,
        c if c.is(Unit::Str) => Made::Text,
        c if c.is(Unit::Func) => Made::Symbol,
        c if !c.names.is_empty() => Made::Named,
        _ => Made::Word,
    }
}

/// Writes the selected rows of a kind. Returns how many blocks could not be read.
pub(super) fn write(
    trace: &Trace,
    kind: &KindSchema,
    selection: &Selection,
    of: &Common,
    place: &mut Place,
    progress: &Progress,
) -> Result<u64, Error> {
    let name = place.kind_table(kind);
    let mut table = Events::new(kind, of, place, &name)?;
    let whole = selection.is_whole() || selection::describes(kind.number);
    let tasks: Vec<u8> = kind.columns.iter().filter(|c| c.is(Unit::Task)).map(|c| c.id).collect();
    let mut damaged = 0;
    let mut batch = None;
    for block in trace.blocks().iter().filter(|b| b.header.kind == kind.number) {
        progress.add(block.header.rows.into());
        let decoded = match &mut batch {
            Some(batch) => trace.read_block(block, batch, None),
            None => Batch::new().and_then(|new| trace.read_block(block, batch.insert(new), None)),
        };
        let (Ok(()), Some(batch)) = (decoded, &batch) else {
            damaged += 1;
            continue;
        };
        let rows = if whole { None } else { Some(shown(batch, &tasks, selection)) };
        table.take(batch, rows.as_deref())?;
    }
    place.keep(&name, table.finish()?);
    Ok(damaged)
}

/// The rows of a batch that are selected.
fn shown(batch: &Batch, tasks: &[u8], selection: &Selection) -> Vec<usize> {
    let tasks: Vec<&ingero_format::Words> = tasks.iter().filter_map(|id| batch.column(*id)).collect();
    let word = |words: &ingero_format::Words, row| words.get(row).unwrap_or(0);
    let ts = batch.column(TS);
    let touches = |row: usize| ts.is_none_or(|ts| selection.touches((word(ts, row), word(ts, row))));
    let shows = |row: usize| tasks.iter().any(|task| selection.shows(TaskId::from_word(word(task, row))));
    (0..batch.rows()).filter(|&row| touches(row) && (tasks.is_empty() || shows(row))).collect()
}

/// The table of a kind.
struct Events<'a> {
    kind: &'a KindSchema,
    of: &'a Common<'a, 'a>,
    /// Names of the columns, and what becomes of them.
    columns: Vec<(String, Made)>,
    unix_name: String,
    run_name: String,
    file: TableFile,
    /// By column: the words of the rows that are held.
    held: Vec<Vec<u64>>,
}

impl<'a> Events<'a> {
    fn new(kind: &'a KindSchema, of: &'a Common, place: &Place, name: &str) -> Result<Self, Error> {
        let mut names: Vec<String> = Vec::new();
        for name in kind.columns.iter().map(|c| c.name.as_str()).chain(["unix_ns", "run"]) {
            names.push(free(name, &names));
        }
        let run_name = names.pop().unwrap_or_default();
        let unix_name = names.pop().unwrap_or_default();
        let columns: Vec<_> = names.into_iter().zip(kind.columns.iter().map(made)).collect();
        let held = vec![Vec::new(); columns.len()];
        let file = TableFile::create(&place.path(name), |c| {
            layout(kind, of, (&columns, &unix_name, &run_name), &held, c);
        })?;
        Ok(Self { kind, of, columns, unix_name, run_name, file, held })
    }

    /// Adds the rows of a batch, all of them or the ones given.
    fn take(&mut self, batch: &Batch, rows: Option<&[usize]>) -> Result<(), Error> {
        let count = rows.map_or(batch.rows(), <[usize]>::len);
        let mut from = 0;
        while from < count {
            let to = count.min(from + GROUP_ROWS - self.held.first().map_or(0, Vec::len));
            for (c, held) in self.kind.columns.iter().zip(&mut self.held) {
                let missing = if c.nullable { NULL } else { 0 };
                match (batch.column(c.id), rows) {
                    (None, _) => held.extend(std::iter::repeat_n(missing, to - from)),
                    (Some(words), None) => words.push_to(from..to, held),
                    (Some(words), Some(rows)) => {
                        held.extend(rows[from..to].iter().map(|row| words.get(*row).unwrap_or(missing)));
                    }
                }
            }
            from = to;
            if self.held.first().is_some_and(|rows| rows.len() >= GROUP_ROWS) {
                self.write()?;
            }
        }
        Ok(())
    }

    /// Writes what is held as a row group.
    fn write(&mut self) -> Result<(), Error> {
        let Self { kind, of, columns, unix_name, run_name, file, held } = self;
        let times = held.get(kind.columns.iter().position(|c| c.id == TS).unwrap_or(0)).map_or(&[][..], Vec::as_slice);
        if !times.is_sorted() {
            let mut order: Vec<(u64, u32)> = times.iter().copied().zip(0..).collect();
            // It consists of stretches that are in order: the events of each CPU in each block.
            order.sort();
            // Every column has as many rows as that of the times.
            for words in held.iter_mut() {
                *words = order.iter().map(|(_, row)| words[*row as usize]).collect();
            }
        }
        let Some(((first, last), rows)) = held.first().and_then(|k| Some(((*k.first()?, *k.last()?), k.len()))) else {
            return Ok(());
        };
        file.group(rows, (first, last), of.words, |c| layout(kind, of, (columns, unix_name, run_name), held, c))?;
        held.iter_mut().for_each(Vec::clear);
        Ok(())
    }

    fn finish(mut self) -> Result<super::table::Written, Error> {
        self.write()?;
        self.file.finish()
    }
}

/// Tells the columns of what is held.
fn layout(
    kind: &KindSchema,
    of: &Common,
    (columns, unix_name, run_name): (&[(String, Made)], &str, &str),
    held: &[Vec<u64>],
    out: &mut Columns,
) {
    for ((c, (name, made)), words) in kind.columns.iter().zip(columns).zip(held) {
        let all = || words.iter().copied();
        let known = || words.iter().map(|word| (!c.nullable || *word != NULL).then_some(*word));
        match made {
            Made::Cpu => out.maybe_ns(name, known().map(|cpu| cpu.filter(|cpu| *cpu != u64::from(NO_CPU)))),
            Made::Number if c.nullable => out.maybe_ns(name, known()),
            Made::Number => out.ns(name, all()),
            Made::Signed if c.nullable => out.maybe_signed(name, known().map(|word| word.map(i64::from_word))),
            Made::Signed => out.signed(name, all().map(i64::from_word)),
            Made::Word if c.nullable => out.maybe_unsigned(name, known()),
            Made::Word => out.unsigned(name, all()),
            Made::Text => out.maybe_text(name, known().map(|word| Some(of.words.string(StrId::from_word(word?))))),
            Made::Symbol => out.maybe_text(name, known().map(|word| of.words.function(FuncId::from_word(word?)))),
            Made::Named => {
                let mut last: Option<(u64, Word)> = None;
                out.maybe_text(
                    name,
                    known().map(|value| {
                        let value = value?;
                        if let Some((_, word)) = last.filter(|(v, _)| *v == value) {
                            return Some(word);
                        }
                        let word = match c.names.iter().find(|(v, _)| *v == value) {
                            Some((_, name)) => of.words.own(name),
                            None => of.words.own(&value.to_string()),
                        };
                        last = Some((value, word));
                        Some(word)
                    }),
                );
            }
        }
    }
    let times = held.get(kind.columns.iter().position(|c| c.id == TS).unwrap_or(0)).map_or(&[][..], Vec::as_slice);
    out.maybe_signed(unix_name, times.iter().map(|ns| of.clock.at(*ns)));
    out.same(run_name, of.run, times.len());
}

/// A name that no column before it has; readers do not tell cases apart.
fn free(name: &str, taken: &[String]) -> String {
    let base = if name.is_empty() { "column" } else { name };
    let mut free = base.to_owned();
    let mut n = 1;
    while taken.iter().any(|t| t.eq_ignore_ascii_case(&free)) {
        n += 1;
        free = format!("{base}_{n}");
    }
    free
}
