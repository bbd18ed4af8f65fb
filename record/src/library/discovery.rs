//! Finding CUDA libraries while a recording runs, and attaching to them, on a thread of its own.
//!
//! # What can be missed
//! Probes belong to the file and act at once in every process that has it mapped. For a command, the files that
//! [`prescan`](super::prescan) finds are attached before its first instruction, and what the programs that it starts are linked
//! with before theirs ([`hold`](crate::hold)): nothing of them is missed. A library that shows up in another way (dlopen of a
//! path that nobody could guess, a program under `--all`) is noticed through the kernel's record of the mapping. Until its
//! probes are in place pass the wait for the next drain round (up to [`ROUND`](crate::drain::ROUND)), the parsing of the file
//! (about 1 ms for libcudart, tens of milliseconds for libraries with very many symbols) and the attaching (from 0.3 ms; 20 ms
//! were measured on a process that called all the while, and more where there are more busy threads than CPUs). A call inside
//! that window is not in the file. Calls under way when the return probes arrive, just before the entry probes, are there as
//! "began-before".

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ingero_format::catalog::{self, FUNCTIONS, Function, Layer};

use super::attached::{Attached, count_layers};
use super::elf::Elf;
use super::kind::{is_cuda_library, is_nvtx_library};
use crate::drain::go_first;
use crate::finding::{Finding, What};
use crate::kernel::{CallProbes, Kernel, Probe};
use crate::proc::maps::{MappedInode, Mapping, parse_maps};
use crate::proc::process::list_ids;
use crate::selection::Selection;
use crate::text;

/// Processes are looked at anew after this time even where no record asked for it: the net below the records.
const RESCAN: Duration = Duration::from_secs(2);
/// Share of one CPU that looking may take when it has much to do: one part in this many.
const SHARE: u32 = 4;
/// Work that is done without a pause.
const BURST: Duration = Duration::from_millis(300);

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What the locks of this crate guard is whole after each statement: a panic elsewhere cannot break it.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Processes that want to be looked at; each stands in it once, however often it asks.
#[derive(Debug, Default)]
pub struct Requests {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct State {
    pids: BTreeSet<u32>,
    stopped: bool,
}

impl Requests {
    /// Asks for a look at a process.
    pub fn look_at(&self, pid: u32) {
        if lock(&self.state).pids.insert(pid) {
            self.wake.notify_one();
        }
    }

    /// Ends the waiting.
    pub fn stop(&self) {
        lock(&self.state).stopped = true;
        self.wake.notify_all();
    }

    /// Waits for requests; an empty set after the time is over, `None` after the stop.
    fn wait(&self, timeout: Duration) -> Option<BTreeSet<u32>> {
        let state = lock(&self.state);
        let idle = |s: &mut State| s.pids.is_empty() && !s.stopped;
        let (mut state, _) = self.wake.wait_timeout_while(state, timeout, idle).unwrap_or_else(PoisonError::into_inner);
        if state.stopped { None } else { Some(std::mem::take(&mut state.pids)) }
    }
}

/// A file as it was when it was looked at: an inode number alone may come back as another file.
type Version = (u64, u64, i64, i64, u64);

/// Looks at files and processes, and holds the probes.
#[derive(Debug)]
pub struct Discovery {
    kernel: Arc<Mutex<Kernel>>,
    /// Which functions are wanted.
    selection: Selection,
    /// Whether their returns are probed.
    returns: bool,
    /// NVTX 3 is seen in a library of the recorder's own: its functions in a program's code would be seen twice.
    nvtx_injected: bool,
    /// What mappings were looked at, and which file was behind each.
    seen: HashMap<MappedInode, Version>,
    /// Files that were looked into; the number of the attached one, if it is.
    files: HashMap<(u64, u64), (Version, Option<usize>)>,
    attached: Vec<Attached>,
    probes: Vec<CallProbes>,
    problems: Vec<String>,
    /// Mappings that were told, by process.
    told: HashMap<u32, HashSet<(u64, MappedInode)>>,
    build_ids: HashMap<(u64, u64), (Version, Option<String>)>,
    found: Vec<Finding>,
}

impl Discovery {
    /// Has found nothing yet.
    #[must_use]
    pub fn new(kernel: Arc<Mutex<Kernel>>, selection: Selection, returns: bool) -> Self {
        Self {
            kernel,
            selection,
            returns,
            nvtx_injected: false,
            seen: HashMap::new(),
            files: HashMap::new(),
            attached: Vec::new(),
            probes: Vec::new(),
            problems: Vec::new(),
            told: HashMap::new(),
            build_ids: HashMap::new(),
            found: Vec::new(),
        }
    }

    /// Files with probes, in the order of attaching.
    #[must_use]
    pub fn attached(&self) -> &[Attached] {
        &self.attached
    }

    /// What went wrong, one line each.
    #[must_use]
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Attaches to the library that a command's NVTX 3 is told of, and to no NVTX within programs.
    pub fn inject_nvtx(&mut self, library: &Path) {
        self.nvtx_injected = true;
        self.look_into(&[library.to_path_buf()]);
    }

    /// Looks into files that may be needed.
    pub fn look_into(&mut self, candidates: &[PathBuf]) {
        if !self.selection.has_functions() {
            return;
        }
        for path in candidates {
            if let Ok(file) = File::open(path) {
                self.examine(&file, path);
            }
        }
    }

    /// Looks at what a process has mapped.
    pub fn look_at(&mut self, pid: u32) {
        if !self.selection.has_functions() {
            return;
        }
        let Ok(text) = fs::read(format!("/proc/{pid}/maps")) else { return };
        let mut mappings = parse_maps(&text);
        // Whatever else there is to parse must not hold up what matters.
        mappings.sort_by_key(|m| !m.path.file_name().is_some_and(is_cuda_library));
        for mapping in &mappings {
            self.look_at_mapping(pid, mapping);
        }
        // Only now: it holds up nobody's probes.
        for mapping in &mappings {
            self.tell_mapping(pid, mapping);
        }
    }

    /// Where code of which file lies in a process, once for each.
    fn tell_mapping(&mut self, pid: u32, mapping: &Mapping) {
        if !self.told.entry(pid).or_default().insert((mapping.start, mapping.inode)) {
            return;
        }
        let link = format!("/proc/{pid}/map_files/{}", mapping.link_name());
        let build_id = File::open(link).ok().and_then(|file| {
            let meta = file.metadata().ok()?;
            let (version, inode) = (version(&meta), (meta.dev(), meta.ino()));
            match self.build_ids.get(&inode) {
                Some((known, id)) if *known == version => id.clone(),
                _ => {
                    let id = Elf::read_build_id(&file);
                    self.build_ids.insert(inode, (version, id.clone()));
                    id
                }
            }
        });
        let row = catalog::Mapping {
            start: mapping.start,
            bytes: mapping.end.saturating_sub(mapping.start),
            offset: mapping.offset,
            ..catalog::Mapping::default()
        };
        let file = text::from_bytes(mapping.path.as_os_str().as_bytes()).into_owned();
        self.found.push(Finding::now(What::Mapping(pid, row, file, build_id)));
    }

    fn look_at_mapping(&mut self, pid: u32, mapping: &Mapping) {
        // This link opens the very file, even where it was deleted or replaced, in whatever mount namespace.
        let link = PathBuf::from(format!("/proc/{pid}/map_files/{}", mapping.link_name()));
        if let (Some(known), Ok(meta)) = (self.seen.get(&mapping.inode), fs::metadata(&link))
            && *known == version(&meta)
        {
            self.mark_mapped((known.0, known.1));
            return;
        }
        let opened = File::open(&link).or_else(|_| {
            let relative = mapping.path.strip_prefix("/").unwrap_or(&mapping.path);
            let file = File::open(Path::new(&format!("/proc/{pid}/root")).join(relative))?;
            // Another file may stand there by now.
            match file.metadata() {
                Ok(m) if m.ino() == mapping.inode.inode && !mapping.deleted => Ok(file),
                _ => Err(std::io::Error::from(std::io::ErrorKind::NotFound)),
            }
        });
        match opened {
            Ok(file) => {
                if let Some(version) = self.examine(&file, &mapping.path) {
                    self.seen.insert(mapping.inode, version);
                    self.mark_mapped((version.0, version.1));
                }
            }
            Err(e)
                if mapping.path.file_name().is_some_and(is_cuda_library)
                    && Path::new(&format!("/proc/{pid}")).exists() =>
            {
                self.problem(format!(
                    "{}, mapped by process {pid}: {e}: its calls are not recorded",
                    mapping.path.display()
                ));
            }
            Err(_) => {}
        }
    }

    fn mark_mapped(&mut self, inode: (u64, u64)) {
        if let Some((_, Some(number))) = self.files.get(&inode)
            && let Some(attached) = self.attached.get_mut(*number)
        {
            attached.mapped = true;
        }
    }

    /// Looks into one file, unless this version of it is known, and attaches to the functions in it.
    fn examine(&mut self, file: &File, path: &Path) -> Option<Version> {
        let meta = file.metadata().ok().filter(fs::Metadata::is_file)?;
        let version = version(&meta);
        let inode = (version.0, version.1);
        if self.files.get(&inode).is_some_and(|(v, attached)| *v == version || attached.is_some()) {
            return Some(version);
        }
        let nvtx = !self.nvtx_injected || path.file_name().is_some_and(is_nvtx_library);
        let is_wanted = |f: &Function| self.selection.has_function(f) && (nvtx || f.layer != Layer::Nvtx);
        let wanted = |mut elf: Elf| {
            elf.points.retain(|p| FUNCTIONS.get(p.function).is_some_and(is_wanted));
            Some(elf).filter(|elf| !elf.points.is_empty())
        };
        let attached = Elf::read(file).and_then(wanted).and_then(|elf| {
            let probes: Vec<Probe> = elf
                .points
                .iter()
                .filter_map(|p| Some(Probe { offset: p.attach_offset, function: u32::try_from(p.function).ok()? }))
                .collect();
            // By the open file: its path may lead elsewhere by now.
            let by_descriptor = format!("/proc/self/fd/{}", file.as_raw_fd());
            let kernel = lock(&self.kernel);
            let result = if self.returns {
                kernel.attach_calls(by_descriptor, &probes)
            } else {
                kernel.attach_entries(by_descriptor, &probes)
            };
            drop(kernel);
            match result {
                Ok(links) => {
                    let [runtime, driver, nccl, nvtx] = count_layers(&elf.points);
                    self.probes.push(links);
                    self.attached.push(Attached {
                        path: path.to_path_buf(),
                        inode,
                        build_id: elf.build_id,
                        runtime,
                        driver,
                        nccl,
                        nvtx,
                        is_static: runtime > 0 && !path.file_name().is_some_and(is_cuda_library),
                        mapped: false,
                    });
                    Some(self.attached.len() - 1)
                }
                Err(e) => {
                    self.problem(format!("{}: {e}: its calls are not recorded", path.display()));
                    None
                }
            }
        });
        self.files.insert(inode, (version, attached));
        Some(version)
    }

    fn problem(&mut self, line: String) {
        if !self.problems.contains(&line) && self.problems.len() < 100 {
            self.problems.push(line);
        }
    }

    /// Answers requests until the stop, and hands what it finds to `take`. Others may look at something meanwhile: the lock is
    /// free between two looks.
    pub fn run(shared: &Mutex<Self>, requests: &Requests, all: bool, mut take: impl FnMut(Vec<Finding>)) {
        go_first(-15);
        let mut busy = Duration::ZERO;
        loop {
            let found = std::mem::take(&mut lock(shared).found);
            if !found.is_empty() {
                take(found);
            }
            let waiting = Instant::now();
            let Some(mut pids) = requests.wait(RESCAN) else { break };
            busy = busy.saturating_sub(waiting.elapsed() / SHARE);
            let begun = Instant::now();
            if pids.is_empty() {
                pids = lock(shared).everyone(all).into_iter().collect();
                // Ids come back with other processes behind them.
                lock(shared).told.retain(|pid, _| pids.contains(pid));
            }
            for pid in pids {
                lock(shared).look_at(pid);
            }
            busy += begun.elapsed();
            // A storm of new programs must not take the CPU from those who drain and write.
            if busy > BURST {
                std::thread::sleep(BURST);
                busy = busy.saturating_sub(BURST / SHARE);
            }
        }
    }

    fn everyone(&self, all: bool) -> Vec<u32> {
        let mut pids = if all { list_ids("/proc") } else { lock(&self.kernel).targets().unwrap_or_default() };
        pids.sort_unstable();
        pids
    }
}

fn version(meta: &fs::Metadata) -> Version {
    (meta.dev(), meta.ino(), meta.ctime(), meta.ctime_nsec(), meta.size())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_stands_in_the_queue_once() {
        let requests = Requests::default();
        for pid in [3, 1, 3, 3] {
            requests.look_at(pid);
        }
        assert_eq!(requests.wait(Duration::ZERO), Some(BTreeSet::from([1, 3])));
        assert_eq!(requests.wait(Duration::ZERO), Some(BTreeSet::new()));
        requests.look_at(7);
        requests.stop();
        assert_eq!(requests.wait(Duration::from_secs(60)), None);
    }
}
