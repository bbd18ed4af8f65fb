//! The readers that were written from `spec/igt.md` alone read what this repository's reader reads. Needs no root.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ingero_format::catalog::CPU;
use ingero_format::layout::{CHUNK_FOOTER, CHUNK_FUNCTIONS, CHUNK_INDEX, CHUNK_SCHEMA, CHUNK_STRINGS, CHUNK_TASKS};
use ingero_format::{Batch, KindSchema, Trace};
use ingero_tests::{compile_kaitai, python, run, tool};
use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};

const TIMEOUT: Duration = Duration::from_secs(120);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Every recording in the repository that is not refused.
fn committed() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join("benches/data"), root().join("investigations"), root().join("tests/corpus")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "igt") && Trace::open(&path).is_ok() {
                found.push(path);
            }
        }
    }
    found.sort();
    assert!(found.len() >= 15, "{found:?}");
    found
}

/// Those that are complete and without damage.
fn whole() -> Vec<PathBuf> {
    let intact = |trace: &Trace| trace.blocks().iter().all(|b| trace.stored_columns(b).is_ok());
    let whole = |path: &PathBuf| Trace::open(path).is_ok_and(|t| t.complete() && intact(&t));
    committed().into_iter().filter(whole).collect()
}

/// What `igt.py` prints, made by this repository's reader.
fn checksums(path: &Path) -> Vec<Value> {
    let trace = Trace::open(path).unwrap();
    let tasks: Vec<_> = trace.tasks().iter().map(|t| json!([t.pid, t.tid, t.start_ns])).collect();
    let functions: Vec<_> = trace
        .functions()
        .iter()
        .map(|f| json!([f.layer.name(), format!("{:?}", f.class).to_lowercase(), f.symbol]))
        .collect();
    let meta: BTreeMap<_, _> = trace.meta_entries().iter().cloned().collect();
    let dictionaries = json!({ "complete": trace.complete(), "meta": meta, "strings": trace.strings(),
        "tasks": tasks, "functions": functions });
    let mut lines = vec![dictionaries];
    let mut batch = Batch::new().unwrap();
    let mut blocks = trace.blocks().to_vec();
    blocks.sort_by_key(|b| b.offset);
    for b in &blocks {
        let mut columns = BTreeMap::new();
        if trace.read_block(b, &mut batch, None).is_ok() {
            let known = trace.kind_schema(b.header.kind).map(|k| k.columns.clone()).unwrap_or_default();
            let mut ids: Vec<u8> = trace.stored_columns(b).unwrap().iter().map(|c| c.id).collect();
            ids.extend(known.iter().map(|c| c.id));
            for id in ids {
                // What the block lacks is not known, or 0 where that cannot be.
                let absent = if known.iter().any(|c| c.id == id && c.nullable) { u64::MAX } else { 0 };
                let words = batch.column(id).map_or_else(|| vec![absent; batch.rows()], |c| c.iter().collect());
                let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
                columns.insert(id, crc32c::crc32c(&bytes));
            }
        }
        lines.push(json!({ "seq": b.header.seq, "kind": b.header.kind, "rows": batch.rows(), "columns": columns }));
    }
    lines
}

/// Compares both readers on a file; returns how many columns were compared.
fn assert_same(path: &Path) -> usize {
    let read = run(python().arg(root().join("spec/igt.py")).arg(path), TIMEOUT).success();
    let theirs: Vec<Value> = read.stdout.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let ours = checksums(path);
    let shown = path.display();
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs, "{shown}, ours left, {}", read.stderr);
    }
    assert_eq!(ours.len(), theirs.len(), "{shown}");
    ours.iter().filter_map(|l| l["columns"].as_object()).map(serde_json::Map::len).sum()
}

fn in_folder(name: &str, bytes: &[u8]) -> (TempDir, PathBuf) {
    let folder = tempdir().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, bytes).unwrap();
    (folder, path)
}

#[test]
fn the_reader_in_python_is_of_a_size_that_can_be_read() {
    let text = fs::read_to_string(root().join("spec/igt.py")).unwrap();
    let widest = text.lines().map(|l| l.chars().count()).max();
    let lines = text.lines().filter(|l| !l.is_empty()).count();
    assert!(lines <= 300 && widest <= Some(140), "{lines} lines, {widest:?} columns");
}

#[test]
fn the_reader_in_python_decodes_every_column_of_every_recording_alike() {
    for path in committed() {
        let blocks = Trace::open(&path).unwrap().blocks().len();
        assert!(assert_same(&path) >= 2 * (blocks / 2), "{}", path.display());
    }
}

#[test]
fn the_reader_in_python_decodes_what_compact_makes_alike() {
    let folder = tempdir().unwrap();
    let later = |p: &PathBuf| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with("later"));
    for (n, path) in whole().iter().filter(|p| !later(p)).enumerate() {
        let out = folder.path().join(format!("{n}.igt"));
        drop(run(Command::new(tool("ingero-replay")).arg("compact").arg(path).arg("-o").arg(&out), TIMEOUT).success());
        assert!(assert_same(&out) > 20 || path.ends_with("empty.igt"), "{}", path.display());
    }
}

#[test]
fn the_reader_in_python_finds_what_is_left_of_a_damaged_file_alike() {
    let bytes = fs::read(root().join("investigations/h200-fight/run.igt")).unwrap();
    for at in [bytes.len() - 1, bytes.len() - 100, bytes.len() / 2, bytes.len() / 3 + 1, 5000] {
        let (_folder, path) = in_folder("cut.igt", &bytes[..at]);
        assert_same(&path);
    }
    let trace = Trace::open(root().join("investigations/h200-fight/run.igt")).unwrap();
    let block = trace.blocks()[0];
    // With the names of tasks or functions goes every block that needs one.
    for names in trace.chunks().iter().filter(|c| [CHUNK_TASKS, CHUNK_FUNCTIONS].contains(&c.header.chunk_type)) {
        let mut bytes = bytes.clone();
        bytes[usize::try_from(names.offset).unwrap() + 60] ^= 0x10;
        let (_folder, path) = in_folder("nameless.igt", &bytes);
        assert_same(&path);
    }
    let start = usize::try_from(block.offset).unwrap();
    // In its columns, in its directory, in its header, in the footer.
    let end = start + 56 + block.header.payload_len as usize;
    for at in [end - 1, start + 57, start + 9, bytes.len() - 20] {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0x10;
        let (_folder, path) = in_folder("flipped.igt", &bytes);
        assert_same(&path);
    }
}

#[test]
fn tables_go_straight_to_polars_and_pandas() {
    let program = "\
import igt, json, sys
run = igt.open(sys.argv[1])
events = run.events('call', ['ts_ns', 'dur_ns'])
table = run.to_polars('call')
row = table.row(0, named=True)
assert run.to_pandas('call').shape == table.shape and table.height == len(events['ts_ns'])
assert run.to_pandas('call').iloc[0].to_dict()['func'] == row['func']
assert (events['ts_ns'][1:] >= events['ts_ns'][:-1]).all()
print(json.dumps({'rows': table.height, 'columns': table.columns, 'row': row, 'nulls': table['ptr2'].null_count()}))";
    let path = root().join("benches/data/cuda.igt");
    let read = run(python().args(["-c", program]).arg(&path), TIMEOUT).success();
    let table: Value = serde_json::from_str(&read.stdout).unwrap();

    let trace = Trace::open(&path).unwrap();
    let (mut batch, mut rows, mut nulls) = (Batch::new().unwrap(), 0, 0);
    let (mut first, mut func) = (u64::MAX, String::new());
    for b in trace.blocks().iter().filter(|b| trace.kind_name(b.header.kind) == "call") {
        trace.read_block(b, &mut batch, None).unwrap();
        assert!(batch.column(CPU).is_some());
        rows += batch.rows();
        nulls += batch.column(8).unwrap().iter().filter(|&w| w == u64::MAX).count();
        let column = &trace.kind_schema(b.header.kind).unwrap().columns[3];
        for (ts, f) in batch.column(0).unwrap().iter().zip(batch.column(3).unwrap().iter()) {
            if ts < first {
                (first, func) = (ts, trace.show(column, f));
            }
        }
    }
    assert_eq!((&table["rows"], &table["nulls"]), (&rows.into(), &nulls.into()));
    assert_eq!((&table["row"]["ts_ns"], &table["row"]["func"]), (&first.into(), &func.into()));
    assert_eq!(table["row"]["end"], "returned");
    let columns: Vec<&str> = table["columns"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(columns[..6], ["ts_ns", "cpu", "task_pid", "task_tid", "func", "dur_ns"]);
}

#[test]
fn the_kaitai_description_finds_the_same_chunks_columns_and_names() {
    let parsers = tempdir().unwrap();
    compile_kaitai(parsers.path());
    for path in &whole() {
        let mut list = python();
        list.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/kaitai/list.py")).arg(parsers.path()).arg(path);
        let read = run(&mut list, TIMEOUT).success();
        let mut lines = read.stdout.lines().map(|l| serde_json::from_str::<Value>(l).unwrap());
        assert_eq!(lines.next(), Some(json!({ "major": 1, "minor": fs::read(path).unwrap()[10] })));
        let found: Vec<Value> = lines.collect();

        let trace = Trace::open(path).unwrap();
        let chunks = trace.chunks();
        assert_eq!(found.len(), chunks.len() + 2, "{}: index and footer follow", path.display());
        let (mut strings, mut functions) = (vec![json!("")], Vec::new());
        for (chunk, found) in chunks.iter().zip(&found) {
            let h = &chunk.header;
            let header = json!([h.kind, h.seq, h.rows, h.cpu, h.payload_len, h.ts_min, h.ts_max]);
            assert_eq!((&found["offset"], &found["type"]), (&chunk.offset.into(), &h.chunk_type.into()));
            assert_eq!(found["header"], header, "{}", path.display());
            let holds = found["holds"].as_array().unwrap();
            match h.chunk_type {
                CHUNK_SCHEMA => {
                    // The reader has them as they come, a chunk by number.
                    let mut kinds: Vec<&KindSchema> = trace.schema().iter().collect();
                    kinds.sort_by_key(|kind| kind.number);
                    let kinds: Vec<Value> = kinds.into_iter().map(kind).collect();
                    let last = chunks.iter().rfind(|c| c.header.chunk_type == CHUNK_SCHEMA) == Some(chunk);
                    let fits = if last { *holds == kinds } else { holds.iter().all(|k| kinds.contains(k)) };
                    assert!(fits, "{}: {holds:?} are not in {kinds:?}", path.display());
                }
                CHUNK_STRINGS => strings.extend(holds[2..].iter().cloned()),
                CHUNK_FUNCTIONS => functions.extend(holds[2..].iter().cloned()),
                _ if trace.blocks().iter().any(|b| b.offset == chunk.offset) => {
                    let stored = trace.stored_columns(chunk).unwrap();
                    let columns: Vec<Value> = stored.iter().map(|c| json!([c.id, c.transform, c.len_bytes])).collect();
                    assert_eq!(*holds, columns, "block {}", h.seq);
                }
                // Of a later version.
                CHUNK_FOOTER.. => assert_eq!(*holds, [json!(h.payload_len)]),
                _ => assert_eq!(holds[1], h.rows, "chunk {}", h.seq),
            }
        }
        assert_eq!(json!(strings), json!(trace.strings()));
        assert_eq!(json!(functions), json!(trace.functions().iter().map(|f| &f.symbol).collect::<Vec<_>>()));

        let [index, footer] = &found[chunks.len()..] else { panic!("no footer") };
        assert_eq!((&index["type"], &footer["type"]), (&CHUNK_INDEX.into(), &CHUNK_FOOTER.into()));
        let listed: Vec<Value> = chunks.iter().map(|c| json!([c.offset, c.header.seq])).collect();
        assert_eq!(index["holds"], json!(listed));
        assert_eq!(footer["holds"], json!([index["offset"], chunks.len(), trace.events_written()]));
    }
}

fn kind(kind: &KindSchema) -> Value {
    json!([kind.number, kind.name, kind.columns.iter().map(|c| &c.name).collect::<Vec<_>>()])
}
