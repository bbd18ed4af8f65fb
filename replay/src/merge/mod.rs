//! All events of a trace in the order of their times.

mod open;
mod place;

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, HashSet};

use ingero_format::catalog::{CPU, Kind, TS, Unit, event_kind};
use ingero_format::layout::MAX_OPEN;
use ingero_format::{Batch, ChunkHeader, Error, IndexEntry, Trace};

use crate::event::Event;
use open::OpenBlock;
use place::Place;

/// Batches that wait for another block, at most: each keeps the room that its largest block took.
const SPARE_BATCHES: usize = 32;

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
///
/// As many blocks are in memory as overlap one instant, up to [`ingero_format::layout::MAX_OPEN`] bytes; what
/// would be beyond that is lost too, for only a file that was made so has it.
pub struct Merge<'t> {
    trace: &'t Trace,
    /// Blocks that are still to be opened, by their places among the trace's, last one first.
    unopened: Vec<u32>,
    /// Opened blocks by the place that the heap knows them by.
    open: Vec<Option<OpenBlock>>,
    free: Vec<usize>,
    spare: Vec<Batch>,
    /// Room for the times of blocks, and for their strips.
    rooms: Vec<(Vec<u64>, Vec<u64>)>,
    /// Bytes that the open blocks hold.
    held_bytes: usize,
    most_bytes: usize,
    heap: BinaryHeap<Reverse<Place>>,
    /// First instant of the next block that is to be opened; the largest where there is none.
    due_ns: u64,
    /// Whether the row on top of the heap was given out already.
    given: bool,
    /// Tasks and functions of the calls that began at a time and have ended, found when needed.
    ended: (Option<u64>, HashSet<(u64, u64)>),
    lost: Vec<LostBlock>,
    /// Columns to decode, by id; none for all.
    columns: Option<Vec<u8>>,
    tasks: Option<TaskCounts>,
    /// Begin of what is wanted, and the instant behind it.
    range_ns: (u64, u64),
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

/// What is wrong with a block whose rows are of `first_ns` to `last_ns`, where its header says otherwise. Blocks take their
/// turn by their headers: such rows would come after later ones, or before the trace begins, and the states of threads would
/// end before they began.
#[must_use]
pub fn misdated(header: &ChunkHeader, first_ns: u64, last_ns: u64) -> Option<String> {
    let (ts_min, ts_max) = (header.ts_min, header.ts_max);
    (first_ns < ts_min || last_ns > ts_max)
        .then(|| format!("its rows are from {first_ns} to {last_ns}, its header says {ts_min} to {ts_max}"))
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
        self.batch.column(id)?.get(self.row)
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
        let mut this = Self {
            trace,
            unopened,
            open: Vec::new(),
            free: Vec::new(),
            spare: Vec::new(),
            rooms: Vec::new(),
            held_bytes: 0,
            most_bytes: MAX_OPEN,
            heap: BinaryHeap::new(),
            due_ns: 0,
            given: false,
            ended: (None, HashSet::new()),
            lost: Vec::new(),
            columns: None,
            tasks: None,
            range_ns: (0, u64::MAX),
        };
        this.due_ns = this.next_due_ns();
        this
    }

    fn next_unopened(&self) -> Option<&'t IndexEntry> {
        self.unopened.last().and_then(|&place| self.trace.blocks().get(place as usize))
    }

    fn next_due_ns(&self) -> u64 {
        self.next_unopened().map_or(u64::MAX, |block| block.header.ts_min)
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

    /// Yields what lies from `from_ns` to before `to_ns` alone. Blocks that hold nothing of it stay unread.
    #[must_use]
    pub fn within(mut self, from_ns: u64, to_ns: u64) -> Self {
        self.range_ns = (from_ns, to_ns);
        let blocks = self.trace.blocks();
        let within = |b: &IndexEntry| b.header.ts_max >= from_ns && b.header.ts_min < to_ns;
        self.unopened.retain(|&place| blocks.get(place as usize).is_some_and(within));
        self.due_ns = self.next_due_ns();
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
    #[cold]
    fn open_due(&mut self) {
        while let Some(block) = self.next_unopened() {
            if self.heap.peek().is_some_and(|Reverse(first)| first.ts_ns() < block.header.ts_min) {
                break;
            }
            let block = *block;
            self.unopened.pop();
            match self.read(&block) {
                Ok(Some(open)) => self.admit(open),
                Ok(None) => {}
                Err(error) => self.lost.push(LostBlock { entry: block, error }),
            }
        }
        self.due_ns = self.next_due_ns();
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
        let (mut times, mut strip) = self.rooms.pop().unwrap_or_default();
        strip.clear();
        let mut order: Vec<u32> = Vec::new();
        match batch.column(TS) {
            Some(ts) => ts.push_to(0..ts.len(), &mut times),
            // An event without a time is one of the beginning of time.
            None => times.resize(batch.rows(), 0),
        }
        if !times.is_sorted() {
            #[expect(clippy::cast_possible_truncation, reason = "a block has at most MAX_ROWS rows")]
            order.extend(0..times.len() as u32);
            // The runs of the CPUs are sorted: a stable sort merges them.
            order.sort_by_key(|&r| times.get(r as usize).copied().unwrap_or(0));
            times = order.iter().map(|&r| times.get(r as usize).copied().unwrap_or(0)).collect();
        }
        if let (Some(&first_ns), Some(&last_ns)) = (times.first(), times.last())
            && let Some(problem) = misdated(&block.header, first_ns, last_ns)
        {
            let what = format!("block {} ({})", block.header.seq, self.trace.kind_name(number));
            return Err(Error::Corrupt { what, offset: block.offset, problem });
        }
        let next = times.partition_point(|&ts| ts < self.range_ns.0);
        let seq = block.header.seq;
        let open = OpenBlock { number, kind, seq, batch, times, order, next, ids, strip, laid_out: 0..0 };
        let (held, most) = (self.held_bytes + open.held_bytes(), self.most_bytes);
        if held > most {
            return Err(Error::Limit(format!(
                "block {} at {:#x}: at this instant so many blocks overlap that their events take {held} bytes, more \
                 than the {most} that are kept; its events are left out",
                block.header.seq, block.offset
            )));
        }
        Ok(Some(open))
    }

    /// Whether a row only says that a call was open when it was written, and the call is in the trace.
    #[inline]
    fn is_superseded(&mut self, ts: u64, place: usize) -> bool {
        let Some(Some(open)) = self.open.get(place) else { return false };
        let Some(call) = open.open_call() else { return false };
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

    /// The next event in time: its kind, and its words in the order of the kind's columns. [`Event::of`] makes an event
    /// of them.
    #[inline]
    pub(crate) fn next_words(&mut self) -> Option<(Kind, &[u64])> {
        loop {
            let (_, place) = self.next_shown()?;
            if let Some(kind) = self.open.get(place)?.as_ref()?.kind {
                return Some((kind, self.open.get_mut(place)?.as_mut()?.words()));
            }
        }
    }

    /// Moves on to the next row: its time, and the place of its block.
    #[inline]
    fn next_place(&mut self) -> Option<(u64, usize)> {
        if self.given {
            self.pass();
        }
        // Where the last block that is still unopened begins at the end of time, it is opened when nothing else is left.
        if self.heap.peek().is_none_or(|Reverse(first)| first.ts_ns() >= self.due_ns) {
            self.open_due();
        }
        let Reverse(first) = *self.heap.peek()?;
        // An instant that no range has an end behind is part of every one that goes to the end.
        if first.ts_ns() >= self.range_ns.1 && self.range_ns.1 < u64::MAX {
            return None;
        }
        self.given = true;
        Some((first.ts_ns(), first.place()))
    }

    #[inline]
    fn next_shown(&mut self) -> Option<(u64, usize)> {
        loop {
            let (ts, place) = self.next_place()?;
            if !self.is_superseded(ts, place) {
                return Some((ts, place));
            }
        }
    }

    /// Leaves the row that was given out behind.
    #[inline]
    fn pass(&mut self) {
        self.given = false;
        let Some(mut first) = self.heap.peek_mut() else { return };
        let place = first.0.place();
        let Some(slot) = self.open.get_mut(place) else { return };
        let Some(open) = slot.as_mut() else { return };
        open.next += 1;
        if let Some(ts) = open.ts_ns() {
            first.0 = first.0.at(ts);
        } else {
            PeekMut::pop(first);
            if let Some(done) = slot.take() {
                self.held_bytes -= done.held_bytes();
                if self.spare.len() < SPARE_BATCHES {
                    self.spare.push(done.batch);
                    let mut times = done.times;
                    times.clear();
                    self.rooms.push((times, done.strip));
                }
            }
            self.free.push(place);
        }
    }

    fn admit(&mut self, open: OpenBlock) {
        let Some(ts) = open.ts_ns() else {
            if self.spare.len() < SPARE_BATCHES {
                self.spare.push(open.batch);
            }
            return;
        };
        // Of what a CPU recorded in one instant, the switch away from whoever did the rest comes last.
        let (is_switch, seq) = (open.kind == Some(Kind::Switch), open.seq);
        self.held_bytes += open.held_bytes();
        let place = self.free.pop().unwrap_or_else(|| {
            self.open.push(None);
            self.open.len() - 1
        });
        self.open[place] = Some(open);
        self.heap.push(Reverse(Place::new(ts, is_switch, seq, place)));
    }
}

impl Iterator for Merge<'_> {
    type Item = Event;

    #[inline]
    fn next(&mut self) -> Option<Event> {
        let (kind, words) = self.next_words()?;
        Some(Event::of(kind, words))
    }
}

#[cfg(test)]
mod tests;
