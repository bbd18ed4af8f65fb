//! Calls: arguments, results, nesting, losses, attaching.

use std::time::{Duration, Instant};

use ingero_record::kernel::{Error, Kernel, Kind, LossCause, Options, Probe, UprobeLinks, return_flag};

use crate::{
    probed::{EIGHT, INNER, OUTER, POINTER, RECURSIVE, describe_functions, file_offset, five_hundred, probes},
    puppet::{CALLS, Puppet},
    seen::{Entry, Return, Seen, monotonic_ns, only_calls, record},
    turn,
};

/// Whether this kernel attaches many functions by one link, which came with Linux 6.6. An older one has to say so where it is
/// asked for that alone; what is chosen there by itself is [`UprobeLinks::Single`], which has tests of its own.
fn has_multi_links() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse::<u32>().unwrap());
    let has = (numbers.next().unwrap(), numbers.next().unwrap()) >= (6, 6);
    let refused = matches!(Kernel::load(&only_calls(UprobeLinks::Multi)), Err(Error::NoMultiLinks));
    assert_eq!(refused, !has, "{release}");
    has
}

fn calls_are_exact(links: UprobeLinks) {
    let mut child = Puppet::new("calls");
    let mut stranger = Puppet::new("calls");
    let tgid = child.pid();
    let seen = record(&only_calls(links), |kernel| {
        describe_functions(kernel);
        kernel.set_target(tgid).unwrap();
        let attached = kernel.attach_calls("/proc/self/exe", &probes()).unwrap();
        assert_eq!(attached.is_multi(), links == UprobeLinks::Multi);
        child.go();
        stranger.go();
    });
    assert!(seen.entries.iter().all(|(entry, _)| entry.tgid == tgid), "only the target is recorded");
    let per_function = |function| if function == RECURSIVE { 6 } else { CALLS as usize };
    for function in [EIGHT, POINTER, OUTER, INNER, RECURSIVE] {
        let returns = seen.returns.iter().filter(|(ret, _)| ret.function == function).count();
        assert_eq!((seen.entries_of(function).len(), returns), (per_function(function), per_function(function)));
    }

    for (n, (_, args)) in seen.entries_of(EIGHT).into_iter().enumerate() {
        assert_eq!(args, &[8, n as u64, 6, 7, 4]);
    }
    for (entry, args) in seen.entries_of(POINTER) {
        assert_eq!(args, &[0x1234_5678, 0xdead_beef_0000_0001, 0, 0, 0]);
        assert_eq!(entry.header.flags, 0b100, "address 0x10 cannot be read, and that shows");
    }
    for (n, (_, args)) in seen.entries_of(OUTER).into_iter().enumerate() {
        assert_eq!(args, &[n as u64, 0]);
    }
    assert!(seen.entries_of(INNER).iter().all(|(_, args)| args.is_empty()));

    // Every return pairs with the innermost open entry, by stack pointer alone.
    let mut ends: Vec<(u64, Result<&Entry, &Return>)> = seen
        .entries
        .iter()
        .map(|entry| (entry.0.header.ts_ns, Ok(entry)))
        .chain(seen.returns.iter().map(|ret| (ret.0.header.ts_ns, Err(ret))))
        .collect();
    ends.sort_by_key(|(ts_ns, _)| *ts_ns);
    let mut open: Vec<&Entry> = Vec::new();
    let mut out_calls = 0;
    for (_, end) in ends {
        match end {
            Ok(entry) => {
                assert!(open.last().is_none_or(|outer| outer.0.sp > entry.0.sp), "callees are further down the stack");
                open.push(entry);
            }
            Err((ret, out)) => {
                let entry = open.pop().unwrap();
                assert_eq!((entry.0.sp, entry.0.function, entry.0.header.tid), (ret.sp, ret.function, ret.header.tid));
                match ret.function {
                    EIGHT => assert_eq!(ret.result, 35 + entry.1[1]),
                    POINTER => assert_eq!(ret.result as i32, -7),
                    RECURSIVE => assert_eq!(ret.result, entry.1[0]),
                    OUTER => assert_eq!(*out, Some(entry.1[0] * 1000 + 1)),
                    INNER => assert_eq!(*out, Some(open.last().unwrap().1[0] * 1000)),
                    other => panic!("function {other} was not probed"),
                }
                let has_out = matches!(ret.function, OUTER | INNER);
                assert_eq!(ret.header.flags, if has_out { return_flag::HAS_OUT } else { 0 });
                out_calls += u64::from(has_out);
            }
        }
    }
    assert_eq!((open.len(), out_calls), (0, 2 * CALLS));
    assert!(child.end().success() && stranger.end().success());
}

#[test]
fn calls_are_exact_with_one_link_for_all() {
    let _turn = turn();
    if has_multi_links() {
        calls_are_exact(UprobeLinks::Multi);
    }
}

#[test]
fn calls_are_exact_with_a_perf_event_each() {
    let _turn = turn();
    calls_are_exact(UprobeLinks::Single);
}

#[test]
fn five_hundred_functions_attach_and_detach_within_a_second() {
    let _turn = turn();
    if !has_multi_links() {
        return;
    }
    let functions = five_hundred();
    let probes: Vec<Probe> = (0..)
        .zip(&functions)
        .map(|(function, address)| Probe { offset: file_offset(*address as usize), function })
        .collect();
    let options = Options { all_processes: true, ..only_calls(UprobeLinks::Multi) };
    record(&options, |kernel| {
        let start = Instant::now();
        let attached = kernel.attach_calls("/proc/self/exe", &probes).unwrap();
        let attaching = start.elapsed();
        assert!(attached.is_multi());
        assert_eq!(attached.links(), 2);
        let start = Instant::now();
        drop(attached);
        let detaching = start.elapsed();
        println!("500 functions with returns: attached in {attaching:?}, detached in {detaching:?}");
        assert!(attaching + detaching < Duration::from_secs(1), "{attaching:?} and {detaching:?}");
    });
    // The recorder's own calls are never recorded.
    assert!(functions.iter().enumerate().all(|(n, function)| function() == n));
}

#[test]
fn what_does_not_fit_is_counted() {
    let _turn = turn();
    let mut child = Puppet::new("calls");
    let options = Options { ring_bytes: Some(4096), ..only_calls(UprobeLinks::Auto) };
    let mut kernel = Kernel::load(&options).unwrap();
    let mut drain = kernel.take_drain().unwrap();
    describe_functions(&kernel);
    kernel.set_target(child.pid()).unwrap();
    let attached = kernel.attach_calls("/proc/self/exe", &probes()).unwrap();
    let fired = 2 * (4 * CALLS + 6);
    let mut recorded = 0;
    let mut lost = 0;
    for round in 1..=3 {
        let before_ns = monotonic_ns();
        child.go();
        let after_ns = monotonic_ns();
        let mut seen = Seen::default();
        seen.drain(&mut drain);
        recorded += (seen.entries.len() + seen.returns.len()) as u64;
        let losses = kernel.take_losses().unwrap();
        assert!(!losses.is_empty());
        for loss in losses {
            assert_eq!(loss.cause, LossCause::RingFull, "{loss}");
            assert!(matches!(loss.kind, Kind::CallEntry | Kind::CallReturn), "{loss}");
            assert!(before_ns < loss.first_ns && loss.first_ns <= loss.last_ns && loss.last_ns < after_ns, "{loss}");
            lost += loss.count;
        }
        assert_eq!(recorded + lost, round * fired);
    }
    assert!(recorded > 0);
    drop(attached);
    assert_eq!(kernel.take_losses().unwrap(), []);
    child.end();
}

#[test]
fn the_bell_rings_when_a_ring_fills_and_not_before() {
    let _turn = turn();
    let mut child = Puppet::new("calls");
    let options = only_calls(UprobeLinks::Auto);
    let mut waits = Vec::new();
    for ring_bytes in [1 << 20, 64 << 10] {
        let mut kernel = Kernel::load(&Options { ring_bytes: Some(ring_bytes), ..options.clone() }).unwrap();
        let drain = kernel.take_drain().unwrap();
        describe_functions(&kernel);
        kernel.set_target(child.pid()).unwrap();
        let attached = kernel.attach_calls("/proc/self/exe", &probes()).unwrap();
        child.go();
        let start = Instant::now();
        drain.wait(Duration::from_millis(500)).unwrap();
        waits.push(start.elapsed());
        drop(attached);
    }
    // 250 kB of records are below a quarter of what two rings of the first size hold, one at least.
    assert!(waits[0] >= Duration::from_millis(490), "{waits:?}");
    assert!(waits[1] < Duration::from_millis(250), "{waits:?}");
    child.end();
}
