//! A pyramid in a file: derived data, to be thrown away at any time.
//!
//! Beside the recording, under its name and `.pyramid`. It holds the smallest cells alone; those above follow from them:
//!
//! | bytes | what |
//! |---|---|
//! | 8 | magic |
//! | 4 | version |
//! | 4 | width of the smallest cells, as a power of two of nanoseconds |
//! | 8 | bytes of the recording |
//! | 8 | CRC-32C of the headers of all its chunks (which hold CRCs of their content), and how many chunks there are |
//! | 16 | begin and end of the trace |
//! | 8 | bytes of the body, decompressed |
//! | 4 | CRC-32C of the body as it stands there |
//! | 4 | CRC-32C of the 60 bytes before |
//! | rest | the body, one zstd frame |
//!
//! The body: tracks of states, of calls, of CPUs; each time their number (u32), then for each its thread or CPU (u32), its runs (u32),
//! the distances between their first cells (u32 each), their labels (u32 each), and for each lane the sums (u32 or, in cells
//! wider than 2^31 ns, u64 each). All integers are little-endian.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

use ingero_format::Trace;

use super::level::{Lanes, Level, NOTHING, Sums};
use super::track::Track;
use super::{MAX_BYTES, Pyramid};
use crate::timeline::State;

const MAGIC: [u8; 8] = *b"\x89IGP\r\n\x1a\n";
/// Raised whenever the file changes, or what a pyramid says of the same trace.
const VERSION: u32 = 4;
const HEADER_LEN: usize = 64;
/// Recordings with fewer events are walked before a file would be worth having.
const CACHED_FROM: u64 = 3_000_000;
/// Widest cells, as a power of two.
const WIDEST: u32 = 60;
/// Runs that are read at a time.
const PORTION: usize = 1 << 14;

/// Where the pyramid of a recording is kept: beside it.
#[must_use]
pub fn cache_path(trace: &Trace) -> PathBuf {
    PathBuf::from(format!("{}.pyramid", trace.path()))
}

impl Pyramid {
    /// The pyramid of a trace: from the file beside it where that is there, whole and of this very recording, else built
    /// ([`Pyramid::build`]). One that took a while to build is kept in that file, if it can be written.
    #[must_use]
    pub fn open_or_build(trace: &Trace, progress: &mut dyn FnMut(f64)) -> Self {
        Self::open_or_build_at(trace, &cache_path(trace), CACHED_FROM, progress)
    }

    pub(super) fn open_or_build_at(trace: &Trace, path: &Path, from_rows: u64, progress: &mut dyn FnMut(f64)) -> Self {
        if let Some(pyramid) = Self::open(trace, path) {
            return pyramid;
        }
        let pyramid = Self::build(trace, progress);
        let rows = trace.blocks().iter().fold(0, |rows: u64, b| rows.saturating_add(u64::from(b.header.rows)));
        if rows >= from_rows {
            // On a disk that is full, or in somebody else's folder, it is built anew each time.
            let _ = pyramid.keep(trace, path);
        }
        pyramid
    }

    /// The pyramid in a file. None where the file is not there, damaged, of another version, or of another recording.
    #[must_use]
    pub fn open(trace: &Trace, path: &Path) -> Option<Self> {
        let file = File::open(path).ok()?;
        // Anything else may never end.
        let len = file.metadata().ok().filter(std::fs::Metadata::is_file)?.len();
        // What is compressed takes hardly more room than what is not.
        let most = u64::try_from(MAX_BYTES).unwrap_or(u64::MAX);
        if len > most {
            return None;
        }
        let mut bytes = Vec::with_capacity(usize::try_from(len).ok()?);
        file.take(most).read_to_end(&mut bytes).ok()?;
        Self::parse(trace, &bytes)
    }

    /// Writes the pyramid to a file, which appears under its name when it is whole, readable by its owner alone.
    ///
    /// # Errors
    /// The file cannot be written there.
    pub fn keep(&self, trace: &Trace, path: &Path) -> io::Result<()> {
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut file = tempfile::Builder::new().prefix(".ingero-").suffix(".tmp").tempfile_in(folder)?;
        self.write(trace, file.as_file_mut())?;
        file.persist(path).map(drop).map_err(|e| e.error)
    }

    fn write(&self, trace: &Trace, file: &mut File) -> io::Result<()> {
        file.write_all(&[0; HEADER_LEN])?;
        let (raw_len, crc) = self.write_body(file)?;
        file.rewind()?;
        file.write_all(&self.header(trace, raw_len, crc))
    }

    /// Writes the body: its length decompressed, and the CRC of what stands there.
    fn write_body(&self, file: &mut File) -> io::Result<(u64, u32)> {
        let counted = Counted { inner: BufWriter::with_capacity(1 << 20, file), crc: 0, len: 0 };
        let mut body = Counted { inner: zstd::stream::write::Encoder::new(counted, 1)?, crc: 0, len: 0 };
        write_tracks(&self.states, &mut body)?;
        write_tracks(&self.calls, &mut body)?;
        write_tracks(&self.cpus, &mut body)?;
        let raw_len = body.len;
        let mut packed = body.inner.finish()?;
        packed.flush()?;
        Ok((raw_len, packed.crc))
    }

    fn header(&self, trace: &Trace, raw_len: u64, crc: u32) -> [u8; HEADER_LEN] {
        let mut out = Vec::with_capacity(HEADER_LEN);
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend(self.shift.to_le_bytes());
        out.extend(trace.len_bytes().to_le_bytes());
        out.extend(fingerprint(trace).to_le_bytes());
        out.extend(self.start_ns.to_le_bytes());
        out.extend(self.end_ns.to_le_bytes());
        out.extend(raw_len.to_le_bytes());
        out.extend(crc.to_le_bytes());
        out.extend(crc32c::crc32c(&out).to_le_bytes());
        let mut header = [0; HEADER_LEN];
        header.iter_mut().zip(out).for_each(|(to, from)| *to = from);
        header
    }

    pub(super) fn parse(trace: &Trace, bytes: &[u8]) -> Option<Self> {
        let (header, packed) = bytes.split_at_checked(HEADER_LEN)?;
        let u32_at = |at: usize| Some(u32::from_le_bytes(*header.get(at..)?.first_chunk()?));
        let u64_at = |at: usize| Some(u64::from_le_bytes(*header.get(at..)?.first_chunk()?));
        let mut pyramid = Self::new(trace, u32_at(12)?);
        let raw_len = u64_at(48)?;
        let cells =
            u32::try_from((pyramid.end_ns - pyramid.start_ns).checked_shr(pyramid.shift)?).ok()?.checked_add(1)?;
        let fits = pyramid.shift <= WIDEST && raw_len <= u64::try_from(MAX_BYTES / 2 + (64 << 10)).ok()?;
        // All that the header says is known beforehand but for the body's length and CRC.
        if !fits || header != pyramid.header(trace, raw_len, u32_at(56)?) || crc32c::crc32c(packed) != u32_at(56)? {
            return None;
        }
        let body = zstd::stream::read::Decoder::new(packed).ok()?;
        let length_ns = pyramid.end_ns - pyramid.start_ns;
        let mut body = Body { inner: BufReader::new(body), left: raw_len, shift: pyramid.shift, length_ns, cells };
        let (tasks, functions) = (trace.tasks().len(), trace.functions().len());
        pyramid.states = body.tracks(tasks, State::ALL.len())?;
        pyramid.calls = body.tracks(tasks, functions)?;
        pyramid.cpus = body.tracks(1 << 16, tasks)?;
        (body.left == 0).then_some(pyramid)
    }
}

/// What a recording's chunks are, as their headers tell, which hold CRCs of what is in them; and the program's version, since
/// what it makes of them may change with it.
fn fingerprint(trace: &Trace) -> u64 {
    let mut crc = crc32c::crc32c(env!("CARGO_PKG_VERSION").as_bytes());
    for chunk in trace.chunks() {
        let h = chunk.header;
        let words = [chunk.offset, h.ts_min, h.ts_max].map(u64::to_le_bytes);
        let halves = [h.seq, h.rows, h.payload_len, h.head_crc].map(u32::to_le_bytes);
        crc = crc32c::crc32c_append(crc, words.as_flattened());
        crc = crc32c::crc32c_append(crc, halves.as_flattened());
    }
    u64::from(crc) | u64::try_from(trace.chunks().len()).unwrap_or(0) << 32
}

/// Counts and checks what passes.
struct Counted<W> {
    inner: W,
    crc: u32,
    len: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.inner.write(bytes)?;
        self.crc = crc32c::crc32c_append(self.crc, bytes.get(..n).unwrap_or_default());
        self.len += u64::try_from(n).unwrap_or(0);
        Ok(n)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

fn write_tracks<L: Lanes>(tracks: &BTreeMap<u32, Track<L>>, to: &mut impl Write) -> io::Result<()> {
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX).to_le_bytes();
    to.write_all(&number(tracks.len()))?;
    let mut bytes = Vec::new();
    for (key, track) in tracks {
        let Some(base) = track.base() else { continue };
        bytes.clear();
        bytes.extend(key.to_le_bytes());
        bytes.extend(number(base.len()));
        let mut before = 0;
        for run in base.runs() {
            bytes.extend((run.first - before).to_le_bytes());
            before = run.first;
        }
        base.runs().for_each(|run| bytes.extend(run.label.to_le_bytes()));
        for lane in 0..L::COUNT {
            let sums = base.runs().filter_map(|run| run.sums.get(lane).copied());
            if Level::<L>::is_narrow(track.shift()) {
                sums.for_each(|sum| bytes.extend(u32::try_from(sum).unwrap_or(u32::MAX).to_le_bytes()));
            } else {
                sums.for_each(|sum| bytes.extend(sum.to_le_bytes()));
            }
        }
        to.write_all(&bytes)?;
    }
    Ok(())
}

/// The decompressed body, as far as it was not read yet.
struct Body<R> {
    inner: R,
    left: u64,
    shift: u32,
    length_ns: u64,
    /// Cells of the whole trace.
    cells: u32,
}

impl<R: Read> Body<R> {
    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.left = self.left.checked_sub(u64::try_from(N).ok()?)?;
        let mut out = [0; N];
        self.inner.read_exact(&mut out).ok()?;
        Some(out)
    }

    fn number(&mut self) -> Option<u32> {
        self.bytes().map(u32::from_le_bytes)
    }

    fn numbers(&mut self, n: usize) -> Option<Vec<u32>> {
        let mut out = Vec::with_capacity(n.min(PORTION));
        for _ in 0..n {
            out.push(self.number()?);
        }
        Some(out)
    }

    /// Tracks whose numbers are below `numbers`, with labels below `labels`.
    fn tracks<L: Lanes>(&mut self, numbers: usize, labels: usize) -> Option<BTreeMap<u32, Track<L>>> {
        let mut out = BTreeMap::new();
        let mut before = None;
        for _ in 0..self.number()? {
            let key = self.number()?;
            if before.is_some_and(|before| before >= key) || usize::try_from(key).ok()? >= numbers {
                return None;
            }
            before = Some(key);
            out.insert(key, Track::over(self.level(labels)?, self.shift, self.length_ns));
        }
        Some(out)
    }

    fn level<L: Lanes>(&mut self, labels: usize) -> Option<Level<L>> {
        let runs = self.number()?;
        // Each takes some bytes of what is left.
        if u64::from(runs) > self.left / 8 || runs > self.cells.saturating_mul(2).saturating_add(1) {
            return None;
        }
        let n = usize::try_from(runs).ok()?;
        let (steps, marks) = (self.numbers(n)?, self.numbers(n)?);
        let narrow = Level::<L>::is_narrow(self.shift);
        let mut sums: Vec<Sums> = vec![Sums::default(); n];
        for lane in 0..L::COUNT {
            for sum in &mut sums {
                let word = if narrow { u64::from(self.number()?) } else { u64::from_le_bytes(self.bytes()?) };
                *sum.get_mut(lane)? = word;
            }
        }
        let mut level = Level::new(self.shift);
        let (mut first, width) = (0u32, 1u64 << self.shift);
        // The last cell ends with the trace.
        let last_ns = self.length_ns & (width - 1);
        let mut before = 0u64;
        for (at, ((&step, &label), &sums)) in steps.iter().zip(&marks).zip(&sums).enumerate() {
            first = first.checked_add(step)?;
            let total = sums.iter().try_fold(0u64, |total, &sum| total.checked_add(sum))?;
            let known = label == NOTHING || usize::try_from(label).ok()? < labels;
            // The last run is the empty one behind all others.
            let last_is_empty = at + 1 < n || total == 0 && label == NOTHING;
            let beyond_the_end = first >= self.cells && before > last_ns;
            if (at > 0 && step == 0)
                || first > self.cells
                || total > width
                || !known
                || !last_is_empty
                || beyond_the_end
            {
                return None;
            }
            before = total;
            level.put(first, sums, label);
        }
        level.trim();
        Some(level)
    }
}
