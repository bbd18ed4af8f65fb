//! The kinds of ring records: the one list from which the recorder makes its own types.

/// Hands the list of kinds to another macro, as `fixed: [number Variant(Struct) "event", …]; own: […]`.
///
/// A `fixed` record is its struct and nothing else; the `own` ones are longer, or have something behind them. The name is
/// that of the event kind that is lost when such a record is.
#[macro_export]
macro_rules! with_kinds {
    ($then:ident) => {
        $then! {
            fixed: [
                0 Switch(Switch) "sched_switch",
                1 Waking(Waking) "sched_waking",
                2 Wakeup(Wakeup) "sched_wakeup",
                3 WakeupNew(Wakeup) "sched_wakeup_new",
                4 Fork(Fork) "sched_process_fork",
                6 Exit(Exit) "sched_process_exit",
                7 Rename(Rename) "task_name",
                8 PageAlloc(PageAlloc) "mm_page_alloc",
                9 Mapped(Mapped) "mapping",
                12 Irq(Irq) "irq",
                13 Softirq(Softirq) "softirq",
                14 BlockIssue(BlockIssue) "block_rq_issue",
                15 BlockComplete(BlockComplete) "block_rq_complete",
                16 PageFault(PageFault) "page_fault_user",
                17 Reclaim(Reclaim) "direct_reclaim",
                18 OomKill(OomKill) "oom_kill",
                19 Affinity(Affinity) "task_affinity",
                20 CpuFrequency(CpuFrequency) "cpu_frequency",
                21 Retransmit(Retransmit) "tcp_retransmit",
                22 SocketIo(SocketIo) "socket",
            ];
            own: [
                5 Exec(Exec) "sched_process_exec",
                10 CallEntry(CallEntry) "call",
                11 CallReturn(CallReturn) "call",
                23 CallText(CallText) "range",
            ];
        }
    };
}

macro_rules! define {
    (
        fixed: [$($number:literal $kind:ident($record:ident) $name:literal,)*];
        own: [$($own_number:literal $own_kind:ident($own_record:ident) $own_name:literal,)*];
    ) => {
        /// What a record is. The number also indexes the loss counters.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Kind {
            $(#[doc = concat!("[`", stringify!($record), "`](crate::", stringify!($record), ")")] $kind = $number,)*
            $(#[doc = concat!("[`", stringify!($own_record), "`](crate::", stringify!($own_record), ")")]
              $own_kind = $own_number,)*
        }

        impl Kind {
            /// How many there are; they are numbered from 0.
            pub const COUNT: usize = [$($number,)* $($own_number,)*].len();

            /// The kind with this number, if there is one.
            pub fn from_wire(kind: u8) -> Option<Self> {
                match kind {
                    $($number => Some(Self::$kind),)*
                    $($own_number => Some(Self::$own_kind),)*
                    _ => None,
                }
            }

            /// Name of the event kind that is lost when such a record is, as in the file's schema.
            pub fn event(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                    $(Self::$own_kind => $own_name,)*
                }
            }

            /// All kinds, by number.
            pub fn all() -> impl Iterator<Item = Self> {
                (0..Self::COUNT as u8).filter_map(Self::from_wire)
            }
        }
    };
}
with_kinds!(define);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_numbered_without_a_gap() {
        assert_eq!(Kind::all().count(), Kind::COUNT);
        assert!(Kind::all().enumerate().all(|(number, kind)| kind as usize == number));
        assert_eq!(Kind::from_wire(Kind::COUNT as u8), None);
    }
}
