//! Probes on functions of user-space files.
//!
//! A `uprobe_multi` link holds any number of probes of one file. Kernels before 6.6 have only single ones,
//! each a perf event, and closing such an event takes about 0.1 s because the kernel waits for every CPU;
//! [`CallProbes`] is the same to its user either way.

use std::{
    ffi::{CStr, CString},
    fs, io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

use super::{
    Error, UprobeLinks,
    object::{Hook, Loaded},
    sys::{self, PerfAttributes},
};

/// One function to probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Where the probe's instruction is in the file: an offset, not an address. The function's first one, or
    /// one behind instructions that touch neither stack nor arguments (such as `endbr64`).
    pub offset: u64,
    /// Id that its records carry; set its [`FunctionSpec`](super::FunctionSpec) before.
    pub function: u32,
}

/// Attached function probes. Dropping it detaches them: entries first, so that the returns of calls under
/// way still come as long as possible.
#[derive(Debug)]
pub struct CallProbes {
    // Dropped in this order.
    entries: Vec<OwnedFd>,
    returns: Vec<OwnedFd>,
    events: Vec<OwnedFd>,
}

impl CallProbes {
    /// Whether one link holds them all.
    pub fn is_multi(&self) -> bool {
        self.events.is_empty()
    }

    /// Links that hold them, for diagnostics.
    pub fn links(&self) -> usize {
        self.entries.len() + self.returns.len()
    }
}

/// The two programs, loaded for one kind of link.
#[derive(Debug)]
pub(super) struct Uprobes {
    entry: OwnedFd,
    on_return: OwnedFd,
    single: Option<SinglePmu>,
}

/// How perf wants a single probe described.
#[derive(Clone, Copy, Debug)]
struct SinglePmu {
    event_type: u32,
    return_flag: u64,
}

const PMU: &str = "/sys/bus/event_source/devices/uprobe";

impl SinglePmu {
    fn read() -> Result<Self, Error> {
        let read = |name: &str| {
            let path = format!("{PMU}/{name}");
            fs::read_to_string(&path).map_err(|source| Error::os(format!("reading {path}"), source))
        };
        let parsed = read("type")?.trim().parse().ok();
        // "config:0"
        let bit = read("format/retprobe")?.trim().strip_prefix("config:").and_then(|bit| bit.parse::<u32>().ok());
        match (parsed, bit) {
            (Some(event_type), Some(bit @ 0..64)) => Ok(Self { event_type, return_flag: 1 << bit }),
            _ => Err(Error::Os { action: format!("reading {PMU}"), source: io::Error::other("unknown format") }),
        }
    }
}

impl Uprobes {
    /// Loads the programs for the kind of link that is wanted and possible.
    pub(super) fn load(object: &Loaded, links: UprobeLinks) -> Result<Self, Error> {
        let load = |hook, single| {
            Ok(Self {
                entry: object.program("call_entry", hook)?,
                on_return: object.program("call_return", hook)?,
                single,
            })
        };
        if links != UprobeLinks::Single {
            let multi: Result<Self, Error> = load(Hook::UprobeMulti, None);
            match multi {
                Ok(multi) if multi.kernel_knows_multi() => return Ok(multi),
                Err(error @ Error::NotPermitted { .. }) => return Err(error),
                _ if links == UprobeLinks::Multi => return Err(Error::NoMultiLinks),
                _ => {}
            }
        }
        load(Hook::Uprobe, Some(SinglePmu::read()?))
    }

    pub(super) fn programs(&self) -> [&OwnedFd; 2] {
        [&self.entry, &self.on_return]
    }

    pub(super) fn is_multi(&self) -> bool {
        self.single.is_none()
    }

    /// Asks for a link to something that is no file: a kernel that has such links says so, another one
    /// does not know what is meant.
    fn kernel_knows_multi(&self) -> bool {
        let answer = sys::link_uprobe_multi(self.entry.as_fd(), c"/", &[0], &[0], false);
        answer.is_err_and(|error| error.raw_os_error() == Some(libc::EBADF))
    }

    /// Attaches to every place in `file`. Returns come first: an entry whose return is not probed yet would
    /// look like a call that never ended.
    pub(super) fn attach(&self, file: &Path, probes: &[Probe], with_returns: bool) -> Result<CallProbes, Error> {
        let path = CString::new(file.as_os_str().as_bytes()).map_err(|_| Error::Os {
            action: format!("attaching to {}", file.display()),
            source: io::Error::other("zero byte in path"),
        })?;
        let failed = |source: io::Error| {
            let offset = probes.first().map_or(0, |probe| probe.offset);
            Error::os(
                format!("attaching {} probes to {}, the first at {offset:#x}", probes.len(), file.display()),
                source,
            )
        };
        let mut attached = CallProbes { entries: Vec::new(), returns: Vec::new(), events: Vec::new() };
        if probes.is_empty() {
            return Ok(attached);
        }
        match self.single {
            None => {
                let (offsets, cookies): (Vec<u64>, Vec<u64>) =
                    probes.iter().map(|probe| (probe.offset, u64::from(probe.function))).unzip();
                let link = |program: &OwnedFd, at_return| {
                    sys::link_uprobe_multi(program.as_fd(), &path, &offsets, &cookies, at_return).map_err(failed)
                };
                if with_returns {
                    attached.returns.push(link(&self.on_return, true)?);
                }
                attached.entries.push(link(&self.entry, false)?);
            }
            Some(pmu) => {
                for probe in probes {
                    for (program, links, config) in [
                        (&self.on_return, &mut attached.returns, pmu.return_flag),
                        (&self.entry, &mut attached.entries, 0),
                    ] {
                        if config != 0 && !with_returns {
                            continue;
                        }
                        let event = pmu.open(&path, probe.offset, config).map_err(failed)?;
                        let cookie = u64::from(probe.function);
                        links.push(sys::link_perf_event(program.as_fd(), event.as_fd(), cookie).map_err(failed)?);
                        attached.events.push(event);
                    }
                }
            }
        }
        Ok(attached)
    }
}

impl SinglePmu {
    fn open(self, path: &CStr, offset: u64, config: u64) -> io::Result<OwnedFd> {
        let attributes = PerfAttributes {
            event_type: self.event_type,
            config,
            config1: path.as_ptr() as u64,
            config2: offset,
            ..PerfAttributes::default()
        };
        // SAFETY: config1 is a C string. One CPU is named, yet such probes hit on all.
        unsafe { sys::perf_event_open(attributes, 0) }
    }
}
