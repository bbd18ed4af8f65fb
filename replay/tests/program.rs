//! `ingero-replay` as it is typed: what it prints, says and ends with.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ingero_format::catalog::{Class, Clock, Layer, Loss, NO_CPU, Name, TaskId};
use ingero_format::{Trace, layout};
use ingero_replay::fixture::Fixture;

const SECOND: u64 = 1_000_000_000;
const START: u64 = 100 * SECOND;

struct Ran {
    status: i32,
    out: String,
    err: String,
}

impl Ran {
    /// What was printed, from a run that ended well.
    fn ok(self) -> String {
        assert_eq!((self.status, self.err.as_str()), (0, ""), "{}", self.out);
        self.out
    }

    /// The one line on stderr, from a run that failed so.
    fn failed(&self, status: i32) -> &str {
        assert_eq!(self.status, status, "{}", self.err);
        assert_eq!(self.err.matches('\n').count(), 1, "{:?}", self.err);
        self.err.trim_end().strip_prefix("ingero-replay: ").unwrap()
    }
}

fn replay(args: &[&str]) -> Ran {
    let output = Command::new(env!("CARGO_BIN_EXE_ingero-replay")).args(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { status: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

/// A folder with files for one test.
struct Files {
    dir: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn put(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.path(name);
        std::fs::write(&path, bytes).unwrap();
        text(&path)
    }
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// Ten seconds: process 41 with two threads and process 50, a name that changes, a call, a loss.
fn recording() -> Vec<u8> {
    let mut f = Fixture::with_rows(4);
    f.writer().set_meta("kernel", "6.18.1");
    f.writer().set_meta("command", &format!("python3 {}", "train.py ".repeat(20)));
    let (main, helper, other) = (f.task(41, 41), f.task(41, 44), f.task(50, 50));
    let func = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
    for (ts, task, name) in [(1, main, "python3"), (START + 5 * SECOND, main, "pt \"main\"\n"), (1, other, "nginx")] {
        let name = f.writer().string(name);
        f.push(ts, NO_CPU, Name { task, name, source: 0 });
    }
    let clock = Clock { boot_ns: 1, real_ns: 1_767_225_600 * SECOND, tsc: None, bracket_ns: 90 };
    f.push(START, 0, clock);
    for i in 0..10 {
        let ts = START + i * SECOND;
        f.switch(ts + 1, 0, TaskId(0), 0, main);
        f.switch(ts + 500, 0, main, 1, TaskId(0));
    }
    f.waking(START + 900, 1, other, helper, 0);
    f.call(START + 2 * SECOND + 7, 0, main, func, 250);
    let probe = f.writer().string("sched_switch");
    f.push(START + 7 * SECOND, 1, Loss { to_ns: START + 8 * SECOND, probe, cause: 0, count: Some(17), of_host: None });
    f.into_bytes()
}

/// The recording, and where its blocks of switches are.
fn recording_and_blocks(files: &Files) -> (Vec<u8>, Vec<(usize, u32)>) {
    let bytes = recording();
    let trace = Trace::open(files.put("whole.igt", &bytes)).unwrap();
    let switches = trace.chunks().iter().filter(|c| c.header.chunk_type == layout::CHUNK_BLOCK && c.header.kind == 1);
    let places = switches.map(|c| (usize::try_from(c.offset).unwrap(), c.header.rows)).collect();
    (bytes, places)
}

#[test]
fn dump_prints_every_event_in_order_with_the_name_of_the_moment() {
    let files = Files::new();
    let run = files.put("run.igt", &recording());
    let out = replay(&["dump", &run]).ok();
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 27);
    assert_eq!(
        lines[0],
        "  -99.999999999    -  python3[41]              task_name          task=python3[41] name=python3 source=start"
    );
    assert_eq!(
        lines[4],
        "    0.000000500    0  python3[41]              sched_switch       prev=python3[41] prev_state=0x1 next=idle"
    );
    assert_eq!(
        lines[5],
        "    0.000000900    1  nginx[50]                sched_waking       waker=nginx[50] wakee=[41/44] \
         target_cpu=1 context=task"
    );
    let call = lines.iter().find(|l| l.contains(" call ")).unwrap();
    assert_eq!(
        *call,
        "    2.000000007    0  python3[41]              call               task=python3[41] func=cudaLaunchKernel \
         dur_ns=250 end=returned result=0"
    );
    let renamed = lines.iter().find(|l| l.contains("pt \\\"main\\\"")).unwrap();
    assert!(renamed.contains("name=\"pt \\\"main\\\"\\n\""), "{renamed}");
    let times: Vec<f64> = lines.iter().map(|l| l.split_whitespace().next().unwrap().parse().unwrap()).collect();
    assert!(times.is_sorted());
}

#[test]
fn dump_as_json_is_one_object_a_line() {
    let files = Files::new();
    let run = files.put("run.igt", &recording());
    let out = replay(&["dump", &run, "--format", "json"]).ok();
    let lines: Vec<serde_json::Value> = out.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(lines.len(), 27);
    assert_eq!(lines[0]["time_ns"], -99_999_999_999_i64);
    assert_eq!(lines[0]["cpu"], serde_json::Value::Null);
    let call = lines.iter().find(|l| l["kind"] == "call").unwrap();
    assert_eq!(call["ts_ns"], START + 2 * SECOND + 7);
    assert_eq!(
        call["fields"],
        serde_json::json!({
            "task": { "pid": 41, "tid": 41, "name": "python3" }, "func": "cudaLaunchKernel", "dur_ns": 250,
            "end": "returned", "result": 0, "ptr": null, "ptr2": null, "bytes": null, "copy": null, "stream": null,
            "device": null
        })
    );
    let renamed = lines.iter().rfind(|l| l["kind"] == "task_name").unwrap();
    assert_eq!(renamed["fields"]["name"], "pt \"main\"\n");
}

#[test]
fn dump_cuts_by_time_kind_and_process() {
    let files = Files::new();
    let run = files.put("run.igt", &recording());
    let dump = |args: &[&str]| replay(&[&["dump", run.as_str()], args].concat()).ok().lines().count();
    assert_eq!(dump(&["--from", "2s", "--to", "3s"]), 3);
    assert_eq!(dump(&["--from", "2026-01-01T00:00:02Z", "--to", "2026-01-01T00:00:03Z"]), 3);
    assert_eq!(dump(&["--since", "1s"]), 3, "two switches, and one right at the edge");
    assert_eq!(dump(&["--only", "sched_switch"]), 20);
    assert_eq!(dump(&["--only", "sched_waking,call", "--only", "clock"]), 3);
    assert_eq!(dump(&["--pid", "50"]), 2);
    assert_eq!(dump(&["--pid", "50", "--pid", "41"]), 25);
    let nothing = replay(&["dump", &run, "--pid", "41", "--only", "call", "--from", "3s"]);
    assert_eq!((nothing.status, nothing.out.as_str()), (0, ""));
    assert!(
        nothing.err.contains("no event of the kind call of the chosen processes from 3.000000000 s on"),
        "{}",
        nothing.err
    );
}

#[test]
fn a_closed_pipe_ends_the_program_quietly() {
    let files = Files::new();
    let mut f = Fixture::new();
    let task = f.task(1, 1);
    for i in 0..200_000 {
        f.switch(i, 0, task, 1, task);
    }
    let run = files.put("run.igt", &f.into_bytes());
    for command in ["dump", "inspect", "verify"] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_ingero-replay"))
            .args([command, &run])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        if command == "dump" {
            let mut line = String::new();
            BufReader::with_capacity(16, child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        } else {
            drop(child.stdout.take());
        }
        let mut err = String::new();
        child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        assert_eq!((child.wait().unwrap().code(), err.as_str()), (Some(0), ""), "{command}");
    }
}

#[test]
fn inspect_describes_the_file_in_eighty_columns() {
    let files = Files::new();
    let run = files.put("run.igt", &recording());
    let out = replay(&["inspect", &run]).ok();
    let path_lines = out.lines().filter(|l| l.chars().count() > 80).count();
    assert_eq!(path_lines, 0, "{out}");
    for needle in [
        "complete          yes\n",
        "length            9.000000500 s\n",
        "start             2026-01-01 00:00:00.000 UTC\n",
        "kernel            6.18.1\n",
        "27 events",
        "  sched_switch                      20",
        "sched_switch                     bytes      per value   stored as\n",
        "  prev_state ",
        "  strings                            4",
        "  sched_switch                      17              1   ring-full\n",
        "damage                  none seen; verify reads every byte\n",
    ] {
        assert!(out.contains(needle), "{needle:?} in\n{out}");
    }
    // The parts add up to the file.
    let size = std::fs::metadata(&run).unwrap().len();
    let number = |text: &str| text.replace(',', "").parse::<u64>().unwrap();
    let part = |title: &str| {
        let lines = out.lines().skip_while(|l| !l.starts_with(title)).skip(1).take_while(|l| l.starts_with("  "));
        lines.filter(|l| !l.contains('*')).map(|l| number(l[39..53].trim())).sum::<u64>()
    };
    assert_eq!(part("events ") + part("everything else"), size, "{out}");
}

#[test]
fn inspect_lists_every_chunk_when_asked() {
    let files = Files::new();
    let run = files.put("run.igt", &recording());
    let out = replay(&["inspect", &run, "--chunks"]).ok();
    let list: Vec<&str> = out.lines().skip_while(|l| *l != "chunks").skip(2).collect();
    let trace = Trace::open(files.path("run.igt")).unwrap();
    assert_eq!(list.len(), trace.chunks().len());
    let of_switches = list.iter().filter(|l| l.contains(" sched_switch ")).count();
    assert_eq!(of_switches, trace.blocks().iter().filter(|b| b.header.kind == 1).count());
    for (line, chunk) in list.iter().zip(trace.chunks()) {
        assert!(line.contains(&format!(" {:#x} ", chunk.offset)), "{line}");
        assert!(line.chars().count() <= 80, "{line}");
    }
}

/// What everybody does half-way: main sleeps on a futex that its helper ends, a worker waits for the CPU that a
/// neighbour has, and nothing is known of CPU 3.
fn scene() -> Vec<u8> {
    let mut f = Fixture::new();
    f.writer().set_meta("cpus", "4");
    f.writer().set_meta("machine", "x86_64");
    let (main, helper, worker, neighbour) = (f.task(41, 41), f.task(41, 44), f.task(50, 50), f.task(60, 60));
    let sync = f.func("cudaStreamSynchronize", Layer::Runtime, Class::Sync);
    for (task, name) in [(main, "python3"), (worker, "worker"), (neighbour, "cat \u{202e}\n")] {
        let name = f.writer().string(name);
        f.push(1, NO_CPU, Name { task, name, source: 0 });
    }
    let ms = |ms: u64| START + ms * 1_000_000;
    f.switch(ms(0), 0, TaskId(0), 0, main);
    f.switch(ms(0), 1, TaskId(0), 0, worker);
    f.call(ms(1), 0, main, sync, 60_000_000);
    let blocks = ingero_format::catalog::Switch {
        prev: main,
        prev_state: 1,
        prev_prio: None,
        next: helper,
        next_prio: None,
        syscall: Some(202),
        throttled: None,
    };
    f.push(ms(2), 0, blocks);
    f.switch(ms(10), 1, worker, 0x100, neighbour);
    let brief = f.task(70, 70);
    f.switch(ms(20), 2, brief, 0x10, TaskId(0));
    f.waking(ms(60), 0, helper, main, 0);
    f.switch(ms(61), 0, helper, 1, main);
    f.switch(ms(90), 1, neighbour, 1, worker);
    f.switch(ms(100), 0, main, 1, TaskId(0));
    f.into_bytes()
}

#[test]
fn a_moment_shows_each_thread_and_cpu_and_why_it_waits() {
    let files = Files::new();
    let run = files.put("run.igt", &scene());
    let out = replay(&["at", &run, "50ms"]).ok();
    let expected = format!(
        "{run} at 0.050000000 s
\"for 2 ms of 8 ms\": for 2 ms already, 8 ms in all

on the CPUs (2 of 4 run a thread)
   0  [41/44]               runs for 48.0 ms of 59.0 ms
   1  cat \\u{{202e}}\\n[60]    runs for 40.0 ms of 80.0 ms
   2  idle
   3  not known

runnable: wait for a CPU (1)
  worker[50]                waits for cpu 1 for 40.0 ms of 80.0 ms; behind cat \\u{{202e}}\\n[60]; was
                            preempted

throttled: held back by a CPU quota (0)

blocked (1)
  python3[41]               in futex for 48.0 ms of 58.0 ms; then woken by [41/44]; in
                            cudaStreamSynchronize for 49.0 ms
"
    );
    assert_eq!(out, expected);

    let one = replay(&["at", &run, "0.05", "--pid", "50"]).ok();
    assert!(one.contains("worker[50]") && one.contains("   0  [41/44]"), "{one}");
    assert!(!one.contains("python3[41]"), "{one}");
}

#[test]
fn play_prints_what_dump_prints_from_where_it_is_told() {
    let files = Files::new();
    let run = files.put("run.igt", &recording());
    let played = replay(&["play", &run, "--speed", "1e9", "--at", "3s", "--to", "2026-01-01T00:00:06Z"]).ok();
    assert_eq!(played, replay(&["dump", &run, "--from", "3s", "--to", "6s"]).ok());
    let only = ["--only", "sched_switch", "--pid", "41", "--format", "json"];
    let played = replay(&[&["play", &run, "--speed", "1e9"], &only[..]].concat()).ok();
    assert_eq!(played, replay(&[&["dump", &run], &only[..]].concat()).ok());

    let begun = std::time::Instant::now();
    let played = replay(&["play", &run, "--at", "9s", "--to", "9.5s", "--speed", "0.000002"]).ok();
    // The switch-out comes 499 ns after the switch-in: a quarter of a second at this speed.
    assert_eq!(played.lines().count(), 2);
    assert!(begun.elapsed().as_millis() >= 249, "{:?}", begun.elapsed());
}

#[test]
fn verify_accepts_only_what_is_whole_and_complete() {
    let files = Files::new();
    let run = files.put("run.igt", &recording());
    let out = replay(&["verify", &run]).ok();
    assert_eq!(
        out,
        format!(
            "lost while recording: 17 events of sched_switch from 7.000000000 s to 8.000000000 s (ring-full)\n\
             {run}: whole and complete, 27 events in 10 blocks; while recording, 17 events were lost\n"
        )
    );
}

#[test]
fn verify_names_each_damage_and_what_is_lost_with_it() {
    let files = Files::new();
    let (mut bytes, blocks) = recording_and_blocks(&files);
    let (at, rows) = blocks[1];
    assert_eq!(rows, 4);
    // In the directory of the block.
    bytes[at + 56] ^= 1;
    let run = files.put("run.igt", &bytes);
    let ran = replay(&["verify", &run]);
    let verdict = ran.failed(1);
    assert!(
        verdict.starts_with(&format!("{run}: damaged in 1 place, 4 events lost within 1.000000499 s, 23 whole")),
        "{verdict}"
    );
    assert!(ran.out.contains(&format!("damage at {at:#x} (chunk ")), "{}", ran.out);
    assert!(ran.out.contains("sched_switch): directory crc "), "{}", ran.out);
    assert!(
        ran.out.contains("    lost: 4 events within 1.000000499 s, from 2.000000001 s to 3.000000500 s\n"),
        "{}",
        ran.out
    );
    // The other commands show the rest, and say so.
    for command in ["dump", "inspect"] {
        let ran = replay(&[command, &run]);
        let note = ran.failed(2);
        assert!(note.contains("1 unreadable block with 4 events; what is whole was shown"), "{note}");
        assert!(!ran.out.is_empty());
    }
    assert_eq!(replay(&["dump", &run]).out.lines().count(), 23);
}

#[test]
fn verify_finds_every_flipped_bit() {
    let bytes = recording();
    let files = Files::new();
    // A process each: some bits of every part.
    for at in (0..bytes.len()).step_by(61) {
        let mut bad = bytes.clone();
        bad[at] ^= 1 << (at % 8);
        let ran = replay(&["verify", &files.put("bad.igt", &bad)]);
        assert_eq!(ran.status, 1, "byte {at} of {}", bytes.len());
        ran.failed(1);
    }
}

#[test]
fn verify_counts_what_a_lost_header_took_with_it() {
    let files = Files::new();
    let (mut bytes, blocks) = recording_and_blocks(&files);
    let trace = Trace::open(files.path("whole.igt")).unwrap();
    // Without its index the file is scanned, and the block's header is no more.
    let index = trace.chunks().last().map(|c| c.offset + c.header.span()).unwrap();
    bytes.truncate(usize::try_from(index).unwrap());
    bytes[blocks[2].0] = 0;
    let ran = replay(&["verify", &files.put("run.igt", &bytes)]);
    let verdict = ran.failed(1);
    assert!(verdict.contains("not complete"), "{verdict}");
    assert!(ran.out.contains(&format!("damage at {:#x}", blocks[2].0)), "{}", ran.out);
    assert!(ran.out.contains("    lost: an unknown number of events within "), "{}", ran.out);
    // The same chunk taken out without a trace.
    let at = blocks[2].0;
    let whole = recording();
    let chunk = trace.chunks().iter().find(|c| c.offset == at as u64).unwrap();
    let mut gone = whole[..usize::try_from(index).unwrap()].to_vec();
    gone.drain(at..at + usize::try_from(chunk.header.span()).unwrap());
    let ran = replay(&["verify", &files.put("gone.igt", &gone)]);
    ran.failed(1);
    assert!(ran.out.contains(&format!("chunk {} is missing before it", chunk.header.seq)), "{}", ran.out);
}

#[test]
fn a_cut_file_shows_what_is_whole_and_says_so() {
    let files = Files::new();
    let (bytes, blocks) = recording_and_blocks(&files);
    // In the midst of the last block of switches: how far in that is depends on the schema before it.
    let run = files.put("cut.igt", &bytes[..blocks.last().unwrap().0 + 20]);
    for (command, status) in [("dump", 2), ("inspect", 2), ("verify", 1)] {
        let ran = replay(&[command, &run]);
        let note = ran.failed(status);
        assert!(note.contains("cut off before its end") || note.contains("not complete"), "{note}");
        assert!(!ran.out.is_empty(), "{command}");
        // Within a header nothing shows what stood there.
        assert!(!note.contains("damaged") && !ran.out.contains("damage at"), "{command}: {note} {}", ran.out);
        if command == "verify" {
            assert!(ran.out.starts_with("cut off at ") && ran.out.contains("within a chunk header"), "{}", ran.out);
            assert!(ran.out.contains("lost: an unknown number of events behind the last one, at "), "{}", ran.out);
        }
    }
}

#[test]
fn what_is_no_recording_is_refused_in_one_line() {
    let files = Files::new();
    let bytes = recording();
    let mut newer = bytes.clone();
    newer[8] = 9;
    let crc = crc32c::crc32c(&newer[..28]).to_le_bytes();
    newer[28..32].copy_from_slice(&crc);
    let cases = [
        (text(&files.path("missing.igt")), "No such file or directory"),
        (text(files.dir.path()), "is a directory"),
        (files.put("empty.igt", b""), "is empty"),
        (files.put("text.igt", b"# tracer: nop\n# entries and so on, long enough\n"), "not an .igt file"),
        (files.put("cut.igt", &bytes[..20]), "ends within its header, after 20 bytes"),
        (files.put("newer.igt", &newer), "version 9 of the format is not known here"),
        (files.put("odd\nname.igt", b""), "odd\\nname.igt is empty"),
        ("/dev/null".to_owned(), "is a pipe or a device"),
    ];
    for (path, needle) in &cases {
        for (command, status) in [("dump", 2), ("inspect", 2), ("verify", 1)] {
            let ran = replay(&[command, path]);
            let message = ran.failed(status);
            assert!(message.contains(needle), "{command}: {message:?} lacks {needle:?}");
            assert_eq!(message.matches("No such file").count(), usize::from(needle.starts_with("No such")));
            assert_eq!(ran.out, "");
        }
    }
}

#[test]
fn what_cannot_be_understood_is_refused_in_one_line() {
    let files = Files::new();
    let run = files.put("run.igt", &recording());
    for (args, needle) in [
        (&["dump", &run, "--from", "soon"][..], "cannot read the time \"soon\""),
        (&["dump", &run, "--since", "-3s"], "the length of time \"-3s\" is negative"),
        (&["dump", &run, "--from", "99s"], "the range is empty"),
        (&["dump", &run, "--from", "1s", "--since", "1s"], "cannot be used with"),
        (&["dump", &run, "--pid", "77"], "no process 77 in "),
        (&["dump", &run, "--pid", "44"], "44 is a thread of process 41 in "),
        (&["dump", &run, "--pid", "x"], "invalid value 'x' for '--pid <PID>'"),
        (&["dump", &run, "--only", "sched_swich"], "no kind of event is called \"sched_swich\""),
        (&["dump", &run, "--format", "xml"], "invalid value 'xml'"),
        (&["dump"], "<FILE>"),
        (&["verify"], "<FILE>"),
        (&[], "requires a subcommand"),
        (&["rewind"], "unrecognized subcommand 'rewind'"),
        (&["play", &run, "--at", "0.1s", "--to", "0.05s"], "nothing lies between --at 0.1s and --to 0.05s"),
        (&["play", &run, "--speed", "0"], "cannot play at the speed \"0\""),
        (&["play", &run, "--at", "11s"], "\"11s\" is 11.000 s after the trace's start"),
        (&["play", &run, "--only", "calls"], "no kind of event is called \"calls\""),
        (&["at", &run, "soon"], "cannot read the time \"soon\""),
        (&["at", &run, "2025-12-31T23:59:00Z"], "is 60.000 s before the trace's start"),
        (&["at", &run, "2s", "--pid", "77"], "no process 77 in "),
        (&["at", &run], "<TIME>"),
        (&["at", "2s", &run], "2s: this is a time and no file; the file comes first"),
    ] {
        let ran = replay(args);
        let message = ran.failed(2);
        assert!(message.contains(needle), "{message:?} lacks {needle:?}");
        assert_eq!(ran.out, "");
    }
}

#[test]
fn help_and_version_are_printed() {
    assert!(replay(&["--help"]).ok().contains("verify"));
    assert!(replay(&["dump", "--help"]).ok().contains("--since"));
    assert!(replay(&["--version"]).ok().starts_with("ingero-replay "));
}

#[test]
fn what_matches_nothing_says_what_was_asked_and_what_there_is() {
    let files = Files::new();
    let path = files.put("run.igt", &recording());
    for command in ["dump", "play"] {
        let begin = if command == "dump" { "--from" } else { "--at" };
        let ran = replay(&[command, &path, "--only", "oom_kill,mm_page_alloc", begin, "1s"]);
        assert_eq!((ran.status, ran.out.as_str()), (0, ""));
        let said = ran.err.trim_end();
        let asked = ["oom_kill", "mm_page_alloc", " or ", " from 1.000000000 s on is in "]
            .iter()
            .all(|part| said.contains(part));
        assert!(asked && said.contains("sched_switch") && said.contains(" events from 0.000000000 s to "), "{said}");
        // Something that matches says nothing.
        let pace: &[&str] = if command == "play" { &["--speed", "1000"] } else { &[] };
        assert_eq!(replay(&[&[command, &path, "--only", "call", begin, "0s"], pace].concat()).err, "");
    }
}

#[test]
fn a_begin_before_the_first_event_shows_what_stands_there() {
    let mut f = Fixture::new();
    let task = f.task(7, 7);
    let name = f.writer().string("early");
    f.push(90, NO_CPU, Name { task, name, source: 3 });
    f.switch(1_000, 0, TaskId(0), 0, task);
    f.switch(2_000, 0, task, 1, TaskId(0));
    let files = Files::new();
    let path = files.put("run.igt", &f.into_bytes());
    let all = replay(&["dump", &path]).ok();
    assert!(all.trim_start().starts_with("-0.000000910"), "{all}");
    assert_eq!(replay(&["dump", &path, "--from", "-1s"]).ok(), all);
    assert_eq!(replay(&["dump", &path, "--from", "-910ns", "--to", "1us"]).ok().lines().count(), 2);
    assert_eq!(replay(&["dump", &path, "--from", "-909ns"]).ok().lines().count(), 2);
    // Nothing happens there.
    let refused = replay(&["play", &path, "--at", "-1s"]);
    assert!(refused.failed(2).contains("is negative: offsets count from the trace's first event"), "{}", refused.err);
}

#[test]
fn a_moment_in_which_events_were_lost_says_so() {
    let mut f = Fixture::new();
    let task = f.task(7, 7);
    f.switch(0, 0, TaskId(0), 0, task);
    let probe = f.writer().string("sched_switch");
    f.push(
        300_000_000,
        2,
        ingero_format::catalog::Loss { to_ns: 600_000_000, probe, cause: 0, count: Some(9), of_host: None },
    );
    f.switch(1_000_000_000, 0, task, 1, TaskId(0));
    let files = Files::new();
    let path = files.put("run.igt", &f.into_bytes());
    let told = |at: &str| replay(&["at", &path, at]).ok().split_whitespace().collect::<Vec<_>>().join(" ");
    let lost = "EVENTS LOST here, 0.300000000 s to 0.600000000 s: 9 sched_switch events of CPU 2 (ring-full); who ran and who waited is not known";
    assert!(told("450ms").contains(lost) && !told("450ms").contains("runs"), "{}", told("450ms"));
    // Nor is it told that nobody did anything.
    for none in ["on the CPUs (not known)", "a CPU (not known)", "quota (not known)", "blocked (not known)"] {
        assert!(told("450ms").contains(none), "{}", told("450ms"));
        assert!(!told("100ms").contains(none) && !told("900ms").contains(none));
    }
    assert!(!told("100ms").contains("LOST") && !told("900ms").contains("LOST"));
}

#[test]
fn nothing_is_told_of_a_host_whose_recording_is_over() {
    const MS: u64 = 1_000_000;
    let mut f = Fixture::new();
    for (key, value) in [
        ("cpus", "2"),
        ("host.0.host", "a"),
        ("host.0.cpu_base", "0"),
        ("host.0.pid_base", "0"),
        ("host.0.start_ns", "0"),
        ("host.0.end_ns", "500000000"),
        ("host.1.host", "b"),
        ("host.1.cpu_base", "1"),
        ("host.1.pid_base", "4194304"),
        ("host.1.start_ns", "0"),
        ("host.1.end_ns", "1000000000"),
    ] {
        f.writer().set_meta(key, value);
    }
    let (of_a, of_b) = (f.task(7, 7), f.task(4_194_312, 4_194_312));
    f.switch(0, 0, TaskId(0), 0, of_a);
    f.switch(400 * MS, 0, of_a, 1, TaskId(0));
    f.switch(0, 1, TaskId(0), 0, of_b);
    f.switch(1_000 * MS, 1, of_b, 1, TaskId(0));
    let files = Files::new();
    let path = files.put("two.igt", &f.into_bytes());
    let told = |args: &[&str]| {
        let out = replay(&[&["at", &path], args].concat()).ok();
        out.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let (within, behind) = (told(&["450ms"]), told(&["900ms"]));
    assert!(within.contains("on the CPUs (1 of 2 run a thread) 0 idle 1 [4194312]"), "{within}");
    assert!(within.contains("blocked (1) [7]") && !within.contains("NOT KNOWN"), "{within}");
    assert!(behind.contains("NOT KNOWN here of a: who runs and who waits; its recording is over"), "{behind}");
    assert!(behind.contains("on the CPUs (1 of 2 run a thread, 1 are not known) 0 not known 1 [4194312]"), "{behind}");
    let own = told(&["900ms", "--pid", "7"]);
    assert!(own.contains("blocked (not known)") && !own.contains("(0)"), "{own}");
}
