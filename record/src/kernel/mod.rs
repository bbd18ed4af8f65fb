//! The kernel side of a recording: BPF programs, their maps, and the ring they write into.
//!
//! Everything that talks to `bpf(2)` or `perf_event_open(2)` is in here; the rest of the recorder sees
//! [`Kernel`], which loads and attaches, [`Drain`], which hands out records, and [`Loss`].
//!
//! ```no_run
//! use ingero_record::kernel::{FunctionSpec, Kernel, Options, Probe, WireEvent};
//! # fn main() -> Result<(), ingero_record::kernel::Error> {
//! let mut kernel = Kernel::load(&Options::default())?;
//! kernel.set_function_spec(0, &FunctionSpec::NONE)?;
//! kernel.set_target(4711)?;
//! kernel.start()?;
//! let probes = kernel.attach_calls("/proc/4711/root/usr/lib/libcudart.so.13", &[Probe { offset: 0x1a2b0, function: 0 }])?;
//! let mut drain = kernel.take_drain()?;
//! while drain.read(10_000, |event| if let WireEvent::CallEntry(call, args) = event { println!("{call:?} {args:?}") })? > 0 {}
//! for loss in kernel.take_losses()? { eprintln!("{loss}"); }
//! drop(probes);
//! # Ok(()) }
//! ```

use std::path::Path;

pub use ingero_ebpf_common::{
    ArgSlot, CallEntry, CallReturn, Exec, Exit, Fork, FunctionSpec, Kind, Mapped, PageAlloc, Rename, Switch, Wakeup,
    Waking, context, exit_flag, return_flag, switch_flag,
};

/// What to record and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Calls, mappings and page allocations of every process, not only of targets.
    pub all_processes: bool,
    /// Ring size; rounded up to a power of two. `None`: 8 MiB per CPU, between 16 and 128 MiB.
    pub ring_bytes: Option<u32>,
    /// `sched_switch`, `sched_waking`.
    pub switches: bool,
    /// `sched_wakeup`, `sched_wakeup_new`.
    pub wakeups: bool,
    /// `mm_page_alloc`.
    pub page_allocs: bool,
    /// Executable mappings of targets ([`WireEvent::Mapped`]).
    pub mappings: bool,
    /// How function probes are attached.
    pub uprobes: UprobeLinks,
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

/// One function to probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Place in the file, not an address: where the probe's instruction is.
    pub offset: u64,
    /// Id that its records carry; its [`FunctionSpec`] must be set before.
    pub function: u32,
}

/// One record, as it lies in the ring.
#[derive(Clone, Copy, Debug)]
pub enum WireEvent<'a> {
    /// One thread left a CPU for another.
    Switch(&'a Switch),
    /// A thread is about to be woken.
    Waking(&'a Waking),
    /// A thread that had blocked became runnable.
    Wakeup(&'a Wakeup),
    /// A newborn thread became runnable.
    WakeupNew(&'a Wakeup),
    /// A thread or process was born.
    Fork(&'a Fork),
    /// A process runs a new program.
    Exec(&'a Exec),
    /// A thread ended.
    Exit(&'a Exit),
    /// A thread got another name.
    Rename(&'a Rename),
    /// Pages were handed out.
    PageAlloc(&'a PageAlloc),
    /// A target mapped a file as code.
    Mapped(&'a Mapped),
    /// A probed function was entered, with its argument words.
    CallEntry(&'a CallEntry, &'a [u64]),
    /// A probed function returned, with its out value if it has one.
    CallReturn(&'a CallReturn, Option<u64>),
}

/// Records of one kind that were lost on one CPU since the last look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// What was lost. `None`: a probe that did not run, of a program that serves several kinds.
    pub kind: Option<Kind>,
    /// Where; `None` when the kernel does not tell.
    pub cpu: Option<u32>,
    /// Why.
    pub cause: LossCause,
    /// How many.
    pub count: u64,
    /// `CLOCK_MONOTONIC` of the first and the last one; `None`: between the last look and this one.
    pub range_ns: Option<(u64, u64)>,
}

/// Why something was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossCause {
    /// The ring had no room: the record is missing.
    RingFull,
    /// A map had no room: the out value of a call is missing, or a newborn process is not followed.
    MapFull,
    /// The kernel skipped the probe because it already ran on this CPU: the record is missing.
    Recursion,
}

/// Loaded programs. Signatures are settled, bodies follow.
#[derive(Debug)]
pub struct Kernel(());

/// Reads the ring, on the thread that calls it.
#[derive(Debug)]
pub struct Drain(());

/// Attached function probes; dropping it detaches them, entries first.
#[derive(Debug)]
pub struct CallProbes(());

/// Why the kernel side could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[error("not yet")]
pub struct Error;

impl Kernel {
    /// Checks the kernel, loads the programs and creates the maps; nothing is recorded yet.
    pub fn load(_options: &Options) -> Result<Self, Error> {
        Err(Error)
    }
    /// Attaches tracepoints and the mapping watch: from here on records arrive.
    pub fn start(&mut self) -> Result<(), Error> {
        Err(Error)
    }
    /// Detaches everything that `start` attached; what is in the ring stays readable.
    pub fn stop(&mut self) {}
    /// Follows this process (thread group id, as the initial PID namespace numbers it) and what it forks.
    pub fn set_target(&self, _tgid: u32) -> Result<(), Error> {
        Err(Error)
    }
    /// Stops following it.
    pub fn remove_target(&self, _tgid: u32) -> Result<(), Error> {
        Err(Error)
    }
    /// All processes followed now, those included that the programs added at a fork.
    pub fn targets(&self) -> Result<Vec<u32>, Error> {
        Err(Error)
    }
    /// Says which words of function `id` (below `MAX_FUNCTIONS`) to record; before attaching it.
    pub fn set_function_spec(&self, _id: u32, _spec: &FunctionSpec) -> Result<(), Error> {
        Err(Error)
    }
    /// Attaches entry and return probes to places of one file. `Send`-able handle; takes `&self`.
    pub fn attach_calls(&self, _file: impl AsRef<Path>, _probes: &[Probe]) -> Result<CallProbes, Error> {
        Err(Error)
    }
    /// The reader; there is one.
    pub fn take_drain(&mut self) -> Result<Drain, Error> {
        Err(Error)
    }
    /// What was lost since the last call, one entry per kind, CPU and cause that lost anything.
    pub fn take_losses(&mut self) -> Result<Vec<Loss>, Error> {
        Err(Error)
    }
}

impl Drain {
    /// Hands at most `limit` records to `each`, oldest first; returns how many there were. 0: empty now.
    pub fn read(&mut self, _limit: usize, _each: impl FnMut(WireEvent<'_>)) -> Result<usize, Error> {
        Err(Error)
    }
    /// Waits until the ring passes its fill mark or the time is over.
    pub fn wait(&self, _timeout: std::time::Duration) -> Result<(), Error> {
        Err(Error)
    }
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
}
