//! A block: the rows of one event kind, sorted by CPU and time, by column.
//!
//! Payload: the directory (varint count, then one entry per column), then the columns' bytes in
//! the directory's order.

use crate::bytes::{Malformed, Reader, Result, put_len};
use crate::catalog::{CPU, EventKind, Kind, TS};
use crate::column::{self, Codec, Context, Entry, Words};
use crate::lane::{self, Lane};
use crate::layout::{CPU_SEVERAL, MAX_COLUMNS, MAX_ROWS};

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
    columns: Vec<Words>,
    /// First row of each CPU's.
    runs: Vec<u32>,
    /// CPU and number of rows of each of them.
    cpus: Vec<(u64, usize)>,
    bytes: Vec<u8>,
}

impl Pending {
    pub(crate) fn new(kind: &'static EventKind) -> Self {
        Self { kind, rows: 0, lanes: Vec::new(), lane_of: Vec::new(), since_ns: 0 }
    }

    #[inline]
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Takes the words of one row, time and CPU first.
    #[inline(always)]
    pub(crate) fn push<R: AsRef<[u64]>>(&mut self, cpu: u32, row: &R, codec: &mut Codec) {
        let place = match self.lane_of.get(cpu as usize) {
            Some(&place) if place > 0 => place as usize - 1,
            _ => self.new_lane(cpu),
        };
        let lane = &mut self.lanes[place];
        if lane.push(row.as_ref()) {
            lane.narrow(self.kind, &mut codec.shelf);
        }
        self.rows += 1;
    }

    #[cold]
    fn new_lane(&mut self, cpu: u32) -> usize {
        let tabled = (cpu as usize) < TABLED_CPUS;
        if !tabled && let Some(place) = self.lanes.iter().position(|l| l.cpu == cpu) {
            return place;
        }
        self.lanes.push(Lane::new(self.kind, cpu));
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
        let rows = std::mem::take(&mut self.rows);
        let mut lanes: Vec<&mut Lane> = self.lanes.iter_mut().filter(|l| l.rows() > 0).collect();
        lanes.sort_unstable_by_key(|l| l.cpu);
        let Sealer { columns, runs, cpus, bytes } = sealer;
        runs.clear();
        cpus.clear();
        bytes.clear();
        let mut from = 0;
        for lane in &mut lanes {
            lane.narrow(self.kind, &mut codec.shelf);
            lane.sort(self.kind);
            runs.push(from);
            cpus.push((u64::from(lane.cpu), lane.rows()));
            from += u32::try_from(lane.rows()).unwrap_or(u32::MAX);
        }
        let ts_min = lanes.iter().map(|l| l.span().0).min().unwrap_or(0);
        let last = lanes.iter().map(|l| l.span().1).max().unwrap_or(0);
        let reach = lanes.iter().map(|l| reach(self.kind, l)).max().unwrap_or(0);

        columns.resize_with(self.kind.columns.len(), Words::default);
        for (at, (column, words)) in self.kind.columns.iter().zip(&mut *columns).enumerate() {
            codec.shelf.put_held(std::mem::take(&mut words.held));
            words.rows = 0;
            if at != usize::from(TS) && at != usize::from(CPU) {
                for more in lanes.iter().filter_map(|l| l.column(at)) {
                    lane::join(words, more, u64::from(column.nullable), &mut codec.shelf);
                }
            }
        }
        let mut entries = Vec::with_capacity(self.kind.columns.len());
        for (at, (column, words)) in self.kind.columns.iter().zip(&*columns).enumerate() {
            entries.push(if at == usize::from(TS) {
                encode_times(codec, column, &lanes, (ts_min, last), bytes)
            } else if at == usize::from(CPU) {
                column::encode_runs(column, cpus, bytes)
            } else {
                let by_id = |id: u8| {
                    let at = self.kind.columns.iter().position(|c| c.id == id && id > CPU)?;
                    columns.get(at)
                };
                let sources = column::sources(column.shape).map(by_id);
                column::encode(codec, column, words, Context { runs, sources }, bytes)
            });
        }
        lanes.iter_mut().for_each(|l| l.clear(&mut codec.shelf));
        out.clear();
        put_len(out, entries.len());
        for entry in &entries {
            entry.write(out);
        }
        let head_len = u32::try_from(out.len()).unwrap_or(u32::MAX);
        out.extend_from_slice(bytes);
        let cpu = match cpus[..] {
            [(cpu, _)] => u32::try_from(cpu).unwrap_or(CPU_SEVERAL),
            _ => CPU_SEVERAL,
        };
        Sealed { rows: u32::try_from(rows).unwrap_or(u32::MAX), cpu, head_len, ts_min, ts_max: last.max(reach) }
    }
}

/// The latest instant that a row speaks of beyond its own time.
fn reach(kind: &EventKind, lane: &Lane) -> u64 {
    let place = |id: u8| kind.columns.iter().position(|c| c.id == id);
    match kind.kind {
        // An unknown duration adds nothing.
        Kind::Call => place(4).map(|at| lane.reach(at, |t, d| if d == u64::MAX { t } else { t.saturating_add(d) })),
        Kind::Loss => place(2).map(|at| lane.reach(at, u64::max)),
        _ => None,
    }
    .unwrap_or(0)
}

/// Times are gathered as distances, which is what a block holds.
fn encode_times(
    codec: &mut Codec,
    column: &crate::catalog::Column,
    lanes: &[&mut Lane],
    span: (u64, u64),
    bytes: &mut Vec<u8>,
) -> Entry {
    let mut steps = codec.shelf.take::<u32>();
    if lanes.iter().all(|l| l.steps(span.0, &mut steps)) {
        let entry = column::encode_rising(codec, column, &steps, span, bytes);
        codec.shelf.put(steps);
        return entry;
    }
    let mut steps = codec.shelf.take::<u64>();
    lanes.iter().for_each(|l| {
        l.steps(span.0, &mut steps);
    });
    let entry = column::encode_rising(codec, column, &steps, span, bytes);
    codec.shelf.put(steps);
    entry
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
