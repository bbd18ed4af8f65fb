//! Guessing, before a command runs, which CUDA libraries it will load.
//!
//! Probes belong to a file, not to a process: attached before the command's first instruction, they miss no call
//! of it. Whatever this guess overlooks is found when it is mapped, some milliseconds later (see
//! [`discovery`](super::discovery)), so a wrong guess costs little either way.
//!
//! Looked at: the command's own file, the programs that its arguments and scripts name, the closure of what it is linked with (RPATH, the
//! environment's `LD_LIBRARY_PATH`, RUNPATH, the loader's cache, the default folders), `LD_PRELOAD`, CUDA's usual
//! folders, and of every Python in sight the packages that bring CUDA libraries along.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::elf::Elf;
use super::kind::is_cuda_library;

/// The loader looks here when nothing else helped.
const DEFAULT_DIRS: [&str; 8] = [
    "/lib64",
    "/usr/lib64",
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib",
    "/usr/lib",
];
/// Installations of the toolkit and of container runtimes.
const CUDA_DIRS: [&str; 4] =
    ["/usr/local/cuda/lib64", "/usr/local/nvidia/lib64", "/usr/lib/wsl/lib", "/opt/cuda/lib64"];
const CACHE: &str = "/etc/ld.so.cache";
/// Arguments, words of a text, and programs among them that are looked at, at most; bytes of a script.
const ARGS: usize = 64;
const WORDS: usize = 2000;
const PROGRAMS: usize = 100;
const SCRIPT_BYTES: u64 = 64 << 10;
/// Files of one closure that are looked into at most.
const CLOSURE_FILES: usize = 2000;

/// What the guess is made from.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// The command's file.
    pub program: PathBuf,
    /// Its arguments, the name first.
    pub args: Vec<OsString>,
    /// Its environment.
    pub env: Vec<(OsString, OsString)>,
}

impl Surroundings {
    fn var(&self, name: &str) -> Option<&OsStr> {
        let found = self.env.iter().find(|(n, _)| n == name)?;
        Some(found.1.as_os_str()).filter(|v| !v.is_empty())
    }

    fn paths(&self, name: &str) -> Vec<PathBuf> {
        self.var(name).map(|v| std::env::split_paths(v).collect()).unwrap_or_default()
    }
}

/// Files that may hold probed functions: existing ones, each once, in a fixed order. Programs come along, since the
/// runtime may be linked into them.
#[must_use]
pub fn find_candidates(surroundings: &Surroundings) -> Vec<PathBuf> {
    let mut search = Search::new(surroundings);
    let programs = search.programs(surroundings);
    for program in &programs {
        search.closure(program);
    }
    for file in surroundings.paths("LD_PRELOAD") {
        search.closure(&file);
    }
    for dir in search.dirs(&[], &[]) {
        search.cuda_files(&dir);
    }
    for entry in std::mem::take(&mut search.cache) {
        if entry.file_name().is_some_and(is_cuda_library) {
            search.add(&entry);
        }
    }
    for site in site_dirs(surroundings, &programs) {
        search.packages(&site);
    }
    search.found
}

/// What the dynamic loader of one program goes by.
#[derive(Debug, Clone)]
pub struct Loader {
    /// The program's file, as the process sees it.
    pub program: PathBuf,
    /// Where the process has its root, if it is not ours.
    pub root: Option<PathBuf>,
    /// Its working folder, from which relative paths lead.
    pub folder: Option<PathBuf>,
    /// Its environment.
    pub env: Vec<(OsString, OsString)>,
}

/// The program and all files that it is linked with, as far as they exist.
#[must_use]
pub fn linked_files(loader: &Loader) -> Vec<PathBuf> {
    let surroundings = Surroundings { program: PathBuf::new(), args: Vec::new(), env: loader.env.clone() };
    let mut search = Search::new(&surroundings);
    search.root.clone_from(&loader.root);
    if let Some(root) = &loader.root {
        search.cache = fs::read(under(root, Path::new(CACHE))).map(|b| parse_cache(&b)).unwrap_or_default();
    }
    let whole = |path: PathBuf| loader.folder.as_ref().map_or(path.clone(), |folder| folder.join(path));
    search.environment_dirs = std::mem::take(&mut search.environment_dirs).into_iter().map(&whole).collect();
    search.closure(&loader.program);
    for file in surroundings.paths("LD_PRELOAD") {
        search.closure(&whole(file));
    }
    search.found
}

/// The variables of `/proc/PID/environ`.
#[must_use]
pub fn parse_environ(bytes: &[u8]) -> Vec<(OsString, OsString)> {
    let pair = |entry: &[u8]| {
        let at = entry.iter().position(|&b| b == b'=')?;
        let word = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        Some((word(entry.get(..at)?), word(entry.get(at + 1..)?)))
    };
    bytes.split(|&b| b == 0).filter_map(pair).collect()
}

/// A path below another root.
fn under(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

struct Search {
    root: Option<PathBuf>,
    environment_dirs: Vec<PathBuf>,
    cache: Vec<PathBuf>,
    visited: HashSet<(u64, u64)>,
    found: Vec<PathBuf>,
}

impl Search {
    fn new(surroundings: &Surroundings) -> Self {
        Self {
            root: None,
            environment_dirs: surroundings.paths("LD_LIBRARY_PATH"),
            cache: fs::read(CACHE).map(|b| parse_cache(&b)).unwrap_or_default(),
            visited: HashSet::new(),
            found: Vec::new(),
        }
    }

    /// The program, and what it may run in turn: interpreters of scripts, and every word among the arguments and in the
    /// scripts themselves that is the name of a program (`env X=1 python …`, `sh -c 'cd x; ./a.out'`, `taskset -c 1 ./a`).
    fn programs(&mut self, surroundings: &Surroundings) -> Vec<PathBuf> {
        let path = surroundings.paths("PATH");
        let mut programs = vec![surroundings.program.clone()];
        let mut texts: Vec<Vec<u8>> =
            surroundings.args.iter().skip(1).take(ARGS).map(|a| a.as_bytes().to_vec()).collect();
        let mut next = 0;
        loop {
            while let Some(text) = texts.pop() {
                for word in words(&text).take(WORDS) {
                    if let Some(found) = find_program(OsStr::from_bytes(word), &path)
                        && !programs.contains(&found)
                        && programs.len() < PROGRAMS
                    {
                        programs.push(found);
                    }
                }
            }
            let Some(program) = programs.get(next) else { break };
            texts.extend(script(program));
            next += 1;
        }
        programs
    }

    /// Folders in the loader's order for a file with these own paths.
    fn dirs(&self, rpath: &[PathBuf], runpath: &[PathBuf]) -> Vec<PathBuf> {
        let fixed = DEFAULT_DIRS.iter().chain(&CUDA_DIRS).map(PathBuf::from);
        let own = rpath.iter().chain(&self.environment_dirs).chain(runpath);
        own.cloned().chain(fixed).collect()
    }

    /// Where a path of the process leads from here.
    fn real(&self, path: &Path) -> PathBuf {
        self.root.as_ref().map_or_else(|| path.to_path_buf(), |root| under(root, path))
    }

    /// Notes a file that exists and was not noted before; `None` otherwise.
    fn add(&mut self, path: &Path) -> Option<()> {
        let meta = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        if !self.visited.insert((meta.dev(), meta.ino())) {
            return None;
        }
        self.found.push(path.to_path_buf());
        Some(())
    }

    /// The file and all that it is linked with.
    fn closure(&mut self, root: &Path) {
        // A library's RPATH counts for what its own needs need, unless a RUNPATH stands in the way.
        let mut queue = vec![(root.to_path_buf(), Vec::new())];
        while let Some((path, inherited)) = queue.pop() {
            let real = self.real(&path);
            if self.visited.len() > CLOSURE_FILES || self.add(&real).is_none() {
                continue;
            }
            let Some(elf) = File::open(&real).ok().and_then(|f| Elf::read(&f)) else {
                self.found.pop();
                continue;
            };
            // Links of another root lead nowhere from here.
            let canonical = if self.root.is_none() { fs::canonicalize(&path).ok() } else { Some(path.clone()) };
            let origin = canonical.and_then(|p| p.parent().map(Path::to_path_buf)).unwrap_or_default();
            let expand =
                |dirs: &[Vec<u8>]| -> Vec<PathBuf> { dirs.iter().map(|d| expand_origin(d, &origin)).collect() };
            let runpath = expand(&elf.runpath);
            let mut rpath = Vec::new();
            if runpath.is_empty() {
                rpath = expand(&elf.rpath);
                rpath.extend(inherited);
            }
            let dirs = self.dirs(&rpath, &runpath);
            for name in elf.needed {
                let name = OsString::from_vec(name);
                if let Some(found) = self.resolve(&name, &dirs) {
                    queue.push((found, rpath.clone()));
                }
            }
        }
    }

    fn resolve(&self, name: &OsStr, dirs: &[PathBuf]) -> Option<PathBuf> {
        if name.as_bytes().contains(&b'/') {
            return Some(PathBuf::from(name));
        }
        let in_dirs = dirs.iter().map(|d| d.join(name)).find(|p| self.real(p).is_file());
        in_dirs.or_else(|| {
            let cached = self.cache.iter();
            cached.filter(|p| p.file_name() == Some(name)).find(|p| self.real(p).is_file()).cloned()
        })
    }

    /// CUDA libraries right in a folder.
    fn cuda_files(&mut self, dir: &Path) {
        for path in list(dir) {
            if path.file_name().is_some_and(is_cuda_library) {
                self.add(&path);
            }
        }
    }

    /// CUDA libraries of the packages in a `site-packages` folder: `nvidia/*/lib`, `torch/lib`, `x.libs`, `x/lib`.
    fn packages(&mut self, site: &Path) {
        for package in list(site) {
            let Some(name) = package.file_name().map(OsStr::as_bytes) else {
                continue;
            };
            if name.ends_with(b"-info") || name == b"__pycache__" {
                continue;
            }
            if name == b"nvidia" {
                for part in list(&package) {
                    self.cuda_files(&part.join("lib"));
                }
            } else if name.ends_with(b".libs") {
                self.cuda_files(&package);
            } else {
                self.cuda_files(&package.join("lib"));
            }
        }
    }
}

/// Package folders of every Python among the programs, of an active environment, and of the user.
fn site_dirs(surroundings: &Surroundings, programs: &[PathBuf]) -> Vec<PathBuf> {
    let mut prefixes = Vec::new();
    for name in ["VIRTUAL_ENV", "CONDA_PREFIX"] {
        prefixes.extend(surroundings.var(name).map(PathBuf::from));
    }
    for name in ["HOME", "PYTHONUSERBASE"] {
        let base = surroundings.var(name).map(PathBuf::from);
        prefixes.extend(base.map(|b| if name == "HOME" { b.join(".local") } else { b }));
    }
    // A shell script may start any Python of the PATH.
    let in_path = surroundings.paths("PATH").into_iter().map(|d| d.join("python3"));
    for python in programs.iter().cloned().chain(in_path) {
        // Both as it is called (a venv's link) and what it leads to (the base installation).
        for file in [Some(python.clone()), fs::canonicalize(&python).ok()].into_iter().flatten() {
            let bin = file.parent().map(Path::to_path_buf).unwrap_or_default();
            if bin.file_name() == Some(OsStr::new("bin")) && file.exists() {
                prefixes.extend(bin.parent().map(Path::to_path_buf));
            }
        }
    }
    let mut sites = surroundings.paths("PYTHONPATH");
    for prefix in prefixes {
        for lib in ["lib", "lib64"] {
            for python in list(&prefix.join(lib)) {
                let name = python.file_name().map(OsStr::as_bytes);
                if name.is_some_and(|n| n.starts_with(b"python3")) {
                    sites.push(python.join("site-packages"));
                    sites.push(python.join("dist-packages"));
                }
            }
        }
    }
    let mut seen = HashSet::new();
    sites.retain(|s| fs::canonicalize(s).is_ok_and(|real| seen.insert(real)));
    sites
}

/// Entries of a folder, sorted; nothing when it cannot be read.
fn list(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Vec::new();
    };
    let mut paths: Vec<_> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    paths.sort();
    paths
}

/// A word as a program: a path, or a name in the search path.
fn find_program(word: &OsStr, path: &[PathBuf]) -> Option<PathBuf> {
    let runs = |p: &Path| {
        let meta = fs::metadata(p);
        meta.is_ok_and(|m| m.is_file() && m.mode() & 0o111 != 0)
    };
    if word.is_empty() || word.as_bytes().starts_with(b"-") {
        return None;
    }
    if word.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(word)).filter(|p| runs(p));
    }
    path.iter().map(|d| d.join(word)).find(|p| runs(p))
}

/// The beginning of a script; nothing for anything else.
fn script(program: &Path) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    File::open(program).ok()?.take(SCRIPT_BYTES).read_to_end(&mut head).ok()?;
    head.starts_with(b"#!").then_some(head)
}

/// What a shell would take for words, and the `#!` line's; quotes and operators separate like blanks do.
fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let separates = |b: &u8| b.is_ascii_whitespace() || b"\"'`;|&()<>{}#!=".contains(b);
    text.split(move |b| separates(b)).filter(|w| !w.is_empty())
}

/// Replaces the loader's `$ORIGIN` and `${ORIGIN}`.
fn expand_origin(dir: &[u8], origin: &Path) -> PathBuf {
    let mut out = Vec::new();
    let mut rest = dir;
    while let Some((&first, tail)) = rest.split_first() {
        let after = rest.strip_prefix(b"$ORIGIN").or_else(|| rest.strip_prefix(b"${ORIGIN}"));
        if let Some(after) = after {
            out.extend_from_slice(origin.as_os_str().as_bytes());
            rest = after;
        } else {
            out.push(first);
            rest = tail;
        }
    }
    PathBuf::from(OsString::from_vec(out))
}

/// Paths in the loader's cache (`glibc-ld.so.cache1.1`, alone or behind the old table).
fn parse_cache(bytes: &[u8]) -> Vec<PathBuf> {
    const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
    /// Magic, number of entries, length of the strings, flags, offset, three unused words.
    const HEADER: usize = 48;
    /// Flags, key, value, operating system, capabilities.
    const ENTRY: usize = 24;
    let Some(start) = bytes.windows(MAGIC.len()).position(|w| w == MAGIC) else {
        return Vec::new();
    };
    let cache = bytes.get(start..).unwrap_or_default();
    let word = |at: usize| -> Option<usize> {
        let bytes = cache.get(at..at.checked_add(4)?)?;
        usize::try_from(u32::from_ne_bytes(bytes.try_into().ok()?)).ok()
    };
    let count = word(20).unwrap_or(0);
    let mut paths = Vec::new();
    for i in 0..count {
        let Some(value) = word(HEADER + i * ENTRY + 8) else {
            break;
        };
        let text = cache.get(value..).unwrap_or_default();
        if let Some(end) = text.iter().position(|&b| b == 0)
            && end > 0
        {
            paths.push(PathBuf::from(OsString::from_vec(text[..end].to_vec())));
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, b"x").unwrap();
    }

    fn surroundings(program: &Path, env: &[(&str, &Path)]) -> Surroundings {
        Surroundings {
            program: program.to_path_buf(),
            args: vec![program.as_os_str().to_owned()],
            env: env.iter().map(|(n, v)| (OsString::from(n), v.as_os_str().to_owned())).collect(),
        }
    }

    #[test]
    fn programs_inside_shell_words() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("inner.sh");
        fs::write(&inner, "#!/bin/sh\nFOO=1 exec /bin/cat \"$1\"\n").unwrap();
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&inner, fs::Permissions::from_mode(0o755)).unwrap();
        let mut s = surroundings(Path::new("/bin/sh"), &[("PATH", Path::new("/bin"))]);
        s.args.extend(["-c".into(), format!("cd /;X=1 true&&'{}' x; /no/such", inner.display()).into()]);
        let programs = Search::new(&s).programs(&s);
        for wanted in [Path::new("/bin/sh"), Path::new("/bin/true"), &inner, Path::new("/bin/cat")] {
            assert!(programs.iter().any(|p| p == wanted), "{} not in {programs:?}", wanted.display());
        }
    }

    #[test]
    fn origin() {
        let o = Path::new("/a/b");
        assert_eq!(expand_origin(b"$ORIGIN/../x", o), Path::new("/a/b/../x"));
        assert_eq!(expand_origin(b"${ORIGIN}", o), Path::new("/a/b"));
        assert_eq!(expand_origin(b"/x", o), Path::new("/x"));
    }

    #[test]
    fn wheels_of_a_virtual_environment() {
        let dir = tempfile::tempdir().unwrap();
        let site = dir.path().join("venv/lib/python3.12/site-packages");
        let wanted = [
            site.join("nvidia/cu13/lib/libcudart.so.13"),
            site.join("nvidia/cuda_runtime/lib/libcudart.so.12"),
            site.join("cupy.libs/libcudart-9335f6a2.so.12"),
            site.join("torch/lib/libcudart.so.11"),
        ];
        for w in &wanted {
            touch(w);
        }
        touch(&site.join("nvidia/cudnn/lib/libcudnn.so.9"));
        let script = dir.path().join("venv/bin/train");
        let python = dir.path().join("venv/bin/python");
        touch(&python);
        fs::write(&script, format!("#!{}\n", python.display())).unwrap();
        use std::os::unix::fs::PermissionsExt;
        for p in [&script, &python] {
            fs::set_permissions(p, fs::Permissions::from_mode(0o755)).unwrap();
        }
        // By the script's interpreter line, and by the environment variable.
        for s in [
            surroundings(&script, &[]),
            surroundings(Path::new("/bin/true"), &[("VIRTUAL_ENV", &dir.path().join("venv"))]),
        ] {
            let found = find_candidates(&s);
            for w in &wanted {
                assert!(found.contains(w), "{} not in {found:?}", w.display());
            }
            assert!(!found.iter().any(|f| f.to_str().unwrap().contains("cudnn")));
        }
    }

    #[test]
    fn the_closure_of_a_program() {
        let dir = tempfile::tempdir().unwrap();
        let cc = |args: &[&str]| {
            let status = std::process::Command::new("cc").current_dir(dir.path()).args(args).status();
            status.is_ok_and(|s| s.success())
        };
        fs::create_dir_all(dir.path().join("deep/lib")).unwrap();
        fs::write(dir.path().join("r.c"), "int cudaFree(void*p){return 0;}").unwrap();
        fs::write(dir.path().join("m.c"), "int cudaFree(void*);int middle(void){return cudaFree(0);}").unwrap();
        fs::write(dir.path().join("p.c"), "int middle(void);int main(void){return middle();}").unwrap();
        if !(cc(&["-shared", "-fPIC", "-o", "deep/lib/libcudart.so.13", "r.c"])
            && cc(&[
                "-shared",
                "-fPIC",
                "-o",
                "libmiddle.so",
                "m.c",
                "deep/lib/libcudart.so.13",
                "-Wl,-soname,libmiddle.so",
                "-Wl,-rpath,$ORIGIN/deep/lib",
            ])
            && cc(&["-o", "prog", "p.c", "libmiddle.so", "-Wl,-rpath,$ORIGIN", "-Wl,--allow-shlib-undefined"]))
        {
            return;
        }
        // Without a soname the needed name is the path given at link time: relative to the working directory.
        let found = find_candidates(&surroundings(&dir.path().join("prog"), &[]));
        assert!(found.contains(&dir.path().join("prog")), "{found:?}");
        assert!(found.contains(&dir.path().join("libmiddle.so")), "{found:?}");
    }

    #[test]
    fn the_loaders_cache() {
        if let Ok(bytes) = fs::read(CACHE) {
            let paths = parse_cache(&bytes);
            assert!(paths.iter().any(|p| p.to_string_lossy().contains("libc.so.6")), "{paths:?}");
            for cut in 0..bytes.len().min(400) {
                let _ = parse_cache(&bytes[..cut]);
            }
        }
        assert_eq!(parse_cache(b"glibc-ld.so.cache1.1\xff\xff\xff\xff"), Vec::<PathBuf>::new());
    }
}
