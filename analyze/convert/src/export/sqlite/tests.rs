use super::*;
use ingero_format::catalog::Unit;
use ingero_format::catalog::{Class, Layer, Name, PageAlloc, TaskId};
use ingero_format::{ColumnSchema, KindSchema};
use ingero_replay::Merge;
use ingero_replay::fixture::{Fixture, returned};

fn exported(trace: &Trace) -> (tempfile::TempDir, Connection, Exported) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.sqlite");
    let done = export(trace, &Selection::whole(trace), &path, false, &Progress::none()).unwrap();
    let db = Connection::open(&path).unwrap();
    (dir, db, done)
}

fn one<T: rusqlite::types::FromSql>(db: &Connection, sql: &str) -> T {
    db.query_row(sql, [], |row| row.get(0)).unwrap()
}

#[test]
fn every_kind_becomes_a_table_and_the_views_have_names() {
    let mut f = Fixture::new();
    let (main, worker) = (f.task(7, 7), f.task(7, 8));
    let func = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
    for (ts, task, name) in [(1, main, "sh"), (20, main, "py\"t'hon\u{1}"), (2, worker, "pin")] {
        let name = f.writer().string(name);
        f.push(ts, 0, Name { task, name, source: 0 });
    }
    f.call(10, 0, worker, func, 5);
    f.call(30, 0, worker, func, 6);
    f.switch(40, 1, worker, 1, main);
    f.waking(50, 1, main, worker, 0);
    f.waking(60, 1, main, worker, 2);
    f.wakeup(61, 1, worker, 3);
    let (_dir, db, done) = exported(&f.finish());
    assert_eq!(done, Exported { rows: 9, damaged: 0 });
    for kind in ingero_format::catalog::EVENTS {
        let _: i64 = one(&db, &format!("SELECT count(*) FROM {}", kind.name));
    }
    assert_eq!(one::<String>(&db, "SELECT process FROM calls WHERE ts_ns = 10"), "sh");
    assert_eq!(one::<String>(&db, "SELECT process FROM calls WHERE ts_ns = 30"), "py\"t'hon\u{1}");
    assert_eq!(one::<String>(&db, "SELECT thread || layer || \"end\" FROM calls LIMIT 1"), "pinruntimereturned");
    assert_eq!(one::<String>(&db, "SELECT prev_name FROM switches"), "pin");
    assert_eq!(one::<i64>(&db, "SELECT count(*) FROM wakeups"), 3);
    assert_eq!(one::<i64>(&db, "SELECT count(waker_tid) FROM wakeups"), 1, "an interrupt has no waker");
    assert_eq!(one::<String>(&db, "SELECT context FROM wakeups WHERE ts_ns = 60"), "hardirq");
    assert_eq!(one::<i64>(&db, "SELECT count(*) FROM losses"), 0);
    assert_eq!(one::<String>(&db, "PRAGMA integrity_check"), "ok");
}

#[test]
fn words_beyond_the_sign_bit_come_back() {
    let mut f = Fixture::new();
    let task = f.task(7, 7);
    for (ts, pfn, gfp_flags) in [(1, Some(u64::MAX - 1), u64::MAX), (2, None, 1 << 63)] {
        f.push(ts, 0, PageAlloc { task, pfn, order: 0, gfp_flags, migratetype: None });
    }
    let (_dir, db, _) = exported(&f.finish());
    let shown = |sql: &str| one::<String>(&db, sql);
    assert_eq!(shown("SELECT printf('%llu', pfn) FROM mm_page_alloc WHERE ts_ns = 1"), (u64::MAX - 1).to_string());
    assert_eq!(shown("SELECT printf('%llu', gfp_flags) FROM mm_page_alloc WHERE ts_ns = 1"), u64::MAX.to_string());
    assert_eq!(shown("SELECT printf('0x%llx', gfp_flags) FROM mm_page_alloc WHERE ts_ns = 2"), "0x8000000000000000");
    assert_eq!(one::<Option<i64>>(&db, "SELECT pfn FROM mm_page_alloc WHERE ts_ns = 2"), None);
    assert_eq!(one::<i64>(&db, "SELECT gfp_flags FROM mm_page_alloc WHERE ts_ns = 1").cast_unsigned(), u64::MAX);
}

#[test]
fn an_empty_trace_is_a_database() {
    let (_dir, db, done) = exported(&Fixture::new().finish());
    assert_eq!(done.rows, 0);
    assert_eq!(one::<i64>(&db, "SELECT count(*) FROM calls"), 0);
}

#[test]
fn hostile_names_of_kinds_and_columns_stay_apart() {
    let column = |id: u8, name: &str, unit: Unit| ColumnSchema {
        id,
        name: name.to_owned(),
        unit: unit.code(),
        nullable: false,
        doc: String::new(),
        names: Vec::new(),
    };
    let kind = |number: u16, name: &str| KindSchema {
        number,
        name: name.to_owned(),
        doc: String::new(),
        columns: vec![
            column(0, "ts_ns", Unit::TimeNs),
            column(1, "A\"b", Unit::Str),
            column(2, "a\"B", Unit::Number),
            column(3, "a\"b_id", Unit::Number),
        ],
    };
    let schema =
        [kind(1, "Tasks"), kind(2, "tasks"), kind(3, "sqlite_master"), kind(4, ""), kind(5, "x\"; DROP TABLE meta")];
    let tables = Tables::new(&schema);
    let db = Connection::open_in_memory().unwrap();
    db.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
    let trace = Fixture::new().finish();
    dictionaries::write(&db, &trace, &Selection::whole(&trace)).unwrap();
    tables::write_schema(&db, &schema, &tables).unwrap();
    for table in &tables.0 {
        db.prepare(&table.insert_sql()).unwrap();
    }
    tables.create_indexes(&db).unwrap();
    states::write(&db, &trace, &Selection::whole(&trace)).unwrap();
    verdicts::write(&db, &Analysis::new(&trace, ingero_replay::Window::whole(&trace)), &Selection::whole(&trace))
        .unwrap();
    views::write(&db, &tables, &Selection::whole(&trace)).unwrap();
    assert_eq!(one::<i64>(&db, "SELECT count(DISTINCT table_name) FROM schema"), 5);
    assert_eq!(one::<i64>(&db, "SELECT count(*) FROM meta WHERE key = 'sqlite_schema'"), 1);
}

#[test]
fn nothing_is_overwritten_unasked() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file:run.sqlite?mode=memory");
    let trace = Fixture::new().finish();
    export(&trace, &Selection::whole(&trace), &path, false, &Progress::none()).unwrap();
    assert!(path.exists());
    assert!(matches!(
        export(&trace, &Selection::whole(&trace), &path, false, &Progress::none()),
        Err(Error::Exists(_))
    ));
    export(&trace, &Selection::whole(&trace), &path, true, &Progress::none()).unwrap();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

/// The counters of a trace, which the database has as the other formats do.
fn same_counters(trace: &Trace) -> Vec<(i64, String, u64)> {
    let mut counters = ingero_analyze::counters::Counters::new(trace);
    let mut due = Vec::new();
    for event in Merge::new(trace) {
        for reading in counters.readings(&event).map(|r| r.1).unwrap_or_default() {
            due.push((event.ts_ns.cast_signed(), reading.name.into_owned(), reading.thousandths));
        }
    }
    let (_dir, db, _) = exported(trace);
    let mut query = db.prepare("SELECT ts_ns, name, CAST(round(value * 1000) AS INTEGER) FROM counters").unwrap();
    let rows = query.query_map([], |r| Ok((r.get(0)?, r.get(1)?, r.get::<_, i64>(2)?.cast_unsigned()))).unwrap();
    let mut found: Vec<_> = rows.map(Result::unwrap).collect();
    found.sort();
    due.sort();
    assert_eq!(found, due);
    due
}

/// Two recordings of one host in one file: what one used is no part of the other's.
#[test]
fn hosts_of_one_name_keep_their_counters_apart() {
    use ingero_format::catalog::{Pressure, System};
    let mut f = Fixture::new();
    for (n, (name, cpu_base)) in [("vm", "0"), ("vm", "2"), ("node", "4")].iter().enumerate() {
        f.writer().set_meta(&format!("host.{n}.host"), name);
        f.writer().set_meta(&format!("host.{n}.cpu_base"), cpu_base);
    }
    for i in 0..3u64 {
        for cpu in [0, 2, 4] {
            let (ns, cpu_share) = (|share: u64| Some(i * 10_000_000 * share), u64::from(cpu));
            let (user_ns, idle_ns) = (ns(30 + cpu_share), ns(50 - cpu_share));
            let system = System { user_ns, system_ns: ns(20), idle_ns, ..System::default() };
            f.push(i * 1_000_000_000 + u64::from(cpu), cpu, system);
            let pressure = Pressure { resource: 1, some_ns: ns(10), full_ns: None };
            f.push(i * 1_000_000_000 + u64::from(cpu), cpu, pressure);
        }
    }
    let due = same_counters(&f.finish());
    for (name, share) in [("vm (0): CPU user %", 30_000), ("vm (1): CPU user %", 32_000), ("node: CPU user %", 34_000)]
    {
        let values: Vec<u64> = due.iter().filter(|d| d.1 == name).map(|d| d.2).collect();
        assert_eq!(values, [share, share], "{name}");
    }
}

#[test]
fn the_counters_are_those_that_other_formats_have() {
    use ingero_format::catalog::{GpuSample, NO_CPU, Pressure, System};
    let mut f = Fixture::new();
    for i in 0..4u64 {
        let at = i * 1_000_000_000;
        let ns = |share: u64| Some(at * share / 100);
        let system = System {
            user_ns: ns(30),
            system_ns: ns(20),
            idle_ns: ns(40),
            iowait_ns: ns(5),
            steal_ns: ns(5),
            mem_total_bytes: Some(1 << 34),
            mem_available_bytes: Some(i << 30),
            load1_milli: Some(1_500 + i),
            ..System::default()
        };
        f.push(at, NO_CPU, system);
        for (resource, full_ns) in [(0, None), (1, ns(7)), (2, ns(150))] {
            f.push(at + 1, NO_CPU, Pressure { resource, some_ns: ns(10 * (resource + 1)), full_ns });
        }
        for device in 0..2 {
            let busy_percent = Some(10 * i + device);
            let sample = GpuSample {
                device,
                busy_percent,
                power_mw: Some(71_250),
                pcie_rx: Some(1 << 33),
                celsius: None,
                ..GpuSample::default()
            };
            f.push(at + 2, NO_CPU, sample);
        }
    }
    let due = same_counters(&f.finish());
    let (names, full) = (|name: &str| due.iter().filter(|d| d.1 == name).count(), "pressure io full %");
    assert_eq!(
        (names("GPU 1 busy %"), names("pressure memory full %"), names("pressure cpu full %"), names(full)),
        (4, 3, 0, 3)
    );
    assert!(due.iter().any(|d| d.1 == full && d.2 == 100_000), "no more than the whole");
}

/// The figures of a selection, as rows of texts.
fn figures(trace: &Trace, cut: &crate::export::Cut, sql: &str) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cut.sqlite");
    let selection = Selection::new(trace, ingero_replay::Window::whole(trace), cut).unwrap();
    export(trace, &selection, &path, false, &Progress::none()).unwrap();
    let db = Connection::open(&path).unwrap();
    let mut query = db.prepare(sql).unwrap();
    query.query_map([], |row| row.get::<_, String>(0)).unwrap().map(Result::unwrap).collect()
}

/// Two processes that switch with each other, wait, call and are handed pages.
fn two_processes() -> Trace {
    let mut f = Fixture::new();
    let (train, other) = (f.task(7, 7), f.task(8, 8));
    let func = f.func("cudaMalloc", Layer::Runtime, Class::Alloc);
    for (ts, task, name) in [(0, train, "train"), (0, other, "other")] {
        let name = f.writer().string(name);
        f.push(ts, 0, Name { task, name, source: 0 });
    }
    f.switch(1_000, 0, ingero_format::catalog::TaskId(0), 0, train);
    f.call(1_100, 0, train, func, 50);
    f.call(1_200, 0, train, func, 500);
    f.push(1_300, 0, PageAlloc { task: train, pfn: None, order: 0, gfp_flags: 0, migratetype: None });
    f.switch(2_000, 0, train, 1, other);
    f.waking(2_100, 0, other, train, 0);
    f.switch(9_000, 0, other, 1, train);
    f.switch(12_000, 0, train, 1, ingero_format::catalog::TaskId(0));
    f.finish()
}

#[test]
fn what_a_cut_leaves_out_is_no_zero_and_who_is_left_out_has_no_figures() {
    use crate::export::Cut;
    let trace = two_processes();
    let all = "SELECT pid || ' ' || context_switches || ' ' || off_cpu_ns || ' ' || on_cpu_ns || ' ' || page_allocs FROM process_figures ORDER BY pid";
    assert_eq!(figures(&trace, &Cut::default(), all), ["7 2 7000 4000 1", "8 1 0 7000 0"]);
    let pid = |pid| Cut { pids: vec![pid], ..Cut::default() };
    assert_eq!(figures(&trace, &pid(7), all), ["7 2 7000 4000 1"]);
    assert_eq!(figures(&trace, &pid(8), all), ["8 1 0 7000 0"]);
    let known = "SELECT pid || ' ' || count(context_switches) || count(off_cpu_count) || count(off_cpu_ns) || count(off_cpu_max_ns) \
        || count(blocked_ns) || count(runnable_ns) || count(unfinished_ns) || count(synthesised) || count(on_cpu_ns) || count(page_allocs) \
        || count(page_alloc_bytes) FROM process_figures GROUP BY pid";
    let only = |kind: &str| Cut { only: vec![kind.to_owned()], ..Cut::default() };
    assert_eq!(figures(&trace, &only("call"), known), ["7 00000000000"]);
    assert_eq!(figures(&trace, &only("sched_switch"), known), ["7 11111111100", "8 11101111100"]);
    assert_eq!(figures(&trace, &only("mm_page_alloc"), known), ["7 00000000011"]);
    // Of the short ones nothing is counted.
    let long = Cut { min_duration_ns: 100, ..Cut::default() };
    assert_eq!(figures(&trace, &long, known), ["7 00000000011", "8 00000000011"]);
    let states = "SELECT state || ' ' || dur_ns FROM thread_states WHERE dur_ns < 100";
    assert_eq!(figures(&trace, &long, states), [""; 0]);
    assert_eq!(
        figures(
            &trace,
            &Cut { min_duration_ns: 6_900, ..Cut::default() },
            "SELECT tid || ' ' || state || ' ' || dur_ns FROM thread_states ORDER BY 1"
        ),
        ["7 runnable 6900", "8 running 7000"]
    );
}

/// Sums of sizes that no machine has are those of the analysis, which ends at the largest word.
#[test]
fn sums_beyond_a_word_are_the_largest_one() {
    use ingero_format::catalog::Call;
    let call = |task, func, dur_ns, bytes| Call { bytes: Some(bytes), ..returned(task, func, dur_ns) };
    for sizes in [
        [i64::MAX as u64, i64::MAX as u64],
        [u64::MAX - 1, 2],
        [u64::MAX - 1, 0],
        [1 << 63, 1 << 62],
        [u64::from(u32::MAX), 1],
    ] {
        let mut f = Fixture::new();
        let task = f.task(7, 7);
        let func = f.func("cudaMalloc", Layer::Runtime, Class::Alloc);
        for (n, bytes) in (0u64..).zip(sizes) {
            f.push(1_000 * (n + 1), 0, call(task, func, 10, bytes));
            f.push(
                1_000 * (n + 1) + 50,
                0,
                PageAlloc { task, pfn: None, order: bytes, gfp_flags: 0, migratetype: None },
            );
        }
        let trace = f.finish();
        let analysis = Analysis::new(&trace, ingero_replay::Window::whole(&trace));
        let json: serde_json::Value =
            serde_json::from_str(&ingero_analyze::report::json(&analysis, &[]).unwrap()).unwrap();
        let (_dir, db, _) = exported(&trace);
        let process = &json["processes"][0];
        let sum: i64 = one(&db, "SELECT bytes FROM op_figures");
        assert_eq!(sum.cast_unsigned(), process["ops"][0]["bytes"].as_u64().unwrap(), "{sizes:?}");
        assert_eq!(sum.cast_unsigned(), sizes[0].saturating_add(sizes[1]));
        let pages: i64 = one(&db, "SELECT page_alloc_bytes FROM process_figures");
        assert_eq!(pages.cast_unsigned(), process["page_allocs"]["bytes"].as_u64().unwrap(), "{sizes:?}");
        assert_eq!(one::<i64>(&db, "SELECT mean_ns FROM op_figures"), 10);
    }
}

/// A mean of lengths that no call has.
#[test]
fn means_are_of_words_without_a_sign() {
    let db = Connection::open_in_memory().unwrap();
    let sql = include_str!("figures.sql");
    let from = sql.find("((sum_ns >> 32").unwrap();
    let mean = &sql[from..from + sql[from..].find(" AS mean_ns").unwrap()];
    for (sum, count) in
        [(u64::MAX, 1), (u64::MAX, 2), (u64::MAX - 1, 1_000_003), (1 << 63, 3), (10, 3), (1 << 40, 7), (0, 1)]
    {
        let sql = format!("SELECT {mean} FROM (SELECT {} AS sum_ns, {count} AS count)", sum.cast_signed());
        assert_eq!(one::<i64>(&db, &sql).cast_unsigned(), sum / count, "{sum} / {count}");
    }
    assert_eq!(one::<Option<i64>>(&db, &format!("SELECT {mean} FROM (SELECT 0 AS sum_ns, 0 AS count)")), None);
}

#[test]
fn where_calls_spent_their_time_is_unknown_without_switches() {
    let mut f = Fixture::new();
    let task = f.task(7, 7);
    let func = f.func("cudaMalloc", Layer::Runtime, Class::Alloc);
    f.call(1_000, 0, task, func, 10);
    let (_dir, db, _) = exported(&f.finish());
    assert_eq!(one::<i64>(&db, "SELECT count(running_ns) + count(runnable_ns) + count(blocked_ns) FROM calls"), 0);
    assert_eq!(one::<i64>(&db, "SELECT self_ns FROM calls"), 10);
}

/// All switches unreadable, or lost while recording: what is known of nobody is no zero, and the view tells the loss.
#[test]
fn where_all_switches_are_lost_states_are_null_and_the_loss_is_a_row() {
    use ingero_format::catalog::{Kind, Loss, NO_CPU};
    use ingero_format::layout::CHUNK_HEADER_LEN;
    let recording = |noted: bool| {
        let mut f = Fixture::new();
        let task = f.task(7, 7);
        let func = f.func("cudaMalloc", Layer::Runtime, Class::Alloc);
        f.switch(900, 0, TaskId(0), 0, task);
        f.call(1_000, 0, task, func, 10);
        f.switch(2_000, 0, task, 1, TaskId(0));
        if noted {
            let probe = f.writer().string("sched_switch");
            f.push(900, NO_CPU, Loss { to_ns: 2_000, probe, cause: 0, count: Some(5), of_host: None });
        }
        f.into_bytes()
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.igt");
    let opened = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        Trace::open(&path).unwrap()
    };
    let mut broken = recording(false);
    for b in opened(&broken).blocks().iter().filter(|b| b.header.kind == Kind::Switch as u16) {
        broken[usize::try_from(b.offset).unwrap() + CHUNK_HEADER_LEN + b.header.payload_len as usize - 1] ^= 4;
    }
    let times = "SELECT count(running_ns) + count(runnable_ns) + count(throttled_ns) + count(blocked_ns) FROM ";
    for (bytes, cause, lost) in [(broken, "damaged file", 2), (recording(true), "ring-full", 5)] {
        let (_dir, db, _) = exported(&opened(&bytes));
        for view in ["calls", "op_figures"] {
            assert_eq!(one::<i64>(&db, &format!("{times}{view}")), 0, "{cause}: {view}");
        }
        assert_eq!(one::<i64>(&db, "SELECT self_ns FROM calls"), 10);
        let told = "SELECT probe || ', ' || cause || ', ' || count || ', ' || ts_ns || ', ' || to_ns FROM losses";
        assert_eq!(one::<String>(&db, told), format!("sched_switch, {cause}, {lost}, 900, 2000"));
        assert_eq!(one::<i64>(&db, "SELECT count(*) FROM losses"), 1);
    }
    // Of a whole recording they are there.
    let (_dir, db, _) = exported(&opened(&recording(false)));
    assert_eq!(one::<i64>(&db, "SELECT running_ns FROM calls"), 10);
    assert_eq!(one::<i64>(&db, "SELECT count(*) FROM losses"), 0);
}

/// Where wakes are lost, the rest of a stay is neither blocked nor runnable.
#[test]
fn where_wakes_are_lost_a_stay_is_not_divided() {
    use ingero_format::catalog::{Loss, NO_CPU};
    let mut f = Fixture::new();
    let task = f.task(7, 7);
    f.switch(900, 0, TaskId(0), 0, task);
    f.switch(1_000, 0, task, 1, TaskId(0));
    let probe = f.writer().string("sched_waking");
    f.push(1_500, NO_CPU, Loss { to_ns: 2_000, probe, cause: 0, count: Some(5), of_host: None });
    f.switch(3_000, 0, TaskId(0), 0, task);
    f.switch(3_500, 0, task, 1, TaskId(0));
    let (_dir, db, _) = exported(&f.finish());
    let states = "SELECT group_concat(state || ' ' || start_ns || ' ' || end_ns || ' ' || before || unfinished, ', ') FROM \
        (SELECT * FROM thread_states WHERE dur_ns > 0 ORDER BY start_ns)";
    assert_eq!(
        one::<String>(&db, states),
        "running 900 1000 00, blocked 1000 1500 01, off-cpu 1500 3000 00, running 3000 3500 00"
    );
    let figures =
        "SELECT off_cpu_count || ' ' || blocked_ns || ' ' || runnable_ns || ' ' || on_cpu_ns FROM process_figures";
    assert_eq!(one::<String>(&db, figures), "0 0 0 600");
}

/// What a cut says of the machine is what the whole says of that time, from its first sample on.
#[test]
fn shares_at_the_first_sample_of_a_cut_are_those_of_the_whole() {
    use ingero_format::catalog::{NO_CPU, Pressure, System};
    let mut f = Fixture::new();
    for i in 0..5u64 {
        let ns = |share: u64| Some(i * i * 10_000_000 * share);
        let (user_ns, system_ns, idle_ns) = (ns(3 + i), ns(2), ns(5));
        f.push(i * 1_000_000_000, NO_CPU, System { user_ns, system_ns, idle_ns, ..System::default() });
        for resource in 0..2 {
            let at = i * 1_000_000_000 + 100 * resource;
            f.push(at, NO_CPU, Pressure { resource, some_ns: ns(1 + resource), full_ns: None });
        }
    }
    let trace = f.finish();
    let counters = |from_ns: u64| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cut.sqlite");
        let window = ingero_replay::Window { from_ns, ..ingero_replay::Window::whole(&trace) };
        let cut = Selection::new(&trace, window, &crate::export::Cut::default()).unwrap();
        export(&trace, &cut, &path, false, &Progress::none()).unwrap();
        let db = Connection::open(&path).unwrap();
        let mut query = db.prepare("SELECT ts_ns, name, value FROM counters ORDER BY 1, 2").unwrap();
        let rows = query
            .query_map([], |r| Ok((r.get::<_, i64>(0)?.cast_unsigned(), r.get::<_, String>(1)?, r.get::<_, f64>(2)?)));
        rows.unwrap().map(Result::unwrap).collect::<Vec<_>>()
    };
    let whole = counters(0);
    for from_ns in [1, 1_500_000_000, 2_000_000_000, 2_000_000_050, 3_000_000_000] {
        let due: Vec<_> = whole.iter().filter(|row| row.0 >= from_ns).cloned().collect();
        assert!(due.iter().any(|row| row.1 == "CPU user %") && due.iter().any(|row| row.1.starts_with("pressure")));
        assert_eq!(counters(from_ns), due, "from {from_ns}");
    }
}

/// In the file an unknown CPU is a number, in tables it is NULL.
#[test]
fn an_unknown_cpu_is_null_in_every_table() {
    use ingero_format::catalog::{Clock, NO_CPU, Wakeup, Waking};
    let unknown = u64::from(NO_CPU);
    let mut f = Fixture::new();
    let (main, worker) = (f.task(7, 7), f.task(7, 8));
    let func = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
    f.push(1, NO_CPU, Clock { boot_ns: 1, real_ns: 1, tsc: None, bracket_ns: 1 });
    f.push(2, NO_CPU, Wakeup { wakee: worker, target_cpu: unknown });
    f.push(3, 1, Waking { waker: main, wakee: worker, target_cpu: unknown, context: Some(0), irq: None, source: None });
    f.call(4, NO_CPU, worker, func, 5);
    f.switch(10, 1, main, 1, worker);
    f.switch(20, 1, worker, 1, main);
    f.push(
        25,
        1,
        Waking { waker: main, wakee: worker, target_cpu: unknown, context: Some(0), irq: None, source: None },
    );
    f.switch(30, 1, main, 1, worker);
    f.switch(40, 1, worker, 1, TaskId(0));
    let (_dir, db, _) = exported(&f.finish());
    let mut seen = 0;
    let names = "SELECT m.name, c.name FROM sqlite_schema m, pragma_table_info(m.name) c WHERE m.type IN ('table', 'view') AND c.name GLOB '*cpu'";
    let columns: Vec<(String, String)> = {
        let mut query = db.prepare(names).unwrap();
        query.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect()
    };
    for (table, column) in columns {
        let count =
            |what: &str| one::<i64>(&db, &format!("SELECT count(*) FROM \"{table}\" WHERE \"{column}\" {what}"));
        assert_eq!(count("= 65535"), 0, "{table}.{column}");
        seen += count("IS NULL");
    }
    assert!(seen >= 6, "{seen}");
    assert_eq!(one::<i64>(&db, "SELECT count(*) FROM wakeups WHERE target_cpu IS NULL"), 3);
    assert_eq!(one::<i64>(&db, "SELECT count(*) FROM calls WHERE cpu IS NULL"), 1);
    assert_eq!(
        one::<i64>(&db, "SELECT nullable FROM schema WHERE table_name = 'sched_wakeup' AND column_name = 'target_cpu'"),
        1
    );
    assert_eq!(
        one::<i64>(&db, "SELECT nullable FROM schema WHERE table_name = 'sched_wakeup' AND column_name = 'wakee'"),
        0
    );
}
