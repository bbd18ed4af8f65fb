//! Sources beside calls and the scheduler: each does what it is about for real, and looks for it in the file.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;
use std::process::Command;

use ingero_format::Trace;
use ingero_format::catalog::{Body, NO_CPU, StrId, TaskId};
use ingero_replay::{Event, Merge};
use ingero_tests::{Recording, record_with};

struct Seen {
    recording: Recording,
    trace: Trace,
    events: Vec<Event>,
}

/// Records a shell script.
fn recorded(script: &str) -> Seen {
    let recording = record_with(&[], &["sh".to_owned(), "-c".to_owned(), script.to_owned()], &[]);
    assert_eq!(recording.run.code(), 0, "{}", recording.run.stderr);
    let trace = Trace::open(&recording.file).unwrap();
    let events: Vec<_> = Merge::new(&trace).collect();
    assert!(trace.complete() && !events.is_empty());
    Seen { recording, trace, events }
}

impl Seen {
    fn each<T>(&self, pick: impl Fn(&Body) -> Option<T>) -> Vec<T> {
        self.events.iter().filter_map(|e| pick(&e.body)).collect()
    }

    /// Tasks that ever had this name.
    fn named(&self, name: &str) -> Vec<TaskId> {
        self.each(|b| match b {
            Body::Name(n) if self.trace.string(n.name) == name => Some(n.task),
            _ => None,
        })
    }

    fn text(&self, id: StrId) -> &str {
        self.trace.string(id)
    }

    fn is_absent(&self, event: &str) -> bool {
        self.trace.meta("absent").unwrap().split(',').any(|name| name == event)
    }
}

#[test]
fn direct_writes_are_requests_of_the_task_that_made_them() {
    let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let file = dir.path().join("data");
    let seen = recorded(&format!("dd if=/dev/zero of={} bs=64k count=40 oflag=direct 2>/dev/null", file.display()));
    let dd = seen.named("dd");
    let issued: Vec<_> = seen.each(|b| match b {
        Body::BlockIssue(r) if dd.contains(&r.task) && seen.text(r.rwbs).starts_with('W') => Some(*r),
        _ => None,
    });
    assert_eq!(issued.iter().map(|r| r.bytes).sum::<u64>(), 40 << 16, "{issued:?}");
    // Each of them was finished, at the same place of the same device, without an error.
    let done: Vec<_> = seen.each(|b| match b {
        Body::BlockComplete(r) => Some(*r),
        _ => None,
    });
    for r in &issued {
        let found = done.iter().find(|d| (d.dev, d.sector, d.bytes) == (r.dev, r.sector, r.bytes));
        assert_eq!(found.map(|d| d.error), Some(0), "{r:?}");
    }
    let meta = fs::metadata(&file).unwrap();
    let dev = std::os::unix::fs::MetadataExt::dev(&meta);
    let (major, minor) = (dev >> 8 & 0xfff, dev & 0xff);
    assert!(issued.iter().all(|r| r.dev == major << 20 | minor), "{issued:?} on {major}:{minor}");
}

#[test]
fn each_first_touch_of_a_page_is_a_fault() {
    const PAGES: usize = 3000;
    let script = format!(
        "import mmap; m = mmap.mmap(-1, {PAGES} * 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); m.madvise(mmap.MADV_NOHUGEPAGE)\nfor i in range({PAGES}): m[i * 4096] = 1\nprint('touched', flush=True)"
    );
    let seen = recorded(&format!("exec python3 -c \"{script}\""));
    let faults: Vec<_> = seen.each(|b| match b {
        Body::PageFault(r) => Some(*r),
        _ => None,
    });
    // The longest run of neighbouring pages, written to from user space (not there: 6).
    let mut pages: Vec<u64> = faults.iter().filter(|r| r.error & 7 == 6).map(|r| r.address >> 12).collect();
    pages.sort_unstable();
    pages.dedup();
    let longest = pages.chunk_by(|a, b| a + 1 == *b).map(<[_]>::len).max().unwrap();
    assert!(longest >= PAGES, "{longest} of {PAGES}, {} faults", faults.len());
    // Of no process but those that were asked for.
    let followed = seen.each(|b| match b {
        Body::Process(p) if p.followed == 1 => Some(seen.trace.task(p.task).pid),
        _ => None,
    });
    for r in &faults {
        assert!(followed.contains(&seen.trace.task(r.task).pid), "{r:?}, {followed:?}");
    }
}

#[test]
fn sockets_say_how_much_went_through_which_port() {
    let script = "
import socket, threading
server = socket.create_server(('127.0.0.1', 0))
port = server.getsockname()[1]
kept = []
def serve():
    peer, _ = server.accept()
    kept.append(peer)
    got = 0
    while got < 300000:
        got += len(peer.recv(65536))
    peer.sendall(b'x' * 17)
thread = threading.Thread(target=serve); thread.start()
client = socket.create_connection(('127.0.0.1', port))
client.sendall(b'y' * 300000)
assert client.recv(100) == b'x' * 17
client.setblocking(False)
try: client.recv(1)
except BlockingIOError: pass
thread.join(); print('port', port)
";
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("talk.py");
    fs::write(&path, script).unwrap();
    let seen = recorded(&format!("exec python3 {}", path.display()));
    if seen.is_absent("socket") {
        // A kernel before 6.3, and the file says so.
        return;
    }
    let port: u64 = seen.recording.run.stdout.lines().find_map(|l| l.strip_prefix("port ")).unwrap().parse().unwrap();
    let sum = |direction: u64, at_server: bool| -> i64 {
        let rows = seen.each(|b| match b {
            Body::SocketIo(r) if r.direction == direction && r.result > 0 => Some(*r),
            _ => None,
        });
        let mine = rows.iter().filter(|r| (if at_server { r.local_port } else { r.peer_port }) == Some(port));
        mine.map(|r| r.result).sum()
    };
    assert_eq!((sum(0, false), sum(1, true)), (300_000, 300_000));
    assert_eq!((sum(0, true), sum(1, false)), (17, 17));
    let refused = seen.each(|b| match b {
        Body::SocketIo(r) if r.result == -11 => Some((r.direction, r.family)),
        _ => None,
    });
    assert!(refused.contains(&(1, 2)), "{refused:?}");
}

#[test]
fn a_sleep_is_ended_by_the_timer_and_a_direct_write_by_the_device() {
    let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let file = dir.path().join("data");
    let script = format!(
        "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.01; done; dd if=/dev/zero of={} bs=64k count=200 oflag=direct 2>/dev/null",
        file.display()
    );
    let seen = recorded(&script);
    let woken = |name: &str| {
        let tasks = seen.named(name);
        seen.each(|b| match b {
            Body::Waking(w) if tasks.contains(&w.wakee) => w.source.map(|s| (s, w.irq)),
            _ => None,
        })
    };
    let timers = woken("sleep").iter().filter(|(source, _)| *source == 0).count();
    assert!(timers >= 10, "{:?}", woken("sleep"));
    let devices: Vec<_> = woken("dd").into_iter().filter(|(source, _)| *source == 1).collect();
    assert!(devices.len() >= 20, "{:?}", woken("dd"));
    // An interrupt that woke somebody has a row of its own, with the device's name for that number.
    let rows = seen.each(|b| match b {
        Body::Irq(r) if r.irq.is_some() && r.woke > 0 => Some((r.irq, seen.text(r.name).to_owned(), r.dur_ns)),
        _ => None,
    });
    let hard = |irq: &Option<u64>| {
        rows.iter().any(|(line, name, dur)| line == irq && !name.is_empty() && *dur < 1_000_000_000)
    };
    assert!(
        devices.iter().any(|(_, irq)| hard(irq)) || devices.iter().all(|(_, irq)| irq.is_some_and(|v| v < 10)),
        "{rows:?}"
    );
    let local = seen.each(|b| match b {
        Body::Irq(r) if r.irq.is_none() => Some(seen.text(r.name).to_owned()),
        _ => None,
    });
    assert!(cfg!(not(target_arch = "x86_64")) || local.iter().any(|name| name == "local_timer"), "{local:?}");
}

#[test]
fn affinity_is_known_from_the_start_and_when_it_changes() {
    let seen = recorded("taskset -p -c 1 $$ >/dev/null; sleep 1.3; taskset -p -c 0 $$ >/dev/null; sleep 1.3");
    // The machine may have other shells, which nobody binds meanwhile.
    let shells: Vec<_> = seen.named("sh").into_iter().map(|task| seen.trace.task(task).pid).collect();
    let mut rows = seen.each(|b| match b {
        Body::Affinity(r) => Some((seen.trace.task(r.task), seen.text(r.cpus).to_owned(), r.source)),
        _ => None,
    });
    assert!(rows.iter().all(|(_, cpus, _)| !cpus.is_empty()));
    // Every task that was there at the start.
    assert!(rows.iter().any(|(task, _, source)| task.pid == 1 && *source == 0));
    rows.retain(|(task, _, source)| shells.contains(&task.tid) && *source != 0);
    let mut changes: Vec<_> = rows.into_iter().map(|(_, cpus, _)| cpus).collect();
    changes.dedup();
    assert!(changes.ends_with(&["1".to_owned(), "0".to_owned()]), "{changes:?}");
}

#[test]
fn lines_in_the_file_of_marks_are_marks() {
    let seen = recorded(
        "test -w \"$INGERO_MARKS\" && echo epoch 1 >> \"$INGERO_MARKS\"; sleep 0.3; echo \"batch 'x'\" >> \"$INGERO_MARKS\"; echo $INGERO_MARKS",
    );
    let marks: Vec<_> = seen
        .events
        .iter()
        .filter_map(|e| match e.body {
            Body::Mark(m) => Some((e.ts_ns, e.cpu, seen.text(m.text.unwrap()).to_owned(), m.task, m.source)),
            _ => None,
        })
        .collect();
    let [(first, cpu, a, None, 0), (second, _, b, None, 0)] = &marks[..] else { panic!("{marks:?}") };
    assert_eq!((a.as_str(), b.as_str(), *cpu), ("epoch 1", "batch 'x'", NO_CPU));
    assert!((290_000_000..2_000_000_000).contains(&(second - first)), "{marks:?}");
    // Nothing is left behind.
    let path = Path::new(seen.recording.run.stdout.trim());
    assert!(path.is_absolute() && !path.exists() && !path.parent().unwrap().exists());
}

#[test]
fn a_file_of_marks_can_be_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("marks");
    fs::write(&path, "from another time\n").unwrap();
    let script = format!("echo $INGERO_MARKS; sleep 0.1; echo now >> {}", path.display());
    let recording = record_with(&["--marks", path.to_str().unwrap()], &["sh".to_owned(), "-c".to_owned(), script], &[]);
    assert_eq!(recording.run.stdout.trim(), path.to_str().unwrap());
    let trace = Trace::open(&recording.file).unwrap();
    let marks: Vec<_> = Merge::new(&trace)
        .filter_map(|e| match e.body {
            Body::Mark(m) => Some(trace.string(m.text.unwrap()).to_owned()),
            _ => None,
        })
        .collect();
    assert_eq!(marks, ["now"]);
    assert!(path.exists());
    let bad = record_with(&["--marks", dir.path().to_str().unwrap()], &["true".to_owned()], &[]);
    assert_eq!(bad.run.code(), 125);
    assert!(bad.run.stderr.contains("--marks") && bad.run.stderr.lines().count() == 1, "{}", bad.run.stderr);
}

/// A control group of version 1 or 2 that goes with its handle.
struct Group(Vec<std::path::PathBuf>);

impl Group {
    /// With a quota of a fifth of a CPU, or with a limit of memory.
    fn new(name: &str, memory_bytes: Option<u64>) -> Self {
        let root = Path::new("/sys/fs/cgroup");
        if root.join("cgroup.controllers").exists() {
            fs::write(root.join("cgroup.subtree_control"), "+cpu +memory").unwrap();
            let dir = root.join(name);
            fs::create_dir(&dir).unwrap();
            match memory_bytes {
                None => fs::write(dir.join("cpu.max"), "10000 50000").unwrap(),
                Some(limit) => fs::write(dir.join("memory.max"), limit.to_string()).unwrap(),
            }
            return Self(vec![dir]);
        }
        let mut group = Self(Vec::new());
        let mut make = |controller: &str| {
            let dir = root.join(controller).join(name);
            // Two controllers may share a folder.
            if !dir.exists() {
                fs::create_dir(&dir).unwrap_or_else(|e| panic!("no controller {controller} of either version: {e}"));
                group.0.push(dir.clone());
            }
            dir
        };
        let cpu = make("cpu");
        if root.join("cpuacct/cpuacct.usage").exists() {
            make("cpuacct");
        }
        match memory_bytes {
            None => {
                fs::write(cpu.join("cpu.cfs_period_us"), "50000").unwrap();
                fs::write(cpu.join("cpu.cfs_quota_us"), "10000").unwrap();
            }
            Some(limit) => fs::write(make("memory").join("memory.limit_in_bytes"), limit.to_string()).unwrap(),
        }
        group
    }

    fn join(&self) -> String {
        self.0.iter().map(|dir| format!("echo $$ > {}/cgroup.procs; ", dir.display())).collect()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for dir in &self.0 {
            // The last process may still be on its way out.
            for _ in 0..50 {
                if fs::remove_dir(dir).is_ok() {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        }
    }
}

#[test]
fn a_quota_and_what_it_held_back_are_sampled() {
    let name = format!("ingero-quota-{}", std::process::id());
    let group = Group::new(&name, None);
    let seen = recorded(
        &format!("{} exec timeout 2.2 sh -c 'while :; do :; done' || true", group.join()).replace(" exec ", " "),
    );
    let rows = seen.each(|b| match b {
        Body::CgroupSample(r) if seen.text(r.cgroup) == format!("/{name}") => Some(*r),
        _ => None,
    });
    let (first, last) = (rows.first().unwrap(), rows.last().unwrap());
    assert_eq!((last.quota_ns, last.period_ns), (Some(10_000_000), Some(50_000_000)));
    let grown =
        |pick: fn(&ingero_format::catalog::CgroupSample) -> Option<u64>| pick(last).unwrap() - pick(first).unwrap();
    assert!(grown(|r| r.throttled) >= 10 && grown(|r| r.throttled_ns) >= 50_000_000, "{rows:?}");
    assert!(grown(|r| r.usage_ns) >= 50_000_000, "{rows:?}");
    let members = seen.each(|b| match b {
        Body::ProcessCgroup(r) if seen.text(r.cgroup) == format!("/{name}") => Some(r.container),
        _ => None,
    });
    assert!(!members.is_empty() && members.iter().all(Option::is_none));
}

#[test]
fn memory_that_runs_out_is_seen_from_reclaim_to_the_kill() {
    let name = format!("ingero-oom-{}", std::process::id());
    let group = Group::new(&name, Some(64 << 20));
    let eat = "python3 -c \"x = []\nwhile True: x.append(bytearray(1 << 20))\"";
    let seen =
        recorded(&format!("( {} {eat} ); echo ended $?", group.join().replace("$$", "$(exec sh -c 'echo $PPID')")));
    assert!(seen.recording.run.stdout.contains("ended 137"), "{}", seen.recording.run.stdout);
    let kills = seen.each(|b| match b {
        Body::OomKill(r) => Some(*r),
        _ => None,
    });
    let [kill] = kills[..] else { panic!("{kills:?}") };
    assert!(seen.named("python3").contains(&kill.victim), "{kill:?}");
    assert!(kill.anon_bytes.is_none_or(|bytes| (16 << 20..=64 << 20).contains(&bytes)), "{kill:?}");
    let reclaims = seen.each(|b| match b {
        Body::Reclaim(r) if r.memcg == 1 => Some(*r),
        _ => None,
    });
    assert!(reclaims.iter().any(|r| r.dur_ns.is_some() && r.order == Some(0)), "{reclaims:?}");
}

#[test]
fn what_a_process_maps_and_uses_is_known() {
    let seen = recorded("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; sleep 1.2");
    let sh = seen.named("sh");
    let mappings = seen.each(|b| match b {
        Body::Mapping(m) if sh.contains(&m.task) => {
            Some((seen.text(m.file).to_owned(), m.build_id.map(|id| seen.text(id).to_owned()), m.bytes))
        }
        _ => None,
    });
    let libc = mappings.iter().find(|(file, ..)| file.contains("libc.so")).expect("the C library");
    let by_readelf = Command::new("readelf").args(["-n", &libc.0]).output().unwrap();
    let id = libc.1.as_deref().unwrap();
    assert!(String::from_utf8_lossy(&by_readelf.stdout).contains(id), "{id}");
    assert!(mappings.iter().all(|(.., bytes)| *bytes > 0 && bytes % 4096 == 0));
    let samples = seen.each(|b| match b {
        Body::ProcessSample(r) if sh.contains(&r.task) => Some(*r),
        _ => None,
    });
    // The shell itself: for a moment its children have its name.
    let last = samples.iter().max_by_key(|r| r.user_ns).unwrap();
    assert!(samples.len() >= 2 && last.user_ns.unwrap() >= 50_000_000, "{samples:?}");
    assert!(last.minor_faults > Some(20) && last.threads == Some(1) && last.resident_bytes > Some(1 << 18), "{last:?}");
    // Pressure is there exactly where this kernel has it.
    let pressures = seen.each(|b| match b {
        Body::Pressure(p) => Some((p.resource, p.some_ns)),
        _ => None,
    });
    let there = Path::new("/proc/pressure/cpu").exists();
    assert_eq!(pressures.iter().any(|(resource, some)| *resource == 0 && some.is_some()), there);
    assert!(seen.trace.meta("gpus").is_some_and(|gpus| !gpus.is_empty()));
}

/// A queue of connections that is full answers nobody: the kernel asks again after a second.
#[test]
fn segments_that_nobody_answers_are_sent_again() {
    let script = "
import socket
server = socket.socket(); server.bind(('127.0.0.1', 0)); server.listen(0)
port = server.getsockname()[1]
kept = []
for _ in range(4):
    s = socket.socket(); s.setblocking(False)
    s.connect_ex(('127.0.0.1', port))
    kept.append(s)
import time; time.sleep(1.6)
print('port', port)
";
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("full.py");
    fs::write(&path, script).unwrap();
    let seen = recorded(&format!("exec python3 {}", path.display()));
    let port = seen.recording.run.stdout.lines().find_map(|l| l.strip_prefix("port ")).unwrap();
    let again = seen.each(|b| match b {
        Body::Retransmit(r) => Some((seen.text(r.local).to_owned(), seen.text(r.peer).to_owned(), r.state)),
        _ => None,
    });
    // SYN_SENT is 2.
    let peer = format!("127.0.0.1:{port}");
    let mine: Vec<_> = again.iter().filter(|(_, to, _)| *to == peer).collect();
    assert!(!mine.is_empty(), "{again:?}");
    for (from, _, state) in mine {
        assert!(from.starts_with("127.0.0.1:") && *state == Some(2), "{again:?}");
    }
}

/// Takes a CPU away and gives it back: for a machine of one's own.
#[test]
#[ignore = "takes a CPU away from the whole machine; tests/kernels/run does it in a guest"]
fn a_cpu_that_goes_and_comes_back_loses_nothing() {
    let cpu = "/sys/devices/system/cpu/cpu1/online";
    let loops =
        |n: u32| format!("for i in 1 2 3; do {} loop {n} >/dev/null; done", ingero_tests::standin().program.display());
    let seen =
        recorded(&format!("{0}; echo 0 > {cpu}; {0}; echo 1 > {cpu}; sleep 0.1; taskset -c 1 sh -c '{0}'", loops(100)));
    let analysis = seen.recording.analyze(&[]);
    analysis.assert_lossless();
    let calls: u64 = analysis
        .processes()
        .filter_map(|p| p["ops"].as_array())
        .flatten()
        .filter(|op| op["name"] == "cudaLaunchKernel")
        .map(|op| op["count"].as_u64().unwrap())
        .sum();
    assert_eq!(calls, 900);
    // It ran there again after it had come back.
    let last = seen.events.iter().rev().find(|e| matches!(e.body, Body::Switch(_)) && e.cpu == 1).unwrap();
    assert!(last.ts_ns > seen.events[seen.events.len() / 2].ts_ns);
}

/// Sets the wall clock back by an hour in the middle: for a machine of one's own.
#[test]
#[ignore = "sets the machine's wall clock; tests/kernels/run does it in a guest"]
fn a_step_of_the_wall_clock_moves_no_event() {
    let script = "date -s \"@$(($(date +%s) - 3600))\" >/dev/null; sleep 1.2; date -s \"@$(($(date +%s) + 3600))\" >/dev/null; sleep 1.2";
    let seen = recorded(script);
    let span = |pick: fn(&ingero_format::catalog::Clock) -> u64| -> u64 {
        let all = seen.each(|b| match b {
            Body::Clock(c) => Some(pick(c)),
            _ => None,
        });
        all.iter().max().unwrap() - all.iter().min().unwrap()
    };
    // The clock rows tell of the step, and no event is more than some seconds from the others.
    assert!(span(|c| c.real_ns) > 3_000_000_000_000);
    assert!(seen.events.last().unwrap().ts_ns - seen.events[0].ts_ns < 60_000_000_000);
    assert_eq!(seen.recording.analyze(&[]).0["trace"]["lost_events"], 0);
}
