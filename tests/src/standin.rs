//! The stand-in CUDA and what its programs say about themselves.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The files of the stand-in, in `target/standin/`.
#[derive(Debug, Clone)]
pub struct Standin {
    /// The folder of all.
    pub dir: PathBuf,
    /// `libcudart.so.13`
    pub libcudart: PathBuf,
    /// `libcuda.so.1`
    pub libcuda: PathBuf,
    /// The program with known calls; run it without arguments to see its modes.
    pub program: PathBuf,
    /// The program whose runs have one known cause of lost time each.
    pub scenes: PathBuf,
    /// The program that loads a runtime late, by path.
    pub late: PathBuf,
    /// The program with known calls of NCCL and NVTX.
    pub comms: PathBuf,
    /// `program` with the runtime linked statically.
    pub program_static: PathBuf,
    /// `program_static` without symbols.
    pub program_stripped: PathBuf,
}

impl Standin {
    /// `standin ARGS…`
    #[must_use]
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(args);
        command
    }

    /// A copy of the libraries and of `standin` in another folder: other inodes, as in another virtual environment.
    #[must_use]
    pub fn copy_to(&self, to: &Path) -> Self {
        let copy = |from: &PathBuf| {
            let path = to.join(from.file_name().unwrap_or_default());
            // By rename: whoever runs the file that was there keeps it.
            let fresh = path.with_extension("fresh");
            fs::copy(from, &fresh)
                .and_then(|_| fs::rename(&fresh, &path))
                .unwrap_or_else(|e| panic!("cannot copy {} to {}: {e}", from.display(), path.display()));
            path
        };
        Self {
            dir: to.to_path_buf(),
            libcudart: copy(&self.libcudart),
            libcuda: copy(&self.libcuda),
            program: copy(&self.program),
            ..self.clone()
        }
    }
}

/// The stand-in, which this package's build script has built.
#[must_use]
pub fn standin() -> Standin {
    let dir = PathBuf::from(env!("STANDIN_STABLE"));
    let built = PathBuf::from(env!("STANDIN_BUILT"));
    let file = |name: &str| {
        let path = dir.join(name);
        if !path.exists() {
            // Somebody cleared the folder; the build script's own copy is still there.
            let copied = fs::create_dir_all(&dir).and_then(|()| fs::copy(built.join(name), &path));
            assert!(copied.is_ok(), "{} is missing; run cargo build -p ingero-tests", path.display());
        }
        path
    };
    for library in ["libnccl.so.2", "libnvToolsExt.so.1"] {
        file(library);
    }
    Standin {
        libcuda: file("libcuda.so.1"),
        libcudart: file("libcudart.so.13"),
        program: file("standin"),
        scenes: file("standin-scenes"),
        late: file("standin-late"),
        comms: file("standin-comms"),
        program_static: file("standin-static"),
        program_stripped: file("standin-stripped"),
        dir,
    }
}

/// What one process of a run did, exactly.
#[derive(Debug, Clone)]
pub struct Process {
    /// Process id.
    pub pid: u64,
    /// Its parent's.
    pub parent_pid: u64,
    /// What it was for: `main`, `worker`, `hog`, …
    pub role: String,
    /// Entries by symbol; symbols without any are left out, here and below.
    pub calls: BTreeMap<String, u64>,
    /// Entries that never came back.
    pub unreturned: BTreeMap<String, u64>,
    /// Returns with a result other than 0.
    pub errors: BTreeMap<String, u64>,
    /// Sum of the sizes asked for.
    pub bytes: BTreeMap<String, u64>,
}

/// The line of JSON that a stand-in program ends with.
#[derive(Debug, Clone)]
pub struct Report {
    /// Process id of the program itself.
    pub pid: u64,
    /// All processes, the program's own first.
    pub processes: Vec<Process>,
    /// The whole line, for what only some modes say.
    pub json: Value,
}

impl Report {
    /// Finds the report in what a program printed.
    #[must_use]
    pub fn parse(stdout: &str) -> Self {
        Self::parse_all(stdout).into_iter().next().unwrap_or_else(|| panic!("no report of the stand-in in {stdout:?}"))
    }

    /// The reports of several programs, in the order in which they ended.
    #[must_use]
    pub fn parse_all(stdout: &str) -> Vec<Self> {
        stdout.lines().filter(|l| l.starts_with("{\"mode\":")).map(Self::parse_line).collect()
    }

    fn parse_line(line: &str) -> Self {
        let json: Value =
            serde_json::from_str(line).unwrap_or_else(|e| panic!("the stand-in's report is no JSON: {e}: {line}"));
        let processes = json["processes"].as_array().map(|list| list.iter().map(process).collect()).unwrap_or_default();
        Self { pid: json["pid"].as_u64().unwrap_or_default(), processes, json }
    }

    /// The processes of a role.
    pub fn of_role<'a>(&'a self, role: &'a str) -> impl Iterator<Item = &'a Process> {
        self.processes.iter().filter(move |p| p.role == role)
    }

    /// Entries of a symbol in one process.
    #[must_use]
    pub fn calls(&self, pid: u64, symbol: &str) -> u64 {
        self.processes.iter().filter(|p| p.pid == pid).find_map(|p| p.calls.get(symbol)).copied().unwrap_or_default()
    }
}

fn process(json: &Value) -> Process {
    let map = |key: &str| {
        json[key]
            .as_object()
            .map(|o| o.iter().map(|(k, v)| (k.clone(), v.as_u64().unwrap_or_default())).collect())
            .unwrap_or_default()
    };
    Process {
        pid: json["pid"].as_u64().unwrap_or_default(),
        parent_pid: json["parent_pid"].as_u64().unwrap_or_default(),
        role: json["role"].as_str().unwrap_or_default().to_owned(),
        calls: map("calls"),
        unreturned: map("unreturned"),
        errors: map("errors"),
        bytes: map("bytes"),
    }
}
