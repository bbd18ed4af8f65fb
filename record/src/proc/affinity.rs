//! The CPUs that a thread may use.

use std::fmt::Write;

/// Bytes of a mask: 8192 CPUs, the most that Linux is built for.
const MASK_BYTES: usize = 1024;

/// Asks for a thread's CPUs, written as the kernel lists them: `0-3,8`. `None` when there is no such thread (any more).
#[must_use]
pub fn read_affinity(tid: u32) -> Option<String> {
    let mut mask = [0_u8; MASK_BYTES];
    let tid = i32::try_from(tid).ok()?;
    // SAFETY: the kernel writes at most as many bytes as it is told there are. The C library's own function hides how many
    // it wrote and takes smaller masks.
    let written = unsafe { libc::syscall(libc::SYS_sched_getaffinity, tid, mask.len(), mask.as_mut_ptr()) };
    let written = usize::try_from(written).ok().filter(|&n| n > 0)?;
    Some(list(mask.get(..written)?))
}

/// The numbers of the bits that are set. The mask is an array of words in the byte order of the machine, which is little
/// endian wherever this runs.
fn list(mask: &[u8]) -> String {
    let is_set = |cpu: usize| mask.get(cpu / 8).is_some_and(|byte| byte >> (cpu % 8) & 1 != 0);
    let mut text = String::new();
    let mut cpu = 0;
    while cpu < mask.len() * 8 {
        if !is_set(cpu) {
            cpu += 1;
            continue;
        }
        let first = cpu;
        while is_set(cpu) {
            cpu += 1;
        }
        let comma = if text.is_empty() { "" } else { "," };
        // Writing to a String cannot fail.
        let _ = match cpu - 1 {
            last if last == first => write!(text, "{comma}{first}"),
            last => write!(text, "{comma}{first}-{last}"),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_read_as_the_kernels() {
        for (mask, text) in [
            (&[0b1][..], "0"),
            (&[0b1111, 0b1], "0-3,8"),
            (&[0b1000_0000, 0b1], "7-8"),
            (&[0xff, 0xff], "0-15"),
            (&[0, 0b101], "8,10"),
            (&[0], ""),
        ] {
            assert_eq!(list(mask), text);
        }
    }

    #[test]
    fn it_is_what_proc_says() {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:")).unwrap();
        assert_eq!(read_affinity(0).as_deref(), Some(line.trim()));
        assert_eq!(read_affinity(u32::MAX), None);
    }
}
