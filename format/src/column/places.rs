//! Distinct values, numbered in the order of their first coming.

/// A hash table from values to their numbers, and the values by number.
#[derive(Default)]
pub(super) struct Places {
    values: Vec<u64>,
    /// One more than the number of the value in this slot; 0 where there is none. A power of two.
    slots: Vec<u32>,
}

impl Places {
    pub(super) fn clear(&mut self) {
        self.values.clear();
        self.slots.clear();
        self.slots.resize(256, 0);
    }

    /// The number of a value, new or not.
    #[inline]
    pub(super) fn of(&mut self, value: u64) -> u32 {
        let mask = self.slots.len() - 1;
        let mut at = Self::hash(value) & mask;
        loop {
            match self.slots[at] {
                0 => break,
                place if self.values.get(place as usize - 1) == Some(&value) => return place - 1,
                _ => at = (at + 1) & mask,
            }
        }
        self.add(value, at)
    }

    fn add(&mut self, value: u64, at: usize) -> u32 {
        self.values.push(value);
        let place = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
        self.slots[at] = place;
        if self.values.len() * 2 > self.slots.len() {
            let len = self.slots.len() * 4;
            self.slots.clear();
            self.slots.resize(len, 0);
            for (place, &value) in (1..).zip(&self.values) {
                let mut at = Self::hash(value) & (len - 1);
                while self.slots[at] != 0 {
                    at = (at + 1) & (len - 1);
                }
                self.slots[at] = place;
            }
        }
        place - 1
    }

    fn hash(value: u64) -> usize {
        (value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize
    }

    /// All values by number.
    pub(super) fn values(&self) -> &[u64] {
        &self.values
    }
}
