//! `ingero-replay compact`: the same events bit for bit, in a smaller file, or none at all.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ingero_format::Trace;
use ingero_replay::{Event, Merge};

fn compact(input: &Path, output: &Path, more: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_ingero-replay");
    Command::new(program).arg("compact").arg(input).arg("-o").arg(output).args(more).output().unwrap()
}

fn recordings() -> Vec<PathBuf> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../benches/data");
    let mut files: Vec<PathBuf> = data.read_dir().unwrap().map(|e| e.unwrap().path()).collect();
    files.retain(|p| p.extension().is_some_and(|e| e == "igt"));
    files.sort();
    assert!(files.len() >= 4);
    files
}

fn events(trace: &Trace) -> Vec<Event> {
    let mut merge = Merge::new(trace);
    let events = merge.by_ref().collect();
    assert!(merge.lost().is_empty());
    events
}

#[test]
fn a_compacted_recording_has_the_same_events_and_is_smaller() {
    let folder = tempfile::tempdir().unwrap();
    for input in recordings() {
        let output = folder.path().join(input.file_name().unwrap());
        let done = compact(&input, &output, &[]);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let (before, after) = (Trace::open(&input).unwrap(), Trace::open(&output).unwrap());
        assert!(after.complete());
        assert!(after.len_bytes() < before.len_bytes());
        assert_eq!(before.meta_entries(), after.meta_entries());
        assert_eq!(before.strings(), after.strings());
        assert_eq!(before.tasks(), after.tasks());
        assert_eq!(before.functions(), after.functions());
        // Events of one instant on different CPUs have no order; those on one CPU keep theirs by kind.
        let sorted = |trace: &Trace| {
            let mut events = events(trace);
            events.sort_by_key(|e| (e.ts_ns, e.body.kind(), e.cpu));
            events
        };
        assert!(sorted(&before) == sorted(&after), "{}", input.display());
        assert_eq!(output.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn kinds_are_left_out_on_demand_and_the_copy_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let input = recordings().into_iter().find(|path| path.ends_with("mixed.igt")).unwrap();
    let (output, again) = (folder.path().join("less.igt"), folder.path().join("least.igt"));
    let done = compact(&input, &output, &["--no", "sched_waking"]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(
        String::from_utf8_lossy(&done.stdout).contains("events left out"),
        "{}",
        String::from_utf8_lossy(&done.stdout)
    );
    let (before, after) = (Trace::open(&input).unwrap(), Trace::open(&output).unwrap());
    let without = |trace: &Trace| {
        let mut list = events(trace);
        list.retain(|e| e.body.kind() != ingero_format::catalog::Kind::Waking);
        list.sort_by_key(|e| (e.ts_ns, e.body.kind(), e.cpu));
        list
    };
    assert!(without(&before).len() < events(&before).len());
    assert!(without(&before) == without(&after) && without(&after).len() == events(&after).len());
    assert_eq!(after.meta("left_out"), Some("sched_waking"));
    // What the copy lacks was not recorded, as far as its readers can know.
    let probes = |trace: &Trace| trace.meta("probes").map(|p| p.split(',').any(|p| p == "sched_waking"));
    assert_eq!((probes(&before), probes(&after)), (Some(true), Some(false)));

    assert!(compact(&output, &again, &["--no", "sched_wakeup"]).status.success());
    assert_eq!(Trace::open(&again).unwrap().meta("left_out"), Some("sched_wakeup,sched_waking"));
    let refused = compact(&input, &again, &["--no", "sched_wakin", "--force"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("known are"),
        "{}",
        String::from_utf8_lossy(&refused.stderr)
    );
}

#[test]
fn what_is_compact_grows_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let (once, twice) = (folder.path().join("once.igt"), folder.path().join("twice.igt"));
    for input in recordings() {
        assert!(compact(&input, &once, &["--force"]).status.success());
        let before = std::fs::read(&once).unwrap();
        assert!(compact(&once, &twice, &["--force"]).status.success());
        assert!(twice.metadata().unwrap().len() <= before.len() as u64, "{}", input.display());
        assert!(Trace::open(&twice).unwrap().complete());
    }
}

#[test]
fn what_is_there_is_kept_unless_force_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let input = recordings().pop().unwrap();
    let output = folder.path().join("there.igt");
    std::fs::write(&output, "mine").unwrap();
    let refused = compact(&input, &output, &[]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--force"));
    assert_eq!(std::fs::read(&output).unwrap(), b"mine");
    assert!(compact(&input, &output, &["--force", "--quiet"]).status.success());
    assert!(Trace::open(&output).unwrap().complete());
    // Nothing is left beside it.
    assert_eq!(folder.path().read_dir().unwrap().count(), 1);
    // What is read is not lost, whatever is forced; `repair` refuses it in the same words.
    let bytes = std::fs::read(&output).unwrap();
    let refused = compact(&output, &output, &["--force"]);
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("is what is read, and would be lost; choose another name"), "{said}");
    let mut repair = Command::new(env!("CARGO_BIN_EXE_ingero-replay"));
    let repair = repair.args(["repair", "--force", "-o"]).args([&output, &output]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&repair.stderr), said);
    assert_eq!(std::fs::read(&output).unwrap(), bytes);
}

#[test]
fn a_recording_that_was_cut_off_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("cut.igt"), folder.path().join("out.igt"));
    let whole = std::fs::read(recordings().pop().unwrap()).unwrap();
    std::fs::write(&input, &whole[..whole.len() * 2 / 3]).unwrap();
    let refused = compact(&input, &output, &[]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("verify"));
    assert!(!output.exists());
}

#[test]
fn to_a_pipe_goes_the_file_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let input = recordings().pop().unwrap();
    let (piped, named) = (folder.path().join("piped.igt"), folder.path().join("named.igt"));
    let done = compact(&input, Path::new("-"), &[]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    std::fs::write(&piped, &done.stdout).unwrap();
    assert!(compact(&input, &named, &[]).status.success());
    assert!(std::fs::read(&piped).unwrap() == std::fs::read(&named).unwrap());
    assert!(!Path::new("-").exists());
}

/// Whatever follows them can be missing: when it was can still be told.
#[test]
fn a_compacted_recording_that_is_cut_off_has_its_readings_of_the_clocks() {
    use ingero_format::catalog::{Clock, Exit, Kind, NO_CPU};
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("run.igt"), folder.path().join("small.igt"));
    let mut f = ingero_replay::fixture::Fixture::with_rows(50);
    let task = f.task(1, 1);
    for at in 0..20_000u64 {
        f.push(1_000 + at * 977, (at % 3) as u32, Exit { task, group_dead: Some(at * at % 7919) });
        if at % 5_000 == 0 {
            f.push(1_000 + at * 977, NO_CPU, Clock { boot_ns: at, real_ns: 1 << 40, tsc: None, bracket_ns: 5 });
        }
    }
    std::fs::write(&input, f.into_bytes()).unwrap();
    assert!(compact(&input, &output, &[]).status.success());
    let clocks = |trace: &Trace| Merge::of(trace, |kind| kind == Kind::Clock).count();
    let bytes = std::fs::read(&output).unwrap();
    assert!(bytes.len() < usize::try_from(std::fs::metadata(&input).unwrap().len()).unwrap());
    let cut = folder.path().join("cut.igt");
    std::fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    let (whole, cut) = (Trace::open(&output).unwrap(), Trace::open(&cut).unwrap());
    assert!(!cut.complete() && events(&cut).len() < events(&whole).len());
    assert_eq!((clocks(&whole), clocks(&cut)), (4, 4));
}

/// Files of older versions have the readings of their clocks last, and are hardly ever larger than what they become.
#[test]
fn a_compacted_recording_that_is_cut_off_says_when_it_was() {
    use ingero_format::catalog::Kind;
    let input = Path::new(env!("CARGO_MANIFEST_DIR")).join("../investigations/h200-cpu-contention/affinity.igt");
    let folder = tempfile::tempdir().unwrap();
    let (output, cut) = (folder.path().join("new.igt"), folder.path().join("cut.igt"));
    let done = compact(&input, &output, &[]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let clocks = |path: &Path| Merge::of(&Trace::open(path).unwrap(), |kind| kind == Kind::Clock).collect::<Vec<_>>();
    let cut_off = |path: &Path| {
        let bytes = std::fs::read(path).unwrap();
        std::fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
        clocks(&cut)
    };
    assert!(cut_off(&input).is_empty() && !clocks(&input).is_empty());
    assert!(cut_off(&output) == clocks(&input));
    // What it became stays as it is.
    let again = folder.path().join("again.igt");
    assert!(compact(&output, &again, &[]).status.success());
    assert!(again.metadata().unwrap().len() <= output.metadata().unwrap().len());
}
