//! Screens over a recording of the repository, as they were looked at and found good. Where one is meant to change:
//! `UPDATE_SCREENS=1 cargo test -p ingero-tui`.

use std::fmt::Write;
use std::path::Path;

use ingero_format::Trace;
use ingero_replay::pyramid::Pyramid;
use ingero_replay::{Processes, Window};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::{Color, Modifier};

use crate::{App, Incident, Options, Palette, Place};

struct Scene {
    trace: Trace,
    processes: Processes,
    pyramid: Pyramid,
}

fn fight() -> Scene {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../investigations/h200-fight/run.igt");
    let trace = Trace::open(path).unwrap();
    let (processes, pyramid) = (Processes::new(&trace), Pyramid::build(&trace, &mut |_| {}));
    Scene { trace, processes, pyramid }
}

impl Scene {
    fn app(&self, palette: Palette) -> App<'_> {
        let options = Options { window: Window::whole(&self.trace), pids: Vec::new(), start_unix_ns: None, palette };
        App::new(&self.trace, &self.processes, &self.pyramid, options)
    }
}

fn press(app: &mut App, keys: &str) {
    for c in keys.chars() {
        let code = match c {
            '\n' => KeyCode::Enter,
            '\t' => KeyCode::Tab,
            c => KeyCode::Char(c),
        };
        assert!(app.key(KeyEvent::new(code, KeyModifiers::NONE)), "{c:?} leaves");
    }
}

fn drawn(app: &mut App, width: u16, height: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| app.draw(frame)).unwrap();
    terminal.backend().buffer().clone()
}

fn text(buffer: &Buffer) -> String {
    let mut out = String::new();
    for y in 0..buffer.area.height {
        let line: String = (0..buffer.area.width).map(|x| buffer[(x, y)].symbol()).collect();
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// What colours say, a letter a cell: of the ground, or of the letters where that has none.
fn colours(buffer: &Buffer) -> String {
    let mut out = String::new();
    for y in 0..buffer.area.height {
        let mut line = String::new();
        for x in 0..buffer.area.width {
            let cell = &buffer[(x, y)];
            let name = |colour| match colour {
                Color::Indexed(71) => 'g',
                Color::Indexed(214) => 'y',
                Color::Indexed(133) => 'm',
                Color::Indexed(238) => 'd',
                Color::Reset => ' ',
                Color::Indexed(245) => ' ',
                _ => 'c',
            };
            let c = match (cell.modifier.contains(Modifier::REVERSED), name(cell.bg), name(cell.fg)) {
                (true, ..) => 'R',
                (_, ' ', fg) => fg,
                (_, bg, _) => bg,
            };
            line.push(c);
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out
}

fn expect(name: &str, screen: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/draw/screens").join(format!("{name}.txt"));
    if std::env::var_os("UPDATE_SCREENS").is_some() {
        std::fs::write(path, screen).unwrap();
        return;
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(known == screen, "{} differs; it was:\n{known}\nand is:\n{screen}", path.display());
}

#[test]
fn the_whole_recording_fits_on_a_small_terminal() {
    let scene = fight();
    let mut app = scene.app(Palette::plain());
    expect("whole-80x24", &text(&drawn(&mut app, 80, 24)));
    expect("whole-40x10", &text(&drawn(&mut app, 40, 10)));
    let mut app = scene.app(Palette::full());
    let buffer = drawn(&mut app, 160, 50);
    expect("whole-160x50", &(text(&buffer) + &colours(&buffer)));
}

#[test]
fn everything_drawn_without_colours_is_ascii_and_has_none() {
    let scene = fight();
    let mut app = scene.app(Palette::plain());
    app.set_incidents(Vec::new());
    for keys in ["", "++++++", "\n", "++++++++++++++++++++", "?", "?", "/x", "\n", "0"] {
        press(&mut app, keys);
        let buffer = drawn(&mut app, 100, 30);
        for cell in &buffer.content {
            assert!(cell.symbol().is_ascii(), "{:?} after {keys:?}", cell.symbol());
            assert_eq!((cell.fg, cell.bg), (Color::Reset, Color::Reset));
        }
    }
}

#[test]
fn calls_are_seen_from_close() {
    let scene = fight();
    let mut app = scene.app(Palette::plain());
    press(&mut app, "/cudalaunch\n");
    press(&mut app, &"+".repeat(18));
    press(&mut app, "\n");
    expect("calls-100x30", &text(&drawn(&mut app, 100, 30)));
    press(&mut app, &"+".repeat(9));
    expect("calls-close-100x30", &text(&drawn(&mut app, 100, 30)));
}

#[test]
fn an_incident_is_gone_to_and_said() {
    let scene = fight();
    let mut app = scene.app(Palette::plain());
    let (start, _) = scene.pyramid.span_ns();
    let worker = scene.pyramid.groups(&scene.processes)[0].threads[1];
    let place = |what: &str, from_s: u64| Place {
        what: what.to_owned(),
        task: worker,
        from_ns: start + from_s * 1_000_000_000,
        to_ns: start + (from_s + 1) * 1_000_000_000,
    };
    let incident = Incident {
        severity: "HIGH",
        summary: "python3 (531) lost 4.34 s to CPU contention: 21 threads that work for it had no CPU".into(),
        places: vec![place("a long wait for a CPU", 9), place("another one", 12)],
    };
    drawn(&mut app, 80, 24);
    app.set_incidents(vec![incident]);
    press(&mut app, ".");
    let screen = text(&drawn(&mut app, 80, 24));
    expect("incident-80x24", &screen);
    press(&mut app, "e");
    assert!(text(&drawn(&mut app, 80, 24)).contains("another one"));
    press(&mut app, "e");
    assert_eq!(text(&drawn(&mut app, 80, 24)), screen);
}

#[test]
fn the_keys_are_explained() {
    let scene = fight();
    let mut app = scene.app(Palette::plain());
    press(&mut app, "?");
    let screen = text(&drawn(&mut app, 80, 24));
    for key in ["Ctrl-C", "Tab", "follow the wake", "PgUp", "any key closes this"] {
        assert!(screen.contains(key), "{key} is not in\n{screen}");
    }
    // None is cut off, and nothing of what lies below shows.
    for what in super::help::KEYS.iter().map(|(_, what)| what).chain(&super::help::NOTES) {
        assert!(screen.contains(what), "{what} is not in\n{screen}");
    }
    let lines: Vec<&str> = screen.lines().collect();
    assert!(lines[22].trim().is_empty(), "{screen}");
    press(&mut app, "q");
    assert!(!text(&drawn(&mut app, 80, 24)).contains("any key closes this"));
}

#[test]
fn a_screen_that_is_too_small_says_so_and_grows_back() {
    let scene = fight();
    let mut app = scene.app(Palette::full());
    let before = text(&drawn(&mut app, 80, 24));
    for (width, height) in [(39, 24), (80, 9), (5, 1), (1, 40)] {
        let screen = text(&drawn(&mut app, width, height));
        assert!("too small: needs 40 x 10, q quits".starts_with(screen.trim_end()), "{screen}");
    }
    drawn(&mut app, 200, 60);
    assert_eq!(text(&drawn(&mut app, 80, 24)), before);
    // Whatever the size, keys are on it.
    for (width, height) in [(40, 10), (57, 13), (300, 14), (41, 100), (1000, 30)] {
        let screen = text(&drawn(&mut app, width, height));
        let last = screen.lines().last().unwrap();
        assert!(last.contains("help") && last.contains("quit"), "{width} x {height}:\n{screen}");
    }
}

#[test]
fn names_cannot_move_the_cursor() {
    use ingero_replay::fixture::Fixture;
    let mut f = Fixture::new();
    let task = f.task(7, 7);
    let name = f.writer().string("a\u{1b}[31mb\nc\u{202e}d");
    f.push(1, 0, ingero_format::catalog::Name { task, name, source: 0 });
    f.switch(10, 0, ingero_format::catalog::TaskId(0), 0, task);
    f.switch(1_000_000, 0, task, 1, ingero_format::catalog::TaskId(0));
    let trace = f.finish();
    let (processes, pyramid) = (Processes::new(&trace), Pyramid::build(&trace, &mut |_| {}));
    let scene = Scene { trace, processes, pyramid };
    let mut app = scene.app(Palette::full());
    let screen = text(&drawn(&mut app, 120, 24));
    assert!(screen.contains("a\\u{1b}[31mb\\nc\\u{202e}d (7)"), "{screen}");
    assert!(!screen.chars().any(|c| c.is_control() && c != '\n'), "{screen:?}");
}

#[test]
fn that_events_were_lost_is_shown_on_a_narrow_terminal_too() {
    let scene = fight();
    let mut app = scene.app(Palette::plain());
    app.set_incidents(Vec::new());
    let shown = text(&drawn(&mut app, 80, 24));
    assert!(!shown.contains("not whole") && !shown.contains("in what is whole"), "{shown}");
    app.set_lossy();
    let shown = text(&drawn(&mut app, 80, 24));
    assert!(shown.starts_with("not whole, "), "{shown}");
    assert!(shown.contains("no incident was found in what is whole"), "{shown}");
}

#[test]
fn every_key_is_on_a_screen_of_eighty_columns() {
    let scene = fight();
    for palette in [Palette::plain(), Palette::full()] {
        let mut app = scene.app(palette);
        let screen = text(&drawn(&mut app, 80, 24));
        let lines: Vec<&str> = screen.lines().collect();
        let keys = format!("{} {}", lines[22], lines[23]);
        for key in [
            "? help",
            "move",
            "+- zoom",
            "Tab next state",
            ". incident",
            "e next place",
            "w waker",
            "b back",
            "/ find",
            "n next",
            "t time",
            "Enter fold",
            "z to state",
            "0 all",
            "q quit",
        ] {
            assert!(keys.contains(key), "{key} is not in {keys}");
        }
        // What went wrong is said in full.
        press(&mut app, "tsoon\n");
        let screen = text(&drawn(&mut app, 80, 24)).replace('\n', " ");
        assert!(screen.contains("such as 2026-03-01T14:06:13.5Z"), "{screen}");
    }
}

/// A thread that runs, and a stretch in the middle of which switches and calls are missing.
#[test]
fn a_stretch_with_losses_is_neither_idle_nor_running() {
    use ingero_format::catalog::{Class, Layer, Loss, NO_CPU, TaskId};
    use ingero_replay::fixture::Fixture;
    const MS: u64 = 1_000_000;
    let mut f = Fixture::new();
    let task = f.task(7, 7);
    let func = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
    for i in 0..100 {
        f.switch(i * 10 * MS, 3, TaskId(0), 0, task);
        f.call(i * 10 * MS + MS, 3, task, func, MS);
        f.switch((i * 10 + 8) * MS, 3, task, 1, TaskId(0));
    }
    for kind in ["sched_switch", "call"] {
        let probe = f.writer().string(kind);
        f.push(400 * MS, 3, Loss { to_ns: 600 * MS, probe, cause: 0, count: Some(41), of_host: None });
    }
    let probe = f.writer().string("page_fault_user");
    f.push(100 * MS, NO_CPU, Loss { to_ns: 200 * MS, probe, cause: 0, count: Some(7), of_host: None });
    let trace = f.finish();
    let (processes, pyramid) = (Processes::new(&trace), Pyramid::build(&trace, &mut |_| {}));
    let scene = Scene { trace, processes, pyramid };
    for (palette, mark) in [(Palette::plain(), '?'), (Palette::full(), '\u{2592}')] {
        let mut app = scene.app(palette);
        let screen = text(&drawn(&mut app, 80, 24));
        // Of 58 columns a fifth, once for the states and once for the calls.
        let marked = screen.lines().map(|line| line.matches(mark).count()).filter(|&n| n > 5);
        let marked: Vec<usize> = marked.collect();
        assert!(marked.len() >= 2 && marked.iter().all(|n| (10..=14).contains(n)), "{marked:?}\n{screen}");
        assert!(screen.contains("events lost "), "{screen}");
        // The cursor stands in the middle.
        let said = screen.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            said.contains(
                "events lost here: 41 sched_switch events of CPU 3 (ring-full); who ran and who waited is not known"
            ),
            "{said}"
        );
        // On the CPU too, when its row is open.
        press(&mut app, "kkkkkkkk\n");
        let screen = text(&drawn(&mut app, 80, 24));
        let cpu = screen.lines().find(|line| line.contains("cpu 3")).unwrap();
        assert!((10..=14).contains(&cpu.matches(mark).count()), "{screen}");
    }
}

/// Every state that the picture has is in the legend of a screen of eighty columns, and the CPUs' heading says of how many.
#[test]
fn the_legend_of_eighty_columns_has_every_state() {
    use ingero_format::catalog::{Exit, Loss, NO_CPU, TaskId};
    use ingero_replay::fixture::Fixture;
    const MS: u64 = 1_000_000;
    for palette in [Palette::plain(), Palette::full()] {
        for probes in [&[][..], &["sched_waking"], &["sched_waking", "sched_switch"]] {
            let mut f = Fixture::new();
            f.writer().set_meta("cpus", "16");
            let (task, other) = (f.task(7, 7), f.task(7, 8));
            f.switch(0, 3, TaskId(0), 0, task);
            f.switch(100 * MS, 3, task, 1, TaskId(0));
            for probe in probes {
                let probe = f.writer().string(probe);
                f.push(200 * MS, NO_CPU, Loss { to_ns: 210 * MS, probe, cause: 0, count: Some(1), of_host: None });
            }
            f.switch(700 * MS, 3, TaskId(0), 0, other);
            f.push(710 * MS, 3, Exit { task: other, group_dead: None });
            f.switch(711 * MS, 3, other, 0x10, TaskId(0));
            f.switch(1000 * MS, 3, TaskId(0), 0, task);
            let trace = f.finish();
            let (processes, pyramid) = (Processes::new(&trace), Pyramid::build(&trace, &mut |_| {}));
            let scene = Scene { trace, processes, pyramid };
            let mut app = scene.app(palette);
            let screen = text(&drawn(&mut app, 80, 24));
            let legend = screen.lines().find(|line| line.contains(" ran ")).unwrap();
            let lost = [" off ", " lost "].iter().take(if probes.is_empty() { 0 } else { 2 });
            for state in [" ran ", "no CPU ", " blocked ", " throttled "].iter().chain(lost) {
                assert!(legend.replace("off the CPUs", "off").contains(state), "{state} is not in {legend}");
            }
            assert!(screen.contains("CPUs (1 of 16)"), "{screen}");
            // Between the loss and its next turn on a CPU nobody knows what it waited for, where wakes are missing.
            press(&mut app, "t500ms\n");
            let screen = text(&drawn(&mut app, 80, 24)).split_whitespace().collect::<Vec<_>>().join(" ");
            let said = match probes {
                [] => "blocked for 400 ms of 900 ms",
                [_] => "off the CPUs for 300 ms of 800 ms: blocked or waiting for one",
                _ => "what it does here is not known",
            };
            assert!(screen.contains(said), "{said}: {screen}");
            press(&mut app, "jt900ms\n");
            let screen = text(&drawn(&mut app, 80, 24)).split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(screen.contains("? (8) of ? (7): has exited, 190 ms before"), "{screen}");
            assert!(screen.contains(": exited all of it"), "{screen}");
        }
    }
}
