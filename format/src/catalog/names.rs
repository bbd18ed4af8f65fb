//! The names of the values that enumerated columns hold, and the numbers that programs ask for.

/// Names of [`Waking::context`](super::Waking::context).
pub const CONTEXTS: &[(u64, &str)] = &[(0, "task"), (1, "softirq"), (2, "hardirq"), (3, "nmi")];
/// Names of [`Name::source`](super::Name::source).
pub const NAME_SOURCES: &[(u64, &str)] = &[(0, "start"), (1, "fork"), (2, "exec"), (3, "rename"), (4, "seen")];
/// Names of [`Call::end`](super::Call::end).
pub const CALL_ENDS: &[(u64, &str)] =
    &[(0, "returned"), (1, "open"), (2, "skipped"), (3, "thread-exit"), (4, "began-before")];
/// Names of [`Call::copy`](super::Call::copy), the numbers of `cudaMemcpyKind`.
pub const COPY_KINDS: &[(u64, &str)] =
    &[(0, "host-to-host"), (1, "host-to-device"), (2, "device-to-host"), (3, "device-to-device"), (4, "default")];
/// Names of [`Loss::cause`](super::Loss::cause).
pub const LOSS_CAUSES: &[(u64, &str)] = &[
    (0, "ring-full"),
    (1, "map-full"),
    (2, "recursion"),
    (3, "missed-uprobe"),
    (4, "backpressure"),
    (5, "disk-full"),
    (6, "tracepoint-gap"),
    (7, "source-lost"),
];

/// Names of [`Frame::language`](super::Frame::language).
pub const LANGUAGES: &[(u64, &str)] = &[(0, "native"), (1, "python")];
/// Names of [`DeviceActivity::activity`](super::DeviceActivity::activity).
pub const ACTIVITIES: &[(u64, &str)] = &[(0, "kernel"), (1, "memcpy"), (2, "memset"), (3, "sync"), (4, "other")];

/// [`Call::end`](super::Call::end) of a call that returned.
pub const END_RETURNED: u64 = 0;
/// [`Call::end`](super::Call::end) of a call still inside when the recording ended.
pub const END_OPEN: u64 = 1;
/// [`Call::end`](super::Call::end) of a call whose frame was left without a return (longjmp, exception).
pub const END_SKIPPED: u64 = 2;
/// [`Call::end`](super::Call::end) of a call whose thread ended inside it.
pub const END_THREAD_EXIT: u64 = 3;
/// [`Call::end`](super::Call::end) of a call whose entry was before the recording: `ts_ns` is the return.
pub const END_BEGAN_BEFORE: u64 = 4;

/// [`Name::source`](super::Name::source): there when the recording began.
pub const NAMED_AT_START: u64 = 0;
/// [`Name::source`](super::Name::source): from its birth.
pub const NAMED_BY_FORK: u64 = 1;
/// [`Name::source`](super::Name::source): from the program it runs.
pub const NAMED_BY_EXEC: u64 = 2;
/// [`Name::source`](super::Name::source): it was renamed.
pub const NAMED_BY_RENAME: u64 = 3;
/// [`Name::source`](super::Name::source): met later, its birth was not seen.
pub const NAMED_WHEN_SEEN: u64 = 4;

/// [`Loss::cause`](super::Loss::cause): no room in a ring.
pub const LOST_RING_FULL: u64 = 0;
/// [`Loss::cause`](super::Loss::cause): no room in a map of the kernel side.
pub const LOST_MAP_FULL: u64 = 1;
/// [`Loss::cause`](super::Loss::cause): a probe interrupted itself.
pub const LOST_RECURSION: u64 = 2;
/// [`Loss::cause`](super::Loss::cause): the disk is full.
pub const LOST_DISK_FULL: u64 = 5;
/// [`Loss::cause`](super::Loss::cause): a source ended before the recording.
pub const LOST_SOURCE: u64 = 7;

/// Name of a loss's cause.
#[must_use]
pub fn loss_cause_name(cause: u64) -> &'static str {
    LOSS_CAUSES.iter().find(|(number, _)| *number == cause).map_or("unknown", |(_, name)| name)
}

/// An interrupt that woke nobody is recorded from this length on.
pub const LONG_INTERRUPT_NS: u64 = 50_000;
/// Longest text of a mark or a range.
pub const MARK_BYTES: usize = 128;

/// Names of [`Waking::source`](super::Waking::source).
pub const WAKE_SOURCES: &[(u64, &str)] = &[(0, "timer"), (1, "device"), (2, "other")];
/// [`Waking::source`](super::Waking::source): a timer ran out.
pub const WOKEN_BY_TIMER: u64 = 0;
/// [`Waking::source`](super::Waking::source): a device, or the softirq that does the rest of its work.
pub const WOKEN_BY_DEVICE: u64 = 1;
/// [`Waking::source`](super::Waking::source): another kind of interrupt.
pub const WOKEN_BY_OTHER: u64 = 2;
/// Names of [`Softirq::vector`](super::Softirq::vector), the kernel's numbers.
pub const SOFTIRQS: &[(u64, &str)] = &[
    (0, "hi"),
    (1, "timer"),
    (2, "net-tx"),
    (3, "net-rx"),
    (4, "block"),
    (5, "irq-poll"),
    (6, "tasklet"),
    (7, "sched"),
    (8, "hrtimer"),
    (9, "rcu"),
];
/// Names of [`Affinity::source`](super::Affinity::source).
pub const AFFINITY_SOURCES: &[(u64, &str)] = &[(0, "start"), (1, "set"), (2, "seen")];
/// [`Affinity::source`](super::Affinity::source): as it was when the recording began.
pub const BOUND_AT_START: u64 = 0;
/// [`Affinity::source`](super::Affinity::source): set at this moment.
pub const BOUND_BY_CALL: u64 = 1;
/// [`Affinity::source`](super::Affinity::source): found changed by looking.
pub const BOUND_WHEN_SEEN: u64 = 2;
/// Names of [`Retransmit::state`](super::Retransmit::state), the kernel's numbers.
pub const TCP_STATES: &[(u64, &str)] = &[
    (1, "established"),
    (2, "syn-sent"),
    (3, "syn-recv"),
    (4, "fin-wait-1"),
    (5, "fin-wait-2"),
    (6, "time-wait"),
    (7, "close"),
    (8, "close-wait"),
    (9, "last-ack"),
    (10, "listen"),
    (11, "closing"),
    (12, "new-syn-recv"),
];
/// Names of [`SocketIo::direction`](super::SocketIo::direction).
pub const SOCKET_DIRECTIONS: &[(u64, &str)] = &[(0, "send"), (1, "receive")];
/// Names of [`SocketIo::family`](super::SocketIo::family), the kernel's numbers.
pub const SOCKET_FAMILIES: &[(u64, &str)] =
    &[(1, "unix"), (2, "inet"), (10, "inet6"), (16, "netlink"), (17, "packet"), (38, "alg"), (40, "vsock")];
/// Names of [`Collective::datatype`](super::Collective::datatype), the numbers of `ncclDataType_t`.
pub const NCCL_TYPES: &[(u64, &str)] = &[
    (0, "int8"),
    (1, "uint8"),
    (2, "int32"),
    (3, "uint32"),
    (4, "int64"),
    (5, "uint64"),
    (6, "float16"),
    (7, "float32"),
    (8, "float64"),
    (9, "bfloat16"),
    (10, "float8e4m3"),
    (11, "float8e5m2"),
];
/// Bytes of an element of an `ncclDataType_t`.
#[must_use]
pub fn nccl_type_bytes(datatype: u64) -> Option<u64> {
    match datatype {
        0 | 1 | 10 | 11 => Some(1),
        6 | 9 => Some(2),
        2 | 3 | 7 => Some(4),
        4 | 5 | 8 => Some(8),
        _ => None,
    }
}
/// Names of [`Collective::op`](super::Collective::op), the numbers of `ncclRedOp_t`.
pub const NCCL_OPS: &[(u64, &str)] = &[(0, "sum"), (1, "prod"), (2, "max"), (3, "min"), (4, "avg")];
/// Names of [`Range::form`](super::Range::form).
pub const RANGE_FORMS: &[(u64, &str)] = &[(0, "push-pop"), (1, "start-end")];
/// [`Range::form`](super::Range::form): nested in its thread.
pub const RANGE_PUSHED: u64 = 0;
/// [`Range::form`](super::Range::form): may overlap others and end on another thread.
pub const RANGE_STARTED: u64 = 1;
/// Names of [`Mark::source`](super::Mark::source).
pub const MARK_SOURCES: &[(u64, &str)] = &[(0, "file"), (1, "nvtx")];
/// [`Mark::source`](super::Mark::source): a line in the file that `INGERO_MARKS` names.
pub const MARKED_IN_FILE: u64 = 0;
/// [`Mark::source`](super::Mark::source): an NVTX mark.
pub const MARKED_BY_NVTX: u64 = 1;
/// Names of [`Pressure::resource`](super::Pressure::resource).
pub const PRESSURES: &[(u64, &str)] = &[(0, "cpu"), (1, "memory"), (2, "io"), (3, "irq")];
