//! One recording from the plan to the exit code.

use std::collections::HashSet;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use ingero_format::catalog::FUNCTIONS;
use ingero_format::{TraceWriter, WriterOptions};

use crate::calls::function_spec;
use crate::drain::{self, Signals, queue_batches};
use crate::failure::{CommandEnd, Failure, Outcome};
use crate::kernel::{Kernel, Options, default_rings};
use crate::launch::{Launched, Program};
use crate::library::discovery::{Discovery, Requests, lock};
use crate::library::prescan::{Surroundings, find_candidates};
use crate::live::Live;
use crate::meta;
use crate::output::Output;
use crate::plan::{Plan, Target};
use crate::proc::clock::monotonic_ns;
use crate::proc::process::{list_ids, read_group, read_process};
use crate::proc::stat::Stat;
use crate::proc::system::read_system;
use crate::rights;
use crate::scribe::Scribe;
use crate::signals::{SignalQueue, open_pidfd};
use crate::summary::Summary;
use crate::tasks::Tasks;
use crate::text::say;
use crate::writer::{self, Written};

/// Time for the last events of the command's tree after its end.
const GRACE: Duration = Duration::from_millis(20);
/// Time that a command is given to end after the recorder was told to end and passed that on.
const PATIENCE: Duration = Duration::from_secs(5);
/// Looks for newborn descendants at most, should they come faster than they can be followed.
const NEWBORN_LOOKS: usize = 16;
const LOOK: Duration = Duration::from_millis(250);

/// Why a recording stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// The command ended.
    Ended(CommandEnd),
    /// All processes of `--pid` ended.
    Gone,
    /// The time is over.
    Time,
    /// A signal asked for it.
    Signal(i32),
    /// The recorder cannot go on.
    Failed,
}

/// Records as planned.
///
/// # Errors
/// [`Failure`] says what and with which exit code.
pub fn record(plan: &Plan) -> Result<Outcome, Failure> {
    plan.check_output()?;
    rights::check()?;
    let mut subject = Subject::prepare(&plan.target)?;
    let signals = SignalQueue::open()?;

    let options = Options {
        all_processes: plan.target == Target::All,
        ring_bytes: plan.ring_bytes.map(each_ring),
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
    let facts = kernel.facts();
    let drain = kernel.take_drain().map_err(anyhow::Error::from)?;
    let kernel = Arc::new(Mutex::new(kernel));
    let mut discovery = Discovery::new(Arc::clone(&kernel));
    for &pid in &follow {
        discovery.look_at(pid);
    }
    discovery.look_into(&find_candidates(&subject.surroundings()));

    let output = Output::create(&plan.output, plan.force)?;
    let mut unused = Unused(Some(&plan.output));
    let full = output.full();
    let mut out = TraceWriter::new(output, WriterOptions::default()).context("beginning the file")?;
    let mut words = meta::describe(plan, &facts);
    words.extend(meta::libraries(&discovery));
    for (key, value) in &words {
        out.set_meta(key, value);
    }
    let mut tasks = Tasks::new(plan.redact_args, plan.target == Target::All);
    tasks.scan(&mut out, &follow.iter().copied().collect()).context("writing the file")?;
    let begun = Instant::now();
    lock(&kernel).start().map_err(anyhow::Error::from)?;
    follow_newborns(&follow, &kernel, &mut discovery, &mut tasks, &mut out)?;

    let threads = Threads::start(drain, kernel, Scribe::new(out, tasks, Arc::default()), full, discovery, plan)?;
    let released = subject.release();
    if let Err(failure) = released {
        // Nothing ran: leave nothing behind.
        drop(threads.stop());
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
    let (written, discovery) = match finished {
        Ok(finished) => finished,
        // Whoever waits for the recorder still waits for the command.
        Err(problem) => return subject.conclude(&signals, stop, Some(problem), plan.quiet),
    };
    if !plan.quiet {
        let summary = Summary {
            output: &plan.output,
            duration,
            totals: written.totals,
            counts: &written.counts,
            attached: discovery.attached(),
            problems: discovery.problems(),
        };
        say(&summary.text());
    }
    let problem = written.problem.map(|e| e.context(format!("{}", plan.output.display())));
    // Detaching may take long on old kernels: only now, when nobody waits for the file.
    drop(discovery);
    subject.conclude(&signals, stop, problem, plan.quiet)
}

/// What is recorded, as far as the recorder has a hand in it.
#[derive(Debug)]
enum Subject {
    Command { program: Program, launched: Launched },
    Processes { pids: Vec<u32>, alive: Vec<OwnedFd> },
    Machine,
}

impl Subject {
    fn prepare(target: &Target) -> Result<Self, Failure> {
        match target {
            Target::Command(words) => {
                let program = Program::find(words, std::env::var_os("PATH").as_deref())?;
                let launched = Launched::fork(&program)?;
                Ok(Self::Command { program, launched })
            }
            Target::Processes(named) => {
                let mut alive = Vec::new();
                for &pid in named {
                    let gone = || anyhow!("--pid {pid}: no such process; see ps -e");
                    match read_group(pid).ok_or_else(gone)? {
                        group if group == pid => {}
                        group => {
                            return Err(
                                anyhow!("--pid {pid}: is a thread of process {group}; give --pid {group}").into()
                            );
                        }
                    }
                    if pid == std::process::id() {
                        return Err(anyhow!("--pid {pid}: is this recorder itself").into());
                    }
                    alive.push(open_pidfd(pid).map_err(|_| gone())?);
                }
                Ok(Self::Processes { pids: with_descendants(named), alive })
            }
            Target::All => Ok(Self::Machine),
        }
    }

    /// Processes to follow.
    fn pids(&self) -> Vec<u32> {
        match self {
            Self::Command { launched, .. } => vec![launched.pid()],
            Self::Processes { pids, .. } => pids.clone(),
            Self::Machine => Vec::new(),
        }
    }

    fn surroundings(&self) -> Surroundings {
        let own = |program: &Path, args: Vec<_>| Surroundings {
            program: program.to_path_buf(),
            args,
            env: std::env::vars_os().collect(),
        };
        match self {
            Self::Command { program, .. } => own(&program.path, program.args.clone()),
            Self::Processes { pids, .. } => {
                let exe = pids.first().map(|pid| PathBuf::from(format!("/proc/{pid}/exe")));
                own(&exe.and_then(|link| fs::read_link(link).ok()).unwrap_or_default(), Vec::new())
            }
            Self::Machine => own(Path::new(""), Vec::new()),
        }
    }

    fn release(&mut self) -> Result<(), Failure> {
        match self {
            Self::Command { launched, .. } => launched.release(),
            _ => Ok(()),
        }
    }

    /// Waits until there is a reason to stop.
    fn watch(&mut self, queue: &SignalQueue, deadline: Option<Instant>, signals: &Signals, live: &mut Live) -> Stop {
        let mut interrupts = 0;
        loop {
            let left = deadline.map_or(LOOK, |d| d.saturating_duration_since(Instant::now()).min(LOOK));
            match self {
                Self::Command { launched, .. } => {
                    let _ = queue.wait(&[launched.pidfd()], left);
                    if let Some(end) = launched.try_wait() {
                        return Stop::Ended(end);
                    }
                }
                Self::Processes { alive, .. } => {
                    let fds: Vec<_> = alive.iter().map(AsFd::as_fd).collect();
                    let mut ended = queue.wait(&fds, left).into_iter();
                    alive.retain(|_| !ended.next().unwrap_or(false));
                    if alive.is_empty() {
                        return Stop::Gone;
                    }
                }
                Self::Machine => {
                    let _ = queue.wait(&[], left);
                }
            }
            while let Some(signal) = queue.next() {
                let Self::Command { launched, .. } = self else { return Stop::Signal(signal.number) };
                if signal.number != libc::SIGINT {
                    launched.signal(signal.number);
                    return Stop::Signal(signal.number);
                }
                // The terminal has sent it to the command too, which decides whether it ends.
                if !signal.from_terminal {
                    launched.signal(libc::SIGINT);
                }
                interrupts += 1;
                if interrupts == 2 {
                    return Stop::Signal(libc::SIGINT);
                }
            }
            if signals.failed.load(Ordering::Acquire) {
                return Stop::Failed;
            }
            if deadline.is_some_and(|d| Instant::now() >= d) {
                return Stop::Time;
            }
            live.update(signals);
        }
    }

    /// The end of the run, once the file is complete.
    fn conclude(
        mut self,
        queue: &SignalQueue,
        stop: Stop,
        problem: Option<anyhow::Error>,
        quiet: bool,
    ) -> Result<Outcome, Failure> {
        let mut end = match stop {
            Stop::Ended(end) => Some(end),
            _ => None,
        };
        if let Self::Command { launched, .. } = &mut self {
            let patience = match stop {
                // It was told to end, and gets the time to.
                Stop::Signal(libc::SIGTERM | libc::SIGHUP) => Some(Instant::now() + PATIENCE),
                // Whoever waits for the recorder waits for the command.
                Stop::Failed => None,
                _ => Some(Instant::now()),
            };
            if stop == Stop::Failed {
                say("ingero-record: the recording has ended early; waiting for the command\n");
            }
            loop {
                end = end.or_else(|| launched.try_wait());
                let signal = queue.next();
                if end.is_some() || patience.is_some_and(|p| Instant::now() >= p) || signal.is_some() {
                    if let Some(signal) = signal {
                        launched.signal(signal.number);
                    }
                    break;
                }
                let _ = queue.wait(&[launched.pidfd()], LOOK.min(Duration::from_millis(100)));
            }
            if end.is_none() && !quiet {
                say(&format!("ingero-record: the command (process {}) runs on, unrecorded\n", launched.pid()));
            }
        }
        if let Some(problem) = problem {
            let problem = match end {
                Some(end) => problem.context(format!("the command ended with code {}", end.exit_code())),
                None => problem,
            };
            return Err(problem.into());
        }
        Ok(match (stop, end, self) {
            (Stop::Time, _, _) => Outcome::Stopped,
            (_, Some(end), _) => Outcome::Command(end),
            (Stop::Signal(number), None, Self::Command { .. }) => {
                Outcome::Command(CommandEnd::Signal(u8::try_from(number).unwrap_or(0)))
            }
            _ => Outcome::Stopped,
        })
    }
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
    out: &mut TraceWriter<Output>,
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

/// The processes and all that descend from them, as `/proc` has it now.
fn with_descendants(pids: &[u32]) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = list_ids("/proc")
        .into_iter()
        .filter_map(|pid| {
            let stat = Stat::parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)?;
            Some((pid, stat.parent_pid))
        })
        .collect();
    let mut tree = pids.to_vec();
    let mut known: HashSet<u32> = pids.iter().copied().collect();
    known.insert(std::process::id());
    let mut next = 0;
    while let Some(&parent) = tree.get(next) {
        next += 1;
        for &(pid, _) in parents.iter().filter(|(_, p)| *p == parent) {
            if known.insert(pid) {
                tree.push(pid);
            }
        }
    }
    tree
}

/// An output file that holds no recording yet: whoever fails before there is one leaves none behind.
struct Unused<'p>(Option<&'p Path>);

impl Drop for Unused<'_> {
    fn drop(&mut self) {
        // Only what this run has made: a device named with --force stays.
        if let Some(path) = self.0
            && fs::symlink_metadata(path).is_ok_and(|m| m.is_file())
        {
            let _ = fs::remove_file(path);
        }
    }
}

type LastWords = Arc<Mutex<Vec<(String, String)>>>;

/// The threads of a running recording.
#[derive(Debug)]
struct Threads {
    signals: Arc<Signals>,
    kernel: Arc<Mutex<Kernel>>,
    requests: Arc<Requests>,
    last_words: LastWords,
    drain: JoinHandle<Result<(), crate::kernel::Error>>,
    writer: JoinHandle<anyhow::Result<Written>>,
    discovery: JoinHandle<Discovery>,
}

impl Threads {
    fn start(
        drain: crate::kernel::Drain,
        kernel: Arc<Mutex<Kernel>>,
        scribe: Scribe<Output>,
        full: Arc<AtomicBool>,
        discovery: Discovery,
        plan: &Plan,
    ) -> anyhow::Result<Self> {
        let signals = Arc::new(Signals::default());
        let requests = scribe.requests();
        let last_words = LastWords::default();
        let batches = queue_batches(read_system().mem_available_bytes);
        let (to_writer, packets) = sync_channel(batches);
        let (to_spare, spare) = sync_channel(batches);
        let all = plan.target == Target::All;
        if all {
            for pid in list_ids("/proc") {
                requests.look_at(pid);
            }
        }
        let named = |name: &str| Builder::new().name(format!("ingero-{name}"));

        let (shared, its_kernel) = (Arc::clone(&signals), Arc::clone(&kernel));
        let drain = named("drain").spawn(move || {
            let result = drain::run(drain, &its_kernel, &to_writer, &spare, &shared);
            if result.is_err() {
                shared.failed.store(true, Ordering::Release);
            }
            result
        })?;
        let (shared, words) = (Arc::clone(&signals), Arc::clone(&last_words));
        let writer = named("writer").spawn(move || {
            let last_words = || std::mem::take(&mut *lock(&words));
            writer::run(scribe, packets, &to_spare, &shared, &full, last_words)
        })?;
        let asked = Arc::clone(&requests);
        let discovery = named("discover").spawn(move || discovery.run(&asked, all))?;
        Ok(Self { signals, kernel, requests, last_words, drain, writer, discovery })
    }

    /// Stops the sources, drains what is left, and finishes the file.
    fn stop(self) -> anyhow::Result<(Written, Discovery)> {
        let stop_ns = monotonic_ns();
        lock(&self.kernel).stop();
        self.requests.stop();
        let crashed = |what: &str| anyhow!("the {what} thread crashed; please report this");
        let discovery = self.discovery.join().map_err(|_| crashed("discovery"))?;
        let mut words = meta::libraries(&discovery);
        words.push(("drain_stalls".to_owned(), self.signals.stalls.load(Ordering::Relaxed).to_string()));
        *lock(&self.last_words) = words;
        self.signals.stop_ns.store(stop_ns, Ordering::Release);
        let drained = self.drain.join().map_err(|_| crashed("drain"))?;
        let mut written = self.writer.join().map_err(|_| crashed("writer"))??;
        if let Err(e) = drained {
            written.problem.get_or_insert_with(|| anyhow!("draining: {e}"));
        }
        Ok((written, discovery))
    }
}
