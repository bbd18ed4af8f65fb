//! Groups of the kernel's cgroup file system, of either version.
#![expect(clippy::unwrap_used, reason = "a harness tells the test that it failed by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A group of its own for one controller; removed when dropped.
#[derive(Debug)]
pub struct Cgroup {
    folder: PathBuf,
    version: u8,
}

impl Cgroup {
    /// A group below the root of `cpu` or `memory`.
    ///
    /// # Panics
    /// Where the kernel has no such controller that can be used.
    #[must_use]
    pub fn new(controller: &str) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!("ingero-test-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let controllers = fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").unwrap_or_default();
        let (root, version) = if controllers.split_whitespace().any(|c| c == controller) {
            let _ = fs::write("/sys/fs/cgroup/cgroup.subtree_control", format!("+{controller}"));
            (PathBuf::from("/sys/fs/cgroup"), 2)
        } else {
            let mounts = fs::read_to_string("/proc/mounts").unwrap();
            let root = mounts
                .lines()
                .map(|l| l.split(' ').collect::<Vec<_>>())
                .find(|f| f[2] == "cgroup" && f[3].split(',').any(|o| o == controller))
                .map_or_else(|| mount_v1(controller), |f| PathBuf::from(f[1]));
            (root, 1)
        };
        let folder = root.join(name);
        fs::create_dir(&folder).unwrap();
        Self { folder, version }
    }

    /// A group that may have so much memory.
    ///
    /// # Panics
    /// Where the kernel has no memory controller that can be used.
    #[must_use]
    pub fn with_memory(bytes: u64) -> Self {
        let group = Self::new("memory");
        group.set("memory.limit_in_bytes", "memory.max", &bytes.to_string());
        group
    }

    /// How much its processes count beside others: 1024 is what each group counts by itself.
    ///
    /// # Panics
    /// Where the kernel does not take it.
    pub fn set_weight(&self, shares: u32) {
        // Version 2 counts from 100.
        let (first, second) = (shares.to_string(), (shares * 100 / 1024).max(1).to_string());
        let (file, value) = if self.version == 1 { ("cpu.shares", first) } else { ("cpu.weight", second) };
        self.set(file, file, &value);
    }

    fn set(&self, first: &str, second: &str, value: &str) {
        fs::write(self.folder.join(if self.version == 1 { first } else { second }), value).unwrap();
    }

    /// Its folder, with `cgroup.procs`.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A command that runs `program` with these arguments in the group.
    #[must_use]
    pub fn command(&self, program: &Path, args: &[&str]) -> Vec<String> {
        let script = r#"echo $$ > "$0/cgroup.procs" && exec "$@""#;
        let mut command = vec!["sh".to_owned(), "-c".to_owned(), script.to_owned()];
        command.push(self.folder.display().to_string());
        command.push(program.display().to_string());
        command.extend(args.iter().map(|&a| a.to_owned()));
        command
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // The last of its processes may be a zombie for a moment yet.
        for _ in 0..100 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

/// A group with a CPU quota.
#[derive(Debug)]
pub struct Quota(Cgroup);

impl Quota {
    /// So many microseconds of CPU time in each period.
    ///
    /// # Panics
    /// Where the kernel offers no quota.
    #[must_use]
    pub fn new(quota_us: u32, period_us: u32) -> Self {
        let group = Cgroup::new("cpu");
        if group.version == 2 {
            fs::write(group.folder.join("cpu.max"), format!("{quota_us} {period_us}")).unwrap();
        } else {
            fs::write(group.folder.join("cpu.cfs_period_us"), period_us.to_string()).unwrap();
            fs::write(group.folder.join("cpu.cfs_quota_us"), quota_us.to_string()).unwrap();
        }
        Self(group)
    }

    /// The group.
    #[must_use]
    pub fn group(&self) -> &Cgroup {
        &self.0
    }

    /// What the kernel says.
    ///
    /// # Panics
    /// Where it says nothing.
    #[must_use]
    pub fn throttled_ns(&self) -> u64 {
        let stat = fs::read_to_string(self.0.folder.join("cpu.stat")).unwrap();
        stat.lines()
            .find_map(|l| {
                let (key, value) = l.split_once(' ')?;
                let value: u64 = value.parse().ok()?;
                match key {
                    "throttled_time" => Some(value),
                    "throttled_usec" => Some(value * 1000),
                    _ => None,
                }
            })
            .unwrap()
    }
}

fn mount_v1(controller: &str) -> PathBuf {
    let root = Path::new("/sys/fs/cgroup").join(controller);
    let _ = fs::create_dir_all(&root);
    let mut mount = std::process::Command::new("mount");
    let mounted = mount.args(["-t", "cgroup", "-o", controller, "cgroup"]).arg(&root).status();
    assert!(
        mounted.is_ok_and(|s| s.success()),
        "neither version of cgroups has a {controller} controller here that can be used"
    );
    root
}
