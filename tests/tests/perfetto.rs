//! What Perfetto's own importer makes of a converted recording is what the recording says. Needs no root.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ingero_tests::{Answer, perfetto_query, run, tool};
use rusqlite::Connection;
use tempfile::tempdir;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Recordings of the repository: switches alone, everything mixed, CUDA calls, imported text.
fn recordings() -> Vec<PathBuf> {
    [
        "benches/data/mixed.igt",
        "benches/data/mixed-switches.igt",
        "benches/data/cuda.igt",
        "investigations/h200-fight/run.igt",
    ]
    .map(|name| root().join(name))
    .to_vec()
}

/// Recordings in which the kernel left switches unreported, and two hosts in one file.
fn gapped(dir: &Path) -> Vec<PathBuf> {
    let of = |name: &str| root().join("investigations").join(name);
    let merged = dir.join("merged.igt");
    let (host, affinity) = (of("agreement/host.igt"), of("h200-cpu-contention/affinity.igt"));
    let mut command = Command::new(tool("ingero-convert"));
    command.arg("merge").args([&host, &affinity]).arg("-o").arg(&merged);
    let _ = run(&mut command, Duration::from_secs(120)).success();
    vec![host, of("h200-cpu-contention/quota.igt"), merged]
}

fn convert(recording: &Path, format: &str, out: &Path) {
    let mut command = Command::new(tool("ingero-convert"));
    command.arg(recording).arg(format).arg("-o").arg(out);
    let _ = run(&mut command, Duration::from_secs(120)).success();
}

const COMPLAINTS: &str = "select name, value from stats where severity in ('error', 'data_loss') and value > 0";

/// Rows of numbers and texts as texts.
fn texts(answer: &Answer) -> Vec<String> {
    let cell = |v: &serde_json::Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
    answer.rows.iter().map(|row| row.iter().map(cell).collect::<Vec<_>>().join("\t")).collect()
}

fn rows(db: &Connection, sql: &str) -> Vec<String> {
    let mut query = db.prepare(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
    let width = query.column_count();
    let text = |value: rusqlite::types::Value| match value {
        rusqlite::types::Value::Integer(i) => i.to_string(),
        rusqlite::types::Value::Text(t) => t,
        other => panic!("{other:?}"),
    };
    let cells = |r: &rusqlite::Row| (0..width).map(|i| r.get(i).map(text)).collect::<rusqlite::Result<Vec<_>>>();
    query.query_map([], cells).unwrap().map(|r| r.unwrap().join("\t")).collect()
}

/// Threads whose id only one thread had: later ones have numbers of their own.
const ONCE: &str = "t.tid in (select tid from tasks group by tid having count(*) = 1) and t.tid <> 0";

#[test]
fn perfetto_sees_in_its_own_format_what_the_recording_says() {
    for recording in recordings() {
        let dir = tempdir().unwrap();
        let (trace, database) = (dir.path().join("run.pftrace"), dir.path().join("run.sqlite"));
        convert(&recording, "--perfetto", &trace);
        convert(&recording, "--sqlite", &database);
        let db = Connection::open(&database).unwrap();
        let name = recording.display();
        // Perfetto's times are boot times.
        let mono = "coalesce((select min(clock_value - ts) from clock_snapshot where clock_name = 'MONOTONIC'), 0)";
        let flows = format!(
            "select a.name || ' ' || b.name, w.tid, t.tid, a.ts + {mono}, b.ts + {mono} \
             from flow f join slice a on a.id = f.slice_out join slice b on b.id = f.slice_in \
             join thread_track ak on ak.id = a.track_id join thread w on w.utid = ak.utid \
             join thread_track bk on bk.id = b.track_id join thread t on t.utid = bk.utid"
        );
        let answers = perfetto_query(
            &trace,
            &[
                COMPLAINTS,
                "select t.tid, s.name, count(*), sum(s.dur) from slice s join thread_track k on s.track_id = k.id \
                 join thread t using (utid) where k.name is not 'wakes' group by 1, 2 order by 1, 2",
                "select t.tid, count(*), sum(s.dur) from thread_state s join thread t using (utid) \
                 where s.state = 'Running' and s.dur > 0 and t.tid <> 0 group by 1 order by 1",
                "select t.tid, w.tid, count(*) from thread_state s join thread t using (utid) \
                 join thread w on w.utid = s.waker_utid where s.irq_context = 0 and w.tid <> 0 group by 1, 2 order by 1, 2",
                "select c.name, count(*) from counter v join track c on v.track_id = c.id group by 1 order by 1",
                "select tid, name from thread where tid <> 0 and name is not null order by tid",
                "select c.name, sum(v.value) from counter v join track c on v.track_id = c.id group by 1 order by 1",
                STATES,
                &flows,
            ],
        );
        assert!(answers[0].rows.is_empty(), "{name}: Perfetto complains: {:?}", answers[0].rows);
        let calls = "select t.tid, c.func, count(*), sum(min(coalesce(c.dur_ns, 0), 1 << 62)) from call c \
                     join tasks t on t.id = c.task where c.\"end\" <> 1 group by 1, 2 order by 1, 2";
        assert_eq!(texts(&answers[1]), rows(&db, calls), "{name}: calls");
        let numbers = |lines: Vec<String>| -> BTreeMap<String, String> {
            lines.iter().filter_map(|l| l.split_once('\t')).map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
        };
        let running = format!(
            "select t.tid, count(*), sum(r.end_ns - r.start_ns) from run r join tasks t on t.id = r.task \
             where not r.unfinished and {ONCE} group by 1 order by 1"
        );
        let (seen, due) = (numbers(texts(&answers[2])), numbers(rows(&db, &running)));
        assert!(!due.is_empty() || name.to_string().contains("cuda"), "{name}");
        for (tid, time) in &due {
            assert_eq!(seen.get(tid), Some(time), "{name}: thread {tid} running");
        }
        let wakers = format!(
            "select t.tid, w.tid, count(*) from stay s join tasks t on t.id = s.task join tasks w on w.id = s.waker \
             where s.woken_by = 'task' and s.kind = 'blocked' and not s.before and s.runnable_from_ns < s.end_ns and {ONCE} \
             group by 1, 2 order by 1, 2"
        );
        let by_pair = |lines: Vec<String>| -> BTreeMap<String, i64> {
            lines.iter().filter_map(|l| l.rsplit_once('\t')).map(|(k, n)| (k.to_owned(), n.parse().unwrap())).collect()
        };
        let seen = by_pair(texts(&answers[3]));
        for (pair, due) in by_pair(rows(&db, &wakers)) {
            let seen = seen.get(&pair).copied().unwrap_or(0);
            assert!(seen >= due, "{name}: wakes {pair}: {seen} of {due}");
        }
        let counters = rows(&db, "select name, count(*) from counters group by 1 order by 1");
        assert_eq!(texts(&answers[4]), counters, "{name}: counters");
        let sums = |lines: Vec<String>| -> Vec<(String, f64)> {
            let line = |l: &String| l.rsplit_once('\t').map(|(k, v)| (k.to_owned(), v.parse().unwrap()));
            lines.iter().filter_map(line).collect()
        };
        // The trace has thousandths.
        let sql = "select name, count(*) || ' ' || cast(sum(value) as text), printf('%.6f', sum(value)) from counters group by 1 order by 1";
        for ((name, seen), (of, due)) in sums(texts(&answers[6])).into_iter().zip(sums(rows(&db, sql))) {
            let (counter, rest) = of.split_once('\t').unwrap();
            let readings: f64 = rest.split(' ').next().unwrap().parse().unwrap();
            assert_eq!(name, counter);
            assert!((seen - due).abs() <= 0.001 * readings + 1e-9 * due.abs(), "{name}: {seen} and {due}");
        }
        compare_states(&name.to_string(), &texts(&answers[7]), &db);
        compare_flows(&name.to_string(), &texts(&answers[8]), &db);
        let names = format!(
            "select t.tid, (select n.name from task_name n where n.task = t.id order by ts_ns desc, id desc limit 1) as name \
             from tasks t where {ONCE} and name is not null and exists (select 1 from run where task = t.id) order by 1"
        );
        let seen = numbers(texts(&answers[5]));
        for (tid, due) in numbers(rows(&db, &names)) {
            assert_eq!(seen.get(&tid), Some(&due), "{name}: name of {tid}");
        }
    }
}

/// Ids that one thread alone had.
fn had_once(db: &Connection) -> BTreeSet<String> {
    rows(db, &format!("select t.tid from tasks t where {ONCE}")).into_iter().collect()
}

fn tallied(lines: &[String]) -> BTreeMap<&str, i64> {
    let mut counts = BTreeMap::new();
    lines.iter().for_each(|line| *counts.entry(line.as_str()).or_default() += 1);
    counts
}

/// Parked and idle at once stands for a state that is not known: no thread is that. Who has ended has no state.
const STATES: &str = "select t.tid, case when s.state in ('R', 'R+') then 'runnable' else 'blocked' end, s.dur \
    from thread_state s join thread t using (utid) \
    where s.dur > 0 and s.state not in ('Running', 'Z', 'X', 'PI') and t.tid <> 0";

/// Where the kernel left switches unreported, and in a file of two hosts: nobody is ready to run for longer than the recording says.
#[test]
fn perfetto_shows_nobody_ready_to_run_longer_than_he_was() {
    let dir = tempdir().unwrap();
    for recording in gapped(dir.path()) {
        let (trace, database) = (dir.path().join("run.pftrace"), dir.path().join("run.sqlite"));
        for (format, file) in [("--perfetto", &trace), ("--sqlite", &database)] {
            let mut command = Command::new(tool("ingero-convert"));
            command.arg(&recording).arg(format).arg("--force").arg("-o").arg(file);
            let _ = run(&mut command, Duration::from_secs(120)).success();
        }
        let db = Connection::open(&database).unwrap();
        let name = recording.display().to_string();
        let sum = |states: &str| {
            format!(
                "select sum(s.dur) from thread_state s join thread t using (utid) where t.tid <> 0 and s.dur > 0 and s.state in ({states})"
            )
        };
        let answers = perfetto_query(&trace, &[COMPLAINTS, &sum("'R', 'R+'"), &sum("'Running'"), &sum("'PI'"), STATES]);
        assert!(answers[0].rows.is_empty(), "{name}: Perfetto complains: {:?}", answers[0].rows);
        // A quota holds back who could run: Perfetto has no word for it.
        let due = "select sum(dur_ns) from thread_states where state in ('runnable', 'throttled') and not unfinished";
        assert_eq!(answers[1].number().to_string(), rows(&db, due)[0], "{name}: runnable");
        // Who still runs when one host's recording ends leaves its CPU there: Perfetto knows of one end alone.
        let due = "select sum(dur_ns) from thread_states where state = 'running' \
                   and (not unfinished or end_ns < (select max(end_ns) from thread_states))";
        assert_eq!(answers[2].number().to_string(), rows(&db, due)[0], "{name}: running");
        assert!(answers[3].number() > 0, "{name}: no switch is missing");
        compare_states(&name, &texts(&answers[4]), &db);
    }
}

/// Each stretch in which a thread could have run or was blocked, by its thread and to the nanosecond: Perfetto has all of them, and no other.
fn compare_states(name: &str, seen: &[String], db: &Connection) {
    let due = rows(
        db,
        &format!(
            "with stretch (task, state, ns) as ( \
             select task, 'blocked', coalesce(runnable_from_ns, end_ns) - start_ns from stay \
             where kind = 'blocked' and not before and (runnable_from_ns is not null or not unfinished) \
             union all select task, 'runnable', end_ns - runnable_from_ns from stay \
             where kind = 'blocked' and runnable_from_ns is not null and not unfinished \
             union all select task, 'runnable', end_ns - start_ns from stay \
             where kind <> 'blocked' and not before and not unfinished) \
             select t.tid, s.state, s.ns from stretch s join tasks t on t.id = s.task where s.ns > 0 and {ONCE}"
        ),
    );
    let once = had_once(db);
    let of_one = |line: &&String| line.split_once('\t').is_some_and(|(tid, _)| once.contains(tid));
    let seen: Vec<String> = seen.iter().filter(of_one).cloned().collect();
    let (seen, due) = (tallied(&seen), tallied(&due));
    let missing = |of: &BTreeMap<&str, i64>, from: &BTreeMap<&str, i64>| -> Vec<String> {
        let less = |(line, n): (&&str, &i64)| (*n > from.get(line).copied().unwrap_or(0)).then(|| (*line).to_owned());
        of.iter().filter_map(less).collect()
    };
    assert_eq!(missing(&due, &seen), [""; 0], "{name}: not in Perfetto");
    assert_eq!(missing(&seen, &due), [""; 0], "{name}: in Perfetto alone");
}

/// Each arrow: from whom and when, to whom and when.
fn compare_flows(name: &str, seen: &[String], db: &Connection) {
    let wakes = "from stay s join tasks t on t.id = s.task join tasks w on w.id = s.waker \
                 where s.woken_by = 'task' and s.waker <> 0 and s.runnable_from_ns is not null";
    let all: usize = rows(db, &format!("select count(*) {wakes}"))[0].parse().unwrap();
    assert_eq!(seen.len(), all, "{name}: arrows");
    if name.ends_with("mixed.igt") {
        assert!(all > 20_000, "{name}: {all} arrows");
    }
    let once = had_once(db);
    let of_two = |line: &&String| {
        let cells: Vec<&str> = line.split('\t').collect();
        once.contains(cells[1]) && once.contains(cells[2])
    };
    let due = rows(
        db,
        &format!(
            "select 'wakes woken', w.tid, t.tid, (select max(k.ts_ns) from sched_waking k where k.wakee = s.task and k.waker = s.waker \
             and k.ts_ns <= s.runnable_from_ns), s.runnable_from_ns {wakes}"
        ),
    );
    let only = |all: &[String]| all.iter().filter(of_two).cloned().collect::<Vec<_>>();
    let (seen, due) = (only(seen), only(&due));
    let (seen, due) = (tallied(&seen), tallied(&due));
    let differ: Vec<_> = seen.iter().filter(|(line, n)| due.get(*line) != Some(n)).take(5).collect();
    assert!(differ.is_empty() && seen.len() == due.len(), "{name}: {differ:?}, {} and {}", seen.len(), due.len());
}

/// The CPU of who is left out is not idle, and who is left in has the states that he has in the whole.
#[test]
fn a_cut_by_process_makes_nobody_idle() {
    let dir = tempdir().unwrap();
    let recording = &recordings()[0];
    let (whole, cut) = (dir.path().join("whole.pftrace"), dir.path().join("cut.pftrace"));
    convert(recording, "--perfetto", &whole);
    let busiest = "select t.tid from thread t join process p using (upid) join sched s using (utid) where t.tid = p.pid and t.tid <> 0 \
                   group by 1 order by count(*) desc limit 1";
    let pid = perfetto_query(&whole, &[busiest])[0].number().to_string();
    let mut command = Command::new(tool("ingero-convert"));
    command.arg(recording).arg("--perfetto").arg("--pid").arg(&pid).arg("-o").arg(&cut);
    let _ = run(&mut command, Duration::from_secs(120)).success();
    let idle = "select sum(s.dur) from sched s join thread t using (utid) where t.tid = 0 and s.dur > 0";
    let states = format!(
        "select s.state, count(*), sum(s.dur) from thread_state s join thread t using (utid) where t.tid = {pid} and s.dur > 0 group by 1 order by 1"
    );
    let others = "select count(*) from sched s join thread t using (utid) where t.name = 'not selected'";
    let asked = [COMPLAINTS, idle, &states, others];
    let (whole, cut) = (perfetto_query(&whole, &asked), perfetto_query(&cut, &asked));
    assert!(cut[0].rows.is_empty(), "Perfetto complains: {:?}", cut[0].rows);
    assert_eq!(whole[1].number(), cut[1].number(), "idle");
    assert_eq!(texts(&whole[2]), texts(&cut[2]));
    assert!(whole[3].number() == 0 && cut[3].number() > 0);
}

/// Operators and GPU work of a profile: each with its name, its length and its place below its thread or process.
#[test]
fn perfetto_sees_the_operators_and_the_gpu_work_of_a_profile() {
    let dir = tempdir().unwrap();
    let profile = Path::new(env!("CARGO_MANIFEST_DIR")).join("../analyze/convert/tests/fixtures/kineto.json.gz");
    let (recording, database) = (dir.path().join("run.igt"), dir.path().join("run.db"));
    let _ = run(Command::new(tool("ingero-convert")).arg(&profile).arg("-o").arg(&recording), Duration::from_secs(60))
        .success();
    convert(&recording, "--sqlite", &database);
    let db = Connection::open(&database).unwrap();
    let due = rows(
        &db,
        "select name, count(*), sum(dur_ns) from (select name, dur_ns from span union all select name, dur_ns from device_activity) group by 1 order by 1",
    );
    assert!(due.len() > 20, "{due:?}");
    // A stream is one of a process; of some work nobody says whose it is.
    let places = rows(
        &db,
        "select count(distinct d.device || ' ' || coalesce(d.stream, '-') || ' ' || coalesce(t.process, '-')) \
         from device_activity d left join tasks t on t.id = d.task",
    );
    for (format, file, tracks) in [
        ("--perfetto", "run.pftrace", "k.name = 'operators' or k.name glob 'GPU [0-9]*'"),
        ("--chrome", "run.json", "s.category in ('span', 'device')"),
    ] {
        let trace = dir.path().join(file);
        convert(&recording, format, &trace);
        let slices = format!(
            "select s.name, count(*), sum(s.dur) from slice s join track k on k.id = s.track_id where {tracks} group by 1 order by 1"
        );
        let streams =
            "select count(distinct k.id) from track k join slice s on s.track_id = k.id where k.name glob 'GPU [0-9]*'";
        let answers = perfetto_query(&trace, &[COMPLAINTS, &slices, streams]);
        assert!(answers[0].rows.is_empty(), "{format}: Perfetto complains: {:?}", answers[0].rows);
        assert_eq!(texts(&answers[1]), due, "{format}");
        if format == "--perfetto" {
            assert_eq!(texts(&answers[2]), places);
        }
    }
}

/// Pressure and GPUs, as no recording of the repository has them.
#[test]
fn perfetto_sees_every_counter_that_the_recording_has() {
    use ingero_format::catalog::{GpuSample, NO_CPU, Pressure, System};
    let dir = tempdir().unwrap();
    let mut f = ingero_replay::fixture::Fixture::new();
    for second in 0..5u64 {
        let at = 1_000_000_000 * (second + 1);
        let share = |percent: u64| Some(at / 100 * percent);
        let (user_ns, system_ns, idle_ns) = (share(40), share(10), share(50));
        let (iowait_ns, steal_ns, load1_milli) = (Some(0), Some(0), Some(1_250));
        f.push(
            at,
            NO_CPU,
            System { user_ns, system_ns, idle_ns, iowait_ns, steal_ns, load1_milli, ..System::default() },
        );
        for resource in 0..4 {
            f.push(at, NO_CPU, Pressure { resource, some_ns: share(5 * (resource + 1)), full_ns: share(resource) });
        }
        for device in 0..2 {
            let (busy_percent, sm_mhz, power_mw) = (Some(20 * second), Some(1_980), Some(700_500 + device));
            let (memory_used_bytes, pcie_rx, celsius) = (Some(80 << 30), Some(12_345_678_901), Some(61));
            f.push(
                at,
                NO_CPU,
                GpuSample {
                    device,
                    busy_percent,
                    sm_mhz,
                    power_mw,
                    memory_used_bytes,
                    pcie_rx,
                    celsius,
                    ..GpuSample::default()
                },
            );
        }
    }
    let (recording, trace, database) =
        (dir.path().join("run.igt"), dir.path().join("run.pf"), dir.path().join("run.db"));
    std::fs::write(&recording, f.into_bytes()).unwrap();
    convert(&recording, "--perfetto", &trace);
    convert(&recording, "--sqlite", &database);
    let values = "select c.name, v.ts - (select min(ts) from counter), cast(round(v.value * 1000) as int) \
                  from counter v join track c on v.track_id = c.id order by 1, 2";
    let answers = perfetto_query(&trace, &[COMPLAINTS, values]);
    assert!(answers[0].rows.is_empty(), "Perfetto complains: {:?}", answers[0].rows);
    let due = "select name, ts_ns - (select min(ts_ns) from counters), cast(round(value * 1000) as int) from counters order by 1, 2";
    let due = rows(&Connection::open(&database).unwrap(), due);
    assert_eq!(texts(&answers[1]), due);
    assert_eq!(due.len(), 5 + 4 * 3 + 4 * 4 * 2 + 5 * 2 * 6);
}

/// Smaller than JSON by an order of magnitude where calls with their arguments are all of it, by far more where there are switches, and good as far as it goes when it is cut off.
#[test]
fn a_perfetto_trace_is_small_and_good_when_cut() {
    let dir = tempdir().unwrap();
    let trace = dir.path().join("run.pftrace");
    for (n, recording) in recordings().iter().enumerate() {
        let (json, trace) = (dir.path().join(format!("{n}.json")), dir.path().join(format!("{n}.pftrace")));
        convert(recording, "--chrome", &json);
        convert(recording, "--perfetto", &trace);
        let bytes = |path: &Path| path.metadata().unwrap().len();
        let ratio = bytes(&json) as f64 / bytes(&trace) as f64;
        let due = if recording.ends_with("cuda.igt") { 12.0 } else { 50.0 };
        assert!(ratio >= due, "{}: {ratio:.1}", recording.display());
    }
    convert(&recordings()[0], "--perfetto", &trace);
    let bytes = std::fs::read(&trace).unwrap();
    let cut = dir.path().join("cut.pftrace");
    std::fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    let answers = perfetto_query(&cut, &["select count(*) from sched"]);
    assert!(answers[0].number() > 0);
}
