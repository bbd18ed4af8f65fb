//! What the numbers of sources and operations mean.

use std::collections::HashMap;

use ingero_format::FunctionInfo;
use ingero_format::catalog::{Class, FUNCTIONS, Layer};

use super::database::{Database, Values};
use crate::error::Error;

/// What an operation is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Meaning {
    /// A call of a library function.
    Call(FunctionInfo),
    Switch,
    Wakeup,
    PageAlloc,
    Exec,
    Exit,
    Fork,
    /// A request to a block device, of this kind.
    Block(&'static str),
    /// Something that the format has no kind for.
    Other,
}

/// An operation with its names.
#[derive(Debug, Clone)]
pub(super) struct Operation {
    pub(super) source: String,
    pub(super) name: String,
    pub(super) meaning: Meaning,
}

/// The operations of a database, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Vocabulary {
    sources: HashMap<i64, String>,
    known: HashMap<(i64, i64), Operation>,
}

/// Names that are not the symbol's own.
const OWN_NAMES: &[(&str, &str)] =
    &[("cudaStreamSync", "cudaStreamSynchronize"), ("cudaDeviceSync", "cudaDeviceSynchronize")];

impl Vocabulary {
    pub(super) fn read(db: &Database) -> Result<Self, Error> {
        let mut this = Self::default();
        db.each("sources", "SELECT rowid AS row_id, id, name FROM sources", None, |row| {
            let row = Values(row);
            this.sources.insert(row.integer("id")?, row.text("name")?);
            Ok(())
        })?;
        db.each("ops", "SELECT rowid AS row_id, source_id, op_id, name FROM ops", None, |row| {
            let row = Values(row);
            let (source, op, name) = (row.integer("source_id")?, row.integer("op_id")?, row.text("name")?);
            let operation = this.operation(source, name);
            this.known.insert((source, op), operation);
            Ok(())
        })?;
        Ok(this)
    }

    fn operation(&self, source: i64, name: String) -> Operation {
        let source = self.sources.get(&source).cloned().unwrap_or_else(|| format!("source {source}"));
        let meaning = meaning(&source, &name);
        Operation { source, name, meaning }
    }

    /// An operation by its numbers. One that the database does not name is called by them.
    pub(super) fn get(&mut self, source: i64, op: i64) -> &Operation {
        if !self.known.contains_key(&(source, op)) {
            let operation = self.operation(source, format!("op {op}"));
            self.known.insert((source, op), operation);
        }
        &self.known[&(source, op)]
    }
}

fn meaning(source: &str, name: &str) -> Meaning {
    match (source, name) {
        ("HOST", "sched_switch") => Meaning::Switch,
        ("HOST", "sched_wakeup") => Meaning::Wakeup,
        ("HOST", "mm_page_alloc") => Meaning::PageAlloc,
        ("HOST", "process_exec") => Meaning::Exec,
        ("HOST", "process_exit") => Meaning::Exit,
        ("HOST", "process_fork") => Meaning::Fork,
        ("IO", "block_read") => Meaning::Block("R"),
        ("IO", "block_write") => Meaning::Block("W"),
        ("IO", "block_discard") => Meaning::Block("D"),
        _ => function(source, name).map_or(Meaning::Other, Meaning::Call),
    }
}

/// The function that a name stands for: its symbol, or the one that the headers make of it.
fn function(source: &str, name: &str) -> Option<FunctionInfo> {
    let name = OWN_NAMES.iter().find(|(own, _)| *own == name).map_or(name, |(_, symbol)| symbol);
    let later = format!("{name}_v2");
    let found = FUNCTIONS.iter().find(|f| f.symbol == name).or_else(|| FUNCTIONS.iter().find(|f| f.symbol == later));
    if let Some(f) = found {
        return Some(FunctionInfo { symbol: f.symbol.to_owned(), layer: f.layer, class: f.class });
    }
    let layer = match source {
        "CUDA" => Layer::Runtime,
        "DRIVER" => Layer::Driver,
        "CUDA_GRAPH" | "GRAPH" => Layer::Graph,
        "NCCL" => Layer::Nccl,
        _ => return None,
    };
    Some(FunctionInfo { symbol: name.to_owned(), layer, class: Class::Other })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_symbols() {
        let symbol = |source, name| match meaning(source, name) {
            Meaning::Call(f) => format!("{} {:?} {:?}", f.symbol, f.layer, f.class),
            other => format!("{other:?}"),
        };
        assert_eq!(symbol("CUDA", "cudaStreamSync"), "cudaStreamSynchronize Runtime Sync");
        assert_eq!(symbol("DRIVER", "cuMemAlloc"), "cuMemAlloc_v2 Driver Alloc");
        assert_eq!(symbol("DRIVER", "cuLater"), "cuLater Driver Other");
        assert_eq!(symbol("NET", "net_send"), "Other");
        assert_eq!(symbol("IO", "block_read"), "Block(\"R\")");
    }
}
