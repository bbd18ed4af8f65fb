//! Starts the workers, hears what they say, and sums it up for people.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use crate::Asked;
use crate::seeds::Seeds;
use crate::targets;

/// Says something, to nobody if nobody listens any more.
macro_rules! say {
    ($($text:tt)*) => { drop(writeln!(std::io::stdout(), $($text)*)) };
}

/// Inputs below this many say nothing about the harness itself.
const FEW_INPUTS: u64 = 200;
/// How often a long run says where it is.
const STATUS_EVERY: Duration = Duration::from_secs(30);
/// Workers that are started again after a crash, for each of them.
const RESTARTS: u64 = 20;

/// What a worker said last of its sums.
#[derive(Default, Clone)]
struct Sum {
    inputs: u64,
    fruitful: u64,
    slowest: (u64, u64),
    largest: (u64, u64),
}

impl Sum {
    fn parse(words: &[&str]) -> Option<Self> {
        let n: Vec<u64> = words.iter().filter_map(|w| w.parse().ok()).collect();
        let [inputs, fruitful, slowest_ms, slowest, largest_bytes, largest] = n[..] else { return None };
        Some(Self { inputs, fruitful, slowest: (slowest_ms, slowest), largest: (largest_bytes, largest) })
    }

    fn add(&mut self, other: &Self) {
        self.inputs += other.inputs;
        self.fruitful += other.fruitful;
        self.slowest = self.slowest.max(other.slowest);
        self.largest = self.largest.max(other.largest);
    }
}

/// A worker and what is known of it.
struct Worker {
    child: Child,
    /// Number of its first input.
    first: u64,
    /// Input that was named last.
    at: Option<u64>,
    sum: Sum,
    /// Of those that it took the place of.
    before: Sum,
    crashes: u64,
}

/// Runs what was asked for; whether nothing was found.
pub(crate) fn main(asked: &Asked) -> Result<bool, String> {
    let names: Vec<String> = targets::all(&Seeds::load()?).into_iter().map(|(name, _)| name).collect();
    let chosen: Vec<&String> = names.iter().filter(|n| asked.target.as_ref().is_none_or(|a| a == *n)).collect();
    if chosen.is_empty() {
        return Err(format!("there is no such target; there are {}", names.join(", ")));
    }
    let each = Duration::from_secs(asked.seconds) / u32::try_from(chosen.len()).unwrap_or(1);
    let mut clean = true;
    for name in chosen {
        clean &= feed(name, asked, each)?;
    }
    Ok(clean)
}

fn start(
    name: &str,
    first: u64,
    asked: &Asked,
    time: Duration,
    to: &Sender<(usize, Option<String>)>,
    n: usize,
) -> Result<Child, String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut child = Command::new(program)
        .args(["--worker", name])
        .args([first, asked.processes, u64::try_from(time.as_millis()).unwrap_or(u64::MAX)].map(|n| n.to_string()))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("cannot start a worker: {e}"))?;
    if let Some(out) = child.stdout.take() {
        let to = to.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if to.send((n, Some(line))).is_err() {
                    return;
                }
            }
            drop(to.send((n, None)));
        });
    }
    Ok(child)
}

fn feed(name: &str, asked: &Asked, time: Duration) -> Result<bool, String> {
    let begun = Instant::now();
    let (to, from) = channel();
    let mut workers = Vec::new();
    for n in 0..asked.processes {
        let first = asked.first.unwrap_or(0) + n;
        let child = start(name, first, asked, time, &to, workers.len())?;
        workers.push(Worker { child, first, at: None, sum: Sum::default(), before: Sum::default(), crashes: 0 });
    }
    let (mut known, mut running, mut status) = (BTreeSet::new(), workers.len(), Instant::now());
    let mut finding = |input: u64, problem: &str| {
        if known.insert(problem.chars().filter(|c| !c.is_ascii_digit()).collect::<String>()) {
            say!("{name} {input}: {problem}; run ingero-fuzz 1 {name} {input}");
        }
        known.len()
    };
    let mut findings = 0;
    while running > 0 {
        let said = match from.recv_timeout(Duration::from_secs(1)) {
            Ok(said) => Some(said),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => break,
        };
        if status.elapsed() >= STATUS_EVERY {
            status = Instant::now();
            let inputs = total(&workers).inputs;
            eprintln!("{name}: {inputs} inputs after {} s, {findings} findings", begun.elapsed().as_secs());
        }
        let Some((n, line)) = said else { continue };
        let worker = &mut workers[n];
        let Some(line) = line else {
            // It has closed its output: it has ended.
            let ended = worker.child.wait().map_err(|e| e.to_string())?;
            running -= 1;
            if ended.code().is_some_and(|code| code < 2) {
                continue;
            }
            worker.crashes += 1;
            let input = worker.at.unwrap_or(worker.first);
            findings = finding(input, &format!("a worker ended by {ended} at this input or soon after it"));
            worker.before.add(&std::mem::take(&mut worker.sum));
            // On behind what it did, for the rest of the time.
            let left = time.saturating_sub(begun.elapsed());
            if worker.crashes <= RESTARTS && !left.is_zero() && worker.before.inputs > 0 {
                worker.first = input + asked.processes * (1 + worker.before.inputs);
                worker.child = start(name, worker.first, asked, left, &to, n)?;
                running += 1;
            }
            continue;
        };
        let words: Vec<&str> = line.splitn(3, '\t').collect();
        let number = words.get(1).and_then(|w| w.parse().ok());
        match (words[0], number) {
            ("at", Some(input)) => worker.at = Some(input),
            ("finding", Some(input)) => findings = finding(input, words.get(2).unwrap_or(&"")),
            ("sum", _) => {
                let words: Vec<&str> = line.split('\t').skip(1).collect();
                worker.sum = Sum::parse(&words).unwrap_or_else(|| worker.sum.clone());
            }
            _ => {}
        }
    }
    let sum = total(&workers);
    say!(
        "{name}: {} inputs in {} s ({} could be read in part), {findings} findings; slowest {} ms (input {}), most memory {} MiB (input {})",
        sum.inputs,
        begun.elapsed().as_secs(),
        sum.fruitful,
        sum.slowest.0,
        sum.slowest.1,
        sum.largest.0 >> 20,
        sum.largest.1
    );
    // Where hardly anything is readable, the CRCs are not put right and nothing is tried.
    let broken = sum.inputs > FEW_INPUTS && sum.fruitful * 3 < sum.inputs;
    if broken {
        say!("{name}: too few inputs were readable; the harness is broken");
    }
    Ok(findings == 0 && !broken && sum.inputs > 0)
}

fn total(workers: &[Worker]) -> Sum {
    let mut total = Sum::default();
    workers.iter().for_each(|w| {
        total.add(&w.sum);
        total.add(&w.before);
    });
    total
}
