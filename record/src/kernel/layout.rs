//! What the programs must know about this kernel: struct offsets from BTF, tracepoint fields from tracefs.
//!
//! A field is looked for, never derived from a kernel version.

use std::{
    fs,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

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
        signal_live: if task_signal == NO_OFFSET { NO_OFFSET } else { optional("signal_struct", "live.counter") },
        regs_syscall: either("pt_regs", ["orig_ax", "syscallno"]).unwrap_or(NO_OFFSET),
        binprm_filename: needed("linux_binprm", "filename")?,
        switch_has_state: has_argument("sched_switch", 3),
        exit_has_group_dead: has_argument("sched_process_exit", 1),
        ..interrupt_context(btf)
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
    if let (Some(count), Some(run_queue), Some(cfs_rq), Some(rq)) = way {
        config.irq_source = irq_source::PER_CPU;
        config.preempt_count = count.wrapping_sub(run_queue);
        (config.task_cfs_rq, config.cfs_rq_rq) = (cfs_rq, rq);
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

/// Root of a tracefs: a mounted one, else one that nobody but this process sees, for as long as the second
/// part lives.
fn tracefs() -> Result<(PathBuf, Option<OwnedFd>), Error> {
    let mounted = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"].map(PathBuf::from);
    match mounted.into_iter().find(|root| root.join("events").is_dir()) {
        Some(root) => Ok((root, None)),
        None => sys::private_tracefs().map(|(mount, root)| (root, Some(mount))).map_err(|_| Error::NoTracefs),
    }
}

/// One classic tracepoint: its id, and where its fields lie.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TracepointFormat {
    pub(super) id: u64,
    path: PathBuf,
    fields: Vec<(String, u32)>,
}

impl TracepointFormat {
    pub(super) fn read(tracefs: &Path, category: &str, name: &str) -> Result<Self, Error> {
        let path = tracefs.join("events").join(category).join(name).join("format");
        let text =
            fs::read_to_string(&path).map_err(|source| Error::os(format!("reading {}", path.display()), source))?;
        Self::parse(&text, path)
    }

    fn parse(text: &str, path: PathBuf) -> Result<Self, Error> {
        let id = text.lines().find_map(|line| line.strip_prefix("ID:")).and_then(|id| id.trim().parse().ok());
        let Some(id) = id else {
            return Err(Error::TracepointFormat { path, problem: "no line with ID:".to_owned() });
        };
        let fields = text.lines().filter_map(parse_field).collect();
        Ok(Self { id, path, fields })
    }

    pub(super) fn field(&self, name: &str) -> Result<u32, Error> {
        let found = self.fields.iter().find(|(field, _)| field == name);
        found
            .map(|(_, offset)| *offset)
            .ok_or_else(|| Error::TracepointFormat { path: self.path.clone(), problem: format!("no field {name}") })
    }
}

/// `field:TYPE NAME;\toffset:N;…`, the name possibly with an array length.
fn parse_field(line: &str) -> Option<(String, u32)> {
    let (declaration, rest) = line.trim().strip_prefix("field:")?.split_once(';')?;
    let name = declaration.rsplit(' ').next()?;
    let name = name.split('[').next()?;
    let offset = rest.trim().strip_prefix("offset:")?.split(';').next()?;
    Some((name.to_owned(), offset.parse().ok()?))
}

/// Adds the fields of `mm_page_alloc`; returns its tracefs id.
pub(super) fn page_alloc(config: &mut Config) -> Result<u64, Error> {
    let (root, _mount) = tracefs()?;
    let format = TracepointFormat::read(&root, "kmem", "mm_page_alloc")?;
    config.page_alloc_pfn = format.field("pfn")?;
    config.page_alloc_order = format.field("order")?;
    config.page_alloc_gfp = format.field("gfp_flags")?;
    config.page_alloc_migratetype = format.field("migratetype")?;
    Ok(format.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    // As RHEL prints it: a common area of 12 bytes.
    const LONGER_COMMON_AREA: &str = "name: sched_x\nID: 42\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:unsigned char common_preempt_lazy_count;\toffset:8;\tsize:1;\tsigned:0;\n\n\
        \tfield:char prev_comm[16];\toffset:12;\tsize:16;\tsigned:0;\n\
        \tfield:unsigned long pfn;\toffset:32;\tsize:8;\tsigned:0;\n\nprint fmt: \"field:x y;offset:1;\"\n";

    #[test]
    fn offsets_come_from_the_format_file() {
        let format = TracepointFormat::parse(LONGER_COMMON_AREA, "f".into()).unwrap();
        assert_eq!((format.id, format.field("pfn").unwrap(), format.field("prev_comm").unwrap()), (42, 32, 12));
        assert!(format.field("order").unwrap_err().to_string().contains("no field order"));
        assert!(TracepointFormat::parse("format:", "f".into()).is_err());
    }

    #[test]
    fn a_tracefs_that_is_mounted_nowhere_serves_as_well() {
        let (_mount, root) = sys::private_tracefs().unwrap();
        let format = TracepointFormat::read(&root, "kmem", "mm_page_alloc").unwrap();
        assert!(format.id > 0 && format.field("pfn").is_ok());
    }

    #[test]
    fn this_kernel_has_all_that_is_needed() {
        let mut config = from_btf(&kernel_btf().unwrap()).unwrap();
        assert_ne!(config.irq_source, irq_source::UNKNOWN);
        assert!(page_alloc(&mut config).unwrap() > 0);
        assert!(config.page_alloc_pfn >= 8);
    }
}
