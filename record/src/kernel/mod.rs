//! The kernel side of a recording: BPF programs, their maps, and the rings they write into.
//!
//! Everything that talks to `bpf(2)` or `perf_event_open(2)` is in here; the rest of the recorder sees
//! [`Kernel`], which loads and attaches, [`Drain`], which hands out records in order, and [`Loss`].
//!
//! ```no_run
//! use ingero_record::kernel::{FunctionSpec, Kernel, Options, Probe, WireEvent};
//! # fn main() -> Result<(), ingero_record::kernel::Error> {
//! let mut kernel = Kernel::load(&Options::default())?;
//! let mut drain = kernel.take_drain()?;
//! kernel.set_function_spec(0, &FunctionSpec::NONE)?;
//! kernel.set_target(4711)?;
//! kernel.start()?;
//! let library = "/proc/4711/root/usr/lib/libcudart.so.13";
//! let probes = kernel.attach_calls(library, &[Probe { offset: 0x1a2b0, function: 0 }])?;
//! let show = |event: WireEvent<'_>| {
//!     if let WireEvent::CallEntry(call, args) = event {
//!         println!("{call:?} {args:?}");
//!     }
//! };
//! while drain.read(10_000, show)? > 0 {}
//! for loss in kernel.take_losses()? {
//!     eprintln!("{loss}");
//! }
//! drop(probes);
//! # Ok(())
//! # }
//! ```

use std::{
    ffi::CString,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::MetadataExt,
    },
    path::Path,
};

pub use ingero_ebpf_common::{
    ArgSlot, CallEntry, CallReturn, Exec, Exit, Fork, FunctionSpec, Header, Kind, MAX_FUNCTIONS, MAX_TARGETS, Mapped,
    PageAlloc, Rename, SYSCALL_NONE, SYSCALL_UNRECORDED, Switch, Wakeup, Waking, call_entry_args, context, exit_flag,
    return_flag, switch_flag,
};
use ingero_ebpf_common::{Config, NO_OFFSET, irq_source};

mod btf;
mod cpus;
mod drain;
mod error;
mod event;
mod layout;
mod losses;
mod mappings;
mod object;
mod ring;
mod sys;
mod uprobe;

pub use btf::BtfError;
pub use drain::Drain;
pub use error::Error;
pub use event::WireEvent;
pub use losses::{Loss, LossCause};
pub use uprobe::{CallProbes, Probe};

use btf::Btf;
use losses::{Losses, Overruns};
use mappings::MappingWatch;
use object::{Hook, Loaded};
use ring::Ring;
use uprobe::Uprobes;

/// What to record and how. Births, deaths, names and calls are always recorded.
#[derive(Clone, Debug)]
pub struct Options {
    /// Calls, mappings and page allocations of every process, not only of targets.
    pub all_processes: bool,
    /// Size of each ring; rounded up to a power of two. `None`: see [`default_rings`].
    pub ring_bytes: Option<u32>,
    /// `sched_switch` and `sched_waking`.
    pub switches: bool,
    /// `sched_wakeup` and `sched_wakeup_new`.
    pub wakeups: bool,
    /// `mm_page_alloc`.
    pub page_allocs: bool,
    /// Executable mappings of targets: [`WireEvent::Mapped`].
    pub mappings: bool,
    /// How function probes are attached.
    pub uprobes: UprobeLinks,
    /// Find the context of a wakeup by probes on every interrupt, as on kernels whose own count is out of
    /// reach. Dearer, and for tests.
    pub count_interrupts: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            all_processes: false,
            ring_bytes: None,
            switches: true,
            wakeups: true,
            page_allocs: true,
            mappings: true,
            uprobes: UprobeLinks::Auto,
            count_interrupts: false,
        }
    }
}

/// How function probes are attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UprobeLinks {
    /// Many functions per link where the kernel can (6.6 and later), single ones elsewhere.
    #[default]
    Auto,
    /// Many per link, or an error.
    Multi,
    /// One perf event per probe. Detaching takes about 0.1 s each.
    Single,
}

/// What this kernel can and cannot say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Many function probes share one link; else stop writing before detaching, for it takes long.
    pub multi_links: bool,
    /// Wakeups tell whether they came from an interrupt.
    pub interrupt_context: bool,
    /// Switches tell whether a CPU quota caused them.
    pub throttling: bool,
    /// Switches tell the system call.
    pub syscalls: bool,
    /// This process sees the ids that the records carry. In another PID namespace `set_target` needs the
    /// ids of the host, and so does whoever reads `/proc`.
    pub initial_pid_namespace: bool,
    /// Rings: one for each CPU that is online, or fewer on large machines.
    pub rings: usize,
    /// Size of each ring.
    pub ring_bytes: u32,
}

/// Number and size of the rings for so many CPUs: one each up to 64, of 8 MiB each up to 256 MiB in all.
///
/// A call is at most 136 bytes in the ring with both its records, so a CPU that does nothing but call (0.8 M
/// a second were measured) fills 8 MiB in 75 ms: fifteen rounds of a 5 ms timer, and the bell rings at a
/// quarter. The bound in all is there because the kernel cannot swap this memory.
pub fn default_rings(cpus: usize) -> (usize, u32) {
    const MIB: u32 = 1 << 20;
    let rings = cpus.clamp(1, 64);
    let share = 256 / rings as u32;
    (rings, share.min(8).next_power_of_two() * MIB)
}

/// Loaded programs and their maps. It stops recording when dropped.
#[derive(Debug)]
pub struct Kernel {
    // Links are dropped before anything else.
    links: Vec<OwnedFd>,
    tracepoints: Vec<Tracepoint>,
    uprobes: Uprobes,
    targets: OwnedFd,
    functions: OwnedFd,
    drain: Option<Drain>,
    losses: Losses,
    facts: Facts,
}

/// A loaded program and what it will be attached to.
#[derive(Debug)]
struct Tracepoint {
    name: String,
    program: OwnedFd,
    place: Place,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    /// Its own, known since loading.
    Typed,
    /// A raw tracepoint by name; whether a kernel without it is fine.
    Raw { optional: bool },
    /// A classic one by tracefs id.
    Classic(u64),
}

/// `/proc/self/ns/pid` of a process in the initial namespace (`PROC_PID_INIT_INO`).
const INITIAL_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

impl Kernel {
    /// Checks the kernel, creates the maps and loads the programs; nothing is recorded yet.
    pub fn load(options: &Options) -> Result<Self, Error> {
        let btf = layout::kernel_btf()?;
        let cpus = cpus::online()?;
        let (ring_count, default_bytes) = default_rings(cpus.len());
        let ring_bytes = options.ring_bytes.map_or(default_bytes, |bytes| {
            bytes.max(sys::page_bytes() as u32).checked_next_power_of_two().unwrap_or(1 << 31)
        });
        let mut config = Config {
            own_tgid: std::process::id(),
            all_processes: u32::from(options.all_processes),
            wakeup_bytes: ring_bytes / 4,
            ..layout::from_btf(&btf)?
        };
        if options.count_interrupts {
            config.irq_source = irq_source::COUNTED;
        }
        let page_alloc = if options.page_allocs { Some(layout::page_alloc(&mut config)?) } else { None };

        let rings = (0..ring_count)
            .map(|n| Ring::create(&format!("ring{n}"), ring_bytes))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|source| Error::os(format!("creating {ring_count} rings of {ring_bytes} bytes"), source))?;
        let object = Loaded::new(ingero_ebpf::OBJECT, &config, &ring_of_each_cpu(&rings, &cpus, &cpus::possible()?))?;
        let overruns = Overruns::default();
        let mut losses = Losses::new(object.map("LOSSES")?, object.map("LOOK")?, overruns.clone())?;
        let mut tracepoints = Vec::new();
        for (kind, name) in typed_programs(options) {
            let tracepoint = load_typed(&object, &btf, name)?;
            losses.watch(kind, &tracepoint.program)?;
            tracepoints.push(tracepoint);
        }
        if let Some(id) = page_alloc {
            let program = object.program("mm_page_alloc", Hook::Tracepoint)?;
            losses.watch(Kind::PageAlloc, &program)?;
            tracepoints.push(Tracepoint { name: "mm_page_alloc".to_owned(), program, place: Place::Classic(id) });
        }
        if options.switches && config.irq_source == irq_source::COUNTED {
            load_interrupt_counters(&object, &mut tracepoints)?;
        }
        let uprobes = Uprobes::load(&object, options.uprobes)?;
        for (kind, program) in [Kind::CallEntry, Kind::CallReturn].into_iter().zip(uprobes.programs()) {
            losses.watch(kind, program)?;
        }

        let watch = if options.mappings { Some(MappingWatch::open(overruns)?) } else { None };
        let drain = Drain::new(rings, watch, object.map("TARGETS")?, config.own_tgid, options.all_processes)?;
        let facts = Facts {
            multi_links: uprobes.is_multi(),
            interrupt_context: config.irq_source != irq_source::UNKNOWN,
            throttling: config.task_throttled != NO_OFFSET,
            syscalls: config.regs_syscall != NO_OFFSET,
            initial_pid_namespace: std::fs::metadata("/proc/self/ns/pid")
                .is_ok_and(|at| at.ino() == INITIAL_PID_NAMESPACE),
            rings: ring_count,
            ring_bytes,
        };
        Ok(Self {
            links: Vec::new(),
            tracepoints,
            uprobes,
            targets: object.map("TARGETS")?,
            functions: object.map("FUNCTIONS")?,
            drain: Some(drain),
            losses,
            facts,
        })
    }

    /// What this kernel can and cannot say.
    pub fn facts(&self) -> Facts {
        self.facts
    }

    /// Attaches the tracepoints: from here on records arrive. Does nothing when they are.
    pub fn start(&mut self) -> Result<(), Error> {
        if self.links.is_empty() {
            for tracepoint in &self.tracepoints {
                self.links.extend(tracepoint.attach()?);
            }
        }
        Ok(())
    }

    /// Detaches what [`start`](Self::start) attached; function probes go when their handles are dropped, and
    /// what is in the ring stays readable.
    pub fn stop(&mut self) {
        self.links.clear();
    }

    /// Follows this process and all that it forks from now on. `tgid` is a process id of the initial PID
    /// namespace; at most [`MAX_TARGETS`] at a time.
    pub fn set_target(&self, tgid: u32) -> Result<(), Error> {
        sys::map_update(self.targets.as_fd(), &tgid, bytemuck::bytes_of(&1_u32))
            .map_err(|source| Error::os(format!("following process {tgid}"), source))
    }

    /// Stops following this process.
    pub fn remove_target(&self, tgid: u32) -> Result<(), Error> {
        sys::map_delete(self.targets.as_fd(), &tgid)
            .map(drop)
            .map_err(|source| Error::os(format!("no longer following process {tgid}"), source))
    }

    /// Whether this process is followed.
    pub fn is_target(&self, tgid: u32) -> Result<bool, Error> {
        is_target(&self.targets, tgid)
    }

    /// Processes that are followed now, those included that were added at a fork.
    pub fn targets(&self) -> Result<Vec<u32>, Error> {
        let mut targets: Vec<u32> = Vec::new();
        loop {
            let next = sys::map_next_key(self.targets.as_fd(), targets.last())
                .map_err(|source| Error::os("listing the processes followed", source))?;
            match next {
                // A key that vanishes meanwhile makes the kernel begin anew.
                Some(tgid) if targets.len() < MAX_TARGETS as usize && !targets.contains(&tgid) => targets.push(tgid),
                _ => return Ok(targets),
            }
        }
    }

    /// Says which words of a function to record; before attaching it. Ids run from 0 below [`MAX_FUNCTIONS`].
    pub fn set_function_spec(&self, function: u32, spec: &FunctionSpec) -> Result<(), Error> {
        if function >= MAX_FUNCTIONS {
            return Err(Error::FunctionId { id: function, limit: MAX_FUNCTIONS });
        }
        sys::map_update(self.functions.as_fd(), &function, bytemuck::bytes_of(spec))
            .map_err(|source| Error::os(format!("describing function {function}"), source))
    }

    /// Attaches an entry and a return probe at every place of one file, for all processes that have it
    /// mapped now or later. The path may lead through `/proc/PID/root`; the file, not the path, counts.
    pub fn attach_calls(&self, file: impl AsRef<Path>, probes: &[Probe]) -> Result<CallProbes, Error> {
        self.uprobes.attach(file.as_ref(), probes)
    }

    /// The reader; there is one, and it may live on another thread.
    pub fn take_drain(&mut self) -> Result<Drain, Error> {
        self.drain.take().ok_or(Error::DrainTaken)
    }

    /// What was lost since the last call: one entry for each kind, CPU and cause that lost anything.
    pub fn take_losses(&mut self) -> Result<Vec<Loss>, Error> {
        self.losses.take()
    }
}

/// The ring of each CPU number. Those online get one each, or share evenly; others, should they come, share.
fn ring_of_each_cpu<'a>(rings: &'a [Ring], online: &[u32], possible: &[u32]) -> Vec<BorrowedFd<'a>> {
    let numbers = possible.iter().max().map_or(1, |last| last + 1);
    let place = |cpu: u32| online.iter().position(|one| *one == cpu).unwrap_or(cpu as usize);
    (0..numbers).filter_map(|cpu| Some(rings.get(place(cpu) % rings.len().max(1))?.as_fd())).collect()
}

fn is_target(targets: &OwnedFd, tgid: u32) -> Result<bool, Error> {
    let mut value = [0; 4];
    sys::map_lookup(targets.as_fd(), &tgid, &mut value)
        .map_err(|source| Error::os(format!("looking up process {tgid}"), source))
}

/// Kind and name of each program that is also its tracepoint's name. The order is that of attaching:
/// births first, so that no thread is seen running before it is known.
fn typed_programs(options: &Options) -> Vec<(Kind, &'static str)> {
    let mut programs = vec![
        (Kind::Fork, "sched_process_fork"),
        (Kind::Exec, "sched_process_exec"),
        (Kind::Rename, "task_rename"),
        (Kind::Exit, "sched_process_exit"),
    ];
    if options.wakeups {
        programs.extend([(Kind::Wakeup, "sched_wakeup"), (Kind::WakeupNew, "sched_wakeup_new")]);
    }
    if options.switches {
        programs.extend([(Kind::Waking, "sched_waking"), (Kind::Switch, "sched_switch")]);
    }
    programs
}

fn load_typed(object: &Loaded, btf: &Btf, name: &str) -> Result<Tracepoint, Error> {
    let (id, _) = btf.tracepoint(name).ok_or_else(|| Error::NotInBtf { name: format!("tracepoint {name}") })?;
    Ok(Tracepoint { name: name.to_owned(), program: object.program(name, Hook::Typed(id))?, place: Place::Typed })
}

fn load_interrupt_counters(object: &Loaded, tracepoints: &mut Vec<Tracepoint>) -> Result<(), Error> {
    let mut load = |program: &str, name: String, optional| -> Result<(), Error> {
        let program = object.program(program, Hook::Raw)?;
        tracepoints.push(Tracepoint { name, program, place: Place::Raw { optional } });
        Ok(())
    };
    for name in layout::HARDIRQ_TRACEPOINTS {
        // Exits first: one that was not entered is ignored, an entry never left would count for ever.
        load("hardirq_exit", format!("{name}_exit"), name != "irq_handler")?;
        load("hardirq_entry", format!("{name}_entry"), name != "irq_handler")?;
    }
    load("softirq_exit", "softirq_exit".to_owned(), false)?;
    load("softirq_entry", "softirq_entry".to_owned(), false)
}

impl Tracepoint {
    /// `None`: this kernel does not have it, and that is fine.
    fn attach(&self) -> Result<Option<OwnedFd>, Error> {
        let failed = |source| Error::os(format!("attaching to tracepoint {}", self.name), source);
        let program = self.program.as_fd();
        match self.place {
            Place::Typed => sys::raw_tracepoint_open(program, None).map(Some).map_err(failed),
            Place::Raw { optional } => {
                let name = CString::new(self.name.as_str()).unwrap_or_default();
                match sys::raw_tracepoint_open(program, Some(&name)) {
                    Ok(link) => Ok(Some(link)),
                    Err(error) if optional && error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
                    Err(source) => Err(failed(source)),
                }
            }
            Place::Classic(id) => {
                const TRACEPOINT: u32 = 2;
                let attributes =
                    sys::PerfAttributes { event_type: TRACEPOINT, config: id, ..sys::PerfAttributes::default() };
                // SAFETY: a tracepoint event takes no pointer. The program then runs on every CPU.
                let event = unsafe { sys::perf_event_open(attributes, 0) }.map_err(failed)?;
                // The link holds the event.
                sys::link_perf_event(program, event.as_fd(), 0).map(Some).map_err(failed)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn rings_grow_with_the_cpus_within_bounds() {
        let mib = |cpus| {
            let (rings, bytes) = default_rings(cpus);
            (rings, bytes >> 20)
        };
        assert_eq!([1, 2, 16, 32, 33, 64, 500].map(mib), [(1, 8), (2, 8), (16, 8), (32, 8), (33, 8), (64, 4), (64, 4)]);
    }

    #[test]
    fn each_cpu_number_has_a_ring() {
        let rings: Vec<_> = (0..2).map(|n| Ring::create(&format!("test{n}"), 4096).unwrap()).collect();
        let fds: Vec<_> = rings.iter().map(|ring| ring.as_fd().as_raw_fd()).collect();
        let of: Vec<_> = ring_of_each_cpu(&rings, &[1, 3], &[0, 1, 2, 3, 4]).iter().map(AsRawFd::as_raw_fd).collect();
        assert_eq!(of, [0, 0, 0, 1, 0].map(|n: usize| fds[n]));
    }
}
