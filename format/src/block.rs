//! A block: the rows of one event kind, sorted by CPU and time, by column.
//!
//! Payload: the directory (varint count, then one entry per column), then the columns' bytes in
//! the directory's order.

use crate::bytes::{Malformed, Reader, Result, put_len};
use crate::catalog::{CPU, EventKind, Kind, TS};
use crate::column::{self, Bounds, Codec, Context, Entry};
use crate::layout::{CPU_SEVERAL, MAX_COLUMNS, MAX_ROWS};

/// Rows that are turned into columns at a time: as many as stay in the processor's nearest cache.
const TILE_ROWS: usize = 64;
/// CPUs below this number find their lane by a table.
const TABLED_CPUS: usize = 1 << 16;

/// Rows of one event kind that wait to be sealed into a block.
pub(crate) struct Pending {
    pub(crate) kind: &'static EventKind,
    rows: usize,
    lanes: Vec<Lane>,
    /// One more than the place of a CPU's lane, by CPU; 0 where it has none.
    lane_of: Vec<u32>,
    /// When the first row came, on the writer's clock.
    pub(crate) since_ns: u64,
}

/// The rows of one CPU, which mostly come in the order of their times.
struct Lane {
    cpu: u32,
    /// Words by row, in the order of their coming.
    words: Vec<u64>,
    last_ts: u64,
    sorted: bool,
}

/// A sealed block, to be put behind a chunk header.
pub(crate) struct Sealed {
    pub(crate) rows: u32,
    pub(crate) cpu: u32,
    pub(crate) head_len: u32,
    pub(crate) ts_min: u64,
    pub(crate) ts_max: u64,
}

/// Scratch space for sealing, shared by all kinds.
#[derive(Default)]
pub(crate) struct Sealer {
    columns: Vec<Vec<u64>>,
    /// Smallest and largest word of each column.
    bounds: Vec<Bounds>,
    runs: Vec<u32>,
    bytes: Vec<u8>,
}

impl Pending {
    pub(crate) fn new(kind: &'static EventKind) -> Self {
        Self { kind, rows: 0, lanes: Vec::new(), lane_of: Vec::new(), since_ns: 0 }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Takes the words of one row, time and CPU first.
    #[inline]
    pub(crate) fn push<R: AsRef<[u64]>>(&mut self, cpu: u32, row: &R) {
        let words = row.as_ref();
        let ts = words[usize::from(TS)];
        let place = match self.lane_of.get(cpu as usize) {
            Some(&place) if place > 0 => place as usize - 1,
            _ => self.new_lane(cpu),
        };
        let lane = &mut self.lanes[place];
        lane.words.extend_from_slice(words);
        lane.sorted &= ts >= lane.last_ts;
        lane.last_ts = ts;
        self.rows += 1;
    }

    #[cold]
    fn new_lane(&mut self, cpu: u32) -> usize {
        let tabled = (cpu as usize) < TABLED_CPUS;
        if !tabled && let Some(place) = self.lanes.iter().position(|l| l.cpu == cpu) {
            return place;
        }
        self.lanes.push(Lane { cpu, words: Vec::new(), last_ts: 0, sorted: true });
        if tabled {
            if self.lane_of.len() <= cpu as usize {
                self.lane_of.resize(cpu as usize + 1, 0);
            }
            self.lane_of[cpu as usize] = u32::try_from(self.lanes.len()).unwrap_or(0);
        }
        self.lanes.len() - 1
    }

    /// Encodes all rows into `out` and forgets them.
    pub(crate) fn seal(&mut self, codec: &mut Codec, sealer: &mut Sealer, out: &mut Vec<u8>) -> Sealed {
        let rows = self.rows;
        self.gather(sealer);
        let Sealer { columns, bounds, runs, bytes } = sealer;
        let cpus = columns.get(usize::from(CPU)).map_or(&[][..], Vec::as_slice);
        let cpu = match (runs.len(), cpus.first()) {
            (1, Some(&cpu)) => u32::try_from(cpu).unwrap_or(CPU_SEVERAL),
            _ => CPU_SEVERAL,
        };
        let (ts_min, ts_max) = self.span(columns, runs);

        let mut entries = Vec::with_capacity(self.kind.columns.len());
        bytes.clear();
        for ((column, words), bounds) in self.kind.columns.iter().zip(&*columns).zip(&*bounds) {
            let sources = column::sources(column.shape).map(|id| self.by_id(columns, id));
            entries.push(column::encode(codec, column, words, *bounds, Context { runs, sources }, bytes));
        }
        out.clear();
        put_len(out, entries.len());
        for entry in &entries {
            entry.write(out);
        }
        let head_len = u32::try_from(out.len()).unwrap_or(u32::MAX);
        out.extend_from_slice(bytes);
        Sealed { rows: u32::try_from(rows).unwrap_or(u32::MAX), cpu, head_len, ts_min, ts_max }
    }

    fn by_id<'c>(&self, columns: &'c [Vec<u64>], id: u8) -> Option<&'c [u64]> {
        let at = self.kind.columns.iter().position(|c| c.id == id && id != 0)?;
        columns.get(at).map(Vec::as_slice)
    }

    /// Moves all rows into the sealer's columns, sorted by CPU and time.
    fn gather(&mut self, sealer: &mut Sealer) {
        let width = self.kind.columns.len();
        if sealer.columns.len() < width {
            sealer.columns.resize_with(width, Vec::new);
        }
        let columns = &mut sealer.columns[..width];
        columns.iter_mut().for_each(Vec::clear);
        sealer.bounds.clear();
        sealer.bounds.extend(self.kind.columns.iter().map(|c| Bounds::new(c.nullable)));
        sealer.runs.clear();
        let mut order: Vec<usize> = (0..self.lanes.len()).filter(|&i| !self.lanes[i].words.is_empty()).collect();
        order.sort_unstable_by_key(|&i| self.lanes[i].cpu);
        for i in order {
            sealer.runs.push(columns.first().map_or(0, |c| u32::try_from(c.len()).unwrap_or(u32::MAX)));
            let lane = &mut self.lanes[i];
            lane.sort(self.kind, width);
            for tile in lane.words.chunks(TILE_ROWS * width) {
                for (at, (column, bounds)) in columns.iter_mut().zip(&mut sealer.bounds).enumerate() {
                    let from = column.len();
                    if at == usize::from(CPU) {
                        column.resize(from + tile.len() / width, u64::from(lane.cpu));
                        continue;
                    }
                    column.extend(tile.chunks_exact(width).map(|row| row[at]));
                    if at != usize::from(TS) {
                        bounds.add(column.get(from..).unwrap_or_default());
                    }
                }
            }
            // Of what is sorted or the same the ends tell.
            let from = sealer.runs.last().map_or(0, |&r| r as usize);
            for at in [TS, CPU] {
                let run = columns.get(usize::from(at)).and_then(|c| c.get(from..)).unwrap_or_default();
                if let (Some(&first), Some(&last), Some(bounds)) =
                    (run.first(), run.last(), sealer.bounds.get_mut(usize::from(at)))
                {
                    bounds.add(&[first, last]);
                }
            }
            lane.words.clear();
            lane.sorted = true;
            lane.last_ts = 0;
        }
        self.rows = 0;
    }

    /// First and last instant that any row speaks of.
    fn span(&self, columns: &[Vec<u64>], runs: &[u32]) -> (u64, u64) {
        let ts = columns.get(usize::from(TS)).map_or(&[][..], Vec::as_slice);
        // Times rise within a run.
        let starts = runs.iter().filter_map(|&s| ts.get(s as usize));
        let ends = runs.iter().skip(1).filter_map(|&s| ts.get((s as usize).checked_sub(1)?)).chain(ts.last());
        let (min, last) = (starts.copied().min().unwrap_or(0), ends.copied().max().unwrap_or(0));
        let max = match self.kind.kind {
            Kind::Call => self.by_id(columns, 4).map(|d| {
                // An unknown duration adds nothing.
                ts.iter().zip(d).map(|(&t, &d)| if d == u64::MAX { t } else { t.saturating_add(d) }).max().unwrap_or(0)
            }),
            Kind::Loss => self.by_id(columns, 2).map(|to| ts.iter().chain(to).copied().max().unwrap_or(0)),
            _ => None,
        };
        (min, max.unwrap_or(last))
    }
}

impl Lane {
    /// Sorts the rows by time. What is equal stays in the order of its coming.
    fn sort(&mut self, kind: &EventKind, width: usize) {
        let row = |i: u32| self.words.get(i as usize * width..).unwrap_or_default();
        let word = |i: u32, at: usize| row(i).get(at).copied().unwrap_or(0);
        #[expect(clippy::cast_possible_truncation, reason = "a block has at most MAX_ROWS rows")]
        let rows = (self.words.len() / width) as u32;
        // Of calls that begin in the same instant the longest holds the others.
        let duration = (kind.kind == Kind::Call).then(|| kind.columns.iter().position(|c| c.id == 4)).flatten();
        let key = |i: u32| (word(i, usize::from(TS)), duration.map_or(0, |d| !word(i, d)));
        if self.sorted && duration.is_none() || (0..rows).is_sorted_by_key(key) {
            return;
        }
        let mut order: Vec<u32> = (0..rows).collect();
        order.sort_by_key(|&i| key(i));
        let mut sorted = Vec::with_capacity(self.words.len());
        for i in order {
            sorted.extend_from_slice(row(i).get(..width).unwrap_or_default());
        }
        self.words = sorted;
    }
}

/// The directory in the first bytes of a block's payload.
pub(crate) fn read_directory(head: &[u8], rows: u32) -> Result<Vec<Entry>> {
    if rows as usize > MAX_ROWS {
        return Err(Malformed("it has more rows than a block may have"));
    }
    let mut r = Reader::new(head);
    let count = r.count(MAX_COLUMNS)?;
    let entries = (0..count).map(|_| Entry::read(&mut r)).collect::<Result<Vec<_>>>()?;
    if !r.is_empty() {
        return Err(Malformed("bytes are left over in the directory"));
    }
    Ok(entries)
}
