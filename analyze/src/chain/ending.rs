//! What a chain of waits ends in where no thread is left to follow.

use ingero_format::catalog::{WOKEN_BY_DEVICE, WOKEN_BY_TIMER};
use ingero_replay::Waker;

/// The number of a wake's context for a softirq.
pub(crate) const SOFTIRQ: u64 = 1;
/// The kernel's numbers of softirqs: of what is sent and received, and of block I/O that is done.
const NET_TX: u64 = 2;
pub(crate) const NET_RX: u64 = 3;
pub(crate) const BLOCK: u64 = 4;
const IRQ_POLL: u64 = 5;
const TASKLET: u64 = 6;

/// Whether a disk's driver may complete requests in this softirq: a remote one's does in those of the network.
pub(crate) fn is_disks_softirq(vector: u64) -> bool {
    [NET_TX, NET_RX, BLOCK, IRQ_POLL, TASKLET].contains(&vector)
}

/// The last link of a chain: what a thread waited for that no other thread did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ending {
    /// A sleep that the thread asked for (nanosleep and its kin).
    Sleep,
    /// A timed wait of about 5 ms that ran out: the interval after which `CPython` asks the thread that holds its
    /// interpreter lock to hand it over.
    LockInterval,
    /// A timed wait of 5 s that ran out: the interval at which `PyTorch` looks whether its workers are alive.
    StatusCheck,
    /// Another timed wait that ran out.
    Timeout,
    /// A disk, a page that is read in.
    Disk,
    /// A socket.
    Network,
    /// A device, asked by ioctl.
    Device,
    /// An interrupt of which the trace does not tell whose it was, or another one's.
    Interrupt,
    /// The trace does not tell who woke the thread.
    UnknownWaker,
    /// The wait was not over when the trace, or what is remembered of it, ended.
    Edge,
    /// The trace lost sight of the thread.
    Unseen,
}

impl Ending {
    /// How many there are.
    pub const COUNT: usize = 11;
    /// All of them.
    pub const ALL: [Ending; Self::COUNT] = [
        Self::Sleep,
        Self::LockInterval,
        Self::StatusCheck,
        Self::Timeout,
        Self::Disk,
        Self::Network,
        Self::Device,
        Self::Interrupt,
        Self::UnknownWaker,
        Self::Edge,
        Self::Unseen,
    ];

    /// Name in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sleep => "sleep",
            Self::LockInterval => "lock-interval",
            Self::StatusCheck => "status-check",
            Self::Timeout => "timeout",
            Self::Disk => "disk",
            Self::Network => "network",
            Self::Device => "device",
            Self::Interrupt => "interrupt",
            Self::UnknownWaker => "unknown-waker",
            Self::Edge => "edge",
            Self::Unseen => "unseen",
        }
    }

    /// Whether somebody else would have ended the wait, had it not run out first. A wait for an interpreter lock is no
    /// such one: that it runs out is how the lock is asked for.
    pub(crate) fn is_timed_out(self) -> bool {
        matches!(self, Self::StatusCheck | Self::Timeout)
    }

    /// Whether a thread that waits so is at work for whoever waits for it.
    pub(crate) fn is_work(self) -> bool {
        matches!(self, Self::Disk | Self::Network | Self::Device | Self::Sleep)
    }

    /// Words for `a wait of 3 s …`, where it is one wait alone.
    #[must_use]
    pub fn words_of_one(self) -> &'static str {
        match self {
            Self::LockInterval => "in a 5 ms wait for an interpreter lock",
            Self::StatusCheck => "in a 5 s wait that looks after workers",
            _ => self.words(),
        }
    }

    /// Words for `waited 3 s …`.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Sleep => "in a sleep of its own",
            Self::LockInterval => "in 5 ms waits for an interpreter lock",
            Self::StatusCheck => "in 5 s waits that look after workers",
            Self::Timeout => "until a timed wait ran out",
            Self::Disk => "for disk",
            Self::Network => "for the network",
            Self::Device => "for a device",
            Self::Interrupt => "for an interrupt",
            Self::UnknownWaker => "for something that the trace does not show",
            Self::Edge => "for something outside of the trace",
            Self::Unseen => "out of sight of the trace",
        }
    }
}

/// How a thread came to wait, as its switch-out tells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Manner {
    /// Number of the system call.
    pub(crate) syscall: Option<u16>,
    /// Whether no signal could have ended it (state D).
    pub(crate) uninterruptible: bool,
}

/// What system calls wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    Sleep,
    /// futex: with a time limit, perhaps.
    Lock,
    /// poll, select: for sockets and the like, with a time limit, perhaps.
    Limited,
    Socket,
    Device,
}

/// The system calls of one machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Machine {
    X86,
    Arm,
    Other,
}

impl Machine {
    pub(crate) fn of(name: Option<&str>) -> Self {
        match name {
            Some("x86_64") | None => Self::X86,
            Some("aarch64") => Self::Arm,
            Some(_) => Self::Other,
        }
    }

    fn call(self, number: u16) -> Option<Call> {
        // Numbers of the kernels' syscall tables, which never change.
        Some(match (self, number) {
            // nanosleep, clock_nanosleep, pause
            (Self::X86, 34 | 35 | 230) | (Self::Arm, 101 | 115) => Call::Sleep,
            // futex
            (Self::X86, 202) | (Self::Arm, 98) => Call::Lock,
            // poll, select, epoll_wait, pselect6, ppoll, epoll_pwait, rt_sigtimedwait
            (Self::X86, 7 | 23 | 128 | 232 | 270 | 271 | 281) | (Self::Arm, 22 | 72 | 73 | 137) => Call::Limited,
            // connect, accept, sendto, recvfrom, sendmsg, recvmsg, accept4, recvmmsg
            (Self::X86, 42..=47 | 288 | 299) | (Self::Arm, 202 | 203 | 206 | 207 | 211 | 212 | 242 | 243) => {
                Call::Socket
            }
            // ioctl
            (Self::X86, 16) | (Self::Arm, 29) => Call::Device,
            _ => return None,
        })
    }

    /// Whether one may wait for a disk like this: not to be interrupted, but for who waits for the results of many requests.
    pub(crate) fn waits_for_disks(self, manner: Manner) -> bool {
        // io_getevents, io_pgetevents, io_uring_enter
        let results =
            matches!((self, manner.syscall), (Self::X86, Some(208 | 333 | 426)) | (Self::Arm, Some(4 | 292 | 426)));
        manner.uninterruptible || results
    }

    /// What a wait was for that no thread ended. `waited_ns` is its whole length; `sees_disks` is whether the trace tells when
    /// block I/O was done.
    pub(crate) fn ending(self, waker: Waker, manner: Manner, waited_ns: u64, sees_disks: bool) -> Ending {
        const LOCK_INTERVAL_NS: std::ops::RangeInclusive<u64> = 4_500_000..=5_600_000;
        const STATUS_CHECK_NS: std::ops::RangeInclusive<u64> = 4_995_000_000..=5_050_000_000;
        let Waker::Interrupt { context, source, irq } = waker else { return Ending::UnknownWaker };
        let call = manner.syscall.and_then(|n| self.call(n));
        let timed = match waited_ns {
            n if LOCK_INTERVAL_NS.contains(&n) => Ending::LockInterval,
            n if STATUS_CHECK_NS.contains(&n) => Ending::StatusCheck,
            _ => Ending::Timeout,
        };
        let by_timer = source.is_none_or(|s| s == WOKEN_BY_TIMER);
        let vector = irq.filter(|_| context == SOFTIRQ);
        match call {
            Some(Call::Sleep) => Ending::Sleep,
            _ if source == Some(WOKEN_BY_TIMER) => timed,
            // Two softirqs tell whose they are.
            _ if vector.is_some_and(|v| v == BLOCK || v == IRQ_POLL) => Ending::Disk,
            _ if vector.is_some_and(|v| v == NET_RX || v == NET_TX) => Ending::Network,
            // What reads a file, or a page of one, waits like this, and the disk's interrupt wakes it: but one that is known
            // to be no device's is none, and where the trace tells when block I/O was done, there would have been some.
            _ if manner.uninterruptible && source.is_none_or(|s| s == WOKEN_BY_DEVICE) && !sees_disks => Ending::Disk,
            _ if manner.uninterruptible => Ending::Interrupt,
            Some(Call::Device) => Ending::Device,
            Some(Call::Socket) => Ending::Network,
            // Packets are handed over in a softirq, timers of a thread run out in a hard interrupt.
            Some(Call::Limited) if context == SOFTIRQ && source.is_none() => Ending::Network,
            Some(Call::Limited | Call::Lock) if by_timer => timed,
            // Where the system call is not known its length still tells these two.
            None if by_timer && timed != Ending::Timeout && manner.syscall.is_none() => timed,
            // A read that a signal could have ended is one of a pipe, a socket or a terminal: which, nothing tells.
            Some(Call::Limited | Call::Lock) | None => Ending::Interrupt,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_told_by_its_call_and_its_length() {
        let irq = |context| Waker::Interrupt { context, source: None, irq: None };
        let manner = |syscall| Manner { syscall, uninterruptible: false };
        let ending = |syscall, waker, ns| Machine::X86.ending(waker, manner(syscall), ns, false);
        assert_eq!(ending(Some(230), irq(2), 50_000_000), Ending::Sleep);
        assert_eq!(ending(Some(202), irq(2), 5_060_000), Ending::LockInterval);
        assert_eq!(ending(Some(202), irq(2), 7_000_000), Ending::Timeout);
        assert_eq!(ending(Some(7), irq(2), 5_000_060_000), Ending::StatusCheck);
        assert_eq!(ending(Some(232), irq(1), 7_000_000), Ending::Network);
        assert_eq!(ending(Some(16), irq(1), 7_000_000), Ending::Device);
        assert_eq!(ending(None, irq(1), 7_000_000), Ending::Interrupt);
        assert_eq!(ending(None, irq(2), 5_000_000), Ending::LockInterval);
        assert_eq!(ending(Some(202), Waker::Unknown, 5_000_000), Ending::UnknownWaker);
        let timer = Waker::Interrupt { context: 2, source: Some(WOKEN_BY_TIMER), irq: None };
        assert_eq!(ending(Some(0), timer, 7_000_000), Ending::Timeout);
        let device = Waker::Interrupt { context: 2, source: Some(1), irq: None };
        assert_eq!(ending(Some(202), device, 5_000_000), Ending::Interrupt);
        let page = Manner { syscall: None, uninterruptible: true };
        assert_eq!(Machine::Arm.ending(irq(2), Manner { syscall: Some(115), ..page }, 100, false), Ending::Sleep);
    }

    #[test]
    fn a_disk_is_told_from_the_network_and_from_what_nobody_knows() {
        let softirq = |vector| Waker::Interrupt { context: SOFTIRQ, source: Some(WOKEN_BY_DEVICE), irq: Some(vector) };
        let of = |waker, uninterruptible, sees_disks| {
            Machine::X86.ending(waker, Manner { syscall: Some(0), uninterruptible }, 7_000_000, sees_disks)
        };
        for uninterruptible in [false, true] {
            assert_eq!(of(softirq(BLOCK), uninterruptible, true), Ending::Disk);
            assert_eq!(of(softirq(NET_RX), uninterruptible, true), Ending::Network);
        }
        // The line of a hard interrupt with the number of a softirq is that of any device.
        let line = Waker::Interrupt { context: 2, source: Some(WOKEN_BY_DEVICE), irq: Some(BLOCK) };
        assert_eq!(of(line, false, false), Ending::Interrupt);
        assert_eq!(of(line, true, false), Ending::Disk);
        assert_eq!(of(line, true, true), Ending::Interrupt);
        // The grace period of RCU, for one, that a program waits for as it would for a disk.
        let other = Waker::Interrupt { context: SOFTIRQ, source: Some(2), irq: Some(9) };
        assert_eq!(of(other, true, false), Ending::Interrupt);
        let unknown = Waker::Interrupt { context: SOFTIRQ, source: None, irq: None };
        assert_eq!(of(unknown, true, false), Ending::Disk);
        assert_eq!(of(unknown, false, false), Ending::Interrupt);
    }
}
