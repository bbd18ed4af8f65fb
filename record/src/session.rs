//! One recording from the plan to the exit code.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use ingero_format::catalog::{EVENTS, FUNCTIONS, Kind, Layer};

use crate::calibration::calibrate;
use crate::calls::function_spec;
use crate::drain::go_at_once;
use crate::failure::{Failure, Outcome};
use crate::gpu::Gpus;
use crate::keeper::Keeper;
use crate::kernel::{Kernel, Options, UprobeLinks, default_rings};
use crate::library::discovery::{Discovery, lock};
use crate::library::prescan::find_candidates;
use crate::live::Live;
use crate::marks::{self, Leftover, MarkFile};
use crate::meta;
use crate::nvtx::{self, Injection, Unseen};
use crate::plan::{Plan, Target};
use crate::proc::clock::monotonic_ns;
use crate::proc::process::read_process;
use crate::rights;
use crate::scribe::{Scribe, Sight, write_clocks};
use crate::signals::SignalQueue;
use crate::store::Writer;
use crate::subject::{Stop, Subject, with_descendants};
use crate::summary::Summary;
use crate::tasks::Tasks;
use crate::text::say;
use crate::threads::{Beside, Threads};
use crate::trial::{self, ReturnProbes};
use crate::watchdog::Watchdog;

/// Time for the last events of the command's tree after its end.
const GRACE: Duration = Duration::from_millis(20);
/// Looks for newborn descendants at most, should they come faster than they can be followed.
const NEWBORN_LOOKS: usize = 16;

/// Records as planned.
///
/// # Errors
/// [`Failure`] says what and with which exit code.
pub fn record(plan: &Plan) -> Result<Outcome, Failure> {
    plan.check_output()?;
    rights::check(rights::Needs { others: !matches!(plan.target, Target::Command(_)), user: plan.user.is_some() })?;
    let marks = Leftover(open_marks(plan)?);
    let path = marks.0.as_ref().map(|marks| marks.path().to_path_buf());
    let nvtx = offer_nvtx(plan);
    let injected = nvtx.as_ref().and_then(|offer| offer.as_ref().ok()).map(|nvtx| nvtx.path().to_path_buf());
    let told = [(marks::VARIABLE, path.as_deref()), (nvtx::VARIABLE, injected.as_deref())];
    let told: Vec<_> = told.into_iter().filter_map(|(name, path)| Some((name, path?))).collect();
    let mut subject = Subject::prepare(plan, &told)?;
    // Only what the command starts is ever held. The watchdog comes first: it must not hold what ends with the recorder.
    let watchdog = subject.is_command().then(Watchdog::start).transpose()?;
    let signals = SignalQueue::open()?;

    let options = Options {
        all_processes: plan.target == Target::All,
        ring_bytes: plan.ring_bytes.map(each_ring),
        page_allocs: plan.selection.has(Kind::PageAlloc),
        mappings: plan.selection.has_functions() || plan.selection.has(Kind::Mapping),
        uprobes: if plan.single_links { UprobeLinks::Single } else { UprobeLinks::Auto },
        without: EVENTS.iter().filter(|e| !plan.selection.has(e.kind)).map(|e| e.name).collect(),
        ..Options::default()
    };
    let mut kernel = Kernel::load(&options).map_err(anyhow::Error::from)?;
    if !kernel.facts().initial_pid_namespace {
        return Err(anyhow!(
            "this shell is in a PID namespace of its own, where ids differ from the kernel's; \
             run on the host or in a container with the host's (docker run --pid=host)"
        )
        .into());
    }
    for (number, function) in (0..).zip(FUNCTIONS) {
        kernel.set_function_spec(number, &function_spec(function)).map_err(anyhow::Error::from)?;
    }
    let follow = subject.pids();
    for &pid in &follow {
        kernel.set_target(pid).map_err(anyhow::Error::from)?;
    }
    let facts = kernel.facts().clone();
    let returns = match plan.returns {
        Some(returns) => returns,
        None if !plan.selection.has_functions() => true,
        None => trial::try_return_probes(&kernel).map_err(anyhow::Error::from)? != ReturnProbes::Lethal,
    };
    let mut drain = kernel.take_drain().map_err(anyhow::Error::from)?;
    let call_ns = match plan.selection.has(Kind::Call) {
        true => calibrate(&mut kernel, &mut drain, returns).map_err(anyhow::Error::from)?,
        false => None,
    };
    let mut hold = kernel.take_hold().filter(|_| watchdog.is_some() && plan.hold);
    let kernel = Arc::new(Mutex::new(kernel));
    let mut discovery = Discovery::new(Arc::clone(&kernel), plan.selection.clone(), returns);
    if let Some(path) = &injected {
        discovery.inject_nvtx(path);
    }
    for &pid in &follow {
        discovery.look_at(pid);
    }
    discovery.look_into(&find_candidates(&subject.surroundings()));

    let mut keeper = Keeper::new(plan);
    let mut out = keeper.begin(monotonic_ns())?;
    let mut unused = Unused(keeper.files().first().cloned());
    let mut words = meta::describe(plan, &facts);
    words.extend(meta::libraries(&discovery));
    if let Some(ns) = call_ns {
        words.push(("call_cost_ns".to_owned(), ns.to_string()));
    }
    let gpus = Gpus::open();
    words.push(("gpus".to_owned(), meta::describe_gpus(gpus.as_ref())));
    if let Some(path) = path {
        words.push(("marks".to_owned(), path.display().to_string()));
    }
    if let Some(offer) = &nvtx {
        let word = offer.as_ref().map_or_else(|unseen| format!("unseen: {unseen}"), |_| "injected".to_owned());
        words.push(("nvtx3".to_owned(), word));
    }
    words.push(("returns".to_owned(), if returns { "probed" } else { "not-probed" }.to_owned()));
    for (key, value) in &words {
        out.set_meta(key, value);
    }
    let tasks = Tasks::new(plan.redact_args, plan.target == Target::All);
    let mut tasks = tasks.with_affinities(plan.selection.has(Kind::Affinity));
    tasks.scan(&mut out, &follow.iter().copied().collect()).context("writing the file")?;
    let begun = Instant::now();
    // Before the first event, and behind what describes the recording: it is where the recording begins.
    write_clocks(&mut out).context("writing the file")?;
    lock(&kernel).start().map_err(anyhow::Error::from)?;
    follow_newborns(&follow, &kernel, &mut discovery, &mut tasks, &mut out)?;

    let sight = Sight {
        exits: plan.selection.has(Kind::Exit),
        samples: plan.selection.has(Kind::System),
        request_flags: facts.request_flags,
    };
    let scribe = Scribe::new(out, tasks, Arc::default()).with_sight(sight);
    if let Some(hold) = &mut hold {
        // SAFETY: no pointers. The command is of the recorder's own group.
        let group = unsafe { libc::getpgrp() };
        hold.start(u32::try_from(group).unwrap_or(0)).map_err(anyhow::Error::from)?;
    }
    let beside = Beside { hold, gpus: gpus.ok(), marks: marks.take() };
    let threads = Threads::start(drain, kernel, scribe, keeper, discovery, beside, plan)?;
    // From here on it only waits, and whoever interrupts it does not want to wait.
    go_at_once();
    let released = subject.release();
    if let Err(failure) = released {
        // Nothing ran: leave nothing behind.
        drop(threads.stop().map(|(_, _, marks)| marks));
        return Err(failure);
    }
    unused.0 = None;
    let mut live = Live::new(plan.quiet);
    let deadline = plan.duration.map(|d| begun + d);
    let stop = subject.watch(&signals, deadline, &threads.signals, &mut live);
    if matches!(stop, Stop::Ended(_) | Stop::Gone) {
        std::thread::sleep(GRACE);
    }
    let duration = begun.elapsed();
    let finished = threads.stop();
    live.clear();
    let (written, discovery, marks) = match finished {
        Ok(finished) => finished,
        // Whoever waits for the recorder still waits for the command.
        Err(problem) => return subject.conclude(&signals, stop, Some(problem), plan.quiet),
    };
    if !plan.quiet {
        let summary = Summary {
            files: &written.files,
            notes: &written.notes,
            selection: &plan.selection,
            returns,
            call_ns,
            duration,
            totals: written.totals,
            counts: &written.counts,
            attached: discovery.attached(),
            problems: discovery.problems(),
        };
        say(&summary.text());
    }
    let problem = written.problem.map(|e| e.context(format!("{}", plan.output.display())));
    if matches!(stop, Stop::Ended(_)) {
        drop(marks);
    } else {
        // Whoever runs on finds them there.
        let _ = marks.take();
        if let Some(Ok(nvtx)) = nvtx {
            nvtx.leave();
        }
    }
    // Detaching may take long on old kernels: only now, when nobody waits for the file.
    drop(discovery);
    subject.conclude(&signals, stop, problem, plan.quiet)
}

/// The share of each ring: there is one for each CPU, up to a limit.
fn each_ring(all_bytes: u32) -> u32 {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let (rings, _) = default_rings(cpus);
    (all_bytes / u32::try_from(rings.next_power_of_two()).unwrap_or(1)).max(64 << 10)
}

/// Looks again for descendants, now that the kernel follows whatever is forked from here on: those born since the first
/// look would stay strangers, with all that descends from them.
fn follow_newborns(
    follow: &[u32],
    kernel: &Mutex<Kernel>,
    discovery: &mut Discovery,
    tasks: &mut Tasks,
    out: &mut Writer,
) -> anyhow::Result<()> {
    // One that forks before it is followed leaves a child to the next look.
    for _ in 0..NEWBORN_LOOKS {
        let mut found = false;
        for pid in with_descendants(follow).into_iter().filter(|pid| !follow.contains(pid)) {
            {
                let kernel = lock(kernel);
                if kernel.is_target(pid)? {
                    continue;
                }
                kernel.set_target(pid)?;
                if read_process(pid).is_none_or(|now| now.stat.is_dead()) {
                    // Its end has gone by: nothing would take the id out again before another process gets it.
                    kernel.remove_target(pid)?;
                    continue;
                }
            }
            tasks.follow(out, pid).context("writing the file")?;
            discovery.look_at(pid);
            found = true;
        }
        if !found {
            break;
        }
    }
    Ok(())
}

/// An output file that holds no recording yet: whoever fails before there is one leaves none behind.
struct Unused(Option<PathBuf>);

impl Drop for Unused {
    fn drop(&mut self) {
        // Only what this run has made: a device named with --force stays.
        if let Some(path) = &self.0
            && fs::symlink_metadata(path).is_ok_and(|m| m.is_file())
        {
            let _ = fs::remove_file(path);
        }
    }
}

/// What a command's NVTX 3 is told of; `None` where none of it is to be recorded.
fn offer_nvtx(plan: &Plan) -> Option<Result<Injection, Unseen>> {
    let wanted = FUNCTIONS.iter().any(|f| f.layer == Layer::Nvtx && plan.selection.has_function(f));
    let offered = matches!(plan.target, Target::Command(_)) && wanted;
    offered.then(|| Injection::offer(std::env::var_os(nvtx::VARIABLE).as_deref()))
}

/// The file that the command, or whoever is told its name, writes marks to.
fn open_marks(plan: &Plan) -> Result<Option<MarkFile>, Failure> {
    let marks = match (&plan.marks, &plan.target) {
        _ if !plan.selection.has(Kind::Mark) => None,
        (Some(path), _) => {
            let opened = MarkFile::open(path);
            Some(opened.map_err(|e| anyhow!("--marks {}: {e}; name a file that can be written", path.display()))?)
        }
        // Without a place for it there are no marks, but a recording.
        (None, Target::Command(_)) => MarkFile::create().ok(),
        (None, _) => None,
    };
    if let (Some(marks), Some(user)) = (&marks, &plan.user) {
        marks.give_to(user.uid, user.gid);
    }
    Ok(marks)
}
