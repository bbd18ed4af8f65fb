//! `/proc/PID/stat`.

/// The fields of a stat line that a recording needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// Id in the first field: the thread's in a task's file.
    pub tid: u32,
    /// Name, any bytes.
    pub comm: Vec<u8>,
    /// State letter.
    pub state: u8,
    /// Process id of the parent.
    pub parent_pid: u32,
    /// Start in clock ticks since boot.
    pub start_ticks: u64,
    /// What it has used; `None` where the line ends before.
    pub usage: Option<Usage>,
}

/// What a process has used since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Page faults that needed no disk.
    pub minor_faults: u64,
    /// Page faults that waited for a disk.
    pub major_faults: u64,
    /// CPU time in user space, in clock ticks.
    pub user_ticks: u64,
    /// CPU time in the kernel, in clock ticks.
    pub system_ticks: u64,
    /// Threads now.
    pub threads: u64,
    /// Memory in use now, in pages.
    pub resident_pages: u64,
}

impl Stat {
    /// Parses a stat line; `None` when it makes no sense.
    ///
    /// ```
    /// use ingero_record::proc::stat::Stat;
    /// let line = b"7 (a) b) S 1 7 7 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 4711 0 0";
    /// let stat = Stat::parse(line).unwrap();
    /// assert_eq!((stat.comm.as_slice(), stat.start_ticks), (&b"a) b"[..], 4711));
    /// ```
    #[must_use]
    pub fn parse(line: &[u8]) -> Option<Self> {
        // A name may hold blanks and parentheses: it ends at the last one.
        let open = line.iter().position(|&b| b == b'(')?;
        let close = line.iter().rposition(|&b| b == b')')?;
        let comm = line.get(open + 1..close)?.to_vec();
        let tid = text(line.get(..open)?)?.trim().parse().ok()?;
        let mut fields = text(line.get(close + 1..)?)?.split_ascii_whitespace();
        let state = *fields.next()?.as_bytes().first()?;
        let parent_pid = fields.next()?.parse().ok()?;
        let rest: Vec<&str> = fields.collect();
        // Numbered as in proc(5); the parent is the 4th field.
        let field = |number: usize| rest.get(number - 5).and_then(|text| text.parse::<u64>().ok());
        let usage = || {
            Some(Usage {
                minor_faults: field(10)?,
                major_faults: field(12)?,
                user_ticks: field(14)?,
                system_ticks: field(15)?,
                threads: field(20)?,
                resident_pages: field(24)?,
            })
        };
        Some(Self { tid, comm, state, parent_pid, start_ticks: field(22)?, usage: usage() })
    }

    /// Whether the thread is dead and only waits to be collected.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_reads_itself() {
        let stat = Stat::parse(&std::fs::read("/proc/self/stat").unwrap()).unwrap();
        assert_eq!(stat.tid, std::process::id());
        assert_eq!(stat.parent_pid, std::os::unix::process::parent_id());
        assert!(stat.start_ticks > 0 && !stat.is_dead());
        let usage = stat.usage.unwrap();
        assert!(usage.minor_faults > 0 && usage.threads > 0 && usage.resident_pages > 0);
    }

    #[test]
    fn hostile_names() {
        for comm in [&b"a b"[..], b")) S 1 (", b"\n\n", b"\xff\xfe", b""] {
            let line = [b"12 (", comm, b") Z 3 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 99 0"].concat();
            let stat = Stat::parse(&line).unwrap();
            assert_eq!(stat.comm, comm);
            assert_eq!((stat.tid, stat.parent_pid, stat.start_ticks), (12, 3, 99));
            assert_eq!(stat.usage, None);
            assert!(stat.is_dead());
            for cut in 0..line.len() {
                let _ = Stat::parse(&line[..cut]);
            }
        }
        assert_eq!(Stat::parse(b""), None);
        assert_eq!(Stat::parse(b") ("), None);
    }
}
