//! The terminal: taken over, given back whatever happens.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use anyhow::{Context, bail};
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use crate::app::App;
use crate::incident::Found;

/// How long a key is waited for before something else may have happened.
const WAIT: Duration = Duration::from_millis(150);

/// How long a program that was told to stop may take for it.
const GRACE: Duration = Duration::from_secs(1);
/// As shells say it of a program that SIGHUP ended.
const HANGUP_STATUS: i32 = 129;

/// Whether there is a terminal to draw on and to take keys from.
///
/// # Errors
/// A sentence for the person.
pub fn check() -> anyhow::Result<()> {
    if !std::io::stdout().is_terminal() {
        bail!("--tui needs a terminal, and the output goes elsewhere: leave out --tui for a report");
    }
    if !std::io::stdin().is_terminal() {
        bail!("--tui needs a terminal to take keys from, and the input comes from elsewhere");
    }
    Ok(())
}

/// Shows the timeline until the person leaves, by a key or by a signal (SIGINT, SIGTERM, SIGHUP). Incidents may come at any time.
///
/// # Errors
/// There is no terminal, or it fails.
pub fn run(mut app: App, incidents: &Receiver<Found>) -> anyhow::Result<()> {
    check()?;
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    ctrlc::set_handler(move || told.store(true, Ordering::Relaxed)).context("cannot watch for signals")?;
    let told = Arc::clone(&stop);
    std::thread::spawn(move || leave_when_gone(&told));
    // A panic gives the terminal back before it says where it was.
    let mut terminal = ratatui::try_init().context("cannot take over the terminal")?;
    let done = shown(&mut terminal, &mut app, incidents, &stop);
    let restored = ratatui::try_restore().context("cannot give the terminal back");
    done.and(restored)
}

/// Ends the program where its terminal is gone: whoever waits for keys then reads nothing again and again, and never comes back to see that
/// it should stop.
#[expect(clippy::exit, reason = "the thread that would return waits for keys for ever")]
fn leave_when_gone(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) && std::io::stdin().is_terminal() {
        std::thread::sleep(WAIT);
    }
    std::thread::sleep(GRACE);
    // A terminal that does not exist cannot be given back.
    drop(ratatui::try_restore());
    std::process::exit(HANGUP_STATUS);
}

fn shown(
    terminal: &mut ratatui::DefaultTerminal,
    app: &mut App,
    incidents: &Receiver<Found>,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let mut changed = true;
    loop {
        if changed {
            terminal.draw(|frame| app.draw(frame)).context("cannot draw")?;
            changed = false;
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        if let Ok(found) = incidents.try_recv() {
            app.set_incidents(found.incidents);
            app.set_lost(found.lost);
            if found.lossy {
                app.set_lossy();
            }
            changed = true;
            continue;
        }
        let mut wait = WAIT;
        // Keys that came while the last screen was drawn are all taken before the next one.
        while event::poll(wait).context("cannot read keys")? {
            wait = Duration::ZERO;
            changed = true;
            if let Event::Key(key) = event::read().context("cannot read keys")?
                && key.kind != KeyEventKind::Release
                && !app.key(key)
            {
                return Ok(());
            }
        }
    }
}
