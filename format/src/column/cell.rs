//! The widths in which words are held in memory: no wider than a block's column needs.

use super::words::{Held, Shelf};

/// An unsigned number of 8 to 64 bits. Arithmetic wraps around.
pub(crate) trait Cell: Copy + Ord + Default + std::fmt::Debug + 'static {
    /// Bytes of the number.
    const BYTES: usize;
    /// Largest number.
    const TOP: Self;
    /// Holds the zigzag of any difference of two.
    type Wide: Cell;
    /// The low bits of a word.
    fn cut(word: u64) -> Self;
    fn wide(self) -> u64;
    fn low16(self) -> u16;
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    /// The byte that begins at this bit.
    fn byte(self, bit: u32) -> u8;
    /// A byte moved up to begin at this bit.
    fn of_byte(byte: u8, bit: u32) -> Self;
    fn hold(cells: Vec<Self>) -> Held;
    /// Buffers of this width that are not in use.
    fn spare(shelf: &mut Shelf) -> &mut Vec<Vec<Self>>;
}

macro_rules! cells {
    ($($ty:ty, $wide:ty, $held:ident, $spare:ident;)*) => {$(
        #[expect(clippy::cast_possible_truncation, reason = "the low bits are meant")]
        #[allow(clippy::cast_lossless, clippy::unnecessary_cast, trivial_numeric_casts, reason = "one text for all widths")]
        impl Cell for $ty {
            const BYTES: usize = size_of::<$ty>();
            const TOP: Self = <$ty>::MAX;
            type Wide = $wide;
            #[inline(always)]
            fn cut(word: u64) -> Self {
                word as $ty
            }
            #[inline(always)]
            fn wide(self) -> u64 {
                self as u64
            }
            #[inline(always)]
            fn low16(self) -> u16 {
                self as u16
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn or(self, other: Self) -> Self {
                self | other
            }
            #[inline(always)]
            fn byte(self, bit: u32) -> u8 {
                (self >> bit) as u8
            }
            #[inline(always)]
            fn of_byte(byte: u8, bit: u32) -> Self {
                (byte as $ty) << bit
            }
            fn hold(cells: Vec<Self>) -> Held {
                Held::$held(cells)
            }
            fn spare(shelf: &mut Shelf) -> &mut Vec<Vec<Self>> {
                &mut shelf.$spare
            }
        }
    )*};
}
cells! {
    u8, u32, U8, bytes;
    u16, u32, U16, halves;
    u32, u64, U32, words;
    u64, u64, U64, doubles;
}
