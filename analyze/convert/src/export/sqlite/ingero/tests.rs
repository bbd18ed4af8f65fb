use super::*;
use ingero_format::catalog::{
    BlockComplete, BlockIssue, Call, Class, Clock as ClockRow, END_OPEN, Layer, NO_CPU, Name, PageAlloc,
};
use ingero_replay::fixture::Fixture;

/// Columns and indexes of a public database of ingero's; the file says which.
const PUBLIC: &str = include_str!("../../../../tests/fixtures/ingero-0.9-schema.tsv");

fn exported(trace: &Trace) -> (tempfile::TempDir, Connection, Exported) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.db");
    let done = export(trace, &Selection::whole(trace), &path, false, &Progress::none()).unwrap();
    (dir, Connection::open(&path).unwrap(), done)
}

fn rows(db: &Connection, sql: &str) -> Vec<String> {
    let mut query = db.prepare(sql).unwrap();
    let width = query.column_count();
    let row = |r: &rusqlite::Row| {
        let cell = |i| r.get::<_, rusqlite::types::Value>(i);
        (0..width)
            .map(|i| cell(i).map(|v| shown(&v)))
            .collect::<rusqlite::Result<Vec<_>>>()
            .map(|cells| cells.join("\t"))
    };
    query.query_map([], row).unwrap().map(Result::unwrap).collect()
}

fn shown(value: &rusqlite::types::Value) -> String {
    use rusqlite::types::Value;
    match value {
        Value::Null => String::new(),
        Value::Integer(i) => i.to_string(),
        Value::Real(r) => r.to_string(),
        Value::Text(t) => t.clone(),
        Value::Blob(b) => format!("{b:?}"),
    }
}

#[test]
fn every_table_column_and_index_is_that_of_the_public_databases() {
    let (_dir, db, _) = exported(&Fixture::new().finish());
    let mut ours = Vec::new();
    for table in
        rows(&db, "SELECT name FROM sqlite_master WHERE type = 'table' AND name <> 'sqlite_sequence' ORDER BY rowid")
    {
        for column in
            rows(&db, &format!("SELECT name, type, \"notnull\", dflt_value, pk FROM pragma_table_info('{table}')"))
        {
            ours.push(format!("column\t{table}\t{column}"));
        }
    }
    let indexes = rows(
        &db,
        "SELECT tbl_name, name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL ORDER BY rowid",
    );
    for index in indexes {
        let parts: Vec<_> = index.split('\t').collect();
        let columns = rows(&db, &format!("SELECT name FROM pragma_index_info('{}')", parts[1])).join(",");
        let unique = u8::from(parts[2].starts_with("CREATE UNIQUE"));
        let filter = parts[2].find("WHERE").map_or("", |at| &parts[2][at..]);
        ours.push(format!("index\t{}\t{}\t{columns}\t{unique}\t{filter}\t", parts[0], parts[1]));
    }
    let public: Vec<_> = PUBLIC.lines().filter(|l| !l.starts_with('#')).collect();
    assert!(public.len() > 100);
    assert_eq!(ours, public);
}

#[test]
fn events_stand_as_ingero_writes_them() {
    let mut f = Fixture::new();
    f.writer().set_meta("host", "gpu-7");
    let (main, idle) = (f.task(7, 7), TaskId(0));
    let launch = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
    let wait = f.func("cudaEventSynchronize", Layer::Runtime, Class::Sync);
    let name = f.writer().string("train");
    let rwbs = f.writer().string("WS");
    f.push(1_000, 0, ClockRow { boot_ns: 0, real_ns: 60_000_000_000, tsc: None, bracket_ns: 1 });
    f.push(1_000, 0, Name { task: main, name, source: 0 });
    f.call(2_000, 0, main, launch, 500);
    f.call(3_000, 0, main, wait, 10_000);
    f.switch(4_000, 0, main, 1, idle);
    f.switch(9_000, 0, idle, 0, main);
    f.push(14_000, 0, PageAlloc { task: main, pfn: None, order: 1, gfp_flags: 0, migratetype: None });
    f.push(15_000, 0, BlockIssue { task: main, dev: 1, sector: 8, bytes: 4096, rwbs });
    f.push(16_000, 0, BlockComplete { dev: 1, sector: 8, bytes: 4096, rwbs, error: 0 });
    let open = Call {
        task: main,
        func: launch,
        dur_ns: None,
        end: END_OPEN,
        result: None,
        ptr: Some(u64::MAX - 1),
        ptr2: None,
        bytes: None,
        copy: None,
        stream: None,
        device: None,
    };
    f.push(17_000, 0, open);
    let trace = f.finish();
    let (_dir, db, done) = exported(&trace);
    assert_eq!(done, Exported { rows: 6, damaged: 0 });
    let seen = rows(
        &db,
        "SELECT s.name, o.name, e.timestamp - 60000000000, e.pid, e.duration, e.arg0, e.arg1, e.ret_code, e.node FROM events e \
         JOIN sources s ON s.id = e.source JOIN ops o ON o.source_id = e.source AND o.op_id = e.op ORDER BY e.timestamp",
    );
    assert_eq!(
        seen,
        [
            "CUDA\tcudaLaunchKernel\t1000\t7\t500\t0\t0\t0\tgpu-7",
            "CUDA\tcudaEventSynchronize\t2000\t7\t10000\t0\t0\t0\tgpu-7",
            "HOST\tsched_switch\t8000\t7\t5000\t0\t7\t0\tgpu-7",
            "HOST\tmm_page_alloc\t13000\t7\t0\t8192\t0\t0\tgpu-7",
            "IO\tblock_write\t15000\t7\t1000\t8\t8\t0\tgpu-7",
            "CUDA\tcudaLaunchKernel\t16000\t7\t0\t-2\t0\t-1\tgpu-7",
        ]
    );
    assert_eq!(rows(&db, "SELECT name FROM process_names"), ["train"]);
    assert_eq!(rows(&db, "SELECT sum(count), sum(stored) FROM event_aggregates"), ["6\t6"]);
    assert_eq!(rows(&db, "SELECT sum_arg0 FROM event_aggregates WHERE source = 1 AND op = 3"), ["0"]);
    assert_eq!(rows(&db, "SELECT value FROM schema_info WHERE key = 'version'"), ["0.9"]);
}

/// Two hosts have disks of one number, and requests of one sector at a time.
#[test]
fn a_completion_is_of_a_request_of_its_own_host() {
    let mut f = Fixture::new();
    for (key, value) in [
        ("hosts", "2"),
        ("host.0.host", "a"),
        ("host.0.cpu_base", "0"),
        ("host.0.pid_base", "0"),
        ("host.1.host", "b"),
        ("host.1.cpu_base", "2"),
        ("host.1.pid_base", "4194304"),
    ] {
        f.writer().set_meta(key, value);
    }
    let (a, b) = (f.task(7, 7), f.task(4_194_311, 4_194_311));
    let rwbs = f.writer().string("R");
    let issue = |task| BlockIssue { task, dev: 1, sector: 8, bytes: 4096, rwbs };
    let done = BlockComplete { dev: 1, sector: 8, bytes: 4096, rwbs, error: 0 };
    f.push(1_000, 0, issue(a));
    f.push(2_000, 2, issue(b));
    f.push(5_000, 1, done);
    f.push(9_000, 3, done);
    // What the kernel asks for in an interrupt is nobody's, and its host's all the same.
    f.push(10_000, 3, issue(TaskId(0)));
    f.push(10_500, 0, done);
    f.push(11_000, 2, done);
    // Where the source has no CPUs, one that is under way on a single host is that.
    f.push(12_000, NO_CPU, issue(b));
    f.push(12_300, NO_CPU, done);
    f.push(13_000, NO_CPU, issue(a));
    f.push(13_000, NO_CPU, issue(b));
    f.push(13_300, NO_CPU, done);
    let (_dir, db, _) = exported(&f.finish());
    let seen = rows(&db, "SELECT node, pid, duration FROM events WHERE source = 5 ORDER BY timestamp");
    assert_eq!(seen, ["a\t7\t4000", "b\t4194311\t7000", "\t0\t1000", "b\t4194311\t300"]);
}

/// A sample of the CPUs counts from the one before of its own host.
#[test]
fn each_host_has_its_own_shares_of_cpu_time() {
    let mut f = Fixture::new();
    for (key, value) in [("host.0.cpu_base", "0"), ("host.1.cpu_base", "2"), ("hosts", "2")] {
        f.writer().set_meta(key, value);
    }
    let system = |user_ns, idle_ns| ingero_format::catalog::System {
        user_ns: Some(user_ns),
        system_ns: Some(0),
        steal_ns: Some(0),
        idle_ns: Some(idle_ns),
        iowait_ns: Some(0),
        mem_total_bytes: Some(1 << 30),
        mem_available_bytes: Some(1 << 29),
        swap_used_bytes: Some(0),
        load1_milli: Some(0),
        ..ingero_format::catalog::System::default()
    };
    f.push(1_000, 0, system(1_000, 9_000));
    f.push(1_001, 2, system(900_000, 100_000));
    f.push(2_000, 0, system(2_000, 18_000));
    f.push(2_001, 2, system(990_000, 110_000));
    let (_dir, db, _) = exported(&f.finish());
    assert_eq!(rows(&db, "SELECT round(cpu_pct) FROM system_snapshots ORDER BY timestamp"), ["0", "0", "10", "90"]);
}
