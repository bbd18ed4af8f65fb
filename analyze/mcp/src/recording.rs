//! One recording, opened when it is first asked about.

use std::collections::VecDeque;
use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use ingero_analyze::{Analysis, report};
use ingero_convert::export::{Selection, sqlite};
use ingero_convert::import::{ImportOptions, ingero};
use ingero_convert::input::{Input, Progress};
use ingero_format::Trace;
use ingero_format::catalog::TaskId;
use ingero_format::layout::FILE_MAGIC;
use ingero_replay::program::with_causes;
use ingero_replay::{Processes, Window, parse_when};

use crate::figures::Figures;
use crate::problem::Problem;
use crate::scratch::Scratch;
use crate::words::Quoter;

/// Analyses that are kept: an assistant asks about a few ranges again and again.
const KEPT: usize = 8;
/// How an SQLite database begins.
const SQLITE_MAGIC: &[u8] = b"SQLite format 3\0";

/// A file that can be asked about.
pub struct Recording {
    name: String,
    path: PathBuf,
    opened: Mutex<Option<Arc<Opened>>>,
}

/// A recording that was read.
pub(crate) struct Opened {
    pub(crate) trace: Trace,
    pub(crate) processes: Processes,
    /// What the file looked like when it was opened.
    stamp: Stamp,
    /// What was made of it, removed with it.
    scratch: Scratch,
    figures: Mutex<VecDeque<(Window, Arc<Figures>)>>,
    database: Mutex<Option<PathBuf>>,
}

/// By this a change of a file is seen.
type Stamp = (u64, u64, Option<SystemTime>);

impl Recording {
    /// The recording at a path, to be opened later.
    pub(crate) fn new(name: String, path: PathBuf) -> Self {
        Self { name, path, opened: Mutex::new(None) }
    }

    /// What it is called in the tools.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens it, again where the file has changed.
    pub(crate) fn open(&self) -> Result<Arc<Opened>, Problem> {
        let stamp = self.stamp()?;
        let mut opened = lock(&self.opened);
        if let Some(known) = opened.as_ref().filter(|known| known.stamp == stamp) {
            return Ok(known.clone());
        }
        let scratch = Scratch::new().map_err(|e| Problem::new(format!("cannot make a temporary folder: {e}")))?;
        let trace = self.read(scratch.path())?;
        let processes = Processes::new(&trace);
        let (figures, database) = (Mutex::default(), Mutex::default());
        let new = Arc::new(Opened { trace, processes, stamp, scratch, figures, database });
        *opened = Some(new.clone());
        Ok(new)
    }

    fn stamp(&self) -> Result<Stamp, Problem> {
        let facts = fs::metadata(&self.path).map_err(|e| self.unread(&e))?;
        Ok((facts.ino(), facts.len(), facts.modified().ok()))
    }

    fn read(&self, scratch: &Path) -> Result<Trace, Problem> {
        match kind(&self.path) {
            Ok(FileKind::Database) => {
                import(&self.path, &scratch.join("imported.igt")).map_err(|e| self.unreadable(&e))
            }
            // What is wrong with anything else is told best by whoever tries to read it.
            _ => Trace::open(&self.path).map_err(|e| self.unread(&e)),
        }
    }

    fn unread(&self, problem: &(dyn std::error::Error + 'static)) -> Problem {
        self.unreadable(&with_causes(problem))
    }

    fn unreadable(&self, problem: &str) -> Problem {
        Problem::of(&self.path, format!("{problem}; get_capture_health lists the recordings"))
    }
}

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileKind {
    /// A recording.
    Igt,
    /// A database of SQLite, perhaps one of ingero.
    Database,
}

/// What a file is, by its first bytes.
///
/// # Errors
/// Why it cannot be read, or that it is neither.
pub(crate) fn kind(path: &Path) -> Result<FileKind, String> {
    // To open a pipe is to wait for somebody who writes.
    let facts = fs::metadata(path).map_err(|e| e.to_string())?;
    if !facts.is_file() {
        return Err("it is no file".to_owned());
    }
    let mut head = Vec::new();
    let limit = SQLITE_MAGIC.len() as u64;
    fs::File::open(path).and_then(|file| file.take(limit).read_to_end(&mut head)).map_err(|e| e.to_string())?;
    match () {
        () if head.is_empty() => Err("it is empty".to_owned()),
        () if head.starts_with(&FILE_MAGIC) => Ok(FileKind::Igt),
        () if head == SQLITE_MAGIC => Ok(FileKind::Database),
        () => Err("it is neither a recording (.igt) nor a database (.db)".to_owned()),
    }
}

/// Imports a database of ingero. What is wrong with single rows is left out and counted in the recording.
fn import(path: &Path, to: &Path) -> Result<Trace, String> {
    let options = ImportOptions { keep_going: true, ..ImportOptions::default() };
    let input = Input::open(path).map_err(|e| with_causes(&e))?;
    ingero::import(&input, to, options).map_err(|e| with_causes(&e))?;
    Trace::open(to).map_err(|e| with_causes(&e))
}

impl Opened {
    /// A range by what the assistant gave.
    pub(crate) fn window(&self, from: Option<&str>, to: Option<&str>, since: Option<&str>) -> Result<Window, Problem> {
        if from.is_some() && since.is_some() {
            return Err(Problem::new("give from or since, not both: since is the last stretch of the recording"));
        }
        // Moments that are shown can be asked about: a range that ends where it begins is that instant.
        if let (Some(from), Some(to)) = (from, to)
            && parse_when(from).is_ok_and(|from| parse_when(to) == Ok(from))
        {
            let at_ns = Window::parse_instant(&self.trace, from).map_err(Problem::new)?;
            return Ok(Window { from_ns: at_ns, to_ns: at_ns.saturating_add(1), ..Window::whole(&self.trace) });
        }
        Window::parse(&self.trace, from, to, since).map_err(Problem::new)
    }

    /// The figures of a range, worked out once.
    pub(crate) fn figures(&self, window: Window) -> Result<Arc<Figures>, Problem> {
        // Whoever asks the same meanwhile waits for the one answer.
        let mut kept = lock(&self.figures);
        if let Some((_, known)) = kept.iter().find(|(of, _)| *of == window) {
            return Ok(known.clone());
        }
        let analysis = Analysis::new(&self.trace, window);
        let json =
            report::json(&analysis, &[]).map_err(|e| Problem::new(format!("cannot analyse the recording: {e}")))?;
        let figures = Arc::new(Figures::new(&json, &self.quoter(window.to_ns))?);
        kept.push_front((window, figures.clone()));
        kept.truncate(KEPT);
        Ok(figures)
    }

    /// What the recording as a whole cannot show.
    pub(crate) fn caveats(&self) -> Result<Vec<String>, Problem> {
        Ok(self.figures(Window::whole(&self.trace))?.caveats.clone())
    }

    fn quoter(&self, at_ns: u64) -> Quoter {
        let tasks = (0..).map(TaskId).take(self.trace.tasks().len());
        Quoter::new(tasks.filter_map(|task| self.processes.name_at(task, at_ns)).map(|name| self.trace.string(name)))
    }

    /// The recording as an SQLite database, made when it is first wanted.
    pub(crate) fn database(&self) -> Result<PathBuf, Problem> {
        let mut database = lock(&self.database);
        if let Some(path) = database.as_ref() {
            return Ok(path.clone());
        }
        let path = self.scratch.path().join("tables.sqlite");
        sqlite::export(&self.trace, &Selection::whole(&self.trace), &path, true, &Progress::none()).map_err(|e| {
            Problem::new(format!(
                "cannot make tables of the recording: {e}; get_trace_stats, get_timeline and the other tools need none"
            ))
        })?;
        *database = Some(path.clone());
        Ok(path)
    }
}

/// Locks, also after somebody panicked: what is guarded here is replaced as a whole or not at all.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
