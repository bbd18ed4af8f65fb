//! Births, deaths, names, and what is recorded of followed processes alone.

use std::{collections::HashMap, process::Command, thread};

use ingero_record::kernel::{Options, UprobeLinks, exit_flag};

use crate::{
    probed::{describe_functions, probes},
    puppet::{CALLS, Puppet},
    seen::{gettid, only_calls, record},
    turn,
};

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes.split(|byte| *byte == 0).next().unwrap()).unwrap()
}

#[test]
fn a_process_is_seen_from_fork_to_exit() {
    let _turn = turn();
    let mut pid = 0;
    let seen = record(&only_calls(UprobeLinks::Auto), |_| {
        let mut child = Command::new("/bin/sh").args(["-c", "exit 5"]).spawn().unwrap();
        pid = child.id();
        assert_eq!(child.wait().unwrap().code(), Some(5));
        thread::Builder::new().name("a \"name\"".to_owned()).spawn(|| {}).unwrap().join().unwrap();
    });
    let fork = seen.forks.iter().find(|fork| fork.child_tid == pid).unwrap();
    assert_eq!((fork.header.tid, fork.parent_tgid, fork.child_tgid), (gettid(), std::process::id(), pid));
    let exec = seen.execs.iter().find(|exec| exec.tgid == pid).unwrap();
    assert_eq!((text(&exec.filename), text(&exec.comm), exec.old_tid), ("/bin/sh", "sh", pid));
    let exit = seen.exits.iter().find(|exit| exit.tgid == pid).unwrap();
    assert_eq!((exit.exit_code, exit.header.flags), (5 << 8, exit_flag::GROUP_DEAD));
    let rename = seen.renames.iter().find(|rename| text(&rename.comm) == "a \"name\"").unwrap();
    assert_eq!(rename.tgid, std::process::id());
    let birth = seen.forks.iter().find(|fork| fork.child_tid == rename.header.tid).unwrap();
    assert_eq!((birth.child_tgid, birth.header.tid), (std::process::id(), gettid()), "a thread is no process");
}

#[test]
fn children_of_a_target_are_followed_until_they_end() {
    let _turn = turn();
    let mut child = Puppet::new("calls in a grandchild");
    let seen = record(&only_calls(UprobeLinks::Auto), |kernel| {
        describe_functions(kernel);
        kernel.set_target(child.pid()).unwrap();
        assert!(kernel.is_target(child.pid()).unwrap());
        let _attached = kernel.attach_calls("/proc/self/exe", &probes()).unwrap();
        child.go();
        let targets = kernel.targets().unwrap();
        assert!(targets.contains(&child.pid()), "{targets:?}");
    });
    let grandchild = seen.forks.iter().find(|fork| fork.parent_tgid == child.pid() && fork.child_tgid != child.pid());
    let grandchild = grandchild.unwrap().child_tgid;
    assert_eq!(seen.entries.iter().filter(|(entry, _)| entry.tgid == grandchild).count() as u64, 4 * CALLS + 6);
    child.end();
}

#[test]
fn a_process_ends_with_its_last_thread() {
    let _turn = turn();
    let mut child = Puppet::new("leader ends first");
    let pid = child.pid();
    let seen = record(&only_calls(UprobeLinks::Auto), |kernel| {
        kernel.set_target(pid).unwrap();
        child.tell();
        let status = child.end();
        assert_eq!(status.code(), Some(3));
        assert!(!kernel.is_target(pid).unwrap(), "the dead are not followed");
    });
    let exits: Vec<_> = seen.exits.iter().filter(|exit| exit.tgid == pid).collect();
    assert!(exits.len() >= 2);
    let (last, others) = exits.split_last().unwrap();
    assert!(others.iter().all(|exit| exit.header.flags == 0));
    assert_eq!(last.header.flags, exit_flag::GROUP_DEAD);
}

#[test]
fn a_late_library_is_noticed() {
    let _turn = turn();
    let (mut child, mut stranger) = (Puppet::new("load"), Puppet::new("load"));
    let options = Options { mappings: true, ..only_calls(UprobeLinks::Auto) };
    let seen = record(&options, |kernel| {
        kernel.set_target(child.pid()).unwrap();
        child.go();
        stranger.go();
    });
    assert!(seen.mapped.contains(&child.pid()));
    assert!(!seen.mapped.contains(&stranger.pid()));
    child.end();
    stranger.end();
}

#[test]
fn pages_of_a_target_are_counted() {
    let _turn = turn();
    let mut child = Puppet::new("touch");
    let options = Options { page_allocs: true, ..only_calls(UprobeLinks::Auto) };
    let seen = record(&options, |kernel| {
        kernel.set_target(child.pid()).unwrap();
        child.go();
    });
    let pages: u64 = seen.page_allocs.iter().map(|alloc| 1 << alloc.order()).sum();
    assert!(pages >= 2048, "8 MiB were touched, {pages} pages seen");
    assert!(seen.page_allocs.iter().all(|alloc| alloc.tgid == child.pid() && alloc.gfp_flags != 0));
    let frames: HashMap<u64, usize> = seen.page_allocs.iter().fold(HashMap::new(), |mut frames, alloc| {
        *frames.entry(alloc.pfn).or_default() += 1;
        frames
    });
    assert!(frames.len() > 3 && !frames.contains_key(&0));
    child.end();
}
