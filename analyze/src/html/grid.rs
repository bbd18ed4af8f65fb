//! The range of time that the timeline shows, divided into columns.

/// A range divided into columns of equal width; the last one may reach past the range's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Grid {
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
    pub(super) width_ns: u64,
}

impl Grid {
    /// A range in `most` columns at most, each as wide as a whole number of cells.
    pub(super) fn new(from_ns: u64, to_ns: u64, most: usize, cell_ns: u64) -> Self {
        let len_ns = to_ns.saturating_sub(from_ns).max(1);
        let width_ns = len_ns.div_ceil(most.max(1) as u64).next_multiple_of(cell_ns.max(1));
        Self { from_ns, to_ns: from_ns.saturating_add(len_ns), width_ns }
    }

    /// How many columns there are.
    pub(super) fn columns(&self) -> usize {
        usize::try_from((self.to_ns - self.from_ns).div_ceil(self.width_ns)).unwrap_or(usize::MAX)
    }

    /// The part of a stretch that lies in the range; none where it lies outside. What takes no time is there still.
    pub(super) fn clip(&self, start_ns: u64, end_ns: u64) -> Option<(u64, u64)> {
        let (from, to) = (start_ns.max(self.from_ns), end_ns.min(self.to_ns));
        (from <= to && start_ns < self.to_ns && (end_ns > self.from_ns || start_ns >= self.from_ns))
            .then_some((from, to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_whole_cells() {
        let columns = |len_ns: u64, most, cell_ns| {
            let grid = Grid::new(100, 100 + len_ns, most, cell_ns);
            (grid.columns(), grid.width_ns)
        };
        assert_eq!(columns(100, 4, 1), (4, 25));
        assert_eq!(columns(100, 4, 16), (4, 32));
        assert_eq!(columns(1000, 4096, 64), (16, 64));
        assert_eq!(columns(0, 4096, 64), (1, 64));
    }

    #[test]
    fn what_lies_outside_is_cut() {
        let grid = Grid::new(100, 200, 4, 1);
        assert_eq!(grid.clip(50, 120), Some((100, 120)));
        assert_eq!(grid.clip(190, u64::MAX), Some((190, 200)));
        assert_eq!(grid.clip(100, 100), Some((100, 100)));
        assert_eq!((grid.clip(50, 100), grid.clip(200, 210)), (None, None));
    }
}
