//! How a field of an event becomes the 64-bit word that a column stores, and back.

use crate::bytes::{unzigzag, zigzag};

/// The word that stands for "not known" in a nullable column.
///
/// No nullable column has this as a value: identifiers count up from 0, times are below 2^63 and
/// signed values are zigzag coded.
pub const NULL: u64 = u64::MAX;

/// A value that one 64-bit column word can carry.
pub trait Word: Copy {
    /// The word to store.
    fn to_word(self) -> u64;
    /// The value of a stored word. Words that the type cannot hold saturate; they never panic.
    fn from_word(word: u64) -> Self;
}

impl Word for u64 {
    #[inline]
    fn to_word(self) -> u64 {
        self
    }
    #[inline]
    fn from_word(word: u64) -> Self {
        word
    }
}

impl Word for u32 {
    #[inline]
    fn to_word(self) -> u64 {
        u64::from(self)
    }
    #[inline]
    fn from_word(word: u64) -> Self {
        u32::try_from(word).unwrap_or(u32::MAX)
    }
}

impl Word for i64 {
    #[inline]
    fn to_word(self) -> u64 {
        zigzag(self)
    }
    #[inline]
    fn from_word(word: u64) -> Self {
        unzigzag(word)
    }
}

impl<T: Word> Word for Option<T> {
    #[inline]
    fn to_word(self) -> u64 {
        self.map_or(NULL, Word::to_word)
    }
    #[inline]
    fn from_word(word: u64) -> Self {
        (word != NULL).then(|| T::from_word(word))
    }
}

macro_rules! identifiers {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl Word for $name {
            #[inline]
            fn to_word(self) -> u64 {
                u64::from(self.0)
            }
            #[inline]
            fn from_word(word: u64) -> Self {
                Self(u32::from_word(word))
            }
        }

        impl $name {
            /// The identifier as an index into its dictionary.
            #[must_use]
            #[inline]
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

identifiers! {
    /// A task of this file: one life of one thread. 0 is the idle task.
    TaskId;
    /// A string of this file. 0 is the empty string.
    StrId;
    /// A probed function, by its number in the file's function table.
    FuncId;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signed_words_round_trip_at_the_edges() {
        for v in [0, 1, -1, 2, -2, i64::MAX - 1, i64::MIN + 1, i64::MAX] {
            assert_eq!(i64::from_word(v.to_word()), v);
        }
        assert_eq!((-1i64).to_word(), 1);
    }

    #[test]
    fn null_is_none() {
        assert_eq!(None::<u32>.to_word(), NULL);
        assert_eq!(Option::<i64>::from_word(NULL), None);
        assert_eq!(Option::<i64>::from_word(Some(-5i64).to_word()), Some(-5));
    }
}
