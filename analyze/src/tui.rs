//! `--tui`: the timeline in the terminal.

use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use ingero_analyze::Analysis;
use ingero_format::Trace;
use ingero_replay::pyramid::Pyramid;
use ingero_replay::{Processes, Window};
use ingero_tui::{App, Found, Incident, Options, Palette, Place};

/// What is to be shown.
pub(crate) struct Asked<'a> {
    pub(crate) file: &'a Path,
    /// What is shown.
    pub(crate) window: Window,
    /// What is analysed: this range, or one phase of it.
    pub(crate) analysed: Window,
    pub(crate) phase: Option<usize>,
    pub(crate) pids: &'a [u32],
    /// Wall-clock time of the trace's start, to show times by.
    pub(crate) start_unix_ns: Option<u64>,
}

/// Shows the timeline until the person leaves, and tells how many blocks could not be read.
pub(crate) fn show(trace: &Trace, asked: &Asked) -> anyhow::Result<usize> {
    let pyramid = with_progress(trace);
    let processes = Processes::new(trace);
    let options = Options {
        window: asked.window,
        pids: asked.pids.to_vec(),
        start_unix_ns: asked.start_unix_ns,
        palette: Palette::of_terminal(|name| std::env::var(name).ok()),
    };
    let app = App::new(trace, &processes, &pyramid, options);
    // Whoever opens a long recording need not wait for its analysis, nor for the end of it when leaving.
    let (found, incidents) = channel();
    let (lost, unreadable) = channel();
    let (file, window, phase, pids) = (asked.file.to_owned(), asked.analysed, asked.phase, asked.pids.to_vec());
    std::thread::Builder::new()
        .name("analysis".to_owned())
        .spawn(move || {
            // The recording was opened once; if it cannot be again, there are no incidents.
            let trace = Trace::open(&file);
            let none = || (Found { incidents: Vec::new(), lossy: true, lost: Vec::new() }, None);
            let (all, lost_blocks) = trace.as_ref().map_or_else(|_| none(), |trace| find(trace, window, phase, &pids));
            if let Some(lost_blocks) = lost_blocks {
                let _ = lost.send(lost_blocks);
            }
            // Nobody hears it who has left.
            let _ = found.send(all);
        })
        .context("cannot start a thread for the analysis")?;
    ingero_tui::run(app, &incidents)?;
    // Who leaves before the analysis is done has the blocks checked alone.
    let check = || trace.blocks().iter().filter(|block| trace.check_chunk(block).is_err()).count();
    Ok(unreadable.try_recv().unwrap_or_else(|_| check()))
}

/// The pyramid of a trace; building it is shown on stderr where it takes long.
fn with_progress(trace: &Trace) -> Pyramid {
    const PARTS: u64 = 1000;
    let mut bar: Option<ProgressBar> = None;
    let begun = std::time::Instant::now();
    let pyramid = Pyramid::open_or_build(trace, &mut |share| {
        if begun.elapsed() < Duration::from_millis(500) {
            return;
        }
        let bar = bar.get_or_insert_with(|| {
            let bar = ProgressBar::new(PARTS);
            if let Ok(style) = ProgressStyle::with_template("reading all events once {wide_bar} {percent} % {eta}") {
                bar.set_style(style);
            }
            bar
        });
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share, from 0 to 1")]
        bar.set_position((share * 1000.0) as u64);
    });
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    pyramid
}

/// The incidents of a range, worst first, each with the places where it is to be seen; and how many blocks could not be read.
fn find(trace: &Trace, window: Window, phase: Option<usize>, pids: &[u32]) -> (Found, Option<usize>) {
    let analysis = match phase {
        None => Some(Analysis::new(trace, window)),
        Some(number) => Analysis::of_phase(trace, window, number),
    };
    let Some(analysis) = analysis else {
        return (Found { incidents: Vec::new(), lossy: false, lost: Vec::new() }, None);
    };
    let wanted =
        |i: &&ingero_analyze::Incident| pids.is_empty() || pids.contains(&analysis.processes.get(i.process).pid);
    let shown = |incident: &ingero_analyze::Incident| {
        let evidence = incident.evidence.iter().map(|e| Place {
            what: ingero_analyze::printable(&e.what),
            task: e.task,
            from_ns: e.start_ns,
            to_ns: e.end_ns,
        });
        let moments = incident.timeline.iter().map(|m| Place {
            what: ingero_analyze::printable(&m.detail),
            task: m.task,
            from_ns: m.start_ns,
            to_ns: m.end_ns,
        });
        let mut places: Vec<Place> = evidence.collect();
        if places.is_empty() {
            places.extend(moments);
        }
        places.retain(|place| place.to_ns >= window.from_ns && place.from_ns < window.to_ns);
        Incident { severity: incident.severity.name(), summary: ingero_analyze::printable(&incident.summary), places }
    };
    let lossy = analysis.losses.events() != Some(0) || analysis.losses.uncounted();
    let incidents = analysis.incidents.iter().filter(wanted).map(shown).collect();
    (Found { incidents, lossy, lost: analysis.losses.parts.clone() }, Some(analysis.repairs.lost_blocks.len()))
}
