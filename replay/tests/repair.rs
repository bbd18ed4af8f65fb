//! `ingero-replay repair`: whatever happened to a file, what it makes of it is whole and complete, has
//! every event that could be read, and says what it lacks.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use ingero_format::catalog::{Body, Call, Class, END_RETURNED, Kind, Layer, Loss, NO_CPU, Name, TaskId};
use ingero_format::layout::{CHUNK_BLOCK, CHUNK_FUNCTIONS, CHUNK_HEADER_LEN, CHUNK_SCHEMA, CHUNK_STRINGS, CHUNK_TASKS};
use ingero_format::{Batch, IndexEntry, Trace};
use ingero_replay::fixture::Fixture;
use ingero_replay::{Cpus, Merge, OffCpu, Run, Sink, Timeline, Undivided};

const SECOND: u64 = 1_000_000_000;

struct Ran {
    status: i32,
    out: String,
    err: String,
}

fn replay(args: &[&str]) -> Ran {
    let output = Command::new(env!("CARGO_BIN_EXE_ingero-replay")).args(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { status: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn put(&self, name: &str, bytes: &[u8]) -> String {
        std::fs::write(self.path(name), bytes).unwrap();
        self.path(name)
    }

    /// Repairs these bytes. What comes of it is whole and complete.
    fn repaired(&self, bytes: &[u8]) -> (String, Trace) {
        let (bad, good) = (self.put("bad.igt", bytes), self.path("good.igt"));
        let ran = replay(&["repair", &bad, "-o", &good, "--force"]);
        assert_eq!((ran.status, ran.err.as_str()), (0, ""), "{}", ran.out);
        assert_eq!(ran.out.lines().count(), 1, "{}", ran.out);
        let verified = replay(&["verify", &good]);
        assert_eq!(verified.status, 0, "{}{} after {}", verified.out, verified.err, ran.out);
        let said = ran.out.trim_end().strip_prefix(&format!("{good}: ")).unwrap().to_owned();
        (said, Trace::open(&good).unwrap())
    }
}

fn recording() -> Vec<u8> {
    let mut f = Fixture::with_rows(16);
    f.writer().set_meta("kernel", "6.18.1");
    let tasks: Vec<TaskId> = (41..45).map(|tid| f.task(41, tid)).collect();
    let func = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
    for i in 0..200u64 {
        let ts = 100 * SECOND + i * SECOND / 20;
        f.switch(ts + 1, 0, TaskId(0), 0, tasks[(i % 4) as usize]);
        f.switch(ts + 500, 0, tasks[(i % 4) as usize], 1, TaskId(0));
        if i % 5 == 0 {
            f.call(ts + 7, 0, tasks[0], func, 250);
        }
        if i % 20 == 0 {
            let name = f.writer().string(&format!("worker {i}"));
            f.push(ts, NO_CPU, Name { task: tasks[1], name, source: 3 });
            f.writer().flush().unwrap();
        }
    }
    f.into_bytes()
}

fn opened(files: &Files, bytes: &[u8]) -> Trace {
    Trace::open(files.put("seen.igt", bytes)).unwrap()
}

fn place(chunk: &IndexEntry) -> usize {
    usize::try_from(chunk.offset).unwrap()
}

fn payload(chunk: &IndexEntry) -> std::ops::Range<usize> {
    let start = place(chunk) + CHUNK_HEADER_LEN;
    start..start + chunk.header.payload_len as usize
}

/// Words of every row by kind, without the losses.
fn rows(trace: &Trace) -> Vec<(u16, Vec<u64>)> {
    let mut batch = Batch::new().unwrap();
    let mut out = vec![];
    for b in trace.blocks().iter().filter(|b| b.header.kind != 12) {
        if trace.read_block(b, &mut batch, None).is_ok() {
            let ids: Vec<u8> = trace.stored_columns(b).unwrap().iter().map(|c| c.id).collect();
            for row in 0..batch.rows() {
                out.push((b.header.kind, ids.iter().map(|&id| batch.column(id).unwrap().get(row).unwrap()).collect()));
            }
        }
    }
    out.sort();
    out
}

fn losses(trace: &Trace) -> Vec<(u64, Loss)> {
    let of = |e: ingero_replay::Event| if let Body::Loss(loss) = e.body { Some((e.ts_ns, loss)) } else { None };
    Merge::new(trace).filter_map(of).collect()
}

#[test]
fn a_whole_file_is_copied_chunk_by_chunk() {
    let files = Files::new();
    let bytes = recording();
    let (said, trace) = files.repaired(&bytes);
    assert_eq!(said, "450 events kept, none lost");
    assert!(losses(&trace).is_empty() && trace.meta("repaired").is_none());
    assert_eq!(std::fs::read(files.path("good.igt")).unwrap(), bytes, "nothing was to be changed");
}

#[test]
fn a_file_cut_anywhere_keeps_its_whole_blocks() {
    let files = Files::new();
    let bytes = recording();
    for cut in (33..bytes.len()).step_by(211) {
        let whole = rows(&opened(&files, &bytes[..cut]));
        let (said, trace) = files.repaired(&bytes[..cut]);
        assert_eq!(rows(&trace), whole, "cut at {cut}");
        assert!(said.starts_with(&format!("{} event", whole.len())), "cut at {cut}: {said}");
        // A cut within the index costs no event, but who knows.
        assert!(!losses(&trace).is_empty() || said.ends_with("none lost"), "cut at {cut}: {said}");
        assert!(losses(&trace).iter().all(|(_, l)| l.cause == 7 && l.count.is_none_or(|n| n <= 16)), "cut at {cut}");
    }
}

/// What is missing from a damaged file is missing from what is made of it: the same stretches, that hide the same.
#[test]
fn what_was_lost_with_the_end_stays_lost() {
    type Part = (String, u64, u64, Option<u64>, Option<u32>, bool);
    let parts = |trace: &Trace| -> Vec<Part> {
        let lost = ingero_replay::lost(trace, &[]);
        let mut all: Vec<Part> =
            lost.into_iter().map(|l| (l.what, l.from_ns, l.to_ns, l.count, l.cpu, l.hides)).collect();
        all.sort();
        all
    };
    let files = Files::new();
    let bytes = recording();
    let mut hidden = 0;
    for cut in (33..bytes.len()).step_by(97) {
        let before = parts(&opened(&files, &bytes[..cut]));
        let (_, repaired) = files.repaired(&bytes[..cut]);
        assert_eq!(parts(&repaired), before, "cut at {cut}");
        hidden += before.iter().filter(|p| p.5 && p.0 == "call").count();
        let knows_when = ingero_replay::known_span(&repaired).is_some_and(|(_, end_ns)| end_ns > 0);
        assert!(!knows_when || before.iter().all(|p| p.2 > 0), "cut at {cut}: {before:?}");
    }
    assert!(hidden > 0, "calls end before switches do somewhere");
    let verified = replay(&["verify", &files.path("good.igt")]).out;
    assert!(
        verified.contains("lost before this file was written") && !verified.contains("while recording"),
        "{verified}"
    );
}

#[test]
fn flipped_bits_cost_their_blocks() {
    let files = Files::new();
    let bytes = recording();
    let all = rows(&opened(&files, &bytes));
    for at in (0..bytes.len()).step_by(157) {
        let mut bad = bytes.clone();
        bad[at] ^= 1 << (at % 8);
        let (said, trace) = files.repaired(&bad);
        let kept = rows(&trace);
        assert!(kept.iter().all(|r| all.contains(r)) && all.len() - kept.len() <= 16, "flip at {at:#x}: {said}");
        let counted: u64 = losses(&trace).iter().filter_map(|(_, l)| l.count).sum();
        assert_eq!(counted, (all.len() - kept.len()) as u64, "flip at {at:#x}: {said}");
    }
}

#[test]
fn a_lost_block_becomes_a_loss_with_its_time_and_count() {
    let files = Files::new();
    let mut bytes = recording();
    let block = *opened(&files, &bytes).chunks().iter().filter(|c| c.header.kind == 1).nth(7).unwrap();
    bytes[payload(&block).end - 1] ^= 4;
    let (said, trace) = files.repaired(&bytes);
    assert!(said.starts_with("434 events kept, 16 events lost within 0.3"), "{said}");
    assert_eq!(trace.meta("repaired"), Some(said.as_str()));
    let [(from, loss)] = losses(&trace)[..] else { panic!("{:?}", losses(&trace)) };
    assert_eq!((from, loss.to_ns, loss.count), (block.header.ts_min, block.header.ts_max, Some(16)));
    assert_eq!(trace.string(loss.probe), "sched_switch");
}

#[test]
fn a_kind_that_cannot_be_read_is_not_said_to_be_absent() {
    let files = Files::new();
    let mut bytes = recording();
    for block in opened(&files, &bytes).chunks().iter().filter(|c| c.header.kind == 1) {
        bytes[payload(block).end - 1] ^= 4;
    }
    let ran = replay(&["dump", &files.put("bad.igt", &bytes), "--only", "sched_switch"]);
    assert!(ran.err.contains("no event of the kind sched_switch can be read from"), "{}", ran.err);
    assert!(ran.err.contains("whose blocks have 450 events"), "{}", ran.err);
}

#[test]
fn an_event_keeps_its_time_though_the_first_ones_are_lost() {
    let files = Files::new();
    let times = |path: &str, json: &[&str]| -> Vec<String> {
        let args = [&["dump", path], json].concat();
        let lines = Command::new(env!("CARGO_BIN_EXE_ingero-replay")).args(args).output().unwrap().stdout;
        String::from_utf8(lines).unwrap().lines().filter(|l| !l.contains(" loss ")).map(str::to_owned).collect()
    };
    // Whatever the recording began with.
    for first in 1..4 {
        let mut bytes = recording();
        let whole = opened(&files, &bytes);
        for block in whole.chunks().iter().filter(|c| c.header.chunk_type == CHUNK_BLOCK).take(3 * first) {
            bytes[payload(block).end - 1] ^= 4;
        }
        let (said, trace) = files.repaired(&bytes);
        assert!(!said.contains("none lost"), "{said}");
        let damaged = files.put("damaged.igt", &bytes);
        let before = times(&damaged, &[]);
        assert!(before.len() > 50, "{}", before.len());
        assert_eq!(times(trace.path(), &[]), before);
        assert_eq!(trace.span_ns(), opened(&files, &bytes).span_ns());
    }
}

#[test]
fn a_missing_footer_is_made_anew() {
    let files = Files::new();
    let bytes = recording();
    let last = *opened(&files, &bytes).chunks().last().unwrap();
    let end = place(&last) + usize::try_from(last.header.span()).unwrap();
    let (said, trace) = files.repaired(&bytes[..end]);
    // Nothing tells whether more was to come.
    assert_eq!(said, "450 events kept, what came after the last one is unknown");
    // Calls end before switches do: from there on they may be missing, and behind the last event anything.
    let all = losses(&trace);
    let missing: Vec<(&str, Option<u64>)> = all.iter().map(|(_, l)| (trace.string(l.probe), l.count)).collect();
    assert_eq!(missing, [("call", None), ("damaged file", None)]);
    // With a footer whose index is broken it is known that nothing is lost.
    let mut bad = bytes.clone();
    bad[end + CHUNK_HEADER_LEN + 5] ^= 1;
    let (said, trace) = files.repaired(&bad);
    assert_eq!(said, "450 events kept, none lost");
    assert!(losses(&trace).is_empty());
}

#[test]
fn lost_strings_become_question_marks_and_what_names_lost_tasks_is_lost() {
    let files = Files::new();
    let bytes = recording();
    let trace = opened(&files, &bytes);
    let chunks: Vec<IndexEntry> = trace
        .chunks()
        .iter()
        .filter(|c| [CHUNK_STRINGS, CHUNK_TASKS].contains(&c.header.chunk_type))
        .copied()
        .collect();
    assert!(chunks.len() > 4);
    let mut nameless = 0;
    for chunk in &chunks {
        for header in [false, true] {
            let mut bad = bytes.clone();
            let at = if header { place(chunk) + 9 } else { payload(chunk).start };
            bad[at] ^= 1;
            if header {
                // The index would know better.
                bad.truncate(bad.len() - 8);
            }
            let (said, mended) = files.repaired(&bad);
            assert!(header || said.contains("1 chunk of names lost"), "{said}");
            // Every row is kept or counted as lost; the ids of those that are kept are what they were.
            let (kept, all) = (rows(&mended), rows(&trace));
            let lost: u64 = losses(&mended).iter().filter_map(|(_, l)| l.count).sum();
            assert!(kept.iter().all(|row| all.contains(row)), "{said}");
            assert_eq!(kept.len() as u64 + lost, all.len() as u64, "{said}");
            if chunk.header.chunk_type == CHUNK_TASKS {
                nameless += lost;
                let stranger = |t: TaskId| t != TaskId(0) && mended.task(t).pid == 0;
                let switches = Merge::new(&mended)
                    .filter(|e| matches!(e.body, Body::Switch(s) if stranger(s.prev) || stranger(s.next)));
                assert_eq!(switches.count(), 0, "{said}");
            } else {
                assert_eq!(lost, 0, "{said}");
            }
            for (id, text) in trace.strings().iter().enumerate() {
                let now = &mended.strings()[id];
                assert!(now == text || &**now == "?", "{now} for {text}");
            }
        }
    }
    assert!(nameless > 0);
}

/// A task or a function of which nothing is known is no thread of anybody and no call of anything.
#[test]
fn what_names_a_lost_task_or_function_is_lost_in_the_damaged_file_and_in_the_repaired_one() {
    let files = Files::new();
    let bytes = recording();
    let whole = opened(&files, &bytes);
    for (chunk_type, kept) in [(CHUNK_TASKS, &[][..]), (CHUNK_FUNCTIONS, &[Kind::Switch, Kind::Name][..])] {
        let chunk = whole.chunks().iter().find(|c| c.header.chunk_type == chunk_type).unwrap();
        let mut bad = bytes.clone();
        bad[payload(chunk).start] ^= 1;
        let trace = opened(&files, &bad);
        let told = |trace: &Trace| {
            let mut log = States::default();
            let repairs = Timeline::new(trace).run(&mut log);
            let lost = ingero_replay::lost(trace, &repairs.lost_blocks).into_iter();
            let mut lost: Vec<_> = lost.map(|l| (l.what, l.from_ns, l.to_ns, l.count, l.hides)).collect();
            lost.sort();
            (log.0, lost)
        };
        let (states, lost) = told(&trace);
        let count: u64 = lost.iter().filter_map(|l| l.3).sum();
        let is_kept = |b: &&IndexEntry| kept.iter().any(|&k| k as u16 == b.header.kind);
        let whole_rows: u64 = whole.blocks().iter().filter(is_kept).map(|b| u64::from(b.header.rows)).sum();
        assert_eq!(count, 450 - whole_rows, "{lost:?}");
        assert_eq!(states.is_empty(), kept.is_empty());
        let verified = replay(&["verify", &files.path("seen.igt")]);
        assert_eq!(verified.status, 1);
        assert!(verified.err.contains(&format!("{count} events lost within")), "{}", verified.err);
        assert!(verified.out.contains("that were lost"), "{}", verified.out);
        let (said, mended) = files.repaired(&bad);
        assert!(said.contains(&format!("{count} events lost")) && said.contains("1 chunk of names lost"), "{said}");
        assert_eq!(told(&mended), (states, lost), "{said}");
    }
}

/// Stretches that are told of threads.
#[derive(Default)]
struct States(Vec<(u64, Option<u64>)>);

impl Sink for States {
    fn off_cpu(&mut self, stay: &OffCpu, _: &Cpus) {
        self.0.push((stay.out_ns, stay.end_ns()));
    }
    fn run(&mut self, run: &Run) {
        self.0.push((run.start_ns, run.end_ns));
    }
}

#[test]
fn kinds_of_later_versions_are_kept_even_without_their_schema() {
    let files = Files::new();
    let mut bytes = recording();
    let trace = opened(&files, &bytes);
    let schema = *trace.chunks().iter().find(|c| c.header.chunk_type == CHUNK_SCHEMA).unwrap();
    let block = *trace.chunks().iter().filter(|c| c.header.chunk_type == CHUNK_BLOCK).nth(5).unwrap();
    let at = place(&block);
    bytes[at + 6..at + 8].copy_from_slice(&200u16.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[at..at + 52]).to_le_bytes();
    bytes[at + 52..at + 56].copy_from_slice(&crc);
    // The index has the old header.
    bytes.truncate(bytes.len() - 8);
    for lost_schema in [false, true] {
        if lost_schema {
            bytes[payload(&schema).start + 100] ^= 1;
        }
        let (said, mended) = files.repaired(&bytes);
        let kept = mended.blocks().iter().find(|b| b.header.kind == 200).unwrap();
        assert_eq!(kept.header.rows, block.header.rows, "{said}");
        assert_eq!(mended.kind_name(200), "kind_200");
        assert_eq!(mended.kind_name(1), "sched_switch");
        let whole = std::fs::read(files.path("good.igt")).unwrap();
        assert_eq!(whole[payload(kept)], bytes[payload(&block)], "the same bytes");
    }
}

#[test]
fn nothing_is_overwritten_and_nothing_is_left_behind() {
    let files = Files::new();
    let bytes = recording();
    let bad = files.put("bad.igt", &bytes[..bytes.len() / 2]);
    let taken = files.put("taken.igt", b"precious");
    let names = || -> Vec<PathBuf> {
        let mut names: Vec<PathBuf> = std::fs::read_dir(files.0.path()).unwrap().map(|e| e.unwrap().path()).collect();
        names.sort();
        names
    };
    let before = names();
    let ran = replay(&["repair", &bad, "-o", &taken]);
    assert_eq!(ran.status, 2);
    assert!(ran.err.contains("taken.igt: exists already; choose another name or add --force"), "{}", ran.err);
    assert_eq!(replay(&["repair", &taken, "-o", &files.path("new.igt")]).status, 2);
    assert_eq!(replay(&["repair", &bad, "-o", &files.path("no/such/folder.igt")]).status, 2);
    assert_eq!(std::fs::read(&taken).unwrap(), b"precious");
    assert_eq!(names(), before);
    assert_eq!(replay(&["repair", &bad, "-o", &taken, "--force"]).status, 0);
    let mode = std::fs::metadata(Path::new(&taken)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(names(), before);
    // Not in place: what is broken may be read by something better one day.
    let broken = std::fs::read(&bad).unwrap();
    let ran = replay(&["repair", &bad, "-o", &bad, "--force"]);
    assert_eq!(ran.status, 2);
    assert!(ran.err.contains("bad.igt: is what is read, and would be lost; choose another name"), "{}", ran.err);
    assert_eq!(std::fs::read(&bad).unwrap(), broken);
}

/// A long call is noted before it returns, so that a kill does not lose it.
#[test]
fn what_was_noted_of_an_open_call_gives_way_to_the_call() {
    let mut f = Fixture::with_rows(4);
    let task = f.task(41, 41);
    let func = f.func("cudaDeviceSynchronize", Layer::Runtime, Class::Sync);
    let other = f.func("cudaFree", Layer::Runtime, Class::Free);
    let call = |func, dur_ns: Option<u64>| Call {
        task,
        func,
        dur_ns,
        end: if dur_ns.is_some() { END_RETURNED } else { 1 },
        result: dur_ns.map(|_| 0),
        ptr: None,
        ptr2: None,
        bytes: None,
        copy: None,
        stream: None,
        device: None,
    };
    f.push(SECOND, 0, call(func, None));
    f.push(SECOND, 0, call(other, None));
    f.writer().flush().unwrap();
    f.push(SECOND, 1, call(func, None));
    f.push(5 * SECOND, 0, call(func, None));
    f.push(SECOND, 0, call(func, Some(7 * SECOND)));
    let files = Files::new();
    let trace = Trace::open(files.put("calls.igt", &f.into_bytes())).unwrap();
    let seen: Vec<_> = Merge::new(&trace)
        .filter_map(|e| if let Body::Call(c) = e.body { Some((e.ts_ns / SECOND, c.func, c.end)) } else { None })
        .collect();
    assert_eq!(seen, [(1, other, 1), (1, func, 0), (5, func, 1)]);
    // What shows rows of any kind shows the same.
    let shown = replay(&["dump", &files.path("calls.igt"), "--only", "call"]);
    assert_eq!(shown.out.lines().count(), 3, "{}", shown.out);
}

/// What a walk makes of the wakes: the same of a damaged file and of what is made of it.
#[test]
fn stays_are_the_same_where_all_wakes_were_damaged() {
    #[derive(Default)]
    struct Told(Vec<String>);
    impl Sink for Told {
        fn off_cpu(&mut self, stay: &OffCpu, _: &Cpus) {
            self.0.push(format!("{stay:?}"));
        }
        fn undivided(&mut self, part: &Undivided) {
            self.0.push(format!("{part:?}"));
        }
    }
    let mut f = Fixture::with_rows(16);
    let (a, b) = (f.task(41, 41), f.task(42, 42));
    for i in 0..60u64 {
        let ts = SECOND + i * SECOND / 100;
        f.switch(ts, 0, TaskId(0), 0, a);
        // Two CPUs' clocks: the wake may stand before the switch-out that it belongs to.
        let early = if i % 2 == 0 { 0 } else { 1_500 };
        f.waking(ts + 2_000 - early, 1, b, a, 0);
        if i % 3 == 0 {
            f.wakeup(ts + 2_010 - early, 0, a, 0);
        }
        f.switch(ts + 1_000, 0, a, 1, TaskId(0));
    }
    let whole = f.into_bytes();
    let files = Files::new();
    let mut bad = whole.clone();
    for chunk in opened(&files, &whole).chunks().iter().filter(|c| c.header.kind == Kind::Waking as u16) {
        if chunk.header.chunk_type == CHUNK_BLOCK {
            bad[payload(chunk).start] ^= 0xff;
        }
    }
    let (_, repaired) = files.repaired(&bad);
    let [damaged, repaired] = [opened(&files, &bad), repaired].map(|trace| {
        let mut told = Told::default();
        Timeline::new(&trace).run(&mut told);
        told.0
    });
    assert!(damaged.iter().any(|s| s.starts_with("Undivided")) && damaged.len() > 60, "{damaged:?}");
    assert_eq!(damaged, repaired);
}

/// When each thread ran, as the timeline tells it.
#[derive(Default)]
struct Runs(std::collections::BTreeMap<TaskId, Vec<(u64, u64)>>);

impl Runs {
    fn of(trace: &Trace) -> Self {
        let mut runs = Self::default();
        Timeline::new(trace).run(&mut runs);
        runs.0.values_mut().for_each(|list| list.sort_unstable());
        runs
    }

    /// Time of a run that these do not have.
    fn lack(&self, task: TaskId, (start_ns, end_ns): (u64, u64)) -> u64 {
        let known = self.0.get(&task).into_iter().flatten();
        let within = known.map(|&(from, to)| to.min(end_ns).saturating_sub(from.max(start_ns))).sum();
        (end_ns - start_ns).saturating_sub(within)
    }
}

impl Sink for Runs {
    fn run(&mut self, run: &ingero_replay::Run) {
        self.0.entry(run.task).or_default().push((run.start_ns, run.end_ns.unwrap_or(u64::MAX)));
    }
}

/// Up to where switches are missing a run is told to its whole length: that it ended before would have been seen.
#[test]
fn no_thread_is_told_to_run_where_the_whole_recording_tells_otherwise() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("bad.igt");
    let mut damaged = 0;
    for name in
        ["h200-workers/run.igt", "h200-fight/run.igt", "h200-cpu-contention/neighbours.igt", "agreement/host.igt"]
    {
        let path = root.join("investigations").join(name);
        let Ok(whole) = Trace::open(&path) else { panic!("no {name}") };
        let (due, bytes) = (Runs::of(&whole), std::fs::read(&path).unwrap());
        let switches: Vec<_> = whole.blocks().iter().filter(|b| b.header.kind == Kind::Switch as u16).collect();
        for block in switches.iter().step_by(switches.len().div_ceil(8)) {
            let mut bytes = bytes.clone();
            bytes[usize::try_from(block.offset).unwrap() + CHUNK_HEADER_LEN + 1] ^= 0x55;
            std::fs::write(&bad, &bytes).unwrap();
            let trace = Trace::open(&bad).unwrap();
            for (&task, runs) in &Runs::of(&trace).0 {
                for &run in runs {
                    let lack = due.lack(task, run);
                    assert_eq!(lack, 0, "{name} without {:?}: {:?} {run:?}", block.header, trace.task(task));
                }
            }
            damaged += 1;
        }
    }
    assert!(damaged >= 4, "{damaged}");
}
