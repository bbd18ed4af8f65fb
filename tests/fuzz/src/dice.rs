//! Numbers without a pattern, the same for the same seed.

/// SplitMix64.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to below `n`; 0 for 0.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.word() % n.max(1) as u64).unwrap_or(0)
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn byte(&mut self) -> u8 {
        const EDGES: [u8; 10] = [0, 1, 2, 8, 9, 16, 0x7f, 0x80, 0xfe, 0xff];
        let at = self.below(20);
        EDGES.get(at).copied().unwrap_or_else(|| self.word().to_le_bytes()[3])
    }

    /// A word of a length that is as likely as any other, or one at an edge.
    pub(crate) fn any_word(&mut self) -> u64 {
        const EDGES: [u64; 6] = [0, 1, u64::MAX, u64::MAX - 1, 1 << 63, u32::MAX as u64];
        if self.one_in(8) { EDGES[self.below(EDGES.len())] } else { self.word() >> self.below(64) }
    }

    /// Changes some of the bytes, or their number.
    pub(crate) fn spoil(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len());
            match self.below(8) {
                0 if !bytes.is_empty() => {
                    let to = (at + 1 + self.below(16)).min(bytes.len());
                    bytes.drain(at..to);
                }
                1 => {
                    let more: Vec<u8> = (0..=self.below(16)).map(|_| self.byte()).collect();
                    bytes.splice(at..at, more);
                }
                2 if !bytes.is_empty() => {
                    let to = (at + 1 + self.below(64)).min(bytes.len());
                    let copy = bytes[at..to].to_vec();
                    let into = self.below(bytes.len());
                    bytes.splice(into..into, copy);
                }
                _ => self.spoil_in_place(bytes, 1),
            }
        }
    }

    /// Changes up to so many bytes.
    pub(crate) fn spoil_in_place(&mut self, bytes: &mut [u8], most: usize) {
        for _ in 0..=self.below(most) {
            let (at, byte, bit) = (self.below(bytes.len()), self.byte(), self.below(8));
            let flip = self.one_in(2);
            if let Some(b) = bytes.get_mut(at) {
                *b = if flip { *b ^ (1 << bit) } else { byte };
            }
        }
    }
}
