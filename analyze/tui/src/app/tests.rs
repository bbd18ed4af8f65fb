//! Keys move the cursor where they say.

use ingero_format::catalog::{Class, Layer};
use ingero_replay::fixture::Fixture;

use super::*;
use crate::Place;

const IDLE: TaskId = TaskId(0);
const SECOND: u64 = 1_000_000_000;

struct Scene {
    trace: Trace,
    processes: Processes,
    pyramid: Pyramid,
    main: TaskId,
    helper: TaskId,
    other: TaskId,
}

/// `main` sleeps from second 2 to 6, is woken by `helper`, waits for its CPU behind `other` until 8, and calls.
fn scene() -> Scene {
    let mut f = Fixture::new();
    let (main, helper, other) = (f.task(1, 1), f.task(1, 2), f.task(9, 9));
    let launch = f.func("cudaLaunchKernel", Layer::Runtime, Class::Launch);
    let copy = f.func("cudaMemcpy", Layer::Runtime, Class::Copy);
    for (task, name) in [(main, "trainer"), (helper, "pin"), (other, "stress")] {
        let name = f.writer().string(name);
        f.push(1, 0, ingero_format::catalog::Name { task, name, source: 0 });
    }
    f.switch(SECOND, 0, IDLE, 0, main);
    f.switch(2 * SECOND, 0, main, 1, other);
    f.switch(3 * SECOND, 1, IDLE, 0, helper);
    f.waking(6 * SECOND, 1, helper, main, 0);
    f.wakeup(6 * SECOND, 0, main, 0);
    f.switch(7 * SECOND, 1, helper, 1, IDLE);
    f.switch(8 * SECOND, 0, other, 1, main);
    f.call(8 * SECOND + 500_000_000, 0, main, launch, SECOND / 5);
    f.call(9 * SECOND, 0, main, copy, SECOND / 5);
    f.call(9 * SECOND + 500_000_000, 0, main, launch, SECOND / 5);
    f.switch(10 * SECOND, 0, main, 1, IDLE);
    let trace = f.finish();
    let (processes, pyramid) = (Processes::new(&trace), Pyramid::build(&trace, &mut |_| {}));
    Scene { trace, processes, pyramid, main, helper, other }
}

impl Scene {
    fn app_of(&self, pids: &[u32]) -> App<'_> {
        let window = Window::whole(&self.trace);
        let options = Options { window, pids: pids.to_vec(), start_unix_ns: None, palette: Palette::plain() };
        App::new(&self.trace, &self.processes, &self.pyramid, options)
    }

    fn app(&self) -> App<'_> {
        self.app_of(&[])
    }
}

fn press(app: &mut App, keys: &[KeyCode]) {
    for &code in keys {
        assert!(app.key(KeyEvent::new(code, KeyModifiers::NONE)));
    }
}

fn typed(app: &mut App, text: &str) {
    text.chars().for_each(|c| press(app, &[KeyCode::Char(c)]));
    press(app, &[KeyCode::Enter]);
}

#[test]
fn a_wake_is_followed_and_the_way_back_known() {
    let scene = scene();
    let mut app = scene.app();
    assert_eq!(app.task(), Some(scene.main));
    typed(&mut app, "t3s");
    assert_eq!(app.cursor_ns, 4 * SECOND, "times count from the trace's start, a second after the clock's");
    press(&mut app, &[KeyCode::Char('w')]);
    assert_eq!((app.task(), app.cursor_ns), (Some(scene.helper), 6 * SECOND));
    assert!(app.message.contains("woke trainer (1)"), "{}", app.message);
    // The helper runs there: nobody woke it.
    press(&mut app, &[KeyCode::Char('w')]);
    assert_eq!((app.task(), app.cursor_ns), (Some(scene.helper), 6 * SECOND));
    assert!(app.message.starts_with("nobody woke it here"), "{}", app.message);
    press(&mut app, &[KeyCode::Char('b')]);
    assert_eq!((app.task(), app.cursor_ns), (Some(scene.main), 4 * SECOND));
    // While it waits for a CPU, it has been woken.
    typed(&mut app, "t6s");
    press(&mut app, &[KeyCode::Char('w')]);
    assert_eq!((app.task(), app.cursor_ns), (Some(scene.helper), 6 * SECOND));
    press(&mut app, &[KeyCode::Char('b'), KeyCode::Char('b'), KeyCode::Char('b'), KeyCode::Char('b')]);
    assert_eq!(app.message, "nowhere to go back to");
}

#[test]
fn a_waker_that_is_not_shown_is_named() {
    let mut f = Fixture::new();
    let (main, other) = (f.task(1, 1), f.task(9, 9));
    f.switch(0, 0, IDLE, 0, main);
    f.switch(SECOND, 0, main, 1, other);
    f.waking(3 * SECOND, 0, other, main, 0);
    f.switch(4 * SECOND, 0, other, 1, main);
    let trace = f.finish();
    let (processes, pyramid) = (Processes::new(&trace), Pyramid::build(&trace, &mut |_| {}));
    let scene = Scene { trace, processes, pyramid, main, helper: other, other };
    let mut app = scene.app_of(&[1]);
    app.go_to(2 * SECOND);
    press(&mut app, &[KeyCode::Char('w')]);
    assert_eq!(app.task(), Some(main));
    assert!(app.message.contains("(9) is not among the rows"), "{}", app.message);
}

#[test]
fn states_follow_one_another() {
    let scene = scene();
    let mut app = scene.app();
    app.go_to(SECOND + 5);
    let mut at = Vec::new();
    for _ in 0..3 {
        press(&mut app, &[KeyCode::Tab]);
        at.push(app.cursor_ns / SECOND);
    }
    assert_eq!(at, [2, 6, 8]);
    press(&mut app, &[KeyCode::Tab]);
    assert!(app.cursor_ns <= 10 * SECOND);
    app.go_to(7 * SECOND);
    let mut back = Vec::new();
    for _ in 0..3 {
        press(&mut app, &[KeyCode::BackTab]);
        back.push(app.cursor_ns / SECOND);
    }
    assert_eq!(back, [6, 2, 1]);
    // To the state, and a little around it.
    app.go_to(7 * SECOND);
    press(&mut app, &[KeyCode::Char('z')]);
    assert!(app.view.start_ns() <= 6 * SECOND && app.view.end_ns() >= 8 * SECOND);
    assert!(app.view.end_ns() - app.view.start_ns() < 5 * SECOND);
}

#[test]
fn threads_and_processes_are_found_and_then_calls() {
    let scene = scene();
    let mut app = scene.app();
    typed(&mut app, "/STRESS");
    assert_eq!(app.task(), Some(scene.other));
    typed(&mut app, "/pin");
    assert_eq!(app.task(), Some(scene.helper));
    typed(&mut app, "/9");
    assert_eq!(app.task(), Some(scene.other));
    typed(&mut app, "/nobody");
    assert_eq!(app.message, "no thread, process or call is named \"nobody\"");
    assert_eq!(app.task(), Some(scene.other));

    app.go_to(0);
    typed(&mut app, "/launch");
    assert_eq!((app.task(), app.cursor_ns), (Some(scene.main), 8 * SECOND + 500_000_000));
    press(&mut app, &[KeyCode::Char('n')]);
    assert_eq!(app.cursor_ns, 9 * SECOND + 500_000_000, "the copy between them does not match");
    press(&mut app, &[KeyCode::Char('n')]);
    assert_eq!(app.cursor_ns, 9 * SECOND + 500_000_000);
    assert!(app.message.starts_with("no more calls"), "{}", app.message);
    press(&mut app, &[KeyCode::Char('N')]);
    assert_eq!(app.cursor_ns, 8 * SECOND + 500_000_000);
    press(&mut app, &[KeyCode::Char('N')]);
    assert!(app.message.starts_with("no more calls"), "{}", app.message);
}

#[test]
fn times_that_are_none_are_refused_and_the_cursor_stays() {
    let scene = scene();
    let mut app = scene.app();
    app.go_to(5 * SECOND);
    typed(&mut app, "tsoon");
    assert!(app.message.starts_with("cannot read the time \"soon\""), "{}", app.message);
    typed(&mut app, "t99s");
    assert!(app.message.contains("after the trace's start"), "{}", app.message);
    typed(&mut app, "t");
    assert_eq!(app.cursor_ns, 5 * SECOND);
    // Escape leaves the prompt; so typed keys are commands again.
    press(&mut app, &[KeyCode::Char('t'), KeyCode::Char('q'), KeyCode::Esc, KeyCode::Char('+')]);
    assert!(!app.key(KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE)));
}

#[test]
fn incidents_are_gone_round() {
    let scene = scene();
    let mut app = scene.app();
    press(&mut app, &[KeyCode::Char('.')]);
    assert_eq!(app.message, "the analysis is not done yet");
    let place =
        |task, from_s: u64| Place { what: "x".into(), task, from_ns: from_s * SECOND, to_ns: (from_s + 1) * SECOND };
    let incident = |places| crate::Incident { severity: "LOW", summary: "s".into(), places };
    app.set_incidents(vec![
        incident(vec![place(scene.main, 2), place(scene.other, 4)]),
        incident(vec![place(scene.helper, 6)]),
    ]);
    let mut seen = Vec::new();
    for key in ['.', 'e', 'e', '.', '.', ','] {
        press(&mut app, &[KeyCode::Char(key)]);
        seen.push((app.task().unwrap(), app.cursor_ns / SECOND));
    }
    let (main, helper, other) = (scene.main, scene.helper, scene.other);
    assert_eq!(seen, [(main, 2), (other, 4), (main, 2), (helper, 6), (main, 2), (helper, 6)]);
}

#[test]
fn folding_keeps_the_choice_in_sight() {
    let scene = scene();
    let mut app = scene.app();
    press(&mut app, &[KeyCode::Down]);
    assert_eq!(app.task(), Some(scene.helper));
    press(&mut app, &[KeyCode::Up, KeyCode::Up, KeyCode::Enter]);
    assert_eq!(app.row(), Some(Row::Process(0)));
    assert!(app.rows.is_folded(Row::Process(0)));
    assert_eq!(app.task(), Some(scene.main), "of a folded process its main thread is looked at");
    let rows = app.rows.shown().len();
    press(&mut app, &[KeyCode::Enter]);
    assert_eq!(app.rows.shown().len(), rows + 2);
    press(&mut app, &[KeyCode::PageUp, KeyCode::Enter, KeyCode::Down]);
    assert_eq!(app.row(), Some(Row::Cpu(0)));
    press(&mut app, &[KeyCode::PageDown, KeyCode::PageDown, KeyCode::PageDown]);
    assert_eq!(app.chosen, app.rows.shown().len() - 1);
}

#[test]
fn control_c_leaves_whatever_is_being_typed() {
    let scene = scene();
    for keys in [vec![], vec![KeyCode::Char('/')], vec![KeyCode::Char('?')], vec![KeyCode::Char('t')]] {
        let mut app = scene.app();
        press(&mut app, &keys);
        assert!(!app.key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)));
    }
}

#[test]
fn any_keys_in_any_order_are_fine() {
    let scene = scene();
    let mut app = scene.app();
    let mut dice = ingero_replay::fixture::Dice(1);
    let keys = "hljk+-0[]HLzwbnN.,e\t\n /tx9?i=o";
    let keys: Vec<char> = keys.chars().collect();
    for _ in 0..20_000 {
        let c = keys[dice.below(keys.len() as u64) as usize];
        let code = match c {
            '\n' => KeyCode::Enter,
            '\t' if dice.below(2) == 0 => KeyCode::BackTab,
            '\t' => KeyCode::Tab,
            c => KeyCode::Char(c),
        };
        press(&mut app, &[code]);
        let (from, to) = app.view.bounds_ns();
        assert!((from..to).contains(&app.cursor_ns));
        assert!(app.chosen < app.rows.shown().len());
        assert!(app.view.column(app.cursor_ns).is_some() || c == '0' || app.view.end_ns() > app.view.start_ns());
    }
}
