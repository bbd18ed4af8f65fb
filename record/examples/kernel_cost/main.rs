//! What the kernel side costs: nanoseconds per probed call and per switch, as root on a quiet machine.
//!
//! ```text
//! cargo run --release -p ingero-record --example kernel_cost [THREADS]
//! ```
//!
//! Each thread of a child calls an empty function; the difference to the same without probes is the cost of
//! an entry and a return with their records. Beside it stand, in turns, a probe pair that does nothing and one that
//! writes records of the same sizes: the least that a pair can cost. Then two threads on one CPU pass a byte to and fro: a pass is a
//! waking, a wakeup and a switch. The reader drains every 5 ms, as the recorder does.

use std::{
    env,
    hint::black_box,
    io::{BufRead, BufReader, Read, Write},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use ingero_record::kernel::{ArgSlot, CallEntry, CallReturn, FunctionSpec, Kernel, Options, Probe};

mod reference;

use reference::Reference;

const CALLS: u64 = 400_000;
const ROUNDS: usize = 5;
const ROLE: &str = "INGERO_COST_ROLE";

/// Begins, like the CUDA runtime's functions, with an instruction that the kernel emulates at a probe. One
/// that it must single-step costs ten times as much, and nothing else could be told from that.
#[unsafe(naked)]
extern "C" fn probed(_: u64) -> u64 {
    std::arch::naked_asm!("nop", "ret")
}

/// How the function is probed.
#[derive(Clone, Copy)]
enum Way {
    Nothing,
    /// By the recorder's programs; whether the caller is followed.
    Recorder(FunctionSpec, bool),
    /// By a [`Reference`] with records of these sizes.
    Least([i32; 2]),
}

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let threads: usize = env::args().nth(1).map_or(Ok(1), |count| count.parse())?;
    if env::var_os(ROLE).is_some() {
        return child(threads);
    }
    println!("{threads} threads, {CALLS} calls each");
    let baseline = run(threads, Way::Nothing)?;
    println!("no probes: {baseline:.0} ns per call");
    for (name, spec, followed) in [
        ("not followed, nothing recorded", FunctionSpec::NONE, false),
        ("no words", FunctionSpec::NONE, true),
        ("2 words", FunctionSpec::of(&[ArgSlot::argument(0); 2]), true),
        ("5 words", FunctionSpec::of(&[ArgSlot::argument(0); 5]), true),
        ("out pointer", FunctionSpec::NONE.with_out_ptr(0), true),
    ] {
        let probed = run(threads, Way::Recorder(spec, followed))?;
        println!("{name}: {:.0} ns per entry and return", probed - baseline);
    }
    beside_the_least(threads)?;
    // The quietest of some runs, as the machine's noise only ever adds.
    let (mut bare_ns, mut recorded_ns) = (f64::MAX, f64::MAX);
    for _ in 0..5 {
        bare_ns = bare_ns.min(pass_bytes()?);
        let mut kernel = Kernel::load(&Options { switches: true, wakeups: true, ..Options::calls_alone() })?;
        let mut drain = kernel.take_drain()?;
        kernel.start()?;
        recorded_ns = recorded_ns.min(pass_bytes()?);
        kernel.stop();
        drain.read(usize::MAX, |_| {})?;
    }
    println!("a pass with its switch: {bare_ns:.0} ns, recorded {recorded_ns:.0} ns");
    Ok(())
}

/// The recorder's pair beside pairs that do nothing but be there, and but write records of the same sizes.
fn beside_the_least(threads: usize) -> Result<(), Failure> {
    const WORDS: usize = 2;
    let records = [(size_of::<CallEntry>() + 8 * WORDS) as i32, size_of::<CallReturn>() as i32];
    let spec = FunctionSpec::of(&[ArgSlot::argument(0); WORDS]);
    let ways = [
        ("no probes", Way::Nothing),
        ("an empty pair", Way::Least([0; 2])),
        ("a pair that writes two records", Way::Least(records)),
        ("the recorder's pair, 2 words", Way::Recorder(spec, true)),
    ];
    let mut times: [Vec<f64>; 4] = Default::default();
    for _ in 0..ROUNDS {
        for ((_, way), times) in ways.iter().zip(&mut times) {
            times.push(run(threads, *way)?);
        }
    }
    let medians = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times.get(ROUNDS / 2).copied().unwrap_or(f64::NAN)
    });
    let [bare, _, least, ours] = medians;
    println!("in turns, medians of {ROUNDS}:");
    for ((name, _), median) in ways.iter().zip(medians) {
        println!("  {name}: {median:.0} ns per call, {:.0} more than without", median - bare);
    }
    println!("  the recorder's pair ÷ the pair that writes two records: {:.2}", (ours - bare) / (least - bare));
    Ok(())
}

/// Nanoseconds for passing a byte from one thread to another on the same CPU.
fn pass_bytes() -> Result<f64, Failure> {
    const PASSES: usize = 40_000;
    let ((mut here_read, mut there_write), (mut there_read, mut here_write)) = (std::io::pipe()?, std::io::pipe()?);
    let pin = || {
        // SAFETY: a set of plain bits, of the size that is passed.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(0, &mut set);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
        }
    };
    let there = thread::spawn(move || -> std::io::Result<()> {
        pin();
        let mut byte = [0];
        for _ in 0..PASSES / 2 {
            there_read.read_exact(&mut byte)?;
            there_write.write_all(&byte)?;
        }
        Ok(())
    });
    let here = thread::spawn(move || -> std::io::Result<Duration> {
        pin();
        let mut byte = [1];
        let start = Instant::now();
        for _ in 0..PASSES / 2 {
            here_write.write_all(&byte)?;
            here_read.read_exact(&mut byte)?;
        }
        Ok(start.elapsed())
    });
    let elapsed = here.join().map_err(|_| "a thread panicked")??;
    there.join().map_err(|_| "a thread panicked")??;
    Ok(elapsed.as_nanos() as f64 / PASSES as f64)
}

fn child(threads: usize) -> Result<(), Failure> {
    println!("{}", address_in_file(probed as *const () as usize)?);
    for line in std::io::stdin().lock().lines() {
        line?;
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                thread::spawn(|| {
                    let start = Instant::now();
                    let mut word = 0;
                    for _ in 0..CALLS {
                        black_box(probed((&raw mut word) as u64));
                    }
                    start.elapsed()
                })
            })
            .collect();
        let mut total = Duration::ZERO;
        for worker in workers {
            total += worker.join().map_err(|_| "a worker panicked")?;
        }
        println!("{}", total.as_nanos() as f64 / (threads as u64 * CALLS) as f64);
    }
    Ok(())
}

/// Where this binary's code at an address is in its file.
fn address_in_file(address: usize) -> Result<u64, Failure> {
    for line in std::fs::read_to_string("/proc/self/maps")?.lines() {
        let mut fields = line.split_whitespace();
        let (Some(range), Some(offset)) = (fields.next(), fields.nth(1)) else { continue };
        let Some((start, end)) = range.split_once('-') else { continue };
        let (start, end) = (u64::from_str_radix(start, 16)?, u64::from_str_radix(end, 16)?);
        if (start..end).contains(&(address as u64)) {
            return Ok(address as u64 - start + u64::from_str_radix(offset, 16)?);
        }
    }
    Err("not mapped".into())
}

/// Nanoseconds per call in the child.
fn run(threads: usize, way: Way) -> Result<f64, Failure> {
    let mut child = Command::new(env::current_exe()?)
        .arg(threads.to_string())
        .env(ROLE, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut stdin = child.stdin.take().ok_or("no stdin")?;
    let mut stdout = BufReader::new(child.stdout.take().ok_or("no stdout")?);
    let mut line = String::new();
    stdout.read_line(&mut line)?;
    let offset = line.trim().parse()?;

    let options = Options::calls_alone();
    let mut kernel = Kernel::load(&options)?;
    let mut drain = kernel.take_drain()?;
    let mut least = None;
    let attached = match way {
        Way::Nothing => None,
        Way::Least(bytes) => {
            least = Some(Reference::attach(offset, bytes)?);
            None
        }
        Way::Recorder(spec, followed) => {
            if followed {
                kernel.set_target(child.id())?;
            }
            kernel.set_function_spec(1, &spec)?;
            Some(kernel.attach_calls("/proc/self/exe", &[Probe { offset, function: 1 }])?)
        }
    };
    stdin.write_all(b"go\n")?;
    drop(stdin);
    let start = Instant::now();
    let mut records = 0;
    while child.try_wait()?.is_none() {
        thread::sleep(Duration::from_millis(5));
        records += drain.read(usize::MAX, |event| {
            black_box(event);
        })?;
    }
    records += drain.read(usize::MAX, |_| {})?;
    let lost: u64 = kernel.take_losses()?.iter().map(|loss| loss.count).sum();
    drop((attached, least));
    println!(
        "  {records} records, {lost} lost, {:.0} thousand a second",
        records as f64 / start.elapsed().as_secs_f64() / 1e3
    );
    line.clear();
    stdout.read_line(&mut line)?;
    Ok(line.trim().parse()?)
}
