//! `ingero-fuzz [SECONDS [TARGET [SEED]]]`: feeds broken and hostile inputs to everything that reads a
//! file, for so long in all, and fails when something panics, takes too long, takes too much memory or
//! breaks a promise. It needs no other toolchain than the programs do.
//!
//! Inputs are made of real recordings: parts of them are changed, with all CRCs put right, so that what
//! lies behind the CRCs is reached. An input follows from its number, which a finding names:
//! `ingero-fuzz 1 TARGET NUMBER` runs it again, first of all.

mod dice;
mod memory;
mod recording;
mod targets;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dice::Dice;
use recording::Seed;
use targets::{Seeds, TARGETS, Target};

/// Longest time for one input, of a few hundred kilobytes at most.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// Memory for one input: what the dictionaries of a small file may take, and the columns of a block.
const MEMORY_LIMIT: usize = (256 + 256) << 20;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let seconds = args.first().map_or(Some(60), |s| s.parse().ok());
    let first = args.get(2).map_or(Some(0), |s| s.parse().ok());
    let (Some(seconds), Some(first)) = (seconds, first) else {
        eprintln!("ingero-fuzz [SECONDS [TARGET [NUMBER]]]");
        return ExitCode::from(2);
    };
    let chosen: Vec<_> = TARGETS.iter().filter(|(name, _)| args.get(1).is_none_or(|a| a == name)).collect();
    let seeds = match load() {
        Ok(seeds) => seeds,
        Err(problem) => {
            eprintln!("ingero-fuzz: {problem}");
            return ExitCode::from(2);
        }
    };
    // A panic is a finding, told with its input's number.
    std::panic::set_hook(Box::new(|info| eprintln!("{info}")));
    let each = Duration::from_secs(seconds) / u32::try_from(chosen.len().max(1)).unwrap_or(1);
    let mut findings = 0;
    for (name, target) in chosen {
        findings += feed(name, *target, &seeds, each, first);
    }
    if findings == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The input that is being tried, and since when (milliseconds), for the watchdog.
static CURRENT: AtomicU64 = AtomicU64::new(0);
static SINCE: AtomicU64 = AtomicU64::new(0);

fn feed(name: &'static str, target: Target, seeds: &Seeds, time: Duration, first: u64) -> u64 {
    let begun = Instant::now();
    let millis = move || u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    SINCE.store(0, Ordering::Relaxed);
    let done = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let watched = std::sync::Arc::clone(&done);
    let watchdog = std::thread::spawn(move || {
        while !watched.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(200));
            let spent = millis().saturating_sub(SINCE.load(Ordering::Relaxed));
            if u128::from(spent) > 6 * TIME_LIMIT.as_millis() {
                eprintln!("{name} {}: still at it after {spent} ms", CURRENT.load(Ordering::Relaxed));
                std::process::abort();
            }
        }
    });
    let (mut inputs, mut fruitful, mut findings) = (0_u64, 0_u64, 0_u64);
    let (mut slowest, mut largest) = ((Duration::ZERO, 0), (0, 0));
    for number in first.. {
        if begun.elapsed() >= time && inputs > 0 {
            break;
        }
        CURRENT.store(number, Ordering::Relaxed);
        SINCE.store(millis(), Ordering::Relaxed);
        let base = memory::begin();
        let start = Instant::now();
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            target(seeds, &mut Dice(number.wrapping_mul(0xd134_2543_de82_ef95)))
        }));
        let (took, peak) = (start.elapsed(), memory::peak(base));
        inputs += 1;
        slowest = slowest.max((took, number));
        largest = largest.max((peak, number));
        let problem = match result {
            Err(_) => Some("panicked".to_owned()),
            Ok(Err(problem)) => Some(problem),
            Ok(Ok(_)) if took > TIME_LIMIT => Some(format!("took {} ms", took.as_millis())),
            Ok(Ok(_)) if peak > MEMORY_LIMIT => Some(format!("took {} MiB", peak >> 20)),
            Ok(Ok(rows)) => {
                fruitful += u64::from(rows > 0);
                None
            }
        };
        if let Some(problem) = problem {
            findings += 1;
            println!("{name} {number}: {problem}; run ingero-fuzz 1 {name} {number}");
            if findings == 20 {
                break;
            }
        }
    }
    done.store(true, Ordering::Relaxed);
    drop(watchdog.join());
    println!(
        "{name}: {inputs} inputs ({fruitful} could be read in part), {findings} findings; slowest {} ms (input {}), most memory {} MiB (input {})",
        slowest.0.as_millis(),
        slowest.1,
        largest.0 >> 20,
        largest.1
    );
    // Where hardly anything is readable, the CRCs are not put right and nothing is tried.
    if inputs > 200 && fruitful * 2 < inputs {
        println!("{name}: too few inputs were readable; the harness is broken");
        findings += 1;
    }
    findings
}

fn load() -> Result<Seeds, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../investigations");
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let (mut recordings, mut texts) = (Vec::new(), Vec::new());
    let mut folders: Vec<PathBuf> =
        std::fs::read_dir(&root).map_err(|e| e.to_string())?.filter_map(|e| Some(e.ok()?.path())).collect();
    folders.sort();
    for at in folders {
        if at.join("run.igt").is_file() {
            recordings.push(Seed::read(&at.join("run.igt")).map_err(|e| e.to_string())?);
        }
        let text = at.join("capture.trace.txt.xz");
        if text.is_file() {
            use std::io::Read;
            let opened = ingero_convert::input::Input::open(&text).map_err(|e| e.to_string())?;
            let mut bytes = Vec::new();
            let reader = opened.text(ingero_convert::input::Progress::none()).map_err(|e| e.to_string())?;
            reader.take(1 << 20).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
            texts.push(bytes);
        }
    }
    for seed in &recordings {
        let path = folder.path().join("unchanged.igt");
        std::fs::write(&path, seed.unchanged()).map_err(|e| e.to_string())?;
        let trace = ingero_format::Trace::open(&path).map_err(|e| e.to_string())?;
        let mut batch = ingero_format::Batch::new().map_err(|e| e.to_string())?;
        let whole = trace.blocks().iter().all(|b| trace.read_block(b, &mut batch, None).is_ok());
        if !whole || !trace.complete() || !trace.damage().is_empty() {
            return Err("a seed does not survive being taken apart".to_owned());
        }
    }
    if recordings.is_empty() || texts.is_empty() {
        return Err(format!("no seeds in {}", root.display()));
    }
    Ok(Seeds { recordings, texts, folder })
}
