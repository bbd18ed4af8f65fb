//! Names of the system calls that threads block in.
//!
//! A recording has their numbers, which depend on the machine that it was made on. Only calls that
//! can wait are named; whoever wants another looks its number up.

/// x86-64, by number.
const X86_64: &[(u64, &str)] = &[
    (0, "read"),
    (1, "write"),
    (7, "poll"),
    (16, "ioctl"),
    (17, "pread64"),
    (18, "pwrite64"),
    (19, "readv"),
    (20, "writev"),
    (23, "select"),
    (34, "pause"),
    (35, "nanosleep"),
    (42, "connect"),
    (43, "accept"),
    (44, "sendto"),
    (45, "recvfrom"),
    (46, "sendmsg"),
    (47, "recvmsg"),
    (61, "wait4"),
    (65, "semop"),
    (69, "msgsnd"),
    (70, "msgrcv"),
    (72, "fcntl"),
    (73, "flock"),
    (74, "fsync"),
    (75, "fdatasync"),
    (128, "rt_sigtimedwait"),
    (130, "rt_sigsuspend"),
    (202, "futex"),
    (208, "io_getevents"),
    (219, "restart_syscall"),
    (220, "semtimedop"),
    (230, "clock_nanosleep"),
    (232, "epoll_wait"),
    (247, "waitid"),
    (257, "openat"),
    (270, "pselect6"),
    (271, "ppoll"),
    (281, "epoll_pwait"),
    (288, "accept4"),
    (295, "preadv"),
    (296, "pwritev"),
    (299, "recvmmsg"),
    (307, "sendmmsg"),
    (426, "io_uring_enter"),
    (441, "epoll_pwait2"),
    (449, "futex_waitv"),
    (455, "futex_wait"),
];

/// aarch64, by number.
const AARCH64: &[(u64, &str)] = &[
    (4, "io_getevents"),
    (22, "epoll_pwait"),
    (25, "fcntl"),
    (29, "ioctl"),
    (32, "flock"),
    (56, "openat"),
    (63, "read"),
    (64, "write"),
    (65, "readv"),
    (66, "writev"),
    (67, "pread64"),
    (68, "pwrite64"),
    (69, "preadv"),
    (70, "pwritev"),
    (72, "pselect6"),
    (73, "ppoll"),
    (82, "fsync"),
    (83, "fdatasync"),
    (95, "waitid"),
    (98, "futex"),
    (101, "nanosleep"),
    (115, "clock_nanosleep"),
    (128, "restart_syscall"),
    (133, "rt_sigsuspend"),
    (137, "rt_sigtimedwait"),
    (188, "msgrcv"),
    (189, "msgsnd"),
    (192, "semtimedop"),
    (193, "semop"),
    (202, "accept"),
    (203, "connect"),
    (206, "sendto"),
    (207, "recvfrom"),
    (211, "sendmsg"),
    (212, "recvmsg"),
    (242, "accept4"),
    (243, "recvmmsg"),
    (260, "wait4"),
    (269, "sendmmsg"),
    (426, "io_uring_enter"),
    (441, "epoll_pwait2"),
    (449, "futex_waitv"),
    (455, "futex_wait"),
];

/// Name of a system call by its number on a machine (`x86_64`, `aarch64`: the recording's fact
/// `machine`); `system call 9` where this table has none.
#[must_use]
pub fn syscall_name(machine: Option<&str>, number: u64) -> String {
    let table = match machine {
        Some("x86_64") => X86_64,
        Some("aarch64") => AARCH64,
        _ => &[],
    };
    let named = table.binary_search_by_key(&number, |(n, _)| *n).ok().and_then(|at| table.get(at));
    named.map_or_else(|| format!("system call {number}"), |(_, name)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_rise_so_that_they_can_be_found() {
        for table in [X86_64, AARCH64] {
            assert!(table.is_sorted_by(|a, b| a.0 < b.0));
        }
        assert_eq!(syscall_name(Some("x86_64"), 202), "futex");
        assert_eq!(syscall_name(Some("aarch64"), 98), "futex");
        assert_eq!(syscall_name(Some("x86_64"), 9), "system call 9");
        assert_eq!(syscall_name(None, 202), "system call 202");
    }
}
