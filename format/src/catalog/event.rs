//! The table of event kinds: one row here is all that the writer, the reader, the schema in the
//! file, `dump`, and the table converters need to know of a kind.
//!
//! Every kind has two columns that the table does not repeat: `ts_ns` (id 0, `CLOCK_MONOTONIC`
//! nanoseconds) and `cpu` (id 1). Column ids are never reused: a column that goes leaves a hole.

use super::word::{FuncId, StrId, TaskId, Word};

/// What the numbers of a column are. Stored in the file's schema by its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A point on `CLOCK_MONOTONIC`, nanoseconds.
    TimeNs,
    /// A length of time, nanoseconds.
    DurationNs,
    /// A processor number.
    Cpu,
    /// A [`TaskId`].
    Task,
    /// A [`StrId`].
    Str,
    /// A [`FuncId`].
    Func,
    /// A plain number.
    Number,
    /// A plain number that may be negative, zigzag coded.
    Signed,
    /// A size in bytes.
    Bytes,
    /// An address or a handle.
    Address,
    /// One of a few named values; the names are in the schema.
    Enum(&'static [(u64, &'static str)]),
    /// A set of bits.
    Flags,
}

impl Unit {
    /// The code of the unit in the file's schema.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Unit::TimeNs => 1,
            Unit::DurationNs => 2,
            Unit::Cpu => 3,
            Unit::Task => 4,
            Unit::Str => 5,
            Unit::Func => 6,
            Unit::Number => 7,
            Unit::Signed => 8,
            Unit::Bytes => 9,
            Unit::Address => 10,
            Unit::Enum(_) => 11,
            Unit::Flags => 12,
        }
    }

    /// The named values of an enumeration, empty for every other unit.
    #[must_use]
    pub fn names(self) -> &'static [(u64, &'static str)] {
        match self {
            Unit::Enum(names) => names,
            _ => &[],
        }
    }
}

/// What the writer may expect of a column's values. It decides speed and size, never meaning: each
/// encoded column says in its block how it was encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Few distinct values in a block.
    Few,
    /// Values without a pattern.
    Plain,
    /// Close to the value of the row before.
    Near,
    /// Never falls within the rows of one CPU.
    Rising,
    /// Sorted, in long runs.
    Runs,
    /// Equal to what another column (by id) held in the row before on the same CPU.
    Follows(u8),
    /// Often what this column held in the last row with the same words in one or two other columns
    /// (by id; 0 for no second one).
    Recalls(u8, u8),
}

/// One column of an event kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Number of the column within its kind; never reused.
    pub id: u8,
    /// Name in the schema and in every table that is made of it.
    pub name: &'static str,
    /// What the numbers are.
    pub unit: Unit,
    /// Whether [`super::NULL`] may stand for "not known".
    pub nullable: bool,
    /// What the writer may expect.
    pub shape: Shape,
    /// Meaning, in one or two sentences.
    pub doc: &'static str,
}

/// The description of one event kind.
#[derive(Debug, PartialEq, Eq)]
pub struct EventKind {
    /// Number in the file; never reused.
    pub kind: Kind,
    /// Name in the schema.
    pub name: &'static str,
    /// Meaning, in one or two sentences.
    pub doc: &'static str,
    /// All columns, `ts_ns` and `cpu` first, in order of their ids.
    pub columns: &'static [Column],
}

/// A typed event: the fields of one row without `ts_ns` and `cpu`.
pub trait Event: Copy {
    /// The kind that the fields belong to.
    const KIND: Kind;
    /// Columns of the kind, `ts_ns` and `cpu` included.
    const WIDTH: usize;
    /// The words of a row.
    type Row: AsRef<[u64]>;
    /// The words of all columns in their order.
    fn row(&self, ts_ns: u64, cpu: u32) -> Self::Row;
    /// The typed fields of a row: `word(i)` gives the word of the kind's ith column, `ts_ns` being
    /// the 0th and `cpu` the 1st.
    fn gather(word: impl FnMut(usize) -> u64) -> Self;
}

/// Id of the column `ts_ns` in every kind.
pub const TS: u8 = 0;
/// Id of the column `cpu` in every kind.
pub const CPU: u8 = 1;
/// The CPU of events that belong to none.
pub const NO_CPU: u32 = 0xffff;

macro_rules! events {
    ($(
        $(#[doc = $doc:literal])*
        $id:literal $kind:ident $name:literal {$(
            $(#[doc = $cdoc:literal])*
            $cid:literal $col:ident: $ty:ty = $unit:expr, $shape:expr;
        )*}
    )*) => {
        /// The number of an event kind.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u16)]
        pub enum Kind {
            $($(#[doc = $doc])* $kind = $id,)*
        }

        impl Kind {
            /// The kind with this number, if this version knows it.
            #[must_use]
            pub fn from_number(number: u16) -> Option<Kind> {
                match number {
                    $($id => Some(Kind::$kind),)*
                    _ => None,
                }
            }
        }

        /// Every event kind of this version, by rising number.
        pub const EVENTS: &[EventKind] = &[$(EventKind {
            kind: Kind::$kind,
            name: $name,
            doc: concat!($($doc, "\n",)*),
            columns: &[
                Column { id: TS, name: "ts_ns", unit: Unit::TimeNs, nullable: false, shape: Shape::Rising,
                    doc: " CLOCK_MONOTONIC time of the event.\n" },
                Column { id: CPU, name: "cpu", unit: Unit::Cpu, nullable: false, shape: Shape::Runs,
                    doc: " CPU on which the event was recorded; 65535 where it belongs to none.\n" },
                $(Column { id: $cid, name: stringify!($col), unit: $unit, nullable: <$ty as Nullable>::NULLABLE,
                    shape: $shape, doc: concat!($($cdoc, "\n",)*) },)*
            ],
        },)*];

        $(
            $(#[doc = $doc])*
            #[derive(Debug, Clone, Copy, PartialEq, Eq)]
            pub struct $kind {
                $($(#[doc = $cdoc])* pub $col: $ty,)*
            }

            impl Event for $kind {
                const KIND: Kind = Kind::$kind;
                const WIDTH: usize = 2 $(+ { let _ = $cid; 1 })*;
                type Row = [u64; Self::WIDTH];
                #[inline]
                fn row(&self, ts_ns: u64, cpu: u32) -> Self::Row {
                    [ts_ns, u64::from(cpu), $(self.$col.to_word(),)*]
                }
                fn gather(mut word: impl FnMut(usize) -> u64) -> Self {
                    let mut at = 1;
                    Self { $($col: { at += 1; Word::from_word(word(at)) },)* }
                }
            }
        )*

        /// The fields of an event of any kind.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Body {
            $($(#[doc = $doc])* $kind($kind),)*
        }

        impl Body {
            /// The fields of a row of `kind`; see [`Event::gather`].
            pub fn gather(kind: Kind, word: impl FnMut(usize) -> u64) -> Body {
                match kind {
                    $(Kind::$kind => Body::$kind($kind::gather(word)),)*
                }
            }

            pub(crate) fn push_to<W: std::io::Write>(
                &self,
                writer: &mut crate::TraceWriter<W>,
                ts_ns: u64,
                cpu: u32,
            ) -> Result<(), crate::Error> {
                match self {
                    $(Body::$kind(fields) => writer.push(ts_ns, cpu, fields),)*
                }
            }

            /// The kind of the event.
            #[must_use]
            pub fn kind(&self) -> Kind {
                match self {
                    $(Body::$kind(_) => Kind::$kind,)*
                }
            }
        }
    };
}

/// Whether a field type has a "not known".
trait Nullable {
    const NULLABLE: bool;
}
macro_rules! nullable {
    ($($ty:ty)*) => {$(
        impl Nullable for $ty { const NULLABLE: bool = false; }
        impl Nullable for Option<$ty> { const NULLABLE: bool = true; }
    )*};
}
nullable! { u64 u32 i64 TaskId StrId FuncId }

/// Names of [`Waking::context`].
pub const CONTEXTS: &[(u64, &str)] = &[(0, "task"), (1, "softirq"), (2, "hardirq"), (3, "nmi")];
/// Names of [`Name::source`].
pub const NAME_SOURCES: &[(u64, &str)] = &[(0, "start"), (1, "fork"), (2, "exec"), (3, "rename"), (4, "seen")];
/// Names of [`Call::end`].
pub const CALL_ENDS: &[(u64, &str)] =
    &[(0, "returned"), (1, "open"), (2, "skipped"), (3, "thread-exit"), (4, "began-before")];
/// Names of [`Call::copy`], the numbers of `cudaMemcpyKind`.
pub const COPY_KINDS: &[(u64, &str)] =
    &[(0, "host-to-host"), (1, "host-to-device"), (2, "device-to-host"), (3, "device-to-device"), (4, "default")];
/// Names of [`Loss::cause`].
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

/// [`Call::end`] of a call that returned.
pub const END_RETURNED: u64 = 0;
/// [`Call::end`] of a call still inside when the recording ended.
pub const END_OPEN: u64 = 1;
/// [`Call::end`] of a call whose frame was left without a return (longjmp, exception).
pub const END_SKIPPED: u64 = 2;
/// [`Call::end`] of a call whose thread ended inside it.
pub const END_THREAD_EXIT: u64 = 3;
/// [`Call::end`] of a call whose entry was before the recording: `ts_ns` is the return.
pub const END_BEGAN_BEFORE: u64 = 4;

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
    /// State of the whole machine, once a second. CPU times are totals since boot over all CPUs.
    14 System "system" {
        /// Time in user space, nice included.
        2 user_ns: u64 = Unit::DurationNs, Shape::Near;
        /// Time in the kernel, interrupts included.
        3 system_ns: u64 = Unit::DurationNs, Shape::Near;
        /// Idle time.
        4 idle_ns: u64 = Unit::DurationNs, Shape::Near;
        /// Idle time with a disk request under way.
        5 iowait_ns: u64 = Unit::DurationNs, Shape::Near;
        /// Time that a hypervisor took.
        6 steal_ns: u64 = Unit::DurationNs, Shape::Near;
        /// Memory installed.
        7 mem_total_bytes: u64 = Unit::Bytes, Shape::Near;
        /// Memory that could be had without swapping.
        8 mem_available_bytes: u64 = Unit::Bytes, Shape::Near;
        /// Swap space.
        9 swap_total_bytes: u64 = Unit::Bytes, Shape::Near;
        /// Swap space in use.
        10 swap_used_bytes: u64 = Unit::Bytes, Shape::Near;
        /// Load average over one minute, thousandths.
        11 load1_milli: u64 = Unit::Number, Shape::Near;
        /// Load average over five minutes, thousandths.
        12 load5_milli: u64 = Unit::Number, Shape::Near;
        /// Load average over fifteen minutes, thousandths.
        13 load15_milli: u64 = Unit::Number, Shape::Near;
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
}

/// The description of a kind.
#[must_use]
pub fn event_kind(kind: Kind) -> &'static EventKind {
    // Every kind has its row by construction; the first row stands in for a miss that cannot be.
    EVENTS.iter().find(|e| e.kind == kind).unwrap_or(&EVENTS[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_sound() {
        for (i, e) in EVENTS.iter().enumerate() {
            assert_eq!(event_kind(e.kind).name, e.name);
            assert_eq!(Kind::from_number(e.kind as u16), Some(e.kind));
            assert!(EVENTS[..i].iter().all(|o| o.name != e.name && o.kind < e.kind));
            for (j, c) in e.columns.iter().enumerate() {
                assert!(e.columns[..j].iter().all(|o| o.id < c.id && o.name != c.name), "{}.{}", e.name, c.name);
                assert!(!c.doc.trim().is_empty(), "{}.{}", e.name, c.name);
                let sources = match c.shape {
                    Shape::Follows(id) => vec![id],
                    Shape::Recalls(a, b) => vec![a, b],
                    _ => vec![],
                };
                // No column depends on itself, over however many others.
                assert!(sources.iter().all(|&id| id == 0 || id > CPU && id != c.id));
                assert!(sources.iter().all(|&id| id == 0 || e.columns.iter().any(|o| o.id == id)));
            }
        }
    }

    /// Files depend on these numbers. A change here breaks every recording ever made.
    #[test]
    fn kind_numbers_never_change() {
        let numbers: Vec<_> = EVENTS.iter().map(|e| (e.kind as u16, e.name)).collect();
        assert_eq!(
            numbers,
            [
                (1, "sched_switch"),
                (2, "sched_waking"),
                (3, "sched_wakeup"),
                (4, "sched_wakeup_new"),
                (5, "sched_process_fork"),
                (6, "sched_process_exec"),
                (7, "sched_process_exit"),
                (8, "mm_page_alloc"),
                (9, "call"),
                (10, "task_name"),
                (11, "process"),
                (12, "loss"),
                (13, "clock"),
                (14, "system"),
                (15, "block_rq_issue"),
                (16, "block_rq_complete"),
            ]
        );
    }

    #[test]
    fn rows_round_trip() {
        let call = Call {
            task: TaskId(3),
            func: FuncId(7),
            dur_ns: Some(12),
            end: END_RETURNED,
            result: Some(-2),
            ptr: Some(0x7f00),
            ptr2: None,
            bytes: Some(4096),
            copy: Some(1),
            stream: Some(2),
        };
        let row = call.row(1, 0);
        assert_eq!(row.len(), Call::WIDTH);
        assert_eq!(Call::gather(|i| row[i]), call);
        assert_eq!(Body::gather(Kind::Call, |i| row[i]), Body::Call(call));
    }
}
