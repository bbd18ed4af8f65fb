//! How states look: in colours, and told by characters where a terminal has none.

use ingero_replay::State;
use ingero_replay::pyramid::Cell;
use ratatui::style::{Color, Modifier, Style};

/// Colours that a terminal has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Colours {
    None,
    Sixteen,
    Many,
}

/// How things are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Palette {
    colours: Colours,
    /// Whether no character beyond ASCII can be shown.
    ascii: bool,
}

/// A column holds something worth showing from this part of it on.
const WORTH: u64 = 4;

impl Palette {
    /// What a terminal can show, by the environment: `NO_COLOR`, `TERM`, `COLORTERM`, and the character set of the locale.
    #[must_use]
    pub fn of_terminal(env: impl Fn(&str) -> Option<String>) -> Self {
        let given = |name: &str| env(name).filter(|value| !value.is_empty());
        let term = given("TERM").unwrap_or_default();
        let plain = term.is_empty()
            || term == "dumb"
            || term.starts_with("vt")
            || term.ends_with("-mono")
            || term.ends_with("-m");
        let many = term.contains("256color") || term.contains("direct") || given("COLORTERM").is_some();
        let colours = match (plain || given("NO_COLOR").is_some(), many) {
            (true, _) => Colours::None,
            (false, true) => Colours::Many,
            (false, false) => Colours::Sixteen,
        };
        // The first of these that is set holds.
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| given(name)).unwrap_or_default();
        let locale = locale.to_ascii_lowercase();
        let utf8 = locale.contains("utf-8") || locale.contains("utf8");
        Self { colours, ascii: !utf8 || term == "dumb" || term.starts_with("vt") }
    }

    /// All colours and characters.
    #[must_use]
    pub fn full() -> Self {
        Self { colours: Colours::Many, ascii: false }
    }

    /// No colours; ASCII alone.
    #[must_use]
    pub fn plain() -> Self {
        Self { colours: Colours::None, ascii: true }
    }

    fn colour(self, many: u8, few: Color) -> Option<Color> {
        match self.colours {
            Colours::None => None,
            Colours::Sixteen => Some(few),
            Colours::Many => Some(Color::Indexed(many)),
        }
    }

    fn of_state(self, state: State) -> Option<Color> {
        match state {
            State::Running => self.colour(71, Color::Green),
            State::Runnable => self.colour(214, Color::Yellow),
            State::Throttled => self.colour(133, Color::Magenta),
            // Between waiting for a CPU and being blocked: it is one of the two.
            State::OffCpu => self.colour(95, Color::Gray),
            State::Blocked => self.colour(238, Color::DarkGray),
        }
    }

    /// The character of a column without colours.
    fn letter(state: State) -> char {
        match state {
            State::Running => '#',
            State::Runnable => '+',
            State::Throttled => '%',
            State::Blocked => '.',
            State::OffCpu => 'o',
        }
    }

    /// What the part of a column is shown as in which its thread did not run.
    fn rest(cell: &Cell) -> Option<State> {
        let rest = cell.off_ns();
        // Where a thread could not run for want of a CPU is what one looks for: it shows from a quarter on.
        let from = |ns: u64| ns > 0 && ns.saturating_mul(WORTH) >= rest;
        match () {
            () if rest == 0 => None,
            () if from(cell.throttled_ns) && cell.throttled_ns >= cell.runnable_ns => Some(State::Throttled),
            () if from(cell.runnable_ns) => Some(State::Runnable),
            () if cell.off_cpu_ns >= cell.blocked_ns => Some(State::OffCpu),
            () => Some(State::Blocked),
        }
    }

    /// The character and style of a column.
    pub(crate) fn cell(self, cell: &Cell) -> (char, Style) {
        if cell.known_ns() == 0 || cell.width_ns == 0 {
            return (' ', Style::new());
        }
        let rest = Self::rest(cell);
        if rest == Some(State::OffCpu) && cell.running_ns == 0 {
            return self.stored(cell);
        }
        if self.colours == Colours::None {
            let (ran, width) = (cell.running_ns, cell.width_ns);
            let waits = matches!(rest, Some(State::Runnable | State::Throttled));
            let c = match () {
                () if ran.saturating_mul(2) >= width => Self::letter(State::Running),
                () if waits => rest.map_or(' ', Self::letter),
                () if ran.saturating_mul(10) >= width => '-',
                () => rest.map_or('-', Self::letter),
            };
            return (c, Style::new());
        }
        let mut style = Style::new();
        style.bg = rest.and_then(|state| self.of_state(state));
        style.fg = self.of_state(State::Running);
        let c = self.bar(cell.running_ns, cell.width_ns);
        (c, style)
    }

    /// A column with stays that the source stored: as high as their part of it, for nothing is known of the rest.
    fn stored(self, cell: &Cell) -> (char, Style) {
        let mut style = Style::new();
        style.fg = self.of_state(State::OffCpu);
        if self.colours == Colours::None {
            let most = cell.off_ns().saturating_mul(2) >= cell.width_ns;
            return (if most { Self::letter(State::OffCpu) } else { ',' }, style);
        }
        (self.bar(cell.off_ns(), cell.width_ns), style)
    }

    /// A bar as high as a part of a column; an eighth at least.
    fn bar(self, part_ns: u64, width_ns: u64) -> char {
        let eighths = (u128::from(part_ns) * 8).div_ceil(u128::from(width_ns.max(1)));
        let bars = if self.ascii { [' ', '.', '.', ':', ':', '=', '=', '#', '#'] } else { BARS };
        usize::try_from(eighths).ok().and_then(|n| bars.get(n)).copied().unwrap_or(bars[8])
    }

    /// A part of a call lane with its function, or with so little of any that none is named.
    pub(crate) fn call(self, even: bool) -> Style {
        match self.colours {
            Colours::None => Style::new(),
            _ => {
                let (many, few) = if even { (25, Color::Blue) } else { (31, Color::Cyan) };
                let mut style = Style::new();
                style.bg = self.colour(many, few);
                style.fg = self.colour(255, Color::White);
                style
            }
        }
    }

    /// The character that fills a call, and the one that stands for calls too short to see.
    pub(crate) fn call_fill(self) -> (char, char) {
        match (self.colours, self.ascii) {
            (Colours::None, true) => ('=', '-'),
            (Colours::None, false) => ('─', '·'),
            (_, true) => (' ', '-'),
            (_, false) => (' ', '▁'),
        }
    }

    /// Whether a call needs brackets to be told from the next.
    pub(crate) fn brackets(self) -> bool {
        self.colours == Colours::None
    }

    /// Calls too short to see.
    pub(crate) fn short_calls(self) -> Style {
        let mut style = Style::new();
        style.fg = self.colour(31, Color::Cyan);
        style
    }

    /// Who has a CPU.
    pub(crate) fn holder(self, number: u32) -> Style {
        const MANY: [u8; 6] = [24, 53, 58, 23, 60, 95];
        let mut style = Style::new();
        if self.colours != Colours::None {
            let at = usize::try_from(number).unwrap_or(0) % MANY.len();
            style.bg = self.colour(MANY[at], if at.is_multiple_of(2) { Color::Blue } else { Color::Magenta });
            style.fg = self.colour(255, Color::White);
        }
        style
    }

    /// A column of which events were lost: nothing is known there, neither that it is idle nor that it goes on.
    pub(crate) fn lost(self) -> (char, Style) {
        let mut style = Style::new();
        style.fg = self.colour(203, Color::Red);
        (if self.ascii { '?' } else { '\u{2592}' }, style)
    }

    /// What stands beside the picture.
    pub(crate) fn quiet(self) -> Style {
        let mut style = Style::new();
        style.fg = self.colour(245, Color::Gray);
        style
    }

    /// What is to be seen first.
    pub(crate) fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// A severity.
    pub(crate) fn severity(self, severity: &str) -> Style {
        let mut style = self.strong();
        style.fg = match severity {
            "HIGH" => self.colour(203, Color::Red),
            "MEDIUM" => self.colour(214, Color::Yellow),
            _ => self.colour(80, Color::Cyan),
        };
        style
    }

    /// The cursor, the chosen row, keys.
    pub(crate) fn reversed(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// The states in the legend, each a sample and its name, long and short; those first that are looked for first. `switches` and
    /// `off_cpu` are whether the recording has context switches, and stays off the CPUs of which no more than that is known.
    pub(crate) fn legend(self, switches: bool, off_cpu: bool) -> Vec<(char, Style, [&'static str; 2])> {
        let named = |state: State, name| {
            let mut cell = Cell { width_ns: 8, ..Cell::default() };
            match state {
                State::Running => cell.running_ns = 8,
                State::Runnable => cell.runnable_ns = 8,
                State::Throttled => cell.throttled_ns = 8,
                State::Blocked => cell.blocked_ns = 8,
                State::OffCpu => cell.off_cpu_ns = 8,
            }
            let (c, style) = self.cell(&cell);
            (c, style, name)
        };
        let letters = self.colours == Colours::None;
        let mut out = Vec::new();
        if off_cpu {
            out.push(named(State::OffCpu, ["off the CPUs", "off"]));
            if !switches {
                if letters {
                    out.push((',', Style::new(), ["less than half", "less"]));
                }
                return out;
            }
        }
        out.push(named(State::Running, ["ran", "ran"]));
        if letters {
            out.push(('-', Style::new(), ["in part", "part"]));
        }
        out.push(named(State::Runnable, ["could run, had no CPU", "no CPU"]));
        out.push(named(State::Blocked, ["blocked", "blocked"]));
        out.push(named(State::Throttled, ["throttled", "throttled"]));
        out
    }

    /// Marks of a folded and an unfolded process.
    pub(crate) fn fold(self, folded: bool) -> char {
        match (self.ascii, folded) {
            (true, true) => '+',
            (true, false) => '-',
            (false, true) => '▸',
            (false, false) => '▾',
        }
    }

    /// Mark of the chosen row, and of the cursor's column.
    pub(crate) fn marks(self) -> (char, char) {
        if self.ascii { ('>', 'v') } else { ('▶', '▼') }
    }

    /// Line between the parts of the screen, and the tick of the axis.
    pub(crate) fn lines(self) -> (char, char) {
        if self.ascii { ('-', '|') } else { ('─', '╷') }
    }

    /// A text that was cut ends so.
    pub(crate) fn cut(self) -> char {
        if self.ascii { '~' } else { '…' }
    }

    /// A text with characters that the terminal has.
    pub(crate) fn text(self, text: &str) -> String {
        if !self.ascii {
            return text.to_owned();
        }
        text.chars()
            .map(|c| match c {
                'µ' => 'u',
                '—' | '–' => '-',
                c if c.is_ascii() => c,
                _ => '?',
            })
            .collect()
    }
}

/// Bars of so many eighths.
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

#[cfg(test)]
mod tests {
    use super::*;

    fn of(vars: &[(&str, &str)]) -> Palette {
        let vars: Vec<(String, String)> = vars.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Palette::of_terminal(|name| vars.iter().find(|(k, _)| k == name).map(|(_, v)| v.clone()))
    }

    #[test]
    fn a_terminal_shows_what_it_can() {
        let utf8 = ("LANG", "en_US.UTF-8");
        let made = |colours, ascii| Palette { colours, ascii };
        assert_eq!(of(&[("TERM", "xterm-256color"), utf8]), made(Colours::Many, false));
        assert_eq!(of(&[("TERM", "xterm"), ("COLORTERM", "truecolor"), utf8]), made(Colours::Many, false));
        assert_eq!(of(&[("TERM", "linux"), utf8]), made(Colours::Sixteen, false));
        assert_eq!(of(&[("TERM", "xterm-256color"), ("NO_COLOR", "1"), utf8]), made(Colours::None, false));
        // Empty is as good as unset.
        assert_eq!(of(&[("TERM", "xterm-256color"), ("NO_COLOR", ""), utf8]), made(Colours::Many, false));
        assert_eq!(of(&[("TERM", "xterm-256color"), ("LC_ALL", "C"), utf8]), made(Colours::Many, true));
        for term in ["dumb", "vt100", ""] {
            assert_eq!(of(&[("TERM", term), utf8]).colours, Colours::None, "{term}");
        }
        assert_eq!(of(&[("TERM", "vt100"), utf8]), Palette::plain());
        assert_eq!(of(&[]).colours, Colours::None);
    }

    #[test]
    fn states_are_told_by_characters_without_colours() {
        let cell = |running_ns, runnable_ns, throttled_ns, blocked_ns| {
            let cell = Cell { width_ns: 100, running_ns, runnable_ns, throttled_ns, blocked_ns, ..Cell::default() };
            Palette::plain().cell(&cell)
        };
        for (expected, (c, style)) in [
            ('#', cell(100, 0, 0, 0)),
            ('#', cell(50, 20, 0, 30)),
            ('+', cell(40, 20, 0, 40)),
            ('+', cell(0, 100, 0, 0)),
            ('%', cell(0, 0, 60, 40)),
            ('.', cell(5, 5, 0, 90)),
            ('-', cell(20, 5, 0, 75)),
            ('.', cell(0, 0, 0, 1)),
            (' ', cell(0, 0, 0, 0)),
        ] {
            assert_eq!((c, style), (expected, Style::new()));
        }
    }

    #[test]
    fn stays_that_a_source_stored_have_a_look_of_their_own() {
        let cell = Cell { width_ns: 100, off_cpu_ns: 60, ..Cell::default() };
        assert_eq!(Palette::plain().cell(&cell), ('o', Style::new()));
        let (bar, style) = Palette::full().cell(&cell);
        assert_eq!((bar, style.bg), ('▅', None), "nothing is known of the rest");
        assert_ne!(style.fg, Palette::full().cell(&Cell { width_ns: 100, running_ns: 60, ..Cell::default() }).1.fg);
        let little = Cell { width_ns: 100, off_cpu_ns: 1, ..Cell::default() };
        assert_eq!((Palette::plain().cell(&little).0, Palette::full().cell(&little).0), (',', '▁'));
        let names =
            |switches, stored| Palette::plain().legend(switches, stored).iter().map(|l| l.2[0]).collect::<Vec<_>>();
        assert_eq!(names(false, true), ["off the CPUs", "less than half"]);
        assert!(!names(true, false).contains(&"off the CPUs") && names(true, true).contains(&"blocked"));
    }

    #[test]
    fn a_moment_on_a_cpu_is_seen() {
        let cell = Cell { width_ns: 1_000_000, running_ns: 1, blocked_ns: 999_999, ..Cell::default() };
        assert_eq!(Palette::full().cell(&cell).0, '▁');
        let cell = Cell { width_ns: 1_000_000, running_ns: 1_000_000, ..Cell::default() };
        assert_eq!(Palette::full().cell(&cell).0, '█');
    }
}
