//! Where the rows of an import go.

use std::collections::HashMap;
use std::io::Write;

use ingero_format::catalog::{Event, FUNCTIONS, FuncId, StrId, TaskId};
use ingero_format::{Error, FunctionInfo, Task, TraceWriter};

/// Takes what an import makes.
pub(crate) trait Rows {
    /// A new life.
    fn task(&mut self, task: Task) -> TaskId;
    /// The id of a string.
    fn string(&mut self, text: &str) -> StrId;
    /// The id of a function, by its place in the table.
    fn function(&mut self, number: usize) -> FuncId;
    /// An event.
    fn push<E: Event>(&mut self, ts_ns: u64, cpu: u32, event: &E) -> Result<(), Error>;
}

/// The first pass: nothing is kept.
#[derive(Debug, Default)]
pub(crate) struct NoRows;

impl Rows for NoRows {
    fn task(&mut self, _: Task) -> TaskId {
        TaskId(0)
    }
    fn string(&mut self, _: &str) -> StrId {
        StrId(0)
    }
    fn function(&mut self, number: usize) -> FuncId {
        FuncId(u32::try_from(number).unwrap_or(u32::MAX))
    }
    fn push<E: Event>(&mut self, _: u64, _: u32, _: &E) -> Result<(), Error> {
        Ok(())
    }
}

/// The second pass: everything goes into a file.
pub(crate) struct FileRows<W: Write> {
    pub(crate) writer: TraceWriter<W>,
    functions: HashMap<usize, FuncId>,
}

impl<W: Write> FileRows<W> {
    pub(crate) fn new(writer: TraceWriter<W>) -> Self {
        Self { writer, functions: HashMap::new() }
    }
}

impl<W: Write> Rows for FileRows<W> {
    fn task(&mut self, task: Task) -> TaskId {
        self.writer.task(task)
    }
    fn string(&mut self, text: &str) -> StrId {
        self.writer.string(text)
    }
    fn function(&mut self, number: usize) -> FuncId {
        let writer = &mut self.writer;
        *self.functions.entry(number).or_insert_with(|| {
            let f = &FUNCTIONS[number.min(FUNCTIONS.len() - 1)];
            writer.function(FunctionInfo { symbol: f.symbol.to_owned(), layer: f.layer, class: f.class })
        })
    }
    fn push<E: Event>(&mut self, ts_ns: u64, cpu: u32, event: &E) -> Result<(), Error> {
        self.writer.push(ts_ns, cpu, event)
    }
}
