//! `ingero-replay play` in a real terminal: what is typed while it plays is followed. Needs tmux, and no root.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use ingero_tests::tool;

/// How long anything may take to appear.
const LIMIT: Duration = Duration::from_secs(60);

/// A terminal of 100 by 40 characters with a player in it.
struct Terminal {
    server: String,
}

impl Terminal {
    fn play(test: &str, args: &str) -> Self {
        let terminal = Self { server: format!("ingero-{test}-{}", std::process::id()) };
        let run = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("investigations/h200-fight/run.igt");
        let player = tool("ingero-replay");
        // The terminal stays when the player has ended, and shows how.
        let command =
            format!("'{}' play '{}' {args}; echo \"ended with $?\"; sleep 600", player.display(), run.display());
        terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "40", &command]);
        terminal.wait("its greeting", |screen| screen.contains("Enter pauses and goes on"));
        terminal
    }

    fn tmux(&self, args: &[&str]) -> String {
        let out = Command::new("tmux").args(["-L", &self.server]).args(args).env_remove("TMUX").output();
        let out = out.unwrap_or_else(|e| panic!("cannot run tmux: {e}"));
        assert!(out.status.success(), "tmux {args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }

    fn enter(&self, line: &str) {
        if !line.is_empty() {
            self.tmux(&["send-keys", "-l", "--", line]);
        }
        self.tmux(&["send-keys", "Enter"]);
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-J", "-S", "-200"])
    }

    /// Waits until the screen shows something.
    fn wait(&self, what: &str, shows: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let screen = self.screen();
            if shows(&screen) {
                return screen;
            }
            assert!(begun.elapsed() < LIMIT, "{what} is not on the screen:\n{screen}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the last event on the screen is of such a time.
    fn wait_for_event(&self, what: &str, is_such: impl Fn(f64) -> bool) {
        self.wait(what, |screen| events(screen).last().is_some_and(|&at| is_such(at)));
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The player ends with its terminal.
        let _ = Command::new("tmux").args(["-L", &self.server, "kill-server"]).output();
    }
}

/// Times of the events on a screen, in seconds.
fn events(screen: &str) -> Vec<f64> {
    let time = |line: &str| {
        let first = line.split_whitespace().next()?;
        let (_, fraction) = first.split_once('.')?;
        first.parse().ok().filter(|_| fraction.len() == 9)
    };
    screen.lines().filter_map(time).collect()
}

#[test]
fn what_is_typed_pauses_seeks_and_sets_the_speed() {
    let terminal = Terminal::play("play", "--only call --at 10.61s --speed 0.01");
    terminal.wait_for_event("the first call", |at| at > 10.62);

    terminal.enter("");
    terminal.wait("the pause", |screen| screen.contains("paused at 10."));
    let still = events(&terminal.screen());
    // At this speed several calls would follow.
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(events(&terminal.screen()), still, "nothing moves in a pause");
    terminal.enter("");
    terminal.wait("the next call", |screen| events(screen).len() > still.len());

    terminal.enter("rewind");
    terminal.wait("a refusal", |screen| screen.contains("cannot follow \"rewind\""));
    terminal.enter("15.17s");
    terminal.wait_for_event("a call after 15.17 s", |at| at > 15.17);
    terminal.enter("x0.0001");
    terminal.enter("-4.58s");
    terminal.enter("x0.05");
    terminal.wait_for_event("a call from before", |at| at < 11.2);
    terminal.enter("+5s");
    terminal.wait_for_event("a call from later", |at| at > 15.5);
    terminal.enter("x1e6");
    terminal.wait("the end", |screen| screen.contains("ended with 0"));
}

#[test]
fn q_ends_it_and_speed_and_place_can_be_given() {
    let terminal = Terminal::play("quit", "--only call --at 10.61s --speed 0.000001");
    // Nothing is due for hours.
    terminal.enter("q");
    let screen = terminal.wait("the end", |screen| screen.contains("ended with 0"));
    assert_eq!(events(&screen), Vec::<f64>::new());
}
