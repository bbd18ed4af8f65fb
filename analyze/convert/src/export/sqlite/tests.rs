use super::*;
use ingero_format::catalog::{Class, Layer, Name, PageAlloc};
use ingero_replay::fixture::Fixture;

fn exported(trace: &Trace) -> (tempfile::TempDir, Connection, Exported) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.sqlite");
    let done = export(trace, &path, false, &Progress::none()).unwrap();
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
    db.execute_batch(FIXED).unwrap();
    write_schema(&db, &schema, &tables).unwrap();
    for table in &tables.0 {
        table.create_indexes(&db).unwrap();
        db.prepare(&table.insert_sql()).unwrap();
    }
    write_views(&db, &tables).unwrap();
    assert_eq!(one::<i64>(&db, "SELECT count(DISTINCT table_name) FROM schema"), 5);
    assert_eq!(one::<i64>(&db, "SELECT count(*) FROM meta"), 0);
}

#[test]
fn nothing_is_overwritten_unasked() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file:run.sqlite?mode=memory");
    let trace = Fixture::new().finish();
    export(&trace, &path, false, &Progress::none()).unwrap();
    assert!(path.exists());
    assert!(matches!(export(&trace, &path, false, &Progress::none()), Err(Error::Exists(_))));
    export(&trace, &path, true, &Progress::none()).unwrap();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}
