//! Damaged files: a trace is walked more than once, and each walk must find the same to be missing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::{Seek, Write};

use ingero_analyze::{Analysis, PhaseFigures, report};
use ingero_format::catalog::{Affinity, BlockComplete, Class, Fork, Kind, Layer, Loss, NO_CPU, TaskId};
use ingero_format::layout::{CHUNK_FUNCTIONS, CHUNK_HEADER_LEN, CHUNK_TASKS};
use ingero_format::{ChunkCopy, SPAN_KEY, Trace, WriterOptions};
use ingero_replay::fixture::Fixture;
use ingero_replay::pyramid::Pyramid;
use ingero_replay::{CallSpan, Cpus, Event, OffCpu, Run, Sink, Timeline, Window};

const IDLE: TaskId = TaskId(0);
const MS: u64 = 1_000_000;

/// A main thread that launches each 2 ms and waits for a worker in between, in blocks of 40 events.
fn recording() -> Vec<u8> {
    let mut f = Fixture::with_rows(40);
    let (main, worker) = (f.task(10, 10), f.task(20, 20));
    let launch = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
    f.switch(0, 0, IDLE, 0, main);
    f.push(10, 0, Fork { parent: main, child: worker });
    for step in 0..200 {
        let at = MS + step * 2 * MS;
        f.call(at, 0, main, launch, 10_000);
        f.switch(at + 50_000, 0, main, 1, IDLE);
        f.waking(at + 60_000, 1, IDLE, worker, 2);
        f.wakeup(at + 60_500, 1, worker, 1);
        f.switch(at + 70_000, 1, IDLE, 0, worker);
        f.waking(at + 1_900_000, 1, worker, main, 0);
        f.wakeup(at + 1_900_500, 1, main, 0);
        f.switch(at + 1_910_000, 0, IDLE, 0, main);
        f.switch(at + 1_920_000, 1, worker, 1, IDLE);
    }
    f.switch(500 * MS, 0, main, 1, IDLE);
    f.into_bytes()
}

fn open(bytes: &[u8]) -> Option<Trace> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file.rewind().unwrap();
    Trace::from_file(file, "damaged.igt".into()).ok()
}

/// All that a walk tells, as text.
#[derive(Default)]
struct Log(Vec<String>);

impl Sink for Log {
    fn event(&mut self, event: &Event) {
        self.0.push(format!("{event:?}"));
    }
    fn off_cpu(&mut self, stay: &OffCpu, _: &Cpus) {
        self.0.push(format!("{stay:?}"));
    }
    fn run(&mut self, run: &Run) {
        self.0.push(format!("{run:?}"));
    }
    fn call(&mut self, span: &CallSpan) {
        self.0.push(format!("{span:?}"));
    }
}

/// From when to when something is told of a thread.
#[derive(Default)]
struct States(Vec<(u64, u64)>);

impl Sink for States {
    fn off_cpu(&mut self, stay: &OffCpu, _: &Cpus) {
        self.0.push((stay.out_ns, stay.end_ns().unwrap_or(u64::MAX)));
    }
    fn run(&mut self, run: &Run) {
        self.0.push((run.start_ns, run.end_ns.unwrap_or(u64::MAX)));
    }
}

fn walk(trace: &Trace) -> (Vec<String>, Vec<u32>) {
    let mut log = Log::default();
    let repairs = Timeline::new(trace).run(&mut log);
    (log.0, repairs.lost_blocks.iter().map(|l| l.entry.header.seq).collect())
}

#[test]
fn walks_over_a_damaged_file_agree_and_nothing_is_claimed_where_it_is_damaged() {
    let whole = recording();
    let trace = open(&whole).unwrap();
    assert_eq!(Analysis::new(&trace, Window::whole(&trace)).incidents[0].kind, "busy-workers");
    let fed_ns = |a: &Analysis| a.phases.iter().map(|p| p.phase.claimed_ns() - p.phase.gaps_ns()).sum::<u64>();
    let whole_fed_ns = fed_ns(&Analysis::new(&trace, Window::whole(&trace)));
    let blocks: Vec<_> = trace.blocks().to_vec();
    let mut damaged = 0;
    for block in &blocks {
        // A byte in the directory, then bytes in one column after another.
        let payload = block.offset + CHUNK_HEADER_LEN as u64;
        for at in (0..u64::from(block.header.payload_len)).step_by(23) {
            let mut bytes = whole.clone();
            bytes[usize::try_from(payload + at).unwrap()] ^= 0x10;
            let Some(trace) = open(&bytes) else { continue };
            let (first, second) = (walk(&trace), walk(&trace));
            assert!(first == second, "two walks over block {} with byte {at} changed differ", block.header.seq);
            let analyses = [0, 1].map(|_| Analysis::new(&trace, Window::whole(&trace)));
            let [a, b] = analyses.each_ref().map(|a| report::json(a, &[]).unwrap());
            assert!(a == b, "two analyses with byte {at} of block {} changed differ", block.header.seq);
            damaged += usize::from(!first.1.is_empty());
            let a = &analyses[0];
            let states = [Kind::Switch, Kind::Waking, Kind::Wakeup, Kind::Call].map(|k| k as u16);
            let lost = trace.blocks().iter().filter(|b| first.1.contains(&b.header.seq));
            let mut told = States::default();
            Timeline::new(&trace).run(&mut told);
            for block in lost.clone().filter(|b| b.header.kind == Kind::Switch as u16) {
                let (from, to) = (block.header.ts_min, block.header.ts_max);
                let inside = told.0.iter().filter(|&&(begin, end)| begin < to && from < end).count();
                assert_eq!(inside, 0, "states of threads are told in {from}..{to}, of which no switch can be read");
            }
            for lost in lost.filter(|b| states.contains(&b.header.kind)) {
                let (from, to) = (lost.header.ts_min, lost.header.ts_max);
                for p in &a.phases {
                    let inside = p.phase.gaps.iter().filter(|g| g.start_ns < to && from < g.end_ns).count();
                    assert_eq!(inside, 0, "a gap is claimed in {from}..{to}");
                    let (from, to) = (from.max(p.phase.start_ns), to.min(p.phase.end_ns));
                    let covered = |&(a, b): &(u64, u64)| a <= from && to <= b;
                    assert!(
                        from >= to || p.phase.unclaimed.iter().any(covered),
                        "{from}..{to}: {:?}",
                        p.phase.unclaimed
                    );
                }
            }
            assert!(fed_ns(a) <= whole_fed_ns, "{} of {whole_fed_ns} ns are told as fed", fed_ns(a));
            for p in &a.phases {
                assert!(p.chains.all_ns() <= p.phase.gaps_ns(), "more is told of gaps than there is");
            }
        }
    }
    assert!(damaged > 50, "only {damaged} changes made a block unreadable");
}

fn damaged(offsets: impl Iterator<Item = u64>) -> Trace {
    let mut bytes = recording();
    offsets.for_each(|at| bytes[usize::try_from(at).unwrap()] ^= 0x10);
    open(&bytes).unwrap()
}

/// A lost name is no process, and a call of an unknown function may have been any.
#[test]
fn nothing_is_claimed_of_tasks_and_functions_whose_names_are_lost() {
    let whole = open(&recording()).unwrap();
    for (chunk_type, what) in [(CHUNK_TASKS, "tasks"), (CHUNK_FUNCTIONS, "functions")] {
        let chunk = whole.chunks().iter().find(|c| c.header.chunk_type == chunk_type).unwrap();
        let trace = damaged(std::iter::once(chunk.offset + CHUNK_HEADER_LEN as u64));
        let a = Analysis::new(&trace, Window::whole(&trace));
        assert!(a.phases.is_empty(), "{:?}", a.phases);
        assert!(a.active().iter().all(|&id| a.processes.get(id).pid != 0));
        let of = a.at_least();
        let states = chunk_type == CHUNK_TASKS;
        assert_eq!([of.states, of.switches, of.calls], [states, states, true]);
        assert!(a.losses.parts.iter().any(|l| l.hides_calls(&trace) && l.count.is_some_and(|n| n > 0)));
        let said = a.caveats().join("; ");
        assert!(said.contains(&format!("names of {what} were lost")), "{said}");
        let text = report::text(&a, &report::Options::default());
        assert!(!text.contains("none lost") && !text.contains("? (0)"), "{text}");
    }
}

/// A file that was repaired has no block of a kind of which none could be read, only the loss.
#[test]
fn a_kind_that_is_lost_as_a_whole_was_recorded_all_the_same() {
    let whole = open(&recording()).unwrap();
    let blocks = || whole.blocks().iter().filter(|b| b.header.kind == Kind::Switch as u16);
    let trace = damaged(blocks().map(|b| b.offset + CHUNK_HEADER_LEN as u64));
    let mut copy = ChunkCopy::new(&trace, Vec::new(), WriterOptions::default()).unwrap();
    trace.chunks().iter().for_each(|chunk| drop(copy.take(chunk)));
    let mut writer = copy.into_writer().unwrap();
    let probe = writer.string("sched_switch");
    for h in blocks().map(|b| b.header) {
        let loss = Loss { to_ns: h.ts_max, probe, cause: 7, count: Some(u64::from(h.rows)), of_host: None };
        writer.push(h.ts_min, NO_CPU, &loss).unwrap();
    }
    let (first_ns, last_ns) = trace.span_ns().unwrap();
    writer.set_meta(SPAN_KEY, &format!("{first_ns} {last_ns}"));
    let repaired = open(&writer.finish().unwrap().0).unwrap();
    assert!(repaired.blocks().iter().all(|b| b.header.kind != Kind::Switch as u16));
    let told = [&trace, &repaired].map(|trace| {
        let a = Analysis::new(trace, Window::whole(trace));
        assert!(a.has(Kind::Switch) && a.at_least().states && a.at_least().switches && !a.at_least().calls);
        let json: serde_json::Value = serde_json::from_str(&report::json(&a, &[]).unwrap()).unwrap();
        (json["at_least"].clone(), json["processes"].clone(), json["phases"].clone())
    });
    assert_eq!(told[0], told[1]);
    assert!(told[0].1.as_array().is_some_and(|processes| !processes.is_empty()));
}

/// What stood where not even the head of a block can be read may be of any kind; of other ranges nothing is missing.
#[test]
fn damage_makes_at_least_of_those_ranges_alone_that_it_touches() {
    let whole = open(&recording()).unwrap();
    let blocks: Vec<_> = whole.blocks().iter().filter(|b| b.header.kind == Kind::Switch as u16).collect();
    let hit = blocks[blocks.len() / 2];
    // Without its end a file is scanned, and the block is not found.
    let mut bytes = recording();
    bytes[usize::try_from(hit.offset).unwrap()] ^= 0x10;
    let last = whole.blocks().iter().max_by_key(|b| b.offset).unwrap();
    let end = last.offset + CHUNK_HEADER_LEN as u64 + u64::from(last.header.payload_len);
    bytes.truncate(usize::try_from(end).unwrap());
    let trace = open(&bytes).unwrap();
    assert!(!trace.damage().is_empty());
    let at_least = |from_ns: u64, to_ns: u64| {
        let a = Analysis::new(&trace, Window { from_ns, to_ns, ..Window::whole(&trace) });
        let of = a.at_least();
        [of.states, of.switches, of.calls]
    };
    assert_eq!(at_least(hit.header.ts_min, hit.header.ts_max), [true; 3]);
    assert_eq!(at_least(0, 50 * MS), [false; 3]);
    assert_eq!(at_least(300 * MS, 350 * MS), [false; 3]);
}

/// Where none of what a source wrote down can be read, it is not said that the source does not tell it.
#[test]
fn what_cannot_be_read_is_not_blamed_on_the_source() {
    let whole = open(&recording()).unwrap();
    let blamed = |kind: Kind| {
        let blocks = whole.blocks().iter().filter(|b| b.header.kind == kind as u16);
        let trace = damaged(blocks.map(|b| b.offset + CHUNK_HEADER_LEN as u64));
        let a = Analysis::new(&trace, Window::whole(&trace));
        let unread = a.repairs.lost_blocks.iter().filter(|l| l.entry.header.kind == kind as u16).count();
        assert_eq!(unread, trace.blocks().iter().filter(|b| b.header.kind == kind as u16).count());
        a.caveats().into_iter().filter(|c| c.starts_with("the source does not say")).collect::<Vec<_>>().join("; ")
    };
    let quota = "when a CPU quota held a thread back";
    assert!(blamed(Kind::Fork).contains(quota));
    assert!(!blamed(Kind::Switch).contains(quota), "{}", blamed(Kind::Switch));
    let wakes = blamed(Kind::Waking);
    assert!(!wakes.contains("who woke whom") && wakes.contains(quota), "{wakes}");
}

#[test]
fn rows_of_a_thread_that_the_file_does_not_have_take_no_room() {
    let mut f = Fixture::new();
    let main = f.task(10, 10);
    let launch = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
    let (cpus, rwbs) = (f.writer().string("0-1"), f.writer().string("R"));
    let nobody = TaskId(u32::MAX);
    f.switch(0, 0, IDLE, 0, main);
    f.push(5, 0, Affinity { task: nobody, cpus, source: 0 });
    f.push(6, 0, Fork { parent: main, child: nobody });
    f.push(7, 1, BlockComplete { dev: 1, sector: 8, bytes: 512, rwbs, error: 0 });
    f.waking(8, 1, IDLE, nobody, 1);
    f.wakeup(9, 1, nobody, 1);
    f.switch(10, 1, IDLE, 0, nobody);
    f.call(20, 1, nobody, launch, 10);
    f.call(MS, 0, main, launch, 10_000);
    f.switch(2 * MS, 1, nobody, 1, IDLE);
    f.switch(3 * MS, 0, main, 1, IDLE);
    let trace = f.finish();
    // A place for each number up to this one would be gigabytes: more than most machines have.
    let analysis = Analysis::new(&trace, Window::whole(&trace));
    let of_main = |p: &&PhaseFigures| analysis.processes.get(p.phase.process).pid == 10;
    assert_eq!(analysis.phases.iter().filter(of_main).map(|p| p.phase.submissions).collect::<Vec<_>>(), [1]);
    let pyramid = Pyramid::build(&trace, &mut |_| {});
    assert_eq!(pyramid.tasks().collect::<Vec<_>>(), [main]);
}

#[test]
fn a_wait_of_centuries_after_the_last_call_is_added_up() {
    let mut f = Fixture::new();
    let (main, worker) = (f.task(10, 10), f.task(20, 20));
    let launch = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
    f.switch(0, 0, IDLE, 0, main);
    f.push(1, 0, Fork { parent: main, child: worker });
    f.call(MS, 0, main, launch, 10_000);
    f.call(2 * MS, 0, main, launch, 10_000);
    f.switch(u64::MAX / 4 * 3, 0, main, 1, IDLE);
    let trace = f.finish();
    let analysis = Analysis::new(&trace, Window::whole(&trace));
    assert!(analysis.phases.iter().any(|p| p.phase.end_ns - p.phase.start_ns > u64::MAX / 2));
}
