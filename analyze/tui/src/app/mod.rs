//! What is shown and where the cursor is; what keys do.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use ingero_format::Trace;
use ingero_format::catalog::TaskId;
use ingero_replay::closeup::{self, Closeup, Moment};
use ingero_replay::pyramid::{Cell, CpuCell, Pyramid};
use ingero_replay::scene::{Doing, Queued, WokenBy};
use ingero_replay::{Hosts, Lost, Processes, Window};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::incident::Incident;
use crate::palette::Palette;
use crate::rows::{Row, Rows};
use crate::search::{self, Search};
use crate::view::View;

/// What is to be shown.
#[derive(Debug, Clone)]
pub struct Options {
    /// The range: nothing outside of it is shown.
    pub window: Window,
    /// Processes whose threads are shown; all where there are none.
    pub pids: Vec<u32>,
    /// Wall-clock time of the trace's start, where times are to be shown so.
    pub start_unix_ns: Option<u64>,
    /// Colours and characters.
    pub palette: Palette,
}

/// What keys are typed into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Keys are commands.
    Plain,
    /// A text to search for is being typed.
    Search,
    /// A time to go to is being typed.
    Time,
    /// The keys are explained.
    Help,
}

/// Where the cursor was before a jump.
#[derive(Debug, Clone, Copy)]
struct Stop {
    row: Row,
    at_ns: u64,
}

/// Stops that are remembered.
const STOPS: usize = 200;
/// A range with more events than this is shown by its cells, not event by event.
const CLOSEUP_ROWS: u64 = 1_000_000;

/// What was found for the picture, until the range that is shown changes.
#[derive(Default)]
pub(crate) struct Found {
    view: Option<View>,
    cells: HashMap<Row, Rc<Vec<Cell>>>,
    cpus: HashMap<u32, Rc<Vec<CpuCell>>>,
    closeup: Option<Rc<Closeup>>,
    /// What holds more events than are read for a picture.
    crowded: Option<View>,
    moment: Option<Rc<Moment>>,
}

/// The terminal timeline: everything but the terminal.
pub struct App<'t> {
    pub(crate) trace: &'t Trace,
    pub(crate) pyramid: &'t Pyramid,
    pub(crate) options: Options,
    pub(crate) rows: Rows<'t>,
    pub(crate) view: View,
    pub(crate) cursor_ns: u64,
    /// Place of the chosen row among those shown.
    pub(crate) chosen: usize,
    /// Line of all rows that is shown first.
    pub(crate) scroll: u32,
    pub(crate) mode: Mode,
    pub(crate) typed: String,
    pub(crate) search: Option<Search>,
    /// What there is to say about the last key.
    pub(crate) message: String,
    /// None until they are known.
    pub(crate) incidents: Option<Vec<Incident>>,
    /// Whether events are known to be lost, or blocks to be unreadable.
    lossy: bool,
    /// Stretches in which events are missing on which states or calls hang, as far as is known yet.
    pub(crate) lost: Vec<Lost>,
    hosts: Hosts,
    /// Incident and place that were gone to.
    pub(crate) at_incident: Option<(usize, usize)>,
    stops: Vec<Stop>,
    pub(crate) found: RefCell<Found>,
    /// Lines that rows had when last drawn.
    pub(crate) page: u16,
}

impl<'t> App<'t> {
    /// The timeline of a trace.
    #[must_use]
    pub fn new(trace: &'t Trace, processes: &'t Processes, pyramid: &'t Pyramid, options: Options) -> Self {
        let rows = Rows::new(trace, processes, pyramid, &options.pids);
        let (from_ns, to_ns) = (options.window.from_ns, options.window.to_ns);
        let chosen = rows.first();
        let view = View::all(from_ns, to_ns, 80);
        let cursor_ns = view.clamp(from_ns + (to_ns.saturating_sub(from_ns)) / 2);
        Self {
            trace,
            pyramid,
            options,
            rows,
            view,
            cursor_ns,
            chosen,
            scroll: 0,
            mode: Mode::Plain,
            typed: String::new(),
            search: None,
            message: String::new(),
            incidents: None,
            lossy: false,
            lost: hiding(ingero_replay::lost(trace, &[])),
            hosts: Hosts::new(trace),
            at_incident: None,
            stops: Vec::new(),
            found: RefCell::default(),
            page: 10,
        }
    }

    /// Events were lost, or parts of the recording cannot be read.
    pub fn set_lossy(&mut self) {
        self.lossy = true;
    }

    /// What is missing from the recording is known in full.
    pub fn set_lost(&mut self, lost: Vec<Lost>) {
        self.lost = hiding(lost);
    }

    /// The host that a row is of, in a recording of several.
    fn host_of(&self, row: Row) -> Option<usize> {
        match row {
            Row::Cpu(cpu) => Some(self.hosts.of_cpu(cpu)),
            Row::Thread(_, task) => Some(self.hosts.of_task(self.trace, task)),
            _ => None,
        }
    }

    /// Whether states of a row, or else its calls, are hidden in each column, since events were lost there.
    pub(crate) fn lost_columns(&self, row: Row, states: bool) -> Vec<bool> {
        let host = self.host_of(row);
        let mut out = vec![false; self.view.columns()];
        for lost in &self.lost {
            let hides = if states { lost.hides_states(self.trace) } else { lost.hides_calls(self.trace) };
            let concerns = host.is_none_or(|host| lost.concerns(host));
            if !hides || !concerns || !lost.is_within(self.view.start_ns(), self.view.end_ns()) {
                continue;
            }
            let column = |at_ns: u64| self.view.column(at_ns.clamp(self.view.start_ns(), self.view.end_ns() - 1));
            if let (Some(from), Some(to)) = (column(lost.from_ns), column(lost.to_ns))
                && let Some(columns) = out.get_mut(from..=to)
            {
                columns.fill(true);
            }
        }
        out
    }

    /// What is missing at the cursor, for the chosen row.
    pub(crate) fn lost_here(&self) -> Option<&Lost> {
        let host = self.row().and_then(|row| self.host_of(row));
        let concerns = |l: &Lost| host.is_none_or(|host| l.concerns(host));
        self.lost.iter().find(|l| l.is_within(self.cursor_ns, self.cursor_ns.saturating_add(1)) && concerns(l))
    }

    /// Whether all that happened is in the recording, as far as is known.
    pub(crate) fn is_whole(&self) -> bool {
        self.trace.complete() && self.trace.damage().is_empty() && !self.lossy
    }

    /// The incidents are known now.
    pub fn set_incidents(&mut self, incidents: Vec<Incident>) {
        self.incidents = Some(incidents);
    }

    /// Goes to an instant.
    pub fn go_to(&mut self, at_ns: u64) {
        self.cursor_ns = self.view.clamp(at_ns);
        self.view.reveal(self.cursor_ns);
    }

    /// Zooms in or out around the cursor.
    pub fn zoom(&mut self, closer: bool) {
        self.view.zoom(closer, self.cursor_ns);
    }

    /// Length of a column.
    #[must_use]
    pub fn column_ns(&self) -> u64 {
        self.view.width_ns()
    }

    /// The row that is chosen.
    pub(crate) fn row(&self) -> Option<Row> {
        self.rows.shown().get(self.chosen).copied()
    }

    /// The thread that is chosen: of a process, its first.
    pub(crate) fn task(&self) -> Option<TaskId> {
        match self.row()? {
            Row::Thread(_, task) => Some(task),
            Row::Process(at) => self.rows.groups.get(at)?.threads.first().copied(),
            Row::Cpu(cpu) => {
                let cell = self.pyramid.cpu_row(cpu, self.cursor_ns, self.cursor_ns + 1, 1);
                let wide = || {
                    let from = self.pyramid.cell_start_ns(self.cursor_ns);
                    self.pyramid.cpu_row(cpu, from, from + self.pyramid.cell_ns(), 1)
                };
                cell.first().and_then(|c| c.task).or_else(|| wide().first().and_then(|c| c.task))
            }
            Row::Cpus => None,
        }
    }

    /// Whether columns are narrower than what the pyramid tells apart.
    pub(crate) fn is_close(&self) -> bool {
        self.view.width_ns() < self.pyramid.cell_ns()
    }

    /// What was read of the range, where columns are narrower than the pyramid's cells.
    pub(crate) fn closeup(&self) -> Option<Rc<Closeup>> {
        if !self.is_close() {
            return None;
        }
        let (from_ns, to_ns) = (self.view.start_ns(), self.view.end_ns());
        let mut found = self.found.borrow_mut();
        let holds = |closeup: &Rc<Closeup>| closeup.holds(from_ns, to_ns.min(self.pyramid.span_ns().1));
        if !found.closeup.as_ref().is_some_and(holds) {
            if found.crowded == Some(self.view) {
                return None;
            }
            if closeup::rows_within(self.trace, from_ns, to_ns) > CLOSEUP_ROWS {
                found.crowded = Some(self.view);
                return None;
            }
            // Some more on both sides, so that it serves a few steps.
            let more = (to_ns - from_ns) / 4;
            let callers: Vec<TaskId> = self
                .rows
                .shown()
                .iter()
                .filter_map(|row| if let Row::Thread(_, task) = row { Some(*task) } else { None })
                .collect();
            let read = Closeup::read(
                self.trace,
                self.pyramid,
                from_ns.saturating_sub(more),
                to_ns.saturating_add(more),
                &callers,
            );
            found.closeup = Some(Rc::new(read));
            found.cells.clear();
        }
        found.closeup.clone()
    }

    fn keep_what_fits(&self) {
        let mut found = self.found.borrow_mut();
        if found.view != Some(self.view) {
            found.view = Some(self.view);
            found.cells.clear();
            found.cpus.clear();
        }
    }

    fn task_cells(&self, task: TaskId) -> Vec<Cell> {
        let (from_ns, to_ns, columns) = (self.view.start_ns(), self.view.end_ns(), self.view.columns());
        match self.closeup() {
            Some(closeup) => closeup.row(self.pyramid, task, from_ns, to_ns, columns),
            None => self.pyramid.row(task, from_ns, to_ns, columns),
        }
    }

    /// What a row's columns hold: of a process, whether any of its threads ran, and if not, what kept them.
    pub(crate) fn cells(&self, row: Row) -> Rc<Vec<Cell>> {
        self.keep_what_fits();
        if let Some(cells) = self.found.borrow().cells.get(&row) {
            return Rc::clone(cells);
        }
        let cells = match row {
            Row::Thread(_, task) => self.task_cells(task),
            Row::Process(at) => {
                let threads = self.rows.groups.get(at).map_or(&[][..], |group| &group.threads);
                let mut sums = vec![Cell::default(); self.view.columns()];
                for &task in threads {
                    for (sum, cell) in sums.iter_mut().zip(self.task_cells(task)) {
                        sum.width_ns = cell.width_ns;
                        sum.running_ns += cell.running_ns;
                        sum.runnable_ns += cell.runnable_ns;
                        sum.throttled_ns += cell.throttled_ns;
                        sum.blocked_ns += cell.blocked_ns;
                        sum.off_cpu_ns += cell.off_cpu_ns;
                        sum.call_ns += cell.call_ns;
                        sum.func = sum.func.or(cell.func);
                    }
                }
                sums.iter_mut().for_each(squeeze);
                sums
            }
            Row::Cpu(_) | Row::Cpus => Vec::new(),
        };
        let cells = Rc::new(cells);
        self.found.borrow_mut().cells.insert(row, Rc::clone(&cells));
        cells
    }

    /// Who was on a CPU.
    pub(crate) fn cpu_cells(&self, cpu: u32) -> Rc<Vec<CpuCell>> {
        self.keep_what_fits();
        if let Some(cells) = self.found.borrow().cpus.get(&cpu) {
            return Rc::clone(cells);
        }
        let cells = Rc::new(self.pyramid.cpu_row(cpu, self.view.start_ns(), self.view.end_ns(), self.view.columns()));
        self.found.borrow_mut().cpus.insert(cpu, Rc::clone(&cells));
        cells
    }

    /// What the chosen thread does at the cursor.
    pub(crate) fn moment(&self) -> Option<Rc<Moment>> {
        let task = self.task()?;
        if let Some(moment) = &self.found.borrow().moment
            && (moment.task, moment.at_ns) == (task, self.cursor_ns)
        {
            return Some(Rc::clone(moment));
        }
        let moment = Rc::new(closeup::moment(self.trace, self.pyramid, task, self.cursor_ns));
        self.found.borrow_mut().moment = Some(Rc::clone(&moment));
        Some(moment)
    }

    /// Takes a key; false once the person wants to leave.
    pub fn key(&mut self, key: KeyEvent) -> bool {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if control && matches!(key.code, KeyCode::Char('c')) {
            return false;
        }
        match self.mode {
            Mode::Plain => return self.command(key),
            Mode::Help => self.mode = Mode::Plain,
            Mode::Search | Mode::Time => match key.code {
                KeyCode::Esc => self.mode = Mode::Plain,
                KeyCode::Backspace => {
                    self.typed.pop();
                }
                KeyCode::Char('u') if control => self.typed.clear(),
                KeyCode::Char(c) if !control => self.typed.push(c),
                KeyCode::Enter => {
                    let typed = std::mem::take(&mut self.typed);
                    let mode = std::mem::replace(&mut self.mode, Mode::Plain);
                    match mode {
                        Mode::Search => self.begin_search(&typed),
                        _ => self.go_to_time(&typed),
                    }
                }
                _ => {}
            },
        }
        true
    }

    fn command(&mut self, key: KeyEvent) -> bool {
        self.message.clear();
        let shift = key.modifiers.contains(KeyModifiers::SHIFT);
        let page = i64::try_from(self.view.columns() / 2).unwrap_or(1).max(1);
        match key.code {
            KeyCode::Char('q') => return false,
            KeyCode::Char('?') | KeyCode::F(1) => self.mode = Mode::Help,
            KeyCode::Left if shift => self.pan(-page),
            KeyCode::Right if shift => self.pan(page),
            KeyCode::Char('[') | KeyCode::Char('H') => self.pan(-page),
            KeyCode::Char(']') | KeyCode::Char('L') => self.pan(page),
            KeyCode::Left | KeyCode::Char('h') => self.step(-1),
            KeyCode::Right | KeyCode::Char('l') => self.step(1),
            KeyCode::Up | KeyCode::Char('k') => self.choose(-1),
            KeyCode::Down | KeyCode::Char('j') => self.choose(1),
            KeyCode::PageUp => self.choose(-i64::from(self.page.max(2) - 1)),
            KeyCode::PageDown => self.choose(i64::from(self.page.max(2) - 1)),
            KeyCode::Home => self.go_to(self.view.bounds_ns().0),
            KeyCode::End => self.go_to(self.view.bounds_ns().1),
            KeyCode::Char('+' | '=' | 'i') => self.zoom(true),
            KeyCode::Char('-' | 'o') => self.zoom(false),
            KeyCode::Char('0') => self.view.show_all(),
            KeyCode::Char('z') => self.zoom_to_state(),
            KeyCode::Tab => self.change(true),
            KeyCode::BackTab => self.change(false),
            KeyCode::Enter | KeyCode::Char(' ') => self.toggle(),
            KeyCode::Char('/') => self.mode = Mode::Search,
            KeyCode::Char('t') => self.mode = Mode::Time,
            KeyCode::Char('n') => self.search_on(true),
            KeyCode::Char('N') => self.search_on(false),
            KeyCode::Char('.') => self.incident(true),
            KeyCode::Char(',') => self.incident(false),
            KeyCode::Char('e') => self.next_place(),
            KeyCode::Char('w') => self.follow_wake(),
            KeyCode::Char('b') | KeyCode::Backspace => self.back(),
            _ => {}
        }
        true
    }

    fn pan(&mut self, columns: i64) {
        let place = self.view.column(self.cursor_ns);
        self.view.pan(columns);
        // The cursor stays where it is on the screen.
        if let Some(place) = place {
            self.cursor_ns = self.view.clamp(self.view.start_of(place) + self.view.width_ns() / 2);
        }
    }

    fn step(&mut self, columns: i64) {
        let at_ns = self.view.stepped(self.cursor_ns, columns);
        // At the edge the picture moves under it.
        if self.view.column(at_ns).is_none() {
            self.view.pan(columns);
        }
        self.go_to(at_ns);
    }

    fn choose(&mut self, rows: i64) {
        let last = self.rows.shown().len().saturating_sub(1);
        let at = i64::try_from(self.chosen).unwrap_or(0).saturating_add(rows).max(0);
        self.chosen = usize::try_from(at).unwrap_or(0).min(last);
    }

    fn toggle(&mut self) {
        let Some(row) = self.row() else { return };
        self.rows.toggle(row);
        self.chosen = self.rows.place(row);
        if let Row::Thread(_, task) = row
            && !self.pyramid.has_calls(task)
        {
            self.message = "no calls of this thread are recorded".to_owned();
        }
    }

    /// Shows what the thread does at the cursor from its begin to its end, and a little around it.
    fn zoom_to_state(&mut self) {
        let Some(moment) = self.moment() else { return };
        let Some(stretch) = &moment.stretch else { return };
        let end_ns = stretch.end_ns.unwrap_or(self.view.bounds_ns().1);
        let margin = (end_ns.saturating_sub(stretch.start_ns) / 4).max(1);
        self.view.show(
            self.view.clamp(stretch.start_ns.saturating_sub(margin)),
            self.view.clamp(end_ns.saturating_add(margin)),
        );
    }

    /// Goes to where the thread's state changes next, or to the begin of the state before.
    fn change(&mut self, forward: bool) {
        let Some(moment) = self.moment() else { return };
        let (from_ns, to_ns) = self.view.bounds_ns();
        let known = moment.stretch.as_ref().map(|s| (s.start_ns, s.end_ns));
        let at_ns = match known {
            Some((_, Some(end_ns))) if forward => end_ns,
            Some((start_ns, _)) if !forward && start_ns < self.cursor_ns => start_ns,
            Some((start_ns, _)) if !forward && start_ns > from_ns => {
                let before = closeup::moment(self.trace, self.pyramid, moment.task, start_ns - 1);
                before.stretch.map_or(start_ns - 1, |s| s.start_ns)
            }
            // Where it is not known what it does, the next cell may tell.
            None => {
                let cell = self.pyramid.steady(moment.task, self.cursor_ns);
                let here = self.pyramid.cell_start_ns(self.cursor_ns);
                match (forward, cell) {
                    (true, Some(steady)) => steady.to_ns,
                    (false, Some(steady)) => steady.from_ns.saturating_sub(1),
                    (true, None) => here + self.pyramid.cell_ns(),
                    (false, None) => here.saturating_sub(1),
                }
            }
            Some(_) => {
                self.message = format!(
                    "its state does not change any more {}",
                    if forward { "before the end" } else { "since the begin" }
                );
                return;
            }
        };
        if at_ns < from_ns || at_ns >= to_ns {
            self.message = "there is no change in the range that is shown".to_owned();
            return;
        }
        self.go_to(at_ns);
    }

    /// Remembers where the cursor is, for the way back.
    fn remember(&mut self) {
        if let Some(row) = self.row() {
            if self.stops.len() >= STOPS {
                self.stops.remove(0);
            }
            self.stops.push(Stop { row, at_ns: self.cursor_ns });
        }
    }

    fn back(&mut self) {
        let Some(Stop { row, at_ns }) = self.stops.pop() else {
            self.message = "nowhere to go back to".to_owned();
            return;
        };
        if let Row::Thread(_, task) = row {
            let _ = self.rows.reveal(task);
        }
        self.chosen = self.rows.place(row);
        self.go_to(at_ns);
    }

    /// Goes to a thread at an instant.
    fn jump(&mut self, task: TaskId, at_ns: u64) -> bool {
        let chosen = self.row();
        let Some(place) = self.rows.reveal(task) else {
            let who = self.rows.thread_label(task, at_ns);
            self.message = format!("{who} is not among the rows; leave out --pid to see it");
            return false;
        };
        if let Some(row) = chosen {
            self.stops.push(Stop { row, at_ns: self.cursor_ns });
        }
        self.chosen = place;
        self.go_to(at_ns);
        true
    }

    /// Goes to who woke the thread, at the moment of the wake.
    fn follow_wake(&mut self) {
        let Some(moment) = self.moment() else {
            self.message = "choose a thread first".to_owned();
            return;
        };
        let edge = moment.stretch.as_ref().and_then(|s| match &s.doing {
            Doing::Blocked { waker, .. } => s.end_ns.map(|end_ns| (*waker, end_ns)),
            Doing::Runnable { since: Queued::Woken(waker), .. } => Some((*waker, s.start_ns)),
            _ => None,
        });
        match edge {
            Some((WokenBy::Task(task), at_ns)) => {
                if at_ns >= self.view.bounds_ns().1 {
                    self.message = "the wake lies behind the range that is shown".to_owned();
                } else if self.jump(task, at_ns) {
                    self.message = format!("woke {}; b goes back", self.rows.thread_label(moment.task, at_ns));
                }
            }
            Some((WokenBy::Interrupt(_), _)) => self.message = "an interrupt woke it: nobody to follow".to_owned(),
            Some((WokenBy::Unknown, _)) => self.message = "the recording does not say who woke it".to_owned(),
            Some((WokenBy::NoMoreKnown, _)) => {
                self.message = "what came of it is not known: events are missing".to_owned()
            }
            None => {
                self.message = "nobody woke it here: move to where it is blocked, or waits for a CPU (Tab)".to_owned()
            }
        }
    }

    fn go_to_time(&mut self, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        match Window::parse_instant(self.trace, text) {
            Ok(at_ns) if self.view.clamp(at_ns) == at_ns => {
                self.remember();
                self.go_to(at_ns);
            }
            Ok(_) => self.message = format!("{text} lies outside of the range that is shown"),
            Err(problem) => self.message = problem,
        }
    }

    fn incident(&mut self, forward: bool) {
        let Some(incidents) = &self.incidents else {
            self.message = "the analysis is not done yet".to_owned();
            return;
        };
        let count = incidents.len();
        if count == 0 {
            self.message = "there is no incident".to_owned();
            return;
        }
        let next = match (self.at_incident, forward) {
            (None, true) => 0,
            (None, false) => count - 1,
            (Some((at, _)), true) => (at + 1) % count,
            (Some((at, _)), false) => (at + count - 1) % count,
        };
        self.go_to_place(next, 0);
    }

    fn next_place(&mut self) {
        match (self.at_incident, &self.incidents) {
            (Some((at, place)), Some(incidents)) => {
                let places = incidents.get(at).map_or(0, |incident| incident.places.len());
                self.go_to_place(at, if places == 0 { 0 } else { (place + 1) % places });
            }
            _ => self.message = "go to an incident first (.)".to_owned(),
        }
    }

    fn go_to_place(&mut self, incident: usize, place: usize) {
        self.at_incident = Some((incident, place));
        let found =
            self.incidents.as_ref().and_then(|all| all.get(incident)).and_then(|i| i.places.get(place).cloned());
        let Some(found) = found else {
            self.message = "the incident names no place".to_owned();
            return;
        };
        if self.jump(found.task, found.from_ns) {
            // So that the place fills most of the screen.
            let margin = (found.to_ns.saturating_sub(found.from_ns) / 6).max(1_000);
            let (from_ns, to_ns) = (found.from_ns.saturating_sub(margin), found.to_ns.saturating_add(margin));
            self.view.show(self.view.clamp(from_ns), self.view.clamp(to_ns));
            self.go_to(found.from_ns);
        }
    }

    fn begin_search(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        match Search::new(self.trace, &self.rows, text) {
            Some(search) => {
                self.search = Some(search);
                self.search_on(true);
            }
            None => self.message = format!("no thread, process or call is named {text:?}"),
        }
    }

    fn search_on(&mut self, forward: bool) {
        let Some(search) = self.search.take() else {
            self.message = "nothing was searched for yet (/)".to_owned();
            return;
        };
        match search.next(self.trace, &self.rows, self.task(), self.cursor_ns, self.view.bounds_ns(), forward) {
            search::Hit::Thread(task, place) => {
                self.remember();
                if let Some(at) = self.rows.reveal(task) {
                    self.chosen = at;
                }
                self.message = format!("{place} of {} threads for {:?}", search.threads().len(), search.text());
            }
            search::Hit::Call(task, at_ns) => {
                if self.jump(task, at_ns) {
                    self.message = format!("a call that matches {:?}; n: next, N: previous", search.text());
                }
            }
            search::Hit::None => {
                self.message = format!(
                    "no more calls that match {:?} {}",
                    search.text(),
                    if forward { "from here on" } else { "before" }
                )
            }
            search::Hit::TooFar => self.message = format!("no call that matches {:?} near here", search.text()),
        }
        self.search = Some(search);
    }
}

/// The stretches that hide something from the picture.
fn hiding(mut lost: Vec<Lost>) -> Vec<Lost> {
    lost.retain(|l| l.hides);
    lost
}

/// Makes a column of what several threads did: their time on CPUs up to all of it, what they waited for in the rest.
fn squeeze(cell: &mut Cell) {
    let mut left = cell.width_ns;
    let Cell { running_ns, runnable_ns, throttled_ns, blocked_ns, off_cpu_ns, .. } = cell;
    for part in [running_ns, runnable_ns, throttled_ns, blocked_ns, off_cpu_ns] {
        *part = (*part).min(left);
        left -= *part;
    }
}

#[cfg(test)]
mod tests;
