//! The page, by what it holds; `tests/tests/html.rs` opens it in a browser.

use std::collections::BTreeMap;

use ingero_format::Trace;
use ingero_format::catalog::{Class, DeviceActivity, Layer, Name, Range, TaskId};
use ingero_replay::Window;
use ingero_replay::fixture::Fixture;
use serde_json::Value;

use super::pack::Pack;
use super::*;

const IDLE: TaskId = TaskId(0);

fn page_with(trace: &Trace, exact_rows: u64) -> String {
    let a = Analysis::new(trace, Window::whole(trace));
    page_of(&a, &Options::default(), Limits { exact_rows, data_bytes: DATA_BYTES }, &mut |_| {}).unwrap()
}

fn data(page: &str) -> &str {
    let begin = page.find("<script id=\"data\"").unwrap();
    let from = begin + page[begin..].find('>').unwrap() + 1;
    &page[from..from + page[from..].find('<').unwrap()]
}

fn unpacked(page: &str) -> (Value, BTreeMap<String, Vec<u64>>) {
    pack::tests::unpack(data(page))
}

/// Threads of ten processes that run, call, wait for a CPU and block, for as long as there are steps.
fn busy(threads: u32, steps: u64) -> Trace {
    let mut f = Fixture::new();
    let tasks: Vec<TaskId> = (0..threads).map(|n| f.task(10 + n % 10, 10 + n)).collect();
    let launch = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
    let name = f.writer().string("train");
    f.push(1, 0, Name { task: tasks[0], name, source: 0 });
    let mut random = 9_u64;
    let mut at = 1_000;
    for _ in 0..steps {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let task = tasks[(random >> 33) as usize % tasks.len()];
        let state = (random >> 20) % 2;
        f.switch(at, 0, IDLE, 0, task);
        f.call(at + 100, 0, task, launch, 1_000 + (random >> 50));
        at += 20_000 + (random >> 45) % 30_000;
        // 0: taken off its CPU while it could run; 1: it sleeps, and is woken much later.
        f.switch(at, 0, task, state, IDLE);
        if state == 1 {
            f.waking(at + 3_000, 1, tasks[0], task, 0);
        }
        at += 5_000;
    }
    f.finish()
}

/// Time by state of each row: running, runnable, blocked.
fn by_state(streams: &BTreeMap<String, Vec<u64>>) -> Vec<[u64; 3]> {
    let mut at = 0;
    let row = |&count: &u64| {
        let mut sums = [0; 3];
        for _ in 0..count {
            sums[(streams["s.state"][at] & 7) as usize] += streams["s.len"][at];
            at += 1;
        }
        sums
    };
    streams["s.count"].iter().map(row).collect()
}

#[test]
fn where_wakes_are_lost_nobody_is_blocked_for_certain() {
    const MS: u64 = 1_000_000;
    let lost = [(30 * MS, 90 * MS), (200 * MS, 280 * MS)];
    let off_cpu = |lost: &[(u64, u64)]| {
        let (trace, _) = ingero_replay::fixture::busy_without_wakes(2, lost);
        let (head, exact) = unpacked(&page_with(&trace, u64::MAX));
        let (_, columns) = unpacked(&page_with(&trace, 0));
        let states = exact["s.state"].iter().zip(&exact["s.len"]);
        let exact_ns: u64 = states.filter(|(state, _)| *state & 7 == 4).map(|(_, ns)| ns).sum();
        (head["undivided"].clone(), exact_ns, columns.get("z.offCpu").map(|cells| cells.iter().sum::<u64>()))
    };
    assert_eq!(off_cpu(&[]), (false.into(), 0, None));
    let (undivided, exact_ns, columns_ns) = off_cpu(&lost);
    assert_eq!((undivided, columns_ns), (true.into(), Some(exact_ns)));
    assert!(exact_ns > 100 * MS, "{exact_ns}");
}

#[test]
fn columns_add_up_to_what_every_event_tells() {
    let trace = busy(12, 3_000);
    let (exact, all) = unpacked(&page_with(&trace, u64::MAX));
    let (head, columns) = unpacked(&page_with(&trace, 0));
    assert_eq!((&exact["columns"], &head["about"]), (&0.into(), &false.into()));
    let (rows, width) = (head["rows"].as_array().unwrap().len(), head["columns"].as_u64().unwrap() as usize);
    assert_eq!((rows, exact["rows"].as_array().unwrap().len()), (12, 12));
    assert!((256..=32_768).contains(&width), "{width}");
    let sum = |name: &str, row: usize| columns[name][row * width..(row + 1) * width].iter().sum::<u64>();
    for (row, due) in by_state(&all).into_iter().enumerate() {
        assert_eq!([sum("z.running", row), sum("z.runnable", row), sum("z.blocked", row)], due, "row {row}");
    }
    // Calls and CPUs too: one thread at a time runs.
    let called: u64 = columns["k.ns"].iter().sum();
    assert_eq!(called, all["c.len"].iter().sum::<u64>());
    assert_eq!(columns["q.ns"].iter().sum::<u64>(), all["p.len"].iter().sum::<u64>());
}

#[test]
fn what_shows_a_cause_has_all_its_events() {
    let trace = busy(12, 3_000);
    let a = Analysis::new(&trace, Window::whole(&trace));
    let (head, streams) = unpacked(&page_with(&trace, 0));
    assert!(!a.incidents.is_empty());
    let parts = head["parts"].as_array().unwrap();
    assert!(!parts.is_empty() && !streams["s.len"].is_empty());
    for incident in head["incidents"].as_array().unwrap() {
        let mark = &incident[4][0];
        let (start, rows) = (mark[2].as_u64().unwrap(), &head["rows"]);
        assert!(parts.iter().any(|p| p[0].as_u64() <= Some(start) && Some(start) < p[1].as_u64()), "{mark} {parts:?}");
        assert!(rows.as_array().unwrap().contains(&mark[1]), "{mark} has no row");
    }
}

/// A thread that names what it does, and a GPU with two streams.
fn named(ranges: u64) -> Trace {
    let mut f = Fixture::new();
    let main = f.task(7, 7);
    let launch = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
    let [step, load, gemm] = ["step", "load\u{202e}", "gemm"].map(|name| f.writer().string(name));
    f.switch(1_000, 0, IDLE, 0, main);
    f.call(4_000, 0, main, launch, 500);
    for (at, name, dur_ns) in [(2_000, step, Some(10_000)), (3_000, load, Some(4_000)), (8_000, load, None)] {
        let end = u64::from(dur_ns.is_none());
        f.push(at, 0, Range { task: main, dur_ns, end, name: Some(name), form: 0 });
    }
    for n in 0..ranges {
        f.push(12_500 + n, 0, Range { task: main, dur_ns: Some(1), end: 0, name: Some(step), form: 0 });
    }
    for (at, stream, activity) in [(5_000, 7, 0), (8_500, 8, 1), (9_000, 7, 0)] {
        let (device, name, dur_ns, task) = (1, gemm, 3_000, (at != 9_000).then_some(main));
        let stream = Some(stream);
        let work =
            DeviceActivity { device, stream, activity, name, dur_ns, correlation: None, bytes: None, copy: None, task };
        f.push(at, 0, work);
    }
    f.switch(90_000, 0, main, 1, IDLE);
    f.finish()
}

#[test]
fn what_programs_name_and_gpus_do_has_rows() {
    for exact_rows in [u64::MAX, 0] {
        let (head, streams) = unpacked(&page_with(&named(0), exact_rows));
        assert_eq!(head["gpus"], serde_json::json!(["GPU 1, stream 7", "GPU 1, stream 8"]));
        let labels = |stream: &str| -> Vec<Value> {
            streams[stream].iter().map(|&label| head["labels"][label as usize].clone()).collect()
        };
        let (step, load) = (serde_json::json!(["step", "range"]), serde_json::json!(["load\\u{202e}", "range"]));
        assert_eq!(labels("n.func"), [step, load.clone(), load]);
        // The outer one above the inner ones; the last one never ended.
        assert_eq!((&streams["n.depth"], &streams["n.len"]), (&vec![0, 1, 1], &vec![10_000, 4_000, 0]));
        assert_eq!((&streams["n.how"], &streams["n.count"]), (&vec![0, 0, 2], &vec![3]));
        let kinds = [["gemm", "launch"], ["gemm", "launch"], ["gemm", "copy"]];
        assert_eq!(labels("g.func"), kinds.map(|kind| serde_json::json!(kind)));
        assert_eq!((&streams["g.len"], &streams["g.gap"][1]), (&vec![3_000; 3], &4_000));
    }
    // Of more than a page has room for the longest ones stay, and the page says so.
    let page = page_with(&named(50_100), u64::MAX);
    let (_, streams) = unpacked(&page);
    assert_eq!((streams["n.count"][0], streams["g.len"].len()), (50_000 - 3, 3));
    assert!(streams["n.len"].contains(&10_000) && page.contains("106 more named ranges and pieces of GPU work"));
}

#[test]
fn lanes_are_taken_by_one_at_a_time() {
    let mut pack = Pack::default();
    let grid = Grid::new(0, 100, 1, 1);
    tracks::pack_nested(
        &mut pack,
        tracks::NAMED_STREAMS,
        grid,
        vec![[5, 20, 0, 0], [0, 10, 1, 0], [12, 30, 2, 0], [20, 21, 3, 0]],
    );
    let (_, streams) = pack::tests::unpack(&pack.finish(serde_json::Map::new()).unwrap());
    assert_eq!((&streams["n.func"], &streams["n.depth"]), (&vec![1, 0, 2, 3], &vec![0, 1, 0, 1]));
}

#[test]
fn data_stay_within_their_bounds() {
    // With every stretch the data would be half as large again.
    let limits = Limits { exact_rows: u64::MAX, data_bytes: 900_000 };
    let trace = busy(400, 90_000);
    let a = Analysis::new(&trace, Window::whole(&trace));
    let page = page_of(&a, &Options::default(), limits, &mut |_| {}).unwrap();
    let (head, _) = unpacked(&page);
    assert!(data(&page).len() <= limits.data_bytes, "{}", data(&page).len());
    assert!(head["columns"].as_u64() > Some(0), "{}", data(&page).len());
    assert_eq!(head["rows"].as_array().unwrap().len(), tracks::THREADS);
    assert_eq!(head["hidden"], 400 - tracks::THREADS);
    assert!(page.contains("200 more threads have no row here"));
    assert!(page.len() - data(&page).len() < 1 << 20, "{}", page.len());
}

#[test]
fn names_are_escaped_wherever_they_stand() {
    let hostile = ["</script><script>alert(1)</script>", "\"onload='x", "<!--", "&amp;", "\u{202e}\u{0}\u{1b}[2J"];
    let mut f = Fixture::new();
    for (n, text) in (0_u32..).zip(hostile) {
        let task = f.task(50 + n, 50 + n);
        let func = f.func(text, Layer::Runtime, Class::Sync);
        let name = f.writer().string(text);
        f.push(1, 0, Name { task, name, source: 0 });
        f.push(
            2,
            0,
            ingero_format::catalog::Process { task, parent_pid: None, exe: Some(name), args: Some(name), followed: 1 },
        );
        let at = 1_000 + u64::from(n) * 1_000;
        f.switch(at, 0, IDLE, 0, task);
        f.call(at + 1, 0, task, func, 500);
        f.switch(at + 900, 0, task, 1, IDLE);
    }
    f.writer().set_meta("kernel", hostile[0]);
    let page = page_with(&f.finish(), u64::MAX);
    assert_eq!(page.matches("<script").count(), 2, "the data and the script, no more");
    assert_eq!(page.matches("</script>").count(), 2);
    for part in ["alert(1)</script>", "\"onload", "<!--", "\u{202e}", "\u{0}", "\u{1b}"] {
        assert!(!page.contains(part), "{part:?}");
    }
    assert!(
        page.contains("&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt; (50)")
            || page.contains("&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;</bdi> (50)")
    );
    assert!(page.contains("&amp;amp;") && page.contains("\\u{202e}"));
    let (head, _) = unpacked(&page);
    assert!(head["tasks"].to_string().contains("\\\\u{202e}"), "{}", head["tasks"]);
}

#[test]
fn an_empty_recording_makes_a_page() {
    let page = page_with(&Fixture::new().finish(), u64::MAX);
    assert!(page.contains("No CUDA call was recorded") && page.contains("Nothing was recorded of any process."));
    let (head, streams) = unpacked(&page);
    assert_eq!((head["rows"].as_array().unwrap().len(), streams.len()), (0, 0));
}

#[test]
fn the_page_allows_its_own_script_and_nothing_else() {
    let page = page_with(&busy(3, 50), u64::MAX);
    assert!(page.starts_with(document::BEGINS), "{}", &page[..200]);
    let policy = page.split("Content-Security-Policy\" content=\"").nth(1).unwrap().split('"').next().unwrap();
    assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
    assert!(!policy.contains("unsafe") && !policy.contains("http") && !policy.contains('*'), "{policy}");
    for part in [" style=\"", " onclick", "javascript:", "http://", "https://", "url(", "@import", "<link", "<img"] {
        assert!(!page.replace(data(&page), "").contains(part), "{part}");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    assert!(is_report(&path("a.html", &page)) && is_report(&path("empty", "")));
    assert!(!is_report(&path("b.html", "<!DOCTYPE html><html>")) && !is_report(&folder.path().join("none")));
}

/// The row of each CPU in the table of occupancy, as words.
fn occupancy(page: &str) -> Vec<String> {
    let table = page.split("Who was on each CPU").nth(1).unwrap().split("</table>").next().unwrap();
    let rows = table.split("<tr>").skip(2).map(|row| {
        let cells = row.split("</td>").map(|cell| cell.split('>').next_back().unwrap_or(""));
        cells.collect::<Vec<_>>().join("|")
    });
    rows.collect()
}

#[test]
fn cpus_are_busy_for_a_share_of_what_their_own_host_recorded() {
    const MS: u64 = 1_000_000;
    let mut f = Fixture::new();
    for (key, value) in [
        ("host.0.host", "short"),
        ("host.0.cpu_base", "0"),
        ("host.0.pid_base", "0"),
        ("host.0.start_ns", "0"),
        ("host.0.end_ns", "100000000"),
        ("host.1.host", "long"),
        ("host.1.cpu_base", "1"),
        ("host.1.pid_base", "4194304"),
        ("host.1.start_ns", "0"),
        ("host.1.end_ns", "1000000000"),
    ] {
        f.writer().set_meta(key, value);
    }
    let (a, b) = (f.task(7, 7), f.task(4_194_311, 4_194_311));
    f.switch(0, 0, IDLE, 0, a);
    f.switch(50 * MS, 0, a, 1, IDLE);
    f.switch(0, 1, IDLE, 0, b);
    f.switch(1_000 * MS, 1, b, 1, IDLE);
    let probe = f.writer().string("sched_switch");
    let loss = ingero_format::catalog::Loss { to_ns: 600 * MS, probe, cause: 0, count: Some(3), of_host: Some(1) };
    f.push(400 * MS, ingero_format::catalog::NO_CPU, loss);
    let rows = occupancy(&page_with(&f.finish(), u64::MAX));
    let [short, long] = &rows[..] else { panic!("{rows:?}") };
    // Half of its own tenth of a second, whole as it is; the other host lost something.
    assert!(short.starts_with("short|") && short.contains("|50\u{a0}%|") && !short.contains('≥'), "{short}");
    assert!(long.starts_with("long|") && long.contains('≥'), "{long}");
}
