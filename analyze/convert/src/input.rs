//! What an input is, by its first bytes, and its bytes without compression.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::error::Error;

/// What an input is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputKind {
    /// An `.igt` trace.
    Igt,
    /// Text, perhaps of ftrace, perhaps compressed.
    Text,
    /// A SQLite database, perhaps one of ingero.
    Database,
    /// JSON of PyTorch's profiler, perhaps compressed.
    Kineto,
    /// What `perf record` writes.
    PerfData,
}

/// An input file.
#[derive(Debug, Clone)]
pub struct Input {
    path: PathBuf,
    kind: InputKind,
    packing: Packing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Packing {
    None,
    Xz,
    Gzip,
    Zstd,
}

const SQLITE_MAGIC: &[u8] = b"SQLite format 3\0";
const PERF_MAGIC: &[u8] = b"PERFILE2";
const MAGICS: &[(&[u8], Packing)] =
    &[(b"\xfd7zXZ\0", Packing::Xz), (b"\x1f\x8b", Packing::Gzip), (b"\x28\xb5\x2f\xfd", Packing::Zstd)];

impl Input {
    /// Looks at the first bytes of a file.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be read, [`Error::Input`] when it is nothing to convert.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let input = |problem: &str| Error::Input { path: path.to_owned(), problem: problem.to_owned() };
        // Asked before it is opened: to open a pipe is to wait for somebody who writes.
        let meta = path.metadata().map_err(|e| Error::io(path.display().to_string(), e))?;
        if meta.is_dir() {
            return Err(input("is a directory"));
        }
        if !meta.is_file() {
            return Err(input("is no regular file; an import reads its input twice, so save it to a file first"));
        }
        let head = read_head(&open(path)?, path)?;
        if head.starts_with(&ingero_format::layout::FILE_MAGIC) {
            return Ok(Self { path: path.to_owned(), kind: InputKind::Igt, packing: Packing::None });
        }
        if !head.is_empty() && ingero_format::layout::FILE_MAGIC.starts_with(&head) {
            let problem =
                format!("is cut too short: of an .igt file it has {} bytes, and no event is in them", head.len());
            return Err(input(&problem));
        }
        if head.starts_with(SQLITE_MAGIC) {
            return Ok(Self { path: path.to_owned(), kind: InputKind::Database, packing: Packing::None });
        }
        if head.starts_with(PERF_MAGIC) {
            return Ok(Self { path: path.to_owned(), kind: InputKind::PerfData, packing: Packing::None });
        }
        let packing = MAGICS.iter().find(|(magic, _)| head.starts_with(magic)).map_or(Packing::None, |m| m.1);
        let unpacked = Self { path: path.to_owned(), kind: InputKind::Text, packing };
        let mut start = Vec::new();
        let read = unpacked.text(Progress::none())?.take(4096).read_to_end(&mut start);
        if let Err(e) = read
            && start.is_empty()
        {
            return Err(input(&format!("is packed, and is cut or broken before anything of it can be read: {e}")));
        }
        if start.is_empty() {
            return Err(input("is empty"));
        }
        if start.starts_with(&ingero_format::layout::FILE_MAGIC) {
            return Err(input("is a compressed .igt file; unpack it first"));
        }
        if start.starts_with(SQLITE_MAGIC) {
            return Err(input("is a compressed database; unpack it first"));
        }
        if start.starts_with(b"\x17\x08\x44tracing") {
            return Err(input("is a trace.dat file; convert the text that trace-cmd report prints of it"));
        }
        if start.starts_with(PERF_MAGIC) {
            return Err(input("is a compressed perf.data file; unpack it first"));
        }
        if start.trim_ascii_start().starts_with(b"[{") || start.trim_ascii_start().starts_with(b"[\n") {
            return Err(input("is a JSON list: expected an object with traceEvents, as PyTorch's profiler exports it"));
        }
        if start.starts_with(b"\xef\xbb\xbf") {
            return Err(input("begins with a byte order mark; take its three bytes away"));
        }
        if start.trim_ascii_start().starts_with(b"{") {
            return Ok(Self { kind: InputKind::Kineto, ..unpacked });
        }
        if start.contains(&0) {
            return Err(input("is neither an .igt file nor text"));
        }
        Ok(unpacked)
    }

    /// Path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it is.
    #[must_use]
    pub fn kind(&self) -> InputKind {
        self.kind
    }

    /// Bytes of the file as it lies there.
    ///
    /// # Errors
    /// [`Error::Io`] when the system does not tell.
    pub fn len_bytes(&self) -> Result<u64, Error> {
        self.path.metadata().map(|m| m.len()).map_err(|e| Error::io(self.path.display().to_string(), e))
    }

    /// Its text from the start, unpacked as it is read.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be opened.
    pub fn text(&self, progress: Progress) -> Result<Box<dyn BufRead>, Error> {
        const BUFFER: usize = 1 << 18;
        let file = Counted { file: open(&self.path)?, progress };
        Ok(match self.packing {
            Packing::None => Box::new(BufReader::with_capacity(BUFFER, file)),
            Packing::Xz => {
                Box::new(BufReader::with_capacity(BUFFER, liblzma::read::XzDecoder::new_multi_decoder(file)))
            }
            Packing::Gzip => Box::new(BufReader::with_capacity(BUFFER, flate2::read::MultiGzDecoder::new(file))),
            Packing::Zstd => {
                let decoder = zstd::stream::read::Decoder::new(file)
                    .map_err(|e| Error::io(self.path.display().to_string(), e))?;
                Box::new(BufReader::with_capacity(BUFFER, decoder))
            }
        })
    }
}

fn open(path: &Path) -> Result<File, Error> {
    File::open(path).map_err(|e| Error::io(path.display().to_string(), e))
}

fn read_head(mut file: &File, path: &Path) -> Result<Vec<u8>, Error> {
    let mut head = Vec::new();
    let read = file.take(16).read_to_end(&mut head).and_then(|_| file.seek(SeekFrom::Start(0)));
    read.map(|_| head).map_err(|e| Error::io(path.display().to_string(), e))
}

/// Told about bytes as they are read or written; shows them to whoever waits.
#[derive(Debug, Clone)]
pub struct Progress(indicatif::ProgressBar);

impl Progress {
    /// Shows nothing.
    #[must_use]
    pub fn none() -> Self {
        Self(indicatif::ProgressBar::hidden())
    }

    /// A bar of `total` bytes on standard error, if that is a terminal.
    #[must_use]
    pub fn bytes(what: &'static str, total: u64) -> Self {
        let bar = indicatif::ProgressBar::new(total).with_message(what);
        if let Ok(style) = indicatif::ProgressStyle::with_template("{msg} {wide_bar} {bytes}/{total_bytes} {eta}") {
            bar.set_style(style);
        }
        Self(bar)
    }

    /// A bar of `total` rows on standard error, if that is a terminal.
    #[must_use]
    pub fn count(what: &'static str, total: u64) -> Self {
        let bar = indicatif::ProgressBar::new(total).with_message(what);
        if let Ok(style) = indicatif::ProgressStyle::with_template("{msg} {wide_bar} {human_pos}/{human_len} {eta}") {
            bar.set_style(style);
        }
        Self(bar)
    }

    /// Counts more of what the bar counts.
    pub fn add(&self, more: u64) {
        self.0.inc(more);
    }

    /// Takes the bar away.
    pub fn done(&self) {
        self.0.finish_and_clear();
    }
}

struct Counted {
    file: File,
    progress: Progress,
}

impl Read for Counted {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read(buf)?;
        self.progress.add(n as u64);
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn kind_of(bytes: &[u8]) -> Result<InputKind, String> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        Input::open(file.path()).map(|i| i.kind()).map_err(|e| e.to_string())
    }

    #[test]
    fn inputs_are_told_apart_by_content() {
        let text = b"# tracer: nop\n#\n";
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(text).unwrap();
        let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
        xz.write_all(text).unwrap();
        for bytes in [text.to_vec(), gz.finish().unwrap(), xz.finish().unwrap(), zstd::bulk::compress(text, 1).unwrap()]
        {
            assert_eq!(kind_of(&bytes), Ok(InputKind::Text));
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(&bytes).unwrap();
            let mut all = Vec::new();
            Input::open(file.path()).unwrap().text(Progress::none()).unwrap().read_to_end(&mut all).unwrap();
            assert_eq!(all, text);
        }
        assert_eq!(kind_of(b"\x89IGT\r\n\x1a\n"), Ok(InputKind::Igt));
        assert_eq!(kind_of(b"SQLite format 3\0"), Ok(InputKind::Database));
        assert_eq!(kind_of(b"PERFILE2\x68\0"), Ok(InputKind::PerfData));
        assert_eq!(kind_of(b" \n{\"schemaVersion\": 1"), Ok(InputKind::Kineto));
        for (bytes, word) in [
            (&b""[..], "empty"),
            (b"\x17\x08\x44tracing6\0", "trace-cmd report"),
            (b"\x7fELF\0\0\0", "neither"),
            (b"\x89", "cut too short"),
            (b"\x89IGT\r\n\x1a", "cut too short"),
            (b"[{\"ph\":\"X\"}]", "an object with traceEvents"),
            (b"\xef\xbb\xbf{}", "byte order mark"),
            (b"\xfd7zXZ\0junk", "is packed, and is cut or broken"),
            (b"\x1f\x8b\x08\0\0", "is packed, and is cut or broken"),
            (b"\x28\xb5\x2f\xfd\x04", "is packed, and is cut or broken"),
        ] {
            let problem = kind_of(bytes).unwrap_err();
            assert!(problem.contains(word), "{problem}");
        }
        assert!(Input::open(Path::new("/nowhere/at-all")).unwrap_err().to_string().contains("/nowhere/at-all"));
        assert!(Input::open(Path::new("/dev/null")).is_err());
    }
}
