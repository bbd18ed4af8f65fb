//! Parts of long answers, and what was left out of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::problem::Problem;

/// Rows where a call does not say how many.
pub(crate) const DEFAULT_ROWS: u64 = 50;
/// Rows of one answer at most.
pub(crate) const MAX_ROWS: u64 = 500;
/// Rows that can be skipped at most: whoever wants more narrows the range.
pub(crate) const MAX_OFFSET: u64 = 100_000;
/// Bytes of the rows of one answer at most, as text and as structure each.
const MAX_BYTES: usize = 24 << 10;

/// Which rows of an answer are wanted.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
pub(crate) struct Paging {
    /// Rows to skip (at most 100000).
    pub(crate) offset: Option<u64>,
    /// Rows to show at most (default 50; more than 500 are taken as 500).
    pub(crate) limit: Option<u64>,
}

impl Paging {
    /// Which rows are wanted.
    ///
    /// # Errors
    /// When none can be meant.
    pub(crate) fn asked(self) -> Result<Asked, Problem> {
        if self.limit == Some(0) {
            return Err(Problem::new(format!(
                "limit=0 shows nothing; give 1 to {MAX_ROWS}, or leave it out for {DEFAULT_ROWS}"
            )));
        }
        if let Some(offset) = self.offset.filter(|&offset| offset > MAX_OFFSET) {
            return Err(Problem::new(format!(
                "offset={offset} is more than the {MAX_OFFSET} rows that can be skipped: narrow what is asked for, such as \
                 the range by from and to"
            )));
        }
        Ok(Asked::new(self.offset, self.limit))
    }
}

/// What of an answer is not in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct LeftOut {
    /// Rows that exist in all.
    pub(crate) total_rows: u64,
    /// Place of the first row that is shown.
    pub(crate) offset: u64,
    /// Rows before and after the shown ones.
    pub(crate) rows_left_out: u64,
    /// Give this as `offset` for the next rows; null when these were the last.
    pub(crate) next_offset: Option<u64>,
}

impl LeftOut {
    /// A sentence about it; none where everything is there.
    pub(crate) fn sentence(&self, what: &str) -> Option<String> {
        if self.rows_left_out == 0 {
            return None;
        }
        let shown = self.total_rows - self.rows_left_out;
        let range = match shown {
            0 => return Some(format!("Left out: all {} {what}. Give a smaller offset.", self.total_rows)),
            _ => format!("{what} {} to {} of {} are shown", self.offset + 1, self.offset + shown, self.total_rows),
        };
        Some(match self.next_offset {
            Some(next) => format!("Left out: {range}. For the next ones call again with offset={next}."),
            None => format!("Left out: {range}. These are the last; smaller offsets show those before."),
        })
    }
}

/// Which rows are wanted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    /// Rows to skip.
    pub(crate) offset: u64,
    /// Rows to show.
    pub(crate) limit: u64,
}

impl Asked {
    pub(crate) fn new(offset: Option<u64>, limit: Option<u64>) -> Self {
        let limit = limit.unwrap_or(DEFAULT_ROWS).clamp(1, MAX_ROWS);
        Self { offset: offset.unwrap_or(0).min(MAX_OFFSET), limit }
    }

    /// Those of all rows that are wanted and fit, with their texts.
    pub(crate) fn of<T: Serialize>(self, all: Vec<T>, text: impl Fn(&T) -> String) -> Shown<T> {
        let total = all.len() as u64;
        let skip = usize::try_from(self.offset).unwrap_or(usize::MAX);
        self.fit(all.into_iter().skip(skip), total, text)
    }

    /// Those of the rows that fit. The first `offset` are skipped already.
    pub(crate) fn fit<T: Serialize>(
        self,
        rows: impl IntoIterator<Item = T>,
        total: u64,
        text: impl Fn(&T) -> String,
    ) -> Shown<T> {
        let mut shown = Shown { rows: Vec::new(), lines: Vec::new(), left_out: LeftOut::default() };
        let (mut bytes, mut chars) = (0, 0);
        for row in rows.into_iter().take(usize::try_from(self.limit).unwrap_or(usize::MAX)) {
            let line = text(&row);
            bytes += serde_json::to_string(&row).map_or(0, |json| json.len());
            chars += line.len();
            if !shown.rows.is_empty() && bytes.max(chars) > MAX_BYTES {
                break;
            }
            shown.rows.push(row);
            shown.lines.push(line);
        }
        let count = shown.rows.len() as u64;
        let next = self.offset + count;
        shown.left_out = LeftOut {
            total_rows: total,
            offset: self.offset,
            rows_left_out: total.saturating_sub(count),
            next_offset: (count > 0 && next < total && next <= MAX_OFFSET).then_some(next),
        };
        shown
    }
}

/// Rows of an answer.
#[derive(Debug)]
pub(crate) struct Shown<T> {
    pub(crate) rows: Vec<T>,
    /// The rows in words.
    pub(crate) lines: Vec<String>,
    pub(crate) left_out: LeftOut,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(offset: u64, limit: u64, rows: u64, width: usize) -> Shown<String> {
        let all = (0..rows).map(|i| format!("{i:>width$}")).collect();
        Asked::new(Some(offset), Some(limit)).of(all, Clone::clone)
    }

    #[test]
    fn pages_follow_one_another_without_a_gap() {
        let (mut offset, mut seen) = (0, Vec::new());
        loop {
            let p = page(offset, 7, 30, 2);
            seen.extend(p.rows);
            match p.left_out.next_offset {
                Some(next) => offset = next,
                None => break,
            }
        }
        assert_eq!(seen.len(), 30);
        assert_eq!(page(0, 50, 30, 2).left_out.sentence("rows"), None);
        let said = page(7, 7, 30, 2).left_out.sentence("calls").unwrap();
        assert_eq!(said, "Left out: calls 8 to 14 of 30 are shown. For the next ones call again with offset=14.");
        let beyond = page(99, 7, 30, 2).left_out;
        assert_eq!(beyond.next_offset, None);
        assert_eq!(beyond.sentence("calls").unwrap(), "Left out: all 30 calls. Give a smaller offset.");
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        let asked = |offset, limit| Paging { offset, limit }.asked().map(|a| (a.offset, a.limit));
        assert_eq!(asked(None, None), Ok((0, DEFAULT_ROWS)));
        assert_eq!(asked(Some(MAX_OFFSET), Some(100_000)), Ok((MAX_OFFSET, MAX_ROWS)));
        assert!(asked(None, Some(0)).unwrap_err().to_string().starts_with("limit=0 shows nothing; give 1 to 500"));
        let far = asked(Some(1 << 60), None).unwrap_err().to_string();
        assert!(far.contains("is more than the 100000 rows that can be skipped"), "{far}");
    }

    #[test]
    fn an_answer_is_never_larger_than_it_may_be() {
        let p = page(0, 500, 500, 1000);
        let bytes: usize = p.lines.iter().map(String::len).sum();
        assert!(bytes <= MAX_BYTES, "{bytes}");
        assert_eq!(p.left_out.next_offset, Some(p.rows.len() as u64));
        // One row is shown whatever its size: rows are limited by themselves.
        assert_eq!(page(0, 5, 5, 2 * MAX_BYTES).rows.len(), 1);
    }
}
