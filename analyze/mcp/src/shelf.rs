//! The recordings that can be asked about.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::names::{MAX_RECORDINGS, Names};
use crate::problem::Problem;
use crate::recording::{self, Recording};

/// Folders within a folder that are looked into.
const MAX_DEPTH: usize = 4;
/// Recordings that are held open at most; each may hold a database of its own.
const MAX_OPEN: usize = 16;

/// Recordings and folders of recordings, as they were named at the start.
pub struct Shelf {
    places: Vec<PathBuf>,
    open: Mutex<HashMap<PathBuf, (u64, Arc<Recording>)>>,
}

impl Shelf {
    /// For files and folders. What folders hold is looked up anew each time.
    ///
    /// # Errors
    /// When one of them is not there, or none holds a recording.
    pub fn new(places: Vec<PathBuf>) -> Result<Self, Problem> {
        for place in &places {
            // Of a folder, files that cannot be read are listed as such; one that is named is expected to be what it should.
            if !fs::metadata(place).map_err(|e| Problem::of(place, e))?.is_dir() {
                recording::kind(place).map_err(|problem| Problem::of(place, problem))?;
            }
        }
        let shelf = Self { places, open: Mutex::default() };
        if shelf.names().is_empty() {
            let places: Vec<String> = shelf.places.iter().map(|p| p.display().to_string()).collect();
            return Err(Problem::new(format!(
                "{}: no recording (.igt) or ingero database (.db) in it or in the folders below; name a file or \
                 another folder",
                places.join(", ")
            )));
        }
        Ok(shelf)
    }

    /// All recordings that there are now.
    #[must_use]
    pub fn names(&self) -> Names {
        let mut names = Names::default();
        for place in &self.places {
            if place.is_dir() {
                let mut files = Vec::new();
                walk(place, 0, &mut files);
                for file in files {
                    let name = file.strip_prefix(place).unwrap_or(&file).display().to_string();
                    names.insert(&name, place, file);
                }
            } else {
                let name = place.file_name().map_or_else(|| place.display().to_string(), |n| n.display().to_string());
                names.insert(&name, place.parent().unwrap_or(place), place.clone());
            }
        }
        names
    }

    /// The recording of a name; without a name the only one that there is.
    ///
    /// # Errors
    /// When there is none of that name, or several and none is named.
    pub fn recording(&self, name: Option<&str>) -> Result<Arc<Recording>, Problem> {
        let names = self.names();
        let (name, path) = match (name, names.only()) {
            (Some(name), _) => names.find(name)?,
            (None, Some(only)) => only,
            (None, None) if names.is_empty() => {
                return Err(Problem::new("the recordings are gone: no file is left"));
            }
            (None, None) => {
                return Err(Problem::new(format!(
                    "there are {} recordings: give one of these as recording: {}",
                    names.len(),
                    names.list()
                )));
            }
        };
        Ok(self.opened(name, path))
    }

    fn opened(&self, name: &str, path: &Path) -> Arc<Recording> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let now = open.values().map(|(used, _)| used + 1).max().unwrap_or(0);
        if let Some((used, known)) = open.get_mut(path) {
            *used = now;
            return known.clone();
        }
        if open.len() >= MAX_OPEN {
            // Whoever is answering from it still has it.
            let oldest = open.iter().min_by_key(|(_, (used, _))| *used).map(|(path, _)| path.clone());
            oldest.map(|path| open.remove(&path));
        }
        let new = Arc::new(Recording::new(name.to_owned(), path.to_owned()));
        open.insert(path.to_owned(), (now, new.clone()));
        new
    }
}

/// The recordings of a folder and those below it.
fn walk(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut entries: Vec<_> = entries.filter_map(Result::ok).collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        // A link is followed to a file, never to a folder: that could lead round in circles.
        let is_dir = entry.file_type().is_ok_and(|t| t.is_dir());
        if is_dir && !hidden && depth < MAX_DEPTH {
            walk(&path, depth + 1, files);
        } else if !is_dir && !hidden && is_recording(&path) && path.is_file() && files.len() <= MAX_RECORDINGS {
            files.push(path);
        }
    }
}

fn is_recording(path: &Path) -> bool {
    ["igt", "db"].iter().any(|known| path.extension() == Some(OsStr::new(known)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, ingero_format::layout::FILE_MAGIC).unwrap();
        }
        dir
    }

    #[test]
    fn a_folder_is_searched_for_recordings() {
        let dir = folder(&["b/run.igt", "a/run.igt", "c/old.db", "a/notes.txt", ".git/x.igt", "1/2/3/4/5/deep.igt"]);
        let shelf = Shelf::new(vec![dir.path().to_owned()]).unwrap();
        let names: Vec<String> = shelf.names().iter().map(|(name, _)| name.to_owned()).collect();
        assert_eq!(names, ["a/run.igt", "b/run.igt", "c/old.db"]);
        assert_eq!(shelf.recording(Some("b/run.igt")).unwrap().path(), dir.path().join("b/run.igt"));
        let problem = shelf.recording(None).err().unwrap().to_string();
        assert!(problem.contains("give one of these as recording: \"a/run.igt\", \"b/run.igt\""), "{problem}");
        let problem = shelf.recording(Some("../a")).err().unwrap().to_string();
        assert!(problem.starts_with("no recording is called \"../a\""), "{problem}");

        fs::write(dir.path().join("new.igt"), b"").unwrap();
        assert!(shelf.recording(Some("new.igt")).is_ok());
    }

    #[test]
    fn one_recording_needs_no_name_and_equal_names_get_their_folders() {
        let dir = folder(&["a/run.igt", "b/run.igt", "empty/readme.md"]);
        let at = |name: &str| dir.path().join(name);
        assert_eq!(Shelf::new(vec![at("a/run.igt")]).unwrap().recording(None).unwrap().name(), "run.igt");
        let both = Shelf::new(vec![at("a/run.igt"), at("b/run.igt"), at("a/run.igt")]).unwrap();
        assert_eq!(both.names().len(), 2);
        assert!(both.names().iter().all(|(name, _)| name.ends_with("/a/run.igt") || name.ends_with("/b/run.igt")));
        let problem = Shelf::new(vec![at("empty/readme.md")]).err();
        assert!(problem.is_none(), "its first bytes are those of a recording");
        fs::write(at("empty/readme.md"), "text").unwrap();
        let problem = Shelf::new(vec![at("empty/readme.md")]).err().unwrap().to_string();
        assert!(problem.contains("neither a recording (.igt) nor a database (.db)"), "{problem}");

        let problem = Shelf::new(vec![at("empty")]).err().unwrap().to_string();
        assert!(problem.contains("no recording (.igt)"), "{problem}");
        let problem = Shelf::new(vec![at("nowhere")]).err().unwrap().to_string();
        assert!(problem.contains("nowhere: No such file"), "{problem}");
    }

    #[test]
    fn few_recordings_are_open_at_a_time() {
        let names: Vec<String> = (0..40).map(|i| format!("{i}.igt")).collect();
        let dir = folder(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let shelf = Shelf::new(vec![dir.path().to_owned()]).unwrap();
        for name in &names {
            shelf.recording(Some(name)).unwrap();
            assert!(shelf.open.lock().unwrap().len() <= MAX_OPEN);
        }
        assert!(shelf.open.lock().unwrap().contains_key(&dir.path().join("39.igt")));
    }
}
