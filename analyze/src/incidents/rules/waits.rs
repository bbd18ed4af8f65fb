//! Causes that show in how a wait ends.

use super::*;
use ingero_format::catalog::{BlockComplete, Retransmit, SocketIo, WOKEN_BY_DEVICE, WOKEN_BY_TIMER, Waking};

pub(super) fn waiting(state: u64, syscall: u64, context: u64) -> Found {
    Scene::new().steps(|s, at| s.waits(at, s.main, state, syscall, context)).found()
}

/// Waits in this state and call that an interrupt from this source ends, some with a completion right before that.
fn woken(state: u64, syscall: u64, by: (u64, u64, u64), completes: impl Fn(u64) -> bool) -> Found {
    let mut scene = Scene::new();
    let rwbs = scene.f.writer().string("R");
    let mut step = 0;
    let (context, source, irq) = (Some(by.0), Some(by.1), Some(by.2));
    let scene = scene.steps(move |s, at| {
        let done_ns = at + 18 * MS - 1_000;
        s.out(at, 0, s.main, state, syscall, IDLE);
        if completes(step) {
            s.f.push(done_ns - 5_000, 0, BlockComplete { dev: 1, sector: 8, bytes: 4096, rwbs, error: 0 });
        }
        s.f.push(done_ns, 0, Waking { waker: IDLE, wakee: s.main, target_cpu: 0, context, source, irq });
        s.f.switch(at + 18 * MS, 0, IDLE, 0, s.main);
        step += 1;
    });
    scene.found()
}

/// Waits that cannot be interrupted and that a hard interrupt of a device ends.
fn reading(completes: impl Fn(u64) -> bool) -> Found {
    woken(D, READ, (HARDIRQ, WOKEN_BY_DEVICE, 39), completes)
}

#[test]
fn what_ends_beside_the_requests_of_others_is_for_no_disk() {
    let is_disks = |state, syscall, by| has(&woken(state, syscall, by, |_| true), "block-io");
    let (net, timer_softirq) = ((SOFTIRQ, WOKEN_BY_DEVICE, 3), (SOFTIRQ, WOKEN_BY_DEVICE, 1));
    let device = (HARDIRQ, WOKEN_BY_DEVICE, 39);
    // A timed wait that ran out, one for a packet, and one for another device, while somebody else keeps the disk busy.
    assert!(!is_disks(S, POLL, (HARDIRQ, WOKEN_BY_TIMER, 39)));
    assert!(!is_disks(D, READ, (HARDIRQ, WOKEN_BY_TIMER, 39)) && !is_disks(D, READ, timer_softirq));
    assert!(!is_disks(S, POLL, net) && !is_disks(S, READ, device) && !is_disks(S, POLL, device));
    // A disk across the network, and many requests at once.
    assert!(is_disks(D, READ, net) && is_disks(S, IO_URING, device));
}

#[test]
fn a_wait_is_for_disk_where_a_request_was_done_just_before() {
    let of = |found: &Found, kind: &str| found.iter().find(|i| i.0 == kind).map_or(0, |i| i.2 / MS);
    // Of the waits of 29 gaps that are no warm-up.
    let (all, half) = (reading(|_| true), reading(|step| step % 2 == 0));
    assert!(of(&all, "block-io") > 500, "{all:?}");
    assert!((250..=280).contains(&of(&half, "block-io")), "{half:?}");
    // Where no request was seen at all, the trace does not tell when they are done.
    assert!(of(&reading(|_| false), "block-io") > 500);
}

pub(super) fn sleeping(syscall: u64) -> Found {
    waiting(S, syscall, HARDIRQ)
}

pub(super) fn retransmitting(lossy: bool) -> Found {
    for_packets(|s| {
        if lossy {
            sends_again(s);
        }
    })
}

fn for_packets(besides: impl FnOnce(&mut Scene)) -> Found {
    let mut s = Scene::new().steps(|s, at| s.waits(at, s.main, S, POLL, SOFTIRQ));
    besides(&mut s);
    s.found()
}

fn sends_again(s: &mut Scene) {
    sends_again_on(s, 0);
}

fn sends_again_on(s: &mut Scene, cpu: u32) {
    let (local, peer) = (s.f.writer().string("10.0.0.1:40000"), s.f.writer().string("10.0.0.2:9000"));
    s.f.push(50 * MS, cpu, Retransmit { local, peer, state: None });
}

pub(super) fn locked(len: u64) -> Found {
    let scene = Scene::new().steps(move |s, at| {
        for i in 0..3 {
            s.waits_for(at + i * 6 * MS, len, s.main, S, FUTEX, HARDIRQ);
        }
    });
    scene.found()
}

pub(super) fn checking(len: u64) -> Found {
    let mut s = Scene::new();
    s.f.call(MS, 0, s.main, s.launch, 10_000);
    s.waits_for(2 * MS, len, s.main, S, POLL, HARDIRQ);
    s.f.call(len + 10 * MS, 0, s.main, s.launch, 10_000);
    s.found()
}

pub(super) fn served() -> Found {
    let mut scene = Scene::new();
    let server = scene.f.task(70, 70);
    let scene = scene.steps(|s, at| {
        s.out(at, 0, s.main, S, READ, IDLE);
        s.f.waking(at + 1_000, 0, IDLE, server, HARDIRQ);
        s.f.switch(at + 2_000, 0, IDLE, 0, server);
        s.f.waking(at + 18 * MS - 1_000, 0, server, s.main, 0);
        s.out(at + 18 * MS, 0, server, S, READ, s.main);
    });
    scene.found()
}

pub(super) fn in_pieces() -> Found {
    let mut scene = Scene::new();
    scene.f.wakeup(20, 1, scene.worker, 1);
    let scene = scene.steps(|s, at| {
        let (main, worker) = (s.main, s.worker);
        for i in 0..40 {
            let at = at + i * 400_000;
            s.out(at, 0, main, S, READ, worker);
            s.f.waking(at + 200_000, 0, worker, main, 0);
            s.out(at + 200_010, 0, worker, S, READ, main);
            s.f.waking(at + 399_000, 0, main, worker, 0);
        }
    });
    scene.found()
}

#[test]
fn sleeps_and_unknown_interrupts_are_no_incident() {
    for (state, syscall, context) in [(S, NANOSLEEP, HARDIRQ), (S, FUTEX, HARDIRQ), (S, 999, HARDIRQ)] {
        let found = waiting(state, syscall, context);
        assert!(found.iter().all(|i| i.1 < Severity::High), "{syscall}: {found:?}");
    }
}

#[test]
fn waits_for_files_and_pages_are_block_io() {
    for (state, syscall) in [(D, READ), (D, 999)] {
        assert_first(Scene::new().steps(|s, at| s.waits(at, s.main, state, syscall, SOFTIRQ)), "block-io");
    }
    // A worker that waits for a disk is the same cause, one link further on.
    let chained = Scene::new().steps(|s, at| {
        let (main, worker) = (s.main, s.worker);
        s.out(at, 0, main, S, READ, worker);
        s.waits_for(at + 10_000, 17 * MS, worker, D, READ, SOFTIRQ);
        s.f.waking(at + 18 * MS - 1_000, 0, worker, main, 0);
        s.out(at + 18 * MS, 0, worker, S, READ, main);
    });
    let found = chained.found();
    assert_eq!((found[0].0, found[0].1), ("block-io", Severity::High), "{found:?}");
}

#[test]
fn waits_for_packets_are_network_and_losses_have_their_name() {
    assert_first(Scene::new().steps(|s, at| s.waits(at, s.main, S, POLL, SOFTIRQ)), "network");
    let found = retransmitting(true);
    assert_eq!((found[0].0, found[0].1), ("tcp-retransmits", Severity::High), "{found:?}");
    assert!(found[0].3.contains("10.0.0.2:9000") && found[0].3.contains("on which 1 segments"), "{found:?}");
    // What another host of a merged recording had to send again is none of it.
    let hosts = |cpu: u32| {
        for_packets(|s| {
            for (n, [cpu_base, pid_base]) in [["0", "0"], ["64", "1000"]].into_iter().enumerate() {
                s.f.writer().set_meta(&format!("host.{n}.cpu_base"), cpu_base);
                s.f.writer().set_meta(&format!("host.{n}.pid_base"), pid_base);
            }
            sends_again_on(s, cpu);
        })
    };
    assert_eq!((hosts(1)[0].0, hosts(64)[0].0), ("tcp-retransmits", "network"));
    // Where some were lost there may have been more.
    let lost = for_packets(|s| {
        sends_again(s);
        let probe = s.f.writer().string("tcp_retransmit");
        let loss = ingero_format::catalog::Loss { to_ns: 60 * MS, probe, cause: 0, count: Some(3), of_host: None };
        s.f.push(55 * MS, 0, loss);
    });
    assert!(lost[0].3.contains("on which at least 1 segments"), "{lost:?}");
}

#[test]
fn a_lock_a_check_a_server_and_pieces_come_first() {
    for (kind, found) in [
        ("interpreter-lock", locked(5 * MS + 50_000)),
        ("status-check", checking(5_001 * MS)),
        ("other-process", served()),
        ("hand-over", in_pieces()),
    ] {
        assert_eq!((found[0].0, found[0].1), (kind, Severity::High), "{found:?}");
    }
}

/// The main thread looks after its worker each 5 s, and goes on after 12 s. The worker runs for so long of that, and
/// wakes the main thread in the end or does not.
fn looking_after(ran_ns: u64, hands_over: bool) -> Found {
    const ALL: u64 = 12_000 * MS;
    let mut s = Scene::new();
    let (main, worker, launch) = (s.main, s.worker, s.launch);
    s.f.call(MS, 0, main, launch, 10_000);
    s.f.waking(2 * MS, 1, IDLE, worker, HARDIRQ);
    s.f.switch(2 * MS, 1, IDLE, 0, worker);
    s.out(2 * MS, 0, main, S, POLL, IDLE);
    if ran_ns < ALL {
        s.out(2 * MS + ran_ns, 1, worker, S, FUTEX, IDLE);
        s.f.waking(ALL - MS, 1, IDLE, worker, HARDIRQ);
        s.f.switch(ALL - MS, 1, IDLE, 0, worker);
    }
    for check in 1..=2 {
        let at = 2 * MS + check * 5_001 * MS;
        s.f.waking(at - 1_000, 0, IDLE, main, HARDIRQ);
        s.f.switch(at, 0, IDLE, 0, main);
        s.out(at + 100_000, 0, main, S, POLL, IDLE);
    }
    if hands_over {
        s.f.waking(ALL, 1, worker, main, 0);
    } else {
        s.f.waking(ALL, 0, IDLE, main, HARDIRQ);
    }
    s.f.switch(ALL + 10_000, 0, IDLE, 0, main);
    s.f.call(ALL + MS, 0, main, launch, 10_000);
    s.f.switch(ALL + 2 * MS, 1, worker, S, IDLE);
    s.found()
}

#[test]
fn who_worked_while_a_check_ran_out_is_told_and_not_the_check() {
    for hands_over in [true, false] {
        let found = looking_after(12_000 * MS, hands_over);
        assert_eq!((found[0].0, found[0].1), ("busy-workers", Severity::High), "{hands_over}: {found:?}");
        assert!(found[0].2 > 9_900 * MS, "{hands_over}: {found:?}");
        assert!(!has(&found, "status-check"), "{hands_over}: {found:?}");
    }
}

#[test]
fn a_check_is_told_where_nobody_worked_and_only_for_that_time() {
    // Nothing shows whom the wait was for: the worker's second is told, and the other nine are the check's.
    let found = looking_after(1_000 * MS, false);
    assert_eq!((found[0].0, found[0].1), ("status-check", Severity::High), "{found:?}");
    assert!((8_900 * MS..=9_100 * MS).contains(&found[0].2), "{found:?}");
    let workers = found.iter().find(|i| i.0 == "busy-workers").expect("no worker");
    assert!((990 * MS..=1_100 * MS).contains(&workers.2), "{found:?}");
    // The one that handed over in the end is followed instead, and it waited for nothing that has a name.
    assert!(!has(&looking_after(1_000 * MS, true), "status-check"));
}

/// The main thread asks a server and waits for the answer, or for one from another host; it comes in a softirq.
fn over_network(from_here: bool, ports: Option<(u64, u64)>) -> Found {
    let mut scene = Scene::new();
    let (server, bystander) = (scene.f.task(70, 70), scene.f.task(71, 71));
    let wakes = |f: &mut Fixture, at: u64, waker: TaskId, wakee: TaskId| {
        let (context, source, irq) = (Some(SOFTIRQ), Some(WOKEN_BY_DEVICE), Some(3));
        f.push(at, 0, Waking { waker, wakee, target_cpu: 0, context, source, irq });
    };
    let scene = scene.steps(|s, at| {
        let main = s.main;
        if let Some((own, peer)) = ports {
            for (task, local_port, peer_port) in [(main, 4_000, 80), (server, own, peer)] {
                let (local_port, peer_port) = (Some(local_port), Some(peer_port));
                let body = SocketIo { task, direction: 0, result: 1, family: 2, local_port, peer_port };
                s.f.push(at - 500_000, 0, body);
            }
        }
        if from_here {
            wakes(&mut s.f, at - 1_000, main, server);
            s.out(at, 0, main, S, POLL, server);
            wakes(&mut s.f, at + 18 * MS - 1_000, server, main);
            s.out(at + 18 * MS, 0, server, S, POLL, main);
        } else {
            s.out(at, 0, main, S, POLL, bystander);
            wakes(&mut s.f, at + 18 * MS - 1_000, bystander, main);
            s.out(at + 18 * MS, 0, bystander, S, FUTEX, main);
        }
    });
    scene.found()
}

#[test]
fn a_peer_on_this_host_is_followed_and_a_bystander_is_not() {
    let found = over_network(true, None);
    assert_eq!((found[0].0, found[0].1), ("other-process", Severity::High), "{found:?}");
    let found = over_network(false, None);
    assert_eq!((found[0].0, found[0].1), ("network", Severity::High), "{found:?}");
    // Where both were followed their ports tell.
    assert_eq!(over_network(true, Some((80, 4_000)))[0].0, "other-process");
    assert_eq!(over_network(true, Some((81, 4_000)))[0].0, "network");
}
