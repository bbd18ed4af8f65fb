//! Which argument words of a function its entry record carries.

use bytemuck::{Pod, Zeroable};

/// Argument words that one entry record can carry.
pub const SLOTS: usize = 6;

/// Functions that can be told apart; ids run from 0 below this.
pub const MAX_FUNCTIONS: u32 = 4096;

/// Where one argument word comes from.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct ArgSlot {
    /// Number of the integer argument, from 0: register first, then the caller's stack.
    pub arg: u8,
    /// 0: the argument itself; 4 or 8: that many bytes at the address in the argument plus `offset`.
    pub width: u8,
    /// Byte offset of a dereference.
    pub offset: i16,
}

impl ArgSlot {
    /// The `n`th integer argument, from 0.
    pub const fn argument(n: u8) -> Self {
        Self { arg: n, width: 0, offset: 0 }
    }

    /// `width` bytes (4 or 8) at `offset` from where the `n`th argument points.
    pub const fn pointee(n: u8, offset: i16, width: u8) -> Self {
        Self { arg: n, width, offset }
    }
}

/// How [`FunctionSpec::text`] leads to a text.
pub mod text_form {
    /// It points at zero-terminated bytes.
    pub const BYTES: u8 = 0;
    /// It points at an `nvtxEventAttributes_t`: a number at byte 32 says 1 where the pointer at byte 40 is to
    /// zero-terminated bytes.
    pub const ATTRIBUTES: u8 = 1;
}

/// What to record of one function.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct FunctionSpec {
    /// The first `used` slots count.
    pub slots: [ArgSlot; SLOTS],
    /// Slots in use, 0 to [`SLOTS`].
    pub used: u8,
    /// 1 + n: register argument n points at a word that the function fills; its value is recorded at the return.
    pub out_ptr: u8,
    /// 1 + n: argument n leads to a text, which is recorded before the entry.
    pub text: u8,
    /// How argument `text` leads to it: one of [`text_form`].
    pub text_form: u8,
}

impl FunctionSpec {
    /// A function of which nothing but its entry, return and result matter.
    pub const NONE: Self = Self { slots: [ArgSlot::argument(0); SLOTS], used: 0, out_ptr: 0, text: 0, text_form: 0 };

    /// Records these words; slots past [`SLOTS`] are ignored.
    pub fn of(slots: &[ArgSlot]) -> Self {
        let mut spec = Self::NONE;
        for (to, from) in spec.slots.iter_mut().zip(slots) {
            *to = *from;
            spec.used += 1;
        }
        spec
    }

    /// Also records, at the return, the word that register argument `n` points at.
    pub fn with_out_ptr(mut self, n: u8) -> Self {
        self.out_ptr = n.saturating_add(1);
        self
    }

    /// Also records, before the entry, the text that register argument `n` leads to, in one of the ways of [`text_form`].
    pub fn with_text(mut self, n: u8, form: u8) -> Self {
        self.text = n.saturating_add(1);
        self.text_form = form;
        self
    }
}

/// A call under way whose out value is still to be read.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct OpenOut {
    /// Its stack pointer at entry; 0 marks a free place.
    pub sp: u64,
    /// Where the function will put the value.
    pub pointer: u64,
}

/// Such calls of one thread, innermost wherever there was room: a runtime call that enters the driver needs two.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct OpenOuts {
    /// In no order; the stack pointer tells which is which and which are stale.
    pub calls: [OpenOut; 4],
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::mem::size_of;

    #[test]
    fn spec_is_one_map_value_of_28_bytes() {
        assert_eq!((size_of::<ArgSlot>(), size_of::<FunctionSpec>()), (4, 28));
    }

    #[test]
    fn surplus_slots_are_ignored() {
        let spec = FunctionSpec::of(&[ArgSlot::argument(7); 9]);
        assert_eq!((usize::from(spec.used), spec.slots[4].arg), (SLOTS, 7));
    }
}
