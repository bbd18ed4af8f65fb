//! How fast one kind of events of a recording is encoded and decoded: for `benches/peers`.
//!
//!     cargo run --release -p ingero-benches --bin recode -- run.igt sched_switch
//!
//! Prints one line of JSON: rows, the bytes of a whole file with nothing else that could be left out, and the least
//! processor time of several rounds. The events are in memory as they come from the kernel, the file is in memory too.

#![forbid(unsafe_code)]

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use ingero_benches::{Recording, describes, thread_time};
use ingero_format::catalog::event_kind;
use ingero_format::{Batch, Trace, WriterOptions};

const ROUNDS: usize = 7;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let [_, file, kind] = args.as_slice() else { anyhow::bail!("recode FILE KIND") };
    let mut recording = Recording::load(&PathBuf::from(file))?;
    recording.retain(|k| describes(k) || event_kind(k).name == kind);
    let rows = recording.events.iter().filter(|e| event_kind(e.body.kind()).name == kind).count();

    let (mut encode, mut decode) = (Duration::MAX, Duration::MAX);
    let mut bytes = Vec::new();
    for _ in 0..ROUNDS {
        let begun = thread_time();
        bytes = recording.write(Vec::with_capacity(bytes.len()), WriterOptions::default())?.0;
        encode = encode.min(thread_time() - begun);
    }
    let path = std::env::temp_dir().join(format!("recode-{}.igt", std::process::id()));
    std::fs::write(&path, &bytes).with_context(|| path.display().to_string())?;
    let trace = Trace::open(&path)?;
    let mut batch = Batch::new()?;
    for _ in 0..ROUNDS {
        let begun = thread_time();
        for block in trace.blocks() {
            trace.read_block(block, &mut batch, None)?;
        }
        decode = decode.min(thread_time() - begun);
    }
    std::fs::remove_file(&path)?;
    let (encode, decode) = (encode.as_secs_f64(), decode.as_secs_f64());
    writeln!(
        std::io::stdout(),
        r#"{{"rows": {rows}, "bytes": {}, "encode_s": {encode:.6}, "decode_s": {decode:.6}}}"#,
        bytes.len()
    )?;
    Ok(())
}
