//! One process that tries inputs of one target: `--worker TARGET FIRST STEP MILLISECONDS`. It tells the overseer what it does in lines
//! of words separated by tabs:
//!
//! - `at NUMBER` before an input that takes long, and `seeds` once they are loaded
//! - `finding NUMBER TEXT`
//! - `sum INPUTS FRUITFUL SLOWEST_MS NUMBER LARGEST_BYTES NUMBER`, now and then and at the end

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::dice::Dice;
use crate::memory;
use crate::seeds::Seeds;
use crate::targets::{self, BLOCK_LIMIT};

/// Longest time for one input, of a few hundred kilobytes at most.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// Memory for one input: what the dictionaries of a small file may take, and a block.
const MEMORY_LIMIT: usize = (256 << 20) + BLOCK_LIMIT;
/// Memory for the inputs of the target `bombs`, which looks at its own limits.
const BOMBS_LIMIT: usize = 4 << 30;
/// How often the overseer hears of the sum.
const TELL_EVERY: Duration = Duration::from_secs(2);

/// Number of the input that is being tried, and since when (milliseconds), for the watchdog.
static CURRENT: AtomicU64 = AtomicU64::new(0);
static SINCE: AtomicU64 = AtomicU64::new(0);
/// Where the latest panic was.
static PANICKED: Mutex<String> = Mutex::new(String::new());

#[derive(Default)]
struct Sum {
    inputs: u64,
    fruitful: u64,
    slowest: (Duration, u64),
    largest: (usize, u64),
}

impl Sum {
    fn tell(&self) {
        let (slowest, largest) = (self.slowest, self.largest);
        let millis = slowest.0.as_millis();
        tell(&format!(
            "sum\t{}\t{}\t{millis}\t{}\t{}\t{}",
            self.inputs, self.fruitful, slowest.1, largest.0, largest.1
        ));
    }
}

fn tell(line: &str) {
    let mut out = std::io::stdout().lock();
    // Without an overseer there is nobody to work for.
    if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
        std::process::abort();
    }
}

pub(crate) fn main(args: &[String]) -> Result<bool, String> {
    let number = |at: usize| args.get(at).and_then(|a| a.parse::<u64>().ok()).ok_or("--worker needs its numbers");
    let (name, first, step, millis) =
        (args.get(1).ok_or("--worker needs a target")?, number(2)?, number(3)?, number(4)?);
    std::panic::set_hook(Box::new(|info| {
        *PANICKED.lock().unwrap_or_else(PoisonError::into_inner) = info.to_string().replace(['\n', '\t'], " ");
    }));
    let seeds = Seeds::load()?;
    let all = targets::all(&seeds);
    let Some((_, run)) = all.iter().find(|(n, _)| n == name) else { return Err(format!("there is no target {name}")) };
    tell("seeds");

    let begun = Instant::now();
    let done = Arc::new(AtomicBool::new(false));
    let watchdog = watch(begun, Arc::clone(&done));
    let (mut sum, mut told, mut known) = (Sum::default(), begun, BTreeSet::new());
    for input in (first..).step_by(usize::try_from(step.max(1)).unwrap_or(1)) {
        if sum.inputs > 0 && begun.elapsed() >= Duration::from_millis(millis) {
            break;
        }
        CURRENT.store(input, Ordering::Relaxed);
        SINCE.store(elapsed_ms(begun), Ordering::Relaxed);
        let start = Instant::now();
        let (result, peak) = memory::peak_of(|| {
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                run(&seeds, &mut Dice(input.wrapping_mul(0xd134_2543_de82_ef95)))
            }))
        });
        let took = start.elapsed();
        sum.inputs += 1;
        sum.slowest = sum.slowest.max((took, input));
        sum.largest = sum.largest.max((peak, input));
        let limit = if name == "bombs" { BOMBS_LIMIT } else { MEMORY_LIMIT };
        let problem = match result {
            Err(_) => Some(PANICKED.lock().unwrap_or_else(PoisonError::into_inner).clone()),
            Ok(Err(problem)) => Some(problem),
            Ok(Ok(_)) if took > TIME_LIMIT => Some(format!("took {} ms", took.as_millis())),
            Ok(Ok(_)) if peak > limit => Some(format!("took {} MiB", peak >> 20)),
            Ok(Ok(rows)) => {
                sum.fruitful += u64::from(rows > 0);
                None
            }
        };
        if let Some(problem) = problem {
            // The same again, but for its numbers, is no news.
            let kind: String = problem.chars().filter(|c| !c.is_ascii_digit()).collect();
            if known.insert(kind) {
                tell(&format!("finding\t{input}\t{problem}"));
            }
        }
        if told.elapsed() >= TELL_EVERY {
            sum.tell();
            told = Instant::now();
        }
    }
    done.store(true, Ordering::Relaxed);
    drop(watchdog.join());
    sum.tell();
    Ok(known.is_empty())
}

fn elapsed_ms(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Says which input takes long, for whoever finds this process dead; ends it when it takes too long.
fn watch(begun: Instant, done: Arc<AtomicBool>) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let mut told = None;
        while !done.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(200));
            let (input, spent) =
                (CURRENT.load(Ordering::Relaxed), elapsed_ms(begun).saturating_sub(SINCE.load(Ordering::Relaxed)));
            if spent > 1000 && told != Some(input) {
                told = Some(input);
                tell(&format!("at\t{input}"));
            }
            if u128::from(spent) > 6 * TIME_LIMIT.as_millis() {
                tell(&format!("finding\t{input}\tstill at it after {} s", spent / 1000));
                std::process::abort();
            }
        }
    })
}
