//! The embedded object: its maps created, its programs bound to them and given to the verifier.

use std::{
    collections::HashMap,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
};

use aya_obj::{
    EbpfSectionKind, Object,
    generated::{bpf_map_type, bpf_prog_type},
};
use ingero_ebpf_common::Config;

use super::{
    Error,
    sys::{self, MapShape, ProgramImage},
};

/// How a program hooks into the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hook {
    /// A tracepoint with typed arguments, by BTF type id.
    Typed(u32),
    /// The end of a kernel function, by BTF type id.
    FunctionExit(u32),
    /// Any raw tracepoint, named when it is attached.
    Raw,
    /// A perf event: one user-space probe.
    Uprobe,
    /// Many user-space probes.
    UprobeMulti,
}

/// Typed tracepoint programs: `BPF_TRACE_RAW_TP`.
const TRACE_RAW_TP: u32 = 23;
/// Programs at the end of a function: `BPF_TRACE_FEXIT`.
const TRACE_FEXIT: u32 = 25;

impl Hook {
    /// Program type, attach type and BTF id to load with.
    fn load_as(self) -> (bpf_prog_type, u32, u32) {
        match self {
            Self::Typed(id) => (bpf_prog_type::BPF_PROG_TYPE_TRACING, TRACE_RAW_TP, id),
            Self::FunctionExit(id) => (bpf_prog_type::BPF_PROG_TYPE_TRACING, TRACE_FEXIT, id),
            Self::Raw => (bpf_prog_type::BPF_PROG_TYPE_RAW_TRACEPOINT, 0, 0),
            Self::Uprobe => (bpf_prog_type::BPF_PROG_TYPE_KPROBE, 0, 0),
            Self::UprobeMulti => (bpf_prog_type::BPF_PROG_TYPE_KPROBE, sys::UPROBE_MULTI, 0),
        }
    }
}

const VERIFIER_LOG_BYTES: usize = 1 << 20;
/// Lines of the verifier's log that an error quotes: the reason is in the last ones.
const VERIFIER_LOG_LINES: usize = 12;

/// The object with its maps in the kernel.
#[derive(Debug)]
pub(super) struct Loaded {
    object: Object,
    maps: HashMap<String, OwnedFd>,
}

impl Loaded {
    /// Creates the maps. `rings` holds, for each CPU number, the ring that this CPU writes to.
    pub(super) fn new(bytes: &[u8], config: &Config, rings: &[BorrowedFd<'_>]) -> Result<Self, Error> {
        let bad = |problem: String| Error::Object { problem };
        let mut object = Object::parse(bytes).map_err(|error| bad(error.to_string()))?;
        object
            .patch_map_data(HashMap::from([("CONFIG", (bytemuck::bytes_of(config), true))]))
            .map_err(|error| bad(error.to_string()))?;

        let mut maps = HashMap::new();
        for (name, map) in &object.maps {
            let of_rings = map.map_type() == bpf_map_type::BPF_MAP_TYPE_ARRAY_OF_MAPS as u32;
            let shape = MapShape {
                map_type: map.map_type(),
                key_size: map.key_size(),
                value_size: map.value_size(),
                max_entries: if of_rings { rings.len() as u32 } else { map.max_entries() },
                flags: map.map_flags(),
            };
            let like = rings.first().copied().filter(|_| of_rings);
            let fd = sys::map_create(name, shape, like)
                .map_err(|source| Error::os(format!("creating map {name}"), source))?;
            if of_rings {
                for (cpu, ring) in (0_u32..).zip(rings) {
                    sys::map_update(fd.as_fd(), &cpu, bytemuck::bytes_of(&ring.as_raw_fd()))
                        .map_err(|source| Error::os(format!("giving CPU {cpu} its ring"), source))?;
                }
            }
            if map.section_kind() == EbpfSectionKind::Rodata {
                sys::map_update(fd.as_fd(), &0_u32, map.data())
                    .and_then(|()| sys::map_freeze(fd.as_fd()))
                    .map_err(|source| Error::os(format!("filling map {name}"), source))?;
            }
            maps.insert(name.clone(), fd);
        }

        let sections = object.functions.keys().map(|(section, _)| *section).collect();
        let described = object.maps.clone();
        let bound = described.iter().filter_map(|(name, map)| Some((name.as_str(), maps.get(name)?.as_raw_fd(), map)));
        object.relocate_maps(bound, &sections).map_err(|error| bad(error.to_string()))?;
        object.relocate_calls(&sections).map_err(|error| bad(error.to_string()))?;
        Ok(Self { object, maps })
    }

    /// A map by name, as a descriptor of its own.
    pub(super) fn map(&self, name: &str) -> Result<OwnedFd, Error> {
        let map = self.maps.get(name).ok_or_else(|| Error::Object { problem: format!("no map {name}") })?;
        map.try_clone().map_err(|source| Error::os(format!("duplicating map {name}"), source))
    }

    /// Gives a program to the verifier. The same one may be loaded for several hooks.
    pub(super) fn program(&self, name: &str, hook: Hook) -> Result<OwnedFd, Error> {
        let missing = || Error::Object { problem: format!("no program {name}") };
        let program = self.object.programs.get(name).ok_or_else(missing)?;
        let function = self.object.functions.get(&program.function_key()).ok_or_else(missing)?;
        let (program_type, attach_type, attach_btf_id) = hook.load_as();
        let image = ProgramImage {
            name,
            program_type: program_type as u32,
            attach_type,
            attach_btf_id,
            instructions: &function.instructions,
            license: &self.object.license,
        };
        let first = match sys::prog_load(image, &mut []) {
            Ok(program) => return Ok(program),
            Err(error) => error,
        };
        if matches!(first.raw_os_error(), Some(libc::EPERM)) {
            return Err(Error::os(format!("loading program {name}"), first));
        }
        // Once more with a log: it costs time that a load which succeeds need not spend.
        let mut log = vec![0; VERIFIER_LOG_BYTES];
        match sys::prog_load(image, &mut log) {
            Ok(program) => Ok(program),
            Err(source) => Err(Error::Refused { program: name.to_owned(), source, log: last_lines(&log) }),
        }
    }
}

fn last_lines(log: &[u8]) -> String {
    let text = log.split(|byte| *byte == 0).next().unwrap_or_default();
    let text = String::from_utf8_lossy(text);
    let lines: Vec<_> = text.lines().filter(|line| !line.is_empty()).collect();
    lines.get(lines.len().saturating_sub(VERIFIER_LOG_LINES)..).unwrap_or_default().join(" | ")
}

#[cfg(test)]
mod tests {
    use super::last_lines;

    #[test]
    fn verifier_log_is_cut_to_its_end() {
        let log: String = (0..100).map(|n| format!("line {n}\n")).collect();
        let mut bytes = log.into_bytes();
        bytes.extend([0; 50]);
        assert!(last_lines(&bytes).starts_with("line 88 | ") && last_lines(&bytes).ends_with("line 99"));
        assert_eq!(last_lines(&[0; 4]), "");
    }
}
