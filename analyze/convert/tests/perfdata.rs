//! What perf records on this machine, read from its file and from what `perf script` prints of it.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests fail by panicking")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use ingero_convert::export::{Selection, sqlite};
use ingero_convert::import::{ImportOptions, Imported, ftrace, perfdata};
use ingero_convert::input::{Input, InputKind, Progress};
use ingero_format::Trace;
use ingero_format::catalog::{Body, Kind};
use ingero_replay::{Merge, Processes};

const EVENTS: &[&str] = &[
    "sched:sched_switch",
    "sched:sched_waking",
    "sched:sched_wakeup",
    "sched:sched_wakeup_new",
    "sched:sched_process_fork",
    "sched:sched_process_exec",
    "sched:sched_process_exit",
    "kmem:mm_page_alloc",
    "block:block_rq_issue",
    "block:block_rq_complete",
];

/// Starts processes, writes to a disk, needs pages.
const WORKLOAD: &str = "for i in 1 2 3 4 5 6; do sleep 0.02; /bin/true; done; \
                        dd if=/dev/zero of=\"$0\" bs=64k count=16 oflag=direct 2>&1 || true";

/// Records a shell that starts others; none where this machine does not let perf do it.
fn capture(dir: &Path, extra: &[&str]) -> Option<std::path::PathBuf> {
    let file = dir.join("perf.data");
    let ran = Command::new("perf")
        .args(["record", "-q", "-a", "-k", "mono", "-m", "2048", "-e", &EVENTS.join(","), "-o"])
        .arg(&file)
        .args(extra)
        .args(["--", "sh", "-c", WORKLOAD])
        .arg(dir.join("written"))
        .stdout(Stdio::null())
        .output();
    match ran {
        Ok(out) if out.status.success() => Some(file),
        Ok(out) => {
            // Not a failure of what is tested: there is nothing to read.
            eprintln!("skipped: perf records nothing here: {}", String::from_utf8_lossy(&out.stderr));
            None
        }
        Err(e) => {
            eprintln!("skipped: no perf: {e}");
            None
        }
    }
}

/// Records as `options` say; none where this machine does not let perf do it.
fn record(dir: &Path, options: &[&str], command: &[&str]) -> Option<std::path::PathBuf> {
    let file = dir.join("some.data");
    let ran = Command::new("perf")
        .args([
            "record",
            "-q",
            "-k",
            "mono",
            "-m",
            "2048",
            "-e",
            "sched:sched_switch",
            "-e",
            "sched:sched_waking",
            "-o",
        ])
        .arg(&file)
        .args(options)
        .arg("--")
        .args(command)
        .stdout(Stdio::null())
        .output();
    ran.is_ok_and(|out| out.status.success()).then_some(file)
}

/// Stretches in which a thread is said to be on or off a CPU.
fn told_states(trace: &Trace) -> usize {
    #[derive(Default)]
    struct Told(usize);
    impl ingero_replay::Sink for Told {
        fn off_cpu(&mut self, _: &ingero_replay::OffCpu, _: &ingero_replay::Cpus) {
            self.0 += 1;
        }
        fn run(&mut self, _: &ingero_replay::Run) {
            self.0 += 1;
        }
    }
    let mut told = Told::default();
    ingero_replay::Timeline::new(trace).run(&mut told);
    told.0
}

/// A recording of some threads or CPUs has their switches alone: states need those of the others.
#[test]
fn what_perf_was_not_asked_for_is_not_known() {
    const LOOP: &str = "for i in 1 2 3 4 5 6 7 8 9; do sleep 0.01; /bin/true; done";
    let dir = tempfile::tempdir().unwrap();
    let whole = record(dir.path(), &["-a"], &["sh", "-c", LOOP]);
    let Some(whole) = whole else { return };
    let (trace, done) = imported(&whole, &dir.path().join("whole.igt"), perfdata::import);
    assert!(!done.notes.iter().any(|n| n.contains("not known")), "{:?}", done.notes);
    assert!(told_states(&trace) > 20);
    let own = std::process::id().to_string();
    let lost = |trace: &Trace| -> Vec<(String, Option<u64>)> {
        let loss = |e: ingero_replay::Event| match e.body {
            Body::Loss(l) if l.count.is_none() => Some((trace.string(l.probe).to_owned(), l.count)),
            _ => None,
        };
        Merge::of(trace, |kind| kind == Kind::Loss).filter_map(loss).collect()
    };
    let threads = ["sched_switch", "sched_waking"].map(|kind| (kind.to_owned(), None));
    for (options, command) in [
        (&[][..], &["sh", "-c", LOOP][..]),
        (&["-p", &own], &["sh", "-c", LOOP]),
        (&["-a", "--filter", "prev_pid>1"], &["sh", "-c", LOOP]),
    ] {
        let Some(file) = record(dir.path(), options, command) else { continue };
        let Ok(done) = perfdata::import(
            &Input::open(&file).unwrap(),
            &dir.path().join("some.igt"),
            ImportOptions { force: true, ..Default::default() },
        ) else {
            panic!("{options:?}")
        };
        let trace = Trace::open(dir.path().join("some.igt")).unwrap();
        if counts(&trace).contains_key("sched_switch") {
            assert!(
                lost(&trace).iter().all(|l| threads.contains(l)) && lost(&trace).contains(&threads[0]),
                "{options:?}"
            );
        }
        assert!(
            done.notes.iter().any(|n| n.contains("not known; record with perf record -a")),
            "{options:?} {:?}",
            done.notes
        );
        assert_eq!(told_states(&trace), 0, "{options:?}");
    }
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    if let Some(file) = record(dir.path(), &["-a", "-C", "0"], &["sh", "-c", LOOP]).filter(|_| cpus > 1) {
        let (trace, done) = imported(&file, &dir.path().join("cpu.igt"), perfdata::import);
        assert!(done.notes.iter().any(|n| n.starts_with("perf recorded 1 of ")), "{:?}", done.notes);
        assert_eq!(lost(&trace), [("other CPUs'".to_owned(), None)]);
        assert_eq!(told_states(&trace), 0);
    }
}

/// perf forks, and notes the name of what it forked, before it becomes the program that is recorded.
#[test]
fn a_program_that_perf_started_has_its_own_name() {
    let dir = tempfile::tempdir().unwrap();
    let Some(file) = record(dir.path(), &[], &["sh", "-c", "sleep 0.05; exit 0"]) else { return };
    let (trace, _) = imported(&file, &dir.path().join("own.igt"), perfdata::import);
    let first = Merge::of(&trace, |kind| matches!(kind, Kind::Switch | Kind::Waking)).next().map(|e| e.ts_ns).unwrap();
    let mut names: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for e in Merge::of(&trace, |kind| kind == Kind::Name) {
        let Body::Name(name) = e.body else { continue };
        assert!(e.ts_ns >= first, "{} at {} before {first}", trace.string(name.name), e.ts_ns);
        names.entry(trace.task(name.task).tid).or_default().push(trace.string(name.name).to_owned());
    }
    let last: Vec<_> = names.values().filter_map(|all| all.last()).collect();
    assert!(last.iter().any(|name| *name == "sh"), "{names:?}");
    assert!(!last.iter().any(|name| *name == "perf-exec"), "{names:?}");
}

/// The library that reads the file panics at such a record.
#[test]
fn a_record_at_which_the_reader_panics_costs_itself_alone() {
    let dir = tempfile::tempdir().unwrap();
    let Some(file) = capture(dir.path(), &[]) else { return };
    let mut bytes = std::fs::read(&file).unwrap();
    let word =
        |bytes: &[u8], at: usize| usize::try_from(u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())).unwrap();
    let (mut at, end) = (word(&bytes, 40), word(&bytes, 40) + word(&bytes, 48));
    const MMAP2: [u8; 4] = [10, 0, 0, 0];
    while at < end && bytes[at..at + 4] != MMAP2 {
        at += usize::from(u16::from_le_bytes([bytes[at + 6], bytes[at + 7]]));
    }
    assert!(at < end, "no mapping");
    // It has a build id, of more bytes than there is room for.
    bytes[at + 5] |= 0x40;
    bytes[at + 40] = 21;
    std::fs::write(dir.path().join("panic.data"), bytes).unwrap();
    let convert = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ingero-convert"));
        let out = command.current_dir(dir.path()).args(["panic.data", "-f"]).args(more).output().unwrap();
        (out.status.code(), String::from_utf8(out.stderr).unwrap())
    };
    let (code, said) = convert(&[]);
    assert_eq!((code, said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.contains("panic.data: record ") && said.contains("MMAP2") && !said.contains("panicked"), "{said}");
    let (_, said) = convert(&["--keep-going"]);
    assert!(said.contains("1 records could not be read") && !said.contains("panicked"), "{said}");
    assert!(counts(&Trace::open(dir.path().join("panic.igt")).unwrap())["sched_switch"] > 20);
}

fn counts(trace: &Trace) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for event in Merge::new(trace) {
        *counts.entry(trace.kind_name(event.body.kind() as u16).to_owned()).or_insert(0) += 1;
    }
    counts
}

/// Each stretch of a thread in one state.
fn states(trace: &Trace) -> Vec<(u32, String, i64, i64)> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("run.sqlite");
    sqlite::export(trace, &Selection::whole(trace), &file, false, &Progress::none()).unwrap();
    let db = rusqlite::Connection::open(&file).unwrap();
    let sql = "SELECT t.tid, s.state, s.start_ns, s.dur_ns FROM thread_states s JOIN tasks t ON t.id = s.task ORDER BY 1, 3, 2, 4";
    let mut query = db.prepare(sql).unwrap();
    let rows = query.query_map([], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?))).unwrap();
    rows.map(Result::unwrap).collect()
}

type Import = fn(&Input, &Path, ImportOptions) -> Result<Imported, ingero_convert::Error>;

fn imported(from: &Path, to: &Path, import: Import) -> (Trace, Imported) {
    let done = import(&Input::open(from).unwrap(), to, ImportOptions::default()).unwrap();
    (Trace::open(to).unwrap(), done)
}

#[test]
fn the_file_says_what_perf_script_says_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let Some(file) = capture(dir.path(), &[]) else { return };
    assert_eq!(Input::open(&file).unwrap().kind(), InputKind::PerfData);
    let script = Command::new("perf")
        .args(["script", "--ns", "-F", "+pid", "--show-lost-events", "-i"])
        .arg(&file)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&script.stdout).into_owned();
    let printed = |event: &str| text.lines().filter(|l| l.contains(&format!(" {event}: "))).count() as u64;
    let (trace, done) = imported(&file, &dir.path().join("file.igt"), perfdata::import);
    let found = counts(&trace);
    for event in EVENTS {
        let (_, kind) = event.split_once(':').unwrap();
        assert_eq!(found.get(kind).copied().unwrap_or(0), printed(event), "{event}");
    }
    assert!(printed("sched:sched_switch") > 20 && printed("sched:sched_process_fork") >= 12, "{found:?}");
    assert!(printed("kmem:mm_page_alloc") > 100, "{found:?}");
    assert!(done.ignored.is_empty(), "{:?}", done.ignored);
    assert_eq!(trace.meta("source"), Some("perf.data"));
    assert_eq!(trace.meta("clock"), Some("monotonic"));
    assert_eq!(found["clock"], 1, "the wall clock of perf record -k mono");

    // Row by row: the same switches at the same nanosecond, between the same threads.
    std::fs::write(dir.path().join("perf.txt"), &text).unwrap();
    let (other, _) = imported(&dir.path().join("perf.txt"), &dir.path().join("text.igt"), ftrace::import);
    let switches = |trace: &Trace| -> Vec<_> {
        let all = Merge::of(trace, |kind| kind == Kind::Switch);
        all.map(|e| {
            let Body::Switch(s) = e.body else { panic!() };
            let (prev, next) = (trace.task(s.prev).tid, trace.task(s.next).tid);
            (e.ts_ns, e.cpu, prev, s.prev_state, s.prev_prio, next, s.next_prio)
        })
        .collect()
    };
    assert_eq!(switches(&trace), switches(&other));
    assert_eq!(states(&trace), states(&other));
    let pages = |trace: &Trace| -> Vec<_> {
        let all = Merge::of(trace, |kind| kind == Kind::PageAlloc);
        all.map(|e| {
            let Body::PageAlloc(p) = e.body else { panic!() };
            (e.ts_ns, e.cpu, trace.task(p.task).tid, p.pfn, p.order, p.migratetype)
        })
        .collect()
    };
    assert_eq!(pages(&trace), pages(&other));
    let requests = |trace: &Trace| -> Vec<_> {
        let all = Merge::of(trace, |kind| matches!(kind, Kind::BlockIssue | Kind::BlockComplete));
        all.map(|e| match e.body {
            Body::BlockIssue(b) => (e.ts_ns, b.dev, b.sector, b.bytes, trace.string(b.rwbs).to_owned(), None),
            Body::BlockComplete(b) => {
                (e.ts_ns, b.dev, b.sector, b.bytes, trace.string(b.rwbs).to_owned(), Some(b.error))
            }
            _ => panic!(),
        })
        .collect()
    };
    assert_eq!(requests(&trace), requests(&other));
    // Beyond the text: whether an interrupt woke, and the names that were there before.
    let contexts = Merge::of(&trace, |kind| kind == Kind::Waking)
        .filter(|e| matches!(e.body, Body::Waking(w) if w.context.is_some()));
    assert_eq!(contexts.count() as u64, printed("sched:sched_waking"));
    // What each process had mapped as code, as perf says it.
    let script = Command::new("perf").args(["script", "--ns", "--show-mmap-events", "-i"]).arg(&file).output().unwrap();
    let text = String::from_utf8_lossy(&script.stdout).into_owned();
    let said = |line: &str| {
        let (_, rest) = line.split_once("PERF_RECORD_MMAP2 ")?;
        let (pid, rest) = rest.split_once('/')?;
        let (start, rest) = rest.split_once("[0x")?.1.split_once("(0x")?;
        let (_, file) = rest.split_once(" r-xp ").or_else(|| rest.split_once(" rwxp "))?;
        let file = file.starts_with('/').then_some(file).filter(|f| !f.starts_with("//"))?;
        Some((pid.parse::<u32>().ok()?, u64::from_str_radix(start, 16).ok()?, file.to_owned()))
    };
    let mut due: Vec<_> = text.lines().filter_map(said).collect();
    let mapped = |e: ingero_replay::Event| {
        let Body::Mapping(m) = e.body else { panic!() };
        assert!(m.bytes > 0 && m.bytes % 4096 == 0, "{m:?}");
        (trace.task(m.task).pid, m.start, trace.string(m.file).to_owned())
    };
    let mut got: Vec<_> = Merge::of(&trace, |kind| kind == Kind::Mapping).map(mapped).collect();
    due.sort();
    got.sort();
    assert!(got.iter().any(|(_, _, file)| file.contains("libc")), "{got:?}");
    assert_eq!(got, due);
    let processes = Processes::new(&trace);
    let init = processes.with_pid(1);
    assert!(init.len() <= 1, "one life: {init:?}");
}

#[test]
fn a_file_that_is_cut_or_packed_is_refused_in_words() {
    let dir = tempfile::tempdir().unwrap();
    let Some(file) = capture(dir.path(), &[]) else { return };
    let bytes = std::fs::read(&file).unwrap();
    let refused = |bytes: &[u8]| {
        let (bad, output) = (dir.path().join("bad.data"), dir.path().join("bad.igt"));
        std::fs::write(&bad, bytes).unwrap();
        let e = perfdata::import(&Input::open(&bad).unwrap(), &output, ImportOptions::default()).unwrap_err();
        assert!(!output.exists());
        e.to_string()
    };
    for cut in [9, 60, 103, 400, bytes.len() / 2, bytes.len() - 1] {
        let said = refused(&bytes[..cut]);
        assert!(said.contains("bad.data: ") && (said.contains("cut") || said.contains("ends within")), "{cut}: {said}");
    }
    // A section that claims the whole address space.
    let mut huge = bytes.clone();
    huge[48..56].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(refused(&huge).contains("is cut: its data"), "{}", refused(&huge));
    // What perf writes to a pipe begins with a header of 16 bytes.
    let mut piped = bytes.clone();
    piped[8..16].copy_from_slice(&16_u64.to_le_bytes());
    assert!(refused(&piped).contains("writes to a pipe; record into a file"), "{}", refused(&piped));
}

/// What `perf report -D` prints of a file: the numbers behind each `marker`.
fn dumped(file: &Path, marker: &str) -> Vec<u64> {
    let out = Command::new("perf").args(["report", "-D", "-i"]).arg(file).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    text.lines().filter_map(|line| line.split_once(marker)).map(|(_, n)| n.trim().parse().unwrap()).collect()
}

/// Samples of all kinds as perf prints them.
fn printed(file: &Path) -> usize {
    let out = Command::new("perf").args(["script", "-i"]).arg(file).output().unwrap();
    out.stdout.split(|b| *b == b'\n').filter(|line| !line.is_empty()).count()
}

#[test]
fn packed_records_are_read_like_others() {
    let dir = tempfile::tempdir().unwrap();
    let Some(file) = capture(dir.path(), &["-z"]) else { return };
    let (trace, done) = imported(&file, &dir.path().join("z.igt"), perfdata::import);
    let read: u64 = counts(&trace)
        .iter()
        .filter(|(kind, _)| EVENTS.iter().any(|e| e.ends_with(&format!(":{kind}"))))
        .map(|(_, n)| n)
        .sum();
    let ignored: u64 = done.ignored.values().sum();
    assert_eq!(read + ignored, printed(&file) as u64, "{:?} {:?}", counts(&trace), done.ignored);
}

/// The kernel's count at the end has in it what the rings told before.
#[test]
fn what_a_ring_lost_is_counted_once() {
    let dir = tempfile::tempdir().unwrap();
    // Rings of a page each, and as much to be told at once as a loop of new processes makes.
    let Some(file) = capture(dir.path(), &["-m", "1"]) else { return };
    let (told, counted) = (dumped(&file, "lost:"), dumped(&file, "lost samples :"));
    assert!(told.iter().sum::<u64>() > 0, "nothing was lost");
    let (trace, _) = imported(&file, &dir.path().join("lossy.igt"), perfdata::import);
    let lost: Vec<_> = Merge::new(&trace)
        .filter_map(|event| match event.body {
            Body::Loss(loss) => Some((trace.string(loss.probe).to_owned(), loss.count.unwrap_or(0))),
            _ => None,
        })
        .collect();
    let most = told.iter().sum::<u64>().max(counted.iter().sum());
    assert_eq!(lost.iter().map(|(_, n)| n).sum::<u64>(), most, "{told:?} {counted:?} {lost:?}");
    assert!(lost.iter().all(|(who, _)| who == "perf ring"), "{lost:?}");
}

#[test]
fn a_file_of_another_day_reads_as_it_did() {
    let dir = tempfile::tempdir().unwrap();
    let packed = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/perf.data.zst");
    let file = dir.path().join("perf.data");
    std::fs::write(&file, zstd::decode_all(std::fs::File::open(packed).unwrap()).unwrap()).unwrap();
    let (trace, _) = imported(&file, &dir.path().join("file.igt"), perfdata::import);
    let found = counts(&trace);
    let told = [
        ("sched_switch", 23),
        ("sched_waking", 12),
        ("sched_process_fork", 3),
        ("sched_process_exec", 3),
        ("sched_process_exit", 5),
    ];
    for (event, count) in told {
        assert_eq!(found.get(event).copied().unwrap_or(0), count, "{event}");
    }
    assert_eq!(trace.meta("host"), Some("node"));
    // perf noted births and ends for a while before it armed its tracepoints: nothing is told of that time.
    let first = Merge::of(&trace, |kind| matches!(kind, Kind::Switch | Kind::Waking)).next().map(|e| e.ts_ns);
    assert_eq!(trace.span_ns().map(|span| span.0), first);
    // Beside the text that perf script prints of it: each thread has the same states.
    let text = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/perf.data.txt");
    let (other, _) = imported(&text, &dir.path().join("text.igt"), ftrace::import);
    assert_eq!(states(&trace), states(&other));
    assert!(states(&trace).len() > 40);
    // A thread that ends leaves its last switch without ids of perf: the kernel's note has them.
    let last = Merge::of(&trace, |kind| kind == Kind::Switch)
        .any(|e| matches!(e.body, Body::Switch(s) if s.prev_state & 0x30 != 0 && trace.task(s.prev).tid != 0));
    assert!(last);
}
