//! Who ran, who waited, who woke whom.

use std::{
    collections::HashMap,
    io::{Read, Write},
    thread,
    time::Duration,
};

use ingero_record::kernel::{Options, SYSCALL_NONE, SYSCALL_UNRECORDED, Switch, Waking, context, switch_flag};

use crate::{
    puppet::spin,
    seen::{gettid, monotonic_ns, only_switches, record},
    turn,
};

/// A thread at work.
struct Worker {
    tid: u32,
    handle: thread::JoinHandle<(u64, u64)>,
}

impl Worker {
    fn start(work: impl FnOnce() + Send + 'static) -> Self {
        let (sender, receiver) = std::sync::mpsc::channel();
        let handle = thread::spawn(move || {
            sender.send(gettid()).unwrap();
            let begin = monotonic_ns();
            work();
            (begin, monotonic_ns())
        });
        Self { tid: receiver.recv().unwrap(), handle }
    }

    /// Returns as soon as it sleeps, however busy the machine is.
    fn wait_until_asleep(&self) {
        let stat = format!("/proc/self/task/{}/stat", self.tid);
        // The state follows the name, which is in parentheses.
        while !std::fs::read_to_string(&stat).unwrap().rsplit_once(')').unwrap().1.starts_with(" S") {
            thread::sleep(Duration::from_micros(200));
        }
    }

    /// Its id, and when the work began and ended.
    fn join(self) -> (u32, u64, u64) {
        let (begin, end) = self.handle.join().unwrap();
        (self.tid, begin, end)
    }
}

const ROUNDS: usize = 50;

fn wakers_are_told_from_interrupts(options: &Options) {
    let mut sleeper = (0, 0, 0);
    let mut reader = (0, 0, 0);
    let mut futex = (0, 0, 0);
    let seen = record(options, |kernel| {
        assert!(kernel.facts().interrupt_context);
        // Long enough to fall asleep before the timer expires, also on an emulated processor.
        sleeper = Worker::start(|| (0..ROUNDS).for_each(|_| thread::sleep(Duration::from_millis(5)))).join();

        let (mut read, mut write) = std::io::pipe().unwrap();
        let worker = Worker::start(move || read.read_exact(&mut [0; ROUNDS]).unwrap());
        for _ in 0..ROUNDS {
            worker.wait_until_asleep();
            write.write_all(&[1]).unwrap();
        }
        reader = worker.join();

        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let worker = Worker::start(move || receiver.iter().take(ROUNDS).for_each(drop));
        for _ in 0..ROUNDS {
            worker.wait_until_asleep();
            sender.send(()).unwrap();
        }
        futex = worker.join();
    });
    let wakings = |(tid, begin, end): (u32, u64, u64)| -> Vec<&Waking> {
        let inside = |waking: &&Waking| waking.wakee_tid == tid && (begin..end).contains(&waking.header.ts_ns);
        seen.wakings.iter().filter(inside).collect()
    };
    let timer = wakings(sleeper);
    // As below: how many there are is not what is tested. A timer that expires before its thread has gone to sleep wakes
    // nobody, and of some thirty runs one had two wakings fewer than sleeps.
    assert!(timer.len() >= ROUNDS / 2, "{}", timer.len());
    assert!(timer.iter().all(|waking| waking.header.flags & context::INTERRUPT != 0), "{timer:?}");
    for woken in [wakings(reader), wakings(futex)] {
        assert!(woken.len() >= ROUNDS / 2, "{}", woken.len());
        for waking in woken {
            assert_eq!((waking.header.flags, waking.header.tid), (0, gettid()), "{waking:?}");
            assert_eq!((waking.waker_tgid, waking.wakee_tgid), (std::process::id(), std::process::id()));
        }
    }
    assert!(seen.wakeups > 0);

    // What each of them waited in.
    let left_in = |(tid, begin, end): (u32, u64, u64)| -> HashMap<i32, usize> {
        let left = seen.switches.iter().filter(|switch| {
            switch.header.tid == tid && (begin..end).contains(&switch.header.ts_ns) && !switch.is_runnable()
        });
        left.fold(HashMap::new(), |mut calls, switch| {
            *calls.entry(switch.syscall).or_default() += 1;
            calls
        })
    };
    for (thread, syscall) in [(sleeper, libc::SYS_clock_nanosleep), (reader, libc::SYS_read), (futex, libc::SYS_futex)]
    {
        let calls = left_in(thread);
        assert!(calls.get(&(syscall as i32)).is_some_and(|count| *count >= ROUNDS / 2), "{syscall}: {calls:?}");
    }
    let of_kernel_threads = seen.switches.iter().filter(|switch| switch.prev_tgid == 2 || switch.header.tid == 0);
    assert!(of_kernel_threads.into_iter().all(|switch| switch.syscall < 0));
    assert!(seen.switches.iter().any(|switch| switch.syscall == SYSCALL_NONE), "some kernel thread slept");
}

#[test]
fn wakers_are_told_from_interrupts_by_the_preempt_count() {
    let _turn = turn();
    wakers_are_told_from_interrupts(&only_switches());
}

#[test]
fn wakers_are_told_from_interrupts_by_counting_them() {
    let _turn = turn();
    wakers_are_told_from_interrupts(&Options { count_interrupts: true, ..only_switches() });
}

fn pin_to_first_cpu() {
    // SAFETY: a set of plain bits, of the size that is passed.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(0, &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set), 0);
    }
}

#[test]
fn preemption_is_no_blocking() {
    let _turn = turn();
    let mut ran = [(0, 0, 0); 2];
    let seen = record(&only_switches(), |_| {
        let compete = || {
            pin_to_first_cpu();
            spin(Duration::from_millis(200));
        };
        ran = [Worker::start(compete), Worker::start(compete)].map(Worker::join);
    });
    let preempted: Vec<&Switch> = seen
        .switches
        .iter()
        .filter(|switch| {
            let during = |(tid, begin, end)| switch.header.tid == tid && (begin..end).contains(&switch.header.ts_ns);
            ran.into_iter().any(during) && switch.is_runnable()
        })
        .collect();
    assert!(preempted.len() >= 2, "{}", preempted.len());
    for switch in preempted {
        assert_eq!(switch.syscall, SYSCALL_UNRECORDED, "{switch:?}");
        assert_eq!((switch.blocking_syscall(), switch.header.flags & switch_flag::THROTTLED), (None, 0));
        assert!((100..140).contains(&switch.prev_prio), "{switch:?}");
    }
}
