//! What the numbers of a column are.

/// What the numbers of a column are. Stored in the file's schema by its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A point on `CLOCK_MONOTONIC`, nanoseconds.
    TimeNs,
    /// A length of time, nanoseconds.
    DurationNs,
    /// A processor number.
    Cpu,
    /// A [`TaskId`](super::TaskId).
    Task,
    /// A [`StrId`](super::StrId).
    Str,
    /// A [`FuncId`](super::FuncId).
    Func,
    /// A plain number.
    Number,
    /// A plain number that may be negative, zigzag coded.
    Signed,
    /// A size in bytes.
    Bytes,
    /// An address or a handle.
    Address,
    /// One of a few named values; the names are in the schema.
    Enum(&'static [(u64, &'static str)]),
    /// A set of bits.
    Flags,
}

impl Unit {
    /// The code of the unit in the file's schema.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Unit::TimeNs => 1,
            Unit::DurationNs => 2,
            Unit::Cpu => 3,
            Unit::Task => 4,
            Unit::Str => 5,
            Unit::Func => 6,
            Unit::Number => 7,
            Unit::Signed => 8,
            Unit::Bytes => 9,
            Unit::Address => 10,
            Unit::Enum(_) => 11,
            Unit::Flags => 12,
        }
    }

    /// The named values of an enumeration, empty for every other unit.
    #[must_use]
    pub fn names(self) -> &'static [(u64, &'static str)] {
        match self {
            Unit::Enum(names) => names,
            _ => &[],
        }
    }
}
