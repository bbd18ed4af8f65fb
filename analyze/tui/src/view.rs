//! Which part of the time is shown: instants and columns.

/// A stretch of the trace in columns of one width. Columns keep their places while it moves: each begins at a multiple of its width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct View {
    /// What can be shown at all: begin, and the instant behind the end.
    bounds_ns: (u64, u64),
    /// Length of a column.
    width_ns: u64,
    /// Number of the first column.
    first: u64,
    /// Columns that are shown.
    columns: u64,
}

/// Narrowest columns.
const NARROWEST_NS: u64 = 4;

/// The narrowest width of columns that is at least `ns`: eight to fifteen times a power of two, so that each column is made of few
/// cells of the pyramid.
fn width_from(ns: u64) -> u64 {
    if ns <= NARROWEST_NS {
        return NARROWEST_NS;
    }
    let shift = (u64::BITS - ns.leading_zeros()).saturating_sub(4);
    let unit = 1 << shift;
    ns.div_ceil(unit).saturating_mul(unit)
}

impl View {
    /// All of a range.
    pub(crate) fn all(from_ns: u64, to_ns: u64, columns: usize) -> Self {
        let columns = (columns as u64).max(1);
        let mut this = Self { bounds_ns: (from_ns, to_ns.max(from_ns + 1)), width_ns: 1, first: 0, columns };
        this.show_all();
        this
    }

    pub(crate) fn show_all(&mut self) {
        self.show(self.bounds_ns.0, self.bounds_ns.1);
    }

    /// Shows a range, and little more.
    pub(crate) fn show(&mut self, from_ns: u64, to_ns: u64) {
        let length = to_ns.saturating_sub(from_ns).max(1);
        self.width_ns = width_from(length.div_ceil(self.columns));
        self.first = self.number(from_ns);
        // The range may begin late in its first column.
        if self.end_ns() < to_ns {
            self.width_ns = width_from(self.width_ns.saturating_add(1));
            self.first = self.number(from_ns);
        }
        self.keep_within();
    }

    /// Number of the column that holds an instant.
    fn number(&self, at_ns: u64) -> u64 {
        at_ns.saturating_sub(self.bounds_ns.0) / self.width_ns
    }

    fn keep_within(&mut self) {
        let last = self.number(self.bounds_ns.1 - 1);
        self.first = self.first.min(last.saturating_sub(self.columns - 1));
    }

    /// Shows so many columns.
    pub(crate) fn resize(&mut self, columns: usize, cursor_ns: u64) {
        let columns = (columns as u64).max(1);
        if columns == self.columns {
            return;
        }
        let whole = self.start_ns() <= self.bounds_ns.0 && self.end_ns() >= self.bounds_ns.1;
        self.columns = columns;
        if whole {
            self.show_all();
        } else {
            self.keep_within();
            self.reveal(cursor_ns);
        }
    }

    /// Makes columns half or twice as wide, around an instant, which keeps its place.
    pub(crate) fn zoom(&mut self, closer: bool, around_ns: u64) {
        let place = self.number(around_ns).saturating_sub(self.first);
        let widest = width_from((self.bounds_ns.1 - self.bounds_ns.0).div_ceil(self.columns));
        let width = if closer { self.width_ns / 2 } else { self.width_ns.saturating_mul(2) };
        if !closer && width >= widest {
            self.show_all();
            return;
        }
        self.width_ns = width.max(NARROWEST_NS);
        self.first = self.number(around_ns).saturating_sub(place);
        self.keep_within();
    }

    /// Moves by so many columns.
    pub(crate) fn pan(&mut self, columns: i64) {
        self.first = self.first.saturating_add_signed(columns);
        self.keep_within();
    }

    /// Moves as far as needed for an instant to be seen.
    pub(crate) fn reveal(&mut self, at_ns: u64) {
        let number = self.number(at_ns);
        if number < self.first || number >= self.first + self.columns {
            self.first = number.saturating_sub(self.columns / 2);
            self.keep_within();
        }
    }

    /// An instant moved by so many columns, to the middle of a column.
    pub(crate) fn stepped(&self, at_ns: u64, columns: i64) -> u64 {
        let number = self.number(at_ns).saturating_add_signed(columns);
        let at =
            self.bounds_ns.0.saturating_add(number.saturating_mul(self.width_ns)).saturating_add(self.width_ns / 2);
        self.clamp(at)
    }

    /// The nearest instant that can be shown.
    pub(crate) fn clamp(&self, at_ns: u64) -> u64 {
        at_ns.clamp(self.bounds_ns.0, self.bounds_ns.1 - 1)
    }

    /// Place of an instant among the columns; none where it is not shown.
    pub(crate) fn column(&self, at_ns: u64) -> Option<usize> {
        let place = self.number(at_ns).checked_sub(self.first).filter(|&place| place < self.columns)?;
        if at_ns < self.bounds_ns.0 { None } else { usize::try_from(place).ok() }
    }

    /// Begin of a column.
    pub(crate) fn start_of(&self, column: usize) -> u64 {
        let number = self.first.saturating_add(column as u64);
        self.bounds_ns.0.saturating_add(number.saturating_mul(self.width_ns))
    }

    pub(crate) fn start_ns(&self) -> u64 {
        self.start_of(0)
    }

    pub(crate) fn end_ns(&self) -> u64 {
        self.start_of(usize::try_from(self.columns).unwrap_or(usize::MAX))
    }

    pub(crate) fn columns(&self) -> usize {
        usize::try_from(self.columns).unwrap_or(usize::MAX)
    }

    pub(crate) fn width_ns(&self) -> u64 {
        self.width_ns
    }

    pub(crate) fn bounds_ns(&self) -> (u64, u64) {
        self.bounds_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_made_of_few_cells() {
        for ns in [1, 5, 7, 9, 100, 12_345, 1_000_000_007, 1 << 40, u64::MAX >> 8] {
            let width = width_from(ns);
            assert!(width >= ns && (width <= ns + ns / 8 + 4), "{ns} {width}");
            let unit = 1u64 << width.trailing_zeros();
            assert!(width / unit <= 15, "{width}");
        }
    }

    #[test]
    fn all_is_shown_and_hardly_more() {
        for (from, to) in [(0, 1), (1_000, 20_000_000_123), (u64::MAX / 2, u64::MAX / 2 + 77)] {
            for columns in [1, 20, 58, 131] {
                let view = View::all(from, to, columns);
                assert!(view.start_ns() <= from && view.end_ns() >= to);
                assert!((to - from) * 5 / 4 + 5 * columns as u64 >= view.end_ns() - view.start_ns(), "{view:?}");
            }
        }
    }

    #[test]
    fn zooming_keeps_the_instant_at_its_place() {
        let mut view = View::all(500, 10_000_000_500, 80);
        let at = 3_333_333_333;
        let place = view.column(at).unwrap();
        while view.width_ns() > NARROWEST_NS {
            view.zoom(true, at);
            assert_eq!(view.column(at), Some(place));
        }
        view.zoom(true, at);
        assert_eq!(view.width_ns(), NARROWEST_NS);
        for _ in 0..64 {
            view.zoom(false, at);
            assert!(view.column(at).is_some());
        }
        assert_eq!(view, View::all(500, 10_000_000_500, 80));
    }

    #[test]
    fn nothing_moves_beyond_the_ends() {
        let mut view = View::all(0, 1_000_000, 50);
        view.pan(30);
        assert_eq!(view.start_ns(), 0);
        view.zoom(true, 999_999);
        assert!(view.column(999_999).is_some());
        view.pan(1_000_000);
        assert!(view.column(999_999).is_some());
        view.pan(i64::MIN);
        assert_eq!(view.start_ns(), 0);
        view.reveal(999_999);
        assert!(view.column(999_999).is_some());
        assert_eq!(view.stepped(999_999, 5), 999_999);
        assert_eq!(view.stepped(0, -5), view.width_ns() / 2);
        assert_eq!(view.clamp(7_000_000), 999_999);
    }
}
