//! Imports of real excerpts and of hostile text, checked against what the text itself counts.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ingero_convert::Error;
use ingero_convert::import::{ImportOptions, Imported, ftrace::import};
use ingero_convert::input::Input;
use ingero_format::Trace;
use ingero_format::catalog::{Body, Call, END_BEGAN_BEFORE, END_OPEN, END_RETURNED, END_SKIPPED, END_THREAD_EXIT};
use ingero_replay::{Event, Merge, Processes};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

struct Run {
    done: Imported,
    trace: Trace,
    events: Vec<Event>,
}

fn run_file(path: &Path, options: ImportOptions) -> Result<Run, Error> {
    let dir = tempfile::tempdir().unwrap();
    let output = dir.path().join("run.igt");
    let done = import(&Input::open(path)?, &output, options);
    if done.is_err() {
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "a failed import leaves nothing");
    }
    let trace = Trace::open(&output);
    let (done, trace) = (done?, trace.unwrap());
    let events: Vec<_> = Merge::new(&trace).collect();
    assert_eq!(events.len() as u64, done.totals.events);
    Ok(Run { done, trace, events })
}

fn run_text(text: impl AsRef<[u8]>, options: ImportOptions) -> Result<Run, Error> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    run_file(file.path(), options)
}

fn run(name: &str) -> Run {
    run_file(&fixture(name), ImportOptions::default()).unwrap()
}

impl Run {
    fn calls(&self) -> Vec<(u64, Call)> {
        self.events.iter().filter_map(|e| if let Body::Call(c) = e.body { Some((e.ts_ns, c)) } else { None }).collect()
    }
    fn losses(&self) -> Vec<(String, Option<u64>)> {
        let loss = |e: &Event| match e.body {
            Body::Loss(l) => Some((self.trace.string(l.probe).to_owned(), l.count)),
            _ => None,
        };
        self.events.iter().filter_map(loss).collect()
    }
    fn names(&self, tid: u32) -> Vec<String> {
        let processes = Processes::new(&self.trace);
        let task = self.trace.tasks().iter().position(|t| t.tid == tid).unwrap();
        let task = ingero_format::catalog::TaskId(u32::try_from(task).unwrap());
        processes.names(task).iter().map(|(_, s)| self.trace.string(*s).to_owned()).collect()
    }
    fn pid(&self, tid: u32) -> u32 {
        self.trace.tasks().iter().find(|t| t.tid == tid).unwrap().pid
    }
}

/// Events of the text by name, counted the simple way.
fn counted(name: &str) -> BTreeMap<String, u64> {
    let text = std::fs::read(fixture(name)).unwrap();
    let mut counts = BTreeMap::new();
    for line in String::from_utf8_lossy(&text).lines().filter(|l| !l.starts_with('#')) {
        let words: Vec<_> = line.split_whitespace().collect();
        let is_time = |w: &str| w.ends_with(':') && w.contains('.') && w[..w.len() - 1].parse::<f64>().is_ok();
        if let Some(at) = words.iter().position(|w| is_time(w)) {
            *counts.entry(words[at + 1].trim_end_matches(':').to_owned()).or_default() += 1;
        }
    }
    counts
}

fn check_counts(name: &str) {
    let run = run(name);
    let mut calls: BTreeMap<String, u64> = BTreeMap::new();
    let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
    for e in &run.events {
        *kinds.entry(ingero_format::catalog::event_kind(e.body.kind()).name).or_default() += 1;
        if let Body::Call(c) = e.body {
            let symbol = &run.trace.function(c.func).unwrap().symbol;
            if c.end != END_BEGAN_BEFORE {
                *calls.entry(symbol.clone()).or_default() += 1;
            }
            if c.end == END_RETURNED || c.end == END_BEGAN_BEFORE {
                *calls.entry(format!("{symbol}_ret")).or_default() += 1;
            }
        }
    }
    for (event, count) in counted(name) {
        if event.starts_with("cu") {
            assert_eq!(calls.get(&event), Some(&count), "{name}: {event}");
        } else if !event.starts_with("task_") {
            assert_eq!(kinds.get(&*event), Some(&count), "{name}: {event}");
        }
    }
    assert_eq!(counted(name).values().sum::<u64>(), run.done.records, "{name}");
    assert!(run.done.ignored.is_empty());
}

#[test]
fn every_event_of_the_excerpts_is_imported() {
    for name in
        ["workers.trace.txt", "uprobes.trace.txt", "pages.trace.txt", "hostile-names.trace.txt", "trace-cmd-report.txt"]
    {
        check_counts(name);
    }
}

#[test]
fn a_pytorch_excerpt() {
    let run = run("workers.trace.txt");
    assert_eq!(run.trace.meta("source"), Some("ftrace"));
    assert_eq!(run.trace.meta("sampled"), Some("false"));
    assert_eq!(run.trace.meta("cpus"), Some("16"));
    let python: Vec<_> = run.names(496);
    assert_eq!(python, ["sh", "taskset", "python3"], "execs change the name, the first column does not");
    let calls = run.calls();
    let returned = calls.iter().filter(|(_, c)| c.end == END_RETURNED && c.result == Some(0)).count();
    assert!(returned > 40, "{returned}");
    // cudaMalloc holds cuMemAlloc.
    let symbol = |c: &Call| run.trace.function(c.func).unwrap().symbol.as_str();
    let (outer_ns, outer) = calls.iter().find(|(_, c)| symbol(c) == "cudaMalloc").unwrap();
    let inside = calls.iter().any(|(ns, c)| {
        symbol(c) == "cuMemAlloc_v2" && ns >= outer_ns && ns + c.dur_ns.unwrap() <= outer_ns + outer.dur_ns.unwrap()
    });
    assert!(inside);
    assert_eq!(outer.bytes, Some(2 << 20));
    assert!(run.losses().is_empty());
}

/// Recorded of a program that nests, recurses, jumps out of a call and exits inside of another.
#[test]
fn every_way_to_leave_a_call() {
    let run = run("uprobes.trace.txt");
    let symbol = |c: &Call| run.trace.function(c.func).unwrap().symbol.clone();
    let calls = run.calls();
    let ends = |s: &str| calls.iter().filter(|(_, c)| symbol(c) == s).map(|(_, c)| c.end).collect::<Vec<_>>();
    assert_eq!(ends("cudaMalloc"), [END_RETURNED; 5]);
    // Of five entries four return: the first was jumped out of, the others recurse.
    assert_eq!(ends("cudaFree"), [&[END_THREAD_EXIT][..], &[END_RETURNED; 4]].concat());
    assert_eq!(ends("cudaStreamSynchronize"), [END_THREAD_EXIT]);
    let returned: Vec<_> = calls.iter().filter(|(_, c)| symbol(c) == "cudaFree" && c.end == END_RETURNED).collect();
    assert!(returned.is_sorted_by(|(a, x), (b, y)| a < b && a + x.dur_ns.unwrap() >= b + y.dur_ns.unwrap()));
    assert!(returned.iter().all(|(_, c)| c.result == Some(-1)));
    let copies: Vec<_> = calls.iter().filter_map(|(_, c)| c.copy.zip(c.bytes)).collect();
    assert_eq!(copies, [(0, 100), (1, 101), (2, 102), (3, 103)]);
    let failed: Vec<_> = calls.iter().filter(|(_, c)| c.result == Some(2)).map(|(_, c)| (symbol(c), c.bytes)).collect();
    assert_eq!(failed, [("cudaMalloc".to_owned(), Some(13)), ("cuMemAlloc_v2".to_owned(), Some(13))]);
}

#[test]
fn what_the_ring_lost_is_said() {
    let run = run("pages.trace.txt");
    assert_eq!(run.losses(), [("ftrace ring".to_owned(), Some(7))]);
    assert!(run.done.notes.iter().any(|n| n.contains("7 events were overwritten")), "{:?}", run.done.notes);
    let pages = run.events.iter().filter_map(|e| if let Body::PageAlloc(p) = e.body { Some(p) } else { None });
    let seen: Vec<_> = pages.map(|p| (p.pfn, p.order, p.migratetype)).collect();
    assert!(seen.contains(&(Some(0x1b_7620), 3, Some(0))), "{seen:?}");
}

#[test]
fn names_may_hold_anything() {
    for name in ["hostile-names.trace.txt", "trace-cmd-report.txt"] {
        let run = run(name);
        let all: Vec<String> = run.trace.strings().iter().map(|s| s.to_string()).collect();
        for comm in
            ["a b=c", "x prev_pid=1", "q-1 [000] z", "\"quo\\te\"", "\\xff\\xfe\u{1}bad", "pid=3 prio=4", "{[(<->)]}"]
        {
            assert!(all.iter().any(|s| s == comm), "{name}: {comm:?} is not in {all:?}");
        }
        assert!(all.iter().any(|s| s.trim_start() == "==> next_comm="), "{name}");
        assert!(!all.iter().any(|s| s.contains("igtconv")), "{name}");
    }
}

#[test]
fn newborn_threads_belong_to_their_process() {
    let run = run("trace-cmd-report.txt");
    assert_eq!(run.pid(9565), 9524, "task_newtask tells");
}

/// Events of the excerpt with the calls.
const EXCERPT: u64 = 301;

const HEAD: &str = "# tracer: nop\n#\n";

fn line(tid: u32, tgid: &str, ts: &str, event: &str) -> String {
    format!("{:>16}-{tid:<7} ({tgid:>7}) [001] d..2. {ts:>12}: {event}\n", format!("task{tid}"))
}

#[test]
fn calls_that_do_not_return() {
    let text = [
        HEAD.to_owned(),
        line(7, "7", "1.000000", "cudaFree_ret: (0x1 <- 0x2) rc=3"),
        line(7, "7", "2.000000", "cudaMalloc: (0x2) a0=0x10 a1=0x20"),
        line(7, "7", "3.000000", "cudaFree: (0x2) a0=0x10"),
        line(7, "7", "4.000000", "cudaMalloc_ret: (0x1 <- 0x2) rc=0"),
        line(7, "7", "5.000000", "cudaMalloc: (0x2) a0=0x10 a1=0x30"),
        line(8, "7", "6.000000", "cudaMalloc: (0x2) a0=0x10 a1=0x40"),
        line(8, "7", "7.000000", "sched_process_exit: comm=task8 pid=8 prio=120"),
    ]
    .concat();
    let run = run_text(text, ImportOptions::default()).unwrap();
    let seen: Vec<_> = run.calls().iter().map(|(ts, c)| (ts / 1_000_000_000, c.end, c.dur_ns, c.bytes)).collect();
    assert_eq!(
        seen,
        [
            (1, END_BEGAN_BEFORE, None, None),
            (2, END_RETURNED, Some(2_000_000_000), Some(0x20)),
            (3, END_SKIPPED, None, None),
            (5, END_OPEN, None, Some(0x30)),
            (6, END_THREAD_EXIT, None, Some(0x40)),
        ]
    );
}

#[test]
fn a_reused_id_is_another_task() {
    let text = [
        HEAD.to_owned(),
        line(5, "5", "1.0", "sched_process_fork: comm=a pid=5 child_comm=a child_pid=9"),
        line(9, "9", "2.0", "cudaMalloc: (0x2) a0=0x10 a1=0x20"),
        line(9, "9", "3.0", "sched_process_exit: comm=a pid=9 prio=120"),
        line(
            9,
            "9",
            "4.0",
            "sched_switch: prev_comm=a prev_pid=9 prev_prio=120 prev_state=Z ==> next_comm=a next_pid=5 next_prio=120",
        ),
        line(5, "5", "5.0", "sched_process_fork: comm=a pid=5 child_comm=b child_pid=9"),
        line(9, "5", "6.0", "cudaMalloc: (0x2) a0=0x10 a1=0x20"),
        line(9, "5", "7.0", "cudaMalloc_ret: (0x1 <- 0x2) rc=0"),
    ]
    .concat();
    let run = run_text(text, ImportOptions::default()).unwrap();
    let lives: Vec<_> = run.trace.tasks().iter().filter(|t| t.tid == 9).collect();
    assert_eq!(
        lives.iter().map(|t| (t.pid, t.start_ns)).collect::<Vec<_>>(),
        [(9, Some(1_000_000_000)), (5, Some(5_000_000_000))]
    );
    assert_eq!(run.calls().iter().map(|(_, c)| c.end).collect::<Vec<_>>(), [END_THREAD_EXIT, END_RETURNED]);
}

#[test]
fn wakers_in_interrupts_are_none() {
    let wake = |flags: &str| {
        format!(
            "          <idle>-0       (-------) [001] {flags}  1.000000: sched_waking: comm=a pid=9 prio=120 target_cpu=003\n"
        )
    };
    let text = [HEAD, &wake("dNh2."), &wake("d.s2."), &wake("d..2."), &wake("DBZff")].concat();
    let run = run_text(text, ImportOptions::default()).unwrap();
    let contexts: Vec<_> =
        run.events.iter().filter_map(|e| if let Body::Waking(w) = e.body { w.context } else { None }).collect();
    assert_eq!(contexts, [2, 1, 0, 3]);
}

#[test]
fn lost_events_become_rows() {
    let text = [
        HEAD.to_owned(),
        line(7, "7", "1.000000", "cudaFree: (0x2) a0=0x10"),
        "CPU:1 [LOST 27 EVENTS]\n".to_owned(),
        line(7, "7", "2.000000", "cudaFree_ret: (0x1 <- 0x2) rc=0"),
        "CPU:3 [EVENTS DROPPED]\n".to_owned(),
    ]
    .concat();
    let run = run_text(text, ImportOptions::default()).unwrap();
    assert_eq!(run.losses(), [("ftrace".to_owned(), Some(27)), ("ftrace".to_owned(), None)]);
    let Some(Body::Loss(loss)) = run.events.iter().map(|e| e.body).find(|b| matches!(b, Body::Loss(_))) else {
        panic!()
    };
    assert_eq!((loss.cause, loss.to_ns), (7, 2_000_000_000));
}

#[test]
fn events_without_a_place_are_counted() {
    let text = [
        HEAD.to_owned(),
        line(7, "7", "1.0", "irq_handler_entry: irq=1 name=x"),
        line(7, "7", "1.1", "irq_handler_entry: irq=1 name=x"),
        line(7, "7", "1.2", "_raw_spin_lock <-try_to_wake_up"),
        line(7, "7", "1.3", "<stack trace>"),
        " => do_syscall_64\n".to_owned(),
        line(7, "7", "1.4", "cudaFree: (0x2) a0=0x10"),
    ]
    .concat();
    let run = run_text(text, ImportOptions::default()).unwrap();
    assert_eq!(run.done.ignored["irq_handler_entry"], 2);
    assert_eq!(run.trace.meta("ignored.irq_handler_entry"), Some("2"));
    assert_eq!(run.trace.meta("ignored.function"), Some("2"));
}

#[test]
fn a_cut_text_says_what_is_missing() {
    let whole = std::fs::read(fixture("workers.trace.txt")).unwrap();
    // The header counts the events: a last line without its end is whole when the count says so.
    let run = run_text(&whole[..whole.len() - 1], ImportOptions::default()).unwrap();
    assert_eq!((run.done.records, run.losses()), (EXCERPT, vec![]));
    let run = run_text(&whole[..whole.len() - 2], ImportOptions::default()).unwrap();
    assert_eq!(run.losses(), [], "one digit less cannot be told from a whole line");
    for cut in [30, 60, 200, 20_000] {
        let run = run_text(&whole[..whole.len() - cut], ImportOptions::default()).unwrap();
        let missing = EXCERPT - run.done.records;
        assert!(missing > 0);
        assert_eq!(run.losses(), [("ftrace text".to_owned(), Some(missing))], "cut by {cut}");
    }
}

#[test]
fn a_cut_package_is_read_as_far_as_it_goes() {
    use std::io::Write;
    let whole = std::fs::read(fixture("workers.trace.txt")).unwrap();
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 0);
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    xz.write_all(&whole).unwrap();
    gz.write_all(&whole).unwrap();
    for packed in [xz.finish().unwrap(), gz.finish().unwrap()] {
        assert_eq!(run_text(&packed, ImportOptions::default()).unwrap().done.records, EXCERPT);
        match run_text(&packed[..packed.len() * 3 / 4], ImportOptions::default()) {
            Ok(run) => assert!(run.done.records < EXCERPT && !run.losses().is_empty()),
            Err(e) => panic!("{e}"),
        }
    }
}

#[test]
fn bad_lines_are_shown_or_counted() {
    let good = line(7, "7", "1.000000", "cudaFree: (0x2) a0=0x10");
    let huge = format!("{}\n", "x".repeat(200_000));
    for bad in ["hello\n", "   sh-1 [001] 1.0: sched_switch: prev_comm=sh prev_pid=x\n", "\u{0}\u{1}\u{2}\n", &huge] {
        let text = [HEAD, &good, bad, &good].concat();
        let error = run_text(&text, ImportOptions::default()).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(":4: ") && error.len() < 800 || error.contains("neither"), "{error}");
        assert_eq!(error.lines().count(), 1);
        if bad.starts_with('\u{0}') {
            continue;
        }
        let run = run_text(&text, ImportOptions { keep_going: true, ..Default::default() }).unwrap();
        assert_eq!(run.losses(), [("ftrace line".to_owned(), Some(1))], "{}", &bad[..bad.len().min(60)]);
        assert_eq!(run.calls().len(), 2);
    }
}

#[test]
fn other_texts_are_refused() {
    for text in ["hello\n", "a\nb\nc\n", "{\"traceEvents\":[]}\n", "x", "\n\n\n", "# a comment\n"] {
        let error = run_text(text, ImportOptions::default()).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("not ftrace text"), "{text:?}: {error}");
    }
    let latency = run_text("# tracer: nop\n#\n# nop latency trace v1.1.5 on 6.18\n", ImportOptions::default());
    assert!(latency.map(|_| ()).unwrap_err().to_string().contains("latency-format"));
    let run = run_text("# tracer: nop\n#\n# entries-in-buffer/entries-written: 0/0   #P:2\n", ImportOptions::default());
    assert_eq!(run.unwrap().done.totals.events, 0);
}

/// Whatever the bytes are, there is a file or one clear line.
#[test]
fn random_damage_never_panics() {
    let mut whole = std::fs::read(fixture("hostile-names.trace.txt")).unwrap();
    whole.truncate(12_000);
    let mut state = 0x1234_5678_u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap()
    };
    for _ in 0..150 {
        let mut text = whole.clone();
        for _ in 0..1 + random() % 8 {
            let at = random() % text.len();
            match random() % 3 {
                0 => text[at] = u8::try_from(random() % 255 + 1).unwrap(),
                1 => text.truncate(at.max(1)),
                _ => {
                    let from = random() % text.len();
                    let piece = text[from..(from + 40).min(text.len())].to_vec();
                    text.splice(at..at, piece);
                }
            }
        }
        let options = ImportOptions { keep_going: random() % 2 == 0, ..Default::default() };
        let _ = run_text(&text, options);
    }
}

/// What `perf script --ns -F +pid` printed of a shell that ran ls three times, of two CPUs.
#[test]
fn text_of_perf_script() {
    let run = run("perf-script.txt.xz");
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for event in &run.events {
        *kinds.entry(run.trace.kind_name(event.body.kind() as u16).to_owned()).or_default() += 1;
    }
    let mut text = String::new();
    let packed =
        Input::open(&fixture("perf-script.txt.xz")).unwrap().text(ingero_convert::input::Progress::none()).unwrap();
    std::io::Read::read_to_string(&mut { packed }, &mut text).unwrap();
    let lines = |name: &str| text.lines().filter(|l| l.contains(&format!(":{name}: "))).count();
    for kind in [
        "sched_switch",
        "sched_waking",
        "sched_wakeup",
        "sched_process_fork",
        "sched_process_exec",
        "sched_process_exit",
        "mm_page_alloc",
    ] {
        assert_eq!(kinds.get(kind).copied().unwrap_or(0), lines(kind), "{kind}");
        assert!(lines(kind) > 0, "{kind}");
    }
    assert_eq!(run.trace.meta("source"), Some("perf script"));
    assert_eq!(run.trace.meta("threads"), Some("known"));
    let execs = run
        .events
        .iter()
        .filter(|e| matches!(e.body, Body::Exec(x) if run.trace.string(x.file).ends_with("/ls")))
        .count();
    assert_eq!(execs, 3);
}

/// What bpftrace 0.17 printed of the script in spec/conversion.md, with another thread's entry without a return.
/// Switches of one CPU as perf prints them; every other column in front of the event as asked for.
fn perf_switches(pairs: &[(u32, u32)], columns: &str, time: impl Fn(usize) -> String) -> String {
    let line = |(at, (prev, next)): (usize, &(u32, u32))| {
        format!(
            "  t{prev} {prev}/{prev} [000] {}: {columns} sched:sched_switch: prev_comm=t{prev} prev_pid={prev} prev_prio=120 prev_state=S ==> \
             next_comm=t{next} next_pid={next} next_prio=120\n",
            time(at)
        )
    };
    pairs.iter().enumerate().map(line).collect()
}

/// Milliseconds from a second on.
fn each_ms(at: usize) -> String {
    format!("1.{at:03}000000")
}

#[test]
fn text_of_perf_script_with_a_period() {
    let pairs: Vec<(u32, u32)> = (0..10).map(|n| if n % 2 == 0 { (7, 9) } else { (9, 7) }).collect();
    let plain = run_text(perf_switches(&pairs, "", each_ms), ImportOptions::default()).unwrap();
    let period = run_text(perf_switches(&pairs, "         1", each_ms), ImportOptions::default()).unwrap();
    let switches = |run: &Run| run.events.iter().filter(|e| matches!(e.body, Body::Switch(_))).count();
    assert_eq!((switches(&plain), switches(&period)), (10, 10));
    assert!(period.done.ignored.is_empty());
}

#[test]
fn a_text_without_an_event_that_is_read_is_refused() {
    let text = "  sh 7/7 [000] 1.500000000:     250000 cpu-clock:uhH:  7f00 main+0x1 (/bin/sh)\n".repeat(3);
    let said = run_text(&text, ImportOptions::default()).map(|_| ()).unwrap_err().to_string();
    assert!(said.contains("has 3 events and none that is read") && said.contains(": cpu-clock:uhH"), "{said}");
    assert_eq!(said.lines().count(), 1);
}

#[test]
fn times_that_count_from_the_event_before_are_refused() {
    let pairs: Vec<(u32, u32)> = (0..40).map(|n| if n % 2 == 0 { (7, 9) } else { (9, 7) }).collect();
    let text = perf_switches(&pairs, "", |at| format!("0.{:09}", [300, 20_000, 1_500, 700][at % 4]));
    let said = run_text(&text, ImportOptions::default()).map(|_| ()).unwrap_err().to_string();
    assert!(said.contains("--deltatime") && said.lines().count() == 1, "{said}");
    // One that is out of order is another matter.
    let text = perf_switches(&pairs, "", |at| each_ms(if at == 20 { 18 } else { at }));
    assert!(run_text(&text, ImportOptions::default()).is_ok());
}

/// What perf records of some threads has their leaving and not their coming: nothing is made up in between.
#[test]
fn text_of_some_threads_or_cpus_alone_tells_no_states() {
    let states = |run: &Run| {
        use ingero_replay::{Sink, Timeline};
        #[derive(Default)]
        struct Told(u64);
        impl Sink for Told {
            fn off_cpu(&mut self, _: &ingero_replay::OffCpu, _: &ingero_replay::Cpus) {
                self.0 += 1;
            }
            fn run(&mut self, _: &ingero_replay::Run) {
                self.0 += 1;
            }
        }
        let mut told = Told::default();
        Timeline::new(&run.trace).run(&mut told);
        told.0
    };
    let some: Vec<(u32, u32)> = (0..60).map(|n| (7, 100 + n % 5)).collect();
    let run_of = |text: String| run_text(text, ImportOptions::default()).unwrap();
    let alone = run_of(perf_switches(&some, "", each_ms));
    assert_eq!(alone.losses(), [("sched_switch".to_owned(), None)]);
    assert!(
        alone.done.notes.iter().any(|n| n.contains("do not follow") && n.contains("perf record -a")),
        "{:?}",
        alone.done.notes
    );
    assert_eq!(states(&alone), 0);
    let all: Vec<(u32, u32)> = (0..60).map(|n| if n % 2 == 0 { (7, 9) } else { (9, 7) }).collect();
    let whole = run_of(perf_switches(&all, "", each_ms));
    assert_eq!(whole.losses(), []);
    assert!(states(&whole) > 50);
    // Threads are woken on a CPU of which there is nothing.
    let wake = |at: usize| {
        format!("  t7 7/7 [000] 2.{at:03}000000: sched:sched_waking: comm=t9 pid=9 prio=120 target_cpu=001\n")
    };
    let text = [perf_switches(&all, "", each_ms), (0..9).map(wake).collect()].concat();
    let half = run_of(text);
    assert_eq!(half.losses(), [("other CPUs'".to_owned(), None)]);
    assert_eq!(states(&half), 0);
}

#[test]
fn text_of_bpftrace() {
    let probe = "/usr/lib/libcudart.so.13:cudaMalloc";
    let text = format!(
        "Attaching 2 probes...\n\
         standin-28947 (28947) [001] .... 3671.442151187: uprobe:{probe}: arg0=0x7fff373d2f50 arg1=0x100\n\
         standin-28947 (28947) [001] .... 3671.442276292: uretprobe:{probe}: retval=0\n\
         Lost 3 events\n\
         worker-28949 (28947) [000] .... 3671.442307228: uprobe:{probe}: arg0=0x7fff373d2f50 arg1=0x200\n\
         \n"
    );
    let run = run_text(text, ImportOptions::default()).unwrap();
    let calls: Vec<_> = run.calls().into_iter().map(|(ts, c)| (ts, c.dur_ns, c.result, c.bytes)).collect();
    let due = [(3_671_442_151_187, Some(125_105), Some(0), Some(0x100)), (3_671_442_307_228, None, None, Some(0x200))];
    assert_eq!(calls, due);
    assert_eq!(run.losses(), [("bpftrace".to_owned(), Some(3))]);
    assert_eq!(run.trace.meta("threads"), Some("known"));
}

#[test]
fn what_was_lost_on_a_cpu_that_cannot_be_is_lost_all_the_same() {
    let text = "CPU:4000000000 [LOST 27 EVENTS]\n  a-1 [000] d... 1.000001: sched_switch: prev_comm=a prev_pid=1 prev_prio=120 \
                prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120\n";
    let run = run_text(text, ImportOptions::default()).unwrap();
    assert_eq!(run.losses(), [("ftrace".to_owned(), Some(27))]);
}

#[test]
fn of_any_number_of_names_of_events_a_bounded_number_is_told() {
    let lines: String = (0..10_000).map(|n| format!("  a-1 [000] d... 1.{n:06}: name_{n}: x\n")).collect();
    let lines = format!("{lines}{}", line(7, "7", "2.0", "cudaFree: (0x2) a0=0x10"));
    let run = run_text(lines, ImportOptions::default()).unwrap();
    assert!((4_000..4_200).contains(&run.done.ignored.len()), "{}", run.done.ignored.len());
    assert_eq!(run.done.ignored.values().sum::<u64>(), 10_000);
}

/// perf has no ids any more of a thread that is ending, and prints -1: the switches say who it is.
#[test]
fn a_thread_that_is_ending_is_itself_in_perf_script() {
    let text = "\
         python3 100/101 [000] 10.000000500:       sched:sched_waking: comm=w pid=77 prio=120 target_cpu=000
             :-1 24983/-1    [001] 10.000000700:       sched:sched_waking: comm=x pid=97 prio=120 target_cpu=001
         python3 100/101 [000] 10.000001000:       sched:sched_switch: prev_comm=a prev_pid=101 prev_prio=120 prev_state=S ==> \
         next_comm=w next_pid=77 next_prio=120
             :-1 24983/-1    [000] 10.000005000:       sched:sched_waking: comm=python3 pid=98 prio=120 target_cpu=000
             :-1    -1       [000] 10.000007000:       sched:sched_waking: comm=python3 pid=99 prio=120 target_cpu=001
             :-1 24983/-1    [000] 10.000009000:       sched:sched_switch: prev_comm=w prev_pid=77 prev_prio=120 prev_state=X \
         ==> next_comm=python3 next_pid=98 next_prio=120
";
    let run = run_text(text, ImportOptions::default()).unwrap();
    let tid = |task| run.trace.task(task).tid;
    let wakes = run.events.iter().filter_map(|e| match e.body {
        Body::Waking(w) => Some((tid(w.waker), tid(w.wakee))),
        _ => None,
    });
    // Who woke 97 is not known, nor that it is anybody's row: nothing has shown who CPU 1 was given to.
    assert_eq!(wakes.collect::<Vec<_>>(), [(101, 77), (77, 98), (77, 99)]);
    assert_eq!(run.done.ignored.values().sum::<u64>(), 1, "{:?}", run.done.ignored);
    let tasks: Vec<_> = run.trace.tasks().iter().map(|t| (t.pid, t.tid)).collect();
    assert!(
        tasks.contains(&(24983, 77)) && tasks.iter().all(|(pid, tid)| ![1, u32::MAX].contains(pid) && *tid != 1),
        "{tasks:?}"
    );
    assert_eq!(run.names(77), ["w"]);

    #[derive(Default)]
    struct Runs(Vec<(ingero_format::catalog::TaskId, u64, Option<u64>)>);
    impl ingero_replay::Sink for Runs {
        fn run(&mut self, run: &ingero_replay::Run) {
            self.0.push((run.task, run.start_ns, run.end_ns));
        }
    }
    let mut runs = Runs::default();
    ingero_replay::Timeline::new(&run.trace).run(&mut runs);
    let whole: Vec<_> = runs.0.iter().filter(|(task, ..)| tid(*task) == 77).map(|(_, from, to)| (*from, *to)).collect();
    assert_eq!(whole, [(10_000_001_000, Some(10_000_009_000))]);
}
