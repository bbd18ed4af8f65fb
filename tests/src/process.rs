//! Running programs with a time limit and with everything they print.

use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// How many times longer than elsewhere everything may take: on an emulated processor, where `tests/kernels/run` says so.
fn slowness() -> u32 {
    std::env::var("INGERO_SLOWNESS").ok().and_then(|n| n.parse().ok()).unwrap_or(1)
}

/// How often a waiting harness looks again.
const POLL: Duration = Duration::from_millis(5);

/// What a finished program left.
#[derive(Debug)]
pub struct Run {
    /// The command line, for messages.
    pub command: String,
    /// How it ended.
    pub status: ExitStatus,
    /// Standard output; bytes that are not UTF-8 are replaced.
    pub stdout: String,
    /// Standard error, likewise.
    pub stderr: String,
    /// From start to end.
    pub wall: Duration,
}

impl Run {
    /// The exit code as a shell sees it: 128 + the signal for a program that died of one.
    #[must_use]
    pub fn code(&self) -> i32 {
        self.status.code().or_else(|| self.status.signal().map(|s| 128 + s)).unwrap_or(-1)
    }

    /// Itself, if the program ended with exit code 0.
    #[must_use]
    pub fn success(self) -> Self {
        assert!(self.status.success(), "failed: {self:#?}");
        self
    }
}

type Output = Arc<Mutex<Vec<u8>>>;

/// A program that runs. It leads a process group of its own, which is killed with it.
#[derive(Debug)]
pub struct Running {
    command: String,
    child: Child,
    stdout: Output,
    stderr: Output,
    readers: Vec<thread::JoinHandle<()>>,
    started: Instant,
}

impl Running {
    /// Starts a program. Its three streams are pipes of the harness.
    #[must_use]
    pub fn start(command: &mut Command) -> Self {
        let text = format!("{command:?}");
        let started = Instant::now();
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap_or_else(|e| panic!("cannot start {text}: {e}"));
        let (stdout, out_reader) = collect(child.stdout.take());
        let (stderr, err_reader) = collect(child.stderr.take());
        Self { command: text, child, stdout, stderr, readers: vec![out_reader, err_reader], started }
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it wrote to standard output so far.
    #[must_use]
    pub fn stdout_so_far(&self) -> String {
        text(&self.stdout)
    }

    /// What it wrote to standard error so far.
    #[must_use]
    pub fn stderr_so_far(&self) -> String {
        text(&self.stderr)
    }

    /// Waits for the first whole line of standard output that starts with `prefix`.
    #[must_use]
    pub fn wait_for_line(&mut self, prefix: &str, limit: Duration) -> String {
        let deadline = Instant::now() + limit * slowness();
        loop {
            let so_far = self.stdout_so_far();
            if let Some(line) = so_far.split_inclusive('\n').find(|l| l.starts_with(prefix) && l.ends_with('\n')) {
                return line.trim_end().to_owned();
            }
            assert!(
                Instant::now() < deadline && matches!(self.child.try_wait(), Ok(None)),
                "{} printed no line {prefix}…; it printed {so_far:?} and {:?}",
                self.command,
                self.stderr_so_far()
            );
            thread::sleep(POLL);
        }
    }

    /// Writes a line to its standard input.
    pub fn send_line(&mut self, line: &str) {
        let Some(stdin) = self.child.stdin.as_mut() else { panic!("{} has no standard input any more", self.command) };
        writeln!(stdin, "{line}")
            .and_then(|()| stdin.flush())
            .unwrap_or_else(|e| panic!("{} took no line: {e}", self.command));
    }

    /// Sends a signal to it alone, not to its group.
    pub fn signal(&self, signal: Signal) {
        kill_process(pid_of(&self.child), signal).unwrap_or_else(|e| panic!("cannot signal {}: {e}", self.command));
    }

    /// What Ctrl-C sends.
    pub fn interrupt(&self) {
        self.signal(Signal::INT);
    }

    /// Whether it has not ended yet.
    #[must_use]
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for its end; fails the test if that takes longer than `limit`.
    #[must_use]
    pub fn wait(mut self, limit: Duration) -> Run {
        let limit = limit * slowness();
        drop(self.child.stdin.take());
        let deadline = Instant::now() + limit;
        let status = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) => {}
                Err(e) => panic!("cannot wait for {}: {e}", self.command),
            }
            assert!(
                Instant::now() < deadline,
                "{} still runs after {limit:?}; it printed {:?} and {:?}",
                self.command,
                self.stdout_so_far(),
                self.stderr_so_far()
            );
            thread::sleep(POLL);
        };
        let wall = self.started.elapsed();
        // A descendant may hold the pipes open: its output is not waited for without limit.
        let grace = Instant::now() + Duration::from_secs(2);
        while !self.readers.iter().all(thread::JoinHandle::is_finished) && Instant::now() < grace {
            thread::sleep(POLL);
        }
        Run { command: self.command.clone(), status, stdout: self.stdout_so_far(), stderr: self.stderr_so_far(), wall }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Also reaches what a finished program left behind in its group.
        let _ = kill_process_group(pid_of(&self.child), Signal::KILL);
        drop(self.child.wait());
    }
}

/// Runs a program to its end.
#[must_use]
pub fn run(command: &mut Command, limit: Duration) -> Run {
    Running::start(command).wait(limit)
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_child(child)
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
}

fn collect(stream: Option<impl Read + Send + 'static>) -> (Output, thread::JoinHandle<()>) {
    let output = Output::default();
    let target = Arc::clone(&output);
    let reader = thread::spawn(move || {
        let Some(mut stream) = stream else { return };
        let mut chunk = vec![0; 1 << 16];
        while let Ok(bytes) = stream.read(&mut chunk) {
            if bytes == 0 {
                break;
            }
            target.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&chunk[..bytes]);
        }
    });
    (output, reader)
}
