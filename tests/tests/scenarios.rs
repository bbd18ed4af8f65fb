//! Programs with one known cause of lost time each, recorded as they run: the right cause comes first.
//!
//! `INGERO_ROUNDS` says how often each is judged, once if unset.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::BufRead;
use std::process::{Child, Command, Stdio};

use ingero_tests::{Cgroup, Quota, Recording, record_with, standin};
use serde_json::Value;

const MS: u64 = 1_000_000;

fn rounds() -> u32 {
    std::env::var("INGERO_ROUNDS").ok().map_or(1, |n| n.parse().expect("INGERO_ROUNDS is a number"))
}

/// Records a scene, and holds what every report owes: parts that add up, shares that fit, evidence.
fn scene(name: &str, env: &[(&str, &str)]) -> (Recording, Value) {
    let dir = tempfile::tempdir_in(&standin().dir).unwrap();
    let file = dir.path().join("data");
    let command = [standin().scenes.display().to_string(), name.to_owned(), file.display().to_string()];
    judged(record_with(&[], &command, env))
}

fn judged(recording: Recording) -> (Recording, Value) {
    let analysis = recording.analyze(&[]);
    analysis.assert_lossless();
    let json = analysis.0;
    for p in json["phases"].as_array().unwrap() {
        let gaps = &p["gaps"];
        let ns = |key: &str| gaps[key].as_u64().unwrap_or(0);
        let parts = ns("running_ns") + ns("runnable_ns") + ns("throttled_ns") + ns("blocked_ns");
        assert!(parts <= ns("sum_ns"), "{p:#}");
        let len_ns = p["end_ns"].as_u64().unwrap() - p["start_ns"].as_u64().unwrap();
        assert!(ns("sum_ns") <= len_ns, "{p:#}");
        let chains = p["chains"].as_array().unwrap();
        let roots: u64 = chains.iter().filter(|l| l["waiter"].is_null()).map(|l| l["total_ns"].as_u64().unwrap()).sum();
        // Where nothing is asked of a GPU they are of all of the phase: a thread that starts may be kept from its CPU for long.
        assert!(roots <= if p["silence"].is_null() { ns("sum_ns") } else { len_ns }, "{p:#}");
    }
    for i in json["incidents"].as_array().unwrap() {
        assert!(!i["evidence"].as_array().unwrap().is_empty(), "{i:#}");
        assert!((0.0..=1.0).contains(&i["share"].as_f64().unwrap()), "{i:#}");
    }
    (recording, json)
}

/// The first cause of the program itself.
fn first(recording: &Recording, json: &Value) -> Value {
    let pid = recording.report().pid;
    let incidents = json["incidents"].as_array().unwrap();
    incidents.iter().find(|i| i["pid"] == pid).cloned().unwrap_or_default()
}

/// The scene's first cause is this one, and HIGH.
fn assert_first(name: &str, env: &[(&str, &str)], kinds: &[&str]) -> Value {
    let mut last = Value::Null;
    for round in 0..rounds() {
        let (recording, json) = scene(name, env);
        let incident = first(&recording, &json);
        let kind = incident["kind"].as_str().unwrap_or("none");
        assert!(kinds.contains(&kind), "{name}, round {round}: {kind}: {:#}", json["incidents"]);
        assert_eq!(incident["severity"], "HIGH", "{name}, round {round}: {incident:#}");
        last = incident;
    }
    last
}

/// Nothing of the scene is HIGH.
fn assert_calm(name: &str, env: &[(&str, &str)]) {
    for round in 0..rounds() {
        let (_, json) = scene(name, env);
        let high: Vec<_> = json["incidents"].as_array().unwrap().iter().filter(|i| i["severity"] == "HIGH").collect();
        assert!(high.is_empty(), "{name}, round {round}: {high:#?}");
    }
}

const QUICK: &[(&str, &str)] = &[("STANDIN_LAUNCH_NS", "3000")];
const DEVICE: &[(&str, &str)] = &[("STANDIN_LAUNCH_NS", "20000"), ("STANDIN_SYNC_US", "200")];

#[test]
fn a_healthy_run_is_left_alone() {
    assert_calm("healthy", DEVICE);
}

#[test]
fn a_sleeper_is_left_alone() {
    assert_calm("sleeper", QUICK);
}

#[test]
fn a_worker_that_sleeps_is_left_alone() {
    assert_calm("sleepy-worker", QUICK);
}

#[test]
fn a_main_thread_that_computes() {
    assert_first("busy-main", QUICK, &["busy-main"]);
}

#[test]
fn a_worker_that_computes() {
    let incident = assert_first("busy-workers", QUICK, &["busy-workers"]);
    assert!(incident["summary"].as_str().unwrap().contains("worker"), "{incident:#}");
}

#[test]
fn strangers_on_the_cpus_of_workers() {
    let incident = assert_first("contention", QUICK, &["cpu-contention"]);
    assert!(incident["summary"].as_str().unwrap().contains("hog"), "{incident:#}");
}

#[test]
fn strangers_on_the_cpu_of_the_main_thread() {
    let incident = assert_first("main-contention", QUICK, &["cpu-contention"]);
    assert!(incident["summary"].as_str().unwrap().contains("hog"), "{incident:#}");
}

/// Six workers on one CPU while the other one idles: nobody else is in their way.
#[test]
fn workers_bound_to_one_cpu() {
    for round in 0..rounds() {
        let (recording, json) = scene("affinity", QUICK);
        let incident = first(&recording, &json);
        // The other CPU has the program's main thread: where that is busy, the workers stand in each other's way alone.
        let kind = incident["kind"].as_str().unwrap_or("none");
        assert!(["affinity-squeeze", "too-many-workers"].contains(&kind), "round {round}: {:#}", json["incidents"]);
        assert!(incident["summary"].as_str().unwrap().contains("worker"), "{incident:#}");
        let told = json["incidents"].as_array().unwrap().iter().any(|i| i["kind"] == "affinity-squeeze");
        assert!(told, "round {round}: {:#}", json["incidents"]);
    }
}

/// Strangers on the one CPU that the program is bound to, while the other one idles: both are told, for no more time
/// than there was.
#[test]
fn neighbours_on_the_cpu_that_the_program_is_bound_to() {
    for round in 0..rounds() {
        let (recording, json) = scene("neighbours", QUICK);
        let pid = recording.report().pid;
        let told = |kind: &str| {
            let incidents = json["incidents"].as_array().unwrap();
            let found = incidents.iter().find(|i| i["pid"] == pid && i["kind"] == kind);
            found.unwrap_or_else(|| panic!("round {round}: no {kind}: {:#}", json["incidents"])).clone()
        };
        let (taken, bound) = (told("cpu-contention"), told("affinity-squeeze"));
        // How the time divides is for the other CPU to say, which does other things too.
        let low = [&taken, &bound].iter().filter(|i| i["severity"] == "LOW").count();
        assert!(low < 2, "round {round}: {taken:#} {bound:#}");
        assert!(taken["summary"].as_str().unwrap().contains("hog"), "round {round}: {taken:#}");
        let shares = taken["share"].as_f64().unwrap() + bound["share"].as_f64().unwrap();
        assert!((0.4..=0.9).contains(&shares), "round {round}: {taken:#} {bound:#}");
    }
}

/// A program that runs beside the recorded one, until it is dropped.
struct Beside(Child);

impl Beside {
    fn start(mut command: Command) -> Self {
        Self(command.stdout(Stdio::piped()).spawn().unwrap())
    }

    /// The first line that it prints.
    fn line(&mut self) -> String {
        let mut line = String::new();
        std::io::BufReader::new(self.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        line.trim().to_owned()
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Strangers in a control group of their own, as another container is, which counts for more than the program's.
#[test]
fn neighbours_in_another_control_group() {
    let (own, other) = (Cgroup::new("cpu"), Cgroup::new("cpu"));
    own.set_weight(128);
    let busy = || {
        let words = other.command("sh".as_ref(), &["-c", "while :; do :; done"]);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        Beside::start(command)
    };
    let cpus = std::thread::available_parallelism().unwrap().get();
    let _beside: Vec<Beside> = (0..2 * cpus).map(|_| busy()).collect();
    for round in 0..rounds() {
        let command = own.command(&standin().scenes, &["busy-main"]);
        let (recording, json) = judged(record_with(&[], &command, QUICK));
        // Who is in which group is said at the start, and holds for a later part too.
        for json in [json, recording.analyze(&["--from", "500ms"]).0] {
            let incident = first(&recording, &json);
            let told = (&incident["kind"], &incident["severity"]);
            assert_eq!(told, (&"noisy-neighbour".into(), &"HIGH".into()), "round {round}: {:#}", json["incidents"]);
            assert!(incident["root_cause"].as_str().unwrap().contains("ingero-test-"), "{incident:#}");
        }
    }
}

/// Looking after a worker is no cause: the worker is.
#[test]
fn a_worker_that_computes_while_timed_waits_run_out() {
    let incident = assert_first("looks", QUICK, &["busy-workers"]);
    assert!(incident["share"].as_f64().unwrap() > 0.8, "{incident:#}");
}

/// Over loopback, from a program that has nothing to do with the recorded one.
#[test]
fn a_server_on_this_host() {
    for round in 0..rounds() {
        let mut command = Command::new(&standin().scenes);
        command.arg("server");
        let mut server = Beside::start(command);
        let port = server.line();
        let command = [standin().scenes.display().to_string(), "client".to_owned(), port];
        let (recording, json) = judged(record_with(&[], &command, QUICK));
        let incident = first(&recording, &json);
        let told = (&incident["kind"], &incident["severity"]);
        assert_eq!(told, (&"other-process".into(), &"HIGH".into()), "round {round}: {:#}", json["incidents"]);
        assert!(incident["summary"].as_str().unwrap().contains("server"), "{incident:#}");
    }
}

#[test]
fn a_server_of_its_own() {
    assert_first("own-server", QUICK, &["busy-workers"]);
}

#[test]
fn packets_that_are_lost() {
    assert_first("lossy", QUICK, &["tcp-retransmits"]);
}

#[test]
fn a_worker_that_is_killed_for_want_of_memory() {
    for round in 0..rounds() {
        let group = Cgroup::with_memory(64 << 20);
        let (_, json) = judged(record_with(&[], &group.command(&standin().scenes, &["oom"]), QUICK));
        let incidents = json["incidents"].as_array().unwrap();
        let kill = incidents.iter().find(|i| i["kind"] == "oom-kill");
        let kill = kill.unwrap_or_else(|| panic!("round {round}: no kill: {incidents:#?}"));
        assert!(kill["summary"].as_str().unwrap().starts_with("worker ("), "{kill:#}");
    }
}

/// Each new page takes the place of another. Mapping it costs its thread more than finding room for it does, so this is not
/// the first cause, but it is one.
#[test]
fn memory_that_has_to_be_found_first() {
    for round in 0..rounds() {
        let group = Cgroup::with_memory(32 << 20);
        let dir = tempfile::tempdir_in(&standin().dir).unwrap();
        let file = dir.path().join("data").display().to_string();
        let command = group.command(&standin().scenes, &["reclaim", &file]);
        let (_, json) = judged(record_with(&[], &command, QUICK));
        let incidents = json["incidents"].as_array().unwrap();
        let pressure = incidents.iter().find(|i| i["kind"] == "memory-pressure");
        assert!(pressure.is_some(), "round {round}: {incidents:#?}");
    }
}

#[test]
fn more_workers_than_cpus() {
    let incident = assert_first("own-workers", QUICK, &["too-many-workers"]);
    assert!(incident["summary"].as_str().unwrap().contains("worker"), "{incident:#}");
}

#[test]
fn data_in_pieces() {
    assert_first("pieces", QUICK, &["hand-over"]);
}

#[test]
fn a_slow_thread_between() {
    assert_first("pin-thread", QUICK, &["hand-over"]);
}

#[test]
fn an_interpreter_lock() {
    assert_first("lock", QUICK, &["interpreter-lock"]);
}

#[test]
fn new_pages_for_every_batch() {
    assert_first("page-faults", QUICK, &["page-faults"]);
}

#[test]
fn allocations_in_the_loop() {
    assert_first("churn", QUICK, &["allocation-churn"]);
}

#[test]
fn a_cache_that_is_emptied_in_each_step() {
    let incident = assert_first("empty-cache", QUICK, &["allocation-churn"]);
    // The stand-in's releases take as long as its allocations: either may be the larger part.
    assert!(["cudaFree", "cudaMalloc"].iter().any(|op| incident["op"] == *op), "{incident:#}");
    assert!(incident["summary"].as_str().unwrap().contains(" releases"), "{incident:#}");
}

#[test]
fn copies_of_many_sizes() {
    let incident = assert_first("sweep", QUICK, &["pageable-copies"]);
    assert_eq!(incident["op"], "cudaMemcpyAsync", "{incident:#}");
}

#[test]
fn a_wait_after_each_launch() {
    assert_first("waits", DEVICE, &["waits-too-often"]);
}

#[test]
fn small_kernels_one_by_one() {
    assert_first("launches", QUICK, &["launch-bound"]);
}

#[test]
fn copies_far_below_the_link() {
    assert_first("copies", &[("STANDIN_COPY_NS", "5000000")], &["pageable-copies"]);
}

#[test]
fn reads_from_a_disk() {
    assert_first("disk", QUICK, &["block-io"]);
}

#[test]
fn a_worker_that_reads_from_a_disk() {
    assert_first("worker-disk", QUICK, &["block-io"]);
}

#[test]
fn a_quota() {
    for _ in 0..rounds() {
        let quota = Quota::new(20_000, 100_000);
        let command = quota.group().command(&standin().scenes, &["busy-main"]);
        let (recording, json) = judged(record_with(&[], &command, QUICK));
        let incident = first(&recording, &json);
        assert_eq!((&incident["kind"], &incident["severity"]), (&"cpu-quota".into(), &"HIGH".into()), "{json:#}");
        assert!(incident["lost_ns"].as_u64().unwrap() > 300 * MS, "{incident:#}");
    }
}
