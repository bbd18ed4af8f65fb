//! Children that do their role's work when they are told to.

use std::{
    env,
    hint::black_box,
    io::{BufRead, BufReader, Read, Write},
    process::{Child, ChildStdin, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::probed::{Shape, by_pointer, eight_arguments, outer_out, recursive};

const ROLE: &str = "INGERO_TEST_ROLE";
pub(crate) const CALLS: u64 = 500;

/// Not a test of its own: what children run. It acts on each line from its standard input.
#[test]
fn child() {
    let Ok(role) = env::var(ROLE) else { return };
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        let _ = line.unwrap();
        act(&role);
        println!("done");
    }
}

fn act(role: &str) {
    match role {
        "calls" => make_calls(),
        "calls in a grandchild" => {
            let mut grandchild = Puppet::new("calls");
            grandchild.go();
            assert!(grandchild.end().success());
        }
        "spin" => spin(Duration::from_millis(600)),
        "load" => {
            // SAFETY: a library without side effects.
            let library = unsafe { libc::dlopen(c"libresolv.so.2".as_ptr(), libc::RTLD_NOW) };
            assert!(!library.is_null());
        }
        "touch" => {
            let mut memory = vec![0_u8; 8 << 20];
            for at in (0..memory.len()).step_by(4096) {
                memory[at] = black_box(1);
            }
            black_box(&memory);
        }
        "leader ends first" => {
            thread::spawn(|| {
                thread::sleep(Duration::from_millis(100));
                std::process::exit(3);
            });
            // SAFETY: ends this thread alone, in the main thread's place.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
        }
        other => panic!("unknown role {other}"),
    }
}

pub(crate) fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        black_box(start);
    }
}

fn make_calls() {
    let shape = Shape { padding: 0, small: 0x1234_5678, large: 0xdead_beef_0000_0001 };
    black_box(shape.padding);
    for n in 0..CALLS {
        black_box(eight_arguments(n, 2, 3, 4, 5, 6, 7, 8));
        black_box(by_pointer(&raw const shape, 0x10));
        let mut out = 0;
        black_box(outer_out(&raw mut out, n));
        black_box(out);
    }
    black_box(recursive(5));
}

/// A child that does its role's work whenever it is told to.
pub(crate) struct Puppet {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: BufReader<std::process::ChildStdout>,
}

impl Puppet {
    pub(crate) fn new(role: &str) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "puppet::child", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().unwrap());
        let mut puppet = Self { child, stdin, lines: BufReader::new(stdout) };
        puppet.wait_for("ready");
        puppet
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn tell(&mut self) {
        self.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    }

    pub(crate) fn go(&mut self) {
        self.tell();
        self.wait_for("done");
    }

    pub(crate) fn wait_for(&mut self, word: &str) {
        let mut line = String::new();
        while !line.trim_end().ends_with(word) {
            line.clear();
            assert_ne!(self.lines.read_line(&mut line).unwrap(), 0, "the child ended before it said {word}");
        }
    }

    pub(crate) fn end(mut self) -> std::process::ExitStatus {
        drop(self.stdin.take());
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).unwrap();
        self.child.wait().unwrap()
    }
}
