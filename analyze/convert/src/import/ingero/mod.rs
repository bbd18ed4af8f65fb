//! Import of the SQLite databases of ingero, schemas 0.8 and 0.9.
//!
//! Such a database holds a sample: most events are counted per minute, operation and process and not
//! stored. The import keeps both, calls the file `sampled`, and makes no context switches of what are
//! stays off a CPU: the other threads, the CPUs and the states are not in the source.

mod annotations;
mod database;
mod events;
mod people;
mod totals;
mod vocabulary;

use std::collections::{BTreeMap, HashMap};
use std::io::{BufWriter, Write};
use std::path::Path;

use ingero_format::catalog::{CALL_ENDS, Clock, Frame, Kind, Loss, NO_CPU, Name, Stack, Usage};
use ingero_format::{TraceWriter, WriterOptions};

use super::{CAUSE_SOURCE_LOST, ImportOptions, Imported, NAME_SEEN};
use crate::error::Error;
use crate::input::{Input, Progress};
use crate::output::PendingFile;
pub(crate) use annotations::{LABELS, OWN_CHAIN, SOURCE, STACK_LABEL, TASK_CGROUP_LABEL};
use database::{Database, Refusal, Values};
use events::Transcript;
use people::People;
use totals::Totals;
use vocabulary::Vocabulary;

/// Bytes of what the source calls a megabyte.
const MEGABYTE: u64 = 1 << 20;
/// Thousands times and billions in one.
const PERCENT_TO_PPB: f64 = 1e7;

/// Imports a database into `output`.
///
/// # Errors
/// [`Error::Row`] for the first row with a value that cannot be, where `keep_going` is not set,
/// [`Error::Input`] for a database of another kind, [`Error::Sqlite`] for one that is broken,
/// [`Error::Exists`], [`Error::Io`] and [`Error::Trace`] for the output.
pub fn import(input: &Input, output: &Path, options: ImportOptions) -> Result<Imported, Error> {
    let pending = PendingFile::create(output, options.force)?;
    let trace = |source| Error::Trace { path: output.to_owned(), source };
    let db = Database::open(input.path())?;
    let out = BufWriter::with_capacity(1 << 20, pending.writer()?);
    let writer = TraceWriter::new(out, WriterOptions::default()).map_err(trace)?;
    let transcript = Transcript::new(writer, People::read(&db)?, Vocabulary::read(&db)?);
    let stored = db.count("events")?;
    let progress = if options.progress { Progress::count("importing", 3 * stored) } else { Progress::none() };
    let mut import = Import {
        db: &db,
        transcript,
        progress,
        keep_going: options.keep_going,
        skipped: 0,
        stored,
        stack_hashes: Vec::new(),
    };
    let (totals, notes) = import.run().map_err(|e| match e {
        // What the writer refuses is the output's fault, not the database's.
        Error::Trace { source, .. } => trace(source),
        other => other,
    })?;
    import.progress.done();
    for (key, value) in totals {
        import.transcript.writer.set_meta(&key, &value);
    }
    let (_, totals) = import.transcript.writer.finish().map_err(trace)?;
    pending.publish()?;
    Ok(Imported { damaged: 0, totals, records: stored, unit: "stored rows", ignored: BTreeMap::new(), notes })
}

/// An import under way.
struct Import<'d, W: Write> {
    db: &'d Database,
    transcript: Transcript<W>,
    progress: Progress,
    keep_going: bool,
    skipped: u64,
    stored: u64,
    /// Stacks, and what the database calls them.
    stack_hashes: Vec<(u64, i64)>,
}

/// Keys and values about the recording.
type Meta = Vec<(String, String)>;

impl<W: Write> Import<'_, W> {
    /// Imports everything. Returns the file's keys, and what to tell.
    fn run(&mut self) -> Result<(Meta, Vec<String>), Error> {
        let nodes = self.nodes()?;
        let (from_ns, to_ns) = self.span()?;
        self.clocks(from_ns, to_ns)?;
        self.names(from_ns)?;
        let mut totals = Totals::default();
        totals::import(self, from_ns, &mut totals)?;
        self.events()?;
        self.stacks(from_ns)?;
        self.usage()?;
        let (sessions, own_chains) = annotations::import(self, from_ns)?;
        if self.skipped > 0 {
            let probe = self.transcript.writer.string("unreadable rows");
            let loss = Loss { to_ns, probe, cause: CAUSE_SOURCE_LOST, count: Some(self.skipped), of_host: None };
            self.push(from_ns, &loss)?;
        }
        let whole = self.says_whole()? && totals.counts_no_more_than(self.stored);
        let mut meta = vec![
            ("source".to_owned(), "ingero".to_owned()),
            ("sampled".to_owned(), (!whole).to_string()),
            ("clock".to_owned(), "realtime".to_owned()),
            ("gfp_bits".to_owned(), "unknown".to_owned()),
            ("stored_events".to_owned(), self.stored.to_string()),
        ];
        let version = "SELECT value FROM schema_info WHERE key = 'version'";
        if !self.db.columns("schema_info")?.is_empty()
            && let Ok(version) = self.db.connection.query_row(version, [], |row| row.get::<_, String>(0))
        {
            meta.push(("source_version".to_owned(), version));
        }
        if let [node] = &nodes[..] {
            meta.push(("host".to_owned(), node.clone()));
        }
        meta.extend(sessions);
        meta.extend(totals.meta());
        let mut notes = totals.notes(self.stored, whole);
        if self.skipped > 0 {
            notes.push(format!("{} rows could not be read", self.skipped));
        }
        if own_chains > 0 {
            notes.push(format!(
                "incidents of ingero-analyze that are not kept, since the analysis finds them anew: {own_chains}"
            ));
        }
        if self.db.columns("events")?.contains("gpu_id") && self.any("SELECT 1 FROM events WHERE gpu_id != 0")? {
            notes.push("the numbers of the devices (gpu_id) are not kept".to_owned());
        }
        Ok((meta, notes))
    }

    /// Whether the database says of itself that it has every event: those that ingero-convert made of a whole recording do.
    fn says_whole(&self) -> Result<bool, Error> {
        Ok(!self.db.columns("schema_info")?.is_empty()
            && self.any("SELECT 1 FROM schema_info WHERE key = 'sampled' AND value = 'false'")?)
    }

    fn any(&self, sql: &str) -> Result<bool, Error> {
        let found = self.db.connection.prepare(sql).and_then(|mut s| s.exists([]));
        found.map_err(|e| self.db.error(e))
    }

    fn push<E: ingero_format::catalog::Event>(&mut self, ts_ns: u64, event: &E) -> Result<(), Error> {
        let pushed = self.transcript.writer.push(ts_ns, NO_CPU, event);
        pushed.map_err(|source| Error::Trace { path: Path::new("").to_owned(), source })
    }

    /// The nodes that the events are from. Ids of several cannot be told apart in one recording.
    fn nodes(&self) -> Result<Vec<String>, Error> {
        if !self.db.columns("events")?.contains("node") {
            return Ok(Vec::new());
        }
        let mut nodes = Vec::new();
        self.db.each("events", "SELECT max(rowid) AS row_id, node FROM events GROUP BY node LIMIT 9", None, |row| {
            nodes.push(Values(row).text("node")?);
            Ok(())
        })?;
        nodes.retain(|node| !node.is_empty());
        if nodes.len() > 1 {
            let problem = format!(
                "holds the events of several nodes ({}), whose process ids collide: make a database of each, import \
                 these, and merge the recordings",
                nodes.join(", ")
            );
            return Err(self.db.refuse(problem));
        }
        Ok(nodes)
    }

    /// First and last instant that anything is known of.
    fn span(&self) -> Result<(u64, u64), Error> {
        let mut spans = Vec::new();
        let mut take = |sql: &str| -> Result<(), Error> {
            let read = |row: &rusqlite::Row| Ok((row.get::<_, Option<i64>>(0)?, row.get::<_, Option<i64>>(1)?));
            if let Ok((Some(from), Some(to))) = self.db.connection.query_row(sql, [], read)
                && let (Ok(from), Ok(to)) = (u64::try_from(from), u64::try_from(to))
            {
                spans.push((from, to.max(from)));
            }
            Ok(())
        };
        take("SELECT min(timestamp), max(timestamp) FROM events")?;
        if !self.db.columns("sessions")?.is_empty() {
            take("SELECT min(started_at), max(max(stopped_at, started_at)) FROM sessions WHERE started_at > 0")?;
        }
        if !self.db.columns("system_snapshots")?.is_empty() {
            take("SELECT min(timestamp), max(timestamp) FROM system_snapshots")?;
        }
        let from = spans.iter().map(|s| s.0).min().unwrap_or(0);
        Ok((from, spans.iter().map(|s| s.1).max().unwrap_or(from)))
    }

    /// The only clock is the wall's. The first block says so: cut off anywhere behind it, the file still does.
    fn clocks(&mut self, from_ns: u64, to_ns: u64) -> Result<(), Error> {
        for ts_ns in [Some(from_ns), Some(to_ns).filter(|&to_ns| to_ns > from_ns)].into_iter().flatten() {
            self.push(ts_ns, &Clock { boot_ns: ts_ns, real_ns: ts_ns, tsc: None, bracket_ns: 0 })?;
        }
        let sealed = self.transcript.writer.seal_kind(Kind::Clock);
        sealed.map_err(|source| Error::Trace { path: Path::new("").to_owned(), source })
    }

    /// Names are noted when the source stops: they are taken to have held from the start.
    fn names(&mut self, from_ns: u64) -> Result<(), Error> {
        if self.db.columns("process_names")?.is_empty() {
            return Ok(());
        }
        let mut names: Vec<(u32, String)> = Vec::new();
        let sql = "SELECT rowid AS row_id, pid, name FROM process_names ORDER BY pid";
        let skipped = self.keep_going.then_some(&mut self.skipped);
        self.db.each("process_names", sql, skipped, |row| {
            names.push((Values(row).id("pid")?, Values(row).text("name")?));
            Ok(())
        })?;
        for (pid, name) in names.into_iter().filter(|(pid, _)| *pid != 0) {
            let task = self.transcript.people.task(&mut self.transcript.writer, pid, pid);
            let name = self.transcript.writer.string(&name);
            self.push(from_ns, &Name { task, name, source: NAME_SEEN })?;
        }
        Ok(())
    }

    fn events(&mut self) -> Result<(), Error> {
        debug_assert_eq!(CALL_ENDS[0].1, "returned");
        let columns = "rowid AS row_id, timestamp, pid, tid, source, op, duration, arg0, arg1, ret_code";
        let sql = format!("SELECT {columns} FROM events ORDER BY timestamp, rowid");
        let (transcript, progress) = (&mut self.transcript, &self.progress);
        self.db.each("events", &sql, self.keep_going.then_some(&mut self.skipped), |row| {
            progress.add(1);
            transcript.in_order_of_time(&Values(row))
        })?;
        let sql = format!("SELECT {columns} FROM events ORDER BY timestamp - duration, rowid");
        // A row that could not be read was counted above.
        let mut again = 0;
        self.db.each("events", &sql, self.keep_going.then_some(&mut again), |row| {
            progress.add(1);
            transcript.in_order_of_begin(&Values(row))
        })?;
        Ok(())
    }

    /// Stacks get numbers in the order of their first use.
    fn stacks(&mut self, from_ns: u64) -> Result<(), Error> {
        let mut numbers: HashMap<i64, (u64, u64)> = HashMap::new();
        let mut ended_at_stamp = Vec::new();
        self.db.each(
            "events",
            "SELECT max(rowid) AS row_id, source, op FROM events WHERE stack_hash != 0 GROUP BY source, op",
            None,
            |row| {
                if let (Ok(source), Ok(op)) = (Values(row).integer("source"), Values(row).integer("op"))
                    && self.transcript.is_stamped_at_end(source, op)
                {
                    ended_at_stamp.push(format!("(source = {source} AND op = {op})"));
                }
                Ok(())
            },
        )?;
        let ended = if ended_at_stamp.is_empty() { "0".to_owned() } else { ended_at_stamp.join(" OR ") };
        let sql = format!(
            "SELECT rowid AS row_id, CASE WHEN {ended} THEN timestamp - duration ELSE timestamp END AS begun, pid, tid, \
             stack_hash FROM events WHERE stack_hash != 0 ORDER BY begun, rowid"
        );
        let (transcript, progress) = (&mut self.transcript, &self.progress);
        let mut again = 0;
        self.db.each("events", &sql, self.keep_going.then_some(&mut again), |row| {
            progress.add(1);
            let row = Values(row);
            let (ts_ns, pid, tid, hash) =
                (row.count("begun")?, row.id("pid")?, row.id("tid")?, row.integer("stack_hash")?);
            let task = transcript.people.task(&mut transcript.writer, pid, tid);
            let next = numbers.len() as u64;
            let stack = numbers.entry(hash).or_insert((next, ts_ns)).0;
            Ok(transcript.writer.push(ts_ns, NO_CPU, &Stack { task, stack })?)
        })?;
        self.frames(numbers, from_ns)
    }

    /// The frames of stacks: of those that events name, and then of the others.
    fn frames(&mut self, mut numbers: HashMap<i64, (u64, u64)>, from_ns: u64) -> Result<(), Error> {
        if !self.db.columns("stack_traces")?.is_empty() {
            let last_ns = numbers.values().map(|(_, ts_ns)| *ts_ns).max().unwrap_or(from_ns);
            let sql = "SELECT rowid AS row_id, hash FROM stack_traces ORDER BY hash";
            self.db.each("stack_traces", sql, self.keep_going.then_some(&mut self.skipped), |row| {
                let next = numbers.len() as u64;
                numbers.entry(Values(row).integer("hash")?).or_insert((next, last_ns));
                Ok(())
            })?;
        }
        self.stack_hashes = numbers.iter().map(|(hash, (stack, _))| (*stack, *hash)).collect();
        self.stack_hashes.sort_unstable();
        if numbers.is_empty() || self.db.columns("stack_traces")?.is_empty() {
            return Ok(());
        }
        let mut order: Vec<(u64, u64, i64)> = numbers.iter().map(|(&hash, &(n, ts))| (n, ts, hash)).collect();
        order.sort_unstable();
        for (stack, ts_ns, hash) in order {
            let sql = format!("SELECT hash AS row_id, frames, ips FROM stack_traces WHERE hash = {hash}");
            let transcript = &mut self.transcript;
            self.db.each("stack_traces", &sql, self.keep_going.then_some(&mut self.skipped), |row| {
                for frame in frames_of(&Values(row))? {
                    let mut text = |text: Option<String>| text.map(|t| transcript.writer.string(&t));
                    let (symbol, file) = (text(frame.symbol), text(frame.file));
                    let FrameText { depth, line, address, language, .. } = frame;
                    let row = Frame { stack, depth, symbol, file, line, address, language };
                    transcript.writer.push(ts_ns, NO_CPU, &row)?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn usage(&mut self) -> Result<(), Error> {
        if self.db.columns("system_snapshots")?.is_empty() {
            return Ok(());
        }
        let sql = "SELECT rowid AS row_id, timestamp, cpu_pct, mem_pct, mem_avail, swap_mb, load_avg \
                   FROM system_snapshots ORDER BY timestamp, rowid";
        let transcript = &mut self.transcript;
        self.db.each("system_snapshots", sql, self.keep_going.then_some(&mut self.skipped), |row| {
            let row = Values(row);
            let usage = Usage {
                cpu_ppb: row.scaled("cpu_pct", PERCENT_TO_PPB)?,
                mem_ppb: row.scaled("mem_pct", PERCENT_TO_PPB)?,
                mem_available_bytes: row.count("mem_avail")?.saturating_mul(MEGABYTE),
                swap_used_bytes: row.count("swap_mb")?.saturating_mul(MEGABYTE),
                load1_milli: row.scaled("load_avg", 1e3)?,
            };
            Ok(transcript.writer.push(row.count("timestamp")?, NO_CPU, &usage)?)
        })?;
        Ok(())
    }
}

/// One frame as the source tells it.
struct FrameText {
    depth: u64,
    symbol: Option<String>,
    file: Option<String>,
    line: Option<u64>,
    address: Option<u64>,
    language: u64,
}

const NATIVE: u64 = 0;
const PYTHON: u64 = 1;

/// The frames of a stack: resolved ones, or bare addresses.
fn frames_of(row: &Values) -> Result<Vec<FrameText>, Refusal> {
    let parse = |name: &str| -> Result<Vec<serde_json::Value>, Refusal> {
        let text = row.text(name)?;
        if text.is_empty() {
            return Ok(Vec::new());
        }
        serde_json::from_str(&text).map_err(|e| Refusal::Value(format!("column {name}: no JSON list: {e}")))
    };
    let address = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok().filter(|&a| a != u64::MAX);
    let frames = parse("frames")?;
    let addresses: Vec<Option<u64>> = parse("ips")?.iter().map(|ip| ip.as_str().and_then(address)).collect();
    if frames.is_empty() {
        let bare =
            |(depth, address)| FrameText { depth, symbol: None, file: None, line: None, address, language: NATIVE };
        return Ok((0..).zip(addresses).map(bare).collect());
    }
    let resolved = |(depth, frame): (u64, &serde_json::Value)| {
        let text = |key: &str| frame[key].as_str().map(str::to_owned);
        let python = frame.get("pfn").is_some() || frame.get("pf").is_some();
        // The same place in the list of addresses belongs to it only where the lists are as long.
        let beside = if addresses.len() == frames.len() { usize::try_from(depth).ok() } else { None };
        FrameText {
            depth,
            symbol: if python { text("pfn") } else { text("s") },
            file: if python { text("pf") } else { text("f") },
            line: frame["pl"].as_u64(),
            address: text("i").and_then(|i| address(&i)).or(beside.and_then(|at| addresses[at])),
            language: if python { PYTHON } else { NATIVE },
        }
    };
    Ok((0..).zip(&frames).map(resolved).collect())
}
