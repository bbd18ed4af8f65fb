//! Which programs hang where in the kernel, and whether this kernel has such a place.

use std::{
    ffi::CString,
    os::fd::{AsFd, OwnedFd},
};

use ingero_ebpf_common::{Config, Kind, NO_OFFSET};

use super::{
    Error, Options,
    btf::Btf,
    layout,
    object::{Hook, Loaded},
    sys,
};

/// Where a program hangs.
#[derive(Clone, Copy, Debug)]
enum At {
    /// The tracepoint of the program's name, with typed arguments.
    Typed,
    /// That of another name.
    TypedAs(&'static str),
    /// The end of this kernel function.
    Exit(&'static str),
}

/// A program, and what it is for.
struct Row {
    kind: Kind,
    program: &'static str,
    at: At,
    /// Without it there is no recording.
    needed: bool,
    wanted: fn(&Options) -> bool,
}

impl Row {
    fn is_wanted(&self, options: &Options) -> bool {
        (self.wanted)(options) && !options.without.contains(&self.kind.event())
    }
}

const fn row(kind: Kind, program: &'static str, at: At, needed: bool, wanted: fn(&Options) -> bool) -> Row {
    Row { kind, program, at, needed, wanted }
}

/// Every program at a place in the kernel. The order is that of attaching: births first, so that no thread is seen running
/// before it is known, and ends before begins, so that nothing begins that is never seen to end.
const ROWS: &[Row] = &[
    row(Kind::Fork, "sched_process_fork", At::Typed, true, |_| true),
    row(Kind::Exec, "sched_process_exec", At::Typed, true, |_| true),
    row(Kind::Rename, "task_rename", At::Typed, true, |_| true),
    row(Kind::Exit, "sched_process_exit", At::Typed, true, |_| true),
    row(Kind::Irq, "irq_handler_exit", At::Typed, false, |o| o.interrupts),
    row(Kind::Irq, "irq_handler_entry", At::Typed, false, |o| o.interrupts),
    row(Kind::Softirq, "softirq_ends", At::TypedAs("softirq_exit"), false, |o| o.interrupts),
    row(Kind::Softirq, "softirq_begins", At::TypedAs("softirq_entry"), false, |o| o.interrupts),
    row(Kind::Wakeup, "sched_wakeup", At::Typed, true, |o| o.wakeups),
    row(Kind::WakeupNew, "sched_wakeup_new", At::Typed, true, |o| o.wakeups),
    row(Kind::Waking, "sched_waking", At::Typed, true, |o| o.switches),
    row(Kind::Switch, "sched_switch", At::Typed, true, |o| o.switches),
    row(Kind::PageAlloc, "mm_page_alloc", At::Typed, true, |o| o.page_allocs),
    row(Kind::BlockComplete, "block_rq_complete", At::Typed, false, |o| o.blocks),
    row(Kind::BlockIssue, "block_rq_issue", At::Typed, false, |o| o.blocks),
    row(Kind::PageFault, "page_fault_user", At::Typed, false, |o| o.page_faults),
    row(Kind::Reclaim, "mm_vmscan_direct_reclaim_end", At::Typed, false, |o| o.memory),
    row(Kind::Reclaim, "mm_vmscan_direct_reclaim_begin", At::Typed, false, |o| o.memory),
    row(Kind::Reclaim, "mm_vmscan_memcg_reclaim_end", At::Typed, false, |o| o.memory),
    row(Kind::Reclaim, "mm_vmscan_memcg_reclaim_begin", At::Typed, false, |o| o.memory),
    row(Kind::OomKill, "mark_victim", At::Typed, false, |o| o.memory),
    row(Kind::SocketIo, "sock_send_length", At::Typed, false, |o| o.sockets),
    row(Kind::SocketIo, "sock_recv_length", At::Typed, false, |o| o.sockets),
    row(Kind::Retransmit, "tcp_retransmit_skb", At::Typed, false, |o| o.retransmits),
    row(Kind::Affinity, "affinity_changed", At::Exit("__set_cpus_allowed_ptr"), false, |o| o.cpus),
    row(Kind::CpuFrequency, "cpu_frequency", At::Typed, false, |o| o.cpus),
];

/// The timer of x86-64 CPUs; elsewhere it is an interrupt like any other.
#[cfg(target_arch = "x86_64")]
const LOCAL_TIMER: &[Row] = &[
    row(Kind::Irq, "local_timer_exit", At::Typed, false, |o| o.interrupts),
    row(Kind::Irq, "local_timer_entry", At::Typed, false, |o| o.interrupts),
];
#[cfg(not(target_arch = "x86_64"))]
const LOCAL_TIMER: &[Row] = &[];

/// What is to be loaded.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) probes: Vec<Planned>,
    /// Events of which this kernel does not know the place.
    pub(super) absent: Vec<&'static str>,
}

/// One program to load.
#[derive(Debug)]
pub(super) struct Planned {
    kind: Kind,
    program: &'static str,
    hook: Hook,
    place: Place,
    needed: bool,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    /// Its own, known since loading.
    Loaded,
    /// A raw tracepoint by name; whether a kernel without it is fine.
    Raw { optional: bool },
}

/// Chooses the programs for what is wanted, and says in `config` whether those of interrupts are complete.
pub(super) fn plan(options: &Options, btf: &Btf, config: &mut Config) -> Result<Plan, Error> {
    let mut plan = Plan::default();
    for row in LOCAL_TIMER.iter().chain(ROWS).filter(|row| row.is_wanted(options)) {
        let found = if has_fields(row.kind, config) { find(row, btf) } else { None };
        match found {
            Some((hook, place)) => {
                let Row { kind, program, needed, .. } = *row;
                plan.probes.push(Planned { kind, program, hook, place, needed });
            }
            None if row.needed => return Err(Error::NotInBtf { name: format!("tracepoint {}", row.program) }),
            None => plan.absent.push(row.kind.event()),
        }
    }
    // Half of the interrupts would pass for others.
    let complete = !plan.absent.iter().any(|event| [Kind::Irq.event(), Kind::Softirq.event()].contains(event));
    config.irq_spans = u32::from(options.interrupts && complete);
    Ok(plan)
}

/// Whether the kernel structs that a kind's program reads have the fields that it needs.
fn has_fields(kind: Kind, config: &Config) -> bool {
    let needed: &[u32] = match kind {
        Kind::Irq => &[config.irqaction_name, config.irqaction_flags],
        Kind::SocketIo => &[config.sock_family, config.sock_port, config.sock_peer_port],
        Kind::Retransmit => &[
            config.sock_family,
            config.sock_port,
            config.sock_peer_port,
            config.sock_state,
            config.sock_addresses_v4[0],
            config.sock_addresses_v4[1],
            config.sock_addresses_v6[0],
            config.sock_addresses_v6[1],
        ],
        Kind::BlockIssue | Kind::BlockComplete => &[
            config.request_queue,
            config.request_sector,
            config.request_bytes,
            config.request_flags,
            config.request_disk,
            config.disk_major,
            config.disk_first_minor,
        ],
        _ => &[],
    };
    !needed.contains(&NO_OFFSET)
}

fn find(row: &Row, btf: &Btf) -> Option<(Hook, Place)> {
    let typed = |name| btf.tracepoint(name).map(|(id, _)| (Hook::Typed(id), Place::Loaded));
    match row.at {
        At::Typed => typed(row.program),
        At::TypedAs(name) => typed(name),
        At::Exit(function) => btf.function(function).map(|id| (Hook::FunctionExit(id), Place::Loaded)),
    }
}

impl Planned {
    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    /// `None`: this kernel does not take it, and that is fine.
    pub(super) fn load(&self, object: &Loaded) -> Result<Option<Tracepoint>, Error> {
        match object.program(self.program, self.hook) {
            Ok(program) => {
                let name = self.program.to_owned();
                Ok(Some(Tracepoint { name, kind: Some(self.kind), program, place: self.place, needed: self.needed }))
            }
            // Not permitted, too: a security module may forbid one kind of program. Where a right is missing altogether, the
            // needed ones have failed before.
            Err(_) if !self.needed => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// A loaded program and what it will be attached to.
#[derive(Debug)]
pub(super) struct Tracepoint {
    name: String,
    kind: Option<Kind>,
    program: OwnedFd,
    place: Place,
    needed: bool,
}

impl Tracepoint {
    pub(super) fn program(&self) -> &OwnedFd {
        &self.program
    }

    /// What it records, if it does.
    pub(super) fn kind(&self) -> Option<Kind> {
        self.kind
    }

    /// `None`: this kernel does not have it, and that is fine.
    pub(super) fn attach(&self) -> Result<Option<OwnedFd>, Error> {
        let failed = |source| Error::os(format!("attaching to tracepoint {}", self.name), source);
        let program = self.program.as_fd();
        match self.place {
            Place::Loaded => match sys::raw_tracepoint_open(program, None) {
                Ok(link) => Ok(Some(link)),
                // A function that this kernel was built without the means to hook.
                Err(_) if !self.needed => Ok(None),
                Err(source) => Err(failed(source)),
            },
            Place::Raw { optional } => {
                let name = CString::new(self.name.as_str()).unwrap_or_default();
                match sys::raw_tracepoint_open(program, Some(&name)) {
                    Ok(link) => Ok(Some(link)),
                    Err(error) if optional && error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
                    Err(source) => Err(failed(source)),
                }
            }
        }
    }
}

/// Counts how deep each CPU is in interrupts, for kernels whose own count is out of reach.
pub(super) fn load_interrupt_counters(object: &Loaded, tracepoints: &mut Vec<Tracepoint>) -> Result<(), Error> {
    let mut load = |program: &str, name: String, optional| -> Result<(), Error> {
        let program = object.program(program, Hook::Raw)?;
        tracepoints.push(Tracepoint { name, kind: None, program, place: Place::Raw { optional }, needed: true });
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
