//! The terminal timeline, driven in a real terminal: tmux presses the keys and reads the screen.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use ingero_tests::{bad_input, tool};

/// Longest wait for a screen, also while others use the machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A recording that says who woke whom.
const WORKERS: &str = "h200-dataloader-remedies/workers.igt";
/// One with states of every kind, and no wall-clock time.
const FIGHT: &str = "h200-fight/run.igt";

fn recording(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../investigations").join(name).canonicalize().unwrap()
}

/// A terminal of its own server, which is gone with it.
struct Tmux {
    socket: String,
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let _ = Command::new("tmux").args(["-L", &self.socket, "kill-server"]).output();
    }
}

impl Tmux {
    /// A terminal of so many columns and lines with a shell that has these variables.
    fn start(name: &str, size: (u16, u16), env: &[(&str, &str)]) -> Self {
        let this = Self { socket: format!("ingero-{}-{name}", std::process::id()) };
        let shell = "env PS1='ready> ' bash --norc --noprofile -i";
        let (width, height) = (size.0.to_string(), size.1.to_string());
        let mut args = vec!["-f", "/dev/null", "new-session", "-d", "-s", "it", "-x", &width, "-y", &height];
        let pairs: Vec<String> = env.iter().map(|(k, v)| format!("{k}={v}")).collect();
        pairs.iter().for_each(|pair| args.extend(["-e", pair]));
        args.push(shell);
        this.tmux(&args);
        this.wait_for("the shell", |screen| screen.contains("ready>"));
        this
    }

    fn tmux(&self, args: &[&str]) -> String {
        let mut command = Command::new("tmux");
        // The characters of a terminal that can show them, wherever the test runs.
        command.env_remove("TMUX").env("LC_ALL", "C.UTF-8").arg("-u").args(["-L", &self.socket]).args(args);
        let out = command.output().expect("tmux is needed: apt-get install tmux");
        assert!(out.status.success(), "tmux {args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-t", "it"])
    }

    /// The screen with its colours.
    fn coloured(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-e", "-t", "it"])
    }

    /// Presses keys by their names.
    fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys", "-t", "it"], keys].concat());
    }

    /// Types a text as it is.
    fn type_text(&self, text: &str) {
        self.tmux(&["send-keys", "-t", "it", "-l", text]);
    }

    /// Waits until the screen is as wanted.
    fn wait_for(&self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let screen = self.screen();
            if wanted(&screen) {
                return screen;
            }
            assert!(begun.elapsed() < PATIENCE, "{what} does not come:\n{screen}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn open(&self, name: &str, args: &str) -> String {
        let (tool, file) = (tool("ingero-analyze"), recording(name));
        self.type_text(&format!("{} {} {args}; echo left with $?", tool.display(), file.display()));
        self.press(&["Enter"]);
        self.wait_for("the timeline", |screen| is_shown(screen) && screen.contains("incidents: . goes"))
    }

    /// Waits until the shell has its terminal back: what was there before, a cursor, typed letters seen.
    fn wait_until_left(&self) {
        let screen = self.wait_for("the end", |screen| screen.contains("left with 0"));
        assert!(!is_shown(&screen), "{screen}");
        assert!(screen.contains("ready>"), "the shell's screen is gone:\n{screen}");
        assert_eq!(self.tmux(&["display-message", "-p", "-t", "it", "#{alternate_on} #{cursor_flag}"]).trim(), "0 1");
        self.type_text("echo still $((40 + 2))");
        self.wait_for("what is typed", |screen| screen.contains("echo still $((40 + 2))"));
        self.press(&["Enter"]);
        self.wait_for("the shell", |screen| screen.contains("still 42"));
    }
}

/// Codes that choose a colour, of letters or of the ground; 39 and 49 give the terminal's own back.
fn colours_of(screen: &str) -> Vec<u32> {
    let sequences = screen.split("\u{1b}[").skip(1).filter_map(|rest| rest.split_once('m')).map(|(codes, _)| codes);
    let codes = sequences.flat_map(|codes| codes.split(';').filter_map(|code| code.parse().ok()).collect::<Vec<u32>>());
    codes.filter(|code| matches!(code, 30..=38 | 40..=48 | 90..=107)).collect()
}

/// The last line says how to leave.
fn is_shown(screen: &str) -> bool {
    screen.trim_end().lines().last().is_some_and(|line| line.contains("help") && line.contains("quit"))
}

/// The instant of the cursor, in the first line: `12.345678901 s`.
fn cursor_s(screen: &str) -> f64 {
    let first = screen.lines().next().unwrap();
    let before = first.split(" s  (column").next().unwrap();
    before.split_whitespace().last().unwrap().parse().unwrap_or_else(|_| panic!("no instant in {first:?}"))
}

#[test]
fn a_whole_visit() {
    let t = Tmux::start("visit", (80, 24), &[]);
    let opened = t.open(WORKERS, "--tui");
    assert!(opened.lines().all(|line| line.chars().count() <= 80), "{opened}");
    assert!(opened.contains("python3 (2042)"), "{opened}");
    assert!(colours_of(&t.coloured()).len() > 5, "it has no colours");

    // In, and the columns are narrower.
    t.press(&["+", "+", "+"]);
    let zoomed = t.wait_for("the zoom", |screen| screen != opened && is_shown(screen));
    assert_eq!(cursor_s(&zoomed), cursor_s(&opened), "the cursor keeps its instant");

    // A call by a part of its name, and the next one.
    t.press(&["/"]);
    t.wait_for("the prompt", |screen| screen.contains("thread, process or call:"));
    t.type_text("cudalaunch");
    t.press(&["Enter"]);
    let found = t.wait_for("a call", |screen| screen.contains("a call that matches"));
    t.press(&["n"]);
    let next = t.wait_for("the next call", |screen| is_shown(screen) && cursor_s(screen) > cursor_s(&found));
    t.press(&["N"]);
    t.wait_for("the call before", |screen| is_shown(screen) && cursor_s(screen) < cursor_s(&next));

    // The worst incident, and its sentence.
    t.press(&["."]);
    let incident = t.wait_for("the incident", |screen| screen.contains("incident 1/"));
    assert!(incident.contains("HIGH") && incident.contains("lost 6.17 s"), "{incident}");

    // From a thread that is blocked, and woken by another, to that one, and back.
    t.press(&["t"]);
    t.wait_for("the prompt", |screen| screen.contains("time ("));
    t.type_text("1s");
    t.press(&["Enter"]);
    t.wait_for("the time", |screen| is_shown(screen) && cursor_s(screen) == 1.0);
    t.press(&["/"]);
    t.wait_for("the prompt", |screen| screen.contains("thread, process or call:"));
    t.type_text("2055");
    t.press(&["Enter"]);
    let blocked = t.wait_for("the thread", |screen| screen.contains("1 of 1 threads"));
    assert!(blocked.contains("python3 (2055) of python3 (2042): blocked in futex for "), "{blocked}");
    t.press(&["w"]);
    let waker = t.wait_for("the waker", |screen| screen.contains("woke python3 (2055)"));
    assert!(cursor_s(&waker) > 8.0 && waker.contains("\npython3 (2042): runs on cpu "), "{waker}");
    t.press(&["b"]);
    t.wait_for("the way back", |screen| {
        is_shown(screen) && cursor_s(screen) == 1.0 && screen.contains("\npython3 (2055) of python3 (2042): ")
    });

    t.press(&["?"]);
    t.wait_for("the help", |screen| screen.contains("any key closes this"));
    t.press(&["Escape"]);
    t.wait_for("the timeline", is_shown);

    // Another size is another screen.
    t.tmux(&["resize-window", "-t", "it", "-x", "60", "-y", "16"]);
    t.wait_for("the smaller screen", |screen| is_shown(screen) && screen.lines().all(|l| l.chars().count() <= 60));
    t.tmux(&["resize-window", "-t", "it", "-x", "30", "-y", "8"]);
    t.wait_for("that it is too small", |screen| screen.contains("too small"));
    t.tmux(&["resize-window", "-t", "it", "-x", "120", "-y", "40"]);
    t.wait_for("the larger screen", is_shown);
    t.press(&["q"]);
    t.wait_until_left();
}

#[test]
fn without_colours_and_with_control_c() {
    let t = Tmux::start("plain", (80, 24), &[("NO_COLOR", "1"), ("LC_ALL", "C")]);
    let screen = t.open(FIGHT, "--tui --pid 531 --from 5s");
    assert!(screen.is_ascii(), "{screen}");
    assert!(screen.contains("## ran") && screen.contains("++ could run"), "{screen}");
    assert!(screen.lines().any(|line| line.contains("531") && line.contains('#') && line.contains('.')), "{screen}");
    assert!(!screen.contains("sh ("), "only the process that was asked for:\n{screen}");
    assert!(cursor_s(&screen) > 5.0);
    let colours = colours_of(&t.coloured());
    assert!(colours.is_empty(), "{colours:?}");
    t.press(&["C-c"]);
    t.wait_until_left();
}

#[test]
fn a_signal_gives_the_terminal_back() {
    let t = Tmux::start("signal", (100, 30), &[]);
    let screen = t.open(WORKERS, "--tui --phase 1 --wall");
    assert!(screen.lines().next().unwrap().contains(" UTC"), "{screen}");
    // The shell's child is the program: its only one.
    let shell = t.tmux(&["display-message", "-p", "-t", "it", "#{pane_pid}"]);
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", shell.trim())).unwrap();
    let pid = rustix_pid(children.trim());
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    t.wait_until_left();
}

/// Else it would turn in circles for as long as the machine runs.
#[test]
fn a_terminal_that_is_gone_ends_it() {
    let terminal = Tmux::start("gone", (80, 24), &[]);
    terminal.open(FIGHT, "--tui");
    let pane = terminal.tmux(&["list-panes", "-t", "it", "-F", "#{pane_pid}"]);
    let children = format!("/proc/{0}/task/{0}/children", pane.trim());
    let pid = std::fs::read_to_string(children).unwrap().trim().to_owned();
    let command = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
    assert!(command.contains("--tui"), "{command}");
    drop(terminal);
    let begun = Instant::now();
    while Path::new(&format!("/proc/{pid}")).exists() {
        assert!(begun.elapsed() < PATIENCE, "process {pid} goes on without a terminal");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn rustix_pid(text: &str) -> rustix::process::Pid {
    rustix::process::Pid::from_raw(text.parse().unwrap()).unwrap()
}

#[test]
fn where_there_is_no_terminal_it_says_so() {
    let mut command = Command::new(tool("ingero-analyze"));
    let run = bad_input(command.arg(recording(FIGHT)).arg("--tui"));
    assert!(run.stderr.contains("--tui needs a terminal"), "{run:#?}");
    for other in ["--per-process", "--format=json"] {
        let mut command = Command::new(tool("ingero-analyze"));
        let run = bad_input(command.arg(recording(FIGHT)).args(["--tui", other]));
        assert!(run.stderr.contains("cannot be used with"), "{run:#?}");
    }
}

/// Of a recording of which all switches are unreadable every state is marked as lost, with colours and without.
#[test]
fn where_events_are_lost_the_screen_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.igt");
    let mut bytes = std::fs::read(recording(FIGHT)).unwrap();
    let trace = ingero_format::Trace::open(recording(FIGHT)).unwrap();
    let switch = ingero_format::catalog::Kind::Switch as u16;
    let blocks = trace.blocks().iter().filter(|b| b.header.kind == switch);
    for block in blocks {
        // The last byte of its payload.
        let end = usize::try_from(block.offset).unwrap()
            + ingero_format::layout::CHUNK_HEADER_LEN
            + block.header.payload_len as usize;
        bytes[end - 1] ^= 4;
    }
    std::fs::write(&path, bytes).unwrap();
    for env in [&[("NO_COLOR", "1"), ("LC_ALL", "C")][..], &[("LC_ALL", "C.UTF-8")]] {
        // Each a server of its own: the one before may still be leaving.
        let t = Tmux::start(if env.len() == 2 { "lost-plain" } else { "lost" }, (80, 24), env);
        t.type_text(&format!("{} {} --tui; echo left with $?", tool("ingero-analyze").display(), path.display()));
        t.press(&["Enter"]);
        let screen =
            t.wait_for("the end of the analysis", |screen| is_shown(screen) && screen.contains("events lost here"));
        let mark = if env.len() == 2 { "?" } else { "\u{2592}" };
        assert!(screen.starts_with("not whole, ") && screen.contains("events lost "), "{screen}");
        assert!(
            screen.contains("who ran and who waited is not known") || screen.contains("who ran and who"),
            "{screen}"
        );
        let marked = screen.lines().filter(|line| line.matches(mark).count() > 40).count();
        assert!(marked >= 3, "{screen}");
        t.press(&["q"]);
        t.wait_for("the end", |screen| screen.contains("left with 2"));
    }
}
