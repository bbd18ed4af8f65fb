//! Control groups of both versions: who is in which, what it may use and what it used.

use std::fs;
use std::path::{Path, PathBuf};

use ingero_format::catalog::CgroupSample;

/// A group, as a process's file and the mounts have it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    /// Path below the hierarchy's root: of version 1's cpu controller, else of version 2.
    pub path: String,
    /// Path in version 1's memory controller, which may differ.
    memory: String,
}

/// Where the hierarchies are mounted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mounts {
    unified: Option<Mount>,
    cpu: Option<Mount>,
    cpuacct: Option<Mount>,
    memory: Option<Mount>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Mount {
    at: PathBuf,
    /// The group that is seen at its top.
    root: String,
}

impl Mount {
    fn dir(&self, group: &str) -> PathBuf {
        let below = if self.root == "/" { group } else { group.strip_prefix(self.root.as_str()).unwrap_or(group) };
        self.at.join(below.trim_start_matches('/'))
    }
}

impl Mounts {
    /// Finds them.
    #[must_use]
    pub fn read() -> Self {
        Self::parse(&fs::read_to_string("/proc/self/mountinfo").unwrap_or_default())
    }

    fn parse(mountinfo: &str) -> Self {
        let mut mounts = Self::default();
        for line in mountinfo.lines() {
            let Some((left, right)) = line.split_once(" - ") else { continue };
            let (mut left, mut right) = (left.split(' ').skip(3), right.split(' '));
            let (Some(root), Some(at), Some(kind)) = (left.next(), left.next(), right.next()) else { continue };
            let mount = || Some(Mount { at: PathBuf::from(at), root: root.to_owned() });
            let controllers = || right.clone().nth(1).unwrap_or_default().split(',').collect::<Vec<_>>();
            match kind {
                "cgroup2" => mounts.unified = mounts.unified.take().or_else(mount),
                "cgroup" => {
                    for controller in controllers() {
                        match controller {
                            "cpu" => mounts.cpu = mounts.cpu.take().or_else(mount),
                            "cpuacct" => mounts.cpuacct = mounts.cpuacct.take().or_else(mount),
                            "memory" => mounts.memory = mounts.memory.take().or_else(mount),
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        mounts
    }

    /// The group of a process; `None` when there is no such process, or no hierarchy that limits CPUs.
    #[must_use]
    pub fn group_of(&self, pid: u32) -> Option<Group> {
        self.parse_group(&fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?)
    }

    /// Lines such as `4:cpu,cpuacct:/path` and `0::/path`.
    fn parse_group(&self, text: &str) -> Option<Group> {
        let of = |controller: &str| {
            text.lines().find_map(|line| {
                let (_, rest) = line.split_once(':')?;
                let (controllers, path) = rest.split_once(':')?;
                controllers.split(',').any(|c| c == controller).then(|| path.to_owned())
            })
        };
        let unified = || self.unified.as_ref().and_then(|_| of(""));
        let path = self.cpu.as_ref().and_then(|_| of("cpu")).or_else(unified)?;
        let memory = of("memory").or_else(|| of("")).unwrap_or_default();
        Some(Group { path, memory })
    }

    /// What a group has used, and may use.
    #[must_use]
    pub fn sample(&self, group: &Group) -> CgroupSample {
        let blank = CgroupSample::default();
        let Some(cpu) = &self.cpu else {
            return self.unified.as_ref().map_or(blank, |mount| sample_unified(&mount.dir(&group.path)));
        };
        let (cpu, usage) = (cpu.dir(&group.path), self.cpuacct.as_ref().map(|mount| mount.dir(&group.path)));
        let stat = read(&cpu, "cpu.stat");
        let micros = |name| Some(number(&read(&cpu, name)?)?.saturating_mul(1000));
        CgroupSample {
            usage_ns: usage.and_then(|dir| number(&read(&dir, "cpuacct.usage")?)),
            // -1 stands for none, and is no number here.
            quota_ns: micros("cpu.cfs_quota_us"),
            period_ns: micros("cpu.cfs_period_us"),
            periods: field(stat.as_deref(), "nr_periods"),
            throttled: field(stat.as_deref(), "nr_throttled"),
            throttled_ns: field(stat.as_deref(), "throttled_time"),
            ..self.memory_of(group)
        }
    }

    fn memory_of(&self, group: &Group) -> CgroupSample {
        /// Version 1 writes the largest number of pages that fits for "no limit".
        const NO_LIMIT: u64 = 1 << 62;
        let blank = CgroupSample::default();
        match (&self.memory, &self.unified) {
            (Some(mount), _) => {
                let dir = mount.dir(&group.memory);
                let of = |name| number(&read(&dir, name)?);
                let memory_max_bytes = of("memory.limit_in_bytes").filter(|&limit| limit < NO_LIMIT);
                CgroupSample { memory_bytes: of("memory.usage_in_bytes"), memory_max_bytes, ..blank }
            }
            (None, Some(mount)) => {
                let all = sample_unified(&mount.dir(&group.memory));
                CgroupSample { memory_bytes: all.memory_bytes, memory_max_bytes: all.memory_max_bytes, ..blank }
            }
            _ => blank,
        }
    }
}

fn sample_unified(dir: &Path) -> CgroupSample {
    let stat = read(dir, "cpu.stat");
    let micros = |name| field(stat.as_deref(), name).map(|micros| micros.saturating_mul(1000));
    let max = read(dir, "cpu.max");
    let mut max = max.as_deref().unwrap_or_default().split_ascii_whitespace();
    // "max" stands for none, and is no number here.
    let mut next = || Some(max.next()?.parse::<u64>().ok()?.saturating_mul(1000));
    CgroupSample {
        quota_ns: next(),
        period_ns: next(),
        usage_ns: micros("usage_usec"),
        periods: field(stat.as_deref(), "nr_periods"),
        throttled: field(stat.as_deref(), "nr_throttled"),
        throttled_ns: micros("throttled_usec"),
        memory_bytes: read(dir, "memory.current").as_deref().and_then(number),
        memory_max_bytes: read(dir, "memory.max").as_deref().and_then(number),
        ..CgroupSample::default()
    }
}

fn read(dir: &Path, name: &str) -> Option<String> {
    fs::read_to_string(dir.join(name)).ok()
}

fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

fn field(text: Option<&str>, name: &str) -> Option<u64> {
    number(text?.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?)
}

impl Group {
    /// The groups above it, without the root, the nearest first.
    #[must_use]
    pub fn ancestors(&self) -> Vec<Group> {
        let up =
            |path: &str| path.rfind('/').map(|at| path.get(..at).unwrap_or_default().to_owned()).unwrap_or_default();
        let mut groups = Vec::new();
        let mut above = Group { path: up(&self.path), memory: up(&self.memory) };
        while !above.path.is_empty() {
            let next = Group { path: up(&above.path), memory: up(&above.memory) };
            groups.push(std::mem::replace(&mut above, next));
        }
        groups
    }

    /// The container that the path names.
    #[must_use]
    pub fn container(&self) -> Option<&str> {
        self.path.rsplit('/').find_map(container_in)
    }

    /// The uid of the pod that a kubelet's path names.
    #[must_use]
    pub fn pod(&self) -> Option<String> {
        self.path.split('/').find_map(|part| {
            // `pod<uid>`, or `kubepods-burstable-pod<uid>.slice` with underscores for dashes.
            let (before, uid) = part.rsplit_once("pod")?;
            let uid = uid.strip_suffix(".slice").unwrap_or(uid).replace('_', "-");
            let known = before.is_empty() || before.starts_with("kubepods");
            let is_uid = uid.len() >= 32 && uid.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
            (known && is_uid).then_some(uid)
        })
    }
}

/// `<64 hex>`, `docker-<64 hex>.scope` and its kin, or LXC's `lxc.payload.NAME`.
fn container_in(part: &str) -> Option<&str> {
    if let Some(name) = part.strip_prefix("lxc.payload.").filter(|name| !name.is_empty()) {
        return Some(name);
    }
    let part = part.strip_suffix(".scope").unwrap_or(part);
    // `crio-conmon-…` and `libpod-conmon-…` hold the container's minder.
    if part.contains("conmon") {
        return None;
    }
    let id = part.rsplit_once('-').map_or(part, |(_, id)| id);
    (id.len() == 64 && id.bytes().all(|b| b.is_ascii_hexdigit())).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn group(path: &str) -> Group {
        Group { path: path.to_owned(), memory: path.to_owned() }
    }

    #[test]
    fn containers_and_pods_are_in_the_path() {
        let uid = "1f2e3d4c-0000-4000-8000-00000000000a";
        let systemd = format!(
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice/cri-containerd-{ID}.scope",
            uid.replace('-', "_")
        );
        let cgroupfs = format!("/kubepods/besteffort/pod{uid}/{ID}");
        for path in [&systemd, &cgroupfs] {
            assert_eq!((group(path).container(), group(path).pod().as_deref()), (Some(ID), Some(uid)), "{path}");
        }
        for path in [
            format!("/docker/{ID}"),
            format!("/system.slice/docker-{ID}.scope"),
            format!("/machine.slice/libpod-{ID}.scope/container"),
        ] {
            assert_eq!((group(&path).container(), group(&path).pod()), (Some(ID), None), "{path}");
        }
        assert_eq!(group("/lxc.payload.web/system.slice").container(), Some("web"));
        for path in
            ["/", "", "/user.slice/user-0.slice/session-1.scope", "/podium/x", &format!("/libpod-conmon-{ID}.scope")]
        {
            assert_eq!((group(path).container(), group(path).pod()), (None, None), "{path}");
        }
    }

    #[test]
    fn groups_above() {
        let paths: Vec<_> = group("/a/b/c").ancestors().into_iter().map(|g| g.path).collect();
        assert_eq!(paths, ["/a/b", "/a"]);
        assert!(group("/").ancestors().is_empty() && group("").ancestors().is_empty());
    }

    #[test]
    fn either_version_is_found() {
        let hybrid = Mounts::parse(
            "30 25 0:26 / /sys/fs/cgroup/unified rw,nosuid shared:9 - cgroup2 cgroup2 rw\n\
             31 25 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
             32 25 0:28 /outer /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
             nonsense\n33 25 - \n",
        );
        let found = hybrid.parse_group("4:memory:/outer/m\n3:cpu,cpuacct:/c\n1:name=systemd:/s\n0::/u\n").unwrap();
        assert_eq!((found.path.as_str(), found.memory.as_str()), ("/c", "/outer/m"));
        assert_eq!(hybrid.memory.as_ref().unwrap().dir(&found.memory), Path::new("/sys/fs/cgroup/memory/m"));
        let unified = Mounts::parse("30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        assert_eq!(unified.parse_group("0::/u\n"), Some(group("/u")));
        assert_eq!(Mounts::default().parse_group("0::/u\n"), None);
    }

    #[test]
    fn a_group_of_version_2_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        write("cpu.stat", "usage_usec 700\nuser_usec 1\nnr_periods 9\nnr_throttled 4\nthrottled_usec 30\n");
        write("cpu.max", "20000 100000\n");
        write("memory.current", "4096\n");
        write("memory.max", "max\n");
        let sample = sample_unified(dir.path());
        assert_eq!(
            (sample.usage_ns, sample.quota_ns, sample.period_ns),
            (Some(700_000), Some(20_000_000), Some(100_000_000))
        );
        assert_eq!((sample.periods, sample.throttled, sample.throttled_ns), (Some(9), Some(4), Some(30_000)));
        assert_eq!((sample.memory_bytes, sample.memory_max_bytes), (Some(4096), None));
        write("cpu.max", "max 100000\n");
        let sample = sample_unified(dir.path());
        assert_eq!((sample.quota_ns, sample.period_ns), (None, Some(100_000_000)));
        assert_eq!(sample_unified(Path::new("/nonexistent")), CgroupSample::default());
    }
}
