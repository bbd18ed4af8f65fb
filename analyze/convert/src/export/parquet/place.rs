//! Where the files of a recording go, and the manifest that says which they are.
//!
//! All files are written under a temporary folder first and moved to their places at the end, the manifest last: what a
//! manifest names is complete.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use ingero_format::{KindSchema, Trace};
use ingero_replay::{show_wall, start_unix_ns};
use serde_json::{Value, json};

use super::table::Written;
use super::tasks::UnixClock;
use super::{DATASET, Exported};
use crate::error::Error;
use crate::export::selection::Selection;
use crate::output::{PendingFolder, private_file};

/// The date of recordings that do not know their wall clock.
const NO_DATE: &str = "1970-01-01";

/// Names that the tables of kinds must not take.
const TABLES: &[&str] =
    &["calls", "thread_states", "behind", "runs", "processes", "tasks", "totals", "phases", "incidents", "manifest"];

/// The places of one recording's files.
pub(super) struct Place {
    folder: PathBuf,
    pending: PendingFolder,
    force: bool,
    host: String,
    date: String,
    /// What the names of all exports of this recording begin with, where its begin is known by the wall clock.
    begin: Option<String>,
    pub(super) run: String,
    pub(super) clock: UnixClock,
    files: Vec<(String, Written)>,
}

impl Place {
    pub(super) fn new(trace: &Trace, folder: &Path, force: bool) -> Result<Self, Error> {
        let (start_ns, _) = trace.span_ns().unwrap_or_default();
        let start = start_unix_ns(trace, start_ns);
        let path = Path::new(trace.path());
        let stem = path.file_stem().map_or_else(|| "trace".to_owned(), |s| s.to_string_lossy().into_owned());
        let date = start.map_or_else(|| NO_DATE.to_owned(), |ns| show_wall(ns).chars().take(10).collect());
        let begin = start.map(|ns| format!("{ns}-"));
        let run = match &begin {
            Some(begin) => format!("{begin}{}", plain(&stem)),
            // Times since boot tell recordings of one name apart well enough.
            None => format!("t{start_ns}-{}", plain(&stem)),
        };
        let host = plain(trace.meta("host").unwrap_or("unknown"));
        if folder.is_file() {
            let problem = std::io::Error::new(std::io::ErrorKind::NotADirectory, "is a file; name a folder");
            return Err(Error::io(folder.display().to_string(), problem));
        }
        fs::create_dir_all(folder).map_err(|e| Error::io(folder.display().to_string(), e))?;
        let place = Self {
            folder: folder.to_owned(),
            pending: PendingFolder::create(folder)?,
            force,
            host,
            date,
            begin,
            run,
            clock: UnixClock { offset_ns: start.map(|unix| i128::from(unix) - i128::from(start_ns)) },
            files: Vec::new(),
        };
        if let (Some(manifest), false) = (place.there().into_iter().next(), force) {
            let problem = format!("has this recording already ({}); replace it with --force", manifest.display());
            return Err(Error::Input { path: folder.to_owned(), problem });
        }
        Ok(place)
    }

    fn manifest(&self) -> PathBuf {
        self.folder.join("manifest").join(format!("host={}", self.host)).join(format!("{}.json", self.run))
    }

    /// The manifests of what was exported of this recording before: one that begins at the same nanosecond on the same host is the same,
    /// whatever its file is called by now. Where the begin is known since boot only, its name tells.
    fn there(&self) -> Vec<PathBuf> {
        let own = self.manifest();
        let Some((begin, folder)) = self.begin.as_ref().zip(own.parent()) else {
            return own.exists().then_some(own).into_iter().collect();
        };
        let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let is_of_it = |path: &PathBuf| {
            let name = path.file_name().map(|name| name.to_string_lossy());
            name.is_some_and(|name| name.starts_with(begin.as_str()) && name.ends_with(".json"))
        };
        let mut there: Vec<_> = entries.filter(is_of_it).collect();
        there.sort();
        there
    }

    /// The name of a kind's table: its own, unless a table has it already.
    pub(super) fn kind_table(&self, kind: &KindSchema) -> String {
        let name = plain(&kind.name);
        let taken = TABLES.contains(&name.as_str()) || self.files.iter().any(|(n, _)| *n == name);
        if taken { format!("{name}-{}", kind.number) } else { name }
    }

    /// Where a table is written until all of them are complete.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.pending.path().join(format!("{}.parquet", plain(name)))
    }

    /// Keeps a table; one of a kind only if something is in it. The others are always there, so that no query fails.
    pub(super) fn keep(&mut self, name: &str, written: Written) {
        if written.rows > 0 || TABLES.contains(&name) {
            self.files.push((plain(name), written));
        }
    }

    /// Moves the files to their places.
    pub(super) fn publish(self, trace: &Trace, selection: &Selection) -> Result<Exported, Error> {
        let mut files = Vec::new();
        let mut done = Exported::default();
        let manifest = self.manifest();
        if self.force {
            self.there().iter().try_for_each(|manifest| self.forget(manifest))?;
        }
        for (table, written) in &self.files {
            let name = format!("{table}/host={}/date={}/{}.parquet", self.host, self.date, self.run);
            move_file(&self.path(table), &self.folder.join(&name))?;
            done.files += 1;
            done.rows += written.rows;
            done.bytes += written.bytes;
            let range = written.range.map(|(lo, hi)| json!([lo, hi]));
            files.push(json!({ "table": table, "path": name, "rows": written.rows, "bytes": written.bytes, "range_ns": range }));
        }
        let meta: serde_json::Map<String, Value> =
            trace.meta_entries().iter().map(|(k, v)| (k.clone(), Value::from(v.as_str()))).collect();
        let (start_ns, end_ns) = trace.span_ns().unwrap_or_default();
        let text = json!({
            "dataset": DATASET,
            "host": self.host,
            "date": self.date,
            "run": self.run,
            "complete": trace.complete(),
            "cut": !selection.is_whole(),
            "start_ns": start_ns,
            "end_ns": end_ns,
            "start_unix_ns": self.clock.at(start_ns),
            "files": files,
            "meta": meta,
        });
        let fresh = self.pending.path().join("manifest.json");
        let written = private_file(&fresh).and_then(|mut file| file.write_all(format!("{text:#}\n").as_bytes()));
        written.map_err(|e| Error::io(fresh.display().to_string(), e))?;
        move_file(&fresh, &manifest)?;
        Ok(done)
    }

    /// Takes away what an earlier export of the same recording wrote, its manifest first.
    fn forget(&self, manifest: &Path) -> Result<(), Error> {
        let io = |path: &Path| {
            let what = path.display().to_string();
            move |e| Error::io(what, e)
        };
        let run = manifest.file_stem().map(|stem| plain(&stem.to_string_lossy())).unwrap_or_default();
        let text = fs::read_to_string(manifest).map_err(io(manifest))?;
        let old: Value = serde_json::from_str(&text).unwrap_or_default();
        fs::remove_file(manifest).map_err(io(manifest))?;
        for file in old["files"].as_array().into_iter().flatten() {
            let Some(table) = file["table"].as_str() else { continue };
            // Never a path that the manifest says, which could be any: only what an export would write.
            let name = format!("{}/host={}/date={}/{run}.parquet", plain(table), self.host, self.date);
            let path = self.folder.join(name);
            if path.is_file() {
                fs::remove_file(&path).map_err(io(&path))?;
            }
        }
        Ok(())
    }
}

fn move_file(from: &Path, to: &Path) -> Result<(), Error> {
    let io = |e| Error::io(format!("moving to {}", to.display()), e);
    if let Some(folder) = to.parent() {
        if folder.is_file() {
            let problem = std::io::Error::new(std::io::ErrorKind::NotADirectory, "is a file; name a folder");
            return Err(Error::io(folder.display().to_string(), problem));
        }
        fs::create_dir_all(folder).map_err(io)?;
    }
    fs::rename(from, to).map_err(io)
}

/// A text as a part of a path that every store takes.
fn plain(text: &str) -> String {
    let kept = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let name: String = text.chars().map(kept).take(100).collect();
    if name.trim_matches('.').is_empty() { "unknown".to_owned() } else { name }
}
