//! `play`: events as they happened, at the pace of the recording.

use std::io::{self, BufRead, IsTerminal, Write};
use std::ops::ControlFlow;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ingero_replay::program::{Ending, say};
use ingero_replay::{Window, parse_duration, parse_when};

use super::dump::Plan;
use ingero_replay::wording::seconds;

/// Speeds that make sense: at the lowest, a millisecond takes a quarter of an hour.
const SPEEDS: std::ops::RangeInclusive<f64> = 1e-6..=1e9;

/// How many times as fast as it happened.
pub(super) fn parse_speed(text: &str) -> Result<f64, String> {
    let number = text.strip_prefix(['x', 'X']).unwrap_or(text);
    number.parse().ok().filter(|speed| SPEEDS.contains(speed)).ok_or_else(|| {
        format!("cannot play at the speed {text:?}: give a factor from 0.000001 to 1000000000, such as 0.1 or 10")
    })
}

/// Lines that a person types while it plays; without a terminal there are none.
pub(super) fn typed_commands() -> Receiver<String> {
    let (send, receive) = mpsc::channel();
    if io::stdin().is_terminal() && io::stderr().is_terminal() {
        tell("Enter pauses and goes on; 12.5s goes there, +5s or -5s ahead or back, x2 sets the speed, q ends");
        std::thread::spawn(move || {
            for line in io::stdin().lock().lines().map_while(io::Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
    }
    receive
}

fn tell(text: &str) {
    say("ingero-replay", text);
}

/// What a person wants.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Wish {
    Pause,
    End,
    Speed(f64),
    /// An instant on the trace's clock.
    Go(u64),
}

/// Where the play is: trace time and clock time that belong together.
struct Pace {
    origin_ns: u64,
    since: Instant,
    speed: f64,
}

impl Pace {
    fn new(origin_ns: u64, speed: f64) -> Self {
        Self { origin_ns, since: Instant::now(), speed }
    }

    /// How long to wait for an instant of the trace.
    fn wait(&self, ts_ns: u64) -> Duration {
        #[expect(clippy::cast_precision_loss, reason = "a pause is not exact to the nanosecond anyway")]
        let due_s = ts_ns.saturating_sub(self.origin_ns) as f64 / 1e9 / self.speed;
        // Whoever waits for a century waits forever.
        Duration::from_secs_f64(due_s.min(3e9)).saturating_sub(self.since.elapsed())
    }

    /// The instant of the trace that is due now.
    fn now_ns(&self) -> u64 {
        let passed = self.since.elapsed().as_secs_f64() * self.speed * 1e9;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` keeps to the range")]
        let passed = passed as u64;
        self.origin_ns.saturating_add(passed)
    }
}

/// Plays what `plan` names, `speed` times as fast as it happened, and heeds what is typed.
pub(super) fn run(mut plan: Plan, speed: f64, typed: &Receiver<String>, out: &mut impl Write) -> Result<Ending> {
    let mut pace = Pace::new(plan.from_ns, speed);
    loop {
        let (mut go, mut ended) = (None, false);
        let walked = plan.walk(|ts_ns, line| {
            match wait(&plan, &mut pace, ts_ns, typed, out)? {
                Some(Wish::End) => {
                    ended = true;
                    return Ok(ControlFlow::Break(()));
                }
                Some(Wish::Go(at_ns)) => {
                    go = Some(at_ns);
                    return Ok(ControlFlow::Break(()));
                }
                _ => {}
            }
            out.write_all(line.as_bytes()).context("cannot write")?;
            Ok(ControlFlow::Continue(()))
        })?;
        match go {
            Some(at_ns) => {
                plan.from_ns = at_ns;
                pace = Pace::new(at_ns, pace.speed);
            }
            None => {
                if walked.is_empty() && !ended {
                    plan.say_nothing_matched();
                }
                return Ok(walked.ending(plan.trace));
            }
        }
    }
}

/// Waits until an event is due. What was typed meanwhile and ends the walk is returned.
fn wait(
    plan: &Plan,
    pace: &mut Pace,
    ts_ns: u64,
    typed: &Receiver<String>,
    out: &mut impl Write,
) -> Result<Option<Wish>> {
    loop {
        let left = pace.wait(ts_ns);
        if !left.is_zero() {
            // Whatever was printed is there to be seen while nothing happens.
            out.flush().context("cannot write")?;
        }
        let line = match typed.recv_timeout(left) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => return Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                std::thread::sleep(left);
                return Ok(None);
            }
        };
        let now_ns = pace.now_ns().min(ts_ns);
        match wish(plan, now_ns, &line) {
            Ok(Wish::Pause) => {
                out.flush().context("cannot write")?;
                let at = seconds(i128::from(now_ns) - i128::from(plan.start_ns));
                tell(&format!("paused at {at} s; Enter goes on"));
                let next = typed.recv().ok();
                *pace = Pace::new(now_ns, pace.speed);
                match next.map(|line| wish(plan, now_ns, &line)) {
                    Some(Ok(Wish::Pause)) | None => {}
                    Some(Ok(Wish::Speed(speed))) => pace.speed = speed,
                    Some(Ok(wish)) => return Ok(Some(wish)),
                    Some(Err(problem)) => tell(&problem),
                }
            }
            Ok(Wish::Speed(speed)) => *pace = Pace::new(now_ns, speed),
            Ok(wish) => return Ok(Some(wish)),
            Err(problem) => tell(&problem),
        }
    }
}

fn wish(plan: &Plan, now_ns: u64, line: &str) -> Result<Wish, String> {
    let line = line.trim();
    let by = |text: &str| parse_duration(text.trim()).map_err(|e| e.to_string());
    Ok(match line.split_at_checked(1) {
        None => Wish::Pause,
        Some(("q" | "Q", "")) => Wish::End,
        Some(("x" | "X", _)) => Wish::Speed(parse_speed(line)?),
        Some(("+", ahead)) => Wish::Go(now_ns.saturating_add(by(ahead)?)),
        Some(("-", back)) => Wish::Go(now_ns.saturating_sub(by(back)?).max(plan.start_ns)),
        Some(_) if parse_when(line).is_err() => {
            return Err(format!("cannot follow {line:?}: type Enter, a time such as 12.5s, +5s, -5s, x2 or q"));
        }
        Some(_) => Wish::Go(Window::parse_instant(plan.trace, line)?),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

    use ingero_format::Trace;
    use ingero_format::catalog::Exit;
    use ingero_replay::Processes;
    use ingero_replay::fixture::Fixture;

    use super::*;
    use crate::args::Format;
    use crate::commands::threads::Threads;

    const SECOND: u64 = 1_000_000_000;

    /// An event each second for ten of them.
    fn trace() -> Trace {
        let mut f = Fixture::new();
        let task = f.task(7, 7);
        for i in 0..10 {
            f.push((100 + i) * SECOND, 0, Exit { task, group_dead: None });
        }
        f.finish()
    }

    fn plan(trace: &Trace) -> Plan<'_> {
        Plan {
            trace,
            start_ns: 100 * SECOND,
            from_ns: 100 * SECOND,
            to_ns: None,
            kinds: None,
            tasks: None,
            threads: Threads { trace, processes: Processes::new(trace) },
            format: Format::Text,
        }
    }

    /// The seconds of the events that are printed, and how long it took.
    fn play(speed: f64, typed: &[&str]) -> (Vec<String>, Duration) {
        let trace = trace();
        let (send, receive) = mpsc::channel();
        typed.iter().for_each(|line| send.send((*line).to_owned()).unwrap());
        drop(send);
        let (mut out, begun) = (Vec::new(), Instant::now());
        run(plan(&trace), speed, &receive, &mut out).unwrap();
        let second = |line: &str| line.trim_start().split('.').next().unwrap().to_owned();
        (String::from_utf8(out).unwrap().lines().map(second).collect(), begun.elapsed())
    }

    #[test]
    fn the_pace_is_that_of_the_recording() {
        let (all, took) = play(20.0, &[]);
        assert_eq!(all, ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]);
        // Nine seconds, twenty times as fast. A loaded machine may be late, never early.
        assert!(took >= Duration::from_millis(450), "{took:?}");
        assert!(play(1e9, &[]).1 < Duration::from_millis(450));
    }

    #[test]
    fn what_is_typed_is_heeded() {
        let typed = |lines: &[&str]| play(1e9, lines).0.join(" ");
        assert_eq!(typed(&["7s"]), "7 8 9");
        assert_eq!(typed(&["+8s", "-1s"]), "7 8 9");
        assert_eq!(typed(&["-1s"]), "0 1 2 3 4 5 6 7 8 9");
        assert_eq!(typed(&["q"]), "");
        assert_eq!(typed(&["", "", "8s"]), "8 9");
        assert_eq!(typed(&["", "8s"]), "8 9");
        // What cannot be followed changes nothing.
        assert_eq!(typed(&["rewind", "20s", "x0", "+soon", "8s"]), "8 9");
        assert_eq!(play(1e-6, &["x1e9"]).0.len(), 10);
    }

    #[test]
    fn speeds_are_factors() {
        assert_eq!(parse_speed("2"), Ok(2.0));
        assert_eq!(parse_speed("x0.5"), Ok(0.5));
        for text in ["", "0", "-1", "fast", "nan", "inf", "1e10"] {
            assert!(parse_speed(text).unwrap_err().contains("cannot play at the speed"), "{text}");
        }
    }
}
