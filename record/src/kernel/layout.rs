//! What the programs must know about this kernel: struct offsets and arguments of tracepoints, all from BTF.
//!
//! A field is looked for, never derived from a kernel version.

use std::{fs, path::PathBuf};

use ingero_ebpf_common::{Config, NO_OFFSET, irq_source};

use super::{Error, btf::Btf, sys};

const BTF_PATH: &str = "/sys/kernel/btf/vmlinux";

/// Reads the kernel's types.
pub(super) fn kernel_btf() -> Result<Btf, Error> {
    let path = PathBuf::from(BTF_PATH);
    match fs::read(&path) {
        Ok(blob) => Btf::parse(&blob).map_err(|source| Error::BadBtf { path, source }),
        Err(source) => Err(Error::NoBtf { path, source }),
    }
}

/// Fills in all that BTF knows. Fields without which nothing works are demanded; the rest may be missing.
pub(super) fn from_btf(btf: &Btf) -> Result<Config, Error> {
    let optional = |of: &str, path: &str| btf.field(of, path).unwrap_or(NO_OFFSET);
    let either = |of: &str, paths: [&str; 2]| {
        paths
            .iter()
            .find_map(|path| btf.field(of, path))
            .ok_or_else(|| Error::NotInBtf { name: format!("{of}.{}", paths.join(" or ")) })
    };
    let needed =
        |of: &str, path: &str| btf.field(of, path).ok_or_else(|| Error::NotInBtf { name: format!("{of}.{path}") });
    let has_argument =
        |tracepoint: &str, n: usize| u32::from(btf.tracepoint(tracepoint).is_some_and(|(_, arguments)| arguments > n));
    let task_signal = optional("task_struct", "signal");
    Ok(Config {
        task_pid: needed("task_struct", "pid")?,
        task_tgid: needed("task_struct", "tgid")?,
        task_cpu: either("task_struct", ["thread_info.cpu", "cpu"])?,
        task_prio: needed("task_struct", "prio")?,
        task_flags: needed("task_struct", "flags")?,
        task_state: either("task_struct", ["__state", "state"])?,
        task_comm: needed("task_struct", "comm")?,
        task_exit_code: needed("task_struct", "exit_code")?,
        task_signal,
        task_throttled: optional("task_struct", "throttled"),
        task_cfs_rq: optional("task_struct", "se.cfs_rq"),
        cfs_rq_throttled: optional("cfs_rq", "throttle_count"),
        signal_live: if task_signal == NO_OFFSET { NO_OFFSET } else { optional("signal_struct", "live.counter") },
        regs_syscall: either("pt_regs", ["orig_ax", "syscallno"]).unwrap_or(NO_OFFSET),
        binprm_filename: needed("linux_binprm", "filename")?,
        switch_has_state: has_argument("sched_switch", 3),
        exit_has_group_dead: has_argument("sched_process_exit", 1),
        irqaction_name: optional("irqaction", "name"),
        irqaction_flags: optional("irqaction", "flags"),
        ..block_requests(btf, memory(btf, sockets(btf, interrupt_context(btf))))
    })
}

/// The exact preempt count if there is a way to it.
fn interrupt_context(btf: &Btf) -> Config {
    let mut config = Config { irq_source: irq_source::UNKNOWN, ..Config::UNSET };
    if let Some(place) = btf.field("task_struct", "thread_info.preempt_count") {
        (config.irq_source, config.preempt_count) = (irq_source::PER_TASK, place);
        return config;
    }
    // Until 6.1 and from 6.15 a variable of its own, in between a part of the "hot" ones.
    let count = btf
        .per_cpu("__preempt_count")
        .or_else(|| btf.per_cpu("pcpu_hot")?.checked_add(btf.field("pcpu_hot", "preempt_count")?));
    let way = (count, btf.per_cpu("runqueues"), btf.field("task_struct", "se.cfs_rq"), btf.field("cfs_rq", "rq"));
    if let (Some(count), Some(run_queue), Some(_), Some(rq)) = way {
        config.irq_source = irq_source::PER_CPU;
        config.preempt_count = count.wrapping_sub(run_queue);
        config.cfs_rq_rq = rq;
    } else if btf.tracepoint("irq_handler_entry").is_some() {
        config.irq_source = irq_source::COUNTED;
    }
    config
}

/// Tracepoints at which a hardware interrupt begins; each has a twin that ends in `_exit`. Those of the
/// second group exist on x86-64 alone, and what a kernel lacks is skipped.
pub(super) const HARDIRQ_TRACEPOINTS: [&str; 11] = [
    "irq_handler",
    "ipi",
    "local_timer",
    "reschedule",
    "call_function",
    "call_function_single",
    "irq_work",
    "x86_platform_ipi",
    "thermal_apic",
    "threshold_apic",
    "deferred_error_apic",
];

/// What the probes of block requests read.
fn block_requests(btf: &Btf, config: Config) -> Config {
    let optional = |of: &str, path: &str| btf.field(of, path).unwrap_or(NO_OFFSET);
    // Until 5.15 a request named its disk, and before 5.11 the queue came first.
    let (disk, of_request) = match btf.field("request_queue", "disk") {
        Some(place) => (place, 0),
        None => (optional("request", "rq_disk"), 1),
    };
    Config {
        issue_has_queue: u32::from(btf.tracepoint("block_rq_issue").is_some_and(|(_, arguments)| arguments > 1)),
        request_queue: optional("request", "q"),
        request_sector: optional("request", "__sector"),
        request_bytes: optional("request", "__data_len"),
        request_flags: optional("request", "cmd_flags"),
        request_disk: disk,
        disk_of_request: of_request,
        disk_major: optional("gendisk", "major"),
        disk_first_minor: optional("gendisk", "first_minor"),
        ..config
    }
}

/// What the probes of memory read.
fn memory(btf: &Btf, config: Config) -> Config {
    let optional = |of: &str, path: &str| btf.field(of, path).unwrap_or(NO_OFFSET);
    // File, private, swapped and shared pages, a counter each.
    let counts = btf.field("mm_struct", "rss_stat").zip(btf.field("percpu_counter", "count"));
    let place = |n: u32| match (counts, btf.size("percpu_counter")) {
        (Some((counts, count)), Some(each)) => counts + count + n * each,
        _ => NO_OFFSET,
    };
    Config {
        page_bytes: btf.size("page").unwrap_or(0),
        victim_is_task: u32::from(btf.takes_pointer("mark_victim", 0)),
        task_mm: optional("task_struct", "mm"),
        mm_total: optional("mm_struct", "total_vm"),
        mm_counts: [place(1), place(0), place(3)],
        page_kib_shift: sys::page_bytes().trailing_zeros().saturating_sub(10),
        signal_score_adj: optional("signal_struct", "oom_score_adj"),
        ..config
    }
}

/// What the probes of sockets read.
fn sockets(btf: &Btf, config: Config) -> Config {
    let of = |field: &str| btf.field("sock", &format!("__sk_common.{field}")).unwrap_or(NO_OFFSET);
    Config {
        sock_family: of("skc_family"),
        sock_port: of("skc_num"),
        sock_peer_port: of("skc_dport"),
        sock_state: of("skc_state"),
        sock_addresses_v4: ["skc_rcv_saddr", "skc_daddr"].map(of),
        sock_addresses_v6: ["skc_v6_rcv_saddr", "skc_v6_daddr"].map(of),
        ..config
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernel_has_all_that_is_needed() {
        let config = from_btf(&kernel_btf().unwrap()).unwrap();
        assert_ne!(config.irq_source, irq_source::UNKNOWN);
        assert!(config.page_bytes >= 32);
        // Offsets of kernel structs that some probes cannot do without.
        for offset in [
            config.irqaction_name,
            config.irqaction_flags,
            config.sock_family,
            config.sock_peer_port,
            config.sock_addresses_v6[1],
            config.request_sector,
            config.request_bytes,
            config.request_flags,
            config.request_disk,
            config.disk_first_minor,
        ] {
            assert_ne!(offset, NO_OFFSET);
        }
    }
}
