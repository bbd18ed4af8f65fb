//! Which row of all open blocks comes next.

/// The next row of an open block, in the order in which rows come: by time; of one time switches last, then by the
/// block's number. With it the place of the block. One number, so that finding the first costs one comparison each.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place(u128);

/// Blocks that can be open at a time, in bits of their number.
const PLACE_BITS: u32 = 31;

impl Place {
    pub(super) fn new(ts_ns: u64, is_switch: bool, seq: u32, place: usize) -> Self {
        // Their room in memory is bounded far below this.
        let place = place as u128 & ((1 << PLACE_BITS) - 1);
        Self(u128::from(ts_ns) << 64 | u128::from(is_switch) << 63 | u128::from(seq) << PLACE_BITS | place)
    }

    #[inline]
    pub(super) fn ts_ns(self) -> u64 {
        (self.0 >> 64) as u64
    }

    #[inline]
    pub(super) fn place(self) -> usize {
        (self.0 & ((1 << PLACE_BITS) - 1)) as usize
    }

    /// The same block with its next row.
    #[inline]
    pub(super) fn at(self, ts_ns: u64) -> Self {
        Self(self.0 & u128::from(u64::MAX) | u128::from(ts_ns) << 64)
    }
}
