//! The state in which a thread left its CPU, as the `sched_switch` tracepoint prints it.

/// Bits that the tracepoint shows (`TASK_REPORT`).
const REPORT: u32 = 0x7f;
/// `TASK_DEAD`: the thread's last switch; whether a zombie stays behind is in another field of the kernel.
const DEAD: u32 = 0x80;
/// `TASK_IDLE`: uninterruptible, yet not counted into the load.
const IDLE: u32 = 0x402;
/// `TASK_RTLOCK_WAIT`: shown as uninterruptible.
const RTLOCK_WAIT: u32 = 0x1000;
const UNINTERRUPTIBLE: u64 = 2;
const SHOWN_DEAD: u64 = 0x10;
const SHOWN_ZOMBIE: u64 = 0x20;
const SHOWN_IDLE: u64 = 0x80;
const SHOWN_PREEMPTED: u64 = 0x100;

/// Turns the kernel's own state word into the tracepoint's encoding, which is what the file holds.
///
/// The two differ: 0x100 is `TASK_WAKEKILL` there and "preempted" here, 0x80 is "dead" there and "idle" here.
/// `leader`: the main thread of a process leaves a zombie, any other thread vanishes at once.
#[must_use]
pub fn traced_state(raw: u32, preempted: bool, leader: bool) -> u64 {
    if preempted {
        return SHOWN_PREEMPTED;
    }
    if raw & IDLE == IDLE {
        return SHOWN_IDLE;
    }
    if raw & RTLOCK_WAIT != 0 {
        return UNINTERRUPTIBLE;
    }
    match raw & REPORT {
        0 if raw & DEAD != 0 => {
            if leader {
                SHOWN_ZOMBIE
            } else {
                SHOWN_DEAD
            }
        }
        0 => 0,
        // The tracepoint shows the highest one alone.
        bits => 1 << bits.ilog2(),
    }
}

/// Whether a thread that left so never comes back.
#[must_use]
pub fn is_last(traced: u64) -> bool {
    matches!(traced, SHOWN_DEAD | SHOWN_ZOMBIE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_the_tracepoint_prints_it() {
        for (raw, traced, letter) in [
            (0, 0, "R"),
            (1, 1, "S"),
            (2, 2, "D"),
            (0x102, 2, "D, killable"),
            (0x104, 4, "T: stopped is wakekill too"),
            (0x108, 8, "t"),
            (0x40, 0x40, "P: parked"),
            (0x402, 0x80, "I"),
            (0x2001, 1, "S, freezable"),
            (0x1000, 2, "D: real-time lock"),
            (0x200, 0, "waking"),
        ] {
            assert_eq!(traced_state(raw, false, false), traced, "{letter}");
        }
        assert_eq!(traced_state(0, true, false), 0x100);
        assert_eq!(traced_state(0x80, false, true), 0x20);
        assert_eq!(traced_state(0x80, false, false), 0x10);
        assert!(is_last(0x10) && is_last(0x20) && !is_last(0x80) && !is_last(0x40));
    }
}
