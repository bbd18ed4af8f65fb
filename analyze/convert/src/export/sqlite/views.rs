//! Views: the tables with names in place of numbers, and the figures of the analysis.

use rusqlite::Connection;

use super::integer;
use super::tables::Tables;
use crate::export::selection::Selection;

/// Writes the views, each where the trace has what it is made of.
pub(super) fn write(db: &Connection, tables: &Tables, selection: &Selection) -> rusqlite::Result<()> {
    // The name of a task at a moment: the latest one given until then, else its first.
    let names = tables.with("task_name", &["task", "name", "ts_ns"]).is_some();
    let name_at = |task: &str, ts: &str| {
        if !names {
            return "NULL".to_owned();
        }
        format!(
            "coalesce((SELECT n.name FROM task_name n WHERE n.task = {task} AND n.ts_ns <= {ts} ORDER BY n.ts_ns DESC, n.id DESC LIMIT 1), \
             (SELECT n.name FROM task_name n WHERE n.task = {task} ORDER BY n.ts_ns, n.id LIMIT 1))"
        )
    };
    let enum_name = |table: &str, column: &str, alias: &str| {
        format!(
            "(SELECT v.name FROM enum_values v WHERE v.table_name = '{table}' AND v.column_name = '{column}' \
             AND v.value = {alias}.{column})"
        )
    };
    let call = [
        "ts_ns", "cpu", "task", "func", "func_id", "dur_ns", "end", "result", "ptr", "ptr2", "bytes", "copy", "stream",
    ];
    let known = |name: &str, columns: &[&str]| {
        // The column of a function's id is ours, not the file's.
        let columns: Vec<_> = columns.iter().copied().filter(|c| *c != "func_id" && *c != "probe_id").collect();
        tables.with(name, &columns).is_some()
    };
    if known("call", &call) {
        db.execute_batch(&format!(
            "CREATE VIEW calls AS SELECT c.ts_ns, c.dur_ns, c.func AS function, f.layer, f.class, t.pid, t.tid, \
             {process} AS process, {thread} AS thread, c.cpu, {end} AS \"end\", c.result, c.bytes, {copy} AS copy, \
             CASE WHEN c.stream IS NOT NULL THEN printf('0x%llx', c.stream) END AS stream, \
             CASE WHEN c.ptr IS NOT NULL THEN printf('0x%llx', c.ptr) END AS ptr, \
             CASE WHEN c.ptr2 IS NOT NULL THEN printf('0x%llx', c.ptr2) END AS ptr2, \
             d.depth, d.self_ns, d.running_ns, d.runnable_ns, d.throttled_ns, d.blocked_ns, c.task, c.id AS call \
             FROM call c JOIN tasks t ON t.id = c.task JOIN processes p ON p.id = t.process \
             LEFT JOIN functions f ON f.id = c.func_id LEFT JOIN call_time d ON d.call = c.id",
            process = name_at("coalesce(p.leader, c.task)", "c.ts_ns"),
            thread = name_at("c.task", "c.ts_ns"),
            end = enum_name("call", "end", "c").replace("c.end", "c.\"end\""),
            copy = enum_name("call", "copy", "c"),
        ))?;
    }
    if known("sched_switch", &["ts_ns", "cpu", "prev", "prev_state", "next"]) {
        db.execute_batch(&format!(
            "CREATE VIEW switches AS SELECT s.ts_ns, s.cpu, p.pid AS prev_pid, p.tid AS prev_tid, {prev} AS prev_name, \
             s.prev_state, n.pid AS next_pid, n.tid AS next_tid, {next} AS next_name, s.prev, s.next \
             FROM sched_switch s JOIN tasks p ON p.id = s.prev JOIN tasks n ON n.id = s.next",
            prev = name_at("s.prev", "s.ts_ns"),
            next = name_at("s.next", "s.ts_ns"),
        ))?;
    }
    let mut wakes = Vec::new();
    if known("sched_waking", &["ts_ns", "cpu", "waker", "wakee", "target_cpu", "context"]) {
        wakes.push(format!(
            "SELECT ts_ns, cpu, 'waking' AS event, wakee, CASE WHEN context = 0 AND waker <> 0 THEN waker END AS waker, \
             {context} AS context, target_cpu FROM sched_waking w",
            context = enum_name("sched_waking", "context", "w"),
        ));
    }
    for (table, event) in [("sched_wakeup", "wakeup"), ("sched_wakeup_new", "wakeup-new")] {
        if known(table, &["ts_ns", "cpu", "wakee", "target_cpu"]) {
            wakes.push(format!(
                "SELECT ts_ns, cpu, '{event}' AS event, wakee, NULL AS waker, NULL AS context, target_cpu FROM {table}"
            ));
        }
    }
    if !wakes.is_empty() {
        db.execute_batch(&format!(
            "CREATE VIEW wakeups AS SELECT a.ts_ns, a.cpu, a.event, t.pid, t.tid, {name} AS name, a.target_cpu, \
             a.context, r.pid AS waker_pid, r.tid AS waker_tid, {waker} AS waker_name, a.wakee, a.waker \
             FROM ({all}) a JOIN tasks t ON t.id = a.wakee LEFT JOIN tasks r ON r.id = a.waker",
            name = name_at("a.wakee", "a.ts_ns"),
            waker = name_at("a.waker", "a.ts_ns"),
            all = wakes.join(" UNION ALL "),
        ))?;
    }
    let thread = |task: &str, ts: &str| {
        let process = name_at(&format!("coalesce(p.leader, {task})"), ts);
        format!("t.pid, t.tid, {process} AS process, {} AS thread", name_at(task, ts))
    };
    let who = "JOIN tasks t ON t.id = s.task JOIN processes p ON p.id = t.process";
    db.execute_batch(&format!(
        "CREATE VIEW thread_states AS SELECT * FROM (SELECT s.start_ns, s.end_ns, s.end_ns - s.start_ns AS dur_ns, s.state, s.cpu, {names}, \
         s.before, s.unfinished, s.synthesised, s.waker, s.task FROM ( \
         SELECT task, 'running' AS state, start_ns, end_ns, cpu, before, unfinished, synthesised, NULL AS waker FROM run \
         UNION ALL SELECT task, 'throttled', start_ns, end_ns, out_cpu, before, unfinished, 0, NULL FROM stay \
         WHERE kind = 'throttled' \
         UNION ALL SELECT task, 'blocked', start_ns, start_ns + blocked_ns, out_cpu, before, \
         unfinished AND runnable_ns = 0, 0, waker FROM stay WHERE blocked_ns > 0 \
         UNION ALL SELECT task, 'runnable', end_ns - runnable_ns, end_ns, wait_cpu, before AND blocked_ns = 0, unfinished, 0, \
         waker FROM stay WHERE runnable_ns > 0 \
         UNION ALL SELECT task, 'off-cpu', start_ns, end_ns, NULL, before, unfinished, 0, NULL FROM stored_stay \
         UNION ALL SELECT task, 'off-cpu', start_ns, end_ns, NULL, before, unfinished, 0, NULL FROM undivided) s {who}) \
         WHERE dur_ns >= {shortest}",
        names = thread("s.task", "s.start_ns"),
        shortest = integer(selection.min_duration_ns),
    ))?;
    db.execute_batch(&format!(
        "CREATE VIEW off_cpu AS SELECT s.start_ns, s.end_ns, s.end_ns - s.start_ns AS dur_ns, s.kind, {names}, s.blocked_ns, \
         s.runnable_ns, s.throttled_ns, s.woken_by, w.pid AS waker_pid, w.tid AS waker_tid, {waker} AS waker_name, \
         s.out_cpu, s.wait_cpu, s.in_cpu, \
         (SELECT h.tid FROM behind b JOIN tasks h ON h.id = b.holder WHERE b.stay = s.id ORDER BY b.ns DESC, h.id LIMIT 1) \
         AS behind_tid, \
         (SELECT b.ns FROM behind b WHERE b.stay = s.id ORDER BY b.ns DESC LIMIT 1) AS behind_ns, \
         s.prev_state, s.syscall, s.before, s.unfinished, s.synthesised, s.task, s.waker, s.id AS stay \
         FROM stay s {who} LEFT JOIN tasks w ON w.id = s.waker \
         UNION ALL SELECT s.start_ns, s.end_ns, s.end_ns - s.start_ns, 'stored', {names}, \
         NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, s.before, s.unfinished, 0, s.task, \
         NULL, NULL FROM stored_stay s {who}",
        names = thread("s.task", "s.start_ns"),
        waker = name_at("s.waker", "s.end_ns"),
    ))?;
    db.execute_batch(
        "CREATE VIEW phases AS SELECT h.id AS phase, p.pid, p.name AS process, h.start_ns, h.end_ns, h.submissions, h.gaps, \
         h.gaps_ns, h.gaps_share, h.gaps_running_ns, h.gaps_runnable_ns, h.gaps_throttled_ns, h.gaps_blocked_ns, h.label, \
         h.unclaimed_ns, h.asked_ns, h.lost_gaps, h.lost_gaps_ns, h.workers, h.warm_up, h.step_ns, h.busy_percent, h.busy_samples, \
         h.busy_devices, h.busy_idle_ns, h.busy_told_ns, h.busy_unqueued_ns \
         FROM phase h JOIN processes p ON p.id = h.process; \
         CREATE VIEW incidents AS SELECT i.rank, i.severity, i.kind, p.pid, p.name AS process, i.phase, i.lost_ns, i.at_most, i.share, \
         i.summary, i.root_cause, (SELECT group_concat(a.text, char(10)) FROM (SELECT text FROM incident_advice \
         WHERE incident = i.id ORDER BY number) a) AS advice, i.id, i.fed_ns, i.op FROM incident i JOIN processes p ON p.id = i.process",
    )?;
    counters(db, &known, selection)?;
    let switch = known("sched_switch", &["prev"]);
    let alloc = known("mm_page_alloc", &["task", "order"]);
    if switch && alloc && known("call", &call) {
        db.execute_batch(&with_sums(include_str!("figures.sql")))?;
    }
    Ok(())
}

/// SQL with each `SUM64(x)` spelled out: the sum of words of 64 bits as those of the analysis are, without a sign and
/// never beyond the largest word, where SQLite's own ends the query. High and low halves are summed on their own.
fn with_sums(sql: &str) -> String {
    const NAME: &str = "SUM64(";
    let Some((before, rest)) = sql.split_once(NAME) else { return sql.to_owned() };
    let mut depth = 1;
    let end = rest.find(|c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth == 0
    });
    let (x, after) = rest.split_at(end.unwrap_or(rest.len()));
    let (high, low) = (format!("sum(({x}) >> 32 & 4294967295)"), format!("sum(({x}) & 4294967295)"));
    let carried = format!("({high} + ({low} >> 32))");
    format!(
        "{before}(CASE WHEN {carried} > 4294967295 THEN -1 ELSE ({carried} << 32) | ({low} & 4294967295) END){}",
        with_sums(after.get(1..).unwrap_or_default())
    )
}

/// Writes the view of the counters over time, of those sources that the trace's schema has.
fn counters(db: &Connection, known: &dyn Fn(&str, &[&str]) -> bool, selection: &Selection) -> rusqlite::Result<()> {
    /// A table, the columns that are needed of it, what its values are made by, and the values.
    type Source = (&'static str, &'static [&'static str], &'static str, &'static str);
    const SOURCES: [Source; 3] = [
        (
            "system",
            &[
                "user_ns",
                "system_ns",
                "idle_ns",
                "iowait_ns",
                "steal_ns",
                "mem_total_bytes",
                "mem_available_bytes",
                "swap_used_bytes",
                "load1_milli",
            ],
            include_str!("counters_system.sql"),
            "system_values",
        ),
        ("pressure", &["resource", "some_ns", "full_ns"], include_str!("counters_pressure.sql"), "pressure_values"),
        (
            "gpu_sample",
            &[
                "device",
                "busy_percent",
                "memory_busy_percent",
                "memory_used_bytes",
                "sm_mhz",
                "memory_mhz",
                "pcie_rx",
                "pcie_tx",
                "power_mw",
                "celsius",
            ],
            include_str!("counters_gpu.sql"),
            "gpu_values",
        ),
    ];
    let there: Vec<_> = SOURCES
        .iter()
        .filter(|(table, columns, ..)| known(table, &["ts_ns", "cpu"]) && known(table, columns))
        .collect();
    if there.is_empty() {
        return Ok(());
    }
    let made: Vec<_> = there.iter().map(|(.., made, _)| *made).collect();
    let values: Vec<_> =
        there.iter().map(|(.., values)| format!("SELECT ts_ns, host, name, value FROM {values}")).collect();
    db.execute_batch(include_str!("hosts.sql"))?;
    // The sample before a range is there for the shares at its first one.
    let window = selection.window;
    let within = if window.is_cut() { format!("AND ts_ns >= {}", integer(window.from_ns)) } else { String::new() };
    db.execute_batch(&format!(
        "CREATE VIEW counters AS WITH {} SELECT ts_ns, coalesce(host, '') || name AS name, value FROM ({}) \
         WHERE value IS NOT NULL {within}",
        made.join(","),
        values.join(" UNION ALL ")
    ))
}

/// Whether the figures are there: a file's schema may lack what they are made of.
pub(super) fn has_figures(db: &Connection) -> rusqlite::Result<bool> {
    db.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'view' AND name = 'op_figures'")?.exists([])
}
