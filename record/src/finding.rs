//! What was found by looking, not told by a probe: on its way from the threads that look to the writer.

use std::io::Write;

use ingero_format::catalog::{
    self, Affinity, BOUND_WHEN_SEEN, CgroupSample, CpuFrequency, MARKED_IN_FILE, Mark, NO_CPU, Pressure, ProcessCgroup,
    ProcessSample,
};
use ingero_format::{Error, TraceWriter};

use crate::proc::clock::monotonic_ns;
use crate::tasks::{At, Tasks};

/// One finding and its moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// `CLOCK_MONOTONIC`.
    pub ts_ns: u64,
    /// What it is.
    pub what: What,
}

/// What was found. Processes are named by id and strings are whole: only the writer knows the file's own numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A line in the file of marks.
    Mark(String),
    /// A resource that tasks lack.
    Pressure(Pressure),
    /// A CPU's clock.
    Frequency(CpuFrequency),
    /// What a process has used; `task` is still to be filled in.
    Process(u32, ProcessSample),
    /// What a control group has used; `cgroup` is still to be filled in.
    Cgroup(String, CgroupSample),
    /// Which control group a process is in: its path, the container and the pod.
    Membership(u32, String, Option<String>, Option<String>),
    /// A thread and its process, and the CPUs that it may use now.
    Affinity(u32, u32, String),
    /// A file that a process has mapped as code; `task`, `file` and `build_id` are still to be filled in.
    Mapping(u32, catalog::Mapping, String, Option<String>),
    /// State of a GPU, its unique id and its name; these are still to be filled in.
    Gpu(Box<catalog::GpuSample>, Option<String>, Option<String>),
}

impl What {
    /// The kind of the row that it becomes.
    #[must_use]
    pub fn kind(&self) -> catalog::Kind {
        match self {
            Self::Mark(_) => catalog::Kind::Mark,
            Self::Pressure(_) => catalog::Kind::Pressure,
            Self::Frequency(_) => catalog::Kind::CpuFrequency,
            Self::Process(..) => catalog::Kind::ProcessSample,
            Self::Cgroup(..) => catalog::Kind::CgroupSample,
            Self::Membership(..) => catalog::Kind::ProcessCgroup,
            Self::Affinity(..) => catalog::Kind::Affinity,
            Self::Mapping(..) => catalog::Kind::Mapping,
            Self::Gpu(..) => catalog::Kind::GpuSample,
        }
    }
}

impl Finding {
    /// Found at this moment.
    #[must_use]
    pub fn now(what: What) -> Self {
        Self { ts_ns: monotonic_ns(), what }
    }

    /// Writes it down.
    ///
    /// # Errors
    /// When the file does not take it.
    pub fn write<W: Write>(self, out: &mut TraceWriter<W>, tasks: &mut Tasks) -> Result<(), Error> {
        let at = At { ts_ns: self.ts_ns, cpu: NO_CPU };
        match self.what {
            What::Mark(text) => {
                let text = Some(out.string(&text));
                out.push(at.ts_ns, at.cpu, &Mark { task: None, text, source: MARKED_IN_FILE })
            }
            What::Pressure(row) => out.push(at.ts_ns, at.cpu, &row),
            What::Frequency(row) => out.push(at.ts_ns, at.cpu, &row),
            What::Process(pid, row) => {
                let task = tasks.get(out, at, pid, pid)?;
                out.push(at.ts_ns, at.cpu, &ProcessSample { task, ..row })
            }
            What::Cgroup(path, row) => {
                let cgroup = out.string(&path);
                out.push(at.ts_ns, at.cpu, &CgroupSample { cgroup, ..row })
            }
            What::Membership(pid, path, container, pod) => {
                let task = tasks.get(out, at, pid, pid)?;
                let cgroup = out.string(&path);
                let container = container.map(|id| out.string(&id));
                let pod = pod.map(|uid| out.string(&uid));
                out.push(at.ts_ns, at.cpu, &ProcessCgroup { task, cgroup, container, pod })
            }
            What::Affinity(tid, pid, cpus) => {
                let task = tasks.get(out, at, tid, pid)?;
                let cpus = out.string(&cpus);
                out.push(at.ts_ns, at.cpu, &Affinity { task, cpus, source: BOUND_WHEN_SEEN })
            }
            What::Mapping(pid, row, file, build_id) => {
                let task = tasks.get(out, at, pid, pid)?;
                let file = out.string(&file);
                let build_id = build_id.map(|id| out.string(&id));
                out.push(at.ts_ns, at.cpu, &catalog::Mapping { task, file, build_id, ..row })
            }
            What::Gpu(row, uuid, name) => {
                let uuid = uuid.map(|id| out.string(&id));
                let name = name.map(|name| out.string(&name));
                out.push(at.ts_ns, at.cpu, &catalog::GpuSample { uuid, name, ..*row })
            }
        }
    }
}
