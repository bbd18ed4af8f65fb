//! What is recorded: a command, processes, or the machine; from the start to the exit code.

use std::collections::HashSet;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::anyhow;

use crate::drain::Signals;
use crate::failure::{CommandEnd, Failure, Outcome};
use crate::launch::{Launched, Program};
use crate::library::prescan::Surroundings;
use crate::live::Live;
use crate::plan::{Plan, Target};
use crate::proc::process::{list_ids, read_group};
use crate::proc::stat::Stat;
use crate::signals::{SignalQueue, open_pidfd};
use crate::text::say;

/// Time that a command is given to end after the recorder was told to end and passed that on.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(250);

/// Why a recording stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
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

/// What is recorded, as far as the recorder has a hand in it.
#[derive(Debug)]
pub(crate) enum Subject {
    Command { program: Program, launched: Launched },
    Processes { pids: Vec<u32>, alive: Vec<OwnedFd> },
    Machine,
}

impl Subject {
    /// `told`: variables by which a command is told of files of the recorder's.
    pub(crate) fn prepare(plan: &Plan, told: &[(&str, &Path)]) -> Result<Self, Failure> {
        match &plan.target {
            Target::Command(words) => {
                let program = Program::find(words, std::env::var_os("PATH").as_deref())?;
                for (name, path) in told {
                    // SAFETY: there is one thread yet: nobody reads the environment meanwhile.
                    unsafe { std::env::set_var(name, path) };
                }
                let launched = Launched::fork(&program, plan.user.as_ref())?;
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
    pub(crate) fn pids(&self) -> Vec<u32> {
        match self {
            Self::Command { launched, .. } => vec![launched.pid()],
            Self::Processes { pids, .. } => pids.clone(),
            Self::Machine => Vec::new(),
        }
    }

    pub(crate) fn surroundings(&self) -> Surroundings {
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

    pub(crate) fn is_command(&self) -> bool {
        matches!(self, Self::Command { .. })
    }

    pub(crate) fn release(&mut self) -> Result<(), Failure> {
        match self {
            Self::Command { launched, .. } => launched.release(),
            _ => Ok(()),
        }
    }

    /// Waits until there is a reason to stop.
    pub(crate) fn watch(
        &mut self,
        queue: &SignalQueue,
        deadline: Option<Instant>,
        signals: &Signals,
        live: &mut Live,
    ) -> Stop {
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
                if signal.number == libc::SIGUSR1 {
                    signals.write_now.store(true, Ordering::Release);
                    continue;
                }
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
                // One that is stopped decides nothing until somebody lets it go on.
                if interrupts == 2 || is_stopped(launched.pid()) {
                    return Stop::Signal(libc::SIGINT);
                }
            }
            if signals.failed.load(Ordering::Acquire) {
                return Stop::Failed;
            }
            if deadline.is_some_and(|d| Instant::now() >= d) || signals.limit_reached.load(Ordering::Acquire) {
                return Stop::Time;
            }
            live.update(signals);
        }
    }

    /// The end of the run, once the file is complete.
    pub(crate) fn conclude(
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

/// Whether a process is stopped, by a signal or a debugger.
fn is_stopped(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let state = status.lines().find_map(|line| line.strip_prefix("State:"));
    state.is_some_and(|state| state.trim_start().starts_with(['T', 't']))
}

/// The processes and all that descend from them, as `/proc` has it now.
pub(crate) fn with_descendants(pids: &[u32]) -> Vec<u32> {
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
