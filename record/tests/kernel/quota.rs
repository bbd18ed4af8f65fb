//! A CPU quota, of either version of control groups.

use std::{fs, path::PathBuf};

use ingero_record::kernel::{Switch, switch_flag};

use crate::{
    puppet::Puppet,
    seen::{only_switches, record},
    turn,
};

/// A group with a quota of a fifth of a CPU, removed when dropped.
struct Quota(PathBuf);

impl Quota {
    fn new() -> Self {
        let name = format!("ingero-test-{}", std::process::id());
        let root = PathBuf::from("/sys/fs/cgroup");
        let controllers = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
        if controllers.split_whitespace().any(|controller| controller == "cpu") {
            fs::write(root.join("cgroup.subtree_control"), "+cpu").unwrap();
            let quota = Self(root.join(name));
            fs::create_dir(&quota.0).unwrap();
            fs::write(quota.0.join("cpu.max"), "20000 100000").unwrap();
            return quota;
        }
        let quota = Self(root.join("cpu").join(name));
        fs::create_dir(&quota.0).unwrap_or_else(|error| panic!("no cpu controller of either version here: {error}"));
        fs::write(quota.0.join("cpu.cfs_quota_us"), "20000").unwrap();
        quota
    }

    fn throttled_ns(&self) -> u64 {
        let stat = fs::read_to_string(self.0.join("cpu.stat")).unwrap();
        let value =
            |key| stat.lines().find_map(|line| line.strip_prefix(key)).map(|value| value.parse::<u64>().unwrap());
        value("throttled_time ").or_else(|| Some(value("throttled_usec ")? * 1000)).unwrap()
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn a_quota_is_no_preemption() {
    let _turn = turn();
    let quota = Quota::new();
    let mut child = Puppet::new("spin");
    let pid = child.pid();
    fs::write(quota.0.join("cgroup.procs"), pid.to_string()).unwrap();
    let mut can_tell = false;
    let seen = record(&only_switches(), |kernel| {
        can_tell = kernel.facts().throttling;
        child.go();
    });
    child.end();
    let of_child: Vec<&Switch> = seen.switches.iter().filter(|switch| switch.prev_tgid == pid).collect();
    let throttled = |switch: &&&Switch| switch.header.flags & switch_flag::THROTTLED != 0;
    if !can_tell {
        assert!(of_child.iter().all(|switch| switch.header.flags & switch_flag::THROTTLE_UNKNOWN != 0));
        return;
    }
    let mut waited_ns = 0;
    for out in of_child.iter().filter(throttled) {
        let back = seen
            .switches
            .iter()
            .find(|switch| switch.next_tid == out.header.tid && switch.header.ts_ns > out.header.ts_ns);
        waited_ns += back.map_or(0, |back| back.header.ts_ns - out.header.ts_ns);
    }
    let kernel_says_ns = quota.throttled_ns();
    println!(
        "{} waits for the quota of {waited_ns} ns, cpu.stat: {kernel_says_ns} ns",
        of_child.iter().filter(throttled).count()
    );
    assert!(of_child.iter().filter(throttled).count() >= 3);
    assert!(waited_ns.abs_diff(kernel_says_ns) < kernel_says_ns / 4);
}
