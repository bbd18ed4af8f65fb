//! The table of event kinds: one row here is all that the writer, the reader, the schema in the
//! file, `dump`, and the table converters need to know of a kind.
//!
//! Every kind has two columns that the table does not repeat: `ts_ns` (id 0, `CLOCK_MONOTONIC`
//! nanoseconds) and `cpu` (id 1). Column ids are never reused: a column that goes leaves a hole.

use super::column::{Column, EventKind, Shape};
use super::names::*;
use super::row::{CPU, Event, Nullable, TS, events};
use super::unit::Unit;
use super::word::{FuncId, StrId, TaskId, Word};

events! {
    /// sched_switch: `prev` left the CPU and `next` took it.
    1 Switch "sched_switch" {
        /// Task that left.
        2 prev: TaskId = Unit::Task, Shape::Follows(5);
        /// State in which it left, bits as the tracepoint prints them: 0 R, 1 S, 2 D, 4 T, 8 t,
        /// 0x10 X, 0x20 Z, 0x40 P, 0x80 I, 0x100 R+ (preempted).
        3 prev_state: u64 = Unit::Flags, Shape::Recalls(2, 0);
        /// Kernel priority of `prev` (120 is nice 0).
        4 prev_prio: Option<u64> = Unit::Number, Shape::Follows(6);
        /// Task that took the CPU; 0 is the idle task.
        5 next: TaskId = Unit::Task, Shape::Few;
        /// Kernel priority of `next`.
        6 next_prio: Option<u64> = Unit::Number, Shape::Recalls(5, 0);
        /// Number of the system call that `prev` blocks in; unknown outside of one or when
        /// `prev` was preempted.
        7 syscall: Option<u64> = Unit::Number, Shape::Recalls(2, 3);
        /// 1 where `prev` left because its cgroup ran out of quota; unknown where the kernel
        /// does not tell.
        8 throttled: Option<u64> = Unit::Number, Shape::Recalls(2, 3);
    }
    /// sched_waking: a task is being woken; recorded on the waker's CPU.
    2 Waking "sched_waking" {
        /// Task that is current on the waker's CPU. The waker only where `context` is 0.
        2 waker: TaskId = Unit::Task, Shape::Few;
        /// Task that is woken.
        3 wakee: TaskId = Unit::Task, Shape::Few;
        /// CPU that the wakee last ran on; the one chosen for it is in sched_wakeup.
        4 target_cpu: u64 = Unit::Cpu, Shape::Recalls(3, 0);
        /// Context of the wake: 0 the current task, 1 softirq, 2 hardirq, 3 NMI.
        5 context: Option<u64> = Unit::Enum(CONTEXTS), Shape::Few;
        /// What the interrupt was that woke: a timer, a device, or anything else (a call from another
        /// CPU, the scheduler's own work). Unknown for a task's wake, and where the trace cannot tell.
        6 source: Option<u64> = Unit::Enum(WAKE_SOURCES), Shape::Recalls(3, 5);
        /// Number of the device's interrupt line (as in /proc/interrupts) for a hard interrupt, of the
        /// vector for a softirq; its name is in the rows of `irq` and `softirq`. Unknown for others.
        7 irq: Option<u64> = Unit::Number, Shape::Recalls(3, 5);
    }
    /// sched_wakeup: a task was put on a run queue; may be recorded on the woken CPU.
    3 Wakeup "sched_wakeup" {
        /// Task that is now runnable.
        2 wakee: TaskId = Unit::Task, Shape::Few;
        /// CPU whose run queue it is on.
        3 target_cpu: u64 = Unit::Cpu, Shape::Few;
    }
    /// sched_wakeup_new: a newborn task was put on a run queue for the first time.
    4 WakeupNew "sched_wakeup_new" {
        /// Task that is now runnable.
        2 wakee: TaskId = Unit::Task, Shape::Near;
        /// CPU whose run queue it is on.
        3 target_cpu: u64 = Unit::Cpu, Shape::Few;
    }
    /// sched_process_fork: a task made another, a thread or a process.
    5 Fork "sched_process_fork" {
        /// Task that called fork or clone (a helper thread, perhaps).
        2 parent: TaskId = Unit::Task, Shape::Few;
        /// The newborn.
        3 child: TaskId = Unit::Task, Shape::Near;
    }
    /// sched_process_exec: a process replaced its program.
    6 Exec "sched_process_exec" {
        /// Task that runs on, the group's leader from here on.
        2 task: TaskId = Unit::Task, Shape::Near;
        /// File that was executed.
        3 file: StrId = Unit::Str, Shape::Few;
    }
    /// sched_process_exit: a task ended.
    7 Exit "sched_process_exit" {
        /// Task that ended.
        2 task: TaskId = Unit::Task, Shape::Near;
        /// 1 when it was the last thread of its process.
        3 group_dead: Option<u64> = Unit::Number, Shape::Few;
    }
    /// mm_page_alloc: the kernel handed out pages.
    8 PageAlloc "mm_page_alloc" {
        /// Task on whose behalf.
        2 task: TaskId = Unit::Task, Shape::Few;
        /// First page frame; unknown for a failed allocation.
        3 pfn: Option<u64> = Unit::Address, Shape::Near;
        /// Pages, as a power of two.
        4 order: u64 = Unit::Number, Shape::Few;
        /// Allocation flags, raw (kernel specific).
        5 gfp_flags: u64 = Unit::Flags, Shape::Few;
        /// Migrate type, raw (kernel specific).
        6 migratetype: Option<u64> = Unit::Number, Shape::Recalls(5, 0);
    }
    /// A call of a probed library function, entry and return in one row. `ts_ns` is the entry.
    9 Call "call" {
        /// Thread that called.
        2 task: TaskId = Unit::Task, Shape::Few;
        /// Function.
        3 func: FuncId = Unit::Func, Shape::Few;
        /// Time from entry to return; unknown unless `end` is "returned".
        4 dur_ns: Option<u64> = Unit::DurationNs, Shape::Plain;
        /// How the call ended.
        5 end: u64 = Unit::Enum(CALL_ENDS), Shape::Few;
        /// Result code; unknown without a return.
        6 result: Option<i64> = Unit::Signed, Shape::Recalls(3, 0);
        /// First address: destination, allocation, kernel function or event handle.
        7 ptr: Option<u64> = Unit::Address, Shape::Near;
        /// Second address: source.
        8 ptr2: Option<u64> = Unit::Address, Shape::Near;
        /// Size asked for or copied.
        9 bytes: Option<u64> = Unit::Bytes, Shape::Recalls(3, 0);
        /// Direction of a copy.
        10 copy: Option<u64> = Unit::Enum(COPY_KINDS), Shape::Recalls(3, 0);
        /// Stream handle; 0 is the default stream, 1 legacy, 2 per-thread.
        11 stream: Option<u64> = Unit::Address, Shape::Recalls(3, 2);
        /// Device that was current in the thread when it called, by the number that the process has for
        /// it (`CUDA_VISIBLE_DEVICES` counts). Unknown until the thread's choice was seen.
        12 device: Option<u64> = Unit::Number, Shape::Recalls(2, 0);
    }
    /// A task has a name from here on.
    10 Name "task_name" {
        /// Task that is named.
        2 task: TaskId = Unit::Task, Shape::Near;
        /// Its name.
        3 name: StrId = Unit::Str, Shape::Few;
        /// How the name came about.
        4 source: u64 = Unit::Enum(NAME_SOURCES), Shape::Few;
    }
    /// What is known of a process from here on: at the start, after a fork, after an exec.
    11 Process "process" {
        /// Its main thread.
        2 task: TaskId = Unit::Task, Shape::Near;
        /// Process id of its parent.
        3 parent_pid: Option<u64> = Unit::Number, Shape::Few;
        /// Executable.
        4 exe: Option<StrId> = Unit::Str, Shape::Recalls(3, 0);
        /// Command line, arguments separated by one space; unknown when redacted.
        5 args: Option<StrId> = Unit::Str, Shape::Few;
        /// 1 where the recording was asked to follow this process.
        6 followed: u64 = Unit::Number, Shape::Few;
    }
    /// Events that were lost between `ts_ns` and `to_ns`.
    12 Loss "loss" {
        /// End of the range.
        2 to_ns: u64 = Unit::TimeNs, Shape::Near;
        /// What lost them: an event kind's name, or a part of the recorder.
        3 probe: StrId = Unit::Str, Shape::Few;
        /// Why.
        4 cause: u64 = Unit::Enum(LOSS_CAUSES), Shape::Few;
        /// How many; unknown where only the gap is known.
        5 count: Option<u64> = Unit::Number, Shape::Few;
        /// In a file with the recordings of several hosts: which of them it concerns (N of `host.N`); unknown where it may be any.
        6 of_host: Option<u64> = Unit::Number, Shape::Few;
    }
    /// One moment on several clocks: `ts_ns` is CLOCK_MONOTONIC.
    13 Clock "clock" {
        /// CLOCK_BOOTTIME.
        2 boot_ns: u64 = Unit::TimeNs, Shape::Near;
        /// CLOCK_REALTIME, Unix nanoseconds.
        3 real_ns: u64 = Unit::TimeNs, Shape::Near;
        /// Time stamp counter; unknown where the processor has none.
        4 tsc: Option<u64> = Unit::Number, Shape::Near;
        /// Width of the bracket of monotonic reads around the others: the uncertainty.
        5 bracket_ns: u64 = Unit::DurationNs, Shape::Plain;
    }
    /// State of the whole machine, once a second, from /proc/stat, meminfo, loadavg and vmstat. CPU times are
    /// totals since boot over all CPUs. What the kernel does not say is unknown.
    14 System "system" {
        /// Time in user space, nice included.
        2 user_ns: Option<u64> = Unit::DurationNs, Shape::Near;
        /// Time in the kernel, interrupts included.
        3 system_ns: Option<u64> = Unit::DurationNs, Shape::Near;
        /// Idle time.
        4 idle_ns: Option<u64> = Unit::DurationNs, Shape::Near;
        /// Idle time with a disk request under way.
        5 iowait_ns: Option<u64> = Unit::DurationNs, Shape::Near;
        /// Time that a hypervisor took.
        6 steal_ns: Option<u64> = Unit::DurationNs, Shape::Near;
        /// Memory installed.
        7 mem_total_bytes: Option<u64> = Unit::Bytes, Shape::Near;
        /// Memory that could be had without swapping.
        8 mem_available_bytes: Option<u64> = Unit::Bytes, Shape::Near;
        /// Swap space.
        9 swap_total_bytes: Option<u64> = Unit::Bytes, Shape::Near;
        /// Swap space in use.
        10 swap_used_bytes: Option<u64> = Unit::Bytes, Shape::Near;
        /// Load average over one minute, thousandths.
        11 load1_milli: Option<u64> = Unit::Number, Shape::Near;
        /// Load average over five minutes, thousandths.
        12 load5_milli: Option<u64> = Unit::Number, Shape::Near;
        /// Load average over fifteen minutes, thousandths.
        13 load15_milli: Option<u64> = Unit::Number, Shape::Near;
        /// Time in hard interrupts, a part of `system_ns`.
        14 irq_ns: Option<u64> = Unit::DurationNs, Shape::Near;
        /// Time in softirqs, a part of `system_ns`.
        15 softirq_ns: Option<u64> = Unit::DurationNs, Shape::Near;
        /// Tasks that run or want to.
        16 running: Option<u64> = Unit::Number, Shape::Near;
        /// Tasks that wait for a disk, uninterruptibly.
        17 blocked: Option<u64> = Unit::Number, Shape::Near;
        /// Context switches since boot.
        18 switches: Option<u64> = Unit::Number, Shape::Near;
        /// Page faults that had to wait for a disk, since boot.
        19 major_faults: Option<u64> = Unit::Number, Shape::Near;
    }
    /// block_rq_issue: a request went to a block device.
    15 BlockIssue "block_rq_issue" {
        /// Task on whose behalf.
        2 task: TaskId = Unit::Task, Shape::Few;
        /// Device, major << 20 | minor.
        3 dev: u64 = Unit::Number, Shape::Few;
        /// First sector.
        4 sector: u64 = Unit::Number, Shape::Near;
        /// Size.
        5 bytes: u64 = Unit::Bytes, Shape::Few;
        /// Kind of request, as the tracepoint prints it (R, W, FF, …).
        6 rwbs: StrId = Unit::Str, Shape::Few;
    }
    /// block_rq_complete: a block device finished a request.
    16 BlockComplete "block_rq_complete" {
        /// Device, major << 20 | minor.
        2 dev: u64 = Unit::Number, Shape::Few;
        /// First sector.
        3 sector: u64 = Unit::Number, Shape::Near;
        /// Sectors of 512 bytes, as bytes.
        4 bytes: u64 = Unit::Bytes, Shape::Few;
        /// Kind of request, as the tracepoint prints it (R, W, FF, …).
        5 rwbs: StrId = Unit::Str, Shape::Few;
        /// Error number, 0 for none.
        6 error: i64 = Unit::Signed, Shape::Few;
    }
    /// A hard interrupt of a device or the local timer, from entry to exit. Only those are here that woke
    /// a task or took `LONG_INTERRUPT_NS` or longer.
    17 Irq "irq" {
        /// Task that it interrupted.
        2 task: TaskId = Unit::Task, Shape::Few;
        /// How long it ran.
        3 dur_ns: u64 = Unit::DurationNs, Shape::Plain;
        /// Number of the line, as in /proc/interrupts; unknown for the CPU's own timer.
        4 irq: Option<u64> = Unit::Number, Shape::Few;
        /// Name of the handler: the device or driver; "local_timer" for the CPU's own timer.
        5 name: StrId = Unit::Str, Shape::Recalls(4, 0);
        /// Tasks that it woke.
        6 woke: u64 = Unit::Number, Shape::Few;
    }
    /// A softirq, from entry to exit, interrupts inside it included. Only those are here that woke a task
    /// or took `LONG_INTERRUPT_NS` or longer.
    18 Softirq "softirq" {
        /// Task that it ran on top of.
        2 task: TaskId = Unit::Task, Shape::Few;
        /// How long it ran.
        3 dur_ns: u64 = Unit::DurationNs, Shape::Plain;
        /// What it was for.
        4 vector: u64 = Unit::Enum(SOFTIRQS), Shape::Few;
        /// Tasks that it woke.
        5 woke: u64 = Unit::Number, Shape::Few;
    }
    /// page_fault_user: a followed process touched a page that was not there, or not as it wanted it.
    19 PageFault "page_fault_user" {
        /// Thread that touched it.
        2 task: TaskId = Unit::Task, Shape::Few;
        /// Address that it touched.
        3 address: u64 = Unit::Address, Shape::Near;
        /// The processor's error code; on x86-64 1 protection (else not present), 2 write, 4 user,
        /// 0x10 instruction.
        4 error: u64 = Unit::Flags, Shape::Few;
    }
    /// Direct reclaim: a task had to find free pages itself before its allocation went on.
    20 Reclaim "direct_reclaim" {
        /// Task that had to.
        2 task: TaskId = Unit::Task, Shape::Few;
        /// How long; unknown where the recording ended first.
        3 dur_ns: Option<u64> = Unit::DurationNs, Shape::Plain;
        /// Pages that were wanted, as a power of two; unknown where it began before the recording, and
        /// `ts_ns` is then its end.
        4 order: Option<u64> = Unit::Number, Shape::Few;
        /// Pages that it freed.
        5 reclaimed: Option<u64> = Unit::Number, Shape::Plain;
        /// 1 where a memory cgroup's limit caused it, not a lack of the machine's memory.
        6 memcg: u64 = Unit::Number, Shape::Few;
    }
    /// The kernel chose a process to kill because memory ran out, in the machine or in a memory cgroup.
    21 OomKill "oom_kill" {
        /// Task that caused the search: it wanted memory.
        2 task: TaskId = Unit::Task, Shape::Few;
        /// Main thread of the process that is killed.
        3 victim: TaskId = Unit::Task, Shape::Few;
        /// Its address space.
        4 total_bytes: Option<u64> = Unit::Bytes, Shape::Plain;
        /// Its private memory.
        5 anon_bytes: Option<u64> = Unit::Bytes, Shape::Plain;
        /// Its memory that has a file behind it.
        6 file_bytes: Option<u64> = Unit::Bytes, Shape::Plain;
        /// Its shared memory.
        7 shmem_bytes: Option<u64> = Unit::Bytes, Shape::Plain;
        /// `oom_score_adj` of the process.
        8 score_adj: Option<i64> = Unit::Signed, Shape::Few;
    }
    /// From here on a task may run on these CPUs alone: at the start for every task there is, later at each
    /// change. A newborn has those of its parent.
    22 Affinity "task_affinity" {
        /// Task that is bound.
        2 task: TaskId = Unit::Task, Shape::Near;
        /// CPUs, as the kernel lists them: `0-3,8`.
        3 cpus: StrId = Unit::Str, Shape::Few;
        /// How it was learnt. A change that was only seen by looking has happened up to a second earlier.
        4 source: u64 = Unit::Enum(AFFINITY_SOURCES), Shape::Few;
    }
    /// The clock of a CPU: when it changes where the kernel says so, and once a second where it can be read.
    23 CpuFrequency "cpu_frequency" {
        /// CPU it is about.
        2 of_cpu: u64 = Unit::Cpu, Shape::Few;
        /// Frequency in kHz.
        3 khz: u64 = Unit::Number, Shape::Recalls(2, 0);
    }
    /// tcp_retransmit_skb: a TCP segment is sent again, since nobody acknowledged it. It runs in whatever
    /// context the timer or the packet came: no task is to blame.
    24 Retransmit "tcp_retransmit" {
        /// Own address and port: `10.0.0.1:40000`, `[fe80::1]:40000`.
        2 local: StrId = Unit::Str, Shape::Few;
        /// Address and port of the other side.
        3 peer: StrId = Unit::Str, Shape::Recalls(2, 0);
        /// State of the connection.
        4 state: Option<u64> = Unit::Enum(TCP_STATES), Shape::Few;
    }
    /// A followed process sent or received through a socket, by whatever system call; `ts_ns` is when the
    /// kernel was done. What it waited for meanwhile is in its switches.
    25 SocketIo "socket" {
        /// Thread that did.
        2 task: TaskId = Unit::Task, Shape::Few;
        /// Which way.
        3 direction: u64 = Unit::Enum(SOCKET_DIRECTIONS), Shape::Few;
        /// Bytes that went, or the negative error number.
        4 result: i64 = Unit::Signed, Shape::Recalls(2, 3);
        /// Address family.
        5 family: u64 = Unit::Enum(SOCKET_FAMILIES), Shape::Recalls(2, 3);
        /// Own port, TCP and UDP alone.
        6 local_port: Option<u64> = Unit::Number, Shape::Recalls(2, 3);
        /// Port of the other side, where the socket is connected.
        7 peer_port: Option<u64> = Unit::Number, Shape::Recalls(2, 3);
    }
    /// What a call of NCCL was about. It stands beside the call's own row, whose `task` and `ts_ns` it has.
    26 Collective "collective" {
        /// Thread that called.
        2 task: TaskId = Unit::Task, Shape::Few;
        /// Communicator, an address in the process; unknown until one is made.
        3 comm: Option<u64> = Unit::Address, Shape::Few;
        /// Rank of this process in it; unknown where its creation was not seen.
        4 rank: Option<u64> = Unit::Number, Shape::Recalls(3, 0);
        /// Ranks that it has.
        5 ranks: Option<u64> = Unit::Number, Shape::Recalls(3, 0);
        /// Elements, as the function counts them (of one rank, where it takes one rank's).
        6 count: Option<u64> = Unit::Number, Shape::Recalls(2, 3);
        /// Type of the elements.
        7 datatype: Option<u64> = Unit::Enum(NCCL_TYPES), Shape::Recalls(2, 3);
        /// Reduction; numbers from 5 on are the process's own.
        8 op: Option<u64> = Unit::Enum(NCCL_OPS), Shape::Recalls(2, 3);
        /// The root, or the rank that is sent to or received from.
        9 peer: Option<u64> = Unit::Number, Shape::Recalls(2, 3);
    }
    /// A named stretch of time that the program itself marked by NVTX. `ts_ns` is its begin.
    27 Range "range" {
        /// Thread that began it.
        2 task: TaskId = Unit::Task, Shape::Few;
        /// How long; unknown unless `end` is "returned".
        3 dur_ns: Option<u64> = Unit::DurationNs, Shape::Plain;
        /// How it ended.
        4 end: u64 = Unit::Enum(CALL_ENDS), Shape::Few;
        /// Its name, cut at `MARK_BYTES`; unknown where it could not be read or is in wide characters.
        5 name: Option<StrId> = Unit::Str, Shape::Few;
        /// How it was marked.
        6 form: u64 = Unit::Enum(RANGE_FORMS), Shape::Few;
    }
    /// A named moment: a line written to the file that `INGERO_MARKS` names, or a mark by NVTX.
    28 Mark "mark" {
        /// Thread that set it; unknown for a line in the file.
        2 task: Option<TaskId> = Unit::Task, Shape::Few;
        /// Its text, cut at `MARK_BYTES`.
        3 text: Option<StrId> = Unit::Str, Shape::Few;
        /// Where it came from. The time of a line is when the recorder read it.
        4 source: u64 = Unit::Enum(MARK_SOURCES), Shape::Few;
    }
    /// A followed process has a file mapped as code: what an address in it means is in that file. Seen by
    /// looking, at the start, at each new mapping and every other second.
    29 Mapping "mapping" {
        /// Main thread of the process.
        2 task: TaskId = Unit::Task, Shape::Near;
        /// First address.
        3 start: u64 = Unit::Address, Shape::Near;
        /// Length.
        4 bytes: u64 = Unit::Bytes, Shape::Plain;
        /// Place in the file of the first byte.
        5 offset: u64 = Unit::Bytes, Shape::Plain;
        /// The file, as the process names it.
        6 file: StrId = Unit::Str, Shape::Few;
        /// Its build id in hexadecimal; unknown where it has none or could not be read.
        7 build_id: Option<StrId> = Unit::Str, Shape::Recalls(6, 0);
    }
    /// A process is in this control group: at the start, and where a change was seen.
    30 ProcessCgroup "process_cgroup" {
        /// Main thread of the process.
        2 task: TaskId = Unit::Task, Shape::Near;
        /// Path of the group below the hierarchy's root: of version 2, or of version 1's cpu controller.
        3 cgroup: StrId = Unit::Str, Shape::Few;
        /// Id of the container that the path names (Docker, containerd, CRI-O, Podman, LXC).
        4 container: Option<StrId> = Unit::Str, Shape::Recalls(3, 0);
        /// Uid of the pod that a kubelet's path names.
        5 pod: Option<StrId> = Unit::Str, Shape::Recalls(3, 0);
    }
    /// What a followed process has used since its start, once a second.
    31 ProcessSample "process_sample" {
        /// Main thread of the process.
        2 task: TaskId = Unit::Task, Shape::Near;
        /// CPU time in user space, of all its threads.
        3 user_ns: Option<u64> = Unit::DurationNs, Shape::Near;
        /// CPU time in the kernel.
        4 system_ns: Option<u64> = Unit::DurationNs, Shape::Near;
        /// Page faults that needed no disk.
        5 minor_faults: Option<u64> = Unit::Number, Shape::Near;
        /// Page faults that had to wait for a disk.
        6 major_faults: Option<u64> = Unit::Number, Shape::Near;
        /// Memory in use now.
        7 resident_bytes: Option<u64> = Unit::Bytes, Shape::Near;
        /// Threads now.
        8 threads: Option<u64> = Unit::Number, Shape::Few;
    }
    /// A control group that a followed process is in, once a second; totals since the group was made.
    32 CgroupSample "cgroup_sample" {
        /// Path, as in `process_cgroup`. A quota of a group above it counts for it too, and is a row of its own.
        2 cgroup: StrId = Unit::Str, Shape::Few;
        /// CPU time used.
        3 usage_ns: Option<u64> = Unit::DurationNs, Shape::Near;
        /// CPU time that it may use in each period; unknown where it has no quota.
        4 quota_ns: Option<u64> = Unit::DurationNs, Shape::Recalls(2, 0);
        /// Length of a period.
        5 period_ns: Option<u64> = Unit::DurationNs, Shape::Recalls(2, 0);
        /// Periods in which it wanted to run.
        6 periods: Option<u64> = Unit::Number, Shape::Near;
        /// Periods in which its quota ran out.
        7 throttled: Option<u64> = Unit::Number, Shape::Near;
        /// Time for which its tasks were held back.
        8 throttled_ns: Option<u64> = Unit::DurationNs, Shape::Near;
        /// Memory in use now.
        9 memory_bytes: Option<u64> = Unit::Bytes, Shape::Near;
        /// Memory that it may use; unknown where it has no limit.
        10 memory_max_bytes: Option<u64> = Unit::Bytes, Shape::Recalls(2, 0);
    }
    /// Pressure stall information, once a second: how long tasks have stood still for lack of something.
    33 Pressure "pressure" {
        /// What they lacked.
        2 resource: u64 = Unit::Enum(PRESSURES), Shape::Few;
        /// Time since boot in which some task stood still.
        3 some_ns: Option<u64> = Unit::DurationNs, Shape::Recalls(2, 0);
        /// Time since boot in which every task that was not idle stood still.
        4 full_ns: Option<u64> = Unit::DurationNs, Shape::Recalls(2, 0);
    }
    /// State of a GPU, once a second, as NVML has it. What this device or driver does not tell is unknown.
    34 GpuSample "gpu_sample" {
        /// Number of the device in NVML: by PCI address, not as CUDA numbers it for a process.
        2 device: u64 = Unit::Number, Shape::Few;
        /// Its unique id.
        3 uuid: Option<StrId> = Unit::Str, Shape::Recalls(2, 0);
        /// Its product name.
        4 name: Option<StrId> = Unit::Str, Shape::Recalls(2, 0);
        /// Share of time with a kernel running, percent.
        5 busy_percent: Option<u64> = Unit::Number, Shape::Near;
        /// Share of time in which its memory was read or written, percent.
        6 memory_busy_percent: Option<u64> = Unit::Number, Shape::Near;
        /// Memory in use.
        7 memory_used_bytes: Option<u64> = Unit::Bytes, Shape::Near;
        /// Memory it has.
        8 memory_total_bytes: Option<u64> = Unit::Bytes, Shape::Near;
        /// Clock of its processors, MHz.
        9 sm_mhz: Option<u64> = Unit::Number, Shape::Near;
        /// Clock of its memory, MHz.
        10 memory_mhz: Option<u64> = Unit::Number, Shape::Near;
        /// Why its clocks are low, `nvmlClocksEventReasons` bits: 1 idle, 2 application setting, 4 power cap,
        /// 8 hardware slowdown, 0x10 sync boost, 0x20 heat (software), 0x40 heat (hardware),
        /// 0x80 power brake, 0x100 display setting.
        11 throttle: Option<u64> = Unit::Flags, Shape::Recalls(2, 0);
        /// Received over PCIe, bytes a second.
        12 pcie_rx: Option<u64> = Unit::Bytes, Shape::Near;
        /// Sent over PCIe, bytes a second.
        13 pcie_tx: Option<u64> = Unit::Bytes, Shape::Near;
        /// Power drawn, milliwatts.
        14 power_mw: Option<u64> = Unit::Number, Shape::Near;
        /// Temperature, degrees Celsius.
        15 celsius: Option<u64> = Unit::Number, Shape::Near;
    }
    // Numbers from 64 on: what other tools record, and this one takes over.
    /// A stay off the CPUs from `ts_ns` on, as the source measured it. Sources that keep only some
    /// of the switches have these in place of sched_switch; what the task waited for is unknown.
    64 OffCpu "off_cpu" {
        /// Task that was off the CPUs.
        2 task: TaskId = Unit::Task, Shape::Few;
        /// Time until it was on one again.
        3 dur_ns: u64 = Unit::DurationNs, Shape::Plain;
    }
    /// Totals of one operation of one process over a stretch of time, as the source counted them:
    /// the events that it stored and those that it did not. `ts_ns` is the start of the stretch, or
    /// that of the recording where it is later.
    65 Aggregate "aggregate" {
        /// Task that the source counts them for, by its process id (a thread's, perhaps).
        2 task: TaskId = Unit::Task, Shape::Few;
        /// The source's name for the part of the system.
        3 source: StrId = Unit::Str, Shape::Few;
        /// The source's name for the operation.
        4 op: StrId = Unit::Str, Shape::Few;
        /// The library function that it is; unknown for operations that are no call.
        5 func: Option<FuncId> = Unit::Func, Shape::Few;
        /// Start of the stretch as the source has it.
        6 bucket_ns: u64 = Unit::TimeNs, Shape::Near;
        /// Length of the stretch.
        7 len_ns: u64 = Unit::DurationNs, Shape::Few;
        /// Events that happened.
        8 count: u64 = Unit::Number, Shape::Plain;
        /// Events of these that the source says it stored.
        9 stored: u64 = Unit::Number, Shape::Plain;
        /// Sum of their durations; unknown where the operation has none.
        10 sum_dur_ns: Option<u64> = Unit::DurationNs, Shape::Plain;
        /// The shortest.
        11 min_dur_ns: Option<u64> = Unit::DurationNs, Shape::Plain;
        /// The longest.
        12 max_dur_ns: Option<u64> = Unit::DurationNs, Shape::Plain;
        /// Sum of their first arguments: bytes for allocations, copies and page allocations.
        13 sum_arg0: u64 = Unit::Number, Shape::Plain;
    }
    /// State of the whole machine as another tool sums it up.
    66 Usage "system_usage" {
        /// Share of all CPUs that was busy since the sample before, billionths.
        2 cpu_ppb: u64 = Unit::Number, Shape::Near;
        /// Share of the memory that is in use, billionths.
        3 mem_ppb: u64 = Unit::Number, Shape::Near;
        /// Memory that could be had without swapping.
        4 mem_available_bytes: u64 = Unit::Bytes, Shape::Near;
        /// Swap space in use.
        5 swap_used_bytes: u64 = Unit::Bytes, Shape::Near;
        /// Load average over one minute, thousandths.
        6 load1_milli: u64 = Unit::Number, Shape::Near;
    }
    /// One frame of a call stack; `ts_ns` is where the stack is first used.
    67 Frame "stack_frame" {
        /// Number of the stack in this file.
        2 stack: u64 = Unit::Number, Shape::Near;
        /// Place in the stack, 0 innermost.
        3 depth: u64 = Unit::Number, Shape::Near;
        /// Function, as the source names it; unknown where it found no name.
        4 symbol: Option<StrId> = Unit::Str, Shape::Few;
        /// Library or source file.
        5 file: Option<StrId> = Unit::Str, Shape::Few;
        /// Line of the source file.
        6 line: Option<u64> = Unit::Number, Shape::Few;
        /// Instruction address in its process.
        7 address: Option<u64> = Unit::Address, Shape::Near;
        /// What it is a frame of.
        8 language: u64 = Unit::Enum(LANGUAGES), Shape::Few;
    }
    /// A task's call stack at a moment: that of its call or stay off the CPUs that begins then.
    68 Stack "stack" {
        /// Task.
        2 task: TaskId = Unit::Task, Shape::Few;
        /// Number of the stack in this file.
        3 stack: u64 = Unit::Number, Shape::Few;
    }
    /// What another tool says about the recording, kept as it is. No analysis relies on it.
    69 Annotation "annotation" {
        /// Tool.
        2 source: StrId = Unit::Str, Shape::Few;
        /// What it is: a session, a causal chain, a container.
        3 label: StrId = Unit::Str, Shape::Few;
        /// Task that it is about.
        4 task: Option<TaskId> = Unit::Task, Shape::Few;
        /// End of the stretch that it is about.
        5 to_ns: Option<u64> = Unit::TimeNs, Shape::Near;
        /// What it says: JSON, one object.
        6 text: StrId = Unit::Str, Shape::Near;
    }
    /// An event of another tool for which there is no kind of its own; its numbers are as they were.
    70 OtherEvent "other_event" {
        /// Task that it belongs to.
        2 task: TaskId = Unit::Task, Shape::Few;
        /// The source's name for the part of the system.
        3 source: StrId = Unit::Str, Shape::Few;
        /// The source's name for the operation.
        4 op: StrId = Unit::Str, Shape::Few;
        /// Its duration; unknown where it has none.
        5 dur_ns: Option<u64> = Unit::DurationNs, Shape::Plain;
        /// First argument.
        6 arg0: i64 = Unit::Signed, Shape::Plain;
        /// Second argument.
        7 arg1: i64 = Unit::Signed, Shape::Plain;
        /// Result.
        8 result: i64 = Unit::Signed, Shape::Few;
    }
    /// Work of a GPU, from `ts_ns` on.
    71 DeviceActivity "device_activity" {
        /// GPU, by its number in the process.
        2 device: u64 = Unit::Number, Shape::Few;
        /// Stream, by the source's number.
        3 stream: Option<u64> = Unit::Number, Shape::Few;
        /// What it is.
        4 activity: u64 = Unit::Enum(ACTIVITIES), Shape::Few;
        /// Kernel, or direction of the copy.
        5 name: StrId = Unit::Str, Shape::Few;
        /// Time that it took.
        6 dur_ns: u64 = Unit::DurationNs, Shape::Plain;
        /// Number that it shares with the call that submitted it (see correlation).
        7 correlation: Option<u64> = Unit::Number, Shape::Near;
        /// Bytes copied or filled.
        8 bytes: Option<u64> = Unit::Bytes, Shape::Few;
        /// Direction of a copy.
        9 copy: Option<u64> = Unit::Enum(COPY_KINDS), Shape::Few;
        /// Main thread of the process that submitted it, or the thread where that is known.
        10 task: Option<TaskId> = Unit::Task, Shape::Few;
    }
    /// A named stretch of a thread's work from `ts_ns` on, as its program told a profiler: an
    /// operator, a function, an annotated range.
    72 Span "span" {
        /// Thread.
        2 task: TaskId = Unit::Task, Shape::Few;
        /// Name.
        3 name: StrId = Unit::Str, Shape::Few;
        /// The profiler's category.
        4 category: StrId = Unit::Str, Shape::Few;
        /// Its length.
        5 dur_ns: u64 = Unit::DurationNs, Shape::Plain;
        /// Number that it shares with calls and GPU work that it brought about.
        6 external_id: Option<u64> = Unit::Number, Shape::Near;
    }
    /// The call of the task that begins at `ts_ns` has this number in common with the GPU work that
    /// it submitted.
    73 Correlation "correlation" {
        /// Thread that called.
        2 task: TaskId = Unit::Task, Shape::Few;
        /// Number.
        3 id: u64 = Unit::Number, Shape::Near;
        /// Number that the call shares with the span it was made in.
        4 external_id: Option<u64> = Unit::Number, Shape::Near;
    }
}

/// The description of a kind.
#[must_use]
pub fn event_kind(kind: Kind) -> &'static EventKind {
    // Every kind has its row by construction; the first row stands in for a miss that cannot be.
    EVENTS.iter().find(|e| e.kind == kind).unwrap_or(&EVENTS[0])
}
