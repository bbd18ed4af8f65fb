//! All events of a trace in the order of their times.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, HashSet};

use ingero_format::catalog::{Body, CPU, END_OPEN, Kind, NULL, TS, Unit, event_kind};
use ingero_format::{Batch, Error, IndexEntry, Trace};

/// Places of the columns of a call.
const CALL_TASK: usize = 2;
const CALL_FUNC: usize = 3;
const CALL_END: usize = 5;

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// `CLOCK_MONOTONIC` nanoseconds.
    pub ts_ns: u64,
    /// CPU on which it was recorded, [`ingero_format::catalog::NO_CPU`] where it belongs to none.
    pub cpu: u32,
    /// Its fields.
    pub body: Body,
}

/// A block that could not be read while merging.
#[derive(Debug)]
pub struct LostBlock {
    /// The block.
    pub entry: IndexEntry,
    /// Why.
    pub error: Error,
}

/// Yields the events of a trace in time order, reading each block when its first instant comes.
///
/// Blocks that cannot be read are left out and listed in [`Merge::lost`]: whoever reports figures
/// says what is missing from them. Of events with the same time, switches come last (whatever else a CPU recorded in
/// that instant was done by the task that leaves), the others in the order in which their blocks were written.
pub struct Merge<'t> {
    trace: &'t Trace,
    /// Blocks that are still to be opened, by their places among the trace's, last one first.
    unopened: Vec<u32>,
    /// Opened blocks by the place that the heap knows them by.
    open: Vec<Option<OpenBlock>>,
    free: Vec<usize>,
    spare: Vec<Batch>,
    heap: BinaryHeap<Reverse<(u64, Turn, usize)>>,
    /// Whether the row on top of the heap was given out already.
    given: bool,
    /// Tasks and functions of the calls that began at a time and have ended, found when needed.
    ended: (Option<u64>, HashSet<(u64, u64)>),
    lost: Vec<LostBlock>,
    /// Columns to decode, by id; none for all.
    columns: Option<Vec<u8>>,
    tasks: Option<TaskCounts>,
}

/// How many wanted tasks there are below each id.
struct TaskCounts(Vec<u32>);

impl TaskCounts {
    fn new(wanted: &[bool]) -> Self {
        let mut count = 0;
        let below = std::iter::once(0).chain(wanted.iter().map(|&w| {
            count += u32::from(w);
            count
        }));
        Self(below.collect())
    }

    /// Whether any of them has an id from `lo` to `hi`.
    fn any_in(&self, (lo, hi): (u64, u64)) -> bool {
        let below = |id: u64| {
            let at = usize::try_from(id).unwrap_or(usize::MAX).min(self.0.len().saturating_sub(1));
            self.0.get(at).copied().unwrap_or(0)
        };
        below(lo) < below(hi.saturating_add(1))
    }
}

/// One row of any kind, known to this build or not.
pub struct Row<'m> {
    /// `CLOCK_MONOTONIC` nanoseconds.
    pub ts_ns: u64,
    /// CPU on which it was recorded.
    pub cpu: u32,
    /// Number of its kind; [`Trace::kind_schema`] describes it.
    pub kind: u16,
    batch: &'m Batch,
    row: usize,
}

impl Row<'_> {
    /// The word of a column by id; none where the block lacks the column.
    #[must_use]
    pub fn word(&self, id: u8) -> Option<u64> {
        self.batch.column(id)?.get(self.row).copied()
    }
}

/// Of rows with one time: switches last, then by the block's number.
type Turn = (bool, u32);

struct OpenBlock {
    number: u16,
    /// The kind, if this build knows it.
    kind: Option<Kind>,
    seq: u32,
    batch: Batch,
    /// Rows in time order; empty where the block has a single run and is in order already.
    order: Vec<u32>,
    next: usize,
    /// Column ids by their places in this build's table.
    ids: Vec<(u8, bool)>,
}

impl OpenBlock {
    fn row(&self) -> usize {
        self.order.get(self.next).map_or(self.next, |&r| r as usize)
    }

    fn word(&self, column: usize, row: usize) -> u64 {
        let Some(&(id, nullable)) = self.ids.get(column) else { return 0 };
        // A column that an older file lacks is unknown, or 0 where unknown cannot be said.
        let missing = if nullable { NULL } else { 0 };
        self.batch.column(id).and_then(|c| c.get(row)).copied().unwrap_or(missing)
    }

    fn cpu(&self) -> u32 {
        u32::try_from(self.word(usize::from(CPU), self.row())).unwrap_or(u32::MAX)
    }

    /// Adds task and function of every call that began at `ts` and has ended.
    fn find_ended(&self, ts: u64, found: &mut HashSet<(u64, u64)>) {
        let (Some(Kind::Call), Some(times)) = (self.kind, self.batch.column(TS)) else { return };
        let time = |at: usize| times.get(self.order.get(at).map_or(at, |&r| r as usize)).copied().unwrap_or(u64::MAX);
        // Binary search: the first row in time that is not before `ts`.
        let (mut from, mut to) = (0, times.len());
        while from < to {
            let middle = from.midpoint(to);
            if time(middle) < ts { from = middle + 1 } else { to = middle }
        }
        for at in (from..times.len()).take_while(|&at| time(at) == ts) {
            let row = self.order.get(at).map_or(at, |&r| r as usize);
            if self.word(CALL_END, row) != END_OPEN {
                found.insert((self.word(CALL_TASK, row), self.word(CALL_FUNC, row)));
            }
        }
    }

    fn ts_ns(&self) -> Option<u64> {
        (self.next < self.batch.rows()).then(|| self.word(usize::from(TS), self.row()))
    }
}

impl<'t> Merge<'t> {
    /// All events of the kinds that this build knows.
    #[must_use]
    pub fn new(trace: &'t Trace) -> Self {
        Self::of(trace, |_| true)
    }

    /// All events of the kinds that `wanted` names.
    #[must_use]
    pub fn of(trace: &'t Trace, wanted: impl Fn(Kind) -> bool) -> Self {
        Self::rows(trace, |number| Kind::from_number(number).is_some_and(&wanted))
    }

    /// All rows of the kinds whose numbers are `wanted`, for [`Merge::next_row`].
    #[must_use]
    pub fn rows(trace: &'t Trace, wanted: impl Fn(u16) -> bool) -> Self {
        let blocks = (0..).zip(trace.blocks()).filter(|(_, b)| wanted(b.header.kind));
        let mut unopened: Vec<u32> = blocks.map(|(place, _)| place).collect();
        unopened.reverse();
        Self {
            trace,
            unopened,
            open: Vec::new(),
            free: Vec::new(),
            spare: Vec::new(),
            heap: BinaryHeap::new(),
            given: false,
            ended: (None, HashSet::new()),
            lost: Vec::new(),
            columns: None,
            tasks: None,
        }
    }

    /// Decodes these columns alone (by id), for [`Merge::next_row`]; time and CPU come with them.
    #[must_use]
    pub fn columns(mut self, ids: &[u8]) -> Self {
        self.columns = Some([&[TS, CPU], ids].concat());
        self
    }

    /// Leaves blocks unread that name none of the tasks that are wanted (by id), as far as the
    /// smallest and largest id in them tell. What comes may still name others; blocks of kinds
    /// without tasks are read.
    #[must_use]
    pub fn naming(mut self, wanted: &[bool]) -> Self {
        self.tasks = Some(TaskCounts::new(wanted));
        self
    }

    fn may_name(&self, block: &IndexEntry, tasks: &TaskCounts) -> Result<bool, Error> {
        let Some(kind) = self.trace.kind_schema(block.header.kind) else { return Ok(true) };
        let is_task = |id: u8| kind.columns.iter().any(|c| c.id == id && c.is(Unit::Task));
        let stored = self.trace.stored_columns(block)?;
        let mut named = stored.iter().filter(|c| is_task(c.id)).peekable();
        Ok(named.peek().is_none() || named.any(|c| c.range.is_some_and(|range| tasks.any_in(range))))
    }

    /// Leaves blocks unread that hold nothing of a range. What comes may still lie outside of it.
    #[must_use]
    pub fn within(mut self, from_ns: u64, to_ns: u64) -> Self {
        let blocks = self.trace.blocks();
        let within = |b: &IndexEntry| b.header.ts_max >= from_ns && b.header.ts_min < to_ns;
        self.unopened.retain(|&place| blocks.get(place as usize).is_some_and(within));
        self
    }

    /// Blocks that could not be read so far.
    #[must_use]
    pub fn lost(&self) -> &[LostBlock] {
        &self.lost
    }

    /// Blocks that could not be read.
    #[must_use]
    pub fn into_lost(self) -> Vec<LostBlock> {
        self.lost
    }

    /// Opens every block that may hold an event before the earliest open one.
    fn open_due(&mut self) {
        while let Some(block) = self.unopened.last().and_then(|&place| self.trace.blocks().get(place as usize)) {
            if self.heap.peek().is_some_and(|Reverse((ts, ..))| *ts < block.header.ts_min) {
                return;
            }
            let block = *block;
            self.unopened.pop();
            match self.read(&block) {
                Ok(Some(open)) => self.admit(open),
                Ok(None) => {}
                Err(error) => self.lost.push(LostBlock { entry: block, error }),
            }
        }
    }

    fn read(&mut self, block: &IndexEntry) -> Result<Option<OpenBlock>, Error> {
        if let Some(tasks) = &self.tasks
            && !self.may_name(block, tasks)?
        {
            return Ok(None);
        }
        let number = block.header.kind;
        let kind = Kind::from_number(number);
        let mut batch = match self.spare.pop() {
            Some(batch) => batch,
            None => Batch::new()?,
        };
        self.trace.read_block(block, &mut batch, self.columns.as_deref())?;
        let ids = match kind {
            Some(kind) => event_kind(kind).columns.iter().map(|c| (c.id, c.nullable)).collect(),
            None => vec![(TS, false), (CPU, false)],
        };
        let mut open = OpenBlock { number, kind, seq: block.header.seq, batch, order: Vec::new(), next: 0, ids };
        if let Some(ts) = open.batch.column(TS)
            && !ts.is_sorted()
        {
            #[expect(clippy::cast_possible_truncation, reason = "a block has at most MAX_ROWS rows")]
            let mut order: Vec<u32> = (0..open.batch.rows() as u32).collect();
            // The runs of the CPUs are sorted: a stable sort merges them.
            order.sort_by_key(|&r| ts.get(r as usize).copied().unwrap_or(0));
            open.order = order;
        }
        Ok(Some(open))
    }

    /// Whether a row only says that a call was open when it was written, and the call is in the trace.
    fn is_superseded(&mut self, ts: u64, place: usize) -> bool {
        let Some(Some(open)) = self.open.get(place) else { return false };
        let row = open.row();
        if open.kind != Some(Kind::Call) || open.word(CALL_END, row) != END_OPEN {
            return false;
        }
        let call = (open.word(CALL_TASK, row), open.word(CALL_FUNC, row));
        if self.ended.0 != Some(ts) {
            // All blocks with rows of this time are open.
            self.ended.0 = Some(ts);
            self.ended.1.clear();
            self.open.iter().flatten().for_each(|block| block.find_ended(ts, &mut self.ended.1));
        }
        self.ended.1.contains(&call)
    }

    /// The next row in time, of any kind that was asked for.
    pub fn next_row(&mut self) -> Option<Row<'_>> {
        let (ts_ns, place) = self.next_shown()?;
        let open = self.open.get(place)?.as_ref()?;
        Some(Row { ts_ns, cpu: open.cpu(), kind: open.number, batch: &open.batch, row: open.row() })
    }

    /// Moves on to the next row: its time, and the place of its block.
    fn next_place(&mut self) -> Option<(u64, usize)> {
        if self.given {
            self.pass();
        }
        self.open_due();
        let Reverse((ts_ns, _, place)) = *self.heap.peek()?;
        self.given = true;
        Some((ts_ns, place))
    }

    fn next_shown(&mut self) -> Option<(u64, usize)> {
        loop {
            let (ts, place) = self.next_place()?;
            if !self.is_superseded(ts, place) {
                return Some((ts, place));
            }
        }
    }

    /// Leaves the row that was given out behind.
    fn pass(&mut self) {
        self.given = false;
        let Some(mut first) = self.heap.peek_mut() else { return };
        let place = first.0.2;
        let Some(slot) = self.open.get_mut(place) else { return };
        let Some(open) = slot.as_mut() else { return };
        open.next += 1;
        if let Some(ts) = open.ts_ns() {
            first.0.0 = ts;
        } else {
            PeekMut::pop(first);
            if let Some(done) = slot.take() {
                self.spare.push(done.batch);
            }
            self.free.push(place);
        }
    }

    fn admit(&mut self, open: OpenBlock) {
        let Some(ts) = open.ts_ns() else {
            self.spare.push(open.batch);
            return;
        };
        // Of what a CPU recorded in one instant, the switch away from whoever did the rest comes last.
        let turn = (open.kind == Some(Kind::Switch), open.seq);
        let place = self.free.pop().unwrap_or_else(|| {
            self.open.push(None);
            self.open.len() - 1
        });
        self.open[place] = Some(open);
        self.heap.push(Reverse((ts, turn, place)));
    }
}

impl Iterator for Merge<'_> {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        loop {
            let (ts_ns, place) = self.next_shown()?;
            let open = self.open.get(place)?.as_ref()?;
            let Some(kind) = open.kind else { continue };
            let row = open.row();
            return Some(Event { ts_ns, cpu: open.cpu(), body: Body::gather(kind, |column| open.word(column, row)) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;
    use ingero_format::catalog::Exit;

    #[test]
    fn blocks_that_cannot_name_a_task_stay_unread() {
        let mut f = Fixture::with_rows(4);
        let tasks: Vec<_> = (1..=10).map(|i| f.task(i, i)).collect();
        for i in 0..40usize {
            f.push(1000 + i as u64, 0, Exit { task: tasks[i / 4], group_dead: None });
        }
        let trace = f.finish();
        let mut wanted = vec![false; trace.tasks().len()];
        wanted[tasks[3].index()] = true;
        let seen: Vec<Event> = Merge::new(&trace).naming(&wanted).collect();
        assert_eq!(seen.iter().map(|e| e.ts_ns).collect::<Vec<_>>(), [1012, 1013, 1014, 1015]);
        assert_eq!(Merge::new(&trace).naming(&[]).count(), 0);
        let mut rows = Merge::rows(&trace, |_| true).columns(&[]);
        let row = rows.next_row().unwrap();
        assert_eq!((row.ts_ns, row.word(2)), (1000, None));
    }

    #[test]
    fn events_come_in_time_order_whatever_their_blocks() {
        let mut f = Fixture::with_rows(7);
        let task = f.task(5, 5);
        for i in 0..200u64 {
            let ts = 1000 + i * 37 % 211;
            f.push(ts, (i % 3) as u32, Exit { task, group_dead: Some(i) });
        }
        let trace = f.finish();
        let mut merge = Merge::new(&trace);
        let seen: Vec<Event> = merge.by_ref().collect();
        assert_eq!(seen.len(), 200);
        assert!(seen.is_sorted_by_key(|e| e.ts_ns));
        assert!(merge.lost().is_empty());
    }
}
