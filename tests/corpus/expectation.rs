//! What a reader yields of a recording, in a form that can be kept: used by the programs that write the corpus and by the test of it.

use std::collections::BTreeMap;
use std::path::Path;

use ingero_format::{Batch, ColumnSchema, KindSchema, Trace};
use serde_json::{Value, json};

/// The words of a column over all blocks in the order of the file.
#[derive(Default)]
struct Column {
    crc: u32,
    first: Option<u64>,
    last: Option<u64>,
    unknown: usize,
}

/// What today's reader yields.
pub(crate) fn of(path: &Path) -> Value {
    let trace = match Trace::open(path) {
        Ok(trace) => trace,
        Err(refusal) => return json!({ "refused": refusal.to_string() }),
    };
    let mut blocks = trace.blocks().to_vec();
    blocks.sort_by_key(|b| b.offset);
    let mut kinds: BTreeMap<u16, (u64, u64, BTreeMap<u8, Column>)> = BTreeMap::new();
    let mut unreadable = Vec::new();
    let mut batch = Batch::new().expect("memory for a batch");
    for block in &blocks {
        if trace.read_block(block, &mut batch, None).is_err() {
            unreadable.push(json!({ "seq": block.header.seq, "kind": block.header.kind, "rows": block.header.rows }));
            continue;
        }
        let (blocks, rows, columns) = kinds.entry(block.header.kind).or_default();
        (*blocks, *rows) = (*blocks + 1, *rows + batch.rows() as u64);
        for id in 0..=u8::MAX {
            let Some(words) = batch.column(id) else { continue };
            let column = columns.entry(id).or_default();
            let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
            column.crc = crc32c::crc32c_append(column.crc, &bytes);
            column.unknown += words.iter().filter(|&w| w == u64::MAX).count();
            column.first = column.first.or(words.iter().next());
            column.last = words.last();
        }
    }
    let kinds: serde_json::Map<String, Value> = kinds
        .iter()
        .map(|(&number, (blocks, rows, columns))| {
            let schema = trace.kind_schema(number);
            let columns: serde_json::Map<String, Value> = columns
                .iter()
                .map(|(&id, column)| {
                    let schema = schema.and_then(|s| s.columns.iter().find(|c| c.id == id));
                    (schema.map_or_else(|| id.to_string(), |s| s.name.clone()), shown(&trace, schema, column))
                })
                .collect();
            let about = json!({ "kind": number, "blocks": blocks, "rows": rows, "columns": columns });
            (trace.kind_name(number).to_owned(), about)
        })
        .collect();
    let tasks: Vec<Value> = trace.tasks().iter().map(|t| json!([t.pid, t.tid, t.start_ns])).collect();
    let functions: Vec<Value> =
        trace.functions().iter().map(|f| json!([f.symbol, f.layer.name(), format!("{:?}", f.class)])).collect();
    json!({
        "complete": trace.complete(),
        "damaged places": trace.damage().len(),
        "unreadable blocks": unreadable,
        "chunks": trace.chunks().len(),
        "span_ns": trace.span_ns(),
        "schema": trace.schema().iter().map(kind).collect::<Vec<_>>(),
        "meta": trace.meta_entries(),
        "strings": trace.strings(),
        "tasks": tasks,
        "functions": functions,
        "kinds": kinds,
    })
}

fn shown(trace: &Trace, schema: Option<&ColumnSchema>, column: &Column) -> Value {
    let text = |word: Option<u64>| word.map(|w| schema.map_or_else(|| w.to_string(), |s| trace.show(s, w)));
    let (first, last) = (text(column.first), text(column.last));
    json!({ "crc": format!("{:08x}", column.crc), "first": first, "last": last, "unknown": column.unknown })
}

/// Name and number of a kind, and its columns in one line each.
fn kind(kind: &KindSchema) -> Value {
    let columns: Vec<String> = kind
        .columns
        .iter()
        .map(|c| {
            let names: Vec<String> = c.names.iter().map(|(w, n)| format!("{w} {n}")).collect();
            format!(
                "{} {} unit {}{} {}",
                c.id,
                c.name,
                c.unit,
                if c.nullable { " nullable" } else { "" },
                names.join(", ")
            )
            .trim_end()
            .to_owned()
        })
        .collect();
    json!({ "number": kind.number, "name": kind.name, "columns": columns })
}
