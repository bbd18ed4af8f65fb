//! What is left of a recording when the recorder is killed, the disk is full, or the file is cut, changed or shrinks.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ingero_format::catalog::{Body, END_OPEN, END_RETURNED, Kind};
use ingero_format::layout::{CHUNK_ALIGN, CHUNK_BLOCK, CHUNK_HEADER_LEN, FILE_HEADER_LEN, FOOTER_PAYLOAD_LEN, SEAL_NS};
use ingero_format::{Batch, Error, IndexEntry, Trace};
use ingero_replay::Merge;
use ingero_tests::{kernel_lock, record_with, run, standin, tool};
use rustix::process::{Pid, Signal, kill_process_group};
use rustix::time::{ClockId, clock_gettime};

const LIMIT: Duration = Duration::from_secs(60);

/// Numbers without a pattern, the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap() * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap()
}

/// What a killed recorder left, and the time of the kill on the clock of the events.
struct Killed {
    dir: tempfile::TempDir,
    at_ns: u64,
}

impl Killed {
    fn file(&self) -> std::path::PathBuf {
        self.dir.path().join("run.igt")
    }
}

/// Starts a recorder on a program, waits until events are in its file and then so long, and kills it.
fn killed(program: &[String], after: Duration) -> Killed {
    let _alone = kernel_lock();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("run.igt");
    let mut command = Command::new(tool("ingero-record"));
    command.arg("-o").arg(&file).args(["--quiet", "--"]).args(program);
    command.process_group(0).stdout(Stdio::null()).stderr(Stdio::null());
    let mut recorder = command.spawn().unwrap();
    let deadline = Instant::now() + LIMIT;
    // The schema and the names come first; blocks of events follow.
    let has_events =
        || Trace::open(&file).is_ok_and(|t| t.blocks().iter().any(|b| b.header.kind == Kind::Switch as u16));
    let mut begun = has_events();
    while !begun && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(10));
        begun = has_events();
    }
    thread::sleep(after);
    let at_ns = monotonic_ns();
    recorder.kill().unwrap();
    // The program goes with its recorder's process group.
    kill_process_group(Pid::from_child(&recorder), Signal::KILL).unwrap();
    recorder.wait().unwrap();
    assert!(begun, "nothing was written");
    Killed { dir, at_ns }
}

/// For each source of events, the time from its last event in the file to the kill is what the kill has cost: the program
/// makes events of every one of these kinds each millisecond or so.
#[test]
fn a_kill_costs_at_most_a_quarter_of_a_second_of_any_source() {
    let program = [standin().program.display().to_string(), "forever".to_owned()];
    let mut dice = Dice(7);
    let mut lost: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    let begun = Instant::now();
    for _ in 0..50 {
        let left = killed(&program, Duration::from_micros(dice.below(400_000)));
        let trace = Trace::open(left.file()).unwrap();
        assert!(!trace.complete());
        // At most the chunk that was being written is broken.
        assert!(trace.damage().len() <= 1, "{:?}", trace.damage());
        let mut batch = Batch::new().unwrap();
        let mut last: BTreeMap<u16, u64> = BTreeMap::new();
        let first = trace.span_ns().unwrap().0;
        for b in trace.blocks() {
            trace.read_block(b, &mut batch, None).unwrap();
            let end = last.entry(b.header.kind).or_default();
            *end = b.header.ts_max.max(*end);
        }
        for (kind, name) in
            [(Kind::Switch, "switches"), (Kind::Waking, "wakings"), (Kind::Wakeup, "wakeups"), (Kind::Call, "calls")]
        {
            // Of a recording so short that none has been written yet, all is lost.
            let end = last.get(&(kind as u16)).copied().unwrap_or(first);
            lost.entry(name).or_default().push(left.at_ns.saturating_sub(end));
        }
    }
    for (name, times) in &mut lost {
        times.sort_unstable();
        let ms = |ns: u64| ns as f64 / 1e6;
        let (median, most) = (times[times.len() / 2], times[times.len() - 1]);
        println!("{name}: median {:.1} ms, most {:.1} ms of {} kills", ms(median), ms(most), times.len());
    }
    println!("{:.1} s", begun.elapsed().as_secs_f64());
    for (name, times) in &lost {
        assert!(*times.last().unwrap() <= SEAL_NS, "{name}: {times:?}");
    }
}

/// A program that sits in one long call has made no event for as long, and it is this call that explains it.
#[test]
fn a_kill_does_not_lose_the_call_that_everybody_waits_for() {
    let program =
        ["env", "STANDIN_SYNC_US=10000000", &standin().program.display().to_string(), "forever"].map(str::to_owned);
    for after in [300, 700] {
        let left = killed(&program, Duration::from_millis(after));
        let trace = Trace::open(left.file()).unwrap();
        let open: Vec<(u64, &str)> = Merge::new(&trace)
            .filter_map(|e| match e.body {
                Body::Call(c) if c.end == END_OPEN => Some((e.ts_ns, trace.function(c.func).unwrap().symbol.as_str())),
                _ => None,
            })
            .collect();
        assert!(open.iter().any(|(_, symbol)| *symbol == "cudaStreamSynchronize"), "{open:?}");
        assert!(open.iter().all(|(ts, _)| left.at_ns - ts > 100_000_000), "{open:?}");
    }
}

/// A call that was noted as open is one call when it has returned.
#[test]
fn long_calls_are_counted_once() {
    let program = [standin().program.display().to_string(), "forever".to_owned()];
    let recording = record_with(&["--quiet", "--duration", "2s"], &program, &[("STANDIN_SYNC_US", "350000")]);
    let file = &recording.file;
    let trace = Trace::open(file).unwrap();
    let stored: u32 = trace.blocks().iter().filter(|b| b.header.kind == Kind::Call as u16).map(|b| b.header.rows).sum();
    let calls: Vec<(u64, u64, u64)> = Merge::of(&trace, |k| k == Kind::Call)
        .filter_map(|e| if let Body::Call(c) = e.body { Some((e.ts_ns, c.func.index() as u64, c.end)) } else { None })
        .collect();
    let mut entries: Vec<_> = calls.iter().map(|&(ts, func, _)| (ts, func)).collect();
    entries.dedup();
    assert_eq!(entries.len(), calls.len(), "{calls:?}");
    let returned = calls.iter().filter(|(.., end)| *end == END_RETURNED).count();
    assert!(returned >= 4, "{calls:?}");
    assert!(stored as usize > calls.len(), "{stored} rows for {} calls: none was noted while it was open", calls.len());
    let analyzed = ingero_tests::calls(file);
    assert_eq!(analyzed.len(), calls.len());
}

/// A real recording of a few megabytes.
fn large() -> ingero_tests::Recording {
    let standin = standin().program.display().to_string();
    let script = format!("for i in 1 2 3; do {standin} threads 8 3000 & done; {standin} prefork 4 2000 <<< go; wait");
    record_with(
        &["--quiet"],
        &["bash", "-c", &script].map(str::to_owned),
        &[("STANDIN_SYNC_US", "20"), ("STANDIN_LAUNCH_NS", "500")],
    )
}

/// Merges a recording with a whole one, and says what its times may be wrong by.
fn uncertainty_beside(file: &Path, whole: &Path) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    let all = dir.path().join("all.igt");
    let mut merge = Command::new(tool("ingero-convert"));
    // What was cut off is damaged, which the last word says.
    let done = run(merge.arg("merge").args([file, whole]).arg("-o").arg(&all), LIMIT);
    assert!([0, 2].contains(&done.code()), "{}: {done:#?}", file.display());
    let all = Trace::open(&all).unwrap_or_else(|e| panic!("{}: {e}: {done:#?}", file.display()));
    all.meta("host.0.uncertainty_ns").unwrap().parse().unwrap()
}

/// A reading of the clocks is the first block: whatever is left of a recording can be put in time beside others.
#[test]
fn what_is_left_of_a_recording_is_merged() {
    let standin = standin().program.display().to_string();
    let script = format!("{standin} threads 8 3000; sleep 2.2; {standin} threads 4 500");
    let recording =
        record_with(&["--quiet"], &["bash", "-c", &script].map(str::to_owned), &[("STANDIN_SYNC_US", "20")]);
    let other = record_with(&["--quiet"], &["true".to_owned()], &[]);
    let whole = Trace::open(&recording.file).unwrap();
    let first = whole.blocks().iter().min_by_key(|b| b.offset).unwrap();
    assert_eq!(first.header.kind, Kind::Clock as u16);
    let readings = whole.blocks().iter().filter(|b| b.header.kind == Kind::Clock as u16);
    println!(
        "{} bytes; readings at {:?}",
        whole.len_bytes(),
        readings.map(|b| (b.offset, b.header.rows, b.header.payload_len)).collect::<Vec<_>>()
    );
    let ends: Vec<u64> = whole_blocks(&whole).into_iter().map(|(_, end)| end).collect();
    let cut = recording.dir.path().join("cut.igt");
    for end in ends.iter().take(4).chain(ends.iter().step_by(ends.len() / 8)).chain(ends.last()) {
        fs::copy(&recording.file, &cut).unwrap();
        // Within the chunk behind it.
        OpenOptions::new().write(true).open(&cut).unwrap().set_len(end + 9).unwrap();
        let uncertainty_ns = uncertainty_beside(&cut, &other.file);
        // One a second, each in the file as soon as other rows of its time are.
        assert!(uncertainty_ns < 2_000_000, "cut at {end}: {uncertainty_ns} ns");
    }
    let killed = killed(&[standin, "forever".to_owned()], Duration::ZERO);
    assert!(uncertainty_beside(&killed.file(), &other.file) < 2_000_000);
}

fn whole_blocks(trace: &Trace) -> Vec<(u64, u64)> {
    let blocks = trace.chunks().iter().filter(|c| c.header.chunk_type == CHUNK_BLOCK);
    blocks.map(|c| (c.offset, c.offset + CHUNK_HEADER_LEN as u64 + u64::from(c.header.payload_len))).collect()
}

#[test]
fn a_large_recording_cut_or_changed_anywhere() {
    let recording = large();
    let whole = Trace::open(&recording.file).unwrap();
    let blocks = whole_blocks(&whole);
    let len = whole.len_bytes();
    println!("{len} bytes, {} blocks", blocks.len());
    assert!(len > 300_000 && blocks.len() > 20, "{len} bytes, {} blocks", blocks.len());

    // Ten thousand cuts, from large to small: one file gets ever shorter.
    let mut dice = Dice(10_000);
    let mut cuts: Vec<u64> = (0..10_000).map(|_| dice.below(len)).collect();
    // Behind the index, too: the last chunk but one.
    let footer_at = len - (CHUNK_HEADER_LEN + FOOTER_PAYLOAD_LEN) as u64;
    cuts.extend(footer_at - 16..=len - 1);
    cuts.sort_unstable_by(|a, b| b.cmp(a));
    let path = recording.dir.path().join("cut.igt");
    fs::copy(&recording.file, &path).unwrap();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    let mut batch = Batch::new().unwrap();
    let mut read = 0;
    for cut in cuts {
        file.set_len(cut).unwrap();
        let trace = match Trace::open(&path) {
            Ok(trace) => trace,
            Err(Error::NotIgt(_)) if cut < FILE_HEADER_LEN as u64 => continue,
            Err(e) => panic!("cut at {cut}: {e}"),
        };
        assert!(!trace.complete(), "cut at {cut}");
        let due = blocks.iter().take_while(|(_, end)| *end <= cut).count();
        let found = whole_blocks(&trace);
        assert_eq!(found, blocks[..due], "cut at {cut}");
        // Their bytes are those of the whole file; the last one stands for all.
        let last = trace.chunks().iter().rev().find(|c| c.header.chunk_type == CHUNK_BLOCK);
        if let Some(last) = last.filter(|last| last.offset != read) {
            trace.read_block(last, &mut batch, None).unwrap();
            read = last.offset;
        }
        // Where a chunk is cut it is stated; where the cut is between two, or in the bytes that fill up the first, there is no footer.
        // The index, which is no chunk of its own list, ends right before that.
        let end = trace.chunks().last().map_or(FILE_HEADER_LEN as u64, |c| c.offset + c.header.span());
        let behind_index = footer_at - (CHUNK_ALIGN as u64) < cut && cut <= footer_at;
        assert!(
            end >= cut || behind_index || trace.damage().iter().map(|d| d.offset + d.len).max() == Some(cut),
            "cut at {cut}"
        );
    }

    // A flipped bit is found at its place, and costs its block.
    fs::copy(&recording.file, &path).unwrap();
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    for round in 0..120 {
        let at = dice.below(len);
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ (1 << dice.below(8))], at).unwrap();
        let trace = Trace::open(&path).unwrap_or_else(|e| panic!("flip at {at:#x}: {e}"));
        let mut broken = Vec::new();
        let of = blocks.iter().rposition(|(from, _)| *from <= at).unwrap_or(0);
        // Of all blocks at times, else of those around.
        let near =
            |b: &&IndexEntry| round % 16 == 0 || blocks[of.saturating_sub(1)..].iter().take(3).any(|n| n.0 == b.offset);
        for b in trace.blocks().iter().filter(near) {
            if trace.read_block(b, &mut batch, None).is_err() {
                broken.push(b.offset);
            }
        }
        assert!(broken.is_empty() || broken == [blocks[of].0], "flip at {at:#x}: {broken:x?}");
        if round < 12 {
            let mut verify = Command::new(tool("ingero-replay"));
            let verdict = run(verify.arg("verify").arg(&path), LIMIT);
            assert_eq!(verdict.code(), 1, "flip at {at:#x}: {verdict:#?}");
            let place = verdict.stdout.lines().find_map(|l| l.strip_prefix("damage at 0x")).expect("no place");
            let place = u64::from_str_radix(place.split([' ', ':']).next().unwrap(), 16).unwrap();
            assert!(
                place <= at || whole.chunks().last().is_some_and(|c| c.offset < at),
                "flip at {at:#x}: {verdict:#?}"
            );
        }
        file.write_all_at(&byte, at).unwrap();
    }

    // A file that shrinks while it is read.
    let trace = Trace::open(&path).unwrap();
    file.set_len(len / 2).unwrap();
    let mut merge = Merge::new(&trace);
    assert!(merge.by_ref().count() > 0);
    assert!(merge.lost().iter().any(|l| l.error.to_string().contains("the file has shrunk while it was read")));
    let bytes = fs::read(&recording.file).unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut dice = Dice(3);
            while !stop.load(Ordering::Relaxed) {
                file.set_len(dice.below(len)).unwrap();
                file.write_all_at(&bytes, 0).unwrap();
            }
        });
        let until = Instant::now() + Duration::from_secs(2);
        let mut refused = 0;
        while Instant::now() < until {
            let Ok(trace) = Trace::open(&path) else {
                refused += 1;
                continue;
            };
            let mut merge = Merge::new(&trace);
            merge.by_ref().for_each(drop);
            refused += merge.lost().len();
        }
        stop.store(true, Ordering::Relaxed);
        assert!(refused > 0, "the file never shrank at the right moment");
    });
}

/// A file system of its own, taken away again.
struct Tmpfs(tempfile::TempDir);

impl Tmpfs {
    fn new(options: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        let _ = run(mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(dir.path()), LIMIT).success();
        Self(dir)
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

fn verify(file: &Path) -> ingero_tests::Run {
    let mut verify = Command::new(tool("ingero-replay"));
    run(verify.arg("verify").arg(file), LIMIT)
}

#[test]
fn a_full_disk_ends_the_recording_in_good_order() {
    let _alone = kernel_lock();
    for size in ["1m", "4m"] {
        let disk = Tmpfs::new(&format!("size={size}"));
        let file = disk.0.path().join("run.igt");
        let standin = standin().program.display().to_string();
        let script = format!("for i in 1 2 3 4; do {standin} threads 16 4000 & done; wait");
        let mut recorder = Command::new(tool("ingero-record"));
        recorder.arg("-o").arg(&file).args(["--quiet", "--", "sh", "-c", &script]);
        let ran = run(recorder.env("STANDIN_SYNC_US", "10"), LIMIT);
        assert!(ran.code() != 0 && ran.code() < 126, "{ran:#?}");
        assert!(ran.stderr.contains("the disk is full"), "{ran:#?}");
        let verdict = verify(&file);
        assert_eq!(verdict.code(), 0, "{verdict:#?}");
        assert!(verdict.stdout.contains("whole and complete"), "{verdict:#?}");
        assert!(verdict.stdout.contains("disk-full"), "the loss is noted: {verdict:#?}");
        let trace = Trace::open(&file).unwrap();
        let events: u64 = trace.blocks().iter().map(|b| u64::from(b.header.rows)).sum();
        println!("{size}: {} bytes, {events} events", trace.len_bytes());
        assert!(trace.len_bytes() > 200_000, "{} bytes of {size} were used", trace.len_bytes());
    }
}

#[test]
fn what_a_kill_leaves_is_repaired() {
    let program = [standin().program.display().to_string(), "forever".to_owned()];
    let left = killed(&program, Duration::from_millis(100));
    let mended = left.dir.path().join("mended.igt");
    let mut repair = Command::new(tool("ingero-replay"));
    let ran = run(repair.arg("repair").arg(left.file()).arg("-o").arg(&mended), LIMIT).success();
    println!("{}", ran.stdout);
    assert_eq!(verify(&mended).code(), 0);
    let (before, after) = (Trace::open(left.file()).unwrap(), Trace::open(&mended).unwrap());
    let rows = |trace: &Trace| Merge::of(trace, |k| k != Kind::Loss).count();
    assert_eq!(rows(&before), rows(&after));
}
