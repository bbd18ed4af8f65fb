//! Tasks and functions whose entries were lost with a damaged chunk. Stand-ins keep the ids of the others right, but
//! say nothing: what names one is as good as lost.

use std::ops::Range;

use super::Batch;
use crate::catalog::{NULL, Unit};
use crate::column::Entry;
use crate::schema::KindSchema;

/// Ids without an entry, by dictionary.
#[derive(Default)]
pub(super) struct Nameless {
    tasks: Vec<Range<u64>>,
    functions: Vec<Range<u64>>,
}

/// A column of a block that may hold such ids.
pub(super) struct Suspect<'n> {
    pub(super) column: u8,
    lost: &'n [Range<u64>],
    what: &'static str,
}

impl Nameless {
    pub(super) fn add_tasks(&mut self, ids: Range<usize>) {
        add(&mut self.tasks, &ids);
    }

    pub(super) fn add_functions(&mut self, ids: Range<usize>) {
        add(&mut self.functions, &ids);
    }

    /// So many entries there are: ids behind them have none.
    pub(super) fn end(&mut self, tasks: usize, functions: usize) {
        self.tasks.push(tasks as u64..NULL);
        self.functions.push(functions as u64..NULL);
    }

    /// The columns of a block that may hold such ids, as far as the smallest and largest of each tell.
    pub(super) fn suspects(&self, kind: Option<&KindSchema>, entries: &[Entry]) -> Vec<Suspect<'_>> {
        let mut out = Vec::new();
        if self.tasks.is_empty() && self.functions.is_empty() {
            return out;
        }
        for column in kind.iter().flat_map(|kind| &kind.columns) {
            let (lost, what) = if column.is(Unit::Task) {
                (&self.tasks[..], "tasks")
            } else if column.is(Unit::Func) {
                (&self.functions[..], "functions")
            } else {
                continue;
            };
            let mut ranges = entries.iter().filter(|e| e.id == column.id).filter_map(Entry::range);
            if ranges.any(|(lo, hi)| lost.iter().any(|lost| lo < lost.end && lost.start <= hi)) {
                out.push(Suspect { column: column.id, lost, what });
            }
        }
        out
    }
}

fn add(lost: &mut Vec<Range<u64>>, ids: &Range<usize>) {
    if !ids.is_empty() {
        lost.push(ids.start as u64..ids.end as u64);
    }
}

impl Suspect<'_> {
    /// What is wrong with the block, where the column does hold one.
    pub(super) fn problem(&self, batch: &Batch) -> Option<String> {
        let is_lost = |w: u64| w != NULL && self.lost.iter().any(|lost| lost.contains(&w));
        let names = batch.column(self.column)?.iter().any(is_lost);
        names.then(|| format!("it names {} that were lost", self.what))
    }
}
