//! The sampler thread: looks once a second at what no probe tells.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ingero_format::catalog::{CpuFrequency, ProcessSample};

use crate::finding::{Finding, What};
use crate::gpu::Gpus;
use crate::kernel::{Kernel, wire};
use crate::library::discovery::lock;
use crate::proc::affinity::read_affinity;
use crate::proc::cgroup::{Group, Mounts};
use crate::proc::pressure::read_pressures;
use crate::proc::process::{list_ids, read_group};
use crate::proc::stat::Stat;
use crate::proc::system::ticks_per_second;

const PERIOD: Duration = Duration::from_secs(1);
/// Time that a stop takes at most, but for a look under way.
const PAUSE: Duration = Duration::from_millis(20);
/// Control groups that are looked at: a machine may have thousands.
const GROUPS: usize = 256;

/// A process that is not followed. Of it only one thing matters: in whose group it takes CPUs from others.
#[derive(Debug, Default)]
struct Stranger {
    /// As it was said last; none of a kernel thread.
    group: Option<String>,
    /// How often it was there.
    looks: u64,
}

/// Looks at processes, groups, CPUs and GPUs.
#[derive(Debug)]
pub struct Sampler {
    kernel: Arc<Mutex<Kernel>>,
    all: bool,
    mounts: Mounts,
    gpus: Option<Gpus>,
    /// Group of each followed process, as it was said last.
    members: HashMap<u32, String>,
    /// Of every other process.
    strangers: HashMap<u32, Stranger>,
    /// CPUs of each thread, where the kernel does not tell of changes.
    affinities: Option<HashMap<u32, String>>,
    /// CPUs that say how fast they are.
    clocks: Vec<(u64, String)>,
}

impl Sampler {
    /// Gets ready. `all`: every process is followed.
    #[must_use]
    pub fn new(kernel: Arc<Mutex<Kernel>>, all: bool, gpus: Option<Gpus>) -> Self {
        let told = !lock(&kernel).facts().absent.contains(&wire::Kind::Affinity.event());
        let clock = |cpu: u32| format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq");
        let cpus = list_cpus();
        Self {
            kernel,
            all,
            mounts: Mounts::read(),
            gpus,
            members: HashMap::new(),
            strangers: HashMap::new(),
            affinities: (!told).then(HashMap::new),
            clocks: cpus
                .into_iter()
                .map(|cpu| (u64::from(cpu), clock(cpu)))
                .filter(|(_, at)| fs::metadata(at).is_ok())
                .collect(),
        }
    }

    /// Looks until the stop, and a last time then; `take` returns whether it wants more.
    pub fn run(mut self, stopped: &AtomicBool, mut take: impl FnMut(Vec<Finding>) -> bool) {
        let mut due = Instant::now();
        loop {
            let last = stopped.load(Ordering::Acquire);
            if last || Instant::now() >= due {
                due = Instant::now() + PERIOD;
                if !take(self.look()) || last {
                    return;
                }
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn look(&mut self) -> Vec<Finding> {
        let mut found: Vec<Finding> = read_pressures().into_iter().map(|p| Finding::now(What::Pressure(p))).collect();
        for (of_cpu, path) in &self.clocks {
            if let Some(khz) = fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()) {
                found.push(Finding::now(What::Frequency(CpuFrequency { of_cpu: *of_cpu, khz })));
            }
        }
        let pids = if self.all { list_ids("/proc") } else { lock(&self.kernel).targets().unwrap_or_default() };
        let mut groups = BTreeSet::new();
        for &pid in &pids {
            self.look_at_process(pid, &mut groups, &mut found);
        }
        let alive: BTreeSet<u32> = pids.iter().copied().collect();
        self.members.retain(|pid, _| alive.contains(pid));
        self.look_at_strangers(&alive, &mut found);
        for group in groups {
            let sample = self.mounts.sample(&group);
            found.push(Finding::now(What::Cgroup(group.path, sample)));
        }
        if let Some(gpus) = &self.gpus {
            found.extend(gpus.sample());
        }
        found
    }

    fn look_at_process(&mut self, pid: u32, groups: &mut BTreeSet<Group>, found: &mut Vec<Finding>) {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok().and_then(|line| Stat::parse(&line));
        // Kernel threads have no memory of their own, and nothing to say here.
        let Some(stat) = stat.filter(|stat| !stat.is_dead()) else { return };
        let Some(usage) = stat.usage.filter(|usage| usage.resident_pages > 0) else { return };
        let ticks = 1_000_000_000 / ticks_per_second();
        let row = ProcessSample {
            user_ns: Some(usage.user_ticks.saturating_mul(ticks)),
            system_ns: Some(usage.system_ticks.saturating_mul(ticks)),
            minor_faults: Some(usage.minor_faults),
            major_faults: Some(usage.major_faults),
            resident_bytes: Some(usage.resident_pages.saturating_mul(page_bytes())),
            threads: Some(usage.threads),
            ..ProcessSample::default()
        };
        found.push(Finding::now(What::Process(pid, row)));
        if let Some(group) = self.mounts.group_of(pid) {
            if self.members.get(&pid) != Some(&group.path) {
                found.push(membership(pid, &group));
                self.members.insert(pid, group.path.clone());
            }
            for group in group.ancestors().into_iter().chain([group]) {
                if groups.len() < GROUPS {
                    groups.insert(group);
                }
            }
        }
        self.look_at_affinities(pid, found);
    }

    /// Their groups: a machine may have thousands, and few of them move once they have settled, so each is looked at less
    /// and less often.
    fn look_at_strangers(&mut self, followed: &BTreeSet<u32>, found: &mut Vec<Finding>) {
        let pids: BTreeSet<u32> = list_ids("/proc").into_iter().filter(|pid| !followed.contains(pid)).collect();
        self.strangers.retain(|pid, _| pids.contains(pid));
        for pid in pids {
            let known = self.strangers.entry(pid).or_default();
            known.looks += 1;
            let is_kernels = known.looks > 1 && known.group.is_none();
            if is_kernels || !known.looks.is_power_of_two() {
                continue;
            }
            let stat = fs::read(format!("/proc/{pid}/stat")).ok().and_then(|line| Stat::parse(&line));
            let has_memory = |stat: &Stat| stat.usage.is_some_and(|usage| usage.resident_pages > 0);
            let Some(group) = stat.filter(has_memory).and_then(|_| self.mounts.group_of(pid)) else { continue };
            if known.group.as_ref() != Some(&group.path) {
                found.push(membership(pid, &group));
                known.group = Some(group.path);
            }
        }
    }

    fn look_at_affinities(&mut self, pid: u32, found: &mut Vec<Finding>) {
        let Some(known) = &mut self.affinities else { return };
        for tid in list_ids(&format!("/proc/{pid}/task")) {
            let Some(cpus) = read_affinity(tid) else { continue };
            if known.get(&tid) != Some(&cpus) {
                known.insert(tid, cpus.clone());
                found.push(Finding::now(What::Affinity(tid, pid, cpus)));
            }
        }
        // Ids come back with other threads behind them.
        if known.len() > 1 << 16 {
            known.retain(|&tid, _| read_group(tid).is_some());
        }
    }
}

fn membership(pid: u32, group: &Group) -> Finding {
    let (container, pod) = (group.container().map(str::to_owned), group.pod());
    Finding::now(What::Membership(pid, group.path.clone(), container, pod))
}

fn page_bytes() -> u64 {
    // SAFETY: sysconf takes no pointer.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// Numbers of the CPUs that there are.
fn list_cpus() -> Vec<u32> {
    let entries = fs::read_dir("/sys/devices/system/cpu").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|e| e.file_name().to_str()?.strip_prefix("cpu")?.parse().ok());
    numbers.collect::<BTreeSet<_>>().into_iter().collect()
}
