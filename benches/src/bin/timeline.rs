//! What a timeline of a large file costs: building its pyramid once, opening it from its file, and a frame of the terminal
//! timeline at several zooms, each at places that were not drawn before.
//!
//!     cargo run --release -p ingero-benches --bin timeline -- /tmp/large.igt
//!
//! The program `large` writes such a file.

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Parser;
use ingero_format::Trace;
use ingero_replay::pyramid::{Pyramid, cache_path};
use ingero_replay::{Processes, Window};
use ingero_tui::{App, Options, Palette};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Draw the timeline of a recording.
#[derive(Parser)]
struct Typed {
    /// The recording.
    file: PathBuf,
    /// Columns of the screen.
    #[arg(long, default_value_t = 160)]
    width: u16,
    /// Lines of the screen.
    #[arg(long, default_value_t = 50)]
    height: u16,
}

/// Frames per zoom.
const FRAMES: u64 = 21;

/// Most memory that this process ever held, MiB.
fn peak_mib() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).context("no VmHWM in /proc/self/status")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse::<u64>()? / 1024)
}

/// Time that this thread has been on a CPU, ms.
fn on_cpu_ms() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let ns: f64 = text.split_whitespace().next().context("an empty schedstat")?.parse()?;
    Ok(ns / 1e6)
}

fn median_and_worst(times: &mut [f64]) -> (f64, f64) {
    times.sort_by(f64::total_cmp);
    (times[times.len() / 2], times[times.len() - 1])
}

fn main() -> Result<()> {
    let typed = Typed::parse();
    let trace = Trace::open(&typed.file)?;
    let events: u64 = trace.blocks().iter().map(|b| u64::from(b.header.rows)).sum();
    let (start_ns, end_ns) = trace.span_ns().context("no events")?;
    println!(
        "{}: {:.1} M events, {:.1} s, {:.2} GB, {} tasks; {} MiB so far",
        trace.path(),
        events as f64 / 1e6,
        (end_ns - start_ns) as f64 / 1e9,
        trace.len_bytes() as f64 / 1e9,
        trace.tasks().len(),
        peak_mib()?
    );
    let (began, before) = (Instant::now(), on_cpu_ms()?);
    let pyramid = Pyramid::build(&trace, &mut |_| {});
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "built in {seconds:.2} s ({:.1} M events/s; {:.2} s of the thread that builds); cells of {} ns, {} MiB; {} MiB at most so far",
        events as f64 / seconds / 1e6,
        (on_cpu_ms()? - before) / 1e3,
        pyramid.cell_ns(),
        pyramid.held_bytes() >> 20,
        peak_mib()?
    );
    let path = cache_path(&trace);
    let began = Instant::now();
    pyramid.keep(&trace, &path)?;
    let kept = began.elapsed();
    let began = Instant::now();
    let opened = Pyramid::open(&trace, &path).context("its own file is refused")?;
    anyhow::ensure!(opened == pyramid, "its own file holds another pyramid");
    println!(
        "written in {:.2} s, {:.1} MB; opened from there in {:.2} s",
        kept.as_secs_f64(),
        std::fs::metadata(&path)?.len() as f64 / 1e6,
        began.elapsed().as_secs_f64()
    );
    std::fs::remove_file(&path)?;
    drop(opened);

    let processes = Processes::new(&trace);
    let options =
        Options { window: Window::whole(&trace), pids: Vec::new(), start_unix_ns: None, palette: Palette::full() };
    let mut app = App::new(&trace, &processes, &pyramid, options);
    let mut terminal = Terminal::new(TestBackend::new(typed.width, typed.height))?;
    // The processes below are unfolded, so that the screen is full of threads.
    for _ in 0..40 {
        app.key(KeyEvent::new(KeyCode::Down, KeyModifiers::NONE));
        app.key(KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE));
    }
    for _ in 0..20 {
        app.key(KeyEvent::new(KeyCode::Up, KeyModifiers::NONE));
    }
    println!("frames of {} x {}, ms, median and worst of {FRAMES}:", typed.width, typed.height);
    println!("  column                  on a CPU            by the clock");
    let mut place = 0u64;
    loop {
        let (mut on_cpu, mut by_clock) = (Vec::new(), Vec::new());
        for _ in 0..FRAMES {
            // Golden steps: nowhere twice.
            place = place.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let share = (u128::from(place) * u128::from(end_ns - start_ns)) >> 64;
            app.go_to(start_ns + u64::try_from(share)?);
            let (began, before) = (Instant::now(), on_cpu_ms()?);
            terminal.draw(|frame| app.draw(frame))?;
            by_clock.push(began.elapsed().as_secs_f64() * 1e3);
            on_cpu.push(on_cpu_ms()? - before);
        }
        let (cpu, clock) = (median_and_worst(&mut on_cpu), median_and_worst(&mut by_clock));
        let column = app.column_ns();
        println!("  {column:>12} ns {:>9.2} {:>8.2} {:>11.2} {:>8.2}", cpu.0, cpu.1, clock.0, clock.1);
        let before = app.column_ns();
        for _ in 0..3 {
            app.zoom(true);
        }
        if app.column_ns() == before || before < 100 {
            break;
        }
    }
    println!("{} MiB at most", peak_mib()?);
    Ok(())
}
