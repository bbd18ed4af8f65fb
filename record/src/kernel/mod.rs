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
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::MetadataExt,
    },
    path::Path,
};

/// Ring records, as the programs write them.
pub mod wire {
    pub use ingero_ebpf_common::*;
}
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
mod frames;
mod hold;
mod layout;
mod losses;
mod mappings;
mod object;
mod request;
mod ring;
mod sys;
mod tracepoint;
mod uprobe;

pub use btf::BtfError;
pub use drain::Drain;
pub use error::Error;
pub use event::WireEvent;
pub use hold::Hold;
pub use losses::{Loss, LossCause};
pub use request::{RequestFlags, request_error};
pub use uprobe::{CallProbes, Probe};

use losses::{Losses, Overruns};
use mappings::MappingWatch;
use object::Loaded;
use ring::Ring;
use tracepoint::Tracepoint;
use uprobe::Uprobes;

/// What to record and how. Births, deaths and names are recorded unless they are left out, calls where functions are
/// attached.
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
    /// Tracepoints that are not attached, by their names in the catalogue; `task_name` stands for `task_rename`.
    pub without: Vec<&'static str>,
    /// Executable mappings of targets: [`WireEvent::Mapped`].
    pub mappings: bool,
    /// Which interrupt a wakeup came from, and the interrupts that woke somebody or were long.
    pub interrupts: bool,
    /// Requests to block devices.
    pub blocks: bool,
    /// Page faults of targets.
    pub page_faults: bool,
    /// Direct reclaim, and processes killed for lack of memory.
    pub memory: bool,
    /// What targets send and receive through sockets.
    pub sockets: bool,
    /// TCP segments that are sent again.
    pub retransmits: bool,
    /// Changes of affinity and of clock frequencies.
    pub cpus: bool,
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
            without: Vec::new(),
            mappings: true,
            interrupts: true,
            blocks: true,
            page_faults: true,
            memory: true,
            sockets: true,
            retransmits: true,
            cpus: true,
            uprobes: UprobeLinks::Auto,
            count_interrupts: false,
        }
    }
}

impl Options {
    /// Nothing but births, deaths, names and calls.
    #[must_use]
    pub fn calls_alone() -> Self {
        Self {
            switches: false,
            wakeups: false,
            page_allocs: false,
            mappings: false,
            interrupts: false,
            blocks: false,
            page_faults: false,
            memory: false,
            sockets: false,
            retransmits: false,
            cpus: false,
            ..Self::default()
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Events that were asked for and that this kernel has no probe for, by their names in the file's schema.
    pub absent: Vec<&'static str>,
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
    /// What the flags of block requests mean.
    pub request_flags: RequestFlags,
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
    hold: Option<Hold>,
    losses: Losses,
    facts: Facts,
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
        let plan = tracepoint::plan(options, &btf, &mut config)?;

        let rings = (0..ring_count)
            .map(|n| Ring::create(&format!("ring{n}"), ring_bytes))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|source| Error::os(format!("creating {ring_count} rings of {ring_bytes} bytes"), source))?;
        let object = Loaded::new(ingero_ebpf::OBJECT, &config, &ring_of_each_cpu(&rings, &cpus, &cpus::possible()?))?;
        let overruns = Overruns::default();
        let mut losses = Losses::new(object.map("LOSSES")?, object.map("LOOK")?, overruns.clone())?;
        let (mut tracepoints, mut absent) = (Vec::new(), plan.absent);
        for planned in plan.probes {
            match planned.load(&object)? {
                Some(tracepoint) => {
                    losses.watch(planned.kind(), tracepoint.program())?;
                    tracepoints.push(tracepoint);
                }
                None => absent.push(planned.kind().event()),
            }
        }
        absent.sort_unstable();
        absent.dedup();
        if options.page_allocs && !options.without.contains(&Kind::PageAlloc.event()) {
            frames::find_frames(&object, &btf, config.page_bytes)?;
        }
        if options.switches && config.irq_source == irq_source::COUNTED {
            tracepoint::load_interrupt_counters(&object, &mut tracepoints)?;
        }
        let uprobes = Uprobes::load(&object, options.uprobes)?;
        for (kind, program) in [Kind::CallEntry, Kind::CallReturn].into_iter().zip(uprobes.programs()) {
            losses.watch(kind, program)?;
        }

        let watch = if options.mappings { Some(MappingWatch::open(overruns)?) } else { None };
        let drain = Drain::new(rings, watch, object.map("TARGETS")?, config.own_tgid, options.all_processes)?;
        let facts = Facts {
            absent,
            multi_links: uprobes.is_multi(),
            interrupt_context: config.irq_source != irq_source::UNKNOWN,
            throttling: config.task_throttled != NO_OFFSET
                || config.task_cfs_rq != NO_OFFSET && config.cfs_rq_throttled != NO_OFFSET,
            syscalls: config.regs_syscall != NO_OFFSET,
            initial_pid_namespace: std::fs::metadata("/proc/self/ns/pid")
                .is_ok_and(|at| at.ino() == INITIAL_PID_NAMESPACE),
            request_flags: RequestFlags::of(&btf),
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
            hold: if options.mappings { Hold::load(&object, &btf)? } else { None },
            losses,
            facts,
        })
    }

    /// What this kernel can and cannot say.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Attaches the tracepoints: from here on records arrive. Does nothing when they are.
    pub fn start(&mut self) -> Result<(), Error> {
        if self.links.is_empty() {
            for tracepoint in &self.tracepoints {
                match tracepoint.attach()? {
                    Some(link) => self.links.push(link),
                    None => self.facts.absent.extend(tracepoint.kind().map(Kind::event)),
                }
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
        self.uprobes.attach(file.as_ref(), probes, true)
    }

    /// Like [`attach_calls`](Self::attach_calls), without returns: for kernels whose return probes harm programs.
    pub fn attach_entries(&self, file: impl AsRef<Path>, probes: &[Probe]) -> Result<CallProbes, Error> {
        self.uprobes.attach(file.as_ref(), probes, false)
    }

    /// The reader; there is one, and it may live on another thread.
    pub fn take_drain(&mut self) -> Result<Drain, Error> {
        self.drain.take().ok_or(Error::DrainTaken)
    }

    /// What holds new programs; there is one, if this kernel can.
    pub fn take_hold(&mut self) -> Option<Hold> {
        self.hold.take()
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
