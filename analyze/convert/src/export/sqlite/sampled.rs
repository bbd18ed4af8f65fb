//! Figures of a source that kept a sample: no query over the stored events finds them, so they are
//! rows in place of views. In a recording of several hosts those of the others stand beside them.

use ingero_analyze::{Analysis, OpTotals};
use ingero_format::catalog::Kind;
use rusqlite::{Connection, params};

use super::integer;
use crate::export::selection::Selection;

/// Puts tables with the analysis's figures in place of the views, whose columns they have. What cannot
/// be known is NULL.
pub(super) fn write(db: &Connection, a: &Analysis, selection: &Selection) -> rusqlite::Result<()> {
    for (view, process) in [("process_figures", "id"), ("op_figures", "process_id"), ("behind_figures", "process_id")] {
        db.execute_batch(&format!(
            "CREATE TABLE of_all AS SELECT * FROM {view} WHERE {process} IN (SELECT process FROM known WHERE NOT sampled); \
             DROP VIEW {view}; ALTER TABLE of_all RENAME TO {view}"
        ))?;
    }
    let mut process = db.prepare(
        "INSERT INTO process_figures (pid, process, parent_pid, threads, context_switches, off_cpu_count, off_cpu_ns,
         off_cpu_max_ns, page_allocs, page_alloc_bytes, id) VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?;
    let mut op = db.prepare(
        "INSERT INTO op_figures (pid, process, layer, function, count, bytes, sum_ns, mean_ns, max_ns, process_id)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?;
    for id in a.active().into_iter().filter(|id| a.sampled_of(*id)) {
        let p = a.processes.get(id);
        if !selection.shows_process(p) {
            continue;
        }
        let totals = a.figures(id).totals.as_ref();
        let off = totals.and_then(|t| t.off_cpu).filter(|_| selection.counts(Kind::OffCpu));
        let pages = totals.and_then(|t| t.page_allocs).filter(|_| selection.takes_kind(Kind::PageAlloc));
        let totals = totals.filter(|_| selection.counts(Kind::Call));
        process.execute(params![
            p.pid,
            a.name(id),
            p.parent_pid,
            integer(p.threads.len() as u64),
            off.map(|t| integer(t.count)),
            off.and_then(|t| t.sum_ns).map(integer),
            off.and_then(|t| t.max_ns).map(integer),
            pages.map(|t| integer(t.count)),
            pages.and_then(|t| t.bytes).map(integer),
            id.0,
        ])?;
        for (func, _) in a.ops(id) {
            let info = a.trace.function(func);
            let totals: Option<&OpTotals> = totals.and_then(|t| t.ops.get(&func));
            op.execute(params![
                p.pid,
                a.name(id),
                info.map_or("?", |i| i.layer.name()),
                info.map_or("?", |i| i.symbol.as_str()),
                totals.map(|t| integer(t.count)),
                totals.and_then(|t| t.bytes).map(integer),
                totals.and_then(|t| t.sum_ns).map(integer),
                totals.and_then(OpTotals::mean_ns).map(integer),
                totals.and_then(|t| t.max_ns).map(integer),
                id.0,
            ])?;
        }
    }
    Ok(())
}
