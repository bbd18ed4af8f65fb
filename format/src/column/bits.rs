//! Numbers of any width in bits, lowest bits first, without padding between them.

/// Bytes by which the buffer exceeds what is used: each access moves a whole word.
const SLACK: usize = 8;

/// Writes bits into a buffer.
pub(super) struct BitWriter<'a> {
    bytes: &'a mut Vec<u8>,
    held: u64,
    /// Bits held, below 8 between calls.
    held_bits: u32,
    at: usize,
}

impl<'a> BitWriter<'a> {
    /// Begins at the front of `bytes`, with room for `bits`.
    pub(super) fn new(bytes: &'a mut Vec<u8>, bits: usize) -> Self {
        let len = bits.div_ceil(8) + SLACK;
        if bytes.len() < len {
            bytes.resize(len, 0);
        }
        Self { bytes, held: 0, held_bits: 0, at: 0 }
    }

    /// Appends the `count` lowest bits of `value`, which has no others; `count` is at most 56.
    #[inline]
    pub(super) fn put(&mut self, value: u64, count: u32) {
        self.held |= value << self.held_bits;
        self.held_bits += count;
        if let Some(to) = self.bytes.get_mut(self.at..self.at + SLACK) {
            to.copy_from_slice(&self.held.to_le_bytes());
        }
        let whole = self.held_bits / 8;
        self.at += whole as usize;
        self.held >>= 8 * whole;
        self.held_bits %= 8;
    }

    /// Bytes that were begun.
    pub(super) fn finish(self) -> usize {
        self.at + usize::from(self.held_bits > 0)
    }
}

/// Reads bits from a slice.
pub(super) struct BitReader<'a> {
    bytes: &'a [u8],
    bit: usize,
}

impl<'a> BitReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, bit: 0 }
    }

    /// Bytes of which some bit was taken.
    pub(super) fn bytes_begun(&self) -> usize {
        self.bit.div_ceil(8)
    }

    /// The next bits, at least 56 that are right; zeros behind the end.
    #[inline(always)]
    pub(super) fn peek(&self) -> u64 {
        let at = self.bit / 8;
        let word = match self.bytes.get(at..at + SLACK).and_then(|s| s.first_chunk()) {
            Some(bytes) => u64::from_le_bytes(*bytes),
            None => self.tail(at),
        };
        word >> (self.bit % 8)
    }

    /// Leaves bits behind.
    #[inline(always)]
    pub(super) fn pass(&mut self, count: u32) {
        self.bit += count as usize;
    }

    /// The next `count` bits, at most 56; zeros behind the end.
    #[inline(always)]
    pub(super) fn take(&mut self, count: u32) -> u64 {
        let value = self.peek() & ((1 << count) - 1);
        self.pass(count);
        value
    }

    #[cold]
    fn tail(&self, at: usize) -> u64 {
        let rest = self.bytes.get(at..).unwrap_or_default();
        rest.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
    }
}
