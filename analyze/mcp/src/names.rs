//! What recordings are called, and which one is meant.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use crate::problem::Problem;
use crate::words::{quotable, quoted_to};

/// Characters of a recording's name at most.
pub(crate) const MAX_CHARS: usize = 400;
/// Recordings that are served at most.
pub(crate) const MAX_RECORDINGS: usize = 10_000;
/// Names in a message at most, and bytes of them.
const MAX_LISTED: usize = 20;
const MAX_LISTED_BYTES: usize = 600;

/// The recordings of a shelf, as they were when they were looked for.
#[derive(Debug, Default)]
pub struct Names {
    by_name: BTreeMap<String, PathBuf>,
    files: HashSet<PathBuf>,
    /// Names that stand for a file and say nothing of its folder, with what they would be with it.
    short: BTreeMap<String, String>,
    /// Short names that several would have, and none has therefore.
    ambiguous: HashSet<String>,
    is_cut: bool,
}

impl Names {
    /// Adds a recording. Of several with one name each is called by its folder too.
    pub(crate) fn insert(&mut self, name: &str, folder: &Path, file: PathBuf) {
        if self.files.contains(&file) {
            return;
        }
        if self.by_name.len() >= MAX_RECORDINGS {
            self.is_cut = true;
            return;
        }
        // What is shown of a name is what has to be given back: it is made fit for showing here.
        let short = quotable(name, MAX_CHARS);
        let long = quotable(&format!("{}/{name}", folder.display()), MAX_CHARS);
        self.files.insert(file.clone());
        if !self.by_name.contains_key(&short) && !self.ambiguous.contains(&short) {
            self.by_name.insert(short.clone(), file);
            self.short.insert(short, long);
            return;
        }
        // Whoever had the short name so far would be taken for the only one of it.
        if let Some(other) = self.short.remove(&short)
            && let Some(file) = self.by_name.remove(&short)
        {
            self.insert_free(other, file);
        }
        self.ambiguous.insert(short);
        self.insert_free(long, file);
    }

    fn insert_free(&mut self, name: String, file: PathBuf) {
        let numbered = (2_u32..).map(|n| format!("{name} ({n})"));
        let free = std::iter::once(name.clone()).chain(numbered).find(|name| !self.by_name.contains_key(name));
        free.map(|free| self.by_name.insert(free, file));
    }

    /// Names with their files, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Path)> {
        self.by_name.iter().map(|(name, file)| (name.as_str(), file.as_path()))
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Whether there are more recordings than are served.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// The only recording.
    #[must_use]
    pub fn only(&self) -> Option<(&str, &Path)> {
        self.iter().next().filter(|_| self.len() == 1)
    }

    /// The recording that is meant: by its name, or by its path or its folder where that says which.
    ///
    /// # Errors
    /// When there is none such, or several.
    pub fn find(&self, asked: &str) -> Result<(&str, &Path), Problem> {
        if let Some((name, file)) = self.by_name.get_key_value(asked) {
            return Ok((name, file));
        }
        let asked_path = Path::new(asked.trim().trim_matches('"'));
        let is_meant = |file: &Path| {
            file.ends_with(asked_path)
                || file.with_extension("").ends_with(asked_path)
                || file.parent().is_some_and(|folder| folder.ends_with(asked_path))
                || asked_path.ends_with(file)
        };
        let meant: Vec<(&str, &Path)> = self.iter().filter(|(_, file)| is_meant(file)).take(MAX_LISTED + 1).collect();
        match (meant.as_slice(), asked_path.as_os_str().is_empty()) {
            ([one], false) => Ok(*one),
            ([_, _, ..], false) => Err(Problem::new(format!(
                "{} can be several recordings; give one of these as recording: {}",
                quoted_to(asked, MAX_CHARS),
                listed(meant.iter().map(|(name, _)| *name), meant.len())
            ))),
            _ => Err(Problem::new(format!(
                "no recording is called {}; give one of these as recording: {}",
                quoted_to(asked, MAX_CHARS),
                self.list()
            ))),
        }
    }

    /// Names for a message: as many as can be read.
    #[must_use]
    pub fn list(&self) -> String {
        listed(self.by_name.keys().map(String::as_str), self.len())
    }
}

fn listed<'n>(names: impl Iterator<Item = &'n str>, total: usize) -> String {
    let (mut shown, mut bytes) = (Vec::new(), 0);
    for name in names.take(MAX_LISTED) {
        bytes += name.len();
        if bytes > MAX_LISTED_BYTES && !shown.is_empty() {
            break;
        }
        shown.push(quoted_to(name, MAX_CHARS));
    }
    let more = total.saturating_sub(shown.len());
    let more = if more > 0 { format!(" and {more} more, which get_capture_health lists") } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(files: &[&str]) -> Names {
        let mut names = Names::default();
        for file in files {
            names.insert(file, Path::new("in"), Path::new("in").join(file));
        }
        names
    }

    #[test]
    fn a_recording_is_found_by_name_path_and_folder() {
        let names = names(&["a/run.igt", "b/run.igt", "b/old.db", "c/d/run.igt"]);
        let found = |asked: &str| names.find(asked).map(|(name, _)| name.to_owned());
        for (asked, name) in [
            ("a/run.igt", "a/run.igt"),
            ("a", "a/run.igt"),
            ("in/a", "a/run.igt"),
            ("a/run", "a/run.igt"),
            ("old", "b/old.db"),
            ("/home/me/in/b/old.db", "b/old.db"),
            ("\"c/d\"", "c/d/run.igt"),
        ] {
            assert_eq!(found(asked).unwrap(), name, "{asked}");
        }
        let several = found("b").unwrap_err().to_string();
        assert_eq!(
            several,
            "\"b\" can be several recordings; give one of these as recording: \"b/old.db\", \"b/run.igt\""
        );
        for none in ["", "\"\"", "un.igt", "x", "../a", ".."] {
            let problem = found(none).unwrap_err().to_string();
            assert!(problem.contains("give one of these as recording: \"a/run.igt\", "), "{problem}");
        }
    }

    #[test]
    fn a_name_is_shown_as_it_has_to_be_given_back() {
        let long = format!("{}/run.igt", "folder-of-a-long-name/".repeat(8));
        let odd = ["x\" y.igt", "x' y.igt", "x\u{200b}' y.igt", "x\u{202e}' y.igt", &long];
        let names = names(&odd);
        assert_eq!(names.len(), odd.len(), "none is lost for having another's name: {names:?}");
        for (name, file) in names.iter() {
            assert_eq!(quoted_to(name, MAX_CHARS), format!("\"{name}\""));
            assert_eq!(names.find(name).unwrap().1, file);
        }
    }

    #[test]
    fn recordings_of_one_name_are_all_called_by_their_folders() {
        let mut names = Names::default();
        for folder in ["/a", "/b", "/c"] {
            names.insert("run.igt", Path::new(folder), Path::new(folder).join("run.igt"));
        }
        names.insert("other.igt", Path::new("/a"), PathBuf::from("/a/other.igt"));
        let all: Vec<&str> = names.iter().map(|(name, _)| name).collect();
        assert_eq!(all, ["/a/run.igt", "/b/run.igt", "/c/run.igt", "other.igt"]);
        assert!(names.find("run.igt").unwrap_err().to_string().contains("can be several recordings"));
    }

    #[test]
    fn what_is_too_much_is_said() {
        let mut names = Names::default();
        for i in 0..MAX_RECORDINGS {
            names.insert(&format!("{i:0>100}.igt"), Path::new(""), PathBuf::from(format!("{i}.igt")));
        }
        assert!(!names.is_cut());
        let list = names.list();
        assert!(list.len() < 1000 && list.ends_with("9995 more, which get_capture_health lists"), "{list}");
        names.insert("more.igt", Path::new(""), PathBuf::from("more.igt"));
        assert!(names.is_cut() && names.len() == MAX_RECORDINGS);
    }
}
