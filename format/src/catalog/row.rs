//! How a row of the event table becomes a type, its columns and its place among all events.

use super::event::Kind;
use super::word::{FuncId, StrId, TaskId};

/// A typed event: the fields of one row without `ts_ns` and `cpu`.
pub trait Event: Copy {
    /// The kind that the fields belong to.
    const KIND: Kind;
    /// Columns of the kind, `ts_ns` and `cpu` included.
    const WIDTH: usize;
    /// The words of a row.
    type Row: AsRef<[u64]>;
    /// The words of all columns in their order.
    fn row(&self, ts_ns: u64, cpu: u32) -> Self::Row;
    /// The typed fields of a row: `word(i)` gives the word of the kind's ith column, `ts_ns` being
    /// the 0th and `cpu` the 1st.
    fn gather(word: impl FnMut(usize) -> u64) -> Self;
}

/// Id of the column `ts_ns` in every kind.
pub const TS: u8 = 0;
/// Id of the column `cpu` in every kind.
pub const CPU: u8 = 1;
/// The CPU of events that belong to none.
pub const NO_CPU: u32 = 0xffff;

macro_rules! events {
    ($(
        $(#[doc = $doc:literal])*
        $id:literal $kind:ident $name:literal {$(
            $(#[doc = $cdoc:literal])*
            $cid:literal $col:ident: $ty:ty = $unit:expr, $shape:expr;
        )*}
    )*) => {
        /// The number of an event kind.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u16)]
        pub enum Kind {
            $($(#[doc = $doc])* $kind = $id,)*
        }

        impl Kind {
            /// The kind with this number, if this version knows it.
            #[must_use]
            pub fn from_number(number: u16) -> Option<Kind> {
                match number {
                    $($id => Some(Kind::$kind),)*
                    _ => None,
                }
            }
        }

        /// Every event kind of this version, by rising number.
        pub const EVENTS: &[EventKind] = &[$(EventKind {
            kind: Kind::$kind,
            name: $name,
            doc: concat!($($doc, "\n",)*),
            columns: &[
                Column { id: TS, name: "ts_ns", unit: Unit::TimeNs, nullable: false, shape: Shape::Rising,
                    doc: " CLOCK_MONOTONIC time of the event.\n" },
                Column { id: CPU, name: "cpu", unit: Unit::Cpu, nullable: false, shape: Shape::Runs,
                    doc: " CPU on which the event was recorded; 65535 where it belongs to none.\n" },
                $(Column { id: $cid, name: stringify!($col), unit: $unit, nullable: <$ty as Nullable>::NULLABLE,
                    shape: $shape, doc: concat!($($cdoc, "\n",)*) },)*
            ],
        },)*];

        $(
            $(#[doc = $doc])*
            #[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
            pub struct $kind {
                $($(#[doc = $cdoc])* pub $col: $ty,)*
            }

            impl Event for $kind {
                const KIND: Kind = Kind::$kind;
                const WIDTH: usize = 2 $(+ { let _ = $cid; 1 })*;
                type Row = [u64; Self::WIDTH];
                #[inline]
                fn row(&self, ts_ns: u64, cpu: u32) -> Self::Row {
                    [ts_ns, u64::from(cpu), $(self.$col.to_word(),)*]
                }
                #[inline]
                fn gather(mut word: impl FnMut(usize) -> u64) -> Self {
                    let mut at = 1;
                    Self { $($col: { at += 1; Word::from_word(word(at)) },)* }
                }
            }
        )*

        /// The fields of an event of any kind.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Body {
            $($(#[doc = $doc])* $kind($kind),)*
        }

        impl Body {
            /// The fields of a row of `kind`; see [`Event::gather`].
            #[inline]
            pub fn gather(kind: Kind, word: impl FnMut(usize) -> u64) -> Body {
                match kind {
                    $(Kind::$kind => Body::$kind($kind::gather(word)),)*
                }
            }

            /// Becomes the fields of a row of `kind`; see [`Event::gather`]. Nothing is moved: a body has room for the
            /// widest kind, and most are narrow.
            #[inline]
            pub fn regather(&mut self, kind: Kind, word: impl FnMut(usize) -> u64) {
                match kind {
                    $(Kind::$kind => *self = Body::$kind($kind::gather(word)),)*
                }
            }

            pub(crate) fn push_to<W: std::io::Write>(
                &self,
                writer: &mut crate::TraceWriter<W>,
                ts_ns: u64,
                cpu: u32,
            ) -> Result<(), crate::Error> {
                match self {
                    $(Body::$kind(fields) => writer.push(ts_ns, cpu, fields),)*
                }
            }

            /// The same event with other numbers, as for a file with other dictionaries: each field
            /// becomes what `renumber` makes of its column and its word. What is unknown stays so.
            #[must_use]
            pub fn renumbered(&self, mut renumber: impl FnMut(&Column, u64) -> u64) -> Body {
                match self {
                    $(Body::$kind(fields) => {
                        let mut row = fields.row(0, 0);
                        let columns = EVENTS.iter().find(|e| e.kind == Kind::$kind).map_or(&[][..], |e| e.columns);
                        for (word, column) in row.iter_mut().zip(columns).skip(2) {
                            if !(column.nullable && *word == super::word::NULL) {
                                *word = renumber(column, *word);
                            }
                        }
                        Body::$kind($kind::gather(|at| row.get(at).copied().unwrap_or_default()))
                    })*
                }
            }

            /// The kind of the event.
            #[must_use]
            pub fn kind(&self) -> Kind {
                match self {
                    $(Body::$kind(_) => Kind::$kind,)*
                }
            }
        }
    };
}

/// Whether a field type has a "not known".
pub(super) trait Nullable {
    const NULLABLE: bool;
}
macro_rules! nullable {
    ($($ty:ty)*) => {$(
        impl Nullable for $ty { const NULLABLE: bool = false; }
        impl Nullable for Option<$ty> { const NULLABLE: bool = true; }
    )*};
}
nullable! { u64 u32 i64 TaskId StrId FuncId }

pub(super) use events;
