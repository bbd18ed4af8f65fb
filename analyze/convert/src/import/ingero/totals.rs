//! The totals per minute: all that the source tells of the events that it did not store.

use std::collections::BTreeMap;
use std::io::Write;

use ingero_format::catalog::{Aggregate, NO_CPU};

use super::database::{Refusal, Values};
use super::{Import, Meta};
use crate::error::Error;

/// Length of a bucket.
const BUCKET_NS: u64 = 60_000_000_000;

/// What the totals add up to.
#[derive(Debug, Default)]
pub(super) struct Totals {
    rows: u64,
    counted: u64,
    claimed: u64,
    /// Stored rows that the totals claim, less those there are, by operation, where that is not 0.
    missing: BTreeMap<String, i64>,
}

impl Totals {
    /// Keys of the file.
    pub(super) fn meta(&self) -> Meta {
        if self.rows == 0 {
            return vec![("totals".to_owned(), "none".to_owned())];
        }
        vec![
            ("totals".to_owned(), "per minute".to_owned()),
            ("counted_events".to_owned(), self.counted.to_string()),
            ("stored_claimed".to_owned(), self.claimed.to_string()),
        ]
    }

    /// Whether they count no event that is not stored.
    pub(super) fn counts_no_more_than(&self, stored: u64) -> bool {
        self.counted <= stored
    }

    /// What to tell of them; `whole` says that the database has every event.
    pub(super) fn notes(&self, stored: u64, whole: bool) -> Vec<String> {
        if whole && self.rows == 0 {
            return vec![format!("not a sample: the database has all {stored} events")];
        }
        if self.rows == 0 {
            return vec![format!(
                "a sample: the database keeps no totals, so the {stored} stored events are all that can be counted"
            )];
        }
        let how_many = match self.counted.checked_sub(stored) {
            Some(0) => format!("all {stored} counted events are stored"),
            _ => format!("a sample: {stored} of {} counted events are stored", self.counted),
        };
        let mut notes = vec![format!("{how_many}; totals are kept")];
        if self.claimed != stored {
            let by_op: Vec<_> = self.missing.iter().map(|(op, n)| format!("{op} {n:+}")).collect();
            notes.push(format!(
                "its totals claim {} stored rows, {stored} exist (claimed less existing: {})",
                self.claimed,
                by_op.join(", ")
            ));
        }
        notes
    }
}

/// Imports them. What the totals say of stored rows is held against the rows.
pub(super) fn import<W: Write>(import: &mut Import<W>, from_ns: u64, totals: &mut Totals) -> Result<(), Error> {
    if import.db.columns("event_aggregates")?.is_empty() {
        return Ok(());
    }
    let mut by_op: BTreeMap<(i64, i64, u32), i64> = BTreeMap::new();
    let sql = "SELECT rowid AS row_id, * FROM event_aggregates ORDER BY bucket, source, op, pid";
    let transcript = &mut import.transcript;
    import.db.each("event_aggregates", sql, import.keep_going.then_some(&mut import.skipped), |row| {
        let row = Values(row);
        let (bucket_ns, pid) = (row.count("bucket")?, row.id("pid")?);
        let (source, op) = (row.integer("source")?, row.integer("op")?);
        let (count, stored) = (row.count("count")?, row.count("stored")?);
        let max_dur_ns = row.count("max_dur")?;
        if stored > count {
            return Err(Refusal::Value(format!("column stored: {stored} of {count} events")));
        }
        let (sum, min) = (row.count("sum_dur")?, row.count("min_dur")?);
        let timed = |ns: u64| (max_dur_ns > 0).then_some(ns);
        let func = transcript.function(source, op);
        let operation = transcript.vocabulary.get(source, op);
        let aggregate = Aggregate {
            source: transcript.writer.string(&operation.source),
            op: transcript.writer.string(&operation.name),
            func,
            task: transcript.people.task(&mut transcript.writer, pid, pid),
            bucket_ns,
            len_ns: BUCKET_NS,
            count,
            stored,
            sum_dur_ns: timed(sum),
            min_dur_ns: timed(min),
            max_dur_ns: timed(max_dur_ns),
            sum_arg0: row.count("sum_arg0")?,
        };
        transcript.writer.push(bucket_ns.max(from_ns), NO_CPU, &aggregate)?;
        totals.rows += 1;
        totals.counted = totals.counted.saturating_add(count);
        totals.claimed = totals.claimed.saturating_add(stored);
        let claimed = by_op.entry((source, op, pid)).or_default();
        *claimed = claimed.saturating_add(i64::try_from(stored).unwrap_or(i64::MAX));
        Ok(())
    })?;
    if totals.rows > 0 {
        let sql = "SELECT max(rowid) AS row_id, source, op, pid, count(*) AS n FROM events GROUP BY source, op, pid";
        import.db.each("events", sql, None, |row| {
            let row = Values(row);
            if let (Ok(source), Ok(op), Ok(pid)) = (row.integer("source"), row.integer("op"), row.id("pid")) {
                let claimed = by_op.entry((source, op, pid)).or_default();
                *claimed = claimed.saturating_sub(row.integer("n")?);
            }
            Ok(())
        })?;
    }
    for ((source, op, _), missing) in by_op.into_iter().filter(|(_, n)| *n != 0) {
        let name = &import.transcript.vocabulary.get(source, op).name;
        let of_op = totals.missing.entry(name.clone()).or_default();
        *of_op = of_op.saturating_add(missing);
        // Stored rows that the totals do not claim are events that they do not count.
        totals.counted = totals.counted.saturating_add(missing.min(0).unsigned_abs());
    }
    Ok(())
}
