//! Rows of what the kernel's own probes tell.

use std::borrow::Cow;
use std::io::Write;
use std::net::{IpAddr, Ipv6Addr};

use ingero_format::Error;
use ingero_format::catalog::{self, BOUND_BY_CALL, WOKEN_BY_DEVICE, WOKEN_BY_OTHER, WOKEN_BY_TIMER};

use super::Scribe;
use crate::kernel::{Switch, Waking, context, request_error, switch_flag, wire};
use crate::proc::affinity::read_affinity;
use crate::state::{is_last, traced_state};
use crate::tasks::At;
use crate::text;

/// Name of the interrupt that has neither line nor handler.
const LOCAL_TIMER: &str = "local_timer";

impl<W: Write> Scribe<W> {
    pub(super) fn switch(&mut self, at: At, r: &Switch) -> Result<(), Error> {
        let (tid, pid) = (r.header.tid, r.prev_tgid);
        let prev = self.tasks.get(&mut self.out, at, tid, pid)?;
        let next = self.tasks.get(&mut self.out, at, r.next_tid, r.next_tgid)?;
        let flag = |bit| r.header.flags & bit != 0;
        let preempted = flag(switch_flag::PREEMPTED);
        let prev_state = traced_state(r.prev_state, preempted, tid == pid);
        let row = catalog::Switch {
            prev,
            prev_state,
            // Deadline tasks have negative ones: no number of the column's scale.
            prev_prio: u64::try_from(r.prev_prio).ok(),
            next,
            next_prio: u64::try_from(r.next_prio).ok(),
            syscall: r.blocking_syscall().filter(|_| !preempted).map(u64::from),
            throttled: (!flag(switch_flag::THROTTLE_UNKNOWN)).then_some(u64::from(flag(switch_flag::THROTTLED))),
        };
        self.counts.switches += 1;
        self.push(at, &row)?;
        if is_last(prev_state) {
            if !self.sight.exits && tid == pid {
                // Nobody else will tell of the end: another process may get the id.
                self.tasks.group_exit(pid);
            }
            self.tasks.last_switch(tid, pid);
        }
        Ok(())
    }

    pub(super) fn waking(&mut self, at: At, r: &Waking) -> Result<(), Error> {
        let waker = self.tasks.get(&mut self.out, at, r.header.tid, r.waker_tgid)?;
        let wakee = self.tasks.get(&mut self.out, at, r.wakee_tid, r.wakee_tgid)?;
        let flag = |bit| r.header.flags & bit != 0;
        let context = if flag(context::UNKNOWN) {
            None
        } else if flag(context::NMI) {
            Some(3)
        } else if flag(context::HARDIRQ) {
            Some(2)
        } else if flag(context::SOFTIRQ) {
            Some(1)
        } else {
            Some(0)
        };
        let source =
            [(context::TIMER, WOKEN_BY_TIMER), (context::DEVICE, WOKEN_BY_DEVICE), (context::OTHER, WOKEN_BY_OTHER)];
        let source = source.into_iter().find(|(bit, _)| flag(*bit)).map(|(_, source)| source);
        let irq = (r.irq != wire::NO_IRQ).then_some(u64::from(r.irq));
        self.push(at, &catalog::Waking { waker, wakee, target_cpu: u64::from(r.target_cpu), context, source, irq })
    }

    pub(super) fn page_alloc(&mut self, at: At, r: &wire::PageAlloc) -> Result<(), Error> {
        let task = self.tasks.get(&mut self.out, at, r.header.tid, r.tgid)?;
        let row = catalog::PageAlloc {
            task,
            pfn: Some(r.pfn).filter(|&pfn| pfn != u64::MAX),
            order: u64::from(r.order()),
            gfp_flags: u64::from(r.gfp_flags),
            migratetype: Some(u64::from(r.migratetype())),
        };
        self.push(at, &row)
    }

    /// `at` is the end; the row has the time of the begin.
    pub(super) fn irq(&mut self, at: At, r: &wire::Irq) -> Result<(), Error> {
        let task = self.tasks.get(&mut self.out, at, r.header.tid, r.tgid)?;
        let irq = (r.irq != wire::NO_IRQ).then_some(u64::from(r.irq));
        let name = match text::from_c_bytes(&r.name) {
            name if name.is_empty() && irq.is_none() => Cow::Borrowed(LOCAL_TIMER),
            name => name,
        };
        let name = self.out.string(&name);
        let begin = At { ts_ns: at.ts_ns.saturating_sub(u64::from(r.dur_ns)), ..at };
        self.push(begin, &catalog::Irq { task, dur_ns: u64::from(r.dur_ns), irq, name, woke: u64::from(r.woke) })
    }

    /// `at` is the end; the row has the time of the begin.
    pub(super) fn softirq(&mut self, at: At, r: &wire::Softirq) -> Result<(), Error> {
        let task = self.tasks.get(&mut self.out, at, r.header.tid, r.tgid)?;
        let begin = At { ts_ns: at.ts_ns.saturating_sub(u64::from(r.dur_ns)), ..at };
        let (dur_ns, vector, woke) = (u64::from(r.dur_ns), u64::from(r.vector), u64::from(r.woke));
        self.push(begin, &catalog::Softirq { task, dur_ns, vector, woke })
    }

    pub(super) fn block_issue(&mut self, at: At, r: &wire::BlockIssue) -> Result<(), Error> {
        let task = self.tasks.get(&mut self.out, at, r.header.tid, r.tgid)?;
        let rwbs = self.out.string(&self.sight.request_flags.letters(r.cmd_flags));
        let (dev, bytes) = (u64::from(r.dev), u64::from(r.bytes));
        self.push(at, &catalog::BlockIssue { task, dev, sector: r.sector, bytes, rwbs })
    }

    pub(super) fn block_complete(&mut self, at: At, r: &wire::BlockComplete) -> Result<(), Error> {
        let rwbs = self.out.string(&self.sight.request_flags.letters(r.cmd_flags));
        let (dev, bytes, error) = (u64::from(r.dev), u64::from(r.sectors) * 512, i64::from(request_error(r.error)));
        self.push(at, &catalog::BlockComplete { dev, sector: r.sector, bytes, rwbs, error })
    }

    pub(super) fn page_fault(&mut self, at: At, r: &wire::PageFault) -> Result<(), Error> {
        let task = self.tasks.get(&mut self.out, at, r.header.tid, r.tgid)?;
        self.push(at, &catalog::PageFault { task, address: r.address, error: u64::from(r.error) })
    }

    pub(super) fn reclaim(&mut self, at: At, r: &wire::Reclaim) -> Result<(), Error> {
        let task = self.tasks.get(&mut self.out, at, r.header.tid, r.tgid)?;
        let flag = |bit| r.header.flags & bit != 0;
        let memcg = flag(wire::reclaim_flag::MEMCG);
        if flag(wire::reclaim_flag::END) {
            let (begin, row) = self.reclaims.end(at, task, memcg, r.pages);
            self.push(begin, &row)
        } else {
            self.reclaims.begin(at, task, memcg, r.pages);
            Ok(())
        }
    }

    pub(super) fn oom_kill(&mut self, at: At, r: &wire::OomKill) -> Result<(), Error> {
        let task = self.tasks.get(&mut self.out, at, r.header.tid, r.tgid)?;
        // The kernel names whatever thread it came upon.
        let thread = self.tasks.by_tid(&mut self.out, at, r.victim_tid)?;
        let victim = self.tasks.main_of(self.tasks.pid_of(thread)).unwrap_or(thread);
        let [total_bytes, anon_bytes, file_bytes, shmem_bytes] =
            r.kib.map(|kib| (kib != u64::MAX).then(|| kib.saturating_mul(1024)));
        let score_adj = (r.score_adj != i64::MIN).then_some(r.score_adj);
        let row = catalog::OomKill { task, victim, total_bytes, anon_bytes, file_bytes, shmem_bytes, score_adj };
        self.push(at, &row)
    }

    pub(super) fn affinity(&mut self, at: At, r: &wire::Affinity) -> Result<(), Error> {
        let task = self.tasks.get(&mut self.out, at, r.header.tid, r.tgid)?;
        // Some milliseconds late: a second change in between shows twice as the later one.
        let Some(cpus) = read_affinity(r.header.tid) else { return Ok(()) };
        let cpus = self.out.string(&cpus);
        self.push(at, &catalog::Affinity { task, cpus, source: BOUND_BY_CALL })
    }

    pub(super) fn cpu_frequency(&mut self, at: At, r: &wire::CpuFrequency) -> Result<(), Error> {
        self.push(at, &catalog::CpuFrequency { of_cpu: u64::from(r.of_cpu), khz: u64::from(r.khz) })
    }

    pub(super) fn retransmit(&mut self, at: At, r: &wire::Retransmit) -> Result<(), Error> {
        let local = self.out.string(&endpoint(r.local, r.local_port));
        let peer = self.out.string(&endpoint(r.peer, r.peer_port));
        let state = (r.state != 0).then_some(u64::from(r.state));
        self.push(at, &catalog::Retransmit { local, peer, state })
    }

    pub(super) fn socket(&mut self, at: At, r: &wire::SocketIo) -> Result<(), Error> {
        let task = self.tasks.get(&mut self.out, at, r.header.tid, r.tgid)?;
        let port = |port: u16| (port != 0).then_some(u64::from(port));
        let row = catalog::SocketIo {
            task,
            direction: u64::from(r.header.flags & 1),
            result: i64::from(r.result),
            family: u64::from(r.family),
            local_port: port(r.local_port),
            peer_port: port(r.peer_port),
        };
        self.push(at, &row)
    }
}

/// `10.0.0.1:80` or `[fe80::1]:80`.
fn endpoint(address: [u8; 16], port: u16) -> String {
    match Ipv6Addr::from(address).to_canonical() {
        IpAddr::V4(address) => format!("{address}:{port}"),
        IpAddr::V6(address) => format!("[{address}]:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_read_as_people_write_them() {
        let mut address = [0; 16];
        address[10..].copy_from_slice(&[0xff, 0xff, 10, 0, 0, 7]);
        assert_eq!(endpoint(address, 443), "10.0.0.7:443");
        assert_eq!(endpoint(Ipv6Addr::LOCALHOST.octets(), 80), "[::1]:80");
    }
}
