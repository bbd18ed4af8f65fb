//! Recording the stand-in and reading back what was recorded.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};
use serde_json::Value;
use tempfile::TempDir;

use crate::process::{Run, Running, run};
use crate::standin::{Process, Report, standin};
use crate::tools::{require_root, target_dir, tool};

/// Functions of the stand-in that no recorder has to probe: they submit nothing, allocate nothing and wait for nothing.
pub const UNPROBED: &[&str] = &[
    "cudaEventCreate",
    "cudaStreamCreate",
    "cudaGetDevice",
    "cudaSetDevice",
    "cudaStreamQuery",
    "cudaStreamQuery_ptsz",
    "cudaEventQuery",
];

/// How long a recording may take beyond what it records.
const LIMIT: Duration = Duration::from_secs(90);

/// Keeps other tests' recordings away until it is dropped: they share one kernel.
#[must_use]
pub fn kernel_lock() -> File {
    let path = target_dir().join("standin").join("kernel.lock");
    File::create(&path)
        .and_then(|f| f.lock().map(|()| f))
        .unwrap_or_else(|e| panic!("cannot lock {}: {e}", path.display()))
}

/// A recording and what the recorded program said.
#[derive(Debug)]
pub struct Recording {
    /// The `.igt` file.
    pub file: PathBuf,
    /// The recorder's run; its standard output is the program's.
    pub run: Run,
    /// Keeps the folder of `file`.
    pub dir: TempDir,
    /// What the stand-in did, if it was the stand-in and could say so.
    pub report: Option<Report>,
}

/// Records `standin ARGS…`.
#[must_use]
pub fn record(args: &[&str]) -> Recording {
    let mut command = vec![standin().program.display().to_string()];
    command.extend(args.iter().map(|&a| a.to_owned()));
    record_with(&[], &command, &[])
}

/// Records any command, with further options of the recorder and further environment variables.
#[must_use]
pub fn record_with(options: &[&str], command: &[String], env: &[(&str, &str)]) -> Recording {
    require_root();
    let _alone = kernel_lock();
    let dir = temp_dir();
    let file = dir.path().join("run.igt");
    let mut recorder = Command::new(tool("ingero-record"));
    recorder.arg("-o").arg(&file).args(options).arg("--").args(command).envs(env.iter().copied());
    let run = run(&mut recorder, LIMIT);
    Recording::new(file, run, dir)
}

/// A folder that goes with its handle.
fn temp_dir() -> TempDir {
    tempfile::tempdir().unwrap_or_else(|e| panic!("cannot make a temporary folder: {e}"))
}

impl Recording {
    fn new(file: PathBuf, run: Run, dir: TempDir) -> Self {
        let report = run.stdout.contains("{\"mode\":").then(|| Report::parse(&run.stdout));
        Self { file, run, dir, report }
    }

    /// The stand-in's report.
    #[must_use]
    pub fn report(&self) -> &Report {
        self.report.as_ref().unwrap_or_else(|| panic!("the stand-in said nothing: {:#?}", self.run))
    }

    /// `ingero-analyze FILE --format json ARGS…`
    #[must_use]
    pub fn analyze(&self, args: &[&str]) -> Analysis {
        Analysis(analyze_json(&self.file, args))
    }

    /// Compares every figure of every process with what the stand-in counted.
    pub fn assert_exact(&self) -> Analysis {
        assert!(self.run.status.success(), "{:#?}", self.run);
        let analysis = self.analyze(&[]);
        analysis.assert_lossless();
        for process in &self.report().processes {
            analysis.assert_process(process);
        }
        analysis
    }
}

/// The JSON of `ingero-analyze`.
#[derive(Debug, Clone)]
pub struct Analysis(pub Value);

impl Analysis {
    /// Nothing lost, footer written.
    pub fn assert_lossless(&self) {
        let trace = &self.0["trace"];
        assert_eq!(trace["lost_events"], 0, "{trace:#}");
        assert_eq!(trace["complete"], true, "{trace:#}");
    }

    /// One process.
    #[must_use]
    pub fn process(&self, pid: u64) -> Option<&Value> {
        self.processes().find(|p| p["pid"] == pid)
    }

    /// All processes.
    pub fn processes(&self) -> impl Iterator<Item = &Value> {
        self.0["processes"].as_array().into_iter().flatten()
    }

    /// All incidents.
    #[must_use]
    pub fn incidents(&self) -> Vec<Value> {
        self.0["incidents"].as_array().cloned().unwrap_or_default()
    }

    /// One operation of one process.
    #[must_use]
    pub fn op(&self, pid: u64, symbol: &str) -> Option<&Value> {
        self.process(pid)?["ops"].as_array()?.iter().find(|o| o["name"] == symbol)
    }

    /// A figure of every operation of a process, by symbol; operations where it is 0 are left out.
    #[must_use]
    pub fn figures(&self, pid: u64, figure: &str) -> BTreeMap<String, u64> {
        self.process(pid)
            .and_then(|p| p["ops"].as_array())
            .into_iter()
            .flatten()
            .filter_map(|op| {
                let value = op[figure].as_u64().filter(|&v| v > 0)?;
                Some((op["name"].as_str()?.to_owned(), value))
            })
            .collect()
    }

    /// Compares the operations of a process with what it did.
    pub fn assert_process(&self, process: &Process) {
        let due = |map: &BTreeMap<String, u64>| -> BTreeMap<String, u64> {
            map.iter().filter(|(s, _)| !UNPROBED.contains(&s.as_str())).map(|(s, &n)| (s.clone(), n)).collect()
        };
        let seen = |figure: &str| {
            let mut figures = self.figures(process.pid, figure);
            figures.retain(|symbol, _| !UNPROBED.contains(&symbol.as_str()));
            figures
        };
        let who = format!("{} {}", process.role, process.pid);
        let returned: BTreeMap<_, _> = due(&process.calls)
            .into_iter()
            .map(|(s, n)| {
                let open = process.unreturned.get(&s).copied().unwrap_or_default();
                (s, n - open)
            })
            .filter(|&(_, n)| n > 0)
            .collect();
        assert_eq!(seen("count"), returned, "calls of {who}");
        assert_eq!(seen("unreturned"), due(&process.unreturned), "unreturned calls of {who}");
        assert_eq!(seen("errors"), due(&process.errors), "errors of {who}");
        if process.errors.is_empty() && process.unreturned.is_empty() {
            assert_eq!(seen("bytes"), due(&process.bytes), "bytes of {who}");
        }
        // Percentiles, times and their parts agree with each other.
        for op in self.process(process.pid).and_then(|p| p["ops"].as_array()).into_iter().flatten() {
            assert_op_is_sound(op, self.lost_sight());
        }
    }

    /// Whether the report says that it lost sight of some thread: a kernel that does not report every switch leaves
    /// stretches of which nobody knows who ran.
    fn lost_sight(&self) -> bool {
        let caveats = self.0["caveats"].as_array().into_iter().flatten();
        caveats.filter_map(Value::as_str).any(|c| c.contains("intervals dropped") && !c.contains(" 0 intervals"))
    }
}

/// What holds for the figures of any operation of any recording.
fn assert_op_is_sound(op: &Value, lost_sight: bool) {
    let figure = |key: &str| op[key].as_u64().unwrap_or_else(|| panic!("{key} is no number in {op:#}"));
    if figure("count") == 0 {
        return;
    }
    let sum = figure("sum_ns");
    assert!(figure("self_ns") <= sum, "{op:#}");
    assert!(figure("p50_ns") <= figure("p95_ns"), "{op:#}");
    assert!(figure("p95_ns") <= figure("p99_ns"), "{op:#}");
    assert!(figure("p99_ns") <= figure("max_ns"), "{op:#}");
    assert!(figure("max_ns") <= sum && figure("mean_ns") <= figure("max_ns"), "{op:#}");
    let split = ["running_ns", "runnable_ns", "throttled_ns", "blocked_ns"].map(figure);
    let parts: u64 = split.iter().sum();
    if lost_sight {
        // What was not seen is in no part: the parts never exceed the whole, and little is missing from them.
        assert!(parts <= sum && sum - parts <= sum / 20, "parts of {op:#}: {parts} of {sum}");
    } else {
        assert_eq!(parts, sum, "parts of {op:#}");
    }
}

/// Runs `ingero-analyze FILE ARGS…`.
#[must_use]
pub fn analyze(file: &Path, args: &[&str]) -> Run {
    let mut command = Command::new(tool("ingero-analyze"));
    command.arg(file).args(args);
    run(&mut command, LIMIT)
}

/// The JSON of `ingero-analyze FILE ARGS…`.
#[must_use]
pub fn analyze_json(file: &Path, args: &[&str]) -> Value {
    let mut all = vec!["--format", "json"];
    all.extend(args);
    let run = analyze(file, &all).success();
    let json: Value =
        serde_json::from_str(&run.stdout).unwrap_or_else(|e| panic!("ingero-analyze printed no JSON: {e}: {run:#?}"));
    assert_eq!(json["schema"], "ingero-analyze/1");
    json
}

/// One call as the table `calls` of an SQLite export shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Process.
    pub pid: u64,
    /// Thread.
    pub tid: u64,
    /// Name of the thread at that moment.
    pub thread: String,
    /// Function.
    pub symbol: String,
    /// Entry, nanoseconds.
    pub ts_ns: u64,
    /// From entry to return.
    pub dur_ns: Option<u64>,
    /// How it ended: `returned`, `skipped`, `thread-exit`, …
    pub end: String,
    /// Result code.
    pub result: Option<i64>,
    /// Destination, allocation, kernel function or event handle.
    pub ptr: Option<u64>,
    /// Source.
    pub ptr2: Option<u64>,
    /// Size.
    pub bytes: Option<u64>,
    /// Direction of a copy, `cudaMemcpyKind`.
    pub copy: Option<u64>,
    /// Stream handle.
    pub stream: Option<u64>,
}

/// All calls of a recording in the order of their entries, outer ones first.
#[must_use]
pub fn calls(file: &Path) -> Vec<Call> {
    let dir = temp_dir();
    let exported = dir.path().join("calls.db");
    let mut command = Command::new(tool("ingero-convert"));
    command.arg(file).arg("--sqlite").arg("-o").arg(&exported);
    let _ = run(&mut command, LIMIT).success();
    read_calls(&exported).unwrap_or_else(|e| panic!("the export of {} has no usable calls: {e}", file.display()))
}

fn read_calls(database: &Path) -> rusqlite::Result<Vec<Call>> {
    let db = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let mut query = db.prepare(
        "SELECT pid, tid, thread, function, ts_ns, dur_ns, \"end\", result, ptr, ptr2, bytes, copy, stream FROM calls \
         ORDER BY ts_ns, dur_ns DESC",
    )?;
    let number = |value: i64| value.cast_unsigned();
    // Addresses are text: SQLite's integers have a sign.
    let address = |text: Option<String>| u64::from_str_radix(text?.strip_prefix("0x")?, 16).ok();
    let rows = query.query_map([], |row| {
        Ok(Call {
            pid: number(row.get("pid")?),
            tid: number(row.get("tid")?),
            thread: row.get::<_, Option<String>>("thread")?.unwrap_or_default(),
            symbol: row.get("function")?,
            ts_ns: number(row.get("ts_ns")?),
            dur_ns: row.get::<_, Option<i64>>("dur_ns")?.map(number),
            end: row.get("end")?,
            result: row.get("result")?,
            ptr: address(row.get("ptr")?),
            ptr2: address(row.get("ptr2")?),
            bytes: row.get::<_, Option<i64>>("bytes")?.map(number),
            copy: row.get::<_, Option<String>>("copy")?.and_then(|name| {
                let names = ["host-to-host", "host-to-device", "device-to-host", "device-to-device", "default"];
                (0..).zip(names).find(|&(_, n)| n == name).map(|(kind, _)| kind)
            }),
            stream: address(row.get("stream")?),
        })
    })?;
    rows.collect()
}

/// A recorder that runs beside the test: for attaching, and for signals.
#[derive(Debug)]
pub struct Recorder {
    running: Running,
    file: PathBuf,
    dir: TempDir,
    _alone: File,
}

impl Recorder {
    /// Starts `ingero-record -o FILE OPTIONS…`.
    #[must_use]
    pub fn start(options: &[&str]) -> Self {
        require_root();
        let alone = kernel_lock();
        let dir = temp_dir();
        let file = dir.path().join("run.igt");
        let mut command = Command::new(tool("ingero-record"));
        command.arg("-o").arg(&file).args(options);
        Self { running: Running::start(&mut command), file, dir, _alone: alone }
    }

    /// Waits until the recorder holds its probes: its links and perf events are there and get no more.
    pub fn wait_until_attached(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(30);
        let (mut before, mut since) = (0, Instant::now());
        loop {
            let now = self.probes();
            if now != before {
                (before, since) = (now, Instant::now());
            }
            if now > 0 && since.elapsed() > Duration::from_millis(400) {
                return;
            }
            assert!(
                Instant::now() < deadline && self.running.is_running(),
                "the recorder attached nothing; it printed {:?}",
                self.running.stderr_so_far()
            );
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until what was recorded has printed this, whatever became of the recorder; hands out all that it printed.
    #[must_use]
    pub fn finish_with_output(mut self, limit: Duration, text: &str) -> String {
        let deadline = Instant::now() + limit;
        while !self.running.stdout_so_far().contains(text) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(20));
        }
        let _ = self.running.is_running();
        self.running.stdout_so_far()
    }

    fn probes(&self) -> usize {
        let folder = format!("/proc/{}/fd", self.running.pid());
        fs::read_dir(folder)
            .into_iter()
            .flatten()
            .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
            .filter(|to| {
                let to = to.to_string_lossy();
                to.contains("bpf_link") || to.contains("bpf-link") || to.contains("perf_event")
            })
            .count()
    }

    /// The program, for signals and output.
    pub fn running(&mut self) -> &mut Running {
        &mut self.running
    }

    /// Where it writes.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Waits for its end.
    #[must_use]
    pub fn finish(self, limit: Duration) -> Recording {
        let run = self.running.wait(limit);
        Recording::new(self.file, run, self.dir)
    }

    /// Sends what Ctrl-C sends and waits for the end, which must come within two seconds.
    #[must_use]
    pub fn stop(self) -> Recording {
        self.running.interrupt();
        self.finish(Duration::from_secs(2))
    }
}
