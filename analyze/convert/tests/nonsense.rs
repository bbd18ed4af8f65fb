//! Files that are whole and say nonsense: any number may stand in any column, any text in any name.
//! Whoever reads them may show nonsense; nothing may panic (overflow checks are on in tests), no JSON
//! may be invalid, and no text may steer a terminal.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::io::Write;

use ingero_analyze::{Analysis, report};
use ingero_convert::export::{Cut, Selection, chrome, sqlite};
use ingero_convert::input::Progress;
use ingero_format::catalog::*;
use ingero_format::{FunctionInfo, Task, Trace, TraceWriter, WriterOptions};
use ingero_replay::Window;

/// Numbers without a pattern, the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
    fn word(&mut self) -> u64 {
        const EDGES: [u64; 10] = [
            0,
            1,
            2,
            u64::MAX,
            u64::MAX - 1,
            i64::MAX as u64,
            1 << 63,
            u32::MAX as u64,
            1 << 32,
            1_796_019_590_759_560_481,
        ];
        match self.below(4) {
            0 => EDGES[usize::try_from(self.below(10)).unwrap()],
            1 => self.below(1 << 31) << self.below(34),
            _ => self.below(8),
        }
    }
    fn maybe(&mut self) -> Option<u64> {
        (self.below(3) > 0).then(|| self.word())
    }
    fn id(&mut self, known: u64) -> u32 {
        let id = if self.below(24) == 0 { self.word() } else { self.below(known) };
        u32::try_from(id & u64::from(u32::MAX)).unwrap()
    }
}

const NAMES: [&str; 8] = [
    "python3",
    "",
    "\x1b[31mred\x07",
    "two\nlines",
    "\"\\quoted\\\"",
    "\u{202e}rtl\u{2028}\u{9b}31m",
    "\u{0}zero",
    "a very long name that no kernel gives, since names end after fifteen bytes ........................",
];

/// A file of `rows` events drawn by `dice`; times are far apart where `wild`.
fn nonsense(dice: &mut Dice, rows: u64, wild: bool) -> Vec<u8> {
    let options = WriterOptions { seal_rows: 64, ..WriterOptions::default() };
    let mut w = TraceWriter::new(Vec::new(), options).unwrap();
    for name in NAMES {
        w.set_meta(&format!("k{name}"), name);
    }
    for key in ["kernel", "cpus", "knows", "sampled", "host", "source"] {
        w.set_meta(key, NAMES[usize::try_from(dice.below(8)).unwrap()]);
    }
    let strings = NAMES.map(|n| w.string(n));
    let mut tasks = 1;
    for pid in [0, 1, 7, 8, u32::MAX] {
        for tid in [0, 1, pid, u32::MAX] {
            w.task(Task { pid, tid, start_ns: dice.maybe() });
            tasks += 1;
        }
    }
    let classes = [Class::Launch, Class::Sync, Class::Copy, Class::Alloc];
    let layers = [Layer::Runtime, Layer::Driver, Layer::Graph, Layer::Nccl];
    for symbol in NAMES {
        let (layer, class) =
            (layers[usize::try_from(dice.below(4)).unwrap()], classes[usize::try_from(dice.below(4)).unwrap()]);
        w.function(FunctionInfo { symbol: symbol.into(), layer, class });
    }
    let mut now = if wild { dice.word() } else { 1_000_000 };
    for _ in 0..rows {
        now = if wild && dice.below(8) == 0 { dice.word() } else { now.saturating_add(dice.below(5000)) };
        let cpu = if dice.below(30) == 0 { u32::try_from(dice.word() & 0xffff_ffff).unwrap() } else { 0 };
        let cpu = if cpu == 0 { u32::try_from(dice.below(3)).unwrap() } else { cpu };
        let d = &mut *dice;
        let task = TaskId(d.id(tasks));
        let other = TaskId(d.id(tasks));
        let text = if d.below(20) == 0 { StrId(d.id(99)) } else { strings[usize::try_from(d.below(8)).unwrap()] };
        match d.below(18) {
            0..=3 => w.push(
                now,
                cpu,
                &Switch {
                    prev: task,
                    prev_state: d.word(),
                    prev_prio: d.maybe(),
                    next: other,
                    next_prio: d.maybe(),
                    syscall: d.maybe(),
                    throttled: d.maybe(),
                },
            ),
            4 => w.push(
                now,
                cpu,
                &Waking {
                    waker: task,
                    wakee: other,
                    target_cpu: d.word(),
                    context: d.maybe(),
                    source: d.maybe(),
                    irq: d.maybe(),
                },
            ),
            5 => w.push(now, cpu, &Wakeup { wakee: task, target_cpu: d.word() }),
            6 => w.push(now, cpu, &WakeupNew { wakee: task, target_cpu: d.word() }),
            7 => w.push(now, cpu, &Fork { parent: task, child: other }),
            8 => w.push(now, cpu, &Exec { task, file: text }),
            9 => w.push(now, cpu, &Exit { task, group_dead: d.maybe() }),
            10 => w.push(
                now,
                cpu,
                &PageAlloc { task, pfn: d.maybe(), order: d.word(), gfp_flags: d.word(), migratetype: d.maybe() },
            ),
            11 | 12 => w.push(
                now,
                cpu,
                &Call {
                    task,
                    func: FuncId(d.id(8)),
                    dur_ns: d.maybe(),
                    end: if d.below(3) == 0 { d.word() } else { END_RETURNED },
                    result: d.maybe().map(|w| w.cast_signed()),
                    ptr: d.maybe(),
                    ptr2: d.maybe(),
                    bytes: d.maybe(),
                    copy: d.maybe(),
                    stream: d.maybe(),
                    device: None,
                },
            ),
            13 => w.push(now, cpu, &Name { task, name: text, source: d.word() }),
            14 => w.push(
                now,
                cpu,
                &Process {
                    task,
                    parent_pid: d.maybe(),
                    exe: Some(text),
                    args: (d.below(2) == 0).then_some(text),
                    followed: d.word(),
                },
            ),
            15 => w.push(
                now,
                cpu,
                &Loss { to_ns: d.word(), probe: text, cause: d.word(), count: d.maybe(), of_host: d.maybe() },
            ),
            16 => {
                w.push(now, cpu, &Clock { boot_ns: d.word(), real_ns: d.word(), tsc: d.maybe(), bracket_ns: d.word() })
            }
            _ => w.push(
                now,
                cpu,
                &System {
                    user_ns: d.maybe(),
                    system_ns: d.maybe(),
                    idle_ns: d.maybe(),
                    iowait_ns: d.maybe(),
                    steal_ns: d.maybe(),
                    mem_total_bytes: d.maybe(),
                    mem_available_bytes: d.maybe(),
                    swap_total_bytes: d.maybe(),
                    swap_used_bytes: d.maybe(),
                    load1_milli: d.maybe(),
                    load5_milli: d.maybe(),
                    load15_milli: d.maybe(),
                    ..System::default()
                },
            ),
        }
        .unwrap();
    }
    w.finish().unwrap().0
}

fn open(bytes: &[u8]) -> Trace {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    Trace::from_file(file, "odd\x1b[31m\nname.igt".into()).unwrap()
}

/// Whether a text for people can move a cursor, change a colour, or run from right to left.
fn steers(text: &str) -> Option<char> {
    text.chars().find(|&c| {
        c != '\n' && c.is_control()
            || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    })
}

#[test]
fn files_that_say_nonsense_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let rounds = std::env::var("NONSENSE_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(60);
    for seed in 0..rounds {
        let mut dice = Dice(seed);
        let rows = dice.below(600);
        let trace = open(&nonsense(&mut dice, rows, seed % 2 == 1));
        let (start, end) = trace.span_ns().unwrap_or_default();
        let whole = Window::whole(&trace);
        let middle = Window { from_ns: start + (end - start) / 3, to_ns: end - (end - start) / 3, ..whole };
        for window in [whole, middle] {
            let analysis = Analysis::new(&trace, window);
            for per_process in [false, true] {
                let text = report::text(&analysis, &report::Options { per_process, ..Default::default() });
                assert_eq!(steers(&text), None, "seed {seed}: {text:?}");
            }
            let json = report::json(&analysis, &[]).unwrap();
            serde_json::from_str::<serde_json::Value>(&json).unwrap();
            let selection = Selection::new(&trace, window, &Cut::default()).unwrap();
            let mut out = Vec::new();
            chrome::export(&trace, &selection, &mut out, &Progress::none()).unwrap();
            serde_json::from_slice::<serde_json::Value>(&out)
                .unwrap_or_else(|e| panic!("seed {seed}: {e}: {}", String::from_utf8_lossy(&out)));
        }
        let selection = Selection::whole(&trace);
        sqlite::export(&trace, &selection, &dir.path().join("odd.sqlite"), true, &Progress::none()).unwrap();
        sqlite::ingero::export(&trace, &selection, &dir.path().join("odd.db"), true, &Progress::none()).unwrap();
    }
}
